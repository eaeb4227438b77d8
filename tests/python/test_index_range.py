"""Indices out of range in index arrays: a read gives the nearest element, a write is left out, a warning says so once;
or all of them are errors."""

import os
import re
import subprocess
import sys
import threading
import warnings

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

INTEGERS = [mx.int8, mx.int16, mx.int32, mx.int64, mx.uint8, mx.uint16, mx.uint32, mx.uint64]


@pytest.fixture(autouse=True)
def once_more():
    """Each test hears of the first index out of range; by itself it is not interested."""
    before = mx.set_index_errors(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
    mx.set_index_errors(before)


def nearest(i, n):
    i = np.asarray(i)
    return np.clip(np.where(i < 0, i + n, i), 0, n - 1).astype(np.int64)


def inside(i, n):
    i = np.asarray(i)
    return (i >= -n) & (i < n)


def indices(rng, t, shape, n):
    """Among them many that are out of range, wherever the type has such."""
    info = np.iinfo(str(t).split(".")[-1])
    far = rng.choice([info.min, info.max, max(info.min, -n - 1), min(info.max, n), max(info.min, -n)], shape)
    near = rng.integers(max(info.min, -n), min(info.max + 1, n), shape)
    return np.where(rng.random(shape) < 0.3, far, near).astype(info.dtype)


@pytest.mark.parametrize("t", INTEGERS)
def test_reads_give_the_nearest(t):
    rng = np.random.default_rng(1)
    for shape, axis, m in [((9, 4), 0, 50), ((3, 70, 2), 1, 5), ((5, 33), 1, 1000), ((100, 300), 0, 700)]:
        x = rng.integers(0, 1 << 20, shape)
        n = shape[axis]
        i = indices(rng, t, m, n)
        want = x.take(nearest(i, n), axis)
        for dtype in (mx.uint8, mx.int16, mx.float32, mx.complex64):
            a = mx.array(x).astype(dtype)
            assert mx.array_equal(mx.take(a, mx.array(i), axis), mx.array(want).astype(dtype))
            at = (slice(None),) * axis
            assert mx.array_equal(a[(*at, mx.array(i))], mx.array(want).astype(dtype))
            assert mx.array_equal(
                a[(*at, mx.array(i)[::-1])], mx.array(want[(*at, slice(None, None, -1))]).astype(dtype)
            )
        each = indices(rng, t, (*shape[:axis], m, *shape[axis + 1 :]), n)
        want = np.take_along_axis(x, nearest(each, n), axis)
        assert np.array_equal(mx.take_along_axis(mx.array(x), mx.array(each), axis), want)


def test_several_index_arrays_and_slices():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, 7, 8)).astype(np.float32)
    i, j = indices(rng, mx.int32, (40, 1), 6), indices(rng, mx.int32, 50, 8)
    assert np.array_equal(mx.array(x)[mx.array(i), :, mx.array(j)], x[nearest(i, 6), :, nearest(j, 8)])
    # where a slice does not fit, the nearest slice that does
    for start in (-9, -6, -2, 0, 3, 4, 5, 100):
        first = min(max(start + 6 if start < 0 else start, 0), 6 - 3)
        got = mx.slice(mx.array(x), mx.array([start]), (0,), (3, 7, 8))
        assert np.array_equal(got, x[first : first + 3])


def folded(x, places, u, f):
    """x after updates in their order, at those places that are in range."""
    y = x.copy()
    for k, at in enumerate(places):
        if all(inside(a, n) for a, n in zip(at, x.shape)):
            y[at] = f(y[at], u[k])
    return y


FOLDS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "subtract": np.subtract,
}


@pytest.mark.parametrize("t", INTEGERS)
def test_writes_are_left_out(t):
    rng = np.random.default_rng(3)
    for shape, m in [((9,), 40), ((300,), 70), ((11, 3), 25), ((120, 70), 200)]:
        x = rng.integers(1, 9, shape)
        i = indices(rng, t, m, shape[0])
        u = rng.integers(1, 4, (m, *shape[1:]))
        places = [(int(k),) for k in i]
        y = mx.array(x)
        y[mx.array(i)] = mx.array(u)
        assert np.array_equal(y, folded(x, places, u, lambda _, v: v))
        for name, f in FOLDS.items():
            if name == "multiply" and m > 100:
                continue
            got = getattr(mx.array(x).at[mx.array(i)], name)(mx.array(u))
            assert np.array_equal(got, folded(x, places, u, f)), name
    x = rng.integers(0, 9, (4, 30))
    each, u = indices(rng, t, (4, 9), 30), rng.integers(0, 9, (4, 9))
    want = np.stack([folded(*row, lambda _, v: v) for row in zip(x, [[(int(k),) for k in e] for e in each], u)])
    assert np.array_equal(mx.put_along_axis(mx.array(x), mx.array(each), mx.array(u), 1), want)


def test_writes_of_many_go_on_on_all_threads():
    """The places out of range are left out wherever the work is split, and are few or many."""
    rng = np.random.default_rng(4)
    for part in (1e-4, 0.5, 1.0):
        i = rng.integers(0, 5000, 200_000)
        i = np.where(rng.random(i.size) < part, rng.choice([5000, -5001, 1 << 40], i.size), i)
        want = np.bincount(i[(i >= 0) & (i < 5000)], minlength=5000)
        assert np.array_equal(mx.zeros(5000, mx.int32).at[mx.array(i)].add(1), want)
        rows = mx.zeros((5000, 64), mx.int32).at[mx.array(i[:20000])].add(mx.ones(64, mx.int32))
        first = i[:20000]
        want = np.bincount(first[(first >= 0) & (first < 5000)], minlength=5000)
        assert (np.array(rows) == want[:, None]).all()


def test_a_slice_is_written_whole_or_not_at_all():
    x = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    for start in (-5, -4, 0, 2, 3, 9):
        got = mx.slice_update(mx.array(x), mx.full((2, 3), -1.0), mx.array([start]), (0,))
        first = start + 4 if start < 0 else start
        want = x.copy()
        if 0 <= first <= 2:
            want[first : first + 2] = -1
        assert np.array_equal(got, want)


def test_products_of_pairs_and_segments():
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((4, 2, 3)).astype(np.float32), rng.standard_normal((5, 3, 2)).astype(np.float32)
    i, j = np.array([0, 9, -5, -4]), np.array([-6, 4, 5, -100])
    close = {"rtol": 1e-5, "atol": 1e-6}
    got = mx.gather_mm(mx.array(a), mx.array(b), mx.array(i), mx.array(j))
    np.testing.assert_allclose(got, a[nearest(i, 4)] @ b[nearest(j, 5)], **close)
    huge = mx.array([2**64 - 1], mx.uint64)
    np.testing.assert_allclose(
        mx.gather_mm(mx.array(a), mx.array(b), huge, mx.array([0])), (a[3] @ b[0])[None], **close
    )
    w = mx.array(rng.standard_normal((4, 6, 64)).astype(np.float32))
    x = mx.array(rng.standard_normal((4, 1, 64)).astype(np.float32))
    packed = mx.quantize(w)
    got = mx.gather_qmm(x, *packed, rhs_indices=mx.array(j[:4]))
    want = mx.gather_qmm(x, *packed, rhs_indices=mx.array(nearest(j[:4], 4)))
    assert mx.array_equal(got, want)
    m, n = a.reshape(4, 6), b.reshape(6, 5)
    got = mx.segmented_mm(mx.array(m), mx.array(n), mx.array([[-3, 2], [4, 99], [5, 2], [9, 12]]))
    want = np.stack([m[:, s:e] @ n[s:e] for s, e in ((0, 2), (4, 6), (0, 0), (0, 0))])
    np.testing.assert_allclose(got, want, **close)


def test_layers_and_losses():
    rng = np.random.default_rng(6)
    table = nn.Embedding(7, 3)
    ids = np.array([[0, 7, -8], [6, 100, -1]])
    assert np.array_equal(table(mx.array(ids)), np.array(table.weight)[nearest(ids, 7)])
    logits = rng.standard_normal((5, 4)).astype(np.float32)
    targets = np.array([0, -100, 3, 4, -1])
    for loss in (nn.losses.cross_entropy, mx.fast.cross_entropy):
        got = loss(mx.array(logits), mx.array(targets))
        assert np.array_equal(got, loss(mx.array(logits), mx.array(nearest(targets, 4))))
    # the padding of a language model, masked away afterwards
    f = lambda x, t: (mx.fast.cross_entropy(x, t) * (t != -100)).sum()  # noqa: E731
    kept = targets != -100
    got = mx.grad(f)(mx.array(logits), mx.array(targets))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = (p - np.eye(4)[nearest(targets, 4)]) * kept[:, None]
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


I = mx.array([1, 7, -9, 1, -4])  # noqa: E741
U = mx.array([[0.5, 2.0], [3.0, 4.0], [5.0, 6.0], [0.25, 1.5], [7.0, 8.0]])
X = mx.array([[1.0, 2.0], [3.0, 0.5], [2.5, 4.0], [0.75, 1.25]])
PAIRS = mx.array(np.random.default_rng(7).standard_normal((3, 2, 2)).astype(np.float32))


def put(fold, u=U):
    def f(x, u):
        if fold == "set":
            y = x * 1
            y[I] = u
            return y
        return getattr(x.at[I], fold)(u)

    return f, (X, u)


DIFFERENTIABLE = {
    "take": (lambda x, u: mx.take(x, I, 0) * u, (X, U)),
    "getitem": (lambda x, u: x[I] * u, (X, U)),
    "two arrays": (lambda x, u: x[I, mx.array([0, 5, 1, -7, 1])] * u[:, 0], (X, U)),
    "take_along_axis": (lambda x, u: mx.take_along_axis(x, mx.stack([I, I + 1], 1), 0) * u, (X, U)),
    "set": put("set"),
    "add": put("add"),
    "multiply": put("multiply"),
    "multiply by 0": put("multiply", U.at[mx.array([0, 1])].multiply(0)),
    "maximum": put("maximum"),
    "minimum": put("minimum"),
    "put_along_axis": (lambda x, u: mx.put_along_axis(x, mx.stack([I, I + 1], 1), u, 0), (X, U)),
    "slice": (lambda x, u: mx.slice(x, mx.array([3]), (0,), (3, 2)) * u[:3], (X, U)),
    "slice_update": (lambda x, u: mx.slice_update(x, u[:3], mx.array([3]), (0,)), (X, U)),
    "gather_mm": (lambda x, u: mx.gather_mm(x, u, mx.array([0, 5, -4]), mx.array([-9, 1, 3])), (PAIRS, PAIRS + 1)),
    "segmented_mm": (lambda x, u: mx.segmented_mm(x, u.T, mx.array([[-1, 1], [1, 9]])), (X, U[:, :])),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_derivatives_are_those_of_what_is_computed(name):
    """By differences, forward and reverse, once more through vmap and compile; and the second derivative."""
    f, args = DIFFERENTIABLE[name]
    if name == "segmented_mm":
        args = (mx.concatenate([X, X], 1)[:, :2], mx.ones((5, 2)))
        f = lambda x, u: mx.segmented_mm(x, u[:2], mx.array([[-1, 1], [1, 9]]))  # noqa: E731
    w = mx.cos(mx.arange(1.0, f(*args).size + 1)).reshape(f(*args).shape)
    loss = lambda *a: (f(*a) * w).sum()  # noqa: E731
    for k in range(2):
        got = np.array(mx.grad(loss, argnums=k)(*args))
        for at in np.ndindex(args[k].shape):
            unit = np.zeros(args[k].shape, np.float32)
            unit[at] = 2**-6
            step = [a + mx.array(unit) if i == k else a for i, a in enumerate(args)]
            back = [a - mx.array(unit) if i == k else a for i, a in enumerate(args)]
            slope = (loss(*step).item() - loss(*back).item()) * 32
            assert got[at] == pytest.approx(slope, rel=2e-3, abs=2e-3), (k, at)
        _, tangent = mx.jvp(loss, args, [mx.array(np.full(a.shape, i == k, np.float32)) for i, a in enumerate(args)])
        assert tangent[0].item() == pytest.approx(got.sum(), rel=1e-4, abs=1e-4)
        compiled = mx.compile(mx.grad(loss, argnums=k))(*args)
        np.testing.assert_allclose(compiled, got, rtol=1e-6)
        for axes in ((0, None), (None, 0), (0, 0)):
            many = [mx.stack([a, a * 2, a - 0.3]) if ax == 0 else a for a, ax in zip(args, axes)]
            one = lambda i: [a[i] if ax == 0 else a for a, ax in zip(many, axes)]  # noqa: B023, E731
            batch = mx.vmap(mx.grad(loss, argnums=k), in_axes=axes)(*many)
            want = mx.stack([mx.grad(loss, argnums=k)(*one(i)) for i in range(3)])
            np.testing.assert_allclose(batch, want, rtol=1e-4, atol=1e-5)
            batch = mx.vmap(f, in_axes=axes)(*many)
            np.testing.assert_allclose(batch, mx.stack([f(*one(i)) for i in range(3)]), rtol=1e-4, atol=1e-5)


def test_indices_of_examples():
    """Mapped indices: the nearest is one of the same example, whatever lies beside it."""
    x = mx.arange(24.0).reshape(2, 4, 3)
    i = mx.array([[0, 9], [-9, 4]])
    assert np.array_equal(mx.vmap(lambda x, i: x[i])(x, i), np.stack([np.array(x)[0][[0, 3]], np.array(x)[1][[0, 3]]]))
    u = mx.full((2, 2, 3), -1.0)
    got = np.array(mx.vmap(lambda x, i, u: x.at[i].add(u))(x, i, u))
    want = np.array(x)
    want[0, 0] -= 1
    assert np.array_equal(got, want)
    start = mx.array([[3], [-9]])
    got = mx.vmap(lambda x, s: mx.slice(x, s, (0,), (2, 3)))(x, start)
    assert np.array_equal(got, np.stack([np.array(x)[0][2:], np.array(x)[1][:2]]))
    got = mx.vmap(lambda x, s: mx.slice_update(x, mx.zeros((2, 3)), s, (0,)))(x, mx.array([[3], [1]]))
    want = np.array(x)
    want[1, 1:3] = 0
    assert np.array_equal(got, want)
    a = mx.arange(16.0).reshape(2, 2, 2, 2)
    got = mx.vmap(lambda a, i: mx.gather_mm(a, a, rhs_indices=i))(a, i)
    assert np.array_equal(got, np.array(a) @ np.stack([np.array(a)[0][[0, 1]], np.array(a)[1][[0, 1]]]))


def test_nothing_is_near_in_an_empty_axis():
    for f in (
        lambda: mx.take(mx.zeros(0), mx.array([0])),
        lambda: mx.zeros((3, 0))[:, mx.array([1])],
        lambda: mx.gather_mm(mx.zeros((0, 2, 2)), mx.zeros((1, 2, 2)), mx.array([0])),
    ):
        with pytest.raises(IndexError, match="of size 0|no matrices"):
            mx.eval(f())
    assert mx.put_along_axis(mx.zeros((2, 0)), mx.array([[0], [1]]), mx.array(1.0), 1).tolist() == [[], []]
    assert mx.take(mx.zeros(0), mx.array([], mx.int32)).shape == (0,)


# What is said, and to whom


def test_an_int_outside_is_an_error_at_the_call():
    x = mx.arange(5)
    for f in (lambda: x[10], lambda: x[-6], lambda: mx.take(x, 5), lambda: mx.take(x[None], -6, axis=1)):
        with pytest.raises(IndexError, match="out of bounds"):
            f()
    assert mx.take(x, -5).item() == 0


CALLS = {
    "take": (
        lambda: mx.take(mx.arange(5), mx.array([0, 9])),
        r"\[take\] index 9 at position \(1,\) .* axis 0 of size 5",
    ),
    "take_along_axis": (
        lambda: mx.take_along_axis(mx.ones((2, 3)), mx.array([[0], [-4]]), 1),
        r"\[take_along_axis\] index -4 at position \(1, 0\) .* axis 1 of size 3",
    ),
    "getitem": (lambda: mx.arange(5)[mx.array([-7])], r"\[getitem\] index -7 .* nearest element is read"),
    "add": (lambda: mx.zeros(3).at[mx.array([1, 3])].add(1), r"\[setitem\] index 3 .* nothing is written there"),
    "put": (
        lambda: mx.put_along_axis(mx.zeros(3), mx.array([8]), mx.array(1.0), 0),
        r"\[put_along_axis\] index 8 .* nothing is written there",
    ),
    "slice": (
        lambda: mx.slice(mx.zeros(4), mx.array([2]), (0,), (3,)),
        r"\[slice\] start 2 .* slice of 3 along axis 0",
    ),
    "slice_update": (
        lambda: mx.slice_update(mx.zeros(4), mx.ones(3), mx.array([2]), (0,)),
        r"\[slice_update\] start 2 .* nothing is written",
    ),
    "gather_mm": (
        lambda: mx.gather_mm(mx.ones((2, 1, 1)), mx.ones((2, 1, 1)), mx.array([0, 2])),
        r"\[gather_mm\] expected lhs_indices from -2 to 1 .* got 2 at position 1",
    ),
    "cross_entropy": (
        lambda: mx.fast.cross_entropy(mx.ones((2, 3)), mx.array([0, -100])),
        r"\[cross_entropy\] index -100 at position \(1,\) .* size 3",
    ),
    "segmented_mm": (
        lambda: mx.segmented_mm(mx.ones((2, 3)), mx.ones((3, 2)), mx.array([[0, 9]])),
        r"\[segmented_mm\] expected segments .* <= 3, got \(0, 9\)",
    ),
}


PAIRS = [[0, 1], [2, 70]]


@pytest.mark.parametrize(
    ("call", "position"),
    [
        (lambda x: mx.take(x, mx.array(PAIRS), 0), "(1, 1)"),
        (lambda x: mx.take(x, mx.array(PAIRS), 1), "(1, 1)"),
        (lambda x: mx.take(x, mx.array([[0], [70]]), 1), "(1, 0)"),
        (lambda x: mx.take(x, mx.broadcast_to(mx.array([[0], [70]]), (2, 3)), 0), "(1, 0)"),
        (lambda x: mx.take(x, mx.array([70]), 0), "(0,)"),
        (lambda x: mx.take(x, mx.array(70), 0), "()"),
        (lambda x: mx.take(x, mx.array(PAIRS)), "(1, 1)"),
        (lambda x: mx.take(x, mx.array([1, 70])), "(1,)"),
        (lambda x: mx.take(x, mx.array([[[[[0, 70]]]]])), "(1,)"),  # more dimensions than are told
        (lambda x: x[mx.array(PAIRS)], "(1, 1)"),
        (lambda x: x[:, mx.array(PAIRS)], "(1, 1)"),
        (lambda x: x[mx.array([[0], [70]]), mx.array([0, 1])], "(1, 0)"),
        (lambda x: mx.take_along_axis(x, mx.array([[0, 1, 2, 70]]), 0), "(0, 3)"),
        (lambda x: mx.take_along_axis(x, mx.array([[0], [70], [1]]), 1), "(1, 0)"),
        (lambda x: mx.take_along_axis(x, mx.array([0, 70]), None), "(1,)"),
        (lambda x: mx.put_along_axis(x, mx.array([[0], [70], [1]]), mx.array(1.0), 1), "(1, 0)"),
    ],
)
def test_positions_are_those_in_the_array_of_indices(call, position):
    mx.set_index_errors(True)
    with mx.stream(mx.cpu):
        x = mx.zeros((3, 4))
        pulled = lambda x: mx.vjp(call, [x], [mx.ones_like(call(x))])  # noqa: E731
        for f in (call, mx.compile(call), lambda x: pulled(x)[0][0], lambda x: pulled(x)[1][0]):
            with pytest.raises(
                mx.ArrayIndexError, match=rf"index 70 at position {re.escape(position)} is out of range"
            ):
                mx.eval(f(x))
        for f in (mx.compile(call, shapeless=True), lambda x: mx.vmap(call)(x[None])):
            with pytest.raises(mx.ArrayIndexError, match="index 70 at position"):
                mx.eval(f(x))


@pytest.mark.parametrize("name", CALLS)
def test_the_first_is_warned_about(name):
    call, message = CALLS[name]
    with pytest.warns(RuntimeWarning, match=message) as seen:
        mx.eval(call())
    assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.eval(call())
    mx.set_index_errors(True)
    with pytest.raises(IndexError) as caught:
        mx.eval(call())
    assert "MLX_INDEX" not in str(caught.value)


@pytest.mark.parametrize(
    "look",
    [
        mx.eval,
        lambda x: x.tolist(),
        lambda x: x[0].item(),
        np.array,
        repr,
        memoryview,
        lambda x: (mx.async_eval(x), mx.synchronize()),
        lambda x: (mx.async_eval(x), mx.eval(mx.zeros(3) + 1), mx.eval(x)),
        lambda x: (mx.async_eval(x), np.array(x)),
        lambda x: mx.nonzero(x),
        lambda x: mx.compile(lambda v: v + x)(mx.ones(2)).tolist(),
    ],
)
def test_who_waits_hears_of_it(look):
    with pytest.warns(RuntimeWarning, match="index 9 at position"):
        look(mx.arange(5)[mx.array([1, 9])] + 0)


def test_saving_hears_of_it(tmp_path):
    for i, save in enumerate(
        (
            lambda x: mx.save(str(tmp_path / "x.npy"), x),
            lambda x: mx.save_safetensors(str(tmp_path / "x.safetensors"), {"x": x}),
            lambda x: mx.savez(str(tmp_path / "x.npz"), x=x),
        )
    ):
        mx.set_index_errors(False)
        with pytest.warns(RuntimeWarning, match=f"index {9 + i} at position"):
            save(mx.arange(5)[mx.array([1, 9 + i])] + 0)


def test_a_worker_leaves_it_to_who_waits():
    s = mx.new_stream(mx.cpu)
    for _ in range(20):
        mx.set_index_errors(False)
        with mx.stream(s):
            y = mx.arange(5)[mx.array([1, 9])] + 0
        with pytest.warns(RuntimeWarning, match="index 9") as seen:
            mx.async_eval(y)
            mx.synchronize(s)
        assert seen[0].filename == __file__
        assert y.tolist() == [1, 4]


def test_as_an_exception():
    call = lambda: mx.arange(5)[mx.array([1, 9])] + 0  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for look in (mx.eval, np.array, lambda x: x.tolist(), lambda x: (mx.async_eval(x), mx.synchronize())):
            for _ in range(2):
                with pytest.raises(RuntimeWarning, match="index 9"):
                    look(call())
        y = call()
        with pytest.raises(RuntimeWarning):
            mx.eval(y)
        assert y.tolist() == [1, 4]


def test_threads():
    """Many meet it at once: one of them hears."""
    heard = []

    def work():
        for _ in range(50):
            with mx.stream(mx.new_thread_local_stream(mx.cpu)):
                assert (mx.arange(5)[mx.array([1, 9])] + 0).tolist() == [1, 4]

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *a, **k: heard.append(a)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert len(heard) == 1


RUN = "import mlx.core as mx; print(mx.arange(5)[mx.array([1, 9])].tolist())"


def run(*options, **environment):
    environment = {**os.environ, "MLX_INDEX": "", **environment}
    return subprocess.run([sys.executable, *options, "-c", RUN], env=environment, capture_output=True, text=True)


def test_the_environment_and_the_interpreter_decide():
    done = run()
    assert (done.returncode, done.stdout) == (0, "[1, 4]\n")
    assert done.stderr.count("RuntimeWarning: [getitem] index 9 at position (1,)") == 1
    done = run(MLX_INDEX="error")
    assert done.returncode == 1 and "IndexError: [getitem] index 9 at position (1,)" in done.stderr
    done = run("-W", "error")
    assert done.returncode == 1 and "RuntimeWarning: [getitem] index 9 at position (1,)" in done.stderr
    done = run("-W", "ignore")
    assert (done.stdout, done.stderr) == ("[1, 4]\n", "")
    assert "expected error or warn, got quiet" in run(MLX_INDEX="quiet").stderr


def test_setting_gives_what_was():
    assert mx.set_index_errors(True) is False
    assert mx.set_index_errors(False) is True
    with pytest.raises(TypeError):
        mx.set_index_errors("error")


@pytest.mark.parametrize(
    "name, f",
    [
        ("take", lambda x, far: mx.take(x, far, axis=0)),
        ("take", lambda x, far: mx.take(x, far, axis=1)),
        ("getitem", lambda x, far: x[far, far]),
        ("setitem", lambda x, far: mx.ones((4, 3)).at[far].multiply(x[:1])),
        ("take_along_axis", lambda x, far: mx.take_along_axis(x, far[None], axis=1)),
        ("put_along_axis", lambda x, far: mx.put_along_axis(mx.ones((4, 3)), far[None], x[:, :1], axis=1)),
    ],
)
def test_a_derivative_speaks_of_what_it_is_of(name, f):
    mx.set_index_errors(True)
    call = lambda x: (f(x, mx.array([9])) ** 2).sum()  # noqa: E731
    for g in (call, mx.grad(call), mx.grad(lambda x: mx.grad(call)(x).sum())):
        with pytest.raises(mx.ArrayIndexError, match=rf"^\[{name}\] index 9 at position"):
            mx.eval(g(mx.ones((4, 3))))


def test_axes_without_elements():
    """No index is in range there and none is the nearest: reads are errors, writes are left out."""
    x, i, v = mx.zeros((3, 0)), mx.array([0, 1]), mx.ones((2,))
    for read in (lambda: x[i, i], lambda: x[:, i], lambda: mx.take(x, i, axis=1)):
        with pytest.raises(mx.ArrayIndexError, match="index 0 at position .* is out of range for axis 1 of size 0"):
            mx.eval(read())

    def through_setitem(v):
        y = mx.array(x)
        y[i, i] = v
        return y

    writes = [through_setitem, lambda v: mx.put_along_axis(x, i[None], v[:1, None], axis=1)]
    writes += [lambda v, n=n: getattr(x.at[i, i], n)(v) for n in ("add", "multiply", "maximum", "divide")]
    for write in writes:
        with pytest.warns(RuntimeWarning, match="axis 1 of size 0; nothing is written there"):
            mx.eval(write(v))
        assert write(v).shape == (3, 0)
        assert mx.array_equal(mx.grad(lambda v, w=write: w(v).sum())(v), mx.zeros(2))
        assert mx.vmap(write)(mx.ones((4, 2))).shape == (4, 3, 0)
        mx.set_index_errors(True)
        with pytest.raises(mx.ArrayIndexError, match="index 0 at position .* is out of range for axis 1 of size 0"):
            mx.eval(write(v))
        mx.set_index_errors(False)


@pytest.mark.parametrize("read", ["take", "take_along_axis", "getitem", "put_along_axis", "add"])
@pytest.mark.parametrize("order", ["gradient", "tangent"])
def test_derivatives_in_files_of_our_own(read, order, tmp_path):
    """What an index out of range stands for goes into files that the mlx package need not read."""
    i, v = mx.array([9, 1, -9, -1]), mx.array([10.0, 20.0, 30.0, 40.0])
    f = {
        "take": lambda x: mx.take(x, i),
        "take_along_axis": lambda x: mx.take_along_axis(x, i, 0),
        "getitem": lambda x: x[i],
        "put_along_axis": lambda x: mx.put_along_axis(v, i, x, 0),
        "add": lambda x: v.at[i].add(x),
    }[read]
    weights = mx.array([1.0, 2.0, 4.0, 8.0])

    def derivative(x):
        if order == "gradient":
            return mx.grad(lambda x: (f(x) * f(x) * weights).sum())(x)
        return mx.jvp(f, [x], [weights])[1][0]

    path = str(tmp_path / "f.mlxfn")
    x = mx.array([3.0, 5.0, 7.0, 11.0])
    mx.export_function(path, derivative, x, portable=False)
    assert mx.import_function(path)(x)[0].tolist() == derivative(x).tolist()
