"""Gradients of models, models computed anew for them, and gradients of several processes."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map, tree_reduce

from .layers.base import Module


def value_and_grad(model: Module, fn: Callable):
    """A function of the same arguments as `fn` that returns `fn`'s value and its gradient.

    The gradient is taken with respect to `model.trainable_parameters()`, and is a tree like it, so
    `fn` is free to take the model as an argument or to know it from outside:

        loss_and_grad = nn.value_and_grad(model, loss)
        value, grads = loss_and_grad(model, x, y)

    When `fn` returns a tuple its first item is differentiated and the others are passed through.
    The model's own arrays are put back afterwards, also when `fn` raises, except where `fn` assigned others.
    """

    def with_parameters(parameters, *args, **kwargs):
        return _call_with(model, parameters, fn, args, kwargs)

    differentiated = mx.value_and_grad(with_parameters)

    @wraps(fn)
    def wrapped(*args, **kwargs):
        parameters = model.trainable_parameters()
        if not tree_flatten(parameters):
            raise mx.Error(
                f"[value_and_grad] {type(model).__name__} has no trainable parameters: "
                "there are none, or all are frozen"
            )
        return differentiated(parameters, *args, **kwargs)

    return wrapped


def _call_with(model, parameters, fn, args, kwargs):
    """`fn(*args, **kwargs)` while the model has other parameters; what `fn` assigns to it stays."""
    placed = mx._Placed(model, parameters)
    try:
        model.update(parameters)
        return fn(*args, **kwargs)
    finally:
        placed.put_back(model, parameters)


def checkpoint(module: Module, fn: Callable | None = None):
    """A function like `fn`, by default the module itself, that is computed anew for its gradient.

    What `fn` computes on the way to its value is then not kept until the gradient needs it, which takes
    less memory and more time (`mx.checkpoint`). `fn` may know the module from outside.
    """
    fn = module if fn is None else fn
    if not callable(fn):
        raise TypeError(f"[checkpoint] expected a module that can be called, or a function; got {type(fn).__name__}")

    def with_parameters(parameters, *args, **kwargs):
        return _call_with(module, parameters, fn, args, kwargs)

    checkpointed = mx.checkpoint(with_parameters)

    @wraps(fn)
    def wrapped(*args, **kwargs):
        return checkpointed(module.trainable_parameters(), *args, **kwargs)

    return wrapped


def average_gradients(
    gradients: Any,
    group: "mx.distributed.Group | None" = None,
    all_reduce_size: int = 32 * 1024**2,
    communication_stream: mx.Stream | None = None,
):
    """The mean of each gradient over the processes of the group, by default all there are.

    Many small messages take longer than a large one, so gradients of one dtype travel together, up
    to `all_reduce_size` bytes; 0 sends each by itself.
    """
    group = group or mx.distributed.init()
    n = group.size()
    if n == 1:
        return gradients

    def average(x):
        return mx.distributed.all_sum(x, group=group, stream=communication_stream) / n

    arrays = [array for _, array in tree_flatten(gradients)]
    averaged = []
    for batch in _batches(arrays, all_reduce_size):
        flat = average(mx.concatenate([array.reshape(-1) for array in batch]))
        ends = [sum(array.size for array in batch[: i + 1]) for i in range(len(batch) - 1)]
        averaged += [part.reshape(array.shape) for part, array in zip(mx.split(flat, ends), batch)]
    results = iter(averaged)
    return tree_map(lambda _: next(results), gradients)


def _batches(arrays, nbytes):
    """Lists of consecutive arrays of one dtype, of at most nbytes together or of one array."""
    batch = []
    for array in arrays:
        fits = sum(a.nbytes for a in batch) + array.nbytes <= nbytes
        if batch and not (fits and batch[0].dtype == array.dtype):
            yield batch
            batch = []
        batch.append(array)
    if batch:
        yield batch


def clip_grad_norm_sharded(gradients: Any, max_norm: float, group: "mx.distributed.Group | None" = None):
    """`mlx.optimizers.clip_grad_norm` for gradients of which each process of the group holds a part:
    the norm is that of all parts. Returns the tree and the norm."""
    group = group or mx.distributed.init()
    squares = tree_reduce(lambda total, g: total + mx.sum(mx.square(g.astype(mx.float32))), gradients, mx.array(0.0))
    norm = mx.sqrt(mx.distributed.all_sum(squares, group=group))
    scale = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(lambda g: (g * scale).astype(g.dtype), gradients), norm
