"""What tests compare values with: values from elsewhere, and differences for derivatives."""

import mlx.core as mx
import numpy as np


def close(got, want, rtol=1e-5, atol=None):
    """An absolute tolerance left out is the relative one."""
    atol = rtol if atol is None else atol
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=rtol, atol=atol)


def differences(f, x, step=1e-5, dtype=mx.float64):
    """The Jacobian of f at x by central differences: axes of f(x), then those of x."""
    x = np.array(x, dtype=np.float64)
    columns = []
    for i in np.ndindex(*x.shape):
        moved = np.zeros_like(x)
        moved[i] = step
        up, down = (np.array(f(mx.array(x + s * moved, dtype=dtype)), dtype=np.float64) for s in (1, -1))
        columns.append((up - down) / (2 * step))
    return np.moveaxis(np.array(columns), 0, -1).reshape((*np.shape(columns[0]), *x.shape))


def of_argument(f, args, i):
    """f as a function of argument i alone."""
    return lambda x: f(*args[:i], x, *args[i + 1 :])
