/* scalar_complex.h: the formulas of complex64, a template over T, K and M, where M is the maths
 * library of double; scalar_angle.h has those that take a sine.
 *
 * Past plain arithmetic they compute in double and round once at the end: squares neither overflow
 * nor vanish, what cancels leaves enough bits, and textbook formulas do.  Branch cuts, signed zeros
 * and infinities are those of C99 annex G. */

/* A complex number on its way. */
typedef struct {
    double re, im;
} pair;

FN pair pair_of(T z)
{
    pair p = { z.re, z.im };
    return p;
}
FN pair pair_make(double re, double im)
{
    pair p = { re, im };
    return p;
}
FN pair pair_choose(int first, pair a, pair b) { return pair_make(first ? a.re : b.re, first ? a.im : b.im); }
FN pair pair_swap(pair z) { return pair_make(z.im, z.re); }
FN T pair_round(pair z)
{
    T y = { (float)z.re, (float)z.im };
    return y;
}

FN int is_inf(double x) { return M(fabs)(x) > 1e300; } /* of a float's value */
FN int is_finite(double x) { return M(fabs)(x) < 1e300; }
FN int pair_is_inf(pair z) { return is_inf(z.re) | is_inf(z.im); }
/* Infinities made finite, so far out that they give the same angles and the overflow to come. */
FN double box(double x, double far) { return x > far ? far : x < -far ? -far : x; }
/* a * b where an exact zero b wins over a NaN. */
FN double times(double a, double b) { return b == 0 && a != a ? b : a * b; }

FN pair pair_multiply(pair a, pair b) { return pair_make(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }
FN double pair_abs(pair z)
{
    double m = M(sqrt)(z.re * z.re + z.im * z.im);
    return pair_is_inf(z) ? (double)INFINITY : m;
}

/* a * conj(b) / |b|^2.  Two divisors need help: of an infinite one only the direction counts,
 * and by zero the parts divide on their own. */
FN pair pair_divide(pair a, pair b)
{
    double size = b.re * b.re + b.im * b.im;
    int far = size == INFINITY;
    double c = far ? M(copysign)((double)is_inf(b.re), b.re) : b.re;
    double d = far ? M(copysign)((double)is_inf(b.im), b.im) : b.im;
    double s = 1 / size;
    double re = (a.re * c + a.im * d) * s, im = (a.im * c - a.re * d) * s;
    return pair_make(size == 0 ? a.re / M(fabs)(b.re) : re, size == 0 ? a.im / M(fabs)(b.re) : im);
}

/* With t = sqrt((|z| + |re|) / 2) the root is t + i im / 2t, or turned by 90 degrees left of
 * zero. */
FN pair pair_sqrt_finite(pair z)
{
    double size = M(sqrt)(z.re * z.re + z.im * z.im);
    double t = M(sqrt)((size + M(fabs)(z.re)) * 0.5), o = M(fabs)(z.im) / (2 * t);
    o = t == 0 ? 0 : o;
    return pair_make(z.re < 0 ? o : t, M(copysign)(z.re < 0 ? t : o, z.im));
}
/* An infinite z has its root on an axis; an infinite im wins over re, whatever that is. */
FN pair pair_sqrt(pair z)
{
    pair y = pair_sqrt_finite(z);
    double inf = INFINITY, none = 0 * z.im;
    y.re = z.re == inf ? inf : z.re == -inf ? M(fabs)(none) : y.re;
    y.im = z.re == inf ? none : z.re == -inf ? M(copysign)(inf, z.im) : y.im;
    return pair_make(is_inf(z.im) ? inf : y.re, is_inf(z.im) ? z.im : y.im);
}

/* log |z| from s = |z|^2 and u = s - 1, whichever is the exact one. */
FN double half_log(double s, double u)
{
    double y = 0.5 * (M(fabs)(u) < 0.5 ? M(log1p)(u) : M(log)(s));
    return y;
}
FN pair pair_log(pair z)
{
    double x = M(fabs)(z.re), y = M(fabs)(z.im);
    double big = (x > y ? x : y), small = (x > y ? y : x);
    double s = big * big + small * small, u = (big * big - 1) + small * small;
    return pair_make(half_log(pair_is_inf(z) ? (double)INFINITY : s, u), M(atan2)(z.im, z.re));
}
/* |1 + z|^2 - 1 = re (2 + re) + im^2 */
FN pair pair_log1p(pair z)
{
    double r = 1 + z.re;
    double s = r * r + z.im * z.im, u = z.re * (2 + z.re) + z.im * z.im;
    return pair_make(half_log(pair_is_inf(z) ? (double)INFINITY : s, u), M(atan2)(z.im, r));
}

/* Kahan's formulas: with p = sqrt(1 - z), q = sqrt(1 + z)
 *     arcsin z = atan(re / re(p q)) + i asinh(im(conj(p) q))
 *     arccos z = 2 atan(re p / re q) + i asinh(im(conj(q) p)) */
FN pair pair_arcsin(pair z)
{
    pair w = pair_make(box(z.re, 1e150), box(z.im, 1e150));
    pair p = pair_sqrt_finite(pair_make(1 - w.re, -w.im)), q = pair_sqrt_finite(pair_make(1 + w.re, w.im));
    double im = M(asinh)(p.re * q.im - p.im * q.re);
    double re = M(atan2)(w.re, p.re * q.re - p.im * q.im);
    return pair_make(w.re == 0 ? w.re : re, pair_is_inf(z) ? M(copysign)((double)INFINITY, z.im) : im);
}
FN pair pair_arccos(pair z)
{
    pair w = pair_make(box(z.re, 1e150), box(z.im, 1e150));
    pair p = pair_sqrt_finite(pair_make(1 - w.re, -w.im)), q = pair_sqrt_finite(pair_make(1 + w.re, w.im));
    double im = M(asinh)(q.re * p.im - q.im * p.re);
    double re = 2 * M(atan2)(p.re, q.re);
    return pair_make(w.re == 0 ? 1.57079632679489661923 : re,
                     pair_is_inf(z) ? M(copysign)((double)INFINITY, -z.im) : im);
}
/* i arccos z or -i arccos z, the one right of zero. */
FN pair pair_arccosh(pair z)
{
    pair a = pair_arccos(z);
    return pair_make(M(fabs)(a.im), M(copysign)(a.re, z.im));
}
/* log1p(4 re / ((1 - re)^2 + im^2)) / 4 + i atan(2 im / ((1 - re) (1 + re) - im^2)) / 2 */
FN pair pair_arctanh(pair z)
{
    double x = M(fabs)(z.re), far = 1 - x, size = far * far + z.im * z.im;
    double re = 0.25 * M(log1p)(size == INFINITY || x == 0 ? 0 : 4 * x / size);
    double im = 0.5 * M(atan2)(2 * z.im, far * (1 + x) - z.im * z.im);
    int inf = pair_is_inf(z);
    im = inf && z.im == z.im ? M(copysign)(1.57079632679489661923, z.im) : im;
    return pair_make(M(copysign)(inf ? 0 : re, z.re), im);
}

FN float K(abs)(T z) { return (float)pair_abs(pair_of(z)); }
FN float K(real)(T z) { return z.re; }
FN float K(imag)(T z) { return z.im; }
FN T K(conjugate)(T z)
{
    T y = { z.re, -z.im };
    return y;
}
FN T K(negative)(T z)
{
    T y = { -z.re, -z.im };
    return y;
}
FN T K(rint)(T z)
{
    T y = { (float)M(rint)(z.re), (float)M(rint)(z.im) };
    return y;
}
/* Of parts of which one is infinite: ones for those that are, else zeros; NaN stays. */
FN double infinite_part(double x) { return is_inf(x) ? M(copysign)(1.0, x) : 0 * x; }
FN T K(sign)(T z) /* z / |z| */
{
    pair p = pair_of(z);
    int far = pair_is_inf(p);
    p = pair_make(far ? infinite_part(p.re) : p.re, far ? infinite_part(p.im) : p.im);
    double m = pair_abs(p);
    return pair_round(pair_make(m == 0 ? 0 : p.re / m, m == 0 ? 0 : p.im / m));
}
FN T K(sqrt)(T z) { return pair_round(pair_sqrt(pair_of(z))); }
FN T K(rsqrt)(T z) { return pair_round(pair_divide(pair_make(1, 0), pair_sqrt(pair_of(z)))); }
FN T K(log)(T z) { return pair_round(pair_log(pair_of(z))); }
FN T K(log2)(T z)
{
    pair y = pair_log(pair_of(z));
    return pair_round(pair_make(y.re * 1.44269504088896340736, y.im * 1.44269504088896340736));
}
FN T K(log10)(T z)
{
    pair y = pair_log(pair_of(z));
    return pair_round(pair_make(y.re * 0.43429448190325182765, y.im * 0.43429448190325182765));
}
FN T K(log1p)(T z) { return pair_round(pair_log1p(pair_of(z))); }

/* f(x + iy) of arcsinh and arctan is g(y + ix) of arcsin and arctanh with its parts swapped. */
FN T K(arcsin)(T z) { return pair_round(pair_arcsin(pair_of(z))); }
FN T K(arccos)(T z) { return pair_round(pair_arccos(pair_of(z))); }
FN T K(arctan)(T z) { return pair_round(pair_swap(pair_arctanh(pair_swap(pair_of(z))))); }
FN T K(arcsinh)(T z) { return pair_round(pair_swap(pair_arcsin(pair_swap(pair_of(z))))); }
FN T K(arccosh)(T z) { return pair_round(pair_arccosh(pair_of(z))); }
FN T K(arctanh)(T z) { return pair_round(pair_arctanh(pair_of(z))); }

FN T K(add)(T a, T b)
{
    T y = { a.re + b.re, a.im + b.im };
    return y;
}
FN T K(subtract)(T a, T b)
{
    T y = { a.re - b.re, a.im - b.im };
    return y;
}
FN T K(multiply)(T a, T b)
{
    T y = { a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
    return y;
}
FN T K(square)(T z) { return K(multiply)(z, z); }
FN T K(divide)(T a, T b) { return pair_round(pair_divide(pair_of(a), pair_of(b))); }
FN T K(floor_divide)(T a, T b) { return K(divide)(a, b); }

FN uint8_t K(equal)(T a, T b) { return (a.re == b.re) & (a.im == b.im); }
FN uint8_t K(not_equal)(T a, T b) { return (a.re != b.re) | (a.im != b.im); }
FN uint8_t K(less)(T a, T b) { return (a.re < b.re) | ((a.re == b.re) & (a.im < b.im)); }
FN uint8_t K(less_equal)(T a, T b) { return (a.re < b.re) | ((a.re == b.re) & (a.im <= b.im)); }
FN uint8_t K(greater)(T a, T b) { return K(less)(b, a); }
FN uint8_t K(greater_equal)(T a, T b) { return K(less_equal)(b, a); }

FN T choose_c64(int first, T a, T b)
{
    T y = { first ? a.re : b.re, first ? a.im : b.im };
    return y;
}
FN int is_nan_c64(T z) { return (z.re != z.re) | (z.im != z.im); }
FN T K(maximum)(T a, T b) { return choose_c64(is_nan_c64(a) || (!is_nan_c64(b) && K(greater)(a, b)), a, b); }
FN T K(minimum)(T a, T b) { return choose_c64(is_nan_c64(a) || (!is_nan_c64(b) && K(less)(a, b)), a, b); }
