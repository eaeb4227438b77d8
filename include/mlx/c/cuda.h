/* cuda.h: NVIDIA GPUs.
 *
 * Functions return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_CUDA_H
#define MLX_C_CUDA_H

#include <stdbool.h>

#include "mlx/c/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a CUDA device can be used. */
MLX_API int mlx_cuda_is_available(bool *res);

#ifdef __cplusplus
}
#endif

#endif
