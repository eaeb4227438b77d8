"""Loops beside JAX's: a step of a few small operations, of a small network and of large arrays, going
forward and back, and what building one takes."""

import mlx.core as mx
import numpy as np
from timing import best, row

try:
    import jax
    import jax.numpy as jnp
    from jax import lax
except ImportError:
    jax = None

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def compare(what, make, arrays, steps):
    """make(numpy-like module, scan, while_loop) is a function of the arrays; times are of one step."""
    x = [mx.array(a) for a in arrays]
    mx.eval(x)
    f = make(mx, mx.scan, mx.while_loop, mx.grad)
    candidates = {"ours": lambda: mx.eval(f(*x))}
    if jax:
        y, g = [jnp.asarray(a) for a in arrays], jax.jit(make(jnp, lax.scan, lax.while_loop, jax.grad))
        candidates["JAX"] = lambda: jax.block_until_ready(g(*y))
    t = {name: t / steps for name, t in best(candidates, seconds=1.0, least=3).items()}
    row(what, t.pop("ours"), t, unit=1e9, suffix="ns")


def five(np, scan, while_loop, grad):
    return lambda c, xs: scan(lambda c, x: ((np.sin(c * 0.5 + x) * 0.9 - c * 0.1), None), c, xs)[0]


def outputs(np, scan, while_loop, grad):
    return lambda c, xs: scan(lambda c, x: (c * 0.5 + x, c), c, xs)[1]


def counting(np, scan, while_loop, grad):
    return lambda c, n: while_loop(lambda s: s[1] < n, lambda s: (np.sin(s[0]) * 0.5, s[1] + 1), (c, 0 * n))[0]


def network(np, scan, while_loop, grad):
    return lambda w, h, xs: scan(lambda h, x: (np.tanh(h @ w + x), None), h, xs)[0]


def backward(make):
    def of(np, scan, while_loop, grad):
        f = make(np, scan, while_loop, grad)
        return grad(lambda *x: f(*x).sum())

    return of


def main():
    scalar = np.float32(0.5)
    compare("scan, 5 operations on a scalar", five, [scalar, floats(10_000)], 10_000)
    compare("the same, its gradient", backward(five), [scalar, floats(10_000)], 10_000)
    compare("scan that keeps each carry", outputs, [scalar, floats(10_000)], 10_000)
    compare("while_loop, 3 operations", counting, [scalar, np.int32(10_000)], 10_000)
    compare("scan, 5 operations on 1024", five, [floats(1024), floats(1000, 1024)], 1000)
    compare("scan, 5 operations on 2^20", five, [floats(1 << 20), floats(20, 1 << 20)], 20)
    net = [floats(128, 128) / 12, floats(32, 128), floats(200, 32, 128)]
    compare("recurrent network, 32 x 128", network, net, 200)
    compare("the same, its gradient", backward(network), net, 200)

    step = lambda c, _: (mx.sin(c * 0.5) * 0.9, None)  # noqa: E731
    build = {n: best({"ours": lambda n=n: mx.scan(step, mx.array(1.0), length=n)}, seconds=0.2)["ours"]
             for n in (10, 10_000)}  # fmt: skip
    row("building a scan of 10,000 steps", build[10_000], {"of 10": build[10]}, unit=1e6, suffix="us")


if __name__ == "__main__":
    main()
