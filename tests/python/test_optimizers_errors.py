"""Optimizers given what is not a gradient, a parameter or a state of theirs; and what only looks like that."""

import gc
import itertools
import os
import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map

ALL = {
    "SGD": lambda: optim.SGD(0.1),
    "momentum": lambda: optim.SGD(0.1, momentum=0.9, weight_decay=0.1),
    "RMSprop": lambda: optim.RMSprop(0.1),
    "Adagrad": lambda: optim.Adagrad(0.1),
    "AdaDelta": lambda: optim.AdaDelta(0.1),
    "Adam": lambda: optim.Adam(0.1),
    "AdamW": lambda: optim.AdamW(0.1),
    "Adamax": lambda: optim.Adamax(0.1),
    "Lion": lambda: optim.Lion(0.1),
    "Adafactor": lambda: optim.Adafactor(),
    "Muon": lambda: optim.Muon(0.1),
    "MultiOptimizer": lambda: optim.MultiOptimizer([optim.Adam(0.1), optim.SGD(0.1)], [lambda name, g: False]),
}
every = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


@every
@pytest.mark.parametrize(
    "parameter, gradient, message",
    [
        (mx.ones((2, 3)), mx.ones((5, 3)), r"a gradient of shape \(2, 3\), got \(5, 3\)"),
        (mx.ones((2, 3)), mx.ones((4, 2, 3)), r"a gradient of shape \(2, 3\), got \(4, 2, 3\)"),
        (mx.ones((1, 3)), mx.ones((2, 3)), r"a gradient of shape \(1, 3\), got \(2, 3\)"),
        (mx.array(1.0), mx.ones(3), r"a gradient of shape \(\), got \(3,\)"),
        (1.0, mx.ones(3), r"a gradient of shape \(\), got \(3,\)"),
        (mx.ones(3), 1.0, "an array, got float as the gradient"),
        ({"x": mx.ones(3)}, mx.ones(3), "an array, got dict as the parameter"),
    ],
)
def test_misfits_are_named_before_anything_changes(make, parameter, gradient, message):
    optimizer = make()
    before = int(optimizer.step)
    with pytest.raises(ValueError, match=rf"\[\w+\] expected {message}.* for layers\.1\.w$"):
        optimizer.apply_gradients({"layers": [{}, {"w": gradient}]}, {"layers": [{"w": mx.ones(2)}, {"w": parameter}]})
    assert int(optimizer.step) == before
    assert "layers" not in optimizer.state


@every
def test_integers_and_masks_of_a_model_are_not_trained(make):
    """Their gradients are integers too. A model may hold such tables; what is beside them learns."""

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = mx.ones((2, 3))
            self.order = mx.array([2, 0, 1])
            self.mask = mx.array([True, False, True])

        def __call__(self, x):
            return ((self.w[:, self.order] * self.mask) * x).sum()

    model, optimizer = Masked(), make()
    for _ in range(3):
        optimizer.update(model, nn.value_and_grad(model, model)(mx.ones(3))[1])
    assert model.order.dtype == mx.int32 and model.order.tolist() == [2, 0, 1]
    assert model.mask.dtype == mx.bool_ and model.mask.tolist() == [True, False, True]
    assert (model.w[:, mx.array([2, 1])] < 1).all()


@every
def test_floating_gradients_of_integers_make_floats(make):
    updated = make().apply_gradients({"w": mx.ones((2, 2))}, {"w": mx.full((2, 2), 7)})["w"]
    assert updated.dtype == mx.float32
    assert (updated < 7).all()


@every
@pytest.mark.parametrize("shape", [(3,), (1, 3), (), (2, 1)])
def test_gradients_that_repeat_their_values(make, shape):
    """They do what the same values written out do, but where the rule depends on the gradient's shape."""
    gradient = mx.random.normal(shape, key=mx.random.key(3))
    parameter = mx.ones((2, 3))
    small = make().apply_gradients({"w": gradient}, {"w": parameter})["w"]
    full = make().apply_gradients({"w": mx.broadcast_to(gradient, (2, 3))}, {"w": parameter})["w"]
    assert small.shape == (2, 3)
    if make not in (ALL["Adafactor"], ALL["Muon"]):
        np.testing.assert_allclose(small, full, rtol=1e-6)


@every
def test_gradients_of_integers_are_gradients(make):
    one = make().apply_gradients({"w": mx.array([[1, -2, 3]])}, {"w": mx.ones((1, 3))})["w"]
    two = make().apply_gradients({"w": mx.array([[1.0, -2, 3]])}, {"w": mx.ones((1, 3))})["w"]
    np.testing.assert_array_equal(one, two)
    assert np.all(np.array(one) != 1)


@every
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_parameters_without_values(make, shape):
    updated = make().apply_gradients({"w": mx.ones(shape)}, {"w": mx.ones(shape)})["w"]
    mx.eval(updated)
    assert updated.shape == shape


def test_a_number_as_parameter():
    for parameter in (1.0, 1):
        updated = optim.SGD(0.5).apply_gradients({"w": mx.array(1.0)}, {"w": parameter})["w"]
        assert updated.item() == 0.5


def state(**rest):
    return {"step": mx.array(0, mx.uint64), "learning_rate": mx.array(0.1), **rest}


@pytest.mark.parametrize(
    "given, message",
    [
        (state(w={"m": mx.ones((2, 3)), "v": mx.ones((2, 3))}), r"an array 'm' of shape \(3,\).* of w, got \(2, 3\)"),
        (state(w={"m": mx.ones(3), "v": mx.ones(5)}), r"an array 'v' of shape \(3,\) in the state of w, got \(5,\)"),
        (state(w={"m": mx.ones(3), "v": "x"}), r"an array 'v' of shape \(3,\) in the state of w, got str"),
        (state(w={"m": mx.ones(3)}), r"'v' in the state of w, got only \['m'\]"),
        (state(w=5), "a dict as the state of w, got int"),
    ],
)
def test_states_of_other_parameters(given, message):
    optimizer = optim.Adam(0.1)
    optimizer.state = given
    with pytest.raises(ValueError, match=rf"\[Adam\] expected {message}"):
        optimizer.apply_gradients({"w": mx.ones(3)}, {"w": mx.ones(3)})


def test_a_state_of_another_model():
    optimizer = optim.Adam(0.1)
    optimizer.state = state(layers=7)
    with pytest.raises(ValueError, match=r"\[Adam\] expected a dict as the state of layers, got int"):
        optimizer.apply_gradients({"layers": {"w": mx.ones(3)}}, {"layers": {"w": mx.ones(3)}})


@pytest.mark.parametrize("given", [None, [], 5, mx.array(1.0)])
def test_states_that_are_no_dict(given):
    with pytest.raises(ValueError, match=r"\[Adam\] expected a dict as the state, got"):
        optim.Adam(0.1).state = given
    with pytest.raises(ValueError, match=r"\[MultiOptimizer\] expected a state of the form"):
        optim.MultiOptimizer([optim.SGD(0.1)]).state = given


@pytest.mark.parametrize("missing", ["step", "learning_rate"])
def test_states_that_lack_something(missing):
    optimizer = optim.Adam(0.1)
    optimizer.state = {name: value for name, value in state().items() if name != missing}
    with pytest.raises(KeyError, match=rf"\[Adam\] the state has no '{missing}'"):
        optimizer.apply_gradients({"w": mx.ones(3)}, {"w": mx.ones(3)})


def test_an_update_of_another_shape():
    class Odd(optim.Optimizer):
        def init_single(self, parameter, state):
            pass

        def apply_single(self, gradient, parameter, state):
            return mx.sum(parameter)

    with pytest.raises(ValueError, match=r"\[Odd\] expected an update of shape \(3,\), .*got \(\)"):
        Odd().apply_gradients({"w": mx.ones(3)}, {"w": mx.ones(3)})


NO_RATES = [
    ([], r"a real number for learning_rate, got an array of shape \(0,\)"),
    ((1, 2), r"a real number for learning_rate, got an array of shape \(2,\)"),
    (mx.zeros((2, 3)), r"a real number for learning_rate, got an array of shape \(2, 3\)"),
    (np.ones(2), r"a real number for learning_rate, got an array of shape \(2,\)"),
    (mx.array(1j), r"a real number for learning_rate, got mlx.core.complex64"),
    (float("nan"), "a number for learning_rate, got nan"),
    (np.float32("nan"), "a number for learning_rate, got nan"),
    ("a", "a number for learning_rate, got 'a'"),
    (None, "a number for learning_rate, got None"),
]


@pytest.mark.parametrize("rate, message", NO_RATES)
@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.Muon, optim.AdaDelta])
def test_learning_rates_that_are_no_number(kind, rate, message):
    for given in (rate, lambda step: rate):
        with pytest.raises(ValueError, match=rf"\[{kind.__name__}\] expected {message}"):
            kind(given)
    optimizer = kind(0.5)
    with pytest.raises(ValueError, match=rf"\[{kind.__name__}\] expected {message}"):
        optimizer.learning_rate = rate
    assert optimizer.learning_rate.item() == 0.5


@pytest.mark.parametrize("rate", [[0.5], mx.array([0.5]), mx.array([[0.5]]), np.full(1, 0.5)], ids=repr)
@pytest.mark.parametrize("make", [optim.SGD, lambda rate: optim.Adam(rate, bias_correction=True)])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_a_learning_rate_in_an_array_of_one(make, rate, shape):
    optimizer = make(rate)
    assert optimizer.learning_rate.shape == np.shape(rate)
    assert optimizer.apply_gradients({"w": mx.ones(shape)}, {"w": mx.ones(shape)})["w"].shape == shape


def test_steps_of_muon():
    for steps in (-3, -1):
        with pytest.raises(ValueError, match=r"\[Muon\] expected ns_steps in \[0, inf\), got -"):
            optim.Muon(0.1, ns_steps=steps)
    for steps in ("a", 2.5, None):
        with pytest.raises(mx.ConversionError, match=r"\[Muon\] expected an int for ns_steps, got"):
            optim.Muon(0.1, ns_steps=steps)
    for steps in (0, True, np.int64(2), mx.array(2)):
        w = optim.Muon(0.1, ns_steps=steps).apply_gradients({"w": mx.ones((2, 2))}, {"w": mx.ones((2, 2))})["w"]
        assert (w < 1).all()


class Wrong(Exception):
    pass


def spoilt(optimizer):
    """With a rule that fails for matrices."""
    rule = optimizer.apply_single

    def apply_single(gradient, parameter, state):
        if parameter.ndim == 2:
            raise Wrong
        return rule(gradient, parameter, state)

    optimizer.apply_single = apply_single


@pytest.mark.parametrize(
    "spoil",
    [
        lambda o: o.state.update(b=[{"m": mx.zeros(2)}]),
        lambda o: setattr(o, "_schedulers", {"learning_rate": lambda step: "a"}),
        spoilt,
        lambda o: o.state.pop("learning_rate"),
    ],
    ids=["state", "schedule", "rule", "rate"],
)
@pytest.mark.parametrize("several", [False, True])
def test_a_step_that_fails_is_none(spoil, several):
    """Neither the count of steps nor the state of any parameter has moved, and the dicts are the same ones."""
    w = {"a": mx.ones(2), "b": [mx.ones((2, 2))], "c": mx.ones(3)}
    adam, before = optim.Adam(0.1), optim.SGD(0.1, momentum=0.9)
    optimizer = optim.MultiOptimizer([before, adam], [lambda name, g: name == "c"]) if several else adam
    optimizer.apply_gradients(w, w)
    spoil(adam)
    held = [(o.state, tree_flatten(o.state)) for o in (adam, before)]
    with pytest.raises((Wrong, ValueError, KeyError)):
        optimizer.apply_gradients({**w, "new": mx.ones(1)}, {**w, "new": mx.ones(1)})
    for o, (state, leaves) in zip((adam, before), held):
        assert o.state is state
        assert [name for name, _ in tree_flatten(state)] == [name for name, _ in leaves]
        assert all(now is then for (_, now), (_, then) in zip(tree_flatten(state), leaves))


def test_no_optimizers():
    with pytest.raises(ValueError, match=r"\[MultiOptimizer\] expected at least one optimizer, got none"):
        optim.MultiOptimizer([], [])


@pytest.mark.parametrize("make", [ALL["SGD"], ALL["Adam"], ALL["Lion"]])
def test_a_look_at_shapes_ties_no_trace(make):
    """A shapeless compiled step that needs no shape is traced once for batches of all sizes."""
    optimizer, traces = make(), []
    optimizer.init({"w": mx.ones(3)})

    def step(w, x):
        traces.append(x)
        return optimizer.apply_gradients({"w": mx.sum(x, axis=0)}, {"w": w})["w"]

    compiled = mx.compile(step, inputs=optimizer.state, outputs=optimizer.state, shapeless=True)
    w = mx.ones(3)
    for n in (4, 7, 9, 4, 11):
        w = compiled(w, mx.ones((n, 3)))
    assert len(traces) == 1
    assert w.shape == (3,)


@pytest.mark.parametrize("rate", [1j, mx.array(0.1 + 1j), lambda step: 0.1j])
@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.Lion, optim.Muon])
def test_a_complex_learning_rate(make, rate):
    with pytest.raises(
        mx.Error, match=rf"\[{make.__name__}\] expected a real number for learning_rate, got .*complex64"
    ):
        make(rate)
    optimizer = make(0.1)
    with pytest.raises(mx.Error, match="expected a real number for learning_rate"):
        optimizer.learning_rate = 1j
    assert optimizer.learning_rate.item() == np.float32(0.1)


@pytest.mark.parametrize(
    "make, name",
    [
        (optim.SGD, "momentum"),
        (optim.SGD, "weight_decay"),
        (optim.SGD, "dampening"),
        (optim.AdamW, "weight_decay"),
        (optim.Lion, "weight_decay"),
        (optim.Adafactor, "weight_decay"),
        (optim.Muon, "momentum"),
        (optim.Muon, "weight_decay"),
    ],
)
@pytest.mark.parametrize("value", [1j, "0.1", None])
def test_hyper_parameters_that_are_no_real_numbers(make, name, value):
    with pytest.raises(mx.ConversionError, match=rf"\[{make.__name__}\] expected a number for {name}, got"):
        make(0.1, **{name: value})


@pytest.mark.parametrize("where", ["enters", "leaves"])
def test_an_exception_that_is_kept_changes_nothing_later(where):
    """A handler of a signal may raise anywhere, also on the way into what takes a failed step back, or out of it."""

    class Stop(BaseException):
        pass

    def stop(frame, event, argument):
        name = frame.f_code.co_name
        if (event, name) in {("call", "_applied"), ("call", "__enter__")} and where == "enters":
            raise Stop
        if (event, name) in {("return", "_applied"), ("call", "__exit__")} and where == "leaves":
            raise Stop

    optimizer, w = optim.Adam(0.1), {"w": mx.array([1.0])}
    w = optimizer.apply_gradients({"w": mx.array([1.0])}, w)
    sys.setprofile(stop)
    try:
        optimizer.apply_gradients({"w": mx.array([1.0])}, w)
        raise AssertionError("nothing stopped it")
    except Stop as e:
        kept = e
    finally:
        sys.setprofile(None)
    assert optimizer.step.item() == 1
    for _ in range(3):
        w = optimizer.apply_gradients({"w": mx.array([1.0])}, w)
    del kept
    gc.collect()
    assert optimizer.step.item() == 4


def interrupted(work, nth):
    """Was `work` interrupted, at the nth line that it runs in the package?"""
    left = nth

    def trace(frame, event, _):
        nonlocal left
        if f"{os.sep}mlx{os.sep}" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize(
    "new_optimizer",
    [
        lambda: optim.SGD(0.5, momentum=0.9),
        lambda: optim.MultiOptimizer(
            [optim.SGD(0.5, momentum=0.9), optim.Adam(0.5)], [lambda name, _: name.startswith("layers.0")]
        ),
    ],
    ids=["SGD", "MultiOptimizer"],
)
def test_interrupted_updates_are_all_or_nothing(new_optimizer):
    def value(tree):
        return [x.tolist() for _, x in tree_flatten(tree)]

    seen = set()
    for nth in itertools.count():
        model, optimizer = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2)), new_optimizer()
        model.update(tree_map(mx.zeros_like, model.parameters()))
        gradients = tree_map(mx.ones_like, model.trainable_parameters())
        optimizer.init(model.trainable_parameters())
        if not interrupted(lambda: optimizer.update(model, gradients), nth):  # noqa: B023
            break
        moved = {bool(np.any(x)) for x in value(model.trainable_parameters())}
        steps = {x.item() for name, x in tree_flatten(optimizer.state) if name.endswith("step")}
        assert (moved, steps) in (({False}, {0}), ({True}, {1})), nth
        seen |= steps
    assert nth > 50 and 0 in seen


def test_interrupted_replacements_are_all_or_nothing():
    for nth in itertools.count():
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        ones = tree_map(mx.ones_like, model.parameters())
        if not interrupted(lambda: model.update(ones), nth):  # noqa: B023
            break
        assert len({bool((x == 1).all()) for _, x in tree_flatten(model.parameters())}) == 1, nth
    assert nth > 10
