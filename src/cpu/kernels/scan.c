/* scan.c: the running folds of this level.
 *
 * Sums and products of floats are carried in double.  A vector of eight is folded with itself moved
 * by one, two and four places; what was carried comes in last, so that is all that one vector waits
 * for. */
#include "cpu/kernels/scan.h"

#include "cpu/kernels/level.h"
#include "shared/scalar.h"

typedef double f64x8 __attribute__((vector_size(64)));
typedef int64_t i64x8 __attribute__((vector_size(64)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x8_any __attribute__((vector_size(32), aligned(4)));
typedef double f64x8_any __attribute__((vector_size(64), aligned(8)));
#define UP_BY_1(x, first) __builtin_shufflevector(x, first, 8, 0, 1, 2, 3, 4, 5, 6)
#define UP_BY_2(x, first) __builtin_shufflevector(x, first, 8, 9, 0, 1, 2, 3, 4, 5)
#define UP_BY_4(x, first) __builtin_shufflevector(x, first, 8, 9, 10, 11, 0, 1, 2, 3)
#define TURNED(x) __builtin_shufflevector(x, x, 7, 6, 5, 4, 3, 2, 1, 0)
#define LAST(x) __builtin_shufflevector(x, x, 7, 7, 7, 7, 7, 7, 7, 7)

/* v = fold of `before` and v.  A later element wins, or what came before it: NaN stays. */
#define sum_into(V, M, before, v) v = (before) + v
#define prod_into(V, M, before, v) v = (before)*v
#define min_into(V, M, before, v) PICK(V, M, before, v, <)
#define max_into(V, M, before, v) PICK(V, M, before, v, >)
#define PICK(V, M, before, v, wins)                     \
    do {                                                \
        M ahead = (v wins before) | (v != v);           \
        v = (V)(((M)v & ahead) | ((M)before & ~ahead)); \
    } while (0)
TEMPLATE double one_sum(double a, double x) { return a + x; }
TEMPLATE double one_prod(double a, double x) { return a * x; }
TEMPLATE double one_min(double a, double x) { return x < a || x != x ? x : a; }
TEMPLATE double one_max(double a, double x) { return x > a || x != x ? x : a; }

#define T float
#define S f32
#define T8 f32x8
#define M8 i32x8
#define LOAD f32x8_any
#include "cpu/kernels/scan_float.inc"
#define T double
#define S f64
#define T8 f64x8
#define M8 i64x8
#define LOAD f64x8_any
#include "cpu/kernels/scan_float.inc"

/* ---- integers and complex numbers */

/* The kernels of one fold. */
#define FOLDS(fold, id)                                                                                                \
    static void K(fold)(union fold_acc * acc, void *y, const void *x, size_t n, bool back)                             \
    {                                                                                                                  \
        K(row)(acc, y, x, n, back, id);                                                                                \
    }                                                                                                                  \
    static void K(fold##_cols)(union fold_acc * acc, void *y, const void *x, int64_t stride, size_t rows, size_t cols) \
    {                                                                                                                  \
        K(cols)(acc, y, x, stride, rows, cols, id);                                                                    \
    }

#define T int8_t
#define S i8
#define WIDE i
#include "cpu/kernels/scan_integer.inc"
#define T int16_t
#define S i16
#define WIDE i
#include "cpu/kernels/scan_integer.inc"
#define T int32_t
#define S i32
#define WIDE i
#include "cpu/kernels/scan_integer.inc"
#define T int64_t
#define S i64
#define WIDE i
#include "cpu/kernels/scan_integer.inc"
#define T uint8_t
#define S u8
#define WIDE u
#include "cpu/kernels/scan_integer.inc"
#define T uint16_t
#define S u16
#define WIDE u
#include "cpu/kernels/scan_integer.inc"
#define T uint32_t
#define S u32
#define WIDE u
#include "cpu/kernels/scan_integer.inc"
#define T uint64_t
#define S u64
#define WIDE u
#include "cpu/kernels/scan_integer.inc"

/* ---- complex */

TEMPLATE void next_sum(union fold_acc *a, double re, double im)
{
    a->c[0] += re;
    a->c[1] += im;
}

/* By real part, then by imaginary; NaN wins and stays. */
TEMPLATE void next_extreme(union fold_acc *a, double re, double im, int sign)
{
    if (a->c[0] != a->c[0] || a->c[1] != a->c[1])
        return;
    if (re != re || im != im || sign * re > sign * a->c[0] || (re == a->c[0] && sign * im > sign * a->c[1])) {
        a->c[0] = re;
        a->c[1] = im;
    }
}
TEMPLATE void next(union fold_acc *a, double re, double im, const enum scan_id id)
{
    switch (id) {
    case SCAN_ID_SUM: next_sum(a, re, im); break;
    case SCAN_ID_PROD: fold_times(a, re, im); break;
    default: next_extreme(a, re, im, id == SCAN_ID_MIN ? -1 : 1);
    }
}

TEMPLATE void cols_c64(union fold_acc *acc, void *y, const void *x, int64_t stride, size_t rows, size_t cols,
                       const enum scan_id id)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            int64_t at = 2 * ((int64_t)i * stride + (int64_t)j);
            next(&acc[j], (double)((const float *)x)[at], (double)((const float *)x)[at + 1], id);
            ((float *)y)[at] = (float)acc[j].c[0];
            ((float *)y)[at + 1] = (float)acc[j].c[1];
        }
}

TEMPLATE void row_c64(union fold_acc *acc, void *y, const void *x, size_t n, bool back, const enum scan_id id)
{
    size_t last = back && n ? 2 * (n - 1) : 0;
    cols_c64(acc, (float *)y + last, (const float *)x + last, back ? -1 : 1, n, 1, id);
}

#define K(f) PASTE(f, c64)
FOLDS(sum, SCAN_ID_SUM)
FOLDS(prod, SCAN_ID_PROD)
FOLDS(min, SCAN_ID_MIN)
FOLDS(max, SCAN_ID_MAX)
#undef K

static void recurrence_c64(union fold_acc *acc, void *z, const void *a, const void *b, int64_t stride, size_t rows,
                           size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            int64_t at = 2 * ((int64_t)i * stride + (int64_t)j);
            const float *p = (const float *)a + at, *q = (const float *)b + at;
            fold_times(&acc[j], (double)p[0], (double)p[1]);
            next_sum(&acc[j], (double)q[0], (double)q[1]);
            ((float *)z)[at] = (float)acc[j].c[0];
            ((float *)z)[at + 1] = (float)acc[j].c[1];
        }
}

/* ---- sums in double: those of pieces of a row are as good as a running one */

/* The sums of the even and of the odd elements. */
TEMPLATE void total(double y[2], const float *p, size_t n)
{
    f64x8 a = { 0 }, b = a;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        a += __builtin_convertvector(*(const f32x8_any *)(p + i), f64x8);
        b += __builtin_convertvector(*(const f32x8_any *)(p + i + 8), f64x8);
    }
    a += b;
    for (int k = 0; k < 8; k++) y[k & 1] += a[k];
    for (; i < n; i++) y[i & 1] += (double)p[i];
}

static void total_f32(union fold_acc *acc, const void *x, size_t n)
{
    double y[2] = { acc->f, 0 };
    total(y, x, n);
    acc->f = y[0] + y[1];
}

static void total_c64(union fold_acc *acc, const void *x, size_t n) { total(acc->c, x, 2 * n); }

extern const struct scan_kernels LEVEL(scan_kernels);
const struct scan_kernels LEVEL(scan_kernels) = {
/* clang-format off */
#define TYPES(X, fold)                                                                    \
    X(fold, int8, i8) X(fold, int16, i16) X(fold, int32, i32) X(fold, int64, i64)         \
    X(fold, uint8, u8) X(fold, uint16, u16) X(fold, uint32, u32) X(fold, uint64, u64)     \
    X(fold, float32, f32) X(fold, float64, f64) X(fold, complex64, c64) X(fold, bool_, u8)
/* clang-format on */
#define ROW_OF(fold, dtype, suffix) [DT_##dtype] = fold##_##suffix,
#define COL_OF(fold, dtype, suffix) [DT_##dtype] = fold##_cols_##suffix,
    .row = { [SCAN_ID_SUM] = { TYPES(ROW_OF, sum) },
             [SCAN_ID_PROD] = { TYPES(ROW_OF, prod) },
             [SCAN_ID_MIN] = { TYPES(ROW_OF, min) },
             [SCAN_ID_MAX] = { TYPES(ROW_OF, max) } },
    .col = { [SCAN_ID_SUM] = { TYPES(COL_OF, sum) },
             [SCAN_ID_PROD] = { TYPES(COL_OF, prod) },
             [SCAN_ID_MIN] = { TYPES(COL_OF, min) },
             [SCAN_ID_MAX] = { TYPES(COL_OF, max) } },
    .logsumexp = { [DT_float32] = logsumexp_f32, [DT_float64] = logsumexp_f64 },
    .total = { [DT_float32] = total_f32, [DT_complex64] = total_c64 },
    .recurrence = { [DT_float32] = recurrence_f32, [DT_float64] = recurrence_f64, [DT_complex64] = recurrence_c64 },
};
