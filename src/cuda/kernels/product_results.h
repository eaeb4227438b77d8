/* product_results.h: what depends on the type of a product's sums, and what becomes of sums: results, or parts of such.
 *
 * Include cuda/kernels/gpu.h, lanes.h, product_at.h and warp.h before. */
#ifndef MX_CUDA_KERNELS_PRODUCT_RESULTS_H
#define MX_CUDA_KERNELS_PRODUCT_RESULTS_H

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

/* What a sum becomes, at a place of c. */
FN T scaled_sum(double alpha, double beta, T sum, const S *c)
{
    sum = scale(alpha, sum);
    return c ? plus(sum, scale(beta, IN(*c))) : sum;
}
FN T finished(const struct product_args *a, T sum, const S *c)
{
    return a->scaled ? scaled_sum(a->alpha, a->beta, sum, c) : sum;
}

/* Where row i of groups belongs in y. */
FN_APART int64_t line_in_order(const struct product_args *a, int64_t i)
{
    int64_t pair = i / a->each;
    return a->order[pair] * a->each + (i - pair * a->each);
}

/* Four sums that are neighbours in row i, from column j on, or as many of them as there are columns. */
FN_APART void put_some(const struct product_args *a, const struct spot *s, int64_t i, int64_t j, const T sum[4])
{
    union {
        T v[4];
        struct words4 align;
    } t;
    union {
        S v[4];
        struct words4 align;
    } u;
    if (i >= s->bottom || j >= a->n)
        return;
    int64_t line = a->order ? line_in_order(a, i) : i;
    int n = a->n - j < 4 ? (int)(a->n - j) : 4;
    if (a->pieces > 1) {
        T *to = (T *)a->partial + ((s->piece * a->batches + s->batch) * a->m + line) * a->n + j;
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
    S *y = (S *)a->y + s->batch * a->y_matrix + line * a->y_row + j;
    if (a->fours) {
        COPY_LANES(y, u.v, sizeof u.v);
    } else {
        for (int k = 0; k < 4; k++)
            if (k < n)
                y[k] = u.v[k];
    }
}

/* The same; most often all of them are the result as they are. */
FN void put_four(const struct product_args *a, const struct spot *s, int64_t i, int64_t j, const T sum[4])
{
    if (!a->plain) {
        T four[4] = { sum[0], sum[1], sum[2], sum[3] }; /* what has an address is not in registers */
        put_some(a, s, i, j, four);
    } else if (i < a->m && j < a->n) {
        union {
            S v[4];
            struct words4 align;
        } u;
        for (int k = 0; k < 4; k++) u.v[k] = OUT(sum[k]);
        COPY_LANES((S *)a->y + s->batch * a->y_matrix + i * a->y_row + j, u.v, sizeof u.v);
    }
}

#if HAS_WARP_PRODUCTS && (defined HALF || defined LARGE)
/* The sums of a warp product, from this row and column on. */
FN void put_of_warp(const struct product_args *a, const struct spot *s, int64_t row, int64_t column, const float c[4])
{
    float four[4];
    put_four(a, s, row + four_of_warp(four, c), column + (int)threadIdx.x % 4 / 2 * 4, four);
}
#endif

#if HAS_WARP_PRODUCTS && defined LARGE
/* Row i times column j, number by number. */
FN_APART float sum_at(const struct product_args *a, const struct spot *s, int64_t i, int64_t j)
{
    const float *x = (const float *)a->a.p + s->at.at[0] + i * a->a.line;
    const float *y = (const float *)a->b.p + s->at.at[1] + j * a->b.line;
    float sum = 0;
    if (i < s->bottom && j < a->n)
        for (int64_t k = s->from; k < s->end; k++) sum = m_fma_f32(x[k * a->a.depth], y[k * a->b.depth], sum);
    return sum;
}
#endif

#endif
