/* orthogonal.c: QR factors, singular values and eigenvalues of small matrices on a GPU. */
#include "cuda/kernels/orthogonal.h"
#include "cuda/linalg.h"
#include "cuda/solver.h"
#include "ops/linalg.h"

bool gpu_takes_svd(const struct node *n)
{
    return gpu_takes_matrices(n) && (gpu_takes_small_matrices(n) || solver_works(SOLVER_SVD, n->stream->device.index));
}

bool gpu_takes_eigh(const struct node *n)
{
    return gpu_takes_matrices(n) && (gpu_takes_small_matrices(n) || solver_works(SOLVER_EIGH, n->stream->device.index));
}

/* How many threads a matrix gets, and a block matrices: `work` pairs of columns, or columns, at once. */
static void lay_out(struct orthogonal_call *c, int rows, int n, bool rotates, int64_t size)
{
    enum { EACH = 8 };
    int64_t room = ORTHOGONAL_BYTES / size, v = rotates && c->makes != ORTHOGONAL_VALUES;
    int most = (int)greatest(rows, c->columns);
    c->pitch = rows | 1;
    c->v_pitch = n | 1;
    c->each = c->columns * c->pitch;
    if (v && c->each + (int64_t)n * c->v_pitch <= room)
        c->each += n * c->v_pitch;
    c->lanes = gpu_power_of_two(ceil_div(rows, EACH), 32);
    c->groups = gpu_power_of_two(ceil_div(n, 2), ORTHOGONAL_THREADS / c->lanes);
    c->across = gpu_power_of_two(ceil_div(n, 2), c->groups * c->lanes);
    c->width = (int)greatest(1, ORTHOGONAL_LEAST / (c->groups * c->lanes));
    while (c->width > 1 && (c->width * most > ORTHOGONAL_LINES || c->width * (int64_t)c->each > room)) c->width /= 2;
    while (c->width * c->groups * c->lanes < 32) c->groups *= 2;
}

/* Launches the kernel over all matrices, of which n columns of so many rows are worked on. */
struct orthogonal_kernel {
    const char *name;
    struct gpu_found found[DT_COUNT];
};
static int launch_orthogonal(const struct run *r, struct orthogonal_kernel *k, struct orthogonal_call *c, int rows,
                             int n, bool rotates)
{
    mx x[1] = { r->x[0] };
    mx_own hold[1] = { 0 };
    enum dtype t = (enum dtype)x[0]->dtype;
    size_t size = itemsize(x[0]);
    struct buffer *rotations = NULL;
    void *kernel = gpu_find(gpu_of(r), &k->found[t], "orthogonal", k->name, t);
    if (!kernel)
        return 1;
    for (int i = 0; i < r->nout; i++) {
        if (gpu_out_new(r, i))
            return 1;
        c->y[i] = gpu_pointer(r, r->y[i]);
    }
    c->count = x[0]->size / ((int64_t)c->m * c->n);
    if (c->count == 0)
        return 0;
    lay_out(c, rows, n, rotates, (int64_t)size);
    int failed = !gpu_all_row_major(r, 1, x, hold);
    if (!failed && rotates && c->makes != ORTHOGONAL_VALUES && c->each == c->columns * c->pitch) {
        rotations = buffer_new_on(r->stream, (size_t)(c->count * n * c->v_pitch) * size);
        failed = !rotations;
        c->v = failed ? NULL : buffer_on(rotations, r->stream);
    }
    if (!failed) {
        c->a = gpu_pointer(r, x[0]);
        failed =
            gpu_launch_shared(r->stream, r->node->op->name, kernel, ceil_div(c->count, c->width),
                              c->width * c->groups * c->lanes, (size_t)(c->width * c->each) * size, (void *[]){ c });
    }
    if (rotations)
        buffer_release(rotations);
    gpu_drop(1, hold);
    return failed;
}

static int run_large_qr(const struct run *r)
{
    mx x[1] = { r->x[0] };
    mx_own hold[1] = { 0 };
    if (gpu_out_new(r, 0) || gpu_out_new(r, 1))
        return 1;
    int failed = r->y[0]->size && (!gpu_all_row_major(r, 1, x, hold) || panels_qr(r, x[0]));
    gpu_drop(1, hold);
    return failed;
}

int gpu_run_qr(const struct run *r)
{
    static struct orthogonal_kernel kernel = { .name = "qr" };
    int m = dim(r->x[0], -2), n = dim(r->x[0], -1);
    struct orthogonal_call c = { .m = m, .n = n, .columns = n };
    if (!gpu_takes_small_matrices(r->node))
        return run_large_qr(r);
    return launch_orthogonal(r, &kernel, &c, m, n, false);
}

static struct orthogonal_kernel svd = { .name = "svd" };

static int run_svd(const struct run *r, enum orthogonal_makes makes)
{
    int m = dim(r->x[0], -2), n = dim(r->x[0], -1), most = (int)greatest(m, n), fewest = (int)least(m, n);
    int columns = makes == ORTHOGONAL_FULL ? most : fewest;
    struct orthogonal_call c = { .m = m, .n = n, .turned = m < n, .makes = (int32_t)makes, .columns = columns };
    return launch_orthogonal(r, &svd, &c, most, fewest, true);
}

int gpu_run_svd(const struct run *r)
{
    if (!gpu_takes_small_matrices(r->node))
        return solver_run_svd(r);
    return run_svd(r, (enum orthogonal_makes)((const struct svd_args *)r->args)->mode);
}

int gpu_run_pinv(const struct run *r) { return run_svd(r, ORTHOGONAL_INVERSE); }

int gpu_run_eigh(const struct run *r)
{
    static struct orthogonal_kernel kernel = { .name = "eigh" };
    const struct eigh_args *g = r->args;
    int n = dim(r->x[0], -1);
    if (!gpu_takes_small_matrices(r->node))
        return solver_run_eigh(r);
    struct orthogonal_call c = { .m = n,
                                 .n = n,
                                 .part = (int32_t)g->part,
                                 .makes = g->vectors ? ORTHOGONAL_THIN : ORTHOGONAL_VALUES,
                                 .columns = n };
    return launch_orthogonal(r, &kernel, &c, n, n, true);
}
