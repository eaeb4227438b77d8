/* conv.h: the geometry of a convolution.
 *
 * A convolution falls into plain ones, without input dilation: positions of the result that see the same taps of the
 * weights (all of them, where the input is not dilated). */
#ifndef MX_PLAN_CONV_H
#define MX_PLAN_CONV_H

#include "core/array.h"
#include "ops/conv.h"

/* Of a plain one: position j and tap m meet the input at at + j stride + m dilation. */
struct conv_axis {
    int64_t in;
    int64_t out, first, step; /* positions first, first + step, ... of the result */
    int64_t taps, tap, apart; /* taps tap, tap + apart, ... of the weights */
    int64_t at, stride, dilation;
};

struct conv_plan {
    int64_t images, channels, groups;
    int64_t in, out; /* channels of one group */
    int64_t parts;   /* plain ones */
    int64_t taps;    /* of all axes together */
    struct conv_whole {
        int64_t in, out, taps, stride, low, dilation, spread;
        int64_t period; /* positions that are so many apart see the same taps */
    } axis[3];          /* with axes of size 1 in front where there are fewer */
};

/* x is images, axes, channels; w is output channels, axes, channels of a group; y is the result, with its shape. */
void conv_plan_of(struct conv_plan *p, const struct conv_args *a, mx x, mx w, mx y);
/* The axes of part i; returns how many taps it sees: 0 where its positions lie between the elements of the input. */
int64_t conv_part(const struct conv_plan *p, int64_t i, struct conv_axis axis[3]);
/* That of positions phase, phase + period, ... of one axis; taps 0 where they see none. */
struct conv_axis conv_phase(const struct conv_whole *w, int64_t phase);
/* One tap that every position sees for itself: a matrix product. */
bool conv_is_product(const struct conv_args *a, mx x, mx w, mx y);
/* Strides of (first, three axes, last), those of axes that are not there 0. */
void conv_strides(mx x, int64_t strides[5]);

#endif
