"""The tables of `make bench` and `make bench-gpu`: what is computed, from what, by whom, and what bounds it.

`cpu` and `gpu` have a module for each family of cases. A case has an expression for each library, in which `xp` is the
library itself (mlx.core, torch, jax.numpy, numpy), `mx`, `nn`, `optim`, `torch`, `F`, `jax`, `jnp` and `np` what they
usually are, and the other names are arrays of numbers that are the same for all. What else a case needs is made by
`before`.
"""

import importlib
import os
import pkgutil
import textwrap
from dataclasses import dataclass, field
from zlib import crc32

import numpy as np

CASES = []
LIMITS = "limits"  # the family that the others are compared with
DRAWN = (1 << 25) + 1  # numbers of an array that are drawn; if there are more they come again


# For cases of derivatives: results and gradients of f, both asked for, since ours computes nothing else, and others do.
BACK = {
    "ours": """
def back(f, *x):
    return mx.vjp(lambda *x: [f(*x)], list(x), [mx.ones(f(*x).shape, x[0].dtype)])
""",
    "PyTorch": """
def back(f, *x):
    with torch.enable_grad():
        x = [a.detach().requires_grad_() for a in x]
        y = f(*x)
        return y, torch.autograd.grad(y, x, torch.ones_like(y))
""",
    "JAX": """
def back(f, *x):
    y, pull = jax.vjp(f, *x)
    return y, pull(jnp.ones_like(y))
""",
}


@dataclass
class Case:
    family: str
    name: str
    arrays: dict  # by name: a shape, or a function of a random generator
    run: dict  # by library: an expression
    before: dict = field(default_factory=dict)  # by library, or "all": statements
    type: str | None = None  # what floating-point arrays are before they are used
    moved: float = 0  # bytes that have to be read and written
    operations: float = 0  # additions and multiplications that have to be done
    tolerance: float = 1e-3  # of the sum of the results' sizes; None: results may differ

    def numbers(self, name):
        """Of one of its arrays, as NumPy has them: the same wherever it has that name and shape."""
        rng, of = np.random.default_rng(crc32(name.encode())), self.arrays[name]
        return of(rng) if callable(of) else normal(rng, of)


def normal(rng, shape):
    n = int(np.prod(shape))
    x = rng.standard_normal(min(n, DRAWN), dtype=np.float32)
    return np.resize(x, shape) if n > DRAWN else x.reshape(shape)


def family(name):
    """Adds cases of a family: case("exp", {"x": (8,)}, "xp.exp(x)", jax=None) is timed with all but JAX."""

    def case(what, arrays, everyone=None, *, ours=None, torch="", jax="", numpy="", before=None, **rest):
        run = {"ours": ours or everyone, "PyTorch": torch, "JAX": jax, "NumPy": numpy}
        run = {peer: everyone if code == "" else code for peer, code in run.items()}
        before = {peer: textwrap.dedent(code) for peer, code in (before or {}).items()}
        CASES.append(Case(name, what, arrays, {p: c for p, c in run.items() if c}, before, **rest))

    return case


def integers(high, shape, dtype=np.int32):
    return lambda rng: rng.integers(0, high, shape, dtype)


def positive(*shape):
    return lambda rng: rng.random(shape, dtype=np.float32) + np.float32(0.1)


def complexes(*shape):
    def make(rng):
        parts = normal(rng, (2, *shape))
        return (parts[0] + 1j * parts[1]).astype(np.complex64)

    return make


def doubles(*shape):
    return lambda rng: rng.standard_normal(shape)


def definite(*shape):
    """Matrices that are symmetric and positive definite: a random one's eigenvalues, most in -2 to 2, and 6 more.
    Not by a product: NumPy's threads for those look for more work for a while, at the cost of whoever is timed next."""

    def make(rng):
        a, n = rng.standard_normal(shape), shape[-1]
        return ((a + np.swapaxes(a, -1, -2)) / (2 * n) ** 0.5 + 6 * np.eye(n)).astype(np.float32)

    return make


def large(n):
    """n, or few where it is only to be shown that a table's cases run (BENCH_FEW=1)."""
    return min(n, 64) if os.environ.get("BENCH_FEW") == "1" else n


def load(device):
    """The cases of "cpu" or "gpu"."""
    folder = importlib.import_module(f"{__name__}.{device}")
    for module in pkgutil.iter_modules(folder.__path__):
        importlib.import_module(f"{folder.__name__}.{module.name}")
    return CASES
