"""Variables of the environment: what is none of a variable's values is told once, and ignored (src/core/settings.h)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

USE = """
import os, tempfile, warnings
import mlx.core as mx

warnings.simplefilter("ignore")
index = 5 if os.environ.get("MLX_INDEX") == "fail" else 1
f = mx.compile(lambda x: mx.exp(x) + x)
for n in (2, 3):
    mx.eval(f(mx.zeros(n)), mx.take(mx.arange(3), mx.array([index])))
with tempfile.TemporaryDirectory() as folder:
    for name in ("a.npy", "b.npy"):
        mx.save(f"{folder}/{name}", mx.ones((300, 300)))
        assert mx.load(f"{folder}/{name}").sum().item() == 90000
mx.eval(mx.ones((1000, 1000)).sum())
print(mx.default_device())
try:
    mx.set_default_device(mx.gpu)
except mx.Error:
    pass
"""


def use(program=USE, **variables):
    env = {name: value for name, value in os.environ.items() if not name.startswith("MLX_")} | variables
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("name", "expected", "got"),
    [
        ("MLX_DEFAULT_DEVICE", "cpu or gpu", "CPU"),
        ("MLX_GPU", "cpu", "0"),
        ("MLX_CPU", None, "sse"),
        ("MLX_NUM_THREADS", "a number of 1 or more", "all"),
        ("MLX_NUM_THREADS", "a number of 1 or more", "-2"),
        ("MLX_NUM_THREADS", "a number of 1 or more", "2x"),
        ("MLX_INDEX", "error or warn", "fail"),
        ("MLX_CHECK", "nan or inf", "all"),
        ("MLX_FUSE", "0 or 1", "off"),
        ("MLX_MMAP", "0 or 1", "no"),
        ("MLX_COMPILE_CACHE", "a number of 1 or more", "0"),
        ("MLX_LOG", "compile, fallback or libraries", "compiles"),
    ],
)
def test_bad_values_are_told_once(name, expected, got):
    plain, nothing = use()
    out, said = use(**{name: got})
    assert nothing == "" and out == plain
    if expected is None:
        expected = said.removeprefix(f"[{name}] expected ").rsplit(", got", 1)[0]
        assert "base" in expected
    assert said == f"[{name}] expected {expected}, got {got}; it is ignored\n"


GOOD = {
    "MLX_DEFAULT_DEVICE": ["cpu"],
    "MLX_GPU": ["cpu"],
    "MLX_CPU": ["base"],
    "MLX_NUM_THREADS": ["1", " 2", "2 ", "100000", "99999999999999999999"],
    "MLX_INDEX": ["error", "warn"],
    "MLX_CHECK": ["nan", "inf"],
    "MLX_FUSE": ["0", "1"],
    "MLX_MMAP": ["0", "1"],
    "MLX_COMPILE_CACHE": ["1", "99999999999999999999"],
    "MLX_DISABLE_COMPILE": ["0", "1", "yes"],
    "MLX_HANDLES": ["0", "1", "yes"],
    "MLX_FALLBACK": ["error"],
    "MLX_LOG": ["fallback", "fallback,libraries", "libraries fallback", ","],
    "MLX_KERNEL_CACHE": ["0", "64"],
}


@pytest.mark.parametrize("which", range(5))
def test_good_values(which):
    """The first of each at once, and so on; "" is as if it were not set."""
    variables = {name: [*values, "", "", "", ""][which] for name, values in GOOD.items()}
    assert "is ignored" not in use(**variables)[1]


def test_a_list_keeps_the_words_that_are_known():
    out, said = use(MLX_LOG="compiled,compile")
    assert said.startswith("[MLX_LOG] expected compile, fallback or libraries, got compiled; it is ignored\n")
    assert said.count("is ignored") == 1 and "trace 0: first call" in said


@pytest.mark.parametrize(("value", "on"), [("", True), ("0", True), ("1", False), ("yes", False), ("false", False)])
def test_disable_compile(value, on):
    """Anything but 0 disables it, as in the mlx package."""
    program = """
import mlx.core as mx
n = []
f = mx.compile(lambda x: (n.append(0), x + 1)[1])
mx.eval(f(mx.zeros(2)), f(mx.zeros(2)))
print(len(n))
"""
    assert use(program, MLX_DISABLE_COMPILE=value) == ("1\n" if on else "2\n", "")


@pytest.mark.parametrize(("value", "kept"), [("1", 1), ("2", 2), ("many", 64), ("", 64)])
def test_compile_cache(value, kept):
    program = """
import mlx.core as mx
n = []
f = mx.compile(lambda x: (n.append(0), x + 1)[1])
for shape in (1, 2, 1):
    f(mx.zeros(shape))
print(len(n))
"""
    assert use(program, MLX_COMPILE_CACHE=value)[0] == ("3\n" if kept == 1 else "2\n")


EMULATED = Path(__file__).resolve().parents[2] / "build" / "release" / "tests" / "emulated"


@pytest.mark.skipif(not (EMULATED / "libmlx.so").exists(), reason="no build with the emulated driver")
def test_those_of_gpus():
    program = """
import mlx.core as mx
x = mx.ones((64, 64))
mx.eval(x @ x, mx.exp(x) * x, mx.linalg.eigvals(x), mx.zeros(2048).at[mx.zeros(9000, mx.int32)].add(mx.ones(9000)))
"""
    bad = {"MLX_ENABLE_TF32": "yes", "MLX_DETERMINISTIC": "2", "MLX_NVTX": "on", "MLX_CUDA_GRAPHS": "on"}
    bad |= {"MLX_FALLBACK": "fail", "MLX_LOG": "all", "MLX_SPECIALIZE": "2"}
    _, said = use(program, LD_LIBRARY_PATH=str(EMULATED), MLX_CPU="base", NVTX_INJECTION64_PATH="/none", **bad)
    expected = ["0 or 1", "0 or 1", "0 or 1", "0 or 1", "error", "compile, fallback or libraries", "0, 1 or now"]
    lines = [f"[{k}] expected {e}, got {v}; it is ignored" for (k, v), e in zip(bad.items(), expected, strict=True)]
    assert sorted(said.splitlines()) == sorted(lines)
