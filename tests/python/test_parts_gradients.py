"""Gradients of functions that read parts of an array one by one: sums of many small cotangents."""

import mlx.core as mx
import numpy as np
import pytest


def expected(shape, reads):
    """Of the sum of weight times part over reads: the weights, each added where its part was."""
    y = np.zeros(shape)
    for at, weight in reads:
        np.add.at(y, at, weight)
    return y


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.complex64])
@pytest.mark.parametrize(
    "parts",
    [
        [slice(k, k + 1) for k in range(12)],
        [slice(k, k + 3) for k in range(9)],
        [slice(None, None, -5), slice(3, 8), slice(3, 8), slice(10, 2, -3)],
        [slice(0, 9), slice(2, 11), slice(4, 5), slice(0, 12)],
        [3, 3, -1, 0],
    ],
    ids=["rows", "windows", "steps", "large", "numbers"],
)
def test_sums_of_parts(parts, dtype):
    rng = np.random.default_rng(len(parts))
    x = mx.zeros((12, 4), dtype=dtype)
    weights = [mx.array(rng.integers(-8, 8, np.zeros((12, 4))[p].shape)).astype(dtype) for p in parts]

    def f(x):
        return [x[p] for p in parts]

    _, (got,) = mx.vjp(f, [x], weights)
    assert got.dtype == dtype
    reads = [(p, np.array(w.astype(mx.float32))) for p, w in zip(parts, weights, strict=True)]
    np.testing.assert_array_equal(np.array(got.astype(mx.float32)), expected((12, 4), reads))


def test_a_loop_over_rows_and_columns():
    rng = np.random.default_rng(0)
    u, w = rng.standard_normal((40, 6)), rng.standard_normal(6)

    def loop(u, w):
        h = mx.zeros((6,))
        for t in range(40):
            h = mx.tanh(h * w + u[t] + u[:, 2][t] * u[t % 7, None, 3])
        return h.sum()

    def at(u, w):
        h = np.zeros(6)
        for t in range(40):
            h = np.tanh(h * w + u[t] + u[t, 2] * u[t % 7, 3])
        return h.sum()

    got = mx.grad(loop)(mx.array(u.astype(np.float32)), mx.array(w.astype(np.float32)))
    for i in ((0, 2), (3, 3), (39, 5), (6, 0), (38, 2)):
        d = np.zeros_like(u)
        d[i] = 1e-6
        assert abs((at(u + d, w) - at(u - d, w)) / 2e-6 - got[i].item()) < 1e-3


def test_second_derivatives_and_other_uses_of_a_sum():
    x = mx.array(np.arange(1.0, 9.0, dtype=np.float32))

    def f(x):
        return sum((x[k] ** 3) * x[(k + 1) % 8] for k in range(8)) + (x * x).sum()

    h = np.array(mx.vmap(lambda v: mx.jvp(mx.grad(f), [x], [v])[1][0])(mx.eye(8)))
    a = np.arange(1.0, 9.0)
    want = np.diag(6 * a * np.roll(a, -1) + 2)
    for k in range(8):
        want[k, (k + 1) % 8] += 3 * a[k] ** 2
        want[(k + 1) % 8, k] += 3 * a[k] ** 2
    np.testing.assert_allclose(h, want, rtol=1e-6)

    first, second = mx.grad(lambda x: (x[0] * 2 + x[1] * 3).sum())(x), mx.grad(lambda x: x[1:3].sum() + x[2])(x)
    assert (first + second).tolist() == [2, 4, 2, 0, 0, 0, 0, 0]
    assert first.tolist() == [2, 3, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("transform", [lambda g: g, mx.compile], ids=["eager", "compiled"])
def test_memory_of_a_loop_over_rows(transform):
    """The zeros that rows are put into are not there for each row."""
    u = mx.zeros((256, 4096))
    mx.eval(u)
    g = transform(mx.grad(lambda u: sum((u[t] * t).sum() for t in range(256))))
    mx.eval(g(u))
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(g(u))
    assert mx.get_peak_memory() - before < 4 * u.nbytes
