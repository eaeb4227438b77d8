"""Operations of our own for MLX."""

import mlx.core  # noqa: F401  # first: its libmlx is the one that the modules below use

from ._ext import axpby

__all__ = ["axpby"]
