/* shape.c: arrays put together from parts of others, and arrays made from nothing.
 *
 * Where a part goes is a box in the output: an offset into it and the output's strides. */
#include <string.h>

#include "core/outside.h"
#include "core/pool.h"
#include "core/scope.h"
#include "core/shape.h"
#include "cpu/fold.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/slice.h"
#include "plan/lookup.h"
#include "plan/series.h"

/* Folds all of x into y, from `offset` on and along strides in y that are given. */
static void put_slice(enum scatter_fold f, mx y, int64_t offset, const int64_t *strides, mx x)
{
    struct folder folder = folder_of(f, y->dtype);
    if (x->size)
        fold_box(&folder, x->ndim, x->shape, (char *)host(y) + offset * (int64_t)itemsize(y), strides, host(x),
                 x->strides);
}

int start_from_first(const struct run *r)
{
    bool again = false; /* what is read from must not change under the hand */
    for (int i = 1; i < r->nin; i++) again |= r->x[i] == r->x[0];
    if (again ? out_new(r, 0) : out_over(r, 0, 0))
        return 1;
    return host(r->y[0]) == host(r->x[0]) ? 0 : copy_to_row_major(host(r->y[0]), r->x[0]);
}

/* ---- parts */

/* Rows of the result, one after the other, of what each operand has of them. */
struct joined {
    const struct run *r;
    int64_t rows;
};

static int64_t bytes_of_row(const struct joined *j, int k) { return nbytes(j->r->x[k]) / j->rows; }

static void join_rows(void *ctx, int64_t begin, int64_t end)
{
    const struct joined *j = ctx;
    mx y = j->r->y[0];
    char *to = (char *)host(y) + begin * (nbytes(y) / j->rows);
    for (int64_t i = begin; i < end; i++)
        for (int k = 0; k < j->r->nin; k++) {
            int64_t n = bytes_of_row(j, k);
            memcpy(to, (const char *)host(j->r->x[k]) + i * n, (size_t)n);
            to += n;
        }
}

/* Are all in order, and rows long enough, but not so long that there may be fewer than threads? */
static bool joins_by_rows(const struct joined *j)
{
    enum { LONG = 256, MOST = 1 << 18 /* bytes */ };
    if (nbytes(j->r->y[0]) / j->rows > MOST)
        return false;
    for (int k = 0; k < j->r->nin; k++)
        if (!j->r->x[k]->row || bytes_of_row(j, k) < LONG)
            return false;
    return j->rows > 1;
}

int run_concatenate(const struct run *r)
{
    const struct axis_args *a = r->args;
    mx y = r->y[0];
    struct joined j = { r, 1 };
    int64_t at = 0;
    if (out_new(r, 0))
        return 1;
    for (int i = 0; i < a->axis; i++) j.rows *= y->shape[i];
    if (y->size && joins_by_rows(&j)) {
        pool_for(j.rows, 1 + WORTH_COPIED / (nbytes(y) / j.rows), join_rows, &j);
        return 0;
    }
    for (int k = 0; k < r->nin; k++) {
        put_slice(SCATTER_SET, y, at * y->strides[a->axis], y->strides, r->x[k]);
        at += r->x[k]->shape[a->axis];
    }
    return 0;
}

/* The value goes to slabs around x's place, axis by axis: each covers what those before left. */
int run_pad(const struct run *r)
{
    const struct pad_args *a = r->args;
    mx y = r->y[0], x = r->x[0], value = r->x[1];
    struct folder set = folder_of(SCATTER_SET, y->dtype);
    int64_t none[MX_MAX_NDIM] = { 0 }, offset = 0;
    int shape[MX_MAX_NDIM];
    if (out_new(r, 0))
        return 1;
    memcpy(shape, y->shape, (size_t)y->ndim * sizeof *shape);
    for (int i = 0; i < y->ndim; i++) {
        int64_t sides[2] = { a->low.v[i], a->high.v[i] };
        for (int k = 0; k < 2; k++) {
            int64_t start = offset + (k ? (y->shape[i] - sides[1]) * y->strides[i] : 0);
            shape[i] = (int)sides[k];
            fold_box(&set, y->ndim, shape, (char *)host(y) + start * (int64_t)itemsize(y), y->strides, host(value),
                     none);
        }
        shape[i] = x->shape[i];
        offset += sides[0] * y->strides[i];
    }
    put_slice(SCATTER_SET, y, offset, y->strides, x);
    return 0;
}

int run_slice_update(const struct run *r)
{
    const struct slice_update_args *a = r->args;
    mx y = r->y[0];
    int64_t strides[MX_MAX_NDIM], offset = 0;
    if (start_from_first(r))
        return 1;
    for (int i = 0; i < y->ndim; i++) {
        struct range s = range_of(y->shape[i], a->start.v[i], a->stop.v[i], a->step.v[i]);
        offset += s.first * y->strides[i];
        strides[i] = s.step * y->strides[i];
    }
    put_slice(a->fold, y, offset, strides, r->x[1]);
    return 0;
}

/* The corner's offset along `strides`, or that of the nearest corner which leaves room for a slice of these sizes;
 * `nothing` says that the slice stands for nothing.  Non-zero after a failure. */
static int slice_corner(const char *op, const struct dynamic_args *a, enum outside_use use, mx start, mx x,
                        const int *sizes, const int64_t *strides, int64_t *offset, bool *nothing)
{
    *offset = 0;
    *nothing = false;
    for (int i = 0; i < a->axes.n; i++) {
        int axis = (int)a->axes.v[i], room = x->shape[axis] - sizes[axis];
        int64_t at;
        const char *p = (const char *)host(start) + i * start->strides[0] * (int64_t)itemsize(start);
        cpu->cast[start->dtype][DT_int64](&at, p, 1);
        bool huge = start->dtype == DT_uint64 && at < 0;
        int64_t from = at < 0 && !huge ? at + x->shape[axis] : at;
        if (from < 0 || from > room) {
            struct lookup_outside out = { op, use, axis, x->shape[axis], room, at, huge };
            if (outside_counts() && lookup_report_corner(&out))
                return 1;
            *nothing = a->outside == OUTSIDE_NOTHING;
            from = from < 0 && !huge ? 0 : room;
        }
        *offset += from * strides[axis];
    }
    return 0;
}

int run_dynamic_slice(const struct run *r)
{
    mx x = r->x[0], y = r->y[0];
    struct folder set = folder_of(SCATTER_SET, y->dtype);
    int64_t offset;
    bool nothing;
    if (slice_corner("slice", r->args, OUTSIDE_READ, r->x[1], x, y->shape, x->strides, &offset, &nothing) ||
        out_new(r, 0))
        return 1;
    if (nothing)
        memset(host(y), 0, (size_t)nbytes(y));
    else
        fold_box(&set, y->ndim, y->shape, host(y), y->strides, (const char *)host(x) + offset * (int64_t)itemsize(x),
                 x->strides);
    return 0;
}

int run_dynamic_slice_update(const struct run *r)
{
    mx y = r->y[0], u = r->x[1];
    int64_t strides[MX_MAX_NDIM], offset;
    bool nothing;
    row_strides(y->ndim, y->shape, strides);
    if (slice_corner("slice_update", r->args, OUTSIDE_WRITTEN, r->x[2], r->x[0], u->shape, strides, &offset,
                     &nothing) ||
        start_from_first(r))
        return 1;
    if (!nothing)
        put_slice(SCATTER_SET, y, offset, strides, u);
    return 0;
}

/* Of an operand that is not row-major; the others are views. */
int run_as_strided(const struct run *r)
{
    struct call c = { .op = r->node->op, .args = r->args, .nin = 1, .nout = 1 };
    mx y = r->y[0], x;
    struct folder set = folder_of(SCATTER_SET, y->dtype);
    mx_own hold = { 0 };
    int64_t strides[MX_MAX_NDIM];
    if (is_nil(x = row_major(r->x[0], &hold)))
        return 1;
    c.x = &x;
    c.op->view(&c, y);
    int64_t offset = y->offset - x->offset;
    memcpy(strides, y->strides, (size_t)y->ndim * sizeof *strides);
    int failed = out_new(r, 0);
    if (!failed && y->size)
        fold_box(&set, y->ndim, y->shape, host(y), y->strides, (const char *)host(x) + offset * (int64_t)itemsize(x),
                 strides);
    mx_drop(&hold);
    return failed;
}

/* Their strides always allow a view. */
static int only_a_view(const struct run *r)
{
    mx_fail_as(MX_RUNTIME, "[%s] is a view and has no kernel", r->node->op->name);
    return 1;
}
int run_slice(const struct run *r) { return only_a_view(r); }
int run_diagonal(const struct run *r) { return only_a_view(r); }
int run_split(const struct run *r) { return only_a_view(r); }
int run_depends(const struct run *r) { return only_a_view(r); }
int run_custom(const struct run *r) { return only_a_view(r); }

/* ---- from nothing */

enum { TILE = 512 };

/* A row of numbers, written into tiles of type `computed` and cast from there. */
struct series_job {
    struct series s;
    void (*tile)(const struct series *s, void *out, int from, int n);
    enum dtype computed;
    mx y;
};

static void series_range(void *ctx, int64_t begin, int64_t end)
{
    const struct series_job *s = ctx;
    _Alignas(64) char tile[TILE * 8];
    for (int64_t i = begin; i < end; i += TILE) {
        int64_t n = end - i < TILE ? end - i : TILE;
        char *y = (char *)host(s->y) + i * (int64_t)itemsize(s->y);
        bool direct = s->y->dtype == s->computed;
        s->tile(&s->s, direct ? y : tile, (int)i, (int)n);
        if (!direct)
            cpu->cast[s->computed][s->y->dtype](y, tile, (size_t)n);
    }
}

static void tile_i64(const struct series *s, void *out, int from, int n)
{
    uint64_t *y = out;
    uint64_t first = s->first_i64, step = s->step_i64;
    for (int i = 0; i < n; i++) y[i] = first + (uint64_t)(from + i) * step;
}

static void tile_f32(const struct series *s, void *out, int from, int n)
{
    float *y = out;
    float first = s->first_f32, step = s->step_f32;
    for (int i = 0; i < n; i++) y[i] = first + (float)(from + i) * step;
}

static void tile_f64(const struct series *s, void *out, int from, int n)
{
    double *y = out;
    double first = s->first, step = s->step;
    for (int i = 0; i < n; i++) y[i] = first + (double)(from + i) * step;
    if (from <= s->count && s->count < from + n)
        y[s->count - from] = s->last;
}

static int write_series(const struct run *r, struct series s)
{
    static const struct {
        void (*tile)(const struct series *s, void *out, int from, int n);
        enum dtype computed;
    } kinds[] = { [SERIES_I64] = { tile_i64, DT_int64 },
                  [SERIES_F32] = { tile_f32, DT_float32 },
                  [SERIES_F64] = { tile_f64, DT_float64 } };
    struct series_job j = { .s = s, .tile = kinds[s.in].tile, .computed = kinds[s.in].computed, .y = r->y[0] };
    if (out_new(r, 0))
        return 1;
    if (s.in == SERIES_I64 && j.y->dtype == DT_uint64)
        j.computed = DT_uint64;
    pool_for(j.y->size, WORTH_MOVED, series_range, &j);
    return 0;
}

int run_arange(const struct run *r) { return write_series(r, series_of_arange(r->args, r->y[0]->dtype)); }
int run_linspace(const struct run *r) { return write_series(r, series_of_linspace(r->args)); }

int run_eye(const struct run *r)
{
    const struct eye_args *a = r->args;
    mx y = r->y[0];
    struct folder set = folder_of(SCATTER_SET, y->dtype);
    uint64_t zero = 0, one = 0;
    double v = 1;
    int64_t none[2] = { 0 };
    if (out_new(r, 0))
        return 1;
    cpu->cast[DT_float64][y->dtype](&one, &v, 1);
    fold_box(&set, 2, y->shape, host(y), y->strides, &zero, none);
    int64_t row = a->k < 0 ? -(int64_t)a->k : 0, column = a->k > 0 ? a->k : 0;
    int64_t rows = a->n - row, columns = a->m - column, n = rows < columns ? rows : columns;
    if (n > 0)
        fold_run(&set, (char *)host(y) + (row * a->m + column) * (int64_t)itemsize(y), (int64_t)a->m + 1, &one, 0, n);
    return 0;
}

int run_number_of_elements(const struct run *r)
{
    int failed = out_new(r, 0);
    MX_SCOPE(NULL);
    mx n = failed ? MX_NIL : number_of_elements(r->x[0], r->args);
    if (is_nil(n))
        return 1;
    memcpy(host(r->y[0]), host(n), itemsize(n));
    return 0;
}
