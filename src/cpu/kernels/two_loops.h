/* two_loops.h: long formulas of float32 for near operands, a tile at a time, by two loops.
 *
 * From an operand to its result each step needs the one before, over more steps than processors look ahead: of the two
 * halves of a formula, each in a loop of its own, more elements are under way at once.  (With AVX-512 powers take 0.87
 * of the time, inverses of the error function 0.85.)  Far operands have the formula itself. */
#ifndef MX_CPU_KERNELS_TWO_LOOPS_H
#define MX_CPU_KERNELS_TWO_LOOPS_H

#include "cpu/kernels/level.h"
#include "shared/scalar.h"

enum { BY_TWO = 128 /* elements of a tile */ };

/* y[i] = m_pow_near_f32(a[i], b[i]), n no more than BY_TWO, if f is power; else 0, and nothing is done.
 * y may be a or b. */
#if FAST_FMA
TEMPLATE int zip_by_two_f32(float *y, const float *a, int sa, const float *b, int sb, size_t n, binary_f32 *f)
{
    _Alignas(64) float high[BY_TWO], low[BY_TWO];
    if (f != power_f32)
        return 0;
    IVDEP
    for (size_t i = 0; i < n; i++) {
        struct two_f32 log = pow_log2_f32(a[i * sa], b[i * sb]);
        high[i] = log.high;
        low[i] = log.low;
    }
    IVDEP
    for (size_t i = 0; i < n; i++) {
        float x = a[i * sa], power = exp2_two_f32(high[i], low[i]);
        y[i] = b[i * sb] == 2 ? x * x : power;
    }
    return 1;
}
#else
TEMPLATE int zip_by_two_f32(float *y, const float *a, int sa, const float *b, int sb, size_t n, binary_f32 *f)
{
    return (void)y, (void)a, (void)sa, (void)b, (void)sb, (void)n, (void)f, 0;
}
#endif
TEMPLATE int zip_by_two_f64(double *y, const double *a, int sa, const double *b, int sb, size_t n, binary_f64 *f)
{
    return (void)y, (void)a, (void)sa, (void)b, (void)sb, (void)n, (void)f, 0;
}

/* The inverse of the error function: the polynomial of operands that are not far alone, of which one in 1,400 numbers
 * between -1 and 1 is none. */
TEMPLATE void map_erfinv(float *y, const float *x, size_t n)
{
    _Alignas(64) float w[BY_TWO];
    int far = 0;
    IVDEP
    for (size_t i = 0; i < n; i++) {
        float rest = erfinv_rest_f32(x[i]);
        far |= !(rest > ERFINV_FAR_F32); /* and where |x| >= 1, and NaN */
        w[i] = erfinv_log_f32(rest);
    }
    if (far) {
        IVDEP
        for (size_t i = 0; i < n; i++) y[i] = erfinv_f32(x[i]);
        return;
    }
    IVDEP
    for (size_t i = 0; i < n; i++) {
        float near = erfinv_near_f32(x[i], w[i]);
        y[i] = x[i] == 0 ? x[i] : near;
    }
}

/* y[i] = f(x[i]) if that is the inverse of the error function; else 0, and nothing is done.  y may be x. */
TEMPLATE int map_by_two_f32(float *y, const float *x, size_t n, unary_f32 *f)
{
    if (f != erfinv_f32)
        return 0;
    for (size_t m; n > 0; x += m, y += m, n -= m) {
        m = n < BY_TWO ? n : BY_TWO;
        map_erfinv(y, x, m);
    }
    return 1;
}
TEMPLATE int map_by_two_f64(double *y, const double *x, size_t n, unary_f64 *f)
{
    return (void)y, (void)x, (void)n, (void)f, 0;
}

#endif
