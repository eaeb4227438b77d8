"""Layers against their formulas in float64 NumPy."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from compare import close
from mlx.utils import tree_map


@pytest.fixture
def rng():
    mx.random.seed(7)
    return np.random.default_rng(7)


def array(rng, *shape, scale=1.0, shift=0.0):
    return (rng.normal(size=shape) * scale + shift).astype(np.float32)


def wide(x):
    return np.array(x).astype(np.float64)


# ------------------------------------------------------------------ linear


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(rng, shape, bias):
    layer = nn.Linear(4, 5, bias=bias)
    x = array(rng, *shape)
    want = wide(x) @ wide(layer.weight).T + (wide(layer.bias) if bias else 0)
    assert ("bias" in layer) == bias
    assert layer(mx.array(x)).shape == (*shape[:-1], 5)
    close(layer(mx.array(x)), want)


def test_linear_starts_uniform(rng):
    layer = nn.Linear(100, 400)
    assert layer.weight.shape == (400, 100) and layer.bias.shape == (400,)
    weight = wide(layer.weight)
    assert 0.099 < np.abs(weight).max() <= 0.1
    assert abs(weight.mean()) < 2e-3 and abs(weight.std() - 0.1 / 3**0.5) < 1e-3
    assert 0.09 < np.abs(wide(layer.bias)).max() <= 0.1


def test_linear_of_another_size(rng):
    with pytest.raises(ValueError):
        nn.Linear(4, 5)(mx.zeros((2, 3)))


@pytest.mark.parametrize("shape", [(), (6,), (2, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_bilinear(rng, shape, bias):
    layer = nn.Bilinear(3, 4, 5, bias=bias)
    x1, x2 = array(rng, *shape, 3), array(rng, *shape, 4)
    want = np.einsum("...i,kji,...j->...k", wide(x1), wide(layer.weight), wide(x2))
    close(layer(mx.array(x1), mx.array(x2)), want + (wide(layer.bias) if bias else 0))


def test_identity_and_sequential(rng):
    x = mx.array(array(rng, 2, 3))
    assert nn.Identity("any", thing=1)(x) is x
    first, last = nn.Linear(3, 4), nn.Linear(4, 2)
    model = nn.Sequential(first, nn.ReLU(), nn.tanh, last)
    close(model(x), wide(last(nn.tanh(nn.relu(first(x))))))
    assert nn.Sequential()(x) is x


# ------------------------------------------------------------------ embedding


def test_embedding(rng):
    layer = nn.Embedding(7, 4)
    numbers = np.array([[1, 6, 1], [0, 2, 3]], np.int32)
    assert layer(mx.array(numbers)).shape == (2, 3, 4)
    close(layer(mx.array(numbers)), wide(layer.weight)[numbers], rtol=0, atol=0)
    x = array(rng, 5, 4)
    close(layer.as_linear(mx.array(x)), wide(x) @ wide(layer.weight).T)
    assert repr(layer) == "Embedding(7, 4)"


def test_embedding_gradient_adds_up(rng):
    layer = nn.Embedding(4, 2)
    factors = mx.array([1.0, 2.0, 4.0])[:, None]
    _, grads = nn.value_and_grad(layer, lambda i: (layer(i) * factors).sum())(mx.array([1, 3, 1]))
    assert grads["weight"].tolist() == [[0, 0], [5, 5], [0, 0], [2, 2]]


def test_embedding_starts_normal(rng):
    weight = wide(nn.Embedding(500, 400).weight)
    assert abs(weight.std() - 0.05) < 1e-3 and abs(weight.mean()) < 1e-3
    assert np.abs(weight).max() > 0.18


# ------------------------------------------------------------------ dropout


def test_dropout(rng):
    layer = nn.Dropout(0.3)
    x = mx.array(array(rng, 200, 300, shift=5))
    y = wide(layer(x))
    kept = y != 0
    assert abs(kept.mean() - 0.7) < 0.01
    close(y[kept], (wide(x) / 0.7)[kept])
    assert not np.array_equal(kept, wide(layer(x)) != 0)
    layer.eval()
    assert layer(x) is x
    assert nn.Dropout(0)(x) is x
    assert repr(layer) == "Dropout(p=0.3)"


def test_dropout_gradient_and_dtype(rng):
    layer = nn.Dropout(0.5)
    x = mx.full((100,), 3.0)
    mx.random.seed(1)
    y = layer(x)
    mx.random.seed(1)
    grad = mx.grad(lambda x: layer(x).sum())(x)
    close(grad, wide(y) / 3)
    assert layer(x.astype(mx.float16)).dtype == mx.float16
    infinite = np.array(layer(mx.full((100,), mx.inf)))
    assert set(infinite.tolist()) == {0.0, np.inf}


@pytest.mark.parametrize(
    "layer, shape, places",
    [
        (nn.Dropout2d(0.4), (8, 5, 6, 16), (1, 2)),
        (nn.Dropout2d(0.4), (5, 6, 64), (0, 1)),
        (nn.Dropout3d(0.4), (8, 3, 4, 5, 16), (1, 2, 3)),
        (nn.Dropout3d(0.4), (3, 4, 5, 64), (0, 1, 2)),
    ],
)
def test_channel_dropout(rng, layer, shape, places):
    y = wide(layer(mx.ones(shape)))
    assert y.shape == shape
    least, most = y.min(axis=places), y.max(axis=places)
    assert np.array_equal(least, most), "a channel is kept or dropped as a whole"
    assert set(np.unique(most)) == {0.0, np.float32(1 / 0.6)}
    assert 0.3 < (most > 0).mean() < 0.9


def test_dropout_limits(rng):
    for p in (-0.1, 1.0, 2):
        with pytest.raises(ValueError, match=rf"\[Dropout\] expected p in \[0, 1\), got {p}"):
            nn.Dropout(p)
    with pytest.raises(ValueError, match=r"\[Dropout2d\] expected an array of 3 or 4 dim.*\(2, 3\)"):
        nn.Dropout2d(0.5)(mx.ones((2, 3)))


# ------------------------------------------------------------------ normalization


def normalized(x, axes, eps=1e-5):
    x = np.asarray(x, np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def with_random_affine(layer, rng):
    """Weight and bias away from 1 and 0, and the function they are in float64."""
    layer.update(tree_map(lambda a: mx.array(array(rng, *a.shape, shift=1)), layer.trainable_parameters()))
    weight = wide(layer.weight) if "weight" in layer else 1
    bias = wide(layer.bias) if "bias" in layer else 0
    return layer, lambda y: y * weight + bias


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"affine": False}, {"eps": 0.1}])
@pytest.mark.parametrize("shape", [(8,), (3, 8), (2, 3, 8)])
def test_layer_norm(rng, options, shape):
    layer, affine = with_random_affine(nn.LayerNorm(8, **options), rng)
    x = array(rng, *shape, scale=3, shift=2)
    close(layer(mx.array(x)), affine(normalized(x, -1, options.get("eps", 1e-5))))


@pytest.mark.parametrize("shape", [(8,), (2, 3, 8)])
def test_rms_norm(rng, shape):
    layer, affine = with_random_affine(nn.RMSNorm(8, eps=0.01), rng)
    x = array(rng, *shape, scale=3, shift=2)
    w = wide(x)
    close(layer(mx.array(x)), affine(w / np.sqrt((w**2).mean(-1, keepdims=True) + 0.01)))


def test_layer_norm_gradient(rng):
    layer, affine = with_random_affine(nn.LayerNorm(5), rng)
    x, ct = array(rng, 3, 5), array(rng, 3, 5)
    got = mx.grad(lambda x: (layer(x) * mx.array(ct)).sum())(mx.array(x))
    h, want = 1e-5, np.zeros((3, 5))
    for i in np.ndindex(3, 5):
        d = np.zeros((3, 5))
        d[i] = h
        up, down = (affine(normalized(wide(x) + s * d, -1)) for s in (1, -1))
        want[i] = ((up - down) * ct).sum() / (2 * h)
    close(got, want, rtol=1e-4, atol=1e-4)


def test_norms_keep_half_types_accurate(rng):
    x = array(rng, 4, 512, scale=20, shift=100).astype(np.float16)  # squares overflow float16
    for layer, want in [
        (nn.LayerNorm(512, affine=False), normalized(x, -1)),
        (nn.RMSNorm(512), wide(x) / np.sqrt((wide(x) ** 2).mean(-1, keepdims=True))),
    ]:
        layer.set_dtype(mx.float16)
        y = layer(mx.array(x))
        assert y.dtype == mx.float16
        close(y, want, rtol=2e-3, atol=2e-3)


def test_norm_of_another_size():
    for layer, name in [(nn.LayerNorm(4), "LayerNorm"), (nn.RMSNorm(4), "RMSNorm")]:
        with pytest.raises(ValueError, match=rf"\[{name}\] expected a last axis of size 4.*\(2, 3\)"):
            layer(mx.ones((2, 3)))


def test_instances_without_places():
    with pytest.raises(ValueError, match=r"\[InstanceNorm\] expected 3 or more dimensions.*\(2, 4\)"):
        nn.InstanceNorm(4)(mx.ones((2, 4)))


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(2, 7, 4), (2, 3, 5, 4)])
def test_instance_norm(rng, affine, shape):
    layer, scaled = with_random_affine(nn.InstanceNorm(4, affine=affine), rng)
    x = array(rng, *shape, scale=3, shift=2)
    close(layer(mx.array(x)), scaled(normalized(x, tuple(range(1, len(shape) - 1)))))


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize("shape", [(2, 6), (2, 5, 6), (2, 3, 4, 6)])
def test_group_norm(rng, neighbours, shape):
    layer, affine = with_random_affine(nn.GroupNorm(3, 6, pytorch_compatible=neighbours), rng)
    x = array(rng, *shape, scale=3, shift=2)
    want = np.zeros(shape)
    for n in range(shape[0]):
        for g in range(3):
            channels = [c for c in range(6) if (c // 2 if neighbours else c % 3) == g]
            want[n][..., channels] = normalized(x[n][..., channels], None)
    close(layer(mx.array(x)), affine(want))
    with pytest.raises(ValueError, match=r"\[GroupNorm\].*divide"):
        nn.GroupNorm(4, 6)
    with pytest.raises(ValueError, match=r"\[GroupNorm\] expected an array \(N, ..., 6\), got shape \(6,\)"):
        nn.GroupNorm(3, 6)(mx.zeros(6))


@pytest.mark.parametrize("shape", [(9, 3), (4, 5, 3), (2, 3, 4, 3)])
def test_batch_norm(rng, shape):
    layer, affine = with_random_affine(nn.BatchNorm(3, momentum=0.3), rng)
    axes = tuple(range(len(shape) - 1))
    n = np.prod(shape[:-1])
    mean, var = np.zeros(3), np.ones(3)
    for _ in range(3):
        x = array(rng, *shape, scale=3, shift=2)
        close(layer(mx.array(x)), affine(normalized(x, axes)))
        mean = 0.7 * mean + 0.3 * wide(x).mean(axes)
        var = 0.7 * var + 0.3 * wide(x).var(axes) * n / (n - 1)
    close(layer.running_mean, mean)
    close(layer.running_var, var)

    layer.eval()
    close(layer(mx.array(x)), affine((wide(x) - mean) / np.sqrt(var + 1e-5)))
    close(layer.running_mean, mean)


def test_batch_norm_goes_on_from_statistics_that_are_numbers():
    layer = nn.BatchNorm(2, momentum=0.5)
    layer.running_mean, layer.running_var = 1.0, 2.0
    layer(mx.array([[4.0, 2.0], [6.0, 4.0]]))
    close(layer.running_mean, [3, 2])
    close(layer.running_var, [2, 2])
    close(layer.parameters()["running_mean"], [3, 2])
    close(layer.eval()(mx.array([[3.0, 2.0]])), [[0, 0]])


@pytest.mark.parametrize(
    "weights, inputs, kept",
    [("float16", "float16", "float16"), ("float32", "bfloat16", "float32"), ("float16", "float32", "float32")],
)
def test_batch_norm_keeps_the_dtype_of_its_statistics(weights, inputs, kept):
    layer = nn.BatchNorm(3)
    layer.set_dtype(getattr(mx, weights))
    layer(mx.ones((4, 3), getattr(mx, inputs)))
    assert layer.running_mean.dtype == layer.running_var.dtype == getattr(mx, kept)


def test_batch_norm_without_tracking(rng):
    layer = nn.BatchNorm(3, track_running_stats=False, affine=False)
    assert layer.parameters() == {}
    x = array(rng, 5, 3)
    close(layer(mx.array(x)), normalized(x, 0))
    close(layer.eval()(mx.array(x)), normalized(x, 0))


def test_batch_norm_limits():
    with pytest.raises(ValueError, match="more than one value"):
        nn.BatchNorm(2)(mx.ones((1, 2)))
    with pytest.raises(ValueError, match=r"2, 3 or 4 dimensions.*\(2,\)"):
        nn.BatchNorm(2)(mx.ones(2))
    with pytest.raises(ValueError, match="last axis of size 2"):
        nn.BatchNorm(2)(mx.ones((4, 3)))


# ------------------------------------------------------------------ together


def test_a_network_learns():
    """Two intertwined classes, which no linear layer can part."""
    rng = np.random.default_rng(0)
    mx.random.seed(0)
    x = rng.uniform(-1, 1, (400, 2)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 2))
    x, y = mx.array(x), mx.array(y)

    def loss(x, y):
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    step = nn.value_and_grad(model, loss)
    first, _ = step(x, y)
    for _ in range(150):
        _, grads = step(x, y)
        model.update(tree_map(lambda p, g: p - 0.5 * g, model.parameters(), grads))
        mx.eval(model.parameters())
    last, _ = step(x, y)
    right = mx.mean(mx.argmax(model(x), axis=-1) == y).item()
    assert last.item() < 0.3 * first.item() and right > 0.93
