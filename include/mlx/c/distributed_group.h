/* distributed_group.h: groups of processes that work together.
 *
 * A process has a rank, from 0 up, in each group that it belongs to.  A program that was started by
 * itself is a group of one, which is the only kind there is so far: no backend for communication
 * comes with this build.
 *
 * A mlx_distributed_group is a handle: copies of the struct are the same group, and an empty one
 * stands for the group of all processes where a function takes one.  Groups live as long as the
 * process.  Functions that return int return 0 for success unless they say otherwise; results and
 * errors as in array.h. */
#ifndef MLX_C_DISTRIBUTED_GROUP_H
#define MLX_C_DISTRIBUTED_GROUP_H

#include <stdbool.h>

#include "mlx/c/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a group. */
typedef struct mlx_distributed_group_ {
    void *ctx;
} mlx_distributed_group;

/* An empty handle. */
MLX_API mlx_distributed_group mlx_distributed_group_new(void);

/* Releases the handle. */
MLX_API int mlx_distributed_group_free(mlx_distributed_group group);

/* The group of all processes, over the backend `bk`: "any" (also NULL), "ring", "mpi", "nccl" or
 * "jaccl".  Where that finds no other process it is a group of one, or with `strict` an error. */
MLX_API int mlx_distributed_init(mlx_distributed_group *res, bool strict, const char *bk);

/* The number of this process in the group. */
MLX_API int mlx_distributed_group_rank(mlx_distributed_group group);

/* The number of processes in the group. */
MLX_API int mlx_distributed_group_size(mlx_distributed_group group);

/* The processes that gave the same colour, ordered by key; a group of one is not split. */
MLX_API int mlx_distributed_group_split(mlx_distributed_group *res, mlx_distributed_group group, int color, int key);

/* Whether the backend can communicate: no, so far, for each of them and for "any". */
MLX_API bool mlx_distributed_is_available(const char *bk);

#ifdef __cplusplus
}
#endif

#endif
