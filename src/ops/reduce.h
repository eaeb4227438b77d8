/* reduce.h: the arguments that kernels read. */
#ifndef MX_OPS_REDUCE_H
#define MX_OPS_REDUCE_H

#include "ops/op.h"
#include "ops/ops.h"

struct reduce_args {
    unsigned fold;    /* enum fold */
    struct ints axes; /* ascending */
    unsigned dtype;   /* of the result */
};

const char *fold_name(enum fold f); /* "sum" */

struct arg_reduce_args {
    unsigned fold; /* enum arg_fold */
    int axis;
};

#endif
