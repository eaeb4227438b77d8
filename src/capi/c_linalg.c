/* c_linalg.c: linear algebra. */
#include "capi/capi.h"
#include "core/shape.h"
#include "ops/ops.h"

/* Axes with their number; an empty list is not taken for one left out. */
static bool axes(const char *func, const int **axis, size_t n)
{
    static const int none[1];
    if (n > MX_MAX_NDIM)
        mx_fail("[%s] expected at most %d axes, got %zu", func + 4, MX_MAX_NDIM, n);
    else if (n && !*axis)
        capi_refuse(func, "a list of axes", "axis", "NULL");
    else if (*axis && n == 0)
        *axis = none;
    return !mx_failed();
}
#define AXES axes(__func__, &axis, axis_num)

int mlx_linalg_norm(mlx_array *res, const mlx_array a, double ord, const int *axis, size_t axis_num, bool keepdims,
                    const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, AXES ? mx_norm(capi_in(a), ord, axis, (int)axis_num, keepdims) : MX_NIL);
}

int mlx_linalg_norm_matrix(mlx_array *res, const mlx_array a, const char *ord, const int *axis, size_t axis_num,
                           bool keepdims, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    bool ok = AXES && capi_given(ord, "the name of a norm");
    return capi_publish(res, ok ? mx_norm_named(capi_in(a), ord, axis, (int)axis_num, keepdims) : MX_NIL);
}

int mlx_linalg_norm_l2(mlx_array *res, const mlx_array a, const int *axis, size_t axis_num, bool keepdims,
                       const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, AXES ? mx_norm_l2(capi_in(a), axis, (int)axis_num, keepdims) : MX_NIL);
}

int mlx_linalg_cross(mlx_array *res, const mlx_array a, const mlx_array b, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_cross(capi_in(a), capi_in(b), axis));
}

#define UNARY(name, call)                                                        \
    int mlx_linalg_##name(mlx_array *res, const mlx_array a, const mlx_stream s) \
    {                                                                            \
        MX_SCOPE(capi_stream(s));                                                \
        return capi_publish(res, call(capi_in(a)));                              \
    }
UNARY(inv, mx_inv)
UNARY(pinv, mx_pinv)
UNARY(det, mx_det)
UNARY(eigvals, mx_eigvals)

#define TRIANGLE(name)                                                                       \
    int mlx_linalg_##name(mlx_array *res, const mlx_array a, bool upper, const mlx_stream s) \
    {                                                                                        \
        MX_SCOPE(capi_stream(s));                                                            \
        return capi_publish(res, mx_##name(capi_in(a), upper));                              \
    }
TRIANGLE(tri_inv)
TRIANGLE(cholesky)
TRIANGLE(cholesky_inv)

#define TWO(name)                                                                                    \
    int mlx_linalg_##name(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const mlx_stream s) \
    {                                                                                                \
        MX_SCOPE(capi_stream(s));                                                                    \
        mx y[2];                                                                                     \
        mx_##name(capi_in(a), y);                                                                    \
        return capi_publish_both(CAPI_HALF(array, res_0, y[0]), CAPI_HALF(array, res_1, y[1]));      \
    }
TWO(slogdet)
TWO(qr)
TWO(lu_factor)
TWO(eig)

int mlx_linalg_solve(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_solve(capi_in(a), capi_in(b)));
}

int mlx_linalg_solve_triangular(mlx_array *res, const mlx_array a, const mlx_array b, bool upper, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_solve_triangular(capi_in(a), capi_in(b), upper));
}

int mlx_linalg_lu(mlx_vector_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx y[3];
    mx_lu(capi_in(a), y);
    return capi_publish_list(res, capi_list_of(3, y));
}

int mlx_linalg_svd(mlx_vector_array *res, const mlx_array a, bool compute_uv, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx y[3];
    mx_svd(capi_in(a), compute_uv ? SVD_FULL : SVD_VALUES, y);
    return capi_publish_list(res, capi_list_of(compute_uv ? 3 : 1, y));
}

int mlx_linalg_eigh(mlx_array *res_0, mlx_array *res_1, const mlx_array a, const char *UPLO, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx y[2] = { MX_NIL, MX_NIL };
    if (capi_given(UPLO, "\"L\" or \"U\""))
        mx_eigh(capi_in(a), UPLO, y);
    return capi_publish_both(CAPI_HALF(array, res_0, y[0]), CAPI_HALF(array, res_1, y[1]));
}

int mlx_linalg_eigvalsh(mlx_array *res, const mlx_array a, const char *UPLO, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, capi_given(UPLO, "\"L\" or \"U\"") ? mx_eigvalsh(capi_in(a), UPLO) : MX_NIL);
}
