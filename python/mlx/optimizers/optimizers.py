"""Optimizers.

In the formulas w is a parameter, g its gradient, lr the learning rate and t the number of the step,
1 for the first. Operations on arrays are element by element.
"""

import math
import numbers
import operator
from collections.abc import Callable, Sequence

import mlx.core as mx
from mlx.nn import Module
from mlx.utils import _container, _rebuild, tree_map, tree_map_with_path, tree_merge, tree_reduce

_LearningRate = float | Callable[[mx.array], mx.array | float]


class Optimizer:
    """What all optimizers share: the step number, the learning rate and a state per parameter.

    A new optimizer is a class with two methods: `init_single`, which puts what it remembers about
    one parameter into a dict, and `apply_single`, which returns the new parameter.

    `state` is a tree of arrays that can be saved and loaded: "step", "learning_rate", and at the
    place of each parameter the dict of that parameter.
    """

    def __init__(self, schedulers=None):
        self._state = {"step": mx.array(0, mx.uint64)}
        self._schedulers = dict(schedulers or {})

    def update(self, model: Module, gradients: dict):
        """Replace the parameters of the model that have a gradient by better ones: all, with the state, or none."""
        before = {}

        def step():
            new = self.apply_gradients(gradients, model)
            before.update(tree_map(lambda _, parameter: parameter, new, model))
            model.update(new)

        _whole_or_not(self.state, step, lambda: before and model.update(before))

    def init(self, parameters: dict):
        """Add the state of those parameters, a tree, that have none yet.

        `apply_gradients` does so too. Doing it before gives `state` its final structure, which
        matters when it is loaded from a file or captured by a compiled function.
        """
        self._complete(parameters, self._state, "")

    def _complete(self, parameter, state, path):
        """`state`, completed in place, for a tree of parameters. `path` is the tree's name."""
        parameter = _container(parameter)
        if isinstance(parameter, dict):
            state = {} if state is None else state
            if not isinstance(state, dict):
                raise mx.Error(
                    f"[{type(self).__name__}] expected a dict as the state of {path[1:] or 'all parameters'}, "
                    f"got {type(state).__name__}"
                )
            for k, child in parameter.items():
                state[k] = self._complete(child, state.get(k), f"{path}.{k}")
        elif isinstance(parameter, (list, tuple)):
            state = list(state or ())
            state += [None] * (len(parameter) - len(state))
            for i, child in enumerate(parameter):
                state[i] = self._complete(child, state[i], f"{path}.{i}")
        elif isinstance(state, mx.array):
            raise mx.Error(
                f"[Optimizer] the state has no place for a parameter named {path[1:]}: the "
                "optimizer keeps a value of that name"
            )
        elif not state:
            state = {}
            self.init_single(parameter, state)
        return state

    def init_single(self, parameter: mx.array, state: dict):
        """Put what is to be remembered about one parameter into `state`, an empty dict."""
        raise NotImplementedError(f"[{type(self).__name__}] init_single is not implemented")

    def apply_gradients(self, gradients: dict, parameters: dict):
        """The new parameters, as a tree like `gradients`, and one step more in the state.

        `parameters` may have more in it than `gradients`. A step that fails, or is interrupted, leaves the
        state as it was.
        """
        gradients = self._checked(gradients, parameters)
        return _whole_or_not(self.state, lambda: self._applied(gradients, parameters))

    def _applied(self, gradients, parameters):
        self.init(gradients)
        for name, schedule in self._schedulers.items():
            self.state[name] = self._number(name, schedule(self.step))
        self.state["step"] = self.step + 1
        try:
            return tree_map(self._updated, gradients, parameters, self.state)
        except Exception:
            tree_map_with_path(self._check_state, gradients, self.state)  # may know better what is wrong
            raise

    def _checked(self, gradients, parameters):
        """The gradients, after an error for the first that its parameter cannot have."""

        def check(path, gradient, parameter):
            if why := _misfit(gradient, parameter):
                raise mx.Error(f"[{type(self).__name__}] expected {why} for {path or 'the parameter'}")

        try:
            return tree_map(_fitting, gradients, parameters)
        except _Misfit:  # names take time: only now
            tree_map_with_path(check, gradients, parameters)
            raise

    def _updated(self, gradient, parameter, state):
        """`apply_single`, with a look at what it returns; a table of integers or a mask is not trained."""
        if gradient.dtype not in _INEXACT:
            return parameter
        updated = self.apply_single(gradient, parameter, state)
        shape = getattr(parameter, "shape", ())
        if updated.shape != shape:
            raise mx.Error(
                f"[{type(self).__name__}] expected an update of shape {shape}, that of the parameter, "
                f"got {updated.shape}"
            )
        return updated

    def _check_state(self, path, gradient, state):
        """Raise an error for a state that is not of the form that `init_single` gives."""
        head, of = f"[{type(self).__name__}] expected", f"in the state of {path or 'the parameter'}"
        if not isinstance(state, dict):
            raise mx.Error(f"{head} a dict as the state of {path or 'the parameter'}, got {type(state).__name__}")
        wanted = {}
        self.init_single(gradient, wanted)
        for name, value in wanted.items():
            if name not in state:
                raise mx.Error(f"{head} {name!r} {of}, got only {sorted(state)}")
            shape = getattr(state[name], "shape", None)
            if isinstance(value, mx.array) and shape != value.shape:
                got = type(state[name]).__name__ if shape is None else shape
                raise mx.Error(f"{head} an array {name!r} of shape {value.shape} {of}, got {got}")

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        """The new value of one parameter; `state` is changed along."""
        raise NotImplementedError(f"[{type(self).__name__}] apply_single is not implemented")

    @property
    def state(self):
        """The tree of arrays described above."""
        return self._state

    @state.setter
    def state(self, state: dict):
        if not isinstance(state, dict):
            raise mx.Error(f"[{type(self).__name__}] expected a dict as the state, got {type(state).__name__}")
        self._state = state

    @property
    def step(self):
        """The number of updates so far, an array."""
        return self._kept("step")

    @property
    def learning_rate(self):
        """The learning rate, an array. Where there is a schedule, it sets it before each update."""
        return self._kept("learning_rate")

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array):
        self.state["learning_rate"] = self._given("learning_rate", learning_rate)

    def _maybe_schedule(self, name: str, value: _LearningRate):
        """Keep a hyper-parameter in the state: a number as it is, a function by calling it."""
        if callable(value):
            self._schedulers[name] = value
            value = value(self.step)
        self.state[name] = self._given(name, value)

    def _given(self, name, value):
        """`_number` of what the user wrote, which may be a list of one."""
        if isinstance(value, (list, tuple)):
            value = mx.array(value)
        if isinstance(value, numbers.Real) and value != value:
            raise mx.Error(f"[{type(self).__name__}] expected a number for {name}, got {value}")
        return self._number(name, value)

    def _number(self, name, value):
        """A hyper-parameter as it is kept: as an array of one real number; what optimizers of others schedule besides
        the learning rate may be any array."""
        if name != "learning_rate":
            return mx.array(value)
        if not isinstance(value, mx.array):
            if not isinstance(value, complex):
                self._check_number(name, value)
            value = mx.array(value)
        several = value.ndim > 0 and value.size != 1
        if several or value.dtype == mx.complex64:
            got = f"an array of shape {value.shape}" if several else value.dtype
            raise mx.Error(f"[{type(self).__name__}] expected a real number for {name}, got {got}")
        return value

    def _kept(self, name):
        try:
            return self.state[name]
        except KeyError:
            raise KeyError(f"[{type(self).__name__}] the state has no {name!r}") from None

    def _lr(self, like):
        """The learning rate in the dtype of an array, so that it does not widen the result."""
        return self._rate().astype(like.dtype)

    def _rate(self):
        """The learning rate without the axes that an array of one number may have."""
        rate = self.learning_rate
        return rate.reshape(()) if rate.ndim and rate.size == 1 else rate

    def _check(self, **conditions):
        """Raise an error for a hyper-parameter out of range: name=(value, lower, upper)."""
        for name, (value, lower, upper) in conditions.items():
            self._check_number(name, value)
            if not lower <= value < upper:
                raise mx.Error(f"[{type(self).__name__}] expected {name} in [{lower}, {upper}), got {value}")

    def _check_number(self, name, value):
        if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            raise mx.ConversionError(f"[{type(self).__name__}] expected a number for {name}, got {value!r}")

    def _pair(self, name, values):
        try:
            first, second = values
        except (TypeError, ValueError):
            raise mx.ConversionError(
                f"[{type(self).__name__}] expected two numbers for {name}, got {values!r}"
            ) from None
        return first, second

    def _check_positive(self, **values):
        for name, value in values.items():
            self._check_number(name, value)
            if not value > 0:
                raise mx.Error(f"[{type(self).__name__}] expected {name} > 0, got {value}")


_INF = float("inf")
_INEXACT = frozenset((mx.float16, mx.bfloat16, mx.float32, mx.float64, mx.complex64))


def _real(value):
    """For `Optimizer._check`: any real number."""
    return value, -_INF, _INF


# A nested function that calls itself would be a cycle, in which what it holds stays until the collector runs.
def _held(container, held):
    """`held`, with the containers of the tree and copies of them behind."""
    held.append((container, container.copy()))
    for child in container.values() if isinstance(container, dict) else container:
        if isinstance(child, (dict, list)):
            _held(child, held)
    return held


def _whole_or_not(tree, work, undo=lambda: None):
    """What `work()` returns; after an error `undo()` is called, and the containers of the tree hold what they held
    before. Not a context of contextlib's: one that is interrupted on its way in or out is ended when the traceback is
    freed, much later."""
    held = _held(tree, [])
    try:
        return work()
    except BaseException:
        for container, before in held:
            container.clear()
            (container.update if isinstance(container, dict) else container.extend)(before)
        undo()
        raise


class _Misfit(mx.Error):
    pass


def _fitting(gradient, parameter):
    """The gradient, where it is one for this parameter."""
    if _misfit(gradient, parameter):
        raise _Misfit
    # The rate is taken in the gradient's dtype: it would be 0 in one of integers.
    return gradient if gradient.dtype in _INEXACT else gradient.astype(getattr(parameter, "dtype", mx.float32))


def _misfit(gradient, parameter):
    """What would be right in place of this gradient or parameter, and what it is; None if they are right."""
    if not isinstance(gradient, mx.array):
        return f"an array, got {type(gradient).__name__} as the gradient"
    if not isinstance(parameter, mx.array):
        if isinstance(parameter, (int, float, complex)):  # as good as an array without dimensions
            return None if gradient.ndim == 0 else f"a gradient of shape (), got {gradient.shape},"
        return f"an array, got {type(parameter).__name__} as the parameter"
    ours, other = parameter.shape, gradient.shape
    if ours == other:
        return None
    # A gradient of fewer values stands for one that repeats them.
    fits = len(other) <= len(ours) and all(n in (1, m) for n, m in zip(reversed(other), reversed(ours)))
    return None if fits else f"a gradient of shape {ours}, got {other},"


def _pruned(tree):
    """The tree without children of dicts that hold no leaf, which is `{}` in lists."""
    if isinstance(tree, dict):
        children = {k: _pruned(child) for k, child in tree.items()}
        return {k: child for k, child in children.items() if not _is_empty(child)}
    if isinstance(tree, (list, tuple)):
        children = [_pruned(child) for child in tree]
        return {} if all(map(_is_empty, children)) else _rebuild(tree, children)
    return tree


def _is_empty(tree):
    return isinstance(tree, dict) and not tree


class MultiOptimizer(Optimizer):
    """Several optimizers, each for a part of the parameters.

    `filters` has one function of (dotted name, gradient) for each optimizer but the last. The first
    optimizer whose filter says yes gets the parameter, the last one gets the rest.
    """

    def __init__(self, optimizers, filters: Sequence = ()):
        super().__init__()
        if len(optimizers) == 0:
            raise mx.Error("[MultiOptimizer] expected at least one optimizer, got none")
        if len(filters) != len(optimizers) - 1:
            raise mx.Error(
                f"[MultiOptimizer] expected {len(optimizers) - 1} filters for {len(optimizers)} "
                f"optimizers, got {len(filters)}"
            )
        self.optimizers = list(optimizers)
        self.filters = list(filters)

    def _split(self, tree):
        """For each optimizer the tree of its leaves, `{}` in place of others in lists."""

        def owner(name, leaf):
            for i, is_mine in enumerate(self.filters):
                if is_mine(name, leaf):
                    return i
            return len(self.filters)

        def part(i):
            return _pruned(tree_map(lambda leaf, o: leaf if o == i else {}, tree, owners))

        owners = tree_map_with_path(owner, tree)
        return [part(i) for i in range(len(self.optimizers))]

    def init(self, parameters: dict):
        for optimizer, part in zip(self.optimizers, self._split(parameters)):
            optimizer.init(part)

    def apply_gradients(self, gradients: dict, parameters: dict):
        parts = self._split(gradients)
        for optimizer, part in zip(self.optimizers, parts):
            optimizer._checked(part, parameters)  # all, before any of them takes a step

        def apply():
            updated = {}
            for optimizer, part in zip(self.optimizers, parts):
                updated = tree_merge(updated, optimizer.apply_gradients(part, parameters))
            return updated

        return _whole_or_not(self.state, apply)

    @property
    def state(self):
        """{"states": [the state of each optimizer]}"""
        return {"states": [optimizer.state for optimizer in self.optimizers]}

    @state.setter
    def state(self, state: dict):
        states = state.get("states") if isinstance(state, dict) else None
        if not isinstance(states, (list, tuple)) or len(states) != len(self.optimizers):
            raise mx.Error(
                f'[MultiOptimizer] expected a state of the form {{"states": [...]}} with {len(self.optimizers)} states'
            )
        for optimizer, part in zip(self.optimizers, states):
            optimizer.state = part

    @property
    def step(self):
        return self.optimizers[0].step

    @property
    def learning_rate(self):
        """That of the first optimizer; setting it sets all."""
        return self.optimizers[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array):
        for optimizer in self.optimizers:
            optimizer.learning_rate = learning_rate


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum (Polyak, 1964):

        g' = g + weight_decay * w
        v  = momentum * v + (1 - dampening) * g'
        w  = w - lr * v

    With `nesterov` the step is w - lr * (g' + momentum * v) (Sutskever et al., "On the importance
    of initialization and momentum in deep learning", 2013). Without momentum it is w - lr * g', and v,
    there so that states have one form, stays 0.
    """

    def __init__(
        self,
        learning_rate: _LearningRate,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ):
        super().__init__()
        self._check(momentum=_real(momentum), weight_decay=_real(weight_decay), dampening=_real(dampening))
        if nesterov and (momentum <= 0 or dampening != 0):
            raise mx.Error("[SGD] nesterov needs momentum > 0 and dampening = 0")
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.dampening = dampening
        self.nesterov = nesterov

    def init_single(self, parameter: mx.array, state: dict):
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        step = gradient
        if self.momentum > 0:
            step = self.momentum * state["v"] + (1 - self.dampening) * gradient
            state["v"] = step
        if self.nesterov:
            step = gradient + self.momentum * step
        return parameter - self._lr(gradient) * step


class RMSprop(Optimizer):
    """Divides by a running root mean square of the gradient (Tieleman & Hinton, lecture 6.5 of
    "Neural networks for machine learning", 2012):

        v = alpha * v + (1 - alpha) * g^2
        w = w - lr * g / (sqrt(v) + eps)
    """

    def __init__(self, learning_rate: _LearningRate, alpha: float = 0.99, eps: float = 1e-8):
        super().__init__()
        self._check(alpha=(alpha, 0, _INF))
        self._check_positive(eps=eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.alpha = alpha
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict):
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        v = self.alpha * state["v"] + (1 - self.alpha) * mx.square(gradient)
        state["v"] = v
        return parameter - self._lr(gradient) * gradient / (mx.sqrt(v) + self.eps)


class Adagrad(Optimizer):
    """Divides by the root of all squared gradients so far (Duchi et al., "Adaptive subgradient
    methods for online learning and stochastic optimization", 2011):

        v = v + g^2
        w = w - lr * g / (sqrt(v) + eps)
    """

    def __init__(self, learning_rate: _LearningRate, eps: float = 1e-8):
        super().__init__()
        self._check_positive(eps=eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict):
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        v = state["v"] + mx.square(gradient)
        state["v"] = v
        return parameter - self._lr(gradient) * gradient / (mx.sqrt(v) + self.eps)


class AdaDelta(Optimizer):
    """Scales steps by the ratio of two running root mean squares, that of the steps and that of the
    gradients, so that they have the unit of the parameter (Zeiler, 2012):

        v = rho * v + (1 - rho) * g^2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d^2
        w = w - lr * d
    """

    def __init__(self, learning_rate: _LearningRate, rho: float = 0.9, eps: float = 1e-6):
        super().__init__()
        self._check(rho=(rho, 0, _INF))
        self._check_positive(eps=eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.rho = rho
        self.eps = eps

    def init_single(self, parameter: mx.array, state: dict):
        state["v"] = mx.zeros_like(parameter)
        state["u"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        u = state["u"]
        v = self.rho * state["v"] + (1 - self.rho) * mx.square(gradient)
        d = mx.sqrt(u + self.eps) / mx.sqrt(v + self.eps) * gradient
        state["v"] = v
        state["u"] = self.rho * u + (1 - self.rho) * mx.square(d)
        return parameter - self._lr(gradient) * d


class Adam(Optimizer):
    """Running means of the gradient and of its square (Kingma & Ba, 2014):

        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g^2
        w = w - lr * m / (sqrt(v) + eps)

    With `bias_correction`, as in the paper, m / (1 - beta1^t) and v / (1 - beta2^t) stand for m and
    v in the last line.
    """

    def __init__(
        self,
        learning_rate: _LearningRate,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        bias_correction: bool = False,
    ):
        super().__init__()
        b1, b2 = self._pair("betas", betas)
        self._check(beta1=(b1, 0, 1), beta2=(b2, 0, 1), eps=(eps, 0, _INF))
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.eps = eps
        self.bias_correction = bias_correction

    def init_single(self, parameter: mx.array, state: dict):
        state["m"] = mx.zeros_like(parameter)
        state["v"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        b1, b2 = self.betas
        m = b1 * state["m"] + (1 - b1) * gradient
        v = b2 * state["v"] + (1 - b2) * mx.square(gradient)
        state["m"] = m
        state["v"] = v
        lr = self._lr(gradient)
        if not self.bias_correction:
            return parameter - lr * m / (mx.sqrt(v) + self.eps)
        # The corrections are scalars, in float32 also for parameters of half types.
        m_scale = (self._rate() / (1 - b1**self.step)).astype(gradient.dtype)
        v_scale = mx.rsqrt(1 - b2**self.step).astype(gradient.dtype)
        return parameter - m_scale * m / (v_scale * mx.sqrt(v) + self.eps)


class AdamW(Adam):
    """`Adam` whose weight decay does not pass through the gradient (Loshchilov & Hutter, "Decoupled
    weight decay regularization", 2017):

        w = Adam's step from (1 - lr * weight_decay) * w
    """

    def __init__(
        self,
        learning_rate: _LearningRate,
        betas: Sequence[float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ):
        super().__init__(learning_rate, betas, eps, bias_correction)
        self._check(weight_decay=_real(weight_decay))
        self.weight_decay = weight_decay

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        decayed = parameter * (1 - self._lr(gradient) * self.weight_decay)
        return super().apply_single(gradient, decayed, state)


class Adamax(Adam):
    """`Adam` with the maximum norm in place of the root mean square (section 7.1 of its paper):

        m = beta1 * m + (1 - beta1) * g
        v = max(beta2 * v, |g|)
        w = w - lr * m / (v + eps)

    Unlike there, m is not corrected for its start at 0.
    """

    def __init__(self, learning_rate: _LearningRate, betas: Sequence[float] = (0.9, 0.999), eps: float = 1e-8):
        super().__init__(learning_rate, betas, eps)

    def init_single(self, parameter: mx.array, state: dict):
        super().init_single(parameter, state)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        b1, b2 = self.betas
        m = b1 * state["m"] + (1 - b1) * gradient
        v = mx.maximum(b2 * state["v"], mx.abs(gradient))
        state["m"] = m
        state["v"] = v
        return parameter - self._lr(gradient) * m / (v + self.eps)


class Lion(Optimizer):
    """Steps of one size in each direction (Chen et al., "Symbolic discovery of optimization
    algorithms", 2023):

        c = beta1 * m + (1 - beta1) * g
        m = beta2 * m + (1 - beta2) * g
        w = w - lr * (sign(c) + weight_decay * w)

    Rates 3 to 10 times smaller than Adam's suit it, and as much more weight decay.
    """

    def __init__(
        self,
        learning_rate: _LearningRate,
        betas: Sequence[float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ):
        super().__init__()
        b1, b2 = self._pair("betas", betas)
        self._check(beta1=(b1, 0, 1), beta2=(b2, 0, 1), weight_decay=_real(weight_decay))
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = betas
        self.weight_decay = weight_decay

    def init_single(self, parameter: mx.array, state: dict):
        state["m"] = mx.zeros_like(parameter)

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        b1, b2 = self.betas
        m = state["m"]
        lr = self._lr(gradient)
        direction = mx.sign(b1 * m + (1 - b1) * gradient)
        state["m"] = b2 * m + (1 - b2) * gradient
        if self.weight_decay > 0:
            parameter = parameter * (1 - lr * self.weight_decay)
        return parameter - lr * direction


class Adafactor(Optimizer):
    """Adam's scaling with memory for the rows and columns of a matrix only (Shazeer & Stern,
    "Adafactor: adaptive learning rates with sublinear memory cost", 2018):

        beta = 1 - t^decay_rate
        r = beta * r + (1 - beta) * (mean of g^2 + eps[0] over the columns)
        c = beta * c + (1 - beta) * (mean of g^2 + eps[0] over the rows)
        u = g / sqrt(r c^T / mean(r))
        u = u / max(1, RMS(u) / clip_threshold)
        w = w - rate * u

    Vectors keep v = beta * v + (1 - beta) * (g^2 + eps[0]) and take u = g / sqrt(v). With `beta_1`
    a running mean of rate * u stands for it. The rate is

        relative_step     min(0.01, 1 / sqrt(t)), or min(1e-6 * t, 1 / sqrt(t)) with warmup_init;
                          learning_rate is not used
        otherwise         learning_rate
        scale_parameter   times max(eps[1], RMS(w))
    """

    def __init__(
        self,
        learning_rate: _LearningRate | None = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta_1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
    ):
        super().__init__()
        if learning_rate is not None:
            self._maybe_schedule("learning_rate", learning_rate)
        elif not relative_step:
            raise mx.Error("[Adafactor] without relative_step a learning_rate is needed")
        self._check(**{f"eps[{i}]": (e, 0, _INF) for i, e in enumerate(self._pair("eps", eps))})
        self._check(decay_rate=_real(decay_rate), weight_decay=_real(weight_decay))
        self._check_positive(clip_threshold=clip_threshold)
        if beta_1 is not None:
            self._check(beta_1=(beta_1, 0, 1))
        self.eps = eps
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta_1 = beta_1
        self.weight_decay = weight_decay
        self.scale_parameter = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init

    def init_single(self, parameter: mx.array, state: dict):
        shape, dtype = parameter.shape, parameter.dtype
        if parameter.ndim >= 2:
            state["exp_avg_sq_row"] = mx.zeros(shape[:-1], dtype)
            state["exp_avg_sq_col"] = mx.zeros(shape[:-2] + shape[-1:], dtype)
        else:
            state["exp_avg_sq"] = mx.zeros_like(parameter)
        if self.beta_1 is not None:
            state["exp_avg"] = mx.zeros_like(parameter)

    def _scaled_rate(self, parameter):
        if self.relative_step:
            t = self.step.astype(mx.float32)
            rate = mx.minimum(1e-6 * t if self.warmup_init else 1e-2, mx.rsqrt(t))
        else:
            rate = self._rate()
        if parameter.dtype in _INEXACT:
            rate = rate.astype(parameter.dtype)
        if self.scale_parameter:
            rate = rate * mx.maximum(self.eps[1], _rms(parameter))
        return rate

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        rate = self._scaled_rate(parameter)
        t = self.step.astype(mx.float32)
        beta = (1 - t**self.decay_rate).astype(gradient.dtype)

        def running(name, value):
            state[name] = beta * state[name] + (1 - beta) * value
            return state[name]

        squared = mx.square(gradient) + self.eps[0]
        if gradient.ndim >= 2:
            r = running("exp_avg_sq_row", mx.mean(squared, axis=-1))
            c = running("exp_avg_sq_col", mx.mean(squared, axis=-2))
            row = mx.rsqrt(r / mx.mean(r, axis=-1, keepdims=True))
            update = row[..., None] * mx.rsqrt(c)[..., None, :] * gradient
        else:
            update = mx.rsqrt(running("exp_avg_sq", squared)) * gradient

        update = rate * (update / mx.maximum(1, _rms(update) / self.clip_threshold))
        if self.beta_1 is not None:
            update = self.beta_1 * state["exp_avg"] + (1 - self.beta_1) * update
            state["exp_avg"] = update
        if self.weight_decay != 0:
            parameter = parameter - parameter * (self.weight_decay * rate)
        return parameter - update


class Muon(Optimizer):
    """Momentum whose matrix is replaced by the nearest one with orthonormal rows or columns (Jordan
    et al., "Muon: an optimizer for hidden layers in neural networks", 2024):

        g' = g + weight_decay * w
        v  = momentum * v + (1 - momentum) * g'
        u  = momentum * v + (1 - momentum) * g' with nesterov, else v
        w  = w - lr * sqrt(max(1, rows / columns)) * orthogonalized(u)

    Arrays of more dimensions are orthogonalized as matrices of shape (first, product of the others), with
    the rows and columns of the last two axes in the factor; vectors are updated by u itself. Embeddings and
    the last layer are better left to another optimizer, see `MultiOptimizer`.
    """

    def __init__(
        self,
        learning_rate: _LearningRate,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: int = 5,
    ):
        super().__init__()
        self._check(momentum=_real(momentum), weight_decay=_real(weight_decay))
        try:
            self._check(ns_steps=(operator.index(ns_steps), 0, _INF))
        except TypeError:
            raise mx.ConversionError(f"[Muon] expected an int for ns_steps, got {ns_steps!r}") from None
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.ns_steps = ns_steps

    def init_single(self, parameter: mx.array, state: dict):
        state["v"] = mx.zeros_like(parameter)

    def _orthogonalized(self, x):
        """A Newton-Schulz iteration that brings the singular values of x near 1.

        Each step maps a singular value s to a s + b s^3 + c s^5. The coefficients, from the paper,
        grow small values fastest and leave them between about 0.7 and 1.2.
        """
        a, b, c = 3.4445, -4.7750, 2.0315
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (mx.sqrt(mx.sum(mx.square(x))) + 1e-7)
        for _ in range(self.ns_steps):
            square = x @ x.T
            x = a * x + (b * square + c * (square @ square)) @ x
        return x.T if tall else x

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        if self.weight_decay != 0:
            gradient = gradient + self.weight_decay * parameter
        mu = self.momentum
        update = mu * state["v"] + (1 - mu) * gradient
        state["v"] = update
        if self.nesterov:
            update = mu * update + (1 - mu) * gradient
        lr = self._lr(gradient)
        if update.ndim >= 2 and update.size > 0:
            matrix = mx.flatten(update, 1)
            lr = lr * max(1, update.shape[-2] / update.shape[-1]) ** 0.5
            update = self._orthogonalized(matrix).reshape(update.shape)
        return parameter - lr * update


def _rms(x):
    """The root mean square of all values, as a scalar array."""
    return mx.sqrt(mx.mean(mx.square(x)))


def clip_grad_norm(grads, max_norm):
    """Scale a tree of gradients down so that their common norm is at most max_norm.

    Returns the tree and the norm sqrt(sum |g|^2) it had (Pascanu et al., "On the difficulty of
    training recurrent neural networks", 2012). The sum is in float32 at least, and so is what becomes
    of integers.
    """
    if math.prod(getattr(max_norm, "shape", ())) != 1:
        raise mx.ConversionError(f"[clip_grad_norm] expected one number for max_norm, got shape {max_norm.shape}")
    if not isinstance(max_norm, mx.array) and not max_norm >= 0:
        raise mx.Error(f"[clip_grad_norm] expected max_norm >= 0, got {max_norm}")

    def add_square(total, g):
        size = mx.abs(g) if g.dtype == mx.complex64 else g
        wide = size if size.dtype == mx.float64 else size.astype(mx.float32)
        return total + mx.sum(mx.square(wide))

    def scaled(g):
        return (g * scale).astype(g.dtype) if g.dtype in _INEXACT else g * scale

    norm = mx.sqrt(tree_reduce(add_square, grads, mx.array(0.0)))
    scale = mx.minimum(max_norm / (norm + 1e-6), 1.0)
    return tree_map(scaled, grads), norm
