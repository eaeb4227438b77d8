"""What programs written for NumPy or for other builds of this package rely on: result types, forms of
arguments, memory shared with others, and errors that name what was called."""

import mlx.core as mx
import numpy as np
import pytest


@pytest.mark.parametrize("fold", [mx.sum, mx.prod, lambda x: x.sum(), lambda x: x.prod()])
def test_folds_of_narrow_integers_keep_their_sign(fold):
    for narrow, wide in [
        (mx.uint8, mx.uint32), (mx.uint16, mx.uint32), (mx.int8, mx.int32), (mx.int16, mx.int32),
        (mx.bool_, mx.int32), (mx.uint32, mx.uint32), (mx.uint64, mx.uint64), (mx.int64, mx.int64),
    ]:  # fmt: skip
        assert fold(mx.ones((3,), narrow)).dtype == wide
    assert mx.sum(mx.full((3, 1000), 65535, mx.uint16)).item() == 3 * 1000 * 65535
    assert mx.prod(mx.array([255, 255, 255], mx.uint8)).item() == 255**3
    assert mx.trace(mx.ones((2, 2), mx.uint8)).dtype == mx.uint32


def test_shifts_of_bool_are_of_uint8():
    x = mx.array([True, False])
    for got, want in [(x << True, [2, 0]), (x << x, [2, 0]), (x >> x, [0, 0]), (True << x, [2, 1])]:
        assert got.dtype == mx.uint8 and got.tolist() == want
    x <<= True
    assert x.dtype == mx.uint8 and x.tolist() == [2, 0]


def test_arange_past_int32():
    for args in [(2**31 - 2, 2**31 + 1), (-(2**31) - 1, -(2**31) + 1), (0, 5 * 2**31, 2**31), (2**53 - 2, 2**53)]:
        got = mx.arange(*args)
        assert got.dtype == mx.int64 and got.tolist() == list(range(*args))
    assert mx.arange(-(2**31), -(2**31) + 2).dtype == mx.int32
    assert mx.arange(2**31 - 3, 2**31 - 1).dtype == mx.int32
    with pytest.raises(ValueError, match=r"\[arange\] .*2\*\*53"):
        mx.arange(2**53 + 1, 2**53 + 3)


def test_roll_adds_up_several_shifts_of_one_axis():
    a = np.arange(6).reshape(2, 3)
    for shift, axis in [((1, 2), 0), ((1, 1), 1), ((2, -1, 4), (1,))]:
        assert np.array_equal(mx.roll(mx.array(a), shift, axis), np.roll(a, shift, axis))


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_flattens(indexing):
    parts = [np.arange(4).reshape(2, 2), np.array(7), np.arange(3)]
    got = mx.meshgrid(*map(mx.array, parts), indexing=indexing)
    for x, y in zip(got, np.meshgrid(*parts, indexing=indexing)):
        assert np.array_equal(x, y)


# Numbers from elsewhere, and back


def test_bfloat16_of_ml_dtypes_both_ways():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    values = [[1.0, 2.5, -0.0], [float("inf"), 3.140625, 1e-38]]
    a = np.array(values, bfloat16)
    for given in (a, a.T.copy().T, a[:, ::-1][:, ::-1]):
        x = mx.array(given)
        assert x.dtype == mx.bfloat16 and x.tolist() == a.astype(np.float64).tolist()
    assert mx.array(bfloat16(1.5)).dtype == mx.bfloat16 and mx.array(bfloat16(1.5)).item() == 1.5
    assert mx.array(a, mx.float32).dtype == mx.float32
    assert (mx.ones((2, 3), mx.bfloat16) + a).dtype == mx.bfloat16
    x = mx.array(values, mx.bfloat16)
    for back in (np.array(x), np.asarray(x.T).T, np.asarray(x[:, ::2])):
        assert back.dtype == bfloat16
        assert back.tolist() == a[:, :: 3 // back.shape[1] + (back.shape[1] == 2)].tolist()
    assert np.array(x, dtype=np.float64).tolist() == a.astype(np.float64).tolist()
    assert np.array(mx.array(2.5, mx.bfloat16)).shape == ()


def test_buffers():
    import array

    for given in (b"ab\xff", bytearray(b"ab\xff"), memoryview(b"ab\xff")):
        x = mx.array(given)
        assert x.dtype == mx.uint8 and x.tolist() == [97, 98, 255]
    for code, dtype in zip("bBhHiIqQfd", [mx.int8, mx.uint8, mx.int16, mx.uint16, mx.int32, mx.uint32, mx.int64,
                                          mx.uint64, mx.float32, mx.float32]):  # fmt: skip
        x = mx.array(array.array(code, [1, 2, 3]))
        assert x.dtype == dtype and x.tolist() == [1, 2, 3]
    grid = memoryview(np.arange(12.0).reshape(3, 4).astype(np.float32))
    assert mx.array(grid).tolist() == grid.tolist()
    assert mx.array(np.arange(12).reshape(3, 4)[::2, ::-1]).tolist() == [[3, 2, 1, 0], [11, 10, 9, 8]]
    assert mx.array(b"").shape == (0,)
    with pytest.raises(TypeError, match=r"\[array\]"):
        mx.array(array.array("u", "ab"))
    with pytest.raises(TypeError):
        mx.array(np.array([1, 2], ">i4"))


def test_dlpack_and_buffers_share_memory():
    x = mx.arange(6, dtype=mx.float32).reshape(2, 3) + 1
    mx.eval(x)
    here = np.asarray(x).__array_interface__["data"][0]
    assert np.from_dlpack(x).__array_interface__["data"][0] == here
    assert np.array(memoryview(x), copy=False).__array_interface__["data"][0] == here
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shared in (mx.asarray(a, copy=False), mx.from_dlpack(a, copy=False)):
        assert np.asarray(shared).__array_interface__["data"][0] == a.__array_interface__["data"][0]
        assert shared.tolist() == a.tolist()
    for copied in (mx.array(a), mx.asarray(a, copy=True), mx.from_dlpack(a, copy=True)):
        assert np.asarray(copied).__array_interface__["data"][0] != a.__array_interface__["data"][0]
    with pytest.raises(ValueError, match="without a copy"):
        mx.asarray(a[:, ::2], copy=False)


def test_dlpack_with_torch():
    torch = pytest.importorskip("torch")
    x = mx.array(np.arange(6, dtype=np.float32))
    t = torch.from_dlpack(x)
    assert t.tolist() == x.tolist() and t.data_ptr() == np.asarray(x).__array_interface__["data"][0]
    assert mx.array(torch.ones(2, dtype=torch.bfloat16)).dtype == mx.bfloat16


def test_nested_lists_of_arrays_and_numbers():
    a, n = mx.array([1, 2]), np.array([3.5, 4.5], np.float32)
    for given, want, dtype in [
        ([a, [3, 4]], [[1, 2], [3, 4]], mx.int32),
        ([[3, 4], a], [[3, 4], [1, 2]], mx.int32),
        ([a, [3, 4.5]], [[1, 2], [3, 4.5]], mx.float32),
        ([n, a, (5, True)], [[3.5, 4.5], [1, 2], [5, 1]], mx.float32),
        ([[mx.array(1), 2], [3, mx.array(4.5)]], [[1, 2], [3, 4.5]], mx.float32),
        ([[a, [5, 6]], [[7, 8], n]], [[[1, 2], [5, 6]], [[7, 8], [3.5, 4.5]]], mx.float32),
        ([np.int8(1), mx.array(2, mx.int8)], [1, 2], mx.int8),
    ]:
        x = mx.array(given)
        assert x.tolist() == want and x.dtype == dtype
    assert mx.grad(lambda a: mx.array([[a, 2.0], [3.0, a * a]]).sum())(mx.array(3.0)).item() == 7


@pytest.mark.parametrize(
    "given, place",
    [
        ([[1, 2], [3]], r"\[1\]"),
        ([[1, 2], 3], r"\[1\]"),
        ([1, [2]], r"\[1\]"),
        ([[[1], [2]], [[3], [4, 5]]], r"\[1, 1\]"),
        ([mx.zeros(2), mx.zeros(3)], r"\[1\]"),
        ([mx.zeros(2), [1, 2, 3]], r"\[1\]"),
        ([mx.zeros(2), 1], r"\[1\]"),
        ([[mx.array(1), 2], [3, mx.array([4])]], r"\[1, 1\]"),
        ([[mx.zeros(2)], [np.zeros(2)], [np.zeros(3)]], r"\[2\]"),
    ],
)
def test_ragged_lists_are_refused_with_the_place(given, place):
    with pytest.raises(ValueError, match=r"^\[array\] .* at " + place):
        mx.array(given)


class Two:
    def __index__(self):
        return 2


def test_whatever_has_an_index():
    a = np.arange(24).reshape(4, 6)
    x = mx.array(a)
    for i in (np.int8(-1), np.uint64(1), np.int64(2), np.array(2), Two()):
        assert x[i].tolist() == a[i].tolist()
        assert x[:, i].tolist() == a[:, i].tolist()
        assert x[i:].tolist() == a[i:].tolist()
    assert x[Two(), np.int16(0) : Two()].tolist() == [12, 13]
    x[Two(), np.int64(1)] = -1
    assert x[2, 1].item() == -1
    for i in (b"ab", bytearray(b"ab"), "ab", 1.0, np.float32(1), range(2), {1}, object()):
        for use in (lambda i: mx.arange(200)[i], lambda i: mx.arange(200)[:, i], lambda i: mx.arange(200).at[i].add(1)):
            with pytest.raises(IndexError):
                use(i)
        with pytest.raises(IndexError):
            x[i] = 0


def test_bounds_of_randint_fit_the_type():
    for low, high, dtype in [
        (0, 1000, mx.int8), (-129, 0, mx.int8), (0, 129, mx.int8), (-1, 5, mx.uint8), (0, 257, mx.uint8),
        (0, 3, mx.bool_), (0, 2**31 + 1, mx.int32), (0, np.int64(300), mx.uint8),
        (mx.array(0), 1000, mx.int8), (np.nan, mx.array(5), mx.int32),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=r"^\[randint\] .* bound"):
            mx.random.randint(low, high, (3,), dtype=dtype)
    for low, high, dtype in [
        (-128, 128, mx.int8), (0, 256, mx.uint8), (0, 2, mx.bool_), (-(2**31), 2**31, mx.int32), (0, 2**32, mx.uint32),
    ]:  # fmt: skip
        x = np.array(mx.random.randint(low, high, (1000,), dtype=dtype)).astype(np.int64)
        assert x.min() >= low and x.max() < high and len(set(x.tolist())) > min(high - low, 100) // 2


# Errors name the operation that was called


@pytest.mark.parametrize(
    "name, call",
    [
        ("normal", lambda: mx.random.normal((-3,))),
        ("uniform", lambda: mx.random.uniform(shape=(-3,))),
        ("randint", lambda: mx.random.randint(0, 5, (-3,))),
        ("bernoulli", lambda: mx.random.bernoulli(0.5, (-3,))),
        ("gumbel", lambda: mx.random.gumbel((-3,))),
        ("laplace", lambda: mx.random.laplace((-3,))),
        ("truncated_normal", lambda: mx.random.truncated_normal(0, 1, (-3,))),
        ("truncated_normal", lambda: mx.random.truncated_normal(mx.zeros(2), 1, (3,))),
        ("randint", lambda: mx.random.randint(mx.zeros(2), 1, (3,))),
        ("normal", lambda: mx.random.normal((3,), key=mx.array([1, 2]))),
        (r"random\.split", lambda: mx.random.split(mx.array([1, 2]))),
        ("permutation", lambda: mx.random.permutation(3, key=mx.array([1, 2]))),
        ("categorical", lambda: mx.random.categorical(mx.zeros((3, 0)))),
        ("categorical", lambda: mx.random.categorical(mx.zeros((3, 0)), num_samples=2)),
        ("categorical", lambda: mx.random.categorical(mx.zeros((3, 2)), key=mx.array([1, 2]))),
        ("take", lambda: mx.take(mx.arange(5), mx.array([1, 5]))),
        ("take", lambda: mx.take(mx.zeros((3, 3)), mx.array([-4]), axis=1)),
        ("getitem", lambda: mx.zeros((3, 3))[mx.array([3])]),
        ("take_along_axis", lambda: mx.take_along_axis(mx.zeros((2, 3)), mx.array([[5]]), 1)),
        ("put_along_axis", lambda: mx.put_along_axis(mx.zeros((2, 3)), mx.array([[5]]), mx.array(1), 1)),
        ("put_along_axis", lambda: mx.put_along_axis(mx.zeros((2, 3)), mx.array([[1]]), mx.zeros(4), 1)),
        ("cross_entropy", lambda: mx.fast.cross_entropy(mx.zeros((2, 3)), mx.array([0, 3]))),
        ("take", lambda: mx.vmap(lambda i: mx.take(mx.arange(5), i))(mx.array([[1], [5]]))),
        ("eye", lambda: mx.eye(2**31 - 1)),
        ("repeat", lambda: mx.repeat(mx.arange(3), 2**31 - 1)),
        ("repeat", lambda: mx.repeat(mx.zeros((4, 3)), 2**30, 1)),
        ("allclose", lambda: mx.allclose(mx.zeros((2, 3)), mx.zeros(4))),
        ("isclose", lambda: mx.isclose(mx.zeros((2, 3)), mx.zeros(4))),
        ("clip", lambda: mx.clip(mx.zeros(3), mx.zeros(2), 1)),
        ("vecdot", lambda: mx.vecdot(mx.zeros(3), mx.zeros(2))),
        ("rfft", lambda: mx.fft.rfft(mx.array([1j, 2]))),
    ],
)
def test_errors_name_what_was_called(name, call, index_errors):
    with pytest.raises((ValueError, IndexError), match=rf"^\[{name}\] "):
        mx.eval(call())


def test_errors_of_layers_name_an_operation_of_theirs(index_errors):
    from mlx import nn

    with pytest.raises(IndexError, match=r"^\[(getitem|take)\] index 7 "):
        mx.eval(nn.Embedding(4, 3)(mx.array([7])))
    with pytest.raises(IndexError, match=r"^\[(take_along_axis|cross_entropy)\] index 7 "):
        mx.eval(nn.losses.cross_entropy(mx.zeros((2, 3)), mx.array([7, 1])))


@pytest.mark.parametrize("shape, reps", [
    ((2,), [1] * 63 + [3]),
    ((1,) * 40 + (2, 3), [2] + [1] * 39 + [3, 2]),
    ((1,) * 63 + (3,), [2] * 4 + [1] * 58 + [2, 2]),
    ((2, 0) + (1,) * 62, [3, 2, 2] + [1] * 61),
    ((2,) + (1,) * 39, [2] + [1] * 38 + [0]),
    ((2, 3), [1] * 33),
    ((3,) + (1,) * 32, [2]),
])  # fmt: skip
def test_tile_of_many_dimensions(shape, reps):
    """NumPy's own has at most 64 or 32 dimensions: compared without those of size 1 that are repeated once."""
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    got = mx.tile(mx.array(x.ravel()).reshape(shape), reps)
    m = max(len(shape), len(reps))
    sizes, times = (1,) * (m - len(shape)) + shape, [1] * (m - len(reps)) + reps
    kept = [i for i in range(m) if (sizes[i], times[i]) != (1, 1)]
    want = np.tile(x.reshape([sizes[i] for i in kept]), [times[i] for i in kept])
    assert got.shape == tuple(s * t for s, t in zip(sizes, times))
    np.testing.assert_array_equal(np.array(got.flatten()), want.ravel())
    w = mx.arange(float(got.size)).reshape(got.shape)
    grad = mx.grad(lambda a: (mx.tile(a, reps) * w).sum())(mx.array(x.ravel()).reshape(shape))
    sums = np.arange(got.size, dtype=np.float64).reshape([n for i in kept for n in (times[i], sizes[i])])
    np.testing.assert_allclose(np.array(grad.flatten()), sums.sum(tuple(range(0, 2 * len(kept), 2))).ravel())


def test_tile_of_many_dimensions_for_any_size():
    f = mx.compile(lambda x: mx.tile(x, [1] * 32 + [2, 3]), shapeless=True)
    for n in (2, 5):
        x = np.arange(2.0 * n, dtype=np.float32).reshape(2, n)
        np.testing.assert_array_equal(np.array(f(mx.array(x)).flatten()), np.tile(x, (2, 3)).ravel())
    with pytest.raises(ValueError, match="at most 64"):
        mx.tile(mx.ones(2), [1] * 65)
