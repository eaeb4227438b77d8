"""Losses against their formulas in float64 NumPy and SciPy."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from scipy import special, stats

losses = nn.losses


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


def check(fn, want, *arrays, **options):
    """The loss without reduction is `want`, and the reductions follow from it."""
    arrays = [mx.array(a) for a in arrays]

    def close(got, want):
        np.testing.assert_allclose(np.array(got), want, rtol=2e-5, atol=1e-5)

    close(fn(*arrays, **options, reduction="none"), want)
    close(fn(*arrays, **options, reduction="mean"), np.mean(want))
    close(fn(*arrays, **options, reduction="sum"), np.sum(want))
    with pytest.raises(ValueError, match=rf"\[{fn.__name__}\].*none, mean or sum, got 'avg'"):
        fn(*arrays, **options, reduction="avg")


def test_defaults():
    mean = {"binary_cross_entropy", "l1_loss", "mse_loss", "smooth_l1_loss", "gaussian_nll_loss"}
    names = [n for n in vars(losses) if n.endswith(("_loss", "_entropy"))]
    assert len(names) == 14
    for name in names:
        expected = "mean" if name in mean else "none"
        assert getattr(losses, name).__defaults__[-1] == expected, name


# ------------------------------------------------------------------ classification


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_cross_entropy(rng, axis, smoothing):
    logits = 4 * normal(rng, 5, 6)
    classes = logits.shape[axis]
    targets = rng.integers(0, classes, 6 if axis == 0 else 5).astype(np.int32)
    one_hot = np.moveaxis(np.eye(classes)[targets], -1, axis)
    log_p = special.log_softmax(logits.astype(np.float64), axis)

    def want(p):
        return -(((1 - smoothing) * p + smoothing / classes) * log_p).sum(axis)

    options = {"axis": axis, "label_smoothing": smoothing}
    check(losses.cross_entropy, want(one_hot), logits, targets, **options)
    p = special.softmax(rng.normal(size=(5, 6)), axis)
    check(losses.cross_entropy, want(p), logits, p.astype(np.float32), **options)
    weights = rng.uniform(1, 2, len(targets)).astype(np.float32)
    got = losses.cross_entropy(*map(mx.array, (logits, targets, weights)), **options)
    np.testing.assert_allclose(np.array(got), weights * want(one_hot), rtol=2e-5, atol=1e-5)


def test_cross_entropy_far_out():
    logits = mx.array([[1e4, 0.0, -1e4]])
    for target, want in [(0, 0), (1, 1e4), (2, 2e4)]:
        assert losses.cross_entropy(logits, mx.array([target])).tolist() == [want]
    grad = mx.grad(lambda x: losses.cross_entropy(x, mx.array([1])).sum())(logits)
    assert grad.tolist() == [[1, -1, 0]]


def test_cross_entropy_gradient(rng):
    logits, targets = normal(rng, 4, 3), np.array([0, 2, 1, 1], np.int32)
    grad = mx.grad(lambda x: losses.cross_entropy(x, mx.array(targets)).sum())(mx.array(logits))
    want = special.softmax(logits.astype(np.float64), -1) - np.eye(3)[targets]
    np.testing.assert_allclose(np.array(grad), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("off", [0, -3e4, 3e4])
def test_gradients_of_many_classes(rng, off):
    """Each within a few roundings of its own size, however large and however far out."""
    x = (rng.normal(size=(3, 5000)) * 5 + off).astype(np.float32)
    t, v = rng.integers(0, 5000, 3), rng.normal(size=x.shape).astype(np.float32)
    p = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    grad = mx.grad(lambda x: losses.cross_entropy(x, mx.array(t)).sum())(mx.array(x))
    np.testing.assert_allclose(np.array(grad), p - (np.arange(5000) == t[:, None]), rtol=6e-6, atol=1e-7)
    back = mx.vjp(lambda x: nn.log_softmax(x, -1), [mx.array(x)], [mx.array(v)])[1][0]
    np.testing.assert_allclose(np.array(back), v - p * v.sum(1, dtype=np.float64, keepdims=True), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("targets", [(3,), (2, 4), (), (2, 3, 1)])
def test_cross_entropy_shapes(targets):
    with pytest.raises(ValueError, match=r"\[cross_entropy\] expected targets of shape \(2, 3\)"):
        losses.cross_entropy(mx.zeros((2, 3)), mx.zeros(targets, mx.int32))
    with pytest.raises(ValueError, match=r"weights \(3,\), losses \(2,\)"):
        losses.cross_entropy(mx.zeros((2, 3)), mx.array([0, 1]), weights=mx.ones(3))
    for smoothing in (-0.1, 1.0):
        with pytest.raises(ValueError, match="label_smoothing"):
            losses.cross_entropy(mx.zeros((2, 3)), mx.array([0, 1]), label_smoothing=smoothing)


def test_binary_cross_entropy(rng):
    x, t = 3 * normal(rng, 4, 5), rng.uniform(0, 1, (4, 5)).astype(np.float32)
    q = special.expit(x)  # float32: near 1 it is no longer the p of x

    def entropy(p):
        return -(t * np.log(p) + (1 - t) * np.log1p(-p))

    want = entropy(special.expit(x.astype(np.float64)))
    check(losses.binary_cross_entropy, entropy(q.astype(np.float64)), q, t, with_logits=False)
    check(losses.binary_cross_entropy, want, x, t)
    w = rng.uniform(1, 2, (4, 5)).astype(np.float32)
    got = losses.binary_cross_entropy(*map(mx.array, (x, t, w)), reduction="sum").item()
    np.testing.assert_allclose(got, (w * want).sum(), rtol=1e-5)


def test_binary_cross_entropy_far_out():
    x, t = mx.array([1e3, -1e3, 1e3]), mx.array([0.0, 1, 1])
    loss = losses.binary_cross_entropy(x, t, reduction="none")
    assert loss.tolist() == [1000, 1000, 0]
    p = mx.array([0.0, 1.0, 0.0, 1.0])
    loss = losses.binary_cross_entropy(p, mx.array([0.0, 1, 1, 0]), None, False, "none")
    assert loss.tolist() == [0, 0, 100, 100]


@pytest.mark.parametrize("axis", [-1, 0])
def test_nll_loss(rng, axis):
    log_p = normal(rng, 4, 5)
    targets = rng.integers(0, log_p.shape[axis], 4 if axis == -1 else 5).astype(np.int32)
    want = -np.take_along_axis(log_p, np.expand_dims(targets, axis), axis).squeeze(axis)
    check(losses.nll_loss, want, log_p, targets, axis=axis)
    with pytest.raises(ValueError, match=r"\[nll_loss\]"):
        losses.nll_loss(mx.array(log_p), mx.array([0]))


def test_kl_div_loss(rng):
    log_p = special.log_softmax(normal(rng, 4, 5), -1)
    log_q = special.log_softmax(normal(rng, 4, 5), -1)
    want = special.rel_entr(np.exp(log_q), np.exp(log_p)).sum(-1)
    check(losses.kl_div_loss, want, log_p, log_q)


def test_hinge_loss(rng):
    x, t = 2 * normal(rng, 20), np.sign(normal(rng, 20))
    check(losses.hinge_loss, np.maximum(0, 1 - x * t), x, t)


# ------------------------------------------------------------------ regression


def test_l1_and_mse(rng):
    x, t = normal(rng, 4, 5), normal(rng, 4, 5)
    check(losses.l1_loss, np.abs(x - t), x, t)
    check(losses.mse_loss, (x - t) ** 2, x, t)


def test_smooth_l1_and_huber(rng):
    x, t = 2 * normal(rng, 50), normal(rng, 50)
    d = np.abs(x.astype(np.float64) - t)
    for c in (0.5, 1.0, 2.0):
        huber = special.huber(c, d)
        check(losses.huber_loss, huber, x, t, delta=c)
        check(losses.smooth_l1_loss, huber / c, x, t, beta=c)
    check(losses.smooth_l1_loss, d, x, t, beta=0.0)
    with pytest.raises(ValueError, match="beta"):
        losses.smooth_l1_loss(mx.array(x), mx.array(t), beta=-1.0)


def test_log_cosh(rng):
    x, t = 3 * normal(rng, 50), normal(rng, 50)
    check(losses.log_cosh_loss, np.log(np.cosh(x.astype(np.float64) - t)), x, t)
    assert losses.log_cosh_loss(mx.array([1e4]), mx.array([0.0])).item() == pytest.approx(1e4 - 0.693)


@pytest.mark.parametrize("full", [True, False])
def test_gaussian_nll(rng, full):
    x, t = normal(rng, 20), normal(rng, 20)
    v = rng.uniform(0.1, 3, 20).astype(np.float32)
    want = -stats.norm.logpdf(t.astype(np.float64), x, np.sqrt(v.astype(np.float64)))
    want = want if full else want - 0.5 * np.log(2 * np.pi)
    check(losses.gaussian_nll_loss, want, x, t, v, full=full)
    got = losses.gaussian_nll_loss(mx.array(1.0), mx.array(1.0), mx.array(0.0), eps=0.25)
    assert got.item() == pytest.approx(0.5 * np.log(0.25))


# ------------------------------------------------------------------ distances and rankings


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("axis", [-1, 0])
def test_triplet_loss(rng, p, axis):
    a, pos, neg = (normal(rng, 6, 4) for _ in range(3))

    def distance(x, y):
        return ((np.abs(x.astype(np.float64) - y) ** p).sum(axis) + 1e-6) ** (1 / p)

    want = np.maximum(distance(a, pos) - distance(a, neg) + 0.4, 0)
    assert (want > 0).any() and (want == 0).any()
    check(losses.triplet_loss, want, a, pos, neg, axis=axis, p=p, margin=0.4)


def test_triplet_gradient_at_distance_0():
    x = mx.array([[1.0, 2.0]])
    grad = mx.grad(lambda x: losses.triplet_loss(x, x, x + 1, margin=5.0).sum())(x)
    assert np.isfinite(np.array(grad)).all()


@pytest.mark.parametrize("axis", [0, 1])
def test_cosine_similarity(rng, axis):
    a, b = normal(rng, 6, 4), normal(rng, 6, 4)
    x, y = a.astype(np.float64), b.astype(np.float64)
    want = (x * y).sum(axis) / (np.linalg.norm(x, axis=axis) * np.linalg.norm(y, axis=axis))
    check(losses.cosine_similarity_loss, want, a, b, axis=axis)


def test_cosine_similarity_of_zero():
    x = mx.array([[1.0, 2.0]])
    loss, grad = mx.value_and_grad(lambda z: losses.cosine_similarity_loss(z, x, eps=0.5, reduction="sum"))(
        mx.zeros((1, 2))
    )
    assert loss.item() == 0 and grad.tolist() == [[2, 4]]


def test_margin_ranking(rng):
    a, b, t = normal(rng, 20), normal(rng, 20), np.sign(normal(rng, 20))
    want = np.maximum(0, -t * (a - b) + 0.2)
    check(losses.margin_ranking_loss, want, a, b, t, margin=0.2)


@pytest.mark.parametrize(
    "name",
    [
        "binary_cross_entropy",
        "l1_loss",
        "mse_loss",
        "smooth_l1_loss",
        "gaussian_nll_loss",
        "margin_ranking_loss",
    ],
)
def test_shapes_must_agree(name):
    args = [mx.ones((3, 1)), mx.ones(3)]
    if name in ("gaussian_nll_loss", "margin_ranking_loss"):
        args.append(mx.ones(3))
    with pytest.raises(ValueError, match=rf"\[{name}\] expected arrays of one shape.*\(3, 1\).*\(3,\)"):
        getattr(losses, name)(*args)


@pytest.mark.parametrize(
    "name, args",
    [
        ("cross_entropy", [mx.ones((2, 4)), mx.array([0, 1])]),
        ("cross_entropy", [mx.ones((2, 4)), mx.ones((2, 4))]),
        ("nll_loss", [mx.ones((2, 4)), mx.array([0, 1])]),
        ("kl_div_loss", [mx.ones((2, 4)), mx.ones(4)]),
        ("triplet_loss", [mx.ones(4), mx.ones((2, 4)), mx.ones(4)]),
        ("cosine_similarity_loss", [mx.ones((2, 4)), mx.ones((2, 4))]),
    ],
)
@pytest.mark.parametrize("axis", [5, -3])
def test_an_axis_that_is_not_there(name, args, axis):
    with pytest.raises(mx.AxisError, match=rf"\[{name}\] axis {axis} is out of range for an array with 2 dimensions"):
        getattr(losses, name)(*args, axis=axis)
