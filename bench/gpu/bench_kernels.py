"""A kernel given as text on a GPU, beside the same as operations and beside PyTorch, where it can be imported: gated by
its sigmoid. And what it takes to launch one of a single block, waited for at the end of 1,000."""

import mlx.core as mx
from beside import begin, ours, theirs, torch

SOURCE = """
    auto i = cooperative_groups::this_grid().thread_rank();
    float v = float(x[i]);
    y[i] = T(v / (1 + __expf(-v)) * float(g[i]));
"""


def main():
    begin()
    gated = mx.fast.cuda_kernel(name="gated", input_names=["x", "g"], output_names=["y"], source=SOURCE)

    def call(x, g):
        return gated(
            inputs=[x, g],
            template=[("T", x.dtype)],
            grid=(x.size, 1, 1),
            threadgroup=(256, 1, 1),
            output_shapes=[x.shape],
            output_dtypes=[x.dtype],
        )[0]

    for dtype in ("float32", "bfloat16"):
        x, g = (mx.random.normal((1 << 26,)).astype(getattr(mx, dtype)) for _ in range(2))
        mx.eval(x, g)
        t, whole = ours(lambda x=x, g=g: call(x, g)), ours(lambda x=x, g=g: x * mx.sigmoid(x) * g)
        line = f"gated, {dtype:<9} as text {t * 1e3:.3f} ms {3 * x.nbytes / t / 1e9:.0f} GB/s   as operations"
        line += f" {whole * 1e3:.3f} ms"
        if torch:
            a, b = (torch.randn(1 << 26, device="cuda").to(getattr(torch, dtype)) for _ in range(2))
            u = theirs(lambda a=a, b=b: torch.nn.functional.silu(a) * b)
            line += f"   PyTorch {u * 1e3:.3f} ms ({u / t:.2f}x)"
        print(line, flush=True)

    def many(x):
        for _ in range(1000):
            x = call(x, x)
        return x

    x = mx.ones((256,))
    print(f"1,000 of one block: {ours(lambda: many(x)) * 1e3:.2f} ms", flush=True)


main()
