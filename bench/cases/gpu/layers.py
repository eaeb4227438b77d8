"""Recurrent layers, and a transformer: words written, a text read, steps of training."""

from .. import family, large, positive

case = family("recurrent layers")

DELTA = {
    "all": "k = k / 128; g = g * 0.9",
    "ours": "state = mx.zeros((q.shape[0], 32, 128, 128)); mx.eval(k, g, state)",
    "PyTorch": """
        q, k = (x.repeat_interleave(2, 2)[..., None] for x in (q, k))
        v, g, b = v[..., None], g[..., None, None], b[..., None, None]
        def run():
            s, out = torch.zeros(*v.shape[:1], 32, 128, 128, device=device), torch.empty_like(v)
            for t in range(v.shape[1]):
                s = s * g[:, t]
                s = s + (v[:, t] - s @ k[:, t]) * b[:, t] @ k[:, t].mT
                out[:, t] = s @ q[:, t]
            return out
    """,
}

for batch in (1, 32):
    for kind in ("RNN", "GRU", "LSTM"):
        case(f"{kind} of {batch} x 128 x 512", {"x": (batch, large(128), 512)}, ours="run(x)", torch="layer(x)[0]",
             before={"ours": f"layer = nn.{kind}(512, 512); mx.eval(layer); run = mx.compile(layer)",
                     "PyTorch": f"layer = torch.nn.{kind}(512, 512, batch_first=True).to(device)"},
             tolerance=None)  # fmt: skip

for batch, steps in ((8, 512), (32, 1)):
    steps = large(steps)
    case(f"gated delta, {batch} x {steps} steps, PyTorch's a loop", {
        "q": (batch, steps, 16, 128), "k": (batch, steps, 16, 128), "v": (batch, steps, 32, 128),
        "g": positive(batch, steps, 32), "b": positive(batch, steps, 32),
    }, ours="mx.fast.gated_delta_update(q, k, v, g, b, state)", torch="run()", before=DELTA,
         tolerance=None)  # fmt: skip

case = family("transformer")

# 16 layers of 2048, 1.14e9 parameters; of 4 bits where that is said, of bfloat16 in PyTorch.
LENGTH = large(2048)
for bits in (None, 4):
    of = f"{bits} bits" if bits else "bfloat16"
    before = {"ours": f"from transformer.ours import Writing\nmodel = Writing({bits}, {LENGTH})",
              "PyTorch": f"from transformer.torchs import Writing\nmodel = Writing({LENGTH})"}  # fmt: skip
    size = 0.5 + 4 / 64 if bits else 2
    cache = 2 * 16 * 2048 * (2048 + 16) * 2
    case(f"32 words after 2,048, {of}", {}, "model.write()", before=before, moved=32 * (size * 1.14e9 + cache),
         tolerance=None)  # fmt: skip
    case(f"2,048 words read, {of}", {}, "model.read()", before=before, operations=2 * 1.07e9 * 2048, type="bfloat16",
         tolerance=None)  # fmt: skip
# 4 layers of 256.
for what, compiled in (("step of training of 4 x 128 words", False), ("the same step, PyTorch's compiled too", True)):
    case(what, {}, "step()", tolerance=None, before={
        "ours": f"from transformer.ours import training\nstep = training(4, {large(128)})",
        "PyTorch": f"from transformer.torchs import training\nstep = training(4, {large(128)}, {compiled})",
    })  # fmt: skip
