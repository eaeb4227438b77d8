/* index.c: the index kernels of this level. */
#include "cpu/kernels/index.h"
#include "cpu/kernels/level.h"

#if defined __x86_64__
#include <immintrin.h>
#endif

enum { GROUP = 16 /* indices that are checked at a time */ };

TEMPLATE int64_t from_start(int64_t v, int64_t size) { return v + (v < 0 ? size : 0); }

/* Is any of GROUP indices below 0 or not below the size, which is at most 2^31?  Without a comparison for
 * unsigned numbers: is v or size - 1 - v negative? */
#if defined __AVX512F__
TEMPLATE bool outside_32(const void *p, int64_t size)
{
    return _mm512_cmpge_epu32_mask(_mm512_loadu_si512(p), _mm512_set1_epi32((int)size)) != 0;
}

TEMPLATE bool outside_64(const void *p, int64_t size)
{
    __m512i most = _mm512_max_epu64(_mm512_loadu_si512(p), _mm512_loadu_si512((const char *)p + 64));
    return _mm512_cmpge_epu64_mask(most, _mm512_set1_epi64(size)) != 0;
}
#else
#define OUTSIDE(bits, V, load, set, or, sub, signs)                        \
    TEMPLATE bool outside_##bits(const void *p, int64_t size)              \
    {                                                                      \
        V last = set, bad = load(p);                                       \
        bad = or (bad, sub(last, bad));                                    \
        for (size_t i = sizeof(V); i < GROUP * bits / 8; i += sizeof(V)) { \
            V v = load((const void *)((const char *)p + i));               \
            bad = or (bad, or (v, sub(last, v)));                          \
        }                                                                  \
        return signs(bad) != 0;                                            \
    }
#if defined __AVX2__
#define SIGNS_32(v) _mm256_movemask_ps(_mm256_castsi256_ps(v))
#define SIGNS_64(v) _mm256_movemask_pd(_mm256_castsi256_pd(v))
OUTSIDE(32, __m256i, _mm256_loadu_si256, _mm256_set1_epi32((int)(size - 1)), _mm256_or_si256, _mm256_sub_epi32,
        SIGNS_32)
OUTSIDE(64, __m256i, _mm256_loadu_si256, _mm256_set1_epi64x(size - 1), _mm256_or_si256, _mm256_sub_epi64, SIGNS_64)
#elif defined __SSE2__
#define SIGNS_32(v) _mm_movemask_ps(_mm_castsi128_ps(v))
#define SIGNS_64(v) _mm_movemask_pd(_mm_castsi128_pd(v))
OUTSIDE(32, __m128i, _mm_loadu_si128, _mm_set1_epi32((int)(size - 1)), _mm_or_si128, _mm_sub_epi32, SIGNS_32)
OUTSIDE(64, __m128i, _mm_loadu_si128, _mm_set1_epi64x(size - 1), _mm_or_si128, _mm_sub_epi64, SIGNS_64)
#else
#define PLAIN(bits)                                                  \
    TEMPLATE bool outside_##bits(const void *p, int64_t size)        \
    {                                                                \
        const uint##bits##_t *v = p;                                 \
        uint##bits##_t last = (uint##bits##_t)(size - 1), bad = 0;   \
        for (int i = 0; i < GROUP; i++) bad |= v[i] | (last - v[i]); \
        return bad >> (bits - 1);                                    \
    }
PLAIN(32)
PLAIN(64)
#endif
#endif

static bool are_places(const uint32_t *index, int64_t n, int64_t size)
{
    bool bad = false;
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP) bad |= outside_32(index + i, size);
    for (; i < n; i++) bad |= (int64_t)index[i] >= size;
    return !bad;
}

#define T uint8_t
#define K(name) name##_u8
#define SIGNED 0
#include "cpu/kernels/index.inc"

#define T uint16_t
#define K(name) name##_u16
#define SIGNED 0
#include "cpu/kernels/index.inc"

#define T uint32_t
#define K(name) name##_u32
#define SIGNED 0
#define TAKES
#include "cpu/kernels/index.inc"

#define T uint64_t
#define K(name) name##_u64
#define SIGNED 0
#include "cpu/kernels/index.inc"

#define T int8_t
#define K(name) name##_i8
#define SIGNED 1
#include "cpu/kernels/index.inc"

#define T int16_t
#define K(name) name##_i16
#define SIGNED 1
#include "cpu/kernels/index.inc"

#define T int32_t
#define K(name) name##_i32
#define SIGNED 1
#define TAKES
#include "cpu/kernels/index.inc"

#define T int64_t
#define K(name) name##_i64
#define SIGNED 1
#define TAKES
#include "cpu/kernels/index.inc"

/* ---- elements by their offsets */

#define PICK(E)                                                                             \
    static void pick_##E(void *y, int64_t sy, const void *x, const int64_t *far, int64_t n) \
    {                                                                                       \
        IVDEP                                                                               \
        for (int64_t i = 0; i < n; i++) ((E *)y)[i * sy] = ((const E *)x)[far[i]];          \
    }
PICK(uint8_t)
PICK(uint16_t)
PICK(uint32_t)
PICK(uint64_t)

#define BY_TYPE(f)                                                                                                    \
    {                                                                                                                 \
        [DT_uint8] = f##_u8, [DT_uint16] = f##_u16, [DT_uint32] = f##_u32, [DT_uint64] = f##_u64, [DT_int8] = f##_i8, \
        [DT_int16] = f##_i16, [DT_int32] = f##_i32, [DT_int64] = f##_i64                                              \
    }
#define BY_WIDTH(f)                                           \
    {                                                         \
        f##_uint8_t, f##_uint16_t, f##_uint32_t, f##_uint64_t \
    }

extern const struct index_kernels LEVEL(index_kernels);
const struct index_kernels LEVEL(index_kernels) = {
    .offsets = BY_TYPE(offsets),
    .check = BY_TYPE(check),
    .inside = BY_TYPE(inside),
    .are_places = are_places,
    .pick = BY_WIDTH(pick),
    .take = {
        [DT_int32] = BY_WIDTH(take_i32),
        [DT_int64] = BY_WIDTH(take_i64),
        [DT_uint32] = BY_WIDTH(take_u32),
    },
};
