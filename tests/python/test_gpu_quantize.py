"""Packed weights on a GPU, each operation beside the same on the CPU; skipped where there is none."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from test_gpu import FLOATS, launches, same
from test_gpu_reductions import close
from test_gpu_rows import normal

pytestmark = [
    pytest.mark.skipif(not mx.is_available(mx.gpu), reason="needs an NVIDIA GPU"),
    pytest.mark.usefixtures("no_fallback"),
]
AFFINE = [("affine", bits, group) for bits in (1, 2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
FORMATS = [*AFFINE, ("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]
SINGLES = [mx.float32, mx.float16, mx.bfloat16]


def packed(dtype, fmt, *shape, seed=0):
    mode, bits, group = fmt
    with mx.stream(mx.cpu):
        parts = mx.quantize(normal(dtype, *shape, seed=seed), group, bits, mode=mode)
        mx.eval(parts)
    return parts


def settings(fmt):
    return {"mode": fmt[0], "bits": fmt[1], "group_size": fmt[2]}


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_there_and_back(dtype, fmt):
    x = normal(dtype, 7, 3 * fmt[2])
    with mx.stream(mx.cpu):
        r = np.array([[0.0] * 16, [np.inf] + [1.0] * 15, [np.nan] * 16, [3.0] * 16, [-2.0, 0.0] * 8, [1e-9] * 16])
        special = mx.array(np.repeat(r, fmt[2] // 16, 1)).astype(dtype)
        mx.eval(special)
    for v in [x, x.T[: 2 * fmt[2]].T, x[::-1], special]:
        for part in range(3 if fmt[0] == "affine" else 2):
            same(lambda v: mx.quantize(v, **settings(fmt))[part], v)  # noqa: B023
    parts = packed(dtype, fmt, 5, 2 * fmt[2])
    close(lambda *p: mx.dequantize(*p, **settings(fmt)), *parts)
    close(lambda *p: mx.dequantize(*[v[1:, : v.shape[1] // 2] for v in p], **settings(fmt)), *parts)
    for t in SINGLES:
        close(lambda *p: mx.dequantize(*p, **settings(fmt), dtype=t), *parts)  # noqa: B023


def test_global_scales():
    x, g = normal(mx.float32, 4, 64), mx.array(2.5)
    for part in range(2):
        same(lambda x, g: mx.quantize(x, mode="nvfp4", global_scale=g)[part], x, g)  # noqa: B023
    parts = packed(mx.float32, ("nvfp4", 4, 16), 4, 64)
    close(lambda w, s, g: mx.dequantize(w, s, mode="nvfp4", global_scale=g), *parts, g)


def test_bytes_of_floating_point():
    for dtype in FLOATS:
        x = normal(dtype, 1001) * 100
        same(mx.to_fp8, x)
        same(lambda x: mx.from_fp8(x, dtype=dtype), mx.arange(256).astype(mx.uint8))  # noqa: B023


def close_sums(f, *x):
    """Sums of many products of numbers about 3, in other orders: within some units of the largest or of a typical one,
    from which those of codes and of biases are some way apart."""
    with mx.stream(mx.cpu):
        there = np.array(f(*x).astype(mx.float32))
    with mx.stream(mx.gpu):
        here = f(*x)
        mx.eval(here)
    digits = {mx.float16: 10, mx.bfloat16: 7, mx.float32: 20}[here.dtype]
    with mx.stream(mx.cpu):
        here = np.array(here.astype(mx.float32))
    assert here.shape == there.shape
    largest = np.max(np.abs(there), initial=9 * x[0].shape[-1] ** 0.5)
    assert np.allclose(here, there, rtol=2.0**-digits, atol=2.0**-digits * largest)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", SINGLES, ids=str)
def test_products(dtype, fmt):
    """Rows of x and of the matrix around those that warps and squares take."""
    for m, n, groups in [(1, 1, 1), (1, 70, 3), (3, 5, 2), (9, 33, 1), (17, 66, 2), (65, 3, 1)]:
        k = groups * fmt[2]
        parts, x = packed(dtype, fmt, n, k), normal(dtype, m, k, seed=2)
        close_sums(lambda x, *p: mx.quantized_matmul(x, *p, transpose=True, **settings(fmt)), x, *parts)
        x = normal(dtype, m, n, seed=2)
        close_sums(lambda x, *p: mx.quantized_matmul(x, *p, transpose=False, **settings(fmt)), x, *parts)


@pytest.mark.parametrize("fmt", [("affine", 4, 64), ("affine", 3, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)], ids=str)
def test_batches(fmt):
    def product(x, *p, transpose=True):
        return mx.quantized_matmul(x, *p, transpose=transpose, **settings(fmt))

    one, many = packed(mx.float32, fmt, 6, 64), packed(mx.float32, fmt, 3, 1, 6, 64)
    x = normal(mx.float32, 3, 2, 5, 64)
    close_sums(product, x, *one)
    close_sums(product, x, *many)
    close_sums(product, x[:, :, :1], *many)
    close_sums(product, x[0, :1], *many)
    close_sums(product, x.swapaxes(0, 2), *one)
    close_sums(product, x[..., ::-1], *one)
    close_sums(product, x.reshape(-1)[3:67], *one)
    close_sums(lambda *p: product(p[0][..., :6], *p[1:], transpose=False), x, *many)
    close_sums(product, x, *[mx.broadcast_to(v, (3, 2, *v.shape[2:])) for v in many])
    close_sums(product, x[:0], *one)
    close_sums(lambda x, *p: product(x, *[v[..., 1:, :] for v in p]), x, *one)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_tiles(dtype, fmt):
    """Tiles of each size that are not full, the last of a row's chunks not there, and k in pieces."""
    sizes = [(2, 5, 128), (17, 130, 384), (33, 36, 1280), (70, 9, 896), (130, 36, 2176 if fmt[1] == 4 else 256)]
    sizes += [(250, 516, 384)] if fmt[1] in (3, 4, 8) else []
    for m, n, k in [*sizes, (260, 3, 768)]:
        parts, x = packed(dtype, fmt, n, k), normal(dtype, m, k, seed=2)
        close_sums(lambda x, *p: mx.quantized_matmul(x, *p, **settings(fmt)), x, *parts)
        if m > 130:
            continue
        many = packed(dtype, fmt, 2, n, k)
        close_sums(lambda x, *p: mx.quantized_matmul(x, *p, **settings(fmt)), x[None], *many)


def test_scales_of_another_type():
    parts = packed(mx.bfloat16, ("affine", 4, 64), 10, 128)
    for m in (1, 3, 40):
        close_sums(lambda x, *p: mx.quantized_matmul(x, *p), normal(mx.float32, m, 128), *parts)


@pytest.mark.parametrize("rows", [1, 3, 20, 300])
@pytest.mark.parametrize("dtype", [mx.float16, mx.float32], ids=str)
def test_products_of_no_depth(dtype, rows):
    w = mx.zeros((8, 0), mx.uint32), mx.zeros((8, 0), dtype), mx.zeros((8, 0), dtype)
    y = mx.quantized_matmul(mx.zeros((rows, 0), dtype), *w, stream=mx.gpu)
    assert y.shape == (rows, 8) and not mx.any(y).item()


@pytest.mark.parametrize("fmt", [("affine", 4, 64), ("affine", 8, 32), ("affine", 4, 128)], ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_one_row_with_several_matrices(dtype, fmt):
    """At once where they are near each other, with what is added, and silu of one times another: the bits of one by
    one."""
    k, sizes = 1152, (13, 8, 130, 8, 6, 8)
    x = normal(dtype, 1, 1, k)
    w = [packed(dtype, fmt, n, k) for n in sizes]
    added = [normal(dtype, 1, 1, n) for n in sizes]
    times = lambda x, p: mx.quantized_matmul(x, *p, **settings(fmt))  # noqa: E731
    mx.eval(x, w, added)
    with mx.stream(mx.gpu):
        for v in (x, mx.where(mx.arange(k) == 700, mx.array(np.inf, dtype), x)):
            alone = []
            for p in w:
                alone.append(times(v, p))
                mx.eval(alone[-1])
            same = lambda a, b: mx.array_equal(a, b, equal_nan=True).item()  # noqa: E731
            got, n = launches(lambda v=v: [times(v, p) for p in w])
            assert all(same(a, b) for a, b in zip(got, alone, strict=True)) and n in (None, 2)  # of four and of two
            mx.eval(sums := [a + y for a, y in zip(added, alone)])
            got, n = launches(lambda v=v: [times(v, p) + a for p, a in zip(w[:3], added)])
            assert all(same(a, b) for a, b in zip(got, sums)) and n in (None, 1)
            mx.eval(silu := nn.silu(alone[1]))
            for f in (
                lambda v=v: nn.silu(times(v, w[1])) * times(v, w[3]),
                lambda v=v: times(v, w[3]) * nn.silu(times(v, w[1])),
            ):
                y, n = launches(f)
                assert same(y, silu * alone[3]) and n in (None, 1)
        other = packed(dtype, ("affine", 8 if fmt[1] == 4 else 4, 64), 8, k)
        y, z = times(x, w[1]), mx.quantized_matmul(x, *other, group_size=64, bits=8 if fmt[1] == 4 else 4)
        first = times(x, w[1])
        second = mx.quantized_matmul(x, *other, group_size=64, bits=8 if fmt[1] == 4 else 4)
        mx.eval(first)
        mx.eval(second)
        mx.eval(y, z)  # of other kinds
        assert mx.array_equal(y, first).item() and mx.array_equal(z, second).item()
    for p in w:
        close_sums(lambda x, *p: mx.quantized_matmul(x, *p, **settings(fmt)), x, *p)


def test_long_rows():
    """Several chunks for each thread, and several warps for each row."""
    for fmt in [("affine", 4, 64), ("affine", 6, 128), ("affine", 8, 32), ("mxfp4", 4, 32)]:
        parts = packed(mx.bfloat16, fmt, 5, 128 * 71)
        for m in (1, 2):
            x = normal(mx.bfloat16, m, 128 * 71)
            close_sums(lambda x, *p: mx.quantized_matmul(x, *p, **settings(fmt)), x, *parts)  # noqa: B023


@pytest.mark.parametrize("fmt", [("affine", 4, 64), ("affine", 6, 32), ("mxfp4", 4, 32)], ids=str)
def test_matrices_by_index(fmt):
    parts = packed(mx.float32, fmt, 5, 6, 128)
    x = normal(mx.float32, 4, 3, 128, seed=1)
    lhs, rhs = mx.array([[0, 3, 1], [2, -1, 0]]), mx.array([[4, 0, -2], [1, 1, 3]])

    def product(x, lhs, rhs, *p, transpose=True):
        return mx.gather_qmm(x, *p, lhs_indices=lhs, rhs_indices=rhs, transpose=transpose, **settings(fmt))

    for dtype in (mx.int32, mx.int64, mx.int8):
        close_sums(product, x, lhs.astype(dtype), rhs.astype(dtype), *parts)
    close_sums(product, x[:, :1], lhs.T, rhs.T, *parts)
    close_sums(product, x[:1], None, rhs.astype(mx.uint32) % 5, *parts)
    close_sums(lambda x, *p: product(x[..., :6], *p, transpose=False), x, lhs, rhs, *parts)
    close_sums(lambda x, *p: product(mx.repeat(x, 9, 1), *p), x, lhs, rhs, *parts)


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("dtype", SINGLES, ids=str)
@pytest.mark.parametrize("fmt", [("affine", 4, 64), ("affine", 3, 32), ("mxfp8", 8, 32)], ids=str)
def test_many_rows_by_index(fmt, dtype, transpose):
    """More of them than codes are read again for: in any order and in that of the matrices, one or none at all."""
    parts = packed(dtype, fmt, 3, 2, 64, 128)
    r = np.random.default_rng(1)
    x = normal(dtype, 130, 1, 128 if transpose else 64, seed=1)
    for rhs in (r.integers(0, 5, 130), np.sort(r.integers(0, 5, 130)), np.full(130, -3)):
        close_sums(
            lambda x, i, *p: mx.gather_qmm(x, *p, rhs_indices=i, transpose=transpose, **settings(fmt)),
            x, mx.array(rhs), *parts,
        )  # fmt: skip


def test_derivatives():
    parts = packed(mx.float32, ("affine", 4, 32), 6, 64)
    x, v = normal(mx.float32, 3, 64), normal(mx.float32, 3, 6, seed=1)

    def f(x, s, b):
        return mx.quantized_matmul(x, parts[0], s, b, group_size=32)

    close_sums(lambda *a: mx.vjp(f, a[:3], a[3:])[1][0], x, *parts[1:], v)
    close_sums(lambda *a: mx.jvp(lambda x: f(x, *a[1:]), a[:1], a[:1])[1][0], x, *parts[1:])


def test_against_float64():
    w, x = np.random.default_rng(1).standard_normal((2, 9, 256))
    with mx.stream(mx.gpu):
        parts = mx.quantize(mx.array(w.astype(np.float32)), 64, 8)
        back = np.array(mx.dequantize(*parts, 64, 8)).astype(np.float64)
        got = np.array(mx.quantized_matmul(mx.array(x.astype(np.float32)), *parts, group_size=64, bits=8))
    assert np.allclose(back, w, atol=np.abs(w).max() / 127)
    assert np.allclose(got, x.astype(np.float32) @ back.T, atol=2e-5)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_infinite_and_huge_numbers(bits, rows):
    """Sums over codes and those for biases that are both infinite would differ by NaN."""
    r = np.random.default_rng(bits)
    for value in (-np.inf, 3e38):
        x = r.standard_normal((rows, 256)).astype(np.float32)
        x[0, 3] = value
        with mx.stream(mx.gpu):
            packed = mx.quantize(mx.array(r.standard_normal((70, 256)).astype(np.float32)), 64, bits)
            y = np.array(mx.quantized_matmul(mx.array(x), *packed, True, 64, bits))
            w = np.array(mx.dequantize(*packed, 64, bits)).astype(np.float64)
        with np.errstate(all="ignore"):
            want = (x.astype(np.float64) @ w.T).astype(np.float32)
        assert np.allclose(y, want, rtol=1e-4, atol=1e-3, equal_nan=True)


@pytest.mark.parametrize("size", [576, 1024, 2112, 4096, 8192])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("dtype", SINGLES, ids=str)
def test_a_norm_before_packed_products(dtype, bits, size):
    """One launch, and the bits of two, whoever else looks at the norm."""
    fmt = ("affine", bits, 32)
    x, w, b = (normal(dtype, *s, seed=i) for i, s in enumerate([(1, size), (size,), (size,)]))
    m = [packed(dtype, fmt, n, size, seed=n) for n in ((37, 512, 131) if size < 2000 else (5419, 24, 600))]
    wild = x * mx.where(mx.arange(size) == 70, mx.array(float("inf"), dtype), 1)
    mx.eval(x, w, b, wild)
    multiplied = lambda y: [mx.quantized_matmul(y, *k, transpose=True, **settings(fmt)) for k in m]  # noqa: E731
    gate = lambda y: nn.silu(multiplied(y)[1]) * multiplied(y)[1]  # noqa: E731
    joins = size * dtype.size <= 16384
    with mx.stream(mx.gpu):
        for norm in (
            lambda: mx.fast.rms_norm(x, w, 1e-5),
            lambda: mx.fast.layer_norm(x, w, b, 1e-5),
            lambda: mx.fast.rms_norm(wild, None, 1e-5),
        ):
            mx.eval(y := norm())
            products, exp = multiplied(y), mx.exp(y)
            mx.eval(products, exp)
            got, n = launches(lambda norm=norm: multiplied(norm()))
            assert all(mx.array_equal(a, z, equal_nan=True).item() for a, z in zip(got, products, strict=True))
            assert n in (None, 1) or not joins
            got, _ = launches(lambda norm=norm: [multiplied(y := norm())[1], mx.exp(y)])
            assert mx.array_equal(got[0], products[1], equal_nan=True).item()
            assert mx.array_equal(got[1], exp, equal_nan=True).item()
            mx.eval(expected := gate(y))
            got, _ = launches(lambda norm=norm: gate(norm()))
            assert mx.array_equal(got, expected, equal_nan=True).item()


@pytest.mark.parametrize("dtype", SINGLES, ids=str)
def test_scales_that_are_a_norm_before_their_product(dtype):
    x, w = normal(dtype, 1, 1024), packed(dtype, ("affine", 4, 32), 32, 1024)
    multiplied = lambda y: [  # noqa: E731
        mx.quantized_matmul(y, w[0], *scales, group_size=32, bits=4)
        for scales in ((y.reshape(32, 32), w[2]), (w[1], y.reshape(32, 32)))
    ]
    with mx.stream(mx.gpu):
        mx.eval(y := mx.fast.rms_norm(x, None, 1e-5))
        mx.eval(expected := multiplied(y))
        got = multiplied(mx.fast.rms_norm(x, None, 1e-5))
        assert all(mx.array_equal(a, b).item() for a, b in zip(got, expected, strict=True))
