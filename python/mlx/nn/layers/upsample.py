"""Images made larger or smaller by interpolation.

Axes are treated one after the other. Along an axis of n values, result i of m = floor(scale * n)
lies at the place

    p_i = (i - (m - 1) / 2) / scale + (n - 1) / 2

so that both grids have the same middle; with `align_corners` at i * (n - 1) / (m - 1), so that both
have the same ends.
"""

import math
from typing import Literal

import mlx.core as mx

from .base import Module


def _check_scale(scale):
    if not math.isfinite(scale):
        raise mx.Error(f"[Upsample] expected a finite scale, got {scale}")


def _length(n, scale):
    m = int(scale * n)
    if m < 1:
        raise mx.Error(f"[Upsample] expected a scale that leaves something of {n} values, got {scale}")
    return m


def _places(n, scale, align_corners):
    """p_i, as a list of numbers."""
    m = _length(n, scale)
    if align_corners:
        return [i * (n - 1) / max(m - 1, 1) for i in range(m)]
    step = 1 / scale
    start = ((m - 1) * step - n + 1) / 2
    return [i * step - start for i in range(m)]


def _size(x, axis):
    """Of an axis whose places are computed here, in Python."""
    mx._of_any_size(x, "Upsample by what is no whole number, with align_corners or antialias")
    return x.shape[axis]


def _along_axes(x, scale_factor, resample):
    """`resample(x, axis, scale)` for each axis whose scale is not 1."""
    if x.ndim != len(scale_factor) + 2:
        raise mx.Error(
            f"[Upsample] expected an array (N, ..., C) with one axis in between for each of the scales "
            f"{tuple(scale_factor)}, got shape {x.shape}"
        )
    for axis, scale in enumerate(scale_factor, 1):
        _check_scale(scale)
        if scale != 1:
            x = resample(x, axis, scale)
    return x


def upsample_nearest(x: mx.array, scale_factor: tuple):
    """The value next to (i + 1/2) n / m - 1/2, of two as near the even one; where the axis gets shorter,
    the value number floor(i n / m). x: (N, ..., C)."""

    def resample(x, axis, scale):
        if scale == int(scale):
            return mx.repeat(x, int(scale), axis=axis)
        n = _size(x, axis)
        m = _length(n, scale)
        nearest = [i * n // m if scale < 1 else round(((2 * i + 1) * n / m - 1) / 2) for i in range(m)]
        return mx.take(x, mx.array(nearest), axis=axis)

    return _along_axes(x, scale_factor, resample)


def _interpolate(x, scale_factor, kernel, reach, align_corners, antialias):
    """y_i = sum_j kernel(p_i - j) x_j over the j within `reach` of p_i.

    Outside of its range x goes on with its first and last value. With `antialias` those j are left
    out and the weights divided by their sum, and where the scale is below 1 the kernel is stretched
    by 1 / scale, so that every x_j has its share.
    """
    if antialias and align_corners:
        raise mx.Error("[Upsample] expected antialias or align_corners, got both")

    def whole(x, axis, scale):
        """p_i for i = scale q + r is q plus what depends on r alone, so all results with the same r are one sum of
        pieces of x, whatever its length."""
        if not mx._of_any_size(x):
            _length(x.shape[axis], scale)
        dtype = x.dtype
        before = (slice(None),) * axis
        x = x.astype(mx.float64 if dtype == mx.float64 else mx.result_type(dtype, mx.float32))
        ends = [x[(*before, slice(0, 1))]] * reach, [x[(*before, slice(-1, None))]] * reach
        x = mx.concatenate([*ends[0], x, *ends[1]], axis=axis)
        phases = []
        for r in range(scale):
            p = (r - (scale - 1) / 2) / scale
            near = range(math.floor(p) - reach + 1, math.floor(p) + reach + 1)
            terms = [
                x[(*before, slice(reach + j, j - reach or None))] * kernel(p - j) for j in near if kernel(p - j) != 0
            ]
            phases.append(sum(terms[1:], terms[0]))
        y = mx.stack(phases, axis=axis + 1).flatten(axis, axis + 1)
        return y.astype(dtype) if mx.issubdtype(dtype, mx.inexact) else y

    def resample(x, axis, scale):
        if scale == int(scale) and scale > 0 and not align_corners and not antialias:
            return whole(x, axis, int(scale))
        n = _size(x, axis)
        stretch = max(1 / scale, 1) if antialias else 1
        taps = 2 * math.ceil(reach * stretch)
        indices, weights = [], []
        for p in _places(n, scale, align_corners):
            near = [math.floor(p) - taps // 2 + 1 + k for k in range(taps)]
            w = [kernel((p - j) / stretch) if 0 <= j < n or not antialias else 0.0 for j in near]
            indices.append([min(max(j, 0), n - 1) for j in near])
            weights.append([v / sum(w) for v in w] if antialias else w)
        shape = [len(weights) if i == axis else 1 for i in range(x.ndim)]
        weights = mx.array(weights, mx.float64 if x.dtype == mx.float64 else mx.float32)
        indices = mx.array(indices)
        y = sum(mx.take(x, indices[:, k], axis=axis) * weights[:, k].reshape(shape) for k in range(taps))
        return y.astype(x.dtype) if mx.issubdtype(x.dtype, mx.inexact) else y

    return _along_axes(x, scale_factor, resample)


def upsample_linear(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False):
    """Straight lines between the values: kernel(d) = max(1 - |d|, 0). x: (N, ..., C)."""

    def kernel(d):
        return max(1 - abs(d), 0.0)

    return _interpolate(x, scale_factor, kernel, 1, align_corners, antialias)


def upsample_cubic(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False):
    """Cubic splines through the values (Keys, "Cubic convolution interpolation for digital image
    processing", 1981): with d the distance and a = -0.75, or -0.5 with `antialias`,

        kernel(d) = (a + 2) d^3 - (a + 3) d^2 + 1        d <= 1
                    a d^3 - 5 a d^2 + 8 a d - 4 a        1 < d < 2

    x: (N, ..., C).
    """
    a = -0.5 if antialias else -0.75

    def kernel(d):
        d = abs(d)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0.0

    return _interpolate(x, scale_factor, kernel, 2, align_corners, antialias)


class Upsample(Module):
    """x: (N, ..., C) with each axis in between made `scale_factor` times as long, one number or one for
    each axis.

    `mode` is "nearest", "linear" (bilinear for images) or "cubic". With `align_corners` the first and
    last values keep their places; `antialias` is for making images smaller.
    """

    def __init__(
        self,
        scale_factor: float | tuple,
        mode: Literal["nearest", "linear", "cubic"] = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ):
        super().__init__()
        if mode not in ("nearest", "linear", "cubic"):
            raise mx.Error(f"[Upsample] expected the mode 'nearest', 'linear' or 'cubic', got {mode!r}")
        if isinstance(scale_factor, (list, tuple)):
            self.scale_factor = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor)
        for scale in self.scale_factor if isinstance(self.scale_factor, tuple) else (self.scale_factor,):
            _check_scale(scale)
        self.mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def _extra_repr(self):
        return f"scale_factor={self.scale_factor}, mode={self.mode!r}, align_corners={self.align_corners}" + (
            ", antialias=True" if self.antialias else ""
        )

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise mx.Error(f"[Upsample] expected an array (N, ..., C) of at least 3 dimensions, got shape {x.shape}")
        scales = self.scale_factor
        if not isinstance(scales, tuple):
            scales = (scales,) * (x.ndim - 2)
        if self.mode == "nearest":
            if self.antialias:
                raise mx.Error("[Upsample] expected no antialias with the mode 'nearest'")
            return upsample_nearest(x, scales)
        interpolate = upsample_linear if self.mode == "linear" else upsample_cubic
        return interpolate(x, scales, self.align_corners, self.antialias)
