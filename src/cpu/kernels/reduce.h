/* reduce.h: folding runs of elements, and normalizing rows. */
#ifndef MX_CPU_KERNELS_REDUCE_H
#define MX_CPU_KERNELS_REDUCE_H

#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

enum reduce_id { REDUCE_SUM, REDUCE_PROD, REDUCE_MIN, REDUCE_MAX, REDUCE_ALL, REDUCE_ANY, REDUCE_COUNT };

/* What a fold is carried in between blocks. */
union fold_acc {
    double f;
    double c[2];
    int64_t i; /* wraps */
    uint64_t u;
};

/* 1 leaves all as they are, infinite ones too, so that a fold may begin with it. */
static inline void fold_times(union fold_acc *acc, double re, double im)
{
    if (re == 1 && im == 0)
        return;
    if (acc->c[0] == 1 && acc->c[1] == 0) {
        acc->c[0] = re;
        acc->c[1] = im;
        return;
    }
    double r = acc->c[0] * re - acc->c[1] * im;
    acc->c[1] = acc->c[0] * im + acc->c[1] * re;
    acc->c[0] = r;
}

/* *acc = fold of *acc and x[0..n). */
typedef void reduce_row_fn(union fold_acc *acc, const void *x, size_t n);
/* y[i] = fold of x[i * stride .. + n) from nothing, for each row; y of x's type. */
typedef void reduce_rows_fn(void *y, const void *x, int64_t stride, size_t rows, size_t n);
/* Sums of products: *acc += sum of x[i] * y[i], of at most 1,024; and z[i] = that of each row, of n elements. */
typedef void reduce_dot_fn(union fold_acc *acc, const void *x, const void *y, size_t n);
typedef void reduce_dot_rows_fn(void *z, const void *x, const void *y, size_t rows, size_t n);
/* acc[j] = fold of acc[j] and x[i * stride + j] over `rows` rows; stride in elements, cols <= REDUCE_COLS. */
typedef void reduce_col_fn(union fold_acc *acc, const void *x, int64_t stride, size_t rows, size_t cols);
enum { REDUCE_COLS = 512, REDUCE_ROWS = 32 /* that are folded before they go into acc */ };
/* y[i * cols + j] = fold of x[i * step + at[k] + j] over `rows` rows from nothing, for n rows of results; rows no more
 * than REDUCE_ROWS, cols than REDUCE_COLS, y of x's type. */
typedef void reduce_few_fn(void *y, const void *x, int64_t step, size_t n, const int64_t *at, size_t rows, size_t cols);
enum { NARROW = 64 /* columns, which do not fill vectors well */ };

/* Where in x[0..n) the first element equal to the extreme is (for floats, the first NaN if it is one); n if nowhere. */
typedef size_t find_fn(const void *x, const union fold_acc *extreme, size_t n);
/* Where in each row of n > 0 elements, n < 2^31, the first extreme is, or the first NaN. */
typedef void places_fn(uint32_t *y, const void *x, size_t rows, size_t n);
/* y = exp(x - max) / sum, or its logarithm, (x - max) - log(sum), for each row of n > 0 elements; y may be x. */
typedef void softmax_fn(void *y, const void *x, size_t rows, size_t n);
/* log(sum(exp(x - most))) and most, the largest of x, for each row; where that is infinite or NaN, 0. */
typedef void logsumexp_fn(double *log, double *most, const void *x, size_t rows, size_t n);

struct reduce_kernels {
    reduce_row_fn *row[REDUCE_COUNT][DT_COUNT];   /* half types: cast to float32 first */
    reduce_rows_fn *rows[REDUCE_COUNT][DT_COUNT]; /* integers, float32 and float64, of the folds they have */
    reduce_dot_fn *dot[DT_COUNT];                 /* float32 and float64 */
    reduce_dot_rows_fn *dot_rows[DT_COUNT];
    reduce_dot_fn *spread[DT_COUNT];           /* as `dot` of x - y[0] with itself, */
    reduce_dot_rows_fn *spread_rows[DT_COUNT]; /* and as dot_rows of x[i] - y[i] for each row */
    reduce_col_fn *col[REDUCE_COUNT][DT_COUNT];
    reduce_few_fn *few[REDUCE_COUNT][DT_COUNT]; /* as rows */
    find_fn *find[DT_COUNT];
    places_fn *places[2][DT_COUNT]; /* of the least and of the largest; float32 and float64 */
    softmax_fn *softmax[DT_COUNT];  /* float32 and float64 */
    softmax_fn *log_softmax[DT_COUNT];
    logsumexp_fn *logsumexp[DT_COUNT];
};

#endif
