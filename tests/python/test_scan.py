"""Running folds: cumsum, cumprod, cummax, cummin, logcumsumexp."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

FOLDS = {
    "cumsum": (np.add, 0),
    "cumprod": (np.multiply, 1),
    "cummax": (np.maximum, -np.inf),
    "cummin": (np.minimum, np.inf),
    "logcumsumexp": (np.logaddexp, -np.inf),
}


def reference(name, x, axis, reverse=False, inclusive=True):
    f, first = FOLDS[name]
    x = np.flip(x, axis) if reverse else x
    y = f.accumulate(x, axis, dtype=x.dtype) if x.shape[axis] else x
    if not inclusive and x.shape[axis]:
        if np.issubdtype(x.dtype, np.integer) and np.isinf(first):
            first = np.iinfo(x.dtype).max if first > 0 else np.iinfo(x.dtype).min
        shape = list(x.shape)
        shape[axis] = 1
        y = np.concatenate([np.full(shape, first, x.dtype), np.delete(y, -1, axis)], axis)
    return np.flip(y, axis) if reverse else y


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(FOLDS)),
    st.lists(st.integers(0, 20), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_against_numpy(name, shape, reverse, inclusive, turned, data):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = np.random.default_rng(1).standard_normal(shape)
    x, a = (x.T, mx.array(x, dtype=mx.float64).T) if turned else (x, mx.array(x, dtype=mx.float64))
    got = np.array(getattr(mx, name)(a, axis, reverse=reverse, inclusive=inclusive))
    np.testing.assert_allclose(got, reference(name, x, axis, reverse, inclusive), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("fold", ["cumsum", "cumprod", "cummax", "cummin"])
def test_integers(fold, name):
    info = np.iinfo(name)
    x = np.random.default_rng(2).integers(info.min, info.max, (4, 9, 40), dtype=name, endpoint=True)
    for axis in (0, 1, 2):
        for reverse in (False, True):
            for inclusive in (False, True):
                got = getattr(mx, fold)(mx.array(x), axis, reverse=reverse, inclusive=inclusive)
                assert got.dtype == getattr(mx, name)
                with np.errstate(over="ignore"):
                    np.testing.assert_array_equal(np.array(got), reference(fold, x, axis, reverse, inclusive))


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("fold", sorted(FOLDS))
@pytest.mark.parametrize("shape, axis", [((3, 3000), 1), ((70, 200), 0), ((200, 3), 0), ((140000,), 0)])
def test_rounded_once(fold, name, shape, axis):
    """Within an ulp or so of the exact result of these elements, however long the row."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal(shape) if fold != "cumprod" else np.exp(rng.standard_normal(shape) / 1000)
    a = mx.array(x.astype(np.float32)).astype(getattr(mx, name))
    exact = reference(fold, np.array(a.astype(mx.float32)).astype(np.float64), axis)
    eps = {"float16": 2**-11, "bfloat16": 2**-8, "float32": 2**-24}[name]
    for reverse in (False, True):
        v = np.flip(exact, axis) if reverse else exact
        b = a[::-1] if reverse and axis == 0 else a[:, ::-1] if reverse else a
        got = np.array(getattr(mx, fold)(b, axis, reverse=reverse).astype(mx.float32))
        np.testing.assert_allclose(got, v, rtol=2 * eps, atol=1e-6 * (fold == "cumsum"))


def test_types_and_defaults():
    assert mx.cumsum(mx.array([True, True])).tolist() == [1, 2]
    assert mx.cumsum(mx.array([True, True])).dtype == mx.int32
    assert mx.cumprod(mx.array([True, False, True])).tolist() == [True, False, False]
    assert mx.cummax(mx.array([False, True, False])).tolist() == [False, True, True]
    assert mx.cummin(mx.array([True, False]), inclusive=False).tolist() == [True, True]
    assert mx.cumsum(mx.array([[1, 2], [3, 4]])).tolist() == [1, 3, 6, 10]
    assert mx.cumsum(mx.array(3.0)).tolist() == [3.0]
    assert mx.cumsum(mx.array([100, 100], mx.int8), dtype=mx.int32).tolist() == [100, 200]
    assert mx.cumulative_sum(mx.array([1, 2]), dtype=mx.float32).dtype == mx.float32
    assert mx.cumulative_prod(mx.array([2, 3])).tolist() == [2, 6]
    assert mx.logcumsumexp(mx.array([1, 2])).dtype == mx.float32
    a = mx.array([[3, 1], [2, 5]])
    for name in FOLDS:
        assert getattr(a, name)(1, reverse=True).tolist() == getattr(mx, name)(a, 1, reverse=True).tolist()
    for name in FOLDS:
        with pytest.raises(IndexError, match=rf"\[{name}\] axis 1"):
            getattr(mx, name)(mx.zeros(2), 1)


def test_infinities_and_nan():
    nan, inf = float("nan"), float("inf")
    for x in ([1, nan, 3], [nan, -inf, inf], [-inf, -inf, 0, inf, 1], [-inf, -800.0, 800.0], [2.0] * 20 + [nan, 5.0]):
        for name in FOLDS:
            got = np.array(getattr(mx, name)(mx.array(x)))
            with np.errstate(invalid="ignore"):
                np.testing.assert_allclose(got, reference(name, np.array(x), 0), rtol=1e-6)


def test_wide_range():
    """Sums of exponentials far apart, first the small ones."""
    x = np.concatenate([np.linspace(-5000, 5000, 3000), np.linspace(5000, -5000, 3000)])
    for reverse in (False, True):
        got = mx.logcumsumexp(mx.array(x, dtype=mx.float64), reverse=reverse)
        np.testing.assert_allclose(np.array(got), reference("logcumsumexp", x, 0, reverse), rtol=1e-13)


def test_complex():
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((3, 40)) + 1j * rng.standard_normal((3, 40))).astype(np.complex64)
    a = mx.array(x)
    for axis in (0, 1):
        np.testing.assert_allclose(np.array(mx.cumsum(a, axis)), np.cumsum(x, axis), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(np.array(mx.cumprod(a, axis)), np.cumprod(x, axis), rtol=1e-5, atol=1e-5)
        back = np.cumsum(x[::-1, ::-1], axis)[::-1, ::-1]
        np.testing.assert_allclose(np.array(mx.cumsum(a, axis, reverse=True)), back, rtol=1e-5, atol=1e-5)
        want = np.log(np.cumsum(np.exp(x.astype(np.complex128)), axis))
        got = np.array(mx.logcumsumexp(a, axis))
        np.testing.assert_allclose(np.exp(got), np.exp(want), rtol=1e-4)
    assert mx.cummax(mx.array([1 + 2j, 3, 3 - 1j])).tolist() == [1 + 2j, 3, 3]
    assert mx.cummin(mx.array([1 + 2j, 1 + 1j, 3])).tolist() == [1 + 2j, 1 + 1j, 1 + 1j]


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("fold", sorted(FOLDS))
def test_derivatives(fold, axis, reverse, inclusive):
    rng = np.random.default_rng(5)
    x = rng.permutation(20).reshape(4, 5) / 7 - 1.2
    if fold == "cumprod":
        x[1, 2] = x[3, 2] = x[0, 0] = 0
    w = rng.standard_normal(x.shape)
    if not inclusive and fold in ("cummax", "cummin", "logcumsumexp"):
        first = [slice(None)] * 2
        first[axis] = -1 if reverse else 0
        w[tuple(first)] = 0  # infinite there
    weights = mx.array(w, dtype=mx.float64)

    def value(v):
        y = getattr(mx, fold)(v, axis, reverse=reverse, inclusive=inclusive)
        return mx.where(weights == 0, 0, y * weights).sum()

    def at(v):
        return mx.array(v, dtype=mx.float64)

    grad, h = np.array(mx.grad(value)(at(x))), 1e-6
    direction = rng.standard_normal(x.shape)
    along = mx.jvp(value, [at(x)], [at(direction)])[1][0].item()
    second = np.array(mx.grad(lambda v: (mx.grad(value)(v) * at(direction)).sum())(at(x)))
    for i in np.ndindex(x.shape):
        e = np.zeros_like(x)
        e[i] = h
        assert abs((value(at(x + e)) - value(at(x - e))).item() / (2 * h) - grad[i]) < 1e-7
        g = np.array(mx.grad(value)(at(x + e))) - np.array(mx.grad(value)(at(x - e)))
        assert abs((g * direction).sum() / (2 * h) - second[i]) < 1e-6
    assert abs(along - (grad * direction).sum()) < 1e-10


def test_ties_of_extremes_go_to_the_last():
    w = mx.array([1.0, 2.0, 4.0])
    grad = mx.grad(lambda x: (mx.cummax(x) * w).sum())(mx.array([1.0, 1.0, 0.0]))
    assert grad.tolist() == [1.0, 6.0, 0.0]


def test_complex_derivatives():
    """The derivative along u, against differences."""
    rng = np.random.default_rng(6)
    x, u, w = (rng.standard_normal((3, 6)) + 1j * rng.standard_normal((3, 6)) for _ in range(3))
    for name in ("cumsum", "cumprod", "logcumsumexp"):

        def value(v, name=name):
            return (mx.real(getattr(mx, name)(v, 1) * mx.array(w.astype(np.complex64)))).sum()

        g = np.array(mx.grad(value)(mx.array(x.astype(np.complex64)))).astype(np.complex128)
        exact = {"cumsum": np.cumsum, "cumprod": np.cumprod}.get(
            name, lambda v, axis: np.log(np.cumsum(np.exp(v), axis))
        )
        h = 1e-6
        d = ((exact(x + h * u, 1) - exact(x - h * u, 1)) / (2 * h) * w).real.sum()
        along = mx.jvp(value, [mx.array(x.astype(np.complex64))], [mx.array(u.astype(np.complex64))])[1][0].item()
        assert abs(along - d) < 1e-3 * (1 + abs(d))
        both = [(g * u).real.sum(), (g.conj() * u).real.sum()]
        assert min(abs(v - d) for v in both) < 1e-3 * (1 + abs(d))


@pytest.mark.parametrize("fold", sorted(FOLDS))
def test_vmap(fold):
    x = np.random.default_rng(7).standard_normal((3, 4, 5)).astype(np.float32)

    def f(v):
        return getattr(mx, fold)(v, 0, reverse=True)

    for axis in range(3):
        got = np.array(mx.vmap(f, axis)(mx.array(x)))
        want = np.stack([np.array(f(mx.array(np.take(x, i, axis)))) for i in range(x.shape[axis])])
        np.testing.assert_allclose(got, want, rtol=1e-6)
        grads = mx.vmap(mx.grad(lambda v: (f(v) ** 2).sum()), axis)(mx.array(x))
        each = [
            np.array(mx.grad(lambda v: (f(v) ** 2).sum())(mx.array(np.take(x, i, axis)))) for i in range(x.shape[axis])
        ]
        np.testing.assert_allclose(np.array(grads), np.stack(each), rtol=1e-5)


@pytest.mark.parametrize("dtype, tolerance", [(mx.float32, 2e-6), (mx.float64, 1e-11), (mx.float16, 2e-3)])
@pytest.mark.parametrize("case", ["plain", "inf", "neg", "nan"])
def test_logcumsumexp_of_a_long_row(dtype, tolerance, case):
    """Which is done in pieces."""
    x = np.random.default_rng(0).normal(size=140_001) * 5
    if case == "inf":
        x[70_000] = np.inf
    if case == "neg":
        x[:70_000] = x[-70_000:] = -np.inf
    if case == "nan":
        x[70_000], x[50] = np.nan, np.inf
    a = mx.array(x, dtype)
    x = np.array(a.astype(mx.float64))
    for reverse in (False, True):
        with np.errstate(invalid="ignore"):
            want = np.logaddexp.accumulate(x[::-1] if reverse else x)
        got = np.array(mx.logcumsumexp(a, axis=0, reverse=reverse).astype(mx.float64))
        np.testing.assert_allclose(got, want[::-1] if reverse else want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", [mx.cpu, mx.gpu])
def test_products_that_begin_with_an_infinite_complex_number(device):
    """No factor of 1 + 0i comes before it, which would make NaN of its other part."""
    if not mx.is_available(device):
        pytest.skip("needs a GPU")
    z = complex(float("inf"), 88)
    with mx.stream(device):
        for shape in (1,), (1, 3), (3, 1):
            x = mx.full(shape, mx.array(z))
            assert mx.cumprod(x, -1 if shape[-1] == 1 else 0).flatten().tolist() == [z] * x.size
            assert mx.prod(x, -1 if shape[-1] == 1 else 0).flatten().tolist() == [z] * x.size
