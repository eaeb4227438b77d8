"""The array object: made from Python values, looked at, shared, copied, and used in operators."""

import array
import copy
import ctypes
import datetime
import gc
import hashlib
import itertools
import math
import operator
import pickle
import sys
import threading
import weakref
from collections import deque

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

NUMPY = {
    mx.bool_: np.bool_,
    mx.uint8: np.uint8,
    mx.uint16: np.uint16,
    mx.uint32: np.uint32,
    mx.uint64: np.uint64,
    mx.int8: np.int8,
    mx.int16: np.int16,
    mx.int32: np.int32,
    mx.int64: np.int64,
    mx.float16: np.float16,
    mx.float32: np.float32,
    mx.float64: np.float64,
    mx.complex64: np.complex64,
}
shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


# Made from numbers and lists


@pytest.mark.parametrize(
    "value, dtype",
    [
        (True, mx.bool_),
        (1, mx.int32),
        (-(2**31), mx.int32),
        (2**31, mx.int64),
        (2**63, mx.uint64),
        (1.5, mx.float32),
        (1j, mx.complex64),
        ([], mx.float32),
        ([True, False], mx.bool_),
        ([True, 2], mx.int32),
        ([1, 2**40], mx.int64),
        ([2**63, 1], mx.uint64),
        ([1, 2.5], mx.float32),
        ([1, 2j, 0.5], mx.complex64),
        (((1, 2), [3, 4]), mx.int32),
        (range(3), mx.int32),
    ],
)
def test_own_dtype_of_values(value, dtype):
    x = mx.array(value)
    assert x.dtype == dtype
    want = [list(v) if isinstance(v, tuple) else v for v in value] if x.ndim else value
    assert x.tolist() == (list(want) if x.ndim else want)


@given(shapes, st.sampled_from(list(NUMPY)))
def test_nested_lists_and_back(shape, dtype):
    a = (np.arange(int(np.prod(shape))) % 7).reshape(shape).astype(NUMPY[dtype])
    x = mx.array(a.tolist(), dtype)
    assert x.dtype == dtype
    assert x.shape == (a.shape if a.size else np.array(a.tolist()).shape)
    assert x.tolist() == a.tolist()


def test_lists_that_are_uneven_are_refused_with_the_place():
    for value, place in [
        ([[1, 2], [3]], r"\[1\]"),
        ([[[1], [2]], [[3], [4, 5]]], r"\[1, 1\]"),
        ([[1], 2], r"\[1\]"),
        ([1, [2]], r"\[1\]"),
        ([[[1]], [[]]], r"\[1, 0\]"),
    ]:
        with pytest.raises(ValueError, match=place):
            mx.array(value)


def test_lists_that_contain_themselves_are_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="64"):
        mx.array(loop)


def test_lists_of_arrays_are_stacks_that_derivatives_pass_through():
    x, y = mx.array([1.0, 2.0]), mx.array([3, 4])
    z = mx.array([x, y])
    assert z.dtype == mx.float32
    assert z.tolist() == [[1, 2], [3, 4]]
    assert mx.array([[x, x], [y, x]]).shape == (2, 2, 2)
    assert mx.array([x[0], 5]).tolist() == [1, 5]
    assert mx.array([np.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    grad = mx.grad(lambda a: (mx.array([a.sum(), 2 * a[0]]) * mx.array([1.0, 10.0])).sum())(x)
    assert grad.tolist() == [21, 1]
    with pytest.raises(ValueError):
        mx.array([x, mx.zeros(3)])


INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_numbers_become_their_dtype_as_by_a_cast_in_c(dtype):
    t = getattr(mx, dtype)
    ints = [300, -1, -129, 70000, 2**31, 2**32 + 5, -(2**40), 2**63 - 1, -(2**63)]
    want = np.array(ints).astype(dtype)
    assert [mx.array(v, t).item() for v in ints] == mx.array(ints, t).tolist() == want.tolist()
    assert mx.array(2**64 - 1, t).item() == np.array(2**64 - 1, np.uint64).astype(dtype)
    floats = [3.9, -3.9, 255.5, -0.5] if dtype[0] == "i" else [3.9, 255.5, 0.5]
    if dtype in ("int64", "uint64"):
        floats += [2.0**53 - 1]
    want = np.array(floats).astype(dtype)
    assert [mx.array(v, t).item() for v in floats] == mx.array(floats, t).tolist() == want.tolist()
    # What C leaves open is what arrays of float64 become, whichever way it is asked for.
    open_ = [math.nan, math.inf, -math.inf, 1e20, -1e20, 1e10, -3.9, 300.5]
    want = [mx.array(v, mx.float64).astype(t).item() for v in open_]
    assert [mx.array(v, t).item() for v in open_] == want
    assert [mx.array([v, 1.0], t)[0].item() for v in open_] == want
    x = mx.zeros(len(open_), t)
    for i, v in enumerate(open_):
        x[i] = v
    assert x.tolist() == want
    assert [mx.zeros(1, t).at[0].add(v).item() for v in open_] == want


@pytest.mark.parametrize("dtype", [mx.bool_, mx.float16, mx.float32, mx.float64, mx.complex64])
def test_numbers_of_several_kinds_in_one_list(dtype):
    # Whichever comes first, each becomes what it would be alone.
    for values in itertools.permutations([False, -3, 2**40 + 1, 0.5, 2**63, 2**70, 1 + 2j], 4):
        want = [mx.array(v, dtype).item() for v in values]
        assert mx.array([values, values], dtype).tolist() == [want, want]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_ints_of_all_sizes_in_one_list(dtype):
    t = getattr(mx, dtype)
    for values in itertools.permutations([True, -3, 2**31, 2**40 + 1, 2**63]):
        assert mx.array(values, t).tolist() == [mx.array(v, t).item() for v in values]


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64"])
def test_an_int_past_all_numbers_is_told_with_the_type_asked_for(dtype):
    for value in (2**2000, [2**2000], [0.5, 2**2000], [[1], [2**2000]]):
        with pytest.raises(mx.IntegerOverflowError, match=rf"expected a number that fits {dtype}, got an int of 2001"):
            mx.array(value, getattr(mx, dtype))


def test_lists_of_lists_that_are_no_arrays():
    for value, found in [
        ([[1, 2], [3]], r"1 items at \[1\] where 2 items stood"),
        ([[1, 2], 3], r"a number at \[1\] where a list stood"),
        ([1, [2, 3]], r"2 items at \[1\] where a number stood"),
        ([[[1.5]], [[2]], [[3, 4]]], r"2 items at \[2, 0\] where 1 items stood"),
    ]:
        with pytest.raises(ValueError, match=found):
            mx.array(value)
    for depth in (3, 4, 5):  # what the first lists promise has no place in memory, or no number
        value = 1
        for _ in range(depth):
            value = [value] + [5] * 10**5
        with pytest.raises(ValueError, match="a number at .* where a list stood"):
            mx.array(value)


def test_complex_numbers_become_real_by_their_real_part():
    for t in (mx.float32, mx.float16, mx.bfloat16, mx.float64, mx.int32, mx.uint8):
        assert mx.array(3 + 4j, t).item() == 3
        assert mx.array([1j, 2 + 1j], t).tolist() == [0, 2]
        assert mx.full(2, 2 + 1j, dtype=t).tolist() == mx.full_like(mx.zeros(2, t), 2 + 1j).tolist() == [2, 2]
        x = mx.zeros(2, t)
        x[1] = 5 + 1j
        assert x.tolist() == [0, 5]
    assert mx.array([1j, 0j], mx.bool_).tolist() == [True, False]
    assert mx.array([mx.array(1), 0.1], mx.float64).tolist() == [1, 0.1]


@pytest.mark.parametrize("value, dtype", [(2**64, mx.uint64), (-(2**63) - 1, mx.int64), ([1, 2**64], mx.uint8)])
def test_an_int_of_more_than_64_bits_is_refused(value, dtype):
    with pytest.raises(ValueError, match="expected a number that fits"):
        mx.array(value, dtype)


def test_numbers_at_the_ends_of_their_dtypes():
    for dtype in [mx.uint8, mx.int8, mx.uint16, mx.int16, mx.uint32, mx.int32, mx.uint64, mx.int64]:
        info = mx.iinfo(dtype)
        assert mx.array([info.min, info.max], dtype).tolist() == [info.min, info.max]
    assert mx.array(2**64, mx.float32).item() == 2.0**64
    assert mx.array(1e40).item() == math.inf
    assert mx.array([1.9, -1.9], mx.int8).tolist() == [1, -1]


def test_a_huge_int_has_no_dtype_of_its_own():
    with pytest.raises(ValueError, match="fits uint64, got"):
        mx.array(10**40)


@pytest.mark.parametrize("value", ["a", None, {}, {1}, object(), b"", lambda: 0, [None], ["a"]])
def test_what_is_no_array(value):
    if value == b"":
        assert mx.array(value).shape == (0,)  # a buffer of bytes
        return
    with pytest.raises(TypeError):
        mx.array(value)


def test_wrong_arguments():
    for bad in [
        lambda: mx.array(),
        lambda: mx.array(1, 2),
        lambda: mx.array(1, dtype="int32"),
        lambda: mx.array(1, None, 3),
        lambda: mx.array(1, foo=1),
    ]:
        with pytest.raises(TypeError):
            bad()


# Looked at


def test_attributes():
    x = mx.zeros((2, 3, 4), mx.int16)
    assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3, 4), 3, 24, 2, 48)
    assert x.dtype == mx.int16
    assert len(x) == 2
    assert x.T.shape == (4, 3, 2)
    assert x.mT.shape == (2, 4, 3)
    z = mx.array([1 + 2j])
    assert (z.real.item(), z.imag.item()) == (1, 2)
    for name in ["shape", "size", "dtype", "T"]:
        with pytest.raises(AttributeError):
            setattr(x, name, 1)
    with pytest.raises(AttributeError):
        x.foo = 1


def test_one_element_as_a_number():
    assert mx.array([[2]]).item() == 2
    assert mx.array(True).item() is True
    assert mx.array(2.5, mx.bfloat16).item() == 2.5
    assert mx.array(1 + 2j).item() == 1 + 2j
    x = mx.array(2.75)
    assert (int(x), float(x), complex(x), bool(x)) == (2, 2.75, 2.75, True)
    assert range(5)[mx.array(3)] == 3
    assert round(mx.array(2.75), 1).item() == pytest.approx(2.8)
    assert not mx.array([0])
    for convert in [int, float, complex, bool, mx.array.item]:
        with pytest.raises(ValueError, match="one element"):
            convert(mx.zeros(2))
        with pytest.raises(ValueError, match="one element"):
            convert(mx.zeros(0))
    for bad in [mx.array(1.0), mx.array([1])]:
        with pytest.raises(TypeError):
            operator.index(bad)


def test_no_axes_no_length():
    for f in [len, iter, list]:
        with pytest.raises(TypeError):
            f(mx.array(1))


def test_iteration():
    x = mx.array([[1, 2], [3, 4]])
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert list(mx.zeros((0, 2))) == []
    it = iter(x)
    assert iter(it) is it
    assert 3 in [v.item() for row in x for v in row]


def test_hash_is_identity():
    x = mx.array([1, 2])
    assert hash(x) == hash(x)
    assert len({x, +x}) == 2


def test_weak_references():
    x = mx.array(1)
    r = weakref.ref(x)
    assert r() is x
    del x
    gc.collect()
    assert r() is None


def test_subclasses():
    class Named(mx.array):
        def name(self):
            return "n"

    x = Named([1.0, 2.0])
    x.label = "free"
    assert x.name() == "n"
    assert (x + 1).tolist() == [2, 3]
    assert type(x + 1) is mx.array
    del x
    gc.collect()


def test_an_array_like_takes_part_in_garbage_collection():
    class Holder:
        def __mlx_array__(self):
            return mx.array([1, 2])

    h = Holder()
    h.like = mx.ArrayLike(h)
    gone = weakref.ref(h)
    assert mx.sum(h.like).item() == 3
    del h
    gc.collect()
    assert gone() is None


class Labelled(mx.array):
    def __init__(self, val, label):
        super().__init__(val, mx.float16)
        self.label = label


class Stated(mx.array):
    def __getstate__(self):
        return [1]

    def __setstate__(self, state):
        self.state = state


def test_a_class_may_have_an_init_of_its_own():
    x = Labelled([1, 2], label=["a"])
    assert x.label == ["a"] and x.tolist() == [1, 2] and x.dtype == mx.float16
    assert Labelled(x, 3).tolist() == [1, 2]
    with pytest.raises(ValueError, match="Invalid type|array"):
        Labelled(object(), 3)

    class New(mx.array):
        def __new__(cls, val, label):
            return super().__new__(cls, val)

    assert New([3], "b").tolist() == [3]


COPIES = [copy.copy, copy.deepcopy]
COPIES += [lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]


@pytest.mark.parametrize("copied", COPIES)
def test_copies_are_of_the_same_class(copied):
    x = Labelled([1, 2], ["a"])
    x.itself = x
    y = copied(x)
    assert type(y) is Labelled and y.tolist() == [1, 2] and y.dtype == mx.float16
    assert y.label == ["a"] and (y.label is x.label) == (copied is copy.copy)
    assert y.itself is (x if copied is copy.copy else y)
    y[0] = 5
    y.other = 1
    assert x.tolist() == [1, 2] and not hasattr(x, "other")
    assert type(copied(mx.array([1]))) is mx.array
    if copied not in (copy.copy, copy.deepcopy):
        assert copied(Stated([1, 2])).state == [1] and copied(Stated([1, 2])).tolist() == [1, 2]


def test_states_of_what_is_no_array():
    state = mx.array([1]).__getstate__()
    for other in (int, 3, None):
        with pytest.raises(TypeError, match="the type of an array's state"):
            mx._array_from_state(state, other)


# Printed


@pytest.mark.parametrize(
    "value, text",
    [
        ([1.0, 2.5, -3.0], "array([1, 2.5, -3], dtype=float32)"),
        (1, "array(1, dtype=int32)"),
        (True, "array(True, dtype=bool)"),
        (1 - 2j, "array(1-2j, dtype=complex64)"),
        ([], "array([], dtype=float32)"),
        (1 / 3, "array(0.333333, dtype=float32)"),
        ([1e20, 1e-8], "array([1e+20, 1e-08], dtype=float32)"),
        (float("nan"), "array(nan, dtype=float32)"),
        ([[1, 2], [3, 4]], "array([[1, 2],\n       [3, 4]], dtype=int32)"),
    ],
)
def test_repr(value, text):
    assert repr(mx.array(value)) == str(mx.array(value)) == text


def test_long_arrays_are_cut():
    assert repr(mx.arange(2000)) == "array([0, 1, 2, ..., 1997, 1998, 1999], dtype=int32)"


def test_print_options():
    x = mx.array([1 / 3, 1.0])
    with mx.printoptions(precision=2) as inside:
        assert inside.precision == 2
        assert repr(x) == "array([0.33, 1.00], dtype=float32)"
        assert mx.get_printoptions().precision == 2
    assert mx.get_printoptions().precision == -1
    mx.set_printoptions(3)
    try:
        assert repr(x) == "array([0.333, 1.000], dtype=float32)"
    finally:
        mx.set_printoptions()
    options = mx.PrintOptions(5)
    options.precision = 4
    assert options.precision == 4
    for bad in [-2, 1000]:
        with pytest.raises(ValueError):
            mx.set_printoptions(bad)
        with pytest.raises(ValueError):
            options.precision = bad


def test_format():
    assert f"{mx.array(2.5):.3f}" == "2.500"
    assert f"{mx.array(7):04d}" == "0007"
    assert f"{mx.array([1, 2])}" == "array([1, 2], dtype=int32)"
    with pytest.raises(TypeError):
        f"{mx.array([1, 2]):.2f}"


# Shared with NumPy and others


@given(shapes, st.sampled_from(list(NUMPY)))
def test_numpy_and_back(shape, dtype):
    a = (np.arange(int(np.prod(shape))) % 5).reshape(shape).astype(NUMPY[dtype])
    x = mx.array(a, dtype)
    b = np.array(x)
    assert b.dtype == a.dtype
    assert b.shape == a.shape
    assert np.array_equal(a, b)
    assert np.array_equal(np.asarray(x.T), a.T)
    assert bytes(x) == a.tobytes()


def test_numpy_types_that_we_have_not():
    assert mx.array(np.ones(3)).dtype == mx.float32  # double precision only where asked for
    assert mx.array(np.ones(3), mx.float64).dtype == mx.float64
    assert mx.array(np.array([1 / 3]), mx.float64).item() == 1 / 3
    assert mx.array(np.array([1 + 2j])).dtype == mx.complex64
    assert mx.array(np.array([1 + 2j])).item() == 1 + 2j
    assert mx.array(np.arange(6).reshape(2, 3)[:, ::-1]).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert mx.array(np.float64(2.5)).item() == 2.5
    assert mx.array(np.int8(3)).dtype == mx.int8
    for bad in [np.array(["a"]), np.array([None]), np.ones(2, ">f4"), np.ones(2, np.longdouble)]:
        with pytest.raises(TypeError, match="format"):
            mx.array(bad)
    with pytest.raises(TypeError):
        mx.array(np.zeros(2, "i4,f4"))


def test_other_buffers():
    assert mx.array(b"abc").tolist() == [97, 98, 99]
    assert mx.array(bytearray(b"a")).dtype == mx.uint8
    assert mx.array(memoryview(b"abcd").cast("H")).dtype == mx.uint16
    assert mx.array(array.array("d", [1, 2])).tolist() == [1, 2]


def test_views_share_memory():
    x = mx.arange(3)
    view = np.asarray(x)
    assert not view.flags.owndata
    view[0] = 7
    assert x.tolist() == [7, 1, 2]
    m = memoryview(mx.zeros((2, 3), mx.float16))
    assert (m.format, m.shape, m.strides, m.itemsize, m.readonly) == ("e", (2, 3), (6, 2), 2, False)


def test_a_view_keeps_its_elements_whatever_becomes_of_the_array():
    x = mx.arange(1000)
    mx.eval(x)
    view = np.asarray(x)
    x[:] = 0
    x += 1
    mx.eval(x)
    assert view.tolist() == list(range(1000))
    del x
    gc.collect()
    y = mx.zeros(1000, mx.int32) + 5
    mx.eval(y)
    assert view.tolist() == list(range(1000))


def test_memory_that_several_elements_share_is_read_only():
    x = mx.broadcast_to(mx.array([1.0]), (3,))
    view = np.asarray(x)
    assert not view.flags.writeable
    with pytest.raises((BufferError, TypeError)):
        (ctypes.c_float * 3).from_buffer(x)


def test_requests_that_a_layout_does_not_suit():
    x = mx.array(np.arange(6).reshape(2, 3)).T
    mx.eval(x)
    with pytest.raises(BufferError):
        hashlib.sha256(x)  # asks for one stretch without gaps
    assert bytes(x) == np.arange(6).reshape(2, 3).T.tobytes()


def test_bfloat16_has_no_buffer(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    x = mx.array([1.5], mx.bfloat16)
    with pytest.raises(BufferError, match="float32"):
        memoryview(x)
    with pytest.raises(ValueError, match="'bfloat16' is not a valid PEP 3118 buffer format string.*float32"):
        np.array(x)
    assert np.array(x.astype(mx.float32)).tolist() == [1.5]
    assert x.tolist() == [1.5]


class Exporter:
    """Gives capsules as libraries do that know of no versions, or of other ones."""

    def __init__(self, array, **more):
        self.array, self.more = array, more

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__(**self.more)


def test_exporters_without_versions():
    assert mx.from_dlpack(Exporter(mx.array([1, 2]))).tolist() == [1, 2]
    assert mx.from_dlpack(Exporter(np.arange(3), max_version=(1, 0))).tolist() == [0, 1, 2]

    class Fails:
        def __dlpack__(self, **more):
            raise ZeroDivisionError("own")

    with pytest.raises(ZeroDivisionError, match="own"):
        mx.from_dlpack(Fails())


def test_capsules_are_taken_once():
    for make in mx.from_dlpack, mx.array, mx.asarray:
        capsule = np.arange(3, dtype=np.float32).__dlpack__()
        assert make(capsule).tolist() == [0, 1, 2]
        with pytest.raises(TypeError, match="expected a capsule named dltensor, which is used once"):
            make(capsule)
    with pytest.raises(TypeError, match="expected a capsule named dltensor"):
        mx.array(datetime.datetime_CAPI)


@pytest.mark.parametrize("x", [np.datetime64("2020-01-01"), np.timedelta64(3, "s"), np.bytes_(b"abc")], ids=repr)
def test_scalars_that_are_no_numbers(x):
    for make in mx.array, mx.asarray, lambda x: mx.array([x]), lambda x: mx.ones(1) * x:
        with pytest.raises((TypeError, ValueError)):
            make(x)


class OnGPU(bytearray):
    """An array of a GPU whose type has the slots of a buffer too."""

    __cuda_array_interface__ = None

    def __dlpack__(self, **kw):
        return np.arange(3.0).__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


def test_buffers_of_what_is_on_a_gpu_are_not_asked_for():
    for make in mx.array, mx.asarray, lambda x: mx.asarray(x, copy=False), mx.from_dlpack:
        assert make(OnGPU(b"abc")).tolist() == [0, 1, 2]


class Marked(mx.array):
    """An array with attributes."""


@pytest.mark.parametrize("hold", [lambda x: x.at, lambda x: x.at[0], iter], ids=["at", "at[0]", "iter"])
def test_cycles_through_an_array_are_freed(hold):
    x = Marked([1.0, 2.0])
    x.held = hold(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_bytes_of_bfloat16(tmp_path):
    """Who asks for no format gets them."""
    x = mx.array([1.5, 2], mx.bfloat16)
    want = b"\xc0\x3f\x00\x40"
    assert bytes(x) == want
    assert hashlib.sha256(x).digest() == hashlib.sha256(want).digest()
    with (tmp_path / "x").open("wb") as file:
        file.write(x)
    assert (tmp_path / "x").read_bytes() == want


def test_dlpack():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x, y, z = mx.from_dlpack(a), mx.from_dlpack(a, copy=True), mx.from_dlpack(a, copy=False)
    a[0, 0] = 9
    assert (x[0, 0].item(), y[0, 0].item(), z[0, 0].item()) == (0, 0, 9)  # the last is the same memory
    assert np.from_dlpack(mx.arange(3)).tolist() == [0, 1, 2]
    assert np.from_dlpack(mx.arange(6).reshape(2, 3).T).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert mx.from_dlpack(a.T).tolist() == a.T.tolist()
    with pytest.raises(ValueError, match="without a copy"):
        mx.from_dlpack(a.T, copy=False)
    assert mx.array([0, 1, 2]).__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        mx.array([0, 1, 2]).__dlpack__(dl_device=(2, 0))
    for name in ("max_version", "dl_device"):
        for pair in ((), (1,), (1, 0, 0), "ab", 1, (1, None), (2**70, 0)):
            with pytest.raises(
                mx.ConversionError, match=rf"\[__dlpack__\] expected {name} to be a tuple of two ints, got"
            ):
                mx.ones(3).__dlpack__(**{name: pair})
    with pytest.raises(TypeError):
        mx.from_dlpack(3)
    for wide, narrow in ((np.float64, mx.float32), (np.complex128, mx.complex64)):
        c = np.arange(12).astype(wide).reshape(3, 4)
        for d in (c, c.T, c[:, ::2], c[::-1], c[1, 1:2], np.array(c[1, 1]), c[:0]):
            x = mx.from_dlpack(d)
            assert x.dtype == narrow and x.shape == d.shape and x.tolist() == d.tolist()
    assert mx.from_dlpack(np.array([0.1]), copy=False).dtype == mx.float64
    for d in (np.arange(6.0, dtype=np.float32)[::2], np.broadcast_to(np.float32(2), (2, 3))):
        assert mx.from_dlpack(d).tolist() == d.tolist()
    a.flags.writeable = False
    for shared in (mx.from_dlpack(a), mx.from_dlpack(a, copy=False)):
        assert shared.tolist() == a.tolist()
    assert not np.asarray(mx.from_dlpack(a, copy=False)).flags.writeable
    b = mx.from_dlpack(mx.array([1.5], mx.bfloat16))
    assert b.dtype == mx.bfloat16
    assert b.item() == 1.5


def test_memory_of_others_lives_as_long_as_it_is_needed():
    a = np.arange(5, dtype=np.float32)
    before = sys.getrefcount(a)
    x = mx.asarray(a, copy=False)
    y = x[1:] * 2
    del x
    assert sys.getrefcount(a) > before
    assert y.tolist() == [2, 4, 6, 8]
    del y
    mx.eval(mx.zeros(1))
    gc.collect()
    assert sys.getrefcount(a) == before


def test_memory_of_others_is_never_written_by_the_library():
    a = np.arange(4, dtype=np.float32)
    x = mx.asarray(a, copy=False)
    x = x + 1
    mx.eval(x)
    z = mx.asarray(a, copy=False)
    z[0] = 5
    z += 1
    mx.eval(z)
    assert a.tolist() == [0, 1, 2, 3]
    assert z.tolist() == [6, 2, 3, 4]
    assert not np.asarray(mx.asarray(a, copy=False)).flags.writeable


def test_asarray():
    a = np.arange(3, dtype=np.float32)
    x = mx.asarray(a)
    a[0] = 5
    assert x.tolist() == [0, 1, 2]
    assert mx.asarray([1, 2]).dtype == mx.int32
    assert mx.asarray(a, mx.int8).dtype == mx.int8
    for bad in [lambda: mx.asarray([1], copy=False), lambda: mx.asarray(a, mx.int8, copy=False)]:
        with pytest.raises(ValueError, match="copy"):
            bad()
    with pytest.raises(ValueError, match="copy"):
        mx.asarray(np.arange(4)[::2], copy=False)


class Wrapped:
    """What implements __mlx_array__."""

    def __init__(self, x):
        self.x = x

    def __mlx_array__(self):
        return self.x


def test_objects_that_stand_for_arrays():
    w = Wrapped(mx.array([1.0, 2.0], mx.float16))
    assert (mx.array([1, 2]) + w).dtype == mx.float16
    assert mx.exp(w).shape == (2,)
    assert mx.sum(w).item() == 3
    assert mx.array(w).dtype == mx.float16
    assert mx.concatenate([w, w]).shape == (4,)
    with pytest.raises(TypeError, match="should return an array"):
        mx.array([1.0]) + Wrapped(3)
    assert (mx.array([1, 2]) + mx.ArrayLike([3, 4])).tolist() == [4, 6]
    with pytest.raises(TypeError):
        mx.exp(mx.ArrayLike("a"))


# Copied


def test_copies():
    x = mx.array([1, 2, 3])
    for y in [copy.copy(x), copy.deepcopy(x), +x, mx.array(x), x.__copy__()]:
        assert y is not x
        y[0] = 9
    assert x.tolist() == [1, 2, 3]
    tree = copy.deepcopy({"a": [x, x]})
    assert tree["a"][0] is tree["a"][1]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    for x in [
        mx.array(1.5),
        mx.arange(6).reshape(2, 3).T,
        mx.zeros((0, 3), mx.int8),
        mx.array([1.5, -2], mx.bfloat16),
        mx.array([1 + 2j]),
        mx.array([True]),
    ]:
        y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.dtype, y.shape) == (x.dtype, x.shape)
        assert y.tolist() == x.tolist()


def test_state_that_is_wrong():
    x = mx.zeros(2)
    for state in [
        (b"", (2,), "float32"),
        (b"1234", (1,), "float"),
        (b"", (-1,), "int8"),
        (1, 2),
        3,
    ]:
        with pytest.raises((TypeError, ValueError)):
            x.__setstate__(state)
    assert x.tolist() == [0, 0]
    x.__setstate__(mx.array([[1]]).__getstate__())
    assert x.tolist() == [[1]]


# Operators

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.le,
    operator.eq,
    operator.ne,
    operator.gt,
    operator.ge,
]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", BINARY, ids=lambda f: f.__name__)
def test_operators_on_floats(op):
    a, b = np.array([1.0, 2.5, -3.0]), np.array([2.0, -0.5, 4.0])
    x, y = mx.array(a), mx.array(b)
    assert np.allclose(np.array(op(x, y)), op(a, b), equal_nan=True)
    assert np.allclose(np.array(op(x, 2.0)), op(a, 2.0))
    assert np.allclose(np.array(op(2.0, y)), op(2.0, b))
    assert np.allclose(np.array(op(x, 2)), op(a, 2))
    assert np.allclose(np.array(op(x, b)), op(a, b), equal_nan=True)
    for left in (a, a.astype(np.float32), np.float32(2), np.float64(2), np.int64(2)):
        got, want = op(left, y), op(left, b.astype(np.float32))  # NumPy's, who is asked first
        assert isinstance(got, np.ndarray) and got.dtype == want.dtype
        assert np.array_equal(got, want, equal_nan=True)


def test_numpy_arrays_are_changed_in_place():
    y = mx.array([1.0, 2.0])
    a = b = np.zeros(2, np.float32)
    a += y
    a -= 2 * y
    a *= y
    assert a is b and b.tolist() == [-1, -4]
    view = b[::-1]
    view += y
    assert b.tolist() == [1, -3]
    assert np.all(b == mx.array([1, -3])) and np.sum(b * y) == -5
    with pytest.raises(TypeError):
        np.zeros(2, np.int32).__iadd__(y)


class Joins(list):
    def __radd__(self, other):
        return "radd"

    def __rmul__(self, other):
        return "rmul"


@pytest.mark.parametrize("sequence", [[1], (1, 2), "a", deque([1])], ids=lambda s: type(s).__name__)
def test_sequences_are_no_operands(sequence):
    for x in (mx.array(3), mx.array([1, 2]), mx.array(2.0)):
        for op in (operator.add, operator.mul, operator.iadd, operator.imul):
            for l, r in ((x, sequence), (sequence, x)):
                with pytest.raises(TypeError, match=r"expected a number or an array beside an array, got"):
                    op(l, r)
        with pytest.raises(TypeError):
            x - sequence
    assert mx.array(3) * Joins([1]) == "rmul" and mx.array(3) + Joins([1]) == "radd"


@pytest.mark.parametrize("op", BITS, ids=lambda f: f.__name__)
def test_operators_on_bits(op):
    a, b = np.array([5, 12, 3], np.int32), np.array([1, 2, 3], np.int32)
    assert np.array(op(mx.array(a), mx.array(b))).tolist() == op(a, b).tolist()
    assert np.array(op(mx.array(a), 2)).tolist() == op(a, 2).tolist()
    assert np.array(op(2, mx.array(b))).tolist() == op(2, b).tolist()
    with pytest.raises((ValueError, TypeError)):
        op(mx.array([1.0]), mx.array([2.0]))


def test_other_operators():
    x = mx.array([1.5, -2.0])
    assert (-x).tolist() == [-1.5, 2]
    assert (+x).tolist() == [1.5, -2]
    assert abs(x).tolist() == [1.5, 2]
    assert (~mx.array([1, -2])).tolist() == [-2, 1]
    assert (True ^ mx.array([1, 2])).tolist() == [0, 3]
    q, r = divmod(mx.array([7, -7]), 3)
    assert (q.tolist(), r.tolist()) == ([2, -3], [1, 2])
    q, r = divmod(7, mx.array([2, 4]))
    assert (q.tolist(), r.tolist()) == ([3, 1], [1, 3])
    assert (mx.array([[1.0, 2.0]]) @ mx.array([[3.0], [4.0]])).tolist() == [[11]]
    assert (2 ** mx.array([1, 2, 3])).tolist() == [2, 4, 8]
    assert x.__div__(2).tolist() == [0.75, -1]
    assert x.__rdiv__(3).tolist() == [2, -1.5]


IN_PLACE = [
    (operator.iadd, [3, 4]),
    (operator.isub, [-1, 0]),
    (operator.imul, [2, 4]),
    (operator.ifloordiv, [0, 1]),
    (operator.imod, [1, 0]),
    (operator.ipow, [1, 4]),
    (operator.iand, [0, 2]),
    (operator.ior, [3, 2]),
    (operator.ixor, [3, 0]),
    (operator.ilshift, [4, 8]),
    (operator.irshift, [0, 0]),
]


@pytest.mark.parametrize("op, want", IN_PLACE, ids=lambda f: getattr(f, "__name__", ""))
def test_operators_in_place(op, want):
    x = mx.array([1, 2])
    alias = x
    kept = +x
    result = op(x, 2)
    assert result is x is alias
    assert alias.tolist() == want
    assert kept.tolist() == [1, 2]
    y = mx.array([1, 2])
    assert op(y, mx.array([2, 2])).tolist() == want


def test_division_in_place():
    x = mx.array([1.0, 2.0])
    y = x
    x /= 2
    assert y.tolist() == [0.5, 1]
    i = mx.array([1, 2])
    with pytest.raises(ValueError, match="in place"):
        i /= 2
    assert i.tolist() == [1, 2]
    m = mx.ones((2, 2))
    m @= m
    assert m.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("dtype", [d for d in NUMPY if d != mx.bool_])
def test_a_number_takes_the_dtype_of_the_array(dtype):
    x = mx.array([1, 2], dtype)
    floating = dtype in (mx.float16, mx.float32, mx.float64)
    assert (x + 1).dtype == dtype
    assert (x * True).dtype == dtype
    if dtype == mx.complex64:
        assert (x + 1.5).dtype == mx.complex64
    else:
        assert (x + 1.5).dtype == (dtype if floating else mx.float32)
    assert (x + 1j).dtype == mx.complex64
    assert (1 - x).dtype == dtype


def test_a_number_that_does_not_fit_the_dtype():
    for bad in [lambda x: x + (-1), lambda x: x * 300, lambda x: 256 - x, lambda x: x | 1000]:
        with pytest.raises(ValueError, match="fits uint8, got"):
            bad(mx.array([1], mx.uint8))


def test_numpy_operands_act_like_numbers_of_their_kind():
    h = mx.array([1.0], mx.float16)
    assert (h + np.float32(1)).dtype == mx.float16
    assert (h + np.ones(1)).dtype == mx.float16
    i = mx.array([1, 2])
    assert (i + np.arange(2)).dtype == mx.int32
    assert (i + np.float32(1.5)).tolist() == [2.5, 3.5]
    with pytest.raises(ValueError, match="expected a number that fits"):
        mx.array([1], mx.uint8) + np.int64(300)
    d = mx.array([1.0], mx.float64)
    assert (d + np.array([1 / 3])).item() == 1 + 1 / 3


def test_numpy_functions_take_our_arrays():
    x = mx.array([0.0, 1.0])
    assert np.exp(x).tolist() == np.exp(np.array([0, 1], np.float32)).tolist()
    np.testing.assert_allclose(x, [0, 1])
    a = np.zeros(2)
    a[:] = x
    assert a.tolist() == [0, 1]


@pytest.mark.parametrize("other", ["a", None, [1, 2], {}, object()])
def test_operators_refuse_what_they_do_not_know(other):
    x = mx.array([1, 2])
    for op in [operator.add, operator.mul, operator.truediv, operator.lt, operator.matmul]:
        with pytest.raises(TypeError):
            op(x, other)
        with pytest.raises(TypeError):
            op(other, x)
    assert (x == other) is False
    assert (x != other) is True


def test_operators_decline_numbers_that_make_no_sense():
    x, floats = mx.array([1, 2]), mx.array([1.5, 2.5])
    for f in [
        lambda: x @ 3,
        lambda: 3 @ x,
        lambda: operator.imatmul(x, np.float32(3)),
        lambda: 0.5 | x,
        lambda: 1 << floats,
        lambda: True & floats,
    ]:
        with pytest.raises(TypeError, match="unsupported operand"):
            f()
    with pytest.raises(ValueError, match="bitwise_or"):
        x | 0.5


def test_another_class_may_answer():
    class Answers:
        def __radd__(self, x):
            return "radd"

        def __eq__(self, x):
            return "eq"

    x = mx.array([1])
    assert x + Answers() == "radd"
    assert (x == Answers()) == "eq"


# Memory and threads


def test_no_leak_in_operators():
    x = mx.zeros((1000,))
    mx.eval(x)
    gc.collect()
    start = mx.get_active_memory()
    for _ in range(1000):
        y = x + 1
        y = y * 2.0
        z = y[1:]
        mx.eval(z)
        y += z[0]
    mx.eval(y)
    del y, z
    gc.collect()
    assert mx.get_active_memory() <= start + 4096


def test_one_array_updated_and_evaluated_by_threads():
    x = mx.zeros(100)
    errors = []

    def work():
        try:
            for _ in range(300):
                y = x
                y += 1
                mx.eval(x)
                y[0] = 0
                repr(x)
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert x[0].item() in range(1200)


@settings(max_examples=20)
@given(st.data())
def test_dtypes_of_all_pairs_agree_with_result_type(data):
    a, b = (data.draw(st.sampled_from(list(NUMPY))) for _ in range(2))
    assert (mx.zeros(1, a) + mx.zeros(1, b)).dtype == mx.result_type(a, b)


@pytest.mark.parametrize("copied", [mx.array, lambda x: mx.asarray(x, copy=True)])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bool_, mx.int64, mx.complex64])
@pytest.mark.parametrize(
    "made", [lambda x: x, lambda x: x[:, ::2], lambda x: x.T, lambda x: mx.broadcast_to(x[0], (2, 4))]
)
@pytest.mark.parametrize("rows", [2, 2000])
def test_a_copy_has_memory_of_its_own(rows, made, dtype, copied):
    base = mx.array(np.arange(4 * rows).reshape(rows, 4) % 7).astype(dtype)
    mx.eval(base)
    x = made(base)
    mx.eval(x)
    expected = np.array(x)
    y = copied(x)
    assert y.dtype == dtype
    np.asarray(base)[...] = 1  # before anybody looks at the copy
    np.testing.assert_array_equal(np.asarray(y), expected)
    z = copied(y)
    np.asarray(y)[...] = 1
    np.testing.assert_array_equal(np.asarray(z), expected)


def test_a_copy_of_what_is_computed_later_has_memory_of_its_own():
    x = mx.arange(3.0) * 2
    y = mx.array(x)
    mx.eval(y, x)
    np.asarray(y)[...] = 9
    assert x.tolist() == [0, 2, 4]
    twice = mx.compile(lambda x: (x, mx.array(x)))
    a, b = twice(x)
    np.asarray(b)[...] = 9
    assert a.tolist() == x.tolist() == [0, 2, 4]


def test_derivatives_and_batches_go_through_a_copy():
    def copied(x):
        return mx.array(mx.asarray(x, copy=True))

    assert mx.grad(lambda x: (copied(x) ** 2).sum())(mx.array([1.0, 3.0])).tolist() == [2, 6]
    assert mx.jvp(copied, [mx.array([1.0])], [mx.array([5.0])])[1][0].tolist() == [5]
    assert mx.vmap(copied, in_axes=1, out_axes=1)(mx.array([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]


def test_empty_lists_beside_empty_arrays():
    for nest, shape in (
        ([[], mx.array([])], (2, 0)),
        ([mx.array([], mx.int32), []], (2, 0)),
        ([[[]], mx.array([[]])], (2, 1, 0)),
    ):
        x = mx.array(nest)
        assert x.shape == shape and x.dtype == mx.float32
    with pytest.raises(mx.Error, match=r"\[array\] expected items of equal shape, got \(\) at \[1\]"):
        mx.array([[], mx.array(1)])
