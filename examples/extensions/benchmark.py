"""axpby as one operation of its own beside the same written with operators, on the CPU."""

import time

import mlx.core as mx
from mlx_sample_extensions import axpby

mx.set_default_device(mx.cpu)


def simple_axpby(x: mx.array, y: mx.array, alpha: float, beta: float) -> mx.array:
    return alpha * x + beta * y


x = mx.random.normal((256, 512))
y = mx.random.normal((256, 512))
mx.eval(x, y)


def bench(f):
    for _ in range(100):
        mx.eval(f(x, y, 4.0, 2.0))
    start = time.perf_counter()
    for _ in range(5000):
        mx.eval(f(x, y, 4.0, 2.0))
    return time.perf_counter() - start


simple, custom = bench(simple_axpby), bench(axpby)
print(f"Simple axpby: {simple:.3f} s | Custom axpby: {custom:.3f} s")
