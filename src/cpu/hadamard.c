/* hadamard.c: the Hadamard transform on the CPU.
 *
 * The matrix of size m * 2^k is the Kronecker product of one of size m (1, 12, 20 or 28) and the
 * Walsh-Hadamard matrix: a row is m runs of 2^k, which are combined, and each then transformed. */
#include "cpu/kernels/hadamard.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "cpu/run.h"
#include "cpu/worth.h"
#include "ops/special_products.h"

struct hadamard_job {
    enum dtype t, work;
    const char *x;
    char *y;
    int64_t n;
    int m;
    double scale;
    bool transposed;
    atomic_bool failed;
};

/* to = the runs of x combined. */
static void combine(const struct hadamard_job *j, char *to, const char *x, size_t size)
{
    int64_t run = j->n / j->m;
    memset(to, 0, (size_t)j->n * size);
    for (int a = 0; a < j->m; a++)
        for (int b = 0; b < j->m; b++) {
            int s = j->transposed ? hadamard_sign(j->m, b, a) : hadamard_sign(j->m, a, b);
            char *y = to + (size_t)(a * run) * size;
            const char *v = x + (size_t)(b * run) * size;
            if (j->work == DT_float64)
                cpu->hadamard->add_f64((double *)(void *)y, (const double *)(const void *)v, s, run);
            else
                cpu->hadamard->add_f32((float *)(void *)y, (const float *)(const void *)v, (float)s, run);
        }
}

static void hadamard_rows(void *ctx, int64_t begin, int64_t end)
{
    struct hadamard_job *j = ctx;
    size_t size = dtype_size(j->work), in = dtype_size(j->t), n = (size_t)j->n;
    char *room = mx_try_malloc(2 * n * size);
    if (!room) {
        atomic_store(&j->failed, true);
        return;
    }
    float s = (float)j->scale;
    const void *scale = j->work == DT_float64 ? (const void *)&j->scale : &s;
    for (int64_t i = begin; i < end; i++) {
        char *v = room;
        cpu->cast[j->t][j->work](v, j->x + (size_t)i * n * in, n);
        if (j->m > 1)
            combine(j, v + n * size, v, size), v += n * size;
        if (j->work == DT_float64)
            cpu->hadamard->f64((double *)(void *)v, j->n / j->m, j->m);
        else
            cpu->hadamard->f32((float *)(void *)v, j->n / j->m, j->m);
        cpu->binary[BINARY_multiply][j->work](v, v, 1, scale, 0, n);
        cpu->cast[j->work][j->t](j->y + (size_t)i * n * in, v, n);
    }
    free(room);
}

int run_hadamard(const struct run *r)
{
    const struct hadamard_args *a = r->args;
    mx_own hold = { NULL };
    if (out_new(r, 0))
        return 1;
    if (r->y[0]->size == 0)
        return 0;
    MX_SCOPE(NULL);
    mx x = row_major(r->x[0], &hold);
    if (is_nil(x))
        return 1;
    enum dtype t = x->dtype;
    struct hadamard_job j = { .t = t,
                              .work = t == DT_float64 ? t : DT_float32,
                              .x = host(x),
                              .y = host(r->y[0]),
                              .n = dim(x, -1),
                              .scale = a->scale,
                              .transposed = a->transposed };
    j.m = hadamard_odd(j.n);
    pool_for(x->size / j.n, 1 + WORTH_MOVED / j.n, hadamard_rows, &j);
    mx_drop(&hold);
    if (atomic_load(&j.failed))
        return mx_fail_memory((unsigned long)(2 * j.n * 8)), 1;
    return 0;
}
