"""Writes mixtures_of_mlx.json: what test_mixtures.py compares with, computed with the `mlx` package 0.32 on the CPU.

pip install "mlx[cpu]"==0.32.* mlx-lm==0.32.2
python mixtures_of_mlx.py
"""

import json
import pathlib

import mlx.core as mx
from mixtures import CASES, run

if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    found = {}
    for name, how in CASES:
        logits, tokens = run(name, how)
        found[f"{name} {json.dumps(how)}"] = [tokens, [round(x, 7) for x in logits[0, -1].tolist()]]
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()]
    pathlib.Path(__file__).with_suffix(".json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
