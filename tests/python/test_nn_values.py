"""Layers against PyTorch: values, and gradients with respect to parameters and inputs, which
data/layers_of_pytorch.py wrote down; the same gradients through compiled functions, and values through
vmap. Parameters have the names, shapes and dtypes that checkpoints of the `mlx` package have.
"""

import functools
import importlib.util
import json
import pathlib

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

DATA = pathlib.Path(__file__).parent / "data"


@functools.cache
def frozen():
    with np.load(DATA / "layers_of_pytorch.npz") as file:
        return dict(file)


def part(name, kind):
    """The arrays of one kind of a case: {key: array}."""
    prefix = f"{name}/{kind}/"
    return {k.removeprefix(prefix): v for k, v in frozen().items() if k.startswith(prefix)}


def with_relu(cls, *args, **how):
    return lambda: cls(*args, activation=nn.relu, **how)


LAYERS = {
    "conv1d": lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2),
    "conv2d": lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
    "conv3d": lambda: nn.Conv3d(2, 3, (2, 3, 2), stride=2, padding=1),
    "conv_transpose1d": lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, dilation=2, output_padding=1),
    "conv_transpose2d": lambda: nn.ConvTranspose2d(4, 3, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=1),
    "conv_transpose3d": lambda: nn.ConvTranspose3d(2, 3, (2, 3, 2), stride=2, padding=1),
    "max_pool1d": lambda: nn.MaxPool1d(3, 2, 1),
    "max_pool2d": lambda: nn.MaxPool2d((3, 2), (2, 1), (1, 0)),
    "max_pool3d": lambda: nn.MaxPool3d(2),
    "avg_pool1d": lambda: nn.AvgPool1d(3, 2, 1),
    "avg_pool2d": lambda: nn.AvgPool2d((3, 2), (2, 1), (1, 0)),
    "avg_pool3d": lambda: nn.AvgPool3d(2),
    "upsample_nearest": lambda: nn.Upsample((2, 3)),
    "upsample_linear1d": lambda: nn.Upsample(2.5, "linear"),
    "upsample_linear": lambda: nn.Upsample((1.5, 2), "linear"),
    "upsample_linear_corners": lambda: nn.Upsample((2.5, 2), "linear", align_corners=True),
    "upsample_linear_smaller": lambda: nn.Upsample(0.5, "linear", antialias=True),
    "upsample_linear_volume": lambda: nn.Upsample(2, "linear"),
    "upsample_cubic": lambda: nn.Upsample((1.5, 2), "cubic"),
    "upsample_cubic_corners": lambda: nn.Upsample((2.5, 2), "cubic", align_corners=True),
    "upsample_cubic_smaller": lambda: nn.Upsample(0.25, "cubic", antialias=True),
    "layer_norm": lambda: nn.LayerNorm(5),
    "rms_norm": lambda: nn.RMSNorm(5),
    "batch_norm": lambda: nn.BatchNorm(3, track_running_stats=False),
    "group_norm": lambda: nn.GroupNorm(2, 6, pytorch_compatible=True),
    "instance_norm": lambda: nn.InstanceNorm(3, affine=True),
    "linear": lambda: nn.Linear(4, 5),
    "bilinear": lambda: nn.Bilinear(3, 4, 5),
    "embedding": lambda: nn.Embedding(5, 3),
    "rnn": lambda: nn.RNN(3, 4),
    "gru": lambda: nn.GRU(3, 4),
    "lstm": lambda: nn.LSTM(3, 4),
    "attention": lambda: nn.MultiHeadAttention(6, 2, bias=True),
    "encoder_layer": with_relu(nn.TransformerEncoderLayer, 6, 2, 8),
    "encoder_layer_norm_last": lambda: nn.TransformerEncoderLayer(6, 2, 8, activation=nn.gelu, norm_first=False),
    "decoder_layer": with_relu(nn.TransformerDecoderLayer, 6, 2, 8),
    "decoder_layer_norm_last": with_relu(nn.TransformerDecoderLayer, 6, 2, 8, norm_first=False),
    "transformer": with_relu(nn.Transformer, 6, 2, 1, 2, 8),
}


def made(name):
    """The layer with PyTorch's parameters, and the inputs."""
    layer = LAYERS[name]()
    layer.load_weights([(k, mx.array(v)) for k, v in part(name, "p").items()])
    return layer, [mx.array(v) for v in part(name, "x").values()]


def tuple_of(y):
    return y if isinstance(y, tuple) else (y,)


def loss(y):
    """The number whose gradients are written down."""
    return sum((v * mx.cos(mx.arange(v.size)).reshape(v.shape)).sum() for v in tuple_of(y))


def close(got, want, what):
    scale = max(1, np.abs(want).max())
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5 * scale, err_msg=what)


def test_all_cases_are_here():
    assert {key.split("/")[0] for key in frozen()} == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_values(name):
    layer, inputs = made(name)
    for i, (got, want) in enumerate(zip(tuple_of(layer(*inputs)), part(name, "y").values(), strict=True)):
        close(got, want, f"result {i}")


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("how", [lambda f: f, mx.compile], ids=["eager", "compiled"])
def test_gradients(name, how):
    layer, inputs = made(name)
    floating = [i for i, x in enumerate(inputs) if mx.issubdtype(x.dtype, mx.floating)]

    def fn(parameters, *inputs):
        layer.update(parameters)
        return loss(layer(*inputs))

    before = layer.parameters()
    grads = how(mx.grad(fn, argnums=[0] + [i + 1 for i in floating]))(before, *inputs)
    grads = grads if floating else [grads]
    layer.update(before)
    for key, got in tree_flatten(grads[0]):
        close(got, frozen()[f"{name}/gp/{key}"], key)
    assert len(tree_flatten(grads[0])) == len(part(name, "p"))
    for i, got in zip(floating, grads[1:]):
        close(got, frozen()[f"{name}/gx/{i}"], f"input {i}")


@pytest.mark.parametrize("name", LAYERS)
def test_compiled(name):
    layer, inputs = made(name)
    compiled = mx.compile(lambda *inputs: tuple_of(layer(*inputs)))(*inputs)
    for i, (got, want) in enumerate(zip(compiled, part(name, "y").values(), strict=True)):
        close(got, want, f"result {i}")


@pytest.mark.parametrize("name", LAYERS)
def test_vmap(name):
    """Over a new axis in front: the input as it is, and doubled."""
    layer, (x, *others) = made(name)
    many = mx.stack([x, x * 2 if mx.issubdtype(x.dtype, mx.floating) else x])
    got = tuple_of(mx.vmap(lambda x: layer(x, *others))(many))
    for i in range(2):
        for one, want in zip(got, tuple_of(layer(many[i], *others))):
            close(one[i], np.array(want), name)


@pytest.mark.parametrize("name", ["conv2d", "lstm", "gru", "transformer", "upsample_cubic", "avg_pool2d"])
def test_half_types_stay(name):
    layer, inputs = made(name)
    layer.set_dtype(mx.float16)
    for got, want in zip(tuple_of(layer(*[x.astype(mx.float16) for x in inputs])), part(name, "y").values()):
        assert got.dtype == mx.float16
        np.testing.assert_allclose(np.array(got.astype(mx.float32)), want, atol=0.05 * np.abs(want).max())


# ------------------------------------------------------------------ parameters

PARAMETERS = json.loads((DATA / "parameters.json").read_text())


@functools.cache
def described():
    spec = importlib.util.spec_from_file_location("parameters_of_layers", DATA / "parameters.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert list(PARAMETERS) == module.LAYERS
    return module.described


@pytest.mark.parametrize("text", PARAMETERS)
def test_parameters(text):
    layer = eval(f"nn.{text}")
    assert described()(layer) == PARAMETERS[text]
    # They are trees that a file and an optimizer take.
    assert set(dict(tree_flatten(layer.parameters()))) == set(PARAMETERS[text])


def test_what_programs_read_off_layers():
    """Parameters that a layer does without are None where programs ask for them."""
    assert nn.Linear(32, 4).to_quantized(mode="mxfp4").biases is None
    embedding = nn.Embedding(5, 64).to_quantized(mode="mxfp8")
    assert (embedding.biases, embedding.num_embeddings, embedding.dims) == (None, 5, 64)
    assert nn.Embedding(5, 64).to_quantized().biases.shape == (5, 1)
    assert nn.RNN(3, 4, bias=False).bias is None and nn.LSTM(3, 4, bias=False).bias is None
    assert nn.GRU(3, 4, bias=False).b is None and nn.GRU(3, 4, bias=False).bhn is None
    part = nn.QuantizedAllToShardedLinear.from_quantized_linear(nn.Linear(32, 4).to_quantized(mode="mxfp4"))
    assert part.biases is None and part(mx.ones((2, 32))).shape == (2, 4)
