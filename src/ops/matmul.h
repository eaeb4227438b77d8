/* matmul.h: the arguments that kernels read. */
#ifndef MX_OPS_MATMUL_H
#define MX_OPS_MATMUL_H

#include <stdbool.h>

/* The axes that a product does not have whose first operand was one row, or whose second one column;
 * gives their number. */
static inline int vector_axes(bool row, bool column, int axes[2])
{
    int n = 0;
    if (row)
        axes[n++] = -2;
    if (column)
        axes[n++] = -1;
    return n;
}

/* alpha a b + beta c */
struct addmm_args {
    double alpha, beta;
};

#endif
