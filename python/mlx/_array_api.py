"""Functions of the Python array API standard that are short programs of others.

``mlx.core`` has each under its name, with all its parameters in order, None for those left out.
"""

from collections import namedtuple
from typing import NamedTuple

from mlx import core as mx

UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")


class Eig(NamedTuple):
    eigenvalues: mx.array
    eigenvectors: mx.array


class Eigh(NamedTuple):
    eigenvalues: mx.array
    eigenvectors: mx.array


class QR(NamedTuple):
    Q: mx.array
    R: mx.array


class SLogDet(NamedTuple):
    sign: mx.array
    logabsdet: mx.array


class SVD(NamedTuple):
    U: mx.array
    S: mx.array
    Vh: mx.array


for _kind in Eig, Eigh, QR, SLogDet, SVD:
    _kind.__repr__ = tuple.__repr__  # as the mlx package prints them

_KINDS = {
    "bool": ["bool"],
    "signed integer": ["int8", "int16", "int32", "int64"],
    "unsigned integer": ["uint8", "uint16", "uint32", "uint64"],
    "real floating": ["float32", "float64"],
    "complex floating": ["complex64"],
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class ArrayNamespaceInfo:
    """Devices, dtypes and capabilities of ``mlx.core``, in the form of the standard."""

    def capabilities(self):
        """What the standard leaves to choose."""
        return {
            "boolean indexing": hasattr(mx, "nonzero"),
            "data-dependent shapes": hasattr(mx, "nonzero"),
            "max dimensions": 64,
        }

    def default_device(self):
        """The device that arrays are made on where none is named."""
        return mx.default_device()

    def default_dtypes(self, *, device=None):
        """The dtypes that results have where none is named."""
        return {
            "real floating": mx.float32,
            "complex floating": mx.complex64,
            "integral": mx.int32,
            "indexing": mx.int32,
        }

    def devices(self):
        """Every device there is."""
        types = (mx.cpu, mx.gpu)
        return tuple(mx.Device(t, i) for t in types if mx.is_available(t) for i in range(mx.device_count(t)))

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes by name, those of one kind or of several."""
        if kind is None:
            names = _KINDS["bool"] + _KINDS["numeric"]
        else:
            kinds = (kind,) if isinstance(kind, str) else tuple(kind)
            unknown = [k for k in kinds if k not in _KINDS]
            if unknown:
                raise mx.Error(f"[dtypes] expected one of {sorted(_KINDS)} as kind, got {unknown[0]!r}")
            names = [name for k in kinds for name in _KINDS[k]]
        if getattr(device, "type", device) == mx.gpu:
            names = [name for name in names if name != "float64"]
        return {name: mx.bool_ if name == "bool" else getattr(mx, name) for name in names}


def _on(stream):
    return mx.stream(stream or mx.default_stream(mx.default_device()))


_SIGNED = {2: mx.int16, 4: mx.int32, 8: mx.int64}


def signbit(a, stream):
    """The sign bit of floats, which zeros and NaN have too; of integers ``a < 0``."""
    if not mx.issubdtype(a.dtype, mx.floating):
        if mx.issubdtype(a.dtype, mx.complexfloating):
            raise mx.Error(f"[signbit] expected real numbers, got {a.dtype}")
        return mx.less(a, 0, stream=stream)
    return mx.less(mx.view(a, _SIGNED[a.dtype.size], stream=stream), 0, stream=stream)


def nextafter(a, b, stream):
    """The next float after ``a`` on the way to ``b``: a step of 1 in its bits, seen as an integer."""
    t = mx.result_type(a, b)
    if not mx.issubdtype(t, mx.floating):
        raise mx.Error(f"[nextafter] expected floating-point arrays, got {a.dtype} and {b.dtype}")
    with _on(stream):
        a, b = mx.broadcast_arrays(a.astype(t), b.astype(t))
        whole = _SIGNED[t.size]
        one = mx.array(1, whole)
        bits = mx.view(mx.contiguous(a), whole)
        away = mx.equal(b > a, a > 0)  # from zero
        stepped = mx.view(mx.where(away, bits + one, bits - one), t)
        smallest = mx.view(one, t)
        stepped = mx.where(a == 0, mx.where(b > 0, smallest, -smallest), stepped)
        return mx.where(a == b, b, mx.where(mx.isnan(a) | mx.isnan(b), a + b, stepped))


def isin(a, b, invert, stream):
    """Is each element of ``a`` one of those of ``b``?"""
    t = mx.result_type(a, b)
    with _on(stream):
        if b.size == 0:
            return mx.full(a.shape, bool(invert), dtype=mx.bool_)
        among = mx.sort(mx.flatten(b.astype(t)))
        values = mx.flatten(a.astype(t))
        place = mx.minimum(mx.searchsorted(among, values), b.size - 1)
        found = mx.reshape(mx.equal(mx.take(among, place), values), a.shape)
        return mx.logical_not(found) if invert else found


def _unique(a, stream, **more):
    return mx.unique(a, stream=stream, **more)


def unique_all(a, stream):
    values, indices, inverse, counts = _unique(a, stream, return_index=True, return_inverse=True, return_counts=True)
    return UniqueAll(values, indices, mx.reshape(inverse, a.shape), counts)


def unique_counts(a, stream):
    return UniqueCounts(*_unique(a, stream, return_counts=True))


def unique_inverse(a, stream):
    values, inverse = _unique(a, stream, return_inverse=True)
    return UniqueInverse(values, mx.reshape(inverse, a.shape))


def unique_values(a, stream):
    return _unique(a, stream)


def linspace(start, stop, num, endpoint, dtype, stream, device):
    """Between complex numbers."""
    num = 50 if num is None else num
    if num < 0:
        raise mx.Error(f"[linspace] expected a number of at least 0, got {num}")
    with _on(device or stream):
        t = mx.arange(num) / max(num - (endpoint is None or bool(endpoint)), 1)
        return (complex(start) * (1 - t) + complex(stop) * t).astype(dtype or mx.complex64)


def repeat(a, repeats, axis, stream):
    """Each slice of ``a`` along the axis as often as ``repeats``, known now, says: taken where the count has got to."""
    if not mx.issubdtype(repeats.dtype, mx.integer) or repeats.ndim > 1:
        raise mx.ConversionError(
            f"[repeat] expected a vector of integers, got {repeats.dtype} of shape {repeats.shape}"
        )
    if axis is None:
        a, axis = mx.flatten(a, stream=stream), 0
    size = a.shape[axis]
    if repeats.size not in (1, size):
        raise mx.ConversionError(f"[repeat] expected a number for each of {size} elements, got {repeats.size}")
    with _on(stream):
        ends = mx.cumsum(mx.broadcast_to(repeats.astype(mx.int64), (size,)))
        if size and mx.min(repeats).item() < 0:
            raise mx.ConversionError(f"[repeat] expected numbers of at least 0, got {mx.min(repeats).item()}")
        total = ends[-1].item() if size else 0
        places = mx.searchsorted(ends, mx.arange(total, dtype=mx.int64), side="right")
        return mx.take(a, places, axis=axis)


def qr(a, mode, stream):
    """All columns of an orthogonal Q, those of the reduced form of ``a`` and the identity beside it."""
    with _on(stream):
        rows, columns = a.shape[-2:]
        if rows <= columns:
            return mx.linalg.qr(a)
        if not mx.issubdtype(a.dtype, mx.inexact):
            a = a.astype(mx.float32)
        whole = mx.broadcast_to(mx.eye(rows, dtype=a.dtype), (*a.shape[:-2], rows, rows))
        q, r = mx.linalg.qr(mx.concatenate([a, whole], axis=-1))
        return q, r[..., :columns]


def _rtol(a, s):
    """What the singular values of ``a`` are to be above, as a part of the largest."""
    return max(a.shape[-2:]) * mx.finfo(s.dtype).eps


def _least(s, rtol):
    """The product of ``rtol``, one number or one for each matrix, and the largest singular value."""
    return s[..., :1] * mx.array(rtol).astype(s.dtype)[..., None]


def pinv(a, rtol, stream):
    with _on(stream):
        if not mx.issubdtype(a.dtype, mx.inexact):
            a = a.astype(mx.float32)
        u, s, v = mx.linalg.svd(a, full_matrices=False)
        s = mx.where(s > _least(s, rtol), 1 / mx.where(s > 0, s, 1), 0)
        back = mx.conj(mx.matrix_transpose(v)) * s[..., None, :].astype(a.dtype)
        return back @ mx.conj(mx.matrix_transpose(u))


def matrix_rank(a, rtol, stream):
    with _on(stream):
        s = mx.linalg.svdvals(a)
        if s.shape[-1] == 0:
            return mx.zeros(s.shape[:-1], dtype=mx.int32)
        return mx.sum(s > _least(s, _rtol(a, s) if rtol is None else rtol), axis=-1)


def matrix_power(a, n, stream):
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise mx.Error(f"[linalg.matrix_power] expected square matrices, got shape {a.shape}")
    with _on(stream):
        if n == 0:
            return mx.broadcast_to(mx.eye(a.shape[-1], dtype=a.dtype), a.shape)
        square, power = mx.linalg.inv(a) if n < 0 else a, None
        n = abs(n)
        while n:
            if n & 1:
                power = square if power is None else power @ square
            n >>= 1
            square = square @ square if n else square
        return power


def matrix_norm(a, keepdims, order, stream):
    if a.ndim < 2:
        raise mx.Error(f"[linalg.matrix_norm] expected at least 2 dimensions, got shape {a.shape}")
    return mx.linalg.norm(a, "fro" if order is None else order, axis=[-2, -1], keepdims=bool(keepdims), stream=stream)


def vector_norm(a, axis, keepdims, order, stream):
    with _on(stream):
        axes = range(a.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        for k in axes:
            if not -a.ndim <= k < a.ndim:
                raise mx.AxisError(f"[vector_norm] axis {k} is out of bounds for an array of {a.ndim} dimensions")
        axes = [k + a.ndim if k < 0 else k for k in axes]
        others = [k for k in range(a.ndim) if k not in axes]
        flat = mx.transpose(a, [*others, *axes])
        flat = mx.flatten(flat, len(others)) if axes else flat[..., None]
        norm = mx.linalg.norm(flat, 2 if order is None else order, axis=-1)
        return mx.expand_dims(norm, axes) if keepdims else norm


_OPPOSITE = {"backward": "forward", "forward": "backward"}


def hfft(a, n, axis, norm, stream):
    norm = norm or "backward"
    axis = -1 if axis is None else axis
    return mx.fft.irfft(mx.conj(a, stream=stream), n, axis, _OPPOSITE.get(norm, norm), stream=stream)


def ihfft(a, n, axis, norm, stream):
    norm = norm or "backward"
    axis = -1 if axis is None else axis
    return mx.conj(mx.fft.rfft(a, n, axis, _OPPOSITE.get(norm, norm), stream=stream), stream=stream)
