"""gguf files: every type, against what the gguf package makes of them (tests/golden/make_gguf.py)."""

import io
import pathlib
import re
import struct

import mlx.core as mx
import numpy as np
import pytest

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
AFFINE = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
COARSE = ("Q5_0", "Q5_1", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K")
PLAIN = ("float32", "float16", "float64", "int8", "int16", "int32", "int64", "bfloat16")


@pytest.fixture(scope="module")
def expected():
    return np.load(GOLDEN / "gguf_types.npz")


@pytest.fixture(params=["mapped", "read", "open file"])
def loaded(request, monkeypatch):
    monkeypatch.setenv("MLX_MMAP", "0" if request.param == "read" else "1")
    if request.param != "open file":
        return mx.load(GOLDEN / "gguf_types.gguf", return_metadata=True)
    with open(GOLDEN / "gguf_types.gguf", "rb") as f:
        return mx.load(f, return_metadata=True)


def test_plain_types(loaded, expected):
    for name in PLAIN:
        a = loaded[0][name]
        assert str(a.dtype).endswith(name) and a.shape == (3, 5)
        assert np.array_equal(np.array(a.astype(mx.float64) if a.dtype == mx.bfloat16 else a), expected[name])


@pytest.mark.parametrize("name", AFFINE)
def test_affine_types(loaded, expected, name):
    w, s, b = (loaded[0][f"{name}.{part}"] for part in ("weight", "scales", "biases"))
    assert (w.dtype, s.dtype, b.dtype) == (mx.uint32, mx.float16, mx.float16)
    assert w.shape == (2, 2 * AFFINE[name]) and s.shape == b.shape == (2, 2)
    parts = [v.astype(mx.float32) for v in (s, b)]
    got = mx.dequantize(w, *parts, group_size=32, bits=AFFINE[name])
    assert np.allclose(np.array(got), expected[name], rtol=1e-3, atol=1e-3 * np.abs(expected[name]).max())
    x = mx.ones((1, 64))
    y = mx.quantized_matmul(x, w, *parts, group_size=32, bits=AFFINE[name])
    assert np.allclose(np.array(y)[0], np.array(got).sum(1), rtol=1e-5, atol=1e-4)


def test_mxfp4(loaded, expected):
    w, s = loaded[0]["MXFP4.weight"], loaded[0]["MXFP4.scales"]
    assert (w.dtype, s.dtype) == (mx.uint32, mx.uint8) and "MXFP4.biases" not in loaded[0]
    got = mx.dequantize(w, s, group_size=32, bits=4, mode="mxfp4", dtype=mx.float32)
    assert np.array_equal(np.array(got), expected["MXFP4"])


@pytest.mark.parametrize("name", COARSE)
def test_coarse_types(loaded, expected, name):
    a = loaded[0][f"{name}.weight"]
    assert a.dtype == mx.float16
    assert np.array_equal(np.array(a), expected[name].astype(np.float16))


def test_slices_of_unpacked_tensors(expected):
    a = mx.load(GOLDEN / "gguf_types.gguf")
    for name in COARSE:
        for index in (np.s_[1], np.s_[:, 3:7], np.s_[0, 37:301:5], np.s_[1, ::-1]):
            assert np.array_equal(np.array(a[f"{name}.weight"][index]), expected[name].astype(np.float16)[index])
    assert a["Q8_0.weight"][1, 3:9].tolist() == np.array(a["Q8_0.weight"])[1, 3:9].tolist()


def test_packed(expected):
    a = mx.load(GOLDEN / "gguf_types.gguf", format="gguf-packed")
    assert a["Q6_K.weight"].dtype == mx.uint8 and a["Q6_K.weight"].shape == (2, 420)
    assert a["Q5_0.weight"].shape == (2, 44)
    scale = np.array(a["Q8_K.weight"])[:, :4].copy().view(np.float32)
    assert np.array_equal(scale * np.array(a["Q8_K.weight"])[:, 4:260].view(np.int8), expected["Q8_K"][:, :256])
    assert a["Q4_0.weight"].dtype == mx.uint32


def test_values(loaded):
    values = loaded[1]
    numbers = {"uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4 << 29, "int32": -(2**31),
               "bool": True, "uint64": 2**63, "int64": -(2**63), "float64": 0.1}  # fmt: skip
    for name, value in numbers.items():
        a = values[f"a.{name}"]
        assert str(a.dtype).endswith(name) and a.shape == () and a.item() == value
    assert values["a.float32"].item() == np.float32(0.1)
    assert values["a.string"] == "naïve 東京" and values["general.architecture"] == "none"
    assert values["b.string"] == ["", "x", "ü"]
    assert values["b.int32"].tolist() == [1, -2, 3] and values["b.bool"].tolist() == [True, False]
    assert values["b.float32"].tolist() == [0.5, -2.0]


VALUES = {
    "text": "ü", "empty": "", "list": ["a", "", "b" * 1000], "none": [], "scalar": mx.array(2.5, mx.float64),
    "bools": mx.array([True, False]), "u64": mx.array([2**64 - 1], mx.uint64),
}  # fmt: skip


@pytest.mark.parametrize("alignment", [None, 8, 4096])
def test_round_trip(tmp_path, alignment):
    random = np.random.default_rng(2)
    arrays = {f"{t}.{i}": mx.array(random.standard_normal(shape) * 50).astype(getattr(mx, t), stream=mx.cpu)
              for t in PLAIN for i, shape in enumerate([(), (3,), (2, 3, 5), (0, 4), (1, 2, 3, 4)])}  # fmt: skip
    arrays["broadcast"] = mx.broadcast_to(mx.array([1.0, 2.0]), (3, 2))
    arrays["transposed"] = mx.arange(6).reshape(2, 3).T
    values = VALUES | ({"general.alignment": mx.array(alignment, mx.uint32)} if alignment else {})
    mx.save_gguf(tmp_path / "x", arrays, values)
    f = io.BytesIO()
    mx.save_gguf(f, arrays, values)
    assert f.getvalue() == (tmp_path / "x.gguf").read_bytes()
    got, meta = mx.load(tmp_path / "x.gguf", return_metadata=True)
    assert list(got) == list(arrays) and list(meta) == list(values)
    for name, a in arrays.items():
        assert got[name].dtype == a.dtype and got[name].shape == a.shape
        assert np.array_equal(np.array(got[name].astype(mx.float64)), np.array(a.astype(mx.float64)))
    for key, v in values.items():
        same = (
            v == meta[key]
            if not isinstance(v, mx.array)
            else v.dtype == meta[key].dtype and mx.array_equal(v, meta[key])
        )
        assert same, key
    mx.save_gguf(tmp_path / "x.gguf", got, meta)  # over what it was loaded from
    assert f.getvalue() == (tmp_path / "x.gguf").read_bytes()


def test_what_cannot_be_written(tmp_path):
    path = tmp_path / "x.gguf"
    mx.save_gguf(path, {"x": mx.ones((2,))}, {})
    old = path.read_bytes()
    for arrays, values, error in [
        ({"x": mx.ones((2,), mx.uint32)}, {}, ValueError),
        ({"x": mx.ones((2,), mx.complex64)}, {}, ValueError),
        ({"x": mx.ones((2,), mx.bool_)}, {}, ValueError),
        ({"x": mx.ones((1,) * 9)}, {}, ValueError),
        ({"x": mx.ones((2,))}, {"k": mx.ones((2, 2))}, ValueError),
        ({"x": mx.ones((2,))}, {"k": mx.ones((2,), mx.float16)}, ValueError),
        ({"x": mx.ones((2,))}, {"general.alignment": mx.array(3, mx.uint32)}, ValueError),
        ({"x": mx.ones((2,))}, {"general.alignment": "32"}, ValueError),
        ({"x\0": mx.ones((2,))}, {}, ValueError),
        ({"x": mx.ones((2,))}, {"k": "a\0b"}, ValueError),
        ({"x": mx.ones((2,))}, {"k": ["a", 3]}, TypeError),
        ({"x": mx.ones((2,))}, {"k": 3}, TypeError),
        ({"x": mx.ones((2,))}, {3: "k"}, TypeError),
        ({"x": 3}, {}, TypeError),
        ([], {}, TypeError),
        ({}, [], TypeError),
    ]:
        with pytest.raises(error, match="save_gguf"):
            mx.save_gguf(path, arrays, values)
        assert path.read_bytes() == old and len(list(tmp_path.iterdir())) == 1


# ---- files that are not what they should be


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def tensor(name="t", dims=(4,), kind=0, offset=0):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def value(key, kind, content):
    return text(key) + struct.pack("<I", kind) + content


def gguf(tensors=(), values=(), data=b"\0" * 64, magic=b"GGUF", version=3, n_tensors=None, n_values=None):
    n_tensors = len(tensors) if n_tensors is None else n_tensors
    n_values = len(values) if n_values is None else n_values
    head = magic + struct.pack("<IQQ", version, n_tensors, n_values) + b"".join(values) + b"".join(tensors)
    return head + b"\0" * (-len(head) % 32) + data


BAD = {
    "empty": (b"", "does not begin with GGUF"),
    "short": (b"GGU", "does not begin with GGUF"),
    "magic": (gguf(magic=b"GGML"), "does not begin with GGUF"),
    "version 1": (gguf(version=1), "expected version 2 or 3, got 1"),
    "big endian": (gguf(version=3 << 24), "big-endian"),
    "cut": (gguf([tensor()])[:40], "bytes"),
    "too many tensors": (gguf(n_tensors=2**60), r"offset 8: the file would have 1152921504606846976 tensors"),
    "too many values": (gguf(n_values=2**60), "the file would have"),
    "long name": (
        gguf([struct.pack("<Q", 2**63) + b"x" * 40]),
        "the name of a tensor would have 9223",
    ),
    "long key": (gguf(values=[struct.pack("<Q", 2**40) + b"x" * 40]), "a key would have"),
    "long text": (gguf(values=[value("k", 8, struct.pack("<Q", 2**40) + b"x" * 40)]), "k would have"),
    "value type": (gguf(values=[value("k", 13, b"\0" * 8)]), "'k' has the unknown type 13"),
    "array type": (gguf(values=[value("k", 9, struct.pack("<IQ", 99, 1))]), "'k' is an array of the unknown type 99"),
    "long array": (
        gguf(values=[value("k", 9, struct.pack("<IQ", 6, 2**62))]),
        "'k' would have 4611686018",
    ),
    "many texts": (gguf(values=[value("k", 9, struct.pack("<IQ", 8, 2**61))]), "'k' would have .* strings"),
    "nested": (gguf(values=[value("k", 9, struct.pack("<IQ", 9, 1))]), "'k' is an array of arrays"),
    "null in key": (gguf(values=[value("k\0", 0, b"\0" * 9)]), "a null character"),
    "keys": (gguf(values=[value("k", 0, b"\0"), value("k", 0, b"\0" * 12)]), "the key 'k' comes twice"),
    "alignment": (gguf(values=[value("general.alignment", 4, struct.pack("<I", 33))]), "a power of two"),
    "alignment 0": (gguf(values=[value("general.alignment", 4, struct.pack("<I", 0))]), "a power of two"),
    "alignment type": (gguf(values=[value("general.alignment", 8, text("32"))]), "of type uint32"),
    "many keys": (gguf(values=[value("", 0, b"\0")] * 5000), "the key '' comes twice"),
    "names": (gguf([tensor("a"), tensor("a", offset=32)]), "the name 'a' comes twice"),
    "names of parts": (
        gguf([tensor("a.scales"), tensor("a.weight", (32,), 8, 32)], data=b"\0" * 96),
        "the name 'a.scales' comes twice: 'a.weight'",
    ),
    "names of parts, without weight": (
        gguf([tensor("a", (32,), 8), tensor("a.biases", offset=64)], data=b"\0" * 96),
        "the name 'a.biases' comes twice: 'a'",
    ),
    "overlap": (gguf([tensor("a", (16,)), tensor("b", offset=32)]), "'a' and 'b' overlap"),
    "dimensions": (gguf([tensor(dims=(1,) * 9)]), "'t' has 9 dimensions"),
    "many dimensions": (gguf([text("t") + struct.pack("<I", 2**32 - 1)], data=b"\0" * 99), "4294967295 dimensions"),
    "product": (gguf([tensor(dims=(2**31 - 1,) * 4)]), "too large"),
    "size": (gguf([tensor(dims=(2**40,))]), "too large"),
    "type": (gguf([tensor(kind=77)]), r"type unknown \(77\)"),
    "other type": (gguf([tensor(kind=16, dims=(256,))]), r"type IQ2_XXS \(16\)"),
    "rows": (gguf([tensor(kind=2, dims=(33,))]), "multiple of 32"),
    "scalar block": (gguf([tensor(kind=2, dims=())]), "multiple of 32"),
    "offset": (gguf([tensor(offset=2**63)]), "'t' of shape"),
    "offset 2": (gguf([tensor(offset=2**64 - 32)]), "'t' of shape"),
    "misaligned": (gguf([tensor(offset=8)]), "no multiple of the alignment"),
    "past the end": (gguf([tensor(dims=(17,))]), "needs 68 bytes"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(tmp_path, name):
    content, message = BAD[name]
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    for source in (path, io.BytesIO(content)):
        with pytest.raises(ValueError, match=message) as e:
            mx.load(source, format="gguf")
        assert "bad.gguf" in str(e.value) or source is not path
        assert re.search(r"offset \d+|does not begin", str(e.value))


def test_good_files_by_hand(tmp_path):
    """So that the bad ones above are bad for their reason."""
    path = tmp_path / "x.gguf"
    for version in (2, 3):
        path.write_bytes(gguf([tensor("a"), tensor("b", (2, 4), offset=32)], [value("k", 0, b"\7")], version=version))
        a, v = mx.load(path, return_metadata=True)
        assert a["a"].shape == (4,) and a["b"].shape == (4, 2) and v["k"].item() == 7


def test_metadata_may_be_left_out(tmp_path):
    path = str(tmp_path / "a.gguf")
    for more in ((), (None,), ({},)):
        mx.save_gguf(path, {"a": mx.array([1.0])}, *more)
        arrays, metadata = mx.load(path, return_metadata=True)
        assert arrays["a"].tolist() == [1] and metadata == {}
