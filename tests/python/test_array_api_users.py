"""scikit-learn and SciPy run with our arrays, by the array API standard."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("array_api_users.py")

# What does not work, and why.
KEPT = {
    "linear_model.RidgeClassifier(solver='svd').fit(X, Y).coef_": "labels of -1 are written where searchsorted's "
    "indices were, which are unsigned as in the mlx package",
}


def test_page():
    page = PROGRAM.parents[2] / "docs" / "array_api.md"
    script = re.search(r"```python\n(.*?)```", page.read_text(), re.S).group(1)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout == "<class 'mlx.core.array'> (4,)\n", run.stderr


@pytest.mark.parametrize("library", ["scipy", "sklearn"])
def test_calls(library):
    run = subprocess.run([sys.executable, PROGRAM, library], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    number, failures = json.loads(run.stdout.splitlines()[-1])
    assert number > 70
    assert failures.keys() == {name for name in KEPT if library == "sklearn"}, failures
