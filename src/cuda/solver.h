/* solver.h: factors, singular values and eigenvalues of large matrices by cuSOLVER, where it is found and works. */
#ifndef MX_CUDA_SOLVER_H
#define MX_CUDA_SOLVER_H

#include <stdbool.h>

#include "cuda/gpu.h"
#include "ops/ops.h"

/* JACOBI: singular values by rotations; Q: QR's second step, which is tried along with it. */
enum solver_kind {
    SOLVER_EIGH,
    SOLVER_SVD,
    SOLVER_EIG,
    SOLVER_CHOLESKY,
    SOLVER_LU,
    SOLVER_QR,
    SOLVER_JACOBI,
    SOLVER_KINDS,
    SOLVER_Q = SOLVER_KINDS
};
/* Does it do these on a GPU?  It is tried when that is first asked. */
bool solver_works(enum solver_kind kind, int gpu);
/* Of x, which is row-major and not empty, as the operations have it; who asked, for messages. */
int solver_eigh(const struct run *r, mx x, void *const y[3]);
int solver_svd(const struct run *r, mx x, enum svd_mode mode, void *const y[3], const char *asker);

/* Is cuSOLVER the faster one for so many matrices of these sizes, of more than LINALG_SIZE rows or columns?  It counts
 * elements in an int: of a system whose right side is wider than its matrix, n is that one's. */
bool solver_takes(enum solver_kind kind, const struct run *r, int64_t count, int m, int n);
/* The same as panels_ have it (linalg.h), which they go to where something is not finite. */
struct lu_call;
int solver_cholesky(const struct run *r, mx x, unsigned part); /* enum matrix_part */
int solver_solve(const struct run *r, const mx x[2]);
int solver_lu(const struct run *r, const struct lu_call *l);
int solver_qr(const struct run *r, mx x);

#endif
