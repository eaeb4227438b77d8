"""Fourier transforms: rows, long ones, odd sizes, primes, two and three axes."""

from .. import complexes, family

case = family("Fourier")


def transform(name, *shape, axes=(-1,)):
    """Over those axes; NumPy's are computed in double precision or by loops of its own."""
    of = " x ".join(map(str, shape)) + ("" if axes == (-1,) else f", axes {axes}")
    x = {"x": shape if name == "rfft" else complexes(*shape)}
    case(f"{name} {of}", x, f"xp.fft.{name}n(x, axes={axes})", torch=f"torch.fft.{name}n(x, dim={axes})",
         tolerance=1e-2)  # fmt: skip


LAST = (-2, -1)
transform("fft", 1024)
transform("fft", 1 << 17)
transform("fft", 1 << 20)
transform("rfft", 1 << 20)
transform("fft", 4096, 256)
transform("rfft", 4096, 256)
transform("fft", 512, 1000)
transform("fft", 64, 6720)
transform("rfft", 64, 6720)
transform("fft", 16, 10007)
transform("fft", 1024, 256, axes=(0,))
transform("rfft", 16, 256, 256, axes=LAST)
transform("irfft", 16, 256, 129, axes=LAST)
transform("fft", 512, 512, axes=LAST)
transform("fft", 1000, 1000, axes=LAST)
transform("fft", 2048, 2048, axes=LAST)
transform("fft", 64, 64, 64, axes=(-3, -2, -1))
