"""Operations made of others, against NumPy in float64."""

import time

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

small = st.integers(1, 4)


def check(got, want, tolerance=1e-5):
    assert got.shape == want.shape
    np.testing.assert_allclose(np.array(got), want, rtol=tolerance, atol=tolerance)


def sample(*shape):
    return np.random.default_rng(sum(shape) + len(shape)).normal(size=shape)


def f32(a):
    return mx.array(a.astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), st.data())
def test_rearrangements(shape, data):
    a = np.arange(np.prod(shape)).reshape(shape)
    x = mx.array(a)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    n = data.draw(st.integers(0, 3))
    check(mx.repeat(x, n, axis), np.repeat(a, n, axis))
    check(mx.repeat(x, n), np.repeat(a, n))
    reps = data.draw(st.lists(st.integers(0, 3), max_size=5))
    check(mx.tile(x, reps), np.tile(a, reps))
    shift = data.draw(st.integers(-7, 7))
    check(mx.roll(x, shift), np.roll(a, shift))
    check(mx.roll(x, shift, axis), np.roll(a, shift, axis))
    check(mx.roll(x, (shift, n), (0, axis)), np.roll(a, (shift, n), (0, axis)))
    order = data.draw(st.integers(0, 3))
    check(mx.diff(x, order, axis), np.diff(a, order, axis))


@settings(max_examples=40, deadline=None)
@given(hnp.array_shapes(min_dims=2, max_dims=4, max_side=5), st.integers(-6, 6), st.data())
def test_diagonals(shape, offset, data):
    a = np.arange(np.prod(shape)).reshape(shape)
    i, j = data.draw(st.permutations(range(len(shape))))[:2]
    check(mx.diagonal(mx.array(a), offset, i, j), np.diagonal(a, offset, i, j))
    check(mx.trace(mx.array(a), offset, i, j), np.trace(a, offset, i, j))
    check(mx.array(a).diagonal(offset), np.diagonal(a, offset))
    v = np.arange(1, shape[0] + 1)
    check(mx.diag(mx.array(v), offset), np.diag(v, offset))
    m = a.reshape(-1, shape[-1])
    check(mx.diag(mx.array(m), offset), np.diag(m, offset))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(small, min_size=1, max_size=3),
    st.lists(small, min_size=0, max_size=2),
    st.lists(small, min_size=0, max_size=2),
)
def test_tensordot(folded, left, right):
    a, b = sample(*left, *folded), sample(*folded, *right)
    check(mx.tensordot(f32(a), f32(b), len(folded)), np.tensordot(a, b, len(folded)), 1e-4)
    axes_a = list(range(len(left), a.ndim))[::-1]
    axes_b = list(range(len(folded)))[::-1]
    check(mx.tensordot(f32(a), f32(b), [axes_a, axes_b]), np.tensordot(a, b, [axes_a, axes_b]), 1e-4)


def test_products():
    a, b = sample(2, 3), sample(4, 3)
    check(mx.inner(f32(a), f32(b)), np.inner(a, b))
    check(mx.outer(f32(a), f32(b)), np.outer(a, b))
    check(mx.kron(f32(a), f32(b)), np.kron(a, b))
    check(mx.kron(f32(a[0]), f32(b)), np.kron(a[0], b))
    check(mx.inner(mx.array(2.0), f32(b)), 2 * b)
    z, w = a + 1j * b[:2], b[:2] - 1j * a
    got = mx.vecdot(mx.array(z.astype(np.complex64)), mx.array(w.astype(np.complex64)), axis=0)
    check(got, (z.conj() * w).sum(axis=0))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_meshgrid(n, indexing, sparse):
    parts = [np.arange(i + 2) for i in range(n)]
    got = mx.meshgrid(*map(mx.array, parts), indexing=indexing, sparse=sparse)
    for x, y in zip(got, np.meshgrid(*parts, indexing=indexing, sparse=sparse)):
        check(x, y)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows(name):
    for n in (0, 1, 2, 5, 16, 101, 2**16, 2**16 + 1, 70_000):
        check(getattr(mx, name)(n), getattr(np, name)(n).astype(np.float32))


def test_gradients_go_through():
    x = f32(sample(4, 4))
    got = mx.grad(lambda x: (mx.diagonal(x, 1) * mx.array([1.0, 2, 3])).sum())(x)
    assert np.array_equal(np.array(got), np.diag([1.0, 2, 3], 1))
    got = mx.grad(lambda x: (mx.roll(x, 1, 0) * x).sum())(x)
    check(got, np.roll(np.array(x), 1, 0) + np.roll(np.array(x), -1, 0))


def test_errors():
    x = mx.zeros((2, 3))
    for call, match in [
        (lambda: mx.repeat(x, -1), "repeat"),
        (lambda: mx.tile(x, (2, -1)), "tile"),
        (lambda: mx.roll(x, (1, 2), (0, 1, 0)), "roll"),
        (lambda: mx.roll(x, 1, 2), "roll"),
        (lambda: mx.tensordot(x, x, 1), "tensordot"),
        (lambda: mx.tensordot(x, x, 3), "tensordot"),
        (lambda: mx.inner(x, mx.zeros((2, 2))), "inner"),
        (lambda: mx.diagonal(mx.zeros(3)), "diagonal"),
        (lambda: mx.diagonal(x, 0, 1, 1), "diagonal"),
        (lambda: mx.diag(mx.zeros((2, 2, 2))), "diag"),
        (lambda: mx.meshgrid(mx.zeros(2), indexing="zz"), "meshgrid"),
        (lambda: mx.diff(mx.array(1.0)), "diff"),
        (lambda: mx.diff(x, -1), "diff"),
        (lambda: mx.diag(mx.zeros(3), 2**31 - 2), "2\\^31"),
        (lambda: mx.tile(x, (2**31 - 1, 2**31 - 1)), "2\\^31"),
    ]:
        with pytest.raises(ValueError, match=match):
            call()


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_windows_beyond_the_memory_limit_cost_no_time(name):
    limit = mx.set_memory_limit(1 << 26)
    start = time.process_time()
    try:
        with pytest.raises(MemoryError):
            mx.eval(getattr(mx, name)(1 << 28))
    finally:
        mx.set_memory_limit(limit)
    assert time.process_time() - start < 0.5


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
def test_large_windows_are_computed_when_somebody_looks(name):
    before = mx.get_active_memory()
    window = getattr(mx, name)(1 << 26)
    assert mx.get_active_memory() - before < 1 << 20 and window.shape == (1 << 26,)
