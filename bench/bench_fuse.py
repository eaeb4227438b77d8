"""Chains of element-wise operations: one pass over memory, with or without compile, beside the same
operations one by one and JAX's compiler."""

import math

import mlx.core as mx
import numpy as np
from timing import best, row

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def gelu():
    a = floats(32, 1000, 4096)
    x, root = mx.array(a), math.sqrt(2)
    mx.eval(x)

    def eager():
        mx.eval(x * (1 + mx.erf(x / root)) / 2)

    def one_by_one():
        steps = [x / root]
        for f in (mx.erf, lambda y: 1 + y, lambda y: x * y, lambda y: y / 2):
            mx.eval(steps[-1])
            steps.append(f(steps[-1]))
        mx.eval(steps[-1])

    compiled = mx.compile(lambda x: x * (1 + mx.erf(x / root)) / 2)
    candidates = {
        "ours": eager,
        "compiled": lambda: mx.eval(compiled(x)),
        "x + 1": lambda: mx.eval(x + 1),
        "one by one": one_by_one,
    }
    if jax:
        y, f = jnp.asarray(a), jax.jit(lambda x: x * (1 + jax.lax.erf(x / root)) / 2)
        candidates["JAX"] = lambda: jax.block_until_ready(f(y))
    t = best(candidates, seconds=6, least=3)
    row("gelu, (32,1000,4096)", t.pop("ours"), t, goal="(goal: x + 1 0.5x, one by one 5x, JAX 2x)")


def chain():
    arrays = [floats(1 << 24) for _ in range(5)]
    x = [mx.array(a) for a in arrays]
    mx.eval(x)

    def formula(maximum):
        return lambda a, b, c, d, e: maximum((a * b + c) * d - e, a) * b + c * d

    candidates = {"ours": lambda: mx.eval(formula(mx.maximum)(*x))}
    if jax:
        y, f = [jnp.asarray(a) for a in arrays], jax.jit(formula(jnp.maximum))
        candidates["JAX"] = lambda: jax.block_until_ready(f(*y))
    t = best(candidates, seconds=2)
    row("8 operations on 5 x 2^24", t.pop("ours"), t, goal="(goal: 2x)")


def loss():
    a, b = floats(4096, 4096), floats(4096, 4096)
    x, y = mx.array(a), mx.array(b)
    mx.eval(x, y)
    candidates = {
        "ours": lambda: mx.eval(mx.square(x - y).mean()),
        "a sum": lambda: mx.eval(x.sum()),
    }
    if jax:
        u, v, f = jnp.asarray(a), jnp.asarray(b), jax.jit(lambda x, y: jnp.square(x - y).mean())
        candidates["JAX"] = lambda: jax.block_until_ready(f(u, v))
    t = best(candidates, seconds=2)
    row("mean squared difference, 4096^2", t.pop("ours"), t)


def small():
    x, n = mx.ones((64,)), 1000
    mx.eval(x)

    def run():
        y = x
        for _ in range(n // 2):
            y = y * x + x
        mx.eval(y)

    t = best({"ours": run}, seconds=1)
    row("1,000 operations on 64 elements", t["ours"] / n, {}, 1e9, "ns each")


if __name__ == "__main__":
    for part in (gelu, chain, loss, small):
        part()
