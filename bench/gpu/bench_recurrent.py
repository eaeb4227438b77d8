"""What goes step by step on a GPU, gated delta networks and recurrent layers, beside PyTorch in the same run where it
can be imported: a loop over its operations, and its layers (cuDNN's)."""

import mlx.core as mx
import mlx.nn as nn
from beside import bandwidth, begin, compare, torch

HEADS, KEYS, WIDTH = 32, 16, 128


def delta_here(batch, steps):
    x = [mx.random.normal((batch, steps, KEYS, WIDTH)) for _ in range(2)]
    x[1] = x[1] / mx.linalg.norm(x[1], axis=-1, keepdims=True)
    x.append(mx.random.normal((batch, steps, HEADS, WIDTH)))
    x += [mx.random.uniform(0.9, 1, (batch, steps, HEADS)), mx.random.uniform(shape=(batch, steps, HEADS))]
    state = mx.zeros((batch, HEADS, WIDTH, WIDTH))
    mx.eval(x, state)
    return lambda: mx.fast.gated_delta_update(*x, state), sum(a.nbytes for a in x) + x[2].nbytes + 2 * state.nbytes


def delta_there(batch, steps):
    if not torch:
        return None
    q, k = (torch.randn(batch, steps, HEADS, WIDTH, 1, device="cuda") for _ in range(2))
    k = k / k.norm(dim=-2, keepdim=True)
    v = torch.randn(batch, steps, HEADS, WIDTH, 1, device="cuda")
    gamma, beta = (torch.rand(batch, steps, HEADS, 1, 1, device="cuda") for _ in range(2))

    def run():
        s, out = torch.zeros(batch, HEADS, WIDTH, WIDTH, device="cuda"), torch.empty_like(v)
        for t in range(steps):
            s = s * gamma[:, t]
            s = s + (v[:, t] - s @ k[:, t]) * beta[:, t] @ k[:, t].mT
            out[:, t] = s @ q[:, t]
        return out

    return run


def layers(batch, steps, width):
    x = mx.random.normal((batch, steps, width))
    a = torch.randn(batch, steps, width, device="cuda") if torch else None
    for name in ("RNN", "GRU", "LSTM"):
        here = getattr(nn, name)(width, width)
        mx.eval(here, x)
        there = getattr(torch.nn, name)(width, width, batch_first=True).to("cuda") if torch else None
        run = mx.compile(here)
        moved = 2 * x.nbytes
        yield f"{name} of {batch} x {steps} x {width}", lambda f=run: f(x), lambda f=there: f(a), moved


def main():
    begin()
    limit = bandwidth() if torch else None
    for batch, steps in ((1, 2048), (8, 512), (32, 1)):
        f, moved = delta_here(batch, steps)
        compare(f"gated delta of {batch} x {steps} steps", "float32", f, delta_there(batch, steps), moved, limit)
    for shape in ((32, 128, 512), (1, 128, 512)):
        for name, f, g, moved in layers(*shape):
            compare(name, "float32", f, g, moved, limit)


main()
