import torch

from . import BILLION, SMALL, WRITTEN

F = torch.nn.functional
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def linear(a, b):
    return torch.nn.Linear(a, b, bias=False)


def turn(x, offset):
    """Rotations by position."""
    n, half = x.shape[2], x.shape[3] // 2
    at = torch.arange(offset, offset + n, device=x.device, dtype=torch.float32)
    angle = at[:, None] * 10_000 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    c, d = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * d, a * d + b * c], -1)


class Layer(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.q, self.k, self.v, self.o = (linear(s.width, s.width) for _ in range(4))
        self.gate, self.up, self.down = linear(s.width, s.hidden), linear(s.width, s.hidden), linear(s.hidden, s.width)
        self.before, self.between = torch.nn.RMSNorm(s.width), torch.nn.RMSNorm(s.width)

    def forward(self, x, cache=None, offset=0):
        b, n, _ = x.shape
        y = self.before(x)
        q, k, v = (f(y).view(b, n, self.s.heads, self.s.head).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = turn(q, offset), turn(k, offset)
        if cache is not None:
            cache[0][:, :, offset : offset + n] = k
            cache[1][:, :, offset : offset + n] = v
            k, v = (c[:, :, : offset + n] for c in cache)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, -1))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Model(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        self.words = torch.nn.Embedding(s.words, s.width)
        self.layers = torch.nn.ModuleList([Layer(s) for _ in range(s.layers)])
        self.norm = torch.nn.RMSNorm(s.width)

    def forward(self, tokens, caches=None, offset=0):
        x = self.words(tokens)
        for i, layer in enumerate(self.layers):
            x = layer(x, caches[i] if caches else None, offset)
        return F.linear(self.norm(x), self.words.weight)


def made(s, dtype):
    torch.manual_seed(0)
    with torch.device(DEVICE):
        return Model(s).to(dtype)


class Writing:
    def __init__(self, length):
        self.model, self.length = made(BILLION, torch.bfloat16), length
        self.text = torch.randint(0, BILLION.words, (1, length), device=DEVICE)
        self.read()

    @torch.no_grad()
    def read(self):
        s = BILLION
        shape = (1, s.heads, self.length + WRITTEN, s.head)
        self.caches = [
            [torch.zeros(shape, device=DEVICE, dtype=torch.bfloat16) for _ in range(2)] for _ in range(s.layers)
        ]
        self.word = self.model(self.text, self.caches)[:, -1:].argmax(-1)
        return self.word

    @torch.no_grad()
    def write(self):
        y = self.word
        for i in range(WRITTEN):
            y = self.model(y, self.caches, self.length + i)[:, -1:].argmax(-1)
        return y


def training(batch, length, compiled):
    model = made(SMALL, torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    tokens = torch.randint(0, SMALL.words, (batch, length + 1), device=DEVICE)

    def loss(tokens):
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    if compiled:
        loss = torch.compile(loss)

    @torch.enable_grad()
    def step():
        optimizer.zero_grad()
        y = loss(tokens)
        y.backward()
        optimizer.step()
        return y.detach()

    return step
