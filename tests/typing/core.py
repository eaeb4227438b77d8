"""What a user writes with types: read by type checkers in tests/python/test_typing.py, never run."""

from collections.abc import Callable, Sequence
from typing import Any, assert_type

import mlx.core as mx


def making_arrays() -> None:
    assert_type(mx.array([[1, 2], [3, 4]]), mx.array)
    assert_type(mx.zeros((2, 3), dtype=mx.float16), mx.array)
    assert_type(mx.ones(3), mx.array)
    assert_type(mx.arange(10), mx.array)
    assert_type(mx.arange(0, 1, 0.1, dtype=mx.float32), mx.array)
    assert_type(mx.full([2], 7.5), mx.array)


def arithmetic(x: mx.array, y: mx.array) -> mx.array:
    assert_type(x + y, mx.array)
    assert_type(2 * x - 1.5, mx.array)
    assert_type(x @ y, mx.array)
    assert_type(x == y, mx.array)
    assert_type(x < 0, mx.array)
    assert_type(-x, mx.array)
    assert_type(divmod(x, 2), tuple[mx.array, mx.array])
    x += y
    x **= 2
    return mx.where(x > 0, x, -x)


def attributes(x: mx.array) -> None:
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.dtype, mx.Dtype)
    assert_type(x.size, int)
    assert_type(x.T, mx.array)
    assert_type(len(x), int)
    assert_type(float(x), float)
    assert_type(int(x), int)
    assert_type(mx.finfo(x.dtype).eps, float)
    assert_type({x: "arrays can be keys"}, dict[mx.array, str])


def indexing(x: mx.array, rows: mx.array) -> mx.array:
    x[0] = 1
    x[:, rows] = x[..., None, 0]
    assert_type(list(x), list[mx.array])
    return x.at[rows].add(1)


def shapes_and_folds(x: mx.array, axes: Sequence[int]) -> mx.array:
    assert_type(x.reshape(2, -1).transpose(1, 0), mx.array)
    assert_type(mx.split(x, 2, axis=0), list[mx.array])
    assert_type(mx.broadcast_shapes((3, 1), (4,)), tuple[int, ...])
    assert_type(mx.concatenate([x, x], axis=-1), mx.array)
    assert_type(x.sum(axis=(0, 1)).max(), mx.array)
    q, r = mx.linalg.qr(x)
    assert_type(q @ r, mx.array)
    assert_type(mx.linalg.eigh(x).eigenvalues, mx.array)
    assert_type(mx.clip(x, min=0, max=mx.full((2,), fill_value=3)), mx.array)
    assert_type(mx.roll(mx.roll(x, 1, 0), shift=1, axis=0), mx.array)
    assert_type(mx.fft.rfft(x, norm="ortho"), mx.array)
    assert_type(mx.random.normal((2, 3), key=mx.random.key(0)), mx.array)
    return mx.mean(x, axis=axes, keepdims=True)


def transforms(loss: Callable[[mx.array], mx.array], x: mx.array) -> None:
    value, gradient = mx.value_and_grad(loss)(x)
    print(value, gradient)
    outputs, products = mx.vjp(loss, [x], [x])
    assert_type(outputs, list[mx.array])
    assert_type(products, list[mx.array])
    assert_type(mx.vmap(loss)(x), mx.array)

    def double(y: mx.array) -> mx.array:
        return 2 * y

    custom: Any = mx.custom_function(double)(x)
    mx.eval(value, {"all": [gradient, custom]})


def devices(x: mx.array) -> mx.array:
    with mx.stream(mx.cpu):
        y = mx.exp(x)
    stream = mx.new_stream(mx.Device(mx.cpu, 0))
    assert_type(stream.device.index, int)
    mx.synchronize(stream)
    return mx.add(y, 1, stream=stream)


def mistakes(x: mx.array) -> None:
    """Each line is one: an ignore that is not needed is an error in both checkers."""
    mx.zeros("3")  # type: ignore[arg-type]
    mx.softmax()  # type: ignore[call-arg]
    mx.add(x)  # type: ignore[call-arg]
    mx.arange(3, dtype="int32")  # type: ignore[arg-type]
    x.sum(axis="rows")  # type: ignore[arg-type]
    x.no_such_method()  # type: ignore[attr-defined]
    mx.no_such_function(x)  # type: ignore[attr-defined]
    mx.linalg.inv(a=x, b=x)  # type: ignore[call-arg]
    mx.exp(a=x)  # type: ignore[call-arg]
