"""Views with strides of one's own, dependencies, graphs as text, what the namespace tells about itself."""

import io

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st


@given(st.data())
def test_as_strided(data):
    """Against NumPy's, over arrays that are not row-major themselves too."""
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(data.draw(st.permutations(range(3))))
    a = mx.array(np.arange(24, dtype=np.float32)).reshape(2, 3, 4)
    a = mx.transpose(a, [(2, 3, 4).index(s) for s in base.shape])
    n = data.draw(st.integers(0, 3))
    shape = [data.draw(st.integers(1, 4)) for _ in range(n)]
    strides = [data.draw(st.integers(-6, 6)) for _ in range(n)]
    low = sum(min(0, (s - 1) * t) for s, t in zip(shape, strides))
    high = sum(max(0, (s - 1) * t) for s, t in zip(shape, strides))
    offset = data.draw(st.integers(-low, 30))
    if offset + high >= 24:
        with pytest.raises(IndexError, match="as_strided"):
            mx.eval(mx.as_strided(a, shape, strides, offset))
        return
    flat = np.ascontiguousarray(base).ravel()[offset:]
    if low:
        flat = np.ascontiguousarray(base).ravel()
        index = offset + sum(
            (np.arange(s) * t).reshape([-1 if i == d else 1 for i in range(n)])
            for d, (s, t) in enumerate(zip(shape, strides))
        )
        expected = flat[index]
    else:
        expected = np.lib.stride_tricks.as_strided(flat, shape, [4 * t for t in strides])
    np.testing.assert_array_equal(np.array(mx.as_strided(a, shape, strides, offset)), expected)


def test_as_strided_defaults_and_derivative():
    a = mx.arange(6).reshape(2, 3)
    assert mx.as_strided(a).tolist() == a.tolist()
    assert mx.as_strided(a.T, (6,)).tolist() == [0, 3, 1, 4, 2, 5]
    assert mx.as_strided(a, None, (1, 2)).tolist() == [[0, 2, 4], [1, 3, 5]]
    g = mx.grad(lambda a: mx.sum(mx.as_strided(a, (3, 2), (1, 1)) * mx.array([1.0, 10.0])))(mx.arange(4.0))
    assert g.tolist() == [1, 11, 11, 10]
    for arguments, error in (((a, (2,), (1, 1)), ValueError), ((a, None, None, -1), ValueError)):
        with pytest.raises(error, match="as_strided"):
            mx.as_strided(*arguments)


def test_depends():
    """The inputs come through unchanged, whatever their layout; the dependencies are computed."""
    a, b = mx.arange(6.0).reshape(2, 3), mx.arange(4.0)
    x, y = mx.depends([a.T, b[::-1]], [b * 2, a + 1])
    assert x.tolist() == a.T.tolist() and y.tolist() == b.tolist()[::-1]
    z = mx.depends(a, b)
    assert isinstance(z, mx.array) and z.tolist() == a.tolist()
    on = mx.exp(b)
    mx.eval(mx.depends(a + 1, on))
    buffer = io.StringIO()
    mx.export_to_dot(buffer, on)
    assert "Exp" not in buffer.getvalue()  # it has been computed
    with pytest.raises(ValueError, match="depends"):
        mx.depends(a, "b")


def test_depends_in_transforms():
    a, b = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])

    def f(a, b):
        x, y = mx.depends([a * a, b * 3], [mx.sin(b)])
        return mx.sum(x * y)

    ga, gb = mx.grad(f, argnums=(0, 1))(a, b)
    assert ga.tolist() == [18, 48] and gb.tolist() == [3, 12]
    _, (t,) = mx.jvp(f, [a, b], [mx.ones(2), mx.zeros(2)])
    assert t.item() == 66
    y = mx.vmap(lambda a, b: mx.depends([a, b], [b])[0] + b, in_axes=(0, None))(a, b)
    assert y.tolist() == [[4, 5], [5, 6]]


def test_dot():
    a = mx.array([1.0, 2.0])
    b = mx.exp(a) + a
    buffer = io.StringIO()
    mx.export_to_dot(buffer, b, {"more": [mx.sin(b)]}, inp=a, out=b)
    text = buffer.getvalue()
    assert text.startswith("digraph {\n") and text.endswith("}\n")
    for line in (
        '{ rank=source; "inp"; }',
        '{ 0 [label ="Exp", shape=rectangle]; }',
        '"inp" -> 0',
        '0 -> "A"',
        '{ "out"; }',
        '{ rank=sink; "B"; }',
        '"out" -> 2',
    ):
        assert line in text.splitlines(), (line, text)
    drawings = []
    for args, names in [((b,), {"b": b}), ((), {"b": b}), ((a,), {"b": b}), ((), {"b": b, "a": a})]:
        buffer = io.StringIO()
        mx.export_to_dot(buffer, *args, **names)
        drawings.append(buffer.getvalue())
    assert drawings[0] == drawings[1] == drawings[2] and '{ rank=sink; "b"; }' in drawings[0]
    assert drawings[3] == drawings[0].replace('"A"', '"a"').replace('"B"', '"A"')
    buffer = io.StringIO()
    mx.export_to_dot(buffer, a=a)
    assert buffer.getvalue() == 'digraph {\n{ rank=source; "a"; }\n}\n'
    quotient, rest = mx.divmod(a, b)
    buffer = io.StringIO()
    mx.export_to_dot(buffer, quotient, rest, **{'a "quoted" name': a})
    assert '"a \\"quoted\\" name"' in buffer.getvalue()


def test_dot_files(tmp_path):
    b = mx.exp(mx.array([1.0, 2.0]))
    mx.export_to_dot(str(tmp_path / "graph.dot"), b)
    assert "Exp" in (tmp_path / "graph.dot").read_text()
    mx.export_to_dot(tmp_path / "more.dot", b)
    assert (tmp_path / "more.dot").read_text() == (tmp_path / "graph.dot").read_text()
    for call in (lambda: mx.export_to_dot(io.StringIO(), 3), lambda: mx.export_to_dot(io.StringIO(), b, x=3)):
        with pytest.raises(ValueError, match="export_to_dot"):
            call()
    with pytest.raises(TypeError, match="file"):
        mx.export_to_dot()
    with pytest.raises(OSError):
        mx.export_to_dot(tmp_path / "nowhere" / "graph.dot", b)


def test_namespace_info():
    info = mx.__array_namespace_info__()
    assert mx.array(1).__array_namespace__() is mx
    assert info.default_device() == mx.default_device() and info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] == mx.float32
    assert set(info.dtypes(kind="integral")) == {f"{s}int{b}" for s in ("", "u") for b in (8, 16, 32, 64)}
    assert info.dtypes(kind=("bool", "complex floating")) == {"bool": mx.bool_, "complex64": mx.complex64}
    assert "float64" in info.dtypes(device=mx.cpu)
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    with pytest.raises(ValueError, match="kind"):
        info.dtypes(kind="number")
