/* sort.c: the sorting kernels of this level.
 *
 * Quicksort: vectors are split by the pivot with one shuffle each, and what fits into eight vectors
 * is sorted by a network (the scheme of "Fast in-place, vectorized quicksort", Bramas 2017, and of
 * Blacher et al. 2022).  Where a level has no such instructions a vector is one element. */
#include "cpu/kernels/sort.h"

#include "cpu/kernels/level.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Of each width: a vector V, its number of elements LANES, load, store, least, most, all, step and
 * the two ways of separating elements.  load_some and store_some take the first n elements.
 *
 * step(x, c) compares lane i with lane i ^ c and leaves the larger where the highest bit of c is
 * set in i.
 * part(x, v, l, r) writes the elements below v to l and the others in front of r; returns how many
 * were below.  It may write anything to the other places of a vector from l on, and to those of a
 * vector before r.
 * pack(x, v, l, h) writes them from l and from h on, again whole vectors. */

#if defined(__AVX512F__) && defined(__AVX512VL__)
#define VECTORS
#define IOTA_i32 _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define IOTA_i64 _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)
/* A mask is moved to an integer by name: left to itself GCC 12 may spill 16 bits of it and read 32. */
#define COUNT_i32(mask) __builtin_popcount(_cvtmask16_u32(mask))
#define COUNT_i64(mask) __builtin_popcount(_cvtmask8_u32(mask))
#define LEVEL512(T, S, EPI, MASK, N)                                                                          \
    typedef __m512i vec_##S;                                                                                  \
    enum { LANES_##S = N };                                                                                   \
    TEMPLATE vec_##S load_##S(const T *p) { return _mm512_loadu_si512(p); }                                   \
    TEMPLATE void store_##S(T *p, vec_##S x) { _mm512_storeu_si512(p, x); }                                   \
    TEMPLATE MASK first_##S(int n) { return (MASK)(n >= N ? -1 : n <= 0 ? 0 : (1 << n) - 1); }                \
    TEMPLATE vec_##S load_some_##S(const T *p, int n, T other)                                                \
    {                                                                                                         \
        return _mm512_mask_loadu_##EPI(_mm512_set1_##EPI(other), first_##S(n), p);                            \
    }                                                                                                         \
    TEMPLATE void store_some_##S(T *p, vec_##S x, int n) { _mm512_mask_storeu_##EPI(p, first_##S(n), x); }    \
    TEMPLATE vec_##S least_##S(vec_##S a, vec_##S b) { return _mm512_min_##EPI(a, b); }                       \
    TEMPLATE vec_##S most_##S(vec_##S a, vec_##S b) { return _mm512_max_##EPI(a, b); }                        \
    TEMPLATE vec_##S all_##S(T v) { return _mm512_set1_##EPI(v); }                                            \
    TEMPLATE vec_##S across_##S(vec_##S x, int c)                                                             \
    {                                                                                                         \
        return _mm512_permutexvar_##EPI(_mm512_xor_si512(IOTA_##S, all_##S(c)), x);                           \
    }                                                                                                         \
    TEMPLATE vec_##S step_##S(vec_##S x, int c)                                                               \
    {                                                                                                         \
        vec_##S y = across_##S(x, c);                                                                         \
        MASK upper = (MASK)(c >= 8 ? 0xff00 : c >= 4 ? 0xf0f0 : c >= 2 ? 0xcccc : 0xaaaa);                    \
        return _mm512_mask_max_##EPI(_mm512_min_##EPI(x, y), upper, x, y);                                    \
    }                                                                                                         \
    TEMPLATE size_t part_##S(vec_##S x, vec_##S v, T *l, T *r)                                                \
    {                                                                                                         \
        MASK below = _mm512_cmplt_##EPI##_mask(x, v);                                                         \
        int n = COUNT_##S(below), m = N - n;                                                                  \
        _mm512_storeu_si512(l, _mm512_maskz_compress_##EPI(below, x));                                        \
        _mm512_mask_storeu_##EPI(r - m, (MASK)((1u << m) - 1), _mm512_maskz_compress_##EPI((MASK)~below, x)); \
        return (size_t)n;                                                                                     \
    }                                                                                                         \
    TEMPLATE size_t pack_##S(vec_##S x, vec_##S v, T *l, T *h)                                                \
    {                                                                                                         \
        MASK below = _mm512_cmplt_##EPI##_mask(x, v);                                                         \
        _mm512_storeu_si512(l, _mm512_maskz_compress_##EPI(below, x));                                        \
        _mm512_storeu_si512(h, _mm512_maskz_compress_##EPI((MASK)~below, x));                                 \
        return (size_t)COUNT_##S(below);                                                                      \
    }
LEVEL512(int32_t, i32, epi32, __mmask16, 16)
LEVEL512(int64_t, i64, epi64, __mmask8, 8)

#elif defined(__AVX2__) && defined(__BMI2__)
#define VECTORS
/* The 32-bit lanes that m names, then the others. */
TEMPLATE __m256i lanes_first(__m256i x, unsigned m)
{
    uint64_t bytes = _pdep_u64(m, 0x0101010101010101) * 0xff, all = 0x0706050403020100;
    unsigned half = 4 * (unsigned)__builtin_popcount(m); /* shifted twice: 64 bits at a time is undefined */
    uint64_t order = _pext_u64(all, bytes) | _pext_u64(all, ~bytes) << half << half;
    return _mm256_permutevar8x32_epi32(x, _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)order)));
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
#define LEVEL256(T, S, EPI, N)                                                                                   \
    typedef __m256i vec_##S;                                                                                     \
    enum { LANES_##S = N };                                                                                      \
    TEMPLATE vec_##S load_##S(const T *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }       \
    TEMPLATE void store_##S(T *p, vec_##S x) { _mm256_storeu_si256((__m256i *)(void *)p, x); }                   \
    TEMPLATE __m256i first_##S(int n) /* n of any size: not all are in this vector */                            \
    {                                                                                                            \
        return _mm256_cmpgt_epi32(_mm256_set1_epi32(n * (8 / N)), IOTA_32);                                      \
    }                                                                                                            \
    TEMPLATE vec_##S load_some_##S(const T *p, int n, T other)                                                   \
    {                                                                                                            \
        __m256i m = first_##S(n);                                                                                \
        return _mm256_blendv_epi8(all_##S(other), _mm256_maskload_##EPI((const void *)p, m), m);                 \
    }                                                                                                            \
    TEMPLATE void store_some_##S(T *p, vec_##S x, int n) { _mm256_maskstore_##EPI((void *)p, first_##S(n), x); } \
    TEMPLATE vec_##S across_##S(vec_##S x, int c)                                                                \
    {                                                                                                            \
        return _mm256_permutevar8x32_epi32(x, _mm256_xor_si256(IOTA_32, _mm256_set1_epi32(c * (8 / N))));        \
    }                                                                                                            \
    TEMPLATE vec_##S step_##S(vec_##S x, int c)                                                                  \
    {                                                                                                            \
        vec_##S y = across_##S(x, c);                                                                            \
        __m256i bit = _mm256_set1_epi32((c >= 4 ? 4 : c >= 2 ? 2 : 1) * (8 / N));                                \
        __m256i upper = _mm256_cmpeq_epi32(_mm256_and_si256(IOTA_32, bit), bit);                                 \
        return _mm256_blendv_epi8(least_##S(x, y), most_##S(x, y), upper);                                       \
    }                                                                                                            \
    TEMPLATE size_t part_##S(vec_##S x, vec_##S v, T *l, T *r)                                                   \
    {                                                                                                            \
        unsigned below = below_##S(x, v);                                                                        \
        vec_##S y = lanes_first(x, below);                                                                       \
        store_##S(l, y);                                                                                         \
        store_##S(r - N, y);                                                                                     \
        return (size_t)__builtin_popcount(below) / (8 / N);                                                      \
    }                                                                                                            \
    TEMPLATE size_t pack_##S(vec_##S x, vec_##S v, T *l, T *h)                                                   \
    {                                                                                                            \
        unsigned below = below_##S(x, v);                                                                        \
        store_##S(l, lanes_first(x, below));                                                                     \
        store_##S(h, lanes_first(x, ~below & 255));                                                              \
        return (size_t)__builtin_popcount(below) / (8 / N);                                                      \
    }
LEVEL256(int32_t, i32, epi32, 8)
LEVEL256(int64_t, i64, epi64, 4)

#else
#define LEVEL1(T, S)                                           \
    typedef T vec_##S;                                         \
    enum { LANES_##S = 1 };                                    \
    TEMPLATE vec_##S load_##S(const T *p) { return *p; }       \
    TEMPLATE vec_##S all_##S(T v) { return v; }                \
    TEMPLATE size_t part_##S(vec_##S x, vec_##S v, T *l, T *r) \
    {                                                          \
        *l = x;                                                \
        r[-1] = x;                                             \
        return x < v;                                          \
    }                                                          \
    TEMPLATE size_t pack_##S(vec_##S x, vec_##S v, T *l, T *h) \
    {                                                          \
        *l = *h = x;                                           \
        return x < v;                                          \
    }
LEVEL1(int32_t, i32)
LEVEL1(int64_t, i64)
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

#define PLAIN(name, type, key_type, expression, inverse)                    \
    static void keys_##name(void *key, const void *x, size_t n, bool ranks) \
    {                                                                       \
        (void)ranks;                                                        \
        const type *p = x;                                                  \
        key_type *k = key;                                                  \
        IVDEP                                                               \
        for (size_t i = 0; i < n; i++) {                                    \
            key_type v = (key_type)p[i];                                    \
            k[i] = expression;                                              \
        }                                                                   \
    }                                                                       \
    static void values_##name(void *y, const void *key, size_t n)           \
    {                                                                       \
        const key_type *k = key;                                            \
        type *p = y;                                                        \
        IVDEP                                                               \
        for (size_t i = 0; i < n; i++) {                                    \
            key_type v = k[i];                                              \
            p[i] = (type)(inverse);                                         \
        }                                                                   \
    }
PLAIN(b8, uint8_t, int32_t, v != 0, v)
PLAIN(u8, uint8_t, int32_t, v, v)
PLAIN(i8, int8_t, int32_t, v, v)
PLAIN(u16, uint16_t, int32_t, v, v)
PLAIN(i16, int16_t, int32_t, v, v)
PLAIN(i32, int32_t, int32_t, v, v)
PLAIN(u32, uint32_t, int32_t, v ^ INT32_MIN, v ^ INT32_MIN)
PLAIN(i64, int64_t, int64_t, v, v)
PLAIN(u64, uint64_t, int64_t, v ^ INT64_MIN, v ^ INT64_MIN)

/* The bits of a float as a signed integer order as floats do once those of negative ones, but for the
 * sign, are flipped. */
#define FLOATING(name, bits, key_type, infinity)                            \
    TEMPLATE bits order_##name(bits b, bool ranks)                          \
    {                                                                       \
        const bits top = (bits)(UINT64_MAX >> (65 - sizeof(bits) * 8));     \
        bits size = b & top;                                                \
        b = ranks && size == 0 ? 0 : b;                                     \
        b = b < 0 ? b ^ top : b;                                            \
        return size > infinity ? top : b;                                   \
    }                                                                       \
    static void keys_##name(void *key, const void *x, size_t n, bool ranks) \
    {                                                                       \
        const bits *p = x;                                                  \
        key_type *k = key;                                                  \
        IVDEP                                                               \
        for (size_t i = 0; i < n; i++) k[i] = order_##name(p[i], ranks);    \
    }                                                                       \
    static void values_##name(void *y, const void *key, size_t n)           \
    {                                                                       \
        const bits top = (bits)(UINT64_MAX >> (65 - sizeof(bits) * 8));     \
        const key_type *k = key;                                            \
        bits *p = y;                                                        \
        IVDEP                                                               \
        for (size_t i = 0; i < n; i++) {                                    \
            bits b = (bits)k[i];                                            \
            p[i] = b < 0 ? b ^ top : b;                                     \
        }                                                                   \
    }
FLOATING(f16, int16_t, int32_t, 0x7c00)
FLOATING(bf16, int16_t, int32_t, 0x7f80)
FLOATING(f32, int32_t, int32_t, 0x7f800000)
FLOATING(f64, int64_t, int64_t, 0x7ff0000000000000)

/* Real part, then imaginary.  Numbers with a NaN come after all others: first those where only the
 * imaginary part is, by the real part; then those where only the real part is; then the rest.  The
 * keys of numbers end at that of infinity, so there is room for the three kinds. */
static void keys_c64(void *key, const void *x, size_t n, bool ranks)
{
    (void)ranks;
    const int32_t *p = x;
    int64_t *k = key;
    for (size_t i = 0; i < n; i++) {
        int32_t re = order_f32(p[2 * i], true), im = order_f32(p[2 * i + 1], true);
        int32_t high =
            im != INT32_MAX ? (re != INT32_MAX ? re : 0x7fb00000) : (re != INT32_MAX ? 0x7fa00000 : 0x7fc00000);
        int32_t low = im != INT32_MAX ? im : re;
        k[i] = (int64_t)((uint64_t)(uint32_t)high << 32 | ((uint32_t)low ^ 0x80000000u));
    }
}

static void pair(int64_t *p, const int32_t *key, size_t n, uint32_t first)
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
#define X(name, suffix, ...) [DT_##name] = keys_##suffix,
    .keys = { MX_DTYPES(X) },
#undef X
#define X(name, suffix, ...) [DT_##name] = values_##suffix,
#define values_c64 NULL
    .values = { MX_DTYPES(X) },
#undef X
    .pair = pair,
};
