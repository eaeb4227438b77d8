"""Rows in order, which PyTorch has the places of too; what is read and written through indices."""

from math import prod

from .. import family, integers, large
from . import SIZE, TYPES, typed

case = family("order")

for dtype in TYPES:
    for shape in ((1 << 22,), (1 << 26,), (1 << 12, 1 << 16), (1 << 13, 1 << 13), (1 << 16, 1 << 10), (1 << 22, 16)):
        of, n = typed(" x ".join(f"{side:,}" for side in shape), dtype), prod(shape)
        x = {"x": tuple(map(large, shape))}
        case(f"sort of {of}", x, ours="mx.sort(x, -1)", torch="torch.sort(x, -1)[0]", moved=2 * n * SIZE[dtype],
             type=dtype)  # fmt: skip
        case(f"argsort of {of}", x, ours="mx.argsort(x, -1)", torch="torch.argsort(x, -1)", type=dtype,
             moved=n * (SIZE[dtype] + 4), tolerance=None)  # fmt: skip
case("topk 50 of 4,096 x 32,000", {"x": (large(4096), large(32000))}, ours="mx.topk(x, 50)",
     torch="torch.topk(x, 50)[0]", moved=4 * large(4096) * large(32000))  # fmt: skip

case = family("lookups")

ROWS, WIDTH, TABLE = large(1 << 20), large(512), large(1 << 17)  # rows of an embedding, wanted and there
FLAT, PLACES = large(1 << 28), large(1 << 20)
# PyTorch's indices are of 64 bits.
LONG = {"PyTorch": "i = i.long()"}
PUT = """
def put(x, i, u):
    y = x * 1
    y[i] = u
    return y
"""
for dtype in TYPES:
    size, rest = SIZE[dtype], {"type": dtype, "tolerance": 1e-2}
    rows = integers(TABLE, (ROWS,))
    case(typed("take of rows of 512", dtype), {"x": (TABLE, WIDTH), "i": rows}, ours="mx.take(x, i, 0)",
         torch="torch.index_select(x, 0, i)", before=LONG, moved=2 * ROWS * WIDTH * size, **rest)  # fmt: skip
    case(typed("take of 2^28 numbers of 2^20", dtype), {"x": (PLACES,), "i": integers(PLACES, (FLAT,))},
         ours="mx.take(x, i)", torch="torch.take(x, i)", before=LONG, moved=FLAT * (4 + size), **rest)  # fmt: skip
    n, m = large(1 << 14), large(1 << 15)
    case(typed("take_along_axis, rows of 32,768", dtype), {"x": (n, m), "i": integers(m, (n, n))},
         ours="mx.take_along_axis(x, i, 1)", torch="torch.gather(x, 1, i)", before=LONG,
         moved=n * n * (4 + 2 * size), **rest)  # fmt: skip
    case(typed("scatter-add of rows of 512", dtype), {"x": (TABLE, WIDTH), "i": rows, "u": (ROWS, WIDTH)},
         ours="x.at[i].add(u)", torch="x.index_add(0, i, u)", before=LONG,
         moved=(ROWS + 2 * TABLE) * WIDTH * size, **rest)  # fmt: skip
    case(typed("set of rows of 512", dtype), {"x": (TABLE, WIDTH), "i": integers(TABLE, (TABLE,)), "u": (TABLE, WIDTH)},
         ours="put(x, i, u)", torch="x.index_put((i,), u)", before={**LONG, "ours": PUT},
         moved=3 * TABLE * WIDTH * size, type=dtype, tolerance=None)  # fmt: skip
    for many, below in ((1 << 24, 1 << 20), (1 << 24, 1 << 8), (1 << 22, 1 << 22)):
        x, i, u = (large(below),), integers(large(below), (large(many),)), (large(many),)
        case(typed(f"scatter-add of {many:,} numbers to {below:,}", dtype), {"x": x, "i": i, "u": u},
             ours="x.at[i].add(u)", torch="x.index_add(0, i, u)", before=LONG,
             moved=many * (4 + size) + 2 * below * size, **rest)  # fmt: skip
    n, m = large(1 << 12), large(1 << 13)
    case(typed("put_along_axis, rows of 8,192", dtype), {"x": (n, m), "i": integers(m, (n, n)), "u": (n, n)},
         ours="mx.put_along_axis(x, i, u, 1)", torch="x.scatter(1, i, u)", before=LONG,
         moved=n * n * (4 + size) + 2 * n * m * size, type=dtype, tolerance=None)  # fmt: skip
