/* c_quantize.c: packed weights, and products of matrices picked by index or cut up. */
#include "capi/capi.h"
#include "ops/ops.h"

#define MODE(mode) ((const char *)capi_given(mode, "a mode"))
#define USUAL(v) ((v).has_value ? (v).value : QUANT_USUAL)
#define GROUP USUAL(group_size), USUAL(bits)

static bool quantize_dtype(const char *op, mlx_dtype t)
{
    if ((unsigned)t <= MLX_COMPLEX64)
        return true;
    mx_fail("[%s] expected a dtype, got the number %d", op, (int)t);
    return false;
}

int mlx_quantize(mlx_vector_array *res, const mlx_array w, mlx_optional_int group_size, mlx_optional_int bits,
                 const char *mode, const mlx_array global_scale, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const char *m = MODE(mode);
    mx part[3];
    int n = m ? mx_quantize(capi_in(w), GROUP, m, capi_opt(global_scale), part) : -1;
    return capi_publish_list(res, n < 0 ? NULL : capi_list_of(n, part));
}

int mlx_dequantize(mlx_array *res, const mlx_array w, const mlx_array scales, const mlx_array biases,
                   mlx_optional_int group_size, mlx_optional_int bits, const char *mode, const mlx_array global_scale,
                   mlx_optional_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const char *m = MODE(mode);
    enum dtype t = (enum dtype)dtype.value;
    if (!m || (dtype.has_value && !quantize_dtype("dequantize", dtype.value)))
        return capi_report();
    return capi_publish(res, mx_dequantize(capi_in(w), capi_in(scales), capi_opt(biases), GROUP, m,
                                           capi_opt(global_scale), dtype.has_value ? &t : NULL));
}

int mlx_quantized_matmul(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array scales,
                         const mlx_array biases, bool transpose, mlx_optional_int group_size, mlx_optional_int bits,
                         const char *mode, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const char *m = MODE(mode);
    return capi_publish(
        res, m ? mx_quantized_matmul(capi_in(x), capi_in(w), capi_in(scales), capi_opt(biases), transpose, GROUP, m)
               : MX_NIL);
}

int mlx_gather_qmm_scaled(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array scales,
                          const mlx_array biases, const mlx_array lhs_indices, const mlx_array rhs_indices,
                          bool transpose, mlx_optional_int group_size, mlx_optional_int bits, const char *mode,
                          const mlx_array global_scale, bool sorted_indices, const mlx_stream s)
{
    (void)sorted_indices; /* pairs are grouped in any case */
    MX_SCOPE(capi_stream(s));
    const char *m = MODE(mode);
    return capi_publish(res, m ? mx_gather_qmm(capi_in(x), capi_in(w), capi_in(scales), capi_opt(biases),
                                               capi_opt(lhs_indices), capi_opt(rhs_indices), transpose, GROUP, m,
                                               capi_opt(global_scale))
                               : MX_NIL);
}

int mlx_gather_qmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array scales, const mlx_array biases,
                   const mlx_array lhs_indices, const mlx_array rhs_indices, bool transpose,
                   mlx_optional_int group_size, mlx_optional_int bits, const char *mode, bool sorted_indices,
                   const mlx_stream s)
{
    return mlx_gather_qmm_scaled(res, x, w, scales, biases, lhs_indices, rhs_indices, transpose, group_size, bits, mode,
                                 mlx_array_empty, sorted_indices, s);
}

int mlx_qqmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array w_scales,
             mlx_optional_int group_size, mlx_optional_int bits, const char *mode, const mlx_array global_scale_x,
             const mlx_array global_scale_w, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const char *m = MODE(mode);
    return capi_publish(res, m ? mx_qqmm(capi_in(x), capi_in(w), capi_opt(w_scales), GROUP, m, capi_opt(global_scale_x),
                                         capi_opt(global_scale_w))
                               : MX_NIL);
}

int mlx_gather_qqmm(mlx_array *res, const mlx_array x, const mlx_array w, const mlx_array w_scales,
                    const mlx_array lhs_indices, const mlx_array rhs_indices, mlx_optional_int group_size,
                    mlx_optional_int bits, const char *mode, const mlx_array global_scale_x,
                    const mlx_array global_scale_w, bool sorted_indices, const mlx_stream s)
{
    (void)sorted_indices;
    MX_SCOPE(capi_stream(s));
    const char *m = MODE(mode);
    return capi_publish(res, m ? mx_gather_qqmm(capi_in(x), capi_in(w), capi_opt(w_scales), capi_opt(lhs_indices),
                                                capi_opt(rhs_indices), GROUP, m, capi_opt(global_scale_x),
                                                capi_opt(global_scale_w))
                               : MX_NIL);
}

int mlx_to_fp8(mlx_array *res, const mlx_array x, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_to_fp8(capi_in(x)));
}

int mlx_from_fp8(mlx_array *res, const mlx_array x, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (!quantize_dtype("from_fp8", dtype))
        return capi_report();
    return capi_publish(res, mx_from_fp8(capi_in(x), (enum dtype)dtype));
}

int mlx_gather_mm(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_array lhs_indices,
                  const mlx_array rhs_indices, bool sorted_indices, const mlx_stream s)
{
    (void)sorted_indices;
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_gather_mm(capi_in(a), capi_in(b), capi_opt(lhs_indices), capi_opt(rhs_indices)));
}

int mlx_segmented_mm(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_array segments, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_segmented_mm(capi_in(a), capi_in(b), capi_in(segments)));
}

int mlx_block_masked_mm(mlx_array *res, const mlx_array a, const mlx_array b, int block_size, const mlx_array mask_out,
                        const mlx_array mask_lhs, const mlx_array mask_rhs, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_block_masked_mm(capi_in(a), capi_in(b), block_size, capi_opt(mask_out),
                                                capi_opt(mask_lhs), capi_opt(mask_rhs)));
}

int mlx_hadamard_transform(mlx_array *res, const mlx_array a, mlx_optional_float scale, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    double v = scale.value;
    return capi_publish(res, mx_hadamard_transform(capi_in(a), scale.has_value ? &v : NULL));
}
