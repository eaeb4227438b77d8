#!/usr/bin/env python3
"""Learn to read handwritten digits, on the CPU, in well under a minute.

The data are 1,797 scans of 8 x 8 pixels that come with scikit-learn. Four fifths train a network of
three linear layers, the rest tests it. Into the folder --out go

    digits.png                  the loss, the test accuracy, and test images with the answers
    digits-weights.safetensors  the weights, "layers.0.weight" and so on
    digits-test.safetensors     the test images, their labels and the network's answers

The last two are what examples/c/digits.c reads to give the same answers from C.
"""

import argparse
import pathlib
import sys
import time

try:
    import matplotlib
    import numpy as np
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from tqdm import tqdm
except ImportError as e:
    sys.exit(f"digits.py: {e}. It needs: pip install numpy scikit-learn matplotlib tqdm")

try:
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim
except ImportError as e:
    sys.exit(f"digits.py: {e}. Build and install this package first, for instance with: make build")

SIDE = 8  # pixels
BATCH = 64


class Network(nn.Module):
    """Linear layers with relu between them, and dropout in front of the later ones."""

    def __init__(self, sizes, dropout):
        super().__init__()
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]
        self.dropout = nn.Dropout(dropout)

    def __call__(self, x):
        x = self.layers[0](x)
        for layer in self.layers[1:]:
            x = layer(self.dropout(nn.relu(x)))
        return x


def load(seed):
    """(training images, training labels, test images, test labels), pixels in [0, 1]."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)
    labels = digits.target.astype(np.int32)
    parts = train_test_split(images, labels, test_size=0.2, stratify=labels, shuffle=True, random_state=seed)
    return [mx.array(parts[i]) for i in (0, 2, 1, 3)]


class Variations:
    """Training images as they could have been scanned: off by a pixel, and with noise."""

    def __init__(self, images):
        padded = mx.pad(images, ((0, 0), (1, 1), (1, 1)))
        self.shifted = mx.stack(
            [padded[:, row : row + SIDE, column : column + SIDE].flatten(1) for row in range(3) for column in range(3)]
        )

    def __call__(self, pick):
        """A fresh variation of the images with the numbers `pick`; half of them stay in place."""
        shift = mx.random.randint(0, 9, pick.shape)
        shift = mx.where(mx.random.bernoulli(0.5, pick.shape), shift, 4)
        x = self.shifted[shift, pick]
        return x + 0.1 * mx.random.normal(x.shape)


def loss_fn(model, x, y):
    return nn.losses.cross_entropy(model(x), y, reduction="mean")


def predict(model, images):
    """The most likely digit of each image."""
    model.eval()
    answers = mx.argmax(model(images.flatten(1)), axis=-1)
    model.train()
    return answers.astype(mx.int32)


def train(model, data, epochs, seed):
    """Train in place; returns the loss of each step and the test accuracy after each epoch."""
    images, labels, test_images, test_labels = data
    variations = Variations(images)
    count = len(labels)
    steps = epochs * (count // BATCH)
    warm_up = max(1, steps // 20)
    schedule = optim.join_schedules(
        [optim.linear_schedule(0, 4e-3, warm_up), optim.cosine_decay(4e-3, steps)], [warm_up]
    )
    optimizer = optim.AdamW(schedule, weight_decay=0.01, bias_correction=True)
    loss_and_grad = nn.value_and_grad(model, loss_fn)
    order = np.random.default_rng(seed)

    losses, accuracies = [], []
    with tqdm(total=steps, unit="step", desc="training", dynamic_ncols=True) as bar:
        for _ in range(epochs):
            shuffled = order.permutation(count).astype(np.int32)
            for start in range(0, count - BATCH + 1, BATCH):
                pick = mx.array(shuffled[start : start + BATCH])
                loss, grads = loss_and_grad(model, variations(pick), labels[pick])
                optimizer.update(model, grads)
                mx.eval(loss, model.parameters(), optimizer.state)
                losses.append(loss.item())
                bar.update()
            right = mx.mean(predict(model, test_images) == test_labels).item()
            accuracies.append(right)
            bar.set_postfix_str(f"loss {np.mean(losses[-BATCH:]):.3f}, test accuracy {right:.1%}")
    return losses, accuracies


def draw(file, losses, accuracies, images, labels, answers):
    """The picture: curves on the left, test images with the network's answers on the right."""
    matplotlib.use("Agg")
    from matplotlib import colors
    from matplotlib import pyplot as plt

    ink, blue, orange, red = "#24292f", "#0969da", "#bc4c00", "#cf222e"
    paper_to_ink = colors.LinearSegmentedColormap.from_list("", ["#eef1f4", ink])
    plt.rcParams.update(
        {
            "font.size": 10,
            "text.color": ink,
            "axes.edgecolor": "#8c959f",
            "axes.labelcolor": ink,
            "axes.spines.top": False,
            "xtick.color": ink,
            "ytick.color": ink,
        }
    )
    figure = plt.figure(figsize=(11, 4.6), dpi=110, facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=(0.82, 1))

    # Curves.
    axes = left.subplots(2, 1, sharex=True, height_ratios=(1.25, 1))
    left.subplots_adjust(left=0.15, right=0.97, top=0.89, bottom=0.12, hspace=0.16)
    per_epoch = len(losses) // len(accuracies)
    epoch = (np.arange(len(losses)) + 1) / per_epoch
    mean = np.reshape(losses[: per_epoch * len(accuracies)], (-1, per_epoch)).mean(1)
    epochs = np.arange(len(accuracies)) + 1
    axes[0].semilogy(epoch, losses, color=blue, alpha=0.25, linewidth=0.8)
    axes[0].semilogy(epochs, mean, color=blue, linewidth=2)
    axes[0].set_ylabel("training loss")
    axes[0].yaxis.set_major_formatter("{x:g}")
    axes[1].plot(epochs, 100 * np.array(accuracies), color=orange, linewidth=2)
    axes[1].set_ylabel("test accuracy, %")
    axes[1].set_xlabel("epoch")
    axes[1].set_ylim(100 * min(0.95, max(0.0, accuracies[-1] - 0.06)), 100.3)
    for axis in axes:
        axis.grid(True, color="#d0d7de", linewidth=0.6)
        axis.spines["right"].set_visible(False)
        axis.set_axisbelow(True)
    left.suptitle(
        f"{sum(labels == answers)} of {len(labels)} unseen digits read correctly",
        fontweight="bold",
        y=0.965,
    )

    # Images: the first ones that are right, and the mistakes, as far as there is room.
    rows, columns = 6, 10
    wrong = np.flatnonzero(labels != answers)[: rows * columns // 2]
    correct = np.flatnonzero(labels == answers)[: rows * columns - len(wrong)]
    chosen = np.concatenate([correct, wrong])
    grid = right.subplots(rows, columns)
    right.subplots_adjust(left=0.02, right=0.98, top=0.89, bottom=0.06, wspace=0.16, hspace=0.46)
    for axis in grid.flat:
        axis.axis("off")
    for axis, i in zip(grid.flat, chosen):
        is_wrong = labels[i] != answers[i]
        axis.imshow(images[i], cmap=paper_to_ink, vmin=0, vmax=1, interpolation="lanczos")
        text = f"{answers[i]} ({labels[i]})" if is_wrong else f"{answers[i]}"
        style = {"color": red, "fontweight": "bold"} if is_wrong else {"color": ink}
        axis.text(0.5, -0.09, text, transform=axis.transAxes, ha="center", va="top", **style)
        if is_wrong:
            axis.add_patch(plt.Rectangle((-0.5, -0.5), SIDE, SIDE, fill=False, color=red, linewidth=2.5))
    right.suptitle("Test images and answers, mistakes in red (with the truth)", fontweight="bold", y=0.965)
    figure.savefig(file)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="build/demo", help="folder for the results")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-least", type=float, default=0.97, help="test accuracy to demand")
    args = parser.parse_args()
    if args.epochs < 1:
        parser.error("--epochs must be at least 1")
    out = pathlib.Path(args.out)
    out.mkdir(parents=True, exist_ok=True)

    mx.set_default_device(mx.cpu)
    mx.random.seed(args.seed)
    data = load(args.seed)
    _, _, test_images, test_labels = data
    model = Network([SIDE * SIDE, 256, 256, 10], dropout=0.2)

    start = time.perf_counter()
    losses, accuracies = train(model, data, args.epochs, args.seed)
    seconds = time.perf_counter() - start

    answers = predict(model, test_images)
    model.save_weights(str(out / "digits-weights.safetensors"))
    mx.save_safetensors(
        str(out / "digits-test.safetensors"),
        {"images": test_images.flatten(1), "labels": test_labels, "answers": answers},
    )
    picture = out / "digits.png"
    draw(picture, losses, accuracies, *map(np.array, (test_images, test_labels, answers)))

    accuracy = accuracies[-1]
    print(
        f"Trained on {len(data[1])} digits for {args.epochs} epochs ({len(losses)} steps) in "
        f"{seconds:.1f} s.\n"
        f"Test accuracy {accuracy:.1%}: {round(accuracy * len(test_labels))} of "
        f"{len(test_labels)} digits it had not seen.\n"
        f"Picture, weights and test images: {picture}, digits-weights.safetensors and "
        "digits-test.safetensors beside it."
    )
    if not accuracy >= args.at_least:
        sys.exit(f"digits.py: the test accuracy is below {args.at_least:.0%}")


if __name__ == "__main__":
    main()
