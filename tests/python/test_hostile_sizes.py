"""Numbers at the ends of what an int holds, and empty arrays with axes as long as they may be, given to everything."""

import ctypes
import pathlib
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest
from process import SANITIZED
from test_c_api import built

MOST = 2**31 - 1


def survives(program, arguments, part, parts, folder):
    command = [sys.executable, pathlib.Path(__file__).with_name(program), *arguments, str(part), str(parts)]
    with open(folder / "errors", "w+") as errors:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=folder)
        errors.seek(0)
        last = errors.read()[-5000:]
    log = folder / "log"
    assert done.returncode == 0, (done.returncode, log.read_text().strip() if log.exists() else "", last)
    made, failed = map(int, done.stdout.split()[-2:])
    assert made > 1000 and failed > 1000


# All calls under the sanitizers, and a part of them otherwise.
PARTS = 4 if SANITIZED else 8


@pytest.mark.parametrize("part", range(4 if SANITIZED else 1))
def test_calls_with_hostile_sizes_end(tmp_path, part):
    survives("hostile_sizes.py", [tmp_path / "log"], part, PARTS, tmp_path)


@pytest.mark.parametrize("part", range(4 if SANITIZED else 1))
def test_calls_from_c_with_hostile_sizes_end(tmp_path, part):
    survives("hostile_calls.py", [built()], part, PARTS, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("program", ["hostile_sizes.py", "hostile_calls.py"])
def test_all_calls_with_hostile_sizes_end(tmp_path, part, program):
    survives(program, [built() if "calls" in program else tmp_path / "log"], part, 4, tmp_path)


@pytest.mark.parametrize("size", [-1, -2, -3, -66, -(2**31)])
def test_sizes_of_slices_that_are_negative(size):
    x, start = mx.arange(6), mx.array([2])
    for f in (
        lambda x: mx.slice(x, start, (0,), (size,)),
        mx.compile(lambda x: mx.slice(x, start, (0,), (size,)), shapeless=True),
    ):
        with pytest.raises(ValueError, match=r"\[slice\] expected a size from 0 to 6 for axis 0, got -"):
            f(x)


def test_sizes_of_empty_arrays_have_a_product():
    """So that strides and sizes made of some of the axes fit."""
    with pytest.raises(ValueError, match="sizes whose product fits 63 bits"):
        mx.zeros((0, MOST, MOST, MOST))
    with pytest.raises(ValueError, match="sizes whose product fits 63 bits"):
        mx.expand_dims(mx.zeros((0, MOST)), 1) + mx.zeros((2**30, 1))
    assert mx.eval(mx.zeros((0, MOST, 9)) + 1) is None


@pytest.mark.parametrize("k", [-(2**31), -(2**31) + 1, -5, 5, MOST])
def test_triangles_far_from_the_diagonal(k):
    x = np.arange(1, 13).reshape(3, 4)
    np.testing.assert_array_equal(mx.triu(mx.array(x), k), np.triu(x, k))
    np.testing.assert_array_equal(mx.tril(mx.array(x), k), np.tril(x, k))
    np.testing.assert_array_equal(mx.tri(3, 4, k), np.tri(3, 4, k))
    np.testing.assert_array_equal(mx.eye(3, 4, k), np.eye(3, 4, k))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.complex64, mx.int32, mx.uint8])
def test_round_to_digits_that_no_number_has(dtype):
    """The number itself, or zero; NumPy and mlx give NaN where the power of ten is infinite."""
    x = mx.array([1.25, -3.5, 7, 100]).astype(dtype)
    for decimals in (40, 400, MOST):
        assert mx.array_equal(mx.round(x, decimals), x)
    for decimals in (-40, -400, -MOST, -(2**31)):
        assert mx.array_equal(mx.round(x, decimals), mx.zeros_like(x))


def test_round_of_float16_to_more_digits_than_its_range_holds():
    x = mx.array([0.0012345, -0.0678], mx.float16)
    np.testing.assert_allclose(np.array(mx.round(x, 5)), np.round(np.array(x, np.float64), 5), rtol=1e-3)
    assert mx.array_equal(mx.round(mx.array([float("inf"), 3.0]), -39), mx.array([float("inf"), 0.0]))


def test_blocks_larger_than_the_matrix():
    a, b = mx.arange(6.0).reshape(2, 3), mx.arange(12.0).reshape(3, 4)
    one = mx.full((1, 1), 2.0)
    for size in (4, 5, MOST):
        got = mx.block_masked_mm(a, b, size, mask_lhs=one, mask_rhs=one)
        np.testing.assert_array_equal(got, 4 * np.array(a) @ np.array(b))
    got = mx.block_masked_mm(mx.ones((5, 3)), mx.ones((3, 7)), 4, mx.array([[1.0, 2], [3, 4]]))
    want = 3 * np.kron([[1, 2], [3, 4]], np.ones((4, 4)))[:5, :7]
    np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="2147483647"):
        mx.block_masked_mm(mx.zeros((MOST, 0)), mx.zeros((0, 0)), 2**30, mx.zeros((2, 0)))


def test_long_spectra_without_frames():
    with pytest.raises(ValueError, match="istft"):
        mx.fft.istft(mx.zeros((MOST, 0), mx.complex64))
    assert mx.fft.fftfreq(5).tolist() == pytest.approx([0, 0.2, 0.4, -0.4, -0.2])


def test_strides_that_nothing_walks():
    x = mx.as_strided(mx.zeros(4), (0, 3), (MOST, -(2**31)), MOST)
    assert x[:, ::2].T.shape == (2, 0) and x[:, 1:].tolist() == []
    y = mx.as_strided(mx.arange(4), (1, 2), (MOST, 2), 1)
    assert y.tolist() == [[1, 3]] and (y[0:1, ::-1] + 0).tolist() == [[3, 1]]


def test_strides_and_dilations_of_a_convolution_without_end():
    x, w = mx.ones((1, 4, 4, 1)), mx.ones((1, 3, 3, 1))
    limit = mx.set_memory_limit(1 << 32)
    try:
        with pytest.raises(MemoryError):
            mx.eval(mx.conv2d(x, w, stride=MOST, padding=MOST))
        with pytest.raises(MemoryError):
            mx.eval(mx.conv_general(x, w, padding=MOST, kernel_dilation=MOST))
    finally:
        mx.set_memory_limit(limit)
    assert mx.conv2d(x, w[:, :1, :1], stride=MOST).tolist() == [[[[1.0]]]]


class Lying:
    """DLPack of an empty array of a shape that has no product."""

    def __init__(self, shape, forgets=False, empty=False):
        self.forgets, self.empty = forgets, empty
        self.x = np.zeros((0,) + (1,) * (len(shape) - 1), np.float32)
        self.shape = shape

    def __dlpack__(self, **kw):
        capsule = self.x.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = pointer(capsule, b"dltensor")
        # DLTensor: data, device (2 ints), ndim, dtype (4 bytes), shape
        sizes = ctypes.cast(ctypes.c_void_p.from_address(tensor + 24).value, ctypes.POINTER(ctypes.c_int64))
        for i, size in enumerate(self.shape):
            sizes[i] = size
        if self.forgets:
            ctypes.c_void_p.from_address(tensor + 24).value = None
        if self.empty:
            ctypes.c_void_p.from_address(tensor).value = None
        return capsule

    def __dlpack_device__(self):
        return (1, 0)


def test_dlpack_shapes_without_a_product():
    assert mx.from_dlpack(Lying((0, MOST, 5))).shape == (0, MOST, 5)
    with pytest.raises(ValueError, match="product fits 63 bits"):
        mx.from_dlpack(Lying((0, MOST, MOST, MOST)))
    with pytest.raises(ValueError, match="does not fit 32 bits"):
        mx.from_dlpack(Lying((0, 2**31)))
    with pytest.raises(ValueError, match="expected a shape of 2 dimensions, got none"):
        mx.from_dlpack(Lying((0, 2), forgets=True))


def test_dlpack_without_data_is_empty():
    for take in (mx.from_dlpack, mx.array, lambda x: mx.from_dlpack(x, copy=True), lambda x: mx.asarray(x, copy=False)):
        assert (take(Lying((0, 5), empty=True)) + 1).shape == (0, 5)
        with pytest.raises(ValueError, match="expected the data of 10 elements, got none"):
            take(Lying((2, 5), empty=True))


class Placed(Lying):
    """DLPack of ones, whose elements are said to lie elsewhere."""

    def __init__(self, shape, strides=None, offset=0):
        self.x = np.ones(shape, np.float32)
        self.strides, self.offset = strides and (ctypes.c_int64 * len(strides))(*strides), offset

    def __dlpack__(self, **kw):
        capsule = self.x.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = pointer(capsule, b"dltensor")
        # behind the shape: strides, byte_offset
        if self.strides:
            ctypes.c_void_p.from_address(tensor + 32).value = ctypes.addressof(self.strides)
        ctypes.c_uint64.from_address(tensor + 40).value = self.offset
        return capsule


@pytest.mark.parametrize("take", [mx.from_dlpack, mx.array, lambda x: mx.from_dlpack(x, copy=True)])
def test_dlpack_elements_that_have_no_address(take):
    for placed in (
        Placed((4, 4), (2**62, 2**62)),
        Placed((4, 4), (-(2**62), 1)),
        Placed((2, 2), (2**62, 2**62)),
        Placed((2,), (2**61,)),
        Placed((2,), (-(2**60),)),
        Placed((2,), offset=2**64 - 16),
        Placed((2,), (2,), offset=2**64 - 16),
    ):
        with pytest.raises(ValueError, match="expected strides that stay inside of memory, got some that leave it"):
            take(placed)
    assert take(Placed((2, 2), (1, 2))).tolist() == [[1, 1], [1, 1]]
    assert take(Placed((2, 1), (1, 2**62))).tolist() == [[1], [1]]
    assert take(Placed((2, 2), (-1, -2), offset=12)).tolist() == [[1, 1], [1, 1]]


def test_deleters_of_dlpack_begin_without_an_exception():
    """What they raise is theirs, and the error of from_dlpack arrives."""
    DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    occurred = ctypes.pythonapi.PyErr_Occurred
    occurred.restype = ctypes.c_void_p
    seen = []

    @DELETER
    def deleter(_):
        seen.append(occurred())

    class Refused(Lying):
        def __dlpack__(self, **kw):
            self.capsule = super().__dlpack__()
            tensor = pointer(self.capsule, b"dltensor")
            ctypes.c_void_p.from_address(tensor + 56).value = ctypes.cast(deleter, ctypes.c_void_p).value
            return self.capsule

    with pytest.raises(ValueError, match="expected the data of 10"):
        mx.from_dlpack(Refused((2, 5), empty=True))
    assert seen == [None]


def test_matrices_without_elements_are_not_counted():
    """As many as there may be, and none has work in it."""
    mx.eval(mx.linalg.lu(mx.zeros((MOST, 0, 9)), stream=mx.cpu))
    mx.eval(mx.linalg.pinv(mx.zeros((MOST, 0, 9)), stream=mx.cpu))
    mx.eval(mx.linalg.solve(mx.zeros((MOST, 0, 0)), mx.zeros((MOST, 0, 9)), stream=mx.cpu))


@pytest.mark.parametrize("device", [mx.cpu, mx.gpu])
def test_what_is_largest_and_what_is_computed_are_named_where_memory_runs_out(device):
    if not mx.is_available(device):
        pytest.skip("needs a GPU")
    with mx.stream(device):
        held = [mx.arange(1 << 22) + 1, mx.arange(1 << 22) + 1, mx.arange(1 << 21) + 1]
        mx.eval(held)
        limit = mx.set_memory_limit(mx.get_active_memory() + (1 << 24))
        try:
            asked = r"could not allocate \d+ bytes.*; the largest are \d+ of \d{8,}.* bytes"
            by = r", while computing concatenate, whose result has shape \(83886080,\) and type int32$"
            with pytest.raises(MemoryError, match=asked + by):
                mx.eval(mx.concatenate(held * 8))
        finally:
            mx.set_memory_limit(limit)


def test_operations_that_run_as_one_are_named_where_memory_runs_out():
    with mx.stream(mx.cpu):
        x = mx.zeros((1 << 20,))
        mx.eval(x)
        y = mx.exp(x)
        both = y, y.astype(mx.float16)
        mx.clear_cache()
        limit = mx.set_memory_limit(100)  # less than there is, whatever other tests let go of meanwhile
        try:
            with pytest.raises(MemoryError, match=r", while computing exp to astype, which run as one$"):
                mx.eval(both)
        finally:
            mx.set_memory_limit(limit)
        mx.eval(both)


@pytest.mark.parametrize("f", [mx.tril, mx.triu])
def test_no_matrices_make_no_mask(f):
    x = mx.zeros((0, 20000, 20000), mx.float16)
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    y = f(x, 1)
    mx.eval(y)
    assert (y.shape, y.dtype) == (x.shape, x.dtype)
    assert mx.get_peak_memory() - before < 2**20
