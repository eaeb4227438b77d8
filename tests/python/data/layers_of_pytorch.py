"""Writes layers_of_pytorch.npz: values and gradients of layers, computed by PyTorch in float64.

    pip install torch numpy
    python layers_of_pytorch.py

For each case there are the inputs (case/x/0, ...), the parameters by their names here (case/p/name),
the results (case/y/0, ...) and the gradients of sum_i sum(y_i * cos(0, 1, 2, ...)) (case/gx/0, ...,
case/gp/name). Arrays have the layout that they have here, channels last.
"""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

rng = np.random.default_rng(11)
arrays = {}


def leaf(*shape):
    return torch.tensor(rng.normal(size=shape).astype(np.float32)).double().requires_grad_()


def case(name, fn, inputs, parameters=None):
    """fn(*inputs, **parameters) -> a tensor or several. Dots in names are two underscores for fn."""
    parameters = parameters or {}
    y = fn(*inputs, **{k.replace(".", "__"): v for k, v in parameters.items()})
    y = y if isinstance(y, tuple) else (y,)
    loss = sum((v * torch.cos(torch.arange(v.numel(), dtype=torch.float64)).reshape(v.shape)).sum() for v in y)
    floating = [v for v in inputs if v.is_floating_point()]
    grads = iter(torch.autograd.grad(loss, floating + list(parameters.values())))
    for i, x in enumerate(inputs):
        arrays[f"{name}/x/{i}"] = x
        if x.is_floating_point():
            arrays[f"{name}/gx/{i}"] = next(grads)
    for k, v in parameters.items():
        arrays[f"{name}/p/{k}"] = v
        arrays[f"{name}/gp/{k}"] = next(grads)
    for i, v in enumerate(y):
        arrays[f"{name}/y/{i}"] = v


def first(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


# Convolutions: weights (O, ..., C / groups) here, (O, C / groups, ...) there, transposed (C, O, ...).
def conv(fn, **how):
    return lambda x, weight, bias: last(fn(first(x), first(weight), bias, **how))


def conv_transpose(fn, **how):
    return lambda x, weight, bias: last(fn(first(x), weight.movedim(-1, 0), bias, **how))


case(
    "conv1d",
    conv(F.conv1d, stride=2, padding=1, dilation=2, groups=2),
    [leaf(2, 9, 4)],
    {"weight": leaf(6, 3, 2), "bias": leaf(6)},
)
case(
    "conv2d",
    conv(F.conv2d, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2),
    [leaf(2, 7, 6, 4)],
    {"weight": leaf(6, 3, 2, 2), "bias": leaf(6)},
)
case(
    "conv3d",
    conv(F.conv3d, stride=2, padding=1),
    [leaf(1, 5, 4, 6, 2)],
    {"weight": leaf(3, 2, 3, 2, 2), "bias": leaf(3)},
)
case(
    "conv_transpose1d",
    conv_transpose(F.conv_transpose1d, stride=2, padding=1, dilation=2, output_padding=1),
    [leaf(2, 5, 4)],
    {"weight": leaf(6, 3, 4), "bias": leaf(6)},
)
case(
    "conv_transpose2d",
    conv_transpose(F.conv_transpose2d, stride=(2, 3), padding=(1, 0), output_padding=(1, 1)),
    [leaf(2, 4, 3, 4)],
    {"weight": leaf(3, 3, 2, 4), "bias": leaf(3)},
)
case(
    "conv_transpose3d",
    conv_transpose(F.conv_transpose3d, stride=2, padding=1),
    [leaf(1, 3, 2, 3, 2)],
    {"weight": leaf(3, 2, 3, 2, 2), "bias": leaf(3)},
)


# Pooling
def pool(fn, *how):
    return lambda x: last(fn(first(x), *how))


case("max_pool1d", pool(F.max_pool1d, 3, 2, 1), [leaf(2, 9, 3)])
case("max_pool2d", pool(F.max_pool2d, (3, 2), (2, 1), (1, 0)), [leaf(2, 7, 6, 3)])
case("max_pool3d", pool(F.max_pool3d, 2), [leaf(1, 4, 5, 6, 2)])
case("avg_pool1d", pool(F.avg_pool1d, 3, 2, 1), [leaf(2, 9, 3)])
case("avg_pool2d", pool(F.avg_pool2d, (3, 2), (2, 1), (1, 0)), [leaf(2, 7, 6, 3)])
case("avg_pool3d", pool(F.avg_pool3d, 2), [leaf(1, 4, 5, 6, 2)])


# Upsampling. PyTorch takes 1 / scale for a step also where the sizes are not exactly in that ratio.
def upsample(scale, mode, **how):
    return lambda x: last(F.interpolate(first(x), scale_factor=scale, mode=mode, **how))


case("upsample_nearest", upsample((2, 3), "nearest"), [leaf(1, 4, 3, 2)])
case("upsample_linear1d", upsample(2.5, "linear", align_corners=False), [leaf(1, 4, 2)])
case("upsample_linear", upsample((1.5, 2), "bilinear", align_corners=False), [leaf(1, 4, 3, 2)])
case("upsample_linear_corners", upsample((2.5, 2), "bilinear", align_corners=True), [leaf(1, 4, 3, 2)])
case("upsample_linear_smaller", upsample(0.5, "bilinear", align_corners=False, antialias=True), [leaf(1, 8, 6, 2)])
case("upsample_linear_volume", upsample(2, "trilinear", align_corners=False), [leaf(1, 2, 3, 2, 2)])
case("upsample_cubic", upsample((1.5, 2), "bicubic", align_corners=False), [leaf(1, 4, 5, 2)])
case("upsample_cubic_corners", upsample((2.5, 2), "bicubic", align_corners=True), [leaf(1, 4, 5, 2)])
case("upsample_cubic_smaller", upsample(0.25, "bicubic", align_corners=False, antialias=True), [leaf(1, 8, 12, 2)])


# Normalization
def norm(module):
    def fn(x, **parameters):
        return last(functional_call(module.double(), parameters, (first(x),)))

    return fn


affine = lambda n: {"weight": leaf(n), "bias": leaf(n)}  # noqa: E731
case("layer_norm", lambda x, weight, bias: F.layer_norm(x, (5,), weight, bias), [leaf(2, 3, 5)], affine(5))
case("rms_norm", lambda x, weight: F.rms_norm(x, (5,), weight, 1e-5), [leaf(2, 3, 5)], {"weight": leaf(5)})
case("batch_norm", norm(nn.BatchNorm2d(3, track_running_stats=False)), [leaf(2, 4, 3, 3)], affine(3))
case("group_norm", norm(nn.GroupNorm(2, 6)), [leaf(2, 4, 6)], affine(6))
case("instance_norm", norm(nn.InstanceNorm2d(3, affine=True)), [leaf(2, 4, 3, 3)], affine(3))


# Other layers with parameters
case(
    "linear",
    lambda x, weight, bias: F.linear(x, weight, bias),
    [leaf(2, 3, 4)],
    {"weight": leaf(5, 4), "bias": leaf(5)},
)
case(
    "bilinear",
    lambda a, b, weight, bias: F.bilinear(a, b, weight.transpose(1, 2), bias),
    [leaf(2, 3), leaf(2, 4)],
    {"weight": leaf(5, 4, 3), "bias": leaf(5)},
)
case(
    "embedding",
    lambda i, weight: F.embedding(i, weight),
    [torch.tensor([[1, 3, 1], [0, 4, 2]])],
    {"weight": leaf(5, 3)},
)


# Recurrent: two biases there. The state is (layers, batch, hidden).
def rnn(x, h, Wxh, Whh, bias):
    names = {"weight_ih_l0": Wxh, "weight_hh_l0": Whh, "bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    return functional_call(nn.RNN(3, 4, batch_first=True), names, (x, h[None]))[0]


def gru(x, h, Wx, Wh, b, bhn):
    bias_hh = torch.cat([torch.zeros(8, dtype=torch.float64), bhn])
    names = {"weight_ih_l0": Wx, "weight_hh_l0": Wh, "bias_ih_l0": b, "bias_hh_l0": bias_hh}
    return functional_call(nn.GRU(3, 4, batch_first=True), names, (x, h[None]))[0]


def lstm(x, h, c, Wx, Wh, bias):
    """All cells, too: PyTorch returns the last one, so it is asked step by step."""
    names = {"weight_ih_l0": Wx, "weight_hh_l0": Wh, "bias_ih_l0": bias, "bias_hh_l0": torch.zeros_like(bias)}
    module, states, cells = nn.LSTM(3, 4, batch_first=True), [], []
    for t in range(x.shape[1]):
        _, (h, c) = functional_call(module, names, (x[:, t : t + 1], (h.reshape(1, 2, 4), c.reshape(1, 2, 4))))
        states.append(h[0])
        cells.append(c[0])
    return torch.stack(states, 1), torch.stack(cells, 1)


case("rnn", rnn, [leaf(2, 5, 3), leaf(2, 4)], {"Wxh": leaf(4, 3), "Whh": leaf(4, 4), "bias": leaf(4)})
case("gru", gru, [leaf(2, 5, 3), leaf(2, 4)], {"Wx": leaf(12, 3), "Wh": leaf(12, 4), "b": leaf(12), "bhn": leaf(4)})
case("lstm", lstm, [leaf(2, 5, 3), leaf(2, 4), leaf(2, 4)], {"Wx": leaf(16, 3), "Wh": leaf(16, 4), "bias": leaf(16)})


# Attention and transformers. A mask of PyTorch's is added to the scores, as here.
PROJECTIONS = ("query", "key", "value")


def attention_names(there, here, parameters, dims, bias):
    """The parameters of an attention by PyTorch's names, from those here; without bias zeros."""
    take = lambda name, otherwise: parameters.get(f"{here}{name}", otherwise)  # noqa: E731
    zero = torch.zeros(dims, dtype=torch.float64)
    return {
        f"{there}in_proj_weight": torch.cat([parameters[f"{here}{p}_proj__weight"] for p in PROJECTIONS]),
        f"{there}in_proj_bias": torch.cat([take(f"{p}_proj__bias", zero) for p in PROJECTIONS]),
        f"{there}out_proj.weight": parameters[f"{here}out_proj__weight"],
        f"{there}out_proj.bias": take("out_proj__bias", zero),
    }


def attention_parameters(here, dims, bias=False):
    for p in (*PROJECTIONS, "out"):
        yield f"{here}{p}_proj.weight", leaf(dims, dims)
        if bias:
            yield f"{here}{p}_proj.bias", leaf(dims)


def attention(q, k, v, mask, **parameters):
    names = attention_names("", "", parameters, 6, True)
    return functional_call(nn.MultiheadAttention(6, 2, batch_first=True), names, (q, k, v), {"attn_mask": mask})[0]


case(
    "attention",
    attention,
    [leaf(2, 3, 6), leaf(2, 4, 6), leaf(2, 4, 6), leaf(3, 4)],
    dict(attention_parameters("", 6, True)),
)


def layer_parameters(here, decoder, dims=6, mlp=8):
    kinds = ("self_attention", "cross_attention") if decoder else ("attention",)
    for kind in kinds:
        yield from attention_parameters(f"{here}{kind}.", dims)
    for i in range(len(kinds) + 1):
        yield f"{here}ln{i + 1}.weight", leaf(dims)
        yield f"{here}ln{i + 1}.bias", leaf(dims)
    for name, shape in (("linear1", (mlp, dims)), ("linear2", (dims, mlp))):
        yield f"{here}{name}.weight", leaf(*shape)
        yield f"{here}{name}.bias", leaf(shape[0])


def layer_names(there, here, parameters, decoder, dims=6):
    kinds = (("self_attn", "self_attention"), ("multihead_attn", "cross_attention"))
    names = {}
    for to, from_ in kinds if decoder else (("self_attn", "attention"),):
        names |= attention_names(f"{there}{to}.", f"{here}{from_}__", parameters, dims, False)
    pairs = [("linear1", "linear1"), ("linear2", "linear2")]
    pairs += [(f"norm{i}", f"ln{i}") for i in range(1, 4 if decoder else 3)]
    for to, from_ in pairs:
        for kind in ("weight", "bias"):
            names[f"{there}{to}.{kind}"] = parameters[f"{here}{from_}__{kind}"]
    return names


def encoder_layer(norm_first, activation):
    module = nn.TransformerEncoderLayer(6, 2, 8, 0.0, activation, batch_first=True, norm_first=norm_first).double()
    return lambda x, mask, **p: functional_call(module, layer_names("", "", p, False), (x, mask))


def decoder_layer(norm_first):
    module = nn.TransformerDecoderLayer(6, 2, 8, 0.0, batch_first=True, norm_first=norm_first).double()
    return lambda x, memory, mask, memory_mask, **p: functional_call(
        module, layer_names("", "", p, True), (x, memory, mask, memory_mask)
    )


case("encoder_layer", encoder_layer(True, "relu"), [leaf(2, 3, 6), leaf(3, 3)], dict(layer_parameters("", False)))
case(
    "encoder_layer_norm_last",
    encoder_layer(False, "gelu"),
    [leaf(2, 3, 6), leaf(3, 3)],
    dict(layer_parameters("", False)),
)
case(
    "decoder_layer",
    decoder_layer(True),
    [leaf(2, 3, 6), leaf(2, 4, 6), leaf(3, 3), leaf(3, 4)],
    dict(layer_parameters("", True)),
)
case(
    "decoder_layer_norm_last",
    decoder_layer(False),
    [leaf(2, 3, 6), leaf(2, 4, 6), leaf(3, 3), leaf(3, 4)],
    dict(layer_parameters("", True)),
)


def transformer(src, tgt, src_mask, tgt_mask, memory_mask, **p):
    module = nn.Transformer(6, 2, 1, 2, 8, 0.0, batch_first=True, norm_first=True).double()
    names = layer_names("encoder.layers.0.", "encoder__layers__0__", p, False)
    for i in range(2):
        names |= layer_names(f"decoder.layers.{i}.", f"decoder__layers__{i}__", p, True)
    for side in ("encoder", "decoder"):
        for kind in ("weight", "bias"):
            names[f"{side}.norm.{kind}"] = p[f"{side}__ln__{kind}"]
    return functional_call(module, names, (src, tgt, src_mask, tgt_mask, memory_mask))


parameters = dict(layer_parameters("encoder.layers.0.", False))
for i in range(2):
    parameters |= dict(layer_parameters(f"decoder.layers.{i}.", True))
for side in ("encoder", "decoder"):
    parameters |= {f"{side}.ln.{kind}": leaf(6) for kind in ("weight", "bias")}
case("transformer", transformer, [leaf(2, 3, 6), leaf(2, 4, 6), leaf(3, 3), leaf(4, 4), leaf(4, 3)], parameters)

values = {k: v.detach().numpy() for k, v in arrays.items()}
values = {k: v.astype(np.float32) if v.dtype == np.float64 else v.astype(np.int32) for k, v in values.items()}
np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **values)
