/* borrow.h: arrays on memory of the caller's, of any layout.
 *
 * mlx_array_new_data_managed (array.h) takes memory in row-major order; here the elements may be anywhere
 * that strides lead to: a part of a larger array, a transposed one, a row used for all rows. */
#ifndef MLX_C_BORROW_H
#define MLX_C_BORROW_H

#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array on the memory at `data`, without a copy: `dim` sizes in `shape`, and in `strides`, for each
 * dimension, the distance in elements from one index to the next, which may be 0 or negative; NULL stands
 * for row-major order.  `data` is the address of the element whose indices are all 0, at a multiple of
 * the size of the dtype.  The library only reads.
 *
 * The memory must stay as it is until the library calls dtor(payload), from any thread, once nothing
 * uses it any more; `dtor` may be NULL.  After an error it stays the caller's. */
MLX_API mlx_array mlx_array_new_borrowed(const void *data, const int *shape, const int64_t *strides, int dim,
                                         mlx_dtype dtype, void *payload, void (*dtor)(void *));

#ifdef __cplusplus
}
#endif

#endif
