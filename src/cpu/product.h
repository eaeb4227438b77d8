/* product.h: matrix products on the CPU, of any type, layout and number of them. */
#ifndef MX_CPU_PRODUCT_H
#define MX_CPU_PRODUCT_H

#include <stdint.h>

#include "core/dtype.h"

struct matrix {
    const void *p;  /* the first element */
    int64_t rs, cs; /* from row to row and column to column, in elements, any sign */
};

/* y = alpha a b + beta c for each element of a batch.  y is row-major without gaps, batches one
 * after another, and overlaps no operand. */
struct product {
    enum dtype t; /* of everything; half types are summed in float32 and rounded once, integers wrap */
    int64_t m, n, k;
    struct matrix a, b, c; /* c.p NULL: no such term */
    void *y;
    double alpha, beta; /* not for integers, which take alpha 1 and no c */
    int ndim;           /* the batch: its shape and, for each operand, its strides */
    const int *shape;
    const int64_t *sa, *sb, *sc;
};

/* Non-zero after mx_fail; nothing has been written then. */
int product_run(const struct product *q);

#endif
