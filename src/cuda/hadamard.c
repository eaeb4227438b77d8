/* hadamard.c: Hadamard transforms of rows on a GPU. */
#include "cuda/kernels/hadamard.h"
#include "cuda/gpu.h"
#include "ops/special_products.h"

/* Rows that shared memory holds. */
bool gpu_takes_hadamard(const struct node *n)
{
    mx x = n->in[0];
    return dim(x, -1) * (int64_t)(x->dtype == DT_float64 ? sizeof(double) : sizeof(float)) <= HADAMARD_BYTES;
}

int gpu_run_hadamard(const struct run *r)
{
    static struct gpu_found found[DT_COUNT];
    const struct hadamard_args *h = r->args;
    mx x = r->x[0];
    mx_own hold = { 0 };
    struct hadamard_call c = { .n = dim(x, -1), .scale = h->scale };
    void *kernel = gpu_find(gpu_of(r), &found[x->dtype], "hadamard", "hadamard", (enum dtype)x->dtype);
    if (!kernel || gpu_out_new(r, 0))
        return 1;
    if (x->size == 0)
        return 0;
    c.m = hadamard_odd(c.n);
    c.run = c.n / c.m;
    for (int i = 0; i < c.m; i++)
        for (int j = 0; j < c.m; j++) {
            int sign = h->transposed ? hadamard_sign(c.m, j, i) : hadamard_sign(c.m, i, j);
            c.sign[i] |= (uint32_t)(sign > 0) << j;
        }
    if (is_nil(x = gpu_row_major(r, x, &hold)))
        return 1;
    c.x = gpu_pointer(r, x);
    c.y = gpu_pointer(r, r->y[0]);
    int threads = (int)greatest(32, gpu_power_of_two(c.n / 2, HADAMARD_THREADS));
    int failed = gpu_launch(r->stream, r->node->op->name, kernel, x->size / c.n, threads, (void *[]){ &c });
    mx_drop(&hold);
    return failed;
}
