/* halves.h: formulas for half types, which are computed as float32 and rounded.
 *
 * Of a result that is rounded to 8 or 11 bits, a float32 of which the last bits are not right is as good nearly always:
 * these take what devices have units for (2^x, log2 x, 1/x, 1/sqrt(x), each within some 2^-22), and polynomials where
 * that would lose bits.  Relative errors are some 2^-20, of exponentials of bfloat16 that are far from 1 some 2^-18, so
 * a result is the neighbour of the one that the formulas of shared/ give for less than one operand in a thousand, and
 * the same for all others; so is what belongs to NaN, infinities and zeros (tests/python/test_gpu_halves.py has all
 * operands).  Derivatives that are nearly 0 (silu_slope) have the errors of the terms that cancel.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_HALVES_H
#define MX_CUDA_KERNELS_HALVES_H

/* ---- the units.  Those of a name with _normal take numbers below the normal ones for 0, and give 0 for them. */

#ifdef __CUDACC__
#define UNIT_OF(name, instruction)                      \
    FN float name(float x)                              \
    {                                                   \
        float y;                                        \
        asm(instruction " %0, %1;" : "=f"(y) : "f"(x)); \
        return y;                                       \
    }
UNIT_OF(unit_exp2, "ex2.approx.f32")
UNIT_OF(unit_exp2_normal, "ex2.approx.ftz.f32")
UNIT_OF(unit_log2, "lg2.approx.f32")
UNIT_OF(unit_inverse_normal, "rcp.approx.ftz.f32")
UNIT_OF(unit_sqrt, "sqrt.approx.f32")
UNIT_OF(unit_rsqrt, "rsqrt.approx.f32")
FN float unit_quotient(float a, float b)
{
    float y;
    asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
#else
FN float unit_exp2(float x) { return exp2f(x); }
FN float unit_exp2_normal(float x) { return x < -126 ? 0 : exp2f(x); }
FN float unit_log2(float x) { return log2f(x); }
FN float unit_inverse_normal(float x) { return m_fabs_f32(x) > 0x1p126f ? m_copysign_f32(0, x) : 1 / x; }
FN float unit_sqrt(float x) { return m_sqrt_f32(x); }
FN float unit_rsqrt(float x) { return 1 / m_sqrt_f32(x); }
FN float unit_quotient(float a, float b) { return a / b; }
#endif

#define LN_2 0.693147182f

/* ---- exponentials */

FN float exp_half(float x) { return unit_exp2(x * LOG2_E); }

/* e^x - 1 = x (1 + x p(x)) near 0, else with an error of 4 of the exponential's. */
FN float expm1_half(float x)
{
    float p = poly3_f32(x, 4.999965e-1f, 1.6666566e-1f, 4.1822635e-2f, 8.362426e-3f);
    return m_fabs_f32(x) < 0.3f ? x * m_fma_f32(x, p, 1) : exp_half(x) - 1;
}

/* 1 / (1 + e) and e / (1 + e) for e = e^-|x| */
FN float sigmoid_half(float x)
{
    float e = unit_exp2(m_fabs_f32(x) * -LOG2_E);
    return (x < 0 ? e : 1) * unit_inverse_normal(1 + e);
}
FN float sigmoid_slope_half(float x)
{
    float e = unit_exp2(m_fabs_f32(x) * -LOG2_E), r = unit_inverse_normal(1 + e);
    return e * r * r;
}
/* As in shared/scalar_float.h. */
FN float silu_half(float x)
{
    float h = unit_exp2_normal(m_fabs_f32(x) * (-LOG2_E / 2));
    return (x < 0 ? x * h * h : x) * unit_inverse_normal(m_fma_f32(h, h, 1));
}
FN float silu_slope_half(float x)
{
    float h = unit_exp2(m_fabs_f32(x) * (-LOG2_E / 2)), s = unit_inverse_normal(m_fma_f32(h, h, 1));
    float most = h > 0 ? x : 0, gate = x < 0 ? h * s : s, rest = x < 0 ? h : 1, other = x < 0 ? s : h * h * s;
    return gate * m_fma_f32(rest, most * other, rest);
}

/* 1 - 2 / (e^2|x| + 1), and near 0 x (1 + z p(z)) with z = x^2 */
FN float tanh_half(float x)
{
    float a = m_fabs_f32(x), z = x * x;
    float far = m_fma_f32(-2, unit_inverse_normal(unit_exp2_normal(a * (2 * LOG2_E)) + 1), 1);
    float near = x * m_fma_f32(z, poly2_f32(z, -3.33319e-1f, 1.3278022e-1f, -4.781183e-2f), 1);
    return a < 0.4f ? near : m_copysign_f32(far, x);
}

/* 1 - 2^q(|x|), with q fitted to log2(erfc), and near 0 x p(x^2) */
FN float erf_half(float x)
{
    float a = m_fabs_f32(x), b = a > 4 ? 4 : a, z = x * x;
    float q = poly4_f32(b, -1.10973725e-2f, -1.5836804f, -9.877965e-1f, -9.537881e-2f, 9.538134e-3f);
    float p = poly4_f32(z, 1.1283787f, -3.761001e-1f, 1.1257147e-1f, -2.5910519e-2f, 3.782191e-3f);
    return a < 0.9f ? x * p : m_copysign_f32(1 - unit_exp2_normal(q), x);
}

/* ---- logarithms */

/* log(1 + f) for |f| < 1/4: 2 artanh(s) with s = f / (2 + f) */
FN float log1p_near_half(float f)
{
    float s = 2 * f * unit_inverse_normal(2 + f), z = s * s;
    return s * m_fma_f32(z, m_fma_f32(z, 2.0413524e-1f / 16, 3.3330701e-1f / 4), 1);
}
FN float log_half(float x)
{
    float f = x - 1;
    return m_fabs_f32(f) < 0.25f ? log1p_near_half(f) : unit_log2(x) * LN_2;
}
FN float log2_half(float x)
{
    float f = x - 1;
    return m_fabs_f32(f) < 0.25f ? log1p_near_half(f) * LOG2_E : unit_log2(x);
}
FN float log10_half(float x)
{
    float f = x - 1;
    return m_fabs_f32(f) < 0.25f ? log1p_near_half(f) * 0.434294492f : unit_log2(x) * 0.301029995f;
}
FN float log1p_half(float x) { return m_fabs_f32(x) < 0.25f ? log1p_near_half(x) : unit_log2(1 + x) * LN_2; }
FN float logaddexp_half(float a, float b)
{
    float tail = log1p_half(exp_half(-m_fabs_f32(a - b)));
    return a == b ? a + LN_2 : (a > b ? a : b) + tail;
}

/* ---- powers
 *
 * 2^(b log2 |a|), where the logarithm and the product are sums of two floats, the second of which has what the first
 * lost: the product's error counts as the result's, whatever its size. */

/* a b + c where that is a float: what rounding lost, also where the host has no instruction for it. */
FN float lost_half(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/* log2(m), m > 0 and finite, of at most 12 bits: e + (2 / ln 2) artanh(f / (2 + f)) */
struct log2_wide_half {
    float high, low;
};
FN struct log2_wide_half log2_wide_half(float m)
{
    struct log_f32 x = log_split_f32(m);
    float d = 2 + x.f, r = unit_inverse_normal(d), s = x.f * r, rest = lost_half(-s, d, x.f) * r, z = s * s;
    float p = z * poly3_f32(z, 0.333333333f, 0.2f, 0.142857143f, 0.111111111f), high = s * 2.88539004f;
    float low = lost_half(s, 2.88539004f, -high) + m_fma_f32(2.88539004f, m_fma_f32(s, p, rest), s * 3.85192598e-8f);
    float sum = x.e + high, left = (high - (sum - x.e)) + low;
    struct log2_wide_half y;
    y.high = sum + left;
    y.low = left - (y.high - sum);
    return y;
}

/* Special cases as in shared/math_f32.h. */
FN float power_half(float a, float b)
{
    float m = m_fabs_f32(a), most = m == 0 ? -INFINITY : m;
    struct log2_wide_half l = log2_wide_half(m);
    float v = b * l.high, rest = lost_half(b, l.high, -v) + b * l.low;
    v = m > 0 && m < INFINITY ? v : b * most;
    v = m == 1 || b == 0 ? 0 : v;
    float y = unit_exp2(v), half = b * 0.5f;
    y = m_fabs_f32(v) < 128 && v != 0 ? m_fma_f32(y, rest * LN_2, y) : y;
    int whole = m_trunc_f32(b) == b, odd = whole && m_trunc_f32(half) != half;
    y = odd ? m_copysign_f32(y, a) : y;
    return a < 0 && !whole && m < INFINITY ? NAN : y;
}

/* ---- roots and quotients */

FN float sqrt_half(float x) { return unit_sqrt(x); }
FN float rsqrt_half(float x) { return unit_rsqrt(x); }
FN float divide_half(float a, float b) { return unit_quotient(a, b); }

#undef LN_2

/* ---- which formula a row has: HALF_FORMULA(exp) is exp_half, and HALF_FORMULA(sin) sin_f32; HALF_FN(name, apart)
 * tells how its function is declared: these are short, others as said. */

#define HALF_FORMULA(name) SECOND(HALF_HAS_##name, name##_f32, )
#define HALF_FN(name, apart) THIRD(HALF_HAS_##name, , apart, )
#define HALF_HAS_exp ~, exp_half, FN
#define HALF_HAS_expm1 ~, expm1_half, FN
#define HALF_HAS_log ~, log_half, FN
#define HALF_HAS_log2 ~, log2_half, FN
#define HALF_HAS_log10 ~, log10_half, FN
#define HALF_HAS_log1p ~, log1p_half, FN
#define HALF_HAS_tanh ~, tanh_half, FN
#define HALF_HAS_erf ~, erf_half, FN
#define HALF_HAS_sigmoid ~, sigmoid_half, FN
#define HALF_HAS_sigmoid_slope ~, sigmoid_slope_half, FN
#define HALF_HAS_silu ~, silu_half, FN
#define HALF_HAS_silu_slope ~, silu_slope_half, FN
#define HALF_HAS_sqrt ~, sqrt_half, FN
#define HALF_HAS_rsqrt ~, rsqrt_half, FN
#define HALF_HAS_divide ~, divide_half, FN
#define HALF_HAS_logaddexp ~, logaddexp_half, FN
#define HALF_HAS_power ~, power_half, FN

#endif
