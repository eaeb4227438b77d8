"""Layers of sizes at the edge: those that mean nothing are refused by name, the others work."""

import math

import mlx.core as mx
import mlx.nn as nn
import pytest


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize(
    "layer, sizes, name",
    [
        ("Linear", lambda n: (n, 4), "input_dims"),
        ("Bilinear", lambda n: (n, 4, 3), "input1_dims"),
        ("QuantizedLinear", lambda n: (n, 64), "input_dims"),
        ("QQLinear", lambda n: (n, 64), "input_dims"),
        ("AllToShardedLinear", lambda n: (n, 4), "input_dims"),
        ("ShardedToAllLinear", lambda n: (n, 4), "input_dims"),
        ("QuantizedAllToShardedLinear", lambda n: (n, 64), "input_dims"),
        ("Conv1d", lambda n: (4, 4, n), "kernel_size"),
        ("Conv2d", lambda n: (4, 4, (3, n)), "kernel_size"),
        ("Conv3d", lambda n: (n, 4, 3), "in_channels"),
        ("ConvTranspose1d", lambda n: (n, 4, 3), "in_channels"),
        ("ConvTranspose2d", lambda n: (4, 4, n), "kernel_size"),
        ("ConvTranspose3d", lambda n: (4, 4, n), "kernel_size"),
        ("RNN", lambda n: (4, n), "hidden_size"),
        ("GRU", lambda n: (4, n), "hidden_size"),
        ("LSTM", lambda n: (4, n), "hidden_size"),
        ("Embedding", lambda n: (4, n), "dims"),
        ("QuantizedEmbedding", lambda n: (4, n), "dims"),
        ("MultiHeadAttention", lambda n: (n, 1), "dims"),
        ("GroupNorm", lambda n: (1, n), "dims"),
    ],
)
def test_sizes_that_mean_nothing(layer, sizes, name, size):
    with pytest.raises(ValueError, match=rf"\[{layer}\] expected {name} of at least 1, got {size}"):
        getattr(nn, layer)(*sizes(size))


@pytest.mark.parametrize(
    "make, shape, result",
    [
        (lambda: nn.Linear(4, 0), (2, 4), (2, 0)),
        (lambda: nn.Conv2d(4, 0, 3), (1, 5, 5, 4), (1, 3, 3, 0)),
        (lambda: nn.BatchNorm(0), (2, 0), (2, 0)),
        (lambda: nn.BatchNorm(0).eval(), (2, 3, 0), (2, 3, 0)),
        (lambda: nn.LayerNorm(0), (2, 0), (2, 0)),
        (lambda: nn.GRU(0, 4), (3, 0), (3, 4)),
    ],
)
def test_sizes_of_zero_that_mean_something(make, shape, result):
    y = make()(mx.ones(shape))
    mx.eval(y)
    assert y.shape == result


@pytest.mark.parametrize("scale", [math.nan, math.inf, (2.0, math.nan)])
def test_upsample_by_no_number(scale):
    with pytest.raises(ValueError, match=r"\[Upsample\] expected a finite scale, got (nan|inf)"):
        nn.Upsample(scale)
    scales = scale if isinstance(scale, tuple) else (scale, scale)
    for upsample in (nn.layers.upsample.upsample_nearest, nn.layers.upsample.upsample_linear):
        with pytest.raises(ValueError, match=r"\[Upsample\] expected a finite scale, got (nan|inf)"):
            upsample(mx.ones((1, 3, 3, 2)), scales)
