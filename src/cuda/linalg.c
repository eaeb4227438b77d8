/* linalg.c: factors of matrices, and what is made with them, on a GPU: those that registers, or shared memory, hold. */
#include "cuda/linalg.h"
#include "cuda/solver.h"
#include "ops/linalg.h"

bool gpu_takes_small_matrices(const struct node *n)
{
    mx x = n->in[0];
    int rows = dim(x, -2), columns = dim(x, -1);
    return rows > 0 && columns > 0 && rows <= LINALG_SIZE && columns <= LINALG_SIZE;
}

bool gpu_takes_matrices(const struct node *n) { return dim(n->in[0], -2) > 0 && dim(n->in[0], -1) > 0; }

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
    c->beside = gpu_power_of_two(greatest(1, columns - c->n), c->team);
}

/* Matrices of which a warp's lanes, or those of two warps for larger Cholesky factors, have a row each: a launch, or -1
 * where they are too large, too many, not real, or the device has no such kernels. */
static int launch_lanes(const struct run *r, enum linalg_kernel k, enum dtype t, struct linalg_call *c)
{
    enum { SIZES = 5, LEAST = 4, MOST = 32 };
    static const char *const names[LINALG_KERNELS][SIZES] = {
        [LINALG_SOLVE] = { "solve_4", "solve_8", "solve_16", "solve_32" },
        [LINALG_CHOLESKY] = { "cholesky_4", "cholesky_8", "cholesky_16", "cholesky_32", "cholesky_64" },
        [LINALG_LU] = { "lu_4", "lu_8", "lu_16", "lu_32" },
    };
    static struct gpu_found found[LINALG_KERNELS][SIZES][2];
    static struct gpu_known known[2];
    int size = 0, most = (int)greatest(c->m, c->n);
    if (most > (k == LINALG_CHOLESKY ? 2 * MOST : MOST) || (t != DT_float32 && t != DT_float64) ||
        !gpu_has(gpu_of(r), &known[t == DT_float64], "linalg", "solve_4", t))
        return -1;
    while (LEAST << size < most) size++;
    c->tile = LEAST << size;
    c->tiles = (int)greatest(1, ceil_div(c->k, c->tile));
    if (c->count > INT32_MAX / c->tiles)
        return -1;
    void *kernel = gpu_find(gpu_of(r), &found[k][size][t == DT_float64], "linalg", names[k][size], t);
    if (!kernel)
        return 1;
    int threads = most > MOST ? LINALG_PAIR : LINALG_LANES;
    return gpu_launch(r->stream, r->node->op->name, kernel, ceil_div(c->count * c->tiles, threads / c->tile), threads,
                      (void *[]){ c });
}

int linalg_launch(const struct run *r, enum linalg_kernel k, enum dtype t, struct linalg_call *c)
{
    static const char *const names[] = { [LINALG_SOLVE] = "solve", [LINALG_CHOLESKY] = "cholesky", [LINALG_LU] = "lu" };
    static struct gpu_found found[LINALG_KERNELS][DT_COUNT];
    int64_t size = (int64_t)dtype_size(t);
    int launched = launch_lanes(r, k, t, c);
    if (launched >= 0)
        return launched;
    void *kernel = gpu_find(gpu_of(r), &found[k][t], "linalg", names[k], t);
    if (!kernel)
        return 1;
    lay_out(c, size);
    return gpu_launch_shared(r->stream, r->node->op->name, kernel, ceil_div(c->count, c->width) * c->tiles,
                             c->team * c->width, (size_t)((int64_t)c->width * c->m * c->pitch * size), (void *[]){ c });
}

int linalg_noting(const struct run *r, struct noting *t, enum factor_fault fault)
{
    struct note_about *about = &t->about;
    mx x = r->x[0];
    *about = (struct note_about){ .kind = NOTE_FACTOR, .use = (int32_t)fault, .count = INT64_MAX };
    about->op = factor_asker(r->node);
    about->ndim = x->ndim - 2;
    for (int i = 0; i < about->ndim; i++) about->shape[i] = x->shape[i];
    return gpu_noting(r, t, NOTE_NOW);
}

int linalg_noted(const struct run *r)
{
    bool any;
    return gpu_noted(r, &any, true);
}

/* Solutions and Cholesky factors of matrices that are held. */
static int run_small(const struct run *r, const mx x[2], enum linalg_kernel k, struct linalg_call *c,
                     enum factor_fault fault)
{
    c->a = gpu_pointer(r, x[0]);
    c->b = x[1] ? gpu_pointer(r, x[1]) : NULL;
    c->y[0] = gpu_pointer(r, r->y[0]);
    c->m = dim(x[0], -2);
    c->a_row = c->n = dim(x[0], -1);
    c->b_row = c->y_row = c->k ? c->k : c->n;
    c->a_matrix = (int64_t)c->m * c->n;
    c->b_matrix = c->y_matrix = (int64_t)c->m * c->b_row;
    c->count = x[0]->size / c->a_matrix;
    return linalg_noting(r, &c->noting, fault) || linalg_launch(r, k, (enum dtype)x[0]->dtype, c) || linalg_noted(r);
}

/* Of others, by cuSOLVER or panels; it has no part in systems of triangles. */
static int run_large(const struct run *r, const mx x[2], enum linalg_kernel k, enum linalg_part part)
{
    int n = dim(x[0], -1);
    int64_t count = x[0]->size / ((int64_t)n * n);
    if (k == LINALG_CHOLESKY)
        return solver_takes(SOLVER_CHOLESKY, r, count, n, n) ? solver_cholesky(r, x[0], (unsigned)part)
                                                             : panels_cholesky(r, x[0], part);
    int columns = dim(r->y[0], -1);
    return part == LINALG_ALL && solver_takes(SOLVER_LU, r, count, n, (int)greatest(n, columns))
               ? solver_solve(r, x)
               : panels_solve(r, x, part);
}

int linalg_lu(const struct run *r, const struct lu_call *l)
{
    struct linalg_call c = { .a = l->a, .count = l->count, .m = l->m, .n = l->n, .makes = (int32_t)l->makes };
    if (l->m > LINALG_SIZE || l->n > LINALG_SIZE)
        return solver_takes(SOLVER_LU, r, l->count, l->m, l->n) ? solver_lu(r, l) : panels_lu(r, l);
    for (int i = 0; i < 3; i++) c.y[i] = l->y[i];
    c.a_row = l->n;
    c.a_matrix = (int64_t)l->m * l->n;
    return linalg_launch(r, LINALG_LU, l->t, &c);
}

static int run_lu(const struct run *r, mx x, enum linalg_makes makes)
{
    int m = dim(x, -2), n = dim(x, -1);
    struct lu_call l = { (enum dtype)x->dtype, x->size / ((int64_t)m * n), gpu_pointer(r, x), { 0 }, m, n, makes };
    for (int i = 0; i < r->nout; i++) l.y[i] = gpu_pointer(r, r->y[i]);
    return linalg_lu(r, &l);
}

/* Operands row-major, results with memory; the work on matrices that are held, or on larger ones. */
static int run_linalg(const struct run *r, enum linalg_kernel k, struct linalg_call *c, enum factor_fault fault)
{
    mx x[2] = { r->x[0], r->nin > 1 ? r->x[1] : NULL };
    mx_own hold[2] = { 0 };
    bool empty = true;
    for (int i = 0; i < r->nout; i++) {
        if (gpu_out_new(r, i))
            return 1;
        empty = empty && r->y[i]->size == 0;
    }
    if (empty)
        return 0;
    int failed = !gpu_all_row_major(r, r->nin, x, hold);
    if (!failed && k == LINALG_LU)
        failed = run_lu(r, x[0], (enum linalg_makes)c->makes);
    else if (!failed && gpu_takes_small_matrices(r->node))
        failed = run_small(r, x, k, c, fault);
    else if (!failed)
        failed = run_large(r, x, k, (enum linalg_part)c->part);
    gpu_drop(2, hold);
    return failed;
}

int gpu_run_inverse(const struct run *r)
{
    struct linalg_call c = { .k = dim(r->x[0], -1), .part = (int32_t)((const struct part_args *)r->args)->part };
    return run_linalg(r, LINALG_SOLVE, &c, FACTOR_SINGULAR);
}

int gpu_run_solve(const struct run *r)
{
    struct linalg_call c = { .k = dim(r->x[1], -1), .part = (int32_t)((const struct part_args *)r->args)->part };
    return run_linalg(r, LINALG_SOLVE, &c, FACTOR_SINGULAR);
}

int gpu_run_cholesky(const struct run *r)
{
    struct linalg_call c = { .part = (int32_t)((const struct part_args *)r->args)->part };
    return run_linalg(r, LINALG_CHOLESKY, &c, FACTOR_INDEFINITE);
}

int gpu_run_lu(const struct run *r)
{
    struct linalg_call c = { .makes = LINALG_FACTORS };
    return run_linalg(r, LINALG_LU, &c, FACTOR_SINGULAR);
}

int gpu_run_det(const struct run *r)
{
    struct linalg_call c = { .makes = r->nout > 1 ? LINALG_SLOGDET : LINALG_DET };
    return run_linalg(r, LINALG_LU, &c, FACTOR_SINGULAR);
}
