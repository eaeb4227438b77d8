"""Activation functions, and each of them as a layer.

All act element by element and keep the shape, except `glu`, which halves one axis, and the softmax
family, which normalizes along one. Formulas are written so that neither the value nor the gradient
overflows: whatever grows is cut off before it meets exp.
"""

import math

import mlx.core as mx

from .base import Module

# ------------------------------------------------------------------ bounded and logistic


def sigmoid(x):
    """1 / (1 + exp(-x))"""
    return mx.sigmoid(x)


def log_sigmoid(x):
    """log(sigmoid(x)) = -softplus(-x)"""
    return -softplus(-x)


def tanh(x):
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x))"""
    return mx.tanh(x)


def softsign(x):
    """x / (1 + |x|)"""
    return mx.divide(x, 1 + mx.abs(x))


def hard_tanh(x, min_val=-1.0, max_val=1.0):
    """x cut off at `min_val` and `max_val`"""
    return mx.minimum(mx.maximum(x, min_val), max_val)


def step(x: mx.array, threshold: float = 0.0):
    """1 where x >= threshold, else 0, as int32; no gradient flows through it"""
    return mx.where(x >= threshold, 1, 0)


# ------------------------------------------------------------------ rectifiers


def relu(x):
    """max(x, 0), the rectifier (Nair & Hinton, 2010)"""
    return mx.maximum(x, 0)


def relu2(x):
    """max(x, 0)^2 (So et al., "Primer", 2021)"""
    return mx.square(mx.maximum(x, 0))


def relu6(x):
    """min(max(x, 0), 6) (Krizhevsky, 2010)"""
    return mx.minimum(mx.maximum(x, 0), 6.0)


def leaky_relu(x, negative_slope=0.01):
    """x where x >= 0, else negative_slope * x (Maas et al., 2013)"""
    return mx.where(x >= 0, x, negative_slope * x)


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """x where x > 0, else alpha * x, with alpha learned (He et al., 2015)"""
    return mx.where(x > 0, x, alpha * x)


def elu(x, alpha=1.0):
    """x where x > 0, else alpha * (exp(x) - 1) (Clevert et al., 2015)"""
    right = x > 0
    return mx.where(right, x, alpha * mx.expm1(mx.where(right, 0, x)))


def celu(x, alpha=1.0):
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0), smooth for every alpha (Barron, 2017)"""
    right = x > 0
    return mx.where(right, x, alpha * mx.expm1(mx.where(right, 0, x) / alpha))


def selu(x):
    """scale * elu(x, alpha) (Klambauer et al., "Self-Normalizing Neural Networks", 2017)

    The constants make mean 0 and variance 1 a fixed point of layers of independent inputs.
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def softplus(x):
    """log(1 + exp(x)), a smooth rectifier (Dugas et al., 2000)"""
    return mx.logaddexp(x, 0)


# ------------------------------------------------------------------ x times a gate


def gelu(x) -> mx.array:
    """x * Phi(x) with Phi the distribution function of the normal law (Hendrycks & Gimpel, 2016)

    Phi(x) = (1 + erf(x / sqrt(2))) / 2.
    """
    return x * (1 + mx.erf(x * math.sqrt(0.5))) / 2


def gelu_approx(x):
    """gelu with tanh: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), off by at most 0.0005"""
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def gelu_fast_approx(x):
    """gelu with a sigmoid: x * sigmoid(1.702 x), off by at most 0.021"""
    return x * mx.sigmoid(1.702 * x)


def silu(x):
    """x * sigmoid(x), also called swish (Elfwing et al., 2017)"""
    return mx._silu(x) if isinstance(x, mx.array) else x * mx.sigmoid(x)


def mish(x: mx.array) -> mx.array:
    """x * tanh(softplus(x)) (Misra, 2019)"""
    return x * mx.tanh(softplus(x))


def hardswish(x):
    """x * relu6(x + 3) / 6 (Howard et al., "MobileNetV3", 2019)"""
    return x * mx.minimum(mx.maximum(x + 3, 0), 6) / 6


def glu(x: mx.array, axis: int = -1) -> mx.array:
    """a * sigmoid(b) where a and b are the halves of x along `axis` (Dauphin et al., 2016)"""
    a, b = mx.split(x, 2, axis=axis)
    return a * mx.sigmoid(b)


# ------------------------------------------------------------------ shrinkage


def hard_shrink(x, lambd=0.5):
    """x where |x| > lambd, else 0 (Donoho & Johnstone, 1994)"""
    return mx.where(mx.abs(x) <= lambd, 0, x)


def softshrink(x, lambd: float = 0.5):
    """x - sign(x) * lambd where |x| > lambd, else 0 (Donoho & Johnstone, 1994)"""
    return mx.where(mx.abs(x) <= lambd, 0, x - mx.sign(x) * lambd)


# ------------------------------------------------------------------ softmax family


def softmax(x, axis=-1):
    """exp(x) / sum(exp(x)) along `axis`"""
    return mx.softmax(x, axis=axis)


def softmin(x, axis=-1):
    """softmax(-x)"""
    return mx.softmax(-x, axis=axis)


def log_softmax(x, axis=-1):
    """log(softmax(x)) = x - log(sum(exp(x))) along `axis`"""
    return mx._log_softmax(x, axis)


# ------------------------------------------------------------------ as layers


def _layer(name, fn):
    """A module class called `name` without parameters that applies `fn`."""

    def __call__(self, x):
        return fn(x)

    doc = f"`nn.{fn.__name__}` as a layer: {fn.__doc__}"
    return type(name, (Module,), {"__call__": __call__, "__doc__": doc, "__module__": __name__})


Sigmoid = _layer("Sigmoid", sigmoid)
LogSigmoid = _layer("LogSigmoid", log_sigmoid)
Tanh = _layer("Tanh", tanh)
Softsign = _layer("Softsign", softsign)
HardTanh = _layer("HardTanh", hard_tanh)
ReLU = _layer("ReLU", relu)
ReLU2 = _layer("ReLU2", relu2)
ReLU6 = _layer("ReLU6", relu6)
SELU = _layer("SELU", selu)
Softplus = _layer("Softplus", softplus)
SiLU = _layer("SiLU", silu)
Mish = _layer("Mish", mish)
Hardswish = _layer("Hardswish", hardswish)
Softmax = _layer("Softmax", softmax)
Softmin = _layer("Softmin", softmin)
LogSoftmax = _layer("LogSoftmax", log_softmax)


class LeakyReLU(Module):
    """`nn.leaky_relu` as a layer."""

    def __init__(self, negative_slope=0.01):
        super().__init__()
        self._negative_slope = negative_slope

    def __call__(self, x):
        return leaky_relu(x, self._negative_slope)


class PReLU(Module):
    """`nn.prelu` as a layer that learns its slopes: one, or one for each of the last axis."""

    def __init__(self, num_parameters=1, init=0.25):
        super().__init__()
        self.weight = mx.full((num_parameters,), init)

    def __call__(self, x: mx.array):
        return prelu(x, self.weight)


class ELU(Module):
    """`nn.elu` as a layer."""

    def __init__(self, alpha=1.0):
        super().__init__()
        self._alpha = alpha

    def __call__(self, x):
        return elu(x, self._alpha)


class CELU(Module):
    """`nn.celu` as a layer."""

    def __init__(self, alpha=1.0):
        super().__init__()
        self._alpha = alpha

    def __call__(self, x):
        return celu(x, self._alpha)


class GELU(Module):
    """`nn.gelu` as a layer.

    `approx` chooses the formula: "none" exact, "precise" or "tanh" `nn.gelu_approx`, "fast"
    `nn.gelu_fast_approx`.
    """

    _formulas = {
        "none": gelu,
        "precise": gelu_approx,
        "tanh": gelu_approx,
        "fast": gelu_fast_approx,
    }

    def __init__(self, approx="none"):
        super().__init__()
        if approx not in self._formulas:
            raise mx.Error(f"[GELU] expected approx to be one of {list(self._formulas)}, got {approx!r}")
        self._approx = approx

    def __call__(self, x):
        return self._formulas[self._approx](x)


class GLU(Module):
    """`nn.glu` as a layer."""

    def __init__(self, axis: int = -1):
        super().__init__()
        self.axis = axis

    def __call__(self, x):
        return glu(x, self.axis)


class Step(Module):
    """`nn.step` as a layer."""

    def __init__(self, threshold: float = 0.0):
        super().__init__()
        self.threshold = threshold

    def __call__(self, x: mx.array):
        return step(x, self.threshold)


class HardShrink(Module):
    """`nn.hard_shrink` as a layer."""

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def __call__(self, x):
        return hard_shrink(x, self.lambd)


class Softshrink(Module):
    """`nn.softshrink` as a layer."""

    def __init__(self, lambd=0.5):
        super().__init__()
        self.lambd = lambd

    def __call__(self, x):
        return softshrink(x, self.lambd)


# Functions that a class may have as they are: `activation = nn.gelu` there makes no method.
for _function in (
    sigmoid, log_sigmoid, softsign, hard_tanh, step, relu, relu2, relu6, leaky_relu, prelu, elu, celu, selu, softplus,
    gelu, gelu_approx, gelu_fast_approx, silu, mish, hardswish, hard_shrink, softshrink, softmax, softmin, log_softmax,
):  # fmt: skip
    globals()[_function.__name__] = mx._unbound(_function)
