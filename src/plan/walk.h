/* walk.h: where the elements of operands are, as element-wise kernels and copies are told.
 *
 * Operands have the shape of the result, whose elements are row-major.  Where all of them are contiguous or
 * one value for all, ndim is 0 and `step` says which; else neighbouring dimensions that lie as one are one,
 * and an element's number is taken apart into its place in each.  Kernels include this file too. */
#ifndef MX_PLAN_WALK_H
#define MX_PLAN_WALK_H

#ifndef __CUDACC__
#include <stdint.h>
#endif

enum { WALK_DIMS = 8, WALK_OPERANDS = 3 };

struct walk {
    int64_t n; /* elements */
    int32_t ndim;
    int32_t aligned; /* result and contiguous operands begin at multiples of 16 bytes */
    int32_t step[WALK_OPERANDS];
    uint32_t shape[WALK_DIMS];                /* the outermost first */
    int64_t stride[WALK_OPERANDS][WALK_DIMS]; /* in elements */
};

#endif
