"""Arrays made on a GPU, beside PyTorch in the same run where it can be imported."""

import mlx.core as mx
from beside import N, bandwidth, begin, compare, torch


def of(name):
    return {"device": "cuda", "dtype": getattr(torch, name)}


OPERATIONS = {
    "arange": (lambda t: mx.arange(N, dtype=t), lambda name: torch.arange(N, **of(name))),
    "eye of 16,384": (lambda t: mx.eye(2**14, dtype=t), lambda name: torch.eye(2**14, **of(name))),
    "uniform": (lambda t: mx.random.uniform(shape=(N,), dtype=t), lambda name: torch.rand(N, **of(name))),
    "normal": (lambda t: mx.random.normal((N,), t), lambda name: torch.randn(N, **of(name))),
}


def main():
    begin()
    limit = bandwidth() if torch else None
    for dtype in ("float32", "bfloat16"):
        t = getattr(mx, dtype)
        for name, (f, g) in OPERATIONS.items():
            compare(name, dtype, lambda f=f, t=t: f(t), lambda g=g, d=dtype: g(d), N * t.size, limit)


main()
