/* order.h: the arguments of order.cu. */
#ifndef MX_CUDA_KERNELS_ORDER_H
#define MX_CUDA_KERNELS_ORDER_H

#include "cuda/kernels/lookup.h"

/* A tile of keys is a block's; FEW keys are put in order by comparing each with each. */
enum { ORDER_THREADS = 256, ORDER_EACH = 16, ORDER_TILE = ORDER_THREADS * ORDER_EACH, ORDER_FEW = 2048 };
enum { ORDER_BITS = 8, ORDER_DIGITS = 1 << ORDER_BITS, ORDER_CHUNK = 64 };
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

/* A pass: keys, each with a number, in the order of the digit that begins at bit `bit`; equal ones keep theirs. */
struct order_call {
    const uint32_t *key, *number; /* number NULL: 0, 1, ... */
    uint32_t *to_key, *to_number;
    uint32_t *counts; /* in each tile, of each digit */
    uint32_t *sums;   /* the same in each ORDER_CHUNK tiles; then where the first of them goes */
    int64_t n, tiles;
    int32_t bit;
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
