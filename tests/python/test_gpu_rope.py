"""Rotary position embeddings on a GPU, beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_gpu import FLOATS, launches
from test_gpu_reductions import close
from test_gpu_rows import normal

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
# shape, dims: all vectors aligned, none, what is left behind, one position
FORMS = [
    ((2, 3, 5, 16), 16),
    ((2, 3, 5, 16), 8),
    ((2, 7, 6), 6),
    ((1, 4, 1, 64), 64),
    ((3, 2, 9, 21), 10),
    ((2, 1, 3, 40), 24),
    ((1, 33, 1030), 1026),
    ((2, 0, 8), 8),
]


def rope(x, dims, traditional, offset=0, freqs=None, base=10000.0, scale=1.0):
    base = None if freqs is not None else base
    return mx.fast.rope(x, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs)


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_forms(dtype, form, traditional):
    shape, dims = form
    x = normal(dtype, *shape)
    freqs = mx.array(np.linspace(1, 300, dims // 2).astype(np.float32))
    offsets = mx.array(np.arange(shape[0]) * 7 + 3)
    close(lambda x: rope(x, dims, traditional), x)
    close(lambda x: rope(x, dims, traditional, 1000, base=500.0, scale=0.3), x)
    close(lambda x, o: rope(x, dims, traditional, o), x, mx.array(5))
    close(lambda x, o: rope(x, dims, traditional, o), x, offsets)
    close(lambda x, o, f: rope(x, dims, traditional, o, f), x, offsets, freqs)
    close(lambda x, f: rope(x, dims, traditional, 2, f[::-1]), x, freqs)


VIEWS = {
    "heads behind positions": lambda x: x.transpose(0, 2, 1, 3),
    "turned": lambda x: x.T,
    "sliced": lambda x: x[:, 1:, ::2, 4:],
    "one of all": lambda x: mx.broadcast_to(x[:1], x.shape),
    "odd offset": lambda x: x.reshape(-1)[3 : 3 + 2 * 8 * 12 * 7].reshape(2, 8, 7, 12),
    "deep": lambda x: x.reshape(3, 2, 2, 2, 2, 3, 2, 2, 2, 2).transpose(1, 0, 3, 2, 5, 4, 7, 6, 8, 9),
}


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_layouts(dtype, view, traditional):
    x = normal(dtype, 3, 8, 12, 16) if view != "deep" else normal(dtype, 3, 2, 2, 2, 2, 3, 2, 2, 2, 2)
    dims = {"turned": 2, "deep": 2}.get(view, 8)
    close(lambda x: rope(VIEWS[view](x), dims, traditional, 3), x)


def test_derivatives():
    x, v, f = normal(mx.float32, 2, 3, 4, 8), normal(mx.float32, 2, 3, 4, 8, seed=1), mx.arange(1.0, 5.0)
    close(lambda x, v: mx.vjp(lambda x: rope(x, 8, False, 2), [x], [v])[1][0], x, v)
    close(lambda x, v: mx.jvp(lambda x: rope(x, 6, True, 2), [x], [v])[1][0], x, v)
    close(lambda x, f, v: mx.vjp(lambda f: rope(x, 8, True, 2, f), [f], [v])[1][0], x, f, v)
    close(lambda x: mx.vmap(lambda x, o: rope(x, 8, True, o), in_axes=(0, 0))(x, mx.array([1, 2])), x[:, None])


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_queries_with_keys(dtype, traditional):
    """One launch for the same angles, whatever rows there are; the bits of each by itself."""
    q, k = normal(dtype, 2, 3, 8, 64).transpose(0, 2, 1, 3), normal(dtype, 2, 2, 3, 64)
    freqs = mx.array(np.linspace(1, 300, 32).astype(np.float32))
    mx.eval(q, k, freqs)
    offsets = mx.array([7, 4], mx.int64)
    with mx.stream(mx.gpu):
        for first, second, together in (
            ((64, traditional, 9), (64, traditional, 9), True),
            ((48, traditional, offsets), (48, traditional, offsets), True),
            ((64, traditional, 9, freqs), (64, traditional, 9, freqs), dtype != mx.float64),  # which is cast
            ((64, traditional, 9), (64, traditional, 8), False),
            ((64, traditional, 9), (48, traditional, 9), False),
            ((64, traditional, 9), (64, not traditional, 9), False),
            ((64, traditional, 9), (64, traditional, offsets), False),
            ((64, traditional, 9, freqs), (64, traditional, 9), False),
        ):
            mx.eval(rope(q, *first), rope(q, *second))  # offsets are on the device from then on
            y, n = launches(lambda q=q, a=first: rope(q, *a))
            z, more = launches(lambda k=k, a=second: rope(k, *a))
            (both_y, both_z), m = launches(lambda q=q, k=k, a=first, b=second: [rope(q, *a), rope(k, *b)])
            assert mx.array_equal(y, both_y).item() and mx.array_equal(z, both_z).item()
            assert n is None or m == n + more - together
        three = [rope(x, 64, traditional, 9) for x in (q, k, k[:, :1])]
        mx.eval(three)
        assert all(mx.array_equal(rope(x, 64, traditional, 9), y).item() for x, y in zip((q, k, k[:, :1]), three))


def test_an_offset_that_could_not_be_computed():
    x = mx.ones((1, 2, 4, 64))
    with mx.stream(mx.gpu):
        offset = mx.linalg.inv(mx.zeros((1, 1)))[0, 0].astype(mx.int32)
        with pytest.raises(RuntimeError, match="singular"):
            mx.eval(rope(x, 64, False, offset), rope(x, 64, False, offset))


HEADS = {"q": 8, "k": 4, "v": 4}


def projections(bits, dtype, head, width=1024, bias=False):
    """Linear layers of one word's queries, keys and values."""
    layers = {}
    for i, (name, heads) in enumerate(HEADS.items()):
        mx.random.seed(i)
        layer = nn.Linear(width, heads * head, bias=bias)
        layer = nn.QuantizedLinear.from_linear(layer, 64, bits) if bits else layer
        layer.set_dtype(dtype)
        layers[name] = layer
        mx.eval(layer.parameters())
    return layers


def word(layers, x, head, caches, at, rope, look):
    """Queries turned, and keys and values of a word put behind those before; `look` sees what is on the way."""
    made = {n: layers[n](x).reshape(1, 1, h, head).transpose(0, 2, 1, 3) for n, h in HEADS.items()}
    look(*made.values())
    made["q"], made["k"] = rope(made["q"]), rope(made["k"])
    look(made["q"], made["k"])
    for name, cache in zip("kv", caches, strict=True):
        cache[:, :, at : at + 1] = made[name]
    return [made["q"], *caches]


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("bits", [None, 4, 8])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_heads_turned_by_the_launch_that_makes_them(dtype, bits, traditional):
    """And put where they belong: the bits of one operation after the other."""
    for head, bias in ((16, False), (64, True), (128, False)):
        layers = projections(bits, dtype, head, bias=bias)
        x = normal(dtype, 1, 1, 1024)
        first = [normal(dtype, 1, HEADS[n], 12, head) for n in "kv"]
        norm = normal(dtype, 1024)
        mx.eval(x, first, norm)

        def run(look, head=head, layers=layers, x=x, first=first, norm=norm):
            caches = [c + 0 for c in first]
            mx.eval(caches)
            h = mx.fast.rms_norm(x, norm, 1e-5)
            look(h)
            rope = lambda y: mx.fast.rope(  # noqa: E731
                y, head, traditional=traditional, base=10000, scale=0.5, offset=9
            )
            return lambda: word(layers, h, head, caches, 5, rope, look)

        with mx.stream(mx.gpu):
            mx.eval(expected := run(mx.eval)())
            got, n = launches(run(lambda *_: None))
            assert n in (None, 1)
            assert all(mx.array_equal(a, b).item() for a, b in zip(got, expected, strict=True))


@pytest.mark.parametrize("bits", [None, 4])
def test_heads_that_somebody_else_looks_at(bits):
    """Results that are wanted as they are, turned otherwise, or written over what they are made of, stay right."""
    head, dtype = 64, mx.bfloat16
    layers = projections(bits, dtype, head)
    x = normal(dtype, 1, 1, 1024)
    freqs = mx.abs(normal(mx.float32, head // 2)) + 1
    offset = mx.array([3, 4])[:1] + 1
    mx.eval(x, freqs, offset)
    ropes = [
        lambda y: mx.fast.rope(y, head, traditional=False, base=100, scale=1, offset=3),
        lambda y: mx.fast.rope(y, head // 2, traditional=False, base=100, scale=1, offset=3),
        lambda y: mx.fast.rope(y, head, traditional=False, base=None, scale=1, offset=3, freqs=freqs),
        lambda y: mx.fast.rope(y, head, traditional=False, base=100, scale=1, offset=offset),
        lambda y: mx.fast.rope(ropes[0](y), head, traditional=True, base=100, scale=1, offset=4),
        lambda y: ropes[0](y[:, :, :, ::-1]),
        lambda y: y,
    ]
    first = [normal(dtype, 1, HEADS[n], 12, head) for n in "kv"]
    mx.eval(first)

    def kept(arrays):
        seen = []
        return seen, lambda *a: seen.extend(a[:1] if arrays == 1 else a)

    with mx.stream(mx.gpu):
        for rope in ropes:
            results = []
            for look in (lambda *a: mx.eval(a), lambda *_: None):
                caches = [c + 0 for c in first]
                mx.eval(caches)
                mx.eval(y := word(layers, x, head, caches, 5, rope, look))
                results.append(y)
            assert all(mx.array_equal(a, b).item() for a, b in zip(*results, strict=True))
            for arrays in (1, 3):  # looked at once more
                caches = [c + 0 for c in first]
                mx.eval(caches)
                seen, look = kept(arrays)
                y = word(layers, x, head, caches, 5, rope, look)
                mx.eval(y, seen)
                plain = [layers[n](x).reshape(1, 1, h, head).transpose(0, 2, 1, 3) for n, h in HEADS.items()]
                mx.eval(plain)
                assert all(mx.array_equal(a, b).item() for a, b in zip(y, results[0], strict=True))
                assert all(mx.array_equal(a, b).item() for a, b in zip(seen[:arrays], plain, strict=False))
        # two that go to one place
        norm = normal(dtype, 1024)
        mx.eval(norm)
        for places in ((slice(0, 1), slice(0, 1)), (slice(2, 3), slice(5, 6))):
            results = []
            for look in (mx.eval, lambda *_: None):
                cache = first[0] + 0
                mx.eval(cache)
                h = mx.fast.rms_norm(x, norm, 1e-5)
                look(h)
                k, v = (layers[n](h).reshape(1, 1, HEADS[n], head).transpose(0, 2, 1, 3) for n in "kv")
                look([k, v])
                cache[:, :, places[0]] = ropes[0](k)
                look(cache)
                cache[:, :, places[1]] = v
                del k, v
                mx.eval(cache)
                results.append(cache)
            assert mx.array_equal(*results).item()
        # the words before are what is multiplied
        narrow = nn.Linear(512, 512, bias=False)
        narrow.set_dtype(dtype)
        narrow = nn.QuantizedLinear.from_linear(narrow, 64, bits) if bits else narrow
        mx.eval(narrow.parameters())
        lines = normal(dtype, 4, 512)
        mx.eval(lines)
        y = lines + 0
        mx.eval(expected := narrow(y[2:3]))
        y[2:3] = narrow(y[2:3])
        mx.eval(y)
        assert mx.array_equal(y[2:3], expected).item() and mx.array_equal(y[:2], lines[:2]).item()
