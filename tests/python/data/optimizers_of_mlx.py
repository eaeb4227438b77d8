"""Writes optimizers_of_mlx.npz: parameters and states of every optimizer with every option, at first and after five
updates, as the `mlx` package 0.32 has them.

    pip install "mlx[cpu]"==0.32.* numpy
    python optimizers_of_mlx.py

test_optimizers.py runs the same cases. A case has two arrays: lines of what there is ("when/name/dtype/shape"), and
the values one after the other, as float32, which holds half types too.
"""

import pathlib

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten

CASES = """
SGD(0.1)
SGD(0.1, weight_decay=0.1)
SGD(0.1, momentum=0.9)
SGD(0.1, momentum=0.9, weight_decay=0.1)
SGD(0.1, momentum=0.9, dampening=0.3)
SGD(0.1, dampening=0.3)
SGD(0.1, momentum=0.9, nesterov=True)
SGD(0.1, 0.8, 0.05, 0.0, True)
SGD(0.1, 0.8, 0.05, 0.2, False)
SGD(optim.cosine_decay(0.1, 3), 0.9)
SGD(optim.linear_schedule(0.0, 0.1, 3))
RMSprop(0.1)
RMSprop(0.1, 0.8, 0.1)
RMSprop(optim.exponential_decay(0.1, 0.9))
Adagrad(0.1)
Adagrad(0.1, 0.1)
AdaDelta(0.1)
AdaDelta(0.1, 0.7, 0.1)
Adam(0.1)
Adam(0.1, [0.7, 0.8], 0.1)
Adam(0.1, bias_correction=True)
Adam(optim.step_decay(0.1, 0.5, 2), bias_correction=True)
AdamW(0.1)
AdamW(0.1, [0.7, 0.8], 0.1, 0.2)
AdamW(0.1, weight_decay=0.0)
AdamW(0.1, weight_decay=0.1, bias_correction=True)
Adamax(0.1)
Adamax(0.1, [0.7, 0.8], 0.1)
Lion(0.1)
Lion(0.1, [0.7, 0.8], 0.1)
Adafactor()
Adafactor(0.1)
Adafactor(eps=(1e-3, 0.1))
Adafactor(clip_threshold=0.3)
Adafactor(decay_rate=-0.5)
Adafactor(beta_1=0.9)
Adafactor(weight_decay=0.1)
Adafactor(scale_parameter=False)
Adafactor(0.1, relative_step=False)
Adafactor(warmup_init=True)
Adafactor(0.1, (1e-30, 1e-3), 0.7, -0.6, 0.8, 0.1, False, False, False)
Adafactor(optim.cosine_decay(0.1, 3), relative_step=False)
Muon(0.1)
Muon(0.1, 0.8)
Muon(0.1, weight_decay=0.0)
Muon(0.1, nesterov=False)
Muon(0.1, ns_steps=2)
Muon(optim.join_schedules([optim.linear_schedule(0.0, 0.1, 2), optim.cosine_decay(0.1, 3)], [2]))
MultiOptimizer([optim.SGD(0.1)])
MultiOptimizer([optim.Muon(0.1), optim.AdamW(optim.step_decay(0.1, 0.5, 2))], [lambda n, g: g.ndim >= 2])
MultiOptimizer([optim.Adam(0.1), optim.Lion(0.1), optim.SGD(0.2)], [lambda n, g: n == "b", lambda n, g: "2" in n])
""".strip().split("\n")


def dtype(a):
    return str(a.dtype).rsplit(".", 1)[-1]


def tree(rng):
    """Parameters or gradients: matrices wide and tall, few and more dimensions, half types, in a list too."""

    def random(*shape, dtype=mx.float32):
        return mx.array(rng.normal(size=shape).astype(np.float32)).astype(dtype)

    return {
        "b": random(3),
        "s": random(),
        "layers": [
            {"w": random(3, 4), "h": random(2, dtype=mx.float16)},
            {"w": random(4, 2), "h": random(3, 2, dtype=mx.bfloat16)},
            {"conv": random(4, 1, 2), "deep": random(2, 2, 1, 3)},
        ],
    }


def outcome(text):
    """(lines, values) of a case: the state as it begins, parameters after one update and after five, the state then."""
    optimizer = eval(f"optim.{text}", {"optim": optim})
    rng = np.random.default_rng(5)
    parameters = tree(rng)
    lines, values = [], []

    def keep(when, tree):
        for name, a in sorted(tree_flatten(tree)):
            lines.append(f"{when}/{name}/{dtype(a)}/{list(a.shape)}")
            values.append(np.array(a.astype(mx.float32)).ravel())

    keep("new", optimizer.state)
    optimizer.init(parameters)
    keep("begun", optimizer.state)
    for step in range(5):
        parameters = optimizer.apply_gradients(tree(rng), parameters)
        if step in (0, 4):
            keep(f"parameters {step}", parameters)
    keep("state", optimizer.state)
    return lines, values


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    arrays = {}
    for text in CASES:
        lines, values = outcome(text)
        arrays[f"{text} lines"] = np.array("\n".join(lines))
        arrays[f"{text} values"] = np.concatenate(values)
    np.savez_compressed(pathlib.Path(__file__).with_suffix(".npz"), **arrays)
