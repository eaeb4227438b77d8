"""The libraries that are timed: how each gets arrays, is started and waited for, and gives numbers back."""

import os
import time
from importlib.util import find_spec

import numpy as np

THREADS = int(os.environ.get("MLX_NUM_THREADS", len(os.sched_getaffinity(0))))
SETTLING, LONGER, MANY = 0.1, 0.5, 1e10  # seconds, on a GPU, and from so many operations on


class Peer:
    """`start` has a result computed, `finish` waits for what has not been waited for."""

    types, on_gpu = {}, False

    def start(self, result):
        pass

    def finish(self):
        pass

    def settle(self, run, operations):
        """Until a library has chosen what it goes on with."""
        run()
        end = time.perf_counter() + (LONGER if operations >= MANY else SETTLING)
        while self.on_gpu and time.perf_counter() < end:
            run()
            self.finish()

    def array(self, x, dtype=None):
        """With floating-point numbers of that type."""
        return np.asarray(x)

    def total(self, x):
        """The sum of the sizes of its elements."""
        return np.abs(np.asarray(x)).astype(np.float64).sum()


def is_floating(x):
    return x.dtype in (np.float32, np.float64)


class Ours(Peer):
    def __init__(self, device):
        import mlx.core as mx
        import mlx.nn as nn
        import mlx.optimizers as optim

        mx.set_default_device(getattr(mx, device))
        self.mx, self.on_gpu = mx, device == "gpu"
        self.names = {"mx": mx, "nn": nn, "optim": optim, "xp": mx}
        self.types = {"bfloat16": mx.bfloat16, "float16": mx.float16}

    def array(self, x, dtype=None):
        y = self.mx.array(x)
        y = y.astype(self.types[dtype]) if dtype and is_floating(x) else y
        self.mx.eval(y)
        return y

    def start(self, result):
        self.mx.async_eval(result) if self.on_gpu else self.mx.eval(result)

    def finish(self):
        if self.on_gpu:
            self.mx.synchronize()

    def settle(self, run, operations):
        super().settle(run, operations)
        if not self.on_gpu:
            return
        facts, end = self.mx.device_info, time.perf_counter() + 30
        while facts(self.mx.gpu).get("kernels_to_specialize") and time.perf_counter() < end:
            time.sleep(0.01)
        run()

    def total(self, x):
        mx = self.mx
        if not self.on_gpu:
            return super().total(x.astype(mx.float32) if x.dtype in self.types.values() else x)
        return mx.sum(mx.abs(x if x.dtype == mx.complex64 else x.astype(mx.float32))).item()


class Torch(Peer):
    def __init__(self, device):
        import torch

        torch.set_num_threads(THREADS)
        torch.set_grad_enabled(False)
        self.torch, self.on_gpu = torch, device == "gpu"
        self.device = "cuda" if self.on_gpu else "cpu"
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False
        self.names = {"torch": torch, "F": torch.nn.functional, "xp": torch, "device": self.device}
        self.types = {"bfloat16": torch.bfloat16, "float16": torch.float16}

    def array(self, x, dtype=None):
        return self.torch.from_numpy(x).to(self.device, self.types[dtype] if dtype and is_floating(x) else None)

    def finish(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def total(self, x):
        return x.detach().abs().sum(dtype=self.torch.float64).item() if x.dtype != self.torch.bool else x.sum().item()


class Jax(Peer):
    def __init__(self, device):
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        self.names = {"jax": jax, "jnp": jnp, "xp": jnp}
        self.start = jax.block_until_ready
        self.types = {"bfloat16": jnp.bfloat16, "float16": jnp.float16}

    def array(self, x, dtype=None):
        y = self.names["jnp"].asarray(x)
        return y.astype(self.types[dtype]) if dtype and is_floating(x) else y

    def total(self, x):
        return super().total(x.astype("float32") if x.dtype in self.types.values() else x)


class NumPy(Peer):
    def __init__(self, device):
        self.names = {"np": np, "xp": np}


# "kernels": ours without NVIDIA's libraries, "upstream": the mlx package, of the Python that MLX_UPSTREAM_PYTHON names.
PEERS = {"ours": Ours, "PyTorch": Torch, "JAX": Jax, "NumPy": NumPy, "kernels": Ours, "upstream": Ours}
PACKAGES = {"PyTorch": "torch", "JAX": "jax", "NumPy": "numpy"}
USUAL = {"cpu": ("PyTorch", "JAX", "NumPy"), "gpu": ("PyTorch", "upstream")}


def is_installed(peer):
    return find_spec(PACKAGES.get(peer, "mlx")) is not None


def written_as(peer):
    """Whose expressions it runs."""
    return peer if peer in PACKAGES else "ours"
