/* quantize.c: packed weights as numbers and products with them, at one instruction-set level. */
#include "cpu/kernels/level.h"

#include "cpu/kernels/quantize.h"

#include "shared/scalar.h"

#include "shared/quantize.h"

#if defined __AVX512F__
#include <immintrin.h>
enum { VBYTES = 64 };
#define MADD(acc, a, b) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(acc)))
#define ALL(s) ((V)_mm512_set1_ps(s))
#define PERMUTE(v, i) ((V)_mm512_permutexvar_ps((__m512i)(i), (__m512)(v)))
#elif defined __FMA__ && defined __AVX2__
#include <immintrin.h>
enum { VBYTES = 32 };
#define MADD(acc, a, b) ((V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(acc)))
#define ALL(s) ((V)_mm256_set1_ps(s))
#define PERMUTE(v, i) ((V)_mm256_permutevar8x32_ps((__m256)(v), (__m256i)(i)))
#elif defined __aarch64__
#include <arm_neon.h>
enum { VBYTES = 16 };
#define MADD(acc, a, b) ((V)vfmaq_f32((float32x4_t)(acc), (float32x4_t)(a), (float32x4_t)(b)))
#define ALL(s) ((V)vdupq_n_f32(s))
#else
#ifdef __SSSE3__
#include <tmmintrin.h>
#endif
enum { VBYTES = 16 };
#define MADD(acc, a, b) ((acc) + (a) * (b))
#define ALL(s) ((V){ s, s, s, s })
#endif

typedef float V __attribute__((vector_size(VBYTES)));
typedef uint32_t VU __attribute__((vector_size(VBYTES)));
typedef int32_t VI __attribute__((vector_size(VBYTES)));
typedef float V_any __attribute__((vector_size(VBYTES), aligned(4), may_alias));
typedef uint32_t VU_any __attribute__((vector_size(VBYTES), aligned(4), may_alias));
enum { W = VBYTES / 4, SEGMENT = 4096, GROUPS = SEGMENT / 16, AHEAD = 6144 / VBYTES, ROWS = 4 };

/* v[i[0]], v[i[1]], ... */
TEMPLATE V pick(V v, VI i)
{
#ifdef PERMUTE
    return PERMUTE(v, i);
#else
    float t[W];
    memcpy(t, &v, sizeof v);
    return (V){ t[i[0]], t[i[1]], t[i[2]], t[i[3]] };
#endif
}

/* ---- one element of every chunk ---- */

TEMPLATE int bits_of(const enum quant_format f)
{
    return f == QUANT_FP4 ? 4 : f == QUANT_FP8 || f == QUANT_8 ? 8 : (int)f + 1;
}
TEMPLATE int words_of(const enum quant_format f) { return bits_of(f) == 6 ? 3 : bits_of(f) % 2 ? bits_of(f) : 1; }
TEMPLATE int elements_of(const enum quant_format f) { return words_of(f) * 32 / bits_of(f); }

/* Word k of every chunk. */
TEMPLATE void load_words(VU *d, const uint32_t *p, const int words)
{
    if (words == 1) {
        d[0] = *(const VU_any *)p;
        return;
    }
#if defined __AVX512F__
    /* Word k of chunk i is number words * i + k of them all; vectors are searched one by one. */
    const VI i = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    VU v[5];
    UNROLL for (int t = 0; t < words; t++) v[t] = *(const VU_any *)(p + t * W);
    UNROLL for (int k = 0; k < words; k++)
    {
        const VI n = i * words + k;
        d[k] = (VU)_mm512_permutex2var_epi32((__m512i)v[0], (__m512i)(n & 31), (__m512i)v[1]);
        UNROLL for (int t = 2; t < words; t++)
        {
            const VI here = n >> 4 == t, from = (here & (16 + (n & 15))) | (~here & i);
            d[k] = (VU)_mm512_permutex2var_epi32((__m512i)d[k], (__m512i)from, (__m512i)v[t]);
        }
    }
#elif defined __AVX2__
    __m256i lane = _mm256_mullo_epi32(_mm256_set1_epi32(words), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
    UNROLL for (int k = 0; k < words; k++) d[k] = (VU)_mm256_i32gather_epi32((const int *)p + k, lane, 4);
#else
    UNROLL for (int k = 0; k < words; k++) d[k] = (VU){ p[k], p[words + k], p[2 * words + k], p[3 * words + k] };
#endif
}

TEMPLATE VU code(const int bits, const VU *d, const int j)
{
    const int at = j * bits, word = at / 32, shift = at % 32;
    VU v = d[word] >> shift;
    if (shift + bits > 32)
        v |= d[word + 1] << (32 - shift);
    return shift + bits == 32 ? v : v & ((1u << bits) - 1);
}

/* e2m1: a look-up in a table of 16. */
TEMPLATE V from_fp4(VU d, const int j)
{
#if defined __AVX512F__
    const V table = { 0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6 };
    return PERMUTE(table, d >> (4 * j));
#elif defined __SSSE3__
    /* Bytes that are twice the number, looked up in the highest byte of each lane. */
    VU top = (d << (28 - 4 * j)) >> 4 & 0x0f000000;
#ifdef __AVX2__
    const __m256i table = _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12, 0, 1, 2, 3, 4, 6, 8,
                                           12, 0, -1, -2, -3, -4, -6, -8, -12);
    VI twice = (VI)_mm256_shuffle_epi8(table, (__m256i)top);
#else
    const __m128i table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    VI twice = (VI)_mm_shuffle_epi8(table, (__m128i)top);
#endif
    return __builtin_convertvector(twice, V) * ALL(0x1p-25f);
#else
    VU v = d >> (4 * j), twice = (VU){ 0 } + 0xc8643210u;
    VI size = (VI)(twice >> ((v & 7) << 2) & 15);
    return (V)((VU)(__builtin_convertvector(size, V) * ALL(.5f)) | (v & 8) << 28);
#endif
}

/* e4m3: moved into the place of a float's bits it is the number times 2^-120, subnormals included;
 * all ones is NaN. */
TEMPLATE V from_fp8_top(VU top)
{
    VU bits = (VU)((VI)top >> 4) & 0x87f00000, nan = (VU)((bits & 0x07f00000) == 0x07f00000);
    return (V)((VU)((V)bits * ALL(0x1p120f)) | (nan & 0x7fc00000));
}

TEMPLATE V element(const enum quant_format f, const VU *d, const int j)
{
    if (f == QUANT_FP4)
        return from_fp4(d[0], j);
    if (f == QUANT_FP8)
        return from_fp8_top(d[0] << (24 - 8 * j));
#ifdef __AVX512F__
    if (f == QUANT_4) {
        const V table = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
        return PERMUTE(table, d[0] >> (4 * j));
    }
#endif
    return __builtin_convertvector((VI)code(bits_of(f), d, j), V);
}

/* ---- scales ---- */

cast_fn LEVEL(f32_from_f16), LEVEL(f32_from_bf16);

static void from_e4m3(float *y, const uint8_t *x, int64_t n)
{
    typedef uint8_t bytes __attribute__((vector_size(W), aligned(1), may_alias));
    for (; n >= W; n -= W, x += W, y += W)
        *(V_any *)y = from_fp8_top(__builtin_convertvector(*(const bytes *)x, VU) << 24);
    if (n > 0) {
        uint8_t some[W] = { 0 };
        float got[W];
        memcpy(some, x, (size_t)n);
        *(V_any *)got = from_fp8_top(__builtin_convertvector(*(const bytes *)some, VU) << 24);
        memcpy(y, got, (size_t)n * sizeof *y);
    }
}

static void from_e8m0(float *y, const uint8_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = f32_from_e8m0(x[i]);
}

/* n numbers from place i on, and zeros after them for a vector. */
static void scales_at(float *y, const void *s, enum quant_scale t, int64_t i, int64_t n)
{
    switch (t) {
    case SCALE_f32: memcpy(y, (const float *)s + i, (size_t)n * sizeof *y); break;
    case SCALE_f16: LEVEL(f32_from_f16)(y, (const uint16_t *)s + i, (size_t)n); break;
    case SCALE_bf16: LEVEL(f32_from_bf16)(y, (const uint16_t *)s + i, (size_t)n); break;
    case SCALE_e8m0: from_e8m0(y, (const uint8_t *)s + i, n); break;
    case SCALE_e4m3: from_e4m3(y, (const uint8_t *)s + i, n); break;
    }
    for (int64_t j = 0; j < W; j++) y[n + j] = 0;
}

/* Lane i works on a chunk of group i / (chunks of a group), counted from the block's first.  Sizes
 * of groups are powers of two; so are numbers of elements in a chunk. */
TEMPLATE VI group_of_lane(const struct quant_matrix *m, const int n)
{
    VI i;
    for (int l = 0; l < W; l++) i[l] = l;
    return i >> (__builtin_ctz((unsigned)m->group) - __builtin_ctz((unsigned)n));
}
TEMPLATE int64_t group_at(const struct quant_matrix *m, int64_t i) { return i >> __builtin_ctz((unsigned)m->group); }

/* The same for n <= W groups as a vector, with zeros in its other lanes. */
TEMPLATE V scales_of(const void *s, enum quant_scale t, int64_t g, int64_t n)
{
#ifdef __AVX512F__
    const __mmask16 some = (__mmask16)((1u << n) - 1);
    if (t == SCALE_f16)
        return (V)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(some, (const uint16_t *)s + g));
    if (t == SCALE_f32)
        return (V)_mm512_maskz_loadu_ps(some, (const float *)s + g);
    if (t == SCALE_bf16)
        return (V)(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, (const uint16_t *)s + g)) << 16);
#else
    if (t == SCALE_f32 && n == W)
        return *(const V_any *)((const float *)s + g);
#ifdef __F16C__
    if (t == SCALE_f16 && n == W)
        return (V)_mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)s + g)));
    if (t == SCALE_f16) {
        uint16_t some[W] = { 0 };
        memcpy(some, (const uint16_t *)s + g, (size_t)n * sizeof *some);
        return (V)_mm256_cvtph_ps(_mm_loadu_si128((const void *)some));
    }
#endif
#endif
    float y[2 * W];
    scales_at(y, s, t, g, n);
    return *(const V_any *)y;
}

/* ---- rows times vectors ---- */

/* The words of a block that begins `have` words before the end of its row; those past it are 0. */
TEMPLATE const uint32_t *tail_words(uint32_t *room, const uint32_t *p, int64_t have, const int words)
{
    memset(room, 0, (size_t)(W * words) * sizeof *room);
    memcpy(room, p, (size_t)have * sizeof *room);
    return room;
}

/* The same of a block of which `chunks` are there. */
TEMPLATE void load_chunks(VU *d, const uint32_t *p, const int words, int64_t chunks)
{
    uint32_t room[W * 5];
#if defined __AVX512F__
    if (words == 1) {
        d[0] = (VU)_mm512_maskz_loadu_epi32(chunks < W ? (__mmask16)((1u << chunks) - 1) : (__mmask16)-1, p);
        return;
    }
#elif defined __AVX2__
    if (words == 1 && chunks < W) {
        const VI lane = { 0, 1, 2, 3, 4, 5, 6, 7 };
        d[0] = (VU)_mm256_maskload_epi32((const int *)p, (__m256i)(lane < (int)chunks));
        return;
    }
#endif
    load_words(d, chunks < W ? tail_words(room, p, chunks * words, words) : p, words);
}

/* Codes of 4 and 8 bits stay where they are in their word, which is a power of two that the vectors
 * come divided by; only the last is moved down, lest it be a negative number. */
TEMPLATE bool in_place(const enum quant_format f) { return f == QUANT_4 || f == QUANT_8; }
TEMPLATE V factor(const enum quant_format f, const VU *d, const int j)
{
    if (!in_place(f))
        return element(f, d, j);
    const int bits = bits_of(f), at = j * bits;
    VU v = at + bits == 32 ? d[0] >> at : d[0] & ((1u << bits) - 1) << at;
    return __builtin_convertvector((VI)v, V);
}

/* The sums of four vectors, each in an order of its own lanes alone. */
typedef float V4 __attribute__((vector_size(16)));
typedef float V4_any __attribute__((vector_size(16), aligned(4), may_alias));
TEMPLATE V4 fold_to_4(V v)
{
#if defined __AVX512F__
    __m256 h = _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
    return (V4)_mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
#elif defined __AVX2__
    return (V4)_mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#else
    return v;
#endif
}
TEMPLATE V4 sum_lanes(V va, V vb, V vc, V vd)
{
    V4 a = fold_to_4(va), b = fold_to_4(vb), c = fold_to_4(vc), d = fold_to_4(vd);
    V4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    V4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

/* Whole bytes use up memory faster than the first cache has places for lines on their way: fetched to
 * the second, twice as many arrive a second; codes of 4 bits do better in the first. */
TEMPLATE void fetch_ahead(const enum quant_format f, const uint32_t *p)
{
    if (bits_of(f) == 8)
        __builtin_prefetch(p + AHEAD * W, 0, 2);
    else
        __builtin_prefetch(p + AHEAD * W);
}

/* nr rows that follow each other with nv vectors.  They are read in spans of W groups, whose scales
 * fill a vector and whose biases meet the sums of x at once. */
TEMPLATE void dot_rows(const enum quant_format f, const int nr, const int nv, const bool biased,
                       const struct quant_matrix *m, int64_t row, const float *x, int64_t ldx, const float *sums,
                       int64_t lds, float *y, int64_t sy)
{
    const int n = elements_of(f), words = words_of(f);
    const int shift = __builtin_ctz((unsigned)m->group) - __builtin_ctz((unsigned)n); /* chunks of a group */
    int64_t row_words = m->columns / n * words, row_groups = group_at(m, m->columns);
    VI lane = group_of_lane(m, m->group);
    V total[ROWS][QUANT_VECTORS] = { 0 };
    const uint32_t *p = m->w + row * row_words;
    for (int64_t g = 0; g < row_groups; g += W) {
        int64_t groups = row_groups - g < W ? row_groups - g : W, chunks = groups << shift;
        V s[ROWS];
        UNROLL for (int r = 0; r < nr; r++)
        {
            int64_t at = (row + r) * row_groups + g;
            s[r] = scales_of(m->scales, m->scale, at, groups);
            if (biased) {
                V b = scales_of(m->biases, m->scale, at, groups);
                UNROLL for (int v = 0; v < nv; v++) total[r][v] =
                    MADD(total[r][v], b, *(const V_any *)(sums + v * lds + g));
            }
        }
        for (int64_t k = 0; k < chunks; k += W, p += W * words, x += W * n) {
            const VI group = (lane + (int)k) >> shift;
            VU d[ROWS][5];
            V part[ROWS][QUANT_VECTORS];
            UNROLL for (int r = 0; r < nr; r++)
            {
                load_chunks(d[r], p + r * row_words, words, chunks - k);
                UNROLL for (int t = 0; t < words; t++) fetch_ahead(f, p + r * row_words + t * W);
            }
            UNROLL for (int j = 0; j < n; j++)
            {
                V w[ROWS];
                UNROLL for (int r = 0; r < nr; r++) w[r] = factor(f, d[r], j);
                UNROLL for (int v = 0; v < nv; v++)
                {
                    V xv = *(const V_any *)(x + v * ldx + j * W);
                    UNROLL for (int r = 0; r < nr; r++) part[r][v] = j ? MADD(part[r][v], w[r], xv) : w[r] * xv;
                }
            }
            UNROLL for (int r = 0; r < nr; r++)
            {
                V scale = pick(s[r], group);
                UNROLL for (int v = 0; v < nv; v++) total[r][v] = MADD(total[r][v], part[r][v], scale);
            }
        }
    }
    UNROLL for (int v = 0; v < nv; v++)
    {
        V4 sum = sum_lanes(total[0][v], total[nr > 1][v], total[nr > 2 ? 2 : 0][v], total[nr > 3 ? 3 : 0][v]);
        if (nr == 4)
            *(V4_any *)(y + v * sy) = sum;
        else
            UNROLL for (int r = 0; r < nr; r++) y[v * sy + r] = sum[r];
    }
}

/* As many rows at a time as registers have room for. */
TEMPLATE void dot_vectors(const enum quant_format f, const int nv, const bool biased, const struct quant_matrix *m,
                          int64_t row, int64_t n, const float *x, int64_t ldx, const float *sums, int64_t lds, float *y,
                          int64_t sy)
{
    const int nr = words_of(f) == 1 && nv == 1 ? ROWS : 2;
    int64_t i = 0;
    for (; i + nr <= n; i += nr) dot_rows(f, nr, nv, biased, m, row + i, x, ldx, sums, lds, y + i, sy);
    for (; i < n; i++) dot_rows(f, 1, nv, biased, m, row + i, x, ldx, sums, lds, y + i, sy);
}

/* ---- numbers ---- */

TEMPLATE V number(const enum quant_format f, const bool biased, const VU *d, const int j, V s, V b)
{
    return biased ? MADD(b, element(f, d, j), s) : element(f, d, j) * s;
}

TEMPLATE void unpack_block(const enum quant_format f, const bool biased, V *w, const uint32_t *p, V s, V b)
{
    const int n = elements_of(f);
    VU d[5];
    load_words(d, p, words_of(f));
    UNROLL for (int j = 0; j < n; j++) w[j] = number(f, biased, d, j, s, b);
}

/* Scales are converted some thousand elements at a time, from the first group that is touched. */
TEMPLATE void unpack_blocks(const enum quant_format f, const bool biased, const struct quant_matrix *m, int64_t row,
                            int64_t at, int64_t blocks, float *y)
{
    const int n = elements_of(f), words = words_of(f), block = W * n;
    int64_t row_words = m->columns / n * words, row_groups = group_at(m, m->columns);
    VI lane = group_of_lane(m, n);
    float s[GROUPS + W], b[GROUPS + W];
    uint32_t room[W * 5];
    int64_t k = at * block, end = (at + blocks) * block;
    while (k < end) {
        int64_t g = group_at(m, k), first = g * m->group;
        int64_t stop = group_at(m, end + m->group - 1) * m->group;
        stop = stop < m->columns ? stop : m->columns;
        stop = stop < first + SEGMENT ? stop : first + SEGMENT;
        scales_at(s, m->scales, m->scale, row * row_groups + g, group_at(m, stop - first));
        if (biased)
            scales_at(b, m->biases, m->scale, row * row_groups + g, group_at(m, stop - first));
        for (; k < end && (k + block <= stop || stop == m->columns); k += block, y += block) {
            const uint32_t *p = m->w + row * row_words + k / n * words;
            V w[32];
            if (k + block > m->columns)
                p = tail_words(room, p, (m->columns - k) / n * words, words);
            int64_t at_group = group_at(m, k - first);
            V sv = pick(*(const V_any *)(s + at_group), lane);
            unpack_block(f, biased, w, p, sv, biased ? pick(*(const V_any *)(b + at_group), lane) : sv);
            UNROLL for (int j = 0; j < n; j++) * (V_any *)(y + j * W) = w[j];
        }
    }
}

/* Of `rows` rows, one in each lane. */
static V scales_down(const void *s, enum quant_scale t, int64_t at, int64_t step, int rows)
{
    union {
        uint8_t byte[W];
        uint16_t half[W];
        float whole[W];
    } some;
    float y[2 * W];
    int size = quant_scale_size(t);
    for (int l = 0; l < rows; l++, at += step)
        if (size == 1)
            some.byte[l] = ((const uint8_t *)s)[at];
        else if (size == 2)
            some.half[l] = ((const uint16_t *)s)[at];
        else
            some.whole[l] = ((const float *)s)[at];
    scales_at(y, &some, t, 0, rows);
    return *(const V_any *)y;
}

/* What two numbers of each row become, of `pace` a step. */
typedef void store_fn(uint32_t *y, int64_t sy, V low, V high);
TEMPLATE void store_numbers(uint32_t *y, int64_t sy, V low, V high)
{
    *(VU_any *)y = (VU)low;
    *(VU_any *)(y + sy) = (VU)high;
}
#ifdef __AVX512F__
#define PAIRS __attribute__((target("avx512bf16")))
TEMPLATE PAIRS void store_pairs(uint32_t *y, int64_t sy, V low, V high)
{
    (void)sy;
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    const VU one_by_one = { 16 << 16 | 0,  17 << 16 | 1,  18 << 16 | 2,  19 << 16 | 3, 20 << 16 | 4,  21 << 16 | 5,
                            22 << 16 | 6,  23 << 16 | 7,  24 << 16 | 8,  25 << 16 | 9, 26 << 16 | 10, 27 << 16 | 11,
                            28 << 16 | 12, 29 << 16 | 13, 30 << 16 | 14, 31 << 16 | 15 };
    _mm512_storeu_si512(y, _mm512_permutexvar_epi16((__m512i)one_by_one, both));
}
#endif

TEMPLATE void rows_across(const enum quant_format f, const bool biased, const int pace, store_fn *store,
                          const struct quant_matrix *m, int64_t first, int rows, int64_t at, int64_t n,
                          const uint32_t *words, uint32_t *y, int64_t sy)
{
    const int each = elements_of(f), of_chunk = words_of(f);
    int64_t row_groups = group_at(m, m->columns);
    for (int64_t k = 0; k < n; k += m->group) {
        int64_t g = first * row_groups + group_at(m, at + k);
        V s = scales_down(m->scales, m->scale, g, row_groups, rows);
        V b = biased ? scales_down(m->biases, m->scale, g, row_groups, rows) : s;
        for (int c = 0; c < m->group; c += each, words += of_chunk * W, y += each / pace * sy) {
            VU d[5];
            UNROLL for (int t = 0; t < of_chunk; t++) d[t] = *(const VU_any *)(words + t * W);
            UNROLL for (int j = 0; j < each; j += 2)
                store(y + j / pace * sy, sy, number(f, biased, d, j, s, b), number(f, biased, d, j + 1, s, b));
        }
    }
}

/* Four rows at a time, so that y is read and written once for them. */
TEMPLATE void add_rows(const enum quant_format f, const bool biased, const struct quant_matrix *m, int64_t first,
                       int64_t n, const float *x, int64_t ldx, int nv, int64_t at, int64_t blocks, float *y,
                       int64_t ldy)
{
    enum { AT_ONCE = 4, STRETCH = 1024 };
    const int block = W * elements_of(f), most = STRETCH / block < 1 ? 1 : STRETCH / block;
    float w[AT_ONCE][STRETCH];
    for (int64_t i = 0; i < blocks; i += most) {
        int64_t some = blocks - i < most ? blocks - i : most;
        for (int64_t k = 0; k < n; k += AT_ONCE) {
            int64_t rows = n - k < AT_ONCE ? n - k : AT_ONCE;
            for (int64_t r = 0; r < rows; r++) unpack_blocks(f, biased, m, first + k + r, at + i, some, w[r]);
            for (int v = 0; v < nv; v++) {
                const float *xv = x + v * ldx + k;
                float *to = y + v * ldy + i * block;
                if (rows == AT_ONCE) {
                    V x0 = ALL(xv[0]), x1 = ALL(xv[1]), x2 = ALL(xv[2]), x3 = ALL(xv[3]);
                    for (int64_t j = 0; j < some * block; j += W) {
                        V sum = *(const V_any *)(to + j);
                        sum = MADD(sum, *(const V_any *)(w[0] + j), x0);
                        sum = MADD(sum, *(const V_any *)(w[1] + j), x1);
                        sum = MADD(sum, *(const V_any *)(w[2] + j), x2);
                        *(V_any *)(to + j) = MADD(sum, *(const V_any *)(w[3] + j), x3);
                    }
                } else {
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t j = 0; j < some * block; j += W)
                            *(V_any *)(to + j) = MADD(*(const V_any *)(to + j), *(const V_any *)(w[r] + j), ALL(xv[r]));
                }
            }
        }
    }
}

/* ---- by format ---- */

#define DOT(f, nv, biased) dot_vectors(f, nv, biased, m, first, n, x, ldx, sums, lds, y, sy)
#define DOTS(f, biased)                     \
    switch (nv) {                           \
    case 1: DOT(f, 1, biased); break;       \
    case 2: DOT(f, 2, biased); break;       \
    case 3: DOT(f, 3, biased); break;       \
    default: DOT(f, QUANT_VECTORS, biased); \
    }
#ifdef __AVX512F__
#define ACROSS_PAIRS(f, biased)                                                                               \
    static PAIRS void pairs_##f(const struct quant_matrix *m, int64_t first, int rows, int64_t at, int64_t n, \
                                const uint32_t *words, uint32_t *y, int64_t sy)                               \
    {                                                                                                         \
        rows_across(f, biased, 2, store_pairs, m, first, rows, at, n, words, y, sy);                          \
    }
#define PAIRS_OF(f) pairs_##f
#else
#define ACROSS_PAIRS(f, biased)
#define PAIRS_OF(f) NULL
#endif
#define FORMAT(f, biased)                                                                                         \
    static void dot_##f(const struct quant_matrix *m, int64_t first, int64_t n, const float *x, int64_t ldx,      \
                        const float *sums, int64_t lds, int nv, float *y, int64_t sy)                             \
    {                                                                                                             \
        DOTS(f, biased)                                                                                           \
    }                                                                                                             \
    static void unpack_##f(const struct quant_matrix *m, int64_t row, int64_t at, int64_t blocks, float *y)       \
    {                                                                                                             \
        unpack_blocks(f, biased, m, row, at, blocks, y);                                                          \
    }                                                                                                             \
    static void across_##f(const struct quant_matrix *m, int64_t first, int rows, int64_t at, int64_t n,          \
                           const uint32_t *words, float *y, int64_t sy)                                           \
    {                                                                                                             \
        rows_across(f, biased, 1, store_numbers, m, first, rows, at, n, words, (uint32_t *)(void *)y, sy);        \
    }                                                                                                             \
    ACROSS_PAIRS(f, biased)                                                                                       \
    static void add_rows_##f(const struct quant_matrix *m, int64_t first, int64_t n, const float *x, int64_t ldx, \
                             int nv, int64_t at, int64_t blocks, float *y, int64_t ldy)                           \
    {                                                                                                             \
        add_rows(f, biased, m, first, n, x, ldx, nv, at, blocks, y, ldy);                                         \
    }
FORMAT(QUANT_1, true)
FORMAT(QUANT_2, true)
FORMAT(QUANT_3, true)
FORMAT(QUANT_4, true)
FORMAT(QUANT_5, true)
FORMAT(QUANT_6, true)
FORMAT(QUANT_8, true)
FORMAT(QUANT_FP4, false)
FORMAT(QUANT_FP8, false)

extern const struct quant_kernels LEVEL(quant_kernels);
#define ROW_OF(f, e, w) \
    [f] = { e, w, f == QUANT_4 ? 4 : f == QUANT_8 ? 8 : 0, dot_##f, add_rows_##f, unpack_##f, across_##f, PAIRS_OF(f) }
const struct quant_kernels LEVEL(quant_kernels) = {
    .lanes = W,
    .format = { ROW_OF(QUANT_1, 32, 1), ROW_OF(QUANT_2, 16, 1), ROW_OF(QUANT_3, 32, 3), ROW_OF(QUANT_4, 8, 1),
                ROW_OF(QUANT_5, 32, 5), ROW_OF(QUANT_6, 16, 3), ROW_OF(QUANT_8, 4, 1), ROW_OF(QUANT_FP4, 8, 1),
                ROW_OF(QUANT_FP8, 4, 1) },
    .affine = LEVEL(quantize_affine),
    .floating = LEVEL(quantize_floating),
    .to_e4m3 = LEVEL(to_e4m3),
    .from_e4m3 = from_e4m3,
};
