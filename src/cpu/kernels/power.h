/* power.h: powers of near operands (shared/scalar_near.h), the logarithms of a tile first.
 *
 * From a base to its power each step needs the one before, over more steps than processors look ahead: of the two
 * halves of a formula, each in a loop of its own, more elements are under way at once (1.15 to 1.3 times as fast). */
#ifndef MX_CPU_KERNELS_POWER_H
#define MX_CPU_KERNELS_POWER_H

#include "cpu/kernels/level.h"
#include "shared/scalar.h"

enum { POWER_MOST = 128 };

/* y[i] = m_pow_near_f32(a[i], b[i]), its lines here, n no more than POWER_MOST, if f is power; else 0, and nothing is
 * done.  y may be a or b. */
#if FAST_FMA
TEMPLATE int zip_power_f32(float *y, const float *a, int sa, const float *b, int sb, size_t n, binary_f32 *f)
{
    _Alignas(64) float high[POWER_MOST], low[POWER_MOST];
    if (f != power_f32)
        return 0;
    IVDEP
    for (size_t i = 0; i < n; i++) {
        struct two_f32 log = log2_two_f32(bits_f32(a[i * sa]), 0);
        float c = b[i * sb], v = c * log.high;
        high[i] = v;
        low[i] = m_fma_f32(c, log.low, m_fma_f32(c, log.high, -v));
    }
    IVDEP
    for (size_t i = 0; i < n; i++) y[i] = exp2_two_f32(high[i], low[i]);
    return 1;
}
#else
TEMPLATE int zip_power_f32(float *y, const float *a, int sa, const float *b, int sb, size_t n, binary_f32 *f)
{
    return (void)y, (void)a, (void)sa, (void)b, (void)sb, (void)n, (void)f, 0;
}
#endif
TEMPLATE int zip_power_f64(double *y, const double *a, int sa, const double *b, int sb, size_t n, binary_f64 *f)
{
    return (void)y, (void)a, (void)sa, (void)b, (void)sb, (void)n, (void)f, 0;
}

#endif
