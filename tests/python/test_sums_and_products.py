"""Sums, products and quotients that the CPU computes two or three in a pass: as NumPy does one after the other."""

import itertools
import operator

import mlx.core as mx
import numpy as np
import pytest

NAMES = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "first": lambda a, b: a}
OUTER, INNER = "+-*/", ["first", "+", "-", "*", "/"]
SIZE = 5003  # fused, and no multiple of anything


def operands(seed):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(SIZE) * 2.0 ** rng.integers(-20, 20, SIZE)).astype(np.float32) for _ in range(4)]


def on_cpu(fun, *args):
    with mx.stream(mx.cpu):
        x = [mx.array(a, dtype=getattr(mx, a.dtype.name)) for a in args]
        return [np.array(y) for y in mx.compile(fun)(*x)]


def agree(fun, *args):
    for y, truth in zip(on_cpu(fun, *args), fun(*args), strict=True):
        assert y.dtype == truth.dtype == np.float32
        np.testing.assert_array_equal(y, truth)


@pytest.mark.parametrize("op", OUTER)
def test_every_pair(op):
    x = operands(1)
    for left, right in itertools.product(INNER, INNER):
        agree(lambda a, b, c, d: [NAMES[op](NAMES[left](a, b), NAMES[right](c, d))], *x)  # noqa: B023


@pytest.mark.parametrize("op", OUTER)
def test_numbers_among_them(op):
    x, two = operands(2), 1.7
    f = NAMES[op]
    agree(lambda a, b: [f(a * two, b + two), f(two - a, b), f(two, a * b), f(a + b, two)], *x[:2])
    agree(lambda a, b: [f(a - b, 4.0), f(a * b, 0.25)], *x[:2])


def test_one_operand_more_than_once():
    x = operands(3)
    agree(lambda a, b: [(a - b) * (a - b), (a + a) * (a + a), (a * b) / (a * b), a * a - a], *x[:2])
    agree(lambda a, b: [((a - b) + b) * ((a - b) - a)], *x[:2])

    def squares(a, b):
        square = np.square if isinstance(a, np.ndarray) else mx.square
        return [square(a - b), square(a) - square(b), b + square(a + b)]

    agree(squares, *x[:2])


def test_results_and_what_they_are_made_of():
    """What is asked for itself is not computed within another; what many read is computed once."""
    x = operands(4)

    def fun(a, b, c, d):
        p, q = a * b, c + d
        return [p, p + q, (p - q) * (p + c), ((a - d) * (b - c)) * ((a - d) + b)]

    agree(fun, *x)


def test_over_operands():
    """Written over an operand that is read by a later step."""
    a, b, c, d = operands(5)
    truth_m = a * np.float32(0.9) + b * np.float32(0.1)
    truth = c - (truth_m * np.float32(0.3)) / (np.sqrt(d * d) + np.float32(1e-3))
    with mx.stream(mx.cpu):
        state = [mx.array(x) for x in (a, c)]

        def step(g, v):
            state[0] = state[0] * 0.9 + g * 0.1
            state[1] = state[1] - (state[0] * 0.3) / (mx.sqrt(v * v) + 1e-3)

        compiled = mx.compile(step, inputs=state, outputs=state)
        compiled(mx.array(b), mx.array(d))
        mx.eval(state)
        np.testing.assert_array_equal(np.array(state[0]), truth_m)
        np.testing.assert_array_equal(np.array(state[1]), truth)


@pytest.mark.parametrize("first", [True, False])
def test_no_result_over_what_is_read_later(first):
    """The root, which is asked for, must not take the memory of what the product reads."""
    a, b, c, _ = operands(9)
    with mx.stream(mx.cpu):
        x, y, z = (mx.array(v) * 1 for v in (a, b, c))  # memory of their own
        mx.eval(x, y, z)
        product, root = x * y, mx.exp(-mx.abs(z))
        total = product + root if first else root + product
        del x, y, z, product
        mx.eval(total, root)
    np.testing.assert_array_equal(np.array(total), a * b + np.array(root))


def test_other_strides():
    a, b, c, d = (x[:4900].reshape(70, 70) for x in operands(6))
    agree(lambda a, b, c, d: [(a.T * b) + (c * d[0]), (a[:, :1] - b) * c.T, (a - b[3]) / (c[:, 1:2] + d)], a, b, c, d)


def test_sums_of_trees():
    """Sums over what trees make."""
    a, b, c, _ = operands(7)
    with mx.stream(mx.cpu):
        y = mx.compile(lambda a, b, c: mx.sum((a * b + c) * (a - b)))(*map(mx.array, (a, b, c)))
    truth = ((a * b + c) * (a - b)).astype(np.float64).sum()
    size = np.abs(((a * b + c) * (a - b)).astype(np.float64)).sum()
    assert abs(float(y) - truth) <= 1e-6 * size


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_other_types(dtype):
    a, b, c, d = (np.clip(x, -30, 30).astype(dtype) for x in operands(8))
    (y,) = on_cpu(lambda a, b, c, d: [(a * b + c) - (d - a) * c], a, b, c, d)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, (a * b + c) - (d - a) * c)


def step_by_step(x):
    """gelu and others like it, as operations that nothing joins."""

    def kept(y):
        mx.eval(y)
        return y

    scaled = kept(x * 0.7)
    erf = kept(mx.erf(scaled))
    sum = kept(1 + erf)
    product = kept(x * sum)
    return [kept(product / 2), kept(product * 0.3), kept(product / 3), scaled, erf, sum, product]


def test_gelu():
    x = np.concatenate([operands(10)[0], np.array([0, -0.0, np.inf, -np.inf, np.nan], np.float32)])
    x[::3] = np.linspace(-5, 5, x[::3].size)
    with mx.stream(mx.cpu):
        for a in (mx.array(x), mx.array(np.stack([x, x], 1))[:, 0], mx.array(x[:5000].reshape(50, 100)).T):
            halved, by_tenths, by_three, *made = (np.array(y) for y in step_by_step(a))
            for f, truth in (
                (lambda x: [x * (1 + mx.erf(x * 0.7)) / 2], [halved]),
                (lambda x: [(mx.erf(0.7 * x) + 1) * x * 0.5], [halved]),
                (lambda x: [0.3 * (x * (1 + mx.erf(x * 0.7)))], [by_tenths]),
                (lambda x: [x * (1 + mx.erf(x * 0.7)) / 3], [by_three]),
                (lambda x: (lambda e: [x * (1 + e) / 2, e])(mx.erf(x * 0.7)), [halved, made[1]]),
                (lambda x: (lambda s: [x * (1 + mx.erf(s)) / 2, s])(x * 0.7), [halved, made[0]]),
                (lambda x: (lambda p: [p / 2, p / 3, p])(x * (1 + mx.erf(x * 0.7))), [halved, by_three, made[3]]),
                (lambda x: [x + x * (1 + mx.erf(x * 0.7)) / 2 * x], [np.array(a) + halved * np.array(a)]),
            ):
                for y, z in zip(mx.compile(f)(a), truth, strict=True):
                    np.testing.assert_array_equal(np.array(y), z)
