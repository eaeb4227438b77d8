"""Factorizations of large matrices, which are cut up: residuals beside LAPACK's in the same type, the same bits on any
number of threads."""

import mlx.core as mx
import numpy as np
import pytest
import scipy.linalg
from process import printed_by_threads

L = mx.linalg
DTYPES = [np.float32, np.float64, np.complex64]
SIZES = [127, 128, 129, 144, 145, 193, 241, 337, 700]
SHAPES = [(128, 128), (128, 129), (129, 128), (200, 145), (145, 200), (240, 577), (577, 240), (1100, 128), (300, 300)]


def random(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype == np.complex64 else a).astype(dtype)


def graded(n, dtype):
    """Rows and columns whose sizes fall by 10^6 and 10^4."""
    fall = np.linspace(0, 1, n)
    return (random((n, n), dtype) * 10 ** (-6 * fall[:, None]) * 10 ** (-4 * fall)).astype(dtype)


def ill_conditioned(n, dtype):
    """Singular values from 1 down to the smallest that the type tells from 0."""
    q, p = (np.linalg.qr(wide(random((n, n), dtype, seed)))[0] for seed in (1, 2))
    return ((q * np.geomspace(1, 100 * np.finfo(dtype).eps, n)) @ p).astype(dtype)


def growing(n, dtype):
    """Elimination doubles the last column with each row, in the first part of the matrix."""
    a = np.eye(n) - np.tril(np.ones((n, n)), -1) * (np.arange(n) < 20)
    a[:, -1] = 1
    return a.astype(dtype)


KINDS = [lambda n, dtype: random((n, n), dtype), graded, ill_conditioned, growing]


def wide(a):
    a = np.asarray(a)
    return a.astype(np.complex128 if np.iscomplexobj(a) else np.float64)


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def residual(*parts, of):
    """|product - of| in the Frobenius norm, less what the sizes of the factors explain."""
    product, size = wide(parts[0]), np.linalg.norm(wide(parts[0]))
    for p in parts[1:]:
        product, size = product @ wide(p), size * np.linalg.norm(wide(p))
    return np.linalg.norm(product - of) / size


def as_small(ours, lapacks, dtype):
    assert ours <= 5 * lapacks + np.finfo(dtype).eps / 4, (ours, lapacks)


def array(a):
    return mx.array(a, dtype=mx.float64) if a.dtype == np.float64 else mx.array(a)


def mlx_of(a):
    """A view that is not contiguous."""
    return mx.swapaxes(array(np.ascontiguousarray(np.swapaxes(a, -1, -2))), -1, -2)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", SIZES)
class TestSquare:
    @pytest.mark.parametrize("kind", KINDS)
    def test_lu_inverse_solve(self, dtype, n, kind):
        a = kind(n, dtype)
        x, eye = mlx_of(a), np.eye(n)
        p, low, up = (np.array(y) for y in L.lu(x))
        want_p, want_low, want_up = scipy.linalg.lu(a)
        as_small(residual(low[p], up, of=a), residual(want_p @ want_low, want_up, of=a), dtype)
        assert abs(low).max() <= (1.5 if dtype == np.complex64 else 1)
        factors = scipy.linalg.lu_factor(a)  # NumPy's functions compute in float64
        for k in (1, 3, 16, 97, 200):
            b = random((n, k), dtype)
            y, want = np.array(L.solve(x, mlx_of(b))), scipy.linalg.lu_solve(factors, b)
            as_small(*(np.linalg.norm(wide(a) @ wide(v) - b) / np.linalg.norm(wide(v)) for v in (y, want)), dtype)
        y, want = np.array(L.inv(x)), scipy.linalg.lu_solve(factors, eye.astype(dtype))
        as_small(residual(a, y, of=eye), residual(a, want, of=eye), dtype)
        as_small(residual(y, a, of=eye), residual(want, a, of=eye), dtype)

    @pytest.mark.parametrize("upper", [False, True])
    def test_triangles(self, dtype, n, upper):
        part, eye = np.triu if upper else np.tril, np.eye(n)
        for a in (
            random((n, n), dtype) + 10 * eye.astype(dtype),
            scipy.linalg.lu(random((n, n), dtype))[1 + upper],
        ):
            triangle = part(a)
            x = mlx_of(triangle + (a - triangle) * 9)  # the other triangle is not read
            for k in (1, 3, 16, 96, 200):
                b = random((n, k), dtype)
                y = np.array(L.solve_triangular(x, mlx_of(b), upper=upper))
                want = scipy.linalg.solve_triangular(triangle, b, lower=not upper)
                as_small(
                    *(np.linalg.norm(wide(triangle) @ wide(v) - b) / np.linalg.norm(wide(v)) for v in (y, want)), dtype
                )
            y, want = (
                np.array(L.tri_inv(x, upper)),
                scipy.linalg.solve_triangular(triangle, eye.astype(dtype), lower=not upper),
            )
            assert not (y - part(y)).any()
            as_small(residual(triangle, y, of=eye), residual(triangle, want, of=eye), dtype)

    def test_determinants(self, dtype, n):
        a = random((n, n), dtype) / np.sqrt(n).astype(dtype)
        sign, size = (y.item() for y in L.slogdet(mlx_of(a)))
        want = np.linalg.slogdet(wide(a))
        np.testing.assert_allclose(sign, want[0], rtol=5e-3)
        np.testing.assert_allclose(size, want[1], rtol=5e-4)
        if n > 400:  # products on the way leave float32's range
            return
        scaled = a * dtype(np.exp(-want[1] / n))
        np.testing.assert_allclose(L.det(mlx_of(scaled)).item(), np.linalg.det(wide(scaled)), rtol=2e-2)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [511, 512, 513, 576, 625])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(dtype, n, upper):
    part = np.triu if upper else np.tril
    for a in (random((n, n), dtype), graded(n, dtype) + np.diag(10 ** (-6 * np.linspace(0, 1, n)))):
        a = wide(a)
        a = ((a @ adjoint(a)) + np.diag(np.diag(a @ adjoint(a))) / 10).astype(dtype)
        y, want = np.array(L.cholesky(mlx_of(part(a) + (a - part(a)) * 9), upper=upper)), scipy.linalg.cholesky(a)
        assert not (y - part(y)).any()
        low = adjoint(y) if upper else y
        as_small(residual(low, adjoint(low), of=a), residual(adjoint(want), want, of=a), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("n", [128, 145, 193, 340])
@pytest.mark.parametrize("upper", [False, True])
def test_eigh(dtype, n, upper):
    part = np.triu if upper else np.tril
    low_rank = random((n, n), dtype) * (np.arange(n) < 20)
    size = 1e150 if dtype == np.float64 else 1e18
    for a in (
        random((n, n), dtype),
        low_rank,
        random((n, n), dtype) * dtype(size),
        random((n, n), dtype) / dtype(size),
    ):
        a = a @ adjoint(a) if a is low_rank else a + adjoint(a)
        w, v = (np.array(y) for y in L.eigh(mlx_of(part(a) + (a - part(a)) * 9), "U" if upper else "L"))
        want, vectors = scipy.linalg.eigh(a)
        unit = abs(want).max()
        assert (np.diff(w) >= 0).all() and abs(w - want).max() <= 60 * np.finfo(dtype).eps * unit
        a, w, want = (wide(y) / unit for y in (a, w, want))
        as_small(residual(v * w, adjoint(v), of=a), residual(vectors * want, adjoint(vectors), of=a), dtype)
        as_small(*(residual(adjoint(y), y, of=np.eye(n)) for y in (v, vectors)), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("m, n", SHAPES)
class TestRectangles:
    def test_qr(self, dtype, m, n):
        k = min(m, n)
        for a in (random((m, n), dtype), (random((m, n), dtype) * np.geomspace(1, 1e-8, n)).astype(dtype)):
            q, r = (np.array(y) for y in L.qr(mlx_of(a)))
            want_q, want_r = scipy.linalg.qr(a, mode="economic")
            assert q.shape == (m, k) and r.shape == (k, n) and not np.tril(r, -1).any()
            as_small(residual(q, r, of=a), residual(want_q, want_r, of=a), dtype)
            as_small(*(residual(adjoint(v), v, of=np.eye(k)) for v in (q, want_q)), dtype)
            np.testing.assert_array_equal(np.sign(np.diag(r).real), np.sign(np.diag(want_r).real))

    def test_lu(self, dtype, m, n):
        a = random((m, n), dtype)
        p, low, up = (np.array(y) for y in L.lu(mlx_of(a)))
        want_p, want_low, want_up = scipy.linalg.lu(a)
        as_small(residual(low[p], up, of=a), residual(want_p @ want_low, want_up, of=a), dtype)
        both, _ = L.lu_factor(mlx_of(a))
        k = min(m, n)
        np.testing.assert_array_equal(np.tril(np.array(both)[:, :k], -1), np.tril(low, -1))
        np.testing.assert_array_equal(np.triu(np.array(both)[:k]), up)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_pivots_are_the_first_of_the_largest(dtype):
    """Of whole numbers, where elimination is exact and many are equal."""
    rng = np.random.default_rng(0)
    for n in (132, 400):
        low = np.tril(rng.integers(-1, 2, (n, n)), -1) * np.kron(np.eye(n // 4), np.ones((4, 4)))
        a = (low + np.eye(n))[rng.permutation(n)].astype(dtype)
        both, pivots = L.lu_factor(array(a))
        want, order = scipy.linalg.lu_factor(a)
        np.testing.assert_array_equal(np.array(pivots), order)
        np.testing.assert_array_equal(np.array(both), want)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
def test_batches(dtype):
    # One matrix may be cuSOLVER's, and many our kernels'.
    library = mx.default_device() == mx.gpu and mx.cuda.libraries()["cusolver"]
    a, b = random((2, 3, 150, 150), dtype), random((2, 3, 150, 40), dtype)
    x = array(a)
    for f in (
        L.inv,
        L.slogdet,
        L.lu,
        L.qr,
        L.tri_inv,
        lambda x: L.solve(x, array(b) if x.ndim > 2 else array(b[1, 2])),
        lambda x: L.cholesky(x @ mx.swapaxes(x.conj() if dtype == np.complex64 else x, -1, -2), upper=True),
    ):
        all_of_them, one = f(x), f(x[1, 2])
        for y, z in zip(all_of_them, one) if isinstance(one, (tuple, list)) else [(all_of_them, one)]:
            y, z = np.array(y)[1, 2], np.array(z)
            near = 1e4 * np.finfo(dtype).eps * np.abs(z).max() if library else 0
            np.testing.assert_allclose(y, z, rtol=0, atol=near)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("at", [0, 70, 199])
def test_singular(dtype, at):
    n = 200
    a = random((n, n), dtype)
    a[:, at] = 0
    x, b = array(a), array(random((n, 30), dtype))
    triangle = array(random((n, n), dtype) * (np.arange(n) != at))
    for f, message in [
        (lambda: L.inv(x), r"inv\] expected an invertible matrix, got: matrix is singular"),
        (lambda: L.inv(mx.stack([mx.eye(n).astype(x.dtype), x])), "inv] .*: matrix 1 of the batch is singular"),
        (lambda: L.solve(x, b), "solve] .*: matrix is singular"),
        (lambda: L.solve(x, b[:, 0]), "solve] .*: matrix is singular"),
        (lambda: L.solve_triangular(triangle, b), "solve_triangular] .*: matrix is singular"),
        (lambda: L.solve_triangular(triangle, b[:, :2], upper=True), "solve_triangular] .*: matrix is singular"),
        (lambda: L.tri_inv(triangle), "tri_inv] .*: matrix is singular"),
        (lambda: L.cholesky(-mx.eye(600).astype(x.dtype)), "cholesky] .*: matrix is not positive definite"),
        (lambda: L.cholesky(mx.eye(600).astype(x.dtype) - 2 * (mx.arange(600) == 3 * at), upper=True), "not positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            mx.eval(f())
    assert abs(L.det(x / 8).item()) == 0
    p, low, up = (np.array(y) for y in L.lu(x))
    np.testing.assert_allclose(low[p] @ up, a, atol=1e-3)
    assert [abs(y.item()) for y in L.slogdet(x)] == [0, np.inf]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_not_finite(dtype, what):
    """NaN or whatever follows, and no error; other matrices of the batch are as ever."""
    n = 520
    a = random((2, n, n), dtype)
    a = (a @ adjoint(a) + n * np.eye(n)).astype(dtype)
    a[1, 100, 20] = a[1, 20, 100] = what
    x, b = array(a), array(random((2, n, 20), dtype))
    for f in (
        L.inv,
        L.tri_inv,
        L.cholesky,
        lambda x: L.cholesky(x, upper=True),
        lambda x: L.qr(x)[1],
        lambda x: L.eigh(x)[1],
        lambda x: L.slogdet(x)[1],
        lambda x: L.lu(x)[1],
        lambda x: L.solve(x, b),
        lambda x: L.solve_triangular(x, b),
        lambda x: L.solve(x, b[..., :1]),
    ):
        y = np.array(f(x))
        assert np.isfinite(y[0]).all()
        assert what == np.inf or not np.isfinite(y[1]).all()


SAME_BITS = """
import hashlib
import mlx.core as mx
import numpy as np

L = mx.linalg

def array(a):
    return mx.array(a, dtype=mx.float64) if a.dtype == np.float64 else mx.array(a)

rng = np.random.default_rng(0)
for dtype in (np.float32, np.float64, np.complex64):
    for batch, n in (((), 129), ((), 512), ((2,), 250), ((7,), 130)):
        a = rng.standard_normal((*batch, n, n)).astype(dtype)
        x, b = array(a), array(rng.standard_normal((*batch, n, 150)).astype(dtype))
        s = array((a @ np.swapaxes(a, -1, -2)).astype(dtype) + n * np.eye(n).astype(dtype))
        rows = array(rng.standard_normal((*batch, n + 100, n)).astype(dtype))
        for y in (L.inv(x), L.solve(x, b), L.solve(x, b[..., :5]), *L.lu(x), *L.slogdet(x), L.det(x / 5), *L.qr(x),
                  *L.qr(rows), *L.qr(mx.swapaxes(rows, -1, -2)), L.cholesky(s), L.cholesky(s, upper=True), L.tri_inv(s),
                  L.solve_triangular(s, b), L.solve_triangular(s, b, upper=True), L.tri_inv(s, True), *L.eigh(s)):
            print(hashlib.sha256(np.array(y).tobytes()).hexdigest())
"""


def test_the_same_bits_on_any_number_of_threads():
    assert len(printed_by_threads(SAME_BITS)) == 1
