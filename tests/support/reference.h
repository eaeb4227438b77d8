/* reference.h: what each row of the element-wise table means, in long double, long double complex
 * and integers of 128 bits.  Included by the one file of a test program.
 *
 * A row without a meaning here in some kind of number is NULL there (the symbol is weak): its values
 * are then compared between layouts and instruction sets alone.  Where terms of a row that were rounded
 * cancel, scale_ is what its errors are measured against if that is more than the value. */
#ifndef MX_TESTS_REFERENCE_H
#define MX_TESTS_REFERENCE_H

#include "support/numbers.h"

typedef __int128 whole;

#define WEAK __attribute__((weak))
#define UNARY(name, ...)          \
    WEAK real r_##name(real);     \
    WEAK real scale_##name(real); \
    WEAK cplx c_##name(cplx);     \
    WEAK whole i_##name(whole, whole, int);
#define BINARY(name, ...)               \
    WEAK real r_##name(real, real);     \
    WEAK real scale_##name(real, real); \
    WEAK cplx c_##name(cplx, cplx);     \
    WEAK whole i_##name(whole, whole, int);
#include "ops/ops.def"
#undef WEAK

/* ---- real numbers */

real r_abs(real x) { return fabsl(x); }
real r_negative(real x) { return -x; }
real r_sign(real x) { return (x > 0) - (x < 0); }
real r_square(real x) { return x * x; }
real r_sqrt(real x) { return sqrtl(x); }
real r_rsqrt(real x) { return 1 / sqrtl(x); }
real r_exp(real x) { return expl(x); }
real r_expm1(real x) { return expm1l(x); }
real r_log(real x) { return logl(x); }
real r_log2(real x) { return log2l(x); }
real r_log10(real x) { return log10l(x); }
real r_log1p(real x) { return log1pl(x); }
real r_sin(real x) { return sinl(x); }
real r_cos(real x) { return cosl(x); }
real r_tan(real x) { return tanl(x); }
real r_arcsin(real x) { return asinl(x); }
real r_arccos(real x) { return acosl(x); }
real r_arctan(real x) { return atanl(x); }
real r_sinh(real x) { return sinhl(x); }
real r_cosh(real x) { return coshl(x); }
real r_tanh(real x) { return tanhl(x); }
real r_arcsinh(real x) { return asinhl(x); }
real r_arccosh(real x) { return acoshl(x); }
real r_arctanh(real x) { return atanhl(x); }
real r_erf(real x) { return erfl(x); }
/* Newton on erf, or on the logarithm of erfc in the tails. */
real r_erfinv(real y)
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
real r_sigmoid(real x) { return 1 / (1 + expl(-x)); }
real r_sigmoid_slope(real x) { return expl(-fabsl(x)) / ((1 + expl(-fabsl(x))) * (1 + expl(-fabsl(x)))); }
real r_silu(real x) { return x / (1 + expl(-x)); }
real r_silu_slope(real x)
{
    real s = r_sigmoid(x), q = r_sigmoid(-x);
    return s > 0 && q > 0 ? s * (1 + x * q) : s;
}
/* s(x) and x s(x) s(-x) cancel near -1.28. */
real scale_silu_slope(real x) { return isfinite(x) ? r_sigmoid(x) : 0; }
real r_floor(real x) { return floorl(x); }
real r_ceil(real x) { return ceill(x); }
real r_trunc(real x) { return truncl(x); }
real r_rint(real x) { return rintl(x); }
real r_logical_not(real x) { return !x; }
real r_conjugate(real x) { return x; }
real r_real(real x) { return x; }
real r_imag(real x) { return 0 * (x == 0); }

real r_add(real a, real b) { return a + b; }
real r_subtract(real a, real b) { return a - b; }
real r_multiply(real a, real b) { return a * b; }
real r_divide(real a, real b) { return a / b; }
real r_remainder(real a, real b)
{
    real r = fmodl(a, b);
    return r == 0 ? copysignl(0, b) : (r < 0) != (b < 0) ? r + b : r;
}
real r_floor_divide(real a, real b)
{
    real r = fmodl(a, b), q = rintl((a - r) / b);
    q = r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
    return b == 0 ? a / b : q == 0 ? copysignl(0, a / b) : q;
}
/* powl of glibc takes the exponent -2^63 for an odd one. */
real r_power(real a, real b)
{
    return powl(a, isfinite(b) && fabsl(b) >= 0x1p63L ? copysignl(0x1.fffffffffffffp62L, b) : b);
}
real r_maximum(real a, real b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
real r_minimum(real a, real b) { return isnan(a) || isnan(b) ? NAN : a < b ? a : b; }
real r_logaddexp(real a, real b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    return a == b ? a + 0.69314718055994530941723212145817657L : fmaxl(a, b) + log1pl(expl(-fabsl(a - b)));
}
/* The larger operand, and the logarithm, whose exponential has the rounding of a - b as a relative error. */
real scale_logaddexp(real a, real b)
{
    real d = fabsl(a - b);
    return isfinite(a) && isfinite(b) ? fmaxl(fabsl(fmaxl(a, b)), log1pl(expl(-d)) * (1 + d)) : 0;
}
real r_arctan2(real a, real b) { return atan2l(a, b); }
real r_hypot(real a, real b) { return hypotl(a, b); }
real r_copysign(real a, real b) { return copysignl(a, b); }
real r_equal(real a, real b) { return a == b; }
real r_not_equal(real a, real b) { return a != b; }
real r_less(real a, real b) { return a < b; }
real r_less_equal(real a, real b) { return a <= b; }
real r_greater(real a, real b) { return a > b; }
real r_greater_equal(real a, real b) { return a >= b; }
real r_logical_and(real a, real b) { return a && b; }
real r_logical_or(real a, real b) { return a || b; }
real r_logical_xor(real a, real b) { return !a != !b; }

/* ---- complex numbers; bool and real results as complex ones without imaginary part */

cplx c_abs(cplx z) { return cabsl(z); }
cplx c_negative(cplx z) { return -z; }
cplx c_sign(cplx z)
{
    if (isinf(creall(z)) || isinf(cimagl(z)))
        z = CMPLXL(isinf(creall(z)) ? copysignl(1, creall(z)) : 0 * creall(z),
                   isinf(cimagl(z)) ? copysignl(1, cimagl(z)) : 0 * cimagl(z));
    return z == 0 ? 0 : z / cabsl(z);
}
cplx c_square(cplx z) { return z * z; }
cplx c_sqrt(cplx z) { return csqrtl(z); }
cplx c_rsqrt(cplx z) { return 1 / csqrtl(z); }
cplx c_exp(cplx z) { return cexpl(z); }
/* e^x cos y - 1 = expm1(x) cos y - 2 sin(y/2)^2 */
cplx c_expm1(cplx z)
{
    real x = creall(z), y = cimagl(z), s = sinl(y / 2);
    return CMPLXL(expm1l(x) * cosl(y) - 2 * s * s, expl(x) * sinl(y));
}
cplx c_log(cplx z)
{
    real x = creall(z), y = cimagl(z), r = cabsl(z);
    /* |z|^2 - 1 by parts, for z near the unit circle */
    real log_r = r > 0.5L && r < 2 ? log1pl((fabsl(x) - 1) * (fabsl(x) + 1) + y * y) / 2 : logl(r);
    return CMPLXL(log_r, cargl(z));
}
cplx c_log2(cplx z) { return c_log(z) * 1.4426950408889634073599246810018921L; }
cplx c_log10(cplx z) { return c_log(z) * 0.4342944819032518276511289189166051L; }
/* |1 + z|^2 - 1 = x (2 + x) + y^2 */
cplx c_log1p(cplx z)
{
    real x = creall(z), y = cimagl(z), r = hypotl(1 + x, y);
    return CMPLXL(r > 0.5L && r < 2 ? log1pl(x * (2 + x) + y * y) / 2 : logl(r), atan2l(y, 1 + x));
}
cplx c_sin(cplx z) { return csinl(z); }
cplx c_cos(cplx z) { return ccosl(z); }
cplx c_tan(cplx z) { return ctanl(z); }
cplx c_arcsin(cplx z) { return casinl(z); }
cplx c_arccos(cplx z) { return cacosl(z); }
cplx c_arctan(cplx z) { return catanl(z); }
cplx c_sinh(cplx z) { return csinhl(z); }
cplx c_cosh(cplx z) { return ccoshl(z); }
cplx c_tanh(cplx z) { return ctanhl(z); }
cplx c_arcsinh(cplx z) { return casinhl(z); }
cplx c_arccosh(cplx z) { return cacoshl(z); }
cplx c_arctanh(cplx z) { return catanhl(z); }
cplx c_sigmoid(cplx z) { return creall(z) < 0 ? cexpl(z) / (1 + cexpl(z)) : 1 / (1 + cexpl(-z)); }
cplx c_rint(cplx z) { return CMPLXL(rintl(creall(z)), rintl(cimagl(z))); }
cplx c_conjugate(cplx z) { return conjl(z); }
cplx c_real(cplx z) { return creall(z); }
cplx c_imag(cplx z) { return cimagl(z); }
cplx c_logical_not(cplx z) { return z == 0; }

static inline int c_compare(cplx a, cplx b)
{
    int x = (creall(a) > creall(b)) - (creall(a) < creall(b));
    return x ? x : (cimagl(a) > cimagl(b)) - (cimagl(a) < cimagl(b));
}
cplx c_add(cplx a, cplx b) { return a + b; }
cplx c_subtract(cplx a, cplx b) { return a - b; }
cplx c_multiply(cplx a, cplx b) { return a * b; }
cplx c_divide(cplx a, cplx b) { return a / b; }
cplx c_floor_divide(cplx a, cplx b) { return a / b; }
cplx c_power(cplx a, cplx b) { return b == 0 ? 1 : a == 0 ? (creall(b) > 0 ? 0 : NAN) : cexpl(b * c_log(a)); }
cplx c_maximum(cplx a, cplx b) { return c_compare(a, b) > 0 ? a : b; }
cplx c_minimum(cplx a, cplx b) { return c_compare(a, b) < 0 ? a : b; }
cplx c_logaddexp(cplx a, cplx b)
{
    cplx hi = c_compare(a, b) > 0 ? a : b, lo = c_compare(a, b) > 0 ? b : a;
    return hi + c_log1p(cexpl(lo - hi));
}
cplx c_equal(cplx a, cplx b) { return a == b; }
cplx c_not_equal(cplx a, cplx b) { return a != b; }
cplx c_less(cplx a, cplx b) { return c_compare(a, b) < 0; }
cplx c_less_equal(cplx a, cplx b) { return c_compare(a, b) <= 0; }
cplx c_greater(cplx a, cplx b) { return c_compare(a, b) > 0; }
cplx c_greater_equal(cplx a, cplx b) { return c_compare(a, b) >= 0; }
cplx c_logical_and(cplx a, cplx b) { return a != 0 && b != 0; }
cplx c_logical_or(cplx a, cplx b) { return a != 0 || b != 0; }
cplx c_logical_xor(cplx a, cplx b) { return (a != 0) != (b != 0); }

/* ---- integers of `bits` bits, before they wrap; bool is the integer of one bit, unsigned, that adds
 * as "or" and keeps its sign */

#define INTEGER(name) whole i_##name(whole a, whole b, int bits)
#define UNUSED (void)a, (void)b, (void)bits
/* clang-format off */
INTEGER(abs) { UNUSED; return a < 0 ? -a : a; }
INTEGER(negative) { UNUSED; return -a; }
INTEGER(sign) { UNUSED; return (a > 0) - (a < 0); }
INTEGER(square) { UNUSED; return (whole)((unsigned __int128)a * (unsigned __int128)a); }
INTEGER(bitwise_invert) { UNUSED; return ~a; }
INTEGER(logical_not) { UNUSED; return !a; }
INTEGER(floor) { UNUSED; return a; }
INTEGER(ceil) { UNUSED; return a; }
INTEGER(trunc) { UNUSED; return a; }
INTEGER(rint) { UNUSED; return a; }
INTEGER(conjugate) { UNUSED; return a; }
INTEGER(real) { UNUSED; return a; }
INTEGER(imag) { UNUSED; return 0; }

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
/* clang-format on */
#undef INTEGER
#undef UNUSED

#endif
