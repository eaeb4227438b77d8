"""Every docstring of mlx.core ends with an example, and the examples print what they say."""

import doctest
import pathlib
import re
import types

import mlx.core as mx
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = {"": mx, "random": mx.random, "fast": mx.fast, "fft": mx.fft, "linalg": mx.linalg}
MODULES["distributed"] = mx.distributed
# Exceptions and enumerations are made in Python; what starts with one line is not public.
TYPES = [t for name, t in vars(mx).items() if type(t) is type and not issubclass(t, Exception) and name[0] != "_"]
TYPES.append(mx.distributed.Group)
# Methods that an `array` inherits from the slots of its type have the docstrings of Python.
OWN = (types.MethodDescriptorType, types.GetSetDescriptorType)

# For Python itself, by way of `with`; not there yet.
LEFT_OUT = {
    "FunctionExporter.__enter__",
    "FunctionExporter.__exit__",
    "StreamContext.__enter__",
    "StreamContext.__exit__",
    "custom_function.jvp",
    "custom_function.vmap",
}


def documented():
    for where, module in MODULES.items():
        for name, value in vars(module).items():
            if isinstance(value, types.BuiltinFunctionType) and not re.match("_[^_]", name):
                yield f"{where}.{name}".lstrip("."), value.__doc__
    for cls in TYPES:
        yield cls.__name__, cls.__doc__
        for name, value in vars(cls).items():
            if isinstance(value, OWN) and f"{cls.__name__}.{name}" not in LEFT_OUT:
                yield f"{cls.__name__}.{name}", value.__doc__


DOCS = dict(documented())
EXAMPLES = re.findall(r'^EXAMPLE\("([^"]+)"', (ROOT / "python" / "src" / "examples.def").read_text(), re.M)

TABLE = {row.split("\t")[0] for row in (ROOT / "tests" / "api" / "python.tsv").read_text().splitlines()}

# Those that are called by syntax, a built-in function or another library.
UNNAMED = {"array.__array__", "array.__format__", "array.__reduce__", "Dtype.__reduce__", "ArrayAt", "ArrayIterator"}
UNNAMED |= {"Dtype", "Stream", "ThreadLocalStream", "Group"}


@pytest.fixture(autouse=True)
def as_it_was():
    """They show what the CPU gives, whatever the default is here."""
    default = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_printoptions()
    mx.set_default_device(default)


def test_functions_and_methods_are_found():
    assert {"abs", "softmax", "savez", "random.normal", "linalg.inv", "array.sum", "array.T"} <= set(DOCS)


@pytest.mark.parametrize("name", sorted(DOCS))
def test_example(name):
    case = doctest.DocTestParser().get_doctest(DOCS[name] or "", {"mx": mx, "np": np}, name, None, None)
    if not case.examples and f"mlx.core.{name}" not in TABLE:
        pytest.skip("an operation of one's own")
    assert case.examples, f"{name} has no row in python/src/examples.def"
    shown = "".join(example.source for example in case.examples)
    used = name.rpartition(".")[2]
    if "." not in name:
        used = getattr(getattr(mx, name, None), "__name__", name)  # an alias has another
    assert used.strip("_") in shown or name in UNNAMED, f"{name} is not in its example"
    said = []
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(case, out=said.append).failed == 0, "".join(said)


def test_every_example_has_its_name():
    """One that is misspelt in the table would be nobody's."""
    assert EXAMPLES and set(EXAMPLES) <= set(DOCS)
    assert len(EXAMPLES) == len(set(EXAMPLES))


# What is not about arrays of some shape and dtype, as functions of functions are not.
OTHERS = """
__array_namespace_info__ broadcast_shapes can_cast clear_cache clear_streams default_device
default_stream depends device_count device_info disable_compile enable_compile eval async_eval fft.fftfreq
fft.rfftfreq get_active_memory get_array_buffer_size get_cache_memory get_memory_limit get_peak_memory
get_printoptions import_function inspect_function is_available isdtype issubdtype load new_stream
new_thread_local_stream new_thread_unsafe_stream printoptions random.key random.seed reset_peak_memory result_type
save save_gguf save_safetensors set_cache_limit set_default_device set_default_stream set_memory_limit set_printoptions
set_checks set_index_errors set_wired_limit stream synchronize
"""
SHAPES = re.compile(r"[Ss]hape|dimension|[Vv]ector|matri|of one|``\(")
DTYPES = re.compile(r"dtype|float|integer|complex|bool|int32|uint8|real numbers|[Nn]umbers")


def functions():
    modules = {"RANDOM": "random.", "FUSED": "fast.", "LINALG": "linalg.", "FFT": "fft."}
    text = (ROOT / "python" / "src" / "functions.def").read_text()
    for kind, name, rest in re.findall(r"^(FUNCTION|RANDOM|FUSED|LINALG|FFT)\((\w+),((?:.|\n ).*)", text, re.M):
        if "Callable" not in rest and not re.match("_[^_]", name):
            yield modules.get(kind, "") + name
    text = (ROOT / "src" / "ops" / "ops.def").read_text()
    yield from (name for name in re.findall(r"^(?:UNARY|BINARY) *\((\w+),", text, re.M) if hasattr(mx, name))


@pytest.mark.parametrize("name", sorted(set(functions()) - set(OTHERS.split())))
def test_shapes_and_dtypes(name):
    """Which of them a function takes; which errors it raises tests/python/test_messages.py compares."""
    assert SHAPES.search(DOCS[name]), "no shapes"
    assert DTYPES.search(DOCS[name]), "no dtypes"
