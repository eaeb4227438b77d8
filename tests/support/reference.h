/* reference.h: what each row of the element-wise table means, in long double, long double complex
 * and integers of 128 bits. */
#ifndef MX_TESTS_REFERENCE_H
#define MX_TESTS_REFERENCE_H

#include "support/numbers.h"

typedef __int128 whole;

/* ---- real numbers */

static inline real r_abs(real x) { return fabsl(x); }
static inline real r_negative(real x) { return -x; }
static inline real r_sign(real x) { return (x > 0) - (x < 0); }
static inline real r_square(real x) { return x * x; }
static inline real r_sqrt(real x) { return sqrtl(x); }
static inline real r_rsqrt(real x) { return 1 / sqrtl(x); }
static inline real r_exp(real x) { return expl(x); }
static inline real r_expm1(real x) { return expm1l(x); }
static inline real r_log(real x) { return logl(x); }
static inline real r_log2(real x) { return log2l(x); }
static inline real r_log10(real x) { return log10l(x); }
static inline real r_log1p(real x) { return log1pl(x); }
static inline real r_sin(real x) { return sinl(x); }
static inline real r_cos(real x) { return cosl(x); }
static inline real r_tan(real x) { return tanl(x); }
static inline real r_arcsin(real x) { return asinl(x); }
static inline real r_arccos(real x) { return acosl(x); }
static inline real r_arctan(real x) { return atanl(x); }
static inline real r_sinh(real x) { return sinhl(x); }
static inline real r_cosh(real x) { return coshl(x); }
static inline real r_tanh(real x) { return tanhl(x); }
static inline real r_arcsinh(real x) { return asinhl(x); }
static inline real r_arccosh(real x) { return acoshl(x); }
static inline real r_arctanh(real x) { return atanhl(x); }
static inline real r_erf(real x) { return erfl(x); }
/* Newton on erf, or on the logarithm of erfc in the tails. */
static inline real r_erfinv(real y)
{
    if (!(fabsl(y) < 1))
        return fabsl(y) == 1 ? copysignl(INFINITY, y) : NAN;
    real a = fabsl(y), x = a < 0.5L ? a : sqrtl(-logl((1 - a) * 1.5L));
    for (int i = 0; i < 60; i++) {
        real slope = 1.1283791670955125738961589031215452L * expl(-x * x);
        real step = a < 0.5L ? (erfl(x) - a) / slope : -erfcl(x) / slope * logl(erfcl(x) / (1 - a));
        x -= step;
    }
    return copysignl(x, y);
}
static inline real r_sigmoid(real x) { return 1 / (1 + expl(-x)); }
static inline real r_floor(real x) { return floorl(x); }
static inline real r_ceil(real x) { return ceill(x); }
static inline real r_trunc(real x) { return truncl(x); }
static inline real r_rint(real x) { return rintl(x); }
static inline real r_logical_not(real x) { return !x; }
static inline real r_conjugate(real x) { return x; }
static inline real r_real(real x) { return x; }
static inline real r_imag(real x) { return 0 * (x == 0); }
#define r_bitwise_invert NULL

static inline real r_add(real a, real b) { return a + b; }
static inline real r_subtract(real a, real b) { return a - b; }
static inline real r_multiply(real a, real b) { return a * b; }
static inline real r_divide(real a, real b) { return a / b; }
static inline real r_remainder(real a, real b)
{
    real r = fmodl(a, b);
    return r == 0 ? copysignl(0, b) : (r < 0) != (b < 0) ? r + b : r;
}
static inline real r_floor_divide(real a, real b)
{
    real r = fmodl(a, b), q = rintl((a - r) / b);
    q = r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
    return b == 0 ? a / b : q == 0 ? copysignl(0, a / b) : q;
}
/* powl of glibc takes the exponent -2^63 for an odd one. */
static inline real r_power(real a, real b)
{
    return powl(a, isfinite(b) && fabsl(b) >= 0x1p63L ? copysignl(0x1.fffffffffffffp62L, b) : b);
}
static inline real r_maximum(real a, real b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static inline real r_minimum(real a, real b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }
static inline real r_logaddexp(real a, real b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a == b ? a + 0.69314718055994530941723212145817657L
                  : fmaxl(a, b) + log1pl(expl(-fabsl(a - b)));
}
static inline real r_arctan2(real a, real b) { return atan2l(a, b); }
static inline real r_equal(real a, real b) { return a == b; }
static inline real r_not_equal(real a, real b) { return a != b; }
static inline real r_less(real a, real b) { return a < b; }
static inline real r_less_equal(real a, real b) { return a <= b; }
static inline real r_greater(real a, real b) { return a > b; }
static inline real r_greater_equal(real a, real b) { return a >= b; }
static inline real r_logical_and(real a, real b) { return a && b; }
static inline real r_logical_or(real a, real b) { return a || b; }
static inline real r_logical_xor(real a, real b) { return !a != !b; }
#define r_bitwise_and NULL
#define r_bitwise_or NULL
#define r_bitwise_xor NULL
#define r_left_shift NULL
#define r_right_shift NULL

/* ---- complex numbers; bool and real results as complex ones without imaginary part */

static inline cplx c_abs(cplx z) { return cabsl(z); }
static inline cplx c_negative(cplx z) { return -z; }
static inline cplx c_sign(cplx z) { return z == 0 ? 0 : z / cabsl(z); }
static inline cplx c_square(cplx z) { return z * z; }
static inline cplx c_sqrt(cplx z) { return csqrtl(z); }
static inline cplx c_rsqrt(cplx z) { return 1 / csqrtl(z); }
static inline cplx c_exp(cplx z) { return cexpl(z); }
/* e^x cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2 */
static inline cplx c_expm1(cplx z)
{
    real x = creall(z), y = cimagl(z), s = sinl(y / 2);
    return CMPLXL(expm1l(x) * cosl(y) - 2 * s * s, expl(x) * sinl(y));
}
static inline cplx c_log(cplx z)
{
    real x = creall(z), y = cimagl(z), r = cabsl(z);
    /* |z|^2 - 1 by parts, for z near the unit circle */
    real log_r = r > 0.5L && r < 2 ? log1pl((fabsl(x) - 1) * (fabsl(x) + 1) + y * y) / 2 : logl(r);
    return CMPLXL(log_r, cargl(z));
}
static inline cplx c_log2(cplx z) { return c_log(z) * 1.4426950408889634073599246810018921L; }
static inline cplx c_log10(cplx z) { return c_log(z) * 0.4342944819032518276511289189166051L; }
/* |1 + z|^2 - 1 = x (2 + x) + y^2 */
static inline cplx c_log1p(cplx z)
{
    real x = creall(z), y = cimagl(z), r = cabsl(1 + z);
    return CMPLXL(r > 0.5L && r < 2 ? log1pl(x * (2 + x) + y * y) / 2 : logl(r), cargl(1 + z));
}
static inline cplx c_sin(cplx z) { return csinl(z); }
static inline cplx c_cos(cplx z) { return ccosl(z); }
static inline cplx c_tan(cplx z) { return ctanl(z); }
static inline cplx c_arcsin(cplx z) { return casinl(z); }
static inline cplx c_arccos(cplx z) { return cacosl(z); }
static inline cplx c_arctan(cplx z) { return catanl(z); }
static inline cplx c_sinh(cplx z) { return csinhl(z); }
static inline cplx c_cosh(cplx z) { return ccoshl(z); }
static inline cplx c_tanh(cplx z) { return ctanhl(z); }
static inline cplx c_arcsinh(cplx z) { return casinhl(z); }
static inline cplx c_arccosh(cplx z) { return cacoshl(z); }
static inline cplx c_arctanh(cplx z) { return catanhl(z); }
static inline cplx c_sigmoid(cplx z)
{
    return creall(z) < 0 ? cexpl(z) / (1 + cexpl(z)) : 1 / (1 + cexpl(-z));
}
static inline cplx c_rint(cplx z) { return CMPLXL(rintl(creall(z)), rintl(cimagl(z))); }
static inline cplx c_conjugate(cplx z) { return conjl(z); }
static inline cplx c_real(cplx z) { return creall(z); }
static inline cplx c_imag(cplx z) { return cimagl(z); }
static inline cplx c_logical_not(cplx z) { return z == 0; }
#define c_erf NULL
#define c_erfinv NULL
#define c_floor NULL
#define c_ceil NULL
#define c_trunc NULL
#define c_bitwise_invert NULL

static inline int c_compare(cplx a, cplx b)
{
    int x = (creall(a) > creall(b)) - (creall(a) < creall(b));
    return x ? x : (cimagl(a) > cimagl(b)) - (cimagl(a) < cimagl(b));
}
static inline cplx c_add(cplx a, cplx b) { return a + b; }
static inline cplx c_subtract(cplx a, cplx b) { return a - b; }
static inline cplx c_multiply(cplx a, cplx b) { return a * b; }
static inline cplx c_divide(cplx a, cplx b) { return a / b; }
static inline cplx c_floor_divide(cplx a, cplx b) { return a / b; }
static inline cplx c_power(cplx a, cplx b)
{
    return b == 0 ? 1 : a == 0 ? (creall(b) > 0 ? 0 : NAN) : cexpl(b * c_log(a));
}
static inline cplx c_maximum(cplx a, cplx b) { return c_compare(a, b) > 0 ? a : b; }
static inline cplx c_minimum(cplx a, cplx b) { return c_compare(a, b) < 0 ? a : b; }
static inline cplx c_logaddexp(cplx a, cplx b)
{
    cplx hi = creall(a) > creall(b) ? a : b, lo = creall(a) > creall(b) ? b : a;
    return hi + c_log1p(cexpl(lo - hi));
}
static inline cplx c_equal(cplx a, cplx b) { return a == b; }
static inline cplx c_not_equal(cplx a, cplx b) { return a != b; }
static inline cplx c_less(cplx a, cplx b) { return c_compare(a, b) < 0; }
static inline cplx c_less_equal(cplx a, cplx b) { return c_compare(a, b) <= 0; }
static inline cplx c_greater(cplx a, cplx b) { return c_compare(a, b) > 0; }
static inline cplx c_greater_equal(cplx a, cplx b) { return c_compare(a, b) >= 0; }
static inline cplx c_logical_and(cplx a, cplx b) { return a != 0 && b != 0; }
static inline cplx c_logical_or(cplx a, cplx b) { return a != 0 || b != 0; }
static inline cplx c_logical_xor(cplx a, cplx b) { return (a != 0) != (b != 0); }
#define c_remainder NULL
#define c_arctan2 NULL
#define c_bitwise_and NULL
#define c_bitwise_or NULL
#define c_bitwise_xor NULL
#define c_left_shift NULL
#define c_right_shift NULL

/* ---- integers of `bits` bits, before they wrap; bool is the integer of one bit, unsigned, that adds
 * as "or" and keeps its sign */

#define INTEGER(name) static inline whole i_##name(whole a, whole b, int bits)
#define UNUSED (void)a, (void)b, (void)bits
INTEGER(abs) { UNUSED; return a < 0 ? -a : a; }
INTEGER(negative) { UNUSED; return -a; }
INTEGER(sign) { UNUSED; return (a > 0) - (a < 0); }
INTEGER(square) { UNUSED; return (whole)((unsigned __int128)a * (unsigned __int128)a); }
INTEGER(same) { UNUSED; return a; }
INTEGER(none) { UNUSED; return 0; }
INTEGER(bitwise_invert) { UNUSED; return ~a; }
INTEGER(logical_not) { UNUSED; return !a; }
#define i_floor i_same
#define i_ceil i_same
#define i_trunc i_same
#define i_rint i_same
#define i_conjugate i_same
#define i_real i_same
#define i_imag i_none

INTEGER(add) { UNUSED; return bits == 1 ? a | b : a + b; }
INTEGER(subtract) { UNUSED; return a - b; }
INTEGER(multiply) { UNUSED; return (whole)((unsigned __int128)a * (unsigned __int128)b); }
INTEGER(floor_divide)
{
    UNUSED;
    if (b == 0)
        return 0;
    whole q = a / b;
    return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}
INTEGER(remainder) { return b == 0 ? a : a - i_floor_divide(a, b, bits) * b; }
INTEGER(power)
{
    UNUSED;
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    unsigned __int128 y = 1, s = (unsigned __int128)a;
    for (; b; b /= 2, s *= s)
        if (b % 2)
            y *= s;
    return (whole)y;
}
INTEGER(maximum) { UNUSED; return a > b ? a : b; }
INTEGER(minimum) { UNUSED; return a < b ? a : b; }
INTEGER(equal) { UNUSED; return a == b; }
INTEGER(not_equal) { UNUSED; return a != b; }
INTEGER(less) { UNUSED; return a < b; }
INTEGER(less_equal) { UNUSED; return a <= b; }
INTEGER(greater) { UNUSED; return a > b; }
INTEGER(greater_equal) { UNUSED; return a >= b; }
INTEGER(logical_and) { UNUSED; return a && b; }
INTEGER(logical_or) { UNUSED; return a || b; }
INTEGER(logical_xor) { UNUSED; return !a != !b; }
INTEGER(bitwise_and) { UNUSED; return a & b; }
INTEGER(bitwise_or) { UNUSED; return a | b; }
INTEGER(bitwise_xor) { UNUSED; return a ^ b; }
/* A negative count is a very large one. */
INTEGER(left_shift)
{
    return b < 0 || b >= bits ? 0 : (whole)((unsigned __int128)a << b);
}
INTEGER(right_shift) { return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b; }
#define i_sqrt NULL
#define i_rsqrt NULL
#define i_exp NULL
#define i_expm1 NULL
#define i_log NULL
#define i_log2 NULL
#define i_log10 NULL
#define i_log1p NULL
#define i_sin NULL
#define i_cos NULL
#define i_tan NULL
#define i_arcsin NULL
#define i_arccos NULL
#define i_arctan NULL
#define i_sinh NULL
#define i_cosh NULL
#define i_tanh NULL
#define i_arcsinh NULL
#define i_arccosh NULL
#define i_arctanh NULL
#define i_erf NULL
#define i_erfinv NULL
#define i_sigmoid NULL
#define i_divide NULL
#define i_logaddexp NULL
#define i_arctan2 NULL
#undef INTEGER
#undef UNUSED

#endif
