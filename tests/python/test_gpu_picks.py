"""Products of matrices picked by index, masked by blocks or cut into segments on a GPU, against NumPy in float64;
skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu_lookups import places, said  # noqa: F401
from test_gpu_products import DIGITS, DTYPES, matrix, wide

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
INEXACT = list(DIGITS)
TURNED = {
    "row": lambda x: x,
    "turned": lambda x: mx.contiguous(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "every other": lambda x: mx.repeat(x, 2, -1)[..., ::2],
    "batch turned": lambda x: x if x.ndim < 4 else mx.contiguous(x.swapaxes(0, 1)).swapaxes(0, 1),
    "one matrix": lambda x: mx.broadcast_to(x[..., :1, :, :], x.shape) if x.ndim > 2 else x,
}


def near(got, want, dtype, terms):
    """Within what `terms` products, summed up in float32 or better, and one rounding leave."""
    assert got.dtype == dtype and got.shape == want.shape
    unit = 2.0 ** -min(DIGITS[dtype], 52) + max(terms, 8) * 2.0 ** -max(DIGITS[dtype] - 1, 23)
    assert np.allclose(wide(got), want, rtol=unit, atol=unit * np.abs(want).max(initial=1))


def gathered(a, b, lhs, rhs):
    x, y = (wide(v).reshape(int(np.prod(v.shape[:-2])), *v.shape[-2:]) for v in (a, b))
    return x[np.array(lhs)] @ y[np.array(rhs)]


def on_gpu(f, *x):
    with mx.stream(mx.gpu):
        y = f(*x)
        mx.eval(y)
    return y


# pairs, matrices on the left and right, rows, columns, depth
PAIRS = [
    (5, (4,), (3,), 7, 9, 11),
    (40, (50,), (3,), 1, 33, 24),
    (40, (2, 3), (2, 2), 3, 70, 16),
    (300, (7,), (5,), 1, 130, 72),
    (70, (9,), (2,), 66, 17, 8),
    (6, (1,), (1,), 1, 5, 1),
    (9, (), (4,), 5, 1, 40),
    (3, (2,), (2,), 4, 5, 0),
]


@pytest.mark.parametrize("pairs", PAIRS, ids=str)
@pytest.mark.parametrize("dtype", INEXACT, ids=str)
def test_gather_mm(dtype, pairs):
    n, left, right, rows, columns, depth = pairs
    a, b = matrix(dtype, *left, rows, depth), matrix(dtype, *right, depth, columns, seed=1)
    lhs, rhs = places(n, int(np.prod(left))), places(n, int(np.prod(right)), mx.int64, 2)
    want = gathered(a, b, lhs, rhs)
    near(on_gpu(mx.gather_mm, a, b, lhs, rhs), want, dtype, depth)
    order = np.argsort(np.array(rhs) % max(1, int(np.prod(right))), kind="stable")
    got = on_gpu(
        lambda *x: mx.gather_mm(*x, sorted_indices=True), a, b, lhs[mx.array(order)], rhs[mx.array(order)]
    )  # fmt: skip
    near(got, want[order], dtype, depth)


# how many pairs meet each matrix, columns, depth
GROUPS = [
    ((300, 0, 1, 800), 200, 72),
    ((300, 0, 1, 800), 130, 9),
    ((0, 0, 0, 1030), 264, 136),
    ((256, 512, 255, 1), 264, 72),
    ((129, 127, 64, 65, 320), 200, 136),
    ((70, 0, 1, 64), 264, 520),
    ((9, 40), 264, 520),
    ((9, 40), 37, 264),
    ((8000, 0, 200, 193), 72, 16),
]


@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_many_rows_of_each_matrix(groups):
    """Groups of rows that are no whole tiles, more than one, one row or none; other sizes likewise, with more columns
    where it takes as many tiles to fill the device."""
    pairs, columns, depth = groups
    columns += 0 if mx.device_info(mx.gpu)["device_name"] == "emulated" else 4096
    rhs = np.random.default_rng(1).permutation(np.repeat(np.arange(len(pairs)), pairs)).astype(np.uint32)
    lhs = places(rhs.size, 50)
    for dtype, rows, view in ((mx.bfloat16, 1, "turned"), (mx.bfloat16, 2, "row"), (mx.float16, 1, "row")):
        a, b = matrix(dtype, 50, rows, depth), TURNED[view](matrix(dtype, len(pairs), depth, columns, seed=1))
        x, y, want = wide(a)[np.array(lhs)], wide(b), np.empty((rhs.size, rows, columns))
        for k in range(len(pairs)):
            want[rhs == k] = x[rhs == k] @ y[k]
        near(on_gpu(mx.gather_mm, a, b, lhs, mx.array(rhs)), want, dtype, depth)


@pytest.mark.parametrize("right", TURNED)
@pytest.mark.parametrize("left", TURNED)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.complex64], ids=str)
def test_layouts_that_are_picked(dtype, left, right):
    for n in (2, 60):
        a, b = TURNED[left](matrix(dtype, 3, 4, 5, 16)), TURNED[right](matrix(dtype, 2, 2, 16, 72, seed=1))
        lhs, rhs = places((n, 1), 12), places((1, 2), 4, mx.uint8, 2)
        i, j = np.broadcast_arrays(np.array(lhs), np.array(rhs))
        near(on_gpu(mx.gather_mm, a, b, lhs, rhs), gathered(a, b, i, j), dtype, 16)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float64, mx.complex64], ids=str)
def test_derivatives_of_gather_mm(dtype):
    """The right one's is a sum for each matrix, of no pair for some."""
    for n, rows in ((50, 1), (3, 6), (0, 2)):
        a, b, ct = matrix(dtype, 7, rows, 20), matrix(dtype, 2, 2, 20, 33, seed=1), matrix(dtype, n, rows, 33, seed=2)
        lhs, rhs = places(n, 7), places(n, 3, mx.int32, 2)
        da, db = on_gpu(lambda a, b: mx.vjp(lambda a, b: mx.gather_mm(a, b, lhs, rhs), [a, b], [ct])[1], a, b)  # noqa: B023
        x, y, t = (wide(v).reshape(-1, *v.shape[-2:]) for v in (a, b, ct))
        want = np.zeros_like(x), np.zeros_like(y)
        for k, (i, j) in enumerate(zip(np.array(lhs), np.array(rhs))):
            want[0][i] += t[k] @ np.conj(y[j].T)
            want[1][j] += np.conj(x[i].T) @ t[k]
        near(da, want[0].reshape(a.shape), dtype, 33 * max(n, 1))
        near(db, want[1].reshape(b.shape), dtype, rows * max(n, 1))


@pytest.mark.parametrize("size", [(5, 40, 33), (70, 300, 66), (1, 90, 20), (20, 90, 1), (3, 0, 4)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_segmented_mm(dtype, size):
    m, k, n = size
    cuts = np.sort(np.random.default_rng(k).integers(0, k + 1, (2, 4, 2)), axis=-1)
    for turned in (False, True):
        a, b = matrix(dtype, m, k), matrix(dtype, k, n, seed=1)
        if turned:
            a, b = matrix(dtype, k, m).T, matrix(dtype, n, k, seed=1).T
        got = on_gpu(mx.segmented_mm, a, b, mx.array(cuts))
        x, y = wide(a), wide(b)
        want = np.array([[x[:, i:j] @ y[i:j] for i, j in row] for row in cuts])
        if dtype in DIGITS:
            near(got, want, dtype, k)
        else:
            with mx.stream(mx.cpu):
                assert mx.array_equal(got, mx.segmented_mm(a, b, mx.array(cuts)))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.float64, mx.complex64], ids=str)
def test_derivatives_of_segmented_mm(dtype):
    """With segments that overlap, and what is in none."""
    cuts = np.array([[0, 9], [5, 30], [30, 30], [12, 20]])
    a, b, ct = matrix(dtype, 6, 40), matrix(dtype, 40, 33, seed=1), matrix(dtype, 4, 6, 33, seed=2)
    da, db = on_gpu(lambda a, b: mx.vjp(lambda a, b: mx.segmented_mm(a, b, mx.array(cuts)), [a, b], [ct])[1], a, b)
    x, y, t = wide(a), wide(b), wide(ct)
    want = np.zeros_like(x), np.zeros_like(y)
    for s, (i, j) in enumerate(cuts):
        want[0][:, i:j] += t[s] @ np.conj(y[i:j].T)
        want[1][i:j] += np.conj(x[:, i:j].T) @ t[s]
    near(da, want[0], dtype, 33 * 4)
    near(db, want[1], dtype, 6 * 4)


@pytest.mark.parametrize("dtype", INEXACT, ids=str)
def test_block_masked_mm(dtype):
    a, b = matrix(dtype, 2, 70, 40), matrix(dtype, 40, 50, seed=1)
    r = np.random.default_rng(0)
    out, lhs, rhs = (r.integers(0, 2, s).astype(bool) for s in ((3, 2), (3, 2), (2, 2)))
    got = on_gpu(lambda a, b: mx.block_masked_mm(a, b, 32, mx.array(out), mx.array(lhs), mx.array(rhs)), a, b)

    def spread(mask, rows, columns):
        return np.kron(mask, np.ones((32, 32)))[:rows, :columns]

    want = (wide(a) * spread(lhs, 70, 40)) @ (wide(b) * spread(rhs, 40, 50)) * spread(out, 70, 50)
    near(got, want, dtype, 40)
    by = matrix(dtype, 3, 2, seed=3)
    got = on_gpu(lambda a, b: mx.block_masked_mm(a, b, 32, None, by, None), a, b)
    with mx.stream(mx.cpu):
        each = np.kron(wide(by), np.ones((32, 32)))[:70, :40]
        x = a * mx.array(each, mx.complex64 if dtype == mx.complex64 else mx.float64).astype(dtype)
    near(got, wide(x) @ wide(b), dtype, 40)


OUTSIDE = {
    "gather_mm": lambda i: mx.gather_mm(mx.ones((9, 2, 3)), mx.ones((9, 3, 4)), i, i[::-1]),
    "gather_mm, in order": lambda i: mx.gather_mm(mx.ones((9, 2, 3)), mx.ones((9, 3, 4)), mx.abs(i) % 9, i),
    "gather_qmm": lambda i: mx.gather_qmm(
        mx.ones((9, 2, 64)), *mx.quantize(mx.ones((9, 4, 64))), lhs_indices=i, rhs_indices=mx.abs(i) % 9
    ),
    "gradient of gather_mm": lambda i: mx.grad(lambda b: mx.gather_mm(mx.ones((9, 2, 3)), b, i, i).sum())(
        mx.ones((9, 3, 4))
    ),
    "segmented_mm": lambda i: mx.segmented_mm(mx.ones((2, 9)), mx.ones((9, 3)), i.reshape(-1, 2)),
    "gradient of segmented_mm": lambda i: mx.grad(
        lambda b: mx.segmented_mm(mx.ones((2, 9)), b, i.reshape(-1, 2)).sum()
    )(mx.ones((9, 3))),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("index", [mx.int8, mx.uint8, mx.int32, mx.uint32, mx.int64, mx.uint64], ids=str)
def test_picked_out_of_range(name, index, said):  # noqa: F811
    i = places(50, 9, index, 4, beyond=True)

    def on(device):
        with mx.stream(device):
            y = OUTSIDE[name](i)
            mx.eval(y)
            return y

    there, here = said(lambda: on(mx.cpu)), said(lambda: on(mx.gpu))
    assert there == here and len(here) == 1
    mx.set_index_errors(True)
    told = []
    for device in (mx.cpu, mx.gpu):
        with pytest.raises(IndexError) as caught:
            on(device)
        told.append(str(caught.value))
    assert told[0] == told[1]
    mx.set_index_errors(False)
    assert np.array_equal(wide(on(mx.cpu)), wide(on(mx.gpu)))


def test_picked_of_none():
    i = mx.array([3, 1])
    for device in (mx.cpu, mx.gpu):
        with mx.stream(device):
            for f in (
                lambda: mx.gather_mm(mx.ones((0, 2, 3)), mx.ones((2, 3, 4)), i, i),
                lambda: mx.gather_qmm(
                    mx.ones((0, 2, 64)), *mx.quantize(mx.ones((9, 4, 64))), lhs_indices=i, rhs_indices=i
                ),
            ):
                with pytest.raises(IndexError, match="no lhs_indices as there are no matrices, got 3 at position 0"):
                    mx.eval(f())
