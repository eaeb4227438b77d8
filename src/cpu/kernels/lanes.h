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

/* Bit k: lane k of a is that of b. */
#if REGISTER == 64
TEMPLATE uint64_t same_f32(floats a, floats b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ); }
TEMPLATE uint64_t same_f64(doubles a, doubles b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_EQ_OQ); }
#elif defined INSTRUCTION
TEMPLATE uint64_t same_f32(floats a, floats b) { return (uint64_t)INSTRUCTION(movemask_ps)((floats)(a == b)); }
TEMPLATE uint64_t same_f64(doubles a, doubles b) { return (uint64_t)INSTRUCTION(movemask_pd)((doubles)(a == b)); }
#else
#define SAME(suffix, type)                                                                          \
    TEMPLATE uint64_t same_##suffix(type a, type b)                                                 \
    {                                                                                               \
        uint64_t y = 0;                                                                             \
        for (size_t k = 0; k < sizeof(type) / sizeof a[0]; k++) y |= (uint64_t)(a[k] == b[k]) << k; \
        return y;                                                                                   \
    }
SAME(f32, floats)
SAME(f64, doubles)
#endif

/* The lanes of `so_far`, all at first, in which neither a nor b is NaN; and whether those are all still. */
#if REGISTER == 64
typedef __mmask16 numbers_f32;
typedef __mmask8 numbers_f64;
#define IN_ORDER(kind, a, b) _mm512_cmp_##kind##_mask(a, b, _CMP_ORD_Q)
#else
typedef int32_t numbers_f32 __attribute__((vector_size(REGISTER)));
typedef int64_t numbers_f64 __attribute__((vector_size(REGISTER)));
#if REGISTER == 32
#define IN_ORDER(kind, a, b) _mm256_cmp_##kind(a, b, _CMP_ORD_Q)
#elif defined INSTRUCTION
#define IN_ORDER(kind, a, b) _mm_cmpord_##kind(a, b)
#else
#define IN_ORDER(kind, a, b) ((a == a) & (b == b))
#endif
#endif
TEMPLATE numbers_f32 numbers_of_f32(numbers_f32 so_far, floats a, floats b)
{
    return so_far & (numbers_f32)IN_ORDER(ps, a, b);
}
TEMPLATE numbers_f64 numbers_of_f64(numbers_f64 so_far, doubles a, doubles b)
{
    return so_far & (numbers_f64)IN_ORDER(pd, a, b);
}

/* Zeros are compared for it: a constant of ones processors take to wait for what its register held. */
TEMPLATE numbers_f32 all_numbers_f32(void)
{
    floats a = { 0 };
    return (numbers_f32)IN_ORDER(ps, a, a);
}
TEMPLATE numbers_f64 all_numbers_f64(void)
{
    doubles a = { 0 };
    return (numbers_f64)IN_ORDER(pd, a, a);
}
TEMPLATE bool are_numbers_f32(numbers_f32 m)
{
    numbers_f32 all = ~(numbers_f32){ 0 };
    return !memcmp(&m, &all, sizeof m);
}
TEMPLATE bool are_numbers_f64(numbers_f64 m)
{
    numbers_f64 all = ~(numbers_f64){ 0 };
    return !memcmp(&m, &all, sizeof m);
}

/* Blocks of 16 bytes of two registers: the first and the second of each two; and of each two lanes in such blocks. */
#if REGISTER == 64
#define FIRST_BLOCKS(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13)
#define SECOND_BLOCKS(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15)
#define FIRST_f64(a, b) __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define SECOND_f64(a, b) __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define FIRST_f32(a, b) __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30)
#define SECOND_f32(a, b) __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31)
#elif REGISTER == 32
#define FIRST_BLOCKS(a, b) __builtin_shufflevector(a, b, 0, 1, 4, 5)
#define SECOND_BLOCKS(a, b) __builtin_shufflevector(a, b, 2, 3, 6, 7)
#define FIRST_f64(a, b) __builtin_shufflevector(a, b, 0, 4, 2, 6)
#define SECOND_f64(a, b) __builtin_shufflevector(a, b, 1, 5, 3, 7)
#define FIRST_f32(a, b) __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14)
#define SECOND_f32(a, b) __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15)
#else
#define FIRST_f64(a, b) __builtin_shufflevector(a, b, 0, 2)
#define SECOND_f64(a, b) __builtin_shufflevector(a, b, 1, 3)
#define FIRST_f32(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define SECOND_f32(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#endif

/* The first n lanes from memory, at least one; the others of `rest`. */
#if REGISTER == 64
TEMPLATE floats part_f32(const float *p, size_t n, floats rest)
{
    return (floats)_mm512_mask_loadu_ps((__m512)rest, (__mmask16)((1u << n) - 1), p);
}
TEMPLATE doubles part_f64(const double *p, size_t n, doubles rest)
{
    return (doubles)_mm512_mask_loadu_pd((__m512d)rest, (__mmask8)((1u << n) - 1), p);
}
#elif REGISTER == 32
TEMPLATE __m256i first_lanes(size_t bytes)
{
    static const int32_t some[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)((const char *)some + 32 - bytes));
}
TEMPLATE floats part_f32(const float *p, size_t n, floats rest)
{
    __m256i m = first_lanes(4 * n);
    return (floats)_mm256_blendv_ps((__m256)rest, _mm256_maskload_ps(p, m), (__m256)m);
}
TEMPLATE doubles part_f64(const double *p, size_t n, doubles rest)
{
    __m256i m = first_lanes(8 * n);
    return (doubles)_mm256_blendv_pd((__m256d)rest, _mm256_maskload_pd(p, m), (__m256d)m);
}
#else
TEMPLATE floats part_f32(const float *p, size_t n, floats rest)
{
    floats first = { p[0], n > 1 ? p[1] : rest[1], n > 2 ? p[2] : rest[2], n > 3 ? p[3] : rest[3] };
    return first;
}
TEMPLATE doubles part_f64(const double *p, size_t n, doubles rest)
{
    doubles first = { p[0], n > 1 ? p[1] : rest[1] };
    return first;
}
#endif

#if REGISTER == 64
/* Lane at[k] of a in lane k. */
TEMPLATE floats lanes_at_f32(floats a, __m512i at) { return (floats)_mm512_permutexvar_ps(at, (__m512)a); }
TEMPLATE doubles lanes_at_f64(doubles a, __m512i at) { return (doubles)_mm512_permutexvar_pd(at, (__m512d)a); }
#endif

#define V floats
#define T float
#define SUFFIX f32
#include "cpu/kernels/lanes_across.inc"

#define V doubles
#define T double
#define SUFFIX f64
#include "cpu/kernels/lanes_across.inc"

TEMPLATE doubles add_lanes(doubles a, doubles b) { return a + b; }
TEMPLATE doubles multiply_lanes(doubles a, doubles b) { return a * b; }
TEMPLATE double sum_of_lanes(doubles a) { return of_lanes_f64(a, add_lanes); }

#endif
