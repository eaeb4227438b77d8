"""What a transformed function gets of its caller's lists, dicts and modules: a derivative the containers
themselves, everything else copies of the same types; and what comes back. Gradients are compared with those worked
out by hand."""

import collections
import copy
import gc
import inspect
import pickle
import threading
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import register_dataclass


class MyDict(dict):
    pass


class MyList(list):
    pass


class MyTuple(tuple):
    pass


Pair = collections.namedtuple("Pair", "a b")


@register_dataclass
@dataclass
class Affine:
    w: mx.array
    rest: object = None


class Model(nn.Module):
    def __init__(self, w=3.0):
        super().__init__()
        self.w = mx.array(w)


KINDS = {
    "dict": lambda x: {"w": x},
    "list": lambda x: [x],
    "tuple": lambda x: (x,),
    "MyDict": lambda x: MyDict(w=x),
    "OrderedDict": lambda x: collections.OrderedDict(w=x),
    "defaultdict": lambda x: collections.defaultdict(list, w=x),
    "Counter": lambda x: collections.Counter(w=x),
    "MyList": lambda x: MyList([x]),
    "MyTuple": lambda x: MyTuple([x]),
    "namedtuple": lambda x: Pair(x, [x]),
    "dataclass": lambda x: Affine(x, [x]),
    "Model": lambda x: Model(x),
}
COPIED = {"tuple", "MyTuple", "namedtuple", "dataclass"}  # there is nothing that could be replaced in them


def first(tree):
    """The array that a container of KINDS holds first."""
    if isinstance(tree, dict):
        return tree["w"]
    return tree.w if isinstance(tree, Affine) else tree[0]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("transform", ["grad", "value_and_grad", "pullback", "linearize"])
def test_derivatives_get_the_containers_themselves(name, transform):
    tree = KINDS[name](mx.array(3.0))
    before = first(tree)
    seen = []

    def f(t):
        seen.append((t is tree, type(t) is type(tree), first(t) is before))
        return first(t) ** 2

    if transform == "linearize":
        assert mx.linearize(f, tree)[1](KINDS[name](mx.array(1.0))).item() == 6
    else:
        if transform == "pullback":
            grads = mx.pullback(f, tree)[1](mx.array(1.0))
        else:
            grads = getattr(mx, transform)(f)(tree)
            grads = grads[1] if transform == "value_and_grad" else grads
        assert first(grads).item() == 6
        assert type(grads) is (dict if name == "Model" else type(tree))
    assert seen == [(name not in COPIED, True, False)]
    assert first(tree) is before


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("transform", ["vmap", "compile", "checkpoint", "custom_function"])
def test_other_transforms_copy_and_keep_types(name, transform):
    tree = KINDS[name](mx.array([3.0, 4.0]))
    seen = []

    def f(t):
        seen.append((t is tree, type(t) is type(tree)))
        return KINDS[name](first(t) * 2)

    f = mx.custom_function(f).vjp(lambda p, c, o: c) if transform == "custom_function" else getattr(mx, transform)(f)
    for _ in range(2):
        result = f(tree)
        assert type(result) is type(tree) and first(result).tolist() == [6, 8]
    assert set(seen) == {(False, True)}


@pytest.mark.parametrize("transform", ["vmap", "compile", "checkpoint"])
def test_assignments_in_copies_stay_inside(transform):
    tree = {"w": mx.array([3.0]), "in": [mx.array([4.0])]}
    inner = tree["in"]

    def f(t):
        t["w"] = t["w"] * 2
        t["in"].append(t["w"])
        t["new"] = t["w"]
        return t["w"]

    assert getattr(mx, transform)(f)(tree).tolist() == [6]
    assert tree["w"].item() == 3 and tree["in"] is inner and len(inner) == 1 and set(tree) == {"w", "in"}


@pytest.mark.parametrize("name", ["checkpoint", "compile", "vmap", "cond", "nn.utils.checkpoint", "outputs"])
def test_what_becomes_of_statistics(name):
    """Of a module that is an argument they go with its copy; of one from elsewhere they stay, where that is said."""
    x, m = mx.arange(8.0).reshape(4, 2), nn.BatchNorm(2)
    call = {
        "vmap": lambda: mx.vmap(lambda m, x: m(x), (None, 0))(m, x[None]),
        "cond": lambda: mx.cond(True, lambda m, x: m(x), lambda m, x: x, m, x),
        "nn.utils.checkpoint": lambda: nn.utils.checkpoint(m)(x),
        "outputs": lambda: mx.compile(lambda x: m(x), inputs=[m.state], outputs=[m.state])(x),
    }.get(name) or (lambda: getattr(mx, name)(lambda m, x: m(x))(m, x))
    mx.eval(call())
    stays = name in ("nn.utils.checkpoint", "outputs")
    np.testing.assert_allclose(np.array(m.running_mean), [0.3, 0.4] if stays else [0, 0], rtol=1e-6)


def test_what_a_type_has_besides_comes_along():
    class Params(dict):
        def __init__(self, scale, **items):
            super().__init__(**items)
            self.scale = scale

        def loss(self):
            return (self["w"] * self.scale).sum()

    class Shifts(tuple):
        def __new__(cls, a, b):
            self = super().__new__(cls, (a, b))
            self.note = "kept"
            return self

    x = mx.array([3.0, 4.0])
    assert mx.vmap(lambda p: p.loss())(Params(2, w=x)).tolist() == [6, 8]
    assert mx.compile(lambda p: p.loss())(Params(2, w=x)).item() == 14
    assert mx.compile(lambda p: p.note)(Shifts(x, x)) == "kept"
    grads = mx.grad(lambda s: (s[0] * s[1]).sum())(Shifts(x, x))
    assert type(grads) is Shifts and grads.note == "kept" and grads[1].tolist() == [3, 4]
    made = mx.compile(lambda d: collections.defaultdict(list, d))({"a": x})
    assert made["none"] == [] and made["a"].tolist() == [3, 4]
    assert type(mx.grad(lambda p: p.loss())(Params(2, w=x))) is dict  # as of a module


def test_a_type_that_cannot_be_copied_becomes_what_it_is_derived_from():
    class NoCopies(dict):
        def __copy__(self):
            raise TypeError("no copies")

    class Itself(list):
        def __copy__(self):
            return self

    x = mx.array([1.0])
    for tree, base in [(NoCopies(a=x), dict), (Itself([x]), list)]:
        assert type(mx.vmap(lambda t: t)(tree)) is base
        assert type(mx.grad(lambda t: (t["a"] if isinstance(t, dict) else t[0]).sum())(tree)) is base
    assert type(mx.vmap(lambda t: t)([NoCopies(a=x)])[0]) is dict


def test_an_ordered_dict_stays_in_order():
    tree = collections.OrderedDict(a=mx.array(1.0), b=mx.array(2.0))
    tree.move_to_end("a")

    def step(x):
        tree["a"] = tree["a"] + x
        tree["c"] = x
        tree.move_to_end("b", last=False)
        return x

    compiled = mx.compile(step, inputs=[tree], outputs=[tree])
    for i in range(3):
        compiled(mx.array(10.0))
        assert list(tree) == list(tree.keys()) and set(tree) == {"a", "b", "c"}
        assert tree["a"].item() == 10 * (i + 1) + 1
    del tree["c"]
    assert sorted(tree) == ["a", "b"]
    assert list(mx.vmap(lambda t: t)(collections.OrderedDict(z=mx.ones(1), y=mx.ones(1)))) == ["z", "y"]


# What a derivative leaves in the containers


def test_assignments_stay():
    d = {"w": mx.array(3.0), "v": mx.array(5.0), "n": 0}
    del d["n"]

    def f(d):
        d["w"] = d["w"] * 2
        d["new"] = d["w"] + 1
        return d["w"] * d["v"]

    grads = mx.grad(f)(d)
    assert grads["w"].item() == 10 and grads["v"].item() == 6 and set(grads) == {"w", "v"}
    assert d["w"].item() == 6 and d["new"].item() == 7 and d["v"].item() == 5


def test_updates_stay_with_the_container_and_not_with_its_old_array():
    d, t = {"w": mx.array([3.0, 4.0])}, (mx.array([3.0, 4.0]),)
    w, x = d["w"], t[0]

    def f(d, t):
        d["w"] *= 2
        d["w"][0] = 5.0
        y = t[0]
        y += 1
        return (d["w"] * y).sum()

    grads = mx.grad(f, argnums=(0, 1))(d, t)
    assert grads[0]["w"].tolist() == [0, 10] and grads[1][0].tolist() == [5, 8]
    assert d["w"].tolist() == [5, 8] and w.tolist() == [3, 4] and t[0] is x and x.tolist() == [3, 4]


def test_what_was_moved_is_found():
    arrays = [mx.array(float(i)) for i in range(4)]
    items = list(arrays)

    def f(items):
        a, b, c, d = items
        items.insert(0, "first")
        items.reverse()
        items.pop(1)
        items.append([d])
        return a * b + b * c + c * d

    grads = mx.grad(f)(items)
    assert [g.item() for g in grads] == [1, 2, 4, 2]
    assert items[0] is arrays[3] and items[1] is arrays[1] and items[2] is arrays[0] and items[3] == "first"
    d = {"a": arrays[0], "b": (arrays[1], 1)}
    del d["b"]
    d["b"] = (arrays[1],)
    pair = d["b"]

    def g(d):
        d["a"], d["b"] = d["b"], d["a"]
        return d["b"] * d["a"][0]

    assert mx.grad(g)(d)["a"].item() == 1 and d["a"] is pair and d["b"] is arrays[0]


def test_what_was_removed_has_its_gradient():
    d = {"w": mx.array(3.0), "v": mx.array(4.0)}

    def f(d):
        w = d.pop("w")
        return w * d["v"]

    grads = mx.grad(f)(d)
    assert grads["w"].item() == 4 and grads["v"].item() == 3 and list(d) == ["v"] and d["v"].item() == 4


class Mine(Exception):
    pass


@pytest.mark.parametrize("depth", [1, 2])
def test_everything_is_put_back_after_an_exception(depth):
    inner = [mx.array(1.0), (mx.array(2.0), {"x": mx.array(3.0)})]
    tree = {"a": mx.array(4.0), "b": inner, "m": Model()}

    def held():
        return tree["a"], inner[0], inner[1], inner[1][0], inner[1][1]["x"], tree["m"].w

    before = held()

    def f(tree):
        assert tree["a"] is not before[0] and tree["b"][1][1]["x"] is not before[4]
        tree["c"] = tree["a"] * 2
        raise Mine

    for transform in [mx.grad, mx.value_and_grad, lambda f: lambda t: mx.pullback(f, t)]:
        g = transform(f)
        for _ in range(depth - 1):
            g = mx.grad(lambda t, g=g: g(t)["a"])
        with pytest.raises(Mine):
            g(tree)
        assert all(x is y for x, y in zip(held(), before))
        assert tree.pop("c").item() == 8
    for wrong in [lambda t: 3, lambda t: t["b"], lambda t: mx.ones(2)]:
        with pytest.raises(ValueError):
            mx.grad(wrong)(tree)
        assert tree["a"] is before[0] and inner[1] is before[2]


def test_one_container_in_several_places_has_one_array():
    d = {"w": mx.array(3.0)}
    w = d["w"]
    a, b = mx.grad(lambda d, e: d["w"] * e["w"] ** 2, argnums=(0, 1))(d, d)
    assert (a["w"].item(), b["w"].item()) == (0, 27)  # what stands there is the array of the last place
    assert mx.grad(lambda d, e: d["w"] * e["w"])(d, d)["w"].item() == 6
    assert mx.grad(lambda e: d["w"] * e["w"])(d)["w"].item() == 6
    assert mx.grad(lambda t: t[0]["w"] * t[1]["w"])([d, d])[1]["w"].item() == 6
    assert mx.grad(lambda x: x * d["w"])(d["w"]).item() == 3
    both = mx.grad(lambda t: t[0] * t[0] * t[1])([w, w])
    assert [g.item() for g in both] == [18, 9]
    assert d["w"] is w


def test_nested_derivatives_of_one_container():
    d = {"w": mx.array(3.0)}
    w = d["w"]
    cube = mx.grad(lambda d: d["w"] ** 3)
    assert mx.grad(lambda d: cube(d)["w"])(d)["w"].item() == 18 and d["w"] is w
    assert mx.grad(lambda d: mx.grad(lambda d: cube(d)["w"])(d)["w"])(d)["w"].item() == 6 and d["w"] is w

    def doubled(d):
        d["w"] = d["w"] * 2
        return d["w"] ** 3

    def outer(d):  # 24 w^2 * 2 w
        return mx.grad(doubled)(d)["w"] * d["w"]

    assert mx.grad(outer)(d)["w"].item() == 144 * 9 and d["w"].item() == 6


def test_keywords_and_several_arguments():
    d, e = {"w": mx.array(3.0)}, [mx.array(5.0)]
    seen = []

    def f(x, *, k, m):
        seen.append((k is d, m is e))
        k["w"] *= 2
        return x * k["w"] * m[0]

    x, named = mx.grad(f, argnums=0, argnames=["m", "k"])(mx.array(2.0), k=d, m=e)
    assert x.item() == 30 and named["k"]["w"].item() == 20 and named["m"][0].item() == 12
    assert seen == [(True, True)] and d["w"].item() == 6 and e[0].item() == 5


def test_values_come_back_in_containers_of_their_own():
    d = {"w": mx.array(3.0)}

    def f(d):
        return d["w"] * 2, d, MyDict(a=d["w"]), [1, "text"]

    (value, same, other, rest), grads = mx.value_and_grad(f)(d)
    assert value.item() == 6 and same["w"].item() == 3 and same is not d and rest == [1, "text"]
    assert type(other) is MyDict and other["a"].item() == 3 and grads["w"].item() == 2


# Modules


def test_the_gradient_of_a_module():
    layer = nn.Linear(2, 1)
    weight = layer.weight
    x = mx.array([2.0, 3.0])
    for f in [lambda m, x: m(x).sum(), lambda m, x: layer(x).sum()]:
        value, grads = mx.value_and_grad(f)(layer, x)
        assert type(grads) is dict and grads["weight"].tolist() == [[2, 3]] and grads["bias"].tolist() == [1]
        assert np.allclose(value.item(), layer(x).item())
    assert layer.weight is weight
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.BatchNorm(2))
    grads = mx.grad(lambda m: m(mx.array([[1.0, 2.0], [3.0, 5.0]])).sum())(model)
    assert [type(g) for g in grads["layers"]] == [dict] * 3 and grads["layers"][1] == {}
    assert model.layers[2].running_mean.abs().sum().item() > 0  # what it assigned to itself


def test_parameters_that_a_model_assigns_to_itself_stay():
    class Counts(Model):
        def __init__(self):
            super().__init__()
            self.count, self.total = mx.array(0.0), mx.array(0.0)

        def __call__(self, x):
            self.count += 1
            self.total = self.total + x
            return self.w * x

    model = Counts()
    w = model.w
    for i in range(1, 4):
        value, grads = nn.value_and_grad(model, lambda x: model(x))(mx.array(5.0))
        assert value.item() == 15 and grads["w"].item() == 5 and grads["count"].item() == 0
        assert model.count.item() == i and model.total.item() == 5 * i and model.w is w
    mx.eval(nn.utils.checkpoint(model)(mx.array(5.0)))
    assert model.total.item() == 20 and model.w is w
    mx.eval(mx.grad(nn.utils.checkpoint(model))(mx.array(5.0)))  # which calls it again, as it was
    assert model.count.item() == 5 and model.total.item() == 25 and model.w is w

    def raises(x):
        model.total = model.total + x
        raise Mine

    with pytest.raises(Mine):
        nn.value_and_grad(model, raises)(mx.array(1.0))
    assert model.w is w and model.total.item() == 26


def test_shared_layers_have_their_whole_gradient_in_the_last_place():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = self.a
            self.a.weight = mx.ones((2, 2))

        def __call__(self, x):
            return self.b(self.a(x)).sum()

    model = Tied()
    for grads in [
        nn.value_and_grad(model, lambda x: model(x))(mx.ones(2))[1],
        mx.grad(lambda m: m(mx.ones(2)))(model),
    ]:
        assert grads["a"]["weight"].tolist() == [[0, 0], [0, 0]]
        assert grads["b"]["weight"].tolist() == [[4, 4], [4, 4]]


def test_modules_as_arguments_of_transforms_that_copy():
    model = nn.Linear(2, 1)
    x = mx.array([[1.0, 2.0], [3.0, 4.0]])
    expected = model(x)
    calls = []

    def f(m, x):
        calls.append(m is model)
        return m(x)

    assert np.allclose(np.array(mx.compile(f)(model, x)), np.array(expected))
    assert np.allclose(np.array(mx.checkpoint(f)(model, x)), np.array(expected))
    assert np.allclose(np.array(mx.vmap(f, in_axes=(None, 0))(model, x)), np.array(expected))
    assert calls == [False] * 3
    compiled = mx.compile(f)
    for scale in [1.0, 2.0]:
        model.weight = mx.full((1, 2), scale)
        assert np.allclose(np.array(compiled(model, x)), np.array(model(x)))


# Threads


def test_threads_differentiate_by_one_container():
    shared = {"w": mx.array(3.0), "rest": [mx.array(2.0)]}
    w, errors = shared["w"], []
    barrier = threading.Barrier(4)

    def work(k):
        def f(d):
            y = d["w"] * k
            for _ in range(200):  # others run meanwhile
                y = y + 0
            return y * d["w"] * d["rest"][0]

        barrier.wait()
        try:
            for _ in range(60):
                grads = mx.grad(f)(shared)
                assert grads["w"].item() == 12 * k and grads["rest"][0].item() == 9 * k
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors and shared["w"] is w


# vmap's axes


def test_axes_of_one_argument():
    x = mx.arange(6.0).reshape(2, 3)
    both = {"a": x, "b": [x, (x,)]}

    def f(t):
        assert t["a"].shape == (2,) and t["b"][0].shape == (2, 3) and t["b"][1][0].shape == (2,)
        return t["a"].sum() + t["b"][0].sum() + t["b"][1][0].sum()

    expected = 2 * np.array(x).sum(axis=0) + 15
    for axes in [{"a": 1, "b": [None, 1]}, {"a": 1, "b": [None, (1,)]}, ({"a": 1, "b": [None, (1,)]},)]:
        assert mx.vmap(f, in_axes=axes)(both).tolist() == expected.tolist()
    assert mx.vmap(lambda p: p[0].sum() + p[1].sum(), in_axes=(1, None))((x, x)).tolist() == [18, 20, 22]
    assert mx.vmap(lambda p: p.a.sum() + p.b.sum(), in_axes=Pair(1, None))(Pair(x, x)).tolist() == [18, 20, 22]
    assert mx.vmap(lambda x: x, out_axes=(1,))(x).shape == mx.vmap(lambda x: x, out_axes=1)(x).shape == (3, 2)
    assert mx.vmap(lambda x: (x,), out_axes=(1,))(x)[0].shape == (3, 2)
    assert mx.vmap(lambda x: mx.zeros(4), out_axes=(None,))(x).shape == (4,)
    assert mx.vmap(lambda x: x.sum(), in_axes=True)(x).tolist() == [3, 5, 7]
    for axes in [{"b": 1}, {"a": 1}, (0, 0), {"a": 1, "b": [None]}]:
        with pytest.raises(ValueError, match="in_axes"):
            mx.vmap(f, in_axes=axes)(both)
    for axes in [(0, 1), [(0,)], -1000, 2**40]:
        with pytest.raises((ValueError, OverflowError)):
            mx.vmap(lambda x: mx.zeros(3), out_axes=axes)(x)


# What a wrapped function says of itself


def named(x, scale: float = 2.0) -> mx.array:
    "Its documentation."
    return (x * scale).sum()


named.attribute = 5
WRAPPERS = [mx.grad, mx.value_and_grad, mx.vmap, mx.compile, mx.checkpoint, mx.custom_function]


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_a_wrapped_function_keeps_its_name(wrap):
    f = wrap(named)
    assert (f.__name__, f.__qualname__, f.__module__) == ("named", "named", __name__)
    assert f.__doc__ == "Its documentation." and f.__wrapped__ is named and f.attribute == 5
    assert inspect.signature(f) == inspect.signature(named) and inspect.getsource(f) == inspect.getsource(named)
    assert inspect.isfunction(f) and inspect.unwrap(f) is named and type(f) is not type(named)
    assert copy.copy(f) is f and copy.deepcopy([f])[0] is f
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(f)  # `named` is another object
    twice = wrap(wrap(named)) if wrap is not mx.value_and_grad else f
    assert twice.__name__ == "named" and inspect.unwrap(twice) is named
    partial = wrap(type("Callable", (), {"__call__": lambda self, x: x.sum(), "extra": 7})())
    assert partial.extra == 7
    with pytest.raises(AttributeError):
        print(partial.__name__)
    with pytest.raises(TypeError, match="no name"):
        copy.copy(partial)
    del f, twice, partial
    gc.collect()


compiled_here = mx.compile(lambda x: x + 1)
compiled_here.__wrapped__.__qualname__ = "compiled_here"


def test_a_compiled_function_of_a_module_can_be_pickled():
    assert pickle.loads(pickle.dumps(compiled_here)) is compiled_here
    assert pickle.loads(pickle.dumps(nn.gelu)) is nn.gelu
    model = nn.Transformer(8, 2, 1, 1)
    assert copy.deepcopy(model).encoder.layers[0].activation is model.encoder.layers[0].activation


# Looking at values inside


@pytest.mark.parametrize(
    "transform", [mx.compile, mx.vmap, lambda f: mx.compile(mx.vmap(f)), lambda f: mx.compile(mx.grad(f))]
)
def test_looking_at_values_inside_a_transformation(transform):
    looks = {
        "eval": mx.eval,
        "async_eval": mx.async_eval,
        "item": lambda x: x.sum().item(),
        "tolist": lambda x: x.tolist(),
        "__array__": np.array,
    }
    for name, look in looks.items():
        for error in (ValueError, RuntimeError):  # programs catch either
            with pytest.raises(error, match=rf"^\[{name}\] Not allowed inside a graph transformation"):
                transform(lambda x, look=look: (look(x), x.sum())[1])(mx.ones((2, 2)))
    assert mx.grad(lambda x: (mx.eval(x), x.sum())[1])(mx.ones(2)).tolist() == [1, 1]
