"""QR factors, singular values and eigenvalues of small matrices on a GPU, beside NumPy in float64; skipped where there
is none."""

import mlx.core as mx
import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
RNG = np.random.default_rng(0)
DTYPES = ["float32", "float64", "complex64"]
# batch, rows, columns
SHAPES = [
    ((), 1, 1),
    ((70,), 2, 2),
    ((2, 3), 3, 5),
    ((33,), 5, 3),
    ((9,), 8, 8),
    ((3,), 1, 7),
    ((3,), 17, 17),
    ((2,), 40, 33),
    ((1,), 12, 64),
    ((1,), 64, 64),
]
linalg = mx.linalg


def random(dtype, *shape):
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if dtype == "complex64" else x).astype(dtype)


def on_gpu(f, *x):
    """f of NumPy arrays, as a list of such."""
    with mx.stream(mx.gpu):
        y = f(*[mx.array(v, getattr(mx, str(v.dtype))) for v in x])
        y = list(y) if isinstance(y, (tuple, list)) else [y]
        mx.eval(y)
    with mx.stream(mx.cpu):
        return [np.array(v) for v in y]


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def close(got, want, steps=16):
    """Within so many units in the last place of the largest number of each matrix."""
    last = 2.0**-52 if got.dtype == np.float64 else 2.0**-23
    assert got.shape == want.shape
    axes = tuple(range(want.ndim))[-2:]
    most = np.abs(want).max(axis=axes, keepdims=True, initial=0)
    assert (np.abs(got - want) <= steps * last * most).all()


def unit(x, steps=16):
    """Are the columns of each matrix orthogonal, of length 1?"""
    close(
        (adjoint(wide(x)) @ wide(x)).astype(x.dtype),
        np.broadcast_to(np.eye(x.shape[-1]), (*x.shape[:-2], x.shape[-1], x.shape[-1])),
        steps,
    )


LARGE = [((), 65, 65), ((2,), 100, 30), ((2,), 30, 100), ((), 130, 70), ((3,), 200, 3)]  # in panels of 32 columns


@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_qr(dtype, shape):
    batch, m, n = shape
    x = random(dtype, *batch, m, n)
    q, r = on_gpu(linalg.qr, x)
    close((wide(q) @ wide(r)).astype(dtype), wide(x), 32)
    unit(q)
    assert not np.tril(r, -1).any()
    there = np.linalg.qr(wide(x))  # LAPACK's signs
    condition = np.linalg.cond(wide(x)[..., : min(m, n)]).max()  # both factors move so much more than the matrix
    close(q, there[0], 64 * condition)
    close(r, there[1], 64 * condition)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_svd(dtype, shape):
    batch, m, n = shape
    k = min(m, n)
    x = random(dtype, *batch, m, n)
    want = np.linalg.svd(wide(x), compute_uv=False)
    for u, s, vt in (on_gpu(linalg.svd, x), on_gpu(lambda x: linalg.svd(x, full_matrices=False), x)):
        close(s[..., None], want[..., None])
        close((wide(u)[..., :k] * s[..., None, :] @ wide(vt)[..., :k, :]).astype(dtype), wide(x), 64)
        unit(u)
        unit(adjoint(vt), 32)
        assert (s[..., :-1] >= s[..., 1:]).all()
    assert vt.shape == (*batch, k, n)
    close(on_gpu(lambda x: linalg.svd(x, compute_uv=False), x)[0][..., None], want[..., None])
    inverse = np.linalg.pinv(wide(x))
    close(on_gpu(linalg.pinv, x)[0], inverse, 64 * np.linalg.cond(wide(x)).max())


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1] == s[2]], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype, shape):
    batch, n, _ = shape
    x = random(dtype, *batch, n, n)
    x += adjoint(x)
    want = np.linalg.eigvalsh(wide(x))  # whose error grows with n, as LAPACK's bounds say
    nan = np.full_like(x, np.nan)
    for part, read in (("L", np.tril(x) + np.triu(nan, 1)), ("U", np.triu(x) + np.tril(nan, -1))):
        w, v = on_gpu(lambda x, p=part: linalg.eigh(x, UPLO=p), read)
        close(w[..., None], want[..., None], max(16, n))
        close((wide(v) * w[..., None, :] @ adjoint(wide(v))).astype(dtype), wide(x), 32)
        unit(v, 32)
        assert (w[..., :-1] <= w[..., 1:]).all()
        close(on_gpu(lambda x, p=part: linalg.eigvalsh(x, UPLO=p), read)[0][..., None], want[..., None], max(16, n))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_and_sizes(dtype):
    """Nothing, few different columns, one of them, equal values, and numbers near the ends of their range."""
    x = np.zeros((8, 6, 6), dtype)
    x[1] = random(dtype, 6, 2) @ random(dtype, 2, 6)
    x[2] = random(dtype, 6, 1)
    x[3] = np.eye(6)
    far = 1e300 if dtype == "float64" else 1e37
    x[4] = random(dtype, 6, 6) * far
    x[5] = random(dtype, 6, 6) / far
    x[6] = np.diag([1, -1, 1, -1, 0, 0])
    x[7] = np.diag([1, 1e-6, 1e-12, 1e-18, 1e-24, 1e-30])
    u, s, vt = on_gpu(linalg.svd, x)
    want = np.linalg.svd(wide(x), compute_uv=False)
    close(s[..., None], want[..., None])
    unit(u)
    unit(adjoint(vt))
    close((wide(u) * s[..., None, :] @ wide(vt)).astype(dtype), wide(x), 32)
    q, r = on_gpu(linalg.qr, x)
    unit(q)
    close((wide(q) @ wide(r)).astype(dtype), wide(x), 32)
    h = x / 2 + adjoint(x / 2)
    w, v = on_gpu(linalg.eigh, h)
    close(w[..., None], np.linalg.eigvalsh(wide(h))[..., None])
    unit(v)
    close((wide(v) * w[..., None, :] @ adjoint(wide(v))).astype(dtype), wide(h), 32)
    got = on_gpu(linalg.pinv, x[:4])[0]
    close(got, np.linalg.pinv(wide(x[:4]), rcond=1e-6), 64)


def test_large_qr_of_few_ranks():
    x = np.zeros((2, 80, 70), np.float32)
    x[0] = random("float32", 80, 2) @ random("float32", 2, 70)
    x[0, :, 5] = 0
    q, r = on_gpu(linalg.qr, x)
    unit(q)
    close((wide(q) @ wide(r)).astype(np.float32), wide(x), 32)
    assert np.array_equal(q[1], np.eye(80, 70)) and not r[1].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite(bad):
    x = random("float32", 40, 3, 4)
    x[7, 2, 1] = bad
    good = np.arange(40) != 7
    for f in (
        linalg.svd,
        lambda x: linalg.svd(x, full_matrices=False),
        linalg.pinv,
        lambda x: linalg.eigh(x[:, :, :3]),
    ):
        for y, clean in zip(on_gpu(f, x), on_gpu(f, x[good]), strict=True):
            assert np.isnan(y[7]).all() and np.array_equal(y[good], clean)
    assert np.isnan(on_gpu(linalg.qr, x)[1][7]).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_of_determinants(dtype):
    """det(A) A^-T, which singular matrices have as well: products of numbers, not quotients."""
    x = random(dtype, 4, 5, 5)
    x[1, :, 0] = x[1, :, 4]
    x[2] = 0
    x[2, [0, 1, 2, 3], [1, 0, 2, 3]] = 2
    got = on_gpu(mx.grad(lambda x: mx.real(linalg.det(x)).sum()), x)[0]
    want = np.empty_like(wide(x))
    for i in range(5):
        for j in range(5):
            minor = np.delete(np.delete(wide(x), i, -2), j, -1)
            want[:, i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    close(got, np.conj(want), 64)
    nan = np.full((2, 3, 3), np.nan, dtype)
    nan[0] = np.eye(3)
    got = on_gpu(mx.grad(lambda x: mx.real(linalg.det(x)).sum()), nan)[0]
    assert np.isnan(got[1]).all() and np.isfinite(got[0]).all()


def test_layouts():
    x = random("float32", 6, 5, 4)
    for f in (linalg.qr, linalg.svd, linalg.pinv):
        for view in (
            lambda x: x.swapaxes(-1, -2),
            lambda x: x[::2, 1:, ::-1],
            lambda x: mx.broadcast_to(x[:1], x.shape),
        ):
            got = on_gpu(lambda x, f=f, view=view: f(view(x)), x)
            with mx.stream(mx.cpu):
                copy = np.array(view(mx.array(x)))
            for y, same in zip(got, on_gpu(f, copy), strict=True):
                assert np.array_equal(y, same)
    assert [y.shape for y in on_gpu(linalg.svd, x[:0])] == [(0, 5, 5), (0, 4), (0, 4, 4)]


def test_derivatives():
    x = random("float32", 3, 4, 4)
    v = random("float32", 3, 4, 4)
    calls = (
        lambda x: linalg.qr(x)[0],
        lambda x: linalg.svd(x, compute_uv=False)[..., None] * x,
        lambda x: linalg.eigh(x + x.swapaxes(-1, -2))[0][..., None] * x,
        linalg.pinv,
    )
    for f in calls:

        def pulled(x, v, f=f):
            return mx.vjp(f, [x], [v])[1][0]

        with mx.stream(mx.cpu):
            want = np.array(pulled(mx.array(x), mx.array(v)))
        got = on_gpu(pulled, x, v)[0]
        assert np.allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())
