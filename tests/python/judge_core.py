"""The functions of mlx.core for judge.py."""

import math

import mlx.core as mx
import numpy as np
from judge import Arrays as A
from judge import Elementwise as E
from judge import Exact as X
from mpmath import mp, mpf

U = {}
FINITE = {"infinite": False}
ABOVE0 = {"low": 0}
UNIT = {"low": -1, "high": 1}

ROWS = [
    E("abs", mx.abs, abs, at={0.0: 0}, value=0, slope=0, second=0),
    E("negative", mx.negative, lambda x: -x, value=0, slope=0, second=0),
    E("square", mx.square, lambda x: x * x),
    E("sqrt", mx.sqrt, mp.sqrt, (ABOVE0,), at={0.0: math.inf}),
    E("rsqrt", mx.rsqrt, lambda x: 1 / mp.sqrt(x), (ABOVE0,)),
    E("exp", mx.exp, mp.exp),
    E("expm1", mx.expm1, mp.expm1),
    E("log", mx.log, mp.log, (ABOVE0,), at={0.0: math.inf}),
    E("log2", mx.log2, lambda x: mp.log(x, 2), (ABOVE0,), at={0.0: math.inf}),
    E("log10", mx.log10, mp.log10, (ABOVE0,), at={0.0: math.inf}),
    E("log1p", mx.log1p, mp.log1p, ({"low": -1},), at={-1.0: math.inf}),
    E("sin", mx.sin, mp.sin, ({"infinite": False},)),
    E("cos", mx.cos, mp.cos, ({"infinite": False},)),
    E("tan", mx.tan, mp.tan, ({"infinite": False},)),
    E("arcsin", mx.arcsin, mp.asin, (UNIT,)),
    E("arccos", mx.arccos, mp.acos, (UNIT,)),
    E("arctan", mx.arctan, mp.atan, slope=4, second=8),
    E("sinh", mx.sinh, mp.sinh),
    E("cosh", mx.cosh, mp.cosh),
    E("tanh", mx.tanh, mp.tanh, slope=4),
    E("arcsinh", mx.arcsinh, mp.asinh),
    E("arccosh", mx.arccosh, mp.acosh, ({"low": 1},)),
    E("arctanh", mx.arctanh, mp.atanh, (UNIT,)),
    # The square in the exponent: an error of half a unit in it is one of |x|^2 in the result.
    E("erf", mx.erf, mp.erf, slope=(1, 64, 512), second=(2, 64, 512)),
    # By the result, whose error is one of 2 y^2; in half types it is rounded.
    E("erfinv", mx.erfinv, mp.erfinv, (UNIT,), slope=(8, 32, 80), second=(16, 64, 160)),
    E("sigmoid", mx.sigmoid, lambda x: 1 / (1 + mp.exp(-x)), slope=4),
    E("reciprocal", mx.reciprocal, lambda x: 1 / x, only=lambda x: x),
    E("degrees", mx.degrees, mp.degrees),
    E("radians", mx.radians, mp.radians),
    E("add", mx.add, lambda a, b: a + b, (U, U), value=0.5, slope=0, second=0),
    E("subtract", mx.subtract, lambda a, b: a - b, (U, U), value=0.5, slope=0, second=0),
    E("multiply", mx.multiply, lambda a, b: a * b, (U, U), value=0.5),
    E("divide", mx.divide, lambda a, b: a / b, (U, U), value=0.5, only=lambda a, b: b, normal=True),
    # An exponent less one, rounded: half a unit of it is one of log x in the result.
    E(
        "power",
        mx.power,
        mp.power,
        ({"low": 0, "infinite": False}, FINITE),
        slope=(12, 64, 512),
        second=(12, 99, 900),
        second_terms=lambda a, b: b * mp.power(a, b - 2),
        only=lambda a, b: 1e-12 < a < 1e12 and abs(b) < 20 or a < 1e150 and 1 < b < 2,
        normal=True,
    ),
    E("maximum", mx.maximum, max, (U, U), value=0, slope=0, second=0, only=lambda a, b: a != b),
    E("minimum", mx.minimum, min, (U, U), value=0, slope=0, second=0, only=lambda a, b: a != b),
    E(
        "copysign",
        mx.copysign,
        lambda a, b: mp.sign(b) * abs(a),
        (U, U),
        value=0,
        slope=0,
        second=0,
        only=lambda a, b: a and b,
    ),
    # By the first operand 1, by the second less the number of times it went in.
    E(
        "remainder",
        mx.remainder,
        lambda a, b: a - b * mp.floor(a / b),
        ({"low": -12, "high": 12}, {"low": 0.25, "high": 12}),
        value_terms=lambda a, b: abs(a) + abs(b),
        only=lambda a, b: a % b > 1e-3 and a % b < b - 1e-3,
    ),
    E(
        "arctan2",
        mx.arctan2,
        mp.atan2,
        (FINITE, FINITE),
        at={(0.0, 0.0): 0},
        slope=5,
        second=10,
        only=lambda a, b: a or b > 0,
        normal=True,
    ),
    E(
        "hypot",
        mx.hypot,
        mp.hypot,
        (FINITE, FINITE),
        at={(0.0, 0.0): 0},
        second_terms=lambda a, b: 1 / mp.hypot(a, b),
        normal=True,
    ),
    E(
        "logaddexp",
        mx.logaddexp,
        lambda a, b: max(a, b) + mp.log1p(mp.exp(-abs(a - b))),
        ({"low": -200, "high": 200},) * 2,
        value=3,
        value_terms=max,
        slope=(1, 64, 512),
        second=(1, 64, 512),
    ),
]

# ------------------------------------------------------------------ operands of arrays


def some(*shape):
    """Numbers of both signs between 1/4 and 2."""
    return lambda rng, kind: rng.uniform(0.25, 2, shape) * rng.choice([-1.0, 1.0], shape)


def positive(*shape):
    return lambda rng, kind: rng.uniform(0.25, 2, shape)


def fraction(*shape):
    return lambda rng, kind: rng.uniform(0.1, 0.9, shape)


def distinct(*shape):
    return lambda rng, kind: rng.permutation(np.arange(np.prod(shape)) * 0.75 - 2).reshape(shape)


def these(*values):
    """These numbers, or arrays of them; integers are not differentiated by."""
    return lambda rng, kind: np.array(values[0] if len(values) == 1 else values)


def symmetric(n):
    def make(rng, kind):
        a = rng.uniform(-0.5, 0.5, (n, n))
        return kind.round(a + a.T + np.diag(np.arange(n) * 2.0 + 2))

    return make


def regular(n):
    """Far from singular, and not symmetric."""
    return lambda rng, kind: rng.uniform(-1, 1, (n, n)) + np.diag([3.0, -2.5, 4, 2][:n])


def exactly_moved(name, fn, means, *inputs):
    """Elements moved, repeated or left out."""
    return A(name, fn, means, inputs, value=0, slope=2, second=None)


M = exactly_moved
WIDE = (0, 0.9, -0.9)  # scales for what is linear
HALF = (0, 0.45, -0.45)  # for products of two
HAVE_FACTORS = ("float32", "float64")  # LAPACK has no half types


def with_slice(x, update):
    x = x.copy()
    x[1:3, 0:2] = update
    return x


def put_along(x, i, v):
    x = x.copy()
    np.put_along_axis(x, i, v, 1)
    return x


def logsumexp(x, axis=-1, keepdims=False):
    return X.log(np.sum(X.exp(x), axis, keepdims=keepdims))


def softmax(x, axis=-1):
    e = X.exp(x)
    return e / np.sum(e, axis, keepdims=True)


def ints(*shape, below):
    return lambda rng, kind: rng.integers(0, below, shape).astype(np.int32)


ROWS += [
    M("atleast_1d", mx.atleast_1d, np.atleast_1d, some(3)),
    M("atleast_2d", mx.atleast_2d, np.atleast_2d, some(3)),
    M("atleast_3d", mx.atleast_3d, np.atleast_3d, some(3)),
    M("broadcast_to", lambda x: mx.broadcast_to(x, (2, 3)), lambda x: np.broadcast_to(x, (2, 3)), some(3)),
    M(
        "broadcast_arrays",
        mx.broadcast_arrays,
        lambda a, b: [np.broadcast_to(a, (2, 3)), np.broadcast_to(b, (2, 3))],
        some(2, 1),
        some(3),
    ),
    M(
        "concatenate",
        lambda a, b: mx.concatenate([a, b], 1),
        lambda a, b: np.concatenate([a, b], 1),
        some(2, 3),
        some(2, 1),
    ),
    M("stack", lambda a, b: mx.stack([a, b], 1), lambda a, b: np.stack([a, b], 1), some(2, 3), some(2, 3)),
    M("unstack", lambda a: mx.unstack(a, axis=1), lambda a: [a[:, 0], a[:, 1]], some(3, 2)),
    M("split", lambda a: mx.split(a, [1, 3], 1), lambda a: [a[:, :1], a[:, 1:3], a[:, 3:]], some(2, 4)),
    M("expand_dims", lambda a: mx.expand_dims(a, 1), lambda a: a, some(2, 2)),
    M("squeeze", mx.squeeze, lambda a: a, some(2, 1, 2)),
    M("flatten", mx.flatten, lambda a: a, some(2, 3)),
    M("unflatten", lambda a: mx.unflatten(a, 0, (2, 2)), lambda a: a, some(4)),
    M("reshape", lambda a: mx.reshape(a, (3, 2)), lambda a: a, some(2, 3)),
    M("transpose", mx.transpose, np.transpose, some(2, 3)),
    M("swapaxes", lambda a: mx.swapaxes(a, 0, 2), lambda a: np.swapaxes(a, 0, 2), some(2, 1, 3)),
    M("moveaxis", lambda a: mx.moveaxis(a, 0, 2), lambda a: np.moveaxis(a, 0, 2), some(2, 1, 3)),
    M("matrix_transpose", mx.matrix_transpose, lambda a: np.swapaxes(a, -1, -2), some(2, 2, 3)),
    M("flip", lambda a: mx.flip(a, axis=0), lambda a: a[::-1], some(3, 2)),
    M("roll", lambda a: mx.roll(a, 1, 1), lambda a: np.roll(a, 1, 1), some(2, 3)),
    M("tile", lambda a: mx.tile(a, (2, 2)), lambda a: np.tile(a, (2, 2)), some(2, 2)),
    M("repeat", lambda a: mx.repeat(a, 3, 1), lambda a: np.repeat(a, 3, 1), some(2, 2)),
    M("pad", lambda a: mx.pad(a, 1), lambda a: np.pad(a, 1, constant_values=mpf(0)), some(2, 2)),
    M("diag", mx.diag, lambda a: np.diag(a) * mpf(1), some(3)),
    M("diagonal", mx.diagonal, np.diagonal, some(3, 3)),
    M("tril", mx.tril, lambda a: np.tril(a) * mpf(1), some(3, 3)),
    M("triu", mx.triu, lambda a: np.triu(a) * mpf(1), some(3, 3)),
    M("meshgrid", mx.meshgrid, np.meshgrid, some(2), some(3)),
    M("slice", lambda a: mx.slice(a, mx.array([1]), (0,), (2, 2)), lambda a: a[1:3, :2], some(3, 3)),
    M("slice_update", lambda a, u: mx.slice_update(a, u, mx.array([1, 0]), (0, 1)), with_slice, some(3, 3), some(2, 2)),
    M("take", lambda a, i: mx.take(a, i, 1), lambda a, i: np.take(a, i, 1), some(2, 3), these([2, 0, 2])),
    M(
        "take_along_axis",
        lambda a, i: mx.take_along_axis(a, i, 1),
        lambda a, i: np.take_along_axis(a, i, 1),
        some(2, 3),
        these([[2, 0], [1, 1]]),
    ),
    M(
        "put_along_axis",
        lambda a, i, v: mx.put_along_axis(a, i, v, 1),
        put_along,
        some(2, 3),
        these([[2, 0], [1, 0]]),
        some(2, 2),
    ),
    M("as_strided", lambda a: mx.as_strided(a, (2, 2), (2, 1), 1), lambda a: a.ravel()[[1, 2, 3, 4]], some(2, 3)),
    M("contiguous", lambda a: mx.contiguous(mx.transpose(a)), np.transpose, some(2, 3)),
    M("astype", lambda a: mx.astype(a, a.dtype), lambda a: a, some(3)),
    M("copy", lambda a: mx.array(a), lambda a: a, some(3)),
    M(
        "where",
        lambda c, a, b: mx.where(c, a, b),
        lambda c, a, b: np.where(c, a, b),
        these([True, False, True]),
        some(3),
        some(3),
    ),
    M("sort", mx.sort, np.sort, distinct(2, 4)),
    M("partition", lambda a: mx.sort(mx.partition(a, 1)), np.sort, distinct(2, 4)),
    M("topk", lambda a: mx.sort(mx.topk(a, 2)), lambda a: np.sort(a)[:, 2:], distinct(2, 4)),
    M("max", lambda a: mx.max(a, 1), lambda a: np.max(a, 1), distinct(2, 4)),
    M("min", lambda a: mx.min(a, 1), lambda a: np.min(a, 1), distinct(2, 4)),
    M("minmax", lambda a: mx.minmax(a, axis=1), lambda a: [np.min(a, 1), np.max(a, 1)], distinct(2, 4)),
    M("cummax", lambda a: mx.cummax(a, axis=1), lambda a: np.maximum.accumulate(a, 1), distinct(2, 4)),
    M("cummin", lambda a: mx.cummin(a, axis=1), lambda a: np.minimum.accumulate(a, 1), distinct(2, 4)),
    A(
        "median",
        lambda a: mx.median(a, axis=1),
        lambda a: np.sort(a, 1)[:, 1:3].sum(1) / 2,
        (distinct(2, 4),),
        second=None,
    ),
    A("diff", mx.diff, np.diff, (some(2, 4),), scales=WIDE),
    A("trace", mx.trace, np.trace, (some(3, 3),)),
    A("sum", lambda a: mx.sum(a, 1), lambda a: np.sum(a, 1), (some(2, 5),), scales=WIDE),
    A("mean", lambda a: mx.mean(a, 1), lambda a: np.sum(a, 1) / 5, (some(2, 5),), scales=WIDE),
    # Slopes are differences from the mean, which cancel: the mean is rounded, in whatever order it is added up.
    A(
        "var",
        lambda a: mx.var(a, 1, ddof=1),
        lambda a: np.sum((a - np.sum(a, 1, keepdims=True) / 5) ** 2, 1) / 4,
        (distinct(2, 5),),
        scales=HALF,
        conditioned=True,
    ),
    A(
        "std",
        lambda a: mx.std(a, 1),
        lambda a: X.sqrt(np.sum((a - np.sum(a, 1, keepdims=True) / 5) ** 2, 1) / 5),
        (distinct(2, 5),),
        second=20,
        scales=HALF,
        conditioned=True,
    ),
    A("prod", lambda a: mx.prod(a, 1), lambda a: np.prod(a, 1), (some(2, 4),), scales=(0, 0.24, -0.24)),
    A(
        "prod with zeros",
        lambda a: mx.prod(a, 1),
        lambda a: np.prod(a, 1),
        (these([[2.0, 0, 3, 1.5], [0, 0, 3, 5], [0, 0, 0, 2]]),),
    ),
    A("cumsum", lambda a: mx.cumsum(a, axis=1), lambda a: np.cumsum(a, 1), (some(2, 4),), scales=WIDE),
    A("cumprod", lambda a: mx.cumprod(a, axis=1), lambda a: np.cumprod(a, 1), (some(2, 4),)),
    A(
        "cumprod with zeros",
        lambda a: mx.cumprod(a, axis=1),
        lambda a: np.cumprod(a, 1),
        (these([[2.0, 0, 3, 1.5], [0, 0, 3, 5]]),),
    ),
    A("logsumexp", lambda a: mx.logsumexp(a, 1), logsumexp, (some(2, 4),), slope=5),
    A("logsumexp of large", lambda a: mx.logsumexp(a, 1), logsumexp, (these([[300.0, 299, 302], [-300, -301, -1e4]]),)),
    A("logcumsumexp", lambda a: mx.logcumsumexp(a, axis=1), lambda a: X.log(np.cumsum(X.exp(a), 1)), (some(2, 4),)),
    A(
        "logcumsumexp of large",
        lambda a: mx.logcumsumexp(a, axis=1),
        lambda a: X.log(np.cumsum(X.exp(a), 1)),
        (these([[300.0, 299, 302, 250], [-300, -301, 40, -1e4], [100, 3, 2.5, 1]]),),
        slope=(4, 4, 400),
        second=(9, 9, 999),
    ),
    A("softmax", lambda a: mx.softmax(a, -1), softmax, (some(2, 4),)),
    A(
        "softmax of large",
        lambda a: mx.softmax(a, -1),
        softmax,
        (these([[300.0, 299, 302], [-300, -301, -1e4], [20, 1, 2]]),),
        terms=softmax,
        second=16,
    ),
    A("inner", mx.inner, np.inner, (some(2, 3), some(2, 3)), scales=HALF),
    A("outer", mx.outer, np.outer, (some(2), some(3)), scales=HALF),
    A("kron", mx.kron, np.kron, (some(2, 2), some(2, 1)), scales=HALF),
    A("vecdot", mx.vecdot, lambda a, b: np.sum(a * b, -1), (some(2, 3), some(2, 3)), scales=HALF),
    A("matmul", mx.matmul, np.matmul, (some(2, 3), some(3, 2)), scales=HALF),
    A("tensordot", lambda a, b: mx.tensordot(a, b, 1), lambda a, b: np.tensordot(a, b, 1), (some(2, 3), some(3, 2))),
    A("einsum", lambda a, b: mx.einsum("ij,kj->ik", a, b), lambda a, b: a @ b.T, (some(2, 3), some(2, 3))),
    A(
        "addmm",
        lambda c, a, b: mx.addmm(c, a, b, 0.5, 2.0),
        lambda c, a, b: a @ b / 2 + 2 * c,
        (some(2, 2), some(2, 3), some(3, 2)),
    ),
    A(
        "gather_mm",
        lambda a, b, i: mx.gather_mm(a, b, rhs_indices=i),
        lambda a, b, i: a @ b[i],
        (some(3, 1, 2), some(2, 2, 2), these(np.array([1, 0, 1], np.uint32))),
    ),
    A(
        "segmented_mm",
        lambda a, b, s: mx.segmented_mm(a, b, s),
        lambda a, b, s: np.stack([a[:, i:j] @ b[i:j] for i, j in s]),
        (some(2, 4), some(4, 2), these(np.array([[0, 1], [1, 4]], np.uint32))),
    ),
    A(
        "hadamard_transform",
        mx.hadamard_transform,
        lambda a: a @ np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2,
        (some(2, 4),),
    ),
    A("convolve", mx.convolve, np.convolve, (some(5), some(3))),
]
