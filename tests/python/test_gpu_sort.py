"""Rows in order on a GPU, beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import FLOATS, INTEGERS, LAYOUTS, operands, same

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
DTYPES = [*FLOATS, *INTEGERS, mx.bool_, mx.complex64]


def some(dtype, *shape):
    """Special numbers among them, and several that are equal."""
    n = int(np.prod(shape))
    with mx.stream(mx.cpu):
        x = mx.take(operands(dtype, 300, 1), mx.random.randint(0, 300, (n,), key=mx.random.key(n))).reshape(shape)
        x = mx.contiguous(x)
        mx.eval(x)
    return x


@pytest.mark.parametrize(
    "shape", [(1,), (2,), (5, 3), (3, 64), (2, 65), (2, 2048), (2, 2049), (5000,), (0, 3), (3, 0)], ids=str
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_orders(dtype, shape):
    x = some(dtype, *shape)
    same(lambda x: mx.sort(x, axis=-1), x)
    same(lambda x: mx.argsort(x, axis=-1), x)
    if x.ndim > 1:
        same(lambda x: mx.sort(x, axis=0), x)


# Rows for some threads of a warp, for a block, of one tile of 4,096 (64 bits) or 8,192, of several, and of more than a
# launch has on the emulated driver.
LENGTHS = [31, 32, 33, 127, 128, 129, 511, 512, 513, 4096, 4097, 8192, 8193, 24577]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_lengths(dtype, n):
    x = some(dtype, 3 if n < 2000 else 1, n)
    same(lambda x: mx.sort(x, axis=-1), x)
    same(lambda x: mx.argsort(x, axis=-1), x)


@pytest.mark.parametrize("dtype", [mx.int8, mx.uint16, mx.float32, mx.int64, mx.complex64], ids=str)
def test_rows_of_several_tiles(dtype):
    """Each looks back over its own."""
    x = some(dtype, 3, 9000)
    for axis, y in ((1, x), (0, x.T)):
        same(lambda x: mx.sort(x, axis=axis), y)  # noqa: B023
        same(lambda x: mx.argsort(x, axis=axis), y)  # noqa: B023


SPECIAL = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 1.5, -1.5])


@pytest.mark.parametrize("n", [20, 100, 500, 3000, 20000])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bits_of_special_numbers(dtype, n):
    """-0 before 0, of which neither is first where places are asked for, and one NaN for all."""
    bits = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}[dtype.size]
    with mx.stream(mx.cpu):
        x = mx.array(np.random.default_rng(n).choice(SPECIAL, (2, n))).astype(dtype)
        want = np.array(mx.view(mx.sort(x, axis=-1), bits)), np.array(mx.argsort(x, axis=-1))
    with mx.stream(mx.gpu):
        got = np.array(mx.view(mx.sort(x, axis=-1), bits)), np.array(mx.argsort(x, axis=-1))
    assert np.array_equal(got[0], want[0]) and np.array_equal(got[1], want[1])


@pytest.mark.parametrize("n", [300, 5000, 20000])
@pytest.mark.parametrize("dtype", [mx.bool_, mx.int16, mx.float32, mx.int64], ids=str)
def test_keys_that_are_alike(dtype, n):
    """All equal, in order already, and the other way round."""
    for x in (np.ones(n), np.arange(n) - n / 2, n / 2 - np.arange(n)):
        with mx.stream(mx.cpu):
            x = mx.array(x).astype(dtype)
            mx.eval(x)
        same(lambda x: mx.sort(x), x)
        same(lambda x: mx.argsort(x), x)


@pytest.mark.parametrize("below", [2, 300, 70000])
@pytest.mark.parametrize("n", [1, 5000, 50000])
def test_updates_in_order(n, below):
    """Those of one place in their own, by one digit of it, two or three."""
    index = np.random.default_rng(n).integers(0, below, n).astype(np.int32)
    with mx.stream(mx.gpu):
        last = mx.zeros((below,), mx.int32)
        last[mx.array(index)] = mx.arange(n)
        count = mx.zeros((below,), mx.int32).at[mx.array(index)].add(1)
    want = np.zeros(below, np.int32)
    want[index] = np.arange(n)
    assert np.array_equal(np.array(last), want)
    assert np.array_equal(np.array(count), np.bincount(index, minlength=below))


@pytest.mark.parametrize("view", LAYOUTS)
def test_layouts(view):
    with mx.stream(mx.cpu):
        x = LAYOUTS[view](some(mx.float32, 16, 32))
        mx.eval(x)
    for axis in [None, *range(x.ndim)]:
        same(lambda x: mx.sort(x, axis=axis), x)  # noqa: B023
        same(lambda x: mx.argsort(x, axis=axis), x)  # noqa: B023


def enough_rows():
    """That a block each is faster than an order of all."""
    return mx.device_info(mx.gpu)["multiprocessors"] // 2 + 1


def parts_fit(x, kth):
    """x split at kth: by values, by places, and what is behind it in order."""
    values, places = mx.partition(x, kth), mx.argpartition(x, kth)
    most = mx.topk(x, x.shape[-1] - kth) if x.dtype != mx.complex64 else values[..., kth:]
    x, values, places, most = (np.array(a) for a in (x, values, places, most))
    want = np.sort(x, -1)
    for got in (values, np.take_along_axis(x, places.astype(np.int64), -1)):
        assert np.array_equal(np.sort(got, -1), want, equal_nan=True)
        assert np.array_equal(got[:, kth], want[:, kth], equal_nan=True)
        assert np.array_equal(np.sort(got[:, :kth], -1), want[:, :kth], equal_nan=True)
    assert np.array_equal(np.sort(most, -1), want[:, kth:], equal_nan=True)


@pytest.mark.parametrize("n", [7, 3000])
def test_partitions(n):
    x = mx.array(np.random.default_rng(1).standard_normal((3, n)).astype(np.float32))
    for kth in (0, n // 3, n - 1):
        with mx.stream(mx.gpu):
            parts_fit(x, kth)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.int8, mx.uint32, mx.int64, mx.float64, mx.complex64],
                         ids=str)  # fmt: skip
def test_partitions_of_many_long_rows(dtype):
    """Numbers that differ, that are often alike, and that all are."""
    rows, n, rng = enough_rows(), 8193 if dtype.size < 8 else 5000, np.random.default_rng(2)
    for below in (2**31, 4, 1):
        with mx.stream(mx.cpu):
            x = mx.array(rng.integers(0, below, (rows, n))).astype(dtype)
            if dtype == mx.complex64:
                x = x + 1j * x[:, ::-1]
            mx.eval(x)
        for kth in (0, n // 3, n - 50, n - 1):
            with mx.stream(mx.gpu):
                parts_fit(x, kth)


def test_partitions_of_special_numbers():
    x = np.random.default_rng(3).choice(SPECIAL.astype(np.float32), (enough_rows(), 8200))
    for kth in (5, 4000, 8199):
        with mx.stream(mx.gpu):
            parts_fit(mx.array(x), kth)


def test_permutations():
    same(lambda: mx.random.permutation(1000, key=mx.random.key(2)))


@pytest.mark.parametrize("density", [0, 0.3, 1])
@pytest.mark.parametrize("shape", [(1,), (5000,), (3, 5, 7), (0, 3), (300, 41), (1, 9000)], ids=str)
def test_nonzero(shape, density):
    x = np.random.default_rng(1).random(shape) < density
    for view in (lambda x: x, lambda x: x.T, lambda x: x[::-1]):
        with mx.stream(mx.gpu):
            got = mx.nonzero(view(mx.array(x)))
        want = np.nonzero(view(x))
        assert len(got) == len(want)
        for a, b in zip(got, want):
            assert np.array_equal(np.array(a), b)
