/* fast.h: operations of neural networks that have kernels of their own.
 *
 * Half types are computed in float32 and rounded once.  Where an argument may be left out, an empty
 * handle says so.  Functions return 0 for success; ownership, results and errors as in array.h. */
#ifndef MLX_C_FAST_H
#define MLX_C_FAST_H

#include <stdbool.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/optional.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of `x`, its last axis, with mean 0 and variance 1, times `weight` plus `bias`: vectors as
 * long as a row, which may be left out. */
MLX_API int mlx_fast_layer_norm(mlx_array *res, const mlx_array x, const mlx_array weight,
                                const mlx_array bias, float eps, const mlx_stream s);

/* Rows of `x` with mean square 1, times `weight`, which may be left out. */
MLX_API int mlx_fast_rms_norm(mlx_array *res, const mlx_array x, const mlx_array weight, float eps,
                              const mlx_stream s);

/* Rotates the first `dims` elements of the rows of `x` (B, ..., T, D), taken as points, by angles
 * that grow with the position: point i at position t turns by scale (offset + t) base^(-2i / dims),
 * or scale (offset + t) / freqs[i].  Exactly one of `base` and `freqs` is given.  A point is two
 * neighbours where `traditional`, else elements i and i + dims / 2. */
MLX_API int mlx_fast_rope(mlx_array *res, const mlx_array x, int dims, bool traditional,
                          mlx_optional_float base, float scale, int offset, const mlx_array freqs,
                          const mlx_stream s);

/* The same with the offset in an integer array: one for all, or one for each of the B. */
MLX_API int mlx_fast_rope_dynamic(mlx_array *res, const mlx_array x, int dims, bool traditional,
                                  mlx_optional_float base, float scale, const mlx_array offset,
                                  const mlx_array freqs, const mlx_stream s);

/* softmax(scale Q K^T + mask) V of queries (B, N, T, D), keys (B, M, S, D) and values (B, M, S, E),
 * with N a multiple of M: N / M heads of queries share one of keys.  The result is (B, N, T, E).
 *
 * `mask_mode` is "" or "array", or "causal": then the last query sees every key and each one before
 * it one key less.  `mask_arr` broadcasts to (B, N, T, S) and is bool (true: the query sees the
 * key) or added to the scores.  `sinks` (N) are scores of keys without values. */
MLX_API int mlx_fast_scaled_dot_product_attention(mlx_array *res, const mlx_array queries,
                                                  const mlx_array keys, const mlx_array values,
                                                  float scale, const char *mask_mode,
                                                  const mlx_array mask_arr, const mlx_array sinks,
                                                  const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
