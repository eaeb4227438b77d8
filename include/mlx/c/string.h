/* string.h: text that the library hands out.
 *
 * A mlx_string is a handle: made by one of the functions below that return one, or filled by a
 * function that takes a mlx_string *, and released with mlx_string_free.  Copies of the struct are
 * the same handle.  Functions that return int return 0 for success. */
#ifndef MLX_C_STRING_H
#define MLX_C_STRING_H

#include "mlx/c/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a text. */
typedef struct mlx_string_ {
    void *ctx;
} mlx_string;

/* An empty handle, to be filled by the functions that take a mlx_string *. */
MLX_API mlx_string mlx_string_new(void);

/* A handle with a copy of `str`. */
MLX_API mlx_string mlx_string_new_data(const char *str);

/* Makes `str` hold a copy of the text of `src`. */
MLX_API int mlx_string_set(mlx_string *str, const mlx_string src);

/* The text, zero-terminated; it belongs to the handle and is good until that is set or freed. */
MLX_API const char *mlx_string_data(mlx_string str);

/* Releases the handle; an empty one may be freed too. */
MLX_API int mlx_string_free(mlx_string str);

#ifdef __cplusplus
}
#endif

#endif
