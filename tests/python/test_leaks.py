"""Exporting, importing, saving and loading again and again: memory, objects and open files stay as many."""

import ctypes
import gc
import io
import os
import pathlib
import sys
import tempfile

import mlx.core as mx
import pytest

X = mx.arange(300.0).reshape(3, 100)


class Info(ctypes.Structure):
    """What mallinfo2 tells."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks",
                "fsmblks", "uordblks", "fordblks", "keepcost")]  # fmt: skip


def in_use():
    """Bytes that the C library has given out, arrays' bytes, Python's blocks, open files."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = Info
    info = mallinfo()
    files = len(os.listdir("/proc/self/fd"))
    return info.uordblks + info.hblkhd, mx.get_active_memory(), sys.getallocatedblocks(), files


def refused(*errors):
    """A context for what fails each time."""
    return pytest.raises(errors or (ValueError, RuntimeError))


def function(x, scale=None):
    y = mx.softmax(x @ x.T, axis=-1) + mx.arange(3)
    return y if scale is None else (y * scale, mx.scan(lambda c, r: (c + r, c), x[0], x)[0])


def both(path):
    with mx.exporter(path, function, portable=False) as e:
        e(X)
        e(X, scale=mx.array(2.0))


def written(format, *more):
    """A save and a load of each format, also through an open file."""
    save = {"npy": mx.save, "npz": mx.savez, "safetensors": mx.save_safetensors, "gguf": mx.save_gguf}[format]
    arrays = X if format == "npy" else {"a": X, "b": X + 1}

    def act(folder):
        path = f"{folder}/x.{format}"
        if format == "npz":
            save(path, **arrays)
        else:
            save(path, arrays, *more)
        loaded = mx.load(path)
        mx.eval(loaded)
        part = mx.load(path)["a"] if format != "npy" else mx.load(path)
        part[1:].sum().item()
        with open(path, "rb") as f:
            mx.eval(mx.load(f, format=format))

    return act


def damaged(folder):
    for format in ("npy", "npz", "safetensors", "gguf"):
        with refused():
            mx.load(f"{folder}/damaged.{format}")
    with refused():
        mx.eval(mx.load(f"{folder}/cut.npy"))
    with refused(FileNotFoundError, ValueError, RuntimeError):
        mx.load(f"{folder}/none.npy")
    with refused(OSError, ValueError, RuntimeError):
        mx.save(f"{folder}/no/folder.npy", X)
    with refused():
        mx.import_function(f"{folder}/damaged.mlxfn")
    with refused():
        mx.import_function(f"{folder}/lie.mlxfn")


def failing(folder):
    def no(x):
        raise ZeroDivisionError

    with refused(ZeroDivisionError):
        mx.export_function(f"{folder}/no.mlxfn", no, X)
    with refused():
        mx.export_function(f"{folder}/no.mlxfn", lambda x: "no array", X)


def called(folder):
    f = mx.import_function(f"{folder}/f.mlxfn")
    mx.eval(f(X), f(X, scale=mx.array(3.0)))
    with refused():
        f(X[:2])
    mx.inspect_function(f"{folder}/f.mlxfn")


def exported_again(folder):
    f = mx.import_function(f"{folder}/f.mlxfn")
    mx.export_function(f"{folder}/again.mlxfn", f, X)
    mx.eval(mx.compile(f)(X), mx.grad(lambda x: f(x)[0].sum())(X))


def stream_contexts(folder):
    for _ in range(20):
        with mx.stream(mx.default_stream(mx.cpu)):
            mx.new_thread_local_stream(mx.cpu)


ACTIONS = {
    "npy": written("npy"),
    "npz": written("npz"),
    "safetensors": written("safetensors", {"a": "b"}),
    "gguf": written("gguf", {"a": "b", "c": mx.array([1, 2])}),
    "damaged": damaged,
    "export": lambda folder: both(f"{folder}/g.mlxfn"),
    "failing": failing,
    "import": called,
    "exported again": exported_again,
    "streams": lambda folder: mx.save(io.BytesIO(), X),
    "stream contexts": stream_contexts,
}


def prepare(folder):
    both(f"{folder}/f.mlxfn")
    here = pathlib.Path(folder)
    data = (here / "f.mlxfn").read_bytes()
    (here / "damaged.mlxfn").write_bytes(data[:-9])
    (here / "lie.mlxfn").write_bytes(data.replace(b"Softmax", b"Sigmoid").replace(b"Transpose", b"Transposf"))
    for format in ("npy", "npz", "safetensors", "gguf"):
        ACTIONS[format](folder)
        data = (here / f"x.{format}").read_bytes()
        (here / f"damaged.{format}").write_bytes(data[:50])
    (here / "cut.npy").write_bytes((here / "x.npy").read_bytes()[:-4])


@pytest.fixture
def folder(tmp_path):
    """In memory, where there is such a folder: writing takes most of the time."""
    if not os.access("/dev/shm", os.W_OK):
        yield str(tmp_path)
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield folder


def loop(folder, name, count):
    prepare(folder)
    act = ACTIONS[name]
    for _ in range(300):  # until every cache is full
        act(folder)
    before = in_use()
    for _ in range(count):
        act(folder)
    grown = [after - b for after, b in zip(in_use(), before)]
    assert grown[3] == 0 and grown[1] == 0, grown
    assert grown[0] < 1 << 14 and grown[2] < 500, grown


@pytest.mark.parametrize("name", ACTIONS)
def test_a_thousand_times(folder, name):
    loop(folder, name, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIONS)
def test_twenty_thousand_times(folder, name):
    loop(folder, name, 20_000)
