"""Fourier transforms on a GPU: with cuFFT where it is found, by our kernels alone (in a process before), and PyTorch's
(cuFFT) where it can be imported; and errors of ours beside NumPy in double, as roots of the mean square, in units of
2^-23 of the numbers' own.

Words on the command line choose the transforms that have one of them in their names.
"""

import json
import os
import subprocess
import sys
import time

import mlx.core as mx
import numpy as np
from beside import bandwidth, begin, ours, theirs, torch


def along(f, n):
    return {"axis": n} if f in (mx.fft, np.fft) else {"dim": n}


# name: shape, complex?, the transform by all their names, how often the elements are moved at least
TRANSFORMS = {
    "rows of 8": ((2**23, 8), True, lambda f, x: f.fft(x), 2),
    "rows of 16": ((2**22, 16), True, lambda f, x: f.fft(x), 2),
    "rows of 32": ((2**21, 32), True, lambda f, x: f.fft(x), 2),
    "rows of 64": ((2**20, 64), True, lambda f, x: f.fft(x), 2),
    "rows of 60": ((2**20, 60), True, lambda f, x: f.fft(x), 2),
    "rows of 256": ((2**18, 256), True, lambda f, x: f.fft(x), 2),
    "rows of 1,024": ((2**16, 1024), True, lambda f, x: f.fft(x), 2),
    "rows of 1,000": ((2**16, 1000), True, lambda f, x: f.fft(x), 2),
    "rows of 1,009 (prime)": ((2**15, 1009), True, lambda f, x: f.fft(x), 2),
    "rows of 4,096": ((2**14, 4096), True, lambda f, x: f.fft(x), 2),
    "rows of 8,192": ((2**13, 8192), True, lambda f, x: f.fft(x), 2),
    "rows of 16,384": ((2**12, 16384), True, lambda f, x: f.fft(x), 2),
    "64 rows of 2^20": ((64, 2**20), True, lambda f, x: f.fft(x), 4),
    "4 rows of 2^20": ((4, 2**20), True, lambda f, x: f.fft(x), 4),
    "one row of 2^24": ((1, 2**24), True, lambda f, x: f.fft(x), 6),
    "one row of 3^15": ((1, 3**15), True, lambda f, x: f.fft(x), 6),
    "few: 1,024 rows of 1,024": ((1024, 1024), True, lambda f, x: f.fft(x), 2),
    "few: 256 rows of 1,024": ((256, 1024), True, lambda f, x: f.fft(x), 2),
    "few: 263 rows of 1,000": ((263, 1000), True, lambda f, x: f.fft(x), 2),
    "few: 260 rows of 1,009": ((260, 1009), True, lambda f, x: f.fft(x), 2),
    "few: 64 rows of 1,024": ((64, 1024), True, lambda f, x: f.fft(x), 2),
    "few: one row of 1,024": ((1, 1024), True, lambda f, x: f.fft(x), 2),
    "back: rows of 8": ((2**23, 8), True, lambda f, x: f.ifft(x), 2),
    "back: rows of 64": ((2**20, 64), True, lambda f, x: f.ifft(x), 2),
    "back: rows of 1,024": ((2**16, 1024), True, lambda f, x: f.ifft(x), 2),
    "back: rows of 1,000": ((2**16, 1000), True, lambda f, x: f.ifft(x), 2),
    "back: rows of 1,009": ((2**15, 1009), True, lambda f, x: f.ifft(x), 2),
    "back: rows of 16,384": ((2**12, 16384), True, lambda f, x: f.ifft(x), 2),
    "back: one row of 2^24": ((1, 2**24), True, lambda f, x: f.ifft(x), 6),
    "real: rows of 1,024": ((2**17, 1024), False, lambda f, x: f.rfft(x), 2),
    "real: rows of 1,000": ((2**17, 1000), False, lambda f, x: f.rfft(x), 2),
    "real: rows of 999": ((2**17, 999), False, lambda f, x: f.rfft(x), 2),
    "real: rows of 64": ((2**21, 64), False, lambda f, x: f.rfft(x), 2),
    "real: one row of 2^25": ((1, 2**25), False, lambda f, x: f.rfft(x), 6),
    "back to real: rows of 1,024": ((2**17, 513), True, lambda f, x: f.irfft(x), 2),
    "back to real: rows of 1,000": ((2**17, 501), True, lambda f, x: f.irfft(x), 2),
    "back to real: rows of 999": ((2**17, 500), True, lambda f, x: f.irfft(x, n=999), 2),
    "back to real: row of 2^25": ((1, 2**24 + 1), True, lambda f, x: f.irfft(x), 6),
    "columns of 1,024": ((64, 1024, 1024), True, lambda f, x: f.fft(x, **along(f, 1)), 2),
    "columns of 1,000": ((64, 1000, 1024), True, lambda f, x: f.fft(x, **along(f, 1)), 2),
    "columns of 1,009": ((32, 1009, 1024), True, lambda f, x: f.fft(x, **along(f, 1)), 2),
    "both axes of 512 x 512": ((256, 512, 512), True, lambda f, x: f.fft2(x), 4),
    "both axes of 1,024 x 1,024": ((64, 1024, 1024), True, lambda f, x: f.fft2(x), 4),
    "both axes of 512 x 512, back": ((256, 512, 512), True, lambda f, x: f.ifft2(x), 4),
    "both axes of 512 x 512, real": ((512, 512, 512), False, lambda f, x: f.rfft2(x), 4),
}
asked = [a for a in sys.argv[1:] if a != "--alone"]
CHOSEN = {k: v for k, v in TRANSFORMS.items() if not asked or any(a in k for a in asked)}


def numbers(shape, is_complex):
    x = mx.random.normal((*shape, 2) if is_complex else shape)
    x = mx.view(x, mx.complex64).reshape(shape) if is_complex else x
    mx.eval(x)
    return x


def error(f, x):
    """Of the first sequences."""
    few = 64 if x.shape[-1] < 2000 and x.ndim == 2 else 1
    y = np.array(f(mx.fft, x)[:few])
    want = f(np.fft, np.array(x[:few]).astype(np.float64 if x.dtype == mx.float32 else np.complex128))
    return float(np.sqrt(np.mean(np.abs(y - want) ** 2) / np.mean(np.abs(want) ** 2)) * 2**23)


def measured():
    """Seconds and errors of ours, in this process, one after the other."""
    for name, (shape, is_complex, f, moves) in CHOSEN.items():
        mx.random.seed(0)
        x = numbers(shape, is_complex)
        yield name, ours(lambda f=f, x=x: f(mx.fft, x)), error(f, x), moves * x.nbytes


def alone():
    """Without cuFFT."""
    command, env = [sys.executable, __file__, "--alone", *asked], os.environ | {"MLX_CUDA_LIBRARIES": "0"}
    return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)


def main():
    begin()
    by_kernels, limit = alone(), bandwidth() if torch else None
    x = numbers((2**19, 3), True)
    start = time.perf_counter()
    found = mx.cuda.libraries()["cufft"]
    mx.eval(mx.fft.fft(x))
    mx.synchronize()
    took = time.perf_counter() - start
    print(f"cuFFT {found['version']}, the first transform in {took * 1e3:.0f} ms" if found else "cuFFT is not found")
    for name, t, e, moved in measured():
        t0, e0 = by_kernels[name]
        line = f"{name:<29} {t * 1e3:7.3f} ms   by our kernels {t0 * 1e3:7.3f} ({t0 / t:4.2f}x)"
        if torch:
            shape, is_complex, f, _ = CHOSEN[name]
            a = torch.randn(shape, device="cuda", dtype=torch.complex64 if is_complex else torch.float32)
            u = theirs(lambda f=f, a=a: f(torch.fft, a))
            line += f"   PyTorch {u * 1e3:7.3f} ({u / t:4.2f}x)   {moved / t / limit:.2f} of the copy's bandwidth"
            del a
        print(f"{line}   errors {e:.2f}, by our kernels {e0:.2f}", flush=True)


if "--alone" in sys.argv:
    print(json.dumps({name: (t, e) for name, t, e, _ in measured()}))
else:
    main()
