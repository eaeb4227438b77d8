"""Compiling: what a call costs, what the first one costs, and whether many traces make calls dearer."""

import time

import mlx.core as mx
from timing import best, calls, row

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

N = 2000


def small(np):
    return lambda x, y: np.exp(-x) + y * 2


def chain(np):
    def f(x):
        for _ in range(10):
            x = np.exp(x) * 0.5
        return x

    return f


def call():
    x, y = mx.array(1.0), mx.array(2.0)
    f = mx.compile(small(mx))
    candidates = {"ours": calls(lambda: f(x, y), N)}
    if jax:
        a, b, g = jnp.asarray(1.0), jnp.asarray(2.0), jax.jit(small(jnp))
        candidates["JAX"] = calls(lambda: g(a, b), N)
    t = best(candidates)
    row("call of a compiled function", t.pop("ours") / N, {k: v / N for k, v in t.items()}, 1e6, "us", "goal 3 us")


def many_traces():
    f, g = mx.compile(small(mx)), mx.compile(small(mx))
    g.cache_size = 1024
    y = mx.array(2.0)
    for n in range(1000):
        g(mx.zeros((n + 1,)), y)
    x = mx.zeros((7,))
    t = best({"1 trace": calls(lambda: f(x, y), N), "1000 traces": calls(lambda: g(x, y), N)})
    row("call with 1000 traces kept", t["1000 traces"] / N, {"with one": t["1 trace"] / N}, 1e6, "us")


def first():
    """A function of 20 operations that nobody has called before: beyond running it uncompiled."""

    def once(compile, block, x):
        f = chain(jnp if compile is not mx.compile else mx)
        start = time.perf_counter()
        block(compile(f)(x))
        return time.perf_counter() - start

    x = mx.array([1.0, 2.0])
    plain = best({"": lambda: mx.eval(chain(mx)(x))})[""]
    ours = min(once(mx.compile, mx.eval, x) for _ in range(20))
    peers = {"uncompiled": plain}
    if jax:
        peers["JAX"] = min(once(jax.jit, jax.block_until_ready, jnp.asarray([1.0, 2.0])) for _ in range(3))
    row("first call, 20 operations", ours, peers, goal="goal: 1 ms beyond the trace")


if __name__ == "__main__":
    print("compile")
    call()
    many_traces()
    first()
