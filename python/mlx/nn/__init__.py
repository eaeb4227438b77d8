"""Neural networks: modules, layers, initializers and losses."""

# ruff: noqa: F401, F403

from . import init, losses
from .layers import *
from .utils import value_and_grad
