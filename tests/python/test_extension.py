"""Modules of one's own: mlx.extension, mlx/c/python.h, and the sample extension built outside the tree."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import mlx
import mlx.core as mx
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTENSIONS = ROOT / "examples" / "extensions"
PRINTED = "c shape: (3, 4)\nc dtype: mlx.core.float32\nc correctness: True\n"
PACKAGE = pathlib.Path(os.path.abspath(mlx.__file__)).parent

if not shutil.which("cmake") or not shutil.which("cc"):
    pytest.skip("extensions take cmake and a C compiler", allow_module_level=True)
pytest.importorskip("setuptools")


def attempt(*command, cwd, **env):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **env}
    return subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True)


def run(*command, cwd, **env):
    done = attempt(*command, cwd=cwd, **env)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(folder, *options, **env):
    return run(sys.executable, "setup.py", "build_ext", *options, cwd=folder, **env)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """The sample extension, built in place in a copy of its folder, with the test in C."""
    folder = tmp_path_factory.mktemp("extensions") / "sample"
    shutil.copytree(EXTENSIONS, folder)
    flags = "-DAXPBY_TESTS=ON -DCMAKE_C_FLAGS='-Wall -Wextra -Werror'"
    build(folder, "-j8", "--inplace", "--build-temp", "work", CMAKE_ARGS=flags)
    return folder


@pytest.fixture(scope="module")
def axpby(sample):
    sys.path.insert(0, str(sample))
    try:
        import mlx_sample_extensions

        yield mlx_sample_extensions.axpby
    finally:
        sys.path.remove(str(sample))


def test_in_place(sample):
    names = {p.name for p in (sample / "mlx_sample_extensions").iterdir()}
    assert {"__init__.py", "_ext.abi3.so", "libmlx_ext.so", "mlx_ext.cu"} <= names


def test_usage(sample):
    out = run(sys.executable, "example.py", cwd=sample)
    assert out == PRINTED


def test_documentation_shows_the_example():
    text = (ROOT / "docs" / "extensions.md").read_text()
    files = [p.read_text() for p in sorted(EXTENSIONS.rglob("*")) if p.is_file() and p.suffix not in (".pyc", ".so")]
    blocks = re.findall(r"^```(?:c|cmake|python)\n(.*?)^```$", text, flags=re.M | re.S)
    assert len(blocks) > 10
    assert [b for b in blocks if not any(b in f for f in files)] == []
    assert text.endswith(f"```\n{PRINTED}```\n")


def test_in_c(sample):
    (work,) = (sample / "work").iterdir()
    assert run("ctest", "--test-dir", work, "--output-on-failure", cwd=sample)


@pytest.mark.slow
def test_benchmark(sample):
    assert run(sys.executable, "benchmark.py", cwd=sample).startswith("Simple axpby: ")


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.complex64, mx.int32, mx.bool_])
@pytest.mark.parametrize("layout", ["rows", "columns", "broadcast", "strided", "scalar", "empty"])
def test_values(axpby, dtype, layout):
    rng = np.random.default_rng(3)
    x, y = (mx.array(rng.integers(0, 9, (6, 8)).astype("f")).astype(dtype) for _ in "xy")
    if layout == "columns":
        x, y = x.T, y.T
    elif layout == "broadcast":
        x, y = x[:, :1], y[:1]
    elif layout == "strided":
        x, y = x[::2, ::3], y[1::2, ::-3]
    elif layout == "scalar":
        x, y = x[0, 0], y[0, 0]
    elif layout == "empty":
        x, y = x[:0], y[:0]
    z = axpby(x, y, 4.0, -2.0)
    assert z.dtype == (mx.float32 if dtype in (mx.int32, mx.bool_) else dtype)
    wide = mx.complex64 if dtype == mx.complex64 else mx.float32
    expected = 4 * np.array(x.astype(wide)) - 2 * np.array(y.astype(wide))
    assert np.array_equal(np.array(z.astype(wide)), expected)


def test_large(axpby):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 1000, 301)).astype("f")
    expected = 1.5 * x.astype("d") + 0.25 * y
    for a, b in ((x, y), (x.T.copy().T, y.T.copy().T), (x, y.T.copy().T)):
        np.testing.assert_allclose(axpby(mx.array(a), mx.array(b), 1.5, 0.25), expected, rtol=1e-6, atol=1e-6)


def test_transforms(axpby):
    x, y = mx.array([1.0, 2, 3]), mx.array([4.0, 5, 6])

    def f(x, y):
        return axpby(x, y, 4.0, 2.0)

    def loss(x, y):
        return (f(x, y) * x).sum()

    gx, gy = mx.grad(loss, argnums=(0, 1))(x, y)
    assert mx.array_equal(gx, f(x, y) + 4 * x) and mx.array_equal(gy, 2 * x)
    _, (t,) = mx.jvp(f, (x, y), (y, x))
    assert mx.array_equal(t, f(y, x))
    _, (t,) = mx.jvp(lambda x: f(x, y), (x,), (y,))
    assert mx.array_equal(t, 4 * y)
    assert mx.array_equal(mx.compile(f)(x, y), f(x, y))
    assert mx.array_equal(mx.grad(mx.compile(loss))(x, y), gx)
    m = mx.arange(6.0).reshape(2, 3)
    rows = mx.stack([f(m[i], y) for i in range(2)])
    assert mx.array_equal(mx.vmap(f, in_axes=(0, None))(m, y), rows)
    assert mx.array_equal(mx.vmap(f, in_axes=(1, None), out_axes=1)(m.T, y), rows.T)
    assert mx.array_equal(mx.vmap(mx.grad(loss), in_axes=(0, None))(m, y), mx.stack([mx.grad(loss)(r, y) for r in m]))
    # Half the width of a derivative stays that.
    assert mx.grad(lambda x: axpby(x, x, 4.0, 2.0).sum())(x.astype(mx.bfloat16)).dtype == mx.bfloat16


def test_exported_functions(axpby, sample, tmp_path):
    x, y = mx.array([1.0, 2]), mx.array([3.0, 4])
    mx.export_function(str(tmp_path / "f.mlxfn"), lambda x, y: axpby(x, y, 4.0, 2.0), x, y)
    code = """
import mlx.core as mx
import {}
(z,) = mx.import_function("f.mlxfn")(mx.array([1.0, 2]), mx.array([3.0, 4]))
print(z.tolist())
"""
    place = os.pathsep.join([str(PACKAGE.parent), str(sample)])
    known = attempt(sys.executable, "-c", code.format("mlx_sample_extensions"), cwd=tmp_path, PYTHONPATH=place)
    assert known.stdout == "[10.0, 16.0]\n", known.stderr
    unknown = attempt(sys.executable, "-c", code.format("sys"), cwd=tmp_path)
    assert unknown.returncode and "Axpby" in unknown.stderr


def test_printed(axpby):
    import io

    file = io.StringIO()
    mx.export_to_dot(file, axpby(mx.ones(2), mx.ones(2), 4.0, 2.0))
    assert "Axpby" in file.getvalue()


def test_arguments(axpby):
    x = mx.ones(2)
    assert axpby.__doc__.startswith("Scale two arrays")
    assert axpby(x, x, alpha=1, beta=2, stream=mx.default_stream(mx.cpu)).tolist() == [3, 3]
    assert axpby(x, x, 1, 2, stream=None).tolist() == [3, 3]
    assert axpby(x, x, 1, 2, stream=mx.Device(mx.cpu, 0)).tolist() == [3, 3]
    with pytest.raises(TypeError, match="expected an array, got int"):
        axpby(1, x, 1.0, 1.0)
    with pytest.raises(TypeError, match="expected a Stream, .*, got str"):
        axpby(x, x, 1.0, 1.0, stream="cpu")
    with pytest.raises(ValueError, match="cannot be broadcast"):
        axpby(x, mx.ones(3), 1.0, 1.0)
    if not mx.is_available(mx.gpu):
        with pytest.raises(ValueError, match="gpu"):
            axpby(x, x, 1.0, 1.0, stream=mx.gpu)


def test_no_path_of_the_build_is_left_in_what_is_installed(sample, tmp_path):
    folder = tmp_path / "sample"
    shutil.copytree(sample, folder, ignore=shutil.ignore_patterns("work", "*.so"))
    build(folder, "--build-lib", "out", "--debug")
    out = folder / "out" / "mlx_sample_extensions"
    for name in ("_ext.abi3.so", "libmlx_ext.so"):
        dynamic = run("readelf", "-d", out / name, cwd=folder)
        assert "[$ORIGIN:$ORIGIN/../mlx/lib]" in dynamic
    assert "CMAKE_BUILD_TYPE:STRING=Debug" in next((folder / "build").rglob("CMakeCache.txt")).read_text()
    assert not list((folder / "mlx_sample_extensions").glob("*.so"))


@pytest.mark.slow
def test_pip(sample, tmp_path):
    folder = tmp_path / "sample"
    shutil.copytree(sample, folder, ignore=shutil.ignore_patterns("work", "*.so"))
    command = ["pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target", tmp_path / "site", "."]
    if attempt(sys.executable, "-c", "import wheel", cwd=folder).returncode:
        pytest.skip("there is no package wheel")
    run(sys.executable, "-m", *command, cwd=folder)
    place = os.pathsep.join([str(PACKAGE.parent), str(tmp_path / "site")])
    shutil.copy(folder / "example.py", tmp_path)  # beside the sources it would find these
    assert run(sys.executable, "example.py", cwd=tmp_path, PYTHONPATH=place) == PRINTED


# Other modules, of one file each.

SETUP = """
from mlx import extension
from setuptools import Extension, setup
setup(name="other", version="1", py_modules=[], ext_modules=[{}], cmdclass={{"build_ext": extension.{}}})
"""
MODULE = r"""
#define Py_LIMITED_API 0x030A0000
#include <mlx/c/python.h>
#include <mlx/c/mlx.h>

static PyObject *total(PyObject *m, PyObject *o)
{
    mlx_vector_array in = mlx_vector_array_new();
    mlx_array sum = mlx_array_new(), x = mlx_array_new();
    int failed = mlx_python_arrays(o, &in);
    (void)m;
    if (failed) {
        mlx_vector_array_free(in);
        return NULL;
    }
    mlx_array_set_int(&sum, 0);
    for (size_t i = 0; i < mlx_vector_array_size(in) && !failed; i++)
        failed = mlx_vector_array_get(&x, in, i) || mlx_add(&sum, sum, x, mlx_python_no_stream());
    mlx_array_free(x);
    mlx_vector_array_free(in);
    return mlx_python_result(failed, sum);
}

static PyObject *parts(PyObject *m, PyObject *o)
{
    mlx_array x = mlx_array_new();
    mlx_vector_array out = mlx_vector_array_new();
    (void)m;
    if (mlx_python_array_from(o, &x)) {
        mlx_vector_array_free(out);
        return NULL;
    }
    int failed = mlx_split(&out, x, 2, 0, mlx_python_no_stream());
    mlx_array_free(x);
    return mlx_python_results(failed, out);
}

/* What the arguments are, there and back. */
static PyObject *back(PyObject *m, PyObject *args)
{
    mlx_stream s;
    mlx_dtype t;
    PyObject *o;
    mlx_device d = mlx_device_new();
    (void)m;
    if (!PyArg_ParseTuple(args, "O&O&O", mlx_python_stream, &s, mlx_python_dtype, &t, &o) || mlx_python_device(o, &d))
        return NULL;
    PyObject *result = Py_BuildValue("NNN", mlx_python_stream_object(s), mlx_python_dtype_object(t),
                                     mlx_python_device_object(d));
    mlx_device_free(d);
    return result;
}

static PyMethodDef functions[] = {
    { "total", total, METH_O, NULL }, { "parts", parts, METH_O, NULL },
    { "back", back, METH_VARARGS, NULL }, { NULL, NULL, 0, NULL },
};
static struct PyModuleDef def = { PyModuleDef_HEAD_INIT, "other", NULL, -1, functions, NULL, NULL, NULL, NULL };
PyMODINIT_FUNC PyInit_other(void) { return mlx_python_import() ? NULL : PyModule_Create(&def); }
"""


def project(folder, extension, command="BuildExtension", source=MODULE):
    folder.mkdir(exist_ok=True)
    (folder / "setup.py").write_text(SETUP.format(extension, command))
    (folder / "other.c").write_text(source)
    return folder


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    folder = project(
        tmp_path_factory.mktemp("other"),
        "Extension('other', ['other.c'], extra_compile_args=['-Wall', '-Wextra', '-Werror'])",
    )
    build(folder, "--inplace")
    sys.path.insert(0, str(folder))
    try:
        import other

        yield other
    finally:
        sys.path.remove(str(folder))


def test_there_and_back(other):
    assert other.total([mx.array([1, 2]), (mx.array([3, 4]), {"a": mx.array(5)})]).tolist() == [9, 11]
    assert other.total([]).item() == 0
    assert [p.tolist() for p in other.parts([[1, 2], [3, 4]])] == [[[1, 2]], [[3, 4]]]
    assert [p.tolist() for p in other.parts(np.arange(4))] == [[0, 1], [2, 3]]
    stream = mx.new_stream(mx.cpu)
    assert other.back(stream, mx.bfloat16, mx.cpu) == (stream, mx.bfloat16, mx.Device(mx.cpu, 0))
    with pytest.raises(ValueError, match="split"):
        other.parts([1, 2, 3])
    with pytest.raises(TypeError, match="got str"):
        other.parts("text")
    with pytest.raises(ValueError, match="empty handle"):
        other.back(None, mx.bool_, mx.cpu)
    with pytest.raises(TypeError, match="expected a Dtype, got int"):
        other.back(None, 1, mx.cpu)
    with pytest.raises(TypeError, match="expected a Device or a DeviceType, got str"):
        other.back(stream, mx.bool_, "cpu")


def test_the_header_alone(tmp_path):
    (tmp_path / "a.c").write_text('#include "mlx/c/python.h"\nextern int here;\n')
    flags = ["-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}", "-isystem", sysconfig.get_path("include")]
    compilers = [["cc", "-xc", "-std=c11"], ["cc", "-xc", "-std=c17", "-DPy_LIMITED_API=0x030A0000"]]
    if shutil.which("c++"):
        compilers.append(["c++", "-xc++", "-std=c++11"])
    for compiler in compilers:
        run(*compiler, *flags, "-fsyntax-only", "a.c", cwd=tmp_path)


def load(folder):
    return attempt(sys.executable, "-c", "import mlx.core, other", cwd=folder).stderr


def test_a_module_for_another_layout_is_refused(tmp_path):
    later = MODULE.replace("#include <mlx/c/mlx.h>", "", 1).replace("#include <mlx/c/python.h>", '#include "later.h"')
    header = (
        (ROOT / "include/mlx/c/python.h").read_text().replace("#define MLX_PYTHON_ABI 1", "#define MLX_PYTHON_ABI 2")
    )
    folder = project(tmp_path / "a", "Extension('other', ['other.c'])", source=later)
    (folder / "later.h").write_text(header + "#include <mlx/c/mlx.h>\n")
    build(folder, "--inplace")
    assert "ImportError: [mlx] this module is built for number 2" in load(folder)


def test_another_copy_of_the_library_is_refused(tmp_path):
    folder = project(tmp_path / "a", "Extension('other', ['other.c'])")
    lib = (PACKAGE / "lib").resolve()
    static = lib / "libmlx.a"
    if not static.is_file():
        pytest.skip("there is no static library")
    blas = f"'-L{lib}', '-l:libscipy_openblas.so', '-Wl,-rpath,{lib}'"
    linked = f"extra_objects=['{static}'], extra_link_args=['-lz', '-lm', '-Wl,-Bsymbolic', {blas}]"
    text = SETUP.format(f"Extension('other', ['other.c'], include_dirs=['{PACKAGE}/include'], {linked})", "build_ext")
    (folder / "setup.py").write_text(text)
    build(folder, "--inplace")
    assert "ImportError: [mlx] this module is linked to another copy of libmlx" in load(folder)


def test_another_version_of_the_library_is_refused(tmp_path):
    (tmp_path / "version.c").write_text("int mlx_version(void *s) { return s != 0; }\n")
    run("cc", "-shared", "-fPIC", "version.c", "-o", "version.so", cwd=tmp_path)
    preload = f"{os.environ.get('LD_PRELOAD', '')}:{tmp_path}/version.so"  # behind a sanitizer's runtime
    done = attempt(sys.executable, "-c", "import mlx.core", cwd=tmp_path, LD_PRELOAD=preload)
    assert f"ImportError: [mlx] mlx.core {mx._release} meets libmlx unknown" in done.stderr


# What a CUDA compiler knows by itself.
CUDA = """
#define __CUDACC__ 1
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
struct number { __device__ operator unsigned() const; };
struct place { number x; };
extern __device__ place threadIdx, blockIdx, blockDim;
"""


def test_kernels_compile_for_cuda(tmp_path):
    (tmp_path / "cuda.h").write_text(CUDA)
    command = ["clang", "-x", "cuda", "--cuda-gpu-arch=sm_70", "--cuda-device-only", "-nocudainc", "-nocudalib"]
    options = ["-fsyntax-only", "-Wall", "-Wextra", "-include", "cuda.h"]
    (tmp_path / "empty.cu").write_text("")
    if not shutil.which("clang") or attempt(*command, *options, "empty.cu", cwd=tmp_path).returncode:
        pytest.skip("there is no clang that knows CUDA")
    run(*command, *options, "-Werror", "-Wno-unknown-cuda-version", EXTENSIONS / "axpby" / "axpby.cu", cwd=tmp_path)


METAL = "extension.MetalExtension('other', ['other.c', 'k.metal'], language='c'{})"


def test_metal_is_refused(tmp_path):
    done = attempt(sys.executable, "setup.py", "build_ext", cwd=project(tmp_path / "a", METAL.format("")))
    assert done.returncode and "RuntimeError: [BuildExtension] there is no Metal here" in done.stderr
    folder = project(tmp_path / "b", METAL.format(", optional=True"), "BuildExtension.with_options(use_ninja=True)")
    done = attempt(sys.executable, "setup.py", "build_ext", cwd=folder)
    assert done.returncode == 0 and "left out" in done.stdout + done.stderr


def test_metal_is_described():
    from mlx.extension import MetalExtension, MetalLibrary

    e = MetalExtension("a.b", ["a.cpp", "b.metal"], extra_compile_args=["-O3"])
    assert (e.name, e.language, e.metal_library_name) == ("a.b", "c++", "b")
    assert e.extra_compile_args == {"cxx": ["-O3"], "metal": []}
    assert [(m.name, m.sources) for m in e.metal_libraries] == [("b", ["b.metal"])]
    library = MetalLibrary("l", [pathlib.Path("k.metal")], extra_compile_args=["-O2"], deployment_target="14.0")
    assert (library.sources, library.extra_compile_args, library.deployment_target) == (["k.metal"], ["-O2"], "14.0")
    assert MetalExtension("a", ["a.c"], metal_libraries=[library]).metal_libraries == [library]
    for wrong in (
        lambda: MetalExtension("a", ["a.mm", "a.metal"]),
        lambda: MetalExtension("a", ["a.metal"]),
        lambda: MetalExtension("a", ["a.cpp"]),
        lambda: MetalExtension("a", ["a.cpp"], metal_libraries=[]),
        lambda: MetalExtension("a", ["a.cpp", "b.metal"], metal_libraries=[library]),
        lambda: MetalExtension("a", ["a.cpp", "b.metal"], extra_compile_args={"c": []}),
        lambda: MetalLibrary("a/b", ["b.metal"]),
        lambda: MetalLibrary("a", []),
        lambda: MetalLibrary("a", ["b.cpp"]),
    ):
        with pytest.raises(ValueError, match=r"^\[Metal(Extension|Library)\] "):
            wrong()


def test_cmake_says_what_it_lacks(tmp_path):
    folder = project(tmp_path / "a", "extension.CMakeExtension('other')", "CMakeBuild")
    done = attempt(sys.executable, "setup.py", "build_ext", cwd=folder)
    assert done.returncode and "expected a CMakeLists.txt in" in done.stderr
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(a LANGUAGES C)\nfind_package(MLX CONFIG REQUIRED)\n"
        "mlx_build_metallib(TARGET a)\n"
    )
    done = attempt(sys.executable, "setup.py", "build_ext", cwd=folder)
    assert done.returncode and "there is no Metal here" in done.stderr
    done = attempt(sys.executable, "setup.py", "build_ext", cwd=folder, PATH=str(tmp_path))
    assert done.returncode and "cmake is needed" in done.stderr


def test_setuptools_is_asked_for(tmp_path):
    (tmp_path / "setuptools.py").write_text("raise ImportError('not here')")
    place = os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])
    done = attempt(sys.executable, "-c", "import mlx.extension", cwd=tmp_path, PYTHONPATH=place)
    assert "[mlx.extension] setuptools is needed" in done.stderr
