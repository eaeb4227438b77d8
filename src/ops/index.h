/* index.h: the arguments of the operations of index.c, which kernels read too. */
#ifndef MX_OPS_INDEX_H
#define MX_OPS_INDEX_H

#include "ops/rules.h"

/* gather: operands x, one index array for each of `axes`, all of one shape.  The result has that
 * shape, then `sizes`.  An index is where the slice starts on its axis; other axes start at 0. */
struct gather_args { struct ints axes, sizes; };
/* scatter: operands x, the index arrays, updates, shaped as gather's result. */
struct scatter_args { struct ints axes; unsigned fold; };
/* gather_axis: operands x, indices; scatter_axis: x, indices, updates.  The index array has x's
 * shape but for the axis, where it has as many as are wanted; other axes of it may be 1. */
struct gather_axis_args { int axis; };
struct scatter_axis_args { int axis; unsigned fold; };

#endif
