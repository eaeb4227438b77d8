"""Results whose shape depends on elements: reading through masks, nonzero, where(condition)."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=4), st.floats(0, 1), st.booleans())
def test_nonzero(shape, share, turned):
    x = (np.random.default_rng(1).random(shape) < share) * 2.5
    a = mx.array(x.astype(np.float32))
    x, a = (x.T, a.T) if turned else (x, a)
    if x.ndim == 0:
        with pytest.raises(ValueError, match=r"\[nonzero\] expected at least one dimension"):
            mx.nonzero(a)
        assert mx.argwhere(a).shape == np.argwhere(x).shape
        return
    for got in (mx.nonzero(a), mx.where(a)):
        want = np.nonzero(x)
        assert isinstance(got, tuple) and len(got) == len(want)
        for p, q in zip(got, want):
            assert p.dtype == mx.int32
            np.testing.assert_array_equal(np.array(p), q)
    np.testing.assert_array_equal(np.array(mx.argwhere(a)), np.argwhere(x))
    np.testing.assert_array_equal(np.array(mx.flatnonzero(a)), np.flatnonzero(x))


def test_many():
    x = np.random.default_rng(2).random((300, 700)) < 0.3
    for p, q in zip(mx.nonzero(mx.array(x)), np.nonzero(x)):
        np.testing.assert_array_equal(np.array(p), q)
    np.testing.assert_array_equal(np.array(mx.flatnonzero(mx.array(x))), np.flatnonzero(x))


rng = np.random.default_rng(3)
X = rng.standard_normal((4, 5, 6)).astype(np.float32)
ROWS, COLS, PLANE, WHOLE = rng.random(4) < 0.5, rng.random(5) < 0.5, rng.random((4, 5)) < 0.5, X > 0
LAST = rng.random(6) < 0.5


@pytest.mark.parametrize(
    "index",
    [
        ROWS,
        PLANE,
        WHOLE,
        ROWS & False,
        (slice(None), COLS),
        (slice(1, 3), COLS, 2),
        (Ellipsis, LAST),
        (0, COLS),
        (0, slice(None), LAST),
        (PLANE, slice(2, 5)),
        (PLANE, 3),
        (None, PLANE),
        (PLANE, None),
        (slice(None), rng.random((5, 6)) < 0.5),
        (np.flatnonzero(ROWS), slice(None), 1),
        (ROWS, Ellipsis, 2),
        (np.zeros((4, 5, 6), bool),),
        (np.array([True, True, False, True]), np.array([0, 1, 2])),
    ],
)
def test_reading(index):
    def ours(i):
        return mx.array(i) if isinstance(i, np.ndarray) else i

    mine = tuple(ours(i) for i in index) if isinstance(index, tuple) else ours(index)
    want = X[index]
    got = mx.array(X)[mine]
    assert got.shape == want.shape
    np.testing.assert_array_equal(np.array(got), want)
    np.testing.assert_array_equal(np.array(mx.array(X)[index]), want)
    if want.size:
        y = X.copy()
        y[index] = 7
        a = mx.array(X)
        a[mine] = 7
        np.testing.assert_array_equal(np.array(a), y)
        y[index] = want * 2
        a[mine] = mx.array(want * 2)
        np.testing.assert_array_equal(np.array(a), y)


def test_zero_dimensional_masks():
    a = mx.array([1.0, 2.0])
    assert a[mx.array(True)].tolist() == a[True].tolist() == [[1.0, 2.0]]
    assert a[False].shape == (0, 2)
    assert a[mx.array(False)].shape == (0, 2)
    assert mx.array(3.0)[mx.array(True)].tolist() == [3.0]


def test_shapes_that_do_not_fit():
    a = mx.zeros((3, 4))
    with pytest.raises(IndexError, match=r"\[getitem\] expected a mask with the dimensions of \(3,4\) from axis 0 on"):
        a[mx.array([True, False])]
    with pytest.raises(IndexError, match=r"from axis 1 on, got one of shape \(3,\)"):
        a[:, mx.array([True, False, True])]
    with pytest.raises(IndexError):
        a[mx.zeros((3, 4, 1), dtype=mx.bool_)]


def test_derivatives_pass_through():
    x = mx.array([1.0, -2.0, 3.0])
    assert mx.grad(lambda v: (v[v > 0] ** 2).sum())(x).tolist() == [2.0, 0.0, 6.0]
    value, along = mx.jvp(lambda v: v[v > 0] * 3, [x], [mx.ones(3)])
    assert value[0].tolist() == [3.0, 9.0] and along[0].tolist() == [3.0, 3.0]
    assert mx.grad(lambda v: v[mx.nonzero(v > 0)[0]].sum())(x).tolist() == [1.0, 0.0, 1.0]


def test_inside_vmap():
    x = mx.array([[1.0, -2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match=r"\[getitem\] the shape of the result depends.*use where\(mask, a, 0\)"):
        mx.vmap(lambda v: v[v > 0])(x)
    with pytest.raises(ValueError, match=r"\[nonzero\] the shape of the result depends.*use where"):
        mx.vmap(mx.nonzero)(x)
    mask = mx.array([True, False])
    assert mx.vmap(lambda v: v[mask])(x).tolist() == [[1.0], [3.0]], "a mask outside of the batch is known"

    def write(v):
        v = v + 0
        v[v > 2] = 0
        return v

    assert mx.vmap(write)(x).tolist() == [[1.0, -2.0], [0.0, 0.0]], "writing one value needs no shape"


def test_where_with_two_arguments():
    with pytest.raises(TypeError, match="a condition alone, or both"):
        mx.where(mx.array([True]), 1)


def test_values_for_the_true_elements():
    a, x = mx.array(X), X.copy()
    a[a > 0] = mx.arange(int((x > 0).sum()))
    x[x > 0] = np.arange((x > 0).sum())
    np.testing.assert_array_equal(np.array(a), x)
    with pytest.raises(ValueError, match=r"\[setitem\] cannot broadcast a value of shape \(2,5,6\)"):
        a[mx.array([True, False, True, True])] = mx.zeros((2, 5, 6))
    with pytest.raises(ValueError, match="a value for each element where the mask is true, got 2 for more"):
        mx.eval(mx.vmap(lambda v: v.at[v > 0].add(mx.ones(2)))(mx.ones((2, 3))))


def test_other_threads_go_on():
    """Evaluation for a shape does not keep the interpreter."""
    import threading

    ticks, stop = [0], threading.Event()

    def tick():
        while not stop.wait(0.001):
            ticks[0] += 1

    other = threading.Thread(target=tick)
    other.start()
    x = mx.random.normal((1200, 1200))
    for _ in range(10):
        x = x @ x
        x = x / mx.abs(x).max()
    mx.flatnonzero(x > 0)
    stop.set()
    other.join()
    assert ticks[0] > 2


def test_failures_of_what_is_looked_at(tmp_path):
    """They stay what they are, whatever words are in them; placeholders say so of the operation."""
    file = tmp_path / "placeholder.npz"
    mx.savez_compressed(str(file), x=mx.random.normal((10**4,)))
    data = bytearray(file.read_bytes())
    data[10**4 : 2 * 10**4] = bytes(10**4)
    file.write_bytes(data)
    x = mx.load(str(file))["x"]
    for look in (mx.nonzero, lambda x: x[x > 0], mx.unique_values):
        with pytest.raises(mx.Error, match=r"placeholder\.npz") as error:
            look(x)
        assert "the shape of the result depends" not in str(error.value)
    for transformed in (mx.compile, mx.vmap):
        with pytest.raises(mx.Error, match=r"^\[nonzero\] the shape of the result depends on the elements"):
            transformed(lambda x: mx.nonzero(x)[0])(mx.ones((2, 3)))
        with pytest.raises(mx.Error, match=r"^\[getitem\] the shape of the result depends on the elements"):
            transformed(lambda x: x[x > 0])(mx.ones((2, 3)))
