"""Normalization of rows and of groups of channels, forward and back, beside NumPy in float64: every type, sizes around
those of registers, tiles and pieces; again with each set of instructions, and with other numbers of threads."""

import os

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from process import passes_at_level, printed_by_threads

EPS = {mx.float16: 1e-3, mx.bfloat16: 8e-3, mx.float32: 1.2e-7, mx.float64: 2.3e-16}
FLOATS = list(EPS)
SIZES = [1, 2, 3, 5, 8, 15, 17, 33, 64, 100, 129, 513, 4100]


def random(*shape, dtype, seed=0, scale=1.0, shift=0.0):
    """Numbers of this type, and the same as float64."""
    x = np.random.default_rng(seed).standard_normal(shape) * scale + shift
    a = mx.array(x, mx.float64).astype(dtype)
    return a, wide(a)


def wide(x):
    return np.array(x.astype(mx.float64))


def close(got, want, dtype, factor=20):
    """As close as sums of numbers of the size of `want` can be."""
    assert got.dtype == dtype and got.shape == want.shape
    size = max(np.abs(want).max(initial=0), 1)
    np.testing.assert_allclose(wide(got), want, rtol=4 * EPS[dtype], atol=factor * EPS[dtype] * size)


# ---- rows


def rows_back(x, c, w, centered, eps=1e-5):
    mean = x.mean(-1, keepdims=True) if centered else 0
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + eps)
    z = (x - mean) * rstd
    v = c * w
    d = v - z * (v * z).mean(-1, keepdims=True) - (v.mean(-1, keepdims=True) if centered else 0)
    flat = tuple(range(x.ndim - 1))
    return d * rstd, (c * z).sum(flat), c.sum(flat)


def rows_and_their_derivatives(dtype, rows, n):
    x, x64 = random(rows, n, dtype=dtype, shift=0.5)
    c, c64 = random(rows, n, dtype=dtype, seed=1)
    w, w64 = random(n, dtype=dtype, seed=2)
    b = mx.zeros(n, dtype)
    layer, rms = rows_back(x64, c64, w64, True), rows_back(x64, c64, w64, False)
    plain = rows_back(x64, c64, 1, True)

    def check(f, args, *want):
        for g, h in zip(mx.vjp(f, args, [c])[1], want, strict=True):
            close(g, h, dtype, 20 + (rows + n) ** 0.5)

    check(lambda x, w: mx.fast.rms_norm(x, w, 1e-5), [x, w], rms[0], rms[1])
    check(lambda x: mx.fast.rms_norm(x, w, 1e-5), [x], rms[0])
    if n <= 2:  # rows of two numbers are 1 and -1 whatever they are, and their derivatives differences
        return
    check(lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5), [x, w, b], *layer)
    check(lambda x, b: mx.fast.layer_norm(x, None, b, 1e-5), [x, b], plain[0], plain[2])
    check(lambda x, b: mx.fast.layer_norm(x, w, b, 1e-5), [x, b], layer[0], layer[2])  # the weight is frozen
    check(lambda w: mx.fast.layer_norm(x, w, b, 1e-5), [w], layer[1])


@pytest.mark.parametrize("rows", [1, 3, 37, 300])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_goes_back_through_rows(dtype, rows):
    for n in SIZES:
        if rows * n <= 200_000:
            rows_and_their_derivatives(dtype, rows, n)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_goes_back_through_rows_of_other_layouts(dtype):
    x, x64 = random(33, 4, 6, dtype=dtype)
    c, c64 = random(6, 4, 33, dtype=dtype, seed=1)
    w, w64 = random(66, dtype=dtype, seed=2)
    got = mx.vjp(lambda x, w: mx.fast.layer_norm(x.T, w[::-2], w[::-2], 1e-5), [x, w], [c])[1]
    dx, dw, db = rows_back(x64.T, c64, w64[::-2], True)
    close(got[0], dx.T, dtype)
    want = np.zeros(66)
    want[::-2] = dw + db
    close(got[1], want, dtype, 40)
    for shape in ((0, 5), (5, 0), (2, 0, 3)):
        n = shape[-1]
        w = mx.ones(n, dtype)
        got = mx.vjp(
            lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5), [mx.zeros(shape, dtype), w, w], [mx.zeros(shape)]
        )
        assert [g.shape for g in got[1]] == [shape, (n,), (n,)]
        assert not wide(got[1][1]).any() and not wide(got[1][2]).any()


def test_sums_over_many_rows_keep_their_digits():
    """Sums over rows that nearly cancel: what is left is as good as sums in double of numbers of float32 are."""
    x, x64 = random(40_000, 16, dtype=mx.float32)
    c, c64 = random(40_000, 16, dtype=mx.float32, seed=1)
    w = mx.ones(16)
    _, dw, db = rows_back(x64, c64, 1, True)
    got = mx.vjp(lambda w, x, b: mx.fast.layer_norm(x, w, b, 1e-5), [w, x, w], [c])[1]
    assert np.abs(wide(got[0]) - dw).max() < 2e-4 and np.abs(wide(got[2]) - db).max() < 2e-4


# ---- groups of channels


def grouped(x, groups, neighbours, whole):
    """x with what is averaged over in the axes 1 and 3 of (items or 1, places, groups, members), and the way back."""
    items, channels = x.shape[0], x.shape[-1]
    y = x.reshape(1 if whole else items, -1, channels)
    size = channels // groups
    y = y.reshape(*y.shape[:2], *((groups, size) if neighbours else (size, groups)))
    y = y if neighbours else y.swapaxes(2, 3)

    def back(z):
        z = np.broadcast_to(z, y.shape)
        return (z if neighbours else z.swapaxes(2, 3)).reshape(x.shape)

    return y, back


def groups_of_numpy(x, w, b, groups, neighbours, whole, eps, c=None):
    """y, mean and var; with a cotangent c what goes back to x, w and b."""
    y, back = grouped(x.astype(np.longdouble), groups, neighbours, whole)
    mean, var = y.mean((1, 3), keepdims=True), y.var((1, 3), keepdims=True)
    rstd = 1 / np.sqrt(var + eps)
    z = back((y - mean) * rstd)
    if c is None:
        return [v.astype(np.float64) for v in (z * w + b, mean[:, 0, :, 0], var[:, 0, :, 0])]
    flat = tuple(range(x.ndim - 1))
    v, _ = grouped(c * w, groups, neighbours, whole)
    u, _ = grouped(z, groups, neighbours, whole)
    d = rstd * (v - v.mean((1, 3), keepdims=True) - u * (u * v).mean((1, 3), keepdims=True))
    return [v.astype(np.float64) for v in (back(d), (c * z).sum(flat), c.sum(flat))]


CASES = [  # shape, groups
    ((3, 6), 3),
    ((2, 5, 6), 2),
    ((2, 3, 4, 6), 6),
    ((2, 9, 7, 40), 8),
    ((5, 70, 17), 17),
    ((1, 130, 96), 32),
    ((2, 3, 300, 72), 9),
    ((2, 65, 1030), 5),
    ((2, 3, 1200), 600),
    ((1, 4000, 24), 4),
    ((6, 10, 10, 64), 32),
    ((40, 3, 2), 1),
]


@pytest.mark.parametrize("whole", [False, True], ids=["items", "whole"])
@pytest.mark.parametrize("neighbours", [False, True], ids=["apart", "neighbours"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_groups(dtype, neighbours, whole):
    stats = mx.float64 if dtype == mx.float64 else mx.float32
    for shape, groups in CASES:
        x, x64 = random(*shape, dtype=dtype, scale=3, shift=2)
        w, w64 = random(shape[-1], dtype=dtype, seed=1)
        b, b64 = random(shape[-1], dtype=dtype, seed=2)
        y, mean, var = mx._group_norm(x, w, b, groups, neighbours, whole, 1e-3)
        want = groups_of_numpy(x64, w64, b64, groups, neighbours, whole, 1e-3)
        close(y, want[0], dtype)
        close(mean, want[1], stats)
        close(var, want[2], stats, 100)
        (y, _, _) = mx._group_norm(x, None, None, groups, neighbours, whole, 1e-3)
        close(y, groups_of_numpy(x64, 1, 0, groups, neighbours, whole, 1e-3)[0], dtype)
        if groups == shape[-1]:
            again = mx._group_norm(x, None, None, 0, neighbours, whole, 1e-3)[0]
            assert np.array_equal(wide(again), wide(y))


@pytest.mark.parametrize("whole", [False, True], ids=["items", "whole"])
@pytest.mark.parametrize("neighbours", [False, True], ids=["apart", "neighbours"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_what_goes_back_through_groups(dtype, neighbours, whole):
    for shape, groups in [*CASES[1:-1], ((70, 5, 8), 2), ((5, 1700, 24), 3), ((9, 40, 2), 1)]:
        x, x64 = random(*shape, dtype=dtype, scale=3, shift=2)
        c, c64 = random(*shape, dtype=dtype, seed=3)
        w, w64 = random(shape[-1], dtype=dtype, seed=1)

        def f(x, w, b, groups=groups):
            return mx._group_norm(x, w, b, groups, neighbours, whole, 1e-3)[0]

        got = mx.vjp(f, [x, w, mx.zeros(shape[-1], dtype)], [c])[1]
        want = groups_of_numpy(x64, w64, 0, groups, neighbours, whole, 1e-3, c64)
        for g, h in zip(got, want):
            close(g, h, dtype, 60)
        for some in ((0, 1), (0, 2), (1, 2)):
            for k, g in zip(some, mx.grad(lambda *a, f=f, c=c: (f(*a) * c).sum(), some)(x, w, mx.zeros_like(w))):
                close(g, want[k], dtype, 60)


@pytest.mark.parametrize("whole", [False, True], ids=["items", "whole"])
def test_what_goes_back_to_some_operands(whole):
    """Of any layout, over memory that is not needed any more, and of nothing."""
    x, x64 = random(10, 5, 40, dtype=mx.float32)
    c, c64 = random(40, 10, 5, dtype=mx.float32, seed=3)
    w, w64 = random(20, dtype=mx.float32, seed=1)
    f = lambda x, *wb: mx._group_norm(x, *wb, 5, True, whole, 1e-3)[0]  # noqa: E731
    got = mx.vjp(f, [x.T[::-1], w[::2], w[10:]], [c.transpose(0, 2, 1)])[1]
    want = groups_of_numpy(x64.T[::-1], w64[::2], 0, 5, True, whole, 1e-3, c64.transpose(0, 2, 1))
    for g, h in zip(got, want):
        close(g, h, mx.float32, 60)
    h = lambda x, b: mx._group_norm(x, None, b, 5, True, whole, 1e-3)[0]  # noqa: E731
    want = groups_of_numpy(x64.T, 1, 0, 5, True, whole, 1e-3, c64.transpose(0, 2, 1))
    got = mx.vjp(h, [mx.contiguous(x.T) * 1, w[10:] * 1], [mx.contiguous(c.transpose(0, 2, 1)) * 1])[1]
    close(got[0], want[0], mx.float32, 60)
    close(got[1], want[2], mx.float32, 60)
    one = mx.vjp(lambda x: f(x * 1, None, None), [mx.ones((3, 5))], [mx.arange(15.0).reshape(3, 5)])[1][0]
    close(one, groups_of_numpy(np.ones((3, 5)), 1, 0, 5, True, whole, 1e-3, np.arange(15.0).reshape(3, 5))[0],
          mx.float32, 60)  # fmt: skip
    for shape in ((0, 3, 5), (2, 0, 5)):
        dx, dw, db = mx.vjp(f, [mx.zeros(shape), w[:5], w[5:10]], [mx.zeros(shape)])[1]
        assert dx.shape == shape and not mx.any(dw) and not mx.any(db)


@pytest.mark.parametrize("alone", [False, True], ids=["all", "alone"])
@pytest.mark.parametrize("whole", [False, True], ids=["items", "whole"])
@pytest.mark.parametrize("groups, neighbours", [(0, False), (3, False), (3, True)])
def test_derivatives_of_groups_beside_differences(groups, neighbours, whole, alone):
    """Of all three results, or of the first alone, and of those derivatives."""
    x, w, b = (random(*s, dtype=mx.float64, seed=i)[0] for i, s in enumerate([(2, 2, 2, 6), (6,), (6,)]))
    c = [random(*s, dtype=mx.float64, seed=5)[0] for s in [(2, 2, 2, 6), *[(1 if whole else 2, groups or 6)] * 2]]
    t = [random(*a.shape, dtype=mx.float64, seed=9 + i)[0] for i, a in enumerate((x, w, b))]

    def value(*args):
        parts = mx._group_norm(*args, groups, neighbours, whole, 0.1)
        return sum((y * k).sum() for y, k in zip(parts[:1] if alone else parts, c))

    def slope(*args):
        return sum((g * k).sum() for g, k in zip(mx.grad(value, (0, 1, 2))(*args), t))

    for f in (value, slope):
        h = 1e-5
        ahead, behind = ([a + s * h * d for a, d in zip((x, w, b), t)] for s in (1, -1))
        want = (f(*ahead) - f(*behind)).item() / (2 * h)
        back = sum((g * d).sum().item() for g, d in zip(mx.grad(f, (0, 1, 2))(x, w, b), t))
        forward = mx.jvp(f, [x, w, b], t)[1][0].item()
        np.testing.assert_allclose([back, forward], [want, want], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("whole", [False, True], ids=["items", "whole"])
@pytest.mark.parametrize("axes", [(0, None, None), (2, None, None), (1, 1, 0), (None, 0, None)], ids=str)
def test_batches_of_groups(axes, whole):
    full = [random(*s, dtype=mx.float64, seed=i)[0] for i, s in enumerate([(2, 4, 6), (6,), (6,)])]
    args = [a if k is None else mx.stack([a, a * 2 + 1, mx.sin(a)], axis=k) for a, k in zip(full, axes)]

    def f(x, w, b):
        return mx._group_norm(x, w, b, 3, False, whole, 1e-3)

    def back(x, w, b):
        return mx.grad(lambda *a: (f(*a)[0] ** 3).sum(), (0, 1, 2))(x, w, b)

    for g in (f, back):
        got = mx.vmap(g, in_axes=axes)(*args)
        each = [g(*(a if k is None else mx.take(a, i, axis=k) for a, k in zip(args, axes))) for i in range(3)]
        for k, y in enumerate(got):
            np.testing.assert_allclose(wide(y), np.stack([wide(e[k]) for e in each]), rtol=1e-9, atol=1e-9)


def test_groups_of_other_layouts_and_types():
    x, x64 = random(8, 5, 40, dtype=mx.float32)
    w, w64 = random(16, dtype=mx.float32, seed=1)
    y = mx._group_norm(x.T[::-1, 1:], w[::-2], None, 4, True, False, 1e-5)[0]
    close(y, groups_of_numpy(x64.T[::-1, 1:], w64[::-2], 0, 4, True, False, 1e-5)[0], mx.float32)
    half = x.astype(mx.float16)
    assert mx._group_norm(half, mx.ones(40), None, 4, True, False, 1e-5)[0].dtype == mx.float32
    assert mx._group_norm(half, mx.ones(40, mx.float16), None, 4, True, False, 1e-5)[0].dtype == mx.float16
    assert mx._group_norm(mx.array([[1, 3]]), None, None, 1, True, False, 0.0)[0].tolist() == [[-1, 1]]
    for shape, groups in (((0, 3, 4), 2), ((2, 0, 4), 2), ((2, 3, 0), 0)):
        for whole in (False, True):
            y, mean, var = mx._group_norm(mx.zeros(shape), None, None, groups, False, whole, 1e-5)
            assert y.shape == shape
            assert mean.shape == var.shape == (1 if whole else shape[0], groups or shape[-1])
            assert np.isnan(np.array(mean)).all() and np.isnan(np.array(var)).all()


def test_groups_far_from_zero():
    """Whose squares have nothing left of their differences, and of which the first places are unlike the others."""
    x, x64 = random(2, 3000, 8, dtype=mx.float32, shift=3000)
    close(mx._group_norm(x, None, None, 4, True, False, 0.0)[0], groups_of_numpy(x64, 1, 0, 4, True, False, 0)[0],
          mx.float32, 1000)  # fmt: skip
    x64[:, :64] = 0
    y, _, var = mx._group_norm(mx.array(x64, mx.float32), None, None, 4, True, False, 0.0)
    want = groups_of_numpy(x64, 1, 0, 4, True, False, 0)
    np.testing.assert_allclose(wide(var), want[2], rtol=1e-6)
    for value in (np.inf, np.nan):
        x64[0, 5, 3] = value
        y = wide(mx._group_norm(mx.array(x64, mx.float32), None, None, 4, True, False, 1e-5)[0])
        assert (
            np.isnan(y[0, :, 2:4]).all() and np.isfinite(np.delete(y[0], [2, 3], -1)).all() and np.isfinite(y[1]).all()
        )


def test_errors_of_groups():
    x = mx.zeros((2, 3, 4))
    for args, what in (
        ((mx.zeros(4), None, None, 2), r"expected x \(items, ..., channels\).*\(4,?\)"),
        ((x, None, None, 3), "a multiple of 3 groups"),
        ((mx.zeros((2, 3, 0)), None, None, 2), "a multiple of 2 groups"),
        ((x, None, None, -1), "a number of groups, or 0"),
        ((x, mx.zeros(3), None, 2), r"of shape \(4,\).*\(3,?\)"),
        ((x, None, mx.zeros((1, 4)), 2), r"of shape \(4,\).*\(1, ?4\)"),
        ((x.astype(mx.complex64), None, None, 2), "expected real numbers"),
    ):
        with pytest.raises(ValueError, match=r"\[\w*group_norm\].*" + what):
            mx._group_norm(*args, False, False, 1e-5)


def test_layers_for_any_shape():
    for layer in (nn.GroupNorm(2, 4), nn.GroupNorm(2, 4, pytorch_compatible=True), nn.InstanceNorm(4, affine=True),
                  nn.InstanceNorm(4), nn.BatchNorm(4, track_running_stats=False)):  # fmt: skip
        traced = []

        def f(x, layer=layer, traced=traced):
            traced.append(1)
            y = layer(x)
            return y, mx.grad(lambda x: (layer(x) ** 3).sum())(x)

        g = mx.compile(f, shapeless=True)
        for shape in ((2, 3, 5, 4), (1, 7, 2, 4), (5, 1, 9, 4)):
            x = random(*shape, dtype=mx.float32)[0]
            for got, want in zip(g(x), f(x)):
                np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-5, atol=1e-5)
        assert len(traced) == 4  # one of them the compiled function's


# ---- everywhere

BITS = """
import hashlib
import mlx.core as mx
h = hashlib.sha256()
def note(*arrays):
    for y in arrays:
        h.update(bytes(memoryview(y)))
for shape in ((1000, 70), (4, 9000), (3000, 8), (2, 40, 50, 24), (9, 30, 64)):
    x, c = (mx.random.normal(shape, key=mx.random.key(i)) for i in range(2))
    w = mx.random.normal(shape[-1:], key=mx.random.key(2))
    note(*mx.vjp(lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5), [x, w, w], [c])[1])
    note(*mx.vjp(lambda x, w: mx.fast.rms_norm(x, w, 1e-5), [x, w], [c])[1])
    for whole in (False, True):
        f = lambda x, w, b: mx._group_norm(x, w, b, 2, True, whole, 1e-5)[0]
        note(*mx._group_norm(x, w, w, 2, False, whole, 1e-5), *mx.vjp(f, [x, w, w], [c])[1])
print(h.hexdigest())
"""


def test_bits_do_not_depend_on_threads():
    assert len(printed_by_threads(BITS)) == 1


@pytest.mark.skipif("MLX_CPU" in os.environ, reason="is one of them")
@pytest.mark.parametrize("level", ["base", "avx2", "avx512"])
def test_every_level_of_instructions(level):
    """Where the machine has them; otherwise the next below."""
    passes_at_level(__file__, level)
