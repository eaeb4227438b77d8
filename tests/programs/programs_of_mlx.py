"""Writes architectures_of_mlx.json and others_of_mlx.json: what test_architectures.py and test_others.py compare with,
computed with the `mlx` package 0.32 on the CPU. FOLDER is that of the tests in mlx-lm's source; without it,
the second alone.

pip install --no-deps "mlx==0.32.*" "mlx-cpu==0.32.*" -r ../../tools/requirements-programs.txt
python programs_of_mlx.py [FOLDER]
"""

import json
import pathlib
import sys

import mlx.core as mx
from architectures import all_models, study
from others import PROGRAMS, numbers


def write(name, found):
    lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items()]
    pathlib.Path(__file__).with_name(name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    write("others_of_mlx.json", {f.__name__: numbers(f) for f in PROGRAMS})
    if len(sys.argv) > 1:
        write("architectures_of_mlx.json", {key: study(model) for key, model in all_models(sys.argv[1])})
