/* scan.h: the arguments that kernels read. */
#ifndef MX_OPS_SCAN_H
#define MX_OPS_SCAN_H

#include "ops/op.h"
#include "ops/ops.h"

struct scan_args {
    unsigned fold; /* enum scan_fold */
    int axis;
    bool reverse;
};

const char *scan_fold_name(enum scan_fold f); /* "cumsum" */

struct recurrence_args {
    int axis;
    bool reverse;
};

#endif
