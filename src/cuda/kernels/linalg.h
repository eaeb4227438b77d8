/* linalg.h: the arguments of linalg.cu. */
#ifndef MX_CUDA_KERNELS_LINALG_H
#define MX_CUDA_KERNELS_LINALG_H

#include "cuda/kernels/note.h"

/* LINALG_SIZE: rows and columns of matrices at most; a block has LINALG_BYTES of shared memory for its matrices, of
 * which it has LINALG_MATRICES at most, and LINALG_ROWS of all of them. */
enum { LINALG_SIZE = 64, LINALG_BYTES = 56 << 10, LINALG_MATRICES = 64, LINALG_ROWS = 256 };
enum { LINALG_THREADS = 256, LINALG_LEAST = 64 };
/* Threads of a block whose matrices are in registers, and of one that has a single matrix, a row for each; columns of a
 * right side that are read as they lie. */
enum { LINALG_LANES = 128, LINALG_PAIR = 64, LINALG_FEW = 4 };

enum linalg_part { LINALG_ALL, LINALG_LOWER, LINALG_UPPER }; /* enum matrix_part of ops/linalg.h */
enum linalg_makes { LINALG_FACTORS, LINALG_DET, LINALG_SLOGDET };

struct linalg_call {
    void *y[3];
    const void *a, *b;                                         /* b NULL: the identity */
    int64_t a_row, a_matrix, b_row, b_matrix, y_row, y_matrix; /* from row to row, from matrix to matrix; of y[0] */
    int64_t count;                                             /* matrices */
    int32_t m, n, k;                                           /* rows and columns of a, columns of b */
    int32_t part, makes;
    int32_t conjugated; /* a solution is its conjugate */
    /* For parts of larger matrices: not 0 where one has something that is not finite, and what becomes not 0 where that
     * cannot be done then; NULL: a is all there is. */
    const int32_t *odd;
    int32_t *nan;
    int32_t tile, tiles;  /* columns of b that a block has of each matrix, and how many such there are */
    int32_t pitch;        /* from row to row in shared memory */
    int32_t team, width;  /* threads of a matrix, a power of two; matrices of a block */
    int32_t across;       /* of the team: threads along a row, a power of two, */
    int32_t beside;       /* and along one of the right side */
    struct noting noting; /* of the first matrix that fails */
};

#endif
