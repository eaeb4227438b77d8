/* orthogonal.h: the arguments of orthogonal.cu. */
#ifndef MX_CUDA_KERNELS_ORTHOGONAL_H
#define MX_CUDA_KERNELS_ORTHOGONAL_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* A block has ORTHOGONAL_BYTES of shared memory for its matrices, and ORTHOGONAL_LINES rows or columns of all of them
 * at most. */
enum { ORTHOGONAL_BYTES = 56 << 10, ORTHOGONAL_LINES = 256 };
enum { ORTHOGONAL_THREADS = 256, ORTHOGONAL_LEAST = 64, ORTHOGONAL_SWEEPS = 40 };

/* enum svd_mode of ops/ops.h, and the pseudo-inverse. */
enum orthogonal_makes { ORTHOGONAL_VALUES, ORTHOGONAL_THIN, ORTHOGONAL_FULL, ORTHOGONAL_INVERSE };

struct orthogonal_call {
    void *y[3];
    const void *a;  /* row-major */
    void *v;        /* rotations so far, where shared memory has no room for them; else NULL */
    int64_t count;  /* matrices */
    int32_t m, n;   /* rows and columns of a */
    int32_t turned; /* worked on is the adjoint of a, which has as many rows as columns, or more */
    int32_t part;   /* enum linalg_part */
    int32_t makes;
    int32_t columns;        /* of the columns that are worked on, and made */
    int32_t pitch, v_pitch; /* from column to column */
    int32_t each;           /* elements in shared memory for a matrix */
    int32_t lanes, groups;  /* threads of a group, which has a column or a pair of them, and groups of a matrix */
    int32_t across;         /* eigh: groups side by side, a power of two */
    int32_t width;          /* matrices of a block */
};

#endif
