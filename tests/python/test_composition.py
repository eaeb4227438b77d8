"""Transforms of transforms: each against a loop or central differences of the function inside."""

import threading

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

RNG = np.random.default_rng(5)


def double(*shape):
    return mx.array(RNG.normal(size=shape), dtype=mx.float64)


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=tolerance, atol=tolerance)


A, C, T, SCALES = double(3, 3), double(3), double(3), double(4)
X = mx.array([0.3, -0.8, 0.55], dtype=mx.float64)  # away from the edges of where and maximum
KERNEL, INDEX = double(2, 3, 1), mx.array([2, 0, 2])


def updated(x):
    y = mx.tanh(x)
    y[1:] = y[:-1] * x[1:]
    return y


def scattered(x):
    return x.at[INDEX].add(mx.sin(x))


# Smooth functions of three numbers with three results, each by operations of another family.
FUNCTIONS = {
    "elementwise": lambda x: mx.sin(x) * x,
    "matmul": lambda x: mx.tanh(A @ x),
    "reduce": lambda x: x * mx.tanh(x.sum()),
    "logsumexp": lambda x: x - mx.logsumexp(x),
    "softmax": lambda x: mx.softmax(x) * x,
    "cumsum": lambda x: mx.sin(mx.cumsum(x)),
    "gather": lambda x: x[INDEX] * mx.take_along_axis(x, INDEX, axis=0),
    "scatter": scattered,
    "update": updated,
    "shapes": lambda x: mx.concatenate([x[None, 1:], mx.flip(x)[None, :1]], axis=1).T.reshape(3) * x,
    "convolution": lambda x: mx.conv1d(mx.sin(x)[None, :, None], KERNEL, padding=1).mean(axis=(0, 2)),
    "where": lambda x: mx.where(x > 0, x * x, mx.sin(x)),
    "scan": lambda x: mx.scan(lambda c, y: (mx.sin(c) * y, c + y), x.sum(), x)[1],
    "cond": lambda x: mx.cond(x.sum() > 0, lambda x: x * x, mx.sin, x),
    "rms_norm": lambda x: mx.fast.rms_norm(x, C, 1e-3),
    "sort": lambda x: mx.sort(x) * x,
    "einsum": lambda x: mx.tanh(mx.einsum("i,ij,k->k", x, A, x)),
    "cholesky": lambda x: mx.linalg.inv(mx.eye(3, dtype=mx.float64) * 2 + 0.1 * x[:, None] * x) @ x,
}


def same_by_rules(f):
    """f with rules that say what is so anyway."""
    g = mx.custom_function(f)
    g.vjp(lambda x, ct, y: mx.vjp(f, (x,), (ct,))[1][0])
    g.jvp(lambda x, t: mx.jvp(f, (x,), (t,))[1][0])
    g.vmap(lambda x, axis: (mx.vmap(f, axis)(x), 0))
    return g


def batch(x, axis):
    return mx.moveaxis(mx.sin(x) + SCALES[:, None] * x, 0, axis)


# From a function to a function of the same kind.
TRANSFORMS = {
    "grad": lambda f: mx.grad(lambda x: (f(x) * C).sum()),
    "value_and_grad": lambda f: lambda x: sum(mx.value_and_grad(lambda x: (f(x) * C).sum())(x)),
    "vjp": lambda f: lambda x: mx.vjp(f, (x,), (C,))[1][0],
    "jvp": lambda f: lambda x: mx.jvp(f, (x,), (T,))[1][0],
    "vmap": lambda f: lambda x: mx.vmap(f)(batch(x, 0)).sum(axis=0),
    "vmap_axes": lambda f: lambda x: mx.vmap(f, in_axes=-1, out_axes=1)(batch(x, 1)).sum(axis=1),
    "vmap_some": lambda f: lambda x: mx.vmap(lambda s, x: f(x * s), (0, None), -1)(SCALES, x).sum(axis=1),
    "linearize": lambda f: lambda x: mx.linearize(f, x)[1](T),
    "pullback": lambda f: lambda x: mx.pullback(f, x)[1](C),
    "jacfwd": lambda f: lambda x: mx.jacfwd(f)(x) @ T,
    "jacrev": lambda f: lambda x: C @ mx.jacrev(f)(x),
    "checkpoint": mx.checkpoint,
    "custom_function": same_by_rules,
    "compile": mx.compile,
}


def differences(f, x, direction):
    step = 1e-5 * np.array(direction)
    up, down = (np.array(f(mx.array(np.array(x) + s * step, dtype=mx.float64))) for s in (1, -1))
    return (up - down) / 2e-5


def columns(f, x):
    return np.stack([differences(f, x, e) for e in np.eye(3)], axis=1)


def reference(name, f, x):
    """What the outermost transform should give, by calls of the function inside."""
    if name in ("grad", "vjp", "pullback", "jacrev"):
        return np.array(C) @ columns(f, x)
    if name in ("jvp", "linearize", "jacfwd"):
        return differences(f, x, T)
    if name == "value_and_grad":
        return np.array(C) @ np.array(f(x)) + np.array(C) @ columns(f, x)
    if name in ("vmap", "vmap_axes"):
        return sum(np.array(f(row)) for row in batch(x, 0))
    if name == "vmap_some":
        return sum(np.array(f(x * s)) for s in SCALES)
    return np.array(f(x))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_one(transform, name):
    f, x = FUNCTIONS[name], X
    close(TRANSFORMS[transform](f)(x), reference(transform, f, x))


@pytest.mark.parametrize("inner", TRANSFORMS)
@pytest.mark.parametrize("outer", TRANSFORMS)
def test_every_pair(outer, inner):
    x = double(3)
    for name in ("elementwise", "scatter", "matmul"):
        f = TRANSFORMS[inner](FUNCTIONS[name])
        close(TRANSFORMS[outer](f)(x), reference(outer, f, x), 1e-5)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(FUNCTIONS)),
    st.lists(st.sampled_from(sorted(TRANSFORMS)), min_size=3, max_size=4),
    st.integers(0, 2**32 - 1),
)
def test_any_composition(name, transforms, seed):
    f = FUNCTIONS[name]
    for inner in transforms[:-1]:
        f = TRANSFORMS[inner](f)
    x = mx.array(np.random.default_rng(seed).uniform(-1, 1, size=3), dtype=mx.float64)
    want = reference(transforms[-1], f, x)
    got = np.array(TRANSFORMS[transforms[-1]](f)(x))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * (1 + np.abs(want).max()))


# Derivatives forward of derivatives in reverse


WEIGHTS = double(3, 2, 2), double(2, 2, 2, 1), double(1, 4, 4, 1)


def check_forward_over_reverse(f, x, t, tolerance=1e-6):
    grad = mx.grad(lambda x: (mx.sin(f(x)) * f(x)).sum())
    close(mx.jvp(grad, (x,), (t,))[1][0], differences(grad, x, t), tolerance)
    again = mx.grad(lambda x: (grad(x) * t).sum())(x)
    close(mx.jvp(grad, (x,), (t,))[1][0], again, tolerance)


@pytest.mark.parametrize(
    "f, shape",
    [
        (lambda x: x[mx.array([1, 1, 0])], (2, 3)),
        (lambda x: x[:, mx.array([[2, 0], [1, 1]])], (2, 3)),
        (lambda x: x[mx.array([0, 1]), mx.array([2, 0])], (2, 3)),
        (lambda x: x.at[mx.array([1, 1])].add(x[:2] * x[:2]), (3, 2)),
        (lambda x: x.at[0].multiply(mx.sin(x[1])), (3, 2)),
        (lambda x: mx.put_along_axis(x, mx.array([[1], [0]]), mx.sin(x[:, :1]), axis=1), (2, 3)),
        (lambda x: mx.fast.rope(x, 4, traditional=False, base=100.0, scale=1.0, offset=3), (1, 2, 4)),
        (lambda x: mx.fast.rope(x, 2, traditional=True, base=100.0, scale=0.5, offset=0), (1, 2, 4)),
        (lambda x: mx.conv1d(x, WEIGHTS[0], padding=1), (1, 4, 2)),
        (lambda x: mx.conv2d(x, WEIGHTS[1], stride=2), (1, 4, 4, 1)),
        (lambda x: mx.conv2d(WEIGHTS[2], x), (2, 2, 2, 1)),
        (lambda x: mx.conv_transpose1d(x, WEIGHTS[0]), (1, 4, 2)),
    ],
)
def test_forward_over_reverse(f, shape):
    check_forward_over_reverse(f, double(*shape), double(*shape), 2e-5)


# Batches


HEADS = {
    "plain": ((2, 4, 5, 8), (2, 4, 6, 8), None),
    "grouped": ((2, 4, 5, 8), (2, 2, 6, 8), None),
    "causal": ((2, 4, 5, 8), (2, 4, 5, 8), "causal"),
    "mask": ((2, 4, 5, 8), (2, 4, 6, 8), (5, 6)),
}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("axes", [(0, 0, 0), (1, 2, 3), (4, 0, -1), (2, None, None), (None, 3, 1)])
def test_attention_over_any_axes(name, axes):
    q_shape, kv_shape, mask = HEADS[name]
    mask = mask if mask is None or isinstance(mask, str) else mx.array(RNG.normal(size=mask).astype(np.float32))

    def f(q, k, v):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=mask)

    args = []
    for shape, axis in zip((q_shape, kv_shape, kv_shape), axes, strict=True):
        a = RNG.normal(size=shape if axis is None else (3, *shape)).astype(np.float32)
        args.append(mx.array(a if axis is None else np.ascontiguousarray(np.moveaxis(a, 0, axis))))
    got = mx.vmap(f, in_axes=axes, out_axes=1)(*args)

    def one(i):
        return f(*(a if axis is None else mx.take(a, i, axis=axis) for a, axis in zip(args, axes, strict=True)))

    close(got, mx.stack([one(i) for i in range(3)], axis=1), 2e-5)
    grad = mx.grad(lambda *a: mx.vmap(f, in_axes=axes)(*a).square().sum(), (0, 1, 2))(*args)
    total = mx.grad(
        lambda *a: sum(
            f(*(b if axis is None else mx.take(b, i, axis=axis) for b, axis in zip(a, axes, strict=True)))
            .square()
            .sum()
            for i in range(3)
        ),
        (0, 1, 2),
    )(*args)
    for g, w in zip(grad, total, strict=True):
        close(g, w, 2e-4)


DRAWS = {
    "normal": lambda k: mx.random.normal((5,), key=k),
    "uniform": lambda k: mx.random.uniform(shape=(5,), key=k),
    "randint": lambda k: mx.random.randint(0, 1 << 20, (5,), key=k),
    "bernoulli": lambda k: mx.random.bernoulli(0.5, (40,), key=k),
    "gumbel": lambda k: mx.random.gumbel((5,), key=k),
    "laplace": lambda k: mx.random.laplace((5,), key=k),
    "truncated_normal": lambda k: mx.random.truncated_normal(-1.0, 1.0, (5,), key=k),
    "categorical": lambda k: mx.random.categorical(mx.zeros((40, 7)), key=k),
    "permutation": lambda k: mx.random.permutation(30, key=k),
    "multivariate_normal": lambda k: mx.random.multivariate_normal(mx.zeros(2), mx.eye(2), (3,), key=k),
    "split": lambda k: mx.random.normal((5,), key=mx.random.split(k)[1]),
}


@pytest.mark.parametrize("name", DRAWS)
def test_each_key_draws_for_itself(name):
    draw, keys = DRAWS[name], mx.random.split(mx.random.key(11), 6)
    rows = np.array(mx.vmap(draw)(keys))
    np.testing.assert_array_equal(rows, np.stack([np.array(draw(k)) for k in keys]))
    assert len({row.tobytes() for row in rows}) == 6
    table = mx.vmap(mx.vmap(draw), in_axes=1)(keys.reshape(2, 3, 2))
    np.testing.assert_array_equal(np.array(table), np.swapaxes(rows.reshape(2, 3, *rows.shape[1:]), 0, 1))


# Depth


def chain(n):
    def f(x):
        for _ in range(n):
            x = x + 1
        return x

    return f


MANY = chain(100_000)  # were each a call, the stack below would have 2.6 bytes for it


@pytest.mark.parametrize(
    "transform, want",
    [
        (lambda: mx.grad(MANY)(mx.array(0.0)), 1.0),
        (lambda: mx.jvp(MANY, (mx.array(0.0),), (mx.array(2.0),))[1][0], 2.0),
        (lambda: mx.vmap(MANY)(mx.zeros(2)), [1e5, 1e5]),
        (lambda: mx.grad(lambda x: mx.vmap(MANY)(x).sum())(mx.zeros(2)), [1.0, 1.0]),
        (lambda: mx.vmap(mx.grad(MANY))(mx.zeros(2)), [1.0, 1.0]),
        (lambda: mx.grad(mx.checkpoint(MANY))(mx.array(0.0)), 1.0),
        (lambda: mx.linearize(MANY, mx.array(0.0))[1](mx.array(3.0)), 3.0),
    ],
    ids=["grad", "jvp", "vmap", "grad_of_vmap", "vmap_of_grad", "checkpoint", "linearize"],
)
def test_deep_graphs_on_a_small_stack(transform, want):
    result = []

    def run():
        result.append(transform().tolist())

    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert result == [want]
