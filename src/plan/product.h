/* product.h: a batch of products of matrices, by its strides. */
#ifndef MX_PLAN_PRODUCT_H
#define MX_PLAN_PRODUCT_H

#include "core/array.h"

/* From row to row and from column to column, in elements, any sign: a transposed operand has rows that are 1 apart. */
struct product_steps {
    int64_t row, column;
};

/* m by k times k by n, and perhaps plus m by n, for each place of a batch.  The result is row-major. */
struct product_plan {
    int64_t m, n, k;
    struct product_steps steps[3]; /* of a, b and c within a matrix */
    int ndim, shape[MX_MAX_NDIM];
    int64_t batch[3][MX_MAX_NDIM]; /* strides of a, b and c along the batch */
};

/* Of 2 or 3 operands of as many dimensions, broadcast already.  Dimensions of the batch that all of them walk as one
 * are one. */
void product_plan_of(struct product_plan *p, int n, const mx x[]);

#endif
