/* solver_problem.h: a matrix as cuSOLVER has it, along columns, and those of a batch: how solver_factors.c calls it
 * through solver.c. */
#ifndef MX_CUDA_SOLVER_PROBLEM_H
#define MX_CUDA_SOLVER_PROBLEM_H

#include "cuda/cusolver.h"
#include "cuda/linalg.h"
#include "cuda/solver.h"

struct problem {
    enum solver_kind kind;
    int type, real; /* of the matrix, and of what is real */
    int vectors;
    int thin;                  /* Jacobi: no more vectors than values */
    int triangle;              /* eigh, Cholesky */
    signed char job[2];        /* svd: of u, of vt */
    int64_t m, n;              /* eigh, eig, Cholesky: n alone */
    int64_t k;                 /* LU: columns of a system's right side; 0: there is none */
    void *a, *values, *u, *vt; /* eig: u are the vectors; Jacobi: vt are v; QR: values scale reflections; LU: values
                                * are pivots, u the right side */
    int64_t lda, ldu, ldvt;
    int *info;       /* on the device: not 0 where it does not converge, or there is no such factor */
    int *other_info; /* LU: of the system, which says nothing */
};

/* Workspaces. */
struct room {
    void *device, *host;
    size_t bytes, host_bytes;
    int elements; /* of the functions that are told in elements */
    void *jacobi; /* its parameters */
};

/* From each matrix of a batch to the next, in bytes, of what a problem has. */
struct steps {
    int64_t a, values, u, vt;
};

void solver_types(struct problem *p, enum dtype t);
/* Workspaces for a problem, which work_end and solver_leave let go of: 0, or after mx_fail 1. */
int solver_enter(struct work *w, const struct problem *p, struct room *o, const char *asker);
/* Queues all of a batch, one after the other, but those of which odd says something (NULL: none). */
int solver_queue(const struct work *w, struct problem p, const struct steps *by, const int *odd, const struct room *o,
                 const char *asker);
/* Behind what is queued: reads flags of all matrices, w->odd or w->nan.  NULL after mx_fail; for free(). */
int *solver_flags(const struct work *w, const int32_t *from, int64_t n);
void solver_leave(struct room *o);

#endif
