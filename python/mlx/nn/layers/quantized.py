"""Layers whose weights are packed into a few bits (see `mlx.core.quantize`), and making them."""

from collections.abc import Callable

import mlx.core as mx
from mlx.utils import tree_map_with_path

from .base import Module, _check_sizes

_SIZES = {"affine": (64, 4), "mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}


def _sizes(mode, group_size, bits):
    """Group size and bits, where not given those of the mode."""
    if mode not in _SIZES:
        raise mx.Error(f"expected the mode {', '.join(map(repr, _SIZES))}, got {mode!r}")
    usual = _SIZES[mode]
    return usual[0] if group_size is None else group_size, usual[1] if bits is None else bits


def _times(layer, x):
    """x @ weight.T.  Items by their names are found sooner than attributes."""
    w, scales, biases = layer["weight"], layer["scales"], layer.get("biases")
    return mx.quantized_matmul(x, w, scales, biases, True, layer.group_size, layer.bits, layer.mode)


class _Packed(Module):
    """What layers with packed weights share: how they are packed, and the parts of the weights.

    weight: uint32; scales; biases in mode "affine". These are frozen.
    """

    def __init__(self, group_size, bits, mode):
        super().__init__()
        self.group_size, self.bits = _sizes(mode, group_size, bits)
        self.mode = mode

    @classmethod
    def _like(cls, *how):
        """A layer without weights, which are those of another layer then.

        The random state moves on as if the layer had made its own: what is made afterwards has the same
        numbers either way.
        """
        mx.random.uniform(shape=(0,))
        layer = cls.__new__(cls)
        _Packed.__init__(layer, *how)
        return layer

    def _pack(self, weight):
        self.weight, self.scales, *biases = mx.quantize(weight, self.group_size, self.bits, mode=self.mode)
        self.biases = biases[0] if biases else None
        self.freeze(recurse=False)

    @property
    def _how(self):
        return {"group_size": self.group_size, "bits": self.bits, "mode": self.mode}

    def _columns(self):
        return self.weight.shape[-1] * 32 // self.bits

    def _how_text(self):
        return f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"


class QuantizedLinear(_Packed):
    """`Linear` with packed weights: y = x W^T + b

    x: (..., input_dims), y: (..., output_dims). All parameters are frozen: a gradient goes to x. Made of a
    `Linear`, it trains the bias.
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = None,
        bits: int = None,
        mode: str = "affine",
    ):
        super().__init__(group_size, bits, mode)
        _check_sizes(self, input_dims=input_dims)
        bound = input_dims**-0.5
        self._pack(mx.random.uniform(-bound, bound, (output_dims, input_dims)))
        if bias:
            self.bias = mx.zeros((output_dims,))
            self.freeze(keys="bias")

    def _extra_repr(self):
        return (
            f"input_dims={self._columns()}, output_dims={self.weight.shape[0]}, bias={'bias' in self}, "
            f"{self._how_text()}"
        )

    def __call__(self, x):
        y = _times(self, x)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(cls, linear_layer: Module, group_size: int = None, bits: int = None, mode: str = "affine"):
        """The same layer as `linear_layer` but for what packing takes away."""
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls._like(group_size, bits, mode)
        layer._pack(linear_layer.weight)
        if "bias" in linear_layer:
            layer.bias = linear_layer.bias
        return layer


class QuantizedEmbedding(_Packed):
    """`Embedding` with packed vectors, which are unpacked as they are looked up."""

    def __init__(
        self,
        num_embeddings: int,
        dims: int,
        group_size: int = None,
        bits: int = None,
        mode: str = "affine",
    ):
        super().__init__(group_size, bits, mode)
        _check_sizes(self, dims=dims)
        self._pack(mx.random.normal(shape=(num_embeddings, dims), scale=dims**-0.5))

    @property
    def num_embeddings(self):
        return self.weight.shape[0]

    @property
    def dims(self):
        return self._columns()

    def _extra_repr(self):
        return f"{self.num_embeddings}, {self.dims}, {self._how_text()}"

    def __call__(self, x):
        """x: integers of any shape; the result has one axis more, of size dims."""
        biases = None if self.biases is None else self.biases[x]
        return mx.dequantize(self.weight[x], self.scales[x], biases, **self._how)

    def as_linear(self, x):
        """x @ weight.T, as in `Embedding.as_linear`."""
        return _times(self, x)

    @classmethod
    def from_embedding(cls, embedding_layer: Module, group_size: int = None, bits: int = None, mode: str = "affine"):
        """The same layer as `embedding_layer` but for what packing takes away."""
        layer = cls._like(group_size, bits, mode)
        layer._pack(embedding_layer.weight)
        return layer


class QQLinear(Module):
    """`Linear` without bias that quantizes its inputs as well as its weights (mode "nvfp4" or "mxfp8").

    While training, the weights are kept as they are and quantized in each product, so that they
    receive gradients; after `eval()` they are packed (weight: uint32, scales). `train()` unpacks
    them.
    """

    def __init__(
        self, input_dims: int, output_dims: int, group_size: int = None, bits: int = None, mode: str = "nvfp4"
    ):
        super().__init__()
        _check_sizes(self, input_dims=input_dims)
        bound = input_dims**-0.5
        self._begin(mx.random.uniform(-bound, bound, (output_dims, input_dims)), group_size, bits, mode)

    def _begin(self, weight, group_size, bits, mode):
        if mode not in ("nvfp4", "mxfp8"):
            raise mx.Error(f"[QQLinear] expected the mode 'nvfp4' or 'mxfp8', got {mode!r}")
        self.group_size, self.bits = _sizes(mode, group_size, bits)
        self.mode = mode
        self.weight = weight
        self._quantized = False
        self._dtype = weight.dtype

    @property
    def _how(self):
        return {"group_size": self.group_size, "bits": self.bits, "mode": self.mode}

    def _extra_repr(self):
        output_dims, columns = self.weight.shape
        input_dims = columns * 32 // self.bits if self._quantized else columns
        return (
            f"input_dims={input_dims}, output_dims={output_dims}, group_size={self.group_size}, "
            f"bits={self.bits}, mode={self.mode}"
        )

    def quantize(self):
        """Packs the weights, if they are not packed."""
        if not self._quantized:
            self._dtype = self.weight.dtype
            self.weight, self.scales = mx.quantize(self.weight, **self._how)
            self._quantized = True

    def dequantize(self):
        """Unpacks the weights, if they are packed; what packing took away stays away."""
        if self._quantized:
            self.weight = mx.dequantize(self.weight, self.scales, **self._how, dtype=self._dtype)
            del self.scales
            self._quantized = False

    def _set_training_mode(self, mode):
        super()._set_training_mode(mode)
        if mode:
            self.dequantize()
        else:
            self.quantize()

    def __call__(self, x):
        return mx.qqmm(x, self.weight, self.get("scales"), **self._how)

    @classmethod
    def from_linear(cls, linear_layer: Module, group_size: int = None, bits: int = None, mode: str = "nvfp4"):
        """The layer with the weights of `linear_layer`, which has no bias."""
        mx.random.uniform(shape=(0,))  # as in _Packed._like
        layer = cls.__new__(cls)
        Module.__init__(layer)
        layer._begin(linear_layer.weight, group_size, bits, mode)
        if "bias" in linear_layer:
            raise NotImplementedError("[QQLinear] expected a layer without bias, got one with a bias")
        layer._set_training_mode(linear_layer.training)
        return layer


def quantize(
    model: Module,
    group_size: int = None,
    bits: int = None,
    *,
    mode: str = "affine",
    quantize_input: bool = False,
    class_predicate: Callable[[str, Module], bool | dict] | None = None,
):
    """Replaces layers of the model, in place, by what their `to_quantized` makes of them.

    Which ones says `class_predicate(path, layer)`: with True the layer is quantized as the
    arguments say, with a dict as that says (the arguments of `to_quantized`), with False, None or an
    empty dict it is kept. Without it, every layer is quantized that has the method: `Linear` and
    `Embedding` have. `quantize_input` is for layers that can quantize their input too, in mode "nvfp4"
    or "mxfp8"; others need not have that argument, since it is left out where it is false.
    """
    if not isinstance(model, Module):
        raise mx.ConversionError(f"[quantize] expected a module, got {type(model).__name__}")
    how = {"group_size": group_size, "bits": bits, "mode": mode, "quantize_input": quantize_input}

    def replacement(path, layer):
        chosen = class_predicate(path, layer) if class_predicate else hasattr(layer, "to_quantized")
        if not chosen:
            return layer
        if not isinstance(chosen, (bool, dict)):
            raise mx.Error(
                f"[quantize] expected a bool or a dict from class_predicate for {path!r}, got {type(chosen).__name__}"
            )
        if not hasattr(layer, "to_quantized"):
            raise mx.Error(f"[quantize] expected a layer with to_quantized() at {path!r}, got {type(layer).__name__}")
        arguments = how if chosen is True else chosen
        return layer.to_quantized(**{k: v for k, v in arguments.items() if v or k != "quantize_input"})

    leaves = model.leaf_modules()
    model.update_modules(tree_map_with_path(replacement, leaves, is_leaf=Module.is_module))
