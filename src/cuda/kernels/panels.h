/* panels.h: the arguments of panels.cu. */
#ifndef MX_CUDA_KERNELS_PANELS_H
#define MX_CUDA_KERNELS_PANELS_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

/* PANEL: columns that are eliminated at once, by PANEL_THREADS at most.  A block of cu_part has PANEL_ALONG columns and
 * PANEL_DOWN rows, one of cu_exchange PANEL_EXCHANGED columns; an order of up to PANEL_ORDER rows is kept in shared
 * memory. */
enum {
    PANEL = 32,
    PANEL_THREADS = 1024,
    PANEL_ALONG = 256,
    PANEL_DOWN = 16,
    PANEL_EXCHANGED = 128,
    PANEL_ORDER = 8192
};

/* y = x in a triangle (enum linalg_part), and zeros beside it; the identity where there is no x. */
enum part_turned { PART_AS_IT_IS, PART_CONJUGATE, PART_TRANSPOSED, PART_ADJOINT };
struct part_call {
    void *y, *x; /* y NULL: nothing is written */
    int64_t y_row, y_matrix, x_row, x_matrix;
    int32_t *odd;       /* of each matrix: becomes 1 where something that is read is not finite; NULL: not asked */
    const int32_t *nan; /* of each matrix: not 0 where all of it becomes NaN; NULL: none */
    int32_t rows, columns, part, turned; /* of y */
    int32_t conjugated;                  /* x becomes its conjugate afterwards */
    int32_t down, across;                /* blocks of a matrix below one another, and side by side */
};
struct clear_call {
    int32_t *p;
    int64_t n;
};

/* Columns from `first` on of matrices of m rows, of which rows from `first` on are eliminated; w columns take part in
 * the exchanges of rows. */
struct panel_call {
    void *x;
    int64_t row, matrix;
    void *panel;    /* these columns, as rows of m, turned; of reflections k rows for each matrix */
    void *t;        /* of reflections: how those of a panel go together, and the adjoint; 2 k rows of PANEL */
    int32_t *swaps; /* k for each matrix: which row each was exchanged with */
    int32_t m, w, k, first, columns;
    int32_t across; /* blocks of a matrix */
};

/* What exchanges come to: the order of m rows, or a determinant. */
struct pivots_call {
    void *y[3];
    const void *x;
    int64_t row, matrix;
    const int32_t *swaps;
    int32_t *order;      /* m for each matrix, where they are more than PANEL_ORDER */
    int32_t m, k, makes; /* enum linalg_makes */
    int32_t from;        /* the first row's number in swaps */
};

/* Eigenvalues, or vectors in columns, as complex64 in rows: values are complex, of real matrices too, whose vectors are
 * real and imaginary part of the first of a pair. */
struct eigen_call {
    void *y;
    const void *values, *vectors; /* vectors NULL: y are the values */
    const int32_t *nan;           /* of each matrix: not 0 where all of it becomes NaN */
    int32_t n;
    int32_t down, across; /* blocks of a matrix below one another, and side by side */
};

/* Column c of x, m by k, times what belongs to singular value c: its inverse, 0 where that is next to nothing; or the
 * product of all others. */
struct weigh_call {
    void *x;
    const void *values;
    int32_t m, k, n; /* n: the other size of the matrix */
    int32_t others;
};
/* The conjugate of each number of y times the two of its matrix; `each` of them belong to one. */
struct finish_call {
    void *y;
    const void *first, *second;
    int64_t each, n;
};

#endif
