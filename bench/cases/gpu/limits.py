"""What the others are a part of: how fast memory is copied, and how fast large matrices are multiplied."""

from .. import LIMITS, family, large
from . import typed

case = family(LIMITS)

N, SIDE = large(1 << 28), large(8192)
case("-x of 2^28 floats", {"x": (N,)}, "xp.negative(x)", moved=8 * N)
for dtype in (None, "float16", "bfloat16"):
    case(typed("product of 8192 x 8192", dtype), {"x": (SIDE, SIDE), "y": (SIDE, SIDE)}, "xp.matmul(x, y)",
         operations=2 * SIDE**3, type=dtype)  # fmt: skip
