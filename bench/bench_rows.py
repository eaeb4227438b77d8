"""Rows, short ones above all, beside PyTorch where it is installed, and NumPy: softmax and its logarithm, norms of
layers forward and backward, and reductions along the last axis.

``bench_rows.py softmax norm`` runs only lines whose name holds one of the words.
"""

import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from timing import best, row

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def compare(what, ours, x, peer=None, numpy=None, channels_first=False):
    """ours(x), peer(x) and numpy(x), each on its own kind of array; the peer's may have its channels first."""
    if sys.argv[1:] and not any(word in what for word in sys.argv[1:]):
        return
    a = mx.array(x)
    mx.eval(a)
    candidates = {"ours": lambda: mx.eval(ours(a))}
    if torch and peer:
        t = torch.from_numpy(np.ascontiguousarray(np.moveaxis(x, -1, 1)) if channels_first else x)
        candidates["PyTorch"] = lambda: peer(t)
    if numpy:
        candidates["NumPy"] = lambda: numpy(x)
    t = best(candidates, seconds=1, least=3, rest=0.002, turn=3)
    row(what, t.pop("ours"), t)


def softmaxes():
    def log_softmax(a):
        a = a - a.max(-1, keepdims=True)
        return a - np.log(np.exp(a).sum(-1, keepdims=True))

    def softmax(a):
        e = np.exp(a - a.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    for rows, n in ((1 << 17, 8), (1 << 16, 64), (1 << 13, 1000), (256, 32000)):
        x = floats(rows, n)
        compare(f"softmax, {rows} x {n}", nn.softmax, x, lambda t: F.softmax(t, -1), softmax)
        compare(f"log_softmax, {rows} x {n}", nn.log_softmax, x, lambda t: F.log_softmax(t, -1), log_softmax)
        compare(f"logsumexp, {rows} x {n}", lambda a: mx.logsumexp(a, axis=-1), x, lambda t: torch.logsumexp(t, -1))


def backward(layer, peer, x):
    """The layer's result and its derivatives for the input and the parameters."""
    c, names = mx.ones(x.shape), [name for name in ("weight", "bias") if name in layer]

    def of(a, *parameters):
        return [layer.update(dict(zip(names, parameters)))(a)]

    def ours(a):
        return mx.vjp(of, [a, *(layer[name] for name in names)], [c])

    def theirs(t):
        t = t.detach().requires_grad_()
        y = peer(t)
        y.backward(torch.ones_like(y))

    return ours, theirs


def layers():
    def peer(make):
        return make(torch.nn) if torch else None

    for shape in ((4096, 64), (4096, 1024)):
        x, n = floats(*shape), shape[-1]
        theirs = peer(lambda t, n=n: t.LayerNorm(n))
        compare(f"layer norm, {shape}", nn.LayerNorm(n), x, torch and torch.no_grad()(theirs))
        compare(f"layer norm backward, {shape}", *backward(nn.LayerNorm(n), theirs, x)[:1], x,
                backward(nn.LayerNorm(n), theirs, x)[1])  # fmt: skip
        f, g = backward(nn.RMSNorm(n), peer(lambda t, n=n: t.RMSNorm(n, eps=1e-5)), x)
        compare(f"RMS norm backward, {shape}", f, x, g)
    for shape in ((8, 32, 32, 64), (16, 8, 8, 256), (1, 64, 64, 320)):
        x, c = floats(*shape), shape[-1]
        theirs = peer(lambda t, c=c: t.GroupNorm(32, c))
        for compatible in (False, True):
            ours = nn.GroupNorm(32, c, pytorch_compatible=compatible)
            what = f"{shape}{' neighbours' if compatible else ''}"
            compare(f"group norm, {what}", ours, x, torch and torch.no_grad()(theirs), channels_first=True)
            f, g = backward(ours, theirs, x)
            compare(f"group norm backward, {what}", f, x, g, channels_first=True)
        theirs = peer(lambda t, c=c: t.BatchNorm2d(c))
        ours = nn.BatchNorm(c)
        compare(f"batch norm training, {shape}", lambda a, f=ours: (f(a), f.running_mean, f.running_var), x,
                torch and torch.no_grad()(theirs), channels_first=True)  # fmt: skip
        compare(f"instance norm, {shape}", nn.InstanceNorm(c), x,
                torch and torch.no_grad()(peer(lambda t, c=c: t.InstanceNorm2d(c))), channels_first=True)  # fmt: skip


def reductions():
    for rows, n in ((1 << 19, 8), (1 << 16, 64), (1 << 12, 1024)):
        x = floats(rows, n)
        shape = f"{rows} x {n}"
        compare(f"sum, {shape}", lambda a: a.sum(-1), x, lambda t: t.sum(-1), lambda a: a.sum(-1))
        compare(f"mean, {shape}", lambda a: a.mean(-1), x, lambda t: t.mean(-1), lambda a: a.mean(-1))
        compare(f"product, {shape}", lambda a: a.prod(-1), x, lambda t: t.prod(-1), lambda a: a.prod(-1))
        compare(f"max, {shape}", lambda a: a.max(-1), x, lambda t: t.amax(-1), lambda a: a.max(-1))
        compare(f"norm, {shape}", lambda a: mx.linalg.norm(a, axis=-1), x, lambda t: torch.linalg.norm(t, dim=-1),
                lambda a: np.linalg.norm(a, axis=-1))  # fmt: skip


if __name__ == "__main__":
    for part in (softmaxes, layers, reductions):
        part()
