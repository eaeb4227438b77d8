/* version.h: which library this is. */
#ifndef MLX_C_VERSION_H
#define MLX_C_VERSION_H

#include "mlx/c/api.h"
#include "mlx/c/string.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the version, such as "0.32.4", into `str_`, a handle that the caller frees. */
MLX_API int mlx_version(mlx_string *str_);

#ifdef __cplusplus
}
#endif

#endif
