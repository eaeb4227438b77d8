/* places.h: where an element of a shape is, by its number. */
#ifndef MX_CUDA_KERNELS_PLACES_H
#define MX_CUDA_KERNELS_PLACES_H

#include "plan/walk.h"

/* The remainder of *i, a number below n, by `size`; *i becomes the quotient. */
FN int64_t place_along(int64_t *i, uint32_t size, int64_t n)
{
    int64_t up = n <= 0xffffffffLL ? (int64_t)((uint32_t)*i / size) : *i / size, here = *i - up * size;
    *i = up;
    return here;
}

struct places {
    int64_t at[WALK_OPERANDS];
};

/* Where element i of n is in `count` operands, the strides of whose k-th begin at stride[k * apart].  With a loop over
 * them in it, NVRTC unrolls the one over dimensions all the same. */
FN struct places places_of(int64_t i, int64_t n, int ndim, const uint32_t *shape, int count, const int64_t *stride,
                           int apart)
{
    struct places p = { { 0 } };
    ROLLED
    for (int d = ndim; d-- > 0;) {
        int64_t here = d ? place_along(&i, shape[d], n) : i;
        p.at[0] += here * stride[d];
        p.at[1] += count > 1 ? here * stride[apart + d] : 0;
        p.at[2] += count > 2 ? here * stride[2 * apart + d] : 0;
    }
    return p;
}

/* The same in the first `count` operands of a walk. */
FN struct places places_in(const struct walk *w, int64_t i, int count)
{
    struct places p = { { 0 } };
    if (w->ndim)
        return places_of(i, w->n, w->ndim, w->shape, count, w->stride[0], WALK_DIMS);
    for (int k = 0; k < count; k++) p.at[k] = w->step[k] ? i : 0;
    return p;
}

#endif
