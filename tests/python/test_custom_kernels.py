"""Kernels given as text: values against NumPy, what is refused, what the compiler says, and the folder of
what was compiled."""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DTYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
needs_compiler = pytest.mark.skipif(
    not shutil.which(os.environ.get("CC", "cc").split()[0]), reason="needs a C compiler"
)


@pytest.fixture(autouse=True)
def folder(tmp_path_factory, monkeypatch):
    """A folder for what is compiled, the same for all tests."""
    base = tmp_path_factory.getbasetemp() / "cache"
    base.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(base))
    return base / "mlx" / "cpu_kernels"


def made(source, inputs=("x",), outputs=("y",), name="k", **options):
    return mx.fast.cpu_kernel(name, list(inputs), list(outputs), source, **options)


def called(kernel, inputs, shape=None, dtype=None, grid=None, group=(64, 1, 1), **more):
    shape = inputs[0].shape if shape is None else shape
    dtype = inputs[0].dtype if dtype is None else dtype
    grid = (int(np.prod(shape)), 1, 1) if grid is None else grid
    return kernel(inputs=inputs, output_shapes=[shape], output_dtypes=[dtype], grid=grid, threadgroup=group, **more)[0]


def fresh(script, **environment):
    """What a new process prints."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    env = {**os.environ, "PYTHONPATH": path, **environment}
    env = {name: value for name, value in env.items() if value is not None}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=300)


INDEX = "size_t i = thread_position_in_grid.x;\n"
SQUARE = INDEX + "y[i] = x[i] * x[i];"
# What a process does that only makes and runs a kernel.
SCRIPT = """
import mlx.core as mx
k = mx.fast.cpu_kernel('k', ['x'], ['y'], 'y[thread_position_in_grid.x] = 3 * x[thread_position_in_grid.x];')
print(k(inputs=[mx.array([1.0, 2.0])], output_shapes=[(2,)], output_dtypes=[mx.float32], grid=(2, 1, 1),
        threadgroup=(1, 1, 1), verbose={verbose})[0].tolist())
"""


# ---- values


@needs_compiler
@pytest.mark.parametrize("n", [1, 63, 4096, 100_003])
def test_values_whatever_the_size(n):
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    y = called(made(SQUARE), [mx.array(x)])
    np.testing.assert_array_equal(np.array(y), x * x)


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES + FLOATS + ["bool_", "complex64"])
def test_every_dtype_goes_in_and_out(dtype):
    t = getattr(mx, dtype)
    x = mx.array([0, 1, 2, 100]).astype(t)
    k = made(INDEX + "T v = x[i]; y[i] = v; store(&z[i], load(&x[i]));", outputs=["y", "z"])
    y, z = k(
        inputs=[x],
        template=[("T", t)],
        output_shapes=[(4,), (4,)],
        output_dtypes=[t, t],
        grid=(4, 1, 1),
        threadgroup=(1, 1, 1),
    )
    assert y.dtype == z.dtype == t
    assert mx.array_equal(y, x) and mx.array_equal(z, x)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("options", ["", " -U__FLT16_MAX__"])
def test_every_half_converts_and_every_float_rounds(dtype, options, monkeypatch):
    """All 65,536 halves, and floats around each border, also with conversions in plain C."""
    monkeypatch.setenv("CC", os.environ.get("CC", "cc") + options)
    t = getattr(mx, dtype)
    h = mx.array(np.arange(1 << 16, dtype=np.uint16)).view(t)
    wide = called(made(INDEX + "y[i] = load(&x[i]);"), [h], dtype=mx.float32)
    np.testing.assert_array_equal(np.array(wide), np.array(h.astype(mx.float32)))
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    edges = np.array(h.astype(mx.float32)).view(np.uint32)
    edges = np.concatenate([edges + np.uint32(d) for d in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)])
    f = mx.array(np.concatenate([bits, edges]).view(np.float32))
    narrow, expected = called(made(INDEX + "store(&y[i], x[i]);"), [f], dtype=t), f.astype(t)
    number = ~np.isnan(np.array(f))
    np.testing.assert_array_equal(np.array(narrow.view(mx.uint16))[number], np.array(expected.view(mx.uint16))[number])
    assert np.isnan(np.array(narrow.astype(mx.float32))[~number]).all()


@needs_compiler
def test_grid_of_three_dimensions_runs_each_point_once():
    grid, group = (7, 5, 3), (4, 2, 2)
    source = """
        size_t i = thread_position_in_grid.x +
            threads_per_grid.x * (thread_position_in_grid.y + (size_t)threads_per_grid.y * thread_position_in_grid.z);
        y[i] += 1;
        place[i] = thread_position_in_threadgroup.x + 10 * thread_position_in_threadgroup.y +
            100 * thread_position_in_threadgroup.z;
        which[i] = threadgroup_position_in_grid.x + 10 * threadgroup_position_in_grid.y +
            100 * threadgroup_position_in_grid.z;
        index[i] = thread_index_in_threadgroup + 1000 * threads_per_threadgroup.y;
    """
    k = made(source, inputs=[], outputs=["y", "place", "which", "index"])
    shape = grid[::-1]
    y, place, which, index = k(
        inputs=[], output_shapes=[shape] * 4, output_dtypes=[mx.int32] * 4, grid=grid, threadgroup=group, init_value=2
    )
    z, j, i = np.indices(shape)
    assert (np.array(y) == 3).all()
    np.testing.assert_array_equal(np.array(place), i % 4 + 10 * (j % 2) + 100 * (z % 2))
    np.testing.assert_array_equal(np.array(which), i // 4 + 10 * (j // 2) + 100 * (z // 2))
    np.testing.assert_array_equal(np.array(index), i % 4 + 4 * (j % 2 + 2 * (z % 2)) + 2000)


@needs_compiler
def test_strides_of_inputs_that_are_not_copied():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a = mx.array(x).transpose(2, 0, 1)[:, ::-1]
    source = INDEX + "y[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)];"
    expected = x.transpose(2, 0, 1)[:, ::-1]
    np.testing.assert_array_equal(np.array(called(made(source, ensure_row_contiguous=False), [a])), expected)
    np.testing.assert_array_equal(np.array(called(made(source), [a])), expected)
    np.testing.assert_array_equal(np.array(called(made(SQUARE), [a])), expected**2)
    wide = mx.broadcast_to(mx.array([3.0]), (5,))
    seen = called(
        made("y[0] = x_strides[0]; y[1] = x_shape[0]; y[2] = x_ndim;", ensure_row_contiguous=False),
        [wide],
        shape=(3,),
        dtype=mx.int32,
        grid=(1, 1, 1),
    )
    assert seen.tolist() == [0, 5, 1]


@needs_compiler
def test_numbers_templates_header_and_several_outputs():
    source = INDEX + "y[i] = scaled(x[i]) + s[0] + N; z[i] = B ? x[i] : 0; w[i] = sizeof(T) + n[0];"
    k = mx.fast.cpu_kernel(
        name="several",
        input_names=["x", "s", "n"],
        output_names=["y", "z", "w"],
        source=source,
        header="static float scaled(float x) { return 10 * x; }",
    )
    x = mx.array([1.0, 2.0])
    out = k(
        inputs=[x, 0.5, 7],
        template=[("T", mx.complex64), ("N", -3), ("B", True)],
        output_shapes=[(2,)] * 3,
        output_dtypes=[mx.float32, mx.float32, mx.int32],
        grid=(2, 1, 1),
        threadgroup=(1, 1, 1),
    )
    assert isinstance(out, list)
    assert [y.tolist() for y in out] == [[7.5, 17.5], [1.0, 2.0], [15, 15]]
    other = k(
        inputs=[x, 0.5, 7],
        template=[("T", mx.uint8), ("N", 0), ("B", False)],
        output_shapes=[(2,)] * 3,
        output_dtypes=[mx.float32, mx.float32, mx.int32],
        grid=(2, 1, 1),
        threadgroup=(1, 1, 1),
    )
    assert [y.tolist() for y in other] == [[10.5, 20.5], [0.0, 0.0], [8, 8]]


@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES + FLOATS + ["complex64"])
def test_atomic_outputs(dtype):
    """Every point adds one to one of ten counts, from all threads."""
    t, n = getattr(mx, dtype), 1000
    k = made(INDEX + "fetch_add(&y[i % 10], 1);", inputs=[], atomic_outputs=True)
    y = k(inputs=[], output_shapes=[(10,)], output_dtypes=[t], grid=(n, 1, 1), threadgroup=(1, 1, 1), init_value=1)[0]
    expected = mx.array(n // 10 + 1).astype(t)
    assert mx.array_equal(y, mx.broadcast_to(expected, (10,)))


@needs_compiler
def test_atomic_outputs_on_many_threads():
    n = 400_000
    add = made(INDEX + "fetch_add(&y[i % 3], 1);", inputs=[], atomic_outputs=True)
    plain = made(INDEX + "y[i % 3] += 1;", inputs=[], atomic_outputs=True, name="plain")
    for k in (add, plain):
        y = k(
            inputs=[],
            output_shapes=[(3,)],
            output_dtypes=[mx.float32],
            grid=(n, 1, 1),
            threadgroup=(8, 1, 1),
            init_value=0,
        )[0]
        assert y.tolist() == [133334.0, 133333.0, 133333.0]


@needs_compiler
def test_init_value_and_points_that_return():
    source = INDEX + "if (i % 2) return;\ny[i] = x[i];"
    y = called(made(source), [mx.arange(6, dtype=mx.float32)], init_value=-1.5)
    assert y.tolist() == [0, -1.5, 2, -1.5, 4, -1.5]


@needs_compiler
@pytest.mark.parametrize("mode", ["safe", "relaxed", "fast"])
def test_modes_of_mathematics(mode):
    x = np.linspace(-5, 5, 1001, dtype=np.float32)
    k = made(INDEX + "y[i] = expf(x[i]);", compile_options={"math_mode": mode})
    np.testing.assert_allclose(np.array(called(k, [mx.array(x)])), np.exp(x.astype(np.float64)), rtol=1e-6)
    tiny = mx.array(np.array([1e-40], np.float32))  # denormal numbers stay what they are in this process
    assert (tiny * 0.5).item() > 0


@needs_compiler
def test_empty_outputs_and_empty_grids():
    k = made(SQUARE)
    assert called(k, [mx.zeros((0, 3))]).shape == (0, 3)
    assert called(k, [mx.array([2.0])], grid=(0, 1, 1), init_value=4.0).tolist() == [4.0]
    assert called(k, [mx.array([2.0])], grid=(2**31 - 1, 2**31 - 1, 0), init_value=4.0).tolist() == [4.0]


@needs_compiler
@pytest.mark.parametrize("level", ["base", "avx2", "avx512"])
def test_every_level_of_instructions(level):
    run = fresh(SCRIPT.format(verbose=False), MLX_CPU=level)
    assert run.stdout == "[3.0, 6.0]\n", run.stderr


# ---- transforms


@needs_compiler
def test_it_is_lazy_and_part_of_compiled_functions():
    bad = called(made("this is no C;"), [mx.ones(2)])
    assert bad.shape == (2,)
    k = made(SQUARE)

    @mx.compile
    def f(x):
        return called(k, [x + 1]) + 1

    for n in (3, 5):
        x = mx.arange(n, dtype=mx.float32)
        np.testing.assert_array_equal(np.array(f(x)), (np.arange(n) + 1.0) ** 2 + 1)


@needs_compiler
def test_derivatives_and_batches_are_for_a_custom_function():
    k, d = made(SQUARE), made(INDEX + "y[i] = 2 * x[i];")
    x = mx.array([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="k has no derivative: a custom_function"):
        mx.grad(lambda x: called(k, [x]).sum())(x)
    with pytest.raises(ValueError, match="has no derivative"):
        mx.jvp(lambda x: called(k, [x]), [x], [x])
    with pytest.raises(ValueError, match="CPUKernel has no vmap rule"):
        mx.vmap(lambda x: called(k, [x]))(mx.ones((2, 3)))

    @mx.custom_function
    def square(x):
        return called(k, [x])

    @square.vjp
    def square_vjp(x, ct, y):
        return called(d, [x]) * ct

    @square.vmap
    def square_vmap(x, axis):
        return called(k, [x]), axis

    assert mx.grad(lambda x: square(x).sum())(x).tolist() == [2, 4, 6]
    assert mx.vmap(square)(mx.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[1, 4], [9, 16]]


@needs_compiler
def test_it_cannot_be_exported(tmp_path):
    k = made(SQUARE)
    for portable in (True, False):
        with pytest.raises(ValueError, match=r"^\[export_function\].*CPUKernel: a kernel cannot be exported$"):
            mx.export_function(str(tmp_path / "f.mlxfn"), lambda x: called(k, [x]), mx.ones(2), portable=portable)
    # what depends on no input is a constant
    mx.export_function(str(tmp_path / "f.mlxfn"), lambda x: x + called(k, [mx.array([3.0, 4.0])]), mx.ones(2))
    assert mx.import_function(str(tmp_path / "f.mlxfn"))(mx.ones(2))[0].tolist() == [10, 17]


# ---- what is refused

NAMES = ["", "1k", "a b", "a-b", "a;b", "é", "a\nb", 'a"b', "n" * 256]


@pytest.mark.parametrize("make", ["cpu_kernel", "metal_kernel", "cuda_kernel"])
def test_names_are_identifiers(make):
    make = getattr(mx.fast, make)
    for name in NAMES:
        for arguments in [(name, ["x"], ["y"]), ("k", [name], ["y"]), ("k", ["x"], [name])]:
            with pytest.raises(ValueError, match=r"^\[\w+_kernel\] expected .* an identifier"):
                make(*arguments, "")
    with pytest.raises(ValueError, match='different names, got "x" twice'):
        make("k", ["x", "z"], ["y", "x"], "")
    with pytest.raises(ValueError, match="at least one output"):
        make("k", ["x"], [], "")
    with pytest.raises(ValueError, match="null"):
        make("k", ["x\0"], ["y"], "")
    for wrong in [("k", "x", ["y"], ""), ("k", [1], ["y"], ""), (1, ["x"], ["y"], ""), ("k", ["x"], ["y"], b"")]:
        with pytest.raises(TypeError):
            make(*wrong)


@pytest.mark.parametrize(
    "name", ["int", "while", "bool", "_Generic", "__x", "float32", "load", "NULL", "thread_position_in_grid"]
)
def test_names_that_mean_something_in_c(name):
    with pytest.raises(ValueError, match="to mean nothing in C"):
        made("", inputs=[name])
    with pytest.raises(ValueError, match="to mean nothing in C"):
        called(made(SQUARE), [mx.ones(2)], template=[(name, 1)])


@needs_compiler
@pytest.mark.parametrize("name", ["INFINITY", "M_PI", "EDOM"])
def test_names_of_macros_of_the_library(name):
    header = "#include <errno.h>\n"
    with pytest.raises(RuntimeError, match=f"the name {name} of the kernel k is that of a macro"):
        mx.eval(called(made("", inputs=[name], header=header), [mx.ones(2)]))
    if name != "EDOM":
        with pytest.raises(RuntimeError, match=f"the name {name} of the kernel k is that of a macro"):
            mx.eval(called(made(SQUARE), [mx.ones(2)], template=[(name, 1)]))


CALLS = [
    (ValueError, "expected 1 input for k, got 2", {"inputs": [mx.ones(2), mx.ones(2)]}),
    (
        ValueError,
        "expected the shape and dtype of 1 output for k, got 2",
        {"output_shapes": [(2,)] * 2, "output_dtypes": [mx.float32] * 2},
    ),
    (ValueError, "a dtype for each of 2 shapes, got 1", {"output_shapes": [(2,)] * 2}),
    (ValueError, "without negative sizes", {"grid": (-1, 1, 1)}),
    (ValueError, "less than 2\\^63 points", {"grid": (2**31 - 1,) * 3}),
    (ValueError, "32 bits", {"grid": (2**31, 1, 1)}),
    (ValueError, "three sizes for 'grid', got 2", {"grid": (1, 1)}),
    (TypeError, "three ints", {"grid": 4}),
    (ValueError, "positive sizes, got \\(0,1,1\\)", {"threadgroup": (0, 1, 1)}),
    (ValueError, "sizes of 0 or more, got -2", {"output_shapes": [(-2,)]}),
    (ValueError, "sizes whose product fits 63 bits", {"output_shapes": [(2**31 - 1,) * 4]}),
    (TypeError, "Dtypes", {"output_dtypes": ["float32"]}),
    (TypeError, "shapes", {"output_shapes": [2]}),
    (TypeError, "arrays and numbers", {"inputs": ["a"]}),
    (TypeError, "arrays and numbers", {"inputs": mx.ones(2)}),
    (ValueError, 'different names, got "N" twice', {"template": [("N", 1), ("N", 2)]}),
    (ValueError, 'another name than an input or output of k, got "x"', {"template": [("x", 1)]}),
    (ValueError, "identifier", {"template": [("a b", 1)]}),
    (ValueError, "32 bits", {"template": [("N", 2**40)]}),
    (TypeError, "ints, bools and Dtypes", {"template": [("N", 1.5)]}),
    (TypeError, "pairs", {"template": ["N"]}),
    (TypeError, "pairs", {"template": [("N", 1, 2)]}),
    (TypeError, "number", {"init_value": "a"}),
]


@pytest.mark.parametrize("make", ["cpu_kernel", "metal_kernel"])
def test_calls_that_do_not_fit(make):
    kernel = getattr(mx.fast, make)("k", ["x"], ["y"], SQUARE)
    good = {
        "inputs": [mx.ones(2)],
        "output_shapes": [(2,)],
        "output_dtypes": [mx.float32],
        "grid": (2, 1, 1),
        "threadgroup": (1, 1, 1),
    }
    for error, text, change in CALLS:
        with pytest.raises(error, match=text) as raised:
            kernel(**{**good, **change})
        assert str(raised.value).startswith((f"[{make}]", f"{make}()")), raised.value
    for name in good:
        with pytest.raises(TypeError, match=f"missing 1 required keyword-only argument: '{name}'"):
            kernel(**{key: value for key, value in good.items() if key != name})
    with pytest.raises(TypeError, match="positional"):
        kernel([mx.ones(2)], **good)


def test_metal_kernels_are_made_but_not_run_and_cuda_kernels_not_made():
    good = {
        "inputs": [mx.ones(2)],
        "output_shapes": [(2,)],
        "output_dtypes": [mx.float32],
        "grid": (2, 1, 1),
        "threadgroup": (1, 1, 1),
    }
    options = {"math_mode": "fast"}
    metal = mx.fast.metal_kernel(name="k", input_names=["x"], output_names=["y"], source="", compile_options=options)
    with pytest.raises(RuntimeError, match=r"^\[metal_kernel\] cannot run k: there is no Metal in this build$"):
        metal(**good)
    if not mx.is_available(mx.gpu):  # else test_gpu_kernels.py
        with pytest.raises(
            RuntimeError,
            match=r"^\[cuda_kernel\] expected a kernel in C, those for CUDA are not run without an NVIDIA GPU$",
        ):
            mx.fast.cuda_kernel(name="k", input_names=["x"], output_names=["y"], source="", shared_memory=1024)
    assert np.array(good["inputs"][0]).sum() == 2
    with pytest.raises(ValueError, match="0 bytes or more, got -1"):
        mx.fast.cuda_kernel("k", ["x"], ["y"], "", shared_memory=-1)
    for make in (mx.fast.metal_kernel, mx.fast.cpu_kernel):
        with pytest.raises(ValueError, match="math_mode to be 'safe', 'relaxed' or 'fast', got 'slow'"):
            make("k", ["x"], ["y"], "", compile_options={"math_mode": "slow"})
        with pytest.raises(ValueError, match="got 'speed'"):
            make("k", ["x"], ["y"], "", compile_options={"speed": 1})
        with pytest.raises(TypeError, match="dict"):
            make("k", ["x"], ["y"], "", compile_options=3)


def test_precompiled_cuda_kernel():
    good = {
        "name": "k",
        "compiled_source": b"ptx",
        "inputs": [mx.ones(2), 1.0],
        "output_shapes": [(2,)],
        "output_dtypes": [mx.float32],
        "scalars": [1, 2.0, True],
        "grid": (2, 1, 1),
        "threadgroup": (1, 1, 1),
    }
    if not mx.is_available(mx.gpu):
        with pytest.raises(
            RuntimeError, match=r"^\[precompiled_cuda_kernel\] cannot run k: kernels for CUDA are not run without"
        ):
            mx.fast.precompiled_cuda_kernel(**good)
    for error, change in [
        (TypeError, {"compiled_source": "ptx"}),
        (TypeError, {"scalars": ["a"]}),
        (ValueError, {"grid": (1, 2)}),
        (ValueError, {"output_dtypes": []}),
        (TypeError, {"inputs": [object()]}),
        (ValueError, {"threadgroup": (0, 1, 1)}),
    ]:
        with pytest.raises(error, match=r"^\W?precompiled_cuda_kernel"):
            mx.fast.precompiled_cuda_kernel(**{**good, **change})


# ---- the compiler


@needs_compiler
def test_errors_have_the_lines_of_the_source():
    with pytest.raises(
        RuntimeError, match=r"(?s)^\[cpu_kernel\] wrong: the compiler .*<wrong source>:3:\d+: error:"
    ) as e:
        mx.eval(called(made("\n\ny[0] = nothing;", name="wrong"), [mx.ones(2)]))
    assert "nothing" in str(e.value)
    with pytest.raises(RuntimeError, match=r"<wrong header>:2:\d+: error:"):
        mx.eval(called(made(SQUARE, name="wrong", header="int a;\nint b = c;"), [mx.ones(2)]))
    with pytest.raises(RuntimeError, match="no_such_function"):
        mx.eval(called(made("y[0] = no_such_function(x[0]);"), [mx.ones(2)]))
    with pytest.raises(RuntimeError, match="cannot load the compiled kernel.*elsewhere"):
        mx.eval(called(made("y[0] = elsewhere(x[0]);", header="float elsewhere(float);"), [mx.ones(2)]))


@needs_compiler
@pytest.mark.parametrize(
    "source", ["y[0] = 1; /* no end", "y[0] = 1; }", "y[0] = 1; {", 'y[0] = "', "#error no", "#if 1", "\\", "// y \\"]
)
def test_sources_that_are_cut_off(source):
    """Either an error of the compiler's or, where C sees nothing wrong, a kernel."""
    try:
        mx.eval(called(made(source), [mx.ones(2)], init_value=0))
    except RuntimeError as error:
        assert "refused the kernel" in str(error)


@needs_compiler
def test_a_failure_is_not_for_ever(monkeypatch):
    k = made(INDEX + "y[i] = 17 * x[i];")
    monkeypatch.setenv("CC", "/nowhere/cc -g")
    with pytest.raises(RuntimeError, match=r'k: cannot run the C compiler "/nowhere/cc": No such file'):
        mx.eval(called(k, [mx.ones(2)]))
    monkeypatch.undo()
    assert called(k, [mx.ones(2)]).tolist() == [17, 17]


def test_a_compiler_that_does_nothing(monkeypatch):
    monkeypatch.setenv("CC", "true")
    with pytest.raises(RuntimeError, match="it said nothing"):
        mx.eval(called(made(INDEX + "y[i] = 18 * x[i];"), [mx.ones(2)]))
    monkeypatch.setenv("CC", "false")
    with pytest.raises(RuntimeError, match="it said nothing"):
        mx.eval(called(made(INDEX + "y[i] = 18 * x[i];"), [mx.ones(2)]))


@needs_compiler
def test_verbose_prints_the_program(capfd):
    mx.eval(called(made(SQUARE, name="loud"), [mx.ones(2)], verbose=True))
    out = capfd.readouterr().out
    assert "void __mlx_kernel_loud(" in out and SQUARE in out and "/* flags: " in out and "cpu_kernels/" in out


@needs_compiler
def test_a_kernel_that_runs_for_ever_can_be_stopped():
    script = """
import os, signal, threading, mlx.core as mx
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background comes without
k = mx.fast.cpu_kernel('k', ['x'], ['y'], 'volatile int n = 0; while (n < 1000) n++; y[0] = n;')
y = k(inputs=[1.0], output_shapes=[(1,)], output_dtypes=[mx.float32], grid=(2**31 - 1, 2**20, 1), threadgroup=(1, 1, 1))
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    mx.eval(y)
except KeyboardInterrupt:
    print('stopped')
"""
    assert fresh(script).stdout == "stopped\n"


def compilers_of(folder):
    found = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found += [process] if str(folder).encode() in process.read_bytes() else []
    return found


@needs_compiler
def test_a_compilation_that_takes_for_ever_can_be_stopped(tmp_path):
    tens = "\\n".join(f"#define T{i} {f'T{i - 1} ' * 10}" for i in range(1, 9))
    script = f"""
import os, signal, threading, time, mlx.core as mx
signal.signal(signal.SIGINT, signal.default_int_handler)
k = mx.fast.cpu_kernel('k', ['x'], ['y'], 'y[0] = 0; T8', header='#define T0 y[0] += 1;\\n{tens}')
y = k(inputs=[1.0], output_shapes=[(1,)], output_dtypes=[mx.float32], grid=(1, 1, 1), threadgroup=(1, 1, 1))
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    mx.eval(y)
except KeyboardInterrupt:
    mx.synchronize()
    print('stopped')
"""
    done = fresh(script, XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout == "stopped\n", done.stderr
    assert os.listdir(tmp_path / "mlx" / "cpu_kernels") == []
    end = time.monotonic() + 30  # one that was killed may take a moment to give its memory back
    while compilers_of(tmp_path) and time.monotonic() < end:
        time.sleep(0.1)
    assert not compilers_of(tmp_path)


@needs_compiler
def test_many_operands_and_results():
    names = [f"a{i}" for i in range(200)]
    many = made("y[0] = " + " + ".join(f"{name}[0]" for name in names) + ";", inputs=names)
    y = called(many, list(range(200)), shape=(1,), dtype=mx.int32, grid=(1, 1, 1))
    assert y.tolist() == [sum(range(200))]
    many = made("".join(f"{name}[0] = {i};" for i, name in enumerate(names)), outputs=names)
    y = many(
        inputs=[1.0],
        output_shapes=[()] * 200,
        output_dtypes=[mx.int32] * 200,
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
    )
    assert [one.item() for one in y] == list(range(200))


@needs_compiler
def test_functions_compiled_for_any_shape():
    k = made(SQUARE)
    f = mx.compile(lambda x: called(k, [x]) + 1, shapeless=True)
    for n in (2, 5, 3):
        assert f(mx.full(n, 3.0)).tolist() == [10.0] * n


# ---- the folder


@needs_compiler
def test_the_folder_is_private_and_is_used(folder, tmp_path):
    run = [fresh(SCRIPT.format(verbose=True), XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    assert all(r.stdout.endswith("[3.0, 6.0]\n") for r in run), run
    assert "compiled, kept in" in run[0].stdout and "loaded from" in run[1].stdout
    folder = tmp_path / "mlx" / "cpu_kernels"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    files = list(folder.iterdir())
    assert len(files) == 1 and re.fullmatch(r"[0-9a-f]{32}\.so", files[0].name)
    assert stat.S_IMODE(files[0].stat().st_mode) & 0o77 == 0
    whole = files[0].read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"x" * 100_000, whole[:5000] + b"!" + whole[5001:]):
        files[0].write_bytes(broken)
        again = fresh(SCRIPT.format(verbose=True), XDG_CACHE_HOME=str(tmp_path))
        assert "compiled, kept in" in again.stdout and again.stdout.endswith("[3.0, 6.0]\n"), again
    files[0].unlink()
    os.mkfifo(files[0])  # whose reader would wait for ever
    files[0].chmod(0o700)
    again = fresh(SCRIPT.format(verbose=True), XDG_CACHE_HOME=str(tmp_path))
    assert "compiled, kept in" in again.stdout and again.stdout.endswith("[3.0, 6.0]\n"), again
    files[0].chmod(0o722)
    assert "compiled, kept in" in fresh(SCRIPT.format(verbose=True), XDG_CACHE_HOME=str(tmp_path)).stdout
    assert [file.name for file in folder.iterdir()] == [files[0].name]


@needs_compiler
@pytest.mark.parametrize("why", ["open to others", "a link", "a file", "a relative path", "nowhere"])
def test_without_a_folder_kernels_are_compiled_each_time(why, tmp_path):
    base, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    folder = base / "mlx" / "cpu_kernels"
    environment = {"XDG_CACHE_HOME": str(base), "TMPDIR": str(temporary)}
    if why == "open to others":
        folder.mkdir(parents=True)
        folder.chmod(0o770)
    elif why == "a link":
        (tmp_path / "private").mkdir(mode=0o700)
        folder.parent.mkdir(parents=True)
        folder.symlink_to(tmp_path / "private")
    elif why == "a file":
        folder.parent.mkdir(parents=True)
        folder.write_text("")
    elif why == "a relative path":  # which means nothing, and HOME is no folder
        environment.update(XDG_CACHE_HOME="cache", HOME="/dev/null")
    else:
        environment.update(XDG_CACHE_HOME="/proc/nothing")
    for _ in range(2):
        run = fresh(SCRIPT.format(verbose=True), **environment)
        assert run.stdout.endswith("[3.0, 6.0]\n") and "/* k: compiled */" in run.stdout, run
    assert not list(temporary.iterdir())
    if why == "open to others":
        assert not list(folder.iterdir())


@needs_compiler
def test_nowhere_to_compile():
    run = fresh(SCRIPT.format(verbose=False), XDG_CACHE_HOME="/proc/nothing", TMPDIR="/proc/nothing")
    assert "[cpu_kernel] k: cannot make a folder to compile in, /proc/nothing" in run.stderr


@needs_compiler
def test_processes_that_compile_the_same(tmp_path):
    path = os.pathsep.join(entry for entry in sys.path if entry)
    env = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path)}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", SCRIPT.format(verbose=False)], env=env, text=True, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    assert [run.communicate()[0] for run in runs] == ["[3.0, 6.0]\n"] * 4
    assert len(list((tmp_path / "mlx" / "cpu_kernels").iterdir())) == 1


@needs_compiler
@pytest.mark.parametrize("source, good", [("y[i] = 19 * x[i];", True), ("y[i] = nonsense;", False)])
def test_threads_that_compile_the_same(source, good):
    results, barrier = [], threading.Barrier(4)

    def work():
        stream = mx.new_stream(mx.cpu)
        barrier.wait()
        try:
            y = called(made(INDEX + source), [mx.ones(2)], stream=stream)
            mx.eval(y)
            results.append(y.tolist())
        except RuntimeError as error:
            results.append("refused the kernel" in str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[19, 19] if good else True] * 4


@needs_compiler
def test_programs_that_ignore_their_children():
    """The status of the compiler is not to be had then."""
    head = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    assert fresh(head + SCRIPT.format(verbose=False), XDG_CACHE_HOME="/proc/x").stdout == "[3.0, 6.0]\n"
    run = fresh(head + SCRIPT.format(verbose=False).replace("y[", "!"), XDG_CACHE_HOME="/proc/x")
    assert "refused the kernel" in run.stderr


@needs_compiler
def test_children_of_a_program_with_kernels():
    script = (
        SCRIPT.format(verbose=False)
        + """
import os, sys
sys.stdout.flush() # or the child prints it too
def child():
    y = k(inputs=[mx.array([5.0])], output_shapes=[(1,)], output_dtypes=[mx.float16], grid=(1, 1, 1),
          threadgroup=(1, 1, 1), init_value=0)
    try:
        mx.eval(y)
    except RuntimeError as error: # a half takes no float
        print('refused' in str(error), flush=True)
    os._exit(0)
pid = os.fork()
if pid == 0:
    child()
os.waitpid(pid, 0)
"""
    )
    run = fresh(script)
    assert run.stdout == "[3.0, 6.0]\nTrue\n", run


# ---- the document


@needs_compiler
def test_the_example_of_the_document():
    text = (ROOT / "docs" / "custom_kernels.md").read_text()
    script = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    run = fresh(script)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == re.findall(r"^print.*  # (.*)$", script, re.M)
