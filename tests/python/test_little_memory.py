"""Operations for whose results or copies there is no memory: an error, and the right values once there is some."""

import mlx.core as mx
import pytest
from test_export_ops import cases, flat, numbers, same

ON_DEVICE = mx.default_device() != mx.Device(mx.cpu)  # whose small blocks no limit counts
STEPS = [0, 256, 512, 1024, 1536, 2048, 4096, 16384]


@pytest.fixture
def limit():
    """Sets how many bytes there are beyond what is active; None: as many as before."""
    before = mx.set_memory_limit(1 << 40)

    def to(more):
        mx.set_memory_limit(1 << 40 if more is None else mx.get_active_memory() + more)

    yield to
    mx.set_memory_limit(before)


def without_rows(x):
    """The same numbers with other strides, and not from the first byte on."""
    turned = x.T if x.ndim > 1 else x[::-1]
    y = mx.concatenate([turned[:1], turned]) if x.ndim else x
    mx.eval(y)
    return (y[1:].T if x.ndim > 1 else y[1:][::-1]) if x.ndim else y


def evaluated_with_little(limit, f):
    """Evaluates f() with ever more memory; returns its arrays and how often there was too little."""
    failed = 0
    for more in STEPS:
        try:
            y = flat(f())
            limit(more)
            mx.eval(y)
        except MemoryError:
            failed += 1
        except ValueError:  # what has to be evaluated while it is built, and was not
            failed += 1
        finally:
            limit(None)
    mx.eval(y)
    return y, failed


def test_every_function(limit):
    failed = counted = 0
    for name, _, call, inputs in cases(False):
        if name.startswith("random"):
            continue
        views = [without_rows(x) for x in inputs]
        y, some = evaluated_with_little(limit, lambda call=call, views=views: call(*views))
        failed += some > 0
        counted += 1
        for a, b in zip(y, flat(call(*views)), strict=True):
            same(name + " ", a, b)
    assert counted > 1400 and (failed > 1000 or ON_DEVICE)


CONVOLUTIONS = [
    lambda x: mx.conv1d(x, mx.ones((3, 1, 4))),
    lambda x: mx.conv1d(x, mx.ones((3, 2, 4)), padding=1),
    lambda x: mx.conv1d(x, mx.ones((4, 2, 1)), groups=4),
    lambda x: mx.conv1d(x, mx.ones((4, 3, 2)), groups=2, stride=2),
    lambda x: mx.conv_transpose1d(x, mx.ones((3, 2, 4)), stride=2),
]


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.float64], ids=str)
@pytest.mark.parametrize("f", CONVOLUTIONS, ids=range(len(CONVOLUTIONS)))
def test_convolutions(limit, f, dtype):
    x = without_rows((mx.arange(2 * 70 * 4) % 7).reshape(2, 70, 4).astype(dtype, stream=mx.cpu))
    for g in (f, lambda x: mx.grad(lambda x: f(x).sum())(x)):
        y, failed = evaluated_with_little(limit, lambda g=g: g(x))
        assert failed or ON_DEVICE
        for a, b in zip(y, flat(g(x)), strict=True):
            assert (numbers(a) == numbers(b)).all()
