/* numbers.h: numbers of every element type, as long double sees them, and random ones to test with. */
#ifndef MX_TESTS_NUMBERS_H
#define MX_TESTS_NUMBERS_H

#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/dtype.h"

#ifndef CMPLXL /* glibc has it for GCC alone */
#define CMPLXL(x, y) __builtin_complex((long double)(x), (long double)(y))
#endif

typedef long double real;
typedef long double complex cplx;

/* ---- random numbers: the same ones in every run */

static uint64_t number_state = 88172645463325252u;
static inline uint64_t bits64(void)
{
    number_state ^= number_state << 13;
    number_state ^= number_state >> 7;
    return number_state ^= number_state << 17;
}
static inline double uniform(double low, double high)
{
    return low + (high - low) * (double)(bits64() >> 11) * 0x1p-53;
}

/* Mostly ordinary, with special ones and all magnitudes among them. */
static inline double some_double(void)
{
    static const double special[] = { 0.0, -0.0,     1.0,       -1.0, 0.5,    2.0,   1e300,
                                      -2., INFINITY, -INFINITY, NAN,  1e-310, 1e-40, 3e38 };
    switch (bits64() % 8) {
    case 0: return special[bits64() % (sizeof special / sizeof *special)];
    case 1: return (double)(int64_t)(bits64() % 21) - 10;
    case 2: return uniform(-1, 1) * pow(2, uniform(-140, 130));
    case 3: return uniform(-100, 100);
    default: return uniform(-2, 2);
    }
}

/* ---- floating types: digits behind the leading one, and the least exponent of a normal number */

static inline int float_digits(enum dtype t)
{
    return t == DT_float16 ? 10 : t == DT_bfloat16 ? 7 : t == DT_float64 ? 52 : 23;
}
static inline int float_low(enum dtype t) { return t == DT_float16 ? -14 : t == DT_float64 ? -1022 : -126; }

/* The unit in the last place of the number of type t next to x. */
static inline real ulp_of(enum dtype t, real x)
{
    int e = x != 0 && isfinite(x) ? ilogbl(x) : float_low(t);
    return ldexpl(1, (e < float_low(t) ? float_low(t) : e) - float_digits(t));
}

/* How far v is from x, in units in the last place of type t at x; past the largest number every
 * number is one step above it. */
static inline real error_in_ulp(enum dtype t, real v, real x)
{
    real end = ldexpl(1, t == DT_float16 ? 16 : t == DT_float64 ? 1024 : 128);
    if (isnan(v) || isnan(x))
        return isnan(v) && isnan(x) ? 0 : INFINITY;
    if (v == 0 && x == 0)
        return !signbit(v) == !signbit(x) ? 0 : INFINITY;
    v = fabsl(v) > end ? copysignl(end, v) : v;
    x = fabsl(x) > end ? copysignl(end, x) : x;
    return fabsl(v - x) / ulp_of(t, x);
}

/* The number of a half type's bits. */
static inline real half_value(enum dtype t, uint16_t h)
{
    int digits = float_digits(t), top = 0x7fff >> digits, low = float_low(t);
    int e = (h & 0x7fff) >> digits, m = h & ((1 << digits) - 1);
    real v = e == top ? (m ? (real)NAN : (real)INFINITY)
             : e      ? ldexpl(m + (1 << digits), e - 1 + low - digits)
                      : ldexpl(m, low - digits);
    return h & 0x8000 ? -v : v;
}

/* The nearest half number, ties to even, found by rounding in units of its last place. */
static inline uint16_t half_of(enum dtype t, real x)
{
    int digits = float_digits(t), top = 0x7fff >> digits, low = float_low(t);
    uint16_t sign = signbit(x) ? 0x8000 : 0, inf = (uint16_t)(top << digits);
    real a = fabsl(x);
    if (isnan(x))
        return inf | 1;
    if (isinf(x))
        return sign | inf;
    int e = a > 0 ? ilogbl(a) : low;
    e = e < low ? low : e;
    real h = rintl(ldexpl(a, digits - e)) + (real)(e - low) * (1 << digits);
    return sign | (h >= inf ? inf : (uint16_t)h);
}

/* ---- elements in memory */

/* The real part of an element; every type's values fit. */
static inline real value_of(enum dtype t, const void *p)
{
    switch (t) {
    case DT_bool_: return *(const uint8_t *)p != 0;
    case DT_uint8: return *(const uint8_t *)p;
    case DT_uint16: return *(const uint16_t *)p;
    case DT_uint32: return *(const uint32_t *)p;
    case DT_uint64: return *(const uint64_t *)p;
    case DT_int8: return *(const int8_t *)p;
    case DT_int16: return *(const int16_t *)p;
    case DT_int32: return *(const int32_t *)p;
    case DT_int64: return *(const int64_t *)p;
    case DT_float32: return *(const float *)p;
    case DT_float64: return *(const double *)p;
    case DT_complex64: return *(const float *)p;
    default: return half_value(t, *(const uint16_t *)p);
    }
}

static inline cplx complex_of(enum dtype t, const void *p)
{
    return t == DT_complex64 ? CMPLXL(((const float *)p)[0], ((const float *)p)[1]) : CMPLXL(value_of(t, p), 0);
}

/* A number of the floating type t, rounded. */
static inline void store_float(enum dtype t, void *p, real x)
{
    switch (t) {
    case DT_float32: *(float *)p = (float)x; break;
    case DT_float64: *(double *)p = (double)x; break;
    case DT_complex64: ((float *)p)[0] = (float)x, ((float *)p)[1] = 0; break;
    default: *(uint16_t *)p = half_of(t, x); break;
    }
}

/* n random elements: small integers half of the time, so that equal ones meet; for true any byte but 0. */
static inline void fill_random(enum dtype t, void *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t u = bits64();
        char *at = (char *)p + i * dtype_size(t);
        if (u & 1)
            u = u % 17 - 8;
        if (t == DT_bool_)
            *at = (char)(u & 1 ? 1 << (u >> 8 & 7) : 0);
        else if (t == DT_complex64)
            ((float *)at)[0] = (float)some_double(), ((float *)at)[1] = (float)some_double();
        else if (dtype_kind(t) == 'f')
            store_float(t, at, some_double());
        else
            memcpy(at, &u, dtype_size(t));
    }
}

#endif
