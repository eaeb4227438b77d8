"""A language model of the Llama family (Touvron et al., 2023) with the weights of a gguf file.

The layers carry the names that the file has. Weights that it has packed into a few bits stay packed.
"""

import mlx.core as mx
import mlx.nn as nn

PAGE = 128  # tokens by which a cache grows


class Block(nn.Module):
    """Attention, then a feed-forward layer with a gate, each added to what comes in.

    Heads of queries share heads of keys and values (Ainslie et al., 2023); positions are rotations.
    """

    def __init__(self, dims, hidden, heads, shared, base, eps):
        super().__init__()
        self.heads, self.shared, self.size, self.base = heads, shared, dims // heads, base
        self.attn_norm = nn.RMSNorm(dims, eps)
        self.attn_q = nn.Linear(dims, heads * self.size, bias=False)
        self.attn_k = nn.Linear(dims, shared * self.size, bias=False)
        self.attn_v = nn.Linear(dims, shared * self.size, bias=False)
        self.attn_output = nn.Linear(heads * self.size, dims, bias=False)
        self.ffn_norm = nn.RMSNorm(dims, eps)
        self.ffn_gate = nn.Linear(dims, hidden, bias=False)
        self.ffn_up = nn.Linear(dims, hidden, bias=False)
        self.ffn_down = nn.Linear(hidden, dims, bias=False)

    def split(self, x, heads):
        """(1, tokens, heads * size) -> (1, heads, tokens, size)"""
        return x.reshape(1, -1, heads, self.size).swapaxes(1, 2)

    def __call__(self, x, at, mask, cache):
        """x: (1, tokens, dims), of which the first is token `at` of the text; mask: (tokens, room of cache)."""
        y = self.attn_norm(x)
        q, k = self.split(self.attn_q(y), self.heads), self.split(self.attn_k(y), self.shared)
        # gguf files have the rows of q and k in the order for rotating neighbours.
        q, k = (mx.fast.rope(z, self.size, traditional=True, base=self.base, scale=1, offset=at) for z in (q, k))
        new = k, self.split(self.attn_v(y), self.shared)
        cache = [mx.slice_update(old, z, at, axes=(2,)) for old, z in zip(cache, new)]
        y = mx.fast.scaled_dot_product_attention(q, *cache, scale=self.size**-0.5, mask=mask)
        x = x + self.attn_output(y.swapaxes(1, 2).flatten(2))
        y = self.ffn_norm(x)
        return x + self.ffn_down(nn.silu(self.ffn_gate(y)) * self.ffn_up(y)), cache


class Llama(nn.Module):
    def __init__(self, vocabulary, dims, hidden, layers, heads, shared, base, eps):
        super().__init__()
        self.token_embd = nn.Embedding(vocabulary, dims)
        self.blk = [Block(dims, hidden, heads, shared, base, eps) for _ in range(layers)]
        self.output_norm = nn.RMSNorm(dims, eps)

    def embed(self, tokens):
        """The vectors of the tokens in float32, whatever the scales of packed ones are in."""
        table = self.token_embd
        if not isinstance(table, nn.QuantizedEmbedding):
            return table(tokens).astype(mx.float32)
        parts = (part[tokens] for part in (table.weight, table.scales, table.biases))
        return mx.dequantize(*parts, table.group_size, table.bits, dtype=mx.float32)

    def cache(self, room):
        """Empty keys and values for so many tokens, for each layer."""
        block = self.blk[0]
        return [[mx.zeros((1, block.shared, room, block.size)) for _ in range(2)] for _ in self.blk]

    def __call__(self, tokens, at, cache):
        """What may follow the last of some tokens, as logits: (vocabulary,); and the cache with all of them.

        tokens: (n,), the first of which is token `at` (an array) of the text; cache: of the ones before.
        """
        x = self.embed(tokens)[None]
        place = at + mx.arange(len(tokens))
        mask = mx.arange(cache[0][0].shape[2]) <= place[:, None]
        grown = []
        for block, old in zip(self.blk, cache):
            x, new = block(x, at, mask, old)
            grown.append(new)
        return self.token_embd.as_linear(self.output_norm(x[0, -1])), grown


def load(file):
    """The model in a gguf file, and the file's metadata."""
    arrays, metadata = mx.load(str(file), return_metadata=True)
    if metadata.get("general.architecture") != "llama" or "output.weight" in arrays:
        raise ValueError(f"{file}: expected a model of the kind 'llama' whose embedding is its last layer too")
    keys = "embedding_length", "feed_forward_length", "block_count", "attention.head_count", "attention.head_count_kv"
    sizes = [metadata[f"llama.{key}"].item() for key in keys]
    base, eps = (metadata[f"llama.{key}"].item() for key in ("rope.freq_base", "attention.layer_norm_rms_epsilon"))
    model = Llama(len(metadata["tokenizer.ggml.tokens"]), *sizes, base, eps)

    def packed(path, layer):
        if f"{path}.scales" not in arrays:
            return False
        groups, words = (arrays[f"{path}.{part}"].shape[-1] for part in ("scales", "weight"))
        return {"group_size": 32, "bits": words // groups}

    nn.quantize(model, class_predicate=packed)
    model.load_weights(list(arrays.items()))
    return model, metadata


class Session:
    """A text that grows, with its cache: each token goes through the model once.

    What the cache holds beyond the text is not looked at, and written over.
    """

    def __init__(self, model, compiled=True):
        self.model = model
        self.step = mx.compile(model.__call__) if compiled else model
        self.text, self.room = [], 0
        self.state = model.cache(0)

    def rest(self, tokens):
        """What of a text is still to be read; the session goes back to where its own text differs from that."""
        same = 0
        while same < min(len(self.text), len(tokens) - 1) and self.text[same] == tokens[same]:
            same += 1
        del self.text[same:]
        return tokens[same:]

    def __call__(self, tokens):
        """The logits of what may follow the text so far and these tokens."""
        at = len(self.text)
        self.text += tokens
        if len(self.text) > self.room:
            more = -(-(len(self.text) - self.room) // PAGE) * PAGE
            self.room += more
            self.state = [[mx.pad(part, ((0, 0), (0, 0), (0, more), (0, 0))) for part in layer] for layer in self.state]
        step = self.step if len(tokens) == 1 else self.model
        logits, self.state = step(mx.array(tokens), mx.array([at]), self.state)
        mx.async_eval(logits, self.state)
        return logits


def sample(logits, temperature, top_p):
    """A token: the likeliest at temperature 0, else a random one of the likeliest that have top_p together."""
    if temperature == 0:
        return mx.argmax(logits)
    p = mx.softmax(logits / temperature)
    order = mx.argsort(-p)
    ahead = mx.cumsum(p[order]) - p[order]
    return order[mx.random.categorical(mx.where(ahead < top_p, mx.log(p[order]), -mx.inf))]


def generate(session, tokens, end, limit, temperature=0.0, top_p=0.95):
    """The tokens that follow, one by one as they come, up to the token `end` or so many."""
    logits = session(tokens)
    for left in range(limit, 0, -1):
        token = sample(logits, temperature, top_p).item()
        if token == end:
            return
        yield token
        if left > 1:
            logits = session([token])
