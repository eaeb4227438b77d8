/* c_fast.c: operations with kernels of their own. */
#include <string.h>

#include "capi/capi.h"
#include "ops/ops.h"

#define LAYER_NORM(name, number)                                                                          \
    int name(mlx_array *res, const mlx_array x, const mlx_array weight, const mlx_array bias, number eps, \
             const mlx_stream s)                                                                          \
    {                                                                                                     \
        MX_SCOPE(capi_stream(s));                                                                         \
        mx y = mx_layer_norm(capi_in(x), capi_opt(weight), capi_opt(bias), (double)eps);                  \
        return capi_publish(res, y);                                                                      \
    }
LAYER_NORM(mlx_fast_layer_norm, float)
LAYER_NORM(mlx_fast_layer_norm_double, double)

#define RMS_NORM(name, number)                                                                          \
    int name(mlx_array *res, const mlx_array x, const mlx_array weight, number eps, const mlx_stream s) \
    {                                                                                                   \
        MX_SCOPE(capi_stream(s));                                                                       \
        return capi_publish(res, mx_rms_norm(capi_in(x), capi_opt(weight), (double)eps));               \
    }
RMS_NORM(mlx_fast_rms_norm, float)
RMS_NORM(mlx_fast_rms_norm_double, double)

int mlx_group_norm(mlx_vector_array *res, const mlx_array x, const mlx_array weight, const mlx_array bias, int groups,
                   bool neighbours, bool whole, double eps, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx parts[3];
    mx_group_norm(capi_in(x), capi_opt(weight), capi_opt(bias), groups, neighbours, whole, eps, parts);
    return capi_publish_list(res, capi_list_of(3, parts));
}

int mlx_fast_rope(mlx_array *res, const mlx_array x, int dims, bool traditional, mlx_optional_float base, float scale,
                  int offset, const mlx_array freqs, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    double b = (double)base.value;
    return capi_publish(res, mx_rope(capi_in(x), dims, traditional, base.has_value ? &b : NULL, (double)scale,
                                     array_of_int(offset, DT_int32), capi_opt(freqs)));
}

int mlx_fast_rope_dynamic(mlx_array *res, const mlx_array x, int dims, bool traditional, mlx_optional_float base,
                          float scale, const mlx_array offset, const mlx_array freqs, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    double b = (double)base.value;
    return capi_publish(res, mx_rope(capi_in(x), dims, traditional, base.has_value ? &b : NULL, (double)scale,
                                     capi_in(offset), capi_opt(freqs)));
}

int mlx_fast_rope_double(mlx_array *res, const mlx_array x, int dims, bool traditional, const double *base,
                         double scale, const mlx_array offset, const mlx_array freqs, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_rope(capi_in(x), dims, traditional, base, scale, capi_in(offset), capi_opt(freqs)));
}

int mlx_fast_gated_delta_update(mlx_vector_array *res, const mlx_array q, const mlx_array k, const mlx_array v,
                                const mlx_array gamma, const mlx_array beta, const mlx_array initial_state,
                                const mlx_array mask, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx y[2];
    mx_gated_delta(capi_in(q), capi_in(k), capi_in(v), capi_in(gamma), capi_in(beta), capi_opt(initial_state),
                   capi_opt(mask), y);
    return capi_publish_list(res, capi_list_of(2, y));
}

int mlx_recurrent(mlx_vector_array *res, const char *kind, const mlx_array x, const mlx_array weights,
                  const mlx_array bias, const mlx_array hidden, const mlx_array cell, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const char *name = capi_given(kind, "a kind");
    if (!name)
        return capi_report();
    mx y[2];
    mx_recurrent(name, capi_in(x), capi_in(weights), capi_opt(bias), capi_opt(hidden), capi_opt(cell), y);
    return capi_publish_list(res, capi_list_of(strcmp(name, "lstm") ? 1 : 2, y));
}

int mlx_fast_cross_entropy(mlx_array *res, const mlx_array logits, const mlx_array targets, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_cross_entropy(capi_in(logits), capi_in(targets)));
}

#define ATTENTION(name, number)                                                                                   \
    int name(mlx_array *res, const mlx_array queries, const mlx_array keys, const mlx_array values, number scale, \
             const char *mask_mode, const mlx_array mask_arr, const mlx_array sinks, const mlx_stream s)          \
    {                                                                                                             \
        MX_SCOPE(capi_stream(s));                                                                                 \
        const char *mode = mask_mode ? mask_mode : "";                                                            \
        bool causal = !strcmp(mode, "causal");                                                                    \
        if (!causal && *mode && strcmp(mode, "array"))                                                            \
            return capi_publish(res, mx_fail("[scaled_dot_product_attention] expected \"causal\" "                \
                                             "or an array for a mask, got \"%s\"",                                \
                                             mode));                                                              \
        mx y = mx_attention(capi_in(queries), capi_in(keys), capi_in(values), (double)scale, causal,              \
                            capi_opt(mask_arr), capi_opt(sinks));                                                 \
        return capi_publish(res, y);                                                                              \
    }
ATTENTION(mlx_fast_scaled_dot_product_attention, float)
ATTENTION(mlx_fast_scaled_dot_product_attention_double, double)
