"""`mlx.nn`, `mlx.optimizers` and `mlx.utils` beside those of the `mlx` package: text of layers, parameters and
which are trained, results, gradients, errors, states of optimizers, line by line of nn_there.py.

Skipped unless MLX_UPSTREAM_PYTHON is the path of a Python that has the `mlx` package and NumPy.
"""

import json
import os
import pathlib
import subprocess
import sys

import mlx
import numpy as np
import pytest

UPSTREAM = os.environ.get("MLX_UPSTREAM_PYTHON")
PROGRAM = pathlib.Path(__file__).with_name("nn_there.py")

# Where this package differs, on purpose: beginnings of lines, and why.
DIFFERENT = {
    "Dropout": "p is shown as it was given, not as 1 - (1 - p)",
    "RNN(": "the nonlinearity is shown by its name",
    "QQLinear": "runs on the CPU",
    "Linear(64, 8, bias=False).to_quantized(mode='mxfp8', quantize_input=True)": "runs on the CPU",
    "nn.Sequential(nn.QQLinear(64, 8)).eval().train()": "weights come back in the type they had",
    'nn.QQLinear(64, 8, mode="affine")': "refused at once, not at the first call",
    "nn.Linear(0, 3)": "refused as a wrong value",
    "optim.Adafactor(relative_step=False)": "refused at once, not at the first step",
    "QuantizedLinear(64, 8).unfreeze() gradients": "packed numbers have the gradient 0 of integers",
    'nn.Linear(2, 3).update({"weight": 3}, strict=False)': "what is no array is passed over, not put in its place",
    'nn.Linear(2, 3).update_modules({"weight"': "refused",
    "nn.BatchNorm(4).unfreeze()": "gives the layer, not None",
    "nn.BatchNorm(4).freeze().unfreeze(": "gives the layer, not None",
    "nn.Sequential(nn.BatchNorm(4)).freeze().unfreeze()": "statistics stay frozen",
    "tree_flatten(TREE, prefix=": "a prefix loses its first character only where that is a dot",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """[(texts, arrays)] of this package and of the other."""
    found = []
    for python, path in ((sys.executable, pathlib.Path(mlx.__path__[0]).parent), (UPSTREAM, "")):
        folder = tmp_path_factory.mktemp("nn")
        env = {**os.environ, "PYTHONPATH": str(path)}
        subprocess.run([python, PROGRAM, folder], check=True, env=env, cwd=folder)
        with np.load(folder / "arrays.npz") as file:
            arrays = dict(zip(json.loads((folder / "names.json").read_text()), [file[name] for name in file.files]))
        found.append((json.loads((folder / "texts.json").read_text()), arrays))
    return found


def same(here, there):
    """An error is caught here by whatever catches it there."""
    if here.startswith("raises") and there.startswith("raises"):
        return there.split()[1] in here.split()
    return here == there


def is_known(name):
    return any(name.startswith(beginning) for beginning in DIFFERENT)


@pytest.mark.slow
@pytest.mark.skipif(not UPSTREAM, reason="MLX_UPSTREAM_PYTHON names no Python with the mlx package")
def test_texts(both):
    (here, _), (there, _) = both
    assert len(here) > 1500 and here.keys() == there.keys()
    # Modules that show a dropout somewhere inside show it as said above.
    shown = {k: v.replace("p=0.09999999999999998", "p=0.1") for k, v in there.items()}
    differ = {k: (here[k], v) for k, v in shown.items() if not same(here[k], v)}
    wrong = [f"{k}\n  here  {a}\n  there {b}" for k, (a, b) in differ.items() if not is_known(k)]
    assert not wrong, "\n".join(wrong)
    assert all(any(k.startswith(known) for k in differ) for known in DIFFERENT)


@pytest.mark.slow
@pytest.mark.skipif(not UPSTREAM, reason="MLX_UPSTREAM_PYTHON names no Python with the mlx package")
def test_arrays(both):
    (_, here), (_, there) = both
    assert len(there) > 2000
    for name, want in there.items():
        if is_known(name) and name not in here:
            continue
        close = {"bfloat16": 1.6e-2, "float16": 2e-3}.get(name.rsplit(" ", 1)[-1], 2e-5)
        scale = max(1, np.abs(want[np.isfinite(want)]).max(initial=0))
        np.testing.assert_allclose(here[name], want, rtol=close, atol=close * scale, err_msg=name)
