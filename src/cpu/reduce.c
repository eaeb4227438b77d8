/* reduce.c: folding axes of arrays of any layout.
 *
 * What is left of the axes in memory order (plan/fold.h) is one of three shapes: rows (one axis is
 * folded, the innermost), columns (the innermost is kept), or neither, which is copied into rows.  Work
 * is cut into fixed pieces, so results do not depend on the number of threads. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scope.h"
#include "core/shape.h"
#include "core/sizes.h"
#include "cpu/kernels/reduce.h"
#include "cpu/made.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/reduce.h"
#include "plan/fold.h"
#include "plan/result.h"

enum { CHUNK = 1 << 16, TILE = MADE_MOST, HALF_ROWS = 8 /* of half types, for a call of the kernel of columns */ };

static union fold_acc reduce_identity(enum fold f, enum dtype t)
{
    union fold_acc a = { .c = { 0, 0 } };
    bool real = dtype_is_float(t), integer = !dtype_is_inexact(t);
    size_t bits = dtype_size(t) * 8;
    switch (f) {
    case FOLD_SUM:
    case FOLD_ANY: break;
    case FOLD_ALL: a.i = 1; break;
    case FOLD_PROD:
        if (integer)
            a.i = 1;
        else
            a.f = 1;
        break;
    case FOLD_MIN:
    case FOLD_MAX:
        if (real || dtype_is_complex(t))
            a.c[0] = a.c[1] = f == FOLD_MIN ? INFINITY : -INFINITY;
        else if (dtype_kind(t) == 'i')
            a.i = f == FOLD_MIN ? (int64_t)(UINT64_MAX >> 1 >> (64 - bits))
                                : -(int64_t)(UINT64_MAX >> 1 >> (64 - bits)) - 1;
        else
            a.u = f == FOLD_MIN ? UINT64_MAX >> (64 - bits) : 0;
    }
    return a;
}

/* *a = fold of *a and *b, two partial results. */
static void merge(enum fold f, enum dtype t, union fold_acc *a, const union fold_acc *b)
{
    if (dtype_is_inexact(t) && f == FOLD_SUM) {
        a->c[0] += b->c[0];
        if (dtype_is_complex(t))
            a->c[1] += b->c[1];
    } else if (dtype_is_complex(t)) {
        float v[2] = { (float)b->c[0], (float)b->c[1] };
        if (f == FOLD_PROD)
            fold_times(a, b->c[0], b->c[1]);
        else
            cpu->reduce->row[f][t](a, v, 1);
    } else if (f == FOLD_PROD && dtype_is_float(t)) {
        a->f *= b->f;
    } else if (dtype_is_float(t)) {
        cpu->reduce->row[f][DT_float64](a, &b->f, 1);
    } else if (f == FOLD_SUM) {
        a->u += b->u;
    } else if (f == FOLD_PROD) {
        a->u *= b->u;
    } else if (f == FOLD_ALL) {
        a->i = a->i && b->i;
    } else if (f == FOLD_ANY) {
        a->i = a->i || b->i;
    } else {
        cpu->reduce->row[f][dtype_kind(t) == 'i' ? DT_int64 : DT_uint64](a, &b->i, 1);
    }
}

/* n of them; what comes to one comparison or sum without a call for each. */
static void merge_all(enum fold f, enum dtype t, union fold_acc *a, const union fold_acc *b, int64_t n)
{
    bool real = dtype_is_float(t);
    if (real && f == FOLD_SUM)
        for (int64_t i = 0; i < n; i++) a[i].f += b[i].f;
    else if (real && f == FOLD_MAX)
        for (int64_t i = 0; i < n; i++) a[i].f = b[i].f > a[i].f || b[i].f != b[i].f ? b[i].f : a[i].f;
    else if (real && f == FOLD_MIN)
        for (int64_t i = 0; i < n; i++) a[i].f = b[i].f < a[i].f || b[i].f != b[i].f ? b[i].f : a[i].f;
    else
        for (int64_t i = 0; i < n; i++) merge(f, t, &a[i], &b[i]);
}

/* Axes that are walked, row-major. */
struct nest {
    int n;
    int shape[MX_MAX_NDIM];
    int64_t stride[MX_MAX_NDIM];
};

/* Where the i-th of them begins. */
static int64_t place_in(const struct nest *w, int64_t i)
{
    int64_t at = 0;
    for (int d = w->n; d-- > 1; i /= w->shape[d]) at += i % w->shape[d] * w->stride[d];
    return w->n ? at + i * w->stride[0] : at;
}

/* So many of them are one run, from the i-th on. */
static int64_t run_from(const struct nest *w, int64_t i)
{
    return w->n > 1 ? w->shape[w->n - 1] - i % w->shape[w->n - 1] : INT64_MAX;
}

static bool walk_too(struct nest *w, const struct fold_group *g)
{
    if (g->size > INT32_MAX)
        return false;
    w->shape[w->n] = (int)g->size;
    w->stride[w->n++] = g->stride;
    return true;
}

struct reduce_job {
    enum fold fold;
    enum dtype in, out; /* of the arrays */
    enum dtype work;    /* of the kernels: float32 for half types */
    reduce_row_fn *row;
    reduce_rows_fn *rows; /* NULL: rows one by one */
    reduce_col_fn *col;
    reduce_few_fn *few; /* NULL: by col */
    const char *x;
    char *y;
    size_t in_size, out_size;
    /* outer keeps, then inner keeps, row-major in y; between or around the outer ones what is folded */
    struct nest keeps, folds;     /* of rows no folds, which are one run */
    int64_t outer, folded, inner; /* inner 1: rows */
    int64_t times;                /* each element counts: what folded axes that are broadcast come to */
    union fold_acc *partial;
    int64_t pieces;
    const struct made *made; /* NULL: the operand is in memory */
};

/* The fold of `times` elements that are *a each. */
static void repeat_fold(const struct reduce_job *j, union fold_acc *a)
{
    if (j->fold == FOLD_SUM) {
        if (dtype_is_inexact(j->in))
            a->c[0] *= (double)j->times, a->c[1] *= (double)j->times;
        else
            a->u *= (uint64_t)j->times;
    } else if (j->fold == FOLD_PROD) {
        union fold_acc power = *a;
        *a = reduce_identity(FOLD_PROD, j->in);
        for (int64_t n = j->times; n; n /= 2) {
            if (n % 2)
                merge(FOLD_PROD, j->in, a, &power);
            merge(FOLD_PROD, j->in, &power, &(union fold_acc){ .c = { power.c[0], power.c[1] } });
        }
    }
}

/* Puts result i where it belongs. */
static void store_result(const struct reduce_job *j, int64_t i, union fold_acc *a)
{
    enum dtype from = j->in, to = j->out;
    char *y = j->y + i * (int64_t)j->out_size;
    if (j->times > 1)
        repeat_fold(j, a);
    if (dtype_is_complex(from)) {
        float v[2] = { (float)a->c[0], (float)a->c[1] };
        cpu->cast[DT_complex64][to](y, v, 1);
    } else if (dtype_is_float(from)) {
        if (to == DT_float32)
            *(float *)y = (float)a->f;
        else if (to == DT_float64)
            *(double *)y = a->f;
        else
            cpu->cast[DT_float64][to](y, &a->f, 1);
    } else {
        cpu->cast[dtype_kind(from) == 'i' ? DT_int64 : DT_uint64][to](y, &a->u, 1);
    }
}

/* Results i .. i + n of columns. */
static void store_columns(const struct reduce_job *j, int64_t i, union fold_acc *a, int64_t n)
{
    uint64_t v[REDUCE_COLS];
    char kind = dtype_kind(j->in);
    if (j->times > 1 || dtype_is_complex(j->in)) {
        for (int64_t k = 0; k < n; k++) store_result(j, i + k, &a[k]);
        return;
    }
    for (int64_t k = 0; k < n; k++) v[k] = a[k].u; /* whichever member */
    enum dtype from = dtype_is_float(j->in) ? DT_float64 : kind == 'i' ? DT_int64 : DT_uint64;
    cpu->cast[from][j->out](j->y + i * (int64_t)j->out_size, v, (size_t)n);
}

static const char *outer_at(const struct reduce_job *j, int64_t i)
{
    return j->x + place_in(&j->keeps, i) * (int64_t)j->in_size;
}

/* One contiguous run, half types through a tile of float32. */
static void fold_contiguous(const struct reduce_job *j, union fold_acc *acc, const char *x, int64_t n)
{
    if (j->work == j->in) {
        j->row(acc, x, (size_t)n);
        return;
    }
    float tile[TILE];
    for (int64_t at = 0; at < n; at += TILE) {
        size_t m = (size_t)(n - at < TILE ? n - at : TILE);
        cpu->cast[j->in][DT_float32](tile, x + at * (int64_t)j->in_size, m);
        j->row(acc, tile, m);
    }
}

/* Elements that are made, as float32 where they are of a half type. */
static void made_tile(const struct reduce_job *j, char *space, float *wide, int64_t at, int64_t n, const void *x[2])
{
    j->made->make(j->made->ctx, space, at, n, x);
    if (j->work == j->in)
        return;
    cpu->cast[j->in][DT_float32](wide, x[0], (size_t)n);
    x[0] = wide;
}

/* Elements at .. at + n of a tile. */
static void fold_made(const struct reduce_job *j, union fold_acc *acc, const void *const x[2], int64_t at, int64_t n)
{
    size_t skip = (size_t)at * dtype_size(j->work);
    if (j->made->product)
        cpu->reduce->dot[j->work](acc, (const char *)x[0] + skip, (const char *)x[1] + skip, (size_t)n);
    else
        j->row(acc, (const char *)x[0] + skip, (size_t)n);
}

/* n elements of row i, from `at` on. */
static void fold_part(const struct reduce_job *j, union fold_acc *acc, int64_t i, int64_t at, int64_t n)
{
    _Alignas(64) char space[TILE * 8];
    float wide[TILE];
    const void *x[2];
    if (j->made && j->made->center) {
        size_t size = dtype_size(j->work);
        const char *from = (const char *)j->made->from + (size_t)(i * j->folded + at) * size;
        for (int64_t k = 0; k < n; k += TILE)
            cpu->reduce->spread[j->work](acc, from + (size_t)k * size, (const char *)j->made->center + (size_t)i * size,
                                         (size_t)least(n - k, TILE));
        return;
    }
    if (!j->made) {
        fold_contiguous(j, acc, outer_at(j, i) + at * (int64_t)j->in_size, n);
        return;
    }
    for (int64_t k = 0; k < n; k += TILE) {
        int64_t m = n - k < TILE ? n - k : TILE;
        made_tile(j, space, wide, i * j->folded + at + k, m, x);
        fold_made(j, acc, x, 0, m);
    }
}

/* Rows of which at least one is made at once. */
static void fold_short_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct reduce_job *j = ctx;
    const union fold_acc none = reduce_identity(j->fold, j->in);
    _Alignas(64) char space[TILE * 8];
    float wide[TILE];
    const void *x[2];
    for (int64_t rows; begin < end; begin += rows) {
        char *y = j->y + begin * (int64_t)j->out_size;
        rows = end - begin < TILE / j->folded ? end - begin : TILE / j->folded;
        made_tile(j, space, wide, begin * j->folded, rows * j->folded, x);
        if (j->rows && j->made->product)
            cpu->reduce->dot_rows[j->work](y, x[0], x[1], (size_t)rows, (size_t)j->folded);
        else if (j->rows)
            j->rows(y, x[0], j->folded, (size_t)rows, (size_t)j->folded);
        for (int64_t i = 0; i < rows && !j->rows; i++) {
            union fold_acc acc = none;
            fold_made(j, &acc, x, i * j->folded, j->folded);
            store_result(j, begin + i, &acc);
        }
    }
}

static void spread_short_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct reduce_job *j = ctx;
    size_t size = dtype_size(j->work), rows = (size_t)(end - begin);
    cpu->reduce->spread_rows[j->work](j->y + (size_t)begin * size,
                                      (const char *)j->made->from + (size_t)(begin * j->folded) * size,
                                      (const char *)j->made->center + (size_t)begin * size, rows, (size_t)j->folded);
}

/* Kernels of many rows, where results are as they leave them. */
static reduce_rows_fn *rows_kernel(const struct reduce_job *j)
{
    return j->in == j->out && j->times == 1 ? cpu->reduce->rows[j->fold][j->in] : NULL;
}

/* The step from a row to the next, in a run of them. */
static int64_t row_step(const struct reduce_job *j) { return j->keeps.n ? j->keeps.stride[j->keeps.n - 1] : 0; }

/* Rows of half types of which several are widened at once. */
static void fold_half_rows(const struct reduce_job *j, int64_t begin, int64_t end)
{
    const union fold_acc none = reduce_identity(j->fold, j->in);
    float tile[TILE];
    double fold[TILE];
    for (int64_t rows; begin < end; begin += rows) {
        const char *x = outer_at(j, begin);
        int64_t step = row_step(j);
        rows = least(least(end - begin, run_from(&j->keeps, begin)), TILE / j->folded);
        for (int64_t i = 0, m; i < rows; i += m) {
            m = step == j->folded ? rows : 1;
            cpu->cast[j->in][DT_float32](tile + i * j->folded, x + i * step * (int64_t)j->in_size,
                                         (size_t)(m * j->folded));
        }
        for (int64_t i = 0; i < rows; i++) {
            union fold_acc acc = none;
            j->row(&acc, tile + i * j->folded, (size_t)j->folded);
            fold[i] = acc.f;
        }
        cpu->cast[DT_float64][j->out](j->y + begin * (int64_t)j->out_size, fold, (size_t)rows);
    }
}

static void fold_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct reduce_job *j = ctx;
    const union fold_acc none = reduce_identity(j->fold, j->in);
    bool plain = j->folded <= CHUNK && !j->made && j->work == j->in;
    if (plain && j->rows && j->keeps.n) {
        for (int64_t rows; begin < end; begin += rows) {
            rows = least(end - begin, run_from(&j->keeps, begin));
            j->rows(j->y + begin * (int64_t)j->out_size, outer_at(j, begin), row_step(j), (size_t)rows,
                    (size_t)j->folded);
        }
        return;
    }
    if (j->work != j->in && j->times == 1 && !j->made && j->folded <= TILE / 2) {
        fold_half_rows(j, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        union fold_acc acc = none;
        if (plain) { /* of one piece, with which nothing is to be merged */
            j->row(&acc, outer_at(j, i), (size_t)j->folded);
            store_result(j, i, &acc);
            continue;
        }
        /* The same pieces as a row that is split over threads. */
        for (int64_t at = 0; at < j->folded; at += CHUNK) {
            union fold_acc part = none;
            int64_t m = j->folded - at < CHUNK ? j->folded - at : CHUNK;
            fold_part(j, &part, i, at, m);
            merge(j->fold, j->in, &acc, &part);
        }
        store_result(j, i, &acc);
    }
}

/* Pieces of long rows: piece p of row i is partial[i * pieces + p]. */
static void reduce_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct reduce_job *j = ctx;
    for (int64_t k = begin; k < end; k++) {
        int64_t i = k / j->pieces, at = k % j->pieces * CHUNK;
        int64_t m = j->folded - at < CHUNK ? j->folded - at : CHUNK;
        j->partial[k] = reduce_identity(j->fold, j->in);
        fold_part(j, &j->partial[k], i, at, m);
    }
}

/* Rows of columns that are one run. */
static void col_tile(const struct reduce_job *j, union fold_acc *acc, const char *x, int64_t rows, size_t cols)
{
    int64_t stride = j->folds.n ? j->folds.stride[j->folds.n - 1] : 0;
    if (j->work == j->in) {
        j->col(acc, x, stride, (size_t)rows, cols);
        return;
    }
    float tile[HALF_ROWS * REDUCE_COLS];
    bool gapless = stride == (int64_t)cols, any_order = j->fold == FOLD_MIN || j->fold == FOLD_MAX;
    int64_t step = gapless && any_order ? HALF_ROWS * REDUCE_COLS / (int64_t)cols : HALF_ROWS;
    for (int64_t r = 0; r < rows; r += step) {
        size_t m = (size_t)least(rows - r, step), runs = gapless ? 1 : m;
        for (size_t i = 0; i < runs; i++)
            cpu->cast[j->in][DT_float32](tile + i * cols, x + (r + (int64_t)i) * stride * (int64_t)j->in_size,
                                         gapless ? m * cols : cols);
        j->col(acc, tile, (int64_t)cols, m, cols);
    }
}

/* Elements at .. at + n, made where they belong. */
static void make_at(const struct made *made, char *to, size_t size, int64_t at, int64_t n)
{
    for (int64_t k = 0, m; k < n; k += m) {
        char *here = to + (size_t)k * size;
        m = n - k < MADE_MOST ? n - k : MADE_MOST;
        const void *x[2];
        made->make(made->ctx, here, at + k, m, x);
        if (x[0] != here)
            memcpy(here, x[0], (size_t)m * size);
    }
}

/* Columns c0 .. c0 + cols of rows r0 .. r0 + rows of result i, that are made: as many rows for each call of the kernel
 * as if they lay in memory, so that sums are the same. */
static void made_tile_of_cols(const struct reduce_job *j, union fold_acc *acc, int64_t i, int64_t r0, int64_t rows,
                              int64_t c0, int64_t cols)
{
    enum { BYTES = 1 << 16 };
    _Alignas(64) char space[BYTES];
    float wide[HALF_ROWS * REDUCE_COLS];
    bool same = j->work == j->in;
    int64_t step = same ? REDUCE_ROWS : HALF_ROWS, most = BYTES / step / (int64_t)j->in_size;
    for (int64_t c = 0, w; c < cols; c += w) {
        w = cols - c < most ? cols - c : most;
        for (int64_t r = 0, m; r < rows; r += m) {
            int64_t at = (i * j->folded + r0 + r) * j->inner + c0 + c;
            m = rows - r < step ? rows - r : step;
            if (w == j->inner)
                make_at(j->made, space, j->in_size, at, m * w);
            else
                for (int64_t k = 0; k < m; k++)
                    make_at(j->made, space + (size_t)(k * w) * j->in_size, j->in_size, at + k * j->inner, w);
            if (!same)
                cpu->cast[j->in][DT_float32](wide, space, (size_t)(m * w));
            j->col(acc + c, same ? (void *)space : (void *)wide, w, (size_t)m, (size_t)w);
        }
    }
}

/* Work is (outer, tile of columns, piece of rows); partial results of the pieces are merged after. */
static void fold_cols(void *ctx, int64_t begin, int64_t end)
{
    const struct reduce_job *j = ctx;
    int64_t tiles = ceil_div(j->inner, REDUCE_COLS), rows = ceil_div(j->folded, j->pieces);
    for (int64_t k = begin; k < end; k++) {
        int64_t piece = k % j->pieces, tile = k / j->pieces % tiles, i = k / j->pieces / tiles;
        int64_t c0 = tile * REDUCE_COLS, r0 = piece * rows;
        size_t cols = (size_t)(j->inner - c0 < REDUCE_COLS ? j->inner - c0 : REDUCE_COLS);
        int64_t m = j->folded - r0 < rows ? j->folded - r0 : rows;
        union fold_acc local[REDUCE_COLS], *acc = j->partial ? j->partial + k * REDUCE_COLS : local;
        union fold_acc first = reduce_identity(j->fold, j->in);
        for (size_t c = 0; c < cols; c++) acc[c] = first;
        if (m > 0 && j->made)
            made_tile_of_cols(j, acc, i, r0, m, c0, (int64_t)cols);
        const char *x = j->made ? NULL : outer_at(j, i) + c0 * (int64_t)j->in_size;
        for (int64_t r = r0, run; x && r < r0 + m; r += run) {
            run = least(r0 + m - r, run_from(&j->folds, r));
            col_tile(j, acc, x + place_in(&j->folds, r) * (int64_t)j->in_size, run, cols);
        }
        if (!j->partial)
            store_columns(j, i * j->inner + c0, acc, (int64_t)cols);
    }
}

/* The kernel of so few rows that they are folded without accumulators, as many of half types as are widened together;
 * else NULL.  Sums are multiplied with `times` as a float32 that is exact. */
static reduce_few_fn *few_kernel(const struct reduce_job *j)
{
    bool half = j->work != j->in;
    int64_t times = j->fold == FOLD_PROD ? 1 : 1 << 24, rows = half ? HALF_ROWS : REDUCE_ROWS;
    if (j->in != j->out || j->times > times || j->folded > rows || (j->fold == FOLD_PROD && half))
        return NULL;
    return cpu->reduce->few[j->fold][j->work];
}

/* n rows of results, of which each element counts j->times. */
static void fold_these(const struct reduce_job *j, void *y, const void *x, int64_t step, int64_t n, const int64_t *at,
                       int64_t cols)
{
    j->few(y, x, step, (size_t)n, at, (size_t)j->folded, (size_t)cols);
    if (j->times > 1 && j->fold == FOLD_SUM) {
        uint64_t times;
        cpu->cast[DT_int64][j->work](&times, &j->times, 1);
        cpu->binary[BINARY_multiply][j->work](y, y, 1, &times, 0, (size_t)(n * cols));
    }
}

/* The same of half types, as many as are widened together. */
static void fold_halves(const struct reduce_job *j, char *y, const char *x, int64_t step, int64_t n, const int64_t *at,
                        int64_t cols)
{
    float tile[HALF_ROWS * REDUCE_COLS], fold[HALF_ROWS * REDUCE_COLS];
    int64_t each = j->folded * cols, in[HALF_ROWS];
    bool gapless = step == each || n == 1;
    for (int64_t r = 0; r < j->folded; r++) {
        in[r] = r * cols;
        gapless &= at[r] == in[r];
    }
    for (int64_t i = 0, m; i < n; i += m) {
        m = least(n - i, HALF_ROWS * REDUCE_COLS / each);
        for (int64_t r = 0; r < m * j->folded; r += gapless ? m * j->folded : 1)
            cpu->cast[j->in][DT_float32](tile + r * cols,
                                         x + ((i + r / j->folded) * step + at[r % j->folded]) * (int64_t)j->in_size,
                                         (size_t)(gapless ? m * each : cols));
        fold_these(j, fold, tile, each, m, in, cols);
        cpu->cast[DT_float32][j->out](y + i * cols * (int64_t)j->out_size, fold, (size_t)(m * cols));
    }
}

/* As fold_cols, of few rows. */
static void fold_few(void *ctx, int64_t begin, int64_t end)
{
    const struct reduce_job *j = ctx;
    int64_t tiles = ceil_div(j->inner, REDUCE_COLS), at[REDUCE_ROWS];
    for (int64_t r = 0; r < j->folded; r++) at[r] = place_in(&j->folds, r);
    for (int64_t k = begin, n; k < end; k += n) {
        int64_t i = k / tiles, c0 = k % tiles * REDUCE_COLS, cols = least(j->inner - c0, REDUCE_COLS);
        char *y = j->y + (i * j->inner + c0) * (int64_t)j->out_size;
        const char *x = outer_at(j, i) + c0 * (int64_t)j->in_size;
        n = tiles > 1 ? 1 : least(end - k, run_from(&j->keeps, i));
        if (j->work == j->in)
            fold_these(j, y, x, row_step(j), n, at, cols);
        else
            fold_halves(j, y, x, row_step(j), n, at, cols);
    }
}

static int reduce_all_rows(struct reduce_job *j)
{
    j->pieces = ceil_div(j->folded, CHUNK);
    if (j->pieces < 2 || j->outer >= 64) {
        int64_t grain = WORTH_FOLDED / (j->folded ? j->folded : 1);
        pool_for(j->outer, grain ? grain : 1, fold_rows, j);
        return 0;
    }
    int64_t n = j->outer * j->pieces;
    j->partial = mx_malloc((size_t)n * sizeof *j->partial);
    if (!j->partial)
        return 1;
    pool_for(n, 1, reduce_pieces, j);
    for (int64_t i = 0; i < j->outer; i++) {
        union fold_acc acc = reduce_identity(j->fold, j->in);
        for (int64_t p = 0; p < j->pieces; p++) merge(j->fold, j->in, &acc, &j->partial[i * j->pieces + p]);
        store_result(j, i, &acc);
    }
    free(j->partial);
    return 0;
}

/* Few tiles of many rows: the rows are split, by shape alone. */
static int64_t pieces_of_cols(int64_t tiles, int64_t rows, int64_t inner)
{
    enum { ENOUGH = 64, LEAST = 1 << 15, LEAST_ROWS = 256 };
    int64_t most = least(rows / LEAST_ROWS, rows * least(inner, REDUCE_COLS) / LEAST);
    return greatest(least(ENOUGH / greatest(tiles, 1), most), 1);
}

/* The pieces of tiles begin .. end as one, into the first. */
static void merge_cols(void *ctx, int64_t begin, int64_t end)
{
    const struct reduce_job *j = ctx;
    int64_t tiles = ceil_div(j->inner, REDUCE_COLS);
    for (int64_t k = begin; k < end; k++) {
        int64_t c0 = k % tiles * REDUCE_COLS, cols = least(j->inner - c0, REDUCE_COLS);
        union fold_acc *acc = j->partial + k * j->pieces * REDUCE_COLS;
        for (int64_t p = 1; p < j->pieces; p++) merge_all(j->fold, j->in, acc, acc + p * REDUCE_COLS, cols);
        store_columns(j, k / tiles * j->inner + c0, acc, cols);
    }
}

static int run_cols(struct reduce_job *j)
{
    int64_t tiles = ceil_div(j->inner, REDUCE_COLS), n = j->outer * tiles;
    j->pieces = pieces_of_cols(n, j->folded, j->inner);
    if (j->pieces == 1) {
        int64_t grain = WORTH_FOLDED / ((j->folded + 1) * (j->inner < REDUCE_COLS ? j->inner : REDUCE_COLS));
        pool_for(n, grain ? grain : 1, j->few ? fold_few : fold_cols, j);
        return 0;
    }
    j->partial = mx_malloc((size_t)(n * j->pieces) * REDUCE_COLS * sizeof *j->partial);
    if (!j->partial)
        return 1;
    int64_t each = j->folded / j->pieces * least(j->inner, REDUCE_COLS);
    pool_for(n * j->pieces, 1 + WORTH_FOLDED / each, fold_cols, j);
    pool_for(n, 1, merge_cols, j);
    free(j->partial);
    return 0;
}

/* Rows or columns that are folded where they are.  False if several axes are folded, the innermost or some around few
 * columns, or if the kept ones are not in the result's order. */
static bool reduce_in_place(struct reduce_job *j, const struct fold_plan *p)
{
    if (!p->in_order || p->n == 0 || p->group[p->n - 1].stride != 1)
        return false;
    const struct fold_group *last = &p->group[p->n - 1];
    j->outer = 1;
    for (int i = 0; i < p->n - 1; i++) {
        const struct fold_group *g = &p->group[i];
        if (!walk_too(g->folded ? &j->folds : &j->keeps, g))
            return false;
        j->outer *= g->folded ? 1 : g->size;
    }
    if (last->folded ? j->folds.n > 0 : j->folds.n > 1 && last->size < FEW_COLUMNS)
        return false;
    j->folded = p->folded;
    j->inner = last->folded ? 1 : last->size;
    return true;
}

static int fill_empty(struct reduce_job *j, int64_t n)
{
    union fold_acc none = reduce_identity(j->fold, j->in);
    for (int64_t i = 0; i < n; i++) store_result(j, i, &none);
    return 0;
}

/* Folds x into y, which has memory. */
static int reduce_into(mx y, mx x, enum fold fold, const bool *folds)
{
    enum dtype t = x->dtype;
    struct reduce_job j = { .fold = fold,
                            .in = t,
                            .out = y->dtype,
                            .work = dtype_is_half(t) ? DT_float32 : t,
                            .x = host(x),
                            .y = host(y),
                            .in_size = itemsize(x),
                            .out_size = itemsize(y) };
    j.row = cpu->reduce->row[j.fold][j.work];
    j.col = cpu->reduce->col[j.fold][j.work];
    if (x->size == 0)
        return fill_empty(&j, y->size);
    struct fold_plan p;
    fold_plan_of(&p, x, folds);
    j.times = p.times;
    j.rows = rows_kernel(&j);
    if (reduce_in_place(&j, &p)) {
        j.few = few_kernel(&j);
        return j.inner == 1 ? reduce_all_rows(&j) : run_cols(&j);
    }
    MX_SCOPE(NULL);
    mx_own hold = { NULL };
    mx z = fold_last(x, folds);
    int failed = is_nil(z) || is_nil(z = row_major(z, &hold));
    if (!failed) {
        j.x = host(z);
        j.outer = p.results;
        j.folded = p.folded;
        j.inner = 1;
        j.keeps.n = 1;
        j.keeps.stride[0] = j.folded;
        failed = reduce_all_rows(&j);
    }
    mx_drop(&hold);
    return failed;
}

/* x of another shape, where axes that differ have one element in memory. */
static mx repeated(mx x, const int *shape)
{
    mx y = array_alias(x);
    if (is_nil(y))
        return y;
    y->size = 1;
    for (int i = 0; i < y->ndim; i++) {
        y->strides[i] = shape[i] == x->shape[i] ? x->strides[i] : 0;
        y->shape[i] = shape[i];
        y->size *= shape[i];
    }
    array_note_layout(y);
    return y;
}

/* What is the same along kept axes is folded once, and copied to all of them. */
static int reduce_once(mx y, mx x, enum fold fold, const bool *folds)
{
    MX_SCOPE(NULL);
    int from[MX_MAX_NDIM], to[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) {
        from[i] = !folds[i] && x->strides[i] == 0 ? 1 : x->shape[i];
        to[i] = folds[i] ? 1 : from[i];
    }
    mx once = repeated(x, from), z = array_new(y->dtype, y->ndim, to);
    if (is_nil(once) || is_nil(z) || result_new(NULL, z))
        return 1;
    z->status = READY;
    mx all = repeated(z, y->shape);
    return is_nil(all) || reduce_into(z, once, fold, folds) || copy_to_row_major(host(y), all);
}

int run_reduce(const struct run *r)
{
    const struct reduce_args *a = r->args;
    mx x = r->x[0], y = r->y[0];
    bool folds[MX_MAX_NDIM] = { 0 }, repeats = false;
    for (int i = 0; i < a->axes.n; i++) folds[a->axes.v[i]] = true;
    for (int i = 0; i < x->ndim; i++) repeats |= !folds[i] && x->strides[i] == 0 && x->shape[i] > 1;
    if (out_new(r, 0))
        return 1;
    return (repeats && x->size ? reduce_once : reduce_into)(y, x, a->fold, folds);
}

/* A row-major array as (outer, folded, inner), where one stretch of its axes is folded. */
struct stretch {
    int64_t outer, folded, inner;
};
static bool stretch_of(struct stretch *s, mx x, struct ints axes)
{
    bool folds[MX_MAX_NDIM] = { 0 };
    *s = (struct stretch){ 1, 1, 1 };
    for (int i = 0; i < axes.n; i++) folds[axes.v[i]] = true;
    for (int i = x->ndim; i-- > 0;) {
        if (folds[i] && s->outer > 1 && x->shape[i] != 1)
            return false;
        *(folds[i] ? &s->folded : s->folded > 1 ? &s->outer : &s->inner) *= x->shape[i];
    }
    return s->folded > 1;
}

/* Sums of floats are made of sums of MADE_MOST elements, and half types are widened that many at a
 * time; integers may be folded in any order.  Columns are made as many rows at a time as are folded in one call, and
 * only where there are enough tiles of them for several threads. */
bool reduces_made(const struct node *n)
{
    if (n->op != &op_reduce)
        return false;
    enum { TILES = 8 };
    const struct reduce_args *a = n->args;
    mx x = n->in[0];
    enum dtype t = x->dtype;
    struct stretch s;
    if (dtype_is_complex(t) || (dtype_is_float(t) && !dtype_is_half(t) && a->fold != FOLD_SUM) ||
        !stretch_of(&s, x, a->axes))
        return false;
    int64_t tiles = s.outer * ceil_div(s.inner, REDUCE_COLS);
    return s.inner == 1 || tiles * pieces_of_cols(tiles, s.folded, s.inner) >= TILES;
}

bool reduces_product(const struct node *n)
{
    const struct reduce_args *a = n->args;
    struct stretch s;
    return reduces_made(n) && a->fold == FOLD_SUM && cpu->reduce->dot[n->in[0]->dtype] &&
           stretch_of(&s, n->in[0], a->axes) && s.inner == 1;
}

bool one_for_each_result(const struct node *n, mx c)
{
    const struct reduce_args *a = n->args;
    struct stretch s;
    bool folds[MX_MAX_NDIM] = { 0 };
    int64_t stride = 1;
    if (!stretch_of(&s, c, a->axes) || s.inner > 1)
        return false;
    for (int i = 0; i < a->axes.n; i++) folds[a->axes.v[i]] = true;
    for (int i = c->ndim; i-- > 0;) {
        if (c->shape[i] != 1 && c->strides[i] != (folds[i] ? 0 : stride))
            return false;
        stride *= folds[i] ? 1 : c->shape[i];
    }
    return true;
}

int reduce_made(const struct run *r, const struct made *m)
{
    const struct reduce_args *a = r->args;
    mx x = r->x[0], y = r->y[0];
    enum dtype t = x->dtype;
    struct stretch s;
    if (out_new(r, 0))
        return 1;
    stretch_of(&s, x, a->axes);
    struct reduce_job j = { .fold = a->fold,
                            .in = t,
                            .out = y->dtype,
                            .work = dtype_is_half(t) ? DT_float32 : t,
                            .y = host(y),
                            .in_size = itemsize(x),
                            .out_size = itemsize(y),
                            .outer = s.outer,
                            .folded = s.folded,
                            .inner = s.inner,
                            .times = 1,
                            .made = m };
    j.row = cpu->reduce->row[j.fold][j.work];
    j.rows = rows_kernel(&j);
    j.col = cpu->reduce->col[j.fold][j.work];
    if (j.inner > 1)
        return run_cols(&j);
    if (j.folded > TILE)
        return reduce_all_rows(&j);
    pool_for(j.outer, WORTH_FOLDED / 4 / j.folded, m->center && j.rows ? spread_short_rows : fold_short_rows, &j);
    return 0;
}

/* ---- argmin, argmax: the extreme of a row or a piece of one, then where it first is */

struct arg_job {
    enum dtype in, work;
    enum fold fold;
    const char *x;
    uint32_t *y;
    int64_t n, pieces;
    size_t size;
    struct arg_piece *piece; /* NULL: each row is one */
};
struct arg_piece {
    union fold_acc most;
    size_t at;
};

static struct arg_piece arg_of(const struct arg_job *j, const char *x, size_t n)
{
    struct arg_piece r = { .most = reduce_identity(j->fold, j->in) };
    if (j->work == j->in) {
        cpu->reduce->row[j->fold][j->work](&r.most, x, n);
        r.at = cpu->reduce->find[j->work](x, &r.most, n);
        return r;
    }
    float tile[TILE];
    for (size_t at = 0; at < n; at += TILE) {
        size_t m = n - at < TILE ? n - at : TILE;
        cpu->cast[j->in][DT_float32](tile, x + at * j->size, m);
        cpu->reduce->row[j->fold][DT_float32](&r.most, tile, m);
    }
    for (size_t at = 0, found; at < n; at += TILE) {
        size_t m = n - at < TILE ? n - at : TILE;
        cpu->cast[j->in][DT_float32](tile, x + at * j->size, m);
        if ((found = cpu->reduce->find[DT_float32](tile, &r.most, m)) < m) {
            r.at = at + found;
            break;
        }
    }
    return r;
}

/* Rows of floats; half types are widened, as many rows at a time as there is room for. */
static void arg_float_rows(const struct arg_job *j, places_fn *places, int64_t begin, int64_t end)
{
    float tile[TILE];
    const char *x = j->x + begin * j->n * (int64_t)j->size;
    int64_t most = j->work == j->in ? end - begin : TILE / j->n;
    for (int64_t i = begin, rows; i < end; i += rows, x += rows * j->n * (int64_t)j->size) {
        rows = least(most, end - i);
        if (j->work != j->in)
            cpu->cast[j->in][DT_float32](tile, x, (size_t)(rows * j->n));
        places(j->y + i, j->work == j->in ? (const void *)x : tile, (size_t)rows, (size_t)j->n);
    }
}

static void arg_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct arg_job *j = ctx;
    places_fn *places = cpu->reduce->places[j->fold == FOLD_MAX][j->work];
    if (places && j->n <= (j->work == j->in ? CHUNK : TILE)) {
        arg_float_rows(j, places, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        j->y[i] = (uint32_t)arg_of(j, j->x + i * j->n * (int64_t)j->size, (size_t)j->n).at;
}

static void arg_pieces(void *ctx, int64_t begin, int64_t end)
{
    const struct arg_job *j = ctx;
    for (int64_t k = begin; k < end; k++) {
        int64_t i = k / j->pieces, at = k % j->pieces * CHUNK, m = j->n - at < CHUNK ? j->n - at : CHUNK;
        j->piece[k] = arg_of(j, j->x + (i * j->n + at) * (int64_t)j->size, (size_t)m);
        j->piece[k].at += (size_t)at;
    }
}

/* Rows long enough for several threads; of equal extremes the first piece's stays. */
static int arg_long_rows(struct arg_job *j, int64_t rows)
{
    j->piece = mx_malloc((size_t)(rows * j->pieces) * sizeof *j->piece);
    if (!j->piece)
        return 1;
    pool_for(rows * j->pieces, 1, arg_pieces, j);
    for (int64_t i = 0; i < rows; i++) {
        struct arg_piece best = j->piece[i * j->pieces];
        for (int64_t p = 1; p < j->pieces; p++) {
            const struct arg_piece *other = &j->piece[i * j->pieces + p];
            union fold_acc most = best.most;
            merge(j->fold, j->in, &most, &other->most);
            if (memcmp(&most, &best.most, sizeof most) != 0)
                best = (struct arg_piece){ most, other->at };
        }
        j->y[i] = (uint32_t)best.at;
    }
    free(j->piece);
    return 0;
}

int run_arg_reduce(const struct run *r)
{
    const struct arg_reduce_args *a = r->args;
    mx x = r->x[0];
    bool folds[MX_MAX_NDIM] = { 0 };
    folds[a->axis] = true;
    if (out_new(r, 0))
        return 1;
    if (x->size == 0)
        return 0;
    MX_SCOPE(NULL);
    mx_own hold = { NULL };
    mx z = fold_last(x, folds);
    int failed = is_nil(z) || is_nil(z = row_major(z, &hold));
    if (!failed) {
        enum dtype t = x->dtype;
        struct arg_job j = { .in = t,
                             .work = dtype_is_half(t) ? DT_float32 : t,
                             .fold = a->fold == ARG_MIN ? FOLD_MIN : FOLD_MAX,
                             .x = host(z),
                             .y = host(r->y[0]),
                             .n = dim(z, -1),
                             .size = itemsize(x) };
        int64_t grain = WORTH_FOLDED / j.n, rows = r->y[0]->size;
        j.pieces = ceil_div(j.n, CHUNK);
        if (j.pieces > 1 && rows < 64)
            failed = arg_long_rows(&j, rows);
        else
            pool_for(rows, grain ? grain : 1, arg_rows, &j);
    }
    mx_drop(&hold);
    return failed;
}

/* ---- rows that are normalized */

struct row_job {
    enum dtype t;
    const char *x;
    char *y, *y1;
    int64_t n;
    size_t size;
    bool log; /* of a softmax, its logarithm */
};

/* Elements of rows of half types that are widened together, and of a single row. */
enum { TOGETHER = 4096, WIDE = 16384 };

/* How many of at most `rows` that is. */
static int64_t wide_rows(const struct row_job *j, int64_t rows)
{
    return least(rows, greatest(TOGETHER / greatest(j->n, 1), 1));
}

static double largest_half(const struct row_job *j, const char *x)
{
    float tile[TILE];
    union fold_acc most = reduce_identity(FOLD_MAX, DT_float32);
    for (int64_t at = 0, m; at < j->n; at += m) {
        m = least(j->n - at, TILE);
        cpu->cast[j->t][DT_float32](tile, x + at * (int64_t)j->size, (size_t)m);
        cpu->reduce->row[REDUCE_MAX][DT_float32](&most, tile, (size_t)m);
    }
    return most.f;
}

/* Of a long row of half type, a tile of float32 at a time, about the largest so far: as kernels do it. */
static double logsumexp_half(const struct row_job *j, const char *x, double *largest)
{
    float tile[TILE];
    double most = -INFINITY, sum = 0, log_here, here;
    for (int64_t at = 0, m; at < j->n; at += m) {
        m = least(j->n - at, TILE);
        cpu->cast[j->t][DT_float32](tile, x + at * (int64_t)j->size, (size_t)m);
        cpu->reduce->logsumexp[DT_float32](&log_here, &here, tile, 1, (size_t)m);
        if (here - here != 0 && here != -INFINITY) {
            *largest = largest_half(j, x);
            return 0;
        }
        if (here > most) {
            sum *= exp(most - here);
            most = here;
        }
        if (most != -INFINITY)
            sum += exp(log_here) * exp(here - most);
    }
    *largest = most;
    return most - most != 0 ? 0 : log(sum);
}

/* y = exp(x - most) / sum(exp(x - most)), or its logarithm, likewise. */
static void softmax_half(const struct row_job *j, char *y, const char *x)
{
    double most, log = logsumexp_half(j, x, &most);
    float tile[TILE], shift = (float)most, none = shift - shift; /* NaN as exp(inf - inf) is */
    float above = (float)log + none, scale = (float)exp(-log) + none;
    for (int64_t at = 0; at < j->n; at += TILE) {
        size_t m = (size_t)(j->n - at < TILE ? j->n - at : TILE);
        cpu->cast[j->t][DT_float32](tile, x + at * (int64_t)j->size, m);
        cpu->binary[BINARY_subtract][DT_float32](tile, tile, 1, &shift, 0, m);
        if (j->log) {
            cpu->binary[BINARY_subtract][DT_float32](tile, tile, 1, &above, 0, m);
        } else {
            cpu->unary[UNARY_exp][DT_float32](tile, tile, m);
            cpu->binary[BINARY_multiply][DT_float32](tile, tile, 1, &scale, 0, m);
        }
        cpu->cast[DT_float32][j->t](y + at * (int64_t)j->size, tile, m);
    }
}

static void softmax_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct row_job *j = ctx;
    enum dtype work = dtype_is_half(j->t) ? DT_float32 : j->t;
    softmax_fn *f = j->log ? cpu->reduce->log_softmax[work] : cpu->reduce->softmax[work];
    float tile[WIDE];
    for (int64_t rows; begin < end; begin += rows) {
        const char *x = j->x + begin * j->n * (int64_t)j->size;
        char *y = j->y + begin * j->n * (int64_t)j->size;
        rows = work == j->t ? end - begin : wide_rows(j, end - begin);
        if (work == j->t) {
            f(y, x, (size_t)rows, (size_t)j->n);
        } else if (j->n > WIDE) {
            softmax_half(j, y, x);
        } else {
            cpu->cast[j->t][work](tile, x, (size_t)(rows * j->n));
            f(tile, tile, (size_t)rows, (size_t)j->n);
            cpu->cast[work][j->t](y, tile, (size_t)(rows * j->n));
        }
    }
}

/* log(sum(exp(x - most))) and most, the largest of x, of some rows. */
static void logsumexp_some(const struct row_job *j, double *log, double *most, int64_t at, int64_t rows)
{
    int64_t row = j->n * (int64_t)j->size;
    const char *x = j->x + at * row;
    float tile[WIDE];
    if (!dtype_is_half(j->t)) {
        cpu->reduce->logsumexp[j->t](log, most, x, (size_t)rows, (size_t)j->n);
        return;
    }
    for (int64_t i = 0, m; i < rows; i += m) {
        m = wide_rows(j, rows - i);
        if (j->n > WIDE) {
            log[i] = logsumexp_half(j, x + i * row, &most[i]);
            continue;
        }
        cpu->cast[j->t][DT_float32](tile, x + i * row, (size_t)(m * j->n));
        cpu->reduce->logsumexp[DT_float32](log + i, most + i, tile, (size_t)m, (size_t)j->n);
    }
}

static void put_doubles(enum dtype t, char *y, int64_t at, const double *v, int64_t n)
{
    cpu->cast[DT_float64][t](y + at * (int64_t)dtype_size(t), v, (size_t)n);
}

static void logsumexp_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct row_job *j = ctx;
    double log[TILE], most[TILE];
    for (int64_t n; begin < end; begin += n) {
        n = least(end - begin, TILE);
        logsumexp_some(j, log, most, begin, n);
        for (int64_t i = 0; i < n; i++) log[i] += most[i];
        put_doubles(j->t, j->y, begin, log, n);
    }
}

static void logsumexp_parts_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct row_job *j = ctx;
    enum dtype wide = j->t == DT_float64 ? DT_float64 : DT_float32;
    double log[TILE], most[TILE];
    for (int64_t n; begin < end; begin += n) {
        n = least(end - begin, TILE);
        logsumexp_some(j, log, most, begin, n);
        for (int64_t i = 0; i < n; i++) log[i] += most[i] - most[i]; /* NaN as exp(inf - inf) is */
        put_doubles(wide, j->y, begin, most, n);
        put_doubles(wide, j->y1, begin, log, n);
    }
}

static int reduce_over_rows(const struct run *r, void (*fn)(void *, int64_t, int64_t), bool in_place)
{
    mx x = r->x[0];
    mx_own hold = { NULL };
    MX_SCOPE(NULL);
    int failed = in_place && x->row ? out_over(r, 0, 0) : out_new(r, 0);
    if (failed || (r->nout > 1 && out_new(r, 1)))
        return 1;
    mx z = row_major(x, &hold);
    if (is_nil(z))
        return 1;
    struct row_job j = { .t = x->dtype,
                         .x = host(z),
                         .y = host(r->y[0]),
                         .y1 = r->nout > 1 ? host(r->y[1]) : NULL,
                         .n = dim(x, -1),
                         .size = itemsize(x),
                         .log = r->node->op == &op_log_softmax };
    int64_t grain = WORTH_COMPUTED / (j.n ? j.n : 1), rows = j.n ? x->size / j.n : r->y[0]->size;
    if (j.n || fn != softmax_rows)
        pool_for(rows, grain ? grain : 1, fn, &j);
    mx_drop(&hold);
    return 0;
}

int run_softmax(const struct run *r) { return reduce_over_rows(r, softmax_rows, true); }
int run_log_softmax(const struct run *r) { return reduce_over_rows(r, softmax_rows, true); }
int run_logsumexp(const struct run *r) { return reduce_over_rows(r, logsumexp_rows, false); }
int run_logsumexp_parts(const struct run *r) { return reduce_over_rows(r, logsumexp_parts_rows, false); }
