"""Sums and their kind, over all, rows and columns; scans; orders."""

import numpy as np

from .. import family

case = family("reductions")

for rows, n in ((1 << 19, 8), (1 << 16, 64), (1 << 12, 1024)):
    x, of, moved = {"x": (rows, n)}, f"rows of {n}, {rows:,}", 4 * rows * n
    case(f"sum, {of}", x, "x.sum(-1)", moved=moved)
    case(f"max, {of}", x, "x.max(-1)", torch="x.amax(-1)", moved=moved)
    case(f"product, {of}", x, "x.prod(-1)", moved=moved)
    case(f"norm, {of}", x, "xp.linalg.norm(x, axis=-1)", torch="torch.linalg.norm(x, dim=-1)", moved=moved)
    case(f"argmax, {of}", x, "xp.argmax(x, -1)", moved=moved)
    case(f"variance, {of}", x, "xp.var(x, -1)", torch="torch.var(x, -1, correction=0)", moved=moved)
N = 1 << 24
case("sum, 2^24", {"x": (N,)}, "xp.abs(x).sum()", moved=4 * N)
case("sum of columns, 4096^2", {"x": (4096, 4096)}, "x.sum(0)", moved=4 * N, tolerance=1e-2)
case("max of columns, 4096^2", {"x": (4096, 4096)}, "x.max(0)", torch="x.amax(0)", moved=4 * N)
case("sum of the middle axis, (64,512,512)", {"x": (64, 512, 512)}, "x.sum(1)", moved=4 * N, tolerance=1e-2)
case("mean squared difference, 4096^2", {"x": (4096, 4096), "y": (4096, 4096)}, ours="mx.square(x - y).mean()",
     torch="F.mse_loss(x, y)", jax="jnp.square(x - y).mean()", numpy="np.square(x - y).mean()",
     moved=8 * N)  # fmt: skip
case("cumsum of rows, 4096^2", {"x": (4096, 4096)}, "xp.cumsum(x, 1)", moved=8 * N, tolerance=1e-2)
case("cumsum of columns, 4096^2", {"x": (4096, 4096)}, "xp.cumsum(x, 0)", moved=8 * N, tolerance=1e-2)
case("sort, 2^22", {"x": (1 << 22,)}, "xp.sort(x)", torch="torch.sort(x)[0]")
case("sort, 4096 x 1024", {"x": (4096, 1024)}, "xp.sort(x)", torch="torch.sort(x)[0]")
case("argsort, 4096 x 1024", {"x": (4096, 1024)}, "xp.argsort(x)")
case("2^20 numbers among 4,096 sorted",
     {"x": lambda rng: np.sort(rng.standard_normal(4096, np.float32)), "y": (1 << 20,)},
     "xp.searchsorted(x, y)")  # fmt: skip
case("10 largest, 4096 x 1024", {"x": (4096, 1024)}, ours="mx.topk(x, 10)", torch="torch.topk(x, 10)[0]",
     jax="jax.lax.top_k(x, 10)[0]", numpy="np.partition(x, -10)[:, -10:]")  # fmt: skip
