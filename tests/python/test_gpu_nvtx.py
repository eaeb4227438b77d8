"""Ranges with the names of operations, for NVIDIA's tools: a library such as a tool brings into the program notes them
(tests/emulated/nvtx.c).  Skipped where there is no GPU."""

import os
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import pytest

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")
SOURCE = Path(__file__).parents[1] / "emulated" / "nvtx.c"

PROGRAM = """
import ctypes, sys
import mlx.core as mx

mx.set_default_device(mx.gpu)
x = mx.arange(6.0).reshape(2, 3) + mx.zeros(3)
mx.eval(x)
mx.eval(mx.sum(x))
mx.eval(mx.exp(x) * 2)
mx.eval(mx.scan(lambda c, i: (mx.softmax(c), None), x, length=2))
w = [mx.ones((512, 2048), mx.bfloat16) * i for i in range(3)]
x = mx.ones((1, 2048), mx.bfloat16)
mx.eval(x, w)
mx.eval([(x @ m.T).reshape(16, 32) for m in w])
tool = ctypes.CDLL(sys.argv[1])
tool.nvtx_begun.restype = ctypes.c_char_p
print(tool.nvtx_begun().decode(), end="")
print(tool.nvtx_ended())
"""


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    path = tmp_path_factory.mktemp("nvtx") / "tool.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", path, SOURCE], check=True)
    return path


def ranges(tool, **env):
    env = {**os.environ, "NVTX_INJECTION64_PATH": str(tool), **env}
    ran = subprocess.run([sys.executable, "-c", PROGRAM, tool], env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    *begun, ended = ran.stdout.splitlines()
    assert int(ended) == len(begun)
    return begun


def test_ranges_are_named_after_operations(tool):
    begun = ranges(tool, MLX_NVTX="1")
    assert begun.count("sum") == 1
    assert "exp, multiply" in begun  # one kernel
    assert begun.count("softmax") == 2  # in a loop, each step's
    assert begun.count("matmul, matmul, matmul") == 1 and "matmul" not in begun  # of one vector


def test_there_are_none_unless_asked_for(tool):
    assert ranges(tool, MLX_NVTX="") == []


def test_a_tool_that_is_not_there_is_not_missed(tool, tmp_path):
    env = {**os.environ, "NVTX_INJECTION64_PATH": str(tmp_path / "none.so"), "MLX_NVTX": "1"}
    program = "import mlx.core as mx; print(mx.sum(mx.ones(3), stream=mx.gpu).item())"
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert ran.stdout == "3.0\n" and not ran.stderr
