"""mlx.core.fft against NumPy and SciPy in float64; derivatives, vmap, short-time transforms."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from process import printed_by_threads
from scipy import signal

fft = mx.fft
RNG = np.random.default_rng(0)
COMPLEX = ["fft", "ifft", "fft2", "ifft2", "fftn", "ifftn"]
REAL = ["rfft", "rfft2", "rfftn"]
HALF = ["irfft", "irfft2", "irfftn"]


def random(*shape, real=False):
    x = RNG.normal(size=shape)
    return x.astype(np.float32) if real else (x + 1j * RNG.normal(size=shape)).astype(np.complex64)


def close(got, want, factor=1.0):
    """Errors of a float32 transform grow with the logarithm of its length, against its largest number."""
    got, scale = np.array(got), np.abs(want).max(initial=1e-30)
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= 1e-6 * factor * scale


LENGTHS = [
    *range(1, 70),
    97,
    100,
    127,
    128,
    144,
    210,
    256,
    257,
    331,
    360,
    509,
    1000,
    1009,
    1024,
    2187,
    4096,
    4099,
    5000,
]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("rows", [1, 5, 20])
def test_every_length(n, rows):
    x = random(rows, n)
    wide = x.astype(np.complex128)
    close(fft.fft(mx.array(x)), np.fft.fft(wide))
    close(fft.ifft(mx.array(x)), np.fft.ifft(wide))
    close(fft.rfft(mx.array(x.real)), np.fft.rfft(wide.real))
    half = x[:, : n // 2 + 1]
    close(fft.irfft(mx.array(half), n=n), np.fft.irfft(half.astype(np.complex128), n=n))


@pytest.mark.parametrize("n", [2**17, 3**10, 65537, 100003, 2**16 * 3, 31**3, 2 * 65537])
def test_long_sequences(n):
    x = random(2, n)
    close(fft.fft(mx.array(x)), np.fft.fft(x.astype(np.complex128)), 2)
    close(fft.ifft(mx.array(x)), np.fft.ifft(x.astype(np.complex128)), 2)
    close(fft.rfft(mx.array(x.real)), np.fft.rfft(x.real.astype(np.float64)), 2)
    y = mx.array(x).T
    close(fft.fft(y, axis=0), np.fft.fft(x.astype(np.complex128)).T, 2)


@given(st.data())
def test_axes_sizes_and_norms(data):
    draw = data.draw
    name = draw(st.sampled_from(COMPLEX + REAL + HALF))
    shape = tuple(draw(st.integers(1, 9)) for _ in range(draw(st.integers(2, 4))))
    norm = draw(st.sampled_from(["backward", "ortho", "forward"]))
    x = random(*shape, real=name in REAL)
    if name.endswith(("2", "n")):
        count = 2 if name.endswith("2") else draw(st.integers(1, len(shape)))
        axes = draw(st.permutations(range(-len(shape), 0)))[:count]
        s = [draw(st.integers(1, 10)) for _ in axes] if draw(st.booleans()) or name in HALF else None
        options = {"s": s, "axes": axes}
    else:
        options = {"axis": draw(st.integers(-len(shape), len(shape) - 1))}
        if draw(st.booleans()) or name in HALF:
            options["n"] = draw(st.integers(1, 20))
    got = getattr(fft, name)(mx.array(x), norm=norm, **options)
    want = getattr(np.fft, name)(x.astype(np.float64 if name in REAL else np.complex128), norm=norm, **options)
    assert got.dtype == (mx.float32 if name in HALF else mx.complex64)
    close(got, want)


def test_defaults():
    x = random(3, 4, 5)
    for name in COMPLEX + HALF:
        close(getattr(fft, name)(mx.array(x)), getattr(np.fft, name)(x.astype(np.complex128)))
    for name in REAL:
        close(getattr(fft, name)(mx.array(x.real)), getattr(np.fft, name)(x.real.astype(np.float64)))
    close(fft.fftn(mx.array(x), s=(2, 7)), np.fft.fftn(x.astype(np.complex128), s=(2, 7), axes=(1, 2)))
    close(fft.fft2(mx.array(x), axes=None), np.fft.fftn(x.astype(np.complex128)))
    close(fft.fftn(mx.array(x), axes=[]), x)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float64, mx.int32, mx.bool_, mx.uint8], ids=str)
def test_other_types(dtype):
    x = mx.array(RNG.integers(0, 2, (3, 8))).astype(dtype)
    wide = np.array(x.astype(mx.float64))
    assert fft.fft(x).dtype == fft.rfft(x).dtype == mx.complex64
    close(fft.fft(x), np.fft.fft(wide))
    close(fft.rfft(x), np.fft.rfft(wide))
    close(fft.irfft(x), np.fft.irfft(wide))


def test_layouts_and_empty_arrays():
    x = random(6, 5, 4)
    y = mx.array(x)
    close(fft.fft(y.T, axis=1), np.fft.fft(x.T, axis=1))
    close(fft.fft(y[::-2, :, 1:], axis=0), np.fft.fft(x[::-2, :, 1:], axis=0))
    close(fft.rfft(mx.broadcast_to(mx.array(3.0), (4, 6))), np.fft.rfft(np.full((4, 6), 3.0)))
    z = random(1 + 8).real.astype(np.float32)
    close(fft.rfft(mx.array(z)[1:]), np.fft.rfft(z[1:]))  # which begins at no complex number
    assert fft.fft(mx.zeros((0, 4))).shape == (0, 4)
    assert fft.rfft(mx.zeros((4, 0, 6))).shape == (4, 0, 4)


def both_ways(x, axis, n):
    """Complex, real and half sequences along that axis, n long."""
    wide, real, half = x.astype(np.complex128), x.real.astype(np.float64), np.take(x, range(n // 2 + 1), axis)
    close(fft.fft(mx.array(x), axis=axis), np.fft.fft(wide, axis=axis))
    close(fft.ifft(mx.array(x), axis=axis, norm="ortho"), np.fft.ifft(wide, axis=axis, norm="ortho"))
    close(fft.rfft(mx.array(x.real), axis=axis, norm="forward"), np.fft.rfft(real, axis=axis, norm="forward"))
    want = np.fft.irfft(half.astype(np.complex128), n, axis=axis, norm="forward")
    close(fft.irfft(mx.array(half), n, axis=axis, norm="forward"), want)


@pytest.mark.parametrize("first", range(1, 301, 20))
def test_sizes_up_to_300_along_each_axis(first):
    for n in range(first, first + 20):
        both_ways(random(3, n, 7), 1, n)  # lanes that are neighbours and lanes that are not
        both_ways(random(n, 16), 0, n)
        both_ways(random(9, n), 1, n)


@pytest.mark.parametrize("n", [6720, 8192, 10007, 2 * 5003, 4097, 31 * 29 * 23])
def test_long_sequences_in_batches(n):
    both_ways(random(5, n), 1, n)
    both_ways(random(n, 9), 0, n)
    both_ways(random(2, n, 3), 1, n)


@pytest.mark.parametrize("shape", [(3, 16, 17), (2, 30, 64), (2, 64, 63), (1, 100, 128)], ids=str)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_planes(shape, norm):
    x = random(*shape)
    close(fft.fft2(mx.array(x), norm=norm), np.fft.fft2(x.astype(np.complex128), norm=norm))
    close(fft.ifft2(mx.array(x), norm=norm), np.fft.ifft2(x.astype(np.complex128), norm=norm))
    close(fft.rfft2(mx.array(x.real), norm=norm), np.fft.rfft2(x.real.astype(np.float64), norm=norm))
    n = shape[-1]
    half = np.fft.rfft2(x.real).astype(np.complex64)
    want = np.fft.irfft2(half.astype(np.complex128), s=(shape[1], n), axes=(1, 2), norm=norm)
    close(fft.irfft2(mx.array(half), s=(shape[1], n), axes=(1, 2), norm=norm), want)


def test_operands_that_are_kept_stay_as_they_are():
    """A transform is written over an operand that nobody looks at again."""
    x = random(20, 60)
    for n in (60, 5003):
        a = mx.array(np.resize(x, (20, n)))
        before = np.array(a)
        y = fft.ifft(fft.fft(a))
        close(y, before, 4)
        assert np.array_equal(np.array(a), before)
        z = mx.array(before).T
        close(fft.fft(z, axis=0), np.fft.fft(before.astype(np.complex128)).T)
        assert np.array_equal(np.array(z), before.T)


def test_nan_stays_in_its_row():
    x = random(20, 255)
    x[7, 3] = np.nan
    for y in (fft.fft(mx.array(x)), fft.rfft(mx.array(x.real)), fft.irfft(mx.array(x), n=509)):
        assert np.isnan(np.array(y)).any(axis=1).nonzero()[0].tolist() == [7]


@pytest.mark.parametrize("rows", [40, 200])
def test_results_do_not_depend_on_the_batch(rows):
    """Among few rows and among many; columns, and long rows of many, are computed in another order."""
    for n in (1024, 315, 509, 8192, 6720):
        x = random(rows, n)
        for f, a in ((fft.fft, x), (fft.rfft, x.real), (fft.irfft, x)):
            with mx.stream(mx.cpu):  # on a GPU a library may do some of these
                whole = np.array(f(mx.array(a)))
                part = np.array(f(mx.array(a[8 : rows - 8])))
                across = np.array(f(mx.array(a).T, axis=0)).T
            assert np.array_equal(part[2], whole[10])
            assert np.abs(across - whole).max() <= 1e-6 * np.abs(whole).max()


BITS = """
import hashlib
import mlx.core as mx
h = hashlib.sha256()
shapes = (64, 256), (3, 6720), (40, 6720), (12, 9000), (12, 5003), (12, 10006), (70000,), (8209,)
for shape, axis in (*((s, -1) for s in shapes), ((5003, 9), 0)):
    x = mx.random.normal(shape, key=mx.random.key(0))
    for y in (mx.fft.fft(x, axis=axis), mx.fft.rfft(x, axis=axis), mx.fft.irfft(x, axis=axis)):
        h.update(bytes(memoryview(y)))
print(h.hexdigest())
"""


def test_bits_do_not_depend_on_threads():
    assert len(printed_by_threads(BITS)) == 1


def test_threads_share_plans():
    """Of more lengths than plans are kept of."""
    x = random(8, 600)

    def all_lengths(order):
        return {n: np.array(fft.fft(mx.array(x[:, :n]))) for n in order}

    lengths = list(range(500, 560))
    want = all_lengths(lengths)
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(all_lengths, [lengths[i:] + lengths[:i] for i in (0, 0, 20, 40)] * 2):
            assert all(np.array_equal(got[n], want[n]) for n in lengths)


FORK = """
import faulthandler
import os
import signal
import threading
import mlx.core as mx
mx.set_default_device(mx.cpu)
x = mx.random.normal((8, 600), key=mx.random.key(0))
def some():
    return [bytes(memoryview(mx.fft.fft(x[:, :n]))) for n in range(500, 530)]
want, done = some(), threading.Event()
def go_on():
    while not done.is_set():
        some()
other = threading.Thread(target=go_on, daemon=True)
other.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        faulthandler.register(signal.SIGALRM, chain=True)  # where it hangs, before it is ended
        signal.alarm(60)
        os._exit(some() != want)
    assert os.waitpid(child, 0)[1] == 0
done.set()
other.join()
"""


def test_children_of_a_fork_find_plans():
    """While another thread makes and frees some."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=400)


def test_frequencies_and_shifts():
    for n in (1, 2, 5, 8, 1001):
        for d in (1.0, 0.1, -3):
            np.testing.assert_array_equal(np.array(fft.fftfreq(n, d)), np.fft.fftfreq(n, d).astype(np.float32))
            np.testing.assert_array_equal(np.array(fft.rfftfreq(n, d)), np.fft.rfftfreq(n, d).astype(np.float32))
    x = np.arange(30).reshape(5, 6)
    for axes in (None, 0, 1, (0,), (1, 0), [], (1, 1), (0, 1, -1, 0, 0)):
        np.testing.assert_array_equal(np.array(fft.fftshift(mx.array(x), axes)), np.fft.fftshift(x, axes))
        np.testing.assert_array_equal(np.array(fft.ifftshift(mx.array(x), axes)), np.fft.ifftshift(x, axes))


def test_errors():
    x = mx.zeros((3, 4))
    for call in (
        lambda: fft.fft(x, n=0),
        lambda: fft.fft(x, axis=2),
        lambda: fft.fft(mx.array(1.0)),
        lambda: fft.fft(x, norm="none"),
        lambda: fft.fftn(x, axes=(0, 0)),
        lambda: fft.fftn(x, axes=(0, -2)),
        lambda: fft.fftn(x, s=(2, 3), axes=(0,)),
        lambda: fft.fftn(x, s=(2, -3)),
        lambda: fft.fftn(x, s=(2, 3, 4)),
        lambda: fft.fft(mx.zeros((3, 0))),
        lambda: fft.irfft(mx.zeros((3, 1))),
        lambda: fft.fftfreq(0),
        lambda: fft.rfftfreq(3, 0.0),
        lambda: fft.fftshift(x, axes=2),
        lambda: fft.stft(x, n_fft=8, center=False),
        lambda: fft.stft(x, n_fft=4, hop_length=0),
        lambda: fft.stft(x, n_fft=4, window=mx.ones(5)),
        lambda: fft.stft(x, n_fft=4, pad_mode="wrap"),
        lambda: fft.stft(x.astype(mx.complex64), n_fft=4, onesided=True),
        lambda: fft.istft(mx.zeros((3, 4), dtype=mx.complex64), n_fft=8),
        lambda: fft.istft(mx.zeros((3, 4), dtype=mx.complex64), length=-1),
    ):
        with pytest.raises((ValueError, IndexError)):
            call()


# ---- derivatives: a transform is linear, so that differences are exact


def inner(a, b):
    """The product whose gradients mx gives: real part and imaginary part count for themselves."""
    a, b = np.array(a).astype(np.complex128), np.array(b).astype(np.complex128)
    return (a.real * b.real + a.imag * b.imag).sum()


@pytest.mark.parametrize("shape", [(3, 4), (4, 5), (5, 1), (2, 17, 3)], ids=str)
@pytest.mark.parametrize("name", COMPLEX + REAL + HALF)
def test_derivatives(name, shape):
    def f(x):
        options = {"n": 6} if name == "irfft" else {"s": (3, 5)} if name in HALF else {}
        return getattr(fft, name)(x, **options)

    x, t = (mx.array(random(*shape, real=name in REAL)) for _ in range(2))
    (y,), (dy,) = mx.jvp(f, [x], [t])
    close(dy, np.array(f(t)).astype(np.complex128))
    ct = random(*y.shape, real=name in HALF)
    (dx,) = mx.vjp(f, [x], [mx.array(ct)])[1]
    assert dx.dtype == x.dtype
    assert abs(inner(dx, t) - inner(ct, dy)) < 1e-5 * (1 + abs(inner(ct, dy)) + np.sqrt(inner(ct, ct) * inner(dy, dy)))


def test_gradient_of_a_spectrum():
    x = random(2, 9, real=True)
    got = mx.grad(lambda x: mx.abs(fft.rfft(x)).square().sum())(mx.array(x))
    weight = np.where(np.arange(5) == 0, 1, 2)  # Parseval, but each number counted once
    half = np.fft.rfft(x.astype(np.float64))
    want = 2 * 9 * np.fft.irfft(half / weight, n=9)
    close(got, want, 4)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["fft", "ifft2", "rfft", "irfft", "rfftn"])
def test_vmap(name, axis):
    x = random(4, 5, 6, real=name in REAL)
    f = getattr(fft, name)
    rows = [np.array(f(mx.array(r))) for r in np.moveaxis(x, axis, 0)]
    close(mx.vmap(f, in_axes=axis)(mx.array(x)), np.stack(rows))


# ---- short-time transforms


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("options", [{}, {"hop_length": 10}, {"n_fft": 50, "hop_length": 7}, {"n_fft": 63}], ids=str)
def test_stft(center, options):
    options = {"n_fft": 64, **options}
    n, hop = options["n_fft"], options.get("hop_length", options["n_fft"] // 4)
    x, window = random(2, 3, 500, real=True), np.hanning(n + 1)[:-1].astype(np.float32)
    padded = np.pad(x, ((0, 0), (0, 0), (n // 2, n // 2)), mode="reflect") if center else x
    count = 1 + (padded.shape[-1] - n) // hop
    frames = np.stack([padded[..., i * hop : i * hop + n] for i in range(count)], -2).astype(np.float64)
    want = np.fft.rfft(frames * window).swapaxes(-1, -2)
    got = fft.stft(mx.array(x), window=mx.array(window), center=center, **options)
    close(got, want)
    both = fft.stft(mx.array(x), window=mx.array(window), center=center, onesided=False, **options)
    close(both, np.fft.fft(frames * window).swapaxes(-1, -2))


def test_stft_as_scipy_has_it():
    x, window = random(1000, real=True), signal.get_window("hann", 128)
    _, _, want = signal.stft(
        x.astype(np.float64), window=window, nperseg=128, noverlap=96, boundary="even", padded=False, scaling="spectrum"
    )
    got = fft.stft(mx.array(x), n_fft=128, hop_length=32, window=mx.array(window.astype(np.float32)))
    close(got, want * window.sum())


def test_windows_and_padding():
    x = random(300, real=True)
    short = np.zeros(64)
    short[12:52] = 1
    for got in (
        fft.stft(mx.array(x), n_fft=64, win_length=40),
        fft.stft(mx.array(x), n_fft=64, window=mx.ones(40)),
    ):
        close(got, np.array(fft.stft(mx.array(x), n_fft=64, window=mx.array(short.astype(np.float32)))))
    for mode in ("constant", "edge"):
        padded = np.pad(x, 32, mode=mode)
        want = fft.stft(mx.array(padded), n_fft=64, center=False)
        close(fft.stft(mx.array(x), n_fft=64, pad_mode=mode), np.array(want))


@pytest.mark.parametrize("n_fft", [64, 63])
def test_istft(n_fft):
    x, window = random(2, 500, real=True), mx.array(np.hanning(n_fft + 1)[:-1].astype(np.float32))
    for onesided in (True, False):
        s = fft.stft(mx.array(x), n_fft=n_fft, hop_length=16, window=window, onesided=onesided)
        options = {"n_fft": n_fft, "hop_length": 16, "window": window, "onesided": onesided}
        y = fft.istft(s, length=500, **options)
        assert y.dtype == mx.float32
        close(y, x, 4)
        assert fft.istft(s, **options).shape[-1] == 16 * (s.shape[-1] - 1) + n_fft - 2 * (n_fft // 2)
        longer = np.array(fft.istft(s, length=1000, **options))
        assert longer.shape == (2, 1000) and not longer[:, 600:].any()
    full = fft.stft(mx.array(x), n_fft=n_fft, hop_length=16, window=window, center=False)
    back = fft.istft(full, n_fft=n_fft, hop_length=16, window=window, center=False)
    close(np.array(back)[:, 20:400], x[:, 20:400], 40)
    ct = random(2, 500, real=True)
    slope = mx.grad(lambda x: (fft.istft(fft.stft(x, 64, window=mx.ones(64)), length=500) * mx.array(ct)).sum())(
        mx.array(x)
    )
    close(slope, ct, 10)  # of the identity


@pytest.mark.parametrize("n", [2, 4, 6, 16, 100, 256, 600, 2048, 1 << 14, 1 << 18])
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_large_numbers_of_an_even_length(n, rows):
    """Two of them beside each other are one complex number; the sums of such are past the largest."""
    if n == 1 << 18 and mx.default_device() == mx.gpu:
        pytest.skip("cuFFT has such lengths, and adds past the largest number")
    x = np.zeros((rows if n < 1 << 14 else 1, n), np.float32)
    x[:, n // 2] = 3e38
    x[:, n - 1] -= 2e37
    want = np.fft.rfft(x.astype(np.float64))
    np.testing.assert_allclose(np.array(mx.fft.rfft(mx.array(x))).astype(complex), want, atol=1e-5 * 3e38)
