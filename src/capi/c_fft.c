/* c_fft.c: discrete Fourier transforms. */
#include "capi/capi.h"
#include "ops/ops.h"

/* Lists are there where they have a length, and have at most one number for each dimension. */
static bool good_fft(const char *func, mlx_fft_norm norm, const int *n, size_t n_num, const int *axes, size_t axes_num)
{
    if (n_num && !capi_need(func, "a list of numbers", "n", n))
        return false;
    if (axes_num && !capi_need(func, "a list of numbers", "axes", axes))
        return false;
    if ((unsigned)norm > MLX_FFT_NORM_FORWARD)
        mx_fail("[%s] expected a norm, got %d", func + 8, (int)norm);
    else if (n_num > MX_MAX_NDIM || axes_num > MX_MAX_NDIM)
        mx_fail("[%s] expected at most %d numbers in `n` and `axes`", func + 8, MX_MAX_NDIM);
    else
        return true;
    return false;
}

#define ONE_AXIS(name, kind, inverse)                                                                                  \
    int mlx_fft_##name(mlx_array *res, const mlx_array a, int n, int axis, mlx_fft_norm norm, const mlx_stream s)      \
    {                                                                                                                  \
        MX_SCOPE(capi_stream(s));                                                                                      \
        bool fine = good_fft(__func__, norm, &n, 1, &axis, 1);                                                         \
        return capi_publish(res,                                                                                       \
                            fine ? mx_fftn(capi_in(a), kind, inverse, &n, 1, &axis, 1, (enum fft_norm)norm) : MX_NIL); \
    }
ONE_AXIS(fft, FFT_COMPLEX, false)
ONE_AXIS(ifft, FFT_COMPLEX, true)
ONE_AXIS(rfft, FFT_REAL, false)
ONE_AXIS(irfft, FFT_HERMITIAN, true)

#define SEVERAL(name, kind, inverse)                                                                           \
    int mlx_fft_##name(mlx_array *res, const mlx_array a, const int *n, size_t n_num, const int *axes,         \
                       size_t axes_num, mlx_fft_norm norm, const mlx_stream s)                                 \
    {                                                                                                          \
        MX_SCOPE(capi_stream(s));                                                                              \
        bool fine = good_fft(__func__, norm, n, n_num, axes, axes_num);                                        \
        return capi_publish(res, fine ? mx_fftn(capi_in(a), kind, inverse, n_num ? n : NULL, (int)n_num, axes, \
                                                (int)axes_num, (enum fft_norm)norm)                            \
                                      : MX_NIL);                                                               \
    }
SEVERAL(fft2, FFT_COMPLEX, false)
SEVERAL(ifft2, FFT_COMPLEX, true)
SEVERAL(rfft2, FFT_REAL, false)
SEVERAL(irfft2, FFT_HERMITIAN, true)
SEVERAL(fftn, FFT_COMPLEX, false)
SEVERAL(ifftn, FFT_COMPLEX, true)
SEVERAL(rfftn, FFT_REAL, false)
SEVERAL(irfftn, FFT_HERMITIAN, true)

int mlx_fft_fftfreq(mlx_array *res, int n, double d, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_fftfreq(n, d, false, DT_float32));
}

int mlx_fft_rfftfreq(mlx_array *res, int n, double d, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_fftfreq(n, d, true, DT_float32));
}

#define SHIFT(name, back)                                                                                       \
    int mlx_fft_##name(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s) \
    {                                                                                                           \
        MX_SCOPE(capi_stream(s));                                                                               \
        bool fine = good_fft(__func__, MLX_FFT_NORM_BACKWARD, NULL, 0, axes, axes_num);                         \
        return capi_publish(res, fine ? mx_fftshift(capi_in(a), axes, (int)axes_num, back) : MX_NIL);           \
    }
SHIFT(fftshift, false)
SHIFT(ifftshift, true)

static bool good_padding(int mode)
{
    if ((unsigned)mode > PAD_REFLECT)
        mx_fail("[stft] expected a pad_mode of 0, 1 or 2, got %d", mode);
    return !mx_failed();
}

int mlx_fft_stft(mlx_array *res, const mlx_array x, int n_fft, int hop_length, int win_length, const mlx_array window,
                 bool center, int pad_mode, mlx_fft_norm norm, int onesided, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    bool fine = good_fft(__func__, norm, NULL, 0, NULL, 0) && good_padding(pad_mode);
    return capi_publish(res, fine ? mx_stft(capi_in(x), n_fft, hop_length, win_length, capi_opt(window), center,
                                            (enum pad_mode)pad_mode, (enum fft_norm)norm, onesided)
                                  : MX_NIL);
}

int mlx_fft_istft(mlx_array *res, const mlx_array stft_matrix, int n_fft, int hop_length, int win_length,
                  const mlx_array window, bool center, mlx_fft_norm norm, bool onesided, int length, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    bool fine = good_fft(__func__, norm, NULL, 0, NULL, 0);
    return capi_publish(res, fine ? mx_istft(capi_in(stft_matrix), n_fft, hop_length, win_length, capi_opt(window),
                                             center, (enum fft_norm)norm, onesided, length)
                                  : MX_NIL);
}
