"""Attention: causal, masked, one query after many keys, and back."""

from .. import BACK, family

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
OURS_BACK, TORCH_BACK = OURS.format(0.125, ", mask='causal'"), TORCH.format(", is_causal=True")
attention("causal and back, 8 heads of 64, 512", 8, 512, 512, 64, f"back(lambda q, k, v: {OURS_BACK}, q, k, v)",
          f"back(lambda q, k, v: {TORCH_BACK}, q, k, v)",
          "back(lambda q, k, v: attention(q, k, v, is_causal=True), q, k, v)",
          before={**BACK, "JAX": JAX["JAX"] + BACK["JAX"]})  # fmt: skip
