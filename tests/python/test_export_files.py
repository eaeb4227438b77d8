"""Exported functions written by hand, byte by byte: what other writers may put into a file."""

import os
import pathlib
import struct

import mlx.core as mx
import numpy as np
import pytest

CODES = {
    mx.bool_: 0, mx.uint8: 1, mx.uint16: 2, mx.uint32: 3, mx.uint64: 4, mx.int8: 5, mx.int16: 6, mx.int32: 7,
    mx.int64: 8, mx.float16: 9, mx.float32: 10, mx.float64: 11, mx.bfloat16: 12, mx.complex64: 13,
}  # fmt: skip


def u64(n):
    return struct.pack("<Q", n)


def i32(*n):
    return struct.pack(f"<{len(n)}i", *n)


def f32(x):
    return struct.pack("<f", x)


def flag(b):
    return struct.pack("<?", b)


def text(s):
    s = s.encode() if isinstance(s, str) else s
    return u64(len(s)) + s


def ints(v):
    return u64(len(v)) + i32(*v)


def ids(v):
    return u64(len(v)) + b"".join(map(u64, v))


def dtype(t):
    return i32(CODES[t]) + bytes([t.size])


def header(version="0.32.4", count=1, shapeless=False, metadata=""):
    return text(version) + i32(count) + flag(shapeless) + (b"" if metadata is None else text(metadata))


class Trace:
    """Inputs have the ids 1, 2, ...; results the ids that follow."""

    def __init__(self, *inputs, keys=()):
        self.inputs, self.keys, self.entries, self.last = inputs, keys, [], len(inputs)

    def constant(self, a):
        self.last += 1
        data = np.array(a).tobytes()
        self.entries.append(u64(self.last) + b"\0\1" + ints(a.shape) + dtype(a.dtype) + data)
        return self.last

    def primitive(self, name, operands, state=b"", shapes=((),), t=mx.float32, device=0):
        out = [self.last + 1 + k for k in range(len(shapes))]
        self.last += len(shapes)
        entry = u64(out[0]) + b"\1" + ids(operands) + i32(0, device, 0) + text(name) + state + u64(len(out) - 1)
        types = t if isinstance(t, list) else [t] * len(out)
        if len(out) == 1:
            entry += ints(shapes[0]) + dtype(types[0])
        else:
            entry += (
                ids(out) + u64(len(out)) + b"".join(map(ints, shapes)) + u64(len(out)) + b"".join(map(dtype, types))
            )
        self.entries.append(entry)
        return out if len(out) > 1 else out[0]

    def bytes(self, *outputs):
        head = u64(len(self.keys)) + b"".join(map(text, self.keys)) + ids(range(1, len(self.inputs) + 1))
        head += u64(len(self.inputs)) + b"".join(ints(x.shape) + dtype(x.dtype) for x in self.inputs)
        return head + ids(outputs) + u64(len(self.entries)) + b"".join(self.entries)


@pytest.fixture
def load(tmp_path):
    def load(data):
        path = tmp_path / "f.mlxfn"
        path.write_bytes(data)
        return mx.import_function(str(path))

    return load


def ramp(*shape):
    return mx.sin(mx.arange(int(np.prod(shape))).astype(mx.float32)).reshape(shape)


def close(a, b, tolerance=1e-5):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=tolerance, atol=tolerance)


def one(load, name, inputs, state, want, version="0.32.4"):
    """A file of one primitive, which gives what is wanted."""
    want = want if isinstance(want, (list, tuple)) else [want]
    t = Trace(*inputs)
    out = t.primitive(
        name, range(1, len(inputs) + 1), state, [tuple(w.shape) for w in want], [w.dtype for w in want], device=1
    )
    out = out if isinstance(out, list) else [out]
    got = load(header(version, metadata="" if version >= "0.32.1" else None) + t.bytes(*out))(*inputs)
    for a, b in zip(got, want, strict=True):
        close(a, b)


def test_fused_operations_of_other_devices(load):
    x, w, b, nothing = ramp(2, 3, 8), ramp(8) + 2, ramp(8), mx.array(0.0)
    eps = 1e-3
    one(load, "RMSNorm", [x, w], f32(eps), mx.fast.rms_norm(x, w, eps))
    one(load, "RMSNorm", [x, nothing], f32(eps), mx.fast.rms_norm(x, None, eps))
    one(load, "LayerNorm", [x, w, b], f32(eps), mx.fast.layer_norm(x, w, b, eps))
    one(load, "LayerNorm", [x, nothing, nothing], f32(eps), mx.fast.layer_norm(x, None, None, eps))
    ct = mx.cos(x)
    _, dx = mx.vjp(lambda x, w: mx.fast.rms_norm(x, w, eps), [x, w], [ct])
    one(load, "RMSNormVJP", [x, w, ct], f32(eps), dx)
    _, dx = mx.vjp(lambda x, w, b: mx.fast.layer_norm(x, w, b, eps), [x, w, b], [ct])
    one(load, "LayerNormVJP", [x, w, b, ct], f32(eps), dx)
    _, dx = mx.vjp(lambda x: mx.fast.layer_norm(x, None, None, eps), [x], [ct])
    one(load, "LayerNormVJP", [x, nothing, nothing, ct], f32(eps), [dx[0], mx.array(0.0), mx.array(0.0)])

    q, at = ramp(1, 2, 3, 8), mx.array(5)
    state = i32(8) + flag(False) + f32(1e4) + f32(1.0)
    rope = {"traditional": False, "base": 1e4, "scale": 1.0, "offset": 5}
    one(load, "RoPE", [q, at], state + flag(True), mx.fast.rope(q, 8, **rope))
    _, back = mx.vjp(lambda q: mx.fast.rope(q, 8, **rope), [q], [mx.cos(q)])
    one(load, "RoPE", [mx.cos(q), at], state + flag(False), back[0])
    freqs = ramp(4) + 2
    state = i32(8) + flag(True) + f32(1.0) + f32(0.5) + flag(True)
    want = mx.fast.rope(q, 8, traditional=True, base=None, scale=0.5, offset=5, freqs=freqs)
    one(load, "RoPE", [q, at, freqs], state, want)


def test_attention(load):
    q, k, v = ramp(1, 4, 5, 8), mx.cos(ramp(1, 2, 5, 8)), ramp(1, 2, 5, 8)

    def attend(**more):
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.25, **more)

    mask, sinks = ramp(1, 1, 5, 5), ramp(4)
    no, yes = flag(False), flag(True)
    name = "ScaledDotProductAttention"
    one(load, name, [q, k, v], f32(0.25) + yes + no + no + no, attend(mask="causal"))
    one(load, name, [q, k, v, mask], f32(0.25) + no + no + no + no, attend(mask=mask))
    one(load, name, [q, k, v, sinks], f32(0.25) + no + yes + no + no, attend(sinks=sinks))
    scores = (q * 0.25) @ mx.repeat(k, 2, 1).swapaxes(-1, -2)
    top = mx.logsumexp(scores, axis=-1, keepdims=True)
    one(load, name, [q, k, v], f32(0.25) + no + no + yes + no, [attend(), top])
    # Versions before had fewer flags.
    one(load, name, [q, k, v], f32(0.25) + yes + no + no, attend(mask="causal"), "0.32.1")
    one(load, name, [q, k, v], f32(0.25) + yes + no, attend(mask="causal"), "0.29.1")
    one(load, name, [q, k, v], f32(0.25) + yes, attend(mask="causal"), "0.28.0")
    one(load, name, [q, k, v], f32(0.25), attend(), "0.23.5")


def test_older_layouts(load):
    x = ramp(4, 6)
    z = mx.fft.rfft(x)
    axes = u64(1) + u64(1)
    one(load, "FFT", [x], axes + flag(False) + flag(True), z, "0.32.2")
    one(load, "FFT", [z], axes + flag(True) + flag(True), x, "0.32.2")
    z = mx.fft.rfft(x[:, :5])
    one(load, "FFT", [z], axes + flag(True) + flag(True), x[:, :5], "0.32.2")
    u = mx.zeros((2, 2))
    want = mx.concatenate([mx.concatenate([x[:2, :1], u, x[:2, 3:]], 1), x[2:]])
    one(load, "SliceUpdate", [x, u], ints([0, 1]) + ints([2, 3]) + ints([1, 1]), want, "0.31.1")
    a, b = ramp(1, 7, 2), ramp(3, 3, 2)
    want = mx.conv1d(a, b, stride=2, padding=1)
    rest = ints([1]) + ints([1]) + i32(1) + flag(False)
    one(load, "Convolution", [a, b], ints([2]) + ints([1]) + ints([1]) + rest, want)
    one(load, "Convolution", [a, b], ints([1]) + ints([1]) + ints([2]) + rest, want, "0.26.1")
    one(load, "Convolution", [a, b], ints([1]) + ints([2]) + rest, want, "0.25.1")
    w = ramp(4, 64)
    packed = mx.quantize(w, group_size=32, bits=4)
    y = mx.quantized_matmul(w[:2], *packed, group_size=32, bits=4)
    one(load, "QuantizedMatmul", [w[:2], *packed], i32(32, 4) + flag(True), y, "0.28.0")
    one(load, "AffineQuantize", [w], i32(32, 4) + flag(False), packed, "0.28.0")
    i = mx.array([1, 0], mx.uint32)
    m = ramp(2, 3, 3)
    one(load, "GatherMM", [m, m, i, i], b"", m[i] @ m[i], "0.24.0")
    with pytest.raises(RuntimeError, match="0.21.0"):
        load(header("0.21.0", metadata=None) + Trace(x).bytes(1))


def test_what_simplifying_leaves_out(load):
    x = ramp(3)
    one(load, "Copy", [x], b"", x)
    one(load, "StopGradient", [x], b"", x)
    one(load, "Depends", [x, x + 1], b"", x)
    t = Trace(x)
    first, second = t.primitive("Split", [1], ints([1]) + i32(0), [(1,), (2,)])
    assert [a.tolist() for a in load(header() + t.bytes(second, first, 1))(x)] == [
        x[1:].tolist(), x[:1].tolist(), x.tolist()
    ]  # fmt: skip


def test_ids_mean_something_else_in_another_trace(load):
    a, b = Trace(ramp(2)), Trace(ramp(3))
    c = a.constant(ramp(2))
    first = a.bytes(a.primitive("Add", [1, c], b"", [(2,)]), c)
    b.last = 50
    again = u64(c) + b"\0\1"
    b.entries.append(again)
    second = b.bytes(1, c)
    f = load(header(count=2) + first + second)
    close(f(ramp(2))[0], 2 * ramp(2))
    close(f(ramp(3))[1], ramp(2))


def test_a_gpu_kernel_is_refused(load):
    state = text("kernel") + text("source") + i32(*[1] * 6) + u64(0) + flag(True) + flag(False) + u64(1) + i32(0, 5)
    state += flag(False) + i32(0) + i32(0)
    t = Trace(ramp(2))
    out = t.primitive("CustomKernel", [1], state, [(2,)], device=1)
    with pytest.raises(RuntimeError, match="'kernel' is written for a GPU"):
        load(header() + t.bytes(out))


@pytest.mark.parametrize(
    "name, state, shape, message",
    [
        ("Sort", i32(3), (2, 3), "axis 3 is out of range"),
        ("Transpose", ints([0, 0]), (2, 3), "axis 0 twice"),
        ("Transpose", ints([0]), (2, 3), "expected 2 axes"),
        ("Reshape", ints([4]), (4,), "for the 6 elements"),
        ("Broadcast", ints([4, 4]), (4, 4), "broadcasts to"),
        ("Slice", ints([5, 0]) + ints([9, 3]) + ints([1, 1]), (1, 3), "not within axis 0"),
        ("Slice", ints([0]) + ints([1]) + ints([1]), (1, 3), "each of 2 dimensions"),
        ("Squeeze", ints([0]), (3,), "size 1"),
        ("Exp", b"", (3, 2), r"declares the shape \(3,2\)"),
        ("Reduce", i32(9) + ints([0]), (1, 3), "from 0 to 5, got 9"),
        ("Reduce", i32(2) + ints([-3]), (1, 3), "axis -3"),
        ("Pad", ints([0]) + ints([-1]) + ints([0]), (1, 3), "2 operands|1 operands"),
        ("View", dtype(mx.float64), (2, 1), "multiple of 8 bytes"),
        ("AsStrided", ints([3, 3]) + u64(2) + u64(9) + u64(1) + u64(0), (3, 3), "stay inside"),
        ("Nothing", b"", (2, 3), "Unable to deserialize primitive Nothing"),
        ("AsType", i32(99) + b"\4", (2, 3), "no dtype of code 99"),
        ("AsType", i32(10) + b"\2", (2, 3), "items of 2 bytes of float32"),
        ("Exp", b"", (1 << 30, 1 << 30, 1 << 30), "too many elements"),
        ("Exp", b"", (-1, 3), "size of -1"),
        ("Squeeze", u64(1 << 60), (3,), "count of 1152921504606846976"),
    ],
)
def test_bad_states(load, name, state, shape, message):
    t = Trace(ramp(2, 3))
    out = t.primitive(name, [1], state, [shape])
    with pytest.raises((ValueError, RuntimeError), match=message) as error:
        load(header() + t.bytes(out))
    assert "byte" in str(error.value)


def test_bad_files(load, tmp_path):
    t = Trace(ramp(2, 3))
    good = header(metadata="text") + t.bytes(t.primitive("Exp", [1], b"", [(2, 3)]))
    assert load(good)(ramp(2, 3))[0].shape == (2, 3)
    assert load(good + b"more")(ramp(2, 3))[0].shape == (2, 3)
    for n in range(len(good)):
        with pytest.raises(RuntimeError, match=r"byte \d+|empty"):
            load(good[:n])
    with pytest.raises(RuntimeError, match="byte 0"):
        load(u64(1 << 62) + good[8:])
    with pytest.raises(RuntimeError, match="byte 0.*no version"):
        load(bytes(4096))
    t = Trace(ramp(2, 3))
    with pytest.raises(ValueError, match="operand 1"):
        load(header() + t.bytes(t.primitive("Add", [1, 77], b"", [(2, 3)])))
    with pytest.raises(ValueError, match="output 0"):
        load(header() + Trace(ramp(2)).bytes(9))
    with pytest.raises(RuntimeError, match="not a regular file"):
        mx.import_function(str(tmp_path))


@pytest.mark.parametrize("bias", [ramp(2), ramp(1, 2), ramp(1), mx.array(0.5)], ids=lambda b: str(b.shape))
def test_a_bias_broadcast_to_the_traced_product(load, bias):
    """So the `mlx` package writes a linear layer, for any shape too."""
    example, w = mx.ones((3, 4)), ramp(4, 2)
    t = Trace(example)
    b, c = t.constant(bias), t.constant(w)
    wide = t.primitive("Broadcast", [b], ints((3, 2)), [(3, 2)])
    product = t.primitive("AddMM", [1, c, wide], f32(0.5) + f32(2.0), [(3, 2)])
    f = load(header(shapeless=True) + t.bytes(product))
    compiled = mx.compile(lambda x: f(x)[0], shapeless=True)
    for rows in 3, 1, 5:
        x = ramp(rows, 4)
        close(f(x)[0], 0.5 * x @ w + 2 * bias)
        close(compiled(x), 0.5 * x @ w + 2 * bias)
    fixed = load(header() + t.bytes(product))
    with pytest.raises(ValueError, match=r"\(5, 4\)|\(5,4\)"):
        fixed(ramp(5, 4))


def test_no_traces_and_odd_counts(load):
    for count in (0, -5):
        with pytest.raises(ValueError, match="It has 0"):
            load(header(count=count))(mx.zeros(1))
    with pytest.raises(RuntimeError, match="byte"):
        load(header(count=2) + Trace(ramp(2)).bytes(1))


@pytest.mark.parametrize("mmap", "01")
def test_mapped_and_read(tmp_path, monkeypatch, mmap):
    monkeypatch.setenv("MLX_MMAP", mmap)
    path = tmp_path / "f.mlxfn"
    w = mx.random.normal((300, 300), key=mx.random.key(1))
    mx.eval(w)
    mx.export_function(str(path), lambda x: x @ w, mx.zeros((300, 300)))
    f = mx.import_function(str(path))
    maps = pathlib.Path("/proc/self/maps").read_text()
    assert (str(path) in maps) == (mmap == "1")
    if mmap == "0":  # nothing of the file is needed any more
        path.write_bytes(b"")
    assert mx.array_equal(f(mx.eye(300))[0], w)


def test_a_pipe_is_no_function(tmp_path):
    """Opening one would wait for somebody who writes to it."""
    os.mkfifo(tmp_path / "f.mlxfn")
    with pytest.raises(RuntimeError, match="not a regular file"):
        mx.import_function(str(tmp_path / "f.mlxfn"))
    with pytest.raises(RuntimeError, match="not a regular file"):
        mx.export_function(str(tmp_path / "f.mlxfn"), mx.exp, mx.zeros((2,)))


def test_exporting_closes_no_descriptor_of_others(tmp_path):
    """Bodies of loops are files without a folder, and what only listens has no file."""

    def f(x):
        return mx.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x)

    first = os.open(tmp_path, os.O_RDONLY)
    low = os.dup(0)
    try:
        os.dup2(first, 0)  # of which zeros would be the number
        mx.export_function(str(tmp_path / "f.mlxfn"), f, mx.ones((3,)), portable=False)
        mx.export_function(lambda event: None, mx.exp, mx.ones((3,)))
        assert os.path.samestat(os.fstat(0), os.fstat(first))
    finally:
        os.dup2(low, 0)
        os.close(low)
        os.close(first)


@pytest.mark.parametrize("first", [b"\x93NUMPY\x01\0v\0{'descr'", u64(772) + b'{"a":1}', text("version")])
def test_what_is_no_exported_function_is_told_so(tmp_path, first):
    path = tmp_path / "f.mlxfn"
    path.write_bytes(first + bytes(100))
    with pytest.raises(RuntimeError, match="byte 0: not a file of an exported function"):
        mx.import_function(str(path))
