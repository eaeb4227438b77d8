"""Factors of matrices, one and many."""

import numpy as np

from .. import definite, family, large

case = family("linear algebra")


def many(count, n):
    """So many, of which few are drawn."""
    return lambda rng: np.resize(definite(min(count, 64), n, n)(rng), (count, n, n))


for count, n in ((1 << 18, 8), (1 << 16, 16), (1 << 14, 32), (1 << 12, 64), (1, 256), (1, 1024), (1, 4096)):
    of = f"{count:,} of {n} x {n}" if count > 1 else f"{n} x {n}"
    a = {"a": many(large(count), large(n))}
    case(f"inverse, {of}", a, "xp.linalg.inv(a)")
    case(f"solve, {of}", a, "xp.linalg.solve(a, a[..., :1])", tolerance=1e-2)
    case(f"Cholesky, {of}", a, "xp.linalg.cholesky(a)")
    case(f"LU, {of}", a, "xp.linalg.lu_factor(a)", tolerance=None)
    if count == 1:
        case(f"QR, {of}", a, "xp.linalg.qr(a)")
        if n <= 1024:
            case(f"SVD, {of}", a, "xp.linalg.svd(a)", tolerance=None)
            case(f"eigh, {of}", a, "xp.linalg.eigh(a)", tolerance=None)
