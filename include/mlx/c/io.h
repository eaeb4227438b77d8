/* io.h: arrays in files.
 *
 * Loading reads what the file says of its arrays; they themselves are read, or mapped, when they are
 * evaluated (a reader of the caller's is read at once).  Saving evaluates, and writes to a new file
 * that takes the old one's place only when it is complete.  A malformed file is an error that says
 * what is wrong where, never a crash.  Functions return 0 for success; ownership, results and errors
 * as in array.h. */
#ifndef MLX_C_IO_H
#define MLX_C_IO_H

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/io_types.h"
#include "mlx/c/map.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One array in NumPy's npy format */

/* Reads an array from a reader. */
MLX_API int mlx_load_reader(mlx_array *res, mlx_io_reader in_stream, const mlx_stream s);

/* Reads the array in the file named. */
MLX_API int mlx_load(mlx_array *res, const char *file, const mlx_stream s);

/* Writes an array to a writer. */
MLX_API int mlx_save_writer(mlx_io_writer out_stream, const mlx_array a);

/* Writes an array to the file named; ".npy" is added to a name that does not end so. */
MLX_API int mlx_save(const char *file, const mlx_array a);

/* Named arrays, and texts about them, in the safetensors format */

/* Reads the arrays into `res_0` and the texts into `res_1`, from a reader. */
MLX_API int mlx_load_safetensors_reader(mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1,
                                        mlx_io_reader in_stream, const mlx_stream s);

/* Reads the arrays into `res_0` and the texts into `res_1`, from the file named. */
MLX_API int mlx_load_safetensors(mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1, const char *file,
                                 const mlx_stream s);

/* Writes the arrays of `param` and the texts of `metadata` to a writer. */
MLX_API int mlx_save_safetensors_writer(mlx_io_writer in_stream, const mlx_map_string_to_array param,
                                        const mlx_map_string_to_string metadata);

/* Writes the arrays of `param` and the texts of `metadata` to the file named; ".safetensors" is
 * added to a name that does not end so.  Here and above an empty handle of metadata stands for no
 * texts. */
MLX_API int mlx_save_safetensors(const char *file, const mlx_map_string_to_array param,
                                 const mlx_map_string_to_string metadata);

/* Named arrays, and values about them, in the gguf format, versions 2 and 3 */

/* Reads the file named.  Tensors of types F32, F16, BF16, F64 and I8 to I64 are arrays of those types.
 * Q8_0, Q4_0 and Q4_1 become three arrays as mlx_quantize makes them, in groups of 32: packed numbers
 * under the name, and in place of its ".weight" (or behind it) ".scales" and ".biases"; MXFP4 the first
 * two of them, as in mode "mxfp4".  Q5_0, Q5_1, Q2_K to Q6_K, Q8_K and IQ4_NL become float16. */
MLX_API int mlx_load_gguf(mlx_io_gguf *gguf, const char *file, const mlx_stream s);

/* Writes version 3 to the file named; ".gguf" is added to a name that does not end so.  Arrays may have
 * the types of the first sentence above. */
MLX_API int mlx_save_gguf(const char *file, mlx_io_gguf gguf);

#ifdef __cplusplus
}
#endif

#endif
