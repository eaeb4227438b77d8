/* rows.c: what is done to rows, those along the last axis, on a GPU: softmax, logsumexp, norms. */
#include "cuda/kernels/rows.h"
#include "cuda/gpu.h"
#include "ops/fast.h"

/* How many threads share a row: as many as it takes them to hold it, but enough to read neighbours together; or one
 * for each LANES elements. */
static int32_t row_team(int64_t n, int64_t lanes, int held, int threads)
{
    enum { NEIGHBOURS = 8 };
    int32_t each = gpu_power_of_two(ceil_div(n, lanes), threads);
    return !held || each < NEIGHBOURS ? each
                                      : (int32_t)greatest(gpu_power_of_two(ceil_div(n, held), threads), NEIGHBOURS);
}

/* The kernels of an operation: of long rows, and of those which threads hold, if there are such; WIDE: those of larger
 * blocks.  PARTS is queued before LONG, whose blocks it gives something of each piece. */
enum { LONG, HELD, FEW, WIDE, PARTS, KINDS };
struct rows_kernels {
    const char *name[KINDS];
    bool held_back; /* of one row, until the next launch (gpu_hold_norm) */
    struct gpu_found found[KINDS][DT_COUNT];
};

/* The kernel has a block for each piece, or for each row where a row comes to one number. */
static int launch_pieces(const struct run *r, void *parts, void *kernel, struct rows_args *a)
{
    a->pieces = ceil_div(a->n, ROWS_HELD * ROWS_THREADS);
    a->team = ROWS_THREADS;
    a->width = 1;
    int64_t all = a->rows * a->pieces, blocks = r->y[0]->size == r->x[0]->size ? all : a->rows;
    const char *op = r->node->op->name;
    void *args[] = { a };
    struct buffer *room = buffer_new_on(r->stream, (size_t)all * sizeof *a->parts);
    if (!room)
        return 1;
    a->parts = buffer_on(room, r->stream);
    int failed = gpu_launch(r->stream, op, parts, all, ROWS_THREADS, args) ||
                 gpu_launch(r->stream, op, kernel, blocks, ROWS_THREADS, args);
    buffer_release(room);
    return failed;
}

/* A norm of one row takes less than a launch does: the product that reads it makes it, if that comes next, with whole
 * warps (kernels/vector_norm.h). */
static bool may_be_held(const struct rows_args *a, enum dtype t)
{
    return a->rows == 1 && a->whole && a->team >= 32 && (dtype_is_half(t) || t == DT_float32);
}

static void hold_norm(const struct run *r, void *kernel, const struct rows_args *a, mx x, int n, const mx_own more[])
{
    struct gpu_held_norm h = { .kernel = kernel, .blocks = ceil_div(a->rows, a->width), .args = *a };
    h.type = (enum dtype)x->dtype;
    h.of[0] = x->buf;
    h.of[1] = r->y[0]->buf;
    for (int i = 0; i < n; i++) h.of[2 + i] = more[i].it ? more[i].it->buf : r->x[1 + i]->buf;
    h.args.early = (!a->weight || gpu_was_there(r, a->weight)) && (!a->bias || gpu_was_there(r, a->bias));
    for (int i = 0; i < 2 + n; i++) buffer_retain(h.of[i]);
    gpu_hold_norm(gpu_stream(r->stream), &h);
}

/* Queues a kernel over the rows of x, with what `a` has of arguments; the n arrays of `more`, of x's type, are what it
 * reads besides, and at[] where their addresses belong. */
static int launch_over_rows(const struct run *r, struct rows_kernels *k, struct rows_args *a, int n, const mx more[],
                            const void **at[])
{
    static const int each[] = { [LONG] = 0, [HELD] = ROWS_HELD, [FEW] = ROWS_FEW, [WIDE] = ROWS_HELD };
    mx x = r->x[0];
    enum dtype t = (enum dtype)x->dtype;
    mx_own hold[3] = { 0 };
    a->n = dim(x, -1);
    int kind = !k->name[HELD] || a->n == 0 || a->n > ROWS_HELD * ROWS_WIDE_THREADS ? LONG
               : a->n > ROWS_HELD * ROWS_THREADS                                   ? WIDE
               : a->n > ROWS_FEW * 32                                              ? HELD
                                                                                   : FEW;
    const int threads = kind == WIDE ? ROWS_WIDE_THREADS : ROWS_THREADS;
    bool cut = kind == LONG && k->name[PARTS];
    void *kernel = gpu_find(gpu_of(r), &k->found[kind][t], "rows", k->name[kind], t);
    void *parts = cut ? gpu_find(gpu_of(r), &k->found[PARTS][t], "rows", k->name[PARTS], t) : NULL;
    bool failed = !kernel || (cut && !parts);
    for (int i = 0; i < r->nout && !failed; i++) failed = gpu_out_new(r, i);
    a->rows = a->n ? x->size / a->n : r->y[0]->size;
    failed = failed || is_nil(x = gpu_row_major(r, x, &hold[0]));
    uint64_t low = 0;
    for (int i = 0; i < n && !failed; i++) {
        mx z = gpu_row_major(r, more[i], &hold[1 + i]);
        failed = is_nil(z);
        if (!failed)
            low |= (uint64_t)(*at[i] = gpu_pointer(r, z));
    }
    if (!failed) {
        int64_t lanes = gpu_lanes(t);
        a->x = gpu_pointer(r, x);
        a->y = gpu_pointer(r, r->y[0]);
        a->more = r->nout > 1 ? gpu_pointer(r, r->y[1]) : NULL;
        a->whole = a->n % lanes == 0 && (low | (uint64_t)a->x | (uint64_t)a->y) % 16 == 0;
        a->team = row_team(a->n, lanes, each[kind], threads);
        a->width = threads / a->team;
        int64_t blocks = ceil_div(a->rows, a->width);
        if (kind == WIDE) /* which go on to more rows */
            blocks = least(blocks, gpu_of(r)->multiprocessors);
        void *args[] = { a };
        if (k->held_back && kind == HELD && may_be_held(a, t))
            hold_norm(r, kernel, a, x, n, hold + 1);
        else
            failed = cut ? launch_pieces(r, parts, kernel, a)
                         : gpu_launch(r->stream, r->node->op->name, kernel, blocks, threads, args);
    }
    gpu_drop(3, hold);
    return failed;
}

int gpu_run_softmax(const struct run *r)
{
    static struct rows_kernels kernels = { .name = { "softmax", "softmax_held", "softmax_few", "softmax_wide",
                                                     "powers_parts" } };
    struct rows_args a = { 0 };
    return launch_over_rows(r, &kernels, &a, 0, NULL, NULL);
}

int gpu_run_log_softmax(const struct run *r)
{
    static struct rows_kernels kernels = { .name = { "log_softmax", "log_softmax_held", "log_softmax_few",
                                                     "log_softmax_wide", "powers_parts" } };
    struct rows_args a = { 0 };
    return launch_over_rows(r, &kernels, &a, 0, NULL, NULL);
}

/* With one result or two. */
int gpu_run_logsumexp(const struct run *r)
{
    static struct rows_kernels kernels = { .name = { "logsumexp", "logsumexp_held", "logsumexp_few", "logsumexp_wide",
                                                     "powers_parts" } };
    struct rows_args a = { 0 };
    return launch_over_rows(r, &kernels, &a, 0, NULL, NULL);
}

int gpu_run_norm(const struct run *r)
{
    static struct rows_kernels kernels = { .name = { "norm", "norm_held", "norm_few", "norm_wide" },
                                           .held_back = true };
    const struct norm_args *n = r->args;
    struct rows_args a = { .eps = n->eps, .centered = r->node->op->id == OP_layer_norm };
    const void **at[] = { n->weight ? &a.weight : &a.bias, &a.bias };
    return launch_over_rows(r, &kernels, &a, r->nin - 1, r->x + 1, at);
}

int gpu_run_norm_tangent(const struct run *r)
{
    static struct rows_kernels kernels = { .name = { "norm_tangent" } };
    const struct norm_tangent_args *n = r->args;
    struct rows_args a = { .eps = n->eps, .centered = n->centered };
    return launch_over_rows(r, &kernels, &a, 1, r->x + 1, (const void **[]){ &a.v });
}
