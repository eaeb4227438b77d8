"""Whole operations beside NumPy and JAX: sorting, scans, normalizations, convolutions, attention,
Fourier transforms, factorizations, random numbers, half-precision products, packed weights."""

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


def compare(what, ours, arrays, numpy=None, jaxed=None):
    """ours(*arrays), numpy(*arrays) and the compiled jaxed(*arrays), each on its own kind of array."""
    x = [mx.array(a) for a in arrays]
    mx.eval(x)
    candidates = {"ours": lambda: mx.eval(ours(*x))}
    if numpy:
        candidates["NumPy"] = lambda: numpy(*arrays)
    if jax and jaxed:
        y, f = [jnp.asarray(a) for a in arrays], jax.jit(jaxed)
        candidates["JAX"] = lambda: jax.block_until_ready(f(*y))
    t = best(candidates, seconds=1.5, least=3)
    row(what, t.pop("ours"), t)


def orders():
    compare("sort, 2^22", mx.sort, [floats(1 << 22)], np.sort, lambda a: jnp.sort(a))
    compare("sort, 4096 x 1024", mx.sort, [floats(4096, 1024)], np.sort, lambda a: jnp.sort(a))
    compare("argsort, 4096 x 1024", mx.argsort, [floats(4096, 1024)], np.argsort, lambda a: jnp.argsort(a))
    compare("cumsum, 4096^2", lambda a: mx.cumsum(a, axis=1), [floats(4096, 4096)],
            lambda a: a.cumsum(axis=1), lambda a: a.cumsum(axis=1))  # fmt: skip


def normalizations():
    a, w, b = floats(4096, 4096), floats(4096), floats(4096)

    def plain(np):
        def f(a, w, b):
            mean = a.mean(-1, keepdims=True)
            return (a - mean) / np.sqrt(((a - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * w + b

        return f

    def softmax(np):
        def f(a):
            e = np.exp(a - a.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)

        return f

    compare("softmax, 4096^2", lambda a: mx.softmax(a, axis=-1), [a], softmax(np), jax and jax.nn.softmax)
    compare("layer_norm, 4096^2", lambda a, w, b: mx.fast.layer_norm(a, w, b, 1e-5), [a, w, b],
            plain(np), jax and plain(jnp))  # fmt: skip


def scatter():
    a, rows, i = floats(4096, 256), floats(65536, 256), RNG.integers(0, 4096, 65536).astype(np.int32)

    def numpy(a, rows, i):
        np.add.at(a, i, rows)

    compare("scatter-add, 65,536 rows of 256", lambda a, rows, i: a.at[i].add(rows), [a, rows, i], numpy,
            lambda a, rows, i: a.at[i].add(rows))  # fmt: skip


def convolutions():
    def jaxed(stride, pad):
        return lambda x, w: jax.lax.conv_general_dilated(
            x, w, (stride, stride), [(pad, pad)] * 2, dimension_numbers=("NHWC", "OHWI", "NHWC")
        )

    compare("conv 3x3, (8,56,56,64->64)", lambda x, w: mx.conv2d(x, w, padding=1),
            [floats(8, 56, 56, 64), floats(64, 3, 3, 64)], None, jaxed(1, 1))  # fmt: skip
    compare("conv 7x7/2, (8,224,224,3->64)", lambda x, w: mx.conv2d(x, w, stride=2, padding=3),
            [floats(8, 224, 224, 3), floats(64, 7, 7, 3)], None, jaxed(2, 3))  # fmt: skip


def attention():
    q = [floats(1, 8, 1024, 64) for _ in range(3)]
    scale = 64**-0.5

    def jaxed(q, k, v):
        q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, scale=scale, is_causal=True)

    def ours(q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")

    compare("causal attention, (1,8,1024,64)", ours, q, None, jaxed)
    cache = [floats(1, 8, 8192, 64) for _ in range(2)]
    compare("one query, cache of 8192", lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=scale),
            [floats(1, 8, 1, 64), *cache], None,
            lambda q, k, v: jax.nn.dot_product_attention(*(a.transpose(0, 2, 1, 3) for a in (q, k, v)), scale=scale),
            )  # fmt: skip


def others():
    z = (floats(1 << 20) + 1j * floats(1 << 20)).astype(np.complex64)
    compare("fft, 2^20 complex", mx.fft.fft, [z], np.fft.fft, lambda z: jnp.fft.fft(z))
    compare("svd, 256^2", lambda a: mx.linalg.svd(a), [floats(256, 256)], np.linalg.svd, lambda a: jnp.linalg.svd(a))
    key = np.array([0, 1], np.uint32)
    compare("normal, 2^24", lambda k: mx.random.normal((1 << 24,), key=k), [key],
            lambda _: RNG.standard_normal(1 << 24, dtype=np.float32),
            lambda k: jax.random.normal(jax.random.wrap_key_data(k), (1 << 24,)))  # fmt: skip
    x = mx.array(floats(2048, 2048)).astype(mx.bfloat16)
    mx.eval(x)
    candidates = {"ours": lambda: mx.eval(x @ x)}
    if jax:
        y, f = jnp.asarray(floats(2048, 2048), jnp.bfloat16), jax.jit(lambda a: a @ a)
        candidates["JAX"] = lambda: jax.block_until_ready(f(y))
    t = best(candidates, seconds=2, least=3)
    row("matmul, 2048^3 bfloat16", t.pop("ours"), t)


def packed_weights():
    x, w = mx.array(floats(1, 4096)), mx.array(floats(4096, 4096))
    packed = mx.quantize(w, group_size=64, bits=4)
    mx.eval(x, w, packed)
    t = best({"ours": lambda: mx.eval(mx.quantized_matmul(x, *packed, group_size=64, bits=4)),
              "float32": lambda: mx.eval(x @ w.T)})  # fmt: skip
    row("4-bit matrix x vector, 4096^2", t.pop("ours"), t)


if __name__ == "__main__":
    for part in (orders, normalizations, scatter, convolutions, attention, others, packed_weights):
        part()
