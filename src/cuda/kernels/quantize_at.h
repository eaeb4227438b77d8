/* quantize_at.h: what kernels read of packed matrices: their formats, scales, codes and numbers, and where they are.
 *
 * A row of a packed matrix is a stream of codes, lowest bits first.  A chunk of it is the fewest whole words that hold
 * whole codes.
 *
 * Include cuda/kernels/gpu.h before, with SUFFIX and S, the type of x and of results, defined, HALF for half types, and
 * WIDE where there are no products. */
#ifndef MX_CUDA_KERNELS_QUANTIZE_AT_H
#define MX_CUDA_KERNELS_QUANTIZE_AT_H

#include "core/dtype.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"
#include "cuda/kernels/quantize.h"
#include "cuda/kernels/warp.h"
#include "shared/quantize.h"

#define K(name) PASTE(name, SUFFIX)
#ifdef HALF
#define IN(x) PASTE(f32_from, SUFFIX)(x)
#define OUT(x) PASTE(SUFFIX, from_f32)(x)
#else
#define IN(x) ((float)(x))
#define OUT(x) ((S)(x))
#endif

/* ---- formats: functions of a constant */

FN int bits_of(const int f)
{
    return f == FORMAT_u8 || f == FORMAT_mxfp8 ? 8 : f == FORMAT_mxfp4 || f == FORMAT_nvfp4 ? 4 : f + 1;
}
FN int words_of(const int f) { return bits_of(f) == 6 ? 3 : bits_of(f) % 2 ? bits_of(f) == 1 ? 1 : bits_of(f) : 1; }
FN int elements_of(const int f) { return words_of(f) * 32 / bits_of(f); }
FN bool is_affine(const int f) { return f <= FORMAT_u8; }
enum { MOST_WORDS = 5, MOST_ELEMENTS = 32 };

/* Code j of a chunk as a number. */
FN float number(const int f, const uint32_t *d, const int j)
{
    const int bits = bits_of(f), at = j * bits, word = at / 32, shift = at % 32;
    if (f == FORMAT_u8) /* 2^23 + the code, less that */
        return f32_bits(bytes_of(d[word], 0x4b000000u, 0x7440u | shift / 8)) - 8388608.0f;
    uint32_t v = d[word] >> shift;
    if (shift + bits > 32)
        v |= d[word + 1] << (32 - shift);
    v &= (1u << bits) - 1;
    if (f == FORMAT_mxfp8)
        return f32_from_e4m3(v);
    if (!is_affine(f))
        return f32_from_e2m1(v);
    return f32_bits(0x4b000000u | v) - 8388608.0f; /* likewise */
}

/* Scale (or bias) i of a product. */
FN float scale_at(const int f, const void *s, int64_t i)
{
    if (is_affine(f))
        return IN(((const S *)s)[i]);
    uint32_t e = ((const uint8_t *)s)[i];
    return f == FORMAT_nvfp4 ? f32_from_e4m3(e) : f32_from_e8m0(e);
}

#ifndef WIDE
/* ---- where matrices are */

/* Where a place of the batch has its matrices. */
struct matrices {
    const S *x;
    const uint32_t *w;
    int64_t group; /* the first one */
};
FN struct matrices matrices_of(const struct qmm_args *a, int64_t i)
{
    struct matrices p;
    int64_t x = 0, w = 0, n = i;
    ROLLED
    for (int d = a->ndim; d-- > 0;) {
        int64_t here = d ? n % a->shape[d] : n;
        n /= a->shape[d];
        x += here * a->stride[0][d];
        w += here * a->stride[1][d];
    }
    if (a->lhs) {
        x = a->lhs[i];
        w = a->rhs[i];
    }
    p.x = (const S *)a->x + x * a->m * a->k;
    p.w = (const uint32_t *)a->w + w * a->words;
    p.group = w * a->groups;
    return p;
}
#endif

#if defined HALF && HAS_WARP_PRODUCTS
/* ---- numbers of half types as warps multiply them: a thread has QMM_CHUNK neighbours of a row */

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
/* Integers of so few bits are exact behind the first bits of a number of x's type, which is then taken off again: two
 * at once.  Of e2m1 the bits are moved to where x's type has them, which is 2^-126 of the number, or 2^-14 in float16,
 * which has too few exponents for scales in e8m0. */
enum {
    IS_F16 = sizeof(TEXT_OF(SUFFIX)) == sizeof "f16",
    PAIR_BITS = IS_F16 ? 10 : 7,
    PAIR_FIRST = IS_F16 ? 0x64006400 : 0x43004300, /* 2^10, 2^7 */
    E2M1_AT = IS_F16 ? 9 : 6,
    E2M1_BY = IS_F16 ? 0x74007400 : 0x7e807e80,
};
FN bool in_pairs(const int f)
{
    return is_affine(f) ? bits_of(f) <= PAIR_BITS : f == FORMAT_nvfp4 || (f == FORMAT_mxfp4 && !IS_F16);
}

/* Of a row's chunk, as they are stored, or as pairs of equals or the bits of a float32; nvfp4's latter half has another
 * scale. */
struct scales {
    uint32_t scale[2], bias;
};
FN uint32_t stored_scale(const int f, const void *s, int64_t i)
{
    return is_affine(f) ? ((const S *)s)[i] : ((const uint8_t *)s)[i];
}
FN uint32_t kept_scale(const int f, uint32_t stored)
{
    if (is_affine(f) && in_pairs(f))
        return stored * 0x10001u;
    float x = is_affine(f) ? IN((S)stored) : f == FORMAT_nvfp4 ? f32_from_e4m3(stored) : f32_from_e8m0(stored);
    return in_pairs(f) ? PASTE(pair, SUFFIX)(x, x) : bits_f32(x);
}
/* Of so many rows, the first `rows` of which are there; where k ends what is multiplied by 0 is 0. */
FN void load_scales(const int f, const struct qmm_args *a, struct scales *s, const int lines, int64_t group, int64_t k,
                    int rows)
{
    int64_t row_groups = a->k >> a->log_group, here = group + (k >> a->log_group);
    UNROLLED
    for (int r = 0; r < lines; r++, here += row_groups) {
        bool is = k < a->k && r < rows;
        s[r].scale[0] = is ? stored_scale(f, a->scales, here) : 0;
        s[r].scale[1] = f == FORMAT_nvfp4 && is ? stored_scale(f, a->scales, here + 1) : 0;
        s[r].bias = is_affine(f) && is ? stored_scale(f, a->biases, here) : 0;
    }
}
/* These as numbers are made with them: not as soon as they are on their way, but when they are needed. */
FN void keep_scales(const int f, struct scales *s, const struct scales *stored, const int lines)
{
    UNROLLED
    for (int r = 0; r < lines; r++) {
        s[r].scale[0] = kept_scale(f, stored[r].scale[0]);
        s[r].scale[1] = f == FORMAT_nvfp4 ? kept_scale(f, stored[r].scale[1]) : s[r].scale[0];
        s[r].bias = is_affine(f) ? kept_scale(f, stored[r].bias) : 0;
    }
}

FN void load_codes(const int words, uint32_t *d, shared_at from)
{
    UNROLLED
    for (int i = 0; i < words; i += words % 4 == 0 ? 4 : words % 2 == 0 ? 2 : 1) {
        if (words % 4 == 0) {
            struct words4 v = words4_at(from + 4 * i);
            for (int e = 0; e < 4; e++) d[i + e] = v.w[e];
        } else if (words % 2 == 0) {
            struct words2 v = words2_at(from + 4 * i);
            for (int e = 0; e < 2; e++) d[i + e] = v.w[e];
        } else {
            d[i] = word_at(from + 4 * i);
        }
    }
}

/* Codes j and j + 1 of a chunk in the low bits of either half, with others behind them. */
FN uint32_t codes_of(const int bits, const uint32_t *d, const int j)
{
    const int at = j * bits, next = at + bits;
    if (8 % bits == 0)
        return bytes_of(d[at / 32] >> at % 8, d[next / 32] >> next % 8, at % 32 / 8 | (4 + next % 32 / 8) << 8);
    uint32_t x = d[at / 32] >> at % 32, y = d[next / 32] >> next % 32;
    if (at % 32 + bits > 32)
        x |= d[at / 32 + 1] << (32 - at % 32);
    if (next % 32 + bits > 32)
        y |= d[next / 32 + 1] << (32 - next % 32);
    return bytes_of(x, y, 0x5410);
}

/* Two e4m3 in the last 16 bits of v. */
FN void e4m3_two(float *x, float *y, uint32_t v)
{
#if defined __CUDACC__ && __CUDA_ARCH__ >= 890
    uint32_t both;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(both) : "h"((uint16_t)v));
    *x = f32_from_f16((uint16_t)both);
    *y = f32_from_f16((uint16_t)(both >> 16));
#else
    *x = f32_from_e4m3(v & 255);
    *y = f32_from_e4m3(v >> 8 & 255);
#endif
}

/* Numbers j and j + 1 of a chunk. */
FN uint32_t numbers_of(const int f, const uint32_t *d, const int j, const struct scales *s)
{
    const int bits = bits_of(f);
    uint32_t scale = s->scale[j / (QMM_CHUNK / 2)];
    if (in_pairs(f)) {
        uint32_t x = codes_of(bits, d, j);
        if (!is_affine(f)) {
            x = masked_or(x << E2M1_AT, 0x00070007u << E2M1_AT, x << 12 & 0x80008000);
            return PASTE(multiply_pair, SUFFIX)(PASTE(multiply_pair, SUFFIX)(x, E2M1_BY), scale);
        }
        x = masked_or(x, ((1u << bits) - 1) * 0x10001u, PAIR_FIRST);
        return PASTE(fused_pair, SUFFIX)(PASTE(subtract_pair, SUFFIX)(x, PAIR_FIRST), scale, s->bias);
    }
    float by = f32_bits(scale), x, y;
    if (f == FORMAT_mxfp8) {
        e4m3_two(&x, &y, d[j / 4] >> j % 4 * 8);
    } else {
        x = number(f, d, j);
        y = number(f, d, j + 1);
    }
    if (is_affine(f))
        return PASTE(pair, SUFFIX)(__builtin_fmaf(x, by, f32_bits(s->bias)), __builtin_fmaf(y, by, f32_bits(s->bias)));
    return PASTE(pair, SUFFIX)(x * by, y * by);
}

#endif
#endif
