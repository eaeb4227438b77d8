import math

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

from . import BILLION, SMALL, WRITTEN


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
        self.q, self.k, self.v, self.o = (nn.Linear(s.width, s.width, bias=False) for _ in range(4))
        self.rope = nn.RoPE(s.head, traditional=False)

    def __call__(self, x, cache=None):
        b, n, _ = x.shape
        s = self.s
        q, k, v = (f(x).reshape(b, n, s.heads, s.head).transpose(0, 2, 1, 3) for f in (self.q, self.k, self.v))
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


class Writing:
    """Words after a text of that length, again and again, with weights of 4 bits or as they are."""

    def __init__(self, bits, length):
        mx.random.seed(0)
        self.model = Model(BILLION, mx.bfloat16)
        if bits:
            nn.quantize(self.model, 64, bits)
            mx.eval(self.model.parameters())
        self.text = mx.random.randint(0, BILLION.words, (1, length))
        self.read()

    def read(self):
        self.caches = [Cache() for _ in self.model.layers]
        self.word = mx.argmax(self.model(self.text, self.caches)[:, -1:], -1)
        mx.async_eval(self.word, [(c.k, c.v) for c in self.caches])
        self.length = self.caches[0].n
        return self.word

    def write(self):
        """What was written before is written over."""
        for c in self.caches:
            c.n = self.length
        y = self.word
        for _ in range(WRITTEN):
            y = mx.argmax(self.model(y, self.caches)[:, -1:], -1)
            mx.async_eval(y)
        return y


def step_of(model, tokens, compiled):
    """A step of training as a function without arguments: the loss and the state behind it."""
    optimizer = optim.AdamW(1e-4)

    def loss(tokens):
        return nn.losses.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:], reduction="mean")

    slopes = nn.value_and_grad(model, loss)
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]

    def step(tokens):
        y, gradients = slopes(tokens)
        optimizer.update(model, gradients)
        return y

    run = mx.compile(step, inputs=state, outputs=state) if compiled else step
    return lambda: [run(tokens), state]


def training(batch, length):
    """A step, compiled."""
    mx.random.seed(0)
    model = Model(SMALL, mx.float32)
    return step_of(model, mx.random.randint(0, SMALL.words, (batch, length + 1)), True)
