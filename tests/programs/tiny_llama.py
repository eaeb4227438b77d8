"""A small language model in the layout of Hugging Face: a llama with random weights, whose tokens are
bytes."""

import json

import mlx.core as mx
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

DIMS, HEADS, KV_HEADS, LAYERS, MLP = 128, 4, 2, 2, 256
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def write(folder):
    """Writes the model's files into the folder, which it returns."""
    folder.mkdir()
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()) + ["<s>", "</s>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": TEMPLATE}))

    config = {
        "model_type": "llama",
        "hidden_size": DIMS,
        "num_hidden_layers": LAYERS,
        "intermediate_size": MLP,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-5,
        "vocab_size": len(vocabulary),
        "rope_theta": 10000.0,
        "max_position_embeddings": 512,
        "tie_word_embeddings": False,
        "bos_token_id": vocabulary["<s>"],
        "eos_token_id": vocabulary["</s>"],
    }
    (folder / "config.json").write_text(json.dumps(config))

    kv = DIMS // HEADS * KV_HEADS
    shapes = {name: (len(vocabulary), DIMS) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    norms = ["model.norm.weight"]
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        for name, shape in (("q", (DIMS, DIMS)), ("k", (kv, DIMS)), ("v", (kv, DIMS)), ("o", (DIMS, DIMS))):
            shapes[f"{layer}.self_attn.{name}_proj.weight"] = shape
        for name, shape in (("gate", (MLP, DIMS)), ("up", (MLP, DIMS)), ("down", (DIMS, MLP))):
            shapes[f"{layer}.mlp.{name}_proj.weight"] = shape
        norms += [f"{layer}.input_layernorm.weight", f"{layer}.post_attention_layernorm.weight"]
    keys = mx.random.split(mx.random.key(3), len(shapes))
    weights = {name: mx.random.normal(shape, scale=0.15, key=key) for (name, shape), key in zip(shapes.items(), keys)}
    weights |= {name: mx.ones((DIMS,)) for name in norms}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    return folder
