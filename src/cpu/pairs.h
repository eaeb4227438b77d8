/* pairs.h: which matrices of two operands are multiplied with each other, grouped by the second. */
#ifndef MX_CPU_PAIRS_H
#define MX_CPU_PAIRS_H

#include "core/array.h"

struct pair_group {
    int64_t b, first, n; /* the matrix, and where in `order` its pairs are */
};

struct pairs {
    int64_t n;      /* matrices of the result */
    int64_t *a, *b; /* flat indices of the matrices that make it */
    int64_t *order; /* the pairs sorted by b, those of one matrix as they come */
    int64_t groups;
    struct pair_group *group;
    bool in_order; /* order is 0, 1, ... */
};

/* Every dimension but the last two is of the batch.  Both fill *p, to be freed, or return non-zero
 * after mx_fail. */
int pairs_of_batch(struct pairs *p, mx a, mx b); /* batches broadcast */
/* Indices of one shape and of integer types; negative ones count from the end, and those out of range stand for the
 * nearest matrix (core/outside.h). */
int pairs_of_indices(struct pairs *p, const char *op, mx a, mx b, mx lhs, mx rhs);
void pairs_free(struct pairs *p);

#endif
