"""Factors of matrices on a GPU, beside PyTorch in the same run where it can be imported."""

import mlx.core as mx
from beside import bandwidth, begin, compare, torch

# name: the operation here and there, how many matrices are moved
OPERATIONS = {
    "inverse": (mx.linalg.inv, lambda x: torch.linalg.inv(x), 2),
    "solve": (lambda x: mx.linalg.solve(x, x[..., :1]), lambda x: torch.linalg.solve(x, x[..., :1]), 1),
    "cholesky": (mx.linalg.cholesky, lambda x: torch.linalg.cholesky(x), 2),
    "lu_factor": (mx.linalg.lu_factor, lambda x: torch.linalg.lu_factor(x), 2),
    "det": (mx.linalg.det, lambda x: torch.linalg.det(x), 1),
    "qr": (mx.linalg.qr, lambda x: torch.linalg.qr(x), 3),
    "svd": (mx.linalg.svd, lambda x: torch.linalg.svd(x), 3),
    "svdvals": (lambda x: mx.linalg.svd(x, compute_uv=False), lambda x: torch.linalg.svdvals(x), 1),
    "eigh": (mx.linalg.eigh, lambda x: torch.linalg.eigh(x), 2),
    "eigvalsh": (mx.linalg.eigvalsh, lambda x: torch.linalg.eigvalsh(x), 1),
}
# Of more than 64 rows by cuSOLVER, or the CPU; too slow where they are many.
SLOW = {"svd", "svdvals", "eigh", "eigvalsh"}
# PyTorch takes one matrix after the other.
ONE_BY_ONE = SLOW | {"qr"}


def main():
    begin()
    limit = bandwidth() if torch else None
    for count, n in (
        (2**20, 4),
        (2**18, 8),
        (2**16, 16),
        (2**14, 32),
        (2**12, 64),
        (1, 64),
        (1, 256),
        (1, 1024),
        (1, 4096),
    ):
        x = mx.random.normal((count, n, n))
        x = x @ x.swapaxes(-1, -2) + n * mx.eye(n)
        mx.eval(x)
        a = None
        if torch:
            a = torch.randn(count, n, n, device="cuda")
            a = a @ a.mT + n * torch.eye(n, device="cuda")
        for name, (ours, theirs, moves) in OPERATIONS.items():
            if n > 1024 and name in SLOW:
                continue
            what = f"{name} of {count} x {n} x {n}"
            there = None if name in ONE_BY_ONE and count > 1 else lambda f=theirs, a=a: f(a)
            compare(what, "float32", lambda f=ours, x=x: f(x), there, moves * x.nbytes, limit)


main()
