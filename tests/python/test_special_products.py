"""Products of matrices picked by index, masked by blocks or cut into segments, and Hadamard's."""

import mlx.core as mx
import numpy as np
import pytest
from compare import differences, of_argument
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg


def sample(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape)


def f32(a):
    return mx.array(a.astype(np.float32))


def close(got, want, tolerance=1e-5):
    assert got.shape == want.shape
    got = np.array(got.astype(mx.float32) if got.dtype == mx.bfloat16 else got)
    assert np.abs(got - want).max(initial=0) <= tolerance * max(1, np.abs(want).max(initial=0))


def check_derivatives(f, args):
    """f, a scalar of float64 arrays, against differences; forward, and twice, against backward."""
    args = [mx.array(a, dtype=mx.float64) for a in args]
    every = list(range(len(args)))
    gradient = mx.grad(f, argnums=every) if len(args) > 1 else lambda x: (mx.grad(f)(x),)
    for i, g in enumerate(gradient(*args)):
        close(g, differences(of_argument(f, args, i), args[i], 1e-2), 1e-7)
    t = [mx.array(sample(*a.shape, seed=5), dtype=mx.float64) for a in args]

    def along(*a):
        return sum(((g * v).sum() for g, v in zip(gradient(*a), t)), mx.array(0.0, dtype=mx.float64))

    assert mx.jvp(f, args, t)[1][0].item() == pytest.approx(along(*args).item(), rel=1e-9)
    second = mx.grad(along, argnums=every)(*args) if len(args) > 1 else (mx.grad(along)(*args),)
    for i, g in enumerate(second):
        close(g, differences(of_argument(along, args, i), args[i], 1e-2), 1e-7)


def loop(f, *args):
    return np.stack([np.array(f(*(a[i] for a in args))) for i in range(args[0].shape[0])])


# gather_mm


@settings(max_examples=40)
@given(st.data())
def test_gather(data):
    of_a, of_b = (data.draw(st.lists(st.integers(1, 3), max_size=2)) for _ in range(2))
    m, k, n = (data.draw(st.integers(0 if i < 2 else 1, 5)) for i in range(3))
    a, b = sample(*of_a, m, k), sample(*of_b, k, n, seed=1)
    count = [int(np.prod(s)) for s in (of_a, of_b)]
    shape = data.draw(st.lists(st.integers(0, 4), max_size=2))
    size = int(np.prod(shape))
    lhs, rhs = (
        np.array(data.draw(st.lists(st.integers(-c, c - 1), min_size=size, max_size=size)), int).reshape(shape)
        for c in count
    )  # fmt: skip
    want = a.reshape(count[0], m, k)[lhs] @ b.reshape(count[1], k, n)[rhs]
    close(mx.gather_mm(f32(a), f32(b), mx.array(lhs), mx.array(rhs)), want)
    turned = f32(np.ascontiguousarray(np.swapaxes(b, -1, -2))).swapaxes(-1, -2)
    close(mx.gather_mm(f32(a), turned, mx.array(lhs), mx.array(rhs), sorted_indices=False), want)


def test_gather_forms():
    a, b = sample(6, 3, 4), sample(5, 4, 2, seed=1)
    close(mx.gather_mm(f32(a[:5]), f32(b)), a[:5] @ b)
    i = np.array([0, 1, 2, 4])
    close(mx.gather_mm(f32(a), f32(b), mx.array(i)[:, None], mx.array(i.astype(np.uint8))), a[i][:, None] @ b[i][None])
    close(mx.gather_mm(f32(a[0, 0]), f32(b), None, mx.array(i)), a[0, 0] @ b[i])
    close(mx.gather_mm(f32(a), f32(b[0, :, 0]), mx.array(i), mx.array(0)), a[i] @ b[0, :, 0])
    for dtype, tolerance in (("float16", 2e-3), ("bfloat16", 2e-2), ("float64", 1e-12), ("complex64", 1e-5)):
        t = getattr(mx, dtype)
        x, y = mx.array(a, dtype=mx.float64).astype(t), mx.array(b, dtype=mx.float64).astype(t)
        got = mx.gather_mm(x, y, mx.array(i), mx.array(i[::-1]))
        assert got.dtype == t
        close(got, a[i] @ b[i[::-1]], tolerance)
    whole = mx.gather_mm(mx.arange(24).reshape(2, 3, 4), mx.arange(24).reshape(2, 4, 3), mx.array([1]), mx.array([0]))
    assert np.array_equal(whole[0], np.arange(24).reshape(2, 3, 4)[1] @ np.arange(24).reshape(2, 4, 3)[0])


def test_gather_mm_of_a_few_of_many():
    """Far more matrices than products, which are found in another way; without elements as many as an int holds."""
    r = np.random.default_rng(5)
    b, a = r.standard_normal((100_000, 2, 3)), r.standard_normal((6, 4, 2))
    at = np.array([99_999, 7, 7, 0, 99_999, 50_000], np.uint32)
    close(mx.gather_mm(f32(a), f32(b), None, mx.array(at)), a @ b[at])
    slope = mx.grad(lambda b: mx.gather_mm(f32(a), b, None, mx.array(at)).sum())(f32(b))
    want = np.zeros_like(b)
    np.add.at(want, at, np.swapaxes(a, 1, 2) @ np.ones((6, 4, 3)))
    close(slope, want)
    many = mx.zeros((2**31 - 1, 0, 3))
    np.testing.assert_array_equal(mx.gather_mm(mx.zeros((2, 4, 0)), many, None, mx.array([5, 2**31 - 2])), 0)
    empty = mx.grad(lambda b: mx.gather_mm(mx.zeros((2, 4, 0)), b, None, mx.array([5, 2**31 - 2])).sum())(many)
    mx.eval(empty)
    assert empty.shape == many.shape


def test_gather_many_rows():
    """Rows that meet one matrix are multiplied together, and come back to their places."""
    rng = np.random.default_rng(0)
    x, w, expert = sample(500, 1, 24), sample(4, 24, 40, seed=1), rng.integers(0, 4, 500)
    close(mx.gather_mm(f32(x), f32(w), rhs_indices=mx.array(expert)), x @ w[expert])
    expert.sort()
    close(mx.gather_mm(f32(x), f32(w), rhs_indices=mx.array(expert), sorted_indices=True), x @ w[expert])


def test_gather_derivatives():
    lhs, rhs, weights = mx.array([0, 1, 1, 0]), mx.array([2, 0, 2, 2]), mx.array(sample(4, 2, 3), dtype=mx.float64)
    check_derivatives(lambda a, b: (mx.gather_mm(a, b, lhs, rhs) * weights).sum(), [sample(2, 2, 2), sample(3, 2, 3)])
    z, w = (mx.array((sample(2, 2, 2) + 1j * sample(2, 2, 2, seed=i)).astype(np.complex64)) for i in (1, 2))

    def f(z, w):
        return mx.real(mx.gather_mm(z, w, mx.array([1, 0]), mx.array([0, 0]))).sum()

    def g(z, w):
        return mx.real(z[mx.array([1, 0])] @ w[mx.array([0, 0])]).sum()

    for got, want in zip(mx.grad(f, argnums=(0, 1))(z, w), mx.grad(g, argnums=(0, 1))(z, w)):
        close(got, np.array(want))


def test_gather_vmap(index_errors):
    a, b = f32(sample(3, 4, 2, 5)), f32(sample(3, 2, 5, 3))
    i = mx.array([[0, 3], [1, -1], [2, 2]])

    def f(a, b, i):
        return mx.gather_mm(a, b, i, mx.array([1, 0]))

    close(mx.vmap(f)(a, b, i), loop(f, a, b, i))
    close(mx.vmap(f, in_axes=(1, None, None))(a, b[0], i[1]), loop(lambda a: f(a, b[0], i[1]), a.swapaxes(0, 1)))
    close(mx.vmap(f, in_axes=(None, 0, None))(a[0], b, i[0]), loop(lambda b: f(a[0], b, i[0]), b))
    close(mx.vmap(f, in_axes=(None, None, 0))(a[0], b[0], i), loop(lambda i: f(a[0], b[0], i), i))
    weights = f32(sample(3, 2, 2, 3))

    def d(a, b, i, w):
        return mx.grad(lambda a, b: (f(a, b, i) * w).sum(), argnums=(0, 1))(a, b)

    for k in range(2):
        close(mx.vmap(lambda *v, k=k: d(*v)[k])(a, b, i, weights), loop(lambda *v, k=k: d(*v)[k], a, b, i, weights))
    with pytest.raises(IndexError):
        mx.eval(mx.vmap(f)(a, b, mx.array([[0, 4], [0, 0], [0, 0]])))


# segmented_mm


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(0, 9), st.integers(1, 5), st.data())
def test_segments(m, k, n, data):
    a, b = sample(m, k), sample(k, n, seed=1)
    cuts = data.draw(st.lists(st.tuples(st.integers(0, k), st.integers(0, k)).map(sorted), max_size=4))
    segments = np.array(cuts, int).reshape(-1, 2)
    want = np.array([a[:, i:j] @ b[i:j] for i, j in cuts]).reshape(-1, m, n)
    close(mx.segmented_mm(f32(a), f32(b), mx.array(segments)), want)
    close(mx.segmented_mm(f32(a.T.copy()).T, f32(b), mx.array(segments[None].astype(np.uint32))), want[None])


def test_segment_derivatives():
    weights = mx.array(sample(3, 2, 3), dtype=mx.float64)
    for cuts in ([[0, 2], [2, 5], [5, 5]], [[0, 4], [2, 5], [1, 3]]):
        check_derivatives(
            lambda a, b, c=cuts: (mx.segmented_mm(a, b, mx.array(c)) * weights).sum(), [sample(2, 5), sample(5, 3)]
        )
    cuts = mx.array([[0, 2], [2, 4]])
    z, w = (mx.array((sample(2, *s) + 1j * sample(2, *s, seed=1)).astype(np.complex64)) for s in ((3, 4), (4, 3)))

    def f(z, w):
        return mx.real(mx.segmented_mm(z, w, cuts)).sum()

    def g(z, w):
        return mx.real(z[:, :4] @ w[:4]).sum()

    for got, want in zip(mx.grad(f, argnums=(0, 1))(z[0], w[0]), mx.grad(g, argnums=(0, 1))(z[0], w[0])):
        close(got, np.array(want))


def test_segments_vmap():
    a, b, cuts = (
        f32(sample(3, 2, 5)),
        f32(sample(3, 5, 4)),
        mx.array([[[0, 2], [1, 5]], [[0, 0], [2, 3]], [[3, 5], [0, 5]]]),
    )
    close(mx.vmap(mx.segmented_mm)(a, b, cuts), loop(mx.segmented_mm, a, b, cuts))

    def f(a):
        return mx.grad(lambda a: (mx.segmented_mm(a, b[0], cuts[0]) ** 2).sum())(a)

    close(mx.vmap(f)(a), loop(f, a))


# block_masked_mm


def spread(mask, size, shape):
    return np.repeat(np.repeat(mask, size, -2), size, -1)[..., : shape[-2], : shape[-1]]


@settings(max_examples=30)
@given(
    st.integers(1, 70), st.integers(1, 70), st.integers(1, 70), st.sampled_from([16, 32, 64]), st.booleans(), st.data()
)
def test_masks(m, k, n, size, boolean, data):
    a, b = sample(m, k), sample(k, n, seed=1)
    blocks = [-(-v // size) for v in (m, k, n)]
    masks = [sample(blocks[i], blocks[j], seed=2) for i, j in ((0, 2), (0, 1), (1, 2))]
    if boolean:
        masks = [v > 0 for v in masks]
    masks = [v if data.draw(st.booleans()) else None for v in masks]
    out, left, right = (1 if v is None else spread(v, size, s) for v, s in zip(masks, ((m, n), (m, k), (k, n))))
    given_ = [None if v is None else mx.array(v) if boolean else f32(v) for v in masks]
    close(mx.block_masked_mm(f32(a), f32(b), size, *given_), out * ((left * a) @ (right * b)))


def test_masked_derivatives():
    args = [sample(3, 5), sample(5, 4), sample(2, 2), sample(2, 3), sample(3, 2)]
    weights = mx.array(sample(3, 4, seed=9), dtype=mx.float64)
    check_derivatives(lambda a, b, o, l, r: (mx.block_masked_mm(a, b, 2, o, l, r) * weights).sum(), args)
    bad = np.array([[np.nan, 1.0]])
    got = mx.block_masked_mm(f32(bad), f32(np.ones((2, 2))), 1, None, mx.array([[False, True]]))
    assert got.tolist() == [[1, 1]]
    x = f32(sample(3, 2, 70, 40))
    y = mx.vmap(lambda x: mx.block_masked_mm(x, x.swapaxes(-1, -2), 32, None, mx.array([[True, False]] * 3)))(x)
    z = np.array(x)
    close(y, (z * (np.arange(40) < 32)) @ np.swapaxes(z, -1, -2))


# hadamard_transform


def matrix(n):
    return np.array(mx.hadamard_transform(mx.eye(n), 1.0)).T


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 64, 512])
def test_sylvester(n):
    np.testing.assert_array_equal(matrix(n), linalg.hadamard(n))


@pytest.mark.parametrize("n", [12, 20, 28, 24, 40, 56, 12 * 16, 28 * 8])
def test_orthogonal(n):
    h = matrix(n)
    assert np.all(np.abs(h) == 1)
    np.testing.assert_array_equal(h @ h.T, n * np.eye(n))
    odd = {3: 12, 5: 20, 7: 28}[n // (n & -n)]
    np.testing.assert_array_equal(h, np.kron(matrix(odd), linalg.hadamard(n // odd)))


def test_first_rows():
    rows = {12: "+-++++++++++", 20: "+----+----++--++-++-", 28: "+------++----++-+--+-+--++--"}
    for n, row in rows.items():
        assert "".join("+" if v > 0 else "-" for v in matrix(n)[0]) == row
        assert "".join("+" if v > 0 else "-" for v in matrix(n)[1]) == {
            12: "--+-+-+-+-+-", 20: "-+----+---+++---+-++", 28: "-+-----+++-----+-+--+-+--++-"}[n]  # fmt: skip


@pytest.mark.parametrize(
    "dtype,tolerance", [("float32", 1e-6), ("float16", 2e-3), ("bfloat16", 2e-2), ("float64", 1e-14), ("int32", 1e-6)]
)
def test_hadamard(dtype, tolerance):
    for n in (1, 6 * 4, 256, 40):
        x = mx.array(sample(2, 3, n) * 4, dtype=mx.float64).astype(getattr(mx, dtype))
        want = np.array(x.astype(mx.float64)) @ matrix(n).T
        got = mx.hadamard_transform(x)
        assert got.dtype == (mx.float32 if dtype == "int32" else x.dtype)
        close(got, want / np.sqrt(n), tolerance)
        close(mx.hadamard_transform(mx.moveaxis(x, 0, 1), scale=0.5), 0.5 * np.moveaxis(want, 0, 1), tolerance)
    assert mx.hadamard_transform(mx.array(3.0), 2.0).item() == 6


def test_large_hadamard():
    x = sample(1, 1 << 15)
    got = np.array(mx.hadamard_transform(f32(x)))
    np.testing.assert_allclose(np.array(mx.hadamard_transform(mx.array(got))), x, atol=1e-5)


def test_hadamard_derivatives():
    for n in (4, 12, 20):
        weights = mx.array(sample(2, n, seed=9), dtype=mx.float64)
        check_derivatives(lambda x, w=weights: (mx.hadamard_transform(x, 0.3) ** 2 * w).sum(), [sample(2, n)])
    x = f32(sample(3, 20, 2))
    close(mx.vmap(mx.hadamard_transform, in_axes=2)(x), loop(mx.hadamard_transform, mx.moveaxis(x, 2, 0)))


def test_errors(index_errors):
    a, b = mx.zeros((4, 3, 2)), mx.zeros((5, 2, 3))
    m, n = mx.zeros((4, 6)), mx.zeros((6, 5))
    cases = [
        (ValueError, lambda: mx.gather_mm(a, b[:, :1]), "shapes"),
        (ValueError, lambda: mx.gather_mm(a, b), "broadcast|cannot"),
        (ValueError, lambda: mx.gather_mm(a, b, mx.array([0.0])), "integers as lhs_indices, got float32"),
        (ValueError, lambda: mx.gather_mm(mx.array(1.0), b), "at least one dimension"),
        (
            IndexError,
            lambda: mx.gather_mm(a, b, mx.array([0, 4]), mx.array([0, 1])),
            "lhs_indices from -4 to 3.*got 4 at position 1",
        ),
        (IndexError, lambda: mx.gather_mm(a, b, mx.array([0, 1]), mx.array([0, -6])), "got -6 at position 1"),
        (ValueError, lambda: mx.segmented_mm(m, m, mx.array([[0, 1]])), "shapes"),
        (ValueError, lambda: mx.segmented_mm(a, b, mx.array([[0, 1]])), "two matrices"),
        (ValueError, lambda: mx.segmented_mm(m, n, mx.array([[0, 1, 2]])), r"\(\.\.\., 2\)"),
        (ValueError, lambda: mx.segmented_mm(m, n, mx.array([[0.0, 1]])), "integers"),
        (IndexError, lambda: mx.segmented_mm(m, n, mx.array([[0, 6], [0, 7]])), r"got \(0, 7\) at position 1"),
        (IndexError, lambda: mx.segmented_mm(m, n, mx.array([[3, 2]])), r"got \(3, 2\)"),
        (IndexError, lambda: mx.segmented_mm(m, n, mx.array([[-1, 2]])), r"got \(-1, 2\)"),
        (ValueError, lambda: mx.block_masked_mm(m, n, 0), "positive block size"),
        (ValueError, lambda: mx.block_masked_mm(m, n, 4, mx.ones((2, 2))), r"mask_out of shape \(\.\.\., 1, 2\)"),
        (ValueError, lambda: mx.block_masked_mm(m.astype(mx.int32), n.astype(mx.int32)), "int32"),
        (ValueError, lambda: mx.hadamard_transform(mx.zeros((2, 6))), r"m \* 2\*\*k"),
        (ValueError, lambda: mx.hadamard_transform(mx.zeros((2, 0))), r"m \* 2\*\*k"),
        (ValueError, lambda: mx.hadamard_transform(mx.zeros((2, 2), mx.complex64)), "complex64"),
    ]
    for kind, f, message in cases:
        with pytest.raises(kind, match=message):
            mx.eval(f())


def test_indices_of_no_matrices():
    some, none, no_index = mx.ones((3, 2, 2)), mx.ones((0, 2, 2)), mx.zeros(0, mx.int32)
    assert mx.gather_mm(some, none, no_index, no_index).shape == (0, 2, 2)
    for a, b, side in [(none, some, "lhs"), (some, none, "rhs")]:
        with pytest.raises(mx.ArrayIndexError, match=f"expected no {side}_indices as there are no matrices, got 2 at"):
            mx.eval(mx.gather_mm(a, b, mx.array([2]), mx.array([2])))
