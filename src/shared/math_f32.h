/* math_f32.h: the maths library of float on the CPU. */
#include <math.h>

FN float m_fabs_f32(float x) { return __builtin_fabsf(x); }
FN float m_sqrt_f32(float x) { return __builtin_sqrtf(x); }
FN float m_exp_f32(float x) { return __builtin_expf(x); }
FN float m_expm1_f32(float x) { return __builtin_expm1f(x); }
FN float m_log_f32(float x) { return __builtin_logf(x); }
FN float m_log2_f32(float x) { return __builtin_log2f(x); }
FN float m_log10_f32(float x) { return __builtin_log10f(x); }
FN float m_log1p_f32(float x) { return __builtin_log1pf(x); }
FN float m_sin_f32(float x) { return __builtin_sinf(x); }
FN float m_cos_f32(float x) { return __builtin_cosf(x); }
FN float m_tan_f32(float x) { return __builtin_tanf(x); }
FN float m_asin_f32(float x) { return __builtin_asinf(x); }
FN float m_acos_f32(float x) { return __builtin_acosf(x); }
FN float m_atan_f32(float x) { return __builtin_atanf(x); }
FN float m_sinh_f32(float x) { return __builtin_sinhf(x); }
FN float m_cosh_f32(float x) { return __builtin_coshf(x); }
FN float m_tanh_f32(float x) { return __builtin_tanhf(x); }
FN float m_asinh_f32(float x) { return __builtin_asinhf(x); }
FN float m_acosh_f32(float x) { return __builtin_acoshf(x); }
FN float m_atanh_f32(float x) { return __builtin_atanhf(x); }
FN float m_erf_f32(float x) { return __builtin_erff(x); }
FN float m_floor_f32(float x) { return __builtin_floorf(x); }
FN float m_ceil_f32(float x) { return __builtin_ceilf(x); }
FN float m_trunc_f32(float x) { return __builtin_truncf(x); }
FN float m_rint_f32(float x) { return __builtin_rintf(x); }
FN float m_pow_f32(float a, float b) { return __builtin_powf(a, b); }
FN float m_fmod_f32(float a, float b) { return __builtin_fmodf(a, b); }
FN float m_atan2_f32(float a, float b) { return __builtin_atan2f(a, b); }
FN float m_copysign_f32(float a, float b) { return __builtin_copysignf(a, b); }
FN float m_rsqrt_f32(float x) { return 1 / m_sqrt_f32(x); }

FN float m_erfinv_f32(float x) { return (float)m_erfinv_f64(x); }
