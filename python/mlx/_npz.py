"""Archives of npy files, which are zip files."""

import os
import tempfile
import zipfile
import zlib

import mlx.core as mx

# What the zipfile module raises for broken bytes, beside ValueError and OSError.
DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
# These say something about the path, not about what is in the file.
FILE_ERRORS = (FileNotFoundError, PermissionError, IsADirectoryError)


def save(file, args, kwargs, compressed):
    arrays = dict(kwargs)
    for i, array in enumerate(args):
        name = f"arr_{i}"
        if name in arrays:
            raise ValueError(f"[savez] the name {name} is given and also that of argument {i}")
        arrays[name] = array
    for name in arrays:
        if "\0" in name:
            raise ValueError(f"[savez] expected names without null characters, got {name!r}")
    if hasattr(file, "write"):
        return write(file, arrays, compressed)
    path = os.fsdecode(file)
    if "\0" in path:
        raise ValueError(f"[savez] expected a path without a null character, got {path!r}")
    path = os.path.realpath(path if path.endswith(".npz") else path + ".npz")
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"[savez] {path} is not a regular file")
    # Written beside and renamed, so that an interrupted save leaves the old file whole.
    descriptor, beside = tempfile.mkstemp(prefix=os.path.basename(path) + ".", dir=os.path.dirname(path))
    try:
        with os.fdopen(descriptor, "wb") as out:
            os.fchmod(descriptor, mode_of(path))
            write(out, arrays, compressed)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def mode_of(path):
    try:
        return os.stat(path).st_mode & 0o7777
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def write(file, arrays, compressed):
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as entry:
                mx.save(entry, array if isinstance(array, mx.array) else mx.array(array))


def load(file):
    try:
        archive = zipfile.ZipFile(file)
    except FILE_ERRORS:
        raise
    except (*DAMAGES, ValueError, OSError) as error:
        raise ValueError(f"[load] {file} is not an npz archive: {error}") from error
    with archive:
        return {name.removesuffix(".npy"): entry(archive, name, file) for name in archive.namelist()}


def entry(archive, name, file):
    try:
        with archive.open(name) as stream:
            return mx.load(stream, format="npy")
    except FILE_ERRORS:
        raise
    except (*DAMAGES, OSError) as error:
        raise ValueError(f"[load] {file}: cannot read {name} in this archive: {error}") from error
