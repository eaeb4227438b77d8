"""Compiled functions that are small and element by element: one node for all of it, once its constants are there."""

import gc
import os
import subprocess
import sys
import threading

import mlx.core as mx
import numpy as np
import pytest

SIZES = [(1,), (64,), (3, 5), (4095,), (4097,)]  # the last is not small


def several(x, y):
    """Views between operations, a scalar of another type, a result used by another, one that is a view."""
    a = mx.tanh(x * 2 + y)
    b = a.reshape(-1) * mx.array(3, mx.int32)
    c = mx.where(b > 0, b, -b)
    return a, c, (a - y).astype(mx.float16), c[::2]


def sample(shape, seed):
    return mx.array(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_same_bits_as_without(shape):
    x, y = sample(shape, 0), sample(shape, 1)
    f = mx.compile(several)
    for _ in range(3):
        for got, expected in zip(f(x, y), several(x, y)):
            assert got.dtype == expected.dtype and got.shape == expected.shape
            assert np.array_equal(np.array(got), np.array(expected))
        x, y = y + 1, x


def test_against_numpy():
    x = np.random.default_rng(2).normal(size=100)
    f = mx.compile(lambda x: mx.exp(-mx.abs(x)) * x + 1)
    mx.eval(f(mx.zeros(100)))
    np.testing.assert_allclose(f(mx.array(x.astype(np.float32))), np.exp(-abs(x)) * x + 1, rtol=1e-6)


def test_operands_that_are_not_made_yet_and_lie_otherwise():
    f = mx.compile(lambda x, y: mx.sin(x) * y - x / (y * y + 1))
    x, y = sample((6, 4), 3), sample((4, 6), 4)
    plain = lambda x, y: mx.sin(x) * y - x / (y * y + 1)  # noqa: E731
    for a, b in ((x * 1, y.T), (x[::-1], y.T * 2), (f(x, y.T), x), (mx.broadcast_to(x[0], x.shape), x)):
        assert np.array_equal(np.array(f(a, b)), np.array(plain(a, b)))


def test_operands_keep_their_values_and_results_their_own():
    f = mx.compile(lambda x: (x * 2 + 1) * x)
    x = sample((50,), 5)
    before = np.array(x)
    first = f(x)
    mx.eval(first)
    kept = np.array(first)
    second = f(first)
    mx.eval(second)
    first_again = np.array(first)
    assert np.array_equal(np.array(x), before) and np.array_equal(first_again, kept)
    second += 1
    second = second * 2
    mx.eval(second)
    assert np.array_equal(np.array(f(x)), kept)


def test_one_of_several_results():
    f = mx.compile(several)
    x, y = sample((9,), 6), sample((9,), 7)
    mx.eval(f(x, y))
    only = f(x, y)[1]
    assert np.array_equal(np.array(only), np.array(several(x, y)[1]))


def test_nothing_else_is_evaluated():
    """Operands that a result does not need."""
    bad = mx.while_loop(lambda c: c < 3, lambda c: c + mx.linalg.inv(mx.zeros((2, 2)))[0, 0], mx.array(0.0))
    x = sample((9,), 7)
    unread = mx.compile(lambda x, y: (x * 2 + 1) * x)
    apart = mx.compile(lambda x, y: ((x * 2 + 1) * x, (y * 2 + 1) * y))
    for _ in range(3):
        assert np.array_equal(np.array(unread(x, bad)), np.array((x * 2 + 1) * x))
        assert np.array_equal(np.array(apart(x, bad)[0]), np.array((x * 2 + 1) * x))
    with pytest.raises(Exception, match="singular"):
        mx.eval(bad)


def test_transforms_go_through_it():
    def plain(x):
        return mx.tanh(x * x) * mx.exp(-x) + x

    f = mx.compile(plain)
    x = sample((7,), 8)
    mx.eval(f(x))
    assert np.array_equal(np.array(mx.grad(lambda x: f(x).sum())(x)), np.array(mx.grad(lambda x: plain(x).sum())(x)))
    assert np.array_equal(np.array(mx.vmap(f)(x)), np.array(plain(x)))
    for got, expected in zip(mx.jvp(f, [x], [x]), mx.jvp(plain, [x], [x])):
        assert np.array_equal(np.array(got[0]), np.array(expected[0]))
    assert np.array_equal(np.array(mx.compile(lambda x: f(f(x)))(x)), np.array(plain(plain(x))))
    body = lambda c, _: (f(c), f(c))  # noqa: E731
    assert np.array_equal(np.array(mx.scan(body, x, None, length=2)[0]), np.array(plain(plain(x))))


def test_files_have_its_operations(tmp_path):
    f = mx.compile(lambda x: (x * 2 + 1) * x)
    x = sample((5,), 9)
    mx.eval(f(x))
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, lambda x: f(x) + f(x * 2), x)
    assert "Multiply" in mx.inspect_function(path)["traces"][0]["operations"]
    assert np.array_equal(np.array(mx.import_function(path)(x)[0]), np.array(f(x) + f(x * 2)))


def test_several_threads_at_once():
    f = mx.compile(lambda x, k: (x * k + 1) * x - mx.sin(x) * k)
    plain = lambda x, k: (x * k + 1) * x - mx.sin(x) * k  # noqa: E731
    x = sample((300,), 10)
    expected = [np.array(plain(x, mx.array(float(k)))) for k in range(4)]
    wrong = []

    def work(k):
        for _ in range(100):
            if not np.array_equal(np.array(f(x, mx.array(float(k)))), expected[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_on_another_stream():
    s = mx.new_stream(mx.cpu)
    f = mx.compile(lambda x: (x * 2 + 1) * x)
    x = sample((20,), 11)
    expected = np.array(f(x))
    with mx.stream(s):
        assert np.array_equal(np.array(f(x)), expected)
    assert np.array_equal(np.array(f(x)), expected)


def test_memory_is_let_go_of():
    x = sample((1000,), 12)
    f = mx.compile(lambda x: (x * 2 + 1) * x - mx.sin(x))
    mx.eval(f(x))
    gc.collect()
    before = mx.get_active_memory()
    for _ in range(10):
        mx.eval(f(x))
    gc.collect()
    assert mx.get_active_memory() <= before
    del f
    gc.collect()
    assert mx.get_active_memory() <= before


def test_a_placeholder_that_is_left_over_is_refused():
    left = []
    f = mx.compile(lambda x: (x * 2 + 1) * x)
    mx.vmap(lambda x: left.append(x) or x)(sample((3,), 13))
    with pytest.raises(ValueError, match="placeholder"):
        mx.eval(f(left[0]))


def test_a_graph_shows_one_operation(tmp_path):
    f = mx.compile(lambda x: (x * 2 + 1) * x)
    path = tmp_path / "graph.dot"
    with mx.stream(mx.cpu):
        mx.eval(f(mx.zeros(5)))  # a first call makes the constants
        mx.export_to_dot(str(path), f(sample((5,), 14)))
    assert "Compiled" in path.read_text()
    path = tmp_path / "large.dot"
    with mx.stream(mx.cpu):
        mx.eval(f(mx.zeros(5000)))
        mx.export_to_dot(str(path), f(sample((5000,), 14)))
    assert "Compiled" not in path.read_text() and "Multiply" in path.read_text()


def test_checks_look_at_what_is_asked_for():
    code = """
import mlx.core as mx
f = mx.compile(lambda x: (mx.exp(x * 2) + 1, mx.log(x - 5) * 2))
mx.eval(f(mx.full((3,), 9.0)))
for _ in range(2):
    mx.eval(f(mx.ones(3))[0])
try:
    mx.eval(f(mx.ones(3))[1])
except Exception as e:
    print(e)
"""
    env = {**os.environ, "MLX_CHECK": "nan"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert "log" in done.stdout and "NaN" in done.stdout, done.stderr
