"""Writes archives of npy files, which are zip files."""

import io
import os
import reprlib
import zipfile

import mlx.core as mx
from mlx._new_file import new_file, said


def save(file, args, kwargs, compressed):
    arrays = dict(kwargs)
    for i, array in enumerate(args):
        name = f"arr_{i}"
        if name in arrays:
            raise mx.Error(f"[savez] the name {name} is given and also that of argument {i}")
        arrays[name] = array
    for name in arrays:
        check_name(name)
    if hasattr(file, "write"):
        write(Watched(file), arrays, compressed)
        return
    path = path_of(file)
    if not os.path.basename(path):
        raise mx.Error(f"[savez] expected the name of a file, got {path!r}")
    path = os.path.realpath(path if path.endswith(".npz") else path + ".npz")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"[savez] {path} is not a regular file")
    op = "savez_compressed" if compressed else "savez"
    with new_file(op, path) as out:
        write(Named(out, op, path), arrays, compressed)


def path_of(file):
    if not isinstance(file, str | bytes | os.PathLike):
        raise mx.ConversionError(
            f"savez(): argument 'file' must be a path or an open binary file, not {type(file).__name__}"
        )
    path = os.fsdecode(file)
    if "\0" in path:
        raise mx.Error(f"[savez] expected a path without a null character, got {path!r}")
    return path


def check_name(name):
    """What can be known of an entry's name before anything is written."""
    if "\0" in name:
        raise mx.Error(f"[savez] expected names without null characters, got {reprlib.repr(name)}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise mx.Error(f"[savez] expected names that UTF-8 can hold, got {reprlib.repr(name)}") from None
    if size > LONGEST_NAME:
        raise mx.Error(f"[savez] expected names of at most {LONGEST_NAME} bytes, got {size}: {reprlib.repr(name)}")


class Watched:
    """A stream that takes all it is given, though its write may take some, and has to be where it says it is: sizes are
    written back into an archive. One whose first tell or seek fails is written without that."""

    def __init__(self, stream):
        self.stream = stream
        self.at = None

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def write(self, data):
        left = memoryview(data).cast("B")
        if self.at is not None:
            self.at += len(left)
        while left:
            n = self.stream.write(left)
            if n is None and not isinstance(self.stream, io.RawIOBase):
                break  # one that does not say
            if n is None:
                raise OSError(
                    f"[savez] the file object's write gave None: it is not blocking and took none of {len(left)} bytes"
                )
            if not isinstance(n, int) or not 0 < n <= len(left):
                raise OSError(
                    f"[savez] write() of the file got {len(left)} bytes and returned {reprlib.repr(n)}, "
                    "not how many it wrote"
                )
            left = left[n:]
        return len(data)

    def flush(self):
        if hasattr(self.stream, "flush"):
            self.stream.flush()

    def tell(self):
        at = self.stream.tell()
        if self.at is None and isinstance(at, int) and at >= 0:
            self.at = at
        if at != self.at or self.at is None:
            raise OSError(
                f"[savez] expected the file to be at {'a position' if self.at is None else self.at}, "
                f"its tell() gave {reprlib.repr(at)}"
            )
        return at

    def seek(self, at):
        self.stream.seek(at)
        self.at = at
        return self.tell()


class Named:
    """A new file whose failures name the operation and the path; those of what arrays are made of stay as they are."""

    def __init__(self, file, op, path):
        self.file = file
        self.said = lambda: said(op, "write", path)

    def write(self, data):
        with self.said():
            return self.file.write(data)

    def flush(self):
        with self.said():
            self.file.flush()

    def seek(self, at):
        with self.said():  # which flushes
            return self.file.seek(at)

    def tell(self):
        return self.file.tell()


def write(file, arrays, compressed):
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    first = First()
    try:
        with zipfile.ZipFile(file, "w", method, allowZip64=True) as archive, first:
            for name, array in arrays.items():
                info = zipfile.ZipInfo(name + ".npy")
                info.compress_type = method
                info.external_attr = 0o600 << 16
                if not compressed:
                    info.extra = padding(archive.start_dir + LOCAL_HEADER + len(info.filename.encode()))
                with archive.open(info, "w", force_zip64=True) as entry, first:
                    mx.save(entry, array if isinstance(array, mx.array) else mx.array(array))
    except BaseException as error:
        if first.error is None or first.error is error:
            raise
        raise first.error from None  # of which closing the archive made an error of its own


class First:
    """Notes the first exception that comes by: that of a signal's handler, say, which may be raised anywhere."""

    def __init__(self):
        self.error = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self.error is None:
            self.error = error


LONGEST_NAME = 65535 - len(".npy")
LOCAL_HEADER = 30 + 20  # with the sizes in 64 bits
ALIGNMENT, PADDING = 64, 0xD935  # the number that others use for it


def padding(at):
    """A field that has the content of an entry begin where it can be mapped."""
    fill = -(at + 4) % ALIGNMENT
    return PADDING.to_bytes(2, "little") + fill.to_bytes(2, "little") + bytes(fill)
