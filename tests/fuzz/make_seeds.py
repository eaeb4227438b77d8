"""Makes seeds/: small files of every format to begin with.  Run by hand; what is there is kept in the tree."""

import io
import json
import pathlib
import struct
import zipfile

import mlx.core as mx
import numpy as np

folder = pathlib.Path(__file__).parent / "seeds"
x = np.arange(6, dtype=np.float32).reshape(2, 3)


def npy(a, version=(1, 0)):
    f = io.BytesIO()
    np.lib.format.write_array(f, a, version=version)
    return f.getvalue()


def npz(method, wide=False):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", method) as z:
        for name, a in (("a", x), ("b", x[0] > 1)):
            with z.open(f"{name}.npy", "w", force_zip64=wide) as entry:
                entry.write(npy(a))
    return f.getvalue()


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def small_gguf():
    tensors = [text("a") + struct.pack("<IQIQ", 1, 3, 0, 0), text("b") + struct.pack("<IQQIQ", 2, 32, 2, 6, 32)]
    values = [text("k") + struct.pack("<II", 4, 7), text("l") + struct.pack("<IIQ", 9, 8, 1) + text("x")]
    head = b"GGUF" + struct.pack("<IQQ", 2, len(tensors), len(values)) + b"".join(values + tensors)
    return head + b"\0" * (-len(head) % 32) + bytes(range(32 + 44))


def gguf():
    kinds = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
    values = [text(f"n{k}") + struct.pack("<I" + c, k, 1) for k, c in kinds.items()]
    values += [text(f"l{k}") + struct.pack("<IIQ2" + c, 9, k, 2, 1, 0) for k, c in kinds.items()]
    values += [text("s") + struct.pack("<I", 8) + text("ü"), text("general.alignment") + struct.pack("<II", 4, 8)]
    values += [text("ls") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")]
    blocks = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
              11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 20: (32, 18), 24: (1, 1),
              25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2), 39: (32, 17)}  # fmt: skip
    tensors, at = [], 0
    for kind, (items, size) in blocks.items():
        tensors.append(text(f"t{kind}.weight") + struct.pack("<IQQIQ", 2, items, 1, kind, at))
        at += -(-size // 8) * 8
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values + tensors)
    return head + b"\0" * (-len(head) % 8) + bytes(range(256)) * (at // 256 + 1)


entry = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
seeds = {
    "one.npy": npy(x),
    "two.npy": npy(np.asfortranarray(x.astype(">f8")), (2, 0)),
    "three.npy": npy(np.array(True), (3, 0)),
    "stored.npz": npz(zipfile.ZIP_STORED),
    "deflated.npz": npz(zipfile.ZIP_DEFLATED),
    "wide.npz": npz(zipfile.ZIP_DEFLATED, wide=True),
    "one.safetensors": safetensors({"a": entry}, x.tobytes()),
    "two.safetensors": safetensors(
        {"__metadata__": {"k": "v"}, "a": entry, "b": {"dtype": "F8_E4M3", "shape": [], "data_offsets": [24, 25]},
         "c": {"dtype": "BOOL", "shape": [0, 2], "data_offsets": [25, 25]}}, x.tobytes() + b"\1"),
    "small.gguf": small_gguf(),
    "all.gguf": gguf(),
}  # fmt: skip
folder.mkdir(exist_ok=True)
for name, data in seeds.items():
    (folder / name).write_bytes(data)


# ---- exported functions of x[3, 4], each also called with scale=


def quantized(x):
    w = mx.quantize(mx.ones((32, 64)), group_size=32, bits=4)
    y = mx.quantized_matmul(mx.ones((3, 64)), *w, group_size=32, bits=4)
    return mx.sum(y, axis=1, keepdims=True) + x, mx.random.randint(0, 9, (5,), key=mx.random.key(3))


def fast(x):
    row, q = mx.ones((4,)), mx.reshape(x, (1, 1, 3, 4))
    y = mx.fast.layer_norm(mx.fast.rms_norm(x, row, 1e-5), row, row, 1e-5)
    q = mx.fast.rope(q, 4, traditional=False, base=100.0, scale=1.0, offset=2)
    return y, mx.fast.scaled_dot_product_attention(q, q, q, scale=0.5, mask=mx.ones((3, 3), mx.bool_))


def windows(x):
    y = mx.conv1d(mx.reshape(x, (1, 6, 2)), mx.ones((2, 3, 2)), padding=1)
    return y, mx.as_strided(x, (3, 3), (2, 1), 1), x.view(mx.int16), mx.real(mx.fft.rfft(x))


def solved(x):
    return mx.linalg.qr(x, stream=mx.cpu)[1], mx.linalg.solve(x @ x.T + mx.eye(3), x, stream=mx.cpu), mx.cumsum(x, 1)


def indexed(x):
    at = mx.array([2, 0])
    return x[at], x.at[at].add(x[:2]), mx.take_along_axis(x, mx.argsort(x, 1), 1), mx.to_fp8(x)


def pieces(x):
    y = mx.split(x, 2, axis=1)
    return y[0], y[1][2::-1], mx.sort(mx.pad(x, ((1, 2), (0, 0))), 0), mx.concatenate([x, x * 2])


def products(x):
    return mx.softmax(x @ x.T, -1, precise=True), x.sum(0), mx.addmm(x, mx.eye(3), x), mx.stop_gradient(mx.exp(x))


def loops(x):
    def step(c, row):
        y = mx.sin(c) + row
        return y, y.sum()

    last, sums = mx.scan(step, x[0], x)
    return last, sums, mx.cond(x.sum() < 3, lambda v: mx.sin(v), lambda v: v + 1, last)


# Operations that are written by their arguments, each of them in one of these.


def gradient(f, x):
    return mx.grad(lambda x: mx.sin(f(x)).sum())(x)


def again(x):
    return mx.while_loop(lambda c: c.sum() < 50, lambda c: c * 2 + 1, x)


def rows(x):
    q, row = mx.reshape(x, (1, 1, 3, 4)), x[0]
    at = mx.array([2])

    def normal(x):
        return mx.fast.layer_norm(mx.fast.rms_norm(x, row, 1e-5), row, row, 1e-5)

    def turned(q):
        return mx.fast.rope(q, 4, traditional=True, base=None, scale=1.0, offset=at, freqs=row[:2])

    def attended(q):
        return mx.fast.scaled_dot_product_attention(q, q, q, scale=0.5, mask=x @ x.T >= 0, sinks=row[:1])

    k = mx.reshape(x, (1, 3, 1, 4))
    delta = mx.fast.gated_delta_update(k, k, k, k[..., 0], k[..., 1], mask=mx.reshape(x[:, :1] > 0, (1, 3)))
    return normal(x), gradient(normal, x), gradient(turned, q), attended(q), gradient(attended, q), *delta


def matrices(x):
    a, segments = x @ x.T, mx.array([[0, 1], [1, 3]])
    det, norm = mx.linalg.det(a), gradient(lambda a: gradient(mx.linalg.det, a), a)
    y = mx.linalg.pinv(x), *mx.linalg.slogdet(a), *mx.linalg.lu_factor(x), mx.linalg.solve(a, x)
    parts = gradient(lambda b: mx.segmented_mm(x.T, b, segments), x)
    return det, norm, *y, parts, gradient(lambda b: mx.gather_mm(x, b, rhs_indices=segments[0]), mx.stack([x.T, x.T]))


def packed(x):
    w = mx.broadcast_to(mx.reshape(x, (12, 1)), (12, 32))
    y = mx.qqmm(w, w, group_size=16, bits=4, mode="nvfp4")
    return y, *mx.quantize(w, group_size=32, bits=4), *mx.quantize(w, mode="mxfp8"), mx.to_fp8(x)


def places(x):
    at, i = mx.array([1, 0]), mx.array([2, 0])
    w = mx.reshape(x, (2, 3, 2))
    return (
        gradient(lambda x: x[i, at], x),
        gradient(lambda x: mx.slice(x, at, (0, 1), (2, 3)), x),
        gradient(lambda u: mx.slice_update(x, u, at, (0, 1)), x[:2]),
        gradient(lambda w: mx.conv1d(mx.reshape(x, (1, 6, 2)), w, padding=1, stride=2), w),
        mx.vmap(mx.searchsorted)(x, x),
    )


def sizes(x):
    at = mx.array([2, 0])
    y = mx.split(mx.concatenate([x, x], 1), 2, axis=1)
    return (
        mx.flatten(x), y[1], x[-2:, ::2], mx.argpartition(x, -2), mx.partition(x, -2), x.at[1:].add(1), x[at],
        x.at[at].add(1),
        mx.take_along_axis(x, mx.argsort(x, 1), 1), gradient(lambda x: mx.take_along_axis(x, mx.argsort(x, 1), 1), x),
        gradient(lambda x: mx.slice(x, at[1:], (0,), (2, 4)), x), mx.linalg.det(x @ x.T), mx.tri(3) + x[:, :1],
        gradient(lambda x: mx.concatenate([x[-2:], x], 0), x), mx.stack([x, x])[at - at, at],
        gradient(lambda x: mx.put_along_axis(x, mx.argsort(x, 1), x, 1), x),
        gradient(lambda x: mx.conv1d(x[None], mx.ones((2, 3, 4)), padding=1, stride=2), x),
        mx.broadcast_to(x[:1], (3, 4)), mx.fast.rms_norm(x, None, 1e-5), mx.outer(x, x),
    )  # fmt: skip


here = (solved, indexed, loops, again, rows, matrices, packed, places, sizes)
for f in (products, pieces, windows, fast, quantized, *here):

    def called(x, scale=None, f=f):
        return f(x if scale is None else x * scale)

    shapeless = f in (products, sizes)
    with mx.exporter(str(folder / f"{f.__name__}.mlxfn"), called, shapeless=shapeless, portable=f not in here) as e:
        e(mx.zeros((3, 4)))
        e(mx.zeros((3, 4)), scale=mx.array(1.0))
