"""Rows of every length around those of registers, and columns that are made as they are folded, beside NumPy in
float64; again with each set of instructions."""

import os

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from process import passes_at_level
from scipy import special

LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 255, 256, 257, 513, 1000, 1025, 2049]
EPS = {mx.float16: 1e-3, mx.bfloat16: 8e-3, mx.float32: 1.2e-7, mx.float64: 2.3e-16}
FLOATS = list(EPS)


def rows_of(dtype, n, gap=0, seed=0):
    """37 rows of n numbers that lie `gap` apart, and the same as float64."""
    x = mx.array(np.random.default_rng(seed).standard_normal((37, n + gap)), mx.float64).astype(dtype)[:, :n]
    return x, np.array(x.astype(mx.float64))


def wide(x):
    return np.array(x.astype(mx.float64))


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_softmax_and_its_logarithm(dtype, gap):
    for n in LENGTHS:
        x, want = rows_of(dtype, n, gap)
        near = {"rtol": 4 * EPS[dtype], "atol": 8 * EPS[dtype]}
        np.testing.assert_allclose(wide(nn.softmax(x)), special.softmax(want, -1), err_msg=str(n), **near)
        np.testing.assert_allclose(wide(nn.log_softmax(x)), special.log_softmax(want, -1), err_msg=str(n), **near)
        lse = special.logsumexp(want, -1)
        np.testing.assert_allclose(wide(mx.logsumexp(x, axis=-1)), lse, err_msg=str(n), **near)


@pytest.mark.parametrize("low", [-np.inf, -1e30, -1e4, -110.0, -104.5, -103.0, -95.0])
def test_softmax_of_rows_with_masked_elements(low):
    """Whose exponentials are 0 or subnormal."""
    for dtype, n in ((mx.float32, 8), (mx.float32, 77), (mx.float32, 2049), (mx.float64, 77), (mx.float64, 2049)):
        x, want = rows_of(dtype, n)
        shift = low * 7 if dtype == mx.float64 else low
        keep = np.random.default_rng(n).random(want.shape) > 0.3
        keep[:, 1] = True
        want = np.where(keep, want, want + shift)
        got = mx.softmax(mx.array(want, mx.float64).astype(dtype), axis=-1)
        least = 5e-324 if dtype == mx.float64 else 1.5e-45
        with np.errstate(all="ignore"):
            near = {"rtol": 1e-13 if dtype == mx.float64 else 2e-5, "atol": 2 * least}
            np.testing.assert_allclose(wide(got), special.softmax(want.astype(np.longdouble), -1), **near)


def test_rows_with_infinities_and_nan():
    inf, nan = np.inf, np.nan
    for n in (2, 8, 20, 64, 300):
        x = np.random.default_rng(n).standard_normal((6, n))
        x[0, n // 2], x[1, n - 1], x[2, 0], x[3], x[4, ::2] = inf, nan, -inf, -inf, -inf
        a = mx.array(x, mx.float32)
        with np.errstate(all="ignore"):
            want = special.softmax(x, -1)
            less = x - x.max(-1, keepdims=True)
            log = less - np.log(np.exp(less).sum(-1, keepdims=True))
        np.testing.assert_allclose(np.array(nn.softmax(a)), want, rtol=1e-5)
        np.testing.assert_allclose(np.array(nn.log_softmax(a)), log, rtol=1e-5)
        np.testing.assert_array_equal(np.isnan(np.array(a.max(-1))), np.isnan(x).any(-1))
        np.testing.assert_array_equal(np.isnan(np.array(a.min(-1))), np.isnan(x).any(-1))


@pytest.mark.parametrize("gap", [0, 3])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_folds(dtype, gap):
    for n in LENGTHS:
        x, want = rows_of(dtype, n, gap)
        assert wide(x.max(-1)).tolist() == want.max(-1).tolist()
        assert wide(x.min(-1)).tolist() == want.min(-1).tolist()
        size = np.abs(want).sum(-1)
        assert (np.abs(wide(x.sum(-1)) - want.sum(-1)) <= EPS[dtype] * (2 * size + 1)).all()
        if dtype in (mx.float32, mx.float64):
            np.testing.assert_allclose(wide(x.prod(-1)), want.prod(-1), rtol=n * 1e-15 + EPS[dtype], atol=1e-45)
            norm = np.linalg.norm(want, axis=-1)
            np.testing.assert_allclose(wide(mx.linalg.norm(x, axis=-1)), norm, rtol=4 * EPS[dtype])


def test_where_the_extreme_is_does_not_matter():
    for n in (1, 3, 7, 8, 9, 16, 17, 40, 64, 65, 130):
        x = np.zeros((n, n), np.float32)
        np.fill_diagonal(x, 1 + np.arange(n))
        assert np.array(mx.array(x).max(-1)).tolist() == list(range(1, n + 1))
        assert np.array(mx.array(-x).min(-1)).tolist() == list(range(-1, -n - 1, -1))
        np.fill_diagonal(x, np.nan)
        assert np.isnan(np.array(mx.array(x).max(-1))).all()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64], ids=str)
def test_norms_and_their_derivatives(dtype):
    for n in LENGTHS[1:]:
        x, want = rows_of(dtype, n)
        c, wide_c = rows_of(dtype, n, seed=1)
        mean, var = want.mean(-1, keepdims=True), want.var(-1, keepdims=True) + 1e-5
        z = (want - mean) / np.sqrt(var)
        (y,), (dx,) = mx.vjp(lambda x: mx.fast.layer_norm(x, None, None, 1e-5), [x], [c])
        np.testing.assert_allclose(wide(y), z, rtol=0, atol=20 * EPS[dtype])
        d = (wide_c - wide_c.mean(-1, keepdims=True) - z * (wide_c * z).mean(-1, keepdims=True)) / np.sqrt(var)
        np.testing.assert_allclose(wide(dx), d, rtol=0, atol=40 * EPS[dtype] * np.abs(d).max() + 40 * EPS[dtype])


@pytest.mark.parametrize("dtype", [*FLOATS, mx.int32], ids=str)
def test_columns_that_are_made(dtype):
    """Sums over axes in front, of what is computed on the way: the same bits as of what lies in memory."""
    for shape, axis in (
        ((8, 100, 64), 1),
        ((9, 33, 5), 1),
        ((2, 3, 50, 1500), (1, 2)),
        ((5000, 24), 0),
        ((4097, 700), 0),
        ((8, 40, 1, 7), (1, 2)),
    ):
        x = mx.array(np.random.default_rng(0).normal(size=shape) * 3, mx.float64).astype(dtype)
        b = mx.array(np.arange(shape[-1]) % 5, mx.float64).astype(dtype)
        y = x * b - x
        mx.eval(y)
        got, want = (x * b - x).sum(axis), y.sum(axis)
        assert np.array_equal(wide(got), wide(want)), (shape, axis)
        if dtype == mx.int32:
            assert np.array_equal(wide(want), wide(y).sum(axis))
        else:
            size = np.abs(wide(y)).sum(axis)
            assert (np.abs(wide(want) - wide(y).sum(axis)) <= EPS[dtype] * (2 * size + 1)).all()
        held = x * b  # and where the program holds something on the way
        total = (held - x).sum(axis)
        mx.eval(total, held)
        assert np.array_equal(wide(total), wide(want)) and np.array_equal(wide(held), wide(x * b))


@pytest.mark.skipif("MLX_CPU" in os.environ, reason="is one of them")
@pytest.mark.parametrize("level", ["base", "avx2", "avx512"])
def test_every_level_of_instructions(level):
    """Where the machine has them; otherwise the next below."""
    passes_at_level(__file__, level)
