"""Singular values and eigenvalues of matrices large enough to be reduced by our own passes: residuals and orthogonality
in float64, values beside NumPy's, the same bits on any number of threads, every instruction set."""

import os

import mlx.core as mx
import numpy as np
import pytest
from process import passes_at_level, printed_by_threads

L = mx.linalg
DTYPES = [np.float32, np.float64, np.complex64]
SIZES = [*range(1, 71, 6), 127, 128, 129, 130, 131, 144, 145, 191, 192, 193, 200, 257, 513]


def array(a):
    return mx.array(a, dtype=mx.float64) if a.dtype == np.float64 else mx.array(a)


def random(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype == np.complex64 else a).astype(dtype)


def wide(a):
    a = np.asarray(a)
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def unit(dtype, n):
    """What rounding may do to a matrix of norm 1; LAPACK alone comes to more than half of it."""
    return 10 * np.finfo(dtype).eps * np.sqrt(n)


def check_orthogonal(q, dtype, more=1):
    n = q.shape[1]
    assert np.linalg.norm(adjoint(q) @ q - np.eye(n)) <= more * unit(dtype, n) * np.sqrt(n)


def check_svd(a, dtype):
    m, n = a.shape
    more = max(1, max(m, n) / 8) if mx.default_device() == mx.gpu else 1  # cuSOLVER's rotations
    k, size = min(m, n), np.abs(a).max() or 1
    u, s, vt = (wide(y) for y in L.svd(array(a)))
    a, s = wide(a) / size, s / size
    assert u.shape == (m, m) and vt.shape == (n, n) and (np.diff(s) <= 0).all() and (s >= 0).all()
    check_orthogonal(u, dtype, more)
    check_orthogonal(adjoint(vt), dtype, more)
    norm = np.linalg.norm(a)
    assert np.linalg.norm(u[:, :k] * s @ vt[:k] - a) <= more * unit(dtype, k) * norm
    want = np.linalg.svd(a, compute_uv=False)
    assert np.abs(s - want).max() <= more * unit(dtype, k) * want.max()
    alone = wide(L.svd(array((a * size).astype(dtype)), compute_uv=False)) / size
    assert np.abs(alone - want).max() <= more * unit(dtype, k) * want.max()


def check_eigh(a, dtype, upper):
    """The other triangle is not read."""
    part, n = np.triu if upper else np.tril, len(a)
    size = np.abs(a).max() or 1
    given = np.where(part(np.ones(a.shape, bool)), a, dtype(np.nan))
    w, v = (wide(y) for y in L.eigh(array(given), "U" if upper else "L"))
    a, w = wide(a) / size, w.real / size
    check_orthogonal(v, dtype)
    want = np.linalg.eigvalsh(a)
    assert (np.diff(w) >= 0).all() and np.abs(w - want).max() <= unit(dtype, n) * np.abs(want).max()
    assert np.linalg.norm(v * w @ adjoint(v) - a) <= unit(dtype, n) * np.linalg.norm(a)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", SIZES)
class TestSizes:
    def test_svd(self, dtype, n):
        check_svd(random((n, n), dtype), dtype)
        check_svd(random((n + 3, n), dtype), dtype)
        check_svd(random((n, n + n // 2), dtype), dtype)

    @pytest.mark.parametrize("upper", [False, True])
    def test_eigh(self, dtype, n, upper):
        a = random((n, n), dtype)
        check_eigh((a + adjoint(a)).astype(dtype), dtype, upper)


def check_eig(a, dtype):
    """Results are complex64 whatever the matrix is."""
    n, x = len(a), array(a)
    w, v = (wide(y) for y in L.eig(x))
    norm, small = np.linalg.norm(a.astype(np.float64), 2) or 1, unit(np.float32, n)
    np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1, atol=small)
    assert np.abs(a @ v - v * w).max() <= small * norm
    np.testing.assert_array_equal(w[w.imag > 0], w[w.imag < 0].conj())
    largest = np.abs(v) >= (1 - 1e-5) * np.abs(v).max(0)
    assert (largest & (np.abs(v.imag) <= small)).any(0).all()
    return np.abs(w[:, None] - np.linalg.eigvals(a.astype(np.float64))).min(1).max() / norm


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [*range(1, 71, 6), 127, 128, 129, 130, 191, 192, 193, 200, 257])
def test_eig(dtype, n):
    a = random((n, n), dtype)
    assert check_eig(a, dtype) <= 1e-4
    order = np.random.default_rng(0).permutation(n)
    check_eig(np.triu(a)[order][:, order], dtype)  # balanced by exchanges alone
    fall = 10.0 ** np.linspace(-5, 5, n)
    check_eig((a * fall[:, None] / fall).astype(dtype), dtype)
    check_eig((a * (order % 3 == 0)).astype(dtype), dtype)
    turns = np.kron(np.eye(n // 2 + 1), [[1, 2], [-2, 1]])[:n, :n]  # pairs all the way, across the chunks' ends
    turns[1:, 1:] = turns[:-1, :-1].copy() if n % 2 else turns[1:, 1:]
    check_eig(turns.astype(dtype), dtype)
    assert check_eig((a + a.T).astype(dtype), dtype) <= 1e-5


def kinds(n, dtype):
    """Matrices of which columns are zero or nothing beside others, of equal and of clustered values, of few numbers."""
    a, eps = wide(random((n, n), dtype)), np.finfo(dtype).eps
    q, p = np.linalg.qr(a)[0], np.linalg.qr(wide(random((n, n), dtype, 1)))[0]
    yield np.zeros((n, n))
    yield np.eye(n)
    yield np.diag(np.arange(n))
    yield np.ones((n, n))
    yield a * (np.arange(n) % 3 == 0)
    yield a * np.geomspace(1, eps**2, n)
    yield (q * np.repeat([1, 2, 3, 5], -(-n // 4))[:n]) @ adjoint(p)
    yield (q * (1 + eps * np.arange(n))) @ adjoint(p)
    yield (q * np.geomspace(1, eps, n)) @ adjoint(p)
    yield np.eye(n) + np.eye(n, k=1)
    yield np.triu(a)
    yield a * 10.0 ** (-150 if dtype == np.float64 else -18)
    yield a * 10.0 ** (150 if dtype == np.float64 else 18)
    yield a * np.finfo(dtype).tiny * 4


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [130, 209])
def test_kinds(dtype, n):
    for i, a in enumerate(kinds(n, dtype)):
        a = a.astype(dtype)
        if i < 13:
            check_svd(a, dtype)
            b = (a + adjoint(a)).astype(dtype)
            check_eigh(b, dtype, i % 2 == 0)
        for y in (*L.svd(array(a)), *L.eigh(array(a))):
            assert np.isfinite(np.array(y)).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("m, n", [(128, 128), (150, 200), (200, 150), (300, 140), (256, 256)])
def test_pseudo_inverse(dtype, m, n):
    a = random((m, n), dtype)
    y, want = wide(L.pinv(array(a))), np.linalg.pinv(wide(a))
    condition = np.linalg.cond(wide(a))
    assert np.linalg.norm(y - want) <= unit(dtype, min(m, n)) * condition * np.linalg.norm(want)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
def test_not_finite(dtype, what):
    """NaN, and no error; other matrices of the batch are as ever."""
    a = random((2, 150, 150), dtype)
    a[1, 100, 20] = a[1, 20, 100] = what
    for f in (L.svd, L.eigh, L.eig, L.pinv, lambda x: L.svd(x, compute_uv=False), L.eigvalsh):
        y = f(array(a))
        for part in y if isinstance(y, (tuple, list)) else [y]:
            part = np.array(part)
            assert np.isfinite(part[0]).all() and np.isnan(part[1]).all()


SAME_BITS = """
import hashlib
import mlx.core as mx
import numpy as np

L = mx.linalg
rng = np.random.default_rng(0)
for dtype in (mx.float32, mx.float64, mx.complex64):
    for batch, m, n in (((), 129, 129), ((), 200, 300), ((), 513, 513), ((2,), 250, 200), ((7,), 130, 140)):
        a = rng.standard_normal((*batch, m, n))
        x, s = mx.array(a, dtype=dtype), mx.array(a @ np.swapaxes(a, -1, -2), dtype=dtype)
        general = [] if m != n or dtype == mx.complex64 else L.eig(x)
        for y in (*general, *L.svd(x), L.svd(x, compute_uv=False), L.pinv(x), *L.eigh(s), *L.eigh(s, "U")):
            print(hashlib.sha256(np.array(y).tobytes()).hexdigest())
"""


def test_the_same_bits_on_any_number_of_threads():
    assert len(printed_by_threads(SAME_BITS)) == 1


@pytest.mark.skipif("MLX_CPU" in os.environ, reason="is one of them")
@pytest.mark.parametrize("level", ["base", "avx2"])
def test_every_instruction_set(level):
    passes_at_level(__file__, level)
