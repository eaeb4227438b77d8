"""Write the type stubs of mlx.core from the tables that its functions come from.

    python stubs.py FOLDER [COMPILER]

The build runs this; the stubs lie in a folder `core` beside the module.
"""

import ast
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A row becomes a line: a word, the name, the signature and the docstring, as C strings.
EXPAND = """
#include "notes_of_dtypes.h"
#define STREAM_ "stream: StreamOrDevice = None"
#define UNARY_P "a: scalar|array, /, *, " STREAM_
#define UNARY_N "a: scalar|array, " STREAM_
#define BINARY_P "a: scalar|array, b: scalar|array, /, *, " STREAM_
#define BINARY_N "a: scalar|array, b: scalar|array, " STREAM_
#define UNARY(name, label, dtypes, traits, form, doc) IF_##form(name, UNARY_##form, doc "\\n\\n" ONE_##dtypes)
#define BINARY(name, label, dtypes, traits, form, doc) IF_##form(name, BINARY_##form, doc "\\n\\n" TWO_##dtypes)
#define IF_P(name, signature, doc) ("FUNCTION", #name, signature, doc),
#define IF_N(name, signature, doc) ("FUNCTION", #name, signature, doc),
#define IF_X(...)
#include "ops/ops.def"
#define FUNCTION(name, signature, doc) ("FUNCTION", #name, signature, doc),
#define RANDOM(name, signature, doc) ("RANDOM", #name, signature, doc),
#define FFT(name, signature, doc) ("FFT", #name, signature, doc),
#define DISTRIBUTED(name, signature, doc) ("DISTRIBUTED", #name, signature, doc),
#define FUSED(name, signature, doc) ("FUSED", #name, signature, doc),
#define LINALG(name, signature, doc) ("LINALG", #name, signature, doc),
#define METHOD(name, body, signature, doc) ("METHOD", #name, signature, doc),
#define ALIAS(name, of) ("ALIAS", #name, #of, ""),
#include "functions.def"
#define EXAMPLE(name, session) ("EXAMPLE", name, session, ""),
#include "examples.def"
#define NOTE(names, sentences) ("NOTE", names, sentences, ""),
#include "notes.def"
"""

# Where the functions of a row are, as examples.def says it.
WHERE = {
    "RANDOM": "random.",
    "FFT": "fft.",
    "FUSED": "fast.",
    "LINALG": "linalg.",
    "METHOD": "array.",
    "DISTRIBUTED": "distributed.",
}

# What does not return an array.
RETURNS = {
    "None": "set_default_device set_default_stream reset_peak_memory clear_cache clear_streams "
    "eval async_eval synchronize set_printoptions seed save save_safetensors __setstate__",
    "int": "device_count get_active_memory get_peak_memory get_cache_memory get_memory_limit "
    "set_memory_limit set_cache_limit set_wired_limit get_array_buffer_size",
    "bool": "issubdtype can_cast isdtype is_available set_index_errors",
    "Dtype": "result_type",
    "Device": "default_device",
    "Stream": "default_stream new_stream new_thread_unsafe_stream",
    "ThreadLocalStream": "new_thread_local_stream",
    "StreamContext": "stream",
    "PrintOptions": "get_printoptions",
    "_PrintOptionsContext": "printoptions",
    "dict[str, str | int]": "device_info",
    "tuple[int, ...]": "broadcast_shapes",
    "tuple[int, int]": "__dlpack_device__",
    "tuple[Any, Any]": "scan",
    "tuple[array, array]": "minmax lu_factor",
    "tuple[array, array, array]": "lu quantize",
    "QR": "qr",
    "SVD": "svd",
    "Eig": "eig",
    "Eigh": "eigh",
    "SLogDet": "slogdet",
    "tuple[list[tuple[int, ...]], str]": "einsum_path",
    "tuple[array, ...]": "unstack nonzero",
    "array | tuple[array, ...]": "unique",
    "list[array]": "gated_delta_update divmod split broadcast_arrays precompiled_cuda_kernel",
    "Callable[..., list[array]]": "cpu_kernel metal_kernel cuda_kernel",
    "array | list[array]": "atleast_1d atleast_2d atleast_3d",
    "array | dict[str, array] | tuple[dict[str, array], dict[str, Any]]": "load",
    "tuple[list[array], list[array]]": "vjp jvp",
    "tuple[Any, Callable[..., Any]]": "linearize pullback",
    "Callable[..., Any]": "jacfwd jacrev hessian grad value_and_grad",
    "Callable[P, R]": "vmap checkpoint",
    "scalar": "item",
    "list[Any] | scalar": "tolist",
    "types.ModuleType": "__array_namespace__",
    "dict[str, Any]": "inspect_function",
    "bytes": "__bytes__",
    "str": "__format__",
    "str | None": "set_checks",
    "tuple[Any, ...]": "__getstate__ __reduce__",
    "Any": "__dlpack__ __array__ while_loop cond import_function",
    "Self": "to_device",
}
RETURN = {name: kind for kind, names in RETURNS.items() for name in names.split()}

HEAD = '''"""Arrays, operations on them, and transformations of functions of them."""

import enum
import pathlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, ParamSpec, Self, TypeAlias, TypeVar, final, overload

from . import cuda as cuda, distributed as distributed, fast as fast, fft as fft, linalg as linalg
from . import metal as metal, random as random
'''

RANDOM = '''"""Random numbers from explicit keys, or from a state."""

from collections.abc import Sequence

import mlx.core
from mlx.core import Dtype, StreamOrDevice, array, scalar

state: Sequence[array]
'''

FFT = '''"""Discrete Fourier transforms."""

from collections.abc import Sequence

from mlx.core import Dtype, StreamOrDevice, array
'''

FAST = '''"""Operations of neural networks with kernels of their own."""

from collections.abc import Callable, Sequence
from typing import Any

from mlx.core import ArrayLike, Dtype, StreamOrDevice, array
'''

LINALG = '''"""Linear algebra, of the last two axes."""

from collections.abc import Sequence

from mlx._array_api import QR, SVD, Eig, Eigh, SLogDet
from mlx.core import Dtype, StreamOrDevice, array, scalar
from mlx.core import matmul as matmul, matrix_transpose as matrix_transpose, outer as outer
from mlx.core import tensordot as tensordot
'''

DISTRIBUTED = '''"""Arrays sent between processes."""

from collections.abc import Callable, Sequence
from typing import final

from mlx.core import Dtype, StreamOrDevice, array, scalar

@final
class Group:
    def rank(self) -> int: ...
    def size(self) -> int: ...
    def split(self, color: int, key: int = -1) -> Group: ...
'''

AVAILABLE = "def is_available() -> bool: ...\n"

METAL = """from mlx.core import clear_cache as clear_cache, get_active_memory as get_active_memory
from mlx.core import get_cache_memory as get_cache_memory, get_peak_memory as get_peak_memory
from mlx.core import reset_peak_memory as reset_peak_memory, set_cache_limit as set_cache_limit
from mlx.core import set_memory_limit as set_memory_limit, set_wired_limit as set_wired_limit

def is_available() -> bool: ...
def device_info() -> dict[str, str | int]: ...
def start_capture(path: str) -> None: ...
def stop_capture() -> None: ...
"""

TYPES = """P = ParamSpec("P")
R = TypeVar("R")
scalar: TypeAlias = bool | int | float | complex
file: TypeAlias = BinaryIO
StreamOrDevice: TypeAlias = Stream | ThreadLocalStream | Device | DeviceType | None

__version__: str
__array_api_version__: str
e: float
euler_gamma: float
inf: float
nan: float
newaxis: None
pi: float
_tree_types: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]]

class Error(ValueError, RuntimeError): ...
class ArrayIndexError(Error, IndexError): ...
class AxisError(Error, IndexError): ...
class ConversionError(Error, TypeError): ...
class IntegerOverflowError(Error, OverflowError, TypeError): ...
class MissingFileError(FileNotFoundError, Error): ...
class OutOfMemoryError(Error, MemoryError): ...

@final
class Dtype:
    @property
    def size(self) -> int: ...

{dtypes}

class DtypeCategory(enum.Enum):
{categories}

{category_names}

@final
class finfo:
    def __new__(cls, arg: Dtype | array, /) -> Self: ...
    @property
    def bits(self) -> int: ...
    @property
    def min(self) -> float: ...
    @property
    def max(self) -> float: ...
    @property
    def eps(self) -> float: ...
    @property
    def smallest_normal(self) -> float: ...
    @property
    def dtype(self) -> Dtype: ...

@final
class iinfo:
    def __new__(cls, arg: Dtype | array, /) -> Self: ...
    @property
    def min(self) -> int: ...
    @property
    def max(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def dtype(self) -> Dtype: ...

class DeviceType(enum.Enum):
    cpu = 0
    gpu = 1

cpu = DeviceType.cpu
gpu = DeviceType.gpu

@final
class Device:
    def __new__(cls, type: DeviceType, index: int = 0) -> Self: ...
    @property
    def type(self) -> DeviceType: ...
    @property
    def index(self) -> int: ...

@final
class Stream:
    @property
    def device(self) -> Device: ...

@final
class ThreadLocalStream:
    @property
    def device(self) -> Device: ...

@final
class StreamContext:
    def __new__(cls, s: Stream | ThreadLocalStream | Device | DeviceType) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(
        self,
        exc_type: type | None = None,
        exc_value: object | None = None,
        traceback: object | None = None,
    ) -> None: ...

@final
class PrintOptions:
    def __new__(cls, precision: int = -1) -> Self: ...
    precision: int

@final
class _PrintOptionsContext:
    def __enter__(self) -> PrintOptions: ...
    def __exit__(self, *args: object) -> None: ...

@final
class custom_function:
    def __new__(cls, f: Callable[..., Any]) -> Self: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def vjp(self, f: Callable[..., Any]) -> custom_function: ...
    def jvp(self, f: Callable[..., Any]) -> custom_function: ...
    def vmap(self, f: Callable[..., Any]) -> custom_function: ...
    __name__: str
    __qualname__: str

class _Attributes(dict[str, Any]): ...

@final
class ArrayLike:
    def __new__(cls, arg: object, /) -> Self: ...
    def __mlx_array__(self) -> array: ...

@final
class ArrayAt:
    def __getitem__(self, indices: Any, /) -> ArrayAt: ...
{at}

@final
class ArrayIterator:
    def __next__(self) -> array: ...
    def __iter__(self) -> ArrayIterator: ...

class array:
    def __new__(cls, val: Any, dtype: Dtype | None = None) -> Self: ...
    def __init__(self, val: Any, dtype: Dtype | None = None) -> None: ...
{properties}
    def __getitem__(self, arg: Any, /) -> array: ...
    def __setitem__(self, arg0: Any, arg1: Any, /) -> None: ...
    def __hash__(self) -> int: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[array]: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    def __round__(self, ndigits: int | None = None, /) -> array: ...
{operators}
{methods}
"""

FILES = """def savez(file: file | str | pathlib.Path, *args: Any, **kwargs: Any) -> None: ...
def savez_compressed(file: file | str | pathlib.Path, *args: Any, **kwargs: Any) -> None: ...
def export_to_dot(file: object, *args: Any, **kwargs: Any) -> None: ...
def export_function(
    file_or_callback: str | pathlib.Path | Callable[[dict[str, Any]], Any],
    fun: Callable[..., Any],
    *args: Any,
    shapeless: bool = False,
    metadata: str | None = None,
    portable: bool = True,
    **kwargs: Any,
) -> None: ...
def exporter(
    file: str | pathlib.Path,
    fun: Callable[..., Any],
    *,
    shapeless: bool = False,
    metadata: str | None = None,
    portable: bool = True,
) -> FunctionExporter: ...
@final
class FunctionExporter:
    def __call__(self, *args: Any, **kwargs: Any) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: object = None, exc_value: object = None, traceback: object = None
    ) -> None: ...
"""

PROPERTIES = {
    "int": "size ndim itemsize nbytes",
    "tuple[int, ...]": "shape",
    "Dtype": "dtype",
    "array": "real imag T mT",
    "ArrayAt": "at",
    "Device": "device",
}
DTYPES = [
    "bool_",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "bfloat16",
    "complex64",
]
CATEGORIES = [
    "complexfloating",
    "floating",
    "inexact",
    "signedinteger",
    "unsignedinteger",
    "integer",
    "number",
    "generic",
]
UPDATES = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
OPERATORS = [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
]


def rows(compiler):
    paths = [f"-I{ROOT / folder}" for folder in ("src", "python/src")]
    command = [compiler, "-E", "-P", "-x", "c", *paths, "-"]
    text = subprocess.run(command, input=EXPAND, capture_output=True, text=True, check=True).stdout
    table = ast.literal_eval(f"[{text}]")
    notes = {name: note for word, names, note, _ in table if word == "NOTE" for name in names.split()}
    examples = {name: session for word, name, session, _ in table if word == "EXAMPLE"}
    for word, name, signature, doc in table:
        full = WHERE.get(word, "") + name
        note = textwrap.fill(notes.get(full, ""), 100)
        yield word, name, signature, "\n\n".join(part for part in (doc, note, examples.get(full)) if part)


def named(signature):
    """The signature with the first names of parameters, and where some have second ones, also with those."""
    second = re.compile(r"\b(\w+)\|(\w+):")
    first = second.search(signature)
    yield second.sub(r"\1:", signature)
    if first:
        before, after = signature[: first.start()], signature[first.start() :]
        if ", /" in after:  # these can be named
            before, after = before + "/, ", after.replace(", /", "", 1)
        yield second.sub(r"\2:", before + after)


def typed(signature):
    """The signature as type checkers know it."""
    signature = signature.replace("?,", " = ...,")  # may be left out
    signature = re.sub(r": (size|uint64)\b", ": int", signature)  # words of the parser of arguments
    signature = re.sub(r"\bNDArray\b", "Any", signature)  # NumPy need not be there
    signature = re.sub(r"(\*\w+)(?=,|$)", r"\1: Any", signature)
    for bare, full in {"Callable": "Callable[..., Any]", "dict": "dict[Any, Any]", "tuple": "tuple[Any, ...]"}.items():
        signature = re.sub(rf": {bare}(?!\[)", f": {full}", signature)
    return signature


def definition(name, signature, doc, result="array"):
    forms = [f"def {name}({typed(form)}) -> {result}:" for form in named(signature)]
    quoted = f'"""{doc}"""' if "\n" not in doc else f'"""{doc}\n"""'
    text = "\n".join("    " + line if line else "" for line in quoted.split("\n"))
    if len(forms) == 1:
        return f"{forms[0]}\n{text}"
    return "\n".join([f"@overload\n{forms[0]}\n{text}", *(f"@overload\n{form} ..." for form in forms[1:])])


def method(name, signature, doc):
    inside = ", ".join(part for part in ("self", typed(signature)) if part)
    return f"    def {name}({inside}) -> {RETURN.get(name, 'array')}: ..."


def operators():
    for op in OPERATORS:
        for kind in ("", "r", "i"):
            yield f"    def __{kind}{op}__(self, other: Any, /) -> array: ..."
    for op in ("divmod", "rdivmod"):
        yield f"    def __{op}__(self, other: Any, /) -> tuple[array, array]: ..."
    for op in ("neg", "pos", "abs", "invert"):
        yield f"    def __{op}__(self) -> array: ..."
    for op in ("lt", "le", "gt", "ge"):
        yield f"    def __{op}__(self, other: Any, /) -> array: ..."
    for op in ("eq", "ne"):
        yield f"    @overload\n    def __{op}__(self, other: scalar | array, /) -> array: ..."
        yield f"    @overload\n    def __{op}__(self, other: object, /) -> Any: ..."


def properties():
    for kind, names in PROPERTIES.items():
        for name in names.split():
            yield f"    @property\n    def {name}(self) -> {kind}: ..."


def stubs(compiler):
    table = list(rows(compiler))

    def pick(word):
        return [row[1:] for row in table if row[0] == word]

    main = TYPES.format(
        dtypes="\n".join(f"{d}: Dtype" for d in DTYPES),
        categories="\n".join(f"    {c} = {i}" for i, c in enumerate(CATEGORIES)),
        category_names="\n".join(f"{c} = DtypeCategory.{c}" for c in CATEGORIES),
        at="\n".join(f"    def {f}(self, value: Any) -> array: ..." for f in UPDATES),
        properties="\n".join(properties()),
        operators="\n".join(operators()),
        methods="\n".join(method(*row) for row in pick("METHOD")),
    )
    parts = [
        HEAD,
        main,
        *(definition(*row, RETURN.get(row[0], "array")) for row in pick("FUNCTION")),
    ]
    parts += [FILES, "matrix_norm = linalg.norm", *(f"{name} = {of}" for name, of, _ in pick("ALIAS"))]
    draws = [definition(*row, "None" if row[0] == "seed" else "array") for row in pick("RANDOM")]
    matrices = [definition(*row, RETURN.get(row[0], "array")) for row in pick("LINALG")]
    transforms = [definition(*row) for row in pick("FFT")]
    fused = [definition(*row, RETURN.get(row[0], "array")) for row in pick("FUSED")]
    other = {"init": "Group", "is_available": "bool"}
    sent = [definition(*row, other.get(row[0], "array")) for row in pick("DISTRIBUTED")]
    return {
        "__init__.pyi": "\n".join(parts).replace(" mlx.core.", " ") + "\n",
        "random.pyi": "\n".join([RANDOM, *draws]) + "\n",
        "fft.pyi": "\n".join([FFT, *transforms]) + "\n",
        "fast.pyi": "\n".join([FAST, *fused]) + "\n",
        "distributed.pyi": "\n".join([DISTRIBUTED, *sent]) + "\n",
        "linalg.pyi": "\n".join([LINALG, *matrices]) + "\n",
        "metal.pyi": METAL,
        "cuda.pyi": AVAILABLE + "def libraries() -> dict[str, dict[str, str | None] | None]: ...\n",
    }


def main(folder, compiler="cc"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in stubs(compiler).items():
        ast.parse(text)
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
