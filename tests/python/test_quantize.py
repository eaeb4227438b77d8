"""Packed weights, against their definition in NumPy."""

import math

import mlx.core as mx
import numpy as np
import pytest
from compare import differences, of_argument
from hypothesis import given, settings
from hypothesis import strategies as st

AFFINE = [("affine", bits, group) for bits in (1, 2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
FLOATING = [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]
MODES = AFFINE + FLOATING
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([E2M1, -E2M1])
HALF = {"float16": 2e-3, "bfloat16": 1e-2}


def e4m3_table():
    code = np.arange(256)
    exponent, fraction = code >> 3 & 15, code & 7
    size = np.where(exponent == 0, fraction / 512, (1 + fraction / 8) * 2.0 ** (exponent - 7))
    size[code & 127 == 127] = np.nan
    return np.where(code & 128, -size, size)


E4M3 = e4m3_table()


def numpy(a):
    return np.array(a.astype(mx.float32))


def codes_of(packed, bits):
    """The codes of a packed array, read bit by bit."""
    words = np.array(packed)
    stream = np.unpackbits(words.view(np.uint8).reshape(*words.shape[:-1], -1), axis=-1, bitorder="little")
    return (stream.reshape(*words.shape[:-1], -1, bits) << np.arange(bits)).sum(-1)


def numbers_of(parts, mode, bits, group):
    """What the parts stand for, in float64."""
    code = codes_of(parts[0], bits)
    if mode == "affine":
        scale, bias = (np.repeat(numpy(p).astype(np.float64), group, -1) for p in parts[1:])
        return code * scale + bias
    byte = np.array(parts[1])
    scale = E4M3[byte] if mode == "nvfp4" else 2.0 ** (byte.astype(np.float64) - 127)
    return (E2M1 if bits == 4 else E4M3)[code] * np.repeat(scale, group, -1)


def sample(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * np.exp(rng.normal(size=shape))).astype(np.float32)


def packed(shape, mode, bits, group, dtype=mx.float32, seed=0):
    w = mx.array(sample(*shape, seed=seed)).astype(dtype)
    parts = mx.quantize(w, group, bits, mode)
    how = {"group_size": group, "bits": bits, "mode": mode}
    return parts, numbers_of(parts, mode, bits, group), how


def close(got, want, tolerance=1e-5):
    assert got.shape == want.shape
    scale = max(1e-30, np.abs(want).max(initial=0))
    assert np.abs(numpy(got) - want).max(initial=0) <= tolerance * scale


# Packing


@pytest.mark.parametrize("mode,bits,group", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_nearest(mode, bits, group, dtype):
    """Each element becomes the nearest of the numbers that its group's codes stand for."""
    w = mx.array(sample(5, 384)).astype(getattr(mx, dtype))
    parts = mx.quantize(w, group, bits, mode)
    assert [p.dtype for p in parts] == [mx.uint32] + ([w.dtype] * 2 if mode == "affine" else [mx.uint8])
    assert parts[0].shape == (5, 384 * bits // 32) and all(p.shape == (5, 384 // group) for p in parts[1:])
    x = numpy(w).astype(np.float64)
    got = np.abs(x - numbers_of(parts, mode, bits, group))
    if mode == "affine":  # codes were chosen with scales before they were rounded
        scale, bias = (np.repeat(numpy(p).astype(np.float64), group, -1)[..., None] for p in parts[1:])
        best = np.abs(x[..., None] - scale * np.arange(2**bits) - bias).min(-1)
        slack = 2.0 ** (bits - {"float32": 20, "float16": 10, "bfloat16": 7}[dtype])
        assert np.all(got <= best + slack * np.abs(scale[..., 0]))
        return
    scale = np.repeat(np.array(parts[1]), group, -1)
    scale = E4M3[scale] if mode == "nvfp4" else 2.0 ** (scale.astype(np.float64) - 127)
    table = E2M1 if bits == 4 else E4M3[np.isfinite(E4M3)]
    best = np.abs(x[..., None] - scale[..., None] * table).min(-1)
    assert np.all(got <= best * (1 + 1e-6) + 1e-7 * scale)


def test_affine_ends():
    """The end of the range that is farther from zero is kept, and zero where it is inside."""
    for bits in (2, 3, 4, 5, 6, 8):
        w = sample(4, 64, seed=bits)
        parts = mx.quantize(mx.array(w), 32, bits)
        d = numbers_of(parts, "affine", bits, 32).reshape(-1, 32)
        g = w.reshape(-1, 32)
        edge = np.abs(g).argmax(1)
        np.testing.assert_allclose(d[np.arange(8), edge], g[np.arange(8), edge], rtol=1e-6)


def test_one_bit():
    w = sample(2, 64)
    q, s, b = mx.quantize(mx.array(w), 32, 1)
    g = w.reshape(2, 2, 32)
    np.testing.assert_array_equal(np.array(b), g.min(-1))
    np.testing.assert_array_equal(np.array(s), g.max(-1) - g.min(-1))


def test_known_words():
    """Codes go into words lowest bits first, without regard to the ends of words."""
    for bits in (2, 3, 4, 5, 6, 8):
        code = np.arange(64) % 2**bits
        code[::32], code[1::32] = 0, 2**bits - 1  # so that the scale is 1 and the bias the upper end
        q, s, b = mx.quantize(mx.array(-code[None].astype(np.float32)), 32, bits)
        got = codes_of(q, bits)[0]
        np.testing.assert_allclose(np.array(s)[0, 0] * got + np.array(b)[0, 0], -code, atol=1e-5)
        stream = "".join(format(c, f"0{bits}b")[::-1] for c in got)
        words = [int(stream[i : i + 32][::-1], 2) for i in range(0, len(stream), 32)]
        assert np.array(q)[0].tolist() == words


@pytest.mark.parametrize("mode,bits,group", MODES)
def test_constant_and_nan(mode, bits, group):
    how = {"group_size": group, "bits": bits, "mode": mode}
    zeros = mx.dequantize(*mx.quantize(mx.zeros((1, 2 * group)), **how), **how)
    assert numpy(zeros).tolist() == [[0] * 2 * group]
    for bad in (math.nan, math.inf, -math.inf):
        w = np.ones((1, 2 * group), np.float32)
        w[0, 3] = bad
        got = numpy(mx.dequantize(*mx.quantize(mx.array(w), **how), **how))
        assert np.isnan(got[0, :group]).all() and np.isfinite(got[0, group:]).all()


def test_scale_of_powers():
    """e8m0: the least power of two that takes the group's largest element into range."""
    for mode, largest in (("mxfp4", 6), ("mxfp8", 448)):
        for e in (-140, -126, -30, 0, 5, 100):
            for factor in (0.75, 1, 1 + 2**-22):
                v = np.float32(largest * 2.0**e * factor)
                if not 0 < v < np.inf:
                    continue
                w = np.zeros((1, 32), np.float32)
                w[0, 7] = -v
                got = int(np.array(mx.quantize(mx.array(w), mode=mode)[1])[0, 0])
                want = math.ceil(math.log2(float(np.float32(v / np.float32(largest)))))
                assert got == min(max(want, -127), 127) + 127, (mode, e, factor)


def test_e2m1_ties_go_toward_zero():
    v = [6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -0.25, -0.75, -5, 0.2501, 0.7501, 5.01]
    w = np.zeros((1, 32), np.float32)
    w[0, : len(v)] = v
    got = mx.dequantize(*mx.quantize(mx.array(w), mode="mxfp4"), mode="mxfp4")
    assert numpy(got)[0, : len(v)].tolist() == [6, 0, 0.5, 1, 1.5, 2, 3, 4, 0, -0.5, -4, 0.5, 1, 6]


def test_global_scale():
    w = sample(4, 64) * 1e4
    top = mx.array(np.abs(w).max())
    parts = mx.quantize(mx.array(w), mode="nvfp4", global_scale=top)
    got = mx.dequantize(*parts, mode="nvfp4", global_scale=top, dtype=mx.float32)
    want = numbers_of(parts, "nvfp4", 4, 16) * (np.abs(w).max() / 2688)
    close(got, want, 1e-6)
    assert np.abs(want - w).max() < 0.2 * np.abs(w).max()
    gradient = mx.grad(lambda g: mx.dequantize(*parts, mode="nvfp4", global_scale=g, dtype=mx.float32).sum())(top)
    assert gradient.item() == pytest.approx(numpy(got).sum() / top.item(), rel=1e-4)
    scales = mx.array([1.0, 2.0])
    both = mx.vmap(lambda g: mx.dequantize(*parts, mode="nvfp4", global_scale=g, dtype=mx.float32))(scales)
    np.testing.assert_allclose(np.array(both[1]), 2 * np.array(both[0]), rtol=1e-6)


# Back to numbers


@pytest.mark.parametrize("mode,bits,group", MODES)
def test_dequantize(mode, bits, group):
    for columns in (group, 3 * group, 1024 + group):
        parts, want, how = packed((3, columns), mode, bits, group)
        got = mx.dequantize(*parts, **how)
        assert got.dtype == (mx.float32 if mode == "affine" else mx.bfloat16)
        close(mx.dequantize(*parts, **how, dtype=mx.float32), want, 1e-6)
        half = mx.dequantize(*parts, **how, dtype=mx.float16)
        assert half.dtype == mx.float16
        close(half, want, 1e-3)
        close(mx.dequantize(*(p[1] for p in parts), **how, dtype=mx.float32), want[1], 1e-6)


def test_double():
    w = mx.array(sample(3, 128), dtype=mx.float64)
    parts = mx.quantize(w, 32, 8)
    assert [p.dtype for p in parts] == [mx.uint32, mx.float64, mx.float64]
    parts[1].__iadd__(1e-12)  # what float32 would lose
    got = mx.dequantize(*parts, 32, 8)
    assert got.dtype == mx.float64
    code = codes_of(parts[0], 8)
    want = code * np.repeat(np.array(parts[1]), 32, -1) + np.repeat(np.array(parts[2]), 32, -1)
    np.testing.assert_allclose(np.array(got), want, rtol=1e-14, atol=1e-14)
    assert mx.dequantize(*parts, 32, 8, dtype=mx.float16).dtype == mx.float16


def test_every_e4m3():
    x = mx.arange(256).astype(mx.uint8)
    np.testing.assert_array_equal(np.array(mx.from_fp8(x, mx.float32)), E4M3.astype(np.float32))
    assert mx.from_fp8(x).dtype == mx.bfloat16
    finite = np.isfinite(E4M3)
    for dtype in (mx.float32, mx.float16, mx.bfloat16, mx.float64):
        back = np.array(mx.to_fp8(mx.from_fp8(x, dtype)))
        np.testing.assert_array_equal(back[finite], np.arange(256)[finite])
        assert np.all(back[~finite] & 127 == 127)


@given(st.floats(width=32, allow_nan=False))
def test_to_e4m3(v):
    got = E4M3[int(mx.to_fp8(mx.array(v)).item())]
    table = np.unique(E4M3[np.isfinite(E4M3)])
    distance = np.abs(np.clip(v, -448, 448) - table)
    assert abs(got - np.clip(v, -448, 448)) == distance.min()
    if (distance == distance.min()).sum() > 1:  # ties go to even
        assert int(mx.to_fp8(mx.array(v)).item()) % 2 == 0


# Products


@pytest.mark.parametrize("mode,bits,group", MODES)
@pytest.mark.parametrize("rows", [1, 3, 4, 6, 40])
def test_products(mode, bits, group, rows):
    """Few rows and many, whole blocks and parts of them, both ways round."""
    for n, k in ((7, group), (130, 3 * group), (33, 512 + group)):
        parts, w, how = packed((n, k), mode, bits, group)
        x, z = sample(rows, k, seed=1), sample(rows, n, seed=2)
        close(mx.quantized_matmul(mx.array(x), *parts, **how), x @ w.T)
        close(mx.quantized_matmul(mx.array(z), *parts, transpose=False, **how), z @ w)


@pytest.mark.parametrize("mode,bits,group", [("affine", 4, 64), ("affine", 5, 32), *FLOATING])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_products(mode, bits, group, dtype):
    t = getattr(mx, dtype)
    parts, w, how = packed((40, 256), mode, bits, group, t)
    for rows in (1, 30):
        x = mx.array(sample(rows, 256, seed=1)).astype(t)
        got = mx.quantized_matmul(x, *parts, **how)
        assert got.dtype == t
        close(got, numpy(x) @ w.T, HALF[dtype])
        if mode == "affine":  # a type promotes as elsewhere
            got = mx.quantized_matmul(x.astype(mx.float32), *parts, **how)
            assert got.dtype == mx.float32
            close(got, numpy(x) @ w.T)


@settings(max_examples=30)
@given(st.sampled_from(MODES), st.data())
def test_batches(which, data):
    mode, bits, group = which
    batch = data.draw(st.lists(st.integers(1, 3), max_size=2))
    cut = data.draw(st.integers(0, len(batch)))
    of_x = [data.draw(st.sampled_from([1, d])) for d in batch]
    of_w = [data.draw(st.sampled_from([1, d])) for d in batch[cut:]]
    rows, n, k = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6)), group * data.draw(st.integers(1, 3))
    parts, w, how = packed((*of_w, n, k), mode, bits, group)
    x = sample(*of_x, rows, k, seed=3)
    close(mx.quantized_matmul(mx.array(x), *parts, **how), x @ np.swapaxes(w, -1, -2))
    z = sample(*of_x, rows, n, seed=3)
    close(mx.quantized_matmul(mx.array(z), *parts, transpose=False, **how), z @ w)
    close(mx.quantized_matmul(mx.array(x[..., 0, :]).reshape(-1, k)[0], *parts, **how),
          (x.reshape(-1, k)[0] @ np.swapaxes(w, -1, -2)))  # fmt: skip


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("bits", [2, 4, 5, 8])
def test_infinite_and_huge_numbers(bits, rows):
    """Sums over codes and those for biases that are both infinite would differ by NaN."""
    w = mx.random.normal((64, 128), key=mx.random.key(1))
    packed = mx.quantize(w, 64, bits)
    for value in (-mx.inf, 3e38):
        x = mx.random.normal((rows, 128), key=mx.random.key(2))
        x[0, 3] = value
        y = mx.quantized_matmul(x, *packed, True, 64, bits)
        with np.errstate(all="ignore"):
            expected = np.array(x, np.float64) @ np.array(mx.dequantize(*packed, 64, bits), np.float64).T
            np.testing.assert_allclose(np.array(y)[1:], expected[1:], rtol=1e-4, atol=1e-3)
            np.testing.assert_allclose(np.array(y)[0], expected[0].astype(np.float32), rtol=1e-4, atol=1e-4)


def test_layouts_and_threads():
    parts, w, how = packed((64, 256), "affine", 4, 64)
    x = sample(256, 5)
    want = mx.quantized_matmul(mx.array(np.ascontiguousarray(x.T)), *parts, **how)
    assert mx.array_equal(mx.quantized_matmul(mx.array(x).T, *parts, **how), want)
    turned = [mx.array(np.ascontiguousarray(np.array(p).T)).T for p in parts]
    assert mx.array_equal(mx.quantized_matmul(mx.array(x).T, *turned, **how), want)
    alone = mx.quantized_matmul(mx.array(x).T[2], *parts, **how)
    if mx.default_device() == mx.cpu:
        assert mx.array_equal(alone, want[2])
    close(alone, np.array(want[2]))  # a GPU adds up a row by itself in another order


def test_empty():
    none, some = mx.quantize(mx.zeros((0, 64))), mx.quantize(mx.zeros((5, 64)))
    assert mx.quantized_matmul(mx.zeros((3, 64)), *none).shape == (3, 0)
    assert mx.quantized_matmul(mx.zeros((3, 0)), *none, transpose=False).tolist() == [[0] * 64] * 3
    assert mx.quantized_matmul(mx.zeros((0, 64)), *some).shape == (0, 5)
    assert mx.dequantize(*mx.quantize(mx.zeros((2, 0)))).shape == (2, 0)
    assert mx.gather_qmm(mx.zeros((0, 3, 64)), *some).shape == (0, 3, 5)


# Matrices by index


@pytest.mark.parametrize("mode,bits,group", [("affine", 4, 64), ("affine", 3, 32), *FLOATING])
@pytest.mark.parametrize("rows", [1, 30])
def test_gather(mode, bits, group, rows):
    parts, w, how = packed((4, 6, 128), mode, bits, group)
    x, z = sample(2, 3, rows, 128, seed=1), sample(2, 3, rows, 6, seed=1)
    lhs, rhs = np.array([[0, 5, 2, 2], [1, 1, -1, 0]]), np.array([3, 0, 3, -3])
    flat_x, flat_z = x.reshape(6, rows, 128)[lhs], z.reshape(6, rows, 6)[lhs]
    got = mx.gather_qmm(mx.array(x), *parts, lhs_indices=mx.array(lhs), rhs_indices=mx.array(rhs), **how)
    close(got, flat_x @ np.swapaxes(w[rhs], -1, -2))
    got = mx.gather_qmm(
        mx.array(z), *parts, lhs_indices=mx.array(lhs), rhs_indices=mx.array(rhs), transpose=False, **how
    )
    close(got, flat_z @ w[rhs])
    got = mx.gather_qmm(mx.array(x[0, 0]), *parts, rhs_indices=mx.array([1, 2], mx.uint32), **how)
    close(got, x[0, 0] @ np.swapaxes(w[[1, 2]], -1, -2))
    got = mx.gather_qmm(mx.array(x.reshape(6, rows, 128)[:4]), *parts, **how)
    close(got, x.reshape(6, rows, 128)[:4] @ np.swapaxes(w, -1, -2))


def test_gather_out_of_range(index_errors):
    parts, _, how = packed((4, 6, 64), "affine", 4, 64)
    for bad in (4, -5, 2**31):
        with pytest.raises(IndexError, match="rhs_indices from -4 to 3 for 4 matrices, got"):
            mx.eval(
                mx.gather_qmm(
                    mx.zeros((2, 1, 64)), *parts, lhs_indices=mx.array([0]), rhs_indices=mx.array([bad]), **how
                )
            )


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8", "mxfp4"])
def test_both_quantized(mode):
    def left(a):
        parts = mx.quantize(a, mode=mode)
        return numpy(mx.dequantize(*parts, mode=mode, dtype=mx.float32)).astype(np.float64)

    x, w = mx.array(sample(5, 64)), mx.array(sample(7, 64, seed=1))
    want = left(x) @ left(w).T
    close(mx.qqmm(x, w, mode=mode), want)
    close(mx.qqmm(x, *mx.quantize(w, mode=mode), mode=mode), want)
    close(mx.qqmm(x.astype(mx.bfloat16), w.astype(mx.bfloat16), mode=mode),
          left(x.astype(mx.bfloat16)) @ left(w.astype(mx.bfloat16)).T, 1e-2)  # fmt: skip
    dx, dw = mx.grad(lambda x, w: (mx.qqmm(x, w, mode=mode) * want.astype(np.float32)).sum(), argnums=(0, 1))(x, w)
    close(dx, want @ left(w))
    close(dw, want.T @ left(x))
    parts = mx.quantize(w, mode=mode)
    close(mx.grad(lambda x: (mx.qqmm(x, *parts, mode=mode) * want.astype(np.float32)).sum())(x), want @ left(w))
    many = mx.array(sample(3, 2, 64)), mx.array(sample(4, 7, 64, seed=1))
    index = mx.array([0, 2, 1]), mx.array([3, 0, 3])
    want = np.stack([left(many[0])[i] @ left(many[1])[j].T for i, j in zip([0, 2, 1], [3, 0, 3])])
    close(mx.gather_qqmm(*many, lhs_indices=index[0], rhs_indices=index[1], mode=mode), want)
    parts = mx.quantize(many[1], mode=mode)
    close(mx.gather_qqmm(many[0], *parts, lhs_indices=index[0], rhs_indices=index[1], mode=mode), want)


def test_both_quantized_with_global_scales():
    x, w = sample(5, 64), sample(7, 64, seed=1)
    scales = [mx.array(np.abs(a).max()) for a in (x, w)]

    def left(a, scale):
        parts = mx.quantize(mx.array(a), mode="nvfp4", global_scale=scale)
        return numpy(mx.dequantize(*parts, mode="nvfp4", global_scale=scale, dtype=mx.float32))

    want = left(x, scales[0]) @ left(w, scales[1]).T
    close(mx.qqmm(mx.array(x), mx.array(w), None, None, None, "nvfp4", *scales), want)
    parts = mx.quantize(mx.array(w), mode="nvfp4", global_scale=scales[1])
    close(mx.qqmm(mx.array(x), *parts, None, None, "nvfp4", *scales), want)
    stacked = [p[None] for p in parts]
    got = mx.gather_qmm(mx.array(x), *stacked, rhs_indices=mx.array([0]), mode="nvfp4", global_scale=scales[1][None])
    close(got[0], x @ left(w, scales[1]).T)


# Derivatives and batches


def scalar(f, weights):
    return lambda *a: (f(*a) * weights).sum()


@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("batch_w", [(), (2,)])
def test_gradients(transpose, batch_w):
    q, s, b = mx.quantize(mx.array(sample(*batch_w, 4, 64)), 32, 3)
    x = mx.array(sample(2, 3, 64 if transpose else 4, seed=1))
    weights = mx.array(sample(2, 3, 4 if transpose else 64, seed=2))
    f = scalar(lambda x, s, b: mx.quantized_matmul(x, q, s, b, transpose, 32, 3), weights)
    args = (x, s, b)
    for i, g in enumerate(mx.grad(f, argnums=(0, 1, 2))(*args)):
        close(g, differences(of_argument(f, args, i), args[i], 1e-2, mx.float32), 2e-3)
    t = [mx.array(sample(*a.shape, seed=9)) for a in args]
    forward = mx.jvp(f, args, t)[1][0].item()
    backward = sum((g * v).sum().item() for g, v in zip(mx.grad(f, argnums=(0, 1, 2))(*args), t))
    assert forward == pytest.approx(backward, rel=1e-4)


def test_gather_gradients():
    q, s, b = mx.quantize(mx.array(sample(3, 4, 64)), 64, 4)
    lhs, rhs = mx.array([0, 1, 1, 0]), mx.array([2, 0, 2, 2])
    for transpose in (True, False):
        x = mx.array(sample(2, 3, 64 if transpose else 4, seed=1))
        weights = mx.array(sample(4, 3, 4 if transpose else 64, seed=2))
        f = scalar(lambda x, s, b, t=transpose: mx.gather_qmm(x, q, s, b, lhs, rhs, t), weights)
        for i, g in enumerate(mx.grad(f, argnums=(0, 1, 2))(x, s, b)):
            close(g, differences(of_argument(f, (x, s, b), i), (x, s, b)[i], 1e-2, mx.float32), 2e-3)


def test_dequantize_gradients():
    q, s, b = mx.quantize(mx.array(sample(2, 64)), 32, 4)
    weights = mx.array(sample(2, 64, seed=1))
    f = scalar(lambda s, b: mx.dequantize(q, s, b, 32, 4), weights)
    for i, g in enumerate(mx.grad(f, argnums=(0, 1))(s, b)):
        close(g, differences(of_argument(f, (s, b), i), (s, b)[i], 1e-2, mx.float32), 2e-3)
    assert mx.jvp(f, (s, b), (s, b))[1][0].item() == pytest.approx(f(s, b).item(), rel=1e-4)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_quantize_gradients(bits):
    w = mx.array(sample(2, 64))
    a, c = (mx.array(sample(2, 2, seed=i)) for i in (1, 2))

    def f(w):
        _, s, b = mx.quantize(w, 32, bits)
        return (s * a + b * c).sum()

    close(mx.grad(f)(w), differences(f, w, 1e-3, mx.float32), 5e-3)
    t = mx.array(sample(2, 64, seed=3))
    assert mx.jvp(f, (w,), (t,))[1][0].item() == pytest.approx((mx.grad(f)(w) * t).sum().item(), rel=1e-3)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("which", [1, 2])
def test_quantize_gradients_of_doubles(bits, which):
    """Numbers that float32 does not have are at the end of their group as float32 has it."""
    w = np.random.default_rng(bits).normal(size=(3, 64)) * (1 + 1e-10)
    got, want = (
        mx.grad(lambda x: mx.quantize(x, group_size=32, bits=bits)[which].sum())(mx.array(w, dtype))
        for dtype in (mx.float64, mx.float32)
    )
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-5, atol=1e-7)


def test_round_trip_passes_derivatives():
    x = mx.array(sample(2, 32))
    eye = mx.eye(32)
    assert mx.array_equal(mx.grad(lambda x: mx.qqmm(x, eye, mode="mxfp8").sum())(x), mx.ones((2, 32)))


def test_vmap(index_errors):
    def loop(f, *args):
        return np.stack([np.array(f(*(a[i] for a in args))) for i in range(args[0].shape[0])])

    q, s, b = mx.quantize(mx.array(sample(3, 4, 64)), 32, 4)
    x = mx.array(sample(3, 2, 5, 64, seed=1))

    def f(x, q, s, b):
        return mx.quantized_matmul(x, q, s, b, group_size=32)

    close(mx.vmap(f)(x, q, s, b), loop(f, x, q, s, b))
    close(mx.vmap(f, in_axes=(0, None, None, None))(x, q[0], s[0], b[0]), loop(lambda x: f(x, q[0], s[0], b[0]), x))
    close(mx.vmap(f, in_axes=(None, 0, 0, 0))(x[0], q, s, b), loop(lambda *p: f(x[0], *p), q, s, b))
    close(
        mx.vmap(f, in_axes=(2, None, None, None))(x, q[0], s[0], b[0]),
        loop(lambda x: f(x, q[0], s[0], b[0]), mx.moveaxis(x, 2, 0)),
    )
    close(mx.vmap(lambda s: f(x[0], q[0], s, b[0]))(s), loop(lambda s: f(x[0], q[0], s, b[0]), s))
    for k, part in enumerate(mx.vmap(lambda w: mx.quantize(w, 32), in_axes=1)(mx.array(sample(2, 3, 64)))):
        want = [np.array(mx.quantize(mx.array(sample(2, 3, 64)[:, i]), 32)[k]) for i in range(3)]
        np.testing.assert_array_equal(np.array(part), np.stack(want))

    def g(q, s, b):
        return mx.dequantize(q, s, b, 32)

    close(mx.vmap(g)(q, s, b), loop(g, q, s, b))
    index = mx.array([[0, 1], [-1, 0], [1, 1]])

    def h(x, i, s):
        return mx.gather_qmm(x, q[:2], s, b[:2], i, mx.array([1, 0]), group_size=32)

    scales = mx.broadcast_to(s[:2][None], (3, *s[:2].shape)) * mx.arange(1, 4).reshape(3, 1, 1, 1)
    close(mx.vmap(h)(x, index, scales), loop(h, x, index, scales))
    close(mx.vmap(h, in_axes=(None, 0, None))(x[0], index, s[:2]), loop(lambda i: h(x[0], i, s[:2]), index))
    close(mx.vmap(h, in_axes=(0, None, None))(x, index[0], s[:2]), loop(lambda x: h(x, index[0], s[:2]), x))
    with pytest.raises(IndexError):
        mx.eval(mx.vmap(h, in_axes=(0, None, None))(x, mx.array([2, 0]), s[:2]))
    bytes_ = mx.to_fp8(x)
    assert mx.array_equal(mx.vmap(mx.to_fp8, in_axes=1, out_axes=1)(x), bytes_)
    assert mx.array_equal(mx.vmap(mx.from_fp8)(bytes_), mx.from_fp8(bytes_))


# What is refused


def test_errors():
    w = mx.array(sample(8, 256))
    q, s, b = mx.quantize(w)
    x = mx.zeros((3, 256))
    cases = [
        (lambda: mx.quantize(w[0]), r"at least two dimensions.*\(256,\)"),
        (lambda: mx.quantize(w[:, :100]), r"multiple of the group size 64.*\(8,100\)"),
        (lambda: mx.quantize(w, 48), "group size of 32, 64 or 128, got 48"),
        (lambda: mx.quantize(w, 0), "group size of 32, 64 or 128"),
        (lambda: mx.quantize(w, 64, 7), "bits, got 7"),
        (lambda: mx.quantize(w, mode="int4"), "got 'int4'"),
        (lambda: mx.quantize(w, 64, mode="mxfp4"), "group size of 32"),
        (lambda: mx.quantize(w.astype(mx.int32)), "floating-point.*int32"),
        (lambda: mx.quantize(w, mode="mxfp4", global_scale=mx.array(1.0)), "nvfp4"),
        (lambda: mx.quantize(w, mode="nvfp4", global_scale=mx.array([1.0, 2.0])), "global scale"),
        (lambda: mx.dequantize(q, s), "biases"),
        (lambda: mx.dequantize(q.astype(mx.int32), s, b), "uint32, got int32"),
        (lambda: mx.dequantize(q, s[:, :3], b), "shapes"),
        (lambda: mx.dequantize(q, s, b, dtype=mx.int32), "floating-point.*int32"),
        (lambda: mx.quantized_matmul(x[:, :128], q, s, b), "last dimension of 256"),
        (lambda: mx.quantized_matmul(x, q, s, b, False), "last dimension of 8"),
        (lambda: mx.quantized_matmul(x.astype(mx.complex64), q, s, b), "complex64"),
        (lambda: mx.quantized_matmul(x.astype(mx.float64), q, s, b), "float64"),
        (lambda: mx.quantized_matmul(mx.zeros((2, 3, 256)), *(mx.stack([p] * 3) for p in (q, s, b))), "broadcast"),
        (lambda: mx.quantized_matmul(x, q, s, mode="mxfp4", group_size=32), "uint8"),
        (lambda: mx.gather_qmm(x, q, s, b, rhs_indices=mx.array([0.5])), "integers"),
        (lambda: mx.qqmm(x, w, mode="affine"), "affine"),
        (lambda: mx.qqmm(x, w, global_scale_x=mx.array(1.0)), "both global scales"),
        (lambda: mx.qqmm(x, q), "scales"),
        (lambda: mx.from_fp8(x), "uint8, got float32"),
        (lambda: mx.from_fp8(q.astype(mx.uint8), mx.int32), "int32"),
        (lambda: mx.to_fp8(q), "uint32"),
    ]
    for f, message in cases:
        with pytest.raises(ValueError, match=message):
            f()
