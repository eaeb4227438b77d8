"""Folds along axes of which the innermost is none: of a few rows, of several axes around each other, of what is the
same all along an axis."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from process import printed_by_threads

TYPES = [mx.float32, mx.float64, mx.float16, mx.bfloat16, mx.int8, mx.uint16, mx.int32, mx.uint64, mx.bool_]
SHAPES = [
    ((5, 3, 7), (1,)),
    ((9, 3, 500), (1,)),
    ((3, 8, 1100), (1,)),
    ((4, 32, 33), (1,)),
    ((4, 33, 33), (1,)),
    ((300, 4, 4), (1,)),
    ((4, 5, 2, 6, 2, 32), (2, 4)),
    ((4, 5, 2, 6, 2, 5), (2, 4)),
    ((2, 5, 40, 17), (0, 2)),
    ((9, 5, 40, 600), (0, 2)),
    ((700, 2, 3, 20), (0, 2)),
    ((2, 3, 2, 3, 2, 3, 2, 18), (0, 2, 4, 6)),
    ((5, 2, 6, 2), (1, 3)),
    ((40, 9), ()),
]
FOLDS = ["sum", "prod", "min", "max"]


def sample(dtype, shape, fold):
    """Numbers of which sums and products are exact, but for a last rounding."""
    rng = np.random.default_rng(len(shape) * sum(shape))
    least = -1 if mx.issubdtype(dtype, mx.floating) else 0
    x = rng.integers(least, 2, shape)
    if fold == "prod":
        x = np.where(rng.random(shape) < 0.98, 1, x)
    return x.astype(np.float64), mx.array(x.tolist(), dtype)


def agrees(fold, x, truth, axes):
    got = getattr(mx, fold)(x, axis=axes)
    want = mx.array(getattr(np, fold)(truth, axis=axes), mx.float64).astype(got.dtype)  # above 256 bfloat16 rounds
    assert mx.array_equal(got, want).item(), (fold, x.shape, axes)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("fold", FOLDS)
def test_folds(dtype, fold):
    with mx.stream(mx.cpu):
        for shape, axes in SHAPES:
            truth, x = sample(dtype, shape, fold)
            agrees(fold, x, truth, axes)
            agrees(fold, x[::2, ..., 1:], truth[::2, ..., 1:], axes)
            back = tuple(range(len(shape)))[::-1]
            agrees(fold, x.transpose(back), truth.transpose(back), axes)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("fold", FOLDS)
def test_broadcast(dtype, fold):
    """Each set of axes folded, of arrays that repeat themselves along each set of them."""
    shape = (5, 3, 4, 35)
    with mx.stream(mx.cpu):
        for repeats in itertools.product((False, True), repeat=4):
            truth, x = sample(dtype, tuple(1 if r else n for r, n in zip(repeats, shape, strict=True)), fold)
            truth, x = np.broadcast_to(truth, shape), mx.broadcast_to(x, shape)
            for axes in itertools.chain.from_iterable(itertools.combinations(range(4), n) for n in range(1, 5)):
                agrees(fold, x, truth, axes)


def test_nan_and_signs_of_zero():
    x = np.float32([[[-0.0, np.nan, 1, -np.inf]] * 3, [[-0.0, 2, np.nan, np.inf]] * 3])
    x[1, 0] = [0.0, 1, 1, 1]
    with mx.stream(mx.cpu):
        for dtype in (mx.float32, mx.float16, mx.bfloat16):
            a = mx.array(x).astype(dtype)
            for fold in ("sum", "min", "max", "prod"):
                got = np.array(getattr(mx, fold)(a, axis=1).astype(mx.float32))
                np.testing.assert_array_equal(got, getattr(np, fold)(x, axis=1))
            assert not np.signbit(np.array(a.sum(1).astype(mx.float32))[:, 0]).any()  # a sum begins with 0


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64, mx.float16, mx.bfloat16], ids=str)
def test_accuracy(dtype):
    rng = np.random.default_rng(3)
    eps = {mx.float32: 2**-24, mx.float64: 2**-53, mx.float16: 2**-11, mx.bfloat16: 2**-8}[dtype]
    with mx.stream(mx.cpu):
        for shape, axes in SHAPES[:-1]:
            a = mx.array(rng.uniform(0.5, 1.5, shape).tolist(), dtype)
            x = np.array(a.astype(mx.float64)).astype(np.longdouble)
            np.testing.assert_allclose(np.array(a.sum(axes).astype(mx.float64)), x.sum(axes), rtol=16 * eps)
            wide = mx.broadcast_to(a[:, None], (shape[0], 37, *shape[1:]))
            np.testing.assert_allclose(np.array(wide.sum(1).astype(mx.float64)), x * 37, rtol=1.01 * eps)


def test_fused_are_the_same():
    """What is folded as it is made, and what lay in memory."""
    rng = np.random.default_rng(4)
    with mx.stream(mx.cpu):
        for dtype in (mx.float32, mx.float16, mx.bfloat16):
            for shape in ((64, 3, 500), (64, 8, 100), (64, 9, 100), (20, 32, 70), (20, 33, 70)):
                x = mx.array(rng.standard_normal(shape).astype(np.float32)).astype(dtype)
                fused = mx.compile(lambda x: mx.sum(x * 1.5, axis=1))(x)
                y = x * 1.5
                mx.eval(y)
                assert mx.array_equal(fused, mx.sum(y, axis=1)).item(), (dtype, shape)


THREADS = """
import hashlib
import mlx.core as mx, numpy as np
rng, h = np.random.default_rng(0), hashlib.sha256()
shapes = [((1000, 3, 500), 1), ((16, 32, 2, 32, 2, 32), (2, 4)), ((30, 40, 50, 60), (0, 2)), ((2, 3, 9, 70000), (0, 2))]
for shape, axes in shapes:
    x = mx.array(rng.standard_normal(shape).astype(np.float32))
    for a in (x, x.astype(mx.bfloat16), (x * 1000).astype(mx.int32)):
        for f in (mx.sum, mx.prod, mx.max):
            h.update(np.array(f(a, axis=axes).astype(mx.float32)).tobytes())
print(h.hexdigest())
"""


def test_threads():
    assert len(printed_by_threads(THREADS)) == 1
