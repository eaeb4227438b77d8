"""Softmax, logsumexp and norms on a GPU, each beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_gpu import FLOATS
from test_gpu_reductions import close

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
SHAPES = [
    (1,),
    (7, 1),
    (5, 3),
    (3, 2, 31),
    (9, 64),
    (2, 4, 129),
    (3, 1024),
    (2, 4097),
    (11, 8200),
    (3, 3 * 8192 + 5),
    (1, 70000),
    (2, 0),
    (0, 5),
    (300, 8),
]
VIEWS = {
    "row": lambda x: x,
    "transposed": lambda x: x.T,
    "odd offset": lambda x: x[1:, 1:],
    "backwards": lambda x: x[:, ::-1],
    "one row": lambda x: mx.broadcast_to(x[2], x.shape),
    "one column": lambda x: mx.broadcast_to(x[:, :1], x.shape),
}


def normal(dtype, *shape, seed=0):
    r = np.random.default_rng(seed)
    with mx.stream(mx.cpu):
        x = mx.array(3 * r.standard_normal(shape), mx.float64).astype(dtype)
        mx.eval(x)
    return x


def functions(dtype, n):
    """Every operation on rows of n elements."""
    w, b = normal(dtype, n, seed=1), normal(dtype, n, seed=2)
    return [
        lambda x: mx.softmax(x, axis=-1),
        lambda x: mx.softmax(x, axis=-1, precise=True),
        lambda x: mx.logsumexp(x, axis=-1),
        lambda x: mx.logsumexp(x, axis=-1, keepdims=True),
        nn.log_softmax,
        lambda x: mx.fast.rms_norm(x, w, 1e-5),
        lambda x: mx.fast.rms_norm(x, None, 1e-3),
        lambda x: mx.fast.layer_norm(x, w, b, 1e-5),
        lambda x: mx.fast.layer_norm(x, None, b, 1e-5),
        lambda x: mx.fast.layer_norm(x, w, None, 1e-5),
        lambda x: mx.fast.layer_norm(x, w[::-1], None, 0.5),
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_shapes(dtype, shape):
    for f in functions(dtype, shape[-1]):
        close(f, normal(dtype, *shape))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layouts(dtype, view):
    x = normal(dtype, 12, 24)
    constant = view == "one column"  # from which a mean is some rounding away: left out
    for f in functions(dtype, VIEWS[view](x).shape[-1])[: 7 if constant else None]:
        close(lambda x: f(VIEWS[view](x)), x)  # noqa: B023
    close(lambda x: mx.softmax(x, axis=0), VIEWS[view](x))
    close(lambda x: mx.logsumexp(x), VIEWS[view](x))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_special_numbers(dtype):
    inf, nan = float("inf"), float("nan")
    rows = [[0, -inf, 1], [-inf] * 3, [inf, 0, 1], [inf, nan, 1], [nan, -inf, 2], [-inf, nan, -inf], [1e4, 1e4, -1e4]]
    with mx.stream(mx.cpu):
        x = mx.array(rows, mx.float64).astype(dtype)
        mx.eval(x)
    close(lambda x: mx.softmax(x, axis=-1), x)
    close(lambda x: mx.logsumexp(x, axis=-1), x)
    close(nn.log_softmax, x)
    close(lambda x: mx.fast.layer_norm(x, None, None, 1e-5), x)
    long = np.random.default_rng(1).standard_normal((6, 20000))  # pieces: without numbers, with what is none
    long[0, :9000], long[1, 9000:], long[2] = -np.inf, -np.inf, -np.inf
    long[3, 19999], long[4, 100], long[5, ::2] = np.nan, np.inf, -np.inf
    with mx.stream(mx.cpu):
        x = mx.array(long).astype(dtype)
        mx.eval(x)
    close(lambda x: mx.softmax(x, axis=-1), x)
    close(lambda x: mx.logsumexp(x, axis=-1), x)
    close(nn.log_softmax, x)


@pytest.mark.parametrize("n", [3, 16, 100, 1025, 9001])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_norms_of_numbers_whose_squares_overflow(dtype, n):
    with mx.stream(mx.cpu):
        x = normal(dtype, 2, n) * 1e30
        v = normal(dtype, 2, n, seed=3)
        mx.eval(x, v)
    for f in (lambda x: mx.fast.rms_norm(x, None, 1e-5), lambda x: mx.fast.layer_norm(x, None, None, 1e-5)):
        close(f, x)
        close(lambda x, v: mx.vjp(f, [x], [v])[1][0] * 1e30, x, v)  # noqa: B023
        close(lambda x, v: mx.vjp(f, [x], [v * 1e10])[1][0] * 1e20, x, v)  # noqa: B023


@pytest.mark.parametrize("shape", [(4, 40), (3, 257)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_derivatives(dtype, shape):
    x, v = normal(dtype, *shape), normal(dtype, *shape, seed=3)
    for f in functions(dtype, shape[-1]):
        close(lambda x, v: mx.jvp(f, [x], [v])[1][0], x, v)  # noqa: B023
    for f in functions(dtype, shape[-1])[5:]:
        close(lambda x, v: mx.vjp(f, [x], [v])[1][0], x, v)  # noqa: B023


def test_against_float64():
    x = np.random.default_rng(5).standard_normal((5, 3000)) * 4
    y = x - x.max(-1, keepdims=True)
    centered = x - x.mean(-1, keepdims=True)
    with mx.stream(mx.gpu):
        z = mx.array(x.astype(np.float32))
        got = [np.array(v) for v in (mx.softmax(z, -1), mx.logsumexp(z, -1), mx.fast.layer_norm(z, None, None, 1e-5))]
    want = [
        np.exp(y) / np.exp(y).sum(-1, keepdims=True),
        np.log(np.exp(y).sum(-1)) + x.max(-1),
        centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5),
    ]
    for a, b in zip(got, want):
        assert np.allclose(a, b, rtol=3e-6, atol=2e-6)


# the last four are longer than shared memory: halves of pieces, pieces of runs, and many of them
@pytest.mark.parametrize("n", [1, 2, 64, 12, 24, 20, 80, 28, 448, 2048, 12 * 256, 2**14, 12 * 2**10, 20 * 2**13, 2**18])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_hadamard(dtype, n):
    x = normal(dtype, 3, n)
    close(mx.hadamard_transform, x)
    close(lambda x: mx.hadamard_transform(x[::-1], scale=0.25), x)
    close(lambda x: mx.grad(lambda x: (mx.hadamard_transform(x) * x[::-1]).sum())(x), x)
    with mx.stream(mx.gpu):
        both = mx.vjp(mx.hadamard_transform, [x], [mx.hadamard_transform(x)])[1][0]
        mx.eval(both)
    with mx.stream(mx.cpu):  # a rotation: what undoes it is its transpose
        error = mx.abs(both.astype(mx.float64) - x.astype(mx.float64)).max().item()
    assert error <= 64 * 2.0 ** -{mx.float32: 23, mx.float16: 10, mx.bfloat16: 7, mx.float64: 52}[dtype]
