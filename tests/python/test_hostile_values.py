"""What nobody means to pass: values that change while they are read, hold themselves or name nothing."""

import mlx.core as mx
import pytest

# Errors on their way


@pytest.mark.parametrize("name", ["unique_all", "unique_counts", "unique_inverse", "unique_values"])
@pytest.mark.parametrize("transform", [mx.compile, mx.vmap])
def test_an_error_inside_a_function_of_the_array_api_arrives(name, transform):
    with pytest.raises(ValueError, match=r"depends on the elements of an array of shape \((3,)?2,?\)"):
        transform(getattr(mx, name))(mx.ones((3, 2)))


def test_an_error_keeps_its_arguments_and_cause_through_every_transform(tmp_path):
    class Own(Exception):
        def __init__(self, a, b):
            super().__init__(a, b)
            self.b = b

    def f(x):
        raise Own(1, "two") from KeyError("cause")

    x = mx.array([1.0])
    calls = [
        lambda: mx.grad(f)(x),
        lambda: mx.vmap(f)(x),
        lambda: mx.compile(f)(x),
        lambda: mx.vjp(f, [x], [x]),
        lambda: mx.checkpoint(f)(x),
        lambda: mx.export_function(str(tmp_path / "f.mlxfn"), f, x),
        lambda: mx.export_to_dot(type("File", (), {"write": lambda self, text: f(x)})(), x),
    ]
    for call in calls:
        with pytest.raises(Own) as caught:
            call()
        assert caught.value.b == "two" and isinstance(caught.value.__cause__, KeyError)
        assert caught.traceback[-1].name == "f"
