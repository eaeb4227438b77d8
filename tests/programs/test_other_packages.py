"""Other packages written for `mlx`, as they come from PyPI, on the CPU: graph networks (mlx-graphs) and
sentence embeddings (mlx-embeddings, which brings mlx-vlm)."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_map

graphs = pytest.importorskip("mlx_graphs.nn")
bert = pytest.importorskip("mlx_embeddings.models.bert")

EDGES = [[0, 1, 2, 3, 4, 5, 1], [1, 2, 3, 4, 5, 0, 4]]


def test_sums_over_neighbours():
    """Xu et al.'s layer with NumPy: MLP(x_i + the sum of x_j over the edges from j to i)."""
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    first, last = nn.Linear(8, 8), nn.Linear(8, 4)
    layer = graphs.GINConv(nn.Sequential(first, nn.ReLU(), last))
    sums = np.eye(6)
    np.add.at(sums, (EDGES[1], EDGES[0]), 1)
    hidden = np.maximum(sums @ x @ np.array(first.weight).T + np.array(first.bias), 0)
    want = hidden @ np.array(last.weight).T + np.array(last.bias)
    np.testing.assert_allclose(np.array(layer(mx.array(EDGES), mx.array(x))), want, atol=1e-5)


@pytest.mark.parametrize("make", [graphs.GCNConv, graphs.SAGEConv, graphs.GATConv])
def test_graph_layers_learn(make):
    """Steps against the gradient make the loss smaller."""
    mx.random.seed(1)
    layer, x, edges = make(8, 4), mx.random.normal((6, 8)), mx.array(EDGES)
    loss_and_grad = nn.value_and_grad(layer, lambda: mx.square(layer(edges, x) - 1).mean())
    first = loss_and_grad()[0].item()
    for _ in range(30):
        _, grads = loss_and_grad()
        layer.update(tree_map(lambda w, g: w - 0.1 * g, layer.parameters(), grads))
    assert loss_and_grad()[0].item() < 0.8 * first


def test_sentence_embeddings():
    """A small BERT: what is padded makes no difference, and embeddings have length 1."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "num_attention_heads": 4}
    mx.random.seed(2)
    model = bert.Model(
        bert.ModelArgs(model_type="bert", vocab_size=50, max_position_embeddings=64, type_vocab_size=2, **sizes)
    )
    model.eval()
    padded = model(mx.array([[2, 8, 3, 0, 0]]), attention_mask=mx.array([[1, 1, 1, 0, 0]]))
    alone = model(mx.array([[2, 8, 3]]), attention_mask=mx.array([[1, 1, 1]]))
    np.testing.assert_allclose(np.array(padded.text_embeds), np.array(alone.text_embeds), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(np.array(alone.text_embeds), axis=-1), 1, atol=1e-5)
