"""Processes that write one file, and others that read it meanwhile: each sees one file, whole."""

import itertools
import subprocess
import sys
import time

import mlx.core as mx
import numpy as np
import pytest

MAPPED_OR_READ = itertools.cycle("10")  # MLX_MMAP
# Writes files of its own number, of other sizes each time, until it is told to stop.
WRITER = """
import sys, mlx.core as mx
form, path, number = sys.argv[1], sys.argv[2], int(sys.argv[3])

def save(n):
    arrays = {name: mx.full((n,), number, mx.float32) for name in "abc"}
    if form == "npy":
        mx.save(path, arrays["a"])
    elif form == "npz":
        mx.savez(path, **arrays)
    elif form == "safetensors":
        mx.save_safetensors(path, arrays, {"number": str(number)})
    elif form == "gguf":
        mx.save_gguf(path, arrays, {"number": str(number)})
    else:
        try:
            with mx.exporter(path, lambda x: [arrays[name][: x.size] + x for name in "abc"]) as e:
                for k in range(1, 4):
                    e(mx.zeros((k,)))
        except mx.Error as error:  # told, instead of written to where nobody reads it
            if "has been replaced" not in str(error):
                raise

n = 0
print("ready", flush=True)
while True:
    n = n % 7 + 1
    save(n * 3001 * number)
"""


def read(form, path):
    """All arrays of a file, of which a function's are what it gives."""
    if form == "mlxfn":
        f = mx.import_function(path)
        known = len(mx.inspect_function(path)["traces"])
        assert known in (1, 2, 3)
        return f(mx.zeros((1,)))
    loaded = mx.load(path, return_metadata=form in ("safetensors", "gguf"))
    if form == "npy":
        return [loaded]
    if form == "npz":
        return list(loaded.values())
    arrays, told = loaded
    numbers = {float(told["number"])}
    assert {a[0].item() for a in arrays.values()} == numbers
    return list(arrays.values())


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors", "gguf", "mlxfn"])
def test_two_write_and_one_reads(tmp_path, monkeypatch, form):
    path = str(tmp_path / f"x.{form}")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, form, path, str(number)], stdout=subprocess.PIPE)
        for number in (1, 2)
    ]
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"ready\n"
        while not (tmp_path / f"x.{form}").exists():
            time.sleep(0.01)
        seen, end = set(), time.monotonic() + 0.7
        while time.monotonic() < end or len(seen) < 2:
            monkeypatch.setenv("MLX_MMAP", next(MAPPED_OR_READ))
            arrays = [np.array(a) for a in read(form, path)]
            number = arrays[0].flat[0]
            assert number in (1, 2) and len({a.size for a in arrays}) == 1
            assert all((a == number).all() for a in arrays)
            seen.add(number)
            assert time.monotonic() < end + 60
        assert all(writer.poll() is None for writer in writers)
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()
    assert np.array(read(form, path)[0]).size  # whoever was killed left a whole one
    assert len(list(tmp_path.iterdir())) <= 3  # and at most the new one's name


ADDER = """
import sys, mlx.core as mx
while True:
    with mx.exporter(sys.argv[1], lambda x: mx.sin(x) + mx.arange(x.size)) as e:
        for n in range(1, 60):
            e(mx.zeros((n,)))
"""


def test_traces_that_are_added_while_a_function_is_read(tmp_path, monkeypatch):
    path = tmp_path / "f.mlxfn"
    writer = subprocess.Popen([sys.executable, "-c", ADDER, path])
    try:
        while not path.exists():
            time.sleep(0.01)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            monkeypatch.setenv("MLX_MMAP", next(MAPPED_OR_READ))
            f = mx.import_function(str(path))
            assert f(mx.zeros((1,)))[0].item() == 0
            assert mx.inspect_function(str(path))["traces"]
        assert writer.poll() is None
    finally:
        writer.kill()
        writer.wait()
