/* norm.c: the table of normalizations of this level; the loops are in norm.inc. */
#include "cpu/kernels/norm.h"

#include "cpu/kernels/lanes.h"
#include "cpu/kernels/level.h"

#define T float
#define SUFFIX f32
#include "cpu/kernels/norm.inc"
#define T double
#define SUFFIX f64
#include "cpu/kernels/norm.inc"

extern const struct norm_kernels LEVEL(norm_kernels);
#define BOTH(f)                                        \
    {                                                  \
        [DT_float32] = f##_f32, [DT_float64] = f##_f64 \
    }
const struct norm_kernels LEVEL(norm_kernels) = {
    .squares = BOTH(squares),
    .dots = BOTH(dots),
    .normalize = BOTH(normalize),
    .project = BOTH(project),
    .move_sums = BOTH(move_sums),
    .moments = BOTH(moments),
    .channel_scale = BOTH(channel_scale),
    .channel_slopes = BOTH(channel_slopes),
    .channel_project = BOTH(channel_project),
    .rotate = BOTH(rotate),
    .delta_step = BOTH(delta_step),
};
