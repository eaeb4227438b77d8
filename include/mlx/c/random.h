/* random.h: random numbers from keys.
 *
 * A key is an array of two uint32.  The same key gives the same numbers: draw with a key once, and
 * split it for more.  Where `key` is an empty handle, one is split off the calling thread's state,
 * which mlx_random_seed sets; without it every thread draws other numbers.  The bits come
 * from threefry2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * 2011) applied to a counter.
 *
 * `shape` has `shape_num` sizes.  Functions return 0 for success; ownership, results and errors as
 * in array.h. */
#ifndef MLX_C_RANDOM_H
#define MLX_C_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keys */

/* The key for a seed. */
MLX_API int mlx_random_key(mlx_array *res, uint64_t seed);

/* Starts the state behind empty keys, the calling thread's, anew from a seed. */
MLX_API int mlx_random_seed(uint64_t seed);

/* `num` new keys from one, as an array of shape (num, 2). */
MLX_API int mlx_random_split_num(mlx_array *res, const mlx_array key, int num, const mlx_stream s);

/* Two new keys from one. */
MLX_API int mlx_random_split(mlx_array *res_0, mlx_array *res_1, const mlx_array key, const mlx_stream s);

/* Uniform numbers and bits */

/* Unsigned integers of `width` bytes (1, 2 or 4) with every bit random. */
MLX_API int mlx_random_bits(mlx_array *res, const int *shape, size_t shape_num, int width, const mlx_array key,
                            const mlx_stream s);

/* Uniform numbers of a floating-point dtype in [low, high); the bounds broadcast to the shape. */
MLX_API int mlx_random_uniform(mlx_array *res, const mlx_array low, const mlx_array high, const int *shape,
                               size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s);

/* Uniform integers of dtype in [low, high); the bounds broadcast to the shape.  Types of up to 32 bits come out of
 * float32: of a range wider than 2^24 they have only every other number, or fewer.  Where a bound is NaN or beyond
 * the dtype, the result is any number: bounds are not looked at, since they may not be computed yet. */
MLX_API int mlx_random_randint(mlx_array *res, const mlx_array low, const mlx_array high, const int *shape,
                               size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s);

/* true with probability `p`, which broadcasts to the shape. */
MLX_API int mlx_random_bernoulli(mlx_array *res, const mlx_array p, const int *shape, size_t shape_num,
                                 const mlx_array key, const mlx_stream s);

/* Other distributions */

/* Normal numbers with mean `loc` and standard deviation `scale`. */
MLX_API int mlx_random_normal(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, float loc,
                              float scale, const mlx_array key, const mlx_stream s);

/* Normal numbers whose mean and standard deviation are arrays that broadcast to the shape; an empty
 * handle means 0 and 1. */
MLX_API int mlx_random_normal_broadcast(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype,
                                        const mlx_array loc, const mlx_array scale, const mlx_array key,
                                        const mlx_stream s);

/* Standard normal numbers given that they lie in [lower, upper); the bounds broadcast to the
 * shape. */
MLX_API int mlx_random_truncated_normal(mlx_array *res, const mlx_array lower, const mlx_array upper, const int *shape,
                                        size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s);

/* Numbers of the standard Gumbel distribution, -log(-log(u)). */
MLX_API int mlx_random_gumbel(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, const mlx_array key,
                              const mlx_stream s);

/* Normal vectors with a mean of shape (..., n) and a covariance of shape (..., n, n), whose batches
 * broadcast to the shape; with an empty one, to each other.  The result has one axis of n more. */
MLX_API int mlx_random_multivariate_normal(mlx_array *res, const mlx_array mean, const mlx_array cov, const int *shape,
                                           size_t shape_num, mlx_dtype dtype, const mlx_array key, const mlx_stream s);

/* Numbers of the Laplace distribution around `loc` with diversity `scale`. */
MLX_API int mlx_random_laplace(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, float loc,
                               float scale, const mlx_array key, const mlx_stream s);

/* Indices along `axis` with the probabilities softmax(logits), as uint32: one for each of the other
 * positions of `logits`. */
MLX_API int mlx_random_categorical(mlx_array *res, const mlx_array logits, int axis, const mlx_array key,
                                   const mlx_stream s);

/* The same, `num_samples` for each position, along a last dimension. */
MLX_API int mlx_random_categorical_num_samples(mlx_array *res, const mlx_array logits_, int axis, int num_samples,
                                               const mlx_array key, const mlx_stream s);

/* The same with the result's shape given, to which the other positions of `logits` broadcast. */
MLX_API int mlx_random_categorical_shape(mlx_array *res, const mlx_array logits, int axis, const int *shape,
                                         size_t shape_num, const mlx_array key, const mlx_stream s);

/* The slices of x along an axis, in random order. */
MLX_API int mlx_random_permutation(mlx_array *res, const mlx_array x, int axis, const mlx_array key,
                                   const mlx_stream s);

/* The numbers 0 to x - 1 in random order, as uint32. */
MLX_API int mlx_random_permutation_arange(mlx_array *res, int x, const mlx_array key, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
