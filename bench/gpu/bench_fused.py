"""Element-wise operations that run as one on a GPU: the first calls, which an interpreter of programs serves, and later
ones, which have kernels of their own (docs/cuda.md), beside torch.compile in the same run where it can be imported.

    python bench/gpu/bench_fused.py [--all]      four of them, or all, and what PyTorch takes without compiling too
"""

import argparse
import math
import os
import time

os.environ["MLX_KERNEL_CACHE"] = "0"  # each is compiled anew, so that first calls are the interpreter's

import mlx.core as mx
import mlx.nn as nn
from beside import N, bandwidth, begin, compare, ours, torch


def gelu(m, x):
    return x * (1 + m.erf(x * 0.5**0.5)) * 0.5


def gelu_by_tanh(m, x):
    return 0.5 * x * (1 + m.tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x * x * x)))


def gated(m, x):
    """Half of the elements gated by the other half."""
    a, b = x.reshape(2, -1)
    return a * m.sigmoid(a) * b


def relu(m, x):
    """A bias for each column before."""
    x = x.reshape(-1, 1024)
    return nn.relu(x + x[0]) if m is mx else torch.relu(x + x[0])


def chain(m, x):
    for i in range(8):
        x = (x + 0.5) * (1 - i / 8)
    return x


def rows(m, x):
    """A bias for each column, and what is below 0 left out."""
    x = x.reshape(-1, 1024)
    return m.maximum(x + x[0] * 0.5, x[1]) - x[2]


OPERATIONS = {
    "gelu": (lambda m, x: nn.gelu(x) if m is mx else torch.nn.functional.gelu(x), 2),
    "gated by its sigmoid": (gated, 1.5),
    "bias and relu": (relu, 2),
    "16 additions and products": (chain, 2),
    "gelu of its parts": (gelu, 2),
    "gelu by tanh": (gelu_by_tanh, 2),
    "with rows broadcast": (rows, 2),
}
FEW = 4


def counted():
    facts = mx.device_info(mx.gpu)
    return facts["specialized_kernels"], facts["kernels_to_specialize"]


def first_calls(f):
    """The interpreter's time; then f has a kernel of its own, or what there is to be said about it."""
    before = counted()[0]
    t = ours(f)
    early, start = counted()[0] > before, time.perf_counter()
    while counted()[1] and time.perf_counter() - start < 30:
        time.sleep(0.01)
    took = time.perf_counter() - start
    said = "made meanwhile" if early else f"made in {took:.1f} s more" if counted()[0] > before else "NOT made"
    return t, said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    every = parser.parse_args().all
    begin()
    limit = bandwidth() if torch else None
    for dtype in ("float32", "bfloat16"):
        x = mx.random.uniform(shape=(N,)).astype(getattr(mx, dtype))
        mx.eval(x)
        a = torch.rand(N, device="cuda", dtype=getattr(torch, dtype)) if torch else None
        for name, (f, moves) in list(OPERATIONS.items())[: None if every else FEW]:
            g = mx.compile(lambda x, f=f: f(mx, x))
            t, said = first_calls(lambda g=g, x=x: g(x))
            print(f"{name:<30} {dtype:<9} interpreter {t * 1e3:.3f} ms; a kernel of its own {said}")
            theirs = torch.compile(lambda a, f=f: f(torch, a)) if torch else None
            if every:
                compare(name, dtype, lambda f=f, x=x: f(mx, x), lambda f=f, a=a: f(torch, a), moves * x.nbytes, limit)
            try:
                compare(
                    f"{name}, compiled",
                    dtype,
                    lambda g=g, x=x: g(x),
                    lambda h=theirs, a=a: h(a),
                    moves * x.nbytes,
                    limit,
                )
            except Exception as e:  # no compiler for PyTorch's
                print(f"{name}, compiled: PyTorch fails: {type(e).__name__}")


main()
