"""Convolutions, channels last on both sides, and their derivatives by the input and by the weights."""

from math import prod

from .. import family, large
from . import SIZE, TYPES, typed

case = family("convolutions")

# input, weights, what both are told
LAYERS = {
    "7x7 / 2, 3 to 64": ((32, 224, 224, 3), (64, 7, 7, 3), {"stride": 2, "padding": 3}),
    "3x3, 64 to 64": ((32, 56, 56, 64), (64, 3, 3, 64), {"padding": 1}),
    "3x3, 256 to 256": ((32, 28, 28, 256), (256, 3, 3, 256), {"padding": 1}),
    "3x3, 512 to 512": ((32, 7, 7, 512), (512, 3, 3, 512), {"padding": 1}),
    "3x3, 512 to 512, one image": ((1, 14, 14, 512), (512, 3, 3, 512), {"padding": 1}),
    "1x1, 256 to 1024": ((32, 14, 14, 256), (1024, 1, 1, 256), {}),
    "3x3 / 2, 256 to 256": ((32, 28, 28, 256), (256, 3, 3, 256), {"stride": 2, "padding": 1}),
    "9, 256 to 256": ((16, 4096, 256), (256, 9, 256), {"padding": 4}),
    "3x3x3, 64 to 64": ((4, 32, 32, 32, 64), (64, 3, 3, 3, 64), {"padding": 1}),
    "7x7, each of 384": ((32, 28, 28, 384), (384, 7, 7, 1), {"padding": 3, "groups": 384}),
    "3x3, 32 groups of 256": ((32, 28, 28, 256), (256, 3, 3, 8), {"padding": 1, "groups": 32}),
}


def sides(x, w, stride=1, padding=0, groups=1):
    return tuple((x[i] + 2 * padding - w[i]) // stride + 1 for i in range(1, len(x) - 1))


for dtype in TYPES:
    for name, (x, w, how) in LAYERS.items():
        x = (*map(large, x[:-1]), x[-1])
        y = (x[0], *sides(x, w, **how), w[0])
        n = len(x) - 2
        said = ", ".join(f"{k}={v}" for k, v in how.items())
        stride, padding, groups = ([how.get("stride", 1)] * n, [how.get("padding", 0)] * n, how.get("groups", 1))
        before = {"PyTorch": "a, b, c = (t.movedim(-1, 1) for t in (x, w, y))"}
        rest = {"before": before, "type": dtype, "tolerance": 1e-2, "operations": 2 * prod(y) * prod(w[1:]),
                "moved": (prod(x) + prod(w) + prod(y)) * SIZE[dtype]}  # fmt: skip
        arrays = {"x": x, "w": w, "y": y}
        case(typed(name, dtype), arrays, ours=f"mx.conv_general(x, w, {said})",
             torch=f"F.conv{n}d(a, b, {said})", **rest)  # fmt: skip
        aten = f"torch.ops.aten.convolution_backward(c, a, b, None, {stride}, {padding}, {[1] * n}, False, {[0] * n}, "
        for by, of, mask in (("input", "x", [True, False, False]), ("weights", "w", [False, True, False])):
            f = f"lambda {of}: mx.conv_general(x, w, {said})"
            case(typed(f"{name}, by the {by}", dtype), arrays, ours=f"mx.vjp({f}, [{of}], [y])[1]",
                 torch=f"{aten}{groups}, {mask})", **rest)  # fmt: skip
