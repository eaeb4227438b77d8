"""Sentences as points on a sphere: an encoder of the BERT family (Devlin et al., 2019) whose outputs are
averaged over the tokens (Reimers and Gurevych, 2019). The layers carry the names that the file has."""

import json
import pathlib

import mlx.core as mx
import mlx.nn as nn
from word_pieces import Tokenizer


class Layer(nn.Module):
    """Attention, then a feed-forward layer; each is added to what comes in, then normalized."""

    def __init__(self, dims, hidden, heads, eps):
        super().__init__()
        self.heads = heads
        self.attention = {
            "self": {name: nn.Linear(dims, dims) for name in ("query", "key", "value")},
            "output": {"dense": nn.Linear(dims, dims), "LayerNorm": nn.LayerNorm(dims, eps)},
        }
        self.intermediate = {"dense": nn.Linear(dims, hidden)}
        self.output = {"dense": nn.Linear(hidden, dims), "LayerNorm": nn.LayerNorm(dims, eps)}

    def __call__(self, x, mask):
        inner, outer = self.attention["self"], self.attention["output"]
        q, k, v = (inner[name](x) for name in ("query", "key", "value"))
        q, k, v = (y.reshape(*y.shape[:2], self.heads, -1).swapaxes(1, 2) for y in (q, k, v))
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask=mask)
        x = outer["LayerNorm"](x + outer["dense"](y.swapaxes(1, 2).flatten(2)))
        y = self.output["dense"](nn.gelu(self.intermediate["dense"](x)))
        return self.output["LayerNorm"](x + y)


class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        dims, eps = config["hidden_size"], config["layer_norm_eps"]
        tables = {"word": "vocab_size", "position": "max_position_embeddings", "token_type": "type_vocab_size"}
        self.embeddings = {f"{name}_embeddings": nn.Embedding(config[size], dims) for name, size in tables.items()}
        self.embeddings["LayerNorm"] = nn.LayerNorm(dims, eps)
        sizes = dims, config["intermediate_size"], config["num_attention_heads"], eps
        self.encoder = {"layer": [Layer(*sizes) for _ in range(config["num_hidden_layers"])]}

    def __call__(self, tokens, present):
        """tokens: (texts, n); present: the same shape, False where a text is over. Result: (texts, dims)."""
        tables = self.embeddings
        positions = tables["position_embeddings"](mx.arange(tokens.shape[1]))
        x = tables["word_embeddings"](tokens) + positions + tables["token_type_embeddings"](mx.array(0))
        x = tables["LayerNorm"](x)
        for layer in self.encoder["layer"]:
            x = layer(x, present[:, None, None])
        weight = present[..., None].astype(x.dtype)
        mean = (x * weight).sum(axis=1) / weight.sum(axis=1)
        return mean / mx.linalg.norm(mean, axis=-1, keepdims=True)


class SentenceModel:
    """What a folder with config.json, vocab.txt and model.safetensors makes of texts."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        longest = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
        self.tokenizer = Tokenizer(folder / "vocab.txt", longest)
        self.encoder = Encoder(json.loads((folder / "config.json").read_text()))
        weights = mx.load(str(folder / "model.safetensors"))
        unused = "pooler.", "embeddings.position_ids"
        self.encoder.load_weights([(name, x) for name, x in weights.items() if not name.startswith(unused)])

    def __call__(self, texts, batch=16):
        """(texts, dims): vectors of length one, whose products tell how alike two texts are."""
        texts = [self.tokenizer.encode(text) for text in texts]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # texts of one length together
        vectors = [None] * len(texts)
        for start in range(0, len(order), batch):
            some = order[start : start + batch]
            width = max(len(texts[i]) for i in some)
            tokens = mx.array([texts[i] + [0] * (width - len(texts[i])) for i in some])
            present = mx.arange(width) < mx.array([len(texts[i]) for i in some])[:, None]
            for i, vector in zip(some, self.encoder(tokens, present)):
                vectors[i] = vector
        return mx.stack(vectors)
