"""Kernels of their own for element-wise programs that run often (src/cuda/specialize.c), beside the interpreter of
programs; skipped where there is no GPU, or no NVRTC. On the emulated driver the host's compiler makes them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

EMULATED = mx.is_available(mx.gpu) and mx.device_info(mx.gpu)["device_name"] == "emulated"
FOLDER = Path(os.environ.get("LD_LIBRARY_PATH", "").split(":")[0], "libraries").resolve()
if EMULATED:
    os.environ["MLX_CUDA_LIBRARIES"] = str(FOLDER)
pytestmark = pytest.mark.skipif(
    not mx.is_available(mx.gpu) or mx.cuda.libraries()["nvrtc"] is None, reason="needs an NVIDIA GPU and NVRTC"
)

BEGIN = """
import ctypes, json, os, sys, time
import mlx.core as mx
import numpy as np

def counts():
    facts = mx.device_info(mx.gpu)
    return facts["specialized_kernels"], facts["kernels_to_specialize"]

def finished(n):
    end = time.monotonic() + 100
    while counts() != (n, 0):
        assert time.monotonic() < end, counts()
        time.sleep(0.01)

def gelu(x):
    return x * (1 + mx.erf(x * 0.7)) * 0.5

def bits(x):  # of NaNs it does not say which
    with mx.stream(mx.cpu):
        if mx.issubdtype(x.dtype, mx.floating):
            x = mx.where(mx.isnan(x), mx.array(float("nan"), x.dtype), x)
    return hash(np.array(x.view(mx.uint8)).tobytes())

x = mx.random.normal((70_001,), key=mx.random.key(1), stream=mx.cpu)
mx.eval(x)
"""


def run(code, tmp_path, **around):
    """What a process prints as JSON, and what it says besides."""
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONHASHSEED": "0", **around}
    env["MLX_DEFAULT_DEVICE"] = "gpu"
    command = [sys.executable, "-W", "ignore", "-c", BEGIN + code]  # Python 3.12 warns of forks beside threads
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_small_programs_that_run_very_often(tmp_path):
    """They get kernels too, with the interpreter's bits."""
    code = """
few = x[:1001]
first = bits(gelu(few))
for i in range(100):
    mx.eval(mx.compile(gelu)(few))
finished(1)
print(json.dumps([first, bits(mx.compile(gelu)(few)), counts()]))
"""
    (first, then, counted), _ = run(code, tmp_path)
    assert first == then and counted == [1, 0]


# Every operation of groups on every type, all results held, in groups of a few outputs; by name.
EVERY = """
sizes = (3 * 8192 + 5, 515) if mx.device_info(mx.gpu)["device_name"] == "emulated" else (3_000_005, 100_003)
r = np.random.default_rng(1)
results, programs = {}, 0

def bound(x):
    with mx.stream(mx.cpu):
        x = mx.contiguous(x)
        mx.eval(x)
    return x

def operand(dtype, n):
    raw = mx.array(r.standard_normal(n).astype(np.float32) * 5, dtype=mx.float32)
    with mx.stream(mx.cpu):
        x = raw > 0 if dtype == mx.bool_ else (mx.abs(raw * 9) if dtype in UNSIGNED else raw).astype(dtype)
        if dtype in FLOATS:
            special = mx.array([0.0, -0.0, 1, -1, float("inf"), float("-inf"), float("nan"), 1e-40, 6e-8, 3e38])
            x = mx.concatenate([special.astype(dtype), x])[:n]
        mx.eval(x)
    return x

def keep(name, fs):
    # One group: all are made of what `fs` begins with.
    global programs
    programs += 1
    ys = fs()
    mx.eval(ys)
    for i, y in enumerate(ys):
        results[f"{name} {i}"] = bits(y)

def in_groups(name, base, fs):
    for i in range(0, len(fs), 12):
        keep(f"{name} {i}", lambda: (lambda b: [f(b) for f in fs[i:i + 12]])(base()))

FLOATS = [mx.float32, mx.float16, mx.bfloat16]
UNSIGNED = [mx.uint32, mx.uint16, mx.uint8]
ALL = [*FLOATS, *UNSIGNED, mx.int32, mx.int16, mx.int8, mx.bool_]
REAL = [mx.abs, mx.sign, mx.square, mx.floor, mx.ceil, mx.trunc, mx.negative, mx.logical_not]
INEXACT = [mx.sqrt, mx.rsqrt, mx.exp, mx.expm1, mx.log, mx.log2, mx.log10, mx.log1p, mx.sin, mx.cos, mx.tan, mx.arcsin,
           mx.arccos, mx.arctan, mx.sinh, mx.cosh, mx.tanh, mx.arcsinh, mx.arccosh, mx.arctanh, mx.erf, mx.erfinv,
           mx.sigmoid, mx.round]
ANY = [mx.add, mx.multiply, mx.subtract, mx.maximum, mx.minimum, mx.equal, mx.not_equal, mx.less, mx.less_equal,
       mx.greater, mx.greater_equal, mx.floor_divide, mx.remainder, mx.power]
PAIRED = [mx.divide, mx.logaddexp, mx.arctan2, mx.hypot, mx.copysign]
WHOLE = [mx.bitwise_and, mx.bitwise_or, mx.bitwise_xor, mx.left_shift, mx.right_shift]
LOGICAL = [mx.logical_and, mx.logical_or, mx.logical_xor, mx.bitwise_and, mx.bitwise_or, mx.bitwise_xor, mx.maximum,
           mx.minimum, mx.equal, mx.not_equal, mx.less, mx.less_equal]
"""

OPERATIONS = (
    EVERY
    + """
for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.uint32, mx.bool_):
    x, y = operand(dtype, sizes[0]), operand(dtype, sizes[0])
    z = bound(y[7:8])
    one = [mx.logical_not, mx.abs, mx.sign] if dtype == mx.bool_ else REAL + (INEXACT if dtype in FLOATS else [])
    two = LOGICAL if dtype == mx.bool_ else ANY + (PAIRED if dtype in FLOATS else WHOLE)
    base = (lambda: x & x) if dtype == mx.bool_ else (lambda: mx.maximum(x, x))
    in_groups(f"{dtype} of one", base, one)
    in_groups(f"{dtype} of two", base, [lambda b, f=f: f(b, y) for f in two])
    if dtype in FLOATS:
        in_groups(f"{dtype} and one value", base, [lambda b, f=f: f(b, z) for f in ANY[:11] + PAIRED[:1]])
        for i in (1, 3, 5, 8, 9):  # a power of two, infinity, NaN, numbers near the ends: what is divided by
            d = bound(y[i:i + 1]) if i != 8 else bound(mx.abs(y[i:i + 1]))
            in_groups(f"{dtype} over {i}", base, [lambda b: b / d])
        in_groups(f"{dtype} and one before", base, [lambda b, f=f: f(z, b) for f in ANY[:11] + PAIRED[:1]])
print(json.dumps([results, programs, counts()]))
"""
)

CASTS = (
    EVERY
    + """
for dtype in ALL:
    x, y = operand(dtype, sizes[0]), operand(dtype, sizes[0])
    base = lambda: mx.where(x != y, x, y)
    in_groups(f"{dtype} as", base, [lambda b, t=t: b.astype(t) for t in ALL if t != dtype])
print(json.dumps([results, programs, counts()]))
"""
)

LAYOUTS = (
    EVERY
    + """
def f(a, b, c):
    s = mx.where(a > b, a, c)
    return [mx.maximum(s, b), s == c]

for dtype in (mx.float32, mx.bfloat16, mx.uint8):
    for n, width in ((sizes[0], 56), (sizes[0], 51), (sizes[1], 52)):
        x, row, column = operand(dtype, n // 56 * 56).reshape(-1, 56), operand(dtype, 56), operand(dtype, n // 56)
        a, b, c = x[:, :width], row[:width], column[:, None]
        keep(f"{dtype} {n} {width}", lambda: f(a, b, c))
        keep(f"{dtype} {n} {width} turned", lambda: f(a.T, c.T, b[:, None]))
        keep(f"{dtype} {n} {width} back", lambda: f(a[::-1], b[::-1], a[:, :1]))
keep("many operands", lambda: (lambda s: [s])(sum(operand(mx.float16, sizes[0]) for _ in range(20))))
print(json.dumps([results, programs, counts()]))
"""
)


@pytest.mark.parametrize("code, least", [(OPERATIONS, 27), (CASTS, 10), (LAYOUTS, 12)])
def test_the_same_bits_as_the_interpreter(code, least, tmp_path):
    (want, programs, made), _ = run(code, tmp_path, MLX_SPECIALIZE="0")
    assert made == [0, 0] and programs >= least
    (got, _, made), said = run(code, tmp_path, MLX_SPECIALIZE="now", MLX_LOG="libraries")
    assert made[0] >= least and made[1] == 0, (made, programs, said)
    assert "not used" not in said
    assert {name for name in want if got[name] != want[name]} == set()


LATER = """
first = [bits(gelu(x)) for _ in range(3)]
finished(1)
print(json.dumps([first, bits(gelu(x)), counts()]))
"""


def test_the_third_launch_has_it_compiled(tmp_path):
    (first, then, made), _ = run(LATER, tmp_path)
    assert {*first, then} == {then} and made == [1, 0]
    (file,) = (tmp_path / "mlx" / "cuda_kernels").iterdir()
    text = file.read_bytes()
    assert b"ONE(v2, erf_f32, v1, float32)\n" in text or b"ONE(v1, erf_f32, v0, float32)\n" in text


@pytest.mark.skipif(not EMULATED, reason="counts what the emulated compiler does")
def test_another_process_finds_it(tmp_path):
    compiled = f"""
    print(json.dumps(ctypes.c_int.in_dll(ctypes.CDLL({str(FOLDER / "libnvrtc.so.12")!r}), "emulated_compiled").value))
    """.strip()
    assert run(LATER + compiled, tmp_path)[0] == 2  # and a first one that is nobody's
    assert run(LATER + compiled, tmp_path)[0] == 0
    (file,) = (tmp_path / "mlx" / "cuda_kernels").iterdir()
    file.write_bytes(file.read_bytes()[:-9] + b"\0" * 9)
    assert run(LATER + compiled, tmp_path)[0] == 2
    assert run(LATER + compiled, tmp_path, MLX_KERNEL_CACHE="0")[0] == 2


SEVERAL = """
for _ in range(5):
    y = bits(gelu(x))
print(json.dumps([y, counts()]))
"""


def test_it_can_be_turned_off(tmp_path):
    y, made = run(SEVERAL, tmp_path, MLX_SPECIALIZE="0")[0]
    assert made == [0, 0]
    assert run("print(json.dumps(bits(gelu(x))))", tmp_path, MLX_SPECIALIZE="now")[0] == y
    _, said = run(SEVERAL, tmp_path, MLX_SPECIALIZE="of course")
    assert "[MLX_SPECIALIZE] expected 0, 1 or now, got of course; it is ignored" in said


def test_it_is_launched_in_graphs(tmp_path):
    code = """
w = mx.ones((3, 3))
for _ in range(4):
    y = x
    for _ in range(12):
        y = gelu(y + 1)
        w = w @ w * 0.1
        y = y + mx.sum(y)
    mx.eval(y, w)
print(json.dumps([bits(y), counts()]))
"""
    want, made = run(code, tmp_path, MLX_SPECIALIZE="0")[0]
    assert made == [0, 0]
    have, made = run(code, tmp_path, MLX_SPECIALIZE="now")[0]
    assert made[0] > 0 and have == want


def test_without_the_compiler(tmp_path):
    code = "for _ in range(5):\n    y = bits(gelu(x))\nfinished(0)\nprint(json.dumps(y))"
    want = run("print(json.dumps(bits(gelu(x))))", tmp_path)[0]
    assert run(code, tmp_path, MLX_CUDA_LIBRARIES="0")[0] == want


@pytest.mark.skipif(not EMULATED, reason="asks the emulated compiler to fail")
def test_a_compiler_that_fails(tmp_path):
    code = """
for f in (gelu, lambda x: gelu(x) + 1):
    for _ in range(5):
        y = bits(f(x))
finished(0)
print(json.dumps(y))
"""
    want = run("print(json.dumps(bits(gelu(x) + 1)))", tmp_path)[0]
    got, said = run(code, tmp_path, PRETEND_NVRTC="refuses", MLX_LOG="libraries")
    assert got == want
    assert len(re.findall(r"mlx: nvrtc is not used for an element-wise program on GPU 0: \[cuda\]", said)) == 1
    assert run(code, tmp_path, PRETEND_NVRTC="refuses")[1] == ""


def test_what_is_small_or_rare_is_not_compiled(tmp_path):
    code = """
y = mx.contiguous(x[:60_000], stream=mx.cpu)
mx.eval(y)
for _ in range(10):
    mx.eval(gelu(y))
for f in (mx.sin, mx.cos, mx.tan):
    for _ in range(2):
        mx.eval(f(x) * x)
print(json.dumps(counts()))
"""
    assert run(code, tmp_path)[0] == [0, 0] and not list(tmp_path.iterdir())


@pytest.mark.parametrize("seconds", [0, 0.02, 0.1, 0.2, 0.3])
def test_the_process_may_end_meanwhile(seconds, tmp_path):
    """Before anything that the compiler registers to be done at exit while it works."""
    code = f"""
for _ in range(3):
    mx.eval(gelu(x), mx.sin(x) * 2 + x, mx.cos(x) * 3 - x)
time.sleep({seconds})
print(json.dumps(0))
"""
    assert run(code, tmp_path) == (0, "")


def test_forking_meanwhile(tmp_path):
    code = """
for _ in range(3):
    mx.eval(gelu(x), mx.sin(x) * 2 + x)
pid = os.fork()
if not pid:
    sys.exit(int(mx.sum(mx.ones(4, stream=mx.cpu), stream=mx.cpu).item()))
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
finished(2)
print(json.dumps(bits(gelu(x)) == bits(gelu(x))))
"""
    assert run(code, tmp_path) == (True, "")


def test_threads(tmp_path):
    code = """
import threading
want = [bits(gelu(x * i)) for i in range(1, 5)]
wrong = []
def work(i):
    for _ in range(6):
        for k in range(4):
            if bits(gelu(x * (k + 1))) != want[k]:
                wrong.append(k)
all = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in all:
    t.start()
for t in all:
    t.join()
finished(1)
print(json.dumps(wrong))
"""
    assert run(code, tmp_path)[0] == []
