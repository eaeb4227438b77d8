"""Exported functions and gguf files whose fields were changed (false_files.py): errors or numbers, never a crash."""

import pathlib
import re
import subprocess
import sys
import zlib

import mlx.core as mx
import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import false_files  # noqa: E402
from any_shape_cases import functions as for_any_shape  # noqa: E402
from export_cases import any_shape, more  # noqa: E402
from test_dtypes_everywhere import DTYPES  # noqa: E402
from test_export_files import Trace, f32, flag, header, i32, ramp  # noqa: E402
from test_export_ops import cases, derived, flat  # noqa: E402


def loops():
    """Loops and branches, whose bodies are files in the file."""

    def step(c, x):
        return c * 0.5 + x, mx.sin(c).sum()

    def nested(c, x):
        return mx.scan(lambda d, y: (d + y, d), c, mx.stack([x, c]))[0], c

    x = mx.arange(6.0).reshape(3, 2)
    yield lambda x: mx.scan(step, x[0], x), [x]
    yield lambda x: mx.scan(nested, x[0], x), [x]
    yield lambda x: mx.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x), [x]
    yield lambda x: mx.cond(x.sum() < 3, mx.sin, lambda v: v + x, x), [x]
    yield mx.grad(lambda x: mx.scan(step, x[0], x)[0].sum()), [x]


def fused():
    """What the samples call in one way of several."""
    q, k, mask = ramp(1, 4, 3, 16), ramp(1, 2, 5, 16), ramp(3, 5)
    attend = mx.fast.scaled_dot_product_attention
    w, x, i = ramp(2, 32, 64), ramp(2, 3, 64), mx.array([1, 0], mx.uint32)
    ways = [
        {"mask": mask},
        {"mask": mask > 0},
        {"mask": "causal"},
        {"sinks": ramp(4)},
        {"mask": mask, "sinks": ramp(4)},
    ]
    for way in ways:
        arrays = [v for v in way.values() if isinstance(v, mx.array)]
        names = [name for name, v in way.items() if isinstance(v, mx.array)]

        def f(q, k, v, *more, way=way, names=names):
            return attend(q, k, v, scale=0.3, **way | dict(zip(names, more)))

        yield f, [q, k, mx.cos(k), *arrays]
        yield mx.grad(lambda *xs, f=f: f(*xs).sum(), argnums=(0, 1, 2)), [q, k, mx.cos(k), *arrays]
    for mode, size, bits in (
        ("affine", 32, 3),
        ("affine", 64, 8),
        ("mxfp4", 32, 4),
        ("mxfp8", 32, 8),
        ("nvfp4", 16, 4),
    ):
        how = {"group_size": size, "bits": bits, "mode": mode}
        packed = mx.quantize(w, **how)
        yield lambda w, how=how: mx.quantize(w, **how), [w]
        yield lambda *p, how=how: mx.dequantize(*p, **how), packed
        yield lambda x, *p, how=how: mx.quantized_matmul(x, *p, **how), [x, *packed]
        yield lambda x, i, *p, how=how: mx.gather_qmm(x, *p, lhs_indices=i, rhs_indices=i, **how), [x, i, *packed]
    yield lambda q, f: mx.fast.rope(q, 8, traditional=True, base=None, scale=0.5, offset=2, freqs=f), [q, ramp(4)]


def by_hand():
    """Primitives that are read and not written: name, inputs, state, shapes of the results."""
    x, w, q, at, no = ramp(2, 3, 8), ramp(8), ramp(1, 2, 3, 8), mx.array(5), flag(False)
    m = ramp(32, 32)
    yield "Copy", [x], b"", [(2, 3, 8)]
    yield "DivMod", [x, w], b"", [(2, 3, 8)] * 2
    yield "MaskedScatter", [x, x > 0, ramp(2, 30)], b"", [(2, 3, 8)]
    yield "BlockMaskedMM", [m, m, ramp(1, 1), ramp(1, 1), ramp(1, 1)], i32(32), [(32, 32)]
    yield "RMSNorm", [x, w], f32(0.1), [(2, 3, 8)]
    yield "LayerNorm", [x, w, w], f32(0.1), [(2, 3, 8)]
    yield "RMSNormVJP", [x, w, x], f32(0.1), [(2, 3, 8), (8,)]
    yield "LayerNormVJP", [x, w, w, x], f32(0.1), [(2, 3, 8), (8,), (8,)]
    yield "RoPE", [q, at], i32(8) + no + f32(1e4) + f32(1) + no, [(1, 2, 3, 8)]
    yield "RoPE", [q, at, ramp(4)], i32(8) + no + f32(1e4) + f32(1) + flag(True), [(1, 2, 3, 8)]
    attend = "ScaledDotProductAttention"
    yield attend, [q, q, q], f32(0.25) + no + no + flag(True) + no, [(1, 2, 3, 8), (1, 2, 3, 1)]
    yield attend, [q, q, q, ramp(3, 3), ramp(2)], f32(0.25) + no + flag(True) + no + no, [(1, 2, 3, 8)]


@pytest.fixture(scope="session")
def functions(tmp_path_factory):
    """A function of every primitive and extension, each in one of the types that it takes; gguf of every type."""
    folder = tmp_path_factory.mktemp("false")
    todo = [(f, xs, {}) for _, f, xs in more(mx)] + [(f, xs, {"shapeless": True}) for _, f, xs, _ in any_shape(mx)]
    todo += [(f, calls[0], {"shapeless": True, "portable": False}) for _, f, calls in for_any_shape(mx)]
    todo += [(f, xs, {"portable": False}) for f, xs in (*loops(), *fused())]
    todo += [(f, xs, {}) for f, xs in fused()]
    last = None
    for name, t, call, xs in cases(False):
        if DTYPES.index(t) == zlib.crc32(name.encode()) % 14 or (t == mx.float32 and name != last):
            last = name
            todo.append((call, xs, {}))
        if t == mx.float32 and name.partition(".")[0] in ("fast", "linalg", "segmented_mm", "quantize"):
            todo += [(call, xs, {"portable": False})] + [(f, ys, {"portable": False}) for _, f, ys in derived(call, xs)]
    names = set()
    for i, (f, xs, how) in enumerate(todo):
        path = folder / f"{i}.file"
        try:
            mx.export_function(str(path), lambda *xs, f=f: flat(f(*xs)), *[mx.array(x) for x in xs], **how)
        except (ValueError, RuntimeError):  # not differentiable, or not portable
            continue
        if path.stat().st_size > 8000:  # long, of what others have
            path.unlink()
            continue
        names |= set(mx.inspect_function(str(path))["traces"][0]["operations"])
    for i, (name, xs, state, shapes) in enumerate(by_hand()):
        t = Trace(*xs)
        out = t.primitive(name, range(1, len(xs) + 1), state, shapes)
        path = folder / f"{name}{i}.file"
        path.write_bytes(header() + t.bytes(*(out if isinstance(out, list) else [out])))
        mx.eval(mx.import_function(str(path))(*xs))
        names.add(name)
    missing = set(false_files.PRIMITIVES) - names - {"CustomKernel"}  # which is for a GPU
    assert not missing and sum(name.startswith("mlx.c:") for name in names) > 15
    return folder


@pytest.fixture(scope="session")
def gguf(tmp_path_factory):
    """Every type of tensors and values, small and as the gguf package writes them."""
    folder = tmp_path_factory.mktemp("false")
    tests = HERE.parent
    for path in (tests / "golden" / "gguf_types.gguf", *(tests / "fuzz" / "seeds").glob("*.gguf")):
        (folder / f"{path.stem}.file").write_bytes(path.read_bytes())
    return folder


def attack(folder, seed, count):
    command = [sys.executable, HERE / "false_files.py", folder, str(seed), str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {folder}/case\n{done.stdout}{done.stderr[-5000:]}"
    made, good = (int(n) for n in re.findall(r"\d+", done.stdout))
    assert made > count * 0.7 and good > count * 0.2  # or there is little to be found


def test_functions_that_lie(functions):
    attack(functions, 1, 1500)


def test_gguf_files_that_lie(gguf):
    attack(gguf, 1, 300)


@pytest.mark.slow
def test_many_functions_that_lie(functions):
    attack(functions, 2, 40000)


@pytest.mark.slow
def test_many_gguf_files_that_lie(gguf):
    attack(gguf, 2, 8000)
