"""Optimizers, which turn gradients into better parameters, and learning-rate schedules."""

# Imported by the names that they are exported by, for type checkers.
# ruff: noqa: F403, I001

# What programs that train a model need beside the optimizers is found here as well.
from mlx.nn import Module as Module
from mlx.utils import (
    tree_flatten as tree_flatten,
    tree_map as tree_map,
    tree_merge as tree_merge,
    tree_reduce as tree_reduce,
    tree_unflatten as tree_unflatten,
)

from .optimizers import *
from .schedulers import *
