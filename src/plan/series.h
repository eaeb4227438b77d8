/* series.h: evenly spaced numbers: how each is computed from its place, before it becomes an element.
 *
 * Kernels of GPUs include this file too. */
#ifndef MX_PLAN_SERIES_H
#define MX_PLAN_SERIES_H

#ifndef __CUDACC__
#include "ops/create.h"
#endif

/* In which type; in integers modulo 2^64, which uint64 is as well. */
enum series_in { SERIES_I64, SERIES_F32, SERIES_F64 };

/* Number i is first + i * step in that type. */
struct series {
    int32_t in; /* enum series_in */
    float first_f32, step_f32;
    uint64_t first_i64, step_i64;
    double first, step, last;
    int64_t count; /* number `count` is `last`, if there is one of that number */
};

#ifndef __CUDACC__
/* Of elements of type t. */
struct series series_of_arange(const struct arange_args *a, enum dtype t);
struct series series_of_linspace(const struct linspace_args *a);
#endif

#endif
