/* blas.h: products of matrices by cuBLASLt, where it is found and works. */
#ifndef MX_CUDA_BLAS_H
#define MX_CUDA_BLAS_H

#include <stdbool.h>

#include "cuda/gpu.h"
#include "plan/product.h"

enum blas_outcome { BLAS_DONE, BLAS_FAILED, BLAS_DECLINED };

/* What is multiplied: y = alpha a b, plus beta c where there are three operands; the larger of that and 0, if asked. */
struct blas_terms {
    double alpha, beta;
    bool relu;
};

/* Queues the product, whose y has memory.  Declined: it is not there, or not for such types, sizes or layouts; nothing
 * is queued then. */
enum blas_outcome gpu_blas_product(const struct run *r, const struct product_plan *p, const mx x[],
                                   const struct blas_terms *terms);
/* Has it done a product?  Opens nothing. */
bool gpu_blas_multiplies(void);
/* Is it used there?  It is tried when that is first asked. */
bool blas_works(const struct gpu *g);

#endif
