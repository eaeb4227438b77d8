/* fft.h: discrete Fourier transforms.
 *
 * Of any length, along any axes: y_k = sum_j x_j e^(-2 pi i j k / n), inverse ones with the other
 * sign.  What is not float32 or complex64 is converted to it.  Along an axis that is shorter than
 * its `n` the array is filled up with zeros, along a longer one cut.  Without `n` (NULL or n_num
 * 0) lengths are those of the array, without `axes` (NULL) all axes are meant, or as many of the
 * last ones as there are lengths.
 *
 * Transforms of real arrays (rfft) have n / 2 + 1 numbers along the last of the axes: the others
 * are the conjugates of these.  Their inverse (irfft) is real, and n by default even.  Functions
 * return 0 for success; ownership, results and errors as in array.h. */
#ifndef MLX_C_FFT_H
#define MLX_C_FFT_H

#include <stddef.h>

#include "mlx/c/api.h"
#include "mlx/c/array.h"
#include "mlx/c/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the division by the number n of elements is. */
typedef enum mlx_fft_norm_ {
    MLX_FFT_NORM_BACKWARD = 0, /* in the inverse transform */
    MLX_FFT_NORM_ORTHO = 1,    /* its square root in both */
    MLX_FFT_NORM_FORWARD = 2,  /* in the forward transform */
} mlx_fft_norm;

/* Along one axis */

/* The transform along `axis`, of length `n`; complex64. */
MLX_API int mlx_fft_fft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm, const mlx_stream s);

/* Its inverse. */
MLX_API int mlx_fft_ifft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm, const mlx_stream s);

/* The transform of real numbers: n / 2 + 1 numbers along `axis`, complex64. */
MLX_API int mlx_fft_rfft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm, const mlx_stream s);

/* Its inverse: `n` real numbers along `axis`, float32. */
MLX_API int mlx_fft_irfft(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm, const mlx_stream s);

/* Along two axes */

/* The transform along two axes, usually the last: { -2, -1 }; complex64. */
MLX_API int mlx_fft_fft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                         size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* Its inverse. */
MLX_API int mlx_fft_ifft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                          size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* The transform of real numbers along two axes; the last one named has n / 2 + 1 numbers. */
MLX_API int mlx_fft_rfft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                          size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* Its inverse, float32. */
MLX_API int mlx_fft_irfft2(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                           size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* Along any axes */

/* The transform along all of the axes; complex64. */
MLX_API int mlx_fft_fftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                         size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* Its inverse. */
MLX_API int mlx_fft_ifftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                          size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* The transform of real numbers; the last axis named has n / 2 + 1 numbers. */
MLX_API int mlx_fft_rfftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                          size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* Its inverse, float32. */
MLX_API int mlx_fft_irfftn(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,
                           size_t axes_num, mlx_fft_norm norm, const mlx_stream s);

/* Frequencies */

/* The n frequencies of a transform of samples `d` apart: from 0 up, then the negative ones. */
MLX_API int mlx_fft_fftfreq(mlx_array *res, int n, double d, const mlx_stream s);

/* The n / 2 + 1 frequencies of a transform of real samples. */
MLX_API int mlx_fft_rfftfreq(mlx_array *res, int n, double d, const mlx_stream s);

/* Rolls the zero frequency to the middle of the axes (NULL: of all). */
MLX_API int mlx_fft_fftshift(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s);

/* Rolls it back. */
MLX_API int mlx_fft_ifftshift(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s);

#ifdef __cplusplus
}
#endif

#endif
