"""Reductions, scans, softmax and norms of long rows, short ones, and columns."""

from math import prod

from .. import family, large
from . import SIZE, TYPES, typed

ALL, LONG, SHORT = (large(1 << 28),), (large(8192), large(32768)), (large(1 << 18), large(1024))
# what, of which shape, here and in PyTorch, how often the elements are moved, tolerance
REDUCTIONS = [
    ("sum of 2^28", ALL, "mx.sum(x)", "torch.sum(x)", 1, None),
    ("sum of rows of 32,768", LONG, "mx.sum(x, -1)", "torch.sum(x, -1)", 1, 1e-2),
    ("sum of rows of 1,024", SHORT, "mx.sum(x, -1)", "torch.sum(x, -1)", 1, 1e-2),
    ("sum of rows of 32", (large(1 << 23), 32), "mx.sum(x, -1)", "torch.sum(x, -1)", 1, 1e-2),
    ("sum of columns of 8,192", LONG, "mx.sum(x, 0)", "torch.sum(x, 0)", 1, 1e-2),
    ("sum of columns of 262,144", SHORT, "mx.sum(x, 0)", "torch.sum(x, 0)", 1, 1e-2),
    ("maximum of rows of 1,024", SHORT, "mx.max(x, -1)", "torch.amax(x, -1)", 1, 1e-2),
    ("argmax of rows of 1,024", SHORT, "mx.argmax(x, -1)", "torch.argmax(x, -1)", 1, None),
    ("cumsum of rows of 1,024", SHORT, "mx.cumsum(x, -1)", "torch.cumsum(x, -1)", 2, None),
    ("cumsum of columns of 8,192", LONG, "mx.cumsum(x, 0)", "torch.cumsum(x, 0)", 2, None),
    ("cumsum of 2^28", ALL, "mx.cumsum(x, -1)", "torch.cumsum(x, -1)", 2, None),
]
NORMS = [
    ("softmax of rows of 32,768", LONG, "mx.softmax(x, -1)", "F.softmax(x, -1)", 2, 1e-2),
    ("softmax of rows of 1,024", SHORT, "mx.softmax(x, -1)", "F.softmax(x, -1)", 2, 1e-2),
    ("softmax of rows of 64", (large(1 << 22), 64), "mx.softmax(x, -1)", "F.softmax(x, -1)", 2, 1e-2),
    ("logsumexp of rows of 1,024", SHORT, "mx.logsumexp(x, -1)", "torch.logsumexp(x, -1)", 1, 1e-2),
    ("layer norm of rows of 1,024", SHORT, "mx.fast.layer_norm(x, None, None, 1e-5)",
     "F.layer_norm(x, x.shape[-1:])", 2, 1e-2),
    ("RMS norm of rows of 1,024", SHORT, "mx.fast.rms_norm(x, None, 1e-5)",
     "F.rms_norm(x, x.shape[-1:], None, 1e-5)", 2, 1e-2),
]  # fmt: skip
for name, lines in (("reductions", REDUCTIONS), ("softmax and norms", NORMS)):
    case = family(name)
    for dtype in TYPES:
        for what, shape, ours, torch, moves, tolerance in lines:
            case(typed(what, dtype), {"x": shape}, ours=ours, torch=torch, moved=moves * prod(shape) * SIZE[dtype],
                 type=dtype, tolerance=tolerance)  # fmt: skip
