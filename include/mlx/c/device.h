/* device.h: the processors that can compute.
 *
 * A mlx_device is a handle: whoever makes one frees it, copies of the struct are the same handle.
 * Functions that return int return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_DEVICE_H
#define MLX_C_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a device. */
typedef struct mlx_device_ {
    void *ctx;
} mlx_device;

/* The types of devices. */
typedef enum mlx_device_type_ {
    MLX_CPU, /* the processor, of which there is one whatever its cores */
    MLX_GPU, /* a graphics processor */
} mlx_device_type;

/* An empty handle, to be filled by the functions that take a mlx_device *. */
MLX_API mlx_device mlx_device_new(void);

/* The device of a type with a number, counted from 0. */
MLX_API mlx_device mlx_device_new_type(mlx_device_type type, int index);

/* Releases the handle. */
MLX_API int mlx_device_free(mlx_device dev);

/* Makes `dev` the device of `src`. */
MLX_API int mlx_device_set(mlx_device *dev, const mlx_device src);

/* Writes the device as text, "Device(cpu, 0)". */
MLX_API int mlx_device_tostring(mlx_string *str, mlx_device dev);

/* Whether both are the same device; two empty handles are equal. */
MLX_API bool mlx_device_equal(mlx_device lhs, mlx_device rhs);

/* The device's number among those of its type. */
MLX_API int mlx_device_get_index(int *index, mlx_device dev);

/* The device's type. */
MLX_API int mlx_device_get_type(mlx_device_type *type, mlx_device dev);

/* The device of streams that are not given one. */
MLX_API int mlx_get_default_device(mlx_device *dev);

/* Makes `dev` the default device. */
MLX_API int mlx_set_default_device(mlx_device dev);

/* Whether work can run on the device. */
MLX_API int mlx_device_is_available(bool *avail, mlx_device dev);

/* The number of devices of a type. */
MLX_API int mlx_device_count(int *count, mlx_device_type type);

/* Facts about a device, by name */

/* A handle with the facts about one device, freed with mlx_device_info_free. */
typedef struct mlx_device_info_ {
    void *ctx;
} mlx_device_info;

/* An empty handle for mlx_device_info_get. */
MLX_API mlx_device_info mlx_device_info_new(void);

/* Collects the facts about `dev`, "architecture" and "device_name" at the least; none about a device that is
 * not there. */
MLX_API int mlx_device_info_get(mlx_device_info *info, mlx_device dev);

/* Releases the handle. */
MLX_API int mlx_device_info_free(mlx_device_info info);

/* Whether there is a fact of that name. */
MLX_API int mlx_device_info_has_key(bool *exists, mlx_device_info info, const char *key);

/* Whether the fact is a text; else it is a number. */
MLX_API int mlx_device_info_is_string(bool *is_string, mlx_device_info info, const char *key);

/* A fact that is a text; it belongs to `info`. */
MLX_API int mlx_device_info_get_string(const char **value, mlx_device_info info, const char *key);

/* A fact that is a number. */
MLX_API int mlx_device_info_get_size(size_t *value, mlx_device_info info, const char *key);

/* The names of all facts. */
MLX_API int mlx_device_info_get_keys(mlx_vector_string *keys, mlx_device_info info);

#ifdef __cplusplus
}
#endif

#endif
