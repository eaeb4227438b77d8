"""Devices that are not there, and the CPU in place of a GPU."""

import os
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

without_gpu = pytest.mark.skipif(mx.is_available(mx.gpu), reason="there is a GPU")


@without_gpu
def test_a_stream_is_asked_for_when_it_is_entered():
    context = mx.stream(mx.gpu)
    mx.StreamContext(mx.Device(mx.gpu, 2))
    with pytest.raises(ValueError, match=r"there is no Device\(gpu, 0\).*MLX_GPU=cpu"), context:
        pass
    assert mx.default_device() == mx.cpu
    with pytest.raises(TypeError, match="must be a Stream"):
        mx.stream("gpu")


def test_facts():
    assert {"architecture", "device_name", "memory_size"} <= mx.device_info(mx.cpu).keys()
    assert mx.device_info(mx.Device(mx.gpu, 15)) == {}


PROGRAM = """
import mlx.core as mx
with mx.stream(mx.gpu):
    x = mx.array([1.0, 2.0]) + 1
s = mx.new_stream(mx.gpu)
y = mx.add(x, 1, stream=mx.gpu) + mx.add(x, 1, stream=s)
mx.synchronize(mx.default_stream(mx.gpu))
mx.set_default_device(mx.gpu)
print(y.tolist(), mx.default_device(), mx.default_stream(mx.gpu) == mx.default_stream(mx.cpu))
print(mx.device_count(mx.gpu), mx.is_available(mx.gpu), mx.device_info(mx.gpu))
"""


def test_the_cpu_stands_in():
    env = {**os.environ, "MLX_GPU": "cpu"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True)
    assert done.stdout == "[6.0, 8.0] Device(cpu, 0) True\n0 False {}\n", done.stderr


@pytest.mark.parametrize("device", [mx.Device(mx.cpu, 77), mx.Device(mx.gpu, 16)], ids=str)
def test_an_index_without_a_device(device):
    for use in (
        lambda: mx.zeros(2, stream=device),
        lambda: mx.default_stream(device),
        lambda: mx.new_stream(device),
        lambda: mx.set_default_device(device),
        lambda: mx.asarray([1.0], device=device),
    ):
        with pytest.raises(
            ValueError, match=rf"there is no Device\({device.type.name}, {device.index}\): this machine"
        ):
            use()
    with pytest.raises(ValueError, match="there is no Device"), mx.stream(device):
        pass


@without_gpu
@pytest.mark.parametrize("asked, device", [("cpu", "cpu"), ("gpu", "gpu"), ("", "cpu"), ("tpu", "cpu")])
def test_the_environment_names_the_default_device(asked, device):
    code = (
        "import mlx.core as mx; print(mx.default_device()); mx.set_default_device(mx.cpu); print(mx.default_device())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"MLX_DEFAULT_DEVICE": asked}
    )
    assert done.stdout == f"Device({device}, 0)\nDevice(cpu, 0)\n", done.stderr


@pytest.mark.parametrize(
    "index, kind, message",
    [
        (2**31, mx.IntegerOverflowError, r"\[Device\] expected an int of 32 bits for 'index', got 2147483648"),
        (-(2**70), mx.IntegerOverflowError, r"\[Device\] expected an int of 32 bits"),
        (0.5, mx.ConversionError, r"Device\(\): argument 'index' must be an int, not float"),
        ("0", mx.ConversionError, "must be an int, not str"),
        (None, mx.ConversionError, "must be an int, not NoneType"),
    ],
)
def test_numbers_of_devices(index, kind, message):
    with pytest.raises(kind, match=message):
        mx.Device(mx.cpu, index)
    assert mx.Device(mx.cpu, np.int64(3)).index == 3
