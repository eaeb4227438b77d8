"""x[...], x[...] = v and x.at[...] against NumPy, on random arrays and random indices."""

import operator

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

shapes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)


def iota(shape, dtype=np.float32):
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def slices(n):
    bound = st.none() | st.integers(-n - 2, n + 2)
    step = st.none() | st.integers(-3, 3).filter(bool)
    return st.builds(slice, bound, bound, step)


@st.composite
def index_arrays(draw, n, shape):
    dtype = draw(st.sampled_from(["int32", "int64", "uint8", "int8"]))
    low = 0 if dtype == "uint8" else -n
    values = draw(st.lists(st.integers(low, n - 1), min_size=1, max_size=1 + int(np.prod(shape))))
    return np.resize(np.array(values, dtype), shape)


@st.composite
def indices(draw, shape, arrays=True):
    """A tuple of items for an array of this shape, and whether it holds index arrays."""
    items = []
    taken = draw(st.integers(0, len(shape)))
    common = draw(shapes.filter(lambda s: len(s) < 3 and 0 not in s))
    has_array = False
    dims = list(shape[:taken])
    use_ellipsis = draw(st.booleans())
    where = draw(st.integers(0, taken)) if use_ellipsis else None
    if use_ellipsis:
        behind = shape[len(shape) - (taken - where) :] if taken > where else ()
        dims = list(shape[:where]) + list(behind)
    for i, n in enumerate(dims):
        if use_ellipsis and i == where:
            items.append(...)
        if draw(st.integers(0, 7)) == 0:
            items.append(None)
        kinds = ["slice", "slice"] + (["int"] if n else []) + (["array"] if n and arrays else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "slice":
            items.append(draw(slices(n)))
        elif kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        else:
            cut = draw(st.integers(0, len(common)))
            part = tuple(draw(st.sampled_from([1, k])) for k in common[cut:])
            items.append(draw(index_arrays(n, part)))
            has_array = True
    if use_ellipsis and where == taken:
        items.append(...)
    if draw(st.integers(0, 5)) == 0:
        items.append(None)
    return tuple(items), has_array


@st.composite
def arrays_and_indices(draw, arrays=True):
    shape = draw(shapes)
    index, has_array = draw(indices(shape, arrays))
    return shape, index, has_array


def ours(index):
    """The same index with our arrays in it."""
    if isinstance(index, tuple):
        return tuple(mx.array(i) if isinstance(i, np.ndarray) else i for i in index)
    return mx.array(index) if isinstance(index, np.ndarray) else index


@settings(max_examples=600)
@given(arrays_and_indices())
def test_reading(case):
    shape, index, _ = case
    a = iota(shape)
    got = mx.array(a)[ours(index)]
    assert got.shape == a[index].shape
    assert np.array_equal(np.array(got), a[index])


@settings(max_examples=300)
@given(arrays_and_indices(), st.data())
def test_writing(case, data):
    shape, index, _ = case
    a = iota(shape)
    part = a[index].shape
    # A value of the part's shape, or one that broadcasts to it; with repeated indices one number.
    kind = data.draw(st.sampled_from(["scalar", "whole", "broadcast"]))
    value = np.float32(-1)
    if kind != "scalar":
        cut = data.draw(st.integers(0, len(part))) if kind == "broadcast" else 0
        vshape = tuple(1 if kind == "broadcast" and data.draw(st.booleans()) else n for n in part[cut:])
        value = -1 - iota(vshape)
    where = np.zeros(shape, int)
    np.add.at(where, index, 1)
    assume(kind == "scalar" or where.max(initial=0) <= 1)
    x = mx.array(a)
    x[ours(index)] = float(value) if kind == "scalar" else mx.array(value)
    a[index] = value
    assert np.array_equal(np.array(x), a)


@settings(max_examples=300)
@given(arrays_and_indices(), st.sampled_from(["add", "subtract", "multiply", "maximum", "minimum"]))
def test_updates_fold_repeated_indices(case, name):
    shape, index, _ = case
    a = iota(shape)
    value = -2 - iota(a[index].shape) % 3
    got = getattr(mx.array(a).at[ours(index)], name)(mx.array(value))
    getattr(np, name).at(a, index, value)
    assert np.array_equal(np.array(got), a)


@pytest.mark.parametrize("t", ["int32", "uint32", "int64"])
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
def test_updates_of_many_elements(name, t):
    rng = np.random.default_rng(8)
    for n in (1, 15, 16, 17, 511, 512, 513, 1500, 5000):
        for negative in (0, 1, n // 2) if t != "uint32" else (0,):
            i, a = rng.integers(0, 7000, n), rng.choice([-1, 1, 2], 7000)
            i[rng.integers(0, n, negative)] -= 7000
            u = rng.choice([-1, 1], (n, 2)) if name == "multiply" else rng.integers(-9, 9, (n, 2))
            for dtype, value in (("float32", u[:, 0]), ("int8", u[:, 1]), ("float16", u[:, 0]), ("float32", u.T[1])):
                got = getattr(mx.array(a, getattr(mx, dtype)).at[mx.array(i.astype(t))], name)
                want = a.copy()
                getattr(np, name).at(want, i, value)
                assert np.array_equal(np.array(got(mx.array(value, getattr(mx, dtype)))), want.astype(dtype))


@settings(max_examples=200)
@given(arrays_and_indices(), st.data())
def test_gradients_of_reading_and_writing(case, data):
    """The derivative of <w, x[i]> is w at i; of <w, x after x[i] = v> it is w with zeros at i."""
    shape, index, has_array = case
    a = iota(shape)
    assume(a[index].size)
    w = iota(a[index].shape) + 1
    got = mx.grad(lambda x: (mx.array(w) * x[ours(index)]).sum())(mx.array(a))
    want = np.zeros(shape, np.float32)
    np.add.at(want, index, w)
    assert np.array_equal(np.array(got), want)

    def written(x, v):
        x[ours(index)] = v
        return (x * mx.array(whole)).sum()

    whole = iota(shape) + 1
    dx, dv = mx.grad(written, argnums=(0, 1))(mx.array(a), mx.array(w))
    keep = np.ones(shape, np.float32)
    keep[index] = 0
    assert np.array_equal(np.array(dx), whole * keep)
    counts = np.zeros(shape, int)
    np.add.at(counts, index, 1)
    if counts.max() <= 1:
        assert np.array_equal(np.array(dv), whole[index])


def test_forms_that_are_easily_got_wrong():
    a = iota((2, 3, 4))
    x = mx.array(a)
    i, j = np.array([0, 1]), np.array([[1], [0]])
    for index in [
        np.s_[0, :, i],  # an int apart from an array: the arrays' axes come first
        np.s_[:, 0, i],
        np.s_[:, i, ..., j],  # an ellipsis that stands for nothing still parts them
        np.s_[i, None, :, j],
        np.s_[None, i, j],
        np.s_[..., i],
        np.s_[i, ..., 0],
        np.s_[1:1, i],
        np.s_[[[0, 1], [1, 0]]],
        np.s_[()],
        np.s_[None],
        np.s_[-1, ..., None, ::-1],
    ]:
        want = a[index]
        got = x[ours(index)]
        assert got.shape == want.shape, index
        assert np.array_equal(np.array(got), want), index


EMPTY = {
    "i": np.array([0]),
    "j": np.array([0, 1]),
    "z": np.zeros(0, np.int32),
    "zz": np.zeros((2, 0), np.int32),
    "mask": np.zeros(0, bool),
    "mask2": np.zeros((3, 0), bool),
}


@pytest.mark.parametrize(
    "shape, index",
    [
        ((3, 0), "i z"),
        ((3, 0), "z i"),
        ((3, 0), "j z"),
        ((3, 0), "i mask"),
        ((3, 0), "mask2"),
        ((3, 0), "... mask"),
        ((3, 0), ": z"),
        ((0, 3), "z"),
        ((0, 3), "zz"),
        ((0, 3), "zz j"),
        ((0, 3), "mask None"),
        ((0, 0), "z z"),
        ((0, 0), "i z"),
        ((3, 2, 0), "i : z"),
        ((3, 0, 2), "0 z"),
        ((3, 0, 3), "i : i"),
        ((3, 0, 3), "i z i"),
        ((0, 3), "i"),
        ((3, 0), ": 0"),
        ((3, 0), "j i"),
        ((3, 2), "z j"),
    ],
)
def test_axes_without_elements(shape, index):
    def items(make):
        return tuple(make(EMPTY[w]) if w in EMPTY else eval(w, {}) if w != ":" else slice(None) for w in index.split())

    x, here, there = np.ones(shape), items(mx.array), items(lambda a: a)
    try:
        want = x[there]
    except IndexError:
        with pytest.raises(IndexError, match=r"\[getitem\] .*(out of (range|bounds) for axis|cannot be broadcast)"):
            mx.eval(mx.array(x)[here])
        return
    assert mx.array(x)[here].shape == want.shape
    for value in (2, np.full(want.shape, 2)):
        a, b = mx.array(x), x.copy()
        a[here], b[there] = mx.array(value), value
        assert np.array_equal(a, b)
        assert np.array_equal(mx.array(x).at[here].add(mx.array(value)), b + (b != x))
    assert mx.grad(lambda a: a[here].sum())(mx.array(x)).shape == shape
    assert mx.vmap(lambda a: a[here])(mx.array(x[None])).shape == (1, *want.shape) or "mask" in index


def test_refused_assignments_from_outside_of_the_interpreters_loop():
    x = mx.arange(4)
    for index, error in (("a", IndexError), ((0, 0), IndexError), (2**70, IndexError)):
        with pytest.raises(error):
            operator.setitem(x, index, 1)
    for value in ("a", object(), [1, "a"]):
        with pytest.raises(mx.Error):
            operator.setitem(x, 0, value)
    with pytest.raises(TypeError):
        operator.delitem(x, 0)
    assert x.tolist() == [0, 1, 2, 3]


def test_assignment_through_an_array_beside_an_empty_slice_changes_nothing():
    x = mx.array(iota((3, 4)))
    x[mx.array([0, 1]), 2:2] = 5
    assert np.array_equal(np.array(x), iota((3, 4)))
    assert np.array_equal(np.array(x.at[mx.array([0, 1]), 2:2].add(1)), iota((3, 4)))


def test_what_else_can_be_an_index():
    x = mx.arange(10)
    assert x[np.int64(3)].item() == 3
    assert x[mx.array(3)].item() == 3
    assert x[mx.array(1) : np.int8(4)].tolist() == [1, 2, 3]
    assert x[[1, -1]].tolist() == [1, 9]
    assert x[np.array([1, -1])].tolist() == [1, 9]
    assert x[[]].shape == (0,)
    assert x[10**30 :].shape == (0,)
    assert x[-(10**30) : 10**30 : 10**30].tolist() == [0]

    class Two:
        def __index__(self):
            return 2

    assert x[Two()].item() == 2


def test_a_reference_sees_what_another_writes():
    a = mx.array([1, 2, 3])
    b = a
    b[2] = 0
    assert a.tolist() == [1, 2, 0]
    c = +a
    c[0] = 7
    assert a.tolist() == [1, 2, 0]


def test_values_take_the_dtype_of_the_array():
    x = mx.zeros((3,), mx.int32)
    x[0] = 2.9
    x[1] = True
    x[2] = mx.array(-1.5)
    assert x.tolist() == [2, 1, -1]
    x[:] = [4, 5, 6]
    assert x.tolist() == [4, 5, 6]
    x[:] = np.array([7, 8, 9])
    assert x.tolist() == [7, 8, 9]
    with pytest.raises(ValueError, match="expected a number that fits uint8, got 256"):
        mx.zeros(1, mx.uint8)[0] = 256
    x[0] = 1 + 1j
    assert x.tolist() == [1, 8, 9]


def test_leading_sizes_of_one_are_dropped_from_a_value():
    x = mx.zeros((2, 3))
    x[0] = mx.ones((1, 1, 3))
    assert x.tolist() == [[1, 1, 1], [0, 0, 0]]
    with pytest.raises(ValueError, match=r"\(2,3\)"):
        x[0] = mx.ones((2, 3))


MASKS = {"T": np.array(True), "F": np.array(False), "m": np.array([True, False]), "j": np.array([0, 1]), "...": ...}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize(
    "index",
    ["T", "F", "T ...", "... T", "F ...", "None T", "T None", "T 0", "0 T", "F 0 ...", "T T", "T F", "T j", "j T"]
    + ["T m", "m T", "0 ... T", "T ... 0 T", "m F"],
)
def test_masks_without_dimensions_beside_others(index, lazy):
    def items(make):
        return tuple(make(MASKS[w]) if w in MASKS else eval(w) for w in index.split())

    def ours(v):
        return v if v is ... else mx.array(v) if not lazy or v.dtype != bool else mx.array(v.astype("f")) > 0

    for shape in (2, 3), (2, 2, 4):
        x, there = iota(shape), items(lambda v: v)
        try:
            want = x[there]
        except IndexError:
            with pytest.raises(IndexError, match=r"\[getitem\]"):
                mx.array(x)[items(ours)]
            continue
        got = mx.array(x)[items(ours)]
        assert got.shape == want.shape and np.array_equal(got, want)
        for value in -1.0, np.full(want.shape, -2.0):
            a, b = mx.array(x), x.copy()
            a[items(ours)], b[there] = mx.array(value), value
            assert np.array_equal(a, b)
            assert np.array_equal(mx.array(x).at[items(ours)].add(mx.array(value)), np.where(x == b, x, x + b))
    bools = mx.array(3.0)
    assert bools[True].shape == (1,) and bools[False, ...].shape == (0,) and mx.zeros(3)[..., False].shape == (3, 0)


def test_masks_without_dimensions_are_not_evaluated_for_writing():
    def write(x, yes, v):
        x[yes, ..., 1] = v
        return x

    x, v = iota((3, 2)), mx.array([5.0, 6.0, 7.0])
    for yes in True, False:
        want = write(x.copy(), np.array(yes), np.array(v))
        assert np.array_equal(mx.compile(write)(mx.array(x), mx.array(yes), v), want)
        assert np.array_equal(mx.vmap(write, (None, 0, None))(mx.array(x), mx.array([yes]), v)[0], want)
        assert mx.grad(lambda v: write(mx.array(x), mx.array(yes), v).sum())(v).tolist() == [yes] * 3  # noqa: B023


def test_nothing_to_write_where_a_mask_that_is_not_evaluated_is_nowhere_true():
    x, a = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    x[a > 5] = a[a > 5]
    assert x.tolist() == [1, 2]
    with pytest.raises(ValueError, match="broadcast"):
        x[a > 3] = mx.zeros(0)


def test_masks_can_be_written_through_with_one_value():
    a = iota((2, 3))
    x = mx.array(a)
    x[x > 2] = 0
    a[a > 2] = 0
    assert np.array_equal(np.array(x), a)
    rows = np.array([False, True])
    x[mx.array(rows)] = mx.array([7.0, 8.0, 9.0])
    a[rows] = [7, 8, 9]
    assert np.array_equal(np.array(x), a)
    x[mx.array(rows)] = mx.array([[7.0, 8.0, 9.0], [1.0, 2.0, 3.0]])  # more than there are places for
    assert np.array_equal(np.array(x), a)
    assert x[x > 7].tolist() == a[a > 7].tolist()
    with pytest.raises(IndexError):
        x[mx.array([True, False, True])] = 1


@pytest.mark.parametrize(
    "index, message",
    [
        (3, "index 3 is out of bounds for axis 0 with size 3"),
        (-4, "index -4 is out of bounds for axis 0 with size 3"),
        ((0, 0, 0), "too many indices"),
        ((..., ...), "ellipsis"),
        (1.0, "got float"),
        ("a", "got str"),
        (mx.array([1.5]), "integer"),
        (10**30, "out of bounds"),
        ((0, (1, 2)), "got tuple"),
    ],
)
def test_bad_indices(index, message):
    x = mx.zeros((3, 2))
    with pytest.raises(IndexError, match=message):
        x[index]
    with pytest.raises(IndexError, match=message):
        x[index] = 0
    with pytest.raises(IndexError, match=message):
        x.at[index].add(1)
    assert np.array_equal(np.array(x), np.zeros((3, 2)))


def test_bad_slices():
    x = mx.zeros(3)
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        x[::0]
    with pytest.raises(TypeError, match="slice indices must be integers or None"):
        x[1.5:]


def test_an_index_array_out_of_range_may_be_an_error_when_it_is_looked_at(index_errors):
    x = mx.zeros(3)
    with pytest.raises(IndexError, match="3"):
        mx.eval(x[mx.array([0, 3])])
    with pytest.raises(IndexError):
        mx.eval(x.at[mx.array([-4])].add(1))


def test_division_at_indices():
    assert mx.array([8.0, 6.0]).at[0].divide(2).tolist() == [4, 6]
    assert mx.array([8, 6]).at[0].divide(2).tolist() == [4, 6]
    assert mx.array([8.0, 6.0]).at[mx.array([0, 0])].divide(2).tolist() == [2, 6]


def test_at_without_an_index():
    with pytest.raises(ValueError, match=r"x.at\[0\]"):
        mx.zeros(3).at.add(1)
    with pytest.raises(TypeError, match="takes one argument"):
        mx.zeros(3).at[0].add()


def test_deleting_elements():
    x = mx.zeros(3)
    with pytest.raises(TypeError):
        del x[0]


@pytest.mark.parametrize("fold, v", [("maximum", 1.0), ("maximum", 0.0), ("minimum", -1.0), ("minimum", 0.0)])
def test_equal_updates_share_the_derivative_of_an_extremum(fold, v):
    i = mx.array([0, 0, 2, 0])

    def f(x, v):
        return getattr(x.at[i], fold)(v)

    x, v = mx.zeros(3), mx.array(v)
    # along (1, 1) the extremum of equal numbers moves as they do
    _, (dy,) = mx.jvp(f, [x, v], [mx.ones(3), mx.array(1.0)])
    np.testing.assert_allclose(dy, 1)
    _, (dx, dv) = mx.vjp(f, [x, v], [mx.array([5.0, 7.0, 11.0])])
    assert dx.sum().item() + dv.item() == 23
    if v.item():
        np.testing.assert_allclose(dx, [0, 7, 0])
    # of updates that differ only the largest has a part
    _, (dx, dv) = mx.vjp(f, [x, v * mx.array([1.0, 2.0, 3.0, 2.0])], [mx.ones(3)])
    np.testing.assert_allclose(dv, [0, 0.5, 1, 0.5] if v.item() else [0.25, 0.25, 0.5, 0.25])


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("per_row", [1, 3])
def test_what_is_read_at_places_adds_to_other_derivatives(dtype, per_row):
    """In whatever order the derivatives meet, and where places meet as well."""
    rng = np.random.default_rng(per_row)
    x = mx.array(rng.integers(-8, 9, (4, 6)).astype(np.float32)).astype(dtype)
    at = mx.array([[1, 1, 5], [0, 0, 0], [3, 2, 3], [-1, 5, 4]])[:, :per_row]
    want = 2 * np.array(x.astype(mx.float32))
    square = want.copy()
    for i, row in enumerate(np.array(at)):
        np.add.at(want[i], row, 3)

    def read(x):
        return 3 * mx.take_along_axis(x, at, axis=1).sum()

    for f in (
        lambda x: read(x) + mx.square(x).sum(),
        lambda x: mx.square(x).sum() + read(x),
        lambda x: read(x) / 3 + mx.square(x).sum() + read(x) / 3 + read(x) / 3,
    ):
        for g in (mx.grad(f), mx.compile(mx.grad(f)), mx.compile(mx.grad(f), shapeless=True)):
            np.testing.assert_allclose(np.array(g(x).astype(mx.float32)), want)
        rows = mx.vmap(mx.grad(lambda x, i: 3 * mx.take(x, i).sum() + mx.square(x).sum()))(x, at)
        np.testing.assert_allclose(np.array(rows.astype(mx.float32)), want)
    # a cotangent that somebody keeps stays as it is
    (dx,) = mx.vjp(lambda x: (x, read(x)), [x], [x, mx.array(1, dtype)])[1]
    np.testing.assert_allclose(np.array(dx.astype(mx.float32)), want - square / 2)
    np.testing.assert_allclose(np.array(x.astype(mx.float32)), square / 2)
