"""Evaluation, derivatives of Python functions, threads and signals."""

import collections
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def f(a, b):
    return (a * b).sum()


X, Y = [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]


@pytest.fixture
def x():
    return mx.array(X)


@pytest.fixture
def y():
    return mx.array(Y)


# What is differentiated by


def test_argnums(x, y):
    assert mx.grad(f)(x, y).tolist() == Y
    assert mx.grad(f, argnums=1)(x, y).tolist() == X
    assert [g.tolist() for g in mx.grad(f, argnums=(1, 0))(x, y)] == [X, Y]
    assert mx.grad(f, [1])(x, y).tolist() == X


def test_argnames(x, y):
    assert mx.grad(f, argnames="b")(x, b=y)[0] is None
    assert mx.grad(f, argnames="b")(x, b=y)[1]["b"].tolist() == X
    _, named = mx.grad(f, argnames=["a", "b"])(a=x, b=y)
    assert {k: v.tolist() for k, v in named.items()} == {"a": Y, "b": X}
    first, named = mx.grad(f, argnums=0, argnames="b")(x, b=y)
    assert (first.tolist(), named["b"].tolist()) == (Y, X)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: mx.grad(f, argnums=2)(x, x),
        lambda x: mx.grad(f, argnums=-1)(x, x),
        lambda x: mx.grad(f, argnums=(0, 0))(x, x),
        lambda x: mx.grad(f, argnums=[])(x, x),
        lambda x: mx.grad(f, argnames="c")(x, b=x),
        lambda x: mx.grad(f)(2.0, x),
        lambda x: mx.grad(f)([x, "s"], x),
        lambda x: mx.grad(lambda a: a)(x),
        lambda x: mx.grad(lambda a: 3.0)(x),
        lambda x: mx.grad(lambda a: None)(x),
        lambda x: mx.grad(lambda a: (a.sum(), a))(x),
        lambda x: mx.value_and_grad(lambda a: [a.sum(), a])(x),
        lambda x: mx.value_and_grad(lambda a: ())(x),
        lambda x: mx.vjp(lambda a: {"a": a}, [x], [x]),
        lambda x: mx.vjp(lambda a: a, [x], [x, x]),
        lambda x: mx.vjp(lambda a: a, [x], [mx.array(1.0)]),
        lambda x: mx.jvp(lambda a: a, [x], []),
    ],
)
def test_what_cannot_be_differentiated(make, x):
    with pytest.raises(ValueError):
        make(x)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: mx.grad(3),
        lambda x: mx.grad(),
        lambda x: mx.grad(f, "a"),
        lambda x: mx.grad(f, argnames=3),
        lambda x: mx.grad(f, argnames=[3]),
        lambda x: mx.vjp(f, x, x),
        lambda x: mx.vjp(f, [1], [x]),
        lambda x: mx.vjp(3, [x], [x]),
    ],
)
def test_arguments_of_the_wrong_kind(make, x):
    with pytest.raises(TypeError):
        make(x)


Pair = collections.namedtuple("Pair", "left right")


def test_trees_keep_their_structure(x):
    tree = {"a": x, "b": [x, (x, {})], "c": Pair(x, [])}

    def loss(p):
        assert isinstance(p["c"], Pair)
        return (p["a"] * p["b"][0] * p["b"][1][0]).sum() + (2 * p["c"].left).sum()

    value, grad = mx.value_and_grad(loss)(tree)
    assert value.item() == 36 + 12
    assert list(grad) == ["a", "b", "c"]
    squares = [v * v for v in X]
    assert grad["a"].tolist() == grad["b"][0].tolist() == grad["b"][1][0].tolist() == squares
    assert type(grad["b"][1]) is tuple
    assert grad["b"][1][1] == {}
    assert isinstance(grad["c"], Pair)
    assert grad["c"].left.tolist() == [2, 2, 2]


def test_what_comes_with_the_value(x):
    def loss(p):
        return p.sum(), {"twice": p * 2, "text": "t"}, 3

    (value, more, three), grad = mx.value_and_grad(loss)(x)
    assert (value.item(), more["text"], three, grad.tolist()) == (6, "t", 3, [1, 1, 1])
    assert more["twice"].tolist() == [2, 4, 6]


def test_no_arrays_at_all(x):
    assert mx.value_and_grad(lambda p, a: a.sum())({}, x)[1] == {}


def test_other_arguments_come_as_they_are(x):
    marker = object()

    def loss(a, m, *, k):
        assert m is marker
        assert k is marker
        return a.sum()

    assert mx.grad(loss)(x, marker, k=marker).tolist() == [1, 1, 1]


def test_the_gradient_has_the_name_of_its_function():
    g = mx.value_and_grad(f)
    assert (g.__name__, g.__wrapped__) == ("f", f)


# Values


@settings(max_examples=30)
@given(st.integers(0, 5), st.floats(-2, 2))
def test_orders_against_the_derivatives_of_a_polynomial(order, at):
    g = lambda t: t**4 - 3 * t**3 + t  # noqa: E731
    p = np.polynomial.Polynomial([0, 1, 0, -3, 1])
    for _ in range(order):
        g = mx.grad(g)
        p = p.deriv()
    assert g(mx.array(at)).item() == pytest.approx(p(at), rel=1e-4, abs=1e-4)


def test_vjp_and_jvp_of_several_results(x, y):
    outs, cts = mx.vjp(lambda a: (a * 2, a + 1), (x,), (y, x))
    assert [o.tolist() for o in outs] == [[2, 4, 6], [2, 3, 4]]
    assert cts[0].tolist() == [9, 12, 15]
    outs, tangents = mx.jvp(lambda a, b: [a * b, a], [x, y], [y, x])
    assert [t.tolist() for t in tangents] == [[17, 29, 45], Y]
    outs, _ = mx.jvp(lambda a: a * 2, [x], [y])
    assert outs[0].tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    "at, direction",
    [(mx.float32, mx.complex64), (mx.int32, mx.float32), (mx.int32, mx.bfloat16), (mx.bool_, mx.int32)],
)
def test_directions_that_a_cast_would_cut(at, direction):
    x, t = mx.zeros(2, at), mx.zeros(2, direction)
    expected = f"expected dtype {str(x.dtype)[9:].strip('_')} of the %s, got {str(direction)[9:]}"
    with pytest.raises(ValueError, match=r"\[jvp\] tangent 0: " + expected % "argument"):
        mx.jvp(mx.square, [x], [t])
    with pytest.raises(ValueError, match="tangent 0: " + expected % "argument"):
        mx.linearize(mx.square, x)[1](t)
    if at == mx.float32:  # integers give nothing back
        with pytest.raises(ValueError, match=r"\[vjp\] cotangent 0: " + expected % "result"):
            mx.vjp(lambda x: x, [x], [t])
        with pytest.raises(ValueError, match="cotangent 0: " + expected % "result"):
            mx.pullback(lambda x: x, x)[1](t)


def test_directions_become_of_the_dtype_that_holds_them():
    z, h = mx.array([1j, 2]), mx.array([1.0, 2.0], mx.float16)
    assert mx.jvp(mx.square, [z], [mx.ones(2)])[1][0].tolist() == [2j, 4]
    assert mx.jvp(mx.square, [h], [mx.array([1, 2])])[1][0].dtype == mx.float16
    assert mx.vjp(mx.square, [h], [mx.ones(2)])[1][0].dtype == mx.float16
    i = mx.array([1, 0])  # a constant: its cotangent is not looked at
    assert mx.vjp(lambda x: (x, i), [h], [h, h])[1][0].tolist() == [1, 2]


def test_jacobian_rows_and_columns_agree():
    w = mx.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])

    def g(t):
        return mx.tanh(w @ t) * t[0]

    t = mx.array([0.3, -0.2, 0.7])
    eye3, eye2 = mx.eye(3), mx.eye(2)
    columns = np.array([np.array(mx.jvp(g, [t], [eye3[i]])[1][0]) for i in range(3)]).T
    rows = np.array([np.array(mx.vjp(g, [t], [eye2[i]])[1][0]) for i in range(2)])
    assert np.allclose(columns, rows, atol=1e-6)


def test_updates_inside_stay_inside(x):
    def g(a):
        a[0] = 5
        a += 1
        return (a * a).sum()

    assert mx.grad(g)(x).tolist() == [0, 6, 8]
    assert x.tolist() == X


def test_stop_gradient(x):
    assert mx.grad(lambda a: (mx.stop_gradient(a) * a).sum())(x).tolist() == X


def test_values_may_be_looked_at_inside(x):
    def g(a):
        s = a.sum()
        mx.eval(s)
        return s * s if s.item() > 3 else s

    assert mx.grad(g)(x).tolist() == [12, 12, 12]


def test_captured_arrays_are_constants(x, y):
    assert mx.grad(lambda a: (a * y).sum())(x).tolist() == Y


def test_deep_graphs():
    def g(a):
        for _ in range(20000):
            a = a * 1.0
        return a.sum()

    assert mx.grad(g)(mx.array([1.0])).item() == 1


# Rules of one's own


def test_custom_vjp(x, y):
    @mx.custom_function
    def g(a):
        return a * 2

    assert mx.grad(lambda a: g(a).sum())(x).tolist() == [2, 2, 2]
    seen = []

    @g.vjp
    def g_vjp(primal, cotangent, output):
        seen.append((primal.tolist(), cotangent.tolist(), output.tolist()))
        return cotangent * 3

    assert g_vjp is g
    assert g(x).tolist() == [2, 4, 6]
    assert mx.vjp(g, [x], [y])[1][0].tolist() == [12, 15, 18]
    assert seen == [(X, Y, [2, 4, 6])]


def test_custom_vjp_of_several(x, y):
    @mx.custom_function
    def g(p, n, *, k=1):
        return {"r": p["a"] * n * k, "s": p["b"]}

    @g.vjp
    def g_vjp(primals, cotangents, outputs, *, k=1):
        p, n = primals
        assert (n, k, sorted(outputs)) == (3, 2, ["r", "s"])
        return {"a": cotangents["r"] * 10, "b": cotangents["s"] * 100}, None

    def loss(p):
        out = g(p, 3, k=2)
        return out["r"].sum() + out["s"].sum()

    grad = mx.grad(loss)({"a": x, "b": y})
    assert grad["a"].tolist() == [10, 10, 10]
    assert grad["b"].tolist() == [100, 100, 100]


def test_custom_vjp_with_the_wrong_number_of_results(x):
    @mx.custom_function
    def g(a, b):
        return a * b

    g.vjp(lambda p, c, o: c)
    with pytest.raises(ValueError, match="2 arrays"):
        mx.grad(lambda a: g(a, a).sum())(x)


def test_custom_vjp_that_raises(x):
    @mx.custom_function
    def g(a):
        return a * 2

    @g.vjp
    def rule(primal, cotangent, output):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.grad(lambda a: g(a).sum())(x)
    assert mx.grad(lambda a: a.sum())(x).tolist() == [1, 1, 1]


def test_custom_function_of_the_wrong_kind():
    for bad in [lambda: mx.custom_function(3), lambda: mx.custom_function(f).vjp(3)]:
        with pytest.raises(TypeError):
            bad()


# Exceptions


class Mine(Exception):
    pass


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_exceptions_come_out_unchanged(depth, x):
    error = Mine("hello")

    def g(a):
        raise error

    h = g
    for _ in range(depth):
        h = mx.grad(h)
    with pytest.raises(Mine) as caught:
        h(x)
    assert caught.value is error
    for transform in [mx.vjp, mx.jvp]:
        with pytest.raises(Mine):
            transform(g, [x], [x])


def test_an_error_of_the_library_inside_comes_out_as_it_is(x):
    with pytest.raises(ValueError, match="broadcast"):
        mx.grad(lambda a: (a + mx.zeros(7)).sum())(x)
    with pytest.raises(IndexError):
        mx.grad(lambda a: a[9])(x)


def test_an_error_that_is_caught_inside_does_no_harm(x):
    def g(a):
        with pytest.raises(ValueError):
            a + mx.zeros(7)
        with pytest.raises(Mine):
            mx.grad(lambda b: raise_mine())(a)
        return a.sum()

    assert mx.grad(g)(x).tolist() == [1, 1, 1]


def raise_mine():
    raise Mine


def test_keyboard_interrupt_and_system_exit_come_out(x):
    for error in [KeyboardInterrupt, SystemExit]:

        def g(a, error=error):
            raise error

        with pytest.raises(error):
            mx.grad(g)(x)


# Nothing is kept


def test_functions_and_arguments_are_let_go():
    class Thing:
        pass

    things = [Thing(), Thing()]
    refs = [weakref.ref(t) for t in things]

    def g(a, t, keep=things[0]):
        return a.sum()

    mx.eval(mx.grad(g)(mx.array([1.0]), things[1]))

    @mx.custom_function
    def h(a):
        return a * 2

    rule = Thing()
    refs.append(weakref.ref(rule))
    h.vjp(lambda p, c, o, rule=rule: c)
    mx.eval(mx.grad(lambda a, h=h: h(a).sum())(mx.array([1.0])))
    del g, h, things, rule
    mx.eval(mx.zeros(1))
    gc.collect()
    assert [r() for r in refs] == [None] * 3


def test_memory_does_not_grow_over_steps():
    w = mx.zeros((100, 100))
    loss = mx.value_and_grad(lambda w, x: ((x @ w - x) ** 2).mean())
    x = mx.ones((10, 100))

    def step(w):
        _, g = loss(w, x)
        w = w - 0.1 * g
        mx.eval(w)
        return w

    for _ in range(3):
        w = step(w)
    gc.collect()
    start = mx.get_active_memory()
    for _ in range(50):
        w = step(w)
    gc.collect()
    assert mx.get_active_memory() <= start


# Evaluation


def test_eval_takes_trees_and_skips_what_is_no_array(x):
    lazy = [x + i for i in range(4)]
    state = mx.random.state
    assert mx.eval(lazy[0], [lazy[1], {"a": (lazy[2],)}], None, 3, "s", object(), state) is None
    assert mx.eval() is None
    mx.async_eval([lazy[3]], {"b": x})
    assert lazy[3].tolist() == [4, 5, 6]


def test_loops_of_containers_are_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        mx.eval(loop)


def test_other_threads_run_during_evaluation():
    a = mx.random.normal((1200, 1200))
    mx.eval(a)
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    t = threading.Thread(target=tick)
    t.start()
    try:
        start = time.perf_counter()
        while time.perf_counter() - start < 0.3:
            b = a
            for _ in range(4):
                b = mx.tanh(b @ a)
            mx.eval(b)
        seen = len([u for u in ticks if u > start])
    finally:
        stop.set()
        t.join()
    assert seen > 20


def test_threads_evaluate_side_by_side():
    results = {}

    def work(i):
        v = mx.full((1000,), i)
        for _ in range(200):
            v = v + 1
            mx.eval(v)
        results[i] = v.sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {i: 1000 * (200 + i) for i in range(6)}


def test_threads_differentiate_side_by_side(x, y):
    errors = []

    def work(k):
        try:
            for _ in range(50):
                got = mx.grad(lambda a: (a * k * a).sum())(x)
                assert got.tolist() == [2 * k * v for v in X]
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


INTERRUPT = """
import mlx.core as mx, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background comes without
a = mx.random.uniform(shape=(1 << 20,)); mx.eval(a)
def long(n):
    b = a
    for _ in range(n):
        b = mx.sin(b) + 1
    return b
def too_long(): # work for seconds, on a device of any speed
    taken = []
    for _ in range(5):  # the first time kernels are made; others may be at work meanwhile
        start = time.perf_counter()
        mx.eval(long(100))
        taken.append(time.perf_counter() - start)
    return long(max(50000, int(300 / min(taken))))
def soon():
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
"""


def interrupted(code):
    done = subprocess.run([sys.executable, "-c", INTERRUPT + code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ctrl_c_ends_an_evaluation_at_once():
    out = interrupted("""
b = too_long()
soon()
try:
    mx.eval(b)
except KeyboardInterrupt:
    print("interrupted", mx.array([1, 2]).sum().item())
    os._exit(0 if sys.stdout.flush() is None else 1)
""")
    assert out == "interrupted 3\n"


@pytest.mark.parametrize(
    "wait",
    [
        "mx.async_eval(b); mx.synchronize()",
        "mx.save('b.npy', b)",
        "mx.save(open('b.npy', 'wb'), b)",
        "mx.savez('b.npz', b)",
        "mx.save_safetensors('b.safetensors', {'b': b})",
        "mx.save_gguf('b.gguf', {'b': b})",
        "np.array(b)",
    ],
)
def test_ctrl_c_ends_every_wait_for_an_array(wait, tmp_path):
    out = interrupted(f"""
import numpy as np
os.chdir({str(tmp_path)!r})
b = too_long()
soon()
try:
    {wait}
except KeyboardInterrupt:
    left = [name for name in os.listdir() if os.path.getsize(name)]
    print("interrupted", left)
    os._exit(0 if sys.stdout.flush() is None else 1)
""")
    assert out == "interrupted []\n"


def test_ctrl_c_ends_the_wait_for_all_streams():
    """For work without an end; afterwards other streams can be used, and be waited for."""
    out = interrupted("""
other = mx.new_stream(mx.cpu)
with mx.stream(other):
    endless = mx.while_loop(lambda c: True, lambda c: c + 1, mx.array(0))
mx.async_eval(endless)
for _ in range(2):
    soon()
    try:
        mx.clear_streams()
    except KeyboardInterrupt:
        print("interrupted", mx.array([1, 2]).sum().item())
mx.async_eval(b := long(10))
mx.synchronize()
print(mx.isfinite(b.sum()).item())
soon()
try:
    mx.eval(endless)  # gives it up
except KeyboardInterrupt:
    mx.clear_streams()
    print("clear", mx.add(1, 2, stream=other).item())
""")
    assert out == "interrupted 3\ninterrupted 3\nTrue\nclear 3\n"


def test_ctrl_c_while_other_threads_compute():
    out = interrupted("""
b = long(400); mx.async_eval(b)
soon()
try:
    while True:
        mx.eval(b + 1)
except KeyboardInterrupt:
    mx.synchronize()
    print("interrupted", mx.isfinite(b.sum()).item())
""")
    assert out == "interrupted True\n"


def test_a_handler_that_does_not_raise_has_the_evaluation_go_on():
    out = interrupted("""
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(mx.sum(mx.ones(10)).item()))
soon()
while not seen:
    mx.eval(long(300))
print("went on", seen)
""")
    assert out == "went on [10.0]\n"


@pytest.mark.parametrize(
    "inside",
    [
        lambda f, x: mx.compile(f)(x),
        lambda f, x: mx.vmap(f)(x),
        lambda f, x: mx.scan(lambda c, v: (c, f(v)), x[0], x)[1],
    ],
    ids=["compile", "vmap", "scan"],
)
def test_what_a_function_inside_stores_has_no_gradient(inside):
    kept = []

    def loss(x):
        y = inside(lambda v: (kept.append((v * v).sum()), v * 3)[1], x)
        return y.sum() + kept[-1]

    for transform in (mx.grad, mx.value_and_grad):
        with pytest.raises(RuntimeError, match="placeholder .* return it"):
            transform(loss)(mx.array([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="placeholder .* return it"):
        mx.jvp(loss, [mx.array([1.0, 2.0])], [mx.ones(2)])


@pytest.mark.parametrize(
    "around",
    [
        lambda f: mx.vmap(f)(mx.ones((3, 2))),
        lambda f: mx.compile(f)(mx.ones(2)),
        lambda f: mx.scan(lambda c, v: (c, f(v)), mx.zeros(1), mx.ones((3, 2)))[1],
        lambda f: mx.grad(lambda x: (f(x) * x).sum())(mx.ones(2)),
        lambda f: mx.grad(lambda x: mx.vmap(mx.compile(f))(x).sum())(mx.ones((3, 2))),
    ],
    ids=["vmap", "compile", "scan", "grad", "all"],
)
@pytest.mark.parametrize("inside", [mx.compile, mx.vmap], ids=["compile", "vmap"])
def test_nor_has_it_inside_of_another_transform(inside, around):
    kept = []

    def loss(x):
        y = inside(lambda v: (kept.append((v * v).sum()), v * 3)[1])(x)
        return y.sum() + kept[-1]

    for gradient in (mx.grad(loss), lambda x: mx.jvp(loss, [x], [x])[1][0] * x):
        with pytest.raises(RuntimeError, match="is made of a placeholder .* return it"):
            mx.eval(around(gradient))


def test_placeholders_of_transforms_around_have_gradients():
    """Arrays of a trace that is not over are as any others."""

    def twice(x):
        return mx.compile(lambda y: mx.grad(lambda z: (z * z * y * x).sum())(y))(x)

    x = mx.array([1.0, 2.0])
    assert mx.vmap(twice)(x).tolist() == [2.0, 16.0]
    assert mx.compile(twice)(x).tolist() == [2.0, 16.0]
    assert mx.scan(lambda c, v: (c, twice(v)), mx.zeros(1), x)[1].tolist() == [2.0, 16.0]
    assert mx.grad(lambda x: mx.vmap(twice)(x).sum())(x).tolist() == [6.0, 24.0]


def test_a_child_after_fork_computes():
    """On the CPU: a GPU's driver does not work in a child."""
    if mx.default_device() != mx.cpu and mx.cuda.is_available():
        pytest.skip("the default device is a GPU")
    mx.eval(mx.ones((500, 500)) @ mx.ones((500, 500)))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            value = (mx.ones((300, 300)) @ mx.ones((300, 300))).sum().item()
            os.write(write, str(value).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert pipe.read() == str(300.0**3)
    os.waitpid(pid, 0)


def test_the_process_ends_quietly_with_work_and_foreign_memory_left():
    code = """
import mlx.core as mx, numpy as np
a = mx.asarray(np.ones(1000, np.float32), copy=False)
b = mx.grad(lambda t: (t * a).sum())(mx.ones(1000))
mx.async_eval(b @ mx.ones(1000), mx.tanh(mx.ones((2000, 2000))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_sign_of_complex_numbers_turns():
    z, t, h = mx.array([3 + 4j, -1 + 0.5j, 0j]), mx.array([1 + 0j, 0.3 - 2j, 1 + 1j]), 1e-3
    (got,) = mx.jvp(mx.sign, [z], [t])[1]
    near = [np.array(z) + s * h * np.array(t) for s in (1, -1)]
    want = (near[0] / abs(near[0]) - near[1] / abs(near[1])) / (2 * h)
    want[2] = 0
    np.testing.assert_allclose(np.array(got), want, atol=1e-4)

    def size(u):
        return mx.abs(mx.array(1 + 0j) + u * mx.array(1j))

    assert abs(mx.grad(mx.grad(size))(mx.array(2.0)).item() - 5**-1.5) < 1e-5


def test_second_derivatives_of_one_result_of_several():
    x, t, h = mx.array([[2.0, 1], [1, 3]], dtype=mx.float64), mx.array([[0.3, -1], [-1, 0.7]], dtype=mx.float64), 1e-5
    w = mx.array([[1.0, 2], [-0.5, 0.25]], dtype=mx.float64)
    for f in [
        lambda x: (mx.linalg.eigh(x)[0] * w[0]).sum(),
        lambda x: (mx.linalg.svd(x)[1] * w[0]).sum(),
        lambda x: (mx.linalg.qr(x)[0] * w).sum(),
        lambda x: (mx.linalg.qr(x)[1] * w).sum(),
    ]:
        (got,) = mx.jvp(mx.grad(f), [x], [t])[1]
        want = (np.array(mx.grad(f)(x + h * t)) - np.array(mx.grad(f)(x - h * t))) / (2 * h)
        np.testing.assert_allclose(np.array(got), want, atol=1e-6)


def _inside(name):
    """A function of a matrix that is the one result held of an operation that has several."""

    def own(y):
        f = mx.custom_function(lambda a: (mx.sin(a), mx.cos(a)))
        f.vjp(lambda _, ct, out: 3 * ct[0] * out[1])
        return f(y)[0]

    return {
        "attention": lambda y: mx.fast.scaled_dot_product_attention(*[y[None, None]] * 3, scale=0.5),
        "gated_delta": lambda y: mx.fast.gated_delta_update(
            *[mx.stack([y] * 4)[None]] * 3, *[mx.sigmoid(mx.stack([y[0]] * 4))[None]] * 2
        )[1],
        "qr": lambda y: mx.linalg.qr(y)[1],
        "lu": lambda y: mx.linalg.lu(y)[2],
        "slogdet": lambda y: mx.linalg.slogdet(y)[1],
        "svd": lambda y: mx.linalg.svd(y)[1],
        "eigh": lambda y: mx.linalg.eigh(y @ y.T)[1],
        "scan": lambda y: mx.scan(lambda c, a: (c * a, mx.sin(c)), y[0], y)[0],
        "cond": lambda y: mx.cond(y.sum() > -99, lambda a: (a * 2, a * 3), lambda a: (a, a), y)[0],
        "checkpoint": lambda y: mx.checkpoint(lambda a: (mx.sin(a), mx.cos(a)))(y)[0],
        "compile": lambda y: mx.compile(lambda a: (mx.sin(a), mx.cos(a)))(y)[0],
        "custom": own,
        "split": lambda y: mx.split(y, [1], axis=1)[0],
    }[name]


INSIDE = ["attention", "gated_delta", "qr", "lu", "slogdet", "svd", "eigh", "scan", "cond", "checkpoint", "compile",
          "custom", "split"]  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_one_result_of_several_may_be_looked_at_inside(name):
    x = mx.random.normal((3, 3), key=mx.random.key(4))
    f, kept = _inside(name), []

    def loss(y, look):
        y = f(y)
        look(y)
        return (y * y).sum()

    def keep(y):
        mx.eval(y)
        kept.append((y, np.array(y, copy=False), np.array(y)))

    want = np.array(mx.grad(lambda y: loss(y, lambda z: None))(x))
    for look in mx.eval, mx.async_eval, lambda y: mx.isnan(y).any().item(), keep:
        np.testing.assert_allclose(np.array(mx.grad(lambda y, at=look: loss(y, at))(x)), want, rtol=1e-4, atol=1e-5)
    for y, view, values in kept:
        assert np.array(y, copy=False).ctypes.data == view.ctypes.data
        np.testing.assert_array_equal(view, values)


def test_second_derivatives_of_what_is_looked_at_inside():
    x = mx.random.normal((3, 3), key=mx.random.key(4))

    def twice(look):
        def loss(y):
            y = mx.linalg.qr(y)[1]
            look(y)
            return (y**4).sum()

        return np.array(mx.grad(lambda y: (mx.grad(loss)(y) ** 2).sum())(x))

    np.testing.assert_allclose(twice(mx.eval), twice(lambda y: None), rtol=1e-3, atol=1e-4)


def test_masks_inside(x):
    def loss(w):
        h = mx.fast.scaled_dot_product_attention(w, w, w, scale=0.3)
        return (h[h > 0] ** 2).sum(), (mx.where(h > 0, h, 0) ** 2).sum()

    w = mx.random.normal((1, 2, 6, 8), key=mx.random.key(3))
    masked, whole = (mx.grad(lambda w, k=k: loss(w)[k])(w) for k in range(2))
    assert mx.allclose(masked, whole, atol=1e-5).item()


def test_results_kept_from_a_function_that_is_over():
    kept = []

    def loss(y):
        kept[:] = mx.linalg.qr(y)
        mx.eval(kept)
        return kept[1].sum()

    x = mx.random.normal((3, 3), key=mx.random.key(4))
    want = mx.grad(loss)(x)
    mx.eval(kept[0])
    del kept[0]
    (r,) = kept
    assert mx.allclose(mx.grad(lambda y: (r * y).sum())(x), r).item()
    assert mx.allclose(mx.grad(loss)(x), want).item()


# What another thread sees of a function that is differentiated


def _elsewhere(f, *args):
    got = []
    t = threading.Thread(target=lambda: got.append(f(*args)))
    t.start()
    t.join()
    return got[0]


@pytest.mark.parametrize("look", [mx.eval, mx.async_eval, str, lambda y: y.tolist(), lambda y: mx.eval(-y)])
def test_another_thread_looks_at_what_is_differentiated(look):
    def f(x):
        y = mx.sin(x)
        _elsewhere(look, y)
        return (y * y).sum()

    x = mx.array([1.0, 2, 3])
    assert mx.allclose(mx.grad(f)(x), mx.sin(2 * x), atol=1e-5).item()
    assert mx.allclose(mx.jvp(f, [x], [x])[1][0], (x * mx.sin(2 * x)).sum(), atol=1e-5).item()
    first = mx.grad(lambda y: mx.grad(f)(y).sum())(x)
    assert mx.allclose(first, 2 * mx.cos(2 * x), atol=1e-5).item()


def _tripled(y):
    f = mx.custom_function(mx.sin)
    f.vjp(lambda x, ct, _: 3 * ct * mx.cos(x))
    return f(y) / 3


BUILT = [
    mx.sin,
    lambda y: y.reshape(3, 1),
    lambda y: mx.broadcast_to(y.reshape(3, 1).T, (2, 3)),
    lambda y: y[::-1],
    lambda y: mx.split(y, 3)[1],
    mx.checkpoint(mx.sin),
    mx.compile(lambda y: mx.sin(y) * 2),
    lambda y: mx.scan(lambda c, a: (mx.sin(c * a),) * 2, mx.array(0.5), y)[0],
    lambda y: mx.vmap(mx.sin)(y),
    lambda y: mx.vmap(_tripled)(y),
    _tripled,
    mx.grad(lambda y: (y**3).sum()),
    lambda y: mx.stop_gradient(y) * y,
]


@pytest.mark.parametrize("f", BUILT)
@pytest.mark.parametrize("look", [lambda y: None, mx.eval])
def test_another_thread_builds_what_is_differentiated(f, look):
    def g(x, call):
        y = call(f, x)
        look(y)
        return (y * y).sum()

    x = mx.array([0.3, 0.2, 0.1])
    got, want = (mx.grad(lambda x, c=call: g(x, c))(x) for call in (_elsewhere, lambda f, x: f(x)))
    assert mx.allclose(got, want, atol=1e-5).item(), (got, want)


def test_own_rules_are_asked_on_another_thread():
    f = mx.custom_function(mx.sin)
    f.vjp(lambda x, ct, _: 5 * ct)
    assert mx.grad(lambda x: _elsewhere(f, x).sum())(mx.array([1.0, 2])).tolist() == [5, 5]
    assert mx.grad(lambda x: _elsewhere(lambda: f(x * 1)).sum())(mx.array([1.0, 2])).tolist() == [5, 5]
    assert mx.grad(lambda x: _elsewhere(mx.vmap(f), x).sum())(mx.array([1.0, 2])).tolist() == [5, 5]


def test_a_logger_that_evaluates_what_it_is_given():
    published, over, x = {}, threading.Event(), mx.array([0.1, 0.2, 0.3])

    def log():
        while not over.is_set():
            for y in list(published.values()):
                mx.eval(y)

    def f(x):
        y = x
        for k in range(4):
            y = mx.sin(y) + x
            published[k] = y
        return (y * y).sum()

    want = mx.grad(f)(x)
    mx.eval(want)
    threads = [threading.Thread(target=log) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(200):
            assert mx.allclose(mx.grad(f)(x), want, atol=1e-5).item()
    finally:
        over.set()
        for t in threads:
            t.join()


def test_memory_does_not_grow_while_another_thread_traces():
    def train(steps):
        w, x = mx.zeros((100, 100)), mx.ones((10, 100))
        used = []
        for _ in range(steps):
            w = w - 0.1 * mx.grad(lambda w: ((x @ w - x) ** 2).mean())(w)
            mx.eval(w)
            used.append(mx.get_active_memory())
        return used

    def f(x):
        used = _elsewhere(train, 30)
        assert max(used[3:]) <= used[2]
        return mx.sin(x)

    assert mx.allclose(mx.grad(f)(mx.array(1.0)), mx.cos(mx.array(1.0))).item()
