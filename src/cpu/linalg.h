/* linalg.h: one factorization of many matrices, as LAPACK sees it.
 *
 * LAPACK takes matrices by columns; ours lie by rows, so to it they are transposed.  Most
 * factorizations of A^T are those of A under other names, and nothing needs to be turned. */
#ifndef MX_CPU_LINALG_H
#define MX_CPU_LINALG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Scratch memory: with p NULL it is only measured. */
struct scratch {
    char *p;
    size_t used;
};

struct linalg_job;
/* Works on matrix i; non-zero where that cannot be done (it is singular, say).  Called first with
 * empty scratch, to find the sizes of workspaces (into the job) and of the scratch. */
typedef int linalg_fn(struct linalg_job *j, int64_t i, struct scratch *s);

/* The same for matrices i to i + count, of FACTOR_MOST rows and columns at most, and no more of them than
 * kernels/factor.h takes; the first one that cannot be done, or -1. */
typedef int64_t small_fn(struct linalg_job *j, int64_t i, int count);

struct linalg_job {
    linalg_fn *one;
    small_fn *small; /* NULL: there is none for the type */
    int m, n, k;     /* rows, columns; the smaller of them, or the columns of the right side */
    unsigned mode;   /* the op's argument: a part or an svd_mode */
    bool vectors;
    int64_t count; /* of matrices, and how many `small` takes at once */
    int lanes;
    const char *a, *b;
    char *y[3];
    size_t a_size, b_size, y_size[3]; /* bytes from one matrix to the next */
    int lwork, lrwork, liwork;
    bool shares; /* set with the sizes: one matrix is work for several threads */
    size_t scratch;
    atomic_llong failed; /* the first matrix that failed */
    atomic_bool no_memory;
};

/* For each type: float32, float64, complex64. */
struct lapack {
    linalg_fn *inverse, *solve, *det, *cofactor, *slogdet, *pinv, *cholesky, *qr, *lu, *svd, *eigh, *eig;
    struct {
        small_fn *inverse, *solve, *det, *slogdet, *cholesky, *lu;
    } small;
};
extern const struct lapack lapack_f32, lapack_f64, lapack_c64;

/* Within a linalg_fn: calls fn(ctx, i) for i in 0..n, on several threads.  Number 0 is done by the calling one, and may
 * call LAPACK; the others must not, but for what works in its arguments alone. */
void linalg_share(int64_t n, void (*fn)(void *ctx, int64_t i), void *ctx);

/* Finds LAPACK's functions in an opened library, before any of them is called, and has it make its first buffer; are
 * they all there? */
bool lapack_open(void *library);

#endif
