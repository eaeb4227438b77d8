"""Recurrent layers on a GPU, beside float64 on the CPU; skipped where there is none."""

import mlx.core as mx
import numpy as np
import pytest
from test_recurrent import GATES, TOLERANCE, by_numpy, choices, chosen, exact, operands

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
# Several blocks of sequences and of units, rows that are not whole vectors, more columns than are in shared memory.
SHAPES = [(1, 1, 1), (2, 3, 16), (5, 4, 33), (33, 2, 20), (70, 2, 10), (3, 2, 520), (1, 1, 1030), (0, 3, 4), (3, 0, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_states(kind, shape):
    for dtype, tolerance in TOLERANCE.items():
        for which in choices(kind):
            with mx.stream(mx.cpu):
                x = chosen(operands(kind, *shape, dtype), which)
                mx.eval([a for a in x if a is not None])
                want = by_numpy(kind, *x)
            with mx.stream(mx.gpu):
                got = mx._recurrent(kind, *x)
                mx.eval(got)
            for g, w in zip(got, want, strict=True):
                assert g.dtype == dtype and g.shape == w.shape
                np.testing.assert_allclose(exact(g), w, rtol=0, atol=tolerance * max(1, shape[1] / 2))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1] and s[2] < 500], ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_derivatives(kind, shape):
    for dtype in (mx.float32, mx.float64, mx.bfloat16):
        tolerance = TOLERANCE[dtype]
        with mx.stream(mx.cpu):
            x = operands(kind, *shape, dtype)
            at = [i for i, a in enumerate(x) if a is not None]
            given = [x[i] for i in at]
            ct = [mx.cos(mx.arange(y.size)).reshape(y.shape).astype(dtype) for y in mx._recurrent(kind, *x)]
            wide = [a.astype(mx.float64) for a in given]
            mx.eval(given, ct, wide)

        def f(*given):
            all = [None] * 5
            for i, a in zip(at, given):  # noqa: B023
                all[i] = a
            return mx._recurrent(kind, *all)

        with mx.stream(mx.cpu):
            want = mx.vjp(f, wide, [c.astype(mx.float64) for c in ct])[1]
            mx.eval(want)
        with mx.stream(mx.gpu):
            got = mx.vjp(f, given, ct)[1]
            mx.eval(got)
        for g, w in zip(got, want, strict=True):
            scale = 4 * tolerance * max(1, np.abs(exact(w)).max(initial=0))
            np.testing.assert_allclose(exact(g), exact(w), rtol=0, atol=scale)


def test_layouts():
    """Weights and states whose rows are not rows of memory, or begin at no multiple of 16 bytes."""
    for kind in GATES:
        with mx.stream(mx.cpu):
            x = operands(kind, 6, 3, 8, mx.float32)
            mx.eval([a for a in x if a is not None])
            want = by_numpy(kind, *x)
        with mx.stream(mx.gpu):
            w = mx.contiguous(x[1].T).T
            h = mx.concatenate([mx.zeros(1), x[3].flatten()])[1:].reshape(6, 8)
            got = mx._recurrent(kind, x[0], w, x[2], h, x[4])
            mx.eval(got)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(exact(g), w, rtol=0, atol=4e-6)
