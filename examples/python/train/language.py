#!/usr/bin/env python3
"""A small transformer learns to write this project's documents, byte by byte.

    python examples/python/train/language.py

Nine tenths of the text train, the rest tests. Into --out go checkpoint.safetensors, with which --resume goes
on, and loss.png.
"""

import argparse
import math
import pathlib

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from training import add_arguments, draw, rows_of, train

ROOT = pathlib.Path(__file__).resolve().parents[3]
DIMS, LAYERS, HEADS, LENGTH, BATCH = 128, 3, 4, 128, 16
STRIDE = 16  # from where one training text begins to where the next does


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bytes = nn.Embedding(256, DIMS)
        self.positions = nn.Embedding(LENGTH, DIMS)
        self.body = nn.TransformerEncoder(LAYERS, DIMS, HEADS, dropout=0.1)
        self.head = nn.Linear(DIMS, 256)

    def __call__(self, x):
        mask = nn.MultiHeadAttention.create_additive_causal_mask(x.shape[1])
        return self.head(self.body(self.bytes(x) + self.positions(mx.arange(x.shape[1])), mask))


def documents():
    files = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    return np.frombuffer("\n".join(file.read_text() for file in files).encode(), np.uint8)


def windows(text, stride):
    """Texts of LENGTH bytes and one more, which overlap."""
    return mx.array(np.lib.stride_tricks.sliding_window_view(text, LENGTH + 1)[::stride].astype(np.int32))


def loss_fn(model, x):
    return nn.losses.cross_entropy(model(x[:, :-1]), x[:, 1:], reduction="mean")


def write(model, prompt, count, temperature=0.7):
    text = list(prompt.encode())
    for _ in range(count):
        logits = model(mx.array([text[-LENGTH:]]))[0, -1]
        text.append(mx.random.categorical(logits / temperature).item())
    return bytes(text).decode(errors="replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, "build/train/language", 1000)
    parser.add_argument("--write", type=int, default=300, help="bytes to write at the end")
    args = parser.parse_args()

    mx.random.seed(args.seed)
    text = documents()
    cut = len(text) * 9 // 10
    learned, tested = windows(text[:cut], STRIDE), windows(text[cut:], LENGTH)
    model = Model()
    warm_up = max(1, args.steps // 20)
    schedule = optim.join_schedules(
        [optim.linear_schedule(0, 2e-3, warm_up), optim.cosine_decay(2e-3, args.steps)], [warm_up]
    )
    optimizer = optim.AdamW(schedule, weight_decay=0.1, bias_correction=True)

    def batch_at(step):
        return (learned[rows_of(step, len(learned), BATCH, args.seed)],)

    losses = train(model, optimizer, loss_fn, batch_at, args)
    bits = loss_fn(model, tested).item() / math.log(2)
    draw(args.out / "loss.png", losses, f"{bits:.2f} bits for each byte of unseen text")
    print(f"{len(losses)} steps, {bits:.2f} bits a byte of unseen text")
    if args.write:
        print(write(model, "The library ", args.write))


if __name__ == "__main__":
    main()
