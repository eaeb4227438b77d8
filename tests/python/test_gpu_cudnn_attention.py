"""Attention of half types by cuDNN; skipped where there is no GPU. On the emulated driver a library of the tests stands
for it (tests/emulated/cudnn.c), and attention from 16 queries and keys on is its."""

import mlx.core as mx
import pytest
from test_gpu_cudnn import folder, pretended, run  # noqa: F401
from test_gpu_libraries import EMULATED

CODE = """
import ctypes, json
import mlx.core as mx
import numpy as np

f16, bf16, f32 = mx.float16, mx.bfloat16, mx.float32
UNIT = {f16: 2.0**-11, bf16: 2.0**-8}

def x(dtype, *shape, seed=0):
    r = np.random.default_rng([seed, *shape])
    return mx.array(r.standard_normal(shape), f32).astype(dtype, stream=mx.cpu)
def swapped(*x):
    return [mx.contiguous(v.swapaxes(1, 2), stream=mx.cpu).swapaxes(1, 2) for v in x]  # as models have their heads
def shifted(*x):
    return [mx.contiguous(mx.pad(v, [(0, 0)] * 3 + [(1, 0)]), stream=mx.cpu)[..., 1:] for v in x]
def alike(*x):
    return [mx.broadcast_to(v[:1, :, :, :], v.shape) for v in x]
def wide(x):
    with mx.stream(mx.cpu):
        return np.array(x.astype(mx.float64))

def formula(q, k, v, ct, causal):
    q, k, v, ct = map(wide, (q, k, v, ct))
    heads, group, scale = k.shape[1], q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    of_one = lambda x: x.reshape(x.shape[0], heads, group, *x.shape[2:]).sum(2)
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = scale * q @ k.swapaxes(-1, -2)
    if causal:
        s = np.where(np.tri(*s.shape[2:], s.shape[3] - s.shape[2]) > 0, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    slope = ct @ v.swapaxes(-1, -2)
    ds = scale * p * (slope - (slope * p).sum(-1, keepdims=True))
    return [p @ v, ds @ k, of_one(ds.swapaxes(-1, -2) @ q), of_one(p.swapaxes(-1, -2) @ ct)]

def count():
    return [*(ctypes.c_int * 8).in_dll(ctypes.CDLL(FILE), "emulated_convolutions")]
def called(dtype, heads=2, kv=2, length=32, keys=None, d=16, e=None, batch=2, causal=False, lay=None, **more):
    keys = length if keys is None else keys
    shapes = (heads, length, d), (kv, keys, d), (kv, keys, e or d), (heads, length, e or d)
    operands = [x(dtype, batch, *s, seed=i) for i, s in enumerate(shapes)]
    operands = lay(*operands) if lay else operands
    for name, (i, at, value) in dict(more.pop("wild", {})).items():
        place = np.zeros(operands[i].shape, bool)
        place[at] = True
        operands[i] = mx.where(mx.array(place), mx.array(value, dtype), operands[i], stream=mx.cpu)
    def f(q, k, v):
        mask = "causal" if causal else more.get("mask")
        sinks = more.get("sinks")
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=d**-0.5, mask=mask, sinks=sinks)
    with mx.stream(more.get("on", mx.gpu)):
        y, dx = mx.vjp(f, operands[:3], operands[3:])
        mx.eval(y, dx)
    return operands, [*y, *dx]
def error(text):
    operands, got = eval(f"called({text})")
    if "mask" in text or "sinks" in text:
        return 0
    want = formula(*operands, "causal=True" in text)
    return max(np.abs(wide(a) - b).max() / np.abs(b).max() for a, b in zip(got, want)) / UNIT.get(operands[0].dtype, 1)
def made(text):
    before = count()
    far = error(text)
    return far, [b - a for a, b in zip(before, count())]
def wild(text):
    before = count()
    here = [wide(a) for a in eval(f"called({text})")[1]]
    n = [b - a for a, b in zip(before, count())]
    there = [wide(a) for a in eval(f"called({text}, on=mx.cpu)")[1]]
    same = [np.array_equal(np.isfinite(a), np.isfinite(b)) for a, b in zip(here, there)]
    some = [bool(np.isfinite(b).any() and not np.isfinite(b).all()) for b in there]
    error = [float(np.abs(np.where(np.isfinite(a), a - b, 0)).max()) for a, b in zip(here, there)]
    return same, some, error, n
"""

# Each as text: how many calls, and derivatives, cuDNN is asked for.
BOTH, FORWARD, NONE = (1, 1), (1, 0), (0, 0)
CALLS = {
    "f16": BOTH,
    "bf16": BOTH,
    "f32": NONE,
    "f16, causal=True": BOTH,
    "bf16, causal=True": BOTH,
    "f16, heads=4": BOTH,
    "bf16, heads=6, causal=True": BOTH,
    "f16, heads=3, kv=1, length=40": BOTH,
    "f16, length=32, keys=48": BOTH,
    "bf16, length=50, keys=17, heads=4": BOTH,
    "f16, length=32, keys=48, causal=True": NONE,  # theirs would begin with the same key
    "f16, length=15, keys=48": NONE,
    "f16, length=48, keys=15": NONE,
    "f16, length=33, causal=True": BOTH,
    "f16, batch=1, d=8": BOTH,
    "bf16, batch=1, heads=1, kv=1, d=80": BOTH,
    "bf16, d=20": NONE,
    "f16, d=16, e=24": NONE,
    "f16, batch=1, d=136": BOTH,
    "f16, batch=1, d=264": NONE,
    "f16, heads=4, lay=swapped": BOTH,
    "bf16, heads=4, lay=swapped, causal=True": BOTH,
    "bf16, lay=shifted": NONE,
    "f16, lay=alike": NONE,
    "f16, mask=mx.ones((32, 32), mx.bool_)": NONE,
    "f16, sinks=mx.zeros(2, f16)": NONE,
}
FEW = ["f16", "bf16, heads=6, causal=True"]
# In units of a half type's rounding: of weights, slopes and results, of which the largest counts.
MOST = 4


def calls(texts, folder, ask="made", **around):  # noqa: F811
    code = f"FILE = {str(folder / 'libcudnn.so.9')!r}\n{CODE}\n"
    code += f"print(json.dumps([[{ask}(t) for t in {[*texts]!r}], count()[5]]))"
    (results, descriptors), said = run(code, MLX_CUDA_LIBRARIES=str(folder), **around)
    return results, descriptors, said


@pretended
def test_which_calls_it_makes(folder):  # noqa: F811
    results, _, said = calls(CALLS, folder)
    assert not said
    for text, (error, n) in zip(CALLS, results):
        assert (text, *n[6:]) == (text, *CALLS[text])
        assert error < MOST, text


@pretended
def test_an_engine_is_asked_for_once(folder):  # noqa: F811
    results, descriptors, said = calls(["f16", "f16", "bf16, causal=True", "f16"], folder, MLX_LOG="libraries")
    assert [n[4] for _, n in results] == [3, 0, 2, 0]  # one of them for the trial
    assert descriptors == sum(n[5] for _, n in results)
    assert [line.split(", with ")[0] for line in said.splitlines()] == [
        "mlx: cudnn does a convolution of float32, (1, 4, 4, 4) and (4, 4, 3, 3)",
        "mlx: cudnn is used on GPU 0",
        "mlx: cudnn does attention of float16, (2, 2, 32, 16) and (2, 32)",
        "mlx: cudnn does attention's derivative of float16, (2, 2, 32, 16) and (2, 32)",
        "mlx: cudnn does attention of bfloat16, (2, 2, 32, 16) and (2, 32), causal",
        "mlx: cudnn does attention's derivative of bfloat16, (2, 2, 32, 16) and (2, 32), causal",
    ]


@pretended
@pytest.mark.parametrize("without", ["no_forward", "no_back"])
def test_what_is_kept_is_for_both(folder, without):  # noqa: F811
    """Our kernels make what cuDNN does not, of what it has kept, or it of what they have."""
    texts = [t for t, n in CALLS.items() if n == BOTH]
    results, _, said = calls(texts, folder, PRETEND=without, MLX_LOG="libraries")
    for text, (error, n) in zip(texts, results):
        assert n[6:] == [without != "no_forward", without != "no_back"]
        assert error < MOST, text
    what = "attention of float16" if without == "no_forward" else "attention's derivative of float16"
    assert f"mlx: cudnn does not do {what}, (2, 2, 32, 16) and (2, 32), 0 engines named" in said


HOWS = [("f16", 8, False), ("bf16", 2, False), ("f16", 2, True), ("bf16", 8, True)]
# Of that key our own kernels have gradients that are not finite, where the CPU's are 0.
OF_NO_WEIGHT = "f16, length=150, causal=True, wild={'k': (1, (0, 0, 100, 3), float('inf')), 'q': (0, (..., 3), -1.0)}"
WILD = [
    "f16, length=150, causal=True, wild={'v': (2, (0, 0, 100, 3), float('inf'))}",
    "bf16, heads=4, length=150, causal=True, wild={'v': (2, (1, 1, 70), float('nan'))}",
    "f16, length=150, causal=True, wild={'k': (1, (0, 0, 100, 3), float('nan'))}",
    "bf16, length=150, causal=True, lay=swapped, wild={'ct': (3, (1, 0, 30, 3), float('-inf'))}",
    "f16, length=150, causal=True, wild={'q': (0, (1, 0, 30, 3), float('inf'))}",
    OF_NO_WEIGHT,
    "f16, length=150, causal=True, wild={'v': (2, (0, 0, 0, 0), 1.0)}",  # and none
]


@pretended
@pytest.mark.parametrize("without", ["", "no_forward", "no_back"])
def test_what_is_not_finite_and_not_seen(folder, without):  # noqa: F811
    """Results are not finite where the CPU's are not, and the CPU's elsewhere."""
    results, _, _ = calls(WILD, folder, "wild", PRETEND=without)
    for text, (same, some, error, n) in zip(WILD, results):
        assert n[6:] == [without != "no_forward", without != "no_back"]
        assert same[: 2 if text == OF_NO_WEIGHT else 4].count(False) == 0, text
        assert any(some) or text == WILD[-1]
        assert max(error) < 2.0 ** (-5 if "bf16" in text else -8), text


@pretended
@pytest.mark.parametrize("call", ["make", "set", "finish", "get", "stream", "execute"])
def test_what_fails_our_kernels_do(folder, call):  # noqa: F811
    results, _, said = calls(FEW * 2, folder, PRETEND=f"dnn_{call}", MLX_LOG="libraries")
    assert all(error < MOST for error, _ in results) and not any(sum(n[6:]) for _, n in results)
    assert not any(n[4] for _, n in results[len(FEW) :])  # it is not asked again
    assert "mlx: cudnn is used on GPU 0" in said


@pretended
def test_sums_in_any_order(folder):  # noqa: F811
    """The derivative's engine may have them unless the same bits are asked for."""
    for sure, engine in ((0, "engine 0, notes 0x11"), (1, "engine 1, notes 0x1,")):
        results, _, said = calls(FEW, folder, MLX_DETERMINISTIC=str(sure), MLX_LOG="libraries")
        assert all(error < MOST and n[6:] == [1, 1] for error, n in results)
        assert said.count(engine) == 2 * len(FEW)


@pretended
def test_patience(folder):  # noqa: F811
    """A shape is its own once there has been much of it; at once where bits have to be the same each time."""
    few = "f16, batch=1, heads=1, kv=1, length=16, d=8"  # of 4,096 multiply-adds, the derivative of 2.5 times as many
    for sure, first in ((0, [7, 2]), (1, [0, 0])):
        results, asked, _ = calls([few] * 9, folder, MLX_DETERMINISTIC=str(sure))
        by_cudnn = [n[6:] for _, n in results]
        assert by_cudnn == [[int(i >= first[0]), int(i >= first[1])] for i in range(9)]
        assert all(error < MOST for error, _ in results)
        _, _, said = calls([few] * 2, folder, MLX_DETERMINISTIC=str(sure), MLX_LOG="libraries")
        assert ("mlx: cudnn is used" in said) == bool(sure)  # it is opened when a shape's time has come


@pretended
@pytest.mark.parametrize("version, counts", [("9_10_0", (NONE, NONE)), ("9_10_2", (FORWARD, BOTH))])
def test_versions(folder, version, counts):  # noqa: F811
    """Some are said to be wrong, earlier ones in the derivative of keys that are no whole tiles."""
    results, _, _ = calls(["f16, length=48", "f16, length=16, keys=128"], folder, PRETEND=f"dnn_{version}")
    for (error, n), want in zip(results, counts):
        assert error < MOST and n[6:] == [*want]


if not EMULATED:

    @pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")
    def test_the_one_that_is_found():
        """If there is one, of sizes that are its."""
        texts = [f"{t}, heads=8, kv={kv}, length=512, d=128, causal={c}" for t, kv, c in HOWS]
        errors, _ = run(f"{CODE}\nprint(json.dumps([error(t) for t in {texts!r}]))", MLX_DETERMINISTIC="1")
        assert max(errors) < 2 * MOST, list(zip(texts, errors))
