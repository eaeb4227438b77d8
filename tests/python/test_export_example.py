"""The example of exported functions: written in Python, run from C with the same results."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "release" / "lib"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("generate")
    program = ROOT / "examples" / "export" / "generate.py"
    on_cpu = os.environ | {"MLX_DEFAULT_DEVICE": "cpu"}  # as in C: other devices round in other places
    run = subprocess.run([sys.executable, program, path], capture_output=True, text=True, env=on_cpu)
    assert run.returncode == 0, run.stderr
    tokens = run.stdout.split()[1:]
    assert len(set(tokens)) > 3, "the example should say something"
    return path, run.stdout


def test_from_c(folder):
    path, told = folder
    compiler = shutil.which("cc")
    if not compiler or not LIBRARY.exists():
        pytest.skip("needs a compiler and a release build")
    source, program = ROOT / "examples" / "export" / "generate.c", path / "generate"
    options = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", f"-L{LIBRARY}", f"-Wl,-rpath,{LIBRARY}"]
    subprocess.run([compiler, *options, source, "-lmlx", "-o", program], check=True)
    run = subprocess.run([program, path], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, told + "as in Python\n"), run.stderr


@pytest.mark.skipif("MLX_UPSTREAM_PYTHON" not in os.environ, reason="needs a Python with the mlx package")
def test_there(folder):
    path, told = folder
    program = ROOT / "examples" / "export" / "generate.py"
    code = f"""
import importlib.util, mlx.core as mx
mx.set_default_device(mx.cpu)
spec = importlib.util.spec_from_file_location("generate", {str(program)!r})
generate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generate)
prompt = mx.load({str(path / "generate.safetensors")!r})["prompt"]
print("tokens", *generate.generate(mx.import_function({str(path / "generate.mlxfn")!r}), prompt)[0].tolist())
"""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    run = subprocess.run([env["MLX_UPSTREAM_PYTHON"], "-c", code], capture_output=True, text=True, env=env)
    assert run.stdout == told, run.stderr
