"""Losses: how far predictions are from targets.

`reduction` says what becomes of the losses of the single items: "none" returns them, "mean" and
"sum" make one number of them.
"""

import math
from operator import index
from typing import Literal

import mlx.core as mx

Reduction = Literal["none", "mean", "sum"]


def _reduce(loss, reduction, caller):
    if reduction == "none":
        return loss
    if reduction == "mean":
        return mx.mean(loss)
    if reduction == "sum":
        return mx.sum(loss)
    raise mx.Error(f"[{caller}] expected reduction none, mean or sum, got {reduction!r}")


def _same_shape(caller, **arrays):
    """The arrays.  Broadcasting predictions against targets is nearly always a mistake, so shapes must agree."""
    first, *others = arrays.values()
    try:
        return [first, *(mx._alike(a, first) for a in others)]
    except mx.Error:
        shapes = ", ".join(f"{name} {a.shape}" for name, a in arrays.items())
        raise mx.Error(f"[{caller}] expected arrays of one shape, got {shapes}") from None


def _at_classes(x, targets, axis):
    """x at the class numbers along an axis, which they do not have."""
    at = mx.take_along_axis(x, mx.expand_dims(targets, axis), axis).squeeze(axis)
    return mx._alike(at, targets)


def _without(shape, axis):
    return [*shape[:axis], *shape[axis:][1:]]


def _check_arrays(caller, **arrays):
    """Refuse what is not an array, of ours or another library's."""
    for name, a in arrays.items():
        if not hasattr(a, "ndim"):
            raise mx.ConversionError(f"[{caller}] expected an array for {name}, got {type(a).__name__}")


def _check_axis(caller, axis, *arrays):
    """Refuse an axis that what the arrays make together does not have."""
    ndim = max(getattr(a, "ndim", 0) for a in arrays)
    for i in () if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,):
        if not -ndim <= index(i) < ndim:
            raise mx.AxisError(f"[{caller}] axis {i} is out of range for an array with {ndim} dimensions")


def _weigh(loss, weights, caller):
    if weights is None:
        return loss
    weights, loss = _same_shape(caller, weights=weights, losses=loss)
    return weights * loss


# ------------------------------------------------------------------ classification


def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """-sum_k p_k log(softmax(logits)_k), the sum along `axis`

    `targets` are class numbers (one axis less than `logits`) or probabilities p (the same shape).
    With `label_smoothing` s, p becomes (1 - s) p + s / K for K classes (Szegedy et al., "Rethinking
    the Inception architecture", 2015). `weights` has one factor for each loss.
    """
    if not 0 <= label_smoothing < 1:
        raise mx.Error(f"[cross_entropy] expected label_smoothing in [0, 1), got {label_smoothing}")
    _check_arrays("cross_entropy", logits=logits, targets=targets)
    targets = targets if isinstance(targets, mx.array) else mx.array(targets)
    _check_axis("cross_entropy", index(axis), logits)
    as_probabilities = targets.ndim == logits.ndim
    try:
        if as_probabilities:
            targets = mx._alike(targets, logits)
        else:
            at_classes = _at_classes(logits, targets, axis)
    except mx.Error:
        shape, got = logits.shape, targets.shape
        if list(got) == (list(shape) if as_probabilities else _without(shape, axis)):
            raise
        raise mx.Error(
            f"[cross_entropy] expected targets of shape {shape} or that without axis {axis}, got {got}"
        ) from None

    # log(softmax(x)_k) = x_k - logsumexp(x), and the p_k sum to 1. What is rounded is no larger than the loss.
    most, log = mx._logsumexp_parts(logits, axis, True)
    if as_probabilities:
        score = mx.sum((logits - most) * targets, axis=axis)
    else:
        score = at_classes - most.squeeze(axis)
    if label_smoothing > 0:
        score = (1 - label_smoothing) * score + label_smoothing * mx.mean(logits - most, axis=axis)
    loss = log.squeeze(axis) - score
    if mx.issubdtype(logits.dtype, mx.floating):
        loss = loss.astype(mx.result_type(logits, targets) if as_probabilities else logits.dtype)
    return _reduce(_weigh(loss, weights, "cross_entropy"), reduction, "cross_entropy")


def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> mx.array:
    """-(t log p + (1 - t) log(1 - p)), where p = sigmoid(inputs), or inputs itself without logits

    Logarithms of probabilities are cut off at -100, so that p = 0 and p = 1 give finite losses.
    """
    inputs, targets = _same_shape("binary_cross_entropy", inputs=inputs, targets=targets)
    if with_logits:
        loss = mx.logaddexp(inputs, 0) - inputs * targets
    else:
        log_p = mx.maximum(mx.log(inputs), -100)
        log_q = mx.maximum(mx.log1p(-inputs), -100)
        loss = -(targets * log_p + (1 - targets) * log_q)
    loss = _weigh(loss, weights, "binary_cross_entropy")
    return _reduce(loss, reduction, "binary_cross_entropy")


def nll_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """-inputs[target] along `axis`, for inputs that are log-probabilities"""
    _check_arrays("nll_loss", inputs=inputs, targets=targets)
    _check_axis("nll_loss", index(axis), inputs)
    try:
        loss = -_at_classes(inputs, targets, axis)
    except mx.Error:
        shape, got = inputs.shape, targets.shape
        if list(got) == _without(shape, axis):
            raise
        raise mx.Error(f"[nll_loss] expected targets of the shape {shape} without axis {axis}, got {got}") from None
    return _reduce(loss, reduction, "nll_loss")


def kl_div_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """sum_k q_k (log q_k - log p_k) along `axis`, from log p (`inputs`) and log q (`targets`)"""
    _check_axis("kl_div_loss", axis, inputs, targets)
    loss = mx.sum(mx.exp(targets) * mx.subtract(targets, inputs), axis=axis)
    return _reduce(loss, reduction, "kl_div_loss")


def hinge_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """max(1 - inputs * targets, 0), for targets that are 1 or -1"""
    return _reduce(mx.maximum(1 - inputs * targets, 0), reduction, "hinge_loss")


# ------------------------------------------------------------------ regression


def l1_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """|predictions - targets|"""
    predictions, targets = _same_shape("l1_loss", predictions=predictions, targets=targets)
    return _reduce(mx.abs(predictions - targets), reduction, "l1_loss")


def mse_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """(predictions - targets)^2"""
    predictions, targets = _same_shape("mse_loss", predictions=predictions, targets=targets)
    return _reduce(mx.square(predictions - targets), reduction, "mse_loss")


def smooth_l1_loss(
    predictions: mx.array, targets: mx.array, beta: float = 1.0, reduction: Reduction = "mean"
) -> mx.array:
    """d^2 / (2 beta) where d = |predictions - targets| < beta, else d - beta / 2

    (Girshick, "Fast R-CNN", 2015). With beta = 0 it is `l1_loss`.
    """
    predictions, targets = _same_shape("smooth_l1_loss", predictions=predictions, targets=targets)
    several = getattr(beta, "ndim", 0) > 0  # each loss has its own
    if not several and beta < 0:
        raise mx.Error(f"[smooth_l1_loss] expected beta >= 0, got {beta}")
    d = mx.abs(predictions - targets)
    if several or beta != 0:
        d = mx.where(d < beta, mx.square(d) * (0.5 / beta), d - 0.5 * beta)
    return _reduce(d, reduction, "smooth_l1_loss")


def huber_loss(inputs: mx.array, targets: mx.array, delta: float = 1.0, reduction: Reduction = "none") -> mx.array:
    """d^2 / 2 where d = |inputs - targets| <= delta, else delta (d - delta / 2) (Huber, 1964)"""
    d = mx.abs(inputs - targets)
    loss = mx.where(d <= delta, 0.5 * mx.square(d), delta * (d - 0.5 * delta))
    return _reduce(loss, reduction, "huber_loss")


def log_cosh_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    """log(cosh(inputs - targets)): about d^2 / 2 for small differences, |d| - log 2 for large"""
    d = inputs - targets
    return _reduce(mx.logaddexp(d, -d) - math.log(2), reduction, "log_cosh_loss")


def gaussian_nll_loss(
    inputs: mx.array,
    targets: mx.array,
    vars: mx.array,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> mx.array:
    """(log v + (inputs - targets)^2 / v) / 2 with v = max(vars, eps), plus log(2 pi) / 2 if `full`

    The negative log-likelihood of targets whose mean and variance a network predicts (Nix &
    Weigend, 1994).
    """
    inputs, targets, vars = _same_shape("gaussian_nll_loss", inputs=inputs, targets=targets, vars=vars)
    v = mx.maximum(vars, eps)
    loss = 0.5 * (mx.log(v) + mx.square(targets - inputs) / v)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction, "gaussian_nll_loss")


# ------------------------------------------------------------------ distances and rankings


def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: int = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
    reduction: Reduction = "none",
) -> mx.array:
    """max(|anchors - positives|_p - |anchors - negatives|_p + margin, 0), norms along `axis`

    The norm is (sum |d|^p + eps)^(1/p): eps keeps its gradient finite at 0 (Schroff et al.,
    "FaceNet", 2015; Balntas et al., 2016).
    """

    _check_axis("triplet_loss", axis, anchors, positives, negatives)
    if isinstance(p, (int, float)) and p == 0:
        raise mx.Error("[triplet_loss] expected p other than 0, got 0")

    def distance(x, y):
        return mx.power(mx.sum(mx.power(mx.abs(mx.subtract(x, y)), p), axis=axis) + eps, 1 / p)

    loss = mx.maximum(distance(anchors, positives) - distance(anchors, negatives) + margin, 0)
    return _reduce(loss, reduction, "triplet_loss")


def cosine_similarity_loss(
    x1: mx.array, x2: mx.array, axis: int = 1, eps: float = 1e-8, reduction: Reduction = "none"
) -> mx.array:
    """x1 . x2 / max(|x1| |x2|, eps) along `axis`: 1 for the same direction, -1 for the opposite

    It grows with similarity, so to bring vectors together minimize its negative.
    """
    _check_arrays("cosine_similarity_loss", x1=x1, x2=x2)
    for x in (x1, x2):
        _check_axis("cosine_similarity_loss", axis, x)
    x1, x2 = mx.broadcast_arrays(x1, x2)
    lengths = mx.linalg.norm(x1, axis=axis) * mx.linalg.norm(x2, axis=axis)
    loss = mx.sum(x1 * x2, axis=axis) / mx.maximum(lengths, eps)
    return _reduce(loss, reduction, "cosine_similarity_loss")


def margin_ranking_loss(
    inputs1: mx.array,
    inputs2: mx.array,
    targets: mx.array,
    margin: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    """max(-targets * (inputs1 - inputs2) + margin, 0): target 1 wants inputs1 larger, -1 inputs2"""
    inputs1, inputs2, targets = _same_shape("margin_ranking_loss", inputs1=inputs1, inputs2=inputs2, targets=targets)
    loss = mx.maximum(margin - targets * (inputs1 - inputs2), 0)
    return _reduce(loss, reduction, "margin_ranking_loss")
