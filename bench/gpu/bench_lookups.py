"""Arrays of indices on a GPU, beside PyTorch in the same run where it can be imported."""

import mlx.core as mx
import numpy as np
from beside import bandwidth, begin, compare, torch

ROWS, WIDTH, TABLE = 2**20, 512, 2**17  # rows of an embedding, wanted and there
N, M, CHOSEN = 2**14, 2**15, 2**14  # of rows of M numbers so many each
FLAT = 2**28


def put(x, i, u):
    y = x * 1
    y[i] = u
    return y


# name: shape, of the indices and below what they are, operation here and there, bytes moved beside what an element is
OPERATIONS = {
    "take of rows of 512": (
        (TABLE, WIDTH),
        (ROWS,),
        TABLE,
        lambda x, i: mx.take(x, i, 0),
        lambda x, i: torch.index_select(x, 0, i),
        lambda size: 2 * ROWS * WIDTH * size,
    ),
    "take of rows of 16": (
        (2**22, 16),
        (2**24,),
        2**22,
        lambda x, i: mx.take(x, i, 0),
        lambda x, i: torch.index_select(x, 0, i),
        lambda size: 2 * 2**28 * size,
    ),
    "take of numbers": (
        (2**20,),
        (FLAT,),
        2**20,
        lambda x, i: mx.take(x, i),
        lambda x, i: torch.take(x, i),
        lambda size: FLAT * (4 + size),
    ),
    "take_along_axis": (
        (N, M),
        (N, CHOSEN),
        M,
        lambda x, i: mx.take_along_axis(x, i, 1),
        lambda x, i: torch.gather(x, 1, i),
        lambda size: N * CHOSEN * (4 + 2 * size),
    ),
    "scatter-add of rows of 512": (
        (TABLE, WIDTH),
        (ROWS,),
        TABLE,
        lambda x, i, u: x.at[i].add(u),
        lambda x, i, u: x.index_add(0, i, u),
        lambda size: (ROWS + 3 * TABLE) * WIDTH * size,
    ),
    "set of rows of 512": (
        (TABLE, WIDTH),
        (ROWS,),
        TABLE,
        lambda x, i, u: put(x, i, u),
        lambda x, i, u: x.index_put((i,), u),
        lambda size: 5 * TABLE * WIDTH * size,
    ),
    "scatter-add of numbers": (
        (2**20,),
        (2**24,),
        2**20,
        lambda x, i, u: x.at[i].add(u),
        lambda x, i, u: x.index_add(0, i, u),
        lambda size: 2**24 * (4 + size),
    ),
    "put_along_axis": (
        (2**12, 2**13),
        (2**12, 2**12),
        2**13,
        lambda x, i, u: mx.put_along_axis(x, i, u, 1),
        lambda x, i, u: x.scatter(1, i, u),
        lambda size: 2**24 * (4 + size) + 2**26 * size,
    ),
}


def main():
    begin()
    limit = bandwidth() if torch else None
    for dtype in ("float32", "bfloat16"):
        for name, (shape, places, below, f, g, moved) in OPERATIONS.items():
            i = np.random.default_rng(0).integers(0, below, places, dtype=np.int32)
            index, x = mx.array(i), mx.random.uniform(shape=shape).astype(getattr(mx, dtype))
            updated = f.__code__.co_argcount == 3
            shape = (*places, *shape[1:]) if len(places) == 1 else places
            more = [mx.random.uniform(shape=shape).astype(x.dtype)] if updated else []
            mx.eval(index, x, more)
            a = t = None
            if torch:
                t = torch.from_numpy(i).cuda().long()
                a = [torch.rand(z.shape, device="cuda").to(getattr(torch, dtype)) for z in (x, *more)]
            compare(
                name,
                dtype,
                lambda f=f, x=x, i=index, u=more: f(x, i, *u),
                lambda g=g, a=a, i=t: g(a[0], i, *a[1:]),
                moved(x.dtype.size),
                limit,
            )
            del a, t, x, index, more


main()
