"""Files: 1 GB of weights loaded and touched, page by page, and saved, beside the safetensors package and NumPy.

The file is in the system's cache, for all of them: what is measured is what comes on top of the disk.
"""

import os
import tempfile

import mlx.core as mx
import numpy as np
from timing import best, row

try:
    import safetensors.numpy
except ImportError:
    safetensors = None

TENSORS, SIZE = 64, 16 << 20  # bytes each


def touch(a):
    """One byte of every page."""
    return int(np.frombuffer(a, np.uint8)[::4096].sum(dtype=np.int64))


def loading(path, offset):
    def ours():
        arrays = mx.load(path)
        mx.eval(arrays)
        return sum(touch(np.asarray(a)) for a in arrays.values())

    def theirs():
        return sum(touch(a) for a in safetensors.numpy.load_file(path).values())

    def memmap():
        whole = np.memmap(path, np.uint8, "r", offset)
        return sum(touch(whole[i * SIZE : (i + 1) * SIZE]) for i in range(TENSORS))

    candidates = {"ours": ours, "numpy.memmap": memmap}
    if safetensors:
        candidates["safetensors"] = theirs
    assert len({f() for f in candidates.values()}) == 1
    t = best(candidates, least=3)
    row("load and touch 1 GB", t.pop("ours"), t)

    def sums():
        arrays = mx.load(path)
        return sum(mx.sum(a).item() for a in arrays.values())

    def their_sums():
        return sum(float(a.sum()) for a in safetensors.numpy.load_file(path).values())

    def memmap_sums():
        whole = np.memmap(path, np.float32, "r", offset).reshape(TENSORS, -1)
        return sum(float(a.sum()) for a in whole)

    candidates = {"ours": sums, "numpy.memmap": memmap_sums}
    if safetensors:
        candidates["safetensors"] = their_sums
    t = best(candidates, least=3)
    row("load and sum 1 GB", t.pop("ours"), t)


def reading(path):
    """Without mapping."""
    os.environ["MLX_MMAP"] = "0"

    def ours():
        mx.eval(mx.load(path))

    def numpy():
        np.fromfile(path, np.uint8)

    t = best({"ours": ours, "numpy.fromfile": numpy}, least=3)
    del os.environ["MLX_MMAP"]
    row("read 1 GB", t.pop("ours"), t)


def saving(folder):
    x = mx.random.normal((TENSORS * SIZE // 4,))
    y = np.array(x)

    def new(save, data, suffix=".npy"):
        def run():
            path = os.path.join(folder, f"new{suffix}")
            save(path, data)
            os.unlink(path)

        return run

    t = best({"ours": new(mx.save, x), "numpy.save": new(np.save, y)}, least=5)
    row("save 1 GB", t.pop("ours"), t)
    candidates = {"ours": new(lambda p, a: mx.save_safetensors(p, {"x": a}), x, ".safetensors"),
                  "numpy.save": new(np.save, y)}  # fmt: skip
    if safetensors:
        candidates["safetensors"] = new(lambda p, a: safetensors.numpy.save_file({"x": a}, p), y)
    t = best(candidates, least=5)
    row("save 1 GB as safetensors", t.pop("ours"), t)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.safetensors")
        mx.save_safetensors(path, {f"w{i:02}": mx.random.normal((SIZE // 4096, 1024)) for i in range(TENSORS)})
        loading(path, os.path.getsize(path) - TENSORS * SIZE)
        reading(path)
        os.unlink(path)
        saving(folder)


main()
