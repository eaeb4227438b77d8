/* fast.h: arguments of the operations of ops/fast.c, for their runners. */
#ifndef MX_OPS_FAST_H
#define MX_OPS_FAST_H

#include <stdbool.h>

/* x, then the weight and the bias where there are any. */
struct norm_args {
    bool weight, bias;
    double eps;
};
/* x and v: what a change v of the row x makes of the normalized row. */
struct norm_tangent_args {
    bool centered;
    double eps;
};
/* x, the cotangent, then the weight where there is one: the cotangents of x and, where they are wanted, of the weight
 * and of the bias. */
struct norm_vjp_args {
    bool centered, weight, to_weight, to_bias;
    double eps;
};
/* x, offset, then the frequencies where they are given. */
struct rope_args {
    int dims;
    bool traditional, freqs, inverse;
    double base, scale;
};

#endif
