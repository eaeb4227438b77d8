/* reduce.c: the table of reductions of this level; the loops are in the .inc files.
 *
 * Accuracy: a lane adds sixteen values before their sum goes on in double, of which 1,024 elements make one
 * more.  The order depends on positions alone: of a row among others it is that of the row by itself. */
#include "cpu/kernels/reduce.h"
#include "cpu/kernels/lanes.h"
#include "cpu/kernels/level.h"
#include "shared/scalar.h"

enum { ELEMENTS, PRODUCTS, SQUARES, SPREAD, POWERS, FACTORS }; /* what is summed; factors are multiplied */
#define ABOUT_ONE(of) ((of) == SPREAD || (of) == POWERS)       /* what is left without one number for a row */

/* All turns of the next loop as one, which has as many as a register has lanes. */
#ifdef __clang__
#define ROLLED _Pragma("clang loop unroll(disable)")
#else
#define ROLLED _Pragma("GCC unroll 1")
#endif

/* e^x for x <= 0, of m_exp what that takes: all of 2^n times 2^32 are normal, and so one factor.  Where it is 0, as of
 * masked elements, its steps would come to subnormal numbers, over which processors take long: they are not taken. */
TEMPLATE float weight_f32(float x)
{
    float zero = ROUNDER_F32 + 127 + 32, near = x < -104 ? 0 : x;
    struct exp_f32 s = exp_split_f32(near, exp_shifted_f32(near, zero), zero);
    float y = (1 + exp_tail_f32(s.r)) * pow2_f32(s.n) * 0x1p-32f;
    return x < -104 ? 0 : y;
}
TEMPLATE double weight_f64(double x)
{
    struct exp_f64 s = exp_split_f64(x < -746 ? 0 : x);
    double y = (1 + exp_tail_f64(s.r)) * pow2_f64(s.n - 2046 + 1023 + 64) * 0x1p-64;
    return x < -746 ? 0 : y;
}

/* The same of a sum that has a 1 as well, to which what is no normal number would add nothing: 0 for that. */
TEMPLATE float summand_f32(float x)
{
    float zero = ROUNDER_F32 + 127, near = x < -87 ? -87 : x;
    struct exp_f32 s = exp_split_f32(near, exp_shifted_f32(near, zero), zero);
    float y = (1 + exp_tail_f32(s.r)) * pow2_f32(s.n);
    return x < -87 ? 0 : y;
}
TEMPLATE double summand_f64(double x)
{
    struct exp_f64 s = exp_split_f64(x < -708 ? -708 : x);
    double y = (1 + exp_tail_f64(s.r)) * pow2_f64(s.n - 1023);
    return x < -708 ? 0 : y;
}

#define T float
#define INT int32_t
#define SUFFIX f32
#define ACC double
#include "cpu/kernels/reduce_float.inc"

#define T double
#define INT int64_t
#define SUFFIX f64
#define ACC double
#include "cpu/kernels/reduce_float.inc"

#define T int8_t
#define SUFFIX i8
#define ACC int64_t
#define PART int32_t
#include "cpu/kernels/reduce_integer.inc"
#define T int16_t
#define SUFFIX i16
#define ACC int64_t
#define PART int32_t
#include "cpu/kernels/reduce_integer.inc"
#define T int32_t
#define SUFFIX i32
#define ACC int64_t
#define PART int64_t
#include "cpu/kernels/reduce_integer.inc"
#define T int64_t
#define SUFFIX i64
#define ACC int64_t
#define PART int64_t
#include "cpu/kernels/reduce_integer.inc"
#define T uint8_t
#define SUFFIX u8
#define ACC uint64_t
#define PART uint32_t
#include "cpu/kernels/reduce_integer.inc"
#define T uint16_t
#define SUFFIX u16
#define ACC uint64_t
#define PART uint32_t
#include "cpu/kernels/reduce_integer.inc"
#define T uint32_t
#define SUFFIX u32
#define ACC uint64_t
#define PART uint64_t
#include "cpu/kernels/reduce_integer.inc"
#define T uint64_t
#define SUFFIX u64
#define ACC uint64_t
#define PART uint64_t
#include "cpu/kernels/reduce_integer.inc"

/* ---- bool: true where the byte is not 0 */

static void all_b8(union fold_acc *acc, const void *x, size_t n) { acc->i = acc->i && !memchr(x, 0, n); }

static void any_b8(union fold_acc *acc, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t at = 0; at < n && !acc->i; at += 4096) {
        size_t m = n - at < 4096 ? n - at : 4096;
        uint8_t any = 0;
        for (size_t i = 0; i < m; i++) any |= p[at + i];
        acc->i = any != 0;
    }
}

static void sum_b8(union fold_acc *acc, const void *x, size_t n)
{
    const uint8_t *p = x;
    for (size_t at = 0; at < n; at += 4096) {
        size_t m = n - at < 4096 ? n - at : 4096;
        uint32_t part = 0;
        for (size_t i = 0; i < m; i++) part += p[at + i] != 0;
        acc->u += part;
    }
}

static size_t find_b8(const void *x, const union fold_acc *extreme, size_t n)
{
    const uint8_t *p = x;
    if (!extreme->i) {
        const uint8_t *zero = memchr(p, 0, n);
        return zero ? (size_t)(zero - p) : n;
    }
    for (size_t at = 0; at < n; at += 256) {
        union fold_acc any = { .i = 0 };
        size_t m = n - at < 256 ? n - at : 256;
        any_b8(&any, p + at, m);
        for (size_t i = 0; any.i; i++)
            if (p[at + i])
                return at + i;
    }
    return n;
}

#define COLUMNS_B8(fold, op)                                                                                 \
    static void fold##_cols_b8(union fold_acc *acc, const void *x, int64_t stride, size_t rows, size_t cols) \
    {                                                                                                        \
        uint8_t tile[REDUCE_COLS];                                                                           \
        for (size_t j = 0; j < cols; j++) tile[j] = acc[j].i != 0;                                           \
        for (size_t i = 0; i < rows; i++) {                                                                  \
            const uint8_t *p = (const uint8_t *)x + (int64_t)i * stride;                                     \
            for (size_t j = 0; j < cols; j++) tile[j] op p[j] != 0;                                          \
        }                                                                                                    \
        for (size_t j = 0; j < cols; j++) acc[j].i = tile[j];                                                \
    }
COLUMNS_B8(all, &=)
COLUMNS_B8(any, |=)

static void sum_cols_b8(union fold_acc *acc, const void *x, int64_t stride, size_t rows, size_t cols)
{
    uint64_t tile[REDUCE_COLS];
    for (size_t j = 0; j < cols; j++) tile[j] = acc[j].u;
    for (size_t i = 0; i < rows; i++) {
        const uint8_t *p = (const uint8_t *)x + (int64_t)i * stride;
        for (size_t j = 0; j < cols; j++) tile[j] += p[j] != 0;
    }
    for (size_t j = 0; j < cols; j++) acc[j].u = tile[j];
}

/* ---- complex */

static void sum_c64(union fold_acc *acc, const void *x, size_t n)
{
    const float *p = x;
    for (size_t at = 0; at < n; at += 512) {
        size_t m = n - at < 512 ? n - at : 512;
        float lane[16] = { 0 };
        size_t i = 0;
        for (; i + 8 <= m; i += 8)
            for (int k = 0; k < 16; k++) lane[k] += p[(at + i) * 2 + (size_t)k];
        for (; i < m; i++) {
            lane[0] += p[(at + i) * 2];
            lane[1] += p[(at + i) * 2 + 1];
        }
        for (int k = 0; k < 16; k++) acc->c[k & 1] += (double)lane[k];
    }
}

static void prod_c64(union fold_acc *acc, const void *x, size_t n)
{
    const float *p = x;
    for (size_t i = 0; i < n; i++) fold_times(acc, (double)p[2 * i], (double)p[2 * i + 1]);
}

/* Order: real part, then imaginary; a NaN wins and stays. */
static int complex_beats(double re, double im, const union fold_acc *a, int sign)
{
    if (a->c[0] != a->c[0] || a->c[1] != a->c[1])
        return 0;
    if (re != re || im != im)
        return 1;
    return sign * re > sign * a->c[0] || (re == a->c[0] && sign * im > sign * a->c[1]);
}

static void extreme_c64(union fold_acc *acc, const float *p, size_t n, int sign)
{
    for (size_t i = 0; i < n; i++)
        if (complex_beats((double)p[2 * i], (double)p[2 * i + 1], acc, sign)) {
            acc->c[0] = (double)p[2 * i];
            acc->c[1] = (double)p[2 * i + 1];
        }
}

static void min_c64(union fold_acc *acc, const void *x, size_t n) { extreme_c64(acc, x, n, -1); }
static void max_c64(union fold_acc *acc, const void *x, size_t n) { extreme_c64(acc, x, n, 1); }

static size_t find_c64(const void *x, const union fold_acc *e, size_t n)
{
    const float *p = x;
    int nan = e->c[0] != e->c[0] || e->c[1] != e->c[1];
    for (size_t i = 0; i < n; i++) {
        double re = (double)p[2 * i], im = (double)p[2 * i + 1];
        if (nan ? re != re || im != im : re == e->c[0] && im == e->c[1])
            return i;
    }
    return n;
}

#define COLUMNS_C64(fold)                                                                                         \
    static void fold##_cols_c64(union fold_acc *acc, const void *x, int64_t stride, size_t rows, size_t cols)     \
    {                                                                                                             \
        const float *p = x;                                                                                       \
        for (size_t i = 0; i < rows; i++)                                                                         \
            for (size_t j = 0; j < cols; j++) fold##_c64(&acc[j], p + 2 * ((int64_t)i * stride + (int64_t)j), 1); \
    }
COLUMNS_C64(prod)
COLUMNS_C64(min)
COLUMNS_C64(max)

static void sum_cols_c64(union fold_acc *acc, const void *x, int64_t stride, size_t rows, size_t cols)
{
    const float *p = x;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            for (size_t k = 0; k < 2; k++)
                acc[j].c[k] += (double)p[2 * ((int64_t)i * stride + (int64_t)j) + (int64_t)k];
}

#define prod_b8 all_b8
#define min_b8 all_b8
#define max_b8 any_b8
#define prod_cols_b8 all_cols_b8
#define min_cols_b8 all_cols_b8
#define max_cols_b8 any_cols_b8
const struct reduce_kernels LEVEL(reduce_kernels) = {
/* clang-format off */
#define NUMBERS(X, form, id)                                                                      \
    X(form, id, int8, i8) X(form, id, int16, i16) X(form, id, int32, i32) X(form, id, int64, i64) \
    X(form, id, uint8, u8) X(form, id, uint16, u16) X(form, id, uint32, u32) X(form, id, uint64, u64) \
    X(form, id, float32, f32) X(form, id, float64, f64)
#define TYPES(X, form, id) NUMBERS(X, form, id) X(form, id, complex64, c64) X(form, id, bool_, b8)
/* clang-format on */
#define ROW_OF(form, id, dtype, suffix) [DT_##dtype] = form##_##suffix,
#define COL_OF(form, id, dtype, suffix) [DT_##dtype] = form##_cols_##suffix,
#define BOTH(f)                                        \
    {                                                  \
        [DT_float32] = f##_f32, [DT_float64] = f##_f64 \
    }
    .row = { [REDUCE_SUM] = { TYPES(ROW_OF, sum, ) },
             [REDUCE_PROD] = { TYPES(ROW_OF, prod, ) },
             [REDUCE_MIN] = { TYPES(ROW_OF, min, ) },
             [REDUCE_MAX] = { TYPES(ROW_OF, max, ) },
             [REDUCE_ALL] = { [DT_bool_] = all_b8 },
             [REDUCE_ANY] = { [DT_bool_] = any_b8 } },
    .rows = { [REDUCE_SUM] = { NUMBERS(ROW_OF, sum_rows, ) },
              [REDUCE_PROD] = { NUMBERS(ROW_OF, prod_rows, ) },
              [REDUCE_MIN] = { NUMBERS(ROW_OF, min_rows, ) },
              [REDUCE_MAX] = { NUMBERS(ROW_OF, max_rows, ) } },
    .dot = BOTH(dot),
    .dot_rows = BOTH(dot_rows),
    .spread = BOTH(spread),
    .spread_rows = BOTH(spread_rows),
    .col = { [REDUCE_SUM] = { TYPES(COL_OF, sum, ) },
             [REDUCE_PROD] = { TYPES(COL_OF, prod, ) },
             [REDUCE_MIN] = { TYPES(COL_OF, min, ) },
             [REDUCE_MAX] = { TYPES(COL_OF, max, ) },
             [REDUCE_ALL] = { [DT_bool_] = all_cols_b8 },
             [REDUCE_ANY] = { [DT_bool_] = any_cols_b8 } },
    .few = { [REDUCE_SUM] = { NUMBERS(ROW_OF, sum_few, ) },
             [REDUCE_PROD] = { NUMBERS(ROW_OF, prod_few, ) },
             [REDUCE_MIN] = { NUMBERS(ROW_OF, min_few, ) },
             [REDUCE_MAX] = { NUMBERS(ROW_OF, max_few, ) } },
    .find = { TYPES(ROW_OF, find, ) },
    .places = { BOTH(min_places), BOTH(max_places) },
    .softmax = BOTH(softmax),
    .log_softmax = BOTH(log_softmax),
    .logsumexp = BOTH(logsumexp),
};
