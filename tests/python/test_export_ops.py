"""Every function of arrays, for every dtype it takes, exported and imported: the same results.

With MLX_UPSTREAM_PYTHON, the path of a Python that has the `mlx` package and NumPy, files are exchanged with
it as well: what is written here runs there, and what is written there runs here.
"""

import json
import os
import pathlib
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from any_shape_cases import ONLY_HERE, other_calls  # noqa: E402
from export_cases import any_shape, more  # noqa: E402
from test_dtypes_everywhere import DTYPES, SAMPLES, refusal, short, values  # noqa: E402

UPSTREAM = os.environ.get("MLX_UPSTREAM_PYTHON")  # with NumPy and SciPy
# What is only known after looking at elements cannot be traced.
UNTRACEABLE = {"unique", "from_dlpack", "asarray"}
# Operations that the format has no form for, by function.
EXTENSIONS = {
    "segmented_mm", "linalg.lu", "linalg.lu_factor", "to_fp8",
}  # fmt: skip


def array(wide, t):
    return mx.array(wide.astype(np.complex64 if short(t) == "complex64" else wide.dtype)).astype(t, stream=mx.cpu)


def flat(y):
    return [b for a in y for b in flat(a)] if isinstance(y, (list, tuple)) else [y]


def cases(portable):
    for name, (call, _, inputs) in SAMPLES.items():
        for t in DTYPES:
            if name in UNTRACEABLE or refusal(name, t) or (portable and name in EXTENSIONS):
                continue
            wide = [values(t, shape, i, sort) for i, (shape, sort) in enumerate(inputs)]
            yield name, t, call, [array(w, t) for w in wide]


def numbers(y):
    return np.array(y.astype(mx.float32) if y.dtype == mx.bfloat16 else y)


def same(name, got, want):
    assert got.dtype == want.dtype and got.shape == want.shape, f"{got.dtype} {got.shape}, {want.dtype} {want.shape}"
    eps = {mx.float16: 2**-10, mx.bfloat16: 2**-7, mx.float64: 2**-50}.get(
        want.dtype, 2**-18 if "#" in name else 2**-21 if " " in name else 2**-22
    )
    w = numbers(want)
    if w.dtype.kind in "fc" and w.size:
        scale = np.abs(w[np.isfinite(w)]).max(initial=1)
        np.testing.assert_allclose(numbers(got), w, rtol=8 * eps, atol=8 * eps * scale)
    else:
        np.testing.assert_array_equal(numbers(got), w)


@pytest.mark.parametrize("name", [name for name, _, _ in more(mx)])
def test_more_comes_back(name, tmp_path):
    _, f, inputs = next(case for case in more(mx) if case[0] == name)
    path, want = str(tmp_path / "f.mlxfn"), flat(f(*inputs))
    fresh = [mx.array(x) for x in inputs]
    mx.export_function(path, f, *fresh)
    got = mx.import_function(path)(*inputs)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(numbers(g), numbers(w), rtol=2e-5, atol=2e-5)
    trace = mx.inspect_function(path)["traces"][0]
    assert all(not operation.startswith("mlx.c:") for operation in trace["operations"])


@pytest.mark.parametrize("name", [name for name, *_ in any_shape(mx)])
def test_any_shape_comes_back(name, tmp_path):
    _, f, example, inputs = next(case for case in any_shape(mx) if case[0] == name)
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, f, *example, shapeless=True)
    g = mx.import_function(path)
    for xs in (inputs, example, inputs):
        for a, b in zip(g(*xs), flat(f(*xs)), strict=True):
            same(" ", a, b)
    again = mx.compile(g, shapeless=True)
    for xs in (example, inputs):
        for a, b in zip(again(*xs), flat(f(*xs)), strict=True):
            same(" ", a, b)
    mx.export_function(path + "2", g, *[mx.array(x) for x in example], shapeless=True)
    for a, b in zip(mx.import_function(path + "2")(*inputs), flat(f(*inputs)), strict=True):
        same(" ", a, b)


def test_every_function_comes_back(tmp_path):
    path, failures, counted = str(tmp_path / "f.mlxfn"), [], 0
    for name, t, call, inputs in cases(False):
        want = flat(call(*inputs))
        try:
            try:
                mx.export_function(path, lambda *xs, call=call: flat(call(*xs)), *inputs)
                assert name not in EXTENSIONS or t == mx.bool_, "is portable"
            except ValueError as error:
                if name not in EXTENSIONS or "Unable to serialize" not in str(error):
                    raise
                mx.export_function(path, lambda *xs, call=call: flat(call(*xs)), *inputs, portable=False)
            got = mx.import_function(path)(*inputs)
            assert len(got) == len(want)
            for g, w in zip(got, want):
                same(name, g, w)
            counted += 1
        except Exception as error:
            failures.append(f"{name} {short(t)}: {type(error).__name__}: {str(error)[:300]}")
    assert not failures, f"{len(failures)} of {counted + len(failures)}\n" + "\n".join(failures)
    assert counted > 1500


def numerical(t):
    return t in (mx.float32, mx.complex64)


def derived(call, xs):
    """What is made of a function: its gradient and that one's, its jvp, the function mapped over a batch."""

    def loss(*xs):
        return sum((mx.abs(y) ** 2).sum().astype(mx.float32) for y in flat(call(*xs)) if numerical(y.dtype))

    by = tuple(i for i, x in enumerate(xs) if numerical(x.dtype))

    def gradient(*xs):
        return flat(mx.grad(loss, argnums=by)(*xs))

    yield "gradient", gradient, xs
    yield "second", lambda *xs: flat(mx.grad(lambda *ys: sum(mx.abs(a).sum() for a in gradient(*ys)), by)(*xs)), xs
    yield "jvp", lambda *xs: mx.jvp(lambda *ys: flat(call(*ys)), list(xs), [x * 0.5 for x in xs])[1], xs
    yield "mapped", lambda *xs: flat(mx.vmap(lambda *ys: flat(call(*ys)))(*xs)), [mx.stack([x, x]) for x in xs]


def test_every_derivative_comes_back(tmp_path):
    path, failures, counted = str(tmp_path / "f.mlxfn"), [], 0
    for name, t, call, inputs in cases(False):
        if not numerical(t) or not any(numerical(x.dtype) for x in inputs):
            continue
        for what, f, xs in derived(call, inputs):
            try:
                want = f(*xs)
                mx.eval(want)
            except (ValueError, RuntimeError):  # not differentiable, or not of this type
                continue
            try:
                portable = not name.startswith("linalg.") and name not in EXTENSIONS | {"searchsorted"}
                mx.export_function(path, f, *[mx.array(x) for x in xs], portable=portable)
                for g, w in zip(mx.import_function(path)(*xs), want, strict=True):
                    a, b = numbers(g), numbers(w)
                    scale = np.abs(b[np.isfinite(b)]).max(initial=1)
                    np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * scale)
                counted += 1
            except Exception as error:
                failures.append(f"{name} {short(t)} {what}: {type(error).__name__}: {str(error)[:300]}")
    assert not failures, f"{len(failures)} of {counted + len(failures)}\n" + "\n".join(failures)
    assert counted > 1000


@pytest.mark.parametrize("t", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("norm", [mx.fast.layer_norm, mx.fast.rms_norm])
def test_derivatives_of_norms_in_half_types_keep_their_accuracy(norm, t, tmp_path):
    """Rows of two numbers cancel: computed in the type itself little of the derivative is left."""
    path = str(tmp_path / "f.mlxfn")
    weights = (None, None, 1e-5) if norm is mx.fast.layer_norm else (None, 1e-5)
    x = mx.array([[1.5, 1.25], [-3.0, 2.0], [0.1, 40.0]]).astype(t)
    ct = mx.array([[1.0, 3.0], [2.0, -1.0], [1.0, 0.5]]).astype(t)

    def derivatives(x, ct):
        return mx.vjp(lambda x: norm(x, *weights), [x], [ct])[1] + mx.jvp(lambda x: norm(x, *weights), [x], [ct])[1]

    mx.export_function(path, derivatives, x, ct)
    for there, here in zip(mx.import_function(path)(x, ct), derivatives(x, ct), strict=True):
        assert there.dtype == here.dtype == t
        np.testing.assert_allclose(numbers(there), numbers(here), rtol=float(mx.finfo(t).eps), atol=1e-6)


def upstream(what, folder):
    """Runs export_there.py with the other package, which must not find this one."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(
        [UPSTREAM, pathlib.Path(__file__).with_name("export_there.py"), what, str(folder)], check=True, env=env
    )


# What upstream's CPU has no kernel for: complex matrices.
NOT_THERE = {
    "linalg.inv", "linalg.cholesky", "linalg.cholesky_inv", "linalg.tri_inv", "linalg.qr", "linalg.solve",
    "linalg.solve_triangular",
}  # fmt: skip


@pytest.mark.skipif(not UPSTREAM, reason="MLX_UPSTREAM_PYTHON names no Python with the mlx package")
def test_what_is_written_here_runs_there(tmp_path):
    all_cases = []
    for name, t, call, inputs in cases(True):
        if t == mx.float64 or name == "linalg.eig" or (t == mx.complex64 and name in NOT_THERE):
            continue
        path = str(tmp_path / str(len(all_cases)))
        want = flat(call(*inputs))
        mx.export_function(path + ".mlxfn", lambda *xs, call=call: flat(call(*xs)), *inputs)
        mx.save_safetensors(path + ".in.safetensors", {str(i): x for i, x in enumerate(inputs)})
        all_cases.append((name, t, want, len(inputs)))
    for name, call, inputs in more(mx):
        path = str(tmp_path / str(len(all_cases)))
        want = flat(call(*inputs))
        mx.export_function(path + ".mlxfn", lambda *xs, call=call: flat(call(*xs)), *[mx.array(x) for x in inputs])
        mx.save_safetensors(path + ".in.safetensors", {str(i): x for i, x in enumerate(inputs)})
        all_cases.append((name, None, want, len(inputs)))
    for name, call, example, inputs in [*any_shape(mx), *other_calls(mx)]:
        if name.split(" #")[0] in ONLY_HERE:
            continue
        path = str(tmp_path / str(len(all_cases)))
        mx.export_function(path + ".mlxfn", lambda *xs, call=call: flat(call(*xs)), *example, shapeless=True)
        mx.save_safetensors(path + ".in.safetensors", {str(i): x for i, x in enumerate(inputs)})
        all_cases.append((name + " ", None, flat(call(*inputs)), len(inputs)))
    with open(tmp_path / "cases.json", "w") as f:
        for i, (_, _, _, n) in enumerate(all_cases):
            print(json.dumps({"number": i, "inputs": n}), file=f)
    upstream("run", tmp_path)
    failures = []
    for i, (name, t, want, _) in enumerate(all_cases):
        path = tmp_path / str(i)
        try:
            assert not path.with_suffix(".error").exists(), path.with_suffix(".error").read_text()
            got = mx.load(f"{path}.out.safetensors")
            for k, w in enumerate(want):
                same(name, got[str(k)], w)
        except Exception as error:
            failures.append(f"{name} {t and short(t)}: {type(error).__name__}: {str(error)[:300]}")
    print(f"{len(all_cases) - len(failures)} of {len(all_cases)} run there")
    assert not failures, "\n".join(failures)


# Where results may differ: another order of equal elements, other vectors of the same space, random bits.
OTHERWISE = {"argpartition", "partition", "topk"}


@pytest.mark.skipif(not UPSTREAM, reason="MLX_UPSTREAM_PYTHON names no Python with the mlx package")
def test_what_is_written_there_runs_here(tmp_path):
    upstream("write", tmp_path)
    failures, count = [], 0
    for line in (tmp_path / "cases.json").read_text().splitlines():
        case = json.loads(line)
        name, path = case["name"], f"{tmp_path}/{case['number']}"
        given, want = mx.load(path + ".in.safetensors"), mx.load(path + ".out.safetensors")
        try:
            f = mx.import_function(path + ".mlxfn")
            got = f(*[given[str(i)] for i in range(case["inputs"])])
            for k in range(case["outputs"]):
                if name not in OTHERWISE:
                    same(name, got[k], want[str(k)])
            again = path + ".again"  # and back once more
            mx.export_function(again, f, *[given[str(i)] for i in range(case["inputs"])], portable=False)
            for a, b in zip(mx.import_function(again)(*[given[str(i)] for i in range(case["inputs"])]), got):
                same(name, a, b)
            count += 1
        except Exception as error:
            failures.append(f"{name} {case['dtype']}: {type(error).__name__}: {str(error)[:300]}")
    seen = json.loads((tmp_path / "seen.json").read_text())
    print(f"{count} of {count + len(failures)} run here, with {len(seen)} primitives: {' '.join(seen)}")
    assert not failures, f"{len(failures)}\n" + "\n".join(failures)
    assert count > 1000
