"""Formulas that half types have of their own on a GPU (src/cuda/kernels/halves.h), of all their numbers, beside the
CPU's; skipped where there is no GPU."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_gpu import OWN_OF_HALVES, bits

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
HALVES = [mx.float16, mx.bfloat16]
TWO = ["divide", "logaddexp", "power"]
ONE = [name for name in OWN_OF_HALVES.split() if name not in TWO]
PLACES = {"logaddexp": 4}  # its terms cancel where it is nearly 0: what is left has their errors
MOST = 0.001  # of all operands, those whose result is a neighbour of the CPU's


def all_numbers(dtype, seed=None):
    """Each number of the type; with a seed, in some order."""
    n = np.arange(2**16, dtype=np.uint16)
    return made(n if seed is None else np.random.default_rng(seed).permutation(n), dtype)


def made(n, dtype):
    with mx.stream(mx.cpu):
        x = mx.view(mx.array(n), dtype)
        mx.eval(x)
    return x


def on(device, f, *x):
    with mx.stream(device):
        y = f(*x)
        mx.eval(y)
    return bits(y).astype(np.int64)


def ranks(b):
    """Places of numbers in their order, as bits tell them; -0 is before 0."""
    return np.where(b & 0x8000, 0x7FFF - b, b)


def near(f, *x, places=1):
    """The CPU's results or their neighbours, of most operands the CPU's; NaN, infinities and zeros where it has them.
    Returns the share of the others."""
    got, want = on(mx.gpu, f, *x), on(mx.cpu, f, *x)
    off = np.abs(ranks(got) - ranks(want))
    limit = 0x7C00 if x[0].dtype == mx.float16 else 0x7F80
    special = (want & 0x7FFF) >= limit
    zero = (want & 0x7FFF) == 0
    assert off.max() <= places, [(hex(g), hex(w)) for g, w, o in zip(got, want, off) if o > places][:5]
    assert not off[special].any() and not ((got ^ want) & 0x8000)[zero].any()
    assert np.mean(off != 0) <= MOST
    return np.mean(off != 0)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ONE)
def test_all_numbers(name, dtype):
    near(getattr(mx, name), all_numbers(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_silu_and_derivatives(dtype):
    x = all_numbers(dtype)
    near(nn.silu, x)
    near(mx.grad(lambda x: mx.sigmoid(x).astype(mx.float32).sum()), x)
    # Where it is nearly 0, terms cancel: what is left has their errors.
    near(mx.grad(lambda x: nn.silu(x).astype(mx.float32).sum()), x, places=4)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", TWO)
def test_pairs(name, dtype):
    """Each number with ten others, of any magnitude and of its own."""
    f = getattr(mx, name)
    x = all_numbers(dtype)
    for seed in range(10):
        near(f, x, all_numbers(dtype, seed), places=PLACES.get(name, 1))
        close = np.arange(2**16) ^ np.random.default_rng(seed).integers(0, 2**12, 2**16)
        near(f, x, made(close.astype(np.uint16), dtype), places=PLACES.get(name, 1))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", TWO)
def test_special_pairs(name, dtype):
    """Each number with zeros, infinities, NaN, ones and the least and the largest numbers, both ways."""
    x = all_numbers(dtype)
    infinity, one = (0x7C00, 0x3C00) if dtype == mx.float16 else (0x7F80, 0x3F80)
    for b in (0, 1, one - 1, one, one + 1, 2 * one - infinity // 2, infinity - 1, infinity, infinity + 1):
        for sign in (0, 0x8000):
            y = made(np.full(2**16, b | sign, np.uint16), dtype)
            near(getattr(mx, name), x, y, places=PLACES.get(name, 1))
            near(getattr(mx, name), y, x, places=PLACES.get(name, 1))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_powers_of_ordinary_size(dtype):
    """Of any base, with exponents by which the result is a number between the least and the largest."""
    x = all_numbers(dtype)
    with np.errstate(invalid="ignore"):
        b = np.abs(np.array(x.astype(mx.float32, stream=mx.cpu), np.float64))
    far = np.abs(np.log2(np.where((b > 0) & np.isfinite(b) & (b != 1), b, 2)))
    r = np.random.default_rng(0)
    for _ in range(10):
        y = r.uniform(-1, 1, b.size) * (16 if dtype == mx.float16 else 127) / far
        y = np.where(r.random(b.size) < 0.5, y, np.rint(y))
        with mx.stream(mx.cpu):
            y = mx.array(y, mx.float32).astype(dtype)
            mx.eval(y)
        near(mx.power, x, y)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("size", [2**16, 2**10])
def test_in_groups(size, dtype):
    """What runs as one gives the same bits as operations one by one."""
    x, y = (all_numbers(dtype, seed)[:size] for seed in (1, 2))
    with mx.stream(mx.gpu):
        a = mx.abs(x)
        mx.eval(x, y, a)
    for f in [getattr(mx, name) for name in ONE]:
        assert np.array_equal(on(mx.gpu, lambda x: f(mx.abs(x)), x), on(mx.gpu, f, a))  # noqa: B023
    for f in [getattr(mx, name) for name in TWO]:
        for b in (y, y[7]):
            assert np.array_equal(on(mx.gpu, lambda x, b: f(mx.abs(x), b), x, b), on(mx.gpu, f, a, b))  # noqa: B023
