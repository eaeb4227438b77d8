"""What nobody means to pass: values that change while they are read, hold themselves or name nothing."""

import io
import operator
import os
import pathlib
import subprocess
import sys
from collections import UserList, UserString

import mlx.core as mx
import numpy as np
import pytest

# Errors on their way


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse", "unique_values"])
@pytest.mark.parametrize("transform", [mx.compile, mx.vmap])
def test_an_error_inside_a_function_of_the_array_api_arrives(name, transform):
    with pytest.raises(ValueError, match=r"depends on the elements of an array of shape \((3,)?2,?\)"):
        transform(getattr(mx, name))(mx.ones((3, 2)))


def test_an_error_keeps_its_arguments_and_cause_through_every_transform(tmp_path):
    class Own(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)
            self.b = b

    def f(x):
        raise Own(1, "two") from KeyError("cause")

    x = mx.array([1.0])
    calls = [
        lambda: mx.grad(f)(x),
        lambda: mx.vmap(f)(x),
        lambda: mx.compile(f)(x),
        lambda: mx.vjp(f, [x], [x]),
        lambda: mx.checkpoint(f)(x),
        lambda: mx.export_function(str(tmp_path / "f.mlxfn"), f, x),
        lambda: mx.export_to_dot(type("File", (), {"write": lambda self, text: f(x)})(), x),
    ]
    for call in calls:
        with pytest.raises(Own) as caught:
            call()
        assert caught.value.b == "two" and isinstance(caught.value.__cause__, KeyError)
        assert caught.traceback[-1].name == "f"


# Sequences


def nested(depth, inner):
    for _ in range(depth):
        inner = [inner]
    return inner


def holding_itself():
    a = [mx.array(1)]
    a.append(a)
    return a


class Lying(list):
    """Says of itself what is not so; its items are what they are."""

    def __init__(self, items, size):
        super().__init__(items)
        self.size = size

    def __len__(self):
        if isinstance(self.size, Exception):
            raise self.size
        return self.size

    def __getitem__(self, i):
        raise KeyError("not asked")


class Sequence:
    """A sequence whose first item is such a sequence."""

    def __len__(self):
        return 1

    def __getitem__(self, i):
        if i:
            raise IndexError
        return Sequence()


class Acts:
    """An array to those who ask, which runs `act` before it says so."""

    def __init__(self, act, value=1.0):
        self.act, self.value = act, value

    def __mlx_array__(self):
        self.act()
        return mx.array(self.value)


@pytest.mark.parametrize(
    "value",
    [
        UserString("a"),
        UserString("ab"),
        UserList([UserString("a")]),
        [1, UserString("a")],
        Sequence(),
        [mx.array(1), Sequence()],
        nested(65, 1),
        nested(1000, 1),
        [mx.array(1), nested(64, 1)],
        [mx.array(1), nested(5000, 1)],
        [[mx.array(1), 2], nested(70, mx.array(1))],
        holding_itself(),
    ],
    ids=lambda v: type(v).__name__,
)
def test_sequences_without_end_are_errors(value):
    for read in (mx.array, lambda v: mx.zeros(3)[list(v)], lambda v: mx.atleast_1d(v), lambda v: mx.asarray(v)):
        with pytest.raises(ValueError, match="at most 64 lists in each other"):
            read(value)


def test_a_list_is_what_it_holds_whatever_its_class_says():
    for size in (0, 1, 100, 2**62, ValueError("size")):
        assert mx.array(Lying([1, 2, 3], size)).tolist() == [1, 2, 3]
        assert mx.array([Lying([1, 2], size), Lying([3, 4], size)]).tolist() == [[1, 2], [3, 4]]
        assert mx.array([mx.array([1, 2]), Lying([3, 4], size)]).tolist() == [[1, 2], [3, 4]]
        assert mx.concatenate(Lying([mx.array([1]), mx.array([2])], size)).tolist() == [1, 2]
        assert mx.arange(9)[Lying([2, 3], size)].tolist() == [2, 3]
        arrays = Lying([mx.array(1.0), mx.array(2.0)], size)
        (got,) = mx.vjp(lambda x, y: x * y, arrays, [mx.array(1.0)])[0]
        assert got.item() == 2.0


def test_an_exported_function_may_return_any_list(tmp_path):
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, lambda x: Lying([x + 1, x], 7), mx.array(1.0))
    assert [y.item() for y in mx.import_function(path)(mx.array(2.0))] == [3.0, 2.0]
    mx.export_function(path, lambda x, y: x - y, Lying([mx.array(1.0), mx.array(2.0)], 7))
    assert mx.import_function(path)(Lying([mx.array(1.0), mx.array(2.0)], 7))[0].item() == -1.0


def test_a_carry_of_another_type_is_described_by_what_it_holds():
    carry = [mx.array(0.0), mx.array(1.0)]
    with pytest.raises(ValueError, match="carry was a list of 2, and the function returned a Lying of 2"):
        mx.scan(lambda c, x: (Lying(c, ValueError("size")), x), carry, mx.ones(3))


def test_lists_that_change_while_they_are_read():
    for count in range(1, 40):
        outer = [mx.array(1.0)] * count
        outer += [Acts(outer.clear), *([mx.array(2.0)] * count)]
        assert mx.array(outer).tolist() == [1.0] * (count + 1) + [2.0] * count and outer == []
    outer = [mx.array(1.0)]
    outer.append(Acts(lambda: outer.extend(outer)))
    assert mx.array(outer).tolist() == [1.0, 1.0]
    inner = [mx.array(1.0)]
    inner_outer = [Acts(lambda: inner.append(nested(100, 1))), inner]
    with pytest.raises(ValueError, match="at most 64 lists"):
        mx.array(inner_outer)
    rows = [mx.zeros(2)]
    rows += [Acts(rows.clear, [1.0, 2.0]), mx.ones(2)]
    assert mx.stack(rows).tolist() == [[0, 0], [1, 2], [1, 1]]


def test_a_carry_that_is_taken_away_while_it_is_compared():
    state = {"a": mx.array(0.0), "b": mx.array(1.0)}
    got = {"b": mx.array(1.0)}
    got["a"] = Acts(lambda: (state.clear(), got.clear()), 0.0)
    with pytest.raises(ValueError, match="the carry must keep its structure"):
        mx.scan(lambda c, x: (got, x), state, mx.ones(3))


class Raises:
    """Every question is answered by an exception of the user's own."""

    def __init__(self, error):
        self.error = error

    def fail(self, *args):
        raise self.error

    __len__ = __getitem__ = __iter__ = __index__ = __float__ = __array__ = __mlx_array__ = fail


@pytest.mark.parametrize("error", [ZeroDivisionError("own"), KeyboardInterrupt("own"), OSError("own")], ids=repr)
def test_errors_of_the_users_own_arrive(error):
    class Index:
        __index__ = Raises(error).fail

    class Float:
        __float__ = Raises(error).fail

    class Length(list):
        __len__ = __iter__ = Raises(error).fail

    class Items:
        __len__ = __getitem__ = Raises(error).fail

    class Array:
        __array__ = Raises(error).fail

    class Ours:
        __mlx_array__ = Raises(error).fail

    x = mx.zeros((2, 3))
    calls = [
        lambda: mx.array([mx.array(1), Array()]),
        lambda: mx.array([[1], Ours()]),
        lambda: mx.array(Items()),
        lambda: mx.stack([x, Ours()]),
        lambda: x[Index()],
        lambda: x[Index() :],
        lambda: x[0, Index()],
        lambda: x[[Ours()]],
        lambda: x.reshape(Index()),
        lambda: x.reshape((Index(), 2)),
        lambda: x.reshape(Items()),
        lambda: mx.zeros(Length([1])),
        lambda: mx.pad(x, Items()),
        lambda: mx.pad(x, [Items(), (1, 1)]),
        lambda: mx.pad(x, [(1, Index()), (1, 1)]),
        lambda: mx.conv_general(mx.zeros((1, 4, 1)), mx.zeros((1, 2, 1)), padding=Items()),
        lambda: mx.conv_general(mx.zeros((1, 4, 1)), mx.zeros((1, 2, 1)), padding=([Index()], [0])),
        lambda: mx.tensordot(x, x, axes=Items()),
        lambda: mx.linalg.norm(x, ord=Float()),
        lambda: mx.clip(x, Ours(), 1),
        lambda: x + Ours(),
        lambda: mx.sum(x, axis=Items()),
    ]
    for call in calls:
        with pytest.raises(type(error), match="own"):
            call()


# Names


@pytest.mark.parametrize("form", [str, os.fsencode, pathlib.Path])
@pytest.mark.parametrize("end", [".npy", ".npz", ".safetensors", ".gguf", ".mlxfn", ".dot"])
def test_files_whose_names_are_not_utf8(end, form, tmp_path):
    x = mx.arange(3.0)
    name = form(str(tmp_path / "a\udcff") + end)
    if end == ".mlxfn":
        mx.export_function(name, lambda x: x + 1, x)
        assert mx.import_function(name)(x)[0].tolist() == [1, 2, 3]
    elif end == ".dot":
        mx.export_to_dot(name, x + 1)
    elif end == ".npy":
        mx.save(name, x)
        assert mx.load(name).tolist() == [0, 1, 2]
    else:
        if end == ".npz":
            mx.savez(name, a=x)
        elif end == ".gguf":
            mx.save_gguf(name, {"a": x}, {})
        else:
            mx.save_safetensors(name, {"a": x})
        assert mx.load(name)["a"].tolist() == [0, 1, 2]
    assert os.listdir(os.fsencode(tmp_path)) == [b"a\xff" + end.encode()]


def test_names_with_null_characters_are_refused():
    source = "out[0] = n;"
    kernel = mx.fast.cpu_kernel("k", [], ["out"], source)
    with pytest.raises(ValueError, match=r"without null characters, got 'n\\x00'"):
        kernel(
            inputs=[],
            output_shapes=[(1,)],
            output_dtypes=[mx.int32],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            template=[("n\0", 3)],
        )
    with pytest.raises(ValueError, match="without null characters"):
        mx.export_to_dot(io.StringIO(), **{"a\0b": mx.array(1.0) + 1})


@pytest.mark.parametrize("save", [mx.save_safetensors, mx.save_gguf])
def test_names_that_utf_8_cannot_hold_are_refused(save, tmp_path):
    x, name = mx.ones(2), "a\ud800"
    for arrays, facts in (({name: x}, {}), ({"a": x}, {name: "v"}), ({"a": x}, {"k": name})):
        with pytest.raises(
            mx.Error, match=rf"\[{save.__name__}\] expected names and texts that UTF-8 can hold, got 'a.ud800'"
        ):
            save(tmp_path / "x", arrays, facts)
        assert not any(tmp_path.iterdir())
    with pytest.raises(mx.Error, match=r"\[einsum\] expected 'subscripts' to be a text that UTF-8 can hold, got"):
        mx.einsum(name, x)
    with pytest.raises(mx.Error, match=r"\[export_to_dot\] expected names and texts that UTF-8 can hold"):
        mx.export_to_dot(io.StringIO(), **{name: x + 1})


# Numbers


@pytest.mark.parametrize("dtype", ["bool_", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"])
def test_comparisons_with_ints_beyond_the_dtype(dtype):
    """As NumPy 2 answers: no int is refused, every answer is that of exact arithmetic."""
    info = np.iinfo(np.int32 if dtype == "bool_" else dtype)
    values = [0, 1] if dtype == "bool_" else [int(info.min), 0, 1, int(info.max)]
    x, y = mx.array(values, getattr(mx, dtype)), np.array(values, dtype)
    beyond = [300, -1, info.max + 1, info.min - 1, 2**31, 2**40, -(2**40), 2**63, 2**64, -(2**64), 10**30]
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
        op, numpys, exact = getattr(mx, name), getattr(np, name), getattr(operator, SHORT[name])
        for v in beyond:
            want = [exact(e, v) for e in values]
            assert dtype == "bool_" or numpys(y, v).tolist() == want
            assert exact(x, v).tolist() == op(x, v).tolist() == want, (name, v)
            assert exact(v, x).tolist() == op(v, x).tolist() == [exact(v, e) for e in values], (name, v)
            assert mx.compile(lambda x, v=v, exact=exact: exact(x, v), shapeless=True)(x).tolist() == want
            if -(2**63) <= v < 2**63:
                assert op(x, np.int64(v)).tolist() == want
        assert op(mx.zeros((2, 0), x.dtype), 10**30).shape == (2, 0)
    assert not mx.array_equal(x, 10**30).item()
    with pytest.raises(ValueError, match="a number that fits"):
        x + 10**30


SHORT = {"equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}


# Interpreters

IN_ANOTHER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
{before}
for _ in range(3):
    other = interpreters.create()
    try:
        told = interpreters.run_string(other, "import mlx.core as mx; mx.async_eval(mx.ones(9) + 1)")
    except interpreters.RunFailedError as error:
        told = error
    # From Python 3.12 on the interpreter itself says so.
    says = "works in the main interpreter of a process only", "does not support loading in subinterpreters"
    assert any(s in str(told) for s in says), told
    interpreters.destroy(other)
import mlx.core as mx
assert (mx.array([1, 2]) + 1).tolist() == [2, 3]
"""


@pytest.mark.parametrize("before", ["", "import mlx.core as mx; mx.eval(mx.ones(3) + 1)"])
def test_sub_interpreters_are_refused_in_a_sentence(before):
    code = IN_ANOTHER.format(before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_module_is_one_however_often_it_is_imported():
    code = """
import sys
import mlx.core as mx
x = mx.array([1, 2])
for name in [name for name in sys.modules if name.startswith("mlx")]:
    del sys.modules[name]
import mlx.core as again
import mlx.nn
assert again is mx and (again.array([3, 4]) + x).tolist() == [4, 6]
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "values", [[2**63, -1], [-1, 2**64 - 1], [[1, -1], [2**64 - 1, 0]], [-1, 2**64], [-(2**63) - 1, 1]]
)
def test_integers_that_no_dtype_holds_together(values):
    with pytest.raises(OverflowError, match=r"\[array\] expected (a number that fits|integers that all fit) "):
        mx.array(values)
    for dtype in (mx.float32, mx.float64):
        assert np.array_equal(mx.array(values, dtype), np.array(values, str(dtype).split(".")[-1]))


def test_integers_at_the_ends_of_dtypes():
    for values, dtype in [([2**63, 1], mx.uint64), ([-(2**63), 2**63 - 1], mx.int64), ([2**64 - 1, -1.0], mx.float32)]:
        assert mx.array(values).dtype == dtype
        assert np.array_equal(mx.array(values), np.array(values, str(dtype).split(".")[-1]))
    assert mx.array([2**63, -1], mx.int64).tolist() == [-(2**63), -1]


@pytest.mark.parametrize("big", [10**400, -(10**400), 10**5000], ids=["large", "negative", "unprintable"])
def test_ints_beyond_all_doubles(big):
    """Whose digits Python may refuse to print."""
    x, i = mx.ones(3), mx.ones(3, mx.int32)
    calls = [
        lambda: x + big,
        lambda: big - x,
        lambda: i * big,
        lambda: x < big,
        lambda: mx.array(big),
        lambda: mx.array([big]),
        lambda: mx.array([big, 1.0]),
        lambda: mx.array([1.0, big], mx.bfloat16),
        lambda: mx.full((2,), big),
        lambda: mx.full((2,), big, dtype=mx.float32),
        lambda: mx.where(True, big, 1.0),
        lambda: mx.maximum(x, big),
        lambda: mx.clip(x, 0, big),
        lambda: mx.arange(big),
        lambda: mx.arange(0.0, big),
        lambda: mx.linspace(0, big),
        lambda: mx.isclose(x, x, rtol=big),
        lambda: mx.random.normal(loc=big),
        lambda: mx.random.seed(big),
        lambda: mx.random.key(big),
        lambda: mx.linalg.norm(x, big),
        lambda: mx.zeros(big),
        lambda: x[big],
        lambda: mx.take(x, big),
        lambda: operator.setitem(x, 0, big),
        lambda: operator.setitem(i, 0, big),
        lambda: operator.setitem(x, big, 0),
        lambda: x.at[0].add(big),
        lambda: mx.set_memory_limit(abs(big)),
    ]
    for k, call in enumerate(calls):
        with pytest.raises(mx.Error, match=r"^\[[\w.]+\] .*an int of \d+ bits") as e:
            call()
        assert isinstance(e.value, OverflowError | IndexError), (k, e.value)
