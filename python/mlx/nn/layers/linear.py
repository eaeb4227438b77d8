"""Layers that are linear in each of their inputs."""

from typing import Any

import mlx.core as mx

from .base import Module, _check_sizes
from .quantized import QQLinear, QuantizedLinear


class Identity(Module):
    """y = x. It takes any arguments, to stand in for any layer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: mx.array) -> mx.array:
        return x


class Linear(Module):
    """y = x W^T + b

    x: (..., input_dims), y: (..., output_dims), weight: (output_dims, input_dims), bias:
    (output_dims). Both start uniform in +-1 / sqrt(input_dims).
    """

    def __init__(self, input_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        _check_sizes(self, input_dims=input_dims)
        bound = input_dims**-0.5
        self.weight = mx.random.uniform(-bound, bound, (output_dims, input_dims))
        if bias:
            self.bias = mx.random.uniform(-bound, bound, (output_dims,))

    def _extra_repr(self):
        shape = self.weight.shape
        return f"input_dims={shape[-1]}, output_dims={shape[0]}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if "bias" in self:
            return mx.addmm(self["bias"], x, self["weight"].T)
        return x @ self["weight"].T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ):
        """A `QuantizedLinear` of this layer, or with `quantize_input`, in mode "nvfp4" or "mxfp8", a
        `QQLinear`."""
        if quantize_input:
            return QQLinear.from_linear(self, group_size, bits, mode)
        return QuantizedLinear.from_linear(self, group_size, bits, mode)


class Bilinear(Module):
    """y_k = x1^T W_k x2 + b_k

    x1: (..., input1_dims), x2: (..., input2_dims), y: (..., output_dims), weight: (output_dims,
    input2_dims, input1_dims), bias: (output_dims). Both start uniform in +-1 / sqrt(input1_dims).
    """

    def __init__(self, input1_dims: int, input2_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        _check_sizes(self, input1_dims=input1_dims)
        bound = input1_dims**-0.5
        self.weight = mx.random.uniform(-bound, bound, (output_dims, input2_dims, input1_dims))
        if bias:
            self.bias = mx.random.uniform(-bound, bound, (output_dims,))

    def _extra_repr(self):
        out, in2, in1 = self.weight.shape
        return f"input1_dims={in1}, input2_dims={in2}, output_dims={out}, bias={'bias' in self}"

    def __call__(self, x1: mx.array, x2: mx.array) -> mx.array:
        out, in2, in1 = self.weight.shape
        # W x1 for all k at once, as one product with a (out * in2, in1) matrix.
        wx1 = mx.unflatten(x1 @ self.weight.reshape(out * in2, in1).T, -1, (out, in2))
        y = (wx1 @ x2[..., None]).squeeze(-1)
        return y + self.bias if "bias" in self else y
