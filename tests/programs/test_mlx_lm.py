"""mlx-lm as it comes from PyPI, with a small random model: generation, caches, quantization, fine-tuning,
perplexity and the server. Its programs run as their users run them, in processes of their own.

Run by `make test-full` in an environment of its own (tools/requirements-programs.txt).
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import urllib.request

import mlx
import mlx.core as mx
import numpy as np
import pytest

mlx_lm = pytest.importorskip("mlx_lm")

from mlx_lm import batch_generate, load, stream_generate  # noqa: E402
from mlx_lm.models.cache import make_prompt_cache  # noqa: E402
from mlx_lm.perplexity import eval_ppl  # noqa: E402
from tiny_llama import write  # noqa: E402

ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def loaded(model):
    return load(str(model))


def run(*args):
    command = [sys.executable, "-m", "mlx_lm", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def test_this_is_the_mlx_in_use():
    [folder] = mlx.__path__
    assert (pathlib.Path(folder) / "core.abi3.so").exists()
    assert not list(pathlib.Path(mlx_lm.__file__).parents[1].glob("mlx-*.dist-info"))


def greedy(model, tokens, n):
    """The likeliest next token n times, each from the whole sequence before it."""
    for _ in range(n):
        tokens = [*tokens, mx.argmax(model(mx.array(tokens)[None])[0, -1]).item()]
    return tokens


def test_generation_is_greedy_with_a_cache(loaded):
    model, tokenizer = loaded
    prompt = tokenizer.encode("hello")
    got = [r.token for r in stream_generate(model, tokenizer, prompt, max_tokens=12)]
    want = greedy(model, prompt, 12)[len(prompt) :]
    end = want.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in want else 12
    assert got[:end] == want[:end]


def test_logits_with_a_cache(loaded):
    model, _ = loaded
    tokens = mx.arange(40)[None]
    whole = np.array(model(tokens))
    cache = make_prompt_cache(model)
    parts = [model(tokens[:, a:b], cache=cache) for a, b in ((0, 17), (17, 18), (18, 40))]
    np.testing.assert_allclose(np.array(mx.concatenate(parts, axis=1)), whole, atol=2e-4)


def test_batch(loaded):
    model, tokenizer = loaded
    prompts = [tokenizer.encode(s) for s in ("one", "and two", "x")]
    together = batch_generate(model, tokenizer, prompts, max_tokens=6)
    alone = [batch_generate(model, tokenizer, [p], max_tokens=6).texts[0] for p in prompts]
    assert together.texts == alone


def test_perplexity(loaded):
    """exp of the mean of -log p, by NumPy."""
    model, _ = loaded
    tokens = np.random.default_rng(0).integers(0, 200, (4, 24))
    logits = np.array(model(mx.array(tokens[:, :-1]))).astype(np.float64)
    log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    want = np.exp(-np.take_along_axis(log_p, tokens[:, 1:, None], -1).mean())
    assert abs(eval_ppl(model, mx.array(tokens), 2)[0] / want - 1) < 1e-4


@pytest.mark.parametrize(
    "how", [["--q-bits", "8"], ["--q-bits", "4", "--q-group-size", "32"], ["--q-mode", "mxfp4"], ["--q-mode", "nvfp4"]]
)
def test_quantize(model, loaded, tmp_path, how):
    run("convert", "--hf-path", model, "--mlx-path", tmp_path / "q", "-q", *how)
    run("convert", "--hf-path", tmp_path / "q", "--mlx-path", tmp_path / "whole", "--dequantize")
    tokens = mx.arange(30)[None]
    got, want = (np.array(load(str(tmp_path / name))[0](tokens)) for name in ("q", "whole"))
    np.testing.assert_allclose(got, want, atol=1e-3 * np.abs(want).max())
    exact = np.array(loaded[0](tokens))
    cosine = (exact * got).sum() / np.linalg.norm(exact) / np.linalg.norm(got)
    assert cosine > (0.999 if "8" in how else 0.7)
    assert "Generation: 5 tokens" in run("generate", "--model", tmp_path / "q", "--prompt", "hi", "--max-tokens", 5)


@pytest.mark.parametrize("kind", ["lora", "dora", "full"])
def test_fine_tune(model, tmp_path, kind):
    rows = [json.dumps({"text": f"the number after {i} is {i + 1}. " * 2}) for i in range(24)]
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(rows))
    adapters = tmp_path / "adapters"
    common = ["--model", model, "--data", tmp_path, "--adapter-path", adapters, "--batch-size", 4]
    common += ["--max-seq-length", 128]
    steps = ["--iters", 30, "--num-layers", 2, "--steps-per-report", 10, "--learning-rate", "1e-3"]
    checkpoint = ["--grad-checkpoint"] if kind == "lora" else []
    run("lora", "--train", "--fine-tune-type", kind, *common, *steps, "--val-batches", 1, *checkpoint)
    assert (adapters / "adapters.safetensors").exists()
    loss = float(re.search(r"Test loss ([\d.]+)", run("lora", "--test", "--test-batches", 2, *common))[1])
    assert loss < 3.5  # the random model starts above 5.5
    if kind == "lora":
        run("fuse", "--model", model, "--adapter-path", adapters, "--save-path", tmp_path / "fused")
        assert "Generation" in run("generate", "--model", tmp_path / "fused", "--prompt", "the number")


def test_prompt_cache(model, tmp_path):
    file = tmp_path / "cache.safetensors"
    run("cache_prompt", "--model", model, "--prompt", "once upon a time", "--prompt-cache-file", file)
    assert file.exists()
    assert "Generation: 4 tokens" in run("generate", "--prompt-cache-file", file, "--prompt", "x", "--max-tokens", 4)


@pytest.mark.parametrize(
    "how",
    [
        ["--temp", "0.8", "--top-p", "0.9", "--top-k", "20", "--min-p", "0.02", "--seed", "3"],
        ["--max-kv-size", "16"],
        ["--kv-bits", "8", "--kv-group-size", "32", "--quantized-kv-start", "4"],
    ],
)
def test_ways_to_generate(model, how):
    text = run("generate", "--model", model, "--prompt", "hello", "--max-tokens", 20, *how)
    assert re.search(r"Generation: \d+ tokens", text)


def test_server_streams(model, tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    log = (tmp_path / "log").open("w")
    command = [sys.executable, "-m", "mlx_lm", "server", "--model", str(model), "--port", str(port)]
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=ENVIRONMENT)
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/models", timeout=2).read()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.2)
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 6, "temperature": 0}

        def ask(**more):
            data = json.dumps({**body, **more}).encode()
            request = urllib.request.Request(f"{url}/chat/completions", data, {"Content-Type": "application/json"})
            return urllib.request.urlopen(request, timeout=60).read().decode()

        whole = json.loads(ask())["choices"][0]["message"]["content"]
        lines = [line.removeprefix("data: ") for line in ask(stream=True).split("\n") if line.startswith("data: ")]
        assert lines[-1] == "[DONE]" and len(lines) > 2
        pieces = [json.loads(line)["choices"][0]["delta"].get("content") or "" for line in lines[:-1]]
        assert "".join(pieces) == whole
    finally:
        server.terminate()
        server.wait(30)
        log.close()
