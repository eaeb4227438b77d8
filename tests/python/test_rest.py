"""Values of what no other file has: every method and property of arrays, devices and memory, other names."""

import copy
import gc
import io
import math
import operator
import pickle

import mlx.core as mx
import numpy as np
import pytest
import scipy.special

RNG = np.random.default_rng(0)
A = RNG.uniform(0.5, 3.0, (3, 4)).astype(np.float32)
B = RNG.uniform(0.5, 3.0, (3, 4)).astype(np.float32)
SIGNED = RNG.normal(size=(3, 4)).astype(np.float32)
SQUARE = RNG.normal(size=(4, 4)).astype(np.float32)
COMPLEX = (SIGNED + 1j * B).astype(np.complex64)
INTEGERS = np.array([[7, -7, 12], [1, 0, -100]], np.int32)
BITS = np.array([[1, 3, 5], [0, 2, 4]], np.int32)


def close(got, want):
    if isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            close(g, w)
    elif isinstance(got, mx.array):
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(np.array(got), want, rtol=2e-6, atol=2e-6)
    else:
        assert type(got) is type(want) and got == want


def wide(x):
    return x.astype({"f": np.float64, "c": np.complex128}.get(x.dtype.kind, x.dtype))


# The method, the array, more arguments, and the same for the array in NumPy with 64 bits.
METHODS = [
    ("abs", SIGNED, (), np.abs),
    ("square", SIGNED, (), np.square),
    ("sqrt", A, (), np.sqrt),
    ("rsqrt", A, (), lambda a: 1 / np.sqrt(a)),
    ("reciprocal", A, (), np.reciprocal),
    ("exp", SIGNED, (), np.exp),
    ("log", A, (), np.log),
    ("log2", A, (), np.log2),
    ("log10", A, (), np.log10),
    ("log1p", A, (), np.log1p),
    ("sin", SIGNED, (), np.sin),
    ("cos", SIGNED, (), np.cos),
    ("conj", COMPLEX, (), np.conj),
    ("round", SIGNED, (1,), lambda a: np.round(a, 1)),
    ("all", BITS, (1,), lambda a: np.all(a, 1)),
    ("any", BITS, (0, True), lambda a: np.any(a, 0, keepdims=True)),
    ("sum", SIGNED, (1,), lambda a: np.sum(a, 1)),
    ("prod", SIGNED, ((0, 1),), np.prod),
    ("min", SIGNED, (0,), lambda a: np.min(a, 0)),
    ("max", SIGNED, (1, True), lambda a: np.max(a, 1, keepdims=True)),
    ("mean", SIGNED, (1,), lambda a: np.mean(a, 1)),
    ("logsumexp", SIGNED, (1,), lambda a: scipy.special.logsumexp(a, 1)),
    ("var", SIGNED, (0, False, 1), lambda a: np.var(a, 0, ddof=1)),
    ("std", SIGNED, (1,), lambda a: np.std(a, 1)),
    ("argmin", SIGNED, (1,), lambda a: np.argmin(a, 1)),
    ("argmax", SIGNED, (), np.argmax),
    ("cumsum", SIGNED, (1,), lambda a: np.cumsum(a, 1)),
    ("cumprod", SIGNED, (0,), lambda a: np.cumprod(a, 0)),
    ("cummax", SIGNED, (1,), lambda a: np.maximum.accumulate(a, 1)),
    ("cummin", SIGNED, (1,), lambda a: np.minimum.accumulate(a, 1)),
    ("logcumsumexp", SIGNED, (1,), lambda a: np.logaddexp.accumulate(a, 1)),
    ("flatten", A, (), np.ravel),
    ("reshape", A, (2, -1), lambda a: a.reshape(2, 6)),
    ("squeeze", A[:, None], (1,), lambda a: a.squeeze(1)),
    ("moveaxis", A[:, None], (0, 2), lambda a: np.moveaxis(a, 0, 2)),
    ("swapaxes", A[:, None], (0, 1), lambda a: a.swapaxes(0, 1)),
    ("transpose", A[:, None], (2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    ("split", A, ((1, 3), 1), lambda a: np.split(a, (1, 3), 1)),
    ("diagonal", A, (1,), lambda a: np.diagonal(a, 1)),
    ("diag", A[0], (-1,), lambda a: np.diag(a, -1)),
    ("astype", SIGNED * 10, (mx.int32,), lambda a: a.astype(np.int32)),
    ("view", INTEGERS, (mx.uint8,), lambda a: a.view(np.uint8)),
    ("item", A[:1, :1], (), lambda a: a.item()),
    ("tolist", INTEGERS, (), lambda a: a.tolist()),
    ("__add__", A, (B,), lambda a: a + B),
    ("__radd__", A, (2.5,), lambda a: 2.5 + a),
    ("__iadd__", A, (B,), lambda a: a + B),
    ("__sub__", A, (B,), lambda a: a - B),
    ("__rsub__", A, (2.5,), lambda a: 2.5 - a),
    ("__isub__", A, (B,), lambda a: a - B),
    ("__mul__", A, (B,), lambda a: a * B),
    ("__rmul__", A, (2.5,), lambda a: 2.5 * a),
    ("__imul__", A, (B,), lambda a: a * B),
    ("__truediv__", A, (B,), lambda a: a / B),
    ("__rtruediv__", A, (2.5,), lambda a: 2.5 / a),
    ("__itruediv__", A, (B,), lambda a: a / B),
    ("__div__", A, (B,), lambda a: a / B),
    ("__rdiv__", A, (2.5,), lambda a: 2.5 / a),
    ("__floordiv__", INTEGERS, (3,), lambda a: a // 3),
    ("__rfloordiv__", BITS + 1, (-7,), lambda a: -7 // a),
    ("__ifloordiv__", INTEGERS, (3,), lambda a: a // 3),
    ("__mod__", INTEGERS, (5,), lambda a: a % 5),
    ("__rmod__", BITS + 1, (-7,), lambda a: -7 % a),
    ("__imod__", INTEGERS, (5,), lambda a: a % 5),
    ("__pow__", A, (B,), lambda a: a**B),
    ("__rpow__", A, (2.5,), lambda a: 2.5**a),
    ("__ipow__", A, (2,), lambda a: a**2),
    ("__matmul__", SQUARE, (SQUARE,), lambda a: a @ a),
    ("__imatmul__", SQUARE, (SQUARE,), lambda a: a @ a),
    ("__and__", INTEGERS, (BITS,), lambda a: a & BITS),
    ("__iand__", INTEGERS, (BITS,), lambda a: a & BITS),
    ("__or__", INTEGERS, (BITS,), lambda a: a | BITS),
    ("__ior__", INTEGERS, (BITS,), lambda a: a | BITS),
    ("__xor__", INTEGERS, (BITS,), lambda a: a ^ BITS),
    ("__ixor__", INTEGERS, (BITS,), lambda a: a ^ BITS),
    ("__lshift__", INTEGERS, (BITS,), lambda a: a << BITS),
    ("__ilshift__", INTEGERS, (BITS,), lambda a: a << BITS),
    ("__rshift__", INTEGERS, (BITS,), lambda a: a >> BITS),
    ("__irshift__", INTEGERS, (BITS,), lambda a: a >> BITS),
    ("__eq__", INTEGERS, (7,), lambda a: a == 7),
    ("__ne__", INTEGERS, (7,), lambda a: a != 7),
    ("__lt__", INTEGERS, (7,), lambda a: a < 7),
    ("__le__", INTEGERS, (7,), lambda a: a <= 7),
    ("__gt__", INTEGERS, (0,), lambda a: a > 0),
    ("__ge__", INTEGERS, (0,), lambda a: a >= 0),
    ("__neg__", SIGNED, (), np.negative),
    ("__pos__", SIGNED, (), np.positive),
    ("__abs__", SIGNED, (), np.abs),
    ("__invert__", INTEGERS, (), np.invert),
    ("__getitem__", A, ((slice(None), 1),), lambda a: a[:, 1]),
    ("__len__", A, (), len),
    ("__iter__", A, (), list),
    ("__bool__", A[0, 0], (), bool),
    ("__int__", A[0, 0], (), int),
    ("__index__", INTEGERS[0, 1], (), int),
    ("__complex__", COMPLEX[0, 0], (), complex),
    ("__float__", A[0, 0], (), float),
    ("__bytes__", INTEGERS, (), lambda a: a.tobytes()),
    ("__repr__", INTEGERS[0], (), lambda a: f"array({a.tolist()}, dtype=int32)"),
    ("__format__", INTEGERS[0, 0], ("5d",), lambda a: format(int(a), "5d")),
    ("__copy__", A, (), np.copy),
    ("__deepcopy__", A, ({},), np.copy),
]


@pytest.mark.parametrize("name, a, more, reference", METHODS, ids=[row[0] for row in METHODS])
def test_method(name, a, more, reference):
    more = [mx.array(x) if isinstance(x, np.ndarray) else x for x in more]
    got = getattr(mx.array(a), name)(*more)
    close(list(got) if name == "__iter__" else got, reference(wide(a)))
    if name.startswith("__i") and hasattr(operator, name):  # as a statement
        x = alias = mx.array(a)
        x = getattr(operator, name)(x, *more) if more else x
        close(x, reference(wide(a)) if more else a)
        del alias


PROPERTIES = ["size", "ndim", "itemsize", "nbytes", "shape", "real", "imag", "T", "mT"]


@pytest.mark.parametrize("name", PROPERTIES)
@pytest.mark.parametrize("a", [A, COMPLEX, INTEGERS], ids=["float32", "complex64", "int32"])
def test_property(name, a):
    close(getattr(mx.array(a), name), getattr(a, name) if name != "mT" else a.swapaxes(-1, -2))
    assert mx.array(a).dtype == getattr(mx, str(a.dtype))


def test_elements_are_set():
    x, want = mx.array(A), A.copy()
    mx.array.__setitem__(x, (slice(1, None), 2), mx.array([5.0, 6.0]))
    want[1:, 2] = [5, 6]
    x[0] = -1
    want[0] = -1
    close(x, want)


def test_state_of_arrays():
    x = mx.array(0)
    mx.array.__setstate__(x, mx.array(COMPLEX).__getstate__())
    close(x, COMPLEX)
    for y in (copy.copy(x), copy.deepcopy({"x": x})["x"], pickle.loads(pickle.dumps(x))):
        y[0] = 0
        assert not np.any(np.array(y[0]))
    close(x, COMPLEX)  # they had elements of their own


def test_other_libraries():
    assert mx.array(A).__dlpack_device__() == np.asarray(A).__dlpack_device__()
    assert np.array_equal(np.from_dlpack(mx.array(A)), A)
    for dtype in (np.float32, np.float64):
        got = mx.array(A).__array__(dtype)
        assert got.dtype == dtype and np.array_equal(got, A)


OTHER_NAMES = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "pow": "power",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names(name):
    if name.startswith("bitwise"):
        operands = [INTEGERS, BITS]
    else:
        operands = [A / 4 + (1 if name == "acosh" else 0)] + [B] * (name in ("atan2", "pow"))
    want = getattr(np, OTHER_NAMES[name])(*map(wide, operands))
    close(getattr(mx, name)(*map(mx.array, operands)), want)


def test_matrix_norm():
    assert mx.matrix_norm is mx.linalg.norm
    close(mx.matrix_norm(mx.array(SIGNED)), np.linalg.norm(wide(SIGNED)))
    close(mx.matrix_norm(mx.array(SIGNED), 1), np.linalg.norm(wide(SIGNED), 1))


@pytest.mark.parametrize("dtype", ["int8", "float32", "complex64"])
@pytest.mark.parametrize("sizes", [(64, 300), (256, 1, 900), (1024, 257, 512, 300)])
@pytest.mark.parametrize("shape", [(5,), (3, 1, 7), (40,), (2,)])
def test_long_rows_side_by_side(shape, sizes, dtype):
    rng = np.random.default_rng(len(shape))
    parts = [rng.integers(-100, 100, (*shape, n, 2)).astype(dtype) for n in sizes]
    axis = len(shape)
    assert np.array_equal(np.array(mx.concatenate([mx.array(x) for x in parts], axis)), np.concatenate(parts, axis))
    turned = [mx.array(np.ascontiguousarray(x.swapaxes(-1, -2))).swapaxes(-1, -2) for x in parts]
    assert np.array_equal(np.array(mx.concatenate(turned, axis)), np.concatenate(parts, axis))


def test_concat():
    close(mx.concat([mx.array(A), mx.array(B)], axis=1), np.concatenate([A, B], 1))
    close(mx.concat([mx.array(A), mx.array(B[:, :2])], axis=None), np.concatenate([A.ravel(), B[:, :2].ravel()]))


def test_conv3d():
    x, w = RNG.normal(size=(2, 5, 6, 4, 3)), RNG.normal(size=(7, 3, 2, 2, 3))
    want = np.zeros((2, 3, 5, 3, 7))
    for d, h, v in np.ndindex(3, 2, 2):
        want += x[:, d : d + 3, h : h + 5, v : v + 3] @ w[:, d, h, v].T
    got = mx.conv3d(mx.array(x, dtype=mx.float32), mx.array(w, dtype=mx.float32))
    np.testing.assert_allclose(np.array(got), want, rtol=1e-5, atol=1e-5)


def test_devices_and_streams():
    assert mx.device_count(mx.cpu) == 1
    assert all(isinstance(name, str) for name in mx.device_info(mx.cpu))
    default, other = mx.default_stream(mx.cpu), mx.new_stream(mx.cpu)
    assert default != other and default.device == other.device == mx.Device(mx.cpu)
    try:
        mx.set_default_stream(other)
        assert mx.default_stream(mx.cpu) == other
    finally:
        mx.set_default_stream(default)
    with mx.stream(other):
        x = mx.array(A) + mx.array(B)
        assert mx.default_stream(mx.cpu) == other
    assert mx.default_stream(mx.cpu) == default
    mx.async_eval(x)
    mx.synchronize(other)
    mx.synchronize()
    close(x, A + B)
    mx.clear_streams()
    close(mx.add(mx.array(A), mx.array(B), stream=other), A + B)


def test_memory():
    gc.collect()
    mx.clear_cache()
    assert mx.get_cache_memory() == 0
    before = mx.get_active_memory()
    x = mx.zeros((1 << 20,))
    mx.eval(x)
    assert mx.get_active_memory() - before >= x.nbytes
    assert mx.get_peak_memory() >= mx.get_active_memory()
    assert x.nbytes <= mx.get_array_buffer_size(x, [x, {"again": x}]) < 2 * x.nbytes
    del x
    assert mx.get_active_memory() == before
    limit = mx.get_memory_limit()
    try:
        assert mx.set_memory_limit(1 << 33) == limit and mx.get_memory_limit() == 1 << 33
    finally:
        mx.set_memory_limit(limit)
    cache = mx.set_cache_limit(0)
    x = mx.zeros((1 << 20,)) + 1
    mx.eval(x)
    del x
    assert mx.get_cache_memory() == 0
    mx.set_cache_limit(cache)


def test_cache_lets_go_of_what_is_not_used_again():
    mx.clear_cache()
    for n in range(1, 30):
        mx.eval(mx.ones(n * 300_000) + 1)
    burst = mx.get_cache_memory()
    x = mx.ones(1_000_000)
    for _ in range(5000 if mx.default_device() == mx.gpu else 2000):  # where taking memory costs more it is kept longer
        mx.eval(mx.exp(x))
    assert mx.get_cache_memory() < burst / 8
    # two turns of a loop that takes 32 blocks at once take no new memory: none of them was let go meanwhile
    keep = [mx.exp(x) for _ in range(32)]
    for _ in range(12):
        mx.eval(keep)
        keep = [mx.exp(x) for _ in range(32)]
    assert mx.get_cache_memory() >= 31 * x.nbytes


def test_archives():
    file = io.BytesIO()
    mx.savez_compressed(file, mx.array(A), y=mx.array(INTEGERS))
    file.seek(0)
    with np.load(file) as there:
        assert np.array_equal(there["arr_0"], A) and np.array_equal(there["y"], INTEGERS)


def test_constants():
    assert (mx.pi, mx.e, mx.inf, mx.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(mx.nan) and mx.euler_gamma == np.euler_gamma
