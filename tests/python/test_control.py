"""Loops and branches as operations: values, derivatives, batches, what they cost, and what goes wrong."""

import collections
import contextlib
import dataclasses
import functools
import gc
import os
import signal
import subprocess
import sys
import threading

import compare
import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import register_dataclass, register_tree_node, tree_flatten

RNG = np.random.default_rng(7)


def real(*shape):
    return mx.array(RNG.uniform(-1, 1, shape), dtype=mx.float64)


def numbers(tree):
    if isinstance(tree, mx.array):
        return np.array(tree)
    if isinstance(tree, (list, tuple)):
        return [numbers(t) for t in tree]
    if isinstance(tree, dict):
        return {k: numbers(v) for k, v in tree.items()}
    return tree


def same(got, want, **tolerance):
    got, want = tree_flatten(got), tree_flatten(want)
    assert [k for k, _ in got] == [k for k, _ in want]
    for (_, a), (_, b) in zip(got, want):
        if isinstance(a, mx.array) or isinstance(b, mx.array):
            assert mx.array(a).dtype == mx.array(b).dtype and mx.array(a).shape == mx.array(b).shape
            np.testing.assert_allclose(np.array(a), np.array(b), **(tolerance or {"rtol": 1e-12, "atol": 1e-12}))
        else:
            assert a == b


def python_scan(f, init, xs, length=None, reverse=False):
    """What scan does, one call after the other."""
    steps = range(length if length is not None else len(tree_flatten(xs)[0][1]))
    carry, ys = init, []
    for t in reversed(steps) if reverse else steps:
        carry, y = f(carry, at(xs, t))
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    return carry, stack(ys)


def at(tree, t):
    if isinstance(tree, mx.array):
        return tree[t]
    if isinstance(tree, dict):
        return {k: at(v, t) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(at(v, t) for v in tree)
    return tree


def stack(ys):
    if isinstance(ys[0], mx.array):
        return mx.stack(ys)
    if isinstance(ys[0], dict):
        return {k: stack([y[k] for y in ys]) for k in ys[0]}
    if isinstance(ys[0], (list, tuple)):
        return type(ys[0])(stack([y[k] for y in ys]) for k in range(len(ys[0])))
    return ys[0]


# ---------------------------------------------------------------- steps to try

W = real(3, 3)


def plain(carry, x):
    return carry * 0.5 + x, carry - x


def rnn(carry, x):
    h = mx.tanh(carry["h"] @ W + x["in"])
    return {"h": h, "n": carry["n"] + 1}, (h * x["gate"][..., None], mx.sin(carry["h"]).sum())


def swap(carry, x):
    a, b, n = carry
    return (b, a * b + x, n + 1), [a, n]


def moved(carry, x):  # views as carries and results
    return carry.T + x, carry[::-1, 1:]


def grows(carry, x):  # a window: views of larger arrays
    return mx.concatenate([carry[1:], x[None]]), carry.mean()


CASES = {
    "plain": (plain, real(4), real(6, 4)),
    "rnn": (rnn, {"h": real(2, 3), "n": mx.array(0)}, {"in": real(5, 2, 3), "gate": real(5, 2)}),
    "swap": (swap, (real(), real(), mx.array(3, dtype=mx.int16)), real(4)),
    "moved": (moved, real(3, 3), real(5, 3, 3)),
    "window": (grows, real(4), real(7)),
    "nothing kept": (lambda c, x: (c, x * 2), real(2), real(3, 2)),
    "no results": (lambda c, x: (c * x, None), real(2), real(3, 2)),
    "constants": (lambda c, x: (c, mx.ones(2)), real(2), real(3)),
    "parts": (lambda c, x: (mx.concatenate(mx.split(c, 2)[::-1]) + x, mx.split(c * x, 2)[1]), real(4), real(5, 4)),
    "reduced": (lambda c, x: (mx.softmax(c * x + 1) * c.sum(), (c * x).max()), real(4), real(5, 4)),
    "one twice": (lambda c, x: ((c[0] + x, c[0] + x), (c[1], c[1])), (real(), real()), real(5)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_scan_is_the_loop(name, reverse):
    f, init, xs = CASES[name]
    same(mx.scan(f, init, xs, reverse=reverse), python_scan(f, init, xs, reverse=reverse))


def test_scan_against_numpy():
    a, b, x = RNG.uniform(-1, 1, (3, 1000))
    want, y = 0.5, []
    for i in range(1000):
        y.append(want)
        want = np.sin(a[i] * want) + b[i] * x[i]
    last, ys = mx.scan(
        lambda c, s: (mx.sin(s[0] * c) + s[1] * s[2], c),
        mx.array(0.5, dtype=mx.float64),
        tuple(mx.array(v, dtype=mx.float64) for v in (a, b, x)),
    )
    assert last.item() == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(np.array(ys), y, rtol=1e-12)


def test_scan_without_xs_and_with_numbers():
    last, y = mx.scan(lambda c, x: ((c[1], c[0] + c[1]), c[0] if x is None else 1 / 0), (0, 1), length=10)
    assert numbers(y).tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34] and last[1].item() == 89
    assert last[0].dtype == mx.int32
    last, y = mx.scan(lambda c, x: (c * 2, 7), 1.5, length=3)
    assert last.item() == 12 and y.tolist() == [7, 7, 7]
    last, y = mx.scan(lambda c, x: (not_(c), c), True, length=3)
    assert not last.item() and y.tolist() == [True, False, True]
    last, _ = mx.scan(lambda c, x: (0, None), mx.array(3.0, dtype=mx.float16), length=2)
    assert last.dtype == mx.float16 and last.item() == 0
    last, y = mx.scan(lambda c, x: (c + x, x), 0, np.arange(4, dtype=np.int32))
    assert last.item() == 6 and y.tolist() == [0, 1, 2, 3]


def not_(x):
    return mx.logical_not(x)


def test_scan_of_no_steps():
    carry, y = mx.scan(plain, mx.array([1.0, 2.0]), mx.zeros((0, 2)))
    assert carry.tolist() == [1, 2] and y.shape == (0, 2)
    carry, y = (
        mx.scan(plain, mx.array(1.0), mx.array(1.0), length=0)
        if False
        else mx.scan(lambda c, x: (c + 1, c), mx.array(1.0), length=0)
    )
    assert carry.item() == 1 and y.shape == (0,)
    g = mx.grad(lambda c: mx.scan(plain, c, mx.zeros((0, 2)))[0].sum())(mx.array([1.0, 2.0]))
    assert g.tolist() == [1, 1]
    empty, y = mx.scan(plain, mx.zeros((0,)), mx.zeros((3, 0)))
    assert empty.shape == (0,) and y.shape == (3, 0)


def test_trees_are_kept():
    Point = collections.namedtuple("Point", "x y")
    init = {"p": Point(mx.array(1.0), [mx.array(2), None]), "s": "text", "e": ()}

    def f(c, x):
        p = c["p"]
        # other orders of keys are the same tree
        return {"e": (), "s": "text", "p": Point(p.x + x, [p.y[0] + 1, None])}, {"b": p.x, "a": [p.y[0], "z"]}

    carry, y = mx.scan(f, init, mx.array([1.0, 2.0]))
    assert isinstance(carry["p"], Point) and list(carry) == ["p", "s", "e"] and carry["s"] == "text"
    assert carry["p"].x.item() == 4 and carry["p"].y[0].item() == 4 and carry["p"].y[1] is None
    assert y["b"].tolist() == [1, 2] and y["a"][0].tolist() == [2, 3] and y["a"][1] == "z"


def test_registered_types_are_trees():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    register_tree_node(Pair, lambda p: ((p.a, p.b), None), lambda aux, kids: Pair(*kids))

    @register_dataclass
    @dataclasses.dataclass
    class State:
        h: mx.array
        n: mx.array

    carry, y = mx.scan(lambda c, x: (Pair(c.b, c.a + x), c), Pair(1.0, 2.0), mx.array([1.0, 2.0]))
    assert isinstance(carry, Pair) and (carry.a.item(), carry.b.item()) == (2, 4) and y.b.tolist() == [2, 2]
    state = mx.while_loop(lambda s: s.n < 3, lambda s: State(s.h * 2, s.n + 1), State(mx.array(1.0), mx.array(0)))
    assert isinstance(state, State) and state.h.item() == 8
    with pytest.raises(ValueError, match=r"\[scan\] the carry must keep.*carry\[1\] was float32"):
        mx.scan(lambda c, x: (Pair(c.a, mx.array([1])), None), Pair(1.0, 2.0), length=1)


def test_while_loop():
    count, x = mx.while_loop(lambda c: c[1] < 100, lambda c: (c[0] + 1, c[1] * 3), (0, mx.array(1.0)))
    assert count.item() == 5 and x.item() == 243
    n, steps = mx.while_loop(
        lambda c: c["n"] != 1,
        lambda c: {"n": mx.where(c["n"] % 2 == 0, c["n"] // 2, 3 * c["n"] + 1), "steps": c["steps"] + 1},
        {"n": 27, "steps": 0},
    ).values()
    assert steps.item() == 111
    assert mx.while_loop(lambda c: False, lambda c: c + 1, mx.array(5)).item() == 5
    assert mx.while_loop(lambda c: c < 3, lambda c: c + 1, mx.array(5)).item() == 5
    # the condition counts as true where it is not zero
    assert mx.while_loop(lambda c: c, lambda c: c - 1, 4).item() == 0


def test_while_loop_does_not_change_its_arguments():
    x = mx.zeros(1000)
    mx.eval(x)
    y = mx.while_loop(lambda c: c[0] < 10, lambda c: c + 1, x)
    assert y[0].item() == 10 and x[0].item() == 0


@pytest.mark.parametrize("pred", [True, False, 1, 0.0, mx.array(True), mx.array(0)])
def test_cond(pred):
    x = mx.array([1.0, -4.0])
    got = mx.cond(pred, lambda x, k: {"a": x * k, "n": 1}, lambda x, k: {"n": 0, "a": x + k}, x, 2)
    assert got["a"].tolist() == ([2, -8] if bool(pred) else [3, -2]) and got["n"].item() == int(bool(pred))
    assert list(got) == ["a", "n"]


def test_cond_computes_one_branch(index_errors):
    table = mx.arange(3)
    far = mx.array([7])
    fails = lambda i: table[i]  # noqa: E731
    assert mx.cond(mx.array(False), fails, lambda i: i, far).item() == 7
    # also where nothing depends on an argument
    assert mx.cond(mx.array(False), lambda: table[far], lambda: far * 2).item() == 14
    with pytest.raises(IndexError, match="out of range"):
        mx.eval(mx.cond(mx.array(True), fails, lambda i: i, far))
    # so it ends recursion
    big = lambda: (mx.zeros((1 << 26,), dtype=mx.uint32) + 1).sum()  # noqa: E731
    assert peak(lambda: mx.cond(False, big, lambda: mx.array(0, dtype=mx.uint32))) < 1 << 20


def test_nested():
    def power(base, n):
        return mx.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, c[1] * base), (n, mx.array(1.0)))[1]

    def row(total, n):
        y = power(mx.array(2.0), n)
        inner, _ = mx.scan(lambda c, x: (c + x * y, None), mx.array(0.0), mx.arange(3).astype(mx.float32))
        return total + mx.cond(n % 2 == 0, lambda: inner, lambda: -inner), inner

    total, y = mx.scan(row, mx.array(0.0), mx.arange(6))
    want = [3 * 2.0**n for n in range(6)]
    assert y.tolist() == want and total.item() == sum(v if n % 2 == 0 else -v for n, v in enumerate(want))


def test_keys_in_the_carry():
    def step(key, x):
        key, now = mx.random.split(key)
        return key, mx.random.normal((3,), key=now) * x

    key, y = mx.scan(step, mx.random.key(5), mx.ones(4))
    want_key, want = python_scan(step, mx.random.key(5), mx.ones(4))
    assert key.tolist() == want_key.tolist() and mx.array_equal(y, want).item()
    keys = mx.random.split(mx.random.key(1), 4)
    _, y = mx.scan(lambda c, k: (c, mx.random.uniform(key=k)), 0, keys)
    assert y.tolist() == [mx.random.uniform(key=keys[i]).item() for i in range(4)]


def test_captured_arrays():
    lazy = mx.array([1.0, 2.0]) * 3  # not computed yet
    computed = mx.array([10.0, 20.0])
    f = lambda c, x: (c * 0.5 + lazy + computed.sum() * x, lazy * x)  # noqa: E731
    same(mx.scan(f, mx.zeros(2), mx.ones(3)), python_scan(f, mx.zeros(2), mx.ones(3)), rtol=1e-6)
    # they are not kept by anything but the loop
    held = mx.get_active_memory()
    big = mx.ones((1 << 18,))
    y = mx.scan(lambda c, x: (c + big[0] + x, None), 0.0, mx.ones(2))[0]
    assert y.item() == 4
    big = y = None
    gc.collect()
    assert mx.get_active_memory() - held < 1 << 16


# ---------------------------------------------------------------- derivatives


differences = functools.partial(compare.differences, step=1e-6)


def scalar_of(tree):
    """A number that depends on every element of a tree, each in its own way."""
    total = mx.array(0.0, dtype=mx.float64)
    for i, (_, a) in enumerate(tree_flatten(tree)):
        if isinstance(a, mx.array) and mx.issubdtype(a.dtype, mx.floating):
            w = mx.arange(a.size).astype(mx.float64).reshape(a.shape) * 0.1 + 1 + i
            total = total + (w * mx.sin(a)).sum()
    return total


def arrays_of(*trees):
    return [a for t in trees for _, a in tree_flatten(t) if mx.issubdtype(a.dtype, mx.floating)]


def with_leaf(tree, k, new):
    """The tree with its k-th array of floating type replaced."""
    count = iter(range(1000))

    def go(t):
        if isinstance(t, mx.array):
            return (new if next(count) == k else t) if mx.issubdtype(t.dtype, mx.floating) else t
        if isinstance(t, dict):
            return {key: go(v) for key, v in t.items()}
        return type(t)(go(v) for v in t)

    return go(tree)


def of_leaf(name, k, reverse=False, scan=mx.scan):
    """The case as a function of its k-th array."""
    f, init, xs = CASES[name]
    return lambda v: scalar_of(scan(f, *with_leaf((init, xs), k, v), reverse=reverse))


LEAVES = [(n, k) for n, (_, init, xs) in CASES.items() for k in range(len(arrays_of(init, xs)))]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name,k", LEAVES)
def test_derivatives_of_scan(name, k, reverse):
    f, v = of_leaf(name, k, reverse), arrays_of(*CASES[name][1:])[k]
    want = differences(f, v)
    np.testing.assert_allclose(np.array(mx.grad(f)(v)), want, rtol=1e-6, atol=1e-7)
    t = real(*v.shape)
    _, (dy,) = mx.jvp(f, [v], [t])
    assert dy.item() == pytest.approx((want * np.array(t)).sum(), rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name,k", LEAVES)
def test_second_derivatives_of_scan(name, k):
    f, loop = of_leaf(name, k), of_leaf(name, k, scan=python_scan)
    v = arrays_of(*CASES[name][1:])[k]
    t = real(*v.shape)
    of_gradient = lambda f: lambda v: (mx.grad(f)(v) * t).sum()  # noqa: E731
    want = np.array(mx.grad(of_gradient(loop))(v))
    np.testing.assert_allclose(want, differences(of_gradient(loop), v), rtol=1e-5, atol=1e-6)
    close = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(np.array(mx.grad(of_gradient(f))(v)), want, **close)  # reverse over reverse
    _, (dy,) = mx.jvp(mx.grad(f), [v], [t])  # forward over reverse
    np.testing.assert_allclose(np.array(dy), want, **close)
    got = mx.grad(lambda v: mx.jvp(f, [v], [t])[1][0])(v)  # reverse over forward
    np.testing.assert_allclose(np.array(got), want, **close)
    _, (dy,) = mx.jvp(lambda v: mx.jvp(f, [v], [t])[1][0], [v], [t])  # forward over forward
    assert dy.item() == pytest.approx((want * np.array(t)).sum(), rel=1e-9, abs=1e-9)


def test_derivatives_of_captured_arrays():
    x, h = real(5, 3), real(3)

    def f(w, scan):
        w2 = mx.sin(w)  # made outside, from what is differentiated by
        return scalar_of(scan(lambda c, x: (mx.tanh(w2 @ c + x * w[0]), c.sum() * w[1]), h, x))

    w = real(3, 3)
    g = lambda scan: mx.grad(lambda w: f(w, scan))  # noqa: E731
    same(g(mx.scan)(w), g(python_scan)(w))
    same(mx.grad(lambda w: g(mx.scan)(w)[0, 1])(w), mx.grad(lambda w: g(python_scan)(w)[0, 1])(w))


def test_third_derivatives():
    f = lambda scan: lambda x: scan(lambda c, _: (mx.sin(c * x), None), x, None, 4)[0]  # noqa: E731
    x = mx.array(0.7, dtype=mx.float64)
    g = lambda f: mx.grad(mx.grad(mx.grad(f)))  # noqa: E731
    assert g(f(mx.scan))(x).item() == pytest.approx(g(f(python_scan))(x).item(), rel=1e-9)


def test_integers_have_no_gradient_but_do_not_stop_others():
    def f(x, scan=mx.scan):
        (c, n), y = scan(
            lambda c, n: ((c[0] * x + c[1].astype(x.dtype), c[1] + n), c[1]), (x, mx.array(1)), mx.arange(4)
        )
        return c + n.astype(x.dtype) * x + y.sum().astype(x.dtype)

    x = mx.array(1.5, dtype=mx.float64)
    assert mx.grad(f)(x).item() == pytest.approx(differences(f, x).item(), rel=1e-6)
    assert mx.grad(f)(x).item() == pytest.approx(mx.grad(lambda x: f(x, python_scan))(x).item(), rel=1e-12)


def whole_steps(draw):
    """A step of whole numbers, floats and integers that go into one another: (a, n, m) with x and constants w, k."""
    kinds = draw.integers(0, 8, 3)

    def step(a, n, m, x, w, k, k_as_float):
        for kind in kinds:
            if kind == 0:
                a = a * 2 + n.astype(a.dtype) * w
            elif kind == 1:
                n = n + (a * 3).astype(mx.int32)
            elif kind == 2:
                m = m * 2 - n
            elif kind == 3:
                a = a + (m % 5).astype(a.dtype) * x
            elif kind == 4:
                n = n * k + 1
            elif kind == 5:
                n = mx.where(a > 0, n, m)
            elif kind == 6:
                a = a * w + k_as_float
            else:
                m = m + mx.argmax(mx.stack([a, x])).astype(mx.int32)
        return a, n, m

    return step


def python_while(test, f, carry):
    while test(carry).item():
        carry = f(carry)
    return carry


@pytest.mark.parametrize("seed", range(12))
def test_derivatives_pass_through_integers_as_in_python(seed):
    """Carries, xs, results and captured arrays.  Of whole numbers: fractions are cut off where they become integers."""
    draw = np.random.default_rng(seed)
    step, (captured, first, xs, ys) = whole_steps(draw), draw.random(4) < 0.6
    numbers, z = (mx.array(draw.integers(-2, 3, n).astype(np.float64)) for n in (4, 5))

    def f(z, loop):
        k = (z[1] * 4).astype(mx.int32) if captured else mx.array(2)
        start = z[4], (z[2] * 5).astype(mx.int32) if first else mx.array(1), mx.array(3)
        items = z[3] * numbers
        constants = z[0], k, k.astype(z.dtype)
        if loop in (mx.while_loop, python_while):
            a, n, m, _ = loop(lambda c: c[3] < 4, lambda c: (*step(*c[:3], items[1], *constants), c[3] + 1),
                              (*start, mx.array(0)))  # fmt: skip
            return a + 2 * n.astype(z.dtype) + m.astype(z.dtype)

        def body(c, i):
            a, n, m = step(*c, i.astype(z.dtype), *constants)
            return (a, n, m), (n + m if ys else a)

        (a, n, m), y = loop(body, start, items.astype(mx.int32) if xs else items)
        return a + 2 * n.astype(z.dtype) + m.astype(z.dtype) + (y.astype(z.dtype) * mx.array([1, 2, 3, 4])).sum()

    weights = mx.arange(1, 6).astype(z.dtype)

    def forward(loop):
        return mx.jvp(lambda z: f(z, loop), [z], [weights])[1][0]

    def gradient(loop, z=z):
        return mx.grad(lambda z: f(z, loop))(z)

    def second(loop):
        return mx.grad(lambda z: (gradient(loop, z) * weights).sum())(z)

    for derivative in (forward, gradient, second):
        assert derivative(mx.scan).tolist() == derivative(python_scan).tolist()
    assert forward(mx.while_loop).tolist() == forward(python_while).tolist()


def test_gradient_of_half_types():
    w = mx.array([0.5, -0.25], dtype=mx.bfloat16)

    def f(scan):
        return lambda w: scan(lambda c, x: (mx.tanh(c * w + x), c), w, mx.ones((3, 2), dtype=mx.bfloat16))[0].sum()

    a, b = mx.grad(f(mx.scan))(w), mx.grad(f(python_scan))(w)
    assert a.dtype == mx.bfloat16
    np.testing.assert_allclose(np.array(a.astype(mx.float32)), np.array(b.astype(mx.float32)), rtol=2e-2, atol=1e-2)


def test_derivatives_of_while_loop():
    f = lambda x: mx.while_loop(lambda c: c[1] < 100, lambda c: (c[0] * mx.sin(c[0]) + x, c[1] + 7), (x, 0))[0]  # noqa: E731
    x = real(3)
    _, (dy,) = mx.jvp(f, [x], [mx.ones(3, dtype=mx.float64)])
    want = differences(lambda v: f(v).sum(), x)
    np.testing.assert_allclose(np.array(dy), want, rtol=1e-5)
    ddy = mx.jvp(lambda x: mx.jvp(f, [x], [mx.ones(3, dtype=mx.float64)])[1][0], [x], [mx.ones(3, dtype=mx.float64)])
    e = 1e-6
    up, down = (mx.jvp(f, [x + d], [mx.ones(3, dtype=mx.float64)])[1][0] for d in (e, -e))
    np.testing.assert_allclose(np.array(ddy[1][0]), np.array(up - down) / (2 * e), rtol=1e-4)
    with pytest.raises(ValueError, match=r"\[while_loop\] has no derivative in reverse mode.*scan"):
        mx.grad(lambda x: f(x).sum())(x)
    # but what does not need it can be differentiated
    g = mx.grad(lambda x: (x * mx.stop_gradient(f(x))).sum())(x)
    same(g, f(x))
    n = lambda x: (x * mx.while_loop(lambda n: n < 5, lambda n: n + 1, mx.array(0))).sum()  # noqa: E731
    assert mx.grad(n)(x).tolist() == [5, 5, 5]


@pytest.mark.parametrize("pred", [True, False])
def test_derivatives_of_cond(pred):
    w = real(3)

    def f(x, w):
        a, b = mx.cond(mx.array(pred), lambda x, y: (mx.sin(x * w) + y, x), lambda x, y: (x * x, mx.cos(y)), x, x * 2)
        return scalar_of([a, b])

    x = real(3)
    for k, v in enumerate((x, w)):
        of = lambda v, k=k: f(*(v if i == k else u for i, u in enumerate((x, w))))  # noqa: E731
        want = differences(of, v)
        np.testing.assert_allclose(np.array(mx.grad(of)(v)), want, rtol=1e-6, atol=1e-8)
        _, (dy,) = mx.jvp(of, [v], [mx.ones(3, dtype=mx.float64)])
        assert dy.item() == pytest.approx(want.sum(), rel=1e-6, abs=1e-8)
        second = lambda v, of=of: (mx.grad(of)(v) * w).sum()  # noqa: E731
        np.testing.assert_allclose(np.array(mx.grad(second)(v)), differences(second, v), rtol=1e-5, atol=1e-6)
        _, (dy,) = mx.jvp(mx.grad(of), [v], [mx.array(w)])
        np.testing.assert_allclose(np.array(dy), np.array(mx.jvp(mx.grad(of), [v], [w])[1][0]), rtol=1e-9)


def test_a_branch_without_the_variable_has_no_gradient():
    f = lambda p: mx.grad(lambda x: mx.cond(p, lambda x: x * x, lambda x: mx.array(3.0), x))(mx.array(2.0))  # noqa: E731
    assert f(True).item() == 4 and f(False).item() == 0
    # and the other branch is not computed going back: no NaN from it
    safe = lambda x: mx.cond(x > 0, lambda x: mx.sqrt(x), lambda x: mx.zeros_like(x), x)  # noqa: E731
    assert mx.grad(safe)(mx.array(0.0)).item() == 0 and mx.grad(safe)(mx.array(4.0)).item() == 0.25


@pytest.mark.parametrize("captured", [True, False])
def test_branches_give_integers_no_derivatives_as_others_do(captured):
    def f(x, how):
        c = x.astype(mx.int32)
        if captured:
            return how((x > 100).any(), lambda x: x + c, lambda x: x * c, x)
        return how((x > 100).any(), lambda x, c: x + c, lambda x, c: x * c, x, c)

    x, t = mx.array([1.5, 2.5, 3.5]), mx.array([1.0, 1.0, 2.0])
    for how in (mx.cond, lambda p, yes, no, *xs: mx.where(p, yes(*xs), no(*xs))):
        of = lambda x, how=how: f(x, how)  # noqa: E731
        for g in (of, lambda x, of=of: mx.vmap(of)(x[None])[0]):
            assert mx.jvp(g, [x], [t])[1][0].tolist() == [1.0, 2.0, 6.0]  # c is constant between steps
            assert mx.vjp(g, [x], [t])[1][0].tolist() == [1.0, 2.0, 6.0]


def test_loops_in_derivatives_of_loops():
    def f(x, scan):
        def outer(c, v):
            inner, _ = scan(lambda d, u: (mx.sin(d * v) + u * x[0], None), c, x)
            return mx.cond(inner > 0.1, lambda a: a * v, lambda a: mx.exp(a), inner), inner

        return scalar_of(scan(outer, x[0], x))

    x = real(4)
    got = mx.grad(lambda x: f(x, mx.scan))(x)
    np.testing.assert_allclose(np.array(got), differences(lambda x: f(x, python_scan), x), rtol=1e-6, atol=1e-7)
    t = real(4)
    second = lambda x: (mx.grad(lambda x: f(x, mx.scan))(x) * t).sum()  # noqa: E731
    np.testing.assert_allclose(np.array(mx.grad(second)(x)), differences(second, x), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- batches


def looped(f, n, in_axes):
    """f over a batch, one by one."""

    def g(*args):
        ys = [
            f(*(a if ax is None else mx.take(a, mx.array(i), axis=ax) for a, ax in zip(args, in_axes)))
            for i in range(n)
        ]
        return stack(ys)

    return g


AXES = [(0, 0, 0), (0, None, None), (None, 0, None), (None, None, 0), (1, None, 0), (None, 1, 1)]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axes", AXES)
def test_vmap_of_scan(axes, reverse):
    f = lambda c, x, w: mx.scan(lambda c, x: (mx.tanh(c * w) + x, (c, x * 2)), c, x, reverse=reverse)  # noqa: E731
    c, x, w = (real(*([3] * (n + (a is not None)))) for n, a in zip((1, 2, 1), axes))
    same(mx.vmap(f, in_axes=axes)(c, x, w), looped(f, 3, axes)(c, x, w))


def test_vmap_of_a_carry_that_joins_the_batch_later():
    # b gets batched values in the second step only, n never
    f = lambda x: mx.scan(lambda c, _: ((c[0] + x, c[0] * 2, c[2] + 1), c[2]), (x, mx.array(0.0), 0), length=3)  # noqa: E731
    x = mx.array([1.0, 2.0])
    (a, b, n), y = mx.vmap(f, out_axes=((0, 0, None), None))(x)
    assert a.tolist() == [4, 8] and b.tolist() == [6, 12] and n.item() == 3 and y.tolist() == [0, 1, 2]


@pytest.mark.parametrize("axes", AXES[:4])
def test_vmap_and_derivatives_of_scan(axes):
    def f(c, x, w):
        return scalar_of(mx.scan(lambda c, x: (mx.tanh(c * w) + x, c), c, x))

    args = [real(*([3] * (n + (a is not None)))) for n, a in zip((1, 2, 1), axes)]
    for k in range(3):
        g = mx.grad(f, argnums=k)
        same(mx.vmap(g, in_axes=axes)(*args), looped(g, 3, axes)(*args))
        batch, loop = mx.vmap(f, in_axes=axes), looped(f, 3, axes)
        got, want = (mx.grad(lambda *a, h=h: h(*a).sum(), argnums=k)(*args) for h in (batch, loop))
        same(got, want)
        t = [real(*a.shape) for a in args]
        same(mx.jvp(batch, args, t)[1], mx.jvp(loop, args, t)[1])


def test_vmap_twice():
    f = lambda a, b: mx.scan(lambda c, x: (c * a + x, c), b, a * mx.ones(3, dtype=mx.float64))[0]  # noqa: E731
    a, b = real(2), real(4)
    got = mx.vmap(lambda a: mx.vmap(lambda b: f(a, b))(b))(a)
    same(got, mx.stack([mx.stack([f(a[i], b[j]) for j in range(4)]) for i in range(2)]))


def test_vmap_of_while_loop():
    f = lambda x, m: mx.while_loop(lambda c: mx.abs(c[0]) < m, lambda c: (c[0] * 2, c[1] + 1), (x, 0))  # noqa: E731
    x = mx.array([1.0, 3.0, 20.0, -0.1])
    m = mx.array([10.0, 100.0, 5.0, 1.0])
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [a if ax == 0 else b for ax, a, b in zip(axes, (x, m), (mx.array(0.5), mx.array(9.0)))]
        same(mx.vmap(f, in_axes=axes)(*args), looped(f, 4, axes)(*args))
    # a condition that is the same for all stays one condition
    g = lambda x: mx.while_loop(lambda c: c[1] < 3, lambda c: (c[0] + x, c[1] + 1), (x, 0))  # noqa: E731
    y, n = mx.vmap(g, out_axes=(0, None))(x)
    assert n.item() == 3
    same(y, x * 4)
    d = mx.vmap(lambda x: mx.jvp(lambda x: f(x, 10.0)[0], [x], [mx.array(1.0)])[1][0])(x)
    assert d.tolist() == [16, 4, 1, 128]
    _, (d,) = mx.jvp(mx.vmap(lambda x: f(x, 10.0)[0]), [x], [mx.ones(4)])
    assert d.tolist() == [16, 4, 1, 128]


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (None, 1)])
def test_vmap_of_cond(axes):
    f = lambda p, x: mx.cond(p, lambda x: (mx.sin(x), mx.ones(2)), lambda x: (x * x, mx.zeros(2)), x)  # noqa: E731
    p = mx.array([True, False, True]) if axes[0] == 0 else mx.array(False)
    x = real(3, 3) if axes[1] is not None else real(3)
    same(mx.vmap(f, in_axes=axes)(p, x), looped(f, 3, axes)(p, x))
    g = mx.grad(lambda p, x: f(p, x)[0].sum(), argnums=1)
    same(mx.vmap(g, in_axes=axes)(p, x), looped(g, 3, axes)(p, x))
    total = lambda h: mx.grad(lambda x: mx.vmap(h, in_axes=axes)(p, x)[0].sum())(x)  # noqa: E731
    same(total(f), mx.grad(lambda x: looped(f, 3, axes)(p, x)[0].sum())(x))


# ---------------------------------------------------------------- compiled


def test_inside_compile():
    w = real(3, 3)

    def f(w, x):
        c, y = mx.scan(lambda c, x: (mx.tanh(w @ c + x), c), mx.zeros(3, dtype=mx.float64), x)
        n = mx.while_loop(lambda n: n < 4, lambda n: n + 1, 0)
        return mx.cond(n > 3, lambda: c.sum() + y.sum(), lambda: mx.array(0.0, dtype=mx.float64))

    x = real(6, 3)
    same(mx.compile(f)(w, x), f(w, x))
    g = mx.compile(f)
    same(mx.grad(g)(w, x), mx.grad(f)(w, x))
    same(mx.compile(mx.grad(f))(w, x), mx.grad(f)(w, x))
    same(mx.compile(mx.vmap(f, in_axes=(None, 0)))(w, real(2, 4, 3)) * 0, mx.zeros(2, dtype=mx.float64))
    for n in (3, 5):  # any length
        same(mx.compile(f, shapeless=True)(w, x[:n]), f(w, x[:n]))
    # inside of a body
    same(mx.scan(mx.compile(plain), real(2) * 0, real(3, 2) * 0), mx.scan(plain, real(2) * 0, real(3, 2) * 0))


# ---------------------------------------------------------------- what it costs


def operations(f):
    """How many operations the graph of f has."""
    compiled = mx.compile(f)
    compiled(mx.array(1.0))
    return compiled.explain().splitlines()[-1].split(" operation")[0].split()[-1]


def test_building_does_not_depend_on_the_length():
    def step(c, _):
        return mx.sin(c) * 0.5 + c, c

    for f in (
        lambda n: lambda x: mx.scan(step, x, length=n),
        lambda n: mx.grad(lambda x: mx.scan(step, x, length=n)[0]),
    ):
        assert operations(f(10_000)) == operations(f(10))


def test_calls_of_the_body():
    calls = []

    def f(c, x):
        calls.append(1)
        return c + x, None

    mx.eval(mx.scan(f, mx.array(0.0), mx.ones(1000)))
    mx.eval(mx.scan(f, mx.array(0.0), mx.ones(10)))
    assert len(calls) == 2


def peak(make):
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(make())
    return mx.get_peak_memory() - before


def test_a_loop_runs_in_constant_memory():
    size = 1 << 16
    step = lambda c, _: (mx.sin(c * 0.5 + 1) * c, None)  # noqa: E731
    assert peak(lambda: mx.scan(step, mx.zeros(size), length=300)[0]) < 6 * size * 4
    stop = lambda c: c[0] < 300  # noqa: E731
    assert peak(lambda: mx.while_loop(stop, lambda c: (c[0] + 1, c[1] * 0.5 + 1), (0, mx.zeros(size)))) < 4 * size * 4
    # a carry that is written into stays where it is
    fill = lambda c, i: (c.at[i].add(1.0), None)  # noqa: E731
    assert peak(lambda: mx.scan(fill, mx.zeros(size), mx.arange(300))[0]) < 4 * size * 4
    # going forward as well; going back keeps the carries
    forward = lambda: mx.jvp(lambda c: mx.scan(step, c, length=300)[0], [mx.zeros(size)], [mx.ones(size)])[1]  # noqa: E731
    assert peak(forward) < 14 * size * 4
    back = lambda: mx.grad(lambda c: mx.scan(step, c, length=20)[0].sum())(mx.zeros(size))  # noqa: E731
    assert peak(back) < 30 * size * 4


def test_large_arrays_are_fused_bit_for_bit():
    size = 20_000
    x = mx.random.normal((size,), key=mx.random.key(3))
    step = lambda c, _: (mx.sin(c * 0.5 + x) * 0.9 - c * 0.1, c[:5] + x[:5])  # noqa: E731
    got, want = mx.scan(step, x, length=4), python_scan(step, x, None, 4)
    assert mx.array_equal(got[0], want[0]).item() and mx.array_equal(got[1], want[1]).item()
    x = x.reshape(20, 1000)
    step = lambda c, _: (c * 0.5 + x, (mx.sin(c) * x).sum(axis=1))  # noqa: E731
    got, want = mx.scan(step, x, length=4), python_scan(step, x, None, 4)
    assert mx.array_equal(got[0], want[0]).item() and mx.array_equal(got[1], want[1]).item()


# ---------------------------------------------------------------- streams, failures


def test_streams():
    s = mx.new_stream(mx.cpu)
    step = lambda c, x: (c + mx.add(x, 1, stream=s), c)  # noqa: E731
    for stream in (None, mx.cpu, s):
        c, y = mx.scan(step, mx.array(0.0), mx.arange(4).astype(mx.float32), stream=stream)
        assert c.item() == 10 and y.tolist() == [0, 1, 3, 6]
    assert mx.while_loop(lambda c: c < 5, lambda c: c + 1, 0, stream=s).item() == 5
    assert mx.cond(True, lambda: mx.array(1), lambda: mx.array(2), stream=s).item() == 1
    y = mx.scan(step, mx.array(0.0), mx.ones(1000), stream=s)
    mx.async_eval(y)
    assert y[0].item() == 2000


def test_errors_while_running(index_errors):
    table = mx.arange(5) * 1.0
    x = mx.zeros(3)
    c, y = mx.scan(lambda c, i: (c * 2 + table[i], c), x, mx.array([1, 4, 7, 2]))
    for _ in range(2):  # and again: nothing is lost
        with pytest.raises(IndexError, match=r"index 7.*\(in step 2 of scan\)"):
            mx.eval(c, y)
    assert x.tolist() == [0, 0, 0]
    with pytest.raises(IndexError, match=r"\(in step 5 of while_loop\)"):
        mx.eval(mx.while_loop(lambda c: c >= 0, lambda c: c + 1 + table[c].astype(mx.int32) * 0, 0))
    assert mx.scan(lambda c, i: (c + table[i], c), x, mx.array([1, 4]))[0].tolist() == [5, 5, 5]


def test_an_endless_loop_can_be_stopped():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    y = mx.while_loop(lambda c: True, lambda c: c + 1, mx.array(0))
    z = mx.scan(lambda c, _: (mx.sin(c), None), mx.array(1.0), length=2_000_000_000)[0]
    w = mx.while_loop(lambda c: True, lambda c: c + 1, mx.array(0))
    mx.async_eval(w)  # runs on another thread
    for a in (w, y, z):
        soon = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        soon.start()
        with pytest.raises(KeyboardInterrupt):
            mx.eval(a)
        soon.join()
    signal.signal(signal.SIGINT, before)
    assert mx.sum(mx.ones(3)).item() == 3


@pytest.mark.parametrize("convert", [np.array, np.asarray, memoryview, lambda x: np.asarray(x, np.float64)])
def test_a_conversion_can_be_stopped(convert):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    x = mx.scan(lambda c, _: (mx.sin(c), None), mx.array(1.0), length=50_000_000)[0]
    soon = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
    soon.start()
    with pytest.raises(KeyboardInterrupt):
        convert(x)
    soon.join()
    signal.signal(signal.SIGINT, before)
    assert np.array(mx.ones(3) + 1).tolist() == [2, 2, 2]


class Stop(BaseException):
    pass


def interruptions(convert):
    """How often a signal's handler runs while the conversion works, where the timer fires each time that the kernel
    looks: one that does not let Python run handlers has one at its end."""
    times = []
    before = signal.signal(signal.SIGPROF, lambda *_: times.append(1))
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        convert()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return len(times)


def doubled(item, times):
    for _ in range(times):
        item = [item, item]
    return item


@pytest.mark.parametrize(
    "convert",
    [
        lambda: mx.array(doubled(0.5, 21)),
        lambda: mx.array([0.5] * 4_000_000),
        lambda: mx.array(doubled(3, 21), mx.float16),
        lambda: mx.array(doubled(mx.array(0.5), 16)),
        lambda: mx.broadcast_to(mx.array(1.0), (300, 10000)).tolist(),
        lambda: mx.broadcast_to(mx.array(1.0), (3_000_000,)).tolist(),
        lambda: list(mx.zeros(200_000)),
        lambda: mx.eval(doubled(mx.array(0.5), 20)),
        lambda: mx.compile(lambda tree: 1)(doubled(mx.array(0.5), 17)),
    ],
    ids=["nest", "list", "cast", "arrays", "tolist", "tolist of one list", "rows", "tree", "copied tree"],
)
def test_lists_can_be_stopped(convert):
    assert interruptions(convert) > 3


def test_a_handler_may_change_the_list_that_is_read():
    """In every pass; it is an error or what one of them found, and never memory that is gone."""
    code = """
import random, signal
import mlx.core as mx

class Stop(Exception):
    pass

def change(*_):
    row = random.choice(rows)
    what = random.randrange(4)
    if what == 0:
        row.clear()
    elif what == 1:
        row.append(1.5)
    elif what == 2:
        row[random.randrange(len(row) or 1):] = [[1.5]]
    else:
        rows.clear()

random.seed(1)
signal.signal(signal.SIGPROF, change)
changed = 0
for _ in range(60):
    rows = [[float(i)] * 20_000 for i in range(6)]
    signal.setitimer(signal.ITIMER_PROF, 1e-5 + random.random() * 5e-3)
    try:
        assert mx.array(rows).size > 0
    except (ValueError, IndexError):
        changed += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
print(changed)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_what_the_functions_raise_comes_out():
    class Odd(Exception):
        pass

    def fails(*_):
        raise Odd("here")

    fine = lambda *_: mx.array(1.0)  # noqa: E731
    for call in (
        lambda: mx.scan(fails, 1.0, length=2),
        lambda: mx.while_loop(fails, fine, 1.0),
        lambda: mx.while_loop(lambda c: c > 2, fails, 1.0),
        lambda: mx.cond(True, fails, fine, 1.0),
        lambda: mx.cond(True, fine, fails),
        lambda: mx.grad(lambda x: mx.scan(fails, x, length=2)[0])(mx.array(1.0)),
    ):
        with pytest.raises(Odd, match="here"):
            call()
    assert mx.scan(lambda c, x: (c + 1, None), 0, length=2)[0].item() == 2


Z3 = mx.zeros(3)


@pytest.mark.parametrize(
    "call,error,says",
    [
        (lambda: mx.scan(lambda c, x: (c.astype(mx.float16), None), Z3, length=2), ValueError,
         r"\[scan\] the carry must keep its structure, shapes and dtypes: carry was float32 of shape \(3,\), and the "
         r"function returned float16 of shape \(3,\)"),
        (lambda: mx.scan(lambda c, x: ({"h": [c["h"][0], c["h"][1][:2]]}, None), {"h": [Z3, Z3]}, length=2), ValueError,
         r"carry\['h'\]\[1\] was float32 of shape \(3,\), and the function returned float32 of shape \(2,\)"),
        (lambda: mx.scan(lambda c, x: ((c, c), None), Z3, length=2), ValueError, "a tuple of 2"),
        (lambda: mx.scan(lambda c, x: ([c[0]], None), [Z3, Z3], length=2), ValueError, "a list of 1"),
        (lambda: mx.scan(lambda c, x: ({"b": c["a"]}, None), {"a": Z3}, length=2), ValueError,
         r"a dict with keys \['b'\]"),
        (lambda: mx.scan(lambda c, x: (None, None), Z3, length=2), ValueError, "returned None"),
        (lambda: mx.scan(lambda c, x: (c * 1.5, None), 1, length=2), ValueError, r"carry was int32.*float32"),
        (lambda: mx.scan(lambda c, x: (1.5, None), 1, length=2), ValueError, r"carry was int32.*float32"),
        (lambda: mx.scan(lambda c, x: c, Z3, length=2), ValueError, r"a tuple \(carry, y\), got float32"),
        (lambda: mx.scan(lambda c, x: (c, c, c), Z3, length=2), ValueError, r"a tuple \(carry, y\), got a tuple of 3"),
        (lambda: mx.scan(plain, Z3, (mx.zeros((2, 3)), mx.zeros((4, 3)))), ValueError,
         r"\[scan\] expected xs of one length, got 2 .* and 4"),
        (lambda: mx.scan(plain, Z3, mx.zeros((2, 3)), length=3), ValueError, "of the length given, 3, got 2"),
        (lambda: mx.scan(plain, Z3, mx.array(1.0)), ValueError, "an axis to go along, got a scalar"),
        (lambda: mx.scan(plain, Z3), ValueError, r"\[scan\] expected xs or a length"),
        (lambda: mx.scan(plain, Z3, length=-1), ValueError, "not negative, got -1"),
        (lambda: mx.scan(plain, Z3, length=2.5), TypeError, "length"),
        (lambda: mx.scan(3, Z3, length=2), TypeError, "callable"),
        (lambda: mx.scan(plain, Z3, mx.zeros((2, 4))), ValueError, "broadcast"),
        (lambda: mx.while_loop(lambda c: c > 0, lambda c: c, Z3), ValueError,
         r"\[while_loop\] expected the condition to return a scalar, got bool of shape \(3,\)"),
        (lambda: mx.while_loop(lambda c: None, lambda c: c, Z3), ValueError, "a scalar, got None"),
        (lambda: mx.while_loop(lambda c: [c], lambda c: c, Z3), ValueError, "a scalar, got a list of 1"),
        (lambda: mx.while_loop(lambda c: True, lambda c: c[:2], Z3), ValueError,
         r"\[while_loop\] the carry must keep.*\(2,\)"),
        (lambda: mx.while_loop(lambda c: True, 5, Z3), TypeError, "callable"),
        (lambda: mx.cond(Z3, lambda: 1, lambda: 2), ValueError, r"\[cond\] expected a scalar predicate.*\(3,\)"),
        (lambda: mx.cond("x", lambda: 1, lambda: 2), TypeError, "pred"),
        (lambda: mx.cond(True, lambda: 1, lambda: 2.0), ValueError,
         r"\[cond\] the branches must return the same.*result of true_fun is int32 of shape \(\), and that of "
         r"false_fun float32"),
        (lambda: mx.cond(True, lambda: (1, Z3), lambda: (1, Z3[:2])), ValueError, r"result\[1\] of true_fun is"),
        (lambda: mx.cond(True, lambda: [1], lambda: (1,)), ValueError, "a tuple of 1"),
        (lambda: mx.cond(True, lambda: 1, None), TypeError, "callable"),
        (lambda: mx.cond(True, lambda x: x, lambda x: x), TypeError, "argument"),
    ],
)  # fmt: skip
def test_clear_errors(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_a_body_must_not_look_at_values():
    with pytest.raises(Exception, match="placeholder"):
        mx.scan(lambda c, x: (c + c.item(), None), mx.array(1.0), length=2)
    with pytest.raises(Exception, match="placeholder"):
        mx.while_loop(lambda c: c < 3, lambda c: c + 1 if c > 1 else c, mx.array(1.0))


def test_placeholders_that_escape_are_not_values():
    out = []
    mx.eval(mx.scan(lambda c, x: (out.append(c) or c, None), mx.array(1.0), length=2))
    with pytest.raises(Exception, match="placeholder"):
        mx.eval(out[0])


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: a * mx.sin(b),
    lambda a, b: mx.where(a > b, a, b * 0.5),
    lambda a, b: (a @ b) * 0.3,
    lambda a, b: a.T - b,
    lambda a, b: mx.softmax(a, axis=-1) + b.sum(axis=0),
    lambda a, b: mx.concatenate([a[1:], b[:1]]),
    lambda a, b: mx.tanh(a)[::-1] * b,
]


@pytest.mark.parametrize("seed", range(25))
def test_random_steps(seed):
    """Bodies put together at random, against the loop, with their derivatives and batches."""
    rng = np.random.default_rng(seed)
    matrices = lambda *n: mx.array(rng.uniform(-1, 1, (*n, 3, 3)), dtype=mx.float64)  # noqa: E731
    n_carry, n_ops = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    plan = [(OPERATIONS[rng.integers(len(OPERATIONS))], *rng.integers(0, 50, 2)) for _ in range(n_ops)]
    outs, kept = rng.integers(0, 50, n_carry), matrices()

    def step(c, x):
        v = [*c, x, kept]
        for op, i, j in plan:
            v.append(op(v[i % len(v)], v[j % len(v)]))
        return tuple(v[len(v) - 1 - o % len(v)] for o in outs), [v[-1], v[0]]

    def number(scan):
        return lambda c, x: scalar_of(scan(step, c, x))

    c, x = tuple(matrices() for _ in range(n_carry)), matrices(4)
    same(mx.scan(step, c, x), python_scan(step, c, x), rtol=1e-10, atol=1e-10)
    got, want = (mx.grad(number(scan), argnums=(0, 1))(c, x) for scan in (mx.scan, python_scan))
    same(got, want, rtol=1e-8, atol=1e-8)
    batch = mx.stack([x, x * 0.5])
    got = mx.vmap(lambda x: number(mx.scan)(c, x))(batch)
    same(got, mx.stack([number(mx.scan)(c, b) for b in batch]), rtol=1e-9)


def test_exported_and_back(tmp_path):
    path = str(tmp_path / "loop.mlxfn")
    w, rows = real(3, 3), real(4, 3)

    def f(x, n):
        c, y = mx.scan(lambda c, x: (mx.tanh(w @ c + x), (c, x * 2)), rows[0], x)
        n = mx.while_loop(lambda k: (k * k < n).any(), lambda k: k + n.sum() - n.sum() + 1, 0)
        z = mx.cond(n > 3, lambda: mx.scan(lambda c, x: (c + x, None), y[0].sum(), y[1][:, 0])[0], lambda: mx.sum(rows))
        return c, *y, n, z

    for n in (10, 100):
        args = real(5, 3), mx.array([n])
        with pytest.raises(ValueError, match="Unable to serialize primitive ScanLoop"):
            mx.export_function(path, f, *args)
        mx.export_function(path, f, *args, portable=False)
        g = mx.import_function(path)
        same(list(g(*args)), list(f(*args)))
        other = real(5, 3), mx.array([n // 10])
        same(list(g(*other)), list(f(*other)))
    x, t = real(5, 3), real(5, 3)
    number = lambda g: lambda x: scalar_of([g(x, mx.array([5]))[k] for k in (0, 1, 2, 4)])  # noqa: E731
    same(mx.grad(number(g))(x), mx.grad(number(f))(x))
    same(mx.jvp(number(g), [x], [t]), mx.jvp(number(f), [x], [t]))
    again = str(tmp_path / "again.mlxfn")
    mx.export_function(again, g, *args, portable=False)
    same(list(mx.import_function(again)(*args)), list(f(*args)))


def test_damaged_files_with_loops(tmp_path):
    path = tmp_path / "loop.mlxfn"
    f = lambda x: mx.scan(lambda c, x: (c * 0.5 + mx.while_loop(lambda k: k < 2, lambda k: k + x, x), c), x[0], x)  # noqa: E731
    mx.export_function(str(path), f, mx.ones(3), portable=False)
    good = path.read_bytes()
    for i in range(0, len(good), 3):
        for damaged in (good[:i], good[:i] + bytes([good[i] ^ 0x81]) + good[i + 1 :]):
            path.write_bytes(damaged)
            with contextlib.suppress(ValueError, RuntimeError, IndexError, TypeError, MemoryError):
                mx.import_function(str(path))(mx.ones(3))  # built; running one might take forever


def test_results_of_several_results_are_told_apart():
    def f(c, y):
        a, b = mx.depends([c, y], mx.sin(c))
        return mx.sin(a) * b, c

    def plain(c, y):
        return mx.sin(c) * y, c

    xs = mx.arange(1.0, 4.0)
    assert mx.scan(f, mx.array(1.0), xs)[0].item() == mx.scan(plain, mx.array(1.0), xs)[0].item()

    def grad(body):
        return mx.grad(lambda x, xs: mx.scan(body, x, xs)[0], (0, 1))(mx.array(1.0), xs)

    def checkpointed(c, y):
        return mx.checkpoint(lambda c: mx.sin(c) * y)(c), c

    def by_rule(c, y):
        g = mx.custom_function(lambda c, y: mx.sin(c) * y)
        g.vjp(lambda x, ct, out: (ct * mx.cos(x[0]) * x[1], ct * mx.sin(x[0])))
        return g(c, y), c

    for body in (f, checkpointed, by_rule):
        for got, want in zip(grad(body), grad(plain), strict=True):
            assert mx.allclose(got, want)


@pytest.mark.parametrize("nest", ["cond", "scan", "while_loop"])
def test_loops_in_each_other_have_an_end(nest):
    """Each takes stack where it runs."""
    x = mx.ones(2)
    inner = {
        "cond": lambda f: lambda a: mx.cond(a.sum() > 0, f, lambda b: b, a),
        "scan": lambda f: lambda a: mx.scan(lambda c, _: (f(c), None), a, length=1)[0],
        "while_loop": lambda f: lambda a: mx.while_loop(lambda b: b[0] < 0, f, a),
    }[nest]
    f = mx.compile(lambda a: a + 1)
    with pytest.raises(ValueError, match="500 loops and branches in each other"):
        for _ in range(600):
            f = mx.compile(inner(f))
            f(x)


def test_attributes_that_differ_are_refused():
    x, no = mx.array([1.0, 1.0]), mx.array(False)
    small, large = (lambda: nn.RMSNorm(2, eps=0.0)), (lambda: nn.RMSNorm(2, eps=3.0))
    with pytest.raises(ValueError, match=r"\[cond\].*result.eps of true_fun is 0.0, and that of false_fun 3.0"):
        mx.cond(no, small, large)
    with pytest.raises(ValueError, match=r"result\['m'\]\[0\]._training of true_fun is True, and .* False"):
        mx.cond(no, lambda: {"m": [small()]}, lambda: {"m": [small().eval()]})
    with pytest.raises(ValueError, match=r"\[scan\].*carry.eps was 0.0, and the function returned 3.0"):
        mx.scan(lambda m, _: (large(), m(x)), small(), length=2)
    with pytest.raises(ValueError, match=r"\[while_loop\].*carry\[1\].eps was 0.0, and the function returned 3.0"):
        mx.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, large()), (0, small()))

    def extra():
        m = large()
        m.k = 1
        return m

    with pytest.raises(ValueError, match="result.k of true_fun is 1, and that of false_fun not there"):
        mx.cond(no, extra, large)
    with pytest.raises(ValueError, match="result.k of true_fun is not there, and that of false_fun 1"):
        mx.cond(no, large, extra)
    assert mx.cond(no, large, large)(x).tolist() == [0.5, 0.5]
    assert mx.scan(lambda m, _: (m, m(x)), large(), length=2)[1].tolist() == [[0.5, 0.5]] * 2
