"""CONTRIBUTING.md adds an operation in six places; this does exactly that, to a copy of the tree."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
PLACES = re.findall(r"\*\*`([^`]+)`\*\*, after `([^`]+)`.*?```c\n(.*?)```", GUIDE, re.S)
SCRIPT = re.search(r"```python\n(.*?)```", GUIDE, re.S).group(1)
PRINTED = re.findall(r"# (array\(.*)", SCRIPT)


def add(tree, file, anchor, text):
    path = tree / file
    lines = path.read_text().splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if anchor in line]
    assert len(at) == 1, f"{file} has {len(at)} lines with '{anchor}'"
    # A statement may go on over several lines; the next one begins after its end.
    end = at[0]
    while not lines[end].rstrip().endswith((";", ")", "}", "*/")):
        end += 1
    lines.insert(end + 1, text)
    path.write_text("".join(lines))


def build(tree):
    openblas = subprocess.run(
        [sys.executable, "-c", "import scipy_openblas32, os; print(os.path.dirname(scipy_openblas32.__file__))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    configure = [
        "cmake",
        "-S",
        tree,
        "-B",
        tree / "build",
        "-G",
        "Ninja",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DMLX_WERROR=ON",
        f"-DMLX_OPENBLAS_ROOT={openblas}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        "-DCMAKE_C_FLAGS_DEBUG=-O1",
        "-DMLX_KERNEL_LEVELS=base",  # the others are the same text
    ]
    configured = subprocess.run(configure, capture_output=True, text=True)
    assert configured.returncode == 0, configured.stderr[-3000:]
    return build_again(tree)


def build_again(tree):
    """What is looked at: the rest of the tests has no part in it, and takes as long."""
    targets = ["core", "mlx", "property_elementwise", "kernels_emulated_elementwise"]
    command = ["cmake", "--build", tree / "build", "-j2", "--target", *targets]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    tree = tmp_path_factory.mktemp("copy") / "tree"
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    files = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    for file in filter(None, files):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / file).exists():
            shutil.copy2(ROOT / file, tree / file)
    return tree


def test_six_places_make_an_operation(tree, tmp_path):
    assert len(PLACES) == 6
    for place in PLACES:
        add(tree, *place)
    built = build(tree)
    assert built.returncode == 0, built.stdout[-3000:]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tree / "build" / "python"), "PATH": "/usr/bin:/bin"},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == PRINTED
    export = (
        f"import mlx.core as mx; x = mx.array([-1.0, 3]); mx.export_function({str(tmp_path / 'f')!r}, mx.softsign, x)"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"{export}; print(mx.import_function({str(tmp_path / 'f')!r})(x)[0])"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tree / "build" / "python"), "PATH": "/usr/bin:/bin"},
    )
    assert run.stdout == "array([-0.5, 0.75], dtype=float32)\n", run.stderr
    # The property tests take the row up by themselves, and say what they cannot check.
    run = subprocess.run([tree / "build" / "tests" / "property" / "elementwise"], capture_output=True, text=True)
    assert run.returncode == 0 and "softsign of float32 has no reference" in run.stdout + run.stderr


def test_leaving_one_place_out_does_not_build(tree):
    """Needs the tree of the test above, where all six are in place."""
    for file, _, text in PLACES[1:]:
        path = tree / file
        whole = path.read_text()
        if text not in whole:
            pytest.skip("the operation is not in the tree")
        path.write_text(whole.replace(text, ""))
        built = build_again(tree)
        path.write_text(whole)
        assert built.returncode != 0 and "softsign" in built.stdout, file
