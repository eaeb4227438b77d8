"""Functions in files: what is written is read again, by every way to call it."""

import gc
import os
import pathlib
import weakref

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest


def close(a, b, rtol=1e-5, atol=1e-5):
    a, b = np.array(a.astype(mx.float32)), np.array(b.astype(mx.float32))
    np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "f.mlxfn")


def test_a_function_with_constants(path):
    w = mx.random.normal((8, 4), key=mx.random.key(0))
    mx.eval(w)

    def f(x):
        return mx.softmax(x @ w, axis=-1)

    x = mx.random.normal((3, 8), key=mx.random.key(1))
    mx.export_function(path, f, x)
    y = mx.import_function(path)(x)
    assert isinstance(y, tuple) and len(y) == 1
    close(y[0], f(x))


def test_every_form_of_arguments(path):
    a, b = mx.array(2.0), mx.array(5.0)

    def subtract(x, y):
        return x - y

    for args, kwargs in [
        ((a, b), {}),
        (([a, b],), {}),
        (((a, b),), {}),
        (({"x": a, "y": b},), {}),
        (([a], {"y": b}), {}),
        ((a,), {"y": b}),
        ((), {"x": a, "y": b}),
    ]:
        mx.export_function(path, subtract, *args, **kwargs)
        assert mx.import_function(path)(*args, **kwargs)[0].item() == -3
    for args, kwargs in [((1.0, 2.0), {}), (([a],), {"y": b}), ((np.ones(2), a), {}), (({"x": 1},), {})]:
        with pytest.raises(ValueError, match="export_function.*arrays by position"):
            mx.export_function(path, subtract, *args, **kwargs)
        with pytest.raises(ValueError, match="arrays by position"):
            mx.import_function(path)(*args, **kwargs)


@pytest.mark.parametrize(
    "value, got",
    [
        (lambda x: ((x, x),), "tuple that holds tuple"),
        (lambda x: [x, {"a": x}], "list that holds dict"),
        (lambda x: (x, 1.5, "a"), "tuple that holds float"),
        (lambda x: {"a": (x,)}, "dict"),
    ],
)
def test_results_of_another_form(path, value, got):
    said = f"expected the function to return an array or a list or tuple of arrays, got {got}$"
    x = mx.ones(1)
    with pytest.raises(ValueError, match=r"\[export_function\] " + said):
        mx.export_function(path, value, x)
    with pytest.raises(ValueError, match=r"\[vjp\] " + said):
        mx.vjp(value, [x], [x])
    assert not os.path.exists(path)


def test_keywords_bind_by_name_alone(path):
    mx.export_function(path, lambda x, z: x - z, mx.array(1.0), z=mx.array(2.0))
    f = mx.import_function(path)
    assert f(mx.array(5.0), z=mx.array(3.0))[0].item() == 2
    for call in (
        lambda: f(a=mx.array(5.0), z=mx.array(3.0)),
        lambda: f(zz=mx.array(5.0), z=mx.array(3.0)),
        lambda: f(mx.array(5.0), mx.array(3.0)),
        lambda: f(mx.array(5.0), y=mx.array(3.0)),
    ):
        with pytest.raises(ValueError, match="import_function::call"):
            call()


def test_a_call_that_fits_no_trace_tells_them(path):
    with mx.exporter(path, lambda x, *, scale=None: x if scale is None else x * scale) as export:
        export(mx.zeros((3, 2)))
        export(mx.zeros(2), scale=mx.array(1))
    with pytest.raises(ValueError) as error:
        mx.import_function(path)(mx.zeros((4, 2)))
    text = str(error.value)
    for part in ("(3,2)", '"scale"', "differs: input 0 has shape (3,2), got (4,2)", 'the keyword "scale" is missing'):
        assert part in text
    with pytest.raises(ValueError, match="is float32, got int32"):
        mx.import_function(path)(mx.zeros((3, 2), mx.int32))


def test_traces_share_constants(path):
    w = mx.random.normal((64, 64), key=mx.random.key(3))
    mx.eval(w)
    with mx.exporter(path, lambda x, *xs: w @ sum(xs, x)) as export:
        for n in range(1, 6):
            export(*[mx.zeros((64,))] * n)
            told = mx.inspect_function(path)  # readable after each
            assert len(told["traces"]) == n
            assert [c["shape"] for c in told["constants"]] == [(64, 64)]
    assert os.path.getsize(path) < 64 * 64 * 4 + 4000
    assert told["constants"][0]["offset"] % 64 == 0
    f = mx.import_function(path)
    x = mx.random.normal((64,), key=mx.random.key(4))
    for n in range(1, 6):
        close(f(*[x] * n)[0], w @ (n * x), atol=1e-4)


def test_a_signature_is_exported_once(path):
    with mx.exporter(path, mx.abs) as export:
        export(mx.zeros(2))
        before = pathlib.Path(path).read_bytes()
        with pytest.raises(RuntimeError, match="same signature"):
            export(mx.ones(2))
        assert pathlib.Path(path).read_bytes() == before
        export(mx.zeros(2, mx.int32))
    with pytest.raises(RuntimeError, match="closed"):
        export(mx.zeros(3))


def test_what_fails_leaves_file_and_exporter_as_they_were(path, tmp_path):
    mx.export_function(path, mx.abs, mx.zeros(2))
    before = pathlib.Path(path).read_bytes()

    def wrong(x):
        raise KeyError("mine")

    for bad, kind in ((wrong, KeyError), (lambda x: 3, ValueError), (lambda x: mx.linalg.lu(x), ValueError)):
        with pytest.raises(kind):
            mx.export_function(path, bad, mx.eye(2))
        with pytest.raises(kind), mx.exporter(path, bad) as export:
            export(mx.eye(2))
    assert pathlib.Path(path).read_bytes() == before
    assert os.listdir(tmp_path) == ["f.mlxfn"]
    with mx.exporter(path, lambda x: mx.linalg.lu(x) if x.ndim == 2 else -x) as export:
        export(mx.ones(3))
        with pytest.raises(ValueError, match="Unable to serialize primitive LUF"):
            export(mx.eye(2))
        assert pathlib.Path(path).read_bytes() == before  # until it is closed
        export(mx.ones(4))
    assert mx.import_function(path)(mx.ones(4))[0].tolist() == [-1] * 4
    with pytest.raises(RuntimeError, match="Failed to open"):
        mx.export_function(str(tmp_path / "nowhere" / "f.mlxfn"), mx.abs, mx.zeros(2))


def test_extensions_are_asked_for(path):
    def f(a):
        return mx.linalg.lu_factor(a, stream=mx.cpu)[0]

    a = mx.array([[2.0, 1.0], [0.5, 3.0]])
    with pytest.raises(ValueError, match=r"^\[export_function\] .* primitive LUF: .*; portable=False"):
        mx.export_function(path, f, a)
    assert not os.path.exists(path)
    mx.export_function(path, f, a, portable=False)
    close(mx.import_function(path)(a)[0], f(a))
    assert list(mx.inspect_function(path)["traces"][0]["operations"])[-1].startswith("mlx.c:")


def test_an_example_known_to_the_function_is_an_error(path):
    x = mx.ones(3)
    with pytest.raises(ValueError, match="input 0"):
        mx.export_function(path, lambda y: x + 1, x)
    with pytest.raises(ValueError, match="input 1"):
        mx.export_function(path, lambda y, z: x + y, mx.zeros(3), x)


def test_outputs_may_be_anything(path):
    c = mx.array([1.0, 2.0])
    mx.eval(c)
    mx.export_function(path, lambda x, y: [x, c, x, x + y, c], c + 1, c + 2)
    y = mx.import_function(path)(mx.array([5.0, 6.0]), mx.array([1.0, 1.0]))
    assert [a.tolist() for a in y] == [[5, 6], [1, 2], [5, 6], [6, 7], [1, 2]]
    mx.export_function(path, lambda x: [], mx.zeros(1))
    assert mx.import_function(path)(mx.zeros(1)) == ()


def test_constants_of_any_layout_and_dtype(path):
    base = mx.arange(24).reshape(4, 6)
    arrays = [
        base.T,
        mx.broadcast_to(mx.arange(3), (100, 3)),
        base[1:, ::2],
        mx.zeros((0, 3)),
        mx.array(True),
        mx.array([True, False, True]),
        base.astype(mx.bfloat16),
        base.astype(mx.complex64),
        mx.array(3, mx.int8),
        base.astype(mx.float64, stream=mx.cpu),
    ]
    mx.eval(arrays)
    mx.export_function(path, lambda x: arrays, mx.zeros(1))
    for a, b in zip(mx.import_function(path)(mx.zeros(1)), arrays, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and mx.array_equal(a, b).item()


def test_transformed_functions_and_imported_ones_are_transformed(path, tmp_path):
    def f(x):
        return mx.sin(x * 3).sum()

    x = mx.array([0.1, 0.2, 0.3])
    mx.export_function(path, mx.grad(f), x)
    close(mx.import_function(path)(x)[0], 3 * mx.cos(3 * x))
    mx.export_function(path, mx.compile(f), x)
    g = mx.import_function(path)
    close(mx.grad(lambda x: g(x)[0])(x), 3 * mx.cos(3 * x))
    close(mx.vmap(lambda x: g(x)[0])(mx.stack([x, 2 * x])), mx.stack([f(x), f(2 * x)]))
    close(mx.compile(g)(x)[0], f(x))
    again = str(tmp_path / "again.mlxfn")
    mx.export_function(again, lambda x: g(x)[0] + 1, x)
    close(mx.import_function(again)(x)[0], f(x) + 1)


def test_metadata(path):
    for text in ("", "hallo", "gr\u00fc\u00dfe \U0001f30d", "with\0null", "x" * 70000):
        mx.export_function(path, mx.abs, mx.zeros(1), metadata=text)
        f, metadata = mx.import_function(path, return_metadata=True)
        assert metadata == text and f(mx.array([-1.0]))[0].tolist() == [1]
        assert mx.inspect_function(path)["metadata"] == text
    with pytest.raises(TypeError):
        mx.export_function(path, mx.abs, mx.zeros(1), metadata=3)
    with pytest.raises(ValueError):
        mx.export_function(print, mx.abs, mx.zeros(1), metadata="no")


def test_a_callback_hears_the_graph():
    w = mx.array([1.0, 2.0])
    mx.eval(w)
    heard = []
    mx.export_function(
        heard.append,
        lambda x, *, k: mx.broadcast_to((x * w).sum(axis=0), (2, 3)) + k.astype(mx.float32),
        mx.zeros(2),
        k=mx.zeros((2, 3), mx.int32),
    )
    assert [e["type"] for e in heard[:4]] == ["inputs", "keyword_inputs", "outputs", "constants"]
    assert heard[0]["inputs"] == [("A", (2,), mx.float32), ("B", (2, 3), mx.int32)]
    assert heard[1]["keywords"] == [("k", "B")]
    ((name, held),) = heard[3]["constants"]
    assert held.tolist() == [1, 2]
    steps = {e["name"]: e for e in heard[4:]}
    assert steps["Multiply"]["inputs"] == [("A", (2,), mx.float32), (name, (2,), mx.float32)]
    assert steps["Reduce"]["arguments"] == [2, [0]]
    assert steps["Broadcast"]["arguments"] == [(2, 3)]
    assert steps["AsType"]["arguments"] == [mx.float32]
    assert steps["Add"]["outputs"] == heard[2]["outputs"]

    def stop(event):
        raise StopIteration

    with pytest.raises(StopIteration):
        mx.export_function(stop, mx.abs, mx.zeros(1))


def test_shapeless(path):
    def f(x, y):
        return mx.softmax(x * y + 1, axis=-1).mean(axis=0, keepdims=True) @ mx.ones((4, 2))

    mx.export_function(path, f, mx.zeros((3, 4)), mx.zeros((1, 4)), shapeless=True)
    g = mx.import_function(path)
    for n in (1, 3, 7):
        x = mx.random.normal((n, 4), key=mx.random.key(n))
        close(g(x, x[:1])[0], f(x, x[:1]))
        close(g(x, x)[0], f(x, x))
    with pytest.raises(ValueError, match="any shape of these ranks"):
        g(mx.zeros(4), mx.zeros((1, 4)))


def test_a_reshape_to_its_own_shape_follows(path):
    with pytest.warns(RuntimeWarning, match="looks at sizes"):
        mx.export_function(path, lambda x: x.reshape(x.shape) + 1, mx.zeros((2, 3)), shapeless=True)
    assert mx.import_function(path)(mx.zeros((5, 7)))[0].shape == (5, 7)


def test_the_file_may_go(path):
    w = mx.random.normal((100, 100), key=mx.random.key(0))
    mx.eval(w)
    mx.export_function(path, lambda x: x @ w, mx.zeros((1, 100)))
    f = mx.import_function(path)
    mx.export_function(path, lambda x: x, mx.zeros((1, 100)))
    x = mx.ones((1, 100))
    close(f(x)[0], x @ w, atol=1e-4)
    g = mx.import_function(path)
    os.unlink(path)
    close(g(x)[0], x)
    with pytest.raises(RuntimeError, match="Failed to open"):
        mx.import_function(path)


def test_random_numbers_are_the_same_at_every_call(path):
    mx.export_function(path, lambda x: x + mx.random.uniform(shape=(3,)), mx.zeros(3))
    f = mx.import_function(path)
    assert f(mx.zeros(3))[0].tolist() == f(mx.zeros(3))[0].tolist()
    mx.export_function(path, lambda key: mx.random.normal((3,), key=key), mx.random.key(0))
    key = mx.random.key(7)
    close(mx.import_function(path)(key)[0], mx.random.normal((3,), key=key))


def test_inspecting(path, capsys):
    from mlx import _export

    w = mx.ones((300, 300))
    mx.eval(w)
    mx.export_function(path, lambda x, *, k: x @ w + k, mx.zeros((2, 300)), k=mx.array(1.0), metadata="about")
    told = mx.inspect_function(path)
    (trace,) = told["traces"]
    assert trace["inputs"] == [{"shape": (2, 300), "dtype": mx.float32}]
    assert trace["keywords"] == {"k": {"shape": (), "dtype": mx.float32}}
    assert trace["outputs"] == [{"shape": (2, 300), "dtype": mx.float32}]
    assert trace["operations"] == {"Matmul": 1, "Broadcast": 1, "Add": 1}
    assert [(c["shape"], c["bytes"]) for c in told["constants"]] == [((300, 300), 360000)]
    assert told["metadata"] == "about" and told["version"] == mx._release and not told["shapeless"]
    assert _export.main([path, "--constants"]) == 0
    out = capsys.readouterr().out
    assert "float32[2, 300], k=float32[]" in out and "1 Matmul" in out and "float32[300, 300]" in out
    assert _export.main(["--json", path]) == 0
    assert '"Matmul": 1' in capsys.readouterr().out
    assert _export.main([path + "x"]) == 1


def test_loops_and_branches(path):
    w = mx.random.normal((4, 4), key=mx.random.key(0)) / 4
    mx.eval(w)

    def recurrent(x, xs):
        return mx.scan(lambda c, x: (mx.tanh(c @ w + x), (c * 2).sum()), x, xs)

    def halved(x):
        return [mx.while_loop(lambda c: (c**2).sum() > 1, lambda c: c @ w, x)]

    def chosen(x):
        return mx.cond(x.sum() > 0, lambda x: mx.sin(x) @ w, lambda x: x * 2, x)

    def nested(x):
        def outer(c, _):
            inner, _ = mx.scan(lambda d, k: (mx.where(k > 0.5, d + w[0], d * 0.5), d), c, c)
            return mx.cond(inner.sum() > 1, lambda y: y / 2, lambda y: y, inner), inner

        return mx.scan(outer, x, length=3)

    def gradient(x, xs):
        return mx.grad(lambda x, xs: recurrent(x, xs)[0].sum(), argnums=(0, 1))(x, xs)

    x, xs = mx.array([0.5, -1.0, 2.0, 1.5]), mx.random.normal((6, 4), key=mx.random.key(1))
    for f, inputs in [(recurrent, (x, xs)), (halved, (x * 9,)), (chosen, (x,)), (chosen, (-x,)), (nested, (x,)),
                      (gradient, (x, xs))]:  # fmt: skip
        with pytest.raises(ValueError, match="Unable to serialize primitive"):
            mx.export_function(path, f, *[mx.array(a) for a in inputs])
        mx.export_function(path, f, *[mx.array(a) for a in inputs], portable=False)
        g = mx.import_function(path)
        want = f(*inputs)
        for a, b in zip(g(*inputs), [want] if isinstance(want, mx.array) else want, strict=True):
            close(a, b)
    mx.export_function(path, recurrent, mx.array(x), mx.array(xs), portable=False)
    g = mx.import_function(path)
    for a, b in zip(mx.grad(lambda x, xs: g(x, xs)[0].sum(), argnums=(0, 1))(x, xs), gradient(x, xs)):
        close(a, b)
    close(mx.vmap(lambda x: g(x, xs)[0])(mx.stack([x, -x]))[1], recurrent(-x, xs)[0])


def test_a_large_constant_and_any_number_of_arguments(path):
    constant = mx.zeros((16, 2048))
    mx.eval(constant)

    def fun(*args):
        return constant + sum(args)

    with mx.exporter(path, fun) as export:
        for i in range(5):
            export(*[mx.array(1)] * i)
    assert len(mx.inspect_function(path)["traces"]) == 5
    assert os.path.getsize(path) < 16 * 2048 * 4 + 8000
    f = mx.import_function(path)
    for i in range(5):
        assert f(*[mx.array(2)] * i)[0].max().item() == 2 * i


def test_loaded_arrays_are_constants(path, tmp_path):
    y = mx.random.normal((40, 50), key=mx.random.key(2))
    for name, save in (("y.safetensors", lambda file: mx.save_safetensors(file, {"y": y})),
                       ("y.npy", lambda file: mx.save(file, y))):  # fmt: skip
        file = str(tmp_path / name)
        save(file)

        def inside(x, file=file):
            loaded = mx.load(file)
            return x + (loaded["y"] if isinstance(loaded, dict) else loaded)

        outside = mx.load(file)
        outside = outside["y"] if isinstance(outside, dict) else outside
        for f in (inside, lambda x, outside=outside: x + outside):
            mx.export_function(path, f, mx.zeros((40, 50)))
            assert mx.inspect_function(path)["traces"][0]["operations"] == {"Add": 1}
            close(mx.import_function(path)(mx.ones((40, 50)))[0], y + 1)


def test_fused_operations_stay_where_files_need_not_be_portable(path):
    x, w = mx.random.normal((1, 4, 6, 8), key=mx.random.key(0)), mx.random.normal((8,), key=mx.random.key(1))
    mask = mx.tril(mx.ones((6, 6), mx.bool_))

    def f(x):
        q = mx.fast.rope(x, 8, traditional=False, base=100.0, scale=1.0, offset=2)
        y = mx.fast.scaled_dot_product_attention(q, x, x, scale=0.3, mask=mask)
        return mx.fast.layer_norm(mx.fast.rms_norm(y, w, 1e-5), w, w, 1e-5)

    def gradient(x):
        return mx.grad(lambda x: (f(x) ** 2).sum())(x)

    batch = mx.vmap(f)
    for g, inputs in ((f, x), (gradient, x), (batch, mx.stack([x, x + 1]))):
        want = g(inputs)
        mx.export_function(path, g, mx.array(inputs), portable=False)
        told = mx.inspect_function(path)["traces"][0]["operations"]
        assert {"mlx.c:attention", "mlx.c:rope", "mlx.c:rms_norm", "mlx.c:layer_norm"} <= set(told)
        got = mx.import_function(path)(inputs)[0]
        assert mx.array_equal(got, want).item() or g is batch
        close(got, want)
        mx.export_function(path, g, mx.array(inputs))
        assert not any("mlx.c:" in name for name in mx.inspect_function(path)["traces"][0]["operations"])
        close(mx.import_function(path)(inputs)[0], want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("depth", [90, 101])
def test_branches_in_branches(path, depth):
    """As many as a table of cases makes; more are refused, and what is said ends with why."""

    def cases(x, i=0):
        return mx.cond(x.sum() < i, mx.cos, lambda x: cases(x, i + 1), x) if i < depth else mx.sin(x)

    if depth > 100:
        with pytest.raises((ValueError, RuntimeError), match="more than 100 deep$"):
            mx.export_function(path, cases, mx.zeros(3), portable=False)
        return
    mx.export_function(path, cases, mx.zeros(3), portable=False)
    f = mx.import_function(path)
    for x in (mx.array([-1.0, 0, 0]), mx.array([20.0, 1, 1]), mx.array([90.0, 0, 1])):
        close(f(x)[0], cases(x))


def test_an_exception_among_traces_leaves_the_older_file(path, tmp_path):
    mx.export_function(path, mx.abs, mx.zeros(2))
    before = pathlib.Path(path).read_bytes()
    with pytest.raises(KeyError), mx.exporter(path, mx.sin) as export:
        export(mx.zeros(2))
        raise KeyError
    assert pathlib.Path(path).read_bytes() == before
    export = mx.exporter(path, mx.sin)
    export(mx.zeros(2))
    with pytest.raises(ValueError):
        export(mx.zeros(3), "no array")
    with pytest.raises(RuntimeError, match="same signature"):
        export(mx.zeros(2))
    del export
    assert pathlib.Path(path).read_bytes() == before
    export = mx.exporter(path, mx.sin)
    export(mx.zeros(3))
    assert pathlib.Path(path).read_bytes() == before
    del export  # as the file of a program that closes none
    assert [t["inputs"][0]["shape"] for t in mx.inspect_function(path)["traces"]] == [(3,)]
    assert os.listdir(tmp_path) == ["f.mlxfn"]


def test_an_exporter_without_a_trace(path):
    mx.export_function(path, mx.abs, mx.zeros(2))
    export = mx.exporter(path, mx.sin)
    with pytest.raises(ValueError):
        export(1.0)
    del export
    assert mx.import_function(path)(mx.array([-1.0, 2.0]))[0].tolist() == [1, 2]
    mx.exporter(path, mx.sin).close()  # which says that it is to be empty
    assert mx.inspect_function(path)["traces"] == []


def test_a_cycle_through_an_exporter_is_collected(tmp_path):
    class Holder:
        pass

    def held(file):
        h = Holder()
        h.exporter = mx.exporter(file(h), lambda x: (h, x)[1])
        h.exporter(mx.ones(2))
        return weakref.ref(h)

    to_file = held(lambda h: str(tmp_path / "f.mlxfn"))
    to_listener = held(lambda h: lambda event: (h, None)[1])
    gc.collect()
    assert to_file() is None and to_listener() is None


def test_imported_functions_take_part_in_garbage_collection(tmp_path):
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, lambda x: x + 1, mx.ones(2))

    class Path:
        def __fspath__(self):
            return path

    p = Path()
    p.f = mx.import_function(p)
    gone = weakref.ref(p)
    assert p.f(mx.ones(2))[0].tolist() == [2, 2]
    del p
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [7, 8, 9, 10])
def test_what_a_stride_leaves_out_is_no_negative_padding(size, stride):
    """Which ends the process of the mlx package, where such a file is run."""
    heard = []
    w = mx.ones((2, 3, 3, 1))
    with mx.exporter(heard.append, lambda x: mx.conv2d(x, w, stride=stride)) as exporter:
        exporter(mx.ones((1, size, size, 1)))
    paddings = [p["arguments"][1:3] for p in heard if p.get("name") == "Convolution"]
    assert len(paddings) == 1 and all(n >= 0 for low, high in paddings for n in (*low, *high))


CONVOLUTIONS = {  # input, kernel, and the rest
    "a stride that leaves rows out": (8, 3, {"stride": 2}),
    "two that are left out": (8, 3, {"stride": 3}),
    "padding wider than the kernel": (8, 2, {"stride": 2, "padding": 3}),
    "negative padding": (9, 3, {"padding": ([-1, -2], [-2, 1])}),
    "negative padding between elements": (6, 2, {"padding": ([-1, -2], [-4, 0]), "input_dilation": 3, "stride": 2}),
    "only zeros between elements": (2, 1, {"padding": ([-1, -1], [-1, -2]), "input_dilation": 5}),
}


@pytest.mark.parametrize("derivative", [None, 0, 1])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_without_negative_padding(tmp_path, case, derivative):
    size, kernel, rest = CONVOLUTIONS[case]
    x, w = mx.random.normal((2, size, size, 3)), mx.random.normal((4, kernel, kernel, 3))

    def f(x, w):
        return mx.conv_general(x, w, **rest).square()

    if derivative is not None:
        f = mx.grad(lambda *args, f=f: f(*args).sum(), argnums=derivative)
    heard, path = [], str(tmp_path / "f.mlxfn")
    with mx.exporter(heard.append, f) as exporter:
        exporter(x, w)
    paddings = [p["arguments"][1:3] for p in heard if p.get("name") == "Convolution"]
    assert paddings and all(n >= 0 for both in paddings for n in sum(both, []))
    mx.export_function(path, f, x, w)
    np.testing.assert_allclose(mx.import_function(path)(x, w)[0], f(x, w), rtol=1e-4, atol=1e-4)


def trained():
    w = mx.grad(lambda w: (w * w).sum())(mx.ones((3, 2)))
    mx.eval(w)
    return w


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize(
    "constant",
    [
        lambda w: mx.softmax(w)[0, 0],
        lambda w: mx.squeeze(w[None])[0, 0],
        lambda w: mx.unique(w, size=3)[0],
        lambda w: mx.grad(lambda q: mx.softmax(q).max())(w * 1).sum(),
    ],
)
def test_constants_out_of_a_gradient_for_any_shape(tmp_path, constant, portable):
    """What a transform has given counts as one, and so does what a function inside differentiates of one."""
    w, x = trained(), mx.ones((2, 5))
    for v in w, mx.ones((3, 2)):

        def f(x, v=v):
            return x + constant(v)

        mx.export_function(tmp_path / "f", f, mx.zeros((1, 1)), shapeless=True, portable=portable)
        (y,) = mx.import_function(tmp_path / "f")(x)
        assert mx.allclose(y, f(x)).item()


def test_folds_of_axes_of_size_1_are_no_reductions(path):
    """Which end the process of the `mlx` package where the shape stays."""
    x = mx.ones((1, 5, 1))
    folds = [mx.sum, mx.prod, mx.min, mx.max, mx.all, mx.any]
    mx.export_function(path, lambda x: [f(x, axis=(0, 2), keepdims=True) for f in folds], x)
    assert "Reduce" not in mx.inspect_function(path)["traces"][0]["operations"]
    mx.export_function(path, lambda x: [f(x, axis=(0, 1)) for f in folds], x)
    assert mx.inspect_function(path)["traces"][0]["operations"]["Reduce"] == len(folds)
    mx.export_function(path, lambda x: mx.sum(x, axis=0), x, shapeless=True)
    assert mx.import_function(path)(mx.ones((3, 2, 2)))[0].tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_groups_in_three_dimensions_are_a_convolution_each(path):
    x, w = mx.ones((1, 3, 3, 3, 4)), mx.ones((2, 2, 2, 2, 2))
    mx.export_function(path, lambda x, w: mx.conv3d(x, w, groups=2), x, w)
    assert mx.inspect_function(path)["traces"][0]["operations"]["Convolution"] == 2
    mx.export_function(path, lambda x, w: mx.conv3d(x, w, groups=2), x, w, portable=False)
    assert mx.inspect_function(path)["traces"][0]["operations"] == {"Convolution": 1}


@pytest.mark.parametrize("t", [mx.float16, mx.bfloat16, mx.float32, mx.float64])
def test_slopes_of_sigmoid_and_silu_keep_their_accuracy(path, t):
    x = mx.array([-np.inf, -20.0, -5.0, -1.28, -0.0, 1.0, 7.0, np.inf]).astype(t, stream=mx.cpu)

    def slopes(x):
        return [mx.grad(lambda x, f=f: f(x).sum())(x) for f in (nn.silu, mx.sigmoid)]

    mx.export_function(path, slopes, x)
    z = np.array(x.astype(mx.float64, stream=mx.cpu))
    s, other = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(z))
    want = [s * (1 + np.nan_to_num(z) * other), s * other]
    eps = float(mx.finfo(t).eps)
    for got, w in zip(mx.import_function(path)(x), want, strict=True):
        assert got.dtype == t
        np.testing.assert_allclose(np.array(got.astype(mx.float64, stream=mx.cpu)), w, rtol=eps, atol=1e-7)


@pytest.mark.parametrize("shapeless", [False, True])
def test_expm1_of_complex_numbers_at_its_ends(path, shapeless):
    x = mx.array(
        [200, -np.inf, 200 + 1j, 200 + 3j, 1e-6 + 1e-7j, 19.9 + 1j, 20.1 + 1j, -30 + 2j, complex(-np.inf, np.inf)]
    )
    mx.export_function(path, mx.expm1, x, shapeless=shapeless)
    got, want = np.array(mx.import_function(path)(x)[0]), np.array(mx.expm1(x))
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert got[0] == complex(np.inf, 0) and got[-1] == -1


@pytest.mark.parametrize("n", [8, 12])
def test_scalars_of_float64_are_kept(path, n):
    x = mx.arange(n * n, dtype=mx.float64, stream=mx.cpu).reshape(n, n)

    def f(x):
        with mx.stream(mx.cpu):
            h = mx.grad(lambda x: (mx.hadamard_transform(x) * x).sum())(x)
            return mx.hadamard_transform(x), h, mx.hadamard_transform(x, 0.1), mx.addmm(x, x, x, alpha=0.1, beta=0.3)

    mx.export_function(path, f, x)
    for got, want in zip(mx.import_function(path)(x), f(x), strict=True):
        np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-14, atol=1e-12)
    y = np.arange(n * n).reshape(n, n)
    np.testing.assert_allclose(np.array(mx.import_function(path)(x)[3]), 0.1 * (y @ y) + 0.3 * y, rtol=1e-14)


@pytest.mark.parametrize("t", [mx.float32, mx.complex64])
def test_solving_in_files_knows_singular_matrices(path, t):
    a = mx.array([[[2.0, 1], [1, 3]], [[1e-4, 1], [1, 1]], [[1, 1], [1, 1.001]]]).astype(t)
    b = mx.array([[1.0, 2], [3, 4]]).astype(t)
    mx.export_function(path, lambda a, b: mx.linalg.solve(a, b, stream=mx.cpu), a, b)
    solve = mx.import_function(path)
    want = np.linalg.solve(np.array(a).astype(np.complex128), np.array(b).astype(np.complex128))
    np.testing.assert_allclose(np.array(solve(a, b)[0]), want, rtol=1e-3, atol=1e-6)
    residual = np.array(a) @ np.array(solve(a, b)[0]) - np.array(b)
    assert np.abs(residual).max() < 1e-6 * np.abs(want).max()
    for singular in ([[1.0, 1], [1, 1]], [[1, 2], [2, 4]], [[0, 0], [0, 0]]):
        with pytest.raises(ValueError, match="singular"):
            mx.eval(solve(mx.stack([a[0], mx.array(singular).astype(t), a[1]]), b))


@pytest.mark.parametrize("t", ["bool", "int8", "uint16", "int32", "int64"])
def test_products_of_integers_in_files_are_exact_and_small(path, t):
    low, high = (0, 1) if t == "bool" else (np.iinfo(t).min, np.iinfo(t).max)
    rng = np.random.default_rng(0)
    a, b = [rng.integers(low, high, shape, "int64", endpoint=True).astype(t) for shape in ((2, 9, 300), (30, 300))]
    mx.export_function(path, mx.inner, mx.array(a), mx.array(b))
    mx.eval(want := mx.import_function(path)(mx.array(a), mx.array(b))[0])
    np.testing.assert_array_equal(np.array(want), np.inner(a, b))
    x = mx.zeros((32, 32, 256), getattr(mx, t if t != "bool" else "bool_"))
    mx.export_function(path, mx.inner, x, x)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    (y,) = mx.import_function(path)(x, x)
    mx.eval(y)
    assert mx.get_peak_memory() - before < 64 * max(y.nbytes, 4 * y.size)  # all products are 256 times as many


@pytest.mark.parametrize("shapeless", [False, True])
def test_constants_made_of_what_the_format_lacks(path, shapeless):
    def f(x):
        levels = mx.from_fp8(mx.to_fp8(mx.linspace(0, 1, 4)), mx.float32)
        return x * levels, mx.linalg.lu(mx.identity(4) + levels, stream=mx.cpu)[1]

    x = mx.array([1.0, 2, 3, 4])
    mx.export_function(path, f, x, shapeless=shapeless)
    for there, here in zip(mx.import_function(path)(x), f(x), strict=True):
        assert there.tolist() == here.tolist()


@pytest.mark.parametrize("t", [mx.float32, mx.float16, mx.complex64])
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_log_softmax_of_nothing(path, shape, t):
    def f(x):
        return nn.log_softmax(x), nn.log_softmax(x, axis=0)

    x = mx.zeros(shape, t)
    mx.export_function(path, f, x)
    for y in mx.import_function(path)(x) + f(x):
        assert y.shape == shape and y.dtype == t


@pytest.mark.parametrize(
    "name, said", [("a\0b", "without null characters, got 'a.x00b'"), ("a\ud800", "that UTF-8 can hold, got 'a.ud800'")]
)
def test_names_that_no_file_has(tmp_path, name, said):
    path = tmp_path / "f.mlxfn"
    for given in (lambda *a, **k: mx.export_function(path, *a, **k), lambda f, **k: mx.exporter(path, f)(**k)):
        with pytest.raises(mx.Error, match=rf"\[\w+\] expected names .*{said}"):
            given(lambda **k: k[name], **{name: mx.ones(1)})
    mx.export_function(path, lambda x: x, x=mx.ones(1))
    with pytest.raises(mx.Error, match=said):
        mx.import_function(path)(**{name: mx.ones(1)})
