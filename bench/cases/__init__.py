"""The table of `make bench`: what is computed, from what, by whom, and what bounds it.

Each module is a family of cases. A case has an expression for each library, in which `xp` is the library itself
(mlx.core, torch, jax.numpy, numpy), `mx`, `nn`, `optim`, `torch`, `F`, `jax`, `jnp` and `np` what they usually are, and
the other names are arrays of numbers that are the same for all. A function that a case needs is made by `before`.
"""

import importlib
import pkgutil
import textwrap
from dataclasses import dataclass, field

import numpy as np

CASES = []


@dataclass
class Case:
    family: str
    name: str
    arrays: dict  # by name: a shape, or a function of a random generator
    run: dict  # by library: an expression
    before: dict = field(default_factory=dict)  # by library: statements
    moved: float = 0  # bytes that have to be read and written
    operations: float = 0  # additions and multiplications that have to be done
    tolerance: float = 1e-3  # of the sum of the results' sizes; None: results may differ

    def numbers(self):
        """Its arrays, as NumPy has them."""
        rng = np.random.default_rng(0)
        return {
            name: of(rng) if callable(of) else rng.standard_normal(of, dtype=np.float32)
            for name, of in self.arrays.items()
        }


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
        parts = rng.standard_normal((2, *shape), dtype=np.float32)
        return (parts[0] + 1j * parts[1]).astype(np.complex64)

    return make


def doubles(*shape):
    return lambda rng: rng.standard_normal(shape)


def load():
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return CASES
