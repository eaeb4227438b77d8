"""Arguments that broadcast, sizes that leave nothing, and numbers of NumPy's where numbers are taken."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest

X = np.array([[0.5, -1.25, 2.0], [3.0, -0.75, 1.5]], np.float32)


@pytest.mark.parametrize("mask", [3.0, [1.0, 2.0], [[1.0, 2.0]], [[1.0], [2.0]], [[1.0, 2.0], [3.0, 0.0]], True])
@pytest.mark.parametrize("which", ["mask_out", "mask_lhs", "mask_rhs"])
def test_masks_of_blocks_broadcast(mask, which):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64, 64))
    each = np.kron(np.broadcast_to(mask, (2, 2)), np.ones((32, 32)))
    want = {"mask_out": lambda: each * (a @ b), "mask_lhs": lambda: (each * a) @ b, "mask_rhs": lambda: a @ (each * b)}
    arrays = [mx.array(v, mx.float32) for v in (a, b)]
    got = mx.block_masked_mm(*arrays, 32, **{which: mx.array(mask)})
    np.testing.assert_allclose(np.array(got), want[which](), atol=1e-4)
    any_shape = mx.compile(lambda a, b, m: mx.block_masked_mm(a, b, 32, **{which: m}), shapeless=True)
    assert mx.array_equal(any_shape(*arrays, mx.array(mask)), got)


@pytest.mark.parametrize(
    "update, start, axes, at",
    [
        (9.0, [1], (0,), np.s_[1]),
        (9.0, [1], (1,), np.s_[:, 1]),
        (9.0, [1, 2], (0, 1), np.s_[1, 2]),
        ([9.0], [1], (1,), np.s_[:, 1:2]),
        ([9.0, 8.0], [1], (0,), np.s_[1, :2]),
        ([9.0, 8.0], [1], (-1,), np.s_[:, 1:]),
        ([[9.0, 8.0]], [1], (0,), np.s_[1:, :2]),
    ],
)
def test_axes_that_an_update_lacks(update, start, axes, at):
    want = X.copy()
    want[at] = update
    update = mx.array(update)
    assert np.array_equal(mx.slice_update(mx.array(X), update, mx.array(start), axes), want)
    grad = mx.grad(lambda u: mx.slice_update(mx.array(X), u, mx.array(start), axes).sum())(update)
    assert grad.shape == update.shape and grad.sum().item() == (want != X).sum()


def test_shapes_that_grow():
    x, ones = mx.array(X), mx.ones((1, 3))
    assert np.array_equal(mx.full_like(ones, x), X) and np.array_equal(mx.full_like(mx.array(1), x), X.astype(np.int32))
    assert mx.full_like(ones, x).dtype == mx.float32 and mx.full_like(x, mx.ones((4, 1, 1))).shape == (4, 2, 3)
    places = mx.array([[0], [2]])
    assert mx.put_along_axis(ones, places, mx.array(5.0), 1).tolist() == [[5, 1, 1], [1, 1, 5]]
    assert mx.grad(lambda v: mx.put_along_axis(v, places, mx.array(5.0), 1).sum())(ones).tolist() == [[1, 2, 1]]


def test_nothing():
    assert [f(-1).shape for f in (mx.hanning, mx.hamming, mx.blackman, mx.bartlett)] == [(0,)] * 4
    assert mx.tri(-1).shape == (0, 0) and mx.tri(3, -2).shape == (3, 0)
    assert mx.tri(0, 2**31 - 1).shape == (0, 2**31 - 1)  # whose columns have no memory
    assert mx.atleast_1d() == mx.atleast_2d() == mx.atleast_3d() == []
    assert nn.MaxPool1d(7)(mx.zeros((1, 4, 1))).shape == nn.AvgPool1d(7)(mx.zeros((1, 4, 1))).shape == (1, 0, 1)
    assert np.from_dlpack(mx.zeros((2, 0))).shape == (2, 0)
    assert "dltensor" in repr(mx.zeros((2, 0)).__dlpack__())
    image, kernel = mx.ones((1, 5, 6, 2)), mx.ones((3, 2, 3, 2))
    plain = mx.conv_general(image, kernel)
    for how in ("stride", "padding", "kernel_dilation", "input_dilation"):
        assert mx.array_equal(mx.conv_general(image, kernel, **{how: ()}), plain)
    assert mx.conv_general(image, kernel, padding=([], [1])).shape == (1, 5, 5, 3)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.int32])
def test_right_sides_of_other_types(dtype):
    a, b = mx.array([[2.0, 1.0], [0.5, 3.0]]), mx.array([[1.0], [2.0]]).astype(dtype)
    for solve, matrix in ((mx.linalg.solve, np.array(a)), (mx.linalg.solve_triangular, np.tril(a))):
        y = solve(a, b)
        assert y.dtype == mx.float32
        np.testing.assert_allclose(np.array(y), np.linalg.solve(matrix, [[1], [2]]), rtol=1e-6)


def test_numbers_of_numpy():
    half = np.float32(0.5)
    for schedule in (optim.cosine_decay(half, 4), optim.linear_schedule(half, np.float64(1.5), 4)):
        assert isinstance(schedule(2), mx.array) and schedule(2).dtype == mx.float32
    assert (
        abs(optim.cosine_decay(half, 4)(2).item() - 0.25) < 1e-6 and optim.linear_schedule(half, 1.5, 4)(2).item() == 1
    )
    assert nn.init.orthogonal(gain=half)(mx.array(X)).dtype == mx.float32
    assert nn.SinusoidalPositionalEncoding(4, scale=half)(mx.array([1.0])).dtype == mx.float32
    assert nn.softsign(np.float64(0.5)).dtype == mx.float32
    assert nn.Conv2d(1, 1, np.array([2, 3]), padding=np.array([0, 1])).weight.shape == (1, 2, 3, 1)


def test_losses_of_numbers():
    x = mx.array(X)
    np.testing.assert_allclose(np.array(nn.losses.kl_div_loss(0.5, x)), (np.exp(X) * (X - 0.5)).sum(-1), rtol=1e-5)
    assert nn.losses.kl_div_loss(x, x, axis=None).item() == 0
    assert nn.losses.triplet_loss(x, x + 1, x - 1, axis=None).item() == 1
    assert nn.losses.triplet_loss(0.0, x, -x).tolist() == [1, 1]
    assert abs(nn.losses.cosine_similarity_loss(x, 2 * x, axis=None).item() - 1) < 1e-6
    assert nn.losses.smooth_l1_loss(x, x + 1, beta=mx.array([1.0, 2.0, 4.0]), reduction="none").tolist()[0] == [
        0.5,
        0.25,
        0.125,
    ]
    assert np.isnan(nn.losses.smooth_l1_loss(x, x, beta=float("nan")).item())
    soft = np.full((2, 3), 1 / 3)
    np.testing.assert_allclose(
        np.array(nn.losses.cross_entropy(x, soft)), np.array(nn.losses.cross_entropy(x, mx.array(soft))), rtol=1e-6
    )


def test_without_weights_instance_norm_takes_any_channels():
    x = mx.array(np.random.default_rng(0).standard_normal((2, 5, 3)), mx.float32)
    assert mx.array_equal(nn.InstanceNorm(None)(x), nn.InstanceNorm(3)(x))
    with pytest.raises(ValueError, match="last axis of size 4"):
        nn.InstanceNorm(4, affine=True)(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: nn.Conv2d(2, 4, 0.5),
        lambda: nn.Conv1d(0.5, 4, 3),
        lambda: nn.Conv1d(2, 4, 3, groups="a"),
        lambda: nn.MultiHeadAttention(4, 0.5),
        lambda: nn.MaxPool1d("a"),
        lambda: nn.losses.nll_loss(None, mx.array([0])),
        lambda: nn.losses.cosine_similarity_loss("a", mx.array(X)),
        lambda: optim.Adam(0.1, betas=0.5),
        lambda: optim.Adafactor(eps=1e-3),
        lambda: mx.arange(mx.array(X)),
    ],
)
def test_wrong_types_are_type_errors(call):
    with pytest.raises(TypeError):
        call()
