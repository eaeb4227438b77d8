"""x[mask] = values and at[mask]: values in order, of which there may be more than places; under every transform."""

import mlx.core as mx
import numpy as np
import pytest


def assigned(x, mask, v, fold="set"):
    if fold == "set":
        y = x * 1
        y[mask] = v
        return y
    return getattr(x.at[mask], fold)(v)


NUMPY = {"set": lambda y, v: v, "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def reference(x, mask, v, fold="set"):
    y = np.array(x)
    k = int(np.sum(mask))
    v = np.asarray(v)
    v = v[:k] if v.ndim > y.ndim - mask.ndim else v
    y[mask] = NUMPY[fold](y[mask], v)
    return y


CASES = [
    ((5,), 1, (5,)),
    ((5,), 1, (9,)),
    ((6, 3), 1, (6, 3)),
    ((6, 3), 1, (8, 1)),
    ((6, 3), 1, (3,)),
    ((4, 3), 2, (12,)),
    ((4, 3), 2, (20,)),
    ((4, 3), 2, ()),
    ((2, 3, 2), 2, (6, 2)),
    ((3000,), 1, (3000,)),
]


@pytest.mark.parametrize("shape, m, value", CASES)
def test_values_in_order(shape, m, value):
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal(shape).astype(np.float32), rng.standard_normal(value).astype(np.float32)
    w = mx.array(rng.standard_normal(shape).astype(np.float32))
    for part in (0.0, 0.3, 1.0):
        mask = rng.random(shape[:m]) < part
        for fold in NUMPY:
            want = reference(x, mask, v, fold)
            args = mx.array(x), mx.array(mask), mx.array(v)
            f = lambda x, mask, v: assigned(x, mask, v, fold)  # noqa: B023, E731
            np.testing.assert_allclose(f(*args), want, rtol=1e-6)
            np.testing.assert_allclose(mx.compile(f)(*args), want, rtol=1e-6)
            np.testing.assert_allclose(mx.compile(lambda x, v: f(x, args[1], v))(args[0], args[2]), want, rtol=1e-6)  # noqa: B023
            if fold not in ("set", "add"):
                continue
            # linear in both: <w, f(x, v)> has the derivatives that f of a unit has
            loss = lambda x, mask, v: (f(x, mask, v) * w).sum()  # noqa: B023, E731
            dx, dv = mx.grad(loss, argnums=(0, 2))(*args)
            cx, cv = mx.compile(mx.grad(loss, argnums=(0, 2)))(*args)
            for got in (dx, cx):
                np.testing.assert_allclose(
                    got, np.where(mask.reshape(*mask.shape, *[1] * (len(shape) - m)) & (fold == "set"), 0, w)
                )
            total = (np.array(dv) * v).sum(), (reference(np.zeros_like(x), mask, v, fold) * np.array(w)).sum()
            np.testing.assert_allclose(*total, rtol=2e-4, atol=1e-3)
            np.testing.assert_allclose(cv, dv, rtol=1e-5, atol=1e-6)


def test_mapped():
    rng = np.random.default_rng(1)
    x, v = rng.standard_normal((4, 6, 2)).astype(np.float32), rng.standard_normal((4, 7, 2)).astype(np.float32)
    mask = rng.random((4, 6)) < 0.5
    a = mx.array(x), mx.array(mask), mx.array(v)
    for axes in ((0, 0, 0), (0, None, 0), (None, 0, None), (None, 0, 0), (0, 0, None), (None, None, 0)):
        one = [[y[i] if ax == 0 else y[0] for y, ax in zip((x, mask, v), axes)] for i in range(4)]
        given = [y if ax == 0 else y[0] for y, ax in zip(a, axes)]
        want = np.stack([reference(*args) for args in one])
        np.testing.assert_array_equal(mx.vmap(assigned, in_axes=axes)(*given), want)
        np.testing.assert_array_equal(mx.compile(mx.vmap(assigned, in_axes=axes))(*given), want)


def test_too_few_values_are_an_error():
    x, mask = mx.zeros(5), mx.array([True, False, True, True, False])
    for v in (mx.ones(2), mx.zeros((0,))):
        with pytest.raises(ValueError, match="setitem"):
            mx.eval(assigned(x, mask, v))
        with pytest.raises(ValueError, match="setitem"):
            mx.eval(mx.compile(assigned)(x, mask, v))
    with pytest.raises(ValueError):
        mx.eval(mx.compile(assigned)(mx.zeros((5, 2)), mask, mx.ones((5, 3))))
    with pytest.raises(IndexError):
        mx.compile(assigned)(mx.zeros((4, 2)), mask, mx.ones((5, 2)))


def test_many_masks_and_one_trace():
    f = mx.compile(assigned)
    rng = np.random.default_rng(2)
    for _ in range(20):
        mask = rng.random(50) < rng.random()
        np.testing.assert_array_equal(
            f(mx.zeros(50), mx.array(mask), mx.arange(50.0)), reference(np.zeros(50), mask, np.arange(50))
        )


@pytest.mark.parametrize("fold", NUMPY)
def test_a_mask_that_is_not_evaluated_stays_so(fold):
    rng = np.random.default_rng(3)
    x, v = rng.standard_normal((200, 500)).astype(np.float32), rng.standard_normal(100_000).astype(np.float32)
    a, b = mx.array(x), mx.array(v)
    mx.eval(a, b)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    y = assigned(a, a > 0.5, b, fold)
    assert mx.get_peak_memory() < before + 100_000
    np.testing.assert_allclose(y, reference(x, x > 0.5, v, fold), rtol=1e-6)


@pytest.mark.parametrize("shape, mask_ndim", [((5,), 1), ((2, 3), 2), ((4, 2), 1)])
def test_too_few_values(shape, mask_ndim):
    x, mask = mx.zeros(shape), mx.ones(shape[:mask_ndim], mx.bool_)
    v = mx.ones((2, *shape[mask_ndim:]))
    mx.eval(mask)
    with pytest.raises(mx.Error, match=r"\[setitem\] cannot broadcast a value of shape \(2"):
        assigned(x, mask, v)
    for f in (mx.compile(assigned), lambda *args: mx.vmap(assigned)(*(a[None] for a in args))):
        with pytest.raises(mx.Error, match="a value for each element where the mask is true, got 2 for more than that"):
            mx.eval(f(x, mask, v))
