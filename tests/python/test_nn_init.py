"""Initializers: the laws they draw from, and what they refuse."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from scipy import stats

init = nn.init


@pytest.fixture(autouse=True)
def seed():
    mx.random.seed(11)


def draw(initializer, shape, *args, **options):
    a = initializer(mx.zeros(shape), *args, **options)
    assert a.shape == shape and a.dtype == mx.float32
    return np.array(a).astype(np.float64).ravel()


def is_normal(values, mean, std):
    assert stats.kstest(values, stats.norm(mean, std).cdf).pvalue > 1e-3


def is_uniform(values, low, high):
    assert low <= values.min() and values.max() <= high
    assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 1e-3


def test_constant_and_identity():
    assert init.constant(2.5)(mx.zeros((2, 1))).tolist() == [[2.5], [2.5]]
    assert init.identity()(mx.zeros((2, 2))).tolist() == [[1, 0], [0, 1]]
    for shape in [(2, 3), (4,)]:
        with pytest.raises(ValueError, match=r"\[init.identity\] expected a square matrix"):
            init.identity()(mx.zeros(shape))


def test_normal_and_uniform():
    is_normal(draw(init.normal(1.0, 2.0), (300, 200)), 1, 2)
    is_uniform(draw(init.uniform(-1.0, 3.0), (300, 200)), -1, 3)
    is_normal(draw(init.normal(), (60000,)), 0, 1)
    is_uniform(draw(init.uniform(), (60000,)), 0, 1)


# shape, fan_in, fan_out
FANS = [((300, 200), 200, 300), ((40, 3, 5, 50), 750, 600)]


@pytest.mark.parametrize("shape, fan_in, fan_out", FANS)
@pytest.mark.parametrize("gain", [1.0, 2.0])
def test_scaled(shape, fan_in, fan_out, gain):
    std = gain * np.sqrt(2 / (fan_in + fan_out))
    is_normal(draw(init.glorot_normal(), shape, gain), 0, std)
    is_uniform(draw(init.glorot_uniform(), shape, gain=gain), -(3**0.5) * std, 3**0.5 * std)
    for mode, fan in [("fan_in", fan_in), ("fan_out", fan_out)]:
        std = gain / np.sqrt(fan)
        is_normal(draw(init.he_normal(), shape, mode, gain), 0, std)
        is_uniform(draw(init.he_uniform(), shape, mode, gain=gain), -(3**0.5) * std, 3**0.5 * std)


@pytest.mark.parametrize("name", ["glorot_normal", "glorot_uniform", "he_normal", "he_uniform"])
def test_scaled_limits(name):
    initializer = getattr(init, name)()
    with pytest.raises(ValueError, match=rf"\[init.{name}\] expected at least 2 dim.*\(3,\)"):
        initializer(mx.zeros(3))
    if name.startswith("he"):
        with pytest.raises(ValueError, match=rf"\[init.{name}\].*fan_in or fan_out, got 'out'"):
            initializer(mx.zeros((3, 3)), "out")


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0), (3, 2, 0), (3, 0, 2)])
@pytest.mark.parametrize("name", ["glorot_normal", "glorot_uniform", "he_normal", "he_uniform"])
def test_weights_without_values(name, shape):
    for args in [(), ("fan_in",), ("fan_out",)] if name.startswith("he") else [()]:
        assert getattr(init, name)()(mx.zeros(shape), *args).shape == shape


@pytest.mark.parametrize("name", ["normal", "uniform", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform"])
def test_dtype(name):
    assert getattr(init, name)(dtype=mx.float16)(mx.zeros((3, 3))).dtype == mx.float16
    assert init.constant(1, mx.int32)(mx.zeros(2)).dtype == mx.int32


def test_sparse():
    a = np.array(init.sparse(0.25, 1.0, 2.0)(mx.zeros((300, 201))))
    assert ((a == 0).sum(1) == 51).all()
    assert (a == 0).sum(0).std() > 0, "the zeros are at places of their own in each row"
    is_normal(a[a != 0].astype(np.float64), 1, 2)
    with pytest.raises(ValueError, match=r"\[init.sparse\] expected 2 dimensions"):
        init.sparse(0.5)(mx.zeros(3))
    with pytest.raises(ValueError, match=r"sparsity in \[0, 1\]"):
        init.sparse(1.5)


@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (7, 4)])
def test_orthogonal(shape):
    a = np.array(init.orthogonal(2.0)(mx.zeros(shape))).astype(np.float64)
    assert a.shape == shape
    square = a @ a.T if shape[0] <= shape[1] else a.T @ a
    np.testing.assert_allclose(square, 4 * np.eye(min(shape)), atol=1e-5)


def test_orthogonal_limits():
    with pytest.raises(ValueError, match=r"\[init.orthogonal\] expected 2 dimensions"):
        init.orthogonal()(mx.zeros(3))


def test_apply_to_a_layer():
    layer = nn.Linear(4, 4)
    he = init.he_normal()
    layer.apply(lambda w: he(w) if w.ndim > 1 else w * 0)
    assert layer.bias.tolist() == [0] * 4 and layer.weight.shape == (4, 4)
