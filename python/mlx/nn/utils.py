"""Gradients with respect to the parameters of a model, and models computed anew for them."""

from collections.abc import Callable
from functools import wraps

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from .layers.base import Module


def value_and_grad(model: Module, fn: Callable):
    """A function of the same arguments as `fn` that returns `fn`'s value and its gradient.

    The gradient is taken with respect to `model.trainable_parameters()`, and is a tree like it, so
    `fn` is free to take the model as an argument or to know it from outside:

        loss_and_grad = nn.value_and_grad(model, loss)
        value, grads = loss_and_grad(model, x, y)

    When `fn` returns a tuple its first item is differentiated and the others are passed through.
    The model's own arrays are put back afterwards, also when `fn` raises.
    """

    def with_parameters(parameters, *args, **kwargs):
        model.update(parameters)
        return fn(*args, **kwargs)

    differentiated = mx.value_and_grad(with_parameters)

    @wraps(fn)
    def wrapped(*args, **kwargs):
        parameters = model.trainable_parameters()
        before = tree_map(lambda array: array, parameters)  # the tree given away may change
        if not tree_flatten(parameters):
            raise ValueError(
                f"[value_and_grad] {type(model).__name__} has no trainable parameters: "
                "there are none, or all are frozen"
            )
        try:
            return differentiated(parameters, *args, **kwargs)
        finally:
            model.update(before)

    return wrapped


def checkpoint(module: Module, fn: Callable | None = None):
    """A function like `fn`, by default the module itself, that is computed anew for its gradient.

    What `fn` computes on the way to its value is then not kept until the gradient needs it, which takes
    less memory and more time (`mx.checkpoint`). `fn` may know the module from outside.
    """
    fn = module if fn is None else fn
    if not callable(fn):
        raise TypeError(f"[checkpoint] expected a module that can be called, or a function; got {type(fn).__name__}")

    def with_parameters(parameters, *args, **kwargs):
        module.update(parameters)
        return fn(*args, **kwargs)

    checkpointed = mx.checkpoint(with_parameters)

    @wraps(fn)
    def wrapped(*args, **kwargs):
        parameters = module.trainable_parameters()
        before = tree_map(lambda array: array, parameters)
        try:
            return checkpointed(parameters, *args, **kwargs)
        finally:
            module.update(before)

    return wrapped
