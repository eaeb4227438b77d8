/* sort.h: the arguments of sort.cu. */
#ifndef MX_CUDA_KERNELS_SORT_H
#define MX_CUDA_KERNELS_SORT_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* SORT_TILE: what a block sorts in shared memory. */
enum { SORT_TILE = 2048, SORT_THREADS = 256 };

/* Rows of n elements, as keys that order as they do and their places, padded to `width`, a power of two.  A bitonic
 * network: in its stage `stage` neighbours `apart` are put in order. */
struct sort_call {
    void *y;
    const void *x;
    uint64_t *keys; /* of rows that are no tile */
    uint32_t *places;
    int64_t n, rows, width, tile;
    int64_t stage, apart;
    int32_t type;   /* enum dtype */
    int32_t ranks;  /* results are places, and equal values keep their order; else values, -0 before 0 */
    int32_t begins; /* elements are read from x, and tiles sorted */
    int32_t ends;   /* results are written */
};

#endif
