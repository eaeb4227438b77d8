"""Users' types as trees: dataclasses, registered types and named tuples go through every transform."""

import collections
from dataclasses import dataclass, field

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import (
    register_dataclass,
    register_tree_node,
    tree_flatten,
    tree_map,
    tree_map_with_path,
    tree_merge,
    tree_reduce,
    tree_unflatten,
)


@register_dataclass
@dataclass
class Affine:
    weight: mx.array
    bias: mx.array


@register_dataclass(static=("name",))
@dataclass(frozen=True)
class Named:
    parts: list
    name: str
    scale: mx.array
    made: mx.array = field(default=None, init=False)


class Pair:
    """A type with a sequence of children and something beside them."""

    def __init__(self, first, second, tag):
        self.first, self.second, self.tag = first, second, tag


register_tree_node(Pair, lambda p: (iter((p.first, p.second)), p.tag), lambda tag, children: Pair(*children, tag))
Point = collections.namedtuple("Point", "x y")


def affine():
    return Affine(mx.array([1.0, 2.0]), mx.array(3.0))


def loss(p, x):
    return (p.weight * x).sum() + p.bias * p.bias


def test_gradients_are_of_the_type_of_the_argument():
    value, grads = mx.value_and_grad(loss)(affine(), mx.array([5.0, 7.0]))
    assert type(grads) is Affine and value.item() == 28
    assert grads.weight.tolist() == [5, 7] and grads.bias.item() == 6


def test_nested_types():
    def f(p):
        assert type(p) is Pair and p.tag == "t" and type(p.second) is Point
        return (p.first.weight * p.second.x["a"]).sum() + p.second.y[0].first

    p = Pair(affine(), Point({"a": mx.array([2.0, 3.0])}, [Pair(mx.array(1.0), (), 0)]), "t")
    grads = mx.grad(f)(p)
    assert type(grads) is Pair and grads.tag == "t" and type(grads.second) is Point
    assert grads.first.weight.tolist() == [2, 3] and grads.second.x["a"].tolist() == [1, 2]
    assert type(grads.second.y[0]) is Pair and grads.second.y[0].first.item() == 1


def test_named_tuples_come_back_as_their_type():
    grads = mx.grad(lambda p: p.x * p.y)(Point(mx.array(2.0), mx.array(5.0)))
    assert type(grads) is Point and grads.x.item() == 5 and grads.y.item() == 2
    mapped = mx.vmap(lambda p: Point(p.y, p.x + 1))(Point(mx.arange(3), mx.arange(3)))
    assert type(mapped) is Point and mapped.y.tolist() == [1, 2, 3]


def test_fields_beside_the_children():
    named = Named([mx.array(1.0), mx.array(2.0)], "n", mx.array(2.0))
    object.__setattr__(named, "made", mx.array(9))
    doubled = tree_map(lambda v: v * 2, named)
    assert type(doubled) is Named and doubled.name == "n" and doubled.scale == 4 and doubled.made == 18
    grads = mx.grad(lambda n: n.parts[0] * n.parts[1] * n.scale)(named)
    assert grads.name == "n" and [g.item() for g in grads.parts] == [4, 2]


def test_attributes_that_are_no_fields_are_handed_on():
    p = affine()
    p.note = "kept"
    assert tree_map(lambda v: v, p).note == "kept"


def test_eval():
    p = Pair(mx.ones(2) + 1, [affine()], None)
    mx.eval(p)
    mx.async_eval(p, affine())
    assert p.first.tolist() == [2, 2]


def test_vmap_and_its_axes():
    p = Affine(mx.arange(6.0).reshape(3, 2), mx.arange(3.0))
    x = mx.array([1.0, 10.0])
    one = mx.array([loss(Affine(p.weight[i], p.bias[i]), x).item() for i in range(3)])
    assert mx.allclose(mx.vmap(loss, in_axes=(0, None))(p, x), one)
    assert mx.allclose(mx.vmap(loss, in_axes=(Affine(0, 0), None))(p, x), one)
    q = Affine(p.weight.T, mx.array(1.0))
    for axes in [Affine(1, None), (Affine(1, None),)]:
        got = mx.vmap(lambda p: Affine(p.weight * 2, p.bias), in_axes=axes, out_axes=Affine(-1, None))(q)
        assert type(got) is Affine and got.weight.shape == (2, 3) and got.bias.shape == ()
        np.testing.assert_array_equal(np.array(got.weight), 2 * np.array(q.weight))


def test_axes_of_another_form_are_refused():
    with pytest.raises(ValueError, match="in_axes"):
        mx.vmap(loss, in_axes=((0, 0), None))(Affine(mx.ones((3, 2)), mx.ones(3)), mx.ones(2))


def test_functions_of_trees():
    p = Pair(affine(), [mx.array(4.0)], "t")
    flat = tree_flatten(p)
    assert [name for name, _ in flat] == ["0.weight", "0.bias", "1.0"]
    assert tree_unflatten(flat)[0]["bias"].item() == 3
    assert tree_map_with_path(lambda path, a: path, p, path="p").first.bias == "p.0.bias"
    total = tree_map(lambda a, b: a + b, p, p)
    assert type(total) is Pair and total.first.bias.item() == 6
    mixed = tree_map(lambda a, b: a + b, p, tree_unflatten(flat))
    assert type(mixed.first) is Affine and mixed.second[0].item() == 8
    assert tree_reduce(lambda n, a: n + a.size, p, 0) == 4
    merged = tree_merge(Affine(1, None), Affine(None, 2))
    assert merged == Affine(1, 2)
    assert tree_map(lambda v: "leaf", [affine()], is_leaf=lambda v: isinstance(v, Affine)) == ["leaf"]
    seen = []
    tree_map(lambda v: v, affine(), is_leaf=lambda v: seen.append(type(v)))
    assert dict not in seen


def test_optimizers():
    p, g = affine(), Affine(mx.array([1.0, 1.0]), mx.array(2.0))
    new = optim.SGD(learning_rate=0.5).apply_gradients({"p": g}, {"p": p})
    assert type(new["p"]) is Affine and new["p"].bias.item() == 2


def test_compile():
    calls = []

    @mx.compile
    def f(n):
        calls.append(n.name)
        return Named([n.parts[1], n.parts[0] * n.scale], n.name, n.scale)

    def named(name, a, b):
        return Named([mx.array(a), mx.array(b)], name, mx.array(2.0))

    out = f(named("n", 1.0, 5.0))
    assert type(out) is Named and [p.item() for p in out.parts] == [5, 2]
    assert f(named("n", 3.0, 5.0)).parts[1].item() == 6 and calls == ["n"]
    assert f(named("m", 3.0, 5.0)).name == "m" and calls == ["n", "m"]
    grads = mx.compile(mx.grad(loss))(affine(), mx.array([5.0, 7.0]))
    assert type(grads) is Affine and grads.weight.tolist() == [5, 7]
    assert type(mx.compile(lambda p: Point(p.y, p.x))(Point(mx.array(1), mx.array(2)))) is Point


def test_loops():
    x = mx.array([1.0, 2.0, 3.0])
    carry, rows = mx.scan(lambda c, y: (Affine(c.weight + y, c.bias), Point(c, y)), Affine(x[0], x), x)
    assert type(carry) is Affine and carry.weight.item() == 7 and type(rows) is Point
    assert type(rows.x) is Affine and rows.x.weight.tolist() == [1, 2, 4] and rows.x.bias.shape == (3, 3)
    p = mx.while_loop(lambda p: p.bias < 20, lambda p: Affine(p.weight, p.bias * 2), affine())
    assert type(p) is Affine and p.bias.item() == 24
    p = mx.cond(x[0] > 0, lambda p: Affine(p.bias, p.weight), lambda p: Affine(p.weight, p.bias), Affine(x, -x))
    assert type(p) is Affine and p.weight.tolist() == [-1, -2, -3]


def test_what_cannot_be_registered():
    with pytest.raises(TypeError, match="expected a type"):
        register_tree_node(3, lambda x: x, lambda x: x)
    with pytest.raises(ValueError, match="already"):
        register_tree_node(dict, lambda x: x, lambda x: x)
    with pytest.raises(TypeError, match="two functions"):
        register_tree_node(Exception, None, lambda x: x)
    with pytest.raises(TypeError, match="expected a dataclass"):
        register_dataclass(Pair)
    with pytest.raises(ValueError, match="no field 'other'"):
        register_dataclass(Affine, static="other")


def test_rules_that_fail():
    class Bad:
        pass

    register_tree_node(Bad, lambda b: 3, lambda aux, children: Bad())
    with pytest.raises(TypeError, match=r"must return a tuple \(children, aux\), not int"):
        mx.eval(Bad())

    def raises(*unused):
        raise KeyError("rule")

    register_tree_node(Bad, raises, lambda aux, children: Bad())
    with pytest.raises(KeyError, match="rule"):
        mx.grad(lambda b: mx.array(1.0))(Bad())
    register_tree_node(Bad, lambda b: ([mx.array(1.0)], None), raises)
    with pytest.raises(KeyError, match="rule"):
        mx.grad(lambda b: mx.array(1.0))(Bad())


def test_a_type_that_holds_itself():
    class Loop:
        pass

    register_tree_node(Loop, lambda x: ([x], None), lambda aux, children: Loop())
    with pytest.raises(RecursionError):
        mx.eval(Loop())


def test_types_that_are_not_registered_are_leaves():
    @dataclass
    class Plain:
        value: mx.array

    plain = Plain(mx.array(1.0))
    assert tree_flatten([plain]) == [("0", plain)]
    with pytest.raises(ValueError, match="Plain"):
        mx.grad(lambda p: p.value)(plain)
