"""mypy and pyright read the type stubs and typed code of users; stubtest compares stubs and module."""

import json
import os
import pathlib
import subprocess
import sys

import mlx
import pytest

SAMPLES = pathlib.Path(__file__).resolve().parents[1] / "typing"
PACKAGES = pathlib.Path(mlx.__file__).parents[1]

# Names of types for the stubs alone; arguments that a signature text cannot say are optional; and
# the third argument that Python gives __pow__, always None; `portable`, which the signature of the mlx
# package does not have; `bool`, for annotations need Python's own, and the list of names without it; and second
# names of parameters.
NOT_IN_THE_MODULE = r"""
mlx\.core\.(P|R|scalar|file|StreamOrDevice)
mlx\.core\.(where|unique)
mlx\.core\.array\.__r?pow__
mlx\.core\.exporter
mlx\.core\.(bool|__all__)
mlx\.core\.(clip|full|full_like|roll|std|var)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typing")

    def run(*command):
        env = os.environ | {"PYTHONPATH": str(PACKAGES), "MYPY_CACHE_DIR": str(folder / "cache")}
        done = subprocess.run(
            [sys.executable, "-m", *map(str, command)], cwd=folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run.folder = folder
    return run


def test_mypy_reads_the_stubs(run):
    assert "no issues found" in run("mypy", "--strict", "-p", "mlx.core")


def test_mypy_reads_users(run):
    assert "no issues found" in run("mypy", "--strict", SAMPLES / "core.py")
    assert "no issues found" in run("mypy", "--no-implicit-reexport", SAMPLES / "networks.py")


def test_stubs_are_those_of_the_module(run):
    allowed = run.folder / "allowed.txt"
    allowed.write_text(NOT_IN_THE_MODULE)
    assert "no issues found" in run("mypy.stubtest", "--ignore-disjoint-bases", "--allowlist", allowed, "mlx.core")


def test_pyright(run):
    strictly = [str(SAMPLES / "core.py"), str(PACKAGES / "mlx" / "core")]
    settings = {
        "typeCheckingMode": "standard",
        "include": [*strictly, str(SAMPLES / "networks.py")],
        "strict": strictly,
        "extraPaths": [str(PACKAGES)],
        "reportUnnecessaryTypeIgnoreComment": True,
        "reportMissingModuleSource": False,
    }
    (run.folder / "pyrightconfig.json").write_text(json.dumps(settings))
    summary = json.loads(run("basedpyright", "-p", run.folder / "pyrightconfig.json", "--outputjson"))["summary"]
    assert summary["filesAnalyzed"] >= 9 and summary["errorCount"] == summary["warningCount"] == 0
