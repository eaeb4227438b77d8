/* index.h: the arguments of the operations of index.c, which kernels read too. */
#ifndef MX_OPS_INDEX_H
#define MX_OPS_INDEX_H

#include "ops/rules.h"

/* What an index out of range stands for, where it is no failure (core/outside.h): the nearest in range, as in what
 * is read; or for nothing, as in what is written: no element is changed, and reading gives 0.  Derivatives read
 * and write as what they are the derivatives of.  Values taken for the true elements of a mask have to be there. */
enum outside { OUTSIDE_NEAREST, OUTSIDE_NOTHING, OUTSIDE_FOR_MASK };

/* gather: operands x, one index array for each of `axes`, all of one shape.  The result has that
 * shape, then `sizes`.  An index is where the slice starts on its axis; other axes start at 0. */
struct gather_args {
    struct ints axes, sizes;
    unsigned outside, asker;
};
/* scatter: operands x, the index arrays, updates, shaped as gather's result. */
struct scatter_args {
    struct ints axes;
    unsigned fold, outside, asker;
};
enum { INDEX_GIVEN = 4 }; /* dimensions of which a message tells */
/* The shape of the array of indices that the program gave, where it is known, for messages.  It is no argument:
 * nodes that differ in it are equal. */
struct index_given {
    bool is;
    int ndim, shape[INDEX_GIVEN];
};
/* gather_axis: operands x, indices; scatter_axis: x, indices, updates.  The index array has x's
 * shape but for the axis, where it has as many as are wanted; other axes of it may be 1, if it is not said
 * to be whole. */
struct gather_axis_args {
    int axis;
    unsigned outside, asker;
    bool whole;
    struct index_given given;
};
struct scatter_axis_args {
    int axis;
    unsigned fold, outside, asker;
    bool whole;
    struct index_given given;
};

/* Who asked for one of these, for messages while it runs. */
enum index_asker {
    ITSELF,
    TAKE,
    GETITEM,
    SETITEM,
    CROSS_ENTROPY,
    SCATTER_ADD_AXIS,
    /* What is an operation itself, where another one is its derivative. */
    GATHER,
    SCATTER,
    TAKE_ALONG_AXIS,
    PUT_ALONG_AXIS
};
static inline const char *index_asker(const char *itself, unsigned asker)
{
    static const char *const names[] = {
        "",       "take",    "getitem",         "setitem",       "cross_entropy", "scatter_add_axis",
        "gather", "scatter", "take_along_axis", "put_along_axis"
    };
    return asker == ITSELF ? itself : names[asker];
}
mx mx_gather_by(enum index_asker asker, mx x, const mx indices[], const int *axes, int n, const struct size sizes[]);
mx mx_scatter_for(enum index_asker asker, mx x, const mx indices[], const int *axes, int n, mx updates,
                  enum scatter_fold f);
/* By whom, and what an index out of range stands for. */
struct asked {
    unsigned asker, outside;
};
mx mx_gather_as(struct asked q, mx x, const mx indices[], const int *axes, int n, const struct size sizes[]);
mx mx_scatter_as(struct asked q, mx x, const mx indices[], const int *axes, int n, mx updates, enum scatter_fold f);
mx mx_take_as(struct asked q, mx x, mx indices, int axis);
mx mx_take_for(enum index_asker asker, mx x, mx indices, int axis);
mx mx_take_along_axis_for(enum index_asker asker, mx x, mx indices, int axis);

#endif
