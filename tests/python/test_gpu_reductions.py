"""Reductions on a GPU, each beside the same on the CPU; skipped where there is none."""

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import FLOATS, INTEGERS, LAYOUTS, operands

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
DTYPES = [*FLOATS, *INTEGERS, mx.bool_, mx.complex64]


def close(f, *x):
    """f on both devices: floats within some units in the last place of the largest result (of float64, 2^10 of them),
    the rest equal."""
    with mx.stream(mx.cpu):
        there = f(*x)
        mx.eval(there)
    with mx.stream(mx.gpu):
        here = f(*x)
        mx.eval(here)
    assert here.dtype == there.dtype and here.shape == there.shape
    digits = {mx.float16: 10, mx.bfloat16: 7, mx.float64: 42, mx.float32: 23, mx.complex64: 23}.get(here.dtype)
    with mx.stream(mx.cpu):
        here, there = (np.array(v if v.dtype == mx.complex64 else v.astype(mx.float64)) for v in (here, there))
    if digits is None:
        assert np.array_equal(here, there)
    else:
        largest = np.max(np.abs(there[np.isfinite(there)]), initial=0)
        assert np.allclose(here, there, rtol=4 * 2.0**-digits, atol=4 * 2.0**-digits * largest, equal_nan=True)


def folds_of(x, axis):
    """Every reduction of these axes."""
    for fold in [mx.sum, mx.prod, mx.any]:
        if fold is not mx.prod or x.dtype != mx.complex64:  # what is past the largest number depends on the order
            close(partial(fold, axis=axis), x)
    if x.size:
        close(partial(mx.max, axis=axis), x)
        close(partial(mx.min, axis=axis), x)
    if x.size and isinstance(axis, int):
        close(partial(mx.argmax, axis=axis), x)
        close(partial(mx.argmin, axis=axis), x)


def small(dtype, *shape):
    r = np.random.default_rng(5)
    with mx.stream(mx.cpu):
        x = mx.array(r.integers(0, 9, shape) / 4).astype(dtype)
        mx.eval(x)
    return x


VIEWS = {
    **LAYOUTS,
    "backwards": lambda x: x[:, ::-1],
    "wide": lambda x: mx.broadcast_to(x.reshape(1, 16, 32), (30, 16, 32)),
    "long": lambda x: mx.broadcast_to(x.reshape(1, 512), (20, 512)).reshape(-1),
    "repeated": lambda x: mx.broadcast_to(x[:, None, :5, None], (16, 3, 5, 7)),
    "windows": lambda x: mx.as_strided(x, (100, 9), (1, 1), 3),
    "windows, turned": lambda x: mx.as_strided(x, (9, 100), (1, 4), 0),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layouts(view, dtype):
    with mx.stream(mx.cpu):
        x = VIEWS[view](small(dtype, 16, 32))
        mx.eval(x)
    for axis in [
        None,
        *range(x.ndim),
        *[(i - 2, i) for i in range(2, x.ndim)],
        *[(i - 1, i) for i in range(1, x.ndim)],
    ]:
        folds_of(x, axis)


@pytest.mark.parametrize("axes", [range(0, 18, 2), range(1, 18, 2), range(9), [17], [0]], ids=str)
def test_many_axes(axes):
    with mx.stream(mx.cpu):
        x = small(mx.float32, *(2,) * 9, 4)
        x = mx.broadcast_to(x[(slice(None), None) * 9], (2, 1) * 9 + (4,)).swapaxes(0, 16)
        y = mx.as_strided(small(mx.float32, 1 << 12), (2,) * 18, tuple(3 + 7 * i for i in range(18)), 0)
        mx.eval(x, y)
    folds_of(x, tuple(axes))
    folds_of(y, tuple(axes))
    folds_of(y[:, :, :0], tuple(axes))


@pytest.mark.parametrize(
    "shape", [(1 << 18,), (2, 40001), (40001, 3), (257, 1027), (2, 5, 3000), (3000, 2, 5)], ids=str
)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.int8], ids=str)
def test_large(shape, dtype):
    with mx.stream(mx.cpu):
        x = mx.random.randint(-9, 9, shape, key=mx.random.key(1)).astype(dtype)
        mx.eval(x)
    for axis in [None, *range(x.ndim)]:
        for fold in [mx.sum, mx.max, mx.argmin]:
            close(partial(fold, axis=axis), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_numbers(dtype):
    x = operands(dtype, 4086, 9)[:4096]
    with mx.stream(mx.cpu):
        x = mx.contiguous(x[: x.size // 62 * 62].reshape(62, -1))
        mx.eval(x)
    for axis in (0, 1):
        for fold in (mx.max, mx.min, mx.argmax, mx.argmin, mx.all, mx.any):
            close(partial(fold, axis=axis), x)


def test_large_sums_are_as_accurate():
    """Against float64: the error of a sum of 2^18 numbers stays that of one rounding."""
    r = np.random.default_rng(3)
    x = r.uniform(0, 1, (3, 1 << 18)).astype(np.float32)
    for shape, axis in [((3, -1), 1), ((-1, 3), 0)]:
        with mx.stream(mx.gpu):
            got = np.array(mx.array(x.reshape(shape)).sum(axis))
        assert np.allclose(got, x.reshape(shape).astype(np.float64).sum(axis), rtol=2**-23)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.uint8, mx.int64, mx.complex64], ids=str)
@pytest.mark.parametrize(
    "shape", [(1001, 8), (77, 32), (77, 64), (40, 264), (33, 1024), (300, 520), (9, 2048), (4100, 1032)], ids=str
)
def test_rows_folded_by_teams(shape, dtype):
    """Rows whose lengths are multiples of what is read at once: short ones, several to a thread, and long ones."""
    x = mx.random.randint(0, 5, shape, key=mx.random.key(2)).astype(dtype)
    for f in [lambda x: x.sum(1), lambda x: x.max(1), lambda x: mx.argmin(x, 1), lambda x: mx.argmax(x, 1)]:
        close(f, x)
    close(lambda x: x[:, : shape[1] // 2].sum(1), x)
    if mx.issubdtype(dtype, mx.floating):
        y = mx.where(mx.arange(shape[0]).reshape(-1, 1) % 7 == 3, mx.nan, x).astype(dtype)
        for f in [lambda x: x.min(1), lambda x: mx.argmax(x, 1)]:
            close(f, y)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.float64, mx.int8, mx.uint32], ids=str)
@pytest.mark.parametrize("width", [8, 24, 64, 1024, 1032, 4096])
def test_places_in_rows(dtype, width):
    """The first of equal elements, before a NaN the first NaN, and where all are the least that there is."""
    r = np.random.default_rng(width)
    rows = r.integers(0, 3, (40, width)).astype(np.float64)
    if mx.issubdtype(dtype, mx.floating):
        rows[1:7], rows[7:9] = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0, 1])[:, None], -np.inf
        rows[8, width - 1] = rows[9, width // 2 :] = rows[10, [1, 5]] = np.nan
        rows[11] = np.where(r.random(width) < 0.5, -0.0, 0.0)
        rows[7, width // 2] = rows[12, width // 2] = np.inf
        rows[13, 3:] = -np.inf
    else:
        least, most = (0, 2**32 - 1) if dtype == mx.uint32 else (-128, 127)
        rows[1], rows[2], rows[3, width // 2 :], rows[4, 1:] = least, most, most, least
    with mx.stream(mx.cpu):
        x = mx.array(rows, mx.float64).astype(dtype)
        mx.eval(x)
    with mx.stream(mx.gpu):
        most, least = mx.argmax(x, 1), mx.argmin(x, 1)
        mx.eval(most, least)
    assert np.array_equal(np.array(most), np.argmax(rows, 1))
    assert np.array_equal(np.array(least), np.argmin(rows, 1))


@pytest.mark.parametrize("shape, axis", [((0, 70000), 1), ((70000, 0), 0), ((0, 33000, 5), 1), ((3, 0, 70000), 2)])
def test_no_long_rows(shape, axis):
    left = [n for i, n in enumerate(shape) if i != axis]
    with mx.stream(mx.gpu):
        x = mx.zeros(shape)
        y = [f(x, axis=axis) for f in (mx.sum, mx.prod, mx.max, mx.argmax, mx.all, mx.var, mx.logsumexp, mx.median)]
        mx.eval(y)
    assert all(list(z.shape) == left for z in y)
