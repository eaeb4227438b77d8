"""linearize, pullback, jacfwd, jacrev and hessian, against closed forms and finite differences."""

import collections
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import pytest
from compare import close, differences
from mlx.utils import register_dataclass

RNG = np.random.default_rng(1)


def array(*shape):
    return mx.array(RNG.normal(size=shape).astype(np.float32))


A = array(4, 3)
FUNCTIONS = {
    "vector": (lambda x: mx.sin(A.astype(x.dtype) @ x), (3,)),
    "matrix": (lambda x: mx.tanh(x @ x.T) * x[0, 0], (2, 3)),
    "scalar": (lambda x: mx.log(mx.square(x).sum() + 1), (5,)),
    "of_a_scalar": (lambda x: mx.stack([mx.sin(x), x * x, mx.exp(x)]), ()),
    "indexing": (lambda x: x[mx.array([0, 2, 2])] * x[1], (3,)),
    "softmax": (lambda x: mx.softmax(x, axis=0), (3, 2)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("jacobian", [mx.jacfwd, mx.jacrev])
def test_jacobians(name, jacobian):
    f, shape = FUNCTIONS[name]
    x = array(*shape)
    got = jacobian(f)(x)
    assert got.dtype == mx.float32 and got.shape == f(x).shape + x.shape
    close(got, differences(f, x), 2e-4)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessian(name):
    f, shape = FUNCTIONS[name]
    x = array(*shape)
    close(mx.hessian(f)(x), differences(lambda x: mx.jacrev(f)(x), x), 1e-3)
    close(mx.hessian(f)(x), mx.jacrev(mx.jacfwd(f))(x), 1e-4)


@pytest.mark.parametrize("jacobian", [mx.jacfwd, mx.jacrev])
def test_argument_numbers(jacobian):
    def f(x, y, *, scale):
        return x * y.sum() * scale

    x, y = array(2), array(3)
    close(jacobian(f)(x, y, scale=2.0), 2 * y.sum() * mx.eye(2))
    close(jacobian(f, 1)(x, y, scale=2.0), mx.broadcast_to(2 * x[:, None], (2, 3)))
    close(jacobian(f, argnums=-1)(x, y, scale=2.0), mx.broadcast_to(2 * x[:, None], (2, 3)))
    both = jacobian(f, (1, 0))(x, y, scale=1.0)
    assert isinstance(both, tuple)
    close(both[0], mx.broadcast_to(x[:, None], (2, 3)))
    close(both[1], y.sum() * mx.eye(2))
    one = jacobian(f, (0,))(x, y, scale=1.0)
    assert isinstance(one, tuple) and len(one) == 1
    with pytest.raises(ValueError, match=f"{jacobian.__name__}.*argument 2 of a call with 2"):
        jacobian(f, 2)(x, y, scale=1.0)


@register_dataclass
@dataclass
class Weights:
    w: mx.array
    b: mx.array


@pytest.mark.parametrize("jacobian", [mx.jacfwd, mx.jacrev])
def test_trees(jacobian):
    def f(p, x):
        return {"y": p.w @ x + p.b, "z": [p.b * 2]}

    p, x = Weights(array(2, 3), array(2)), array(3)
    got = jacobian(f)(p, x)
    assert type(got["y"]) is Weights
    close(got["y"].w, mx.eye(2)[:, :, None] * x)
    close(got["y"].b, mx.eye(2))
    close(got["z"][0].w, mx.zeros((2, 2, 3)))
    close(got["z"][0].b, 2 * mx.eye(2))
    of_x = jacobian(f, (0, 1))(p, x)["y"]
    assert type(of_x[0]) is Weights
    close(of_x[1], p.w)


@pytest.mark.parametrize("jacobian", [mx.jacfwd, mx.jacrev])
def test_aux(jacobian):
    calls = []

    def f(x):
        calls.append(1)
        return x * x, {"twice": 2 * x, "text": "t"}

    x = array(3)
    got, aux = jacobian(f, has_aux=True)(x)
    close(got, 2 * mx.eye(3) * x)
    close(aux["twice"], 2 * x)
    assert aux["text"] == "t" and len(calls) == 1
    h, aux = mx.hessian(lambda x: ((x * x * x).sum(), x), has_aux=True)(x)
    close(h, 6 * mx.eye(3) * x)
    close(aux, x)
    with pytest.raises(ValueError, match="a pair"):
        jacobian(lambda x: x, has_aux=True)(x)


def test_hessian_of_several_arguments():
    x, y = array(2), array(3)
    h = mx.hessian(lambda x, y: (x.sum() ** 2) * (y * y).sum(), (0, 1))(x, y)
    close(h[0][0], mx.full((2, 2), 2 * (y * y).sum()))
    close(h[0][1], mx.broadcast_to(4 * x.sum() * y, (2, 3)))
    close(h[1][0], mx.broadcast_to(4 * x.sum() * y, (2, 3)).T)
    close(h[1][1], 2 * x.sum() ** 2 * mx.eye(3))


def test_composed_with_other_transforms():
    f, _ = FUNCTIONS["vector"]
    m = array(5, 3)
    each = mx.stack([mx.jacrev(f)(row) for row in m])
    close(mx.vmap(mx.jacrev(f))(m), each)
    close(mx.vmap(mx.jacfwd(f))(m), each)
    norm = mx.grad(lambda x: mx.jacfwd(f)(x).square().sum())(m[0])
    close(norm, mx.grad(lambda x: mx.jacrev(f)(x).square().sum())(m[0]))
    close(norm, differences(lambda x: mx.jacrev(f)(x).square().sum(), m[0]), 1e-3)
    close(mx.jacfwd(mx.checkpoint(f))(m[0]), each[0])
    close(mx.jacrev(mx.checkpoint(f))(m[0]), each[0])


def test_what_has_no_jacobian():
    for jacobian in (mx.jacfwd, mx.jacrev):
        with pytest.raises(ValueError, match="floating-point numbers in the arguments, got mlx.core.int32"):
            jacobian(lambda x: x * 1.0)(mx.arange(3))
        with pytest.raises(ValueError, match="floating-point numbers in the result"):
            jacobian(lambda x: x > 0)(array(3))
        with pytest.raises(ValueError, match="only arrays in the arguments, got float"):
            jacobian(lambda x: mx.array(1.0))([1.0])
        with pytest.raises(ValueError, match="only arrays in the result, got str"):
            jacobian(lambda x: "text")(array(3))
        with pytest.raises(TypeError, match="callable"):
            jacobian(3)


# linearize and pullback


def test_linearize_calls_the_function_once():
    calls = []

    def f(x, y):
        calls.append(1)
        return {"a": mx.sin(x) * y, "b": (y * y, "text")}

    x, y = array(3), array(3)
    value, derivative = mx.linearize(f, x, y)
    assert value["b"][1] == "text"
    close(value["a"], mx.sin(x) * y)
    for t in (array(3), array(3)):
        out = derivative(t, mx.zeros(3))
        close(out["a"], mx.cos(x) * y * t)
        close(out["b"][0], mx.zeros(3))
        assert out["b"][1] == "text"
        close(derivative(t, y)["a"], mx.cos(x) * y * t + mx.sin(x) * y)
    assert len(calls) == 1


def test_pullback_calls_the_function_once():
    calls = []

    def f(p):
        calls.append(1)
        return {"a": mx.sin(p["x"]), "b": [p["x"] * p["y"]]}

    x, y = array(3), array(3)
    value, back = mx.pullback(f, {"x": x, "y": y})
    for a, b in ((array(3), array(3)), (mx.zeros(3), mx.ones(3))):
        out = back({"b": (b,), "a": a})  # keys are found by name
        close(out["x"], mx.cos(x) * a + y * b)
        close(out["y"], x * b)
    assert len(calls) == 1
    value, back = mx.pullback(lambda x, y: x * y, x, y)
    assert isinstance(back(value), tuple)
    close(back(value)[1], value * x)


def test_linear_functions_compose():
    x = array(3)
    _, push = mx.linearize(mx.sin, x)
    _, back = mx.pullback(mx.sin, x)
    close(mx.vmap(push)(mx.eye(3)), mx.eye(3) * mx.cos(x))
    close(mx.vmap(back)(mx.eye(3)), mx.eye(3) * mx.cos(x))
    close(mx.grad(lambda t: push(t).sum())(x), mx.cos(x))
    close(mx.grad(lambda x: (mx.linearize(mx.sin, x)[1](mx.ones(3))).sum())(x), -mx.sin(x))
    close(mx.grad(lambda x: (mx.pullback(mx.sin, x)[1](mx.ones(3))).sum())(x), -mx.sin(x))
    close(mx.vmap(lambda x: mx.linearize(mx.sin, x)[1](x))(x), mx.cos(x) * x)


def test_what_linear_functions_refuse():
    x = array(3)
    _, push = mx.linearize(lambda x, y: x * y, x, x)
    _, back = mx.pullback(lambda x: {"a": x}, x)
    with pytest.raises(ValueError, match="linearize"):
        push(x)
    with pytest.raises(ValueError, match=r"tangent 1: expected shape \(3,\)"):
        push(x, mx.ones(2))
    with pytest.raises(ValueError, match="pullback"):
        back(x)
    with pytest.raises(ValueError, match=r"cotangent 0: expected shape \(3,\)"):
        back({"a": mx.ones(4)})
    with pytest.raises(TypeError, match="one cotangent"):
        back(x, x)
    with pytest.raises(TypeError, match="keyword"):
        push(x, x, t=x)
    with pytest.raises(TypeError, match="callable"):
        mx.linearize(3, x)

    def raises(x):
        raise KeyError("mine")

    for transform in (mx.linearize, mx.pullback, lambda f, x: mx.jacfwd(f)(x), lambda f, x: mx.jacrev(f)(x)):
        with pytest.raises(KeyError, match="mine"):
            transform(raises, x)


@dataclass
class Unregistered:
    w: mx.array


@pytest.mark.parametrize(
    "primal, name",
    [
        (3.0, "float"),
        (2, "int"),
        (np.ones(3, np.float32), "ndarray"),
        (Unregistered(mx.ones(3)), "Unregistered"),
        ({"w": mx.ones(3), "k": 3.0}, "float"),
        ([mx.ones(3), None], "NoneType"),
        (collections.deque([mx.ones(3)]), "deque"),
        ({1, 2}, "set"),
        (mx.random.state, "_RandomState"),
    ],
    ids=["float", "int", "numpy", "dataclass", "dict", "list", "deque", "set", "state"],
)
def test_primals_are_arrays(primal, name):
    def f(*args):
        raise AssertionError("it is not called")

    x = mx.ones(3)
    for transform in (mx.linearize, mx.pullback):
        message = rf"\[{transform.__name__}\] expected only arrays in lists, tuples and dicts, got {name}"
        for primals in ((primal,), (x, primal), ({"a": [primal]},)):
            with pytest.raises(ValueError, match=message):
                transform(f, *primals)
    for transform in (mx.jacfwd, mx.jacrev):
        with pytest.raises(ValueError, match=rf"\[{transform.__name__}\] expected only arrays in the arguments"):
            transform(f)(primal)


def test_numbers_in_a_value_are_constants():
    x = mx.array([1.0, 2.0])
    value, push = mx.linearize(lambda x: (x * x, 3.0, {"n": 2, "c": 1j, "name": "f", "flag": True}), x)
    assert value[1:] == (3.0, {"n": 2, "c": 1j, "name": "f", "flag": True})
    tangent = push(mx.array([1.0, 10.0]))
    assert tangent[0].tolist() == [2, 40] and tangent[1:] == (0.0, {"n": 0, "c": 0, "name": "f", "flag": True})
    _, back = mx.pullback(lambda x: (x * x, 3.0), x)
    assert back((mx.ones(2), 5.0)).tolist() == [2, 4]
