"""Normalization: subtract a mean, divide by a deviation, scale and shift again.

    y = (x - mean) / sqrt(var + eps) * weight + bias

The layers differ in what they average over: one vector (LayerNorm, RMSNorm), one channel of one
image (InstanceNorm), a group of channels of one image (GroupNorm), one channel of the whole batch
(BatchNorm). Channels are the last axis.
"""

import math

import mlx.core as mx

from .base import Module, _check_sizes

_STATISTICS = {"running_mean", "running_var"}


def _wide(x):
    """x in a type that sums well: half types become float32."""
    return x.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else x


def _checked_eps(layer, eps):
    if not eps >= 0:
        raise mx.Error(f"[{type(layer).__name__}] expected eps >= 0, got {eps}")
    return eps


def _with_last_axis(layer, x, dims):
    """x, whose last axis has to be of this size."""
    try:
        return mx._of_size(x, -1, dims)
    except mx.Error:
        name = type(layer).__name__
        raise mx.Error(f"[{name}] expected a last axis of size {dims}, got shape {x.shape}") from None


class _Affine(Module):
    """What the layers here share: `weight` and `bias` of the size of the last axis, or neither."""

    def __init__(self, dims, weight, bias):
        super().__init__()
        if weight:
            self.weight = mx.ones((dims,))
        if bias:
            self.bias = mx.zeros((dims,))

    def _scale_and_shift(self, x):
        if "weight" in self:
            x = x * self.weight
        if "bias" in self:
            x = x + self.bias
        return x

    def _normalize_groups(self, x, groups=0, neighbours=False, whole=False):
        """x normalized by groups of channels (0: each is one) in each item, or in the whole batch, scaled and shifted;
        the means and the variances, (items or 1, groups)."""
        return mx._group_norm(x, self.get("weight"), self.get("bias"), groups, neighbours, whole, self.eps)


class LayerNorm(_Affine):
    """Normalizes each vector, x: (..., dims) (Ba et al., "Layer normalization", 2016)."""

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True):
        super().__init__(dims, affine, affine and bias)
        self.dims = dims
        self.eps = _checked_eps(self, eps)

    def _extra_repr(self):
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x):
        x = _with_last_axis(self, x, self.dims)
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(_Affine):
    """Divides each vector by its root mean square and scales it, x: (..., dims):

        y = x / sqrt(mean(x^2) + eps) * weight

    (Zhang & Sennrich, "Root mean square layer normalization", 2019).
    """

    def __init__(self, dims: int, eps: float = 1e-5):
        super().__init__(dims, True, False)
        self.eps = _checked_eps(self, eps)

    def _extra_repr(self):
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x):
        weight = self["weight"]
        return mx.fast.rms_norm(_with_last_axis(self, x, weight.shape[0]), weight, self.eps)


class InstanceNorm(_Affine):
    """Normalizes each channel of each item over its places, x: (N, ..., dims) (Ulyanov et al.,
    "Instance normalization: the missing ingredient for fast stylization", 2016)."""

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False):
        super().__init__(dims, affine, affine)
        self.dims = dims
        self.eps = _checked_eps(self, eps)

    def _extra_repr(self):
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if "weight" in self:  # without, any number of channels will do
            x = _with_last_axis(self, x, self.dims)
        if x.ndim < 3:
            raise mx.Error(f"[InstanceNorm] expected 3 or more dimensions (N, ..., dims), got shape {x.shape}")
        return self._normalize_groups(x)[0]


class GroupNorm(_Affine):
    """Normalizes groups of channels of each item over their places, x: (N, ..., dims) (Wu & He,
    "Group normalization", 2018).

    Channel c is in group c mod num_groups; with `pytorch_compatible` neighbouring channels form a
    group: c is in group c div (dims / num_groups).
    """

    def __init__(
        self,
        num_groups: int,
        dims: int,
        eps: float = 1e-5,
        affine: bool = True,
        pytorch_compatible: bool = False,
    ):
        _check_sizes(self, dims=dims)
        super().__init__(dims, False, affine)
        if affine:  # behind the bias, as checkpoints and sums over all parameters have them
            self.weight = mx.ones((dims,))
        if num_groups < 1 or dims % num_groups:
            raise mx.Error(f"[GroupNorm] expected num_groups to divide dims, got {num_groups} and {dims}")
        self.num_groups = num_groups
        self.dims = dims
        self.eps = _checked_eps(self, eps)
        self.pytorch_compatible = pytorch_compatible

    def _extra_repr(self):
        return (
            f"{self.num_groups}, {self.dims}, eps={self.eps}, affine={'weight' in self}, "
            f"pytorch_compatible={self.pytorch_compatible}"
        )

    def __call__(self, x):
        x = _with_last_axis(self, x, self.dims)
        if x.ndim < 2:
            raise mx.Error(f"[GroupNorm] expected an array (N, ..., {self.dims}), got shape {x.shape}")
        return self._normalize_groups(x, self.num_groups, neighbours=self.pytorch_compatible)[0]


class BatchNorm(_Affine):
    """Normalizes each channel over the batch and all places, x: (N, C), (N, L, C) or (N, H, W, C)
    (Ioffe & Szegedy, "Batch normalization", 2015).

    Training uses the statistics of the batch and keeps running ones,

        running = (1 - momentum) * running + momentum * batch   (the variance with n - 1),

    which evaluation uses. They are parameters, to be saved with the rest, but always frozen.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ):
        super().__init__(num_features, affine, affine)
        self.num_features = num_features
        self.eps = _checked_eps(self, eps)
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        if track_running_stats:
            self.running_mean = mx.zeros((num_features,))
            self.running_var = mx.ones((num_features,))
            self._no_grad |= self._statistics()

    def _statistics(self):
        return {"running_mean", "running_var"} if self.track_running_stats else set()

    def unfreeze(self, *args, **kwargs):
        super().unfreeze(*args, **kwargs)
        self._no_grad |= self._statistics()
        return self

    def _extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={'weight' in self}, track_running_stats={self.track_running_stats}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        if not 2 <= x.ndim <= 4:
            raise mx.Error(f"[BatchNorm] expected 2, 3 or 4 dimensions, got shape {x.shape}")
        x = _with_last_axis(self, x, self.num_features)

        if self.track_running_stats and not self.training:
            scale = mx.rsqrt(self.running_var + self.eps)
            return self._scale_and_shift(((_wide(x) - self.running_mean) * scale).astype(x.dtype))
        y, mean, var = self._normalize_groups(x, whole=True)
        if self.track_running_stats:
            mx._of_any_size(x, "BatchNorm in training, which counts the values")
            self._track(mean[0], var[0], math.prod(x.shape[:-1]), x.dtype)
        return y

    def _track(self, mean, var, n, dtype):
        if n < 2:
            raise mx.Error("[BatchNorm] training needs more than one value per channel")
        keep, new = 1 - self.momentum, self.momentum
        mean, var = mx.stop_gradient(mean) * new, mx.stop_gradient(var) * (new * n / (n - 1))
        dtype = mx.result_type(self.running_mean, dtype)  # not that of the sums, which half types have in float32
        mean = (self.running_mean * keep + mean).astype(dtype)
        var = (self.running_var * keep + var).astype(dtype)
        dict.update(self, running_mean=mean, running_var=var)  # in one call: both, or none where a signal comes
        for name in _STATISTICS & self.__dict__.keys():  # numbers that a program set
            del self.__dict__[name]
