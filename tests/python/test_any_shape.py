"""Functions traced for one shape are right for others: compiled, and exported and imported.

With MLX_UPSTREAM_PYTHON test_export_ops.py exchanges the same functions with the `mlx` package.
"""

import itertools
import pathlib
import sys
import warnings

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from any_shape_cases import functions, own_functions, ramp, traced_anew  # noqa: E402

CASES = {name: (f, calls) for name, f, calls in (*functions(mx), *own_functions(mx))}
ANEW = {name: (f, calls) for name, f, calls in traced_anew(mx)}
RECURRENT = nn.GRU(4, 6)
# Put in terms of other operations in files, these differ within the rounding of the type.
ROUNDED = {
    "attention", "conv", "dequantize", "einsum", "gradient", "layer_norm", "norm", "rms_norm", "rope", "vmap",
    "layer", "loss", "pinv", "det", "slogdet", "solve", "solve_triangular", "hfft",
}  # fmt: skip


def strided(x):
    return mx.square(mx.conv1d(x, ramp(mx, 3, 3, 2), stride=2, padding=1)).sum()


def convolved(x):
    return mx.square(mx.convolve(x, ramp(mx, 3))).sum()


def heads_of_one(k):
    """The derivative of attention of four heads, whatever the number of theirs that share keys."""
    q = ramp(mx, 1, 4, 3, 4)
    attention = mx.fast.scaled_dot_product_attention
    return mx.jvp(lambda k: attention(q, k, k, scale=0.5), [k], [k * 2])[1][0]


def plain_attention(q, k, v):
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.5)


def masked_attention(q, mask):
    return mx.fast.scaled_dot_product_attention(q, q, q, scale=0.5, mask=mask)


# A file does not say that they ran on the CPU, and a GPU has kernels of its own for them, or for their parts, or adds
# in another order.
MATRICES = {"inv", "cholesky", "qr", "singular values", "singular values alone", "eigvalsh", "trace"}


def flat(y):
    return [b for a in y for b in flat(a)] if isinstance(y, (list, tuple)) else [y]


def same(name, got, want):
    assert len(got) == len(want)
    for a, b in zip(got, want):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = np.array(a), np.array(b)
        if ROUNDED & set(name.split()) or (name in MATRICES and mx.is_available(mx.gpu)):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5 * max(1, np.abs(b).max(initial=0)))
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CASES)
def test_compiled_once(name):
    f, calls = CASES[name]
    compiled = mx.compile(lambda *xs: flat(f(*xs)), shapeless=True)
    for xs in calls:
        same(name, compiled(*xs), flat(f(*xs)))
    assert ": 1 trace" in compiled.explain().splitlines()[0]


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_exported(name, portable, tmp_path):
    f, calls = CASES[name]
    path = str(tmp_path / "f.mlxfn")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.export_function(path, lambda *xs: flat(f(*xs)), *calls[0], shapeless=True, portable=portable)
    g = mx.import_function(path)
    for xs in calls:
        same(name, g(*xs), flat(f(*xs)))
    again = mx.compile(g, shapeless=True)
    for xs in calls:
        same(name, again(*xs), flat(f(*xs)))


@pytest.mark.parametrize(
    "f, calls",
    [
        (lambda x: x * x.shape[0], [(3,), (5,), (0,)]),
        (lambda x: x + mx.arange(x.size), [(3,), (5,), (4,)]),
        (lambda x: mx.squeeze(x), [(3, 1), (1, 5), (2, 2)]),
        (lambda x: mx.pad(x, 2, mode="edge"), [(3,), (5,), (1,)]),
        (lambda x: mx.stack(mx.unstack(x), axis=-1), [(3, 2), (5, 2), (1, 3)]),
        (lambda x: nn.Upsample(1.5)(x), [(2, 4, 3), (2, 7, 3), (1, 2, 5)]),
        (lambda x: nn.Upsample(2.0, mode="linear", align_corners=True)(x), [(2, 4, 3), (2, 7, 3), (1, 2, 5)]),
        (mx.vmap(lambda y: y * 2 + y.sum()), [(0, 3), (4, 3), (2, 5)]),
        (mx.vmap(mx.grad(lambda y: (y * y * y).sum())), [(0, 3), (4, 3), (1, 2)]),
        (lambda x: sum(mx.unstack(x), mx.zeros(3)), [(0, 3), (2, 3), (1, 3)]),
        (heads_of_one, [(1, 1, 2, 4), (1, 2, 2, 4), (1, 4, 5, 4)]),
        (mx.jacrev(mx.sin), [(3,), (1,), (0,), (2,)]),
        (mx.vmap(mx.grad(strided)), [(2, 1, 9, 2), (3, 1, 7, 2), (1, 2, 4, 2)]),
        (mx.vmap(mx.grad(convolved)), [(2, 1), (2, 3), (1, 5), (3, 2)]),
        (lambda x: mx.linalg.cross(x, x[::-1]), [(2, 2), (2, 3), (4, 3)]),
        (lambda x: mx.linalg.lu(x, stream=mx.cpu)[1], [(1, 2, 4, 4), (1, 4, 4, 4), (3, 2, 3)]),
        (lambda x: mx.linalg.lu(x, stream=mx.cpu)[2], [(1, 2, 4, 4), (1, 4, 4, 4), (3, 2, 3)]),
        (RECURRENT, [(2, 3, 4), (1, 5, 4), (3, 1, 4)]),
    ],
)
def test_what_depends_on_sizes_is_traced_anew(f, calls):
    """Every order of calls: no graph is replayed for sizes that it does not serve."""
    for order in itertools.permutations(calls):
        compiled = mx.compile(f, shapeless=True)
        for shape in order:
            x = ramp(mx, *shape)
            same("layer", [compiled(x)], [f(x)])


@pytest.mark.parametrize("name", ANEW)
def test_what_serves_its_shapes_alone_is_traced_anew(name):
    f, calls = ANEW[name]
    compiled = mx.compile(lambda x: flat(f(x)), shapeless=True)
    for xs in calls:
        same(name, compiled(*xs), flat(f(*xs)))
    assert f": {len(calls)} traces" in compiled.explain().splitlines()[0]


@pytest.mark.parametrize("offset", [0, 1, -2])
@pytest.mark.parametrize("f", [mx.diagonal, mx.trace])
def test_diagonals_are_traced_once(f, offset):
    shapes = [(3, 4), (5, 2), (1, 1), (4, 4), (0, 3), (2, 7)]
    value = lambda x: f(x, offset)  # noqa: E731
    gradient = mx.grad(lambda x: (mx.sin(value(x)) * 3).sum())
    for g, batch in ((value, ()), (gradient, ()), (mx.vmap(value), (2,)), (mx.vmap(gradient), (2,))):
        for first in shapes:
            compiled = mx.compile(g, shapeless=True)
            for shape in [first, *shapes]:
                x = ramp(mx, *batch, *shape)
                same("layer", [compiled(x)], [g(x)])
            assert ": 1 trace" in compiled.explain().splitlines()[0]


@pytest.mark.parametrize(
    "f, who, first, then",
    [
        (mx.fft.fft, "FFT", (2, 4), (2, 8)),
        (mx.fft.rfft, "FFT", (2, 4), (3, 6)),
        (mx.hadamard_transform, "Hadamard", (2, 4), (2, 8)),
    ],
)
def test_a_file_says_for_what_it_needs_a_size(f, who, first, then, tmp_path):
    path = str(tmp_path / "f")
    mx.export_function(path, lambda x: [f(x + 1)], mx.ones(first), shapeless=True)
    imported = mx.import_function(path)
    with pytest.raises(ValueError, match=rf"4 elements along axis 1, for which {who} was exported, got shape "):
        imported(mx.ones(then))


@pytest.mark.parametrize(
    "f, first, then",
    [
        (lambda x: mx.diagonal(x), (4, 4), (5, 4)),  # the shorter axis is the same one for any shape
        (lambda x: mx.trace(x, 1), (4, 4), (4, 6)),
        (lambda x: mx.median(x), (3, 4), (3, 0)),
        (lambda x: x[1:], (3, 4), (0, 4)),
    ],
)
def test_a_file_says_that_there_are_too_few_elements(f, first, then, tmp_path):
    path = str(tmp_path / "f")
    mx.export_function(path, lambda x: [f(x + 1)], mx.ones(first), shapeless=True)
    imported = mx.import_function(path)
    shape = rf"\({then[0]},{then[1]}\)"
    with pytest.raises(ValueError, match=f"slice, a median or a diagonal takes some, got arguments of shapes {shape}$"):
        imported(mx.ones(then))


def gradient_alone(f):
    return lambda x, c: mx.vjp(f, [x], [c])[1][0]


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    "f, first, then",
    [
        (mx.hadamard_transform, 1, 4),
        (lambda x: mx.fft.fft(x).real, 3, 4),
    ],
)
def test_a_gradient_knows_the_sizes_that_its_values_were_for(f, first, then, mapped, tmp_path):
    """The value that is differentiated, which needs the size, is not computed: neither results nor operands need it."""
    g = mx.vmap(gradient_alone(f)) if mapped else gradient_alone(f)
    few, more = ([ramp(mx, *[2][:mapped], n), ramp(mx, *[2][:mapped], n) + 1] for n in (first, then))
    compiled = mx.compile(g, shapeless=True)
    for xs in (few, more, few):
        same("layer", [compiled(*xs)], [g(*xs)])
    for portable in (True, False):
        path = str(tmp_path / f"{portable}")
        mx.export_function(path, g, *few, shapeless=True, portable=portable)
        imported = mx.import_function(path)
        again = mx.compile(imported, shapeless=True)
        for h in (imported, again):
            same("layer", h(*few), [g(*few)])
            with pytest.raises(ValueError, match="expected"):
                h(*more)


@pytest.mark.parametrize("derivative", [mx.vjp, mx.jvp])
def test_derivatives_compare_shapes_in_every_call(derivative, tmp_path):
    f = lambda x, c: derivative(lambda x: x * 3, [x], [c])[1][0]  # noqa: E731
    compiled = mx.compile(f, shapeless=True)
    mx.export_function(str(tmp_path / "f"), f, mx.ones((3, 3)), mx.ones((3, 3)), shapeless=True)
    imported = mx.import_function(str(tmp_path / "f"))
    for g in (compiled, lambda *xs: imported(*xs)[0]):
        for n in (3, 4):
            same("layer", [g(mx.ones((n, 3)), mx.ones((n, 3)))], [mx.full((n, 3), 3.0)])
        for wrong in ((4, 4), (1, 3)):
            with pytest.raises(ValueError, match="shape"):
                g(mx.ones((4, 3)), mx.ones(wrong))


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize(
    "layer, shape, why",
    [
        (nn.RNN(4, 6), (2, 3, 4), "RNN, which"),
        (nn.GRU(4, 6), (2, 3, 4), "GRU, which"),
        (nn.LSTM(4, 6), (2, 3, 4), "LSTM, which"),
        (nn.Upsample(1.5), (2, 3, 4), "Upsample"),
        (nn.Upsample(1.5, mode="cubic"), (2, 3, 4), "Upsample"),
        (nn.Upsample(2, mode="linear", align_corners=True), (2, 3, 4), "Upsample"),
        (nn.Upsample(2, mode="linear", antialias=True), (2, 3, 4), "Upsample"),
        (nn.ALiBi(), (1, 2, 3, 4), "ALiBi"),
        (nn.BatchNorm(4), (3, 4), "BatchNorm in training"),
    ],
    ids=str,
)
def test_layers_that_need_a_size_are_not_exported_for_any(layer, shape, why, portable, tmp_path):
    with pytest.raises(ValueError, match=rf"for any shape.*\({why}"):
        mx.export_function(
            str(tmp_path / "f"), lambda x: flat(layer(x)), mx.ones(shape), shapeless=True, portable=portable
        )
    assert not list(tmp_path.iterdir())
    mx.export_function(str(tmp_path / "f"), lambda x: flat(layer(x)), mx.ones(shape), portable=portable)


def test_windows_that_do_not_fit(tmp_path):
    """A call says so; of functions for any shape, those in portable files alone give no windows instead."""
    pool = nn.MaxPool1d(5, stride=2)
    assert nn.AvgPool1d(2**33)(mx.ones((1, 8, 2))).shape == (1, 0, 2)  # a window may begin 2^33 later
    with pytest.raises(ValueError, match="windows that fit"):
        pool(mx.ones((1, 2, 3)))
    path = str(tmp_path / "f")
    mx.export_function(path, pool, mx.ones((1, 9, 3)), shapeless=True, portable=False)
    compiled, gradient = (mx.compile(f, shapeless=True) for f in (pool, mx.grad(lambda x: pool(x).sum())))
    assert compiled(mx.ones((1, 7, 3))).shape == (1, 2, 3)
    assert compiled(mx.ones((1, 3, 3))).shape == (1, 0, 3)
    assert gradient(mx.ones((1, 7, 3))).shape == (1, 7, 3)
    for f in (compiled, gradient):
        with pytest.raises(ValueError, match="expected a size"):
            f(mx.ones((1, 2, 3)))
    imported = mx.import_function(path)
    assert imported(mx.ones((1, 7, 3)))[0].shape == (1, 2, 3)
    with pytest.raises(ValueError, match="expected a size"):
        imported(mx.ones((1, 2, 3)))


def test_a_loss_refuses_other_shapes_in_every_call():
    for loss, wrong in ((nn.losses.mse_loss, (4,)), (nn.losses.cross_entropy, (1,))):
        compiled = mx.compile(loss, shapeless=True)
        targets = mx.zeros((3, 4)) if loss is nn.losses.mse_loss else mx.array([0, 1, 2])
        compiled(mx.ones((3, 4)), targets)
        with pytest.raises(ValueError, match="shape"):
            compiled(mx.ones((3, 4)), mx.zeros(wrong, targets.dtype))


@pytest.mark.parametrize(
    "f, first, then",
    [
        (mx.addmm, [(1, 1), (1, 1), (1, 1)], [(1, 2), (1, 3), (3, 1)]),
        (mx.addmm, [(1, 1), (1, 1), (1, 1)], [(3, 2), (1, 3), (3, 2)]),
        (mx.vmap(mx.addmm, (None, 0, None)), [(1, 1), (2, 1, 1), (1, 1)], [(2, 2), (2, 1, 3), (3, 2)]),
        (
            lambda m, q: mx.fast.scaled_dot_product_attention(q, q, q, scale=1.0, mask=m),
            [(1, 1), (1, 2, 1, 4)],
            [(2, 1), (1, 2, 1, 4)],
        ),
        (lambda x: mx.slice(x, mx.array([0]), (0,), (2, 2)), [(3, 3)], [(1, 3)]),
        (lambda x: mx.slice(x, mx.array([0]), (0,), (2, 2)), [(3, 3)], [(3, 1)]),
        (mx.vmap(lambda x: mx.slice(x, mx.array([0]), (0,), (2, 2))), [(2, 3, 3)], [(1, 3, 1)]),
        (lambda x, u: mx.slice_update(x, u, mx.array([0]), (0,)), [(3,), (2,)], [(1,), (2,)]),
        (lambda x, u: x.at[1:].add(u), [(3, 4), (2, 4)], [(3, 1), (2, 4)]),
        (lambda x: x.at[1].add(2.0), [(3, 0)], [(1, 4)]),
        (masked_attention, [(1, 2, 4, 8), (1, 1, 4, 4)], [(1, 2, 4, 8), (3, 1, 4, 4)]),
        (masked_attention, [(1, 2, 4, 8), (1, 4)], [(1, 2, 3, 8), (4, 3)]),
        (plain_attention, [(1, 1, 3, 4)] * 3, [(1, 1, 3, 4), (3, 1, 3, 4), (3, 1, 3, 4)]),
        (plain_attention, [(2, 2, 3, 4)] * 3, [(2, 1, 3, 4), (2, 1, 3, 4), (2, 2, 3, 4)]),
        (plain_attention, [(2, 2, 3, 4)] * 3, [(2, 2, 3, 4), (2, 2, 3, 4), (2, 1, 3, 4)]),
        (plain_attention, [(2, 4, 3, 4), *[(2, 2, 3, 4)] * 2], [(2, 4, 3, 4), (2, 2, 3, 4), (2, 1, 3, 4)]),
        (lambda x, w: mx.fast.rms_norm(x, w, 1e-5), [(3, 1), (1,)], [(3, 1), (4,)]),
        (lambda x, w: mx.fast.layer_norm(x, w, w, 1e-5), [(3, 4), (4,)], [(3, 1), (4,)]),
        (nn.losses.cross_entropy, [(3, 4), (3, 4)], [(1, 4), (3, 4)]),
        (lambda x: mx.fast.cross_entropy(x, mx.array([0, 1, 2])), [(3, 4)], [(1, 4)]),
        (lambda x: mx.linalg.solve(x, mx.ones((3, 2)), stream=mx.cpu), [(3, 3)], [(3, 1)]),
        (lambda x: mx.conv1d(x, mx.ones((5, 3, 4))), [(2, 8, 4)], [(2, 8, 0)]),
    ],
)
def test_what_eager_refuses_is_refused(f, first, then, tmp_path):
    compiled = mx.compile(f, shapeless=True)
    compiled(*[mx.ones(s) for s in first])
    calls = [f, compiled]
    for portable in (True, False):
        path = str(tmp_path / f"{portable}")
        try:
            mx.export_function(path, f, *[mx.ones(s) for s in first], shapeless=True, portable=portable)
        except ValueError as e:
            assert "for any shape" in str(e) or portable
        else:
            calls.append(mx.import_function(path))
            calls[-1](*[mx.ones(s) for s in first])
    for call in calls:
        with pytest.raises(ValueError, match="expected|axis|broadcast"):
            call(*[mx.ones(s) for s in then])


@pytest.mark.parametrize(
    "part", [slice(1), slice(-1, None), slice(0, 1), slice(2), slice(1, None), slice(None, None, 2)]
)
def test_parts_of_axes_without_elements_in_portable_files(part, tmp_path):
    """Which cannot say that fewer elements are taken where there are fewer: they refuse."""
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, lambda x: x[..., part], ramp(mx, 2, 4), shapeless=True)
    g = mx.import_function(path)
    for n in (4, 2, 5):
        x = ramp(mx, 2, n)
        assert g(x)[0].tolist() == x[..., part].tolist()
    for shape in ((2, 0), (0, 0)):
        with pytest.raises(ValueError, match="expected"):
            g(mx.zeros(shape))


@pytest.mark.parametrize("start", [0, 3, 4, 9, -1, -9])
@pytest.mark.parametrize("portable", [True, False])
def test_dynamic_slices_begin_where_there_is_room(portable, start, tmp_path):
    f = mx.vmap(lambda x: mx.slice(x, mx.array([start]), (1,), (2, 3)))
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, f, mx.ones((2, 3, 5)), shapeless=True, portable=portable)
    g = mx.import_function(path)
    for shape in ((2, 3, 5), (1, 2, 4), (3, 4, 3)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        begin = min(max(start + shape[2] * (start < 0), 0), shape[2] - 3)
        assert g(mx.array(x))[0].tolist() == f(mx.array(x)).tolist() == x[:, :2, begin : begin + 3].tolist()
    for shape in ((2, 1, 5), (2, 3, 2)):
        for call in (f, g):
            with pytest.raises(ValueError, match="expected"):
                call(mx.ones(shape))


@pytest.mark.parametrize("portable", [True, False])
@pytest.mark.parametrize(
    "axes, size", [((0,), (1, 2)), ((0,), (2, 2)), ((1,), (3, 1)), ((0, 1), (2, 3)), ((1, 0), (1, 1))]
)
def test_gradients_of_parts_from_many_places(axes, size, portable, tmp_path):
    """They overlap, and count from the end."""

    def f(x, starts):
        def parts(x):
            return mx.vmap(lambda start: mx.slice(x, start, axes, size))(starts)

        return mx.vjp(parts, [x], [ramp(mx, len(STARTS), *size)])[1][0]

    path = str(tmp_path / "f.mlxfn")
    starts = mx.array(STARTS)[:, : len(axes)]
    mx.export_function(path, f, mx.ones((4, 5)), starts, shapeless=True, portable=portable)
    g = mx.import_function(path)
    for shape in ((4, 5), (3, 7), (6, 5)):
        want, at = np.zeros(shape, np.float32), np.array(STARTS)[:, : len(axes)]
        for start, values in zip(at, np.array(ramp(mx, len(STARTS), *size)), strict=True):
            begin = [0, 0]
            for axis, i in zip(axes, start, strict=True):
                begin[axis] = i + shape[axis] * (i < 0)
            want[begin[0] : begin[0] + size[0], begin[1] : begin[1] + size[1]] += values
        for call in (f, lambda x, starts: g(x, starts)[0]):
            np.testing.assert_allclose(np.array(call(mx.zeros(shape), starts)), want, rtol=1e-6, atol=1e-6)
    if max(size) > 1:
        with pytest.raises(ValueError, match="expected"):
            g(mx.zeros([n - (n == max(size)) for n in size]), starts)


STARTS = [[0, 0], [1, 1], [0, 2], [-2, -3], [1, 1]]


@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize(
    "f", [lambda x: x.at[1:].add(10), lambda x: mx.grad(lambda x: x[1:].sum())(x), lambda x: mx.diff(x * x)]
)
def test_slices_that_are_empty_in_the_example(f, first, tmp_path):
    """In files of our own, where the start of such a slice is kept."""
    path = str(tmp_path / "f.mlxfn")
    mx.export_function(path, f, mx.zeros(first), shapeless=True, portable=False)
    g = mx.import_function(path)
    for n in (4, 1, 3):
        x = mx.arange(1.0, n + 1.0)
        assert g(x)[0].tolist() == f(x).tolist()


@pytest.mark.parametrize("bounds", [(1, 99), (-99, -1), (99, None)])
@pytest.mark.parametrize(
    "f",
    [
        lambda x, part: x[part],
        lambda x, part: x.at[part].add(10),
        lambda x, part: x.at[part].maximum(mx.array([10.0])),
        lambda x, part: x.reshape(2, -1).at[:, part].add(mx.array(10.0)),
    ],
)
def test_slices_that_end_at_an_array_are_not_exported_for_any(f, bounds, tmp_path):
    """How many elements they take no portable file can say; it is said in those words."""
    part, path = slice(*bounds), str(tmp_path / "f.mlxfn")
    with pytest.raises(ValueError, match=r"^\[export_function\] cannot export the function for any shape.*slice"):
        mx.export_function(path, lambda x: f(x, part), mx.zeros(6), shapeless=True)
    mx.export_function(path, lambda x: f(x, part), mx.zeros(6), shapeless=True, portable=False)
    g = mx.import_function(path)
    for n in (4, 6, 120):
        x = mx.arange(float(n))
        assert g(x)[0].tolist() == f(x, part).tolist()


@pytest.mark.parametrize("size", [2, 3])
def test_a_corner_out_of_range_keeps_its_meaning(size, tmp_path):
    """Reading takes the nearest place, and so do its derivatives, in files of our own."""
    path = str(tmp_path / "f.mlxfn")
    w = mx.arange(1.0, 9.0).reshape(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f in (
            mx.grad(lambda x: (mx.slice(x, mx.array([1]), (0,), (2, 4)) * w).sum()),
            mx.grad(lambda x: (mx.grad(lambda x: (mx.slice(x, mx.array([1]), (0,), (2, 4)) ** 3).sum())(x) * x).sum()),
        ):
            mx.export_function(path, f, mx.ones((3, 4)), shapeless=True, portable=False)
            x = ramp(mx, size, 4)
            same("gradient", mx.import_function(path)(x), [f(x)])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("scan", [mx.cumsum, mx.cumprod, mx.cummax, mx.logcumsumexp])
def test_exclusive_scans_of_short_axes(scan, reverse, tmp_path):
    """Which leave out an element, of those that are there."""

    def f(x):
        return scan(x, axis=0, reverse=reverse, inclusive=False)

    def both(x):
        return f(x), mx.vjp(f, [x], [mx.ones_like(x)])[1][0]

    x = mx.array([0.5, 2.0, 1.5, 3.0])
    for traced in (0, 1, 3):
        compiled = mx.compile(both, shapeless=True)
        compiled(x[:traced])
        ours, portable = (str(tmp_path / f"{k}{traced}.mlxfn") for k in range(2))
        mx.export_function(ours, f, x[:traced], shapeless=True, portable=False)
        mx.export_function(portable, f, x[: max(traced, 1)], shapeless=True)
        for n in (0, 1, 2, 4):
            want = [y.tolist() for y in both(x[:n])]
            assert [y.tolist() for y in compiled(x[:n])] == want
            assert mx.import_function(ours)(x[:n])[0].tolist() == want[0]
            if n:  # or it refuses
                assert mx.import_function(portable)(x[:n])[0].tolist() == want[0]


@pytest.mark.parametrize("alpha, beta", [(-1.0, 1.0), (0.5, 10.0), (1.0, 0.0)])
def test_real_factors_of_complex_sums(alpha, beta):
    """Keep infinities: they do not meet the imaginary part that a real number does not have."""
    compiled = mx.compile(lambda c, a: mx.addmm(c, a, a, alpha, beta), shapeless=True)
    one, inf = mx.array([[1 + 0j]]), mx.array([[float("inf") + 0j]])
    for c, a in (one, one), (inf, one), (one, inf):
        assert str(compiled(c, a)) == str(mx.addmm(c, a, a, alpha, beta))


def test_differences_of_a_high_order_end_with_the_axis():
    calls = []

    def f(x):
        calls.append(1)
        return mx.diff(x, 10**6)

    compiled = mx.compile(f, shapeless=True)
    assert compiled(mx.ones((1, 1))).shape == (1, 0) and compiled(mx.ones((3, 5))).shape == (3, 0)
    assert len(calls) == 2


def test_a_deviation_by_no_number_is_none():
    for f in (mx.std, mx.var):
        compiled = mx.compile(lambda x: f(x, ddof=float("nan")), shapeless=True)  # noqa: B023
        assert str(compiled(mx.ones(3))) == str(f(mx.ones(3), ddof=float("nan"))) == "array(nan, dtype=float32)"
