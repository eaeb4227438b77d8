"""Every function of arrays, compiled: what it gives as it is, for the traced shapes and for others."""

import mlx.core as mx
import numpy as np
import pytest
from test_dtypes_everywhere import SAMPLES, values

TYPES = [mx.float32, mx.float16, mx.int32, mx.complex64, mx.bool_]
# What draws from the library's state gives the same numbers again, compiled, and others as it is.
RANDOM = [name for name in SAMPLES if name.startswith("random.")]
# Sizes that the program gave may not fit; what depends on elements has no value in a graph, unless there are none.
REFUSED = {"reshape", "unique"}


def arrays(name, t, shapes=None):
    _, _, inputs = SAMPLES[name]
    shapes = shapes or [shape for shape, _ in inputs]
    wide = [values(t, shape, i, sort) for i, (shape, (_, sort)) in enumerate(zip(shapes, inputs, strict=True))]
    return [mx.array(x.tolist(), t).reshape(x.shape) for x in wide]


def result(f, args):
    """The results as a list of arrays, or the type of what was raised."""
    try:
        y = f(*args)
        y = list(y) if isinstance(y, (list, tuple)) else [y]
        y = [x for x in y if isinstance(x, mx.array)]
        mx.eval(y)
        return y
    except (ValueError, TypeError, IndexError, RuntimeError) as e:
        return type(e)


def bits(x):
    return np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)


def expect(got, want, exact, what):
    if isinstance(want, type) or isinstance(got, type):
        # A shape that depends on elements is refused while tracing.
        assert isinstance(got, type), f"{what}: gave {got}, not {want}"
        return
    assert len(got) == len(want), what
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype), what
        if exact:
            np.testing.assert_array_equal(bits(g), bits(w), err_msg=str(what))
        else:
            np.testing.assert_allclose(bits(g), bits(w), rtol=1e-3, atol=1e-4, err_msg=str(what))


def gradient(f):
    def loss(*args):
        y = f(*args)
        y = y if isinstance(y, (list, tuple)) else [y]
        return sum((mx.abs(x) if x.dtype == mx.complex64 else x).astype(mx.float32).sum() for x in y)

    return mx.grad(loss)


def others(name):
    """Shapes of the sample with one size changed wherever it occurs, and with a leading axis more."""
    shapes = [shape for shape, _ in SAMPLES[name][2]]
    for n in sorted({n for shape in shapes for n in shape}):
        for m in (n + 1, 2 * n, 1, 0):
            yield [tuple(m if k == n else k for k in shape) for shape in shapes]
    yield [(2, *shape) for shape in shapes]


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in RANDOM])
def test_compiled(name):
    f = SAMPLES[name][0]
    compiled = mx.compile(lambda *args: f(*args))
    for t in TYPES:
        args = arrays(name, t)
        want = result(f, args)
        if isinstance(want, type):
            continue
        got = result(compiled, args)
        if isinstance(got, type) and t == TYPES[0]:
            with pytest.raises((ValueError, RuntimeError), match="compil|transform|trac"):
                compiled(*args)
            return
        expect(got, want, True, (name, t))
    args = arrays(name, mx.float32)
    expect(result(mx.compile(gradient(f)), args), result(gradient(f), args), True, (name, "gradient"))


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in RANDOM])
@pytest.mark.parametrize("what", ["value", "gradient"])
def test_for_any_shape(name, what):
    f = SAMPLES[name][0]
    g = (lambda *args: f(*args)) if what == "value" else gradient(f)
    first = arrays(name, mx.float32)
    wanted = result(g, first)
    for shapes in others(name):
        try:
            args = arrays(name, mx.float32, shapes)
        except ValueError:
            continue
        want = result(g, args)
        for (here, _), (there, other) in [((first, wanted), (args, want)), ((args, want), (first, wanted))]:
            compiled = mx.compile(g, shapeless=True)
            if isinstance(result(compiled, here), type) or isinstance(other, type):
                continue
            got = result(compiled, there)
            if isinstance(got, type) and name in REFUSED:
                continue
            assert not isinstance(got, type), (name, what, shapes, got)
            expect(got, other, False, (name, what, shapes))
