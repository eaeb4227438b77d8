"""The functions of mlx.core against NumPy in double precision."""

import inspect
import math
from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special

shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
some = hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)


def floats(shape, low=-3.0, high=3.0):
    numbers = st.floats(low, high, width=32, allow_subnormal=False)
    return hnp.arrays(np.float32, shape, elements=numbers)


def close(got, want, rtol=2e-6, atol=2e-6):
    want = np.asarray(want)
    assert got.shape == want.shape
    assert np.allclose(np.array(got), want, rtol=rtol, atol=atol, equal_nan=True), (got, want)


# Element-wise

UNARY = {
    "abs": np.abs,
    "negative": np.negative,
    "positive": np.positive,
    "sign": np.sign,
    "square": np.square,
    "exp": np.exp,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "arctan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "arcsinh": np.arcsinh,
    "erf": special.erf,
    "sigmoid": special.expit,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.round,
    "degrees": np.degrees,
    "radians": np.radians,
    "logical_not": np.logical_not,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "isposinf": np.isposinf,
    "isneginf": np.isneginf,
    "stop_gradient": np.positive,
    "real": np.real,
    "imag": np.imag,
    "conj": np.conj,
    "conjugate": np.conj,
}
POSITIVE = {
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "reciprocal": lambda a: 1 / a,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
}
INSIDE_ONE = {
    "arcsin": np.arcsin,
    "arccos": np.arccos,
    "arctanh": np.arctanh,
    "erfinv": special.erfinv,
}


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=25)
@given(shapes.flatmap(floats))
def test_unary(name, a):
    close(getattr(mx, name)(mx.array(a)), UNARY[name](a.astype(np.float64)), 1e-5, 1e-5)


@pytest.mark.parametrize("name", POSITIVE)
@settings(max_examples=25)
@given(shapes.flatmap(lambda s: floats(s, 0.125, 100.0)))
def test_unary_of_positive(name, a):
    close(getattr(mx, name)(mx.array(a)), POSITIVE[name](a.astype(np.float64)))


@pytest.mark.parametrize("name", INSIDE_ONE)
@settings(max_examples=25)
@given(shapes.flatmap(lambda s: floats(s, -0.9375, 0.9375)))
def test_unary_inside_one(name, a):
    close(getattr(mx, name)(mx.array(a)), INSIDE_ONE[name](a.astype(np.float64)), 1e-5, 1e-6)


def test_arccosh():
    a = np.array([1.0, 1.5, 10.0])
    close(mx.arccosh(mx.array(a)), np.arccosh(a))


BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "logaddexp": np.logaddexp,
    "arctan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
pairs = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4).map(lambda s: s.input_shapes)


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=25)
@given(st.data())
def test_binary(name, data):
    a, b = (data.draw(floats(s)) for s in data.draw(pairs))
    want = BINARY[name](a.astype(np.float64), b.astype(np.float64))
    f = getattr(mx, name)
    close(f(mx.array(a), mx.array(b)), want, 1e-6, 1e-6)
    close(f(a, mx.array(b)), want, 1e-6, 1e-6)


@pytest.mark.parametrize("name", ["divide", "floor_divide", "remainder", "power"])
@settings(max_examples=25)
@given(st.data())
def test_division_and_power(name, data):
    sizes = data.draw(pairs)
    a, b = data.draw(floats(sizes[0], 0.5, 8.0)), data.draw(floats(sizes[1], 0.5, 3.0))
    # Away from whole quotients, which rounding of the operands moves across.
    assume(np.all(np.abs(a / b - np.round(a / b)) > 1e-3))
    want = getattr(np, name)(a.astype(np.float64), b.astype(np.float64))
    close(getattr(mx, name)(mx.array(a), mx.array(b)), want, 1e-5, 1e-5)


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_bits(name, dtype):
    a, b = np.array([[1, 7], [12, 100]], dtype), np.array([1, 3], dtype)
    want = getattr(np, name)(a, b)
    got = getattr(mx, name)(mx.array(a), mx.array(b))
    assert np.array(got).dtype == dtype
    assert np.array_equal(np.array(got), want)
    assert np.array_equal(np.array(mx.bitwise_invert(mx.array(a))), ~a)


def test_whole_numbers_divided_by_zero_are_defined():
    i = mx.array([1, 2, -3])
    assert (i // 0).tolist() == [0, 0, 0]
    assert (i % 0).tolist() == [1, 2, -3]
    q, r = mx.divmod(mx.array([7, -7]), mx.array([2, 2]))
    assert (q.tolist(), r.tolist()) == ([3, -4], [1, 1])


def test_where_clip_and_nan_to_num():
    a = np.array([[1.0, -2.0], [3.0, 0.5]])
    x = mx.array(a)
    close(mx.where(x > 0, x, 0.0), np.where(a > 0, a, 0))
    assert mx.where(x > 0, 1, 2).dtype == mx.int32
    assert mx.where(True, mx.array([1, 2]), 1.5).dtype == mx.float32
    close(mx.clip(x, -1, 1), np.clip(a, -1, 1))
    close(mx.clip(x, None, mx.array([0.0, 1.0])), np.minimum(a, [0, 1]))
    close(mx.clip(x, 0, None), np.maximum(a, 0))
    bad = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)
    close(mx.nan_to_num(mx.array(bad)), np.nan_to_num(bad))
    close(mx.nan_to_num(mx.array(bad), nan=2, posinf=3, neginf=4), [2, 3, 4, 1])
    d = mx.nan_to_num(mx.array([np.inf], mx.float64), posinf=1 / 3)
    assert d.item() == 1 / 3


def test_rounding():
    a = np.array([1.25, 2.5, -3.5, 1234.567])
    x = mx.array(a, mx.float64)
    for n in [-2, 0, 1, 2]:
        close(mx.round(x, n), np.round(a, n), 1e-12, 1e-12)
        close(x.round(n), np.round(a, n), 1e-12, 1e-12)


def test_closeness():
    x = mx.array([1.0, 2.0, float("nan"), float("inf")])
    y = mx.array([1.0, 2.1, float("nan"), float("inf")])
    assert mx.isclose(x, y).tolist() == [True, False, False, True]
    assert mx.isclose(x, y, rtol=0.1, equal_nan=True).tolist() == [True] * 4
    assert mx.allclose(x, y, atol=0.2, equal_nan=True).item()
    assert not mx.allclose(x, y).item()
    assert not mx.array_equal(x, x).item()
    assert mx.array_equal(x, x, equal_nan=True).item()
    assert not mx.array_equal(x, x[:2]).item()


# Reductions

REDUCTIONS = ["sum", "prod", "min", "max", "mean", "var", "std", "all", "any"]


@st.composite
def arrays_and_axes(draw):
    a = draw(some.flatmap(lambda s: floats(s, -2.0, 2.0)))
    kind = draw(st.sampled_from(["none", "one", "several"]))
    if kind == "none":
        return a, None
    axes = st.integers(-a.ndim, a.ndim - 1)
    if kind == "one":
        return a, draw(axes)
    chosen = draw(st.lists(axes, unique_by=lambda i: i % a.ndim, min_size=0))
    return a, tuple(chosen)


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=40)
@given(arrays_and_axes(), st.booleans())
def test_reductions(name, case, keepdims):
    a, axis = case
    want = getattr(np, name)(a.astype(np.float64), axis=axis, keepdims=keepdims)
    close(getattr(mx, name)(mx.array(a), axis, keepdims), want, 1e-4, 1e-4)
    close(getattr(mx.array(a), name)(axis=axis, keepdims=keepdims), want, 1e-4, 1e-4)


@settings(max_examples=40)
@given(arrays_and_axes(), st.booleans())
def test_other_reductions(case, keepdims):
    a, axis = case
    x, d = mx.array(a), a.astype(np.float64)
    close(mx.logsumexp(x, axis, keepdims), special.logsumexp(d, axis, keepdims=keepdims), 1e-5, 1e-5)
    close(mx.softmax(x, axis), special.softmax(d, axis) if axis != () else np.ones(a.shape), 1e-5)
    low, high = mx.minmax(x, axis, keepdims)
    close(low, a.min(axis, keepdims=keepdims))
    close(high, a.max(axis, keepdims=keepdims))
    count = mx.count_nonzero(x, axis=axis, keepdims=keepdims)
    if axis != ():
        close(count, np.count_nonzero(a, axis, keepdims=keepdims))
    if axis is None or isinstance(axis, int):
        close(mx.argmax(x, axis, keepdims), a.argmax(axis, keepdims=keepdims))
        close(mx.argmin(x, axis, keepdims), a.argmin(axis, keepdims=keepdims))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_softmax_of_rows_with_infinity_is_nan(dtype):
    inf = float("inf")
    x = mx.array([[inf, 0, 1], [inf, -inf, inf], [-inf, -inf, -inf]]).astype(dtype)
    assert mx.isnan(mx.softmax(x, axis=-1)).all()
    y = mx.softmax(mx.array([-inf, 0, 0]).astype(dtype), axis=-1)
    assert y.tolist() == [0, 0.5, 0.5]


def test_spread():
    a = np.arange(6.0).reshape(2, 3)
    x = mx.array(a)
    close(mx.var(x, 1, ddof=1), a.var(1, ddof=1))
    close(mx.std(x, correction=1), a.std(ddof=1))
    close(x.var(0, True, 1), a.var(0, ddof=1, keepdims=True))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64, mx.bfloat16], ids=str)
def test_variance_of_rows_far_from_zero(dtype):
    rng = np.random.default_rng(5)
    for n in (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 1000, 1024, 1025, 3001):
        for rows in (1, 5, 16, 19):
            x = mx.array(rng.standard_normal((rows, n)) + 1e4, dtype)
            a = np.array(x.astype(mx.float64))
            rtol = {mx.float32: 1e-5, mx.float64: 1e-12, mx.bfloat16: 1e-2}[dtype]
            same = partial(np.testing.assert_allclose, rtol=rtol, atol=rtol)
            same(np.array(x.var(-1).astype(mx.float64)), a.var(-1))
            same(np.array(x[::-1].var(-1).astype(mx.float64)), a[::-1].var(-1))
            same(x.var().item(), a.var())
            same(np.array(mx.square(x - x[:, :1]).sum(-1).astype(mx.float64)), np.square(a - a[:, :1]).sum(-1))


def test_variance_of_rows_with_infinity_or_nan():
    x = np.zeros((9, 5), np.float32)
    x[2, 3], x[4, 0], x[6] = np.inf, np.nan, 3e38
    got = np.array(mx.array(x).var(-1))
    assert np.isnan(got[[2, 4]]).all() and got[6] == np.inf  # the sum of that row is infinite
    np.testing.assert_array_equal(got[[0, 1, 3, 5, 7, 8]], 0)


def test_dtypes_of_sums():
    assert mx.sum(mx.ones(3, mx.int8)).dtype == mx.int32
    assert mx.sum(mx.ones(3, mx.bool_)).dtype == mx.int32
    assert mx.sum(mx.ones(3, mx.uint8)).dtype == mx.uint32
    assert mx.sum(mx.ones(3, mx.bool_), axis=[]).dtype == mx.int32
    assert mx.mean(mx.ones(3, mx.int8)).dtype == mx.float32
    assert mx.argmax(mx.ones(3)).dtype == mx.uint32


def test_reductions_of_nothing():
    assert mx.sum(mx.zeros((0, 3))).item() == 0
    assert mx.prod(mx.zeros((0,))).item() == 1
    assert mx.sum(mx.zeros((0, 3)), 0).tolist() == [0, 0, 0]
    for f in [mx.min, mx.max, mx.argmin, mx.argmax]:
        with pytest.raises(ValueError):
            mx.eval(f(mx.zeros((0,))))


# Shapes


@settings(max_examples=60)
@given(shapes.flatmap(floats), st.data())
def test_shape_functions(a, data):
    x, n = mx.array(a), a.ndim
    axes = data.draw(st.permutations(range(n)))
    close(mx.transpose(x, axes), a.transpose(axes))
    close(x.transpose(*axes) if n else x.transpose(), a.transpose(axes))
    close(x.T, a.T)
    close(mx.flatten(x), a.reshape(-1))
    close(x.reshape(-1) if a.size else x.reshape(0), a.reshape(-1))
    close(mx.flip(x), np.flip(a))
    if n:
        i, j = (data.draw(st.integers(-n, n - 1)) for _ in range(2))
        close(mx.swapaxes(x, i, j), a.swapaxes(i, j))
        close(x.moveaxis(i, j), np.moveaxis(a, i, j))
        close(mx.flip(x, i), np.flip(a, i))
        close(mx.expand_dims(x, i), np.expand_dims(a, i))
        close(mx.concatenate([x, x], i), np.concatenate([a, a], i))
        close(mx.stack([x, x], i), np.stack([a, a], i))
        parts = mx.unstack(x, axis=i)
        assert len(parts) == a.shape[i]
        if parts:
            close(mx.stack(list(parts), i % n), a)
    ones = tuple(k for k in range(n) if a.shape[k] == 1)
    close(mx.squeeze(x), a.squeeze())
    close(x.squeeze(ones), a.squeeze(ones))


@given(pairs)
def test_broadcasting(sizes):
    s, t = sizes
    want = np.broadcast_shapes(s, t)
    assert mx.broadcast_shapes(s, t) == want
    close(mx.broadcast_to(mx.ones(s), want), np.ones(want))
    assert [b.shape for b in mx.broadcast_arrays(mx.ones(s), mx.ones(t))] == [want, want]


def test_shape_functions_by_example():
    x = mx.arange(12)
    assert mx.unflatten(x, 0, (3, -1)).shape == (3, 4)
    assert mx.flatten(mx.zeros((2, 3, 4)), 1, 2).shape == (2, 12)
    assert mx.zeros((2, 3, 4)).flatten(0, 1).shape == (6, 4)
    assert mx.matrix_transpose(mx.zeros((2, 3, 4))).shape == (2, 4, 3)
    assert mx.permute_dims(mx.zeros((2, 3)), (1, 0)).shape == (3, 2)
    assert x.reshape((3, 4)).shape == x.reshape(3, 4).shape == x.reshape([3, -1]).shape == (3, 4)
    assert mx.concatenate([x.reshape(3, 4), x], None).shape == (24,)
    assert [p.tolist() for p in mx.split(x[:6], 3)] == [[0, 1], [2, 3], [4, 5]]
    assert [p.tolist() for p in x[:4].split([1, 3])] == [[0], [1, 2], [3]]
    assert mx.atleast_1d(mx.array(1)).shape == (1,)
    assert [a.shape for a in mx.atleast_2d(mx.array(1), x)] == [(1, 1), (1, 12)]
    assert mx.atleast_3d(x).shape == (1, 12, 1)
    assert mx.slice(x, mx.array([3]), [0], [2]).tolist() == [3, 4]
    assert mx.slice_update(x[:3], mx.array([9]), mx.array([1]), [0]).tolist() == [0, 9, 2]
    assert mx.contiguous(x.reshape(3, 4).T).shape == (4, 3)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
@pytest.mark.parametrize("width", [1, (1, 2), ((0, 1), (2, 1)), [(1, 0)]])
def test_pad(mode, width):
    a = np.arange(12.0).reshape(3, 4)
    close(mx.pad(mx.array(a), width, mode), np.pad(a, width, mode))
    close(mx.pad(mx.array(a), width, constant_values=5), np.pad(a, width, constant_values=5))


@pytest.mark.parametrize("value", [1j, mx.array(1j)], ids=["number", "array"])
def test_pad_with_a_complex_number(value):
    with pytest.raises(ValueError, match=r"\[pad\] expected a real number to pad float32 with, got complex64"):
        mx.pad(mx.ones(1), 1, constant_values=value)
    assert mx.pad(mx.array([2j]), 1, constant_values=value).tolist() == [1j, 2j, 1j]


# Making arrays


@pytest.mark.parametrize("args", [(5,), (1, 5), (1, 6, 2), (5, 1, -1), (0.0, 1.0, 0.25), (2.5,), (0,), (3, 1)])
def test_arange(args):
    want = np.arange(*args)
    got = mx.arange(*args)
    assert np.array(got).dtype.kind == want.dtype.kind
    close(got, want)


def test_arange_by_name():
    assert mx.arange(stop=3).tolist() == [0, 1, 2]
    assert mx.arange(start=1, stop=3).tolist() == [1, 2]
    assert mx.arange(4, step=2).tolist() == [0, 2]
    assert mx.arange(3, dtype=mx.float16).dtype == mx.float16
    with pytest.raises(TypeError):
        mx.arange()
    with pytest.raises(TypeError):
        mx.arange("a")
    with pytest.raises(ValueError):
        mx.arange(0, 1, 0)


def test_making():
    assert mx.zeros(3).tolist() == [0, 0, 0]
    assert mx.ones((2, 1), mx.int8).dtype == mx.int8
    assert mx.zeros((), mx.bool_).item() is False
    assert mx.full((2, 2), 3).dtype == mx.int32
    assert mx.full((2,), mx.array([1.0, 2.0])).tolist() == [1, 2]
    assert mx.full(2, 3, mx.float16).dtype == mx.float16
    assert mx.full_like(mx.zeros((2, 1)), 3).tolist() == [[3], [3]]
    assert mx.zeros_like(mx.ones(2, mx.int8)).dtype == mx.int8
    assert mx.ones_like(mx.zeros(2), mx.int8).dtype == mx.int8
    assert mx.empty((2, 3)).shape == mx.empty_like(mx.zeros((2, 3))).shape == (2, 3)
    close(mx.eye(3, 4, 1), np.eye(3, 4, 1))
    close(mx.identity(3), np.identity(3))
    close(mx.tri(3, 4, -1), np.tri(3, 4, -1))
    a = np.arange(9.0).reshape(3, 3)
    close(mx.tril(mx.array(a), 1), np.tril(a, 1))
    close(mx.triu(mx.array(a), -1), np.triu(a, -1))
    close(mx.linspace(0, 1, 5), np.linspace(0, 1, 5))
    close(mx.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False))
    close(mx.linspace(2, 2, 1), [2])
    assert mx.linspace(0, 1, 0).shape == (0,)


# Products and indices


@settings(max_examples=40)
@given(st.data())
def test_matmul(data):
    shape = hnp.mutually_broadcastable_shapes(signature="(m?,n),(n,p?)->(m?,p?)", max_dims=2)
    s, t = data.draw(shape).input_shapes
    a, b = data.draw(floats(s)), data.draw(floats(t))
    want = a.astype(np.float64) @ b.astype(np.float64)
    close(mx.matmul(mx.array(a), mx.array(b)), want, 1e-5, 1e-5)
    close(mx.array(a) @ mx.array(b), want, 1e-5, 1e-5)


def test_addmm():
    a, b, c = np.ones((2, 3)), np.arange(12.0).reshape(3, 4), np.arange(4.0)
    got = mx.addmm(mx.array(c), mx.array(a), mx.array(b), alpha=0.5, beta=2.0)
    close(got, 2 * c + 0.5 * (a @ b))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16], ids=str)
@pytest.mark.parametrize("shape", [(9000, 70), (5000, 300), (1030, 2100), (37, 1100)])
def test_long_columns_times_vectors(shape, dtype):
    rng = np.random.default_rng(shape[1])
    a = mx.array(rng.standard_normal(shape, dtype=np.float32)).astype(dtype)
    turned = mx.array(np.ascontiguousarray(np.array(a).T)).T
    with mx.stream(mx.cpu):
        for count in (1, 2, 3, 4):
            b = mx.array(rng.standard_normal((shape[1], count), dtype=np.float32)).astype(dtype)
            want = np.array(a).astype(np.float64) @ np.array(b).astype(np.float64)
            got = turned @ b
            assert mx.array_equal(got, a @ b).item(), "order of sums depends on the layout"
            error = np.abs(np.array(got).astype(np.float64) - want).max() / np.abs(want).max()
            assert error < (1e-6 if dtype == mx.float32 else 1e-3)


def test_take():
    a = np.arange(24.0).reshape(2, 3, 4)
    x = mx.array(a)
    i = np.array([[0, 2], [1, -1]])
    close(mx.take(x, mx.array(i), 1), np.take(a, i, 1))
    close(mx.take(x, mx.array(i)), np.take(a, i))
    close(mx.take(x, 1, 2), np.take(a, 1, 2))
    order = np.argsort(-a, axis=1)
    close(mx.take_along_axis(x, mx.array(order), 1), np.take_along_axis(a, order, 1))
    flat = np.array([5, 1])
    close(mx.take_along_axis(x, mx.array(flat), None), np.take_along_axis(a, flat, None))
    values = -np.ones((2, 1, 4))
    where = np.ones((2, 1, 4), int)
    got = mx.put_along_axis(x, mx.array(where), mx.array(values), 1)
    np.put_along_axis(a, where, values, 1)
    close(got, a)
    got = mx.put_along_axis(x, mx.array(flat), mx.array([7.0, 8.0]), None)
    b = np.arange(24.0).reshape(2, 3, 4)
    np.put_along_axis(b, flat, [7, 8], None)
    close(got, b)


# How functions are called


def test_aliases():
    for name, of in [("acos", "arccos"), ("atan2", "arctan2"), ("pow", "power")]:
        assert getattr(mx, name) is getattr(mx, of)


def test_streams_and_devices_as_arguments():
    x = mx.array([1.0])
    s = mx.new_stream(mx.cpu)
    for stream in [None, mx.cpu, mx.Device(mx.cpu), s, mx.new_thread_local_stream(mx.cpu)]:
        assert mx.exp(x, stream=stream).item() == pytest.approx(np.e)
        assert x.sum(stream=stream).item() == 1
    if not mx.is_available(mx.gpu):
        with pytest.raises(ValueError):
            mx.exp(x, stream=mx.gpu)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: mx.sum(), r"sum\(\) missing 1 required positional argument: 'a'"),
        (
            lambda x: mx.add(),
            r"add\(\) missing 2 required positional arguments: 'a' and 'b'",
        ),
        (
            lambda x: mx.clip(),
            r"missing 1 required positional argument: 'a'",
        ),
        (lambda x: mx.exp(x, x), r"exp\(\) takes 1 positional argument but 2 were given"),
        (lambda x: mx.sum(x, 0, False, 3), r"takes from 1 to 3 positional arguments but 4 were"),
        (lambda x: mx.sum(x, foo=1), r"sum\(\) got an unexpected keyword argument 'foo'"),
        (lambda x: mx.sum(x, 0, axis=0), r"sum\(\) got multiple values for argument 'axis'"),
        (lambda x: mx.sum(a=x), r"positional-only arguments passed as keyword arguments: 'a'"),
        (lambda x: mx.sum(x, axis="a"), r"argument 'axis' must be .* not str"),
        (lambda x: mx.sum(x, axis=1.0), r"argument 'axis' must be .* not float"),
        (lambda x: mx.sum(x, axis=[0, "a"]), r"'axis' must hold ints, not str"),
        (lambda x: mx.sum(x, keepdims="yes"), r"'keepdims' must be a bool, not str"),
        (lambda x: mx.sum(1), r"'a' must be an array, not int"),
        (lambda x: mx.sum([1]), r"'a' must be an array, not list"),
        (lambda x: mx.exp([1]), r"'a' must be a number or an array, not list"),
        (lambda x: mx.reshape(x, "a"), r"'shape' must be .* not str"),
        (lambda x: x.reshape(1.5), r"'shape' must .* ints?, not float"),
        (lambda x: mx.zeros(2, "float32"), r"'dtype' must be a Dtype or None, not str"),
        (lambda x: mx.exp(x, stream=3), r"'stream' must be a Stream, a Device, .* not int"),
        (lambda x: mx.concatenate(3), r"'arrays' must be a list of arrays, not int"),
        (lambda x: mx.concatenate([x, 1]), r"'arrays' must hold arrays, not int at 1"),
        (lambda x: mx.round(x, 1.5), r"'decimals' must be an int, not float"),
        (lambda x: x.sum(x, x, x), r"sum\(\) takes from 0 to 2 positional arguments but 3 were"),
        (lambda x: x.astype(), r"astype\(\) missing 1 required positional argument: 'dtype'"),
        (lambda x: x.astype(self=1, dtype=mx.int8), r"unexpected keyword argument 'self'"),
        (lambda x: mx.tril(x, k=None), r"'k' must be an int, not NoneType"),
    ],
)
def test_messages_of_wrong_calls(call, message):
    with pytest.raises(TypeError, match=message):
        call(mx.zeros((2, 2)))


@pytest.mark.parametrize("axis", [2, -3, 100, (0, 5)])
def test_an_axis_out_of_range_is_a_wrong_value_and_a_wrong_index(axis):
    x = mx.zeros((2, 2))
    for f in [mx.sum, mx.mean, mx.flip, mx.squeeze, mx.logsumexp]:
        with pytest.raises(ValueError):
            f(x, axis)
        with pytest.raises(IndexError):
            f(x, axis)


def test_a_size_that_does_not_fit_32_bits():
    with pytest.raises(ValueError, match="32 bits"):
        mx.zeros(2**31)
    with pytest.raises(ValueError, match="32 bits"):
        mx.sum(mx.zeros(3), axis=10**30)


def test_too_many_axes():
    with pytest.raises(ValueError):
        mx.zeros((1,) * 65)
    assert mx.zeros((1,) * 64).ndim == 64


EVERYTHING = [
    (owner, name)
    for owner in (mx, mx.random, mx.array)
    for name in dir(owner)
    if callable(getattr(owner, name))
    and not isinstance(getattr(owner, name), type)
    and (not name.startswith("__") or owner is mx.array)
    and name
    not in {
        # These act on the process or on files, or are object's own.
        *("set_memory_limit", "set_cache_limit", "set_wired_limit", "set_default_device"),
        *("set_default_stream", "set_printoptions", "save", "savez", "savez_compressed", "export_to_dot"),
        *("save_safetensors", "load", "seed", "new_stream", "new_thread_unsafe_stream"),
        *dir(object),
    }
]


class Hostile:
    """Raises from whatever it is asked."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __index__(self):
        raise RuntimeError("index")

    def __len__(self):
        raise RuntimeError("len")

    def __getitem__(self, i):
        raise RuntimeError("item")


WRONG = [
    *(None, True, -1, 2**70, 0.5, float("nan"), 1j, "a", b"a", object(), [], [[]], (), {}, {1: 2}),
    *([1, "a"], [None], range(3), slice(1), ..., np.ones(2), np.array("a"), mx.float32, mx.cpu),
    *(mx.zeros(()), mx.zeros((0, 3)), mx.array([1, 2]), [mx.zeros(2)], lambda *a: None, Hostile()),
]


@pytest.fixture
def as_it_was():
    """Indices and compiling, which calls may set for the process."""
    errors = mx.set_index_errors(False)
    yield
    mx.set_index_errors(errors)
    mx.enable_compile()


@pytest.mark.usefixtures("as_it_was")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("owner, name", EVERYTHING, ids=lambda v: getattr(v, "__name__", v))
def test_no_arguments_make_any_function_crash(owner, name):
    f = getattr(owner, name)
    calls = [(), *((w,) for w in WRONG), *((mx.zeros((2, 2)), w) for w in WRONG)]
    calls += [(mx.zeros(2), w, w) for w in WRONG] + [(mx.array([1]),) * n for n in range(3, 8)]
    for args in calls:
        for kwargs in [{}, {"stream": 3}, {"axis": "x"}, {"nothing": 1}, {"dtype": 1}]:
            try:
                result = f(*args, **kwargs)
                if name != "__dlpack__":
                    mx.eval(result)
            except Exception:
                pass


def test_signatures_can_be_looked_at():
    assert str(inspect.signature(mx.mean)) == "(a, /, axis=None, keepdims=False, *, stream=None)"
    assert str(inspect.signature(mx.array.mean)) == ("(self, /, axis=None, keepdims=False, *, stream=None)")
    assert str(inspect.signature(mx.array.item)) == "(self, /)"
    assert str(inspect.signature(mx.eval)) == "(*args)"
    assert str(inspect.signature(mx.array)) == "(val, dtype=None)"
    # A dtype is no default that inspect could show, so the docstring does.
    assert mx.zeros.__doc__.startswith("zeros(shape, dtype=float32, *, stream=None, device=None)\n\nZeros.")


@pytest.mark.parametrize("owner, name", EVERYTHING, ids=lambda v: getattr(v, "__name__", v))
def test_everything_has_a_docstring(owner, name):
    assert getattr(owner, name).__doc__


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "uint32", "complex64", "bool"])
def test_folds_of_broadcast_axes(name, dtype):
    if dtype == "complex64" and name in ("max", "min", "mean"):
        pytest.skip("complex numbers have no NumPy-like order here")
    a = np.array([[1, 2, 0], [3, 1, 1]]).astype(dtype)
    want = np.broadcast_to(a[:, None, :, None], (2, 5, 3, 2))
    got = mx.broadcast_to(mx.array(a).reshape(2, 1, 3, 1), want.shape)
    for axis in [None, 1, 3, (1, 3), (0, 1), (1, 2, 3), (0, 2)]:
        expected = getattr(np, name)(want, axis=axis)
        np.testing.assert_allclose(np.array(getattr(mx, name)(got, axis=axis)), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "float16"])
@pytest.mark.parametrize("shape", [(300_001,), (3, 70_001), (200_003, 2)])
def test_the_first_extreme_of_long_rows(dtype, shape):
    rng = np.random.default_rng(0)
    a = rng.integers(3, 90, shape).astype(dtype)
    for axis in range(-1, len(shape)):
        axis = None if axis < 0 else axis
        assert np.array_equal(np.array(mx.argmax(mx.array(a), axis)), a.argmax(axis))
        assert np.array_equal(np.array(mx.argmin(mx.array(a), axis)), a.argmin(axis))
    if dtype.startswith("float"):
        a.reshape(-1)[-2:] = np.nan
        assert np.array_equal(np.array(mx.argmax(mx.array(a), -1)), a.argmax(-1))
        a.reshape(-1)[:] = np.nan
        assert np.array_equal(np.array(mx.argmin(mx.array(a), -1)), a.argmin(-1))


def test_integers_have_gradients_of_their_own_type():
    x = mx.array([1, 2, 3])
    assert mx.grad(lambda x: x.sum())(x).tolist() == [1, 1, 1]
    assert mx.grad(lambda x: (x * x).sum())(x).tolist() == [2, 4, 6]
    assert mx.grad(lambda x: x.max())(x).tolist() == [0, 0, 1]
    assert mx.grad(lambda x: (x * 2.5).sum())(x).dtype == mx.int32
    assert mx.grad(lambda x: (x.astype(mx.float32) ** 2).sum())(x).tolist() == [2, 4, 6]
    _, (t,) = mx.jvp(lambda x: x * x, [x], [mx.array([1, 1, 1])])
    assert t.tolist() == [2, 4, 6] and t.dtype == mx.int32


@pytest.mark.parametrize("size", [1, 7, 40])
def test_the_sign_of_infinite_complex_numbers(size):
    inf, nan, half = math.inf, math.nan, 0.5**0.5
    ends = {
        complex(inf, 0): 1, complex(-inf, 3): -1, complex(2, inf): 1j, complex(-0.5, -inf): -1j,
        complex(inf, -inf): complex(half, -half), complex(-inf, inf): complex(-half, half),
    }  # fmt: skip
    for z, sign in ends.items():
        np.testing.assert_allclose(mx.sign(mx.full((size,), z)), np.full(size, sign), rtol=1e-6)
    for z in (complex(inf, nan), complex(nan, 1), complex(nan, -inf)):
        assert np.isnan(np.array(mx.sign(mx.full((size,), z)))).all()


def test_logic_with_numbers_that_do_not_fit():
    """They are not 0."""
    x = mx.array([0, 1], mx.uint8)
    assert mx.logical_and(x, -1).tolist() == mx.logical_and(300, x).tolist() == [False, True]
    assert mx.logical_or(x, -1).tolist() == mx.logical_or(300, x).tolist() == [True, True]


def test_logaddexp_of_complex_numbers_with_equal_real_parts():
    a, b = mx.array(2 + 1j), mx.array(2 - 20j)
    want = np.log(np.exp(2 + 1j) + np.exp(2 - 20j))
    for x, y in ((a, b), (b, a)):
        np.testing.assert_allclose(np.array(mx.logaddexp(x, y)), want, rtol=1e-5)
