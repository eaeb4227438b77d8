"""The array API standard: what array_api_strict exports does the same here, or is kept out for a reason."""

import operator
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
    "bool": "bool_, for the name of Python's own type is needed beside it, in annotations too",
    "Device": "a device is a Device; the standard leaves the type open",
    "fft": "a namespace of its own, with tests of its own",
    "linalg": "a namespace of its own, with tests of its own",
    "__version__": "of the package, not of the standard",
    "set_array_api_strict_flags": "of the package, not of the standard",
    "get_array_api_strict_flags": "of the package, not of the standard",
    "reset_array_api_strict_flags": "of the package, not of the standard",
    "ArrayAPIStrictFlags": "of the package, not of the standard",
}
KEPT_METHODS = {
    "device": "arrays belong to no device: an operation runs on a device or stream, which it is given",
    "to_device": "see device",
    "__buffer__": "the type fills the slots of the buffer protocol, which has this name from Python 3.12 on",
}
# Arguments of the standard that functions do not take.
KEPT_ARGUMENTS = {
    "sort": "descending: flip(sort(a)); every order is stable",
    "argsort": "descending and stable, as for sort",
    "sum": "dtype: sum(astype(a, dtype))",
    "prod": "dtype, as for sum",
    "cumulative_sum": "include_initial: concat of a zero",
    "cumulative_prod": "include_initial: concat of a one",
    "searchsorted": "sorter: take(a, sorter)",
    "reshape": "copy: nothing is ever shared that could be written to",
    "astype": "copy, as for reshape; device",
    "asarray": "device, as for all that make arrays: stream or stream context",
    "diff": "prepend and append: concat",
    "repeat": "an array of repeats: shapes do not depend on data",
    "unique_inverse": "shapes depend on data, so it evaluates",
    "roll": "axis by name: it is given by its place",
    "clip": "min and max by name: they are given by their places, and one must be",
    "std": "a correction that is no whole number",
    "var": "a correction that is no whole number",
    "can_cast": "dtypes of different kinds: they meet here, and the standard leaves that open",
    "result_type": "dtypes of different kinds, as for can_cast",
}
# Results whose dtype the standard leaves to a default that is another one here.
INT32 = "integers by default have 32 bits"
UINT32 = "indices are uint32, or int32 where nonzero makes them"
OTHER_DTYPE = {
    **dict.fromkeys(["sum", "prod", "cumulative_sum", "cumulative_prod"], INT32),
    **dict.fromkeys(["argmax", "argmin", "argsort", "nonzero", "searchsorted", "count_nonzero"], UINT32),
    **dict.fromkeys(["unique_all", "unique_counts", "unique_inverse"], UINT32),
}

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
def with_axis(draw, names, many=False, none=True, low=-4, high=4):
    a = draw(arrays(names, FULL, low, high))
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
    st.tuples(arrays(["float32", "int32"]), st.none() | st.integers(-2, 0), st.integers(0, 2)),
    lambda xp, a, low, high: xp.clip(a, low, high),
)

for reduction, kinds in {
    "sum": NUMERIC, "prod": NUMERIC, "max": REAL, "min": REAL, "mean": FLOAT, "all": ANY, "any": ANY,
    "count_nonzero": ANY,
}.items():  # fmt: skip
    case(
        reduction,
        st.tuples(with_axis(kinds, many=True, low=-2, high=2), st.booleans()),
        lambda xp, a, keep, name=reduction: getattr(xp, name)(a[0], axis=a[1], keepdims=keep),
    )
for spread in "std", "var":
    case(
        spread,
        st.tuples(with_axis(FLOAT, many=True), st.booleans()),
        lambda xp, a, keep, name=spread: getattr(xp, name)(a[0], axis=a[1], correction=1, keepdims=keep),
    )
for index in "argmax", "argmin":
    case(
        index,
        st.tuples(with_axis(REAL), st.booleans()),
        lambda xp, a, keep, name=index: getattr(xp, name)(a[0], axis=a[1], keepdims=keep),
    )
for order in "sort", "argsort":
    case(order, with_axis(REAL, none=False), lambda xp, a, axis, name=order: getattr(xp, name)(a, axis=axis))
for fold in "cumulative_sum", "cumulative_prod":
    case(
        fold,
        with_axis(REAL, none=False, low=-2, high=2),
        lambda xp, a, axis, name=fold: getattr(xp, name)(a, axis=axis),
    )

case("concat", st.tuples(arrays(ANY, FULL), st.booleans()), lambda xp, a, flat: xp.concat(
    [a, a], axis=None if flat else 0))  # fmt: skip
case("stack", with_axis(ANY, none=False), lambda xp, a, axis: xp.stack([a, a], axis=axis))
case("unstack", with_axis(ANY, none=False), lambda xp, a, axis: xp.unstack(a, axis=axis))
case("expand_dims", with_axis(ANY, none=False), lambda xp, a, axis: xp.expand_dims(a, axis=axis))
case("squeeze", arrays(ANY).map(lambda a: (a,)), lambda xp, a: xp.squeeze(a[None, ...], axis=0))
case("flip", with_axis(ANY), lambda xp, a, axis: xp.flip(a, axis=axis))
case("moveaxis", with_axis(ANY, none=False), lambda xp, a, axis: xp.moveaxis(a, axis, 0))
case("permute_dims", arrays(ANY).flatmap(lambda a: st.tuples(st.just(a), st.permutations(range(a.ndim)))),
     lambda xp, a, axes: xp.permute_dims(a, tuple(axes)))  # fmt: skip
case("repeat", st.tuples(with_axis(ANY, none=False), st.integers(0, 3)), lambda xp, a, n: xp.repeat(
    a[0], n, axis=a[1]))  # fmt: skip
case("tile", st.tuples(arrays(ANY), st.lists(st.integers(0, 2), min_size=1, max_size=4)), lambda xp, a, n: xp.tile(
    a, tuple(n)))  # fmt: skip
case("roll", st.tuples(with_axis(ANY), st.integers(-5, 5)), lambda xp, a, n: xp.roll(a[0], n, axis=a[1])
     if xp is strict else xp.roll(a[0], n, a[1]))  # fmt: skip
case("reshape", arrays(ANY).map(lambda a: (a,)), lambda xp, a: xp.reshape(a, (a.size,)))
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
case("take", with_axis(ANY, none=False), lambda xp, a, axis: xp.take(
    a, xp.asarray([0, a.shape[axis] - 1, 0]), axis=axis))  # fmt: skip
case("take_along_axis", with_axis(REAL, none=False), lambda xp, a, axis: xp.take_along_axis(
    a, xp.astype(xp.argsort(a, axis=axis), xp.int64), axis=axis))  # fmt: skip
case("nonzero", arrays(ANY, FULL).map(lambda a: (a,)), lambda xp, a: xp.nonzero(a))
case("searchsorted", st.tuples(arrays(REAL, hnp.array_shapes(max_dims=1)), st.sampled_from(["left", "right"])),
     lambda xp, a, side: xp.searchsorted(xp.sort(a), xp.flip(a), side=side))  # fmt: skip
binary("isin", INTEGER)
for distinct in "unique_counts", "unique_inverse", "unique_values", "unique_all":
    case(distinct, arrays(REAL, FULL).map(lambda a: (a,)), lambda xp, a, name=distinct: getattr(xp, name)(a))
case("diff", with_axis(REAL, none=False, low=0), lambda xp, a, axis: xp.diff(
    xp.astype(a, xp.float32), axis=axis, n=1))  # fmt: skip
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
     lambda xp, a, b, n, end: xp.linspace(a, b, n, dtype=xp.float32, endpoint=end))  # fmt: skip
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
case("finfo", st.tuples(st.sampled_from(FLOAT)), lambda xp, t: tuple(float(
    getattr(xp.finfo(dtype_in(xp, t)), f)) for f in ("eps", "max", "min", "smallest_normal", "bits")))  # fmt: skip
case("iinfo", st.tuples(st.sampled_from(INTEGER)), lambda xp, t: tuple(
    getattr(xp.iinfo(dtype_in(xp, t)), f) for f in ("max", "min", "bits")))  # fmt: skip
for constant in "e", "inf", "nan", "pi", "newaxis":
    case(constant, st.just(()), lambda xp, name=constant: getattr(xp, name))
for word in NUMERIC:
    case(word, st.just(()), lambda xp, word=word: xp.zeros(1, dtype=getattr(xp, word)))
case("__array_namespace_info__", st.just(()), lambda xp: sorted(
    n for n in dir(xp.__array_namespace_info__()) if n[0] != "_"))  # fmt: skip
case("__array_api_version__", st.just(()), lambda xp: int(xp.__array_api_version__[:4]) >= 2024)


def converted(xp, value):
    if isinstance(value, np.ndarray):
        return xp.asarray(value) if xp is strict else mx.array(value, dtype=dtype_in(mx, value.dtype.name))
    if isinstance(value, tuple) and any(isinstance(v, np.ndarray) for v in value):
        return tuple(converted(xp, v) for v in value)
    return value


def compare(name, ours, theirs):
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs)
        for o, t in zip(ours, theirs):
            compare(name, o, t)
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
            np.testing.assert_allclose(np.array(ours), theirs, rtol=rough, atol=rough)
    elif isinstance(theirs, type(strict.float32)):
        assert str(ours).rpartition(".")[2] == str(theirs).rpartition(".")[2]
    elif theirs is not None or ours is not None:
        assert ours == theirs or (ours != ours and theirs != theirs)


@pytest.mark.parametrize("name", sorted(CASES))
def test_function(name):
    strategy, call = CASES[name]

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
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


def test_every_name_is_accounted_for():
    exported = set(strict.__all__)
    assert exported == set(CASES) | set(KEPT)
    assert not set(CASES) & set(KEPT)
    assert set(KEPT_ARGUMENTS) | set(OTHER_DTYPE) <= set(CASES)


OPERATORS = {
    "__abs__": (operator.abs, SIGNED + FLOAT), "__neg__": (operator.neg, SIGNED + FLOAT + COMPLEX),
    "__pos__": (operator.pos, NUMERIC), "__invert__": (operator.invert, BOOL + INTEGER),
}  # fmt: skip
TWO = {
    "add": NUMERIC, "sub": NUMERIC, "mul": NUMERIC, "truediv": FLOAT, "floordiv": REAL, "mod": REAL, "pow": FLOAT,
    "and": BOOL + INTEGER, "or": BOOL + INTEGER, "xor": BOOL + INTEGER, "lshift": INTEGER, "rshift": INTEGER,
}  # fmt: skip
COMPARED = {"eq": ANY, "ne": ANY, "lt": REAL, "le": REAL, "gt": REAL, "ge": REAL}
ATTRIBUTES = {"T", "mT", "ndim", "shape", "size", "dtype"}
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
    for name in ATTRIBUTES - {"T"}:
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
