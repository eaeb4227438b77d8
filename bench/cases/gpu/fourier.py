"""Fourier transforms of rows, columns and two axes, complex and real, of sizes of all kinds."""

from math import prod

from .. import complexes, family, large

case = family("Fourier")


# How often the numbers are moved is what passes through memory take, of which long ones and two axes have several.
def line(what, shape, code, moves=2, real=False, torch=None):
    n, shape = prod(shape), tuple(map(large, shape))
    case(what, {"x": shape if real else complexes(*shape)}, ours=f"mx.fft.{code}", torch=f"torch.fft.{torch or code}",
         moved=moves * n * (4 if real else 8), tolerance=1e-2)  # fmt: skip


for n in (8, 64, 256, 1000, 1009, 1024, 4096, 16384):
    line(f"rows of {n:,}", ((1 << 26) // n, n), "fft(x)")
line("4 rows of 2^20", (4, 1 << 20), "fft(x)", 4)
line("a row of 2^24", (1, 1 << 24), "fft(x)", 6)
line("a row of 3^15", (1, 3**15), "fft(x)", 6)
for count in (1, 64, 1024):
    line(f"rows of 1,024, {count:,} of them", (count, 1024), "fft(x)")
line("rows of 1,024 back", (1 << 16, 1024), "ifft(x)")
line("real rows of 1,024", (1 << 17, 1024), "rfft(x)", real=True)
line("real rows of 999", (1 << 17, 999), "rfft(x)", real=True)
line("back to real rows of 1,024", (1 << 17, 513), "irfft(x)")
line("columns of 1,024", (64, 1024, 1024), "fft(x, axis=1)", torch="fft(x, dim=1)")
line("columns of 1,009", (32, 1009, 1024), "fft(x, axis=1)", torch="fft(x, dim=1)")
line("512 x 512", (256, 512, 512), "fft2(x)", 4)
line("1,024 x 1,024", (64, 1024, 1024), "fft2(x)", 4)
line("real 512 x 512", (512, 512, 512), "rfft2(x)", 4, real=True)
