"""`nn.Module`: what it holds, how it is walked, changed, frozen, saved."""

import copy
import pickle

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.norm = nn.LayerNorm(3)

    def __call__(self, x):
        return self.norm(self.first(x))


class Model(nn.Module):
    """One of everything a module can hold."""

    def __init__(self):
        super().__init__()
        self.blocks = [Block(), Block()]
        self.parts = {"out": nn.Linear(3, 1, bias=False), "extra": {"w": mx.ones(2)}, "n": 3}
        self.scale = mx.ones(4)
        self.mixed = [mx.zeros(1), "text", nn.Dropout(0.2)]
        self.pair = (mx.zeros(5), nn.Linear(1, 1))
        self._private = mx.zeros(6)
        self.width = 7
        self.act = nn.relu


NAMES = [
    "blocks.0.first.weight",
    "blocks.0.first.bias",
    "blocks.0.norm.weight",
    "blocks.0.norm.bias",
    "blocks.1.first.weight",
    "blocks.1.first.bias",
    "blocks.1.norm.weight",
    "blocks.1.norm.bias",
    "parts.out.weight",
    "parts.extra.w",
    "scale",
    "mixed.0",
]


def names(tree):
    return [name for name, _ in tree_flatten(tree)]


def shapes(tree):
    return tree_map(lambda a: tuple(a.shape), tree)


def equal(a, b):
    return np.array_equal(np.array(a), np.array(b))


# ------------------------------------------------------------------ what it holds


def test_parameters_are_the_arrays_below():
    model = Model()
    assert names(model.parameters()) == NAMES
    assert shapes(model.parameters()["blocks"][0]) == {
        "first": {"weight": (3, 2), "bias": (3,)},
        "norm": {"weight": (3,), "bias": (3,)},
    }
    # What is no parameter keeps its place inside lists and dicts, so that names stay the same.
    assert model.parameters()["mixed"][1:] == [{}, {}]
    assert model.parameters()["parts"]["n"] == {}


def test_a_module_is_the_dict_of_its_containers():
    model = Model()
    assert isinstance(model, dict)
    assert set(model) == {"blocks", "parts", "scale", "mixed", "pair", "_private"}
    assert model["scale"] is model.scale
    assert model.width == 7 and "width" not in model
    assert model.state is model


def test_what_a_property_misses_is_told():
    class Layer(nn.Module):
        @property
        def depth(self):
            return self.nothing

        @property
        def width(self):
            raise AttributeError("no width yet")

    for name, said in (("depth", "'Layer' object has no attribute 'nothing'"), ("width", "no width yet"),
                       ("other", "'Layer' object has no attribute 'other'")):  # fmt: skip
        with pytest.raises(AttributeError) as told:
            getattr(Layer(), name)
        assert str(told.value) == said and not hasattr(Layer(), name)


def test_a_class_finds_items_by_its_own_getattr():
    class Scaled(nn.Linear):
        def __getattr__(self, name):
            value = super().__getattr__(name)
            return value * 0 if name == "weight" else value

    class Deeper(Scaled):
        pass

    for layer in (Scaled(3, 2), Deeper(3, 2)):
        assert not layer.weight.any() and layer["weight"].any() and layer.bias.shape == (2,)
        assert not hasattr(layer, "other")
    assert nn.Linear(3, 2).weight.any()


def test_attributes_move_between_item_and_plain():
    model = nn.Module()
    model.x = mx.zeros(1)
    assert "x" in model
    model.x = 3
    assert "x" not in model and model.x == 3
    model.x = mx.ones(2)
    assert "x" in model and equal(model.x, [1, 1])
    del model.x
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'x'"):
        _ = model.x
    with pytest.raises(AttributeError):
        del model.x
    assert not hasattr(model, "y") and getattr(model, "y", 5) == 5


def test_attributes_move_between_item_and_slot():
    class Slotted(nn.Module):
        __slots__ = ("x",)

    model = Slotted()
    for value in (5, mx.array([1.0]), mx.array([2.0]), 7, [mx.ones(1)]):
        model.x = value
        assert model.x is value and ("x" in model) == (not isinstance(value, int))


def test_a_property_with_a_setter_is_used():
    class Doubled(nn.Module):
        @property
        def twice(self):
            return self.w * 2

        @twice.setter
        def twice(self, value):
            self.w = value / 2

    module = Doubled()
    module.twice = mx.array([4.0])
    assert list(module) == ["w"] and equal(module.w, [2]) and equal(module.twice, [4])


def test_repr():
    assert repr(nn.Linear(2, 3)) == "Linear(input_dims=2, output_dims=3, bias=True)"
    assert repr(nn.Sequential(nn.Linear(2, 3), nn.relu, Block())) == (
        "Sequential(\n"
        "  (layers.0): Linear(input_dims=2, output_dims=3, bias=True)\n"
        "  (layers.2): Block(\n"
        "    (first): Linear(input_dims=2, output_dims=3, bias=True)\n"
        "    (norm): LayerNorm(3, eps=1e-05, affine=True)\n"
        "  )\n"
        ")"
    )
    squeezed = nn.Linear(2, 3).apply(lambda w: w.reshape(-1))
    assert "Linear" in repr(squeezed)


def test_copy_and_pickle():
    block = Block().freeze(keys="bias")
    for other in (copy.deepcopy(block), pickle.loads(pickle.dumps(block))):
        assert type(other) is Block and names(other) == names(block)
        assert names(other.trainable_parameters()) == names(block.trainable_parameters())
        assert other.first is not block.first and equal(other.first.weight, block.first.weight)
        other.first.weight = mx.zeros((3, 2))
        other.unfreeze()
    assert not equal(block.first.weight, np.zeros((3, 2)))
    assert names(block.trainable_parameters()) == ["first.weight", "norm.weight"]


# ------------------------------------------------------------------ walking


def test_children_and_leaf_modules():
    model = Model()
    children = model.children()
    assert children["blocks"] == model.blocks and children["blocks"][0] is model.blocks[0]
    assert children["parts"] == {"out": model.parts["out"], "extra": {"w": {}}, "n": {}}
    assert set(children) == {"blocks", "parts", "mixed"}

    leaves = tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module)
    assert [name for name, _ in leaves] == [
        "blocks.0.first",
        "blocks.0.norm",
        "blocks.1.first",
        "blocks.1.norm",
        "parts.out",
        "mixed.2",
    ]
    assert leaves[1][1] is model.blocks[0].norm


def test_children_that_hold_nothing_leave_a_module_a_leaf():
    class Activated(nn.Linear):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.act, self.more = nn.ReLU(), [nn.Dropout(0.5), {"x": nn.Sequential(nn.Tanh())}]

    linear, quiet, normed = Activated(64, 64), nn.Sequential(nn.Sequential(nn.ReLU())), nn.Sequential(nn.RMSNorm(4))
    model = nn.Sequential(linear, quiet, normed)
    assert model.leaf_modules() == {"layers": [linear, quiet, {"layers": [normed.layers[0]]}]}
    nn.quantize(model)
    assert type(model.layers[0]) is nn.QuantizedLinear and model.layers[1] is quiet


def test_named_modules():
    model = Model()
    found = dict(model.named_modules())
    assert set(found) == {
        "",
        "blocks.0",
        "blocks.0.first",
        "blocks.0.norm",
        "blocks.1",
        "blocks.1.first",
        "blocks.1.norm",
        "parts.out",
        "mixed.2",
    }
    assert found[""] is model and found["blocks.1.norm"] is model.blocks[1].norm
    assert model.modules() == [module for _, module in model.named_modules()]
    seen = []
    assert model.apply_to_modules(lambda name, module: seen.append((name, module))) is model
    assert seen == model.named_modules()


def test_filter_and_map():
    model = Model()
    seen = []

    def is_weight(module, key, value):
        seen.append((type(module).__name__, key))
        return isinstance(value, (dict, list)) or key == "weight"

    found = model.filter_and_map(is_weight, map_fn=lambda a: a.ndim)
    assert tree_flatten(found) == [
        ("blocks.0.first.weight", 2),
        ("blocks.0.norm.weight", 1),
        ("blocks.1.first.weight", 2),
        ("blocks.1.norm.weight", 1),
        ("parts.out.weight", 2),
    ]
    assert ("Model", "blocks.1") in seen and ("Linear", "bias") in seen
    assert ("Model", "parts.extra.w") in seen

    whole = model.filter_and_map(
        lambda module, key, value: key == "blocks" or key.startswith("blocks."),
        is_leaf_fn=lambda module, key, value: isinstance(value, Block),
    )
    assert whole == {"blocks": model.blocks}
    with pytest.raises(RuntimeError, match="'blocks.0.first.weight'|'weight'.*array"):
        model.filter_and_map(lambda *_: True, is_leaf_fn=lambda *_: False)


# ------------------------------------------------------------------ update


def test_update_replaces_what_is_named():
    model = Model()
    before = model.blocks[0].first.weight
    new = mx.full((3, 2), 5.0)
    assert model.update({"blocks": [{}, {"first": {"weight": new}}], "scale": mx.zeros(4)}) is model
    assert model.blocks[1].first.weight is new
    assert model.blocks[0].first.weight is before
    assert equal(model.scale, np.zeros(4))


def test_update_takes_another_module():
    one, other = Block(), Block()
    one.update(other)
    assert one.first is not other.first and one.first.weight is other.first.weight


@pytest.mark.parametrize(
    "tree, message",
    [
        ({"nope": mx.zeros(1)}, "no parameter named nope"),
        ({"blocks": [{"first": {"nope": mx.zeros(1)}}]}, "no parameter named blocks.0.first.nope"),
        ({"blocks": [{}, {}, {"first": {}}]}, "no parameter named blocks.2"),
        ({"blocks": {"first": mx.zeros(1)}}, "expected list for blocks, got dict"),
        ({"blocks": mx.zeros(1)}, "expected list for blocks, got array"),
        ({"scale": 3}, "expected array for scale, got int"),
        ({"scale": {"x": mx.zeros(1)}}, "expected array for scale, got dict"),
        ({"width": mx.zeros(1)}, "no parameter named width"),
        ({"parts": {"n": mx.zeros(1)}}, "expected int for parts.n, got array"),
        ([mx.zeros(1)], "expected Model for the module itself, got list"),
    ],
)
def test_strict_update_names_what_does_not_fit(tree, message):
    model = Model()
    with pytest.raises(ValueError, match=rf"^\[update\].*{message}") as raised:
        model.update(tree)
    assert isinstance(raised.value, KeyError) == ("got dict" in message or "got list" in message)
    before = tree_flatten(model.parameters())
    model.update(tree, strict=False)
    assert all(a is b for (_, a), (_, b) in zip(before, tree_flatten(model.parameters())))


def test_an_update_that_fails_changes_nothing():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    before = dict(tree_flatten(model.parameters()))
    layers, seen = list(model.layers), []

    def third_time(x):
        seen.append(x)
        return mx.zeros_like(x) if len(seen) < 3 else "no array"

    for change in (
        lambda: model.update({"layers": [{"weight": mx.zeros((2, 2))}, {"none": mx.zeros(2)}]}),
        lambda: model.update({"layers": [{"weight": mx.zeros((2, 2))}, {"bias": 3}]}),
        lambda: model.apply(third_time),
        lambda: model.update_modules({"layers": [nn.Linear(3, 3), {"none": nn.Linear(3, 3)}]}),
    ):
        with pytest.raises((mx.Error, mx.ConversionError)):
            change()
        assert all(x is before[name] for name, x in tree_flatten(model.parameters()))
        assert all(a is b for a, b in zip(model.layers, layers))


def test_update_modules():
    model = Model()
    new = nn.Linear(9, 9)
    model.update_modules({"blocks": [{}, {"first": new}], "mixed": [{}, {}, nn.ReLU()]})
    assert model.blocks[1].first is new and isinstance(model.mixed[2], nn.ReLU)

    quantizable = model.leaf_modules()
    model.update_modules(tree_map(lambda _: nn.Identity(), quantizable, is_leaf=nn.Module.is_module))
    assert names(model.parameters()) == ["parts.extra.w", "scale", "mixed.0"]


@pytest.mark.parametrize(
    "tree, message",
    [
        ({"nope": nn.ReLU()}, "no module named nope"),
        ({"blocks": [{"second": nn.ReLU()}]}, "no module named blocks.0.second"),
        ({"blocks": [3]}, "expected Block for blocks.0, got int"),
        ({"scale": nn.ReLU()}, "expected array for scale, got ReLU"),
        ({"parts": nn.ReLU()}, "expected dict for parts, got ReLU"),
    ],
)
def test_strict_update_modules_names_what_does_not_fit(tree, message):
    model = Model()
    with pytest.raises(ValueError, match=rf"^\[update_modules\].*{message}"):
        model.update_modules(tree)
    model.update_modules(tree, strict=False)
    assert isinstance(model.blocks[0], Block) and "nope" not in model


# ------------------------------------------------------------------ apply, dtype, training


def test_apply():
    model = Model()
    model.apply(lambda a: a * 0 + 2)
    assert all(equal(a, np.full(a.shape, 2)) for _, a in tree_flatten(model.parameters()))
    assert equal(model._private, np.zeros(6)) and equal(model.pair[0], np.zeros(5))
    assert model.mixed[1] == "text" and model.parts["n"] == 3

    def in_blocks(module, key, value):
        return nn.Module.valid_parameter_filter(module, key, value) and key != "scale"

    model.apply(lambda a: a + 1, in_blocks)
    assert equal(model.scale, np.full(4, 2)) and equal(model.blocks[0].norm.bias, np.full(3, 3))
    with pytest.raises(ValueError, match="expected array for"):
        model.apply(lambda a: 3)


def test_set_dtype():
    layer = nn.Linear(2, 2)
    layer.count = mx.array([1])
    layer.set_dtype(mx.float16)
    assert (layer.weight.dtype, layer.bias.dtype, layer.count.dtype) == (
        mx.float16,
        mx.float16,
        mx.int32,
    )
    layer.set_dtype(mx.float32, predicate=lambda t: t == mx.int32)
    assert (layer.weight.dtype, layer.count.dtype) == (mx.float16, mx.float32)
    layer.set_dtype(mx.bfloat16, None)
    assert {a.dtype for _, a in tree_flatten(layer.parameters())} == {mx.bfloat16}


def test_training_mode():
    model = Model()
    assert model.training and model.mixed[2].training
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())
    model.train(False)
    assert not model.mixed[2].training
    with pytest.raises(AttributeError):
        model.training = True


# ------------------------------------------------------------------ freezing


def test_freeze_all_and_back():
    model = Model()
    assert model.freeze() is model
    assert names(model.trainable_parameters()) == []
    assert names(model.parameters()) == NAMES
    model.blocks[0].unfreeze()
    assert names(model.trainable_parameters()) == NAMES[:4]
    model.unfreeze()
    assert names(model.trainable_parameters()) == NAMES


def test_freeze_keys():
    model = Model()
    model.freeze(keys="bias")
    assert names(model.trainable_parameters()) == [n for n in NAMES if not n.endswith("bias")]
    model.unfreeze(keys=["bias"])
    model.freeze(keys=["weight", "scale"])
    assert names(model.trainable_parameters()) == [n for n in NAMES if not n.endswith(("weight", "scale"))]
    model.unfreeze().freeze(keys="blocks")
    assert names(model.trainable_parameters()) == NAMES[8:]


def test_freeze_without_recursion():
    model = Model()
    model.freeze(recurse=False)
    assert names(model.trainable_parameters()) == NAMES[:9]
    model.freeze().unfreeze(recurse=False)
    assert names(model.trainable_parameters()) == NAMES[9:]


@pytest.mark.parametrize("method", ["freeze", "unfreeze"])
def test_strict_keys(method):
    layer = nn.Linear(2, 2)
    with pytest.raises(KeyError, match=rf"\[{method}\] Linear has no member 'scale'"):
        getattr(layer, method)(keys=["bias", "scale"], strict=True)
    getattr(layer, method)(keys="bias", strict=True)
    model = nn.Sequential(nn.ReLU(), layer)
    getattr(model, method)(keys="bias", strict=True)  # one module that has it is enough
    with pytest.raises(KeyError, match="Sequential has no member 'bias'"):
        getattr(model, method)(keys="bias", strict=True, recurse=False)


def test_unfreeze_keeps_statistics_frozen():
    model = nn.Sequential(nn.BatchNorm(2), nn.Linear(2, 1))
    model.freeze().unfreeze()
    trainable = ["layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"]
    assert names(model.trainable_parameters()) == trainable
    model.layers[0].unfreeze(keys=["running_mean"])
    assert names(model.trainable_parameters()) == trainable
    model.unfreeze(keys=["running_mean"])  # by name, from above
    assert names(model.trainable_parameters()) == [*trainable[:2], "layers.0.running_mean", *trainable[2:]]
    model.freeze(keys=["running_mean"])
    assert names(model.trainable_parameters()) == trainable
    model.unfreeze(keys="running_var").unfreeze()
    assert names(model.trainable_parameters()) == trainable


def test_methods_of_modules_below_are_not_called_to_freeze_them():
    class Stubborn(nn.Linear):
        def freeze(self):
            raise AssertionError

        unfreeze = freeze

    model = nn.Sequential(Stubborn(2, 1))
    assert names(model.freeze().trainable_parameters()) == []
    assert names(model.unfreeze().trainable_parameters()) == ["layers.0.weight", "layers.0.bias"]


# ------------------------------------------------------------------ files


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_save_and_load(tmp_path, suffix):
    file = str(tmp_path / f"weights.{suffix}")
    model, other = Model(), Model()
    model.save_weights(file)
    assert not equal(model.blocks[0].first.weight, other.blocks[0].first.weight)
    assert other.load_weights(file) is other
    for (name, a), (_, b) in zip(tree_flatten(model.parameters()), tree_flatten(other.parameters())):
        assert equal(a, b), name


def test_save_wants_a_known_suffix(tmp_path):
    with pytest.raises(ValueError, match=r"\[save_weights\].*\.npz or \.safetensors"):
        Model().save_weights(str(tmp_path / "weights.bin"))


def test_load_from_a_list():
    model, other = Model(), Model()
    weights = tree_flatten(model.parameters())
    other.load_weights(weights)
    assert other.blocks[1].first.weight is model.blocks[1].first.weight

    other.load_weights([("scale", mx.zeros(4)), ("nope.x", mx.zeros(1))], strict=False)
    assert equal(other.scale, np.zeros(4))
    other.load_weights([("scale", mx.zeros(9))], strict=False)
    assert other.scale.shape == (9,)
    other.load_weights([], strict=False)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda w: w[:10], "^Missing 2 parameters: \nmixed.0,\nscale.$"),
        (lambda w: [*w, ("a.b", mx.zeros(1))], "^Received 1 parameters not in model: \na.b.$"),
        (
            lambda w: [("blocks.0.first.weight", mx.zeros((2, 3))), *w[1:]],
            r"\[load_weights\] expected shape \(3, 2\) for blocks.0.first.weight, got \(2, 3\)",
        ),
        (lambda w: [*w[:-1], ("mixed.0", 3)], r"\[load_weights\] expected an array for mixed.0, got int"),
    ],
)
def test_strict_load_names_what_does_not_fit(change, message):
    model = Model()
    before = tree_flatten(model.parameters())
    with pytest.raises(ValueError, match=message):
        model.load_weights(change(before))
    assert all(a is b for (_, a), (_, b) in zip(before, tree_flatten(model.parameters())))


def test_load_from_what_gives_pairs(tmp_path):
    model, other = Model(), Model()
    weights = tree_flatten(model.parameters(), destination={})
    model.save_weights(str(tmp_path / "w.npz"))
    for source in (weights, weights.items(), iter(weights.items()), tmp_path / "w.npz"):
        other.apply(mx.zeros_like)
        other.load_weights(source)
        for name, value in tree_flatten(other.parameters()):
            assert equal(value, weights[name]), name


def test_load_takes_arrays_of_numpy_where_not_strict():
    layer = nn.Linear(2, 1)
    weight = np.array([[3.0, 4.0]], np.float32)
    layer.load_weights([("weight", weight), ("nope", None)], strict=False)
    assert isinstance(layer.weight, mx.array) and equal(layer.weight, weight)
    with pytest.raises(ValueError, match=r"\[load_weights\] expected an array for weight, got ndarray"):
        layer.load_weights([("weight", weight), ("bias", weight)])


@pytest.mark.parametrize("strict", [True, False])
def test_load_from_what_holds_no_weights(tmp_path, strict):
    layer = nn.Linear(2, 1)
    mx.save(str(tmp_path / "w.npy"), mx.ones(3))
    with pytest.raises(ValueError, match=r"\[load_weights\] expected a file of arrays with names .*w\.npy"):
        layer.load_weights(str(tmp_path / "w.npy"), strict=strict)
    for source, got in ((5, "int"), (None, "NoneType"), (mx.ones(3), "array"), (b"w.npz", "bytes")):
        with pytest.raises(TypeError, match=rf"\[load_weights\] expected the name of a file or pairs.*got {got}"):
            layer.load_weights(source, strict=strict)
    for pair, got in ((3, "int"), (("weight",), "a tuple of str"), ((3, mx.ones(1)), "a tuple of int, array")):
        with pytest.raises(TypeError, match=rf"\[load_weights\] expected pairs of a name and an array, got {got}"):
            layer.load_weights([pair], strict=strict)
    with pytest.raises(ValueError, match=r"\[load_weights\] expected an array for weight, got int"):
        layer.load_weights([("weight", 5), ("bias", mx.zeros(1))], strict=strict)


def test_load_makes_no_list_of_a_huge_number():
    with pytest.raises(ValueError, match=r"\[tree_unflatten\].*large gaps, got \"layers.99999999\""):
        nn.Sequential(nn.Linear(1, 1)).load_weights([("layers.99999999.weight", mx.ones(1))], strict=False)


# ------------------------------------------------------------------ gradients


def test_value_and_grad():
    layer = nn.Linear(3, 2)
    x = np.array([[1.0, 2, 3], [4, 5, 7]], np.float32)

    def loss(model, x, *, factor=1.0):
        y = model(x)
        return factor * mx.sum(mx.square(y)), y

    (value, y), grads = nn.value_and_grad(layer, loss)(layer, mx.array(x), factor=2.0)
    w, b = (np.array(a, np.float64) for a in (layer.weight, layer.bias))
    want = x @ w.T + b
    np.testing.assert_allclose(np.array(y), want, rtol=1e-5)
    np.testing.assert_allclose(value.item(), 2 * (want**2).sum(), rtol=1e-5)
    np.testing.assert_allclose(np.array(grads["weight"]), 4 * want.T @ x, rtol=1e-5)
    np.testing.assert_allclose(np.array(grads["bias"]), 4 * want.sum(0), rtol=1e-5)


def test_value_and_grad_is_about_trainable_parameters():
    block = Block()
    block.first.freeze(keys="bias")
    block.norm.freeze()
    value_and_grad = nn.value_and_grad(block, lambda x: block(x).sum())
    _, grads = value_and_grad(mx.ones((1, 2)))
    assert names(grads) == ["first.weight"]
    block.freeze()
    with pytest.raises(ValueError, match=r"\[value_and_grad\] Block has no trainable parameters"):
        value_and_grad(mx.ones((1, 2)))


def test_value_and_grad_puts_the_parameters_back():
    layer = nn.Linear(2, 1)
    weight, bias = layer.weight, layer.bias

    def fails(x):
        raise RuntimeError("stop")

    nn.value_and_grad(layer, lambda x: layer(x).sum())(mx.ones((1, 2)))
    assert layer.weight is weight and layer.bias is bias
    with pytest.raises(RuntimeError, match="stop"):
        nn.value_and_grad(layer, fails)(None)
    assert layer.weight is weight and layer.bias is bias


def test_statistics_are_updated_under_value_and_grad():
    norm = nn.BatchNorm(1)
    nn.value_and_grad(norm, lambda x: norm(x).sum())(mx.array([[1.0], [3.0]]))
    np.testing.assert_allclose(np.array(norm.running_mean), [0.2], rtol=1e-6)
    np.testing.assert_allclose(np.array(norm.running_var), [1.1], rtol=1e-6)


class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = mx.ones(2)


def in_itself(kind):
    m, other = Holder(), Holder()
    if kind == "itself":
        m.a = m
    elif kind == "list":
        m.a = [other, m]
    elif kind == "dict":
        m.a = {"x": [m]}
    elif kind == "each other":
        m.a, other.b = other, m
    else:
        m.a, m.b, m.c, other.a, other.b = m, m, other, other, m
    return m


@pytest.mark.parametrize("kind", ["itself", "list", "dict", "each other", "often"])
def test_a_module_that_contains_itself_is_an_error(kind):
    calls = ["freeze", "unfreeze", "train", "eval", "modules", "named_modules", "leaf_modules"]
    for name in [*calls, "parameters", "trainable_parameters"]:
        m = in_itself(kind)
        with pytest.raises(mx.Error, match=r"\[Module\] expected a tree of modules, got a Holder that contains itself"):
            getattr(m, name)()
    m = in_itself(kind)
    for call in (lambda: m.apply(mx.exp), lambda: nn.quantize(m), lambda: nn.value_and_grad(m, lambda: m.w.sum())()):
        with pytest.raises(mx.Error, match="contains itself"):
            call()
    for call in (lambda: mx.eval(m), lambda: m.update(m)):
        with pytest.raises(RecursionError):
            call()
    assert "..." in repr(m)


@pytest.mark.parametrize("kind", [dict, list])
def test_a_container_that_contains_itself_is_an_error(kind):
    m = Holder()
    m.a = {"w": mx.ones(2)} if kind is dict else [mx.ones(2)]
    if kind is dict:
        m.a["x"] = [m.a]
    else:
        m.a.append({"x": m.a})
    calls = ["freeze", "train", "modules", "leaf_modules", "parameters", "trainable_parameters", "__repr__"]
    more = [lambda: m.apply(mx.exp), lambda: nn.quantize(m), lambda: m.save_weights("x.npz")]
    for call in [*(getattr(m, name) for name in calls), *more]:
        with pytest.raises(mx.Error, match=r"expected a tree of modules, got a (dict|list) that contains itself"):
            call()
    for call in (lambda: mx.eval(m), lambda: m.update({"a": m.a})):
        with pytest.raises((RecursionError, mx.Error)):
            call()


def test_a_container_in_several_places():
    m, shared = Holder(), {"w": mx.ones(2)}
    m.a, m.b = [shared, shared], shared
    assert [name for name, _ in tree_flatten(m.parameters())] == ["w", "a.0.w", "a.1.w", "b.w"]


def test_a_reference_beside_the_tree():
    m, other = Holder(), Holder()
    m.a = other
    object.__setattr__(other, "parent", m)
    assert other.parent is m and m.modules() == [m, other] and list(other.parameters()) == ["w"]


def test_a_module_in_several_places():
    m, other = Holder(), Holder()
    m.a = m.b = other
    m.c = [other, {"x": other}]
    assert [name for name, _ in m.named_modules()] == ["", "c.1.x", "c.0", "b", "a"]
    m.freeze()
    assert not tree_flatten(m.trainable_parameters()) and len(tree_flatten(m.parameters())) == 5
    m.train(False)
    assert not other.training


def test_a_compiled_module_is_walked_as_the_module():
    m = Holder()
    m.a = mx.compile(nn.Linear(2, 3))
    m.c = [mx.compile(nn.Linear(3, 1)), {"k": mx.compile(nn.relu)}]
    names = [name for name, _ in tree_flatten(m.parameters())]
    assert names == ["w", "a.weight", "a.bias", "c.0.weight", "c.0.bias"]
    assert [name for name, _ in m.named_modules()] == ["", "c.0", "a"]
    assert m.c[0](m.a(mx.ones((1, 2)))).shape == (1, 1)
    m.freeze()
    assert not tree_flatten(m.trainable_parameters()) and not tree_flatten(m.a.trainable_parameters())
    assert not m.eval().a.training
    # What the traces hold would stay what it was.
    with pytest.raises(TypeError, match=r"\[update\] expected a module for a, got a compiled one"):
        m.update(m.parameters())
    m.update({"w": mx.zeros(2)})
    m.a = mx.array(1.0)
    assert [name for name, _ in m.named_modules()] == ["", "c.0"]
