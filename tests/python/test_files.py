"""Arrays in files: nothing is read before it is needed, and then only what is needed."""

import io
import os
import pathlib
import signal
import subprocess
import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest


def bytes_read():
    """Bytes this process asked the system to read."""
    with open("/proc/self/io") as f:
        return int(f.readline().split()[1])


@pytest.fixture(params=["mapped", "read"])
def way(request, monkeypatch):
    if request.param == "read":
        monkeypatch.setenv("MLX_MMAP", "0")
    return request.param


def values(*shape, dtype=np.float32):
    return np.random.default_rng(1).integers(0, 100, shape).astype(dtype)


def test_nothing_is_read_before_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setenv("MLX_MMAP", "0")
    n = 1 << 20
    mx.save_safetensors(tmp_path / "a.safetensors", {"a": mx.zeros((n,)), "b": mx.ones((n,))})
    before = bytes_read()
    d = mx.load(tmp_path / "a.safetensors")
    assert bytes_read() - before < 10000
    mx.eval(d["a"])
    assert 4 * n <= bytes_read() - before < 4 * n + 20000
    assert mx.sum(d["b"]).item() == n


@pytest.mark.parametrize(
    "index, rows",
    [
        (np.s_[3:5], 2),
        (np.s_[-2:], 2),
        (np.s_[7], 1),
        (np.s_[5:1:-2], 3),
        (np.s_[2:9:3, ::-1], 7),
        (np.s_[:, 1], 64),
        (np.s_[4, 10:20, 3], 1),
        (np.s_[4, ::-1, 3:0:-1], 1),
        (np.s_[::-1], 64),
        (np.s_[3:3], 0),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, ">f8", np.bool_])
def test_slices_read_their_part(tmp_path, monkeypatch, index, rows, dtype):
    x = values(64, 32, 16, dtype=dtype)
    np.save(tmp_path / "x.npy", x)
    for mapping in "01":
        monkeypatch.setenv("MLX_MMAP", mapping)
        a = mx.load(tmp_path / "x.npy")
        before = bytes_read()
        y = a[index]
        mx.eval(y)
        assert bytes_read() - before <= max(rows, 0) * x[0].nbytes + 20000
        assert np.array_equal(np.array(y), x[index].astype(x.dtype.newbyteorder("=")))
        assert np.array_equal(np.array(a), x)


def test_order_does_not_matter(tmp_path, way):
    arrays = {f"a{i}": values(i + 1, 5000) + i for i in range(20)}
    mx.save_safetensors(tmp_path / "x.safetensors", {k: mx.array(v) for k, v in arrays.items()})
    d = mx.load(str(tmp_path / "x.safetensors"))
    for k in sorted(d, reverse=True):
        assert np.array_equal(np.array(d[k]), arrays[k])


def test_what_is_written_to_an_array_stays_there(tmp_path, way):
    x = values(100, 1000)
    np.save(tmp_path / "x.npy", x)
    a = mx.load(tmp_path / "x.npy")
    mx.eval(a)
    np.asarray(a)[:] = 7
    assert (np.array(a) == 7).all()
    assert np.array_equal(np.load(tmp_path / "x.npy"), x)
    assert np.array_equal(np.array(mx.load(tmp_path / "x.npy") + 1), x + 1)
    b = mx.load(tmp_path / "x.npy")
    b[3] = 5
    b += 1
    x[3] = 5
    assert np.array_equal(np.array(b), x + 1)


@pytest.mark.parametrize("size", [1000, 100_000])
def test_arrays_that_are_cut_off_are_errors_when_they_are_needed(tmp_path, way, size):
    path = tmp_path / "x.npy"
    x = values(size)
    np.save(path, x)
    os.truncate(path, os.path.getsize(path) - 4)
    whole = mx.load(path)
    assert whole.shape == (size,)
    last, first = whole[-5:], whole[:-5]
    for a in (whole, last, mx.load(path) + 1):
        with pytest.raises(RuntimeError, match=rf"x\.npy: shape .* of float32 needs {4 * a.size} bytes at offset"):
            mx.eval(a)
    assert np.array_equal(np.array(first), x[:-5])
    with open(path, "rb") as f, pytest.raises(ValueError, match="bytes at offset"):  # which is read at once
        mx.load(f)


@pytest.mark.parametrize("change", ["cut", "grown", "rewritten"])
def test_changed_files_are_noticed(tmp_path, way, change):
    path = tmp_path / "x.npy"
    np.save(path, values(1000, 1000))
    a = mx.load(path)
    if change == "cut":
        os.truncate(path, 1000)
    elif change == "grown":
        with open(path, "ab") as f:
            f.write(b"more")
    else:
        status = os.stat(path)
        with open(path, "r+b") as f:
            f.write(b"x")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(RuntimeError, match=r"x\.npy was changed"):
        mx.eval(a)
    with pytest.raises(RuntimeError, match=r"x\.npy was changed"):
        mx.eval(a[:2])


def test_replaced_and_removed_files_are_what_they_were(tmp_path, way):
    path = tmp_path / "x.npy"
    np.save(path, values(1000))
    a = mx.load(path)
    mx.save(path, mx.zeros((3,)))
    b = mx.load(path)
    os.unlink(path)
    assert np.array_equal(np.array(a), values(1000))
    assert b.tolist() == [0, 0, 0]


def test_saving_over_the_file_one_comes_from(tmp_path, way):
    for path in (tmp_path / "x.npy", tmp_path / "x.safetensors"):

        def save(v, path=path):
            mx.save(path, v) if path.suffix == ".npy" else mx.save_safetensors(path, {"x": v})

        def load(path=path):
            return mx.load(path) if path.suffix == ".npy" else mx.load(path)["x"]

        save(mx.array(values(300, 1000)))
        for _ in range(3):
            save(load() + 1)
        old = load()
        save(old[:5])
        assert np.array_equal(np.array(load()), values(300, 1000)[:5] + 3)
        assert np.array_equal(np.array(old), values(300, 1000) + 3)


def test_loaded_arrays_are_constants(tmp_path, way):
    w = values(50, 50)
    np.save(tmp_path / "w.npy", w)

    def f(x):
        return (mx.load(tmp_path / "w.npy")[1:] * x).sum()

    x = mx.ones((50,))
    want = w[1:].sum(0)
    assert np.allclose(np.array(mx.grad(f)(x)), want)
    assert np.allclose(np.array(mx.grad(mx.compile(f))(x)), want)
    assert f(x).item() == mx.compile(f)(x).item() == w[1:].sum()
    loaded = mx.load(tmp_path / "w.npy")
    y = mx.vmap(lambda v: loaded @ v)(mx.eye(50))
    assert np.array_equal(np.array(y), w.T)
    value, tangent = mx.jvp(lambda v: mx.load(tmp_path / "w.npy") @ v, [x], [x])
    assert np.array_equal(np.array(value[0]), np.array(tangent[0]))


def test_async_and_other_streams(tmp_path, way):
    x = values(1000, 500)
    np.save(tmp_path / "x.npy", x)
    s = mx.new_stream(mx.cpu)
    a, b = mx.load(tmp_path / "x.npy", stream=s), mx.load(tmp_path / "x.npy")
    mx.async_eval(a, b)
    assert np.array_equal(np.array(a + b), 2 * x)


def test_many_files_at_once(tmp_path):
    for i in range(50):
        np.save(tmp_path / f"{i}.npy", np.full((10,), i))
    before = len(os.listdir("/proc/self/fd"))
    all_of_them = [mx.load(tmp_path / f"{i}.npy") for i in range(50)]
    mx.eval(all_of_them)
    assert len(os.listdir("/proc/self/fd")) == before
    assert [a[0].item() for a in all_of_them] == list(range(50))


# ---- saving


def test_symlinks_and_modes(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "t.npy", tmp_path / "link.npy"
    link.symlink_to(target)
    mx.save(link, mx.ones((2,)))  # a link to what is not there yet
    assert link.is_symlink() and np.load(target).tolist() == [1, 1]
    for mode in (0o600, 0o640, 0o444):
        os.chmod(target, mode)
        mx.save(link, mx.zeros((2,)))
        assert link.is_symlink() and os.stat(target).st_mode & 0o7777 == mode
    assert np.load(target).tolist() == [0, 0]
    umask = os.umask(0o027)
    for format, save in SAVES.items():
        save(tmp_path / f"z.{format}", mx.ones((2,)))
        assert os.stat(tmp_path / f"z.{format}").st_mode & 0o777 == 0o640
    os.umask(umask)


def test_a_function_is_exported_to_a_name():
    with pytest.raises(FileNotFoundError, match="the name is empty"):
        mx.export_function("", lambda x: x, mx.ones((2,)))


SAVES = {
    "npy": mx.save,
    "npz": lambda p, x: mx.savez(p, x=x),
    "safetensors": lambda p, x: mx.save_safetensors(p, {"x": x}),
    "gguf": lambda p, x: mx.save_gguf(p, {"x": x}, {}),
    "mlxfn": lambda p, x: mx.export_function(p, lambda y: y + 1, x),
}


@pytest.mark.parametrize("format", SAVES)
def test_links_that_lead_to_each_other(tmp_path, format):
    """They end at nothing that could be written, and are no files to be replaced."""
    (tmp_path / f"a.{format}").symlink_to(f"b.{format}")
    (tmp_path / f"b.{format}").symlink_to(f"a.{format}")
    (tmp_path / "folder").symlink_to("folder")
    for name in (f"a.{format}", f"folder/a.{format}"):
        with pytest.raises((RuntimeError, OSError), match="symbolic links") as e:
            SAVES[format](str(tmp_path / name), mx.ones((2,)))
        assert name in str(e.value)
    assert len(list(tmp_path.iterdir())) == 3 and all(path.is_symlink() for path in tmp_path.iterdir())


FULL_DISK = """
import os, resource, sys
import numpy as np
import mlx.core as mx
import mlx.nn as nn
path, way = sys.argv[1:]
save = {
    "npy": mx.save,
    "npz": lambda p, x: mx.savez(p, x=x),
    "many.npz": lambda p, x: mx.savez(p, *x.reshape(-1, 4)[:5000]),
    "compressed.npz": lambda p, x: mx.savez_compressed(p, x=x),
    "safetensors": lambda p, x: mx.save_safetensors(p, {"x": x}),
    "gguf": lambda p, x: mx.save_gguf(p, {"x": x}, {}),
}[way]
save(path, mx.zeros((4,)))
old = open(path, "rb").read()
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
try:
    save(path, mx.random.uniform(shape=(100000,)))
except (RuntimeError, OSError) as e:
    print(type(e).__name__, e)
else:
    sys.exit("nothing was raised")
assert open(path, "rb").read() == old
assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]
"""


@pytest.mark.parametrize("format", ["npy", "npz", "many.npz", "compressed.npz", "safetensors", "gguf"])
def test_full_disks_leave_the_old_file(tmp_path, format):
    out = subprocess.run(
        [sys.executable, "-c", FULL_DISK, tmp_path / f"x.{format}", format], capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    op = {"npy": "save", "npz": "savez", "many.npz": "savez", "compressed.npz": "savez_compressed"}
    assert "File too large" in out.stdout
    assert f"[{op.get(format, f'save_{format}')}] " in out.stdout and f"x.{format}" in out.stdout


KILLED = """
import resource, signal, sys
import mlx.core as mx
import mlx.nn as nn
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
x = mx.ones((100000,))
path = sys.argv[1]
{
    "npy": lambda: mx.save(path, x),
    "npz": lambda: mx.savez(path, x=x),
    "safetensors": lambda: mx.save_safetensors(path, {"x": x}),
    "mlxfn": lambda: mx.export_function(path, lambda y: x + y, x + 1),
}[path.split(".")[-1]]()
"""


@pytest.mark.parametrize("format", ["npy", "npz", "safetensors", "mlxfn"])
@pytest.mark.parametrize("old", [False, True])
def test_who_is_killed_while_saving_leaves_nothing(tmp_path, format, old):
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system has no files without names")
    path = tmp_path / f"x.{format}"
    if old:
        path.write_bytes(b"old")
    out = subprocess.run([sys.executable, "-c", KILLED, path], capture_output=True, text=True)
    assert out.returncode == -signal.SIGXFSZ, out.stderr
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [b"old"] * old


@pytest.mark.parametrize("mmap", "01")
def test_what_is_no_file(tmp_path, monkeypatch, mmap):
    """A pipe without a writer would keep who waits for one."""
    monkeypatch.setenv("MLX_MMAP", mmap)
    for suffix in ("npy", "npz", "safetensors", "gguf"):
        os.mkfifo(tmp_path / f"pipe.{suffix}")
        for name, why in ((f"pipe.{suffix}", "is not a regular file"), (f"none.{suffix}", "No such file")):
            with pytest.raises((RuntimeError, OSError), match=why) as e:
                mx.load(tmp_path / name)
            assert name in str(e.value)
        with pytest.raises(RuntimeError, match="not a regular file"):
            mx.load(tmp_path, format=suffix)
    saves = {".npy": mx.save, ".safetensors": lambda p, x: mx.save_safetensors(p, {"x": x}),
             ".gguf": lambda p, x: mx.save_gguf(p, {"x": x}, {}), ".npz": lambda p, x: mx.savez(p, x=x)}  # fmt: skip
    for suffix, save in saves.items():
        with pytest.raises((RuntimeError, OSError), match="not a regular file"):
            save(tmp_path / f"pipe{suffix}", mx.ones((2,)))


# ---- ways to say which file


def test_paths_and_open_files(tmp_path):
    x = mx.arange(6).reshape(2, 3)
    for path in (str(tmp_path / "a.npy"), tmp_path / "b.npy", os.fsencode(tmp_path / "c.npy")):
        mx.save(path, x)
        assert mx.load(path).tolist() == x.tolist()
        assert mx.load(pathlib.Path(os.fsdecode(path)), format="npy").tolist() == x.tolist()
    with open(tmp_path / "d.npy", "wb") as f:
        mx.save(f, x)
    with open(tmp_path / "d.npy", "rb") as f:
        a = mx.load(f)
    assert a.tolist() == x.tolist()  # read at once: the file is closed
    f = io.BytesIO()
    mx.save_safetensors(f, {"x": x}, {"a": "b"})
    arrays, texts = mx.load(f, format="safetensors", return_metadata=True)
    f.close()
    assert arrays["x"].tolist() == x.tolist() and texts == {"a": "b"}


class Keeps:
    """Keeps what it is given, and more that is made of it; takes at most `most` bytes at a time."""

    def __init__(self, most):
        self.most, self.parts, self.at = most, [], 0

    def write(self, data):
        n = min(self.most, len(data))
        self.parts += [(self.at, data[:n]), (self.at, memoryview(data).cast("B")[:n])]
        self.parts += [(self.at, np.frombuffer(data, np.uint8)[:n])]
        self.at += n
        return n


@pytest.mark.parametrize("n, most", [(3, 10**9), (3, 5), (1_000_000, 10**9), (1_000_000, 700_000)])
def test_what_a_file_object_was_given_stays_what_it_was(n, most):
    want = io.BytesIO()
    np.save(want, np.arange(n, dtype=np.int32))
    f, x = Keeps(most), mx.arange(n)
    mx.save(f, x)
    del x
    mx.clear_cache()
    mx.eval(mx.full((n,), 7, mx.int32))
    got = [bytearray(f.at) for _ in range(3)]
    for i, (at, part) in enumerate(f.parts):
        part = bytes(part)
        got[i % 3][at : at + len(part)] = part
    assert all(np.load(io.BytesIO(data)).tolist() == list(range(n)) for data in got)
    assert got[0][-4 * n :] == want.getvalue()[-4 * n :]


class Raw(io.RawIOBase):
    """As a pipe that does not block: it takes `room` bytes, then none."""

    def __init__(self, room):
        self.room, self.got = room, b""

    def writable(self):
        return True

    def write(self, data):
        n = min(self.room, len(data))
        self.got += bytes(data[:n])
        self.room -= n
        return n or None


class Some(Raw):
    """Takes at most 100 bytes at a time."""

    def __init__(self):
        super().__init__(0)

    def write(self, data):
        self.room = 100
        return super().write(data)


def test_raw_streams_that_would_have_to_wait():
    raw = Raw(10**9)
    mx.save(raw, mx.arange(1000))
    assert np.load(io.BytesIO(raw.got)).tolist() == list(range(1000))
    for room in (0, 5, 1000):
        with pytest.raises(OSError, match=r"^\[save\] the file object's write gave None: .*none of \d+ bytes"):
            mx.save(Raw(room), mx.arange(1000))
    some = Some()
    mx.savez(some, x=mx.arange(1000))
    assert not some.closed and np.load(io.BytesIO(some.got))["x"].tolist() == list(range(1000))
    for room in (0, 5, 1000):
        raw = Raw(room)
        with pytest.raises(OSError, match=r"^\[savez\] the file object's write gave None: .*none of \d+ bytes"):
            mx.savez(raw, x=mx.arange(1000))
        assert not raw.closed and len(raw.got) == room
    reading, writing = os.pipe()
    try:
        os.set_blocking(writing, False)
        with pytest.raises(OSError, match="gave None"), os.fdopen(writing, "wb", buffering=0) as f:
            mx.save(f, mx.zeros((1000, 1000)))
    finally:
        os.close(reading)

    class Nothing:  # as many that are no streams do: all was written
        def __init__(self):
            self.got = b""

        def write(self, data):
            self.got += bytes(data)

    f = Nothing()
    mx.save(f, mx.arange(1000))
    assert np.load(io.BytesIO(f.got)).tolist() == list(range(1000))


@pytest.mark.parametrize("name", ["save", "savez", "save_safetensors", "save_gguf"])
def test_errors_of_a_write_name_what_was_called(name):
    def save(file):
        if name == "savez":
            return mx.savez(file, x=mx.ones(2))
        return getattr(mx, name)(file, mx.ones(2) if name == "save" else {"x": mx.ones(2)})

    class TooMany:
        def write(self, data):
            return len(data) + 1

    with pytest.raises(OSError, match=rf"^\[{name}\] write\(\) of the file got \d+ bytes and returned \d+, not"):
        save(TooMany())
    with pytest.raises(OSError, match=rf"^\[{name}\] the file object's write gave None: .*none of \d+ bytes"):
        save(Raw(5))
    with pytest.raises(OSError, match=r"^\[Errno 28\] no room"):

        class Full:
            def write(self, data):
                raise OSError(28, "no room")

        save(Full())


class Unreadable:
    """A path and a file whose own code raises."""

    def __init__(self, error):
        self.error = error

    def __fspath__(self):
        raise self.error


class UnreadableFile(Unreadable):
    read = write = property(Unreadable.__fspath__)


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, MemoryError, SystemExit, TypeError])
@pytest.mark.parametrize("file", [Unreadable, UnreadableFile])
@pytest.mark.parametrize(
    "use",
    [
        mx.load,
        lambda f: mx.save(f, mx.ones(1)),
        lambda f: mx.savez(f, a=mx.ones(1)),
        lambda f: mx.save_safetensors(f, {"a": mx.ones(1)}),
        lambda f: mx.save_gguf(f, {"a": mx.ones(1)}),
        lambda f: mx.export_to_dot(f, mx.ones(1)),
        lambda f: nn.Linear(1, 1).load_weights(f),
    ],
)
def test_an_exception_of_a_path_or_file_is_handed_on(use, file, kind):
    error = kind("mine")
    with pytest.raises(kind) as raised:
        use(file(error))
    assert raised.value is error


def test_an_array_changed_by_the_file_it_is_saved_to():
    x = mx.arange(1 << 20) + 0

    class File(io.BytesIO):
        def write(self, data):
            x[:] = mx.full(x.shape, 7)
            mx.eval(x)
            others.append(mx.eval(mx.full(x.shape, 9)))
            return super().write(data)

    others, file = [], File()
    mx.save(file, x)
    file.seek(0)
    assert mx.array_equal(mx.load(file, format="npy"), mx.arange(1 << 20)) and x[5].item() == 7


@pytest.mark.parametrize("name", ["savez", "save", "save_safetensors", "export_function", "export_to_dot"])
def test_the_longest_names(tmp_path, name):
    ending = {"savez": ".npz", "save": ".npy", "save_safetensors": ".safetensors"}.get(name, "")
    path = str(tmp_path / ("n" * (255 - len(ending)) + ending))
    SAVERS[name](path)
    SAVERS[name](path)
    assert os.listdir(tmp_path) == [os.path.basename(path)]
    with pytest.raises((OSError, RuntimeError), match=rf"\[{name}\] .*(too long|No such)"):
        SAVERS[name](str(tmp_path / ("n" * 256 + ending)))
    assert os.listdir(tmp_path) == [os.path.basename(path)]


SAVERS = {
    "savez": lambda p: mx.savez(p, a=mx.ones(2)),
    "save": lambda p: mx.save(p, mx.ones(2)),
    "save_safetensors": lambda p: mx.save_safetensors(p, {"a": mx.ones(2)}),
    "export_function": lambda p: mx.export_function(p, mx.exp, mx.ones(2)),
    "export_to_dot": lambda p: mx.export_to_dot(p, mx.exp(mx.ones(2))),
}


def test_a_drawing_that_does_not_fit_leaves_the_old_one(tmp_path):
    path = tmp_path / "graph.dot"
    mx.export_to_dot(path, mx.exp(mx.ones(2)))
    old = path.read_text()
    code = f"""if True:
        import resource, signal, mlx.core as mx
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        x = mx.ones(2)
        for _ in range(200):
            x = mx.exp(x)
        try:
            mx.export_to_dot({str(path)!r}, x)
        except OSError as e:
            assert "[export_to_dot] could not write" in str(e), e
        else:
            raise SystemExit("it fits")"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert path.read_text() == old and os.listdir(tmp_path) == ["graph.dot"]


def test_linear_algebra_once_there_are_descriptors():
    code = """if True:
        import os, resource, mlx.core as mx
        x = mx.eye(20) * 2  # smaller ones need no OpenBLAS
        mx.eval(x)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        taken = []
        try:
            while True:
                taken.append(os.dup(1))
        except OSError:
            pass
        try:
            mx.eval(mx.linalg.inv(x, stream=mx.cpu))
        except RuntimeError as e:
            assert "OpenBLAS" in str(e), e
        else:
            raise SystemExit("no descriptor was needed")
        for fd in taken:
            os.close(fd)
        assert mx.linalg.inv(x, stream=mx.cpu)[0, 0].item() == 0.5"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_file_that_is_not_finished_is_closed(tmp_path):
    """Interrupted between any two instructions of what writes it, as a signal's handler would."""

    class Stop(BaseException):
        pass

    def stopping(after):
        left = [after]

        def instructions(frame, event, argument):
            left[0] -= event == "opcode"
            if left[0] < 0:
                raise Stop
            return instructions

        def calls(frame, event, argument):
            frame.f_trace_opcodes = frame.f_code.co_filename.endswith("_new_file.py")
            return instructions if frame.f_trace_opcodes else None

        return calls

    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks for one that wants them when settrace is called
    path, y = tmp_path / "g.dot", mx.sin(mx.ones(3))
    stopped, before, opened = 0, sys.gettrace(), descriptors()
    while True:
        sys.settrace(stopping(stopped))
        try:
            mx.export_to_dot(path, y)
            break
        except Stop:
            stopped += 1
        finally:
            sys.settrace(before)
        assert descriptors() == opened
    assert stopped > 100
    assert descriptors() == opened
    assert os.listdir(tmp_path) == ["g.dot"]
