"""Sines, cosines and tangents of float32 of every size, above all of large ones: against the C library's of float64."""

import math
import os

import mlx.core as mx
import numpy as np
import pytest
from process import passes_at_level

FUNCTIONS = ["sin", "cos", "tan"]


def angles():
    """Of every exponent; around multiples of pi/2; both ends of what is near; those nearest to multiples of pi/2."""
    rng = np.random.default_rng(0)
    bits = np.arange(0, 0x7F800000, 0x800000, dtype=np.uint32)[:, None] + rng.integers(0, 0x800000, 60, dtype=np.uint32)
    turns = (rng.integers(1, 2**30, 2000) * (np.pi / 2)).astype(np.float32)
    ends = np.nextafter(np.float32(1e5), np.float32([0, np.inf])).tolist() + [1e5, np.finfo(np.float32).max]
    nearest = [16367173 * 2.0**72, 4.0e9, 5.3e28, 2.0**127]
    x = np.concatenate([bits.view(np.float32).ravel(), turns, np.float32([*ends, *nearest])])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_units_in_the_last_place(name):
    x = angles()
    truth = np.array([getattr(math, name)(v) for v in x.tolist()])
    with mx.stream(mx.cpu):
        y = np.array(getattr(mx, name)(mx.array(x)))
    unit = np.maximum(np.spacing(np.abs(truth).astype(np.float32)).astype(np.float64), 2.0**-149)
    wrong = np.abs(y - truth) / unit
    assert wrong.max() <= 2, (x[wrong.argmax()], y[wrong.argmax()], truth[wrong.argmax()])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whatever_is_beside_them(name):
    """Each by itself as among others, small ones, and what is no number."""
    x = angles()[::97]
    x[::5] = np.float32([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.5, -2e4])[np.arange(len(x[::5])) % 7]
    f = getattr(mx, name)
    with mx.stream(mx.cpu):
        together = np.array(f(mx.array(x)))
        alone = np.array([f(mx.array(v)).item() for v in x], np.float32)
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(np.isnan(together), ~np.isfinite(x))
    zero = x == 0
    if name != "cos":
        np.testing.assert_array_equal(np.signbit(together[zero]), np.signbit(x[zero]))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_types(name, dtype):
    with mx.stream(mx.cpu):
        x = mx.array(angles()).astype(dtype)
        wide = np.array(x.astype(mx.float32))
        truth = np.array([getattr(math, name)(v) if math.isfinite(v) else math.nan for v in wide.tolist()])
        y = np.array(getattr(mx, name)(x).astype(mx.float32))
    eps = {mx.float16: 2.0**-11, mx.bfloat16: 2.0**-8}[dtype]
    np.testing.assert_allclose(y, truth, rtol=1.01 * eps, atol=2.0**-25)


@pytest.mark.skipif("MLX_CPU" in os.environ, reason="is one of them")
@pytest.mark.parametrize("level", ["base", "avx2", "avx512"])
def test_every_level_of_instructions(level):
    """Where the machine has them; otherwise the next below."""
    passes_at_level(__file__, level)
