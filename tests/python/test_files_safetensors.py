"""safetensors files: every dtype of the format, and files that are not what they should be."""

import io
import json
import re
import struct

import mlx.core as mx
import numpy as np
import pytest

CODES = {
    "BOOL": mx.bool_, "U8": mx.uint8, "U16": mx.uint16, "U32": mx.uint32, "U64": mx.uint64,
    "I8": mx.int8, "I16": mx.int16, "I32": mx.int32, "I64": mx.int64, "F16": mx.float16,
    "BF16": mx.bfloat16, "F32": mx.float32, "F64": mx.float64,
    "C64": mx.complex64,
}  # fmt: skip
FP8 = ("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")


def file(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def one(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"a": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)} | more}


@pytest.mark.parametrize("code", [*CODES, *FP8])
def test_dtypes(tmp_path, monkeypatch, code):
    dtype = CODES.get(code, mx.uint8)
    raw = np.random.default_rng(1).integers(0, 2 if code == "BOOL" else 100, 6 * dtype.size).astype(np.uint8).tobytes()
    path = tmp_path / "x.safetensors"
    for pad in range(3):  # where elements are aligned and where they are not
        text = json.dumps(one(code, (2, 3), (0, 6 * dtype.size))).encode() + b" " * pad
        path.write_bytes(file(text, raw))
        for way in "01":
            monkeypatch.setenv("MLX_MMAP", way)
            a = mx.load(path)["a"]
            assert a.dtype == dtype and a.shape == (2, 3)
            assert np.array(a.view(mx.uint8)).tobytes() == raw
    assert np.array(mx.load(io.BytesIO(path.read_bytes()), format="safetensors")["a"].view(mx.uint8)).tobytes() == raw


def test_large_ones_are_mapped_or_read_by_threads(tmp_path, monkeypatch):
    x = np.random.default_rng(1).standard_normal(5_000_000).astype(np.float32)
    path = tmp_path / "x.safetensors"
    for pad in (0, 1):
        text = json.dumps(one("F32", x.shape, (0, x.nbytes))).encode()
        path.write_bytes(file(text + b" " * (-len(text) % 8 + pad), x.tobytes()))
        for way in "01":
            monkeypatch.setenv("MLX_MMAP", way)
            assert np.array_equal(np.array(mx.load(path)["a"]), x)


def test_bool_of_any_bytes(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(file(one("BOOL", (4,), (0, 4)), b"\0\1\2\xff"))
    a = mx.load(path)["a"]
    assert a.tolist() == [False, True, True, True] and a.sum().item() == 3


@pytest.mark.parametrize("code, bits", [("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6)])
def test_several_elements_in_a_byte(tmp_path, code, bits):
    path = tmp_path / "x.safetensors"
    raw = bytes(range(3 * bits))
    path.write_bytes(file(one(code, (3, 8), (0, len(raw))), raw))
    a = mx.load(path)["a"]
    assert a.dtype == mx.uint8 and a.shape == (3, bits) and bytes(np.array(a)) == raw
    for shape in ((), (1,), (8, 1)):
        path.write_bytes(file(one(code, shape, (0, bits)), bytes(bits)))
        with pytest.raises(ValueError, match=r"x\.safetensors.*offset 10: 'a': expected rows .* to end with a byte"):
            mx.load(path)


def test_bytes_of_no_array(tmp_path):
    """Between arrays, before and behind them: the format has none, but who reads is not harmed."""
    path = tmp_path / "x.safetensors"
    path.write_bytes(file(one("U8", (2,), (3, 5)) | {"b": one("U8", (2,), (8, 10))["a"]}, bytes(range(12))))
    assert {k: v.tolist() for k, v in mx.load(path).items()} == {"a": [3, 4], "b": [8, 9]}


EMPTY = b'{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
BAD = {
    "empty": (b"", "needs 8 bytes at offset 0"),
    "short": (b"\0" * 7, "needs 8 bytes at offset 0"),
    "length": (file(one(), length=2**40), "1099511627776 bytes at offset 8"),
    "no object": (file(b"[]"), "not a JSON object: an array at offset 8"),
    "null": (file(b" \n null"), "not a JSON object: null at offset 11"),
    "number": (file(b"-1.5"), "not a JSON object: a number at offset 8"),
    "string": (file(b'"a"'), "not a JSON object: a string at offset 8"),
    "false": (file(b"false"), "not a JSON object: false at offset 8"),
    "no json": (file(b"{"), "not a JSON object"),
    "deep": (file(b'{"a":' * 100000 + b"1" + b"}" * 100000), "expected"),
    "not utf-8": (file(b'{"\xff": 1}'), "not a JSON object"),
    "dtype": (file(one("F7")), "'a' has the unknown dtype 'F7'"),
    "dtype number": (file(one(7)), "'a': expected 'dtype'"),
    "no dtype": (file({"a": {"shape": [], "data_offsets": [0, 4]}}), "'a': expected 'dtype'"),
    "shape": (file(one(shape=(-1,))), "'a': expected sizes"),
    "shape float": (file(one(shape=(1.5,))), "'a': expected sizes"),
    "large": (file(one(shape=(2**31,))), "'a': expected sizes"),
    "product": (file(one(shape=(2**31 - 1,) * 3)), "larger than any memory"),
    "dims": (file(one(shape=(1,) * 65)), "at most 64"),
    "offsets": (file(one(offsets=(0, 8, 9))), "two numbers"),
    "order": (file(one(offsets=(8, 0)), b"\0" * 8), "offsets are 8 to 0"),
    "past the end": (file(one(), b"\0" * 7), "offsets are 0 to 8 of 7"),
    "size": (file(one(shape=(3,)), b"\0" * 8), "needs 12 bytes"),
    "wrap": (file(one(offsets=(2**64 - 8, 2**64 - 1)), b"\0" * 8), "offsets"),
    "twice": (file(b'{"a":%s,"a":%s}' % (EMPTY, EMPTY)), "twice"),
    "overlap": (file(one() | {"b": one(offsets=(4, 12))["a"]}, b"\0" * 12), "overlap"),
    "metadata": (file({"__metadata__": {"k": 3}}), "metadata to be strings"),
    "metadata twice": (file(b'{"__metadata__":{"k":"1","k":"2"}}'), "offset 10: 'k': this key of the metadata"),
    "two metadata": (file(b'{"__metadata__":{"k":"1"},"__metadata__":{"l":"2"}}'), "'__metadata__': this name"),
    "escaped": (file(b'{"\\u0061\\n":3}'), "offset 10: 'a\n': expected an object"),
    "null in a name": (file(b'{"\\u0000":3}'), "offset 10: .*null"),
    "no offsets": (file({"a": {"dtype": "F32", "shape": [2]}}, bytes(8)), "offset 10: 'a': expected 'data_offsets'"),
    "metadata list": (file({"__metadata__": []}), "an object"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    data, message = BAD[name]
    (tmp_path / "bad.safetensors").write_bytes(data)
    with pytest.raises(ValueError, match=rf"bad\.safetensors.*{message}") as e:
        mx.load(tmp_path / "bad.safetensors")
    assert re.search(r"offset \d+", str(e.value))
    with pytest.raises(ValueError, match=message):
        mx.load(io.BytesIO(data), format="safetensors")


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "gguf"])
def test_an_array_that_fails_leaves_the_old_file(tmp_path, suffix):
    np.save(tmp_path / "gone.npy", np.zeros(1000))
    broken = mx.load(tmp_path / "gone.npy")
    (tmp_path / "gone.npy").write_bytes(b"x")
    save = {
        "safetensors": mx.save_safetensors,
        "npz": lambda p, d: mx.savez(p, **d),
        "gguf": lambda p, d: mx.save_gguf(p, d, {}),
    }[suffix]
    save(tmp_path / f"x.{suffix}", {"a": mx.ones((3,))})
    old = (tmp_path / f"x.{suffix}").read_bytes()
    with pytest.raises(RuntimeError, match="was changed"):
        save(tmp_path / f"x.{suffix}", {"a": mx.ones((10**6,)), "b": broken})
    assert (tmp_path / f"x.{suffix}").read_bytes() == old
    assert {p.name for p in tmp_path.iterdir()} == {"gone.npy", f"x.{suffix}"}
