"""Fourier transforms on a GPU, beside NumPy in float64; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_fft import COMPLEX, HALF, LENGTHS, REAL

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
RNG = np.random.default_rng(0)


def random(*shape):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.complex64)


def on_gpu(f, x):
    """f of the NumPy array x; both on the GPU."""
    with mx.stream(mx.gpu):
        y = f(mx.array(x) + 0)
        mx.eval(y)
    return np.array(y)


def close(got, want, ulps=8):
    """The root of the mean square of errors grows with the logarithm of the length: of float32, a few units in the last
    place of the numbers' own; no number is off by much more."""
    assert got.shape == want.shape
    if want.size:
        size = np.sqrt(np.mean(np.abs(want) ** 2)) + 1e-30
        assert np.sqrt(np.mean(np.abs(got - want) ** 2)) <= ulps / 2 * 2.0**-23 * size
        assert np.abs(got - want).max() <= ulps * 2.0**-23 * max(np.abs(want).max(), 4 * size)


def check_all(x, axis=-1, ulps=8):
    """The four transforms of x along an axis."""
    wide, n = x.astype(np.complex128), x.shape[axis]
    half = np.take(x, range(n // 2 + 1), axis)
    close(on_gpu(lambda x: mx.fft.fft(x, axis=axis), x), np.fft.fft(wide, axis=axis), ulps)
    close(on_gpu(lambda x: mx.fft.ifft(x, axis=axis), x), np.fft.ifft(wide, axis=axis), ulps)
    close(on_gpu(lambda x: mx.fft.rfft(x, axis=axis), x.real), np.fft.rfft(wide.real, axis=axis), ulps)
    want = np.fft.irfft(half.astype(np.complex128), n=n, axis=axis)
    close(on_gpu(lambda x: mx.fft.irfft(x, n=n, axis=axis), half), want, ulps)


@pytest.mark.parametrize("n", LENGTHS)
def test_every_length(n):
    check_all(random(5, n))


@pytest.mark.parametrize("n", [2, 8, 63, 64, 999, 1000, 1009, 1024])
def test_many_rows(n):
    """As many as a library takes over where it is found."""
    check_all(random(2**18 // n + 1, n))


@pytest.mark.parametrize(
    "shape", [(3, 8, 5), (2, 256, 3), (1, 100, 17), (2, 1024, 9), (40, 30, 2), (2, 17, 6)], ids=str
)
def test_strided_axes(shape):
    check_all(random(*shape), 1)
    check_all(random(*shape), 0)


@pytest.mark.parametrize("n", [8192, 10000, 2**14, 2**15, 3**9, 20014, 65537, 2**17, 2**13 * 27, 2**21])
def test_long_sequences(n):
    check_all(random(1 if n > 2**18 else 2, n), ulps=12)


@pytest.mark.parametrize("shape", [(2, 8192, 3), (2, 4096, 2), (1, 3000, 3), (3, 8209, 2)], ids=str)
def test_long_strided_axes(shape):
    check_all(random(*shape), 1, ulps=12)


@pytest.mark.parametrize(
    "shape", [(3, 1009, 100), (2, 17, 8000), (1, 1009, 261), (300, 127, 7), (5, 2003, 27), (2, 4099, 33)], ids=str
)
def test_columns_of_primes(shape):
    check_all(random(*shape), 1, ulps=12)
    check_all(random(*shape[1:]), 0, ulps=12)


# As many numbers as a library takes over where it is found.
BOTH = {
    "fft2": lambda f, x: f.fft2(x),
    "ifft2": lambda f, x: f.ifft2(x),
    "ortho": lambda f, x: f.fft2(x, norm="ortho"),
    "rfft2": lambda f, x: f.rfft2(x.real),
    "irfft2": lambda f, x: f.irfft2(x),
    "back and forth": lambda f, x: f.ifft2(f.fft2(x)),
    "axes in turn": lambda f, x: f.fft2(x, axes=(-1, -2)),
    "first and last": lambda f, x: f.fftn(x, axes=(0, -1)),
    "all axes": lambda f, x: f.fftn(x),
    "all axes, back": lambda f, x: f.ifftn(x, axes=(-3, 1, 2)),
    "all axes, real": lambda f, x: f.rfftn(x.real),
    "turned": lambda f, x: f.fft2(x.swapaxes(1, 2)),
    "pieces of rows": lambda f, x: f.fft2(x[:, 1:, 2:]),
    "one way, then the other": lambda f, x: f.fft(f.ifft(x, axis=-2)),
}


@pytest.mark.parametrize("shape", [(2, 364, 362), (300, 30, 31), (5, 8, 6560), (1, 1031, 257), (70, 62, 64)], ids=str)
@pytest.mark.parametrize("how", BOTH)
def test_two_axes(how, shape):
    x, f = random(*shape), BOTH[how]
    close(on_gpu(lambda x: f(mx.fft, x), x), f(np.fft, x.astype(np.complex128)), ulps=12)


def test_what_is_between_two_axes():
    """The transform of the first axis is looked at as well, by other operations or from outside."""
    x = random(2, 366, 362)
    wide = x.astype(np.complex128)
    first, both = np.fft.fft(wide, axis=-2), np.fft.fft2(wide)

    def between(x):
        y = mx.fft.fft(x, axis=-2)
        z = mx.fft.fft(y)
        return y * 2, z, mx.stack([y + 1, z])

    with mx.stream(mx.gpu):
        got = between(mx.array(x) + 0)
        mx.eval(got)
        compiled = mx.compile(between)(mx.array(x))
        mx.eval(compiled)
    for y in got, compiled:
        for u, want in zip(y, (first * 2, both, np.stack([first + 1, both]))):
            close(np.array(u), want)
    y = on_gpu(lambda x: mx.exp(mx.fft.fft(x * 0.001, axis=-2)) + mx.fft.fft(x), x)
    close(y, np.exp(np.fft.fft(wide * 0.001, axis=-2)) + np.fft.fft(wide))
    y = on_gpu(lambda x: mx.fft.fft2(mx.abs(x)) * 0.5 + 1, x)
    close(y, np.fft.fft2(np.abs(wide)) * 0.5 + 1)


def test_derivatives_of_two_axes():
    x, v = random(3, 300, 310), random(3, 300, 310)
    with mx.stream(mx.gpu):
        y, d = mx.vjp(mx.fft.fft2, [mx.array(x)], [mx.array(v)])
        mx.eval(y, d)
    n = 300 * 310
    close(np.array(y[0]), np.fft.fft2(x.astype(np.complex128)))
    close(np.array(d[0]), np.fft.ifft2(v.astype(np.complex128)) * n)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", COMPLEX + REAL + HALF)
def test_norms_and_sizes(name, norm):
    x = random(3, 6, 10)
    x = x.real if name in REAL else x
    options = {"s": (7, 12)} if name.endswith(("2", "n")) else {"n": 12}
    axes = {"axes": (1, 2)} if name.endswith(("2", "n")) else {}
    want = getattr(np.fft, name)(x.astype(np.float64 if name in REAL else np.complex128), norm=norm, **options, **axes)
    close(on_gpu(lambda x: getattr(mx.fft, name)(x, norm=norm, **options, **axes), x), want)


VIEWS = {
    "turned": lambda x: x.T,
    "axes moved": lambda x: x.transpose(1, 0, 2),
    "sliced": lambda x: x[1:, ::2, 1:],
    "backwards": lambda x: x[:, ::-1, ::-1],
    "one row of all": lambda x: (mx if isinstance(x, mx.array) else np).broadcast_to(x[:1], x.shape),
    "no rows": lambda x: x[:0],
}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("view", VIEWS)
def test_layouts(view, axis):
    x, f = random(4, 12, 16), VIEWS[view]
    if view == "no rows" and axis == 0:
        return
    want = np.fft.fft(f(x.astype(np.complex128)), axis=axis)
    close(on_gpu(lambda x: mx.fft.fft(f(x), axis=axis), x), want)
    close(on_gpu(lambda x: mx.fft.rfft(f(x), axis=axis), x.real), np.fft.rfft(f(x.real.astype(np.float64)), axis=axis))
    want = np.fft.irfft(f(x.astype(np.complex128)), axis=axis)
    close(on_gpu(lambda x: mx.fft.irfft(f(x), axis=axis), x), want)


def test_many_rows_share_tables():
    """Lengths in turn, more than are kept."""
    for n in [*range(2, 40), 5, 39, 4, 257, 2, 257]:
        x = random(70, n)
        close(on_gpu(mx.fft.fft, x), np.fft.fft(x.astype(np.complex128)))


@pytest.mark.parametrize("transform", [mx.fft.fft, lambda x: mx.fft.fft(x, axis=0), mx.fft.fft2])
@pytest.mark.parametrize("shape", [(7, 1000), (300, 1000), (1009, 300)])
def test_results_repeat(shape, transform):
    x = random(*shape)
    first = on_gpu(transform, x)
    assert all(np.array_equal(first, on_gpu(transform, x)) for _ in range(3))


def test_derivatives():
    x, v = random(3, 10), random(3, 10)

    def pulled(x, v):
        return mx.vjp(lambda x: mx.fft.rfft(x.real), [x], [v[:, :6]])[1][0]

    with mx.stream(mx.cpu):
        want = np.array(pulled(mx.array(x), mx.array(v)))
    close(on_gpu(lambda x: pulled(x, mx.array(v)), x), want)
