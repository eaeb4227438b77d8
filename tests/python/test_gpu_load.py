"""Files that are loaded to a GPU, through pinned memory piece by piece; skipped where there is none."""

import os
import subprocess
import sys
import threading

import mlx.core as mx
import numpy as np
import pytest

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]

MIB = 1 << 20


def values(dtype, *shape):
    bits = np.random.default_rng(len(shape)).integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if np.dtype(dtype).kind in "fc":
        bits[..., :] &= 0x3F  # no NaN
    return bits.view(dtype)[..., 0]


def same(a, x):
    assert a.shape == x.shape
    assert np.array_equal(np.array(a), x)


@pytest.mark.parametrize("mmap", "01")
@pytest.mark.parametrize("dtype", ["f4", ">f4", ">f8", "<i2", ">i2", ">c8", "u1", "f2", ">u8"])
@pytest.mark.parametrize("size", [0, 3, 70_000, 5 * MIB + 24])
def test_npy(tmp_path, monkeypatch, dtype, size, mmap):
    monkeypatch.setenv("MLX_MMAP", mmap)
    x = values(dtype, size // 8, 8 // np.dtype(dtype).itemsize)
    np.save(tmp_path / "x.npy", x)
    a = mx.load(tmp_path / "x.npy", stream=mx.gpu)
    same(a + 1 if dtype != "u1" else a, x.astype(x.dtype.newbyteorder("=")) + 1 if dtype != "u1" else x)


def test_orders_and_slices(tmp_path):
    x = values(">f4", 300, 70, 60)
    for order in "CF":
        np.save(tmp_path / "x.npy", np.asarray(x, order=order))
        a = mx.load(tmp_path / "x.npy")
        same(a[5:290:3, ::-1], x[5:290:3, ::-1])
        same(a, x)


def test_bools_of_any_byte(tmp_path):
    x = np.random.default_rng(0).integers(0, 4, 9 * MIB + 5).astype(np.uint8)
    np.save(tmp_path / "x.npy", x.view(np.bool_))
    with mx.stream(mx.gpu):
        a = mx.load(tmp_path / "x.npy")
        same(mx.view(a, mx.uint8), (x != 0).astype(np.uint8))


def test_safetensors(tmp_path):
    arrays = {
        "large": values("f4", 2000, 1500),
        "odd": values("u1", 4 * MIB + 13),  # what follows is not aligned
        "small": values("i8", 7),
        "none": values("f2", 0, 3),
        "number": values("f8", 1)[0],
        "half": values("f2", 999, 3000),
    }
    path = tmp_path / "x.safetensors"
    mx.save_safetensors(path, {k: mx.array(v) for k, v in arrays.items()})
    loaded = mx.load(path, stream=mx.gpu)
    mx.eval(loaded)
    for name, a in loaded.items():
        same(mx.contiguous(a, stream=mx.gpu), np.array(mx.array(arrays[name])))


def test_npz(tmp_path):
    x, y = values("f4", 2 * MIB), values("i4", 11, 13)
    np.savez(tmp_path / "x.npz", x=x, y=y)
    loaded = mx.load(tmp_path / "x.npz")
    same(mx.negative(loaded["x"]), -x)
    same(loaded["y"], y)


def test_deflated(tmp_path, capfd):
    """By the CPU: such bytes come one after the other."""
    x = values("f4", 2 * MIB)
    np.savez_compressed(tmp_path / "x.npz", x=x)
    same(mx.negative(mx.load(tmp_path / "x.npz")["x"]), -x)
    capfd.readouterr()  # the log says so


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", "Q5_0", "Q6_K", "F16"])
def test_gguf(tmp_path, kind):
    """Packed weights are taken apart on the way."""
    gguf = pytest.importorskip("gguf")
    rows = np.random.default_rng(3).standard_normal((700, 2048)).astype(np.float32)
    kind = gguf.GGMLQuantizationType[kind]
    try:
        packed = gguf.quants.quantize(rows, kind)
    except NotImplementedError:
        packed = None
    if packed is None:
        items, size = gguf.GGML_QUANT_SIZES[kind]
        packed = np.random.default_rng(4).integers(0, 60, (700, 2048 // items * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "none")
    writer.add_tensor("x.weight", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    there, here = (mx.load(tmp_path / "x.gguf", stream=s) for s in (mx.gpu, mx.cpu))
    assert there.keys() == here.keys()
    for name in here:
        same(mx.view(there[name], mx.uint8), np.array(mx.view(here[name], mx.uint8, stream=mx.cpu)))


def test_no_copy_of_it_is_in_host_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("MLX_MMAP", "0")
    np.save(tmp_path / "x.npy", values("f4", 16 * MIB))
    a = mx.load(tmp_path / "x.npy", stream=mx.gpu)
    mx.synchronize()
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(a)
    assert a.nbytes <= mx.get_peak_memory() - before <= a.nbytes + MIB


@pytest.mark.parametrize("size", [1000, 100_000, 3 * MIB])
def test_arrays_that_are_cut_off(tmp_path, size):
    path = tmp_path / "x.npy"
    x = values("f4", size)
    np.save(path, x)
    os.truncate(path, os.path.getsize(path) - 4)
    whole = mx.load(path, stream=mx.gpu)
    for a in (whole, mx.negative(whole, stream=mx.gpu)):
        with pytest.raises(RuntimeError, match=rf"x\.npy: shape .* of float32 needs {4 * size} bytes at offset"):
            mx.eval(a)
    same(mx.negative(whole[:-1], stream=mx.gpu), -x[:-1])


@pytest.mark.parametrize("change", ["cut", "grown", "replaced"])
def test_files_that_change(tmp_path, change):
    path = tmp_path / "x.npy"
    x = values("f4", 3 * MIB)
    np.save(path, x)
    a = mx.load(path, stream=mx.gpu)
    if change == "cut":
        os.truncate(path, 5 * MIB)
    elif change == "grown":
        with open(path, "ab") as f:
            f.write(b"more")
    else:
        np.save(tmp_path / "y.npy", x + 1)
        os.replace(tmp_path / "y.npy", path)
        same(mx.negative(a, stream=mx.gpu), -x)
        return
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"x\.npy was changed after it was opened"):
            mx.eval(a)
    same(mx.negative(mx.array(x), stream=mx.gpu), -x)


def test_several_threads(tmp_path):
    x = [values("f4", 3 * MIB + i) + i for i in range(3)]
    for i, v in enumerate(x):
        np.save(tmp_path / f"{i}.npy", v)
    wrong = []

    def work(i):
        stream = mx.new_stream(mx.gpu)
        for _ in range(3):
            a = mx.load(tmp_path / f"{i}.npy", stream=stream)
            mx.async_eval(a)
            if not np.array_equal(np.array(mx.negative(a, stream=stream)), -x[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_an_exit_meanwhile(tmp_path):
    """Pinned memory goes with the driver: nobody writes to it then."""
    np.save(tmp_path / "x.npy", np.zeros(64 * MIB, np.uint8))
    program = """
import sys
import mlx.core as mx
a = [mx.load(sys.argv[1], stream=mx.gpu) for i in range(6)]
mx.async_eval(a)
print("well", flush=True)
"""
    for _ in range(3):
        ran = subprocess.run([sys.executable, "-c", program, tmp_path / "x.npy"], capture_output=True, text=True)
        assert (ran.returncode, ran.stdout) == (0, "well\n"), ran.stderr
