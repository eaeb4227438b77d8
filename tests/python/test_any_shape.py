"""Functions traced for one shape are right for others: compiled, and exported and imported.

With MLX_UPSTREAM_PYTHON test_export_ops.py exchanges the same functions with the `mlx` package.
"""

import pathlib
import sys
import warnings

import mlx.core as mx
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from any_shape_cases import functions  # noqa: E402

CASES = {name: (f, calls) for name, f, calls in functions(mx)}
# Put in terms of other operations in files, these differ within the rounding of the type.
ROUNDED = {
    "attention", "conv", "dequantize", "einsum", "gradient", "layer_norm", "norm", "rms_norm", "rope", "vmap",
    "pinv", "det", "slogdet", "solve", "solve_triangular",
}  # fmt: skip


def flat(y):
    return [b for a in y for b in flat(a)] if isinstance(y, (list, tuple)) else [y]


def same(name, got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = np.array(a), np.array(b)
        if ROUNDED & set(name.split()):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5 * max(1, np.abs(b).max(initial=0)))
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CASES)
def test_compiled_once(name):
    f, calls = CASES[name]
    compiled = mx.compile(lambda *xs: flat(f(*xs)), shapeless=True)
    for xs in calls:
        same(name, compiled(*xs), flat(f(*xs)))
    assert ": 1 trace" in compiled.explain().splitlines()[0]


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_exported(name, portable, tmp_path):
    f, calls = CASES[name]
    path = str(tmp_path / "f.mlxfn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.export_function(path, lambda *xs: flat(f(*xs)), *calls[0], shapeless=True, portable=portable)
    g = mx.import_function(path)
    for xs in calls:
        same(name, g(*xs), flat(f(*xs)))
    again = mx.compile(g, shapeless=True)
    for xs in calls:
        same(name, again(*xs), flat(f(*xs)))
