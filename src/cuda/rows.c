/* rows.c: what is done to rows, those along the last axis, on a GPU: softmax, logsumexp, norms. */
#include "cuda/kernels/rows.h"
#include "cuda/gpu.h"
#include "ops/fast.h"

/* How many threads share a row: as many as it takes them to hold it, but enough to read neighbours together; or one
 * for each LANES elements. */
static int32_t row_team(int64_t n, int64_t lanes, int held)
{
    enum { NEIGHBOURS = 8 };
    int32_t each = gpu_power_of_two(ceil_div(n, lanes), ROWS_THREADS);
    return !held || each < NEIGHBOURS
               ? each
               : (int32_t)greatest(gpu_power_of_two(ceil_div(n, held), ROWS_THREADS), NEIGHBOURS);
}

/* name: of long rows; held, few: of those which threads hold.  parts: queued before `name`, whose blocks it gives
 * something of each piece. */
struct rows_kernel {
    const char *name, *held, *few, *parts;
    struct gpu_found found[4][DT_COUNT];
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

/* Queues a kernel over the rows of x, with what `a` has of arguments; the n arrays of `more`, of x's type, are what it
 * reads besides, and at[] where their addresses belong. */
static int launch_over_rows(const struct run *r, struct rows_kernel *k, struct rows_args *a, int n, const mx more[],
                            const void **at[])
{
    mx x = r->x[0];
    enum dtype t = (enum dtype)x->dtype;
    mx_own hold[3] = { 0 };
    a->n = dim(x, -1);
    int held = !k->held || a->n == 0 || a->n > ROWS_HELD * ROWS_THREADS ? 0
               : a->n > ROWS_FEW * 32                                   ? ROWS_HELD
                                                                        : ROWS_FEW;
    const char *name = held == 0 ? k->name : held == ROWS_FEW ? k->few : k->held;
    void *kernel = gpu_find(gpu_of(r), &k->found[held == 0 ? 0 : held == ROWS_FEW ? 1 : 2][t], "rows", name, t);
    void *parts = held || !k->parts ? NULL : gpu_find(gpu_of(r), &k->found[3][t], "rows", k->parts, t);
    bool failed = !kernel || (!held && k->parts && !parts);
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
        a->team = row_team(a->n, lanes, held);
        a->width = ROWS_THREADS / a->team;
        void *args[] = { a };
        failed =
            parts ? launch_pieces(r, parts, kernel, a)
                  : gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(a->rows, a->width), ROWS_THREADS, args);
    }
    gpu_drop(3, hold);
    return failed;
}

int gpu_run_softmax(const struct run *r)
{
    static struct rows_kernel kernel = {
        .name = "softmax", .held = "softmax_held", .few = "softmax_few", .parts = "powers_parts"
    };
    struct rows_args a = { 0 };
    return launch_over_rows(r, &kernel, &a, 0, NULL, NULL);
}

/* With one result or two. */
int gpu_run_logsumexp(const struct run *r)
{
    static struct rows_kernel kernel = {
        .name = "logsumexp", .held = "logsumexp_held", .few = "logsumexp_few", .parts = "powers_parts"
    };
    struct rows_args a = { 0 };
    return launch_over_rows(r, &kernel, &a, 0, NULL, NULL);
}

int gpu_run_norm(const struct run *r)
{
    static struct rows_kernel kernel = { .name = "norm", .held = "norm_held", .few = "norm_few" };
    const struct norm_args *n = r->args;
    struct rows_args a = { .eps = n->eps, .centered = r->node->op->id == OP_layer_norm };
    const void **at[] = { n->weight ? &a.weight : &a.bias, &a.bias };
    return launch_over_rows(r, &kernel, &a, r->nin - 1, r->x + 1, at);
}

int gpu_run_norm_tangent(const struct run *r)
{
    static struct rows_kernel kernel = { .name = "norm_tangent" };
    const struct norm_tangent_args *n = r->args;
    struct rows_args a = { .eps = n->eps, .centered = n->centered };
    return launch_over_rows(r, &kernel, &a, 1, r->x + 1, (const void **[]){ &a.v });
}
