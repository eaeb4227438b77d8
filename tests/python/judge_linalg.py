"""Linear algebra, transforms, convolutions and operations with kernels of their own for judge.py."""

import mlx.core as mx
import numpy as np
from judge import Arrays as A
from judge import Exact as X
from judge_core import HALF, HAVE_FACTORS, M, fraction, positive, regular, softmax, some, symmetric, these
from mpmath import mp, mpf

# ------------------------------------------------------------------ matrices of mpf


def eye(n):
    return np.array([[mpf(i == j) for j in range(n)] for i in range(n)], object)


def solve(a, b):
    """Gauss's elimination, with the largest pivot."""
    n, b = len(a), b.reshape(len(a), -1)
    w = np.concatenate([a, b], 1)
    for k in range(n):
        p = k + max(range(n - k), key=lambda i: abs(w[k + i, k]))
        w[[k, p]] = w[[p, k]]
        w[k] = w[k] / w[k, k]
        for i in range(n):
            if i != k:
                w[i] = w[i] - w[i, k] * w[k]
    return w[:, n:]


def inverse(a):
    return solve(a, eye(len(a)))


def det(a):
    if len(a) == 1:
        return a[0, 0]
    return sum((-1) ** j * a[0, j] * det(np.delete(a[1:], j, 1)) for j in range(len(a)))


def cholesky(a):
    n = len(a)
    low = np.full((n, n), mpf(0), object)
    a = (a + a.T) / 2  # only one half is read, and both are changed by the same
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - sum(low[i, k] * low[j, k] for k in range(j))
            low[i, j] = mp.sqrt(s) if i == j else s / low[j, j]
    return low


def qr(a):
    """Householder's signs: the diagonal of R is negative where LAPACK's is, which the caller knows."""
    q, r = [], np.full((a.shape[1],) * 2, mpf(0), object)
    for j in range(a.shape[1]):
        v = a[:, j]
        for i, u in enumerate(q):
            r[i, j] = np.sum(u * a[:, j])
            v = v - r[i, j] * u
        sign = -1 if np.float64(v[j]) > 0 or j == 0 and np.float64(a[0, 0]) > 0 else 1
        r[j, j] = sign * mp.sqrt(np.sum(v * v))
        q.append(v / r[j, j])
    return [np.stack(q, 1), r]


def roots2(t, d):
    """The roots of x^2 - t x + d, ascending."""
    w = mp.sqrt(t * t / 4 - d)
    return np.array([t / 2 - w, t / 2 + w], object)


def singular(a):
    s = a.T @ a
    return np.array([mp.sqrt(v) for v in roots2(s[0, 0] + s[1, 1], det(s))[::-1]], object)


def lower(n):
    def make(rng, kind):
        return np.tril(rng.uniform(0.25, 1, (n, n))) + np.diag(np.arange(n) + 1.0)

    return make


def definite(n):
    def make(rng, kind):
        a = rng.uniform(-0.4, 0.4, (n, n))
        return kind.round(a + a.T + np.diag(np.arange(n) + 3.0))

    return make


def symmetrized(f):
    """Of matrices of which one half is read: judged as functions of their symmetric part."""
    return lambda a: f((a + mx.swapaxes(a, -1, -2)) / 2)


FACTORED = {"kinds": HAVE_FACTORS, "normwise": True, "conditioned": True, "value": 6, "slope": 4, "second": 4}

ROWS = [
    A("linalg.inv", mx.linalg.inv, inverse, (regular(3),), **FACTORED),
    # The two terms of its second derivative have the size of the inverse twice, and cancel.
    A("linalg.det", mx.linalg.det, det, (regular(3),), **(FACTORED | {"second": 10})),
    A("linalg.slogdet", lambda a: mx.linalg.slogdet(a)[1], lambda a: mp.log(abs(det(a))), (regular(3),), **FACTORED),
    A("linalg.solve", mx.linalg.solve, solve, (regular(3), some(3, 2)), **FACTORED),
    A(
        "linalg.solve_triangular",
        lambda a, b: mx.linalg.solve_triangular(mx.tril(a), b),
        lambda a, b: solve(np.tril(a) * mpf(1), b),
        (lower(3), some(3, 2)),
        **FACTORED,
    ),
    A(
        "linalg.tri_inv",
        lambda a: mx.linalg.tri_inv(mx.tril(a)),
        lambda a: inverse(np.tril(a) * mpf(1)),
        (lower(3),),
        **FACTORED,
    ),
    A("linalg.cholesky", symmetrized(mx.linalg.cholesky), cholesky, (definite(3),), **FACTORED),
    A(
        "linalg.cholesky_inv",
        lambda a: mx.linalg.cholesky_inv(mx.tril(a)),
        lambda a: inverse((np.tril(a) * mpf(1)) @ (np.tril(a) * mpf(1)).T),
        (lower(3),),
        **FACTORED,
    ),
    A(
        "linalg.pinv",
        mx.linalg.pinv,
        lambda a: solve(a.T @ a, a.T),
        (these([[2.0, 0.5], [-1, 1], [0.25, 3]]),),
        **FACTORED,
    ),
    A("linalg.qr", lambda a: list(mx.linalg.qr(a)), qr, (these([[2.0, 0.5], [-1, 1], [0.25, 3]]),), **FACTORED),
    A(
        "linalg.lu",
        lambda a: list(mx.linalg.lu(a)[1:]),
        lambda a: [
            np.array([[mpf(1), mpf(0)], [a[1, 0] / a[0, 0], mpf(1)]], object),
            np.array([[a[0, 0], a[0, 1]], [mpf(0), a[1, 1] - a[1, 0] * a[0, 1] / a[0, 0]]], object),
        ],
        (these([[4.0, 1.5], [-1, 2]]),),
        **FACTORED,
    ),
    A(
        "linalg.lu_factor",
        lambda a: mx.linalg.lu_factor(a)[0],
        lambda a: np.array([[a[0, 0], a[0, 1]], [a[1, 0] / a[0, 0], a[1, 1] - a[1, 0] * a[0, 1] / a[0, 0]]], object),
        (these([[4.0, 1.5], [-1, 2]]),),
        **FACTORED,
    ),
    A(
        "linalg.svd",
        lambda a: mx.linalg.svd(a, compute_uv=False),
        singular,
        (these([[2.0, 0.5], [-1, 1], [0.25, 3]]),),
        **FACTORED,
    ),
    A(
        "linalg.eigvalsh",
        symmetrized(mx.linalg.eigvalsh),
        lambda a: roots2(a[0, 0] + a[1, 1], det((a + a.T) / 2)),
        (symmetric(2),),
        **FACTORED,
    ),
    A(
        "linalg.eigh",
        lambda a: symmetrized(mx.linalg.eigh)(a)[0],
        lambda a: roots2(a[0, 0] + a[1, 1], det((a + a.T) / 2)),
        (symmetric(2),),
        **FACTORED,
    ),
    A(
        "linalg.eigvals",
        lambda a: mx.sort(mx.real(mx.linalg.eigvals(a))),
        lambda a: roots2(a[0, 0] + a[1, 1], det(a)),
        (these([[2.0, 0.5], [1, -1]]),),
        **(FACTORED | {"kinds": ("float32",)}),
    ),
    # Of vectors whose length and phase are a choice, a function that they cancel in: a^3.
    A(
        "linalg.eig",
        lambda a: mx.real((lambda w, v: (v * w**3) @ mx.linalg.inv(v))(*mx.linalg.eig(a))),
        lambda a: a @ a @ a,
        (these([[2.0, 0.5], [1, -1]]),),
        **(FACTORED | {"kinds": ("float32",)}),
    ),
    A(
        "linalg.norm",
        lambda a: mx.linalg.norm(a, axis=1),
        lambda a: X.sqrt(np.sum(a * a, 1)),
        (some(2, 3),),
        scales=HALF,
    ),
    A(
        "linalg.vector_norm",
        lambda a: mx.linalg.vector_norm(a, axis=(0, 2)),
        lambda a: X.sqrt(np.sum(a * a, (0, 2))),
        (some(2, 2, 3),),
        scales=HALF,
    ),
    A("linalg.matrix_power", lambda a: mx.linalg.matrix_power(a, 3), lambda a: a @ a @ a, (some(2, 2),), normwise=True),
    A(
        "linalg.norm of order 3",
        lambda a: mx.linalg.norm(a, 3, axis=1),
        lambda a: np.array([mp.cbrt(v) for v in np.sum(abs(a) ** 3, 1)], object),
        (some(2, 3),),
        normwise=True,
        conditioned=True,
        second=4,
    ),
    A(
        "linalg.cross",
        mx.linalg.cross,
        lambda a, b: np.stack(
            [
                a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1],
                a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2],
                a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0],
            ],
            1,
        ),
        (some(2, 3), some(2, 3)),
        scales=HALF,
    ),
]

# ------------------------------------------------------------------ transforms


def turns(n, sign):
    w = [[mp.expjpi(mpf(2 * sign * i * j) / n) for j in range(n)] for i in range(n)]
    return np.array(w, object)


def fourier(x, axes, sign=-1):
    for axis in axes:
        n = x.shape[axis]
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ turns(n, sign) / (n if sign > 0 else 1), -1, axis)
    return x


def parts(y):
    return [np.frompyfunc(lambda v: mp.mpc(v).real, 1, 1)(y), np.frompyfunc(lambda v: mp.mpc(v).imag, 1, 1)(y)]


def spectrum(name, fn, means, shape, **kw):
    return A(
        f"fft.{name}",
        lambda x: [mx.real(y := fn(x)), mx.imag(y)],
        lambda x: parts(means(x)),
        (some(*shape),),
        kinds=("float32",),
        normwise=True,
        **kw,
    )


def half_back(re, im, n):
    """The real numbers of n whose spectrum begins so; imaginary parts that cannot be are left out."""
    j = [mpf(0) if k == 0 or 2 * k == n else mpf(1) for k in range(re.shape[-1])]
    w = turns(n, 1)[: re.shape[-1]]
    two = np.array([1 + v for v in j], object)
    z = (re + 1j * np.array(j, object) * im) * two
    return parts(z @ w / n)[0]


WINDOW = np.array([0.5, 1.25, 1.5, 0.75], np.float32)


def overlapped(re, im):
    """What stft of four elements every two, with that window, is taken of."""
    w = np.array([mpf(float(v)) for v in WINDOW], object)
    y, of = np.full(8, mpf(0), object), np.full(8, mpf(0), object)
    for i, (a, b) in enumerate(zip(re.T, im.T)):
        y[2 * i : 2 * i + 4] += w * half_back(a, b, 4)
        of[2 * i : 2 * i + 4] += w * w
    return y / of


def complex_of(re, im):
    return re.astype(mx.complex64) + mx.array(1j) * im.astype(mx.complex64)


ROWS += [
    spectrum("fft", mx.fft.fft, lambda x: fourier(x, (1,)), (2, 3)),
    spectrum("fft2", mx.fft.fft2, lambda x: fourier(x, (0, 1)), (2, 3)),
    spectrum("fftn", mx.fft.fftn, lambda x: fourier(x, (0, 1)), (2, 3)),
    spectrum("ifft", mx.fft.ifft, lambda x: fourier(x, (1,), 1), (2, 3)),
    spectrum("ifft2", mx.fft.ifft2, lambda x: fourier(x, (0, 1), 1), (2, 3)),
    spectrum("ifftn", mx.fft.ifftn, lambda x: fourier(x, (0, 1), 1), (2, 3)),
    spectrum("rfft", mx.fft.rfft, lambda x: fourier(x, (1,))[:, :3], (2, 4)),
    spectrum("ihfft", mx.fft.ihfft, lambda x: fourier(x, (1,), 1)[:, :3], (2, 4)),
    spectrum("rfft2", mx.fft.rfft2, lambda x: fourier(x, (0, 1))[:, :3], (2, 4)),
    spectrum("rfftn", mx.fft.rfftn, lambda x: fourier(x, (0, 1))[:, :3], (2, 4)),
    A(
        "fft.irfft",
        lambda a, b: mx.fft.irfft(complex_of(a, b)),
        lambda a, b: half_back(a, b, 4),
        (some(2, 3), some(2, 3)),
        kinds=("float32",),
        normwise=True,
    ),
    A(
        "fft.hfft",
        lambda a, b: mx.fft.hfft(complex_of(a, b)),
        lambda a, b: 4 * half_back(a, -b, 4),
        (some(2, 3), some(2, 3)),
        kinds=("float32",),
        normwise=True,
    ),
    *(
        A(
            name,
            lambda a, b, f=f: f(complex_of(a, b), axes=(0, 1)),
            lambda a, b: half_back(*parts(fourier(a + 1j * b, (0,), 1)), 4),
            (some(1, 3), some(1, 3)),
            kinds=("float32",),
            normwise=True,
        )
        for name, f in (("fft.irfft2", mx.fft.irfft2), ("fft.irfftn", mx.fft.irfftn))
    ),
    A(
        "fft.stft",
        lambda x, w: [mx.real(y := mx.fft.stft(x, 4, 2, window=w, center=False)), mx.imag(y)],
        lambda x, w: parts(np.stack([(x[i : i + 4] * w) @ turns(4, -1)[:, :3] for i in (0, 2, 4)], -1)),
        (some(8), positive(4)),
        kinds=("float32",),
        normwise=True,
    ),
    A(
        "fft.istft",
        lambda a, b: mx.fft.istft(complex_of(a, b), 4, 2, window=mx.array(WINDOW), center=False),
        overlapped,
        (some(3, 3), some(3, 3)),
        kinds=("float32",),
        normwise=True,
    ),
    M("fft.fftshift", mx.fft.fftshift, np.fft.fftshift, some(3, 2)),
    M("fft.ifftshift", mx.fft.ifftshift, np.fft.ifftshift, some(3, 2)),
]

# ------------------------------------------------------------------ convolutions


def convolved(x, weight):
    """x (N, ..., C) with weight (O, ..., C), nothing around it."""
    size, (n, *shape, _) = weight.shape[1:-1], x.shape
    y = np.empty((n, *(s - k + 1 for s, k in zip(shape, size)), len(weight)), object)
    for place in np.ndindex(*y.shape[1:-1]):
        window = x[(slice(None), *(slice(p, p + k) for p, k in zip(place, size)))]
        y[(slice(None), *place)] = window.reshape(n, -1) @ weight.reshape(len(weight), -1).T
    return y


def spread(x, weight):
    """The adjoint: every value of x (N, ..., C) brings a copy of weight (O, ..., C) along."""
    size, (n, *shape, _) = weight.shape[1:-1], x.shape
    y = np.full((n, *(s + k - 1 for s, k in zip(shape, size)), len(weight)), mpf(0), object)
    for place in np.ndindex(*shape):
        for k in np.ndindex(*size):
            at = (slice(None), *(p + i for p, i in zip(place, k)))
            y[at] = y[at] + x[(slice(None), *place)] @ weight[(slice(None), *k)].T
    return y


ROWS += [
    A(name, getattr(mx, name), means, (some(1, *shape, 2), some(2, *size, 2)), normwise=True, scales=HALF)
    for name, means, shape, size in (
        ("conv1d", convolved, (4,), (2,)),
        ("conv2d", convolved, (3, 2), (2, 2)),
        ("conv3d", convolved, (2, 2, 2), (1, 2, 2)),
        ("conv_general", convolved, (3, 2), (2, 2)),
        ("conv_transpose1d", spread, (3,), (2,)),
        ("conv_transpose2d", spread, (2, 2), (2, 1)),
        ("conv_transpose3d", spread, (2, 1, 2), (1, 2, 2)),
    )
]

# ------------------------------------------------------------------ kernels of their own


def normalized(x, eps, centred):
    if centred:
        x = x - np.sum(x, -1, keepdims=True) / x.shape[-1]
    return x / X.sqrt(np.sum(x * x, -1, keepdims=True) / x.shape[-1] + mpf(eps))


def rotated(x, scale, base=None, freqs=None):
    half, y = x.shape[-1] // 2, x.copy()
    for t in range(x.shape[-2]):
        for i in range(half):
            angle = (t + 1) * mpf(scale) / (freqs[i] if base is None else mp.power(base, mpf(i) / half))
            c, s = mp.cos(angle), mp.sin(angle)
            a, b = x[..., t, i], x[..., t, i + half]
            y[..., t, i], y[..., t, i + half] = a * c - b * s, a * s + b * c
    return y


def attention(q, k, v, scale):
    return np.matmul(softmax(np.matmul(q, np.swapaxes(k, -1, -2)) * mpf(scale)), v)


def uniform_numbers(kind):
    return np.array(mx.random.uniform(shape=(3,), key=mx.random.key(4)).astype(mx.float64, stream=mx.cpu))


def gated_delta(q, k, v, gamma, beta):
    """Of one batch and one head."""
    state, out = np.full((v.shape[-1], q.shape[-1]), mpf(0), object), []
    for t in range(q.shape[1]):
        state = gamma[0, t, 0] * state
        state = state + beta[0, t, 0] * np.outer(v[0, t, 0] - state @ k[0, t, 0], k[0, t, 0])
        out.append(state @ q[0, t, 0])
    return np.stack(out)[None, :, None]


PACKED, *LEVELS = mx.quantize(mx.sin(mx.arange(64.0)).reshape(2, 32), group_size=32, bits=4)
LEVELS = np.array(mx.dequantize(PACKED, mx.ones((2, 1)), mx.zeros((2, 1)), group_size=32, bits=4)).astype(int)
NORM = {"normwise": True, "conditioned": True, "slope": 4, "second": 4}
ROWS += [
    A(
        "fast.layer_norm",
        lambda x, w, b: mx.fast.layer_norm(x, w, b, 0.125),
        lambda x, w, b: normalized(x, 0.125, True) * w + b,
        (some(2, 4), some(4), some(4)),
        **NORM,
    ),
    A(
        "fast.rms_norm",
        lambda x, w: mx.fast.rms_norm(x, w, 0.1),
        lambda x, w: normalized(x, 0.1, False) * w,
        (some(2, 4), some(4)),
        **NORM,
    ),
    A(
        "fast.rope",
        lambda x: mx.fast.rope(x, 4, traditional=False, base=100.3, scale=0.3, offset=1),
        lambda x: rotated(x, 0.3, mpf(100.3)),
        (some(1, 3, 4),),
        normwise=True,
        scales=HALF,
    ),
    A(
        "fast.rope with freqs",
        lambda x, f: mx.fast.rope(x, 4, traditional=False, base=None, scale=0.5, offset=1, freqs=f),
        lambda x, f: rotated(x, 0.5, freqs=f),
        (some(1, 3, 4), positive(2)),
        normwise=True,
        conditioned=True,
    ),
    A(
        "fast.scaled_dot_product_attention",
        lambda q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3),
        lambda q, k, v: attention(q, k, v, 0.3),
        (some(1, 1, 2, 2), some(1, 1, 3, 2), some(1, 1, 3, 2)),
        **NORM,
    ),
    A(
        "fast.gated_delta_update",
        lambda q, k, v, g, b: mx.fast.gated_delta_update(q, k, v, g, b)[0],
        gated_delta,
        (some(1, 2, 1, 2), some(1, 2, 1, 2), some(1, 2, 1, 2), fraction(1, 2, 1), fraction(1, 2, 1)),
        kinds=("float16", "bfloat16", "float32"),
        **NORM,
    ),
    A(
        "quantized_matmul",
        lambda x, s, b: mx.quantized_matmul(x, PACKED, s, b, group_size=32, bits=4),
        lambda x, s, b: x @ (LEVELS * s + b).T,
        (some(2, 32), positive(2, 1), some(2, 1)),
        kinds=("float16", "bfloat16", "float32"),
        normwise=True,
        slope=5,  # sums of 32 products, which a CPU without fused multiply-add rounds as well
    ),
    A(
        "gather_qmm",
        lambda x, s, b: mx.gather_qmm(x, PACKED[None], s[None], b[None], group_size=32, bits=4),
        lambda x, s, b: x @ (LEVELS * s + b).T,
        (some(2, 32), positive(2, 1), some(2, 1)),
        kinds=("float16", "bfloat16", "float32"),
        normwise=True,
    ),
    A(
        "dequantize",
        lambda s, b: mx.dequantize(PACKED, s, b, group_size=32, bits=4),
        lambda s, b: LEVELS * s + b,
        (positive(2, 1), some(2, 1)),
    ),
    A(
        "fast.cross_entropy",
        mx.fast.cross_entropy,
        lambda x, t: X.log(np.sum(X.exp(x), -1)) - np.take_along_axis(x, t[:, None], 1)[:, 0],
        (some(3, 3), these(np.array([1, 0, 2]))),
        gives=mx.float32,
        normwise=True,
        kinds=("float16", "bfloat16", "float32"),
        second=(16, 8, 8),
    ),
    A(
        "random.uniform",
        lambda a, b: mx.random.uniform(a, b, (3,), key=mx.random.key(4)),
        lambda a, b: a + (b - a) * uniform_numbers(None),
        (positive(3), positive(3)),
        kinds=("float32",),
        normwise=True,
    ),
    A(
        "random.normal",
        lambda a, b: b * mx.random.normal((3,), key=mx.random.key(4)) + a,
        lambda a, b: a + b * np.array(mx.random.normal((3,), key=mx.random.key(4)).astype(mx.float64, stream=mx.cpu)),
        (positive(3), positive(3)),
        kinds=("float32",),
        normwise=True,
    ),
    A(
        "block_masked_mm",
        lambda a, b, m: mx.block_masked_mm(a, b, 32, m),
        lambda a, b, m: a @ b if m.all() else 0 * (a @ b),
        (some(2, 3), some(3, 2), these(np.array([[True]]))),
        normwise=True,
    ),
    A(
        "clip",
        lambda x: mx.clip(x, -0.75, 0.75),
        lambda x: np.minimum(np.maximum(x, mpf(-0.75)), mpf(0.75)),
        (some(3, 3),),
    ),
    A("nan_to_num", mx.nan_to_num, lambda x: x, (some(3),)),
]
