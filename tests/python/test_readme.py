"""The README's programs run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def python_blocks(folder):
    """What each of the Python programs prints, run in this folder."""
    for script in re.findall(r"```python\n(.*?)```", README, re.S):
        run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder)
        assert run.returncode == 0, run.stderr
        yield run.stdout


def test_python(tmp_path):
    trained, compiled = python_blocks(tmp_path)
    loss, inside = re.match(r"loss ([\d.]+), in the circle: ([\d.]+)", trained).groups()
    assert float(loss) < 0.3 and float(inside) > 0.7
    assert "trace 0: first call" in compiled
    assert {file.name for file in tmp_path.iterdir()} == {"circle.safetensors", "gelu.mlxfn"}


def test_environment():
    asked = set()
    for file in [*(ROOT / "src").rglob("*.c"), *(ROOT / "python" / "src").glob("*.c")]:
        asked |= set(re.findall(r'(?:getenv|value_of|setting_\w+)\((?:&\w+, )?"(MLX_\w+)"', file.read_text()))
    told = set(re.findall(r"^\| `(MLX_\w+)=", README, re.M))
    assert told <= asked
    assert asked - told == {"MLX_WORLD_SIZE", "MLX_RANK", "MLX_HOSTFILE"}, "of mlx.launch"


def test_c(tmp_path):
    compiler = shutil.which("cc")
    build = ROOT / "build" / "release" / "lib"
    if not compiler or not build.exists():
        pytest.skip("needs a compiler and a release build")
    source = tmp_path / "squares.c"
    source.write_text(re.search(r"```c\n(.*?)```", README, re.S).group(1))
    program = tmp_path / "squares"
    subprocess.run(
        [
            compiler,
            "-Wall",
            "-Werror",
            str(source),
            f"-I{ROOT / 'include'}",
            f"-L{build}",
            "-lmlx",
            f"-Wl,-rpath,{build}",
            "-o",
            str(program),
        ],
        check=True,
    )
    run = subprocess.run([str(program)], capture_output=True, text=True)
    assert run.stdout == "array([14, 77], dtype=float32)\n" and run.returncode == 0
