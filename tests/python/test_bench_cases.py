"""The cases of the speed tables (bench/cases): each has a name of its own and expressions that are Python for libraries
that there are, and those of the GPU compute something here too, of fewer numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
TEXTS = """
import sys
from cases import load
from peers import PACKAGES
cases, libraries = load(sys.argv[1]), {"ours", *PACKAGES}
names = [case.name for case in cases]
assert len(names) > 150, len(names)
assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
for case in cases:
    assert case.type in (None, "float16", "bfloat16") and "ours" in case.run, case.name
    assert {*case.run} <= libraries and {*case.before} <= libraries | {"all"}, case.name
    for library, text in case.run.items():
        compile(text, f"{case.name}, {library}", "eval")
    for library, text in case.before.items():
        compile(text, f"before {case.name}, {library}", "exec")
"""
RUNS = """
import math
from cases import load
from measure import flat, prepared
from peers import Ours
ours, kept = Ours("cpu"), {}
for case in load("gpu"):
    results = flat(prepared(case, ours, "ours", kept)())
    totals = [float(ours.total(x)) for x in results]
    assert case.tolerance is None or totals and all(map(math.isfinite, totals)), (case.name, totals)
"""


def python(code, *arguments, few="0"):
    environment = dict(os.environ, BENCH_FEW=few)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=BENCH, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_texts(device):
    python(TEXTS, device)


def test_cases_of_the_gpu():
    python(RUNS, few="1")
