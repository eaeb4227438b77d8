"""mlx.core.linalg against NumPy and SciPy in float64; derivatives against differences, vmap against loops."""

import functools
import itertools

import mlx.core as mx
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given
from hypothesis import strategies as st

L = mx.linalg
DTYPES = [mx.float32, mx.float64, mx.complex64]
EPS = {mx.float32: 2e-4, mx.float64: 1e-9, mx.complex64: 4e-4}
BATCHES = [(), (3,), (2, 2)]
RECTANGLES = [(1, 1), (4, 3), (3, 4), (40, 7), (7, 40), (5, 5)]


def random(*shape, dtype=mx.float64, seed=0):
    rng = np.random.default_rng([seed, *shape])
    a = rng.standard_normal(shape)
    if dtype == mx.complex64:
        return mx.array((a + 1j * rng.standard_normal(shape)).astype(np.complex64))
    return mx.array(a, dtype=mx.float64).astype(dtype)


def exact(a):
    wide = np.complex128 if a.dtype == mx.complex64 else np.float64
    return np.array(a).astype(wide)


def close(got, want, dtype, factor=1):
    np.testing.assert_allclose(got, want, rtol=factor * EPS[dtype], atol=factor * EPS[dtype])


def adjoint(a):
    return np.conj(np.swapaxes(a, -1, -2))


def as_mx(a, dtype):
    return mx.array(a) if dtype == mx.complex64 else mx.array(a, dtype=mx.float64).astype(dtype)


def regular(*shape, dtype=mx.float64, seed=0):
    """Square matrices far from singular."""
    a = exact(random(*shape, dtype=dtype, seed=seed))
    return as_mx(a + 3 * np.sqrt(shape[-1]) * np.eye(shape[-1]), dtype)


def positive(*shape, dtype=mx.float64, seed=0):
    a = exact(random(*shape, dtype=dtype, seed=seed))
    return as_mx(a @ adjoint(a) + np.eye(shape[-1]), dtype)


# ---- values


@pytest.mark.parametrize("n", [1, 2, 5, 33])
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
class TestSquare:
    def test_inverses(self, dtype, batch, n):
        x = regular(*batch, n, n, dtype=dtype)
        a = exact(x)
        close(exact(L.inv(x)), np.linalg.inv(a), dtype)
        for upper, part in ((False, np.tril), (True, np.triu)):
            close(exact(L.tri_inv(x, upper)), np.linalg.inv(part(a)), dtype)
            factor = exact(L.cholesky_inv(x, upper=upper))
            want = np.linalg.inv(adjoint(part(a)) @ part(a) if upper else part(a) @ adjoint(part(a)))
            close(factor, want, dtype)

    def test_determinants(self, dtype, batch, n):
        x = random(*batch, n, n, dtype=dtype)
        a = exact(x)
        sign, size = L.slogdet(x)
        want = np.linalg.slogdet(a)
        assert size.dtype == (mx.float32 if dtype == mx.complex64 else dtype)
        close(exact(sign), want[0], dtype, 10)
        close(exact(size), want[1], dtype, 10)
        if n < 10:
            close(exact(L.det(x)), np.linalg.det(a), dtype, 10)

    def test_cholesky(self, dtype, batch, n):
        a = exact(positive(*batch, n, n, dtype=dtype))
        want = np.linalg.cholesky(a)
        # The other triangle holds what must not be read.
        close(exact(L.cholesky(as_mx(np.tril(a) + np.triu(a * 9, 1), dtype))), want, dtype)
        upper = L.cholesky(as_mx(np.triu(a) + np.tril(a * 9, -1), dtype), upper=True)
        close(exact(upper), adjoint(want), dtype)

    @pytest.mark.parametrize("k", [None, 1, 3])
    def test_solve(self, dtype, batch, n, k):
        x = regular(*batch, n, n, dtype=dtype)
        b = random(n, dtype=dtype) if k is None else random(*batch, n, k, dtype=dtype)
        close(exact(L.solve(x, b)), np.linalg.solve(exact(x), exact(b)), dtype)
        for upper, part in ((False, np.tril), (True, np.triu)):
            got = L.solve_triangular(x, b, upper=upper)
            close(exact(got), np.linalg.solve(part(exact(x)), exact(b)), dtype)

    def test_eigh(self, dtype, batch, n):
        a = exact(random(*batch, n, n, dtype=dtype))
        a = a + adjoint(a)
        for uplo, part in (("L", np.tril), ("u", np.triu)):
            x = as_mx(part(a), dtype)
            w, v = L.eigh(x, uplo)
            assert w.dtype == (mx.float32 if dtype == mx.complex64 else dtype)
            close(exact(w), np.linalg.eigvalsh(a), dtype, 4)
            close(exact(v) * exact(w)[..., None, :] @ adjoint(exact(v)), a, dtype, 4)
            close(exact(L.eigvalsh(x, UPLO=uplo)), exact(w), dtype, 4)

    def test_eig(self, dtype, batch, n):
        x = random(*batch, n, n, dtype=dtype)
        w, v = L.eig(x)
        assert w.dtype == v.dtype == mx.complex64
        close(exact(x) @ exact(v), exact(v) * exact(w)[..., None, :], mx.complex64, 10)
        close(np.linalg.norm(exact(v), axis=-2), 1, mx.complex64)
        got, want = exact(L.eigvals(x)), np.linalg.eigvals(exact(x))
        close(np.sort_complex(got.round(2)), np.sort_complex(want.round(2)), mx.complex64, 100)


@pytest.mark.parametrize("m, n", RECTANGLES)
@pytest.mark.parametrize("batch", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
class TestRectangles:
    def test_qr(self, dtype, batch, m, n):
        x, k = random(*batch, m, n, dtype=dtype), min(m, n)
        q, r = L.qr(x)
        assert q.shape == (*batch, m, k) and r.shape == (*batch, k, n)
        want = np.linalg.qr(exact(x))
        close(exact(q), want.Q, dtype, 4)
        close(exact(r), want.R, dtype, 4)

    def test_svd(self, dtype, batch, m, n):
        x, k = random(*batch, m, n, dtype=dtype), min(m, n)
        u, s, vt = L.svd(x)
        assert u.shape == (*batch, m, m) and s.shape == (*batch, k) and vt.shape == (*batch, n, n)
        close(exact(s), np.linalg.svd(exact(x), compute_uv=False), dtype)
        close(exact(u)[..., :k] * exact(s)[..., None, :] @ exact(vt)[..., :k, :], exact(x), dtype)
        for q in (exact(u), exact(vt)):
            close(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), q.shape), dtype)
        close(exact(L.svd(x, compute_uv=False)), exact(s), dtype)

    def test_pinv(self, dtype, batch, m, n):
        x = random(*batch, m, n, dtype=dtype)
        close(exact(L.pinv(x)), np.linalg.pinv(exact(x)), dtype, 4)

    def test_lu(self, dtype, batch, m, n):
        x = random(*batch, m, n, dtype=dtype)
        p, low, up = L.lu(x)
        assert p.dtype == mx.uint32
        both, pivots = L.lu_factor(x)
        for i in np.ndindex(batch):
            close(exact(low)[i][np.array(p)[i]] @ exact(up)[i], exact(x)[i], dtype)
            want, order = scipy.linalg.lu_factor(exact(x)[i])
            close(exact(both)[i], want, dtype)
            np.testing.assert_array_equal(np.array(pivots)[i], order)


def test_pinv_of_lower_rank():
    a = exact(random(6, 2)) @ exact(random(2, 5, seed=1))
    for dtype in DTYPES:
        got = exact(L.pinv(as_mx(a, dtype) if dtype != mx.complex64 else mx.array(a.astype(np.complex64))))
        np.testing.assert_allclose(got, np.linalg.pinv(a), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(np.array(L.pinv(mx.zeros((2, 3)))), np.zeros((3, 2)))


@pytest.mark.parametrize("batch", [(), (2,), (3, 2)], ids=str)
def test_solve_broadcasts(batch):
    a, b = regular(4, 4), random(*batch, 4, 3)
    np.testing.assert_allclose(exact(L.solve(a, b)), np.linalg.solve(exact(a), exact(b)), rtol=1e-9)
    a, b = regular(2, 1, 4, 4), random(5, 4, 3)
    np.testing.assert_allclose(exact(L.solve(a, b)), np.linalg.solve(exact(a), exact(b)), rtol=1e-9)


@given(
    st.sampled_from([None, 0, 1, 2, 3, -1, -2.5, 0.5, np.inf, -np.inf, "fro", "nuc"]),
    st.sampled_from([None, 0, -1, [1], [0, 1], [2, 0], [-1, 1]]),
    st.booleans(),
    st.sampled_from([mx.float32, mx.float64, mx.complex64, mx.int32]),
)
def test_norm(order, axis, keepdims, dtype):
    x = (random(3, 4, 5) * 3).astype(dtype) if dtype != mx.complex64 else random(3, 4, 5, dtype=dtype)
    if order == 0:
        x = mx.where(mx.abs(x) > 1, x, mx.zeros_like(x))
    try:
        if axis is None and order is not None:
            raise ValueError
        where = tuple(axis) if isinstance(axis, list) else axis
        where = where[0] if isinstance(where, tuple) and len(where) == 1 else where
        if order == 0 and isinstance(where, int):  # which NumPy gives as integers
            want = (np.array(x) != 0).sum(where, keepdims=keepdims)
        else:
            with np.errstate(divide="ignore"):
                want = np.linalg.norm(exact(x), order, where, keepdims)
    except ValueError:
        with pytest.raises(ValueError, match="linalg.norm"):
            L.norm(x, order, axis, keepdims)
        return
    got = L.norm(x, order, axis, keepdims)
    assert got.dtype == (mx.float64 if dtype == mx.float64 else mx.float32)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(exact(got), want, rtol=1e-4)


def test_norm_without_axes():
    for x in (random(4), random(3, 4)):
        for order in (1, 2, -1, -2, np.inf, -np.inf):
            np.testing.assert_allclose(exact(L.norm(x, order)), np.linalg.norm(exact(x), order), rtol=1e-9)
    np.testing.assert_allclose(exact(L.norm(random(2, 3, 4))), np.linalg.norm(exact(random(2, 3, 4)).ravel()))
    assert L.norm(mx.array(-3.0)).item() == 3
    half = L.norm(mx.full((100,), 300.0, dtype=mx.float16))
    assert half.dtype == mx.float16 and half.item() == 3000


def test_cross():
    a, b = random(4, 3), random(3)
    np.testing.assert_allclose(exact(L.cross(a, b)), np.cross(exact(a), exact(b)), rtol=1e-12)
    np.testing.assert_allclose(exact(L.cross(a.T, a.T + 1, axis=0)), np.cross(exact(a), exact(a) + 1).T)
    np.testing.assert_array_equal(L.cross(mx.array([1, 2]), mx.array([3, 4])).tolist(), [0, 0, -2])
    np.testing.assert_array_equal(L.cross(mx.array([1.0, 2]), mx.array([3.0, 4, 5])).tolist(), [10, -5, -2])


def test_integers_and_strides():
    x = mx.array([[2, 1], [1, 3]])
    assert L.det(x).item() == 5 and L.inv(x).dtype == mx.float32
    whole = random(6, 7, 4)
    np.testing.assert_allclose(
        exact(L.svd(whole[::2, 1:, ::-1].swapaxes(0, 1), False)),
        np.linalg.svd(exact(whole)[::2, 1:, ::-1].swapaxes(0, 1), compute_uv=False),
        rtol=1e-9,
    )
    assert L.det(mx.array([[2, 1], [1, 3]], dtype=mx.float16)).dtype == mx.float16


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)], ids=str)
def test_empty(shape):
    x = mx.zeros(shape)
    for f in (L.inv, L.cholesky, L.pinv, L.tri_inv):
        assert f(x).shape == shape
    assert np.array(L.det(x)).tolist() == np.linalg.det(np.zeros(shape)).tolist()
    for f in (L.qr, L.svd, L.eig, L.eigh, L.lu, L.lu_factor, L.slogdet):
        mx.eval(f(x))
    assert L.solve(x, mx.zeros((*shape[:-1], 2))).shape == (*shape[:-1], 2)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3), (3, 0), (0, 2, 2)])
def test_derivatives_of_lu_without_elements(shape):
    x = mx.zeros(shape)
    y, dy = mx.jvp(lambda x: mx.linalg.lu_factor(x, stream=mx.cpu)[0], [x], [x])
    assert dy[0].shape == y[0].shape == shape and dy[0].size == 0
    dx = mx.vjp(lambda x: mx.linalg.lu_factor(x, stream=mx.cpu)[0], [x], [x])[1]
    assert dx[0].shape == shape


def test_empty_rectangles():
    assert [y.shape for y in L.qr(mx.zeros((3, 0)))] == [(3, 0), (0, 0)]
    u, s, vt = L.svd(mx.zeros((0, 3)))
    assert u.shape == (0, 0) and s.shape == (0,) and vt.tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 15, 16, 17])
def test_batches_of_small_matrices(n, dtype):
    """Each within what rounding allows, and the same wherever in a batch it is."""
    eps = float(mx.finfo(dtype).eps) * 8 * n
    a, b = random(37, n, n, dtype=dtype), random(37, n, 3, dtype=dtype, seed=1)
    upper = mx.triu(a) + mx.eye(n, dtype=dtype) * 3
    positive = a @ a.swapaxes(1, 2) + mx.eye(n, dtype=dtype)
    size = [np.linalg.norm(exact(x), axis=(1, 2)) for x in (a, upper)]
    operations = {
        "inv": (L.inv, a, lambda y: (exact(a) @ y - np.eye(n), size[0])),
        "tri_inv": (lambda x: L.tri_inv(x, upper=True), upper, lambda y: (exact(upper) @ y - np.eye(n), size[1])),
        "solve": (lambda x: L.solve(x, b[: len(x)]), a, lambda y: (exact(a) @ y - exact(b), size[0])),
        "cholesky": (L.cholesky, positive, lambda y: (y @ y.swapaxes(1, 2) - exact(positive), 1)),
    }
    for name, (f, x, left) in operations.items():
        y = f(x)
        rest, most = left(exact(y))
        y2 = np.linalg.norm(exact(y), axis=(1, 2))
        assert (
            np.linalg.norm(rest, axis=(1, 2)) <= eps * most * np.maximum(y2, y2**2 if name == "cholesky" else 0)
        ).all()
        if name != "solve":
            assert np.array_equal(f(x[5:6]), y[5:6]) and np.array_equal(f(x[:30])[20:], y[20:30])
    p, low, up = L.lu(a)
    for i in (0, 17, 36):
        want = scipy.linalg.lu_factor(np.array(a[i]))
        assert np.array_equal(L.lu_factor(a[i])[1], want[1])
        np.testing.assert_allclose(exact(low[i])[np.array(p[i])] @ exact(up[i]), exact(a[i]), atol=eps * size[0][i])
    want = np.linalg.det(exact(a))
    np.testing.assert_allclose(np.array(L.det(a)), want, rtol=0, atol=eps * np.max(size[0] ** n))
    sign, logarithm = L.slogdet(a)
    np.testing.assert_allclose(np.array(sign) * np.exp(exact(logarithm)), np.array(L.det(a)), rtol=20 * eps)
    for f in (L.inv, L.cholesky, lambda x: L.solve(x, b)):
        bad = np.array(positive)
        bad[21] = 0
        with pytest.raises(ValueError, match="matrix 21 of the batch"):
            mx.eval(f(mx.array(bad)))
        bad[21] = np.nan
        assert np.isnan(np.array(f(mx.array(bad))[21])[-1, 0]) and np.isfinite(np.array(f(mx.array(bad))[20])).all()


# ---- what does not work


def test_matrices_that_do_not_allow_it():
    eye, zero = mx.eye(2), mx.zeros((2, 2))
    for f, batch, message in [
        (L.inv, zero, "inv] expected an invertible matrix, got: matrix is singular"),
        (L.inv, mx.stack([eye, zero, zero]), "inv] .*: matrix 1 of the batch is singular"),
        (L.tri_inv, mx.stack([eye, zero])[None], r"tri_inv] .*: matrix \(0,1\) of the batch is singular"),
        (L.cholesky, mx.stack([eye, -eye]), "cholesky] .*: matrix 1 of the batch is not positive definite"),
        (lambda a: L.solve(a, eye), mx.stack([eye, zero]), "solve] .*: matrix 1 of the batch is singular"),
        (lambda a: L.solve_triangular(a, eye), zero, "solve_triangular] .*: matrix is singular"),
    ]:
        with pytest.raises(ValueError, match=message):
            mx.eval(f(batch))


def test_arguments_refused():
    eye = mx.eye(2)
    for f, message in [
        (lambda: L.inv(mx.ones((2, 3))), r"\[linalg.inv\] expected square matrices, got shape \(2,3\)"),
        (lambda: L.qr(mx.ones((2,))), "at least two dimensions"),
        (lambda: L.svd(eye.astype(mx.float16)), "expected an array of float32, float64 or complex64, got float16"),
        (lambda: L.solve(eye.astype(mx.bfloat16), mx.ones((2, 2))), "got bfloat16"),
        (lambda: L.eigh(eye, "X"), "'X'"),
        (lambda: L.solve(eye, mx.ones((3,))), "as many rows"),
        (lambda: L.solve(mx.ones((4, 2, 2)), mx.ones((3, 2, 2))), "broadcast"),
        (lambda: L.norm(mx.ones((2, 2, 2)), 2), "two for the norm of matrices"),
        (lambda: L.norm(eye, 3), "order of 1"),
        (lambda: L.norm(eye, "x"), "'x'"),
        (lambda: L.norm(eye, axis=[0, 0]), "twice"),
        (lambda: L.cross(mx.ones((4,)), mx.ones((4,))), "size 2 or 3"),
    ]:
        with pytest.raises(ValueError, match=message):
            f()
    with pytest.raises(TypeError, match="'ord' must be a number"):
        L.norm(eye, [1])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_not_finite(dtype, what):
    """One matrix of a batch gives NaN, or whatever follows; the others are as ever."""
    a = exact(positive(2, 4, 4, dtype=dtype))
    a[1, 2, 0] = a[1, 0, 2] = what
    x = as_mx(a, dtype)
    for f in (L.inv, L.tri_inv, L.cholesky, L.qr, L.svd, L.eig, L.eigh, L.eigvals, L.eigvalsh, L.pinv, L.det, L.lu):
        y = f(x)
        y = y[1] if isinstance(y, tuple) else y
        assert np.isfinite(np.array(y[0])).all(), f
        if f in (L.svd, L.eig, L.eigh, L.eigvals, L.pinv):
            assert np.isnan(np.array(y[1])).all(), f


def test_singular_is_not_always_an_error():
    x = mx.ones((3, 3))
    assert L.det(x).item() == 0
    assert [y.item() for y in L.slogdet(x)] == [0, -np.inf]
    mx.eval(L.lu(x), L.qr(x), L.svd(x), L.pinv(x), L.eig(x))


# ---- derivatives


def flat(f):
    """f with its results in one vector."""

    def g(*args):
        y = f(*args)
        y = y if isinstance(y, tuple) else (y,)
        return mx.concatenate([mx.flatten(v) for v in y if v.dtype != mx.uint32])

    return g


def check_derivatives(f, *args, tolerance=1e-6, second=True):
    """vjp and jvp of f against central differences in float64; those of a vjp likewise."""
    f, args, step = flat(f), list(args), 1e-5
    direction = [random(*a.shape, seed=1) for a in args]

    def along(g):
        up = g(*[a + step * d for a, d in zip(args, direction)])
        down = g(*[a - step * d for a, d in zip(args, direction)])
        return (exact(up) - exact(down)) / (2 * step)

    ct, want = random(*f(*args).shape, seed=2), along(f)
    (dy,) = mx.jvp(f, args, direction)[1]
    np.testing.assert_allclose(exact(dy), want, rtol=tolerance, atol=tolerance)
    dx = mx.vjp(f, args, [ct])[1]
    got = sum((exact(g) * exact(d)).sum() for g, d in zip(dx, direction))
    np.testing.assert_allclose(got, (exact(ct) * want).sum(), rtol=tolerance, atol=tolerance)
    if second:
        weight = [random(*a.shape, seed=3) for a in args]

        def slope(*at):
            return sum((g * w).sum() for g, w in zip(mx.vjp(f, list(at), [ct])[1], weight))

        grads = mx.vjp(slope, args, [mx.array(1.0, dtype=mx.float64)])[1]
        got = sum((exact(g) * exact(d)).sum() for g, d in zip(grads, direction))
        (forward,) = mx.jvp(slope, args, direction)[1]
        np.testing.assert_allclose([got, exact(forward)], [along(slope)] * 2, rtol=50 * tolerance, atol=50 * tolerance)


@pytest.mark.parametrize(
    "f",
    [
        L.inv,
        L.tri_inv,
        lambda a: L.tri_inv(a, True),
        L.det,
        L.slogdet,
        L.pinv,
        L.qr,
        L.lu,
        L.lu_factor,
        L.eigvalsh,
        L.eigh,
        lambda a: L.eigh(a, "U"),
        L.svd,
        lambda a: L.svd(a, False),
        lambda a: L.norm(a, "nuc", [-2, -1]),
        lambda a: L.norm(a, 2, [-2, -1]),
        lambda a: L.norm(a, -1, [-2, -1]),
        lambda a: L.norm(a),
        lambda a: L.norm(a, 3, -1),
    ],
)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3)], ids=str)
def test_derivatives(f, shape):
    check_derivatives(f, random(*shape, seed=5))


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 2)], ids=str)
@pytest.mark.parametrize(
    "f", [L.qr, L.pinv, L.lu, L.lu_factor, lambda a: L.svd(a, False), lambda a: L.norm(a, "nuc", [-1, -2])]
)
def test_derivatives_of_rectangles(f, shape):
    check_derivatives(f, random(*shape, seed=5))


@pytest.mark.parametrize("m, n", [(5, 3), (3, 5), (4, 4)])
def test_derivatives_of_singular_vectors(m, n):
    """Of what does not depend on how the vectors beyond the smaller size are chosen."""
    k = min(m, n)

    def f(a):
        u, s, vt = L.svd(a)
        return u[:, :k], s, vt[:k], u[:, k:] @ u[:, k:].T, vt[k:].T @ vt[k:]

    check_derivatives(f, random(m, n, seed=6))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 3)], ids=str)
def test_derivatives_of_cholesky(shape, upper):
    check_derivatives(lambda a: L.cholesky(a, upper), positive(*shape, seed=3))
    check_derivatives(lambda a: L.cholesky_inv(a, upper), regular(*shape, seed=3))


@pytest.mark.parametrize(
    "shapes", [((3, 3), (3,)), ((2, 3, 3), (2, 3, 2)), ((3, 3), (4, 3, 2)), ((2, 3, 3), (3, 1))], ids=str
)
def test_derivatives_of_solve(shapes):
    a, b = regular(*shapes[0], seed=1), random(*shapes[1], seed=2)
    check_derivatives(L.solve, a, b)
    for upper in (False, True):
        check_derivatives(functools.partial(L.solve_triangular, upper=upper), a, b)


def test_derivative_of_det_of_singular_matrices():
    for n, rank in itertools.product((1, 2, 4), (0, 1, 3)):
        a = exact(random(n, rank)) @ exact(random(rank, n, seed=1)) if rank < n else exact(random(n, n))
        check_derivatives(L.det, mx.array(a, dtype=mx.float64), second=False)


def test_equal_values():
    """Functions that do not depend on the choice of vectors have derivatives there too."""
    eye = mx.eye(3, dtype=mx.float64)

    def root(a):
        w, v = L.eigh(a)
        return (v * mx.sqrt(w)) @ v.T

    np.testing.assert_allclose(exact(mx.grad(lambda a: mx.trace(root(a)))(eye)), np.eye(3) / 2, atol=1e-12)
    np.testing.assert_allclose(exact(mx.grad(lambda a: L.pinv(a).sum())(eye)), -np.ones((3, 3)), atol=1e-12)
    grad = mx.grad(lambda x: L.norm(x))(mx.zeros((3,)))
    assert grad.tolist() == [0, 0, 0]


def test_derivatives_of_eig():
    """In complex64, which is all there is."""
    x, t = (random(5, 5, dtype=mx.float32, seed=seed) for seed in (4, 5))
    for f in (L.eigvals, lambda a: L.eig(a)[0], lambda a: L.eig(a)[1]):
        check_adjoint(f, x, 0.3 * t)


def check_adjoint(f, x, t, tolerance=1e-3):
    """<J t, c> = <t, J' c>, and J t against differences in single precision."""
    y, (dy,) = mx.jvp(f, [x], [t])
    ct = random(*y[0].shape, dtype=y[0].dtype, seed=7)
    (dx,) = mx.vjp(f, [x], [ct])[1]
    left = np.real(np.conj(exact(ct)) * exact(dy)).sum()
    right = np.real(np.conj(exact(dx)) * exact(t)).sum()
    np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)
    step = 2.0**-8
    want = (exact(f(x + step * t)) - exact(f(x - step * t))) / (2 * step)
    np.testing.assert_allclose(exact(dy), want, rtol=0.05, atol=0.05)


@pytest.mark.parametrize(
    "f",
    [
        L.inv,
        L.det,
        L.pinv,
        L.eigvals,
        L.eigvalsh,
        lambda a: L.slogdet(a)[0],
        lambda a: L.slogdet(a)[1],
        lambda a: L.qr(a)[0],
        lambda a: L.qr(a)[1],
        lambda a: L.lu_factor(a)[0],
        lambda a: L.svd(a, False),
        lambda a: L.eig(a)[1],
        lambda a: L.tri_inv(a, True),
        lambda a: L.solve(a, a + 1),
        lambda a: L.solve_triangular(a, a + 1),
        lambda a: L.norm(a),
    ],
)
def test_derivatives_of_complex(f):
    n = 3
    x = mx.array((exact(random(n, n, dtype=mx.complex64, seed=11)) + 4 * np.diag([1, 2, 3j])).astype(np.complex64))
    check_adjoint(f, x, 0.5 * random(n, n, dtype=mx.complex64, seed=12))


def test_derivatives_of_complex_factors():
    """Of products of the factors, which do not depend on the phases of vectors."""
    a = positive(3, 3, dtype=mx.complex64, seed=3)
    t = random(3, 3, dtype=mx.complex64, seed=4)
    for upper in (False, True):
        check_adjoint(functools.partial(L.cholesky, upper=upper), a, 0.3 * t)

    def root(a):
        w, v = L.eigh(a)
        return (v * mx.sqrt(w)) @ mx.conj(v).T

    def polar(a):
        u, _, vt = L.svd(a)
        return u[:, :3] @ vt[:3]

    check_adjoint(root, a, 0.3 * t)
    for m, n in ((3, 3), (4, 3), (3, 4)):
        x = random(m, n, dtype=mx.complex64, seed=5)
        check_adjoint(polar, x, 0.3 * random(m, n, dtype=mx.complex64, seed=6))


# ---- vmap


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "f",
    [
        L.inv,
        L.det,
        L.slogdet,
        L.pinv,
        L.cholesky,
        L.qr,
        L.lu,
        L.svd,
        L.eigh,
        L.eigvalsh,
        L.eig,
        L.tri_inv,
        L.cholesky_inv,
        L.norm,
    ],
)
def test_vmap(f, axis):
    x = mx.moveaxis(positive(5, 3, 3), 0, axis)
    got = mx.vmap(f, in_axes=axis)(x)
    rows = [f(mx.take(x, mx.array(i), axis=axis)) for i in range(5)]
    for k, y in enumerate(got if isinstance(got, tuple) else (got,)):
        want = [r[k] if isinstance(r, tuple) else r for r in rows]
        np.testing.assert_allclose(exact(y), np.stack([exact(w) for w in want]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (2, 1)], ids=str)
def test_vmap_of_solve(axes):
    a = regular(3, 3) if axes[0] is None else mx.moveaxis(regular(4, 3, 3), 0, axes[0])
    b = random(3, 2) if axes[1] is None else mx.moveaxis(random(4, 3, 2), 0, axes[1])
    for f in (L.solve, L.solve_triangular):
        got = mx.vmap(f, in_axes=axes)(a, b)
        for i in range(4):
            row = [x if k is None else mx.take(x, mx.array(i), axis=k) for x, k in zip((a, b), axes)]
            np.testing.assert_allclose(exact(got[i]), exact(f(*row)), rtol=1e-9)


@pytest.mark.parametrize(
    "a",
    [
        [[1.0, 2.0], [2.0, 4.0]],
        np.zeros((3, 3)),
        np.arange(9.0).reshape(3, 3),
        [[3.0]],
        np.random.default_rng(5).standard_normal((4, 4)),
    ],
)
def test_second_derivatives_of_det_where_there_is_no_inverse(a):
    a = np.asarray(a)
    n, e = len(a), 1e-4
    x, want = mx.array(a, dtype=mx.float64), np.zeros((n,) * 4)

    def det(*steps):
        b = a.copy()
        for i, j, s in steps:
            b[i, j] += s
        return np.linalg.det(b)

    for i, j, k, m in np.ndindex(n, n, n, n):
        corners = [s * t * det((i, j, s * e), (k, m, t * e)) for s in (1, -1) for t in (1, -1)]
        want[i, j, k, m] = sum(corners) / (4 * e * e)
    got = [[np.array(mx.grad(lambda b: mx.grad(mx.linalg.det)(b)[i, j])(x)) for j in range(n)] for i in range(n)]  # noqa: B023
    np.testing.assert_allclose(got, want, atol=1e-5)
    t = np.random.default_rng(5).standard_normal((n, n))
    turned = mx.jvp(mx.grad(mx.linalg.det), [x], [mx.array(t, dtype=mx.float64)])[1][0]
    np.testing.assert_allclose(np.array(turned), (want * t).sum((2, 3)), atol=1e-5)


@pytest.mark.parametrize("part", [(mx.linalg.qr, 0), (mx.linalg.svd, 0), (mx.linalg.svd, 1), (mx.linalg.eigh, 1)])
def test_vmap_of_gradients_of_one_result_of_several(part):
    f, k = part
    a = mx.array(np.random.default_rng(5).standard_normal((3, 4, 4)), dtype=mx.float64)
    w = mx.array(np.random.default_rng(5).standard_normal((4, 4)), dtype=mx.float64)

    def gradient(x):
        return mx.grad(lambda x: (f(x @ x.T + mx.eye(4, dtype=mx.float64))[k] * w).sum())(x)

    np.testing.assert_allclose(np.array(mx.vmap(gradient)(a)), [np.array(gradient(x)) for x in a], atol=1e-9)
