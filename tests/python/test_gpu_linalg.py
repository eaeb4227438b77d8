"""Factors of small matrices on a GPU, beside NumPy in float64; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
RNG = np.random.default_rng(0)
DTYPES = ["float32", "float64", "complex64"]
# batch, size
SHAPES = [((), 1), ((70,), 2), ((33,), 3), ((5, 3), 5), ((9,), 8), ((3,), 17), ((2,), 32), ((2,), 33), ((2,), 64)]
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


def close(got, want, condition=1.0):
    """Within some units in the last place of the largest number, times what errors grow by."""
    last = 2.0**-52 if got.dtype == np.float64 else 2.0**-23
    assert got.shape == want.shape
    assert np.abs(got - want).max(initial=0) <= 16 * last * condition * max(np.abs(want).max(initial=0), 1e-30)


def worst(x):
    return np.linalg.cond(wide(x)).max()


def definite(dtype, batch, n):
    x = random(dtype, *batch, n, n)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_inverses_and_systems(dtype, shape):
    batch, n = shape
    x = random(dtype, *batch, n, n)
    close(on_gpu(linalg.inv, x)[0], np.linalg.inv(wide(x)), worst(x))
    for k in (1, 3, n, 100):
        b = random(dtype, *batch, n, k)
        close(on_gpu(linalg.solve, x, b)[0], np.linalg.solve(wide(x), wide(b)), worst(x))
    for upper in (False, True):
        t = (np.triu(x) if upper else np.tril(x)) + n * np.eye(n, dtype=dtype)
        beside = t + (np.tril(x, -1) if upper else np.triu(x, 1))  # what is not read
        b = random(dtype, *batch, n, 4)
        got = on_gpu(lambda a, b, u=upper: linalg.solve_triangular(a, b, upper=u), beside, b)[0]
        close(got, np.linalg.solve(wide(t), wide(b)), worst(t))
        got = on_gpu(lambda a, u=upper: linalg.tri_inv(a, upper=u), beside)[0]
        close(got, np.linalg.inv(wide(t)), worst(t))
        assert not (np.tril(got, -1) if upper else np.triu(got, 1)).any()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(dtype, shape):
    x = definite(dtype, *shape)
    lower = np.linalg.cholesky(wide(x))
    other = np.triu(np.full_like(x, np.nan), 1)  # what is not read
    close(on_gpu(linalg.cholesky, np.tril(x) + other)[0], lower, worst(x))
    upper = on_gpu(lambda x: linalg.cholesky(x, upper=True), np.triu(x) + np.swapaxes(other, -1, -2))[0]
    close(upper, np.conj(np.swapaxes(lower, -1, -2)), worst(x))
    close(on_gpu(linalg.cholesky_inv, lower.astype(dtype))[0], np.linalg.inv(wide(x)), worst(x) ** 2)


@pytest.mark.parametrize("sizes", [(1, 1), (3, 3), (8, 5), (5, 8), (33, 33), (64, 20), (20, 64), (64, 64)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu(dtype, sizes):
    x = random(dtype, 5, *sizes)
    places, lower, upper = on_gpu(linalg.lu, x)
    got = wide(lower) @ wide(upper)
    close(np.take_along_axis(got, places.astype(int)[..., None], -2).astype(dtype), wide(x), max(sizes))
    assert np.abs(lower).max() <= (1 if dtype != "complex64" else 2**0.5) + 1e-6
    with mx.stream(mx.cpu):  # the same exchanges
        there = [np.array(v) for v in linalg.lu_factor(mx.array(x, getattr(mx, dtype)))]
    factors, pivots = on_gpu(linalg.lu_factor, x)
    assert np.array_equal(pivots, there[1])
    close(factors, there[0], max(sizes))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants(dtype, shape):
    batch, n = shape
    x = random(dtype, *batch, n, n)
    sign, size = np.linalg.slogdet(wide(x))
    got_sign, got_size = on_gpu(linalg.slogdet, x)
    assert np.abs(got_sign - sign).max() <= 1e-4 and np.abs(got_size - size).max() <= 1e-4 * max(np.abs(size).max(), 1)
    if dtype != "complex64":
        assert np.array_equal(np.abs(got_sign), np.ones_like(got_size))
    if n <= 33:
        close(on_gpu(linalg.det, x)[0], np.linalg.det(wide(x)), 10 * n)


@pytest.mark.parametrize("n", [33, 37, 40, 47, 48, 49, 56, 63])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cholesky_by_pairs_of_warps(dtype, n):
    """What two warps hold in registers: of a batch with one that has no factor, and one that is not finite."""
    x = definite(dtype, (5,), n)
    want = np.linalg.cholesky(wide(x))
    for upper in (False, True):
        nan = np.full_like(x, np.nan)
        read = np.triu(x) + np.tril(nan, -1) if upper else np.tril(x) + np.triu(nan, 1)
        got = on_gpu(lambda x, u=upper: linalg.cholesky(x, upper=u), read)[0]
        close(np.swapaxes(got, -1, -2) if upper else got, want, 4)
        assert not (np.tril(got, -1) if upper else np.triu(got, 1)).any()
        bad = x.copy()
        bad[2, n - 1, n - 1] = np.inf
        bad[2, 0, 0] = -1  # nothing can be said of it
        y = on_gpu(lambda x, u=upper: linalg.cholesky(x, upper=u), bad)[0]
        assert np.isnan(y[2]).any() and np.array_equal(y[[0, 1, 3, 4]], got[[0, 1, 3, 4]])
        bad[3, n - 1, n - 1] = 0
        with pytest.raises(ValueError, match="matrix 3 of the batch is not positive definite"):
            on_gpu(lambda x, u=upper: linalg.cholesky(x, upper=u), bad)


LARGE = [((), 65), ((2,), 70), ((), 130)]  # what no block holds: panels of 32 columns, triangles of 64


@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_inverses_and_systems(dtype, shape):
    batch, n = shape
    x = random(dtype, *batch, n, n)
    close(on_gpu(linalg.inv, x)[0], np.linalg.inv(wide(x)), worst(x))
    for k in (1, 70):
        b = random(dtype, *batch, n, k)
        close(on_gpu(linalg.solve, x, b)[0], np.linalg.solve(wide(x), wide(b)), worst(x))
    for upper in (False, True):
        t = (np.triu(x) if upper else np.tril(x)) + n * np.eye(n, dtype=dtype)
        nan = np.full_like(x, np.nan)
        beside = t + (np.tril(nan, -1) if upper else np.triu(nan, 1))  # what is not read
        b = random(dtype, *batch, n, 3)
        got = on_gpu(lambda a, b, u=upper: linalg.solve_triangular(a, b, upper=u), beside, b)[0]
        close(got, np.linalg.solve(wide(t), wide(b)), 4)
        got = on_gpu(lambda a, u=upper: linalg.tri_inv(a, upper=u), beside)[0]
        close(got, np.linalg.inv(wide(t)), 4)
        assert not (np.tril(got, -1) if upper else np.triu(got, 1)).any()


@pytest.mark.parametrize("shape", LARGE, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_cholesky(dtype, shape):
    x = definite(dtype, *shape)
    lower = np.linalg.cholesky(wide(x))
    other = np.triu(np.full_like(x, np.nan), 1)
    got = on_gpu(linalg.cholesky, np.tril(x) + other)[0]
    close(got, lower, 4)
    upper = on_gpu(lambda x: linalg.cholesky(x, upper=True), np.triu(x) + np.swapaxes(other, -1, -2))[0]
    close(upper, np.conj(np.swapaxes(lower, -1, -2)), 4)
    assert not np.triu(got, 1).any() and not np.tril(upper, -1).any()


@pytest.mark.parametrize("sizes", [(65, 65), (70, 30), (30, 70), (130, 100)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_large_lu(dtype, sizes):
    x = random(dtype, 2, *sizes)
    x[0, :, 3] = x[0, :, 2]  # singular
    x[1, 5:9, 0] = 4  # the first of several
    places, lower, upper = on_gpu(linalg.lu, x)
    got = wide(lower) @ wide(upper)
    close(np.take_along_axis(got, places.astype(int)[..., None], -2).astype(dtype), wide(x), 4)
    assert np.abs(lower).max() <= (1 if dtype != "complex64" else 2**0.5) + 1e-6
    with mx.stream(mx.cpu):
        there = [np.array(v) for v in linalg.lu_factor(mx.array(x[1], getattr(mx, dtype)))]
    assert np.array_equal(on_gpu(linalg.lu_factor, x[1])[1], there[1])
    if sizes[0] == sizes[1]:
        sign, size = np.linalg.slogdet(wide(x[1]))
        got_sign, got_size = on_gpu(linalg.slogdet, x[1])
        least = sizes[0] * 2.0**-23 * worst(x[1]) + 1e-5
        assert abs(got_sign - sign) <= least and abs(got_size - size) <= least * abs(size)
        det = on_gpu(linalg.det, x[1] / 8)[0]
        assert abs(det - np.linalg.det(wide(x[1]) / 8)) <= 64 * least * abs(det)


def test_layouts():
    x = random("float32", 6, 4, 4)
    close(on_gpu(lambda x: linalg.inv(x.swapaxes(-1, -2)), x)[0], np.linalg.inv(wide(x).swapaxes(-1, -2)), worst(x))
    close(
        on_gpu(lambda x: linalg.inv(x[::2, 1:, :3]), x)[0], np.linalg.inv(wide(x[::2, 1:, :3])), worst(x[::2, 1:, :3])
    )
    b = random("float32", 4, 5)
    want = np.linalg.solve(wide(x), np.broadcast_to(wide(b), (6, 4, 5)))
    close(on_gpu(linalg.solve, x, b)[0], want, worst(x))
    close(on_gpu(linalg.solve, x, b[:, 0])[0], want[..., 0], worst(x))
    assert on_gpu(linalg.inv, x[:0])[0].shape == (0, 4, 4)


CALLS = {
    "inv": (linalg.inv, "an invertible matrix", "is singular"),
    "tri_inv": (linalg.tri_inv, "an invertible matrix", "is singular"),
    "solve": (lambda x: linalg.solve(x, x), "an invertible matrix", "is singular"),
    "solve_triangular": (lambda x: linalg.solve_triangular(x, x, upper=True), "an invertible matrix", "is singular"),
    "cholesky": (linalg.cholesky, "a positive definite matrix", "is not positive definite"),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("n", [2, 40, 70])
def test_what_cannot_be_done(name, n):
    f, expected, got = CALLS[name]
    batch, one, other = ((2, 7), (0, 5), (1, 1)) if n < 64 else ((2, 2), (0, 1), (1, 0))
    x = np.broadcast_to(np.eye(n, dtype=np.float32), (*batch, n, n)).copy()
    f_of = on_gpu(f, x)[0]
    x[one][1] = x[other][0] = 0
    with pytest.raises(ValueError) as e:
        on_gpu(f, x)
    assert str(e.value) == f"[linalg.{name}] expected {expected}, got: matrix ({one[0]},{one[1]}) of the batch {got}"
    with pytest.raises(ValueError, match=rf"matrix {one[1]} of the batch {got}"):
        on_gpu(f, x[0])
    x[one][1, 1] = x[other][0, 0] = np.nan  # nothing can be said of it
    x[one][0, 0] = x[other][1, 1] = 0
    y = on_gpu(f, x)[0]
    assert np.isnan(y[one]).any() and np.isnan(y[other]).any() and np.array_equal(y[0, 0], f_of[0, 0])


def test_singular_determinants_and_factors():
    x = np.zeros((3, 4, 4), np.float32)
    x[1] = np.arange(16).reshape(4, 4)
    x[2] = np.eye(4)
    det = on_gpu(linalg.det, x)[0]
    assert det[0] == 0 and abs(det[1]) < 1e-3 and det[2] == 1
    sign, size = on_gpu(linalg.slogdet, x)
    assert sign[0] == 0 and size[0] == -np.inf and sign[2] == 1 and size[2] == 0
    places, lower, upper = on_gpu(linalg.lu, x)
    close(np.take_along_axis(lower @ upper, places.astype(int)[..., None], -2), x, 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pivots_whose_inverses_overflow(dtype):
    tiny = 2.0**-1060 if dtype == "float64" else 2.0**-140
    x = (random(dtype, 9, 4, 4) * 0 + np.array([[0, 3, 1, 0], [2, 1, 0, 1], [1, 0, 5, 1], [0, 2, 1, 4]])).astype(dtype)
    x[::2] *= tiny
    x[1, :, 0] *= tiny
    places, lower, upper = on_gpu(linalg.lu, x)
    product = np.take_along_axis(lower @ upper, places.astype(int)[..., None], -2)
    assert (np.abs(product - x) <= 1e-6 * np.abs(x).max(axis=(-2, -1), keepdims=True) + 4 * tiny).all()
    b = (x @ np.array([[1], [2], [-1], [3]])).astype(dtype)
    got = on_gpu(linalg.solve, x, b)[0]
    assert np.abs(got[::2] - np.array([[1], [2], [-1], [3]])).max() < 1e-3  # of few bits
    close((x @ got)[1], b[1], 10)
    t = np.tril(x) + (tiny if dtype == "float64" else np.float32(tiny)) * np.eye(4, dtype=dtype)
    b = (t @ np.array([[1], [2], [-1], [3]])).astype(dtype)
    got = on_gpu(linalg.solve_triangular, t, b)[0]
    assert np.isfinite(got).all()
    assert np.abs((t @ got - b)[::2]).max() <= 1e-2 * np.abs(b[::2]).max()


def factors_of(x):
    """LU of a matrix in float64, with the first of the largest as the pivot, NaN below all."""
    x, pivots = wide(x).copy(), []
    for j in range(min(x.shape)):
        size = np.abs(x[j:, j])
        pivots.append(j + int(np.argmax(np.where(np.isnan(size), -1, size))))
        x[[j, pivots[-1]]] = x[[pivots[-1], j]]
        if x[j, j] != 0:
            x[j + 1 :, j] /= x[j, j]
        x[j + 1 :, j + 1 :] -= np.outer(x[j + 1 :, j], x[j, j + 1 :])
    return x, pivots


HELD = ["float32", "float64"]  # what registers hold of up to 32 rows: 4, 8, 16 or 32 lanes of a warp have a matrix each


@pytest.mark.parametrize("n", range(1, 34))
@pytest.mark.parametrize("dtype", HELD)
def test_every_size(dtype, n):
    """Of batches whose last warp, or block, has matrices for some of its lanes."""
    x = definite(dtype, (7,), n)[:, RNG.permutation(n)]
    close(on_gpu(linalg.inv, x)[0], np.linalg.inv(wide(x)), worst(x))
    d = definite(dtype, (7,), n)
    for k in (1, 3, 32, 70):
        b = random(dtype, 7, n, k)
        close(on_gpu(linalg.solve, x, b)[0], np.linalg.solve(wide(x), wide(b)), worst(x))
        for upper, t in ((False, np.tril(wide(d))), (True, np.triu(wide(d)))):
            got = on_gpu(lambda d, b, upper=upper: linalg.solve_triangular(d, b, upper=upper), d, b)[0]
            close(got, np.linalg.solve(t, wide(b)), worst(t))
    factors, pivots = on_gpu(linalg.lu_factor, x)
    for i in range(7):
        want, exchanged = factors_of(x[i])
        assert np.array_equal(pivots[i], exchanged)
        close(factors[i], want.astype(dtype), n)
    close(on_gpu(linalg.cholesky, d)[0], np.linalg.cholesky(wide(d)), worst(d))
    close(on_gpu(linalg.det, x / 8)[0], np.linalg.det(wide(x) / 8), 10 * n)


@pytest.mark.parametrize("sizes", [(4, 3), (7, 8), (9, 2), (3, 16), (17, 16), (30, 32), (32, 1), (1, 32)], ids=str)
@pytest.mark.parametrize("dtype", HELD)
def test_factors_that_are_not_square(dtype, sizes):
    x = random(dtype, 11, *sizes)
    factors, pivots = on_gpu(linalg.lu_factor, x)
    for i in range(11):
        want, exchanged = factors_of(x[i])
        assert np.array_equal(pivots[i], exchanged)
        close(factors[i], want.astype(dtype), max(sizes) * 10)
    places, lower, upper = on_gpu(linalg.lu, x)
    got = np.take_along_axis(wide(lower) @ wide(upper), places.astype(int)[..., None], -2)
    close(got.astype(dtype), wide(x), max(sizes))


@pytest.mark.parametrize("count", [1, 31, 65, 130])
@pytest.mark.parametrize("n", [4, 8, 16])
def test_batches(n, count):
    x = definite("float32", (count,), n)
    b = random("float32", count, n, 2)
    close(on_gpu(linalg.solve, x, b)[0], np.linalg.solve(wide(x), wide(b)), worst(x))
    close(on_gpu(linalg.cholesky, x)[0], np.linalg.cholesky(wide(x)), worst(x))
    close(on_gpu(linalg.det, x / n)[0], np.linalg.det(wide(x) / n), 10 * n)


@pytest.mark.parametrize("n", [2, 5, 8, 11, 16, 20, 32])
@pytest.mark.parametrize("dtype", HELD)
def test_pivots_that_are_alike(dtype, n):
    """The first of the largest in the order that rows have by then: there are two of each, or all are zeros."""
    half = (n + 1) // 2
    x = random(dtype, 6, half, n)[:, RNG.permutation(n) % half]
    x[5] = 1
    factors, pivots = on_gpu(linalg.lu_factor, x)
    for i in range(5):
        assert np.array_equal(pivots[i, : n // 2], factors_of(x[i])[1][: n // 2])
    assert np.array_equal(pivots[5], range(n)) and not factors[5, 1:, 1:].any()


@pytest.mark.parametrize("n", [3, 8, 13, 32])
@pytest.mark.parametrize("dtype", HELD)
def test_what_is_not_finite_in_one_of_a_batch(dtype, n):
    """Its results are NaN, or what comes of it; those of the others, which share a warp with it, are as without."""
    x = definite(dtype, (9,), n)
    b = random(dtype, 9, n, n + 1)
    calls = (
        linalg.inv,
        lambda x: linalg.solve(x, mx.array(b)),
        lambda x: linalg.solve(x, mx.array(b[:, :, :1])),
        lambda x: linalg.solve_triangular(x, mx.array(b)),
        linalg.cholesky,
        linalg.lu_factor,
        linalg.det,
    )
    usual = [on_gpu(f, x)[0] for f in calls]
    for value in (np.nan, np.inf, -np.inf):
        y = x.copy()
        y[4, n - 1, n // 2] = y[7, 0, 0] = value
        y[8] = 0
        y[8, 0, 0] = np.nan  # singular, but nothing is said of it
        for f, want in zip(calls, usual):
            got = on_gpu(f, y)[0]
            others = [0, 1, 2, 3, 5, 6]
            assert np.array_equal(got[others], want[others])
            assert np.isnan(got[8]).any() and (np.isnan(got[7]).any() or value == value)
    assert np.isnan(on_gpu(linalg.inv, y)[0][8]).all()
    y = x.copy()
    y[7, :, 0] = 0
    y[7, n // 2, 0] = np.nan  # below all others, which are zeros
    assert on_gpu(linalg.lu_factor, y)[1][7, 0] == 0


@pytest.mark.parametrize("n", [1, 4, 6, 16, 29, 32])
def test_singular_ones_of_a_batch(n):
    x = definite("float32", (70,), n)
    x[41, :, n - 1] = x[63, :, 0] = 0
    for k in (1, n, 40):
        with pytest.raises(ValueError, match="matrix 41 of the batch is singular"):
            on_gpu(linalg.solve, x, random("float32", 70, n, k))
    with pytest.raises(ValueError, match="matrix 41 of the batch is singular"):
        on_gpu(linalg.inv, x)
    with pytest.raises(ValueError, match="matrix 41 of the batch is not positive definite"):
        on_gpu(linalg.cholesky, x)
    sign, size = on_gpu(linalg.slogdet, x)
    assert sign[41] == 0 and size[41] == -np.inf and sign[40] == 1 and np.isfinite(size[40])
    assert on_gpu(linalg.det, x / (4 * n))[0][41] == 0


@pytest.mark.parametrize("n", [2, 7, 12, 32])
@pytest.mark.parametrize("dtype", HELD)
def test_tiny_pivots_beside_others(dtype, n):
    """They are divided by: a team of lanes does that, whatever the others of its warp do."""
    tiny = 2.0**-1060 if dtype == "float64" else 2.0**-140
    x = np.broadcast_to(np.eye(n, dtype=dtype), (9, n, n)) * 3
    x = (x + np.triu(np.ones((n, n)), 1) * 0.25).astype(dtype)
    x[2] = (x[2] * tiny).astype(dtype)
    x[5, n - 1, n - 1] = tiny
    for k in (1, 6, 40):
        b = RNG.integers(1, 5, size=(9, n, k)).astype(dtype)
        b[2] *= tiny
        b[5, n - 1] *= tiny
        want = np.linalg.solve(wide(x[[0, 1]]), wide(b[[0, 1]]))
        for f in (linalg.solve, lambda x, b: linalg.solve_triangular(x, b, upper=True)):
            got = on_gpu(f, x, b)[0]
            assert np.isfinite(got).all()
            close(got[[0, 1]], want, 10)
            close(got[5, n - 1], b[5, n - 1] / x[5, n - 1, n - 1], 1)


def test_derivatives():
    x, v = definite("float32", (3,), 4), random("float32", 3, 4, 4)
    for f in (linalg.inv, linalg.cholesky, lambda x: linalg.solve(x, x * x)):

        def pulled(x, v, f=f):
            return mx.vjp(f, [x], [v])[1][0]

        with mx.stream(mx.cpu):
            want = np.array(pulled(mx.array(x), mx.array(v)))
        close(on_gpu(pulled, x, v)[0], want, 10 * worst(x))
