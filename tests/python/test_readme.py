"""The README's programs run."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_python():
    script = re.search(r"```python\n(.*?)```", README, re.S).group(1)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    loss, inside = re.match(r"loss ([\d.]+), in the circle: ([\d.]+)", run.stdout).groups()
    assert float(loss) < 0.3 and float(inside) > 0.7


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
