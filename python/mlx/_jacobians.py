"""Jacobians: `mlx.core.jacfwd`, `jacrev` and `hessian`.

The derivative at a point is a linear function (`mx.linearize`, `mx.pullback`), which `mx.vmap` applies
to a basis. The function itself is called once.
"""

from functools import wraps

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map


def jacfwd(fun, argnums=0, has_aux=False):
    return _jacobian("jacfwd", fun, argnums, has_aux, _columns)


def jacrev(fun, argnums=0, has_aux=False):
    return _jacobian("jacrev", fun, argnums, has_aux, _rows)


def hessian(fun, argnums=0, has_aux=False):
    return jacfwd(jacrev(fun, argnums, has_aux), argnums, has_aux)


def _jacobian(name, fun, argnums, has_aux, compute):
    several = argnums is not None and not isinstance(argnums, int)
    numbers = list(argnums) if several else [argnums or 0]

    @wraps(fun)
    def jacobian(*args, **kwargs):
        places = [i + len(args) if i < 0 else i for i in numbers]
        if len(set(places)) < len(places) or not places:
            raise mx.Error(f"[{name}] expected argument numbers, each once, got {tuple(numbers)}")
        for i in places:
            if not 0 <= i < len(args):
                raise mx.Error(f"[{name}] cannot differentiate by argument {i} of a call with {len(args)}")

        def of_chosen(*chosen):
            full = list(args)
            for i, arg in zip(places, chosen):
                full[i] = arg
            value = fun(*full, **kwargs)
            if has_aux and not (isinstance(value, tuple) and len(value) == 2):
                raise mx.Error(f"[{name}] expected the function to return a pair of its value and something else")
            return value if has_aux else (value, None)

        chosen = tuple(args[i] for i in places)
        for _, leaf in tree_flatten(chosen):
            if isinstance(leaf, mx.array):
                mx._of_any_size(leaf, f"{name}, which takes as many directions as there are elements")
        value, aux, whole = compute(name, of_chosen, chosen)
        result = tree_map(lambda leaf: whole(leaf, several), value)
        return (result, aux) if has_aux else result

    return jacobian


def _sizes(name, tree, what):
    """Where each array of a tree begins in a vector of them all, and the vector's size."""
    begins, total = [], 0
    for _, leaf in tree_flatten(tree):
        if not isinstance(leaf, mx.array):
            raise mx.Error(f"[{name}] expected only arrays in the {what}, got {type(leaf).__name__}")
        if not mx.issubdtype(leaf.dtype, mx.floating):
            raise mx.Error(f"[{name}] expected real floating-point numbers in the {what}, got {leaf.dtype}")
        begins.append(total)
        total += leaf.size
    return begins, total


def _basis(tree, begins, total):
    """For each array of the tree a batch of `total`: together the unit vectors."""
    begin = iter(begins)
    return tree_map(lambda a: mx.eye(total, a.size, -next(begin), a.dtype).reshape(total, *a.shape), tree)


def _columns(name, fun, args):
    begins, total = _sizes(name, args, "arguments")
    (value, aux), push = mx.linearize(fun, *args)
    _sizes(name, value, "result")
    columns = mx.vmap(lambda t: push(*t)[0], in_axes=(0,), out_axes=-1)(_basis(args, begins, total))
    batch = iter([leaf for _, leaf in tree_flatten(columns)])

    def whole(leaf, several):
        column, begin = next(batch), iter(begins)

        def part(a):
            i = next(begin)
            return column[..., i : i + a.size].reshape(*leaf.shape, *a.shape)

        parts = tree_map(part, args)
        return parts if several else parts[0]

    return value, aux, whole


def _rows(name, fun, args):
    _sizes(name, args, "arguments")
    (value, aux), pull = mx.pullback(fun, *args)
    begins, total = _sizes(name, value, "result")
    nothing = tree_map(lambda a: mx.zeros_like(a) if isinstance(a, mx.array) else a, aux)
    rows = mx.vmap(lambda ct: pull((ct, nothing)))(_basis(value, begins, total))
    rows = rows if len(args) > 1 else (rows,)
    begin = iter(begins)

    def whole(leaf, several):
        i = next(begin)
        parts = tree_map(lambda r, a: r[i : i + leaf.size].reshape(*leaf.shape, *a.shape), rows, args)
        return parts if several else parts[0]

    return value, aux, whole
