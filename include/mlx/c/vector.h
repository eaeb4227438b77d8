/* vector.h: lists of arrays, of lists of arrays, of ints and of strings.
 *
 * A vector is a handle, and it keeps references to the arrays and copies of the strings put into
 * it. Whoever makes one frees it; copies of the struct are the same vector, so what is appended
 * through one is seen by all.  Functions that return int return 0 for success; results and errors
 * as in array.h. */
#ifndef MLX_C_VECTOR_H
#define MLX_C_VECTOR_H

#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arrays. */
typedef struct mlx_vector_array_ {
    void *ctx;
} mlx_vector_array;

/* An empty vector. */
MLX_API mlx_vector_array mlx_vector_array_new(void);

/* Makes `vec` a vector of the same arrays as `src`. */
MLX_API int mlx_vector_array_set(mlx_vector_array *vec, const mlx_vector_array src);

/* Releases the handle and what the vector keeps. */
MLX_API int mlx_vector_array_free(mlx_vector_array vec);

/* A vector of the `size` arrays at `data`. */
MLX_API mlx_vector_array mlx_vector_array_new_data(const mlx_array *data, size_t size);

/* A vector of one element. */
MLX_API mlx_vector_array mlx_vector_array_new_value(const mlx_array val);

/* Makes the content of `vec` the `size` arrays at `data`. */
MLX_API int mlx_vector_array_set_data(mlx_vector_array *vec, const mlx_array *data, size_t size);

/* Makes the content of `vec` one element. */
MLX_API int mlx_vector_array_set_value(mlx_vector_array *vec, const mlx_array val);

/* Puts the `size` arrays at `data` after the last element. */
MLX_API int mlx_vector_array_append_data(mlx_vector_array vec, const mlx_array *data, size_t size);

/* Puts one array after the last element. */
MLX_API int mlx_vector_array_append_value(mlx_vector_array vec, const mlx_array val);

/* Number of elements. */
MLX_API size_t mlx_vector_array_size(mlx_vector_array vec);

/* Makes `res` hold the array number `idx`, counted from 0; `res` is the caller's to free. */
MLX_API int mlx_vector_array_get(mlx_array *res, const mlx_vector_array vec, size_t idx);

/* Vectors of arrays. */
typedef struct mlx_vector_vector_array_ {
    void *ctx;
} mlx_vector_vector_array;

/* An empty vector. */
MLX_API mlx_vector_vector_array mlx_vector_vector_array_new(void);

/* Makes `vec` a vector of the same elements as `src`. */
MLX_API int mlx_vector_vector_array_set(mlx_vector_vector_array *vec, const mlx_vector_vector_array src);

/* Releases the handle and what the vector keeps. */
MLX_API int mlx_vector_vector_array_free(mlx_vector_vector_array vec);

/* A vector of the `size` vectors at `data`. */
MLX_API mlx_vector_vector_array mlx_vector_vector_array_new_data(const mlx_vector_array *data, size_t size);

/* A vector of one element. */
MLX_API mlx_vector_vector_array mlx_vector_vector_array_new_value(const mlx_vector_array val);

/* Makes the content of `vec` the `size` vectors at `data`. */
MLX_API int mlx_vector_vector_array_set_data(mlx_vector_vector_array *vec, const mlx_vector_array *data, size_t size);

/* Makes the content of `vec` one element. */
MLX_API int mlx_vector_vector_array_set_value(mlx_vector_vector_array *vec, const mlx_vector_array val);

/* Puts the `size` vectors at `data` after the last element. */
MLX_API int mlx_vector_vector_array_append_data(mlx_vector_vector_array vec, const mlx_vector_array *data, size_t size);

/* Puts one vector after the last element. */
MLX_API int mlx_vector_vector_array_append_value(mlx_vector_vector_array vec, const mlx_vector_array val);

/* Number of elements. */
MLX_API size_t mlx_vector_vector_array_size(mlx_vector_vector_array vec);

/* Makes `res` a vector of the arrays of element `idx`, counted from 0. */
MLX_API int mlx_vector_vector_array_get(mlx_vector_array *res, const mlx_vector_vector_array vec, size_t idx);

/* Ints. */
typedef struct mlx_vector_int_ {
    void *ctx;
} mlx_vector_int;

/* An empty vector. */
MLX_API mlx_vector_int mlx_vector_int_new(void);

/* Makes `vec` a copy of `src`. */
MLX_API int mlx_vector_int_set(mlx_vector_int *vec, const mlx_vector_int src);

/* Releases the handle and what the vector keeps. */
MLX_API int mlx_vector_int_free(mlx_vector_int vec);

/* A vector of the `size` numbers at `data`. */
MLX_API mlx_vector_int mlx_vector_int_new_data(int *data, size_t size);

/* A vector of one element. */
MLX_API mlx_vector_int mlx_vector_int_new_value(int val);

/* Makes the content of `vec` the `size` numbers at `data`. */
MLX_API int mlx_vector_int_set_data(mlx_vector_int *vec, int *data, size_t size);

/* Makes the content of `vec` one element. */
MLX_API int mlx_vector_int_set_value(mlx_vector_int *vec, int val);

/* Puts the `size` numbers at `data` after the last element. */
MLX_API int mlx_vector_int_append_data(mlx_vector_int vec, int *data, size_t size);

/* Puts one number after the last element. */
MLX_API int mlx_vector_int_append_value(mlx_vector_int vec, int val);

/* Number of elements. */
MLX_API size_t mlx_vector_int_size(mlx_vector_int vec);

/* Writes the number at `idx`, counted from 0. */
MLX_API int mlx_vector_int_get(int *res, const mlx_vector_int vec, size_t idx);

/* Strings. */
typedef struct mlx_vector_string_ {
    void *ctx;
} mlx_vector_string;

/* An empty vector. */
MLX_API mlx_vector_string mlx_vector_string_new(void);

/* Makes `vec` a copy of `src`. */
MLX_API int mlx_vector_string_set(mlx_vector_string *vec, const mlx_vector_string src);

/* Releases the handle and what the vector keeps. */
MLX_API int mlx_vector_string_free(mlx_vector_string vec);

/* A vector of copies of the `size` strings at `data`. */
MLX_API mlx_vector_string mlx_vector_string_new_data(const char **data, size_t size);

/* A vector of one element. */
MLX_API mlx_vector_string mlx_vector_string_new_value(const char *val);

/* Makes the content of `vec` copies of the `size` strings at `data`. */
MLX_API int mlx_vector_string_set_data(mlx_vector_string *vec, const char **data, size_t size);

/* Makes the content of `vec` one element. */
MLX_API int mlx_vector_string_set_value(mlx_vector_string *vec, const char *val);

/* Puts copies of the `size` strings at `data` after the last element. */
MLX_API int mlx_vector_string_append_data(mlx_vector_string vec, const char **data, size_t size);

/* Puts a copy of one string after the last element. */
MLX_API int mlx_vector_string_append_value(mlx_vector_string vec, const char *val);

/* Number of elements. */
MLX_API size_t mlx_vector_string_size(mlx_vector_string vec);

/* Points `res` at the string number `idx`, counted from 0, which stays the vector's: good until the
 * vector is changed or freed. */
MLX_API int mlx_vector_string_get(char **res, const mlx_vector_string vec, size_t idx);

#ifdef __cplusplus
}
#endif

#endif
