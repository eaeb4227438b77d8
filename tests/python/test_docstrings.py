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
# Exceptions and enumerations are made in Python; what starts with one line is not public.
TYPES = [t for name, t in vars(mx).items() if type(t) is type and t is not mx.AxisError and name[0] != "_"]
# Methods that an `array` inherits from the slots of its type have the docstrings of Python.
OWN = (types.MethodDescriptorType, types.GetSetDescriptorType)

# For Python itself, by way of `with`; for NumPy; not there yet.
LEFT_OUT = {
    "FunctionExporter.__enter__",
    "FunctionExporter.__exit__",
    "StreamContext.__enter__",
    "StreamContext.__exit__",
    "array.__array_priority__",
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
UNNAMED |= {"Dtype", "Stream", "ThreadLocalStream"}


@pytest.fixture(autouse=True)
def as_it_was():
    yield
    mx.set_printoptions()


def test_functions_and_methods_are_found():
    assert {"abs", "softmax", "savez", "random.normal", "linalg.inv", "array.sum", "array.T"} <= set(DOCS)


@pytest.mark.parametrize("name", sorted(DOCS))
def test_example(name):
    case = doctest.DocTestParser().get_doctest(DOCS[name] or "", {"mx": mx, "np": np}, name, None, None)
    if not case.examples and f"mlx.core.{name}" not in TABLE:
        pytest.skip("an operation of one's own")
    assert case.examples, f"{name} has no row in python/src/examples.def"
    shown = "".join(example.source for example in case.examples)
    used = getattr(mx, name).__name__ if "." not in name else name.rpartition(".")[2]  # an alias has another
    assert used.strip("_") in shown or name in UNNAMED, f"{name} is not in its example"
    said = []
    runner = doctest.DocTestRunner(verbose=False)
    assert runner.run(case, out=said.append).failed == 0, "".join(said)


def test_every_example_has_its_name():
    """One that is misspelt in the table would be nobody's."""
    assert EXAMPLES and set(EXAMPLES) <= set(DOCS)
    assert len(EXAMPLES) == len(set(EXAMPLES))
