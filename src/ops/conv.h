/* conv.h: the arguments that kernels read. */
#ifndef MX_OPS_CONV_H
#define MX_OPS_CONV_H

#include "ops/op.h"

/* One number for each spatial axis.  `size` is the number of positions of the result; what they see
 * outside of the input is zero, on either side. */
struct conv_args {
    struct ints stride, low, dilation, input_dilation, size;
    int groups;
};

#endif
