/* rows.h: the arguments of rows.cu, and of norms elsewhere. */
#ifndef MX_CUDA_KERNELS_ROWS_H
#define MX_CUDA_KERNELS_ROWS_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* ROWS_HELD: elements that a thread keeps, of rows that a block of ROWS_THREADS can keep so, or of ROWS_WIDE_THREADS;
 * ROWS_FEW: of those that a warp can keep with so few. */
enum { ROWS_THREADS = 256, ROWS_WIDE_THREADS = 1024, ROWS_HELD = 32, ROWS_FEW = 8 };

/* Of a piece of a row: its largest element, and the sum of e to the power of how much each is below that. */
struct rows_part {
    double most, sum;
};

/* Rows of n elements without gaps.  A block's threads are `width` teams of `team`, a power of two, each of which has
 * one row. */
struct rows_args {
    void *y, *more; /* more: the second result of logsumexp_parts */
    const void *x;
    const void *v;             /* norm_tangent: changes of x */
    const void *weight, *bias; /* of a norm, or NULL */
    int64_t rows, n;
    double eps;
    int32_t team, width;
    struct rows_part *parts; /* of long rows: of each row's `pieces` of ROWS_HELD * ROWS_THREADS elements */
    int64_t pieces;
    int32_t centered; /* layer_norm; else rms_norm */
    int32_t whole;    /* n is a multiple of LANES, and all is aligned to 16 bytes */
    int32_t early;    /* as of vector_norm */
};

/* The largest norm that blocks make which multiply it with matrices (vector_norm.h). */
enum { VECTOR_NORM_BYTES = 16384 };

/* The vector is the norm of x, and is written to y, where it belongs; y NULL: it is there. */
struct vector_norm {
    void *y;
    const void *x, *weight, *bias; /* weight, bias: NULL: none */
    double eps;
    int32_t centered, team;
    int32_t early; /* weight and bias were there before the kernel ahead was launched */
};

#endif
