"""What nobody means to do: sizes without end, damaged files, objects that break their promises."""

import io
import os
import signal
import struct
import subprocess
import sys
import zipfile

import mlx.core as mx
import numpy as np
import pytest

# Sizes


def test_sizes_beyond_any_memory_are_errors():
    # Blocks of many sizes are cached first, and none of them must be taken.
    code = """
import mlx.core as mx
for k in range(8, 20):
    mx.eval(mx.ones((3 * 2 ** k // 4,)) + 1)
for e in range(40, 59):
    for quarters in range(4, 8):
        try:
            mx.eval(mx.broadcast_to(mx.array(1.0), (quarters << 27, 1 << (e - 29))) + 1)
        except MemoryError as error:
            assert "could not allocate" in str(error)
        else:
            raise AssertionError(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_split_into_too_many_parts_is_refused():
    with pytest.raises(ValueError, match="parts that divides axis 0 .* got 2147483647"):
        mx.split(mx.zeros((2, 3)), 2**31 - 1)
    before = mx.set_memory_limit(1 << 30)
    try:
        with pytest.raises(MemoryError):
            mx.split(mx.zeros(0), 2**31 - 1)
    finally:
        mx.set_memory_limit(before)


# Files


def test_bytes_that_are_no_text_in_a_header_are_quoted():
    header = b"{'descr': '\xff\xfe', 'fortran_order': False, 'shape': (), }\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    with pytest.raises(ValueError, match=r"bad npy header.*\\xff\\xfe"):
        mx.load(io.BytesIO(data), format="npy")


def archive():
    out = io.BytesIO()
    np.savez_compressed(out, a=np.arange(500.0))
    return bytearray(out.getvalue())


def test_damaged_archives_are_named(tmp_path):
    broken = []
    compressed = archive()
    start = struct.calcsize("<4s5H3I2H") + len("a.npy") + 20
    compressed[start : start + 8] = b"\xff" * 8
    broken.append(compressed)
    directory = archive()
    at = directory.rindex(b"PK\5\6")
    directory[at + 12 : at + 20] = b"\xff\xff\xff\x7f" * 2  # its length and place
    broken.append(directory)
    method = archive()
    method[method.index(b"PK\1\2") + 10] = 77
    method[8] = 77
    broken.append(method)
    path = tmp_path / "x.npz"
    for data in broken:
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"\[load\] .*archive"):
            mx.load(str(path))
        with pytest.raises(ValueError, match=r"\[load\] .*archive"):
            mx.load(io.BytesIO(data), format="npz")
    with pytest.raises(FileNotFoundError):
        mx.load(str(tmp_path / "none.npz"))
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("a.npy", b"nothing")
    with pytest.raises(ValueError, match=r"\[load\]"):
        mx.load(str(path))


# Processes


def in_child(body):
    """The exit status of a forked child that runs `body`; 14 negative where it hung."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(100)
        try:
            status = 0 if body() else 3
        except BaseException:
            status = 4
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


ON_GPU = mx.cuda.is_available() and mx.default_device() == mx.Device(mx.gpu, 0)


@pytest.mark.skipif(ON_GPU, reason="a GPU's driver does not work in a child")
def test_what_is_being_computed_at_a_fork_is_an_error_in_the_child():
    x = mx.ones((1500, 1500))
    mx.eval(x)

    def body():
        try:
            mx.eval(y)
        except RuntimeError as error:
            told = "forked" in str(error)
        else:
            told = True  # it was already done
        z = x @ x  # and the child computes on
        return told and z[0, 0].item() == 1500

    y = x @ x @ x
    mx.async_eval(y)
    assert in_child(body) == 0
    assert y[0, 0].item() == 1500.0**2
