"""Arrays made from nothing on a GPU, each beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import FLOATS, INTEGERS, same
from test_gpu_reductions import close

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
NUMBERS = [*FLOATS, *INTEGERS, mx.complex64]


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_arange(dtype):
    for bounds in [(0,), (1,), (7,), (1027,), (5, 1000, 3), (100, -3, -7), (0.25, 30, 0.3), (-1e9, 1e9, 12345678.5)]:
        same(lambda: mx.arange(*bounds, dtype=dtype))  # noqa: B023
    same(lambda: mx.arange(2**53, 2**53 + 40, 4, dtype=dtype))
    for bounds in [(5, 0, -1e39), (0, 1e39, 5e38), (-1e39, 1e39, 1e39), (-3e38, 3e38, 2e38), (-8e4, 4e4, 4e4)]:
        if dtype in FLOATS:
            same(lambda: mx.arange(*bounds, dtype=dtype))  # noqa: B023


@pytest.mark.parametrize("dtype", [*NUMBERS, mx.bool_], ids=str)
def test_linspace(dtype):
    for a in [(0, 1, 5), (3, -4.5, 1001), (0, 1, 1), (0, 1, 0), (0, 100, 64)]:
        same(lambda: mx.linspace(*a, dtype=dtype))  # noqa: B023


@pytest.mark.parametrize("dtype", [*NUMBERS, mx.bool_], ids=str)
def test_diagonals(dtype):
    around = [(4, 4, 9), (4, 4, -4), (0, 3), (3, 0), (700, 29, 3), (5, 5000, 70), (6000, 1)]
    for a in [(5,), (1,), (3, 37), (37, 3), (64, 64, 5), (33, 31, -7), *around]:
        same(lambda: mx.eye(*a, dtype=dtype))  # noqa: B023
    same(lambda: mx.tri(13, 21, 2, dtype=dtype))


def test_bits():
    """The CPU's, for every length around those that a thread takes, aligned or not; bytes: kernels/emulated_gpu.c."""
    for n in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 500, 2500]:
        same(lambda: mx.random.split(mx.random.key(n), n))  # noqa: B023


def test_bits_of_many_keys():
    keys = mx.random.split(mx.random.key(3), 37)
    for n in [1, 3, 4, 8, 13, 50]:
        draw = mx.vmap(lambda k: mx.random.split(k, n))  # noqa: B023
        same(draw, keys)
        same(draw, keys[::-2])


DRAWS = {
    "uniform": lambda k, t: mx.random.uniform(-1, 3, (1000,), t, key=k),
    "normal": lambda k, t: mx.random.normal((999,), t, 2, 3, key=k),
    "gumbel": lambda k, t: mx.random.gumbel((1000,), t, key=k),
    "laplace": lambda k, t: mx.random.laplace((100, 3), t, key=k),
    "truncated normal": lambda k, t: mx.random.truncated_normal(-1, 2, (1000,), t, key=k),
    "tail of the normal": lambda k, t: mx.random.truncated_normal(-12, -7.5, (1000,), t, key=k),
}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_draws(draw, dtype):
    close(lambda k: DRAWS[draw](k, dtype), mx.random.key(7))


def test_draws_of_integers():
    k = mx.random.key(5)
    for dtype in INTEGERS:
        same(lambda: mx.random.randint(3, 99, (1001,), dtype, key=k))  # noqa: B023
    same(lambda: mx.random.randint(-(2**40), 2**60, (1001,), mx.int64, key=k))
    same(lambda: mx.random.bernoulli(0.3, (1001,), key=k))
    same(lambda: mx.random.split(k, 11))


def test_the_state_goes_on_as_on_the_cpu():
    def three():
        mx.random.seed(11)
        return [mx.random.uniform(shape=(5,)) for _ in range(3)]

    with mx.stream(mx.gpu):
        here = np.array([x.tolist() for x in three()])
    with mx.stream(mx.cpu):
        there = np.array([x.tolist() for x in three()])
    assert np.array_equal(here, there)


def composed(dtype, shape, key):
    """Normal numbers, made a step at a time: what random.normal is composed of."""
    u = mx.random.uniform(-np.nextafter(np.float32(1), np.float32(0)), 1, shape, key=key)
    mx.eval(u)
    y = mx.erfinv(u)
    mx.eval(y)
    y = y.astype(dtype)
    mx.eval(y)
    return mx.array(2**0.5, dtype) * y


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_numbers_drawn_by_one_kernel(dtype):
    """Bits and what makes numbers of them run as one: the same numbers as in steps, of any count, for several keys."""
    k = mx.random.key(9)
    with mx.stream(mx.gpu):
        for n in [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 1001, 5000]:
            assert mx.array_equal(mx.random.normal((n,), dtype, key=k), composed(dtype, (n,), k))
        keys = mx.random.split(k, 5)
        many = mx.vmap(lambda k: mx.random.normal((3, 7), dtype, key=k))(keys)
        assert mx.array_equal(many, mx.stack([composed(dtype, (3, 7), q) for q in keys]))
        moved = mx.random.normal((999,), dtype, 2, 3, key=k)
        factor = mx.array(2**0.5, dtype) * mx.array(3, dtype)
        plain = mx.random.uniform(-np.nextafter(np.float32(1), np.float32(0)), 1, (999,), key=k)
        mx.eval(plain, factor)
        assert mx.array_equal(moved, 2 + factor * mx.erfinv(plain).astype(dtype))
    for n in [1, 4, 7, 1000]:
        same(lambda: mx.random.uniform(-1, 3, (n,), dtype, key=k))  # noqa: B023
        same(lambda: mx.random.uniform(shape=(n, 3), dtype=dtype, key=k))  # noqa: B023


@pytest.mark.parametrize("n", [40_003, 300_000, 300_001])
def test_many_numbers_drawn_by_one_kernel(n):
    """More than a thread has at once, with numbers of erfinv's tail, beside the same in steps."""
    k = mx.random.key(21)
    with mx.stream(mx.gpu):
        assert mx.array_equal(mx.random.normal((n,), key=k), composed(mx.float32, (n,), k))
    same(lambda: mx.random.uniform(shape=(n,), key=k))
    same(lambda: mx.random.split(k, n))


@pytest.mark.parametrize("bounds", [(-1, 1), (-2, 2), (0, 1), (-0.3, 0.7), (0.5, 1), (1, -1), (-1e-30, 1e-30), (0, 0)])
def test_erfinv_of_any_range(bounds):
    """Whatever range the numbers are of: the same as in steps, also beyond 1."""
    k = mx.random.key(2)
    with mx.stream(mx.gpu):
        u = mx.random.uniform(*bounds, (20_001,), key=k)
        mx.eval(u)
        want, got = mx.erfinv(u), mx.erfinv(mx.random.uniform(*bounds, (20_001,), key=k))
        mx.eval(want)
        assert mx.array_equal(got, want, equal_nan=True)
        assert mx.array_equal(1 / got, 1 / want, equal_nan=True)


def test_draws_in_larger_groups():
    k, q = mx.random.key(3), mx.random.key(4)
    x = mx.arange(1001, dtype=mx.float32)
    low = mx.arange(1001) / 7

    def twice(k):
        u = mx.random.uniform(shape=(1001,), key=k)
        return u * u + u

    def both(k):
        u = mx.random.uniform(shape=(1001,), key=k)
        return u + 1, u * 2

    same(twice, k)
    same(lambda k: both(k)[0] - both(k)[1], k)
    same(lambda k: mx.stack(both(k)), k)
    same(lambda x: mx.where(mx.random.bernoulli(0.4, (1001,), key=k), x * 2, 0), x)
    same(lambda k: mx.random.uniform(shape=(1001,), key=k) * 0.5 - mx.random.uniform(2, 3, (1001,), key=q), k)
    same(lambda low: mx.random.uniform(low, low + 1, (1001,), key=k), low)
    same(lambda k: mx.random.bernoulli(low / 200, key=k), k)
    same(lambda k: mx.random.split(k, 500).astype(mx.float32) / 3, k)
    same(mx.compile(lambda k: mx.random.uniform(shape=(5000,), key=k) + 1), k)
    close(lambda k: mx.random.normal((40, 25), mx.complex64, key=k), k)
    close(lambda k: mx.exp(mx.random.normal((1001,), key=k) * 0.5 + 1), k)
    close(lambda k: mx.random.normal((1001,), loc=x, scale=x, key=k), k)


def test_draws_whose_parts_are_kept():
    """What somebody holds is computed, whatever it is a part of."""
    with mx.stream(mx.gpu):
        k = mx.random.key(1)
        u = mx.random.uniform(-1, 1, (1000,), key=k)
        y = mx.erfinv(u) * 2
        mx.eval(y)
        again = mx.random.uniform(-1, 1, (1000,), key=k)
        assert mx.array_equal(u, again) and mx.array_equal(y, mx.erfinv(again) * 2)
        small = mx.random.bernoulli(0.5, (1000,), key=k)
        both = small.astype(mx.int32) + 1
        mx.eval(both)
        assert mx.array_equal(both, small.astype(mx.int32) + 1) and 400 < both.sum().item() - 1000 < 600
