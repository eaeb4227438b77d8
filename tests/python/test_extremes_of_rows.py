"""Extremes of rows: many at once, of which each is what it is in any company, bit for bit."""

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
