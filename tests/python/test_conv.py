"""Convolutions against sums over taps in float64, their derivatives against differences, vmap against a loop."""

import itertools
import os
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3, "complex64": 4e-6}


def reference(x, w, stride, low, high, dilation, spread, groups, flip=False):
    """The definition: every tap adds a strided part of the padded input times its weights."""
    n = x.ndim - 2
    images, channels = x.shape[0], x.shape[-1]
    size = [(s - 1) * d + 1 for s, d in zip(x.shape[1:-1], spread)]
    whole = np.zeros((images, *size, channels), x.dtype)
    whole[(slice(None), *(slice(None, None, d) for d in spread))] = x
    for i in range(n):
        before = [(0, 0)] * (n + 2)
        before[1 + i] = (max(low[i], 0), max(high[i], 0))
        whole = np.pad(whole, before)
        cut = [slice(None)] * (n + 2)
        cut[1 + i] = slice(max(-low[i], 0), whole.shape[1 + i] - max(-high[i], 0))
        whole = whole[tuple(cut)]
    if flip:
        w = w[(slice(None), *[slice(None, None, -1)] * n)]
    out = [(whole.shape[1 + i] - dilation[i] * (w.shape[1 + i] - 1) - 1) // stride[i] + 1 for i in range(n)]
    y = np.zeros((images, *out, w.shape[0]), np.result_type(x, w))
    inside, outside = channels // groups, w.shape[0] // groups
    for k in itertools.product(*(range(s) for s in w.shape[1:-1])):
        part = whole[
            (
                slice(None),
                *(
                    slice(k[i] * dilation[i], k[i] * dilation[i] + (out[i] - 1) * stride[i] + 1, stride[i])
                    for i in range(n)
                ),
            )
        ]
        for g in range(groups):
            f = slice(g * outside, (g + 1) * outside)
            y[..., f] += part[..., g * inside : (g + 1) * inside] @ w[(f, *k)].T
    return y


def random_array(rng, shape, dtype="float32"):
    """Values that the dtype has, as the array and in double precision."""
    a = rng.standard_normal(shape)
    if dtype == "complex64":
        a = a + 1j * rng.standard_normal(shape)
    a = mx.array(a.astype(np.complex64) if dtype == "complex64" else a, dtype=getattr(mx, dtype))
    wide = mx.complex64 if dtype == "complex64" else mx.float64
    return a, np.array(a.astype(wide)).astype(np.complex128 if dtype == "complex64" else np.float64)


def close(y, expected, dtype, terms):
    y = np.array(y.astype(mx.complex64 if dtype == "complex64" else mx.float64))
    assert y.shape == expected.shape
    scale = max(1.0, float(terms)) ** 0.5
    np.testing.assert_allclose(y, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * scale * 4)


@st.composite
def problems(draw, largest=9):
    n = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    inside, outside = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (3, 5), (5, 20), (17, 3)]))
    if n == 3:
        largest = 6
    numbers = lambda low, high: [draw(st.integers(low, high)) for _ in range(n)]  # noqa: E731
    stride, dilation, spread = numbers(1, 3), numbers(1, 3), numbers(1, 3)
    kernel, size = numbers(1, 4), numbers(1, largest)
    low, high = numbers(-1, 3), numbers(-1, 3)
    for i in range(n):
        lacking = dilation[i] * (kernel[i] - 1) + 1 - ((size[i] - 1) * spread[i] + 1 + low[i] + high[i])
        high[i] += max(lacking, 0)
    return {
        "x": (draw(st.integers(1, 3)), *size, inside * groups),
        "w": (outside * groups, *kernel, inside),
        "stride": stride,
        "low": low,
        "high": high,
        "dilation": dilation,
        "spread": spread,
        "groups": groups,
        "flip": draw(st.booleans()),
    }


def run(x, w, p):
    return mx.conv_general(
        x,
        w,
        stride=p["stride"],
        padding=(p["low"], p["high"]),
        kernel_dilation=p["dilation"],
        input_dilation=p["spread"],
        groups=p["groups"],
        flip=p["flip"],
    )


def expect(x, w, p):
    return reference(x, w, p["stride"], p["low"], p["high"], p["dilation"], p["spread"], p["groups"], p["flip"])


@given(p=problems(), dtype=st.sampled_from(list(TOLERANCE)), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=150, deadline=None)
def test_values(p, dtype, seed):
    rng = np.random.default_rng(seed)
    x, xd = random_array(rng, p["x"], dtype)
    w, wd = random_array(rng, p["w"], dtype)
    y = run(x, w, p)
    assert y.dtype == getattr(mx, dtype)
    close(y, expect(xd, wd, p), dtype, np.prod(p["w"][1:]))


@given(p=problems(largest=6), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_strided_operands(p, seed):
    rng = np.random.default_rng(seed)
    x, xd = random_array(rng, p["x"][::-1])
    w, wd = random_array(rng, (*p["w"][:-1], 2 * p["w"][-1]))
    close(run(x.T, w[..., ::2], p), expect(xd.T, wd[..., ::2], p), "float32", np.prod(p["w"][1:]))


@given(
    p=problems(largest=6),
    dtype=st.sampled_from(["float64", "float64", "float32", "float16", "complex64"]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=80, deadline=None)
def test_derivatives(p, dtype, seed):
    """Linear in each operand: vjp and jvp have exact values to compare with."""
    rng = np.random.default_rng(seed)
    x, xd = random_array(rng, p["x"], dtype)
    w, wd = random_array(rng, p["w"], dtype)
    tx, txd = random_array(rng, p["x"], dtype)
    tw, twd = random_array(rng, p["w"], dtype)
    (y,), (dy,) = mx.jvp(lambda x, w: run(x, w, p), [x, w], [tx, tw])
    close(dy, expect(txd, wd, p) + expect(xd, twd, p), dtype, 2 * np.prod(p["w"][1:]))
    ct, ctd = random_array(rng, y.shape, dtype)
    if dtype == "complex64":
        return
    _, (dx, dw) = mx.vjp(lambda x, w: run(x, w, p), [x, w], [ct])
    wide = lambda a: np.array(a.astype(mx.float64))  # noqa: E731
    terms = np.prod(y.shape)
    bound = TOLERANCE[dtype] * 4 * (1 + np.sqrt(terms) * np.sqrt(np.prod(p["w"][1:])))
    assert abs(np.sum(wide(dx) * txd) - np.sum(ctd * expect(txd, wd, p))) < bound * 4
    assert abs(np.sum(wide(dw) * twd) - np.sum(ctd * expect(xd, twd, p))) < bound * 4


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_gradients_by_differences(groups):
    """And the derivatives of the derivatives."""
    rng = np.random.default_rng(3)
    x, _ = random_array(rng, (2, 5, 4, 4), "float64")
    w, _ = random_array(rng, (8, 3, 2, 4 // groups), "float64")

    def f(x, w):
        y = mx.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=groups)
        return mx.sum(mx.sin(y))

    def slopes(x, w):
        gx, gw = mx.grad(f, argnums=(0, 1))(x, w)
        return mx.sum(gx * gx) + mx.sum(mx.cos(gw))

    for g in f, slopes:
        for i, grad in enumerate(mx.grad(g, argnums=(0, 1))(x, w)):
            t = mx.array(rng.standard_normal((x, w)[i].shape), dtype=mx.float64)
            moved = [[x, w], [x, w]]
            moved[0][i] = moved[0][i] + 1e-5 * t
            moved[1][i] = moved[1][i] - 1e-5 * t
            slope = (g(*moved[0]) - g(*moved[1])).item() / 2e-5
            assert mx.sum(grad * t).item() == pytest.approx(slope, rel=1e-6, abs=1e-7)


@given(
    p=problems(largest=5),
    which=st.sampled_from([(0, None), (None, 0), (0, 0), (2, 1), (-1, None), (None, -1)]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_vmap(p, which, seed):
    rng = np.random.default_rng(seed)
    batch = 3
    operands, each = [], []
    for shape, axis in zip((p["x"], p["w"]), which):
        a = rng.standard_normal((batch, *shape) if axis is not None else shape)
        each.append(a)
        operands.append(mx.array(a if axis is None else np.moveaxis(a, 0, axis), dtype=mx.float64))
    members = [[e if a is None else e[b] for e, a in zip(each, which)] for b in range(batch)]
    y = mx.vmap(lambda x, w: run(x, w, p), in_axes=which)(*operands)
    np.testing.assert_allclose(np.array(y), np.stack([expect(*m, p) for m in members]), rtol=1e-12, atol=1e-12)

    def both(x, w):
        return mx.grad(lambda x, w: mx.sum(mx.square(run(x, w, p))), argnums=(0, 1))(x, w)

    got = mx.vmap(both, in_axes=which)(*operands)
    for b, m in enumerate(members):
        for a, e in zip(got, both(*(mx.array(o, dtype=mx.float64) for o in m))):
            np.testing.assert_allclose(np.array(a[b]), np.array(e), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize(
    "x, w, stride, padding, dilation, groups",
    [
        ((2, 30, 31, 64), (70, 3, 3, 64), 1, 1, 1, 1),  # several strips and panels
        ((1, 40, 41, 3), (64, 7, 7, 3), 2, 3, 1, 1),  # few channels
        ((2, 20, 21, 96), (96, 3, 3, 1), 1, 1, 1, 96),  # a filter for each channel
        ((2, 20, 21, 40), (40, 5, 3, 1), 2, 2, 2, 40),
        ((1, 19, 23, 19), (19, 7, 7, 1), 1, 3, 1, 19),
        ((2, 9, 14, 3), (3, 3, 4, 1), 1, 1, 1, 3),
        ((9, 7, 7, 300), (130, 3, 3, 300), 1, 1, 1, 1),  # more taps than a stretch of weights has
        ((3, 9, 9, 32), (48, 1, 1, 32), 1, 0, 1, 1),  # a matrix product
        ((3, 9, 9, 32), (48, 1, 1, 32), 2, 0, 1, 1),
        ((2, 16, 16, 24), (36, 3, 3, 6), 1, 1, 1, 4),
        ((1, 3, 5, 2048), (8, 1, 3, 2048), 1, 0, 1, 1),  # a run longer than a piece
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_large(x, w, stride, padding, dilation, groups, dtype):
    rng = np.random.default_rng(1)
    x, xd = random_array(rng, x, dtype)
    w, wd = random_array(rng, w, dtype)
    s, p, d = [stride] * 2, [padding] * 2, [dilation] * 2

    def f(x, w):
        return mx.conv2d(x, w, stride, padding, dilation, groups)

    expected = reference(xd, wd, s, p, p, d, [1, 1], groups)
    close(f(x, w), expected, dtype, np.prod(w.shape[1:]))
    ct, ctd = random_array(rng, expected.shape, dtype)
    _, (dx, dw) = mx.vjp(f, [x, w], [ct])
    _, (ex, ew) = mx.vjp(f, [mx.array(a, dtype=mx.float64) for a in (xd, wd)], [mx.array(ctd, dtype=mx.float64)])
    close(dx, np.array(ex), dtype, np.prod(w.shape[1:]))
    close(dw, np.array(ew), dtype, np.prod(ct.shape[:-1]))


@pytest.mark.parametrize("channels", [3, 19, 32])
@pytest.mark.parametrize("taps", [(1, 2), (3, 3), (7, 7), (2, 13)])
def test_slopes_of_a_filter_for_each_channel(channels, taps):
    rng = np.random.default_rng(3)
    x, xd = random_array(rng, (2, 15, 25, channels))
    w, _ = random_array(rng, (channels, *taps, 1))
    ct, ctd = random_array(rng, (2, 16 - taps[0], 26 - taps[1], channels))
    dw = mx.vjp(lambda w: mx.conv2d(x, w, groups=channels), [w], [ct])[1][0]
    seen = np.lib.stride_tricks.sliding_window_view(xd, taps, (1, 2))
    close(dw, np.einsum("nijcab,nijc->cab", seen, ctd)[..., None], "float32", ct.size // channels)


@given(
    n=st.integers(1, 3),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
    extra=st.integers(0, 2),
    groups=st.sampled_from([1, 2]),
    kernel=st.integers(1, 4),
    size=st.integers(1, 5),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_transpose(n, stride, padding, dilation, extra, groups, kernel, size, seed):
    rng = np.random.default_rng(seed)
    after = dilation * (kernel - 1) - padding
    out = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + extra
    if out < 1:
        return
    x, xd = random_array(rng, (2, *[size] * n, 3 * groups))
    w, wd = random_array(rng, (4 * groups, *[kernel] * n, 3))
    f = (mx.conv_transpose1d, mx.conv_transpose2d, mx.conv_transpose3d)[n - 1]
    y = f(x, w, stride, padding, dilation, extra, groups)
    assert y.shape == (2, *[out] * n, 4 * groups)
    expected = reference(xd, wd, [1] * n, [after] * n, [after + extra] * n, [dilation] * n, [stride] * n, groups, True)
    close(y, expected, "float32", 3 * kernel**n)


@given(
    a=st.integers(1, 40),
    v=st.integers(1, 40),
    mode=st.sampled_from(["full", "same", "valid"]),
    dtype=st.sampled_from(list(TOLERANCE)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=80, deadline=None)
def test_convolve(a, v, mode, dtype, seed):
    rng = np.random.default_rng(seed)
    a, ad = random_array(rng, (a,), dtype)
    v, vd = random_array(rng, (v,), dtype)
    close(mx.convolve(a, v, mode), np.convolve(ad, vd, mode), dtype, min(ad.size, vd.size))


def test_empty():
    assert mx.conv2d(mx.zeros((0, 4, 4, 3)), mx.zeros((2, 3, 3, 3))).shape == (0, 2, 2, 2)
    assert mx.conv2d(mx.zeros((1, 4, 4, 3)), mx.zeros((0, 3, 3, 3))).shape == (1, 2, 2, 0)
    y = mx.conv2d(mx.zeros((1, 4, 4, 0)), mx.zeros((2, 3, 3, 0)))
    assert y.shape == (1, 2, 2, 2) and not np.array(y).any()
    dx, dw = mx.grad(lambda x, w: mx.sum(mx.conv1d(x, w)), argnums=(0, 1))(mx.zeros((0, 4, 3)), mx.ones((2, 3, 3)))
    assert dx.shape == (0, 4, 3) and dw.shape == (2, 3, 3) and not np.array(dw).any()


def test_all_padding():
    """Taps and positions that see nothing but zeros, on either side."""
    x, w = mx.ones((1, 2, 1)), mx.ones((1, 2, 1))
    y = mx.conv_general(x, w, padding=([5], [5]), stride=3)
    assert np.array(y).ravel().tolist() == [0, 0, 1, 0]
    y = mx.conv_general(x, w, input_dilation=7, stride=2)
    assert np.array(y).ravel().tolist() == [1, 0, 0, 1]
    dw = mx.grad(lambda w: mx.sum(mx.conv_general(x, w, padding=([0], [7]), kernel_dilation=7)))(w)
    assert np.array(dw).ravel().tolist() == [2, 0]


def test_threads_do_not_matter():
    """A result depends on values alone: the same by one thread."""
    text = (
        "import mlx.core as mx, hashlib\n"
        "x = mx.random.normal((3, 30, 29, 20), key=mx.random.key(1))\n"
        "w = mx.random.normal((40, 3, 3, 20), key=mx.random.key(2))\n"
        "v = mx.random.normal((20, 7, 7, 1), key=mx.random.key(2))\n"
        "f = lambda x, w: mx.conv2d(x, w, padding=1, stride=2)\n"
        "g = lambda x, v: mx.conv2d(x, v, padding=3, groups=20)\n"
        "y, d = mx.vjp(f, [x, w], [mx.ones((3, 15, 15, 40))])\n"
        "z, e = mx.vjp(g, [x, v], [mx.ones((3, 30, 29, 20))])\n"
        "print([hashlib.sha256(bytes(a)).hexdigest() for a in y + d + z + e])\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", text], env={**os.environ, "MLX_NUM_THREADS": n}, capture_output=True, check=True
        ).stdout
        for n in ("1", "2", "5")
    }
    assert len(said) == 1


@pytest.mark.parametrize("dtype, atol", [(mx.float32, 1e-5), (mx.float16, 0.01), (mx.bfloat16, 0.13)])
@pytest.mark.parametrize("channels", [2, 3, 8, 17, 24, 47])
def test_few_channels_with_weights_of_their_own(channels, dtype, atol):
    """Pixels beside each other share registers then, unless they are not neighbours."""
    rng = np.random.default_rng(channels)
    for width, stride, padding in ((3, 1, 0), (15, 1, 1), (16, 1, 2), (33, 1, 0), (50, 1, 1), (37, 2, 1)):
        x = mx.array(rng.standard_normal((2, 6, width, channels)).astype(np.float32)).astype(dtype)
        w = mx.array(rng.standard_normal((channels, 3, 3, 1)).astype(np.float32)).astype(dtype)
        y = np.array(mx.conv2d(x, w, stride=stride, padding=padding, groups=channels).astype(mx.float32))
        taps = np.array(w.astype(mx.float32)).astype(np.float64)
        wide = np.array(x.astype(mx.float32)).astype(np.float64)
        wide = np.pad(wide, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
        want = np.zeros(y.shape)
        for i in range(3):
            for j in range(3):
                part = wide[:, i : i + stride * y.shape[1] : stride, j : j + stride * y.shape[2] : stride]
                want += part[:, : y.shape[1], : y.shape[2]] * taps[:, i, j, 0]
        np.testing.assert_allclose(y, want, atol=atol)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: mx.conv2d(mx.zeros((1, 4, 4, 3)), mx.zeros((2, 3, 3, 2))), "2|channels"),
        (lambda: mx.conv2d(mx.zeros((1, 2, 2, 3)), mx.zeros((2, 3, 3, 3))), "no larger than the input"),
        (
            lambda: mx.conv2d(mx.zeros((1, 5, 5, 3)), mx.zeros((3, 3, 0, 1)), groups=3),
            "one position along spatial axis 1",
        ),
        (lambda: mx.conv_transpose1d(mx.zeros((1, 5, 3)), mx.zeros((2, 0, 3))), "one position along spatial axis 0"),
        (lambda: mx.conv2d(mx.zeros((1, 4, 4, 4)), mx.zeros((3, 3, 3, 2)), groups=2), "groups"),
        (lambda: mx.conv2d(mx.zeros((1, 4, 4, 4)), mx.zeros((3, 3, 3, 4)), groups=0), "groups"),
        (lambda: mx.conv2d(mx.zeros((1, 4, 4, 4)), mx.zeros((3, 3, 4))), "2 spatial axes"),
        (lambda: mx.conv2d(mx.zeros((1, 4, 4, 4)), mx.zeros((3, 3, 3, 4)), stride=0), "strides"),
        (lambda: mx.conv2d(mx.zeros((1, 4, 4, 4)), mx.zeros((3, 3, 3, 4)), padding=(1, 2, 3)), "expected one number"),
        (lambda: mx.conv_general(mx.zeros((1, 4, 4, 4)), mx.zeros((3, 3, 3, 4)), input_dilation=-1), "dilations"),
        (lambda: mx.conv_general(mx.zeros((1, 4, 4, 4, 4, 4)), mx.zeros((3, 3, 3, 3, 3, 4))), "1 to 3"),
        (lambda: mx.conv_general(mx.zeros((4,)), mx.zeros((3,))), "1 to 3"),
        (lambda: mx.conv1d(mx.zeros((1, 4, 1), dtype=mx.int32), mx.zeros((1, 2, 1), dtype=mx.int32)), "floating"),
        (lambda: mx.conv_transpose1d(mx.zeros((1, 4, 1)), mx.zeros((1, 2, 1)), output_padding=-1), "output padding"),
        (
            lambda: mx.conv_transpose1d(mx.zeros((1, 4, 1)), mx.zeros((1, 2, 1)), output_padding=2**31 - 1),
            "dilation 1, padding 0 and output padding 2147483647",
        ),
        (
            lambda: mx.conv_transpose1d(mx.zeros((1, 4, 1)), mx.zeros((1, 2, 1)), dilation=2**31 - 1, padding=-9),
            "dilation 2147483647, padding -9",
        ),
        (lambda: mx.conv1d(mx.zeros((1, 4, 1)), mx.zeros((1, 2, 1)), padding=2**31 - 1), "dimension"),
        (lambda: mx.convolve(mx.zeros((3,)), mx.zeros((2,)), mode="x"), "mode"),
        (lambda: mx.convolve(mx.zeros((0,)), mx.zeros((2,))), "vectors"),
        (lambda: mx.convolve(mx.zeros((2, 2)), mx.zeros((2,))), "vectors"),
    ],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        mx.eval(call())


@pytest.mark.parametrize("more", [{}, {"stride": 2, "padding": 1}, {"dilation": 2}])
@pytest.mark.parametrize("ndim", [2, 3])
def test_functions_of_one_axis_take_more_with_the_same_numbers_for_each(ndim, more):
    x = mx.random.normal((2, *(5, 6, 7)[:ndim], 3))
    w = mx.random.normal((4, *(3, 2, 2)[:ndim], 3))
    assert mx.array_equal(mx.conv1d(x, w, **more), getattr(mx, f"conv{ndim}d")(x, w, **more))
    more = more | {"output_padding": 1}
    got, want = mx.conv_transpose1d(x, w, **more), getattr(mx, f"conv_transpose{ndim}d")(x, w, **more)
    assert got.shape == want.shape and mx.array_equal(got, want)
