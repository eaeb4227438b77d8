/* solver.h: singular values and eigenvalues of large matrices by cuSOLVER, where it is found and works. */
#ifndef MX_CUDA_SOLVER_H
#define MX_CUDA_SOLVER_H

#include <stdbool.h>

#include "cuda/gpu.h"
#include "ops/ops.h"

enum solver_kind { SOLVER_EIGH, SOLVER_SVD, SOLVER_EIG, SOLVER_KINDS };
/* Does it do these on a GPU?  It is tried when that is first asked. */
bool solver_works(enum solver_kind kind, int gpu);
/* Of x, which is row-major and not empty, as the operations have it; who asked, for messages. */
int solver_eigh(const struct run *r, mx x, void *const y[3]);
int solver_svd(const struct run *r, mx x, enum svd_mode mode, void *const y[3], const char *asker);

#endif
