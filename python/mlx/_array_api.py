"""Functions of the Python array API standard that are short programs of others.

``mlx.core`` has each under its name, with the arguments in order and the stream as the last one.
"""

from collections import namedtuple

from mlx import core as mx

UniqueAll = namedtuple("UniqueAll", "values indices inverse_indices counts")
UniqueCounts = namedtuple("UniqueCounts", "values counts")
UniqueInverse = namedtuple("UniqueInverse", "values inverse_indices")

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
    with mx.stream(stream or mx.default_stream(mx.default_device())):
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
    with mx.stream(stream or mx.default_stream(mx.default_device())):
        if b.size == 0:
            return mx.full(a.shape, invert, dtype=mx.bool_)
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
