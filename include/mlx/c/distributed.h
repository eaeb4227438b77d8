/* distributed.h: arrays sent between the processes of a group.
 *
 * Every process of the group calls the same function with an array of the same shape and dtype; an
 * empty handle of a group stands for all processes.  In a group of one, collective functions give
 * their operand back, and there is nobody to send to.  Functions return 0 for success; ownership,
 * results and errors as in array.h. */
#ifndef MLX_C_DISTRIBUTED_H
#define MLX_C_DISTRIBUTED_H

#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/distributed_group.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The sum of the arrays of all processes. */
MLX_API int mlx_distributed_all_sum(mlx_array *res, const mlx_array x, const mlx_distributed_group group,
                                    const mlx_stream s);

/* Their maximum, element by element. */
MLX_API int mlx_distributed_all_max(mlx_array *res, const mlx_array x, const mlx_distributed_group group,
                                    const mlx_stream s);

/* Their minimum, element by element. */
MLX_API int mlx_distributed_all_min(mlx_array *res, const mlx_array x, const mlx_distributed_group group,
                                    const mlx_stream s);

/* The arrays of all processes, one behind the other along the first axis. */
MLX_API int mlx_distributed_all_gather(mlx_array *res, const mlx_array x, const mlx_distributed_group group,
                                       const mlx_stream S);

/* The part of the sum of all arrays that belongs to this process: the n-th part along the first
 * axis. */
MLX_API int mlx_distributed_sum_scatter(mlx_array *res, const mlx_array x, const mlx_distributed_group group,
                                        const mlx_stream s);

/* Sends x to the process dst; the result is x, and is there when it has been sent. */
MLX_API int mlx_distributed_send(mlx_array *res, const mlx_array x, int dst, const mlx_distributed_group group,
                                 const mlx_stream s);

/* The array of this shape and dtype that the process src sends. */
MLX_API int mlx_distributed_recv(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, int src,
                                 const mlx_distributed_group group, const mlx_stream s);

/* The array that the process src sends, which has the shape and dtype of x. */
MLX_API int mlx_distributed_recv_like(mlx_array *res, const mlx_array x, int src, const mlx_distributed_group group,
                                      const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
