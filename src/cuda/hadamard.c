/* hadamard.c: Hadamard transforms of rows on a GPU. */
#include "cuda/kernels/hadamard.h"
#include "cuda/gpu.h"
#include "ops/special_products.h"

/* Which of the matrix of size m, the part of a length that is no power of two, is 1. */
static int signs(const struct hadamard_args *h, int64_t n, uint32_t sign[HADAMARD_ODD])
{
    int m = hadamard_odd(n);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            int s = h->transposed ? hadamard_sign(m, j, i) : hadamard_sign(m, i, j);
            sign[i] |= (uint32_t)(s > 0) << j;
        }
    return m;
}

/* Rows that shared memory holds. */
static int transform_rows(const struct run *r, mx x)
{
    static struct gpu_found found[DT_COUNT];
    const struct hadamard_args *h = r->args;
    struct hadamard_call c = { .n = dim(x, -1), .scale = h->scale };
    void *kernel = gpu_find(gpu_of(r), &found[x->dtype], "hadamard", "hadamard", (enum dtype)x->dtype);
    c.m = signs(h, c.n, c.sign);
    c.run = c.n / c.m;
    c.x = gpu_pointer(r, x);
    c.y = gpu_pointer(r, r->y[0]);
    int threads = (int)greatest(32, gpu_power_of_two(c.n / 2, HADAMARD_THREADS));
    return !kernel || gpu_launch(r->stream, r->node->op->name, kernel, x->size / c.n, threads, (void *[]){ &c });
}

enum step { PIECES, ACROSS, RUNS };

static int launch_step(const struct run *r, enum step which, int64_t blocks, struct hadamard_step *s)
{
    static struct gpu_found found[RUNS + 1][DT_COUNT];
    static const char *const names[] = { "hadamard_pieces", "hadamard_across", "hadamard_runs" };
    enum dtype t = (enum dtype)r->y[0]->dtype;
    void *kernel = gpu_find(gpu_of(r), &found[which][t], "hadamard", names[which], t);
    return !kernel || gpu_launch(r->stream, r->node->op->name, kernel, blocks, HADAMARD_THREADS, (void *[]){ s });
}

static int transform_long(const struct run *r, mx x, int64_t item)
{
    const struct hadamard_args *h = r->args;
    struct buffer *room = buffer_new_on(r->stream, (size_t)(x->size * item));
    if (!room)
        return 1;
    void *between = buffer_on(room, r->stream);
    struct hadamard_step s = { .x = gpu_pointer(r, x), .y = between, .scale = h->scale };
    s.m = signs(h, dim(x, -1), s.sign);
    int64_t run = dim(x, -1) / s.m, done = s.piece = (int32_t)least(run, HADAMARD_BYTES / item);
    int failed = launch_step(r, PIECES, x->size / s.piece, &s);
    while (1 << s.shift < done) s.shift++;
    for (; done < run && !failed; done *= s.radix) {
        s.radix = (int32_t)least(run / done, HADAMARD_RADIX);
        s.n = x->size / s.radix;
        failed = launch_step(r, ACROSS, ceil_div(s.n, HADAMARD_THREADS), &s);
        for (int k = s.radix; k > 1; k /= 2) s.shift++;
    }
    s.x = between;
    s.y = gpu_pointer(r, r->y[0]);
    s.n = x->size / s.m;
    failed = failed || launch_step(r, RUNS, ceil_div(s.n, HADAMARD_THREADS), &s);
    buffer_release(room);
    return failed;
}

int gpu_run_hadamard(const struct run *r)
{
    mx x = r->x[0];
    mx_own hold = { 0 };
    int64_t item = x->dtype == DT_float64 ? sizeof(double) : sizeof(float);
    if (gpu_out_new(r, 0))
        return 1;
    if (x->size == 0)
        return 0;
    int failed = is_nil(x = gpu_row_major(r, x, &hold)) ||
                 (dim(x, -1) * item <= HADAMARD_BYTES ? transform_rows(r, x) : transform_long(r, x, item));
    mx_drop(&hold);
    return failed;
}
