"""Dropout, which trains a network to do without any one of its values."""

import mlx.core as mx

from .base import Module


class _Dropout(Module):
    """Zeroes at random and scales the rest by 1 / (1 - p), so that the mean stays (Srivastava et
    al., "Dropout: a simple way to prevent neural networks from overfitting", 2014).

    It acts in training mode only. `p` is the probability of a zero, `_mask_shape` says which values
    share one draw.
    """

    def __init__(self, p: float = 0.5):
        super().__init__()
        if not 0 <= p < 1:
            raise mx.Error(f"[{type(self).__name__}] expected p in [0, 1), got {p}")
        self._p_1 = 1 - p

    def _extra_repr(self):
        return f"p={round(1 - self._p_1, 15)}"

    def _mask_shape(self, x):
        return x.shape

    def __call__(self, x: mx.array) -> mx.array:
        keep = self._p_1
        if keep == 1 or not self.training:
            return x
        return mx.where(mx.random.bernoulli(keep, self._mask_shape(x)), x * (1 / keep), 0)


class Dropout(_Dropout):
    """In training, zeroes each value with probability p and scales the rest by 1 / (1 - p)."""


class _ChannelDropout(_Dropout):
    """Zeroes whole channels, since neighbouring values of one channel say nearly the same (Tompson
    et al., "Efficient object localization using convolutional networks", 2015)."""

    _ndims = ()

    def _mask_shape(self, x):
        """One draw for each item of the batch, if there is one, and channel."""
        if x.ndim not in self._ndims:
            raise mx.Error(
                f"[{type(self).__name__}] expected an array of {self._ndims[0]} or "
                f"{self._ndims[1]} dimensions, got shape {x.shape}"
            )
        batch = x.shape[:1] if x.ndim == self._ndims[1] else ()
        return batch + (1,) * (self._ndims[0] - 1) + x.shape[-1:]


class Dropout2d(_ChannelDropout):
    """Dropout of channels: x is (N, H, W, C) or (H, W, C)."""

    _ndims = (3, 4)


class Dropout3d(_ChannelDropout):
    """Dropout of channels: x is (N, D, H, W, C) or (D, H, W, C)."""

    _ndims = (4, 5)
