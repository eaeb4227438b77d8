"""Attention on a GPU, beside PyTorch in the same run where it can be imported."""

from functools import partial

import mlx.core as mx
from beside import begin, ours, theirs, torch

# name: dtype, batch, heads of queries and of keys, queries, keys, size of a head, causal
SHAPES = {
    "decode, 4096 keys": ("bfloat16", 1, 32, 32, 1, 4096, 128, False),
    "decode, 4096 keys, 8 heads of keys": ("bfloat16", 1, 32, 8, 1, 4096, 128, False),
    "decode, 65536 keys, 8 heads of keys": ("bfloat16", 1, 32, 8, 1, 65536, 128, False),
    "decode, 4096 keys, 32 texts": ("float16", 32, 32, 8, 1, 4096, 128, False),
    "decode, 4096 keys, float32": ("float32", 1, 32, 32, 1, 4096, 128, False),
    "prefill, causal": ("bfloat16", 4, 32, 32, 2048, 2048, 128, True),
    "prefill": ("bfloat16", 4, 32, 32, 2048, 2048, 128, False),
    "prefill, float16, heads of 64": ("float16", 4, 32, 32, 2048, 2048, 64, True),
    "prefill, heads of 80": ("bfloat16", 4, 32, 32, 2048, 2048, 80, True),
    "prefill, heads of 256": ("bfloat16", 4, 16, 16, 2048, 2048, 256, True),
    "prefill, 8 heads of keys": ("bfloat16", 1, 32, 8, 4096, 4096, 128, True),
    "prefill, float32": ("float32", 4, 32, 32, 2048, 2048, 128, True),
    "prefill, float32, heads of 256": ("float32", 4, 16, 16, 2048, 2048, 256, False),
    "prefill, float32, heads of 256, causal": ("float32", 4, 16, 16, 2048, 2048, 256, True),
}


def settle(f, operations):
    """Call f so often that cuDNN has taken over: after 15e12 multiply-adds of a shape (docs/cuda.md) and some more."""
    for _ in range(min(int(2 * 20e12 / operations), 1000)):
        mx.eval(f())


# The gradients of all three operands, from what the forward pass has kept.
GRADIENTS = {
    "gradient": ("bfloat16", 4, 32, 32, 2048, 2048, 128, False),
    "gradient, causal": ("bfloat16", 4, 32, 32, 2048, 2048, 128, True),
    "gradient, float16, heads of 64": ("float16", 4, 32, 32, 2048, 2048, 64, True),
    "gradient, heads of 96": ("bfloat16", 4, 32, 32, 2048, 2048, 96, True),
    "gradient, 8 heads of keys": ("bfloat16", 1, 32, 8, 4096, 4096, 128, True),
    "gradient, float32": ("float32", 1, 32, 32, 2048, 2048, 128, True),
    "gradient, float32, heads of 256": ("float32", 4, 16, 16, 2048, 2048, 256, False),
    "gradient, float32, heads of 256, causal": ("float32", 4, 16, 16, 2048, 2048, 256, True),
}


def gradients():
    """PyTorch's backward pass alone; ours with a forward pass, whose own time is told and taken off."""
    for name, (dtype, batch, heads, kv, length, keys, d, causal) in GRADIENTS.items():
        shapes = [(batch, heads, length, d), (batch, kv, keys, d), (batch, kv, keys, d)]
        q, k, v = (mx.random.normal(s).astype(getattr(mx, dtype)) for s in shapes)
        ct = mx.random.normal(shapes[0]).astype(q.dtype)
        mx.eval(q, k, v, ct)
        attend = partial(mx.fast.scaled_dot_product_attention, scale=0.1, mask="causal" if causal else None)
        operations = 10 * q.size * keys / (2 if causal else 1)
        settle(lambda f=attend, x=(q, k, v), ct=ct: mx.vjp(f, [*x], [ct]), operations * 4 / 10)
        forward = ours(lambda f=attend, x=(q, k, v): f(*x))
        both = ours(lambda f=attend, x=(q, k, v), ct=ct: mx.vjp(f, [*x], [ct]))
        t = both - forward
        line = f"{name:<40} {dtype:<9} ours {t * 1e3:.3f} ms {operations / t / 1e12:.1f} TFLOP/s"
        line += f" (and {forward * 1e3:.3f} forward)"
        if torch:
            q, k, v = (torch.randn(s, device="cuda").to(getattr(torch, dtype)).requires_grad_() for s in shapes)
            options = {"is_causal": causal, "scale": 0.1, "enable_gqa": heads != kv}
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)
            ct = torch.randn_like(y)
            u = theirs(partial(torch.autograd.grad, y, (q, k, v), ct, retain_graph=True))
            line += f"   PyTorch {u * 1e3:.3f} ms ({u / t:.2f}x)"
            del y
        print(line, flush=True)
        del q, k, v, ct, attend


def main():
    begin()
    if torch:
        torch.backends.cuda.matmul.allow_tf32 = False
    for name, (dtype, batch, heads, kv, length, keys, d, causal) in SHAPES.items():
        shapes = [(batch, heads, length, d), (batch, kv, keys, d), (batch, kv, keys, d)]
        q, k, v = (mx.random.normal(s).astype(getattr(mx, dtype)) for s in shapes)
        mx.eval(q, k, v)
        mask = "causal" if causal else None
        attend = partial(mx.fast.scaled_dot_product_attention, scale=0.1, mask=mask)
        operations = 4 * q.size * keys / (2 if causal else 1)
        settle(lambda f=attend, x=(q, k, v): f(*x), operations)
        t = ours(lambda f=attend, x=(q, k, v): f(*x))
        line = f"{name:<40} {dtype:<9} ours {t * 1e3:.3f} ms {operations / t / 1e12:.1f} TFLOP/s"
        line += f" {(k.nbytes + v.nbytes) / t / 1e9:.0f} GB/s"
        if torch:
            q, k, v = (torch.randn(s, device="cuda").to(getattr(torch, dtype)) for s in shapes)
            options = {"is_causal": causal, "scale": 0.1, "enable_gqa": heads != kv}
            attend = partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, **options)
            u = theirs(attend)
            line += f"   PyTorch {u * 1e3:.3f} ms ({u / t:.2f}x)"
            del attend
        print(line, flush=True)
        del q, k, v
    gradients()


main()
