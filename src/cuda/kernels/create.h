/* create.h: the arguments of create.cu. */
#ifndef MX_CUDA_KERNELS_CREATE_H
#define MX_CUDA_KERNELS_CREATE_H

#include "core/dtype.h"
#include "plan/series.h"

/* A block writes CREATE_ROUNDS pieces one after the other, 16 bytes a thread. */
enum { CREATE_THREADS = 256, CREATE_ROUNDS = 4 };

/* y[i] = the series' number i, made a `to`. */
struct series_args {
    void *y;
    int64_t n;
    int32_t to; /* enum dtype */
    struct series s;
};

/* n elements of `size` bytes, all 0 but for those of number i from begin to end, excluded, of which i + shift is a
 * multiple of the period: they are `one`.  step: the remainder of a piece's elements by the period. */
struct gpu_diagonal_args {
    void *y;
    int64_t n, begin, end;
    uint64_t one;
    uint32_t period, shift, step;
    int32_t size;
};

#endif
