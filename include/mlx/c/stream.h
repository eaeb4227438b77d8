/* stream.h: queues of work.
 *
 * Work on one stream runs in order, work on different streams side by side; where a result of one
 * stream is used on another, the second waits by itself.  Every operation takes the stream it is to
 * run on; an empty handle stands for the default stream of the default device.
 *
 * A mlx_stream is a handle: whoever makes one frees it, copies of the struct are the same handle,
 * and freeing a handle does not end the stream's work.  Functions that return int return 0 for
 * success; results and errors as in array.h. */
#ifndef MLX_C_STREAM_H
#define MLX_C_STREAM_H

#include <stdbool.h>

#include "mlx/c/api.h"
#include "mlx/c/device.h"
#include "mlx/c/string.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a stream. */
typedef struct mlx_stream_ {
    void *ctx;
} mlx_stream;

/* An empty handle, to be filled by the functions that take a mlx_stream *. */
MLX_API mlx_stream mlx_stream_new(void);

/* A new stream on the device.  Where there is none that is an error, and the handle one with which every operation
 * fails, as are those below. */
MLX_API mlx_stream mlx_stream_new_device(mlx_device dev);

/* Makes `stream` the stream of `src`. */
MLX_API int mlx_stream_set(mlx_stream *stream, const mlx_stream src);

/* Releases the handle. */
MLX_API int mlx_stream_free(mlx_stream stream);

/* Writes the stream as text, "Stream(Device(cpu, 0), 0)". */
MLX_API int mlx_stream_tostring(mlx_string *str, mlx_stream stream);

/* Whether both are the same stream; two empty handles are equal. */
MLX_API bool mlx_stream_equal(mlx_stream lhs, mlx_stream rhs);

/* The device that the stream's work runs on. */
MLX_API int mlx_stream_get_device(mlx_device *dev, mlx_stream stream);

/* The stream's number. */
MLX_API int mlx_stream_get_index(int *index, mlx_stream stream);

/* Waits until all work given to the stream so far is done; fails when some of it failed. */
MLX_API int mlx_synchronize(mlx_stream stream);

/* The stream that work on `dev` goes to where none is named. */
MLX_API int mlx_get_default_stream(mlx_stream *stream, mlx_device dev);

/* Makes `stream` the default of its device, for the calling thread. */
MLX_API int mlx_set_default_stream(mlx_stream stream);

/* A handle of the CPU's default stream. */
MLX_API mlx_stream mlx_default_cpu_stream_new(void);

/* A handle of the GPU's default stream; with MLX_GPU=cpu in the environment it is the CPU's. */
MLX_API mlx_stream mlx_default_gpu_stream_new(void);

#ifdef __cplusplus
}
#endif

#endif
