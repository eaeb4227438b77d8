/* pending.c: stand-ins for kernels that are not written yet. */
#include "cpu/run.h"
#include "ops/ops.h"

#define WEAK __attribute__((weak))
#define MISSING(id_) WEAK int run_##id_(const struct run *r) { mx_fail("[%s] has no kernel yet", r->node->op->name); return 1; }

MISSING(slice)
MISSING(as_strided)
MISSING(split)
MISSING(concatenate)
MISSING(pad)
MISSING(slice_update)
MISSING(arange)
MISSING(linspace)
MISSING(eye)
MISSING(number_of_elements)
MISSING(gather)
MISSING(gather_axis)
MISSING(scatter)
MISSING(scatter_axis)
MISSING(dynamic_slice)
MISSING(dynamic_slice_update)
MISSING(custom)

#pragma GCC diagnostic ignored "-Wunused-parameter"
