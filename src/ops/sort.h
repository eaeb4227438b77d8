/* sort.h: the arguments that kernels read. */
#ifndef MX_OPS_SORT_H
#define MX_OPS_SORT_H

#include "ops/op.h"
#include "ops/ops.h"

struct partition_args {
    int kth; /* 0 to the size of the last axis less one; in a graph of any shape a negative one is from its end */
};
static inline int64_t partition_kth(const struct partition_args *a, mx x)
{
    return a->kth < 0 ? a->kth + dim(x, -1) : a->kth;
}

struct searchsorted_args {
    bool right;
};

struct nonzero_args {
    int64_t count; /* of the elements that are not zero */
};

#endif
