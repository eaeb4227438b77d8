/* linalg.h: what runners of linear algebra share: matrices in shared memory (linalg.c), larger ones (panels.c). */
#ifndef MX_CUDA_LINALG_H
#define MX_CUDA_LINALG_H

#include "cuda/gpu.h"
#include "cuda/kernels/linalg.h"
#include "plan/factor.h"

/* Matrices that shared memory holds. */
bool gpu_takes_small_matrices(const struct node *n);

enum linalg_kernel { LINALG_SOLVE, LINALG_CHOLESKY, LINALG_LU, LINALG_KERNELS };
/* Queues one of the kernels over c->count matrices, or parts of such, that shared memory holds: all but how they are
 * laid out in a block is said. */
int linalg_launch(const struct run *r, enum linalg_kernel k, enum dtype t, struct linalg_call *c);
/* What is to be noted of matrices that cannot be factored, and whether there was one: non-zero after mx_fail. */
int linalg_noting(const struct run *r, struct noting *t, enum factor_fault fault);
int linalg_noted(const struct run *r);

/* Work on all matrices of a batch, in the type t. */
struct part_call;
struct eigen_call;
struct weigh_call;
struct finish_call;
struct pivots_call;
struct work {
    const struct run *r;
    enum dtype t;
    int64_t size, count; /* of an element; matrices */
    struct noting noting;
    int32_t *odd, *nan; /* for each matrix, 0 in the beginning, as kernels have them; NULL: none */
    struct buffer *held[8];
    int nheld;
};
int work_begin(struct work *w, const struct run *r, mx x, bool flags);
int work_flags(struct work *w); /* the flags alone, of one whose other members are set */
/* Lets go of what it held; returns `failed`. */
int work_end(struct work *w, int failed);
/* Memory until then; NULL after mx_fail. */
void *work_hold(struct work *w, int64_t bytes);
/* Copies a part of each matrix (kernels/panels.h). */
int work_copy(const struct work *w, struct part_call c);
int work_eigen(const struct work *w, struct eigen_call c);
int work_pivots(struct work *w, struct pivots_call c);
int work_weigh(const struct work *w, struct weigh_call c);
int work_finish(const struct work *w, struct finish_call c);
static inline void *work_at(const struct work *w, const void *p, int64_t elements)
{
    return (char *)p + elements * w->size;
}

/* Of matrices of any size.  x: the operands, row-major, of which there are some; y has memory. */
int panels_solve(const struct run *r, const mx x[2], enum linalg_part part);
int panels_cholesky(const struct run *r, mx x, enum linalg_part part);
int panels_qr(const struct run *r, mx x);
struct lu_call {
    enum dtype t;
    int64_t count;
    const void *a;
    void *y[3];
    int m, n;
    enum linalg_makes makes;
};
int panels_lu(const struct run *r, const struct lu_call *l);
/* The same of matrices that are held, too. */
int linalg_lu(const struct run *r, const struct lu_call *l);

#endif
