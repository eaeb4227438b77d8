/* create.h: the arguments of create.cu. */
#ifndef MX_CUDA_KERNELS_CREATE_H
#define MX_CUDA_KERNELS_CREATE_H

#include "core/dtype.h"
#include "plan/series.h"

enum { CREATE_THREADS = 256, CREATE_EACH = 4 };

/* y[i] = the series' number i, made a `to`. */
struct series_args {
    void *y;
    int64_t n;
    int32_t to; /* enum dtype */
    struct series s;
};

/* n elements of `size` bytes in rows of m: `one` where the column is the row + k, else 0. */
struct gpu_diagonal_args {
    void *y;
    int64_t n, m, k;
    uint64_t one;
    int32_t size;
};

#endif
