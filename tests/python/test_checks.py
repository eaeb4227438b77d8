"""NaN and infinities that operations make of operands without are errors that name the operation, where that is asked
for: on every device, in loops, compiled functions and transforms."""

import os
import subprocess
import sys

import mlx.core as mx
import numpy as np
import pytest

DEVICES = [mx.cpu, mx.gpu] if mx.is_available(mx.gpu) else [mx.cpu]


@pytest.fixture(params=DEVICES, ids=str, autouse=True)
def device(request):
    before = mx.default_device()
    mx.set_default_device(request.param)
    yield
    mx.set_default_device(before)


@pytest.fixture(autouse=True)
def nothing_after():
    before = mx.set_checks(None)
    yield
    mx.set_checks(before)


def said(make):
    """The error of an evaluation; None: there is none."""
    try:
        mx.eval(make())
    except mx.Error as error:
        return str(error)


def hundreds(shape=(32, 32)):
    return mx.arange(float(np.prod(shape))).reshape(shape) * 100


def test_setting_gives_what_was():
    assert [mx.set_checks(c) for c in ("nan", "inf", "inf", None, None)] == [None, "nan", "inf", "inf", None]
    with pytest.raises(ValueError, match=r"^\[set_checks\] expected 'nan', 'inf' or None, got 'NaN'$"):
        mx.set_checks("NaN")
    assert mx.set_checks(None) is None


def test_the_first_operation_is_named():
    x = mx.array(np.where(np.arange(1024).reshape(32, 32) % 512 == 5, -1, 1), mx.float32)
    mx.set_checks("nan")
    assert said(lambda: (mx.sin(mx.log(x + 0)) * 2).sum()) == (
        "[log] made 2 NaN of 1024 elements from finite operands: output float32 (32,32), first at (0,5)"
    )
    assert said(lambda: mx.sqrt(mx.array(-1.0))) == (
        "[sqrt] made 1 NaN of 1 element from finite operands: output float32 ()"
    )


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64], ids=str)
def test_of_every_type(dtype):
    x = mx.array([1, 0, 1, 0], dtype)
    mx.set_checks("nan")
    found = said(lambda: mx.divide(x, x))
    assert found.startswith("[divide] made 2 NaN of 4 elements") and found.endswith("first at (1,)")
    mx.set_checks("inf")
    assert said(lambda: mx.add(x, x)) is None
    assert "infinit" in said(lambda: mx.divide(mx.ones(4, dtype), x)) or dtype == mx.complex64


def test_infinities():
    x = hundreds()
    mx.set_checks("nan")
    assert said(lambda: mx.exp(x)) is None
    assert said(lambda: mx.exp(x) - mx.exp(x)) == (
        "[subtract] made 1023 NaN of 1024 elements from operands with infinities: output float32 (32,32), "
        "first at (0,1)"
    )
    mx.set_checks("inf")
    assert said(lambda: mx.exp(x).sum()) == (
        "[exp] made 1023 infinities of 1024 elements from finite operands: output float32 (32,32), first at (0,1)"
    )
    assert said(lambda: mx.array(7e4).astype(mx.float16)).startswith("[astype] made 1 infinity of 1 element")


def test_what_a_program_brings_is_no_error():
    x = mx.array([1.0, mx.nan, mx.inf])
    mx.set_checks("inf")
    assert said(lambda: mx.log(x + 1) * 2) is None
    mask = mx.where(mx.tri(4) > 0, 0.0, -mx.inf)
    assert said(lambda: mx.softmax(mx.zeros((4, 4)) + mask, axis=-1)) is None
    assert said(lambda: mx.softmax(mx.full((2, 4), -mx.inf), axis=-1)).startswith("[softmax] made 8 NaN of 8 elements")


def test_what_moves_numbers_makes_none():
    bits = mx.array([0x7FC00000], mx.uint32)
    mx.set_checks("inf")
    assert said(lambda: mx.reshape(mx.view(bits, mx.float32), (1, 1))) is None


def test_reductions_are_named_as_programs_call_them():
    x = mx.full((4, 4), 3e38)
    mx.set_checks("inf")
    assert said(lambda: mx.sum(x, axis=0)).startswith("[sum] made 4 infinities")
    assert said(lambda: mx.cumprod(x, axis=0)).startswith("[cumprod] made 12 infinities")


def test_loops_branches_and_compiled_functions():
    x = mx.array(2.0)
    mx.set_checks("nan")
    loop = said(lambda: mx.scan(lambda c, _: (mx.log(c), c), x, length=9)[0])
    assert loop.startswith("[log] made 1 NaN") and loop.endswith("(in step 2 of scan)")
    assert "[log]" in said(lambda: mx.while_loop(lambda c: c > -9, lambda c: mx.log(c), x))
    assert "[sqrt]" in said(lambda: mx.cond(x > 1, lambda a: mx.sqrt(-a) + 1, lambda a: a, x))
    assert "[sqrt]" in said(lambda: mx.compile(lambda a: mx.exp(mx.sqrt(1 - a)) * 2)(hundreds()))


def test_transforms():
    x = mx.zeros(3)
    mx.set_checks("nan")
    assert said(lambda: mx.grad(lambda a: mx.square(mx.sqrt(a)).sum())(x)).startswith("[divide] made 3 NaN")
    assert "[log] made 6 NaN" in said(lambda: mx.vmap(lambda a: mx.log(a) + 1)(hundreds((2, 3)) - 1e6))


def test_values_are_what_they_are():
    """Operands are kept meanwhile, and nothing is fused: the same bits come out."""
    rng = np.random.default_rng(0)
    x = mx.array(rng.normal(size=(70, 130)), mx.float32)

    def f(a):
        b = mx.tanh(a * 3) + mx.softmax(a, axis=1)
        return mx.sort(b @ b.T, axis=0), mx.cumsum(b, axis=0).at[mx.array([1, 1, 5])].add(1.0)

    want = [np.array(y) for y in f(x)]
    mx.set_checks("inf")
    got = [np.array(y) for y in f(x)]
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_it_can_be_evaluated_once_nothing_is_looked_at():
    y = mx.log(hundreds() - 50)
    mx.set_checks("nan")
    assert "[log]" in said(lambda: y) and "[log]" in said(lambda: y)
    mx.set_checks(None)
    assert said(lambda: y) is None and np.isnan(np.array(y)).sum() == 1


def test_who_reads_later_is_told():
    x = hundreds() - 50
    mx.set_checks("nan")
    bad, good = mx.log(x), mx.abs(x)
    mx.async_eval(bad, good)
    assert good.shape == (32, 32) and np.array(good)[0, 0] == 50
    with pytest.raises(mx.Error, match=r"^\[log\] made 1 NaN"):
        np.array(bad)
    mx.synchronize()  # has nothing more to tell


def test_who_waits_for_a_stream_is_told_what_nobody_has_been():
    x = hundreds() - 50
    mx.set_checks("nan")
    many = [mx.log(x), mx.sqrt(x)] + [mx.log2(x) for _ in range(20)]
    for y in many:
        mx.async_eval(y)
    assert "[log]" in said(lambda: many[0])
    with pytest.raises(mx.Error, match=r"^\[sqrt\] made 1 NaN"):
        mx.synchronize()
    mx.synchronize()


def test_what_spoiled_several_streams_is_told_once():
    x, other = hundreds() - 50, mx.new_stream(mx.cpu)
    mx.set_checks("nan")
    y = mx.add(mx.log(x), 1, stream=other)
    mx.async_eval(y)
    assert "[log]" in said(lambda: y)
    mx.synchronize(other)
    mx.synchronize()


@pytest.mark.parametrize(("value", "found"), [("nan", "[sqrt]"), ("inf", "[divide]"), ("all", ""), ("", "")])
def test_the_environment(value, found):
    program = "import mlx.core as mx\nx = mx.zeros(3)\nmx.eval(mx.divide(1, x), mx.sqrt(x - 1))"
    env = {**os.environ, "MLX_CHECK": value}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert (ran.returncode != 0) == bool(found) and found in ran.stderr
    assert ("[MLX_CHECK] expected nan or inf, got all; it is ignored" in ran.stderr) == (value == "all")
