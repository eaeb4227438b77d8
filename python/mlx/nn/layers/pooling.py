"""Pooling: the maximum or the mean of each window.

    y[n, i, c] = max_k, or mean_k, of x[n, stride * i + k - padding, c]      k < kernel_size

over one, two or three axes, the channels last. Padding counts as the smallest value for the maximum
and as 0 for the mean. (LeCun et al., "Gradient-based learning applied to document recognition",
1998; Scherer et al., "Evaluation of pooling operations in convolutional architectures", 2010.)
"""

from functools import reduce
from operator import add

import mlx.core as mx

from .base import Module
from .convolution import _sizes
from .normalization import _wide


def _smallest(dtype):
    """The value that no value of this dtype is below."""
    if dtype == mx.bool_:
        return False
    return -mx.inf if mx.issubdtype(dtype, mx.floating) else mx.iinfo(dtype).min


# Windows up to this are a chain of slices, which takes only the windows there are; larger ones are made of windows of
# 1, 2, 4, ... at every place.
_CHAIN = 32


def _folded(x, fold, before, size, stride):
    """Windows of `size` along the axis behind the slices `before`, folded. The last one begins `size` before the end:
    no number of windows is needed."""
    if size <= _CHAIN:
        return reduce(fold, [x[(*before, slice(k, k - size + 1 or None, stride))] for k in range(size)])
    parts, begin, width = [], 0, 1
    while width <= size:
        if size & width:
            parts.append(x[(*before, slice(begin, begin + width - size or None, stride))])
            begin += width
        if 2 * width <= size:
            x = fold(x[(*before, slice(None, -width))], x[(*before, slice(width, None))])
        width *= 2
    return reduce(fold, parts)


class _Pool(Module):
    """What the layers share. A window is a box, so its maximum and its sum are taken along one axis
    after the other, and along one axis they are a chain of the slices x[k], x[k + stride], ..."""

    def __init__(self, ndim, kernel_size, stride, padding):
        super().__init__()
        self._kernel_size = _sizes(self, "kernel_size", kernel_size, ndim)
        self._stride = self._kernel_size if stride is None else _sizes(self, "stride", stride, ndim)
        self._padding = _sizes(self, "padding", padding, ndim)
        for name, least in (("kernel_size", 1), ("stride", 1), ("padding", 0)):
            if min(getattr(self, f"_{name}")) < least:
                raise mx.Error(
                    f"[{type(self).__name__}] expected {name} of at least {least}, got {getattr(self, f'_{name}')}"
                )

    def _extra_repr(self):
        return f"kernel_size={self._kernel_size}, stride={self._stride}, padding={self._padding}"

    def _windows(self, x, fold, padding_value):
        """The values of each window, folded by a function of two arrays."""
        if x.ndim != len(self._kernel_size) + 2:
            raise mx.Error(
                f"[{type(self).__name__}] expected an array of {len(self._kernel_size) + 2} dimensions "
                f"(N, ..., C), got shape {x.shape}"
            )
        for axis, (size, stride, padding) in enumerate(zip(self._kernel_size, self._stride, self._padding), 1):
            if padding:
                margins = [(padding, padding) if i == axis else (0, 0) for i in range(x.ndim)]
                x = mx.pad(x, margins, constant_values=padding_value)
            before = (slice(None),) * axis
            varies = mx._of_any_size(x)
            if varies and stride < size:  # an empty slice, which has to be within the array
                least = [size - stride if i == axis else 0 for i in range(x.ndim)]
                x = mx.depends(x, mx.slice(x, mx.array([0]), (axis,), least))
            room = size if varies else x.shape[axis]
            if room + stride < size:
                raise mx.Error(
                    f"[{type(self).__name__}] expected windows that fit, got one of {size} for axis {axis} of "
                    f"{room} with its padding"
                )
            if room < size:  # however large
                x = x[(*before, slice(0, 0))]
                continue
            x = _folded(x, fold, before, size, stride)
        return x


class _MaxPool(_Pool):
    def __call__(self, x):
        return self._windows(x, mx.maximum, _smallest(x.dtype))


class _AvgPool(_Pool):
    def __call__(self, x):
        count = reduce(lambda a, b: a * b, self._kernel_size)
        mean = self._windows(_wide(x), add, 0) / count
        return mean.astype(x.dtype) if mx.issubdtype(x.dtype, mx.floating) else mean


class MaxPool1d(_MaxPool):
    """The maximum of each window of sequences, x: (N, L, C), y: (N, L', C) with

        L' = floor((L + 2 * padding - kernel_size) / stride) + 1

    `stride` is `kernel_size` where it is not given. Where several values are the maximum, one of
    them receives the gradient.
    """

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ):
        super().__init__(1, kernel_size, stride, padding)


class AvgPool1d(_AvgPool):
    """The mean of each window of sequences, padding included; shapes as in `MaxPool1d`."""

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ):
        super().__init__(1, kernel_size, stride, padding)


class MaxPool2d(_MaxPool):
    """The maximum of each window of images, x: (N, H, W, C), y: (N, H', W', C), with sizes as in
    `MaxPool1d`, each one int or one for each axis."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ):
        super().__init__(2, kernel_size, stride, padding)


class AvgPool2d(_AvgPool):
    """The mean of each window of images, padding included; shapes as in `MaxPool2d`."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ):
        super().__init__(2, kernel_size, stride, padding)


class MaxPool3d(_MaxPool):
    """The maximum of each window of volumes, x: (N, D, H, W, C), y: (N, D', H', W', C), with sizes as
    in `MaxPool1d`, each one int or one for each axis."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ):
        super().__init__(3, kernel_size, stride, padding)


class AvgPool3d(_AvgPool):
    """The mean of each window of volumes, padding included; shapes as in `MaxPool3d`."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ):
        super().__init__(3, kernel_size, stride, padding)
