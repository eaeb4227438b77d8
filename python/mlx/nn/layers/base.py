"""Module: what every layer and every model is."""

import textwrap
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import index, setitem
from os import PathLike
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten


class Module(mx._Attributes):
    """A tree of arrays and other modules that can be called.

    A module is a dict. Attributes that are arrays, modules, lists, tuples or dicts are its items;
    everything else (numbers, strings, functions) is a plain attribute. So the parameters of a model
    are found by walking the dict, and no registration is needed:

        class MLP(nn.Module):
            def __init__(self, dims):
                super().__init__()
                self.layers = [nn.Linear(a, b) for a, b in zip(dims, dims[1:])]

            def __call__(self, x):
                for layer in self.layers[:-1]:
                    x = nn.relu(layer(x))
                return self.layers[-1](x)

    A *parameter* is an array in the module itself or in lists and dicts below it, at any depth;
    tuples are kept but not searched, and names that start with an underscore are private. Names of
    nested things are dotted: "layers.0.weight". Parameters can be frozen: they stay parameters, but
    `trainable_parameters`, and with it `nn.value_and_grad`, leaves them out.
    """

    def __init__(self):
        self._no_grad = set()  # names of frozen parameters, dotted inside lists and dicts
        self._training = True

    # ---------------------------------------------------------------- attributes

    def __getattr__(self, key: str):
        # Reached only for what is no plain attribute, and as a rule no item either: mx._Attributes has found those.
        if key in self:
            return self[key]
        return super().__getattribute__(key)  # says what is missing, a property by itself

    def __setattr__(self, key: str, val: Any):
        is_item = isinstance(_compiled_module(val), (mx.array, dict, list, tuple))
        of_class = getattr(type(self), key, None)
        if is_item and not isinstance(of_class, property):
            self.__dict__.pop(key, None)
            if isinstance(of_class, MemberDescriptorType):
                with suppress(AttributeError):
                    super().__delattr__(key)
            self[key] = val
        else:
            super().__setattr__(key, val)
            self.pop(key, None)

    def __delattr__(self, name):
        if name in self:
            del self[name]
        else:
            super().__delattr__(name)

    def _extra_repr(self) -> str:
        """What a layer's repr shows between the parentheses."""
        return ""

    @recursive_repr()
    def __repr__(self):
        children = tree_flatten(self.children(), is_leaf=self.is_module)
        head = f"{type(self).__name__}({self._extra_repr()}"
        if not children:
            return head + ")"
        lines = [textwrap.indent(f"({name}): {child!r}", "  ") for name, child in children]
        return "\n".join([head, *lines, ")"])

    @property
    def training(self):
        """Whether the module is in training mode, see `train`."""
        return self._training

    @property
    def state(self):
        """The module itself, as the dict of all it holds: what a compiled step captures."""
        return self

    # ---------------------------------------------------------------- walking the tree

    @staticmethod
    def is_module(value):
        return isinstance(value, Module)

    # Filters say which items a walk visits. `key` is dotted inside lists and dicts.

    @staticmethod
    def valid_child_filter(module, key, value):
        return isinstance(value, (dict, list))

    @staticmethod
    def valid_parameter_filter(module, key, value):
        return isinstance(value, (dict, list, mx.array)) and not key.startswith("_")

    @staticmethod
    def trainable_parameter_filter(module, key, value):
        return Module.valid_parameter_filter(module, key, value) and key not in module._no_grad

    def filter_and_map(
        self,
        filter_fn: Callable[["Module", str, Any], bool],
        map_fn: Callable | None = None,
        is_leaf_fn: Callable[["Module", str, Any], bool] | None = None,
    ):
        """A tree of `map_fn(value)` for the items that pass `filter_fn(module, key, value)`.

        `is_leaf_fn(module, key, value)` says where to stop; by default at whatever is not a module,
        a dict or a list. An item that does not pass is left out of a module and is `{}` inside a
        list or a dict, so that the others keep their places.
        """
        map_fn = _unchanged if map_fn is None else map_fn
        is_leaf_fn = _no_container if is_leaf_fn is None else is_leaf_fn
        return _Walk(filter_fn, map_fn, is_leaf_fn).visit_items(self)

    def parameters(self):
        """The tree of all parameters."""
        return self.filter_and_map(self.valid_parameter_filter)

    def trainable_parameters(self):
        """The tree of the parameters that are not frozen."""
        return self.filter_and_map(self.trainable_parameter_filter)

    def children(self):
        """The tree of the modules directly below this one."""
        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=lambda module, key, value: self.is_module(value))

    def leaf_modules(self):
        """The tree of the modules below this one that have none below them but such as hold nothing (an activation)."""

        def is_leaf(module, key, value):
            return self.is_module(value) and not any(map(holds, value.modules()[1:]))

        def holds(module):
            return any(not self.is_module(v) for _, v in tree_flatten(dict(module), is_leaf=self.is_module))

        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=is_leaf)

    def named_modules(self):
        """This module, named "", and all modules below it, as a list of (name, module)."""
        found = []
        waiting = [("", self, [])]
        while waiting:
            name, module, above = waiting.pop()
            _check_new(module, above)
            found.append((name, module))
            children = tree_flatten(module.children(), prefix=name, is_leaf=self.is_module)
            waiting += [(*child, [*above, module]) for child in children]
        return found

    def modules(self):
        """This module and all modules below it."""
        return [module for _, module in self.named_modules()]

    def apply_to_modules(self, apply_fn: Callable[[str, "Module"], Any]) -> "Module":
        """Call `apply_fn(name, module)` for this module and all below it."""
        for name, module in self.named_modules():
            apply_fn(name, module)
        return self

    # ---------------------------------------------------------------- replacing parameters

    def update(self, parameters: dict, strict: bool = True) -> "Module":
        """Replace the parameters named in a tree, which may name only some of them.

        With `strict`, a name that the module does not have, or something other than an array for a
        parameter, is an error. Shapes are not compared: a model may be given weights of another
        size. A failed update has replaced none.
        """
        _replace(self, parameters, mx.array, strict, "update")
        return self

    def update_modules(self, modules: dict, strict: bool = True) -> "Module":
        """Replace the modules named in a tree, such as `children` and `leaf_modules` give: all or none."""
        _replace(self, modules, Module, strict, "update_modules")
        return self

    def apply(
        self,
        map_fn: Callable[[mx.array], mx.array],
        filter_fn: Callable[["Module", str, Any], bool] | None = None,
    ) -> "Module":
        """Replace each parameter by `map_fn(parameter)`; `filter_fn` can narrow down which."""
        arrays = self.filter_and_map(
            filter_fn or self.valid_parameter_filter,
            map_fn=lambda value: map_fn(value) if isinstance(value, mx.array) else {},
        )
        return self.update(arrays)

    def set_dtype(
        self,
        dtype: mx.Dtype,
        predicate: Callable[[mx.Dtype], bool] | None = lambda t: mx.issubdtype(t, mx.floating),
    ):
        """Convert the parameters whose dtype satisfies the predicate, by default floating ones.

        With `predicate=None` all are converted.
        """

        def convert(x):
            return x.astype(dtype) if predicate is None or predicate(x.dtype) else x

        self.apply(convert)

    # ---------------------------------------------------------------- files

    def save_weights(self, file: str):
        """Write all parameters under their dotted names to a .npz or .safetensors file."""
        weights = tree_flatten(self.parameters(), destination={})
        if str(file).endswith(".npz"):
            mx.savez(file, **weights)
        elif str(file).endswith(".safetensors"):
            mx.save_safetensors(file, weights)
        else:
            raise mx.Error(f"[save_weights] expected a file name ending in .npz or .safetensors, got {file}")

    def load_weights(
        self,
        file_or_weights: str | list[tuple[str, mx.array]],
        strict: bool = True,
    ) -> "Module":
        """Replace parameters by those of a file, or of a list of pairs (dotted name, array).

        With `strict` the names must be exactly those of the model's parameters and the shapes
        theirs, otherwise whatever fits by name is taken, NumPy's arrays as well.
        """
        weights = _named_weights(file_or_weights)
        if strict:
            self._check_weights(weights)
        else:
            own = tree_flatten(self.parameters(), destination={})
            weights = {name: _weight(name, value) if name in own else value for name, value in weights.items()}
        return self.update(tree_unflatten(weights) if weights else {}, strict=False)

    def _check_weights(self, weights):
        own = tree_flatten(self.parameters(), destination={})
        if extra := sorted(weights.keys() - own.keys()):
            raise mx.Error(f"Received {len(extra)} parameters not in model: {_listed(extra)}")
        if missing := sorted(own.keys() - weights.keys()):
            raise mx.Error(f"Missing {len(missing)} parameters: {_listed(missing)}")
        for name, value in own.items():
            new = weights[name]
            if not isinstance(new, mx.array):
                raise mx.Error(f"[load_weights] expected an array for {name}, got {type(new).__name__}")
            if new.shape != value.shape:
                raise mx.Error(f"[load_weights] expected shape {value.shape} for {name}, got {new.shape}")

    # ---------------------------------------------------------------- freezing, training mode

    def freeze(
        self,
        *,
        recurse: bool = True,
        keys: str | list[str] | None = None,
        strict: bool = False,
    ) -> "Module":
        """Keep parameters from being trained: all of them, or in each module those in `keys`.

        `model.freeze(keys="bias")` freezes every bias; with `recurse=False` only this module is
        touched, not those below. With `strict` a key that none of them has is an error.
        """
        if strict:
            self._check_keys("freeze", keys, recurse)
        for module in self.modules() if recurse else [self]:
            module._no_grad |= module._frozen_names(keys)
        return self

    def unfreeze(
        self,
        *,
        recurse: bool = True,
        keys: str | list[str] | None = None,
        strict: bool = False,
    ) -> "Module":
        """The opposite of `freeze`, with the same arguments.

        What `BatchNorm` counts along is left frozen where `keys` does not name it.
        """
        if strict:
            self._check_keys("unfreeze", keys, recurse)
        for module in self.modules() if recurse else [self]:
            if keys is None:
                module._no_grad.clear()
                module._no_grad |= module._statistics()
            else:
                module._no_grad -= module._frozen_names(keys)
        return self

    def _statistics(self):
        """The names of parameters that are not learned, only saved with the others."""
        return set()

    def _frozen_names(self, keys):
        """The set of names that `keys`, the argument of `freeze` and `unfreeze`, stands for."""
        if keys is None:
            return self._own_parameter_names()
        return {keys} if isinstance(keys, str) else set(keys)

    def _check_keys(self, caller, keys, recurse):
        modules = self.modules() if recurse else [self]
        for name in [] if keys is None else sorted(self._frozen_names(keys)):
            if not any(name in module for module in modules):
                raise KeyError(f"[{caller}] {type(self).__name__} has no member {name!r}")

    def _own_parameter_names(self):
        """Dotted names of the parameters that are not in a module below."""
        own = self.filter_and_map(
            lambda module, key, value: not self.is_module(value) and self.valid_parameter_filter(module, key, value)
        )
        return {name for name, _ in tree_flatten(own)}

    def _set_training_mode(self, mode):
        """What training mode means to this module alone; layers may do more."""
        self._training = mode

    def train(self, mode: bool = True) -> "Module":
        """Set training mode here and below: dropout and batch normalization act on it."""
        for module in self.modules():
            module._set_training_mode(mode)
        return self

    def eval(self) -> "Module":
        """The same as `train(False)`."""
        return self.train(False)


mx._Attributes._found_by(Module.__getattr__)


def _check_new(container, above):
    """Raise an error for a module, a dict or a list that is around itself: a walk below it would not end."""
    if any(container is other for other in above):
        raise mx.Error(
            f"[Module] expected a tree of modules, got a {type(container).__name__} that contains itself; "
            "object.__setattr__ sets an attribute that is not in the tree"
        )


def _check_ints(layer, **values):
    """Raise an error for a value, given by its name, that is no int."""
    for name, value in values.items():
        try:
            index(value)
        except TypeError:
            raise mx.ConversionError(f"[{type(layer).__name__}] expected an int for {name}, got {value!r}") from None


def _check_sizes(layer, **sizes):
    """Raise an error for a size, given by its name, below 1: random weights of such a layer have no scale."""
    _check_ints(layer, **sizes)
    for name, size in sizes.items():
        if size < 1:
            raise mx.Error(f"[{type(layer).__name__}] expected {name} of at least 1, got {size}")


def _named_weights(source):
    """The dict of names and arrays that `load_weights` is given in one of several forms."""
    if isinstance(source, (str, PathLike)):
        weights = mx.load(source)
        if not isinstance(weights, dict):
            raise mx.Error(
                f"[load_weights] expected a file of arrays with names (.npz, .safetensors, .gguf), got one array "
                f"without a name in {source}"
            )
        return weights
    if not isinstance(source, Iterable) or isinstance(source, (mx.array, bytes)):
        raise mx.ConversionError(
            f"[load_weights] expected the name of a file or pairs of names and arrays, got {type(source).__name__}"
        )
    weights = {}
    for pair in source.items() if isinstance(source, dict) else source:
        if not (isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str)):
            raise mx.ConversionError(f"[load_weights] expected pairs of a name and an array, got {_shown(pair)}")
        weights[pair[0]] = pair[1]
    return weights


def _listed(names):
    """As programs read them out of the message, so that these are the words of the `mlx` package."""
    return "\n" + ",\n".join(names) + "."


def _shown(pair):
    if isinstance(pair, (list, tuple)):
        return f"a {type(pair).__name__} of {', '.join(type(x).__name__ for x in pair[:4]) or 'nothing'}"
    return type(pair).__name__


def _weight(name, value):
    """`value` as an array of ours."""
    if isinstance(value, mx.array):
        return value
    if hasattr(value, "__array__"):
        return mx.array(value)
    raise mx.Error(f"[load_weights] expected an array for {name}, got {type(value).__name__}")


def _compiled_module(value):
    """The module that mx.compile made this function of: it is walked in its place. Anything else as it is."""
    module = value.__wrapped__ if type(value) is _Compiled else None
    return module if isinstance(module, Module) else value


_Compiled = type(mx.compile(len))


class _Walk:
    """`Module.filter_and_map`, on its way. Nested functions that call each other would be a cycle, in which a module
    stays until the collector runs."""

    __slots__ = ("above", "filter_fn", "is_leaf_fn", "map_fn")

    def __init__(self, filter_fn, map_fn, is_leaf_fn):
        self.filter_fn, self.map_fn, self.is_leaf_fn = filter_fn, map_fn, is_leaf_fn
        self.above = []  # what is around the current item

    def visit(self, module, key, value):
        """Map one item; `key` is its name within `module`, the innermost module around it."""
        value = _compiled_module(value)
        if self.is_leaf_fn(module, key, value):
            return self.map_fn(value)
        if isinstance(value, Module):
            return self.visit_items(value)
        if isinstance(value, (dict, list)):
            return self.visit_container(module, key, value)
        raise mx.Error(
            f"[filter_and_map] {key!r} is neither a leaf nor a container: "
            f"is_leaf_fn turned down a {type(value).__name__}"
        )

    def visit_container(self, module, key, value):
        _check_new(value, self.above)
        self.above.append(value)
        if isinstance(value, dict):
            children = {k: self.visit_nested(module, f"{key}.{k}", v) for k, v in value.items()}
        else:
            children = [self.visit_nested(module, f"{key}.{i}", v) for i, v in enumerate(value)]
        self.above.pop()
        return children

    def visit_nested(self, module, key, value):
        return self.visit(module, key, value) if self.filter_fn(module, key, _compiled_module(value)) else {}

    def visit_items(self, module):
        _check_new(module, self.above)
        self.above.append(module)
        passes, visit = self.filter_fn, self.visit
        items = {k: visit(module, k, v) for k, v in module.items() if passes(module, k, _compiled_module(v))}
        self.above.pop()
        return items


def _unchanged(value):
    return value


def _no_container(module, key, value):
    return not isinstance(value, (dict, list))


def _replace(target, source, kind, strict, caller):
    """Put the arrays, or the modules (`kind` says which), of `source` at their places in `target`: all or none."""
    places = []
    _find_places(target, source, kind, strict, caller, "", places)
    before = [(container, key, container[key]) for container, key, _ in places]
    try:
        _put(places)
    except BaseException:
        _put(before)
        raise


def _put(places):
    """Set items, (container, key, value) each, in one call of C: no signal is handled before its end."""
    if places:
        deque(map(setitem, *zip(*places)), maxlen=0)


class _WrongTree(mx.Error, KeyError):
    """A list where there are names, or the reverse, which programs know as a KeyError."""

    __str__ = mx.Error.__str__


def _find_places(target, source, kind, strict, caller, path, places):
    """Append (container, key, new) for what is to be replaced in `target`.

    Both are trees of dicts and lists. Empty containers in `source` stand for "nothing here".
    """
    is_branch = isinstance(source, (dict, list)) and not isinstance(source, kind)
    if is_branch and isinstance(source, dict) and isinstance(target, dict):
        items, has = source.items(), target.__contains__
    elif is_branch and isinstance(source, list) and isinstance(target, list):
        items, has = enumerate(source), lambda i: i < len(target)
    elif strict and not (is_branch and len(source) == 0):
        raise (_WrongTree if is_branch else mx.Error)(
            f"[{caller}] expected {type(target).__name__} for {path or 'the module itself'}, "
            f"got {type(source).__name__}"
        )
    else:
        return

    for key, new in items:
        name = f"{path}.{key}" if path else str(key)
        if not has(key):
            if strict:
                what = "parameter" if kind is mx.array else "module"
                raise mx.Error(f"[{caller}] the model has no {what} named {name}")
        elif isinstance(new, kind) and isinstance(target[key], kind):
            places.append((target, key, new))
        else:
            if _compiled_module(target[key]) is not target[key] and len(new):
                raise mx.ConversionError(
                    f"[{caller}] expected a module for {name}, got a compiled one, whose traces hold the values "
                    "that it had: compile it anew afterwards"
                )
            _find_places(target[key], new, kind, strict, caller, name, places)
