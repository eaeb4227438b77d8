/* c_sort.c: orders, running folds and results whose shape depends on elements. */
#include <string.h>

#include "capi/capi.h"
#include "ops/ops.h"
#include "run/dynamic.h"

#define ORDER(name)                                                                        \
    int mlx_##name##_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s) \
    {                                                                                      \
        MX_SCOPE(capi_stream(s));                                                          \
        return capi_publish(res, mx_##name(capi_in(a), axis));                             \
    }                                                                                      \
    int mlx_##name(mlx_array *res, const mlx_array a, const mlx_stream s)                  \
    {                                                                                      \
        MX_SCOPE(capi_stream(s));                                                          \
        return capi_publish(res, mx_##name##_flat(capi_in(a)));                            \
    }
ORDER(sort)
ORDER(argsort)

#define PARTIAL_ORDER(name, number)                                                                    \
    int mlx_##name##_axis(mlx_array *res, const mlx_array a, int number, int axis, const mlx_stream s) \
    {                                                                                                  \
        MX_SCOPE(capi_stream(s));                                                                      \
        return capi_publish(res, mx_##name(capi_in(a), number, axis));                                 \
    }                                                                                                  \
    int mlx_##name(mlx_array *res, const mlx_array a, int number, const mlx_stream s)                  \
    {                                                                                                  \
        MX_SCOPE(capi_stream(s));                                                                      \
        return capi_publish(res, mx_##name##_flat(capi_in(a), number));                                \
    }
PARTIAL_ORDER(partition, kth)
PARTIAL_ORDER(argpartition, kth)
PARTIAL_ORDER(topk, k)

int mlx_median(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims, const mlx_stream s)
{
    static const int none[1];
    MX_SCOPE(capi_stream(s));
    if (axes_num > MX_MAX_NDIM)
        return capi_publish(res, mx_fail("[median] expected at most %d axes, got %zu", MX_MAX_NDIM, axes_num));
    if (axes_num && !capi_need(__func__, "a list of numbers", "axes", axes))
        return capi_report();
    return capi_publish(res, mx_median(capi_in(a), axes_num ? axes : none, (int)axes_num, keepdims));
}

int mlx_searchsorted(mlx_array *res, const mlx_array a, const mlx_array v, bool right, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_searchsorted(capi_in(a), capi_in(v), right));
}

#define SCAN(name, fold)                                                                                          \
    int mlx_##name(mlx_array *res, const mlx_array a, int axis, bool reverse, bool inclusive, const mlx_stream s) \
    {                                                                                                             \
        MX_SCOPE(capi_stream(s));                                                                                 \
        return capi_publish(res, mx_scan(capi_in(a), fold, axis, reverse, inclusive));                            \
    }
SCAN(cumsum, SCAN_SUM)
SCAN(cumprod, SCAN_PROD)
SCAN(cummin, SCAN_MIN)
SCAN(cummax, SCAN_MAX)
SCAN(logcumsumexp, SCAN_LOGSUMEXP)

int mlx_nonzero(mlx_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_places("nonzero", capi_in(a), "where(a, x, y), whose shape does not depend on them"));
}

int mlx_unique(mlx_vector_array *res, const mlx_array a, mlx_optional_int size, const mlx_array fill_value,
               const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx out[4];
    if (size.has_value)
        mx_unique(capi_in(a), size.value, capi_opt(fill_value), out);
    else
        mx_unique_all(capi_in(a), out);
    return capi_publish_list(res, capi_list_of(4, out));
}
