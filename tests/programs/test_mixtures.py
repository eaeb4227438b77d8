"""Mixtures of experts of mlx-lm (Mixtral, Qwen3-MoE, DeepSeek, gpt-oss), small and with random weights: as they are
and quantized they give the numbers that they give with the `mlx` package, and generate the same tokens."""

import json
import pathlib

import mlx.core as mx
import numpy as np
import pytest

pytest.importorskip("mlx_lm")

from mixtures import CASES, made, quantized, run  # noqa: E402

THERE = json.loads(pathlib.Path(__file__).with_name("mixtures_of_mlx.json").read_text())


@pytest.mark.parametrize("name, how", CASES)
def test_numbers_and_tokens(name, how):
    logits, tokens = run(name, how)
    want_tokens, want = THERE[f"{name} {json.dumps(how)}"]
    assert tokens == want_tokens
    np.testing.assert_allclose(logits[0, -1], want, rtol=0, atol=5e-6 * np.abs(want).max())


def test_experts_are_packed():
    model = quantized(made("mixtral"), bits=4, group_size=64)
    experts = model.layers[0].block_sparse_moe.switch_mlp.up_proj
    assert experts.weight.dtype == mx.uint32 and experts.weight.shape[0] == 4
