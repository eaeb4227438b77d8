"""The names and signatures of `mlx.nn`, `mlx.optimizers` and `mlx.utils` are those of the table."""

import importlib.util
import pathlib

import mlx.nn
import mlx.optimizers
import mlx.utils  # noqa: F401
import pytest

API = pathlib.Path(__file__).resolve().parents[1] / "api"
spec = importlib.util.spec_from_file_location("coverage_of_the_api", API / "coverage.py")
coverage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(coverage)

OURS = ("mlx.nn", "mlx.optimizers", "mlx.utils")
ROWS = [row for row in coverage.table("python.tsv") if row[0].startswith(OURS)]
THERE = [row for row in ROWS if coverage.exists(*row) is None]

# A name of these that goes missing is a mistake.
COMPLETE = ("mlx.utils", "mlx.optimizers", "mlx.nn")


@pytest.mark.parametrize("name, kind, signature", THERE, ids=[row[0] for row in THERE])
def test_signature(name, kind, signature):
    assert not coverage.compare(name, kind, signature)


def test_complete_families():
    for name, kind, signature in ROWS:
        if name.startswith(COMPLETE):
            assert coverage.exists(name, kind, signature) is None, name
