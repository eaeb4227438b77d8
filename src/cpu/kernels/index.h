/* index.h: indices turned into offsets, and elements picked by them.
 *
 * An index is in range if it is 0..room, or negative and so after adding `size`, that of its axis;
 * both are at most 2^31.  One that is not stands for the nearest that is, 0 or room.  Functions that
 * return bool say whether all were. */
#ifndef MX_CPU_KERNELS_INDEX_H
#define MX_CPU_KERNELS_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"

/* far[i] = base + index * stride, for index[i * step], or, with `add`, far[i] += index * stride. */
typedef bool index_offsets_fn(int64_t *far, bool add, int64_t base, const void *index, int64_t step, int64_t n,
                              int64_t size, int64_t room, int64_t stride);
typedef bool index_check_fn(const void *index, int64_t step, int64_t n, int64_t size, int64_t room);
/* in[i] = whether index[i * step] is in range, if it was true */
typedef void index_inside_fn(bool *in, const void *index, int64_t step, int64_t n, int64_t size, int64_t room);
/* Are n indices of 32 bits, signed or not, all 0 .. size - 1, none of them from the end? */
typedef bool index_places_fn(const uint32_t *index, int64_t n, int64_t size);
/* y[i * sy] = x[far[i]] */
typedef void index_pick_fn(void *y, int64_t sy, const void *x, const int64_t *far, int64_t n);
/* y[i] = x[index[i] * stride] */
typedef bool index_take_fn(void *y, const void *x, int64_t stride, const void *index, int64_t n, int64_t size);

struct index_kernels {
    index_offsets_fn *offsets[DT_COUNT]; /* by the type of the index */
    index_check_fn *check[DT_COUNT];
    index_inside_fn *inside[DT_COUNT];
    index_places_fn *are_places;
    index_pick_fn *pick[4];           /* by log2 of the element size */
    index_take_fn *take[DT_COUNT][4]; /* NULL but for the usual index types */
};

#endif
