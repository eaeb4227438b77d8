"""Rows in order on a GPU, and updates of numbers through indices, beside PyTorch in the same run where it can be
imported.  PyTorch's sort gives the places too."""

import mlx.core as mx
import numpy as np
from beside import bandwidth, begin, compare, torch

SHAPES = [(2**22,), (2**26,), (2**12, 2**16), (2**10, 2**13), (2**13, 2**13), (2**15, 2**11), (2**16, 2**10)]
SHAPES += [(2**17, 2**9), (2**18, 2**8), (2**20, 64), (2**22, 16)]
DTYPES = {"float32": 4, "bfloat16": 2, "int64": 8, "uint8": 1}
SMALL = 2**22  # shapes of more elements are sorted as float32 and bfloat16 alone


def numbers(dtype, shape):
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        return np.random.default_rng(0).integers(info.min, info.max, shape, dtype=dtype)
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def orders(limit):
    for dtype, size in DTYPES.items():
        for shape in SHAPES:
            n = int(np.prod(shape))
            if n > SMALL and dtype not in ("float32", "bfloat16"):
                continue
            values = numbers(dtype, shape)
            x = mx.array(values).astype(getattr(mx, dtype))
            mx.eval(x)
            t = torch.from_numpy(values).cuda().to(getattr(torch, dtype)) if torch else None
            of = "x".join(map(str, shape))
            compare(
                f"sort {of}",
                dtype,
                lambda x=x: mx.sort(x, axis=-1),
                lambda t=t: torch.sort(t, dim=-1),
                2 * n * size,
                limit,
            )
            compare(
                f"argsort {of}",
                dtype,
                lambda x=x: mx.argsort(x, axis=-1),
                lambda t=t: torch.argsort(t, dim=-1),
                n * (size + 4),
                limit,
            )


def updates(limit):
    """Numbers added to as many places as there are below."""
    for n, below in ((2**24, 2**20), (2**24, 2**8), (2**22, 2**22), (2**13, 2**10)):
        i = np.random.default_rng(0).integers(0, below, n, dtype=np.int32)
        index, x, u = mx.array(i), mx.zeros((below,)), mx.random.uniform(shape=(n,))
        mx.eval(index, x, u)
        a = None
        if torch:
            a = torch.zeros(below, device="cuda"), torch.from_numpy(i).cuda().long(), torch.rand(n, device="cuda")
        compare(
            f"scatter-add {n} to {below}",
            "float32",
            lambda x=x, i=index, u=u: x.at[i].add(u),
            lambda a=a: a[0].index_add(0, a[1], a[2]),
            n * 8 + below * 8,
            limit,
        )


def main():
    begin()
    limit = bandwidth() if torch else None
    orders(limit)
    updates(limit)


main()
