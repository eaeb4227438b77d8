"""Attention: one query after many keys, many queries, and back."""

from .. import BACK, family, large
from . import SIZE, typed

case = family("attention")

# batch, heads of queries and of keys, queries, keys, size of a head, causal
SHAPES = {
    "one query, 4096 keys": ("bfloat16", 1, 32, 32, 1, 4096, 128, False),
    "one query, 4096 keys, 8 heads of keys": ("bfloat16", 1, 32, 8, 1, 4096, 128, False),
    "one query, 65536 keys, 8 heads of keys": ("bfloat16", 1, 32, 8, 1, 65536, 128, False),
    "one query, 4096 keys, 32 texts": ("float16", 32, 32, 8, 1, 4096, 128, False),
    "one query, 4096 keys, all bits": (None, 1, 32, 32, 1, 4096, 128, False),
    "2048 queries": ("bfloat16", 4, 32, 32, 2048, 2048, 128, False),
    "2048 queries, causal": ("bfloat16", 4, 32, 32, 2048, 2048, 128, True),
    "4096 queries, causal": ("bfloat16", 4, 32, 32, 4096, 4096, 128, True),
    "2048 queries, causal, heads of 64": ("float16", 4, 32, 32, 2048, 2048, 64, True),
    "2048 queries, causal, heads of 80": ("bfloat16", 4, 32, 32, 2048, 2048, 80, True),
    "2048 queries, causal, heads of 256": ("bfloat16", 4, 16, 16, 2048, 2048, 256, True),
    "4096 queries, causal, 8 heads of keys": ("bfloat16", 1, 32, 8, 4096, 4096, 128, True),
    "2048 queries, causal, all bits": (None, 4, 32, 32, 2048, 2048, 128, True),
}
WITH_BACK = ("2048 queries", "2048 queries, causal", "2048 queries, causal, heads of 64",
             "4096 queries, causal, 8 heads of keys")  # fmt: skip
MORE_BACK = {
    "2048 queries, causal, heads of 96": ("bfloat16", 4, 32, 32, 2048, 2048, 96, True),
    "2048 queries, causal, all bits": (None, 1, 32, 32, 2048, 2048, 128, True),
}


def line(name, dtype, batch, heads, kv, queries, keys, d, causal, back=False):
    queries, keys = large(queries), large(keys)
    ours = f"mx.fast.scaled_dot_product_attention(q, k, v, scale=0.1, mask={'causal' if causal else None!r})"
    torch = f"F.scaled_dot_product_attention(q, k, v, is_causal={causal}, scale=0.1, enable_gqa={heads != kv})"
    if back:
        ours, torch = (f"back(lambda q, k, v: {code}, q, k, v)" for code in (ours, torch))
    operations = (7 if back else 2) * 2 * batch * heads * queries * keys * d / (2 if causal else 1)
    case(typed(name + (", and back" if back else ""), dtype),
         {"q": (batch, heads, queries, d), "k": (batch, kv, keys, d), "v": (batch, kv, keys, d)}, ours=ours,
         torch=torch, before=BACK if back else None, type=dtype, tolerance=1e-2,
         moved=2 * batch * (heads * queries + kv * keys) * d * SIZE[dtype], operations=operations)  # fmt: skip


for name, shape in SHAPES.items():
    line(name, *shape)
for name, shape in {**{name: SHAPES[name] for name in WITH_BACK}, **MORE_BACK}.items():
    line(name, *shape, back=True)
