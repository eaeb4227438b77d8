"""Convolutions by cuDNN; skipped where there is no GPU. On the emulated driver a library of the tests stands for it
(tests/emulated/cudnn.c), and convolutions from 1,024 multiply-adds on are its."""

import os
import subprocess
import sys

import mlx.core as mx
import pytest
from test_gpu_libraries import BESIDE, EMULATED, FILE, FOLDER, HERE, LIBRARIES, pretended, run

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")

CODE = """
import ctypes, json
import mlx.core as mx
import numpy as np

f16, bf16, f32, f64, c64 = mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64
def x(dtype, *shape):
    y = np.random.default_rng(sum(shape)).integers(-3, 4, shape)
    return mx.array(y.tolist(), mx.float32 if dtype == f64 else dtype).astype(dtype, stream=mx.cpu)
def conv(dtype, a, b, **how):
    return mx.conv_general(x(dtype, *a), x(dtype, *b), **how)
def gradient(i, dtype, a, b, **how):
    operands = [x(dtype, *a), x(dtype, *b)]
    def f(z):
        return mx.conv_general(*(z if k == i else v for k, v in enumerate(operands)), **how)
    with mx.stream(mx.cpu):
        shape = f(operands[i]).shape
    return mx.vjp(f, [operands[i]], [x(dtype, *shape)])[1][0]
def by_input(*what, **how):
    return gradient(0, *what, **how)
def by_weights(*what, **how):
    return gradient(1, *what, **how)
def count():
    return [*(ctypes.c_int * 6).in_dll(ctypes.CDLL(FILE), "emulated_convolutions")]
def made(text):
    before = count()
    with mx.stream(mx.gpu):
        here = eval(text)
        mx.eval(here)
    with mx.stream(mx.cpu):
        there = eval(text)
        equal = mx.array_equal(here, there).item() and here.dtype == there.dtype
    return equal, [b - a for a, b in zip(before, count())]
"""

# Each as text: how many convolutions cuDNN is asked for, derivatives by the input, and by the weights.
A, B = "(2, 9, 11, 8), (16, 3, 3, 8)", "(2, 9, 11, 12), (8, 3, 2, 6)"
CONVOLUTIONS = {
    f"conv(f32, {A}, padding=1)": (1, 0, 0),
    f"conv(f16, {A}, padding=1)": (1, 0, 0),
    f"conv(bf16, {A}, padding=1)": (1, 0, 0),
    f"conv(f64, {A}, padding=1)": (0, 0, 0),
    f"conv(c64, {A}, padding=1)": (4, 0, 0),
    "conv(f16, (2, 40, 8), (16, 5, 8), padding=2)": (1, 0, 0),
    "conv(f32, (2, 40, 8), (16, 5, 8), padding=2)": (0, 0, 0),
    "conv(bf16, (2, 5, 6, 7, 8), (9, 2, 3, 2, 8), stride=(1, 2, 1), padding=(0, 1, 1))": (1, 0, 0),
    f"conv(f32, {A}, stride=(2, 3), padding=([0, 2], [1, 0]))": (1, 0, 0),
    f"conv(f32, {A}, padding=([-1, 0], [0, 0]))": (0, 0, 0),
    f"conv(f32, {A}, kernel_dilation=(2, 3))": (1, 0, 0),
    f"conv(f32, {A}, padding=1, flip=True)": (1, 0, 0),
    f"conv(bf16, {B}, groups=2)": (1, 0, 0),
    f"conv(f32, {B}, groups=2)": (0, 0, 0),
    "conv(f32, (2, 9, 11, 64), (8, 3, 2, 32), groups=2)": (0, 0, 0),
    "conv(f32, (2, 9, 11, 64), (40, 3, 2, 32), groups=2)": (1, 0, 0),
    "conv(bf16, (2, 9, 11, 24), (24, 3, 3, 1), padding=1, groups=24)": (1, 0, 0),
    "conv(f32, (2, 9, 11, 24), (24, 3, 3, 1), padding=1, groups=24)": (0, 0, 0),
    "conv(f32, (1, 6, 6, 4), (4, 2, 2, 4))": (1, 0, 0),
    "conv(f32, (1, 4, 4, 4), (4, 2, 2, 4))": (0, 0, 0),  # small
    "conv(f32, (2, 9, 11, 8), (16, 1, 1, 8))": (0, 0, 0),
    "conv(f32, (2, 9, 11, 8), (16, 1, 1, 8), stride=2)": (1, 0, 0),
    "mx.conv2d(x(f32, 2, 8, 9, 11).transpose(0, 2, 3, 1), x(f32, 16, 8, 3, 3).transpose(0, 2, 3, 1))": (1, 0, 0),
    "mx.conv2d(x(bf16, 2 * 9 * 11 * 8 + 1)[1:].reshape(2, 9, 11, 8), x(bf16, 17, 3, 3, 8)[1:])": (1, 0, 0),
    "mx.conv2d(x(f16, 3, 9, 11, 8)[1:], x(f16, 8, 3, 3, 16)[:, ::-1, ::-1].swapaxes(0, 3))": (0, 1, 0),
    "mx.conv2d(x(f32, 3, 9, 11, 8)[1:], x(f32, 8, 3, 3, 16)[:, ::-1, ::-1].swapaxes(0, 3))": (1, 0, 0),
    "mx.conv2d(x(f32, 3, 9, 11, 8)[1:], x(f32, 8, 3, 3, 16)[:, ::-1].swapaxes(0, 3))": (1, 0, 0),
    f"conv(f32, {A}, input_dilation=2, padding=2)": (0, 1, 0),
    f"conv(bf16, {A}, input_dilation=(1, 3), padding=([2, 1], [2, 3]))": (0, 1, 0),
    f"conv(bf16, {B}, input_dilation=2, kernel_dilation=(1, 2), padding=2, groups=2)": (0, 1, 0),
    f"conv(f32, {A}, input_dilation=2, stride=2, padding=2)": (0, 0, 0),
    f"conv(f32, {A}, input_dilation=2, padding=3)": (0, 0, 0),  # the other one's padding would be negative
    "mx.conv_transpose1d(x(f16, 2, 20, 8), x(f16, 16, 4, 8), stride=2, padding=1)": (0, 1, 0),
    "mx.conv_transpose3d(x(f32, 2, 4, 5, 3, 8), x(f32, 6, 2, 3, 3, 8), stride=(2, 1, 3), padding=1)": (0, 1, 0),
    f"by_input(f32, {A}, padding=1)": (1, 0, 0),  # which has faster engines
    f"by_input(f32, {A}, padding=([0, 2], [1, 0]), kernel_dilation=2)": (1, 0, 0),
    f"by_input(f32, {A}, padding=3)": (0, 1, 0),  # whose own padding would be negative
    f"by_input(f16, {A}, padding=1)": (0, 1, 0),
    "by_input(f32, (2, 5, 6, 7, 8), (9, 2, 3, 2, 8))": (0, 1, 0),
    f"by_input(f64, {A}, padding=1)": (0, 0, 0),
    f"by_input(bf16, {A}, padding=1, stride=2)": (0, 1, 0),
    f"by_input(f32, {A}, stride=(2, 3), padding=([0, 2], [1, 0]))": (0, 1, 0),
    f"by_input(f16, {B}, groups=2)": (1, 0, 0),  # whose weights are copied anyway
    f"by_input(f16, {B}, groups=2, stride=3)": (0, 1, 0),
    "by_input(f16, (2, 40, 8), (16, 5, 8), padding=2)": (0, 1, 0),
    "by_input(bf16, (2, 5, 6, 7, 8), (9, 2, 3, 2, 8), stride=(1, 2, 1), padding=(0, 1, 1))": (0, 1, 0),
    f"by_input(f32, {A}, input_dilation=2, padding=2)": (1, 0, 0),
    f"by_weights(f32, {A}, padding=1)": (0, 0, 1),
    f"by_weights(f64, {A}, padding=1)": (0, 0, 0),
    "by_weights(f32, (2, 30, 31, 3), (16, 7, 7, 3), stride=2, padding=3)": (0, 0, 0),
    "by_weights(bf16, (2, 30, 31, 3), (16, 7, 7, 3), stride=2, padding=3)": (0, 0, 1),
    "by_input(f32, (1, 100, 96, 3), (8, 7, 7, 3), stride=2, padding=3)": (0, 0, 0),
    "by_input(f32, (1, 100, 96, 8), (8, 7, 7, 8), stride=2, padding=3)": (0, 1, 0),
    "conv(f32, (1, 60, 61, 8), (3, 7, 7, 8), padding=3)": (0, 0, 0),
    f"by_weights(bf16, {A}, padding=1, stride=2, kernel_dilation=(1, 2))": (0, 0, 1),
    f"by_weights(f32, {A}, stride=(2, 3), padding=([0, 2], [1, 0]))": (0, 0, 1),
    f"by_weights(f16, {B}, groups=2)": (0, 0, 1),
    "by_weights(f16, (2, 40, 8), (16, 5, 8), padding=2)": (0, 0, 1),
    "by_weights(f32, (2, 5, 6, 7, 8), (9, 2, 3, 2, 8))": (0, 0, 0),
    "by_weights(bf16, (2, 5, 6, 7, 8), (9, 2, 3, 2, 8), stride=(1, 2, 1), padding=(0, 1, 1))": (0, 0, 1),
    f"by_weights(f32, {A}, input_dilation=2, padding=2)": (0, 0, 1),
    f"by_weights(bf16, {B}, input_dilation=(2, 3), kernel_dilation=(2, 1), padding=(2, 1), groups=2)": (0, 0, 1),
}
FEW = [t for i, (t, n) in enumerate(CONVOLUTIONS.items()) if any(n) and i % 5 == 0]


@pytest.fixture
def folder(tmp_path):
    for file in (FILE, "libcudnn.so.9"):
        (tmp_path / file).symlink_to(FOLDER / FILE)
    return tmp_path


def convolutions(texts, folder, **around):
    """Of each: whether it is the CPU's to the bit, as sums of small integers are, and the library's counts; at last how
    many descriptors there are."""
    code = f"FILE = {str(folder / 'libcudnn.so.9')!r}\n{CODE}\n"
    code += f"print(json.dumps([[made(t) for t in {texts!r}], count()[5]]))"
    (results, descriptors), said = run(code, MLX_CUDA_LIBRARIES=str(folder), **around)
    return results, descriptors, said


@pretended
def test_which_convolutions_it_makes(folder):
    results, descriptors, said = convolutions([*CONVOLUTIONS], folder)
    assert not said and descriptors == 8 * sum(n[4] for _, n in results)
    for i, (text, (equal, n)) in enumerate(zip(CONVOLUTIONS, results)):
        assert (text, equal, n[0] - (i == 0), *n[1:3]) == (text, True, *CONVOLUTIONS[text])  # and a trial


@pretended
def test_an_engine_is_asked_for_once(folder):
    text, other = f"conv(f32, {A}, padding=1)", f"by_input(f32, {A}, padding=1, stride=2)"
    results, _, said = convolutions([text, text, other, text, other], folder, MLX_LOG="libraries")
    assert [n[4] for _, n in results] == [2, 0, 1, 0, 0]  # one of them for the trial
    assert [line.split(", (")[0] for line in said.splitlines()] == [
        "mlx: cudnn does a convolution of float32",
        "mlx: cudnn is used on GPU 0",
        "mlx: cudnn does a convolution of float32",
        "mlx: cudnn does one's derivative by the input of float32",
    ]
    assert said.count("with engine 5, notes 0, workspace 4096") == 3


@pretended
def test_plans_are_so_many(folder):
    """One more than are kept, and the first one again."""
    texts = [f"conv(f16, (1, {n}, 8), (8, 3, 8), padding=1)" for n in range(8, 8 + 260)]
    results, descriptors, _ = convolutions([*texts, texts[-1], texts[0]], folder)
    assert all(equal for equal, _ in results) and descriptors == 8 * 256
    assert [n[4] for _, n in results[-2:]] == [0, 1]


@pretended
@pytest.mark.parametrize("tf32", [0, 1])
def test_tf32(folder, tf32):
    texts = [t for t, n in CONVOLUTIONS.items() if any(n) and "c64" not in t]
    results, _, _ = convolutions(texts, folder, MLX_ENABLE_TF32=str(tf32))
    for i, (text, (equal, n)) in enumerate(zip(texts, results)):
        assert (text, equal, n[3]) == (text, True, tf32 * ("f32" in text) * (1 + (i == 0)))


@pretended
@pytest.mark.parametrize("call", ["make", "set", "finish", "get", "stream", "execute"])
def test_what_fails_our_kernels_do(folder, call):
    results, _, said = convolutions(FEW * 2, folder, PRETEND=f"dnn_{call}", MLX_LOG="libraries")
    assert all(equal for equal, _ in results) and sum(sum(n[:3]) for _, n in results) == 1  # the trial
    assert not any(n[4] for _, n in results[len(FEW) :])  # it is not asked again
    assert "mlx: cudnn is used on GPU 0" in said


@pretended
@pytest.mark.parametrize("call", ["make", "set", "finish", "get", "stream", "execute"])
def test_a_trial_that_fails(folder, call):
    results, _, said = convolutions(FEW, folder, PRETEND=f"dnn_trial_{call}", MLX_LOG="libraries")
    why = {"stream": "CUDNN_STATUS_BAD_PARAM", "execute": "CUDNN_STATUS_EXECUTION_FAILED"}.get(call, "no convolution")
    assert all(equal for equal, _ in results) and not any(sum(n[:3]) for _, n in results)
    assert f"mlx: cudnn is not used on GPU 0: {why}" in said.splitlines()


@pretended
@pytest.mark.parametrize("how", ["no_handle", "no_blas", "wrong", "no_engines", "no_engines_at_all"])
def test_what_it_cannot_do(folder, how):
    results, _, said = convolutions(FEW, folder, PRETEND=how, MLX_LOG="libraries")
    used = how == "no_engines"  # but for those that only work
    assert all(equal for equal, _ in results)
    assert sum(sum(n[:3]) for _, n in results) == {"no_engines": len(FEW) + 1, "wrong": 1}.get(how, 0)
    told = {
        "no_handle": "CUDNN_STATUS_NOT_INITIALIZED",
        "no_blas": "there is no cuBLASLt of the CUDA that it is for",
        "wrong": "a wrong convolution",
    }.get(how, "no convolution")
    told = "mlx: cudnn is used on GPU 0" if used else f"mlx: cudnn is not used on GPU 0: {told}"
    assert told in said.splitlines()
    found, _ = run(LIBRARIES, MLX_CUDA_LIBRARIES=str(folder), PRETEND=how)
    used_for = "convolutions, and attention of half types" if used else None
    assert found["cudnn"]["version"] == "9.19.0" and found["cudnn"]["used_for"] == used_for


def test_all_convolutions(folder):
    """The tests of our kernels, with the library that is found."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_gpu_conv.py"]
    here = {"LD_LIBRARY_PATH": str(BESIDE), "MLX_CUDA_LIBRARIES": str(folder)}
    env = os.environ | (here if EMULATED else {})
    done = subprocess.run(command, cwd=HERE, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
