"""Archives of npy files, and npy files, of every kind that NumPy writes; and those that are not what they say."""

import io
import os
import re
import struct
import subprocess
import sys
import zipfile
import zlib

import mlx.core as mx
import numpy as np
import pytest

DTYPES = ["?", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8"]


def sample(dtype, *shape):
    x = np.random.default_rng(3).integers(0, 100, shape)
    return (x > 50 if dtype == "?" else x).astype(dtype)


@pytest.fixture(params=["mapped", "read"])
def way(request, monkeypatch):
    monkeypatch.setenv("MLX_MMAP", "0" if request.param == "read" else "1")


# ---- npy


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("dtype", DTYPES)
def test_npy(tmp_path, way, dtype, order, version):
    for x in (sample(dtype, 3, 4, 5), np.asfortranarray(sample(dtype, 300, 200)), sample(dtype), sample(dtype, 0, 3)):
        x = x.astype(x.dtype.newbyteorder(order))
        with open(tmp_path / "x.npy", "wb") as f:
            np.lib.format.write_array(f, x, version=version)
        a = mx.load(tmp_path / "x.npy")
        assert a.shape == x.shape and np.array_equal(np.array(a), x)


@pytest.mark.parametrize("dtype", [*DTYPES, "bf16"])
def test_numpy_reads_ours(tmp_path, dtype):
    if dtype == "bf16":
        mx.save(tmp_path / "x.npy", mx.arange(5).astype(mx.bfloat16))
        assert np.load(tmp_path / "x.npy").view(np.uint16).tolist() == [0, 0x3F80, 0x4000, 0x4040, 0x4080]
        assert mx.load(tmp_path / "x.npy").dtype == mx.bfloat16
        return
    for x in (sample(dtype, 3, 4, 5), sample(dtype, 300, 200), sample(dtype), sample(dtype, 0, 3)):
        mx.save(tmp_path / "x.npy", mx.array(x, mx.float64 if dtype == "f8" else None))
        got = np.load(tmp_path / "x.npy")
        assert got.dtype == x.dtype and np.array_equal(got, x)


# ---- npz


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed, mx.savez, mx.savez_compressed])
def test_npz(tmp_path, way, save):
    arrays = {f"a/{t}.{i}é": sample(t, *shape) for t in DTYPES for i, shape in enumerate([(), (3,), (200, 300)])}
    ours = save in (mx.savez, mx.savez_compressed)
    given = {k: mx.array(v) for k, v in arrays.items()} if ours else arrays
    save(str(tmp_path / "x.npz"), *list(given.values())[:2], **given)
    arrays |= {"arr_0": arrays["a/?.0é"], "arr_1": arrays["a/?.1é"]}
    with open(tmp_path / "x.npz", "rb") as f:
        opened = mx.load(f)
    for got in (mx.load(tmp_path / "x.npz"), opened, np.load(tmp_path / "x.npz")):
        assert set(got) == set(arrays)
        for k, v in arrays.items():
            assert np.array_equal(np.array(got[k]), v)
    with zipfile.ZipFile(tmp_path / "x.npz") as z:
        assert z.testzip() is None
    assert np.array_equal(
        np.array(mx.load(tmp_path / "x.npz")["a/>f8.2é".replace(">", "")][50, 7:9]), arrays["a/f8.2é"][50, 7:9]
    )


def test_our_archives_can_be_mapped(tmp_path):
    mx.savez(tmp_path / "x.npz", a=mx.arange(100000), bcd=mx.arange(100000), z=mx.array([1]))
    got = mx.load(tmp_path / "x.npz", stream=mx.cpu)
    mx.eval(got)
    with open("/proc/self/maps") as f:
        assert sum("x.npz" in line for line in f) == 2
    assert got["bcd"][99999].item() == 99999


def test_zip64(tmp_path):
    path = tmp_path / "x.npz"
    content = io.BytesIO()
    np.save(content, np.arange(1000))
    with zipfile.ZipFile(path, "w") as z, z.open("a.npy", "w", force_zip64=True) as f:
        f.write(content.getvalue())
    assert mx.load(path)["a"].tolist() == list(range(1000))
    # The directory too says everything in 64 bits.
    data = path.read_bytes()
    at, end = data.rindex(b"PK\1\2"), data.rindex(b"PK\5\6")
    size = len(content.getvalue())
    wide = struct.pack("<HHQQQ", 1, 24, size, size, 0)
    entry = bytearray(data[at : at + 46])
    struct.pack_into("<II", entry, 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<H", entry, 30, len(wide))
    struct.pack_into("<I", entry, 42, 0xFFFFFFFF)
    central = bytes(entry) + b"a.npy" + wide
    end64 = at + len(central)
    last = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), at)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, end64, 1)
    tail = bytearray(data[end:])
    struct.pack_into("<HHII", tail, 8, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    path.write_bytes(data[:at] + central + last + locator + bytes(tail))
    assert np.array_equal(np.load(path)["a"], np.arange(1000))
    assert mx.load(path)["a"].tolist() == list(range(1000))


def test_comments_and_many_entries(tmp_path):
    arrays = {f"n{i}": np.full((3,), i) for i in range(3000)}
    np.savez(tmp_path / "x.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as z:
        z.comment = b"PK\5\6" * 1000
    got = mx.load(tmp_path / "x.npz")
    assert len(got) == 3000 and got["n2999"].tolist() == [2999] * 3


def one(compressed=True, x=None):
    f = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(f, a=np.zeros(1000) if x is None else x)
    return bytearray(f.getvalue())


def changed(at, fmt, *values, compressed=True, local=None):
    """With numbers of the entry in the directory, or of its own header, replaced."""
    data = one(compressed)
    struct.pack_into("<" + fmt, data, data.rindex(b"PK\1\2") + at, *values)
    if local is not None:
        struct.pack_into("<" + fmt, data, local, *values)
    return data


def two(overlap):
    f = io.BytesIO()
    np.savez(f, a=np.zeros(10), b=np.ones(10))
    data = bytearray(f.getvalue())
    second = data.rindex(b"PK\1\2")
    if overlap:
        struct.pack_into("<I", data, second + 42, 0)
    else:
        data[second + 46] = ord("a")
    return data


def named(name):
    """An archive whose entry has a name of these bytes."""
    data = one(False)
    while (at := data.find(b"a.npy")) >= 0:
        data[at : at + 5] = name
    return data


BAD = {
    "empty": (b"", "it has 0 bytes"),
    "text": (b"x" * 1000, "no directory is at its end"),
    "cut": (one()[:-30], "no directory"),
    "method": (changed(10, "H", 12), "packed by method 12"),
    "encrypted": (changed(8, "H", 1), "is encrypted"),
    "bomb": (changed(24, "I", 2**31), "more than .* deflated ones can hold"),
    "stored size": (changed(24, "I", 10, compressed=False), "is stored in"),
    "offset": (changed(42, "I", 2**31), "would be at 2147483648"),
    "offset 2": (changed(42, "I", 1), "expected the beginning of 'a'"),
    "packed": (changed(20, "I", 2**30), "would have 1073741824 bytes at"),
    "name length": (changed(28, "H", 60000), "an entry of the directory would have"),
    "twice": (two(False), "the name 'a' comes twice"),
    "overlap": (two(True), "'.' and '.' overlap"),
    "wide": (changed(42, "I", 2**32 - 1), "4294967295"),
    "not utf-8": (named(b"a\xff\xc3.b"), "the name 'a.*[.]b' is not UTF-8"),
    "surrogate": (named(b"a\xed\xa0\x80b"), "is not UTF-8"),
    "cut character": (named(b"abcd\xc3"), "is not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_archives(tmp_path, name):
    data, message = BAD[name]
    (tmp_path / "bad.npz").write_bytes(data)
    with pytest.raises(ValueError, match=rf"bad\.npz is not an npz archive: offset \d+: .*{message}"):
        mx.load(tmp_path / "bad.npz")
    with pytest.raises(ValueError, match=message):
        mx.load(io.BytesIO(bytes(data)), format="npz")


def test_names_beyond_ascii(tmp_path):
    names = ["é", "日本", "𝛑/x", "a/"]
    np.savez(tmp_path / "x.npz", **{name: np.full(2, i) for i, name in enumerate(names)})
    assert {k: v.tolist() for k, v in mx.load(tmp_path / "x.npz").items()} == {n: [i] * 2 for i, n in enumerate(names)}


def test_folders_in_archives(tmp_path):
    """NumPy lists them, with no array; here only what has one is there."""
    path = tmp_path / "x.npz"
    x = io.BytesIO()
    np.save(x, np.arange(3))
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", method) as z:
            z.writestr("d/", b"")
            z.writestr("d/a.npy", x.getvalue())
            z.writestr("d/e/", b"")
        assert {k: v.tolist() for k, v in mx.load(path).items()} == {"d/a": [0, 1, 2]}
    for name, content in (("d/", b"content"), ("d", b""), ("d/.npy", b"")):  # these are no folders
        with zipfile.ZipFile(path, "w") as z:
            z.writestr(name, content)
        with pytest.raises(ValueError, match=r"x\.npz: d/?: "):
            mx.load(path)


def test_more_than_there_is_memory(tmp_path):
    """What deflate could pack into a file with holes, which takes no room on the disk."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    packed = memory // 1000
    head = struct.pack("<4s5H3I2H", b"PK\3\4", 45, 0, 8, 0, 0, 0, 0, 0, 5, 0) + b"a.npy"
    wide = struct.pack("<HHQQ", 1, 16, memory + 1, packed)
    entry = struct.pack(
        "<4s6H3I5H2I", b"PK\1\2", 45, 45, 0, 8, 0, 0, 0, 2**32 - 1, 2**32 - 1, 5, len(wide), 0, 0, 0, 0, 0
    )
    entry += b"a.npy" + wide
    at = len(head) + packed
    end = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(entry), at)
    end += struct.pack("<4sIQI", b"PK\6\7", 0, at + len(entry), 1)
    end += struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    with open(tmp_path / "x.npz", "wb") as f:
        f.write(head)
        f.seek(at)
        f.write(entry + end)
    with pytest.raises(
        ValueError, match=rf"x\.npz.*offset {at}: 'a' would have {memory + 1} bytes, more than there is"
    ):
        mx.load(tmp_path / "x.npz")


def test_damaged_content(tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, 100000).astype(np.uint8)
    data = one(x=noise)
    data[5000:5010] = b"\0" * 10
    (tmp_path / "x.npz").write_bytes(data)
    with pytest.raises((ValueError, RuntimeError), match=r"x\.npz: a: damaged archive"):
        mx.eval(mx.load(tmp_path / "x.npz"))
    small = bytearray(one())
    struct.pack_into("<I", small, small.rindex(b"PK\1\2") + 16, 1)
    (tmp_path / "x.npz").write_bytes(small)
    with pytest.raises((ValueError, RuntimeError), match="the sum of its bytes"):
        mx.eval(mx.load(tmp_path / "x.npz"))
    # An entry that goes on after what it says it has is not read further; one that ends early is an error.
    body = zlib.compress(b"\x93NUMPY")[2:-4]
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("a.npy", b"\x93NUMPY")
    short = bytearray(f.getvalue())
    assert body in short
    struct.pack_into("<I", short, short.rindex(b"PK\1\2") + 24, 500)
    with pytest.raises(ValueError, match="the content ends early"):
        mx.load(io.BytesIO(bytes(short)), format="npz")


def npy(header, data=b"\0" * 8, version=1):
    if isinstance(header, str):
        header = header.encode("latin1")
    size = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"
BAD_NPY = {
    "empty": (b"", "the npy header needs 10 bytes at offset 0"),
    "magic": (b"\x93NUMPX" + b"\0" * 20, "does not begin with"),
    "version": (npy(GOOD, version=4), "version 1, 2 or 3, got 4.0"),
    "length": (npy(GOOD)[:30], "npy header has 55 bytes at offset 10"),
    "long": (b"\x93NUMPY\2\0\xff\xff\xff\xff", "npy header has 4294967295 bytes"),
    "overflow": (npy(GOOD.replace("2,", "2147483647, 2147483647, 2147483647")), "2147483647"),
    "large": (npy(GOOD.replace("2,", "4294967296,")), "sizes below 2\\^31"),
    "dims": (npy(GOOD.replace("2,", "1, " * 65)), "at most 64"),
    "negative": (npy(GOOD.replace("2,", "-2,")), "sizes below"),
    "deep": (npy(GOOD.replace("(2,)", "(" * 1000)), "sizes"),
    "objects": (npy(GOOD.replace("<f4", "|O")), "the type code"),
    "complex128": (npy(GOOD.replace("<f4", "<c16")), "the type code"),
    "records": (npy(GOOD.replace("'<f4'", "[('a', '<f4')]")), "structured types are not supported"),
    "twice": (npy(GOOD.replace("'fortran_order': False", "'descr': '<f4'")), "each once"),
    "missing": (npy("{'descr': '<f4', 'shape': (2,)}"), "'fortran_order'"),
    "order": (npy(GOOD.replace("False", "Maybe")), "True or False"),
    "code": (npy("__import__('os')"), "a dictionary"),
    "more": (npy(GOOD + "x"), "nothing after"),
}


@pytest.mark.parametrize("name", BAD_NPY)
def test_bad_npy(tmp_path, name):
    data, message = BAD_NPY[name]
    (tmp_path / "bad.npy").write_bytes(data)
    with pytest.raises(ValueError, match=rf"bad\.npy.*{message}") as e:
        mx.load(tmp_path / "bad.npy")
    assert re.search(r"offset \d+|does not begin", str(e.value))
    with pytest.raises(ValueError, match=message):
        mx.load(io.BytesIO(data), format="npy")


LIES = {"None": lambda *a: None, "negative": lambda *a: -5, "text": lambda *a: "x", "five": lambda *a: 5}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", ["tell", "seek"])
def test_files_that_lie_about_where_they_are(name, lie):
    """What they are told to write is whole, or there is an error; and reading ends in one."""
    lying = type("Lying", (io.BytesIO,), {name: lambda self, *a: LIES[lie](*a)})
    out = lying()
    try:
        mx.savez(out, a=mx.arange(3))
        assert mx.load(io.BytesIO(out.getvalue()), format="npz")["a"].tolist() == [0, 1, 2]
    except OSError as e:
        assert re.search(r"\[savez\] expected the file to be at \d+, its tell\(\) gave ", str(e))
    good = io.BytesIO()
    mx.savez(good, a=mx.arange(3))
    with pytest.raises(
        (mx.Error, OSError), match=r"\[load\] (the open file|expected tell\(\) of the file to give a pos)"
    ):
        mx.load(lying(good.getvalue()), format="npz")


def test_an_archive_behind_something_else():
    file = io.BytesIO(b"before")
    file.seek(6)
    mx.savez(file, a=mx.arange(3), b=mx.ones((2, 2)))
    assert file.getvalue()[:6] == b"before"
    with zipfile.ZipFile(file) as archive:
        assert np.load(archive.open("a.npy")).tolist() == [0, 1, 2]


class Writer:
    """No class of io: its write does what `take` says to it."""

    def __init__(self, take):
        self.take, self.data = take, b""

    def write(self, data):
        n = self.take(len(data))
        self.data += bytes(data)[: n if isinstance(n, int) and n > 0 else len(data) if n is None else 0]
        return n


@pytest.mark.parametrize("save", [mx.savez, mx.savez_compressed])
def test_writes_that_take_some(save):
    for take in (lambda n: min(n, 7), lambda n: None, lambda n: n):
        file = Writer(take)
        save(file, a=mx.arange(100))
        assert mx.load(io.BytesIO(file.data), format="npz")["a"].tolist() == list(range(100))
    for lie in (0, -1, 2**80, "a"):
        with pytest.raises(OSError, match=r"\[savez\] write\(\) of the file got \d+ bytes and returned"):
            save(Writer(lambda n, lie=lie: lie), a=mx.arange(100))


def test_an_interrupt_at_any_moment_is_one_and_leaves_nothing(tmp_path):
    code = f"""
import os, random, signal
import mlx.core as mx

def interrupt(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
random.seed(1)
a = mx.ones((30, 30))
mx.savez({str(tmp_path / "x.npz")!r}, a=a)
for _ in range(600):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + random.random() * 2e-3)
        mx.savez({str(tmp_path / "x.npz")!r}, a=a)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        pass
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    # One that comes while an array of the module or a file is let go of Python can only print.
    assert done.returncode == 0, done.stderr
    assert os.listdir(tmp_path) == ["x.npz"]
    assert mx.array_equal(mx.load(tmp_path / "x.npz")["a"], mx.ones((30, 30)))


def test_an_exception_of_a_handler_arrives_as_it_is():
    """Raised at any line of what writes an archive, as a signal's handler would."""

    class Stop(Exception):
        pass

    places = {("_npz.py", "write"), ("zipfile.py", "_open_to_write"), ("zipfile.py", "__exit__")}
    places |= {("__init__.py", name) for _, name in places}  # of zipfile, from Python 3.12 on

    def stopping(after):
        left = [after]

        def lines(frame, event, argument):
            left[0] -= event == "line"
            if left[0] < 0:
                raise Stop
            return lines

        def calls(frame, event, argument):
            code = frame.f_code
            return lines if (os.path.basename(code.co_filename), code.co_name) in places else None

        return calls

    stopped, before = 0, sys.gettrace()
    while True:
        sys.settrace(stopping(stopped))
        try:
            mx.savez(io.BytesIO(), a=mx.ones(3))
            break
        except Stop:
            stopped += 1
        finally:
            sys.settrace(before)
    assert stopped > 20


@pytest.mark.parametrize("name, message", [
    ("x" * 65532, "at most 65531 bytes, got 65532"),
    ("\u00e9" * 32766, "at most 65531 bytes, got 65532"),
    ("a\ud800", "that UTF-8 can hold"),
    ("a\0b", "without null characters"),
])  # fmt: skip
@pytest.mark.parametrize("save", [mx.savez, mx.savez_compressed])
def test_names_that_an_entry_cannot_have(save, name, message, tmp_path):
    """They are known before anything is written."""
    out = io.BytesIO()
    for file in (out, tmp_path / "x.npz"):
        with pytest.raises(mx.Error, match=rf"^\[savez\w*\] expected names .*{message}"):
            save(file, first=mx.ones(2), **{name: mx.ones(3)})
    assert not out.getvalue() and not any(tmp_path.iterdir())


def test_the_longest_name(tmp_path):
    name, path = "x" * 65531, tmp_path / "x.npz"
    mx.savez(path, **{name: mx.arange(3)})
    assert list(mx.load(str(path))) == list(np.load(path)) == [name]
