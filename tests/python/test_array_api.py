"""The array API standard: what array_api_strict exports does the same here, or is kept out for a reason."""

import inspect
import operator
import pathlib
import warnings

import array_api_strict as strict
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# Names of the standard that are not here, or not as it has them, and why.
KEPT = {
    "complex128": "there is no such dtype",
    "Device": "a device is a Device; the standard leaves the type open",
    "__version__": "of the package, not of the standard",
    "set_array_api_strict_flags": "of the package, not of the standard",
    "get_array_api_strict_flags": "of the package, not of the standard",
    "reset_array_api_strict_flags": "of the package, not of the standard",
    "ArrayAPIStrictFlags": "of the package, not of the standard",
}
KEPT_METHODS = {
    "__buffer__": "the type fills the slots of the buffer protocol, which has this name from Python 3.12 on",
}
# Results whose dtype the standard leaves to a default that is another one here.
INT32 = "integers by default have 32 bits"
UINT32 = "indices are uint32, or int32 where nonzero makes them"
OTHER_DTYPE = {
    **dict.fromkeys(["sum", "prod", "cumulative_sum", "cumulative_prod"], INT32),
    **dict.fromkeys(["linalg.matrix_rank", "linalg.trace"], INT32),
    **dict.fromkeys(["argmax", "argmin", "argsort", "nonzero", "searchsorted", "count_nonzero"], UINT32),
    **dict.fromkeys(["unique_all", "unique_counts", "unique_inverse"], UINT32),
}

LISTS = {"broadcast_arrays"}  # a list as in the mlx package, where the standard has a tuple

BOOL = ["bool"]
SIGNED = ["int8", "int16", "int32", "int64"]
INTEGER = [*SIGNED, "uint8", "uint16", "uint32", "uint64"]
FLOAT = ["float32", "float64"]
COMPLEX = ["complex64"]
REAL = INTEGER + FLOAT
NUMERIC = REAL + COMPLEX
ANY = BOOL + NUMERIC


def dtype_in(xp, name):
    return mx.bool_ if xp is mx and name == "bool" else getattr(xp, name)


def numbers(name, low=-4, high=4):
    if name == "bool":
        return st.booleans()
    if name in INTEGER:
        return st.integers(max(low, 0) if name[0] == "u" else low, high)
    eighths = st.integers(low * 8, high * 8).map(lambda i: i / 8)
    if name in COMPLEX:
        return st.builds(complex, eighths, eighths)
    return eighths | st.sampled_from([0.1, -0.0])


SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
FULL = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)


@st.composite
def arrays(draw, names, shapes=SHAPES, low=-4, high=4):
    name = draw(st.sampled_from(names))
    return draw(hnp.arrays(name, draw(shapes), elements=numbers(name, low, high)))


@st.composite
def pairs(draw, names, low=-4, high=4, low_b=None, high_b=None, nonzero=False):
    name = draw(st.sampled_from(names))
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)).input_shapes
    elements = numbers(name, low if low_b is None else low_b, high if high_b is None else high_b)
    if nonzero:
        elements = elements.filter(lambda v: v != 0)
    return (
        draw(hnp.arrays(name, shapes[0], elements=numbers(name, low, high))),
        draw(hnp.arrays(name, shapes[1], elements=elements)),
    )


@st.composite
def with_axis(draw, names, many=False, none=True, low=-4, high=4, empty=True):
    sizes = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0 if empty else 1, max_side=4)
    a = draw(arrays(names, sizes, low, high))
    axis = st.integers(-a.ndim, a.ndim - 1)
    if many:
        axis |= st.lists(st.integers(0, a.ndim - 1), unique=True, min_size=1).map(tuple)
    return a, draw(st.none() | axis if none else axis)


# name: (strategy of arguments, the call): arrays among the arguments become those of the namespace.
CASES = {}


def case(name, strategy, call):
    CASES[name] = (strategy, call)


def unary(names, kinds, **limits):
    for name in names.split():
        case(name, arrays(kinds, **limits).map(lambda a: (a,)), lambda xp, a, name=name: getattr(xp, name)(a))


def binary(names, kinds, **limits):
    for name in names.split():
        case(name, pairs(kinds, **limits), lambda xp, a, b, name=name: getattr(xp, name)(a, b))


unary("abs negative positive square sign", [n for n in NUMERIC if n[0] != "u"])
unary("round isfinite isinf isnan", NUMERIC)
unary("ceil floor trunc", REAL)
unary("cos cosh exp expm1 sin sinh tan tanh asinh", FLOAT)
unary("log log2 log10 sqrt reciprocal", FLOAT, low=1)
unary("log1p atan signbit", FLOAT, low=0)
unary("acos asin atanh", FLOAT, low=0, high=0)
unary("acosh", FLOAT, low=1)
unary("conj", NUMERIC)
unary("real imag", COMPLEX)
unary("bitwise_invert", BOOL + INTEGER)
unary("logical_not", BOOL)
binary("add subtract multiply", NUMERIC, low=0)
binary("divide", FLOAT + COMPLEX, nonzero=True)
binary("floor_divide remainder", REAL, nonzero=True)
binary("pow", REAL, low=1, low_b=0)
binary("maximum minimum less less_equal greater greater_equal", REAL)
binary("equal not_equal", ANY)
binary("logaddexp atan2 hypot copysign nextafter", FLOAT)
binary("logical_and logical_or logical_xor", BOOL)
binary("bitwise_and bitwise_or bitwise_xor", BOOL + INTEGER)
binary("bitwise_left_shift bitwise_right_shift", INTEGER, low=0, low_b=0)
case(
    "clip",
    st.tuples(arrays(["float32", "int32"]), st.none() | st.integers(-2, 0), st.none() | st.integers(0, 2)),
    lambda xp, a, low, high: (xp.clip(a, low, high), xp.clip(a, min=low, max=high), xp.clip(a, max=high)),
)

for reduction, kinds in {
    "max": REAL, "min": REAL, "mean": FLOAT + COMPLEX, "all": ANY, "any": ANY, "count_nonzero": ANY,
}.items():  # fmt: skip
    case(
        reduction,
        st.tuples(with_axis(kinds, many=True, empty=kinds is ANY), st.booleans()),
        lambda xp, a, keep, name=reduction: getattr(xp, name)(a[0], axis=a[1], keepdims=keep),
    )
for reduction in "sum", "prod":
    case(
        reduction,
        st.tuples(with_axis(NUMERIC, many=True, low=-2, high=2), st.booleans(), st.sampled_from([None, "float64"])),
        lambda xp, a, keep, t, name=reduction: getattr(xp, name)(
            a[0], axis=a[1], keepdims=keep, dtype=dtype_in(xp, t) if t and "complex" not in str(a[0].dtype) else None
        ),
    )
for spread in "std", "var":
    case(
        spread,
        st.tuples(with_axis(FLOAT, many=True), st.booleans(), st.sampled_from([0, 1, 0.5, 1.25])),
        lambda xp, a, keep, n, name=spread: getattr(xp, name)(a[0], axis=a[1], correction=n, keepdims=keep),
    )
for index in "argmax", "argmin":
    case(
        index,
        st.tuples(with_axis(REAL, empty=False), st.booleans()),
        lambda xp, a, keep, name=index: getattr(xp, name)(a[0], axis=a[1], keepdims=keep),
    )
for order in "sort", "argsort":
    case(
        order,
        st.tuples(with_axis(REAL, none=False), st.booleans()),
        lambda xp, a, down, name=order: getattr(xp, name)(a[0], axis=a[1], descending=down, stable=True),
    )
for fold in "cumulative_sum", "cumulative_prod":
    case(
        fold,
        st.tuples(with_axis(REAL, none=False, low=-2, high=2), st.booleans(), st.sampled_from([None, "float64"])),
        lambda xp, a, more, t, name=fold: getattr(xp, name)(
            a[0], axis=a[1], include_initial=more, dtype=t and dtype_in(xp, t)
        ),
    )

case("concat", st.tuples(arrays(ANY, FULL), st.booleans()), lambda xp, a, flat: xp.concat(
    [a, a], axis=None if flat else 0))  # fmt: skip
case("stack", with_axis(ANY, none=False), lambda xp, a, axis: xp.stack([a, a], axis=axis))
case("unstack", with_axis(ANY, none=False), lambda xp, a, axis: xp.unstack(a, axis=axis))
case("expand_dims", with_axis(ANY, none=False), lambda xp, a, axis: xp.expand_dims(a, axis=axis))
case("squeeze", arrays(ANY).map(lambda a: (a,)), lambda xp, a: xp.squeeze(a[None, ...], axis=0))
case("flip", with_axis(ANY), lambda xp, a, axis: xp.flip(a, axis=axis))
case("moveaxis", with_axis(ANY, none=False), lambda xp, a, axis: (
    xp.moveaxis(a, axis, 0), xp.moveaxis(a[None, ...], (axis % a.ndim, -1), (-1, 0)), xp.moveaxis(a, (), ()),
))  # fmt: skip
case("permute_dims", arrays(ANY).flatmap(lambda a: st.tuples(st.just(a), st.permutations(range(a.ndim)))),
     lambda xp, a, axes: xp.permute_dims(a, tuple(axes)))  # fmt: skip
case("repeat", st.tuples(with_axis(ANY, none=False), st.integers(0, 3)), lambda xp, a, n: (
    xp.repeat(a[0], n, axis=a[1]),
    xp.repeat(a[0], xp.remainder(xp.arange(n, n + a[0].shape[a[1]]), 3), axis=a[1]),
    xp.repeat(a[0], xp.asarray([n]), axis=a[1]),
))  # fmt: skip
case("tile", st.tuples(arrays(ANY), st.lists(st.integers(0, 2), min_size=1, max_size=4)), lambda xp, a, n: xp.tile(
    a, tuple(n)))  # fmt: skip
case("roll", st.tuples(with_axis(ANY), st.integers(-5, 5)), lambda xp, a, n: (
    xp.roll(a[0], n, axis=a[1]), xp.roll(a[0], shift=n, axis=a[1]),
))  # fmt: skip
case("reshape", st.tuples(arrays(ANY), st.sampled_from([None, True])), lambda xp, a, copy: xp.reshape(
    a, shape=(a.size,), copy=copy))  # fmt: skip
case("broadcast_to", arrays(ANY).map(lambda a: (a,)), lambda xp, a: xp.broadcast_to(a, (2, *a.shape)))
case("broadcast_arrays", pairs(ANY), lambda xp, a, b: xp.broadcast_arrays(a, b))
case("broadcast_shapes", pairs(ANY), lambda xp, a, b: xp.broadcast_shapes(a.shape, b.shape))
case("matrix_transpose", arrays(ANY, hnp.array_shapes(min_dims=2, max_dims=4, min_side=0)).map(lambda a: (a,)),
     lambda xp, a: xp.matrix_transpose(a))  # fmt: skip
case("matmul", arrays(FLOAT, hnp.array_shapes(min_dims=2, max_dims=3)).map(lambda a: (a,)),
     lambda xp, a: xp.matmul(a, xp.matrix_transpose(a)))  # fmt: skip
case("tensordot", arrays(FLOAT, FULL).map(lambda a: (a,)), lambda xp, a: xp.tensordot(
    a, a, axes=((0,), (0,))))  # fmt: skip
case("vecdot", with_axis(FLOAT, none=False), lambda xp, a, axis: xp.vecdot(a, a, axis=-1))
case("where", st.tuples(pairs(REAL), arrays(BOOL, st.just(()))), lambda xp, a, c: xp.where(c, a[0], a[1]))
case("take", with_axis(ANY, none=False, empty=False), lambda xp, a, axis: xp.take(
    a, xp.asarray([0, a.shape[axis] - 1, 0]), axis=axis))  # fmt: skip
case("take_along_axis", with_axis(REAL, none=False), lambda xp, a, axis: xp.take_along_axis(
    a, xp.astype(xp.argsort(a, axis=axis), xp.int64), axis=axis))  # fmt: skip
case("nonzero", arrays(ANY, FULL).map(lambda a: (a,)), lambda xp, a: xp.nonzero(a))
case("searchsorted", st.tuples(arrays(REAL, hnp.array_shapes(max_dims=1)), st.sampled_from(["left", "right"])),
     lambda xp, a, side: (xp.searchsorted(xp.sort(a), xp.flip(a), side=side),
                          xp.searchsorted(a, a, side=side, sorter=xp.astype(xp.argsort(a), xp.int64))))  # fmt: skip
binary("isin", INTEGER)
for distinct in "unique_counts", "unique_inverse", "unique_values", "unique_all":
    case(distinct, arrays(REAL, FULL).map(lambda a: (a,)), lambda xp, a, name=distinct: getattr(xp, name)(a))
case("diff", st.tuples(with_axis(SIGNED + FLOAT, none=False), st.integers(0, 2)), lambda xp, a, n: (
    xp.diff(a[0], axis=a[1], n=n), xp.diff(a[0], axis=a[1], append=a[0]),
    xp.diff(a[0], axis=a[1], n=n, prepend=xp.flip(a[0]), append=a[0]),
))  # fmt: skip
case("tril", st.tuples(arrays(ANY, hnp.array_shapes(min_dims=2)), st.integers(-3, 3)), lambda xp, a, k: xp.tril(
    a, k=k))  # fmt: skip
case("triu", st.tuples(arrays(ANY, hnp.array_shapes(min_dims=2)), st.integers(-3, 3)), lambda xp, a, k: xp.triu(
    a, k=k))  # fmt: skip
case("meshgrid", st.tuples(arrays(REAL, hnp.array_shapes(max_dims=1)), st.sampled_from(["xy", "ij"])),
     lambda xp, a, indexing: xp.meshgrid(a, a, indexing=indexing))  # fmt: skip

NAMES = st.sampled_from(ANY)
SOME_SHAPE = st.tuples(SHAPES, NAMES)
for maker in "zeros", "ones":
    case(maker, SOME_SHAPE, lambda xp, s, t, name=maker: getattr(xp, name)(s, dtype=dtype_in(xp, t)))
    case(
        f"{maker}_like",
        st.tuples(arrays(ANY), NAMES),
        lambda xp, a, t, name=maker: getattr(xp, f"{name}_like")(a, dtype=dtype_in(xp, t)),
    )
case("empty", SOME_SHAPE, lambda xp, s, t: xp.empty(s, dtype=dtype_in(xp, t)) * 0 == 1 if t != "bool" else None)
case("empty_like", arrays(REAL).map(lambda a: (a,)), lambda xp, a: xp.empty_like(a).shape)
case("full", SOME_SHAPE, lambda xp, s, t: xp.full(s, t == "bool" or 3, dtype=dtype_in(xp, t)))
case("full_like", arrays(REAL).map(lambda a: (a,)), lambda xp, a: xp.full_like(a, 3))
case("eye", st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(-4, 4)), lambda xp, n, m, k: xp.eye(
    n, m, k=k, dtype=xp.float32))  # fmt: skip
case("arange", st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)), lambda xp, a, b, s: xp.arange(
    a, b, s, dtype=xp.int32))  # fmt: skip
case("linspace", st.tuples(st.integers(-9, 9), st.integers(-9, 9), st.integers(0, 9), st.booleans()),
     lambda xp, a, b, n, end: (xp.linspace(a, b, n, dtype=xp.float32, endpoint=end),
                               xp.linspace(a + 1j, b, n, dtype=xp.complex64, endpoint=end)))  # fmt: skip
case("asarray", st.tuples(st.lists(st.integers(-9, 9)), st.sampled_from(SIGNED)), lambda xp, v, t: xp.asarray(
    v, dtype=dtype_in(xp, t)))  # fmt: skip
case("from_dlpack", arrays(REAL, FULL).map(lambda a: (a,)), lambda xp, a: xp.from_dlpack(a))
case("astype", st.tuples(arrays(REAL, low=0), st.sampled_from(ANY)), lambda xp, a, t: xp.astype(a, dtype_in(xp, t)))
KINDS = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]
case("isdtype", st.tuples(NAMES, st.sampled_from(KINDS)), lambda xp, t, kind: xp.isdtype(dtype_in(xp, t), kind))


@st.composite
def same_kind(draw):
    kind = draw(st.sampled_from([SIGNED, ["uint8", "uint16", "uint32", "uint64"], BOOL, [*COMPLEX, "float32"]]))
    return draw(st.sampled_from(kind)), draw(st.sampled_from(kind))


case("can_cast", same_kind(), lambda xp, a, b: xp.can_cast(dtype_in(xp, a), dtype_in(xp, b)))
case("result_type", same_kind(), lambda xp, a, b: xp.result_type(dtype_in(xp, a), dtype_in(xp, b)))
case("finfo", st.tuples(st.sampled_from(FLOAT + COMPLEX), st.booleans()), lambda xp, t, array: tuple(
    getattr(xp.finfo(xp.ones(2, dtype=dtype_in(xp, t)) if array else dtype_in(xp, t)), f)
    for f in ("eps", "max", "min", "smallest_normal", "bits", "dtype")))  # fmt: skip
case("iinfo", st.tuples(st.sampled_from(INTEGER), st.booleans()), lambda xp, t, array: tuple(
    getattr(xp.iinfo(xp.ones(2, dtype=dtype_in(xp, t)) if array else dtype_in(xp, t)), f)
    for f in ("max", "min", "bits", "dtype")))  # fmt: skip
for namespace in "fft", "linalg":
    case(namespace, st.just(()), lambda xp, name=namespace: getattr(xp, name))
for constant in "e", "inf", "nan", "pi", "newaxis":
    case(constant, st.just(()), lambda xp, name=constant: getattr(xp, name))
for word in ANY:
    case(word, st.just(()), lambda xp, word=word: xp.zeros(1, dtype=getattr(xp, word)))
case("__array_namespace_info__", st.just(()), lambda xp: sorted(
    n for n in dir(xp.__array_namespace_info__()) if n[0] != "_"))  # fmt: skip
case("__array_api_version__", st.just(()), lambda xp: xp.__array_api_version__)


# The namespaces linalg and fft, in single and in double precision.
WITHIN = {}


def within(name, strategy, call):
    WITHIN[name] = (strategy, call)


@st.composite
def matrices(draw, square=False, kinds=FLOAT, low=1, positive=False):
    """Far from singular, and with singular values far from each other."""
    name, batch = draw(st.sampled_from(kinds)), draw(st.sampled_from([(), (2,), (0,), (2, 1)]))
    m = draw(st.integers(low, 4))
    n = m if square else draw(st.integers(low, 4))
    a = draw(hnp.arrays(name, (*batch, m, n), elements=numbers(name, -1, 1)))
    a = a + np.diag(np.arange(3, 3 * max(m, n) + 1, 3).astype(name))[:m, :n]
    return (a + np.swapaxes(a, -1, -2).conj() if positive else a).astype(name)


def matrix(name, call, **kinds):
    within(f"linalg.{name}", matrices(**kinds).map(lambda a: (a,)), call)


BOTH = FLOAT + COMPLEX
matrix("cholesky", lambda xp, a: (xp.linalg.cholesky(a), xp.linalg.cholesky(a, upper=True)), positive=True, square=True)
matrix("det", lambda xp, a: xp.linalg.det(a), square=True, low=0, kinds=BOTH)
matrix("inv", lambda xp, a: xp.linalg.inv(a), square=True, kinds=BOTH)
matrix("slogdet", lambda xp, a: (xp.linalg.slogdet(a).sign, xp.linalg.slogdet(a).logabsdet), square=True, kinds=BOTH)
matrix("solve", lambda xp, a: (xp.linalg.solve(a, a), xp.linalg.solve(a, xp.ones(a.shape[-1], dtype=a.dtype))),
       square=True, kinds=BOTH)  # fmt: skip
matrix("pinv", lambda xp, a: (xp.linalg.pinv(a), xp.linalg.pinv(a, rtol=0.3), xp.linalg.pinv(
    a, rtol=xp.astype(xp.ones(a.shape[:-2]), a.dtype) / 4)), kinds=BOTH)  # fmt: skip
matrix("matrix_rank", lambda xp, a: (xp.linalg.matrix_rank(a), xp.linalg.matrix_rank(a, rtol=0.3)), kinds=BOTH)
matrix("matrix_power", lambda xp, a: [xp.linalg.matrix_power(a, n) for n in (0, 1, 2, 5, -1)], square=True, kinds=BOTH)
matrix("svdvals", lambda xp, a: xp.linalg.svdvals(a), kinds=BOTH)
matrix("eigvalsh", lambda xp, a: xp.linalg.eigvalsh(a), positive=True, square=True, kinds=BOTH)
matrix("eigvals", lambda xp, a: xp.sort(xp.real(xp.linalg.eigvals(a))), positive=True, square=True, kinds=["float32"])
matrix("diagonal", lambda xp, a: [xp.linalg.diagonal(a, offset=k) for k in (0, 1, -1)], kinds=NUMERIC)
matrix("trace", lambda xp, a: (xp.linalg.trace(a), xp.linalg.trace(a, offset=1, dtype=xp.float32)), kinds=REAL)
ORDERS = ("fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf"))
matrix("matrix_norm", lambda xp, a: [xp.linalg.matrix_norm(a, ord=p, keepdims=k)
                                     for p in ORDERS for k in (False, True)], kinds=BOTH)  # fmt: skip
matrix("matrix_transpose", lambda xp, a: xp.linalg.matrix_transpose(a), kinds=NUMERIC)
matrix("matmul", lambda xp, a: xp.linalg.matmul(a, xp.matrix_transpose(a)), kinds=BOTH)
matrix("tensordot", lambda xp, a: (xp.linalg.tensordot(a, a, axes=((0, 1), (0, 1))), xp.linalg.tensordot(a, a, axes=0)),
       kinds=BOTH)  # fmt: skip
within("linalg.vecdot", with_axis(BOTH, none=False), lambda xp, a, axis: xp.linalg.vecdot(
    a, a, axis=axis - a.ndim if axis >= 0 else axis))  # fmt: skip
within(
    "linalg.outer", arrays(REAL, hnp.array_shapes(max_dims=1)).map(lambda a: (a,)), lambda xp, a: xp.linalg.outer(a, a)
)
within("linalg.cross", arrays(FLOAT, st.sampled_from([(3,), (2, 3), (0, 3)])).map(lambda a: (a,)),
       lambda xp, a: xp.linalg.cross(a, a[..., ::-1], axis=-1))  # fmt: skip
within("linalg.vector_norm", st.tuples(with_axis(BOTH, many=True, empty=False), st.booleans()),
       lambda xp, a, keep: [xp.linalg.vector_norm(a[0], axis=a[1], keepdims=keep, ord=p)
                            for p in (2, 1, 3, 0, float("inf"), -float("inf"))])  # fmt: skip


def product_of(parts, a, xp):
    """What a factorization says of its parts: shapes, and their product, which does not depend on signs."""
    return [p.shape for p in parts], parts[0] @ parts[1]


matrix("qr", lambda xp, a: (product_of(xp.linalg.qr(a), a, xp), product_of(xp.linalg.qr(a, mode="complete"), a, xp),
                            xp.abs(xp.linalg.qr(a).R)), kinds=BOTH)  # fmt: skip
matrix("svd", lambda xp, a: [([p.shape for p in s], s.S, (s.U[..., :, :k] * xp.astype(s.S, a.dtype)[..., None, :])
                              @ s.Vh[..., :k, :]) for full in (True, False) for k in (min(a.shape[-2:]),)
                             for s in (xp.linalg.svd(a, full_matrices=full),)], kinds=BOTH)  # fmt: skip
matrix("eigh", lambda xp, a: (lambda e: (e.eigenvalues, e.eigenvectors * xp.astype(e.eigenvalues, a.dtype)[..., None, :]
                                         @ xp.conj(xp.matrix_transpose(e.eigenvectors))))(xp.linalg.eigh(a)),
       positive=True, square=True, kinds=BOTH)  # fmt: skip
matrix("eig", lambda xp, a: (lambda e: xp.real(e.eigenvectors * e.eigenvalues[..., None, :] @ xp.linalg.inv(
    e.eigenvectors)))(xp.linalg.eig(a)), positive=True, square=True, kinds=["float32"])  # fmt: skip

NORMS = st.sampled_from(["backward", "ortho", "forward"])
LENGTH = st.none() | st.integers(1, 6)
for transform in "fft", "ifft", "rfft", "irfft", "hfft", "ihfft":
    within(
        f"fft.{transform}",
        st.tuples(
            with_axis(["float32"] if transform in ("rfft", "ihfft") else COMPLEX, none=False, empty=False),
            LENGTH,
            NORMS,
        ),
        lambda xp, a, n, norm, name=transform: getattr(xp.fft, name)(
            a[0], n=2 if n is None and a[0].shape[a[1]] == 1 else n, axis=a[1], norm=norm
        ),
    )
for transform in "fftn", "ifftn", "rfftn", "irfftn":
    within(
        f"fft.{transform}",
        st.tuples(
            arrays(["float32"] if transform == "rfftn" else COMPLEX, st.sampled_from([(2, 3), (4, 2), (2, 1, 3)])),
            NORMS,
        ),
        lambda xp, a, norm, name=transform: (
            getattr(xp.fft, name)(a, norm=norm),
            getattr(xp.fft, name)(a, s=(3, 4), axes=(1, 0), norm=norm),
        ),
    )
for shift in "fftshift", "ifftshift":
    within(f"fft.{shift}", with_axis(BOTH), lambda xp, a, axes, name=shift: getattr(xp.fft, name)(a, axes=axes))
for frequencies in "fftfreq", "rfftfreq":
    within(f"fft.{frequencies}", st.tuples(st.integers(1, 9), st.sampled_from(FLOAT)),
           lambda xp, n, t, name=frequencies: getattr(xp.fft, name)(n, d=0.3, dtype=dtype_in(xp, t)))  # fmt: skip


def converted(xp, value):
    if isinstance(value, np.ndarray):
        return xp.asarray(value) if xp is strict else mx.array(value, dtype=dtype_in(mx, value.dtype.name))
    if isinstance(value, tuple) and any(isinstance(v, np.ndarray) for v in value):
        return tuple(converted(xp, v) for v in value)
    return value


def compare(name, ours, theirs):
    if isinstance(theirs, (tuple, list)):
        assert isinstance(ours, tuple if isinstance(theirs, tuple) and name not in LISTS else (tuple, list))
        assert len(ours) == len(theirs)
        for o, t in zip(ours, theirs):
            compare(name, o, t)
    elif inspect.ismodule(theirs):
        assert inspect.ismodule(ours)
    elif hasattr(theirs, "_array"):
        theirs = theirs._array
        assert isinstance(ours, mx.array) and ours.shape == theirs.shape, (ours, theirs)
        same = str(ours.dtype).rpartition(".")[2] == theirs.dtype.name
        assert same or (name in OTHER_DTYPE and theirs.dtype.kind in "iu"), (ours.dtype, theirs.dtype)
        if theirs.dtype.kind in "iub":
            np.testing.assert_array_equal(np.array(ours), theirs)
        else:
            rough = 1e-13 if theirs.dtype == np.float64 else 4e-6
            if name == "nextafter":
                rough = 0
            if name in WITHIN:
                rough *= 20
            np.testing.assert_allclose(np.array(ours), theirs, rtol=rough, atol=rough)
    elif isinstance(theirs, type(strict.float32)):
        assert str(ours).rpartition(".")[2] == str(theirs).rpartition(".")[2]
    elif theirs is not None or ours is not None:
        assert ours == theirs or (ours != ours and theirs != theirs)


@pytest.mark.parametrize("name", sorted(CASES | WITHIN))
def test_function(name):
    strategy, call = (CASES | WITHIN)[name]

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def check(arguments):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            theirs = call(strict, *(converted(strict, v) for v in arguments))
            ours = call(mx, *(converted(mx, v) for v in arguments))
            compare(name, ours, theirs)

    check()


@settings(max_examples=40, deadline=None)
@given(pairs(NUMERIC), st.booleans())
def test_isin_of_any_dtype(ab, invert):
    """The package compares integers alone."""
    a, b = ab
    ours = mx.isin(converted(mx, a), converted(mx, b), invert=invert)
    np.testing.assert_array_equal(np.array(ours), np.isin(a, b, invert=invert))


@pytest.mark.parametrize("shape", [(), (2,), (2, 0)])
def test_nothing_is_one_of_none(shape):
    a, none = mx.ones(shape), mx.zeros(0)
    for options, expected in (({}, False), ({"invert": False}, False), ({"invert": True}, True)):
        found = mx.isin(a, none, **options)
        assert found.dtype == mx.bool_ and found.tolist() == np.full(shape, expected).tolist()


def test_every_name_is_accounted_for():
    exported = set(strict.__all__)
    assert exported == set(CASES) | set(KEPT)
    assert not set(CASES) & set(KEPT)
    there = [*(f"linalg.{n}" for n in strict.linalg.__all__), *(f"fft.{n}" for n in strict.fft.__all__)]
    assert set(there) | {"linalg.eig", "linalg.eigvals"} == set(WITHIN)
    assert set(OTHER_DTYPE) <= set(CASES | WITHIN)


# What goes for a parameter without a default, by the standard's name for it.
ARGUMENTS = {
    "shape": (2, 3), "n": 3, "n_rows": 3, "start": 1, "stop": 4, "num": 3, "fill_value": 7, "obj": [1.5, 2.0],
    "source": 0, "destination": 1, "axes": (1, 0), "repeats": 2, "shift": 1, "repetitions": (2,), "kind": "integral",
}  # fmt: skip
OPERAND = {
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_invert", "iinfo", "isin"], "int32"),
    **dict.fromkeys(["bitwise_left_shift", "bitwise_right_shift"], "int32"),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor", "logical_not"], "bool"),
    **dict.fromkeys(["real", "imag", *(f"fft.{t}" for t in ("fft", "ifft", "fftn", "ifftn"))], "complex64"),
    **dict.fromkeys(["fft.irfft", "fft.irfftn", "fft.hfft"], "complex64"),
}
VECTOR = {"searchsorted", "linalg.outer"}


def function_of(xp, name):
    for part in name.split("."):
        xp = getattr(xp, part)
    return xp


def argument(xp, name, parameter):
    kind = OPERAND.get(name, "float32")
    values = np.array([[2, 0.5, 0], [0.5, 3, 0], [0, 0, 1]]).astype(kind)
    match parameter:
        case "x" if name == "squeeze":
            values = values[None]
        case "indices" | "sorter":
            values = np.array([0, 2, 1] if name != "take_along_axis" else [[0, 2, 1]])
        case "condition":
            values = values == 0
        case "arrays":
            return [argument(xp, name, "x")] * 2
        case "dtype" | "from_" | "to":
            return xp.float32
        case "shape" if name in ("reshape", "broadcast_to"):
            return (9, 1) if name == "reshape" else (2, 3, 3)
        case "axis":
            return 0
        case "type":
            return xp.finfo(argument(xp, name, "x")).dtype if name == "finfo" else xp.int32
        case _ if parameter in ARGUMENTS:
            return ARGUMENTS[parameter]
    return converted(xp, values[0] if name in VECTOR else values)


SIGNATURES = {}
for name in [n for n in strict.__all__ if n not in KEPT] + sorted(WITHIN):
    if callable(function_of(strict, name)) and not isinstance(function_of(strict, name), type(strict.float32)):
        SIGNATURES[name] = inspect.signature(function_of(strict, name))


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name):
    """Every parameter by the standard's place for it, and by the standard's name."""
    for by_name in False, True:
        results = []
        for xp in mx, strict:
            places, names = [], {}
            for p in SIGNATURES[name].parameters.values():
                if p.kind == p.VAR_POSITIONAL:
                    shape = name == "broadcast_shapes"
                    places += [(3, 1), (1, 2)] if shape else [argument(xp, name, "x")] * 2
                    continue
                needed = p.default is p.empty or (p.name == "axis" and name in ALONG)
                value = argument(xp, name, p.name) if needed else p.default
                if type(value).__name__ == "Undef":
                    value = None if p.name == "copy" else xp.__array_namespace_info__().default_device()
                if p.kind == p.POSITIONAL_ONLY or (p.kind == p.POSITIONAL_OR_KEYWORD and not by_name):
                    places.append(value)
                else:
                    names[p.name] = value
            with np.errstate(all="ignore"):
                results.append(function_of(xp, name)(*places, **names))
        if name.startswith("empty"):
            assert results[0].shape == results[1].shape and results[0].dtype == mx.float32
        elif name not in ("__array_namespace_info__", "asarray"):  # of a list: another default dtype
            if name in ("finfo", "iinfo"):
                results = [r.bits for r in results]
            if name in ("linalg.eig", "linalg.eigh", "linalg.qr", "linalg.svd"):
                assert results[0]._fields == results[1]._fields
                results = [[p.shape for p in r] for r in results]
            if name in DEFAULTS:
                results = [xp.astype(r, xp.float32) for xp, r in zip((mx, strict), results)]
            compare(name, *results)


# Of no array, so that the dtype is the default one: float32 and int32 here.
DEFAULTS = {"zeros", "ones", "full", "eye", "linspace", "arange", "fft.fftfreq", "fft.rfftfreq"}
# Which need an axis where there are more than one.
ALONG = {"take", "cumulative_sum", "cumulative_prod"}

EDGES = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, 2.5, -3.5, np.inf, -np.inf, np.nan, 1e38, -1e38]
# fmt: off
ONE = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp", "expm1", "floor",
    "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "negative", "positive", "reciprocal", "round",
    "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]
TWO_FLOATS = [
    "add", "atan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less",
    "less_equal", "logaddexp", "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder",
    "subtract",
]
# fmt: on


def agree(ours, theirs, rough):
    """The same zeros, infinities and NaN, and near numbers."""
    ours, theirs = np.array(ours), theirs._array
    assert ours.dtype == theirs.dtype
    if ours.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(ours) | np.isnan(ours), np.signbit(theirs) | np.isnan(theirs))
    np.testing.assert_allclose(ours, theirs, rtol=rough)


@pytest.mark.parametrize("kind, rough", [("float32", 2e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("name", ONE + TWO_FLOATS)
def test_special_values(name, kind, rough):
    """Zeros of both signs, infinities, NaN and numbers whose results overflow: what the standard's tables say."""
    a = np.array(EDGES, kind)
    operands = [a] if name in ONE else [m.ravel() for m in np.meshgrid(a, a)]
    if name == "sign":
        operands = [a[~np.isnan(a)]]
        assert mx.sign(mx.array(mx.nan)).item() == 0  # as the mlx package has it; the standard says NaN
    with np.errstate(all="ignore"):
        theirs = getattr(strict, name)(*(converted(strict, v) for v in operands))
    agree(getattr(mx, name)(*(converted(mx, v) for v in operands)), theirs, rough)


COMPLEX_ONE = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "log", "log10", "log1p", "log2",
    "negative", "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX_ONE)
def test_special_complex_values(name):
    """Signs too where both parts are finite; the tables leave some others open."""
    parts = np.array([0.0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan], "float32")
    z = np.empty((8, 8), "complex64")
    z.real, z.imag = parts[:, None], parts
    with np.errstate(all="ignore"):
        theirs = getattr(strict, name)(strict.asarray(z))._array
    ours = np.array(getattr(mx, name)(mx.array(z)))
    finite = np.isfinite(z)
    for part in np.real, np.imag:
        a, b = part(ours), part(theirs)
        np.testing.assert_allclose(abs(a), abs(b), rtol=4e-6)
        np.testing.assert_array_equal(np.signbit(a)[finite], np.signbit(b)[finite])


def test_expm1_of_special_complex_values():
    """NumPy's, which array_api_strict has, is not what the standard's table says."""
    inf, nan = np.inf, np.nan
    table = [
        (0, 0, 0, 0), (inf, 0, inf, 0), (-inf, 1, -1, 0), (inf, 1, inf, inf), (-inf, inf, -1, 0), (inf, inf, inf, nan),
        (-inf, nan, -1, 0), (inf, nan, inf, nan), (nan, 0, nan, 0), (nan, 1, nan, nan), (1, inf, nan, nan),
    ]  # fmt: skip
    for re, im, want_re, want_im in table:
        y = mx.expm1(mx.array(complex(re, im))).item()
        np.testing.assert_array_equal([abs(y.real), abs(y.imag)], [abs(want_re), abs(want_im)], str((re, im)))


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", [*TWO_FLOATS, "searchsorted", "where", "clip", "bitwise_and", "bitwise_left_shift"])
def test_numbers_go_for_arrays(name, kind):
    """A Python number beside an array takes its dtype."""
    a = np.array([1, 2, 3], kind)
    floats = {"atan2", "copysign", "divide", "hypot", "logaddexp", "nextafter"}
    if (name in floats) == (kind == "int32") and not (name not in floats and name[:3] != "bit"):
        return
    for places in ((0, 1), (1, 0)) if name not in ("searchsorted", "where", "clip") else ((0, 1),):
        results = []
        for xp in mx, strict:
            given = [converted(xp, a), 2 if kind == "int32" else 2.0]
            given = [converted(xp, a > 2)] * (name == "where") + [given[i] for i in places]
            results.append(getattr(xp, name)(*given))
        compare(name, *results)


INDICES = [
    0, -1, (1, 2), slice(None), slice(1, None), slice(None, None, -1), slice(-1, 0, -2), ..., (..., 1), (0, ..., None),
    None, (slice(1, 2), None, 0), (slice(0, 0), ...), (slice(None), slice(None, -1)), (None, ..., None), (),
]  # fmt: skip
BY_ARRAY = [
    lambda xp, x: xp.asarray([1, 0, 1]),
    lambda xp, x: (xp.asarray([1, 0]), xp.asarray([0, -1])),
    lambda xp, x: (xp.asarray([[1], [0]]), xp.asarray([2, 0]), 0),
    lambda xp, x: (0, xp.asarray([2, 1]), xp.asarray([1, 0])),
    lambda xp, x: x > 0,
    lambda xp, x: (x > 5,),
    lambda xp, x: xp.any(x > 3, axis=2),
    lambda xp, x: xp.asarray(True),
]


@pytest.mark.parametrize("index", [*INDICES, *BY_ARRAY], ids=range(len(INDICES) + len(BY_ARRAY)))
def test_indexing(index):
    results = []
    for xp in mx, np:
        x = xp.reshape(xp.arange(-12, 12, dtype=xp.float32), (2, 3, 4))
        i = index(xp, x) if callable(index) else index
        read = np.array(x[i])
        x[i] = -7.0
        results.append((read, np.array(x)))
    for ours, theirs in zip(*results):
        np.testing.assert_array_equal(ours, theirs)


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "array_api.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| `")
]


@pytest.mark.parametrize("program, here, there, why", ROWS, ids=[row[0] for row in ROWS])
def test_difference(program, here, there, why):
    """What docs/array_api.md says differs from the standard."""
    for xp, cell in (mx, here), (strict, there):
        try:
            result = str(eval(program.strip("`"), {"xp": xp, "np": np}))
        except Exception as error:
            result = type(error).__name__
        assert result == cell.strip("`")
    assert why


def test_there_are_differences():
    assert len(ROWS) > 9


OPERATORS = {
    "__abs__": (operator.abs, SIGNED + FLOAT), "__neg__": (operator.neg, SIGNED + FLOAT + COMPLEX),
    "__pos__": (operator.pos, NUMERIC), "__invert__": (operator.invert, BOOL + INTEGER),
}  # fmt: skip
TWO = {
    "add": NUMERIC, "sub": NUMERIC, "mul": NUMERIC, "truediv": FLOAT, "floordiv": REAL, "mod": REAL, "pow": FLOAT,
    "and": BOOL + INTEGER, "or": BOOL + INTEGER, "xor": BOOL + INTEGER, "lshift": INTEGER, "rshift": INTEGER,
}  # fmt: skip
COMPARED = {"eq": ANY, "ne": ANY, "lt": REAL, "le": REAL, "gt": REAL, "ge": REAL}
ATTRIBUTES = {"T", "mT", "ndim", "shape", "size", "dtype", "device", "to_device"}
CONVERSIONS = {"__bool__": bool, "__int__": int, "__float__": float, "__complex__": complex, "__index__": None}
ELSEWHERE = {
    "__array__", "__array_namespace__", "__dlpack__", "__dlpack_device__", "__getitem__", "__setitem__", "__iter__",
    "__matmul__", "__rmatmul__", "__imatmul__", "__hash__", "__repr__", "__str__", "__format__",
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_unary_operator(name):
    call, kinds = OPERATORS[name]

    @settings(max_examples=20, deadline=None)
    @given(arrays(kinds))
    def check(a):
        compare(name, call(converted(mx, a)), call(converted(strict, a)))

    check()


@pytest.mark.parametrize("name", [*TWO, *COMPARED])
def test_binary_operator(name):
    """Between arrays, with a number on either side, and in place."""
    word = {"and": "and_", "or": "or_"}.get(name, name)

    @settings(max_examples=30, deadline=None)
    @given(
        pairs(TWO.get(name) or COMPARED[name], low=1, high=5), st.sampled_from(["arrays", "left", "right", "in place"])
    )
    def check(ab, how):
        a, b = ab
        results = []
        for xp in mx, strict:
            x, y = converted(xp, a), converted(xp, b)
            call = getattr(operator, word)
            if how == "right":
                y = b.ravel()[0].item() if b.size else 1
                y = bool(y) if a.dtype == bool else y
            if how == "left":
                x = a.ravel()[0].item() if a.size else 1
                x = bool(x) if b.dtype == bool else x
            if how == "in place" and name in TWO and np.broadcast_shapes(a.shape, b.shape) == a.shape:
                call = getattr(operator, f"i{name}")
            with np.errstate(all="ignore"):
                results.append(call(x, y))
        compare(name, *results)

    check()


@settings(max_examples=30, deadline=None)
@given(arrays(ANY, hnp.array_shapes(min_dims=2)))
def test_attributes(a):
    ours = converted(mx, a)
    assert ours.device == mx.default_device() == mx.__array_namespace_info__().default_device()
    assert ours.to_device(ours.device, stream=None) is ours
    assert mx.asarray(ours, copy=False) is ours is mx.astype(ours, ours.dtype, copy=False)
    for name in ATTRIBUTES - {"T", "device", "to_device"}:
        compare(name, getattr(converted(mx, a), name), getattr(converted(strict, a), name))
    a = a.reshape(a.shape[0], -1)
    compare("T", converted(mx, a).T, converted(strict, a).T)
    assert (converted(mx, a) @ converted(mx, a).T).shape == (a.shape[0], a.shape[0]) if a.dtype == "float32" else True


@pytest.mark.parametrize("value", [True, 3, -2.5, 1.5 - 2j])
def test_conversions(value):
    ours, theirs = mx.array(value), strict.asarray(value)
    for name, convert in CONVERSIONS.items():
        if isinstance(value, complex) and name != "__complex__":
            continue
        if convert:
            assert convert(ours) == convert(theirs)
        elif isinstance(value, int) and not isinstance(value, bool):
            assert operator.index(ours) == operator.index(theirs)


def test_every_method_is_accounted_for():
    plain = set(dir(object)) | {"__annotations__", "__module__", "__slots__", "__weakref__", "__reduce__"}
    exported = {n for n in dir(strict.asarray(1)) if n not in plain and (n[0] != "_" or n[:2] == "__")}
    reflected = {f"__{p}{n}__" for n in TWO for p in ("", "r", "i")}
    covered = set(OPERATORS) | reflected | {f"__{n}__" for n in COMPARED} | ATTRIBUTES | set(CONVERSIONS)
    assert exported - covered - ELSEWHERE == set(KEPT_METHODS) & exported
    for name in covered | ELSEWHERE - {"__hash__"}:
        assert hasattr(mx.array, name), name
