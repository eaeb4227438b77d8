"""Trees: `mlx.utils`."""

import collections

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlx.utils import (
    tree_flatten,
    tree_map,
    tree_map_with_path,
    tree_merge,
    tree_reduce,
    tree_unflatten,
)

Point = collections.namedtuple("Point", "x y")

# Trees that survive the flat form: no empty containers, no tuples, keys without dots that are no
# numbers.
keys = st.text(st.characters(codec="ascii", exclude_characters=".", categories=["L"]), min_size=1)
flat_trees = st.recursive(
    st.integers(),
    lambda below: st.lists(below, min_size=1, max_size=4) | st.dictionaries(keys, below, min_size=1, max_size=4),
)
any_trees = st.recursive(
    st.integers(),
    lambda below: (
        st.lists(below, max_size=4)
        | st.lists(below, max_size=4).map(tuple)
        | st.builds(Point, below, below)
        | st.dictionaries(keys, below, max_size=4)
    ),
)


def leaves(tree):
    """The leaves in order, by a recursion of its own."""
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        return [tree]
    return [leaf for child in tree for leaf in leaves(child)]


@given(flat_trees)
def test_flatten_then_unflatten(tree):
    assert tree_unflatten(tree_flatten(tree)) == tree
    assert tree_unflatten(tree_flatten(tree, destination={})) == tree


@given(any_trees)
def test_flatten_lists_the_leaves_in_order(tree):
    pairs = tree_flatten(tree)
    assert [leaf for _, leaf in pairs] == leaves(tree)
    for name, leaf in pairs:
        place = tree
        for part in name.split(".") if name else []:
            place = place[part if isinstance(place, dict) else int(part)]
        assert place is leaf


@given(any_trees)
def test_map_keeps_the_structure(tree):
    doubled = tree_map(lambda a: 2 * a, tree)
    assert leaves(doubled) == [2 * leaf for leaf in leaves(tree)]
    assert tree_map(lambda a, b: b // 2 if a == b // 2 else None, tree, doubled) == tree
    assert tree_map(type, tree) == tree_map_with_path(lambda _, a: type(a), tree)
    names = leaves(tree_map_with_path(lambda name, _: name, tree))
    assert names == [name or None for name, _ in tree_flatten(tree)]


@given(any_trees)
def test_reduce_goes_through_the_leaves(tree):
    assert tree_reduce(lambda acc, a: [*acc, a], tree, []) == leaves(tree)
    assert tree_reduce(lambda acc, a: acc + a, tree, 0) == sum(leaves(tree))


@given(flat_trees.filter(lambda t: isinstance(t, dict)), st.data())
def test_merge_of_a_split_is_the_whole(tree, data):
    side = tree_map(lambda _: data.draw(st.booleans()), tree)
    one = tree_map(lambda a, s: a if s else None, tree, side)
    other = tree_map(lambda a, s: None if s else a, tree, side)
    assert tree_merge(one, other) == tree
    assert tree_merge(other, one) == tree


def test_names():
    tree = {"a": [1, {"b": 2}], "c": (3,), 4: 5}
    assert tree_flatten(tree) == [("a.0", 1), ("a.1.b", 2), ("c.0", 3), ("4", 5)]
    assert tree_flatten(7) == [("", 7)]
    assert tree_flatten([1], prefix="p") == [("p.0", 1)]
    assert tree_flatten([1], prefix=".p") == [("p.0", 1)]
    assert tree_flatten({"a": [], "b": {}, "c": None}) == [("c", None)]


def test_flatten_adds_to_what_is_given():
    pairs = [("first", 0)]
    assert tree_flatten([1, [2]], destination=pairs) is pairs
    assert pairs == [("first", 0), ("0", 1), ("1.0", 2)]
    with pytest.raises(ValueError, match="tree_flatten.*list or a dict"):
        tree_flatten([1], destination=())


def test_unflatten():
    assert tree_unflatten([]) == []
    assert tree_unflatten([("", 1)]) == 1
    assert tree_unflatten([("2", "c"), ("0", "a")]) == ["a", {}, "c"]
    assert tree_unflatten({"0": 1, "x": 2}) == {"0": 1, "x": 2}
    assert tree_unflatten([(f"a.{i}", i) for i in range(12)]) == {"a": list(range(12))}


@pytest.mark.parametrize(
    "pairs, place",
    [
        ([("a", 1), ("a.b", 2)], '"a"'),
        ([("a.b", 1), ("a.b", 2)], '"a.b"'),
        ([("", 1), ("a", 2)], "the root"),
    ],
)
def test_unflatten_names_the_place_of_a_conflict(pairs, place):
    with pytest.raises(ValueError, match=f"tree_unflatten.*{place}"):
        tree_unflatten(pairs)


def test_map_follows_the_first_tree():
    assert tree_map(lambda *a: a, {"a": [1, 2]}, {"a": [3, 4, 5], "b": 6}) == {"a": [(1, 3), (2, 4)]}
    assert tree_map(lambda a, b: (a, b), {"a": 1}, {"a": [2, 3]}) == {"a": (1, [2, 3])}
    with pytest.raises(KeyError, match="tree_map.*'c'"):
        tree_map(lambda *a: a, {"c": 1}, {"d": 1})
    with pytest.raises(IndexError, match="tree_map.* 1 "):
        tree_map(lambda *a: a, [1, 2], [1])


def test_named_tuples_and_dict_classes():
    assert tree_map(lambda a: a + 1, Point(1, [2])) == Point(2, [3])
    assert type(tree_map(lambda a: a, collections.OrderedDict(a=1))) is dict


def test_is_leaf():
    def is_pair(t):
        return isinstance(t, tuple)

    tree = {"a": (1, 2), "b": [(3, 4), 5]}
    assert tree_flatten(tree, is_leaf=is_pair) == [("a", (1, 2)), ("b.0", (3, 4)), ("b.1", 5)]
    assert tree_map(lambda t: t, tree, is_leaf=is_pair) == tree
    assert tree_map(type, tree, is_leaf=is_pair) == {"a": tuple, "b": [tuple, int]}
    assert tree_reduce(lambda a, b: a + b, {"a": (1, 2), "b": (3,)}, is_leaf=is_pair) == (1, 2, 3)
    names = tree_map_with_path(lambda name, _: name, tree, is_leaf=is_pair, path="t")
    assert names == {"a": "t.a", "b": ["t.b.0", "t.b.1"]}


def test_reduce_without_initializer():
    assert tree_reduce(lambda a, b: a - b, [5, {"x": 1}, (2,)]) == 2
    assert tree_reduce(lambda a, b: a - b, {"a": [], "b": {}}) is None


def test_merge():
    assert tree_merge({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert tree_merge({"a": [1, {}]}, {"a": [None, 2, 3]}) == {"a": [1, 2, 3]}
    assert tree_merge({"a": 1, "b": [1]}, {"a": 2, "b": [2]}, lambda x, y: x + y) == {
        "a": 3,
        "b": [3],
    }
    with pytest.raises(ValueError, match='tree_merge.*"a.1.x"'):
        tree_merge({"a": [1, {"x": 1}]}, {"a": [None, {"x": 2}]})
    with pytest.raises(ValueError, match="the root"):
        tree_merge(1, [2])


def test_unflatten_leaves_no_large_gaps():
    assert tree_unflatten([("a.3.w", 1), ("a.0.w", 2)]) == {"a": [{"w": 2}, {}, {}, {"w": 1}]}
    assert len(tree_unflatten([("a.9999.w", 1)])["a"]) == 10_000
    assert tree_unflatten([("a.0", 1), ("a.00", 2)]) == {"a": {"0": 1, "00": 2}}
    assert tree_unflatten([(f"a.{'0' * 5000}1", 1)]) == {"a": [{}, 1]}
    many = [(f"a.{i}", i) for i in range(30_000)]
    assert tree_unflatten(many)["a"] == list(range(30_000))
    for name in ("layers.99999999", "layers." + "9" * 5000, "123456789"):
        short = name if len(name) < 30 else "layers.99999"
        with pytest.raises(ValueError, match=rf"\[tree_unflatten\] expected the numbers.*large gaps, got \"{short}"):
            tree_unflatten([(f"{name}.weight", 1)])
    # The room is that of the whole tree, not of each of its lists.
    with pytest.raises(ValueError, match="large gaps"):
        tree_unflatten([(f"{chr(97 + i)}.9000", 1) for i in range(20)])
    with pytest.raises(TypeError, match=r"\[tree_unflatten\] expected names, got 3"):
        tree_unflatten([(3, 1)])
