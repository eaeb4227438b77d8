"""Operations of one's own on a GPU: the sample extension, whose kernels are a source, and libraries that are compiled;
skipped where there is no GPU. The emulated driver has a compiler of its own (tests/emulated/nvrtc.c)."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

EMULATED = mx.is_available(mx.gpu) and mx.device_info(mx.gpu)["device_name"] == "emulated"
FOLDER = Path(os.environ.get("LD_LIBRARY_PATH", "").split(":")[0], "libraries").resolve()
if EMULATED:
    os.environ["MLX_CUDA_LIBRARIES"] = str(FOLDER)
pytestmark = pytest.mark.skipif(
    not mx.is_available(mx.gpu) or mx.cuda.libraries()["nvrtc"] is None, reason="needs an NVIDIA GPU and NVRTC"
)
ROOT = Path(__file__).resolve().parents[2]
AXPBY = ROOT / "examples" / "extensions" / "axpby"
SOURCE = """
#ifdef __cplusplus
extern "C"
#endif
__global__ void scale(const float *x, float *y, int n, float by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""


class Handle(ctypes.Structure):
    _fields_ = [("ctx", ctypes.c_void_p)]


class RunArray(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("ndim", ctypes.c_int)]


class Output(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("ndim", ctypes.c_int), ("shape", ctypes.c_int * 64)]


RULE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Class(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("abi", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("eval_cpu", ctypes.c_void_p),
        ("eval_gpu", RULE),
        ("others", ctypes.c_void_p * 9),
    ]


@pytest.fixture(scope="module")
def lib():
    mlx = ctypes.CDLL("libmlx.so.0")  # the one that is loaded
    for name in ("array_new", "array_new_float", "array_new_data", "vector_array_new", "default_gpu_stream_new"):
        getattr(mlx, "mlx_" + name).restype = Handle
    for name in ("mlx_run_input", "mlx_run_output"):
        getattr(mlx, name).restype = ctypes.POINTER(RunArray)
        getattr(mlx, name).argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    mlx.mlx_run_alloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    mlx.mlx_run_launch.argtypes = (
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p] + [ctypes.c_void_p] * 3 + [ctypes.c_size_t]
    )
    mlx.mlx_array_data_float32.restype = ctypes.POINTER(ctypes.c_float)
    mlx.mlx_error_handler_ = HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
    mlx.said = []
    mlx.heard = HANDLER(lambda message, data: mlx.said.append(message.decode()))
    return mlx


def image_of(text, kind):
    """What NVRTC makes of a text."""
    nvrtc = ctypes.CDLL(mx.cuda.libraries()["nvrtc"]["path"])
    p, n = ctypes.c_void_p(), ctypes.c_size_t()
    info = mx.device_info(mx.gpu)
    arch = f"{info['compute_capability_major']}{info['compute_capability_minor']}"
    option = f"-arch={'compute' if kind == 'PTX' else 'sm'}_{arch}".encode()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(p), text.encode(), b"scale.cu", 0, None, None) == 0
    assert nvrtc.nvrtcCompileProgram(p, 1, (ctypes.c_char_p * 1)(option)) == 0
    assert getattr(nvrtc, f"nvrtcGet{kind}Size")(p, ctypes.byref(n)) == 0
    data = ctypes.create_string_buffer(n.value)
    assert getattr(nvrtc, f"nvrtcGet{kind}")(p, data) == 0
    return data.raw


def scaled(lib, library, kernel=b"scale", n=100, given=4):
    """2.5 times 0, 1, ... by a primitive that launches a kernel; a list, or what was said."""

    def rule(state, run):
        if lib.mlx_run_alloc(run, 0):
            return 1
        x, y = lib.mlx_run_input(run, 0).contents, lib.mlx_run_output(run, 0).contents
        values = [ctypes.c_void_p(x.data), ctypes.c_void_p(y.data), ctypes.c_int(n), ctypes.c_float(2.5)]
        args = (ctypes.c_void_p * 4)(*[ctypes.addressof(v) for v in values])
        blocks, threads = (ctypes.c_int * 3)((n + 31) // 32, 1, 1), (ctypes.c_int * 3)(32, 1, 1)
        return lib.mlx_run_launch(run, library, kernel, blocks, threads, args, given)

    kept = RULE(rule)
    name = b"Scaled_%d" % next(scaled.number)
    cls = Class(ctypes.sizeof(Class), 1, name, None, kept)
    scaled.kept.append((kept, cls))
    x = lib.mlx_array_new_data((ctypes.c_float * n)(*range(n)), (ctypes.c_int * 1)(n), 1, 10)
    inputs, outputs, y = lib.mlx_vector_array_new(), lib.mlx_vector_array_new(), lib.mlx_array_new()
    like = Output(10, 1, (ctypes.c_int * 64)(n))
    stream = lib.mlx_default_gpu_stream_new()
    lib.said.clear()
    lib.mlx_set_error_handler(lib.heard, None, None)
    try:
        assert lib.mlx_vector_array_append_value(inputs, x) == 0
        args = [ctypes.byref(outputs), ctypes.byref(cls), None, inputs, ctypes.byref(like), ctypes.c_size_t(1), stream]
        assert lib.mlx_primitive_apply(*args) == 0, lib.said
        assert lib.mlx_vector_array_get(ctypes.byref(y), outputs, ctypes.c_size_t(0)) == 0
        return lib.said[0] if lib.mlx_array_eval(y) else lib.mlx_array_data_float32(y)[:n]
    finally:
        lib.mlx_set_error_handler(None, None, None)


scaled.number, scaled.kept = iter(range(100)), []


@pytest.mark.parametrize("kind", ["cu", "cubin"] + ([] if EMULATED else ["ptx"]))
def test_libraries(lib, kind, tmp_path):
    path = tmp_path / f"lib.{kind}"
    name = f"kernels_{kind}".encode()
    path.write_bytes(SOURCE.encode() if kind == "cu" else image_of(SOURCE, kind.upper()))
    assert lib.mlx_register_library(name, str(path).encode()) == 0
    for n in (100, 1, 33):
        assert scaled(lib, name, n=n) == [2.5 * i for i in range(n)]
    said = scaled(lib, name, kernel=b"other")
    assert f"[launch] expected a kernel of the library '{name.decode()}', declared extern \"C\", got other" in said
    for given in (0, 3):  # of 4 arguments, which the driver reads all
        said = scaled(lib, name, given=given)
        assert f"[launch] expected 4 arguments for scale, got {given}" in said
    assert scaled(lib, name, n=3) == [0, 2.5, 5]  # the device is as it was


def test_libraries_that_are_none(lib, tmp_path):
    for name, text, words in [
        (b"wrong", "\n\nnot a program;", "wrong: NVRTC"),
        (b"empty", "", "the driver cannot load the library 'empty'"),
    ]:
        path = tmp_path / (name.decode() + (".cu" if text else ".cubin"))
        path.write_bytes(text.encode() or b"\x7fELF" + bytes(100))
        assert lib.mlx_register_library(name, str(path).encode()) == 0
        said = scaled(lib, name)
        assert "[launch] " in said and words in said
        assert not text or "wrong.cu" in said and "3" in said  # the line


# ---- the sample extension


@pytest.fixture(scope="module")
def axpby(tmp_path_factory):
    """Its operation as a function of arrays, through the table for Python modules."""
    folder = tmp_path_factory.mktemp("axpby")
    include = ROOT / "include"
    command = ["cc", "-shared", "-fPIC", "-O2", f"-I{include}", f"-I{AXPBY.parent}", AXPBY / "axpby.c"]
    subprocess.run([*command, "-o", folder / "axpby.so"], check=True)
    (folder / "mlx_ext.cu").write_bytes((AXPBY / "axpby.cu").read_bytes())
    ctypes.CDLL("libmlx.so.0", mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(folder / "axpby.so"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "complex64"])
def test_axpby(lib, axpby, dtype):
    """4 x + 2 y of a transposed x and an y that is broadcast, on the GPU."""
    gpu, cpu = lib.mlx_default_gpu_stream_new(), lib.mlx_default_cpu_stream_new
    cpu.restype = Handle
    cpu = cpu()
    t = ctypes.c_int(["float16", "float32", "float64", "bfloat16", "complex64"].index(dtype) + 9)
    x, y, z = lib.mlx_array_new(), lib.mlx_array_new(), lib.mlx_array_new()
    d = ctypes.c_double
    assert lib.mlx_arange(ctypes.byref(x), d(0), d(12), d(1), 10, cpu) == 0
    assert lib.mlx_reshape(ctypes.byref(x), x, (ctypes.c_int * 2)(4, 3), ctypes.c_size_t(2), cpu) == 0
    assert lib.mlx_transpose(ctypes.byref(x), x, cpu) == 0 and lib.mlx_astype(ctypes.byref(x), x, t, cpu) == 0
    assert lib.mlx_arange(ctypes.byref(y), d(0), d(4), d(1), 10, cpu) == 0
    assert lib.mlx_astype(ctypes.byref(y), y, t, cpu) == 0
    axpby.axpby.argtypes = [ctypes.c_void_p, Handle, Handle, ctypes.c_float, ctypes.c_float, Handle]
    assert axpby.axpby(ctypes.byref(z), x, y, 4, 2, gpu) == 0
    assert lib.mlx_array_eval(z) == 0
    assert lib.mlx_astype(ctypes.byref(z), z, 10, cpu) == 0 and lib.mlx_array_eval(z) == 0
    expected = 4 * np.arange(12).reshape(4, 3).T + 2 * np.arange(4)
    assert lib.mlx_array_data_float32(z)[:12] == expected.reshape(-1).tolist()


# ---- where there is no compiler

WITHOUT = """
import ctypes, sys
import mlx.core as mx

class Handle(ctypes.Structure):
    _fields_ = [("ctx", ctypes.c_void_p)]

lib = ctypes.CDLL("libmlx.so.0", mode=ctypes.RTLD_GLOBAL)
for name in ("array_new", "array_new_data", "default_gpu_stream_new", "vector_array_new"):
    getattr(lib, "mlx_" + name).restype = Handle
lib.mlx_array_data_float32.restype = ctypes.POINTER(ctypes.c_float)
HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
handler = HANDLER(lambda message, data: print(message.decode(), file=sys.stderr))
lib.mlx_set_error_handler(handler, None, None)
gpu = lib.mlx_default_gpu_stream_new()

def numbers(*values):
    return lib.mlx_array_new_data((ctypes.c_float * len(values))(*values), (ctypes.c_int * 1)(len(values)), 1, 10)

def show(y):
    if lib.mlx_array_eval(y) == 0:
        n = lib.mlx_array_size
        n.restype = ctypes.c_size_t
        print(lib.mlx_array_data_float32(y)[: n(y)])
"""
AXPBY_TWICE = """
ext = ctypes.CDLL(sys.argv[1])
ext.axpby.argtypes = [ctypes.c_void_p, Handle, Handle, ctypes.c_float, ctypes.c_float, Handle]
for _ in range(2):
    y = lib.mlx_array_new()
    assert ext.axpby(ctypes.byref(y), numbers(1, 2), numbers(3, 4), 4, 2, gpu) == 0
    show(y)
"""
# Takes over its operand's memory before it launches.
OVER = """
lib.mlx_run_input.restype = lib.mlx_run_output.restype = ctypes.POINTER(ctypes.c_void_p)
lib.mlx_run_alloc_over.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
lib.mlx_run_output.argtypes = lib.mlx_run_input.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
P, S = ctypes.c_void_p, ctypes.c_char_p
lib.mlx_run_launch.argtypes = [P, S, S, P, P, P, ctypes.c_size_t]
RULE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
tried = []

def on_gpu(state, run):
    tried.append(run)
    one = (ctypes.c_int * 3)(1, 1, 1)
    return lib.mlx_run_alloc_over(run, 0, 0) or lib.mlx_run_launch(run, b"text", b"f", one, one, None, 0)

def on_cpu(state, run):
    if lib.mlx_run_alloc_over(run, 0, 0):
        return 1
    x, y = (ctypes.cast(f(run, 0)[0], ctypes.POINTER(ctypes.c_float)) for f in (lib.mlx_run_input, lib.mlx_run_output))
    for i in range(3):
        y[i] = x[i] + 1
    return 0

class Class(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("abi", ctypes.c_int), ("name", ctypes.c_char_p), ("eval_cpu", RULE),
                ("eval_gpu", RULE), ("others", ctypes.c_void_p * 9)]

class Output(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_int), ("ndim", ctypes.c_int), ("shape", ctypes.c_int * 64)]

assert lib.mlx_register_library(b"text", sys.argv[1].encode()) == 0
cls = Class(ctypes.sizeof(Class), 1, b"PlusOne", RULE(on_cpu), RULE(on_gpu))
like = Output(10, 1, (ctypes.c_int * 64)(3))
for _ in range(2):
    x, y = numbers(1, 2, 3), lib.mlx_array_new()
    inputs, outputs = lib.mlx_vector_array_new(), lib.mlx_vector_array_new()
    assert lib.mlx_negative(ctypes.byref(x), x, gpu) == 0 # nobody else has it
    lib.mlx_vector_array_append_value(inputs, x)
    lib.mlx_array_free(x)
    args = [ctypes.byref(outputs), ctypes.byref(cls), None, inputs, ctypes.byref(like), ctypes.c_size_t(1), gpu]
    assert lib.mlx_primitive_apply(*args) == 0
    lib.mlx_vector_array_free(inputs)
    assert lib.mlx_vector_array_get(ctypes.byref(y), outputs, ctypes.c_size_t(0)) == 0
    show(y)
print(len(tried))
"""


def without_compiler(program, file, **env):
    env = {**os.environ, "MLX_CUDA_LIBRARIES": "0", "MLX_LOG": "fallback", **env}
    command = [sys.executable, "-c", WITHOUT + program, str(file)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines(), ran.stderr.splitlines()


@pytest.mark.parametrize("checks", ["", "nan"])
def test_the_cpu_runs_it(axpby, checks):
    """As operations without a kernel, and it is said once."""
    printed, said = without_compiler(AXPBY_TWICE, axpby._name, MLX_CHECK=checks)
    assert printed == ["[10.0, 16.0]"] * 2
    assert said == ["mlx: Axpby has no kernel on Device(gpu, 0) and runs on the CPU"]
    printed, said = without_compiler(AXPBY_TWICE, axpby._name, MLX_FALLBACK="error", MLX_CHECK=checks)
    assert printed == [] and len(said) == 2
    assert all("cannot compile mlx_ext_kernels without NVRTC" in line for line in said)


def test_operands_are_there_for_the_cpu(tmp_path):
    file = tmp_path / "text.cu"
    file.write_text(SOURCE)
    printed, said = without_compiler(OVER, file)
    assert printed == ["[0.0, -1.0, -2.0]"] * 2 + ["1"]  # the GPU is tried once
    assert said == ["mlx: PlusOne has no kernel on Device(gpu, 0) and runs on the CPU"]
