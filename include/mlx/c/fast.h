/* fast.h: operations of neural networks that have kernels of their own.
 *
 * Half types are computed in float32 and rounded once.  Where an argument may be left out, an empty
 * handle says so.  Functions return 0 for success; ownership, results and errors as in array.h. */
#ifndef MLX_C_FAST_H
#define MLX_C_FAST_H

#include <stdbool.h>
#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/optional.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of `x`, its last axis, with mean 0 and variance 1, times `weight` plus `bias`: vectors as
 * long as a row, which may be left out. */
MLX_API int mlx_fast_layer_norm(mlx_array *res, const mlx_array x, const mlx_array weight, const mlx_array bias,
                                float eps, const mlx_stream s);

/* Rows of `x` with mean square 1, times `weight`, which may be left out. */
MLX_API int mlx_fast_rms_norm(mlx_array *res, const mlx_array x, const mlx_array weight, float eps, const mlx_stream s);

/* Rotates the first `dims` elements of the rows of `x` (B, ..., T, D), taken as points, by angles
 * that grow with the position: point i at position t turns by scale (offset + t) base^(-2i / dims),
 * or scale (offset + t) / freqs[i].  Exactly one of `base` and `freqs` is given.  A point is two
 * neighbours where `traditional`, else elements i and i + dims / 2. */
MLX_API int mlx_fast_rope(mlx_array *res, const mlx_array x, int dims, bool traditional, mlx_optional_float base,
                          float scale, int offset, const mlx_array freqs, const mlx_stream s);

/* The same with the offset in an integer array: one for all, or one for each of the B. */
MLX_API int mlx_fast_rope_dynamic(mlx_array *res, const mlx_array x, int dims, bool traditional,
                                  mlx_optional_float base, float scale, const mlx_array offset, const mlx_array freqs,
                                  const mlx_stream s);

/* softmax(scale Q K^T + mask) V of queries (B, N, T, D), keys (B, M, S, D) and values (B, M, S, E),
 * with N a multiple of M: N / M heads of queries share one of keys.  The result is (B, N, T, E).
 *
 * `mask_mode` is "" or "array", or "causal": then the last query sees every key and each one before
 * it one key less.  `mask_arr` broadcasts to (B, N, T, S) and is bool (true: the query sees the
 * key) or added to the scores.  `sinks` (N) are scores of keys without values. */
MLX_API int mlx_fast_scaled_dot_product_attention(mlx_array *res, const mlx_array queries, const mlx_array keys,
                                                  const mlx_array values, float scale, const char *mask_mode,
                                                  const mlx_array mask_arr, const mlx_array sinks, const mlx_stream s);

/* Kernels given as text.
 *
 * A kernel has a name, names of its inputs and outputs, and the body of a function, which is called once for
 * each point of a grid.  A config says how it is called: shape and dtype of each output, the grid, in points,
 * the threadgroup, and template arguments, which the body sees as types and constants.  Kernels and configs
 * are handles that their maker frees; a config may be changed and used again.  Names are identifiers, each
 * another.
 *
 * A kernel in C17 runs on the CPU.  It is compiled by the system's compiler (CC, or cc) when its result is
 * first needed, and runs with all rights of the process.  docs/custom_kernels.md tells what a body sees. */

/* How a kernel in C is called. */
typedef struct mlx_fast_cpu_kernel_config_ {
    void *ctx;
} mlx_fast_cpu_kernel_config;

/* An empty config. */
MLX_API mlx_fast_cpu_kernel_config mlx_fast_cpu_kernel_config_new(void);

/* Releases the handle and what the config keeps. */
MLX_API void mlx_fast_cpu_kernel_config_free(mlx_fast_cpu_kernel_config cls);

/* One more output, with the `size` dimensions at `shape`. */
MLX_API int mlx_fast_cpu_kernel_config_add_output_arg(mlx_fast_cpu_kernel_config cls, const int *shape, size_t size,
                                                      mlx_dtype dtype);

/* How many points there are along x, y and z; none where one of them is 0. */
MLX_API int mlx_fast_cpu_kernel_config_set_grid(mlx_fast_cpu_kernel_config cls, int grid1, int grid2, int grid3);

/* How many points along x, y and z make a threadgroup. */
MLX_API int mlx_fast_cpu_kernel_config_set_thread_group(mlx_fast_cpu_kernel_config cls, int thread1, int thread2,
                                                        int thread3);

/* What the elements of outputs are before the kernel runs; without it they are whatever was in memory. */
MLX_API int mlx_fast_cpu_kernel_config_set_init_value(mlx_fast_cpu_kernel_config cls, float value);

/* Whether the program around the body is printed when it runs. */
MLX_API int mlx_fast_cpu_kernel_config_set_verbose(mlx_fast_cpu_kernel_config cls, bool verbose);

/* One more template argument, a type. */
MLX_API int mlx_fast_cpu_kernel_config_add_template_arg_dtype(mlx_fast_cpu_kernel_config cls, const char *name,
                                                              mlx_dtype dtype);

/* One more template argument, a number. */
MLX_API int mlx_fast_cpu_kernel_config_add_template_arg_int(mlx_fast_cpu_kernel_config cls, const char *name,
                                                            int value);

/* One more template argument, 0 or 1. */
MLX_API int mlx_fast_cpu_kernel_config_add_template_arg_bool(mlx_fast_cpu_kernel_config cls, const char *name,
                                                             bool value);

/* How far the compiler may go with floating-point numbers: "safe", the default, not at all; "relaxed" as if
 * sums could be taken in any order; "fast" as if there were neither infinities nor NaN as well. */
MLX_API int mlx_fast_cpu_kernel_config_set_math_mode(mlx_fast_cpu_kernel_config cls, const char *mode);

/* A kernel in C. */
typedef struct mlx_fast_cpu_kernel_ {
    void *ctx;
} mlx_fast_cpu_kernel;

/* A kernel of the body `source` behind `header`, which may be NULL. With `ensure_row_contiguous` inputs are
 * copied where their elements do not lie row-major without gaps.
 * `atomic_outputs` declares outputs that several points add to. An empty handle after an error. */
MLX_API mlx_fast_cpu_kernel mlx_fast_cpu_kernel_new(const char *name, const mlx_vector_string input_names,
                                                    const mlx_vector_string output_names, const char *source,
                                                    const char *header, bool ensure_row_contiguous,
                                                    bool atomic_outputs);

/* Releases the handle; calls that are not evaluated yet keep what they need. */
MLX_API void mlx_fast_cpu_kernel_free(mlx_fast_cpu_kernel cls);

/* Makes `outputs` a vector of the results of a kernel for `inputs`. */
MLX_API int mlx_fast_cpu_kernel_apply(mlx_vector_array *outputs, mlx_fast_cpu_kernel cls, const mlx_vector_array inputs,
                                      const mlx_fast_cpu_kernel_config config, const mlx_stream stream);

/* Kernels in CUDA C++, which run on an NVIDIA GPU where there is one; else to call one is an error.  NVRTC compiles a
 * source when the kernel is first needed.  docs/custom_kernels.md tells what a body sees. */

/* How a kernel in CUDA is called. */
typedef struct mlx_fast_cuda_kernel_config_ {
    void *ctx;
} mlx_fast_cuda_kernel_config;

/* An empty config. */
MLX_API mlx_fast_cuda_kernel_config mlx_fast_cuda_kernel_config_new(void);

/* Releases the handle and what the config keeps. */
MLX_API void mlx_fast_cuda_kernel_config_free(mlx_fast_cuda_kernel_config cls);

/* One more output, with the `size` dimensions at `shape`. */
MLX_API int mlx_fast_cuda_kernel_config_add_output_arg(mlx_fast_cuda_kernel_config cls, const int *shape, size_t size,
                                                       mlx_dtype dtype);

/* How many points there are along x, y and z; none where one of them is 0. */
MLX_API int mlx_fast_cuda_kernel_config_set_grid(mlx_fast_cuda_kernel_config cls, int grid1, int grid2, int grid3);

/* How many points along x, y and z make a threadgroup. */
MLX_API int mlx_fast_cuda_kernel_config_set_thread_group(mlx_fast_cuda_kernel_config cls, int thread1, int thread2,
                                                         int thread3);

/* What the elements of outputs are before the kernel runs; without it they are whatever was in memory. */
MLX_API int mlx_fast_cuda_kernel_config_set_init_value(mlx_fast_cuda_kernel_config cls, float value);

/* Whether the program around the body is printed when it runs. */
MLX_API int mlx_fast_cuda_kernel_config_set_verbose(mlx_fast_cuda_kernel_config cls, bool verbose);

/* One more template argument, a type. */
MLX_API int mlx_fast_cuda_kernel_config_add_template_arg_dtype(mlx_fast_cuda_kernel_config cls, const char *name,
                                                               mlx_dtype dtype);

/* One more template argument, a number. */
MLX_API int mlx_fast_cuda_kernel_config_add_template_arg_int(mlx_fast_cuda_kernel_config cls, const char *name,
                                                             int value);

/* One more template argument, 0 or 1. */
MLX_API int mlx_fast_cuda_kernel_config_add_template_arg_bool(mlx_fast_cuda_kernel_config cls, const char *name,
                                                              bool value);

/* One more argument behind inputs and outputs, for a precompiled kernel: an int of 32 bits. */
MLX_API int mlx_fast_cuda_kernel_config_add_scalar_int(mlx_fast_cuda_kernel_config cls, int value);

/* One more argument behind inputs and outputs, for a precompiled kernel: a float. */
MLX_API int mlx_fast_cuda_kernel_config_add_scalar_float(mlx_fast_cuda_kernel_config cls, float value);

/* One more argument behind inputs and outputs, for a precompiled kernel: a bool. */
MLX_API int mlx_fast_cuda_kernel_config_add_scalar_bool(mlx_fast_cuda_kernel_config cls, bool value);

/* A kernel in CUDA. */
typedef struct mlx_fast_cuda_kernel_ {
    void *ctx;
} mlx_fast_cuda_kernel;

/* A kernel of the body `source` behind `header`, which may be NULL. With `ensure_row_contiguous` inputs are
 * copied where their elements do not lie row-major without gaps.
 * `shared_memory` is the dynamic shared memory, in bytes. An empty handle after an error. */
MLX_API mlx_fast_cuda_kernel mlx_fast_cuda_kernel_new(const char *name, const mlx_vector_string input_names,
                                                      const mlx_vector_string output_names, const char *source,
                                                      const char *header, bool ensure_row_contiguous,
                                                      int shared_memory);

/* The kernel `name` of the image of `size` bytes, which is copied: PTX, or a cubin or fatbin.  It is called with the
 * addresses of inputs and outputs and then the scalars.  An empty handle after an error. */
MLX_API mlx_fast_cuda_kernel mlx_fast_cuda_kernel_new_precompiled(const char *name, size_t num_inputs,
                                                                  size_t num_outputs, const void *image, size_t size,
                                                                  bool ensure_row_contiguous, int shared_memory);

/* Releases the handle; calls that are not evaluated yet keep what they need. */
MLX_API void mlx_fast_cuda_kernel_free(mlx_fast_cuda_kernel cls);

/* Makes `outputs` a vector of the results of a kernel for `inputs`. */
MLX_API int mlx_fast_cuda_kernel_apply(mlx_vector_array *outputs, mlx_fast_cuda_kernel cls,
                                       const mlx_vector_array inputs, const mlx_fast_cuda_kernel_config config,
                                       const mlx_stream stream);

/* Kernels in Metal, which are kept and checked; to call one is an error, for there is no Metal in this build. */

/* How a kernel in Metal is called. */
typedef struct mlx_fast_metal_kernel_config_ {
    void *ctx;
} mlx_fast_metal_kernel_config;

/* An empty config. */
MLX_API mlx_fast_metal_kernel_config mlx_fast_metal_kernel_config_new(void);

/* Releases the handle and what the config keeps. */
MLX_API void mlx_fast_metal_kernel_config_free(mlx_fast_metal_kernel_config cls);

/* One more output, with the `size` dimensions at `shape`. */
MLX_API int mlx_fast_metal_kernel_config_add_output_arg(mlx_fast_metal_kernel_config cls, const int *shape, size_t size,
                                                        mlx_dtype dtype);

/* How many points there are along x, y and z; none where one of them is 0. */
MLX_API int mlx_fast_metal_kernel_config_set_grid(mlx_fast_metal_kernel_config cls, int grid1, int grid2, int grid3);

/* How many points along x, y and z make a threadgroup. */
MLX_API int mlx_fast_metal_kernel_config_set_thread_group(mlx_fast_metal_kernel_config cls, int thread1, int thread2,
                                                          int thread3);

/* What the elements of outputs are before the kernel runs; without it they are whatever was in memory. */
MLX_API int mlx_fast_metal_kernel_config_set_init_value(mlx_fast_metal_kernel_config cls, float value);

/* Whether the program around the body is printed when it runs. */
MLX_API int mlx_fast_metal_kernel_config_set_verbose(mlx_fast_metal_kernel_config cls, bool verbose);

/* One more template argument, a type. */
MLX_API int mlx_fast_metal_kernel_config_add_template_arg_dtype(mlx_fast_metal_kernel_config cls, const char *name,
                                                                mlx_dtype dtype);

/* One more template argument, a number. */
MLX_API int mlx_fast_metal_kernel_config_add_template_arg_int(mlx_fast_metal_kernel_config cls, const char *name,
                                                              int value);

/* One more template argument, 0 or 1. */
MLX_API int mlx_fast_metal_kernel_config_add_template_arg_bool(mlx_fast_metal_kernel_config cls, const char *name,
                                                               bool value);

/* A kernel in Metal. */
typedef struct mlx_fast_metal_kernel_ {
    void *ctx;
} mlx_fast_metal_kernel;

/* A kernel of the body `source` behind `header`, which may be NULL. With `ensure_row_contiguous` inputs are
 * copied where their elements do not lie row-major without gaps.
 * `atomic_outputs` declares outputs that several points add to. An empty handle after an error. */
MLX_API mlx_fast_metal_kernel mlx_fast_metal_kernel_new(const char *name, const mlx_vector_string input_names,
                                                        const mlx_vector_string output_names, const char *source,
                                                        const char *header, bool ensure_row_contiguous,
                                                        bool atomic_outputs);

/* Releases the handle; calls that are not evaluated yet keep what they need. */
MLX_API void mlx_fast_metal_kernel_free(mlx_fast_metal_kernel cls);

/* Makes `outputs` a vector of the results of a kernel for `inputs`. */
MLX_API int mlx_fast_metal_kernel_apply(mlx_vector_array *outputs, mlx_fast_metal_kernel cls,
                                        const mlx_vector_array inputs, const mlx_fast_metal_kernel_config config,
                                        const mlx_stream stream);

#ifdef __cplusplus
}
#endif

#endif
