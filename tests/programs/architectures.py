"""Every architecture of mlx-lm, small and with the same random weights wherever this runs: forwards, with a cache, in
a batch, in half types, its gradient, and quantized. Sizes are those of mlx-lm's own tests, which come with its source;
where those are too large or missing, they are below."""

import contextlib
import importlib
import inspect
import itertools
import pathlib
import sys

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.models
import numpy as np
from mlx.utils import tree_flatten, tree_map, tree_unflatten
from mlx_lm.models.cache import make_prompt_cache

LARGE = 5e6, 5e7  # parameters: of those that are below, and of others

COMMON = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "max_position_embeddings": 128,
    "tie_word_embeddings": False,
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "norm_topk_prob": True,
    "n_embd": 64,
    "n_head": 4,
    "n_layer": 2,
    "n_ctx": 128,
    "n_positions": 128,
    "layer_norm_epsilon": 1e-5,
    "layer_norm_eps": 1e-5,
    "conv_bias": True,
    "conv_L_cache": 3,
}
LLAMA = {"model_type": "llama", **COMMON}
DEEPSEEK = {
    "num_key_value_heads": 4,
    "n_shared_experts": 1,
    "n_routed_experts": 4,
    "routed_scaling_factor": 1.0,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "qk_nope_head_dim": 32,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "n_group": 1,
    "topk_group": 1,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 1,
    "rope_scaling": None,
    "attention_bias": False,
}
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 4}
MODELS = {
    "bailing_moe_linear": {
        "num_shared_experts": 1,
        "first_k_dense_replace": 1,
        "layer_group_size": 2,
        "group_norm_size": 4,
        "n_group": 1,
        "topk_group": 1,
    },
    "cohere": {},
    "cohere2": {"num_hidden_layers": 4, "sliding_window": 4},
    "dbrx": {
        "d_model": 64,
        "n_layers": 2,
        "n_heads": 4,
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 4, "moe_top_k": 2},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0},
    },
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_d_state": 16, "mamba_n_heads": 4, "mamba_d_head": 16},
    "gemma": {},
    "gemma3": {
        "text_config": {"model_type": "gemma3_text", **COMMON, "sliding_window": 4, "sliding_window_pattern": 2}
    },
    "gemma3_text": {"sliding_window": 4, "sliding_window_pattern": 2},
    "glm_moe_dsa": {
        **DEEPSEEK,
        "index_head_dim": 32,
        "index_n_heads": 2,
        "index_topk": 4,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    },
    "gpt2": {},
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.25},
    "gpt_oss": {**WINDOWS, "intermediate_size": 64},
    "gptj": {"rotary_dim": 8},
    "internlm2": {},
    "internlm3": {},
    "jamba": {
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
        "mamba_d_conv": 4,
        "mamba_d_state": 16,
        "mamba_expand": 2,
    },
    "kimi_k25": {"text_config": {"model_type": "kimi_k25", **COMMON, **DEEPSEEK}},
    "lfm2": {
        "block_dim": 64,
        "block_multiple_of": 32,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "block_ff_dim": 128,
        "full_attn_idxs": [1],
    },
    "lfm2_moe": {"use_expert_bias": True, "num_dense_layers": 1, "full_attn_idxs": [1]},
    "llama": {},
    "mamba": {"state_size": 16, "conv_kernel": 4, "use_bias": True, "use_conv_bias": True, "time_step_rank": 4},
    "mellum": {
        **WINDOWS,
        "rope_parameters": {name: {"rope_type": "default", "rope_theta": 10000.0} for name in WINDOWS["layer_types"]},
    },
    "minicpm": {"dim_model_base": 32, "scale_depth": 1.4, "scale_emb": 12},
    "ministral3": {
        **WINDOWS,
        "rope_parameters": {
            "rope_theta": 10000.0,
            "rope_type": "default",
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 64,
        },
    },
    "mistral3": {"text_config": LLAMA},
    "mixtral": {},
    "nanochat": {"num_key_value_heads": 2},
    "nemotron-nas": {
        "block_configs": [
            {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 2.0}},
            {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}},
        ]
    },
    "olmoe": {},
    "openelm": {
        "num_transformer_layers": 2,
        "model_dim": 64,
        "ffn_dim_divisor": 16,
        "num_query_heads": [4, 4],
        "num_kv_heads": [2, 2],
        "ffn_multipliers": [1.0, 2.0],
    },
    "phi": {},
    "phi3": {},
    "pixtral": {"text_config": LLAMA},
    "plamo": {"n_shared_head": 2},
    "plamo2": {"hidden_size_per_head": 16, "mamba_num_heads": 4, "mamba_d_state": 16, "attention_window_size": 8},
    "qwen": {"kv_channels": 16},
    "qwen2": {},
    "qwen2_moe": {"shared_expert_intermediate_size": 64},
    "qwen2_vl": {"text_config": {**COMMON, "model_type": "qwen2"}},
    "qwen3": {},
    "qwen3_moe": {"decoder_sparse_step": 1, "mlp_only_layers": []},
    "smollm3": {},
    "starcoder2": {},
    "stablelm": {"partial_rotary_factor": 0.25, "use_qkv_bias": True, "qk_layernorm": True},
}


def made(name):
    mx.random.seed(3)
    module = importlib.import_module(f"mlx_lm.models.{name}")
    return module.Model(module.ModelArgs.from_dict({**COMMON, "model_type": name, **MODELS[name]}))


def size(model):
    return sum(w.size for _, w in tree_flatten(model.parameters()))


def models_of_its_tests(folder):
    """(name, model) of each small model of mlx-lm's own tests, whose folder is given."""
    sys.path.insert(0, str(folder))
    try:
        tests = importlib.import_module("test_models").TestModels
    finally:
        sys.path.pop(0)
    found = []

    class Enough(Exception):
        pass

    def take(self, model, *_):
        found.append((type(model).__module__.rpartition(".")[2], model))
        mx.random.seed(3)
        if not several:
            raise Enough

    for name, function in inspect.getmembers(tests, inspect.isfunction):
        several = name == "test_all_models"
        if not name.startswith("test_") or "model_test_runner" not in inspect.getsource(function):
            continue
        mx.random.seed(3)
        case = tests(name)
        case.model_test_runner = take.__get__(case)
        with contextlib.suppress(Exception):  # they go on to compare, or ask for packages that are not here
            getattr(case, name)()
        yield from ((n, m) for n, m in found if size(m) <= LARGE[n not in MODELS])
        found.clear()


def all_models(folder):
    """(key, model) for each model; the key is the architecture's name and a number."""
    count = {}
    for name, model in itertools.chain(((name, made(name)) for name in MODELS), models_of_its_tests(folder)):
        count[name] = count.get(name, 0) + 1
        yield f"{name} {count[name]}", model


def filled(model):
    """The model with weights from NumPy: matrices anew, vectors moved from what they are."""
    rng = np.random.default_rng(7)
    weights = []
    for key, w in sorted(tree_flatten(model.parameters())):
        if mx.issubdtype(w.dtype, mx.floating):
            x = rng.standard_normal(w.shape, dtype=np.float32)
            x = x / np.sqrt(w.shape[-1]) if w.ndim > 1 else np.array(w.astype(mx.float32)) + 0.1 * x
            weights.append((key, mx.array(x).astype(w.dtype)))
    return model.update(tree_unflatten(weights)).eval()


def cast(model, dtype):
    model.update(tree_map(lambda w: w.astype(dtype) if mx.issubdtype(w.dtype, mx.floating) else w, model.parameters()))


def digest(x):
    """Four of the numbers, and the mean of the absolute ones, rounded to 6 digits."""
    x = np.array(x.astype(mx.float32)).reshape(-1)
    some = x[np.random.default_rng(1).integers(0, x.size, 4)]
    return [float(f"{v:.6g}") for v in [*some, np.abs(x.astype(np.float64)).mean()]]


def quantized(model):
    """Packed as mlx-lm's own `convert` does it: where a layer can be, and as it says itself."""
    ask = getattr(model, "quant_predicate", None)

    def chosen(path, layer):
        if not hasattr(layer, "to_quantized") or layer.weight.shape[-1] % 32:
            return False
        return ask(path, layer) if ask else True

    nn.quantize(model, group_size=32, bits=4, class_predicate=chosen)
    return model


def study(model):
    """Numbers of the model, by what was done with it; the text "fails" where that raises."""
    filled(model)
    prompt = mx.array([[5, 17, 42, 3, 28, 60, 5, 9]])

    def with_cache():
        cache, tokens, x = make_prompt_cache(model), [], prompt
        for _ in range(6):
            logits = model(x, cache=cache)
            x = mx.argmax(logits[:, -1], axis=-1)[:, None]
            tokens.append(x.item())
        return tokens + digest(logits)

    def gradient():
        def loss(model, x):
            return nn.losses.cross_entropy(model(x[:, :-1]).astype(mx.float32), x[:, 1:]).mean()

        model.train()
        value, grads = nn.value_and_grad(model, loss)(model, prompt)
        model.eval()
        sizes = [mx.abs(g.astype(mx.float32)).sum() for _, g in sorted(tree_flatten(grads))]
        return digest(mx.stack([value, *sizes]))

    def half(dtype):
        cast(model, dtype)
        logits = model(prompt)
        return [str(logits.dtype), digest(logits)[-1]]

    def packed():
        cast(model, mx.float32)
        return digest(quantized(model)(prompt))

    found = {}
    for name, f in {
        "logits": lambda: digest(model(prompt)),
        "cache": with_cache,
        "batch": lambda: digest(model(mx.concatenate([prompt, prompt[:, ::-1]]))),
        "gradient": gradient,
        "float16": lambda: half(mx.float16),
        "bfloat16": lambda: half(mx.bfloat16),
        "quantized": packed,
    }.items():
        try:
            found[name] = f()
        except Exception:
            found[name] = "fails"
    return found


def architectures():
    """The names of mlx-lm's modules with a model."""
    [folder] = mlx_lm.models.__path__
    return {p.stem for p in pathlib.Path(folder).glob("*.py") if "\nclass Model(" in p.read_text()}
