"""Attention, and the transformers made of it (Vaswani et al., "Attention is all you need", 2017).

Sequences are x: (B, L, dims). A mask says which of the keys a query sees: an array that broadcasts to
(B, num_heads, queries, keys), of bool (true: seen) or of numbers that are added to the scores, or
"causal": key j is seen from query i where j <= i. None lets all see all.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from ..utils import checkpoint as _checkpoint
from .activations import relu
from .base import Module, _check_ints, _check_sizes
from .dropout import Dropout
from .linear import Linear
from .normalization import LayerNorm


class MultiHeadAttention(Module):
    """Attention of several heads side by side: with q, k and v linear in queries, keys and values,
    each cut into `num_heads` pieces of dims / num_heads,

        head  = softmax(q k^T / sqrt(dims / num_heads) + mask) v
        y     = all heads, one behind the other, times out_proj

    queries: (B, L, query_input_dims), keys: (B, S, key_input_dims), values: (B, S, value_input_dims),
    y: (B, L, value_output_dims). The number of values a head gathers is value_dims / num_heads. All
    sizes are `dims`, but for value_input_dims, which is that of the keys, where none is given.
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        query_input_dims: int | None = None,
        key_input_dims: int | None = None,
        value_input_dims: int | None = None,
        value_dims: int | None = None,
        value_output_dims: int | None = None,
        bias: bool = False,
    ):
        super().__init__()
        _check_sizes(self, dims=dims)
        _check_ints(self, num_heads=num_heads)
        query_input_dims = query_input_dims or dims
        key_input_dims = key_input_dims or dims
        value_input_dims = value_input_dims or key_input_dims
        value_dims = value_dims or dims
        value_output_dims = value_output_dims or dims
        _check_ints(self, value_dims=value_dims)
        if num_heads < 1 or dims % num_heads or value_dims % num_heads:
            raise mx.Error(
                f"[MultiHeadAttention] expected num_heads to divide dims and value_dims, "
                f"got {num_heads} for {dims} and {value_dims}"
            )
        self.num_heads = num_heads
        self._scale = (dims // num_heads) ** -0.5
        self.query_proj = Linear(query_input_dims, dims, bias=bias)
        self.key_proj = Linear(key_input_dims, dims, bias=bias)
        self.value_proj = Linear(value_input_dims, value_dims, bias=bias)
        self.out_proj = Linear(value_dims, value_output_dims, bias=bias)

    def _split(self, x):
        """(B, L, heads * d) as (B, heads, L, d)."""
        return mx.unflatten(x, -1, (self.num_heads, -1)).swapaxes(1, 2)

    def __call__(self, queries, keys, values, mask=None):
        for name, x in (("queries", queries), ("keys", keys), ("values", values)):
            if x.ndim != 3:
                raise mx.Error(f"[MultiHeadAttention] expected {name} of 3 dimensions (B, L, dims), got {x.shape}")
        q = self._split(self.query_proj(queries))
        k = self._split(self.key_proj(keys))
        v = self._split(self.value_proj(values))
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=self._scale, mask=mask)
        return self.out_proj(mx.flatten(y.swapaxes(1, 2), -2))

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32):
        """The causal mask in numbers, (N, N): 0 where a key is seen, else the lowest number there is."""
        places = mx.arange(N)
        return mx.where(places[:, None] < places[None, :], mx.array(mx.finfo(dtype).min, dtype), mx.array(0, dtype))


class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself, then two linear layers for each place alone:

        x = x + attention(ln1(x));  y = x + linear2(activation(linear1(ln2(x))))

    with `norm_first`. Without, norms come after the sums, as in the paper:

        x = ln1(x + attention(x));  y = ln2(x + linear2(activation(linear1(x))))

    x and y: (B, L, dims); linear1 makes mlp_dims of dims (4 dims where none is given). Dropout acts on
    what attention and activation return.
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ):
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def _attend(self, x, mask):
        return self.dropout1(self.attention(x, x, x, mask))

    def _feed_forward(self, x):
        return self.linear2(self.dropout2(self.activation(self.linear1(x))))

    def __call__(self, x, mask):
        if self.norm_first:
            x = x + self._attend(self.ln1(x), mask)
            return x + self._feed_forward(self.ln2(x))
        x = self.ln1(x + self._attend(x, mask))
        return self.ln2(x + self._feed_forward(x))


class TransformerEncoder(Module):
    """`num_layers` encoder layers one after the other, and a norm: x, y: (B, L, dims).

    With `checkpoint` a layer's intermediate results are computed again for its gradient instead of
    being kept (Chen et al., "Training deep nets with sublinear memory cost", 2016).
    """

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation=relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ):
        super().__init__()
        self.layers = [
            TransformerEncoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x, mask):
        for layer in self.layers:
            x = (_checkpoint(layer) if self.checkpoint else layer)(x, mask)
        return self.ln(x)


class TransformerDecoderLayer(Module):
    """An encoder layer with attention to another sequence, `memory`, in between:

        x = x + self_attention(ln1(x));  x = x + cross_attention(ln2(x), memory)
        y = x + linear2(activation(linear1(ln3(x))))

    with `norm_first`; without, each norm comes after its sum. x and y: (B, L, dims), memory:
    (B, S, dims); x_mask is for self_attention, memory_mask for cross_attention.
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ):
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.self_attention = MultiHeadAttention(dims, num_heads)
        self.cross_attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.ln3 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def _attend(self, x, mask):
        return self.dropout1(self.self_attention(x, x, x, mask))

    def _attend_to(self, memory, x, mask):
        return self.dropout2(self.cross_attention(x, memory, memory, mask))

    def _feed_forward(self, x):
        return self.linear2(self.dropout3(self.activation(self.linear1(x))))

    def __call__(self, x, memory, x_mask, memory_mask):
        if self.norm_first:
            x = x + self._attend(self.ln1(x), x_mask)
            x = x + self._attend_to(memory, self.ln2(x), memory_mask)
            return x + self._feed_forward(self.ln3(x))
        x = self.ln1(x + self._attend(x, x_mask))
        x = self.ln2(x + self._attend_to(memory, x, memory_mask))
        return self.ln3(x + self._feed_forward(x))


class TransformerDecoder(Module):
    """`num_layers` decoder layers one after the other, and a norm: x, y: (B, L, dims), memory: (B, S,
    dims). `checkpoint` as in `TransformerEncoder`."""

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation=relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ):
        super().__init__()
        self.layers = [
            TransformerDecoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x, memory, x_mask, memory_mask):
        for layer in self.layers:
            x = (_checkpoint(layer) if self.checkpoint else layer)(x, memory, x_mask, memory_mask)
        return self.ln(x)


class Transformer(Module):
    """An encoder of one sequence and a decoder of another that sees the first: translation, say.

        y = decoder(tgt, encoder(src, src_mask), tgt_mask, memory_mask)

    src: (B, S, dims), tgt and y: (B, L, dims). `custom_encoder` and `custom_decoder` are modules to
    take in place of those made here.
    """

    def __init__(
        self,
        dims: int = 512,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        norm_first: bool = True,
        checkpoint: bool = False,
    ):
        super().__init__()
        settings = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
        # A module without parameters is false.
        self.encoder = TransformerEncoder(num_encoder_layers, *settings) if custom_encoder is None else custom_encoder
        self.decoder = TransformerDecoder(num_decoder_layers, *settings) if custom_decoder is None else custom_decoder

    def __call__(self, src, tgt, src_mask, tgt_mask, memory_mask):
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)
