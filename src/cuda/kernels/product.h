/* product.h: the arguments of product.cu. */
#ifndef MX_CUDA_KERNELS_PRODUCT_H
#define MX_CUDA_KERNELS_PRODUCT_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

#include "cuda/kernels/rows.h"
#include "cuda/kernels/vector_turns.h"

/* A block makes a tile of that many rows and columns; pieces of k are multiples of PRODUCT_STEP. */
enum { PRODUCT_LARGE = 128, PRODUCT_SMALL = 64, PRODUCT_STEP = 32, PRODUCT_DIMS = 8 };
/* Threads of a block; of tiles of half types, whose warps multiply matrices where they can. */
enum { PRODUCT_THREADS = 256, PRODUCT_THREADS_HALF = 128, PRODUCT_THREADS_TALL = 256 };
/* Lines that a block multiplies with a vector at once, and its threads. */
enum { PRODUCT_LINES = 4, PRODUCT_LINE_THREADS = 128 };
/* Large products of half types: two tiles of PRODUCT_LARGE, one below the other, share what they need of b; so many
 * stretches are in shared memory. */
enum { PRODUCT_TALL = 2 * PRODUCT_LARGE, PRODUCT_TALL_STAGES = 4 };
#define PRODUCT_TALL_BYTES (PRODUCT_TALL_STAGES * 3 * PRODUCT_LARGE * PRODUCT_STEP * 2)

/* Large products of float32 by TF32: how much of k is in shared memory, so many times; an operand's part is the larger
 * of PRODUCT_LARGE lines of PRODUCT_SPLIT_DEPTH + 4 and as many depths of PRODUCT_LARGE + 8. */
enum { PRODUCT_SPLIT_DEPTH = 16, PRODUCT_SPLIT_STAGES = 4 };
#define PRODUCT_SPLIT_BYTES (PRODUCT_SPLIT_STAGES * 2 * PRODUCT_LARGE * (PRODUCT_SPLIT_DEPTH + 4) * 4)

/* What groups of warps multiply on devices of 9.0: a block's tile, and places of steps in shared memory. */
enum { PRODUCT_GROUP_ROWS = 128, PRODUCT_GROUP_COLUMNS = 256, PRODUCT_GROUP_STAGES = 4, PRODUCT_GROUP_THREADS = 384 };
#define PRODUCT_GROUP_BYTES (PRODUCT_GROUP_STAGES * (PRODUCT_GROUP_ROWS + PRODUCT_GROUP_COLUMNS) * 128 + 1024)

/* The same of float32 by TF32 (split_groups.inc): a block's rows; shared memory, with what a panel may have to skip to
 * begin at a multiple of 1,024. */
enum { SPLIT_GROUP_ROWS = 128, SPLIT_GROUP_THREADS = 512 };
#define SPLIT_GROUP_BYTES ((192 << 10) + 1024)

/* The lines of an operand run along k: the rows of a, the columns of b.  Steps are in elements, of any sign. */
struct product_operand {
    const void *p;
    int64_t line, depth; /* from a line to the next, and along it */
    int32_t vectors;     /* LANES neighbours are read at once: sizes, steps and addresses allow it */
    int32_t across;      /* neighbours in memory are of different lines; else they follow along one */
};

/* y = alpha a b + beta c for each product of a batch; c may be missing. */
struct product_args {
    void *y;
    int64_t y_row, y_matrix; /* from row to row, whose elements are neighbours, and from matrix to matrix */
    int32_t together;        /* without gaps */
    void *partial;           /* where there are several pieces: the sums of each, after one another */
    struct product_operand a, b;
    const void *c;
    int64_t c_row, c_column;
    double alpha, beta;
    int64_t m, n, k;
    int64_t piece, pieces, batches; /* k is cut into pieces of so many, which different blocks take */
    int64_t down, across;           /* tiles of a product */
    int64_t batch[3][PRODUCT_DIMS]; /* strides of a, b and c along the batch, in elements */
    uint32_t shape[PRODUCT_DIMS];   /* of the batch, the outermost first */
    int32_t ndim;
    /* Of a's and b's matrices, for each place of the batch; NULL: they are walked.  Where there is `order`, of a's for
     * each pair; NULL: they are in that order. */
    const uint32_t *number[2];
    /* From bounds[i bound_step] to the next k is summed up at place i of the batch; NULL: all of it.  Or, where there
     * is `order`, so many groups of rows begin there, of a and of y, each of which meets a matrix of b of its own, and
     * each `each` of them are a matrix, number order[i] of the result. */
    const int64_t *bounds;
    int32_t bound_step;
    const uint32_t *order;
    int64_t groups, each;
    int32_t outer;   /* y's rows are those of a's turned, and the groups, which bounds cut, are summed up */
    int32_t scaled;  /* alpha is not 1, or there is c */
    int32_t fours;   /* rows of y and of sums begin at multiples of four elements, and are such */
    int32_t plain;   /* that too, and sums are results, where they are */
    int32_t rounded; /* float32 may leave out bits (MLX_ENABLE_TF32=1), of what is split */
    /* A matrix times a vector: how many threads share a line, or have lines side by side, and how many such teams a
     * block has. */
    int32_t team, width;
    uint32_t *arrived; /* of lines side by side: zeros, a count for each block's of each matrix; NULL: nobody merges */
};

/* A vector with lines of several matrices (product_lines): those of one, which groups of PRODUCT_LINES `first` and up
 * have.  Steps are in elements.  Two that are `gated` have half of each group: one result, silu of the first's, rounded
 * once and once more, times the second's, is of both. */
enum { PRODUCT_MATRICES = 4, PRODUCT_LINE_BLOCKS = 6, PRODUCT_TURNED_BLOCKS = 5 };
struct product_lines {
    void *y;
    const void *x, *c; /* c: NULL, or what is added */
    int64_t m, line, y_row, c_row;
    int64_t first;
};
struct product_lines_args {
    struct product_lines of[PRODUCT_MATRICES];
    int32_t n;
    int32_t rounded; /* sums are results, to which c is added, else alpha times sums and beta times c are */
    int32_t gated;
    int32_t early; /* all lines were there before the kernel ahead was launched */
    const void *v;
    int64_t k, groups; /* groups: of all matrices; blocks are as many or, for a norm, fewer */
    double alpha, beta;
    struct vector_norm norm;
};

struct product_turned_args {
    struct product_lines_args l;
    struct vector_turns t;
};

/* Rows of matrices of a batch, in memory as they are read, which are copied to begin at multiples of 16 bytes: `step`
 * elements from one to the next, zeros behind those that there are. */
struct product_row_args {
    void *to;
    const void *from;
    int64_t rows, columns, step;
    int64_t row, column; /* of `from`, from one to the next */
    int64_t batches, batch[PRODUCT_DIMS];
    uint32_t shape[PRODUCT_DIMS];
    int32_t ndim;
};

#endif
