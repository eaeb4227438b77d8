"""The package as a distribution: beside others of its name, and what `python -m mlx` tells."""

import os
import pathlib
import subprocess
import sys

import mlx.core as mx
import pytest

OURS = pathlib.Path(__file__).resolve().parents[2] / "python"


def run(code, *path):
    """Run `code` in a fresh interpreter that looks for modules in `path` first."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, path)))
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)


def core_of_another(folder, name="core.cpython-311-x86_64-linux-gnu.so"):
    """What installing another distribution leaves: a folder mlx with a core and no __init__.py."""
    (folder / "mlx").mkdir(parents=True, exist_ok=True)
    (folder / "mlx" / name).write_bytes(b"")
    return folder


@pytest.mark.parametrize("name", ["core.cpython-311-x86_64-linux-gnu.so", "core.abi3.so"])
@pytest.mark.parametrize("first", [True, False])
def test_another_distribution_on_the_path_is_refused(tmp_path, first, name):
    other = core_of_another(tmp_path, name)
    path = (other, OURS) if first else (OURS, other)
    done = run("import mlx", *path)
    assert done.returncode != 0
    assert "ImportError: another distribution of `mlx`" in done.stderr
    assert str(other / "mlx" / name) in done.stderr
    assert "pip uninstall" in done.stderr


def test_another_distribution_in_our_own_folder_is_refused(tmp_path):
    (tmp_path / "mlx").mkdir()
    init = (OURS / "mlx" / "__init__.py").read_text()
    (tmp_path / "mlx" / "__init__.py").write_text(init)
    (tmp_path / "mlx" / "core.abi3.so").write_bytes(b"")
    assert run("import mlx", tmp_path).returncode == 0
    core_of_another(tmp_path)
    assert "another distribution of `mlx`" in run("import mlx", tmp_path).stderr


def test_folders_that_only_share_the_name_are_no_obstacle(tmp_path):
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "core.py").write_text("")
    (tmp_path / "mlx" / "corelib.so").write_text("")
    done = run("import mlx; print(mlx.__file__)", OURS, tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(OURS) in done.stdout


def test_packages_that_add_a_folder_elsewhere_are_found(tmp_path):
    for name, file in (("first", "data/__init__.py"), ("second", "more.py"), ("copy", "__init__.py")):
        module = tmp_path / name / "mlx" / file
        module.parent.mkdir(parents=True)
        module.write_text("where = __file__")
    (tmp_path / "copy" / "mlx" / "stale.py").write_text("")
    (tmp_path / "first" / "mlx" / "nn").mkdir()
    code = """
import mlx.data, mlx.more, importlib.util
print(mlx.data.where, mlx.more.where, *mlx.__path__, importlib.util.find_spec("mlx.stale"), sep="\\n")
"""
    done = run(code, tmp_path / "first", OURS, tmp_path / "copy", tmp_path / "second")
    assert done.returncode == 0, done.stderr
    data, more, ours, *folders, stale = done.stdout.split()
    assert data == str(tmp_path / "first" / "mlx" / "data" / "__init__.py")
    assert more == str(tmp_path / "second" / "mlx" / "more.py")
    assert ours == str(OURS / "mlx")  # whatever the order of the path, ours come first
    assert folders[:2] == [str(tmp_path / "first" / "mlx"), str(tmp_path / "second" / "mlx")]
    assert stale == "None"


def tell(option):
    done = subprocess.run([sys.executable, "-m", "mlx", option], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_module_tells_where_the_c_library_lies():
    assert (pathlib.Path(tell("--cmake-dir")) / "MLXConfig.cmake").is_file()
    assert (pathlib.Path(tell("--include-dir")) / "mlx" / "c" / "api.h").is_file()
    assert (pathlib.Path(tell("--lib-dir")) / "libmlx.so").exists()


def test_the_version_is_that_of_the_interface_and_the_release_counts_on():
    assert [len(v.split(".")) for v in (mx.__version__, mx._release)] == [3, 4]
    assert mx._release.startswith(mx.__version__ + ".") and tell("--version") == mx._release


def test_what_it_runs_on():
    told = tell("--info").splitlines()
    assert told[0] == f"mlx {mx._release}"
    assert len([line for line in told if line.startswith("cpu 0: ")]) == 1
    kind = mx.default_device().type.name
    assert [line for line in told if line.startswith("default: ")] == [f"default: {kind} 0"]
    assert f"{kind} 0: " in "\n".join(told)
    assert [line.split(":")[0] for line in told if " not found" in line or "used for" in line] == [*mx.cuda.libraries()]


def test_an_unknown_question_is_refused():
    done = subprocess.run([sys.executable, "-m", "mlx", "--no-such"], capture_output=True)
    assert done.returncode == 2
