"""Running folds on a GPU, beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import FLOATS, INTEGERS, LAYOUTS, operands
from test_gpu_reductions import close, small

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
DTYPES = [*FLOATS, *INTEGERS, mx.bool_, mx.complex64]
# rows and columns around those of threads and warps, and long ones, which come in pieces
SHAPES = [
    (1,),
    (7,),
    (3, 31),
    (5, 64),
    (2, 2049),
    (31, 3),
    (64, 40),
    (2, 5, 3),
    (3, 4096),
    (40001,),
    (3, 33000),
    (700, 3),
]


FOLDS = [mx.cumsum, mx.cumprod, mx.cummax, mx.cummin, mx.logcumsumexp]


def folds_of(x, axis, folds=FOLDS):
    for i, fold in enumerate(folds):
        if fold is mx.logcumsumexp and x.dtype not in (*FLOATS, mx.complex64):
            continue
        if fold is mx.cumprod and x.dtype == mx.complex64 and x.shape[axis] > 100:
            continue  # what is past the largest number depends on the order
        close(lambda x: fold(x, axis=axis, reverse=i % 2 == 0), x)  # noqa: B023
        if x.size < 200:
            close(lambda x: fold(x, axis=axis, reverse=i % 2 == 1, inclusive=False), x)  # noqa: B023


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.int8, mx.uint64, mx.complex64], ids=str)
def test_shapes(dtype, shape):
    x = small(dtype, *shape)
    with mx.stream(mx.cpu):
        x = x - 1 if dtype in FLOATS else x
        mx.eval(x)
    for axis in range(len(shape)):
        folds_of(x, axis, FOLDS if x.size < 5000 else FOLDS[:1])


@pytest.mark.parametrize("view", LAYOUTS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.int8], ids=str)
def test_layouts(dtype, view):
    with mx.stream(mx.cpu):
        x = LAYOUTS[view](small(dtype, 16, 32))
        mx.eval(x)
    for axis in range(x.ndim):
        folds_of(x, axis, FOLDS[:2])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_numbers(dtype):
    x = operands(dtype, 301, 2)
    with mx.stream(mx.cpu):
        x = mx.contiguous(x[: x.size // 7 * 7].reshape(7, -1))
        mx.eval(x)
    for axis in (0, 1):
        close(lambda x: mx.cummax(x, axis=axis), x)  # noqa: B023
        close(lambda x: mx.cummin(x, axis=axis), x)  # noqa: B023


def test_infinite_powers():
    inf, nan = float("inf"), float("nan")
    rows = [[0, -inf, 1], [-inf] * 3, [inf, 0, 1], [inf, nan, 1], [nan, -inf, 2], [-inf, nan, -inf], [800, 0, -800]]
    x = mx.array(rows)
    close(lambda x: mx.logcumsumexp(x, axis=1), x)
    close(lambda x: mx.logcumsumexp(x, axis=0), x[-1:])
    close(lambda x: mx.logcumsumexp(x, axis=1, reverse=True), x)


def test_against_float64():
    x = np.random.default_rng(3).uniform(0, 1, (1, 70001)).astype(np.float32)
    with mx.stream(mx.gpu):
        got = np.array(mx.cumsum(mx.array(x), axis=1))
    assert np.allclose(got, np.cumsum(x.astype(np.float64), 1), rtol=2**-23)


@pytest.mark.parametrize("shape", [(7,), (2, 2049), (40, 3), (700, 3), (2, 5, 3)], ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64], ids=str)
def test_derivatives(dtype, shape):
    """Those of products and of logsumexp are recurrences."""
    with mx.stream(mx.cpu):
        x = small(dtype, *shape)
        x = 1 + (x - 1) / 512 if dtype != mx.complex64 else mx.exp(1j * x.real / 8).astype(dtype)
        mx.eval(x)
    for axis in range(len(shape)):
        for fold in (mx.cumprod, mx.logcumsumexp):
            for reverse in (False, True):
                one = lambda x: mx.abs(fold(x, axis=axis, reverse=reverse)).sum()  # noqa: B023, E731
                close(lambda x: mx.grad(one)(x), x)  # noqa: B023


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.int8, mx.uint64, mx.complex64], ids=str)
@pytest.mark.parametrize("shape", [(150, 8), (150, 1032), (3, 2056), (1, 40000), (2, 12304)], ids=str)
def test_rows_of_whole_stretches(shape, dtype):
    """Rows that warps have, those that blocks have, and those in pieces, both ways."""
    x = mx.random.randint(-1, 2, shape, key=mx.random.key(6)).astype(dtype)
    one = mx.where(x == 0, mx.array(1, dtype), x)
    for reverse in (False, True):
        for fold, y in [(mx.cumsum, x), (mx.cumprod, one), (mx.cummin, x), (mx.cummax, x)]:
            close(lambda y: fold(y, 1, reverse=reverse), y)  # noqa: B023
        close(lambda y: mx.cumsum(y, 1, reverse=reverse, inclusive=False), x)  # noqa: B023
