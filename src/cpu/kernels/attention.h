/* attention.h: what stands between the products of attention.
 *
 * Scores are in panels: rows of `width` elements, the width of the panels of B in kernels/gemm.h, so
 * that what one product writes is the operand of the next.  A column belongs to one query, which
 * puts its maximum and sum into lanes of their own. */
#ifndef MX_CPU_KERNELS_ATTENTION_H
#define MX_CPU_KERNELS_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"

/* Scores s of some more keys, by column: top becomes the largest so far, s = exp(s - top), sum and
 * `fade` = exp(old top - new top) follow; sum includes the new ones. */
typedef void attend_fn(void *s, size_t rows, void *top, void *sum, void *fade);
/* y *= by, by column. */
typedef void attend_scale_fn(void *y, size_t rows, const void *by);
/* s = exp(s - top) / sum and d = s (d - delta), by column or by row; d = 0 where s is, whatever d was, and where top is
 * the lowest number there is: then every key is masked. */
typedef void attend_slope_fn(void *s, void *d, size_t rows, const void *top, const void *sum, const void *delta,
                             bool by_row);

/* Rows of float32 scores, rounded to bfloat16 and laid into each other by two, as panels of pairs are (kernels/gemm.h):
 * so many steps, of which what is left over is zero. */
typedef void attend_pairs_fn(uint32_t *to, const float *s, size_t rows, size_t steps);

struct attention_kernels {
    int width[DT_COUNT]; /* float32 and float64 */
    attend_fn *attend[DT_COUNT];
    attend_scale_fn *scale[DT_COUNT];
    attend_pairs_fn *pairs;
    attend_slope_fn *slope[DT_COUNT];
};

#endif
