/* norm.h: parts of normalizing and rotating rows, on runs of float32 or float64. */
#ifndef MX_CPU_KERNELS_NORM_H
#define MX_CPU_KERNELS_NORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

/* What is known of a row, or of the part of it that has been seen. */
struct norm_row {
    double mean, squares; /* squares: the sum of (x - mean)^2 */
    double sum, dot;      /* of v, and of v (x - mean) */
    double scale, shift, along;
};

/* These take `rows` rows of n elements without gaps, m[i] being of row i; w, b, dw and db, which may be NULL, are of
 * one row, and v stands for v w where there is a w. */

/* Adds to the squares, in blocks of 1,024 added in double. */
typedef void norm_squares_fn(struct norm_row *m, const void *x, size_t rows, size_t n);
/* Adds to the sum and to the dot. */
typedef void norm_dots_fn(struct norm_row *m, const void *v, const void *x, const void *w, size_t rows, size_t n);
/* y = (x - mean) scale w + b; y may be x. */
typedef void normalize_fn(void *y, const void *x, const struct norm_row *m, const void *w, const void *b, size_t rows,
                          size_t n);
/* y = scale (v - shift - along (x - mean)); y may be x or v.  What is a sum over rows is added to: dw += v (x - mean)
 * scale, db += v, where v is without w. */
typedef void norm_project_fn(void *y, const void *v, const void *x, const struct norm_row *m, const void *w, void *dw,
                             void *db, size_t rows, size_t n);
/* sum += part, part = 0 */
typedef void norm_move_sums_fn(double *sum, void *part, size_t n);
/* Of each of `cols` columns the mean and the sum of squares about it, in double, with `rows` more after those seen
 * `before`: the rows' own are found in T, rows being few, and put together with what there is. */
typedef void channel_moments_fn(double *mean, double *squares, const void *x, int64_t stride, size_t rows, size_t cols,
                                int64_t before);
/* y = (x - mean) scale + shift by column; y may be x. */
typedef void channel_scale_fn(void *y, const void *x, int64_t stride, size_t rows, size_t cols, const void *mean,
                              const void *scale, const void *shift);
/* Of each of `cols` columns the sums of v and of v (x - mean), added to what there is in double, rows being few. */
typedef void channel_slopes_fn(double *sum, double *dot, const void *v, const void *x, int64_t stride, size_t rows,
                               size_t cols, const void *mean);
/* What a column has in common, each of `cols` elements. */
struct norm_columns {
    const void *mean, *scale, *weight, *shift, *along;
};
/* y = scale (v weight - shift - along (x - mean)) by column; y may be x or v. */
typedef void channel_project_fn(void *y, const void *v, const void *x, int64_t stride, size_t rows, size_t cols,
                                const struct norm_columns *by);
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
    norm_move_sums_fn *move_sums[DT_COUNT];
    channel_moments_fn *moments[DT_COUNT];
    channel_scale_fn *channel_scale[DT_COUNT];
    channel_slopes_fn *channel_slopes[DT_COUNT];
    channel_project_fn *channel_project[DT_COUNT];
    rotate_fn *rotate[DT_COUNT];
    delta_step_fn *delta_step[DT_COUNT];
};

#endif
