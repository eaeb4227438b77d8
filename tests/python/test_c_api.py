"""The C interface as a whole: what is declared is what the table of mlx-c has and what the library shows,
structs are laid out as they were, and every function keeps the rules about arguments left out."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import mlx
import pytest
from headers import Headers

TESTS = pathlib.Path(__file__).resolve().parents[1]
TREE = pathlib.Path(os.path.dirname(mlx.__file__), "lib").resolve().parent
LIBRARY = TREE / "lib" / "libmlx.so"
COMPILERS = [c for c in ("gcc", "clang") if shutil.which(c)]

# Sizes and offsets of what programs pass by value, on machines with 64-bit pointers: ABI number 0. A struct
# with a size of its own in it may grow at its end, and is not listed.
LAYOUT = {
    "mlx_array": (8, {"ctx": 0}),
    "mlx_vector_array": (8, {"ctx": 0}),
    "mlx_stream": (8, {"ctx": 0}),
    "mlx_closure": (8, {"ctx": 0}),
    "mlx_map_string_to_array_iterator": (16, {"ctx": 0, "map_ctx": 8}),
    "mlx_map_string_to_string_iterator": (16, {"ctx": 0, "map_ctx": 8}),
    "mlx_optional_int": (8, {"value": 0, "has_value": 4}),
    "mlx_optional_float": (8, {"value": 0, "has_value": 4}),
    "mlx_optional_dtype": (8, {"value": 0, "has_value": 4}),
    "mlx_io_vtable": (72, {"is_open": 0, "read_at_offset": 40, "label": 56, "free": 64}),
    "mlx_index": (40, {"kind": 0, "has_start": 4, "start": 8, "step": 24, "array": 32}),
    "mlx_complex64_t": (8, {}),
    "mlx_dtype": (4, {}),
}


@pytest.fixture(scope="module")
def headers():
    return Headers()


def built():
    if not LIBRARY.is_file():
        pytest.skip("the package does not come from a build tree")
    return LIBRARY


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_table_of_mlx_c_is_declared(compiler, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("coverage_of_the_c_api", TESTS / "api" / "coverage.py")
    coverage = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(coverage)
    monkeypatch.setenv("CC", compiler)
    include = TESTS.parent / "include"
    monkeypatch.setattr(sys, "argv", ["coverage.py", "--skip-python", "--list", "--headers", str(include)])
    try:
        status = coverage.main()
    except SystemExit as end:
        status = end.code
    missing = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("missing", "differs"))]
    assert not missing and not status, "\n".join(missing)


def test_what_is_declared_is_what_the_library_shows(headers):
    shown = subprocess.run(["nm", "-D", "--defined-only", built()], capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in shown.splitlines()}
    assert len(names) > 650
    assert set(headers.functions) - names == set()
    assert names - set(headers.functions) == set()


def test_the_library_says_which_interface_it_has():
    """The number behind .so; programs ask for it when they start."""
    tags = subprocess.run(["readelf", "-d", built()], capture_output=True, text=True, check=True).stdout
    assert re.search(r"SONAME.*\[libmlx\.so\.0\]", tags)


def test_every_handle_is_a_pointer(headers):
    """Also of the types that LAYOUT does not name."""
    handles = [fields for name, fields in headers.structs.items() if fields[0] == ("ctx", "void*")]
    assert len(handles) > 20
    assert all(len(fields) == 1 or [name for name, _ in fields] == ["ctx", "map_ctx"] for fields in handles)


@pytest.mark.skipif(sys.maxsize < 2**32, reason="LAYOUT is for pointers of 8 bytes")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_structs_are_laid_out_as_they_were(compiler, tmp_path):
    lines = ['#include "mlx/c/mlx.h"', "#define SAME(a, b) _Static_assert((a) == (b), #a)"]
    for name, (size, offsets) in LAYOUT.items():
        lines.append(f"SAME(sizeof({name}), {size});")
        lines += [f"SAME(offsetof({name}, {field}), {at});" for field, at in offsets.items()]
    file = tmp_path / "layout.c"
    file.write_text("\n".join(lines) + "\n")
    command = [compiler, "-std=c17", "-fsyntax-only", f"-I{TESTS.parent / 'include'}", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_enums_keep_their_numbers(headers):
    """Constants are added at the end of a list, never between."""
    dtypes = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex64"
    assert headers.enums["mlx_dtype"] == [f"MLX_{name.upper()}" for name in dtypes.split()]
    assert headers.enums["mlx_device_type"] == ["MLX_CPU", "MLX_GPU"]
    modes = ["DISABLED", "NO_SIMPLIFY", "NO_FUSE", "ENABLED"]
    assert headers.enums["mlx_compile_mode"] == [f"MLX_COMPILE_MODE_{mode}" for mode in modes]


def test_arguments_left_out(tmp_path):
    """Each argument of every function, one at a time and all at once. What breaks the rules stands in the
    output, and a crash after the last line of the errors."""
    command = [sys.executable, pathlib.Path(__file__).with_name("null_calls.py"), built()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    *faults, last = done.stdout.splitlines() or [""]
    assert done.returncode == 0, "\n".join(done.stderr.splitlines()[-3:])
    assert not faults, "\n".join(faults)
    assert int(last.split()[0]) > 640
