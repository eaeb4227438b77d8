"""What programs of this folder measure with: the same work here and in PyTorch, and the limit of both.

Medians. Ours are on the host's clock with the wait for the result; PyTorch's are between two events of the device. The
limit is the bandwidth of a copy within the device's memory, measured by PyTorch.
"""

import statistics
import sys
import time

import mlx.core as mx

try:
    import torch
except ImportError:
    torch = None

N, TIMES = 2**28, 15


def begin():
    if not mx.is_available(mx.gpu):
        sys.exit("expected an NVIDIA GPU and a library built for it")
    print(mx.device_info(mx.gpu).get("device_name", "GPU"), "beside", f"PyTorch {torch.__version__}" if torch else "-")


def ours(f):
    times = []
    for _ in range(TIMES):
        mx.synchronize()
        start = time.perf_counter()
        mx.eval(f())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def theirs(f):
    times = []
    for _ in range(TIMES):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        f()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def bandwidth():
    """Bytes a second, read and written."""
    x = torch.rand(N, device="cuda")
    y = torch.empty_like(x)
    return 8 * N / theirs(lambda: y.copy_(x))


def compare(name, dtype, f, g, moved, limit):
    """Prints the line of f, ours, and g, PyTorch's (if both are there); moved: bytes that must be read and written."""
    t = ours(f)
    line = f"{name:<30} {dtype:<9} ours {t * 1e3:.3f} ms"
    if torch and g:
        u = theirs(g)
        line += f"   PyTorch {u * 1e3:.3f} ms ({u / t:.2f}x)"
    if limit:
        line += f"   {moved / t / limit:.2f} of the copy's bandwidth"
    print(line, flush=True)
