"""Dtypes, their categories, their limits, and how they meet."""

import os
import pickle
import shutil
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

INTS = [mx.uint8, mx.uint16, mx.uint32, mx.uint64, mx.int8, mx.int16, mx.int32, mx.int64]
FLOATS = [mx.float16, mx.bfloat16, mx.float32, mx.float64]
ALL = [mx.bool_, *INTS, *FLOATS, mx.complex64]
NUMPY = {d: np.dtype(repr(d).split(".")[-1]) for d in INTS + [mx.float16, mx.float32, mx.float64]}


def test_names_and_sizes():
    sizes = [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8]
    assert [d.size for d in ALL] == sizes
    assert repr(mx.float32) == "mlx.core.float32"
    assert len(set(ALL)) == 14
    assert mx.float32 == mx.zeros(1).dtype
    assert mx.float32 != mx.float16
    assert (mx.float32 == "float32") is False
    for d in ALL:
        assert pickle.loads(pickle.dumps(d)) is d
    with pytest.raises(TypeError):
        mx.Dtype()


def test_categories():
    assert mx.issubdtype(mx.float16, mx.floating)
    assert mx.issubdtype(mx.complex64, mx.inexact)
    assert mx.issubdtype(mx.uint8, mx.unsignedinteger)
    assert mx.issubdtype(mx.int8, mx.integer)
    assert not mx.issubdtype(mx.int8, mx.unsignedinteger)
    assert not mx.issubdtype(mx.bool_, mx.number)
    assert mx.issubdtype(mx.signedinteger, mx.number)
    assert mx.issubdtype(mx.int32, mx.int32)
    assert not mx.issubdtype(mx.int32, mx.int64)
    assert not mx.issubdtype(mx.integer, mx.int64)
    for d in ALL:
        assert mx.issubdtype(d, mx.generic)
    assert repr(mx.floating) == "DtypeCategory.floating"
    assert mx.DtypeCategory.generic.value == 7
    for bad in [(1, mx.generic), (mx.int8, "integer")]:
        with pytest.raises(TypeError):
            mx.issubdtype(*bad)


@pytest.mark.parametrize("dtype", INTS)
def test_limits_of_integers(dtype):
    ours, theirs = mx.iinfo(dtype), np.iinfo(NUMPY[dtype])
    assert (ours.min, ours.max, ours.dtype) == (theirs.min, theirs.max, dtype)
    assert repr(mx.iinfo(mx.int8)) == "iinfo(min=-128, max=127, dtype=int8)"


@pytest.mark.parametrize("dtype", [mx.float16, mx.float32, mx.float64])
def test_limits_of_floats(dtype):
    ours, theirs = mx.finfo(dtype), np.finfo(NUMPY[dtype])
    assert (ours.min, ours.max, ours.eps) == (theirs.min, theirs.max, theirs.eps)
    assert (ours.smallest_normal, ours.bits) == (theirs.smallest_normal, theirs.bits)


def test_other_limits():
    b = mx.finfo(mx.bfloat16)
    assert (b.eps, b.bits, b.max) == (2.0**-7, 16, (2 - 2.0**-7) * 2.0**127)
    assert mx.array(b.max, mx.bfloat16).item() == b.max
    assert mx.finfo(mx.complex64).dtype == mx.float32
    with pytest.raises(ValueError, match="int32"):
        mx.finfo(mx.int32)
    with pytest.raises(ValueError, match="float32"):
        mx.iinfo(mx.float32)
    for bad in [lambda: mx.finfo("float32"), lambda: mx.iinfo(), lambda: mx.iinfo(dtype=mx.int8)]:
        with pytest.raises(TypeError):
            bad()


def test_meeting():
    assert mx.result_type(mx.int8, mx.uint8) == mx.int16
    assert mx.result_type(mx.float16, mx.bfloat16) == mx.float32
    assert mx.result_type(mx.zeros(1, mx.int8), mx.bool_) == mx.int8
    assert mx.result_type(mx.int64, mx.float16) == mx.float16
    assert mx.result_type(mx.zeros(1, mx.int8), 1.5) == mx.float32
    for d in ALL:
        assert mx.result_type(d) == mx.result_type(d, mx.bool_) == d
    with pytest.raises(ValueError):
        mx.result_type()
    with pytest.raises(TypeError):
        mx.result_type("int8")
    assert mx.can_cast(mx.int8, mx.float32)
    assert mx.can_cast(mx.zeros(1, mx.bool_), mx.int8)
    assert not mx.can_cast(mx.float32, mx.int8)


def test_isdtype():
    assert mx.isdtype(mx.float32, "real floating")
    assert mx.isdtype(mx.int8, ("bool", "integral"))
    assert mx.isdtype(mx.int8, mx.int8)
    assert not mx.isdtype(mx.bool_, "numeric")
    assert mx.isdtype(mx.complex64, (mx.int8, "complex floating"))
    with pytest.raises(ValueError, match="nothing"):
        mx.isdtype(mx.int8, "nothing")
    with pytest.raises(TypeError):
        mx.isdtype(mx.int8, 3)


@pytest.mark.parametrize("to", list(NUMPY))
def test_conversions_of_small_integers_and_back(to):
    for source in [*INTS, mx.bool_, *FLOATS, mx.complex64]:
        x = mx.array([0, 1, 1, 0], source)
        assert x.astype(to).tolist() == [0, 1, 1, 0]
        assert mx.astype(x, to).dtype == to


def test_view():
    x = mx.array([1.0])
    assert x.view(mx.uint32).item() == 0x3F800000
    assert x.view(mx.uint8).shape == (4,)
    assert mx.view(x.view(mx.uint16), mx.float32).item() == 1
    with pytest.raises(TypeError):
        x.view("int32")


def test_limits_print_alike_in_every_locale(tmp_path):
    localedef = shutil.which("localedef")
    made = localedef and subprocess.run(
        [localedef, "-i", "de_DE", "-f", "UTF-8", str(tmp_path / "de_DE.UTF-8")], capture_output=True
    )
    if not made or made.returncode:
        pytest.skip("no localedef, or nothing to make a locale of")
    code = (
        "import locale; import mlx.core as mx; locale.setlocale(locale.LC_ALL, 'de_DE.UTF-8'); "
        "assert locale.str(0.5) == '0,5'; print(mx.finfo(mx.float32), mx.finfo(mx.float16), mx.finfo(mx.float64))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "LOCPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert run.stderr == ""
    assert run.stdout == (
        "finfo(min=-3.40282e+38, max=3.40282e+38, dtype=float32) finfo(min=-65504, max=65504, dtype=float16) "
        "finfo(min=-1.79769e+308, max=1.79769e+308, dtype=float64)\n"
    )
