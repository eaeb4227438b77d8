"""Neural networks: modules, layers, initializers and losses."""

# Imported by the names that they are exported by, for type checkers.
# ruff: noqa: F403, I001

from . import init as init, losses as losses
from .layers import *
from .utils import average_gradients as average_gradients, value_and_grad as value_and_grad
