"""Attention: causal, masked, one query after many keys, and back."""

from .. import family

case = family("attention")

# JAX has heads behind positions.
JAX = {
    "JAX": """
q, k, v = (x.transpose(0, 2, 1, 3) + 0 for x in (q, k, v))
def attention(q, k, v, **how):
    return jax.nn.dot_product_attention(q, k, v, **how)
"""
}


def attention(what, heads, queries, keys, size, ours, torch, jax, shared=1, before=None, **rest):
    arrays = {"q": (1, heads, queries, size), "k": (1, heads // shared, keys, size),
              "v": (1, heads // shared, keys, size)}  # fmt: skip
    case(what, arrays, ours=ours, torch=torch, jax=jax, numpy=None, before={**JAX, **(before or {})}, tolerance=1e-2,
         **rest)  # fmt: skip


OURS = "mx.fast.scaled_dot_product_attention(q, k, v, scale={}{})"
TORCH = "F.scaled_dot_product_attention(q, k, v{})"
attention("8 heads of 64, 1024 positions", 8, 1024, 1024, 64, OURS.format(64**-0.5, ""), TORCH.format(""),
          "attention(q, k, v)", operations=4 * 8 * 1024**2 * 64)  # fmt: skip
attention("8 heads of 64, 1024 positions, causal", 8, 1024, 1024, 64, OURS.format(64**-0.5, ", mask='causal'"),
          TORCH.format(", is_causal=True"), "attention(q, k, v, is_causal=True)",
          operations=2 * 8 * 1024**2 * 64)  # fmt: skip
attention("8 heads of 64, 1024 positions, boolean mask", 8, 1024, 1024, 64, OURS.format(64**-0.5, ", mask=m"),
          TORCH.format(", attn_mask=m"), "attention(q, k, v, mask=m[None, None])",
          before={"ours": "m = mx.tri(1024, dtype=mx.bool_); mx.eval(m)",
                  "PyTorch": "m = torch.ones(1024, 1024, dtype=torch.bool).tril()",
                  "JAX": JAX["JAX"] + "m = jnp.tri(1024, dtype=bool)"},
          operations=4 * 8 * 1024**2 * 64)  # fmt: skip
HALF = "q, k, v = (x.{}(bfloat16) for x in (q, k, v))"
attention("8 heads of 64, 1024 positions, causal, bfloat16", 8, 1024, 1024, 64,
          OURS.format(64**-0.5, ", mask='causal'"), TORCH.format(", is_causal=True"),
          "attention(q, k, v, is_causal=True)",
          before={"ours": HALF.format("astype") + "; mx.eval(q, k, v)", "PyTorch": HALF.format("to"),
                  "JAX": JAX["JAX"] + HALF.format("astype")})  # fmt: skip
attention("one query, 8 heads of 64, 8192 keys", 8, 1, 8192, 64, OURS.format(64**-0.5, ""), TORCH.format(""),
          "attention(q, k, v)", moved=8 * 8 * 8192 * 64)  # fmt: skip
attention("one query, 32 heads of 128, 2048 keys", 32, 1, 2048, 128, OURS.format(128**-0.5, ""), TORCH.format(""),
          "attention(q, k, v)", moved=8 * 32 * 2048 * 128)  # fmt: skip
attention("one query, 32 heads over 8, 4096 keys", 32, 1, 4096, 128, OURS.format(128**-0.5, ""),
          TORCH.format(", enable_gqa=True"), "attention(q, k, v)", shared=4, moved=8 * 8 * 4096 * 128)  # fmt: skip
BACK = {
    "ours": """
def f(q, k, v):
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask='causal')
def back(q, k, v):
    return mx.vjp(lambda *x: [f(*x)], [q, k, v], [mx.ones(q.shape)])
""",
    "PyTorch": """
def back(*x):
    with torch.enable_grad():
        x = [a.detach().requires_grad_() for a in x]
        y = F.scaled_dot_product_attention(*x, is_causal=True)
        return y, torch.autograd.grad(y, x, torch.ones_like(y))
""",
    "JAX": JAX["JAX"]
    + """
def back(*x):
    y, pull = jax.vjp(lambda q, k, v: attention(q, k, v, is_causal=True), *x)
    return y, pull(jnp.ones_like(y))
""",
}
attention("causal and back, 8 heads of 64, 512", 8, 512, 512, 64, "back(q, k, v)", "back(q, k, v)", "back(q, k, v)",
          before=BACK)  # fmt: skip
