/* math_poly.h: polynomials by Horner's rule, a template over T, P and MA (multiply and add).
 *
 * poly<n>(x, a, b, c, ...) = a + b x + c x^2 + ... with n + 1 coefficients. */

FN T P(poly2)(T x, T a, T b, T c) { return MA(x, MA(x, c, b), a); }
FN T P(poly3)(T x, T a, T b, T c, T d)
{
    return MA(x, P(poly2)(x, b, c, d), a);
}
FN T P(poly4)(T x, T a, T b, T c, T d, T e)
{
    return MA(x, P(poly3)(x, b, c, d, e), a);
}
FN T P(poly5)(T x, T a, T b, T c, T d, T e, T f)
{
    return MA(x, P(poly4)(x, b, c, d, e, f), a);
}
FN T P(poly6)(T x, T a, T b, T c, T d, T e, T f, T g)
{
    return MA(x, P(poly5)(x, b, c, d, e, f, g), a);
}
FN T P(poly7)(T x, T a, T b, T c, T d, T e, T f, T g, T h)
{
    return MA(x, P(poly6)(x, b, c, d, e, f, g, h), a);
}
FN T P(poly8)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i)
{
    return MA(x, P(poly7)(x, b, c, d, e, f, g, h, i), a);
}
FN T P(poly9)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j)
{
    return MA(x, P(poly8)(x, b, c, d, e, f, g, h, i, j), a);
}
FN T P(poly10)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k)
{
    return MA(x, P(poly9)(x, b, c, d, e, f, g, h, i, j, k), a);
}
FN T P(poly11)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l)
{
    return MA(x, P(poly10)(x, b, c, d, e, f, g, h, i, j, k, l), a);
}
FN T P(poly12)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l, T m)
{
    return MA(x, P(poly11)(x, b, c, d, e, f, g, h, i, j, k, l, m), a);
}
FN T P(poly13)(T x, T a, T b, T c, T d, T e, T f, T g, T h, T i, T j, T k, T l, T m, T n)
{
    return MA(x, P(poly12)(x, b, c, d, e, f, g, h, i, j, k, l, m, n), a);
}
