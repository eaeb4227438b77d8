"""Products of matrices on a GPU, each beside the same on the CPU; skipped where there is none."""

import os
import subprocess
import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_gpu import FLOATS, INTEGERS, launches

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
DTYPES = [*FLOATS, *INTEGERS, mx.bool_, mx.complex64]
DIGITS = {mx.float16: 11, mx.bfloat16: 8, mx.float32: 24, mx.complex64: 24, mx.float64: 53}
SIZES = [
    (1, 1, 1),
    (3, 5, 7),
    (16, 16, 16),
    (64, 64, 64),
    (65, 33, 130),
    (128, 128, 40),
    (130, 200, 72),
    (7, 0, 5),
    (9, 17, 0),
]


def matrix(dtype, *shape, seed=0):
    r = np.random.default_rng(seed)
    with mx.stream(mx.cpu):
        if dtype in DIGITS:
            x = r.standard_normal(shape)
            x = mx.array((x + 1j * r.standard_normal(shape)).astype(np.complex64)) if dtype == mx.complex64 else x
            x = mx.array(x) if dtype == mx.complex64 else mx.array(x, mx.float64)
        else:
            x = mx.array(r.integers(0, 2 if dtype == mx.bool_ else 256, shape))
        x = x.astype(dtype)
        mx.eval(x)
    return x


def wide(x):
    with mx.stream(mx.cpu):
        return np.array(x if x.dtype == mx.complex64 else x.astype(mx.float64))


def close(f, *x, depth=0):
    """f on both devices: integers equal, floats as near as two orders of summation bring them, with half a unit of what
    is summed in for each product of a long sum, and one rounding of the result."""
    with mx.stream(mx.cpu):
        there = f(*x)
        mx.eval(there)
    with mx.stream(mx.gpu):
        here = f(*x)
        mx.eval(here)
    assert here.dtype == there.dtype and here.shape == there.shape
    digits = DIGITS.get(here.dtype)
    here, there = wide(here), wide(there)
    if digits is None:
        assert np.array_equal(here, there)
    else:
        largest = np.max(np.abs(there), initial=1)
        unit = 2.0 ** -max(digits, 24)
        tolerance = 2 * 2.0**-digits + 16 * unit
        atol = tolerance * largest + depth / 2 * unit
        np.testing.assert_allclose(here, there, rtol=tolerance, atol=atol, equal_nan=False)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sizes(dtype, size):
    m, n, k = size
    close(mx.matmul, matrix(dtype, m, k), matrix(dtype, k, n, seed=1))


VIEWS = {
    "row": lambda x: x,
    "turned": lambda x: mx.contiguous(x.T).T,
    "cut": lambda x: mx.concatenate([x, x], 1)[:, 1 : x.shape[1] + 1],
    "every other": lambda x: mx.repeat(x, 2, 1)[:, ::2],
    "every other row": lambda x: mx.repeat(x, 2, 0)[::2],
    "backwards": lambda x: x[::-1, ::-1],
    "one row": lambda x: mx.broadcast_to(x[:1], x.shape),
    "one column": lambda x: mx.broadcast_to(x[:, :1], x.shape),
}


@pytest.mark.parametrize("right", VIEWS)
@pytest.mark.parametrize("left", VIEWS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.uint8], ids=str)
def test_layouts(dtype, left, right):
    a, b = matrix(dtype, 72, 40), matrix(dtype, 40, 80, seed=1)
    close(lambda a, b: VIEWS[left](a) @ VIEWS[right](b), a, b)


VECTORS = [(1, 1, 9), (1, 40, 64), (40, 1, 64), (1, 300, 33), (300, 1, 33), (1, 7, 0), (5, 1, 2500), (1, 9, 2500)]
VECTORS += [(1, 600, 2304), (520, 1, 4616)]  # of as many steps as are fetched at once, and more


@pytest.mark.parametrize("size", VECTORS, ids=str)
@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64, mx.bool_, mx.uint16, mx.int64], ids=str)
def test_vectors(dtype, size):
    """Matrices times vectors, the matrix lying either way."""
    m, n, k = size
    close(mx.matmul, matrix(dtype, m, k), matrix(dtype, k, n, seed=1), depth=k)
    close(mx.matmul, matrix(dtype, k, m).T, matrix(dtype, n, k, seed=1).T, depth=k)
    if dtype in DIGITS:
        c = matrix(dtype, n, m, seed=2).T
        close(lambda c, a, b: mx.addmm(c, a, b, 0.5, -2), c, matrix(dtype, m, k), matrix(dtype, k, n), depth=k)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.uint8, mx.complex64], ids=str)
def test_layouts_of_vectors(dtype, view):
    x, row, column = matrix(dtype, 72, 40), matrix(dtype, 3, 72, seed=1)[:1], matrix(dtype, 40, 3, seed=2)[:, 1:2]
    close(lambda x, v: VIEWS[view](x) @ v, x, column)
    close(lambda x, v: v @ VIEWS[view](x), x, row)
    close(lambda x, v: x @ VIEWS[view](v), x, matrix(dtype, 40, 1))
    close(lambda x, v: mx.broadcast_to(x, (3, 72, 40)) @ VIEWS[view](v)[None], x, matrix(dtype, 40, 1))


BATCHES = [
    ((3,), (3,)),
    ((3,), ()),
    ((), (3,)),
    ((2, 1), (1, 3)),
    ((2, 3), (3,)),
    ((0,), (0,)),
    ((2, 1, 3, 1), (1, 2, 1, 3)),
]


@pytest.mark.parametrize("batches", BATCHES, ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.int32], ids=str)
def test_batches(dtype, batches):
    a, b = matrix(dtype, *batches[0], 17, 24), matrix(dtype, *batches[1], 24, 40, seed=1)
    close(mx.matmul, a, b)
    close(lambda a, b: a @ mx.swapaxes(b, -1, -2), a, matrix(dtype, *batches[1], 40, 24, seed=1))


def test_many_batch_axes():
    """More than a kernel walks: alternating axes of each operand are broadcast."""
    a = matrix(mx.float32, *(2, 1) * 5, 3, 4)
    b = matrix(mx.float32, *(1, 2) * 5, 4, 5, seed=1)
    close(mx.matmul, a, b)


@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64, mx.uint8, mx.int64], ids=str)
@pytest.mark.parametrize("size", [(40, 24, 3000), (1, 1, 5000), (8, 300, 1024), (70, 66, 1047)], ids=str)
def test_long_sums(dtype, size):
    m, n, k = size
    close(mx.matmul, matrix(dtype, m, k), matrix(dtype, k, n, seed=1), depth=k)
    close(mx.matmul, matrix(dtype, k, m).T, matrix(dtype, n, k, seed=1).T, depth=k)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_many_tiles(dtype):
    """As many as larger ones are for."""
    a, b = matrix(dtype, 32, 130, 33), matrix(dtype, 32, 33, 140, seed=1)
    close(mx.matmul, a, b)
    close(mx.matmul, mx.contiguous(a[:8].swapaxes(1, 2)).swapaxes(1, 2), matrix(dtype, 140, 33).T)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
def test_rows_that_begin_anywhere(turned):
    """So many that they are copied to where vectors begin: of odd sizes, of a batch, one matrix with all of them."""
    dtype = mx.bfloat16

    def operand(turn, *shape, seed=0):
        shape = (*shape[:-2], shape[-1], shape[-2]) if turn else shape
        x = matrix(dtype, *shape, seed=seed)
        return x.swapaxes(-1, -2) if turn else x

    a, b = operand(turned[0], 301, 801), operand(turned[1], 801, 281, seed=1)
    close(mx.matmul, a, b, depth=801)
    if turned[0] == turned[1]:
        close(mx.matmul, operand(turned[0], 2, 3, 131, 1001), operand(turned[1], 3, 1001, 90, seed=1), depth=1001)
    if turned == (False, False):
        close(lambda a, b: a[:, ::2] @ b[::2], operand(False, 500, 1202), operand(False, 1202, 232), depth=601)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_tall_tiles(dtype, turned):
    """Tiles of 256 rows by 128 columns, or of 128 by 256, some of whose halves are not there, in each layout; larger
    products where it takes those to fill the device."""
    emulated = mx.device_info(mx.gpu)["device_name"] == "emulated"
    large = [(1160, 4104, 328), (2049, 2568, 4096)]
    for m, n, k in [(520, 136, 200), (296, 256, 8), (256, 392, 64), (290, 264, 328), *(large if not emulated else [])]:
        a, b = matrix(dtype, k, m).T if turned[0] else matrix(dtype, m, k), matrix(dtype, k, n, seed=1)
        b = matrix(dtype, n, k, seed=1).T if turned[1] else b
        close(mx.matmul, a, b, depth=k)
    close(mx.matmul, matrix(dtype, 3, 2, 130, 72), matrix(dtype, 2, 72, 72, seed=1), depth=72)
    close(
        lambda c, a, b: mx.addmm(c, a, b, 0.5, 2.0),
        matrix(dtype, 1, 392),
        matrix(dtype, 256, 64),
        matrix(dtype, 64, 392),
    )


@pytest.mark.parametrize("dtype", [*FLOATS, mx.complex64], ids=str)
def test_addmm(dtype):
    a, b = matrix(dtype, 2, 30, 50), matrix(dtype, 2, 50, 70, seed=1)
    for c in [matrix(dtype, *s, seed=2) for s in [(2, 30, 70), (30, 70), (70,), (30, 1), (1, 70), ()]]:
        close(lambda c, a, b: mx.addmm(c, a, b), c, a, b)
        close(lambda c, a, b: mx.addmm(c, a, b, alpha=0.5, beta=-3), c, a, b)
    c = matrix(dtype, 3, 5, seed=2)
    close(lambda c, a, b: mx.addmm(c, a, b, 2.0, 0.25), c, matrix(dtype, 3, 0), matrix(dtype, 0, 5))
    long = matrix(dtype, 3, 4000), matrix(dtype, 4000, 5)
    close(lambda c, a, b: mx.addmm(c, a, b, 2.0, 0.25), c, *long, depth=4000)
    close(lambda c, a, b: mx.addmm(c.T, a, b, 2.0, 0.25), matrix(dtype, 5, 3), *long, depth=4000)


@pytest.mark.parametrize("size", [(70, 64, 48), (256, 512, 384)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_relu_of_products(dtype, size):
    """By cuBLASLt in one go, where it is found; NaN stays."""
    m, n, k = size
    a, b, c = matrix(dtype, m, k), matrix(dtype, k, n, seed=1), matrix(dtype, n, seed=2)
    rows = mx.arange(m)[:, None]
    odd = mx.where(rows == 3, float("nan"), mx.where(rows == 5, float("inf"), 1)).astype(dtype)
    close(lambda a, b: mx.maximum(a @ b, 0), a, b, depth=k)
    close(lambda a, b, c: mx.maximum(mx.addmm(c, a, b), 0) + 1, a, b, c, depth=k)
    with mx.stream(mx.gpu):
        y = mx.maximum(mx.addmm(c, mx.where(rows == 3, odd, a), b), 0)
        assert mx.isnan(y).any(axis=1).tolist() == [i == 3 for i in range(m)] and mx.isnan(y[3]).all()
        y = mx.maximum(mx.where(rows == 5, odd, a) @ mx.abs(b), 0)
        assert mx.isinf(y[5]).all() and mx.isfinite(y[:5]).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_vector_with_several_matrices(dtype):
    """At once where they are near each other, with what is added to the results: the same bits as one by one."""
    k = 2056
    x, sizes = matrix(dtype, 1, k), (513, 512, 640, 515, 600, 520)
    w = [matrix(dtype, n, k, seed=n) for n in sizes]
    added = [matrix(dtype, 1, n, seed=n + 1) for n in sizes]
    with mx.stream(mx.gpu):
        alone = []
        for m in w:
            alone.append(x @ m.T)
            mx.eval(alone[-1])
        sums = [a + y for a, y in zip(added, alone)]
        gated = mx.sigmoid(alone[1]) * alone[1] * (x @ matrix(dtype, 512, k, seed=3).T)
        mx.eval(sums, gated)
        at_once = [(x @ m.T).reshape(-1) for m in w]
        mx.eval(at_once)
        assert all(mx.array_equal(a.reshape(-1), b).item() for a, b in zip(alone, at_once))
        both = [(a + x @ m.T, x @ m.T + a) for a, m in zip(added, w)]
        mx.eval(both)
        assert all(mx.array_equal(s, y).item() for s, of in zip(sums, both) for y in of)
        gate, up = x @ w[1].T, x @ matrix(dtype, 512, k, seed=3).T
        y = mx.sigmoid(gate) * gate * up
        assert mx.array_equal(y, gated).item()
        first, second = x @ w[0].T, x @ w[1].T  # one of whose results is looked at twice, with what follows
        y = first + added[0]
        mx.eval(y, first, second)
        assert mx.array_equal(y, sums[0]).item() and mx.array_equal(first, alone[0]).item()
        assert mx.array_equal(second, alone[1]).item()
        y = added[0][:, ::-1] + x @ w[0].T  # not row-major, and of one value
        z = mx.broadcast_to(added[1][:, :1], (1, 512)) + x @ w[1].T
        mx.eval(y, z)
        assert mx.array_equal(y, added[0][:, ::-1] + alone[0]).item()
        assert mx.array_equal(z, added[1][:, :1] + alone[1]).item()
    for a, m in zip(added, w):
        close(lambda x, m, a: x @ m.T + a, x, m, a, depth=k)


@pytest.mark.parametrize("size", [520, 640, 1024, 2056, 8192, 8200])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_norm_before_products(dtype, size):
    """One launch, and the bits of two, whoever else looks at the norm."""
    x, w, b = matrix(dtype, 1, size), matrix(dtype, size, seed=1), matrix(dtype, size, seed=2)
    m = [matrix(dtype, n, size, seed=n) for n in ((37, 512, 130) if size < 2000 else (515, 512, 600))]
    mx.eval(x, w, b, m)
    multiplied = lambda y: [y @ k.T for k in m]  # noqa: E731
    joins = dtype not in (mx.float64, mx.complex64) and size * dtype.size <= 16384
    with mx.stream(mx.gpu):
        for norm in (
            lambda: mx.fast.rms_norm(x, w, 1e-5),
            lambda: mx.fast.rms_norm(x, None, 1e-5),
            lambda: mx.fast.layer_norm(x, w, b, 1e-5),
            lambda: mx.fast.layer_norm(x, None, b, 1e-5),
        ):
            y, n = launches(norm)
            assert n in (None, 1)
            products = multiplied(y)
            exp = mx.exp(y)
            mx.eval(products, exp)
            got, n = launches(lambda norm=norm: multiplied(norm()))
            assert all(mx.array_equal(a, z).item() for a, z in zip(got, products, strict=True))
            assert n in (None, 1) or not joins
            for f, expected in (
                (lambda y: [y @ m[1].T, y], [products[1], y]),
                (lambda y: [mx.exp(y), y @ m[1].T], [exp, products[1]]),
                (lambda y: [y, y + y], [y, y + y]),
            ):
                got, _ = launches(lambda f=f, norm=norm: f(norm()))
                assert all(mx.array_equal(a, z).item() for a, z in zip(got, expected, strict=True))


@pytest.mark.parametrize("layers", [1, 5])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_products_one_after_the_other(dtype, layers):
    """Queued together, as a graph at last: the bits of one by one."""
    width, hidden = 520, 1032
    y, norms = matrix(dtype, 1, width), [matrix(dtype, width, seed=i) for i in range(layers)]
    sizes = (width, width), (hidden, width), (hidden, width), (width, hidden), (16, width)
    m = [[matrix(dtype, *s, seed=10 * i + k) * (1 / s[1] ** 0.5) for k, s in enumerate(sizes)] for i in range(layers)]
    mx.eval(y, norms, m)

    def run(kept):
        x, outputs = y, []
        for (o, gate, up, down, last), norm in zip(m, norms, strict=True):
            h = kept(x + x @ o.T)
            n = kept(mx.fast.rms_norm(h, norm, 1e-5))
            x = kept(h + kept(nn.silu(n @ gate.T) * (n @ up.T)) @ down.T)
            outputs.append(x @ last.T)
        return [*outputs, x]

    def one_by_one(a):
        mx.eval(a)
        return a

    with mx.stream(mx.gpu):
        expected = run(one_by_one)
        mx.eval(expected)
        for _ in range(3):
            mx.eval(got := run(lambda a: a))
            assert all(mx.array_equal(a, b).item() for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_what_a_norm_before_products_is_besides(dtype):
    """Added to its product, seen as another type, written over what it is of."""
    x, w = matrix(dtype, 1, 640), matrix(dtype, 640, 640, seed=1)
    other = {mx.float16: mx.bfloat16, mx.bfloat16: mx.float16}.get(dtype, mx.float32)
    seen = mx.ones((8, 640), other)
    mx.eval(x, w, seen)
    norm = lambda x: mx.fast.rms_norm(x, None, 1e-5)  # noqa: E731
    with mx.stream(mx.gpu):
        h = norm(x)
        mx.eval(h)
        p, q = h @ w.T, h.view(other) @ seen.T
        mx.eval(p)
        mx.eval(q)
        mx.eval(expected := h + p)
        y = norm(x)
        z = y + y @ w.T
        mx.eval(z, y)
        assert mx.array_equal(z, expected).item() and mx.array_equal(y, h).item()
        for n in (8, 64):  # it is the matrix too
            mx.eval(expected := h @ mx.broadcast_to(h, (n, 640)).T)
            z = (y := norm(x)) @ mx.broadcast_to(y, (n, 640)).T
            assert mx.array_equal(z, expected).item()
        y = norm(x)
        z = y.view(other) @ seen.T
        mx.eval(z, y)
        assert mx.array_equal(z, q, equal_nan=True).item() and mx.array_equal(y, h).item()
        rows = mx.concatenate([x] * 4000)
        mx.eval(rows)
        mx.synchronize(mx.gpu)
        mx.reset_peak_memory()
        before = mx.get_active_memory()
        rows[0:1] = norm(rows[0:1])
        mx.eval(rows)
        assert mx.get_peak_memory() - before < rows.nbytes // 2
        assert mx.array_equal(rows[:1], h).item() and mx.array_equal(rows[1:2], x).item()


@pytest.mark.parametrize("rows", [3, 6, 133, 1024])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gated_products(dtype, rows):
    """silu of one product times another of the same vector is one launch, its bits those of each by itself."""
    x = matrix(dtype, 1, 1024).reshape(1, 1, 1024)
    gate, up, third = (matrix(dtype, rows, 1024, seed=i) for i in (1, 2, 3))
    joins = dtype not in (mx.float64, mx.complex64) and rows >= 4
    with mx.stream(mx.gpu):
        a, b, c = x @ gate.T, x @ up.T, x @ third.T
        mx.eval(a, b, c)
        silu = nn.silu(a)
        mx.eval(silu)
        expected = silu * b
        mx.eval(expected)
        for f in (lambda: nn.silu(x @ gate.T) * (x @ up.T), lambda: (x @ up.T) * nn.silu(x @ gate.T)):
            y, n = launches(f)
            assert mx.array_equal(y, expected).item()
            assert n in (None, 1) or not joins
        y, z = nn.silu(x @ gate.T) * (x @ up.T), x @ third.T
        mx.eval(y, z)
        assert mx.array_equal(y, expected).item() and mx.array_equal(z, c).item()
        g = x @ gate.T  # which somebody looks at
        y = nn.silu(g) * (x @ up.T)
        mx.eval(y, g)
        assert mx.array_equal(y, expected).item() and mx.array_equal(g, a).item()
        g = x @ gate.T
        assert mx.array_equal(nn.silu(g) * g, silu * a).item()


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_derivatives(dtype):
    a, b, c = matrix(dtype, 20, 30), matrix(dtype, 30, 10, seed=1), matrix(dtype, 10, seed=2)
    for g in (0, 1, 2):
        close(lambda a, b, c: mx.grad(lambda *x: (mx.addmm(x[2], x[0], x[1], 0.5) ** 2).sum(), g)(a, b, c), a, b, c)  # noqa: B023


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_against_float64_and_again(dtype):
    """As exact as sums in float32 of one order are, and the same bits each time."""
    a, b = matrix(dtype, 50, 2000), matrix(dtype, 2000, 90, seed=1)
    x, y = wide(a), wide(b)
    with mx.stream(mx.gpu):
        z = a @ b
        assert all(mx.array_equal(a @ b, z).item() for _ in range(3))
    bound = 2.0 ** -DIGITS[dtype] * np.abs(x @ y) + 2.0**-21 * np.abs(x) @ np.abs(y)
    assert np.max(np.abs(wide(z) - x @ y) / bound) <= 1


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
def test_many_tiles_of_float32(turned):
    """Large tiles are made by several products of rounded numbers, whose sum is as near as one product is."""
    r = np.random.default_rng(0)
    a, b = (
        r.standard_normal((40, *s)).astype(np.float32) * 2.0 ** r.integers(-9, 9, s) for s in ((132, 40), (40, 140))
    )
    x, y = (mx.array(np.ascontiguousarray(z.swapaxes(1, 2))).swapaxes(1, 2) if t else mx.array(z)
            for z, t in zip((a, b), turned))  # fmt: skip
    got = np.array(mx.matmul(x, y, stream=mx.gpu))
    whole, sums = a.astype(float) @ b, np.abs(a).astype(float) @ np.abs(b)
    assert np.max(np.abs(got - whole) / sums) <= 2.0**-20
    assert np.sqrt(np.mean(((got - whole) / sums) ** 2)) <= 2.0**-23


@pytest.mark.parametrize("turned", [False, True])
def test_special_numbers_in_many_tiles(turned):
    """Infinities and what is near them are not lost, nor does NaN come of them elsewhere."""
    a, b = np.ones((40, 132, 40), np.float32), np.ones((40, 40, 140), np.float32)
    largest = np.finfo(np.float32).max
    for i, x in enumerate([np.inf, -np.inf, np.nan, largest, -largest, 1e-45]):
        a[i, 3 * i, i], b[i + 10, 2 * i, i + 70] = x, x
    a[7, 5, 2], a[7, 5, 3], b[8, 0, 1], b[8, 1, 1] = np.inf, -np.inf, largest, largest
    b[9] *= 0
    a[9, 1] = np.inf
    bits = np.array([0x7FFFFFFF], np.uint32).view(np.float32)
    a[20, 131, 39] = bits[0]
    x, y = mx.array(a), mx.array(b)
    y = mx.contiguous(y.swapaxes(1, 2)).swapaxes(1, 2) if turned else y
    here, there = (np.array(mx.matmul(x, y, stream=s)) for s in (mx.gpu, mx.cpu))
    np.testing.assert_array_equal(here, there)
    assert np.isnan(here[20, 131]).all() and not np.isnan(here[20, :131]).any()


ROUNDED = """
import mlx.core as mx
import numpy as np

def short(x):
    bits = np.array(x, np.float32).view(np.uint32)
    return ((bits + 0x1000) & 0xFFFFE000).view(np.float32).astype(float)

# Libraries may cut the operands' bits off instead, and sum as they do, or keep them all.
bits = 9 if (mx.cuda.libraries() or {}).get("cublasLt") else 19
r = np.random.default_rng(0)
sizes = [((), 65, 70, 33), ((), 200, 130, 72), ((), 40, 24, 3000), ((40,), 130, 140, 20), ((), 64, 1, 90)]
for batch, m, n, k in sizes:
    for turned in (0, 1, 2, 3):
        a, b = r.standard_normal((*batch, m, k), np.float32), r.standard_normal((*batch, k, n), np.float32)
        c = r.standard_normal(n, np.float32)
        x, y = mx.array(a), mx.array(b)
        x = mx.contiguous(x.swapaxes(-1, -2)).swapaxes(-1, -2) if turned & 1 else x
        y = mx.contiguous(y.swapaxes(-1, -2)).swapaxes(-1, -2) if turned & 2 else y
        bound = np.abs(a).astype(float) @ np.abs(b) + np.abs(c)
        whole = a.astype(float) @ b + c
        got = np.array(mx.addmm(mx.array(c), x, y))
        error = lambda want: float(np.max(np.abs(got - want) / bound))
        rounded, exact = error(short(a) @ short(b) + c), error(whole)
        close = exact <= 2.0**-19
        print(not close and rounded <= 2.0**-bits, close, f"{n == 1}: {rounded:.3g} {exact:.3g}")
"""


@pytest.mark.parametrize("tf32", ["1", "0", ""])
def test_tf32_is_for_who_asks(tf32):
    """Operands with ten bits behind the point, summed in float32; products with vectors keep all bits."""
    env = os.environ | {"MLX_ENABLE_TF32": tf32}
    command = [sys.executable, "-c", ROUNDED]
    told = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
    told, errors = zip(*(line.split(": ") for line in told))
    there = tf32 == "1" and mx.device_info(mx.gpu)["compute_capability_major"] >= 8
    may = {f"{there} {not there} False"}
    if (mx.cuda.libraries() or {}).get("cublasLt"):
        may.add("False True False")  # where rows are not aligned as its units want them
    assert set(told[:16]) <= may and told[16:] == ("False True True",) * 4, [*zip(told, errors)]


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float32])
def test_matrices_that_change_before_each_product(dtype):
    """Lines of a matrix that has long been there are read ahead; those of one that the batch changes are not."""
    kept, w = (mx.random.randint(-2, 3, (2048, 2048)).astype(dtype) for _ in range(2))
    v = mx.random.randint(-1, 2, (1, 2048)).astype(dtype)
    mx.eval(kept, w, v)
    mx.synchronize()
    before, by, here = np.array(w.astype(mx.float32)), np.array(v.astype(mx.float32)), []
    for _ in range(20):
        w = w + 1
        here.append((v @ w.T, v @ kept.T))
        mx.async_eval(w, here[-1])
    want = by @ np.array(kept.astype(mx.float32)).T
    for i, both in enumerate(here):
        got = [np.array(y.astype(mx.float32)) for y in both]
        assert np.allclose(got, [by @ (before + i + 1).T, want], rtol=2**-7, atol=1), i


def test_special_numbers():
    inf, nan = float("inf"), float("nan")
    a = mx.array([[inf, 1, 0], [nan, 0, 0], [-inf, inf, 1], [1, 2, 3]])
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        with mx.stream(mx.cpu):
            x, y = a.astype(dtype), a.T.astype(dtype)
            mx.eval(x, y)
        here = [wide(mx.matmul(x, y, stream=s)) for s in (mx.cpu, mx.gpu)]
        assert np.array_equal(*here, equal_nan=True)
