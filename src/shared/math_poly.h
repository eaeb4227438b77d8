/* math_poly.h: polynomials, a template over T, P and MA (multiply and add).
 *
 * poly<n>(x, a, b, c, ...) = a + b x + c x^2 + ... with n + 1 coefficients, as (a + b x) + x^2
 * (c + ...): half as many dependent steps as Horner's rule, which is what long formulas wait
 * for. */

FN T P(poly1)(T x, T a, T b) { return MA(x, b, a); }
FN T P(poly2)(T x, T a, T b, T c) { return MA(x, MA(x, c, b), a); }
FN T P(poly3)(T x, T a, T b, T c, T d) { return MA(x * x, P(poly1)(x, c, d), MA(x, b, a)); }
FN T P(poly4)(T x, T a, T b, T c, T d, T e) { return MA(x * x, P(poly2)(x, c, d, e), MA(x, b, a)); }
FN T P(poly5)(T x, T a, T b, T c, T d, T e, T f) { return MA(x * x, P(poly3)(x, c, d, e, f), MA(x, b, a)); }
FN T P(poly6)(T x, T a, T b, T c, T d, T e, T f, T g) { return MA(x * x, P(poly4)(x, c, d, e, f, g), MA(x, b, a)); }
FN T P(poly7)(T x, T a, T b, T c, T d, T e, T f, T g, T h)
{
    return MA(x * x, P(poly5)(x, c, d, e, f, g, h), MA(x, b, a));
}
FN T P(poly8)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i)
{
    return MA(x * x, P(poly6)(x, c, d, e, f, g, h, i), MA(x, b, a));
}
FN T P(poly9)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j)
{
    return MA(x * x, P(poly7)(x, c, d, e, f, g, h, i, j), MA(x, b, a));
}
FN T P(poly10)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k)
{
    return MA(x * x, P(poly8)(x, c, d, e, f, g, h, i, j, k), MA(x, b, a));
}
FN T P(poly11)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l)
{
    return MA(x * x, P(poly9)(x, c, d, e, f, g, h, i, j, k, l), MA(x, b, a));
}
FN T P(poly12)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l, T m)
{
    return MA(x * x, P(poly10)(x, c, d, e, f, g, h, i, j, k, l, m), MA(x, b, a));
}

/* The same by Horner's rule, of which the last step alone rounds what is near the result. */
FN T P(horner8)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i)
{
    T far = MA(x, MA(x, MA(x, MA(x, i, h), g), f), e);
    return MA(x, MA(x, MA(x, MA(x, far, d), c), b), a);
}

/* By the same rule: a step less, where others are computed meanwhile. */
#if FAST_FMA
FN T P(horner4)(T x, T a, T b, T c, T d, T e) { return MA(x, MA(x, MA(x, MA(x, e, d), c), b), a); }
FN T P(horner7)(T x, T a, T b, T c, T d, T e, T f, T g, T h)
{
    return MA(x, MA(x, MA(x, P(horner4)(x, d, e, f, g, h), c), b), a);
}
FN T P(horner9)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j)
{
    return MA(x, MA(x, P(horner7)(x, c, d, e, f, g, h, i, j), b), a);
}
FN T P(horner10)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k)
{
    return MA(x, P(horner9)(x, b, c, d, e, f, g, h, i, j, k), a);
}
#else
#define horner7_f32 poly7_f32
#define horner9_f32 poly9_f32
#define horner10_f32 poly10_f32
#endif
