"""Containers, keys and registered types whose methods do anything while something walks over them: change the tree
in hand, say another length, raise, register themselves anew. Nothing here may read what is no longer there; in most
of these the process ended once. `make test-full` runs them under the address sanitizer, too."""

import contextlib
import gc
import io
import weakref

import mlx.core as mx
import pytest
from mlx.utils import register_tree_node

ONE = mx.array(1.0)


def churn():
    """Memory that was just let go of is somebody else's afterwards."""
    junk = [[bytearray(48), [None], {}, (None,)] for _ in range(100)]
    junk.clear()


class Clears:
    """An object whose attributes and repr clear a container."""

    def __init__(self, container):
        self.__dict__["container"] = container

    def clear(self):
        container = self.__dict__.get("container")
        if container is not None:
            container.clear()
        churn()

    def __getattr__(self, name):
        self.clear()
        raise AttributeError(name)

    def __repr__(self):
        self.clear()
        return "Clears()"


def with_clears(kind):
    if kind is dict:
        tree = {}
        tree["a"] = Clears(tree)
        tree["b"] = [mx.array(1.0)]
    else:
        tree = []
        tree += [Clears(tree), [mx.array(1.0)]]
    return tree


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("depth", [0, 1])
def test_an_attribute_that_clears_the_arguments(kind, depth):
    tree = with_clears(kind)
    with pytest.raises(ValueError, match="Clears"):
        mx.compile(lambda x: ONE)([tree] if depth else tree)
    tree = with_clears(kind)
    mx.compile(lambda x: ONE, inputs=[tree])(mx.array(2.0))


def test_a_key_whose_repr_clears_the_arguments():
    tree = {}
    tree[Clears(tree)] = [mx.array(1.0)]
    tree["b"] = [mx.array(2.0)]
    assert mx.compile(lambda x: mx.array(3.0))(tree).item() == 3


def test_a_key_whose_comparison_calls_the_function():
    class Key:
        left = 20

        def __hash__(self):
            return 1

        def __eq__(self, other):
            Key.left -= 1
            if Key.left > 0:
                f(mx.array(1.0), Key())
            churn()
            return self is other

        def __call__(self):  # functions are constants
            pass

    f = mx.compile(lambda x, key, *more: x + 1)
    for i in range(5):
        assert f(mx.array(1.0), Key(), *range(i)).item() == 2


class Node:
    def __init__(self, *children):
        self.children = children


def registered(flatten):
    """A new registered type, with one way to flatten it."""
    kind = type("Kind", (Node,), {})
    register_tree_node(kind, flatten, lambda aux, children: kind(*children))
    return kind


def transforms(x):
    """Every way in for a tree of arguments, results or state."""
    yield lambda: mx.eval(x)
    yield lambda: mx.grad(lambda t: mx.array(1.0))(x)
    yield lambda: mx.value_and_grad(lambda t: (mx.array(1.0), t))(x)
    yield lambda: mx.vmap(lambda t: t)(x)
    yield lambda: mx.vmap(lambda t: t, in_axes=(x,))(x)
    yield lambda: mx.vmap(lambda t: x, out_axes=x)(mx.ones(3))
    yield lambda: mx.compile(lambda t: t)(x)
    yield lambda: mx.compile(lambda t: x)(mx.array(1.0))
    yield lambda: mx.compile(lambda t: t + 1, inputs=[x], outputs=[x])(mx.array(1.0))
    yield lambda: mx.checkpoint(lambda t: t)(x)
    yield lambda: mx.linearize(lambda t: t, x)[1](x)
    yield lambda: mx.pullback(lambda t: t, x)[1](x)
    yield lambda: mx.linearize(lambda t: t, [mx.ones(3)])[1](x)
    yield lambda: mx.pullback(lambda t: t, (mx.ones(3),))[1](x)
    yield lambda: mx.scan(lambda c, t: (x, t), x, mx.ones(3))
    yield lambda: mx.while_loop(lambda c: mx.array(False), lambda c: x, x)
    yield lambda: mx.cond(mx.array(True), lambda: x, lambda: x)
    yield lambda: mx.jvp(lambda t: x, [mx.array(1.0)], [mx.array(1.0)])
    yield lambda: mx.vjp(lambda t: x, [mx.array(1.0)], [mx.array(1.0)])
    yield lambda: mx.depends(x, x)
    yield lambda: mx.export_to_dot(io.StringIO(), x)

    def custom(rule, value):
        f = mx.custom_function(lambda t: value(t))
        f.vjp(lambda primals, cotangents, outputs: rule(primals))
        f.jvp(lambda primals, tangents: rule(primals))
        f.vmap(lambda primals, axes: (rule(primals), axes))
        return f

    for rule, value in [(lambda p: x, lambda t: t * 2), (lambda p: p, lambda t: x), (lambda p: x, lambda t: x)]:
        f = custom(rule, value)
        yield lambda f=f: mx.grad(lambda t: (f(t), t.sum())[1])(mx.ones(3))
        yield lambda f=f: mx.vjp(lambda t: f(t), [mx.ones(3)], [mx.ones(3)])
        yield lambda f=f: mx.jvp(lambda t: f(t), [mx.ones(3)], [mx.ones(3)])
        yield lambda f=f: mx.vmap(f)(mx.ones(3))
        yield lambda f=f: f(x)


def survive(make):
    """Each transform either works or raises; which of both is not the question here."""
    count = len(list(transforms(make())))
    for i in range(count):
        with contextlib.suppress(Exception):
            list(transforms(make()))[i]()
        churn()


class LongList(list):
    def __len__(self):
        return 7


class ShortList(list):
    def __len__(self):
        return 0


class LongTuple(tuple):
    def __len__(self):
        return 7


class LongDict(dict):
    def __len__(self):
        return 7


class OtherItems(list):
    def __iter__(self):
        return iter([mx.ones(3)] * 50)

    def __getitem__(self, i):
        self.clear()
        return mx.ones(3)


class RaisingLength(list):
    def __len__(self):
        raise KeyError("length")


@pytest.mark.parametrize("kind", [LongList, ShortList, LongTuple, LongDict, OtherItems, RaisingLength])
def test_containers_that_lie(kind):
    def make():
        return kind(a=mx.ones(3)) if kind is LongDict else kind([mx.ones(3)])

    survive(make)
    survive(lambda: [make(), mx.ones(3)])


def test_what_a_lying_container_holds_counts():
    double = mx.custom_function(lambda x: x * 2)
    double.vjp(lambda primal, cotangent, output: LongList([cotangent * 5]))
    assert mx.grad(lambda x: double(x).sum())(mx.array(1.0)).item() == 5
    assert mx.jvp(lambda x: LongTuple([x]), [ONE], [ONE])[1][0].item() == 1


def test_exporting_lying_lists(tmp_path):
    path = tmp_path / "f.mlxfn"
    mx.export_function(path, lambda x: LongList([x + 1]), LongList([ONE]))
    assert mx.import_function(path)(LongList([ONE]))[0].item() == 2


def test_a_type_that_clears_the_tree_around_it():
    tree = []

    def flatten(node):
        tree.clear()
        churn()
        return (mx.array(1.0),), None

    kind = registered(flatten)

    def make():
        tree[:] = [kind(), [mx.array(2.0)], [mx.array(3.0)]]
        return tree

    survive(make)


def test_a_type_that_registers_itself_anew():
    def first(node):
        register_tree_node(kind, again, lambda aux, children: kind(*children))
        churn()
        return (mx.array(1.0),), None

    def again(node):
        register_tree_node(kind, first, lambda aux, children: kind(*children))
        churn()
        return (mx.array(1.0),), None

    kind = registered(first)
    survive(kind)


def test_a_type_that_is_no_longer_registered():
    def flatten(node):
        mx._tree_types.pop(kind, None)
        churn()
        return (mx.array(1.0),), None

    kind = registered(flatten)

    def make():
        register_tree_node(kind, flatten, lambda aux, children: kind(*children))
        return [kind(), mx.ones(3)]

    survive(make)


def test_a_type_with_more_arrays_each_time():
    calls = []

    def flatten(node):
        calls.append(1)
        return [mx.ones(3)] * len(calls), None

    survive(registered(flatten))


def test_a_type_that_cannot_be_hashed():
    class Meta(type):
        def __hash__(cls):
            raise KeyError("hash")

    class Unhashable(metaclass=Meta):
        pass

    registered(lambda node: ((), None))  # some type is
    assert mx.eval(Unhashable(), [Unhashable()]) is None


def test_names_whose_hash_raises():
    class Name(str):
        left = 2

        def __hash__(self):
            Name.left -= 1
            if Name.left < 0:
                raise KeyError("hash")
            return str.__hash__(self)

    grads = mx.grad(lambda x, a: x * a, argnums=0, argnames=Name("a"))(mx.array(3.0), a=mx.array(2.0))
    assert grads[0].item() == 2 and grads[1]["a"].item() == 3


def test_a_callable_that_lies_about_its_code():
    class Code:
        co_varnames = (5, 6)
        co_argcount = 2
        co_filename = 3
        co_firstlineno = "x"

    class Callable:
        __code__ = Code()

        def __call__(self, x, y):
            return x + y

    f = Callable()
    f.__qualname__ = 7
    compiled = mx.compile(f)
    assert compiled(ONE, ONE).item() == 2
    assert "Callable (3, line x)" in compiled.explain()
    compiled(mx.ones(2), ONE)
    assert "argument 0: float32 () -> float32 (2,)" in compiled.explain()


def test_deep_trees_are_refused():
    tree = mx.array(1.0)
    for _ in range(50000):
        tree = [tree]
    for f in [mx.eval, mx.grad(lambda t: ONE), mx.vmap(lambda t: t), mx.compile(lambda t: ONE)]:
        with pytest.raises(RecursionError):
            f(tree)


# What happens while a function runs, or is put back what was there


def test_callbacks_that_change_what_is_put_back():
    tree, refs = {"a": mx.array(1.0), "b": [mx.array(2.0)]}, []

    def watched(t):
        refs.append(weakref.ref(t["a"], lambda _: tree.clear()))
        return t["a"] * t["b"][0]

    assert mx.grad(watched)(tree)["a"].item() == 2 and tree == {}
    items = [mx.array(1.0), mx.array(2.0)]

    class Inserts:
        def __del__(self):
            items.insert(0, 5)
            mx.grad(lambda t: t[-1] * 2)([mx.array(1.0)])

    def moves(t):
        y = t[0] * t[1]
        t.append(Inserts())
        t.insert(0, t.pop())
        t.pop(0)
        return y

    assert [g.item() for g in mx.grad(moves)(items)] == [2, 1]
    assert items[0] == 5 and [x.item() for x in items[1:]] == [1, 2]


def test_keys_that_raise_when_arrays_are_put_back():
    class Key:
        broken = False

        def __hash__(self):
            if Key.broken:
                raise KeyError("hash")
            return 1

        def __eq__(self, other):
            return self is other

    first = Key()
    tree = {first: mx.array(1.0), Key(): [mx.array(2.0)], "x": mx.array(3.0)}

    def breaks(t):
        y = t[first] * t["x"]
        Key.broken = True
        return y

    with pytest.raises(KeyError, match="hash"):
        mx.grad(breaks)(tree)
    Key.broken = False
    assert tree["x"].item() == 3 and tree[first].item() == 1


@pytest.mark.parametrize("wrap", [mx.compile, mx.grad, mx.vmap, mx.checkpoint])
def test_a_function_that_is_deleted_while_it_runs(wrap):
    held = []

    def f(x):
        held.clear()
        gc.collect()
        return x * 2 if wrap is not mx.grad else (x * 2).sum()

    held.append(wrap(f))
    del f
    assert held[0](mx.ones(3)).tolist() == [2, 2, 2]


def test_a_cache_that_shrinks_while_it_is_traced_into():
    def f(x, n=0):
        compiled.cache_size = 1
        compiled.explain()
        if n < 3:
            compiled(x, n + 1)
        return x + n

    compiled = mx.compile(f)
    assert [compiled(mx.ones(k + 1)).sum().item() for k in range(4)] == [1, 2, 3, 4]
    endless = mx.compile(lambda x: endless(x))
    with pytest.raises(RecursionError):
        endless(mx.array(1.0))


def test_wrappers_around_wrappers_without_end():
    f = len
    for _ in range(50000):
        f = mx.grad(f)
    with pytest.raises(RecursionError):
        print(f.__name__)
    del f
