"""Positions for attention, which by itself does not see the order of its inputs."""

import math

import mlx.core as mx

from .base import Module


class RoPE(Module):
    """Rotary positions (Su et al., "RoFormer: enhanced transformer with rotary position embedding",
    2021), for queries and keys x: (B, ..., T, D).

    Of each vector the first `dims` values are taken as dims / 2 points of the plane, and point i at
    position t is rotated by the angle

        scale * (offset + t) * base^(-2 i / dims)

    so that the product of a query and a key depends on the distance of their positions alone. Points
    are the values i and i + dims / 2, or with `traditional` neighbours, 2 i and 2 i + 1. `offset` is
    the number of positions before x, such as those kept in a cache of keys.
    """

    def __init__(self, dims: int, traditional: bool = False, base: float = 10000, scale: float = 1.0):
        super().__init__()
        self.dims = dims
        self.traditional = traditional
        self.base = base
        self.scale = scale

    def _extra_repr(self):
        return f"{self.dims}, traditional={self.traditional}"

    def __call__(self, x, offset: int = 0):
        return mx.fast.rope(x, self.dims, traditional=self.traditional, base=self.base, scale=self.scale, offset=offset)


class SinusoidalPositionalEncoding(Module):
    """Waves of different lengths (Vaswani et al., "Attention is all you need", 2017):

        y = scale * [sin(x f_1), ..., sin(x f_n), cos(x f_1), ..., cos(x f_n)]       n = dims / 2

    with frequencies f from max_freq to min_freq, each by the same factor below the one before. x are
    positions of any shape, y has one axis more, of size dims. `scale` is sqrt(2 / dims) where it is
    not given, which makes y a unit vector. With `cos_first` the halves change places, with
    `full_turns` frequencies count turns instead of radians.
    """

    def __init__(
        self,
        dims: int,
        min_freq: float = 0.0001,
        max_freq: float = 1,
        scale: float | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ):
        super().__init__()
        if dims < 2 or dims % 2:
            raise mx.Error(f"[SinusoidalPositionalEncoding] expected dims to be positive and even, got {dims}")
        if max_freq == 0:
            raise mx.Error("[SinusoidalPositionalEncoding] expected max_freq other than 0")
        n = dims // 2
        falling = mx.arange(n) / max(n - 1, 1)
        frequencies = max_freq * mx.exp(falling * math.log(min_freq / max_freq))
        self._sigmas = frequencies * (2 * math.pi) if full_turns else frequencies
        self.scale = math.sqrt(2 / dims) if scale is None else scale
        self.cos_first = cos_first

    def __call__(self, x):
        angles = x[..., None] * self._sigmas
        sin, cos = mx.sin(angles), mx.cos(angles)
        return mx.concatenate([cos, sin] if self.cos_first else [sin, cos], axis=-1) * self.scale


class ALiBi(Module):
    """Scores that fall with the distance (Press et al., "Train short, test long: attention with linear
    biases enables input length extrapolation", 2021):

        y[b, h, i, j] = scores[b, h, i, j] - slope[h] * |offset + i - j|

    For attention scores of shape (B, heads, queries, keys). `mask` is added as well. `offset` is the
    number of keys before the first query.
    """

    @staticmethod
    def create_alibi_matrix(
        q_sequence_length: int,
        k_sequence_length: int,
        num_heads: int,
        offset: int = 0,
        dtype: mx.Dtype = mx.float32,
    ) -> mx.array:
        """What is added, for the queries from `offset` up to q_sequence_length, as (1, heads, queries,
        keys)."""
        queries = mx.arange(offset, q_sequence_length)
        keys = mx.arange(k_sequence_length)
        distance = mx.abs(queries[:, None] - keys[None, :]).astype(mx.float32)
        slope = ALiBi.create_alibi_slope(num_heads)
        return (-slope * distance)[None].astype(dtype)

    @staticmethod
    def create_alibi_slope(num_heads: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """The slopes of the heads, (heads, 1, 1).

        For a power of two they are 2^(-8 / n), 2^(-16 / n), ..., 2^-8. For other numbers the rest is
        taken from the slopes for twice the power of two below, every second one.
        """

        def slopes(n):
            return [2 ** (-8 * (i + 1) / n) for i in range(n)]

        if not isinstance(num_heads, int) or num_heads < 1:
            raise mx.Error(f"[ALiBi] expected one head or more, got {num_heads!r}")
        power = 2 ** (num_heads.bit_length() - 1)
        all_heads = slopes(power) + slopes(2 * power)[::2][: num_heads - power]
        return mx.array(all_heads, dtype)[:, None, None]

    def __call__(self, attention_scores: mx.array, offset: int = 0, mask: mx.array | None = None) -> mx.array:
        mx._of_any_size(attention_scores, "ALiBi, whose biases are one for each number of queries and keys")
        if attention_scores.ndim != 4:
            raise mx.Error(
                f"[ALiBi] expected scores of shape (batch, heads, queries, keys), got {attention_scores.shape}"
            )
        _, heads, queries, keys = attention_scores.shape
        bias = self.create_alibi_matrix(queries + offset, keys, heads, offset, attention_scores.dtype)
        return attention_scores + (bias if mask is None else bias + mask)
