"""Small mixtures of experts of mlx-lm, with the same random weights wherever this runs."""

import importlib

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models.cache import make_prompt_cache

COMMON = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
}
MODELS = {
    "mixtral": {"num_experts_per_tok": 2, "num_local_experts": 4},
    "qwen3_moe": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "moe_intermediate_size": 64,
        "head_dim": 16,
        "norm_topk_prob": True,
    },
    "deepseek_v3": {
        "moe_intermediate_size": 64,
        "num_key_value_heads": 4,
        "n_shared_experts": 1,
        "n_routed_experts": 4,
        "routed_scaling_factor": 1.0,
        "kv_lora_rank": 64,
        "q_lora_rank": 64,
        "qk_rope_head_dim": 16,
        "v_head_dim": 64,
        "qk_nope_head_dim": 64,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "moe_layer_freq": 1,
        "first_k_dense_replace": 1,
        "rope_scaling": None,
        "attention_bias": False,
    },
    "gpt_oss": {
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "head_dim": 64,
        "sliding_window": 8,
        "rope_scaling": None,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}


def made(name):
    module = importlib.import_module(f"mlx_lm.models.{name}")
    model = module.Model(module.ModelArgs.from_dict({"model_type": name, **COMMON, **MODELS[name]}))
    rng = np.random.default_rng(7)
    weights = [
        (key, mx.array(rng.normal(size=w.shape, scale=0.15).astype(np.float32)))
        for key, w in sorted(tree_flatten(model.parameters()))
    ]
    model.update(tree_unflatten(weights))
    return model.eval()


def quantized(model, **how):
    """Packed as mlx-lm's own `convert` does it: where a layer can be, and the router where it says so."""
    ask = getattr(model, "quant_predicate", None)

    def chosen(path, layer):
        if not hasattr(layer, "to_quantized") or layer.weight.shape[-1] % 32:
            return False
        return ask(path, layer) if ask else True

    nn.quantize(model, class_predicate=chosen, **how)
    return model


def outcome(model):
    """The logits of a prompt, and 12 tokens that follow, each the likeliest, with a cache."""
    prompt = mx.array([[5, 17, 42, 3, 88, 60]])
    logits = model(prompt)
    cache, tokens, x = make_prompt_cache(model), [], prompt
    for _ in range(12):
        x = mx.argmax(model(x, cache=cache)[:, -1], axis=-1)[:, None]
        tokens.append(x.item())
    return np.array(logits.astype(mx.float32)), tokens


WAYS = [
    {},
    {"bits": 8, "group_size": 32},
    {"bits": 4, "group_size": 64},
    {"mode": "mxfp4", "group_size": 32, "bits": 4},
]
CASES = [(name, how) for name in MODELS for how in WAYS]


def run(name, how):
    model = made(name)
    return outcome(quantized(model, **how) if how else model)
