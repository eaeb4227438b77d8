"""A small model in the place where Hugging Face's client keeps the one that mlx-lm's own tests load: a Qwen2 of random
weights in 4 bits, whose tokens are bytes. `python hub.py FOLDER` writes it."""

import pathlib
import sys

import mlx.core as mx
from mlx_lm.models import qwen2
from mlx_lm.utils import load_config, quantize_model, save_config, save_model
from tiny_llama import write

NAME = "models--mlx-community--Qwen1.5-0.5B-Chat-4bit"


def write_hub(folder):
    revision = "0" * 40
    snapshot = folder / NAME / "snapshots" / revision
    snapshot.parent.mkdir(parents=True)
    (folder / NAME / "refs").mkdir()
    (folder / NAME / "refs" / "main").write_text(revision)
    write(snapshot)
    config = load_config(snapshot) | {"model_type": "qwen2", "num_attention_heads": 2, "num_key_value_heads": 1}
    mx.random.seed(6)
    model, config = quantize_model(qwen2.Model(qwen2.ModelArgs.from_dict(config)), config, 64, 4)
    save_model(snapshot, model)
    save_config(config, snapshot / "config.json")


if __name__ == "__main__":
    write_hub(pathlib.Path(sys.argv[1]))
