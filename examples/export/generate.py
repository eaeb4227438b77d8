"""A small transformer with a key/value cache, exported: one trace reads the prompt, one continues it.

Writes into the folder given: generate.mlxfn, the function; generate.safetensors, a prompt and what this
program made of it, for generate.c to compare with.

    python generate.py FOLDER
"""

import pathlib
import sys

import mlx.core as mx
import mlx.nn as nn

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST, PROMPT, MORE = 61, 32, 4, 2, 64, 9, 20


class Block(nn.Module):
    """Attention over all that was seen, then a network for each position."""

    def __init__(self):
        super().__init__()
        self.before_attention, self.before_network = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def __call__(self, x, mask, at, keys, values):
        n = x.shape[1]
        h = self.before_attention(x)
        q, k, v = (
            project(h).reshape(1, n, HEADS, -1).transpose(0, 2, 1, 3) for project in (self.query, self.key, self.value)
        )
        q, k = (mx.fast.rope(a, a.shape[-1], traditional=False, base=1e4, scale=1.0, offset=at) for a in (q, k))
        keys = mx.slice_update(keys, k, at[None], axes=(2,))
        values = mx.slice_update(values, v, at[None], axes=(2,))
        a = mx.fast.scaled_dot_product_attention(q, keys, values, scale=(WIDTH // HEADS) ** -0.5, mask=mask)
        x = x + self.out(a.transpose(0, 2, 1, 3).reshape(1, n, -1))
        return x + self.down(nn.gelu(self.up(self.before_network(x)))), keys, values


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def __call__(self, tokens, at, *cache):
        """Scores for the token that follows, and the cache with these tokens from place `at` on."""
        mask = mx.arange(LONGEST) <= at + mx.arange(tokens.shape[1])[:, None]
        x, after = self.embedding(tokens), []
        for i, block in enumerate(self.blocks):
            x, keys, values = block(x, mask, at, cache[2 * i], cache[2 * i + 1])
            after += [keys, values]
        return self.head(self.norm(x)[:, -1]), *after


def empty_cache():
    return [mx.zeros((1, HEADS, LONGEST, WIDTH // HEADS)) for _ in range(2 * LAYERS)]


def generate(step, prompt):
    """The likeliest continuation and the scores of its last token."""
    scores, *cache = step(prompt, mx.array(0), *empty_cache())
    tokens = [mx.argmax(scores, axis=-1)]
    for i in range(MORE - 1):
        scores, *cache = step(tokens[-1].astype(mx.int32)[None], mx.array(prompt.shape[1] + i), *cache)
        tokens.append(mx.argmax(scores, axis=-1))
    return mx.concatenate(tokens), scores


def main(folder):
    mx.random.seed(7)
    model = Model()
    mx.eval(model.parameters())
    path = str(folder / "generate.mlxfn")
    with mx.exporter(path, model, metadata="tokens, place of the first, cache -> scores, cache") as export:
        export(mx.zeros((1, PROMPT), mx.int32), mx.array(0), *empty_cache())
        export(mx.zeros((1, 1), mx.int32), mx.array(0), *empty_cache())
    prompt = mx.random.randint(0, VOCABULARY, (1, PROMPT))
    tokens, scores = generate(mx.import_function(path), prompt)
    by_model, scores_by_model = generate(model, prompt)
    assert tokens.tolist() == by_model.tolist()
    assert mx.allclose(scores, scores_by_model, rtol=1e-4, atol=1e-4)
    mx.save_safetensors(str(folder / "generate.safetensors"), {"prompt": prompt, "tokens": tokens, "scores": scores})
    print("tokens", *tokens.tolist())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
