/* lanes.h: vectors that fill a register of this level.
 *
 * Wider ones would be taken apart by the compiler, comparisons lane by lane.  Included after level.h. */
#ifndef MX_CPU_KERNELS_LANES_H
#define MX_CPU_KERNELS_LANES_H

#include "cpu/kernels/level.h"

/* Bytes of a register. */
#if defined __AVX512F__
#include <immintrin.h>
#define REGISTER 64
#elif defined __AVX2__
#include <immintrin.h>
#define REGISTER 32
#else
#define REGISTER 16
#endif

typedef double doubles __attribute__((vector_size(REGISTER)));
typedef double two_doubles __attribute__((vector_size(16)));
typedef float half_of_floats __attribute__((vector_size(REGISTER / 2)));

/* As many elements as a register holds doubles, as those: of floats compilers take two conversions for one. */
TEMPLATE doubles doubles_f32(half_of_floats x)
{
#if defined __AVX512F__
    return (doubles)_mm512_cvtps_pd((__m256)x);
#elif defined __AVX2__
    return (doubles)_mm256_cvtps_pd((__m128)x);
#else
    return __builtin_convertvector(x, doubles);
#endif
}
TEMPLATE doubles doubles_f64(doubles x) { return x; }

union of_doubles {
    doubles v;
    two_doubles part[REGISTER / 16];
};

/* The sum and the product of the lanes: the order depends on positions alone. */
TEMPLATE double sum_of_lanes(doubles a)
{
    union of_doubles u = { a };
    two_doubles y = u.part[0];
    for (int k = 1; k < REGISTER / 16; k++) y += u.part[k];
    return y[0] + y[1];
}

TEMPLATE double product_of_lanes(doubles a)
{
    union of_doubles u = { a };
    two_doubles y = u.part[0];
    for (int k = 1; k < REGISTER / 16; k++) y *= u.part[k];
    return y[0] * y[1];
}

#endif
