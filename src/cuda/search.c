/* search.c: places in sorted sequences, on a GPU. */
#include "cuda/kernels/search.h"

#include "core/sizes.h"
#include "cuda/gpu.h"
#include "ops/sort.h"

int gpu_run_searchsorted(const struct run *r)
{
    static struct gpu_found found;
    mx_own hold[2] = { 0 };
    mx x = gpu_row_major(r, r->x[0], &hold[0]), v = gpu_row_major(r, r->x[1], &hold[1]);
    void *f = gpu_find(gpu_stream(r->stream)->gpu, &found, "search", "search", DT_COUNT);
    int failed = is_nil(x) || is_nil(v) || !f || gpu_out_new(r, 0);
    if (!failed && v->size) {
        int64_t sequences = 1;
        for (int i = 0; i < x->ndim - 1; i++) sequences *= x->shape[i];
        struct search_call c = { .y = gpu_pointer(r, r->y[0]),
                                 .x = gpu_pointer(r, x),
                                 .v = gpu_pointer(r, v),
                                 .n = dim(x, -1),
                                 .count = v->size,
                                 .each = v->size / sequences,
                                 .type = x->dtype,
                                 .right = ((const struct searchsorted_args *)r->args)->right };
        failed = gpu_launch(r->stream, r->node->op->name, f, ceil_div(c.count, SEARCH_THREADS), SEARCH_THREADS,
                            (void *[]){ &c });
    }
    for (int k = 0; k < 2; k++) mx_drop(&hold[k]);
    return failed;
}
