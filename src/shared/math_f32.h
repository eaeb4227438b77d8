/* math_f32.h: the maths library of float, for loops that the compiler vectorizes, and for GPUs.
 *
 * Branch-free polynomials, at most 2 ulp from the truth (tests/property/elementwise_accuracy.c
 * says how much each).  Coefficients come from tools/polynomials.py.  Choices are written as ?:
 * of values already computed, and comparisons so that NaN arrives where it should.  Where float
 * has too few bits for a short formula, the formula runs in double. */

#if FAST_FMA
FN float m_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
FN float m_fma_f32(float a, float b, float c) { return a * b + c; }
#endif

FN float m_fabs_f32(float x) { return __builtin_fabsf(x); }
FN float m_sqrt_f32(float x) { return __builtin_sqrtf(x); }
FN float m_rsqrt_f32(float x) { return 1 / __builtin_sqrtf(x); }
FN float m_floor_f32(float x) { return __builtin_floorf(x); }
FN float m_ceil_f32(float x) { return __builtin_ceilf(x); }
FN float m_trunc_f32(float x) { return __builtin_truncf(x); }
FN float m_rint_f32(float x) { return __builtin_rintf(x); }
FN float m_copysign_f32(float x, float sign) { return __builtin_copysignf(x, sign); }

#define T float
#define P(f) f##_f32
#define MA m_fma_f32
#include "shared/math_poly.h"
#undef T
#undef P

/* 1 / x where both are normal, rounded right: after a step of Newton's nothing is left of the error of a GPU's unit. */
#ifdef __CUDACC__
FN float inverse_f32(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return __builtin_fmaf(y, __builtin_fmaf(-x, y, 1), y);
}
#else
FN float inverse_f32(float x) { return 1 / x; }
#endif

/* Adding and taking away 1.5 * 2^23 rounds |x| < 2^22 to an integer, which the sum's low bits
 * show. */
#define ROUNDER_F32 12582912.0f

/* The smaller of x and `most` > 0 in one instruction, by their bits; a NaN may become `most`. */
FN float at_most_f32(float x, float most)
{
    int32_t u = (int32_t)bits_f32(x), v = (int32_t)bits_f32(most);
    return f32_bits((uint32_t)(u < v ? u : v));
}
/* y, which has no sign, with that of x. */
FN float signed_f32(float y, float x) { return f32_bits(bits_f32(y) | (bits_f32(x) & 0x80000000u)); }

/* 2^(n - 127) of the low bits of n, for results between 2^-126 and 2^127. */
FN float pow2_f32(uint32_t n) { return f32_bits(n << 23); }
/* x 2^(n - 254) in two factors, so that subnormal results round once and overflow becomes infinite. */
FN float scale_f32(float x, uint32_t n)
{
    uint32_t half = n >> 1;
    return x * pow2_f32(half) * pow2_f32(n - half);
}

/* x = n ln 2 + r with |r| < 0.35; |x| < 2^22, infinite or NaN.  The first part of ln 2 has so few bits
 * that n times it is exact.  The low bits of `shifted` = n + zero are those of n + bias, where zero is
 * ROUNDER_F32 + bias.  Of an x beyond that range, `shifted` is held down: what is left makes r so large
 * that e^r overflows. */
struct exp_f32 {
    float r;
    uint32_t n;
};
FN float exp_shifted_f32(float x, float zero) { return MA(x, 1.442695041f, zero); }
FN struct exp_f32 exp_split_f32(float x, float shifted, float zero)
{
    float n = shifted - zero;
    struct exp_f32 y = { MA(n, -1.428606820e-06f, MA(n, -0.693145752f, x)), bits_f32(shifted) };
    return y;
}

/* e^r - 1 */
FN float exp_tail_f32(float r)
{
    return MA(r * r,
              poly4_f32(r, 4.999999404e-01f, 1.666651666e-01f, 4.166828096e-02f, 8.369249292e-03f, 1.382077462e-03f),
              r);
}
FN float m_exp_f32(float x)
{
    float zero = ROUNDER_F32 + 254, shifted = at_most_f32(exp_shifted_f32(x, zero), zero + 129);
    struct exp_f32 s = exp_split_f32(x, shifted, zero);
    float y = scale_f32(1 + exp_tail_f32(s.r), s.n);
    return x < -104 ? 0 : y;
}

/* (2^n - 1) + 2^n (e^r - 1) */
FN float m_expm1_f32(float x)
{
    float zero = ROUNDER_F32 + 126, shifted = at_most_f32(exp_shifted_f32(x, zero), zero + 128);
    struct exp_f32 s = exp_split_f32(x, shifted, zero);
    float p =
        poly5_f32(s.r, 0.5f, 1.666666567e-01f, 4.166648537e-02f, 8.333541453e-03f, 1.393322833e-03f, 1.976699423e-04f);
    float h = pow2_f32(s.n); /* halved: 2^128 overflows */
    float y = 2 * (h * MA(s.r * s.r, p, s.r) + (h - 0.5f));
    y = x < -18 ? -1 : y;
    return x == 0 ? x : y;
}

/* x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); x > 0 and finite. */
struct log_f32 {
    float f, e;
};
FN struct log_f32 log_split_f32(float x)
{
    int tiny = x < 1.17549435e-38f;
    uint32_t u = bits_f32(tiny ? x * 8388608 : x) - 0x3f3504f3u;
    struct log_f32 y = { f32_bits((u & 0x007fffffu) + 0x3f3504f3u) - 1,
                         (float)((int32_t)u >> 23) - (tiny ? 23.0f : 0.0f) };
    return y;
}
/* log(1 + f) - f */
FN float log_tail_f32(float f)
{
    float p = poly7_f32(f, 3.333333135e-01f, -2.500081956e-01f, 2.000124156e-01f, -1.662340909e-01f, 1.420157999e-01f,
                        -1.315961033e-01f, 1.276221275e-01f, -7.636427879e-02f);
    return f * f * MA(f, p, -0.5f);
}
/* y where x is in the domain of a logarithm with its pole at `pole`; else what belongs there. */
FN float log_edges_f32(float y, float x, float pole)
{
    float out = x == pole ? -INFINITY : NAN;
    return x > pole ? (x < INFINITY ? y : x) : out;
}

FN float m_log_f32(float x)
{
    struct log_f32 s = log_split_f32(x);
    float low = MA(s.e, 1.428606820e-06f, log_tail_f32(s.f));
    return log_edges_f32(MA(s.e, 0.693145752f, s.f + low), x, 0);
}

/* The factor 1 / ln 2 = 1 + 0.4427 leaves f itself exact. */
FN float m_log2_f32(float x)
{
    struct log_f32 s = log_split_f32(x);
    float p = poly9_f32(s.f, 4.426950514e-1f, -7.213475108e-1f, 4.808965325e-1f, -3.606827557e-1f, 2.886176705e-1f,
                        -2.399461269e-1f, 2.041679472e-1f, -1.883136034e-1f, 1.868423522e-1f, -1.162413508e-1f);
    return log_edges_f32(s.e + MA(s.f, p, s.f), x, 0);
}

FN float m_log10_f32(float x)
{
    struct log_f32 s = log_split_f32(x);
    float p = poly9_f32(s.f, -1.012086592e-8f, -2.171471864e-1f, 1.447647959e-1f, -1.085808948e-1f, 8.686769009e-2f,
                        -7.212226838e-2f, 6.157938763e-2f, -5.758870393e-2f, 5.615627021e-2f, -3.305850551e-2f);
    float low = MA(s.e, 4.605038981e-06f, s.f * p);
    return log_edges_f32(MA(s.e, 0.301025391f, MA(s.f, 4.342944920e-01f, low)), x, 0);
}

/* log(u) for u = 1 + x rounded, and lost / u for what the rounding lost. */
FN float m_log1p_f32(float x)
{
    float u = 1 + x, back = u - 1, lost = (1 - (u - back)) + (x - back);
    struct log_f32 s = log_split_f32(u);
    float low = MA(s.e, 1.428606820e-06f, log_tail_f32(s.f) + lost / u);
    float y = log_edges_f32(MA(s.e, 0.693145752f, s.f + low), x, -1);
    return x == 0 ? x : y;
}

/* An angle less the nearest multiple of pi/2: r + tail, r in [-pi/4, pi/4], and the multiple
 * modulo 4. */
struct angle_f32 {
    float r, tail;
    uint32_t quarter;
};
/* |x| < NEAR_F32, in double, where n times the first part of pi/2 is exact. */
#define NEAR_F32 100000.0f
FN struct angle_f32 angle_wide_f32(float x)
{
    double shifted = x * 0.63661977236758134308 + ROUNDER_F64, n = shifted - ROUNDER_F64;
    double d = (x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a626331p-34;
    struct angle_f32 y = { (float)d, (float)(d - (float)d), (uint32_t)bits_f64(shifted) };
    return y;
}
/* The same without a tail.  With fused multiply-add the first step is exact and the others round
 * once. */
FN struct angle_f32 angle_near_f32(float x)
{
#if FAST_FMA
    float shifted = MA(x, 0.636619747f, ROUNDER_F32), n = shifted - ROUNDER_F32;
    float r = MA(n, 4.37113883e-8f, MA(n, -1.57079637f, x));
    struct angle_f32 y = { MA(n, 1.71512451e-15f, r), 0, bits_f32(shifted) };
    return y;
#else
    return angle_wide_f32(x);
#endif
}

/* Any other angle: m 2^e times 2 / pi modulo 4 as a whole number of 2^-62 quarters, from the 96 bits of 2 / pi that
 * matter (angle_far_f64): no float32 but 0 is nearer than 1.6e-9 to a multiple of pi/2.  The table has two words at
 * each place, and starts with 32 zero bits.  Without a branch, and defined for near angles too, for the CPU's loops. */
#ifdef __CUDACC__
__attribute__((noinline, unused)) static struct angle_f32 angle_far_f32(float x)
#else
FN struct angle_f32 angle_far_f32(float x)
#endif
{
    static const uint64_t two_over_pi[] = { 0x00000000a2f9836e, 0xa2f9836e4e441529, 0x4e441529fc2757d1,
                                            0xfc2757d1f534ddc0, 0xf534ddc0db629599, 0xdb6295993c439041,
                                            0x3c439041fe5163ab };
    uint32_t u = bits_f32(x), e = u >> 23 & 255, at = e < 120 ? 0 : e - 120;
    uint64_t m = (u & 0x7fffff) | 0x800000, by = at % 32, k = at / 32;
    uint64_t turn = (m * (uint32_t)(two_over_pi[k] << by >> 32) << 32) +
                    m * (uint32_t)(two_over_pi[k + 1] << by >> 32) +
                    (m * (uint32_t)(two_over_pi[k + 2] << by >> 32) >> 32);
    uint64_t quarter = (turn + 0x2000000000000000u) >> 62, part = turn - (quarter << 62);
    double high = f64_bits(0x4330000000000000u | (part >> 32 ^ 0x80000000u)) - (0x1p52 + 0x1p31);
    double low = f64_bits(0x4330000000000000u | (part & 0xffffffffu)) - 0x1p52;
    double d = (high * 0x1p32 + low) * 0x1.921fb54442d18p-62;
    d = e == 255 ? x - x : x < 0 ? -d : d;
    struct angle_f32 y = { (float)d, (float)(d - (float)d), x < 0 ? -(uint32_t)quarter : (uint32_t)quarter };
    return y;
}

FN float sin_of_f32(struct angle_f32 a)
{
    float z = a.r * a.r;
    float s = MA(a.r * z, poly2_f32(z, -1.666665524e-01f, 8.332188241e-03f, -1.951809973e-04f), a.r);
    float c = MA(z * z, poly2_f32(z, 4.166664556e-02f, -1.388731063e-03f, 2.443255289e-05f), MA(z, -0.5f, 1.0f));
    return f32_bits(bits_f32(a.quarter & 1 ? c : s) ^ (a.quarter << 30 & 0x80000000u));
}
FN float cos_of_f32(struct angle_f32 a)
{
    a.quarter++;
    return sin_of_f32(a);
}
FN float tan_of_f32(struct angle_f32 a)
{
    float z = a.r * a.r;
    float p = poly6_f32(z, 3.333334923e-1f, 1.333267391e-1f, 5.405916646e-2f, 2.128464542e-2f, 1.083192974e-2f,
                        9.21582614e-5f, 4.375854507e-3f);
    float t = a.r + MA(a.r * z, p, MA(a.tail, z, a.tail)); /* tan' = 1 + tan^2 */
    return a.quarter & 1 ? -1 / t : t;
}
FN int m_is_near_f32(float x) { return m_fabs_f32(x) < NEAR_F32; }
FN float m_sin_near_f32(float x) { return x == 0 ? x : sin_of_f32(angle_near_f32(x)); }
FN float m_cos_near_f32(float x) { return cos_of_f32(angle_near_f32(x)); }
FN float m_tan_near_f32(float x) { return x == 0 ? x : tan_of_f32(angle_wide_f32(x)); }
FN float m_sin_f32(float x) { return m_is_near_f32(x) ? m_sin_near_f32(x) : sin_of_f32(angle_far_f32(x)); }
FN float m_cos_f32(float x) { return m_is_near_f32(x) ? m_cos_near_f32(x) : cos_of_f32(angle_far_f32(x)); }
FN float m_tan_f32(float x) { return m_is_near_f32(x) ? m_tan_near_f32(x) : tan_of_f32(angle_far_f32(x)); }

#ifndef __CUDACC__ /* the same without a branch */
FN struct angle_f32 angle_of_f32(int is_near, struct angle_f32 near, struct angle_f32 far)
{
    struct angle_f32 y = { is_near ? near.r : far.r, is_near ? near.tail : far.tail,
                           is_near ? near.quarter : far.quarter };
    return y;
}
FN float m_sin_any_f32(float x)
{
    float y = sin_of_f32(angle_of_f32(m_is_near_f32(x), angle_near_f32(x), angle_far_f32(x)));
    return x == 0 ? x : y;
}
FN float m_cos_any_f32(float x)
{
    return cos_of_f32(angle_of_f32(m_is_near_f32(x), angle_near_f32(x), angle_far_f32(x)));
}
FN float m_tan_any_f32(float x)
{
    float y = tan_of_f32(angle_of_f32(m_is_near_f32(x), angle_wide_f32(x), angle_far_f32(x)));
    return x == 0 ? x : y;
}
#endif

/* (arcsin(s) - s) / s for z = s^2 <= 1/4 */
FN float asin_tail_f32(float z)
{
    return z * poly4_f32(z, 1.66667521e-01f, 7.495306432e-02f, 4.546977207e-02f, 2.418077551e-02f, 4.216640443e-02f);
}
/* pi/2 - 2 arcsin(sqrt((1 - |x|) / 2)) beyond 1/2, where the root's first 12 bits are subtracted on
 * their own so that its rounding does not count twice. */
FN float m_asin_f32(float x)
{
    float a = m_fabs_f32(x);
    int big = a > 0.5f;
    float z = big ? (1 - a) * 0.5f : a * a, s = m_sqrt_f32(z);
    float head = f32_bits(bits_f32(s) & 0xfffff000u), rest = (z - head * head) / (s + head);
    float t = asin_tail_f32(z);
    float far = (1.57079637f - 2 * head) - (2 * MA(s, t, z == 0 ? 0 : rest) + 4.37113883e-8f);
    return m_copysign_f32(big ? far : MA(a, t, a), x);
}
FN float m_acos_f32(float x)
{
    float a = m_fabs_f32(x);
    int big = a > 0.5f;
    float z = big ? (1 - a) * 0.5f : a * a, s = big ? m_sqrt_f32(z) : x, t = asin_tail_f32(z);
    float root = 2 * MA(s, t, s);
    float far = x < 0 ? 3.14159274f - (root + 8.74227766e-8f) : root;
    return big ? far : 1.57079637f - (s + MA(s, t, 4.37113883e-8f));
}

/* (arctan(t) - t) / t for 0 <= t <= 1 */
FN float atan_tail_f32(float t)
{
    float z = t * t;
    return z * poly8_f32(z, -3.333329856e-1f, 1.999853104e-1f, -1.426405162e-1f, 1.095117256e-1f, -8.400458097e-2f,
                         5.790604278e-2f, -3.11262887e-2f, 1.088686846e-2f, -1.787414425e-3f);
}
FN float m_atan_f32(float x)
{
    float a = m_fabs_f32(x), t = a > 1 ? 1 / a : a, tail = atan_tail_f32(t);
    float far = 1.57079637f - (t + MA(t, tail, 4.37113883e-8f));
    return m_copysign_f32(a > 1 ? far : MA(t, tail, t), x);
}
/* The octant next to the axis, mirrored at the diagonal and at the vertical axis. */
FN float m_atan2_f32(float y, float x)
{
    float a = m_fabs_f32(y), b = m_fabs_f32(x);
    float high = a > b ? a : b, low = a > b ? b : a;
    float same = high == 0 ? 0.0f : 1.0f, t = high == low ? same : low / high;
    float r = MA(t, atan_tail_f32(t), t);
    r = a > b ? 1.57079637f - (r + 4.37113883e-8f) : r;
    r = (int32_t)bits_f32(x) < 0 ? 3.14159274f - (r + 8.74227766e-8f) : r;
    return m_copysign_f32(r, y);
}

/* e^a / 2, a >= 0 */
FN float half_exp_f32(float a)
{
    float zero = ROUNDER_F32 + 253, shifted = at_most_f32(exp_shifted_f32(a, zero), zero + 131);
    struct exp_f32 s = exp_split_f32(a, shifted, zero);
    return scale_f32(1 + exp_tail_f32(s.r), s.n);
}
FN float m_sinh_f32(float x)
{
    float a = m_fabs_f32(x), z = a * a, e = half_exp_f32(a);
    float p = poly3_f32(z, 1.666666716e-01f, 8.333310485e-03f, 1.984289556e-04f, 2.782213187e-06f);
    return m_copysign_f32(a < 1 ? MA(a * z, p, a) : e - 0.25f / e, x);
}
FN float m_cosh_f32(float x)
{
    float e = half_exp_f32(m_fabs_f32(x));
    return e + 0.25f / e;
}
/* 1 - 2 / (e^2x + 1) */
FN float m_tanh_f32(float x)
{
    float a = m_fabs_f32(x), z = a * a, held = a > 16 ? 16 : a;
    float zero = ROUNDER_F32 + 127, shifted = exp_shifted_f32(2 * held, zero);
    struct exp_f32 s = exp_split_f32(2 * held, shifted, zero);
    float two_n = pow2_f32(s.n), far = 1 - 2 * inverse_f32(MA(two_n, exp_tail_f32(s.r), two_n) + 1);
    float p = poly4_f32(z, -3.333328068e-01f, 1.333140582e-01f, -5.373651534e-02f, 2.062816732e-02f, -5.692296196e-03f);
    return signed_f32(a < 0.625f ? MA(a * z, p, a) : far, x);
}

/* erf(x) / x - 1 of z = x^2, below 1 */
FN float erf_slope_f32(float z)
{
    return poly6_f32(z, 1.283791661e-01f, -3.761262596e-01f, 1.128357872e-01f, -2.68533472e-02f, 5.187162198e-03f,
                     -7.997853099e-04f, 7.806903886e-05f);
}
FN float m_erf_near_f32(float x) { return MA(x, erf_slope_f32(x * x), x); }
/* 1 - p^4 beyond 1, with p fitted to the fourth root of erfc, about a point near 1 where p is nearest to 24 bits: there
 * its error counts most.  at_most_f32 loses a NaN, which is not beyond. */
FN float m_erf_f32(float x)
{
    float a = m_fabs_f32(x), p = erf_slope_f32(a * a), t = at_most_f32(a, 4) - 1.02734375f;
    float q = horner8_f32(t, 6.184128523e-01f, -4.151355922e-01f, 8.477911353e-03f, 5.034525692e-02f, -4.427781329e-03f,
                          -5.317983218e-03f, 1.35988649e-03f, 7.346020539e-06f, -2.387788845e-05f);
    q *= q;
    return signed_f32(a >= 1 ? MA(-q, q, 1) : MA(a, p, a), x);
}

/* x g(w) with w = -log(1 - x^2), as x + x (g(w) - 1): of w below 6.53, and beyond. */
#define ERFINV_FAR_F32 0x1.8p-10f /* the 1 - x^2 down from which it is far */
FN float erfinv_near_f32(float x, float w)
{
    float p = horner10_f32(w, -1.137730703e-1f, 2.320134342e-1f, 1.155128144e-2f, -2.341262298e-3f, -1.181341722e-4f,
                           3.739012027e-5f, 7.322390957e-6f, -2.934551503e-6f, 3.865840768e-7f, -2.458134674e-8f,
                           6.38429698e-10f);
    return MA(x, p, x);
}
FN float erfinv_far_f32(float x, float w)
{
    float p = horner9_f32(w - 12, 2.299327135f, 1.453659981e-1f, -2.955375006e-3f, 1.164606001e-4f, -5.466174116e-6f,
                          2.493230795e-7f, -8.721601219e-9f, 3.735163012e-10f, 7.819770526e-11f, -2.423544872e-11f);
    return MA(x, p, x);
}
/* 1 - x^2, 2^-23 at least if |x| < 1 */
FN float erfinv_rest_f32(float x)
{
#if FAST_FMA
    return MA(-x, x, 1);
#else
    float a = m_fabs_f32(x);
    return (1 - a) * (1 + a);
#endif
}
/* -log t = -n ln 2 - log(1 + f) for t = 2^n (1 + f), 1 + f between 2/3 and 4/3: of a w as small as it may be no more
 * is asked than that 1 + w be right.  The bits of n stay where they are. */
FN float erfinv_log_f32(float t)
{
    uint32_t u = bits_f32(t), n = (u - 0x3f2aaaabu) & 0xff800000u;
    float f = f32_bits(u - n) - 1;
    float q = horner7_f32(f, -9.999993443e-1f, 4.999975264e-1f, -3.334170878e-1f, 2.501754165e-1f, -1.972670853e-1f,
                          1.626752615e-1f, -1.746647358e-1f, 1.607655138e-1f);
    float e = (float)(int32_t)n;
#if FAST_FMA
    return MA(e, -8.262958294e-08f, f * q);
#else
    return e * -8.262577467e-08f + (e * -3.808281815e-12f + f * q); /* the first product is exact */
#endif
}
FN float m_erfinv_f32(float x)
{
    float a = m_fabs_f32(x), t = erfinv_rest_f32(x), w = erfinv_log_f32(t), y;
#ifdef __CUDACC__ /* one in 1,400 of the numbers that random ones are made of is far */
    if (t > ERFINV_FAR_F32)
        y = erfinv_near_f32(x, w);
    else
        y = erfinv_far_f32(x, w);
#else
    float near = erfinv_near_f32(x, w), far = erfinv_far_f32(x, w);
    y = t > ERFINV_FAR_F32 ? near : far;
#endif
    float out = a == 1 ? x * INFINITY : NAN;
    return a < 1 ? (x == 0 ? x : y) : out;
}

/* log2 of a positive double to 35 bits: what the functions below need of it. */
FN double log2_wide(double x)
{
    uint64_t u = bits_f64(x) - 0x3fe6a09e00000000u;
    double e = f64_bits((u >> 52 ^ 0x800) | 0x4330000000000000u) - 4503599627372544.0; /* signed, as double */
    double f = f64_bits((u & 0x000fffffffffffffu) + 0x3fe6a09e00000000u) - 1;
    double p =
        poly12_f64(f, 1.44269504086870515, -7.21347520868757086e-1, 4.80898361395356577e-1, -3.60673674826072987e-1,
                   2.88537293483468904e-1, -2.40453165737309654e-1, 2.06175359081345627e-1, -1.8030059708136878e-1,
                   1.58769804840087736e-1, -1.43156514416573233e-1, 1.44748472488428148e-1, -1.42839074668154153e-1,
                   7.73700488044156698e-2);
    return m_fma_f64(f, p, e);
}
#define LN2 0.69314718055994530942

FN float m_asinh_f32(float x)
{
    double a = m_fabs_f32(x), near = a * (1 - a * a * (1 / 6.0));
    double y = LN2 * log2_wide(a + m_sqrt_f64(a * a + 1));
    return m_copysign_f32((float)(a < 1e-3 ? near : a < INFINITY ? y : a), x);
}
FN float m_acosh_f32(float x)
{
    double a = x, y = LN2 * log2_wide(a + m_sqrt_f64(a * a - 1));
    float out = x < 1 ? NAN : x;
    return x >= 1 && x < INFINITY ? (float)y : out;
}
FN float m_atanh_f32(float x)
{
    double a = m_fabs_f32(x), near = a * (1 + a * a * (1 / 3.0));
    double y = 0.5 * LN2 * log2_wide((1 + a) / (1 - a));
    float out = a == 1 ? INFINITY : NAN;
    return m_copysign_f32(a < 1 ? (float)(a < 1e-3 ? near : y) : out, x);
}

#if FAST_FMA
/* What float lacks for a power, as two: the logarithm, whose error counts b times as much. */
struct two_f32 {
    float high, low;
};
/* log2 to 31 bits of the positive finite x = 2^e m whose bits these are, plus `more`.  m is between 0.841 and 1.682, of
 * which the upper half is divided by a c near the root of 2 whose logarithm is one of 16 bits to 35 of them: log2 c +
 * (2 / ln 2) artanh q with q = (m - c) / (m + c), below 0.0897. */
FN struct two_f32 log2_two_f32(uint32_t bits, float more)
{
    uint32_t u = bits - 0x3f5744fdu, upper = (uint32_t)((int32_t)(u << 9) >> 31);
    float m = f32_bits((u & 0x007fffffu) + 0x3f5744fdu), e = (float)((int32_t)u >> 23) + more;
    float c = f32_bits(0x3f800000u + (upper & 0x003509dau)), k = e + f32_bits(upper & 0x3f000a00u);
    float f = m - c, d = m + c, lost = m - (d - c), over = inverse_f32(d);
    float q = f * over, s = q * q, w = q * s, rest = MA(-q, lost, MA(-q, d, f)) * over;
    float p = poly2_f32(s, 9.61796701e-1f, 5.770632625e-1f, 4.16477561e-1f);
    float line = 2.88539004f * q, low = MA(2.88539004f, q, -line); /* 2 / ln 2 has another 3.85e-8 */
    low = MA(2.88539004f, MA(rest, s, rest), MA(q, 3.851925978e-08f, low));
    float sum = MA(w, p, line), high = k + sum;
    low = ((k - high) + sum) + (MA(w, p, line - sum) + low);
    struct two_f32 y = { high, low };
    return y;
}
/* 2^(v + low), which is 0 or infinite if that is beyond 200. */
FN float exp2_two_f32(float v, float low)
{
    float most = v > 200 ? 200 : v, held = most < -200 ? -200 : most;
    float zero = ROUNDER_F32 + 254, shifted = held + zero, r = (held - (shifted - zero)) + low;
    float p = poly5_f32(r, 2.402265072e-1f, 5.550405011e-2f, 9.61808674e-3f, 1.333797118e-3f, 1.545211126e-4f,
                        1.432043246e-5f);
    return scale_f32(1 + MA(r, 6.931471825e-1f, r * r * p), bits_f32(shifted));
}
/* Of a normal positive a, and a b of which b times what the logarithm lost is a fraction. */
FN int m_pow_is_near_f32(float a, float b)
{
    return (bits_f32(a) - 0x00800000u < 0x7f000000u) & (m_fabs_f32(b) < 32768);
}
/* The power in two halves, which loops of the CPU take one after the other: its logarithm, and what that is of. */
FN struct two_f32 pow_log2_f32(float a, float b)
{
    struct two_f32 l = log2_two_f32(bits_f32(a), 0);
    float v = b * l.high;
    struct two_f32 y = { v, MA(b, l.low, MA(b, l.high, -v)) };
    return y;
}
FN float m_pow_near_f32(float a, float b)
{
    struct two_f32 log = pow_log2_f32(a, b);
    float y = exp2_two_f32(log.high, log.low);
    return b == 2 ? a * a : y;
}
/* The same of m >= 0 and any b; NaN does not reach the result where m = 1 or b = 0. */
FN float pow_of_f32(float m, float b)
{
    int tiny = m < 1.17549435e-38f;
    struct two_f32 l = log2_two_f32(bits_f32(tiny ? m * 8388608 : m), tiny ? -23.0f : 0.0f);
    float most = m < INFINITY ? l.high : m, high = m == 0 ? -INFINITY : most;
    float v = b * high, low = MA(b, l.low, MA(b, high, -v));
    v = m == 1 || b == 0 ? 0 : v;
    low = m_fabs_f32(v) < 200 ? low : 0; /* of infinite ones it is NaN */
    float y = exp2_two_f32(v, v == 0 ? 0 : low);
    return v != v ? v : y;
}
#else
/* By doubles. */
FN float pow_of_f32(float m, float b)
{
    double l = log2_wide(m), v = b * (m == 0 ? -INFINITY : m < INFINITY ? l : m);
    v = m == 1 || b == 0 ? 0 : v;
    v = v > 200 ? 200 : v < -200 ? -200 : v;
    double shifted = v + ROUNDER_F64, r = v - (shifted - ROUNDER_F64);
    double p =
        poly7_f64(r, 9.99999999961681985e-1, 6.93147180728448831e-1, 2.40226511981572605e-1, 5.55041035344246078e-2,
                  9.61802725384531924e-3, 1.33339225750141351e-3, 1.54692910279868547e-4, 1.52019160221561098e-5);
    return (float)(p * f64_bits((bits_f64(shifted) + 1023) << 52));
}
#endif

/* 2^(b log2 |a|).  C's table of special cases, a line each: |a| = 1 or b = 0 gives 1 before NaN
 * can; a negative base needs an integer exponent, and an odd one keeps its sign. */
FN float m_pow_f32(float a, float b)
{
    float m = m_fabs_f32(a), y = pow_of_f32(m, b), half = b * 0.5f;
    int whole = m_trunc_f32(b) == b, odd = whole && m_trunc_f32(half) != half;
    y = odd ? m_copysign_f32(y, a) : y;
    return a < 0 && !whole && m < INFINITY ? NAN : y;
}

/* a - q b where that is a float: exact. */
FN float m_residue_f32(float a, float q, float b)
{
#if FAST_FMA
    return MA(-q, b, a);
#else
    return (float)(a - (double)q * b);
#endif
}
static inline float m_fmod_f32(float a, float b) { return fmodf(a, b); }

#undef MA
