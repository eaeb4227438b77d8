"""A random model in a gguf file laid out as that of SmolLM2, a few hundred kilobytes: for test_chat_c.py."""

import collections
import struct

import numpy as np

TEXT = "the sea is blue and the sky is what we see when it rains; she said that's all they'll have, isn't it? 東京 é "
LEFT_OUT = {4, 6, 19, 192, 193, 241, 255}  # bytes without a token, as SmolLM2 has some
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9  # types of values
TYPES = {"f32": 0, "q4_1": 3, "q8_0": 8}  # types of tensors
ALIGNMENT = 32


def vocabulary(to_letters, merges):
    """Tokens, and the pairs of them that are merged: those that come most often in TEXT."""
    tokens = CONTROL + [letter for byte, letter in to_letters.items() if byte not in LEFT_OUT]
    words = [[to_letters[byte] for byte in (" " + word).encode()] for word in TEXT.split()]
    pairs = []
    for _ in range(merges):
        counts = collections.Counter(pair for word in words for pair in zip(word, word[1:]))
        if not counts:
            break
        pair = max(counts, key=lambda p: (counts[p], p))
        pairs.append(" ".join(pair))
        tokens.append("".join(pair))
        for word in words:
            for i in reversed(range(len(word) - 1)):
                if tuple(word[i : i + 2]) == pair:
                    word[i : i + 2] = ["".join(pair)]
    return list(dict.fromkeys(tokens)), pairs


def packed(values, kind):
    """The bytes of a matrix in blocks of 32 numbers."""
    if kind == "f32":
        return values.astype("<f4").tobytes()
    blocks = values.reshape(-1, 32)
    if kind == "q8_0":
        scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype("<f2")
        numbers = np.rint(blocks / scale.astype("f4")).clip(-127, 127).astype("i1")
        return np.hstack([scale.view("u1"), numbers.view("u1")]).tobytes()
    low = blocks.min(1, keepdims=True).astype("<f2")
    scale = ((blocks.max(1, keepdims=True) - low) / 15).astype("<f2")
    numbers = np.rint((blocks - low) / scale).clip(0, 15).astype("u1")
    halves = numbers[:, :16] | numbers[:, 16:] << 4
    return np.hstack([scale.view("u1"), low.view("u1"), halves]).tobytes()


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    if kind == STRING:
        return string(v)
    if kind == ARRAY:
        of = STRING if isinstance(v[0], str) else I32
        return struct.pack("<IQ", of, len(v)) + b"".join(value(of, item) for item in v)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f"}[kind], v)


def write(file, to_letters, merges=120, dims=64, hidden=96, layers=2, heads=4, shared=2, seed=0, pre="smollm", more=0):
    """more: vectors beyond those of the tokens"""
    tokens, pairs = vocabulary(to_letters, merges)
    metadata = {
        "general.architecture": (STRING, "llama"),
        "llama.block_count": (U32, layers),
        "llama.context_length": (U32, 400),
        "llama.embedding_length": (U32, dims),
        "llama.feed_forward_length": (U32, hidden),
        "llama.attention.head_count": (U32, heads),
        "llama.attention.head_count_kv": (U32, shared),
        "llama.rope.freq_base": (F32, 1e4),
        "llama.attention.layer_norm_rms_epsilon": (F32, 1e-5),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, pre),
        "tokenizer.ggml.tokens": (ARRAY, tokens),
        "tokenizer.ggml.token_type": (ARRAY, [3 if token in CONTROL else 1 for token in tokens]),
        "tokenizer.ggml.merges": (ARRAY, pairs),
        "tokenizer.ggml.eos_token_id": (U32, 2),
    }
    size = dims // heads
    shapes = {"token_embd": (len(tokens) + more, dims, "q4_1"), "output_norm": (dims,)}
    for i in range(layers):
        kinds = {"attn_norm": (dims,), "ffn_norm": (dims,)}
        kinds |= {"attn_q": (heads * size, dims), "attn_k": (shared * size, dims), "attn_v": (shared * size, dims)}
        kinds |= {"attn_output": (dims, heads * size), "ffn_gate": (hidden, dims), "ffn_up": (hidden, dims)}
        kinds |= {"ffn_down": (dims, hidden, "q8_0")}
        shapes |= {f"blk.{i}.{name}": shape for name, shape in kinds.items()}
    shapes[f"blk.{layers - 1}.attn_v"] += ("f32",)

    random = np.random.default_rng(seed)
    heads_of_tensors, data = b"", b""
    for name, (*shape, kind) in ((n, s if isinstance(s[-1], str) else (*s, "q4_1")) for n, s in shapes.items()):
        kind = kind if len(shape) == 2 else "f32"
        deviation = 1 if name == "token_embd" else shape[-1] ** -0.5 * 2
        values = random.normal(0, deviation, shape) if len(shape) == 2 else random.uniform(0.5, 1.5, shape)
        data += bytes(-len(data) % ALIGNMENT)
        heads_of_tensors += string(f"{name}.weight") + struct.pack("<I", len(shape))
        heads_of_tensors += struct.pack(f"<{len(shape)}QIQ", *reversed(shape), TYPES[kind], len(data))
        data += packed(values.astype("f4"), kind)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(metadata))
    head += b"".join(string(key) + struct.pack("<I", kind) + value(kind, v) for key, (kind, v) in metadata.items())
    head += heads_of_tensors
    file.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data)
