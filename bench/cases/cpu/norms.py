"""Softmax and normalizations, forward and back."""

from .. import BACK, family

case = family("norms")

for rows, n in ((1 << 17, 8), (1 << 16, 64), (1 << 13, 1000), (256, 32000)):
    x, of, moved = {"x": (rows, n)}, f"rows of {n:,}, {rows:,}", 8 * rows * n
    case(f"softmax, {of}", x, ours="mx.softmax(x, -1)", torch="F.softmax(x, -1)", jax="jax.nn.softmax(x)", numpy=None,
         moved=moved)  # fmt: skip
    case(f"log_softmax, {of}", x, ours="nn.log_softmax(x)", torch="F.log_softmax(x, -1)", jax="jax.nn.log_softmax(x)",
         numpy=None, moved=moved)  # fmt: skip
    case(f"logsumexp, {of}", x, ours="mx.logsumexp(x, -1)", torch="torch.logsumexp(x, -1)",
         jax="jax.nn.logsumexp(x, -1)", numpy=None, moved=moved // 2)  # fmt: skip

BEFORE = {
    **BACK,
    "JAX": BACK["JAX"]
    + """
def layer_norm(x, w, b):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b
def rms_norm(x, w):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w
""",
}
for rows, n in ((4096, 64), (4096, 1024)):
    of, moved = f"{rows} x {n}", 8 * rows * n
    x, w = {"x": (rows, n), "w": (n,)}, {"x": (rows, n), "w": (n,), "b": (n,)}
    for back in (False, True):
        what, times, begin, end = ("and back, ", 2, "back(lambda {0}: ", ", {0})") if back else ("", 1, "", "")

        def code(names, f, begin=begin, end=end):
            return begin.format(names) + f + end.format(names)

        case(f"layer norm {what}{of}", w, ours=code("x, w, b", "mx.fast.layer_norm(x, w, b, 1e-5)"),
             torch=code("x, w, b", f"F.layer_norm(x, ({n},), w, b, 1e-5)"), jax=code("x, w, b", "layer_norm(x, w, b)"),
             numpy=None, before=BEFORE, moved=moved * times, tolerance=1e-2)  # fmt: skip
        case(f"RMS norm {what}{of}", x, ours=code("x, w", "mx.fast.rms_norm(x, w, 1e-5)"),
             torch=code("x, w", f"F.rms_norm(x, ({n},), w, 1e-5)"), jax=code("x, w", "rms_norm(x, w)"), numpy=None,
             before=BEFORE, moved=moved * times, tolerance=1e-2)  # fmt: skip
for shape in ((8, 32, 32, 64), (16, 8, 8, 256)):
    n, c = shape[0] * shape[1] * shape[2] * shape[3], shape[3]
    first = f"{shape[0]}, {c}, {shape[1]}, {shape[2]}"
    before = {
        "ours": BACK["ours"] + f"group, batch = nn.GroupNorm(32, {c}, pytorch_compatible=True), nn.BatchNorm({c})",
        "PyTorch": BACK["PyTorch"] + f"group, batch, z = torch.nn.GroupNorm(32, {c}), torch.nn.BatchNorm2d({c}), "
        "x.permute(0, 3, 1, 2).contiguous()",
    }
    rest = {"jax": None, "numpy": None, "before": before, "tolerance": 1e-2}
    of = f"({','.join(map(str, shape))})"
    case(f"group norm {of}", {"x": shape}, ours="group(x)", torch="group(z)", moved=8 * n, **rest)
    case(f"group norm and back {of}", {"x": shape}, ours="back(group, x)", torch="back(group, z)", moved=16 * n, **rest)
    case(f"batch norm training {of}", {"x": shape}, ours="(batch(x), batch.running_mean, batch.running_var)",
         torch="(batch(z), batch.running_mean, batch.running_var)", moved=8 * n, **rest)  # fmt: skip
