"""power of float32: ordinary operands by a formula of their own, which gives the same bits as the one for all."""

import mlx.core as mx
import numpy as np
import pytest

RANDOM = np.random.default_rng(0)
N = 1 << 16


def ordinary():
    """Bases of every size, exponents such that results are; some beyond; and bases near 1, where those are large."""
    a = np.exp2(RANDOM.uniform(-126, 128, N)).astype(np.float32)
    near = RANDOM.uniform(0.7, 1.42, N).astype(np.float32)
    a, near = (np.where(v == 1, np.float32(1.25), v) for v in (a, near))
    for base in (a, near):
        exponent = RANDOM.uniform(-152, 131, N) / np.log2(base.astype(np.float64))
        yield base, np.clip(exponent, -32767, 32767).astype(np.float32)
    yield a, RANDOM.uniform(-9, 9, N).round().astype(np.float32)


def units(y, a, b):
    """Of y = a^b, in the last place of the truth."""
    with np.errstate(over="ignore", under="ignore"):
        truth = np.power(a.astype(np.longdouble), b.astype(np.longdouble))
    top = np.ldexp(np.longdouble(1), 128)
    got, truth = np.minimum(y.astype(np.longdouble), top), np.minimum(truth, top)
    _, e = np.frexp(truth)
    return np.abs(got - truth) / np.ldexp(np.longdouble(1), np.clip(e, -125, 128) - 24)


@pytest.mark.parametrize("kind", range(3))
def test_ordinary_operands(kind):
    a, b = list(ordinary())[kind]
    y = np.array(mx.power(mx.array(a), mx.array(b)))
    assert units(y, a, b).max() < 1.2
    with_others = a.copy()
    with_others[::64] = -1  # one in each part of a loop
    z = np.array(mx.power(mx.array(with_others), mx.array(b)))
    rest = with_others > 0
    assert np.array_equal(y[rest].view(np.uint32), z[rest].view(np.uint32))


def test_what_is_a_float_is_exact():
    a, b = np.meshgrid(np.arange(1, 4097), np.arange(-24, 25))
    truth = np.power(a.astype(np.longdouble), b)
    with np.errstate(over="ignore"):
        a, b, truth = (v[truth.astype(np.float32) == truth] for v in (a, b, truth))
    assert np.array_equal(np.array(mx.power(mx.array(a, mx.float32), mx.array(b, mx.float32))), truth)
    roots = np.arange(1, 4096, dtype=np.float32)
    assert np.array_equal(np.array(mx.power(mx.array(roots * roots), 0.5)), roots)


SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -2, 3, -3, 1e-40, -1e-45, 3e38, 32767, 32768, -33, 33,
                    2**-126, 1 - 2**-24, 1 + 2**-23, 16777215, -16777216, 1e30, -1e30, 2.5], np.float32)  # fmt: skip


def test_special_cases():
    a, b = (v.ravel() for v in np.meshgrid(SPECIAL, SPECIAL))
    with np.errstate(all="ignore"):
        truth = np.power(a.astype(np.float64), b.astype(np.float64))
        rounded = truth.astype(np.float32)
    both = np.array(mx.power(mx.array(a), mx.array(b)))
    each = np.array([mx.power(mx.array([x]), mx.array([y])).item() for x, y in zip(a, b)], np.float32)
    for y in (both, each):
        assert np.array_equal(np.isnan(y), np.isnan(truth))
        assert np.array_equal(np.signbit(y)[~np.isnan(y)], np.signbit(truth)[~np.isnan(y)])
        fine = ~np.isnan(y)
        np.testing.assert_allclose(y[fine], rounded[fine], rtol=2.5e-7, atol=1.5e-45)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.float64, mx.int32, mx.uint8, mx.complex64])
def test_squares_and_first_powers(dtype):
    """Of one number for all and of as many as there are: the same bits, those of a product where that is exact."""
    with mx.stream(mx.cpu):
        x = (mx.random.normal((3, 1000), key=mx.random.key(1)) * 9).astype(dtype)
        if dtype == mx.complex64:
            x = x + 1j * x[::-1]
        two, one = mx.array(2).astype(dtype), mx.array(1).astype(dtype)
        for e, expected in ((two, x * x), (one, x)):
            y = mx.power(x, e)
            assert mx.array_equal(y, mx.power(x, mx.broadcast_to(e, x.shape) + 0 * x)).item()
            assert mx.array_equal(mx.power(x[1, 7], e), y[1, 7]).item()
            assert mx.allclose(y, expected, rtol=1e-6).item()
            if dtype != mx.complex64:
                assert mx.array_equal(y, expected).item()
        assert mx.array_equal(x**2, mx.power(x, two)).item()
        if mx.issubdtype(dtype, mx.floating):
            assert mx.array_equal(mx.grad(lambda x: (x**2).sum())(x), 2 * x).item()
