/* metal.h: Apple GPUs, which this library does not drive.
 *
 * The functions are here for programs that ask.  They return 0 for success; errors as in
 * array.h. */
#ifndef MLX_C_METAL_H
#define MLX_C_METAL_H

#include <stdbool.h>

#include "mlx/c/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether Metal can be used: always false. */
MLX_API int mlx_metal_is_available(bool *res);

/* Would record the GPU's commands into the file `path`; does nothing. */
MLX_API int mlx_metal_start_capture(const char *path);

/* Would end the recording; does nothing. */
MLX_API int mlx_metal_stop_capture(void);

#ifdef __cplusplus
}
#endif

#endif
