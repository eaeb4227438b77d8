/* update_at.h: where an update goes.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_UPDATE_AT_H
#define MX_CUDA_KERNELS_UPDATE_AT_H

#include "cuda/kernels/lookup_at.h"
#include "cuda/kernels/order.h"

/* Update number n of a call, by one index, of single elements or slices in rows: without loops. */
FN struct lookup_at update_in_rows(const struct lookup_call *l, uint32_t n)
{
    const int d = l->ndim == 2;
    uint32_t row = d ? n / l->shape[1] : 0, i = n - (d ? row * l->shape[1] : 0);
    struct lookup_at r = { row * l->stride[LOOKUP_FAR][0] + i * l->stride[LOOKUP_FAR][d],
                           row * l->stride[LOOKUP_NEAR][0] + i * l->stride[LOOKUP_NEAR][d], false };
    int64_t at = row * l->stride[LOOKUP_INDEX][0] + i * l->stride[LOOKUP_INDEX][d];
    int64_t v = index_value(l->index[0].data, l->index[0].type, at);
    r.far += lookup_place(l, 0, n, v, &r.outside) * l->index[0].step;
    return r;
}

/* What is out of range and to be left out is outside. */
FN struct lookup_at update_at(const struct keys_call *a, int64_t n)
{
    const struct lookup_call *l = &a->lookup;
    struct lookup_at r;
    if (l->n == 1 && l->ndim <= 2 && !a->elements) {
        r = update_in_rows(l, (uint32_t)n);
    } else {
        int64_t i = a->elements ? n / l->slice : n;
        r = lookup_at(l, i);
        if (a->elements) {
            struct lookup_at in = lookup_in_slice(l, n - i * l->slice);
            r.far += in.far;
            r.near += in.near;
        }
    }
    r.outside &= a->drops != 0;
    return r;
}

#endif
