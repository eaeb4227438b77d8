"""What other packages (safetensors, gguf) read of ours, and we of theirs."""

import mlx.core as mx
import numpy as np
import pytest

PLAIN = ["float32", "float16", "float64", "int8", "int16", "int32", "int64"]


def samples(names):
    random = np.random.default_rng(5)
    for i, name in enumerate(names):
        for shape in ((), (3,), (4, 5), (0, 2), (2, 3, 4)):
            yield f"{name}.{len(shape)}.{i}.{sum(shape)}", np.asarray(random.standard_normal(shape) * 100).astype(name)


def ours(arrays):
    return {k: mx.array(v, getattr(mx, v.dtype.name.replace("bool", "bool_"))) for k, v in arrays.items()}


def test_safetensors(tmp_path):
    peer = pytest.importorskip("safetensors.numpy")
    arrays = dict(samples([*PLAIN, "bool", "uint8", "uint16", "uint32", "uint64", "complex64"]))
    peer.save_file(arrays, tmp_path / "theirs.safetensors", {"k": "v"})
    got, texts = mx.load(tmp_path / "theirs.safetensors", return_metadata=True)
    assert texts == {"k": "v"} and set(got) == set(arrays)
    mx.save_safetensors(tmp_path / "ours.safetensors", ours(arrays), {"k": "v"})
    back = peer.load_file(tmp_path / "ours.safetensors")
    for k, v in arrays.items():
        assert np.array_equal(np.array(got[k]), v) and np.array(got[k]).dtype == v.dtype
        assert np.array_equal(back[k], v) and back[k].dtype == v.dtype and back[k].shape == v.shape
    half = mx.arange(5).astype(mx.bfloat16)
    mx.save_safetensors(tmp_path / "half.safetensors", {"x": half})
    raw = np.array(half.view(mx.uint16))
    safetensors = pytest.importorskip("safetensors")
    ((_, tensor),) = safetensors.deserialize((tmp_path / "half.safetensors").read_bytes())
    assert tensor["dtype"] == "BF16" and bytes(tensor["data"]) == raw.tobytes()


def test_gguf(tmp_path):
    gguf = pytest.importorskip("gguf")
    arrays = {k: v for k, v in samples(PLAIN) if v.ndim and v.size}
    values = {
        "a.text": "ü", "a.list": ["x", "yz"], "a.number": mx.array(3.5), "a.numbers": mx.array([1, 2], mx.uint16),
        "general.architecture": "none",
    }  # fmt: skip
    half = mx.arange(32).astype(mx.bfloat16)
    mx.save_gguf(tmp_path / "ours.gguf", ours(arrays) | {"half": half}, values)
    reader = gguf.GGUFReader(tmp_path / "ours.gguf")
    back = {t.name: t for t in reader.tensors}
    assert list(back) == [*arrays, "half"]
    for k, v in arrays.items():
        assert back[k].data.dtype == v.dtype and np.array_equal(back[k].data.reshape(v.shape), v)
        assert back[k].shape.tolist() == list(v.shape)[::-1]
    assert back["half"].tensor_type.name == "BF16"
    assert np.array_equal(gguf.quants.dequantize(back["half"].data, back["half"].tensor_type), np.arange(32))
    contents = {k: reader.get_field(k).contents() for k in values}
    assert contents["a.text"] == "ü" and contents["a.list"] == ["x", "yz"]
    assert contents["a.number"] == 3.5 and contents["a.numbers"] == [1, 2]
    writer = gguf.GGUFWriter(tmp_path / "theirs.gguf", "none")
    for k, v in arrays.items():
        writer.add_tensor(k, v)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    got = mx.load(tmp_path / "theirs.gguf")
    for k, v in arrays.items():
        assert np.array_equal(np.array(got[k]), v) and np.array(got[k]).dtype == v.dtype


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q8_0", "Q5_0", "Q5_1"])
def test_quantized_by_gguf(tmp_path, name):
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[name]
    x = np.random.default_rng(7).standard_normal((64, 256)).astype(np.float32)
    raw = gguf.quants.quantize(x, kind)
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "none")
    writer.add_tensor("x.weight", raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    want, got = gguf.quants.dequantize(raw, kind), mx.load(tmp_path / "x.gguf")
    if name in ("Q5_0", "Q5_1"):
        assert np.array_equal(np.array(got["x.weight"]), want.astype(np.float16))
        return
    parts = got["x.weight"], got["x.scales"], got["x.biases"]
    y = mx.dequantize(*parts, group_size=32, bits=4 if name[1] == "4" else 8)
    assert np.allclose(np.array(y).astype(np.float32), want, atol=2e-3 * np.abs(want).max())
