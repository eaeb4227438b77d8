"""Functions under transforms, traced for any shape with sizes of 0, 1, 2 and 3: at all others they give what they give
untraced, or raise. Examples of sizes 0 and 1 are where a trace is most easily taken for one that fits."""

import pathlib
import sys

import mlx.core as mx
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from any_shape_cases import functions, ramp  # noqa: E402
from test_any_shape_everywhere import imported  # noqa: E402
from test_compile_everywhere import RANDOM, arrays, result  # noqa: E402
from test_dtypes_everywhere import SAMPLES  # noqa: E402


def real(i, s):
    """Numbers of operand i, of which no square matrix is near singular."""
    square = len(s) > 1 and s[-1] == s[-2]
    return ramp(mx, *s) + (4 * mx.eye(s[-1]) if square else i)


def of_case(first):
    def make(shapes):
        return [
            real(i, s)
            if mx.issubdtype(x.dtype, mx.floating)
            else (mx.arange(int(np.prod(s))) % max(1, min(3, *sum(shapes, (3,))))).reshape(s).astype(x.dtype)
            for i, (s, x) in enumerate(zip(shapes, first, strict=True))
        ]

    return make, [x.shape for x in first], [mx.issubdtype(x.dtype, mx.floating) for x in first]


def of_sample(name):
    inputs = SAMPLES[name][2]
    return (
        lambda shapes: arrays(name, mx.float32, shapes),
        [shape for shape, _ in inputs],
        [sort != "index" for _, sort in inputs],
    )


CASES = {name: (f, *of_case(calls[0])) for name, f, calls in functions(mx)}
CASES |= {f"mx.{name}": (SAMPLES[name][0], *of_sample(name)) for name in SAMPLES if name not in RANDOM}


def variations(shapes):
    """The shapes, those with one size changed wherever it occurs, and those with one operand broadcast."""
    yield shapes
    for n in sorted({n for shape in shapes for n in shape}):
        for m in {0, 1, 2, 3, n + 1} - {n}:
            yield [tuple(m if k == n else k for k in shape) for shape in shapes]
    for i, shape in enumerate(shapes):
        for a, n in enumerate(shape):
            if n != 1:
                yield [*shapes[:i], (*shape[:a], 1, *shape[a + 1 :]), *shapes[i + 1 :]]


def flat(y):
    if isinstance(y, (list, tuple)):
        return [b for a in y for b in flat(a)]
    return [y] if isinstance(y, mx.array) else []


def squares(y):
    parts = (mx.real(y), mx.imag(y)) if y.dtype == mx.complex64 else (y,)
    return sum(mx.square(part).astype(mx.float32) for part in parts)


def transforms(f, floats):
    """Name, function, the axis along which each operand is mapped or None."""
    at = [i for i, real in enumerate(floats) if real]
    n = len(floats)

    def value(*x):
        return flat(f(*x))

    def total(g):
        return sum((squares(y).sum() for y in g if mx.issubdtype(y.dtype, mx.inexact)), mx.array(0.0))

    def gradient(*x):
        return flat(mx.grad(lambda *x: total(value(*x)), argnums=at)(*x))

    def directional(*x):
        def of_reals(*reals):
            given = dict(zip(at, reals, strict=True))
            return value(*(given.get(i, x[i]) for i in range(n)))

        return mx.jvp(of_reals, [x[i] for i in at], [x[i] * 0.5 for i in at])[1]

    mapped = mx.vmap(value)
    yield "value", value, [None] * n
    yield "vmap", mapped, [0] * n
    yield "vmap along the last", mx.vmap(value, in_axes=-1), [-1] * n
    for i in range(n if n > 1 else 0):
        axes = [0 if k == i else None for k in range(n)]
        yield f"vmap of {i}", mx.vmap(value, in_axes=tuple(axes)), axes
    if at:
        yield "grad", gradient, [None] * n
        yield "jvp", directional, [None] * n
        yield "vmap of grad", mx.vmap(gradient), [0] * n
        yield "vmap of jvp", mx.vmap(directional, in_axes=-1), [-1] * n
        yield "grad of vmap", lambda *x: flat(mx.grad(lambda *x: total(mapped(*x)), argnums=at)(*x)), [0] * n


def stacked(x, count, axis):
    """A batch of `count` of x, which differ where x is real."""
    step = 0.1 if mx.issubdtype(x.dtype, mx.inexact) else 0
    return mx.stack([x + (step * i if step else 0) for i in range(3)], axis=axis)[
        tuple(slice(count) if a == axis % (x.ndim + 1) else slice(None) for a in range(x.ndim + 1))
    ]


def calls(make, shapes, g, axes):
    """Operands and what g makes of them, for each of the shapes that it takes; as they are in three batches."""
    for k, changed in enumerate(variations(shapes)):
        try:
            x = make(changed)
        except ValueError:
            continue
        mapped = any(axis is not None for axis in axes)
        for count in ((3, 1, 0) if k == 0 else (2,)) if mapped else (None,):
            args = [y if axis is None else stacked(y, count, axis) for y, axis in zip(x, axes, strict=True)]
            yield f"{changed} x {count}", args, result(g, args)


def agree(got, want, what):
    assert len(got) == len(want), what
    for a, b in zip(got, want, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        a, b = np.array(a), np.array(b)
        scale = max(1, np.abs(b[np.isfinite(b)]).max(initial=0))
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4 * scale, err_msg=str(what))


def check(name, trace, firsts=None, of=None):
    f, make, shapes, floats = CASES[name]
    for what, g, axes in transforms(f, floats):
        if of and what not in of:
            continue
        each = list(calls(make, shapes, g, axes))
        for first, args, _ in [c for c in each if not isinstance(c[2], type)][:firsts]:
            traced = trace(g, args)
            for other, xs, y in each if traced else ():
                got = result(traced, xs)
                if isinstance(y, type):
                    continue
                if isinstance(got, type):
                    assert trace is not compiled, (what, first, other, got)
                else:
                    agree(got, y, (what, first, other))


def compiled(g, args):
    traced = mx.compile(g, shapeless=True)
    assert not isinstance(result(traced, args), type)
    return traced


READ = {"mx.from_dlpack", "mx.unique"}
REPEATED = {"mx.linalg.eig", "mx.linalg.eigh"}  # eigenvalues, where their vectors have no derivative
NAMES = [name for name in CASES if name not in READ | REPEATED]


@pytest.mark.filterwarnings("ignore:.*out of range:RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_compiled(name):
    check(name, compiled, 3, {"value", "vmap of grad"})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*out of range:RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_compiled_in_every_way(name):
    check(name, compiled, 5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*out of range:RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_exported(name, tmp_path):
    """As far as they are exported; indices out of range keep their meaning in files of our own alone."""
    path = str(tmp_path / "f.mlxfn")
    check(name, lambda g, args: imported(path, g, args, False), 3, {"value", "grad", "vmap", "vmap of grad"})
    check(name, lambda g, args: imported(path, g, args, True), 3, {"value"})


def grown(shapes):
    """The shapes, and those with one size of one operand another."""
    yield shapes
    for i, shape in enumerate(shapes):
        for a, n in enumerate(shape):
            for m in {0, 1, 3} - {n}:
                yield [*shapes[:i], (*shape[:a], m, *shape[a + 1 :]), *shapes[i + 1 :]]


@pytest.mark.filterwarnings("ignore:.*out of range:RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_refused_in_every_way(name, tmp_path):
    """What the function refuses at other sizes no trace gives elements for."""
    f, make, shapes, _ = CASES[name]
    path = str(tmp_path / "f.mlxfn")

    def g(*x):
        return flat(f(*x))

    def each(variations):
        for s in variations:
            try:
                x = make(s)
            except ValueError:
                continue
            yield s, x, result(g, x)

    others = [(s, x) for s, x, y in each(grown(shapes)) if isinstance(y, type)]
    ones = [tuple(min(n, 1) for n in shape) for shape in shapes]
    for first, args, y in each([shapes, ones, *variations(shapes)][:4]) if others else ():
        if isinstance(y, type):
            continue
        for trace in (compiled, lambda *a: imported(path, *a, True), lambda *a: imported(path, *a, False)):
            h = trace(g, args)
            for other, x in others if h else ():
                got = result(h, x)
                assert isinstance(got, type) or not any(y.size for y in got), (first, other, [y.shape for y in got])
