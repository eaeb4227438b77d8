/* linalg.h: what the files of linear algebra share, and the arguments that kernels read.
 *
 * Every node works on the last two axes of its operands and keeps those before them as a batch, so
 * one vmap rule serves all.  Operands are float32, float64 or complex64; the builders see to it. */
#ifndef MX_OPS_LINALG_H
#define MX_OPS_LINALG_H

#include "ops/op.h"
#include "ops/ops.h"

enum matrix_part { PART_ALL, PART_LOWER, PART_UPPER };

/* Which triangle of the operand is read (inverse: or all of it) and, of a factor, made. */
struct part_args {
    unsigned part; /* enum matrix_part */
    bool factor;   /* inverse: it was cholesky_inv that asked, for messages */
};

struct svd_args {
    unsigned mode; /* enum svd_mode */
};

struct eigh_args {
    unsigned part; /* enum matrix_part */
    bool vectors;
};

struct eig_args {
    bool vectors;
};

/* ---- for builders */

/* x made fit for a factorization: at least two axes, integers as float32.  False after a failure. */
bool linalg_matrix(const char *name, mx *x);
bool linalg_square(const char *name, mx *x);
/* shape = x's batch axes, then more sizes. */
int linalg_spec(struct spec *out, enum dtype t, mx x, int n, const int *sizes);
enum dtype linalg_real(enum dtype t);

/* ---- for rules */

/* In shape rules: fails where the matrices are not square. */
bool linalg_square_in(const struct call *c, mx x);
/* For .fits: are the operands matrices, of one type that there are kernels for? */
bool linalg_fits(const struct call *c);
/* x, of a graph that serves matrices of its sizes alone, in batches of any: for what is done by sizes. */
mx linalg_sized(mx x);
void linalg_vmap(const struct call *c, const int axis[], mx y[], int yaxis[]);

mx linalg_adjoint(mx x);
mx linalg_times(mx a, mx b, mx c);
/* Columns (rows) of x times the entries of a vector. */
mx linalg_columns(mx x, mx v);
mx linalg_rows(mx x, mx v);
/* A square matrix with zeros but for this diagonal. */
mx linalg_diagonal(mx v);
/* The triangle of x that is read, and the diagonal, as a function of it: (x + x^H) / 2 from the
 * triangle alone, and the adjoint of that. */
mx linalg_hermitian(mx x, enum matrix_part part);
mx linalg_hermitian_adjoint(mx x, enum matrix_part part);
/* x in the triangle, zero elsewhere. */
mx linalg_part(mx x, enum matrix_part part);
/* 1 / x, or 0 where x is 0. */
mx linalg_reciprocal(mx x);
/* 1 / (v_j - v_i), or 0 where they are equal. */
mx linalg_differences(mx v);
/* A sum in which NULL counts as zero. */
mx linalg_sum(mx a, mx b);
/* x[..., a:b, c:d] */
mx linalg_block(mx x, int a, int b, int c, int d);

#endif
