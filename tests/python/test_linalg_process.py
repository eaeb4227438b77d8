"""Factorizations by OpenBLAS in processes with little memory left, and in those that fork meanwhile."""

import os
import subprocess
import sys

import pytest
from process import SANITIZED

limited = pytest.mark.skipif(SANITIZED, reason="a sanitizer maps more than any limit")


def run(program, **environment):
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


LIMITED = """
import resource, mlx.core as mx
many, one = mx.random.normal((60, 70, 70)), mx.random.normal((200, 200))
mx.eval(many, one)
if {opened}:
    mx.eval(mx.linalg.svd(one, stream=mx.cpu))
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + ({more} << 20), resource.RLIM_INFINITY))
try:
    mx.eval(mx.linalg.svd(many if {opened} else one, stream=mx.cpu))
    print("computed")
except MemoryError:
    print("no memory")
"""


@limited
@pytest.mark.parametrize("more", [1, 30, 60, 90, 400])
def test_the_first_factorization_asks_for_memory_before_openblas_does(more):
    said = run(LIMITED.format(opened=False, more=more))
    assert said in (["computed", "no memory"] if more > 30 else ["no memory"])


@limited
@pytest.mark.parametrize("more", [45, 110, 300])
def test_threads_wait_for_buffers_where_there_is_no_room(more):
    for _ in range(3):
        assert run(LIMITED.format(opened=True, more=more), MLX_NUM_THREADS="16") in ("computed", "no memory")


def test_children_of_a_program_whose_threads_are_in_openblas():
    text = """
import os, signal, threading, mlx.core as mx
many = mx.random.normal((400, 70, 70))
mx.eval(many)
stop = False
def work():
    stream = mx.new_stream(mx.cpu)
    while not stop:
        mx.eval(mx.linalg.lu(many, stream=stream))
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads:
    t.start()
hung = 0
for _ in range(40):
    child = os.fork()
    if child == 0:
        signal.alarm(30)
        mx.eval(mx.linalg.inv(many[0], stream=mx.cpu))
        os._exit(0)
    hung += os.waitpid(child, 0)[1] != 0
stop = True
for t in threads:
    t.join()
print(hung)
"""
    assert run(text, MLX_NUM_THREADS="1") == "0"
