"""Extremes of rows: many at once, of which each is what it is in any company, bit for bit; and of columns."""

import mlx.core as mx
import numpy as np
import pytest


def bits(x):
    x = np.array(x)
    return x.view(f"u{x.itemsize}")


def rows(seed, n, length):
    """Few different numbers, zeros of both signs among them; in some rows these are the extremes."""
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf], np.float32), (n, length))
    x[::3] = np.where(x[::3] > 0, 0, x[::3])
    x[1::3] = np.where(x[1::3] < 0, -0.0, x[1::3])
    return x


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64], ids=str)
@pytest.mark.parametrize("length", [8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 130, 1000, 1024, 1025])
@pytest.mark.parametrize("name", ["max", "min"])
def test_each_in_any_company(name, length, dtype):
    f = getattr(mx, name)
    with mx.stream(mx.cpu):
        x = mx.array(rows(length, 53, length)).astype(dtype)
        y = f(x, axis=-1)
        later = [bits(f(x[i:], axis=-1)) for i in range(50)]  # in other company
        wide = mx.concatenate([x, mx.full((53, 3), 7, dtype)], 1)
        assert np.array_equal(bits(f(wide[:, :length], axis=-1)), bits(y))
        blocks = mx.stack([wide, wide, wide])[::2, 3:, :length]  # whose rows are not one step apart
        assert np.array_equal(bits(f(blocks, axis=-1)), bits(mx.stack([y, y])[:, 3:]))
        for i in range(50):
            assert np.array_equal(later[i], bits(y)[i:])
    np.testing.assert_array_equal(np.array(y), getattr(np, name)(np.array(x), axis=-1))


@pytest.mark.parametrize("length", [16, 33, 64, 1000])
@pytest.mark.parametrize("name", ["max", "min"])
def test_nan_stays_in_its_row(name, length):
    for row in (0, 7, 20, 52):
        for place in (0, length // 2, length - 1):
            x = rows(row, 53, length)
            x[row, place] = np.nan
            with mx.stream(mx.cpu):
                y = np.array(getattr(mx, name)(mx.array(x), axis=-1))
            np.testing.assert_array_equal(y, getattr(np, name)(x, axis=-1))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64, mx.float16, mx.bfloat16, mx.int32], ids=str)
@pytest.mark.parametrize("columns", [1, 2, 3, 5, 7, 8, 12, 15, 17, 24, 30, 31, 33, 48, 63, 65, 100, 511, 513])
@pytest.mark.parametrize("name", ["max", "min"])
def test_of_columns(name, columns, dtype):
    """With and without gaps between rows; few rows, and many, which are cut into pieces."""
    rng = np.random.default_rng(columns)
    for n in (1, 3, 4, 9, 37, 600, 300_000 // columns + 5):
        x = rng.normal(size=(n, columns + 1)).astype(np.float32) * 100
        for wild in (False, True):
            if wild and dtype != mx.int32:
                x[rng.integers(n, size=3), rng.integers(columns, size=3)] = [np.nan, np.inf, -np.inf]
            with mx.stream(mx.cpu):
                wide = mx.array(np.trunc(x) if dtype == mx.int32 else x).astype(dtype)
                here = [getattr(mx, name)(y, axis=0) for y in (mx.contiguous(wide[:, :-1]), wide[:, 1:])]
                as_float = np.array(wide.astype(mx.float32))
            for y, part in zip(here, (as_float[:, :-1], as_float[:, 1:]), strict=True):
                want = getattr(np, name)(part, axis=0)
                np.testing.assert_array_equal(np.array(y.astype(mx.float32)), want)


@pytest.mark.parametrize("shape", [(4096, 1500), (70_001, 40), (9000, 513), (3, 5000, 600)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "complex64"])
def test_columns_in_pieces(shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "complex64" else 0)
    x = (x / np.abs(x) if dtype == "complex64" else x).astype(dtype)
    y = x if dtype == "complex64" else x.astype(np.float64)
    with mx.stream(mx.cpu):
        a = mx.array(x, getattr(mx, dtype))
        got = {f: np.array(getattr(mx, f)(a, axis=-2)) for f in ("sum", "prod", "any", "all", "max")}
    far = 1e-3 if dtype == "float16" else 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(got["sum"], y.sum(-2).astype(dtype), rtol=far, atol=far * shape[-2] ** 0.5)
    if dtype == "int32":
        np.testing.assert_array_equal(got["prod"], x.prod(-2, dtype=np.int32))
    else:
        np.testing.assert_allclose(got["prod"], y.astype(np.complex128).prod(-2), atol=1e-2)
    np.testing.assert_array_equal(got["any"], x.astype(bool).any(-2))
    np.testing.assert_array_equal(got["all"], x.astype(bool).all(-2))
    np.testing.assert_array_equal(got["max"], x.max(-2))
