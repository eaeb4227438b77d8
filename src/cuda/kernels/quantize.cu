/* quantize.cu: packed weights: making them, reading them, multiplying with them: cu_qmv_u4_bf16.  The build compiles it
 * as it does elementwise.cu; all is computed in float32.
 *
 * A row of a packed matrix is a stream of codes, lowest bits first.  A chunk of it is the fewest whole words that hold
 * whole codes; a thread works on chunks. */
#include "cuda/kernels/gpu.h"

#include "core/dtype.h"
#include "cuda/kernels/lanes.h"
#include "cuda/kernels/quantize_at.h"
#ifndef WIDE
typedef float T;
#include "cuda/kernels/vector_norm.h"
#include "cuda/kernels/vector_results.h"
#endif
#include "cuda/kernels/warp.h"
#include "shared/quantize.h"

/* The factor of scales that a global scale stands for: as ops/quantize.h has it. */
FN float factor_of(const float *global) { return global ? *global / (6.0f * 448.0f) : 1; }

/* ---- quantize: a thread has QUANT_EACH numbers, neighbours in a warp the others of the group */

FN void store_bytes(uint8_t *to, uint64_t v, int bytes)
{
    if (bytes == 4)
        *(uint32_t *)to = (uint32_t)v;
    else if (bytes == 8)
        *(uint64_t *)to = v;
    else
        for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(v >> 8 * i);
}

struct extent {
    float low, high;
    uint32_t bad; /* is a number not finite? */
};

FN struct extent extent_of(const float x[QUANT_EACH], int team)
{
    struct extent e = { x[0], x[0], 0 };
    for (int k = 0; k < QUANT_EACH; k++) {
        e.low = x[k] < e.low ? x[k] : e.low;
        e.high = x[k] > e.high ? x[k] : e.high;
        e.bad |= (bits_f32(x[k]) & 0x7f800000u) == 0x7f800000u;
    }
    for (int bits = team / 2; bits > 0; bits /= 2) {
        float low = SHUFFLE_XOR(e.low, bits), high = SHUFFLE_XOR(e.high, bits);
        e.bad |= SHUFFLE_XOR(e.bad, bits);
        e.low = low < e.low ? low : e.low;
        e.high = high > e.high ? high : e.high;
    }
    return e;
}

/* What a group's codes are made with, as it is stored and as it comes back. */
struct scaling {
    float scale, bias;
    uint32_t byte;
    float back; /* what codes are multiplied by */
};

FN struct scaling scaling_of(const struct pack_args *a, const struct extent *e)
{
    struct scaling s = { 0 };
    if (is_affine(a->format)) {
        if (e->bad)
            s.scale = s.bias = NAN;
        else
            affine_scale(e->low, e->high, a->bits, &s.scale, &s.bias);
        s.back = s.scale;
        return s;
    }
    bool nv = a->format == FORMAT_nvfp4;
    float most = -e->low > e->high ? -e->low : e->high, largest = a->bits == 4 ? 6.0f : 448.0f;
    float factor = factor_of(a->global);
    if (nv) {
        s.byte = e->bad ? 0x7f : e4m3_of(most / largest / factor);
        s.back = f32_from_e4m3(s.byte);
        s.scale = s.back * factor;
    } else {
        s.byte = e->bad ? 0xff : e8m0_of(most / largest);
        s.scale = s.back = f32_from_e8m0(s.byte);
    }
    return s;
}

FN uint32_t code_of(const struct pack_args *a, const struct scaling *s, float x)
{
    if (is_affine(a->format))
        return affine_of(x, s->scale, s->bias, (float)((1 << a->bits) - 1)) & 255;
    if (s->scale == 0)
        return 0;
    return a->bits == 4 ? e2m1_of(x / s->scale) : e4m3_of(x / s->scale);
}

FN float number_back(const struct pack_args *a, const struct scaling *s, uint32_t code)
{
    if (is_affine(a->format))
        return __builtin_fmaf((float)code, s->scale, s->bias);
    float y = (a->bits == 4 ? f32_from_e2m1(code) : f32_from_e4m3(code)) * s->back;
    return a->global ? y * factor_of(a->global) : y;
}

KERNEL(K(cu_quantize), struct pack_args)
{
    int64_t first = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * QUANT_EACH;
    bool here = first < a.n;
    float x[QUANT_EACH];
    for (int k = 0; k < QUANT_EACH; k++) x[k] = here ? IN(((const S *)a.x)[first + k]) : 0.0f;
    struct extent e = extent_of(x, a.group / QUANT_EACH);
    if (!here)
        return;
    struct scaling s = scaling_of(&a, &e);
    uint64_t codes = 0;
    for (int k = 0; k < QUANT_EACH; k++) {
        uint32_t code = e.bad ? 0 : code_of(&a, &s, x[k]);
        codes |= (uint64_t)code << k * a.bits;
        if (a.y)
            ((S *)a.y)[first + k] = OUT(number_back(&a, &s, code));
    }
    if (a.y)
        return;
    store_bytes((uint8_t *)a.w + first / QUANT_EACH * a.bits, codes, a.bits);
    if (first % a.group == 0) {
        int64_t g = first / a.group;
        if (is_affine(a.format)) {
            ((S *)a.scales)[g] = OUT(s.scale);
            ((S *)a.biases)[g] = OUT(s.bias);
        } else {
            ((uint8_t *)a.scales)[g] = (uint8_t)s.byte;
        }
    }
}

/* ---- e4m3 by itself: y of bytes, or from them */

KERNEL(K(cu_to_fp8), struct pack_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n)
        ((uint8_t *)a.y)[i] = (uint8_t)e4m3_of(IN(((const S *)a.x)[i]));
}

KERNEL(K(cu_from_fp8), struct pack_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a.n)
        ((S *)a.y)[i] = OUT(f32_from_e4m3(((const uint8_t *)a.x)[i]));
}

/* ---- dequantize: a chunk for each thread, or several */

/* As a scale or bias is in memory, and its number: apart, so that all that a thread reads is on its way at once. */
FN uint32_t stored(const int f, const struct unpack_args *a, const void *s, int64_t i)
{
    if (!is_affine(f))
        return ((const uint8_t *)s)[i];
    return a->t == DT_float32 ? ((const uint32_t *)s)[i] : ((const uint16_t *)s)[i];
}

FN float number_stored(const int f, const struct unpack_args *a, uint32_t v)
{
    if (!is_affine(f))
        return f == FORMAT_nvfp4 ? f32_from_e4m3(v) : f32_from_e8m0(v);
    return a->t == DT_float32   ? f32_bits(v)
           : a->t == DT_float16 ? f32_from_f16((uint16_t)v)
                                : f32_from_bf16((uint16_t)v);
}

/* Of 4 and 8 bits a thread has four pieces, each one write of half types, whose reads are on their way at once. */
#define DEQUANTIZE(format, bits)                                                                            \
    KERNEL(K(cu_dequantize_##format), struct unpack_args)                                                   \
    {                                                                                                       \
        enum {                                                                                              \
            F = FORMAT_##format,                                                                            \
            ELEMENTS = QUANT_PIECE(bits, sizeof(S)),                                                        \
            WORDS = ELEMENTS * bits / 32,                                                                   \
            PIECES = QUANT_PIECES(bits)                                                                     \
        };                                                                                                  \
        int64_t chunk = (int64_t)blockIdx.x * (QUANT_THREADS * PIECES) + threadIdx.x;                       \
        union {                                                                                             \
            S v[ELEMENTS];                                                                                  \
            struct words4 align;                                                                            \
        } u;                                                                                                \
        uint32_t d[PIECES][WORDS], s[PIECES], b[PIECES];                                                    \
        float factor = factor_of(a.global);                                                                 \
        if (chunk * ELEMENTS >= a.n)                                                                        \
            return;                                                                                         \
        UNROLLED                                                                                            \
        for (int p = 0; p < PIECES; p++) {                                                                  \
            int64_t at = chunk + p * QUANT_THREADS;                                                         \
            at = at * ELEMENTS < a.n ? at : chunk;                                                          \
            for (int i = 0; i < WORDS; i++) d[p][i] = ((const uint32_t *)a.w)[at * WORDS + i];              \
            s[p] = stored(F, &a, a.scales, at * ELEMENTS >> a.log_group);                                   \
            b[p] = is_affine(F) ? stored(F, &a, a.biases, at * ELEMENTS >> a.log_group) : 0;                \
        }                                                                                                   \
        UNROLLED                                                                                            \
        for (int p = 0; p < PIECES; p++) {                                                                  \
            int64_t first = (chunk + p * QUANT_THREADS) * ELEMENTS;                                         \
            float scale = number_stored(F, &a, s[p]), bias = is_affine(F) ? number_stored(F, &a, b[p]) : 0; \
            for (int j = 0; j < ELEMENTS; j++) {                                                            \
                float v = number(F, d[p], j);                                                               \
                v = is_affine(F) ? __builtin_fmaf(v, scale, bias) : v * scale;                              \
                u.v[j] = OUT(a.global ? v * factor : v);                                                    \
            }                                                                                               \
            if (first < a.n) {                                                                              \
                PUT_LANES((S *)a.y + first, u.v, sizeof u.v);                                               \
            }                                                                                               \
        }                                                                                                   \
    }
QUANT_FORMATS(DEQUANTIZE)

#ifndef WIDE
/* ---- products */

/* Scale and bias g; biases are 0 where there are none. */
FN void factors_at(const int f, const void *scales, const void *biases, int64_t g, float *s, float *b)
{
    *s = scale_at(f, scales, g);
    *b = is_affine(f) ? scale_at(f, biases, g) : 0;
}
FN void scale_of(const int f, const struct qmm_args *a, int64_t g, float *s, float *b)
{
    factors_at(f, a->scales, a->biases, g, s, b);
}

/* n numbers of a row of x. */
FN void load_x(float *to, const S *x, const int n, int aligned)
{
    if (aligned) {
        union {
            S v[MOST_ELEMENTS];
            struct words4 align;
        } u;
        if (sizeof(S) * n % 16 == 0) {
            for (int c = 0; c < (int)sizeof(S) * n / 16; c++) ((struct words4 *)u.v)[c] = ((const struct words4 *)x)[c];
        } else {
            *(struct words2 *)u.v = *(const struct words2 *)x;
        }
        for (int j = 0; j < n; j++) to[j] = IN(u.v[j]);
    } else {
        for (int j = 0; j < n; j++) to[j] = IN(x[j]);
    }
}

/* The product of a chunk of each row of the matrix with nv rows of x, of which there are `vectors`. */
FN void add_chunk(const int f, const int nv, const struct qmm_args *a, const S *from, int64_t vectors,
                  const uint32_t d[QMV_ROWS][MOST_WORDS], const float s[QMV_ROWS], const float b[QMV_ROWS],
                  float total[QMV_VECTORS][QMV_ROWS])
{
    const int n = elements_of(f);
    float x[QMV_VECTORS][MOST_ELEMENTS], sum[QMV_VECTORS];
    UNROLLED
    for (int v = 0; v < nv; v++) {
        load_x(x[v], from + (v < vectors ? v : 0) * a->k, n, a->aligned);
        sum[v] = 0;
        UNROLLED
        for (int j = 0; j < n && is_affine(f); j++) sum[v] += x[v][j];
    }
    UNROLLED
    for (int r = 0; r < QMV_ROWS; r++) {
        float part[QMV_VECTORS] = { 0 };
        UNROLLED
        for (int j = 0; j < n; j++) {
            float w = number(f, d[r], j);
            for (int v = 0; v < nv; v++) part[v] = __builtin_fmaf(w, x[v][j], part[v]);
        }
        for (int v = 0; v < nv; v++) {
            total[v][r] = __builtin_fmaf(s[r], part[v], total[v][r]);
            if (is_affine(f))
                total[v][r] = __builtin_fmaf(b[r], sum[v], total[v][r]);
        }
    }
}

/* A thread's chunks c, c + step, ... of a row of the matrix with a row of x, number by number: for where the sum over
 * codes and that for biases are not finite, which may be NaN together. */
FN_APART float row_by_numbers(int f, int log_group, const void *scales, const void *biases, const S *x,
                              const uint32_t *w, int64_t group, int64_t c, int64_t step, int64_t chunks)
{
    const int words = words_of(f), n = elements_of(f);
    float sum = 0;
    for (; c < chunks; c += step) {
        uint32_t d[MOST_WORDS];
        float s, b;
        for (int i = 0; i < words; i++) d[i] = w[c * words + i];
        factors_at(f, scales, biases, group + (c * n >> log_group), &s, &b);
        for (int j = 0; j < n; j++) sum = __builtin_fmaf(__builtin_fmaf(number(f, d, j), s, b), IN(x[c * n + j]), sum);
    }
    return sum;
}

/* Rows of the matrix with rows of x: a warp has QMV_ROWS of the former and nv of the latter, or with others of its team
 * some of their chunks. */
FN void multiply_rows(const int f, const int nv, const struct qmm_args *a)
{
    enum { R = QMV_ROWS, V = QMV_VECTORS, WARPS = QMV_THREADS / 32 };
    SHARED float parts[WARPS][R * V];
    const int words = words_of(f), n = elements_of(f), ahead = words == 1 && nv == 1 ? 4 : 1;
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, in_team = warp % a->team;
    int64_t at = ((int64_t)blockIdx.x * WARPS + warp) / a->team, above = at / a->wide;
    int64_t row = at % a->wide * R, v0 = above % a->tall * nv, place = above / a->tall;
    int64_t chunks = a->k / n, row_groups = a->k >> a->log_group, mine = place < a->batch ? chunks : 0;
    int64_t rows = a->n - row < R ? a->n - row : R, vectors = a->m - v0 < nv ? a->m - v0 : nv;
    struct matrices p = matrices_of(a, mine ? place : 0);
    float total[V][R];
    for (int v = 0; v < nv; v++)
        for (int r = 0; r < R; r++) total[v][r] = 0;
    for (int64_t c = in_team * 32 + lane; c < mine; c += 32 * ahead * a->team) {
        uint32_t d[4][R][MOST_WORDS];
        float s[4][R], b[4][R];
        UNROLLED
        for (int u = 0; u < ahead; u++) /* all are on their way before the first is used */
            for (int r = 0; r < R; r++) {
                int64_t chunk = c + (int64_t)u * 32 * a->team, line = row + (r < rows ? r : 0);
                chunk = chunk < chunks ? chunk : c;
                for (int i = 0; i < words; i++) d[u][r][i] = p.w[(line * chunks + chunk) * words + i];
                scale_of(f, a, p.group + line * row_groups + (chunk * n >> a->log_group), &s[u][r], &b[u][r]);
            }
        UNROLLED
        for (int u = 0; u < ahead; u++) {
            int64_t chunk = c + (int64_t)u * 32 * a->team;
            if (chunk < chunks)
                add_chunk(f, nv, a, p.x + v0 * a->k + chunk * n, vectors, d[u], s[u], b[u], total);
        }
    }
    UNROLLED
    for (int v = 0; v < nv && is_affine(f); v++) UNROLLED
    for (int r = 0; r < R; r++) {
        if (v < vectors && r < rows && total[v][r] - total[v][r] != 0)
            total[v][r] = row_by_numbers(f, a->log_group, a->scales, a->biases, p.x + (v0 + v) * a->k,
                                         p.w + (row + r) * chunks * words, p.group + (row + r) * row_groups,
                                         in_team * 32 + lane, 32 * a->team, mine);
    }
    for (int v = 0; v < nv; v++)
        for (int r = 0; r < R; r++)
            for (int bits = 16; bits > 0; bits /= 2) total[v][r] += SHUFFLE_XOR(total[v][r], bits);
    for (int v = 0; v < nv; v++)
        for (int r = 0; r < R; r++)
            if (lane == 0)
                parts[warp][v * R + r] = total[v][r];
    BARRIER();
    if (in_team || lane >= nv * R || place >= a->batch)
        return;
    float y = parts[warp][lane];
    for (int w = 1; w < a->team; w++) y += parts[warp + w][lane];
    if (lane % R < rows && lane / R < vectors)
        ((S *)a->y)[(place * a->m + v0 + lane / R) * a->n + row + lane % R] = OUT(y);
}

#include "cuda/kernels/quantize_lines.inc"

/* Squares of the product: numbers and rows of x meet in shared memory. */
FN void multiply_square(const int f, const struct qmm_args *a)
{
    enum { SIDE = QMM_SIDE, DEPTH = QMM_DEPTH, EACH = 4, TEAMS = SIDE / EACH };
    SHARED float xs[DEPTH][SIDE + 4], ws[DEPTH][SIDE + 4];
    const int words = words_of(f), n = elements_of(f);
    uint32_t at = blockIdx.x, above = at / a->wide;
    int64_t j0 = (int64_t)(at % a->wide) * SIDE, i0 = (int64_t)(above % a->tall) * SIDE, place = above / a->tall;
    int64_t columns = a->transpose ? a->k : a->n; /* of the matrix */
    int64_t row_words = columns / n * words, row_groups = columns >> a->log_group;
    int me = (int)threadIdx.x, tx = me % TEAMS, ty = me / TEAMS;
    struct matrices p = matrices_of(a, place);
    float total[EACH][EACH];
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) total[i][j] = 0;
    for (int64_t k0 = 0; k0 < a->k; k0 += DEPTH) {
        for (int e = me; e < SIDE * DEPTH; e += QMM_THREADS) {
            int i = e / DEPTH, k = e % DEPTH;
            bool here = i0 + i < a->m && k0 + k < a->k;
            xs[k][i] = here ? IN(p.x[(i0 + i) * a->k + k0 + k]) : 0.0f;
        }
        for (int e = me; e < SIDE * DEPTH / n; e += QMM_THREADS) { /* chunks */
            int across = a->transpose ? DEPTH / n : SIDE / n, line = e / across, first = e % across * n;
            int64_t row = (a->transpose ? j0 : k0) + line, column = (a->transpose ? k0 : j0) + first;
            bool here = row < (a->transpose ? a->n : a->k) && column < columns;
            uint32_t d[MOST_WORDS];
            float s = 0, b = 0;
            for (int i = 0; i < words; i++) d[i] = here ? p.w[row * row_words + column / n * words + i] : 0;
            if (here)
                scale_of(f, a, p.group + row * row_groups + (column >> a->log_group), &s, &b);
            for (int j = 0; j < n; j++) {
                float v = here ? __builtin_fmaf(number(f, d, j), s, b) : 0.0f;
                if (a->transpose)
                    ws[first + j][line] = v;
                else
                    ws[line][first + j] = v;
            }
        }
        BARRIER();
        for (int k = 0; k < DEPTH; k++) {
            float u[EACH], v[EACH];
            for (int i = 0; i < EACH; i++) u[i] = xs[k][ty * EACH + i];
            for (int j = 0; j < EACH; j++) v[j] = ws[k][tx * EACH + j];
            for (int i = 0; i < EACH; i++)
                for (int j = 0; j < EACH; j++) total[i][j] = __builtin_fmaf(u[i], v[j], total[i][j]);
        }
        BARRIER();
    }
    for (int i = 0; i < EACH; i++)
        for (int j = 0; j < EACH; j++) {
            int64_t row = i0 + ty * EACH + i, column = j0 + tx * EACH + j;
            if (row < a->m && column < a->n)
                ((S *)a->y)[(place * a->m + row) * a->n + column] = OUT(total[i][j]);
        }
}

#define PRODUCTS(f, bits)                                                                   \
    KERNEL(K(cu_qmv_##f), struct qmm_args) { multiply_rows(FORMAT_##f, 1, &a); }            \
    KERNEL(K(cu_qmv4_##f), struct qmm_args) { multiply_rows(FORMAT_##f, QMV_VECTORS, &a); } \
    KERNEL(K(cu_qmm_##f), struct qmm_args) { multiply_square(FORMAT_##f, &a); }
QUANT_FORMATS(PRODUCTS)

#if defined HALF && HAS_WARP_PRODUCTS
/* ---- products of half types, of many rows of x */

/* Four neighbours of a row of the result, or of the sums of a piece, or as many of them as there are. */
FN void put_sums(const struct qmm_args *a, int64_t place, int left, struct words4 four)
{
    union {
        S v[4];
        struct words2 align;
    } u;
    for (int e = 0; e < 4; e++) u.v[e] = OUT(f32_bits(four.w[e]));
    if (a->n % 4 == 0 && a->pieces > 1) {
        put16(a->partial + place, four.w);
    } else if (a->n % 4 == 0) {
        put8((S *)a->y + place, u.v);
    } else {
        for (int e = 0; e < 4; e++)
            if (e < left && a->pieces > 1)
                a->partial[place + e] = f32_bits(four.w[e]);
            else if (e < left)
                ((S *)a->y)[place + e] = u.v[e];
    }
}

/* The pieces' sums, in order: four neighbours for each thread. */
KERNEL(K(cu_qmm_merge), struct qmm_args)
{
    int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * 4, all = a.batch * a.m * a.n;
    union {
        float v[4];
        struct words4 align;
    } sum, more;
    union {
        S v[4];
        struct words2 align;
    } y;
    if (i >= all)
        return;
    if (all % 4 == 0) {
        sum.align = *(const struct words4 *)(a.partial + i);
        FOURS
        for (uint32_t p = 1; p < a.pieces; p++) {
            more.align = *(const struct words4 *)(a.partial + p * all + i);
            for (int e = 0; e < 4; e++) sum.v[e] += more.v[e];
        }
        for (int e = 0; e < 4; e++) y.v[e] = OUT(sum.v[e]);
        put8((S *)a.y + i, y.v);
    } else {
        for (int e = 0; e < 4 && i + e < all; e++) {
            float one = a.partial[i + e];
            for (uint32_t p = 1; p < a.pieces; p++) one += a.partial[p * all + i + e];
            ((S *)a.y)[i + e] = OUT(one);
        }
    }
}

#define TALL 16
#define N(name) name##_16
#include "cuda/kernels/quantize_warps.inc"
#define TALL 64
#define N(name) name##_64
#include "cuda/kernels/quantize_warps.inc"
#define TALL 128
#define N(name) name##_128
#include "cuda/kernels/quantize_warps.inc"
#endif
#endif
