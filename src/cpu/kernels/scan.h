/* scan.h: running folds. */
#ifndef MX_CPU_KERNELS_SCAN_H
#define MX_CPU_KERNELS_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "cpu/kernels/reduce.h"

enum scan_id { SCAN_ID_SUM, SCAN_ID_PROD, SCAN_ID_MIN, SCAN_ID_MAX, SCAN_ID_COUNT };

/* y[i] = fold of *acc and x[0..i], or with `back` of *acc and x[i..n); *acc becomes that of all. */
typedef void scan_row_fn(union fold_acc *acc, void *y, const void *x, size_t n, bool back);
/* The same for each of `cols` columns, over rows that are `stride` elements apart. */
typedef void scan_col_fn(union fold_acc *acc, void *y, const void *x, int64_t stride, size_t rows, size_t cols);
/* z[i] = a[i] * z[i-1] + b[i] for each column; acc is the row before the first. */
typedef void recurrence_fn(union fold_acc *acc, void *z, const void *a, const void *b, int64_t stride, size_t rows,
                           size_t cols);
enum { SCAN_COLS = 128 };

struct scan_kernels {
    scan_row_fn *row[SCAN_ID_COUNT][DT_COUNT]; /* half types: cast to float32 first */
    scan_col_fn *col[SCAN_ID_COUNT][DT_COUNT];
    /* Logarithms of sums of exponentials: acc->c is the largest exponent and the sum beside it. */
    scan_row_fn *logsumexp[DT_COUNT];    /* float32 and float64 */
    reduce_row_fn *total[DT_COUNT];      /* sums in double, of float32 and complex64 */
    recurrence_fn *recurrence[DT_COUNT]; /* inexact types */
};

#endif
