"""Activations: values and gradients against formulas in float64 NumPy and SciPy."""

import pickle

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from scipy import special


def relu(x):
    return np.maximum(x, 0)


def softplus(x):
    return np.logaddexp(x, 0)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

# name: (function, formula, points where the formula has a kink or a step)
CASES = {
    "sigmoid": (nn.sigmoid, special.expit, []),
    "log_sigmoid": (nn.log_sigmoid, lambda x: -softplus(-x), []),
    "tanh": (nn.tanh, np.tanh, []),
    "softsign": (nn.softsign, lambda x: x / (1 + np.abs(x)), []),
    "hard_tanh": (nn.hard_tanh, lambda x: np.clip(x, -1, 1), [-1, 1]),
    "hard_tanh of a range": (
        lambda x: nn.hard_tanh(x, -0.5, 2.0),
        lambda x: np.clip(x, -0.5, 2),
        [-0.5, 2],
    ),
    "relu": (nn.relu, relu, [0]),
    "relu2": (nn.relu2, lambda x: relu(x) ** 2, []),
    "relu6": (nn.relu6, lambda x: np.clip(x, 0, 6), [0, 6]),
    "leaky_relu": (nn.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x), [0]),
    "steep leaky_relu": (lambda x: nn.leaky_relu(x, 2), lambda x: np.where(x > 0, x, 2 * x), [0]),
    "prelu": (
        lambda x: nn.prelu(x, mx.array([0.3], x.dtype)),
        lambda x: np.where(x > 0, x, 0.3 * x),
        [0],
    ),
    "elu": (nn.elu, elu, [0]),
    "elu of 2": (lambda x: nn.elu(x, 2.0), lambda x: elu(x, 2), [0]),
    "celu": (nn.celu, elu, [0]),
    "celu of 2": (lambda x: nn.celu(x, 2.0), lambda x: relu(x) + 2 * elu(-relu(-x) / 2), [0]),
    "selu": (nn.selu, lambda x: SELU_SCALE * elu(x, SELU_ALPHA), [0]),
    "softplus": (nn.softplus, softplus, []),
    "gelu": (nn.gelu, lambda x: x * special.ndtr(x), []),
    "gelu_approx": (
        nn.gelu_approx,
        lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
        [],
    ),
    "gelu_fast_approx": (nn.gelu_fast_approx, lambda x: x * special.expit(1.702 * x), []),
    "silu": (nn.silu, lambda x: x * special.expit(x), []),
    "mish": (nn.mish, lambda x: x * np.tanh(softplus(x)), []),
    "hardswish": (nn.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, [-3, 3]),
    "hard_shrink": (nn.hard_shrink, lambda x: np.where(np.abs(x) > 0.5, x, 0), [-0.5, 0.5]),
    "softshrink": (
        nn.softshrink,
        lambda x: np.sign(x) * relu(np.abs(x) - 0.5),
        [-0.5, 0.5],
    ),
}

POINTS = np.concatenate([np.linspace(-9, 9, 73), [0.0, -0.0, 1e-4, -1e-4]])
FAR = np.array([-1e4, -300.0, -50, 50, 300, 1e4])


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_value(case):
    fn, formula, _ = case
    x = np.concatenate([POINTS, FAR]).astype(np.float32)
    want = formula(x.astype(np.float64))
    np.testing.assert_allclose(np.array(fn(mx.array(x))), want, rtol=2e-5, atol=2e-6)


def test_gradient(case):
    fn, formula, kinks = case
    x = POINTS[[all(abs(p - k) > 1e-2 for k in kinks) for p in POINTS]].astype(np.float32)
    got = np.array(mx.grad(lambda x: fn(x).sum())(mx.array(x)))
    p, h = x.astype(np.float64), 1e-5
    want = (formula(p + h) - formula(p - h)) / (2 * h)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_gradient_is_finite_far_out(case):
    fn, _, _ = case
    got = np.array(mx.grad(lambda x: fn(x).sum())(mx.array(FAR.astype(np.float32))))
    assert np.isfinite(got).all(), got


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_types_stay(case, dtype):
    fn, formula, _ = case
    x = mx.array(np.linspace(-3, 3, 25).astype(np.float32)).astype(dtype)
    y = fn(x)
    assert y.dtype == dtype
    wide = np.array(x.astype(mx.float32)).astype(np.float64)
    atol = 0.005 if dtype == mx.float16 else 0.04
    np.testing.assert_allclose(np.array(y.astype(mx.float32)), formula(wide), atol=atol)


def test_step():
    x = mx.array([-1.0, 0.0, 0.5, 2.0])
    assert nn.step(x).tolist() == [0, 1, 1, 1] and nn.step(x).dtype == mx.int32
    assert nn.step(x, 1.0).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_family(axis):
    x = np.random.default_rng(0).normal(0, 5, (4, 6)).astype(np.float32)
    wide = x.astype(np.float64)
    for fn, want in [
        (nn.softmax, special.softmax(wide, axis)),
        (nn.softmin, special.softmax(-wide, axis)),
        (nn.log_softmax, special.log_softmax(wide, axis)),
    ]:
        np.testing.assert_allclose(np.array(fn(mx.array(x), axis)), want, rtol=1e-5, atol=1e-6)
    large = np.array([[1e4, 0, -1e4]], np.float32)
    assert np.array(nn.log_softmax(mx.array(large))).tolist() == [[0, -1e4, -2e4]]


EPS = {mx.float16: 2**-10, mx.bfloat16: 2**-7, mx.float32: 2**-23, mx.float64: 2**-52}


@pytest.mark.parametrize("dtype", EPS, ids=str)
def test_softmax_family_far_out(dtype):
    """The largest is subtracted before anything is rounded: nothing that it would swallow is lost."""
    eps = EPS[dtype]
    with mx.stream(mx.cpu):
        for shift in (0, 300, -3e4, *[1e20] * (dtype != mx.float16)):
            x = mx.array([[1, 0], [0, 0], [-2, 1.5]], dtype) + mx.array(shift, dtype)
            wide = np.array(x.astype(mx.float64))
            for axis in (-1, 0, None, (0, 1)):
                for fn, want in ((nn.softmax, special.softmax), (nn.log_softmax, special.log_softmax)):
                    got = fn(x, axis)
                    assert got.dtype == dtype
                    np.testing.assert_allclose(np.array(got.astype(mx.float64)), want(wide, axis), rtol=2 * eps)
            want = -special.log_softmax(wide, -1)[[0, 1, 2], [0, 1, 1]]
            loss = nn.losses.cross_entropy(x, mx.array([0, 1, 1]))
            assert loss.dtype == dtype
            np.testing.assert_allclose(np.array(loss.astype(mx.float64)), want, rtol=2 * eps)
            loss = mx.fast.cross_entropy(x, mx.array([0, 1, 1]))
            np.testing.assert_allclose(np.array(loss), want, rtol=2**-22)
            p = mx.array([[0.25, 0.75], [0, 1], [0.5, 0.5]], dtype)
            loss = nn.losses.cross_entropy(x, p, label_smoothing=0.5)
            q = 0.5 * np.array(p.astype(mx.float64)) + 0.25
            want = -(q * special.log_softmax(wide, -1)).sum(-1)
            assert loss.dtype == dtype
            np.testing.assert_allclose(np.array(loss.astype(mx.float64)), want, rtol=2 * eps)


def test_softmax_family_of_infinities():
    inf = mx.inf
    for row, want in (([-inf, 1], [-inf, 0]), ([-inf, -inf], [np.nan] * 2), ([inf, 1], [np.nan] * 2)):
        for dtype in (mx.float16, mx.float32):
            np.testing.assert_array_equal(np.array(nn.log_softmax(mx.array(row, dtype))), np.array(want))
    assert nn.log_softmax(mx.array([1, 2])).dtype == mx.float32
    for shape in ((0,), (0, 3), (3, 0)):
        assert nn.log_softmax(mx.zeros(shape)).shape == shape


def test_log_softmax_under_transforms():
    x = mx.random.normal((3, 4, 5), key=mx.random.key(1)) * 5 + 100
    want = special.log_softmax(np.array(x, np.float64), (0, 2))
    np.testing.assert_allclose(np.array(nn.log_softmax(x, (0, 2))), want, rtol=2e-6, atol=2e-6)
    got = mx.vmap(lambda x: nn.log_softmax(x, (0, 1)), 1, 1)(x)
    np.testing.assert_allclose(np.array(got), want, rtol=2e-6, atol=2e-6)
    f = mx.compile(lambda x: nn.log_softmax(x, -1), shapeless=True)
    for y in (x, x[:2, :3, :2], x[:, 0]):
        want = special.log_softmax(np.array(y, np.float64), -1)
        np.testing.assert_allclose(np.array(f(y)), want, rtol=2e-6, atol=2e-6)
    z = np.array([[1 + 2j, 2]])
    got = np.array(nn.log_softmax(mx.array(z.astype(np.complex64))))
    np.testing.assert_allclose(got, z - np.log(np.exp(z).sum()), rtol=1e-6)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32], ids=str)
def test_log_softmax_gradient(dtype):
    x = mx.array([[1e4, 1e4 + 64], [0.5, 3], [-2, -1]], dtype)
    c = mx.array([[1, 2], [-1, 0.5], [0, 1]], dtype)
    wide, cotangent = (np.array(a.astype(mx.float64)) for a in (x, c))
    p = special.softmax(wide, -1)
    for transform, want in (
        (mx.vjp, cotangent - p * cotangent.sum(-1, keepdims=True)),
        (mx.jvp, cotangent - (p * cotangent).sum(-1, keepdims=True)),
    ):
        (got,) = transform(lambda x: nn.log_softmax(x, -1), [x], [c])[1]
        np.testing.assert_allclose(np.array(got.astype(mx.float64)), want, atol=4 * EPS[dtype])


@pytest.mark.parametrize("axis", [0, -1])
def test_glu(axis):
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    a, b = np.split(x.astype(np.float64), 2, axis)
    np.testing.assert_allclose(np.array(nn.glu(mx.array(x), axis)), a * special.expit(b), rtol=1e-5)
    with pytest.raises(ValueError):
        nn.glu(mx.zeros(3))


# Each layer and the function it stands for.
LAYERS = [
    (nn.Sigmoid(), nn.sigmoid),
    (nn.LogSigmoid(), nn.log_sigmoid),
    (nn.Tanh(), nn.tanh),
    (nn.Softsign(), nn.softsign),
    (nn.HardTanh(), nn.hard_tanh),
    (nn.ReLU(), nn.relu),
    (nn.ReLU2(), nn.relu2),
    (nn.ReLU6(), nn.relu6),
    (nn.LeakyReLU(0.2), lambda x: nn.leaky_relu(x, 0.2)),
    (nn.ELU(0.5), lambda x: nn.elu(x, 0.5)),
    (nn.CELU(0.5), lambda x: nn.celu(x, 0.5)),
    (nn.SELU(), nn.selu),
    (nn.Softplus(), nn.softplus),
    (nn.GELU(), nn.gelu),
    (nn.GELU("precise"), nn.gelu_approx),
    (nn.GELU("tanh"), nn.gelu_approx),
    (nn.GELU("fast"), nn.gelu_fast_approx),
    (nn.SiLU(), nn.silu),
    (nn.Mish(), nn.mish),
    (nn.Hardswish(), nn.hardswish),
    (nn.GLU(), nn.glu),
    (nn.GLU(0), lambda x: nn.glu(x, 0)),
    (nn.Step(0.7), lambda x: nn.step(x, 0.7)),
    (nn.HardShrink(1.5), lambda x: nn.hard_shrink(x, 1.5)),
    (nn.Softshrink(1.5), lambda x: nn.softshrink(x, 1.5)),
    (nn.Softmax(), nn.softmax),
    (nn.Softmin(), nn.softmin),
    (nn.LogSoftmax(), nn.log_softmax),
]


@pytest.mark.parametrize("layer, fn", LAYERS, ids=[type(layer).__name__ for layer, _ in LAYERS])
def test_layer_is_the_function(layer, fn):
    x = mx.array(np.linspace(-4, 4, 24, dtype=np.float32).reshape(4, 6))
    assert layer(x).tolist() == fn(x).tolist()
    assert layer.parameters() == {} and repr(layer) == f"{type(layer).__name__}()"
    assert pickle.loads(pickle.dumps(layer))(x).tolist() == fn(x).tolist()


SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize(
    "f, left, right",  # slopes up to 0 and after it
    [
        (nn.elu, np.exp, 1),
        (lambda x: nn.elu(x, 2.0), lambda x: 2 * np.exp(x), 1),
        (nn.selu, lambda x: SCALE * ALPHA * np.exp(x), SCALE),
        (nn.celu, np.exp, 1),
        (lambda x: nn.celu(x, 0.5), lambda x: np.exp(2 * x), 1),
        (lambda x: nn.prelu(x, mx.array([0.25], x.dtype)), lambda x: 0.25 + 0 * x, 1),
        (nn.relu, lambda x: 0 * x, 1),
    ],
    ids=["elu", "elu2", "selu", "celu", "celu.5", "prelu", "relu"],
)
def test_slopes_at_zero_and_in_tails(dtype, f, left, right):
    with mx.stream(mx.cpu):
        x = mx.array([-20, -9.5, -6, -4, -1.5, -0.01, -0.0, 0, 0.01, 3, 300], dtype)
        wide = np.array(x.astype(mx.float64))
        want = np.where(wide <= 0, left(np.minimum(wide, 0)), right)
        for got in (
            mx.grad(lambda x: f(x).sum())(x),
            mx.compile(mx.grad(lambda x: f(x).sum()))(x),
            mx.jvp(f, [x], [mx.ones_like(x)])[1][0],
        ):
            assert got.dtype == dtype
            # Half a unit of each factor and of x / alpha, and what is below the normal numbers.
            tiny = 2.0**-24 if dtype == mx.float16 else 0
            np.testing.assert_allclose(np.array(got.astype(mx.float64)), want, rtol=3 * EPS[dtype], atol=2 * tiny)
        at = mx.array([mx.inf, -mx.inf, mx.nan], dtype)
        got = mx.grad(lambda x: f(x).sum())(at)
        assert got[:2].tolist() == [mx.array(right, dtype).item(), mx.array(left(np.float64(-1e9)), dtype).item()]
        assert np.isnan(np.array(f(at).astype(mx.float32)))[2]


def test_leaky_relu_at_zero():
    slope = mx.grad(lambda x: nn.leaky_relu(x, 0.25).sum())
    assert slope(mx.array([-mx.inf, -1, -0.0, 0, 1])).tolist() == [0.25, 0.25, 1, 1, 1]


@pytest.mark.parametrize("f", [nn.hard_shrink, nn.softshrink], ids=["hard", "soft"])
def test_shrinks_hand_nan_on(f):
    x = mx.array([mx.nan, -1, -0.5, 0.5, 1, mx.inf])
    assert np.isnan(f(x)[0].item()) and f(x)[1:].tolist() == (
        [-1, 0, 0, 1, mx.inf] if f is nn.hard_shrink else [-0.5, 0, 0, 0.5, mx.inf]
    )
    assert mx.grad(lambda x: f(x).sum())(x)[1:].tolist() == [1, 0, 0, 1, 1]


def test_prelu_learns():
    layer = nn.PReLU(3, init=0.5)
    assert layer.weight.tolist() == [0.5, 0.5, 0.5]
    x = mx.array([[-2.0, 4, -6], [1, -3, -5]])
    assert layer(x).tolist() == [[-1, 4, -3], [1, -1.5, -2.5]]
    _, grads = nn.value_and_grad(layer, lambda x: layer(x).sum())(x)
    assert grads["weight"].tolist() == [-2, -3, -11]


def test_gelu_names_its_choices():
    with pytest.raises(ValueError, match=r"\[GELU\].*none.*precise.*tanh.*fast.*'exact'"):
        nn.GELU("exact")
