"""Vectors for the items of a vocabulary."""

import mlx.core as mx

from .base import Module, _check_sizes
from .quantized import QuantizedEmbedding


class Embedding(Module):
    """A table of vectors, looked up by number.

    weight: (num_embeddings, dims), drawn from a normal law with variance 1 / dims.
    """

    def __init__(self, num_embeddings: int, dims: int):
        super().__init__()
        _check_sizes(self, dims=dims)
        self.weight = mx.random.normal(shape=(num_embeddings, dims), scale=dims**-0.5)

    def _extra_repr(self):
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"

    def __call__(self, x):
        """x: integers of any shape; the result has one axis more, of size dims."""
        return self["weight"][x]

    def as_linear(self, x):
        """The scores x @ weight.T of every item, for a model whose input and output share one table
        (Press & Wolf, "Using the output embedding to improve language models", 2016)."""
        return x @ self["weight"].T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ):
        """A `QuantizedEmbedding` of this layer; there is no input to quantize."""
        if quantize_input:
            raise mx.Error("[Embedding.to_quantized] expected quantize_input=False: its input is integers")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
