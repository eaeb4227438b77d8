"""mlx.core.fast against float64 formulas; derivatives against differences, vmap against loops."""

import os

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from process import passes_at_level, printed_by_threads

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
        np.testing.assert_allclose([got, exact(forward)], [along(slope)] * 2, rtol=50 * tolerance, atol=50 * tolerance)


def check_vmap(f, args, axes, out_axis=0, tolerance=1e-10):
    n = next(a.shape[i] for a, i in zip(args, axes) if i is not None)
    rows = [f(*(a if i is None else mx.take(a, mx.array(k), axis=i) for a, i in zip(args, axes))) for k in range(n)]
    got = mx.vmap(f, in_axes=tuple(axes), out_axes=out_axis)(*args)
    np.testing.assert_allclose(exact(got), np.stack([exact(r) for r in rows], out_axis), rtol=tolerance, atol=tolerance)


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
    close(mx.fast.layer_norm(x.T, w, None, EPSILON), norm(exact(x).T, exact(w), None, EPSILON, True))
    close(
        mx.fast.rms_norm(x.T[::-1, 1:], w, EPSILON),
        norm(exact(x).T[::-1, 1:], exact(w), None, EPSILON, False),
    )
    assert mx.fast.rms_norm(mx.array([3, 4]), None, 0.0).tolist() == pytest.approx([3 / 12.5**0.5, 4 / 12.5**0.5])
    assert mx.fast.rms_norm(x.astype(mx.float16), random(5, dtype=mx.float32), EPSILON).dtype == mx.float32
    assert mx.fast.layer_norm(mx.zeros((0, 4)), w, w, EPSILON).shape == (0, 4)
    assert mx.fast.layer_norm(mx.zeros((4, 0)), None, None, EPSILON).shape == (4, 0)


def test_a_large_mean_does_not_spoil_the_variance():
    x = mx.array(RNG.normal(size=(2, 1024)) + 1000, dtype=mx.float32)
    np.testing.assert_allclose(
        exact(mx.fast.layer_norm(x, None, None, EPSILON)),
        norm(exact(x), None, None, EPSILON, True),
        atol=1e-4,
    )


@pytest.mark.parametrize("n", [3, 16, 17, 33, 64, 100, 1023, 1025, 9001])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_norms_of_numbers_whose_squares_overflow(dtype, n):
    """Some of them, and all; the sum of a row need not be a float either."""
    for scale, part in ((1e30, slice(None)), (1e30, slice(0, 1)), (1e25, slice(n - 1, n)), (1e37, slice(None))):
        x, ct = random(2, n, dtype=dtype), random(2, n, dtype=dtype)
        x[:, part] = (exact(x)[:, part] + 1) * scale
        for f, centered in (
            (lambda x: mx.fast.rms_norm(x, None, EPSILON), False),
            (lambda x: mx.fast.layer_norm(x, None, None, EPSILON), True),
        ):
            close(f(x), norm(exact(x), None, None, EPSILON, centered), factor=8)
            for v, wide in ((ct, exact(ct)), (x, exact(x))):
                got = exact(mx.vjp(f, [x], [v])[1][0])
                want = exact(mx.vjp(f, [mx.array(exact(x), mx.float64)], [mx.array(wide, mx.float64)])[1][0])
                size = np.sqrt((exact(x) ** 2).mean(-1))
                spread = exact(x).std(-1) if centered else size
                largest = np.abs(wide).max() / spread.min() * (size / spread).max()
                np.testing.assert_allclose(got, want, rtol=20 * EPS[dtype], atol=20 * EPS[dtype] * largest)


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
    i, j = (np.arange(0, dims, 2), np.arange(1, dims, 2)) if traditional else (np.arange(half), np.arange(half, dims))
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
    return mx.fast.rope(x, 6, **{"traditional": False, "base": 100.0, "scale": 1.0, "offset": 2, **options})


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
    want = np.log(np.exp(x).sum(-1)) - np.take_along_axis(x, np.array(targets)[..., None] % 11, -1)[..., 0]
    got = mx.fast.cross_entropy(logits, targets)
    assert got.dtype == mx.float32
    np.testing.assert_allclose(np.array(got), want, rtol=2e-6, atol=2e-6)


def test_rules_of_cross_entropy(index_errors):
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


# ---- attention


def weights(q, k, scale, mask=None, sinks=None):
    """softmax(scale q k^T) in float64; masks as mx takes them."""
    group = q.shape[-3] // k.shape[-3]
    s = scale * q @ np.repeat(k, group, -3).swapaxes(-1, -2)
    if isinstance(mask, str):
        mask = np.tri(*s.shape[-2:], s.shape[-1] - s.shape[-2], dtype=bool)
    if mask is not None:
        s = np.where(mask, s, -3.4e38) if mask.dtype == bool else s + mask
    if sinks is not None:
        s = np.concatenate([np.broadcast_to(sinks[:, None, None], (*s.shape[:-1], 1)), s], -1)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return p if sinks is None else p[..., 1:]


def attend(q, k, v, *options):
    return weights(q, k, *options) @ np.repeat(v, q.shape[-3] // v.shape[-3], -3)


def sdpa(q, k, v, scale=0.5, mask=None, sinks=None):
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask, sinks=sinks)


def check_attention(q, k, v, scale=0.5, mask=None, sinks=None, factor=4):
    got = sdpa(q, k, v, scale, mask, sinks)
    numbers = (
        mask if mask is None or isinstance(mask, str) else np.array(mask) if mask.dtype == mx.bool_ else exact(mask)
    )
    want = attend(exact(q), exact(k), exact(v), scale, numbers, exact_or_none(sinks))
    assert got.dtype == q.dtype
    close(got, want, factor=factor)


def heads(b, n, m, t, s, d, e=None, dtype=mx.float32):
    return (
        random(b, n, t, d, dtype=dtype),
        random(b, m, s, d, dtype=dtype),
        random(b, m, s, e or d, dtype=dtype),
    )


@pytest.mark.parametrize("t", [3, 0])
def test_attention_of_no_queries_heads(t):
    q, k, v = heads(2, 0, 2, t, 5, 8)

    def f(q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5)

    assert f(q, k, v).shape == (2, 0, t, 8)
    assert mx.jvp(f, [q, k, v], [q, k, v])[1][0].shape == (2, 0, t, 8)
    gradients = mx.grad(lambda *x: mx.jvp(f, x, x)[1][0].sum(), argnums=(0, 1, 2))(q, k, v)
    assert [g.shape for g in gradients] == [q.shape, k.shape, v.shape]
    assert all(mx.all(g == 0) for g in gradients)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1, 1, 1, 1, 1),
        (2, 4, 2, 5, 7, 8, 6),
        (1, 2, 2, 70, 70, 64),
        (2, 3, 1, 33, 600, 16),
        (1, 8, 2, 1, 1500, 32),
        (1, 8, 8, 1, 5, 20, 3),
        (2, 4, 1, 2, 513, 16),
        (1, 2, 1, 300, 250, 24),
    ],
    ids=str,
)
@pytest.mark.parametrize("mask", [None, "causal", "bool", "additive", "sinks"])
def test_attention(shape, mask, dtype):
    q, k, v = heads(*shape, dtype=dtype)
    scores, sinks = (*shape[:2], *shape[3:5]), None
    if mask == "bool":
        mask = random(*scores) > -0.5
    elif mask == "additive":
        mask = random(*scores, dtype=dtype)
    elif mask == "sinks":
        mask, sinks = "causal", random(shape[1], dtype=dtype)
    check_attention(q, k, v, 0.25, mask, sinks)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_attention_of_bfloat16_over_blocks_of_keys(mask):
    """By the units for pairs of numbers, where there are any (tests of every level)."""
    for shape in [(1, 4, 2, 100, 777, 72, 40), (2, 2, 2, 257, 257, 33, 17), (1, 1, 1, 31, 256, 64)]:
        q, k, v = heads(*shape, dtype=mx.bfloat16)
        check_attention(q, k, v, q.shape[-1] ** -0.5, mask, None)


def test_a_value_of_bfloat16_that_few_queries_see():
    q, k, v = heads(1, 2, 2, 90, 300, 64, dtype=mx.bfloat16)
    v[:, :, -3] = float("inf")
    y = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal")
    assert mx.all(mx.isfinite(y[:, :, :-3])) and not mx.any(mx.isfinite(y[:, :, -3:]))


@pytest.mark.skipif("MLX_CPU" in os.environ, reason="is one of them")
@pytest.mark.parametrize("level", ["avx512", "avx512_bf16", "amx"])
def test_every_level_of_instructions(level):
    """Where the machine has them; otherwise the next below."""
    passes_at_level(__file__, level)


@given(st.data())
def test_masks_of_every_shape(data):
    draw = data.draw
    b, n, t, s = (draw(st.integers(1, 3)) for _ in range(4))
    t, s = t * draw(st.sampled_from([1, 30])), s * draw(st.sampled_from([1, 130]))
    q, k, v = heads(b, 2 * n, n, t, s, 8)
    whole = [b, 2 * n, t, s]
    shape = [draw(st.sampled_from([1, size])) for size in whole][draw(st.integers(0, 4)) :]
    numbers = random(*shape)
    mask = numbers > -1 if draw(st.booleans()) else numbers.astype(draw(st.sampled_from([mx.float32, mx.float16])))
    if len(shape) > 1 and draw(st.booleans()):
        mask = mx.contiguous(mask.swapaxes(-1, -2)).swapaxes(-1, -2)
    check_attention(q, k, v, 0.5, mask)


def test_attention_of_other_layouts():
    q, k, v = (random(2, t, n, 16, dtype=mx.float32).swapaxes(1, 2) for t, n in ((40, 4), (300, 2), (300, 2)))
    check_attention(q, k, v, 0.3, "causal")
    check_attention(q[:, :, :1], k, v, 0.3)
    check_attention(q[..., ::-1], k[:, :, ::2], v[:, :, ::2])
    check_attention(random(2, 4, 16, 40, dtype=mx.float32).swapaxes(2, 3), k, v)


def test_rows_that_see_no_key():
    q, k, v = heads(1, 2, 1, 30, 20, 8)
    # As with scores that are all the lowest number: the mean of the values.
    y = sdpa(q, k, v, mask="causal")
    np.testing.assert_allclose(exact(y)[0, :, :10], np.broadcast_to(exact(v).mean(2), (2, 10, 8)), atol=1e-6)
    y = sdpa(q, k, v, mask=mx.zeros((30, 20), dtype=mx.bool_))
    np.testing.assert_allclose(exact(y)[0], np.broadcast_to(exact(v).mean(2), (2, 30, 8)), atol=1e-6)
    y = sdpa(q, k, v, mask=mx.zeros((30, 20), dtype=mx.bool_), sinks=mx.zeros(2))
    assert not exact(y).any()
    assert np.isnan(np.array(sdpa(q, k, v, mask=mx.full((30, 20), -mx.inf)))).all()
    mask = np.where(np.tri(30, 20, 0, dtype=bool), 0, -np.inf)
    check_attention(q, k, v, 0.5, mx.array(mask, dtype=mx.float32))


@pytest.mark.parametrize("t, s, d", [(1, 5, 8), (3, 5, 64), (70, 130, 64), (300, 300, 128)])
def test_derivatives_of_rows_without_weights(t, s, d):
    """Such a row is NaN, and all values get that back from it; what other rows give to queries and keys stays."""
    q, k, v = heads(1, 2, 1, t, s, d)
    row = t // 2
    mask = mx.where(mx.arange(t)[:, None] == row, -mx.inf, mx.zeros((t, s)))
    y, slopes = mx.vjp(lambda *x: sdpa(*x, mask=mask), [q, k, v], [mx.ones((1, 2, t, d))])
    without = [i for i in range(t) if i != row]
    assert np.isnan(np.array(y[0])[:, :, row]).all() and np.isnan(np.array(slopes[2])).all()
    dq = np.array(slopes[0])
    assert not dq[:, :, row].any()
    if not without:
        assert not np.array(slopes[1]).any()
        return
    rest = mx.array(without)
    want = mx.vjp(sdpa, [q[:, :, rest], k, v], [mx.ones((1, 2, len(without), d))])[1]
    np.testing.assert_allclose(dq[:, :, without], np.array(want[0]), atol=1e-5)
    want = np.array(want[1])
    np.testing.assert_allclose(np.array(slopes[1]), want, atol=max(1e-4, 1e-5 * np.abs(want).max()))


def test_large_scores_do_not_overflow():
    q, k, v = heads(1, 1, 1, 40, 500, 8)
    check_attention(q * 100, k * 100, v, 1.0, factor=3000)
    check_attention(q[:, :, :1] * 100, k * 100, v, 1.0, factor=3000)


def test_attention_does_not_depend_on_the_number_of_threads():
    q, k, v = heads(2, 4, 2, 100, 700, 32)
    once = [np.array(sdpa(q[:, :, :n], k, v, mask="causal")) for n in (1, 100)]
    for row in range(2):
        assert np.array_equal(
            np.array(sdpa(q[row : row + 1], k[row : row + 1], v[row : row + 1], mask="causal"))[0],
            once[1][row],
        )


@pytest.mark.parametrize("mask", [None, "causal", "bool", "sinks"])
@pytest.mark.parametrize("shape", [(2, 2, 1, 3, 4, 3), (1, 2, 2, 2, 2, 3, 5), (1, 4, 2, 1, 6, 4)], ids=str)
def test_derivatives_of_attention(shape, mask):
    q, k, v = heads(*shape, dtype=mx.float64)
    if mask == "sinks":
        check_derivatives(lambda *x: sdpa(*x[:3], sinks=x[3]), q, k, v, random(shape[1]), tolerance=1e-6)
    else:
        mask = random(*shape[3:5]) > -1 if mask == "bool" else mask
        check_derivatives(lambda *x: sdpa(*x, mask=mask), q, k, v)


def test_derivatives_by_additive_masks():
    q, k, v = heads(2, 2, 1, 3, 4, 3, dtype=mx.float64)
    check_derivatives(lambda q, m: sdpa(q, k, v, mask=m), q, random(2, 1, 3, 4))
    check_derivatives(lambda m: sdpa(q, k, v, mask=m), random(4))


def attention_slopes(q, k, v, ct, *options):
    p, group = weights(q, k, *options), q.shape[1] // k.shape[1]
    scale, (b, m, s, d) = options[0], k.shape
    wide_k, wide_v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    dp = ct @ wide_v.swapaxes(-1, -2)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    by_group = [(b, m, group, s, x) for x in (d, v.shape[-1])]
    dk, dv = ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ ct
    return ds @ wide_k, dk.reshape(by_group[0]).sum(2), dv.reshape(by_group[1]).sum(2)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mask", [None, "causal", "bool", "additive", "sinks"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 2, 2, 70, 70, 64),
        (2, 3, 1, 33, 600, 16, 24),
        (1, 4, 2, 300, 310, 8),
        (1, 2, 2, 40, 50, 5),
        (1, 2, 1, 250, 490, 72, 40),
        (17, 4, 4, 90, 100, 33),
    ],
    ids=str,
)
def test_slopes_of_attention(shape, mask, dtype):
    q, k, v = heads(*shape, dtype=dtype)
    ct, sinks, numbers = random(*q.shape[:3], v.shape[-1], dtype=dtype), None, mask
    if mask == "bool":
        mask = random(*shape[3:5]) > -0.5
        numbers = np.array(mask)
    elif mask == "additive":
        mask = random(*shape[:2], *shape[3:5], dtype=dtype)
        numbers = exact(mask)
    elif mask == "sinks":
        mask, sinks, numbers = None, random(shape[1], dtype=dtype), None
    got = mx.vjp(lambda *x: sdpa(*x, 0.25, mask, sinks), [q, k, v], [ct])[1]
    want = attention_slopes(*map(exact, (q, k, v, ct)), 0.25, numbers, exact_or_none(sinks))
    for g, w in zip(got, want):
        assert g.dtype == dtype
        np.testing.assert_allclose(exact(g), w, rtol=8 * EPS[dtype], atol=8 * EPS[dtype] * np.abs(w).max())


SLOPES = """
import hashlib
import mlx.core as mx
h = hashlib.sha256()
for b, n, m, t, s, d in ((1, 2, 1, 300, 310, 24), (3, 4, 4, 130, 140, 20), (1, 1, 1, 40, 1500, 8)):
    q, k, v, ct = (mx.random.normal(z, key=mx.random.key(i)) for i, z in enumerate(
        ((b, n, t, d), (b, m, s, d), (b, m, s, d), (b, n, t, d))))
    for mask in (None, "causal", mx.random.bernoulli(0.5, (t, s), key=mx.random.key(9))):
        f = lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=mask)
        y, dx = mx.vjp(f, [q, k, v], [ct])
        for a in (*y, *dx):
            h.update(bytes(memoryview(a)))
print(h.hexdigest())
"""


def test_slopes_of_attention_do_not_depend_on_threads():
    assert len(printed_by_threads(SLOPES)) == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(2, 70), (8, 600), (20, 70), (64, 64), (300, 310), (33, 20)], ids=str)
def test_keys_that_are_not_seen_do_not_count(sizes, dtype):
    """Nor do infinities in their K and V; queries before all keys see all of them."""
    (length, keys), rng = sizes, np.random.default_rng(5)
    q, k, v, ct = (rng.normal(size=(1, *s)) for s in ((2, length, 8), (1, keys, 8), (1, keys, 5), (2, length, 5)))
    last = np.arange(length) + keys - length

    def results(k, v):
        x, y = ([mx.array(u, mx.float64).astype(dtype) for u in part] for part in ((q, k, v), (ct,)))
        f = lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5, mask="causal")  # noqa: E731
        y, dx = mx.vjp(f, x, y)
        return exact(y[0]), exact(dx[0])

    clean, clean_slope = results(k, v)
    for key in {max(keys - length, 0) + 1, keys // 2, keys - 2, keys - 1}:
        sees = (last >= key) | (last < 0)
        for value in (np.inf, -np.inf, np.nan):
            wild = v.copy()
            wild[0, 0, key, 3] = value
            y, slope = results(k, wild)
            want = clean.copy()
            want[:, :, sees, 3] = value
            close(mx.array(y, mx.float64), want, dtype)
            close(mx.array(slope[:, :, ~sees], mx.float64), clean_slope[:, :, ~sees], dtype, 4)
            wild = k.copy()
            wild[0, 0, key, 3] = value
            y, slope = results(wild, v)
            close(mx.array(y[:, :, ~sees], mx.float64), clean[:, :, ~sees], dtype)
            close(mx.array(slope[:, :, ~sees], mx.float64), clean_slope[:, :, ~sees], dtype, 4)


def test_vmap_of_attention():
    q, k, v = (mx.stack(x) for x in zip(*(heads(2, 4, 2, 5, 6, 3, dtype=mx.float64) for _ in range(3))))
    check_vmap(sdpa, [q, k, v], [0, 0, 0])
    check_vmap(sdpa, [q[0], mx.moveaxis(k, 0, 2), v], [None, 2, 0])
    check_vmap(lambda q, m: sdpa(q, k[0], v[0], mask=m), [q, random(3, 5, 6) > 0], [0, 0])
    check_vmap(lambda s: sdpa(q[0], k[0], v[0], sinks=s), [random(4, 3)], [1])
    check_vmap(
        lambda q, k: mx.grad(lambda k: sdpa(q, k, v[0], mask="causal").square().sum())(k),
        [q, k],
        [0, 0],
    )


def test_errors_of_attention():
    q, k, v = heads(2, 4, 2, 5, 7, 8)
    for call in (
        lambda: sdpa(q[0], k[0], v[0]),
        lambda: sdpa(q[:, :3], k, v),
        lambda: sdpa(q[:1], k, v),
        lambda: sdpa(q, k[..., :7], v),
        lambda: sdpa(q, k, v[:, :, :6]),
        lambda: sdpa(q, k, v, mask="diagonal"),
        lambda: sdpa(q, k, v, mask=mx.ones((5, 6))),
        lambda: sdpa(q, k, v, mask=mx.ones((1, 1, 1, 5, 7))),
        lambda: sdpa(q, k, v, mask=mx.ones((5, 7), dtype=mx.float64)),
        lambda: sdpa(q, k, v, sinks=mx.ones(2)),
        lambda: sdpa(q.astype(mx.int32), k.astype(mx.int32), v.astype(mx.int32)),
        lambda: sdpa(q.astype(mx.complex64), k, v),
    ):
        with pytest.raises(ValueError, match=r"\[scaled_dot_product_attention\] expected"):
            call()
    with pytest.raises(TypeError, match="mask"):
        sdpa(q, k, v, mask=1.5)


# ---- gated delta networks


def delta(q, k, v, gamma, beta, state=None, mask=None):
    b, t, n, e = v.shape
    q, k = np.repeat(q, n // k.shape[2], 2), np.repeat(k, n // k.shape[2], 2)
    s = np.zeros((b, n, e, k.shape[3])) if state is None else state
    gamma = gamma[..., None] if gamma.ndim == 3 else gamma
    out = np.zeros((b, t, n, e))
    for i in range(t):
        faded = s * gamma[:, i, :, None]
        d = (v[:, i] - np.einsum("bned,bnd->bne", faded, k[:, i])) * beta[:, i, :, None]
        new = faded + d[..., None] * k[:, i, :, None]
        on = np.ones(b, dtype=bool) if mask is None else mask[:, i]
        out[:, i] = np.einsum("bned,bnd->bne", new, q[:, i]) * on[:, None, None]
        s = np.where(on[:, None, None, None], new, s)
    return out, s


def delta_arrays(b, t, h, n, d, e, dtype=mx.float32, wide_gamma=False):
    q, k = random(b, t, h, d, dtype=dtype, scale=0.3), random(b, t, h, d, dtype=dtype, scale=0.3)
    gamma = mx.sigmoid(random(*((b, t, n, d) if wide_gamma else (b, t, n)))).astype(dtype)
    return q, k, random(b, t, n, e, dtype=dtype), gamma, mx.sigmoid(random(b, t, n)).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("wide_gamma", [False, True])
def test_gated_delta_update(wide_gamma, dtype):
    x = delta_arrays(2, 7, 2, 4, 20, 9, dtype, wide_gamma)
    wide = [exact(a) for a in x]
    y, s = mx.fast.gated_delta_update(*x)
    want = delta(*wide)
    assert y.dtype == dtype and s.dtype == (mx.float64 if dtype == mx.float64 else mx.float32)
    close(y, want[0], factor=2)
    close(s, want[1], factor=2)
    state, mask = random(2, 4, 9, 20, dtype=s.dtype), mx.array(RNG.random((2, 7)) > 0.4)
    y, s = mx.fast.gated_delta_update(*x, state, mask)
    want = delta(*wide, exact(state), np.array(mask))
    close(y, want[0], factor=2)
    close(s, want[1], factor=2)


def test_rules_of_gated_delta_update():
    x = delta_arrays(2, 3, 1, 2, 3, 4, mx.float64)
    state, mask = random(2, 2, 4, 3), mx.array([[True, False, True], [True, True, True]])
    for i in range(2):
        check_derivatives(lambda *x, i=i: mx.fast.gated_delta_update(*x, mask=mask)[i], *x, state, second=False)
    more = [mx.stack(a) for a in zip(*(delta_arrays(2, 3, 1, 2, 3, 4, mx.float64) for _ in range(3)))]
    check_vmap(lambda *x: mx.fast.gated_delta_update(*x)[0], more, [0] * 5)
    check_vmap(lambda v: mx.fast.gated_delta_update(*x[:2], v, *x[3:])[1], [more[2]], [0])


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("wide_gamma", [False, True])
@pytest.mark.parametrize("steps", [5, 33, 70])
def test_derivatives_of_gated_delta_update(steps, wide_gamma, masked):
    """Beside a loop over the steps: of parts of a chunk, whole ones and several, with states that are forgotten."""
    q, k, v, gamma, beta = delta_arrays(2, steps, 1, 2, 6, 5, mx.float64, wide_gamma)
    gamma = mx.where(gamma < 0.3, 0, gamma)
    state, mask = random(2, 2, 5, 6), mx.array(RNG.random((2, steps)) > 0.3) if masked else None
    x, y_ct, s_ct = (q, k, v, gamma, beta, state), random(*v.shape), random(*state.shape)

    def loop(q, k, v, gamma, beta, s):
        gamma, out = gamma if wide_gamma else gamma[..., None], []
        for t in range(steps):
            kt, faded = mx.repeat(k[:, t], 2, 1), s * gamma[:, t, :, None]
            d = (v[:, t] - (faded @ kt[..., None])[..., 0]) * beta[:, t, :, None]
            on = True if mask is None else mask[:, t, None, None]
            new = faded + d[..., None] * kt[:, :, None]
            out.append(mx.where(on, (new @ mx.repeat(q[:, t], 2, 1)[..., None])[..., 0], 0))
            s = new if mask is None else mx.where(on[..., None], new, s)
        return [mx.stack(out, 1), s]

    def update(*x):
        return list(mx.fast.gated_delta_update(*x, mask=mask))

    got, want = (mx.vjp(f, x, [y_ct, s_ct])[1] + mx.jvp(f, x, x)[1] for f in (update, loop))
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-13 * np.abs(b).max())


def test_errors_of_gated_delta_update():
    q, k, v, gamma, beta = delta_arrays(2, 3, 2, 4, 3, 4)
    update = mx.fast.gated_delta_update
    for call in (
        lambda: update(q[0], k[0], v[0], gamma[0], beta[0]),
        lambda: update(q, k, v[:, :, :3], gamma, beta),
        lambda: update(q[:, :2], k, v, gamma, beta),
        lambda: update(q, k, v, gamma[:1], beta),
        lambda: update(q, k, v, gamma, beta[:, :, :2]),
        lambda: update(q, k, v, gamma, beta, mx.zeros((2, 4, 3, 4))),
        lambda: update(q, k, v, gamma, beta, None, mx.ones((2, 4))),
        lambda: update(q, k, v.astype(mx.int32), gamma, beta),
    ):
        with pytest.raises(ValueError, match=r"\[gated_delta_update\] expected"):
            call()


@pytest.mark.parametrize("mask", [None, "causal", "array"])
@pytest.mark.parametrize("queries, keys", [(1, 5), (3, 64), (3, 100), (9, 64), (40, 40)])
def test_attention_of_heads_without_elements(queries, keys, mask):
    """All scores are 0, whatever memory held before."""
    value = np.random.default_rng(0).standard_normal((1, 2, keys, 8)).astype(np.float32)
    seen = np.ones((queries, keys), bool)
    if mask == "causal":
        seen = np.tril(seen, keys - queries)
    elif mask == "array":
        seen[:, ::3] = False
        mask = mx.array(seen)
    want = seen / seen.sum(-1, keepdims=True) @ value
    for _ in range(3):
        mx.eval([mx.full((n,), 7.0 + n) for n in (5, 64, 100, 256, 4096)])
        q, k = mx.zeros((1, 2, queries, 0)), mx.zeros((1, 2, keys, 0))
        got = mx.fast.scaled_dot_product_attention(q, k, mx.array(value), scale=1.0, mask=mask)
        np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(70, 70), (5, 90), (260, 300), (40, 25)], ids=str)
def test_gradients_of_keys_that_a_query_does_not_see(dtype, sizes):
    """What is not finite in a query or its cotangent spoils what that query sees; for all else it may be anything."""
    length, keys = sizes
    rng = np.random.default_rng(length)
    q, k, v, ct = (rng.normal(size=(1, 2, n, 8)) for n in (length, keys, keys, length))

    def gradients(q, ct):
        def f(k, v):
            return mx.fast.scaled_dot_product_attention(of(q), k, v, scale=0.5, mask="causal")

        return [exact(x) for x in mx.vjp(f, [of(k), of(v)], [of(ct)])[1]]

    def of(x):
        return mx.array(x, mx.float64).astype(dtype)

    want = gradients(q, ct)
    for t in (length // 3, length // 2, length - 1):
        last = t + keys - length
        for which, value in ((0, np.inf), (1, -np.inf), (1, np.nan)):
            x = [q.copy(), ct.copy()]
            x[which][0, 1, t, 3] = value
            if last < 0:  # it sees nothing, and then all alike
                continue
            for got, finite in zip(gradients(*x), want):
                np.testing.assert_array_equal(got[0, 0], finite[0, 0])
                close(of(got[0, 1, last + 1 :]), finite[0, 1, last + 1 :], factor=8)
                assert not np.isfinite(got[0, 1, : last + 1]).all(-1).any()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(5, 8), (70, 16), (150, 64)], ids=str)
@pytest.mark.parametrize("mask", [None, "causal"])
@pytest.mark.parametrize("value", [np.nan, np.inf], ids=str)
def test_gradients_of_a_query_that_is_no_number(dtype, sizes, mask, value):
    """Its own are none, nor are those of what it sees; all others are as without it."""
    length, d = sizes
    rng = np.random.default_rng(length)
    q, *others, ct = (rng.normal(size=(1, 2, length, d)) for _ in range(4))
    x = [mx.array(u, mx.float64).astype(dtype) for u in (q, *others, ct)]
    q[0, 1, length // 2, 3] = value

    def f(*x):
        return mx.fast.scaled_dot_product_attention(*x, scale=0.5, mask=mask)

    (y,), want = mx.vjp(f, x[:3], x[3:])
    (got_y,), got = mx.vjp(f, [mx.array(q, mx.float64).astype(dtype), *x[1:3]], x[3:])
    seen = length if mask is None else length // 2 + 1
    for a, b, spoiled in zip((got_y, *got), (y, *want), [length // 2, length // 2, slice(seen), slice(seen)]):
        a, b = exact(a), exact(b)
        assert np.isnan(a[0, 1, spoiled]).all()
        a[0, 1, spoiled] = b[0, 1, spoiled]
        np.testing.assert_array_equal(np.isfinite(a), True)
        if spoiled == length // 2:  # a GPU makes scores beside what is no number in another way
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_sinks_without_keys():
    """All results are 0 then, and so are all gradients."""
    q, none, sinks = mx.ones((1, 2, 3, 4)), mx.zeros((1, 2, 0, 4)), mx.array([0.5, -1.0])

    def attend(q, k, v, sinks):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, sinks=sinks)

    y, gradients = mx.vjp(attend, [q, none, none, sinks], [mx.ones((1, 2, 3, 4))])
    for x in (y[0], *gradients):
        np.testing.assert_array_equal(exact(x), 0)
