/* orthogonal.c: QR factors, singular values and eigenvalues of small matrices on a GPU. */
#include "cuda/kernels/orthogonal.h"
#include "cuda/kernels/panels.h"
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

struct orthogonal_kernel {
    const char *name;
    struct gpu_found found[DT_COUNT];
};
/* Launches the kernel over all matrices of x, of which n columns of so many rows are worked on. */
static int launch_orthogonal(const struct run *r, mx x, struct orthogonal_kernel *k, struct orthogonal_call *c,
                             int rows, int n, bool rotates)
{
    enum dtype t = (enum dtype)x->dtype;
    size_t size = itemsize(x);
    struct buffer *rotations = NULL;
    void *kernel = gpu_find(gpu_of(r), &k->found[t], "orthogonal", k->name, t);
    if (!kernel)
        return 1;
    c->a = gpu_pointer(r, x);
    c->count = x->size / ((int64_t)c->m * c->n);
    lay_out(c, rows, n, rotates, (int64_t)size);
    if (rotates && c->makes != ORTHOGONAL_VALUES && c->each == c->columns * c->pitch) {
        rotations = buffer_new_on(r->stream, (size_t)(c->count * n * c->v_pitch) * size);
        if (!rotations)
            return 1;
        c->v = buffer_on(rotations, r->stream);
    }
    int failed =
        gpu_launch_shared(r->stream, r->node->op->name, kernel, ceil_div(c->count, c->width),
                          c->width * c->groups * c->lanes, (size_t)(c->width * c->each) * size, (void *[]){ c });
    if (rotations)
        buffer_release(rotations);
    return failed;
}

/* Results with memory at y, the operand row-major, and f of it where there is something to be done. */
typedef int work_fn(const struct run *r, mx x, void *const y[3]);
static int run_on(const struct run *r, work_fn *f)
{
    mx x = r->x[0];
    mx_own hold[1] = { 0 };
    void *y[3] = { 0 };
    for (int i = 0; i < r->nout; i++) {
        if (gpu_out_new(r, i))
            return 1;
        y[i] = gpu_pointer(r, r->y[i]);
    }
    if (x->size == 0)
        return 0;
    int failed = !gpu_all_row_major(r, 1, &x, hold) || f(r, x, y);
    gpu_drop(1, hold);
    return failed;
}

static int qr(const struct run *r, mx x, void *const y[3])
{
    static struct orthogonal_kernel kernel = { .name = "qr" };
    int m = dim(x, -2), n = dim(x, -1);
    struct orthogonal_call c = { .y = { y[0], y[1] }, .m = m, .n = n, .columns = n };
    if (gpu_takes_small_matrices(r->node))
        return launch_orthogonal(r, x, &kernel, &c, m, n, false);
    return solver_takes(SOLVER_QR, r, x->size / ((int64_t)m * n), m, n) ? solver_qr(r, x) : panels_qr(r, x);
}

int gpu_run_qr(const struct run *r) { return run_on(r, qr); }

static int svd_of(const struct run *r, mx x, enum orthogonal_makes makes, void *const y[3], const char *asker)
{
    static struct orthogonal_kernel kernel = { .name = "svd" };
    int m = dim(x, -2), n = dim(x, -1), most = (int)greatest(m, n), fewest = (int)least(m, n);
    int columns = makes == ORTHOGONAL_FULL ? most : fewest;
    struct orthogonal_call c = { .y = { y[0], y[1], y[2] }, .m = m, .n = n, .turned = m < n };
    c.makes = (int32_t)makes;
    c.columns = columns;
    return gpu_takes_small_matrices(r->node) ? launch_orthogonal(r, x, &kernel, &c, most, fewest, true)
                                             : solver_svd(r, x, (enum svd_mode)makes, y, asker);
}

static int svd(const struct run *r, mx x, void *const y[3])
{
    return svd_of(r, x, (enum orthogonal_makes)((const struct svd_args *)r->args)->mode, y, "svd");
}

int gpu_run_svd(const struct run *r) { return run_on(r, svd); }

/* Of A = U s V^H, in `to`, as it lies: U times what belongs to s, times V^H. */
static int put_together(struct work *w, mx x, void *to, void *factor[3], bool others, const char *asker)
{
    int m = dim(x, -2), n = dim(x, -1), k = (int)least(m, n);
    int64_t m_k = (int64_t)m * k, k_n = (int64_t)k * n;
    factor[0] = work_hold(w, w->count * m_k * w->size);
    factor[1] = work_hold(w, w->count * k * w->size);
    factor[2] = work_hold(w, w->count * k_n * w->size);
    struct gpu_product_at p = { .y = { to, n, 1, (int64_t)m * n }, .alpha = 1 };
    struct weigh_call by = { .values = factor[1], .m = m, .k = k, .n = n, .others = others };
    void *weighed = others ? work_hold(w, w->count * m_k * w->size) : factor[0];
    if (!factor[0] || !factor[1] || !factor[2] || !weighed || svd_of(w->r, x, ORTHOGONAL_THIN, factor, asker))
        return 1;
    struct part_call copy = { .y = weighed, .x = factor[0], .y_row = k, .x_row = k, .rows = m, .columns = k };
    copy.y_matrix = copy.x_matrix = m_k;
    by.x = weighed;
    p.a = (struct gpu_matrices){ weighed, k, 1, m_k };
    p.b = (struct gpu_matrices){ factor[2], n, 1, k_n };
    p.m = m;
    p.n = n;
    p.k = k;
    p.count = w->count;
    return (others && work_copy(w, copy)) || work_weigh(w, by) || gpu_multiply_at(w->r, w->t, &p);
}

static int pinv(const struct run *r, mx x, void *const y[3])
{
    struct work w;
    void *factor[3];
    int m = dim(x, -2), n = dim(x, -1);
    if (gpu_takes_small_matrices(r->node))
        return svd_of(r, x, ORTHOGONAL_INVERSE, y, "pinv");
    int failed = work_begin(&w, r, x, false);
    void *turned = work_hold(&w, nbytes(x));
    struct part_call out = { .y = y[0], .x = turned, .y_row = m, .x_row = n, .rows = n, .columns = m };
    out.y_matrix = out.x_matrix = (int64_t)m * n;
    out.turned = PART_ADJOINT;
    failed = failed || !turned || put_together(&w, x, turned, factor, false, "pinv") || work_copy(&w, out);
    return work_end(&w, failed);
}

int gpu_run_pinv(const struct run *r) { return run_on(r, pinv); }

/* det(A) A^-T = det(U) det(V^H) times the conjugate of U diag(products of the other values) V^H, which is there for
 * singular matrices, too. */
static int cofactor(const struct run *r, mx x, void *const y[3])
{
    struct work w;
    void *factor[3];
    int n = dim(x, -1), failed = work_begin(&w, r, x, false);
    void *first = work_hold(&w, w.count * w.size), *second = work_hold(&w, w.count * w.size);
    failed = failed || !first || !second || put_together(&w, x, y[0], factor, true, "det");
    struct lu_call l = { .t = w.t, .count = w.count, .m = n, .n = n, .makes = LINALG_DET };
    struct finish_call out = { y[0], first, second, (int64_t)n * n, x->size };
    for (int i = 0; i < 2 && !failed; i++) {
        l.a = factor[2 * i];
        l.y[0] = i ? second : first;
        failed = linalg_lu(r, &l);
    }
    return work_end(&w, failed || work_finish(&w, out));
}

int gpu_run_cofactor(const struct run *r) { return run_on(r, cofactor); }

static int eigh(const struct run *r, mx x, void *const y[3])
{
    static struct orthogonal_kernel kernel = { .name = "eigh" };
    const struct eigh_args *g = r->args;
    int n = dim(x, -1);
    struct orthogonal_call c = { .y = { y[0], y[1] }, .m = n, .n = n, .part = (int32_t)g->part, .columns = n };
    c.makes = g->vectors ? ORTHOGONAL_THIN : ORTHOGONAL_VALUES;
    return gpu_takes_small_matrices(r->node) ? launch_orthogonal(r, x, &kernel, &c, n, n, true) : solver_eigh(r, x, y);
}

int gpu_run_eigh(const struct run *r) { return run_on(r, eigh); }
