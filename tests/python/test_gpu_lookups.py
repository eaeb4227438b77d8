"""Arrays of indices on a GPU, each operation beside the same on the CPU; skipped where there is none."""

import os
import subprocess
import sys
import warnings

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import INTEGERS, same
from test_gpu_moves import DTYPES, LAYOUTS, WIDTHS, grid
from test_gpu_reductions import close

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]


def places(shape, n, dtype=mx.int32, seed=1, beyond=False):
    """Indices into an axis of size n, from both ends where the type has negative numbers; beyond: some in none."""
    r = np.random.default_rng(seed)
    info = np.iinfo(str(dtype).split(".")[-1])
    i = r.integers(max(info.min, -n), min(info.max, n - 1) + 1, shape).astype(info.dtype)
    if beyond:
        far = r.choice(np.array([info.min, info.max, max(info.min, -n - 1), min(info.max, n)], info.dtype), shape)
        i = np.where(r.random(shape) < 0.3, far, i)
    with mx.stream(mx.cpu):
        return mx.array(i)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("index", INTEGERS, ids=str)
def test_take_and_take_along_axis(dtype, index):
    x = grid(dtype, 5, 40, 70)
    for axis in range(3):
        i = places((6, 7), x.shape[axis], index)
        same(lambda x, i: mx.take(x, i, axis), x, i)  # noqa: B023
        each = places(tuple(9 if k == axis else n for k, n in enumerate(x.shape)), x.shape[axis], index, 2)
        same(lambda x, i: mx.take_along_axis(x, i, axis), x, each)  # noqa: B023
        same(lambda x, i: mx.take_along_axis(x, i[:1], axis), x, each)  # noqa: B023
        same(lambda x, i: mx.take_along_axis(x, i[..., :1], axis), x, each)  # noqa: B023
    same(lambda x, i: mx.take(x, i), x, places(1001, 128, index, 3))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_layouts_that_are_read(layout, dtype):
    x = LAYOUTS[layout](grid(dtype, 5, 40, 70))
    if x.ndim > 8:  # more than kernels know
        return
    for axis in range(x.ndim):
        if x.shape[axis]:
            same(lambda x, i: mx.take(x, i, axis), x, places((3, 5), x.shape[axis]))  # noqa: B023
            same(lambda x, i: mx.take_along_axis(x, i, axis), x, places(x.shape, x.shape[axis]))  # noqa: B023


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_indices(layout):
    i = LAYOUTS[layout](places((5, 40, 70), 33, mx.int64))
    same(lambda x, i: mx.take(x, i, 1), grid(mx.bfloat16, 2, 33, 6), i)
    same(lambda x, i: x[i, i // 2], grid(mx.float32, 33, 33), i)
    if i.ndim == 3:
        same(lambda x, i: mx.take_along_axis(x, i, 1), grid(mx.float32, i.shape[0], 33, i.shape[2]), i)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 16, 31, 64, 100, 512, 1000, 1024, 4097, 20000])
def test_rows_of_any_length(width):
    for dtype in WIDTHS:
        x = grid(dtype, 9, width)
        same(lambda x, i: x[i], x, places((4, 11), 9))
        same(lambda x, i: x[1:, 1:][i], x, places(30, 8))
        same(lambda x, i: x[:, ::-1][i], x, places(30, 9))
    same(lambda x, i: x[i], grid(mx.float32, 2, width), places(1, 2))


@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_several_index_arrays(dtype):
    x = grid(dtype, 6, 7, 8, 9)
    i, j, k = places((5, 1), 6), places(4, 7, mx.uint8), places((5, 4), 8, mx.int64)
    same(lambda x, i, j: x[i, j], x, i, j)
    same(lambda x, i, j: x[i, :, j % 8, 2:7], x, i, j)
    same(lambda x, i, j, k: x[i, j, k], x, i, j, k)
    same(lambda x, i, j, k: x[i, j, k, i], x, i, j, k)
    same(lambda x, i, j, k: x[None, i, :, k, ::2, None], x, i, j, k)
    same(lambda x, i: x[i[:0]], x, i)


def put(x, i, u, fold):
    if fold != "set":
        return getattr(x.at[i], fold)(u)
    y = x * 1
    y[i] = u
    return y


FOLDS = ["set", "add", "multiply", "maximum", "minimum"]


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_updates_that_meet(dtype, fold):
    """They come one after the other, so sums of floats are those of the CPU."""
    x, u = grid(dtype, 40, 16), grid(dtype, 300, 16)[::-1]
    same(lambda x, u, i: put(x, i, u, fold), x, u, places(300, 40))
    same(lambda x, u, i: put(x, i, u[:, 3:4], fold), x, u, places(300, 40, mx.uint8))
    same(lambda x, u, i: put(x, i, u[:, 1], fold), x[:, 2], u, places(300, 40, mx.int64))
    same(lambda x, u, i, j: put(x, (i, j), u[:, 0], fold), x, u, places(300, 40), places(300, 16))
    same(lambda x, u, i: put(x, (slice(None, None, 3), i), u[:14, :9], fold), x, u, places(9, 16))
    same(lambda x, u: put(x, mx.array([[3], [1], [3]]), u[:3, None], fold), x, u)
    same(lambda x, u: put(x, mx.array([7]), u[:1], fold), x, u)


@pytest.mark.parametrize("n", [1, 2, 255, 2048, 2049, 4096, 4097, 50_000])
@pytest.mark.parametrize("places_of", [1, 2, 16, 17, 1000, 70_000])
def test_many_updates_in_order(n, places_of):
    r = np.random.default_rng(n)
    i = mx.array(r.integers(0, places_of, n))
    u = mx.array(r.standard_normal(n).astype(np.float32))
    x = mx.array(np.zeros(places_of, np.float32))
    same(lambda x, i, u: put(x, i, u, "set"), x, i, u)
    if n <= 1024 or (n <= 8192 and places_of > 1536):
        same(lambda x, i, u: put(x, i, u, "add"), x, i, u)
    elif places_of > 1536:  # as they come
        close(lambda x, i, u: put(x, i, u, "add"), x, i, u)


@pytest.mark.parametrize("width", [1, 3, 4, 8, 31, 64, 1000, 1024, 4097])
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_rows_that_are_updated(dtype, width):
    x, u, i = grid(dtype, 30, width), grid(dtype, 70, width), places(70, 30)
    same(lambda x, i, u: put(x, i, u, "add"), x, i, u)
    same(lambda x, i, u: put(x, i, u[::-1, ::-1], "set"), x, i, u)
    same(lambda x, i, u: put(x[:, 1:], i, u[:, 1:], "add"), x, i, u)
    same(lambda x, i, u: put(x.T, (slice(None), i), u.T, "add"), x, i, u)


@pytest.mark.parametrize("index", INTEGERS, ids=str)
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_put_along_axis(dtype, index):
    x = grid(dtype, 5, 40, 70)
    for axis in range(3):
        i = places(tuple(19 if k == axis else n for k, n in enumerate(x.shape)), x.shape[axis], index)
        same(lambda x, i: mx.put_along_axis(x, i, mx.take_along_axis(x, i, axis)[::-1], axis), x, i)  # noqa: B023
        same(lambda x, i: mx.put_along_axis(x, i, x[1, 2, 3], axis), x, i)  # noqa: B023
        same(lambda x, i: mx.put_along_axis(x[::-1], i[..., :1], x[1, 2, 3], axis), x, i)  # noqa: B023


@pytest.mark.parametrize("index", [mx.int32, mx.uint8, mx.int64], ids=str)
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_put_along_rows(dtype, index):
    """Each row of places is one block's where there are many and updates are not few; of a place the last one stays."""
    x, u = grid(dtype, 301, 67), grid(dtype, 301, 203)[::-1]
    for n in (33, 203):
        i = places((301, n), 67, index)
        same(lambda x, i, u: mx.put_along_axis(x, i, u[:, :n], 1), x, i, u)  # noqa: B023
        same(lambda x, i, u: mx.put_along_axis(x, i, u[:, ::-1][:, :n], -1), x, i, u)  # noqa: B023
        same(lambda x, i, u: mx.put_along_axis(x.T, i.T, u[:, :n].T, 0), x, i, u)  # noqa: B023
        same(lambda x, i, u: mx.put_along_axis(x[::-1, ::2], i // 2, u[5, 5], 1), x, i, u)
        same(lambda x, i: mx.put_along_axis(x, mx.broadcast_to(i[:1], i.shape), x[:1, 3], 1), x, i)
        deep = x[:300].reshape(2, 150, 67)
        same(lambda x, i: mx.put_along_axis(x, i[:150][None], x[1, 2, 3], 2), deep, i)
        same(lambda x, i, u: mx.put_along_axis(x * 1, i, u[:, :n], 1), x, i, u)  # noqa: B023


def test_put_along_rows_beside_a_loop():
    r = np.random.default_rng(5)
    for rows, width, n in [(160, 1, 70), (256, 12_288, 3300), (160, 12_289, 3300), (2, 20_000, 20_000)]:
        x, u = (r.integers(-(2**15), 2**15, (rows, k), np.int16) for k in (width, n))
        i = r.integers(-width, width, (rows, n))
        want = x.copy()
        for k in range(n):
            want[np.arange(rows), i[:, k]] = u[:, k]
        with mx.stream(mx.gpu):
            y = mx.put_along_axis(mx.array(x), mx.array(i), mx.array(u), 1)
            assert np.array_equal(np.array(y), want)


def test_rows_with_places_out_of_range(said):
    x, u = grid(mx.float32, 200, 64), grid(mx.float32, 200, 70)
    i = np.random.default_rng(6).integers(-64, 64, (200, 70))
    i[[17, 60, 199], [9, 0, 69]] = 64, -65, 2**40
    i = mx.array(i)

    def on(device):
        with mx.stream(device):
            return mx.put_along_axis(x, i, u, 1)

    there, here = said(lambda: on(mx.cpu)), said(lambda: on(mx.gpu))
    assert there == here and len(here) == 1 and "(17, 9)" in here[0]
    same(lambda x, i, u: mx.put_along_axis(x, i, u, 1), x, i, u)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_that_are_updated(layout):
    x, u = grid(mx.float32, 5, 40, 70), grid(mx.float32, 5, 40, 70)[::-1]
    view = LAYOUTS[layout]
    if 0 < view(x).ndim <= 8 and view(x).size:
        i = places(11, view(x).shape[0])
        same(lambda x, u: put(view(x), i, mx.repeat(view(u)[:1], 11, axis=0), "add"), x, u)
        same(lambda x, u: put(view(x), i, view(u)[:1], "maximum"), x, u)
    i = LAYOUTS[layout](places((5, 40, 70), 33))
    with mx.stream(mx.cpu):  # whose sums are exact in any order
        x, u = (mx.clip(mx.round(v), -9, 9) for v in (x, u))
        mx.eval(x, u)
    same(lambda x, u: put(x[0, :33, 0], i, view(u), "add"), x, u)


@pytest.mark.parametrize("fold", FOLDS[1:])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_slices_that_are_updated(dtype, fold):
    x, u = grid(dtype, 9, 10, 16), grid(dtype, 9, 10, 16)[::-1]
    for place in (
        np.s_[2:5],
        np.s_[::-4],
        np.s_[:3, 1::3],
        np.s_[1:2, :, ::-5],
        np.s_[0:0],
        np.s_[:],
        np.s_[:, :, 4:12],
    ):
        same(lambda x, u: put(x, place, u[tuple(slice(0, n) for n in x[place].shape)], fold), x, u)  # noqa: B023


STARTS = [[0, 0], [3, 2], [-4, -12], [-9, 5], [8, 0], [1, 100], [-100, 3]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("index", [mx.int8, mx.int32, mx.int64, mx.uint8, mx.uint64], ids=str)
def test_slices_at_a_corner(dtype, index):
    x = grid(dtype, 9, 10, 16)
    for start in STARTS:
        at = mx.array(np.array(start).astype(str(index).split(".")[-1]))
        same(lambda x, k: mx.slice(x, k, (0, 2), (5, 10, 4)), x, at)
        same(lambda x, k: mx.slice(x.T, k[::-1], (1, 2), (16, 3, 4)), x, at)
        same(lambda x, k: mx.slice(x, k[:1], (0,), (9, 10, 16)), x, at)
        same(lambda x, k: mx.slice(x, k, (2, 1), (9, 0, 16)), x, at)
        same(lambda x, k: mx.slice_update(x, x[:5, ::-1, 3:7], k, (0, 2)), x, at)
        same(lambda x, k: mx.slice_update(x[::-1], x[1, 2, 3], k[:1], (1,)), x, at)
        same(lambda x, k: mx.slice_update(x[..., :8], x[:3, :, 8:], k[::-1], (2, 0)), x, at)


def test_slices_that_overlap():
    """Of several places at a time, as windows are put together."""
    x, i = grid(mx.float32, 50), places((30, 1), 44)
    u = grid(mx.float32, 30, 7)
    f = lambda x, i: mx.vmap(lambda k: mx.slice(x, k, (0,), (7,)))(i)  # noqa: E731
    same(lambda x, i, u: mx.vjp(lambda x: f(x, i), [x], [u])[1][0], x, i, u)


def test_an_update_leaves_what_others_hold():
    x, u = grid(mx.float32, 64, 64), grid(mx.float32, 3, 64)
    before = np.array(x)
    with mx.stream(mx.gpu):
        y = x * 1
        z = y[:]
        mx.eval(y, z)
        y[mx.array([3, 5, 3])] = u
        mx.eval(y)
        for _ in range(4):  # a chain that nobody else holds
            y = y.at[mx.array([1, 1, 2])].add(u)
            mx.eval(y)
        own = mx.array([2, 0, 1, 2])
        assert own.at[own].add(own).tolist() == [2, 1, 5, 2]
    assert np.array_equal(np.array(x), before) and np.array_equal(np.array(z), before)
    want, u = before.copy(), np.array(u)
    want[3], want[5] = u[2], u[1]
    for _ in range(4):
        want[1] = (want[1] + u[0]) + u[1]
        want[2] += u[2]
    assert np.array_equal(np.array(y), want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_searchsorted(dtype):
    with mx.stream(mx.cpu):
        x, v = mx.sort(grid(dtype, 1001)), grid(dtype, 70, 41)
        rows = mx.sort(grid(dtype, 9, 30), axis=-1)
        mx.eval(x, v, rows)
    for side in ("left", "right"):
        same(lambda x, v: mx.searchsorted(x, v, side=side), x, v)  # noqa: B023
        same(lambda x, v: mx.searchsorted(x[::3], v.T, side=side), x, v)  # noqa: B023
        same(lambda x, v: mx.searchsorted(x[:0], v, side=side), x, v)  # noqa: B023
        same(lambda x, v: mx.searchsorted(x, v[:0], side=side), x, v)  # noqa: B023
        same(lambda x, v: mx.vmap(lambda x, v: mx.searchsorted(x, v, side=side))(x, v[:9]), rows, v)  # noqa: B023


@pytest.mark.parametrize("n, size", [(300_000, 70_000), (9000, 3), (5000, 300), (4097, 1)])
def test_many_updates_of_single_elements(n, size):
    """More than one block puts in order, some in runs that are longer than what a block has."""
    r = np.random.default_rng(n)
    i, u = r.integers(0, size, n), r.integers(-9, 9, n)
    x = r.integers(-9, 9, size)
    want = {"add": x.astype(np.int64), "set": x.copy(), "maximum": x.copy()}
    np.add.at(want["add"], i, u)
    np.maximum.at(want["maximum"], i, u)
    want["set"][i] = u  # the last one stays
    for dtype in (mx.int32, mx.float32, mx.float64):
        with mx.stream(mx.gpu):
            for name, expected in want.items():
                got = put(mx.array(x).astype(dtype), mx.array(i), mx.array(u).astype(dtype), name)
                with mx.stream(mx.cpu):
                    assert np.array_equal(np.array(got.astype(mx.float64)), expected)


@pytest.mark.parametrize("n, size", [(1025, 1), (2048, 1536), (2049, 1536), (3000, 7), (8192, 1024), (50_001, 256)])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.uint32], ids=str)
@pytest.mark.filterwarnings("ignore:.*out of range")
def test_many_updates_added_to_few_places(dtype, n, size):
    """All sums are exact in float32; those of half types are rounded once. Some places have none, and keep -0."""
    r = np.random.default_rng(n)
    whole = dtype in (mx.int32, mx.uint32)
    some = r.integers(0, size, n) // 2 * 2
    x, u = ((r.integers(0, 7, k) - 3 * (dtype != mx.uint32)) * (1 if whole else 0.375) for k in (size, n))
    x[1::2] = 0 if whole else -0.0
    for i in (some, np.full(n, size - 1), np.where(r.random(n) < 0.1, 2**30, some), np.where(u > 0, some - size, some)):
        want, near = x.copy(), i < size
        np.add.at(want, i[near], u[near])
        with mx.stream(mx.cpu):
            numbers = mx.int64 if whole else mx.float32
            expected = np.array(mx.array(want).astype(numbers).astype(dtype).astype(mx.float64))
            y, v, at = mx.array(x).astype(dtype), mx.array(u).astype(dtype), mx.array(i)
            wide = mx.broadcast_to(y[:, None], (size, 3))
            mx.eval(y, v, at, wide)
        for f in [
            lambda: y.at[at].add(v),  # noqa: B023
            lambda: y.at[at].add(v[::-1][::-1]),  # noqa: B023
            lambda: y.at[at.reshape(-1, 1)].add(v[:, None]),  # noqa: B023
            lambda: y.reshape(1, -1).at[mx.zeros_like(at), at].add(v)[0],  # noqa: B023
            lambda: wide.at[at, 1].add(v)[:, 1],  # noqa: B023
        ]:
            with mx.stream(mx.gpu):
                got = f()
                mx.eval(got)
            with mx.stream(mx.cpu):
                got = np.array(got.astype(mx.float64))
            assert np.array_equal(got, expected)
            assert np.array_equal(np.signbit(got), np.signbit(expected))


@pytest.mark.parametrize("n, size", [(2000, 3), (30_000, 1), (20_000, 1500), (600_000, 20)])
def test_sums_in_few_places_are_as_accurate(n, size):
    """Against float64, and the same bits again; what is not finite stays where it is."""
    r = np.random.default_rng(n)
    i, u, x = r.integers(0, size, n), r.standard_normal(n).astype(np.float32), np.ones(size, np.float32)
    want, most = x.astype(np.float64), np.abs(x.astype(np.float64))
    np.add.at(want, i, u.astype(np.float64))
    np.add.at(most, i, np.abs(u.astype(np.float64)))
    with mx.stream(mx.gpu):
        x, i, u = mx.array(x), mx.array(i), mx.array(u)
        got = np.array(x.at[i].add(u))
        again = np.array(x.at[i].add(u))
    assert np.all(np.abs(got - want) <= 2.0**-22 * most)
    assert np.array_equal(got.view(np.uint32), again.view(np.uint32))
    if size > 2:
        odd = mx.where(i == 0, mx.nan, mx.where(i == 1, mx.inf, u))
        with mx.stream(mx.gpu):
            got = np.array(x.at[i].add(odd))
        assert np.isnan(got[0]) and got[1] == np.inf and np.array_equal(got[2:], again[2:])


def test_windows_that_are_added_up():
    """Each element of slices that overlap is an update."""
    x, i = grid(mx.float32, 50), places((300, 1), 44)
    u = mx.ones((300, 7))
    f = lambda x, i: mx.vmap(lambda k: mx.slice(x, k, (0,), (7,)))(i)  # noqa: E731
    same(lambda x, i, u: mx.vjp(lambda x: f(x, i), [x], [u])[1][0], x, i, u)


BUCKETS = [(mx.float32, size) for size in (1024, 1025, 8191, 8192, 16_385, 40_000)]
BUCKETS += [(t, 8191) for t in (mx.float16, mx.bfloat16, mx.int32, mx.uint16, mx.int8, mx.bool_)]


@pytest.mark.parametrize("dtype, size", BUCKETS, ids=str)
@pytest.mark.filterwarnings("ignore:.*out of range")
def test_many_updates_in_buckets(dtype, size):
    """Of many places, some of which have many, and some none. All sums are exact in float32; those of half types are
    rounded once, which the CPU does after each update."""
    r = np.random.default_rng(size)
    n = 10_000 + size
    i = np.where(r.random(n) < 0.9, r.integers(0, size, n) // 2 * 2, r.integers(size - 9, size, n))
    i[r.integers(0, n, 50)] -= size
    i[r.integers(0, n, 20)] = 2**30
    x, u = (mx.array(r.integers(-3, 4, k) * 0.375, mx.float32).astype(dtype) for k in (size, n))
    i = mx.array(i)
    mx.eval(x, u, i)

    def added(f, x):
        if dtype not in (mx.float16, mx.bfloat16) or mx.default_device() != mx.Device(mx.cpu):
            return f(x, u)
        return f(x.astype(mx.float32), u.astype(mx.float32)).astype(dtype)

    for fold in FOLDS:
        if fold != "add":
            same(lambda x, u, i: put(x, i, u, fold), x, u, i)  # noqa: B023
    same(lambda x: added(lambda x, u: put(x, i, u, "add"), x), x)
    same(lambda x: added(lambda x, u: put(x, i, u[::-1], "add"), x), x)
    same(lambda x: added(lambda x, u: put(x, i, u[:1], "add"), x), x)
    wide = mx.broadcast_to(x[:, None], (size, 3))
    same(lambda x: added(lambda x, u: put(x, (i, 1), u, "add"), x), wide)
    three = (slice(None), i)
    same(lambda x: added(lambda x, u: put(x, three, mx.broadcast_to(u, (3, n)), "add"), x), wide.T)
    same(lambda x, u, i: mx.put_along_axis(x, i, u, 0), x, u, mx.abs(i) % size)
    x, u = (x.astype(mx.float64, stream=mx.cpu) for x in (x, u))
    same(lambda x, u, i: put(x, i, u, "set"), x, u, i)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_same_bits_where_that_is_asked_for(dtype):
    """Updates come one after the other, as on the CPU."""
    program = f"""
import mlx.core as mx, numpy as np
r = np.random.default_rng(0)
i = mx.array(r.integers(0, 5000, 20_000))
with mx.stream(mx.cpu):
    x, u = (mx.array(r.standard_normal(n).astype(np.float32)).astype(mx.{dtype}) for n in (5000, 20_000))
    want = x.at[i].add(u)
    mx.eval(x, u, want)
with mx.stream(mx.gpu):
    got = x.at[i].add(u)
    mx.eval(got)
with mx.stream(mx.cpu):
    print(mx.array_equal(got, want).item())
"""
    env = {**os.environ, "MLX_DETERMINISTIC": "1"}
    assert subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True).stdout == "True\n"


@pytest.fixture
def said():
    """Takes what is said of indices out of range, and has the next one said again."""
    before = mx.set_index_errors(False)

    def take(f):
        mx.set_index_errors(False)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = f()
            mx.eval(y)
        return [str(w.message) for w in seen]

    yield take
    mx.set_index_errors(before)


BEYOND = {
    "take": lambda x, i: mx.take(x, i, 0),
    "take, turned": lambda x, i: mx.take(x, i.reshape(5, 10).T, 1),
    "getitem": lambda x, i: x[1][i],
    "take_along_axis": lambda x, i: mx.take_along_axis(x, i[:, None], 0),
    "whole": lambda x, i: mx.take_along_axis(x, mx.broadcast_to(i[:, None], (50, 20)), 0),
    "the second of two": lambda x, i: x[i % 7, i],
    "both of two": lambda x, i: x[i.reshape(5, 10), i[:10]],
    "set": lambda x, i: put(x, i, x[:1], "set"),
    "add": lambda x, i: put(x, i, x[:1], "add"),
    "add at two": lambda x, i: put(x, (i, i), x[0, 0], "add"),
    "put_along_axis": lambda x, i: mx.put_along_axis(x, i[:, None], x[:1], 0),
    "slice": lambda x, i: mx.slice(x, i[6:8], (0, 1), (3, 7)),
    "slice_update": lambda x, i: mx.slice_update(x, x[:3, :7], i[6:8], (0, 1)),
    "nothing of a slice": lambda x, i: mx.slice(x, i[6:8], (0, 1), (9, 0)),
    "gradient of a slice": lambda x, i: mx.grad(lambda x: mx.slice(x, i[6:8], (0, 1), (9, 3)).sum())(x),
    "gradient of reading": lambda x, i: mx.grad(lambda x: mx.take(x, i, 0).sum())(x),
    "gradient of reading, turned": lambda x, i: mx.grad(lambda x: mx.take(x, i.reshape(5, 10).T, 1).sum())(x),
    "gradient of take_along_axis": lambda x, i: mx.grad(lambda x: mx.take_along_axis(x, i[:, None], 0).sum())(x),
    "gradient of a whole one": lambda x, i: mx.grad(
        lambda x: mx.take_along_axis(x, mx.broadcast_to(i[:, None], (50, 20)), 0).sum()
    )(x),
    "gradient of writing": lambda x, i: mx.grad(lambda u: put(x, i, u, "set").sum())(mx.repeat(x[:1], 50, axis=0)),
}


@pytest.mark.parametrize("name", BEYOND)
@pytest.mark.parametrize("index", INTEGERS, ids=str)
def test_indices_out_of_range(name, index, said, monkeypatch):
    f = BEYOND[name]
    if name == "gradient of writing":
        monkeypatch.delenv("MLX_LOG")  # asks for an arange
    x, i = grid(mx.float32, 9, 20), places(50, 9, index, 4, beyond=True)

    def on(device):
        with mx.stream(device):
            return f(x, i)

    there, here = said(lambda: on(mx.cpu)), said(lambda: on(mx.gpu))
    assert there == here
    assert len(here) == 1
    same(f, x, i)
    mx.set_index_errors(True)
    told = []
    for device in (mx.cpu, mx.gpu):
        with pytest.raises(IndexError) as caught:
            mx.eval(on(device))
        told.append(str(caught.value))
    assert told[0] == told[1]


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.int32], ids=str)
def test_what_is_added_to_no_place_is_told(dtype, said):
    """Of many updates of few places, and of one that fails nothing is written."""
    x, u = mx.zeros(9, dtype), mx.ones(3000, dtype)
    i = mx.array(np.where(np.arange(3000) % 1000 == 777, 9 + np.arange(3000), 3))
    mx.eval(x, u, i)

    def on(device):
        with mx.stream(device):
            return x.at[i].add(u)

    there, here = said(lambda: on(mx.cpu)), said(lambda: on(mx.gpu))
    assert there == here and "index 786 at position (777,)" in here[0]
    mx.set_index_errors(True)
    with pytest.raises(IndexError, match=r"index 786 at position \(777,\)"):
        mx.eval(on(mx.gpu))


def test_the_first_of_many_is_told_once(said):
    x = i = mx.array(np.arange(100_000))
    with mx.stream(mx.gpu):

        def several():
            good = x[i]
            bad = x[i + 777]  # its first index out of range is 100,000
            worse = x[i * 1000]
            mx.eval(good, bad)
            return good + bad + worse

        told = said(several)
        assert (
            len(told) == 1 and "index 100000 at position (99223,) is out of range for axis 0 of size 100000" in told[0]
        )
        assert said(lambda: x[i]) == []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            mx.set_index_errors(False)
            with pytest.raises(RuntimeWarning):
                mx.eval(x[i + 1])


@pytest.mark.parametrize("look", [mx.eval, np.array, repr, lambda x: (mx.async_eval(x), mx.synchronize())])
def test_who_waits_hears_of_it(look, said):
    mx.set_index_errors(False)
    with mx.stream(mx.gpu), pytest.warns(RuntimeWarning, match="index 9 at position"):
        look(mx.array([1, 2, 3, 4, 5])[mx.array([1, 9])] + 0)


def test_nothing_is_near_in_an_empty_axis():
    told = []
    for device in (mx.cpu, mx.gpu):
        with mx.stream(device), pytest.raises(IndexError, match="of size 0") as caught:
            mx.eval(mx.zeros((3, 0))[:, mx.array([1, 2])])
        told.append(str(caught.value))
    assert told[0] == told[1]
    same(lambda: mx.take(mx.zeros(0), mx.array([], mx.int32)))


def test_nothing_is_written_to_an_empty_axis(said):
    def on(device):
        with mx.stream(device):
            return mx.put_along_axis(mx.zeros((2, 0)), mx.array([[0], [1]]), mx.array(1.0), 1)

    there, here = said(lambda: on(mx.cpu)), said(lambda: on(mx.gpu))
    assert there == here and len(here) == 1


def test_an_operand_stays_where_an_update_fails():
    with mx.stream(mx.gpu):
        mx.set_index_errors(True)
        x = mx.array([1.0, 2.0, 3.0]) * 1
        mx.eval(x)
        with pytest.raises(IndexError):
            mx.eval(x.at[mx.array([0, 5])].add(1))
        mx.set_index_errors(False)
        assert x.tolist() == [1, 2, 3]


def test_values_for_a_mask(monkeypatch):
    """In a trace the number of true elements is not known, so the values may turn out to be too few."""
    monkeypatch.delenv("MLX_LOG")  # they are counted on the CPU
    x, m = grid(mx.float32, 40, 7), grid(mx.bool_, 40, 7)

    @mx.compile
    def put(x, m, v):
        y = x * 1
        y[m] = v
        return y

    same(put, x, m, mx.array(np.arange(280, dtype=np.float32)))
    for device in (mx.cpu, mx.gpu):
        with mx.stream(device), pytest.raises(ValueError, match="a value for each element where the mask is true"):
            mx.eval(put(x, m, mx.array([1.0, 2.0, 3.0])))


DEEP = (2, 3, 1, 2, 2, 1, 2, 3, 2, 2)


@pytest.mark.parametrize(
    "view", [lambda x: x, lambda x: x.T, lambda x: x[:, ::-1, ..., ::-1]], ids=["row", "turned", "cut"]
)
@pytest.mark.parametrize("strict", [False, True])
def test_many_dimensions(strict, view):
    """Axes of which all is taken are one; indices along an axis have all of the others, some by broadcasting."""
    with mx.stream(mx.cpu):
        x = view(mx.arange(576, dtype=mx.float32).reshape(DEEP))
        mx.eval(x)
    i, many = mx.array([1, 0, 0, -1]), mx.zeros((1,) * 9 + (3,), mx.int32) - 1
    for f in [
        lambda x: x[:, :, :, i],
        lambda x: x[i, :, :, i],
        lambda x: x[i, ..., i],
        lambda x: x[:, 1, ..., many],
        lambda x: mx.take(x, i, axis=8),
        lambda x: mx.take_along_axis(x, mx.argsort(-x, axis=3), 3),
        lambda x: mx.take_along_axis(x, mx.argsort(x, axis=-1)[..., :1], -1),
        lambda x: x.at[:, :, :, i].add(x[:, :, :, ::-1][:, :, :, mx.array([0, 1, 1, 0])]),
        lambda x: x.at[i, ..., i].multiply(2.0),
        lambda x: mx.put_along_axis(x, mx.argmax(x, axis=1, keepdims=True), mx.zeros((1,) * 10), 1),
        lambda x: mx.grad(lambda x: (x[:, i, ..., 1] ** 2).sum())(x),
        lambda x: mx.grad(lambda x: (mx.take_along_axis(x, mx.argsort(x, axis=3), 3) ** 2).sum())(x),
    ]:
        before = mx.set_index_errors(strict)  # indices are looked at before anything is written
        close(f, x)
        mx.set_index_errors(before)
