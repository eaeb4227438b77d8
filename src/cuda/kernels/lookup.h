/* lookup.h: the arguments of lookup.cu, for the kernels and for who launches them: a plan of plan/lookup.h. */
#ifndef MX_CUDA_KERNELS_LOOKUP_H
#define MX_CUDA_KERNELS_LOOKUP_H

#include "core/dtype.h"
#include "cuda/kernels/note.h"

enum { LOOKUP_THREADS = 256, LOOKUP_EACH = 4, LOOKUP_DIMS = 8, LOOKUP_FAR = 0, LOOKUP_NEAR, LOOKUP_INDEX };

/* Strides are in elements of what is moved, which may be several of the arrays'.  A block's threads are `width` teams
 * of `team`, each at a lookup at a time. */
struct lookup_call {
    void *far, *near;
    int64_t count, slice; /* lookups, and elements of each */
    int32_t ndim, sdim;
    uint32_t shape[LOOKUP_DIMS], sshape[LOOKUP_DIMS];
    int64_t stride[LOOKUP_INDEX + NOTE_INDICES][LOOKUP_DIMS], sstride[LOOKUP_INDEX][LOOKUP_DIMS];
    int32_t n; /* index arrays */
    struct {
        const void *data;
        int32_t type; /* enum dtype */
        int64_t size, room, step;
    } index[NOTE_INDICES];
    int32_t writes;                        /* near is put into far, not far into near */
    int32_t nothing;                       /* what is out of range stands for nothing, not for the nearest */
    int32_t team, width;                   /* powers of two */
    int32_t next_lookup, next_element;     /* what a thread goes on to: one of them is 0 */
    int64_t block_lookups, block_elements; /* of a block */
    int64_t pieces;                        /* blocks along a slice */
    struct noting noting;
};

#endif
