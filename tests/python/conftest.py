"""What the Python tests share."""

import faulthandler

import hypothesis
import pytest

faulthandler.enable()
hypothesis.settings.register_profile("mlx", deadline=None, max_examples=100, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("mlx")


@pytest.fixture
def index_errors():
    """Indices out of range in index arrays are errors."""
    import mlx.core as mx

    before = mx.set_index_errors(True)
    yield
    mx.set_index_errors(before)


@pytest.fixture
def no_fallback(monkeypatch, capfd):
    """What runs on the CPU instead is told by the log, once for each operation of a process.  Devices that only
    pretend have few kernels."""
    import mlx.core as mx

    monkeypatch.setenv("MLX_LOG", "fallback")
    yield
    told = [line for line in capfd.readouterr().err.splitlines() if "has no kernel" in line]
    assert not told or not mx.cuda.is_available()
