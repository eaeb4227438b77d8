"""Exported functions and gguf files whose fields were changed (false_files.py): errors or numbers, never a crash."""

import pathlib
import re
import subprocess
import sys
import zlib

import mlx.core as mx
import pytest

HERE = pathlib.Path(__file__).resolve().parent
SRC = HERE.parents[1] / "src"
sys.path.insert(0, str(HERE))
import false_files  # noqa: E402
from any_shape_cases import functions as for_any_shape  # noqa: E402
from export_cases import any_shape, more  # noqa: E402
from test_dtypes_everywhere import DTYPES  # noqa: E402
from test_export_files import Trace, f32, flag, header, i32, ramp  # noqa: E402
from test_export_ops import cases, derived, flat  # noqa: E402
from test_gpu_fallback import NONE as NOT_ON_A_GPU  # noqa: E402


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
    rows, row = ramp(6, 4), ramp(4)
    for weights in ([row, mx.cos(row)], [row], []):
        f = lambda x, *w: mx._group_norm(x, *w, *[None] * (2 - len(w)), 2, True, not w, 0.5)  # noqa: E731
        yield f, [rows, *weights]
        yield mx.grad(lambda x, *w, f=f: f(x, *w)[0].sum(), argnums=tuple(range(1 + len(weights)))), [rows, *weights]
    states = {"rnn": [None] * 3, "gru": [ramp(4), ramp(2, 4), None], "lstm": [None, ramp(2, 4), ramp(2, 4)]}
    for (kind, rest), gates in zip(states.items(), (1, 3, 4)):
        for some in (rest, [None] * 3):
            given = [s for s in some if s is not None]

            def f(x, w, *more, kind=kind, some=some):
                more = iter(more)
                return mx._recurrent(kind, x, w, *(s if s is None else next(more) for s in some))

            yield f, [ramp(2, 3, 4 * gates), ramp(4 * gates, 4), *given]
            g = mx.grad(lambda *xs, f=f: sum(y.sum() for y in f(*xs)), argnums=tuple(range(2 + len(given))))
            yield g, [ramp(2, 3, 4 * gates), ramp(4 * gates, 4), *given]
    layer = mx.grad(lambda x, w, b: mx.fast.layer_norm(x, w, b, 0.5).square().sum(), argnums=(0, 1, 2))
    yield layer, [rows, row, mx.cos(row)]
    yield mx.grad(lambda x, w: mx.fast.rms_norm(x, w, 0.5).square().sum(), argnums=(0, 1)), [rows, row]
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


def as_they_are():
    """What is elsewhere a primitive or put in terms of others: in which cases it is neither."""
    x, at, i, w = ramp(3, 4), mx.array([1, 0]), mx.array([2, 0], mx.int32), ramp(2, 32, 64)

    def gradient(f):
        return mx.grad(lambda x: mx.sin(f(x)).sum())

    yield gradient(lambda x: x[i, at]), [x]
    yield gradient(lambda x: mx.slice(x, at, (0, 1), (2, 3))), [x]
    yield gradient(lambda u: mx.slice_update(x, u, at, (0, 1))), [x[:2]]
    yield gradient(lambda w: mx.gather_mm(ramp(2, 3, 32), w, rhs_indices=i - i)), [w]
    yield mx.vmap(mx.searchsorted), [x, x]
    yield lambda x, w: mx.qqmm(x, w, group_size=16, bits=4, mode="nvfp4"), [w[0, :3], w[1]]


def by_their_arguments():
    """The operations that files hold by name and arguments, if they need not be portable."""
    ops = re.findall(r"^(?:UNARY|BINARY|OTHER|BODIES) ?\((\w+),", (SRC / "ops/ops.def").read_text(), re.M)
    forms = dict(map(reversed, re.findall(r"^(\w+)\((\w+)", (SRC / "mlxfn/forms.def").read_text(), re.M)))
    return [name for name in ops if forms.get(name, "OR_OURS") in ("OR_OURS", "OR_FOLLOWED")]


def not_here():
    """Operations that are others where the samples are made."""
    return set(NOT_ON_A_GPU) if mx.default_device() == mx.gpu else set()


@pytest.fixture(scope="session")
def functions(tmp_path_factory):
    """A function of every primitive and extension, each in one of the types that it takes; gguf of every type."""
    folder = tmp_path_factory.mktemp("false")
    todo = [(f, xs, {}) for _, f, xs in more(mx)] + [(f, xs, {"shapeless": True}) for _, f, xs, _ in any_shape(mx)]
    todo += [(f, calls[0], {"shapeless": True, "portable": False}) for _, f, calls in for_any_shape(mx)]
    todo += [(f, xs, {"portable": False}) for f, xs in (*loops(), *fused())]
    todo += [(f, xs, {}) for f, xs in fused()]
    todo += [(lambda x: mx.argpartition(x, -2), [ramp(3, 4)], {"shapeless": True, "portable": False})]
    last, rarely = None, [(f, xs, {"portable": False}) for f, xs in as_they_are()]
    for name, t, call, xs in cases(False):
        if DTYPES.index(t) == zlib.crc32(name.encode()) % 14 or (t == mx.float32 and name != last):
            last = name
            todo.append((call, xs, {}))
        if t == mx.float32:
            rarely.append((call, xs, {"portable": False}))
        if t == mx.float32 and name.partition(".")[0] in ("fast", "linalg", "segmented_mm", "quantize"):
            todo += [(call, xs, {"portable": False})] + [(f, ys, {"portable": False}) for _, f, ys in derived(call, xs)]
    names = set()
    for i, (f, xs, how) in enumerate(todo + rarely):
        path = folder / f"{i}.file"
        try:
            mx.export_function(str(path), lambda *xs, f=f: flat(f(*xs)), *[mx.array(x) for x in xs], **how)
        except (ValueError, RuntimeError):  # not differentiable, or not portable
            continue
        new = set(mx.inspect_function(str(path))["traces"][0]["operations"]) - names
        if not new and (i >= len(todo) or path.stat().st_size > 8000):  # of what others have
            path.unlink()
        names |= new
    for i, (name, xs, state, shapes) in enumerate(by_hand()):
        t = Trace(*xs)
        out = t.primitive(name, range(1, len(xs) + 1), state, shapes)
        path = folder / f"{name}{i}.file"
        path.write_bytes(header() + t.bytes(*(out if isinstance(out, list) else [out])))
        mx.eval(mx.import_function(str(path))(*xs))
        names.add(name)
    missing = set(false_files.PRIMITIVES) - names - {"CustomKernel"}  # which is for a GPU
    missing |= {f"mlx.c:{name}" for name in by_their_arguments()} - names
    missing -= {f"mlx.c:{name}" for name in not_here()}
    assert not missing, (
        "in no file of the samples (an element-wise operation lacks a row of src/mlxfn/forms.def, another one a "
        f"sample in as_they_are or by_hand): {sorted(missing)}"
    )
    return folder


@pytest.fixture(scope="session")
def gguf(tmp_path_factory):
    """Every type of tensors and values, small and as the gguf package writes them."""
    folder = tmp_path_factory.mktemp("false")
    tests = HERE.parent
    for path in (tests / "golden" / "gguf_types.gguf", *(tests / "fuzz" / "seeds").glob("*.gguf")):
        (folder / f"{path.stem}.file").write_bytes(path.read_bytes())
    return folder


def run(*arguments):
    command = [sys.executable, HERE / "false_files.py", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.returncode}: {arguments[0]}/case\n{done.stdout}{done.stderr[-5000:]}"
    return [int(n) for n in re.findall(r"\d+", done.stdout)]


def attack(folder, seed, count):
    made, good = run(folder, seed, count)
    assert made > count * 0.7 and good > count * 0.2  # or there is little to be found


def test_every_argument_at_its_extremes(functions):
    made, good, operations = run(functions)
    have_none = {"det", "slogdet", "pinv", "cofactor", "lu", "to_fp8", "segmented_mm", "segmented_outer"}
    assert operations == len(set(by_their_arguments()) - have_none - not_here())
    assert made > 1000 and good > 100


def test_functions_that_lie(functions):
    attack(functions, 1, 1500)


def test_gguf_files_that_lie(gguf):
    attack(gguf, 1, 300)


@pytest.mark.slow
def test_many_functions_that_lie(functions):
    attack(functions, 2, 12000)


@pytest.mark.slow
def test_many_gguf_files_that_lie(gguf):
    attack(gguf, 2, 5000)
