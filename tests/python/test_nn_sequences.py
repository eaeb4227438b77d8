"""Layers for sequences, besides their values against PyTorch: positions against their formulas in
NumPy, masks, initial states, dropout, checkpoints, and what is refused."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from compare import close
from mlx.utils import tree_flatten, tree_map


@pytest.fixture
def rng():
    mx.random.seed(5)
    return np.random.default_rng(5)


def array(rng, *shape):
    return mx.array(rng.normal(size=shape).astype(np.float32))


def wide(x):
    return np.array(x).astype(np.float64)


# ------------------------------------------------------------------ positions


def rotated(x, dims, traditional, base, scale, offset):
    y = wide(x).copy()
    t = scale * (offset + np.arange(x.shape[-2]))[:, None]
    angles = t * base ** (-2 * np.arange(dims // 2) / dims)
    first, second = (
        (slice(0, dims, 2), slice(1, dims, 2)) if traditional else (slice(0, dims // 2), slice(dims // 2, dims))
    )
    a, b = wide(x)[..., first], wide(x)[..., second]
    y[..., first] = a * np.cos(angles) - b * np.sin(angles)
    y[..., second] = a * np.sin(angles) + b * np.cos(angles)
    return y


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("dims", [8, 6])
@pytest.mark.parametrize("offset", [0, 7])
def test_rope(rng, traditional, dims, offset):
    x = array(rng, 2, 3, 4, 8)
    layer = nn.RoPE(dims, traditional, base=100.0, scale=0.5)
    close(layer(x, offset=offset), rotated(x, dims, traditional, 100.0, 0.5, offset), atol=1e-4)


def test_rope_depends_on_distances(rng):
    """The product of a query and a key is the same wherever both are moved to."""
    layer, q, k = nn.RoPE(8), array(rng, 1, 1, 4, 8), array(rng, 1, 1, 4, 8)

    def scores(offset):
        return layer(q, offset) @ layer(k, offset).swapaxes(-1, -2)

    close(scores(0), wide(scores(100)), atol=1e-3)


@pytest.mark.parametrize("cos_first", [False, True])
@pytest.mark.parametrize("full_turns", [False, True])
@pytest.mark.parametrize("scale", [None, 0.0, 2.0])
@pytest.mark.parametrize("dims", [2, 12])
def test_sinusoidal_positions(rng, cos_first, full_turns, scale, dims):
    x = array(rng, 2, 3)
    layer = nn.SinusoidalPositionalEncoding(dims, 0.01, 3.0, scale, cos_first, full_turns)
    n = dims // 2
    angles = wide(x)[..., None] * 3.0 * (0.01 / 3.0) ** (np.arange(n) / max(n - 1, 1))
    angles *= 2 * np.pi if full_turns else 1
    halves = [np.sin(angles), np.cos(angles)]
    want = np.concatenate(halves[::-1] if cos_first else halves, axis=-1) * (
        (2 / dims) ** 0.5 if scale is None else scale
    )
    close(layer(x), want, atol=5e-5)
    assert not layer.parameters()


def test_sinusoidal_positions_come_in_pairs():
    for dims in (5, 0, -2):
        with pytest.raises(ValueError, match="positive and even"):
            nn.SinusoidalPositionalEncoding(dims)


SLOPES = {
    1: [2**-8],
    2: [2**-4, 2**-8],
    4: [2**-2, 2**-4, 2**-6, 2**-8],
    6: [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3],
}


@pytest.mark.parametrize("heads", SLOPES)
@pytest.mark.parametrize("offset", [0, 3])
def test_alibi(rng, heads, offset):
    scores, mask = array(rng, 2, heads, 3, 7), array(rng, 3, 7)
    slopes = np.array(SLOPES[heads])[:, None, None]
    np.testing.assert_array_equal(np.array(nn.ALiBi.create_alibi_slope(heads)), slopes)
    bias = -slopes * np.abs(offset + np.arange(3)[:, None] - np.arange(7))
    with pytest.raises(mx.Error, match=r"\[ALiBi\] expected scores of shape \(batch, heads, queries, keys\), got"):
        nn.ALiBi()(scores[0])
    with pytest.raises(mx.Error, match=r"\[ALiBi\] expected one head or more, got 0"):
        nn.ALiBi.create_alibi_slope(0)
    close(nn.ALiBi()(scores, offset), wide(scores) + bias)
    close(nn.ALiBi()(scores, offset, mask), wide(scores) + bias + wide(mask))
    close(nn.ALiBi.create_alibi_matrix(offset + 3, 7, heads, offset), bias[None])
    assert nn.ALiBi()(scores.astype(mx.float16)).dtype == mx.float16


# ------------------------------------------------------------------ attention


def test_masks(rng):
    layer, x = nn.MultiHeadAttention(8, 2), array(rng, 2, 5, 8)
    additive = nn.MultiHeadAttention.create_additive_causal_mask(5)
    want = wide(layer(x, x, x, additive))
    close(layer(x, x, x, additive == 0), want)
    close(layer(x, x, x, "causal"), want)
    close(layer(x, x, x, mx.broadcast_to(additive, (2, 2, 5, 5))), want)
    for i in range(5):  # what comes later makes no difference
        close(layer(x[:, : i + 1], x[:, : i + 1], x[:, : i + 1])[:, i], want[:, i])


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32])
def test_additive_causal_mask(dtype):
    mask = nn.MultiHeadAttention.create_additive_causal_mask(3, dtype)
    lowest = mx.finfo(dtype).min
    assert mask.dtype == dtype
    assert mask.tolist() == [[0, lowest, lowest], [0, 0, lowest], [0, 0, 0]]


def test_attention_of_other_sizes(rng):
    """By the formula, head by head."""
    layer = nn.MultiHeadAttention(6, 2, 3, 4, 5, 8, 7, bias=True)
    q, k, v = array(rng, 2, 3, 3), array(rng, 2, 4, 4), array(rng, 2, 4, 5)
    project = lambda p, x: wide(x) @ wide(p.weight).T + wide(p.bias)  # noqa: E731
    Q, K, V = project(layer.query_proj, q), project(layer.key_proj, k), project(layer.value_proj, v)
    heads = []
    for i in range(2):
        scores = Q[..., 3 * i : 3 * i + 3] @ K[..., 3 * i : 3 * i + 3].swapaxes(1, 2) / 3**0.5
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        heads.append(weights / weights.sum(-1, keepdims=True) @ V[..., 4 * i : 4 * i + 4])
    close(layer(q, k, v), project(layer.out_proj, np.concatenate(heads, -1)))


def test_attention_refuses(rng):
    with pytest.raises(ValueError, match="num_heads to divide"):
        nn.MultiHeadAttention(10, 3)
    with pytest.raises(ValueError, match="3 dimensions"):
        nn.MultiHeadAttention(4, 2)(mx.ones((3, 4)), mx.ones((3, 4)), mx.ones((3, 4)))


# ------------------------------------------------------------------ transformers


def test_encoder_and_decoder_are_their_layers(rng):
    x, memory = array(rng, 2, 3, 8), array(rng, 2, 4, 8)
    encoder, decoder = nn.TransformerEncoder(2, 8, 2), nn.TransformerDecoder(2, 8, 2)
    y = x
    for layer in encoder.layers:
        y = layer(y, None)
    close(encoder(x, None), wide(encoder.ln(y)))
    y = x
    for layer in decoder.layers:
        y = layer(y, memory, "causal", None)
    close(decoder(x, memory, "causal", None), wide(decoder.ln(y)))
    both = nn.Transformer(8, 2, custom_encoder=encoder, custom_decoder=decoder)
    close(both(memory, x, None, "causal", None), wide(decoder(x, encoder(memory, None), "causal", None)))


@pytest.mark.parametrize("make", [nn.TransformerEncoder, nn.TransformerDecoder])
def test_checkpoint_changes_no_gradient(rng, make):
    plain, less = make(2, 8, 2, 12), make(2, 8, 2, 12, checkpoint=True)
    less.update(plain.parameters())
    x = array(rng, 2, 3, 8)
    args = (x, None) if make is nn.TransformerEncoder else (x, array(rng, 2, 4, 8), "causal", None)
    want, want_grads = nn.value_and_grad(plain, lambda *a: (plain(*a) ** 3).sum())(*args)
    got, grads = nn.value_and_grad(less, lambda *a: (less(*a) ** 3).sum())(*args)
    close(got, wide(want), rtol=1e-4, atol=1e-5)
    for (name, g), (_, w) in zip(tree_flatten(grads), tree_flatten(want_grads), strict=True):
        np.testing.assert_allclose(np.array(g), wide(w), rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("make", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_dropout_acts_in_training_alone(rng, make):
    x = array(rng, 1, 3, 8)
    args = (x, None) if make is nn.TransformerEncoderLayer else (x, x, None, None)
    layer = make(8, 2, dropout=0.5)
    assert not mx.array_equal(layer(*args), layer(*args))
    layer.eval()
    np.testing.assert_array_equal(np.array(layer(*args)), np.array(layer(*args)))
    same = make(8, 2)
    same.update(layer.parameters())
    close(same(*args), wide(layer(*args)))


# ------------------------------------------------------------------ recurrent layers

RECURRENT = {
    "RNN": lambda: nn.RNN(3, 4),
    "RNN with relu": lambda: nn.RNN(3, 4, nonlinearity=nn.relu),
    "RNN without bias": lambda: nn.RNN(3, 4, bias=False),
    "GRU": lambda: nn.GRU(3, 4),
    "GRU without bias": lambda: nn.GRU(3, 4, bias=False),
    "LSTM": lambda: nn.LSTM(3, 4),
    "LSTM without bias": lambda: nn.LSTM(3, 4, bias=False),
}


def outputs(layer, *args):
    y = layer(*args)
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_states(rng, name):
    """A sequence in two parts, the second from the state that the first has left, is the whole; without a
    state it is 0; any number of axes, or none, may be in front."""
    layer, x = RECURRENT[name](), array(rng, 2, 3, 6, 3)
    whole = outputs(layer, x)
    first = outputs(layer, x[..., :4, :])
    second = outputs(layer, x[..., 4:, :], *[y[..., -1, :] for y in first])
    zero = outputs(layer, x, *[mx.zeros((2, 3, 4)) for _ in whole])
    for w, a, b, z in zip(whole, first, second, zero):
        assert w.shape == (2, 3, 6, 4)
        close(mx.concatenate([a, b], axis=-2), wide(w))
        close(z, wide(w))
    for w, one in zip(whole, outputs(layer, x[1, 2])):
        close(one, wide(w)[1, 2])


def test_rnn_by_its_formula(rng):
    layer, x = nn.RNN(3, 4, nonlinearity=nn.relu), array(rng, 5, 3)
    h = np.zeros(4)
    for t, got in enumerate(layer(x)):
        h = np.maximum(wide(layer.Wxh) @ wide(x)[t] + wide(layer.Whh) @ h + wide(layer.bias), 0)
        close(got, h)


def test_recurrent_layers_refuse():
    for layer in (nn.RNN(3, 4), nn.GRU(3, 4), nn.LSTM(3, 4)):
        name = type(layer).__name__
        with pytest.raises(ValueError, match=rf"\[{name}\] expected an array \(..., L, 3\), got shape \(5, 4\)"):
            layer(mx.zeros((5, 4)))
        with pytest.raises(ValueError, match="got shape"):
            layer(mx.zeros((3,)))
        with pytest.raises(ValueError, match="at least one step"):
            layer(mx.zeros((2, 0, 3)))
    with pytest.raises(ValueError, match="function"):
        nn.RNN(3, 4, nonlinearity=3)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers_start_uniform(name):
    layer = RECURRENT[name]()
    for _, p in tree_flatten(layer.parameters()):
        assert np.abs(np.array(p)).max() <= 0.5  # 1 / sqrt(4)
    bound = 1 / 10
    big = type(layer)(50, 100)
    for _, p in tree_flatten(big.parameters()):
        assert 0.9 * bound < np.abs(np.array(p)).max() <= bound


# ------------------------------------------------------------------ differences

STEP = 1e-2


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.GRU(3, 4),
        lambda: nn.LSTM(3, 4),
        lambda: nn.TransformerEncoder(1, 3, 1, 5, activation=nn.gelu),
        lambda: nn.MultiHeadAttention(3, 3, bias=True),
    ],
)
def test_gradients_are_differences(rng, make):
    """Along random directions of all parameters and of the input: f(p + h d) - f(p - h d) over 2 h."""
    layer, x = make(), array(rng, 2, 4, 3)

    def f(parameters, x):
        layer.update(parameters)
        if isinstance(layer, nn.MultiHeadAttention):
            return mx.sin(layer(x, x, x)).sum()
        if isinstance(layer, nn.TransformerEncoder):
            return mx.sin(layer(x, None)).sum()
        return sum(mx.sin(y).sum() for y in outputs(layer, x))

    p = layer.parameters()
    direction = tree_map(lambda a: array(rng, *a.shape) * 0.3, (p, x))
    grads = mx.grad(f, argnums=(0, 1))(p, x)
    slope = sum(
        (wide(g) * wide(d)).sum() for (_, g), (_, d) in zip(tree_flatten(grads), tree_flatten(direction), strict=True)
    )
    ends = [f(*tree_map(lambda a, d: a + sign * STEP * d, (p, x), direction)).item() for sign in (1, -1)]  # noqa: B023
    assert abs((ends[0] - ends[1]) / (2 * STEP) - slope) < 2e-2 * max(1, abs(slope))


def test_parts_without_parameters_are_parts():
    """A module without parameters is false, and still what was given."""
    model = nn.Transformer(8, 2, 1, 1, custom_encoder=nn.Identity(), custom_decoder=nn.Identity())
    assert isinstance(model.encoder, nn.Identity) and isinstance(model.decoder, nn.Identity)
    layer = nn.RNN(3, 4, nonlinearity=nn.ReLU())
    assert layer(mx.full((2, 3), -9.0)).min().item() == 0


def test_state_of_another_size_names_the_layer():
    x = mx.zeros((2, 5, 3))
    for layer in (nn.RNN(3, 4), nn.GRU(3, 4), nn.LSTM(3, 4)):
        name = type(layer).__name__
        for shape in ((3,), (7, 4), ()):
            with pytest.raises(ValueError, match=rf"\[{name}\] expected hidden of shape .*\(2, 4\).*, got"):
                layer(x, mx.zeros(shape))
        layer(x, mx.zeros((4,))), layer(x, mx.zeros((1, 4)))
    with pytest.raises(ValueError, match=r"\[LSTM\] expected cell of shape .*\(2, 4\).*, got"):
        nn.LSTM(3, 4)(x, mx.zeros(4), mx.zeros((2, 3)))
