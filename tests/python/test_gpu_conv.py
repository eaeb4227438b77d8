"""Convolutions on a GPU, each beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import FLOATS
from test_gpu_products import close, matrix

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]

# input, weights, and what conv_general is told
PLAIN = [
    ((1, 7, 8), (5, 3, 8), {}),
    ((2, 9, 11, 4), (3, 3, 3, 4), {"padding": 1}),
    ((2, 9, 11, 3), (70, 3, 2, 3), {"stride": (2, 3), "padding": ([0, 2], [1, -1])}),
    ((1, 12, 13, 16), (72, 3, 3, 16), {"padding": 2, "kernel_dilation": (2, 1)}),
    ((2, 5, 6, 7, 8), (9, 2, 3, 2, 8), {"stride": (1, 2, 1), "padding": (0, 1, 1)}),
    ((3, 6, 5, 10), (6, 3, 3, 5), {"groups": 2, "flip": True}),
    ((1, 9, 9, 64), (8, 7, 7, 64), {}),  # what is summed up is cut
    ((2, 30, 31, 8), (130, 2, 2, 8), {}),
]
DILATED = [
    ((2, 5, 8), (6, 3, 8), {"input_dilation": 2, "padding": 2}),
    ((2, 5, 4, 8), (6, 4, 4, 8), {"input_dilation": 2, "padding": ([2, 2], [3, 1])}),
    ((1, 4, 5, 3), (5, 2, 3, 3), {"input_dilation": (3, 2), "stride": (2, 2), "kernel_dilation": (1, 2), "padding": 3}),
    ((1, 3, 2, 4, 4), (6, 2, 3, 2, 2), {"input_dilation": (2, 3, 4), "padding": 2, "groups": 2}),
    ((1, 3, 3), (4, 2, 3), {"input_dilation": 20, "padding": 1}),  # more phases than a launch takes
    ((1, 3, 3), (4, 1, 3), {"input_dilation": 4, "stride": 6, "padding": ([1], [5])}),  # some see no taps
]


GROUPED = [
    ((2, 9, 11, 24), (24, 3, 3, 1), {"padding": 1, "groups": 24}),
    ((2, 9, 20, 5), (5, 7, 6, 1), {"padding": 3, "groups": 5, "flip": True}),
    ((2, 11, 17, 6), (12, 3, 5, 1), {"stride": 2, "padding": ([1, 2], [0, 3]), "groups": 6}),
    ((2, 9, 10, 12), (9, 3, 2, 4), {"kernel_dilation": (1, 2), "groups": 3}),
    ((1, 4, 5, 6, 8), (8, 2, 3, 3, 2), {"padding": 1, "groups": 4}),
    ((2, 5, 4, 6), (6, 4, 4, 1), {"input_dilation": 2, "padding": 2, "groups": 6}),
    ((2, 3, 10), (10, 2, 1), {"input_dilation": 40, "stride": 3, "padding": 1, "groups": 10}),
    ((3, 700, 4), (4, 4, 1), {"padding": 3, "groups": 4}),
    ((1, 900, 1), (1, 30, 1), {}),
    ((3, 33, 40), (40, 9, 20), {"padding": 4, "groups": 2}),  # too many channels of a group to do without tiles
]


def depth_of(dtype, products):
    """cuDNN adds products of float32 one after the other, so that errors grow with their number: what it made of 25,088
    was 12 times as far off as sums of a few at a time are."""
    cudnn = mx.cuda.libraries()["cudnn"]
    return products * (32 if dtype == mx.float32 and cudnn and cudnn["used_for"] else 1)


def both(dtype, x, w, **how):
    """The sums are as long as the weights of a channel are."""
    depth = depth_of(dtype, np.prod(w[1:]))
    close(lambda x, w: mx.conv_general(x, w, **how), matrix(dtype, *x), matrix(dtype, *w, seed=1), depth=depth)


@pytest.mark.parametrize("case", PLAIN + DILATED + GROUPED, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_shapes(dtype, case):
    x, w, how = case
    both(dtype, x, w, **how)


def both_gradients(dtype, x, w, **how):
    """By the input and by the weights, whose sums go over all positions."""
    x, w = matrix(dtype, *x), matrix(dtype, *w, seed=1)
    y = matrix(dtype, *mx.conv_general(x, w, **how).shape, seed=2)
    conv = lambda x, w: mx.conv_general(x, w, **how)  # noqa: E731
    depth = depth_of(dtype, y.shape[-1] * w.size), depth_of(dtype, y.size // max(y.shape[-1], 1))
    close(lambda x, w, y: mx.vjp(lambda x: conv(x, w), [x], [y])[1][0], x, w, y, depth=depth[0])
    close(lambda x, w, y: mx.vjp(lambda w: conv(x, w), [w], [y])[1][0], x, w, y, depth=depth[1])


@pytest.mark.parametrize("case", PLAIN + DILATED + GROUPED, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients(dtype, case):
    x, w, how = case
    both_gradients(dtype, x, w, **how)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gradients_of_large_ones(dtype):
    """Tiles of the larger kind, in pieces; and few weights of many positions."""
    both_gradients(dtype, (2, 40, 41, 72), (80, 3, 3, 72), padding=1)
    both_gradients(dtype, (4, 60, 20, 3), (5, 2, 2, 3))
    both_gradients(dtype, (4, 60, 20, 6), (6, 3, 3, 1), groups=6)


# Large enough for cuDNN, where it is found.
LARGE = [
    ((8, 56, 56, 64), (64, 3, 3, 64), {"padding": 1}),
    ((16, 112, 113, 3), (64, 7, 7, 3), {"stride": 2, "padding": 3}),
    ((8, 28, 29, 128), (256, 3, 3, 128), {"stride": 2, "padding": ([0, 1], [1, 0])}),
    ((8, 28, 28, 256), (256, 3, 3, 64), {"padding": 1, "groups": 4}),
    ((32, 56, 56, 384), (384, 7, 7, 1), {"padding": 3, "groups": 384}),
    ((8, 1024, 128), (128, 9, 128), {"padding": 8, "kernel_dilation": 2}),
    ((2, 16, 17, 18, 64), (64, 3, 3, 3, 64), {"padding": 1}),
    ((8, 28, 28, 128), (128, 4, 4, 128), {"input_dilation": 2, "padding": 2}),
    ((4, 14, 14, 256), (128, 3, 3, 128), {"input_dilation": (2, 2), "padding": ([1, 1], [2, 2]), "groups": 2}),
]


@pytest.mark.parametrize("case", LARGE, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_large_ones(dtype, case):
    """A small image on the emulated device, which is slow."""
    x, w, how = case
    if mx.device_info(mx.gpu)["device_name"] == "emulated":
        x = (1, *(4 for _ in x[1:-1]), x[-1])
    both(dtype, x, w, **how)
    both_gradients(dtype, x, w, **how)


THIN = [
    ((3, 18, 70, 24), (3, 3, 3, 24), {"padding": 1}),
    ((40, 100, 16), (2, 2, 16), {"padding": 3}),
    ((2, 9, 130, 72), (4, 3, 2, 72), {"padding": ([0, 2], [1, 0])}),
    ((2, 40, 65, 20), (1, 1, 3, 20), {"padding": (2, 0), "kernel_dilation": (2, 1)}),
]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("case", THIN, ids=str)
def test_few_weights_of_many_positions(dtype, case):
    """Blocks walk through rows: the result has up to four channels, weights up to three taps of an axis."""
    x, w, how = case
    both_gradients(dtype, x, w, **how)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_special_numbers_in_few_weights(dtype):
    """What is beside the result's edge is not met, whatever it is; what is beside the input's is zeros."""
    r = np.random.default_rng(0)
    x, y = r.standard_normal((3, 18, 70, 24), np.float32), r.standard_normal((3, 18, 70, 3), np.float32)
    x[0, 0, :, 3], x[1, :, 69, 4], x[2, 17, 0, 5] = np.inf, np.nan, -np.inf
    y[1, 5, 6, 0], y[2, 0, 30, 1], y[0, 9, 69, 2] = np.inf, -np.inf, np.nan
    x, y, w = mx.array(x).astype(dtype), mx.array(y).astype(dtype), mx.zeros((3, 3, 3, 24), dtype)

    def by_weights(x, y, stream):
        with mx.stream(stream):
            dw = mx.vjp(lambda w: mx.conv2d(x, w, padding=1), [w], [y])[1][0]
        return np.array(dw.astype(mx.float32, stream=mx.cpu))

    rounding = {mx.float32: 1e-4, mx.float16: 2e-3, mx.bfloat16: 1e-2}[dtype]
    finite = mx.where(mx.isfinite(y), y, mx.array(1, dtype))
    for cotangent in (finite, y):
        here, there = by_weights(x, cotangent, mx.gpu), by_weights(x, cotangent, mx.cpu)
        np.testing.assert_allclose(here, there, rtol=rounding, atol=200 * rounding)
        assert 0 < np.isnan(there).sum() < there.size


@pytest.mark.parametrize("channels", [3, 8])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_many_tiles(dtype, channels):
    """As many as larger ones are for, and as many as channels fill half of."""
    both(dtype, (2, 8200, channels), (65, 2, channels), padding=1)
    both(dtype, (2, 8200, channels), (44, 2, channels), padding=1)


@pytest.mark.parametrize("channels", [64, 68])
def test_special_numbers_in_many_tiles(channels):
    """What no position sees is not lost, and NaN comes of nothing else."""
    x, w = np.ones((2, 8200, 8), np.float32), np.ones((channels, 2, 8), np.float32)
    x[0, 3, 1], x[0, 500, 2], x[1, 8199, 7], x[1, 0, 0] = np.inf, np.nan, -np.inf, np.finfo(np.float32).max
    w[-1, 1, 3], w[5] = np.inf, 0
    x, w = mx.array(x), mx.array(w)
    here, there = (np.array(mx.conv1d(x, w, padding=1, stream=s)) for s in (mx.gpu, mx.cpu))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_few_channels_of_many_positions(dtype):
    """Channels of zeros beside three, and beside seven."""
    for side, channels, more in [(62, 3, {"stride": 2, "padding": 3}), (24, 7, {"padding": 1, "input_dilation": 2})]:
        shape = (2, side, side + 1, channels), (32, 5, 5, channels)
        both(dtype, *shape, **more)
        both_gradients(dtype, *shape, **more)


# The result, or the gradient by the input, has few channels, and tiles are many; images on the emulated device.
FEW_CHANNELS = [
    ((24, 100, 96, 3), (16, 7, 7, 3), {"stride": 2, "padding": 3}, 1),
    ((24, 99, 101, 3), (20, 7, 7, 3), {"stride": 2, "padding": ([3, 2], [1, 4])}, 1),
    ((20, 97, 98, 2), (8, 3, 5, 2), {"stride": (2, 3), "padding": 1}, 1),
    ((8, 160, 165, 3), (12, 11, 11, 3), {"stride": 4, "padding": 2}, 1),
    ((24, 96, 97, 4), (8, 4, 4, 4), {"stride": 2, "kernel_dilation": (1, 2)}, 1),
    ((40, 60, 61, 8), (3, 7, 7, 8), {"padding": 3}, 1),
    ((40, 60, 61, 12), (6, 3, 9, 12), {"padding": ([-1, 2], [0, 4]), "flip": True}, 1),
    ((30, 40, 50, 4), (5, 4, 4, 4), {"input_dilation": 2, "padding": 3}, 1),
    ((200, 2040, 3), (8, 5, 3), {"stride": 2}, 5),
    ((6, 8, 33, 70, 3), (8, 3, 3, 3, 3), {"stride": (1, 2, 2), "padding": 1}, 1),
]


@pytest.mark.parametrize("case", FEW_CHANNELS, ids=str)
def test_few_channels_of_the_result(case):
    x, w, how, images = case
    if mx.device_info(mx.gpu)["device_name"] == "emulated":
        x = (images, *x[1:])
    both(mx.float32, x, w, **how)
    both_gradients(mx.float32, x, w, **how)


@pytest.mark.parametrize("stride", [1, 2])
def test_special_numbers_in_few_channels(stride):
    """Those of the input are seen where the taps are, and nowhere else; so are those of the weights, and padding."""
    images = 2 if mx.device_info(mx.gpu)["device_name"] == "emulated" else 40
    x, w = np.ones((images, 40, 50, 8), np.float32), np.ones((3, 5, 4, 8), np.float32)
    x[0, 3, 4, 5], x[0, 20, 30, 1], x[0, 39, 49, 0] = np.inf, np.nan, -np.inf
    w[1, 2, 3, 4], w[2] = np.inf, 0
    x, w = mx.array(x), mx.array(w)
    here, there = (
        np.array(mx.conv_general(x, w, padding=3, input_dilation=stride, stream=s)) for s in (mx.gpu, mx.cpu)
    )
    assert np.isnan(there).any() and np.isinf(there[..., 0]).any() and np.isfinite(there[..., 0]).any()
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_many_tiles_of_weights(dtype):
    """Fewer on the emulated device, which is slow; tests/kernels/emulated_gpu.c has them there."""
    long = 1640 if mx.device_info(mx.gpu)["device_name"] == "emulated" else 16400
    x, y = matrix(dtype, 2, long, 40), matrix(dtype, 2, long + 1, 72, seed=1)
    w = mx.zeros((72, 2, 40), dtype)
    by_weights = lambda x, y: mx.vjp(lambda w: mx.conv1d(x, w, padding=1), [w], [y])[1][0]  # noqa: E731
    close(by_weights, x, y, depth=2 * long)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products(dtype):
    """One tap without padding."""
    both(dtype, (3, 5, 7, 24), (40, 1, 1, 24))
    both(dtype, (3, 9, 24), (40, 1, 24), stride=2)
    both_gradients(dtype, (3, 5, 7, 24), (40, 1, 1, 24))


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_layouts(dtype):
    x, w = matrix(dtype, 6, 9, 8, 10), matrix(dtype, 10, 3, 3, 6, seed=1)
    close(lambda x, w: mx.conv2d(x.T, w.T, padding=1), x, matrix(dtype, 6, 3, 3, 10), depth=54)
    close(lambda x, w: mx.conv2d(x[1:, ::2, ::-1, :6], w[:, :, ::2]), x, w, depth=54)
    close(lambda x, w: mx.conv2d(x[..., 3:9], w[1:, :, ::-1]), x, w, depth=54)
    close(lambda x, w: mx.conv2d(x[..., 1:7], w[:, 1:2, ::3]), x, w, depth=6)


def test_nothing():
    for x, w, padding in [
        ((0, 5, 5, 3), (4, 3, 3, 3), 0),
        ((2, 5, 5, 0), (4, 3, 3, 0), 1),
        ((2, 0, 5, 3), (4, 3, 3, 3), 2),
        ((2, 5, 5, 3), (0, 3, 3, 3), 0),
    ]:
        both(mx.float32, x, w, padding=padding)
        both_gradients(mx.float32, x, w, padding=padding)


def test_complex():
    both(mx.complex64, (2, 7, 6, 3), (4, 3, 2, 3), padding=1)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16], ids=str)
def test_again(dtype):
    """The same bits each time, also where sums are cut."""
    x, w = matrix(dtype, 1, 9, 9, 64), matrix(dtype, 8, 5, 5, 64, seed=1)
    with mx.stream(mx.gpu):
        y = mx.conv2d(x, w)
        assert all(mx.array_equal(mx.conv2d(x, w), y).item() for _ in range(3))


@pytest.mark.parametrize("stride", [1, 2])
def test_infinities_that_few_weights_meet(stride):
    """Of one channel by itself: in the gradient of the others there are none."""
    with mx.stream(mx.cpu):
        x = mx.zeros((1, 7, 16)) + 1
        x[0, 6] = float("inf")
        w = mx.ones((16, 3, 1))
        mx.eval(x, w)
    here, there = (
        np.array(mx.grad(lambda w: mx.conv1d(x, w, groups=16, stride=stride, stream=s).sum())(w))  # noqa: B023
        for s in (mx.gpu, mx.cpu)
    )
    assert np.isfinite(there[:, :2]).all() and np.isinf(there[:, 2]).all()
    np.testing.assert_array_equal(here, there)


def test_a_stride_past_all_that_is_there():
    with mx.stream(mx.gpu):
        y = mx.conv1d(mx.ones((1, 16, 8)), mx.ones((8, 3, 1)), stride=1 << 30, groups=8)
        assert y.tolist() == [[[3.0] * 8]]
