"""Every function of arrays and every layer, traced at one size for any: at others it is right, or is refused, or a
warning said that it would not be. Compiled functions are in test_compile_everywhere.py."""

import fnmatch
import pathlib
import re
import warnings

import mlx.core as mx
import numpy as np
import pytest
from nn_there import LAYERS, NAMES
from test_compile_everywhere import RANDOM, arrays, expect, others, result
from test_dtypes_everywhere import NO_TABLE, SAMPLES
from test_messages import rows

# Random numbers of the layer's own: no two calls agree.
DRAW = ("Dropout(0.3)", "Dropout2d(", "Dropout3d(")
# Functions that neither SAMPLES nor any_shape_cases.py has a call of, besides those of no operands.
UNTRACED = {
    "nonzero argwhere flatnonzero unique_*": "as many results as the values say: they are evaluated, never traced",
    "inspect_function": "of a file",
}
REFUSED = ("Linear(64, 8).to_quantized(mode='mxfp8', q", "Embedding(5, 64).to_quantized(quantize_input")


def imported(path, f, args, portable):
    """The function read back from a file for any shape, or None where that is refused or warned of."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            mx.export_function(path, f, *args, shapeless=True, portable=portable)
    except (ValueError, TypeError, RuntimeError, RuntimeWarning):
        return None
    g = mx.import_function(path)
    return lambda *xs: list(g(*xs))


def listed(f):
    def call(*args):
        y = f(*args)
        return [x for x in (y if isinstance(y, (list, tuple)) else [y]) if isinstance(x, mx.array)]

    return call


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in RANDOM])
@pytest.mark.parametrize("portable", [True, False])
def test_function(name, portable, tmp_path):
    f = listed(SAMPLES[name][0])
    first = arrays(name, mx.float32)
    if isinstance(result(f, first), type):
        return
    g = imported(str(tmp_path / "f.mlxfn"), f, first, portable)
    for shapes in others(name) if g else ():
        try:
            args = arrays(name, mx.float32, shapes)
        except ValueError:
            continue
        want, got = result(f, args), result(g, args)
        if not isinstance(want, type) and not isinstance(got, type):
            expect(got, want, False, (name, shapes))


def test_every_function_is_here():
    cases = pathlib.Path(__file__).with_name("any_shape_cases.py").read_text()
    left_out = [*NO_TABLE, *" ".join(UNTRACED).split()]
    traced = {name for name in rows() if name in SAMPLES or re.search(rf"\bmx\.{re.escape(name)}\(", cases)}
    missing = [n for n in rows() if n not in traced and not any(fnmatch.fnmatchcase(n, p) for p in left_out)]
    assert not missing, "a sample in test_dtypes_everywhere.py, a row of any_shape_cases.py, or a reason in UNTRACED"


def sizes_of(shapes):
    """The shapes with one size changed wherever it occurs."""
    for n in sorted({n for shape in shapes if isinstance(shape, tuple) for n in shape}):
        for m in (n + 1, 2 * n, 1):
            yield [s if isinstance(s, str) else tuple(m if k == n else k for k in s) for s in shapes]


def inputs(shapes):
    random = np.random.default_rng(1)
    values = [eval(s, NAMES) if isinstance(s, str) else random.normal(size=s).astype(np.float32) for s in shapes]
    return [mx.array(v) if isinstance(v, np.ndarray) else v for v in values]


@pytest.mark.parametrize("how", ["compile", "portable", "our own"])
@pytest.mark.parametrize("text, shapes", LAYERS, ids=[text for text, _ in LAYERS])
def test_layer(text, shapes, how, tmp_path):
    if text.startswith(DRAW + REFUSED):
        return
    layer = eval(f"nn.{text}", NAMES)
    first = inputs(shapes)
    at = [i for i, x in enumerate(first) if isinstance(x, mx.array)]

    def call(*xs):
        args = list(first)
        for i, x in zip(at, xs, strict=True):
            args[i] = x
        return listed(layer)(*args)

    def of(args):
        return [args[i] for i in at]

    if isinstance(result(call, of(first)), type):
        return
    if how == "compile":
        g = mx.compile(call, shapeless=True)
        g(*of(first))
    else:
        g = imported(str(tmp_path / "f.mlxfn"), call, of(first), how == "portable")
    for changed in sizes_of(shapes) if g else ():
        args = of(inputs(changed))
        want, got = result(call, args), result(g, args)
        if not isinstance(want, type) and not isinstance(got, type):
            expect(got, want, False, (text, changed))
