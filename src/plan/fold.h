/* fold.h: which axes of an array a reduction folds, and how they lie in memory. */
#ifndef MX_PLAN_FOLD_H
#define MX_PLAN_FOLD_H

#include "core/array.h"

/* Neighbours in memory that lie as one, all folded or all kept, and neighbours in the result where they are kept. */
struct fold_group {
    int64_t size, stride; /* in elements */
    int axis;             /* the outermost of them */
    bool folded;
};

struct fold_plan {
    int64_t results, folded; /* elements folded into each result, without repetitions */
    int64_t times;           /* how often each of them counts: what folded axes that are broadcast come to */
    bool in_order;           /* the kept ones lie in the result's order, and no stride is negative or 0 */
    int n;
    struct fold_group group[MX_MAX_NDIM]; /* the farthest apart first */
};

/* Fills all but what is behind the n-th group. */
void fold_plan_of(struct fold_plan *p, mx x, const bool *folds);

/* A view of x whose folded axes are the last, those that are broadcast without their repetitions. */
mx fold_last(mx x, const bool *folds);

#endif
