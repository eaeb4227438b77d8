"""The libraries that are timed: how each gets arrays, is waited for, and gives numbers back."""

import os
from importlib.util import find_spec

import numpy as np

THREADS = int(os.environ.get("MLX_NUM_THREADS", len(os.sched_getaffinity(0))))


class Ours:
    def __init__(self):
        import mlx.core as mx
        import mlx.nn as nn
        import mlx.optimizers as optim

        mx.set_default_device(mx.cpu)
        self.names = {"mx": mx, "nn": nn, "optim": optim, "xp": mx}
        self.array, self.wait = mx.array, mx.eval
        self.plain = lambda x: np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)
        self.types = {"bfloat16": mx.bfloat16}


class Torch:
    def __init__(self):
        import torch

        torch.set_num_threads(THREADS)
        torch.set_grad_enabled(False)
        self.names = {"torch": torch, "F": torch.nn.functional, "xp": torch}
        self.array, self.wait = torch.from_numpy, lambda x: None
        self.plain = lambda x: (x.detach().float() if x.dtype == torch.bfloat16 else x.detach()).numpy()
        self.types = {"bfloat16": torch.bfloat16}


class Jax:
    def __init__(self):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        self.names = {"jax": jax, "jnp": jnp, "xp": jnp}
        self.array, self.wait = jnp.asarray, jax.block_until_ready
        self.plain = lambda x: np.asarray(x.astype(jnp.float32) if x.dtype == jnp.bfloat16 else x)
        self.types = {"bfloat16": jnp.bfloat16}


class NumPy:
    def __init__(self):
        self.names = {"np": np, "xp": np}
        self.array, self.wait, self.plain = np.asarray, lambda x: None, np.asarray
        self.types = {}


PEERS = {"ours": Ours, "PyTorch": Torch, "JAX": Jax, "NumPy": NumPy}
PACKAGES = {"ours": "mlx", "PyTorch": "torch", "JAX": "jax", "NumPy": "numpy"}


def is_installed(peer):
    return find_spec(PACKAGES[peer]) is not None
