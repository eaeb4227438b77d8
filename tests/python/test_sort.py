"""Orders: sort, argsort, partition, topk, median, searchsorted, unique, permutation."""

import bisect

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
ALL = ["bool_", *INTS, *FLOATS, "complex64"]


def draw(rng, shape, name, few=False):
    """Numbers of a dtype, with ties, infinities, zeros of both signs and NaN among them; float64 holds
    half types exactly, and both libraries' bfloat16 is made from it."""
    if name == "bool_":
        return rng.random(shape) < 0.5
    if name in INTS:
        info = np.iinfo(name)
        low, high = (max(info.min, -3), 3) if few else (info.min, info.max)
        return rng.integers(low, high, shape, dtype=name, endpoint=True)
    x = rng.standard_normal(shape).astype(np.float32)
    if few:
        x = np.round(x)
    x = np.where(rng.random(shape) < 0.05, rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape), x)
    if name == "complex64":
        y = rng.standard_normal(shape).round()
        y = np.where(rng.random(shape) < 0.05, np.nan, y)
        z = np.empty(shape, np.complex64)
        z.real, z.imag = x.round(), y
        return z
    return x.astype(np.float64) if name == "float64" else x


def both(x, name):
    """The array, and NumPy's with exactly its elements."""
    a = mx.array(x, dtype=getattr(mx, name))
    wide = a.astype(mx.float32) if name in ("float16", "bfloat16") else a
    return a, np.array(wide)


def as_numpy(a):
    return np.array(a.astype(mx.float32) if a.dtype in (mx.float16, mx.bfloat16) else a)


SIZES = [0, 1, 2, 7, 16, 17, 63, 64, 65, 127, 128, 129, 200, 257, 1000, 1025, 4097]


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_sort_and_argsort(name, few):
    rng = np.random.default_rng(1)
    for n in SIZES:
        a, x = both(draw(rng, (3, n), name, few), name)
        np.testing.assert_array_equal(as_numpy(mx.sort(a)), np.sort(x, axis=-1), err_msg=str(n))
        order = mx.argsort(a)
        assert order.dtype == mx.uint32
        np.testing.assert_array_equal(np.array(order), np.argsort(x, axis=-1, kind="stable"), err_msg=str(n))


@pytest.mark.parametrize("name", ["int16", "int32", "uint64", "float16", "float32", "float64", "complex64"])
def test_one_long_row(name):
    rng = np.random.default_rng(2)
    for few in (False, True):
        a, x = both(draw(rng, (1 << 17) + 77, name, few), name)
        np.testing.assert_array_equal(as_numpy(mx.sort(a)), np.sort(x))
        np.testing.assert_array_equal(np.array(mx.argsort(a)), np.argsort(x, kind="stable"))


@pytest.mark.parametrize("pattern", ["sorted", "reversed", "equal", "saw", "organ", "upper halves equal"])
def test_patterns(pattern):
    n = 1 << 17
    i = np.arange(n)
    x = {
        "sorted": i,
        "reversed": n - i,
        "equal": i * 0,
        "saw": i % 1000,
        "organ": np.minimum(i, n - i),
        "upper halves equal": (i % 3 << 40) + (i * 7919 % n),
    }[pattern]
    for t in (np.int32, np.float32, np.float64, np.int64):
        y = x.astype(t) if t != np.int32 else (x % (1 << 31)).astype(t)
        for z in (y, y[:50000]):
            a = mx.array(z, dtype=getattr(mx, np.dtype(t).name))
            np.testing.assert_array_equal(np.array(mx.sort(a)), np.sort(z))
            np.testing.assert_array_equal(np.array(mx.argsort(a)), np.argsort(z, kind="stable"))
            k = len(z) // 3
            assert np.array(mx.partition(a, k))[k] == np.sort(z)[k]


shapes = st.lists(st.integers(0, 5), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(shapes, st.data())
def test_axes(shape, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1) | st.none())
    x = np.random.default_rng(3).integers(-3, 3, shape).astype(np.float32)
    a = mx.array(x)
    np.testing.assert_array_equal(np.array(mx.sort(a, axis)), np.sort(x, axis))
    np.testing.assert_array_equal(np.array(mx.argsort(a, axis=axis)), np.argsort(x, axis, kind="stable"))
    np.testing.assert_array_equal(np.array(mx.sort(a.T, axis)), np.sort(x.T, axis))
    n = x.size if axis is None else x.shape[axis]
    if n == 0:
        return
    k = data.draw(st.integers(-n, n - 1))
    y, place = np.array(mx.partition(a, k, axis)), np.array(mx.argpartition(a, k, axis))
    flat, ax = (x.reshape(-1), 0) if axis is None else (x, axis)
    np.testing.assert_array_equal(np.take(y, k, ax), np.take(np.sort(flat, ax), k, ax))
    np.testing.assert_array_equal(np.sort(y, ax), np.sort(flat, ax))
    np.testing.assert_array_equal(
        np.take(np.take_along_axis(flat, place.astype(np.int64), ax), k, ax), np.take(y, k, ax)
    )
    top = np.array(mx.topk(a, abs(k), axis))
    np.testing.assert_array_equal(top, np.take(np.sort(flat, ax), range(n - abs(k), n), ax))


@pytest.mark.parametrize("name", ALL)
def test_partition(name):
    rng = np.random.default_rng(4)
    for n in (1, 5, 100, 300, 5000):
        a, x = both(draw(rng, (2, n), name), name)
        for k in (0, n // 2, n - 1):
            s, y = np.sort(x), as_numpy(mx.partition(a, k))
            np.testing.assert_array_equal(np.sort(y), s)
            np.testing.assert_array_equal(y[:, k], s[:, k])
            np.testing.assert_array_equal(np.sort(y[:, :k]), s[:, :k])
            place = np.array(mx.argpartition(a, k)).astype(np.int64)
            np.testing.assert_array_equal(np.sort(place), np.tile(np.arange(n), (2, 1)))
            np.testing.assert_array_equal(np.take_along_axis(x, place, 1)[:, k], s[:, k])
            np.testing.assert_array_equal(np.sort(np.take_along_axis(x, place, 1)[:, :k]), s[:, :k])
            np.testing.assert_array_equal(as_numpy(mx.topk(a, k)), s[:, n - k :])


def test_signs_of_zero_and_nan():
    a = mx.array([0.0, -0.0, 0.0, -0.0])
    assert np.array(mx.argsort(a)).tolist() == [0, 1, 2, 3]
    assert sorted(np.signbit(np.array(mx.sort(a))).tolist()) == [False, False, True, True]
    nan = -np.float32(np.nan)
    assert np.array(mx.argsort(mx.array(np.array([nan, 1, np.inf], np.float32)))).tolist() == [1, 2, 0]


def test_median():
    rng = np.random.default_rng(5)
    for n in (1, 2, 3, 8, 9):
        x = rng.standard_normal((2, n, 3)).astype(np.float32)
        for axis in (None, 0, 1, -1, (0, 2), [1]):
            for keep in (False, True):
                got = np.array(mx.median(mx.array(x), axis, keep))
                want = np.median(x.astype(np.float64), tuple(axis) if isinstance(axis, list) else axis, keepdims=keep)
                assert got.shape == want.shape
                np.testing.assert_allclose(got, want, rtol=1e-6)
    assert mx.median(mx.array([1, 2], mx.int32)).item() == 1.5
    assert mx.median(mx.array([1, 2], mx.int32)).dtype == mx.float32
    assert mx.median(mx.array([1, 2], mx.bfloat16)).dtype == mx.bfloat16
    assert np.isnan(mx.median(mx.array([1.0, float("nan"), 2.0])).item())
    with pytest.raises(ValueError, match=r"\[median\] expected at least one element"):
        mx.median(mx.zeros((2, 0)), axis=1)


@pytest.mark.parametrize("name", ["int8", "uint32", "int64", "float16", "float32", "float64"])
def test_searchsorted(name):
    rng = np.random.default_rng(6)
    for n in (0, 1, 2, 100):
        a, x = both(np.sort(draw(rng, n, name, True)), name)
        v, y = both(draw(rng, (5, 7), name, True), name)
        for side in ("left", "right"):
            got = mx.searchsorted(a, v, side)
            assert got.dtype == mx.uint32
            np.testing.assert_array_equal(np.array(got), np.searchsorted(x, y, side))
    a = mx.array([[1.0, 3.0, 5.0], [2.0, 2.0, 9.0]])
    v = mx.array([[2.0, 5.0], [2.0, 10.0]])
    each = [np.searchsorted(np.array(p), np.array(q)) for p, q in zip(a, v)]
    np.testing.assert_array_equal(np.array(mx.vmap(mx.searchsorted)(a, v)), each)
    np.testing.assert_array_equal(
        np.array(mx.vmap(mx.searchsorted, (0, None))(a, v[0])),
        [np.searchsorted(np.array(p), np.array(v[0])) for p in a],
    )
    np.testing.assert_array_equal(
        np.array(mx.vmap(mx.searchsorted, (None, 1))(a[0], v)),
        [np.searchsorted(np.array(a[0]), q) for q in np.array(v).T],
    )


@pytest.mark.parametrize("name", ["int16", "uint32", "int64", "float16", "float32", "float64"])
def test_searchsorted_of_sequences_in_no_order(name):
    """Where the steps of a search by halves end, as those of Python's own do."""
    rng = np.random.default_rng(11)
    for n, count in [
        *((n, 37) for n in range(71)),
        (127, 600),
        (128, 601),
        (129, 9),
        (1025, 4000),
        (5000, 1),
        (9000, 3),
    ]:
        a, x = both(draw(rng, n, name, n % 2), name)
        v, y = both(draw(rng, count, name, n % 2), name)
        ranks = np.unique(np.concatenate([x, y]), return_inverse=True)[1].tolist()
        for side, search in (("left", bisect.bisect_left), ("right", bisect.bisect_right)):
            want = [search(ranks[:n], r) for r in ranks[n:]]
            np.testing.assert_array_equal(np.array(mx.searchsorted(a, v, side)), want)


def test_searchsorted_few_of_each_sequence():
    rng = np.random.default_rng(12)
    a, v = np.sort(rng.integers(-300, 300, (3, 4111))), rng.integers(-310, 310, (3, 1))
    for side in ("left", "right"):
        got = mx.vmap(lambda p, q, side=side: mx.searchsorted(p, q, side))(mx.array(a), mx.array(v))
        np.testing.assert_array_equal(np.array(got), [np.searchsorted(p, q, side) for p, q in zip(a, v)])


def check_unique(x, size, fill=None):
    a = mx.array(x)
    got = [np.array(y) for y in mx.unique(a, size, True, True, True, *([] if fill is None else [fill]))]
    values, first, inverse, counts = np.unique(
        x.reshape(-1), return_index=True, return_inverse=True, return_counts=True
    )
    n = min(size, len(values))
    rest = size - n
    np.testing.assert_array_equal(got[0], [*values[:n], *[values[0] if fill is None else fill] * rest])
    np.testing.assert_array_equal(got[1], [*first[:n], *[first[0]] * rest])
    np.testing.assert_array_equal(got[2], np.minimum(inverse, max(size - 1, 0)).reshape(x.shape))
    np.testing.assert_array_equal(got[3], [*counts[:n], *[0] * rest])
    np.testing.assert_array_equal(
        np.array(mx.unique(a, size)), got[0] if fill is None else np.array(mx.unique(a, size))
    )


def test_unique():
    rng = np.random.default_rng(7)
    for shape in ((1,), (9,), (4, 5), (2, 3, 50)):
        x = rng.integers(-4, 4, shape).astype(np.int32)
        for size in (0, 1, 3, 8, 12):
            check_unique(x, size)
            check_unique(x, size, 77)
        values, counts = mx.unique(mx.array(x), return_counts=True)
        want = np.unique(x, return_counts=True)
        np.testing.assert_array_equal(np.array(values), want[0])
        np.testing.assert_array_equal(np.array(counts), want[1])
    assert mx.unique(mx.zeros((0,))).shape == mx.unique(mx.zeros((0,)), None).shape == (0,)
    nan = float("nan")
    assert mx.unique(mx.array([nan, 1.0, nan])).shape == (3,)
    batched = mx.vmap(lambda v: mx.unique(v, 3))(mx.array([[2, 1, 2], [3, 3, 3]]))
    assert batched.tolist() == [[1, 2, 1], [3, 3, 3]]
    with pytest.raises(ValueError, match=r"\[unique\].*the argument size"):
        mx.vmap(lambda v: mx.unique(v))(mx.array([[2, 1, 2]]))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: mx.sort(x, 0),
        lambda x: mx.sort(x, 1),
        lambda x: mx.partition(x, 3),
        lambda x: mx.topk(x, 2, axis=0),
        lambda x: mx.median(x, axis=1),
        lambda x: mx.median(x),
    ],
)
def test_derivatives(f):
    rng = np.random.default_rng(8)
    x = rng.permutation(24).reshape(4, 6).astype(np.float64)
    a = mx.array(x, dtype=mx.float64)
    weights = mx.array(rng.standard_normal(f(a).shape), dtype=mx.float64)

    def value(v):
        return (f(v) * weights).sum()

    grad, h = np.array(mx.grad(value)(a)), 1e-3
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = h
        d = (value(mx.array(x + e, dtype=mx.float64)) - value(mx.array(x - e, dtype=mx.float64))).item() / (2 * h)
        assert abs(d - grad[i]) < 1e-9
    t = mx.array(rng.standard_normal(x.shape), dtype=mx.float64)
    out = mx.jvp(f, [a], [t])[1][0]
    assert abs((out * weights).sum().item() - (mx.array(grad, dtype=mx.float64) * t).sum().item()) < 1e-9


def test_vmap():
    x = mx.array(np.random.default_rng(9).standard_normal((3, 4, 5)).astype(np.float32))
    for f in (
        lambda v: mx.sort(v, 0),
        lambda v: mx.argsort(v, 1),
        lambda v: mx.partition(v, 2),
        lambda v: mx.topk(v, 2),
        lambda v: mx.median(v, 0),
    ):
        for axis in range(3):
            got = np.array(mx.vmap(f, axis)(x))
            want = np.stack([np.array(f(mx.array(np.take(np.array(x), i, axis)))) for i in range(x.shape[axis])])
            np.testing.assert_array_equal(got, want)
    assert np.array(mx.vmap(lambda v: mx.argpartition(v, 2))(x)).shape == (3, 4, 5)


def test_errors():
    a = mx.zeros((2, 3))
    with pytest.raises(ValueError, match=r"\[partition\] expected kth from -3 to 2 for axis 1.*\(2,3\), got 3"):
        mx.partition(a, 3)
    with pytest.raises(ValueError, match=r"\[topk\] expected k from 0 to 3.*got -1"):
        mx.topk(a, -1)
    with pytest.raises(IndexError, match=r"\[sort\] axis 2"):
        mx.sort(a, 2)
    with pytest.raises(ValueError, match=r"\[searchsorted\] expected a sorted sequence of one dimension"):
        mx.searchsorted(a, a)
    with pytest.raises(ValueError, match=r"\[searchsorted\].*'left' or 'right', got 'up'"):
        mx.searchsorted(a[0], a, side="up")


def test_permutation():
    key = mx.random.key(3)
    # The order that the library this one is compatible with gives for this key.
    assert mx.random.permutation(5, key=key).tolist() == [0, 1, 4, 3, 2]
    assert mx.random.permutation(7, key=key).tolist()[:3] == [5, 4, 0]
    p = mx.random.permutation(1000, key=key)
    assert p.dtype == mx.uint32 and sorted(p.tolist()) == list(range(1000))
    x = mx.arange(12).reshape(4, 3)
    rows = mx.random.permutation(x, key=key)
    assert sorted(rows.tolist()) == x.tolist()
    columns = mx.random.permutation(x, 1, key)
    assert sorted(columns.T.tolist()) == x.T.tolist()
    assert mx.random.permutation(0).shape == (0,)
    with pytest.raises(ValueError, match=r"\[permutation\] expected a number that is not negative, got -1"):
        mx.random.permutation(-1)
    with pytest.raises(TypeError, match="an int or an array, not list"):
        mx.random.permutation([3, 4])
    with pytest.raises(IndexError, match=r"\[permutation\] axis 2"):
        mx.random.permutation(x, 2)
