"""Numbers that go elsewhere: transposes, rows and numbers by index, joins, and random ones."""

import numpy as np

from .. import family, integers

case = family("moves")

SIDE, TABLE, ROWS = 4096, 1 << 16, 1 << 16
case("transposed copy, 4096^2", {"x": (SIDE, SIDE)}, ours="mx.contiguous(x.T)", torch="x.T.contiguous()", jax="x.T + 0",
     numpy="np.ascontiguousarray(x.T)", moved=8 * SIDE**2)  # fmt: skip
case("x + y^T, 4096^2", {"x": (SIDE, SIDE), "y": (SIDE, SIDE)}, "x + y.T", moved=12 * SIDE**2)
case("heads, (8,1024,16,64) to (8,16,1024,64)", {"x": (8, 1024, 16, 64)}, ours="mx.contiguous(x.transpose(0, 2, 1, 3))",
     torch="x.permute(0, 2, 1, 3).contiguous()", jax="x.transpose(0, 2, 1, 3) + 0",
     numpy="np.ascontiguousarray(x.transpose(0, 2, 1, 3))", moved=8 * 8 * 1024 * 1024)  # fmt: skip
for what, shape, axes in (("images of 3 channels, these last, (64,3,256,256)", (64, 3, 256, 256), (0, 2, 3, 1)),
                          ("images of 3 channels, these first, (64,256,256,3)", (64, 256, 256, 3), (0, 3, 1, 2)),
                          ("axes in reverse, (64,512,512)", (64, 512, 512), (2, 1, 0))):  # fmt: skip
    case(what, {"x": shape}, ours=f"mx.contiguous(x.transpose{axes})", torch=f"x.permute{axes}.contiguous()",
         jax=f"x.transpose{axes} + 0", numpy=f"np.ascontiguousarray(x.transpose{axes})",
         moved=8 * np.prod(shape))  # fmt: skip
case("rows of 256 by 65,536 indices", {"x": (TABLE, 256), "i": integers(TABLE, ROWS)}, ours="x[i]", torch="x[i]",
     jax="x[i]", numpy="x[i]", moved=8 * 256 * ROWS)  # fmt: skip
case("numbers by 2^22 indices", {"x": (TABLE,), "i": integers(TABLE, 1 << 22)}, "x[i]", moved=8 << 22)
case("rows of 256 added at 65,536 indices", {"x": (TABLE, 256), "u": (ROWS, 256), "i": integers(TABLE, ROWS)},
     ours="x.at[i].add(u)", torch="x.index_add(0, i, u)", jax="x.at[i].add(u)", numpy=None,
     moved=12 * 256 * ROWS)  # fmt: skip
case("numbers added at 2^20 indices", {"x": (TABLE,), "u": (1 << 20,), "i": integers(TABLE, 1 << 20)},
     ours="x.at[i].add(u)", torch="x.index_add(0, i, u)", jax="x.at[i].add(u)", numpy=None)  # fmt: skip
case("take_along_axis, 4096 x 1024", {"x": (SIDE, 1024), "i": integers(1024, (SIDE, 1024), "int64")},
     "xp.take_along_axis(x, i, 1)", torch="torch.take_along_dim(x, i, 1)", moved=16 * SIDE * 1024)  # fmt: skip
case("concatenate 8 of 1024 x 512 side by side", {"x": (1024, 512)}, "xp.concatenate([x] * 8, 1)",
     torch="torch.cat([x] * 8, 1)", moved=4 * 9 * 1024 * 512)  # fmt: skip
case("pad (64,56,56,64) by 1", {"x": (64, 56, 56, 64)}, ours="mx.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])",
     torch="F.pad(x, (0, 0, 1, 1, 1, 1))", jax="jnp.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])",
     numpy="np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])", moved=8 * 64 * 57 * 57 * 64)  # fmt: skip
case("uniform, 2^24", {"i": (1,)}, ours="mx.random.uniform(shape=(1 << 24,))", torch="torch.rand(1 << 24)",
     jax="jax.random.uniform(jax.random.key(0), (1 << 24,), jnp.float32)",
     numpy="rng.random(1 << 24, dtype=np.float32)", before={"NumPy": "rng = np.random.default_rng(0)"},
     moved=4 << 24, tolerance=None)  # fmt: skip
case("normal, 2^24", {"i": (1,)}, ours="mx.random.normal((1 << 24,))", torch="torch.randn(1 << 24)",
     jax="jax.random.normal(jax.random.key(0), (1 << 24,), jnp.float32)",
     numpy="rng.standard_normal(1 << 24, dtype=np.float32)", before={"NumPy": "rng = np.random.default_rng(0)"},
     moved=4 << 24, tolerance=None)  # fmt: skip
