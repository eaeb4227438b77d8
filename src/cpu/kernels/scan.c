/* scan.c: the running folds of this level.
 *
 * Sums and products of floats are carried in double.  A register is folded with itself moved by one place, by two and
 * so on; what was carried comes in last and goes on by one fold, so that is all that one register waits for. */
#include "cpu/kernels/scan.h"

#include "cpu/kernels/lanes.h"
#include "shared/scalar.h"

/* Lanes of a register, as words that macros can be named by. */
#if REGISTER == 64
#define OF_DOUBLES 8
#define OF_FLOATS 16
#elif REGISTER == 32
#define OF_DOUBLES 4
#define OF_FLOATS 8
#else
#define OF_DOUBLES 2
#define OF_FLOATS 4
#endif

/* Lane i of N comes from lane f(i) of x, those from N on of `first`. */
#define MOVED(x, first, f) __builtin_shufflevector(x, first, PASTE(EACH, N)(f))
#define EACH_2(f) f(0), f(1)
#define EACH_4(f) EACH_2(f), f(2), f(3)
#define EACH_8(f) EACH_4(f), f(4), f(5), f(6), f(7)
#define EACH_16(f) EACH_8(f), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#define UP(i, by) ((i) < (by) ? N + (i) : (i) - (by))
#define UP_BY_1(i) UP(i, 1)
#define UP_BY_2(i) UP(i, 2)
#define UP_BY_4(i) UP(i, 4)
#define UP_BY_8(i) UP(i, 8)
#define TURNED(i) (N - 1 - (i))
#define LAST(i) (N - 1)

/* v = fold of `before` and v.  A later element wins, or what came before it: NaN stays. */
#define sum_into(before, v) v = (before) + v
#define prod_into(before, v) v = (before)*v
#define min_into(before, v) PICK(before, v, <)
#define max_into(before, v) PICK(before, v, >)
#define PICK(before, v, wins)                                                                       \
    do {                                                                                            \
        __typeof__(v < v) ahead = (v wins before) | (v != v);                                       \
        v = (__typeof__(v))(((__typeof__(ahead))v & ahead) | ((__typeof__(ahead))before & ~ahead)); \
    } while (0)
TEMPLATE double one_sum(double a, double x) { return a + x; }
TEMPLATE double one_prod(double a, double x) { return a * x; }
TEMPLATE double one_min(double a, double x) { return x < a || x != x ? x : a; }
TEMPLATE double one_max(double a, double x) { return x > a || x != x ? x : a; }

#define T float
#define S f32
#define LANES_OF_T OF_FLOATS
#include "cpu/kernels/scan_float.inc"
#define T double
#define S f64
#define LANES_OF_T OF_DOUBLES
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
    enum { L = OF_DOUBLES };
    doubles a = { 0 }, b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 4 * L <= n; i += 4 * L) {
        a += doubles_f32(*(const loose_some_f32 *)(p + i));
        b += doubles_f32(*(const loose_some_f32 *)(p + i + L));
        c += doubles_f32(*(const loose_some_f32 *)(p + i + 2 * L));
        d += doubles_f32(*(const loose_some_f32 *)(p + i + 3 * L));
    }
    a = (a + b) + (c + d);
    for (int k = 0; k < L; k++) y[k & 1] += a[k];
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
