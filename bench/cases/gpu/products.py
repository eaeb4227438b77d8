"""Products of matrices: large, small, many, by a vector, with what follows, of matrices that rows choose, packed."""

from math import prod

from .. import family, integers, large
from . import SIZE, typed

case = family("products")


def product(what, left, right, dtype, transposed=False):
    left, right = tuple(map(large, left)), tuple(map(large, right))
    results = prod(left[:-1]) * right[-1]
    case(typed(what, dtype), {"x": left, "y": right[::-1] if transposed else right},
         "x @ y.T" if transposed else "x @ y", operations=2 * results * left[-1],
         moved=(prod(left) + prod(right) + results) * SIZE[dtype], type=dtype, tolerance=1e-2)  # fmt: skip


for dtype in (None, "bfloat16"):
    for n in (1024, 2048, 4096):
        product(f"{n} x {n}", (n, n), (n, n), dtype)
    product("4096 x 4096, transposed second", (4096, 4096), (4096, 4096), dtype, True)
    product("64 of 512 x 512", (64, 512, 512), (64, 512, 512), dtype)
    product("4096 x 4096 times a vector", (4096, 4096), (4096, 1), dtype)
    product("a vector times 4096 x 4096", (1, 4096), (4096, 4096), dtype)
    product("8 rows times 4096 x 4096", (8, 4096), (4096, 4096), dtype)
    product("256 x 65536 x 256", (256, 65536), (65536, 256), dtype)
    product("1001 x 1001", (1001, 1001), (1001, 1001), dtype)
for rows in (64, 8192):
    arrays = {"x": (large(rows), large(4096)), "w": (large(4096), large(4096)), "b": (large(4096),)}
    rest = {"operations": 2 * rows * 4096**2, "moved": 2 * (4096**2 + 2 * rows * 4096), "type": "bfloat16",
            "tolerance": 1e-2}  # fmt: skip
    case(f"layer of 4096 and {rows} rows, bfloat16", arrays, ours="mx.addmm(b, x, w.T)", torch="F.linear(x, w, b)",
         **rest)  # fmt: skip
    case(f"layer of 4096 and {rows} rows, relu, bfloat16", arrays, ours="mx.maximum(mx.addmm(b, x, w.T), 0)",
         torch="F.linear(x, w, b).relu()", **rest)  # fmt: skip
# PyTorch multiplies the rows of each matrix by themselves.
for rows, matrices, m, n in ((4096, 8, 4096, 4096), (512, 64, 1408, 2048)):
    what = f"{rows} rows, each by one of {matrices} of {n} x {m}, bfloat16"
    rows, m, n = large(rows), large(m), large(n)
    case(what,
         {"x": (rows, 1, n), "w": (matrices, m, n), "i": integers(matrices, (rows,))},
         ours="mx.gather_mm(x, w.swapaxes(1, 2), rhs_indices=i)", torch="each(x[:, 0])", type="bfloat16",
         before={"PyTorch": f"""
            i = i.long()
            counts = torch.bincount(i, minlength={matrices}).tolist()
            order = torch.argsort(i)
            def each(x):
                return torch.cat([rows @ w[k].T for k, rows in enumerate(x[order].split(counts))])
         """}, operations=2 * rows * m * n, moved=2 * (matrices * m * n + rows * (m + n)), tolerance=1e-2)  # fmt: skip

case = family("packed weights")

# 32 matrices one after the other, more than caches hold; PyTorch's are of bfloat16.
SIDE, LAYERS = large(4096), 32
CHAIN = {
    "PyTorch": """
        layers = list((w / 64).repeat(32, 1, 1))
        def chain(x):
            for w in layers:
                x = x @ w.T
            return x
    """
}
# What they are made with, bytes of a weight.
FORMATS = {
    "4 bits": ("bits=4", 0.5 + 4 / 64),
    "8 bits": ("bits=8", 1 + 4 / 64),
    "mxfp4": ("mode='mxfp4'", 0.5 + 1 / 32),
}
for name, (how, size) in FORMATS.items():
    here = f"""
        layers = [mx.quantize(w / 64 + i / 1e4, {how}) for i in range({LAYERS})]
        mx.eval(layers)
        def chain(x):
            for w in layers:
                x = mx.quantized_matmul(x, *w, {how})
            return x
    """
    for rows in (1, 4, 16, 64, 256, 2048):
        case(f"32 of 4096^2, {name}, {rows} rows", {"x": (large(rows), SIDE), "w": (SIDE, SIDE)}, "chain(x)",
             before={**CHAIN, "ours": here}, type="bfloat16", moved=LAYERS * size * SIDE**2, tolerance=None,
             operations=2 * LAYERS * rows * SIDE**2)  # fmt: skip
