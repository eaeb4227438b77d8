/* scalar_angle.h: the formulas of complex64 that take the sine and cosine of an operand, a
 * template over T, K and A, where A(sin) and A(cos) are those of double: the full ones, or the
 * near ones that compilers vectorize.  Goes with scalar_complex.h, once for each. */

/* e^re (cos im + i sin im).  Beyond 700 a part overflows in float whatever the angle, unless it is
 * exactly zero. */
FN pair K(pair_exp)(pair z)
{
    double e = M(exp)(box(z.re, 700)), re = e * A(cos)(z.im), im = e * A(sin)(z.im);
    int lost = !is_finite(z.im); /* the angle */
    re = lost && z.re == -INFINITY ? 0 : lost && z.re == INFINITY ? (double)INFINITY : re;
    im = lost && z.re == -INFINITY ? 0 : z.im == 0 ? z.im : im;
    return pair_make(re, im);
}

/* sin re cosh im + i cos re sinh im; infinitely far out whatever the angle. */
FN pair K(pair_sin)(pair z)
{
    double y = box(z.im, 700);
    int lost = is_inf(z.im) && !is_finite(z.re);
    return pair_make(times(M(cosh)(y), A(sin)(z.re)), lost ? z.im : times(A(cos)(z.re), M(sinh)(y)));
}
/* cos re cosh im - i sin re sinh im, likewise */
FN pair K(pair_cos)(pair z)
{
    double y = box(z.im, 700), s = A(sin)(z.re);
    int lost = is_inf(z.im) && !is_finite(z.re);
    return pair_make(lost ? (double)INFINITY : A(cos)(z.re) * M(cosh)(y),
                     -(s == 0 ? times(y, s) : times(s, M(sinh)(y))));
}
/* (sin re cos re + i sinh im cosh im) / (cos^2 re + sinh^2 im) */
FN pair K(pair_tan)(pair z)
{
    double y = box(z.im, 300);
    double s = A(sin)(z.re), c = A(cos)(z.re), sh = M(sinh)(y), ch = M(cosh)(y);
    double d = 1 / (c * c + sh * sh);
    int lost = is_inf(z.im) && !is_finite(z.re);
    return pair_make(lost ? 0 : times(c * d, s), lost ? M(copysign)(1.0, y) : times(d * ch, sh));
}

FN T K(exp)(T z) { return pair_round(K(pair_exp)(pair_of(z))); }

/* e^x cos y - 1 = expm1(x) cos y - 2 sin^2(y / 2) */
FN T K(expm1)(T z)
{
    pair e = K(pair_exp)(pair_of(z));
    double s = A(sin)(0.5 * z.im);
    double re = M(expm1)(box(z.re, 700)) * A(cos)(z.im) - 2 * s * s;
    return pair_round(pair_make(is_finite(z.im) ? re : e.re - 1, e.im));
}
/* The hyperbolic functions are the circular ones with the axes swapped: f(x + iy) is g(y + ix)
 * with its parts swapped. */
FN T K(sin)(T z) { return pair_round(K(pair_sin)(pair_of(z))); }
FN T K(cos)(T z) { return pair_round(K(pair_cos)(pair_of(z))); }
FN T K(tan)(T z) { return pair_round(K(pair_tan)(pair_of(z))); }
FN T K(sinh)(T z) { return pair_round(pair_swap(K(pair_sin)(pair_swap(pair_of(z))))); }
FN T K(cosh)(T z)
{
    pair y = K(pair_cos)(pair_swap(pair_of(z)));
    return pair_round(pair_make(y.re, -y.im));
}
FN T K(tanh)(T z) { return pair_round(pair_swap(K(pair_tan)(pair_swap(pair_of(z))))); }

/* e^z / (1 + e^z) left of zero, as for real numbers. */
FN T K(sigmoid)(T z)
{
    int left = z.re < 0;
    pair e = K(pair_exp)(pair_make(left ? z.re : -z.re, left ? z.im : -z.im));
    pair one = pair_make(left ? e.re : 1, left ? e.im : 0);
    return pair_round(pair_divide(one, pair_make(1 + e.re, e.im)));
}

FN int K(is_one)(T b) { return b.re == 1 && b.im == 0; }
FN int K(is_two)(T b) { return b.re == 2 && b.im == 0; }
FN T K(first_power)(T a) { return a; }
FN T K(second_power)(T a) { return pair_round(pair_multiply(pair_of(a), pair_of(a))); }
/* e^(b log a); a^0 is 1, a^1 is a, a^2 the square, 0^b is 0 right of zero. */
FN T K(power)(T a, T b)
{
    pair p = pair_of(a), q = pair_of(b);
    pair y = K(pair_exp)(pair_multiply(q, pair_log(p)));
    int zero = a.re == 0 && a.im == 0, none = b.re == 0 && b.im == 0;
    double far = b.re > 0 ? 0.0 : (double)NAN;
    y = pair_make(zero ? far : y.re, zero ? far : y.im);
    y = K(is_one)(b) ? p : K(is_two)(b) ? pair_multiply(p, p) : y;
    return pair_round(pair_make(none ? 1 : y.re, none ? 0 : y.im));
}

/* hi + log1p(e^(lo - hi)) by the real parts, of equal ones by the others; an infinite one settles it. */
FN T K(logaddexp)(T a, T b)
{
    pair p = pair_of(a), q = pair_of(b);
    int above = (p.re > q.re) | ((p.re == q.re) & (p.im > q.im));
    pair hi = pair_choose(above, p, q), lo = pair_choose(above, q, p);
    pair tail = pair_log1p(K(pair_exp)(pair_make(lo.re - hi.re, lo.im - hi.im)));
    pair y = pair_choose(lo.re - lo.re == 0, pair_make(hi.re + tail.re, hi.im + tail.im), hi);
    y = pair_choose(is_inf(hi.re), hi, y);
    return pair_round(pair_make(lo.re == lo.re ? y.re : lo.re, lo.im == lo.im ? y.im : lo.im));
}
