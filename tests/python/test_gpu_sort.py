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


@pytest.mark.parametrize("view", LAYOUTS)
def test_layouts(view):
    with mx.stream(mx.cpu):
        x = LAYOUTS[view](some(mx.float32, 16, 32))
        mx.eval(x)
    for axis in [None, *range(x.ndim)]:
        same(lambda x: mx.sort(x, axis=axis), x)  # noqa: B023
        same(lambda x: mx.argsort(x, axis=axis), x)  # noqa: B023


@pytest.mark.parametrize("n", [7, 3000])
def test_partitions(n):
    x = np.random.default_rng(1).standard_normal((3, n)).astype(np.float32)
    want = np.sort(x, -1)
    for kth in (0, n // 3, n - 1):
        with mx.stream(mx.gpu):
            values = np.array(mx.partition(mx.array(x), kth))
            places = np.array(mx.argpartition(mx.array(x), kth)).astype(np.int64)
            most = np.array(mx.topk(mx.array(x), n - kth))
        for got in (values, np.take_along_axis(x, places, -1)):
            assert np.array_equal(np.sort(got, -1), want) and np.array_equal(got[:, kth], want[:, kth])
            assert np.array_equal(np.sort(got[:, :kth], -1), want[:, :kth])
        assert np.array_equal(np.sort(most, -1), want[:, kth:])


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
