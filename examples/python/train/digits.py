#!/usr/bin/env python3
"""Two kinds of network learn the 1,797 scanned digits that come with scikit-learn.

    python examples/python/train/digits.py mlp
    python examples/python/train/digits.py convolutional

Into --out go checkpoint.safetensors, with which --resume goes on, and loss.png.
"""

import argparse

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from training import add_arguments, draw, rows_of, train

BATCH = 64


def mlp():
    return nn.Sequential(lambda x: x.flatten(1), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10))


def convolutional():
    """8 x 8 pixels -> 4 x 4 -> 2 x 2, with more channels each time."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        lambda x: x.flatten(1), nn.Dropout(0.2), nn.Linear(128, 10),
    )  # fmt: skip


def load(seed):
    """Images (n, 8, 8, 1) and labels for training, and for testing."""
    digits = load_digits()
    images = (digits.images[..., None] / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, random_state=seed)
    return [mx.array(parts[i]) for i in (0, 2, 1, 3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=["mlp", "convolutional"])
    add_arguments(parser, "build/train/digits", 1500)
    args = parser.parse_args()

    mx.random.seed(args.seed)
    images, labels, test_images, test_labels = load(args.seed)
    model = {"mlp": mlp, "convolutional": convolutional}[args.network]()
    optimizer = optim.Adam(optim.cosine_decay(2e-3, args.steps))

    def loss_fn(model, x, y):
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    def batch_at(step):
        rows = rows_of(step, len(labels), BATCH, args.seed)
        return images[rows], labels[rows]

    losses = train(model, optimizer, loss_fn, batch_at, args)
    right = mx.sum(mx.argmax(model(test_images), axis=-1) == test_labels).item()
    draw(args.out / "loss.png", losses, f"{args.network}: {right} of {len(test_labels)} unseen digits read correctly")
    print(f"{len(losses)} steps, test accuracy {right / len(test_labels):.1%}")


if __name__ == "__main__":
    main()
