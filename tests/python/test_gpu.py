"""Programs on a GPU, each beside the same on the CPU; skipped where there is none (`make test-gpu` runs them)."""

import ctypes
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")

FLOATS = [mx.float32, mx.float16, mx.bfloat16, mx.float64]
INTEGERS = [mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64]
TABLE = (Path(__file__).resolve().parents[2] / "src" / "ops" / "ops.def").read_text()


def slope(f):
    return lambda x: mx.vjp(f, [x], [mx.ones_like(x)])[1][0]


# Rows of the table that are no functions of mlx.core by their names, by what makes them.
BY_OTHER_NAMES = {"rint": mx.round, "sigmoid_slope": slope(mx.sigmoid), "silu": nn.silu, "silu_slope": slope(nn.silu)}


def rows(kind):
    """The element-wise operations."""
    names = re.findall(rf"^{kind} *\((\w+),", TABLE, re.M)
    assert len(names) > 20
    return {name: getattr(mx, name, None) or BY_OTHER_NAMES[name] for name in names}


UNARY, BINARY = rows("UNARY"), rows("BINARY")


def launches(f):
    """What f gives, evaluated at once, and how many kernels that took; None where nobody counts."""
    counts = mx.device_info(mx.gpu)["device_name"] == "emulated"
    counted = lambda: counts and ctypes.c_int.in_dll(ctypes.CDLL("libcuda.so.1"), "emulated_launched").value  # noqa: E731
    before = counted()
    mx.eval(y := f())
    mx.synchronize(mx.gpu)
    return y, counted() - before if counts else None


def test_it_is_there():
    assert mx.cuda.is_available() and not mx.metal.is_available()
    assert mx.default_device() == mx.Device(mx.gpu, 0)


@pytest.mark.skipif(
    not mx.is_available(mx.gpu) or mx.device_info(mx.gpu)["device_name"] != "emulated",
    reason="needs a pretended device",
)
def test_a_device_without_kernels_is_none():
    """One that is older than all that the build has kernels for, which is 0 for those of the emulated driver."""
    code = "print(mx.default_device(), mx.device_count(mx.gpu), mx.cuda.is_available(), (mx.ones(3) + 1).tolist())"
    ran = subprocess.run(
        [sys.executable, "-c", f"import mlx.core as mx; {code}"],
        env={**os.environ, "PRETEND_MAJOR": "-1", "MLX_LOG": "libraries"},
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "Device(cpu, 0) 0 False [2.0, 2.0, 2.0]\n", ran.stderr
    assert ran.stderr == (
        "mlx: no GPU from number 0 on is used: this build has no kernels for compute capability -1.0\n"
    )


def operands(dtype, n, seed):
    """Numbers over the range of a type, special ones among them."""
    r = np.random.default_rng(seed)
    if dtype == mx.bool_:
        return mx.array(r.integers(0, 2, n).astype(bool))
    if dtype in INTEGERS:
        x = mx.array(r.integers(-(2**62), 2**62, n)).astype(dtype)
        return mx.concatenate([x, mx.array([0, 1, 2, 3, 7, 31, 64, 100]).astype(dtype)])
    x = r.standard_normal(n) * 10.0 ** r.uniform(-6, 4, n)
    x = np.concatenate([x, [0.0, -0.0, 1, -1, 0.5, np.inf, -np.inf, np.nan, 1e-30, 1e30]])
    if dtype == mx.complex64:
        return mx.array((x + 1j * r.permutation(x)).astype(np.complex64))
    with mx.stream(mx.cpu):
        return mx.array(x, mx.float64).astype(dtype)


def bits(x):
    """NaN is one value."""
    with mx.stream(mx.cpu):
        x = mx.contiguous(x.reshape(-1))
        if x.dtype == mx.complex64:
            x = mx.view(x, mx.float32)
        if x.dtype in FLOATS:
            x = mx.where(mx.isnan(x), mx.array(float("nan"), x.dtype), x)
        width = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}[x.dtype.size]
        return np.array(mx.view(x, width))


# What half types have formulas of their own for on a GPU (test_gpu_halves.py has all their numbers).
OWN_OF_HALVES = "exp expm1 log log2 log10 log1p tanh erf sigmoid sqrt rsqrt divide logaddexp power"
DERIVED_OF_HALVES = "silu silu_slope sigmoid_slope"


def same(f, *x, own=()):
    """f on both devices: equal to the bit, and made on the GPU. Of half types one result in a hundred may be near,
    where `own` has operations that these have formulas of their own for."""
    try:
        with mx.stream(mx.cpu):
            there = f(*x)
            mx.eval(there)
    except ValueError:
        return
    with mx.stream(mx.gpu):
        here = f(*x)
        mx.eval(here)
    assert here.dtype == there.dtype and here.shape == there.shape
    a, b = bits(here), bits(there)
    if here.dtype in (mx.float16, mx.bfloat16) and set(own) & {*OWN_OF_HALVES.split(), *DERIVED_OF_HALVES.split()}:
        off = np.abs(a.astype(np.int64) - b)
        assert off.max(initial=0) <= 4 and np.count_nonzero(off) <= 1 + off.size // 100
    else:
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, mx.bool_, mx.complex64], ids=str)
def test_unary(name, dtype):
    same(UNARY[name], operands(dtype, 1001, 1), own=[name])


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, mx.bool_, mx.complex64], ids=str)
def test_binary(name, dtype):
    if name == "power" and dtype in (mx.float64, mx.complex64):
        pytest.skip("the power of doubles is the platform's")
    a = operands(dtype, 1001, 1)
    same(BINARY[name], a, a[::-1], own=[name])


LAYOUTS = {
    "row": lambda x: x,
    "transposed": lambda x: x.T,
    "sliced": lambda x: x[1:, ::2],
    "offset": lambda x: x.reshape(-1)[3:],
    "broadcast row": lambda x: mx.broadcast_to(x[0], x.shape),
    "broadcast column": lambda x: mx.broadcast_to(x[:, :1], x.shape),
    "deep": lambda x: x.reshape(2, 4, 2, 8, 4).transpose(4, 1, 3, 0, 2),
    "empty": lambda x: x[:0],
    "one": lambda x: x[3, 4],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.uint8, mx.int64], ids=str)
def test_layouts(layout, dtype):
    x = operands(mx.float32, 502, 3)[:512].reshape(16, 32).astype(dtype)
    y = operands(mx.float32, 502, 4)[:512].reshape(16, 32).astype(dtype)
    mx.eval(x, y)
    view = LAYOUTS[layout]
    same(lambda a, b: view(a) + view(b), x, y)
    same(lambda a, b: view(a) * b.reshape(-1)[:1], x, y)
    same(lambda a: mx.negative(view(a)), x)


def test_programs_run_whole_and_agree():
    def train(device):
        mx.set_default_device(device)
        mx.random.seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
        opt = optim.Adam(1e-2)
        x, y = mx.random.normal((64, 8)), mx.random.randint(0, 3, (64,))
        step = nn.value_and_grad(model, lambda m: nn.losses.cross_entropy(m(x), y, reduction="mean"))
        losses = []
        for _ in range(5):
            loss, grads = step(model)
            opt.update(model, grads)
            mx.eval(model.parameters(), opt.state)
            losses.append(loss.item())
        return losses

    before = mx.default_device()
    try:
        cpu, gpu = train(mx.cpu), train(mx.gpu)
    finally:
        mx.set_default_device(before)
    assert np.allclose(cpu, gpu, rtol=1e-5) and gpu[-1] < gpu[0]


def test_streams_and_devices_follow_each_other():
    x = mx.arange(1000.0)
    beside = mx.new_stream(mx.gpu)
    for i in range(30):
        x = mx.add(x, 1, stream=[mx.gpu, mx.cpu, beside][i % 3])
        if i % 7 == 0:
            mx.async_eval(x)
    assert x.tolist() == [i + 30.0 for i in range(1000)]


def test_memory_comes_back():
    mx.synchronize()
    before = mx.get_active_memory()
    for _ in range(50):
        x = mx.ones((1 << 20,)) + 1
        mx.eval(x * 2)
    del x
    mx.synchronize()
    assert mx.get_active_memory() <= before + (1 << 16)


def test_facts():
    facts = mx.device_info(mx.gpu)
    assert facts["memory_size"] > 0 and facts["device_name"]


def test_a_block_of_a_thread_is_its_own():
    """What `with mx.stream` says in one thread others do not hear, in whatever order they enter and leave."""
    first, second = (ThreadPoolExecutor(1) for _ in range(2))
    cpu, gpu, before = mx.Device(mx.cpu), mx.Device(mx.gpu), mx.default_device()

    def devices():
        return [f(mx.default_device) for f in (call_first, call_second, lambda f: f())]

    def call_first(f, *x):
        return first.submit(f, *x).result()

    def call_second(f, *x):
        return second.submit(f, *x).result()

    one, two = mx.stream(mx.cpu), mx.stream(mx.gpu)
    call_first(one.__enter__)
    assert devices() == [cpu, before, before]
    call_second(two.__enter__)
    assert devices() == [cpu, gpu, before]
    try:
        mx.set_default_device(mx.cpu)
        call_second(mx.set_default_device, mx.cpu)  # within its block
        assert devices() == [cpu, cpu, cpu]
        call_first(one.__exit__)
        mx.set_default_device(mx.gpu)
        assert devices() == [gpu, cpu, gpu]
        call_second(two.__exit__)
        assert devices() == [gpu, gpu, gpu]
    finally:
        mx.set_default_device(before)
    with mx.stream(mx.cpu):
        with mx.stream(mx.gpu):
            assert mx.default_device() == gpu
        assert mx.default_device() == cpu
    assert devices() == [before] * 3


def test_small_blocks_go_when_none_of_their_slab_is_in_use():
    """80 MB of each of several sizes, one after the other, are not held all at once."""
    if "PYTEST_XDIST_WORKER" in os.environ and mx.device_info(mx.gpu)["device_name"] != "emulated":
        pytest.skip("other workers take memory of the same GPU meanwhile")

    def free():
        mx.clear_cache()
        return mx.device_info(mx.gpu)["free_memory"]

    def use(kilobytes, megabytes):
        few = [mx.full((kilobytes * 256,), 1.0) for _ in range(megabytes * 1000 // kilobytes)]
        mx.eval(few)
        kept = few[::101]
        del few
        mx.clear_cache()
        more = [mx.full((kilobytes * 256,), 2.0) for _ in range(20)]
        mx.eval(more)
        assert all(mx.all(x == 1).item() for x in kept)

    sizes = (4, 20, 100, 250, 600)
    for kilobytes in sizes:  # whatever the driver takes for kernels
        use(kilobytes, 1)
    before = free()
    for kilobytes in sizes:
        use(kilobytes, 80)
    assert before - free() < 100e6
