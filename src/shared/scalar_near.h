/* scalar_near.h: twins of formulas, for loops on the CPU.
 *
 * Formulas that reduce an angle, and remainder, take a branch where an operand is far, which
 * keeps a loop from being vectorized, and a power has cases that few operands are.  Their near twins have none; where
 * near_for_<type> holds for every operand (both_near_for_<type> for every pair) they give the same.  Angles of float32
 * have twins without a branch for any operand as well. */

typedef float unary_f32(float), binary_f32(float, float);
typedef double unary_f64(double), binary_f64(double, double);
typedef complex64 unary_c64(complex64), binary_c64(complex64, complex64);

FN int near_f32(float x) { return m_is_near_f32(x); }
FN int near_f64(double x) { return m_is_near_f64(x); }

/* Angles within NEAR_F64: parts of z itself, or of b log(a), which is at most 93 |b|. */
FN int near_c64(complex64 z) { return (m_fabs_f32(z.re) < 1e5f) & (m_fabs_f32(z.im) < 1e5f); }
FN int both_near_c64(complex64 a, complex64 b)
{
    return (m_fabs_f32(a.re) < 1e4f) & (m_fabs_f32(a.im) < 1e4f) & (m_fabs_f32(b.re) < 1e4f) &
           (m_fabs_f32(b.im) < 1e4f);
}

/* Is x near for this formula?  For erf, which is the shorter of its two polynomials there, below 1. */
FN int near_for_f32(unary_f32 *f, float x) { return f == erf_f32 ? m_fabs_f32(x) < 1 : near_f32(x); }
FN int near_for_f64(unary_f64 *f, double x) { return (void)f, near_f64(x); }

/* The same of two operands. */
FN int both_near_for_f32(binary_f32 *f, float a, float b)
{
#if FAST_FMA
    if (f == power_f32)
        return m_pow_is_near_f32(a, b);
#endif
    return (void)f, are_near_f32(a, b);
}
FN int both_near_for_f64(binary_f64 *f, double a, double b) { return (void)f, are_near_f64(a, b); }

/* The twin of a formula, or NULL.  Folds away where f is a constant. */
FN unary_f32 *near_unary_f32(unary_f32 *f)
{
    return f == sin_f32   ? m_sin_near_f32
           : f == cos_f32 ? m_cos_near_f32
           : f == tan_f32 ? m_tan_near_f32
           : f == erf_f32 ? m_erf_near_f32
                          : NULL;
}
FN unary_f64 *near_unary_f64(unary_f64 *f)
{
    return f == sin_f64 ? m_sin_near_f64 : f == cos_f64 ? m_cos_near_f64 : f == tan_f64 ? m_tan_near_f64 : NULL;
}
/* What to compute with where an operand is far. */
FN unary_f32 *any_unary_f32(unary_f32 *f)
{
    return f == sin_f32 ? m_sin_any_f32 : f == cos_f32 ? m_cos_any_f32 : f == tan_f32 ? m_tan_any_f32 : f;
}
FN unary_f64 *any_unary_f64(unary_f64 *f) { return f; }
FN unary_c64 *near_unary_c64(unary_c64 *f)
{
    return f == exp_c64       ? exp_near_c64
           : f == expm1_c64   ? expm1_near_c64
           : f == sin_c64     ? sin_near_c64
           : f == cos_c64     ? cos_near_c64
           : f == tan_c64     ? tan_near_c64
           : f == sinh_c64    ? sinh_near_c64
           : f == cosh_c64    ? cosh_near_c64
           : f == tanh_c64    ? tanh_near_c64
           : f == sigmoid_c64 ? sigmoid_near_c64
                              : NULL;
}
FN binary_f32 *near_binary_f32(binary_f32 *f)
{
#if FAST_FMA
    if (f == power_f32)
        return m_pow_near_f32;
#endif
    return f == remainder_f32 ? remainder_near_f32 : NULL;
}
FN binary_f64 *near_binary_f64(binary_f64 *f) { return f == remainder_f64 ? remainder_near_f64 : NULL; }
FN binary_c64 *near_binary_c64(binary_c64 *f)
{
    return f == power_c64 ? power_near_c64 : f == logaddexp_c64 ? logaddexp_near_c64 : NULL;
}
