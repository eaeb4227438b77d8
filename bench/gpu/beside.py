"""What programs of this folder measure with: the same work here and in PyTorch, and the limit of both.

Medians. Calls are queued one behind the other, as many as take a millisecond or two, and the host's clock is looked at
before the first and when the last is done: what counts is the device's time or the host's, whichever is longer, the
same for both. The limit is the bandwidth of a copy within the device's memory, measured by PyTorch.
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


def timed(queue, wait):
    """Seconds a call."""

    def once(calls):
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            queue()
        wait()
        return (time.perf_counter() - start) / calls

    once(1)
    calls = max(1, min(50, int(2e-3 / once(1))))
    return statistics.median(once(calls) for _ in range(TIMES))


def ours(f):
    return timed(lambda: mx.async_eval(f()), mx.synchronize)


def theirs(f):
    return timed(f, torch.cuda.synchronize)


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
