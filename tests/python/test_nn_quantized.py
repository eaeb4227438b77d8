"""Layers with packed weights, against the layers that they are made from."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

MODES = [("affine", 64, 4), ("affine", 32, 3), ("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)]


def left(w, group_size=None, bits=None, mode="affine"):
    """What packing leaves of w."""
    parts = mx.quantize(w, group_size, bits, mode)
    return mx.dequantize(*parts, group_size=group_size, bits=bits, mode=mode, dtype=mx.float32)


def close(a, b, tolerance=1e-5):
    assert a.shape == b.shape
    assert np.abs(np.array(a) - np.array(b)).max() <= tolerance * np.abs(np.array(b)).max()


@pytest.mark.parametrize("mode,group_size,bits", MODES)
@pytest.mark.parametrize("bias", [True, False])
def test_linear(mode, group_size, bits, bias):
    linear = nn.Linear(128, 24, bias=bias)
    layer = linear.to_quantized(group_size, bits, mode)
    assert isinstance(layer, nn.QuantizedLinear)
    x = mx.random.normal((2, 3, 128))
    want = x @ left(linear.weight, group_size, bits, mode).T
    close(layer(x), want + linear.bias if bias else want)
    names = {"weight", "scales"} | ({"bias"} if bias else set()) | ({"biases"} if mode == "affine" else set())
    assert set(layer.parameters()) == names
    assert set(layer.trainable_parameters()) == ({"bias"} if bias else set())
    close(
        mx.grad(lambda x: layer(x).sum())(x),
        mx.grad(lambda x: (x @ left(linear.weight, group_size, bits, mode).T).sum())(x),
    )
    fresh = nn.QuantizedLinear(128, 24, bias, group_size, bits, mode)
    assert fresh.trainable_parameters() == {}
    fresh.update(layer.parameters())
    assert mx.array_equal(fresh(x), layer(x))
    how = f"group_size={group_size}, bits={bits}, mode={mode}"
    text = f"QuantizedLinear(input_dims=128, output_dims=24, bias={bias}, {how})"
    assert repr(layer) == repr(fresh) == text


def test_linear_defaults():
    for mode, group_size, bits in (("affine", 64, 4), ("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)):
        layer = nn.QuantizedLinear(64, 8, mode=mode)
        assert (layer.group_size, layer.bits, layer.mode) == (group_size, bits, mode)
        assert layer(mx.zeros((2, 64))).shape == (2, 8)


@pytest.mark.parametrize("mode,group_size,bits", MODES)
def test_embedding(mode, group_size, bits):
    embedding = nn.Embedding(10, 64)
    layer = embedding.to_quantized(group_size, bits, mode)
    assert isinstance(layer, nn.QuantizedEmbedding)
    w = left(embedding.weight, group_size, bits, mode)
    for i in (mx.array([[1, 2], [9, 0]]), mx.array(3)):
        got = layer(i)
        assert got.dtype == (mx.float32 if mode == "affine" else mx.bfloat16)
        close(got.astype(mx.float32), w[i], 1e-6)
    x = mx.random.normal((3, 64))
    close(layer.as_linear(x), x @ w.T)
    assert layer.trainable_parameters() == {}
    assert repr(layer) == f"QuantizedEmbedding(10, 64, group_size={group_size}, bits={bits}, mode={mode})"
    assert nn.QuantizedEmbedding(10, 64, group_size, bits, mode)(mx.array([1])).shape == (1, 64)
    with pytest.raises(ValueError, match="quantize_input"):
        embedding.to_quantized(quantize_input=True)


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8"])
def test_both(mode):
    linear = nn.Linear(64, 8, bias=False)
    layer = linear.to_quantized(mode=mode, quantize_input=True)
    assert isinstance(layer, nn.QQLinear)
    x = mx.random.normal((5, 64))
    w = left(linear.weight, mode=mode)
    want = left(x, mode=mode) @ w.T
    close(layer(x), want)
    loss, grads = nn.value_and_grad(layer, lambda x: layer(x).sum())(x)
    close(grads["weight"], mx.broadcast_to(left(x, mode=mode).sum(axis=0), (8, 64)))
    layer.eval()
    assert layer.weight.dtype == mx.uint32 and set(layer.parameters()) == {"weight", "scales"}
    close(layer(x), want)
    assert "input_dims=64, output_dims=8" in repr(layer)
    layer.train()
    assert set(layer.parameters()) == {"weight"}
    close(layer.weight, w, 1e-6)
    close(layer(x), want)
    layer.quantize()
    layer.quantize()
    layer.dequantize()
    assert layer.weight.dtype == mx.float32
    for bad in (
        lambda: nn.QQLinear(64, 8, mode="affine"),
        lambda: linear.to_quantized(mode="mxfp4", quantize_input=True),
    ):
        with pytest.raises(ValueError, match="nvfp4"):
            bad()
    with pytest.raises(NotImplementedError, match="bias"):
        nn.Linear(64, 8).to_quantized(mode=mode, quantize_input=True)


def model():
    return nn.Sequential(nn.Embedding(64, 64), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))


def test_quantize_model():
    m = model()
    assert nn.quantize(m, 32, 8) is None
    kinds = [type(layer) for layer in m.layers]
    assert kinds == [nn.QuantizedEmbedding, nn.QuantizedLinear, nn.ReLU, nn.QuantizedLinear]
    assert m.layers[1].bits == 8 and m.layers[1].group_size == 32
    assert m(mx.array([1, 2])).shape == (2, 4)
    assert [name for name, _ in tree_flatten(m.trainable_parameters())] == ["layers.1.bias", "layers.3.bias"]


def test_quantize_some():
    m = model()
    nn.quantize(
        m,
        32,
        class_predicate=lambda path, layer: {"group_size": 32, "bits": 2} if path == "layers.1" else path == "layers.3",
    )
    kinds = [type(layer) for layer in m.layers]
    assert kinds == [nn.Embedding, nn.QuantizedLinear, nn.ReLU, nn.QuantizedLinear]
    assert m.layers[1].bits == 2 and m.layers[3].bits == 4
    with pytest.raises(ValueError, match="to_quantized.*layers.2.*ReLU"):
        nn.quantize(m, class_predicate=lambda path, layer: path == "layers.2")
    with pytest.raises(ValueError, match="bool or a dict.*str"):
        nn.quantize(model(), class_predicate=lambda path, layer: "yes")
    with pytest.raises(ValueError, match="group size 64"):
        nn.quantize(model())
    with pytest.raises(ValueError, match="mode"):
        nn.QuantizedLinear(64, 8, mode="int4")


def test_weights_in_files(tmp_path):
    m = model()
    nn.quantize(m, 32)
    m.save_weights(str(tmp_path / "m.safetensors"))
    other = model()
    nn.quantize(other, 32)
    other.load_weights(str(tmp_path / "m.safetensors"))
    i = mx.array([3, 4])
    assert mx.array_equal(m(i), other(i))


class Own(nn.Module):
    """A layer with a `to_quantized` of its own, which keeps what it was given."""

    def __init__(self):
        super().__init__()
        self.weight = mx.ones((4, 64))

    def to_quantized(self, **given):
        self.given = given
        return self


@pytest.mark.parametrize(
    "how, given",
    [
        ({}, {"group_size": None, "bits": None, "mode": "affine"}),
        ({"quantize_input": False}, {"group_size": None, "bits": None, "mode": "affine"}),
        ({"bits": 8, "mode": "mxfp8"}, {"group_size": None, "bits": 8, "mode": "mxfp8"}),
        (
            {"mode": "nvfp4", "quantize_input": True},
            {"group_size": None, "bits": None, "mode": "nvfp4", "quantize_input": True},
        ),
        ({"class_predicate": lambda path, m: {"bits": 3, "quantize_input": False}}, {"bits": 3}),
        ({"class_predicate": lambda path, m: {"quantize_input": True}}, {"quantize_input": True}),
        ({"class_predicate": lambda path, m: {"group_size": 32}, "bits": 8}, {"group_size": 32}),
    ],
)
def test_a_layers_own_way_gets_what_was_asked_for(how, given):
    layer = Own()
    nn.quantize(nn.Sequential(layer), **how)
    assert layer.given == given


@pytest.mark.parametrize("nothing", [False, None, {}])
def test_layers_that_a_predicate_leaves_alone(nothing):
    layers = nn.Sequential(Own(), nn.ReLU())
    nn.quantize(layers, class_predicate=lambda path, m: nothing)
    assert "given" not in layers.layers[0]


# How often the `mlx` package 0.32 draws from the random state to make each.
DRAWS = [
    ("nn.QuantizedLinear(64, 8)", 1),
    ("nn.QuantizedEmbedding(8, 64)", 1),
    ("nn.QQLinear(64, 8)", 1),
    ("nn.Linear(64, 8).to_quantized()", 3),
    ("nn.Linear(64, 8, bias=False).to_quantized(mode='mxfp4')", 2),
    ("nn.Linear(64, 8, bias=False).to_quantized(mode='mxfp8', quantize_input=True)", 2),
    ("nn.Embedding(5, 64).to_quantized()", 2),
    ("nn.quantize(nn.Sequential(nn.Linear(64, 8), nn.Embedding(5, 64), nn.ReLU()))", 5),
    ("nn.QuantizedAllToShardedLinear.from_quantized_linear(nn.QuantizedLinear(64, 8))", 2),
    ("nn.QuantizedShardedToAllLinear.from_quantized_linear(nn.QuantizedLinear(64, 8))", 2),
]


@pytest.mark.parametrize("text, times", DRAWS)
def test_random_numbers_after_quantizing(text, times):
    mx.random.seed(3)
    eval(text)
    got = mx.random.uniform(shape=(4,)).tolist()
    mx.random.seed(3)
    for _ in range(times):
        mx.random.uniform()
    assert got == mx.random.uniform(shape=(4,)).tolist()
