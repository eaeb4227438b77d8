/* search.h: the arguments of search.cu. */
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

#endif
