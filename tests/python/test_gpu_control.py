"""Loops and branches on a GPU, whose bodies run there, beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_gpu_reductions import close

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]


def numbers(*shape, seed=0):
    with mx.stream(mx.cpu):
        x = mx.array(np.random.default_rng(seed).uniform(-1, 1, shape), mx.float64).astype(mx.float32)
        mx.eval(x)
    return x


def simple(c, x):
    return mx.tanh(c * x + 0.5), c - x


def in_parts(c, x):
    """More operands than a kernel of element-wise operations has, and one that several of its parts read."""
    y, many = c + x, 0
    for i in range(40):
        many = many + mx.sin(y * (i + 1)) * numbers(c.size, seed=i)
    return mx.tanh(many + y), y * many


def integers(c, x):
    n = (x * 100).astype(mx.int8)
    return c + (n + n // 3).astype(mx.float32) / 100, n * n - (n % 7) * n


def half(c, x):
    h = c.astype(mx.bfloat16) * x
    return mx.maximum(h, 0).astype(mx.float32), h


def reduced(c, x):
    return mx.softmax(c * x) + c.mean(), (c @ x, c.max())


def updated(c, x):
    i = mx.argmax(c)
    c[i] = x[0]
    return mx.concatenate([c[1:], c[:1]]), mx.sort(c)[i]


BODIES = [simple, in_parts, integers, half, reduced, updated]


@pytest.mark.parametrize("n", [1, 5, 9000])
@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_scan(body, n):
    if n > 1000 and body is in_parts:
        n = 600
    c, x = numbers(n), numbers(4, n, seed=1)
    for reverse in (False, True):
        close(lambda c, x: mx.scan(body, c, x, reverse=reverse)[0], c, x)  # noqa: B023
    close(lambda c, x: first(mx.scan(body, c, x)[1]), c, x)


def first(tree):
    return tree if isinstance(tree, mx.array) else first(tree[0])


def test_derivatives_and_batches():
    c, x = numbers(6), numbers(5, 6, seed=1)
    close(mx.grad(lambda c, x: mx.scan(simple, c, x)[0].sum(), 1), c, x)
    close(lambda x: mx.vmap(lambda r: mx.scan(simple, c, x * r)[0])(c), x)


def test_random_numbers_of_a_step():
    keys = mx.random.split(mx.random.key(3), 4)
    close(lambda k: mx.scan(lambda c, k: (c + mx.random.normal((2000,), key=k) * 2, c[0]), mx.zeros(2000), k)[0], keys)


def halve(x):
    return mx.while_loop(lambda x: (mx.abs(x) > 0.01).any(), lambda x: mx.where(mx.abs(x) > 0.01, x / 2, x), x)


def until_first(x):
    """The condition is a part of a larger array."""
    return mx.while_loop(lambda x: (x < 3)[0], lambda x: x + mx.abs(mx.cos(x)) + 0.1, x)


@pytest.mark.parametrize("loop", [halve, until_first])
@pytest.mark.parametrize("n", [1, 7, 9000])
def test_while_loop(loop, n):
    close(loop, numbers(n))


@pytest.mark.parametrize("yes", [True, False])
def test_cond(yes):
    close(lambda x: mx.cond((x[0] > -2) if yes else (x[0] > 2), lambda x: mx.sort(x) * 2, lambda x: x - x.sum(), x),
          numbers(300))  # fmt: skip
