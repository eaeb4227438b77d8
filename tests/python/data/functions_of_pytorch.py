"""Writes functions_of_pytorch.npz: values and gradients of activations and losses, computed by PyTorch in float64.

    pip install torch numpy
    python functions_of_pytorch.py

For each case there are the inputs (case/x/0, ...), the result (case/y) and the gradients of sum(y * cos(0, 1, 2,
...)) with respect to the floating inputs (case/g/0, ...). test_nn_functions.py names the functions here. What
PyTorch has no function for is composed of its operations.
"""

import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(12)
arrays = {}


def leaf(*shape):
    return torch.tensor(rng.normal(size=shape).astype(np.float32)).double().requires_grad_()


def wide(*shape):
    return (leaf(*shape).detach() * 3).float().double().requires_grad_()


def positive(*shape):
    return (leaf(*shape).detach().abs() + 0.1).float().double().requires_grad_()


def signs(*shape):
    return torch.tensor(rng.choice([-1.0, 1.0], shape))


def case(name, fn, *inputs):
    y = fn(*inputs)
    loss = (y * torch.cos(torch.arange(y.numel(), dtype=torch.float64)).reshape(y.shape)).sum()
    leaves = {i: x for i, x in enumerate(inputs) if x.requires_grad}
    grads = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True) if loss.requires_grad else ()
    arrays[f"{name}/y"] = y
    arrays.update({f"{name}/x/{i}": x for i, x in enumerate(inputs)})
    arrays.update({f"{name}/g/{i}": g for i, g in zip(leaves, grads) if g is not None})


ACTIVATIONS = {
    "celu": lambda x: F.celu(x, 0.7),
    "elu": lambda x: F.elu(x, 0.7),
    "gelu": F.gelu,
    "gelu_approx": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_fast_approx": lambda x: x * torch.sigmoid(1.702 * x),
    "glu": F.glu,
    "hard_shrink": F.hardshrink,
    "hard_tanh": F.hardtanh,
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "log_sigmoid": F.logsigmoid,
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "mish": F.mish,
    "relu": F.relu,
    "relu2": lambda x: F.relu(x) ** 2,
    "relu6": lambda x: F.relu6(x),
    "selu": F.selu,
    "sigmoid": F.sigmoid,
    "silu": F.silu,
    "softmax": lambda x: F.softmax(x, -1),
    "softmin": lambda x: F.softmin(x, -1),
    "softplus": F.softplus,
    "softshrink": F.softshrink,
    "softsign": F.softsign,
    "step": lambda x: torch.heaviside(x.detach() - 0.3, torch.zeros((), dtype=torch.float64)),
    "tanh": F.tanh,
}
for name, fn in ACTIVATIONS.items():
    case(name, fn, wide(4, 6))
case("prelu", F.prelu, leaf(3, 4), leaf(4))


def triplet(a, p, n):
    far = lambda x, y: (((x - y).abs() ** 2).sum(-1) + 1e-6).sqrt()  # noqa: E731
    return F.relu(far(a, p) - far(a, n) + 1)


bits = torch.tensor(rng.integers(0, 2, (3, 4)).astype(float))
shares = torch.softmax(leaf(3, 4).detach(), -1).float().double()
classes = torch.tensor([1, 3, 0])
none = {"reduction": "none"}
case("bce_of_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, t, **none), leaf(3, 4), bits)
case(
    "bce",
    lambda x, t: F.binary_cross_entropy(x, t, **none),
    torch.tensor(rng.uniform(0.1, 0.9, (3, 4)).astype(np.float32)).double().requires_grad_(),
    bits,
)
case(
    "bce_weighted",
    lambda x, t, w: F.binary_cross_entropy_with_logits(x, t, w, **none),
    leaf(3, 4),
    bits,
    positive(3, 4).detach(),
)
case("cosine", lambda a, b: F.cosine_similarity(a, b, 1), leaf(3, 4), leaf(3, 4))
case("cross_entropy", lambda x, t: F.cross_entropy(x, t, **none), leaf(3, 4), classes)
case("cross_entropy_of_shares", lambda x, t: F.cross_entropy(x, t, **none), leaf(3, 4), shares)
case("cross_entropy_smooth", lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1, **none), leaf(3, 4), classes)
case("cross_entropy_mean", lambda x, t: F.cross_entropy(x, t), leaf(3, 4), classes)
case("cross_entropy_sum", lambda x, t: F.cross_entropy(x, t, reduction="sum"), leaf(3, 4), classes)
case("gaussian_nll", lambda x, t, v: F.gaussian_nll_loss(x, t, v, **none), leaf(3, 4), leaf(3, 4), positive(3, 4))
case(
    "gaussian_nll_full", lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True), leaf(3, 4), leaf(3, 4), positive(3, 4)
)
case("hinge", lambda x, t: F.relu(1 - x * t), leaf(3, 4), signs(3, 4))
case("huber", lambda x, t: F.huber_loss(x, t, delta=0.6, **none), leaf(3, 4), leaf(3, 4))
case("kl_div", lambda x, t: F.kl_div(x, t, log_target=True, **none).sum(-1), leaf(3, 4), leaf(3, 4))
case("l1", lambda x, t: F.l1_loss(x, t), leaf(3, 4), leaf(3, 4))
case("log_cosh", lambda x, t: torch.log(torch.cosh(x - t)), leaf(3, 4), leaf(3, 4))
case("margin_ranking", lambda a, b, t: F.margin_ranking_loss(a, b, t, 0.4, **none), leaf(9), leaf(9), signs(9))
case("mse", lambda x, t: F.mse_loss(x, t), leaf(3, 4), leaf(3, 4))
case("nll", lambda x, t: F.nll_loss(x, t, **none), leaf(3, 4), classes)
case("smooth_l1", lambda x, t: F.smooth_l1_loss(x, t, beta=0.6), leaf(3, 4), leaf(3, 4))
case("triplet", triplet, leaf(3, 4), leaf(3, 4), leaf(3, 4))


def statistics(x):
    """Running mean and variance after two batches, and what the layer makes of the first then, evaluated."""
    layer = torch.nn.BatchNorm1d(4, momentum=0.3).double()
    layer(x), layer(2 * x + 1)
    return torch.cat([layer.running_mean[None], layer.running_var[None], layer.eval()(x)])


def rotary(x):
    """Su et al.'s rotation of halves, of position 2 on: neighbours (j, j + 4) by angles t 10000^(-j/4)."""
    angles = torch.arange(2, 5).double()[:, None] * 10000.0 ** (-torch.arange(4).double() / 4)
    turned = torch.view_as_complex(torch.stack([x[..., :4], x[..., 4:]], -1)) * torch.polar(
        torch.ones_like(angles), angles
    )
    return torch.cat([turned.real, turned.imag], -1)


def sinusoidal(x):
    """sin and cos of x times 1, ..., 10^-4, in equal steps of the logarithm, scaled by sqrt(2 / 8)."""
    angles = x[..., None] * torch.exp(torch.linspace(0, -math.log(10000), 4).double())
    return torch.cat([torch.sin(angles), torch.cos(angles)], -1) * math.sqrt(2 / 8)


def alibi(scores):
    """Press et al.: what lies d positions back loses 2^(-8 h / heads) d, h = 1, ..., heads."""
    slopes = 2.0 ** (-8 * torch.arange(1, 5).double() / 4)
    distance = (torch.arange(2, 5)[:, None] - torch.arange(5)).abs().double()
    return scores - slopes[:, None, None] * distance


case("batch_norm_statistics", statistics, leaf(6, 4))
case("rope", rotary, leaf(2, 3, 8))
case("sinusoidal", sinusoidal, leaf(3))
case("alibi", alibi, leaf(1, 4, 3, 5))

values = {k: v.detach().numpy() for k, v in arrays.items()}
values = {k: v.astype(np.float32) if v.dtype == np.float64 else v.astype(np.int32) for k, v in values.items()}
np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **values)
