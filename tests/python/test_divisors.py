"""Integers divided by one number, which the CPU does by multiplying with its inverse: against Python's own integers."""

import os

import mlx.core as mx
import numpy as np
import pytest
from process import passes_at_level

TYPES = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def dividends(info, divisor):
    """Both ends, and what lies around multiples of the divisor."""
    least, most = int(info.min), int(info.max)
    rng = np.random.default_rng(abs(divisor) % 2**32)
    step = abs(divisor) or 1
    quotients = [0, 1, 2, 3, most // step, most // step - 1, least // step, least // step + 1]
    quotients += [int(q) // step for q in rng.integers(least, most, 40, dtype=info.dtype, endpoint=True)]
    near = [q * step + k for q in quotients for k in (-1, 0, 1)]
    return [a for a in [least, least + 1, most, most - 1, 0, 1, *near] if least <= a <= most]


def divisors(info):
    least, most = int(info.min), int(info.max)
    powers = [2**k + i for k in range(info.bits) for i in (-1, 0, 1)]
    every = {0, 3, 5, 7, 10, 641, 1000, 10**9 + 7, most, most - 1, most // 2 + 1, most // 3, least, *powers}
    return sorted(d for b in every for d in {b, -b} if least <= d <= most)


def wrapped(values, dtype):
    return np.array([v % 2 ** (8 * dtype.itemsize) for v in values], f"u{dtype.itemsize}").view(dtype)


def check(a, d, dtype):
    x = mx.array(np.array(a, dtype))
    divisor = mx.array(np.array(d, dtype))
    np.testing.assert_array_equal(
        np.array(x // divisor), wrapped([v // d if d else 0 for v in a], dtype), err_msg=f"// {d}"
    )
    np.testing.assert_array_equal(
        np.array(x % divisor), wrapped([v % d if d else v for v in a], dtype), err_msg=f"% {d}"
    )


@pytest.mark.parametrize("name", TYPES)
def test_one_divisor(name):
    dtype = np.dtype(name)
    info = np.iinfo(dtype)
    with mx.stream(mx.cpu):
        for d in divisors(info):
            check(dividends(info, d), d, dtype)


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_all_of_a_byte(name):
    dtype = np.dtype(name)
    info = np.iinfo(dtype)
    with mx.stream(mx.cpu):
        for d in range(info.min, info.max + 1):
            check(list(range(info.min, info.max + 1)), d, dtype)


def test_lengths_and_results_in_place():
    with mx.stream(mx.cpu):
        for n in (1, 2, 15, 16, 17, 31, 33, 64, 100, 1025):
            a = np.arange(n, dtype=np.int32) * 3 - n
            x = mx.array(a)
            np.testing.assert_array_equal(np.array(((x + 0) // 7) % -5), a // 7 % -5)
            np.testing.assert_array_equal(
                np.array(mx.compile(lambda x: (x // -11 + x % 13) * 2)(x)), (a // -11 + a % 13) * 2
            )
            b = np.arange(1, 6, dtype=np.int32)[:, None]
            np.testing.assert_array_equal(np.array(x[None] // mx.array(b)), a[None] // b)


@pytest.mark.skipif("MLX_CPU" in os.environ, reason="is one of them")
@pytest.mark.parametrize("level", ["base", "avx2", "avx512"])
def test_every_level_of_instructions(level):
    """Where the machine has them; otherwise the next below."""
    passes_at_level(__file__, level)
