"""Layers whose weights are spread over the processes of a group.

With n processes an output of a linear layer is made of n parts (Shoeybi et al., "Megatron-LM: training
multi-billion parameter language models using model parallelism", 2019):

    all to sharded   every process has x and makes its own part of y:  y_i = x W_i^T + b_i
    sharded to all   every process has its own part of x:              y = sum_i x_i W_i^T + b

so the second undoes what the first does, and between them no process waits for another. Or each
process keeps a part of every weight and gets the rest when it is needed (`FullyShardedModule`). In a
group of one the layers are those that they are made of.
"""

import math
from collections.abc import Callable

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map_with_path

from .base import Module, _check_sizes
from .linear import Linear
from .quantized import QuantizedLinear, _Packed, _times


def sum_gradients(group):
    """A function that returns its argument, and whose gradient is the sum of those of all processes:
    for values that all of them hold and each uses in its own way."""
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def same(x):
        return x

    @same.vjp
    def same_vjp(x, cotangent, _):
        return mx.distributed.all_sum(cotangent, group=group)

    return same


# ------------------------------------------------------------------ parts of weights


def _pieces(weight, segments, axis):
    """`weight` cut along an axis: into as many equal pieces, or at these indices, or at these fractions
    of its length."""
    if isinstance(segments, list) and any(isinstance(s, float) for s in segments):
        segments = [int(s * weight.shape[axis]) for s in segments]
    return mx.split(weight, segments, axis=axis)


def _part(weight, axis, segments, group):
    """The part of this process: of each segment the one of its rank, one behind the other."""
    n, rank = group.size(), group.rank()
    parts = [mx.split(piece, n, axis=axis)[rank] for piece in _pieces(weight, segments, axis)]
    return mx.contiguous(mx.concatenate(parts, axis=axis))


def _all_to_sharded(path, weight):
    """The axis of the outputs: the last but one of weights, the only one of a bias."""
    return max(weight.ndim - 2, 0)


def _sharded_to_all(path, weight):
    """The axis of the inputs, which a bias has not."""
    return None if path.split(".")[-1] == "bias" else -1


_AXES = {"all-to-sharded": _all_to_sharded, "sharded-to-all": _sharded_to_all}


def _check_sharding(sharding):
    if sharding not in _AXES:
        raise mx.Error(f"expected a sharding of 'all-to-sharded' or 'sharded-to-all', got {sharding!r}")


def _parts(parameters, axis_of, segments, group):
    """A tree of the parts of this process. `axis_of(path, weight)` says along which axis, or (axis,
    segments), or None for those that every process keeps whole."""

    def part(path, weight):
        axis = axis_of(path, weight)
        if axis is None:
            return weight
        axis, own = axis if isinstance(axis, tuple) else (axis, segments)
        return _part(weight, axis, own, group)

    return tree_map_with_path(part, parameters)


def shard_inplace(
    module: Module,
    sharding: str | Callable,
    *,
    segments: int | list = 1,
    group: "mx.distributed.Group | None" = None,
):
    """Leave of the parameters of the module those parts that belong to this process.

    `sharding` is "all-to-sharded", "sharded-to-all" or a function of (path, weight) that returns the
    axis to cut, a pair of axis and segments, or None. `segments` says that weights hold several
    matrices one behind the other, such as those of queries, keys and values, each of which is to be
    cut: their number, or where they end, as indices or as fractions.
    """
    if not callable(sharding):
        _check_sharding(sharding)
    module.update(_parts(module.parameters(), _AXES.get(sharding, sharding), segments, group or mx.distributed.init()))


def shard_linear(
    module: Module,
    sharding: str,
    *,
    segments: int | list = 1,
    group: "mx.distributed.Group | None" = None,
):
    """A linear layer, quantized or not, as the layer of this file for this sharding, with the part of
    its weights that belongs to this process. `segments` as in `shard_inplace`."""
    _check_sharding(sharding)
    if not isinstance(module, (Linear, QuantizedLinear)):
        raise mx.Error(f"[shard_linear] expected a Linear or QuantizedLinear, got {type(module).__name__}")
    to_sharded = sharding == "all-to-sharded"
    if isinstance(module, Linear):
        cls = AllToShardedLinear if to_sharded else ShardedToAllLinear
        return cls.from_linear(module, segments=segments, group=group)
    cls = QuantizedAllToShardedLinear if to_sharded else QuantizedShardedToAllLinear
    return cls.from_quantized_linear(module, segments=segments, group=group)


def _share(layer, what, dims, group):
    """What each of the processes gets of `dims`."""
    if dims % group.size():
        raise mx.Error(
            f"[{type(layer).__name__}] expected {what} to be a multiple of the {group.size()} processes, got {dims}"
        )
    return dims // group.size()


# ------------------------------------------------------------------ linear layers


class AllToShardedLinear(Module):
    """The part of a `Linear` that makes output_dims / n of the outputs of n processes.

    x: (..., input_dims), the same in each, y: (..., output_dims / n), weight: (output_dims / n,
    input_dims), bias: (output_dims / n).
    """

    def __init__(
        self, input_dims: int, output_dims: int, bias: bool = True, group: "mx.distributed.Group | None" = None
    ):
        super().__init__()
        self.group = group or mx.distributed.init()
        _check_sizes(self, input_dims=input_dims)
        bound = math.sqrt(1.0 / input_dims)
        outputs = _share(self, "output_dims", output_dims, self.group)
        self.weight = mx.random.uniform(-bound, bound, (outputs, input_dims))
        if bias:
            self.bias = mx.random.uniform(-bound, bound, (outputs,))

    def _extra_repr(self):
        outputs, inputs = self.weight.shape
        return f"input_dims={inputs}, output_dims={outputs * self.group.size()}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        x = sum_gradients(self.group)(x)
        return mx.addmm(self.bias, x, self.weight.T) if "bias" in self else x @ self.weight.T

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: int | list = 1, group: "mx.distributed.Group | None" = None
    ):
        """The part of this process of a `Linear`; `segments` as in `shard_inplace`."""
        return _part_of(cls, linear_layer, _all_to_sharded, segments, group)


class ShardedToAllLinear(Module):
    """The part of a `Linear` that takes input_dims / n of the inputs; the outputs are summed over the n
    processes.

    x: (..., input_dims / n), y: (..., output_dims), the same in each process, weight: (output_dims,
    input_dims / n), bias: (output_dims).
    """

    def __init__(
        self, input_dims: int, output_dims: int, bias: bool = True, group: "mx.distributed.Group | None" = None
    ):
        super().__init__()
        self.group = group or mx.distributed.init()
        _check_sizes(self, input_dims=input_dims)
        bound = math.sqrt(1.0 / input_dims)
        inputs = _share(self, "input_dims", input_dims, self.group)
        self.weight = mx.random.uniform(-bound, bound, (output_dims, inputs))
        if bias:
            self.bias = mx.random.uniform(-bound, bound, (output_dims,))

    def _extra_repr(self):
        outputs, inputs = self.weight.shape
        return f"input_dims={inputs * self.group.size()}, output_dims={outputs}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(x @ self.weight.T, group=self.group)
        return y + self.bias if "bias" in self else y

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: int | list = 1, group: "mx.distributed.Group | None" = None
    ):
        """The part of this process of a `Linear`; `segments` as in `shard_inplace`."""
        return _part_of(cls, linear_layer, _sharded_to_all, segments, group)


def _part_of(cls, linear_layer, axis_of, segments, group):
    group = group or mx.distributed.init()
    outputs, inputs = linear_layer.weight.shape
    layer = cls(inputs, outputs, "bias" in linear_layer, group)
    layer.update(_parts(linear_layer.parameters(), axis_of, segments, group))
    return layer


# ------------------------------------------------------------------ quantized linear layers


class _PackedPart(_Packed):
    """What the quantized layers share: their parameters stay frozen."""

    def _begin(self, inputs, outputs, biases, group):
        """Random weights of these sizes, and as many biases, or None."""
        self.group = group
        _check_sizes(self, input_dims=inputs)
        bound = math.sqrt(1.0 / inputs)
        self._pack(mx.random.uniform(-bound, bound, (outputs, inputs)))
        if biases is not None:
            self.bias = mx.zeros((biases,))
            self.freeze(keys="bias", recurse=False)

    def unfreeze(self, *args, **kwargs):
        """Modules below can be unfrozen; there are no weights here that could be."""
        super().unfreeze(*args, **kwargs)
        self.freeze(recurse=False)
        return self

    @classmethod
    def _part_of(cls, quantized_linear_layer, axis_of, segments, group):
        from_ = quantized_linear_layer
        layer = cls._like(from_.group_size, from_.bits, from_.mode)
        layer.group = group or mx.distributed.init()
        layer.biases = None  # unless it has some
        for name, value in _parts(from_.parameters(), axis_of, segments, layer.group).items():
            setattr(layer, name, value)
        layer.freeze(recurse=False)
        return layer


class QuantizedAllToShardedLinear(_PackedPart):
    """`AllToShardedLinear` with packed weights, which are frozen (see `QuantizedLinear`)."""

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: "mx.distributed.Group | None" = None,
    ):
        super().__init__(group_size, bits, mode)
        group = group or mx.distributed.init()
        outputs = _share(self, "output_dims", output_dims, group)
        self._begin(input_dims, outputs, outputs if bias else None, group)

    def _extra_repr(self):
        outputs = self.weight.shape[0] * self.group.size()
        return f"input_dims={self._columns()}, output_dims={outputs}, bias={'bias' in self}, {self._how_text()}"

    def unfreeze(self, *args, **kwargs):
        return super().unfreeze(*args, **kwargs)

    def __call__(self, x: mx.array) -> mx.array:
        y = _times(self, sum_gradients(self.group)(x))
        return y + self.bias if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls, quantized_linear_layer: Module, *, segments: int | list = 1, group: "mx.distributed.Group | None" = None
    ):
        """The part of this process of a `QuantizedLinear`; `segments` as in `shard_inplace`."""
        return cls._part_of(quantized_linear_layer, _all_to_sharded, segments, group)


class QuantizedShardedToAllLinear(_PackedPart):
    """`ShardedToAllLinear` with packed weights, which are frozen (see `QuantizedLinear`)."""

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: "mx.distributed.Group | None" = None,
    ):
        super().__init__(group_size, bits, mode)
        group = group or mx.distributed.init()
        self._begin(_share(self, "input_dims", input_dims, group), output_dims, output_dims if bias else None, group)

    def _extra_repr(self):
        inputs = self._columns() * self.group.size()
        return f"input_dims={inputs}, output_dims={self.weight.shape[0]}, bias={'bias' in self}, {self._how_text()}"

    def unfreeze(self, *args, **kwargs):
        return super().unfreeze(*args, **kwargs)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(_times(self, x), group=self.group)
        return y + self.bias if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls, quantized_linear_layer: Module, *, segments: int | list = 1, group: "mx.distributed.Group | None" = None
    ):
        """The part of this process of a `QuantizedLinear`; `segments` as in `shard_inplace`."""
        return cls._part_of(quantized_linear_layer, _sharded_to_all, segments, group)


# ------------------------------------------------------------------ all parameters in parts


class FullyShardedModule(Module):
    """A module of whose parameters each process keeps an n-th part, along the first axis, where that is
    a multiple of n (Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter
    models", 2020).

    For each call the parts are gathered, in `compute_dtype` where it is given. The gradient of a part
    is the mean of what the processes find for it, so the optimizer needs to know parts alone. Modules
    of this kind inside gather their own parameters.
    """

    def __init__(
        self,
        module: Module,
        group: "mx.distributed.Group | None" = None,
        compute_dtype: mx.Dtype | None = None,
    ):
        super().__init__()
        self.module = module
        self.group = group or mx.distributed.init()
        self.compute_dtype = compute_dtype
        inner = [f"{name}." for name, m in module.named_modules() if isinstance(m, FullyShardedModule)]
        own = [(name, w) for name, w in tree_flatten(module.parameters()) if not name.startswith(tuple(inner))]
        self._own = {name for name, _ in own}
        self._sharded = {name for name, w in own if w.ndim and w.shape[0] % self.group.size() == 0}
        shard_inplace(module, lambda name, w: 0 if name in self._sharded else None, group=self.group)

    def _extra_repr(self):
        return f"num_sharded_params={len(self._sharded)}"

    def _whole(self, name, part):
        """A parameter as the module needs it."""
        if name not in self._own:
            return part
        if name in self._sharded and self.group.size() > 1:
            return _gather(self.group, self.compute_dtype)(part)
        floating = mx.issubdtype(part.dtype, mx.floating)
        return part.astype(self.compute_dtype) if self.compute_dtype is not None and floating else part

    def _call_with_whole(self, fn, args, kwargs):
        parts = self.module.parameters()
        try:
            self.module.update(tree_map_with_path(self._whole, parts))
            return fn(*args, **kwargs)
        finally:
            self.module.update(parts)

    def __call__(self, *args, **kwargs):
        return self._call_with_whole(self.module, args, kwargs)

    def as_linear(self, *args, **kwargs):
        """`as_linear` of a module that has it, such as `Embedding`."""
        return self._call_with_whole(self.module.as_linear, args, kwargs)


def _gather(group, dtype):
    """All parts of an array; the gradient of a part is the mean over the processes."""

    @mx.custom_function
    def gather(part):
        floating = mx.issubdtype(part.dtype, mx.floating)
        return mx.distributed.all_gather(part.astype(dtype) if dtype is not None and floating else part, group=group)

    @gather.vjp
    def gather_vjp(part, cotangent, _):
        return (mx.distributed.sum_scatter(cotangent, group=group) / group.size()).astype(part.dtype)

    return gather


def fully_shard(
    module: Module,
    *,
    group: "mx.distributed.Group | None" = None,
    compute_dtype: mx.Dtype | None = None,
) -> Module:
    """The module as a `FullyShardedModule`; in a group of one as it is."""
    group = group or mx.distributed.init()
    return module if group.size() == 1 else FullyShardedModule(module, group, compute_dtype)
