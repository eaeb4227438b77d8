"""Arrays of more than 2^31 elements: those that are views of little, and those that are there."""

import pathlib
import re

import mlx.core as mx
import numpy as np
import pytest

N = 2**30 + 7
SIDE = 50000


def test_diagonals_of_large_matrices():
    rows = mx.broadcast_to(mx.arange(SIDE), (SIDE, SIDE))
    assert mx.trace(rows).item() == SIDE * (SIDE - 1) // 2
    assert mx.trace(rows, SIDE - 1).item() == SIDE - 1 and mx.trace(rows, -SIDE).item() == 0
    np.testing.assert_array_equal(mx.diagonal(rows, 3), np.arange(3, SIDE))
    np.testing.assert_array_equal(mx.diagonal(rows, -3), np.arange(SIDE - 3))
    np.testing.assert_array_equal(mx.diagonal(rows[::-1, ::-1], 1), np.arange(SIDE - 1)[::-1])
    two = mx.broadcast_to(mx.stack([rows[0], rows[0] + 1])[:, None], (2, SIDE, SIDE))
    np.testing.assert_array_equal(mx.vmap(mx.diagonal)(two)[:, -9:], [range(SIDE - 9, SIDE), range(SIDE - 8, SIDE + 1)])


@pytest.mark.slow
def test_reductions_of_large_views():
    x = mx.broadcast_to(mx.arange(1 << 16, dtype=mx.float32) / (1 << 16), (1 << 15, 1 << 16))
    mean = 0.5 - 0.5**17
    for y in x, x[:, ::-1].T:
        assert mx.mean(y).item() == pytest.approx(mean, 1e-6)
        assert mx.sum(y).item() == pytest.approx(mean * 2**31, 1e-6)
        assert mx.var(y).item() == pytest.approx((1 - 0.5**32) / 12, 1e-5)
        assert mx.max(y).item() == 1 - 0.5**16 and mx.min(y).item() == 0
    assert mx.logsumexp(x).item() == pytest.approx(np.log(2.0**31 * (np.e - 1)), 1e-5)


def square(x):
    """All but 14 of the elements, the last of them kept."""
    return x[:, 7:].reshape(1 << 15, 1 << 16)


RESULTS = {
    "sum": (lambda x: x.sum(), 12),
    "sum of rows": (lambda x: x.sum(axis=1), [2, 10]),
    "mean": (lambda x: mx.mean(x, axis=1) * N, [2, 10]),
    "max": (lambda x: x.max(), 7),
    "max of rows": (lambda x: x.max(axis=1), [2, 7]),
    "min": (lambda x: x.min(), 0),
    "any": (lambda x: mx.any(x), True),
    "all": (lambda x: mx.all(x + 1), True),
    "prod": (lambda x: mx.prod(x + 1), 3 * 8 * 4),
    "argmax": (lambda x: mx.argmax(x, axis=1), [5, N - 1]),
    "argmin": (lambda x: mx.argmin(x, axis=1), [0, 0]),
    "nonzero": (lambda x: mx.nonzero(x), [[0, 1, 1], [5, N - 3, N - 1]]),
    "item": (lambda x: x[1, N - 1], 7),
    "take": (lambda x: mx.take(x, mx.array([N - 1, 5]), axis=1), [[0, 2], [7, 0]]),
    "gather": (lambda x: x[mx.array([1, 0]), mx.array([N - 3, 5])], [3, 2]),
    "take_along_axis": (lambda x: mx.take_along_axis(x, mx.array([[5], [N - 1]]), axis=1), [[2], [7]]),
    "transposed copy": (lambda x: mx.contiguous(square(x).T)[-3:, -2:], [[0, 3], [0, 0], [0, 7]]),
    "strided copy": (lambda x: mx.contiguous(x[:, ::2])[:, -2:], [[0, 0], [3, 7]]),
    "reversed copy": (lambda x: mx.contiguous(x[::-1, ::-1])[:, :3], [[7, 0, 3], [0, 0, 0]]),
    "element-wise": (lambda x: mx.where(x > 2, x, 1)[:, -3:], [[1, 1, 1], [3, 1, 7]]),
    "scan of rows": (lambda x: mx.cummax(x, axis=1)[:, -3:], [[2, 2, 2], [3, 3, 7]]),
    "scan of columns": (lambda x: mx.cummax(square(x), axis=0)[-2:, -3:], [[0, 0, 0], [3, 0, 7]]),
    "scan back": (lambda x: mx.cummin(x, axis=1, reverse=True)[:, -3:], [[0, 0, 0], [0, 0, 7]]),
    "sort": (lambda x: mx.sort(x, axis=1)[:, -3:], [[0, 0, 2], [0, 3, 7]]),
    "partition": (lambda x: mx.partition(x, N - 2, axis=1)[:, N - 2 :], [[0, 2], [3, 7]]),
    "topk": (lambda x: mx.topk(x, 3, axis=1), [[0, 0, 2], [0, 3, 7]]),
    "reshape": (lambda x: x.reshape(N, 2)[-3:], [[0, 0], [0, 3], [0, 7]]),
    "concatenate": (lambda x: mx.concatenate([x[:, :-1], x[:, -1:]], axis=1)[:, -3:], [[0, 0, 0], [3, 0, 7]]),
    "pad": (lambda x: mx.pad(x, [(0, 0), (0, 1)])[:, -4:], [[0, 0, 0, 0], [3, 0, 7, 0]]),
    "roll": (lambda x: mx.roll(x, 1, axis=1)[:, :3], [[0, 0, 0], [7, 0, 0]]),
    "view": (lambda x: x[:, : N - 7].view(mx.uint32)[:, 1], [512, 0]),
    "scatter": (lambda x: x.at[1, N - 2].add(9)[:, -3:], [[0, 0, 0], [3, 9, 7]]),
    "equality": (lambda x: mx.array_equal(x, x), True),
}


TOO_LONG = [mx.argmax, mx.flatten, mx.flatnonzero, lambda x: x[x > 0], lambda x: mx.roll(x, 1), lambda x: mx.take(x, 5)]


def available():
    text = pathlib.Path("/proc/meminfo").read_text()
    return int(re.search(r"MemAvailable: *([0-9]+)", text)[1]) << 10


# One test, so that it is run by one process.
@pytest.mark.slow
def test_large_arrays():
    if available() < 10 << 30:
        pytest.skip("less than 10 GiB of memory are free")
    x = mx.zeros((2, N), mx.uint8)
    x[0, 5], x[1, N - 3], x[1, N - 1] = 2, 3, 7
    mx.eval(x)
    for name, (f, want) in RESULTS.items():
        got = f(x)
        assert (list(map(mx.array.tolist, got)) if isinstance(got, (list, tuple)) else got.tolist()) == want, name
        mx.clear_cache()
    for f in TOO_LONG:
        with pytest.raises(ValueError, match="expected dimensions up to 2147483647 of the result, got 2147483662"):
            mx.eval(f(x))
    del x
    mx.clear_cache()
