"""mlx-lm as it comes from PyPI, with a small random model: the short part of what `make test-full` does
with it (tests/programs), in this process."""

import importlib.metadata
import pathlib
import sys

import mlx
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
import pytest
from mlx.utils import tree_flatten

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """(model, tokenizer), from files."""
    sys.path.insert(0, str(ROOT / "tests" / "programs"))
    try:
        from tiny_llama import write
    finally:
        sys.path.pop(0)
    from mlx_lm import load

    return load(str(write(tmp_path_factory.mktemp("models") / "tiny")))


@pytest.fixture
def model(tmp_path, loaded):
    """One to be changed: the same weights in a model of its own."""
    model = type(loaded[0])(loaded[0].args)
    return model.load_weights(tree_flatten(loaded[0].parameters()))


def greedy(model, tokens, n):
    """The likeliest next token n times, each from the whole sequence before it."""
    for _ in range(n):
        tokens = [*tokens, mx.argmax(model(mx.array(tokens)[None])[0, -1]).item()]
    return tokens


def test_this_is_the_mlx_in_use():
    [folder] = mlx.__path__
    assert pathlib.Path(mx.__file__) == pathlib.Path(folder) / "core.abi3.so"
    names = {d.metadata["Name"] for d in importlib.metadata.distributions()}
    assert "mlx-lm" in names and not names & {"mlx", "mlx-cpu", "mlx-metal"}


def test_generate(loaded):
    from mlx_lm import generate, stream_generate

    model, tokenizer = loaded
    prompt = tokenizer.encode("hello")
    got = [r.token for r in stream_generate(model, tokenizer, prompt, max_tokens=8)]
    want = greedy(model, prompt, 8)[len(prompt) :]
    end = want.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in want else 8
    assert got[:end] == want[:end]
    assert isinstance(generate(model, tokenizer, "hello", max_tokens=4), str)


def test_quantize(model, loaded):
    """Its own products with packed weights equal those with the weights unpacked."""
    from mlx_lm.utils import dequantize_model, quantize_model

    tokens = mx.arange(30)[None]
    exact = np.array(loaded[0](tokens))
    packed, config = quantize_model(model, {}, group_size=32, bits=8)
    assert config["quantization"]["bits"] == 8
    assert packed.model.layers[0].mlp.up_proj.weight.dtype == mx.uint32
    got = np.array(packed(tokens))
    want = np.array(dequantize_model(packed)(tokens))
    np.testing.assert_allclose(got, want, atol=1e-3 * np.abs(want).max())
    assert (exact * got).sum() > 0.999 * np.linalg.norm(exact) * np.linalg.norm(got)


def test_one_step_of_lora(model):
    from mlx_lm.tuner.trainer import default_loss
    from mlx_lm.tuner.utils import linear_to_lora_layers

    model.freeze()
    linear_to_lora_layers(model, 2, {"rank": 4, "scale": 10.0, "dropout": 0.0})
    names = [name for name, _ in tree_flatten(model.trainable_parameters())]
    assert names and all(name.endswith(("lora_a", "lora_b")) for name in names)
    before = {name: np.array(a) for name, a in tree_flatten(model.parameters())}

    batch, lengths = mx.array(np.random.default_rng(0).integers(0, 200, (2, 16))), mx.array([[0, 15], [0, 15]])
    step = nn.value_and_grad(model, default_loss)
    (loss, count), gradients = step(model, batch, lengths)
    assert loss.item() > 5 and count.item() > 20
    optim.Adam(1e-2).update(model, gradients)
    (after, _), _ = step(model, batch, lengths)
    assert after.item() < loss.item()
    changed = {name for name, a in tree_flatten(model.parameters()) if not np.array_equal(np.array(a), before[name])}
    assert changed and changed <= {name for name in names if name.endswith("lora_b")}  # lora_b starts at zero


def test_prompt_cache(loaded, tmp_path):
    """What has been read goes to a file; from there the text goes on as from the whole."""
    from mlx_lm.generate import generate_step
    from mlx_lm.models.cache import load_prompt_cache, make_prompt_cache, save_prompt_cache

    model, tokenizer = loaded
    tokens = tokenizer.encode("once upon a time there was")
    cache = make_prompt_cache(model)
    mx.eval(model(mx.array(tokens[:-1])[None], cache=cache))
    save_prompt_cache(str(tmp_path / "cache.safetensors"), cache)
    cache = load_prompt_cache(str(tmp_path / "cache.safetensors"))
    assert cache[0].offset == len(tokens) - 1
    got = [token for token, _ in generate_step(mx.array(tokens[-1:]), model, prompt_cache=cache, max_tokens=6)]
    assert got == greedy(model, tokens, 6)[len(tokens) :]
