"""The functions of mlx.nn for judge.py."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from judge import KINDS, Arrays
from judge import Elementwise as E
from judge import Exact as X
from judge_core import distinct, fraction, logsumexp, positive, softmax, some, these
from mpmath import mp, mpf


def A(*args, **kw):
    """Of several steps, each rounded in the dtype: errors are in units of the largest element."""
    return Arrays(*args, **({"normwise": True, "slope": 8, "second": (24, 24, 24)} | kw))


# ------------------------------------------------------------------ activations


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def fast_gate(x, times=1):
    """The size of sigmoid(u), u = 1.702 x, with what it changes by when u is moved by its own size, since 1.702 is
    rounded. The slope has that change as a term, which changes as much again."""
    u = mpf("1.702") * x
    return sigmoid(u) * (1 + abs(u) * sigmoid(-u)) ** times


def softplus(x):
    return max(x, 0) + mp.log1p(mp.exp(-abs(x)))


def phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gelu_tanh(x):
    return x * sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3))


NEAR = {"low": -9, "high": 60}  # exp(-9) is normal in float16


def one(x):
    return mpf(1)


SLOPE = mpf("0.01")
SELU = mpf("1.0507009873554805"), mpf("1.6732632423543772")


def elu(x, alpha=1):
    return x if x > 0 else alpha * mp.expm1(x)


ROWS = [
    E("relu", nn.relu, lambda x: max(x, 0), at={0.0: 0}, value=0, slope=0, second=0),
    E("relu2", nn.relu2, lambda x: max(x, 0) ** 2, at={0.0: 0}),
    E("relu6", nn.relu6, lambda x: min(max(x, 0), 6), at={0.0: 0, 6.0: 0}, value=0, slope=0, second=0),
    E("leaky_relu", nn.leaky_relu, lambda x: x if x > 0 else x * SLOPE, at={0.0: 1}, second=1),
    E("elu", nn.elu, elu, at={0.0: 1}),
    E("celu", nn.celu, elu, at={0.0: 1}),
    E("selu", nn.selu, lambda x: SELU[0] * elu(x, SELU[1]), at={0.0: float(SELU[0] * SELU[1])}),
    E("softplus", nn.softplus, softplus, (NEAR,)),
    E("log_sigmoid", nn.log_sigmoid, lambda x: -softplus(-x), (NEAR,)),
    E("sigmoid", nn.sigmoid, sigmoid, slope=4),
    E("tanh", nn.tanh, mp.tanh, slope=4),
    # 1 / (1 + |x|) less x / (1 + |x|)^2
    E(
        "softsign",
        nn.softsign,
        lambda x: x / (1 + abs(x)),
        terms=lambda x: 1 / (1 + abs(x)),
        second_terms=lambda x: 1 / (1 + abs(x)) ** 2,
    ),
    E("hard_tanh", nn.hard_tanh, lambda x: min(max(x, -1), 1), at={-1.0: None, 1.0: None}, value=0, slope=0, second=0),
    E(
        "hard_shrink",
        nn.hard_shrink,
        lambda x: x if abs(x) > 0.5 else mpf(0),
        at={-0.5: 0, 0.5: 0},
        value=0,
        slope=0,
        second=0,
    ),
    E(
        "softshrink",
        nn.softshrink,
        lambda x: x - mp.sign(x) / 2 if abs(x) > 0.5 else mpf(0),
        at={-0.5: 0, 0.5: 0},
        slope=0,
        second=0,
    ),
    E(
        "hardswish",
        nn.hardswish,
        lambda x: x * min(max(x + 3, 0), 6) / 6,
        (NEAR,),
        at={-3.0: None, 3.0: None},
        terms=one,
    ),
    # x times a probability: what the two terms of the slope lose against each other is a part of the probability.
    E(
        "gelu_fast_approx",
        nn.gelu_fast_approx,
        lambda x: x * sigmoid(mpf("1.702") * x),
        ({"low": -5, "high": 60},),
        value_terms=lambda x: abs(x) * fast_gate(x),
        terms=lambda x: fast_gate(x, 2),
        second_terms=lambda x: fast_gate(x, 2),
    ),
    # One operation; its slope is the square of an exponential times two terms.
    E("silu", nn.silu, lambda x: x * sigmoid(x), (NEAR,), slope=5, second=5, terms=sigmoid, second_terms=sigmoid),
    E(
        "mish",
        nn.mish,
        lambda x: x * mp.tanh(softplus(x)),
        (NEAR,),
        slope=8,  # of the softplus, of the tanh of it, and twice of the square of that
        second=8,
        terms=lambda x: mp.tanh(softplus(x)),
        second_terms=lambda x: mp.tanh(softplus(x)),
    ),
    # 1 + erf and 1 + tanh cancel on the left, as they do in PyTorch: errors are parts of 1, not of the sum.
    # 1 + erf and 1 + tanh cancel on the left, as they do in PyTorch: errors are parts of 1, not of the sum. Left of -4
    # a cotangent that makes up for the slope is so large that float16 has no room for it times x.
    *(
        E(
            name + where,
            f,
            means,
            (on,),
            value_terms=abs,
            terms=one,
            slope=3,
            second=3,
            second_terms=one,
            kinds=kinds,
        )
        for name, f, means in (("gelu", nn.gelu, lambda x: x * phi(x)), ("gelu_approx", nn.gelu_approx, gelu_tanh))
        for where, on, kinds in (
            ("", {"low": -4, "high": 9}, tuple(KINDS)),
            (" in its tail", {"low": -9, "high": -4}, ("bfloat16", "float32", "float64")),
        )
    ),
]

# ------------------------------------------------------------------ softmax family, losses


def log_softmax(x, axis=-1):
    return x - logsumexp(x, axis, keepdims=True)


def pick(x, i):
    return np.take_along_axis(x, i[:, None], 1)[:, 0]


LARGE = [[300.0, 299, 302], [-300, -301, -1e4], [20, 1, 2]]
HUGE = [[1e4, 1e4, 1e4], [2e4, 2e4, 1], [-3e4, -3e4, -6e4]]
CLASSES = these(np.array([1, 0, 2]))
L = nn.losses


def probabilities(n, k):
    def make(rng, kind):
        p = rng.uniform(0.1, 1, (n, k))
        return p / p.sum(1, keepdims=True)

    return make


def huber(d, delta=1):
    return np.where(abs(d) <= delta, d * d / 2, delta * (abs(d) - mpf(delta) / 2))


def norm2(x, axis):
    return X.sqrt(np.sum(x * x, axis))


def triplet(a, p, n):
    def distance(x, y):
        return X.sqrt(np.sum((x - y) ** 2, -1) + mpf("1e-6"))

    return np.maximum(distance(a, p) - distance(a, n) + 1, 0)


ROWS += [
    A("softmax", nn.softmax, softmax, (some(2, 4),)),
    A("softmin", nn.softmin, lambda x: softmax(-x), (some(2, 4),)),
    A("log_softmax", nn.log_softmax, log_softmax, (some(2, 4),), slope=6),
    A("log_softmax of large", nn.log_softmax, log_softmax, (these(LARGE),), terms=softmax),
    A("log_softmax of huge", nn.log_softmax, log_softmax, (these(HUGE),), terms=softmax),
    A("glu", nn.glu, lambda x: x[:, :2] * X.sigmoid(x[:, 2:]), (some(2, 4),)),
    A("prelu", nn.prelu, lambda x, a: np.where(x > 0, x, a * x), (some(2, 3), fraction(3))),
    A("losses.cross_entropy", L.cross_entropy, lambda x, t: logsumexp(x) - pick(x, t), (some(3, 3), CLASSES), slope=6),
    A(
        "losses.cross_entropy of large",
        L.cross_entropy,
        lambda x, t: -pick(log_softmax(x), t),
        (these(LARGE), CLASSES),
        second=48,
    ),  # p - p^2 where p is all but 1
    A("losses.cross_entropy of huge", L.cross_entropy, lambda x, t: -pick(log_softmax(x), t), (these(HUGE), CLASSES)),
    A(
        "losses.cross_entropy of probabilities",
        L.cross_entropy,
        lambda x, p: logsumexp(x) - np.max(x, -1) - np.sum((x - np.max(x, -1, keepdims=True)) * p, -1),
        (some(2, 3), probabilities(2, 3)),
        second=None,
    ),
    A(
        "losses.cross_entropy smoothed",
        lambda x, t: L.cross_entropy(x, t, label_smoothing=0.25),
        lambda x, t: logsumexp(x) - mpf(0.75) * pick(x, t) - np.sum(x, -1) / 12,
        (some(3, 3), CLASSES),
        slope=6,
    ),
    A(
        "losses.binary_cross_entropy",
        lambda x, t: L.binary_cross_entropy(x, t, reduction="none"),
        lambda x, t: X.log1p(X.exp(x)) - t * x,
        (some(2, 3), fraction(2, 3)),
        slope=6,
    ),
    A(
        "losses.binary_cross_entropy of probabilities",
        lambda x, t: L.binary_cross_entropy(x, t, None, False, "none"),
        lambda x, t: -t * X.log(x) - (1 - t) * X.log1p(-x),
        (fraction(2, 3), fraction(2, 3)),
        slope=6,
    ),
    A("losses.nll_loss", L.nll_loss, lambda x, t: -pick(x, t), (some(3, 3), CLASSES)),
    A(
        "losses.kl_div_loss",
        L.kl_div_loss,
        lambda x, t: np.sum(X.exp(t) * (t - x), -1),
        (some(2, 3), some(2, 3)),
        slope=6,
    ),
    A("losses.hinge_loss", L.hinge_loss, lambda x, t: np.maximum(1 - x * t, 0), (some(2, 3), some(2, 3))),
    A(
        "losses.l1_loss",
        lambda x, t: L.l1_loss(x, t, "none"),
        lambda x, t: abs(x - t),
        (some(2, 3), some(2, 3)),
        second=None,
    ),
    A("losses.mse_loss", L.mse_loss, lambda x, t: np.sum((x - t) ** 2) / 6, (some(2, 3), some(2, 3)), slope=8),
    A(
        "losses.smooth_l1_loss",
        lambda x, t: L.smooth_l1_loss(x, t, reduction="none"),
        lambda x, t: huber(x - t),
        (some(2, 3), some(2, 3)),
        slope=8,
    ),
    A("losses.huber_loss", L.huber_loss, lambda x, t: huber(x - t), (some(2, 3), some(2, 3)), slope=8),
    A(
        "losses.log_cosh_loss",
        L.log_cosh_loss,
        lambda x, t: X.log((X.exp(x - t) + X.exp(t - x)) / 2),
        (some(2, 3), some(2, 3)),
        slope=8,
    ),
    A(
        "losses.gaussian_nll_loss",
        lambda x, t, v: L.gaussian_nll_loss(x, t, v, True, reduction="none"),
        lambda x, t, v: (X.log(v) + (x - t) ** 2 / v + mp.log(2 * mp.pi)) / 2,
        (some(2, 3), some(2, 3), positive(2, 3)),
        slope=8,
    ),
    A("losses.triplet_loss", L.triplet_loss, triplet, (some(2, 3), some(2, 3), some(2, 3)), slope=9, second=40),
    A(
        "losses.cosine_similarity_loss",
        L.cosine_similarity_loss,
        lambda a, b: np.sum(a * b, 1) / (norm2(a, 1) * norm2(b, 1)),
        (some(2, 3), some(2, 3)),
        slope=9,
        second=40,
    ),
    A(
        "losses.cosine_similarity_loss of huge",
        L.cosine_similarity_loss,
        lambda a, b: np.sum(a * b, 1) / (norm2(a, 1) * norm2(b, 1)),
        (some(2, 3), some(2, 3)),
        slope=9,
        second=None,
        scales=(0, 0.2, 0.45),
    ),
    A(
        "losses.margin_ranking_loss",
        lambda a, b, t: L.margin_ranking_loss(a, b, t, 0.5),
        lambda a, b, t: np.maximum(mpf(0.5) - t * (a - b), 0),
        (some(2, 3), some(2, 3), these([[1.0, -1, 1], [-1, 1, 1]])),
    ),
]

# ------------------------------------------------------------------ layers


def layer(name, module, means, *inputs, call=None, **bounds):
    """A layer as a function of its inputs and parameters: `means` takes these and {name: parameter}."""
    from mlx.utils import tree_flatten, tree_unflatten

    parameters = tree_flatten(module.trainable_parameters())
    names = [key for key, _ in parameters]
    shapes = [p.shape for _, p in parameters]
    n = len(inputs)

    def fn(*args):
        module.update(tree_unflatten(list(zip(names, args[n:]))))
        return (call or module)(*args[:n])

    def meant(*args):
        return means(*args[:n], **{key.replace(".", "_"): a for key, a in zip(names, args[n:])})

    bounds = {"slope": (6, 6, 6), "second": (24, 24, 24), "value": 5} | bounds
    return A(name, fn, meant, (*inputs, *(some(*shape) for shape in shapes)), **bounds)


def windows(shape, size, stride, pad):
    """For each place of the result, along all axes: where its window begins."""
    counts = [(n + 2 * p - k) // s + 1 for n, k, s, p in zip(shape, size, stride, pad)]
    for place in np.ndindex(*counts):
        yield place, tuple(slice(i * s, i * s + k) for i, s, k in zip(place, stride, size))


def padded(x, pad, value):
    return np.pad(x, [(0, 0), *((p, p) for p in pad), (0, 0)], constant_values=value)


def pooled(x, size, stride, pad, value, fold):
    x, (N, *shape, C) = padded(x, pad, value), x.shape
    counts = [(s + 2 * p - k) // t + 1 for s, k, t, p in zip(shape, size, stride, pad)]
    y = np.empty((N, *counts, C), object)
    for place, window in windows(shape, size, stride, pad):
        y[(slice(None), *place)] = fold(x[(slice(None), *window)].reshape(N, -1, C), 1)
    return y


def convolved(x, weight, bias=0, stride=1, pad=0):
    size = weight.shape[1:-1]
    n = len(size)
    (N, *shape, _), O = x.shape, weight.shape[0]
    x = padded(x, [pad] * n, mpf(0))
    counts = [(s + 2 * pad - k) // stride + 1 for s, k in zip(shape, size)]
    y = np.empty((N, *counts, O), object)
    for place, window in windows(shape, size, [stride] * n, [pad] * n):
        y[(slice(None), *place)] = x[(slice(None), *window)].reshape(N, -1) @ weight.reshape(O, -1).T
    return y + bias


def transposed(x, weight, bias=0, stride=1):
    size = weight.shape[1:-1]
    (N, *shape, _), O = x.shape, weight.shape[0]
    y = np.full((N, *((s - 1) * stride + k for s, k in zip(shape, size)), O), mpf(0), object)
    for place in np.ndindex(*shape):
        for k in np.ndindex(*size):
            at = tuple(i * stride + j for i, j in zip(place, k))
            y[(slice(None), *at)] += x[(slice(None), *place)] @ weight[(slice(None), *k)].T
    return y + bias


def normalized(x, axes, eps, mean=True):
    n = int(np.prod([x.shape[a] for a in axes]))
    if mean:
        x = x - np.sum(x, axes, keepdims=True) / n
    return x / X.sqrt(np.sum(x * x, axes, keepdims=True) / n + mpf(eps))


def group_norm(x, weight, bias):
    y = normalized(x.reshape(x.shape[0], -1, x.shape[-1] // 2, 2), (1, 2), 1e-5)
    return y.reshape(x.shape) * weight + bias


def linear(x, weight, bias=0):
    return x @ weight.T + bias


def rnn(x, Wxh, Whh, bias):
    h, out = np.full(Wxh.shape[0], mpf(0)), []
    for x_t in x:
        h = X.tanh(Wxh @ x_t + Whh @ h + bias)
        out.append(h)
    return np.stack(out)


def gru(x, Wx, Wh, b, bhn):
    H = Wh.shape[1]
    h, out = np.full(H, mpf(0)), []
    for x_t in x:
        u, v = Wx @ x_t + b, Wh @ h
        r, z = X.sigmoid(u[:H] + v[:H]), X.sigmoid(u[H : 2 * H] + v[H : 2 * H])
        h = (1 - z) * X.tanh(u[2 * H :] + r * (v[2 * H :] + bhn)) + z * h
        out.append(h)
    return np.stack(out)


def lstm(x, Wx, Wh, bias):
    H = Wh.shape[1]
    h = c = np.full(H, mpf(0))
    hs, cs = [], []
    for x_t in x:
        i, f, g, o = np.split(Wx @ x_t + Wh @ h + bias, 4)
        c = X.sigmoid(f) * c + X.sigmoid(i) * X.tanh(g)
        h = X.sigmoid(o) * X.tanh(c)
        hs.append(h)
        cs.append(c)
    return [np.stack(hs), np.stack(cs)]


def attention(q, k, v, scale, heads):
    def split(x):
        return np.swapaxes(x.reshape(x.shape[0], x.shape[1], heads, -1), 1, 2)

    q, k, v = split(q), split(k), split(v)
    y = np.matmul(softmax(np.matmul(q, np.swapaxes(k, -1, -2)) * scale), v)
    return np.swapaxes(y, 1, 2).reshape(y.shape[0], y.shape[2], -1)


def multi_head(x, y, query_proj_weight, key_proj_weight, value_proj_weight, out_proj_weight):
    a = attention(x @ query_proj_weight.T, y @ key_proj_weight.T, y @ value_proj_weight.T, 1 / mp.sqrt(1), 2)
    return a @ out_proj_weight.T


def rotated(x, dims, base, offset=0):
    half, y = dims // 2, x.copy()
    for t in range(x.shape[-2]):
        for i in range(half):
            angle = (t + offset) * mp.power(base, mpf(-2 * i) / dims)
            c, s = mp.cos(angle), mp.sin(angle)
            a, b = x[..., t, i], x[..., t, i + half]
            y[..., t, i], y[..., t, i + half] = a * c - b * s, a * s + b * c
    return y


def resampled(x, scale, kernel, reach):
    for axis in range(1, x.ndim - 1):
        n = x.shape[axis]
        m = n * scale
        rows = []
        for i in range(m):
            p = (i - mpf(m - 1) / 2) / scale + mpf(n - 1) / 2
            j = range(int(mp.floor(p)) - reach + 1, int(mp.floor(p)) + reach + 1)
            rows.append(sum(kernel(abs(p - k)) * np.take(x, min(max(k, 0), n - 1), axis) for k in j))
        x = np.stack(rows, axis)
    return x


def keys(d):
    a = mpf(-0.75)
    return (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0


def same(fn):
    return lambda x: np.frompyfunc(fn, 1, 1)(x)


def activation(name, module, means):
    return A(name, module, means, (some(2, 4),), slope=6, second=32)


def waves(x):
    f = [mpf(1), mp.exp(mp.log(mpf("1e-4")))]
    return mp.sqrt(mpf(1) / 2) * np.stack([*(X.sin(x * v) for v in f), *(X.cos(x * v) for v in f)], -1)


def alibi(x):
    N, H, Q, K = x.shape
    slope = [mpf(2) ** (mpf(-8) * (h + 1) / H) for h in range(H)]
    return x - np.array([[[slope[h] * abs(i - j) for j in range(K)] for i in range(Q)] for h in range(H)], object)


attend = nn.MultiHeadAttention(2, 2)


def linear_kernel(d):
    return max(1 - d, 0)


ROWS += [
    layer("Linear", nn.Linear(3, 2), linear, some(2, 3)),
    layer(
        "Bilinear",
        nn.Bilinear(2, 3, 2),
        lambda x, y, weight, bias: np.stack([np.sum((y @ w) * x, -1) for w in weight], -1) + bias,
        some(2, 2),
        some(2, 3),
    ),
    layer("Identity", nn.Identity(), lambda x: x, some(3)),
    layer(
        "Sequential",
        nn.Sequential(nn.Linear(2, 2), nn.Tanh()),
        lambda x, layers_0_weight, layers_0_bias: X.tanh(linear(x, layers_0_weight, layers_0_bias)),
        some(2, 2),
    ),
    layer("Embedding", nn.Embedding(4, 2), lambda i, weight: weight[i], these(np.array([1, 3, 1]))),
    layer(
        "Conv1d",
        nn.Conv1d(2, 2, 3, stride=2, padding=1),
        lambda x, weight, bias: convolved(x, weight, bias, 2, 1),
        some(1, 5, 2),
    ),
    layer("Conv2d", nn.Conv2d(1, 2, 2), convolved, some(1, 3, 3, 1)),
    layer("Conv3d", nn.Conv3d(1, 1, 2), convolved, some(1, 2, 3, 2, 1)),
    layer(
        "ConvTranspose1d",
        nn.ConvTranspose1d(2, 2, 3, stride=2),
        lambda x, weight, bias: transposed(x, weight, bias, 2),
        some(1, 3, 2),
    ),
    layer("ConvTranspose2d", nn.ConvTranspose2d(1, 2, 2), transposed, some(1, 2, 2, 1)),
    layer("ConvTranspose3d", nn.ConvTranspose3d(1, 1, 2), transposed, some(1, 2, 1, 2, 1)),
    layer(
        "MaxPool1d",
        nn.MaxPool1d(2, 1, 1),
        lambda x: pooled(x, [2], [1], [1], mpf("-inf"), np.max),
        distinct(1, 4, 2),
        second=None,
    ),
    layer(
        "MaxPool2d",
        nn.MaxPool2d(2),
        lambda x: pooled(x, [2, 2], [2, 2], [0, 0], mpf(0), np.max),
        distinct(1, 4, 2, 1),
        second=None,
    ),
    layer(
        "MaxPool3d",
        nn.MaxPool3d(2),
        lambda x: pooled(x, [2] * 3, [2] * 3, [0] * 3, mpf(0), np.max),
        distinct(1, 2, 2, 4, 1),
        second=None,
    ),
    layer("AvgPool1d", nn.AvgPool1d(3, 1, 1), lambda x: pooled(x, [3], [1], [1], mpf(0), np.sum) / 3, some(1, 4, 2)),
    layer(
        "AvgPool2d", nn.AvgPool2d(2), lambda x: pooled(x, [2, 2], [2, 2], [0, 0], mpf(0), np.sum) / 4, some(1, 4, 2, 1)
    ),
    layer(
        "AvgPool3d",
        nn.AvgPool3d(2),
        lambda x: pooled(x, [2] * 3, [2] * 3, [0] * 3, mpf(0), np.sum) / 8,
        some(1, 2, 2, 4, 1),
    ),
    layer(
        "LayerNorm",
        nn.LayerNorm(4),
        lambda x, weight, bias: normalized(x, (1,), 1e-5) * weight + bias,
        some(2, 4),
        slope=12,
        second=40,
    ),
    layer(
        "RMSNorm",
        nn.RMSNorm(4),
        lambda x, weight: normalized(x, (1,), 1e-5, False) * weight,
        some(2, 4),
        slope=12,
        second=40,
    ),
    layer("GroupNorm", nn.GroupNorm(2, 4), group_norm, some(2, 2, 4), slope=12, second=40),
    layer(
        "InstanceNorm",
        nn.InstanceNorm(2, affine=True),
        lambda x, weight, bias: normalized(x, (1,), 1e-5) * weight + bias,
        some(2, 4, 2),
        slope=12,
        second=40,
    ),
    layer(
        "BatchNorm",
        nn.BatchNorm(2),
        lambda x, weight, bias: normalized(x, (0, 1), 1e-5) * weight + bias,
        some(2, 3, 2),
        slope=12,
        second=40,
    ),
    layer("RNN", nn.RNN(2, 2), rnn, some(3, 2), slope=12, second=40),
    layer("GRU", nn.GRU(2, 2), gru, some(2, 2), slope=12, second=40),
    layer("LSTM", nn.LSTM(2, 2), lstm, some(2, 2), slope=12, second=40),
    layer("RoPE", nn.RoPE(4), lambda x: rotated(x, 4, mpf(10000)), some(1, 3, 4)),
    layer(
        "SinusoidalPositionalEncoding", nn.SinusoidalPositionalEncoding(4), waves, some(3), kinds=("float32",)
    ),  # its frequencies are float32
    layer("ALiBi", nn.ALiBi(), alibi, some(1, 2, 2, 3)),
    layer(
        "MultiHeadAttention",
        attend,
        lambda x, y, **p: multi_head(x, y, **p),
        fraction(1, 2, 2),
        fraction(1, 3, 2),
        call=lambda x, y: attend(x, y, y),
        conditioned=True,
        slope=4,
        second=4,
    ),
    layer("Upsample nearest", nn.Upsample(2), lambda x: np.repeat(np.repeat(x, 2, 1), 2, 2), some(1, 2, 2, 1)),
    layer("Upsample", nn.Upsample(2, "linear"), lambda x: resampled(x, 2, linear_kernel, 1), some(1, 2, 2, 1)),
    layer("Upsample cubic", nn.Upsample(2, "cubic"), lambda x: resampled(x, 2, keys, 2), some(1, 3, 2, 1)),
    layer("PReLU", nn.PReLU(), lambda x, weight: np.where(x > 0, x, weight * x), some(2, 3)),
]


# ------------------------------------------------------------------ transformers, as functions of their inputs


def of_inputs(name, module, means, *inputs, **kw):
    """A module whose layers are judged with their parameters, which are numbers of any dtype here."""
    from mlx.utils import tree_flatten, tree_unflatten

    rng = np.random.default_rng(11)
    chosen = [(key, rng.integers(-12, 13, p.shape) / 8 + 1 / 16) for key, p in tree_flatten(module.parameters())]
    exact = tree_unflatten([(key, np.frompyfunc(mpf, 1, 1)(a)) for key, a in chosen])

    def fn(*x):
        module.update(tree_unflatten([(key, mx.array(a, mx.float64).astype(x[0].dtype)) for key, a in chosen]))
        return module(*x, *[None] * (3 if name == "Transformer" else len(x)))

    return A(name, fn, lambda *x: means(exact, *x), inputs, conditioned=True, slope=6, second=6, **kw)


def layer_norm(p, x):
    return normalized(x, (-1,), 1e-5) * p["weight"] + p["bias"]


def attended(p, x, y):
    w = {key: part["weight"] for key, part in p.items()}
    a = attention(x @ w["query_proj"].T, y @ w["key_proj"].T, y @ w["value_proj"].T, 1 / mp.sqrt(x.shape[-1] // 2), 2)
    return a @ w["out_proj"].T


def fed_forward(p, x):
    return linear(np.maximum(linear(x, **p["linear1"]), mpf(0)), **p["linear2"])


def encoder_layer(p, x):
    y = layer_norm(p["ln1"], x)
    x = x + attended(p["attention"], y, y)
    return x + fed_forward(p, layer_norm(p["ln2"], x))


def decoder_layer(p, x, memory):
    y = layer_norm(p["ln1"], x)
    x = x + attended(p["self_attention"], y, y)
    x = x + attended(p["cross_attention"], layer_norm(p["ln2"], x), memory)
    return x + fed_forward(p, layer_norm(p["ln3"], x))


def stacked(one):
    def all_of(p, x, *memory):
        for inside in p["layers"]:
            x = one(inside, x, *memory)
        return layer_norm(p["ln"], x)

    return all_of


PLACES = fraction(1, 1, 4), fraction(1, 2, 4)  # of the target and of the memory
encoder, decoder = stacked(encoder_layer), stacked(decoder_layer)
ROWS += [
    of_inputs("TransformerEncoderLayer", nn.TransformerEncoderLayer(4, 2, 3), encoder_layer, fraction(1, 2, 4)),
    of_inputs("TransformerEncoder", nn.TransformerEncoder(1, 4, 2, 3), encoder, fraction(1, 2, 4)),
    of_inputs("TransformerDecoderLayer", nn.TransformerDecoderLayer(4, 2, 3), decoder_layer, *PLACES),
    of_inputs("TransformerDecoder", nn.TransformerDecoder(1, 4, 2, 3), decoder, *PLACES),
    of_inputs(
        "Transformer",
        nn.Transformer(4, 2, 1, 1, 3),
        lambda p, x, y: decoder(p["decoder"], y, encoder(p["encoder"], x)),
        *reversed(PLACES),
    ),
]
ACTIVATIONS = {
    "Sigmoid": nn.sigmoid,
    "LogSigmoid": nn.log_sigmoid,
    "Tanh": nn.tanh,
    "Softsign": nn.softsign,
    "HardTanh": nn.hard_tanh,
    "ReLU": nn.relu,
    "ReLU2": nn.relu2,
    "ReLU6": nn.relu6,
    "SELU": nn.selu,
    "Softplus": nn.softplus,
    "SiLU": nn.silu,
    "Mish": nn.mish,
    "Hardswish": nn.hardswish,
    "LeakyReLU": nn.leaky_relu,
    "ELU": nn.elu,
    "CELU": nn.celu,
    "GELU": nn.gelu,
    "HardShrink": nn.hard_shrink,
    "Softshrink": nn.softshrink,
}
by_name = {row.name: row for row in ROWS}
ROWS += [
    activation(name, getattr(nn, name)(), np.frompyfunc(by_name[f.__name__].means, 1, 1))
    for name, f in ACTIVATIONS.items()
]
ROWS += [
    activation("Softmax", nn.Softmax(), softmax),
    activation("Softmin", nn.Softmin(), lambda x: softmax(-x)),
    activation("LogSoftmax", nn.LogSoftmax(), log_softmax),
    activation("GLU", nn.GLU(), lambda x: x[:, :2] * X.sigmoid(x[:, 2:])),
]
