/* pick.h: the arguments of pick.cu. */
#ifndef MX_CUDA_KERNELS_PICK_H
#define MX_CUDA_KERNELS_PICK_H

#include "cuda/kernels/note.h"

enum { PICK_THREADS = 256 };

/* n indices of the type t, of so many matrices: their numbers.  Index i is place `before` + i where it is out of
 * range. */
struct pick_args {
    uint32_t *y;
    const void *index;
    int64_t n, before, matrices;
    int32_t t; /* enum dtype */
    struct noting noting;
};

/* n segments of what has k elements, each two numbers of the type t. */
struct segments_args {
    int64_t *y;
    const void *x;
    int64_t n, k;
    int32_t t;
    struct noting noting;
};

/* n keys in order, each `each` elements: where those of each value below `groups` begin, and where the last end. */
struct bounds_args {
    int64_t *y;
    const uint32_t *key;
    int64_t n, groups, each;
};

#endif
