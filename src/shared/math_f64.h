/* math_f64.h: the maths library of double; math_f32.h says how it is written.
 *
 * power alone is libm's: it needs a logarithm of twice the bits. */

#if defined __FMA__ || defined __ARM_FEATURE_FMA || defined __CUDACC__
#define FAST_FMA 1
FN double m_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
#define FAST_FMA 0
FN double m_fma_f64(double a, double b, double c) { return a * b + c; }
#endif

FN double m_fabs_f64(double x) { return __builtin_fabs(x); }
FN double m_sqrt_f64(double x) { return __builtin_sqrt(x); }
FN double m_rsqrt_f64(double x) { return 1 / __builtin_sqrt(x); }
FN double m_floor_f64(double x) { return __builtin_floor(x); }
FN double m_ceil_f64(double x) { return __builtin_ceil(x); }
FN double m_trunc_f64(double x) { return __builtin_trunc(x); }
FN double m_rint_f64(double x) { return __builtin_rint(x); }
FN double m_copysign_f64(double x, double sign) { return __builtin_copysign(x, sign); }

#define T double
#define P(f) f##_f64
#define MA m_fma_f64
#include "shared/math_poly.h"
#undef T
#undef P

/* Adding and taking away 1.5 * 2^52 rounds |x| < 2^51 to an integer, which the sum's low bits
 * show. */
#define ROUNDER_F64 6755399441055744.0
#define ROUNDER_BITS_F64 0x4338000000000000u

FN double pow2_f64(uint64_t biased) { return f64_bits(biased << 52); } /* 2^(biased - 1023) */

/* x = n ln 2 + r with |r| < 0.35; |x| < 2000 or NaN. */
struct exp_f64 {
    double r;
    uint64_t n; /* n + 2046, which is positive */
};
FN struct exp_f64 exp_split_f64(double x)
{
    double shifted = x * 1.44269504088896340736 + ROUNDER_F64, n = shifted - ROUNDER_F64;
    struct exp_f64 y = { MA(n, -0x1.a39ef35793c76p-33, MA(n, -0x1.62e42feep-1, x)),
                         bits_f64(shifted) - ROUNDER_BITS_F64 + 2046 };
    return y;
}
/* 2^n in two factors, so that subnormal results round once and overflow becomes infinite. */
FN double scale_f64(double x, uint64_t n)
{
    uint64_t half = n >> 1;
    return x * pow2_f64(half) * pow2_f64(n - half);
}
/* e^r - 1 */
FN double exp_tail_f64(double r)
{
    return MA(r * r,
              poly9_f64(r, 5.00000000000001221e-1, 1.66666666666664409e-1, 4.166666666651761e-2, 8.33333333348325669e-3,
                        1.38888889470339927e-3, 1.98412695254418243e-4, 2.48014893758881968e-5, 2.75575699775607528e-6,
                        2.76316530910873491e-7, 2.50058763945105972e-8),
              r);
}

FN double m_exp_f64(double x)
{
    struct exp_f64 s = exp_split_f64(x > 710 ? 710 : x < -746 ? -746 : x);
    return scale_f64(1 + exp_tail_f64(s.r), s.n);
}

/* (2^n - 1) + 2^n (e^r - 1) */
FN double m_expm1_f64(double x)
{
    struct exp_f64 s = exp_split_f64(x > 710 ? 710 : x < -40 ? -40 : x);
    double p =
        poly10_f64(s.r, 0.5, 1.66666666666666768e-1, 4.16666666666665741e-2, 8.33333333332117107e-3,
                   1.38888888889440319e-3, 1.98412698877584165e-4, 2.48015871977034641e-5, 2.75572421829545537e-6,
                   2.75573851298453507e-7, 2.51098566024060386e-8, 2.08802993463680081e-9);
    double h = pow2_f64(s.n - 1024); /* 2^(n - 1): 2^1024 overflows */
    double y = 2 * (h * MA(s.r * s.r, p, s.r) + (h - 0.5));
    return x == 0 ? x : y;
}

/* x = 2^e (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); x > 0 and finite. */
struct log_f64 {
    double f, e;
};
FN struct log_f64 log_split_f64(double x)
{
    int tiny = x < 0x1p-1022;
    uint64_t u = bits_f64(tiny ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcdu;
    /* the twelve bits above are e, with a sign */
    double e = f64_bits(((u >> 52) ^ 0x800) | 0x4330000000000000u) - 0x1.00000000008p52;
    struct log_f64 y = { f64_bits((u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1, e - (tiny ? 54.0 : 0.0) };
    return y;
}
/* With s = f / (2 + f), log(1 + f) = 2 atanh(s) = f - (h - s (h + s^2 P(s^2))) where h = f^2 / 2;
 * this is the second term of the product. */
FN double log_tail_f64(double f, double h)
{
    double s = f / (2 + f), z = s * s;
    double p =
        poly6_f64(z, 6.66666666666673513e-1, 3.99999999994091526e-1, 2.85714287437742465e-1, 2.22221984156646457e-1,
                  1.81835732628377961e-1, 1.53138036152717927e-1, 1.47985956888774944e-1);
    return s * MA(z, p, h);
}
/* y where x is in the domain of a logarithm with its pole at `pole`; else what belongs there. */
FN double log_edges_f64(double y, double x, double pole)
{
    double out = x == pole ? -INFINITY : NAN;
    return x > pole ? (x < INFINITY ? y : x) : out;
}
/* log(x (1 + rest)) for a tiny rest, x > 0 and finite. */
FN double log_sum_f64(double x, double rest)
{
    struct log_f64 s = log_split_f64(x);
    double h = 0.5 * s.f * s.f;
    double low = MA(s.e, 0x1.a39ef35793c76p-33, log_tail_f64(s.f, h) + rest);
    return MA(s.e, 0x1.62e42feep-1, s.f - (h - low));
}

FN double m_log_f64(double x) { return log_edges_f64(log_sum_f64(x, 0), x, 0); }

/* log(1 + f) in two parts, the first short enough that a product with 32 bits is exact. */
struct sum_f64 {
    double head, rest;
};
FN struct sum_f64 log_parts_f64(double f)
{
    double h = 0.5 * f * f, head = f64_bits(bits_f64(f - h) & 0xffffffff00000000u);
    struct sum_f64 y = { head, ((f - head) - h) + log_tail_f64(f, h) };
    return y;
}
FN double m_log2_f64(double x)
{
    struct log_f64 s = log_split_f64(x);
    struct sum_f64 l = log_parts_f64(s.f);
    double p = l.head * 0x1.71547652p+0, sum = s.e + p;
    double low = MA(l.rest, 0x1.71547652p+0, (l.head + l.rest) * 0x1.705fc2eefa2p-33);
    return log_edges_f64(sum + (((s.e - sum) + p) + low), x, 0);
}
FN double m_log10_f64(double x)
{
    struct log_f64 s = log_split_f64(x);
    struct sum_f64 l = log_parts_f64(s.f);
    double e = s.e * 0x1.34413508p-2, p = l.head * 0x1.bcb7b152p-2, sum = e + p;
    double low = MA(l.rest, 0x1.bcb7b152p-2, (l.head + l.rest) * 0x1.b9438ca9aadd5p-36);
    low = MA(s.e, 0x1.f79fef311f12bp-34, low);
    return log_edges_f64(sum + (((e - sum) + p) + low), x, 0);
}

/* u = 1 + x and what its rounding lost, relative to u. */
FN double m_log1p_f64(double x)
{
    double u = 1 + x, back = u - 1, lost = (1 - (u - back)) + (x - back);
    double y = log_edges_f64(log_sum_f64(u, lost / u), x, -1);
    return x == 0 ? x : y;
}

/* An angle less the nearest multiple of pi/2: r + tail, r in [-pi/4, pi/4], and the multiple
 * modulo 4. */
struct angle_f64 {
    double r, tail;
    uint32_t quarter;
};
/* |x| < NEAR_F64: n times the first two parts of pi/2 is exact, and what the second subtraction
 * rounds away is kept. */
#define NEAR_F64 1e6
FN struct angle_f64 angle_near_f64(double x)
{
    double shifted = x * 0.63661977236758134308 + ROUNDER_F64, n = shifted - ROUNDER_F64;
    double a = x - n * 0x1.921fb544p+0, b = n * 0x1.0b4611a6p-34;
    double c = a - b, back = c - a, lost = (a - (c - back)) - (b + back);
    double d = lost - n * 0x1.3198a2e037073p-69, r = c + d;
    struct angle_f64 y = { r, (c - r) + d, (uint32_t)bits_f64(shifted) };
    return y;
}

/* Any angle of at least 1: m 2^e times 2 / pi modulo 4, from the 192 bits of 2 / pi that matter
 * (Payne and Hanek).  The table starts with 64 zero bits.  Bits of weight 4 / 2^e and more only
 * add multiples of 4. */
__attribute__((noinline, unused)) static struct angle_f64 angle_far_f64(double x)
{
    static const uint64_t two_over_pi[] = { 0,
                                            0xa2f9836e4e441529,
                                            0xfc2757d1f534ddc0,
                                            0xdb6295993c439041,
                                            0xfe5163abdebbc561,
                                            0xb7246e3a424dd2e0,
                                            0x06492eea09d1921c,
                                            0xfe1deb1cb129a73e,
                                            0xe88235f52ebb4484,
                                            0xe99c7026b45f7e41,
                                            0x3991d639835339f4,
                                            0x9c845f8bbdf9283b,
                                            0x1ff897ffde05980f,
                                            0xef2f118b5a0a6d1f,
                                            0x6d367ecf27cb09b7,
                                            0x4f463f669e5fea2d,
                                            0x7527bac7ebe5f17b,
                                            0x3d0739f78a5292ea,
                                            0x6bfb5fb11f8d5d08,
                                            0x56033046fc7b6bab,
                                            0xf0cfbc209af4361d };
    typedef unsigned __int128 wide;
    uint64_t u = bits_f64(x), m = (u & 0xfffffffffffffu) | 0x10000000000000u, w[3];
    int e = (int)(u >> 52 & 0x7ff) - 1075, at = e + 62;
    struct angle_f64 y = { x - x, 0, 0 };
    if (e == 972) /* infinite or NaN */
        return y;
    for (int i = 0; i < 3; i++) {
        const uint64_t *p = two_over_pi + at / 64 + i;
        w[i] = at % 64 ? p[0] << at % 64 | p[1] >> (64 - at % 64) : p[0];
    }
    wide low = (wide)m * w[2], mid = (wide)m * w[1] + (uint64_t)(low >> 64);
    uint64_t high = m * w[0] + (uint64_t)(mid >> 64);
    wide turn = (wide)high << 64 | (uint64_t)mid; /* in units of 2^-126 quarters */
    wide part = turn << 2 | (uint64_t)low >> 62;  /* of a quarter, over 2^128 */
    int up = (int)(part >> 127);                  /* nearer to the next one */
    y.quarter = (uint32_t)(high >> 62) + (uint32_t)up;
    part = up ? -part : part;
    int zeros = (uint64_t)(part >> 64) ? __builtin_clzll((uint64_t)(part >> 64)) : 64;
    part <<= zeros;
    double f = (double)(uint64_t)(part >> 75) * 0x1p-53, g = (double)(uint64_t)(part >> 11) * 0x1p-117;
    double scale = pow2_f64((uint64_t)(1023 - zeros));
    double p = f * 0x1.921fb54442d18p+0;
    double q = fma(f, 0x1.921fb54442d18p+0, -p) + (f * 0x1.1a62633145c07p-54 + g * 0x1.921fb54442d18p+0);
    y.r = (p + q) * scale;
    y.tail = (p - (p + q) + q) * scale;
    if ((x < 0) != up) {
        y.r = -y.r;
        y.tail = -y.tail;
    }
    y.quarter = x < 0 ? -y.quarter : y.quarter;
    return y;
}

/* sin(r + tail) = sin r + tail cos r, cos(r + tail) = cos r - tail sin r */
struct circle_f64 {
    double s, c;
};
FN struct circle_f64 circle_f64(struct angle_f64 a)
{
    double z = a.r * a.r, h = 0.5 * z, one = 1 - h;
    double p = poly5_f64(z, -1.66666666666666297e-1, 8.33333333332184241e-3, -1.98412698293614389e-4,
                         2.75573135400049865e-6, -2.50507346907215153e-8, 1.589545435386414e-10);
    double q = poly5_f64(z, 4.1666666666666595e-2, -1.38888888888733376e-3, 2.48015872889975697e-5,
                         -2.75573142153614389e-7, 2.08757051291312214e-9, -1.13587338122334433e-11);
    struct circle_f64 y = { a.r + MA(a.r * z, p, a.tail * one), one + (((1 - one) - h) + MA(z * z, q, -a.r * a.tail)) };
    return y;
}
FN double sin_of_f64(struct angle_f64 a)
{
    struct circle_f64 p = circle_f64(a);
    return f64_bits(bits_f64(a.quarter & 1 ? p.c : p.s) ^ ((uint64_t)(a.quarter & 2) << 62));
}
FN double cos_of_f64(struct angle_f64 a)
{
    a.quarter++;
    return sin_of_f64(a);
}
FN double tan_of_f64(struct angle_f64 a)
{
    struct circle_f64 p = circle_f64(a);
    int odd = a.quarter & 1;
    return (odd ? -p.c : p.s) / (odd ? p.s : p.c);
}
FN int m_is_near_f64(double x) { return m_fabs_f64(x) < NEAR_F64; }
FN double m_sin_near_f64(double x) { return x == 0 ? x : sin_of_f64(angle_near_f64(x)); }
FN double m_cos_near_f64(double x) { return cos_of_f64(angle_near_f64(x)); }
FN double m_tan_near_f64(double x) { return x == 0 ? x : tan_of_f64(angle_near_f64(x)); }
FN double m_sin_f64(double x) { return m_is_near_f64(x) ? m_sin_near_f64(x) : sin_of_f64(angle_far_f64(x)); }
FN double m_cos_f64(double x) { return m_is_near_f64(x) ? m_cos_near_f64(x) : cos_of_f64(angle_far_f64(x)); }
FN double m_tan_f64(double x) { return m_is_near_f64(x) ? m_tan_near_f64(x) : tan_of_f64(angle_far_f64(x)); }

#define PIO2_F64 1.57079632679489655800
#define PIO2_LOW_F64 6.12323399573676589e-17

/* (arcsin(s) - s) / s for z = s^2 <= 1/4 */
FN double asin_tail_f64(double z)
{
    return z * poly12_f64(z, 1.66666666666667601e-1, 7.49999999997081751e-2, 4.46428571746365563e-2,
                          3.0381942705211093e-2, 2.23722150899957548e-2, 1.73516097402348461e-2, 1.39808522064025897e-2,
                          1.13986217796737139e-2, 1.07820377327920089e-2, 3.69912825447574504e-3,
                          2.17263662949258272e-2, -2.10274226591355418e-2, 3.26472907083359687e-2);
}
/* pi/2 - 2 arcsin(sqrt((1 - |x|) / 2)) beyond 1/2, where the root's first half is subtracted on its
 * own so that its rounding does not count twice. */
FN double m_asin_f64(double x)
{
    double a = m_fabs_f64(x);
    int big = a > 0.5;
    double z = big ? (1 - a) * 0.5 : a * a, s = m_sqrt_f64(z), t = asin_tail_f64(z);
    double head = f64_bits(bits_f64(s) & 0xffffffff00000000u), rest = (z - head * head) / (s + head);
    double far = (PIO2_F64 - 2 * head) - (2 * MA(s, t, z == 0 ? 0 : rest) - PIO2_LOW_F64);
    return m_copysign_f64(big ? far : MA(a, t, a), x);
}
FN double m_acos_f64(double x)
{
    double a = m_fabs_f64(x);
    int big = a > 0.5;
    double z = big ? (1 - a) * 0.5 : a * a, s = big ? m_sqrt_f64(z) : x, t = asin_tail_f64(z);
    double root = 2 * MA(s, t, s);
    double far = x < 0 ? 2 * PIO2_F64 - (root - 2 * PIO2_LOW_F64) : root;
    return big ? far : PIO2_F64 - (s + MA(s, t, -PIO2_LOW_F64));
}

/* arctan(high / low) for 0 <= low <= high, pi/4 taken off where that brings it nearer to zero. */
FN double atan_ratio_f64(double low, double high)
{
    int mid = low > 0.4142135623730950488 * high;
    double t = (mid ? low - high : low) / (mid ? low + high : high), z = t * t;
    double p =
        poly10_f64(z, -3.33333333333331983e-1, 1.99999999999536243e-1, -1.42857142801918469e-1, 1.11111107830103348e-1,
                   -9.09089774151846525e-2, 7.69205989501829807e-2, -6.66310022009500569e-2, 5.84786071870299073e-2,
                   -5.03917449682241836e-2, 3.80612479835222561e-2, -1.79035992101153861e-2);
    double r = MA(t * z, p, mid ? 0.5 * PIO2_LOW_F64 : 0.0);
    return mid ? 0.5 * PIO2_F64 + (t + r) : t + r;
}
FN double m_atan_f64(double x)
{
    double a = m_fabs_f64(x);
    int big = a > 1;
    double r = atan_ratio_f64(big ? 1 : a, big ? a : 1);
    return m_copysign_f64(big ? PIO2_F64 - (r - PIO2_LOW_F64) : r, x);
}
/* The octant next to the axis, mirrored at the diagonal and at the vertical axis.  Scaling keeps
 * the sum of two large numbers finite and bits in small ones; both infinite are on the diagonal. */
FN double m_atan2_f64(double y, double x)
{
    double a = m_fabs_f64(y), b = m_fabs_f64(x), high = a > b ? a : b, low = a > b ? b : a;
    double scale = high > 0x1p1000 ? 0.5 : high < 0x1p-900 ? 0x1p100 : 1;
    int same = high == low;
    double r = atan_ratio_f64(same ? high != 0 : low * scale, same ? 1 : high * scale);
    r = a > b ? PIO2_F64 - (r - PIO2_LOW_F64) : r;
    r = bits_f64(x) >> 63 ? 2 * PIO2_F64 - (r - 2 * PIO2_LOW_F64) : r;
    return m_copysign_f64(r, y);
}

/* e^a / 2, a >= 0 */
FN double half_exp_f64(double a)
{
    struct exp_f64 s = exp_split_f64(a > 711 ? 711 : a);
    return scale_f64(1 + exp_tail_f64(s.r), s.n - 1);
}
FN double m_sinh_f64(double x)
{
    double a = m_fabs_f64(x), z = a * a, e = half_exp_f64(a);
    double p =
        poly6_f64(z, 1.66666666666666685e-1, 8.33333333333291168e-3, 1.98412698415935054e-4, 2.75573191066551894e-6,
                  2.50521310304896924e-8, 1.60566552647398019e-10, 7.77676602067973575e-13);
    return m_copysign_f64(a < 1 ? MA(a * z, p, a) : e - 0.25 / e, x);
}
FN double m_cosh_f64(double x)
{
    double e = half_exp_f64(m_fabs_f64(x));
    return e + 0.25 / e;
}
/* 1 - 2 / (e^2x + 1) */
FN double m_tanh_f64(double x)
{
    double a = m_fabs_f64(x), z = a * a, far = 1 - 2 / (m_exp_f64(2 * (a > 20 ? 20 : a)) + 1);
    double p =
        poly10_f64(z, -3.33333333333332982e-1, 1.33333333333265858e-1, -5.39682539637429612e-2, 2.18694883854108034e-2,
                   -8.86323259491187537e-3, 3.59209197052668718e-3, -1.4555424911179473e-3, 5.88443131368826316e-4,
                   -2.33378337430159593e-4, 8.33120849030683723e-5, -1.94921329282057105e-5);
    return m_copysign_f64(a < 0.55 ? MA(a * z, p, a) : far, x);
}

/* log(x + sqrt(x^2 + 1)) = log1p(x + x^2 / (1 + sqrt(x^2 + 1))); log(2x) for large x. */
FN double m_asinh_f64(double x)
{
    double a = m_fabs_f64(x), z = a * a;
    int big = a > 0x1p30;
    double v = a + z / (1 + m_sqrt_f64(z + 1)), u = 1 + v, lost = v - (u - 1);
    double near = log_sum_f64(big ? a : u, big ? 0 : (v < 1 ? lost : 0) / u);
    double y = big ? near + 0.69314718055994530942 : near;
    return m_copysign_f64(a == 0 ? a : a < INFINITY ? y : a, x);
}
/* log1p(t + sqrt(t (t + 2))) with t = x - 1 */
FN double m_acosh_f64(double x)
{
    int big = x > 0x1p30;
    double t = x - 1, v = t + m_sqrt_f64(t * (t + 2)), u = 1 + v, lost = v - (u - 1);
    double near = log_sum_f64(big ? x : u, big ? 0 : (v < 1 ? lost : 0) / u);
    double y = big ? near + 0.69314718055994530942 : near, out = x < 1 ? NAN : x;
    return x >= 1 && x < INFINITY ? y : out;
}
/* log1p(2x / (1 - x)) / 2 */
FN double m_atanh_f64(double x)
{
    double a = m_fabs_f64(x), v = a < 0.5 ? 2 * a + 2 * a * (a / (1 - a)) : 2 * (a / (1 - a));
    return m_copysign_f64(0.5 * m_log1p_f64(v), x);
}

/* 1 - e^q(x - 1) beyond 1, with q fitted to log(erfc) */
FN double m_erf_f64(double x)
{
    double a = m_fabs_f64(x), z = a * a, t = (a > 6 ? 6 : a) - 1, t2 = t * t, t4 = t2 * t2;
    double p =
        poly12_f64(z, 1.28379167095512586e-1, -3.7612638903184098e-1, 1.12837916709711092e-1, -2.68661706480364457e-2,
                   5.22397765278738175e-3, -8.54832854427191899e-4, 1.2055386624771269e-4, -1.49268949269784677e-5,
                   1.6481325677425936e-6, -1.65605010644280195e-7, 1.6039549775754349e-8, -1.65804572966800577e-9,
                   1.4562655637070277e-10);
    double q1 =
        poly9_f64(t, -1.84960550993324824, -2.63896751423479348, -8.43107256358425317e-1, -4.15610980466720598e-2,
                  1.00338254239668544e-2, -1.9779028728951634e-3, 2.37323710510503356e-4, 2.62744584082378177e-5,
                  -2.71523283504125336e-5, 9.59905440659155099e-6);
    double q2 = poly8_f64(t, -2.04917331318166429e-6, 1.34351543768077771e-7, 1.02670977683143655e-7,
                          -5.43233043993964168e-8, 1.56553736842236956e-8, -3.0353465232174142e-9,
                          3.94632912702620123e-10, -3.12496498210641803e-11, 1.14063499652684573e-12);
    double far = 1 - m_exp_f64(MA(t4 * t4 * t2, q2, q1));
    return m_copysign_f64(a < 1 ? MA(a, p, a) : far, x);
}

/* x g(w) with w = -log(1 - x^2); beyond w = 6.25 polynomials in sqrt(w). */
FN double m_erfinv_f64(double x)
{
    double a = m_fabs_f64(x), u = (1 - a) * (1 + a);
    double w = -log_sum_f64(u, a < 0.5 ? MA(-a, a, 1 - u) / u : 0), root = m_sqrt_f64(w);
    double t = w - 3.125, t2 = t * t, t3 = t2 * t, t8 = t2 * t3 * t3;
    double p = MA(t8 * t3,
                  poly11_f64(t, -1.29769861970436422e-11, 2.63035120575821052e-12, -8.11651399905630153e-14,
                             -3.9989190343439458e-14, 6.59412940206206016e-15, -4.29331643894171286e-17,
                             -1.29997798232055149e-16, 1.57646723923260664e-17, 1.14271142798356337e-18,
                             -3.57752388012532601e-19, -9.78651969619355094e-22, 3.37939705265635758e-21),
                  poly10_f64(t, 2.40158182425588257e-1, -6.03367087142766319e-3, -7.40702534153920948e-4,
                             1.86734208023987445e-4, -1.38825233958472895e-5, -1.36546918408853116e-6,
                             4.23478819131154934e-7, -2.90703830175760441e-8, -4.11266201026650829e-9,
                             1.05121850137277297e-9, -5.41423771255677962e-11));
    p = MA(t, p, 1.65365456268310274);
    double s = root - 3.25, s2 = s * s, s4 = s2 * s2;
    double q =
        MA(s4 * s4 * s2,
           poly9_f64(s, -4.7319818217663469e-5, 1.24646486971447994e-5, 2.92812835608927888e-6, -3.98451706327052738e-6,
                     1.49465736222794925e-6, -2.97511431493604517e-8, -2.67624565111908987e-7, 1.33633324575564817e-7,
                     -7.32126246272123707e-10, -1.61189701845176711e-8),
           poly9_f64(s, 3.08388561049222076, 1.00525896769416523, 5.37091455354156855e-3, -3.75120850822186673e-3,
                     2.49144209821500163e-3, -1.68827553522727671e-3, 9.53289343410454112e-4, -3.55037820209357622e-4,
                     2.40314293319606969e-5, 6.82871861301433673e-5));
    double v = root - 5.03, v2 = v * v, v4 = v2 * v2;
    double o = MA(v4 * v4 * v,
                  poly8_f64(v, -5.95420269251643381e-8, 2.45424178602810715e-8, -1.27070832449988e-8,
                            6.37533398846626563e-9, -2.91949192189182667e-9, 1.31285211142323431e-9,
                            -4.21816148348874716e-10, -6.63967359701739974e-12, 3.71263299672616839e-11),
                  poly8_f64(v, 4.88021528476240185, 1.01029156925255337, -1.5766691421826933e-4,
                            -2.06085406222958106e-4, 7.310318771317097e-5, -1.88855090350514214e-5,
                            4.32314861651250948e-6, -9.40161097095201558e-7, 2.11880256118293912e-7));
    double y = x * (w < 6.25 ? p : root < 4 ? q : o), out = a == 1 ? x * INFINITY : NAN;
    return a < 1 ? y : out;
}

static inline double m_pow_f64(double a, double b) { return pow(a, b); }

/* a - q b where that is a double: exact.  (Without fused multiply-add this is a call.) */
FN double m_residue_f64(double a, double q, double b) { return __builtin_fma(-q, b, a); }
static inline double m_fmod_f64(double a, double b) { return fmod(a, b); }

#undef MA
