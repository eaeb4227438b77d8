"""Convolutions over one, two or three axes.

    y[n, i, o] = bias[o] + sum_{k, c} weight[o, k, c] * x[n, stride * i + dilation * k - padding, c]

with i and k running over as many axes as there are in the name, and x zero outside of its range.
Channels are the last axis everywhere (LeCun et al., "Gradient-based learning applied to document
recognition", 1998; dilation: Yu & Koltun, "Multi-scale context aggregation by dilated
convolutions", 2015).
"""

import contextlib
import math
from operator import index

import mlx.core as mx

from .base import Module, _check_ints, _check_sizes


def _sizes(layer, name, value, ndim):
    """`value`, one int or one for each of `ndim` axes, as a tuple."""
    several = isinstance(value, (tuple, list)) or getattr(value, "ndim", 0) == 1
    sizes = ()
    if not several or len(value) == ndim:
        with contextlib.suppress(TypeError):
            sizes = tuple(index(n) for n in (value if several else (value,) * ndim))
    if len(sizes) != ndim:
        raise mx.ConversionError(f"[{type(layer).__name__}] expected an int or {ndim} ints for {name}, got {value!r}")
    return sizes


class _Convolution(Module):
    """What convolutions share: weights that start uniform in +-1 / sqrt(number of values that one
    output sums), and a bias that starts at 0.

    weight: (out_channels, *window, in_channels / groups), bias: (out_channels,).
    """

    def __init__(self, in_channels, out_channels, window, groups, bias):
        super().__init__()
        _check_ints(self, in_channels=in_channels, out_channels=out_channels, groups=groups)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise mx.Error(
                f"[{type(self).__name__}] expected groups to divide the channels, "
                f"got {groups} for {in_channels} and {out_channels}"
            )
        _check_sizes(self, in_channels=in_channels, kernel_size=min(window))
        channels = in_channels // groups
        bound = 1 / math.sqrt(channels * math.prod(window))
        self.weight = mx.random.uniform(-bound, bound, (out_channels, *window, channels))
        if bias:
            self.bias = mx.zeros((out_channels,))

    _shown = ("stride", "padding", "dilation", "groups")

    def _extra_repr(self):
        out_channels, *window, channels = self.weight.shape
        window = tuple(window) if len(window) > 1 else window[0]
        settings = "".join(f"{name}={getattr(self, name)}, " for name in self._shown if hasattr(self, name))
        return (
            f"{channels * getattr(self, 'groups', 1)}, {out_channels}, kernel_size={window}, "
            f"{settings}bias={'bias' in self}"
        )

    def _shifted(self, y):
        return y + self.bias if "bias" in self else y


class Conv1d(_Convolution):
    """Convolution of sequences, x: (N, L, in_channels), y: (N, L', out_channels) with

        L' = floor((L + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1

    With `groups`, each of as many groups of outputs sees its own group of inputs only; as many as
    there are channels make it a depthwise convolution.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, _sizes(self, "kernel_size", kernel_size, 1), groups, bias)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.groups = groups

    def __call__(self, x):
        return self._shifted(mx.conv1d(x, self.weight, self.stride, self.padding, self.dilation, self.groups))


class Conv2d(_Convolution):
    """Convolution of images, x: (N, H, W, in_channels), y: (N, H', W', out_channels).

    Sizes are as in `Conv1d`; kernel_size, stride, padding and dilation are one int or one for each
    axis.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        groups: int = 1,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, _sizes(self, "kernel_size", kernel_size, 2), groups, bias)
        self.stride = _sizes(self, "stride", stride, 2)
        self.padding = _sizes(self, "padding", padding, 2)
        self.dilation = dilation
        self.groups = groups

    def __call__(self, x):
        return self._shifted(mx.conv2d(x, self.weight, self.stride, self.padding, self.dilation, self.groups))


class Conv3d(_Convolution):
    """Convolution of volumes, x: (N, D, H, W, in_channels), y: (N, D', H', W', out_channels).

    Sizes are as in `Conv1d`; kernel_size, stride, padding and dilation are one int or one for each
    axis.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, _sizes(self, "kernel_size", kernel_size, 3), 1, bias)
        self.stride = _sizes(self, "stride", stride, 3)
        self.padding = _sizes(self, "padding", padding, 3)
        self.dilation = dilation

    def __call__(self, x):
        return self._shifted(mx.conv3d(x, self.weight, self.stride, self.padding, self.dilation))
