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


@pytest.mark.parametrize("dtype", [*NUMBERS, mx.bool_], ids=str)
def test_linspace(dtype):
    for a in [(0, 1, 5), (3, -4.5, 1001), (0, 1, 1), (0, 1, 0), (0, 100, 64)]:
        same(lambda: mx.linspace(*a, dtype=dtype))  # noqa: B023


@pytest.mark.parametrize("dtype", [*NUMBERS, mx.bool_], ids=str)
def test_diagonals(dtype):
    for a in [(5,), (1,), (3, 37), (37, 3), (64, 64, 5), (33, 31, -7), (4, 4, 9), (4, 4, -4), (0, 3), (3, 0)]:
        same(lambda: mx.eye(*a, dtype=dtype))  # noqa: B023
    same(lambda: mx.tri(13, 21, 2, dtype=dtype))


def test_bits():
    """The CPU's, for every length around those that a thread takes, aligned or not; unit/emulated_gpu.c has bytes."""
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
