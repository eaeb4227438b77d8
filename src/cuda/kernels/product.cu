/* product.cu: products of matrices, of any type and layout: cu_product_large_f32.  The build compiles it for each line
 * of modules.def, with SUFFIX, S, the type as stored, SUM, that of sums, and a word for its kind (none: float) defined.
 *
 * A block makes a tile of y.  For each stretch of k its threads fetch both operands' parts into shared memory, while
 * they multiply those of the stretch before.  Sums run along k in order, in pieces that follow from the sizes alone. */
#include "cuda/kernels/gpu.h"

#include "cuda/kernels/lanes.h"
#include "cuda/kernels/places.h"
#include "cuda/kernels/product.h"

#define K(name) PASTE(name, SUFFIX)
typedef SUM T;
#if defined HALF
#define IN(x) PASTE(f32_from, SUFFIX)(x)
#define OUT(x) PASTE(SUFFIX, from_f32)(x)
#elif defined BOOL
#define IN(x) ((T)((x) != 0))
#define OUT(x) ((S)((x) != 0))
#elif defined COMPLEX
#define IN(x) (x)
#define OUT(x) (x)
#else
#define IN(x) ((T)(x))
#define OUT(x) ((S)(x))
#endif

/* ---- what depends on the type of sums */

FN S zero_element(void)
{
    S z = { 0 };
    return z;
}
FN T zero_sum(void)
{
    T z = { 0 };
    return z;
}

#ifdef COMPLEX
FN T plus_product(T sum, T x, T y)
{
    sum.re = m_fma_f32(-x.im, y.im, m_fma_f32(x.re, y.re, sum.re));
    sum.im = m_fma_f32(x.im, y.re, m_fma_f32(x.re, y.im, sum.im));
    return sum;
}
FN T plus(T x, T y)
{
    x.re += y.re;
    x.im += y.im;
    return x;
}
FN T scale(double s, T x)
{
    x.re *= (float)s;
    x.im *= (float)s;
    return x;
}
#else
#if defined INTEGER
#define FUSED(x, y, sum) ((sum) + (x) * (y))
#elif defined HALF
#define FUSED(x, y, sum) m_fma_f32(x, y, sum)
#else
#define FUSED(x, y, sum) PASTE(m_fma, SUFFIX)(x, y, sum)
#endif
FN T plus_product(T sum, T x, T y) { return FUSED(x, y, sum); }
FN T plus(T x, T y) { return x + y; }
FN T scale(double s, T x) { return (T)s * x; }
#endif

/* ---- results */

/* What a sum becomes, at a place of c. */
FN T finished(const struct product_args *a, T sum, const S *c)
{
    if (!a->scaled)
        return sum;
    sum = scale(a->alpha, sum);
    return c ? plus(sum, scale(a->beta, IN(*c))) : sum;
}

/* Where a block works: the tile's first row and column, its piece of k, its product. */
struct spot {
    int64_t row, column, from, end, piece, batch;
    struct places at; /* in a, b and c */
};
enum { TILES_DOWN = 8 }; /* neighbours in time are squares of tiles, whose operands are in the cache */

FN struct spot spot_of(const struct product_args *a, int tile)
{
    struct spot s;
    int64_t tiles = a->down * a->across, t = blockIdx.x % tiles, rest = blockIdx.x / tiles;
    int64_t group = t / (TILES_DOWN * a->across), first = group * TILES_DOWN, within = t % (TILES_DOWN * a->across);
    int64_t tall = a->down - first < TILES_DOWN ? a->down - first : TILES_DOWN;
    s.row = (first + within % tall) * tile;
    s.column = within / tall * tile;
    s.piece = rest % a->pieces;
    s.batch = rest / a->pieces;
    s.from = s.piece * a->piece;
    s.end = a->k - s.from < a->piece ? a->k : s.from + a->piece;
    s.at = places_of(s.batch, a->batches, a->ndim, a->shape, 3, a->batch[0], PRODUCT_DIMS);
    return s;
}

/* Four sums that are neighbours in row i, from column j on, or as many of them as there are columns. */
FN void put_four(const struct product_args *a, const struct spot *s, int64_t i, int64_t j, const T sum[4])
{
    int64_t place = (s->batch * a->m + i) * a->n + j;
    union {
        T v[4];
        struct words4 align;
    } t;
    union {
        S v[4];
        struct words4 align;
    } u;
    if (i >= a->m || j >= a->n)
        return;
    int n = a->n - j < 4 ? (int)(a->n - j) : 4;
    if (a->pieces > 1) {
        T *to = (T *)a->partial + s->piece * a->batches * a->m * a->n + place;
        for (int k = 0; k < 4; k++) t.v[k] = sum[k];
        if (a->fours) {
            COPY_LANES(to, t.v, sizeof t.v);
        } else {
            for (int k = 0; k < 4; k++)
                if (k < n)
                    to[k] = t.v[k];
        }
        return;
    }
    const S *c = a->c ? (const S *)a->c + s->at.at[2] + i * a->c_row + j * a->c_column : NULL;
    for (int k = 0; k < 4; k++) u.v[k] = OUT(finished(a, sum[k], c && k < n ? c + k * a->c_column : NULL));
    S *y = (S *)a->y + place;
    if (a->fours) {
        COPY_LANES(y, u.v, sizeof u.v);
    } else {
        for (int k = 0; k < 4; k++)
            if (k < n)
                y[k] = u.v[k];
    }
}

/* The pieces' sums, in order. */
KERNEL(K(cu_product_merge), struct product_args)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, each = a.m * a.n, n = a.batches * each;
    if (i >= n)
        return;
    const T *from = (const T *)a.partial + i;
    const S *c = NULL;
    T sum = from[0];
    for (int64_t p = 1; p < a.pieces; p++) sum = plus(sum, from[p * n]);
    if (a.c) {
        struct places at = places_of(i / each, a.batches, a.ndim, a.shape, 3, a.batch[0], PRODUCT_DIMS);
        int64_t here = i % each;
        c = (const S *)a.c + at.at[2] + here / a.n * a.c_row + here % a.n * a.c_column;
    }
    ((S *)a.y)[i] = OUT(finished(&a, sum, c));
}

/* ---- tiles */

#if defined HALF
#define TILE PRODUCT_LARGE
#define ROWS 16
#define COLUMNS 8
#define N(name) name##_large
#include "cuda/kernels/product_tile.inc"
#define TILE PRODUCT_SMALL
#define ROWS 8
#define COLUMNS 4
#define N(name) name##_small
#include "cuda/kernels/product_tile.inc"
#else
#if defined LARGE
#define TILE PRODUCT_LARGE
#define ROWS 8
#define COLUMNS 8
#define N(name) name##_large
#include "cuda/kernels/product_tile.inc"
#endif
#define TILE PRODUCT_SMALL
#define ROWS 4
#define COLUMNS 4
#define N(name) name##_small
#include "cuda/kernels/product_tile.inc"
#endif
