"""Products of matrices: sizes, types, batches, packed weights."""

from .. import doubles, family

case = family("products")

for n in (64, 128, 256, 512, 1024, 2048):
    case(f"{n} x {n}", {"x": (n, n), "y": (n, n)}, "x @ y", operations=2 * n**3)
case("1024 x 1024, transposed second", {"x": (1024, 1024), "y": (1024, 1024)}, "x @ y.T", operations=2 * 1024**3)
case("1024 x 1024, float64", {"x": doubles(1024, 1024), "y": doubles(1024, 1024)}, "x @ y",
     before={"ours": "x, y = x.astype(mx.float64), y.astype(mx.float64); mx.eval(x, y)"})  # fmt: skip
HALF = {
    "ours": "x, y = x.astype(bfloat16), y.astype(bfloat16); mx.eval(x, y)",
    "PyTorch": "x, y = x.to(bfloat16), y.to(bfloat16)",
    "JAX": "x, y = x.astype(bfloat16), y.astype(bfloat16)",
}
case("1024 x 1024, bfloat16", {"x": (1024, 1024), "y": (1024, 1024)}, "x @ y", numpy=None, before=HALF,
     tolerance=1e-2)  # fmt: skip
case("64 x 1024 by 1024 x 4096, bfloat16", {"x": (64, 1024), "y": (1024, 4096)}, "x @ y", numpy=None, before=HALF,
     tolerance=1e-2)  # fmt: skip
case("64 of 256 x 256", {"x": (64, 256, 256), "y": (64, 256, 256)}, "x @ y", operations=2 * 64 * 256**3)
case("512 of 32 x 32", {"x": (512, 32, 32), "y": (512, 32, 32)}, "x @ y", operations=2 * 512 * 32**3)
case("matrix and vector, 4096^2", {"x": (4096, 4096), "y": (4096,)}, "x @ y", moved=4 * 4096**2)
case("transposed matrix and vector, 4096^2", {"x": (4096, 4096), "y": (4096,)}, "x.T @ y", moved=4 * 4096**2)
case("tensordot of (32,64,16,16) and (16,16,64)", {"x": (32, 64, 16, 16), "y": (16, 16, 64)},
     "xp.tensordot(x, y, 2)", operations=2 * 32 * 64 * 256 * 64)  # fmt: skip
case("einsum bij,bjk->bik, 128 of 64 x 64", {"x": (128, 64, 64), "y": (128, 64, 64)},
     "xp.einsum('bij,bjk->bik', x, y)", operations=2 * 128 * 64**3)  # fmt: skip
case("einsum ij,jk,kl->il, 256", {"x": (256, 256), "y": (256, 256), "z": (256, 256)},
     "xp.einsum('ij,jk,kl->il', x, y, z)", numpy="np.einsum('ij,jk,kl->il', x, y, z, optimize=True)")  # fmt: skip
case("linear layer with bias, 64 x 1024 to 4096", {"x": (64, 1024), "w": (4096, 1024), "b": (4096,)},
     ours="mx.addmm(b, x, w.T)", torch="F.linear(x, w, b)", jax="x @ w.T + b", numpy="x @ w.T + b",
     operations=2 * 64 * 1024 * 4096)  # fmt: skip
for rows in (1, 64):
    case(f"4-bit weights of 4096^2, {rows} rows", {"x": (rows, 4096), "w": (4096, 4096)},
         ours="mx.quantized_matmul(x, *packed)", torch="x @ w.T", jax="x @ w.T", numpy="x @ w.T",
         before={"ours": "packed = mx.quantize(w); mx.eval(packed)"}, tolerance=None)  # fmt: skip
case("4-bit weights of 4096^2, 256 rows of bfloat16", {"x": (256, 4096), "y": (4096, 4096)},
     ours="mx.quantized_matmul(x, *packed)", torch="x @ y.T", jax="x @ y.T", numpy=None, tolerance=None,
     before={**HALF, "ours": HALF["ours"] + "; packed = mx.quantize(y); mx.eval(packed)"})  # fmt: skip
