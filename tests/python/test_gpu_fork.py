"""Children of a process that may have used a GPU; skipped where there is no GPU."""

import os
import subprocess
import sys

import mlx.core as mx
import pytest

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")

PROGRAM = """
import os, sys
import mlx.core as mx
mx.set_default_device(mx.gpu)
exec(sys.argv[1])
child = os.fork()
if child == 0:
    try:
        print(mx.exp(mx.zeros(3)).sum().item(), end=" ", flush=True)
    except mx.Error as error:
        print("fork" if "made by fork()" in str(error) else error, end=" ", flush=True)
    print(mx.exp(mx.zeros(3, stream=mx.cpu), stream=mx.cpu).sum(stream=mx.cpu).item(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print((mx.zeros(3) + 1).sum().item())
"""


def child_of(what, **env):
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, what]  # Python 3.12 warns of threads
    ran = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    of_child, of_parent = ran.stdout.splitlines()
    gpu, cpu = of_child.split(" ")
    assert (cpu, of_parent) == ("3.0", "3.0")
    return gpu


BUILDS = [
    "x = mx.ones(3) * 2",
    "x = mx.zeros((3,), mx.float64)",
    "f = mx.compile(lambda x: x * mx.array(2.0, mx.float64)); y = f(mx.ones(3, mx.float64))",
    "g = mx.grad(lambda x: mx.exp(x).sum())(mx.ones(3))",
    "s = mx.new_stream(mx.gpu); x = mx.add(1, 2, stream=s)",
    "x = mx.ones(3); mx.synchronize()",
    "x = mx.eval(mx.ones(3, stream=mx.cpu))",
]
# A real driver may not work in children as soon as it has counted devices.
IF_BUILT = (
    ["3.0"] if mx.is_available(mx.gpu) and mx.device_info(mx.gpu)["device_name"] == "emulated" else ["3.0", "fork"]
)


@pytest.mark.parametrize("what", BUILDS)
def test_building_graphs_is_no_use(what):
    assert child_of(what) in IF_BUILT


@pytest.mark.parametrize("what", ["mx.eval(mx.ones(3) * 2)", "mx.device_info(mx.gpu)", *BUILDS[:1]])
def test_the_driver_refuses(what):
    """PRETEND_FORKED is to the emulated driver."""
    assert child_of(what, PRETEND_FORKED="1") in (["fork"] if len(IF_BUILT) == 1 else ["3.0", "fork"])


@pytest.mark.parametrize("what", ["mx.eval(mx.ones(3) * 2)", "mx.device_info(mx.gpu)"])
def test_use(what):
    assert child_of(what) == "fork"
