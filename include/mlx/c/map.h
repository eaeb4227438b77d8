/* map.h: from names to arrays, and from names to strings.
 *
 * A map is a handle that keeps references to the arrays and copies of the strings put into it, in
 * the order of their first insertion.  Whoever makes one frees it; copies of the struct are the
 * same map.  Functions that return int return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_MAP_H
#define MLX_C_MAP_H

#include "mlx/c/api.h"
#include "mlx/c/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From names to arrays. */
typedef struct mlx_map_string_to_array_ {
    void *ctx;
} mlx_map_string_to_array;

/* An empty map. */
MLX_API mlx_map_string_to_array mlx_map_string_to_array_new(void);

/* Makes `map` a map with the same entries as `src`. */
MLX_API int mlx_map_string_to_array_set(mlx_map_string_to_array *map, const mlx_map_string_to_array src);

/* Releases the handle and what the map keeps. */
MLX_API int mlx_map_string_to_array_free(mlx_map_string_to_array map);

/* Stores `value` under `key`, in place of what was there. */
MLX_API int mlx_map_string_to_array_insert(mlx_map_string_to_array map, const char *key, const mlx_array value);

/* Makes `value` hold the array under `key`; returns 2, without an error, when there is none. */
MLX_API int mlx_map_string_to_array_get(mlx_array *value, const mlx_map_string_to_array map, const char *key);

/* A walk over the entries; the map must outlive it and not change meanwhile. */
typedef struct mlx_map_string_to_array_iterator_ {
    void *ctx;
    void *map_ctx; /* the map */
} mlx_map_string_to_array_iterator;

/* A walk that starts before the first entry. */
MLX_API mlx_map_string_to_array_iterator mlx_map_string_to_array_iterator_new(mlx_map_string_to_array map);

/* Releases the iterator, not the map. */
MLX_API int mlx_map_string_to_array_iterator_free(mlx_map_string_to_array_iterator it);

/* Steps to the next entry: `key` stays the map's, `value` is made to hold the array.  Returns 2,
 * without an error, after the last entry. */
MLX_API int mlx_map_string_to_array_iterator_next(const char **key, mlx_array *value,
                                                  mlx_map_string_to_array_iterator it);

/* From names to strings. */
typedef struct mlx_map_string_to_string_ {
    void *ctx;
} mlx_map_string_to_string;

/* An empty map. */
MLX_API mlx_map_string_to_string mlx_map_string_to_string_new(void);

/* Makes `map` a map with the same entries as `src`. */
MLX_API int mlx_map_string_to_string_set(mlx_map_string_to_string *map, const mlx_map_string_to_string src);

/* Releases the handle and what the map keeps. */
MLX_API int mlx_map_string_to_string_free(mlx_map_string_to_string map);

/* Stores `value` under `key`, in place of what was there. */
MLX_API int mlx_map_string_to_string_insert(mlx_map_string_to_string map, const char *key, const char *value);

/* Points `value` at the string under `key`, which stays the map's; returns 2, without an error,
 * when there is none. */
MLX_API int mlx_map_string_to_string_get(const char **value, const mlx_map_string_to_string map, const char *key);

/* A walk over the entries; the map must outlive it and not change meanwhile. */
typedef struct mlx_map_string_to_string_iterator_ {
    void *ctx;
    void *map_ctx; /* the map */
} mlx_map_string_to_string_iterator;

/* A walk that starts before the first entry. */
MLX_API mlx_map_string_to_string_iterator mlx_map_string_to_string_iterator_new(mlx_map_string_to_string map);

/* Releases the iterator, not the map. */
MLX_API int mlx_map_string_to_string_iterator_free(mlx_map_string_to_string_iterator it);

/* Steps to the next entry, whose `key` and `value` stay the map's.  Returns 2, without an error,
 * after the last entry. */
MLX_API int mlx_map_string_to_string_iterator_next(const char **key, const char **value,
                                                   mlx_map_string_to_string_iterator it);

#ifdef __cplusplus
}
#endif

#endif
