"""Recurrent layers: one state after the other along a sequence.

Inputs are x: (..., L, input_size), results the states of all L steps, (..., L, hidden_size). The
products with the inputs do not wait for any state, so they are one product for all steps; what
follows from state to state is one operation.
"""

import math
from collections.abc import Callable

import mlx.core as mx

from .activations import tanh
from .base import Module, _check_sizes


def _uniform(hidden_size, *shape):
    bound = 1 / math.sqrt(hidden_size)
    return mx.random.uniform(-bound, bound, shape)


def _times(x, weight, bias):
    """x weight^T + bias"""
    return x @ weight.T if bias is None else mx.addmm(bias, x, weight.T)


def _check(layer, x, width, **states):
    """Refuse inputs and first states of shapes that do not go together."""
    mx._of_any_size(x, f"{type(layer).__name__}, which is one step after the other, as many as there are")
    if x.ndim < 2 or x.shape[-1] != width:
        raise mx.Error(f"[{type(layer).__name__}] expected an array (..., L, {width}), got shape {x.shape}")
    if x.shape[-2] == 0:
        raise mx.Error(f"[{type(layer).__name__}] expected at least one step, got shape {x.shape}")
    shape = (*x.shape[:-2], layer.hidden_size)
    for name, state in states.items():
        if state is not None and (state.shape[-1:] != shape[-1:] or not _broadcast(state.shape, shape)):
            raise mx.Error(
                f"[{type(layer).__name__}] expected {name} of shape (..., {layer.hidden_size}) that goes with {shape}, "
                f"got shape {state.shape}"
            )


def _broadcast(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


class RNN(Module):
    """Elman's network ("Finding structure in time", 1990):

        h_t = nonlinearity(Wxh x_t + Whh h_(t-1) + bias)

    Wxh: (hidden_size, input_size), Whh: (hidden_size, hidden_size), bias: (hidden_size,), all uniform
    in +-1 / sqrt(hidden_size). The nonlinearity is tanh where none is given; h_0 is `hidden`, of shape
    (..., hidden_size), or 0.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: Callable | None = None):
        super().__init__()
        self.nonlinearity = tanh if nonlinearity is None else nonlinearity  # a module may be false
        if not callable(self.nonlinearity):
            raise mx.Error(f"[RNN] expected a function for nonlinearity, got {nonlinearity!r}")
        _check_sizes(self, hidden_size=hidden_size)
        self.hidden_size = hidden_size
        self.Wxh = _uniform(hidden_size, hidden_size, input_size)
        self.Whh = _uniform(hidden_size, hidden_size, hidden_size)
        self.bias = _uniform(hidden_size, hidden_size) if bias else None

    def _extra_repr(self):
        return (
            f"input_dims={self.Wxh.shape[1]}, hidden_size={self.hidden_size}, "
            f"nonlinearity={getattr(self.nonlinearity, '__name__', self.nonlinearity)}, bias={'bias' in self}"
        )

    def __call__(self, x, hidden=None):
        _check(self, x, self.Wxh.shape[1], hidden=hidden)
        x = _times(x, self.Wxh, self.bias)
        if self.nonlinearity in (tanh, mx.tanh):
            return mx._recurrent("rnn", x, self.Whh, None, hidden, None)[0]
        states = []
        for x_t in mx.unstack(x, axis=-2):
            hidden = self.nonlinearity(x_t if hidden is None else x_t + hidden @ self.Whh.T)
            states.append(hidden)
        return mx.stack(states, axis=-2)


class GRU(Module):
    """Gated recurrent units (Cho et al., "Learning phrase representations using RNN encoder-decoder for
    statistical machine translation", 2014):

        r_t = sigmoid(W_xr x_t + W_hr h_(t-1) + b_r)                 what to see of the state
        z_t = sigmoid(W_xz x_t + W_hz h_(t-1) + b_z)                 what to keep of it
        n_t = tanh(W_xn x_t + b_n + r_t * (W_hn h_(t-1) + b_hn))     the candidate
        h_t = (1 - z_t) * n_t + z_t * h_(t-1)

    Wx: (3 hidden_size, input_size) holds W_xr, W_xz, W_xn one below the other, Wh: (3 hidden_size,
    hidden_size) and b: (3 hidden_size,) theirs, and bhn: (hidden_size,) is b_hn. All start uniform in
    +-1 / sqrt(hidden_size). h_0 is `hidden`, of shape (..., hidden_size), or 0.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        super().__init__()
        _check_sizes(self, hidden_size=hidden_size)
        self.hidden_size = hidden_size
        self.Wx = _uniform(hidden_size, 3 * hidden_size, input_size)
        self.Wh = _uniform(hidden_size, 3 * hidden_size, hidden_size)
        self.b = _uniform(hidden_size, 3 * hidden_size) if bias else None
        self.bhn = _uniform(hidden_size, hidden_size) if bias else None

    def _extra_repr(self):
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={'b' in self}"

    def __call__(self, x, hidden=None):
        _check(self, x, self.Wx.shape[1], hidden=hidden)
        return mx._recurrent("gru", _times(x, self.Wx, self.b), self.Wh, self.bhn, hidden, None)[0]


class LSTM(Module):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997; with the forget gate of Gers et al.,
    "Learning to forget", 2000):

        i_t = sigmoid(W_xi x_t + W_hi h_(t-1) + b_i)     what to write into the cell
        f_t = sigmoid(W_xf x_t + W_hf h_(t-1) + b_f)     what to keep of it
        g_t = tanh(W_xg x_t + W_hg h_(t-1) + b_g)        the candidate
        o_t = sigmoid(W_xo x_t + W_ho h_(t-1) + b_o)     what to show of it
        c_t = f_t * c_(t-1) + i_t * g_t
        h_t = o_t * tanh(c_t)

    Wx: (4 hidden_size, input_size) holds W_xi, W_xf, W_xg, W_xo one below the other, Wh: (4
    hidden_size, hidden_size) and bias: (4 hidden_size,) theirs, all uniform in +-1 /
    sqrt(hidden_size). h_0 and c_0 are `hidden` and `cell`, of shape (..., hidden_size), or 0. The
    result is a pair: all h and all c.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True):
        super().__init__()
        _check_sizes(self, hidden_size=hidden_size)
        self.hidden_size = hidden_size
        self.Wx = _uniform(hidden_size, 4 * hidden_size, input_size)
        self.Wh = _uniform(hidden_size, 4 * hidden_size, hidden_size)
        self.bias = _uniform(hidden_size, 4 * hidden_size) if bias else None

    def _extra_repr(self):
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={'bias' in self}"

    def __call__(self, x, hidden=None, cell=None):
        _check(self, x, self.Wx.shape[1], hidden=hidden, cell=cell)
        return tuple(mx._recurrent("lstm", _times(x, self.Wx, self.bias), self.Wh, None, hidden, cell))
