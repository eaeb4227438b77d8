"""Fourier transforms on a GPU, beside PyTorch's (cuFFT) in the same run where it can be imported."""

import mlx.core as mx
from beside import bandwidth, begin, compare, torch

# name: shape, complex?, the transform by both names, how often the elements are moved at least
TRANSFORMS = {
    "rows of 8": ((2**23, 8), True, lambda f, x: f.fft(x), 2),
    "rows of 64": ((2**20, 64), True, lambda f, x: f.fft(x), 2),
    "rows of 1,024": ((2**16, 1024), True, lambda f, x: f.fft(x), 2),
    "rows of 1,000": ((2**16, 1000), True, lambda f, x: f.fft(x), 2),
    "rows of 4,096": ((2**14, 4096), True, lambda f, x: f.fft(x), 2),
    "rows of 8,192": ((2**13, 8192), True, lambda f, x: f.fft(x), 2),
    "rows of 16,384": ((2**12, 16384), True, lambda f, x: f.fft(x), 2),
    "real rows of 1,024": ((2**17, 1024), False, lambda f, x: f.rfft(x), 2),
    "back from real rows of 1,024": ((2**16, 513), True, lambda f, x: f.irfft(x), 2),
    "columns of 1,024": ((64, 1024, 1024), True, lambda f, x: f.fft(x, **axis(f, 1)), 2),
    "both axes of 64 x 1,024 x 1,024": ((64, 1024, 1024), True, lambda f, x: f.fft2(x), 4),
    "rows of 1,009 (prime)": ((2**15, 1009), True, lambda f, x: f.fft(x), 2),
    "4 rows of 2^20": ((4, 2**20), True, lambda f, x: f.fft(x), 4),
    "one row of 2^24": ((1, 2**24), True, lambda f, x: f.fft(x), 6),
    "one row of 3^15": ((1, 3**15), True, lambda f, x: f.fft(x), 6),
    "one row of 1,024": ((1, 1024), True, lambda f, x: f.fft(x), 2),
}


def axis(f, n):
    return {"axis": n} if f is mx.fft else {"dim": n}


def main():
    begin()
    limit = bandwidth() if torch else None
    for name, (shape, is_complex, f, moves) in TRANSFORMS.items():
        x = mx.random.normal((*shape, 2) if is_complex else shape)
        x = mx.view(x, mx.complex64).reshape(shape) if is_complex else x
        mx.eval(x)
        a = torch.randn(shape, device="cuda", dtype=torch.complex64 if is_complex else torch.float32) if torch else None
        kind, moved = str(x.dtype).split(".")[-1], moves * x.nbytes
        compare(name, kind, lambda f=f, x=x: f(mx.fft, x), lambda f=f, a=a: f(torch.fft, a), moved, limit)
        del a, x


main()
