/* transforms_impl.h: vmap in its two steps.
 *
 * For bindings, which choose the axes of results once they know how many there are; mlx_vmap
 * (jacobian.h) does both.  Functions return 0 for success; ownership, results and errors as in array.h. */
#ifndef MLX_C_TRANSFORMS_IMPL_H
#define MLX_C_TRANSFORMS_IMPL_H

#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/closure.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As an output axis: the result is the same for the whole batch and is returned once. */
#define MLX_VMAP_NONE (-1000)

/* Results for the batch: what `fun` gave for the placeholders s_inputs, s_outputs, worked out for
 * the inputs, which have the dtypes and shapes of those that were traced.  in_axes[i] is the mapped
 * axis of input i or -1; out_axes[k] is where the batch goes in result k, negative ones counted from
 * the end. */
MLX_API int mlx_detail_vmap_replace(mlx_vector_array *res, const mlx_vector_array inputs,
                                    const mlx_vector_array s_inputs, const mlx_vector_array s_outputs,
                                    const int *in_axes, size_t in_axes_num, const int *out_axes, size_t out_axes_num);

/* Calls the function on placeholders: arrays without values that have the inputs' shapes without
 * the mapped axes.  res_0 gets them, res_1 the function's results. */
MLX_API int mlx_detail_vmap_trace(mlx_vector_array *res_0, mlx_vector_array *res_1, const mlx_closure fun,
                                  const mlx_vector_array inputs, const int *in_axes, size_t in_axes_num);

#ifdef __cplusplus
}
#endif

#endif
