"""Extremes, their places and products of rows of any length, short ones above all, which are taken side by side."""

import mlx.core as mx
import numpy as np
import pytest

LENGTHS = [*range(1, 36), 63, 64, 65, 127, 200, 1000, 70_000]


def rows_of(dtype, rows, n):
    """Small numbers, so that there are equal ones, both zeros and some that are none."""
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (rows, n)).astype(np.float64) * rng.choice([-1.0, 1.0], (rows, n))
    x[::2] = np.where(rng.random(x[::2].shape) < 0.05, np.nan, x[::2])
    x[::3] = np.where(rng.random(x[::3].shape) < 0.05, np.inf, x[::3])
    return x, mx.array(x.tolist(), dtype)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [1, 5, 16, 39])
def test_extremes_and_their_places(dtype, rows):
    with mx.stream(mx.cpu):
        for n in LENGTHS[:-1] if rows > 1 else LENGTHS:
            x, a = rows_of(dtype, rows, n)
            for name in ("argmax", "argmin"):
                assert np.array_equal(np.array(getattr(mx, name)(a, -1)), getattr(np, name)(x, -1)), (name, n)
            for name in ("max", "min"):
                got = np.array(getattr(mx, name)(a, -1).astype(mx.float32))
                assert np.array_equal(got, getattr(np, name)(x, -1), equal_nan=True), (name, n)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64], ids=str)
@pytest.mark.parametrize("rows", [1, 5, 16, 39])
def test_products(dtype, rows):
    x = np.random.default_rng(0).uniform(0.5, 1.5, (rows, 64)).astype(np.float32).astype(np.float64)
    with mx.stream(mx.cpu):
        for n in range(1, 65):
            a = mx.array(x[:, :n].tolist(), dtype)
            np.testing.assert_allclose(
                np.array(a.prod(-1)), x[:, :n].prod(-1), rtol=2e-7 * (dtype == mx.float32) + 2e-14
            )
            strided = mx.array(x.tolist(), dtype)[:, :n]
            assert mx.array_equal(strided.prod(-1), a.prod(-1)).item(), n
            assert mx.array_equal(strided.max(-1), a.max(-1)).item(), n
