"""Attention on a GPU, beside the formula in float64 and the same on the CPU; skipped where there is none."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import FLOATS, launches

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
# What a weight or a result of the type is rounded to, relative to it.
UNIT = {mx.float16: 2.0**-11, mx.bfloat16: 2.0**-8, mx.float32: 2.0**-24, mx.float64: 2.0**-53}
attention = mx.fast.scaled_dot_product_attention


def normal(dtype, *shape, seed=0):
    r = np.random.default_rng([seed, *shape])
    with mx.stream(mx.cpu):
        x = mx.array(r.standard_normal(shape), mx.float64).astype(dtype)
        mx.eval(x)
    return x


def operands(dtype, batch=1, heads=2, kv=2, length=5, keys=9, d=16, e=None):
    e = d if e is None else e
    return [
        normal(dtype, batch, heads, length, d),
        normal(dtype, batch, kv, keys, d, seed=1),
        normal(dtype, batch, kv, keys, e, seed=2),
    ]


def wide(x):
    with mx.stream(mx.cpu):
        return np.array(x.astype(mx.float64))


def formula(q, k, v, scale, mask=None, sinks=None):
    """The result, and the sum of what its terms amount to."""
    q, k, v = wide(q), wide(k), wide(v)
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = scale * q @ k.swapaxes(-1, -2)
    lowest = -np.finfo(np.float32).max
    if isinstance(mask, str):
        t = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        s = np.where(np.arange(k.shape[2]) <= t, s, lowest)
    elif mask is not None and mask.dtype == mx.bool_:
        s = np.where(np.array(mask), s, lowest)
    elif mask is not None:
        s = s + wide(mask)
    if sinks is not None:
        first = np.broadcast_to(wide(sinks)[:, None, None], (*s.shape[:3], 1))
        s = np.concatenate([first, s], -1)
    p = np.exp(s - s.max(-1, keepdims=True))
    p = (p / p.sum(-1, keepdims=True))[..., s.shape[-1] - k.shape[2] :]
    return p @ v, p @ np.abs(v)


def close(q, k, v, views=lambda *x: x, **more):
    """Within the rounding of weights and of the result, and that of the exponents of weights, of the formula; and as
    near to the CPU."""
    scale = max(q.shape[-1], 1) ** -0.5
    with mx.stream(mx.cpu):
        there = attention(*views(q, k, v), scale=scale, **more)
        x = views(q, k, v)
        mx.eval(there, x)
    with mx.stream(mx.gpu):
        here = attention(*views(q, k, v), scale=scale, **more)
        mx.eval(here)
    assert here.dtype == q.dtype and here.shape == there.shape
    want, terms = formula(*x, scale, **more)
    unit = UNIT[q.dtype]
    bound = (3 * unit + 32 * min(unit, 2.0**-24)) * terms + 1e-300
    for got in (wide(here), wide(there)):
        assert np.all(np.abs(got - want) <= bound), np.max(np.abs(got - want) / bound)


# rows of queries few and many, keys about the edges of tiles, one piece and several
LENGTHS = [(1, 1), (1, 9), (2, 70), (3, 600), (5, 9), (17, 17), (64, 64), (65, 63), (130, 200), (20, 600), (4, 2)]
LENGTHS += [(70, 600)]  # pieces of keys that end within a tile


@pytest.mark.parametrize("length, keys", LENGTHS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_lengths(dtype, length, keys):
    close(*operands(dtype, length=length, keys=keys))
    if length <= keys:
        close(*operands(dtype, length=length, keys=keys), mask="causal")


@pytest.mark.parametrize("d, e", [(64, 64), (80, 80), (96, 96), (128, 128), (256, 256)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_heads(dtype, d, e):
    for length in (1, 20):
        close(*operands(dtype, length=length, keys=70, d=d, e=e))


@pytest.mark.parametrize(
    "d, e", [(1, 1), (3, 7), (20, 12), (8, 130), (72, 64), (100, 260), (300, 40), (520, 513)], ids=str
)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float64], ids=str)
def test_odd_heads(dtype, d, e):
    for length in (2, 20):
        close(*operands(dtype, length=length, keys=70, d=d, e=e))


@pytest.mark.parametrize(
    "length, keys, d, e",
    [(33, 65, 256, 256), (65, 33, 256, 256), (65, 100, 200, 260), (40, 600, 129, 3), (70, 40, 20, 140)],
    ids=str,
)
def test_large_heads(length, keys, d, e):
    """Of more queries, those of both heads, than a tile has of those that are for heads of up to 128."""
    x = operands(mx.float32, kv=1, length=length, keys=keys, d=d, e=e)
    close(*x, sinks=normal(mx.float32, 2, seed=3))
    if length <= keys:
        close(*x, mask="causal")
    for mask in (np.random.default_rng(1).random((2, length, keys)) < 0.7, np.linspace(-2, 2, keys, dtype=np.float32)):
        with mx.stream(mx.cpu):
            mask = mx.array(mask)
            mx.eval(mask)
        close(*x, mask=mask)


@pytest.mark.parametrize("length", [1, 3, 40], ids=str)
@pytest.mark.parametrize("heads, kv", [(4, 1), (8, 2), (6, 3), (9, 1)], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16], ids=str)
def test_groups(dtype, heads, kv, length):
    x = operands(dtype, batch=2, heads=heads, kv=kv, length=length, keys=70, d=64)
    close(*x)
    close(*x, mask="causal")
    close(*x, sinks=normal(dtype, heads, seed=3))


def masks(dtype, batch, heads, length, keys):
    """Of each kind and layout."""
    r = np.random.default_rng(7)
    for shape in [(keys,), (length, 1), (length, keys), (batch, 1, 1, keys), (1, heads, length, keys)]:
        yes = r.random(shape) < 0.6
        yield mx.array(yes)
        yield normal(dtype, *shape, seed=5)
    yield mx.array(r.random((keys, length)) < 0.6).T
    yield mx.repeat(normal(dtype, length, keys, seed=6), 2, 1)[:, ::2]
    yield mx.array(r.integers(0, 256, (length, keys)).astype(np.uint8) & 6).view(mx.bool_)


@pytest.mark.parametrize("length, keys", [(1, 70), (3, 600), (20, 70), (130, 65), (40, 300)], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_masks(dtype, length, keys):
    with mx.stream(mx.cpu):
        all_masks = list(masks(dtype, 2, 4, length, keys))
        mx.eval(all_masks)
    x = operands(dtype, batch=2, heads=4, length=length, keys=keys, d=32)
    for mask in all_masks:
        if mask.dtype == mx.bool_ and not np.array(mask).any():
            continue
        close(*x, mask=mask)
    close(*x, mask=all_masks[4], sinks=normal(dtype, 4, seed=3))
    close(*x, sinks=normal(dtype, 4, seed=3))


VIEWS = {
    "length before heads": lambda *x: [mx.contiguous(v.swapaxes(1, 2)).swapaxes(1, 2) for v in x],
    "one of three": lambda *x: [mx.concatenate([v] * 3, -1)[..., : v.shape[-1]] for v in x],
    "odd offset": lambda *x: [mx.concatenate([v] * 2, -1)[..., 1 : v.shape[-1] + 1] for v in x],
    "every other row": lambda *x: [mx.repeat(v, 2, 2)[:, :, ::2] for v in x],
    "backwards": lambda *x: [v[:, ::-1, ::-1] for v in x],
    "turned": lambda *x: [mx.contiguous(v.swapaxes(2, 3)).swapaxes(2, 3) for v in x],
    "every other element": lambda *x: [mx.repeat(v, 2, 3)[..., ::2] for v in x],
    "one head": lambda *x: [mx.broadcast_to(v[:, :1], v.shape) for v in x],
    "one row": lambda *x: [mx.broadcast_to(v[:, :, :1], v.shape) for v in x],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("length", [2, 20], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.float64], ids=str)
def test_layouts(dtype, length, view):
    close(*operands(dtype, batch=2, length=length, keys=70, d=32), views=VIEWS[view])


def test_batches_of_batches():
    """As mapped functions have them, their axes anywhere and some operands in all."""
    q, k, v = (
        normal(mx.float32, 2, 3, 1, 4, 5, 8),
        normal(mx.float32, 3, 1, 2, 70, 8),
        normal(mx.float32, 2, 1, 2, 70, 8),
    )

    def f(q, k, v):
        return attention(q, k, v, scale=0.5, mask="causal")

    mapped = mx.vmap(mx.vmap(f, (0, 0, None)), (0, None, 0))
    with mx.stream(mx.gpu):
        here = mapped(q, k, v)
        mx.eval(here)
    for i, j in itertools.product(range(2), range(3)):
        with mx.stream(mx.cpu):
            there = f(q[i, j], k[j], v[i])
        assert np.allclose(wide(here)[i, j], wide(there), rtol=1e-5, atol=1e-5)
    deep = f
    for axis in (0, 1, 2, 0, 1, 0):  # the innermost first
        deep = mx.vmap(deep, (axis, None, axis))
    r = np.random.default_rng(4)
    x = [
        r.standard_normal((*(2,) * 6, 1, 4, 5, 8)),
        r.standard_normal((1, 2, 9, 8)),
        r.standard_normal((*(2,) * 6, 1, 2, 9, 8)),
    ]
    results = []
    for s in (mx.cpu, mx.gpu):
        with mx.stream(s):
            results.append(wide(deep(*(mx.array(v.astype(np.float32)) for v in x))))
    assert np.allclose(*results, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 20], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float64], ids=str)
def test_rows_that_see_nothing(dtype, length):
    """Those weigh all keys alike, and those after which -inf was added are no number, as on the CPU."""
    q, k, v = operands(dtype, length=length, keys=70)
    nothing = np.arange(length) == length - 1
    for mask in (mx.array(~nothing[:, None]), mx.array(np.where(nothing, -np.inf, 0)[:, None]).astype(dtype)):
        here, there = (wide(attention(q, k, v, scale=0.25, mask=mask, stream=s)) for s in (mx.gpu, mx.cpu))
        assert np.allclose(here, there, rtol=4 * UNIT[dtype], atol=4 * UNIT[dtype], equal_nan=True)
        assert np.isnan(here[:, :, -1]).all() == (mask.dtype != mx.bool_)
        if mask.dtype == mx.bool_:
            assert np.allclose(here[:, :, -1], wide(v).mean(2), rtol=0, atol=4 * UNIT[dtype])
    if length > 2:
        q, k, v = operands(dtype, length=length, keys=7)  # the first 13 queries are before all keys
        here, there = (wide(attention(q, k, v, scale=0.25, mask="causal", stream=s)) for s in (mx.gpu, mx.cpu))
        assert np.allclose(here, there, rtol=4 * UNIT[dtype], atol=4 * UNIT[dtype])
        assert np.allclose(here[:, :, 0], wide(v).mean(2), rtol=0, atol=4 * UNIT[dtype])


@pytest.mark.parametrize("length, d", [(1, 16), (1, 100), (1, 140), (20, 16), (20, 100), (20, 140), (70, 140)], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_special_numbers(dtype, length, d):
    """An infinity or a NaN in K or V or Q spoils what it spoils on the CPU."""
    for which, value in itertools.product(range(3), (np.inf, -np.inf, np.nan)):
        x = [wide(v) for v in operands(dtype, length=length, keys=70, d=d)]
        x[which][0, 0, 0, 3] = value
        with mx.stream(mx.cpu):
            x = [mx.array(v, mx.float64).astype(dtype) for v in x]
            mx.eval(x)
        here, there = (wide(attention(*x, scale=0.25, stream=s)) for s in (mx.gpu, mx.cpu))
        assert np.array_equal(np.isnan(here), np.isnan(there))
        assert np.array_equal(here[np.isinf(there)], there[np.isinf(there)])
    q, k, v = operands(dtype, length=min(length, 20), keys=70)
    for value in (-np.inf, np.inf, np.nan):
        with mx.stream(mx.cpu):
            sinks = mx.array([value, 0.5]).astype(dtype)
            mx.eval(sinks)
        here, there = (wide(attention(q, k, v, scale=0.25, sinks=sinks, stream=s)) for s in (mx.gpu, mx.cpu))
        assert np.allclose(here, there, rtol=4 * UNIT[dtype], atol=4 * UNIT[dtype], equal_nan=True)


@pytest.mark.parametrize("length, d", [(20, 16), (20, 100), (20, 140), (70, 140)], ids=str)
def test_numbers_of_all_sizes(length, d):
    """The largest float32, and others whose products are not large."""
    q, k, v = (wide(x) for x in operands(mx.float32, length=length, keys=70, d=d))
    v[0, 0, 5, 3] = v[0, 1, 66, 1] = np.finfo(np.float32).max
    v[0, 0, 3, 7] = -np.finfo(np.float32).max
    with mx.stream(mx.cpu):
        x = [mx.array(u, mx.float64).astype(mx.float32) for u in (q * 1e-30, k * 1e30, v)]
        mx.eval(x)
    close(*x)
    close(*x, mask="causal")


UNSEEN = [(*sizes, d) for d in (16, 100) for sizes in [(3, 70), (1, 300), (20, 70), (70, 70), (130, 300), (33, 20)]]


@pytest.mark.parametrize(
    "dtype, sizes",
    [*itertools.product(FLOATS, UNSEEN), (mx.float32, (70, 70, 140)), (mx.float32, (90, 40, 256))],
    ids=str,
)
def test_infinities_in_what_is_not_seen(dtype, sizes):
    """They spoil the results and the queries' gradients of those that see them, as on the CPU, and no others."""
    length, keys, d = sizes
    q, k, v = operands(dtype, length=length, keys=keys, heads=4, d=d)
    ct = normal(dtype, *q.shape[:3], d, seed=3)
    last = np.arange(length) + keys - length

    def results(k, v, stream):
        with mx.stream(stream):
            y, dx = mx.vjp(lambda q, k, v: attention(q, k, v, scale=0.25, mask="causal"), [q, k, v], [ct])
            return wide(y[0]), wide(dx[0])

    for key, value in ((min(max(keys - length, 0) + 1, keys - 1), np.inf), (keys // 2, -np.inf), (keys - 1, np.nan)):
        sees = (last >= key) | (last < 0)
        for which in (0, 1):
            x = [wide(k), wide(v)]
            x[which][0, 1, key, 3] = value
            with mx.stream(mx.cpu):
                x = [mx.array(u, mx.float64).astype(dtype) for u in x]
                mx.eval(x)
            here, there = results(*x, mx.gpu), results(*x, mx.cpu)
            for a, b in zip(here, there):
                assert np.isfinite(a[:, :, ~sees]).all() and np.isfinite(a[:, :2]).all()
                np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
                np.testing.assert_array_equal(a[np.isinf(b)], b[np.isinf(b)])
                near = 64 * UNIT[dtype]
                finite = np.isfinite(b)
                np.testing.assert_allclose(
                    a[finite], b[finite], rtol=near, atol=near * np.abs(b[finite]).max(initial=1)
                )


def test_nothing():
    for sizes in [{"keys": 0}, {"length": 0}, {"batch": 0}, {"e": 0}, {"d": 0}, {"keys": 0, "length": 1}]:
        x = operands(mx.float32, **sizes)
        here, there = (wide(attention(*x, scale=0.25, stream=s)) for s in (mx.gpu, mx.cpu))
        assert here.shape == there.shape and np.allclose(here, there, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("length", [1, 40], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_again(dtype, length):
    x = operands(dtype, length=length, keys=700, d=64)
    with mx.stream(mx.gpu):
        y = attention(*x, scale=0.25)
        assert all(mx.array_equal(attention(*x, scale=0.25), y).item() for _ in range(3))


@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_pieces_are_merged_by_the_last_block(dtype, d):
    """One launch, which leaves its counts as they were."""
    x = operands(dtype, length=1, keys=1000, d=d)
    mx.eval(x)
    with mx.stream(mx.gpu):
        for _ in range(3):
            y, n = launches(lambda: attention(*x, scale=0.125))
            assert n in (None, 1)
            assert np.allclose(wide(y), wide(attention(*x, scale=0.125, stream=mx.cpu)), atol=0.02)


def test_many_pieces_are_merged_by_another_launch():
    """Those of several rows, which one block would be long at."""
    x = operands(mx.bfloat16, heads=8, length=1, keys=1000, d=64)
    mx.eval(x)
    with mx.stream(mx.gpu):
        y, n = launches(lambda: attention(*x, scale=0.125))
        assert n in (None, 2)
        assert np.allclose(wide(y), wide(attention(*x, scale=0.125, stream=mx.cpu)), atol=0.02)


def test_scores_that_leave_the_least_weights():
    """Weights below the least normal number, times values."""
    for seed in range(6):
        r = np.random.default_rng(seed)
        q, k, v = (mx.array((r.standard_normal((1, 1, 32, 32)) * s).astype(np.float32)) for s in (8, 8, 1))
        here, there = (wide(attention(q, k, v, scale=32**-0.5, stream=s)) for s in (mx.gpu, mx.cpu))
        assert np.allclose(here, there, rtol=1e-3, atol=1e-3)


def back(x, ct, scale, mask, sinks):
    """Cotangents by the formula, in float64."""
    q, k, v, ct = (wide(a) for a in (*x, ct))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = scale * q @ k.swapaxes(-1, -2)
    seen = np.ones(s.shape, bool)
    if isinstance(mask, str):
        seen &= np.arange(k.shape[2]) <= np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    elif mask is not None and mask.dtype == mx.bool_:
        seen &= np.array(mask)
    elif mask is not None:
        s = s + wide(mask)
    s = np.where(seen, s, -np.inf)
    first = np.broadcast_to(wide(sinks)[:, None, None] if sinks is not None else -np.inf, (*s.shape[:3], 1))
    s = np.concatenate([first, s], -1)
    p = np.exp(s - np.maximum(s.max(-1, keepdims=True), -1e300))
    p = p / np.maximum(p.sum(-1, keepdims=True), 1e-300)
    dp = np.concatenate([np.zeros(first.shape), ct @ v.swapaxes(-1, -2)], -1)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True))
    dsinks, ds, p = ds[..., 0].sum((0, 2)), ds[..., 1:], p[..., 1:]
    heads = (q.shape[0], q.shape[1] // group, group, k.shape[2])
    dk = (scale * ds.swapaxes(-1, -2) @ q).reshape(*heads, q.shape[3]).sum(2)
    dv = (p.swapaxes(-1, -2) @ ct).reshape(*heads, v.shape[3]).sum(2)
    return [scale * ds @ k, dk, dv, *([dsinks] if sinks is not None else [])]


def close_back(x, mask=None, sinks=None):
    ct = normal(x[0].dtype, *x[0].shape[:3], x[2].shape[3], seed=9)
    scale = max(x[0].shape[-1], 1) ** -0.5
    more = [] if sinks is None else [sinks]

    def f(q, k, v, *s):
        return attention(q, k, v, scale=scale, mask=mask, sinks=s[0] if s else None)

    with mx.stream(mx.gpu):
        results = mx.vjp(f, [*x, *more], [ct])[1]
        mx.eval(results)
    unit = max(UNIT[x[0].dtype], 2.0**-24 if x[0].dtype != mx.float64 else 0)
    for got, want in zip(results, back(x, ct, scale, mask, sinks)):
        largest = np.max(np.abs(want), initial=0)
        assert np.allclose(wide(got), want, rtol=4 * unit, atol=(8 if unit > 2.0**-20 else 64) * unit * max(largest, 1))


@pytest.mark.parametrize("length, keys", [(1, 9), (20, 70), (65, 63), (130, 150), (4, 2)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_derivatives(dtype, length, keys):
    x = operands(dtype, batch=2, heads=4, length=length, keys=keys, d=32, e=24)
    close_back(x)
    if length <= keys:
        close_back(x, mask="causal")
    close_back(x, sinks=normal(dtype, 4, seed=3))
    with mx.stream(mx.cpu):
        mask = mx.array(np.random.default_rng(1).random((2, 1, 1, keys)) < 0.7)
        mask = mx.logical_or(mask, mx.arange(keys) == 1)
        mx.eval(mask)
    close_back(x, mask=mask)
    close_back(x, mask=normal(dtype, length, keys, seed=5), sinks=normal(dtype, 4, seed=3))


@pytest.mark.parametrize(
    "d, e", [(64, 64), (128, 128), (256, 256), (1, 1), (3, 7), (20, 12), (8, 130), (160, 5), (260, 72)], ids=str
)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float64], ids=str)
def test_derivatives_of_heads(dtype, d, e):
    close_back(operands(dtype, length=20, keys=70, d=d, e=e))


TILES = [*itertools.product([mx.float16, mx.bfloat16], [(64, 64), (72, 96), (128, 112)])]
TILES += itertools.product([mx.float32], [(128, 112), (256, 200)])


@pytest.mark.parametrize("dtype, sizes", TILES, ids=str)
def test_derivatives_of_tiles(dtype, sizes):
    """Several tiles of queries and of keys, whose edges are in the middle of heads that share keys."""
    d, e = sizes
    x = operands(dtype, heads=3, kv=1, length=90, keys=140, d=d, e=e)
    close_back(x)
    close_back(x, mask="causal", sinks=normal(dtype, 3, seed=3))
    with mx.stream(mx.cpu):
        seen = mx.array(np.random.default_rng(1).random((3, 90, 140)) < 0.7)
        mx.eval(seen)
    close_back(x, mask=seen)
    close_back(x, mask=normal(dtype, 90, 140, seed=5))


@pytest.mark.parametrize("d", [64, 128])
def test_derivatives_of_many_tiles(d):
    """More of them than shared memory has places for."""
    x = operands(mx.bfloat16, length=70, keys=400, d=d)
    close_back(x, mask="causal")
    close_back(operands(mx.bfloat16, length=400, keys=400, d=d), mask="causal")


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_derivatives_of_large_scores(dtype):
    """Weights of rows whose scores are all far from 0; what is behind the edges of tiles has none."""
    for sign in (8, -8):
        q, k, v = operands(dtype, length=50, keys=70, d=64)
        with mx.stream(mx.cpu):
            q, k = sign * mx.abs(q), 4 * mx.abs(k)
            mx.eval(q, k)
        close_back([q, k, v])
        close_back([q, k, v], mask="causal")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16], ids=str)
def test_derivatives_of_layouts(dtype, view):
    x = operands(dtype, batch=2, length=20, keys=70, d=32)
    with mx.stream(mx.cpu):
        x = VIEWS[view](*x)
        mx.eval(x)
    close_back(x)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float64], ids=str)
def test_derivatives_of_rows_that_see_nothing(dtype):
    q, k, v = operands(dtype, length=20, keys=70)
    ct = normal(dtype, 1, 2, 20, 16, seed=9)
    nothing = np.arange(20) == 3
    for mask in (mx.array(~nothing[:, None]), mx.array(np.where(nothing, -np.inf, 0)[:, None]).astype(dtype), "causal"):
        keys = 7 if isinstance(mask, str) else 70
        results = []
        for s in (mx.gpu, mx.cpu):
            with mx.stream(s):
                f = lambda *x: attention(*x, scale=0.25, mask=mask)  # noqa: B023, E731
                results.append([wide(g) for g in mx.vjp(f, [q, k[:, :, :keys], v[:, :, :keys]], [ct])[1]])
        for here, there in zip(*results):
            assert np.allclose(here, there, rtol=4 * UNIT[dtype], atol=32 * UNIT[dtype], equal_nan=True)


def test_derivatives_of_nothing():
    for sizes in [{"keys": 0}, {"length": 0}, {"batch": 0}, {"e": 0}, {"d": 0}]:
        close_back(operands(mx.float32, **sizes))


@pytest.mark.parametrize("dtype, d", [(mx.bfloat16, 64), (mx.float32, 256)], ids=str)
def test_derivatives_again(dtype, d):
    x = operands(dtype, length=70, keys=130, d=d)
    ct = normal(dtype, 1, 2, 70, d, seed=9)
    with mx.stream(mx.gpu):
        results = [mx.vjp(lambda *x: attention(*x, scale=0.25, mask="causal"), x, [ct])[1] for _ in range(3)]
        for other in results[1:]:
            assert all(mx.array_equal(a, b).item() for a, b in zip(results[0], other))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(3, 70, 16), (70, 70, 100), (150, 150, 64), (30, 70, 140)], ids=str)
@pytest.mark.parametrize("mask", [None, "causal"])
def test_gradients_of_a_query_that_is_no_number(dtype, sizes, mask):
    """Its own are none, nor are those of what it sees, and no others."""
    length, keys, d = sizes
    x = [wide(u) for u in operands(dtype, length=length, keys=keys, d=d)]
    ct, t = normal(dtype, 1, 2, length, d, seed=3), length // 2
    x[0][0, 1, t, 3] = np.nan
    with mx.stream(mx.cpu):
        x = [mx.array(u, mx.float64).astype(dtype) for u in x]
        mx.eval(x)
    with mx.stream(mx.gpu):
        got = [wide(g) for g in mx.vjp(lambda *x: attention(*x, scale=0.25, mask=mask), x, [ct])[1]]
    seen = keys if mask is None else t + keys - length + 1
    for g, spoiled in zip(got, [slice(t, t + 1), slice(seen), slice(seen)]):
        want = np.zeros(g.shape, bool)
        want[0, 1, spoiled] = True
        np.testing.assert_array_equal(np.isnan(g), want)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(3, 70, 16), (70, 70, 100), (130, 200, 16), (33, 20, 16), (30, 70, 140)], ids=str)
def test_infinities_in_queries_that_see_a_part(dtype, sizes):
    """They spoil the gradients of the keys and values that these queries see, as on the CPU, and of no others."""
    length, keys, d = sizes
    given = operands(dtype, length=length, keys=keys, heads=4, d=d)
    ct = normal(dtype, *given[0].shape[:3], d, seed=3)

    def results(x, ct, stream):
        with mx.stream(stream):
            f = lambda k, v: attention(x[0], k, v, scale=0.25, mask="causal")  # noqa: E731
            return [wide(y) for y in mx.vjp(f, x[1:], [ct])[1]]

    for t, value in ((0, np.inf), (length // 2, -np.inf), (length - 1, np.inf), (length // 2, np.nan)):
        last = t + keys - length
        scores = last > 3 and np.isinf(value)  # of both signs: where all are lowest, all keys have one weight
        for which in (0, 1) if scores else (1,):
            x = [wide(given[0]), wide(ct)]
            x[which][0, 1, t, 3] = value
            with mx.stream(mx.cpu):
                x = [mx.array(u, mx.float64).astype(dtype) for u in x]
                mx.eval(x)
            here, there = (results([x[0], *given[1:]], x[1], s) for s in (mx.gpu, mx.cpu))
            for a, b in zip(here, there):
                if last >= 0:
                    assert np.isfinite(a[:, :, last + 1 :]).all()
                    assert not np.isfinite(a[0, 0 if a.shape[1] < 4 else 1, last]).all()
                np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
                np.testing.assert_array_equal(a[np.isinf(b)], b[np.isinf(b)])
                near, finite = 64 * UNIT[dtype], np.isfinite(b)
                np.testing.assert_allclose(
                    a[finite], b[finite], rtol=near, atol=near * np.abs(b[finite]).max(initial=1)
                )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(1, 3, 2), (33, 40, 64), (129, 129, 64), (31, 40, 128), (128, 128, 128)], ids=str)
@pytest.mark.parametrize("mask", [None, "causal"])
def test_gradients_of_a_key_that_has_no_weight(dtype, sizes, mask):
    """One of whose elements is -inf, where all queries are above 0: its gradients are 0, however tiles end."""
    length, keys, d = sizes
    q, ct = mx.ones((1, 1, length, d), dtype), normal(dtype, 1, 1, length, d, seed=3)
    k, v = (normal(dtype, 1, 1, keys, d, seed=i) * 0.1 for i in (1, 2))
    k[0, 0, 1, 0] = -float("inf")
    mx.eval(q, k, v, ct)
    with mx.stream(mx.gpu):
        y, (_, dk, dv) = mx.vjp(lambda *x: attention(*x, scale=0.25, mask=mask), [q, k, v], [ct])
        got = [wide(x) for x in (y[0], dk, dv)]
    assert all(np.isfinite(x).all() for x in got)
    for x in got[1:]:
        np.testing.assert_array_equal(x[0, 0, 1], 0)
