/* search.c: places in sorted sequences, and of what is not 0, on a GPU. */
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

bool gpu_takes_nonzero(const struct node *n) { return n->in[0]->size <= UINT32_MAX; }

int gpu_run_nonzero(const struct run *r)
{
    static struct gpu_found found[3];
    static const char *const names[] = { "nonzero_count", "nonzero_scan", "nonzero_write" };
    mx x = r->x[0], y = r->y[0];
    mx_own hold = { 0 };
    if (gpu_out_new(r, 0))
        return 1;
    if (y->size == 0 || x->size == 0)
        return 0;
    if (is_nil(x = gpu_row_major(r, x, &hold)))
        return 1;
    struct nonzero_call c = { .y = gpu_pointer(r, y),
                              .x = gpu_pointer(r, x),
                              .n = x->size,
                              .count = dim(y, -1),
                              .tiles = ceil_div(x->size, NONZERO_TILE),
                              .ndim = x->ndim };
    for (int d = 0; d < x->ndim; d++) c.shape[d] = (uint32_t)x->shape[d];
    struct buffer *room = buffer_new_on(r->stream, (size_t)(c.tiles + 1) * sizeof *c.before);
    int failed = !room;
    if (!failed)
        c.before = buffer_on(room, r->stream);
    for (int k = 0; k < 3 && !failed; k++) {
        void *f = gpu_find(gpu_of(r), &found[k], "nonzero", names[k], DT_COUNT);
        failed =
            !f || gpu_launch(r->stream, r->node->op->name, f, k == 1 ? 1 : c.tiles, SEARCH_THREADS, (void *[]){ &c });
    }
    if (room)
        buffer_release(room);
    mx_drop(&hold);
    return failed;
}
