"""Recurrent layers as one operation: values beside NumPy in float64, derivatives beside the steps one by one."""

import os

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from process import passes_at_level, printed_by_threads
from test_fast import check_derivatives, check_vmap, exact

GATES = {"rnn": 1, "gru": 3, "lstm": 4}
# sequences, steps, units: vectors and packed sequences, those of several parts; units of less than a register and of
# more than a part has, of more than one stretch of a product; nothing of each
SHAPES = [
    (1, 1, 1),
    (1, 6, 3),
    (2, 4, 16),
    (4, 5, 33),
    (5, 3, 2),
    (6, 4, 64),
    (7, 3, 70),
    (24, 2, 17),
    (61, 2, 130),
    (1, 2, 1030),
    (9, 2, 600),
    (0, 3, 4),
    (3, 0, 4),
]
TOLERANCE = {mx.float64: 1e-12, mx.float32: 2e-6, mx.float16: 4e-3, mx.bfloat16: 3e-2}


def operands(kind, b, t, h, dtype=mx.float64, seed=0):
    """x, weights, bias, hidden, cell; those that the kind has not are None."""
    r = np.random.default_rng(seed)
    some = [r.standard_normal((b, t, GATES[kind] * h)), r.standard_normal((GATES[kind] * h, h)) / max(h, 1) ** 0.5]
    some += [r.standard_normal(h), r.standard_normal((b, h)), r.standard_normal((b, h))]
    x = [mx.array(a, mx.float64).astype(dtype) for a in some]
    return [*x[:2], x[2] if kind == "gru" else None, x[3], x[4] if kind == "lstm" else None]


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def by_numpy(kind, x, w, b, h, c):
    x, w, b, h, c = (None if a is None else exact(a) for a in (x, w, b, h, c))
    lead = np.broadcast_shapes(x.shape[:-2], *(a.shape[:-1] for a in (h, c) if a is not None))
    units = w.shape[1]
    h, c = (np.zeros((*lead, units)) if a is None else np.broadcast_to(a, (*lead, units)) for a in (h, c))
    states, cells = [], []
    for t in range(x.shape[-2]):
        u, s = x[..., t, :], h @ w.T
        if kind == "rnn":
            h = np.tanh(u + s)
        elif kind == "gru":
            (ur, uz, un), (sr, sz, sn) = np.split(u, 3, -1), np.split(s, 3, -1)
            r, z = sigmoid(ur + sr), sigmoid(uz + sz)
            n = np.tanh(un + r * (sn if b is None else sn + b))
            h = (1 - z) * n + z * h
        else:
            i, f, g, o = np.split(u + s, 4, -1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
        states.append(h)
        cells.append(c)
    empty = np.zeros((*lead, 0, units))
    y = [np.stack(states, -2) if states else empty, np.stack(cells, -2) if cells else empty]
    return y[: 1 + (kind == "lstm")]


def by_steps(kind, x, w, b, h, c):
    """The layer as other operations, for derivatives."""
    states, cells = [], []
    for u in mx.unstack(x, axis=-2):
        s = u if h is None else h @ w.T
        if kind == "rnn":
            h = mx.tanh(u if h is None else u + s)
        elif kind == "gru":
            h = mx.zeros((*u.shape[:-1], w.shape[1]), u.dtype) if h is None else h
            (ur, uz, un), (sr, sz, sn) = mx.split(u, 3, -1), mx.split(h @ w.T, 3, -1)
            r, z = mx.sigmoid(ur + sr), mx.sigmoid(uz + sz)
            h = (1 - z) * mx.tanh(un + r * (sn if b is None else sn + b)) + z * h
        else:
            i, f, g, o = mx.split(u if h is None else u + s, 4, -1)
            written = mx.sigmoid(i) * mx.tanh(g)
            c = written if c is None else mx.sigmoid(f) * c + written
            h = mx.sigmoid(o) * mx.tanh(c)
        states.append(h)
        cells.append(c)
    return [mx.stack(s, -2) for s in (states, cells)[: 1 + (kind == "lstm")]]


def choices(kind):
    """Which of the bias and the first states are there."""
    yield (True, True, True)
    yield (False, False, False)
    if kind == "lstm":
        yield (False, True, False)
        yield (False, False, True)
    if kind == "gru":
        yield (True, False, False)


def chosen(x, which):
    return [*x[:2], *(a if there else None for a, there in zip(x[2:], which))]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_states(kind, shape):
    for dtype, tolerance in TOLERANCE.items():
        for which in choices(kind):
            x = chosen(operands(kind, *shape, dtype), which)
            got, want = mx._recurrent(kind, *x), by_numpy(kind, *x)
            assert len(got) == len(want)
            for g, w in zip(got, want):
                assert g.dtype == dtype and g.shape == w.shape
                np.testing.assert_allclose(exact(g), w, rtol=0, atol=tolerance * max(1, shape[1] / 2))


@pytest.mark.parametrize("shape", [s for s in SHAPES if s[1] and s[2] < 600], ids=str)
@pytest.mark.parametrize("kind", GATES)
def test_derivatives_beside_the_steps(kind, shape):
    for dtype, tolerance in TOLERANCE.items():
        for which in choices(kind):
            x = chosen(operands(kind, *shape, dtype), which)
            at = [i for i, a in enumerate(x) if a is not None]

            def f(of, *given, x=x, at=at):
                all = list(x)
                for i, a in zip(at, given):
                    all[i] = a
                return of(kind, *all)

            given = [x[i] for i in at]
            wide = [a.astype(mx.float64) for a in given]
            ct = [mx.cos(mx.arange(y.size, dtype=mx.float64)).reshape(y.shape) for y in f(mx._recurrent, *wide)]
            got = mx.vjp(lambda *a, f=f: f(mx._recurrent, *a), given, [c.astype(dtype) for c in ct])[1]
            want = mx.vjp(lambda *a, f=f: f(by_steps, *a), wide, [c.astype(dtype).astype(mx.float64) for c in ct])[1]
            for g, w in zip(got, want):
                assert g.dtype == dtype and g.shape == w.shape
                scale = 4 * tolerance * max(1, np.abs(exact(w)).max(initial=0))
                np.testing.assert_allclose(exact(g), exact(w), rtol=0, atol=scale)


@pytest.mark.parametrize("kind", GATES)
def test_one_cotangent(kind):
    x = operands(kind, 3, 4, 5)
    for k in range(1 + (kind == "lstm")):
        got = mx.grad(lambda a, w, k=k: mx.sin(mx._recurrent(kind, a, w, *x[2:])[k]).sum(), (0, 1))(*x[:2])
        want = mx.grad(lambda a, w, k=k: mx.sin(by_steps(kind, a, w, *x[2:])[k]).sum(), (0, 1))(*x[:2])
        for g, w in zip(got, want):
            np.testing.assert_allclose(exact(g), exact(w), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", GATES)
def test_rules(kind):
    x = operands(kind, 2, 3, 3)
    given = [a for a in x if a is not None]

    def f(*given, k=0):
        rest = iter(given)
        return mx._recurrent(kind, *(a if a is None else next(rest) for a in x))[k]

    for k in range(1 + (kind == "lstm")):
        check_derivatives(lambda *a, k=k: f(*a, k=k), *given)
        more = [mx.stack([a, mx.sin(a), a * 0.5], 1) for a in given]
        check_vmap(lambda *a, k=k: f(*a, k=k), more, [1] * len(given))
        for i in range(len(given)):
            some = [m if j == i else a for j, (m, a) in enumerate(zip(more, given))]
            check_vmap(lambda *a, k=k: f(*a, k=k), some, [1 if j == i else None for j in range(len(given))])
    for i in range(len(given)):  # of what goes back
        some = [mx.stack([a, mx.sin(a)]) if j == i else a for j, a in enumerate(given)]
        g = mx.grad(lambda *a: mx.sin(f(*a)).sum(), argnums=0)
        check_vmap(g, some, [0 if j == i else None for j in range(len(given))])


def test_states_of_other_shapes():
    """Of all sequences one, or of one sequence some; layouts of all kinds; no axis in front, and several."""
    for kind in GATES:
        x = operands(kind, 6, 3, 4)
        first = [None if a is None else a[0] for a in x[3:]]
        rows = [None if a is None else a.reshape(2, 3, 4) for a in x[3:]]
        for lead, states in (
            ((6,), first),
            ((2, 3), first),
            ((2, 3), rows),
            ((2, 1), rows),
            ((1, 3), rows),
            ((), rows),
        ):
            size = int(np.prod(lead))
            u = x[0][:size].reshape(*lead, 3, -1)
            some = [u, x[1], x[2], *states]
            for g, w in zip(mx._recurrent(kind, *some), by_numpy(kind, *some)):
                assert g.shape == w.shape
                np.testing.assert_allclose(exact(g), w, rtol=0, atol=1e-12)
        turned = [mx.contiguous(x[0].transpose(2, 1, 0)).transpose(2, 1, 0), mx.contiguous(x[1].T).T, x[2]]
        turned += [None if a is None else mx.concatenate([a, a], 1)[::-1, ::2] for a in x[3:]]
        for g, w in zip(mx._recurrent(kind, *turned), by_numpy(kind, *turned)):
            np.testing.assert_allclose(exact(g), w, rtol=0, atol=1e-12)


def test_types_meet():
    x = operands("lstm", 2, 3, 4, mx.float16)
    assert [y.dtype for y in mx._recurrent("lstm", *x[:4], x[4].astype(mx.float32))] == [mx.float32] * 2
    whole = (mx.ones((2, 8), mx.int32), mx.ones((8, 2), mx.int32), None, None, None)
    assert mx._recurrent("lstm", *whole)[0].dtype == mx.float32
    z = [None if a is None else a.astype(mx.complex64) for a in operands("rnn", 2, 3, 4)]
    np.testing.assert_allclose(np.array(mx._recurrent("rnn", *z)[0]), by_numpy("rnn", *operands("rnn", 2, 3, 4))[0],
                               atol=1e-5)  # fmt: skip


@pytest.mark.parametrize("kind", GATES)
def test_states_that_are_not_numbers(kind):
    """They stay in their sequence, and come after their step; gates that are far out are 0 or 1."""
    x = operands(kind, 6, 4, 5, mx.float32)
    u = np.array(x[0])
    u[1, 2, 0] = np.nan
    u[2] = np.where(u[2] > 0, np.inf, -np.inf)
    u[3] = np.where(u[3] > 0, 3e38, -3e38)
    some = [mx.array(u), *x[1:]]
    with np.errstate(invalid="ignore"):
        want = by_numpy(kind, *some)
    for g, w in zip(mx._recurrent(kind, *some), want):
        np.testing.assert_allclose(exact(g), w, rtol=0, atol=1e-5)
        assert np.isnan(w[1, 2:]).any() and not np.isnan(w[[0, 2, 3, 4, 5]]).any() and not np.isnan(w[1, :2]).any()


def test_refused():
    x, w, _, h, c = operands("lstm", 2, 3, 4)
    b = mx.zeros(4)
    wrong = [
        ("lstn", x, w, None, h, c),
        ("gru", x, w, None, h, None),
        ("lstm", x[0, 0], w, None, None, None),
        ("lstm", x[..., :-1], w, None, None, None),
        ("lstm", x, w[:-1], None, None, None),
        ("lstm", x, w[0], None, None, None),
        ("lstm", x, w, b, None, None),
        ("rnn", x, w, None, None, c),
        ("lstm", x, w, None, h[:, :3], c),
        ("lstm", x, w, None, mx.zeros((3, 4)), c),
        ("lstm", x, w, None, mx.zeros((3, 4)), mx.zeros((2, 4))),
        ("lstm", x, w, None, mx.array(1.0), None),
        ("gru", mx.zeros((3, 12)), mx.zeros((12, 4)), mx.zeros(3), None, None),
    ]
    for args in wrong:
        with pytest.raises(ValueError, match=r"\[recurrent\] expected .*, got|\[recurrent\] expected a bias for"):
            mx._recurrent(*args)
    for args in (("lstm", x, w, None, None), ("lstm", None, w, None, None, None), (3, x, w, None, None, None)):
        with pytest.raises(TypeError):
            mx._recurrent(*args)


@pytest.mark.parametrize("kind", GATES)
def test_layers_are_the_operation(kind):
    """Compiled and not, what the layers give is what it does with their products."""
    layer = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](7, 5)
    x = mx.random.normal((3, 6, 7))
    names = ("Wxh", "Whh", "bias") if kind == "rnn" else ("Wx", "Wh", "b" if kind == "gru" else "bias")
    wx, wh, b = (layer[name] for name in names)
    want = by_steps(kind, x @ wx.T + b, wh, layer.get("bhn"), None, None)
    for f in (layer, mx.compile(layer)):
        got = f(x)
        for g, w in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            np.testing.assert_allclose(np.array(g), np.array(w), rtol=0, atol=1e-6)


BITS = """
import hashlib
import mlx.core as mx
h = hashlib.sha256()
for kind, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
    for b, t, n in ((1, 5, 300), (4, 3, 700), (5, 3, 70), (60, 4, 200), (200, 3, 33)):
        x, w, s, c = (mx.random.normal(z, key=mx.random.key(i)) * 0.3 for i, z in
                      enumerate(((b, t, gates * n), (gates * n, n), (b, n), (b, t, n))))
        f = lambda x, w, s: mx._recurrent(kind, x, w, None, s, None)[0]
        y, d = mx.vjp(f, [x, w, s], [c])
        for a in (*y, *d[:1]):
            h.update(bytes(memoryview(a)))
print(h.hexdigest())
"""


def test_bits_do_not_depend_on_threads():
    assert len(printed_by_threads(BITS)) == 1


@pytest.mark.skipif("MLX_CPU" in os.environ, reason="is one of them")
@pytest.mark.parametrize("level", ["base", "avx2", "avx512"])
def test_every_level_of_instructions(level):
    """Where the machine has them; otherwise the next below."""
    passes_at_level(__file__, level)
