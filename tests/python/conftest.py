"""What the Python tests share."""

import faulthandler
import gc
from collections import defaultdict

import hypothesis
import pytest

faulthandler.enable()
hypothesis.settings.register_profile("mlx", deadline=None, max_examples=100, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("mlx")


def pytest_addoption(parser):
    parser.addoption("--most", type=int, help="run at most so many items of each test function, spread over them")


def pytest_collection_modifyitems(config, items):
    most = config.getoption("--most")
    if not most:
        return
    functions = defaultdict(list)
    for item in items:
        functions[item.parent, getattr(item, "originalname", item.name)].append(item)
    kept = []
    for same in functions.values():
        n = len(same)
        kept += same if n <= most else [same[(2 * i + 1) * n // (2 * most)] for i in range(most)]
    config.hook.pytest_deselected(items=[i for i in items if i not in set(kept)])
    items[:] = kept


def pytest_collection_finish():
    """What is there for all tests, 22,000 of which are listed, is not walked through by each that collects garbage."""
    gc.collect()
    gc.freeze()


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
