"""Convolutions and their derivatives, beside the one matrix product that each comes to, by NumPy (without
the copy of every patch that would have to come before it) and by ours."""

import mlx.core as mx
import numpy as np
from timing import best, row


def products(m, k, n):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n)))
    x, y = mx.array(a), mx.array(b)
    return {"NumPy product": lambda: a @ b, "our product": lambda: mx.eval(x @ y)}


def conv(what, x, w, **how):
    x, w = mx.random.normal(x), mx.random.normal(w)
    y = mx.conv2d(x, w, **how)
    ct = mx.random.normal(y.shape)
    mx.eval(x, w, ct)
    pixels, taps, out = y.size // w.shape[0], w.size // w.shape[0], w.shape[0]
    rest = {"rest": 0.01, "seconds": 0.5}
    t = best({"ours": lambda: mx.eval(mx.conv2d(x, w, **how)), **products(pixels, taps, out)}, **rest)
    row(what, t.pop("ours"), t)
    t = best(
        {
            "ours": lambda: mx.eval(mx.vjp(lambda w: mx.conv2d(x, w, **how), [w], [ct])[1]),
            **products(out, pixels, taps),
        },
        **rest,
    )
    row("  by its weights", t.pop("ours"), t)
    t = best(
        {
            "ours": lambda: mx.eval(mx.vjp(lambda x: mx.conv2d(x, w, **how), [x], [ct])[1]),
            **products(x.size // x.shape[-1], w.size // x.shape[-1], x.shape[-1]),
        },
        **rest,
    )
    row("  by its input", t.pop("ours"), t)


conv("conv 3x3, (8,56,56,64) to 64", (8, 56, 56, 64), (64, 3, 3, 64), padding=1)
conv("conv 7x7 / 2, (8,224,224,3) to 64", (8, 224, 224, 3), (64, 7, 7, 3), stride=2, padding=3)
conv("conv 3x3, (8,14,14,256) to 256", (8, 14, 14, 256), (256, 3, 3, 256), padding=1)
