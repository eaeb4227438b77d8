"""What a user's first hour relies on: transforms, indexing, laziness, conversion, files."""

import gc
import weakref

import mlx.core as mx
import numpy as np
import pytest


def text(x):
    return repr(x)


# Derivatives


def test_grad_of_a_function_is_a_function():
    dfdx = mx.grad(mx.sin)
    assert text(dfdx(mx.array(mx.pi))) == "array(-1, dtype=float32)"
    assert text(mx.cos(mx.array(mx.pi))) == "array(-1, dtype=float32)"


def test_grad_of_grad():
    d2fdx2 = mx.grad(mx.grad(mx.sin))
    assert text(d2fdx2(mx.array(mx.pi / 2))) == "array(-1, dtype=float32)"
    assert text(mx.sin(mx.array(mx.pi / 2))) == "array(1, dtype=float32)"


def test_grad_to_any_order():
    f, want = mx.sin, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin]
    for order in range(8):
        f = mx.grad(f)
        assert abs(f(mx.array(0.7)).item() - want[order % 4](0.7)) < 1e-5


def linear_loss(w, x, y):
    return mx.mean(mx.square(w * x - y))


LINEAR = ([0.5, -0.5], [1.5, -1.5])


def test_grad_of_the_first_argument_by_default():
    x, y = map(mx.array, LINEAR)
    assert text(mx.grad(linear_loss)(mx.array(1.0), x, y)) == "array(-1, dtype=float32)"


def test_grad_of_another_argument():
    x, y = map(mx.array, LINEAR)
    got = mx.grad(linear_loss, argnums=1)(mx.array(1.0), x, y)
    assert text(got) == "array([-1, 1], dtype=float32)"


def test_value_and_grad():
    x, y = map(mx.array, LINEAR)
    loss, dw = mx.value_and_grad(linear_loss)(mx.array(1.0), x, y)
    assert text(loss) == "array(1, dtype=float32)"
    assert text(dw) == "array(-1, dtype=float32)"


def test_grad_of_containers_keeps_their_structure():
    def loss(params, x, y):
        h = params["weight"] * x + params["bias"]
        return mx.mean(mx.square(h - y))

    params = {"weight": mx.array(1.0), "bias": mx.array(0.0)}
    x, y = map(mx.array, LINEAR)
    got = mx.grad(loss)(params, x, y)
    want = "{'weight': array(-1, dtype=float32), 'bias': array(0, dtype=float32)}"
    assert str(got) == want
    nested = mx.grad(lambda p: (p[0] * p[1]["a"][0]).sum())([mx.array(2.0), {"a": (mx.array(3.0),)}])
    assert nested[0].item() == 3 and nested[1]["a"][0].item() == 2


def test_stop_gradient():
    got = mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
    assert got.item() == 3


def test_any_composition_to_any_depth():
    per_row = mx.vmap(mx.grad(lambda x: mx.jvp(mx.sin, [x], [x * x])[1][0]))
    x = mx.array([0.1, 0.5, 2.0])
    want = 2 * x * mx.cos(x) - x * x * mx.sin(x)
    np.testing.assert_allclose(np.array(per_row(x)), np.array(want), rtol=1e-5)
    f = mx.sin
    for transform in (mx.grad, mx.vmap, lambda f: mx.grad(lambda x: f(x).sum()), mx.checkpoint, mx.compile):
        f = transform(f)
    np.testing.assert_allclose(np.array(f(x)), -np.sin(np.array(x)), rtol=1e-5)


def test_vmap_of_an_addition():
    xs, ys = mx.random.uniform(shape=(4096, 100)), mx.random.uniform(shape=(100, 4096))
    naive = [xs[:, i] + ys[i] for i in range(xs.shape[1])]
    vmap_add = mx.vmap(lambda x, y: x + y, in_axes=(1, 0))
    assert mx.array_equal(vmap_add(xs, ys), mx.stack(naive))
    assert mx.array_equal(vmap_add(xs, ys), xs.T + ys)
    columns = mx.vmap(lambda x, y: x + y, in_axes=(1, 0), out_axes=1)
    assert mx.array_equal(columns(xs, ys), xs + ys.T)


# Indexing


def test_integers_and_slices():
    arr = mx.arange(10)
    assert text(arr[3]) == "array(3, dtype=int32)"
    assert text(arr[-2]) == "array(8, dtype=int32)"
    assert text(arr[2:8:2]) == "array([2, 4, 6], dtype=int32)"


def test_ellipsis():
    arr = mx.arange(8).reshape(2, 2, 2)
    want = "array([[0, 2],\n       [4, 6]], dtype=int32)"
    assert text(arr[:, :, 0]) == want
    assert text(arr[..., 0]) == want


def test_new_axis():
    arr = mx.arange(8)
    assert arr.shape == (8,)
    assert arr[None].shape == (1, 8)


def test_index_by_array():
    arr = mx.arange(10)
    assert text(arr[mx.array([5, 7])]) == "array([5, 7], dtype=int32)"


def test_mixed_indices_as_numpy():
    a = np.arange(120).reshape(2, 3, 4, 5)
    x = mx.array(a)
    i, j = np.array([0, 1, 1]), np.array([[2], [0]])
    cases = [
        (1, slice(None), i),
        (slice(0, 2), i, 2),
        (..., i),
        (None, 0, i, slice(1, 3)),
        (i, slice(None), i),
        (slice(None), i, i),
        (slice(None), i, slice(None), i),
        (j % 2, i),
        (0, j, slice(None), 1),
        (slice(None, None, -1), 1, ..., None, i),
    ]
    for case in cases:
        key = tuple(mx.array(k) if isinstance(k, np.ndarray) else k for k in case)
        np.testing.assert_array_equal(np.array(x[key]), a[case], err_msg=str(case))


def test_take_and_take_along_axis():
    a = np.random.default_rng(0).integers(0, 9, (3, 4))
    i = np.array([[0, 2], [1, 1], [3, 0]])
    assert np.array_equal(mx.take(mx.array(a), mx.array([2, 0]), axis=1), a[:, [2, 0]])
    assert np.array_equal(mx.take_along_axis(mx.array(a), mx.array(i), axis=1), np.take_along_axis(a, i, 1))


def test_index_out_of_bounds_is_an_error(index_errors):
    x = mx.arange(4)
    with pytest.raises(IndexError):
        x[4]
    with pytest.raises(IndexError, match="out of range"):
        mx.eval(x[mx.array([0, 4])])
    with pytest.raises(IndexError, match="out of range"):
        mx.eval(x[mx.array([-5])])


# Updates


def test_update_in_place():
    a = mx.array([1, 2, 3])
    a[2] = 0
    assert text(a) == "array([1, 2, 0], dtype=int32)"


def test_updates_show_in_all_references():
    a = mx.array([1, 2, 3])
    b = a
    b[2] = 0
    assert text(b) == "array([1, 2, 0], dtype=int32)"
    assert text(a) == "array([1, 2, 0], dtype=int32)"


def test_grad_through_an_update():
    def fun(x, idx):
        x[idx] = 2.0
        return x.sum()

    dfdx = mx.grad(fun)(mx.array([1.0, 2.0, 3.0]), mx.array([1]))
    assert text(dfdx) == "array([1, 0, 1], dtype=float32)"


# Laziness


def test_nothing_runs_until_it_is_needed():
    before = mx.get_active_memory()
    x = mx.zeros((1 << 20,)) + 1
    y = mx.exp(x)
    assert mx.get_active_memory() - before < 1 << 20
    mx.eval(y)
    assert mx.get_active_memory() - before >= 1 << 22


def test_unused_results_are_never_computed():
    def expensive(a):
        return mx.exp(a.reshape(-1, 1) + a)

    x = mx.zeros((1 << 14,))
    y, unused = x + 1, expensive(x + 1)
    mx.reset_peak_memory()
    mx.eval(y)
    assert mx.get_peak_memory() < 1 << 26
    del unused


def test_a_model_takes_no_memory_before_its_weights_are_loaded(tmp_path):
    nn = pytest.importorskip("mlx.nn")
    path = str(tmp_path / "weights.safetensors")
    source = nn.Linear(512, 512)
    source.set_dtype(mx.float16)
    source.save_weights(path)
    before = mx.get_active_memory()
    model = nn.Linear(512, 512)
    assert mx.get_active_memory() - before < 512 * 512
    model.load_weights(path)
    mx.eval(model.parameters())
    assert model.weight.dtype == mx.float16
    assert mx.get_active_memory() - before < 512 * 512 * 3


def test_evaluation_inside_an_outer_loop():
    a, b = mx.array(1.0), mx.array(2.0)
    for _ in range(100):
        a = a + b
        mx.eval(a)
        b = b * 2
        mx.eval(b)
    big = mx.array(0.0)
    for _ in range(50000):
        big = big + 1
    assert big.item() == 50000
    assert mx.isinf(a).item() or a.item() > 1e20


def test_conversions_evaluate(tmp_path):
    def fresh():
        return mx.arange(3) + 1

    assert str(fresh()) == "array([1, 2, 3], dtype=int32)"
    assert np.array(fresh()).tolist() == [1, 2, 3]
    assert memoryview(fresh()).tolist() == [1, 2, 3]
    assert (mx.array(2) + 1).item() == 3
    mx.save(str(tmp_path / "x.npy"), fresh())
    assert np.load(tmp_path / "x.npy").tolist() == [1, 2, 3]


def test_eval_again_is_harmless():
    x = mx.arange(3) * 2
    mx.eval(x)
    mx.eval(x, [x, {"k": x}], (x,))
    assert x.tolist() == [0, 2, 4]


def test_control_flow_on_values():
    def fun(x):
        h = x * 2
        if h > 0:
            return h * h
        return -h

    assert mx.value_and_grad(fun)(mx.array(3.0)) == (36, 24)
    assert mx.grad(fun)(mx.array(-3.0)).item() == -2


# Conversion


def test_numpy_and_back():
    a = mx.arange(3)
    b = np.array(a)
    c = mx.array(b)
    assert b.tolist() == c.tolist() == [0, 1, 2] and c.dtype == mx.int32
    b[0] = 9
    assert a[0].item() == 0 and c[0].item() == 0


def test_bfloat16_goes_through_another_type():
    a = mx.array([1.5, 2.5], mx.bfloat16)
    assert np.array(a.astype(mx.float32)).tolist() == [1.5, 2.5]


def test_a_numpy_view_shares_memory():
    a = mx.arange(3)
    view = np.asarray(a)
    assert not view.flags.owndata
    view[0] = 1
    assert a[0].item() == 1


def test_writes_outside_are_not_differentiated():
    def f(x):
        view = np.asarray(x)
        view[:] *= view
        return x.sum()

    y, df = mx.value_and_grad(f)(mx.array([3.0]))
    assert y.item() == 9 and df.item() == 1


def test_memoryview_goes_to_other_frameworks():
    m = memoryview(mx.arange(6).reshape(2, 3))
    assert m.shape == (2, 3) and m.format in ("i", "=i") and m.tolist() == [[0, 1, 2], [3, 4, 5]]


# Files


def test_save_adds_the_extension(tmp_path):
    a = mx.array([1.0])
    mx.save(str(tmp_path / "array"), a)
    assert text(mx.load(str(tmp_path / "array.npy"))) == "array([1], dtype=float32)"


def test_savez(tmp_path):
    a, b = mx.array([1.0]), mx.array([2.0])
    mx.savez(str(tmp_path / "arrays"), a, b=b)
    got = mx.load(str(tmp_path / "arrays.npz"))
    assert {k: text(v) for k, v in got.items()} == {
        "b": "array([2], dtype=float32)",
        "arr_0": "array([1], dtype=float32)",
    }


def test_safetensors(tmp_path):
    a, b = mx.array([1.0]), mx.array([2.0])
    mx.save_safetensors(str(tmp_path / "arrays"), {"a": a, "b": b})
    got = mx.load(str(tmp_path / "arrays.safetensors"))
    assert got["a"].item() == 1 and got["b"].item() == 2 and len(got) == 2


def test_names_and_paths_with_null_characters_are_refused(tmp_path):
    x = mx.ones(2)
    for save in [
        lambda: mx.save(str(tmp_path / "k") + "\0junk", x),
        lambda: mx.savez(str(tmp_path / "k") + "\0junk", x),
        lambda: mx.save_safetensors(str(tmp_path / "k") + "\0junk", {"a": x}),
        lambda: mx.save_safetensors(str(tmp_path / "n"), {"a\0b": x}),
        lambda: mx.save_safetensors(str(tmp_path / "n"), {"a": x}, {"m\0": "v"}),
        lambda: mx.savez(str(tmp_path / "n"), **{"a\0b": x}),
        lambda: mx.load(str(tmp_path / "k") + "\0.npy"),
    ]:
        with pytest.raises(ValueError, match="null character"):
            save()
    assert not list(tmp_path.iterdir())


def test_savez_follows_links_and_spares_devices(tmp_path):
    mx.savez(str(tmp_path / "old.npz"), x=mx.zeros(2))
    (tmp_path / "old.npz").rename(tmp_path / "blob")
    (tmp_path / "ck.npz").symlink_to("blob")
    mx.savez(str(tmp_path / "ck"), x=mx.ones(2))
    assert mx.load(str(tmp_path / "ck.npz"))["x"].tolist() == [1, 1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["blob", "ck.npz"]
    (tmp_path / "full.npz").symlink_to("/dev/full")
    with pytest.raises(OSError, match="not a regular file"):
        mx.savez(str(tmp_path / "full.npz"), x=mx.ones(2))


@pytest.mark.parametrize("returned", ["q", 0, -1, 10**30])
def test_a_file_that_does_not_say_what_it_wrote(returned):
    class File:
        def write(self, data):
            return returned

    with pytest.raises(OSError, match=r"write\(\) of the file"):
        mx.save(File(), mx.ones(3))
    with pytest.raises(OSError, match=r"write\(\) of the file"):
        mx.save_safetensors(File(), {"a": mx.ones(3)})


def test_dlpack_copies_when_asked():
    a = mx.arange(4)
    mx.eval(a)
    c = np.from_dlpack(a, copy=True)
    c[0] = 9
    assert a.tolist() == [0, 1, 2, 3]


def test_cycles_through_transforms_are_collected():
    class Holder:
        pass

    def make(transform):
        h = Holder()
        h.f = transform(lambda x: (h, x)[1])
        return weakref.ref(h)

    for transform in [mx.grad, mx.value_and_grad, mx.vmap, mx.custom_function]:
        ref = make(transform)
        gc.collect()
        assert ref() is None, transform


def test_scalars_format_as_numbers():
    assert f"{mx.array(1.5)}" == "1.5" and f"{mx.array(3)}" == "3" and f"{mx.array(True)}" == "True"
    assert f"{mx.array(1.5):.2f}" == "1.50"
    assert f"{mx.array([1, 2])}" == "array([1, 2], dtype=int32)"


def test_forms_that_programs_use():
    x = mx.arange(6).reshape(2, 3)
    assert mx.roll(x, 1, axis=0).tolist() == mx.roll(x, shift=1, axis=0).tolist() == [[3, 4, 5], [0, 1, 2]]
    assert mx.concatenate(x).tolist() == [0, 1, 2, 3, 4, 5]
    assert mx.stack(x).tolist() == x.tolist()


def test_texts_of_many_short_axes_are_short():
    """An array that takes no memory may have more brackets than there is memory for."""
    assert str(mx.zeros([3] * 36 + [0])) == "array([], dtype=float32)"
    assert str(mx.broadcast_to(mx.array(1), [3] * 36)) == "array([...], dtype=int32)"
    assert str(mx.zeros((2, 0))) == "array([[],\n       []], dtype=float32)"
