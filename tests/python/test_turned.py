"""Copies of arrays whose axes have changed places, and operations on them: planes that are turned in blocks, rows that
are shorter than those, and of one axis that is not."""

import itertools

import mlx.core as mx
import numpy as np
import pytest

TYPES = [mx.uint8, mx.float16, mx.bfloat16, mx.float32, mx.complex64]


def numbers(shape, dtype):
    x = np.arange(int(np.prod(shape))) % 251
    return mx.array(x.reshape(shape).astype(np.float32)).astype(dtype)


def plain(x):
    return np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)


# Around the sides of blocks, 64, and what a block of short rows holds, 4,096; more than a thread's part.
SHAPES = [
    (65, 130, 3),
    (3, 1400, 2),
    (1, 4097, 2),
    (2, 3, 5000),
    (64, 64, 64),
    (5, 127, 63),
    (129, 1, 70),
    (20, 300, 33),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_copies(dtype, shape):
    x = numbers(shape, dtype)
    for axes in itertools.permutations(range(3)):
        assert np.array_equal(plain(mx.contiguous(x.transpose(axes))), plain(x).transpose(axes)), axes


@pytest.mark.parametrize("axes", [(3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1), (0, 2, 3, 1), (0, 3, 1, 2)], ids=str)
def test_copies_of_four_axes(axes):
    for shape in ((7, 3, 40, 50), (4, 30, 66, 3), (2, 5, 3, 700)):
        x = numbers(shape, mx.float32)
        assert np.array_equal(plain(mx.contiguous(x.transpose(axes))), plain(x).transpose(axes)), shape


@pytest.mark.parametrize("step", [(1, 1, 2), (1, -1, 1), (-1, 2, -1), (3, 1, -3)], ids=str)
def test_copies_of_parts(step):
    x = numbers((40, 150, 70), mx.float32)[:: step[0], :: step[1], :: step[2]]
    for axes in itertools.permutations(range(3)):
        assert np.array_equal(plain(mx.contiguous(x.transpose(axes))), plain(x).transpose(axes)), axes


@pytest.mark.parametrize("shape", [(66, 130, 3), (3, 1400, 2), (129, 3, 70)], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_operations(dtype, shape):
    """One operand that is turned, one that is not, and one that is the same along an axis: as of copies of them."""
    fused = mx.compile(lambda y, z, one: (y - z) * one + y)
    operations = [mx.add, mx.equal, lambda y, z: mx.where(y > z, y, z), lambda y, z: y.astype(mx.float64) * z]
    x = numbers(shape, dtype)
    for axes in itertools.permutations(range(3)):
        y = x.transpose(axes)
        z, one = numbers(y.shape, dtype), numbers((1, 1, y.shape[2]), dtype)
        whole, ones = mx.contiguous(y), mx.contiguous(mx.broadcast_to(one, y.shape))
        for f in operations:
            assert np.array_equal(plain(f(y, z)), plain(f(whole, z)))
            assert np.array_equal(plain(f(one, y)), plain(f(ones, whole)))
        assert np.array_equal(plain(fused(y, z, one)), plain(fused(whole, z, ones)))
