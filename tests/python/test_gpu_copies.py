"""Large copies between the host and a GPU, through pinned memory piece by piece; skipped where there is no GPU."""

import os
import subprocess
import sys
import threading

import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")

MIB = 1 << 20
SIZES = [MIB - 8, MIB, 4 * MIB - 8, 4 * MIB, 4 * MIB + 8, 16 * MIB, 16 * MIB + 24, 21 * MIB + 8]


def numbers(size, seed=0):
    return np.random.default_rng(seed).integers(-(2**62), 2**62, size // 8)


def there_and_back(x, stream=mx.gpu):
    """-x, made on the GPU."""
    return np.array(mx.negative(mx.array(x), stream=stream))


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size):
    x = numbers(size)
    assert np.array_equal(there_and_back(x), -x)


def test_unaligned_memory_of_others():
    x = np.frombuffer(numbers(9 * MIB).tobytes()[3:-5], np.uint8)
    y = mx.asarray(x, copy=False)
    assert np.array_equal(np.array(mx.bitwise_invert(y, stream=mx.gpu)), ~x)


def test_written_anew_for_each_reader():
    x = mx.array(numbers(9 * MIB))
    view = np.array(x, copy=False)
    for i in range(3):
        view[:] = numbers(9 * MIB, i)
        assert np.array_equal(np.array(mx.negative(x, stream=mx.gpu)), -view)


def test_threads_and_streams():
    wrong = []

    def work(seed):
        stream = mx.new_stream(mx.gpu)
        for i in range(4):
            x = numbers(5 * MIB + 8 * seed, seed + 10 * i)
            if not np.array_equal(there_and_back(x, stream), -x):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def run(program, **env):
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **env}, capture_output=True, text=True, timeout=300
    )


def test_without_pinned_memory():
    """PRETEND_UNPINNED is to the emulated driver; any other has enough of it."""
    program = """
import mlx.core as mx, numpy as np
x = np.arange(9 << 17)
print(np.array_equal(np.array(mx.negative(mx.array(x), stream=mx.gpu)), -x))
"""
    ran = run(program, PRETEND_UNPINNED="1")
    assert ran.stdout == "True\n", ran.stderr


BUSY = """
import os, sys, threading
import mlx.core as mx, numpy as np
x = np.arange(5 << 17)
begun = threading.Event()
def copy():
    while True:
        y = np.array(mx.negative(mx.array(x), stream=mx.gpu))
        if not np.array_equal(y, -x):
            os._exit(3)
        begun.set()
threading.Thread(target=copy, daemon=True).start()
begun.wait()
"""


def test_a_fork_while_another_thread_copies():
    program = """
for _ in range(5):
    child = os.fork()
    if child == 0:
        try:
            mx.eval(mx.negative(mx.array(x), stream=mx.gpu))
        except mx.Error as error:
            good = "fork" in str(error)
        os._exit(0 if good and np.array(mx.negative(mx.array(x), stream=mx.cpu))[3] == -3 else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
print("well", flush=True)
os._exit(0)
"""
    ran = run(BUSY + program)
    assert ran.stdout == "well\n", ran.stderr


def test_an_exit_while_another_thread_copies():
    ran = run(BUSY + "print('well')")
    assert (ran.returncode, ran.stdout) == (0, "well\n"), ran.stderr


def test_memory_that_the_limit_refuses():
    with pytest.raises(MemoryError, match=r"on GPU 0: .* are used here, the memory limit is 1048576 bytes"):
        before = mx.set_memory_limit(1 << 20)
        try:
            mx.eval(mx.sort(mx.zeros(10**6, stream=mx.gpu) + 1, stream=mx.gpu))
        finally:
            mx.set_memory_limit(before)


def test_memory_that_runs_short():
    """PRETEND_SHORT is to the emulated driver: what cannot be allocated is an error, and what can is right."""
    program = """
import os
import mlx.core as mx
mx.set_cache_limit(0)
if mx.device_info(mx.gpu)["device_name"] == "emulated":
    os.environ["PRETEND_SHORT"] = "7"
right = short = 0
with mx.stream(mx.gpu):
    for i in range(40):
        try:
            x = mx.arange(300_000 + i) % 7
            right += mx.cumsum(mx.concatenate([x, x + 1]))[-1].item() == sum(2 * (k % 7) + 1 for k in range(x.size))
        except MemoryError as said:
            short += "could not allocate" in str(said)
print(right + short, right > 0, short > 0)
"""
    ran = run(program)
    short = mx.device_info(mx.gpu)["device_name"] == "emulated"
    assert ran.stdout.split() == ["40", "True", str(short)], ran.stderr


@pytest.mark.parametrize("error, lost", [(1, False), (701, False), (200, False), (700, True), (719, True), (999, True)])
def test_a_launch_that_is_refused(error, lost):
    """PRETEND_LAUNCH is to the emulated driver.  Other work goes on, unless nothing works after the error."""
    program = f"""
import os
import mlx.core as mx
x = mx.array([1.0, 2.0])
try:
    if mx.device_info(mx.gpu)["device_name"] == "emulated":
        os.environ["PRETEND_LAUNCH"] = "{error}"
        mx.eval(mx.exp(x, stream=mx.gpu))
except RuntimeError as said:
    print("FAILED" in str(said))
os.environ.pop("PRETEND_LAUNCH", None)
try:
    print(mx.add(x, x, stream=mx.gpu).tolist())
except RuntimeError as said:
    print("GPU 0 is lost after FAILED" in str(said))
print(mx.add(x, x, stream=mx.cpu).tolist())
"""
    ran = run(program)
    if mx.device_info(mx.gpu)["device_name"] == "emulated":
        assert ran.stdout.split("\n") == ["True", "True" if lost else "[2.0, 4.0]", "[2.0, 4.0]", ""], ran.stderr
