"""Functions of arrays of any shape, for test_any_shape.py: name, function, the operands of four calls.

A function is traced with the operands of the first call.  What `functions` gives is read by the `mlx` package as well.
test_any_shape_everywhere.py asks for each function here, or there.
"""


def ramp(mx, *shape):
    return mx.sin(mx.arange(size(shape)).astype(mx.float32) * 1.7 + 0.3).reshape(shape)


def ints(mx, high, *shape):
    return ((mx.arange(size(shape)) * 7 + 3) % high).reshape(shape).astype(mx.int32)


def size(shape):
    n = 1
    for k in shape:
        n *= k
    return n


# Layers that look at pieces of axes, and along how many.
WINDOWS = [
    ("MaxPool1d(2)", 1), ("MaxPool1d(3, 2, 1)", 1), ("AvgPool1d(2)", 1), ("AvgPool1d(3, stride=1)", 1),
    ("MaxPool2d(2)", 2), ("MaxPool2d((3, 2), (2, 1), (1, 0))", 2), ("AvgPool2d(3, 2, 1)", 2), ("MaxPool3d(2)", 3),
    ("AvgPool3d(2, padding=1)", 3), ("Upsample(2)", 2), ("Upsample(3, 'linear')", 2), ("Upsample((1, 2), 'cubic')", 2),
    ("Upsample(2, 'linear')", 1),
]  # fmt: skip


def functions(mx):
    import mlx.nn as nn

    def x(*shape):
        return ramp(mx, *shape)

    def each(make, *sizes):
        return [make(*s) for s in sizes]

    rows = each(lambda n: (x(n, 4),), (3,), (5,), (1,), (7,))  # the last axis has a fixed size
    more_rows = each(lambda n: (x(n, 4),), (3,), (5,), (4,), (7,))
    free = each(lambda n, m: (x(n, m),), (3, 4), (5, 6), (1, 8), (7, 2))
    two = each(lambda n, m: (x(n, m), x(n, m) * 2), (3, 4), (5, 6), (1, 8), (7, 2))
    matrices = each(lambda n, m: (x(n, m),), (3, 4), (5, 6), (4, 3), (7, 2))
    w = x(4, 5)

    # Convolutions
    w1, w2 = x(5, 3, 4), x(6, 3, 3, 4)
    lines = each(lambda b, n: (x(b, n, 4),), (2, 8), (1, 5), (3, 9), (2, 12))
    images = each(lambda b, n, m: (x(b, n, m, 4),), (2, 8, 7), (1, 5, 5), (3, 9, 4), (2, 12, 6))
    yield "conv1d", lambda x: mx.conv1d(x, w1), lines
    yield "conv1d strided", lambda x: mx.conv1d(x, w1, stride=2, padding=1), lines
    yield "conv2d", lambda x: mx.conv2d(x, w2, padding=1), images
    grouped = x(6, 3, 3, 2)
    yield "conv2d groups", lambda x: mx.conv2d(x, grouped, stride=2, dilation=2, padding=2, groups=2), images
    yield "conv_transpose1d", lambda x: mx.conv_transpose1d(x, w1, stride=2), lines
    yield (
        "conv_general",
        lambda x: mx.conv_general(x, w2, stride=1, padding=([1, 0], [0, 1]), input_dilation=2, flip=True),
        images,
    )
    yield "gradient conv1d", lambda x: mx.grad(lambda x: (mx.conv1d(x, w1) ** 2).sum())(x), lines
    yield "gradient conv1d of weights", lambda x: mx.grad(lambda w: (mx.conv1d(x, w) ** 2).sum())(w1), lines
    yield (
        "gradient conv2d strided",
        lambda x: mx.grad(lambda x, w: (mx.conv2d(x, w, stride=2, padding=1) ** 2).sum(), (0, 1))(x, w2),
        images,
    )
    yield "vmap conv1d", lambda x: mx.vmap(lambda r: mx.conv1d(r, w1))(x), [(mx.stack([a, a]),) for (a,) in lines]

    # Products
    packed = mx.quantize(x(16, 64), group_size=32, bits=4)
    yield (
        "quantized_matmul",
        lambda x: mx.quantized_matmul(x, *packed, group_size=32, bits=4),
        [(x(*s, 64),) for s in ((3,), (5,), (1,), (7,))],
    )
    yield (
        "quantized_matmul of batches",
        lambda x: mx.quantized_matmul(x, *packed, group_size=32, bits=4),
        [(x(*s, 64),) for s in ((2, 3), (4, 5), (1, 1), (3, 7))],
    )
    packed3 = mx.quantize(x(4, 16, 64), group_size=32, bits=4)
    yield (
        "gather_qmm",
        lambda x, i: mx.gather_qmm(x, *packed3, rhs_indices=i, transpose=True, group_size=32, bits=4),
        [(x(n, 1, 64), ints(mx, 4, n).astype(mx.uint32)) for n in (3, 5, 1, 7)],
    )
    w3 = x(4, 6, 5)
    yield (
        "gather_mm",
        lambda x, i: mx.gather_mm(x, w3, rhs_indices=i),
        [(x(n, 1, 6), ints(mx, 4, n).astype(mx.uint32)) for n in (3, 5, 1, 7)],
    )
    yield (
        "gather_mm of both",
        lambda x, i, j: mx.gather_mm(x, w3, lhs_indices=j, rhs_indices=i),
        [
            (x(n, 2, 6), ints(mx, 4, n + 1).astype(mx.uint32), ints(mx, n, n + 1).astype(mx.uint32))
            for n in (3, 5, 1, 7)
        ],
    )
    yield (
        "block_masked_mm",
        lambda a, b, m: mx.block_masked_mm(a, b, 32, m),
        [(x(32 * n, 32), x(32, 64), mx.ones((n, 2))) for n in (1, 2, 3, 1)],
    )
    yield "addmm", lambda x: mx.addmm(w[0], x, w, 0.5, 2.0), rows
    products = each(lambda a, b, c, d: (x(a, b, c), x(a, c, d)), (2, 3, 4, 5), (1, 2, 3, 4), (3, 5, 4, 2), (4, 4, 4, 4))
    yield "matmul", lambda a, b: a @ b, products
    yield "einsum ij,jk", lambda x: mx.einsum("ij,jk->ik", x, w), rows
    yield "einsum bij,bjk", lambda a, b: mx.einsum("bij,bjk->bik", a, b), products
    yield (
        "einsum heads",
        lambda q, k: mx.einsum("bhqd,bhkd->bhqk", q, k),
        [(x(b, h, n, 8), x(b, h, k, 8)) for b, h, n, k in ((2, 3, 4, 5), (1, 2, 3, 4), (3, 5, 4, 2), (4, 4, 4, 4))],
    )
    fold = x(8, 3, 4)
    yield (
        "einsum to heads",
        lambda x: mx.einsum("btd,dhe->bthe", x, fold),
        [(x(b, t, 8),) for b, t in ((2, 3), (1, 5), (4, 1), (3, 7))],
    )
    yield "einsum transpose", lambda x: mx.einsum("ij->ji", x), free
    yield "einsum sum", lambda x: mx.einsum("ij->i", x), free
    vectors = each(lambda n, m: (x(n), x(m)), (3, 4), (5, 6), (1, 8), (7, 2))
    yield "einsum outer", lambda a, b: mx.einsum("i,j->ij", a, b), vectors
    yield (
        "einsum chain",
        lambda a, b, c: mx.einsum("ij,jk,kl->il", a, b, c),
        [(x(a, b), x(b, c), x(c, d)) for a, b, c, d in ((2, 3, 4, 5), (1, 2, 3, 4), (3, 5, 4, 2), (4, 4, 4, 4))],
    )
    three = each(lambda b, t: (x(b, t, 4),), (2, 3), (1, 5), (4, 1), (3, 7))
    yield "tensordot", lambda x: mx.tensordot(x, w, axes=1), three
    fold2 = x(4, 3, 5)
    yield (
        "tensordot of pairs",
        lambda x: mx.tensordot(x, fold2, axes=[[1, 2], [1, 0]]),
        [(x(b, 3, 4),) for b in (2, 5, 1, 7)],
    )
    yield (
        "tensordot of axes",
        lambda a, b: mx.tensordot(a, b, axes=2),
        [(x(a, b, c), x(b, c, d)) for a, b, c, d in ((2, 3, 4, 5), (1, 2, 3, 4), (3, 5, 4, 2), (4, 4, 4, 4))],
    )
    yield (
        "inner",
        lambda a, b: mx.inner(a, b),
        [(x(a, b), x(c, b)) for a, b, c in ((2, 3, 4), (1, 2, 3), (3, 5, 4), (4, 4, 4))],
    )
    yield "outer", lambda a, b: mx.outer(a, b), vectors
    yield "kron", lambda a, b: mx.kron(a, b), [(x(a, b), x(b, a)) for a, b in ((2, 3), (1, 2), (3, 5), (4, 4))]
    yield "hadamard_transform", lambda x: mx.hadamard_transform(x), [(x(n, 8),) for n in (3, 5, 1, 7)]

    # Norms and reductions
    yield "norm", lambda x: mx.linalg.norm(x), free
    for order in (None, 1, 2, 0, float("inf")):
        yield f"norm {order} of an axis", lambda x, o=order: mx.linalg.norm(x, o, axis=1), free
    for order in (None, "fro", "nuc", 1, float("inf")):
        yield (
            f"norm {order} of matrices",
            lambda x, o=order: mx.linalg.norm(x, o, axis=(0, 1), **({"stream": mx.cpu} if o == "nuc" else {})),
            free,
        )
    for axis in (-1, 0, (0, 1), None):
        yield f"logsumexp {axis}", lambda x, a=axis: mx.logsumexp(x, axis=a), free
        yield f"softmax {axis}", lambda x, a=axis: mx.softmax(x, axis=a), free
        yield f"mean and variance {axis}", lambda x, a=axis: x.mean(axis=a) - x.var(axis=a), free
        yield f"largest {axis}", lambda x, a=axis: x.max(axis=a, keepdims=True) - x.min(axis=a), free
    yield "logsumexp kept", lambda x: mx.logsumexp(x, axis=0, keepdims=True), free
    yield "standard deviation", lambda x: mx.std(x, axis=0, keepdims=True), free
    yield "argmax", lambda x: mx.argmax(x), free
    yield "argmin kept", lambda x: mx.argmin(x, axis=0, keepdims=True), free
    for axis in (None, 0, 1):
        yield f"cumsum {axis}", lambda x, a=axis: mx.cumsum(x, axis=a), free
        yield f"sort {axis}", lambda x, a=axis: mx.sort(x, axis=a), free
        yield f"argsort {axis}", lambda x, a=axis: mx.argsort(x, axis=a), free
    yield "cumprod from the end", lambda x: mx.cumprod(x, axis=1, reverse=True, inclusive=False), free
    yield "topk", lambda x: mx.sort(mx.topk(x, 2, axis=-1)), free
    yield "partition", lambda x: mx.sort(mx.partition(x, 1, axis=-1), axis=-1), free
    yield (
        "argpartition",
        lambda x: mx.sort(mx.take_along_axis(x, mx.argpartition(x, 1, axis=-1), -1), axis=-1),
        free,
    )
    yield (
        "searchsorted",
        lambda a, v: mx.searchsorted(a, v),
        [(mx.sort(x(n)), x(m, 2)) for n, m in ((4, 3), (6, 2), (2, 5), (9, 1))],
    )
    yield "allclose", lambda x: mx.allclose(x, x + 1e-9), free
    yield "array_equal", lambda x: mx.array_equal(x, x), free

    # Fused operations
    heads = each(lambda b, n: tuple(x(b, 4, n, 8) + k for k in range(3)), (2, 3), (1, 5), (3, 1), (2, 7))
    attention = mx.fast.scaled_dot_product_attention
    yield "attention", lambda q, k, v: attention(q, k, v, scale=0.3), heads
    yield "attention causal", lambda q, k, v: attention(q, k, v, scale=0.3, mask="causal"), heads
    yield (
        "attention masked",
        lambda q, k, v, m: attention(q, k, v, scale=0.3, mask=m),
        [(*t, x(t[0].shape[0], 1, t[0].shape[2], t[0].shape[2])) for t in heads],
    )
    yield (
        "attention of groups",
        lambda q, k, v: attention(q, k, v, scale=0.3),
        [(q, k[:, :2], v[:, :2]) for q, k, v in heads],
    )
    yield (
        "attention to others",
        lambda q, k, v: attention(q, k, v, scale=0.3),
        [(x(b, 4, n, 8), x(b, 4, m, 8), x(b, 4, m, 8)) for b, n, m in ((2, 3, 5), (1, 5, 2), (3, 1, 6), (2, 7, 7))],
    )
    yield "gradient attention", lambda q, k, v: mx.grad(lambda q: (attention(q, k, v, scale=0.3) ** 2).sum())(q), heads
    yield "rms_norm", lambda x: mx.fast.rms_norm(x, w[:, 0], 1e-5), rows
    yield "layer_norm", lambda x: mx.fast.layer_norm(x, w[:, 0], w[:, 1], 1e-5), rows
    yield "gradient rms_norm", lambda x: mx.grad(lambda x: (mx.fast.rms_norm(x, w[:, 0], 1e-5) ** 2).sum())(x), rows
    yield (
        "gradient layer_norm",
        lambda x: mx.grad(lambda x, w: (mx.fast.layer_norm(x, w[:, 0], w[:, 1], 1e-5) ** 2).sum(), (0, 1))(x, w),
        rows,
    )
    for traditional in (False, True):
        yield (
            f"rope {traditional}",
            lambda x, t=traditional: mx.fast.rope(x, 8, traditional=t, base=10000.0, scale=1.0, offset=2),
            [(q,) for q, _, _ in heads],
        )
    yield (
        "rope from an offset",
        lambda x, o: mx.fast.rope(x, 6, traditional=False, base=10000.0, scale=1.0, offset=o),
        [(q, mx.array(i)) for i, (q, _, _) in enumerate(heads)],
    )

    # Indices
    table = x(10, 4)
    ids = each(lambda *s: (ints(mx, 10, *s),), (2, 3), (4, 1), (1, 5), (3, 3))
    yield "take of a table", lambda i: mx.take(table, i, axis=0), ids
    yield "lookup", lambda i: table[i], ids
    yield "gradient lookup", lambda i: mx.grad(lambda t: (t[i] ** 2).sum())(table), ids
    yield "take rows", lambda x: mx.take(x, mx.array([2, 0]), axis=0), matrices
    yield "take columns", lambda x: mx.take(x, mx.array([1, 0]), axis=1), free
    flat = each(lambda n, m: (x(n, m), ints(mx, n, n)), (3, 4), (5, 6), (4, 3), (7, 2))
    yield "take of all", lambda x, i: mx.take(x, i), flat
    yield (
        "take_along_axis",
        lambda x, i: mx.take_along_axis(x, i, axis=1),
        [(x(n, m), ints(mx, m, n, 2)) for n, m in ((3, 4), (5, 6), (1, 8), (7, 2))],
    )
    yield (
        "take_along_axis broadcast",
        lambda x, i: mx.take_along_axis(x, i, axis=1),
        [(x(n, m), ints(mx, m, 1, 2)) for n, m in ((3, 4), (5, 6), (1, 8), (7, 2))],
    )
    yield (
        "put_along_axis",
        lambda x, i: mx.put_along_axis(x, i, mx.array(0.0), axis=1),
        [(x(n, m), ints(mx, m, n, 1)) for n, m in ((3, 4), (5, 6), (1, 8), (7, 2))],
    )
    yield "x[None]", lambda x: x[None], free
    yield "x[:, None]", lambda x: x[:, None], free
    yield "x[..., None]", lambda x: x[..., None], free
    yield "x[1]", lambda x: x[1], matrices
    yield "x[-1]", lambda x: x[-1], free
    yield "x[:, 0]", lambda x: x[:, 0], free
    yield "x[:, -1]", lambda x: x[:, -1], free
    yield "x[:2]", lambda x: x[:2], matrices
    yield "x[1:]", lambda x: x[1:], matrices
    yield "x[:, :-1]", lambda x: x[:, :-1], free
    yield "x[-2:, 1:]", lambda x: x[-2:, 1:], matrices
    yield "x[:, ::2]", lambda x: x[:, ::2], free
    yield "x[1::2, ::-1]", lambda x: x[1::2, ::-1], matrices
    yield "x[::-2, -2:0:-1]", lambda x: x[::-2, -2::-1], matrices
    yield "x[..., 1]", lambda x: x[..., 1], free
    at = each(lambda n, m, k: (x(n, k), ints(mx, n, m)), (3, 2, 4), (5, 6, 2), (4, 1, 3), (7, 3, 5))
    yield "x[i]", lambda x, i: x[i], at
    yield "x[:, i]", lambda x, i: x[:, i], [(x(n, m), ints(mx, m, n)) for n, m in ((3, 2), (5, 6), (4, 1), (7, 3))]
    pairs = each(lambda n, m: (x(n, m), ints(mx, n, 5), ints(mx, m, 5)), (3, 2), (5, 6), (4, 1), (7, 3))
    yield "x[i, j]", lambda x, i, j: x[i, j], pairs
    yield "x[i, :, j]", lambda x, i, j: mx.stack([x, x], axis=1)[i, :, j], pairs
    yield (
        "x[arange, i]",
        lambda x, i: x[mx.arange(3), i],
        [(x(n, m), ints(mx, m, 3)) for n, m in ((3, 2), (5, 6), (4, 1), (7, 3))],
    )
    updates = [(a, i, ramp(mx, i.shape[0], a.shape[1])) for a, i in at]
    yield "at[i].add", lambda x, i, v: x.at[i].add(v), updates
    yield "at[i].add of a number", lambda x, i: x.at[i].add(1.0), at
    yield (
        "at[:, i].add",
        lambda x, i: x.at[:, i].add(0.5),
        [(x(n, m), ints(mx, m, n)) for n, m in ((3, 2), (5, 6), (4, 1), (7, 3))],
    )
    yield "at[i, j].add", lambda x, i, j: x.at[i, j].add(0.5), pairs
    yield "at[1].add", lambda x: x.at[1].add(x[0]), matrices
    yield "at[-1].multiply", lambda x: x.at[-1].multiply(2.0), matrices

    def assigned(key, value):
        def f(x, *rest):
            x = x + 0
            x[key(x, *rest)] = value
            return x

        return f

    yield "x[i] = 2", assigned(lambda x, i: i, 2.0), at
    yield "x[1] = 2", assigned(lambda x: 1, 2.0), matrices
    yield "x[-1] = 2", assigned(lambda x: -1, 2.0), free
    yield "x[:, 1:] = 2", assigned(lambda x: (slice(None), slice(1, None)), 2.0), free
    yield "x[mask] = 2", assigned(lambda x: x > 0, 2.0), free
    yield "slice", lambda x, s: mx.slice(x, s, (0,), (2, 4)), [(a, mx.array([1])) for (a,) in more_rows]
    yield (
        "slice_update",
        lambda x, u, s: mx.slice_update(x, u, s, (0,)),
        [(a, x(2, 4), mx.array([1])) for (a,) in more_rows],
    )

    # Shapes
    yield "pad", lambda x: mx.pad(x, ((1, 2), (0, 3)), constant_values=0.5), free
    yield "tile", lambda x: mx.tile(x, (2, 1)), free
    yield "repeat", lambda x: mx.repeat(x, 2, axis=0), free
    yield "split at", lambda x: mx.split(x, [1], axis=1), free
    yield "reshape", lambda x: x.reshape(-1, 2), free
    yield "flatten", lambda x: x.flatten(), free
    yield "unflatten", lambda x: mx.unflatten(x, 1, (2, -1)), rows
    yield "moveaxis", lambda x: mx.moveaxis(x, 0, 2), three
    yield "squeeze", lambda x: mx.squeeze(x[None], axis=0), free
    yield "stack", lambda a, b: mx.stack([a, b]), two
    yield "concatenate", lambda a, b: mx.concatenate([a, b], axis=1), [(a, b[:, :2]) for a, b in two]
    yield "meshgrid", lambda a, b: mx.meshgrid(a, b), vectors
    yield "tril", lambda x: mx.tril(x, 1), free
    yield "triu", lambda x: mx.triu(x), free
    yield "where", lambda x: mx.where(x > 0, x, -x), free
    yield "broadcast_arrays", lambda a, b: mx.broadcast_arrays(a[:, None], b), vectors
    yield "zeros_like", lambda x: mx.zeros_like(x) + mx.ones_like(x), free
    yield "view", lambda x: x.view(mx.int32), free
    yield "linspace", lambda x: x * mx.linspace(0, 1, 4), rows
    yield "roll", lambda x: mx.roll(x, 4, axis=0), more_rows
    yield "roll of two axes", lambda x: mx.roll(x, (1, -6), axis=(0, 1)), free
    yield "roll of all", lambda x: mx.roll(x, -5), free
    yield "gradient roll", lambda x: mx.grad(lambda x: (mx.roll(x, 2, axis=-1) * x * x).sum())(x), free
    yield "fftshift", lambda x: mx.fft.fftshift(x), free
    yield "ifftshift", lambda x: mx.fft.ifftshift(x, axes=(0,)), free
    yield "median", lambda x: mx.median(x, axis=0), free
    yield "median of all", lambda x: mx.median(x, keepdims=True), free
    yield "gradient median", lambda x: mx.grad(lambda x: (mx.median(x, axis=1) ** 2).sum())(x), free
    row = each(lambda n: (x(n),), (3,), (5,), (1,), (7,))
    yield "diag", lambda x: mx.diag(x, -1), row
    yield "gradient diag", lambda x: mx.grad(lambda x: (mx.diag(x, 2) ** 2).sum())(x), row
    squares = each(lambda n: (x(n, n),), (3,), (5,), (1,), (7,))
    wide = each(lambda n, m: (x(n, m),), (3, 5), (4, 9), (1, 2), (7, 8))
    yield "diagonal of a square", lambda x: mx.diagonal(x), squares
    yield "diagonal", lambda x: mx.diagonal(x, 1), wide
    yield "diagonal below", lambda x: mx.diagonal(x.T, -1), wide
    yield "diagonal of a batch", lambda x: mx.diagonal(x + mx.zeros((2, 1, 1)), -1, -1, -2), wide
    yield "gradient diagonal", lambda x: mx.grad(lambda x: (mx.diagonal(x, 1) ** 2).sum())(x), wide
    yield "trace", lambda x: mx.trace(x), squares
    yield "gradient trace", lambda x: mx.grad(lambda x: mx.trace(x * x))(x), squares

    # Packed weights
    wide = [(x(n, 64),) for n in (3, 5, 1, 7)]
    yield "quantize", lambda x: mx.quantize(x, group_size=32, bits=4), wide
    yield (
        "dequantize",
        lambda x: mx.dequantize(*mx.quantize(x, group_size=32, bits=4), group_size=32, bits=4),
        wide,
    )

    # Derivatives
    yield "gradient mean of squares", lambda x: mx.grad(lambda x: (x * x).mean())(x), free
    yield "gradient softmax", lambda x: mx.grad(lambda x: (mx.softmax(x, -1) * x).sum())(x), free
    yield (
        "gradient broadcast",
        lambda a, b: mx.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(a, b),
        [(a, b[0]) for a, b in two],
    )
    yield (
        "gradient broadcast columns",
        lambda a, b: mx.grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(a, b),
        [(a, b[:, :1]) for a, b in two],
    )
    yield "gradient matmul", lambda x: mx.grad(lambda x: ((x @ w) ** 2).sum())(x), rows
    yield "gradient matmul of weights", lambda x: mx.grad(lambda w: ((x @ w) ** 2).sum())(w), rows
    yield "gradient matmul of weights and batches", lambda x: mx.grad(lambda w: ((x @ w) ** 2).sum())(w), three
    yield "gradient max", lambda x: mx.grad(lambda x: x.max(axis=1).sum())(x), free
    yield "gradient deviation", lambda x: mx.grad(lambda x: mx.std(x, axis=0).sum())(x), matrices
    yield "gradient sum of an axis", lambda x: mx.grad(lambda x: (x.sum(axis=0) ** 2).sum())(x), free
    yield "gradient x[i]", lambda x, i: mx.grad(lambda x: (x[i] ** 2).sum())(x), at
    yield "gradient flatten", lambda x: mx.grad(lambda x: (x.flatten() ** 2).sum())(x), free
    yield "gradient transpose", lambda x: mx.grad(lambda x: (x.T @ x).sum())(x), free
    yield "gradient cumsum", lambda x: mx.grad(lambda x: (mx.cumsum(x, 1) ** 2).sum())(x), free
    yield "gradient sort", lambda x: mx.grad(lambda x: (mx.sort(x, -1) * x).sum())(x), free
    yield "gradient logsumexp", lambda x: mx.grad(lambda x: mx.logsumexp(x, axis=0).sum())(x), free
    yield "gradient slices", lambda x: mx.grad(lambda x: (x[:, 1:] * x[:, :-1]).sum())(x), free
    yield (
        "gradient of a gradient",
        lambda x: mx.grad(lambda x: (mx.grad(lambda x: (x**3).sum())(x) ** 2).sum())(x),
        free,
    )
    yield "value_and_grad", lambda x: mx.value_and_grad(lambda x: (x * x).sum())(x), free
    yield "jvp", lambda x: mx.jvp(lambda x: mx.softmax(x * x, -1), [x], [x + 1])[1], free
    yield "vjp", lambda x: mx.vjp(lambda x: mx.softmax(x * x, -1), [x], [x + 1])[1], free
    yield "gradient checkpoint", lambda x: mx.grad(lambda x: mx.checkpoint(lambda x: mx.sin(x) * x)(x).sum())(x), free
    yield "custom function", lambda x: mx.custom_function(lambda x: mx.sin(x) * x)(x), free
    yield "compiled", lambda x: mx.compile(lambda x: mx.sin(x) * x)(x), free

    # Batches
    yield "vmap sum", lambda x: mx.vmap(lambda r: r.sum())(x), free
    yield "vmap softmax", lambda x: mx.vmap(lambda r: mx.softmax(r) * r)(x), free
    yield "vmap matmul", lambda x: mx.vmap(lambda r: r @ w)(x), rows
    yield "vmap outer", lambda x: mx.vmap(lambda r: r[:, None] * r[None])(x), free
    yield "vmap along columns", lambda x: mx.vmap(lambda r: r.cumsum() * 2, in_axes=1, out_axes=1)(x), free
    yield "vmap gradient", lambda x: mx.vmap(mx.grad(lambda r: (r**3).sum()))(x), free
    yield "gradient vmap", lambda x: mx.grad(lambda x: mx.vmap(lambda r: r.max() * r.sum())(x).sum())(x), free
    yield "vmap rms_norm", lambda x: mx.vmap(lambda r: mx.fast.rms_norm(r, None, 1e-5))(x), free
    yield "vmap sort", lambda x: mx.vmap(lambda r: mx.sort(r))(x), free
    yield "vmap of a captured array", lambda a, b: mx.vmap(lambda r: r * b)(a), [(a, b[0]) for a, b in two]

    # Layers and losses
    attend, encoder = nn.MultiHeadAttention(8, 2), nn.TransformerEncoder(1, 8, 2, 16).eval()
    words = each(lambda b, n: (x(b, n, 8),), (2, 3), (1, 5), (4, 1), (3, 7))
    yield "layer MultiHeadAttention", lambda x: attend(x, x, x), words
    yield "layer TransformerEncoder", lambda x: encoder(x, None), words
    for layer, calls in (
        (nn.Linear(4, 5), rows), (nn.Bilinear(4, 4, 5), each(lambda n: (x(n, 4), x(n, 4) * 2), (3,), (5,), (1,), (7,))),
        (nn.QuantizedLinear(64, 16, group_size=32), each(lambda n: (x(n, 64),), (3,), (5,), (1,), (7,))),
        (nn.Embedding(10, 4), ids), (nn.Conv1d(8, 6, 3, padding=1), words), (nn.Conv2d(4, 6, 3, stride=2), images),
        (nn.ConvTranspose2d(4, 6, 3, stride=2), images), (nn.LayerNorm(4), rows), (nn.RMSNorm(4), rows),
        (nn.GroupNorm(2, 4), images), (nn.InstanceNorm(4), images), (nn.BatchNorm(4).eval(), rows),
    ):  # fmt: skip
        yield f"layer {type(layer).__name__}", layer, calls
    series = each(lambda b, n: (x(b, n, 4),), (2, 8), (1, 5), (3, 9), (2, 12))
    solids = each(lambda b, n, m, k: (x(b, n, m, k, 2),), (2, 4, 5, 6), (1, 2, 7, 3), (3, 5, 2, 2))
    for text, axes in WINDOWS:
        layer = eval(f"nn.{text}", {"nn": nn})
        calls = (series, images, solids)[axes - 1]
        yield f"layer {text}", layer, calls
        yield f"gradient layer {text}", lambda x, f=layer: mx.grad(lambda x: (f(x) ** 2).sum())(x), calls
    yield "unstack", lambda x: [a * k for k, a in enumerate(mx.unstack(x, axis=1))], rows
    yield "layer silu", nn.silu, free
    yield "gradient layer silu", mx.grad(lambda x: nn.silu(x).sum()), free
    yield "vmap layer silu", mx.vmap(nn.silu), free

    def positive(f):
        return lambda a, b: f(mx.abs(a) + 0.1, mx.abs(b) + 0.1)

    losses = nn.losses
    classes = each(lambda n, k: (x(n, k), ints(mx, k, n)), (3, 4), (5, 6), (1, 8), (7, 2))
    for name, f, calls in (
        ("cross_entropy", losses.cross_entropy, classes),
        ("cross_entropy smooth", lambda a, b: losses.cross_entropy(a, b, label_smoothing=0.1), classes),
        ("cross_entropy of probabilities", lambda a, b: losses.cross_entropy(a, mx.softmax(b, -1)), two),
        ("nll", losses.nll_loss, classes), ("binary_cross_entropy", losses.binary_cross_entropy, two),
        ("l1", losses.l1_loss, two), ("mse", losses.mse_loss, two), ("smooth_l1", losses.smooth_l1_loss, two),
        ("gaussian_nll", positive(lambda a, b: losses.gaussian_nll_loss(a, b, a)), two),
        ("kl_div", losses.kl_div_loss, two), ("triplet", lambda a, b: losses.triplet_loss(a, b, a * b), two),
        ("hinge", losses.hinge_loss, two), ("huber", losses.huber_loss, two), ("log_cosh", losses.log_cosh_loss, two),
        ("cosine_similarity", losses.cosine_similarity_loss, two),
        ("margin_ranking", lambda a, b: losses.margin_ranking_loss(a, b, mx.sign(a)), two),
    ):  # fmt: skip
        yield f"loss {name}", f, calls
        yield f"gradient loss {name}", lambda a, b, f=f: mx.grad(lambda a: f(a, b).mean())(a), calls

    # Matrices
    def square(*s):
        return x(*s) + 4 * mx.eye(s[-1])

    def on_cpu(f):
        return lambda x: f(x, stream=mx.cpu)

    squares = each(lambda b, n: (square(b, n, n),), (2, 3), (1, 4), (3, 2), (2, 5))
    yield "inv", on_cpu(mx.linalg.inv), squares
    yield "cholesky", lambda x: mx.linalg.cholesky(x @ mx.swapaxes(x, -1, -2), stream=mx.cpu), squares
    yield "qr", on_cpu(mx.linalg.qr), squares
    batches = each(lambda a, b: (square(a, b, 4, 4),), (1, 2), (1, 4), (3, 2), (2, 1))
    yield "gradient qr", mx.grad(lambda x: mx.square(mx.linalg.qr(x, stream=mx.cpu)[0]).sum()), batches
    yield "singular values", lambda x: mx.linalg.svd(x, stream=mx.cpu)[1], squares
    yield "eigvalsh", lambda x: mx.linalg.eigvalsh(x + mx.swapaxes(x, -1, -2), stream=mx.cpu), squares
    yield "pinv", on_cpu(mx.linalg.pinv), squares
    yield "det", on_cpu(mx.linalg.det), squares
    yield "slogdet", on_cpu(mx.linalg.slogdet), squares
    yield "solve", lambda x: mx.linalg.solve(x, x[..., :1], stream=mx.cpu), squares
    yield "solve_triangular", lambda x: mx.linalg.solve_triangular(mx.tril(x), x, stream=mx.cpu), squares


# What files for the package cannot hold for any shape: it has no rule for the shapes of the results.
ONLY_HERE = {
    "inv", "cholesky", "qr", "gradient qr", "singular values", "norm nuc of matrices", "view", "pinv", "solve",
    "solve_triangular", "det", "slogdet",
}  # fmt: skip
# What files that the package writes itself give otherwise, or fail at, for other shapes than the first.
WRONG_THERE = {
    "gradient conv1d of weights", "gradient conv2d strided", "vmap conv1d", "gather_qmm", "gather_mm",
    "block_masked_mm", "addmm", "einsum to heads", "einsum outer", "tensordot", "tensordot of pairs",
    "tensordot of axes", "outer", "kron", "norm nuc of matrices", "norm 1 of matrices", "logsumexp 0", "softmax 0",
    "mean and variance 0", "largest 0", "logsumexp kept", "standard deviation", "sort None", "argsort None", "topk",
    "attention causal", "attention masked", "gradient attention", "rms_norm", "layer_norm", "gradient rms_norm",
    "gradient layer_norm", "rope False", "rope True", "rope from an offset", "gradient lookup", "take rows",
    "take columns", "x[1]", "x[-1]", "x[:, 0]", "x[:, -1]", "x[:2]", "x[1:]", "x[:, :-1]", "x[-2:, 1:]", "x[:, ::2]",
    "x[1::2, ::-1]", "x[::-2, -2:0:-1]", "x[..., 1]", "x[i]", "x[:, i]", "at[i].add", "at[i].add of a number",
    "at[:, i].add", "at[i, j].add", "at[1].add", "at[-1].multiply", "x[i] = 2", "x[1] = 2", "x[-1] = 2",
    "x[:, 1:] = 2", "x[mask] = 2", "pad", "tile", "repeat", "split at", "meshgrid", "tril", "triu", "view",
    "dequantize", "gradient broadcast", "gradient matmul of weights and batches", "gradient sum of an axis",
    "gradient x[i]", "gradient flatten", "gradient logsumexp", "gradient slices", "jvp", "gradient checkpoint",
    "vmap outer", "vmap along columns", "vmap gradient", "vmap rms_norm", "vmap of a captured array", "inv",
    "cholesky", "qr", "singular values", "pinv", "solve", "solve_triangular", "det", "slogdet",
    "layer TransformerEncoder", "layer Linear", "layer GroupNorm", "layer InstanceNorm",
    "roll", "roll of two axes", "roll of all", "gradient roll", "fftshift", "ifftshift", "median", "median of all",
    "gradient median", "diag", "gradient diag", "diagonal of a square", "diagonal", "diagonal below",
    "diagonal of a batch", "gradient diagonal", "trace", "gradient trace", "gradient loss margin_ranking",
    *(f"{what}layer {text}" for what in ("", "gradient ") for text, _ in WINDOWS),
}  # fmt: skip


def other_calls(mx):
    """Each function with the operands of its first call and those of each other one, as far as the package reads it:
    reducing an axis that is not of one element when traced, but when run, crashes there."""
    for name, f, calls in functions(mx):
        for k, xs in enumerate(calls[1:]):
            if not any(1 in x.shape for x in xs):
                yield f"{name} #{k}", f, calls[0], xs


def own_functions(mx):
    """The same of functions that the package has not."""
    rows = [(ramp(mx, n, 4),) for n in (3, 5, 1, 7)]
    matrices = [(ramp(mx, n, m),) for n, m in ((3, 4), (5, 6), (4, 3), (7, 2))]
    two = [(a, a[::-1] + 0.5) for (a,) in matrices]
    square = [(ramp(mx, b, 3, 3),) for b in (2, 5, 1, 4)]

    yield "signbit", lambda x: mx.signbit(x), matrices
    yield "hypot", lambda a, b: mx.hypot(a, b), two
    yield "copysign", lambda a, b: mx.copysign(a, b), two
    yield "nextafter", lambda a, b: mx.nextafter(a, b), two
    yield "norm of vectors", lambda x: mx.linalg.vector_norm(x, axis=0), matrices
    yield "norm of matrices", lambda x: mx.linalg.matrix_norm(x), square
    yield "singular values alone", lambda x: mx.linalg.svdvals(x, stream=mx.cpu), matrices
    yield "diagonal of matrices", lambda x: mx.linalg.diagonal(x), square
    yield "trace of matrices", lambda x: mx.linalg.trace(x), square
    yield "vecdot of the last axis", lambda a, b: mx.linalg.vecdot(a, b), two
    yield "hfft", lambda x: mx.fft.hfft(x), rows
    yield "ihfft", lambda x: mx.fft.ihfft(x), rows
    yield "linearize", lambda x: mx.linearize(mx.sin, x)[1](x), matrices
    yield "pullback", lambda x: mx.pullback(mx.sin, x)[1](x), matrices


def traced_anew(mx):
    """Functions of one operand whose graphs serve the shapes alone that they were traced with."""
    matrices = [(ramp(mx, n, m),) for n, m in ((3, 4), (5, 6), (4, 3), (7, 2))]
    square = [(ramp(mx, b, 3, 3),) for b in (2, 5, 1, 4)]

    yield "isin", lambda x: mx.isin(x, x[0]), matrices
    yield "matrix_power", lambda x: mx.linalg.matrix_power(x, 3), square
    yield "matrix_rank", lambda x: mx.linalg.matrix_rank(x, stream=mx.cpu), square
    yield "jacfwd", lambda x: mx.jacfwd(mx.sin)(x[0]), matrices
    yield "jacrev", lambda x: mx.jacrev(mx.sin)(x[0]), matrices
    yield "hessian", lambda x: mx.hessian(lambda v: mx.sin(v).sum())(x[0]), matrices
    yield "scan", lambda x: mx.scan(lambda c, r: (c + r, c * r), x[0], x), matrices
    yield "while_loop", lambda x: mx.while_loop(lambda c: c.sum() < 90, lambda c: c + 1, x), matrices
    yield "cond", lambda x: mx.cond(x.sum() > 0, mx.sin, mx.cos, x), matrices
