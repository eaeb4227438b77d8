/* sort.c: the sorting kernels of this level.
 *
 * Quicksort: vectors are split by the pivot with one shuffle each, and what fits into sixteen vectors is sorted by a
 * network, most of whose comparisons are of whole vectors (the scheme of "Fast in-place, vectorized quicksort", Bramas
 * 2017, and of Blacher et al. 2022).  Where a level has no such instructions a vector is one element. */
#include "cpu/kernels/sort.h"

#include "cpu/kernels/level.h"
#include "shared/scalar.h"

#include "shared/order.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* SORT_VECTORS has, for each T: a vector VEC, its number of elements K(N), load, store, least, most, all, across, meet,
 * interleave and the two ways of separating elements.  load_some and store_some take the first n elements.
 *
 * across(x, c) has in lane i what x has in lane i ^ c.
 * meet(x, y, c), c a power of two, has the larger of lanes i where c is set in i, else the smaller.
 * interleave(a, b, low, high): lane by lane of a and b, the first half of that and the second.
 * part(x, v, l, r) writes the elements below v to l and the others in front of r; returns how many
 * were below.  It may write anything to the other places of a vector from l on, and to those of a
 * vector before r.
 * pack(x, v, l, h) writes them from l and from h on, again whole vectors.
 *
 * For searches, with LANES a set of lanes: before, middle (of two places), look (at places in memory, in the lanes that
 * are on), after (the lanes that are on and go on after the key), choose, beyond (the next place or another) and
 * store_places (as 32 bits). */

#define EPI_i32 epi32 /* how the names of instructions end */
#define EPI_i64 epi64

#if defined(__AVX512F__) && defined(__AVX512VL__)
#define VECTORS
#define IOTA_i32 _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define IOTA_i64 _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)
#define INTERLEAVED_i32 _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define INTERLEAVED_i64 _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11)
/* A mask is moved to an integer by name: left to itself GCC 12 may spill 16 bits of it and read 32. */
#define COUNT_i32(mask) __builtin_popcount(_cvtmask16_u32(mask))
#define COUNT_i64(mask) __builtin_popcount(_cvtmask8_u32(mask))
#define MASK_i32 __mmask16
#define MASK_i64 __mmask8
#define GATHER_i32 _mm512_mask_i32gather_epi32
#define GATHER_i64 _mm512_mask_i64gather_epi64
#define SORT_VECTORS "cpu/kernels/sort_avx512.inc"

#elif defined(__AVX2__) && defined(__BMI2__)
#define VECTORS
/* The 32-bit lanes that m names, then the others: by a table, as processors before Zen 3 take long to gather bits. */
#define BITS_BELOW(m, k) __builtin_popcount((m) & ((1 << (k)) - 1))
#define PLACE(m, k) ((m) >> (k)&1 ? BITS_BELOW(m, k) : __builtin_popcount(m) + (k)-BITS_BELOW(m, k))
#define LANE(m, k) (uint64_t)(k) << 8 * PLACE(m, k)
#define LANES(m) (LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7))
#define FOUR(m) LANES(m), LANES((m) + 1), LANES((m) + 2), LANES((m) + 3)
#define SIXTEEN(m) FOUR(m), FOUR((m) + 4), FOUR((m) + 8), FOUR((m) + 12)
#define MANY(m) SIXTEEN(m), SIXTEEN((m) + 16), SIXTEEN((m) + 32), SIXTEEN((m) + 48)
static const uint64_t orders[256] = { MANY(0), MANY(64), MANY(128), MANY(192) };

TEMPLATE __m256i lanes_first(__m256i x, unsigned m)
{
    return _mm256_permutevar8x32_epi32(x, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(orders + m))));
}
#define IOTA_32 _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
TEMPLATE unsigned below_i32(__m256i x, __m256i v)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(v, x)));
}
TEMPLATE unsigned below_i64(__m256i x, __m256i v)
{
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi64(v, x)));
}
TEMPLATE __m256i least_i32(__m256i a, __m256i b) { return _mm256_min_epi32(a, b); }
TEMPLATE __m256i most_i32(__m256i a, __m256i b) { return _mm256_max_epi32(a, b); }
TEMPLATE __m256i least_i64(__m256i a, __m256i b) { return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b)); }
TEMPLATE __m256i most_i64(__m256i a, __m256i b) { return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b)); }
TEMPLATE __m256i all_i32(int32_t v) { return _mm256_set1_epi32(v); }
TEMPLATE __m256i all_i64(int64_t v) { return _mm256_set1_epi64x(v); }
#define GATHER_i32 _mm256_mask_i32gather_epi32
#define GATHER_i64 _mm256_mask_i64gather_epi64
#define SORT_VECTORS "cpu/kernels/sort_avx2.inc"

#else
#define SORT_VECTORS "cpu/kernels/sort_single.inc"
#endif

#define T int32_t
#define S i32
#define TOP INT32_MAX
#include "cpu/kernels/sort.inc"
#define T int64_t
#define S i64
#define TOP INT64_MAX
#include "cpu/kernels/sort.inc"

/* ---- keys */

/* key_of_<type> and value_of_<type>, there and back; with `ranks`, numbers that are equal get the same key. */
#define PLAIN(name, type, key_type, expression, inverse) \
    TEMPLATE key_type key_of_##name(type x, bool ranks)  \
    {                                                    \
        (void)ranks;                                     \
        key_type v = (key_type)x;                        \
        return expression;                               \
    }                                                    \
    TEMPLATE type value_of_##name(key_type v) { return (type)(inverse); }
PLAIN(b8, uint8_t, int32_t, v != 0, v)
PLAIN(u8, uint8_t, int32_t, v, v)
PLAIN(i8, int8_t, int32_t, v, v)
PLAIN(u16, uint16_t, int32_t, v, v)
PLAIN(i16, int16_t, int32_t, v, v)
PLAIN(i32, int32_t, int32_t, v, v)
PLAIN(u32, uint32_t, int32_t, v ^ INT32_MIN, v ^ INT32_MIN)
PLAIN(i64, int64_t, int64_t, v, v)
PLAIN(u64, uint64_t, int64_t, v ^ INT64_MIN, v ^ INT64_MIN)

/* By their order (shared/order.h), which turns their bits back as well. */
#define FLOATING(name, bits)                                                           \
    TEMPLATE bits key_of_##name(bits b, bool ranks) { return order_##name(b, ranks); } \
    TEMPLATE bits value_of_##name(bits b) { return b < 0 ? b ^ (bits)(UINT64_MAX >> (65 - sizeof(bits) * 8)) : b; }
FLOATING(f16, int16_t)
FLOATING(bf16, int16_t)
FLOATING(f32, int32_t)
FLOATING(f64, int64_t)

#define KEYS(name, type, key_type)                                          \
    static void keys_##name(void *key, const void *x, size_t n, bool ranks) \
    {                                                                       \
        const type *p = x;                                                  \
        key_type *k = key;                                                  \
        IVDEP                                                               \
        for (size_t i = 0; i < n; i++) k[i] = key_of_##name(p[i], ranks);   \
    }                                                                       \
    static void values_##name(void *y, const void *key, size_t n)           \
    {                                                                       \
        const key_type *k = key;                                            \
        type *p = y;                                                        \
        IVDEP                                                               \
        for (size_t i = 0; i < n; i++) p[i] = value_of_##name((type)k[i]);  \
    }
KEYS(b8, uint8_t, int32_t)
KEYS(u8, uint8_t, int32_t)
KEYS(i8, int8_t, int32_t)
KEYS(u16, uint16_t, int32_t)
KEYS(i16, int16_t, int32_t)
KEYS(i32, int32_t, int32_t)
KEYS(u32, uint32_t, int32_t)
KEYS(i64, int64_t, int64_t)
KEYS(u64, uint64_t, int64_t)
KEYS(f16, int16_t, int32_t)
KEYS(bf16, int16_t, int32_t)
KEYS(f32, int32_t, int32_t)
KEYS(f64, int64_t, int64_t)

static void keys_c64(void *key, const void *x, size_t n, bool ranks)
{
    (void)ranks;
    const int32_t *p = x;
    int64_t *k = key;
    for (size_t i = 0; i < n; i++) k[i] = order_c64(p[2 * i], p[2 * i + 1]);
}

static void make_pairs(int64_t *p, const int32_t *key, size_t n, uint32_t first)
{
    IVDEP
    for (size_t i = 0; i < n; i++) p[i] = (int64_t)((uint64_t)(int64_t)key[i] << 32 | (uint32_t)(first + (uint32_t)i));
}

extern const struct sort_kernels LEVEL(sort_kernels);
const struct sort_kernels LEVEL(sort_kernels) = {
    .sort_i32 = sort_i32,
    .sort_i64 = sort_i64,
    .select_i32 = select_i32,
    .select_i64 = select_i64,
    .split_i32 = split_i32,
    .split_i64 = split_i64,
    .search_i32 = search_i32,
    .search_i64 = search_i64,
#define X(name, suffix, ...) [DT_##name] = keys_##suffix,
    .keys = { MX_DTYPES(X) },
#undef X
#define X(name, suffix, ...) [DT_##name] = values_##suffix,
#define values_c64 NULL
    .values = { MX_DTYPES(X) },
#undef X
    .pair = make_pairs,
};
