"""The cases of the speed tables (bench/cases): each has a name of its own, and those of the GPU compute something here
too, of a few numbers each."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
NAMES = """
import sys
from cases import load
names = [case.name for case in load(sys.argv[1])]
assert len(names) > 150, len(names)
assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
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
def test_names(device):
    python(NAMES, device)


def test_cases_of_the_gpu():
    python(RUNS, few="1")
