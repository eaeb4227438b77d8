"""Memory of a GPU shared with other libraries, both ways: DLPack and __cuda_array_interface__; skipped where there is
no GPU. The emulated driver's memory is the host's, so that NumPy stands for the other library."""

import ctypes
import gc
import importlib.util

import mlx.core as mx
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU")
EMULATED = mx.is_available(mx.gpu) and mx.device_info(mx.gpu)["device_name"] == "emulated"
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("type", ctypes.c_int32),
        ("id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", DELETER)]
api = ctypes.pythonapi
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


LENT = set()


class Theirs:
    """An array of another library on GPU 0, in the memory of a NumPy array."""

    def __init__(self, a, type=2, number=0):
        self.a, self.type, self.number, self.asked, self.deleted = a, type, number, [], 0

    def __dlpack_device__(self):
        return self.type, self.number

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        a = self.a
        self.shape = (ctypes.c_int64 * a.ndim)(*a.shape)
        self.strides = (ctypes.c_int64 * a.ndim)(*(s // a.itemsize for s in a.strides))
        t = Tensor(
            a.ctypes.data, self.type, 0, a.ndim, CODES[a.dtype.kind], 8 * a.itemsize, 1, self.shape, self.strides, 0
        )
        self.deleter = DELETER(self.delete)
        self.managed = Managed(t, None, self.deleter)
        LENT.add(self)  # until it is deleted, as memory has to be
        return api.PyCapsule_New(ctypes.addressof(self.managed), b"dltensor", None)

    def delete(self, managed):
        self.deleted += 1
        LENT.discard(self)


@pytest.mark.parametrize("number", [-1, 2**31, 2**40])
def test_numbers_that_no_gpu_has(number):
    with pytest.raises(ValueError, match=rf"\[from_dlpack\] expected the number of a GPU, got {number}$"):
        mx.from_dlpack(Theirs(np.ones(3, np.float32), number=number))


def made(shape=(3, 4)):
    """An array whose elements are on the GPU alone."""
    x = mx.arange(int(np.prod(shape)), dtype=mx.float32, stream=mx.gpu)
    x = mx.add(x, 1, stream=mx.gpu).reshape(shape, stream=mx.gpu)
    mx.eval(x)
    return x


def tensor(capsule):
    return Managed.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor")).tensor


def there(t):
    """The elements of a tensor, row-major, in the emulated driver's memory."""
    return np.ctypeslib.as_array((ctypes.c_float * int(np.prod(t.shape[: t.ndim]))).from_address(t.data))


# ---- out


def test_which_device_it_is():
    x = made()
    assert x.__dlpack_device__() == (2, 0)
    on_host = mx.array([1.0, 2.0])
    assert on_host.__dlpack_device__() == (1, 0)
    np.asarray(x)  # brings the elements to the host
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).shape == (3, 4)


def test_the_memory_is_theirs_too():
    x = made()
    capsule = x.__dlpack__(stream=1)
    t = tensor(capsule)
    assert (t.type, t.id, t.ndim, t.code, t.bits) == (2, 0, 2, 2, 32)
    assert t.shape[:2] == [3, 4] and t.strides[:2] == [4, 1]
    if EMULATED:
        np.testing.assert_array_equal(there(t), np.arange(12) + 1)
        there(t)[0] = 50
        assert np.array(x)[0, 0] == 50
        there(t)[0] = 60  # again: what the host has is not the truth while it is lent
        assert np.array(x)[0, 0] == 60 and (x + 1).tolist()[0][0] == 61
        there(t)[1] = 70
        assert x.tolist()[0][:2] == [60, 70]
    assert x.__dlpack_device__() == (2, 0)
    del capsule, t
    gc.collect()
    assert x.sum().item() == (78 if not EMULATED else 78 + 59 + 68)


def test_views_keep_their_strides():
    x = mx.transpose(made(), stream=mx.gpu)[1:]
    mx.eval(x)
    t = tensor(x.__dlpack__(stream=-1))
    capsule = x.__dlpack__(stream=None)
    t = tensor(capsule)
    assert t.type == 2 and t.shape[:2] == [3, 3] and t.strides[:2] == [1, 4]
    if EMULATED:
        assert ctypes.c_float.from_address(t.data).value == 2


def test_the_memory_outlives_the_array():
    capsule = made((1000,)).__dlpack__(stream=1)
    gc.collect()
    mx.eval([made((1000,)) * 0 for _ in range(20)])
    t = tensor(capsule)
    if EMULATED:
        np.testing.assert_array_equal(there(t), np.arange(1000) + 1)


def test_copies_and_places_that_are_asked_for():
    x = made()
    assert tensor(x.__dlpack__(dl_device=(2, 0))).type == 2
    with pytest.raises(BufferError, match="expected the CPU, device type 1, got 2"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="expected the CPU, device type 1, got 7"):
        x.__dlpack__(dl_device=(7, 0))
    capsule = x.__dlpack__(copy=True, stream=1)
    t = tensor(capsule)
    assert t.type == 2
    if EMULATED:
        there(t)[:] = 0
    assert tensor(x.__dlpack__(dl_device=(1, 0))).type == 1
    assert x.sum().item() == 78
    assert np.from_dlpack(made()).sum() == 78  # which names no stream
    assert tensor(made().__dlpack__()).type == 1


def test_nothing_else_writes_into_it():
    x = made((256,))
    capsule = x.__dlpack__(stream=2)
    y = x
    del x
    y = mx.multiply(y, 0, stream=mx.gpu)  # whose result might have taken the memory
    mx.eval(y)
    if EMULATED:
        np.testing.assert_array_equal(there(tensor(capsule)), np.arange(256) + 1)
    assert y.tolist() == [0] * 256


# ---- in


@pytest.mark.skipif(not EMULATED, reason="NumPy's memory is not the GPU's")
class TestIn:
    def test_shared_and_let_go_of(self):
        a = np.arange(6, dtype=np.float32).reshape(2, 3)
        t = Theirs(a)
        x = mx.from_dlpack(t)
        assert len(t.asked) == 1 and isinstance(t.asked[0], int) and t.asked[0] > 2  # a stream of ours
        assert x.shape == (2, 3) and x.dtype == mx.float32 and t.deleted == 0
        assert mx.add(x, 1, stream=mx.gpu).tolist() == (a + 1).tolist()
        a[0, 0] = 40
        assert mx.add(x, 1, stream=mx.gpu).tolist()[0][0] == 41  # the same memory
        for value in (42, 43):  # the host's copy is of that reading alone
            a[0, 0] = value
            assert x.tolist()[0][0] == np.array(x)[0, 0] == mx.add(x, 0, stream=mx.cpu)[0, 0].item() == value
            assert x.__dlpack_device__() == (2, 0)
        a[0, 0] = 40
        y = mx.multiply(x, 2, stream=mx.gpu)
        mx.eval(y)
        del x
        gc.collect()
        assert y.tolist() == (a * 2).tolist() and t.deleted == 1 and a[0, 0] == 40

    @pytest.mark.parametrize("make", [mx.array, mx.asarray, lambda t: mx.from_dlpack(t, copy=True)])
    def test_copied(self, make):
        a = np.arange(6, dtype=np.int32)
        t = Theirs(a)
        x = make(t)
        gc.collect()
        assert t.deleted == 1
        a[:] = 0
        assert x.__dlpack_device__() == (2, 0) and x.tolist() == [0, 1, 2, 3, 4, 5]

    def test_let_go_of_without_waiting(self, monkeypatch):
        t, u = Theirs(np.ones(6, np.float32)), Theirs(np.ones(6, np.float32))
        x, y = mx.from_dlpack(t), mx.from_dlpack(u)
        mx.eval(mx.add(x, 1, stream=mx.gpu))
        monkeypatch.setenv("PRETEND_BUSY", "1")
        del x, y
        gc.collect()
        mx.eval(mx.add(mx.ones(2, stream=mx.cpu), 1, stream=mx.cpu))
        assert (t.deleted, u.deleted) == (0, 0)  # the device may be using them
        monkeypatch.delenv("PRETEND_BUSY")
        mx.synchronize(mx.gpu)
        mx.array(1)
        assert (t.deleted, u.deleted) == (1, 1)

    def test_strides(self):
        a = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2].T
        ts = [Theirs(a) for _ in range(3)]
        for x in (mx.from_dlpack(ts[0], copy=False), mx.asarray(ts[1], copy=False), mx.array(ts[2])):
            assert mx.add(x, 0, stream=mx.gpu).tolist() == a.tolist() and x.tolist() == a.tolist()
        del x
        gc.collect()
        assert [t.deleted for t in ts] == [1, 1, 1]

    def test_dtypes(self):
        for d in ["bool", "uint8", "int16", "int64", "float16", "complex64"]:
            a = np.array([0, 1, 1], d)
            x = mx.from_dlpack(Theirs(a), copy=False)
            assert x.dtype == getattr(mx, "bool_" if d == "bool" else d) and x.tolist() == a.tolist()
        a = np.arange(3.0)
        x, y = mx.from_dlpack(Theirs(a)), mx.from_dlpack(Theirs(a), copy=False)  # a copy as float32; the memory
        mx.eval(x)
        a[0] = 5
        assert (x.dtype, y.dtype) == (mx.float32, mx.float64) and x.tolist() == [0, 1, 2] and y.tolist() == [5, 1, 2]
        t = Theirs(np.zeros(3, np.complex128))
        with pytest.raises(TypeError, match="expected complex64 on a GPU, got complex128"):
            mx.from_dlpack(t)
        assert t.deleted == 1

    def test_other_devices(self):
        assert mx.from_dlpack(Theirs(np.ones(2, np.float32), type=3)).tolist() == [1, 1]  # the host's, pinned
        assert mx.from_dlpack(Theirs(np.ones(2, np.float32), type=13)).tolist() == [1, 1]  # managed
        t = Theirs(np.ones(2, np.float32), type=10)
        with pytest.raises(ValueError, match="expected memory of the CPU, got a device of type 10"):
            mx.from_dlpack(t)
        assert t.deleted == 1

    def test_there_and_back(self):
        x = made()
        y = mx.from_dlpack(x)
        assert y.tolist() == x.tolist() and y.__dlpack_device__()[0] in (1, 2)
        assert mx.from_dlpack(made().__dlpack__(stream=1)).sum().item() == 78  # a capsule

    def test_results_never_take_the_memory(self):
        a = np.arange(300, dtype=np.float32)
        x = mx.from_dlpack(Theirs(a))
        y = mx.add(x, 1, stream=mx.gpu)
        del x
        mx.eval(y)
        assert (a == np.arange(300)).all() and y.tolist()[299] == 300

    def test_cuda_array_interface(self, monkeypatch):
        class Other:
            def __init__(self, a, **more):
                self.a = a
                strides = None if a.flags.c_contiguous else a.strides
                self.__cuda_array_interface__ = {
                    "shape": a.shape,
                    "typestr": a.dtype.str,
                    "data": (a.ctypes.data, False),
                    "version": 3,
                    "strides": strides,
                    **more,
                }

        a = np.arange(12, dtype=np.float32).reshape(3, 4)
        for o in (Other(a), Other(a.T), Other(a[:, ::2], stream=1), Other(a.astype(np.int64), stream=None)):
            x = mx.array(o)
            assert x.__dlpack_device__() == (2, 0) and x.tolist() == o.a.tolist()
        with pytest.raises(ValueError, match="without mask"):
            mx.array(Other(a, mask=a))
        for typestr in (">f4", "<f-32", "<f0"):
            with pytest.raises(TypeError, match=f"cannot convert elements of type '{typestr}'"):
                mx.array(Other(a, typestr=typestr))
        with pytest.raises(ValueError, match=r"^\[array\] expected elements of 4 bytes at multiples of that"):
            mx.array(Other(a, data=(a.ctypes.data + 2, False)))
        with pytest.raises(ValueError, match="multiples of the size of an element"):
            mx.array(Other(a, strides=(16, 6)))
        for strides in ((), (16,)):
            with pytest.raises(ValueError, match=f"a stride for each of 2 dimensions, got {len(strides)}"):
                mx.array(Other(a, strides=strides))
        with pytest.raises(ValueError, match="expected a stream of None, 1, 2 or a handle, got 0"):
            mx.array(Other(a, stream=0))
        o = Other(a)

        class Clears:
            def __index__(self):
                o.__cuda_array_interface__.clear()
                return 3

        o.__cuda_array_interface__.update(shape=(Clears(), 4), data=(a.ctypes.data, False))
        assert mx.array(o).tolist() == a.tolist()
        o = Other(np.zeros((0, 3), np.float32))
        o.__cuda_array_interface__["data"] = (0, False)
        assert mx.array(o).shape == (0, 3)
        for device, message in (
            (1, r"there is no Device\(gpu, 1\)"),
            (-1, "expected the address of memory on a GPU, got 0x"),
        ):
            monkeypatch.setenv("PRETEND_DEVICE", f"{a.ctypes.data}:{device}")
            with pytest.raises(ValueError, match=message):
                mx.array(Other(a))


# ---- libraries, on a GPU


if not EMULATED:

    @pytest.mark.parametrize("library", ["torch", "cupy"])
    def test_with(library):
        if not importlib.util.find_spec(library):
            pytest.skip(f"no {library}")
        other = pytest.importorskip(library)
        x = made((1000, 1000))
        t = other.from_dlpack(x)
        assert "cuda" in str(t.device).lower() and float(t.sum()) == pytest.approx(x.sum().item())
        t += 1
        (other.cuda.synchronize if library == "torch" else other.cuda.Device().synchronize)()
        assert x[0, 0].item() == 2
        for _ in range(50):  # work of theirs that ours has to wait for, and the other way
            t = t * 1.0001
            y = mx.from_dlpack(t)
            t = other.from_dlpack(mx.eval(z := y + 1) or z)
        assert np.isfinite(np.array(mx.from_dlpack(t))).all()
        assert mx.array(t.T).tolist()[1][0] == pytest.approx(float(t[0, 1]))
