/* lookup_at.h: where a lookup is.
 *
 * Include cuda/kernels/gpu.h before. */
#ifndef MX_CUDA_KERNELS_LOOKUP_AT_H
#define MX_CUDA_KERNELS_LOOKUP_AT_H

#include "cuda/kernels/lookup.h"
#include "cuda/kernels/places.h"

/* A uint64 past 2^63 is negative. */
FN int64_t index_value(const void *p, int32_t type, int64_t at)
{
    switch (type) {
    case DT_int32: return ((const int32_t *)p)[at];
    case DT_uint32: return ((const uint32_t *)p)[at];
    case DT_int8: return ((const int8_t *)p)[at];
    case DT_int16: return ((const int16_t *)p)[at];
    case DT_uint16: return ((const uint16_t *)p)[at];
    case DT_bool_:
    case DT_uint8: return ((const uint8_t *)p)[at];
    default: return ((const int64_t *)p)[at];
    }
}

struct lookup_at {
    int64_t far, near;
    bool outside; /* an index is out of range, and far at the nearest place */
};

/* Where along its axis the index v of array k is, or the nearest place; one out of range at lookup i is noted. */
FN int64_t lookup_place(const struct lookup_call *a, int k, int64_t i, int64_t v, bool *outside)
{
    int64_t room = a->index[k].room;
    bool huge = v < 0 && a->index[k].type == DT_uint64;
    int64_t place = v < 0 && !huge ? v + a->index[k].size : v;
    if (place < 0 || place > room) {
        note_outside(&a->noting, (uint64_t)(k * a->count + i), (uint64_t)v);
        *outside = true;
        place = place < 0 && !huge ? 0 : room;
    }
    return place;
}

FN struct lookup_at lookup_at(const struct lookup_call *a, int64_t i)
{
    struct places p = places_of(i, a->count, a->ndim, a->shape, 3, a->stride[0], LOOKUP_DIMS);
    struct lookup_at r = { p.at[LOOKUP_FAR], p.at[LOOKUP_NEAR], false };
    ROLLED
    for (int k = 0; k < a->n; k++) {
        int64_t at = p.at[LOOKUP_INDEX];
        if (k)
            at = places_of(i, a->count, a->ndim, a->shape, 1, a->stride[LOOKUP_INDEX + k], LOOKUP_DIMS).at[0];
        int64_t v = index_value(a->index[k].data, a->index[k].type, at);
        r.far += lookup_place(a, k, i, v, &r.outside) * a->index[k].step;
    }
    return r;
}

/* Where element i of a slice is, beside where the slice begins. */
FN struct lookup_at lookup_in_slice(const struct lookup_call *a, int64_t i)
{
    struct places p = places_of(i, a->slice, a->sdim, a->sshape, 2, a->sstride[0], LOOKUP_DIMS);
    struct lookup_at r = { p.at[LOOKUP_FAR], p.at[LOOKUP_NEAR], false };
    return r;
}

#endif
