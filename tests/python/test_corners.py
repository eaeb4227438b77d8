"""Values and derivatives where formulas have corners: at zero, of nothing, of integers, in the widest dtype."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

FLOATS = [mx.float16, mx.bfloat16, mx.float32, mx.float64]
HALVES = FLOATS[:2]


def wide(x):
    return np.array(x.astype(mx.float64, stream=mx.cpu))


@pytest.fixture(autouse=True)
def on_the_cpu():
    with mx.stream(mx.cpu):
        yield


# ---- at zero: derivatives are 0, as PyTorch's are


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_std_of_equal_numbers(dtype):
    x = mx.array([[3, 3, 3], [1, 2, 4]], dtype)
    slope = mx.grad(lambda x: mx.std(x, axis=1).sum())(x)
    v = np.array([1, 2, 4])
    np.testing.assert_allclose(wide(slope), [[0, 0, 0], (v - v.mean()) / (3 * v.std())], rtol=0.02, atol=1e-6)
    assert mx.grad(lambda x: mx.std(x, ddof=1))(x[0]).tolist() == [0, 0, 0]
    assert mx.jvp(lambda x: mx.std(x), [x[0]], [x[1]])[1][0].item() == 0
    assert mx.std(x[0]).item() == 0 and np.isnan(mx.std(mx.array([mx.nan, 1], dtype)).item())


@pytest.mark.parametrize("ord", [None, 0, 1, 2, 3, 1.5, 0.5, -1, -2, mx.inf, -mx.inf])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_vector_norms_of_zero(ord, dtype):
    x = mx.array([[0, 0], [0, 2]], dtype)

    def f(x):
        return mx.linalg.norm(x, ord=ord, axis=1)

    got = f(x)
    want = [0, 2 if ord is None or ord > 0 else ord == 0]  # a negative power of 0 is infinite
    np.testing.assert_allclose(wide(got), want, rtol=1e-6)
    slope = wide(mx.grad(lambda x: f(x).sum())(x))
    assert slope[0].tolist() == [0, 0] and slope[1, 0] == 0
    np.testing.assert_allclose(slope[1, 1], ord is None or ord > 0, rtol=1e-6)
    assert mx.grad(lambda x: mx.linalg.norm(x))(mx.zeros((2, 3), dtype)).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("ord", [3, 1.5, 0.5, -1])
def test_vector_norms_elsewhere(ord):
    x = np.array([0.5, -2, 3])
    n = (abs(x) ** ord).sum()
    got, slope = mx.value_and_grad(lambda x: mx.linalg.norm(x, ord=ord))(mx.array(x, mx.float64))
    np.testing.assert_allclose(got.item(), n ** (1 / ord), rtol=1e-14)
    np.testing.assert_allclose(np.array(slope), n ** (1 / ord - 1) * abs(x) ** (ord - 1) * np.sign(x), rtol=1e-14)


def test_cosine_similarity_of_what_broadcasts():
    a, b = np.array([[1.0, 2, 3], [0.5, -1, 0]]), np.array([[2.0], [-0.5]])
    for x, y in ((a, b), (a, a[:1]), (b, a), (a[0][None], a)):
        u, v = np.broadcast_arrays(x, y)
        want = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
        got = nn.losses.cosine_similarity_loss(mx.array(x, mx.float64), mx.array(y, mx.float64))
        np.testing.assert_allclose(np.array(got), want, rtol=1e-14)


# ---- numbers of float64 arrays are float64


def test_float64_parameters():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, 2, 3, 4))
    X = mx.array(x, mx.float64)

    def close(got, want):
        assert got.dtype == mx.float64
        np.testing.assert_allclose(np.array(got), want, rtol=1e-13, atol=1e-14)

    centred = x - x.mean(-1, keepdims=True)
    close(mx.fast.layer_norm(X, None, None, 0.1), centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.1))
    close(mx.fast.rms_norm(X, None, 0.1), x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.1))
    s = np.exp(0.1 * x @ x.swapaxes(-1, -2))
    close(mx.fast.scaled_dot_product_attention(X, X, X, scale=0.1), s / s.sum(-1, keepdims=True) @ x)
    angle = 0.1 * np.arange(3)[:, None] * 1000.3 ** np.array([0, -0.5])
    a, b, c, d = x[..., :2], x[..., 2:], np.cos(angle), np.sin(angle)
    got = mx.fast.rope(X, 4, traditional=False, base=1000.3, scale=0.1, offset=0)
    close(got, np.concatenate([a * c - b * d, a * d + b * c], -1))
    line = np.array([1.0, 2.5, 7]) / 3
    p = np.clip((np.arange(9) - 4) / 3 + 1, 0, 2)
    got = nn.Upsample(3, "linear")(mx.array(line, mx.float64).reshape(1, 3, 1))
    close(got.reshape(-1), np.interp(p, range(3), line))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_upsample_keeps_dtypes(mode):
    x = np.random.default_rng(1).normal(size=(1, 4, 3, 2))
    for dtype in [*FLOATS, mx.complex64]:
        X = mx.array(x.astype(np.float32)).astype(dtype)
        y = nn.Upsample((1.5, 2), mode)(X)
        assert y.dtype == dtype
        if dtype in HALVES:
            want = wide(nn.Upsample((1.5, 2), mode)(X.astype(mx.float32)))
            eps = 2**-10 if dtype == mx.float16 else 2**-7
            np.testing.assert_allclose(wide(y), want, rtol=eps, atol=eps / 4)


# ---- rounding


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_round_to_decimals(dtype):
    x = mx.array([1.235, 2.675, 0.125, -2.5, 60000, 123.45, 1e-3, -0.0, mx.inf, -mx.inf, mx.nan], dtype)
    for decimals in (1, 2, 3, -1, -2):
        # As NumPy, which multiplies in the dtype; half types as if they were wider.
        given = np.array(x) if dtype == mx.float32 else wide(x)
        want = mx.array(np.round(given, decimals).astype(np.float64), dtype)
        got = mx.round(x, decimals)
        assert got.dtype == dtype
        np.testing.assert_array_equal(wide(got), wide(want))


def test_round_of_numbers_without_decimals():
    for dtype, x in ((mx.float16, 60000), (mx.bfloat16, 3e38), (mx.float32, 3e38), (mx.float64, 1e308)):
        x = mx.array([x, -x], dtype)
        assert mx.round(x, 3).tolist() == x.tolist()


# ---- of nothing


@pytest.mark.parametrize("shape", [(0, 4), (0, 3, 4), (2, 0, 4), (0, 0, 4), (0, 2, 3, 4)])
def test_norms_of_nothing(shape):
    layers = [nn.GroupNorm(2, 4), nn.GroupNorm(2, 4, pytorch_compatible=True), nn.LayerNorm(4), nn.RMSNorm(4)]
    for layer in layers + [nn.InstanceNorm(4, affine=True)] * (len(shape) > 2):
        x = mx.zeros(shape)
        assert layer(x).shape == shape
        assert mx.grad(lambda x, f=layer: f(x).sum())(x).shape == shape
        assert nn.value_and_grad(layer, lambda x, f=layer: f(x).sum())(x)[1]["weight"].tolist() == [0] * 4


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 2, 2)])
def test_derivatives_of_eigenvectors_of_nothing(shape):
    x = mx.zeros(shape)
    values, vectors = mx.zeros(shape[:-1], mx.complex64), mx.zeros(shape, mx.complex64)
    assert mx.vjp(mx.linalg.eig, [x], [values, vectors])[1][0].shape == shape
    assert [y.shape for y in mx.jvp(mx.linalg.eig, [x], [x])[1]] == [shape[:-1], shape]


BATCHES = {
    "rope": (lambda x: mx.fast.rope(x, 4, traditional=False, base=1e4, scale=1.0, offset=2), [(3, 2, 4)]),
    "rope with offsets": (
        lambda x, o: mx.fast.rope(x, 4, traditional=False, base=1e4, scale=1.0, offset=o), [(3, 2, 4), (int,)],
    ),
    "rope with freqs": (
        lambda x, f: mx.fast.rope(x, 4, traditional=True, base=None, scale=1.0, offset=0, freqs=f), [(3, 2, 4), (2,)],
    ),
    "segmented_mm": (
        lambda a, b: mx.segmented_mm(a, b, mx.array([[0, 1], [1, 4]], mx.uint32)), [(2, 4), (4, 3)],
    ),
    "at[].add": (lambda x, i, v: x.at[i].add(v), [(3, 2), (int, 2), (2, 2)]),
    "slice": (lambda x, i: mx.slice(x, i, (0, 1), (2, 2)), [(3, 4), (int, 2)]),
    "slice_update": (lambda x, u, i: mx.slice_update(x, u, i, (0, 1)), [(3, 4), (2, 2), (int, 2)]),
}  # fmt: skip


def _operand(shape, n):
    if shape[:1] == (int,):
        return mx.zeros((n, *shape[1:]), mx.int32)
    return mx.array(np.random.default_rng(2).uniform(1, 2, (n, *shape)).astype(np.float32))


@pytest.mark.parametrize("name", BATCHES)
def test_empty_batches(name):
    """vmap over no examples gives none, of the shapes that it gives of one; so do its derivatives."""
    f, shapes = BATCHES[name]
    none, one = ([_operand(s, n) for s in shapes] for n in (0, 1))
    y = mx.vmap(f)(*none)
    assert y.shape == (0, *mx.vmap(f)(*one).shape[1:]) and np.array(y).size == 0
    slope = mx.grad(lambda x, *more: mx.vmap(f)(x, *more).sum())
    assert slope(*none).shape == none[0].shape and slope(*one).shape == one[0].shape


# ---- of integers: as those of a sum


INTEGERS = {
    "sum": (lambda x: mx.sum(x, 1), [[2, 2, 2], [2, 2, 2]], [6, 15]),
    "sort": (mx.sort, [[2, 2, 2], [2, 2, 2]], [[2, 3, 1], [5, 4, 6]]),
    "partition": (lambda x: mx.sort(mx.partition(x, 1)), [[2, 2, 2], [2, 2, 2]], [[2, 3, 1], [5, 4, 6]]),
    "topk": (lambda x: mx.sort(mx.topk(x, 2)), [[2, 0, 2], [2, 0, 2]], [[3, 1], [4, 6]]),
    "max": (lambda x: mx.max(x, 1), [[2, 0, 0], [0, 0, 2]], [1, 6]),
    "prod": (lambda x: mx.prod(x, 1), [[4, 12, 6], [48, 60, 40]], [23, 366]),
    "cumsum": (lambda x: mx.cumsum(x, axis=1), [[6, 4, 2], [6, 4, 2]], [[1, 3, 6], [4, 9, 15]]),
    "cumprod": (lambda x: mx.cumprod(x, axis=1), [[8, 18, 6], [58, 70, 40]], [[1, 7, 23], [4, 41, 366]]),
    "cummax": (lambda x: mx.cummax(x, axis=1), [[6, 0, 0], [4, 0, 2]], [[1, 1, 1], [4, 4, 6]]),
    "cummin": (lambda x: mx.cummin(x, axis=1), [[2, 4, 0], [2, 4, 0]], [[1, 2, 2], [4, 5, 5]]),
    "take": (lambda x: mx.take(x, mx.array([0, 2]), 1), [[2, 0, 2], [2, 0, 2]], [[1, 3], [4, 6]]),
    "diff": (mx.diff, [[-2, 0, 2], [-2, 0, 2]], [[1, 1], [1, 1]]),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("dtype", [mx.int32, mx.int64], ids=str)
def test_integers(name, dtype):
    f, back, along = INTEGERS[name]
    x, t = mx.array([[3, 1, 2], [5, 4, 6]], dtype), mx.array([[1, 2, 3], [4, 5, 6]], dtype)
    slope = mx.vjp(f, [x], [2 * mx.ones_like(f(x))])[1][0]
    assert slope.tolist() == back and slope.dtype == dtype
    assert mx.jvp(f, [x], [t])[1][0].tolist() == along
