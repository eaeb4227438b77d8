/* load.c: bytes of a source to a GPU, through pinned memory piece by piece: no array of them is on the host.
 *
 * They are read, never mapped, so that a file that was cut is an error. */
#include "plan/load.h"

#include "cuda/gpu.h"

bool gpu_takes_load(const struct node *n)
{
    return load_in_parts((const struct source *)((const struct load_args *)n->args)->from);
}

static int fill_from_source(void *ctx, void *piece, size_t at, size_t n)
{
    const struct load_args *a = ctx;
    return load_read((struct source *)a->from, piece, n, (uint64_t)a->offset + at, a->dtype, a->swap);
}

int gpu_run_load(const struct run *r)
{
    const struct load_args *a = r->args;
    mx y = r->y[0];
    size_t n = (size_t)nbytes(y);
    if (!load_inside((struct source *)a->from, (uint64_t)a->offset, n, y->ndim, y->shape, y->dtype, MX_RUNTIME))
        return 1;
    return gpu_out_new(r, 0) ||
           gpu_send_filled(gpu_stream(r->stream), gpu_address(r, y), n, fill_from_source, (void *)(uintptr_t)a);
}
