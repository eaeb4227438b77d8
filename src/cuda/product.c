/* product.c: matrix products on a GPU: how they are cut into what blocks do. */
#include "plan/product.h"

#include <string.h>

#include "cuda/gpu.h"
#include "cuda/kernels/product.h"
#include "ops/matmul.h"

enum {
    MANY = 128,        /* blocks that a device is worth */
    LEAST_PIECE = 256, /* of k, that a block is worth */
};

/* Integers wrap, and so do without their sign. */
static enum dtype kernels_of(enum dtype t)
{
    switch (t) {
    case DT_int8: return DT_uint8;
    case DT_int16: return DT_uint16;
    case DT_int32: return DT_uint32;
    case DT_int64: return DT_uint64;
    default: return t;
    }
}

static bool is_half(enum dtype t) { return t == DT_float16 || t == DT_bfloat16; }

/* The largest sum of elements of any size: what partial sums take. */
static size_t sum_size(enum dtype t) { return dtype_size(t) <= 4 ? 4 : 8; }

/* One of the two operands: from line to line, and along k. */
static struct product_operand operand(const struct gpu_run *r, const struct product_plan *p, mx x, int which)
{
    struct steps s = p->steps[which];
    int64_t lines = which ? p->n : p->m, lanes = gpu_lanes((enum dtype)x->dtype);
    struct product_operand o = { .p = gpu_pointer(r, x),
                                 .line = which ? s.column : s.row,
                                 .depth = which ? s.row : s.column };
    /* A step along which there is nothing says nothing. */
    bool depth_is_one = o.depth == 1 || p->k == 1, line_is_one = o.line == 1 || lines == 1;
    o.across = line_is_one && (!depth_is_one || lines > p->k);
    if (!line_is_one && !depth_is_one)
        o.across = o.line * o.line < o.depth * o.depth;
    int64_t along = o.across ? lines : p->k, other = o.across ? o.depth : o.line, any = along | other;
    for (int d = 0; d < p->ndim; d++) any |= p->batch[which][d];
    o.vectors = (o.across ? o.line == 1 : o.depth == 1) && any % lanes == 0 && (uintptr_t)o.p % 16 == 0;
    return o;
}

/* Tiles as large as there are enough of, and k in pieces where there are not. */
static bool cut(struct product_args *a, bool has_large)
{
    int64_t large = ceil_div(a->m, PRODUCT_LARGE) * ceil_div(a->n, PRODUCT_LARGE) * a->batches;
    int64_t most = greatest(a->k / LEAST_PIECE, 1);
    bool is_large = has_large && least(a->m, a->n) > PRODUCT_SMALL && large * most >= MANY;
    int tile = is_large ? PRODUCT_LARGE : PRODUCT_SMALL;
    a->down = ceil_div(a->m, tile);
    a->across = ceil_div(a->n, tile);
    int64_t blocks = a->down * a->across * a->batches;
    a->pieces = blocks < MANY ? least(most, 2 * MANY / blocks) : 1;
    a->piece = ceil_div(ceil_div(a->k, a->pieces), PRODUCT_DEPTH) * PRODUCT_DEPTH;
    a->pieces = a->k ? ceil_div(a->k, a->piece) : 1;
    return is_large;
}

static int launch(const struct gpu_run *r, enum dtype t, struct product_args *a)
{
    static struct gpu_found found[3][DT_COUNT];
    static const char *const names[] = { "product_small", "product_large", "product_merge" };
    struct gpu *g = gpu_stream(r->stream)->gpu;
    const char *op = r->node->op->name;
    bool is_large = cut(a, is_half(t) || t == DT_float32);
    int64_t sums = a->batches * a->m * a->n;
    t = kernels_of(t);
    void *kernel = gpu_find(g, &found[is_large][t], "product", names[is_large], t);
    struct buffer *b = NULL;
    int failed = !kernel;
    if (!failed && a->pieces > 1) {
        failed = !(b = buffer_new_on(r->stream, (size_t)(sums * a->pieces) * sum_size(t)));
        a->partial = failed ? NULL : buffer_on(b, r->stream);
    }
    if (!failed)
        failed = gpu_launch(r->stream, op, kernel, a->down * a->across * a->pieces * a->batches,
                            is_half(t) ? PRODUCT_THREADS_HALF : PRODUCT_THREADS, (void *[]){ a });
    if (!failed && a->pieces > 1) {
        kernel = gpu_find(g, &found[2][t], "product", names[2], t);
        failed = !kernel || gpu_launch(r->stream, op, kernel, ceil_div(sums, PRODUCT_MERGE_THREADS),
                                       PRODUCT_MERGE_THREADS, (void *[]){ a });
    }
    if (b)
        buffer_release(b);
    return failed;
}

static int run(const struct gpu_run *r, double alpha, double beta)
{
    struct product_plan p;
    mx x[3], y = r->y[0];
    mx_own hold[3] = { 0 };
    int failed = gpu_out_new(r, 0);
    for (int i = 0; i < r->nin; i++) x[i] = r->x[i];
    product_plan_of(&p, r->nin, x);
    if (!failed && p.ndim > PRODUCT_DIMS) { /* more than kernels know: as one, if the matrices follow one another */
        for (int i = 0; i < r->nin; i++) failed |= is_nil(x[i] = gpu_row_major(r, x[i], &hold[i]));
        if (!failed)
            product_plan_of(&p, r->nin, x);
    }
    if (!failed && y->size) {
        struct product_args a = { .y = gpu_pointer(r, y),
                                  .alpha = alpha,
                                  .beta = beta,
                                  .m = p.m,
                                  .n = p.n,
                                  .k = p.k,
                                  .batches = y->size / (p.m * p.n),
                                  .ndim = p.ndim,
                                  .scaled = r->nin > 2 || alpha != 1,
                                  .fours = p.n % 4 == 0 };
        a.a = operand(r, &p, x[0], 0);
        a.b = operand(r, &p, x[1], 1);
        for (int d = 0; d < p.ndim; d++) a.shape[d] = (uint32_t)p.shape[d];
        for (int i = 0; i < r->nin; i++) memcpy(a.batch[i], p.batch[i], (size_t)p.ndim * sizeof *p.batch[i]);
        if (r->nin > 2) {
            a.c = gpu_pointer(r, x[2]);
            a.c_row = p.steps[2].row;
            a.c_column = p.steps[2].column;
        }
        failed = launch(r, (enum dtype)y->dtype, &a);
    }
    for (int i = 0; i < 3; i++) mx_drop(&hold[i]);
    return failed;
}

int gpu_run_matmul(const struct gpu_run *r) { return run(r, 1, 0); }

int gpu_run_addmm(const struct gpu_run *r)
{
    const struct addmm_args *args = r->args;
    return run(r, args->alpha, args->beta);
}
