/* handles.h: which handles are there, for finding those that were never freed.
 *
 * Handles are always counted.  While they are watched, the library also notes for each new one which
 * function made it and, where the system tells, from where in the program that was called.  With
 * the environment variable MLX_HANDLES=1 handles are watched from the start, and what is left when
 * the process ends is printed to the standard error.
 *
 * Streams and groups of processes are not counted: their handles own nothing.  Functions that return
 * int return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_HANDLES_H
#define MLX_C_HANDLES_H

#include <stdbool.h>
#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/string.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many handles of a kind, such as "mlx_array", are live; of all kinds for NULL.  Empty handles do
 * not count. */
MLX_API int mlx_handles_count(size_t *res, const char *kind);

/* Begins or ends watching.  Handles made before are not known by place. */
MLX_API int mlx_handles_watch(bool on);

/* Writes a line with the number of all live handles, one for each kind there are, and one for each
 * watched handle, the oldest first. */
MLX_API int mlx_handles_report(mlx_string *str);

#ifdef __cplusplus
}
#endif

#endif
