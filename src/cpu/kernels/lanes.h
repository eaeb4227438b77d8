/* lanes.h: vectors that fill a register of this level.
 *
 * Wider ones would be taken apart by the compiler, comparisons lane by lane.  Included after level.h. */
#ifndef MX_CPU_KERNELS_LANES_H
#define MX_CPU_KERNELS_LANES_H

#include "cpu/kernels/level.h"

/* Bytes of a register, and what instructions on it are called. */
#if defined __AVX512F__
#include <immintrin.h>
#define REGISTER 64
#define INSTRUCTION(name) _mm512_##name
#elif defined __AVX2__
#include <immintrin.h>
#define REGISTER 32
#define INSTRUCTION(name) _mm256_##name
#elif defined __SSE2__
#include <emmintrin.h>
#define REGISTER 16
#define INSTRUCTION(name) _mm_##name
#else
#define REGISTER 16
#endif

typedef double doubles __attribute__((vector_size(REGISTER)));
typedef double loose_doubles __attribute__((vector_size(REGISTER), aligned(8), may_alias)); /* in memory */
typedef double two_doubles __attribute__((vector_size(16)));
typedef float floats __attribute__((vector_size(REGISTER)));
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

/* The smaller and the larger of two lanes; b where one of them is NaN.  One instruction, which compilers make of that
 * only in loops over single elements. */
#if defined INSTRUCTION
#define EXTREME_LANES(name, op)                                                                           \
    TEMPLATE floats name##_lanes_f32(floats a, floats b) { return (floats)INSTRUCTION(name##_ps)(a, b); } \
    TEMPLATE doubles name##_lanes_f64(doubles a, doubles b) { return (doubles)INSTRUCTION(name##_pd)(a, b); }
#else
#define EXTREME_LANES(name, op)                                             \
    TEMPLATE floats name##_lanes_f32(floats a, floats b)                    \
    {                                                                       \
        __typeof__(a < b) m = a op b;                                       \
        return (floats)(((__typeof__(m))a & m) | ((__typeof__(m))b & ~m));  \
    }                                                                       \
    TEMPLATE doubles name##_lanes_f64(doubles a, doubles b)                 \
    {                                                                       \
        __typeof__(a < b) m = a op b;                                       \
        return (doubles)(((__typeof__(m))a & m) | ((__typeof__(m))b & ~m)); \
    }
#endif
EXTREME_LANES(min, <)
EXTREME_LANES(max, >)

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

#if REGISTER == 64
/* Of each of four what sum_of_lanes adds last, side by side. */
TEMPLATE doubles pairs_of_lanes(doubles a, doubles b, doubles c, doubles d)
{
    doubles x = __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11);
    doubles y = __builtin_shufflevector(a, b, 4, 5, 12, 13, 6, 7, 14, 15);
    doubles z = __builtin_shufflevector(c, d, 0, 1, 8, 9, 2, 3, 10, 11);
    doubles w = __builtin_shufflevector(c, d, 4, 5, 12, 13, 6, 7, 14, 15);
    return ((__builtin_shufflevector(x, z, 0, 1, 2, 3, 8, 9, 10, 11) +
             __builtin_shufflevector(x, z, 4, 5, 6, 7, 12, 13, 14, 15)) +
            __builtin_shufflevector(y, w, 0, 1, 2, 3, 8, 9, 10, 11)) +
           __builtin_shufflevector(y, w, 4, 5, 6, 7, 12, 13, 14, 15);
}
#endif

/* The sums of the lanes of as many as a register has, each as above. */
TEMPLATE doubles sums_of_lanes(const doubles v[])
{
#if REGISTER == 32
    doubles a = __builtin_shufflevector(v[0], v[2], 0, 1, 4, 5) + __builtin_shufflevector(v[0], v[2], 2, 3, 6, 7);
    doubles b = __builtin_shufflevector(v[1], v[3], 0, 1, 4, 5) + __builtin_shufflevector(v[1], v[3], 2, 3, 6, 7);
    return __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
#elif REGISTER == 64
    doubles even = pairs_of_lanes(v[0], v[2], v[4], v[6]), odd = pairs_of_lanes(v[1], v[3], v[5], v[7]);
    return (doubles)_mm512_unpacklo_pd((__m512d)even, (__m512d)odd) +
           (doubles)_mm512_unpackhi_pd((__m512d)even, (__m512d)odd);
#else
    doubles y = { 0 };
    UNROLL
    for (int k = 0; k < REGISTER / 8; k++) y[k] = sum_of_lanes(v[k]);
    return y;
#endif
}

TEMPLATE double product_of_lanes(doubles a)
{
    union of_doubles u = { a };
    two_doubles y = u.part[0];
    for (int k = 1; k < REGISTER / 16; k++) y *= u.part[k];
    return y[0] * y[1];
}

#endif
