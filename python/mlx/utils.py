"""Trees: nested lists, tuples and dictionaries of arrays (or of anything else).

Parameters, gradients and optimizer states are trees. Whatever is not a list, a tuple or a dict is a
leaf; `is_leaf` can make it stop earlier. A tree is also a flat list of leaves with dotted names,
which is how weights are stored in files:

    {"layers": [{"w": a}, {"w": b}]}  <->  [("layers.0.w", a), ("layers.1.w", b)]

Empty containers have no leaves, so they have no place in the flat form.
"""

from collections.abc import Callable
from functools import reduce
from itertools import zip_longest
from typing import Any


def tree_map(fn: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None) -> Any:
    """A tree of the same structure whose leaves are `fn(leaf, *leaves of rest)`.

    The trees in `rest` need at least the places that `tree` has. Whether a place is a leaf is read
    from `tree` alone, so where it has a leaf the others may hold whole branches.
    """
    if is_leaf is None or not is_leaf(tree):
        if isinstance(tree, dict):
            return {k: tree_map(fn, child, *_children(rest, k), is_leaf=is_leaf) for k, child in tree.items()}
        if isinstance(tree, (list, tuple)):
            return _rebuild(
                tree,
                [tree_map(fn, child, *_children(rest, i), is_leaf=is_leaf) for i, child in enumerate(tree)],
            )
    return fn(tree, *rest)


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

        if isinstance(tree, dict):
            return {k: visit(k, child) for k, child in tree.items()}
        if isinstance(tree, (list, tuple)):
            return _rebuild(tree, [visit(i, child) for i, child in enumerate(tree)])
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
        raise ValueError(f"[tree_flatten] expected a list or a dict to add to, got {type(destination).__name__}")
    _flatten(tree, prefix, is_leaf, put, destination)
    return destination


def _append(pairs, name, leaf):
    pairs.append((name, leaf))


def _flatten(tree, name, is_leaf, put, destination):
    if is_leaf is None or not is_leaf(tree):
        if isinstance(tree, dict):
            items = tree.items()
        elif isinstance(tree, (list, tuple)):
            items = enumerate(tree)
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
    missing; tuples come back as lists. No pairs at all give an empty list.
    """
    pairs = list(tree.items()) if isinstance(tree, dict) else list(tree)
    return _unflatten([(name.split(".") if name else [], leaf) for name, leaf in pairs], "")


def _unflatten(pairs, place):
    """`pairs` holds, for every leaf below `place`, the rest of its name in parts."""
    if len(pairs) == 1 and not pairs[0][0]:
        return pairs[0][1]
    branches = {}
    for parts, leaf in pairs:
        if not parts:
            raise ValueError(f"[tree_unflatten] {_named(place)} holds a leaf and something else")
        branches.setdefault(parts[0], []).append((parts[1:], leaf))
    children = {key: _unflatten(below, f"{place}.{key}" if place else key) for key, below in branches.items()}
    if not all(key.isdecimal() for key in children):
        return children
    by_number = {int(key): child for key, child in children.items()}
    return [by_number.get(i, {}) for i in range(max(by_number, default=-1) + 1)]


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
    if isinstance(a, dict) and isinstance(b, dict):
        keys = list(a) + [k for k in b if k not in a]
        return {k: _merge(a.get(k), b.get(k), merge_fn, f"{inner}{k}") for k in keys}
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        children = [_merge(x, y, merge_fn, f"{inner}{i}") for i, (x, y) in enumerate(zip_longest(a, b))]
        return _rebuild(a, children)
    if merge_fn is None:
        raise ValueError(f"[tree_merge] both trees have something at {_named(place)} and no merge_fn was given")
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


def _rebuild(like, children):
    """`children` in a container of the type of `like`: a list, a tuple or a named tuple."""
    kind = type(like)
    return kind(*children) if hasattr(like, "_fields") else kind(children)
