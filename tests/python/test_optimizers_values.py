"""Optimizers and their states, name by name and number by number, beside those of the `mlx` package, which
data/optimizers_of_mlx.py wrote down: a checkpoint goes either way, and training goes on as it would there."""

import json
import math
import pathlib
import sys

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_flatten

DATA = pathlib.Path(__file__).parent / "data"
sys.path.insert(0, str(DATA))
from optimizers_of_mlx import CASES, outcome  # noqa: E402

# Sums of squares, roots and products of matrices are not rounded alike in half types.
CLOSE = {"uint64": 0, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


@pytest.mark.parametrize("text", CASES)
def test_five_steps(text):
    lines, values = outcome(text)
    values = np.concatenate(values)
    with np.load(DATA / "optimizers_of_mlx.npz") as file:
        assert lines == str(file[f"{text} lines"]).split("\n")
        want = file[f"{text} values"]
    at = 0
    for line in lines:
        _, dtype, shape = line.rsplit("/", 2)
        size = math.prod(json.loads(shape))
        got, true = values[at : at + size], want[at : at + size]
        at += size
        scale = np.abs(true).max(initial=0)
        np.testing.assert_allclose(got, true, rtol=CLOSE[dtype], atol=CLOSE[dtype] * scale, err_msg=line)
    assert at == len(values) == len(want)


def test_states_of_several_optimizers_hold_their_own_parameters_only():
    optimizer = optim.MultiOptimizer([optim.SGD(0.1), optim.Adam(0.1)], [lambda name, g: name.endswith("w")])
    parameters = {
        "a": {"w": mx.ones(2)},
        "b": {"x": mx.ones(2)},
        "c": [mx.ones(1), {"w": mx.ones(1)}],
        "d": [mx.ones(1)],
    }
    optimizer.init(parameters)
    sgd, adam = optimizer.state["states"]
    assert sgd.keys() == {"step", "learning_rate", "a", "c"} and sgd["c"][0] == {}
    assert adam.keys() == {"step", "learning_rate", "b", "c", "d"} and adam["c"][1] == {}
    updated = optimizer.apply_gradients(parameters, parameters)
    assert {k for k, _ in tree_flatten(updated)} == {k for k, _ in tree_flatten(parameters)}


def test_clipped_integers_become_floats():
    clipped, norm = optim.clip_grad_norm({"a": mx.array([30000, 40000]), "b": mx.array([0.0], mx.float16)}, 1)
    assert clipped["a"].dtype == mx.float32 and clipped["b"].dtype == mx.float16
    assert norm.item() == 50000
    np.testing.assert_allclose(np.array(clipped["a"]), [0.6, 0.8], rtol=1e-6)


def test_the_norm_of_complex_numbers():
    clipped, norm = optim.clip_grad_norm([mx.array([3 + 4j])], 1.0)
    assert norm.dtype == mx.float32 and norm.item() == 5
    np.testing.assert_allclose(np.array(clipped[0]), [0.6 + 0.8j], rtol=1e-6)


@pytest.mark.parametrize("norm", [-1, -1e-9, float("nan")])
def test_no_norm_to_clip_to(norm):
    with pytest.raises(ValueError, match=r"\[clip_grad_norm\] expected max_norm >= 0, got"):
        optim.clip_grad_norm({"a": mx.ones(2)}, norm)


@pytest.mark.parametrize("new", [optim.RMSprop, optim.Adagrad, optim.AdaDelta])
@pytest.mark.parametrize("eps", [0.0, -1e-8, float("nan")])
def test_eps_is_positive(new, eps):
    with pytest.raises(ValueError, match=rf"\[{new.__name__}\] expected eps > 0, got"):
        new(0.1, eps=eps)


def test_eps_of_adafactor_is_not_negative():
    with pytest.raises(ValueError, match=r"\[Adafactor\] expected eps\[1\] in \[0, inf\), got -1"):
        optim.Adafactor(eps=(0.0, -1))
    for wrong, said in (
        ({"clip_threshold": 0}, r"clip_threshold > 0, got 0"),
        ({"clip_threshold": "1"}, r"a number for clip_threshold, got '1'"),
        ({"decay_rate": "x"}, r"a number for decay_rate, got 'x'"),
        ({"beta_1": 2}, r"beta_1 in \[0, 1\), got 2"),
    ):
        with pytest.raises((ValueError, TypeError), match=rf"\[Adafactor\] expected {said}"):
            optim.Adafactor(**wrong)
