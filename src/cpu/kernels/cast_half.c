/* cast_half.c: from and to float16 and bfloat16.
 *
 * float32 is the door: what goes to another type passes through a tile of it, without loss on the
 * way in; and on the way out what float32 does not hold is first rounded to odd, so that results
 * are rounded once. */
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#if defined __F16C__ || defined __AVX2__
#include <immintrin.h>
#endif

enum { TILE = 512 };

/* y may be x where both types are of one size. */
#define CAST(to, from, U, T, value)                                  \
    cast_fn LEVEL(to##_from_##from);                                 \
    void LEVEL(to##_from_##from)(void *vy, const void *vx, size_t n) \
    {                                                                \
        U *y = vy;                                                   \
        const T *x = vx;                                             \
        IVDEP for (size_t i = 0; i < n; i++) y[i] = value;           \
    }

#if defined __AVX2__ && !defined __AVX512F__
/* Compilers make the choice for NaN of narrow numbers, twice as many instructions as the rest: it is made for sixteen
 * at once. */
static __m256i rounded_bf16(__m256 x)
{
    __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd), 16);
}

cast_fn LEVEL(bf16_from_f32);
void LEVEL(bf16_from_f32)(void *vy, const void *vx, size_t n)
{
    uint16_t *y = vy;
    const float *x = vx;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256 low = _mm256_loadu_ps(x + i), high = _mm256_loadu_ps(x + i + 8);
        __m256i both = _mm256_packus_epi32(rounded_bf16(low), rounded_bf16(high));
        _mm256_storeu_si256((void *)(y + i), _mm256_permute4x64_epi64(both, 0xd8));
        if (_mm256_movemask_ps(_mm256_cmp_ps(low, high, _CMP_UNORD_Q)))
            for (size_t k = i; k < i + 16; k++) y[k] = bf16_from_f32(x[k]);
    }
    for (; i < n; i++) y[i] = bf16_from_f32(x[i]);
}
#else
CAST(bf16, f32, uint16_t, float, bf16_from_f32(x[i]))
#endif
CAST(f32, bf16, float, uint16_t, f32_from_bf16(x[i]))
CAST(bf16, bf16, uint16_t, uint16_t, x[i])
CAST(f16, f16, uint16_t, uint16_t, x[i])

/* Compilers do not use the instructions for float16 of their own accord. */
#ifdef __AVX512F__
cast_fn LEVEL(f16_from_f32), LEVEL(f32_from_f16);
void LEVEL(f16_from_f32)(void *vy, const void *vx, size_t n)
{
    uint16_t *y = vy;
    const float *x = vx;
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((void *)(y + i), _mm512_cvtps_ph(_mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    if (i < n) {
        __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
        _mm256_mask_storeu_epi16(y + i, rest,
                                 _mm512_cvtps_ph(_mm512_maskz_loadu_ps(rest, x + i), _MM_FROUND_TO_NEAREST_INT));
    }
}
void LEVEL(f32_from_f16)(void *vy, const void *vx, size_t n)
{
    float *y = vy;
    const uint16_t *x = vx;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) _mm512_storeu_ps(y + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(x + i))));
    if (i < n) {
        __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
        _mm512_mask_storeu_ps(y + i, rest, _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(rest, x + i)));
    }
}
#elif defined __F16C__
cast_fn LEVEL(f16_from_f32), LEVEL(f32_from_f16);
void LEVEL(f16_from_f32)(void *vy, const void *vx, size_t n)
{
    uint16_t *y = vy;
    const float *x = vx;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    for (; i < n; i++) y[i] = (uint16_t)_cvtss_sh(x[i], _MM_FROUND_TO_NEAREST_INT);
}
void LEVEL(f32_from_f16)(void *vy, const void *vx, size_t n)
{
    float *y = vy;
    const uint16_t *x = vx;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + i))));
    for (; i < n; i++) y[i] = _cvtsh_ss(x[i]);
}
#else
CAST(f16, f32, uint16_t, float, f16_from_f32(x[i]))
CAST(f32, f16, float, uint16_t, f32_from_f16(x[i]))
#endif

/* From one type to another in two steps. */
TEMPLATE void via(char *y, size_t sy, const char *x, size_t sx, size_t n, cast_fn *first, cast_fn *second)
{
    _Alignas(64) double tile[TILE];
    for (size_t m; n > 0; n -= m, x += m * sx, y += m * sy) {
        m = n < TILE ? n : TILE;
        first(tile, x, m);
        second(y, tile, m);
    }
}

#define VIA(to, sy, from, sx, first, second)                       \
    cast_fn LEVEL(to##_from_##from);                               \
    void LEVEL(to##_from_##from)(void *y, const void *x, size_t n) \
    {                                                              \
        via(y, sy, x, sx, n, LEVEL(first), LEVEL(second));         \
    }
#define FROM_HALF(to, size)                            \
    cast_fn LEVEL(to##_from_f32);                      \
    VIA(to, size, f16, 2, f32_from_f16, to##_from_f32) \
    VIA(to, size, bf16, 2, f32_from_bf16, to##_from_f32)
#define TO_HALF(from, size, door)                             \
    cast_fn LEVEL(door##_from_##from);                        \
    VIA(f16, 2, from, size, door##_from_##from, f16_from_f32) \
    VIA(bf16, 2, from, size, door##_from_##from, bf16_from_f32)

FROM_HALF(b8, 1)
FROM_HALF(u8, 1)
FROM_HALF(u16, 2)
FROM_HALF(u32, 4)
FROM_HALF(u64, 8)
FROM_HALF(i8, 1)
FROM_HALF(i16, 2)
FROM_HALF(i32, 4)
FROM_HALF(i64, 8)
FROM_HALF(f64, 8)
FROM_HALF(c64, 8)
VIA(f16, 2, bf16, 2, f32_from_bf16, f16_from_f32)
VIA(bf16, 2, f16, 2, f32_from_f16, bf16_from_f32)

CAST(odd, f64, float, double, f32_odd_from_f64(x[i]))
CAST(odd, u32, float, uint32_t, f32_odd_from_f64(x[i]))
CAST(odd, i32, float, int32_t, f32_odd_from_f64(x[i]))
CAST(odd, u64, float, uint64_t, f32_odd_from_u64(x[i]))
CAST(odd, i64, float, int64_t, f32_odd_from_i64(x[i]))
TO_HALF(f64, 8, odd)
TO_HALF(u32, 4, odd)
TO_HALF(i32, 4, odd)
TO_HALF(u64, 8, odd)
TO_HALF(i64, 8, odd)
TO_HALF(b8, 1, f32)
TO_HALF(u8, 1, f32)
TO_HALF(u16, 2, f32)
TO_HALF(i8, 1, f32)
TO_HALF(i16, 2, f32)
TO_HALF(c64, 8, f32)
