/* search.h: the arguments of search.cu, and of nonzero.cu. */
#ifndef MX_CUDA_KERNELS_SEARCH_H
#define MX_CUDA_KERNELS_SEARCH_H

#include "core/dtype.h"

enum { SEARCH_THREADS = 256 };

/* y[i] = how many of n sorted values of the sequence x[i / each * n] are below v[i], or with `right` not above it. */
struct search_call {
    uint32_t *y;
    const void *x, *v;
    int64_t n, count, each;
    int32_t type, right; /* type: enum dtype */
};

/* The places of the bytes of x that are not 0, at most `count`, in y: rows of as many numbers, for each dimension one.
 * before: how many there are in each tile; then before it, and at last in all. */
enum { NONZERO_EACH = 16, NONZERO_TILE = SEARCH_THREADS * NONZERO_EACH, NONZERO_DIMS = 64 };
struct nonzero_call {
    int32_t *y;
    const uint8_t *x;
    uint32_t *before;
    int64_t n, count, tiles;
    int32_t ndim;
    uint32_t shape[NONZERO_DIMS];
};

#endif
