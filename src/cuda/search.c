/* search.c: places in sorted sequences, on a GPU. */
#include "cuda/kernels/search.h"

#include "core/sizes.h"
#include "cuda/gpu.h"
#include "ops/sort.h"

int gpu_run_searchsorted(const struct run *r)
{
    static struct gpu_found found;
    mx_own hold[2] = { 0 };
    mx in[2] = { r->x[0], r->x[1] };
    bool failed = !gpu_all_row_major(r, 2, in, hold);
    mx x = in[0], v = in[1];
    void *f = gpu_find(gpu_of(r), &found, "search", "search", DT_COUNT);
    failed = failed || !f || gpu_out_new(r, 0);
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
    gpu_drop(2, hold);
    return failed;
}
