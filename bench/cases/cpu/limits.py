"""What the others are a part of: how fast memory is copied, and how fast large matrices are multiplied."""

from .. import LIMITS, family

case = family(LIMITS)

N = 1 << 25
case("-x of 2^25 floats", {"x": (N,)}, "xp.negative(x)", moved=8 * N)
case("product of 3072 x 3072", {"x": (3072, 3072), "y": (3072, 3072)}, "xp.matmul(x, y)", operations=2 * 3072**3)
