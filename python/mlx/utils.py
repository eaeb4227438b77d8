"""Trees: nested lists, tuples and dictionaries of arrays (or of anything else).

Parameters, gradients and optimizer states are trees. Whatever is not a list, a tuple or a dict is a
leaf, unless its type is registered (`register_tree_node`, `register_dataclass`); `is_leaf` can make
it stop earlier. A tree is also a flat list of leaves with dotted names, which is how weights are
stored in files:

    {"layers": [{"w": a}, {"w": b}]}  <->  [("layers.0.w", a), ("layers.1.w", b)]

Empty containers have no leaves, so they have no place in the flat form.
"""

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial, reduce
from itertools import zip_longest
from typing import Any, TypeVar

from mlx.core import Error, _tree_types

T = TypeVar("T", bound=type)


def register_tree_node(
    cls: T,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, Any], Any],
) -> T:
    """Makes objects of type `cls` nodes of trees, for every transform and every function of trees.

    `flatten(node)` returns its children, as a list, a tuple or a dict of names, and whatever else is
    needed to make the object again; `unflatten(that, children)` makes one of other children, which
    come in the same form:

        class Linear:
            def __init__(self, weight, bias):
                self.weight, self.bias = weight, bias

        register_tree_node(Linear, lambda x: ((x.weight, x.bias), None), lambda _, c: Linear(*c))

    Children need not be arrays: a transform makes objects of placeholders too. Subclasses are
    registered by themselves. Functions that trace once, such as `mx.compile`, take what is beside the
    children for a constant, which they hash and compare with `==`.
    """
    if not isinstance(cls, type):
        raise TypeError(f"[register_tree_node] expected a type, got {cls!r}")
    if cls in (list, tuple, dict):
        raise Error(f"[register_tree_node] {cls.__name__} is a node already")
    for rule in (flatten, unflatten):
        if not callable(rule):
            raise TypeError(f"[register_tree_node] expected two functions, got {rule!r}")
    _tree_types[cls] = (flatten, unflatten)
    return cls


def register_dataclass(cls: T | None = None, *, static: Iterable[str] = ()) -> T:
    """Makes a dataclass a node of trees whose children are its fields; also as a decorator.

        @register_dataclass
        @dataclass
        class Parameters:
            weight: mx.array
            bias: mx.array

    Fields named in `static`, and attributes that are no fields, are no children: they are handed on as
    they are, and constants to `mx.compile`. Objects are made without a call of `__init__` and
    `__post_init__`.
    """
    if cls is None:
        return partial(register_dataclass, static=static)
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"[register_dataclass] expected a dataclass, got {cls!r}")
    fields = [f.name for f in dataclasses.fields(cls)]
    static = [static] if isinstance(static, str) else list(static)
    unknown = [name for name in static if name not in fields]
    if unknown:
        raise Error(f"[register_dataclass] {cls.__name__} has no field {unknown[0]!r}")
    names = [name for name in fields if name not in static]

    def flatten(node):
        rest = [(name, getattr(node, name)) for name in static]
        rest += [(k, v) for k, v in getattr(node, "__dict__", {}).items() if k not in fields]
        return {name: getattr(node, name) for name in names}, tuple(rest)

    def unflatten(rest, children):
        node = object.__new__(cls)
        for name, value in (*children.items(), *rest):
            object.__setattr__(node, name, value)
        return node

    return register_tree_node(cls, flatten, unflatten)


def _opened(node):
    """The children of an object of a registered type in a container, and what makes another of them."""
    flatten, unflatten = _tree_types[type(node)]
    children, rest = flatten(node)
    if not isinstance(children, (list, tuple, dict)):
        children = tuple(children)
    return children, partial(unflatten, rest)


def tree_map(fn: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None) -> Any:
    """A tree of the same structure whose leaves are `fn(leaf, *leaves of rest)`.

    The trees in `rest` need at least the places that `tree` has. Whether a place is a leaf is read
    from `tree` alone, so where it has a leaf the others may hold whole branches.
    """
    if is_leaf is None or not is_leaf(tree):
        if type(tree) in _tree_types:
            children, made_of = _opened(tree)
            return made_of(_map(fn, children, [_container(other) for other in rest], is_leaf))
        if isinstance(tree, (dict, list, tuple)):
            return _map(fn, tree, rest, is_leaf)
    return fn(tree, *rest)


def _map(fn, tree, rest, is_leaf):
    if isinstance(tree, dict):
        return {k: tree_map(fn, child, *_children(rest, k), is_leaf=is_leaf) for k, child in tree.items()}
    return _rebuild(tree, [tree_map(fn, child, *_children(rest, i), is_leaf=is_leaf) for i, child in enumerate(tree)])


def tree_map_with_path(
    fn: Callable,
    tree: Any,
    *rest: Any,
    is_leaf: Callable | None = None,
    path: Any | None = None,
) -> Any:
    """`tree_map` for a function that wants the dotted name of each leaf first.

    Names start with `path` when it is given. A tree that is a single leaf is called `path`.
    """
    if is_leaf is None or not is_leaf(tree):

        def visit(key, child):
            name = f"{path}.{key}" if path else str(key)
            return tree_map_with_path(fn, child, *_children(rest, key), is_leaf=is_leaf, path=name)

        made_of = _same
        if type(tree) in _tree_types:
            tree, made_of = _opened(tree)
            rest = [_container(other) for other in rest]
        if isinstance(tree, dict):
            return made_of({k: visit(k, child) for k, child in tree.items()})
        if isinstance(tree, (list, tuple)):
            return made_of(_rebuild(tree, [visit(i, child) for i, child in enumerate(tree)]))
    return fn(path, tree, *rest)


def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: Callable | None = None,
    destination: list[tuple[str, Any]] | dict[str, Any] | None = None,
) -> list[tuple[str, Any]] | dict[str, Any]:
    """The leaves with their dotted names, as a list of pairs.

    The pairs are added to `destination` when it is given: appended to a list, entered into a dict.
    Names start with `prefix`, less a dot in front. A tree that is a single leaf is called that.
    """
    if destination is None:
        destination = []
    if isinstance(destination, list):
        put = _append
    elif isinstance(destination, dict):
        put = dict.__setitem__
    else:
        raise Error(f"[tree_flatten] expected a list or a dict to add to, got {type(destination).__name__}")
    _flatten(tree, prefix, is_leaf, put, destination)
    return destination


def _append(pairs, name, leaf):
    pairs.append((name, leaf))


def _flatten(tree, name, is_leaf, put, destination):
    if is_leaf is None or not is_leaf(tree):
        container = _container(tree)
        if isinstance(container, dict):
            items = container.items()
        elif isinstance(container, (list, tuple)):
            items = enumerate(container)
        else:
            items = None
        if items is not None:
            for key, child in items:
                _flatten(child, f"{name}.{key}", is_leaf, put, destination)
            return
    put(destination, name.removeprefix("."), tree)


def tree_unflatten(tree: list[tuple[str, Any]] | dict[str, Any]) -> Any:
    """The tree whose flat form, a list of pairs or a dict, is `tree`.

    Where all names at one place are numbers the place is a list, with `{}` for numbers that are
    missing; tuples come back as lists, objects of registered types as lists or dicts. No pairs at all
    give an empty list. Names that leave more than 10,000 and 16 times their own number of places
    empty are an error: they are rather damaged than meant.
    """
    pairs = list(tree.items()) if isinstance(tree, dict) else list(tree)
    for name, _ in pairs:
        if not isinstance(name, str):
            raise TypeError(f"[tree_unflatten] expected names, got {name!r}")
    room = [10_000 + 16 * len(pairs)]
    return _unflatten([(name.split(".") if name else [], leaf) for name, leaf in pairs], "", room)


def _unflatten(pairs, place, room):
    """`pairs` holds, for every leaf below `place`, the rest of its name in parts. `room[0]` is the number of
    list places that may yet stay empty, in the whole tree."""
    if len(pairs) == 1 and not pairs[0][0]:
        return pairs[0][1]
    branches = {}
    for parts, leaf in pairs:
        if not parts:
            raise Error(f"[tree_unflatten] {_named(place)} holds a leaf and something else")
        branches.setdefault(parts[0], []).append((parts[1:], leaf))
    children = {key: _unflatten(below, f"{place}.{key}" if place else key, room) for key, below in branches.items()}
    if not all(key.isascii() and key.isdecimal() for key in children):
        return children
    by_number = {_number(key): child for key, child in children.items()}
    if len(by_number) < len(children):  # "0" and "00" are two names
        return children
    size = max(by_number, default=-1) + 1
    room[0] -= size - len(children)
    if room[0] < 0:
        last = max(children, key=_number)
        name = f"{place}.{last}" if place else last
        raise Error(
            f"[tree_unflatten] expected the numbers of a list without large gaps, got {_named(_short(name))} "
            f"where the list has {len(children)} elements"
        )
    return [by_number.get(i, {}) for i in range(size)]


def _short(name):
    return name if len(name) <= 80 else f"{name[:77]}..."


def _number(key):
    """The number that a name of digits stands for, or one far too large where it has too many digits to read."""
    digits = key.lstrip("0")
    return int(digits or "0") if len(digits) <= 18 else 10**18


def tree_reduce(fn, tree, initializer=None, is_leaf=None):
    """`fn(...fn(fn(initializer, leaf 0), leaf 1)..., leaf n)`, in the order of `tree_flatten`.

    Without an initializer the first leaf takes its place; a tree without leaves then gives None.
    """
    leaves = [leaf for _, leaf in tree_flatten(tree, is_leaf=is_leaf)]
    if initializer is not None:
        return reduce(fn, leaves, initializer)
    return reduce(fn, leaves) if leaves else None


def tree_merge(tree_a, tree_b, merge_fn=None):
    """One tree with the leaves of both.

    None and empty containers count as absent. Where both trees have something that is not a pair of
    dicts or of lists, `merge_fn(a, b)` decides; without it that is an error.
    """
    return _merge(tree_a, tree_b, merge_fn, "")


def _merge(a, b, merge_fn, place):
    if _absent(a):
        return b
    if _absent(b):
        return a
    inner = f"{place}." if place else ""
    if type(a) in _tree_types and type(b) is type(a):
        children, made_of = _opened(a)
        return made_of(_merge(children, _container(b), merge_fn, place))
    if isinstance(a, dict) and isinstance(b, dict):
        keys = list(a) + [k for k in b if k not in a]
        return {k: _merge(a.get(k), b.get(k), merge_fn, f"{inner}{k}") for k in keys}
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        children = [_merge(x, y, merge_fn, f"{inner}{i}") for i, (x, y) in enumerate(zip_longest(a, b))]
        return _rebuild(a, children)
    if merge_fn is None:
        raise Error(f"[tree_merge] both trees have something at {_named(place)} and no merge_fn was given")
    return merge_fn(a, b)


def _absent(tree):
    return tree is None or (isinstance(tree, (dict, list, tuple)) and len(tree) == 0)


def _named(place):
    return f'"{place}"' if place else "the root"


def _children(trees, key):
    """The child `key` of each tree; the error says where it is missing."""
    try:
        return [tree[key] for tree in trees]
    except (KeyError, IndexError) as e:
        raise type(e)(f"[tree_map] the first tree has a child {key!r} that another lacks") from None


def _container(tree):
    """The tree itself, or the children of an object of a registered type."""
    return _opened(tree)[0] if type(tree) in _tree_types else tree


def _same(tree):
    return tree


def _rebuild(like, children):
    """`children` in a container of the type of `like`: a list, a tuple or a named tuple."""
    kind = type(like)
    return kind(*children) if hasattr(like, "_fields") else kind(children)
