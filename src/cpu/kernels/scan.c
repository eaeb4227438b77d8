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
#define FOLD_sum(V, M, before, v) v = (before) + v
#define FOLD_prod(V, M, before, v) v = (before)*v
#define FOLD_min(V, M, before, v) PICK(V, M, before, v, <)
#define FOLD_max(V, M, before, v) PICK(V, M, before, v, >)
#define PICK(V, M, before, v, wins)                     \
    do {                                                \
        M ahead = (v wins before) | (v != v);           \
        v = (V)(((M)v & ahead) | ((M)before & ~ahead)); \
    } while (0)
TEMPLATE double one_sum(double a, double x) { return a + x; }
TEMPLATE double one_prod(double a, double x) { return a * x; }
TEMPLATE double one_min(double a, double x) { return x < a || x != x ? x : a; }
TEMPLATE double one_max(double a, double x) { return x > a || x != x ? x : a; }

#define FLOAT_ROW(T, S, LOAD, V, M, fold, first)                                                                       \
    TEMPLATE void fold##_one_way_##S(union fold_acc *acc, T *y, const T *x, size_t n, const bool back)                 \
    {                                                                                                                  \
        const V none = (first) - (V){ 0 };                                                                             \
        V carried = (__typeof__((V){ 0 }[0]))acc->f - (V){ 0 }, before;                                                \
        size_t i = 0;                                                                                                  \
        for (; i + 8 <= n; i += 8) {                                                                                   \
            size_t at = back ? n - 8 - i : i;                                                                          \
            V v = __builtin_convertvector(*(const LOAD *)(x + at), V);                                                 \
            v = back ? TURNED(v) : v;                                                                                  \
            before = UP_BY_1(v, none);                                                                                 \
            FOLD_##fold(V, M, before, v);                                                                              \
            before = UP_BY_2(v, none);                                                                                 \
            FOLD_##fold(V, M, before, v);                                                                              \
            before = UP_BY_4(v, none);                                                                                 \
            FOLD_##fold(V, M, before, v);                                                                              \
            FOLD_##fold(V, M, carried, v);                                                                             \
            carried = LAST(v);                                                                                         \
            v = back ? TURNED(v) : v;                                                                                  \
            *(LOAD *)(y + at) = __builtin_convertvector(v, S##x8);                                                     \
        }                                                                                                              \
        double last = (double)carried[0];                                                                              \
        for (; i < n; i++) {                                                                                           \
            size_t at = back ? n - 1 - i : i;                                                                          \
            last = one_##fold(last, (double)x[at]);                                                                    \
            y[at] = (T)last;                                                                                           \
        }                                                                                                              \
        acc->f = last;                                                                                                 \
    }                                                                                                                  \
    static void fold##_##S(union fold_acc *acc, void *y, const void *x, size_t n, bool back)                           \
    {                                                                                                                  \
        if (back)                                                                                                      \
            fold##_one_way_##S(acc, y, x, n, true);                                                                    \
        else                                                                                                           \
            fold##_one_way_##S(acc, y, x, n, false);                                                                   \
    }                                                                                                                  \
    static void fold##_cols_##S(union fold_acc *acc, void *y, const void *x, int64_t stride, size_t rows, size_t cols) \
    {                                                                                                                  \
        double a[SCAN_COLS];                                                                                           \
        for (size_t j = 0; j < cols; j++) a[j] = acc[j].f;                                                             \
        for (size_t i = 0; i < rows; i++) {                                                                            \
            const T *p = (const T *)x + (int64_t)i * stride;                                                           \
            T *q = (T *)y + (int64_t)i * stride;                                                                       \
            IVDEP                                                                                                      \
            for (size_t j = 0; j < cols; j++) {                                                                        \
                a[j] = one_##fold(a[j], (double)p[j]);                                                                 \
                q[j] = (T)a[j];                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
        for (size_t j = 0; j < cols; j++) acc[j].f = a[j];                                                             \
    }
#define FLOAT_ROWS(T, S, LOAD, V, M)                      \
    FLOAT_ROW(T, S, LOAD, f64x8, i64x8, sum, 0.0)         \
    FLOAT_ROW(T, S, LOAD, f64x8, i64x8, prod, 1.0)        \
    FLOAT_ROW(T, S, LOAD, V, M, min, (T)__builtin_inff()) \
    FLOAT_ROW(T, S, LOAD, V, M, max, -(T)__builtin_inff())
FLOAT_ROWS(float, f32, f32x8_any, f32x8, i32x8)
FLOAT_ROWS(double, f64, f64x8_any, f64x8, i64x8)

/* ---- integers; sums and products wrap */

#define INT_ROW(T, S, M, fold, expression)                                                                             \
    static void fold##_##S(union fold_acc *acc, void *y, const void *x, size_t n, bool back)                           \
    {                                                                                                                  \
        const T *p = back ? (const T *)x + (n - 1) : x;                                                                \
        T *q = back ? (T *)y + (n - 1) : y;                                                                            \
        int64_t step = back ? -1 : 1;                                                                                  \
        T a = (T)acc->M;                                                                                               \
        for (size_t i = 0; i < n; i++, p += step, q += step) {                                                         \
            T v = *p;                                                                                                  \
            *q = a = (T)(expression);                                                                                  \
        }                                                                                                              \
        acc->M = a;                                                                                                    \
    }                                                                                                                  \
    static void fold##_cols_##S(union fold_acc *acc, void *y, const void *x, int64_t stride, size_t rows, size_t cols) \
    {                                                                                                                  \
        T c[SCAN_COLS];                                                                                                \
        for (size_t j = 0; j < cols; j++) c[j] = (T)acc[j].M;                                                          \
        for (size_t i = 0; i < rows; i++) {                                                                            \
            const T *p = (const T *)x + (int64_t)i * stride;                                                           \
            T *q = (T *)y + (int64_t)i * stride;                                                                       \
            IVDEP                                                                                                      \
            for (size_t j = 0; j < cols; j++) {                                                                        \
                T a = c[j], v = p[j];                                                                                  \
                q[j] = c[j] = (T)(expression);                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        for (size_t j = 0; j < cols; j++) acc[j].M = c[j];                                                             \
    }
#define INT_ROWS(T, S, M)                            \
    INT_ROW(T, S, M, sum, (uint64_t)a + (uint64_t)v) \
    INT_ROW(T, S, M, prod, (uint64_t)a *(uint64_t)v) \
    INT_ROW(T, S, M, min, v < a ? v : a)             \
    INT_ROW(T, S, M, max, v > a ? v : a)
INT_ROWS(int8_t, i8, i)
INT_ROWS(int16_t, i16, i)
INT_ROWS(int32_t, i32, i)
INT_ROWS(int64_t, i64, i)
INT_ROWS(uint8_t, u8, u)
INT_ROWS(uint16_t, u16, u)
INT_ROWS(uint32_t, u32, u)
INT_ROWS(uint64_t, u64, u)

/* ---- complex */

TEMPLATE void next_sum(union fold_acc *a, double re, double im)
{
    a->c[0] += re;
    a->c[1] += im;
}

TEMPLATE void next_prod(union fold_acc *a, double re, double im)
{
    double r = a->c[0] * re - a->c[1] * im;
    a->c[1] = a->c[0] * im + a->c[1] * re;
    a->c[0] = r;
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
TEMPLATE void next_min(union fold_acc *a, double re, double im) { next_extreme(a, re, im, -1); }
TEMPLATE void next_max(union fold_acc *a, double re, double im) { next_extreme(a, re, im, 1); }

#define COMPLEX_ROW(fold)                                                                                              \
    static void fold##_cols_c64(union fold_acc *acc, void *y, const void *x, int64_t stride, size_t rows, size_t cols) \
    {                                                                                                                  \
        for (size_t i = 0; i < rows; i++)                                                                              \
            for (size_t j = 0; j < cols; j++) {                                                                        \
                int64_t at = 2 * ((int64_t)i * stride + (int64_t)j);                                                   \
                next_##fold(&acc[j], (double)((const float *)x)[at], (double)((const float *)x)[at + 1]);              \
                ((float *)y)[at] = (float)acc[j].c[0];                                                                 \
                ((float *)y)[at + 1] = (float)acc[j].c[1];                                                             \
            }                                                                                                          \
    }                                                                                                                  \
    static void fold##_c64(union fold_acc *acc, void *y, const void *x, size_t n, bool back)                           \
    {                                                                                                                  \
        size_t last = back && n ? 2 * (n - 1) : 0;                                                                     \
        fold##_cols_c64(acc, (float *)y + last, (const float *)x + last, back ? -1 : 1, n, 1);                         \
    }
COMPLEX_ROW(sum)
COMPLEX_ROW(prod)
COMPLEX_ROW(min)
COMPLEX_ROW(max)

/* ---- logsumexp
 *
 * With m the running maximum, s[i] = s[i-1] exp(m[i-1] - m[i]) + exp(x[i] - m[i]) and
 * y[i] = m[i] + log(s[i]).  Where m is infinite or NaN 0 takes its place as the reference, and the sum
 * itself is infinite or NaN from there on. */
#define LOGSUMEXP(T, S)                                                                            \
    static void logsumexp_##S(union fold_acc *acc, void *y, const void *x, size_t n, bool back)    \
    {                                                                                              \
        enum { TILE = 512 };                                                                       \
        double m[TILE], e[TILE], f[TILE], most = acc->c[0], sum = acc->c[1];                       \
        for (size_t at = 0; at < n; at += TILE) {                                                  \
            size_t count = n - at < TILE ? n - at : TILE;                                          \
            const T *p = back ? (const T *)x + (n - 1 - at) : (const T *)x + at;                   \
            T *q = back ? (T *)y + (n - 1 - at) : (T *)y + at;                                     \
            int64_t step = back ? -1 : 1;                                                          \
            for (size_t i = 0; i < count; i++) {                                                   \
                double v = (double)p[(int64_t)i * step], before = most;                            \
                most = one_max(most, v);                                                           \
                double from = before - before == 0 ? before : 0, to = most - most == 0 ? most : 0; \
                m[i] = to;                                                                         \
                e[i] = v - to;                                                                     \
                f[i] = before == -(double)__builtin_inff() ? before : from - to;                   \
            }                                                                                      \
            IVDEP                                                                                  \
            for (size_t i = 0; i < count; i++) {                                                   \
                e[i] = exp_f64(e[i]);                                                              \
                f[i] = exp_f64(f[i]);                                                              \
            }                                                                                      \
            for (size_t i = 0; i < count; i++) f[i] = sum = (sum == 0 ? 0 : sum * f[i]) + e[i];    \
            IVDEP                                                                                  \
            for (size_t i = 0; i < count; i++) m[i] += log_f64(f[i]);                              \
            for (size_t i = 0; i < count; i++) q[(int64_t)i * step] = (T)m[i];                     \
        }                                                                                          \
        acc->c[0] = most;                                                                          \
        acc->c[1] = sum;                                                                           \
    }
LOGSUMEXP(float, f32)
LOGSUMEXP(double, f64)

/* ---- recurrences */

#define RECURRENCE(T, S)                                                                                   \
    static void recurrence_##S(union fold_acc *acc, void *z, const void *a, const void *b, int64_t stride, \
                               size_t rows, size_t cols)                                                   \
    {                                                                                                      \
        double c[SCAN_COLS];                                                                               \
        for (size_t j = 0; j < cols; j++) c[j] = acc[j].f;                                                 \
        for (size_t i = 0; i < rows; i++) {                                                                \
            int64_t at = (int64_t)i * stride;                                                              \
            const T *p = (const T *)a + at, *q = (const T *)b + at;                                        \
            T *y = (T *)z + at;                                                                            \
            IVDEP                                                                                          \
            for (size_t j = 0; j < cols; j++) {                                                            \
                c[j] = (double)p[j] * c[j] + (double)q[j];                                                 \
                y[j] = (T)c[j];                                                                            \
            }                                                                                              \
        }                                                                                                  \
    }
RECURRENCE(float, f32)
RECURRENCE(double, f64)

static void recurrence_c64(union fold_acc *acc, void *z, const void *a, const void *b, int64_t stride, size_t rows,
                           size_t cols)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            int64_t at = 2 * ((int64_t)i * stride + (int64_t)j);
            const float *p = (const float *)a + at, *q = (const float *)b + at;
            next_prod(&acc[j], (double)p[0], (double)p[1]);
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
