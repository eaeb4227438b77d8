"""Calls of every function, method and layer with every kind of argument get the `mlx` package's answers."""

import functools
import gzip
import json
import math
import os
import pathlib
import subprocess
import sys

import mlx.core as mx
import pytest

DATA = pathlib.Path(__file__).parent / "data"
sys.path.insert(0, str(DATA))
import answers_of_mlx  # noqa: E402
import laziness_of_mlx  # noqa: E402
from answers_of_mlx_differences import DIFFERENT  # noqa: E402

THERE = json.loads(gzip.decompress(answers_of_mlx.ANSWERS.read_bytes()))
UPSTREAM = os.environ.get("MLX_UPSTREAM_PYTHON")


@functools.cache
def all_calls():
    return dict(answers_of_mlx.calls())


def near(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[k], b[k]) for k in a)
    if isinstance(a, float) or isinstance(b, float):
        both = isinstance(a, (int, float)) and isinstance(b, (int, float))
        return both and (a == b or (a != a and b != b) or math.isclose(a, b, rel_tol=4e-3, abs_tol=4e-3))
    return a == b


def differs(there, here):
    """How, in a word and the classes of exceptions, or None."""
    if here[0] in ("ends the process", "hangs"):
        return here[0]
    if there[0] in ("ends the process", "hangs"):
        return None
    if there[0] == "raises":
        if here[0] == "raises":
            return None if there[1] in here else f"class {there[1]} {here[1]}"
        return f"value {there[1]}"
    if here[0] == "raises":
        return f"raises {here[1]}"
    return None if near(there, here) else "answer"


def unexplained(name, here):
    """The calls of a function that answer otherwise than the package did, without a reason in the table."""
    assert len(THERE[name]) == len(all_calls()[name]) == len(here), "run answers_of_mlx.py with the mlx package"
    wrong = []
    for call, a, b in zip(all_calls()[name], THERE[name], here):
        how = differs(a, b)
        if how and not any(p.search(f"{how} {call}") for p in DIFFERENT):
            wrong.append(f"{how}: {call}\n        there {a}\n        here  {b}")
    return f"{len(wrong)} of {len(here)}\n" + "\n".join(wrong[:20]) if wrong else ""


@pytest.mark.parametrize("name", THERE)
def test_the_same_answers(name):
    wrong = unexplained(name, answers_of_mlx.apart(all_calls()[name]))
    assert not wrong, wrong


# Results that have values at the call here, not there, and why.
COMPUTED = {
    f"mx.{name}(5)": "a window is computed in float64" for name in ("bartlett", "hanning", "hamming", "blackman")
}


ON_GPU = mx.is_available(mx.gpu)  # where an array lies is then known once it has been computed


def hastier(there, here):
    """The calls that evaluate here what they do not there: arguments, or results."""
    for name, texts in laziness_of_mlx.calls():
        assert len(texts) == len(there[name]) == len(here[name]), "run laziness_of_mlx.py with the mlx package"
        for text, a, b in zip(texts, there[name], here[name]):
            if "raises" in (a, b) or len(a) < 2 or (ON_GPU and "__dlpack_device__" in text):
                continue
            if set(b[0]) - set(a[0]) or (("-", "+") in zip(a[1], b[1]) and text not in COMPUTED):
                yield text, a, b


def test_nothing_is_evaluated_that_is_not_there():
    there, here = json.loads(laziness_of_mlx.LAZINESS.read_text()), laziness_of_mlx.answers()
    assert list(there) == list(here)
    assert not list(hastier(there, here))
    told = [b for name in here for b in here[name] if isinstance(b, list) and len(b) == 2]
    assert len(told) > 1350 and sum("-" in b[1] for b in told) > 1000 and here["mx.array.tolist"][0] == [["X"], ""]
    here["mx.abs"][0] = [["X"], "+"]
    assert [text for text, _, _ in hastier(there, here)] == ["mx.abs(X)"]


def test_every_function_is_tried():
    assert list(all_calls()) == list(THERE)


@pytest.mark.skipif(not UPSTREAM, reason="MLX_UPSTREAM_PYTHON names no Python with the mlx package")
def test_the_package_still_answers_so():
    """A sample of what is frozen; what is in the table may be undefined there, and other each time."""
    sample = list(THERE)[::9]
    command = [UPSTREAM, str(DATA / "answers_of_mlx.py"), *sample]
    done = subprocess.run(command, env={**os.environ, "MLX_DISABLE_COMPILE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, now in json.loads(done.stdout).items():
        wrong = unexplained(name, [["anything"] if a[0] == "ends the process" else b for a, b in zip(THERE[name], now)])
        assert not wrong, wrong
    command = [UPSTREAM, str(DATA / "laziness_of_mlx.py"), *sample]
    done = subprocess.run(command, env={**os.environ, "MLX_DISABLE_COMPILE": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(laziness_of_mlx.LAZINESS.read_text())
    assert json.loads(done.stdout) == {name: told[name] for name in sample}
