"""Files that are written beside their place and put there whole."""

import contextlib
import io
import os

import mlx.core as mx

LONGEST_PART = 240  # of a name's bytes, 255 in most file systems, to which a suffix is added


@contextlib.contextmanager
def new_file(op, path):
    """A file to be written, without a name or beside `path`, which it is renamed to: what goes wrong or interrupts
    leaves the old file whole."""
    beside = free_name(path)
    try:
        with said(op, "create", path):
            mode = None
            with contextlib.suppress(FileNotFoundError):
                mode = os.stat(path).st_mode & 0o7777
            file = open_beside(path, beside)
        with file:  # whose buffer is not written once more where that has failed
            out = io.BufferedWriter(file)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield out
            with said(op, "write", path):
                out.flush()
            if not os.path.exists(beside):
                name_it(beside, file.fileno())
        with said(op, "replace", path):
            os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


@contextlib.contextmanager
def said(op, what, path):
    """Errors of the system name the operation and the file that the caller named."""
    try:
        yield
    except FileNotFoundError as error:
        raise mx.MissingFileError(f"[{op}] could not {what} {path}: {error.strerror}") from None
    except OSError as error:
        raise OSError(error.errno, f"[{op}] could not {what} it: {error.strerror}", path) from None


def write_text(op, path, text):
    path = os.path.realpath(os.fsdecode(path))
    if os.path.exists(path) and not os.path.isfile(path):  # a terminal, say; what cannot be written is told there
        with said(op, "open", path), open(path, "w") as out:
            out.write(text)
            return
    with new_file(op, path) as out, said(op, "write", path):
        out.write(text.encode())
        out.flush()


def free_name(path):
    """One beside the path that nothing has, known before anything is there: so an interrupt leaves nothing."""
    folder, name = os.path.split(os.fsencode(path))
    while True:
        # Of a name that is as long as names can be, the beginning.
        beside = os.fsdecode(os.path.join(folder, name[:LONGEST_PART] + b"." + os.urandom(4).hex().encode()))
        if not os.path.lexists(beside):
            return beside


def open_beside(path, name):
    """A new file in the folder of the path, without a name where the file system has such files."""
    with contextlib.suppress(OSError):
        if os.path.exists("/proc/self/fd"):
            # No line of Python runs between the two calls, so that the descriptor always has an owner that closes it.
            descriptors = map(os.open, [os.path.dirname(path)], [os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC], [0o666])
            return next(map(io.FileIO, descriptors, ["w"]))
    return io.FileIO(name, "x")


def name_it(name, descriptor):
    """Gives a file without a name one."""
    # With any folder for what is no relative path the link to the file is followed.
    os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)
