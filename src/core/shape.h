/* shape.h: arithmetic on shapes, axes and strides. */
#ifndef MX_CORE_SHAPE_H
#define MX_CORE_SHAPE_H

#include "core/array.h"

/* Axis i of an array of n dimensions as 0..n-1; fails as `[op] ...` and returns -1. */
int axis_of(const char *op, int i, int n);
/* Sorted, checked, without duplicates, into out[]; returns how many or -1.  axes NULL: all of them. */
int axes_of(const char *op, const int *axes, int n, int ndim, int *out);

/* Number of elements; -1 and a failure if a size is negative or the product does not fit, that of an empty
 * shape without its zeros: so the product of any axes of an array fits, and its strides do. */
int64_t shape_size(const char *op, int ndim, const int *shape);
bool shape_is(mx x, int ndim, const int *shape);
/* How many matrices its last two axes are. */
static inline int64_t matrix_count(mx x)
{
    int64_t n = 1;
    for (int i = 0; i < x->ndim - 2; i++) n *= x->shape[i];
    return n;
}
static inline bool same_shape(mx a, mx b) { return shape_is(a, b->ndim, b->shape); }
/* The shape that n arrays broadcast to; fails and returns false where they do not. */
bool broadcast_shape(const char *op, int n, const mx x[], int *ndim, int *shape);
/* Row-major strides in elements. */
void row_strides(int ndim, const int *shape, int64_t *strides);

/* "(2,3)" into a small ring of static buffers of the thread, for messages. */
const char *shape_text(int ndim, const int *shape);
static inline const char *shape_of(mx x) { return shape_text(x->ndim, x->shape); }

/* Merges neighbouring dimensions that every one of the n operands walks with one stride, and drops
 * those of size 1.  strides[k] belongs to operand k; all are rewritten in place.  Returns the new
 * number of dimensions (at least 1). */
int collapse(int ndim, int *shape, int n, int64_t *strides[]);

#endif
