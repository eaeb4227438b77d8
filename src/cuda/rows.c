/* rows.c: what is done to rows, those along the last axis, on a GPU: softmax, logsumexp, norms. */
#include "cuda/kernels/rows.h"
#include "cuda/gpu.h"
#include "ops/fast.h"

/* Queues a kernel over the rows of x, with what `a` has of arguments; the n arrays of `more`, of x's type, are what it
 * reads besides, and at[] where their addresses belong. */
static int launch_over_rows(const struct run *r, const char *name, struct gpu_found slots[DT_COUNT],
                            struct rows_args *a, int n, const mx more[], const void **at[])
{
    mx x = r->x[0];
    enum dtype t = (enum dtype)x->dtype;
    mx_own hold[3] = { 0 };
    void *kernel = gpu_find(gpu_of(r), &slots[t], "rows", name, t);
    bool failed = !kernel;
    for (int k = 0; k < r->nout && !failed; k++) failed = gpu_out_new(r, k);
    a->n = dim(x, -1);
    a->rows = a->n ? x->size / a->n : r->y[0]->size;
    failed = failed || is_nil(x = gpu_row_major(r, x, &hold[0]));
    uint64_t low = 0;
    for (int k = 0; k < n && !failed; k++) {
        mx z = gpu_row_major(r, more[k], &hold[1 + k]);
        failed = is_nil(z);
        if (!failed)
            low |= (uint64_t)(*at[k] = gpu_pointer(r, z));
    }
    if (!failed) {
        int64_t lanes = gpu_lanes(t);
        a->x = gpu_pointer(r, x);
        a->y = gpu_pointer(r, r->y[0]);
        a->more = r->nout > 1 ? gpu_pointer(r, r->y[1]) : NULL;
        a->whole = a->n % lanes == 0 && (low | (uint64_t)a->x | (uint64_t)a->y) % 16 == 0;
        a->team = gpu_power_of_two(ceil_div(a->n, lanes), ROWS_THREADS);
        a->width = ROWS_THREADS / a->team;
        void *args[] = { a };
        failed = gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(a->rows, a->width), ROWS_THREADS, args);
    }
    gpu_drop(3, hold);
    return failed;
}

int gpu_run_softmax(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    struct rows_args a = { 0 };
    return launch_over_rows(r, "softmax", found, &a, 0, NULL, NULL);
}

/* With one result or two. */
int gpu_run_logsumexp(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    struct rows_args a = { 0 };
    return launch_over_rows(r, "logsumexp", found, &a, 0, NULL, NULL);
}

int gpu_run_norm(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    const struct norm_args *n = r->args;
    struct rows_args a = { .eps = n->eps, .centered = r->node->op->id == OP_layer_norm };
    const void **at[] = { n->weight ? &a.weight : &a.bias, &a.bias };
    return launch_over_rows(r, "norm", found, &a, r->nin - 1, r->x + 1, at);
}

int gpu_run_norm_tangent(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    const struct norm_tangent_args *n = r->args;
    struct rows_args a = { .eps = n->eps, .centered = n->centered };
    return launch_over_rows(r, "norm_tangent", found, &a, 1, r->x + 1, (const void **[]){ &a.v });
}
