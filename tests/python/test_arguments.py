"""What goes for an int, a shape or an axis; what may be left out or named; arguments at their ends."""

import math
from decimal import Decimal
from fractions import Fraction

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

X = mx.arange(6.0).reshape(2, 3)
IMAGE, SIGNAL = mx.arange(64.0).reshape(1, 8, 8, 1), mx.arange(8.0).reshape(1, 8, 1)


def kernel(n):
    k = mx.fast.cpu_kernel("number", [], ["out"], "out[0] = n;")
    return k(
        inputs=[],
        output_shapes=[(1,)],
        output_dtypes=[mx.int32],
        grid=(1, 1, 1),
        threadgroup=(1, 1, 1),
        template=[("n", n)],
    )[0]


# Each takes what makes an int, and gives something that depends on the ints.
WITH_INTS = {
    "zeros": lambda i: mx.zeros(i(2)),
    "full": lambda i: mx.full((i(2), i(1)), 3),
    "reshape": lambda i: mx.reshape(X, (i(3), i(2))),
    "array.reshape": lambda i: X.reshape(i(3), -1),
    "sum": lambda i: mx.sum(X, axis=i(1)),
    "sum of two": lambda i: X.sum((i(0), i(1))),
    "softmax": lambda i: mx.softmax(X, axis=i(0)),
    "argmax": lambda i: X.argmax(i(1)),
    "expand_dims": lambda i: mx.expand_dims(X, (i(0), i(3))),
    "transpose": lambda i: X.transpose(i(1), i(0)),
    "moveaxis": lambda i: X.moveaxis(i(0), i(1)),
    "split": lambda i: mx.split(X, i(3), axis=i(1))[2],
    "split at": lambda i: mx.split(X, [i(1), i(2)], axis=1)[2],
    "array.split": lambda i: X.split(i(2))[1],
    "concatenate": lambda i: mx.concatenate([X, X], axis=i(1)),
    "take": lambda i: mx.take(X, mx.array([0]), axis=i(1)),
    "eye": lambda i: mx.eye(i(3), i(4), i(1)),
    "linspace": lambda i: mx.linspace(i(0), i(1), i(3)),
    "arange": lambda i: mx.arange(i(0), i(6), i(2)),
    "repeat": lambda i: mx.repeat(X, i(2), axis=i(1)),
    "tile": lambda i: mx.tile(X, (i(2), i(1))),
    "roll": lambda i: mx.roll(X, i(1), axis=i(1)),
    "pad": lambda i: mx.pad(X, i(1)),
    "pad by pairs": lambda i: mx.pad(X, ((i(1), i(0)), (i(2), i(1)))),
    "index": lambda i: X[i(1), i(0) : i(2)],
    "at": lambda i: X.at[i(0)].add(i(1)),
    "key": lambda i: mx.random.key(i(2)),
    "normal": lambda i: mx.random.normal((i(2), i(1)), key=mx.random.key(1)),
    "conv1d": lambda i: mx.conv1d(SIGNAL, mx.ones((1, 3, 1)), i(2), i(1)),
    "conv2d": lambda i: mx.conv2d(IMAGE, mx.ones((1, 3, 3, 1)), (i(2), i(1)), i(1)),
    "conv_general": lambda i: mx.conv_general(SIGNAL, mx.ones((1, 3, 1)), i(1), ([i(1)], [i(0)])),
    "fft": lambda i: mx.fft.fft(X, n=i(2), axis=i(1)).real,
    "fftn": lambda i: mx.fft.fftn(X, s=[i(2)], axes=[i(0)]).real,
    "tensordot": lambda i: mx.tensordot(X, X.T, axes=i(1)),
    "tensordot by pairs": lambda i: mx.tensordot(X, X, axes=([i(1)], [i(1)])),
    "as_strided": lambda i: mx.as_strided(X, (i(2), i(2)), (i(3), i(1)), i(1)),
    "quantize": lambda i: mx.quantize(mx.ones((2, 64)), i(64), i(4))[1],
    "grad": lambda i: mx.grad(lambda a, b: (a * b * b).sum(), argnums=i(1))(X, X),
    "rope": lambda i: mx.fast.rope(mx.ones((1, 2, 4)), i(4), traditional=False, base=1e4, scale=1.0, offset=i(1)),
    "cpu_kernel": lambda i: kernel(i(3)),
    "Conv1d": lambda i: nn.Conv1d(1, 2, i(3), stride=i(2))(SIGNAL).shape,
    "Conv2d": lambda i: nn.Conv2d(1, 2, (i(3), i(1)))(IMAGE).shape,
    "MaxPool1d": lambda i: nn.MaxPool1d(i(2))(SIGNAL),
}
INTS = {
    "np.int64": np.int64,
    "np.uint8": np.uint8,
    "array of NumPy's": np.array,
    "array": mx.array,
    "array of uint8": lambda v: mx.array(v, mx.uint8),
}


def plain(result):
    return result.tolist() if isinstance(result, mx.array) else result


@pytest.mark.parametrize("call", WITH_INTS)
def test_whatever_is_an_int_goes_for_one(call):
    want = plain(WITH_INTS[call](int))
    for name, make in INTS.items():
        assert plain(WITH_INTS[call](make)) == want, name


VECTORS = {"array": mx.array, "array of NumPy's": np.array, "tuple of arrays": lambda v: tuple(map(mx.array, v))}


@pytest.mark.parametrize("make", VECTORS.values(), ids=VECTORS)
def test_a_vector_of_ints_goes_for_a_shape_and_for_axes(make):
    assert mx.zeros(make([2, 3])).shape == (2, 3)
    assert X.reshape(make([3, 2])).shape == mx.reshape(X, make([3, 2])).shape == (3, 2)
    assert mx.sum(X, axis=make([0, 1])).item() == 15
    assert mx.transpose(X, make([1, 0])).shape == X.transpose(make([1, 0])).shape == (3, 2)
    assert [p.shape for p in mx.split(X, make([1]))] == [(1, 3), (1, 3)]
    assert [p.shape for p in mx.split(X, make([1, 2]), axis=1)] == [(2, 1)] * 3
    assert mx.pad(X, make([1, 2])).shape == (5, 6)
    assert mx.tile(X, make([2])).shape == (2, 6)
    assert mx.tensordot(X, X, axes=(make([1]), make([1]))).shape == (2, 2)
    for bad in (mx.array([[2, 3]]), mx.array([2.0, 3.0]), mx.array(2.0), np.array([2.5])):
        with pytest.raises(TypeError):
            mx.zeros(bad)
    with pytest.raises(TypeError):
        mx.sum(X, axis=mx.array([True, False]))


def test_what_may_be_given_by_position_or_by_name():
    assert mx.count_nonzero(X, 0).tolist() == [1, 2, 2]
    assert mx.vecdot(X, X, 0).tolist() == [9, 17, 29]
    assert mx.astype(X, dtype=mx.int8).dtype == mx.int8
    assert len(mx.quantize(mx.ones((2, 64)), 16, 4, "nvfp4", mx.array(1.0))) == 2


def test_quantize_returns_a_list():
    assert type(mx.quantize(mx.ones((2, 64)))) is list
    assert type(mx.quantize(mx.ones((2, 64)), mode="mxfp4", group_size=32)) is list


# arange


def test_arange_needs_a_stop():
    for given in ({"start": 1}, {"start": 1, "step": 2}, {"step": 2}, {}, {"stop": None}):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'stop'"):
            mx.arange(**given)
    assert mx.arange(3).tolist() == mx.arange(stop=3).tolist() == mx.arange(3, None).tolist() == [0, 1, 2]
    assert mx.arange(6, step=2).tolist() == mx.arange(stop=6, step=2).tolist() == [0, 2, 4]
    assert mx.arange(start=1, stop=3).tolist() == [1, 2]
    x = mx.arange(3, 1, mx.float16)  # stop, step, dtype
    assert x.tolist() == [0, 1, 2] and x.dtype == mx.float16
    with pytest.raises(TypeError, match="must be a number, not Dtype"):
        mx.arange(3, mx.float16)


def test_arange_of_bool_alone():
    for given in ((True,), (False, True), (False, True, True)):
        with pytest.raises(ValueError, match=r"\[arange\] expected an int or a float, got bool"):
            mx.arange(*given)
    assert mx.arange(True, 3).tolist() == [1, 2] and mx.arange(0, 3, True).tolist() == [0, 1, 2]


@pytest.mark.parametrize("half", [Fraction(1, 2), Decimal("0.5")])
def test_numbers_of_other_classes_are_floats(half):
    x = mx.array([1.0, 3.0], mx.float16)
    assert (x * half).tolist() == (half * x).tolist() == [0.5, 1.5] and (x - half).dtype == mx.float16
    assert (half / mx.array(2)).item() == 0.25 and (mx.array([1, 2]) + half).dtype == mx.float32
    assert (x > half).tolist() == [True, True] and (mx.array(0.5) == half).item() is True
    x *= half
    x[1] = half
    assert x.tolist() == [0.5, 0.5] and mx.maximum(x, half).dtype == mx.float16
    assert mx.add(half, half).item() == 1 and mx.array(half).dtype == mx.float32
    assert mx.pad(mx.ones(1), 1, constant_values=half).tolist() == [0.5, 1, 0.5]
    with pytest.raises(TypeError):
        x * object()
    with pytest.raises(OverflowError):
        x * Fraction(10**400)


@pytest.mark.parametrize("start, stop", [(0, 1), (1, 0), (0, 0), (2, -3), (1.5, 7.5), (-1e30, 1e30)])
def test_an_infinite_step_leaves_the_first_number_or_none(start, stop):
    for step in (math.inf, -math.inf):
        forward = start < stop if step > 0 else start > stop
        assert mx.arange(start, stop, step).tolist() == ([np.float32(start)] if forward else [])
    for bad in ((0, math.inf), (math.inf, 0), (0, math.nan), (0, 1, math.nan), (-1e308, 1e308, math.inf)):
        with pytest.raises(ValueError, match=r"\[arange\] expected finite numbers"):
            mx.arange(*bad)


# None and empty lists


def test_stack_along_none_is_along_the_first():
    parts = [np.arange(6).reshape(2, 3), np.ones((2, 3), int)]
    assert mx.stack(list(map(mx.array, parts)), axis=None).tolist() == np.stack(parts).tolist()
    assert mx.stack([mx.array(1), mx.array(2)], axis=None).tolist() == [1, 2]
    with pytest.raises(ValueError):
        mx.stack([mx.ones(2), mx.ones(3)], axis=None)


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"])
def test_a_fourier_transform_along_no_axis_changes_nothing(name):
    for axes in ([], ()):
        for s in (None, []):
            y = getattr(mx.fft, name)(X, s=s, axes=axes)
            assert y.dtype == mx.float32 and y.tolist() == X.tolist()
    assert mx.grad(lambda x: getattr(mx.fft, name)(x, axes=[]).sum())(X).tolist() == [[1] * 3] * 2


def test_infinities_with_a_sign_among_complex_numbers():
    z = [complex(a, b) for a in (math.inf, -math.inf, math.nan, 1) for b in (0, -0.0, 1, math.inf, math.nan)]
    assert mx.isposinf(mx.array(z)).tolist() == [v.real == math.inf and v.imag == 0 for v in z]
    assert mx.isneginf(mx.array(z)).tolist() == [v.real == -math.inf and v.imag == 0 for v in z]
    assert mx.isposinf(mx.array([1, 2])).tolist() == [False, False]


# Memory


def test_the_peak_is_zero_until_something_is_allocated():
    held = mx.ones(1000)
    mx.eval(held)
    mx.reset_peak_memory()
    assert mx.get_peak_memory() == 0
    x = mx.ones(1 << 20)
    mx.eval(x)
    assert mx.get_peak_memory() >= x.nbytes + held.nbytes


@pytest.mark.parametrize("n", [64, 65, 500])
def test_lists_that_name_no_dimensions_are_of_any_length(n):
    """Places to split at and numbers of arguments; sizes and axes are at most 64."""
    x = np.arange(2 * n, dtype=np.float32)
    at = list(range(1, n + 1))
    for parts in (mx.split(mx.array(x), at), mx.array(x).split(tuple(at)), mx.split(mx.array(x), np.array(at))):
        assert [p.tolist() for p in parts] == [p.tolist() for p in np.split(x, at)]
    given = [mx.array(float(i)) for i in range(n)]

    def squares(*a):
        return sum(v * v for v in a)

    want = [2.0 * i for i in range(n)]
    assert [g.item() for g in mx.grad(squares, argnums=list(range(n)))(*given)] == want
    assert [g.item() for g in mx.value_and_grad(squares, tuple(range(n)))(*given)[1]] == want
    few = list(range(n))[::-1] if n < 100 else [0] * 70
    if n < 100:
        assert [g.item() for g in mx.jacrev(squares, argnums=few)(*given)] == want[::-1]
        assert [g.item() for g in mx.jacfwd(squares, argnums=few)(*given)] == want[::-1]
        rows = mx.hessian(squares, argnums=few)(*given)
        assert [[v.item() for v in row] for row in rows] == (2 * np.eye(n)).tolist()
    else:
        with pytest.raises(ValueError, match="each once, got 0 twice"):
            mx.grad(squares, argnums=few)
    with pytest.raises(ValueError, match="must hold ints, not float"):
        mx.split(mx.array(x), [*at[:-1], 0.5])


@pytest.mark.parametrize("n", [65, 300])
def test_any_number_of_shifts_of_an_axis(n):
    """They add up, which may pass what an int of 32 bits holds."""
    a = np.arange(35).reshape(5, 7)
    rng = np.random.default_rng(n)
    shift, axis = rng.integers(-9, 9, n).tolist(), rng.integers(-2, 2, n).tolist()
    for s, d in [(shift, axis), (shift, 1), (shift, [-1]), (3, axis), ([3], axis), (shift, None), ([2**31 - 1] * n, 0)]:
        want = np.roll(a, np.sum(s) if d is None else s, d)
        assert mx.roll(mx.array(a), s, d).tolist() == want.tolist()
        if d is not None and isinstance(s, list) and isinstance(d, list):
            assert mx.compile(lambda x: mx.roll(x, s, d), shapeless=True)(mx.array(a)).tolist() == want.tolist()  # noqa: B023
    with pytest.raises(ValueError, match=f"one shift or one for each of the {n} axes, got {n - 1}"):
        mx.roll(mx.array(a), shift[1:], axis)
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        mx.roll(mx.array(a), shift, [*axis[1:], 2])


def test_lists_of_dimensions_are_not():
    for call in (lambda: mx.ones([1] * 65), lambda: X.sum([0] * 65), lambda: X.reshape([1] * 65)):
        with pytest.raises(ValueError, match="has 65 items, at most 64 are possible"):
            call()
    with pytest.raises(ValueError, match="at most 64 arrays, for as many dimensions of the results, got 65"):
        mx.meshgrid(*[X] * 65)
