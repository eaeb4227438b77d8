"""What the Python array API standard asks a namespace to tell about itself."""

from mlx import core as mx

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
                raise ValueError(f"[dtypes] expected one of {sorted(_KINDS)} as kind, got {unknown[0]!r}")
            names = [name for k in kinds for name in _KINDS[k]]
        if getattr(device, "type", device) == mx.gpu:
            names = [name for name in names if name != "float64"]
        return {name: mx.bool_ if name == "bool" else getattr(mx, name) for name in names}
