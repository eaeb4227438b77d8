"""What models and optimizers no longer hold is let go of at once, and not when Python's collector runs: it counts
objects, of which there are few where arrays are large."""

import gc

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx.utils as utils
import pytest


def model():
    m = nn.Sequential(nn.Linear(512, 512), nn.RMSNorm(512), nn.Linear(512, 512))
    mx.eval(m.parameters())
    return m


WALKS = ["train", "eval", "freeze", "unfreeze", "modules", "named_modules", "leaf_modules", "children", "__repr__"]
CHANGES = {
    **{name: lambda m, name=name: getattr(m, name)() for name in [*WALKS, "parameters", "trainable_parameters"]},
    "quantize": nn.quantize,
    "set_dtype": lambda m: m.set_dtype(mx.float16),
    "apply": lambda m: m.apply(lambda x: x + 1),
    "apply_to_modules": lambda m: m.apply_to_modules(lambda name, child: None),
    "update_modules": lambda m: m.update_modules({"layers": [nn.Linear(512, 512)]}),
    "flatten": lambda m: utils.tree_unflatten(utils.tree_flatten(m.parameters())),
    "map": lambda m: mx.eval(utils.tree_map(lambda x: x + 1, m.parameters())),
    "map_with_path": lambda m: utils.tree_map_with_path(lambda path, x: x, m.parameters()),
    "reduce": lambda m: utils.tree_reduce(lambda sum, x: sum + x.size, m.parameters(), 0),
    "gradient": lambda m: mx.eval(mx.grad(lambda x: nn.utils.checkpoint(m)(x).sum())(mx.ones((2, 512)))),
    "vmap": lambda m: mx.eval(mx.vmap(m)(mx.ones((2, 512)))),
}


@pytest.fixture
def kept():
    """How many bytes of arrays a call leaves behind."""

    def measure(f):
        gc.collect()
        mx.synchronize()
        before = mx.get_active_memory()
        gc.disable()
        try:
            f()
            mx.synchronize()
            return mx.get_active_memory() - before
        finally:
            gc.enable()

    return measure


@pytest.mark.parametrize("name", CHANGES)
def test_of_a_model(kept, name):
    def use():
        m = model()
        CHANGES[name](m)
        mx.eval(m.parameters())

    assert kept(use) < 100_000


def test_weights_that_are_packed(kept):
    m = model()
    assert kept(lambda: (nn.quantize(m), mx.eval(m.parameters()))) < -1_000_000


OPTIMIZERS = [
    lambda: optim.SGD(0.1, momentum=0.9),
    lambda: optim.AdamW(1e-3),
    lambda: optim.Adafactor(),
    lambda: optim.Lion(1e-3),
    lambda: optim.Muon(0.1),
    lambda: optim.MultiOptimizer([optim.Adam(1e-3), optim.SGD(0.1)], [lambda name, x: "bias" in name]),
]


@pytest.mark.parametrize("make", OPTIMIZERS, ids=lambda make: type(make()).__name__)
def test_steps_of_an_optimizer(kept, make):
    m, o = model(), make()
    slopes = nn.value_and_grad(m, lambda x: m(x).square().mean())

    def step():
        loss, gradients = slopes(mx.ones((2, 512)))
        o.update(m, gradients)
        mx.eval(m.state, o.state, loss)

    step()
    assert kept(lambda: [step() for _ in range(5)]) < 100_000
