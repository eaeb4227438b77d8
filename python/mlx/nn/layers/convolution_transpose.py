"""Transposed convolutions: the linear maps that carry gradients back through convolutions.

    y[n, stride * i + dilation * k - padding, o] += weight[o, k, c] * x[n, i, c]

summed over i, k and c, and the bias added. Each input value spreads a window of weights over the
output, so a stride of s makes the output about s times as long: a learned upsampling (Zeiler et al.,
"Deconvolutional networks", 2010). The weights have the layout of a convolution's.
"""

import mlx.core as mx

from .convolution import _Convolution, _sizes


class _Transposed(_Convolution):
    _shown = ("stride", "padding", "dilation", "output_padding")


class ConvTranspose1d(_Transposed):
    """Transposed convolution of sequences, x: (N, L, in_channels), y: (N, L', out_channels) with

        L' = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + 1 + output_padding

    `output_padding` chooses among the lengths that a convolution of this stride makes L of.
    weight: (out_channels, kernel_size, in_channels).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        output_padding: int = 0,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, _sizes(self, "kernel_size", kernel_size, 1), 1, bias)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.output_padding = output_padding

    def __call__(self, x):
        y = mx.conv_transpose1d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return self._shifted(y)


class ConvTranspose2d(_Transposed):
    """Transposed convolution of images, x: (N, H, W, in_channels), y: (N, H', W', out_channels).

    Sizes are as in `ConvTranspose1d`, each one int or one for each axis.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        output_padding: int | tuple = 0,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, _sizes(self, "kernel_size", kernel_size, 2), 1, bias)
        self.stride = _sizes(self, "stride", stride, 2)
        self.padding = _sizes(self, "padding", padding, 2)
        self.dilation = dilation
        self.output_padding = _sizes(self, "output_padding", output_padding, 2)

    def __call__(self, x):
        y = mx.conv_transpose2d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return self._shifted(y)


class ConvTranspose3d(_Transposed):
    """Transposed convolution of volumes, x: (N, D, H, W, in_channels), y: (N, D', H', W',
    out_channels).

    Sizes are as in `ConvTranspose1d`, each one int or one for each axis.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple,
        stride: int | tuple = 1,
        padding: int | tuple = 0,
        dilation: int | tuple = 1,
        output_padding: int | tuple = 0,
        bias: bool = True,
    ):
        super().__init__(in_channels, out_channels, _sizes(self, "kernel_size", kernel_size, 3), 1, bias)
        self.stride = _sizes(self, "stride", stride, 3)
        self.padding = _sizes(self, "padding", padding, 3)
        self.dilation = dilation
        self.output_padding = _sizes(self, "output_padding", output_padding, 3)

    def __call__(self, x):
        y = mx.conv_transpose3d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return self._shifted(y)
