"""Programs of many operations on a GPU, whatever else happens between them; launched one by one, and together
(src/cuda/record.c). Skipped where there is no GPU."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")


def chain(x, n, stream=None):
    """Operations none of which is one with its neighbours."""
    for i in range(n):
        x = mx.sort(x, -1, stream=stream) if i % 2 else mx.cumsum(x, -1, stream=stream) % 17
        x = mx.concatenate([x[..., 1:], x[..., :1]], -1, stream=stream)
    return x


def start():
    return mx.array(np.random.default_rng(0).integers(-9, 9, (3, 40)).astype(np.float32))


@pytest.mark.parametrize("n", [1, 3, 4, 8, 30, 70, 200])
def test_chains(n):
    expected = np.array(chain(start(), n, mx.cpu))
    for _ in range(3):  # at first one by one, then as a graph that is made, then as one that is updated
        assert np.array_equal(np.array(chain(start(), n, mx.gpu)), expected)


def test_chains_of_other_lengths_between():
    expected = {n: np.array(chain(start(), n, mx.cpu)) for n in range(5, 40, 3)}
    for _ in range(3):
        for n, y in expected.items():
            assert np.array_equal(np.array(chain(start(), n, mx.gpu)), y)


def test_copies_and_other_devices_between():
    def run(streams):
        x = start()
        for i in range(40):
            x = chain(x, 3, streams[i % len(streams)])
            y = mx.contiguous(x + 0, stream=streams[0])
            x = mx.concatenate([y[:1], x[1:] + i], 0, stream=streams[-1])
            if i % 11 == 3:
                mx.async_eval(x)
            if i % 17 == 5:
                x = x + float(mx.max(x, stream=streams[0]).item()) * 0
        return np.array(x)

    expected = run([mx.cpu])
    for _ in range(2):
        assert np.array_equal(run([mx.gpu]), expected)
        assert np.array_equal(run([mx.gpu, mx.new_stream(mx.gpu), mx.cpu]), expected)


def test_threads_look_at_what_another_is_queueing():
    x = start()
    steps = [chain(x, 5 * k, mx.gpu) for k in range(1, 20)]
    expected = [np.array(chain(x, 5 * k, mx.cpu)) for k in range(1, 20)]
    mx.async_eval(steps)
    with ThreadPoolExecutor(4) as pool:
        for got, want in zip(pool.map(np.array, steps), expected, strict=True):
            assert np.array_equal(got, want)


def test_indices_out_of_range_are_told(tmp_path):
    program = """
import mlx.core as mx
x = mx.arange(8.0)
for i in range(40):
    x = mx.sort(mx.cumsum(x) % 7) + mx.take(x, mx.array([0, 1, 2, 3, 4, 5, 6, 30 if i == 20 else 7]))
try:
    mx.eval(x)
except IndexError as e:
    print(e)
"""
    env = {**os.environ, "MLX_INDEX": "error"}
    said = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True).stdout
    assert said.startswith("[take] index 30 at position (7,)")


OTHER = [{"MLX_CUDA_GRAPHS": "0"}, {"PRETEND_NO_GRAPHS": "1"}, {"PRETEND_NO_GRAPHS": "launch"}]


@pytest.mark.skipif(any(key in os.environ for one in OTHER for key in one), reason="it is asked for already")
@pytest.mark.parametrize("variables", OTHER, ids=["off", "refused", "refused later"])
def test_without_graphs(variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    env = {**os.environ, **variables}
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-3000:]
