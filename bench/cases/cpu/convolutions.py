"""Convolutions of one, two and three dimensions, and their derivatives."""

from .. import BACK, family

case = family("convolutions")

BEFORE = {
    "ours": BACK["ours"],
    "PyTorch": BACK["PyTorch"] + "z, v = x.movedim(-1, 1).contiguous(), w.movedim(-1, 1).contiguous()",
    "JAX": BACK["JAX"]
    + """
def conv(x, w, stride, padding, groups):
    of = "DHW"[5 - x.ndim:]
    return jax.lax.conv_general_dilated(x, w, (stride,) * len(of), [(padding, padding)] * len(of),
        dimension_numbers=("N" + of + "C", "O" + of + "I", "N" + of + "C"), feature_group_count=groups)
""",
}


def conv(x, w, stride=1, padding=1, groups=1, back=False):
    n = len(x) - 2
    kernel, how = "x".join(map(str, w[1:-1])), f"stride={stride}, padding={padding}, groups={groups}"
    kind = " by channel" if groups == x[-1] else ""
    what = f"{kernel}{f' / {stride}' if stride > 1 else ''}{kind}, ({','.join(map(str, x))}) to {w[0]}"
    places = x[0] * w[0]
    for size, taps in zip(x[1:-1], w[1:-1], strict=True):
        places *= (size + 2 * padding - taps) // stride + 1
    for size in w[1:]:
        places *= size
    ours = f"mx.conv{n}d({{}}, {how})"
    torch = f"F.conv{n}d({{}}, {how})"
    jax = f"conv({{}}, {stride}, {padding}, {groups})"
    codes = [ours.format("x, w"), torch.format("z, v"), jax.format("x, w")]
    if back:
        codes = [f"back(lambda x, w: {c.format('x, w')}, {of})"
                 for c, of in ((ours, "x, w"), (torch, "z, v"), (jax, "x, w"))]  # fmt: skip
    case(what + (", and back" if back else ""), {"x": x, "w": w}, ours=codes[0], torch=codes[1], jax=codes[2],
         numpy=None, before=BEFORE, operations=(6 if back else 2) * places, tolerance=1e-2)  # fmt: skip


for back in (False, True):
    conv((8, 56, 56, 64), (64, 3, 3, 64), back=back)
    conv((8, 14, 14, 256), (256, 3, 3, 256), back=back)
    conv((8, 56, 56, 64), (256, 1, 1, 64), padding=0, back=back)
    conv((8, 56, 56, 96), (96, 7, 7, 1), padding=3, groups=96, back=back)
conv((8, 224, 224, 3), (64, 7, 7, 3), stride=2, padding=3)
conv((8, 14, 14, 256), (256, 3, 3, 1), groups=256)
conv((8, 1000, 64), (64, 5, 64), padding=2)
conv((2, 16, 32, 32, 32), (32, 3, 3, 3, 32))
