"""Element-wise operations run as one on a GPU, beside the same on the CPU; skipped where there is none."""

import random

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_gpu import BINARY, FLOATS, INTEGERS, LAYOUTS, OWN_OF_HALVES, UNARY, operands, same

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
DTYPES = [*FLOATS, *INTEGERS, mx.bool_, mx.complex64]


def bound(x):
    """Copied, so that nothing is fused with what is before."""
    with mx.stream(mx.cpu):
        x = mx.contiguous(x)
        mx.eval(x)
    return x


# Threads have few elements where there are not more than this, which follows from the device.
MANY = 9000 if mx.is_available(mx.gpu) and mx.device_info(mx.gpu)["device_name"] == "emulated" else 300_000

# Those of the kernel for groups, and some that run one by one.
COMPUTED = [mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.uint32, mx.bool_, mx.int8, mx.float64, mx.complex64]


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_unary(dtype):
    x, y = bound(operands(dtype, 1001, 1)), bound(operands(dtype, MANY + 100, 2))
    for name, f in UNARY.items():
        same(lambda x: f(-x if dtype != mx.bool_ else x & x), x, own=[name])  # noqa: B023
        same(lambda y: mx.where(y > y[3], f(y), f(y)), y, own=[name])  # noqa: B023


@pytest.mark.parametrize("size", [2040, MANY])
@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
def test_binary(dtype, size):
    x = bound(operands(dtype, size, 1))
    y = bound(x[::-1])
    for name, f in BINARY.items():
        if name == "power" and dtype in (mx.float64, mx.complex64):
            continue  # the platform's
        same(lambda x, y: f(mx.maximum(x, y), y), x, y, own=[name])  # noqa: B023
        same(lambda x: f(x[5], mx.abs(x)) == f(mx.abs(x), x[5]), x)  # noqa: B023


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_casts(dtype):
    for size in (1100, MANY + 100):
        casts(bound(operands(dtype, size, 3)), dtype)


def casts(x, dtype):
    for to in DTYPES:
        if dtype != mx.bool_:
            same(lambda x: (x + x).astype(to), x)  # noqa: B023
        same(lambda x: mx.where(x.astype(to) != 0, x.astype(to), x[0].astype(to)), x)  # noqa: B023


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_all_numbers_of_half_types(dtype):
    """Sums, differences and products of two at once, between and beside what is computed as float32."""
    r = np.random.default_rng(1)
    x, y = (bound(mx.view(mx.array(r.permutation(2**16).astype(np.uint16)), dtype)) for _ in range(2))
    for f in (mx.add, mx.subtract, mx.multiply):
        same(lambda x, y: f(f(x, y), x), x, y)  # noqa: B023
        same(lambda x, y: f(f(x[3], f(x, y[5])), f(y, x)), x, y)  # noqa: B023
        same(lambda x, y: mx.abs(f(mx.maximum(x, y), y)) * f(x, x), x, y)  # noqa: B023
        same(lambda x, y: f(y, mx.where(x > y, f(x, x[1]), f(y[2], y))).astype(mx.float32) + x, x, y)  # noqa: B023
        same(lambda x, y: f(x[:9], f(y[:9], x[:9])), x, y)  # noqa: B023


GELU = {
    "gelu": nn.gelu,
    "gelu_approx": nn.gelu_approx,
    "silu": nn.silu,
    "softplus": nn.softplus,
    "mish": nn.mish,
    "hardswish": nn.hardswish,
}


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("name", GELU)
def test_activations(name, dtype):
    for n in (1, 5, 2038, 2039, 4096, 6134, MANY + 6):
        x = bound(operands(dtype, n, 2)[:n])
        same(mx.compile(GELU[name]), x, own=OWN_OF_HALVES.split())
        y = bound(mx.clip(mx.nan_to_num(x), -9, 9))
        same(mx.grad(lambda x: GELU[name](x).astype(mx.float32).sum()), y, own=OWN_OF_HALVES.split())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.uint8, mx.int32, mx.bool_], ids=str)
def test_layouts(layout, dtype):
    x = bound(operands(mx.float32, 502, 3)[:512].reshape(16, 32).astype(dtype))
    y = bound(operands(mx.float32, 502, 4)[:512].reshape(16, 32).astype(dtype))
    view = LAYOUTS[layout]
    same(lambda a, b: mx.where(view(a) == view(b), view(a), view(b)) != view(b), x, y)
    same(lambda a, b: mx.maximum(mx.where(view(a) != 0, view(a), b[3, 3]), view(b)), x, y)
    same(lambda a, b: mx.minimum(mx.maximum(view(a), b.reshape(-1)[:1]), view(b)), x, y)


@pytest.mark.parametrize("rows", [29, MANY // 50 + 7])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.uint8, mx.bool_], ids=str)
def test_rows_and_columns(dtype, rows):
    """Of sizes that are multiples of what threads have side by side or not, beside float32 and alone."""
    x, row, column = (bound(operands(mx.float32, n - 10, n).astype(dtype)) for n in (rows * 56, 56, rows + 10))
    x, column = x.reshape(rows, 56), column[:rows]
    for width in (56, 52, 51):
        a, b, c = x[:, :width], row[:width], column[:, None]
        same(lambda a, b, c: mx.maximum(mx.where(a > b, a, c), b) == c, a, b, c)
        same(lambda a, b, c: mx.minimum(mx.where(b[:, None] != a.T, c.T, a.T), b[:, None]), a, b, c)
        if dtype != mx.bool_:
            same(lambda a, b, c: (a * b + c) * b - mx.square(c), a, b, c)
            same(lambda a, b, c: (a.T + c.T) * b[:, None] - c.T, a, b, c)
            same(lambda a, b, c: a * b + c.astype(mx.float32), a, b, c)
            same(lambda a, b: a[1:, :-4] + b[4:] - b[4:] * a[:-1, 4:], a, b)


@pytest.mark.parametrize("size", [5000, MANY])
def test_what_is_held_comes_out(size):
    x = bound(operands(mx.float32, size, 1))
    with mx.stream(mx.gpu):
        a = x + 1
        b = a * 2
        c = b - a
        mx.eval(c)
        del c
        mx.eval(a, b)
        got = np.array(a), np.array(b)
    want = np.array(x) + np.float32(1)
    assert np.array_equal(got[0], want, equal_nan=True)
    assert np.array_equal(got[1], want * np.float32(2), equal_nan=True)


def test_loops():
    x = bound(operands(mx.float32, 5000, 1))

    def body(c, i):
        y = mx.sin(c) * 0.5 + c
        return y, y.astype(mx.float16) * i.astype(mx.float16)

    same(lambda x: mx.scan(body, x, mx.arange(5.0))[0], x)
    same(lambda x: mx.scan(body, x, mx.arange(5.0))[1], x)
    y = bound(x.astype(mx.int64))
    same(lambda y: mx.scan(lambda c, i: (c * 3 + y, c - y), y, mx.arange(4))[1], y)


@pytest.mark.parametrize("size", [4000, MANY])
def test_long_and_wide_groups(size):
    x = bound(operands(mx.float32, size, 1))

    def chain(x):
        for i in range(100):
            x = x * 0.5 + float(i)
        return x

    def tree(x):
        parts = [x + float(i) for i in range(40)]
        while len(parts) > 1:
            parts = [a * b if i % 2 else a - b for i, (a, b) in enumerate(zip(parts[::2], parts[1::2]))] + (
                [parts[-1]] if len(parts) % 2 else []
            )
        return parts[0]

    def many(x):
        rows = [bound(x[i : i + 100]) for i in range(40)]
        y = rows[0]
        for r in rows[1:]:
            y = mx.maximum(y + r, r)
        return y

    for f in (chain, tree, many):
        same(f, x)
        same(mx.compile(f), x) if f is not many else None


@pytest.mark.parametrize("seed", range(30))
def test_programs_of_any_kind(seed):
    """Random graphs of operations on several types, some results held."""
    r = random.Random(seed)
    n = r.choice([7, 300, 2048, MANY + 1])
    inputs = [bound(operands(t, n, seed)[:n]) for t in (mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.uint32)]
    inputs += [bound(operands(mx.bool_, n, seed)[:n]), bound(operands(mx.uint8, n, seed)[:n])]
    if seed % 5 == 0:
        inputs.append(bound(operands(mx.int64, n, seed)[:n]))
    plan = [(r.random(), r.randrange(99), r.randrange(99), r.randrange(99), r.choice(DTYPES)) for _ in range(25)]

    def program(*x):
        v = list(x)
        for kind, i, j, k, t in plan:
            a, b, c = v[i % len(v)], v[j % len(v)], v[k % len(v)]
            if kind < 0.2 and t not in (mx.complex64, mx.float64):
                y = a.astype(t)
            elif kind < 0.4:
                y = mx.where(a > b, b, c)
            elif kind < 0.7:
                y = [mx.add, mx.multiply, mx.subtract, mx.maximum][k % 4](a, b) if a.dtype != mx.bool_ else a & (b > c)
            else:
                f = [mx.abs, mx.sign, mx.square, mx.logical_not, mx.sigmoid, mx.floor][k % 6]
                y = mx.negative(a) if f is mx.sigmoid and a.dtype in (mx.float16, mx.bfloat16) else f(a)
            v.append(y)
        return v[len(x) :]

    for k in range(0, 25, 6):
        same(lambda *x: program(*x)[24 - k], *inputs)  # noqa: B023
    with mx.stream(mx.cpu):
        there = program(*inputs)
        mx.eval(there)
    with mx.stream(mx.gpu):
        here = program(*inputs)
        mx.eval(here)
    for a, b in zip(here, there):
        same(lambda: a if mx.default_device() == mx.Device(mx.gpu, 0) else b)  # noqa: B023


@pytest.mark.parametrize("dtype", [mx.uint8, mx.int8, mx.bool_, mx.float16, mx.float32], ids=str)
def test_rows_that_begin_anywhere(dtype):
    """Neighbours whose first is no multiple of what is read at once."""
    x = (mx.arange(4097) % 3).astype(dtype)
    y = mx.arange(4096.0)
    mx.eval(x, y)
    same(lambda x, y: x[1:].astype(mx.float32) * 2 + y, x, y)
    same(lambda x, y: mx.broadcast_to(x[1:65], (64, 64)).astype(mx.float32) * 2 + y.reshape(64, 64), x, y)
    same(lambda x, y: x[1:].reshape(64, 64)[:, 3:].astype(mx.float32) * 2 + y.reshape(64, 64)[:, 3:], x, y)


def grows_by(f, x):
    """How much more memory there is at most, in arrays, while f of the arrays in the list is computed, which only the
    list has, and loses."""
    mx.eval(x)
    mx.synchronize()
    n = x[0].nbytes
    y = f(*x)
    x.clear()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(y)
    mx.synchronize()
    return round(max(0, mx.get_peak_memory() - before) / n, 2), y  # the peak is 0 until something is asked for


N = 1 << 18


@pytest.mark.parametrize(
    "f, grown",
    [
        (lambda x: mx.exp(x), 0),
        (lambda x: mx.sin(x) * 2 + 1, 0),
        (lambda x: (mx.sin(x) * 2, mx.cos(x) + 1), 1),
        (lambda x: (x * 3).astype(mx.float16), 0.5),
        (lambda x: x.reshape(512, 512) - mx.arange(512.0), 0),
        (lambda x: x + x[::-1], 1),
        (lambda x: (x.reshape(512, 512) * 2 + x.reshape(512, 512).T).reshape(-1), 1),
    ],
    ids=["one", "group", "two results", "smaller", "row of a broadcast", "backwards", "turned"],
)
def test_results_are_in_the_memory_of_operands(f, grown):
    """Which nobody will look at again, and are read at the same places alone."""
    with mx.stream(mx.gpu):
        more, y = grows_by(f, [mx.arange(N, dtype=mx.float32)])
    assert grown <= more <= grown + 0.05
    with mx.stream(mx.cpu):
        want = f(mx.arange(N, dtype=mx.float32))
    for u, v in zip(y if isinstance(y, tuple) else [y], want if isinstance(want, tuple) else [want]):
        assert mx.allclose(u, v, rtol=1e-3, atol=1e-4, stream=mx.cpu)


def test_operands_that_somebody_has_stay():
    with mx.stream(mx.gpu):
        x, z = mx.arange(N, dtype=mx.float32), mx.zeros(N)
        part = x[1 : N // 2]
        mx.eval(x, z, part)
        del x
        y = mx.sin(z) * 2 + 1
        w = part * 2
        mx.eval(y, w)
        assert mx.all(z == 0).item() and part[0].item() == 1 and w[0].item() == 2
        again = mx.compile(lambda a: mx.sin(a) * 2 + 1)
        assert again(z)[0].item() == again(z)[5].item() == 1 and mx.all(z == 0).item()


def test_what_is_kept_from_step_to_step_stays_where_it_is():
    """A moment, a second one and the weights, as of an optimizer: they need no more memory, and no other."""
    with mx.stream(mx.gpu):
        g = mx.ones(N) * 4
        mx.eval(g)

        def step(p, m, v, g):
            m, v = m * 0.9 + g * 0.1, v * 0.99 + mx.square(g) * 0.01
            return p * 0.999 - m / (mx.sqrt(v) + 1e-8), m, v

        more, (p, m, v) = grows_by(lambda *x: step(*x, g), [mx.ones(N) * i for i in (1, 2, 3)])
        assert more <= 0.05
        assert mx.allclose(m, mx.array(2.2)) and mx.allclose(v, mx.array(3 * 0.99 + 0.16))
