/* cuda_libraries.h: NVIDIA's libraries that are used where they are found.
 *
 * The driver alone is needed.  Others are looked for when one is first of use, or asked about here: docs/cuda.md says
 * where.  Functions return 0 for success; results and errors as in array.h. */
#ifndef MLX_C_CUDA_LIBRARIES_H
#define MLX_C_CUDA_LIBRARIES_H

#include "mlx/c/api.h"
#include "mlx/c/string.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The names of those that are looked for, such as "cublasLt"; none where this library was built without CUDA. */
MLX_API int mlx_cuda_libraries(mlx_vector_string *names);

/* Where the library of that name was found, which version it is, and what is done by it: nothing where that is an
 * empty text.  All three are empty where it was not found. */
MLX_API int mlx_cuda_library(mlx_string *path, mlx_string *version, mlx_string *used_for, const char *name);

#ifdef __cplusplus
}
#endif

#endif
