"""Random programs on the GPU and the CPU, for as long as is said, their results compared:

    python tests/python/soak.py --seconds 600 --seed 1 --threads 4

A program is some arrays of random shapes and types and expressions of those before. It is made while the CPU computes
it, one operation after the other, and is then run as a graph: on the CPU, and on the GPU twice, its operations spread
over several streams, some on the other device; evaluated at once, one result after the other, without waiting, or
compiled; by several threads at a time, in little memory. The CPU's graph gives the bits that it gave one by one, the
GPU the same bits twice. What the GPU gives of operations that say so is the CPU's, bit for bit (`exact`); of others
the expression says how far off it may be, and who goes on with such numbers adds up what may come of that.

Program number n of a seed is the same each time. One that differs is printed as a program by itself, with the first
expression that differs; `--only n` runs it again. Where there is no GPU, the CPU's graphs are run alone.
"""

import argparse
import faulthandler
import itertools
import os
import random
import re
import sys
import threading
import time
import traceback
from dataclasses import dataclass

os.environ["MLX_DETERMINISTIC"] = "1"  # the same bits the second time

import mlx.core as mx  # noqa: E402
import numpy as np  # noqa: E402

FLOATS = ["float32", "float16", "bfloat16", "float64", "complex64"]
INTEGERS = ["int32", "int64", "uint8", "uint32", "int8", "int16", "uint16", "uint64", "bool_"]
DTYPES = FLOATS[:3] * 4 + FLOATS + INTEGERS
EPS = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 2.0**-52, "complex64": 2.0**-23}
LARGEST = {"small": 600, "large": 300_000}
LEAST = 1e-30  # that a number may be off is said, although it is 0: of which sign is left open


def numbers(seed, dtype, *shape):
    """Numbers of which some are special: zeros, ones, and in floats, rarely, infinities and NaN."""
    rng = np.random.default_rng(seed)
    if dtype == "bool_":
        return mx.array(rng.random(shape) < 0.5)
    if dtype not in EPS:
        low = 0 if dtype.startswith("u") else -100
        return mx.array(rng.integers(low, 101, shape), getattr(mx, dtype))
    x = rng.normal(size=shape) * 2.0 ** rng.integers(-2, 3)
    if dtype == "complex64":
        x = x + 1j * rng.normal(size=shape)
    kind = rng.integers(12)
    if kind < 2:
        x = np.where(rng.random(shape) < 0.2, 0, np.rint(x.real))
    elif kind == 2 and dtype != "complex64":
        x = np.where(rng.random(shape) < 0.05, rng.choice([np.inf, -np.inf, np.nan, -0.0]), x)
    x = x.astype(np.complex64 if dtype == "complex64" else np.float64)
    with mx.stream(mx.cpu):
        return mx.array(x).astype(getattr(mx, dtype)) if dtype == "complex64" else mx.array(x, getattr(mx, dtype))


# ---- programs


@dataclass
class Value:
    name: str
    text: str  # the expression
    x: mx.array  # what the CPU made of it
    error: float  # how far off what the GPU makes may be; 0: not at all
    most: float  # the largest modulus
    finite: bool

    shape = property(lambda self: tuple(self.x.shape))
    ndim = property(lambda self: self.x.ndim)
    dtype = property(lambda self: str(self.x.dtype).split(".")[-1].replace("bool", "bool_"))
    inexact = property(lambda self: self.dtype in EPS)
    half = property(lambda self: self.dtype in ("float16", "bfloat16"))
    eps = property(lambda self: EPS[self.dtype])
    exact = property(lambda self: self.error == 0)
    leaf = property(lambda self: self.text.startswith("numbers("))


def as_numpy(x):
    """Of half types, which NumPy has not all of, as float32."""
    return np.array(x.astype(mx.float32, stream=mx.cpu) if x.dtype == mx.bfloat16 else x)


def value_of(name, text, x, error):
    mx.eval(x)
    v = Value(name, text, x, 0, 0, True)
    if v.inexact and x.size:
        a = np.abs(as_numpy(x).astype(np.complex128 if v.dtype == "complex64" else np.float64))
        v.finite = bool(np.isfinite(a).all())
        v.most = float(a.max()) if v.finite else np.inf
        v.error = error
    return v


class Unfit(Exception):
    """An operation has nothing to go on with."""


class Program:
    """While it is made: what there is so far, and dice."""

    def __init__(self, dice, size):
        self.dice, self.most = dice, LARGEST[size]
        self.values = []

    def pick(self, fits=lambda v: True, exact=False):
        """One of those before that fits, later ones rather."""
        found = [v for v in self.values if fits(v) and (v.exact or not exact)]
        self.need(found)
        return found[-1 - min(int(self.dice.expovariate(0.35)), len(found) - 1)]

    def need(self, what):
        if not what:
            raise Unfit

    def shape(self):
        sizes = [1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 100, 128, 1000, 4096]
        shape = []
        for _ in range(self.dice.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])):
            room = self.most // int(np.prod(shape, dtype=np.int64) or 1)
            shape.append(self.dice.choice([s for s in sizes if s <= max(room, 1)]))
        if self.dice.random() < 0.02 and shape:
            shape[self.dice.randrange(len(shape))] = 0
        self.dice.shuffle(shape)
        return tuple(shape)

    def add(self, text, error=0.0):
        name = f"v{len(self.values)}"
        try:
            with mx.stream(mx.cpu):
                x = eval(text, {v.name: v.x for v in self.values} | SCOPE)
            self.values.append(value_of(name, text, x, error))
        except Exception as e:
            e.add_note(f"in {text}")
            raise
        return self.values[-1]

    def leaf(self, dtype, shape):
        listed = "".join(f", {n}" for n in shape)
        return self.add(f"numbers({self.dice.randrange(2**31)}, {dtype!r}{listed})")

    def axis(self, v):
        return self.dice.randrange(-v.ndim, v.ndim)


SCOPE = {"mx": mx, "np": np, "numbers": numbers}
CATALOGUE = []


def operation(weight=1):
    """A way to go on: gives an expression, or with it how far off the GPU may be.  Operands go by the names of what it
    picked."""

    def enter(make):
        CATALOGUE.extend([make] * weight)
        return make

    return enter


def small(v):
    return v.inexact and v.finite and v.most <= 1e3 and v.x.size > 0


def near(v):
    return small(v) and v.dtype != "complex64"


def has_axes(v):
    return v.ndim > 0


def fits_in(most, *shapes):
    """Do they broadcast, and to what there is room for?"""
    try:
        return np.prod(np.broadcast_shapes(*shapes), dtype=np.int64) <= most
    except ValueError:
        return False


def pair(p, fits=lambda v: True, exact=True):
    """Two of one type that broadcast."""
    a = p.pick(fits, exact)
    b = p.pick(lambda v: v.dtype == a.dtype and fits(v) and fits_in(p.most, a.shape, v.shape), exact)
    return (a, b) if p.dice.random() < 0.5 else (b, a)


def along(p, v):
    axis = f", axis={p.axis(v)}" if v.ndim and p.dice.random() < 0.8 else ""
    return axis + (", keepdims=True" if p.dice.random() < 0.3 else "")


# ---- operations whose results are the CPU's, bit for bit

REAL = """abs negative sign square floor ceil round sigmoid tanh erf exp expm1 sin cos sqrt rsqrt log log1p log2 arctan
sinh"""
COMPLEX = "abs negative square conjugate real imag"
OWN = "sigmoid tanh erf exp expm1 sqrt rsqrt log log1p log2 divide logaddexp"  # formulas of half types alone


def exact_of(v, names):
    """Those of which half types' results are the CPU's, too."""
    return [name for name in names.split() if not (v.half and name in OWN.split())]


@operation(10)
def unary(p):
    v = p.pick(lambda v: v.inexact, exact=True)
    return f"mx.{p.dice.choice(exact_of(v, COMPLEX if v.dtype == 'complex64' else REAL))}({v.name})"


@operation(2)
def unary_of_integers(p):
    v = p.pick(lambda v: not v.inexact)
    return f"mx.{p.dice.choice(['abs', 'sign', 'square', 'logical_not'])}({v.name})"


@operation(10)
def binary(p):
    a, b = pair(p)
    names = "add subtract multiply maximum minimum less greater_equal equal not_equal"
    if a.dtype == "complex64":
        names = "add subtract multiply equal not_equal"
    elif a.dtype == "bool_":
        names = "logical_and logical_or equal add multiply"
    else:
        names += " divide logaddexp" if a.inexact else " bitwise_xor bitwise_and"
    return f"mx.{p.dice.choice(exact_of(a, names))}({a.name}, {b.name})"


@operation(4)
def with_a_number(p):
    v = p.pick(lambda v: v.dtype != "bool_", exact=True)
    number = p.dice.choice([0.5, -1.25, 3] if v.inexact else [1, 2, 7])
    return f"{v.name} {p.dice.choice('+-*')} {number}"


@operation(3)
def where(p):
    c = p.pick(lambda v: v.dtype == "bool_")
    a = p.pick(lambda v: fits_in(p.most, v.shape, c.shape))
    b = p.pick(lambda v: v.dtype == a.dtype and fits_in(p.most, v.shape, a.shape, c.shape))
    return f"mx.where({c.name}, {a.name}, {b.name})", max(a.error, b.error)


@operation(4)
def convert(p):
    v = p.pick(lambda v: v.dtype != "complex64" and (not v.inexact or (v.finite and v.most < 100)), exact=True)
    to = p.dice.choice([t for t in DTYPES if t != "complex64"])
    return f"mx.abs({v.name}).astype(mx.{to})" if v.inexact and to.startswith("u") else f"{v.name}.astype(mx.{to})"


@operation(3)
def fold_exactly(p):
    v = p.pick(lambda v: v.x.size > 0 and v.dtype != "complex64", exact=True)
    names = ["argmax", "argmin", "any", "all"] + ["sum", "prod"] * 2 * (not v.inexact)
    return f"mx.{p.dice.choice(names)}({v.name}{along(p, v)})"


@operation(2)
def extreme(p):
    """Of zeros of both signs either may be the least."""
    v = p.pick(lambda v: v.x.size > 0 and v.finite and v.dtype != "complex64")
    return f"mx.{p.dice.choice(['max', 'min'])}({v.name}{along(p, v)})", max(v.error, LEAST * v.inexact)


@operation(2)
def order(p):
    v = p.pick(has_axes, exact=True)
    return f"mx.{p.dice.choice(['sort', 'argsort'])}({v.name}, axis={p.axis(v)})"


@operation(2)
def run_exactly(p):
    v = p.pick(lambda v: v.ndim > 0 and v.x.size > 0 and v.dtype not in ("complex64", "bool_"), exact=True)
    name = p.dice.choice(["cummax", "cummin"] + ["cumsum", "cumprod"] * (not v.inexact))
    return f"mx.{name}({v.name}, axis={p.axis(v)}, reverse={p.dice.random() < 0.5})"


@operation(2)
def scatter(p):
    """Each place gets its updates in their order, on every device."""
    v = p.pick(lambda v: v.ndim > 0 and v.shape[0] > 0 and v.dtype not in ("complex64", "bool_"), exact=True)
    n = p.dice.choice([1, 3, 40, 200])
    p.need(n * v.x.size // v.shape[0] <= p.most)
    updates = p.leaf(v.dtype, (n, *v.shape[1:]))
    at = [p.dice.randrange(-v.shape[0], v.shape[0]) for _ in range(n)]
    return f"{v.name}.at[mx.array({at})].{p.dice.choice(['add', 'maximum', 'minimum', 'multiply'])}({updates.name})"


@operation(1)
def random_numbers(p):
    shape, key = p.shape(), p.dice.randrange(1000)
    make = p.dice.choice(["uniform(shape={}", "normal({}", "randint(-9, 9, {}", "bernoulli(0.3, {}"])
    return f"mx.random.{make.format(shape)}, key=mx.random.key({key}))"


# ---- those that move elements: what is off stays off as far


@operation(3)
def reshape(p):
    v = p.pick()
    sizes = list(v.shape)
    p.dice.shuffle(sizes)
    if len(sizes) > 1 and p.dice.random() < 0.5:
        sizes[:2] = [sizes[0] * sizes[1]]
    return f"mx.reshape({v.name}, {tuple(sizes)})", v.error


@operation(3)
def transpose(p):
    v = p.pick(has_axes)
    return f"mx.transpose({v.name}, {p.dice.sample(range(v.ndim), v.ndim)})", v.error


@operation(4)
def cut(p):
    v = p.pick(has_axes)
    items = []
    for n in v.shape:
        start, step = p.dice.randrange(n + 1), p.dice.choice([1, 1, 1, 2, 3, -1, -2])
        items.append(p.dice.choice([":", "::-1", f"{start}:", f":{start}", f"{start}::{step}", f"::{step}"]))
    return f"{v.name}[{', '.join(items)}]", v.error


@operation(3)
def put_together(p):
    v = p.pick(has_axes)
    axis = p.dice.randrange(v.ndim)
    others = [
        w
        for w in p.values
        if (w.dtype, w.ndim, *w.shape[:axis], *w.shape[axis + 1 :])
        == (v.dtype, v.ndim, *v.shape[:axis], *v.shape[axis + 1 :])
    ]
    parts = [v, *p.dice.sample(others, min(len(others), p.dice.randrange(3)))]
    p.need(sum(w.x.size for w in parts) <= p.most)
    return f"mx.concatenate([{', '.join(w.name for w in parts)}], axis={axis})", max(w.error for w in parts)


@operation(3)
def take(p):
    v = p.pick(lambda v: v.ndim > 0 and v.x.size > 0)
    axis = p.dice.randrange(v.ndim)
    n = max(1, min(p.dice.choice([1, 5, 30]), p.most // (v.x.size // v.shape[axis])))
    at = [p.dice.randrange(-v.shape[axis], v.shape[axis]) for _ in range(n)]
    return f"mx.take({v.name}, mx.array({at}), axis={axis})", v.error


@operation(3)
def move(p):
    v = p.pick(lambda v: v.ndim > 0 and v.x.size * 4 <= p.most)
    axis, n = p.axis(v), p.dice.randrange(1, 4)
    ways = [
        f"mx.roll({v.name}, {p.dice.randrange(-9, 9)}, axis={axis})",
        f"mx.repeat({v.name}, {n}, axis={axis})",
        f"mx.tile({v.name}, {n})",
        f"mx.pad({v.name}, [({n}, {p.dice.randrange(4)})] + [(0, 0)] * {v.ndim - 1})",
        f"mx.expand_dims({v.name}, 0)",
        f"mx.contiguous(mx.swapaxes({v.name}, 0, -1))",
        f"mx.broadcast_to({v.name}, (2, *{v.shape}))",
        f"mx.stack([{v.name}, {v.name}], axis={axis})",
        f"mx.tril({v.name})" if v.ndim > 1 else f"mx.diag({v.name}[:7])",
    ]
    return p.dice.choice(ways), v.error


@operation(2)
def write_slice(p):
    v = p.pick(lambda v: v.ndim > 0 and v.shape[0] > 1)
    w = p.pick(lambda w: w.dtype == v.dtype and w.shape == v.shape)
    return f"mx.slice_update({v.name}, {w.name}[1:], mx.array([0]), axes=[0])", max(v.error, w.error)


# ---- those of numbers that may be off


@operation(6)
def smooth(p):
    """None of them makes a difference larger."""
    v = p.pick(near)
    name = p.dice.choice(["abs", "negative", "tanh", "sigmoid", "sin", "cos"])
    return f"mx.{name}({v.name})", (v.error or v.half) and v.error + 2 * v.eps


@operation(6)
def arithmetic(p):
    a, b = pair(p, near, exact=False)
    name = p.dice.choice(["add", "subtract", "maximum", "minimum", "multiply"])
    off, most = a.error + b.error, a.most + b.most
    if name == "multiply":
        off, most = a.error * b.most + b.error * a.most + a.error * b.error, a.most * b.most
    return f"mx.{name}({a.name}, {b.name})", (a.error or b.error) and LEAST + off + a.eps * most


@operation(4)
def add_up(p):
    v = p.pick(small)
    of, n = ("", v.x.size) if not v.ndim or p.dice.random() < 0.3 else (f", axis={(i := p.axis(v))}", v.shape[i])
    name = p.dice.choice(["sum", "mean"])
    scale = n if name == "sum" else 1
    return f"mx.{name}({v.name}{of})", LEAST + scale * (v.error + v.most * ((n + 8) * 2.0**-23 + 2 * v.eps))


@operation(2)
def run(p):
    """Of half types each step is rounded."""
    v = p.pick(lambda v: small(v) and v.ndim > 0)
    i = p.axis(v)
    n = v.shape[i]
    return f"mx.cumsum({v.name}, axis={i})", LEAST + n * (v.error + v.most * n * v.eps)


@operation(3)
def soften(p):
    v = p.pick(lambda v: near(v) and v.ndim > 0)
    i = p.axis(v)
    off = 2 * v.error + 2.0**-23 * (v.shape[i] + 8 * v.most) + 2 * v.eps * (v.most + 12)
    return f"mx.{p.dice.choice(['logsumexp', 'softmax'])}({v.name}, axis={i})", off


@operation(6)
def product(p):
    a = p.pick(lambda v: near(v) and v.ndim > 1)
    b = p.pick(lambda v: v.dtype == a.dtype and near(v) and v.ndim > 1 and v.shape[-1] == a.shape[-1])
    k, n = b.shape[-1], b.shape[-2]
    p.need(fits_in(100, a.shape[:-2], b.shape[:-2]))
    p.need(a.x.size * n <= p.most * 64 and a.x.size // k * n <= p.most)
    off = LEAST + k * (a.error * b.most + b.error * a.most + a.error * b.error)
    off += (k * 2.0**-23 + 2 * a.eps) * k * a.most * b.most
    turned = f"mx.swapaxes({b.name}, -1, -2)"
    if p.dice.random() < 0.8:
        return f"{a.name} @ {turned}", off
    off += 4 * a.eps * b.most + 2 * b.error
    return f"mx.addmm({b.name}[..., :1, :1], {a.name}, {turned}, 0.5, 2.0)", off


@operation(3)
def normalize(p):
    v = p.pick(lambda v: near(v) and v.ndim > 0 and v.dtype != "float64", exact=True)
    n = v.shape[-1]
    weight = p.dice.choice(["None", f"mx.ones({n}, mx.{v.dtype})"])
    name, bias = p.dice.choice([("rms_norm", ""), ("layer_norm", " None,")])
    # Rows of nearly one number: what is left of them is divided by the root of 1e-5.
    off = 40 * (2.0**-23 * 320 * max(v.most, 1) + v.eps * n**0.5)
    return f"mx.fast.{name}({v.name}, {weight},{bias} 1e-5)", off


@operation(2)
def attend(p):
    sizes = (8, 16, 32, 64, 128)
    v = p.pick(lambda v: near(v) and v.ndim == 3 and v.shape[-1] in sizes and v.dtype != "float64", exact=True)
    of = ", ".join([f"{v.name}[None]"] * 3)
    off = (40 * v.eps + 2.0**-20 * v.shape[-1] * v.most**2) * max(v.most, 1)
    return f"mx.fast.scaled_dot_product_attention({of}, scale=0.125, mask={p.dice.choice([None, 'causal'])!r})", off


@operation(2)
def convolve(p):
    v = p.pick(lambda v: near(v) and v.ndim in (3, 4), exact=True)
    axes, channels = v.ndim - 2, v.shape[-1]
    taps = [p.dice.choice([1, 2, 3]) for _ in range(axes)]
    w = p.leaf(v.dtype, (p.dice.choice([1, 4, 8]), *taps, channels))
    p.need(near(w) and v.x.size * w.shape[0] <= p.most * channels)
    k = channels * int(np.prod(taps))
    off = LEAST + (k * 2.0**-23 + 4 * v.eps) * k * v.most * w.most
    how = f"stride={p.dice.choice([1, 1, 2])}, padding={p.dice.choice([1, 2])}"
    return f"mx.conv{axes}d({v.name}, {w.name}, {how})", off


@operation(2)
def transform(p):
    v = p.pick(lambda v: small(v) and v.ndim > 0 and v.dtype in ("float32", "complex64"), exact=True)
    return f"mx.fft.{p.dice.choice(['fft', 'ifft'])}({v.name})", LEAST + 2.0**-20 * v.shape[-1] * v.most


@operation(1)
def invert(p):
    v = p.pick(lambda v: near(v) and v.dtype == "float32" and v.ndim > 1 and 1 < v.shape[-1] <= 64, exact=True)
    n = v.shape[-1]
    p.need(v.shape[-2] >= n)
    square = f"({v.name}[..., :{n}, :] + {4 * n * max(v.most, 1)} * mx.eye({n}))"
    name = p.dice.choice(["inv({})", "solve({0}, {0})", "qr({})[1].abs()"])  # rows of R may have other signs
    return f"mx.linalg.{name.format(square)}", 2.0**-16 * n * n * max(v.most, 1)


@operation(2)
def derive(p):
    v = p.pick(lambda v: near(v) and v.ndim > 0, exact=True)
    f = p.dice.choice(["mx.tanh(a * 0.5) * a", "mx.sigmoid(a) + a * a", "mx.softmax(a, axis=-1) * a"])
    off = 60 * (v.eps * max(v.most, 1) + 2.0**-23 * v.shape[-1])
    return f"mx.grad(lambda a: ({f}).astype(mx.float32).sum())({v.name})", off


@operation(1)
def loop(p):
    v = p.pick(lambda v: near(v) and v.x.size * 5 <= p.most, exact=True)
    return f"mx.scan(lambda c, _: (c * 0.5 + 1, c), {v.name}, length={p.dice.randrange(1, 5)})[1]"


def make_program(seed, number, size, steps):
    """Of values that are not off too far to be worth comparing."""
    p = Program(random.Random(f"{seed} {number}"), size)
    for _ in range(p.dice.randrange(1, 4)):
        p.leaf(p.dice.choice(DTYPES), p.shape())
    while len(p.values) < steps:
        if p.dice.random() < 0.12:
            p.leaf(p.dice.choice(DTYPES), p.shape())
            continue
        try:
            made = p.dice.choice(CATALOGUE)(p)
        except Unfit:
            continue
        text, error = made if isinstance(made, tuple) else (made, 0.0)
        v = p.add(text, error)
        if v.x.size > p.most or (v.error and not (v.finite and v.error < 0.05 * max(v.most, 0.01))):
            p.values.pop()
    return p.values


# ---- running one


def replay(values, streams, dice, how):
    """The program as a graph, in one of the ways to evaluate it: each value's array, or None for those that nobody
    holds."""
    plan = [dice.choice(streams) for _ in values]
    read = set(re.findall(r"\bv\d+\b", " ".join(v.text for v in values)))
    held = [dice.random() < 0.3 or v.name not in read for v in values]
    codes = [compile(v.text, v.name, "eval") for v in values]
    leaves = {v.name: v.x for v in values if v.leaf}

    def run(given):
        scope = SCOPE | given
        for v, stream, code in zip(values, plan, codes, strict=True):
            if not v.leaf:
                with mx.stream(stream):
                    scope[v.name] = eval(code, scope)
            if how == "as made" and dice.random() < 0.3:
                mx.async_eval(scope[v.name])
        return [scope[v.name] for v, h in zip(values, held, strict=True) if h]

    kept = (mx.compile(run) if how == "compiled" else run)(leaves)
    if how == "one by one":
        for y in dice.sample(kept, len(kept)):
            mx.eval(y)
    elif how == "as made":
        mx.async_eval(kept)
    else:
        mx.eval(kept)
    kept = iter(kept)
    return [next(kept) if h else None for h in held]


def unlike(a, b, signs):
    """Which elements have other bits; any NaN is as good as any other, and without signs either zero is."""
    if a.dtype.kind not in "fc":
        return a != b
    real = a.real.dtype
    a, b = (x.reshape(*x.shape, 1).view(real) for x in (a, b))
    same = np.signbit(a) == np.signbit(b) if signs else True
    return ~((a == b) & same | np.isnan(a) & np.isnan(b)).all(axis=-1)


def compare(want, got, off=0.0, signs=True):
    """How it is not what is wanted; None: it is, or is no further off."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype} {tuple(got.shape)}, expected {want.dtype} {tuple(want.shape)}"
    a, b = as_numpy(want), as_numpy(got)
    if off:
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        bad = ~(np.abs(a.astype(wide) - b.astype(wide)) <= off)
    else:
        bad = unlike(a, b, signs)
    if not bad.any():
        return None
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"differs in {bad.sum()} of {bad.size} elements: {b[at]!r} at {at}, expected {a[at]!r}"


WAYS = ["at once", "one by one", "as made", "compiled"]


class Soak:
    def __init__(self, asked):
        self.asked = asked
        self.on_gpu = mx.is_available(mx.gpu)
        self.lock = threading.Lock()
        self.graphs = self.operations = self.differ = 0
        self.numbers = iter([asked.only]) if asked.only is not None else itertools.count()
        self.until = time.monotonic() + asked.seconds

    def tell(self, number, values, what):
        with self.lock:
            self.differ += 1
            print(f"\nseed {self.asked.seed}, program {number}: {what}")
            for v in values:
                listed = "numbers" if v.exact else f"numbers, off by {v.error:.2g} at most"
                print(f"{v.name} = {v.text}  # {v.dtype} {v.shape}, {listed} up to {v.most:.3g}")
            sys.stdout.flush()

    def first_difference(self, values, stream):
        """Of one operation after the other on the GPU, given what the CPU had."""
        for v in values:
            with mx.stream(stream):
                y = eval(v.text, {w.name: w.x for w in values} | SCOPE)
            how = compare(v.x, y, v.error)
            if how:
                return f"; by itself, {v.name} {how}"
        return "; by itself, each operation is as expected"

    def one(self, number, streams):
        """What is wrong with a program; None: nothing."""
        asked = self.asked
        values = make_program(asked.seed, number, asked.size, asked.steps)
        dice = random.Random(f"{asked.seed} {number} again")
        ways = iter(dice.sample(WAYS, 3))
        results = replay(values, streams["cpu"], dice, next(ways))
        for v, y in zip(values, results, strict=True):
            how = y is not None and compare(v.x, y, signs=v.exact)
            if how:
                return values, f"{v.name} of a graph on the CPU {how}"
        if not self.on_gpu:
            return values, None
        places = streams["gpu"] * 3 + streams["cpu"][: number % 2]
        state = dice.getstate()
        first = replay(values, places, dice, next(ways))
        dice.setstate(state)
        again = replay(values, places, dice, next(ways))
        for which, results in (("", first), (" the second time", again)):
            for v, y in zip(values, results, strict=True):
                how = y is not None and compare(v.x, y, v.error)
                if how:
                    return values, f"{v.name} on the GPU{which} {how}{self.first_difference(values, streams['gpu'][0])}"
        for v, y, z in zip(values, first, again, strict=True):
            how = y is not None and compare(y, z)
            if how:
                return values, f"{v.name} the second time on the GPU {how}"
        return values, None

    def work(self):
        streams = {"cpu": [mx.new_stream(mx.cpu) for _ in range(2)]}
        if self.on_gpu:
            streams["gpu"] = [mx.new_stream(mx.gpu) for _ in range(3)]
        while time.monotonic() < self.until:
            with self.lock:
                number = next(self.numbers, None)
            if number is None:
                return
            try:
                values, wrong = self.one(number, streams)
            except Exception:
                values, wrong = [], "failed\n" + traceback.format_exc()
            with self.lock:
                self.graphs += 1
                self.operations += len(values)
            if wrong:
                self.tell(number, values, wrong)


def arguments(given=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="of the programs; without it, of the clock")
    parser.add_argument("--only", type=int, default=None, help="one program by its number")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=40, help="values in a program")
    parser.add_argument("--size", choices=LARGEST, default="large", help="elements of an array: at most %(choices)s")
    parser.add_argument("--memory", type=int, default=2048, help="megabytes that arrays may use on a device")
    asked = parser.parse_args(given)
    asked.seed = int(time.time()) % 10**6 if asked.seed is None else asked.seed
    return asked


def main():
    faulthandler.enable()
    asked = arguments()
    mx.set_memory_limit(asked.memory << 20)
    mx.set_cache_limit(asked.memory << 18)
    soak = Soak(asked)
    print(f"seed {asked.seed}, {'GPU and CPU' if soak.on_gpu else 'the CPU alone'}", flush=True)
    threads = [threading.Thread(target=soak.work) for _ in range(1 if asked.only is not None else asked.threads)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"seed {asked.seed}: {soak.graphs} graphs, {soak.operations} operations, {soak.differ} differ")
    sys.exit(soak.differ > 0)


if __name__ == "__main__":
    main()
