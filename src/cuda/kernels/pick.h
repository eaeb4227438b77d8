/* pick.h: the arguments of pick.cu. */
#ifndef MX_CUDA_KERNELS_PICK_H
#define MX_CUDA_KERNELS_PICK_H

#include "cuda/kernels/note.h"

/* PICK_ORDER_*: threads of the block that puts pairs in order, most matrices, most pairs. */
enum {
    PICK_THREADS = 256,
    PICK_ARRAYS = 3,
    PICK_ORDER_THREADS = 1024,
    PICK_ORDER_GROUPS = 1024,
    PICK_ORDER_PAIRS = 8192
};

/* So many arrays of n indices of the type t, of so many matrices each: their numbers.  Index i of array k is place
 * k n + i where it is out of range. */
struct pick_args {
    struct {
        uint32_t *y;
        const void *index;
        int64_t matrices;
        int32_t t; /* enum dtype */
    } of[PICK_ARRAYS];
    int64_t n;
    int32_t arrays;
    struct noting noting;
};

/* Of two arrays: the numbers of the first, and pairs, by their numbers, so that those follow each other whose second is
 * the same; where those of each of the groups, the second's matrices, begin, times `each`, and where the last end. */
struct pick_order_args {
    struct pick_args pick;
    uint32_t *order;
    int64_t *bounds;
    int64_t each;
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
