"""Fourier transforms beside PyTorch's (MKL), SciPy's and NumPy's (pocketfft), each with as many threads as ours has.

`bench_fft.py [words of a row's name]`."""

import os
import sys

import mlx.core as mx
import numpy as np
from timing import best, row

try:
    import scipy.fft
except ImportError:
    scipy = None
try:
    import torch
except ImportError:
    torch = None

RNG = np.random.default_rng(0)
THREADS = int(os.environ.get("MLX_NUM_THREADS", len(os.sched_getaffinity(0))))


def numbers(*shape, real=False):
    x = RNG.standard_normal(shape, dtype=np.float32)
    return x if real else x + 1j * RNG.standard_normal(shape, dtype=np.float32)


def compare(name, *shape, axes=(-1,)):
    """The transform fft, ifft, rfft or irfft over those axes."""
    a = numbers(*shape, real=name == "rfft")
    f = name + "n"
    what = f"{name} {' x '.join(map(str, shape))}" + ("" if axes == (-1,) else f", axes {axes}")
    if any(word not in what for word in sys.argv[1:]):
        return
    x = mx.array(a)
    mx.eval(x)
    calls = {"ours": lambda: mx.eval(getattr(mx.fft, f)(x, axes=axes))}
    if torch:
        t = torch.from_numpy(a)
        calls["PyTorch"] = lambda: getattr(torch.fft, f)(t, dim=axes)
    if scipy:
        calls["SciPy"] = lambda: getattr(scipy.fft, f)(a, axes=axes, workers=THREADS)
    calls["NumPy"] = lambda: getattr(np.fft, f)(a, axes=axes)
    t = best(calls, seconds=float(os.environ.get("SECONDS_A_ROW", 0.7)), least=4, rest=0.002)
    row(what, t.pop("ours"), t)


LAST_TWO = (-2, -1)
if __name__ == "__main__":
    if torch:
        torch.set_num_threads(THREADS)
    # small ones, where the plan is felt
    compare("fft", 64)
    compare("fft", 1024)
    compare("rfft", 1024)
    compare("fft", 32, 256)
    # long ones
    compare("fft", 1 << 14)
    compare("fft", 1 << 17)
    compare("fft", 1 << 20)
    compare("rfft", 1 << 20)
    compare("fft", 3**10)
    # rows
    compare("fft", 4096, 256)
    compare("rfft", 4096, 256)
    compare("irfft", 4096, 129)
    compare("fft", 512, 1024)
    compare("fft", 512, 1000)
    compare("fft", 64, 4096)
    compare("fft", 32, 16384)
    # odd sizes and primes
    compare("fft", 6720)
    compare("fft", 64, 6720)
    compare("rfft", 64, 6720)
    compare("fft", 512, 729)
    compare("fft", 512, 1001)
    compare("rfft", 1024, 315)
    compare("fft", 10007)
    compare("fft", 16, 10007)
    compare("rfft", 16, 10007)
    compare("fft", 1024, 127)
    compare("fft", 256, 509)
    # other axes, several axes
    compare("fft", 1024, 256, axes=(0,))
    compare("rfft", 1024, 256, axes=(0,))
    compare("fft", 16384, 64, axes=(0,))
    compare("rfft", 256, 256, axes=LAST_TWO)
    compare("rfft", 16, 256, 256, axes=LAST_TWO)
    compare("irfft", 16, 256, 129, axes=LAST_TWO)
    compare("rfft", 16, 15, 128, axes=LAST_TWO)
    compare("fft", 512, 512, axes=LAST_TWO)
    compare("fft", 1000, 1000, axes=LAST_TWO)
    compare("rfft", 1024, 1024, axes=LAST_TWO)
    compare("fft", 2048, 2048, axes=LAST_TWO)
    compare("fft", 64, 64, 64, axes=(-3, -2, -1))
