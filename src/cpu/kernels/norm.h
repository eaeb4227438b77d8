/* norm.h: parts of normalizing and rotating rows, on runs of float32 or float64. */
#ifndef MX_CPU_KERNELS_NORM_H
#define MX_CPU_KERNELS_NORM_H

#include <stdbool.h>
#include <stddef.h>

#include "core/dtype.h"

/* Sum of (x - mean)^2, in blocks of 1,024 added in double. */
typedef double norm_squares_fn(const void *x, double mean, size_t n);
/* Sums of v and of v (x - mean). */
typedef void norm_dots_fn(double sums[2], const void *v, const void *x, double mean, size_t n);
/* y = (x - mean) scale w + b; w and b may be NULL; y may be x. */
typedef void normalize_fn(void *y, const void *x, double mean, double scale, const void *w, const void *b, size_t n);
/* y = scale (v - a - b (x - mean)); y may be x or v. */
typedef void norm_project_fn(void *y, const void *v, const void *x, double mean, double scale, double a, double b,
                             size_t n);
/* (y1, y2) = (x1 cos - x2 sin, x1 sin + x2 cos) for n points whose coordinates are `step` apart. */
typedef void rotate_fn(void *y1, void *y2, const void *x1, const void *x2, size_t step, const void *cosine,
                       const void *sine, size_t n);

/* One step of a gated delta network with state s, d rows of e: s' = gamma s by row, then s' +
 * k beta (v - k s'), and y = q s.  `row` is space for e elements. */
typedef void delta_step_fn(void *y, void *s, void *row, const void *q, const void *k, const void *v, const void *gamma,
                           const void *beta, size_t d, size_t e);

struct norm_kernels {
    norm_squares_fn *squares[DT_COUNT]; /* half types: cast to float32 first */
    norm_dots_fn *dots[DT_COUNT];
    normalize_fn *normalize[DT_COUNT];
    norm_project_fn *project[DT_COUNT];
    rotate_fn *rotate[DT_COUNT];
    delta_step_fn *delta_step[DT_COUNT];
};

#endif
