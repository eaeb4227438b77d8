"""Element-wise loops, sums, matrix products and small graphs, beside NumPy, the vendored BLAS called
directly, and plain C loops."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
import scipy_openblas32
from timing import best, calls, row

HERE = Path(__file__).parent
THREADS = mx.device_info(mx.cpu)["threads"]
LEVEL = mx.device_info(mx.cpu)["device_name"]
MARCH = {
    "base": ["-march=x86-64-v2"],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mprefer-vector-width=512"],
}


def c_loops():
    out = Path(tempfile.mkdtemp()) / "loops.so"
    flags = ["-O3", *MARCH.get(LEVEL, []), "-shared", "-fPIC", "-pthread"]
    subprocess.run(["cc", *flags, str(HERE / "loops.c"), "-o", str(out)], check=True)
    lib = ctypes.CDLL(str(out))
    p, n, i = ctypes.POINTER(ctypes.c_float), ctypes.c_size_t, ctypes.c_int
    lib.loop_add.argtypes, lib.loop_scale.argtypes = [p, p, p, n, i], [p, p, n, i]
    lib.loop_take.argtypes = lib.loop_add.argtypes
    lib.loop_sum.argtypes, lib.loop_sum.restype = [p, n, i], ctypes.c_double
    return lib


def pointer(a):
    return a.ctypes.data_as(ctypes.POINTER(ctypes.c_float))


def large_arrays():
    n = 1 << 24
    a = np.random.default_rng(0).random(n, dtype=np.float32)
    x, out, c = mx.array(a), np.empty_like(a), c_loops()
    out[:] = 0
    t = best(
        {
            "ours": lambda: mx.eval(x + x),
            "NumPy": lambda: a + a,
            "NumPy out=": lambda: np.add(a, a, out=out),
            "C loop": lambda: c.loop_add(pointer(a), pointer(a), pointer(out), n, THREADS),
        }
    )
    row("add, 2^24 float32", t.pop("ours"), t, goal="(goal: NumPy 3x, C loop 0.8x)")
    t = best(
        {
            "ours": lambda: mx.eval(mx.exp(x)),
            "NumPy": lambda: np.exp(a),
            "NumPy out=": lambda: np.exp(a, out=out),
            "C copy": lambda: c.loop_scale(pointer(a), pointer(out), n, THREADS),
        }
    )
    row("exp, 2^24 float32", t.pop("ours"), t, goal="(goal: NumPy 3x, C copy 0.8x)")
    t = best(
        {
            "ours": lambda: mx.eval(mx.sum(x)),
            "NumPy": lambda: a.sum(),
            "C loop": lambda: c.loop_sum(pointer(a), n, THREADS),
        }
    )
    row("sum, 2^24 float32", t.pop("ours"), t, goal="(goal: C loop 0.8x)")
    m = 1 << 22
    index = np.random.default_rng(1).integers(0, 1024, m, dtype=np.int32)
    i, table = mx.array(index), x[:1024]
    t = best(
        {
            "ours": lambda: mx.eval(mx.take(table, i)),
            "NumPy": lambda: a[:1024][index],
            "C loop, no check": lambda: c.loop_take(pointer(a), pointer(index), pointer(out), m, THREADS),
        }
    )
    row("take, 2^22 of 1024 float32", t.pop("ours"), t, goal="(goal: C loop 0.95x)")


def products():
    lib = ctypes.CDLL(next(str(p) for p in Path(scipy_openblas32.get_lib_dir()).glob("libscipy_openblas*.so")))
    p, i, f = ctypes.POINTER(ctypes.c_float), ctypes.c_int, ctypes.c_float
    lib.scipy_cblas_sgemm.argtypes = [i, i, i, i, i, i, f, p, i, p, i, f, p, i]

    def gemm(a, b, c, n):
        lib.scipy_cblas_sgemm(101, 111, 111, n, n, n, 1.0, pointer(a), n, pointer(b), n, 0.0, pointer(c), n)

    def direct(f):  # our library pins the BLAS to one thread, so each turn says what it wants
        def run():
            lib.scipy_openblas_set_num_threads(THREADS)
            f()
            lib.scipy_openblas_set_num_threads(1)

        return run

    rng = np.random.default_rng(0)
    n = 2048
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    c, x, y = np.zeros_like(a), mx.array(a), mx.array(b)
    t = best({"ours": lambda: mx.eval(x @ y), "BLAS": direct(lambda: gemm(a, b, c, n))}, seconds=5, rest=0.1, turn=4)
    row("matmul, 2048^3 float32", t.pop("ours"), t, goal="(goal: 0.95x)")

    m, n = 64, 256
    a, b = (rng.random((m, n, n), dtype=np.float32) for _ in range(2))
    c, x, y = np.zeros_like(a), mx.array(a), mx.array(b)

    def batch():
        for k in range(m):
            gemm(a[k], b[k], c[k], n)

    t = best({"ours": lambda: mx.eval(x @ y), "BLAS": direct(batch)}, seconds=4, rest=0.1, turn=8)
    row("matmul, 64 x 256^3 float32", t.pop("ours"), t, goal="(goal: 0.95x)")


def small_graphs():
    a = np.arange(4, dtype=np.float32)
    x = mx.array(a)
    mx.eval(x)

    def chain():
        y = x
        for _ in range(1000):
            y = y + x
        mx.eval(y)

    t = best(
        {
            "numpy": calls(lambda: a + a, 10000),
            "build": calls(lambda: x + x, 10000),
            "eval": calls(lambda: mx.eval(x + x), 10000),
            "chain": calls(chain, 10),
        }
    )
    one = t["numpy"] / 10000
    print(f"{'NumPy add of 4 float32':<34} {one * 1e6:.3f} us")
    for name, what, goal in (
        ("build", "building x + x", 0.5),
        ("chain", "an op of a chain of 1,000", 1.5),
        ("eval", "mx.eval(x + x)", 4),
    ):
        each = t[name] / 10000
        print(f"{what:<34} {each * 1e6:.3f} us   {each / one:.2f}x NumPy's add   (goal: at most {goal}x)")


def lists():
    n = 100_000
    for what, values in (
        ("ints", list(range(n))),
        ("bools", [i % 3 == 0 for i in range(n)]),
        ("floats", [i / 7 for i in range(n)]),
        ("ints, 4 a row", [[i, 1, 2, 3] for i in range(n // 4)]),
    ):
        t = best({"ours": lambda v=values: mx.array(v), "NumPy": lambda v=values: np.array(v)})
        row(f"array of 100,000 {what}", t.pop("ours"), t, goal="(goal: 2x)")


def peak_memory():
    n = 1 << 24
    x = mx.ones((n,))
    mx.eval(x)
    y = x
    for _ in range(100):
        y = mx.sin(y + 1)
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(y)
    extra = (mx.get_peak_memory() - before) / (4 * n)
    print(
        f"{'chain of 100 ops on 64 MB':<34} {1 + extra:.2f} buffers at the peak, with the operand   (goal: at most 3)"
    )


if __name__ == "__main__":
    print(f"{THREADS} threads, {LEVEL} kernels")
    large_arrays()
    products()
    small_graphs()
    lists()
    peak_memory()
