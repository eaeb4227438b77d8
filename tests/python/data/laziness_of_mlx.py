"""Writes laziness_of_mlx.json: what calls of the `mlx` package evaluate, of functions, methods and layers.

    pip install "mlx[cpu]"==0.32.* numpy
    MLX_DISABLE_COMPILE=1 python laziness_of_mlx.py

The calls are those of answers_of_mlx.py: the one with the fewest arguments, and those that put an array of integers or
of bool in the place of one argument.  Here the arrays that are given have no values yet.  An answer is the names of
those that have some after the call, and which of the results have none yet.  An array without a value is one in whose
drawing (export_to_dot) there is an operation.
"""

import json
import os
import re
import sys
import tempfile
import warnings

import answers_of_mlx
import mlx.core as mx
import numpy as np
from answers_of_mlx import HERE

LAZINESS = HERE / "laziness_of_mlx.json"
DRAWING = os.path.join(tempfile.mkdtemp(), "drawing.dot")


def lazy(x):
    mx.export_to_dot(DRAWING, x)
    with open(DRAWING) as f:
        return "[label" in f.read()


def without_value(x):
    return x | False if x.dtype == mx.bool_ else x + mx.array(0, x.dtype)


def arrays_in(y, depth=0):
    if isinstance(y, mx.array):
        return [y]
    inside = y.values() if isinstance(y, dict) else y if isinstance(y, (list, tuple)) else ()
    return [a for v in list(inside)[:6] for a in arrays_in(v, depth + 1)] if depth < 4 else []


def calls():
    for name, texts in answers_of_mlx.calls():
        base = re.findall(r"\b[NB]\b", texts[0])
        yield name, [texts[0], *(t for t in texts[1:] if len(re.findall(r"\b[NB]\b", t)) > len(base))]


def laziness(text):
    given, made = answers_of_mlx.names(), []
    for name, x in given.items():
        if isinstance(x, mx.array):
            given[name] = without_value(x)
            made.append((name, given[name]))

    def waves(*shape):
        x = without_value(answers_of_mlx.waves(*shape))
        made.append(("waves", x))
        return x

    given["waves"] = waves
    mx.random.seed(7)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = arrays_in(eval(text, given))  # noqa: S307
    except Exception:  # noqa: BLE001
        return "raises"
    return [sorted({name for name, x in made if not lazy(x)}), "".join("-+"[not lazy(y)] for y in results)]


def answers(only=()):
    answers_of_mlx.answer = laziness  # for apart
    wanted = {name: texts for name, texts in calls() if not only or name in only}
    told = iter(answers_of_mlx.apart([text for texts in wanted.values() for text in texts]))
    return {name: [next(told) for _ in texts] for name, texts in wanted.items()}


if __name__ == "__main__":
    told = answers(sys.argv[1:])
    if sys.argv[1:]:
        print(json.dumps(told))
    else:
        lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in told.items())
        LAZINESS.write_text("{\n" + lines + "\n}\n")
