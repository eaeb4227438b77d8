"""Convolution, pooling and upsampling layers, besides their values against PyTorch: how they start,
how they print, sizes of one number or several, dtypes, and what is refused."""

import subprocess
import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.nn.layers.upsample import upsample_cubic, upsample_linear, upsample_nearest
from process import SANITIZED


def array(*shape):
    return np.random.default_rng(3).normal(size=shape).astype(np.float32)


# ------------------------------------------------------------------ convolutions


@pytest.mark.parametrize(
    "layer, values",
    [
        (lambda: nn.Conv1d(8, 60, 5), 40),
        (lambda: nn.Conv1d(8, 60, 5, groups=4), 10),
        (lambda: nn.Conv2d(8, 20, (3, 5), groups=2), 60),
        (lambda: nn.Conv3d(4, 20, (2, 3, 2)), 48),
        (lambda: nn.ConvTranspose1d(8, 60, 5), 40),
        (lambda: nn.ConvTranspose2d(8, 20, (3, 5)), 120),
        (lambda: nn.ConvTranspose3d(4, 20, (2, 3, 2)), 48),
    ],
)
def test_weights_start_uniform(layer, values):
    mx.random.seed(1)
    layer, bound = layer(), values**-0.5
    assert 0.95 * bound < np.abs(np.array(layer.weight)).max() <= bound
    assert abs(np.array(layer.weight).std() - bound / 3**0.5) < 0.05 * bound
    assert not np.array(layer.bias).any()


@pytest.mark.parametrize(
    "layer, text",
    [
        (
            lambda: nn.Conv1d(4, 6, 3),
            "Conv1d(4, 6, kernel_size=3, stride=1, padding=0, dilation=1, groups=1, bias=True)",
        ),
        (
            lambda: nn.Conv2d(4, 6, 3, 2, (1, 0), groups=2, bias=False),
            "Conv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 0), dilation=1, groups=2, bias=False)",
        ),
        (
            lambda: nn.ConvTranspose2d(4, 6, 3),
            "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(0, 0), dilation=1, "
            "output_padding=(0, 0), bias=True)",
        ),
        (lambda: nn.MaxPool2d(2), "MaxPool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))"),
        (
            lambda: nn.Upsample((2, 3), "linear"),
            "Upsample(scale_factor=(2.0, 3.0), mode='linear', align_corners=False)",
        ),
    ],
)
def test_repr(layer, text):
    assert repr(layer()) == text


def test_without_bias():
    for layer in (nn.Conv2d(2, 3, 2, bias=False), nn.ConvTranspose2d(2, 3, 2, bias=False)):
        assert "bias" not in layer
        assert not np.array(layer(mx.zeros((1, 4, 4, 2)))).any()


def test_depthwise():
    """One group for each channel: as many convolutions of one channel."""
    layer, x = nn.Conv2d(3, 3, 2, groups=3), mx.array(array(2, 5, 4, 3))
    for c in range(3):
        one = mx.conv2d(x[..., c : c + 1], layer.weight[c : c + 1])
        np.testing.assert_allclose(np.array(layer(x)[..., c : c + 1]), np.array(one), atol=1e-5)


def test_convolutions_refuse():
    for groups in (0, 3):
        with pytest.raises(ValueError, match="groups to divide the channels"):
            nn.Conv1d(4, 6, 3, groups=groups)
    for size in ((2, 3, 4), (2,), "23", 2.5):
        with pytest.raises(ValueError, match=r"\[Conv2d\] expected an int or 2 ints for kernel_size"):
            nn.Conv2d(4, 6, size)
    with pytest.raises(ValueError, match="for stride"):
        nn.ConvTranspose3d(4, 6, 2, stride=(1, 2))
    with pytest.raises(ValueError):
        nn.Conv2d(4, 6, 3)(mx.zeros((1, 5, 5, 3)))


# ------------------------------------------------------------------ pooling


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint8, mx.float16, mx.bfloat16, mx.bool_])
def test_pooling_dtypes(dtype):
    x = mx.array([[3], [0], [2], [1], [1], [0]]).astype(dtype)[None]
    padded = nn.MaxPool1d(2, padding=1)(x)
    assert padded.dtype == dtype
    assert padded.tolist() == mx.array([[[3], [2], [1], [0]]]).astype(dtype).tolist()
    mean = nn.AvgPool1d(3)(x)
    assert mean.dtype == (dtype if mx.issubdtype(dtype, mx.floating) else mx.float32)


def test_the_maximum_of_negative_numbers_is_not_the_padding():
    x = -1 - mx.arange(6).reshape(1, 6, 1)
    assert nn.MaxPool1d(3, 2, 1)(x).flatten().tolist() == [-1, -2, -4]
    assert nn.MaxPool1d(3, 2, 1)(x.astype(mx.float32)).flatten().tolist() == [-1, -2, -4]


def test_means_of_half_types_are_summed_in_float32():
    x = mx.full((1, 4096, 1), 1.001, mx.float16)
    assert abs(nn.AvgPool1d(4096)(x).item() - x[0, 0, 0].item()) < 1e-3


def test_one_of_equal_values_gets_the_gradient():
    for size, stride in ((3, 3), (3, 1)):
        grad = mx.grad(lambda x: nn.MaxPool1d(size, stride)(x).sum())(mx.ones((1, 6, 1)))  # noqa: B023
        assert grad.sum().item() == nn.MaxPool1d(size, stride)(mx.ones((1, 6, 1))).size


def test_pooling_refuses():
    for kernel in ((2, 3), "a", 2.5):
        with pytest.raises(ValueError, match=r"\[MaxPool1d\] expected an int or 1 ints for kernel_size"):
            nn.MaxPool1d(kernel)
    for how in ({"kernel_size": 0}, {"kernel_size": 2, "stride": 0}, {"kernel_size": 2, "padding": -1}):
        with pytest.raises(ValueError, match="of at least"):
            nn.AvgPool2d(**how)
    with pytest.raises(ValueError, match="4 dimensions"):
        nn.MaxPool2d(2)(mx.zeros((4, 4, 1)))
    with pytest.raises(ValueError, match="windows that fit, got one of 7 for axis 1 of 4"):
        nn.MaxPool1d(7, 2)(mx.zeros((1, 4, 1)))
    assert nn.MaxPool1d(7)(mx.zeros((1, 6, 1))).shape == (1, 0, 1)


# ------------------------------------------------------------------ upsampling


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("scale", [0.3, 0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3])
def test_nearest(n, scale):
    m = int(scale * n)
    x = mx.arange(n).reshape(1, n, 1)
    if m == 0:
        with pytest.raises(ValueError, match="leaves something"):
            nn.Upsample(scale)(x)
        return
    middles = (np.arange(m) + 0.5) * n / m - 0.5
    want = np.floor(np.arange(m) * n / m) if scale < 1 else np.round(middles)
    assert nn.Upsample(scale)(x).flatten().tolist() == np.clip(want, 0, n - 1).tolist()


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scale", [0.3, 0.6, 1.5, 2, 2.7])
@pytest.mark.parametrize("align_corners, antialias", [(False, False), (True, False), (False, True)])
def test_constants_stay(mode, scale, align_corners, antialias):
    """The weights of each result have the sum 1."""
    y = nn.Upsample(scale, mode, align_corners, antialias)(mx.full((1, 7, 6, 2), 3.5))
    assert y.shape == (1, int(scale * 7), int(scale * 6), 2)
    np.testing.assert_allclose(np.array(y), 3.5, rtol=1e-6)


def test_values_and_straight_lines_stay():
    """Where a result lies on a value it is that; lines through values on a line are that line."""
    x = mx.array(array(1, 5, 1))
    for interpolate in (upsample_linear, upsample_cubic):
        got = interpolate(x, (1.8,), align_corners=True)
        np.testing.assert_allclose(np.array(got)[:, ::2], np.array(x), atol=1e-6)
    got = upsample_linear(mx.arange(6.0).reshape(1, 6, 1), (2.5,), align_corners=True)
    np.testing.assert_allclose(np.array(got).flatten(), np.linspace(0, 5, 15), atol=1e-6)


def weights(n, scale, kernel, reach, align_corners, antialias):
    """The matrix that makes an axis of n values longer or shorter."""
    m = int(scale * n)
    i = np.arange(m)
    p = i * (n - 1) / max(m - 1, 1) if align_corners else (i - (m - 1) / 2) / scale + (n - 1) / 2
    stretch = max(1 / scale, 1) if antialias else 1
    far = int(np.ceil(reach * stretch)) + 1
    w = np.zeros((m, n))
    for k in range(-far, far + 1):
        j = np.floor(p).astype(int) + k
        inside = (j >= 0) & (j < n) if antialias else True
        np.add.at(w, (i, np.clip(j, 0, n - 1)), np.vectorize(kernel)((p - j) / stretch) * inside)
    return w / w.sum(1, keepdims=True)


def line(d):
    return max(1 - abs(d), 0.0)


def spline(a):
    def kernel(d):
        d = abs(d)
        near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * (d**3 - 5 * d**2 + 8 * d - 4)
        return near if d <= 1 else far if d < 2 else 0.0

    return kernel


SHAPES = [(2, 5, 3), (2, 5, 512), (2, 4, 5, 3), (2, 5, 3, 200), (2, 5, 60, 9), (1, 3, 2, 4, 130)]


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "scale, align_corners, antialias",
    [(s, a, False) for s in (2, 3, 4, 1.5, 0.6) for a in (False, True)] + [(0.6, False, True), (2, False, True)],
)
def test_values_and_derivatives(mode, shape, scale, align_corners, antialias):
    """By matrices in float64, for short rows and long ones, few channels and many; compiled and mapped too."""
    x = array(*shape)
    kernel, reach = (line, 1) if mode == "linear" else (spline(-0.5 if antialias else -0.75), 2)
    want, layer = x.astype(np.float64), nn.Upsample(scale, mode, align_corners, antialias)
    matrices = [weights(n, scale, kernel, reach, align_corners, antialias) for n in shape[1:-1]]
    for axis, w in enumerate(matrices, 1):
        want = np.moveaxis(np.tensordot(w, want, (1, axis)), 0, axis)
    dy = array(*want.shape)
    slope = dy.astype(np.float64)
    for axis, w in enumerate(matrices, 1):
        slope = np.moveaxis(np.tensordot(w.T, slope, (1, axis)), 0, axis)
    close = {"rtol": 1e-5, "atol": 1e-5}
    x, dy = mx.array(x), mx.array(dy)
    for f in (layer, mx.compile(layer), lambda x: mx.vmap(layer)(x[:, None])[:, 0]):
        np.testing.assert_allclose(np.array(f(x)), want, **close)
        np.testing.assert_allclose(np.array(mx.vjp(f, [x], [dy])[1][0]), slope, **close)
    np.testing.assert_allclose(np.array(mx.jvp(layer, [x], [x])[1][0]), want, **close)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scale", [65, 66, 66.5])
def test_many_results_of_a_value(mode, scale):
    test_values_and_derivatives(mode, (2, 5, 3), scale, False, False)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [10**6, 10**6 + 1, 10**6 + 0.5])
def test_no_result_is_made_by_itself(mode, scale):
    """A list of a million would take minutes."""
    x, m = array(4), int(4 * scale)
    y = np.array(nn.Upsample(scale, mode)(mx.array(x).reshape(1, 4, 1))).flatten()
    assert y.shape == (m,)
    at = (np.arange(m) - (m - 1) / 2) / scale + 1.5
    if mode == "linear":
        np.testing.assert_allclose(y, np.interp(at, np.arange(4), x), atol=1e-6)
    else:  # some of them
        kernel = spline(-0.75) if mode == "cubic" else lambda d: abs(d) < 0.5
        few = at[:: m // 7 + 1]
        want = [sum(kernel(p - j) * x[np.clip(j, 0, 3)] for j in range(-2, 6)) for p in few]
        np.testing.assert_allclose(y[:: m // 7 + 1], want, atol=1e-6)


def test_sums_stay_in_range():
    """The weights come to 1, some are negative: those in the middle are more than that together."""
    for scale in (2, 3, 65, 1.5, 0.5):
        for shape in ((1, 6, 5, 3), (1, 6, 100, 8)):
            y = nn.Upsample(scale, "cubic")(mx.full(shape, 3.4e38))
            np.testing.assert_allclose(np.array(y), 3.4e38, rtol=1e-5)


def test_only_neighbours_count():
    """What is infinite stays with the results beside it."""
    for scale, first, last, channels in ((2, 3, 6, 512), (2, 3, 6, 8), (3, 5, 9, 512), (65, 98, 226, 512)):
        x = np.ones((1, 5, 512 // channels, channels), np.float32)
        x[:, 2] = np.inf
        y = np.array(nn.Upsample((scale, 1), "linear")(mx.array(x)))
        places = np.arange(5 * scale)
        np.testing.assert_array_equal(np.isinf(y[0, :, 0, 7]), (places >= first) & (places <= last))
        assert not np.isnan(y).any()


def test_axes_by_themselves():
    x = mx.array(array(1, 3, 4, 2))
    both = nn.Upsample((2, 3))(x)
    np.testing.assert_array_equal(np.array(both), np.array(x).repeat(2, 1).repeat(3, 2))
    np.testing.assert_array_equal(np.array(upsample_nearest(x, (1, 3))), np.array(x).repeat(3, 2))


def test_upsample_refuses():
    with pytest.raises(ValueError, match="expected the mode"):
        nn.Upsample(2, "bilinear")
    with pytest.raises(ValueError, match="at least 3 dimensions"):
        nn.Upsample(2)(mx.ones((2, 3)))
    with pytest.raises(ValueError, match="for each of the scales"):
        nn.Upsample((2, 2))(mx.ones((2, 3, 1)))
    with pytest.raises(ValueError, match="no antialias"):
        nn.Upsample(2, antialias=True)(mx.ones((1, 3, 1)))
    with pytest.raises(ValueError, match="got both"):
        nn.Upsample(2, "linear", align_corners=True, antialias=True)(mx.ones((1, 3, 1)))
    with pytest.raises(ValueError, match="scale that leaves"):
        nn.Upsample(-1.5)(mx.ones((1, 3, 1)))


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps what is freed")
def test_upsample_keeps_no_large_tables():
    """What is kept of places from call to call is bounded in bytes, not in calls alone."""
    program = """
import gc, resource
import mlx.core as mx, mlx.nn as nn
mx.set_default_device(mx.cpu) # a driver has memory of its own
def used():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
def run(n):
    for mode in ("nearest", "linear", "cubic"):
        nn.Upsample(1.5, mode)(mx.ones((1, n, 1))).sum().item()
    mx.clear_cache()
    gc.collect()
run(200_000)
before = used()
for i in range(8):
    run(200_002 + 2 * i)
print((used() - before) / 2**20)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert float(ran.stdout) < 30, ran.stdout + ran.stderr


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_upsample_refuses_axes_past_int32(mode):
    for scale in (1e9, 1e9 + 0.5):
        with pytest.raises((ValueError, mx.Error)):
            nn.Upsample(scale, mode)(mx.ones((1, 3, 1)))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [1, 2, 1.5])
@pytest.mark.parametrize("dtype", [mx.float16, mx.float32, mx.int32, mx.bool_])
def test_upsample_of_nothing_and_its_type(mode, scale, dtype):
    up = nn.Upsample(scale, mode)
    want = dtype if mode == "nearest" or mx.issubdtype(dtype, mx.inexact) else mx.float32
    assert up(mx.ones((1, 4, 2), dtype)).dtype == want
    empty = up(mx.ones((1, 0, 2), dtype))
    assert empty.shape == (1, 0, 2) and empty.dtype == want
