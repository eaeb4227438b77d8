/* shape.h: the arguments of operations of shape.c, which exported files say too. */
#ifndef MX_OPS_SHAPE_H
#define MX_OPS_SHAPE_H

#include "ops/op.h"

/* broadcast: without a shape the result has the one that all operands broadcast to together, but for `axes`,
 * counted from the end, where operand 0 keeps its own size. */
struct broadcast_args {
    struct ints shape, axes;
    bool alike;
};
/* reshape; given: by the program, not by a builder. */
struct shape_args {
    struct ints shape;
    bool given;
};

#endif
