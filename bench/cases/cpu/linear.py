"""Linear algebra: one matrix, and many small ones."""

import numpy as np

from .. import definite, family

case = family("linear algebra")

CPU = ", stream=mx.cpu"
for n in (256, 512, 1024):
    a, general = {"a": definite(n, n)}, {"a": definite(n, n), "b": (n, n)}
    lines = [
        ("inverse", a, "linalg.inv(a{})", {}),
        ("solve", general, "linalg.solve(a, b{})", {}),
        ("Cholesky", a, "linalg.cholesky(a{})", {}),
        ("QR", {"a": (n, n)}, "linalg.qr(a{})", {}),
        ("eigh", a, "linalg.eigh(a{})", {"tolerance": None}),
        ("SVD", {"a": (n, n)}, "linalg.svd(a{})", {"tolerance": None}),
    ]
    for name, arrays, code, rest in lines:
        case(f"{name} {n}", arrays, f"xp.{code.format('')}", ours=f"mx.{code.format(CPU)}", **rest)
    case(f"LU {n}", {"a": (n, n)}, ours=f"mx.linalg.lu_factor(a{CPU})", torch="torch.linalg.lu_factor(a)",
         jax="jax.scipy.linalg.lu_factor(a)", numpy=None, tolerance=None)  # fmt: skip
    case(f"triangular system {n}", {"a": lambda rng, n=n: np.tril(definite(n, n)(rng)), "b": (n, n)},
         ours=f"mx.linalg.solve_triangular(a, b{CPU})", torch="torch.linalg.solve_triangular(a, b, upper=False)",
         jax="jax.scipy.linalg.solve_triangular(a, b, lower=True)", numpy=None)  # fmt: skip
case("pseudo-inverse 256", {"a": (256, 256)}, "xp.linalg.pinv(a)", ours=f"mx.linalg.pinv(a{CPU})", tolerance=None)
case("eig 256", {"a": (256, 256)}, "xp.linalg.eig(a)", ours=f"mx.linalg.eig(a{CPU})", tolerance=None)
for count, n in ((10000, 4), (1000, 16)):
    many, of = {"a": definite(count, n, n), "b": (count, n, n)}, f"{count:,} of {n} x {n}"
    case(f"inverse, {of}", many, "xp.linalg.inv(a)", ours=f"mx.linalg.inv(a{CPU})")
    case(f"solve, {of}", many, "xp.linalg.solve(a, b)", ours=f"mx.linalg.solve(a, b{CPU})")
    case(f"Cholesky, {of}", many, "xp.linalg.cholesky(a)", ours=f"mx.linalg.cholesky(a{CPU})")
