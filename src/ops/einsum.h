/* einsum.h: what einsum would do, for those who ask. */
#ifndef MX_OPS_EINSUM_H
#define MX_OPS_EINSUM_H

#include "core/array.h"

struct einsum_path {
    int n;                      /* contractions */
    int (*pair)[2];             /* places in the list of operands; the result goes to its end */
    int naive_scaling, scaling; /* indices of the largest loop: of all at once, of the pairs */
    double naive_flops, flops;
};

/* Its pairs are the caller's to free, also after a failure. */
bool mx_einsum_path(const char *subscripts, int n, const mx x[], struct einsum_path *path);

#endif
