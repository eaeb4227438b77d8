"""A transformer as language models are: writing with it, reading a prompt, and steps of training, on a GPU, beside
PyTorch in the same run where it can be imported.

The limit of writing is the bytes of weights and cache, read once a word at the speed of a copy. `--compile` compiles
PyTorch's steps too, which takes it a minute.
"""

import argparse
import math
import statistics
import sys
import time
from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from beside import bandwidth, begin, torch
from mlx.utils import tree_flatten

WRITTEN, TIMES = 32, 7


@dataclass
class Sizes:
    layers: int
    width: int
    heads: int
    kv: int
    hidden: int
    words: int = 32_000

    @property
    def head(self):
        return self.width // self.heads


BILLION = Sizes(16, 2048, 32, 32, 8192)  # 1.14e9 parameters
SMALL = Sizes(4, 256, 8, 8, 1024, 4096)


# ---- ours


class Cache:
    """Keys and values so far, in arrays that grow by pieces."""

    PIECE = 256

    def __init__(self):
        self.k = self.v = None
        self.n = 0

    def update(self, k, v):
        n = self.n + k.shape[2]
        if self.k is None or n > self.k.shape[2]:
            more = math.ceil(k.shape[2] / self.PIECE) * self.PIECE
            self.k, self.v = (self.grown(old, x, more) for old, x in ((self.k, k), (self.v, v)))
        self.k[:, :, self.n : n] = k
        self.v[:, :, self.n : n] = v
        self.n = n
        return self.k[:, :, :n], self.v[:, :, :n]

    @staticmethod
    def grown(old, x, more):
        zeros = mx.zeros((*x.shape[:2], more, x.shape[3]), x.dtype)
        return zeros if old is None else mx.concatenate([old, zeros], axis=2)


class Attention(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.q = nn.Linear(s.width, s.heads * s.head, bias=False)
        self.k = nn.Linear(s.width, s.kv * s.head, bias=False)
        self.v = nn.Linear(s.width, s.kv * s.head, bias=False)
        self.o = nn.Linear(s.heads * s.head, s.width, bias=False)
        self.rope = nn.RoPE(s.head, traditional=False)

    def __call__(self, x, cache=None):
        b, n, _ = x.shape
        s = self.s
        q = self.q(x).reshape(b, n, s.heads, s.head).transpose(0, 2, 1, 3)
        k, v = (f(x).reshape(b, n, s.kv, s.head).transpose(0, 2, 1, 3) for f in (self.k, self.v))
        offset = cache.n if cache else 0
        q, k = self.rope(q, offset=offset), self.rope(k, offset=offset)
        if cache:
            k, v = cache.update(k, v)
        mask = "causal" if n > 1 else None
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=s.head**-0.5, mask=mask)
        return self.o(y.transpose(0, 2, 1, 3).reshape(b, n, -1))


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.attention = Attention(s)
        self.gate, self.up = (nn.Linear(s.width, s.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(s.hidden, s.width, bias=False)
        self.before, self.between = nn.RMSNorm(s.width), nn.RMSNorm(s.width)

    def __call__(self, x, cache=None):
        x = x + self.attention(self.before(x), cache)
        y = self.between(x)
        return x + self.down(nn.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, s, dtype):
        super().__init__()
        self.words = nn.Embedding(s.words, s.width)
        self.layers = [Layer(s) for _ in range(s.layers)]
        self.norm = nn.RMSNorm(s.width)
        self.set_dtype(dtype)
        mx.eval(self.parameters())

    def __call__(self, tokens, caches=None):
        x = self.words(tokens)
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers)):
            x = layer(x, cache)
        return self.words.as_linear(self.norm(x))


def writing(model, length):
    """A function that writes some words after a text of that length, which it has read."""
    text = mx.random.randint(0, model.words.weight.shape[0], (1, length))

    def read():
        caches = [Cache() for _ in model.layers]
        y = mx.argmax(model(text, caches)[:, -1:], -1)
        mx.eval(y, [(c.k, c.v) for c in caches])
        return caches, y

    def write(caches, y):
        for _ in range(WRITTEN):
            y = mx.argmax(model(y, caches)[:, -1:], -1)
            mx.async_eval(y)
        mx.eval(y)

    return read, write


def training(s, batch, length):
    model, optimizer = Model(s, mx.float32), optim.AdamW(1e-4)
    tokens = mx.random.randint(0, s.words, (batch, length + 1))

    def loss(tokens):
        return nn.losses.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:], reduction="mean")

    slopes = nn.value_and_grad(model, loss)
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]

    def step(tokens):
        y, gradients = slopes(tokens)
        optimizer.update(model, gradients)
        return y

    compiled = mx.compile(step, inputs=state, outputs=state)
    return lambda: mx.async_eval(compiled(tokens), state), lambda: mx.eval(state)


# ---- PyTorch's


def peer(s, dtype):
    F = torch.nn.functional
    linear = lambda a, b: torch.nn.Linear(a, b, bias=False)  # noqa: E731

    def turn(x, offset):
        n, half = x.shape[2], x.shape[3] // 2
        at = torch.arange(offset, offset + n, device=x.device, dtype=torch.float32)
        angle = at[:, None] * 10_000 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
        c, d = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * c - b * d, a * d + b * c], -1)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.o = linear(s.width, s.heads * s.head), linear(s.heads * s.head, s.width)
            self.k, self.v = linear(s.width, s.kv * s.head), linear(s.width, s.kv * s.head)
            self.gate, self.up, self.down = (
                linear(s.width, s.hidden),
                linear(s.width, s.hidden),
                linear(s.hidden, s.width),
            )
            self.before, self.between = torch.nn.RMSNorm(s.width), torch.nn.RMSNorm(s.width)

        def forward(self, x, cache=None, offset=0):
            b, n, _ = x.shape
            y = self.before(x)
            q = self.q(y).view(b, n, s.heads, s.head).transpose(1, 2)
            k, v = (f(y).view(b, n, s.kv, s.head).transpose(1, 2) for f in (self.k, self.v))
            q, k = turn(q, offset), turn(k, offset)
            if cache is not None:
                cache[0][:, :, offset : offset + n] = k
                cache[1][:, :, offset : offset + n] = v
                k, v = (c[:, :, : offset + n] for c in cache)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1, enable_gqa=s.kv != s.heads)
            x = x + self.o(y.transpose(1, 2).reshape(b, n, -1))
            y = self.between(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(s.words, s.width)
            self.layers = torch.nn.ModuleList([Layer() for _ in range(s.layers)])
            self.norm = torch.nn.RMSNorm(s.width)

        def forward(self, tokens, caches=None, offset=0):
            x = self.words(tokens)
            for i, layer in enumerate(self.layers):
                x = layer(x, caches[i] if caches else None, offset)
            return F.linear(self.norm(x), self.words.weight)

    with torch.device("cuda"):
        return Model().to(dtype)


def writing_there(model, s, length):
    weight = model.words.weight
    text = torch.randint(0, s.words, (1, length), device="cuda")
    shape = (1, s.kv, length + WRITTEN, s.head)

    @torch.no_grad()
    def read():
        caches = [[torch.zeros(shape, device="cuda", dtype=weight.dtype) for _ in range(2)] for _ in range(s.layers)]
        return caches, model(text, caches)[:, -1:].argmax(-1)

    @torch.no_grad()
    def write(caches, y):
        for i in range(WRITTEN):
            y = model(y, caches, length + i)[:, -1:].argmax(-1)
        torch.cuda.synchronize()

    return read, write


def training_there(s, batch, length, compiled):
    model = peer(s, torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    tokens = torch.randint(0, s.words, (batch, length + 1), device="cuda")

    def loss(tokens):
        return torch.nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    if compiled:
        loss = torch.compile(loss)

    def step():
        optimizer.zero_grad()
        loss(tokens).backward()
        optimizer.step()

    return step, torch.cuda.synchronize


# ---- lines


def median(f, wait, calls=1, before=lambda: ()):
    """Seconds a call of f, which is given what `before` made; that is not counted."""
    times = []
    for _ in range(TIMES + 2):
        given = before()
        wait()
        start = time.perf_counter()
        for _ in range(calls):
            f(*given)
        wait()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times[2:])


def tell(name, t, u=None, least=None, host=None):
    line = f"{name:<44} ours {t * 1e3:8.2f} ms"
    if host:
        line += f" (host {host * 1e3:.2f})"
    if u:
        line += f"   PyTorch {u * 1e3:8.2f} ms ({u / t:.2f}x)"
    if least:
        line += f"   {least / t:.2f} of the copy's bandwidth"
    print(line, flush=True)


def host_of(f, wait, calls=20):
    """Seconds that the host takes for a call, while the device is behind."""
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        f()
    t = (time.perf_counter() - start) / calls
    wait()
    return t


def read_and_write(s, length, limit):
    model = Model(s, mx.bfloat16)
    there = peer(s, torch.bfloat16) if torch else None
    theirs = writing_there(there, s, length) if torch else None
    for bits in (None, 4):
        if bits:
            nn.quantize(model, 64, bits)
        read, write = writing(model, length)
        cache = 2 * s.layers * s.kv * s.head * (length + WRITTEN / 2) * 2
        least = (
            (sum(x.nbytes for _, x in tree_flatten(model.parameters())) + cache) * WRITTEN / limit if limit else None
        )
        what = "bfloat16" if not bits else f"{bits} bits"
        t = median(write, mx.synchronize, before=read)
        u = median(theirs[1], torch.cuda.synchronize, before=theirs[0]) if theirs else None
        tell(f"{WRITTEN} words after {length}, {what}", t, u, least)
        t = median(read, mx.synchronize)
        u = median(theirs[0], torch.cuda.synchronize) if theirs else None
        tell(f"{length} words read, {what}", t, u)


def train(s, batch, length, compiled):
    step, wait = training(s, batch, length)
    t = median(step, wait, calls=20)
    host = host_of(step, wait)
    for how in (False, True) if compiled else (False,):
        u = None
        if torch:
            peer_step, peer_wait = training_there(s, batch, length, how)
            u = median(peer_step, peer_wait, calls=20)
        tell(f"step of {batch} x {length}, {s.width} wide{', both compiled' if how else ''}", t, u, host=host)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--compile", action="store_true")
    p.add_argument("--tiny", action="store_true", help="sizes that show only that it runs")
    p.add_argument("what", nargs="*", help="write, train; all if none")
    given = p.parse_args()
    if given.tiny and not mx.is_available(mx.gpu):
        sys.exit("expected a GPU")
    begin()
    limit = bandwidth() if torch else None
    what = given.what or ["write", "train"]
    large, small = (Sizes(2, 64, 4, 2, 128, 512),) * 2 if given.tiny else (BILLION, SMALL)
    if "write" in what:
        read_and_write(large, 40 if given.tiny else 2048, limit)
    if "train" in what:
        train(small, 4, 32 if given.tiny else 128, given.compile)


if __name__ == "__main__":
    main()
