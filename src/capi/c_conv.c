/* c_conv.c: convolutions. */
#include "capi/capi.h"
#include "ops/ops.h"

static const int zeros[3], ones[3] = { 1, 1, 1 };

/* A number of a function for one spatial axis is for every axis, should the input have more. */
#define EVERY(v) ((const int[]){ v, v, v })

static int spatial_axes(mx x) { return x->ndim > 5 || x->ndim < 3 ? 1 : x->ndim - 2; }

/* Padded alike on both sides. */
static struct conv alike(int n, const int *stride, const int *padding, const int *dilation, int groups)
{
    return (struct conv){ .n = n,
                          .stride = stride,
                          .low = padding,
                          .high = padding,
                          .dilation = dilation,
                          .input_dilation = ones,
                          .groups = groups };
}

int mlx_conv1d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride, int padding, int dilation,
               int groups, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(input);
    struct conv g = alike(spatial_axes(x), EVERY(stride), EVERY(padding), EVERY(dilation), groups);
    return capi_publish(res, mx_conv("conv1d", x, capi_in(weight), &g));
}

int mlx_conv2d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0, int stride_1, int padding_0,
               int padding_1, int dilation_0, int dilation_1, int groups, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct conv g = alike(2, (int[]){ stride_0, stride_1 }, (int[]){ padding_0, padding_1 },
                          (int[]){ dilation_0, dilation_1 }, groups);
    return capi_publish(res, mx_conv("conv2d", capi_in(input), capi_in(weight), &g));
}

int mlx_conv3d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0, int stride_1, int stride_2,
               int padding_0, int padding_1, int padding_2, int dilation_0, int dilation_1, int dilation_2, int groups,
               const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct conv g = alike(3, (int[]){ stride_0, stride_1, stride_2 }, (int[]){ padding_0, padding_1, padding_2 },
                          (int[]){ dilation_0, dilation_1, dilation_2 }, groups);
    return capi_publish(res, mx_conv("conv3d", capi_in(input), capi_in(weight), &g));
}

int mlx_conv_transpose1d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride, int padding,
                         int dilation, int output_padding, int groups, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(input);
    struct conv g = alike(spatial_axes(x), EVERY(stride), EVERY(padding), EVERY(dilation), groups);
    return capi_publish(res, mx_conv_transpose("conv_transpose1d", x, capi_in(weight), &g, EVERY(output_padding)));
}

int mlx_conv_transpose2d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0, int stride_1,
                         int padding_0, int padding_1, int dilation_0, int dilation_1, int output_padding_0,
                         int output_padding_1, int groups, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct conv g = alike(2, (int[]){ stride_0, stride_1 }, (int[]){ padding_0, padding_1 },
                          (int[]){ dilation_0, dilation_1 }, groups);
    return capi_publish(res, mx_conv_transpose("conv_transpose2d", capi_in(input), capi_in(weight), &g,
                                               (int[]){ output_padding_0, output_padding_1 }));
}

int mlx_conv_transpose3d(mlx_array *res, const mlx_array input, const mlx_array weight, int stride_0, int stride_1,
                         int stride_2, int padding_0, int padding_1, int padding_2, int dilation_0, int dilation_1,
                         int dilation_2, int output_padding_0, int output_padding_1, int output_padding_2, int groups,
                         const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct conv g = alike(3, (int[]){ stride_0, stride_1, stride_2 }, (int[]){ padding_0, padding_1, padding_2 },
                          (int[]){ dilation_0, dilation_1, dilation_2 }, groups);
    return capi_publish(res, mx_conv_transpose("conv_transpose3d", capi_in(input), capi_in(weight), &g,
                                               (int[]){ output_padding_0, output_padding_1, output_padding_2 }));
}

/* A list of n numbers; one alone is for every axis, none means the default.  NULL after a failure. */
static const int *each_axis(const char *what, const int *v, size_t count, int n, const int *otherwise, int room[3])
{
    if (count == 0)
        return otherwise;
    if (!capi_need("mlx_conv_general", "a list of numbers", what, v))
        return NULL;
    if (count == (size_t)n)
        return v;
    if (count != 1) {
        mx_fail("[conv_general] expected one number or %d in `%s`, got %zu", n, what, count);
        return NULL;
    }
    for (int i = 0; i < n; i++) room[i] = v[0];
    return room;
}

int mlx_conv_general(mlx_array *res, const mlx_array input, const mlx_array weight, const int *stride,
                     size_t stride_num, const int *padding_lo, size_t padding_lo_num, const int *padding_hi,
                     size_t padding_hi_num, const int *kernel_dilation, size_t kernel_dilation_num,
                     const int *input_dilation, size_t input_dilation_num, int groups, bool flip, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(input), w = capi_in(weight);
    int n = x->ndim - 2, room[5][3];
    if (is_nil(x) || is_nil(w))
        return capi_report();
    if (n < 1 || n > 3) {
        mx_fail("[conv_general] expected an input (N, 1 to 3 spatial axes, C), got %d dimensions", x->ndim);
        return capi_report();
    }
    struct conv g = { .n = n, .groups = groups, .flip = flip };
#define EACH(v, otherwise, i) each_axis(#v, v, v##_num, n, otherwise, room[i])
    bool good = (g.stride = EACH(stride, ones, 0)) && (g.low = EACH(padding_lo, zeros, 1)) &&
                (g.high = EACH(padding_hi, zeros, 2)) && (g.dilation = EACH(kernel_dilation, ones, 3)) &&
                (g.input_dilation = EACH(input_dilation, ones, 4));
#undef EACH
    return capi_publish(res, good ? mx_conv("conv_general", x, w, &g) : MX_NIL);
}

int mlx_convolve(mlx_array *res, const mlx_array a, const mlx_array v, mlx_convolve_mode mode, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if ((unsigned)mode > MLX_CONVOLVE_VALID) {
        mx_fail("[convolve] expected a mode, got %d", (int)mode);
        return capi_report();
    }
    return capi_publish(res, mx_convolve(capi_in(a), capi_in(v), (enum conv_mode)mode));
}
