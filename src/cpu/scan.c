/* scan.c: running folds along one axis of row-major arrays.
 *
 * An array is (outer, n, inner).  With inner 1 rows are scanned, long ones in pieces once the folds of
 * whole pieces are known; else columns, several at a time.  How the work is cut depends on the shape
 * alone, and so does the result. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/sizes.h"
#include "cpu/kernels/scan.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/scan.h"

enum { CHUNK = 1 << 16, TILE = 1024 };

struct scan {
    enum scan_fold fold;
    enum scan_id id;
    enum dtype t, work; /* of the arrays and of the kernels: float32 for half types */
    bool reverse;
    const char *x, *more; /* more: the recurrence's b */
    char *y;
    size_t size;
    int64_t outer, n, inner, pieces;
    union fold_acc *before; /* of each piece */
};

/* Bools are scanned as the bytes 0 and 1. */
static enum dtype integer_of(enum dtype t) { return t == DT_bool_ ? DT_uint8 : t; }

static union fold_acc scan_identity(const struct scan *s)
{
    union fold_acc a = { .c = { 0, 0 } };
    bool least = s->fold == SCAN_MIN;
    enum dtype t = integer_of(s->t);
    size_t bits = dtype_size(t) * 8;
    if (s->fold == SCAN_LOGSUMEXP) {
        a.c[0] = -INFINITY;
    } else if (s->fold == SCAN_PROD) {
        if (dtype_is_inexact(t))
            a.f = 1;
        else
            a.i = 1;
    } else if (s->fold != SCAN_SUM) {
        if (dtype_is_inexact(t))
            a.c[0] = a.c[1] = least ? INFINITY : -INFINITY;
        else if (dtype_kind(t) == 'i')
            a.i = least ? (int64_t)(UINT64_MAX >> 1 >> (64 - bits)) : -(int64_t)(UINT64_MAX >> 1 >> (64 - bits)) - 1;
        else
            a.u = least ? UINT64_MAX >> (64 - bits) : 0;
    }
    return a;
}

/* The running logsumexp of complex numbers, about the largest real part. */
static void logsumexp_c64(union fold_acc *acc, void *y, const void *x, size_t n, bool back)
{
    double most = -INFINITY;
    double complex sum = 0;
    (void)acc;
    for (size_t i = 0; i < n; i++) {
        size_t at = back ? n - 1 - i : i;
        double complex v = ((const float complex *)x)[at];
        double to = creal(v) > most ? creal(v) : most, from = isfinite(most) ? most : 0;
        double mid = isfinite(to) ? to : 0;
        sum = sum * (most == -INFINITY ? 0 : exp(from - mid)) + (creal(v) == -INFINITY ? 0 : cexp(v - mid));
        most = to;
        ((float complex *)y)[at] = (float complex)(sum == 0 ? -INFINITY : mid + clog(sum));
    }
}

static scan_row_fn *row_kernel(const struct scan *s)
{
    if (s->fold == SCAN_LOGSUMEXP)
        return s->t == DT_complex64 ? logsumexp_c64 : cpu->scan->logsumexp[s->work];
    return cpu->scan->row[s->id][s->work];
}

/* Elements at..at + n of row i, counted in the direction of the scan. */
static void scan_part(const struct scan *s, union fold_acc *acc, int64_t i, int64_t at, int64_t n)
{
    scan_row_fn *kernel = row_kernel(s);
    int64_t first = i * s->n + (s->reverse ? s->n - at - n : at);
    const char *x = s->x + first * (int64_t)s->size;
    char *y = s->y + first * (int64_t)s->size;
    if (s->work == s->t) {
        kernel(acc, y, x, (size_t)n, s->reverse);
        return;
    }
    float tile[TILE];
    for (int64_t k = 0; k < n; k += TILE) {
        int64_t m = n - k < TILE ? n - k : TILE, from = (s->reverse ? n - k - m : k) * (int64_t)s->size;
        cpu->cast[s->t][DT_float32](tile, x + from, (size_t)m);
        kernel(acc, tile, tile, (size_t)m, s->reverse);
        cpu->cast[DT_float32][s->t](y + from, tile, (size_t)m);
    }
}

static void scan_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct scan *s = ctx;
    for (int64_t i = begin; i < end; i++) {
        union fold_acc acc = scan_identity(s);
        scan_part(s, &acc, i, 0, s->n);
    }
}

/* ---- long rows */

static int64_t scan_piece_size(const struct scan *s, int64_t p)
{
    return s->n - p * CHUNK < CHUNK ? s->n - p * CHUNK : CHUNK;
}

/* Sums of exponentials as the kernels carry them, from their logarithm: a reference, which stands for
 * the largest exponent, and the sum beside it. */
static union fold_acc sum_of_log(double l)
{
    return (union fold_acc){ .c = { l, isfinite(l) ? 1 : l == -INFINITY ? 0 : l } };
}

static union fold_acc sum_of_sums(union fold_acc a, union fold_acc b)
{
    if (isnan(b.c[0]) || a.c[0] == -INFINITY)
        return b;
    if (!isfinite(a.c[0]) || b.c[0] == -INFINITY)
        return a;
    double m = a.c[0] > b.c[0] ? a.c[0] : b.c[0];
    if (m == INFINITY)
        return b;
    return (union fold_acc){ .c = { m, a.c[1] * exp(a.c[0] - m) + b.c[1] * exp(b.c[0] - m) } };
}

static union fold_acc sum_of_piece(const struct scan *s, const char *x, int64_t n)
{
    union fold_acc acc = scan_identity(s);
    float tile[TILE];
    double most, log;
    if (s->work == s->t) {
        cpu->reduce->logsumexp[s->t](&log, &most, x, 1, (size_t)n);
        return sum_of_log(most + log);
    }
    for (int64_t at = 0; at < n; at += TILE) {
        size_t m = (size_t)(n - at < TILE ? n - at : TILE);
        cpu->cast[s->t][DT_float32](tile, x + at * (int64_t)s->size, m);
        cpu->reduce->logsumexp[DT_float32](&log, &most, tile, 1, m);
        acc = sum_of_sums(acc, sum_of_log(most + log));
    }
    return acc;
}

/* What folds a whole piece as the scan of one does; none for sums of exponentials. */
static reduce_row_fn *fold_kernel(const struct scan *s)
{
    switch (s->fold) {
    case SCAN_SUM: return cpu->scan->total[s->work] ? cpu->scan->total[s->work] : cpu->reduce->row[REDUCE_SUM][s->work];
    case SCAN_PROD: return cpu->reduce->row[REDUCE_PROD][s->work];
    case SCAN_MIN: return cpu->reduce->row[REDUCE_MIN][s->work];
    case SCAN_MAX: return cpu->reduce->row[REDUCE_MAX][s->work];
    case SCAN_LOGSUMEXP: break;
    }
    return NULL;
}

static void scan_fold_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct scan *s = ctx;
    reduce_row_fn *row = fold_kernel(s);
    for (int64_t k = begin; k < end; k++) {
        int64_t i = k / s->pieces, p = k % s->pieces, n = scan_piece_size(s, p);
        int64_t first = i * s->n + (s->reverse ? s->n - p * CHUNK - n : p * CHUNK);
        const char *x = s->x + first * (int64_t)s->size;
        union fold_acc *acc = &s->before[k];
        if (s->fold == SCAN_LOGSUMEXP) {
            *acc = sum_of_piece(s, x, n);
            continue;
        }
        *acc = scan_identity(s);
        float tile[TILE];
        for (int64_t at = 0; s->work != s->t && at < n; at += TILE) {
            size_t m = (size_t)(n - at < TILE ? n - at : TILE);
            cpu->cast[s->t][DT_float32](tile, x + at * (int64_t)s->size, m);
            row(acc, tile, m);
        }
        if (s->work == s->t)
            row(acc, x, (size_t)n);
    }
}

/* a = fold of a and b. */
static union fold_acc scan_merged(const struct scan *s, union fold_acc a, const union fold_acc *b)
{
    if (s->fold == SCAN_LOGSUMEXP)
        return sum_of_sums(a, *b);
    if (dtype_is_complex(s->t)) {
        float v[2] = { (float)b->c[0], (float)b->c[1] }, y[2];
        if (s->fold == SCAN_SUM) {
            a.c[0] += b->c[0];
            a.c[1] += b->c[1];
        } else if (s->fold == SCAN_PROD) {
            double re = a.c[0] * b->c[0] - a.c[1] * b->c[1];
            a.c[1] = a.c[0] * b->c[1] + a.c[1] * b->c[0];
            a.c[0] = re;
        } else {
            cpu->scan->row[s->id][DT_complex64](&a, y, v, 1, false);
        }
        return a;
    }
    union fold_acc y;
    enum dtype t = dtype_is_float(s->t) ? DT_float64 : dtype_kind(integer_of(s->t)) == 'i' ? DT_int64 : DT_uint64;
    cpu->scan->row[s->id][t](&a, &y, b, 1, false);
    return a;
}

static void scan_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct scan *s = ctx;
    for (int64_t k = begin; k < end; k++) {
        union fold_acc acc = s->before[k];
        scan_part(s, &acc, k / s->pieces, k % s->pieces * CHUNK, scan_piece_size(s, k % s->pieces));
    }
}

static int run_long(struct scan *s)
{
    s->before = mx_malloc((size_t)(s->outer * s->pieces) * sizeof *s->before);
    if (!s->before)
        return 1;
    pool_for(s->outer * s->pieces, 1, scan_fold_pieces, s);
    for (int64_t i = 0; i < s->outer; i++) {
        union fold_acc sum = scan_identity(s);
        for (int64_t p = 0; p < s->pieces; p++) {
            union fold_acc next = scan_merged(s, sum, &s->before[i * s->pieces + p]);
            s->before[i * s->pieces + p] = sum;
            sum = next;
        }
    }
    pool_for(s->outer * s->pieces, 1, scan_pieces, s);
    free(s->before);
    return 0;
}

/* ---- columns */

static int64_t tiles_of(const struct scan *s) { return ceil_div(s->inner, SCAN_COLS); }

/* Where tile k begins: its first row in the direction of the scan. */
static int64_t tile_at(const struct scan *s, int64_t k, size_t *cols)
{
    int64_t c = k % tiles_of(s) * SCAN_COLS;
    *cols = (size_t)(s->inner - c < SCAN_COLS ? s->inner - c : SCAN_COLS);
    return (k / tiles_of(s) * s->n + (s->reverse ? s->n - 1 : 0)) * s->inner + c;
}

static void scan_cols(void *ctx, int64_t begin, int64_t end)
{
    const struct scan *s = ctx;
    for (int64_t k = begin; k < end; k++) {
        size_t cols;
        int64_t at = tile_at(s, k, &cols), step = s->reverse ? -s->inner : s->inner;
        union fold_acc acc[SCAN_COLS];
        for (size_t j = 0; j < cols; j++) acc[j] = scan_identity(s);
        scan_col_fn *kernel = cpu->scan->col[s->id][s->work];
        if (s->work == s->t) {
            kernel(acc, s->y + at * (int64_t)s->size, s->x + at * (int64_t)s->size, step, (size_t)s->n, cols);
            continue;
        }
        float tile[SCAN_COLS];
        for (int64_t i = 0; i < s->n; i++, at += step) {
            cpu->cast[s->t][DT_float32](tile, s->x + at * (int64_t)s->size, cols);
            kernel(acc, tile, tile, 0, 1, cols);
            cpu->cast[DT_float32][s->t](s->y + at * (int64_t)s->size, tile, cols);
        }
    }
}

static void recurrences(void *ctx, int64_t begin, int64_t end)
{
    const struct scan *s = ctx;
    for (int64_t k = begin; k < end; k++) {
        size_t cols;
        int64_t at = tile_at(s, k, &cols), step = s->reverse ? -s->inner : s->inner;
        union fold_acc acc[SCAN_COLS];
        memset(acc, 0, sizeof acc);
        cpu->scan->recurrence[s->t](acc, s->y + at * (int64_t)s->size, s->x + at * (int64_t)s->size,
                                    s->more + at * (int64_t)s->size, step, (size_t)s->n, cols);
    }
}

/* ---- runners */

/* Elements are grouped about the axis; returns how many tiles of columns there are. */
static int64_t scan_layout(struct scan *s, mx x, int axis)
{
    s->outer = s->inner = 1;
    s->n = x->shape[axis];
    for (int i = 0; i < x->ndim; i++)
        if (i < axis)
            s->outer *= x->shape[i];
        else if (i > axis)
            s->inner *= x->shape[i];
    s->pieces = ceil_div(s->n, CHUNK);
    return s->outer * tiles_of(s);
}

static int64_t grain(int64_t each)
{
    return WORTH_SCANNED / (each ? each : 1) > 0 ? WORTH_SCANNED / (each ? each : 1) : 1;
}

int run_scan(const struct run *r)
{
    const struct scan_args *a = r->args;
    mx x = r->x[0];
    static const enum scan_id id[] = { [SCAN_SUM] = SCAN_ID_SUM,
                                       [SCAN_PROD] = SCAN_ID_PROD,
                                       [SCAN_MIN] = SCAN_ID_MIN,
                                       [SCAN_MAX] = SCAN_ID_MAX,
                                       [SCAN_LOGSUMEXP] = SCAN_ID_SUM };
    mx_own hold = { NULL };
    MX_SCOPE(NULL);
    if (out_new(r, 0))
        return 1;
    mx z = row_major(x, &hold);
    if (is_nil(z))
        return 1;
    enum scan_fold fold = (enum scan_fold)a->fold;
    if (x->dtype == DT_bool_ && fold == SCAN_PROD)
        fold = SCAN_MIN;
    struct scan s = { .fold = fold,
                      .id = id[fold],
                      .t = x->dtype,
                      .work = dtype_is_half(x->dtype) ? DT_float32 : x->dtype,
                      .reverse = a->reverse,
                      .x = host(z),
                      .y = host(r->y[0]),
                      .size = itemsize(x) };
    int failed = 0;
    int64_t tiles = scan_layout(&s, x, a->axis);
    if (s.inner > 1 && x->size)
        pool_for(tiles, grain(s.n * (s.inner < SCAN_COLS ? s.inner : SCAN_COLS)), scan_cols, &s);
    else if (x->size && s.pieces > 1 && s.outer < 64 && (fold != SCAN_LOGSUMEXP || !dtype_is_complex(s.t)))
        failed = run_long(&s);
    else if (x->size)
        pool_for(s.outer, grain(s.n), scan_rows, &s);
    mx_drop(&hold);
    return failed;
}

int run_recurrence(const struct run *r)
{
    const struct recurrence_args *a = r->args;
    mx x = r->x[0];
    mx_own hold[2] = { { NULL }, { NULL } };
    MX_SCOPE(NULL);
    if (out_new(r, 0))
        return 1;
    mx z[2] = { row_major(x, &hold[0]), row_major(r->x[1], &hold[1]) };
    if (!is_nil(z[0]) && !is_nil(z[1])) {
        struct scan s = { .t = x->dtype,
                          .reverse = a->reverse,
                          .x = host(z[0]),
                          .more = host(z[1]),
                          .y = host(r->y[0]),
                          .size = itemsize(x) };
        int64_t tiles = scan_layout(&s, x, a->axis);
        if (x->size)
            pool_for(tiles, grain(s.n * (s.inner < SCAN_COLS ? s.inner : SCAN_COLS)), recurrences, &s);
    }
    mx_drop(&hold[0]);
    mx_drop(&hold[1]);
    return is_nil(z[0]) || is_nil(z[1]);
}
