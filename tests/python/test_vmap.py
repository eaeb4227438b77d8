"""vmap against a loop over the batch, for every kind of operation and composed with derivatives."""

import mlx.core as mx
import numpy as np
import pytest

RNG = np.random.default_rng(0)


def array(*shape, dtype=np.float32):
    return mx.array(RNG.normal(size=shape).astype(dtype))


def loop(f, args, in_axes, out_axis=0):
    size = next(a.shape[i] for a, i in zip(args, in_axes) if i is not None)
    rows = [
        f(*(a if i is None else mx.take(a, mx.array(k), axis=i) for a, i in zip(args, in_axes))) for k in range(size)
    ]
    return np.stack([np.array(r) for r in rows], axis=out_axis)


I = mx.array([[0, 1, 1, 0], [2, 0, 1, 2], [1, 1, 1, 1]])
CASES = {
    "add": (lambda x, y: x + y, (array(4, 3), array(3, 4)), (1, 0)),
    "scalar": (lambda x: 2 * mx.exp(-x) + 1, (array(5, 2),), (0,)),
    "one_mapped": (lambda x, y: x * y, (array(3, 4), array(4)), (0, None)),
    "where": (lambda x, y: mx.where(x > 0, x, y), (array(3, 4), array(4, 3)), (0, 1)),
    "astype": (lambda x: x.astype(mx.float16) * 2, (array(3, 4),), (1,)),
    "reduce": (lambda x: x.sum(axis=1), (array(2, 3, 4),), (1,)),
    "max_all": (lambda x: x.max(), (array(2, 3, 4),), (2,)),
    "var": (lambda x: mx.var(x, axis=0, ddof=1), (array(2, 3, 4),), (0,)),
    "argmax": (lambda x: mx.argmax(x, axis=0), (array(2, 3, 4),), (2,)),
    "softmax": (lambda x: mx.softmax(x, axis=0), (array(2, 3, 4),), (1,)),
    "logsumexp": (lambda x: mx.logsumexp(x, axis=-1), (array(2, 3, 4),), (2,)),
    "matmul": (lambda x, y: x @ y, (array(5, 2, 3), array(3, 5, 4)), (0, 1)),
    "matmul_shared": (lambda x, y: x @ y, (array(5, 2, 3), array(3, 4)), (0, None)),
    "matvec": (lambda x, y: x @ y, (array(2, 3), array(3, 5)), (None, 1)),
    "addmm": (
        lambda c, x, y: mx.addmm(c, x, y, alpha=2, beta=0.5),
        (array(4), array(5, 2, 3), array(3, 4)),
        (None, 0, None),
    ),
    "reshape": (lambda x: x.reshape(6, 2), (array(3, 5, 4),), (1,)),
    "transpose": (lambda x: x.transpose(1, 0), (array(3, 5, 4),), (1,)),
    "broadcast": (lambda x: mx.broadcast_to(x, (2, 4)), (array(4, 5),), (1,)),
    "expand": (lambda x: mx.expand_dims(x, (0, 2)), (array(4, 5),), (1,)),
    "squeeze": (lambda x: mx.squeeze(x, 1), (array(4, 5, 1),), (0,)),
    "slice": (lambda x: x[1:, ::-1], (array(4, 5, 3),), (2,)),
    "split": (lambda x: mx.split(x, 2, axis=1)[1], (array(3, 5, 4),), (0,)),
    "concatenate": (lambda x, y: mx.concatenate([x, y], axis=0), (array(3, 5), array(5, 2)), (1, 0)),
    "stack": (lambda x, y: mx.stack([x, y], axis=1), (array(3, 5), array(3)), (1, None)),
    "pad": (lambda x: mx.pad(x, ((1, 2), (0, 1)), constant_values=3.0), (array(3, 5, 4),), (1,)),
    "take": (lambda x, i: mx.take(x, i, axis=0), (array(4, 3), I), (1, 0)),
    "take_shared": (lambda x, i: mx.take(x, i, axis=1), (array(4, 3), I), (None, 0)),
    "take_along": (lambda x, i: mx.take_along_axis(x, i, axis=0), (array(3, 3), I), (0, 0)),
    "gather": (lambda x, i: x[i, :, i], (array(3, 3, 2, 3), I), (0, 0)),
    "update": (lambda x, v: updated(x, v), (array(3, 4), array(3, 2)), (0, 0)),
    "scatter": (lambda x, i: x.at[i].add(1.0), (array(3, 3), I), (0, 0)),
    "scatter_shared": (lambda x, i: x.at[i].multiply(2.0), (array(3), I), (None, 0)),
    "view": (lambda x: x.view(mx.int32), (array(3, 4),), (0,)),
    "contiguous": (lambda x: mx.contiguous(x.T), (array(3, 4, 2),), (1,)),
    "stop_gradient": (lambda x: mx.stop_gradient(x) + x, (array(3, 4),), (0,)),
}


def updated(x, v):
    x[1:3] = v
    return x


@pytest.mark.parametrize("name", CASES)
def test_equals_a_loop(name):
    f, args, in_axes = CASES[name]
    got = mx.vmap(f, in_axes=in_axes)(*args)
    np.testing.assert_allclose(np.array(got), loop(f, args, in_axes), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("argmax", "view", "astype")])
def test_of_a_gradient(name):
    f, args, in_axes = CASES[name]
    grad = mx.grad(lambda *a: (f(*a) * f(*a)).sum())
    got = mx.vmap(grad, in_axes=in_axes)(*args) if in_axes[0] is not None else None
    if got is not None:
        np.testing.assert_allclose(np.array(got), loop(grad, args, in_axes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("argmax", "view", "astype", "one_mapped")])
def test_gradient_of(name):
    f, args, in_axes = CASES[name]
    mapped = mx.vmap(f, in_axes=in_axes)
    got = mx.grad(lambda *a: mapped(*a).square().sum())(*args)
    one = mx.grad(lambda *a: f(*a).square().sum())
    if in_axes[0] is None:
        want = loop(one, args, in_axes).sum(axis=0)
    else:
        want = loop(one, args, in_axes, in_axes[0])
    np.testing.assert_allclose(np.array(got), want, rtol=1e-4, atol=1e-4)


def test_nested():
    x, y = array(3, 5), array(4, 5)
    table = mx.vmap(mx.vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))(x, y)
    np.testing.assert_allclose(np.array(table), np.array(x) @ np.array(y).T, rtol=1e-5)


def test_axes_as_trees():
    x = {"a": array(3, 4), "b": [array(4, 3), array(4)]}

    def f(p, s):
        return {"sum": p["a"] + p["b"][0] + p["b"][1] * s, "same": p["b"][1]}

    got = mx.vmap(f, ({"a": 0, "b": [1, None]}, None), {"sum": 1, "same": None})(x, 2)
    want = np.array(x["a"]) + np.array(x["b"][0]).T + np.array(x["b"][1]) * 2
    np.testing.assert_allclose(np.array(got["sum"]), want.T, rtol=1e-6)
    assert got["same"].shape == (4,)


def test_negative_axes_and_results_that_do_not_depend():
    x = array(2, 3, 4)
    assert mx.vmap(lambda x: x, -1, -1)(x).shape == (2, 3, 4)
    assert mx.vmap(lambda x: mx.zeros((5,)), 1)(x).tolist() == [[0.0] * 5] * 3


def test_independent_keys():
    keys = mx.random.split(mx.random.key(3), 4)
    got = mx.vmap(lambda k: mx.random.normal((3,), key=k))(keys)
    np.testing.assert_array_equal(np.array(got), loop(lambda k: mx.random.normal((3,), key=k), (keys,), (0,)))


def test_custom_vjp_keeps_its_rule():
    @mx.custom_function
    def f(x, w):
        return mx.sin(x) * w

    @f.vjp
    def f_vjp(primals, cotangent, output):
        x, w = primals
        return cotangent * 10, cotangent * x

    x, w = array(5), array(1)[0]
    dx, dw = mx.grad(lambda x, w: mx.vmap(f, (0, None))(x, w).sum(), argnums=(0, 1))(x, w)
    assert dx.tolist() == [10.0] * 5
    assert abs(dw.item() - x.sum().item()) < 1e-5


def test_deep_graph():
    def f(x):
        for _ in range(20000):
            x = x + 1
        return x

    assert mx.vmap(f)(mx.zeros((2,))).tolist() == [20000.0] * 2


def test_errors():
    x = array(3, 4)
    with pytest.raises(ValueError, match="one size"):
        mx.vmap(lambda a, b: a + b, (0, 1))(x, x)
    with pytest.raises(ValueError, match="at least one"):
        mx.vmap(lambda a: a, None)(x)
    with pytest.raises(ValueError, match="in_axes"):
        mx.vmap(lambda a: a, (0, 0))(x)
    with pytest.raises((ValueError, IndexError), match="axis 2"):
        mx.vmap(lambda a: a, 2)(x)
    with pytest.raises(ValueError, match="out_axes"):
        mx.vmap(lambda a: a, 0, (0, 0))(x)
    with pytest.raises(ValueError, match="cannot be None"):
        mx.vmap(lambda a: a, 0, None)(x)
    with pytest.raises(RuntimeError, match="placeholder"):
        mx.vmap(lambda a: a.sum().item())(x)
    with pytest.raises(KeyError):
        mx.vmap(lambda a: {}["k"])(x)
    with pytest.raises(TypeError):
        mx.vmap(3)


NOBODY = {
    "rope": lambda x, i, u: mx.fast.rope(
        x[None], 2, traditional=False, base=None, scale=1.0, offset=i[0], freqs=u[0, :1]
    ),
    "segmented_mm": lambda x, i, u: mx.segmented_mm(x, u[:2], mx.stack([i[:2] * 0, i[:2] * 0 + 2], 1)),
    "at.add": lambda x, i, u: x.at[i].add(u),
    "at.multiply": lambda x, i, u: x.at[i].multiply(u),
    "at.maximum": lambda x, i, u: x.at[i].maximum(u),
    "slice": lambda x, i, u: mx.slice(x, i[:1], (0,), (3, 2)) * u,
    "slice_update": lambda x, i, u: mx.slice_update(x, u, i[:1], (0,)),
    "take": lambda x, i, u: mx.take(x, i, 0) * u,
    "gather_mm": lambda x, i, u: mx.gather_mm(x[:, None, :], u[:, :, None], i[:3], i[:3]),
}


@pytest.mark.parametrize("name", NOBODY)
def test_a_batch_of_no_examples(name):
    """Whatever is mapped: shapes and dtypes of the results and the derivatives are those of one example, and none."""
    f = NOBODY[name]
    args = mx.ones((5, 2)), mx.array([1, 0, 1]), mx.ones((3, 2))
    one = f(*args)
    slopes = mx.grad(lambda *a: f(*a).sum(), argnums=(0, 2))
    for axes in [
        (0, 0, 0),
        (0, None, 0),
        (None, 0, None),
        (None, None, 0),
        (0, None, None),
        (None, 0, 0),
        (0, 0, None),
    ]:
        empty = [mx.zeros((0, *a.shape), a.dtype) if ax == 0 else a for a, ax in zip(args, axes)]
        got = mx.vmap(f, in_axes=axes)(*empty)
        mx.eval(got)
        assert (got.shape, got.dtype) == ((0, *one.shape), one.dtype)
        for slope, a in zip(mx.vmap(slopes, in_axes=axes)(*empty), (args[0], args[2])):
            mx.eval(slope)
            assert (slope.shape, slope.dtype) == ((0, *a.shape), a.dtype)
        # and the other way around: who is not mapped gets the sum over nobody
        total = mx.grad(lambda *a: mx.vmap(f, in_axes=axes)(*a).sum(), argnums=(0, 2))(*empty)  # noqa: B023
        for slope, k in zip(total, (0, 2)):
            assert slope.shape == empty[k].shape and not np.any(np.array(slope))


@pytest.mark.parametrize("wrap", [lambda f: f, mx.compile, mx.checkpoint])
def test_one_array_for_several_unmapped_arguments(wrap):
    a, y = mx.array([10.0, 11.0]), mx.array([[1.0, 2.0], [3.0, 4.0]])
    same, other = (a, a, y, a), (a, mx.array(a), y, a + 0)

    def f(p, q, y, r):
        return p + y, q * y, y - r, q, p * r

    for axes in [(None, None, 0, None), (None, None, 1, 0), (0, None, 1, None), (None, 0, 1, None)]:
        got, want = (mx.vmap(wrap(f), in_axes=axes)(*args) for args in (same, other))
        for one, two in zip(got, want, strict=True):
            assert np.array_equal(one, two)
    twice = mx.vmap(mx.vmap(wrap(f), (None, None, 0, None)), (None, None, 0, None))
    for one, two in zip(twice(a, a, y[None], a), twice(a, mx.array(a), y[None], a + 0), strict=True):
        assert np.array_equal(one, two)
