"""The polynomials of src/shared/math_f32.h and math_f64.h: where their coefficients come from.

    python tools/polynomials.py [NAME ...]

prints, for each approximation named (default: all), its coefficients from the lowest power up and
the largest error they leave.  Needs numpy (with an 80-bit long double) and mpmath.

A fit finds the polynomial in given powers of x whose error, divided by a weight, is smallest on an
interval: weighted least squares on Chebyshev points, the weights raised where the error is large
until it is level (Lawson's algorithm).  Coefficients are rounded to the type one after the other,
lowest power first, and the rest is fitted again to make up for it.
"""

import sys

import mpmath as mp
import numpy as np

mp.mp.prec = 200
POINTS, ROUNDS = 400, 120


def long_double(x):
    high = float(x)
    return np.longdouble(high) + np.longdouble(float(x - mp.mpf(high)))


def least_squares(a, b):
    """By Gram-Schmidt, twice over: numpy's own stops at double."""
    n = a.shape[1]
    q, r = a.copy(), np.zeros((n, n), np.longdouble)
    for j in range(n):
        for _ in range(2):
            p = q[:, :j].T @ q[:, j]
            q[:, j] -= q[:, :j] @ p
            r[:j, j] += p
        r[j, j] = np.sqrt(q[:, j] @ q[:, j])
        q[:, j] /= r[j, j]
    y, x = q.T @ b, np.zeros(n, np.longdouble)
    for j in reversed(range(n)):
        x[j] = (y[j] - r[j, j + 1 :] @ x[j + 1 :]) / r[j, j]
    return x


def level(basis, values, weight):
    scale = np.ones(len(values), np.longdouble)
    best, least = None, np.inf
    for _ in range(ROUNDS):
        w = np.sqrt(scale) / weight
        c = least_squares(basis * w[:, None], values * w)
        error = np.abs((values - basis @ c) / weight)
        worst = error.max()
        if worst < least:
            best, least = c, worst
        if worst == 0:
            break
        scale *= error / worst + np.longdouble(1e-3)
        scale /= scale.max()
    return best


def rounded(x, bits):
    m, e = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(m, bits)), e - bits)


def fit(f, low, high, powers, weight, bits):
    low, high, step = mp.mpf(low), mp.mpf(high), powers.step
    x = [(low + high + (high - low) * mp.cos(mp.pi * (2 * i + 1) / (2 * POINTS))) / 2 for i in range(POINTS)]
    rest, scale = [f(v) for v in x], [abs(weight(v)) for v in x]
    weights = np.array([long_double(v) for v in scale])
    # The basis is x^p T_k(u): Chebyshev polynomials of x^step, brought to [-1, 1].
    middle, half = (low**step + high**step) / 2, (high**step - low**step) / 2
    u = [(v**step - middle) / half for v in x]
    found = []
    for i, p in enumerate(powers):
        first = [v**p for v in x]
        terms = [first, [a * b for a, b in zip(first, u)]]
        lead = [mp.mpf(1), -middle / half]  # T_k at x = 0
        while len(terms) < len(powers) - i:
            terms.append([2 * a * b - c for a, b, c in zip(u, terms[-1], terms[-2])])
            lead.append(2 * lead[1] * lead[-1] - lead[-2])
        basis = np.array([[long_double(v) for v in t] for t in terms[: len(powers) - i]]).T
        c = level(basis, np.array([long_double(v) for v in rest]), weights)
        exact = [mp.mpf(float(v)) + mp.mpf(float(v - np.longdouble(float(v)))) for v in c]
        found.append(rounded(sum(a * b for a, b in zip(exact, lead)), bits))
        rest = [r - found[-1] * v for r, v in zip(rest, first)]
    return found, max(abs(r) / w for r, w in zip(rest, scale))


def off_zero(f):
    """f, held at its value next to 0, where it vanishes: a weight to divide by."""
    return lambda x: f(x) if abs(x) > 1e-6 else f(mp.mpf(1e-6))


def erfinv_ratio(w):
    """erfinv(x) / x as a function of w = -log(1 - x^2)."""
    if abs(w) < mp.mpf("1e-15"):
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


LN2, PI = mp.log(2), mp.pi
SMALL = mp.mpf("1e-6")
EXP = LN2 / 2 * mp.mpf("1.01")
LOG = (mp.sqrt(mp.mpf(2)) / 2 - 1, mp.sqrt(mp.mpf(2)) - 1)
ATANH = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mp.mpf("1.001")
LOG10_HEAD = rounded(1 / mp.log(10), 24)
ERFINV_MIDDLE = 12  # where a constant of 24 bits is nearest


def erfinv_root(middle):
    return lambda t: erfinv_ratio((t + middle) ** 2)


ERFC_MIDDLE = mp.mpf("1.02734375")


def erfc_root(t):
    return mp.sqrt(mp.sqrt(mp.erfc(t + ERFC_MIDDLE)))


def erfc_log(start):
    return lambda t: mp.log(mp.erfc(t + start))


def erfc_weight(start):
    return lambda t: mp.erf(t + start) / mp.erfc(t + start)


# name: f, interval, powers, weight, bits
FITS = {
    "exp_f32": (lambda r: mp.expm1(r) - r, -EXP, EXP, range(2, 7), mp.exp, 24),
    "expm1_f32": (lambda r: mp.expm1(r) - r, -EXP, EXP, range(2, 8), off_zero(mp.expm1), 24),
    "log_f32": (lambda f: mp.log1p(f) - f + f * f / 2, *LOG, range(3, 11), off_zero(mp.log1p), 24),
    "log2_f32": (
        lambda f: mp.log1p(f) / LN2 - f,
        *LOG,
        range(1, 11),
        off_zero(lambda f: mp.log1p(f) / LN2),
        24,
    ),
    "log10_f32": (
        lambda f: mp.log1p(f) / mp.log(10) - LOG10_HEAD * f,
        *LOG,
        range(1, 11),
        off_zero(lambda f: mp.log1p(f) / mp.log(10)),
        24,
    ),
    "sin_f32": (lambda x: mp.sin(x) - x, SMALL, PI / 4 * 1.0005, range(3, 8, 2), mp.sin, 24),
    "cos_f32": (
        lambda x: mp.cos(x) - 1 + x * x / 2,
        SMALL,
        PI / 4 * 1.0005,
        range(4, 9, 2),
        mp.cos,
        24,
    ),
    "tan_f32": (lambda x: mp.tan(x) - x, SMALL, PI / 4 * 1.0005, range(3, 16, 2), mp.tan, 24),
    "asin_f32": (lambda x: mp.asin(x) - x, SMALL, 0.5001, range(3, 12, 2), mp.asin, 24),
    "atan_f32": (lambda x: mp.atan(x) - x, SMALL, 1, range(3, 20, 2), mp.atan, 24),
    "sinh_f32": (lambda x: mp.sinh(x) - x, SMALL, 1, range(3, 10, 2), mp.sinh, 24),
    "tanh_f32": (lambda x: mp.tanh(x) - x, SMALL, 0.625, range(3, 12, 2), mp.tanh, 24),
    "erf_f32": (lambda x: mp.erf(x) - x, SMALL, 1, range(1, 14, 2), mp.erf, 24),
    "erf_far_f32": (
        erfc_root,
        1 - ERFC_MIDDLE,
        3.93 - ERFC_MIDDLE,
        range(9),
        lambda t: 1 / (4 * erfc_root(t) ** 3),
        24,
    ),
    "erfinv_log_f32": (lambda f: -mp.log1p(f), -mp.mpf(1) / 3, mp.mpf(1) / 3, range(1, 9), lambda f: 1, 24),
    "erfinv_f32": (lambda w: erfinv_ratio(w) - 1, 0, 6.53, range(11), erfinv_ratio, 24),
    "erfinv_far_f32": (
        lambda t: erfinv_ratio(t + ERFINV_MIDDLE) - 1,
        6.52 - ERFINV_MIDDLE,
        15.95 - ERFINV_MIDDLE,
        range(10),
        lambda t: erfinv_ratio(t + ERFINV_MIDDLE),
        24,
    ),
    "log2_wide": (
        lambda f: mp.log1p(f) / LN2,
        *LOG,
        range(1, 14),
        off_zero(lambda f: mp.log1p(f) / LN2),
        53,
    ),
    "log2_two_f32": (
        lambda q: 2 * (mp.atanh(q) - q) / LN2,
        SMALL,
        0.0897,
        range(3, 8, 2),
        lambda q: 2 * mp.atanh(q) / LN2,
        24,
    ),
    "exp2_two_f32": (lambda r: mp.mpf(2) ** r - 1, -0.5, 0.5, range(1, 8), lambda r: mp.mpf(2) ** r, 24),
    "exp2_wide": (lambda r: mp.mpf(2) ** r, -0.5, 0.5, range(8), lambda r: mp.mpf(2) ** r, 53),
    "exp_f64": (lambda r: mp.expm1(r) - r, -EXP, EXP, range(2, 12), mp.exp, 53),
    "expm1_f64": (lambda r: mp.expm1(r) - r, -EXP, EXP, range(2, 13), off_zero(mp.expm1), 53),
    "log_f64": (
        lambda s: 2 * mp.atanh(s) - 2 * s,
        SMALL,
        ATANH,
        range(3, 16, 2),
        lambda s: 2 * mp.atanh(s),
        53,
    ),
    "sin_f64": (lambda x: mp.sin(x) - x, SMALL, PI / 4 * 1.0001, range(3, 14, 2), mp.sin, 53),
    "cos_f64": (
        lambda x: mp.cos(x) - 1 + x * x / 2,
        SMALL,
        PI / 4 * 1.0001,
        range(4, 15, 2),
        mp.cos,
        53,
    ),
    "asin_f64": (lambda x: mp.asin(x) - x, SMALL, 0.5001, range(3, 28, 2), mp.asin, 53),
    "atan_f64": (lambda x: mp.atan(x) - x, SMALL, 0.4143, range(3, 24, 2), mp.atan, 53),
    "sinh_f64": (lambda x: mp.sinh(x) - x, SMALL, 1, range(3, 16, 2), mp.sinh, 53),
    "tanh_f64": (lambda x: mp.tanh(x) - x, SMALL, 0.55, range(3, 24, 2), mp.tanh, 53),
    "erf_f64": (lambda x: mp.erf(x) - x, SMALL, 1, range(1, 26, 2), mp.erf, 53),
    "erf_far_f64": (erfc_log(1), 0, 5, range(19), erfc_weight(1), 53),
    "erfinv_f64": (
        lambda t: erfinv_ratio(t + mp.mpf("3.125")),
        -3.125,
        3.125,
        range(24),
        lambda t: erfinv_ratio(t + mp.mpf("3.125")),
        53,
    ),
    "erfinv_far_f64": (
        erfinv_root(mp.mpf("3.25")),
        -0.75,
        0.75,
        range(20),
        erfinv_root(mp.mpf("3.25")),
        53,
    ),
    "erfinv_farther_f64": (
        erfinv_root(mp.mpf("5.03")),
        -1.03,
        1.03,
        range(18),
        erfinv_root(mp.mpf("5.03")),
        53,
    ),
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FITS:
        found, worst = fit(*FITS[name])
        digits, suffix = (10, "f") if FITS[name][-1] == 24 else (18, "")
        print(f"{name}: error 2^{float(mp.log(worst, 2)):.1f}")
        print(
            "   ",
            ", ".join(mp.nstr(c, digits, min_fixed=0, max_fixed=0) + suffix for c in found),
            flush=True,
        )
