/* special_products.h: the arguments that kernels read. */
#ifndef MX_OPS_SPECIAL_PRODUCTS_H
#define MX_OPS_SPECIAL_PRODUCTS_H

#include "ops/rules.h"

/* gather_mm: was it gather_qqmm that asked?  For messages. */
struct gather_mm_args {
    bool quantized;
};
mx mx_gather_mm_for(bool quantized, mx a, mx b, mx lhs, mx rhs);
/* scatter_mm: the batch dimensions of the result. */
struct scatter_mm_args {
    struct ints batch;
};
struct hadamard_args {
    double scale;
    bool transposed;
};

/* The part of the Hadamard matrix of this size that is not a power of two: 1, 12, 20 or 28; 0 where
 * there is no such matrix. */
int hadamard_odd(int64_t n);
/* Its element (i, j), 1 or -1; m is what hadamard_odd gives. */
int hadamard_sign(int m, int i, int j);

#endif
