"""The loop that the programs here share: compiled steps, progress, checkpoints, a picture of the loss.

A checkpoint has all that the next step depends on: the parameters, the optimizer's state, the state of
random numbers and the number of the step, from which the batch follows. So a run that is stopped and resumed
ends with the same bits as one that was not.
"""

import pathlib
from functools import partial

import matplotlib
import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from tqdm import tqdm

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402


def add_arguments(parser, out, steps):
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out), help="folder for the results")
    parser.add_argument("--steps", type=int, default=steps, help="how many in all")
    parser.add_argument("--stop", type=int, help="stop after this many, with a checkpoint")
    parser.add_argument("--every", type=int, default=200, help="steps from a checkpoint to the next")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the folder")
    parser.add_argument("--seed", type=int, default=0)


def rows_of(step, count, batch, seed):
    """Numbers of the rows for a step: all of them in random order before any comes again."""
    per_epoch = count // batch
    order = np.random.default_rng([seed, step // per_epoch]).permutation(count)
    at = step % per_epoch * batch
    return mx.array(order[at : at + batch].astype(np.int32))


def save(file, model, optimizer, losses):
    tree = {"model": model.parameters(), "optimizer": optimizer.state, "random": list(mx.random.state)}
    mx.save_safetensors(str(file), {**dict(tree_flatten(tree)), "losses": mx.array(losses)})


def restore(file, model, optimizer):
    """Put everything back; returns the losses so far."""
    arrays = mx.load(str(file))
    losses = arrays.pop("losses").tolist()
    tree = tree_unflatten(list(arrays.items()))
    model.update(tree["model"])
    optimizer.state = tree["optimizer"]
    mx.random.state[0] = tree["random"][0]
    return losses


def train(model, optimizer, loss_fn, batch_at, args):
    """Train in place up to step args.steps, or args.stop; returns the loss of each step.

    loss_fn(model, *batch): a scalar; batch_at(step): the arrays of a batch.
    """
    args.out.mkdir(parents=True, exist_ok=True)
    file, losses = args.out / "checkpoint.safetensors", []
    optimizer.init(model.trainable_parameters())
    if args.resume:
        losses = restore(file, model, optimizer)
    state = [model.state, optimizer.state, mx.random.state]
    loss_and_grad = nn.value_and_grad(model, loss_fn)

    @partial(mx.compile, inputs=state, outputs=state)
    def step(*batch):
        loss, gradients = loss_and_grad(model, *batch)
        optimizer.update(model, gradients)
        return loss

    end = args.steps if args.stop is None else min(args.stop, args.steps)
    model.train()
    with tqdm(total=args.steps, initial=len(losses), unit="step", dynamic_ncols=True) as bar:
        while len(losses) < end:
            loss = step(*batch_at(len(losses)))
            mx.eval(loss, state)
            losses.append(loss.item())
            bar.update()
            if len(losses) % args.every == 0 or len(losses) == end:
                bar.set_postfix_str(f"loss {np.mean(losses[-50:]):.3f}")
                save(file, model, optimizer, losses)
    model.eval()
    return losses


def draw(file, losses, title):
    """The loss of each step, and its mean over some."""
    width = max(1, len(losses) // 50)
    mean = np.convolve(losses, np.ones(width) / width, "valid")
    figure, axes = plt.subplots(figsize=(7, 4), dpi=110)
    axes.plot(np.arange(len(losses)) + 1, losses, color="#0969da", alpha=0.25, linewidth=0.8)
    axes.plot(np.arange(len(mean)) + width, mean, color="#0969da", linewidth=2)
    axes.set(xlabel="step", ylabel="training loss", title=title)
    axes.grid(True, color="#d0d7de", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, bbox_inches="tight")
    plt.close(figure)
