"""Initializers: functions that take an array and return a new one of its shape.

    init = nn.init.he_normal()
    layer.apply(lambda w: init(w) if w.ndim > 1 else w)

Layers store their weights as (outputs, ..., inputs), with the window of a convolution in between;
`fan_in` is the number of values that one output sums, `fan_out` the number of sums that one input
enters.
"""

import math
from collections.abc import Callable
from typing import Literal

import mlx.core as mx


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """All values are `value`."""

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return initializer


def normal(mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """Values from the normal law with this mean and standard deviation."""

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(shape=a.shape, loc=mean, scale=std, dtype=dtype)

    return initializer


def uniform(low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """Values uniform in [low, high)."""

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return initializer


def identity(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """The identity matrix, for a square array."""

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2 or a.shape[0] != a.shape[1]:
            raise mx.Error(f"[init.identity] expected a square matrix, got shape {a.shape}")
        return mx.eye(a.shape[0], dtype=dtype)

    return initializer


def _fans(a, caller):
    """(fan_in, fan_out) of a weight of shape (outputs, *window, inputs); 1 for 0, of which nothing comes."""
    if a.ndim < 2:
        raise mx.Error(f"[init.{caller}] expected at least 2 dimensions, got shape {a.shape}")
    window = math.prod(a.shape[1:-1])
    return a.shape[-1] * window or 1, a.shape[0] * window or 1


def _fan(a, mode, caller):
    fan_in, fan_out = _fans(a, caller)
    if mode not in ("fan_in", "fan_out"):
        raise mx.Error(f"[init.{caller}] expected mode fan_in or fan_out, got {mode!r}")
    return fan_in if mode == "fan_in" else fan_out


def glorot_normal(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)).

    It keeps the variance of values and gradients from layer to layer as long as the network is
    linear (Glorot & Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", 2010).
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        std = gain * math.sqrt(2 / sum(_fans(a, "glorot_normal")))
        return mx.random.normal(shape=a.shape, scale=std, dtype=dtype)

    return initializer


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> Callable[[mx.array, float], mx.array]:
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out)): the same variance as `glorot_normal`."""

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        bound = gain * math.sqrt(6 / sum(_fans(a, "glorot_uniform")))
        return mx.random.uniform(-bound, bound, a.shape, dtype=dtype)

    return initializer


def he_normal(
    dtype: mx.Dtype = mx.float32,
) -> Callable[[mx.array, Literal["fan_in", "fan_out"], float], mx.array]:
    """Normal with standard deviation gain / sqrt(fan).

    With gain sqrt(2) it keeps the variance through layers followed by a ReLU, which halves it (He
    et al., "Delving deep into rectifiers", 2015).
    """

    def initializer(a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0) -> mx.array:
        std = gain / math.sqrt(_fan(a, mode, "he_normal"))
        return mx.random.normal(shape=a.shape, scale=std, dtype=dtype)

    return initializer


def he_uniform(
    dtype: mx.Dtype = mx.float32,
) -> Callable[[mx.array, Literal["fan_in", "fan_out"], float], mx.array]:
    """Uniform in +-gain * sqrt(3 / fan): the same variance as `he_normal`."""

    def initializer(a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0) -> mx.array:
        bound = gain * math.sqrt(3 / _fan(a, mode, "he_uniform"))
        return mx.random.uniform(-bound, bound, a.shape, dtype=dtype)

    return initializer


def sparse(
    sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32
) -> Callable[[mx.array], mx.array]:
    """A matrix with normal values of which the share `sparsity` of each row, rounded up, is 0.

    Outputs that depend on few inputs differ more (Martens, "Deep learning via Hessian-free
    optimization", 2010).
    """
    if not 0 <= sparsity <= 1:
        raise mx.Error(f"[init.sparse] expected sparsity in [0, 1], got {sparsity}")

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise mx.Error(f"[init.sparse] expected 2 dimensions, got shape {a.shape}")
        zeros = math.ceil(sparsity * a.shape[1])
        # The order of random numbers is a random permutation; its first members become zeros.
        order = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)
        values = mx.random.normal(shape=a.shape, loc=mean, scale=std, dtype=dtype)
        return mx.put_along_axis(values, order[:, :zeros], mx.array(0, dtype), axis=1)

    return initializer


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Callable[[mx.array], mx.array]:
    """`gain` times a random matrix whose rows, or columns if those are fewer, are orthonormal.

    It keeps lengths through deep linear networks (Saxe et al., "Exact solutions to the nonlinear
    dynamics of learning in deep linear neural networks", 2013).
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise mx.Error(f"[init.orthogonal] expected 2 dimensions, got shape {a.shape}")
        rows, cols = a.shape
        n = max(rows, cols)
        q, r = mx.linalg.qr(mx.random.normal(shape=(n, n)), stream=mx.cpu)
        # Signs of r's diagonal make the law of q uniform (Mezzadri, 2006), and so that of its parts.
        q = q * mx.where(mx.diag(r) < 0, -1, 1)
        return mx.multiply(q[:rows, :cols], gain).astype(dtype)

    return initializer
