"""Optimizers, which turn gradients into better parameters, and learning-rate schedules."""

# ruff: noqa: F401, F403

# What programs that train a model need beside the optimizers is found here as well.
from mlx.nn import Module
from mlx.utils import tree_flatten, tree_map, tree_merge, tree_reduce, tree_unflatten

from .optimizers import *
from .schedulers import *
