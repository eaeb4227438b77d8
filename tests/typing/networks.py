"""A model and a step of its training, for type checkers as core.py."""

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_map


class Perceptron(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, outputs)

    def __call__(self, x: mx.array) -> mx.array:
        return nn.relu(self.layer(x))


def training(x: mx.array, y: mx.array) -> None:
    model = Perceptron(4, 2)

    def loss(model: Perceptron) -> mx.array:
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    optimizer = optim.Adam(learning_rate=1e-3)
    _, gradients = nn.value_and_grad(model, loss)(model)
    optimizer.update(model, tree_map(lambda g: g * 0.5, gradients))
    mx.eval(model.parameters(), optimizer.state)
