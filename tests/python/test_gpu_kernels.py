"""Kernels given as text for CUDA, and compiled ones: values, what is refused, the folder of what was compiled; skipped
where there is no GPU. On the emulated driver bodies are C where CUDA and C agree (tests/emulated/nvrtc.c)."""

import ctypes
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from cuda_bodies import BODIES, call

EMULATED = mx.is_available(mx.gpu) and mx.device_info(mx.gpu)["device_name"] == "emulated"
FOLDER = Path(os.environ.get("LD_LIBRARY_PATH", "").split(":")[0], "libraries").resolve()
if EMULATED:
    os.environ["MLX_CUDA_LIBRARIES"] = str(FOLDER)
pytestmark = pytest.mark.skipif(
    not mx.is_available(mx.gpu) or mx.cuda.libraries()["nvrtc"] is None, reason="needs an NVIDIA GPU and NVRTC"
)
INDEX = "unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"


@pytest.fixture(autouse=True)
def folder(tmp_path_factory, monkeypatch):
    base = tmp_path_factory.getbasetemp() / "cache"
    base.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    return base / "mlx" / "cuda_kernels"


def made(source, inputs=("x",), outputs=("y",), name="k", **options):
    return mx.fast.cuda_kernel(name, list(inputs), list(outputs), source, **options)


def called(kernel, inputs, shape=None, dtype=None, grid=None, group=(64, 1, 1), **more):
    shape = inputs[0].shape if shape is None else shape
    dtype = inputs[0].dtype if dtype is None else dtype
    grid = (int(np.prod(shape)), 1, 1) if grid is None else grid
    return kernel(
        inputs=inputs, output_shapes=[shape], output_dtypes=[dtype], grid=grid, threadgroup=group, stream=mx.gpu, **more
    )[0]


def fresh(script, **environment):
    """What a new process prints."""
    env = {**os.environ, **environment}
    env = {name: value for name, value in env.items() if value is not None}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)


def compiled():
    return ctypes.c_int.in_dll(ctypes.CDLL(str(FOLDER / "libnvrtc.so.12")), "emulated_compiled").value


# ---- values


@pytest.mark.parametrize("n", [1, 63, 4096, 10_003])
def test_values_whatever_the_size(n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    y = called(made(INDEX + "if (i < x_shape[0]) y[i] = x[i] * x[i];"), [mx.array(x)])
    np.testing.assert_array_equal(np.array(y), x * x)


@pytest.mark.parametrize("dtype", ["bool_", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"])
def test_integers_go_in_and_out(dtype):
    t = getattr(mx, dtype)
    x = mx.array([0, 1, 2, 100]).astype(t)
    y = called(made(INDEX + "T v = x[i]; y[i] = v;"), [x], template=[("T", t)], group=(4, 1, 1))
    assert y.dtype == t and mx.array_equal(y, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_floats_go_in_and_out(dtype):
    t = getattr(mx, dtype)
    x = mx.array([0, -1.5, 2, 100]).astype(t, stream=mx.cpu)
    y = called(made(INDEX + "T v = x[i]; y[i] = v;"), [x], template=[("T", t)], group=(4, 1, 1))
    assert y.dtype == t and mx.array_equal(y, x, stream=mx.cpu)


def test_grid_of_three_dimensions_in_blocks():
    grid, group = (7, 5, 3), (4, 2, 2)
    source = """
        unsigned a = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y * blockDim.y + threadIdx.y,
                 c = blockIdx.z * blockDim.z + threadIdx.z;
        if (a >= 7 || b >= 5 || c >= 3)
            return;
        unsigned i = a + 7 * (b + 5 * c);
        y[i] += 1;
        at[i] = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z;
        blocks[i] = gridDim.x + 10 * gridDim.y + 100 * gridDim.z;
    """
    k = made(source, inputs=[], outputs=["y", "at", "blocks"])
    y, at, blocks = k(
        inputs=[],
        output_shapes=[grid[::-1]] * 3,
        output_dtypes=[mx.float32, mx.int32, mx.int32],
        grid=grid,
        threadgroup=group,
        init_value=2,
        stream=mx.gpu,
    )
    z, j, i = np.indices(grid[::-1])
    assert (np.array(y) == 3).all()
    np.testing.assert_array_equal(np.array(at), i % 4 + 10 * (j % 2) + 100 * (z % 2))
    assert (np.array(blocks) == 2 + 30 + 200).all()


@pytest.mark.parametrize("dims", [3, 9])
def test_strides_of_inputs_that_are_not_copied(dims):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a = mx.array(x).transpose(2, 0, 1)[:, ::-1]
    expected = x.transpose(2, 0, 1)[:, ::-1]
    while a.ndim < dims:
        a, expected = a[None], expected[None]
    source = INDEX + "y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)];"
    group = (24, 1, 1)
    np.testing.assert_array_equal(
        np.array(called(made(source, ensure_row_contiguous=False), [a], group=group)), expected
    )
    np.testing.assert_array_equal(np.array(called(made(source), [a], group=group)), expected)
    np.testing.assert_array_equal(np.array(called(made(INDEX + "y[i] = x[i];"), [a], group=group)), expected)


def test_blocks_share_memory_and_wait_for_each_other():
    source = """
        __shared__ float tile[64];
        tile[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
        __syncthreads();
        y[blockIdx.x * 64 + threadIdx.x] = tile[63 - threadIdx.x];
    """
    x = np.arange(256, dtype=np.float32)
    y = called(made(source), [mx.array(x)])
    np.testing.assert_array_equal(np.array(y), x.reshape(4, 64)[:, ::-1].reshape(-1))


def test_template_header_numbers_and_what_comes_after():
    header = "static __device__ float more(float v)\n{\n    return v + 1;\n}"
    source = INDEX + "T v = B ? more(x[i]) : 0;\ny[i] = v * N + *n;"
    k = made(source, inputs=["x", "n"], header=header)
    x = mx.arange(8, dtype=mx.float32)
    y = called(k, [x * 2, 3], template=[("T", mx.float32), ("N", -4), ("B", True)], group=(8, 1, 1))
    np.testing.assert_array_equal(np.array(y + 1), (np.arange(8) * 2 + 1) * -4.0 + 4)
    z = called(k, [x, 3], template=[("T", mx.float32), ("N", 2), ("B", False)], group=(8, 1, 1))
    assert z.tolist() == [3] * 8


def test_nothing_to_run():
    x = mx.zeros((0,))
    assert called(made(INDEX + "y[i] = x[i];"), [x], grid=(0, 1, 1)).shape == (0,)
    y = called(made("y[0] = 1;"), [x], shape=(3,), grid=(1, 0, 1), init_value=5)
    assert y.tolist() == [5, 5, 5]


def test_transforms():
    k = made(INDEX + "y[i] = 2 * x[i];")

    def twice(x):
        return called(k, [x], shape=(4,), dtype=mx.float32, grid=(4, 1, 1), group=(4, 1, 1))

    x = mx.array([1.0, 2, 3, 4])
    assert mx.compile(lambda x: twice(x) + 1)(x).tolist() == [3, 5, 7, 9]
    with pytest.raises(ValueError, match=r"\[cuda_kernel\] k has no derivative"):
        mx.grad(lambda x: twice(x).sum())(x)
    mx.eval(twice(twice(x)), twice(x))


# ---- compiled ones


@pytest.fixture(scope="module")
def image():
    """Of a kernel scale(x, y, n, by, again), compiled by hand."""
    text = """
        extern "C" __global__ void scale(
            const float *x,
            float *y,
            int n,
            float by,
            bool again)
        {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = again ? x[i] * by * by : x[i] * by;
        }
    """
    if EMULATED:
        text = "/* ---- the kernel */\n" + text.strip().replace("\n        ", "\n")
    lib = ctypes.CDLL(mx.cuda.libraries()["nvrtc"]["path"])
    p, n = ctypes.c_void_p(), ctypes.c_size_t()
    info = mx.device_info(mx.gpu)
    arch = f"-arch=sm_{info['compute_capability_major']}{info['compute_capability_minor']}".encode()
    assert lib.nvrtcCreateProgram(ctypes.byref(p), text.encode(), b"scale.cu", 0, None, None) == 0
    assert lib.nvrtcCompileProgram(p, 1, (ctypes.c_char_p * 1)(arch)) == 0
    assert lib.nvrtcGetCUBINSize(p, ctypes.byref(n)) == 0
    data = ctypes.create_string_buffer(n.value)
    assert lib.nvrtcGetCUBIN(p, data) == 0
    return data.raw


def scaled(image, name="scale", scalars=(5, 2.5, True), **more):
    x = mx.arange(5, dtype=mx.float32) * 2
    return mx.fast.precompiled_cuda_kernel(
        name=name,
        compiled_source=image,
        inputs=[x],
        output_shapes=[(5,)],
        output_dtypes=[mx.float32],
        scalars=list(scalars),
        grid=(5, 1, 1),
        threadgroup=(4, 1, 1),
        stream=mx.gpu,
        **more,
    )[0]


def test_precompiled(image):
    x = np.arange(5) * 2
    assert scaled(image).tolist() == (x * 6.25).tolist()
    assert scaled(image, scalars=[5, 0.5, False]).tolist() == (x * 0.5).tolist()
    assert scaled(image, scalars=[3, 0.5, False], init_value=7).tolist() == [0, 1, 2, 7, 7]


def test_precompiled_that_is_none(image):
    with pytest.raises(RuntimeError, match=r"\[precompiled_cuda_kernel\] expected an image with the kernel other: "):
        mx.eval(scaled(image, name="other"))
    for text in (b"", b"\x7fELF" + bytes(200)):
        with pytest.raises(RuntimeError, match=r"\[precompiled_cuda_kernel\] the driver cannot load scale: "):
            mx.eval(scaled(text))
    with pytest.raises(ValueError, match="ints of 32 bits for 'scalars', got 4294967296"):
        scaled(image, scalars=[1 << 32])
    with pytest.raises(TypeError, match="'scalars' must hold ints, floats and bools, not complex"):
        scaled(image, scalars=[1j])
    assert scaled(image).tolist()[1] == 12.5  # the device is as it was


def test_precompiled_with_other_arguments(image, monkeypatch):
    """As many as the kernel has parameters, and as wide: the driver reads all of those."""
    for scalars in ([], [5, 2.5], [5, 2.5, True, 1]):
        with pytest.raises(
            RuntimeError, match=rf"\[precompiled_cuda_kernel\] expected 5 arguments for scale, got {2 + len(scalars)}"
        ):
            mx.eval(scaled(image, scalars=scalars))
    with pytest.raises(RuntimeError, match="expected 4 bytes for argument 2 of scale, got 1"):
        mx.eval(scaled(image, scalars=[True, 2.5, True]))
    assert scaled(image, scalars=[5, 2.5, 1]).tolist()[1] == 12.5  # read as it begins
    if EMULATED:
        monkeypatch.setenv("PRETEND_DRIVER", "12000")  # which cannot say
        assert scaled(image).tolist()[1] == 12.5


# ---- what is refused


def test_errors_have_the_lines_of_the_source():
    with pytest.raises(RuntimeError, match=r"(?s)^\[cuda_kernel\] wrong: NVRTC .*<wrong source>.?3.*there_is_none"):
        mx.eval(called(made("\n\ny[0] = there_is_none;", name="wrong"), [mx.ones(1)]))
    with pytest.raises(RuntimeError, match=r"(?s)<wrong header>.?2.*there_is_none"):
        mx.eval(called(made("", name="wrong", header="\nint a = there_is_none;"), [mx.ones(1)]))
    assert called(made(INDEX + "y[i] = x[i];"), [mx.ones(1)], group=(1, 1, 1)).item() == 1


def test_what_a_gpu_cannot_run():
    k = made("y[0] = 1;")
    with pytest.raises(ValueError, match=r"at most 1024 threads, 64 along z, for k, got \(2048,1,1\)"):
        called(k, [mx.ones(2048)], group=(2048, 1, 1))
    with pytest.raises(RuntimeError, match=r"expected a stream of a GPU for k, got one of Device\(cpu, 0\)"):
        k(
            inputs=[mx.ones(1)],
            output_shapes=[(1,)],
            output_dtypes=[mx.float32],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            stream=mx.cpu,
        )
    with pytest.raises(RuntimeError, match=r"cannot run k in blocks of \(1,1,1\) threads.* 1048576 bytes of shared"):
        mx.eval(called(made("y[0] = 1;", shared_memory=1 << 20), [mx.ones(1)], group=(1, 1, 1)))
    with pytest.raises(RuntimeError, match=r"\[cuda_kernel\] the GPU cannot run k in blocks of \(1,1,1\) threads"):
        mx.eval(called(k, [mx.ones(1)], grid=(1, 70_000, 1), group=(1, 1, 1)))
    assert called(k, [mx.ones(1)], group=(1, 1, 1)).item() == 1  # the device is as it was


SCRIPT = """
import mlx.core as mx
k = mx.fast.cuda_kernel('k', ['x'], ['y'], 'y[threadIdx.x] = 3 * x[threadIdx.x];')
try:
    print(k(inputs=[mx.array([1.0, 2.0])], output_shapes=[(2,)], output_dtypes=[mx.float32], grid=(2, 1, 1),
            threadgroup=(2, 1, 1), verbose={verbose}, stream=mx.gpu)[0].tolist())
except RuntimeError as e:
    print(e)
"""


def test_without_the_compiler(tmp_path):
    said = fresh(SCRIPT.format(verbose=False), MLX_CUDA_LIBRARIES="0").stdout
    assert "[cuda_kernel] cannot compile k without NVRTC, NVIDIA's compiler: pip install nvidia-cuda-nvrtc" in said


# ---- the folder


def test_what_is_kept(tmp_path):
    folder = tmp_path / "mlx" / "cuda_kernels"
    here = {"XDG_CACHE_HOME": str(tmp_path)}
    first = fresh(SCRIPT.format(verbose=True), **here).stdout
    assert 'extern "C" __global__ void custom_kernel_k(' in first and "[3.0, 6.0]" in first
    (file,) = folder.iterdir()
    assert f"/* k: compiled, kept in {file} */" in first and file.suffix == ".image"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(file.stat().st_mode) & 0o077 == 0
    then = fresh(SCRIPT.format(verbose=True), **here).stdout
    assert f"/* k: loaded from {file} */" in then and "[3.0, 6.0]" in then
    data = file.read_bytes()
    for damage in (data[:-1], data[:100] + bytes([data[100] ^ 1]) + data[101:], b""):
        file.write_bytes(damage)
        again = fresh(SCRIPT.format(verbose=True), **here).stdout
        assert "/* k: compiled" in again and "[3.0, 6.0]" in again and file.read_bytes()[-8:] == data[-8:]
    folder.chmod(0o755)
    assert re.search(r"/\* k: compiled +\*/\n\[3.0, 6.0\]", fresh(SCRIPT.format(verbose=True), **here).stdout)


def test_nothing_is_kept_where_nobody_wants_it(tmp_path):
    said = fresh(SCRIPT.format(verbose=True), XDG_CACHE_HOME=str(tmp_path), MLX_KERNEL_CACHE="0").stdout
    assert "[3.0, 6.0]" in said and not list(tmp_path.iterdir())


def test_the_folder_does_not_grow_for_ever(tmp_path):
    folder = tmp_path / "mlx" / "cuda_kernels"
    folder.mkdir(parents=True, mode=0o700)
    for i in range(4):
        old = folder / f"old{i}.image"
        old.write_bytes(bytes(400_000))
        os.utime(old, (1000 + i, 1000 + i))
    said = fresh(SCRIPT.format(verbose=False), XDG_CACHE_HOME=str(tmp_path), MLX_KERNEL_CACHE="1").stdout
    names = {p.name for p in folder.iterdir()}
    assert "[3.0, 6.0]" in said and names & {f"old{i}.image" for i in range(4)} == {"old2.image", "old3.image"}
    assert len(names) == 3


def test_compiled_once():
    if not EMULATED:
        return
    k, x = made(INDEX + "y[i] = x[i] + 41;"), mx.ones(4)
    before = compiled()
    for _ in range(3):
        mx.eval(called(k, [x], group=(4, 1, 1)), called(k, [x + 1], group=(2, 1, 1)))
    assert compiled() == before + 1
    mx.eval(called(k, [x.astype(mx.int32)], dtype=mx.int32, group=(4, 1, 1)))
    assert compiled() == before + 2


# ---- in C++, which the emulated compiler does not read


if not EMULATED:

    @pytest.mark.parametrize("name", [*BODIES])
    def test_cuda(name):
        *_, expected = BODIES[name]
        np.testing.assert_allclose(np.array(call(name).astype(mx.complex64)), expected, rtol=1e-2)
