/* reduce.c: reductions on a GPU: how they are cut into what blocks do. */
#include <stdlib.h>

#include "core/scope.h"
#include "cuda/gpu.h"
#include "cuda/kernels/reduce.h"
#include "ops/reduce.h"
#include "plan/fold.h"

enum { THREAD_LEAST = 64 }; /* elements that a thread is worth */

/* Are LANES neighbours of the innermost dimension one read wherever they are? */
static bool is_aligned(const struct reduce_axes *inner, const struct reduce_axes *others, int lanes, size_t size,
                       const void *x, int64_t other_last)
{
    bool fits = inner->ndim && inner->stride[inner->ndim - 1] == 1 && (uintptr_t)x % ((size_t)lanes * size) == 0;
    fits = fits && ((size_t)lanes * size < 16 || (uintptr_t)x % 16 == 0);
    for (int d = 0; d + 1 < inner->ndim; d++) fits = fits && inner->stride[d] % lanes == 0;
    for (int d = 0; d < others->ndim; d++) fits = fits && others->stride[d] % lanes == 0;
    return fits && other_last % lanes == 0;
}

/* The shape of the launch: which threads take what. */
static void cut_reduction(const struct gpu *g, struct reduce_call *c, int lanes, size_t size)
{
    const struct reduce_axes *kept = &c->kept, *fold = &c->folded;
    int64_t inner_kept = kept->ndim ? kept->stride[kept->ndim - 1] : INT64_MAX;
    int64_t inner_fold = fold->ndim ? fold->stride[fold->ndim - 1] : 0;
    c->columns = llabs(inner_kept) < llabs(inner_fold);
    int64_t groups = c->columns ? ceil_div(c->kept.n, lanes) : c->kept.n, each;
    if (c->columns) {
        /* A block that reads 512 bytes side by side at least, where there are so many. */
        c->width = gpu_power_of_two(groups, (int32_t)(512 / ((size_t)lanes * size)));
        c->team = REDUCE_THREADS / c->width;
        c->aligned = is_aligned(kept, fold, lanes, size, c->x, kept->shape[kept->ndim - 1] % (unsigned)lanes);
        each = c->team;
    } else {
        c->team = gpu_power_of_two(ceil_div(c->folded.n, 2 * lanes), REDUCE_THREADS);
        c->width = REDUCE_THREADS / c->team;
        c->aligned = fold->ndim == 1 && is_aligned(fold, kept, lanes, size, c->x, 0);
        each = (int64_t)c->team * lanes;
    }
    int64_t blocks = greatest(ceil_div(groups, c->width), 1), worth = (int64_t)THREAD_LEAST * c->team;
    int64_t full = (int64_t)g->multiprocessors * REDUCE_BLOCKS(size);
    c->pieces = greatest(least(full / blocks, c->folded.n / worth), 1);
    c->piece = ceil_div(ceil_div(c->folded.n, c->pieces), each) * each;
    c->pieces = c->folded.n ? ceil_div(c->folded.n, c->piece) : 1;
}

/* The kernels of a fold. */
enum { GENERAL, SHORT, LINES, KINDS };
struct fold_kernels {
    const char *name[KINDS];
    struct gpu_found found[DT_COUNT][KINDS];
};

/* Which of them: rows whose elements are neighbours go to teams within warps, where each has its row at once, longer
 * ones to whole warps, where those fill the device twice. */
static int cut_rows(const struct gpu *g, struct reduce_call *c, int lanes, size_t size)
{
    enum { WARP = 32 };
    const int64_t warps = (int64_t)g->multiprocessors * REDUCE_BLOCKS(size) * (REDUCE_THREADS / WARP);
    int64_t reads = c->folded.n / lanes;
    if (c->columns || !c->aligned || c->kept.ndim > 1 || reads == 0 || reads * lanes != c->folded.n ||
        reads > INT32_MAX / 16)
        return GENERAL;
    if (reads > WARP * REDUCE_READS && c->kept.n < 2 * warps)
        return GENERAL;
    c->pieces = 1;
    if (reads > WARP)
        return LINES;
    c->team = gpu_power_of_two(reads, WARP);
    c->width = REDUCE_THREADS / c->team;
    c->doubled = __builtin_ctz((unsigned)gpu_power_of_two(ceil_div(reads, c->team), REDUCE_READS));
    return SHORT;
}

static int out_code(enum dtype t)
{
    static const int widths[] = { [1] = OUT_8, [2] = OUT_16, [4] = OUT_32, [8] = OUT_64 };
    switch (t) {
    case DT_float16: return OUT_F16;
    case DT_bfloat16: return OUT_BF16;
    case DT_float32: return OUT_F32;
    case DT_float64: return OUT_F64;
    case DT_complex64: return OUT_C64;
    default: return widths[dtype_size(t)];
    }
}

static int launch_rows(const struct run *r, void *kernel, struct reduce_call *c)
{
    int64_t blocks = ceil_div(c->kept.n, c->width * REDUCE_READS >> c->doubled);
    return gpu_launch(r->stream, r->node->op->name, kernel, blocks, REDUCE_THREADS, (void *[]){ c });
}

static int launch_lines(const struct run *r, void *kernel, struct reduce_call *c)
{
    enum { WARPS = REDUCE_THREADS / 32 };
    c->rounds = gpu_rounds(gpu_of(r), ceil_div(c->kept.n, WARPS));
    return gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(c->kept.n, WARPS * c->rounds), REDUCE_THREADS,
                      (void *[]){ c });
}

/* Several pieces: what each comes to is kept in `partial`, and merged by a second launch. */
static int launch_reduction(const struct run *r, void *kernel, struct reduce_call *c, int lanes)
{
    const char *op = r->node->op->name;
    int64_t groups = c->columns ? ceil_div(c->kept.n, lanes) : c->kept.n;
    int64_t blocks = ceil_div(groups, c->width) * c->pieces;
    if (c->pieces == 1)
        return gpu_launch(r->stream, op, kernel, blocks, REDUCE_THREADS, (void *[]){ c });
    struct buffer *b = buffer_new_on(r->stream, (size_t)(c->kept.n * c->pieces) * REDUCE_PART);
    if (!b)
        return 1;
    c->partial = buffer_on(b, r->stream);
    int failed = gpu_launch(r->stream, op, kernel, blocks, REDUCE_THREADS, (void *[]){ c });
    c->from = c->partial;
    c->partial = NULL;
    c->columns = 0;
    c->team = gpu_power_of_two(c->pieces, REDUCE_THREADS);
    c->width = REDUCE_THREADS / c->team;
    if (!failed)
        failed = gpu_launch(r->stream, op, kernel, ceil_div(c->kept.n, c->width), REDUCE_THREADS, (void *[]){ c });
    buffer_release(b);
    return failed;
}

/* The groups of one kind, in the result's order if they are kept.  False where there are too many or too large ones. */
static bool folded_axes(struct reduce_axes *a, const struct fold_plan *p, bool folded)
{
    int axis[REDUCE_DIMS];
    bool large = false;
    a->n = folded ? p->folded : p->results;
    for (int i = 0; i < p->n; i++) {
        const struct fold_group *g = &p->group[i];
        if (g->folded != folded)
            continue;
        if (a->ndim == REDUCE_DIMS)
            return false;
        large |= g->size > UINT32_MAX;
        int k = a->ndim++;
        for (; k > 0 && !folded && axis[k - 1] > g->axis; k--) {
            axis[k] = axis[k - 1];
            a->shape[k] = a->shape[k - 1];
            a->stride[k] = a->stride[k - 1];
        }
        axis[k] = g->axis;
        a->shape[k] = (uint32_t)g->size;
        a->stride[k] = g->stride;
    }
    return !large || a->ndim == 1;
}

static bool describe_reduction(struct reduce_call *c, mx x, const bool *folds)
{
    struct fold_plan p;
    fold_plan_of(&p, x, folds);
    c->times = p.times;
    c->kept.ndim = c->folded.ndim = 0;
    return folded_axes(&c->kept, &p, false) && folded_axes(&c->folded, &p, true);
}

/* What kernels cannot be told is laid out with the folded axes last: as two of them, whatever they were. */
static int run_reduction(const struct run *r, const bool *folds, struct fold_kernels *k)
{
    mx x = r->x[0], y = r->y[0];
    mx_own hold = { 0 };
    enum dtype t = (enum dtype)x->dtype;
    struct reduce_call c = { .out = out_code((enum dtype)y->dtype) };
    int failed = gpu_out_new(r, 0);
    MX_SCOPE(NULL);
    if (!failed && !describe_reduction(&c, x, folds)) {
        bool last[MX_MAX_NDIM];
        int64_t times = c.times;
        int kept = 0;
        for (int i = 0; i < x->ndim; i++) kept += !folds[i];
        for (int i = 0; i < x->ndim; i++) last[i] = i >= kept;
        x = fold_last(x, folds);
        failed = is_nil(x) || is_nil(x = gpu_row_major(r, x, &hold));
        if (!failed)
            describe_reduction(&c, x, last);
        c.times = times;
    }
    if (!failed) {
        c.x = gpu_pointer(r, x);
        c.y = gpu_pointer(r, y);
        cut_reduction(gpu_of(r), &c, gpu_lanes(t), itemsize(x));
        int kind = cut_rows(gpu_of(r), &c, gpu_lanes(t), itemsize(x));
        void *kernel = gpu_find(gpu_of(r), &k->found[t][kind], "reduce", k->name[kind], t);
        failed = !kernel || (kind == LINES   ? launch_lines(r, kernel, &c)
                             : kind == SHORT ? launch_rows(r, kernel, &c)
                                             : launch_reduction(r, kernel, &c, gpu_lanes(t)));
    }
    mx_drop(&hold);
    return failed;
}

/* Sums of floats come out in any float, those of integers in any integer; extremes as they are. */
bool gpu_takes_reduce(const struct node *n)
{
    const struct reduce_args *a = n->args;
    enum dtype in = n->in[0]->dtype, out = a->dtype;
    if (a->fold != FOLD_SUM && a->fold != FOLD_PROD)
        return in == out;
    if (dtype_is_complex(in) || dtype_is_float(in))
        return dtype_is_complex(in) ? in == out : dtype_is_float(out);
    return !dtype_is_inexact(out) && out != DT_bool_;
}

#define KERNELS_OF(fold)                                 \
    {                                                    \
        .name = { #fold, #fold "_rows", #fold "_lines" } \
    }

int gpu_run_reduce(const struct run *r)
{
    static struct fold_kernels kernels[] = {
        [FOLD_SUM] = KERNELS_OF(sum), [FOLD_PROD] = KERNELS_OF(prod), [FOLD_MIN] = KERNELS_OF(min),
        [FOLD_MAX] = KERNELS_OF(max), [FOLD_ALL] = KERNELS_OF(min),   [FOLD_ANY] = KERNELS_OF(max)
    };
    const struct reduce_args *a = r->args;
    bool folds[MX_MAX_NDIM] = { 0 };
    for (int i = 0; i < a->axes.n; i++) folds[a->axes.v[i]] = true;
    return run_reduction(r, folds, &kernels[a->fold]);
}

int gpu_run_arg_reduce(const struct run *r)
{
    static struct fold_kernels kernels[] = { KERNELS_OF(argmax), KERNELS_OF(argmin) };
    const struct arg_reduce_args *a = r->args;
    bool folds[MX_MAX_NDIM] = { 0 };
    folds[a->axis] = true;
    return run_reduction(r, folds, &kernels[a->fold == ARG_MIN]);
}
