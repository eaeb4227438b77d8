"""The programs of docs/c_tutorial.md compile without warnings and print what stands below them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "build" / "release" / "lib"
TEXT = (ROOT / "docs" / "c_tutorial.md").read_text()
BLOCKS = re.findall(r"^```(c?)\n(.*?)^```$", TEXT, re.S | re.M)
FILES = {re.match(r"/\* (\w+\.[ch])\b", text).group(1): text for language, text in BLOCKS if language}
PROGRAMS = [name for name in FILES if name.endswith(".c")]

if not shutil.which("cc") or not LIBRARY.exists():
    pytest.skip("needs a compiler and a release build", allow_module_level=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tutorial")
    for name, text in FILES.items():
        (path / name).write_text(text)
    return path


def printed(name):
    """The block below a program."""
    at = next(i for i, (_, text) in enumerate(BLOCKS) if text == FILES[name])
    language, text = BLOCKS[at + 1]
    assert not language, f"nothing stands below {name}"
    return text


@pytest.mark.parametrize("standard", ["c11", "c17"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(folder, name, standard):
    program = folder / f"{Path(name).stem}-{standard}"
    options = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT / 'include'}"]
    libraries = [f"-L{LIBRARY}", "-lmlx", f"-Wl,-rpath,{LIBRARY}"]
    subprocess.run(["cc", *options, folder / name, *libraries, "-o", program], check=True)
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}  # what they print is from a machine without a GPU
    run = subprocess.run([program], cwd=folder, env=env, capture_output=True, text=True)
    assert (run.stdout, run.stderr, run.returncode) == (printed(name), "", 0)
