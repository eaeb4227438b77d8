/* create.h: the arguments of the operations of create.c, which kernels read too. */
#ifndef MX_OPS_CREATE_H
#define MX_OPS_CREATE_H

#include "ops/rules.h"

/* count: if there are any, sizes whose product says how many there are, not `stop`. */
struct arange_args {
    double start, stop, step;
    unsigned dtype;
    struct ints count;
};
struct linspace_args {
    double start, stop;
    int num;
    bool endpoint;
    unsigned dtype;
};
struct eye_args {
    int n, m, k;
    unsigned dtype;
};
struct number_args {
    struct ints axes;
    bool inverted;
    unsigned dtype;
};

/* Its value, as a READY array. */
mx number_of_elements(mx x, const struct number_args *a);

#endif
