"""Activations, losses and positional encodings against PyTorch: values, and gradients with respect to the inputs,
which data/functions_of_pytorch.py wrote down."""

import functools
import pathlib

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.nn import losses


@functools.cache
def frozen():
    with np.load(pathlib.Path(__file__).parent / "data" / "functions_of_pytorch.npz") as file:
        return dict(file)


def statistics(x):
    layer = nn.BatchNorm(4, momentum=0.3)
    layer(x), layer(2 * x + 1)
    return mx.concatenate([layer.running_mean[None], layer.running_var[None], layer.eval()(x)])


FUNCTIONS = {
    "celu": lambda x: nn.celu(x, 0.7),
    "elu": lambda x: nn.elu(x, 0.7),
    "leaky_relu": lambda x: nn.leaky_relu(x, 0.2),
    "step": lambda x: nn.step(x, 0.3),
    "prelu": nn.prelu,
    "bce_of_logits": lambda x, t: losses.binary_cross_entropy(x, t, reduction="none"),
    "bce": lambda x, t: losses.binary_cross_entropy(x, t, with_logits=False, reduction="none"),
    "bce_weighted": lambda x, t, w: losses.binary_cross_entropy(x, t, w, reduction="none"),
    "cosine": losses.cosine_similarity_loss,
    "cross_entropy": losses.cross_entropy,
    "cross_entropy_of_shares": losses.cross_entropy,
    "cross_entropy_smooth": lambda x, t: losses.cross_entropy(x, t, label_smoothing=0.1),
    "cross_entropy_mean": lambda x, t: losses.cross_entropy(x, t, reduction="mean"),
    "cross_entropy_sum": lambda x, t: losses.cross_entropy(x, t, reduction="sum"),
    "gaussian_nll": lambda x, t, v: losses.gaussian_nll_loss(x, t, v, reduction="none"),
    "gaussian_nll_full": lambda x, t, v: losses.gaussian_nll_loss(x, t, v, full=True),
    "hinge": losses.hinge_loss,
    "huber": lambda x, t: losses.huber_loss(x, t, delta=0.6),
    "kl_div": losses.kl_div_loss,
    "l1": losses.l1_loss,
    "log_cosh": losses.log_cosh_loss,
    "margin_ranking": lambda a, b, t: losses.margin_ranking_loss(a, b, t, margin=0.4),
    "mse": losses.mse_loss,
    "nll": losses.nll_loss,
    "smooth_l1": lambda x, t: losses.smooth_l1_loss(x, t, beta=0.6, reduction="mean"),
    "triplet": losses.triplet_loss,
    "batch_norm_statistics": statistics,
    "rope": lambda x: nn.RoPE(8)(x, offset=2),
    "sinusoidal": nn.SinusoidalPositionalEncoding(8),
    "alibi": lambda x: nn.ALiBi()(x, offset=2),
}
PLAIN = """gelu gelu_approx gelu_fast_approx glu hard_shrink hard_tanh hardswish log_sigmoid log_softmax mish relu
relu2 relu6 selu sigmoid silu softmax softmin softplus softshrink softsign tanh"""
FUNCTIONS |= {name: getattr(nn, name) for name in PLAIN.split()}


def inputs(name):
    return [mx.array(v) for k, v in frozen().items() if k.startswith(f"{name}/x/")]


def close(got, want, what):
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5, err_msg=what)


def test_all_cases_are_here():
    assert {key.split("/")[0] for key in frozen()} == set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values(name):
    close(FUNCTIONS[name](*inputs(name)), frozen()[f"{name}/y"], name)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "batch_norm_statistics"])
@pytest.mark.parametrize("how", [lambda f: f, mx.compile], ids=["eager", "compiled"])
def test_gradients(name, how):
    def fn(*inputs):
        y = FUNCTIONS[name](*inputs)
        return (y * mx.cos(mx.arange(y.size)).reshape(y.shape)).sum()

    wanted = {int(k.rsplit("/", 1)[1]): v for k, v in frozen().items() if k.startswith(f"{name}/g/")}
    got = how(mx.grad(fn, argnums=sorted(wanted) or [0]))(*inputs(name))
    for (i, want), g in zip(sorted(wanted.items()), got if len(wanted) > 1 else [got]):
        close(g, want, f"input {i}")
    assert wanted or name == "step"
