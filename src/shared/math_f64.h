/* math_f64.h: the maths library of double on the CPU. */
#include <math.h>

FN double m_fabs_f64(double x) { return __builtin_fabs(x); }
FN double m_sqrt_f64(double x) { return __builtin_sqrt(x); }
FN double m_exp_f64(double x) { return __builtin_exp(x); }
FN double m_expm1_f64(double x) { return __builtin_expm1(x); }
FN double m_log_f64(double x) { return __builtin_log(x); }
FN double m_log2_f64(double x) { return __builtin_log2(x); }
FN double m_log10_f64(double x) { return __builtin_log10(x); }
FN double m_log1p_f64(double x) { return __builtin_log1p(x); }
FN double m_sin_f64(double x) { return __builtin_sin(x); }
FN double m_cos_f64(double x) { return __builtin_cos(x); }
FN double m_tan_f64(double x) { return __builtin_tan(x); }
FN double m_asin_f64(double x) { return __builtin_asin(x); }
FN double m_acos_f64(double x) { return __builtin_acos(x); }
FN double m_atan_f64(double x) { return __builtin_atan(x); }
FN double m_sinh_f64(double x) { return __builtin_sinh(x); }
FN double m_cosh_f64(double x) { return __builtin_cosh(x); }
FN double m_tanh_f64(double x) { return __builtin_tanh(x); }
FN double m_asinh_f64(double x) { return __builtin_asinh(x); }
FN double m_acosh_f64(double x) { return __builtin_acosh(x); }
FN double m_atanh_f64(double x) { return __builtin_atanh(x); }
FN double m_erf_f64(double x) { return __builtin_erf(x); }
FN double m_floor_f64(double x) { return __builtin_floor(x); }
FN double m_ceil_f64(double x) { return __builtin_ceil(x); }
FN double m_trunc_f64(double x) { return __builtin_trunc(x); }
FN double m_rint_f64(double x) { return __builtin_rint(x); }
FN double m_pow_f64(double a, double b) { return __builtin_pow(a, b); }
FN double m_fmod_f64(double a, double b) { return __builtin_fmod(a, b); }
FN double m_atan2_f64(double a, double b) { return __builtin_atan2(a, b); }
FN double m_copysign_f64(double a, double b) { return __builtin_copysign(a, b); }
FN double m_rsqrt_f64(double x) { return 1 / m_sqrt_f64(x); }

/* From Winitzki's approximation by Newton steps on the complement, which keeps its bits near 1. */
static inline double m_erfinv_f64(double x)
{
    double a = fabs(x), l = log1p(-a * a), b = 4.3307467508 + l / 2;
    double y = sqrt(sqrt(b * b - l / 0.147) - b);
    if (!(a < 1) || a == 0)
        return a == 1 ? copysign(INFINITY, x) : a == 0 ? x : NAN;
    for (int i = 0; i < 4; i++) {
        double e = a > 0.5 ? (1 - a) - erfc(y) : erf(y) - a, d = e * exp(y * y) * 0.88622692545275801365;
        y -= d / (1 + y * d);
    }
    return copysign(y, x);
}
