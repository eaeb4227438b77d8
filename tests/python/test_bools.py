"""A bool is true where its byte is not 0, by whatever way the bytes came in and whatever is done with them."""

import io
import json
import pathlib
import pickle
import struct
import tempfile

import mlx.core as mx
import numpy as np
import pytest
from test_dtypes_everywhere import SAMPLES, refusal, values

WAYS = {}


def way(f):
    """The bytes of f's first argument as bools; the second is a folder of its own for each."""
    WAYS[f.__name__] = lambda b, tmp: f(b, pathlib.Path(tempfile.mkdtemp(dir=tmp)))
    return f


@way
def view(b, tmp):
    return mx.array(b).view(mx.bool_)


@way
def wide_view(b, tmp):
    padded = np.concatenate([b.ravel(), np.zeros(-b.size % 8, np.uint8)])
    return mx.array(padded.view(np.uint64)).view(mx.bool_)[: b.size].reshape(b.shape)


@way
def numpy_copy(b, tmp):
    return mx.array(b.view(np.bool_))


@way
def numpy_shared(b, tmp):
    return mx.asarray(b.view(np.bool_), copy=False)


@way
def buffer(b, tmp):
    return mx.array(memoryview(b.copy()).cast("B").cast("?", b.shape) if b.size else b.view(np.bool_))


@way
def dlpack(b, tmp):
    return mx.from_dlpack(b.view(np.bool_))


@way
def written_from_outside(b, tmp):
    x = mx.zeros(b.shape, mx.bool_)
    mx.eval(x)
    np.array(x, copy=False).view(np.uint8)[...] = b
    return x


@way
def pickled(b, tmp):
    return pickle.loads(pickle.dumps(view(b, tmp)))


@way
def npy(b, tmp):
    np.save(tmp / "x.npy", b.view(np.bool_))
    return mx.load(str(tmp / "x.npy"))


@way
def npz(b, tmp):
    np.savez(tmp / "x.npz", x=b.view(np.bool_))
    return mx.load(str(tmp / "x.npz"))["x"]


@way
def safetensors(b, tmp):
    head = json.dumps({"x": {"dtype": "BOOL", "shape": b.shape, "data_offsets": [0, b.size]}}).encode()
    (tmp / "x.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + b.tobytes())
    return mx.load(str(tmp / "x.safetensors"))["x"]


@way
def constant_of_a_file(b, tmp):
    constant = view(b, tmp)
    mx.export_function(str(tmp / "x.mlxfn"), lambda y: mx.flatten(constant)[y], mx.arange(b.size))
    return mx.import_function(str(tmp / "x.mlxfn"))(mx.arange(b.size))[0].reshape(b.shape)


def dirty(truth):
    """Bytes that say the same as an array of bools: every value but 0 comes up for true."""
    return (np.asarray(truth) * (1 + np.arange(np.size(truth)).reshape(np.shape(truth)) * 37 % 255)).astype(np.uint8)


def plain(x):
    """What NumPy holds after an operation, with 0 and 1 for bools."""
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    if not isinstance(x, mx.array):
        return x
    if x.dtype == mx.bfloat16:
        x = x.astype(mx.float32)
    return np.array(x).view(np.uint8) != 0 if x.dtype == mx.bool_ else np.array(x)


def flat(x):
    return [v for y in x for v in flat(y)] if isinstance(x, list) else [x]


def compare(name, got, want):
    got, want = flat(plain(got)), flat(plain(want))
    assert len(got) == len(want), name
    for g, w in zip(got, want):
        assert type(g) is type(w) and np.shape(g) == np.shape(w), f"{name}: {g}, not {w}"
        np.testing.assert_array_equal(g, w, err_msg=name)


@pytest.mark.parametrize("come", WAYS.values(), ids=WAYS)
def test_functions(come, tmp_path):
    for name, (call, _, inputs) in SAMPLES.items():
        if refusal(name, mx.bool_) or name in ("empty_like", "from_dlpack"):  # of others' memory: read-only
            continue
        bools = [values(mx.bool_, shape, i, sort) != 0 for i, (shape, sort) in enumerate(inputs)]
        compare(name, call(*[come(dirty(b), tmp_path) for b in bools]), call(*[mx.array(b) for b in bools]))


def at_places(f):
    """at[].add and its like of bools, into zeros and into what is there."""
    return lambda x: [getattr(y.at[mx.array([1, 1, 0])], f)(x[:3]) for y in (mx.zeros_like(x), x)]


OTHERS = {
    "mask": lambda x: mx.arange(x.size).reshape(x.shape)[x],
    "mask of rows": lambda x: mx.arange(2 * x.size).reshape(*x.shape, 2)[x],
    "masks the other": lambda x: x[x],
    "argwhere": lambda x: mx.argwhere(x),
    "nonzero": lambda x: mx.nonzero(x),
    "where": lambda x: mx.where(x, mx.arange(x.size).reshape(x.shape), -1),
    "where of one": lambda x: mx.where(x.flatten()[1], 1, 2),
    "set by a mask": lambda x: assigned(x, 7),
    "set by a mask, in order": lambda x: assigned(x, mx.arange(mx.sum(x).item())),
    "item": lambda x: [x.flatten()[i].item() for i in range(3)],
    "tolist": lambda x: str(x.tolist()),
    "bool": lambda x: [bool(x.flatten()[i]) for i in range(3)],
    "int": lambda x: [int(x.flatten()[i]) for i in range(3)],
    "repr": repr,
    "equal": lambda x: x == True,  # noqa: E712
    "compared with itself": lambda x: [x == (x != 0), x ^ (x | x), x - x, ~x, ~~x == x, x & x == x],
    "order": lambda x: [x < True, x <= True, x > False, x >= True, mx.maximum(x, x) == x, mx.minimum(x, ~x)],
    "casts": lambda x: [x.astype(t) for t in (mx.int8, mx.uint64, mx.float16, mx.bfloat16, mx.float32, mx.complex64)],
    "sums": lambda x: [f(x, axis=a) for f in (mx.sum, mx.prod, mx.mean, mx.all, mx.any) for a in (None, 0, -1)],
    "extremes": lambda x: [f(x, axis=a) for f in (mx.min, mx.max, mx.argmin, mx.argmax) for a in (None, 0, -1)],
    "scans": lambda x: [f(x, axis=a) for f in (mx.cumsum, mx.cumprod, mx.cummax, mx.cummin) for a in (0, -1)],
    "orders": lambda x: [f(x, axis=a) for f in (mx.sort, mx.argsort) for a in (None, 0, -1)],
    "searched": lambda x: [mx.searchsorted(mx.sort(x.flatten()), x.flatten(), side=s) for s in ("left", "right")],
    "unique": lambda x: [mx.unique_all(x), mx.unique_counts(x)],
    "products": lambda x: [x @ x.swapaxes(-1, -2), mx.einsum("...ij->...i", x), mx.inner(x, x), mx.outer(x[0], x[1])],
    "at add": at_places("add"),
    "at multiply": at_places("multiply"),
    "at maximum": at_places("maximum"),
    "at minimum": at_places("minimum"),
    "slices folded": lambda x: x.at[1:].add(x[:-1]),
    "put": lambda x: mx.put_along_axis(x, mx.zeros((1,) * x.ndim, mx.int32), x[..., :1][:1], 0),
    "chain": lambda x: mx.where((x & ~x) | (x ^ True), x, x == x).sum(),
    "compiled": lambda x: mx.compile(lambda v: [(v & v) | ~v, v.sum(), v * 2.0, v == v])(x),
    "vmapped": lambda x: mx.vmap(lambda v: [v.sum(), mx.argmax(v), v & v, mx.logical_not(v)])(x),
    "condition": lambda x: mx.cond(x.flatten()[1], lambda v: v, lambda v: -v, mx.array(1)),
    "loop": lambda x: mx.while_loop(lambda i: mx.take(x.flatten(), i), lambda i: i + 1, mx.array(1)),
    "attention": lambda x: mx.fast.scaled_dot_product_attention(
        *[mx.arange(64.0).reshape(1, 1, 16, 4)] * 3, scale=0.01, mask=x[:16, :16]
    ),
    "saved": lambda x: loaded(x),
    "kernel": lambda x: kernel(x),
}


def assigned(x, v):
    y = mx.zeros(x.shape, mx.int32)
    y[x] = v
    return y


def loaded(x):
    f = io.BytesIO()
    mx.save(f, x)
    f.seek(0)
    return mx.load(f, format="npy")


COUNT = mx.fast.cpu_kernel(
    name="bools_as_numbers",
    input_names=["x"],
    output_names=["y"],
    source="uint i = thread_position_in_grid.x; y[i] = x[i] + (x[i] ? 2 : 0);",
)


def kernel(x):
    return COUNT(
        inputs=[x], grid=(x.size, 1, 1), threadgroup=(1, 1, 1), output_shapes=[x.shape], output_dtypes=[mx.int32]
    )[0]


@pytest.mark.parametrize("come", WAYS.values(), ids=WAYS)
def test_other_ways_to_look_at_them(come, tmp_path):
    truth = np.random.default_rng(0).random((37, 101)) < 0.6
    truth[0, :2] = False, True
    for name, f in OTHERS.items():
        compare(name, f(come(dirty(truth), tmp_path)), f(mx.array(truth)))
        if name not in ("attention", "vmapped", "put", "kernel"):
            compare(f"{name}, turned", f(come(dirty(truth.T), tmp_path).T), f(mx.array(truth)))


def test_memory_that_changes_after_it_was_counted():
    """Places that are counted before and looked for after the bytes changed: never more of them, never garbage."""
    for n in (5, 3000, 100_000):
        for before, after in ((0, 7), (3, 0), (1, 2)):
            shared = np.full(n, before, np.uint8)
            x = mx.asarray(shared.view(np.bool_), copy=False)
            places = mx.nonzero(x)
            count = n if before else 0
            shared[:] = after
            got = np.array(places[0]).ravel()
            assert got.shape == (count,)
            assert (got == (np.arange(n) if before and after else 0)).all()
            half = np.arange(n) % 2 == 0
            shared[:] = half
            places = mx.nonzero(x)
            shared[:] = 255
            got = np.array(places[0]).ravel()
            assert got.shape == (half.sum(),) and got.min() >= 0 and got.max() < n
