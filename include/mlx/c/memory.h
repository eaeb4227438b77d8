/* memory.h: what the arrays' memory amounts to, and its limits.
 *
 * Sizes are in bytes and count the memory of array elements.  Freed blocks go to a cache from which
 * later arrays are served.  Functions return 0 for success; errors as in array.h. */
#ifndef MLX_C_MEMORY_H
#define MLX_C_MEMORY_H

#include <stddef.h>

#include "mlx/c/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the cached blocks back to the system. */
MLX_API int mlx_clear_cache(void);

/* The memory in use by arrays, without the cache. */
MLX_API int mlx_get_active_memory(size_t *res);

/* The memory in the cache: of arrays that are gone, kept for new ones.  What no new array needed for a while (the time
 * in which four times as many bytes as the cache held were taken from it or came into it) goes back to the system. */
MLX_API int mlx_get_cache_memory(size_t *res);

/* The memory limit in force. */
MLX_API int mlx_get_memory_limit(size_t *res);

/* The most memory that was in use at once since the start or the last mlx_reset_peak_memory. */
MLX_API int mlx_get_peak_memory(size_t *res);

/* Starts the peak anew: it is 0 until something is allocated. */
MLX_API int mlx_reset_peak_memory(void);

/* Sets how much the cache may hold, by default three quarters of the machine's memory; `res` gets the limit before.
 * 0 turns caching off. */
MLX_API int mlx_set_cache_limit(size_t *res, size_t limit);

/* Sets how much memory arrays may use, past which allocating fails; `res` gets the limit before. */
MLX_API int mlx_set_memory_limit(size_t *res, size_t limit);

/* Sets how much memory may be kept from being paged out, where the device has such a notion (the
 * CPU has none and only remembers the number); `res` gets the limit before. */
MLX_API int mlx_set_wired_limit(size_t *res, size_t limit);

#ifdef __cplusplus
}
#endif

#endif
