/* lookup.h: reading and writing through arrays of indices, as grids.
 *
 * A lookup is a grid of places, at each of which one index for every indexed axis says where a slice of the indexed
 * array begins.  `far` is that array, whose elements are jumped to, `near` the one that holds the slices in the order
 * of the grid: the result of a gather, the updates of a scatter.  Both are walked by strides, in elements, so neither
 * needs to lie row-major. */
#ifndef MX_PLAN_LOOKUP_H
#define MX_PLAN_LOOKUP_H

#include "core/array.h"
#include "core/node.h"
#include "core/outside.h"

struct lookup_index {
    mx array;
    int axis;
    int64_t size, room;         /* of the axis; a slice may begin at 0..room */
    int64_t stride;             /* of `far` along the axis */
    int64_t steps[MX_MAX_NDIM]; /* of the index array along the grid */
    int64_t begin;              /* in the index array: where the grid begins */
};

struct lookup_plan {
    int n;
    struct lookup_index index[MX_MAX_NDIM];
    int grid;                     /* so many dimensions of `near`, its first, are the grid, */
    int ndim, shape[MX_MAX_NDIM]; /* which is so many where those that walk as one are one */
    int64_t far[MX_MAX_NDIM], near[MX_MAX_NDIM];
    int64_t begin;                 /* in `far`: of the place from which the indices count */
    int sdim, sshape[MX_MAX_NDIM]; /* the slice */
    int64_t sfar[MX_MAX_NDIM], snear[MX_MAX_NDIM];
    int64_t count, slice; /* elements of grid and slice */
    bool overlaps;        /* slices may, without being the same */
    bool corner;          /* of a slice: the index arrays are one, whose elements are for one axis each */
};

/* An index array whose slices are so long along the axis of `far`; its steps are left out. */
struct lookup_index lookup_index_of(mx array, int axis, mx far, int slice);

/* gather and scatter: the grid is that of the index arrays, the slice what near has behind it.  Dimensions that all
 * walk as one are one; grid and slice have one at least. */
void lookup_several(struct lookup_plan *p, mx far, mx near, int n, const mx indices[], struct ints axes);
/* gather_axis and scatter_axis: the last axes along which the indices do not change are the slice, the others the grid;
 * along all but the indexed one far is walked too. */
void lookup_axis(struct lookup_plan *p, mx far, mx near, mx index, int axis);
/* One slice of far, as large as near, at the corner that the elements of `start` are, each along its axis. */
void lookup_corner(struct lookup_plan *p, mx far, mx near, mx start, struct ints axes);
/* The same, known: it begins `begin` elements behind far's first and has these strides. */
void lookup_box(struct lookup_plan *p, int64_t begin, const int64_t *far, mx near);

/* The same where an index is the number of a matrix, of those that the last two axes of x are: of products' operand 0,
 * the left one, or 1. */
struct lookup_index lookup_matrix_of(mx array, int operand, mx x);

/* An index out of range, of an array of this type and shape: what is said of it, of a corner of a slice, and of the
 * number of a matrix in element `at` of an index array; of segment `at`, from the value to `end`.  Non-zero if it is a
 * failure (core/outside.h). */
struct lookup_outside {
    const char *op;
    enum outside_use use;
    int axis; /* of a matrix: the operand */
    int64_t size, room, value;
    bool huge; /* the value is a uint64 */
};
int lookup_report(const struct lookup_outside *o, int ndim, const int *shape, const int *at);
int lookup_report_corner(const struct lookup_outside *o);
int lookup_report_matrix(const struct lookup_outside *o, int64_t at);
int lookup_report_segment(const struct lookup_outside *o, int64_t end, int64_t at);

#endif
