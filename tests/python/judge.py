"""The judge of values and derivatives: what a function gives beside what it should, in units in the last place.

A row names a function, says in mpmath what it means and how far off it may be. References are as exact as need
be: derivatives are central differences of that meaning in hundreds of bits, taken with more until what is
left of the difference has 64 good ones. Nothing of a rule is assumed, so a wrong rule cannot agree with itself.

An error is a number of units in the last place of the true result in the dtype (below the normal numbers:
of the smallest subnormal one). Where terms cancel, each with an error of its own, it is in units of their size.
"""

import math
import zlib
from dataclasses import dataclass, field

import mlx.core as mx
import mpmath
import numpy as np
from mpmath import mp, mpf


@dataclass(frozen=True)
class Kind:
    """A floating dtype: bits of the significand, exponent of the smallest normal number."""

    name: str
    bits: int
    least: int

    @property
    def dtype(self):
        return getattr(mx, self.name)

    @property
    def tiny(self):  # the smallest subnormal
        return 2.0 ** (self.least - self.bits + 1)

    @property
    def most(self):
        return (2 - 2.0 ** (1 - self.bits)) * 2.0 ** (1 - self.least)

    @property
    def eps(self):
        return 2.0 ** (1 - self.bits)

    @property
    def beyond(self):
        """Stands for infinity in limits of derivatives: its root is so far out that 1 over it is nothing."""
        return mpmath.ldexp(1, int(2.2 * (self.bits - self.least)))

    def round(self, x):
        """The nearest numbers of this dtype, as float64."""
        return exactly(mx.array(np.asarray(x, np.float64), mx.float64).astype(self.dtype))

    def ulp(self, x):
        """The distance of the numbers around the mpf x."""
        e = self.least if x == 0 else max(mpmath.frexp(x)[1] - 1, self.least)
        return mpmath.ldexp(1, e - self.bits + 1)


KINDS = {k.name: k for k in (Kind("float16", 11, -14), Kind("bfloat16", 8, -126), Kind("float32", 24, -126),
                             Kind("float64", 53, -1022))}  # fmt: skip


def exactly(x):
    """An mlx array of floating numbers as float64."""
    return np.array(x.astype(mx.float64))


# ------------------------------------------------------------------ points


def _ulps_around(kind, x):
    x = float(kind.round(x))
    step = kind.eps * abs(x) / 2
    return [x, float(kind.round(x - 2 * step)), float(kind.round(x + 2 * step))]


def grid(kind, seed, n=40, low=-math.inf, high=math.inf, infinite=True):
    """Points of the dtype between low and high: what is special, of every magnitude, and of ordinary size."""
    rng = np.random.default_rng(seed)
    special = [
        0.0,
        kind.tiny,
        3 * kind.tiny,
        2.0**kind.least,
        kind.most,
        1e-5,
        1e-3,
        0.25,
        3.0,
        5.0,
        8.0,
        20.0,
        45.0,
        100.0,
    ]
    for x in (0.5, 1.0, 2.0, math.pi / 2, math.pi):
        special += _ulps_around(kind, x)
    special += [math.inf] * infinite
    special += [-x for x in special]
    exponents = rng.uniform(kind.least - kind.bits + 1, 1 - kind.least, n)
    magnitudes = 2.0 ** np.trunc(exponents) * rng.uniform(1, 2, n) * rng.choice([-1, 1], n)
    # at the ends of the domain, and between them
    width = [max(low, -12), min(high, 12)]
    near = rng.uniform(*width, n)
    ends = [e - s * 2.0**-k for e in (low, high) if abs(e) < 1e6 for s in (1, -1) for k in (1, 3, 6, 9, 15, 22, 40)]
    x = np.concatenate([special, magnitudes, near, [e for e in (low, high) if abs(e) < 1e300], ends])
    with np.errstate(all="ignore"):
        x = kind.round(x)
    if not infinite:
        x = x[np.isfinite(x)]
    return np.array(list(dict.fromkeys(zip(x[(x >= low) & (x <= high)], np.signbit(x)))))[:, 0]


def seed_of(*words):
    return zlib.crc32(" ".join(map(str, words)).encode())


# ------------------------------------------------------------------ what is true


def _real(f, xs, prec):
    """f in that many bits, None where it is not a real number."""
    with mp.workprec(prec):
        try:
            y = f(*xs)
        except (ZeroDivisionError, ValueError, OverflowError, mpmath.libmp.ComplexResult):
            return None
        if isinstance(y, mpmath.mpc):
            return y.real if y.imag == 0 else None
        return mpf(y) if mpmath.isfinite(y) else None


def value(f, xs):
    return _real(f, xs, 200 + 2 * max(abs(mpmath.mag(x)) if x else 0 for x in xs))


def derivative(f, xs, k, order, kind):
    """The derivative of that order by operand k at xs; None where f is not defined around it, or far too large.

    A difference of which too few bits are left is taken again with more, until it has them or is known to be
    less than this dtype can show.
    """
    step = 64 + kind.bits  # bits: far less than the way to a pole or a corner next to a number of this dtype
    sizes = [abs(x) for x in xs if x]
    h = mpmath.ldexp(1, min(0, *(int(mpmath.mag(x)) - 1 for x in sizes), 0) - step if sizes else -step)
    spread = max((abs(int(mpmath.mag(x))) for x in sizes), default=0)
    floor = kind.least - kind.bits - 10
    prec = (order + 1) * step + 60 + 2 * spread
    y = _real(f, xs, 60 + spread)
    if y and mpmath.mag(y) > 4 * (kind.bits - kind.least):
        return None
    while True:
        with mp.workprec(prec):
            around = [_real(f, xs[:k] + [xs[k] + i * h] + xs[k + 1 :], prec) for i in (-1, 0, 1)]
            if None in (around[0], around[2]) or (order == 2 and around[1] is None):
                return None
            low, mid, high = around
            d = high - low if order == 1 else high - 2 * mid + low
            most = max(abs(y) for y in (low, high))
            known = mpmath.mag(most) - prec + 80 if most else -math.inf  # the bits of d above are right
            scale = (2 * h) if order == 1 else h * h
            if most == 0 or (d and mpmath.mag(d) >= known) or known - mpmath.mag(scale) < floor:
                return d / scale
            prec *= 2


# ------------------------------------------------------------------ errors


def ulps(kind, got, true, size=0):
    """How far off: 0 where nothing is known, infinite for a NaN or infinity in the wrong place."""
    if true is None:
        return 0.0
    if mpmath.isnan(true) or mpmath.isinf(true):
        return 0.0 if abs(got) == abs(true) or (math.isnan(got) and mpmath.isnan(true)) else math.inf
    if math.isnan(got):
        return math.inf
    if math.isinf(got):
        near = abs(true) > mpf(kind.most) * (1 - 4 * kind.eps) and (got > 0) == (true > 0)
        return 0.0 if near else math.inf
    with mp.workprec(100):
        return float(abs(mpf(got) - true) / kind.ulp(max(abs(true), size)))


@dataclass
class Complaint:
    row: str
    kind: str
    what: str
    at: tuple
    got: float
    true: object
    error: float

    def __str__(self):
        where = ", ".join(f"{x:.17g}" for x in self.at)
        true = mpmath.nstr(self.true, 9) if self.true is not None else None
        return f"{self.row} {self.kind}: {self.what} at {where} is {self.got:.9g}, not {true}: {self.error:.3g} ulp"


@dataclass
class Verdict:
    """The largest error of each quantity of a row in one dtype, and what is past its bound."""

    worst: dict = field(default_factory=dict)
    complaints: list = field(default_factory=list)

    def see(self, row, kind, what, at, got, true, error, bound):
        if error >= self.worst.get(what, (0, 0))[0]:
            self.worst[what] = error, at
        if not error <= bound:
            self.complaints.append(Complaint(row.name, kind.name, what, at, got, true, error))


def bound_of(bound, kind):
    """A number for all dtypes, or one for half types, float32 and float64 each."""
    if not isinstance(bound, tuple):
        return bound
    return bound[0 if kind.bits < 20 else 1 if kind.bits < 30 else 2]


# ------------------------------------------------------------------ element by element


@dataclass
class Elementwise:
    """A function of one or more operands that works element by element.

    means   the same of mpf numbers
    on      for each operand what `grid` takes: low, high, infinite
    at      operands (a number or a tuple) where the derivatives are agreed on: their values, None if not judged
    terms   of the operands: the size of the terms that cancel in the slope
    only    of the operands: judge here?
    normal  operands are 0 or normal, and their sum is
    """

    name: str
    fn: object
    means: object
    on: tuple = ({},)
    value: object = 2
    slope: object = 3
    second: object = 6
    at: dict = field(default_factory=dict)
    terms: object = None
    value_terms: object = None
    second_terms: object = None
    only: object = None
    normal: bool = False
    kinds: tuple = tuple(KINDS)

    def points(self, kind):
        seed = seed_of(self.name, kind.name)
        axes = [grid(kind, seed + i, **on) for i, on in enumerate(self.on)]
        if len(axes) == 1:
            return axes
        rng = np.random.default_rng(seed)
        size = 2 * max(map(len, axes))
        picked = [rng.permutation(np.resize(a, size)) for a in axes]
        for i in range(1, len(axes)):  # some of the same magnitude, and some equal
            same = np.arange(i, size, 5)
            with np.errstate(all="ignore"):
                picked[i][same] = picked[0][same] * rng.choice([-1, 1, 0.5, 1.5, -0.75], len(same))
                picked[i] = kind.round(picked[i])
            low, high = self.on[i].get("low", -math.inf), self.on[i].get("high", math.inf)
            bad = ~((picked[i] >= low) & (picked[i] <= high))
            bad |= np.isinf(picked[i]) & ~np.isinf(picked[0])
            picked[i][bad] = picked[i][~bad][: bad.sum()] if bad.sum() <= (~bad).sum() else low
        inf = sum(np.isinf(a).astype(int) for a in picked) > 1
        return [a[~inf] for a in picked]


def _powers_of_two(d, kind):
    """Cotangents that bring derivatives d, as mpf or None, to about 1, where they can."""
    out = []
    for v in d:
        e = 0 if v is None or v == 0 or not mpmath.isfinite(v) else -int(mpmath.mag(v))
        out.append(2.0 ** max(min(e, -kind.least), kind.least))
    return np.array(out)


def judge_elementwise(row, kind, most=None):
    """The verdict on a row in a dtype, at all points or at that many of them."""
    verdict = Verdict()
    points = row.points(kind)
    keep = np.array([not row.only or bool(row.only(*xs)) for xs in zip(*points)])
    if row.normal:
        keep &= np.all([(abs(p) >= 2.0**kind.least) & (abs(p) < kind.most / 2) | (p == 0) for p in points], axis=0)
    points = [p[keep] for p in points]
    if most and len(points[0]) > most:
        some = np.random.default_rng(seed_of(row.name, kind.name)).choice(len(points[0]), most, replace=False)
        points = [p[some] for p in points]
    arity, x = len(points), [mx.array(p, mx.float64).astype(kind.dtype) for p in points]
    tuples = [tuple(map(float, xs)) for xs in zip(*points)]
    meant = [[mpf(v) if math.isfinite(v) else math.copysign(1, v) * kind.beyond for v in xs] for xs in tuples]
    infinite = [any(map(math.isinf, xs)) for xs in tuples]

    def see(what, got, true, bound, sizes=None):
        for i, g in enumerate(map(float, got)):
            size = sizes[i] if sizes else 0
            verdict.see(row, kind, what, tuples[i], g, true[i], ulps(kind, g, true[i], size), bound_of(bound, kind))

    def sizes(terms):
        return [abs(_real(terms, xs, 60) or 0) if not far else 0 for xs, far in zip(meant, infinite)] if terms else None

    y = row.fn(*x)
    if y.dtype != kind.dtype:
        verdict.complaints.append(f"{row.name} of {kind.name} gives {y.dtype}")
    true = [None if far else value(row.means, xs) for xs, far in zip(meant, infinite)]
    see("value", exactly(y), true, row.value, sizes(row.value_terms))

    for k in range(arity):
        by = "" if arity == 1 else f" by operand {k}"
        agreed = [row.at.get(xs[0] if arity == 1 else xs, ()) for xs in tuples]
        agreed = [a if a == () else a[k] if isinstance(a, tuple) else a for a in agreed]
        d = [
            derivative(row.means, xs, k, 1, kind) if a == () else a if a is None else mpf(a)
            for xs, a in zip(meant, agreed)
        ]

        def one(v, k=k):
            return row.fn(*x[:k], v, *x[k + 1 :])

        rng = np.random.default_rng(seed_of(row.name, kind.name, k))
        plain = kind.round(rng.uniform(0.5, 2, len(d)))
        lost = [far or (v is not None and abs(v) > kind.most) for v, far in zip(true, infinite)]
        for name, ct in (("", plain), (" scaled", _powers_of_two(d, kind))):
            want = [None if v is None or gone else v * mpf(c) for v, c, gone in zip(d, ct, lost)]
            # What a derivative below the normal numbers has lost, a large cotangent does not bring back.
            size = [abs(mpf(c)) * kind.tiny * 2 ** (kind.bits - 1) for c in ct]
            if row.terms:
                size = [max(s, t * abs(mpf(c))) for s, t, c in zip(size, sizes(row.terms), ct)]
            c = mx.array(ct, mx.float64).astype(kind.dtype)
            (_,), (g,) = mx.vjp(one, [x[k]], [c])
            see(f"vjp{name}{by}", exactly(g), want, row.slope, size)
            (_,), (g,) = mx.jvp(one, [x[k]], [c])
            see(f"jvp{name}{by}", exactly(g), want, row.slope, size)
        if bound_of(row.second, kind) is None:
            continue
        dd = [derivative(row.means, xs, k, 2, kind) if a == () else None for xs, a in zip(meant, agreed)]
        dd = [None if gone else v for v, gone in zip(dd, lost)]
        if arity > 1:  # squares and cubes of an operand stay in range
            wild = [any(v and abs(mpmath.mag(v)) * 3 > -kind.least for v in xs) for xs in meant]
            dd = [None if far else v for v, far in zip(dd, wild)]
        # Where the slope hardly changes, what it changes by is the difference of terms as large as it is.
        size = [abs(v) / max(1, abs(xs[k])) if v is not None else 0 for v, xs in zip(d, meant)]
        if row.second_terms:
            size = [max(s, t) for s, t in zip(size, sizes(row.second_terms))]
        ones = mx.ones_like(x[k])
        (_,), (g,) = mx.vjp(lambda v, f=one, c=ones: mx.vjp(f, [v], [c])[1][0], [x[k]], [ones])
        see(f"second{by}", exactly(g), dd, row.second, size)
    return verdict


# ------------------------------------------------------------------ arrays


@dataclass
class Arrays:
    """A function of whole arrays.

    means   the same of NumPy arrays of mpf
    inputs  functions of a random generator and the dtype that give the operands, as float64; one that gives
            integers or bool makes an operand that nothing is differentiated by
    terms   of the operands, for functions whose result has the operand's shape: for each element the size of the
            terms that cancel in the slope
    gives   the dtype of results, where not that of the operands
    scales  powers of two, as parts of the dtype's largest exponent, that all operands are multiplied by

    normwise  errors are in units of the largest element: of what is made of several steps, each rounded, of which
            every element of the last may depend on all

    conditioned  errors of derivatives are as well in units of what the true ones change by when every operand moves
            by its own size, up or down: a result of rounded operands would be as far off.  So a bound says of how
            many roundings of an operand the errors of all steps are worth, whatever the condition of the matrix

    Errors of values and derivatives are in units of the sizes of the terms that add up to them: a sum of n numbers
    that cancels may be off by what the largest of them is rounded by.
    """

    name: str
    fn: object
    means: object
    inputs: tuple
    value: object = 3
    slope: object = 4
    second: object = 8
    scales: tuple = (0,)
    kinds: tuple = tuple(KINDS)
    gives: object = None
    terms: object = None
    normwise: bool = False
    conditioned: bool = False


def _each(f):
    """A function of mpf as one of arrays of them."""
    f = np.frompyfunc(f, 1, 1)
    return lambda x: np.asarray(f(x), object)


class Exact:
    """Functions of arrays of mpf."""

    exp, expm1, log, log1p, sqrt, sin, cos, tanh, erf = map(
        _each, (mp.exp, mp.expm1, mp.log, mp.log1p, mp.sqrt, mp.sin, mp.cos, mp.tanh, mp.erf)
    )

    @staticmethod
    def sigmoid(x):
        return 1 / (1 + Exact.exp(-x))


def _flat(y):
    return [v for part in (y if isinstance(y, (list, tuple)) else [y]) for v in np.asarray(part, object).ravel()]


def _listed(y):
    return list(y) if isinstance(y, (list, tuple)) else [y]


def _exact_array(a):
    y = np.empty(a.size, object)
    y[:] = [mpf(float(v)) for v in a.ravel()]
    return y.reshape(a.shape)


def _at_least(low, sizes):
    return [max(a, b) for a, b in zip(low, sizes)] if len(low) == len(sizes) else sizes


def _signs(rng, row, n):
    """Ways for all operands to move at once."""
    return rng.choice([-1, 1], (4 if row.conditioned else 0, n)).tolist()


def judge_arrays(row, kind, most=None):
    verdict = Verdict()
    for scale in row.scales[: 1 if most else None]:
        _judge_arrays_at(row, kind, 2.0 ** round(scale * -kind.least), verdict, not most)
    return verdict


def _judge_arrays_at(row, kind, scale, verdict, whole):
    rng = np.random.default_rng(seed_of(row.name, kind.name, scale))
    raw = [np.asarray(make(rng, kind)) for make in row.inputs]
    varied = [i for i, a in enumerate(raw) if a.dtype.kind == "f"]
    raw = [kind.round(a * scale) if i in varied else a for i, a in enumerate(raw)]
    x = [mx.array(a, mx.float64).astype(kind.dtype) if i in varied else mx.array(a) for i, a in enumerate(raw)]
    numbers = [mpf(float(v)) for i in varied for v in raw[i].ravel()]
    sizes = [abs(v) for v in numbers if v]
    step = 64 + kind.bits
    h = mpmath.ldexp(1, min([int(mpmath.mag(v)) for v in sizes] + [0]) - step)
    prec = 3 * step + 100 + 2 * max((abs(int(mpmath.mag(v))) for v in sizes), default=0)

    def meant(flat):
        at, args = 0, []
        for i, a in enumerate(raw):
            if i in varied:
                part = np.empty(a.size, object)
                part[:] = flat[at : at + a.size]
                args.append(part.reshape(a.shape))
                at += a.size
            else:
                args.append(a)
        return [v.real if isinstance(v, mpmath.mpc) else mpf(v) for v in _flat(row.means(*args))]

    def moved(*by):
        v = list(numbers)
        for i, s in by:
            v[i] = v[i] + s
        return meant(v)

    def fn(*v):
        args = list(x)
        for i, a in zip(varied, v):
            args[i] = a
        y = _listed(row.fn(*args))
        return [part for part in y if mx.issubdtype(part.dtype, mx.floating)]

    def see(what, got, true, bound, size):
        for i, (g, v, s) in enumerate(zip(got, true, size)):
            verdict.see(
                row, kind, f"{what} of {scale:g}", (i,), float(g), v, ulps(kind, g, v, s), bound_of(bound, kind)
            )

    def flat(arrays):
        return np.concatenate([exactly(a).ravel() for a in arrays] or [[]])

    X = [x[i] for i in varied]
    y = fn(*X)
    for part in y:
        if part.dtype != (row.gives or kind.dtype):
            verdict.complaints.append(f"{row.name} of {kind.name} gives {part.dtype}")
            return
    with mp.workprec(prec):
        true = meant(numbers)
        if len(true) != sum(part.size for part in y):
            verdict.complaints.append(
                f"{row.name} of {kind.name} gives {sum(p.size for p in y)} numbers, not {len(true)}"
            )
            return
        n = range(len(numbers))
        J = [[(b - a) / (2 * h) for a, b in zip(moved((j, -h)), moved((j, h)))] for j in n]  # [input][output]
        size = [sum(abs(J[j][i] * numbers[j]) for j in n) for i in range(len(true))]

        def largest(sizes, arrays):
            """For each element of the arrays the largest of its array, if that is what counts."""
            if not row.normwise:
                return sizes
            of, ends = [], np.cumsum([0] + [a.size for a in arrays])
            for low, high in zip(ends, ends[1:]):
                of += [max(sizes[low:high], default=0)] * int(high - low)
            return of

        size = largest([max(s, abs(v)) for s, v in zip(size, true)], y)
        see("value", flat(y), true, row.value, size)
        if bound_of(row.slope, kind) is None:
            return
        ct = [kind.round(rng.uniform(0.5, 2, p.shape) * rng.choice([-1, 1], p.shape)) for p in y]
        t = [kind.round(rng.uniform(0.5, 2, a.shape) * rng.choice([-1, 1], a.shape)) for a in X]
        CT = [mx.array(c, mx.float64).astype(p.dtype) for c, p in zip(ct, y)]
        T = [mx.array(c, mx.float64).astype(kind.dtype) for c in t]
        c, d = ([mpf(float(v)) for a in arrays for v in a.ravel()] for arrays in (ct, t))
        terms = [[a * b for a, b in zip(J[j], c)] for j in n]
        floor = max((abs(v) for line in terms for v in line), default=0) * mpf(2) ** -100
        g = mx.vjp(fn, X, CT)[1]
        moves = [[(k, s * v * h) for k, (s, v) in enumerate(zip(signs, numbers))] for signs in _signs(rng, row, len(n))]

        def sway(f):
            """For each number of f, a derivative, by how much all that moves moves it, at most."""
            less, more = ([f(*[(k, s * v) for k, v in move]) for move in moves] for s in (-1, 1))
            parts = [[abs(b - a) / (2 * h) for a, b in zip(u, v)] for u, v in zip(less, more)]
            return [max(of) for of in zip(*parts)]

        def across(*by):
            return [(total((j, h), *by) - total((j, -h), *by)) / (2 * h) for j in n]

        def forth(*by):
            return [(b - a) / (2 * h) for a, b in zip(moved(*back, *by), moved(*along, *by))]

        def added(sizes, f):
            return [s + v for s, v in zip(sizes, sway(f))] if moves else sizes

        # How the cotangents change along t: differences of differences of the sum of ct y.
        along = [(j, v * h) for j, v in enumerate(d)]
        back = [(j, -v) for j, v in along]

        def total(*by):
            return sum(a * b for a, b in zip(moved(*by), c))

        own = [abs(v) for v in _flat(row.terms(*map(_exact_array, raw)))] if row.terms else [0] * len(true)
        size = largest(added([sum(map(abs, v)) for v in terms], across), X)
        see("vjp", flat(g), list(map(sum, terms)), row.slope, _at_least(own, size))
        terms = [[J[j][i] * d[j] for j in n] for i in range(len(true))]
        g = mx.jvp(fn, X, T)[1]
        size = largest(added([sum(map(abs, v)) for v in terms], forth), y)
        see("jvp", flat(g), list(map(sum, terms)), row.slope, _at_least(own, size))
        if bound_of(row.second, kind) is None or not whole:
            return

        def twice(*by):
            return [(b - a) / (2 * h) for a, b in zip(across(*back, *by), across(*along, *by))]

        second = twice()
        g = mx.jvp(lambda *v: mx.vjp(fn, list(v), CT)[1], X, T)[1]
        size = max([floor, *added(list(map(abs, second)), twice)])
        see("second", flat(g), second, row.second, [size] * len(second))


def judge(row, kind, most=None):
    """The verdict on a row in a dtype, whole, or in part: at that many points, on operands of ordinary size."""
    return (judge_elementwise if isinstance(row, Elementwise) else judge_arrays)(row, kind, most)
