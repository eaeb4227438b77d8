"""Functions to export, for this package and for `mlx`: whoever uses them passes its mlx.core."""


def ones_folded(mx, x, mask, ints):
    """Every fold of axes of size 1 only: the shape stays."""
    folds = [mx.sum, mx.prod, mx.min, mx.max, mx.all, mx.any]
    y = [f(a, axis=0, keepdims=True) for f in folds for a in (x, mask, ints)]
    y += [f(x[0, 0]) for f in folds] + [
        f(x, axis=0) for f in [mx.mean, mx.var, mx.median, mx.logsumexp, mx.linalg.norm]
    ]
    return [*y, *[f(x, axis=0) for f in [mx.argmin, mx.argmax, mx.cumsum, mx.cummax, mx.softmax, mx.sort, mx.argsort]]]


def grouped3d_gradients(mx, x, w):
    return mx.grad(lambda x, w: (mx.conv3d(x, w, stride=(1, 2, 1), groups=2) ** 2).sum(), argnums=(0, 1))(x, w)


def more(mx):
    """What the table has no sample of: name, function, inputs.  For either package."""
    import mlx.nn as nn

    x, ids = mx.arange(24).reshape(4, 6).astype(mx.float32) / 8 - 1, mx.array([2, 0, 2])
    key = mx.array([3, 7], mx.uint32)
    w = mx.sin(mx.arange(256).reshape(4, 64).astype(mx.float32))
    packed = mx.quantize(w, group_size=32, bits=4)

    def set_rows(x, i, v):
        x = x + 0
        x[i] = v
        return x

    def add_rows(x, i, v):
        return x.at[i].add(v)

    def masked(x, v):
        x = x + 0
        x[x > 0] = v
        return x

    def sliced(x):
        y = x + 0
        y[1:3, ::2] = x[:2, 3:]
        return x[::-1, 1:5:2], x[-2:], y, x[3:0:-2]

    yield "integers", lambda k: mx.random.randint(0, 100, (3, 5), key=k), [key]
    yield "uniform", lambda k: mx.random.uniform(shape=(4,), key=k), [key]
    yield "split keys", lambda k: mx.random.split(k, 3), [key]
    yield "keys of a batch", mx.vmap(lambda k: mx.random.uniform(shape=(2,), key=k)), [mx.stack([key, key + 1])]
    yield "set rows", set_rows, [x, ids[:2], x[:2] * 2]
    yield "add rows", add_rows, [x, ids, x[:3]]
    yield "largest rows", lambda x, i, v: x.at[i].maximum(v), [x, ids, x[:3] + 1]
    yield "two indices", lambda x, i: x[i, i + 1], [x, ids]
    yield "masked assignment", masked, [x, mx.array(7.0)]
    yield "slices", sliced, [x]
    yield "gradient of indexing", mx.grad(lambda x, i: (x[i] ** 2).sum()), [x, ids]
    yield "log_softmax", lambda x: nn.log_softmax(x * 100, axis=0), [x]
    yield "gradient of log_softmax", mx.grad(lambda x: (nn.log_softmax(x) * x).sum()), [x]
    yield "cross_entropy", lambda x, i: nn.losses.cross_entropy(x[:3] * 100, i, label_smoothing=0.1), [x, ids]
    yield "gradient of softmax", mx.grad(lambda x: (mx.softmax(x, axis=0) * x).sum()), [x]
    yield (
        "gradient of conv",
        mx.grad(lambda w, x: (mx.conv2d(x, w, stride=2, padding=1) ** 2).sum(), argnums=(0, 1)),
        [mx.sin(mx.arange(54).reshape(3, 3, 3, 2).astype(mx.float32)), mx.cos(mx.arange(200).reshape(2, 10, 5, 2))],
    )
    yield (
        "gradient of grouped conv",
        mx.grad(lambda w, x: (mx.conv1d(x, w, groups=2, dilation=2) ** 3).sum()),
        [mx.sin(mx.arange(24).reshape(4, 3, 2).astype(mx.float32)), mx.cos(mx.arange(64).reshape(2, 8, 4))],
    )
    deep = [mx.sin(mx.arange(360).reshape(2, 3, 5, 3, 4)), mx.cos(mx.arange(96).reshape(6, 2, 2, 2, 2))]
    yield "gradient of grouped conv3d", lambda x, w: grouped3d_gradients(mx, x, w), deep
    yield (
        "grouped conv in three dimensions",
        lambda x, w: (
            mx.conv_general(x, w, (1, 2, 1), ([1, 0, 2], [0, 2, 1]), (1, 1, 2), (2, 1, 1), groups=2, flip=True),
            mx.conv_transpose3d(x, w, stride=2, groups=2),
        ),
        deep,
    )
    yield "folds of one element", lambda *x: ones_folded(mx, *x), [x[:1], x[:1] > 0, (x[:1] * 100).astype(mx.int16)]
    yield "median of an odd number", lambda x: mx.median(x[:3], axis=0), [x]
    yield (
        "gradient of attention",
        mx.grad(
            lambda q, k: mx.fast.scaled_dot_product_attention(q, k, k, scale=0.5, mask="causal").sum(), argnums=(0, 1)
        ),
        [x.reshape(1, 2, 3, 4), mx.cos(x.reshape(1, 2, 3, 4))],
    )
    yield "norms", lambda x: (mx.fast.rms_norm(x, x[0], 1e-5), mx.fast.layer_norm(x, x[1], x[2], 1e-5)), [x]
    yield "gradient of norms", mx.grad(lambda x: (mx.fast.layer_norm(x, x[1], x[2], 1e-5) ** 2).sum()), [x]
    for whole in (False, True):
        groups = lambda x, w, whole=whole: mx._group_norm(x, w, w, 2, not whole, whole, 0.5)  # noqa: E731
        yield f"norms of groups, {whole}", groups, [x.reshape(2, -1, 4), x[0, :4]]
        yield (
            f"gradient of norms of groups, {whole}",
            mx.grad(lambda x, w, f=groups: sum((y**3).sum() for y in f(x, w)), argnums=(0, 1)),
            [x.reshape(2, -1, 4), x[0, :4]],
        )
    for kind, gates in (("rnn", 1), ("gru", 3), ("lstm", 4)):
        h = mx.cos(mx.arange(4).reshape(2, 2))
        rest = {"rnn": (None, h, None), "gru": (h[0], h, None), "lstm": (None, h, mx.sin(h))}[kind]
        layer = lambda x, w, kind=kind, rest=rest: mx._recurrent(kind, x, w, *rest)  # noqa: E731
        of = [mx.sin(mx.arange(2 * 3 * 2 * gates).reshape(2, 3, -1)), mx.cos(mx.arange(4 * gates).reshape(-1, 2))]
        yield f"recurrent {kind}", layer, of
        slope = mx.grad(lambda x, w, f=layer: sum((y**3).sum() for y in f(x, w)), argnums=(0, 1))
        yield f"gradient of recurrent {kind}", slope, of
    yield (
        "rope",
        lambda x: mx.fast.rope(x, 4, traditional=True, base=100.0, scale=0.5, offset=3),
        [x.reshape(1, 2, 3, 4)],
    )
    yield "quantize", lambda w: mx.quantize(w, group_size=32, bits=4), [w]
    yield "dequantize", lambda a, b, c: mx.dequantize(a, b, c, group_size=32, bits=4), list(packed)
    yield "quantized product", lambda x, *p: mx.quantized_matmul(x, *p, group_size=32, bits=4), [w[:2], *packed]
    yield "integer power", lambda x: (x**2, x // 3, x % 3, -x), [mx.arange(9) - 4]
    square = mx.sin(mx.arange(25).reshape(5, 5).astype(mx.float32)) + 2 * mx.eye(5)
    yield "determinant", lambda a: (mx.linalg.det(a, stream=mx.cpu), *mx.linalg.slogdet(-a, stream=mx.cpu)), [square]
    yield "solve", lambda a, b: mx.linalg.solve(a, b, stream=mx.cpu), [square, x.T[:5]]
    yield "svd", lambda x: mx.linalg.svd(x, stream=mx.cpu)[1], [x]
    yield "scans", lambda x: (mx.cumsum(x, 0, reverse=True, inclusive=False), mx.cummax(x, 1)), [x]
    yield "nothing", lambda x: x[:0], [x]


def any_shape(mx):
    """Functions for shapes of any size: name, function, inputs to export with, inputs to call with."""

    def ramp(*shape):
        n = 1
        for size in shape:
            n *= size
        return mx.sin(mx.arange(n).astype(mx.float32)).reshape(shape)

    yield "element by element", lambda x, y: mx.exp(-x) * y + x, [ramp(3, 4), ramp(4)], [ramp(5, 2), ramp(2)]
    yield "mean", lambda x: x.mean(axis=1) - x.var(), [ramp(3, 4)], [ramp(2, 7)]
    yield "matrix product", lambda x, y: x @ y, [ramp(2, 3, 4), ramp(4, 5)], [ramp(1, 6, 2), ramp(2, 3)]
    yield "softmax", lambda x: mx.softmax(x, axis=-1).sum(axis=0), [ramp(3, 4)], [ramp(2, 9)]
    yield (
        "shapes",
        lambda x: mx.expand_dims(mx.flatten(x, 0, 1), 0).transpose(2, 1, 0),
        [ramp(2, 3, 4)],
        [ramp(5, 1, 2)],
    )
    yield (
        "layer",
        lambda x, w, b: mx.maximum(x @ w.T + b, 0),
        [ramp(2, 4), ramp(3, 4), ramp(3)],
        [ramp(7, 2), ramp(5, 2), ramp(5)],
    )
    yield (
        "concatenated",
        lambda x, y: mx.concatenate([x, y], axis=0),
        [ramp(2, 3), ramp(1, 3)],
        [ramp(4, 2), ramp(3, 2)],
    )
    yield (
        "grouped conv3d",
        lambda x, w: (mx.conv3d(x, w, groups=2), *grouped3d_gradients(mx, x, w)),
        [ramp(2, 3, 4, 3, 4), ramp(6, 2, 2, 2, 2)],
        [ramp(3, 2, 5, 6, 4), ramp(6, 2, 2, 2, 2)],
    )
    for after in (-1, -2):
        yield (
            f"conv whose input is cut by {-after}",
            lambda x, w, after=after: mx.conv_general(x, w, stride=3, padding=([0], [after])),
            [ramp(1, 7, 1), ramp(1, 2, 1)],
            [ramp(1, 9, 1), ramp(1, 2, 1)],
        )
    i, j = mx.array([0, 1]), mx.array([0, 1], mx.int64)
    for fold in ("multiply", "maximum", "minimum", "add"):
        yield (
            f"{fold} at indices of two types",
            lambda x, u, fold=fold: getattr(x.at[i, j], fold)(u),
            [ramp(2, 3), ramp(2)],
            [ramp(4, 5), ramp(2)],
        )
    table = ramp(10, 3)
    yield "lookup", lambda i: table[i] * 2, [mx.array([1, 2])], [mx.array([4, 9, 0])]
    yield (
        "rows",
        lambda i: mx.take(table, i, axis=0).sum(axis=-1),
        [mx.array([[1, 2]])],
        [mx.array([[4, 9, 0], [1, 1, 2]])],
    )
