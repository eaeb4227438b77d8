"""Exceptions are caught by whoever catches those of the `mlx` package or of NumPy for the same mistake."""

import errno
import importlib
import json
import pathlib
import pickle
import sys

import mlx.core as mx
import mlx.nn as nn
import pytest

DATA = pathlib.Path(__file__).parent / "data"
sys.path.insert(0, str(DATA))
from exceptions_of_mlx import CALLS, damaged, raised  # noqa: E402

CLASSES = {
    "Error": (ValueError, RuntimeError),
    "ArrayIndexError": (mx.Error, IndexError),
    "AxisError": (mx.Error, IndexError),
    "ConversionError": (mx.Error, TypeError),
    "IntegerOverflowError": (mx.Error, OverflowError, TypeError),
    "MissingFileError": (mx.Error, FileNotFoundError),
    "OutOfMemoryError": (mx.Error, MemoryError),
}

# Where what is raised here is not what is raised there: a part of the call, and why.
DIFFERENT = {
    "x+object()": "the operator declines, and Python says what it says then",
    'mx.array(1)//"a"': "the same",
    'pow(x,"a")': "the same",
    "x.__delitem__(0)": "the method is there and refuses",
    "relative_step=False": "refused when it is made, not at the first step, where a name is missing",
    "conv_transpose3d": "there an index into a shape that is too short",
    "gated_delta_update": "the same",
    "cosine_similarity_loss": "the same",
    "metal_kernel": "there is no Metal there",
    "mx.moveaxis(X, (0, 1), (0, 5))": "one axis is moved there, and several are no number",
    "include_initial=True": "a parameter that is not there",
    "mode='full'": "the same",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return damaged(tmp_path_factory.mktemp("files"))


def test_every_call_is_caught(folder):
    """Those that fail here and there, by a function that is there."""
    text = (DATA / "exceptions_of_mlx.json").read_text()
    there = {call: kind for call, kind in json.loads(text).items() if kind}
    missed = []
    for call in CALLS:
        if there.get(call, "AttributeError") != "AttributeError" and not any(part in call for part in DIFFERENT):
            here = raised(call, folder)
            if here and there[call] not in here:
                missed.append(f"{call}: {there[call]} there, {here[:1]} here")
    assert not missed, "\n".join(missed)
    assert len(there) > 700


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    kind = getattr(mx, name)
    assert all(issubclass(kind, base) for base in CLASSES[name])
    assert kind.__module__ == "mlx.core" and kind.__doc__
    error = kind("what went wrong")
    assert repr(error) == f"{name}('what went wrong')" and str(error) == "what went wrong"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and again.args == error.args


@pytest.mark.parametrize(
    "call, name",
    [
        (lambda: mx.zeros((2, 3)) @ mx.zeros((2, 3)), "Error"),
        (lambda: mx.linalg.inv(mx.zeros((2, 2)), stream=mx.cpu).tolist(), "Error"),
        (lambda: mx.grad(lambda x: x)(mx.zeros(2)), "Error"),
        (lambda: mx.zeros(3)[7], "ArrayIndexError"),
        (lambda: mx.zeros(3)["a"], "ArrayIndexError"),
        (lambda: mx.sum(mx.zeros(3), axis=2), "AxisError"),
        (lambda: mx.array("text"), "ConversionError"),
        (lambda: mx.exp("text"), "ConversionError"),
        (lambda: mx.zeros("text"), "ConversionError"),
        (lambda: mx.zeros(1 << 40), "IntegerOverflowError"),
        (lambda: mx.array([1], mx.uint8) + 300, "IntegerOverflowError"),
        (lambda: mx.load("nowhere.npy"), "MissingFileError"),
        (lambda: mx.load("nowhere.npz"), "MissingFileError"),
        (lambda: mx.save("nowhere/x.npy", mx.zeros(1)), "MissingFileError"),
        (lambda: mx.savez("nowhere/x.npz", mx.zeros(1)), "MissingFileError"),
        (lambda: mx.import_function("nowhere.mlxfn"), "MissingFileError"),
        (lambda: mx.export_function("nowhere/x.mlxfn", lambda x: x, mx.zeros(1)), "MissingFileError"),
        (lambda: mx.eval(mx.zeros((1 << 30, 1 << 20)) + 1), "OutOfMemoryError"),
        (lambda: nn.LayerNorm(3)(mx.zeros(4)), "Error"),
        (lambda: nn.losses.mse_loss(mx.zeros(4), mx.zeros(3)), "Error"),
        (lambda: importlib.import_module("mlx.utils").tree_merge({"a": 1}, {"a": 2}), "Error"),
        (lambda: importlib.import_module("mlx.optimizers").SGD(0.1, nesterov=True), "Error"),
    ],
)
def test_what_is_raised(call, name):
    with pytest.raises(getattr(mx, name)) as caught:
        call()
    assert type(caught.value) is getattr(mx, name)
    if name == "MissingFileError":
        assert caught.value.errno == errno.ENOENT and "nowhere" in str(caught.value)
