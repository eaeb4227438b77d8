"""Element-wise operations and small graphs on a GPU, beside PyTorch in the same run where it can be imported."""

import statistics
import subprocess
import sys
import time

import mlx.core as mx
from beside import N, bandwidth, begin, compare, torch

SIDE = 2**14  # of a matrix of N elements


def turned(m, x, y):
    x = x.reshape(SIDE, SIDE)
    return x.t().contiguous() if m is torch else m.contiguous(x.T)


OPERATIONS = {
    "add": (2, lambda m, x, y: m.add(x, y)),
    "multiply by a number": (1, lambda m, x, y: x * 0.5),
    "exp": (1, lambda m, x, y: m.exp(x)),
    "tanh": (1, lambda m, x, y: m.tanh(x)),
    "power": (2, lambda m, x, y: m.pow(x, y) if m is torch else m.power(x, y)),
    "transposed copy": (1, turned),
}


def small(make, wait):
    x = make()
    start = time.perf_counter()
    for _ in range(1000):
        x = x + 1
    wait(x)
    return time.perf_counter() - start


def one_by_one(make, wait):
    x = make()
    times = []
    for _ in range(200):
        start = time.perf_counter()
        wait(x + 1)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    begin()
    limit = bandwidth() if torch else None
    for dtype in ("float32", "bfloat16"):
        for name, (operands, f) in OPERATIONS.items():
            x = (mx.random.uniform(shape=(N,)) + 0.5).astype(getattr(mx, dtype))
            y = x + 1
            mx.eval(x, y)
            a = b = None
            if torch:
                a = torch.rand(N, device="cuda", dtype=getattr(torch, dtype)) + 0.5
                b = a + 1
            compare(
                name,
                dtype,
                lambda f=f, x=x, y=y: f(mx, x, y),
                lambda f=f, a=a, b=b: f(torch, a, b),
                (operands + 1) * N * x.itemsize,
                limit,
            )
            del a, b, x, y
    rows = {"1,000 small additions": small, "one of them, waited for": one_by_one}
    for name, measure in rows.items():
        for _ in range(2):  # the first also loads
            t = measure(lambda: mx.zeros(16), mx.eval)
            u = measure(lambda: torch.zeros(16, device="cuda"), lambda x: torch.cuda.synchronize()) if torch else None
        print(f"{name:<32} ours {t * 1e6:.0f} us" + (f"   PyTorch {u * 1e6:.0f} us ({u / t:.2f}x)" if torch else ""))
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import mlx.core as mx; mx.eval(mx.zeros(4) + 1)"], check=True)
    print(f"a process that uses the GPU once: {time.perf_counter() - start:.2f} s")


main()
