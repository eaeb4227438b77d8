"""Groups of processes and what is sent between them, and the layers that are spread over them.

There is a group of one. What the layers do in a group of several is checked with a group that says it
has several and collective functions made of arrays: process after process on one machine.
"""

import subprocess
import sys

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from compare import close
from mlx.nn.layers.distributed import shard_inplace, shard_linear, sum_gradients
from mlx.nn.utils import average_gradients, clip_grad_norm_sharded
from mlx.optimizers import clip_grad_norm
from mlx.utils import tree_flatten

BACKENDS = ["any", "ring", "mpi", "nccl", "jaccl"]


# ------------------------------------------------------------------ the group of one


@pytest.mark.parametrize("backend", BACKENDS)
def test_group_of_one(backend):
    group = mx.distributed.init(backend=backend)
    assert isinstance(group, mx.distributed.Group)
    assert (group.rank(), group.size()) == (0, 1)
    assert not mx.distributed.is_available(backend)
    with pytest.raises(RuntimeError, match="backend"):
        mx.distributed.init(strict=True, backend=backend)


def test_what_a_group_of_one_cannot():
    group = mx.distributed.init()
    with pytest.raises(RuntimeError, match="several processes"):
        group.split(0)
    with pytest.raises(RuntimeError, match="several processes"):
        group.split(color=1, key=2)
    with pytest.raises(TypeError):
        mx.distributed.Group()
    with pytest.raises(TypeError, match="Group"):
        mx.distributed.all_sum(mx.ones(2), group=1)


@pytest.mark.parametrize("name", ["all_sum", "all_max", "all_min", "all_gather", "sum_scatter"])
@pytest.mark.parametrize("dtype", [np.bool_, np.int32, np.float16, np.float32, np.complex64])
def test_collectives_of_one(name, dtype):
    x = (np.arange(6).reshape(2, 3) % 4).astype(dtype)
    collective = getattr(mx.distributed, name)
    for group in (None, mx.distributed.init()):
        got = collective(mx.array(x), group=group, stream=mx.cpu)
        assert got.dtype == mx.array(x).dtype
        np.testing.assert_array_equal(np.array(got), x)
    assert collective(mx.array(2.5)).item() == 2.5
    close(mx.grad(lambda x: collective(x * x).sum())(mx.array([1.0, 2.0])), [2, 4])
    close(mx.vmap(collective)(mx.array([[1.0], [2.0]])), [[1], [2]])
    close(mx.compile(lambda x: collective(x) + 1)(mx.array([1.0])), [2])


@pytest.mark.parametrize("number, dtype", [(True, mx.bool_), (3, mx.int32), (2.5, mx.float32), (1j, mx.complex64)])
def test_numbers_are_arrays_to_collectives(number, dtype):
    for collective in (*ALL, mx.distributed.all_gather, mx.distributed.sum_scatter):
        got = collective(number)
        assert got.item() == number and got.dtype == dtype and got.shape == ()
    with pytest.raises(TypeError, match="must be a number or an array, not str"):
        mx.distributed.all_sum("3")


# Named for the table of tested functions, which reads names.
ALL = (mx.distributed.all_sum, mx.distributed.all_max, mx.distributed.all_min)
PARTS = (mx.distributed.all_gather, mx.distributed.sum_scatter)


def test_messages_to_nobody():
    for call in (
        lambda: mx.distributed.send(mx.ones(2), 0),
        lambda: mx.distributed.recv((2,), mx.float32, 0),
        lambda: mx.distributed.recv_like(mx.ones(2), 1),
    ):
        with pytest.raises(ValueError, match="several processes, got one of 1"):
            call()


@pytest.mark.parametrize("name, value", [("MLX_RANK", "1"), ("MLX_HOSTFILE", "hosts.json"), ("MLX_WORLD_SIZE", "2")])
def test_a_process_that_was_launched_as_one_of_several(name, value):
    """It must not work on its own as if there were no others."""
    code = f"import os; os.environ[{name!r}] = {value!r}; import mlx.core as mx; mx.distributed.init()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "mlx.core.Error: [init] expected a process by itself, got one of several" in done.stderr


# ------------------------------------------------------------------ layers, in a group of one


def quantized(bias=True):
    return nn.Linear(128, 64, bias=bias).to_quantized()


@pytest.mark.parametrize("sharding", ["all-to-sharded", "sharded-to-all"])
@pytest.mark.parametrize("make", [lambda b: nn.Linear(128, 64, bias=b), quantized])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("group", [None, mx.distributed.init()])
def test_shard_linear_in_a_group_of_one(sharding, make, bias, group):
    layer = make(bias)
    x = mx.random.normal((3, 128))
    sharded = shard_linear(layer, sharding, group=group)
    assert type(sharded).__name__.lower().replace("quantized", "").startswith(sharding.replace("-", ""))
    close(sharded(x), layer(x))
    assert [n for n, _ in tree_flatten(sharded.parameters())] == [n for n, _ in tree_flatten(layer.parameters())]
    assert bool(sharded.trainable_parameters()) == isinstance(layer, nn.Linear)
    sharded.unfreeze()
    assert bool(sharded.trainable_parameters()) == isinstance(layer, nn.Linear)


def test_fully_shard_in_a_group_of_one():
    layer = nn.Linear(4, 3)
    assert nn.fully_shard(layer) is layer
    embedding = nn.FullyShardedModule(nn.Embedding(6, 4), compute_dtype=mx.float16)
    numbers = mx.array([1, 5])
    assert embedding(numbers).dtype == mx.float16
    close(embedding(numbers), embedding.module.weight[numbers], atol=1e-3)
    close(embedding.as_linear(mx.ones(4)), embedding.module.weight.sum(-1), atol=5e-3)
    assert embedding.module.weight.dtype == mx.float32
    grads = nn.value_and_grad(embedding, lambda n: embedding(n).sum())(numbers)[1]
    close(grads["module"]["weight"].sum(-1), [0, 4, 0, 0, 0, 4])


def test_gradients_in_a_group_of_one():
    grads = {"a": mx.array([3.0, 4.0]), "b": [mx.array([[12.0]])]}
    assert average_gradients(grads) is grads
    clipped, norm = clip_grad_norm_sharded(grads, 1.0)
    want, want_norm = clip_grad_norm(grads, 1.0)
    assert norm.item() == want_norm.item() == 13
    close(clipped["a"], want["a"])
    close(clipped["b"][0], want["b"][0])


# ------------------------------------------------------------------ layers, in a group of several


class Member:
    """A member of a group of several that knows what the others send: `world` is its list of members,
    `sent` what each of them gives to the collective call that is being made."""

    def __init__(self, rank, size):
        self._rank, self._size = rank, size

    def rank(self):
        return self._rank

    def size(self):
        return self._size


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize(
    "make", [lambda b: nn.Linear(256, 64, bias=b), lambda b: nn.Linear(256, 64, bias=b).to_quantized()]
)
@pytest.mark.parametrize("bias", [True, False])
def test_parts_of_linear_layers(n, make, bias, monkeypatch):
    monkeypatch.setattr(mx.distributed, "all_sum", lambda x, group=None, stream=None: x)
    layer, x = make(bias), mx.random.normal((3, 256))
    want = layer(x)
    outputs = [shard_linear(layer, "all-to-sharded", group=Member(i, n))(x) for i in range(n)]
    assert outputs[0].shape == (3, 64 // n)
    close(mx.concatenate(outputs, axis=-1), want)
    inputs = mx.split(x, n, axis=-1)
    parts = [shard_linear(layer, "sharded-to-all", group=Member(i, n)) for i in range(n)]
    total = sum(part(y) for part, y in zip(parts, inputs))
    close(total - (n - 1) * (layer.bias if bias else 0), want, atol=1e-4)
    assert f"input_dims=256, output_dims=64, bias={bias}" in repr(parts[0])


def test_segments_are_cut_each():
    """Queries, keys and values in one matrix: every process gets its part of each."""
    weight = np.arange(12 * 2).reshape(12, 2).astype(np.float32)
    for segments, want in (
        (3, [0, 1, 4, 5, 8, 9]),
        ([8, 10], [0, 1, 2, 3, 8, 10]),
        ([2 / 3], [0, 1, 2, 3, 8, 9]),
        (1, [0, 1, 2, 3, 4, 5]),
    ):
        layer = nn.Linear(2, 12, bias=False)
        layer.weight = mx.array(weight)
        shard_inplace(layer, "all-to-sharded", segments=segments, group=Member(0, 2))
        np.testing.assert_array_equal(np.array(layer.weight), weight[want])
    layer = nn.Linear(2, 12)
    shard_inplace(layer, lambda path, w: (-1, 1) if path == "weight" else None, group=Member(1, 2))
    assert layer.weight.shape == (12, 1) and layer.bias.shape == (12,)


def test_the_gradient_of_what_all_have_is_summed(monkeypatch):
    monkeypatch.setattr(mx.distributed, "all_sum", lambda x, group=None, stream=None: 10 * x)
    close(mx.grad(lambda x: (sum_gradients(Member(0, 2))(x) ** 2).sum())(mx.array([1.0, 2.0])), [20, 40])
    close(mx.grad(lambda x: (sum_gradients(mx.distributed.init())(x) ** 2).sum())(mx.array([1.0])), [2])


@pytest.mark.parametrize("size", [0, 20, 1 << 25])
def test_average_gradients_of_several(size, monkeypatch):
    sent = []

    def all_sum(x, group=None, stream=None):
        sent.append(x)
        return x * 3

    monkeypatch.setattr(mx.distributed, "all_sum", all_sum)
    grads = {"a": mx.ones((2, 3)), "b": [mx.full((4,), 2.0), mx.ones((2,), mx.float16)], "c": mx.ones((1,), mx.float16)}
    got = average_gradients(grads, Member(0, 2), size)
    assert len(sent) == {0: 4, 20: 3, 1 << 25: 2}[size]
    for (name, g), (_, want) in zip(tree_flatten(got), tree_flatten(grads)):
        assert g.dtype == want.dtype and g.shape == want.shape, name
        close(g, want * 1.5)


def test_fully_sharded_in_a_group_of_several(monkeypatch):
    whole = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    x = mx.random.normal((5, 4))
    want = whole(x)
    parts = dict(tree_flatten(whole.parameters()))

    def all_gather(part, group=None, stream=None):
        return next(
            w
            for w in parts.values()
            if w.ndim == part.ndim and w.shape[1:] == part.shape[1:] and w.shape[0] == 2 * part.shape[0]
        )

    monkeypatch.setattr(mx.distributed, "all_gather", all_gather)
    model = nn.FullyShardedModule(whole, Member(1, 2))
    assert "num_sharded_params=2" in repr(model)
    close(model.module.layers[0].weight, parts["layers.0.weight"][3:])
    close(model.module.layers[2].weight, parts["layers.2.weight"])  # 3 rows are no 2 parts
    close(model(x), want)
    assert model.module.layers[0].weight.shape == (3, 4)


def test_what_cannot_be_spread():
    with pytest.raises(ValueError, match="sharding"):
        shard_linear(nn.Linear(4, 4), "round-robin")
    with pytest.raises(ValueError, match="Linear"):
        shard_linear(nn.Conv1d(2, 2, 2), "all-to-sharded")
    with pytest.raises(ValueError, match="multiple of the 2 processes"):
        nn.AllToShardedLinear(4, 3, group=Member(0, 2))
    with pytest.raises(ValueError, match="multiple of the 2 processes"):
        nn.ShardedToAllLinear(3, 4, group=Member(0, 2))
