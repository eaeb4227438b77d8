/* elementwise.c: the CPU's unary, binary and select operations and casts.
 *
 * Small row-major operands go straight to one kernel call; the rest is walked in runs (cpu/runs.h).
 * Half types are widened to float32 a tile at a time and rounded back, so their rows are those of
 * float32. */
#include "cpu/run.h"
#include "cpu/runs.h"
#include "cpu/worth.h"

enum { SMALL = 4096 /* elements below which threads cannot help */ };

/* Rows for floats alone are formulas of some length. */
int kernel_cost(const struct op *op)
{
    return op->dtypes == INEXACT || op->dtypes == FLOAT ? WORTH_MOVED / WORTH_COMPUTED : 1;
}

static int64_t grain_of(const struct op *op) { return WORTH_MOVED / kernel_cost(op); }

static int elementwise_row(const struct op *op)
{
    static const uint8_t row[OP_COUNT] = {
#define UNARY(name, ...) [OP_##name] = UNARY_##name,
#define BINARY(name, ...) [OP_##name] = BINARY_##name,
#include "ops/ops.def"
    };
    return row[op->id];
}

static enum dtype kernel_dtype(enum dtype t) { return dtype_is_half(t) ? DT_float32 : t; }

static void no_kernel(const struct node *n)
{
    mx_fail_as(MX_RUNTIME, "[%s] has no CPU kernel for %s", n->op->name, dtype_name(n->in[0]->dtype));
}

unary_fn *unary_kernel(const struct node *n)
{
    unary_fn *f = cpu->unary[elementwise_row(n->op)][kernel_dtype(n->in[0]->dtype)];
    if (!f)
        no_kernel(n);
    return f;
}

binary_fn *binary_kernel(const struct node *n)
{
    binary_fn *f = cpu->binary[elementwise_row(n->op)][kernel_dtype(n->in[0]->dtype)];
    if (!f)
        no_kernel(n);
    return f;
}

select_fn *select_kernel(const struct node *n) { return cpu->select[__builtin_ctzl(itemsize(n->in[1]))]; }

static void set_half(struct runs *runs, enum dtype from, enum dtype to)
{
    runs->widen = cpu->cast[from][DT_float32];
    runs->narrow = dtype_is_half(to) ? cpu->cast[DT_float32][to] : NULL;
    runs->most = TILE;
}

/* ---- unary */

static void unary_run(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    (void)s;
    r->fn.unary(runs_y(r, at), x[0], (size_t)n);
}

static void unary_half(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    void *y = runs_y(r, at);
    _Alignas(64) float tile[TILE];
    (void)s;
    r->widen(tile, x[0], (size_t)n);
    r->fn.unary(r->narrow ? tile : y, tile, (size_t)n);
    if (r->narrow)
        r->narrow(y, tile, (size_t)n);
}

int run_unary(const struct run *r)
{
    mx x = r->x[0], y = r->y[0];
    unary_fn *f = unary_kernel(r->node);
    const void *data = host(x);
    if (!f)
        return 1;
    if (out_from_any(r, 0))
        return 1;
    bool half = dtype_is_half(x->dtype);
    if (!half && x->row && y->size <= SMALL) {
        f(host(y), data, (size_t)y->size);
        return 0;
    }
    struct runs runs;
    runs.kernel = half ? unary_half : unary_run;
    runs.fn.unary = f;
    runs.repeats = 0;
    runs.most = 0;
    runs.grain = grain_of(r->node->op);
    if (half)
        set_half(&runs, x->dtype, y->dtype);
    runs_over(&runs, host(y), itemsize(y), 1, &x, &data);
    return 0;
}

/* ---- binary */

static void binary_run(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    r->fn.binary(runs_y(r, at), x[0], s[0], x[1], s[1], (size_t)n);
}

static void binary_half(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    void *y = runs_y(r, at);
    /* A tile of its own for the result: it must not be written over an operand of stride 0. */
    _Alignas(64) float a[TILE], b[TILE], c[TILE];
    r->widen(a, x[0], s[0] ? (size_t)n : 1);
    r->widen(b, x[1], s[1] ? (size_t)n : 1);
    r->fn.binary(r->narrow ? c : y, a, s[0], b, s[1], (size_t)n);
    if (r->narrow)
        r->narrow(y, c, (size_t)n);
}

int run_binary(const struct run *r)
{
    mx y = r->y[0];
    enum dtype t = r->x[0]->dtype;
    binary_fn *f = binary_kernel(r->node);
    const void *data[2] = { host(r->x[0]), host(r->x[1]) };
    if (!f)
        return 1;
    if (out_from_any(r, 0))
        return 1;
    bool half = dtype_is_half(t);
    if (!half && y->size <= SMALL) {
        int sa = run_stride(r->x[0]), sb = run_stride(r->x[1]);
        if (sa >= 0 && sb >= 0) {
            f(host(y), data[0], sa, data[1], sb, (size_t)y->size);
            return 0;
        }
    }
    struct runs runs;
    runs.kernel = half ? binary_half : binary_run;
    runs.fn.binary = f;
    runs.repeats = ~0u;
    runs.most = 0;
    runs.grain = grain_of(r->node->op);
    if (half)
        set_half(&runs, t, y->dtype);
    runs_over(&runs, host(y), itemsize(y), 2, r->x, data);
    return 0;
}

/* ---- select and casts */

static void select_runs(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    r->fn.select(runs_y(r, at), x[0], s[0], x[1], s[1], x[2], s[2], (size_t)n);
}

int run_where(const struct run *r)
{
    const void *data[3] = { host(r->x[0]), host(r->x[1]), host(r->x[2]) };
    if (out_from_any(r, 0))
        return 1;
    struct runs runs;
    runs.kernel = select_runs;
    runs.fn.select = select_kernel(r->node);
    runs.repeats = ~0u;
    runs.most = 0;
    runs.grain = WORTH_MOVED;
    runs_over(&runs, host(r->y[0]), itemsize(r->y[0]), 3, r->x, data);
    return 0;
}

static void cast_runs(const struct runs *r, int64_t at, const void *const x[], const int s[], int64_t n)
{
    (void)s;
    r->fn.cast(runs_y(r, at), x[0], (size_t)n);
}

int run_astype(const struct run *r)
{
    mx x = r->x[0], y = r->y[0];
    cast_fn *f = cpu->cast[x->dtype][y->dtype];
    const void *data = host(x);
    if (out_from_any(r, 0))
        return 1;
    if (x->row && y->size <= SMALL) {
        f(host(y), data, (size_t)y->size);
        return 0;
    }
    struct runs runs;
    runs.kernel = cast_runs;
    runs.fn.cast = f;
    runs.repeats = 0;
    runs.most = 0;
    runs.grain = WORTH_MOVED;
    runs_over(&runs, host(y), itemsize(y), 1, &x, &data);
    return 0;
}
