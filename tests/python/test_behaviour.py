"""What programs written for NumPy or for other builds of this package rely on: result types, forms of
arguments, memory shared with others, and errors that name what was called."""

import mlx.core as mx
import numpy as np
import pytest


@pytest.mark.parametrize("fold", [mx.sum, mx.prod, lambda x: x.sum(), lambda x: x.prod()])
def test_folds_of_narrow_integers_keep_their_sign(fold):
    for narrow, wide in [
        (mx.uint8, mx.uint32), (mx.uint16, mx.uint32), (mx.int8, mx.int32), (mx.int16, mx.int32),
        (mx.bool_, mx.int32), (mx.uint32, mx.uint32), (mx.uint64, mx.uint64), (mx.int64, mx.int64),
    ]:  # fmt: skip
        assert fold(mx.ones((3,), narrow)).dtype == wide
    assert mx.sum(mx.full((3, 1000), 65535, mx.uint16)).item() == 3 * 1000 * 65535
    assert mx.prod(mx.array([255, 255, 255], mx.uint8)).item() == 255**3
    assert mx.trace(mx.ones((2, 2), mx.uint8)).dtype == mx.uint32


def test_shifts_of_bool_are_of_uint8():
    x = mx.array([True, False])
    for got, want in [(x << True, [2, 0]), (x << x, [2, 0]), (x >> x, [0, 0]), (True << x, [2, 1])]:
        assert got.dtype == mx.uint8 and got.tolist() == want
    x <<= True
    assert x.dtype == mx.uint8 and x.tolist() == [2, 0]


def test_arange_past_int32():
    for args in [(2**31 - 2, 2**31 + 1), (-(2**31) - 1, -(2**31) + 1), (0, 5 * 2**31, 2**31), (2**53 - 2, 2**53)]:
        got = mx.arange(*args)
        assert got.dtype == mx.int64 and got.tolist() == list(range(*args))
    assert mx.arange(-(2**31), -(2**31) + 2).dtype == mx.int32
    assert mx.arange(2**31 - 3, 2**31 - 1).dtype == mx.int32
    with pytest.raises(ValueError, match=r"\[arange\] .*2\*\*53"):
        mx.arange(2**53 + 1, 2**53 + 3)


def test_roll_adds_up_several_shifts_of_one_axis():
    a = np.arange(6).reshape(2, 3)
    for shift, axis in [((1, 2), 0), ((1, 1), 1), ((2, -1, 4), (1,))]:
        assert np.array_equal(mx.roll(mx.array(a), shift, axis), np.roll(a, shift, axis))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_flattens(indexing):
    parts = [np.arange(4).reshape(2, 2), np.array(7), np.arange(3)]
    got = mx.meshgrid(*map(mx.array, parts), indexing=indexing)
    for x, y in zip(got, np.meshgrid(*parts, indexing=indexing)):
        assert np.array_equal(x, y)
