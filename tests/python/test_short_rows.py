"""Extremes, their places, products and sums of rows of any length, above all of short ones, which are taken side by
side."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

LENGTHS = [*range(1, 36), 63, 64, 65, 127, 200, 1000, 70_000]


def rows_of(dtype, rows, n):
    """Small numbers, so that there are equal ones, both zeros and some that are none."""
    rng = np.random.default_rng(n)
    x = rng.integers(-3, 4, (rows, n)).astype(np.float64) * rng.choice([-1.0, 1.0], (rows, n))
    x[::2] = np.where(rng.random(x[::2].shape) < 0.05, np.nan, x[::2])
    x[::3] = np.where(rng.random(x[::3].shape) < 0.05, np.inf, x[::3])
    return x, mx.array(x.tolist(), dtype)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("rows", [1, 5, 16, 39])
def test_extremes_and_their_places(dtype, rows):
    with mx.stream(mx.cpu):
        for n in LENGTHS[:-1] if rows > 1 else LENGTHS:
            x, a = rows_of(dtype, rows, n)
            for name in ("argmax", "argmin"):
                assert np.array_equal(np.array(getattr(mx, name)(a, -1)), getattr(np, name)(x, -1)), (name, n)
            for name in ("max", "min"):
                got = np.array(getattr(mx, name)(a, -1).astype(mx.float32))
                assert np.array_equal(got, getattr(np, name)(x, -1), equal_nan=True), (name, n)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64], ids=str)
@pytest.mark.parametrize("rows", [1, 5, 16, 39])
def test_products(dtype, rows):
    x = np.random.default_rng(0).uniform(0.5, 1.5, (rows, 64)).astype(np.float32).astype(np.float64)
    with mx.stream(mx.cpu):
        for n in range(1, 65):
            a = mx.array(x[:, :n].tolist(), dtype)
            np.testing.assert_allclose(
                np.array(a.prod(-1)), x[:, :n].prod(-1), rtol=2e-7 * (dtype == mx.float32) + 2e-14
            )
            strided = mx.array(x.tolist(), dtype)[:, :n]
            assert mx.array_equal(strided.prod(-1), a.prod(-1)).item(), n
            assert mx.array_equal(strided.max(-1), a.max(-1)).item(), n


FLOATS = [mx.float32, mx.float64, mx.float16, mx.bfloat16]
EPS = {mx.float32: 2**-24, mx.float64: 2**-53, mx.float16: 2**-11, mx.bfloat16: 2**-8}
# Enough elements to be fused, and rows of all kinds: shorter than a register, of some, a tile and more.
SHAPES = [(4200, 1), (1300, 5), (600, 8), (401, 13), (90, 64), (70, 65), (9, 1000), (5, 1024), (5, 1025), (1, 70_000)]


def numbers(dtype, shape, seed, rare=()):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, shape)
    for value in rare:
        x = np.where(rng.random(shape) < 0.3 / max(shape[-1], 1), value, x)
    return mx.array(x.tolist(), dtype).reshape(shape)


def in_double(x):
    return np.array(x.astype(mx.float64))


# What a sum can read instead of the products: numbers in memory, kept, made for it; and what it cannot.
PRODUCTS = {
    "square": lambda a, b: mx.square(a),
    "product": lambda a, b: a * b,
    "square of what is made": lambda a, b: mx.square(a - b),
    "made and in memory": lambda a, b: (a - b) * b,
    "two that are made": lambda a, b: (a - b) * (a + b),
    "of other strides": lambda a, b: mx.square(a[:, ::-1]),
    "one a row": lambda a, b: a * b[:, :1],
    "a number": lambda a, b: a * 3,
    "a constant": lambda a, b: mx.square(mx.broadcast_to(b[:1, :1], a.shape) + 1),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_sums_of_products_are_those_of_the_products(dtype, name):
    of = PRODUCTS[name]
    with mx.stream(mx.cpu):
        for shape in [*SHAPES, (0, 8), (4200, 0)]:
            if name in ("one a row", "a constant") and 0 in shape:
                continue
            for rare in ((), (np.inf, np.nan, 300.0 if dtype == mx.float16 else 1e30)):  # whose squares overflow
                a, b = (numbers(dtype, shape, seed, rare) for seed in (1, 2))
                alone = of(a, b)
                mx.eval(alone)
                want = alone.sum(-1)
                got = of(a, b).sum(-1)
                assert mx.array_equal(got, want, equal_nan=True).item(), shape
                with np.errstate(invalid="ignore", over="ignore"):
                    exact, size = (f(in_double(alone)).sum(-1) for f in (np.positive, np.abs))
                    near = in_double(got)
                    fine = np.abs(near - exact) <= 20 * EPS[dtype] * size
                fine |= (near == exact) | (np.isnan(near) & np.isnan(exact))
                fine |= size > (65504 if dtype == mx.float16 else 3e38)  # sums that may be infinite
                assert fine.all(), shape


def test_what_a_sum_of_products_reads_may_be_kept():
    with mx.stream(mx.cpu):
        a, b = (numbers(mx.float32, (90, 64), seed) for seed in (1, 2))
        d, x, y = in_double(a) - in_double(b), in_double(a), in_double(b)
        made = a - b
        both = mx.square(made).sum(-1)
        mx.eval(made, both)
        np.testing.assert_allclose(in_double(made), d, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(in_double(both), (d * d).sum(-1), rtol=1e-5)
        product = a * b  # read by a second operation, and by nobody else
        more = product + 1
        total = product.sum(-1)
        del product
        mx.eval(more, total)
        np.testing.assert_allclose(in_double(total), (x * y).sum(-1), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(in_double(more), x * y + 1, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(in_double(mx.square(a).sum(0)), (x * x).sum(0), rtol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_rows_of_many_are_what_they_are_alone(dtype):
    """However many are taken at once, which depends on how threads share them."""
    with mx.stream(mx.cpu):
        for n in LENGTHS[:-1]:
            x = numbers(dtype, (39, n), n, (np.nan, -np.inf))
            for f in (mx.sum, mx.prod, mx.min, mx.max, mx.argmin, mx.argmax, mx.var, mx.logsumexp, mx.softmax,
                      nn.log_softmax, mx.linalg.norm):  # fmt: skip
                many = f(x, axis=-1)
                for i in (0, 1, 5, 36, 38):
                    assert mx.array_equal(many[i], f(x[i : i + 1], axis=-1)[0], equal_nan=True).item(), (f, n, i)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("rows", [1, 5, 39])
def test_sums_of_exponentials(dtype, rows):
    with mx.stream(mx.cpu):
        for n in LENGTHS[:-1]:
            for rare in ((), (-np.inf, np.inf, np.nan, -100.0, 1e4)):
                a = numbers(dtype, (rows, n), n, rare)
                x = in_double(a)
                most = x.max(-1, keepdims=True)
                with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                    shifted = x - np.where(np.isfinite(most), most, 0)
                    log = np.log(np.exp(shifted).sum(-1, keepdims=True))
                    want = np.where(np.isinf(most), most, most + log)
                    logs = np.where(np.isfinite(most), shifted - log, np.nan)
                rtol, atol = 4 * EPS[dtype], 8 * EPS[dtype]
                np.testing.assert_allclose(in_double(mx.logsumexp(a, -1)), want[:, 0], rtol=rtol, atol=atol)
                np.testing.assert_allclose(in_double(nn.log_softmax(a)), logs, rtol=2 * rtol, atol=atol)
                np.testing.assert_allclose(in_double(mx.softmax(a, -1)), np.exp(logs), rtol=32 * rtol, atol=atol)


LONG = {
    "up": lambda x: x,
    "down": lambda x: x[::-1],
    "nothing first": lambda x: np.where(np.arange(x.size) < 2500, -np.inf, x),
    "nothing last": lambda x: np.where(np.arange(x.size) < 2500, x, -np.inf),
    "nothing": lambda x: np.full_like(x, -np.inf),
    "infinite": lambda x: np.where(np.arange(x.size) == 3000, np.inf, x),
    "NaN after infinity": lambda x: np.where(np.arange(x.size) == 3000, np.inf, np.where(x > 250, np.nan, x)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("n", [5001, 20001])
def test_sums_of_exponentials_of_long_rows(dtype, name, n):
    """Whose largest is found on the way."""
    with mx.stream(mx.cpu):
        a = mx.array(LONG[name](np.linspace(-300, 300, n)).tolist(), dtype)
        x = in_double(a)
        with np.errstate(invalid="ignore"):
            want = x.max() + np.log(np.exp(x - x.max()).sum()) if np.isfinite(x.max()) else x.max()
            logs = x - want if np.isfinite(want) else np.full_like(x, np.nan)
        rtol, atol = 8 * EPS[dtype], 8 * EPS[dtype]
        np.testing.assert_allclose(in_double(mx.logsumexp(a)), want, rtol=rtol)
        np.testing.assert_allclose(in_double(nn.log_softmax(a)), logs, rtol=rtol, atol=300 * atol)
        np.testing.assert_allclose(in_double(mx.softmax(a)), np.exp(logs), rtol=300 * rtol, atol=atol)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_extremes_of_columns(dtype):
    with mx.stream(mx.cpu):
        for columns in (2, 7, 16, 17, 40, 600):
            for rows in [*range(2, 11), 33, 70]:
                a = numbers(dtype, (columns, rows), rows, (np.nan, np.inf, -np.inf)).T
                a = mx.contiguous(a)
                x = in_double(a)
                for name in ("max", "min"):
                    got = in_double(getattr(mx, name)(a, 0))
                    assert np.array_equal(got, getattr(np, name)(x, 0), equal_nan=True), (name, rows, columns)
