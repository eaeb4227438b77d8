/* conv.h: the arguments that kernels read. */
#ifndef MX_OPS_CONV_H
#define MX_OPS_CONV_H

#include "ops/op.h"

/* One number for each spatial axis.  `size` is the number of positions of the result; what they see
 * outside of the input is zero, on either side.  A size of -1 is what a padding of `high` behind the input
 * makes; high has numbers where they are known. */
struct conv_args {
    struct ints stride, low, dilation, input_dilation, size, high;
    int groups;
};

#endif
