/* slice.h: the arguments of the operations of slice.c, which kernels read too. */
#ifndef MX_OPS_SLICE_H
#define MX_OPS_SLICE_H

#include "ops/rules.h"

struct slice_args {
    struct ints start, stop, step;
};
struct slice_update_args {
    struct ints start, stop, step;
    unsigned fold;
};
struct dynamic_args {
    struct ints axes, sizes;
    unsigned outside; /* enum outside, for a corner that leaves no room */
};
/* sizes: if there are any, those of the parts; else they are between the cuts. */
struct split_args {
    struct ints cuts;
    int axis;
    struct ints sizes;
};
struct diagonal_args {
    int offset, axis1, axis2;
};
struct axis_args {
    int axis;
};
struct pad_args {
    struct ints low, high;
};

/* What a slice touches of an axis: first, first + step, ...; count of them. */
struct range {
    int64_t first, count, step;
};
struct range range_of(int size, int64_t start, int64_t stop, int64_t step);

/* Where the diagonal of x begins, and how long it is. */
struct line {
    int64_t down, right, count;
};
struct line line_of(const struct diagonal_args *a, mx x);

#endif
