"""Every function of arrays, for each of the dtypes: what NumPy gets in 64 bits, or a clear refusal.

`pytest -s` prints the table. A function that is neither in SAMPLES nor in NO_TABLE fails the test, and so
does a refusal that REFUSED does not give a reason for.
"""

import fnmatch
import functools
import pathlib
import re

import mlx.core as mx
import numpy as np
import pytest
import scipy.linalg
import scipy.special

DTYPES = [
    mx.bool_, mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64,
    mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64,
]  # fmt: skip
EPS = {mx.float16: 2**-10, mx.bfloat16: 2**-7, mx.float64: 2**-52}  # else float32's


def short(t):
    return str(t).split(".")[-1]


def kind(t):
    """b, u, i, f or c, as NumPy has it."""
    return "f" if t == mx.bfloat16 else np.dtype(short(t)).kind


# Values: exact in every type of their kind.


def values(t, shape, seed, sort):
    """NumPy numbers of 64 bits; sort "any", "positive" (and not zero), "unit" (inside (0, 1)) or "spd"."""
    i = np.arange(int(np.prod(shape))).reshape(shape) + 3 * seed
    k = kind(t)
    if sort == "index":
        return i % 2
    if sort == "spd" and k == "b":
        return np.eye(shape[-1], dtype=bool)
    if sort == "spd":
        return (np.eye(shape[-1]) * 4 + np.ones(shape)).astype(np.int64 if k in "biu" else np.float64)
    if k == "b":
        return i * 7 % 3 == 0 if sort != "positive" else np.ones(shape, bool)
    if k in "iu":
        n = i * 5 % 7 + (1 if sort == "positive" else 0)
        return n - 3 if k == "i" and sort == "any" else n
    x = (i * 37 % 17 - 8) / 8
    if sort == "positive":
        x = abs(x) + 1
    if sort == "unit":
        x = (i * 37 % 15 + 1) / 16
    return x + 1j * ((i * 11 % 13 - 6) / 8) if k == "c" else x


def real(x):
    return x.astype(np.float64) if x.dtype.kind in "biu" else x


def ints(x):
    return x.astype(np.int64) if x.dtype.kind == "b" else x


def floated(f, **options):
    return lambda x: f(real(x), **options)


SAMPLES = {}


def sample(names, want, *inputs, call=None):
    """One row for each of the names; `want` takes the inputs in 64 bits, `call` the arrays."""
    for name in names.split():
        f = functools.reduce(getattr, name.split("."), mx)
        SAMPLES[name] = (call and functools.partial(call, f)) or f, want, inputs


A, P, U = ((3, 4), "any"), ((3, 4), "positive"), ((3, 4), "unit")
CUBE, ROW, SPD, ODD = ((2, 3, 4), "any"), ((4,), "any"), ((3, 3), "spd"), ((5,), "positive")
AT = ((3, 1), "index")

# Element by element
for name in ["sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh", "exp", "expm1"]:
    sample(name, floated(getattr(np, name)), A)
sample("asinh", lambda x: np.arcsinh(real(x)), A)
sample("atan", lambda x: np.arctan(real(x)), A)
for name in ["sqrt", "log", "log2", "log10", "log1p"]:
    sample(name, floated(getattr(np, name)), P)
for name, same in [("arcsin", "asin"), ("arccos", "acos"), ("arctanh", "atanh")]:
    sample(f"{name} {same}", floated(getattr(np, name)), U)
sample("arccosh acosh", lambda x: np.arccosh(real(x)), P)
sample("rsqrt", lambda x: 1 / np.sqrt(real(x)), P)
sample("reciprocal", lambda x: 1 / real(x), P)
sample("erf", lambda x: scipy.special.erf(real(x)), A)
sample("erfinv", lambda x: scipy.special.erfinv(real(x)), U)
sample("sigmoid", lambda x: 1 / (1 + np.exp(-real(x))), A)
sample("degrees", lambda x: real(x) * (180 / np.pi), A)
sample("radians", lambda x: real(x) * (np.pi / 180), A)
for name in ["floor", "ceil", "trunc"]:
    sample(name, getattr(np, name), A)
sample("round", lambda x: x if x.dtype.kind == "b" else np.round(x), A)
for name in ["isnan", "isinf", "isfinite", "real", "imag", "conjugate", "logical_not"]:
    sample(name, getattr(np, name), A)
sample("conj", np.conjugate, A)
sample("isposinf", lambda x: x == np.inf, A)
sample("isneginf", lambda x: x == -np.inf, A)
sample("positive stop_gradient contiguous", lambda x: x, A)
sample("abs", np.abs, A)
sample("negative", lambda x: -ints(x), A)
sample("sign", lambda x: np.sign(x.astype(np.int64)) if x.dtype.kind == "b" else np.sign(x), A)
sample("square", lambda x: x * x, A)
sample("nan_to_num", np.nan_to_num, A)
sample("bitwise_invert", np.invert, A)
sample("ones_like", np.ones_like, A)
sample("zeros_like", np.zeros_like, A)
sample("empty_like", lambda x: np.zeros_like(x), A, call=lambda f, x: f(x) * mx.zeros_like(x))
sample("full_like", lambda x: np.full_like(x, 1), A, call=lambda f, x: f(x, 1))
for name in [
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]:
    sample(name, getattr(np, name), A, ((3, 4), "positive"))
sample("minimum", np.minimum, A, P)
sample("maximum", np.maximum, A, P)
sample("add", np.add, A, P)
sample("subtract", lambda x, y: x ^ y if x.dtype.kind == "b" else x - y, A, P)
sample("multiply", np.multiply, A, P)
sample("divide", lambda x, y: real(x) / real(y), A, P)
sample("floor_divide", lambda x, y: x / y if x.dtype.kind == "c" else x // y, A, P)
sample("remainder", np.remainder, A, P)
sample("divmod", lambda x, y: (x // y, x % y), A, P)
sample("power pow", lambda x, y: np.power(x, y), P, P)
sample("logaddexp", lambda x, y: np.log(np.exp(real(x)) + np.exp(real(y))), A, P)
sample("arctan2 atan2", lambda x, y: np.arctan2(real(x), real(y)), A, P)
for name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    sample(name, getattr(np, name), A, P)
sample("left_shift bitwise_left_shift", lambda x, y: np.left_shift(ints(x), ints(y)), P, P)
sample("right_shift bitwise_right_shift", lambda x, y: np.right_shift(ints(x), ints(y)), P, P)
sample("array_equal", np.array_equal, A, A)
sample("isclose", np.isclose, A, P)
sample("allclose", np.allclose, A, A)
sample("where", lambda x, y: np.where(x != 0, x, y), A, P, call=lambda f, x, y: f(x != 0, x, y))
sample("clip", lambda x: np.clip(x, 0, 1), A, call=lambda f, x: f(x, 0, 1))
sample("astype", lambda x: x != 0, A, call=lambda f, x: f(x, mx.bool_))
sample("view", lambda x: x, A, call=lambda f, x: f(f(x, mx.uint8), x.dtype))
sample("asarray", lambda x: x, A)
sample("from_dlpack", lambda x: x, A)

# Folds
for name in ["sum", "prod", "all", "any"]:
    sample(name, functools.partial(getattr(np, name), axis=1), P, call=lambda f, x: f(x, axis=1))
for name in ["min", "max", "argmin", "argmax"]:
    sample(name, functools.partial(getattr(np, name), axis=1), A, call=lambda f, x: f(x, axis=1))
sample("minmax", lambda x: (x.min(1), x.max(1)), A, call=lambda f, x: f(x, axis=1))
sample("count_nonzero", lambda x: np.count_nonzero(x, axis=1), A, call=lambda f, x: f(x, axis=1))
for name in ["mean", "median", "var", "std"]:
    sample(name, floated(getattr(np, name), axis=1), A, call=lambda f, x: f(x, axis=1))
sample("logsumexp", lambda x: np.log(np.exp(real(x)).sum(1)), A, call=lambda f, x: f(x, axis=1))
sample("softmax", lambda x: np.exp(real(x)) / np.exp(real(x)).sum(1, keepdims=True), A, call=lambda f, x: f(x, axis=1))
sample("logcumsumexp", lambda x: np.log(np.exp(real(x)).cumsum(1)), A, call=lambda f, x: f(x, axis=1))
sample("cumsum cumulative_sum", lambda x: ints(x).cumsum(1), A, call=lambda f, x: f(x, axis=1))
sample("cumprod cumulative_prod", lambda x: ints(x).cumprod(1), A, call=lambda f, x: f(x, axis=1))
sample("cummax", lambda x: np.maximum.accumulate(x, 1), A, call=lambda f, x: f(x, axis=1))
sample("cummin", lambda x: np.minimum.accumulate(x, 1), A, call=lambda f, x: f(x, axis=1))
sample("sort", np.sort, A)
sample("argsort", lambda x: np.argsort(x, kind="stable"), A)
sample("topk", lambda x: np.sort(x)[..., -2:], A, call=lambda f, x: mx.sort(f(x, 2)))
sample("partition", lambda x: np.sort(x)[..., 1], A, call=lambda f, x: f(x, 1)[..., 1])
sample("argpartition", lambda x: np.sort(x)[..., 1], A,
       call=lambda f, x: mx.take_along_axis(x, f(x, 1), -1)[..., 1])  # fmt: skip
sample("searchsorted", lambda x, y: np.searchsorted(np.sort(x), y), ROW, A, call=lambda f, x, y: f(mx.sort(x), y))
sample("unique", np.unique, A, call=lambda f, x: f(x))
sample("diff", lambda x: x[:, 1:] ^ x[:, :-1] if x.dtype.kind == "b" else np.diff(x), A)
sample("trace", np.trace, A)

# Shapes
for name, args in [
    ("reshape", ((4, 3),)), ("expand_dims", (1,)), ("flip", (1,)), ("swapaxes", (0, 1)), ("moveaxis", (0, 1)),
    ("transpose", ((1, 0),)), ("broadcast_to", ((2, 3, 4),)), ("tile", (2,)), ("repeat", (2, 1)), ("roll", (1, 1)),
    ("pad", (1,)), ("tril", (1,)), ("triu", (1,)), ("diagonal", (1,)), ("diag", (1,)), ("atleast_1d", ()),
    ("atleast_2d", ()), ("atleast_3d", ()),
]:  # fmt: skip
    sample(name, lambda x, name=name, a=args: getattr(np, name)(x, *a), A, call=lambda f, x, a=args: f(x, *a))
sample("flatten", np.ravel, A)
sample("unflatten", lambda x: x.reshape(3, 2, 2), A, call=lambda f, x: f(x, 1, (2, 2)))
sample("squeeze", lambda x: x, A, call=lambda f, x: f(x[None]))
sample("unstack", tuple, A)
sample("matrix_transpose", np.transpose, A)
sample("permute_dims", np.transpose, A)
sample("split", lambda x: np.split(x, 2, 1), A, call=lambda f, x: f(x, 2, 1))
sample("broadcast_arrays", np.broadcast_arrays, A, ROW)
sample("meshgrid", np.meshgrid, ROW, ODD)
sample("concatenate concat", lambda x, y: np.concatenate([x, y]), A, P, call=lambda f, x, y: f([x, y]))
sample("stack", lambda x, y: np.stack([x, y]), A, P, call=lambda f, x, y: f([x, y]))
sample("as_strided", lambda x: x.ravel()[[[0, 2], [1, 3]]], A, call=lambda f, x: f(x, (2, 2), (1, 2)))
sample("slice", lambda x: x[1:3], A, call=lambda f, x: f(x, mx.array([1]), (0,), (2, 4)))
sample("slice_update", lambda x, y: np.concatenate([x[:2], y[None]]), A, ROW,
       call=lambda f, x, y: f(x, y[None], mx.array([2]), (0,)))  # fmt: skip
sample("depends", lambda x, y: [x], A, P, call=lambda f, x, y: f([x], [y]))
sample("take", lambda x: x[:, [2, 0]], A, call=lambda f, x: f(x, mx.array([2, 0]), axis=1))
sample("take_along_axis", lambda x: x[:, [1]], A, call=lambda f, x: f(x, mx.ones((3, 1), mx.int32), 1))
sample("put_along_axis", lambda x, y: np.concatenate([x[:, :3], y[:3, None]], 1), A, ROW,
       call=lambda f, x, y: f(x, mx.full((3, 1), 3), y[:3, None], 1))  # fmt: skip

# Products
sample("matmul", np.matmul, A, ((4, 2), "any"))
sample("inner", np.inner, A, P)
sample("outer", np.outer, A, P)
sample("kron", np.kron, A, ((2, 2), "positive"))
sample("vecdot", lambda x, y: np.vecdot(ints(x), ints(y)), A, P)
sample("tensordot", lambda x, y: np.tensordot(x, y, 2), A, P, call=lambda f, x, y: f(x, y, 2))
sample("einsum", lambda x, y: np.einsum("ij,kj->ik", x, y), A, P, call=lambda f, x, y: f("ij,kj->ik", x, y))
sample("addmm", lambda c, x, y: real(c) + real(x) @ real(y), ((3, 2), "any"), A, ((4, 2), "any"))
sample("convolve", lambda x, y: np.convolve(real(x), real(y)), ROW, ODD)
sample("gather_mm", lambda x, y: x[[1, 0]] @ y[[0, 1]], CUBE, ((2, 4, 2), "any"),
       call=lambda f, x, y: f(x, y, mx.array([1, 0]), mx.array([0, 1])))  # fmt: skip
sample("segmented_mm", lambda x, y: np.stack([real(x)[:, :2] @ real(y)[:2], real(x)[:, 2:] @ real(y)[2:]]), A,
       ((4, 2), "any"), call=lambda f, x, y: f(x, y, mx.array([[0, 2], [2, 4]], mx.uint32)))  # fmt: skip
sample("block_masked_mm", lambda x, y: real(x) @ real(y), ((32, 32), "unit"), ((32, 32), "unit"),
       call=lambda f, x, y: f(x, y, 32, mx.ones((1, 1), mx.bool_)))  # fmt: skip
sample("hadamard_transform", lambda x: real(x) @ scipy.linalg.hadamard(4) / 2, A)


def windows(x, n):
    """x (batch, places..., channels) as (batch, places..., n places..., channels)."""
    d = x.ndim - 2
    w = np.lib.stride_tricks.sliding_window_view(real(x), (n,) * d, tuple(range(1, d + 1)))
    return np.moveaxis(w, d + 1, -1)


def correlate(x, w):
    d = x.ndim - 2
    return np.tensordot(windows(x, 2), real(w), (range(d + 1, 2 * d + 2), range(1, d + 2)))


def transposed(x, w):
    d = x.ndim - 2
    padded = np.pad(real(x), [(0, 0)] + [(1, 1)] * d + [(0, 0)])
    return correlate(padded, np.flip(real(w), tuple(range(1, d + 1))))


for d in (1, 2, 3):
    x, w = ((1, *[3] * d, 2), "any"), ((2, *[2] * d, 2), "any")
    sample(f"conv{d}d", correlate, x, w)
    sample(f"conv_transpose{d}d", transposed, x, w)
sample("conv_general", correlate, ((1, 3, 2), "any"), ((2, 2, 2), "any"))

# Fourier
for name in ["fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "rfft2", "rfftn"]:
    sample(f"fft.{name}", floated(getattr(np.fft, name)), A)
sample("fft.irfft", lambda x: np.fft.irfft(x), A)
sample("fft.irfft2", lambda x: np.fft.irfft2(x), A)
sample("fft.irfftn", lambda x: np.fft.irfftn(x, axes=(0, 1)), A)
sample("fft.fftshift", np.fft.fftshift, A)
sample("fft.ifftshift", np.fft.ifftshift, A)


def one_side(x):
    return np.fft.fft(x) if x.dtype.kind == "c" else np.fft.rfft(x)


sample("fft.stft", lambda x: np.stack([one_side(real(x)[i : i + 4]) for i in (0, 2, 4)], 1), ((8,), "any"),
       call=lambda f, x: f(x, 4, 2, window=mx.ones(4), center=False))  # fmt: skip
sample("fft.istft", lambda x: np.fft.irfft(x[:, 0]), ((3, 1), "positive"),
       call=lambda f, x: f(x, 4, 4, window=mx.ones(4), center=False))  # fmt: skip

# Linear algebra
sample("linalg.norm matrix_norm", lambda x: np.linalg.norm(real(x)), A)
sample("linalg.inv linalg.pinv", lambda x: np.linalg.inv(real(x)), SPD)
sample("linalg.det", lambda x: np.linalg.det(real(x)), SPD)
sample("linalg.slogdet", lambda x: tuple(np.linalg.slogdet(real(x))), SPD)
sample("linalg.cholesky", lambda x: np.linalg.cholesky(real(x)), SPD)
sample("linalg.cholesky_inv", lambda x: np.linalg.inv(real(x)), SPD, call=lambda f, x: f(mx.linalg.cholesky(x)))
sample("linalg.tri_inv", lambda x: np.linalg.inv(np.tril(real(x))), SPD, call=lambda f, x: f(mx.tril(x)))
sample("linalg.eigvalsh", lambda x: np.linalg.eigvalsh(real(x)), SPD)
sample("linalg.eigvals", lambda x: np.linalg.eigvalsh(real(x)), SPD, call=lambda f, x: mx.sort(mx.real(f(x))))
sample("linalg.eigh", real, SPD, call=lambda f, x: (lambda w, v: (v * w) @ mx.conj(v).T)(*f(x)))
sample("linalg.eig", real, SPD, call=lambda f, x: (lambda w, v: (v * w) @ mx.linalg.inv(v))(*f(x)))
sample("linalg.qr", real, A, call=lambda f, x: (lambda q, r: q @ r)(*f(x)))
sample("linalg.svd", real, A, call=lambda f, x: (lambda u, s, v: (u[:, :3] * s) @ v[:3])(*f(x)))
sample("linalg.lu", real, SPD, call=lambda f, x: (lambda p, lower, upper: (lower @ upper)[p])(*f(x)))
sample("linalg.lu_factor", lambda x: scipy.linalg.lu_factor(real(x))[0], SPD, call=lambda f, x: f(x)[0])
sample("linalg.solve", lambda a, b: np.linalg.solve(real(a), real(b)), SPD, ((3, 2), "any"))
sample("linalg.solve_triangular", lambda a, b: np.linalg.solve(np.tril(real(a)), real(b)), SPD, ((3, 2), "any"))
sample(
    "linalg.cross",
    lambda x, y: np.cross(ints(x), ints(y)) % 2 != 0 if x.dtype.kind == "b" else np.cross(x, y),
    ((2, 3), "any"),
    ((2, 3), "positive"),
)


# Fast
def normed(x):
    return (real(x) - real(x).mean(-1, keepdims=True)) / np.sqrt(real(x).var(-1, keepdims=True) + 2**-10)


def turned(x):
    angle = np.arange(x.shape[-2])[:, None] * np.array([1, 0.01])
    lo, hi = real(x)[..., :2], real(x)[..., 2:]
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([lo * c - hi * s, lo * s + hi * c], -1)


def attended(q, k, v):
    p = np.exp(real(q) @ np.swapaxes(real(k), -1, -2))
    return p / p.sum(-1, keepdims=True) @ real(v)


def delta(q, k, v):
    state, out = np.zeros((4, 4)), []
    for i in range(q.shape[1]):
        state = state * 0.5
        state = state + np.outer(real(v)[0, i, 0] - state @ real(k)[0, i, 0], real(k)[0, i, 0])
        out.append(state @ real(q)[0, i, 0])
    return np.stack(out)[None, :, None]


sample("fast.rms_norm", lambda x: real(x) / np.sqrt((real(x) ** 2).mean(-1, keepdims=True) + 2**-10), A,
       call=lambda f, x: f(x, None, 2**-10))  # fmt: skip
sample("fast.layer_norm", normed, A, call=lambda f, x: f(x, None, None, 2**-10))
sample("fast.rope", turned, ((1, 3, 4), "any"),
       call=lambda f, x: f(x, 4, traditional=False, base=1e4, scale=1.0, offset=0))  # fmt: skip
HEADS = ((1, 1, 3, 4), "unit")
sample(
    "fast.scaled_dot_product_attention", attended, HEADS, HEADS, HEADS, call=lambda f, q, k, v: f(q, k, v, scale=1.0)
)
sample("fast.cross_entropy", lambda x: np.log(np.exp(real(x)).sum(1)) - real(x)[:, 1], A,
       call=lambda f, x: f(x, mx.ones(3, mx.int32)))  # fmt: skip
sample("fast.gated_delta_update", delta, ((1, 2, 1, 4), "unit"), ((1, 2, 1, 4), "unit"), ((1, 2, 1, 4), "unit"),
       call=lambda f, q, k, v: f(q, k, v, mx.full((1, 2, 1), 0.5), mx.ones((1, 2, 1)))[0])  # fmt: skip
sample("to_fp8", lambda x: x, A, call=lambda f, x: mx.from_fp8(f(x), x.dtype))

# Quantized: what is near what was there
WEIGHTS = ((4, 64), "unit")
quantized = functools.partial(mx.quantize, group_size=32, bits=8)
LAYOUT = {"group_size": 32, "bits": 8}
sample("quantize dequantize", real, WEIGHTS, call=lambda f, w: mx.dequantize(*quantized(w), **LAYOUT))
sample("quantized_matmul", lambda x, w: real(x) @ real(w).T, ((2, 64), "unit"), WEIGHTS,
       call=lambda f, x, w: f(x, *quantized(w), **LAYOUT))  # fmt: skip
sample("gather_qmm", lambda x, w: real(x) @ np.swapaxes(real(w), 1, 2), ((1, 2, 64), "unit"), ((1, 4, 64), "unit"),
       call=lambda f, x, w: f(x, *quantized(w), rhs_indices=mx.array([0]), **LAYOUT))  # fmt: skip
ROUGH = ["quantize", "dequantize", "quantized_matmul", "gather_qmm"]

# Functions of the table without arrays whose type matters, and what other files test for each type.
NO_TABLE = [
    "arange", "bartlett", "hanning", "hamming", "blackman", "linspace", "full", "zeros", "ones", "eye",
    "identity", "tri", "empty", "fft.*freq", "get_*", "set_*", "reset_*", "clear_*", "is_available",
    "device_*", "default_*", "new_*", "stream", "synchronize", "save*", "load", "eval", "async_eval", "jvp",
    "vjp", "grad", "value_and_grad", "vmap", "compile", "disable_compile", "enable_compile", "checkpoint",
    "export*", "import_function", "broadcast_shapes", "einsum_path", "result_type", "can_cast", "issubdtype",
    "isdtype", "printoptions", "random.*", "from_fp8", "qqmm", "gather_qqmm", "fast.*_kernel", "metal.*",
    "cuda.*", "distributed.*", "__array_namespace_info__",
]  # fmt: skip

# Why a type is refused: names, types or kinds of them as NumPy has those, the reason.
REFUSED = [
    ("floor ceil trunc remainder divmod", "c", "no order on complex numbers"),
    ("erf erfinv arctan2 atan2", "c", "defined for real numbers"),
    ("hadamard_transform fft.rfft* fast.* to_fp8", "c", "defined for real numbers"),
    ("bitwise_* left_shift right_shift", "f c", "bits of integers"),
    ("conv* block_masked_mm", "b i u", "convolutions and masks are for floating-point numbers"),
    ("fast.rope fast.scaled* fast.cross_entropy fast.gated* to_fp8", "b i u", "for layers, which compute in floats"),
    ("quantize dequantize quantized_matmul gather_qmm", "b i u c", "packed weights stand for real numbers"),
    ("quantized_matmul gather_qmm", "float64", "packed weights are multiplied in float32"),
    (
        "linalg.*inv linalg.cholesky linalg.eig* linalg.qr linalg.svd linalg.lu* linalg.solve*",
        "float16 bfloat16",
        "LAPACK has no half types",
    ),
]


def refusal(name, t):
    """The reason why a function refuses a type."""
    for names, kinds, reason in REFUSED:
        if {kind(t), short(t)} & set(kinds.split()) and any(fnmatch.fnmatchcase(name, n) for n in names.split()):
            return reason
    return None


def check(name, got, want, t):
    if isinstance(got, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            check(name, g, w, t)
        return
    want = np.asarray(want)
    assert got.shape == want.shape, f"{got.shape}, not {want.shape}"
    out = kind(got.dtype)
    if out in "biu":
        if out != "b":
            want = want.astype(short(got.dtype)) if want.dtype.kind in "biu" else want
        assert np.array_equal(np.array(got), want), f"{got}, not {want}"
        return
    assert want.dtype.kind in "fc" or name not in EXACT, f"{got.dtype} of {want.dtype}"
    wide = np.array(got.astype(mx.float32 if got.dtype == mx.bfloat16 else got.dtype))
    eps = max(EPS.get(got.dtype, 2**-23), EPS.get(t, 2**-23) if t in EPS and t != mx.float64 else 0)
    scale = np.abs(want[np.isfinite(want)]).max(initial=1)
    np.testing.assert_allclose(wide, want, rtol=8 * eps, atol=2e-2 if name in ROUGH else 8 * eps * scale)


EXACT = ["sum", "prod", "min", "max", "add", "multiply", "abs", "negative", "square", "cumsum", "cumprod", "sort"]


def run(name, t):
    """None, or the message of the refusal."""
    call, want, inputs = SAMPLES[name]
    wide = [values(t, shape, i, sort) for i, (shape, sort) in enumerate(inputs)]
    arrays = [mx.array(x.tolist(), t).reshape(x.shape) for x in wide]
    try:
        got = call(*arrays)
        mx.eval(got)
    except (ValueError, TypeError) as e:
        return str(e)
    with np.errstate(all="ignore"):
        try:
            expected = want(*wide)
        except (ValueError, TypeError) as e:
            raise AssertionError(f"{got}, where NumPy says: {e}") from e
        check(name, got, expected, t)
    return None


@pytest.mark.parametrize("name", SAMPLES)
def test_function_for_each_dtype(name):
    wrong = []
    for t in DTYPES:
        try:
            message = run(name, t)
        except AssertionError as e:
            wrong.append(f"{short(t)}: {str(e).strip()[:300]}")
            continue
        reason = refusal(name, t)
        if message is None and reason:
            wrong.append(f"{short(t)}: taken, though it is said to be refused: {reason}")
        if message is not None and not reason:
            wrong.append(f"{short(t)}: refused without a reason in REFUSED: {message}")
        if message is not None and not re.match(r"^\[[\w.]+\] .*(type|complex|real|float|integer|bool)", message):
            wrong.append(f"{short(t)}: refused unclearly: {message}")
    assert not wrong, "\n".join([name, *wrong])


def test_every_function_has_a_sample():
    rows = (pathlib.Path(__file__).parents[1] / "api" / "python.tsv").read_text().split("\n")[1:-1]
    for row in rows:
        name, what, _ = row.split("\t")
        name = name.removeprefix("mlx.core.")
        if what == "function" and not any(fnmatch.fnmatchcase(name, n) for n in NO_TABLE):
            assert name in SAMPLES or not row.startswith("mlx.core."), f"{name} has no sample"


def test_table():
    """Printed with pytest -s."""
    width = max(map(len, SAMPLES))
    print("\n" + " " * width, *(f"{short(t):>9}" for t in DTYPES))
    for name in SAMPLES:
        print(f"{name:{width}}", *(f"{'refused' if refusal(name, t) else 'yes':>9}" for t in DTYPES))
    for names, kinds, reason in REFUSED:
        print(f"refused for {kinds}: {names}: {reason}")
