"""What `mlx.nn`, `mlx.optimizers` and `mlx.utils` do, as a table of lines of text and a file of arrays, with
the `mlx` package of whoever runs this: test_nn_there.py compares two.

    python nn_there.py FOLDER
"""

import json
import pathlib
import sys

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten, tree_map, tree_map_with_path, tree_merge, tree_reduce, tree_unflatten  # noqa: F401


def words(text):
    return text.split()


# An expression for a layer, and the shapes of its inputs: a tuple, or an expression as text.
LAYERS = [
    ("Linear(3, 4)", [(2, 3)]),
    ("Linear(3, 4, bias=False)", [(3,)]),
    ("Linear(3, 4).freeze(keys='bias')", [(2, 3)]),
    ("Bilinear(3, 4, 5)", [(2, 3), (2, 4)]),
    ("Bilinear(3, 4, 5, bias=False)", [(2, 3), (2, 4)]),
    ("Identity(3)", [(2, 3)]),
    ("Embedding(5, 4)", ["mx.array([[1, 4], [0, 1]])"]),
    ("Sequential(nn.Linear(3, 4), nn.ReLU(), nn.gelu, nn.Sequential(nn.Linear(4, 5, bias=False)))", [(2, 3)]),
    ("Conv1d(4, 6, 3)", [(2, 7, 4)]),
    ("Conv1d(4, 6, 3, 2, 1, 2, 2, False)", [(2, 9, 4)]),
    ("Conv2d(4, 6, (3, 5))", [(2, 6, 7, 4)]),
    ("Conv2d(4, 6, 3, 2, 1, (1, 2), 2, False)", [(2, 9, 8, 4)]),
    ("Conv3d(4, 6, (1, 2, 3))", [(1, 3, 4, 5, 4)]),
    ("Conv3d(4, 6, 2, 1, 1, 1, False)", [(1, 3, 4, 5, 4)]),
    ("ConvTranspose1d(4, 6, 3)", [(2, 5, 4)]),
    ("ConvTranspose1d(4, 6, 3, 2, 1, 1, 1, False)", [(2, 5, 4)]),
    ("ConvTranspose2d(4, 6, (3, 5))", [(1, 4, 3, 4)]),
    ("ConvTranspose2d(4, 6, 3, 2, 1, 1, (1, 0), False)", [(1, 4, 3, 4)]),
    ("ConvTranspose3d(4, 6, (1, 2, 3))", [(1, 3, 2, 3, 4)]),
    ("ConvTranspose3d(4, 6, 2, 2, 1, 1, 1, False)", [(1, 3, 2, 3, 4)]),
    *((f"{kind}Pool1d({how})", [(2, 9, 3)]) for kind in ("Max", "Avg") for how in ("2", "3, 2, 1", "3, stride=1")),
    *((f"{kind}Pool2d({how})", [(2, 7, 6, 3)]) for kind in ("Max", "Avg") for how in ("2", "(3, 2), (2, 1), (1, 0)")),
    *((f"{kind}Pool3d({how})", [(1, 5, 6, 4, 2)]) for kind in ("Max", "Avg") for how in ("2", "2, padding=1")),
    ("BatchNorm(4)", [(5, 4)]),
    ("BatchNorm(4).eval()", [(2, 3, 4)]),
    ("BatchNorm(4, affine=False, eps=0.1, momentum=0.5)", [(2, 3, 3, 4)]),
    ("BatchNorm(4, track_running_stats=False)", [(5, 4)]),
    ("GroupNorm(2, 4)", [(2, 3, 4)]),
    ("GroupNorm(2, 4, affine=False, pytorch_compatible=True)", [(2, 3, 4)]),
    ("InstanceNorm(4)", [(2, 5, 4)]),
    ("InstanceNorm(4, eps=0.1, affine=True)", [(2, 5, 3, 4)]),
    ("LayerNorm(4)", [(2, 4)]),
    ("LayerNorm(4, affine=False)", [(2, 4)]),
    ("LayerNorm(4, eps=0.1, bias=False)", [(2, 4)]),
    ("RMSNorm(4)", [(2, 4)]),
    ("RMSNorm(4, eps=0.1)", [(2, 4)]),
    ("Dropout(0.3)", [(4, 5)]),
    ("Dropout(0.3).eval()", [(4, 5)]),
    ("Dropout(0.0)", [(4, 5)]),
    ("Dropout2d(0.3)", [(3, 2, 2, 6)]),
    ("Dropout3d(0.3)", [(2, 2, 2, 2, 6)]),
    ("RNN(3, 4)", [(2, 5, 3)]),
    ("RNN(3, 4, bias=False, nonlinearity=nn.relu)", [(2, 5, 3), (2, 4)]),
    ("GRU(3, 4)", [(2, 5, 3)]),
    ("GRU(3, 4, bias=False)", [(5, 3)]),
    ("GRU(3, 4, True)", [(2, 5, 3), (2, 4)]),
    ("LSTM(3, 4)", [(2, 5, 3)]),
    ("LSTM(3, 4, bias=False)", [(2, 5, 3), (2, 4), (2, 4)]),
    ("RoPE(8)", [(2, 3, 8)]),
    ("RoPE(4, traditional=True, base=100, scale=0.5)", [(2, 3, 8), "3"]),
    ("ALiBi()", [(1, 4, 3, 7), "2"]),
    ("SinusoidalPositionalEncoding(8)", [(3, 4)]),
    ("SinusoidalPositionalEncoding(8, 0.01, 3.0, None, True, True)", [(3, 4)]),
    ("MultiHeadAttention(8, 2)", [(2, 3, 8), (2, 4, 8), (2, 4, 8), "'causal'"]),
    ("MultiHeadAttention(8, 2, 3, 4, 5, 6, 7, bias=True)", [(2, 3, 3), (2, 4, 4), (2, 4, 5), (3, 4)]),
    ("TransformerEncoderLayer(8, 2)", [(2, 3, 8), (3, 3)]),
    ("TransformerEncoderLayer(8, 2, 12, 0.0, nn.gelu, norm_first=False)", [(2, 3, 8), "None"]),
    ("TransformerDecoderLayer(8, 2)", [(2, 3, 8), (2, 4, 8), (3, 3), (3, 4)]),
    ("TransformerEncoder(2, 8, 2)", [(2, 3, 8), "None"]),
    ("TransformerEncoder(2, 8, 2, checkpoint=True)", [(2, 3, 8), "None"]),
    ("TransformerDecoder(2, 8, 2, 12, norm_first=False)", [(2, 3, 8), (2, 4, 8), "None", "None"]),
    ("Transformer(8, 2, 1, 2)", [(2, 3, 8), (2, 4, 8), "None", "None", "None"]),
    ("Upsample(2)", [(1, 3, 4, 2)]),
    ("Upsample((2.5, 1.5), 'linear', align_corners=True)", [(1, 3, 4, 2)]),
    ("Upsample(1.5, mode='cubic')", [(1, 4, 5, 2)]),
    ("Upsample(0.5, mode='linear', antialias=True)", [(1, 8, 6, 2)]),
    ("QuantizedLinear(64, 8)", [(2, 64)]),
    ("QuantizedLinear(64, 8, bias=False, group_size=32, bits=8)", [(2, 64)]),
    ("QuantizedLinear(64, 8, mode='mxfp4')", [(2, 64)]),
    ("QuantizedLinear(64, 8).unfreeze()", [(2, 64)]),
    ("QuantizedEmbedding(5, 64)", ["mx.array([1, 4])"]),
    ("QuantizedEmbedding(5, 64, bits=2)", ["mx.array([[1, 4]])"]),
    ("QuantizedEmbedding(5, 64, mode='mxfp8')", ["mx.array([[1, 4]])"]),
    ("QQLinear(64, 8)", [(2, 64)]),
    ("QQLinear(64, 8).eval()", [(2, 64)]),
    ("Linear(64, 8).to_quantized()", [(2, 64)]),
    ("Linear(64, 8, bias=False).to_quantized(32, 8)", [(2, 64)]),
    ("Linear(64, 8).to_quantized(mode='nvfp4')", [(2, 64)]),
    ("Linear(64, 8).freeze().to_quantized()", [(2, 64)]),
    ("Linear(64, 8, bias=False).to_quantized(mode='mxfp8', quantize_input=True)", [(2, 64)]),
    ("Linear(64, 8).to_quantized(mode='mxfp8', quantize_input=True)", [(2, 64)]),
    ("QuantizedLinear.from_linear(nn.Linear(64, 8), 32)", [(2, 64)]),
    ("Embedding(5, 64).to_quantized(32, 4)", ["mx.array([1, 4])"]),
    ("Embedding(5, 64).to_quantized(mode='mxfp4')", ["mx.array([1, 4])"]),
    ("Embedding(5, 64).to_quantized(quantize_input=True)", ["mx.array([1, 4])"]),
    ("AllToShardedLinear(4, 6)", [(2, 4)]),
    ("AllToShardedLinear(4, 6, bias=False)", [(2, 4)]),
    ("ShardedToAllLinear(4, 6)", [(2, 4)]),
    ("AllToShardedLinear.from_linear(nn.Linear(4, 6))", [(2, 4)]),
    ("ShardedToAllLinear.from_linear(nn.Linear(4, 6))", [(2, 4)]),
    ("QuantizedAllToShardedLinear(64, 8)", [(2, 64)]),
    ("QuantizedAllToShardedLinear(64, 8, bias=False)", [(2, 64)]),
    ("QuantizedShardedToAllLinear(64, 8, mode='mxfp4', group_size=32)", [(2, 64)]),
    ("QuantizedAllToShardedLinear.from_quantized_linear(nn.Linear(64, 8).to_quantized())", [(2, 64)]),
    ("QuantizedShardedToAllLinear.from_quantized_linear(nn.Linear(64, 8).to_quantized())", [(2, 64)]),
    ("FullyShardedModule(nn.Linear(3, 4))", [(2, 3)]),
    ("fully_shard(nn.Linear(3, 4))", [(2, 3)]),
    *(
        (f"{name}()", [(3, 4)])
        for name in words("""CELU ELU GELU GLU HardShrink HardTanh Hardswish LeakyReLU LogSigmoid
    LogSoftmax Mish PReLU ReLU ReLU2 ReLU6 SELU SiLU Sigmoid Softmax Softmin Softplus Softshrink Softsign Step
    Tanh""")
    ),
    *((text, [(3, 4)]) for text in ("CELU(0.5)", "ELU(0.5)", "GELU('precise')", "GELU('fast')", "GLU(0)", "Step(0.5)")),
    *((text, [(3, 4)]) for text in ("HardShrink(0.3)", "Softshrink(0.3)", "LeakyReLU(0.2)", "PReLU(4, 0.1)")),
]

# Expressions of a number, a text, an array or a tree of them; what they raise is the name of the class.
EXPRESSIONS = """
nn.Linear(2, 3).load_weights([("weight", mx.ones((3, 2)))])
nn.Linear(2, 3).load_weights([("weight", mx.ones((3, 2)))], strict=False).parameters()
nn.Linear(2, 3).load_weights([("weight", mx.ones((2, 2))), ("bias", mx.ones(3))])
nn.Linear(2, 3).load_weights([("weight", mx.ones((2, 2)))], strict=False).weight
nn.Linear(2, 3).load_weights([("weight", 1), ("bias", mx.ones(3))])
nn.Linear(2, 3).load_weights([("other", mx.ones(3))], strict=False).parameters()
nn.Linear(2, 3).load_weights([("weight", mx.ones((3, 2))), ("bias", mx.ones(3)), ("other", mx.ones(3))])
nn.Linear(2, 3).load_weights([("weight", mx.ones((3, 2), mx.float16)), ("bias", mx.ones(3))]).parameters()
nn.Sequential(nn.ReLU(), nn.Linear(2, 3)).freeze(keys="bias", strict=True).trainable_parameters()
nn.Sequential(nn.ReLU(), nn.Linear(2, 3)).freeze(keys="bias", strict=True, recurse=False)
nn.Linear(2, 3).load_weights("nowhere.safetensors")
nn.Linear(2, 3).load_weights("nowhere.txt")
nn.Linear(2, 3).save_weights("nowhere.txt")
nn.Linear(2, 3).update({"weight": mx.ones((1, 1))}).parameters()
nn.Linear(2, 3).update({"other": mx.ones((1, 1))})
nn.Linear(2, 3).update({"other": mx.ones((1, 1))}, strict=False).parameters()
nn.Linear(2, 3).update({"weight": 3})
nn.Linear(2, 3).update({"weight": 3}, strict=False).parameters()
nn.Linear(2, 3).update({"weight": {"a": mx.ones(1)}})
nn.Linear(2, 3).update([])
nn.Linear(2, 3).update({}).parameters()
model().update({"layers": [mx.ones(1)]})
model().update({"layers": [{}, {}, {"bias": mx.ones(4)}]}).layers[2].bias
model().update({"layers": [{}, {}, {}, {}, {"bias": mx.ones(4)}]})
model().update_modules({"layers": [nn.ReLU()]})
model().update_modules({"layers": [{}, {}, nn.ReLU()]})
model().update_modules({"layers": [{}, {}, {}, {}, nn.ReLU()]})
model().update_modules({"other": nn.ReLU()})
model().update_modules({"other": nn.ReLU()}, strict=False)
nn.Linear(2, 3).update_modules({"weight": nn.ReLU()})
repr(model())
[name for name, _ in model().named_modules()]
[type(m).__name__ for m in model().modules()]
model().children()
model().leaf_modules()
model().freeze().trainable_parameters()
model().freeze().unfreeze(keys="bias").trainable_parameters()
model().freeze().unfreeze(keys=["bias", "weight"]).trainable_parameters()
model().freeze(keys="weight").trainable_parameters()
model().freeze(recurse=False).trainable_parameters()
model().freeze(keys="none").trainable_parameters()
model().freeze(keys="none", strict=True)
model().freeze(keys="weight", strict=True)
model().unfreeze(keys="none", strict=True)
nn.Linear(2, 3).freeze(keys="bias").unfreeze().trainable_parameters()
nn.Linear(2, 3).freeze(keys=["bias", "weight"]).trainable_parameters()
nn.BatchNorm(4).unfreeze().trainable_parameters()
nn.BatchNorm(4).freeze().unfreeze(keys="bias").trainable_parameters()
nn.Sequential(nn.BatchNorm(4)).freeze().unfreeze().trainable_parameters()
nn.Sequential(nn.QuantizedLinear(64, 8)).unfreeze().trainable_parameters()
nn.Sequential(nn.QuantizedEmbedding(4, 64)).unfreeze().trainable_parameters()
nn.Sequential(nn.QuantizedLinear(64, 8)).unfreeze(keys="bias").trainable_parameters()
nn.Sequential(nn.QuantizedLinear(64, 8)).freeze().unfreeze(keys=["bias", "scales"]).trainable_parameters()
nn.Sequential(nn.QuantizedAllToShardedLinear(64, 8)).unfreeze().trainable_parameters()
nn.Sequential(nn.QQLinear(64, 8).eval()).unfreeze().trainable_parameters()
nn.Sequential(nn.QQLinear(64, 8)).eval().train().parameters()
nn.QQLinear(64, 8).freeze().eval().trainable_parameters()
quantized(model()).trainable_parameters()
quantized(model())
quantized(nn.Sequential(nn.Linear(64, 8, bias=False)), mode="mxfp8", quantize_input=True)
quantized(nn.Sequential(nn.Linear(64, 8)), mode="mxfp8", quantize_input=True)
quantized(nn.Sequential(nn.Linear(64, 8)), quantize_input=True)
quantized(nn.Sequential(nn.Linear(60, 8)))
quantized(nn.Linear(64, 8))
quantized(nn.Sequential(nn.Linear(64, 8), nn.Embedding(4, 64)), class_predicate=lambda p, m: isinstance(m, nn.Linear))
quantized(nn.Sequential(nn.Linear(64, 8), nn.ReLU()), class_predicate=lambda p, m: True)
quantized(nn.Sequential(nn.Linear(64, 8)), class_predicate=lambda p, m: {"bits": 8, "group_size": 32})
quantized(nn.Sequential(nn.Linear(64, 8)), class_predicate=lambda p, m: 3)
model().train(False).training, [m.training for m in model().eval().modules()]
model().set_dtype(mx.float16)
typed(mx.float16).parameters()
typed(mx.bfloat16, lambda t: t == mx.float16).parameters()
typed(mx.float16, None).parameters()
nn.Linear(2, 3).apply(lambda p: p.astype(mx.bfloat16)).parameters()
nn.Linear(2, 3).apply(lambda p: p * 0, lambda m, k, v: k == "bias").bias
nn.Linear(2, 3).filter_and_map(lambda m, k, v: k == "bias")
nn.Linear(2, 3).filter_and_map(nn.Module.valid_parameter_filter, lambda a: a.shape)
nn.Linear(2, 3).state
nn.Linear(2, 3).missing
nn.Sequential()
nn.Sequential(nn.Linear(2, 3), 3)
nn.Module()
nn.Linear(0, 3).weight
nn.Linear(2, 3)(mx.ones((4,)))
nn.GroupNorm(3, 4)
nn.BatchNorm(4)(mx.ones((4,)))
nn.BatchNorm(4)(mx.ones((1, 2, 2, 2, 4)))
nn.Dropout(1.0)
nn.Dropout(-0.5)
nn.Conv2d(3, 4, 3, groups=2)
nn.MultiHeadAttention(8, 3)
nn.MultiHeadAttention.create_additive_causal_mask(3)
nn.MultiHeadAttention.create_additive_causal_mask(3, mx.float16)
nn.Upsample(2, mode="other")
nn.GELU("other")
nn.QuantizedLinear(60, 8)
nn.QuantizedLinear(64, 8, mode="other")
nn.QQLinear(64, 8, mode="affine")
nn.Linear(64, 8).to_quantized(mode="other")
nn.RNN(3, 4, nonlinearity=3)
nn.RoPE(8)(mx.ones((2, 3)))
nn.value_and_grad(nn.Linear(2, 3), lambda x: x.sum())(mx.ones(2))
nn.value_and_grad(nn.Linear(2, 3).freeze(), lambda x: x.sum())(mx.ones(2))
nn.average_gradients({"a": mx.ones(3)})
optim.SGD(0.1, nesterov=True)
optim.SGD(0.1, momentum=0.9, nesterov=True, dampening=0.1)
optim.RMSprop(0.1, alpha=-1.0)
optim.Adagrad(0.1, eps=-1)
optim.AdaDelta(0.1, rho=-1)
optim.Adamax(0.1, eps=-1)
optim.Adafactor(relative_step=False)
optim.MultiOptimizer([optim.SGD(0.1)], [lambda n, g: True])
optim.clip_grad_norm({"a": mx.ones(4), "b": [mx.full((2,), 2.0)]}, 1.0)
optim.clip_grad_norm({"a": mx.ones(4)}, 10.0)
[float(optim.exponential_decay(0.1, 0.9)(mx.array(i))) for i in range(5)]
[float(optim.step_decay(0.1, 0.9, 3)(mx.array(i))) for i in range(10)]
[float(optim.cosine_decay(0.1, 5)(mx.array(i))) for i in range(8)]
[float(optim.cosine_decay(0.1, 5, 0.02)(mx.array(i))) for i in range(8)]
[float(optim.linear_schedule(0.0, 0.1, 4)(mx.array(i))) for i in range(8)]
[float(joined()(mx.array(i))) for i in range(10)]
optim.join_schedules([], [])
optim.join_schedules([optim.step_decay(1, 1, 1)], [1])
optim.linear_schedule(0, 1, 0)
tree_flatten(TREE)
tree_flatten(TREE, prefix="p")
tree_flatten(TREE, is_leaf=lambda t: isinstance(t, list))
tree_flatten(TREE, destination={})
tree_flatten(TREE, destination=[])
tree_flatten(3), tree_flatten([]), tree_flatten({}), tree_flatten({"a": {}, "b": []})
tree_unflatten(tree_flatten(TREE))
tree_unflatten([("0", 1), ("1", 2)]), tree_unflatten([("", 3)]), tree_unflatten({"a.b": 1, "a.c": 2})
tree_unflatten([("1", 1), ("0", 2)]), tree_unflatten([("0", 1), ("2", 2)])
tree_unflatten([])
tree_unflatten([("a.0", 1), ("a.b", 2)])
tree_map(lambda x: x + 1, {"a": [1, (2, 3)], "b": {"c": 4}})
tree_map(lambda x, y: x + y, {"a": [1, 2]}, {"a": [3, 4]})
tree_map(lambda x, y: x + y, {"a": [1, 2]}, {"a": [3, 4], "b": 1})
tree_map(lambda x, y: x + y, {"a": [1, 2]}, {"a": [3]})
tree_map(lambda x: x, {"a": None})
tree_map_with_path(lambda p, x: p + str(x), {"a": [1, (2, 3)], "b": {"c": 4}})
tree_map_with_path(lambda p, x: p + str(x), {"a": [1]}, prefix="root")
tree_map_with_path(lambda p, x, y: p + str(x + y), {"a": [1]}, {"a": [5]})
tree_reduce(lambda a, x: a + x, {"a": [1, (2, 3)], "b": {"c": 4}}, 10)
tree_reduce(lambda a, x: a + x, {"a": [1, (2, 3)]})
tree_reduce(lambda a, x: a + x, [], 3), tree_reduce(lambda a, x: a + x, [])
tree_merge({"a": 1}, {"b": 2}), tree_merge({"a": {"x": 1}}, {"a": {"y": 2}})
tree_merge({"a": 1}, {"a": 2})
tree_merge({"a": 1}, {"a": 2}, lambda x, y: x + y)
tree_merge({"a": [1]}, {"a": [{}, 2]})
tree_merge({"a": [None, 1]}, {"a": [2, None]})
tree_merge([1], {"a": 1})
""".strip().split("\n")

LOSSES = {
    "binary_cross_entropy": ["X, B", "mx.sigmoid(X), B, with_logits=False", "X, B, weights=mx.abs(Y)"],
    "cosine_similarity_loss": ["X, Y", "X, Y, axis=0", "X, Y, eps=0.5"],
    "cross_entropy": [
        "X, I",
        "X, mx.softmax(Y, -1)",
        "X, I, label_smoothing=0.1",
        "X, I, weights=W",
        "X.T, I4, axis=0",
    ],
    "gaussian_nll_loss": ["X, Y, mx.abs(Z)", "X, Y, mx.abs(Z), full=True", "X, Y, mx.abs(Z), eps=0.5"],
    "hinge_loss": ["X, mx.sign(Y)"],
    "huber_loss": ["X, Y", "X, Y, delta=0.3"],
    "kl_div_loss": ["nn.log_softmax(X), nn.log_softmax(Y)", "nn.log_softmax(X), nn.log_softmax(Y), axis=0"],
    "l1_loss": ["X, Y"],
    "log_cosh_loss": ["X, Y"],
    "margin_ranking_loss": ["X, Y, mx.sign(Z)", "X, Y, mx.sign(Z), margin=0.4"],
    "mse_loss": ["X, Y", "X, Y[0]"],
    "nll_loss": ["nn.log_softmax(X), I", "nn.log_softmax(X).T, I4, axis=0"],
    "smooth_l1_loss": ["X, Y", "X, Y, beta=0.4"],
    "triplet_loss": ["X, Y, Z", "X, Y, Z, axis=0, p=3, margin=0.5, eps=0.1"],
}

ACTIVATIONS = words("""celu elu gelu gelu_approx gelu_fast_approx glu hard_shrink hard_tanh hardswish leaky_relu
log_sigmoid log_softmax mish relu relu2 relu6 selu sigmoid silu softmax softmin softplus softshrink softsign
step tanh""")

INITS = words("""constant(2.0) normal() normal(1.0,0.5) uniform() uniform(-2.0,3.0) identity() glorot_normal()
glorot_uniform() he_normal() he_uniform() sparse(0.5) sparse(0.3,0.1,0.2) orthogonal() orthogonal(2.0)""")

OPTIMIZERS = """
SGD(0.1)
SGD(0.1, 0.9, 0.01, 0.1)
SGD(optim.cosine_decay(0.1, 3), 0.9, 0.01, nesterov=True)
RMSprop(0.1)
RMSprop(0.1, 0.8, 0.1)
Adagrad(0.1)
AdaDelta(0.1)
Adam(0.1)
Adam(0.1, bias_correction=True)
AdamW(optim.cosine_decay(0.1, 3), weight_decay=0.1)
AdamW(0.1, bias_correction=True)
Adamax(0.1)
Lion(0.1, weight_decay=0.1)
Adafactor()
Adafactor(0.1)
Adafactor(0.1, relative_step=False, beta_1=0.9, weight_decay=0.1, scale_parameter=False)
Adafactor(warmup_init=True, beta_1=0.5, clip_threshold=0.5)
Muon(0.1)
Muon(0.1, nesterov=False, weight_decay=0.0, ns_steps=3)
MultiOptimizer([optim.Muon(0.1), optim.AdamW(optim.step_decay(0.1, 0.5, 2))], [lambda n, g: g.ndim >= 2])
""".strip().split("\n")


def model():
    """One of several kinds."""
    parts = nn.Linear(64, 8), nn.BatchNorm(8), nn.Linear(8, 4), nn.Dropout(0.1)
    built = nn.Sequential(*parts)
    built.scale, built.named = mx.ones(3), {"a": nn.Embedding(4, 64), "b": [mx.zeros(2), nn.LayerNorm(4)]}
    built._private, built.number = mx.ones(1), 3
    return built


def quantized(built, **how):
    how.setdefault("class_predicate", lambda path, m: hasattr(m, "to_quantized") and m.weight.shape[-1] % 64 == 0)
    nn.quantize(built, **how)
    return built


def typed(*how):
    built = nn.Linear(2, 3)
    built.extra, built.half = mx.ones(2, mx.int32), mx.ones(2, mx.float16)
    built.set_dtype(*how)
    return built


def joined():
    return optim.join_schedules([optim.linear_schedule(0, 0.1, 3), optim.cosine_decay(0.1, 5)], [4])


TREE = {"a": [1, (2.5, "x")], "b": {"c": None, "d": []}, "e": (3,)}
NAMES = {name: value for name, value in globals().items() if not name.startswith("_")}

texts, arrays = {}, {}


def dtype(a):
    return str(a.dtype).rsplit(".", 1)[-1]


def told(name, value):
    """The value as text, with its arrays, which get numbers, in the file."""
    if isinstance(value, mx.array):
        arrays[f"{name}: {dtype(value)}"] = np.array(value.astype(mx.float32) if value.dtype == mx.bfloat16 else value)
        return f"{dtype(value)}{list(value.shape)}"
    if isinstance(value, nn.Module):
        return repr(value)
    if isinstance(value, optim.Optimizer):
        return type(value).__name__
    if isinstance(value, dict):  # the order of names is nobody's business, nor are places without anything
        inside = [(k, told(f"{name}.{k}", v)) for k, v in sorted(value.items())]
        return "{" + ", ".join(f"{k}: {v}" for k, v in inside if v != "{}") + "}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(told(f"{name}.{i}", v) for i, v in enumerate(value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, float):
        return f"{value:.4g}"
    return repr(value)


def tell(name, make):
    """make()'s value under the name, or the class of what it raises."""
    mx.random.seed(7)
    try:
        value = make()
        mx.eval([a for _, a in tree_flatten(value) if isinstance(a, mx.array)] if not callable(value) else [])
        texts[name] = told(name, value)
        return value
    except Exception as error:
        texts[name] = " ".join(["raises", *(kind.__name__ for kind in type(error).__mro__)])
    return None


def random(rng, *shape):
    return mx.array(rng.normal(size=shape).astype(np.float32))


def tell_layer(text, shapes):
    layer = tell(text, lambda: eval(f"nn.{text}", NAMES))
    if layer is None:
        return
    texts[f"{text} training"] = str(layer.training)
    tell(f"{text} parameters", layer.parameters)
    tell(f"{text} trained", lambda: sorted(k for k, _ in tree_flatten(layer.trainable_parameters())))
    rng = np.random.default_rng(3)
    inputs = [eval(s, NAMES) if isinstance(s, str) else random(rng, *s) for s in shapes]
    tell(f"{text} results", lambda: layer(*inputs))
    tell(f"{text} parameters afterwards", layer.parameters)
    floating = [i for i, s in enumerate(shapes) if not isinstance(s, str)]
    if floating and "QQ" not in text and "Dropout" not in text:

        def loss(*inputs):
            y = layer(*inputs)
            return sum(
                (v * mx.cos(mx.arange(v.size)).reshape(v.shape)).sum() for v in (y if isinstance(y, tuple) else (y,))
            )

        tell(f"{text} gradients of inputs", lambda: mx.grad(loss, argnums=floating)(*inputs))
        tell(f"{text} gradients", lambda: nn.value_and_grad(layer, loss)(*inputs)[1])


def tell_losses():
    rng = np.random.default_rng(4)
    names = {k: random(rng, 3, 4) for k in "XYZ"}
    names |= {"B": mx.array(rng.integers(0, 2, (3, 4))).astype(mx.float32), "I": mx.array([1, 3, 0])}
    names |= {"I4": mx.array([1, 3, 0]), "W": mx.array([0.5, 1.0, 2.0]), "nn": nn, "mx": mx}
    for name, many in LOSSES.items():
        for args in many:
            for reduction in ("", ", reduction='none'", ", reduction='sum'", ", reduction='mean'", ", reduction='x'"):
                text = f"nn.losses.{name}({args}{reduction})"
                tell(text, lambda text=text: eval(text, names))


def tell_optimizer(text):
    rng = np.random.default_rng(5)
    optimizer = tell(text, lambda: eval(f"optim.{text}", NAMES))
    optimizer = eval(f"optim.{text}", NAMES)

    def tree():
        return {
            "w": random(rng, 4, 6),
            "b": random(rng, 6),
            "layers": [
                {"c": random(rng, 3, 2, 2, 5)},
                {"w": random(rng, 7, 3)},
                {"h": random(rng, 4).astype(mx.float16)},
            ],
        }

    parameters = tree()
    tell(f"{text} at first", lambda: tree_flatten(optimizer.state, destination={}))
    optimizer.init(parameters)
    tell(f"{text} made", lambda: tree_flatten(optimizer.state, destination={}))
    for _ in range(4):
        parameters = optimizer.apply_gradients(tree(), parameters)
    tell(f"{text} state", lambda: tree_flatten(optimizer.state, destination={}))
    tell(f"{text} parameters", lambda: parameters)
    tell(f"{text} learning rate", lambda: optimizer.learning_rate)


def main(folder):
    mx.set_default_device(mx.cpu)
    for row in LAYERS:
        tell_layer(*row)
    for text in EXPRESSIONS:
        tell(text, lambda text=text: eval(text, NAMES))
    tell_losses()
    rng = np.random.default_rng(6)
    x = random(rng, 6, 5, 4) * 3
    for name in ACTIVATIONS:
        for how in (mx.float32, mx.float16, mx.bfloat16, mx.int32):
            tell(f"nn.{name} {dtype(x.astype(how))}", lambda name=name, how=how: getattr(nn, name)(x.astype(how)))
    for text in INITS:
        for shape in ((5, 4), (4, 4), (3, 2, 5), (4,)):
            tell(
                f"nn.init.{text} {shape}",
                lambda text=text, shape=shape: eval(f"nn.init.{text}", NAMES)(mx.zeros(shape)),
            )
        tell(f"nn.init.{text} half", lambda text=text: eval(f"nn.init.{text}", NAMES)(mx.zeros((4, 4), mx.float16)))
    for text in OPTIMIZERS:
        tell_optimizer(text)
    (folder / "texts.json").write_text(json.dumps(texts, indent=0))
    np.savez(folder / "arrays.npz", **{str(i): a for i, a in enumerate(arrays.values())})
    (folder / "names.json").write_text(json.dumps(list(arrays)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
