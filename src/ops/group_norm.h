/* group_norm.h: arguments of ops/group_norm.c, for its runner. */
#ifndef MX_OPS_GROUP_NORM_H
#define MX_OPS_GROUP_NORM_H

#include <stdbool.h>

/* x, then the weight and the bias where there are any. */
struct group_norm_args {
    int groups;      /* 0: each channel is one */
    bool neighbours; /* channel c is in group c div (channels / groups), else in c mod groups */
    bool whole;      /* of all items together, else of each */
    bool weight, bias;
    double eps;
};
/* x, the cotangent, the weight where there is one, the means and the variances: the cotangents of x and, where they are
 * wanted, of the weight and of the bias. */
struct group_norm_vjp_args {
    int groups;
    bool neighbours, whole, weight, to_weight, to_bias;
    double eps;
};

#endif
