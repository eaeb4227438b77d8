"""What is installed: the symbols shown, and programs built against a prefix or a wheel."""

import os
import pathlib
import re
import subprocess
import sys

import mlx
import mlx.core as mx
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = pathlib.Path(os.path.dirname(mlx.__file__), "lib").resolve().parent
PROGRAM = """
#include <stdio.h>
#include <mlx/c/mlx.h>

int main(void)
{
    mlx_string s = mlx_string_new();
    if (mlx_version(&s))
        return 1;
    puts(mlx_string_data(s));
    return mlx_string_free(s);
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C)
find_package(MLX CONFIG REQUIRED)
foreach(library {libraries})
  string(MAKE_C_IDENTIFIER user_${{library}} name)
  add_executable(${{name}} main.c)
  target_link_libraries(${{name}} PRIVATE ${{library}})
endforeach()
"""

if not (TREE / "CMakeCache.txt").is_file():
    pytest.skip("the package does not come from a build tree", allow_module_level=True)


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def version():
    """The version as CMakeLists.txt states it."""
    text = (ROOT / "CMakeLists.txt").read_text()
    return text.split("project(MLX VERSION ")[1].split()[0]


def cmake_user(folder, root, libraries):
    """Build a project that finds MLX in `root`, and give what its programs print."""
    folder.mkdir()
    (folder / "main.c").write_text(PROGRAM)
    (folder / "CMakeLists.txt").write_text(PROJECT.format(libraries=" ".join(libraries)))
    run("cmake", "-S", folder, "-B", folder / "b", "-G", "Ninja", f"-DMLX_ROOT={root}")
    run("cmake", "--build", folder / "b")
    programs = sorted((folder / "b").glob("user_*"))
    assert len(programs) == len(libraries)
    return {run(program).strip() for program in programs}


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An install prefix that was moved after it was filled."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", TREE, "--prefix", first)
    return first.rename(first.with_name("moved"))


def test_only_public_symbols_are_shown():
    shown = run("nm", "-D", "--defined-only", TREE / "lib" / "libmlx.so").splitlines()
    names = [line.split()[-1] for line in shown]
    assert names
    assert [n for n in names if not n.startswith(("mlx_", "_mlx_"))] == []


def test_programs_find_a_prefix_with_cmake(prefix, tmp_path):
    libraries = ["mlx", "mlxc", "mlx_static", "MLX::mlx", "MLX::mlxc"]
    assert cmake_user(tmp_path / "user", prefix, libraries) == {version()}
    cuda = re.search(r"^MLX_CUDA:BOOL=(\w+)$", (TREE / "CMakeCache.txt").read_text(), re.M)[1]
    (config,) = prefix.glob("lib*/cmake/MLX/MLXConfig.cmake")
    assert f"set(MLX_BUILD_CUDA {cuda})" in config.read_text()


@pytest.mark.parametrize("package", ["mlx", "mlx-c"])
def test_programs_find_a_prefix_with_pkg_config(prefix, tmp_path, package):
    env = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", package, env=env).split()
    assert run("pkg-config", "--modversion", package, env=env).strip() == version()
    (tmp_path / "main.c").write_text(PROGRAM)
    run("cc", tmp_path / "main.c", *flags, "-o", tmp_path / "main")
    assert run(tmp_path / "main").strip() == version()


def test_programs_find_a_prefix_by_hand(prefix, tmp_path):
    (tmp_path / "main.c").write_text(PROGRAM)
    lib = prefix / "lib"
    places = [f"-I{prefix / 'include'}", f"-L{lib}", f"-Wl,-rpath,{lib}"]
    run("cc", tmp_path / "main.c", *places, "-lmlxc", "-o", tmp_path / "main")
    assert run(tmp_path / "main").strip() == version()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("gradients", "7.0: 1.0 2.0 3.0\narray([2, 3, 4], dtype=float32)\n"),
        ("files", "8 elements made by files.c\n"),
        ("handles", "6.25 6.25 1 1 6.25 0 0 0 2 0\n"),
    ],
)
def test_programs_for_mlx_c(prefix, tmp_path, program, told):
    """As they are written for it, with mlx/c/mlx.h alone, as C11 and C17; nothing they make is left."""
    source = ROOT / "tests" / "installed" / f"{program}.c"
    places = [f"-I{prefix / 'include'}", f"-L{prefix / 'lib'}", f"-Wl,-rpath,{prefix / 'lib'}"]
    for standard in ("c11", "gnu17"):
        run("cc", f"-std={standard}", "-Wall", "-Werror", source, *places, "-lmlxc", "-o", tmp_path / program)
    environment = {**os.environ, "MLX_HANDLES": "1"}
    done = subprocess.run([tmp_path / program], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stdout) == (0, told)
    assert "live" not in done.stderr, done.stderr


def test_a_prefix_carries_the_licences(prefix):
    licences = prefix / "share" / "licenses" / "mlx"
    assert "MIT License" in (licences / "LICENSE").read_text()
    assert "OpenBLAS" in (licences / "openblas.txt").read_text()
    assert "YaoYuan" in (licences / "yyjson.txt").read_text()


def test_a_prefix_carries_the_manual_pages_that_were_made(prefix):
    made = ROOT / "build" / "docs" / "man" / "man3" / "mlx_add.3"
    assert (prefix / "share" / "man" / "man3" / "mlx_add.3").exists() == made.exists()


def libraries_opened(python, folder, **around):
    """What a program that computes looks for of NVIDIA's; it says nothing."""
    code = "import mlx.core as mx; x = mx.ones((99, 99)); mx.eval(x @ x); assert not mx.cuda.is_available()"
    env = {**os.environ, "LD_DEBUG": "libs,files", "LD_DEBUG_OUTPUT": str(folder / "opened"), **around}
    done = subprocess.run([python, "-c", code], env=env, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    text = "".join(file.read_text() for file in folder.glob("opened.*"))
    assert "core.abi3.so" in text
    found = dict.fromkeys(re.findall(r"(?:find library|file)=(?:\S*/)?(\S+)", text))
    return [name for name in found if re.match(r"lib(cu|nv|nccl)", name)]


@pytest.mark.skipif(mx.is_available(mx.gpu), reason="has a driver")
def test_without_a_driver_one_library_is_looked_for(tmp_path):
    """The CUDA backend, with the emulated driver out of reach."""
    emulated = TREE / "tests" / "emulated" / "libmlx.so.0"
    for file in (emulated, *(TREE / "lib").glob("libscipy_openblas.so")):
        (tmp_path / file.name).symlink_to(file)
    path = {"LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(TREE / "python")}
    assert libraries_opened(sys.executable, tmp_path, **path) == ["libcuda.so.1"]


@pytest.mark.slow
def test_a_wheel_stands_alone(tmp_path):
    # Of kernels for GPUs their names alone: the driver is the emulated one, if any.  One instruction set, and no
    # optimization, are enough.
    less = ["-C", "cmake.define.MLX_CUDA_TARGETS=ptx0", "-C", "cmake.define.MLX_KERNEL_LEVELS=base"]
    less += ["-C", "cmake.build-type=Debug"]
    wheel = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", *less, "-w", tmp_path, ROOT]
    run(sys.executable, "-m", "pip", *wheel)
    (file,) = tmp_path.glob("*.whl")
    assert file.name.startswith(f"cmlx-{version()}-cp311-abi3-linux_")

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", file)
    code = "import mlx.core as mx; print(mx._release, (mx.array([1, 2]) + 1).tolist())"
    assert run(python, "-c", code, cwd=tmp_path).split(maxsplit=1) == [version(), "[2, 3]\n"]
    assert "cublasLt" in run(python, "-m", "mlx", "--info")
    assert libraries_opened(python, tmp_path) == ["libcuda.so.1"]
    root = run(python, "-m", "mlx", "--cmake-dir").strip()
    assert cmake_user(tmp_path / "user", root, ["mlx", "mlxc"]) == {version()}
