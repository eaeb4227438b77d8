"""Products of matrices on a GPU, beside PyTorch in the same run where it can be imported: with cuBLASLt where it is
found, by our kernels alone, and those of float32 both ways with fewer bits (TF32)."""

import os
import subprocess
import sys

import mlx.core as mx
from beside import begin, ours, theirs, torch

# name: dtype, shapes of the operands
PRODUCTS = {
    "8192 x 8192 x 8192": ("bfloat16", (8192, 8192), (8192, 8192)),
    "the same, float16": ("float16", (8192, 8192), (8192, 8192)),
    "4096 x 4096 x 4096": ("float32", (4096, 4096), (4096, 4096)),
    "4096 x 4096 times a vector": ("bfloat16", (4096, 4096), (4096, 1)),
    "a vector times 4096 x 4096": ("bfloat16", (1, 4096), (4096, 4096)),
    "64 of 512 x 512 x 512": ("bfloat16", (64, 512, 512), (64, 512, 512)),
    "64 of 512 x 512 x 512, float32": ("float32", (64, 512, 512), (64, 512, 512)),
    "8 rows times 4096 x 4096": ("bfloat16", (8, 4096), (4096, 4096)),
    "256 x 65536 x 256": ("bfloat16", (256, 65536), (65536, 256)),
    "1001 x 1001 x 1001": ("bfloat16", (1001, 1001), (1001, 1001)),
}

TF32 = os.environ.get("MLX_ENABLE_TF32") == "1"
OTHERS = [{"MLX_CUDA_LIBRARIES": "0"}, {"MLX_ENABLE_TF32": "1"}, {"MLX_CUDA_LIBRARIES": "0", "MLX_ENABLE_TF32": "1"}]


def linear(rows):
    """A layer: a row added to each row of the product, and relu of that. PyTorch has a function that lets cuBLASLt do
    both; does it pass NaN on, as relu does?"""
    x, w, b = (mx.random.normal(s).astype(mx.bfloat16) for s in ((rows, 4096), (4096, 4096), (4096,)))
    mx.eval(x, w, b)
    t = ours(lambda: mx.addmm(b, x, w.T)), ours(lambda: mx.maximum(mx.addmm(b, x, w.T), 0))
    line = f"{f'a layer of {rows} rows, 4096':<37} bfloat16  ours {t[0] * 1e3:.3f} ms, with relu {t[1] * 1e3:.3f}"
    if torch:
        x, w, b = (torch.randn(s, device="cuda").bfloat16() for s in ((rows, 4096), (4096, 4096), (4096,)))
        layer, both = torch.nn.functional.linear, torch._addmm_activation
        u = theirs(lambda: layer(x, w, b)), theirs(lambda: layer(x, w, b).relu()), theirs(lambda: both(b, x, w.T))
        line += f"   PyTorch {u[0] * 1e3:.3f} ms, with relu {u[1] * 1e3:.3f}, as one {u[2] * 1e3:.3f}"
        line += f", NaN {'passed on' if both(b, x * torch.nan, w.T).isnan().all() else 'lost'}"
    print(line, flush=True)


# rows, each with one of so many matrices, their shape
PICKED = [(4096, 8, (4096, 4096)), (512, 64, (2048, 1408)), (8, 64, (2048, 1408))]


def picked(rows, matrices, shape):
    """Rows that are multiplied with matrices of their own, as they lie and in the order of those, with 16 bits and with
    4; PyTorch's rows are in order, one product for each matrix."""
    x = mx.random.normal((rows, 1, shape[0])).astype(mx.bfloat16)
    w = mx.random.normal((matrices, shape[1], shape[0])).astype(mx.bfloat16)
    i = mx.random.randint(0, matrices, (rows,))
    packed = mx.quantize(w, bits=4)
    mx.eval(x, w, i, packed)
    line = f"{rows} rows, {matrices} of {shape[0]} x {shape[1]}:"
    for name, index in (("any order", i), ("in order", mx.sort(i))):
        mx.eval(index)
        t = ours(lambda index=index: mx.gather_mm(x, w.swapaxes(1, 2), rhs_indices=index))
        u = ours(lambda index=index: mx.gather_qmm(x, *packed, rhs_indices=index, bits=4))
        line += f" {name} {t * 1e3:.3f} ms, 4 bits {u * 1e3:.3f} ms;"
    if torch:
        ends = torch.tensor([int((i <= k).sum()) for k in range(matrices)]).tolist()
        a = torch.randn(rows, shape[0], device="cuda", dtype=torch.bfloat16)
        b = torch.randn(matrices, shape[0], shape[1], device="cuda", dtype=torch.bfloat16)
        parts = list(enumerate(zip([0, *ends], ends)))
        t = theirs(lambda: [a[begin:end] @ b[k] for k, (begin, end) in parts if begin < end])
        line += f"   PyTorch {t * 1e3:.3f} ms"
    print(line, flush=True)


def main():
    begin()
    library = mx.cuda.libraries()["cublasLt"]
    print("cublasLt", library["version"] if library and library["used_for"] else "not used", "TF32" if TF32 else "")
    if torch:
        torch.backends.cuda.matmul.allow_tf32 = TF32
    for name, (dtype, left, right) in PRODUCTS.items():
        if TF32 and dtype != "float32":
            continue
        for turned in (False, True):  # b as it is, and the transpose of a matrix that lies row by row
            a, b = (mx.random.normal(s).astype(getattr(mx, dtype)) for s in (left, right))
            b = mx.contiguous(mx.swapaxes(b, -1, -2)).swapaxes(-1, -2) if turned else b
            mx.eval(a, b)
            operations = 2 * a.size * right[-1]
            bytes_ = a.nbytes + b.nbytes + a.size // a.shape[-1] * right[-1] * a.itemsize
            t = ours(lambda a=a, b=b: a @ b)
            line = f"{name:<30} {'turned' if turned else '':<6} {dtype:<9} ours {t * 1e3:.3f} ms"
            line += f" {operations / t / 1e12:.1f} TFLOP/s {bytes_ / t / 1e9:.0f} GB/s"
            if torch:
                x, y = (torch.randn(s, device="cuda").to(getattr(torch, dtype)) for s in (left, right))
                y = y.transpose(-1, -2).contiguous().transpose(-1, -2) if turned else y
                u = theirs(lambda x=x, y=y: x @ y)
                line += f"   PyTorch {u * 1e3:.3f} ms ({u / t:.2f}x)"
                del x, y
            print(line, flush=True)
            del a, b
    for shape in [] if TF32 else PICKED:
        picked(*shape)
    if not TF32:
        linear(8192)
        linear(64)


main()
if not {"MLX_CUDA_LIBRARIES", "MLX_ENABLE_TF32"} & {*os.environ}:
    for other in OTHERS:
        subprocess.run([sys.executable, __file__], env=os.environ | other, check=True)
