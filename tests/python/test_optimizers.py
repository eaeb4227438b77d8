"""Optimizers: each against the update of its paper, written out in float64 NumPy."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map, tree_unflatten

# ------------------------------------------------------------------ the updates, in NumPy
#
# Each is a generator: it takes the parameter, is sent gradients and yields the new parameter.


def sgd(w, lr, momentum=0.0, weight_decay=0.0, dampening=0.0, nesterov=False):
    v = 0
    g = yield
    while True:
        g = g + weight_decay * w
        v = momentum * v + (1 - dampening) * g
        w = w - lr * (g + momentum * v if nesterov else v if momentum else g)
        g = yield w


def rmsprop(w, lr, alpha=0.99, eps=1e-8):
    v = 0
    g = yield
    while True:
        v = alpha * v + (1 - alpha) * g**2
        w = w - lr * g / (np.sqrt(v) + eps)
        g = yield w


def adagrad(w, lr, eps=1e-8):
    v = 0
    g = yield
    while True:
        v = v + g**2
        w = w - lr * g / (np.sqrt(v) + eps)
        g = yield w


def adadelta(w, lr, rho=0.9, eps=1e-6):
    v = u = 0
    g = yield
    while True:
        v = rho * v + (1 - rho) * g**2
        d = np.sqrt(u + eps) / np.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d**2
        w = w - lr * d
        g = yield w


def adam(w, lr, betas=(0.9, 0.999), eps=1e-8, bias_correction=False, weight_decay=0.0):
    (b1, b2), m, v, t = betas, 0, 0, 0
    g = yield
    while True:
        t += 1
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g**2
        m_hat = m / (1 - b1**t) if bias_correction else m
        v_hat = v / (1 - b2**t) if bias_correction else v
        w = w - lr * (m_hat / (np.sqrt(v_hat) + eps) + weight_decay * w)
        g = yield w


def adamw(w, lr, weight_decay=0.01, **options):
    return adam(w, lr, weight_decay=weight_decay, **options)


def adamax(w, lr, betas=(0.9, 0.999), eps=1e-8):
    (b1, b2), m, v = betas, 0, 0
    g = yield
    while True:
        m = b1 * m + (1 - b1) * g
        v = np.maximum(b2 * v, np.abs(g))
        w = w - lr * m / (v + eps)
        g = yield w


def lion(w, lr, betas=(0.9, 0.99), weight_decay=0.0):
    (b1, b2), m = betas, 0
    g = yield
    while True:
        c = b1 * m + (1 - b1) * g
        m = b2 * m + (1 - b2) * g
        w = w - lr * (np.sign(c) + weight_decay * w)
        g = yield w


def rms(x):
    return np.sqrt(np.mean(x**2))


def adafactor(
    w,
    lr=None,
    eps=(1e-30, 1e-3),
    clip_threshold=1.0,
    decay_rate=-0.8,
    beta_1=None,
    weight_decay=0.0,
    scale_parameter=True,
    relative_step=True,
    warmup_init=False,
):
    r = c = v = m = t = 0
    g = yield
    while True:
        t += 1
        rate = lr
        if relative_step:
            rate = min(1e-6 * t if warmup_init else 1e-2, 1 / np.sqrt(t))
        if scale_parameter:
            rate = rate * max(eps[1], rms(w))
        beta = 1 - t**decay_rate
        squared = g**2 + eps[0]
        if w.ndim >= 2:
            r = beta * r + (1 - beta) * squared.mean(-1)
            c = beta * c + (1 - beta) * squared.mean(-2)
            second = r[..., :, None] * c[..., None, :] / r.mean(-1)[..., None, None]
        else:
            v = beta * v + (1 - beta) * squared
            second = v
        u = g / np.sqrt(second)
        u = rate * u / max(1, rms(u) / clip_threshold)
        if beta_1 is not None:
            m = beta_1 * m + (1 - beta_1) * u
            u = m
        w = w - rate * weight_decay * w - u
        g = yield w


def muon(w, lr, momentum=0.95, weight_decay=0.01, nesterov=True, ns_steps=5):
    """The iteration acts on singular values alone, so here an SVD and a polynomial do its work."""
    v = 0
    g = yield
    while True:
        g = g + weight_decay * w
        v = momentum * v + (1 - momentum) * g
        u = momentum * v + (1 - momentum) * g if nesterov else v
        scale = 1
        if w.ndim >= 2:
            matrix = u.reshape(len(u), -1)
            left, s, right = np.linalg.svd(matrix, full_matrices=False)
            s = s / np.sqrt(np.sum(s**2))
            for _ in range(ns_steps):
                s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
            u = (left * s @ right).reshape(u.shape)
            scale = np.sqrt(max(1, matrix.shape[0] / matrix.shape[1]))
        w = w - lr * scale * u
        g = yield w


CASES = [
    (optim.SGD, sgd, [{}, {"weight_decay": 0.1}, {"momentum": 0.9}]),
    (optim.SGD, sgd, [{"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}]),
    (optim.SGD, sgd, [{"momentum": 0.8, "nesterov": True, "weight_decay": 0.1}]),
    (optim.RMSprop, rmsprop, [{}, {"alpha": 0.8, "eps": 0.1}]),
    (optim.Adagrad, adagrad, [{}, {"eps": 0.1}]),
    (optim.AdaDelta, adadelta, [{}, {"rho": 0.7, "eps": 0.1}]),
    (optim.Adam, adam, [{}, {"bias_correction": True}, {"betas": [0.8, 0.9], "eps": 0.1}]),
    (optim.Adam, adam, [{"betas": [0.8, 0.9], "eps": 0.1, "bias_correction": True}]),
    (optim.AdamW, adamw, [{}, {"weight_decay": 0.3, "bias_correction": True}]),
    (optim.Adamax, adamax, [{}, {"betas": [0.8, 0.9], "eps": 0.1}]),
    (optim.Lion, lion, [{}, {"betas": [0.6, 0.8], "weight_decay": 0.1}]),
    (optim.Adafactor, adafactor, [{}, {"warmup_init": True}, {"beta_1": 0.8, "eps": (1e-3, 5.0)}]),
    (
        optim.Adafactor,
        adafactor,
        [
            {"relative_step": False, "weight_decay": 0.2, "clip_threshold": 0.5},
            {"relative_step": False, "scale_parameter": False, "decay_rate": -0.5},
        ],
    ),
    (optim.Muon, muon, [{}, {"nesterov": False, "momentum": 0.7, "weight_decay": 0.2}]),
    (optim.Muon, muon, [{"ns_steps": 2, "weight_decay": 0.0}]),
]
CASES = [(new, update, options) for new, update, many in CASES for options in many]
IDS = [f"{new.__name__}-{options}" for new, _, options in CASES]


@pytest.mark.parametrize("new, update, options", CASES, ids=IDS)
def test_update(new, update, options):
    rng = np.random.default_rng(5)
    start = {
        "matrix": rng.normal(size=(3, 5)),
        "list": [rng.normal(size=4), {"tall": rng.normal(size=(6, 2))}],
        "window": rng.normal(size=(2, 2, 3)),
    }
    references = tree_map(lambda w: update(w, 0.05, **options), start)
    tree_map(next, references)
    parameters = tree_map(lambda w: mx.array(w.astype(np.float32)), start)
    optimizer = new(0.05, **options)
    for step in range(5):
        scale = 10.0**-step
        gradients = tree_map(lambda w, s=scale: rng.normal(size=w.shape) * s, start)
        want = tree_map(lambda r, g: r.send(g), references, gradients)
        gradients = tree_map(lambda g: mx.array(g.astype(np.float32)), gradients)
        parameters = optimizer.apply_gradients(gradients, parameters)
        for (name, got), (_, value) in zip(tree_flatten(parameters), tree_flatten(want)):
            assert got.dtype == mx.float32
            np.testing.assert_allclose(np.array(got), value, rtol=2e-4, atol=2e-5, err_msg=f"{name}, step {step}")
    assert optimizer.step.item() == 5


ALL = [optim.SGD, optim.RMSprop, optim.Adagrad, optim.AdaDelta, optim.Adam, optim.AdamW]
ALL += [optim.Adamax, optim.Lion, optim.Adafactor, optim.Muon]


@pytest.mark.parametrize("new", ALL)
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_types_stay(new, dtype):
    optimizer = new(50.0 if new is optim.AdaDelta else 0.1)
    parameters = {"w": mx.ones((3, 4), dtype)}
    gradients = {"w": mx.full((3, 4), 0.5, dtype)}
    for _ in range(2):
        parameters = optimizer.apply_gradients(gradients, parameters)
    assert parameters["w"].dtype == dtype
    assert all(a.dtype == dtype for _, a in tree_flatten(optimizer.state["w"]))
    assert mx.all(parameters["w"] < 1).item() and mx.all(parameters["w"] > -2).item()


@pytest.mark.parametrize("new", ALL)
def test_fits_a_line(new):
    """Every optimizer finds the minimum of a convex function."""
    rates = {optim.AdaDelta: 20.0, optim.Adagrad: 0.5, optim.Muon: 0.1}
    rate = rates.get(new, 0.05)
    optimizer = new(optim.cosine_decay(rate, 300))
    if new is optim.Adafactor:
        optimizer = new(optim.cosine_decay(rate, 300), relative_step=False)
    mx.random.seed(0)
    x = mx.random.normal((64, 3))
    target = mx.array([[1.0, -2.0, 0.5]])
    y = x @ target.T
    model = nn.Linear(3, 1)
    step = nn.value_and_grad(model, lambda: nn.losses.mse_loss(model(x), y))
    for _ in range(300):
        loss, grads = step()
        optimizer.update(model, grads)
        mx.eval(model.parameters(), optimizer.state)
    assert loss.item() < 0.01
    np.testing.assert_allclose(np.array(model.weight), np.array(target), atol=0.1)


# ------------------------------------------------------------------ what all share


def test_update_of_a_model_leaves_the_rest():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model.layers[0].freeze()
    frozen = model.layers[0].weight
    step = nn.value_and_grad(model, lambda x: model(x).sum())
    _, grads = step(mx.ones((1, 2)))
    before = np.array(model.layers[1].bias)
    optimizer = optim.SGD(0.5)
    optimizer.update(model, grads)
    assert model.layers[0].weight is frozen
    np.testing.assert_allclose(np.array(model.layers[1].bias), before - 0.5)

    # What is trained later gets a state of its own then.
    adam = optim.Adam(0.1)
    adam.update(model, grads)
    model.unfreeze()
    _, grads = step(mx.ones((1, 2)))
    adam.update(model, grads)
    assert set(adam.state["layers"][0]["weight"]) == {"m", "v"}
    assert adam.step.item() == 2


def test_state():
    optimizer = optim.Adam(0.25)
    assert optimizer.step.item() == 0 and optimizer.step.dtype == mx.uint64
    assert optimizer.learning_rate.item() == 0.25
    parameters = {"a": [mx.ones(2), {"b": mx.ones(3)}]}
    optimizer.init(parameters)
    names = [name for name, _ in tree_flatten(optimizer.state)]
    assert names == ["step", "learning_rate", "a.0.m", "a.0.v", "a.1.b.m", "a.1.b.v"]
    state = optimizer.state
    optimizer.apply_gradients(parameters, parameters)
    assert optimizer.state is state and state["step"].item() == 1
    first = np.array(state["a"][0]["m"])
    optimizer.init(parameters)
    assert np.array_equal(np.array(optimizer.state["a"][0]["m"]), first)


def test_state_survives_a_file(tmp_path):
    rng = np.random.default_rng(0)
    parameters = {"w": mx.array(rng.normal(size=(2, 3)).astype(np.float32)), "l": [mx.ones(2)]}
    gradients = tree_map(lambda a: a * 0.1, parameters)
    optimizer = optim.AdamW(0.1, bias_correction=True)
    once = optimizer.apply_gradients(gradients, parameters)
    file = str(tmp_path / "state.safetensors")
    mx.save_safetensors(file, tree_flatten(optimizer.state, destination={}))

    resumed = optim.AdamW(1.0, bias_correction=True)
    resumed.state = tree_unflatten(mx.load(file))
    want = tree_flatten(optimizer.apply_gradients(gradients, once))
    got = tree_flatten(resumed.apply_gradients(gradients, once))
    assert resumed.step.item() == 2
    assert all(np.array_equal(np.array(a), np.array(b)) for (_, a), (_, b) in zip(want, got))


def test_learning_rate():
    optimizer = optim.SGD(0.5)
    optimizer.learning_rate = 0.25
    got = optimizer.apply_gradients({"w": mx.array([2.0])}, {"w": mx.array([1.0])})
    assert got["w"].tolist() == [0.5]

    optimizer = optim.SGD(lambda step: 1 / (step + 1))
    rates = []
    for _ in range(3):
        got = optimizer.apply_gradients({"w": mx.array([1.0])}, {"w": mx.array([0.0])})
        rates.append((optimizer.learning_rate.item(), got["w"].item()))
    np.testing.assert_allclose(rates, [(1, -1), (1 / 2, -1 / 2), (1 / 3, -1 / 3)], rtol=1e-6)


def test_a_name_of_the_optimizers_own():
    with pytest.raises(ValueError, match="parameter named step"):
        optim.SGD(0.1).init({"step": mx.ones(1)})


def test_an_optimizer_of_ones_own():
    class SignDescent(optim.Optimizer):
        def __init__(self, learning_rate):
            super().__init__(schedulers={"learning_rate": learning_rate})

        def init_single(self, parameter, state):
            state["calls"] = mx.array(0)

        def apply_single(self, gradient, parameter, state):
            state["calls"] = state["calls"] + 1
            return parameter - self.learning_rate * mx.sign(gradient)

    optimizer = SignDescent(lambda step: 0.5**step)
    w = {"w": mx.array([1.0, -1.0])}
    for _ in range(2):
        w = optimizer.apply_gradients({"w": mx.array([3.0, -2.0])}, w)
    assert w["w"].tolist() == [-0.5, 0.5] and optimizer.state["w"]["calls"].item() == 2
    with pytest.raises(NotImplementedError, match=r"\[Optimizer\] init_single"):
        optim.Optimizer().apply_gradients(w, w)


def test_what_an_optimizer_of_ones_own_schedules():
    """May be an array of any shape, as where it tells when to do one of two things."""

    class Turns(optim.SGD):
        def __init__(self):
            super().__init__(0.5)
            self._maybe_schedule("turns", lambda step: mx.stack([step % 2 == 0, step % 2 == 1]))

        def apply_single(self, gradient, parameter, state):
            return parameter - mx.where(self.state["turns"][0], gradient, 0)

    optimizer, w = Turns(), {"w": mx.array([4.0])}
    seen = []
    for _ in range(3):
        w = optimizer.apply_gradients({"w": mx.array([1.0])}, w)
        seen.append((w["w"].item(), optimizer.state["turns"].tolist()))
    assert seen == [(3, [True, False]), (3, [False, True]), (2, [True, False])]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: optim.SGD(0.1, nesterov=True), r"\[SGD\] nesterov"),
        (lambda: optim.SGD(0.1, 0.9, dampening=0.1, nesterov=True), r"\[SGD\] nesterov"),
        (lambda: optim.RMSprop(0.1, alpha=-1), r"\[RMSprop\] expected alpha in .* got -1"),
        (lambda: optim.RMSprop(0.1, eps=-1), r"\[RMSprop\] expected eps"),
        (lambda: optim.Adagrad(0.1, eps=-1), r"\[Adagrad\] expected eps"),
        (lambda: optim.AdaDelta(0.1, rho=-1), r"\[AdaDelta\] expected rho"),
        (lambda: optim.AdaDelta(0.1, eps=-1), r"\[AdaDelta\] expected eps"),
        (lambda: optim.Adam(0.1, betas=[1.0, 0.9]), r"\[Adam\] expected beta1 in \[0, 1\)"),
        (lambda: optim.AdamW(0.1, betas=[0.9, -0.1]), r"\[AdamW\] expected beta2 in \[0, 1\)"),
        (lambda: optim.Adamax(0.1, eps=-1), r"\[Adamax\] expected eps"),
        (lambda: optim.Lion(0.1, betas=[2, 0.9]), r"\[Lion\] expected beta1"),
        (lambda: optim.Adafactor(relative_step=False), r"\[Adafactor\].*learning_rate"),
    ],
)
def test_hyperparameters_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ------------------------------------------------------------------ several optimizers


def test_multi_optimizer():
    def make():
        return optim.SGD(0.1, momentum=0.9), optim.Adam(0.2), optim.Lion(0.3)

    multi = optim.MultiOptimizer(make(), [lambda name, g: name.endswith("bias"), lambda name, g: g.ndim == 2])
    rng = np.random.default_rng(0)

    def random():
        shapes = {"a": {"bias": (3,), "weight": (3, 4)}, "l": [{"bias": (2, 2)}, {"other": (5,)}]}
        return tree_map(
            lambda s: mx.array(rng.normal(size=s).astype(np.float32)),
            shapes,
            is_leaf=lambda s: isinstance(s, tuple),
        )

    owner = {"a.bias": 0, "l.0.bias": 0, "a.weight": 1, "l.1.other": 2}
    parameters = random()
    alone = {name: (make()[owner[name]], {"w": array}) for name, array in tree_flatten(parameters)}
    for _ in range(3):
        gradients = random()
        parameters = multi.apply_gradients(gradients, parameters)
        flat = tree_flatten(gradients, destination={})
        for name, (optimizer, w) in alone.items():
            w.update(optimizer.apply_gradients({"w": flat[name]}, w))
    got = tree_flatten(parameters, destination={})
    assert set(got) == set(owner)
    for name, (_, w) in alone.items():
        assert np.array_equal(np.array(got[name]), np.array(w["w"])), name

    assert multi.step.item() == 3 and len(multi.state["states"]) == 3
    multi.learning_rate = 0.5
    assert [o.learning_rate.item() for o in multi.optimizers] == [0.5] * 3

    resumed = optim.MultiOptimizer(make(), multi.filters)
    resumed.state = tree_unflatten(tree_flatten(multi.state))
    a = tree_flatten(resumed.apply_gradients(gradients, parameters))
    b = tree_flatten(multi.apply_gradients(gradients, parameters))
    assert all(np.array_equal(np.array(x), np.array(y)) for (_, x), (_, y) in zip(a, b))


def test_multi_optimizer_trains_a_model():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = optim.MultiOptimizer([optim.Muon(0.1), optim.SGD(0.5)], [lambda name, g: g.ndim > 1])
    optimizer.init(model.trainable_parameters())
    before = np.array(model.layers[1].bias)
    _, grads = nn.value_and_grad(model, lambda x: model(x).sum())(mx.ones((1, 2)))
    optimizer.update(model, grads)
    np.testing.assert_allclose(np.array(model.layers[1].bias), before - 0.5)


def test_multi_optimizer_limits():
    sgd = optim.SGD(0.1)
    with pytest.raises(ValueError, match=r"\[MultiOptimizer\] expected 1 filters.*got 0"):
        optim.MultiOptimizer([sgd, sgd])
    with pytest.raises(ValueError, match=r"\[MultiOptimizer\].*1 states"):
        optim.MultiOptimizer([sgd]).state = {"states": []}


# ------------------------------------------------------------------ clipping


def test_clip_grad_norm():
    rng = np.random.default_rng(0)
    grads = {"a": rng.normal(size=(3, 4)), "b": [rng.normal(size=5)]}
    norm = np.sqrt(sum((g**2).sum() for _, g in tree_flatten(grads)))
    arrays = tree_map(lambda g: mx.array(g.astype(np.float32)), grads)
    clipped, got = optim.clip_grad_norm(arrays, norm / 2)
    np.testing.assert_allclose(got.item(), norm, rtol=1e-6)
    for (_, a), (_, g) in zip(tree_flatten(clipped), tree_flatten(grads)):
        np.testing.assert_allclose(np.array(a), g / 2, rtol=1e-5)

    clipped, got = optim.clip_grad_norm(arrays, 2 * norm)
    for (_, a), (_, b) in zip(tree_flatten(clipped), tree_flatten(arrays)):
        assert np.array_equal(np.array(a), np.array(b))
    zeros, got = optim.clip_grad_norm({"a": mx.zeros(3)}, 1.0)
    assert got.item() == 0 and zeros["a"].tolist() == [0, 0, 0]
    assert optim.clip_grad_norm({}, 1.0)[0] == {}


def test_clip_grad_norm_of_halves():
    clipped, norm = optim.clip_grad_norm({"a": mx.array([3e4, 4e4], mx.float16)}, 1.0)
    assert norm.item() == pytest.approx(5e4, rel=1e-3) and clipped["a"].dtype == mx.float16
    np.testing.assert_allclose(np.array(clipped["a"]), [0.6, 0.8], rtol=2e-3)
