"""mlx.core.fast against float64 formulas; derivatives against differences, vmap against loops."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

RNG = np.random.default_rng(0)
FLOATS = [mx.float16, mx.bfloat16, mx.float32, mx.float64]
EPSILON = 2.0**-16  # what float32 holds exactly
EPS = {mx.float16: 2e-3, mx.bfloat16: 2e-2, mx.float32: 2e-6, mx.float64: 1e-12}


def random(*shape, dtype=mx.float64, scale=1.0):
    return mx.array(RNG.normal(size=shape) * scale, dtype=mx.float64).astype(dtype)


def exact(a):
    return np.array(a.astype(mx.float64))


def close(got, want, dtype=None, factor=1):
    tolerance = factor * EPS[dtype or got.dtype]
    np.testing.assert_allclose(exact(got), want, rtol=tolerance, atol=tolerance)


def check_derivatives(f, *args, tolerance=1e-6, second=True):
    """vjp and jvp of f against central differences in float64; the jvp of the vjp likewise."""
    args = list(args)
    direction = [random(*a.shape) for a in args]
    step = 1e-5

    def along(g):
        up = [a + step * d for a, d in zip(args, direction)]
        down = [a - step * d for a, d in zip(args, direction)]
        return (exact(g(*up)) - exact(g(*down))) / (2 * step)

    y = f(*args)
    ct = random(*y.shape)
    want = along(f)
    _, (dy,) = mx.jvp(f, args, direction)
    np.testing.assert_allclose(exact(dy), want, rtol=tolerance, atol=tolerance)
    _, dx = mx.vjp(f, args, [ct])
    got = sum((exact(g) * exact(d)).sum() for g, d in zip(dx, direction))
    np.testing.assert_allclose(got, (exact(ct) * want).sum(), rtol=tolerance, atol=tolerance)
    if second:
        weight = [random(*a.shape) for a in args]

        def slope(*at):
            return sum((g * w).sum() for g, w in zip(mx.vjp(f, list(at), [ct])[1], weight))

        grads = mx.vjp(slope, args, [mx.array(1.0, dtype=mx.float64)])[1]
        got = sum((exact(g) * exact(d)).sum() for g, d in zip(grads, direction))
        (forward,) = mx.jvp(slope, args, direction)[1]
        np.testing.assert_allclose(
            [got, exact(forward)], [along(slope)] * 2, rtol=50 * tolerance, atol=50 * tolerance
        )


def check_vmap(f, args, axes, out_axis=0, tolerance=1e-10):
    n = next(a.shape[i] for a, i in zip(args, axes) if i is not None)
    rows = [
        f(*(a if i is None else mx.take(a, mx.array(k), axis=i) for a, i in zip(args, axes)))
        for k in range(n)
    ]
    got = mx.vmap(f, in_axes=tuple(axes), out_axes=out_axis)(*args)
    np.testing.assert_allclose(
        exact(got), np.stack([exact(r) for r in rows], out_axis), rtol=tolerance, atol=tolerance
    )


# ---- norms


def norm(x, w, b, eps, centered):
    x = x - x.mean(-1, keepdims=True) if centered else x
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return (y if w is None else y * w) + (0 if b is None else b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("n", [1, 3, 64, 1000, 4096, 9001])
def test_norms(dtype, n):
    x, w, b = random(3, 2, n, dtype=dtype), random(n, dtype=dtype), random(n, dtype=dtype)
    for weight in (None, w):
        close(
            mx.fast.rms_norm(x, weight, EPSILON),
            norm(exact(x), exact_or_none(weight), None, EPSILON, False),
            factor=4,
        )
        for bias in (None, b):
            want = norm(exact(x), exact_or_none(weight), exact_or_none(bias), EPSILON, True)
            got = mx.fast.layer_norm(x, weight, bias, EPSILON)
            assert got.dtype == dtype
            if n > 1:
                close(got, want, factor=4)


def exact_or_none(a):
    return None if a is None else exact(a)


def test_norms_of_other_layouts_and_types():
    x, w = random(4, 3, 5, dtype=mx.float32), random(4, dtype=mx.float32)
    close(
        mx.fast.layer_norm(x.T, w, None, EPSILON), norm(exact(x).T, exact(w), None, EPSILON, True)
    )
    close(
        mx.fast.rms_norm(x.T[::-1, 1:], w, EPSILON),
        norm(exact(x).T[::-1, 1:], exact(w), None, EPSILON, False),
    )
    assert mx.fast.rms_norm(mx.array([3, 4]), None, 0.0).tolist() == pytest.approx(
        [3 / 12.5**0.5, 4 / 12.5**0.5]
    )
    assert (
        mx.fast.rms_norm(x.astype(mx.float16), random(5, dtype=mx.float32), EPSILON).dtype
        == mx.float32
    )
    assert mx.fast.layer_norm(mx.zeros((0, 4)), w, w, EPSILON).shape == (0, 4)
    assert mx.fast.layer_norm(mx.zeros((4, 0)), None, None, EPSILON).shape == (4, 0)


def test_a_large_mean_does_not_spoil_the_variance():
    x = mx.array(RNG.normal(size=(2, 1024)) + 1000, dtype=mx.float32)
    np.testing.assert_allclose(
        exact(mx.fast.layer_norm(x, None, None, EPSILON)),
        norm(exact(x), None, None, EPSILON, True),
        atol=1e-4,
    )


def test_derivatives_of_norms():
    x, w, b = random(2, 3, 5), random(5), random(5)
    check_derivatives(lambda x, w: mx.fast.rms_norm(x, w, 1e-3), x, w)
    check_derivatives(lambda x: mx.fast.rms_norm(x, None, 1e-3), x)
    check_derivatives(lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-3), x, w, b)
    check_derivatives(lambda x, b: mx.fast.layer_norm(x, None, b, 1e-3), x, b)
    check_derivatives(lambda x: mx.fast.layer_norm(x, None, None, 1e-3), x)


@pytest.mark.parametrize("dtype", FLOATS[:3], ids=str)
def test_derivatives_of_norms_of_long_rows(dtype):
    x, w, ct = (random(*s, dtype=dtype) for s in ((2, 5000), (5000,), (2, 5000)))
    got = mx.vjp(lambda x, w: mx.fast.layer_norm(x, w, None, EPSILON), [x, w], [ct])[1]
    wide = [a.astype(mx.float64) for a in (x, w, ct)]
    want = mx.vjp(lambda x, w: mx.fast.layer_norm(x, w, None, EPSILON), wide[:2], wide[2:])[1]
    for g, h in zip(got, want):
        close(g, exact(h), dtype, 8)


def test_vmap_of_norms():
    x, w, b = random(3, 2, 4, 5), random(3, 5), random(5, 3)
    check_vmap(lambda x: mx.fast.layer_norm(x, w[0], None, EPSILON), [x], [1])
    check_vmap(lambda x: mx.fast.rms_norm(x, None, EPSILON), [x.moveaxis(0, 3)], [3])
    check_vmap(lambda x, w, b: mx.fast.layer_norm(x, w, b, EPSILON), [x, w, b], [0, 0, 1])
    check_vmap(lambda x, w, b: mx.fast.layer_norm(x, w, b, EPSILON), [x, w[0], b], [0, None, 1])
    check_vmap(lambda x, w: mx.fast.rms_norm(x, w, EPSILON), [x[0, 0, 0], w], [None, 0])
    check_vmap(
        lambda x, w: mx.grad(lambda x: mx.fast.rms_norm(x, w, EPSILON).square().sum() * 2)(x),
        [x, w],
        [0, 0],
    )


def test_errors_of_norms():
    x = mx.zeros((2, 3))
    for call in (
        lambda: mx.fast.rms_norm(mx.array(1.0), None, EPSILON),
        lambda: mx.fast.rms_norm(x, mx.ones(4), EPSILON),
        lambda: mx.fast.rms_norm(x, mx.ones((1, 3)), EPSILON),
        lambda: mx.fast.layer_norm(x, mx.ones(3), mx.ones(2), EPSILON),
        lambda: mx.fast.layer_norm(x.astype(mx.complex64), None, None, EPSILON),
    ):
        with pytest.raises(ValueError, match=r"\[(rms|layer)_norm\] expected"):
            call()


# ---- rope


def rope(x, dims, traditional, base, scale, offset, freqs=None):
    batch, length, half = x.shape[0], x.shape[-2], dims // 2
    position = (np.arange(length) + np.broadcast_to(offset, batch)[:, None]) * scale
    turns = 1 / freqs if freqs is not None else base ** -(np.arange(half) / half)
    angle = (position[..., None] * turns).reshape(batch, *[1] * (x.ndim - 3), length, half)
    c, s = np.cos(angle), np.sin(angle)
    y = x.copy()
    i, j = (
        (np.arange(0, dims, 2), np.arange(1, dims, 2))
        if traditional
        else (np.arange(half), np.arange(half, dims))
    )
    y[..., i] = x[..., i] * c - x[..., j] * s
    y[..., j] = x[..., i] * s + x[..., j] * c
    return y


@given(st.data())
def test_rope(data):
    draw = data.draw
    dtype = draw(st.sampled_from(FLOATS))
    shape = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 3)))]
    shape += [draw(st.integers(1, 40)), draw(st.sampled_from([2, 5, 8, 64]))]
    dims = draw(st.integers(1, shape[-1] // 2)) * 2
    traditional, scale = draw(st.booleans()), draw(st.sampled_from([1.0, 0.5]))
    freqs = random(dims // 2, dtype=mx.float32).square() + 1 if draw(st.booleans()) else None
    offset = draw(st.sampled_from([0, 7, 100000, "array", "batch"]))
    if offset == "array":
        offset = mx.array(3)
    elif offset == "batch":
        offset = mx.array(RNG.integers(0, 99, shape[0]), dtype=mx.int32)
    x = random(*shape, dtype=dtype)
    if draw(st.booleans()) and len(shape) > 3:
        x = x.swapaxes(1, 2)
    y = mx.fast.rope(
        x,
        dims,
        traditional=traditional,
        base=None if freqs is not None else 10000.0,
        scale=scale,
        offset=offset,
        freqs=freqs,
    )
    want = rope(exact(x), dims, traditional, 10000.0, scale, np.array(offset), exact_or_none(freqs))
    assert y.dtype == dtype
    close(y, want, factor=2)


def rotated(x, **options):
    return mx.fast.rope(
        x, 6, **{"traditional": False, "base": 100.0, "scale": 1.0, "offset": 2, **options}
    )


@pytest.mark.parametrize("traditional", [False, True])
def test_derivatives_of_rope(traditional):
    x, freqs = random(2, 3, 4, 7), random(3).square() + 1
    check_derivatives(lambda x: rotated(x, traditional=traditional), x)
    check_derivatives(lambda x: rotated(x, traditional=traditional, offset=mx.array([1, 5])), x)
    check_derivatives(
        lambda x, f: rotated(x, traditional=traditional, base=None, freqs=f),
        x,
        freqs,
        second=False,
        tolerance=EPSILON,
    )


def test_vmap_of_rope():
    x, freqs = random(2, 3, 4, 5, 6), random(6, 3).square() + 1
    check_vmap(rotated, [x], [1])
    check_vmap(lambda x, o: rotated(x, offset=o), [x, mx.array([1, 5])], [0, 0])
    check_vmap(lambda x, o: rotated(x, offset=o), [x, mx.array([[1, 5], [3, 4], [0, 8]])], [0, 1])
    check_vmap(lambda x, o: rotated(x, offset=o), [x, mx.array([1, 5, 3])], [0, None])
    check_vmap(lambda x, o: rotated(x, offset=o), [x[0], mx.array([1, 5, 3])], [None, 0])
    check_vmap(lambda x, f: rotated(x, base=None, freqs=f), [x, freqs[:2]], [0, 0], tolerance=1e-6)


def test_errors_of_rope():
    x = mx.zeros((2, 3, 8))
    for call in (
        lambda: rotated(x[0]),
        lambda: rotated(x.astype(mx.int32)),
        lambda: rotated(x[..., :5]),
        lambda: rotated(x, base=None),
        lambda: rotated(x, freqs=mx.ones(3)),
        lambda: rotated(x, base=None, freqs=mx.ones(4)),
        lambda: rotated(x, offset=mx.array(2.5)),
        lambda: rotated(x, offset=mx.array([1, 2, 3])),
        lambda: mx.fast.rope(x, 7, traditional=False, base=1.0, scale=1.0, offset=0),
        lambda: mx.fast.rope(x, 0, traditional=False, base=1.0, scale=1.0, offset=0),
    ):
        with pytest.raises(ValueError, match=r"\[rope\] expected"):
            call()


# ---- cross entropy


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cross_entropy(dtype):
    logits, targets = random(3, 2, 11, dtype=dtype, scale=5), mx.array([[0, 10], [3, -1], [7, 7]])
    x = exact(logits)
    want = (
        np.log(np.exp(x).sum(-1))
        - np.take_along_axis(x, np.array(targets)[..., None] % 11, -1)[..., 0]
    )
    got = mx.fast.cross_entropy(logits, targets)
    assert got.dtype == mx.float32
    np.testing.assert_allclose(np.array(got), want, rtol=2e-6, atol=2e-6)


def test_rules_of_cross_entropy():
    x, t = random(4, 5), mx.array([0, 4, 2, 2])
    slope = mx.grad(lambda x: mx.fast.cross_entropy(x, t).sum())(x)
    want = np.exp(exact(x)) / np.exp(exact(x)).sum(-1, keepdims=True) - np.eye(5)[np.array(t)]
    np.testing.assert_allclose(exact(slope), want, atol=1e-6)
    check_vmap(mx.fast.cross_entropy, [x, t], [0, 0])
    with pytest.raises(ValueError, match="cross_entropy"):
        mx.fast.cross_entropy(x, t[:3])
    with pytest.raises(ValueError, match="cross_entropy"):
        mx.fast.cross_entropy(x, t.astype(mx.float32))
    with pytest.raises(ValueError, match="cross_entropy"):
        mx.fast.cross_entropy(x.astype(mx.int32), t)
    with pytest.raises(IndexError):
        mx.eval(mx.fast.cross_entropy(x, mx.array([0, 5, 0, 0])))
