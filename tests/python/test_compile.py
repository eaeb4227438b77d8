"""mx.compile: caching, captured state, composition, errors, what it tells."""

import collections
import dataclasses
import gc
import math
import os
import subprocess
import sys
import weakref
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx.utils
import numpy as np
import pytest


def counted(fun):
    """fun with a list that grows by one each time Python runs it."""
    calls = []

    def wrapper(*args, **kwargs):
        calls.append(1)
        return fun(*args, **kwargs)

    return wrapper, calls


def same(a, b):
    np.testing.assert_array_equal(np.array(a), np.array(b))


# The document on compiling


def test_same_output_and_cached():
    def fun(x, y):
        return mx.exp(-x) + y

    fun, calls = counted(fun)
    x, y = mx.array(1.0), mx.array(2.0)
    assert str(fun(x, y)) == "array(2.36788, dtype=float32)"
    calls.clear()
    compiled = mx.compile(fun)
    assert str(compiled(x, y)) == "array(2.36788, dtype=float32)"
    compiled(x, y)
    assert len(calls) == 1
    mx.compile(fun)(x, y)
    assert len(calls) == 2


def test_traces_are_those_of_one_compiled_function():
    weight = [mx.array(1.0)]

    def fun(x):
        return x * weight[0]

    first = mx.compile(fun)
    x = mx.array(2.0)
    assert first(x).item() == 2
    weight[0] = mx.array(5.0)
    second = mx.compile(fun)
    assert second(x).item() == 10 and first(x).item() == 2
    assert mx.compile(fun)(x).item() == 10
    shapeless = mx.compile(fun, shapeless=True)
    weight[0] = mx.array(7.0)
    assert shapeless(x).item() == 14 and second(x).item() == 10


def test_traces_go_with_the_compiled_function():
    big = [mx.zeros((1 << 20,))]
    compiled = mx.compile(lambda x: x + big[0])
    mx.eval(compiled(mx.array(1.0)))
    gc.collect()
    before = mx.get_active_memory()
    big.clear()
    assert mx.get_active_memory() == before
    del compiled
    gc.collect()
    assert mx.get_active_memory() <= before - (4 << 20)


def test_a_compiled_method_in_a_cycle_is_collected():
    class Model:
        def __init__(self):
            self.step = mx.compile(self.step_, inputs=[self.__dict__])

        def step_(self, x, f=None):
            return x + 1

    model = Model()
    model.step(mx.array(1.0), f=model.step_)  # a constant of the trace
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "again",
    [
        (mx.zeros((3,)), mx.zeros((3,))),  # the shape
        (mx.zeros((1, 2)), mx.zeros((1, 2))),  # the number of dimensions
        (mx.zeros((2,), mx.int32), mx.zeros((2,), mx.int32)),  # the type
        (mx.zeros((2,)), mx.zeros((2,)), mx.zeros((2,))),  # the number of inputs
        (mx.zeros((2,)), 2.0),  # an array that is a constant now
    ],
)
def test_what_is_traced_anew(again):
    fun, calls = counted(lambda *args: sum(args))
    compiled = mx.compile(fun)
    first = (mx.ones((2,)), mx.ones((2,)))
    compiled(*first)
    same(compiled(*again), sum(again))
    assert len(calls) == 2
    compiled(*first)
    compiled(*again)
    assert len(calls) == 2


def test_constants_are_told_apart():
    fun, calls = counted(lambda x, c: x if c is None else x * c)
    compiled = mx.compile(fun)
    x = mx.array([1.0, 2.0])
    constants = [1, 1.0, True, 2, None, -0.0, 0.0]
    for c in constants:
        expected = x if c is None else x * c
        got = compiled(x, c)
        assert got.dtype == expected.dtype
        same(got, expected)
        if isinstance(c, float) and c == 0:
            same(np.signbit(np.array(got)), np.signbit(np.array(expected)))
    assert len(calls) == len(constants)
    compiled(x, float("nan"))
    compiled(x, float("nan"))
    assert len(calls) == len(constants) + 1
    compiled(x, c="text" and 3)
    compiled(x, c=3)
    assert len(calls) == len(constants) + 2


def test_lambdas_in_a_loop_leave_nothing_behind():
    a = mx.array(1.0)
    gone = []
    for _ in range(5):
        f = lambda x: mx.exp(mx.abs(x))  # noqa: E731
        gone.append(weakref.ref(f))
        same(mx.compile(f)(a), mx.exp(a))
    del f
    gc.collect()
    assert not any(r() for r in gone)


def test_gelu_gives_the_same():
    def gelu(x):
        return x * (1 + mx.erf(x / math.sqrt(2))) / 2

    x = mx.random.uniform(shape=(32, 100))
    same(mx.compile(gelu)(x), gelu(x))
    same(mx.compile(nn.gelu)(x), nn.gelu(x))


def test_printing_a_placeholder_says_where():
    @mx.compile
    def fun(x):
        z = -x
        print(z)
        return mx.exp(z)

    with pytest.raises(RuntimeError, match=r"fun .*test_compile.py, line \d+\), which is being compiled \(line \d+\)"):
        fun(mx.array(5.0))


@pytest.mark.parametrize("look", [lambda x: x.item(), lambda x: np.array(x), lambda x: x.tolist(), lambda x: bool(x)])
def test_values_cannot_be_had_while_tracing(look):
    with pytest.raises(RuntimeError, match="being compiled"):
        mx.compile(lambda x: x if look(x) else -x)(mx.array(1.0))


def test_disable_compile(capsys):
    fun, calls = counted(lambda x: print(-x) or mx.exp(-x))
    compiled = mx.compile(fun)
    mx.disable_compile()
    try:
        same(compiled(mx.array(5.0)), mx.exp(mx.array(-5.0)))
        compiled(mx.array(5.0))
    finally:
        mx.enable_compile()
    assert capsys.readouterr().out.count("array(-5, dtype=float32)") == 2
    assert len(calls) == 2
    with pytest.raises(RuntimeError):
        compiled(mx.array(5.0))


def test_the_environment_disables_it():
    code = "import mlx.core as mx; mx.compile(lambda x: print(x) or x)(mx.array(3))"
    for value, works in (("1", True), ("0", False)):
        run = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "MLX_DISABLE_COMPILE": value},
            capture_output=True,
            text=True,
        )
        assert (run.returncode == 0) == works, run.stderr
        assert ("array(3, dtype=int32)" in run.stdout) == works


def test_side_effects_leave_a_placeholder():
    state = []

    @mx.compile
    def fun(x, y):
        z = x + y
        state.append(z)
        return mx.exp(z)

    fun(mx.array(1.0), mx.array(2.0))
    with pytest.raises(RuntimeError, match="placeholder"):
        print(state)


def test_state_as_a_result():
    state = []

    @mx.compile
    def fun(x, y):
        z = x + y
        state.append(z)
        return mx.exp(z), state

    _, got = fun(mx.array(1.0), mx.array(2.0))
    assert str(got) == "[array(3, dtype=float32)]"


def test_captured_outputs():
    state = []

    @partial(mx.compile, outputs=state)
    def fun(x, y):
        z = x + y
        state.append(z)
        return mx.exp(z), state

    fun(mx.array(1.0), mx.array(2.0))
    assert str(state) == "[array(3, dtype=float32)]"
    fun(mx.array(2.0), mx.array(2.0))
    assert str(state) == "[array(3, dtype=float32), array(4, dtype=float32)]"
    state.clear()
    fun(mx.array(5.0), mx.array(2.0))
    assert str(state) == "[array(7, dtype=float32)]"


def test_captured_inputs():
    state = [mx.array(1.0)]
    frozen = mx.compile(lambda x: x + state[0])
    live = mx.compile(lambda x: x + state[0], inputs=state)
    x = mx.array(1.0)
    assert (frozen(x).item(), live(x).item()) == (2, 2)
    state[0] = mx.array(5.0)
    assert (frozen(x).item(), live(x).item()) == (2, 6)
    assert state[0].item() == 5


def train(compile_step, steps=10):
    mx.random.seed(3)
    x = mx.random.uniform(shape=(4, 10))
    y = mx.array([0, 1, 0, 1])
    model = nn.Linear(10, 1)
    optimizer = optim.SGD(learning_rate=0.1, momentum=0.8)

    def loss_fn(model, x, y):
        return nn.losses.binary_cross_entropy(model(x).squeeze(), y)

    state = [model.state, optimizer.state]

    def step(x, y):
        loss, grads = nn.value_and_grad(model, loss_fn)(model, x, y)
        optimizer.update(model, grads)
        return loss

    if compile_step:
        step, calls = counted(step)
        step = mx.compile(step, inputs=state, outputs=state)
    losses = []
    for _ in range(steps):
        losses.append(step(x, y).item())
        mx.eval(state)
    if compile_step:
        assert len(calls) <= 2  # the second time the optimizer has its state
    return losses, model.weight


def test_a_training_step():
    plain, weight = train(False)
    compiled, compiled_weight = train(True)
    np.testing.assert_allclose(plain, compiled, rtol=1e-6)
    np.testing.assert_allclose(np.array(weight), np.array(compiled_weight), rtol=1e-5)
    assert compiled[-1] < compiled[0]


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Lion", "RMSprop", "Adagrad", "AdaDelta", "Adamax"])
def test_optimizers(name):
    def run(compiled):
        mx.random.seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = getattr(optim, name)(learning_rate=optim.cosine_decay(0.05, 20))
        optimizer.init(model.trainable_parameters())
        state = [model.state, optimizer.state]
        x, y = mx.random.normal((16, 4)), mx.random.normal((16, 1))

        def step(x, y):
            loss, grads = nn.value_and_grad(model, lambda m, x, y: ((m(x) - y) ** 2).mean())(model, x, y)
            optimizer.update(model, grads)
            return loss

        step = mx.compile(step, inputs=state, outputs=state) if compiled else step
        losses = []
        for _ in range(6):
            losses.append(step(x, y).item())
            mx.eval(state)
        return losses

    np.testing.assert_allclose(run(True), run(False), rtol=2e-5)


def test_random_state_is_captured():
    layer = nn.Dropout(0.5)
    state = [mx.random.state]
    x = mx.ones((64,))
    live = mx.compile(lambda x: layer(x), inputs=state, outputs=state)
    frozen = mx.compile(lambda x: layer(x) + 0)
    mx.random.seed(7)
    a, b = live(x), live(x)
    assert not mx.array_equal(a, b)
    mx.random.seed(7)
    same(layer(x), a)
    same(layer(x), b)
    assert mx.array_equal(frozen(x), frozen(x))


def test_objects_of_registered_types_are_captured():
    class Point:
        def __init__(self, x, note):
            self.x, self.note = x, note

    mlx.utils.register_tree_node(Point, lambda p: ((p.x,), p.note), lambda note, children: Point(*children, note))
    p = Point(mx.array(1.0), "kept")
    state = [p]

    def step(y):
        p.x = p.x * 2 + y
        return p.x + 0

    compiled = mx.compile(step, inputs=state, outputs=state)
    for expected in (3, 7, 15):
        assert compiled(mx.array(1.0)).item() == expected == p.x.item()
    assert state[0] is p and p.note == "kept"

    def fails(y):
        p.x = p.x + y
        raise KeyError

    with pytest.raises(KeyError):
        mx.compile(fails, inputs=state, outputs=state)(mx.array(1.0))
    assert p.x.item() == 15


def test_compile_of_transforms():
    x = mx.array(1.0)
    grad = mx.grad(mx.exp)
    assert str(grad(x)) == str(mx.compile(grad)(x)) == "array(2.71828, dtype=float32)"
    f = lambda x: mx.sin(x) * x  # noqa: E731
    expected = mx.grad(mx.grad(f))(x)
    for g in (
        mx.grad(mx.compile(mx.grad(f))),
        mx.compile(mx.grad(mx.grad(mx.compile(f)))),
        mx.grad(mx.grad(mx.compile(f))),
    ):
        np.testing.assert_allclose(g(x).item(), expected.item(), rtol=1e-6)
    xs = mx.linspace(0, 1, 5)
    same(mx.vmap(mx.compile(f))(xs), f(xs))
    same(mx.compile(mx.vmap(f))(xs), f(xs))
    (y,), (dy,) = mx.jvp(mx.compile(f), [x], [mx.array(2.0)])
    np.testing.assert_allclose(dy.item(), 2 * mx.grad(f)(x).item(), rtol=1e-6)


def test_nested():
    inner, inner_calls = counted(lambda x: mx.exp(-mx.abs(x)))
    inner = mx.compile(inner)
    outer, outer_calls = counted(lambda x: inner(inner(x)))
    outer = mx.compile(outer)
    x = mx.array([-1.0, 2.0])
    expected = mx.exp(-mx.abs(mx.exp(-mx.abs(x))))
    same(outer(x), expected)
    same(outer(x), expected)
    assert len(outer_calls) == 1 and len(inner_calls) == 1


def test_another_stream_is_another_trace():
    compiled = mx.compile(lambda x: x + 1)
    s = mx.new_stream(mx.cpu)
    compiled(mx.array(1))
    with mx.stream(s):
        same(compiled(mx.array(1)), 2)
    assert compiled.trace_count == 2 and "another stream" in compiled.explain()
    same(compiled(mx.array(2)), 3)
    assert compiled.trace_count == 2


# The cache


def test_the_cache_is_bounded():
    fun, calls = counted(lambda x: x + 1)
    compiled = mx.compile(fun)
    assert compiled.cache_size == 64
    compiled.cache_size = 2
    for n in (1, 2, 1, 3, 1):
        same(compiled(mx.zeros((n,))), np.ones(n))
    assert len(calls) == 3  # 1 was used last when 3 came: 2 went
    compiled(mx.zeros((2,)))
    assert len(calls) == 4
    assert compiled.trace_count == 4
    with pytest.raises(ValueError, match="room for one"):
        compiled.cache_size = 0


def test_many_traces_warn_once():
    compiled = mx.compile(lambda x: x + 1)
    with pytest.warns(RuntimeWarning, match="traced more than 32 times") as seen:
        for n in range(40):
            compiled(mx.zeros((n + 1,)))
    assert len(seen) == 1


def test_explain():
    def fun(x, y, mode=1):
        return mx.sum(x * mode + y)

    compiled = mx.compile(fun)
    a = mx.zeros((2, 3))
    compiled(a, a)
    compiled(mx.zeros((4, 3)), mx.zeros((4, 3)))
    compiled(a, a, mode=2)
    compiled(a.astype(mx.float16), a)
    text = compiled.explain().splitlines()
    assert len(text) == 5 and "4 traces" in text[0]
    assert "first call" in text[1] and "operations" in text[1] and " ms" in text[1]
    assert "x: float32 (2, 3) -> float32 (4, 3)" in text[2] and "y: float32" in text[2]
    assert "constant" in text[3] or "structure" in text[3]
    assert "x: float32 (2, 3) -> float16 (2, 3)" in text[4]


def test_the_log():
    code = "import mlx.core as mx; f = mx.compile(lambda x: x + 1); f(mx.zeros(2)); f(mx.zeros(3))"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "MLX_LOG": "compile"}, capture_output=True, text=True
    )
    assert run.returncode == 0
    lines = run.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("[compile] ") for line in lines)
    assert "float32 (2,) -> float32 (3,)" in lines[1]


# Graphs


def operations(compiled, *args):
    compiled(*args)
    line = compiled.explain().splitlines()[-1]
    return int(line.split(" operation")[0].split()[-1])


def test_common_subexpressions_are_merged():
    x = mx.array([1.0, 2.0])
    assert operations(mx.compile(lambda x: mx.exp(x) + mx.exp(x)), x) == 2
    assert operations(mx.compile(lambda x: (x * 2.0) + (x * 2.0)), x) == 3  # a broadcast 2, multiply, add
    assert operations(mx.compile(lambda x: mx.exp(x) + mx.expm1(x)), x) == 3


def test_two_identical_operations_with_several_results():
    def fun(x):
        a = x + 1
        return sum(mx.divmod(a, 2.0)) + sum(mx.divmod(a, 2.0)) + sum(mx.split(a, 2)).sum() + sum(mx.split(a, 2)).sum()

    x = mx.arange(4.0)
    same(mx.compile(fun)(x), fun(x))

    def factors(x):
        q, r = mx.linalg.qr(x @ x, stream=mx.cpu)
        q2, r2 = mx.linalg.qr(x @ x, stream=mx.cpu)
        return q @ r + q2 @ r2

    x = mx.random.normal((3, 3))
    compiled = mx.compile(factors)
    np.testing.assert_allclose(np.array(compiled(x)), 2 * np.array(x @ x), rtol=1e-4, atol=1e-5)


def test_dead_branches_and_constants():
    def fun(x):
        mx.exp(x) + 1  # nobody wants it
        table = mx.sin(mx.arange(1000.0)).sum()  # the same in every call
        return x + table

    x = mx.array(1.0)
    compiled = mx.compile(fun)
    assert operations(compiled, x) == 1
    same(compiled(x), fun(x))


def test_results_that_are_arguments_or_constants():
    a = mx.array([1, 2])
    compiled = mx.compile(lambda x, y: (x, x, a, [y], {"z": 3, "x": x}, None, "text"))
    x, y = mx.array(1.0), mx.array(2.0)
    got = compiled(x, y)
    got = compiled(y, x)
    assert got[0].item() == 2 and got[3][0].item() == 1
    assert got[4]["z"] == 3 and got[5] is None and got[6] == "text"
    same(got[2], a)


def test_no_arguments_and_no_results():
    assert mx.compile(lambda: mx.array(3))().item() == 3
    assert mx.compile(lambda x: None)(mx.array(1)) is None


def test_trees_and_keywords():
    def fun(tree, scale=1.0, *, more=None):
        return {"a": tree["a"] * scale, "b": [t + 1 for t in tree["b"]], "more": more}

    compiled = mx.compile(fun)
    tree = {"a": mx.array(2.0), "b": [mx.array(1), (mx.array(2))]}
    got = compiled(tree, scale=3.0, more=mx.array(7))
    assert got["a"].item() == 6 and [b.item() for b in got["b"]] == [2, 3] and got["more"].item() == 7
    got = compiled(tree, scale=mx.array(4.0), more=None)
    assert got["a"].item() == 8 and got["more"] is None


def test_arguments_that_it_does_not_take():
    class Thing:
        pass

    with pytest.raises(ValueError, match=r"\[compile\] expected arguments that are trees .* got Thing"):
        mx.compile(lambda x, t: x)(mx.array(1), Thing())
    with pytest.raises(ValueError, match="got ndarray"):
        mx.compile(lambda x: x)(np.zeros(2))
    with pytest.raises(TypeError):
        mx.compile(3)
    with pytest.raises(TypeError, match="inputs"):
        mx.compile(lambda x: x, inputs=mx.array(1))


def test_an_exception_comes_out_and_state_is_put_back():
    class Odd(Exception):
        pass

    state = {"a": mx.array(1.0), "more": [mx.array(2.0)]}
    key = mx.array(mx.random.state[0])
    captured = [state, mx.random.state]

    @partial(mx.compile, inputs=captured, outputs=captured)
    def fun(x):
        state["a"] = state["a"] + x
        state["more"].append(x)
        state["new"] = x
        mx.random.uniform()
        raise Odd("as raised")

    for _ in range(2):
        with pytest.raises(Odd, match="as raised"):
            fun(mx.array(1.0))
        assert state["a"].item() == 1 and len(state["more"]) == 1 and "new" not in state
        same(mx.random.state[0], key)
        mx.random.uniform()
        mx.random.state[0] = key


def test_an_error_at_evaluation_leaves_a_usable_function(index_errors):
    compiled = mx.compile(lambda x, i: x[i])
    x = mx.arange(4)
    with pytest.raises(IndexError):
        mx.eval(compiled(x, mx.array([9])))
    same(compiled(x, mx.array([1])), [1])


def test_a_tracer_of_another_transform_is_no_constant():
    def outer(x):
        inner = mx.compile(lambda y: y * x)
        return inner(mx.array(3.0)) + inner(x)

    np.testing.assert_allclose(mx.grad(outer)(mx.array(2.0)).item(), 3 + 4)
    np.testing.assert_allclose(np.array(mx.vmap(outer)(mx.array([1.0, 2.0]))), [4, 10])


def test_a_compiled_function_in_a_class_is_no_method():
    class Model:
        double = mx.compile(lambda x: x * 2)

        @mx.compile
        def triple(x):
            return x * 3

        def __call__(self, x):
            return self.double(x) + self.triple(x)

    x = mx.array(2.0)
    assert Model.triple(x).item() == 6 and Model()(x).item() == 10
    assert Model().double is Model.double

    class Activations(nn.Module):
        relu, gelu = nn.relu, nn.gelu

    assert Activations().relu(x).item() == 2 and Activations().gelu is nn.gelu


def test_as_a_wrapper():
    def fun(x):
        return x

    assert mx.compile(fun).__wrapped__ is fun
    assert "compiled" in repr(mx.compile(fun))


def test_data_dependent_shapes_say_what_to_do():
    with pytest.raises((ValueError, RuntimeError), match="where|size|compil"):
        mx.compile(lambda x: x[x > 0])(mx.arange(3))


def test_inputs_are_not_kept():
    compiled = mx.compile(lambda x: x + 1)
    x = mx.zeros((1 << 20,))
    mx.eval(x, compiled(x))
    before = mx.get_active_memory()
    x = None
    assert mx.get_active_memory() <= before - (1 << 22)


# Any shape


def shapeless(fun, *calls):
    """fun compiled for any shape and called; how often it was traced."""
    fun, traces = counted(fun)
    compiled = mx.compile(fun, shapeless=True)
    for args in calls:
        got, expected = compiled(*args), fun(*args)
        traces.pop()
        got, expected = (t if isinstance(t, (list, tuple)) else [t] for t in (got, expected))
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            assert g.shape == e.shape and g.dtype == e.dtype
            np.testing.assert_allclose(np.array(g), np.array(e), rtol=1e-5, atol=1e-6)
    return len(traces)


def test_scalars_then_vectors():
    add = lambda x, y: mx.abs(x + y)  # noqa: E731
    calls = [(mx.array(1.0), mx.array(-2.0)), (mx.array([1.0, -6.0]), mx.array([-2.0, 3.0]))]
    assert shapeless(add, *calls, (mx.ones((2, 1)), mx.ones((3,)))) == 1


def test_a_reshape_to_the_traced_sizes_fails():
    compiled = mx.compile(lambda x: x.reshape(x.shape[0] * x.shape[1], -1), shapeless=True)
    compiled(mx.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match=r"\[reshape\].*\(5,5,3\).*\(6,-1\)"):
        compiled(mx.zeros((5, 5, 3)))
    assert compiled(mx.zeros((4, 3, 2))).shape == (12, 2)  # fits 6, so nothing failed: traced anew, never stale


@pytest.mark.parametrize("f", [lambda x: x.reshape(x.shape) * 2, lambda x: (x.T * 2).reshape(x.shape)])
def test_a_reshape_to_a_shape_that_is_looked_at(f):
    compiled = mx.compile(f, shapeless=True)
    for shape in ((2, 3), (5, 7), (7, 5), (0, 3)):
        x = mx.arange(shape[0] * shape[1]).reshape(shape)
        assert mx.array_equal(compiled(x), f(x))


def test_flatten_follows():
    assert shapeless(lambda x: x.flatten(0, 1), (mx.zeros((2, 3, 4)),), (mx.zeros((5, 5, 3)),)) == 1


FOLLOWS = [
    lambda x: x * 2 + 1,
    lambda x: x + x.T.T,
    lambda x: x.sum(),
    lambda x: x.sum(axis=0),
    lambda x: mx.prod(x, axis=1, keepdims=True),
    lambda x: x - x.max(axis=-1, keepdims=True),
    lambda x: x.min(axis=0) + x,
    lambda x: mx.mean(x),
    lambda x: mx.mean(x, axis=-1),
    lambda x: mx.var(x, axis=0, ddof=1) if False else mx.var(x, axis=1),
    lambda x: mx.std(x, axis=-1),
    lambda x: mx.all(x > 0.5, axis=0),
    lambda x: mx.any(x > 0.5),
    lambda x: mx.softmax(x, axis=-1),
    lambda x: mx.logsumexp(x, axis=-1, keepdims=True),
    lambda x: mx.argmax(x, axis=1),
    lambda x: mx.argmin(x, axis=0),
    lambda x: mx.sort(x, axis=-1),
    lambda x: mx.argsort(x, axis=0),
    lambda x: mx.cumsum(x, axis=0),
    lambda x: mx.cumprod(x, axis=1, reverse=True),
    lambda x: mx.cummax(x, axis=1),
    lambda x: mx.logcumsumexp(x, axis=1),
    lambda x: x @ mx.ones((4, 5)),
    lambda x: x.T @ x,
    lambda x: mx.addmm(mx.ones((5,)), x, mx.ones((4, 5)), 2.0, 0.5),
    lambda x: x.T,
    lambda x: mx.swapaxes(x, 0, 1),
    lambda x: mx.moveaxis(x, 0, -1),
    lambda x: mx.expand_dims(x, 1),
    lambda x: mx.squeeze(mx.expand_dims(x, 1), 1),
    lambda x: x.flatten(),
    lambda x: mx.unflatten(x, 1, (2, -1)),
    lambda x: x.reshape(-1),
    lambda x: x.reshape(-1, 2, 2),
    lambda x: mx.concatenate([x, x + 1], axis=0),
    lambda x: mx.stack([x, -x], axis=1),
    lambda x: mx.broadcast_to(x[None], (2, *x.shape)) if False else mx.broadcast_arrays(x, mx.zeros((4,)))[1],
    lambda x: mx.zeros_like(x) + mx.ones_like(x) * 2,
    lambda x: mx.full_like(x, 3),
    lambda x: mx.zeros_like(x, dtype=mx.int32),
    lambda x: mx.where(x > 0.5, x, 0),
    lambda x: mx.clip(x, 0.2, 0.7),
    lambda x: mx.isnan(x),
    lambda x: mx.isnan(x.astype(mx.int32)),
    lambda x: mx.isfinite(x.astype(mx.int32)),
    lambda x: mx.nan_to_num(x),
    lambda x: mx.isclose(x, x + 1e-9),
    lambda x: mx.round(x, 2),
    lambda x: mx.divmod(x, 0.3),
    lambda x: x.astype(mx.float16).astype(mx.float32),
    lambda x: mx.fast.rms_norm(x, None, 1e-5),
    lambda x: mx.fast.layer_norm(x, mx.ones((4,)), mx.zeros((4,)), 1e-5),
    lambda x: nn.gelu(x),
    lambda x: nn.silu(x) * nn.softplus(x) + nn.gelu_approx(x) + nn.mish(x),
    lambda x: nn.Linear(4, 2)(x) * 0,
    lambda x: mx.stop_gradient(x) + mx.degrees(x) + mx.reciprocal(x + 1),
]


@pytest.mark.parametrize("i", range(len(FOLLOWS)))
def test_follows_the_shape(i):
    calls = [(mx.random.uniform(shape=s),) for s in ((3, 4), (6, 4), (1, 4), (2, 4))]
    assert shapeless(FOLLOWS[i], *calls) == 1


def test_the_rank_matters_to_most():
    calls = [(mx.array(2.0),), (mx.ones((3,)),), (mx.ones((2, 2)),)]
    assert shapeless(lambda x: x.sum(), *calls) == 3
    assert shapeless(lambda x: x.T, *calls) == 3


TIED = [
    lambda x: x[:, 0],
    lambda x: x[-1],
    lambda x: mx.zeros(x.shape) + x,
    lambda x: x * x.size,
    lambda x: x if x.shape[0] > 2 else -x,
    lambda x: sum(row for row in x),
    lambda x: mx.split(x, 2, axis=1)[0],
    lambda x: mx.tile(x, (2, 1)),
    lambda x: mx.repeat(x, 2, axis=0),
    lambda x: mx.pad(x, 1),
    lambda x: mx.softmax(x, axis=0),
    lambda x: mx.softmax(x),
    lambda x: x.squeeze(),
    lambda x: mx.tril(x),
    lambda x: mx.roll(x, 1),
    lambda x: mx.take(x, mx.array([0]), axis=0),
    lambda x: mx.grad(lambda x: (x * x).mean())(x),
    lambda x: mx.vmap(lambda r: r.sum())(x),
    lambda x: mx.fft.rfft(x).abs(),
    lambda x: mx.einsum("ij,kj->ik", x, x),
    lambda x: mx.arange(x.shape[0])[:, None] + x,
    lambda x: mx.outer(x[0], x[0]),
    lambda x: mx.median(x, axis=0),
    lambda x: len(x) + x,
    lambda x: mx.cummax(x, axis=1, inclusive=False),
]


@pytest.mark.parametrize("i", range(len(TIED)))
def test_never_stale(i):
    calls = [(mx.random.uniform(shape=s),) for s in ((3, 4), (6, 4), (1, 4), (3, 4), (5, 2), (4, 4))]
    assert shapeless(TIED[i], *calls) <= 5


def test_what_happens_is_explained():
    compiled = mx.compile(lambda x: x * x.shape[0], shapeless=True)
    compiled(mx.ones((2,)))
    compiled(mx.ones((3,)))
    assert "looks at a shape" in compiled.explain()
    compiled = mx.compile(lambda x: mx.squeeze(x), shapeless=True)
    compiled(mx.ones((2,)))
    compiled(mx.ones((3,)))
    assert "shapes matter to squeeze" in compiled.explain()


def test_shapeless_inside_and_around():
    inner = mx.compile(lambda x: x * 2 + 1, shapeless=True)
    exact = mx.compile(lambda x: x - 1)
    both = lambda x: exact(inner(x)).sum(axis=0)  # noqa: E731
    assert shapeless(both, (mx.ones((2, 3)),), (mx.ones((5, 3)),), (mx.ones((1, 1)),)) == 1
    x = mx.arange(3.0)
    same(mx.grad(lambda x: inner(x).sum())(x), [2, 2, 2])
    same(mx.grad(lambda x: inner(x).sum())(mx.ones((2, 2))), np.full((2, 2), 2))


def test_what_shapes_allow_is_still_checked():
    for f, first, then in [
        (lambda x, y: x @ y, ((2, 3), (3, 2)), ((2, 500), (3, 4))),
        (lambda x, w: mx.fast.rms_norm(x, w, 1e-5), ((2, 3), (3,)), ((2, 500), (3,))),
        (lambda x, w: mx.fast.layer_norm(x, w, w, 1e-5), ((2, 3), (3,)), ((2, 5), (3,))),
        (lambda x, y: mx.addmm(y, x, mx.ones((3, 2))), ((2, 3), (2,)), ((2, 5), (2,))),
        (lambda x, y: x.max(axis=0) + y, ((2, 3), (1,)), ((0, 3), (1,))),
        (lambda x, y: mx.concatenate([x, y], axis=0), ((2, 3), (2, 3)), ((2, 3), (2, 4))),
    ]:
        compiled = mx.compile(f, shapeless=True)
        mx.eval(compiled(*map(mx.ones, first)))
        with pytest.raises(ValueError):
            mx.eval(compiled(*map(mx.ones, then)))
        mx.eval(compiled(*map(mx.ones, first)))


def test_a_failure_that_the_function_catches():
    def f(a, b):
        try:
            return a @ b
        except ValueError:
            return a * b

    assert shapeless(f, (mx.ones((2, 3)),) * 2, (mx.ones((3, 3)),) * 2) == 2


def test_a_tree_that_holds_itself():
    for s in ([], {}):
        s.append(s) if isinstance(s, list) else s.update(me=s)
        for where in ("inputs", "outputs"):
            with pytest.raises(RecursionError):
                mx.compile(lambda x: x + 1, **{where: s})(mx.array(1.0))


def test_reductions_over_axes_of_size_one():
    compiled = mx.compile(lambda x: x.sum(axis=(0, 2)), shapeless=True)
    same(compiled(mx.ones((1, 3, 1))), [1, 1, 1])
    same(compiled(mx.ones((4, 2, 5))), [20, 20])


LARGE = {
    "the derivative of a division": lambda x: mx.grad(lambda x: (x / 2).sum())(x),
    "the derivative of gelu": lambda x: mx.grad(lambda x: nn.gelu(x).sum())(x),
    "ones": lambda x: x + mx.ones(x.shape),
    "a mask": lambda x: x * (mx.arange(x.size) > 7),
    "a sum of what is large": lambda x: x + mx.arange(x.size).sum() / x.size,
    "a part of several results": lambda x: x + mx.split(mx.arange(2 * x.size), 2)[1],
    "noise of a key": lambda x: x + mx.random.normal(x.shape, key=mx.random.key(3)),
    "a derivative around": lambda x: mx.vmap(mx.compile(lambda x: x * mx.ones(x.shape)))(x.reshape(2, -1)),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_trace_holds_nothing_of_the_size_of_its_arguments(name):
    f = mx.compile(LARGE[name])
    for n in 50_000, 60_000:
        x = mx.random.normal((n,))
        mx.eval(x)
        gc.collect()
        before = mx.get_active_memory()
        for _ in range(2):
            same(f(x), LARGE[name](x))
        gc.collect()
        assert mx.get_active_memory() - before < 8192


def test_a_small_constant_of_a_trace_is_computed_once():
    constants = []

    def f(x):
        constants.append(mx.arange(2**20).sum() / 2**20)
        return x + constants[-1]

    g = mx.compile(f)
    mx.eval(g(mx.ones(3)))
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    same(g(mx.ones(3)), f(mx.ones(3)))
    mx.reset_peak_memory()
    mx.eval(g(mx.ones(3)))
    assert mx.get_peak_memory() - before < 2**20


class Scaled:
    def __init__(self, a, by):
        self.a, self.by = a, by


mlx.utils.register_tree_node(Scaled, lambda n: ((n.a,), (n.by,)), lambda aux, children: Scaled(children[0], aux[0]))


@dataclasses.dataclass(frozen=True)
class Scale:
    by: object

    def __call__(self, x):
        return x * self.by


def first_key(d):
    return next(iter(d.values())) * next(iter(d))


@pytest.mark.parametrize("k, same", [(2, 2.0), (1, True), (0.0, -0.0), (0j, complex(0, -0.0)), (0j, complex(-0.0, 0))])
def test_constants_that_equal_each_other_are_told_apart_wherever_they_are(k, same):
    x = mx.array([2000000000])
    calls = [
        (lambda n: n.a * n.by, lambda c: Scaled(x, c)),
        (lambda d: first_key(d), lambda c: {c: x}),
        (lambda h: h(x), Scale),
        (lambda h: h.by[0][1] * x, lambda c: Scale(((0, c),))),
        (lambda h: h.by.by * x, lambda c: Scale(Scale(c))),
        (lambda n: n.a * next(iter(n.by)), lambda c: Scaled(x, frozenset([c]))),
        (lambda n: n.a * next(iter(n.by))[0].by, lambda c: Scaled(x, frozenset([(Scale(c),)]))),
        (lambda c: c * x, lambda c: c),
    ]
    for f, argument in calls:
        traced = []
        compiled = mx.compile(lambda v, f=f, traced=traced: (traced.append(1), f(v))[1])
        for c in (k, same, k, same):
            got, expected = compiled(argument(c)), f(argument(c))
            assert got.dtype == expected.dtype and bytes(np.array(got)) == bytes(np.array(expected))
        assert len(traced) == 2


class AnyScale(Scale):
    """Equals every other."""

    def __eq__(self, other):
        return isinstance(other, AnyScale)

    def __hash__(self):
        return 1


@dataclasses.dataclass(frozen=True)
class Uncompared:
    by: object = dataclasses.field(compare=False)

    __call__ = Scale.__call__


class Tagged(int):
    """An int with more to it."""

    def __call__(self, x):
        return x * self.by


def tagged(by):
    it = Tagged(1)
    it.by = by
    return it


@pytest.mark.parametrize("make", [AnyScale, Uncompared, tagged, lambda by: Scale(AnyScale(by)).by])
def test_what_an_eq_of_its_own_calls_equal_is_traced_anew(make):
    x = mx.array([2.0])
    two, three = make(2), make(3)
    assert two == three
    traced = []
    compiled = mx.compile(lambda h: (traced.append(1), h(x))[1])
    assert [compiled(h).item() for h in (two, three, two, three)] == [4, 6, 4, 6]
    assert len(traced) == 2
    node = mx.compile(lambda n: next(iter(n.by))(n.a))
    assert [node(Scaled(x, frozenset([h]))).item() for h in (two, three)] == [4, 6]
    key = mx.compile(lambda d: next(iter(d))(x))
    assert [key({h: x}).item() for h in (two, three)] == [4, 6]
    members = mx.compile(lambda n: n.by[0](n.a))
    assert [members(Scaled(x, (h,))).item() for h in (two, three)] == [4, 6]


class Box(dict):
    """A dict with attributes."""


class Row(list):
    """A list with attributes."""


class Pair(tuple):
    """A tuple with attributes."""


class Slotted(dict):
    __slots__ = ("k",)


class SlottedRow(list):
    __slots__ = ("k",)


@dataclasses.dataclass
class Config:
    scale: float

    def __call__(self, x):
        return x * self.scale


def test_attributes_of_modules_are_constants():
    x = mx.array([1.0, 1.0])
    call = mx.compile(lambda model, x: model(x))
    small, large = nn.RMSNorm(2, eps=0.0), nn.RMSNorm(2, eps=3.0)
    assert [call(m, x).tolist() for m in (small, large, small, large)] == [[1, 1], [0.5, 0.5]] * 2
    assert call.trace_count == 2 and "0.0 -> 3.0" in call.explain()
    drop = nn.Dropout(0.9999)
    model = nn.Sequential(nn.Sequential(drop))
    assert [call(model.train(mode), x).tolist() for mode in (True, False)] == [[0, 0], [1, 1]]
    assert call.trace_count == 4
    same = nn.Sequential(nn.Sequential(nn.Dropout(0.9999)))
    assert [call(same.train(mode), x).tolist() for mode in (True, False)] == [[0, 0], [1, 1]]
    assert call.trace_count == 4
    names = mx.compile(lambda m: sorted(m.trainable_parameters()))
    layer = nn.Linear(2, 2)
    assert names(layer) == ["bias", "weight"] and names(layer.freeze(keys="bias")) == ["weight"]


@pytest.mark.parametrize("kind", [Box, Row, Pair, Slotted, SlottedRow])
def test_attributes_of_other_containers_are_constants(kind):
    x = mx.array([1.0])
    times = mx.compile(lambda t: x * t.k)
    tree = kind()
    for k in (2.0, 3.0, 2.0, 3, True):
        tree.k = k
        assert times(tree).tolist() == [float(k)]
    assert times.trace_count == 4
    called = mx.compile(lambda t: t.k(x))
    for k in (lambda x: x * 2, Config(3.0), Config(4.0), Config(3.0), nn.Tanh()):
        tree.k = k
        assert called(tree).tolist() == k(x).tolist()
    assert called.trace_count == 4
    inside = mx.compile(lambda t: x * sum(t.k))
    for k in ([1.0, 2.0], [1.0, 3.0], (1.0, 3.0), {4.0}, {5.0: 1}, {5.0: 2}):
        tree.k = k
        assert inside(tree).item() == sum(k)
    assert inside.trace_count == 6
    del tree.k
    there = mx.compile(lambda t: hasattr(t, "k"))
    assert there(tree) is False
    tree.k = None
    assert there(tree) is True


def test_arrays_that_are_attributes_are_the_same_as_themselves():
    box, x = Box(), mx.array([1.0])
    box.k = mx.array([2.0])
    times = mx.compile(lambda b: x * b.k)
    for expected in (2, 3, 4, 5, 6, 7):
        assert times(box).item() == times(box).item() == expected
        box.k += 1  # the same object
    assert times.trace_count == 6
    box.k = mx.array([2.0])
    assert times(box).item() == 2


def test_an_attribute_may_lead_back_to_its_module():
    model, x = nn.Linear(2, 2), mx.ones(2)
    object.__setattr__(model, "parent", model)
    call = mx.compile(lambda m, x: m(x))
    assert call(model, x).tolist() == call(model, x).tolist() and call.trace_count == 1
    model.sizes = None
    model.__dict__["sizes"] = loop = []
    loop.append(loop)
    with pytest.raises(RecursionError):
        call(model, x)


def test_classes_and_factories_of_containers_are_constants():
    name = mx.compile(lambda t: type(t).__name__)
    assert [name(kind()) for kind in (list, Row, SlottedRow, tuple, Pair, dict, Box)] == (
        ["list", "Row", "SlottedRow", "tuple", "Pair", "dict", "Box"]
    )
    new = mx.compile(lambda d: d["new"])
    assert [new(collections.defaultdict(kind)) for kind in (list, dict)] == [[], {}]


def seven_more(x):
    """Writes to the memory of x, as NumPy does in place."""
    np.asarray(x)[...] += 7


captured = mx.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "constant",
    [
        lambda: mx.zeros(3),
        lambda: mx.sin(mx.arange(3.0)),
        lambda: mx.array(2.0),
        lambda: mx.array([[1, 2], [3, 4]]).T,
        lambda: mx.array(np.arange(3000)),
        lambda: mx.array(np.arange(3000.0)).astype(mx.bfloat16).reshape(2, -1)[:, ::2].astype(mx.float32),
        lambda: mx.array(np.arange(3000)).reshape(30, 100).T[1:],
        lambda: mx.depends([mx.array([1, 2])], [mx.ones(1)])[0],
        lambda: captured,
        lambda: captured[1:],
    ],
)
@pytest.mark.parametrize("way", ["compile", "shapeless", "nested", "file", "file for any shapes"])
def test_who_writes_to_a_constant_result_changes_no_other_call(way, constant, tmp_path):
    def f(x):
        return x + 1, constant()

    name = tmp_path / "f.mlxfn"
    if way.startswith("file"):
        mx.export_function(name, f, mx.ones(2), shapeless=way != "file")
        call = mx.import_function(name)
    else:
        call = mx.compile(mx.compile(f) if way == "nested" else f, shapeless=way == "shapeless")
    expected = np.array(constant())
    for size in (2, 2, 3, 3) if way in ("shapeless", "file for any shapes") else (2, 2, 2):
        result = call(mx.ones(size))[1]
        np.testing.assert_array_equal(np.array(result), expected)
        seven_more(result)
        np.testing.assert_array_equal(np.array(result), expected + 7)
    np.testing.assert_array_equal(np.array(constant()), expected)


def test_who_scales_a_constant_gradient_in_place_changes_no_later_one():
    params, x = {"w": mx.ones((2, 3)), "b": mx.zeros(3)}, mx.ones((4, 2))
    gradient = mx.compile(mx.grad(lambda p, x: (x @ p["w"] + p["b"]).sum()))
    for _ in range(3):
        seven_more(found := gradient(params, x)["b"])
        assert found.tolist() == [11, 11, 11]


def test_constant_state_is_made_anew_in_each_call():
    state = {}
    step = mx.compile(lambda x: state.update(a=mx.ones(2)) or x + 1, outputs=state)
    for _ in range(3):
        step(mx.ones(1))
        assert state["a"].tolist() == [1, 1]
        seven_more(state["a"])


def test_a_constant_result_of_a_graph_that_is_open_depends_on_its_operand():
    def f(x):
        return mx.compile(lambda y: (y, x))(mx.ones(2))[1] ** 2

    assert mx.grad(lambda x: f(x).sum())(mx.array([1.0, 3.0])).tolist() == [2, 6]


X3 = mx.ones(3)


class Thing:
    pass


class Marked:
    def __init__(self, child, aux):
        self.child, self.aux = child, aux


mlx.utils.register_tree_node(Marked, lambda p: ((p.child,), p.aux), lambda aux, c: Marked(c[0], aux))


def returns_constant(t):
    f = mx.compile(lambda x: (x + 1, t))
    return f, f(X3)[1] is t


def returns_itself(t):
    t.f = mx.compile(lambda x: (x + 1, t.f))
    return t.f, t.f(X3)[1] is t.f


def returns_a_node(t):
    f = mx.compile(lambda x: {"a": [Marked(x + 1, t)]})
    return f, f(X3)["a"][0].aux is t


def returns_after_other_shapes(t):
    """One trace under several keys."""
    f = mx.compile(lambda x: (x + 1, t), shapeless=True)
    return f, all(f(mx.ones(n))[1] is t for n in ([2], [3], [4], [2, 2]))


def assigns_captured(t):
    state = {}

    def step(x):
        state["y"] = Marked(x + 1, t)
        return x

    f = mx.compile(step, outputs=state)
    f(X3)
    return f, state.pop("y").aux is t


def maps_a_custom_function(t):
    """The graph of a batch that is not evaluated has no rules outside of transforms."""
    f = mx.custom_function(lambda x: x * 2)
    f.vjp(lambda x, ct, y: (ct, t)[0])
    f.jvp(lambda x, d: (d, t)[0])
    t.y = mx.vmap(f)(X3)
    return t.y, True


@pytest.mark.parametrize(
    "make",
    [
        returns_constant,
        returns_itself,
        returns_a_node,
        returns_after_other_shapes,
        assigns_captured,
        maps_a_custom_function,
    ],
)
def test_cycles_through_what_a_trace_gave_are_collected(make):
    t = Thing()
    t.keeps, right = make(t)
    assert right
    gone = weakref.ref(t)
    gc.collect()
    assert gone() is t and make(Thing())[1]
    if make is not maps_a_custom_function:
        assert t.keeps(X3) is not None and t.keeps.trace_count == 1
    del t
    gc.collect()
    assert gone() is None


def test_rules_of_a_mapped_custom_function_stay_inside_transforms():
    f = mx.custom_function(lambda x: x * x)
    f.vjp(lambda x, ct, y: 10 * ct)
    f.jvp(lambda x, d: 7 * d)
    x = mx.array([1.0, 2.0, 3.0])
    for way in (mx.vmap(f), mx.compile(mx.vmap(f)), mx.checkpoint(mx.vmap(f)), lambda x: mx.vmap(mx.vmap(f))(x[None])):
        assert mx.grad(lambda x: way(x).sum())(x).tolist() == [10, 10, 10]  # noqa: B023
        assert mx.jvp(way, [x], [x])[1][0].flatten().tolist() == [7, 14, 21]
        assert mx.linearize(way, x)[1](x).flatten().tolist() == [7, 14, 21]
        assert way(x).flatten().tolist() == [1, 4, 9]
