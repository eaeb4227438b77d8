/* hadamard.h: the arguments of hadamard.cu. */
#ifndef MX_CUDA_KERNELS_HADAMARD_H
#define MX_CUDA_KERNELS_HADAMARD_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* HADAMARD_BYTES: of a row in shared memory, in the type that is computed in. */
enum { HADAMARD_THREADS = 256, HADAMARD_BYTES = 32768, HADAMARD_ODD = 28, HADAMARD_RADIX = 16 };

/* Rows of n = m run, of which `run` is a power of two; sign[i], bit j: element (i, j) of the matrix of size m is 1. */
struct hadamard_call {
    void *y;
    const void *x;
    int32_t n, m, run;
    double scale;
    uint32_t sign[HADAMARD_ODD];
};

/* Rows that shared memory does not hold, in steps: pieces of them, then `radix` numbers that are 2^shift apart, then
 * the m runs of 2^shift. */
struct hadamard_step {
    void *y;
    const void *x;
    int64_t n; /* groups of numbers */
    int32_t piece, radix, shift, m;
    double scale;
    uint32_t sign[HADAMARD_ODD];
};

#endif
