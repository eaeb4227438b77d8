/* order.h: the arguments of order.cu. */
#ifndef MX_CUDA_KERNELS_ORDER_H
#define MX_CUDA_KERNELS_ORDER_H

#include "cuda/kernels/lookup.h"

enum { ORDER_THREADS = 256 };
#define ORDER_NONE 0xffffffffu /* the key of an update that is left out; more than any other */

/* Where each update goes: the offset of its slice in `far`, without the bits that are 0 in all; elements: each element
 * of a slice counts as an update. */
struct keys_call {
    struct lookup_call lookup;
    uint32_t *key; /* NULL: indices are only looked at */
    int64_t n;
    int32_t shift, elements;
    int32_t drops; /* those out of range are left out */
};

/* As enum scatter_fold (ops/ops.h). */
enum update { UPDATE_SET, UPDATE_ADD, UPDATE_PROD, UPDATE_MAX, UPDATE_MIN };

/* Updates in the order of where they go, and among those that go to one place in their own: the thread that meets the
 * first of these folds all of them. */
struct fold_call {
    struct lookup_call lookup;
    const uint32_t *key, *number; /* NULL where there is one */
    int64_t n;
    int32_t shift, elements;
    int32_t fold;  /* enum update */
    int32_t lanes; /* numbers in what the lookup calls an element: 1 or 16 bytes of them */
};

#endif
