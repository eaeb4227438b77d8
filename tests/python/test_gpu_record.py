"""Programs of many operations on a GPU, whatever else happens between them; launched one by one, and together
(src/cuda/record.c). Skipped where there is no GPU."""

import json
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


PRODUCTS = """
import ctypes, json
import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim
import numpy as np

def graphs():
    return [*(ctypes.c_int * 4).in_dll(ctypes.CDLL("libcuda.so.1"), "emulated_graphs")]

r = np.random.default_rng(0)
w = [mx.array(r.integers(-1, 2, (64, 64)).astype(np.float32)) for _ in range(6)]
start = mx.array(r.integers(-9, 9, (32, 64)).astype(np.float32))

def chain(kinds, on):
    x = start
    for i, kind in enumerate(kinds):
        if kind == "s":
            x = mx.matmul(x[:, i % 9 :], w[i % 6][i % 9 :], stream=on) % 5
        elif kind == "p":
            x = mx.matmul(x, w[i % 6], stream=on) % 7
        elif kind == "r":
            x = mx.maximum(mx.addmm(x, x, w[i % 6], stream=on), 0, stream=on) % 7
        else:
            x = mx.sort(x, -1, stream=on)
    return x

def counted(kinds):
    before = graphs()
    same = np.array_equal(np.array(chain(kinds, mx.gpu)), np.array(chain(kinds, mx.cpu)))
    return [same] + [b - a for a, b in zip(before, graphs())]
"""


def with_products(code, **around):
    folder = os.path.join(os.environ["LD_LIBRARY_PATH"].split(":")[0], "libraries")
    env = {**os.environ, "MLX_CUDA_LIBRARIES": folder, "MLX_CUDA_GRAPH_PRODUCTS": "1", **around}
    ran = subprocess.run([sys.executable, "-c", PRODUCTS + code], env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


emulated = pytest.mark.skipif(
    not mx.is_available(mx.gpu)
    or mx.device_info(mx.gpu)["device_name"] != "emulated"
    or "PRETEND_NO_GRAPHS" in os.environ,
    reason="counts what the emulated driver does",
)


EVENTS = """
import ctypes
import mlx.core as mx

recorded = ctypes.c_int.in_dll(ctypes.CDLL("libcuda.so.1"), "emulated_events")
x = mx.arange(1000.0)

def small():
    mx.async_eval(mx.sort(x, stream=mx.gpu))

def large(n):
    y = x
    for _ in range(n):
        y = mx.sort(y, stream=mx.gpu)
    mx.async_eval(y)

def counted(*all):
    mx.synchronize(mx.gpu)
    large(20)  # which ends with one
    before = recorded.value
    for f, *args in all:
        f(*args)
    return recorded.value - before

for _ in range(2):
    counts = [
        counted((small,)),
        counted(*[(small,)] * 64),
        counted((large, 20)),
        counted((small,), (large, 20)),
        counted((small,), (small,), (large, 20), (small,)),
    ]
print(counts)
"""


@emulated
def test_small_batches_share_an_event():
    """One for each would keep kernels from following each other closely; what a large one follows has its own."""
    ran = subprocess.run([sys.executable, "-c", EVENTS], capture_output=True, text=True)
    assert ran.stdout.strip() == "[0, 8, 1, 2, 2]", ran.stdout + ran.stderr


@emulated
@pytest.mark.skipif(os.environ.get("MLX_CUDA_GRAPHS") == "0", reason="there are none")
def test_products_of_a_library_are_in_graphs():
    """What comes again, with the same addresses, is one graph and not captured again."""
    kinds = ["tptptptptptp" * 3, "tptrtptptptp" * 3, "tptptptptptp" * 3, "ptptptptptpt" * 3, "tpprtptsttpt" * 4]
    got = with_products(f"print(json.dumps([counted(k) for k in {kinds!r} for _ in range(5)]))")
    assert all(same for same, *_ in got)
    for fourth, fifth in zip(got[3::5], got[4::5], strict=True):
        assert fourth == fifth and fifth[1:3] == [0, 0] and fifth[3] > 10
    assert got[10][1] == 0 and got[10][3] > 10  # it was there


@emulated
@pytest.mark.skipif(os.environ.get("MLX_CUDA_GRAPHS") == "0", reason="there are none")
def test_graphs_with_products_make_room():
    """Some that come again, more of them than are kept, and then others each of which comes twice: they get no more."""
    code = """
kinds = ["".join(r.choice([*"tp"], 40)) for _ in range(190)]
counted("tp" * 20)
some = [counted(k) for k in kinds[:36] for _ in range(3)]
back = [counted(k) for k in kinds[:4] for _ in range(3)]
others = [counted(k) for k in kinds[36:] for _ in range(2)]
print(json.dumps([some, back, others]))
"""
    some, back, others = with_products(code)
    assert all(same for same, *_ in some + back + others)
    # Addresses follow from when what ran before is let go of, so that some of what comes again differs.
    assert sum(made[3] > 5 for made in some[2::3]) > 20
    assert sum(first[1] + second[1] > 0 for first, second in zip(back[::3], back[1::3], strict=True)) > 1
    assert any(third[1] == 0 and third[3] > 5 for third in back[2::3])
    first, last = (sum(made for _, made, *_ in some) for some in (others[:60], others[-60:]))
    assert first > 20 and last < first / 2, (first, last)


@emulated
@pytest.mark.skipif(os.environ.get("MLX_CUDA_GRAPHS") == "0", reason="there are none")
def test_kernels_of_a_graph_get_other_arguments():
    """The same operations on arrays elsewhere: products at the same addresses, kernels at others."""
    code = """
def mixed(x, n):
    for i in range(n):
        x = mx.sort(mx.cumsum(x, -1) % 17, -1)
    return x

def turn(k):
    x = mx.array(np.roll(np.arange(120.0, dtype=np.float32).reshape(3, 40), k))
    before = graphs()
    got = np.array(mixed(x, 12))
    with mx.stream(mx.cpu):
        same = np.array_equal(got, np.array(mixed(x, 12)))
    return [same] + [b - a for a, b in zip(before, graphs())], x

mx.set_default_device(mx.gpu)
turns = [turn(k) for k in range(6)]
print(json.dumps([t for t, _ in turns]))
"""
    got = with_products(code)
    assert all(same for same, *_ in got)
    assert got[-1][1:4] == [0, 0, 0] and got[-1][4] > 0


@emulated
def test_training_with_products_in_graphs():
    code = """
def curve():
    mx.random.seed(3)
    model = nn.Sequential(*[nn.Linear(48, 48) if i % 2 else nn.ReLU() for i in range(10)])
    optimizer = optim.AdamW(1e-2)
    x = mx.random.normal((40, 48))
    slopes = nn.value_and_grad(model, lambda m, x: mx.square(m(x) - x[:, ::-1]).mean())
    state = [model.state, optimizer.state]
    def step(x):
        loss, g = slopes(model, x)
        optimizer.update(model, g)
        return loss
    step = mx.compile(step, inputs=state, outputs=state)
    losses = []
    for _ in range(20):
        losses.append(step(x))
        mx.eval(losses[-1], state)
    return np.array(mx.stack(losses)).tolist()

mx.set_default_device(mx.gpu)
print(json.dumps([curve(), graphs()]))
"""
    (on, _), (off, _) = with_products(code), with_products(code, MLX_CUDA_GRAPH_PRODUCTS="0")
    assert on == off and on[-1] < on[0]


OTHER = [{"MLX_CUDA_GRAPHS": "0"}, {"PRETEND_NO_GRAPHS": "1"}, {"PRETEND_NO_GRAPHS": "launch"}]
OTHER += [{"MLX_CUDA_OVERLAP": "0"}, {"MLX_CUDA_OVERLAP": "0", "MLX_CUDA_GRAPHS": "0"}]


@pytest.mark.skipif(any(key in os.environ for one in OTHER for key in one), reason="it is asked for already")
@pytest.mark.parametrize("variables", OTHER, ids=["off", "refused", "later", "in turn", "off in turn"])
def test_launched_in_other_ways(variables):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", __file__]
    env = {**os.environ, **variables}
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-3000:]
