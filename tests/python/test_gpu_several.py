"""Programs on two GPUs, beside the same on the CPU; skipped where there are not two."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_map

pytestmark = pytest.mark.skipif(mx.device_count(mx.gpu) < 2, reason="needs two NVIDIA GPUs")

GPUS = [mx.Device(mx.gpu, i) for i in range(2)]


@pytest.fixture
def second():
    """The second GPU as the default device."""
    before = mx.default_device()
    mx.set_default_device(GPUS[1])
    yield
    mx.set_default_device(before)


def numbers(*shape, dtype=mx.float32):
    return mx.array(np.random.default_rng(0).standard_normal(shape)).astype(dtype)


INDEX = np.random.default_rng(1).integers(0, 64, (300,))
PROGRAMS = {
    "element-wise": lambda x: mx.exp(x) * 2 + mx.tanh(x),
    "compiled": mx.compile(lambda x: mx.sigmoid(x) * x + 1),
    "reductions": lambda x: [x.sum(), x.max(axis=0), mx.softmax(x, axis=1), mx.cumsum(x, axis=1)],
    "products": lambda x: [x @ x.T, (x.astype(mx.float16) @ x.T.astype(mx.float16)).astype(mx.float32)],
    "order": lambda x: [mx.sort(x, axis=1), mx.argsort(x.reshape(-1))],
    "places": lambda x: [x[mx.array(INDEX)], x.at[mx.array(INDEX)].add(1.0)],
    "attention": lambda x: mx.fast.scaled_dot_product_attention(*[x.reshape(1, 2, 32, 96)] * 3, scale=0.1),
    "convolution": lambda x: mx.conv1d(x.reshape(4, 16, 96), x[:16].reshape(8, 2, 96), padding=1),
    "Fourier": lambda x: mx.abs(mx.fft.rfft(x)),
    "inverse": lambda x: mx.linalg.inv(x[:, :64] + 12 * mx.eye(64)),
    "random": lambda x: mx.random.normal((1000,), key=mx.random.key(3)),
    "slopes": lambda x: mx.grad(lambda y: (nn.gelu(y @ y.T) ** 2).mean())(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_computes(name):
    """What both make of it is the same, and the CPU's but for rounding."""
    x, results = numbers(64, 96), []
    mx.eval(x)
    for device in [mx.Device(mx.cpu), *GPUS]:
        with mx.stream(device):
            made = PROGRAMS[name](x)
            made = made if isinstance(made, list) else [made]
            mx.eval(made)
            results.append([np.array(y) for y in made])
    for cpu, first, other in zip(*results, strict=True):
        assert np.array_equal(first, other, equal_nan=True)
        assert np.allclose(cpu, first, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("size", [1, 1000, 3 << 20])
def test_arrays_go_from_one_to_the_other(size):
    x = mx.random.uniform(shape=(size,), stream=GPUS[0])
    y = mx.add(x, 1, stream=GPUS[1])
    z = mx.multiply(y, x, stream=GPUS[0])
    w = mx.subtract(mx.add(z, x, stream=mx.cpu), y, stream=GPUS[1])
    a = np.array(x)
    assert np.array_equal(np.array(w), ((a + 1) * a + a) - (a + 1))


def test_streams_of_all_devices_follow_each_other():
    streams = [mx.cpu, *GPUS, *[mx.new_stream(d) for d in GPUS]]
    x = mx.arange(1000.0)
    for i in range(60):
        x = mx.add(x, 1, stream=streams[i * 3 % 5])
        if i % 7 == 0:
            mx.async_eval(x)
    assert x.tolist() == [i + 60.0 for i in range(1000)]


def test_a_view_of_the_others_memory():
    x = mx.add(mx.arange(24.0).reshape(4, 6), 0, stream=GPUS[0])
    y = mx.add(x[1:, ::2].T, 0.5, stream=GPUS[1])
    x = mx.slice_update(x, mx.zeros((2, 2), stream=GPUS[1]), mx.array([0, 0]), (0, 1), stream=GPUS[0])
    a = np.arange(24.0).reshape(4, 6)
    assert np.array_equal(np.array(y), a[1:, ::2].T + 0.5)
    a[:2, :2] = 0
    assert np.array_equal(np.array(x), a)


def test_the_default_device(second):
    assert mx.default_device() == GPUS[1] and mx.default_stream(mx.default_device()).device == GPUS[1]
    before = [mx.device_info(d)["active_memory"] for d in GPUS]
    x = mx.ones((1 << 20,)) + 1
    mx.eval(x)
    after = [mx.device_info(d)["active_memory"] for d in GPUS]
    assert after[0] == before[0] and after[1] >= before[1] + (4 << 20)
    with mx.stream(GPUS[0]):
        assert mx.default_device() == GPUS[0]
    assert mx.default_device() == GPUS[1]


def test_memory_is_counted_on_each():
    mx.clear_cache()
    active, cached = ([mx.device_info(d)[key] for d in GPUS] for key in ("active_memory", "cache_memory"))
    total = mx.get_active_memory()
    x = mx.add(mx.ones((1 << 20,), stream=GPUS[0]), 1, stream=GPUS[0])
    mx.eval(x)
    assert mx.device_info(GPUS[0])["active_memory"] >= active[0] + (4 << 20)
    assert mx.device_info(GPUS[1])["active_memory"] == active[1]
    y = mx.add(x, 1, stream=GPUS[1])
    mx.eval(y)
    assert mx.device_info(GPUS[1])["active_memory"] >= active[1] + (4 << 20)
    assert mx.get_active_memory() >= total + (8 << 20)
    del x, y
    mx.synchronize(GPUS[0])
    mx.synchronize(GPUS[1])
    assert [mx.device_info(d)["active_memory"] for d in GPUS] == active
    assert all(mx.device_info(d)["cache_memory"] >= c + (4 << 20) for d, c in zip(GPUS, cached, strict=True))


def test_threads_on_devices_of_their_own():
    def count(device):
        with mx.stream(device):
            x = mx.zeros((1000,))
            for _ in range(200):
                x = x + 1
                mx.async_eval(x)
            return mx.default_device(), x.tolist()

    with ThreadPoolExecutor(4) as pool:
        for device, (seen, x) in zip(GPUS * 4, pool.map(count, GPUS * 4), strict=True):
            assert seen == device and x == [200.0] * 1000


def test_training_on_halves_of_the_data():
    """Gradients of each half on a GPU, added on the first, are those of all the data on one."""

    def train(devices):
        mx.random.seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
        mx.eval(model.parameters())
        opt = optim.Adam(1e-2)
        x, y = numbers(64, 8), mx.array(np.arange(64) % 3)
        step = nn.value_and_grad(model, lambda m, x, y: nn.losses.cross_entropy(m(x), y, reduction="sum"))
        losses, each = [], 64 // len(devices)
        for _ in range(5):
            parts = []
            for i, device in enumerate(devices):
                with mx.stream(device):
                    parts.append(step(model, x[i * each : (i + 1) * each], y[i * each : (i + 1) * each]))
            with mx.stream(GPUS[0]):
                loss = sum(part[0] for part in parts)
                opt.update(model, tree_map(lambda *g: sum(g) / 64, *[part[1] for part in parts]))
            mx.eval(loss, model.parameters(), opt.state)
            losses.append(loss.item())
        return losses

    one, two = train(GPUS[:1]), train(GPUS)
    assert np.allclose(one, two, rtol=1e-5) and two[-1] < two[0]


def test_an_index_out_of_range_is_told_on_the_second():
    program = """
import mlx.core as mx
mx.set_default_device(mx.Device(mx.gpu, 1))
try:
    mx.eval(mx.take(mx.arange(5.0), mx.array([7])))
except IndexError as e:
    print(e)
"""
    env = {**os.environ, "MLX_INDEX": "error"}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert ran.stdout.startswith("[take] index 7 at position (0,)"), ran.stderr


def test_memory_of_the_second_for_others(second):
    x = mx.arange(10.0) + 1
    mx.eval(x)
    assert x.__dlpack_device__() == (2, 1)
    assert x.tolist() == [i + 1.0 for i in range(10)]


def test_facts_of_each():
    facts = [mx.device_info(d) for d in GPUS]
    assert all(f["memory_size"] > 0 and f["device_name"] for f in facts)
    with pytest.raises(ValueError, match=f"{mx.device_count(mx.gpu)}"):
        mx.eval(mx.ones(3, stream=mx.Device(mx.gpu, mx.device_count(mx.gpu))))


def test_files_go_to_the_second(tmp_path):
    x = numbers(300, 1000)
    mx.save_safetensors(str(tmp_path / "x.safetensors"), {"x": x})
    y = mx.load(str(tmp_path / "x.safetensors"), stream=GPUS[1])["x"]
    before = mx.device_info(GPUS[0])["active_memory"]
    z = mx.multiply(y, 2, stream=GPUS[1])
    mx.eval(z)
    assert mx.device_info(GPUS[0])["active_memory"] == before
    assert np.array_equal(np.array(z), np.array(x) * 2)
