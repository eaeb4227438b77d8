"""Gated delta networks on a GPU, beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu_reductions import close

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
# batch, steps, heads of k, of v, columns of k and of v: rows of one thread and of all of a warp, and longer ones; few
# steps and more than shared memory holds at once; numbers of columns that are not those of a vector
SHAPES = [
    (1, 1, 1, 1, 1, 1),
    (2, 7, 2, 4, 20, 9),
    (1, 40, 1, 2, 128, 128),
    (1, 70, 2, 2, 16, 130),
    (2, 9, 1, 3, 64, 33),
    (1, 5, 1, 1, 300, 7),
    (1, 3, 2, 2, 512, 6),
    (1, 4, 1, 2, 515, 5),
    (1, 6, 1, 1, 0, 3),
    (1, 6, 1, 1, 3, 0),
    (0, 6, 1, 1, 3, 3),
    (2, 0, 1, 2, 3, 4),
]
DTYPES = [mx.float32, mx.float64, mx.bfloat16]


def operands(b, t, h, n, d, e, dtype, wide=False):
    """Keys of length 1, with which the state does not grow."""
    r = np.random.default_rng(0)
    q, k = (r.standard_normal((b, t, h, d)) for _ in range(2))
    k = k / np.maximum(np.linalg.norm(k, axis=-1, keepdims=True), 1e-9)
    gamma = r.uniform(0.5, 1, (b, t, n, d) if wide else (b, t, n))
    all = q, k, r.standard_normal((b, t, n, e)), gamma, r.uniform(0, 1, (b, t, n))
    with mx.stream(mx.cpu):
        x = [mx.array(a, mx.float64).astype(dtype) for a in all]
        state = mx.array(r.standard_normal((b, n, e, d)), mx.float64)
        state = state if dtype == mx.float64 else state.astype(mx.float32)
        mask = mx.array(r.random((b, t)) > 0.4)
        mx.eval(x, state, mask)
    return x, state, mask


def both(*x):
    """On the GPU beside float64 on the CPU, within what sums over the columns of a row may be off."""
    with mx.stream(mx.cpu):
        there = mx.fast.gated_delta_update(
            *(a if a is None or a.dtype == mx.bool_ else a.astype(mx.float64) for a in x)
        )
        mx.eval(there)
    with mx.stream(mx.gpu):
        here = mx.fast.gated_delta_update(*x)
        mx.eval(here)
    dtype = x[0].dtype
    assert here[0].dtype == dtype and here[1].dtype == (mx.float64 if dtype == mx.float64 else mx.float32)
    for a, b in zip(here, there):
        assert a.shape == b.shape
        digits = {mx.float64: 52, mx.float32: 23, mx.bfloat16: 7}[a.dtype]
        with mx.stream(mx.cpu):
            a, b = np.array(a.astype(mx.float64)), np.array(b)
        off = (4 + np.sqrt(x[0].shape[-1])) * 2.0**-digits * np.max(np.abs(b), initial=0)
        np.testing.assert_allclose(a, b, rtol=0, atol=off)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_shapes(dtype, shape, wide):
    x, state, mask = operands(*shape, dtype, wide)
    both(*x)
    both(*x, state, mask)


@pytest.mark.parametrize("wide", [False, True])
def test_layouts(wide):
    """Parts of larger arrays, heads in front of steps, states back to front."""
    x, state, mask = operands(2, 12, 2, 4, 24, 16, mx.float32, wide)
    cut = [a[:, 1:, ..., ::2] if a.ndim == 4 else a[:, 1:] for a in x]
    both(*cut[:3], cut[3], cut[4], state[:, :, ::2, ::-2], mask[:, 1:])
    turned = [mx.contiguous(a.swapaxes(1, 2), stream=mx.cpu).swapaxes(1, 2) for a in x]
    both(*turned, mx.contiguous(state.T, stream=mx.cpu).T)


def test_steps_one_by_one():
    """As a text is written: the same states as of all at once."""
    x, state, _ = operands(1, 6, 2, 4, 32, 16, mx.float32)
    with mx.stream(mx.gpu):
        y, last = mx.fast.gated_delta_update(*x, state)
        each = []
        for t in range(6):
            out, state = mx.fast.gated_delta_update(*(a[:, t : t + 1] for a in x), state)
            each.append(out)
        np.testing.assert_array_equal(mx.concatenate(each, axis=1), y)
        np.testing.assert_array_equal(state, last)


def test_what_is_masked_is_left_out():
    """Whatever is there, and bools of any byte."""
    x, state, _ = operands(1, 5, 1, 2, 8, 4, mx.float32)
    mask = mx.view(mx.array(np.array([[0, 2, 0, 255, 0]], np.uint8)), mx.bool_, stream=mx.cpu)
    with mx.stream(mx.cpu):
        bad = [mx.where(mask.reshape(1, 5, *[1] * (a.ndim - 2)), a, mx.nan) for a in x]
        mx.eval(bad)
    both(*bad, state, mask)


@pytest.mark.parametrize("wide", [False, True])
def test_derivatives(wide):
    x, state, mask = operands(1, 37, 1, 2, 6, 5, mx.float64, wide)
    for i in range(5):
        close(mx.grad(lambda *x: mx.fast.gated_delta_update(*x, state, mask)[0].square().sum(), i), *x)
