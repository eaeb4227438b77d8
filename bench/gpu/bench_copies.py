"""Copies between the host and a GPU, beside PyTorch's from memory as programs have it and from pinned memory.

On the host's clock, with the wait; medians. A gigabyte each, which has been written and is not there yet.
"""

import statistics
import time

import mlx.core as mx
import numpy as np
from beside import begin, torch

BYTES, TIMES = 2**30, 9


def timed(prepare, f):
    """Bytes a second of f(prepare())."""
    times = []
    for _ in range(TIMES):
        x = prepare()
        mx.synchronize()
        if torch:
            torch.cuda.synchronize()
        start = time.perf_counter()
        y = f(x)
        mx.synchronize()
        if torch:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
        del x, y
    return BYTES / statistics.median(times)


def on_host():
    x = mx.array(NUMBERS)
    mx.eval(x)
    return x


def to_device(x):
    y = x[:4] + 1  # a kernel that needs the whole buffer there
    mx.eval(y)
    return y


def on_device():
    x = mx.full((BYTES // 4,), 3.0)
    mx.eval(x)
    return x


def to_host(x):
    return np.array(x, copy=False)


def row(name, f, prepare, *others):
    line = f"{name:<18} ours {timed(prepare, f) / 1e9:6.1f} GB/s"
    if torch:
        line += "   PyTorch " + ", ".join(f"{what} {timed(p, g) / 1e9:.1f}" for what, p, g in others)
    print(line, flush=True)


NUMBERS = np.ones(BYTES // 4, np.float32)


def main():
    begin()
    pinned = torch.empty(BYTES // 4, pin_memory=True) if torch else None
    row(
        "to the device",
        to_device,
        on_host,
        ("pageable", lambda: torch.from_numpy(NUMBERS), lambda x: x.cuda()),
        ("pinned", lambda: pinned, lambda x: x.cuda(non_blocking=True)),
    )
    row(
        "to the host",
        to_host,
        on_device,
        ("pageable", lambda: torch.ones(BYTES // 4, device="cuda"), lambda x: x.cpu()),
        ("pinned", lambda: torch.ones(BYTES // 4, device="cuda"), lambda x: pinned.copy_(x, non_blocking=True)),
    )


main()
