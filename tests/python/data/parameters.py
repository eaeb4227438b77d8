"""Writes parameters.json: names, shapes and dtypes of the parameters of every layer, and which are
trained, as the `mlx` package 0.32 has them, so that its checkpoints fit.

    pip install "mlx[cpu]"==0.32.*
    python parameters.py
"""

import json
import pathlib

import mlx.core as mx
import mlx.nn as nn  # noqa: F401
from mlx.utils import tree_flatten

LAYERS = """
Linear(3, 4)
Linear(3, 4, bias=False)
Bilinear(3, 4, 5)
Bilinear(3, 4, 5, bias=False)
Identity(3)
Embedding(5, 4)
Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 5, bias=False)))
Conv1d(4, 6, 3)
Conv1d(4, 6, 3, groups=2, bias=False)
Conv2d(4, 6, (3, 5))
Conv2d(4, 6, 3, groups=2, bias=False)
Conv3d(4, 6, (1, 2, 3))
Conv3d(4, 6, 2, bias=False)
ConvTranspose1d(4, 6, 3)
ConvTranspose1d(4, 6, 3, bias=False)
ConvTranspose2d(4, 6, (3, 5))
ConvTranspose2d(4, 6, 3, bias=False)
ConvTranspose3d(4, 6, (1, 2, 3))
ConvTranspose3d(4, 6, 2, bias=False)
MaxPool1d(2)
AvgPool2d(2, 3)
MaxPool3d((2, 3, 4), padding=1)
BatchNorm(4)
BatchNorm(4, affine=False)
BatchNorm(4, track_running_stats=False)
GroupNorm(2, 4)
GroupNorm(2, 4, affine=False)
InstanceNorm(4)
InstanceNorm(4, affine=True)
LayerNorm(4)
LayerNorm(4, affine=False)
LayerNorm(4, bias=False)
RMSNorm(4)
Dropout(0.1)
Dropout2d(0.1)
Dropout3d(0.1)
PReLU()
PReLU(3)
GELU()
GLU()
RNN(3, 4)
RNN(3, 4, bias=False)
GRU(3, 4)
GRU(3, 4, bias=False)
LSTM(3, 4)
LSTM(3, 4, bias=False)
RoPE(8)
ALiBi()
SinusoidalPositionalEncoding(8)
MultiHeadAttention(8, 2)
MultiHeadAttention(8, 2, 3, 4, 5, 6, 7, bias=True)
TransformerEncoderLayer(8, 2)
TransformerEncoderLayer(8, 2, 12, 0.1, norm_first=False)
TransformerDecoderLayer(8, 2)
TransformerEncoder(2, 8, 2)
TransformerDecoder(2, 8, 2, 12)
Transformer(8, 2, 1, 2)
Upsample(2)
QuantizedLinear(64, 8)
QuantizedLinear(64, 8, bias=False, group_size=32, bits=8)
QuantizedLinear(64, 8, mode="mxfp4")
QuantizedEmbedding(5, 64)
QuantizedEmbedding(5, 64, bits=2)
QQLinear(64, 8)
QQLinear(64, 8).eval()
Linear(64, 8, bias=False).to_quantized()
Linear(64, 8).to_quantized()
Linear(64, 8).to_quantized(mode="mxfp4")
Embedding(5, 64).to_quantized(32, 4)
AllToShardedLinear(4, 6)
AllToShardedLinear(4, 6, bias=False)
ShardedToAllLinear(4, 6)
QuantizedAllToShardedLinear(64, 8)
QuantizedAllToShardedLinear(64, 8, bias=False)
QuantizedShardedToAllLinear(64, 8, mode="mxfp4", group_size=32)
FullyShardedModule(nn.Linear(3, 4))
fully_shard(nn.Linear(3, 4))
""".strip().split("\n")


def described(layer):
    """{name: [shape, dtype, whether it is trained]}"""
    trained = tree_flatten(layer.trainable_parameters(), destination={})
    found = tree_flatten(layer.parameters(), destination={})
    return {k: [list(v.shape), str(v.dtype).rsplit(".", 1)[-1], k in trained] for k, v in found.items()}


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    rows = [f"{json.dumps(text)}: {json.dumps(described(eval(f'nn.{text}')))}" for text in LAYERS]
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(rows) + "\n}\n")
