/* linalg.c: factors of small matrices, and what is made with them, on a GPU. */
#include "cuda/kernels/linalg.h"
#include "cuda/gpu.h"
#include "ops/linalg.h"
#include "plan/factor.h"

/* Matrices that blocks hold. */
bool gpu_takes_small_matrices(const struct node *n)
{
    mx x = n->in[0];
    int rows = dim(x, -2), columns = dim(x, -1);
    return rows > 0 && columns > 0 && rows <= LINALG_SIZE && columns <= LINALG_SIZE;
}

/* How many columns a block takes of the right side, and how many matrices. */
static void lay_out(struct linalg_call *c, int64_t size)
{
    int room = (int)(LINALG_BYTES / (size * c->m)), columns = c->n;
    if (c->k) {
        c->tile = (int)least(c->k, least(LINALG_SIZE, ((room - 1) | 1) - c->n));
        c->tiles = (int)ceil_div(c->k, c->tile);
        columns += c->tile;
    } else {
        c->tiles = 1;
    }
    c->pitch = columns | 1;
    enum { EACH = 8 };
    c->team = gpu_power_of_two(ceil_div((int64_t)c->m * columns, EACH), LINALG_THREADS);
    c->across = gpu_power_of_two(columns, c->team);
    c->width = (int)greatest(1, LINALG_LEAST / c->team);
    while (c->width > 1 && (c->width * c->m > LINALG_ROWS || c->width * c->pitch > room)) c->width /= 2;
    while (c->width * c->team < 32) c->team *= 2;
}

/* Launches the kernel over all matrices; one that fails, where some may, ends it. */
struct linalg_kernel {
    const char *name;
    struct gpu_found found[DT_COUNT];
};
static int launch_linalg(const struct run *r, struct linalg_kernel *k, struct linalg_call *c, bool fails,
                         enum factor_fault fault)
{
    mx x[2] = { r->x[0], r->nin > 1 ? r->x[1] : NULL };
    mx_own hold[2] = { 0 };
    enum dtype t = (enum dtype)x[0]->dtype;
    bool empty = true, any = false;
    void *kernel = gpu_find(gpu_of(r), &k->found[t], "linalg", k->name, t);
    if (!kernel)
        return 1;
    for (int i = 0; i < r->nout; i++) {
        if (gpu_out_new(r, i))
            return 1;
        c->y[i] = gpu_pointer(r, r->y[i]);
        empty = empty && r->y[i]->size == 0;
    }
    if (empty)
        return 0;
    c->m = dim(x[0], -2);
    c->n = dim(x[0], -1);
    c->count = x[0]->size / ((int64_t)c->m * c->n);
    lay_out(c, itemsize(x[0]));
    int failed = !gpu_all_row_major(r, r->nin, x, hold);
    if (!failed) {
        struct note_about *about = &c->noting.about;
        c->a = gpu_pointer(r, x[0]);
        c->b = x[1] ? gpu_pointer(r, x[1]) : NULL;
        failed = fails && gpu_noting(r, &c->noting, NOTE_NOW);
        *about = (struct note_about){ .kind = NOTE_FACTOR, .use = (int32_t)fault, .count = INT64_MAX };
        about->op = factor_asker(r->node);
        about->ndim = x[0]->ndim - 2;
        for (int i = 0; i < about->ndim; i++) about->shape[i] = x[0]->shape[i];
        failed = failed ||
                 gpu_launch_shared(r->stream, r->node->op->name, kernel, ceil_div(c->count, c->width) * c->tiles,
                                   c->team * c->width, (size_t)((int64_t)c->width * c->m * c->pitch * itemsize(x[0])),
                                   (void *[]){ c }) ||
                 (fails && gpu_noted(r, &any, true));
    }
    gpu_drop(2, hold);
    return failed;
}

int gpu_run_inverse(const struct run *r)
{
    static struct linalg_kernel kernel = { .name = "solve" };
    struct linalg_call c = { .k = dim(r->x[0], -1), .part = (int32_t)((const struct part_args *)r->args)->part };
    return launch_linalg(r, &kernel, &c, true, FACTOR_SINGULAR);
}

int gpu_run_solve(const struct run *r)
{
    static struct linalg_kernel kernel = { .name = "solve" };
    struct linalg_call c = { .k = dim(r->x[1], -1), .part = (int32_t)((const struct part_args *)r->args)->part };
    return launch_linalg(r, &kernel, &c, true, FACTOR_SINGULAR);
}

int gpu_run_cholesky(const struct run *r)
{
    static struct linalg_kernel kernel = { .name = "cholesky" };
    struct linalg_call c = { .part = (int32_t)((const struct part_args *)r->args)->part };
    return launch_linalg(r, &kernel, &c, true, FACTOR_INDEFINITE);
}

static struct linalg_kernel factors = { .name = "lu" };

int gpu_run_lu(const struct run *r)
{
    struct linalg_call c = { .makes = LINALG_FACTORS };
    return launch_linalg(r, &factors, &c, false, FACTOR_SINGULAR);
}

int gpu_run_det(const struct run *r)
{
    struct linalg_call c = { .makes = r->nout > 1 ? LINALG_SLOGDET : LINALG_DET };
    return launch_linalg(r, &factors, &c, false, FACTOR_SINGULAR);
}
