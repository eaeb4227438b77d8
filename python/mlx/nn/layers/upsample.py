"""Images made larger or smaller by interpolation.

Axes are treated one after the other, or all in one pass where that is one convolution (`_by_convolution`). Along an
axis of n values, result i of m = floor(scale * n) lies at the place

    p_i = (i - (m - 1) / 2) / scale + (n - 1) / 2

so that both grids have the same middle; with `align_corners` at i * (n - 1) / (m - 1), so that both
have the same ends.
"""

import functools
import itertools
import math
from array import array
from typing import Literal

import mlx.core as mx

from .base import Module

# The fewest channels, and the largest scale, that are worth a convolution.
_CHANNELS = 16
_FAR = 4
# Elements of the rows behind an axis that are long enough for a kernel call of their own.
_LONG = 512
# Places along an axis up to so many are kept for the next call.
_FEW = 1 << 14
# Whole scales up to this have an operation for each result of a value, larger ones for half of them.
_MANY = 64


def _check_scale(scale):
    if not math.isfinite(scale):
        raise mx.Error(f"[Upsample] expected a finite scale, got {scale}")


def _length(n, scale):
    m = int(scale * n)
    if m < 1:
        raise mx.Error(f"[Upsample] expected a scale that leaves something of {n} values, got {scale}")
    if m >= 1 << 31:
        raise mx.Error(
            f"[Upsample] expected fewer than 2^31 results along an axis, got {n} values and a scale of {scale}"
        )
    return m


def _count(m):
    """0, 1, ..., m - 1: what is computed of them is exact, on the device that has such numbers."""
    return mx.arange(m, dtype=mx.float64)


def _kept(kind, x):
    """The numbers of x where no trace looks for them."""
    numbers = array(kind)
    numbers.frombytes(memoryview(x).cast("B"))
    return numbers


def _of_places(f, m, *about):
    """f, which keeps what it returned before, of m places."""
    return (f if m <= _FEW else f.__wrapped__)(*about)


def _places(n, scale, align_corners):
    """p_i"""
    m = _length(n, scale)
    if align_corners:
        return _count(m) * (n - 1) / max(m - 1, 1)
    step = 1 / scale
    start = ((m - 1) * step - n + 1) / 2
    return _count(m) * step - start


def _size(x, axis):
    """Of an axis whose places are computed here, in Python."""
    mx._of_any_size(x, "Upsample by what is no whole number, with align_corners or antialias")
    return x.shape[axis]


def _check(x, scale_factor):
    if x.ndim != len(scale_factor) + 2:
        raise mx.Error(
            f"[Upsample] expected an array (N, ..., C) with one axis in between for each of the scales "
            f"{tuple(scale_factor)}, got shape {x.shape}"
        )
    for scale in scale_factor:
        _check_scale(scale)


def _is_empty(x):
    return not mx._of_any_size(x) and 0 in x.shape[1:-1]


def _nothing(x, scale_factor, dtype):
    """Of an image without values."""
    sizes = [int(n * s) for n, s in zip(x.shape[1:-1], scale_factor, strict=True)]
    return mx.zeros((x.shape[0], *sizes, x.shape[-1]), dtype)


def _along_axes(x, scale_factor, resample):
    """`resample(x, axis, scale)` for each axis whose scale is not 1: what makes x smaller first, and last the axes
    before others, along which whole rows of these are added."""
    for axis, scale in sorted(enumerate(scale_factor, 1), key=lambda a: (a[1], a[0] if a[1] < 1 else -a[0])):
        if scale != 1:
            x = resample(x, axis, scale)
    return x


@functools.lru_cache(64)
def _nearest(n, m, smaller):
    with mx.stream(mx.cpu):
        if smaller:
            return _kept("i", (mx.arange(m, dtype=mx.int64) * n // m).astype(mx.int32))
        return _kept("i", mx.round(((2 * _count(m) + 1) * n / m - 1) / 2).astype(mx.int32))


def upsample_nearest(x: mx.array, scale_factor: tuple):
    """The value next to (i + 1/2) n / m - 1/2, of two as near the even one; where the axis gets shorter,
    the value number floor(i n / m). x: (N, ..., C)."""

    def resample(x, axis, scale):
        if scale == int(scale):
            return mx.repeat(x, int(scale), axis=axis)
        n = _size(x, axis)
        m = _length(n, scale)
        return mx.take(x, mx.array(_of_places(_nearest, m, n, m, scale < 1)), axis=axis)

    _check(x, scale_factor)
    return _nothing(x, scale_factor, x.dtype) if _is_empty(x) else _along_axes(x, scale_factor, resample)


def _wider(x, axis, n):
    """x with n more of its first and of its last value along the axis."""
    before = (slice(None),) * axis
    first, last = x[(*before, slice(0, 1))], x[(*before, slice(-1, None))]
    return mx.concatenate([first] * n + [x] + [last] * n, axis=axis)


def _inwards(terms):
    """The sum, of the outermost terms first: the weights in the middle, which are positive, come to those that are not,
    and no sum on the way of equal values is larger than they are."""
    n = len(terms)
    first, *others = [terms[k] for k in sorted(range(n), key=lambda k: -abs(2 * k - n + 1))]
    return sum(others, first)


def _phases(scale, kernel, reach):
    """p_i for i = scale q + r is q plus what depends on r alone: for each r, the number of the first x_(q + j) that
    counts, from that of `_wider` on, and the weights."""
    phases = []
    for r in range(scale):
        p = (r - (scale - 1) / 2) / scale
        near = range(math.floor(p) - reach + 1, math.floor(p) + reach + 1)
        phases.append((reach + near[0], [kernel(p - j) for j in near]))
    return phases


def _by_phases(x, axis, phases, reach):
    """All results of a phase are one sum of pieces of x, whatever its length."""
    before = (slice(None),) * axis

    def phase(first, weights):
        terms = [x[(*before, slice(j, j - 2 * reach or None))] * w for j, w in enumerate(weights, first) if w != 0]
        return _inwards(terms)

    return mx.stack([phase(*p) for p in phases], axis=axis + 1).flatten(axis, axis + 1)


def _by_windows(x, axis, phases, reach):
    """The same in one pass that writes the result in its order, where the phases are an even number: the windows of
    the second half begin one value after those of the first, so that all k-th values of windows are a view of x."""
    tail, half = x.shape[axis + 1 :], len(phases) // 2
    size = math.prod(tail)
    row = size * x.shape[axis]
    shape = (math.prod(x.shape[:axis]), x.shape[axis] - 2 * reach, 2, half, size)

    @mx.custom_function
    def sums(x):
        terms = []
        for k in range(2 * reach):
            weights = mx.array([w[k] for _, w in phases], x.dtype).reshape(2, half, 1)
            terms.append(mx.as_strided(x, shape, (row, size, size, 0, 1), k * size) * weights)
        return _inwards(terms).reshape(*x.shape[:axis], -1, *tail)

    @sums.vjp
    def sums_back(x, dy, y):
        """What each x_i is multiplied with in the sums of q = i - 2 reach .. i, of which those outside are 0."""
        before, n = (slice(None),) * axis, x.shape[axis] - 2 * reach
        dy = dy.reshape(*x.shape[:axis], n, len(phases), *tail)
        dy = mx.pad(dy, [(0, 0)] * axis + [(2 * reach, 2 * reach)] + [(0, 0)] * (1 + len(tail)))
        terms = [
            dy[(*before, slice(2 * reach - j, 4 * reach - j + n), r)] * w
            for r, (first, weights) in enumerate(phases)
            for j, w in enumerate(weights, first)
            if w != 0
        ]
        return sum(terms[1:], terms[0])

    return sums(x)


@functools.lru_cache(64)
def _halves(scale, kernel, reach):
    """The weights of `_phases`, of the r whose p is below 0 and of those above, which begin one value later."""
    with mx.stream(mx.cpu):
        p = (_count(scale) - (scale - 1) / 2) / scale
        parts = p[: scale // 2], p[-(scale // 2) :]
        return [[_kept("d", kernel(part - j)) for j in range(h - reach, h + reach)] for h, part in enumerate(parts)]


def _by_halves(x, axis, scale, kernel, reach):
    """As `_by_phases`, for phases that are many. Where p is 0 the result is the value."""
    before, behind = (slice(None),) * axis, (1,) * (x.ndim - axis - 1)

    def half(h, weights):
        terms = [
            x[(*before, slice(j, j - 2 * reach or None), None)] * mx.array(w, x.dtype).reshape(-1, *behind)
            for j, w in enumerate(weights, h)
        ]
        return _inwards(terms)

    below, above = [half(*h) for h in enumerate(_of_places(_halves, scale, scale, kernel, reach))]
    middle = [x[(*before, slice(reach, -reach), None)]] * (scale % 2)
    return mx.concatenate([below, *middle, above], axis=axis + 1).flatten(axis, axis + 1)


@functools.lru_cache(64)
def _between(scales, kernel, reach):
    """The kernel at all distances of results from values: sizes along each axis, and numbers."""
    sides = [[kernel((t + 0.5) / s - reach) for t in range(2 * reach * s)] if s > 1 else [1.0] for s in scales]
    return tuple(map(len, sides)), array("d", map(math.prod, itertools.product(*sides)))


@functools.lru_cache(64)
def _inside(n, more, apart):
    """Where along an axis of n the values are that `_wider` makes of it, such of one being so far apart."""
    return array("i", [min(max(j, 0), n - 1) * apart for j in range(-more, n + more)])


def _by_convolution(x, scales, kernel, reach):
    """All axes in one pass, of even scales: a convolution of each channel, with the same weights, of the values with
    zeros between them, which nobody multiplies."""
    n, *lengths, channels = x.shape
    numbers, wider = mx.array(0, mx.int32), [n + 2 * reach * (s > 1) for n, s in zip(lengths, scales, strict=True)]
    for i, s in enumerate(scales):
        along = mx.array(_inside(lengths[i], reach * (s > 1), math.prod(lengths[i + 1 :])))
        numbers = numbers[..., None] + along
    x = mx.take(x.flatten(1, -2), numbers.flatten(), axis=1).reshape(n, *wider, channels)
    sizes, weights = _between(scales, kernel, reach)
    w = mx.broadcast_to(mx.array(weights, x.dtype).reshape(1, *sizes, 1), (channels, *sizes, 1))
    around = [s // 2 - 1 if s > 1 else 0 for s in scales]
    return mx.conv_general(x, w, padding=around, input_dilation=list(scales), groups=channels)


@functools.lru_cache(64)
def _taps(n, scale, kernel, reach, align_corners, antialias):
    """For the first, second, ... term of the sums: the numbers of the x_j and the weights."""
    stretch = max(1 / scale, 1) if antialias else 1
    taps = 2 * math.ceil(reach * stretch)
    with mx.stream(mx.cpu):
        p = _places(n, scale, align_corners)
        near = mx.floor(p) + (_count(taps) - (taps // 2 - 1)).reshape(-1, 1)
        w = kernel((p - near) / stretch)
        if antialias:
            w = w * ((near >= 0) & (near < n))
            w = w / w.sum(axis=0)
        at = mx.clip(near, 0, n - 1).astype(mx.int32)
        return [(_kept("i", j), _kept("d", v)) for j, v in zip(at, w, strict=True)]


def _interpolate(x, scale_factor, kernel, reach, align_corners, antialias):
    """y_i = sum_j kernel(p_i - j) x_j over the j within `reach` of p_i.

    Outside of its range x goes on with its first and last value. With `antialias` those j are left
    out and the weights divided by their sum, and where the scale is below 1 the kernel is stretched
    by 1 / scale, so that every x_j has its share.
    """
    if antialias and align_corners:
        raise mx.Error("[Upsample] expected antialias or align_corners, got both")

    def by_whole(scale):
        return scale == int(scale) and scale > 0 and not align_corners and not antialias

    def is_convolution(x):
        if not all(by_whole(s) and (s == 1 or s % 2 == 0) for s in scale_factor):
            return False
        fits = x.ndim <= 5 and x.dtype == mx.float32 and not mx._of_any_size(x)
        return fits and 1 < max(scale_factor) <= _FAR and 0 < x.size < 1 << 31 and x.shape[-1] >= _CHANNELS

    def wide(x, axis, scale):
        """Before x grows, since that adds a copy of it."""
        if not by_whole(scale):
            return x
        if not mx._of_any_size(x):
            _length(x.shape[axis], scale)
        return _wider(x, axis, reach)

    def resample(x, axis, scale):
        if by_whole(scale):
            if scale > _MANY:
                return _by_halves(x, axis, int(scale), kernel, reach)
            phases = _phases(int(scale), kernel, reach)
            windows = scale % 2 == 0 and not mx._of_any_size(x) and math.prod(x.shape[axis + 1 :]) >= _LONG
            return (_by_windows if windows else _by_phases)(x, axis, phases, reach)
        n = _size(x, axis)
        taps = _of_places(_taps, _length(n, scale), n, scale, kernel, reach, align_corners, antialias)
        weighed = x.dtype if x.dtype == mx.float64 else mx.float32
        behind = (1,) * (x.ndim - axis - 1)
        return _inwards(
            [mx.take(x, mx.array(j), axis=axis) * mx.array(w, weighed).reshape(-1, *behind) for j, w in taps]
        )

    _check(x, scale_factor)
    y, dtype = x, x.dtype if mx.issubdtype(x.dtype, mx.inexact) else mx.float32
    if _is_empty(x):
        return _nothing(x, scale_factor, dtype)
    if any(s != 1 for s in scale_factor) or dtype != x.dtype:
        y = x.astype(mx.float64 if x.dtype == mx.float64 else mx.result_type(x.dtype, mx.float32))
    if is_convolution(y):
        y = _by_convolution(y, tuple(map(int, scale_factor)), kernel, reach)
    else:
        y = _along_axes(_along_axes(y, scale_factor, wide), scale_factor, resample)
    return y.astype(dtype)


# Kernels are of numbers and of arrays of them.


def _line(d):
    d = abs(d)
    return (1 - d) * (d < 1)


@functools.cache
def _spline(a):
    def kernel(d):
        d = abs(d)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = a * (((d - 5) * d + 8) * d - 4)
        return near * (d <= 1) + far * ((d > 1) & (d < 2))

    return kernel


def upsample_linear(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False):
    """Straight lines between the values: kernel(d) = max(1 - |d|, 0). x: (N, ..., C)."""
    return _interpolate(x, scale_factor, _line, 1, align_corners, antialias)


def upsample_cubic(x: mx.array, scale_factor: tuple, align_corners: bool = False, antialias: bool = False):
    """Cubic splines through the values (Keys, "Cubic convolution interpolation for digital image
    processing", 1981): with d the distance and a = -0.75, or -0.5 with `antialias`,

        kernel(d) = (a + 2) d^3 - (a + 3) d^2 + 1        d <= 1
                    a d^3 - 5 a d^2 + 8 a d - 4 a        1 < d < 2

    x: (N, ..., C).
    """
    return _interpolate(x, scale_factor, _spline(-0.5 if antialias else -0.75), 2, align_corners, antialias)


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
