"""Layers made of layers."""

from .base import Module


class Sequential(Module):
    """Calls its modules (or plain functions) one after the other: x -> fn(...f2(f1(x)))."""

    def __init__(self, *modules):
        super().__init__()
        self.layers = list(modules)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
