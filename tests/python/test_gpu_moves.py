"""Operations that move elements on a GPU, each beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu import FLOATS, INTEGERS, launches, operands, same

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
DTYPES = [*FLOATS, *INTEGERS, mx.bool_, mx.complex64]
WIDTHS = [mx.uint8, mx.bfloat16, mx.float32, mx.complex64]  # one type of each size


def grid(dtype, *shape):
    n = int(np.prod(shape))
    with mx.stream(mx.cpu):
        x = operands(mx.float32 if dtype in FLOATS else dtype, n, n + 1)[:n].reshape(shape).astype(dtype)
        mx.eval(x)
    return x


LAYOUTS = {
    "row": lambda x: x,
    "transposed": lambda x: x.T,
    "swapped": lambda x: x.swapaxes(0, 1),
    "turned far": lambda x: x.transpose(2, 0, 1),
    "reversed": lambda x: x[::-1, :, ::-1],
    "odd offset": lambda x: x[1:, 1:, 3:],
    "every other": lambda x: x[:, ::2, ::3],
    "one row": lambda x: mx.broadcast_to(x[0, 0], x.shape),
    "one column": lambda x: mx.broadcast_to(x[:, :, :1], x.shape),
    "one value": lambda x: mx.broadcast_to(x[1, 2, 3], x.shape),
    "empty": lambda x: x[:, :0],
    "no axes": lambda x: x[1, 2, 3],
    "ten axes": lambda x: x[:4, :32, :64].reshape((2,) * 13).transpose(*range(12, -1, -1)),
    "nineteen axes": lambda x: mx.broadcast_to(x[:2, :2, :2], (2,) * 16 + (2, 2, 2)).swapaxes(0, 18)[..., :1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_copies(layout, dtype):
    view = LAYOUTS[layout]
    same(lambda x: mx.contiguous(view(x)), grid(dtype, 5, 40, 70))


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)], ids=str)
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_turned_copies_of_whole_pieces(dtype, axes):
    x = grid(dtype, 24, 40, 272)
    same(lambda x: mx.contiguous(x.transpose(*axes)), x)
    same(lambda x: mx.contiguous(x[:, 8:, 16:].transpose(*axes)), x)
    same(lambda x: mx.contiguous(x[:, 1:, 16:].transpose(*axes)), x)


def test_copies_of_many_shapes():
    r = np.random.default_rng(1)
    for _ in range(150):
        shape = [int(r.integers(1, 80)) for _ in range(r.integers(1, 4))]
        axes = [int(i) for i in r.permutation(len(shape))]
        starts = [int(r.integers(0, s)) for s in shape]
        x = grid(WIDTHS[int(r.integers(0, 4))], *shape)
        same(lambda x: mx.contiguous(x[tuple(slice(s, None) for s in starts)].transpose(*axes)), x)  # noqa: B023


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_parts(dtype):
    x, y = grid(dtype, 6, 7, 8), grid(dtype, 6, 3, 8)
    same(lambda x, y: mx.concatenate([x, y, x[:, ::-2]], axis=1), x, y)
    same(lambda x, y: mx.concatenate([x, y.transpose(0, 1, 2), x[:, :0]], axis=-2), x, y)
    same(lambda x, y: mx.stack([x[:, :3], y, y[::-1]], axis=2), x, y)
    same(lambda x: mx.pad(x, ((1, 2), (0, 3), (4, 0))), x)
    same(lambda x, y: mx.pad(x[:, ::2], 3, constant_values=y[0, 0, 1]), x, y)
    same(lambda x: mx.full((3, 5), x[1, 1, 1]), x)
    same(lambda x: mx.repeat(x, 3, axis=1), x)
    same(lambda x: mx.tile(x, (2, 1, 3)), x)
    same(lambda x: mx.zeros_like(x), x)
    same(lambda x: x.reshape(8, 42).T.reshape(6, 56), x)
    same(lambda x: mx.as_strided(x[:, ::2], (4, 3), (7, 2), 5), x)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("place", [np.s_[2:5], np.s_[::-4], np.s_[:3, 1::3], np.s_[1:2, :, ::-5], np.s_[0:0], np.s_[:]])
def test_updates_of_slices(dtype, place):
    x, u = grid(dtype, 9, 10, 16), grid(dtype, 9, 10, 16)[::-1]

    def f(x, u):
        y = mx.contiguous(x)
        y[place] = u[tuple(slice(0, n) for n in x[place].shape)]
        return y

    same(f, x, u)


def test_update_in_place_leaves_what_others_hold():
    x = grid(mx.float32, 64, 64)
    before = np.array(x)
    with mx.stream(mx.gpu):
        y = x * 1
        z = y[:]
        mx.eval(y, z)
        y[3] = 7
        mx.eval(y)
        for _ in range(5):  # a chain that nobody else holds
            y[4:6] = y[5:7] + 1
            mx.eval(y)
    assert np.array_equal(np.array(x), before) and np.array_equal(np.array(z), before)
    want = before.copy()
    want[3] = 7
    for _ in range(5):
        want[4:6] = want[5:7] + 1
    assert np.array_equal(np.array(y), want)


def cache(x, y, at=5):
    """Where keys and values of a word go."""
    x[:, :, at : at + 1] = y
    return x


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.uint8], ids=str)
def test_two_updates(dtype):
    """One launch where they set parts of two arrays, also of other sizes; with others, and of one array, as before."""
    a, b, c = (mx.random.randint(0, 99, s).astype(dtype) for s in ((2, 8, 9, 64), (2, 2, 9, 48), (2, 3, 9, 7)))
    x, y, z = (mx.random.randint(0, 99, s).astype(dtype) for s in ((2, 8, 1, 64), (2, 2, 1, 48), (2, 3, 1, 7)))
    mx.eval(a, b, c, x, y, z)
    new = lambda *all_of_them: [mx.array(np.array(i.astype(mx.float32))).astype(dtype) for i in all_of_them]  # noqa: E731

    def each(pairs):
        said = []
        for to, of in pairs:
            want = np.array(to.astype(mx.float32))
            want[:, :, 5:6] = np.array(of.astype(mx.float32))
            said.append(want)
        return said

    with mx.stream(mx.gpu):
        for pairs in ([(a, x), (b, y)], [(a, x), (a, x)], [(c, z), (a, x)], [(a, x), (c, z), (b, y)]):
            to = new(*(p[0] for p in pairs))
            mx.eval(to)
            got, n = launches(lambda to=to, pairs=pairs: [cache(t, p[1]) for t, p in zip(to, pairs)])
            for g, w in zip(got, each(pairs), strict=True):
                assert np.array_equal(np.array(g.astype(mx.float32)), w)
        to = new(a, b)
        mx.eval(to)
        got, n = launches(lambda: [cache(to.pop(0), x), cache(to.pop(0), y)])
        assert n in (None, 1)
        w = mx.array(np.array(a.astype(mx.float32))).astype(dtype)  # one after the other into one array
        mx.eval(w)
        w = cache(cache(w, x), x + 1, 6)
        assert mx.array_equal(w[:, :, 5:6], x).item() and mx.array_equal(w[:, :, 6:7], x + 1).item()
        u = cache(mx.array(a), b[:, :1, :1, :1] + 0)
        v = cache(mx.array(a), a[:, :, :1])  # of what another reads
        mx.eval(u, v)
        assert mx.array_equal(v[:, :, 5:6], a[:, :, :1]).item()
        assert mx.array_equal(u[:, :, 5:6], mx.broadcast_to(b[:, :1, :1, :1], (2, 8, 1, 64))).item()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", WIDTHS, ids=str)
def test_where(layout, dtype):
    view = LAYOUTS[layout]
    c, x, y = grid(mx.bool_, 5, 40, 70), grid(dtype, 5, 40, 70), grid(dtype, 5, 40, 70)[::-1]
    same(lambda c, x, y: mx.where(view(c), view(x), view(y)), c, x, y)
    same(lambda c, x, y: mx.where(view(c), x[0, 0, 0], mx.contiguous(view(y))), c, x, y)
    same(lambda c, x, y: mx.where(c[0, 0, 0], view(x), y[1, 1, 1]), c, x, y)


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_astype(dtype, to):
    x = operands(dtype, 1001, 2)
    same(lambda x: x.astype(to), x)
    same(lambda x: x[1:].astype(to), x)
    same(lambda x: x[:900].reshape(30, 30).T.astype(to), x)
    same(lambda x: mx.broadcast_to(x[3], (70,)).astype(to), x)
    same(lambda x: x[:0].astype(to), x)


@pytest.mark.parametrize("size", [4, 300_000])
@pytest.mark.parametrize("share", [mx.asarray, mx.from_dlpack], ids=lambda f: f.__name__)
def test_what_owners_of_shared_memory_write_arrives(share, size):
    n = np.ones(size, np.float32)
    x = share(n, copy=False)
    f = mx.compile(lambda y: x + y)
    for value in 2, 8, -1:
        n[:] = value
        for y in (x + 1, f(mx.array(1.0)), x.reshape(2, -1).T + 1):
            assert y.min().item() == y.max().item() == value + 1
    n[:] = 9
    x[0] = 1
    assert x[:4].tolist() == [1, 9, 9, 9] and n[0] == 9
