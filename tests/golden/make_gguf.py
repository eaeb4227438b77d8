"""Makes gguf_types.gguf and gguf_types.npz: blocks of random bits of every block type, and what the gguf
package (pip install gguf numpy) makes of them.  Run by hand, when a type is added."""

import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

here = pathlib.Path(__file__).parent
random = np.random.default_rng(6)
ROWS = 2
# Where a block has float16 (or float32) numbers: these get sizes that stay finite in float16.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q8_0: [0], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.IQ4_NL: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
}  # fmt: skip


def blocks(kind):
    items, size = gguf.GGML_QUANT_SIZES[kind]
    count = ROWS * 2
    raw = random.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES.get(kind, []):
        raw[:, at : at + 2] = (random.standard_normal((count, 1)) / 64).astype(np.float16).view(np.uint8)
    if kind == Type.Q8_K:
        raw[:, :4] = random.standard_normal((count, 1)).astype(np.float32).view(np.uint8)
    if kind == Type.MXFP4:
        raw[:, 0] = [0, 1, 120, 130]
    return raw.reshape(ROWS, 2 * size)


def dequantized(kind, raw):
    if kind == Type.Q8_K:  # which the package cannot read: a float32 scale, then int8
        b = raw.reshape(-1, 292)
        return (b[:, :4].copy().view(np.float32) * b[:, 4:260].view(np.int8)).reshape(ROWS, -1)
    return gguf.quants.dequantize(raw, kind)


writer = gguf.GGUFWriter(here / "gguf_types.gguf", "none")
expected = {}
for kind in (*HALVES, Type.Q8_K, Type.MXFP4):
    raw = blocks(kind)
    writer.add_tensor(f"{kind.name}.weight", raw, raw_dtype=kind)
    expected[kind.name] = dequantized(kind, raw).astype(np.float32)
values = random.standard_normal((3, 5))
for kind in ("float32", "float16", "float64", "int8", "int16", "int32", "int64"):
    plain = (values * 100).astype(kind)
    writer.add_tensor(kind, plain)
    expected[kind] = plain
bf16 = gguf.quants.quantize(values.astype(np.float32), Type.BF16)
writer.add_tensor("bfloat16", bf16, raw_dtype=Type.BF16)
expected["bfloat16"] = gguf.quants.dequantize(bf16, Type.BF16)
numbers = {
    "uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4 << 29, "int32": -(2**31),
    "float32": 0.1, "bool": True, "uint64": 2**63, "int64": -(2**63), "float64": 0.1,
}  # fmt: skip
for name, value in numbers.items():
    getattr(writer, f"add_{name}")(f"a.{name}", value)
writer.add_string("a.string", "naïve 東京")
writer.add_array("b.int32", [1, -2, 3])
writer.add_array("b.float32", [0.5, -2.0])
writer.add_array("b.bool", [True, False])
writer.add_array("b.string", ["", "x", "ü"])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
np.savez_compressed(here / "gguf_types.npz", **expected)
