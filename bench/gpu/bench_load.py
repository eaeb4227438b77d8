"""Two gigabytes of a safetensors file to a GPU, beside PyTorch's copies from the mapped file, as its loaders make them.

The file is in the system's page cache. On the host's clock, with the wait; medians.
"""

import json
import mmap
import statistics
import tempfile
import time
from pathlib import Path

import mlx.core as mx
import numpy as np
from beside import begin, torch

ARRAYS, COUNT, TIMES = 32, 2**24, 5  # float32


def ours(path):
    arrays = mx.load(path, stream=mx.gpu)
    mx.eval(arrays)
    return arrays


def from_host(path):
    """As it is without a way of its own: mapped, and copied when a kernel needs it."""
    arrays = mx.load(path, stream=mx.cpu)
    mx.eval(arrays)
    mx.eval([mx.add(x[:4], 1, stream=mx.gpu) for x in arrays.values()])
    return arrays


def theirs(path):
    with open(path, "rb") as f:
        mapped = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)
    size = int.from_bytes(mapped[:8], "little")
    head = json.loads(mapped[8 : 8 + size])
    return {
        name: torch.frombuffer(
            mapped,
            dtype=torch.float32,
            count=(t["data_offsets"][1] - t["data_offsets"][0]) // 4,
            offset=8 + size + t["data_offsets"][0],
        ).to("cuda")
        for name, t in head.items()
        if name != "__metadata__"
    }


def row(name, f, path):
    times = []
    for _ in range(TIMES):
        start = time.perf_counter()
        arrays = f(path)
        mx.synchronize()
        if torch:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        del arrays
    t = statistics.median(times)
    print(f"{name:<40} {t * 1e3:7.1f} ms   {ARRAYS * COUNT * 4 / t / 1e9:6.1f} GB/s", flush=True)


def main():
    begin()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "x.safetensors")
        x = np.random.default_rng(0).standard_normal(COUNT, np.float32)
        mx.save_safetensors(path, {f"a{i}": mx.array(x + i) for i in range(ARRAYS)})
        row("loaded to the GPU", ours, path)
        row("loaded to the host, then copied", from_host, path)
        if torch:
            row("PyTorch, from the mapped file", theirs, path)


main()
