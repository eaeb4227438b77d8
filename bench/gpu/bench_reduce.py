"""Reductions, softmax and norms on a GPU, beside PyTorch in the same run where it can be imported."""

import mlx.core as mx
from beside import bandwidth, begin, compare, torch

LONG, SHORT = (8192, 32768), (262144, 1024)


def layer_norm(m, x):
    return mx.fast.layer_norm(x, None, None, 1e-5) if m is mx else torch.nn.functional.layer_norm(x, x.shape[-1:])


def rms_norm(m, x):
    return mx.fast.rms_norm(x, None, 1e-5) if m is mx else torch.nn.functional.rms_norm(x, x.shape[-1:], None, 1e-5)


# name: shape, operation, how often the elements are moved
OPERATIONS = {
    "sum of all": (LONG, lambda m, x: m.sum(x), 1),
    "sum of long rows": (LONG, lambda m, x: m.sum(x, -1), 1),
    "sum of short rows": (SHORT, lambda m, x: m.sum(x, -1), 1),
    "sum of rows of 32": ((2**23, 32), lambda m, x: m.sum(x, -1), 1),
    "sum of columns": (LONG, lambda m, x: m.sum(x, 0), 1),
    "sum of 1,024 long columns": (SHORT, lambda m, x: m.sum(x, 0), 1),
    "maximum of short rows": (SHORT, lambda m, x: x.max(-1) if m is mx else x.amax(-1), 1),
    "argmax of short rows": (SHORT, lambda m, x: m.argmax(x, -1), 1),
    "cumulative sum of short rows": (SHORT, lambda m, x: m.cumsum(x, -1), 2),
    "cumulative sum of columns": (LONG, lambda m, x: m.cumsum(x, 0), 2),
    "cumulative sum of all": ((2**28,), lambda m, x: m.cumsum(x, -1), 2),
    "sort of rows of 1,024": (SHORT, lambda m, x: m.sort(x, -1), 2),
    "sort of 16 rows of 131,072": ((16, 131072), lambda m, x: m.sort(x, -1), 2),
    "softmax of long rows": (LONG, lambda m, x: m.softmax(x, -1), 2),
    "softmax of short rows": (SHORT, lambda m, x: m.softmax(x, -1), 2),
    "softmax of rows of 64": ((2**22, 64), lambda m, x: m.softmax(x, -1), 2),
    "logsumexp of short rows": (SHORT, lambda m, x: m.logsumexp(x, -1), 1),
    "layer norm of rows of 1,024": (SHORT, layer_norm, 2),
    "RMS norm of rows of 1,024": (SHORT, rms_norm, 2),
}


def main():
    begin()
    limit = bandwidth() if torch else None
    for dtype in ("float32", "bfloat16"):
        for name, (shape, f, moves) in OPERATIONS.items():
            x = mx.random.uniform(shape=shape).astype(getattr(mx, dtype))
            mx.eval(x)
            a = torch.rand(shape, device="cuda", dtype=getattr(torch, dtype)) if torch else None
            compare(name, dtype, lambda f=f, x=x: f(mx, x), lambda f=f, a=a: f(torch, a), moves * x.nbytes, limit)
            del a, x


main()
