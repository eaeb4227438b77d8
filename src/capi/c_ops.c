/* c_ops.c: the operations, one entry point each: unwrap, build, publish.
 *
 * The element-wise ones are stamped from the table; the header has a prototype for every row, and
 * -Wmissing-prototypes notices where one is forgotten. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "transform/graph.h"

#define UNARY(name, ...)                                                  \
    int mlx_##name(mlx_array *res, const mlx_array a, const mlx_stream s) \
    {                                                                     \
        MX_SCOPE(capi_stream(s));                                         \
        return capi_publish(res, mx_##name(capi_in(a)));                  \
    }
#define BINARY(name, ...)                                                                    \
    int mlx_##name(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) \
    {                                                                                        \
        MX_SCOPE(capi_stream(s));                                                            \
        return capi_publish(res, mx_##name(capi_in(a), capi_in(b)));                         \
    }
#include "ops/ops.def"

/* Those that are made of others have the same form. */
#define UNARY(name, ...)                                                  \
    int mlx_##name(mlx_array *res, const mlx_array a, const mlx_stream s) \
    {                                                                     \
        MX_SCOPE(capi_stream(s));                                         \
        return capi_publish(res, mx_##name(capi_in(a)));                  \
    }

UNARY(copy)
UNARY(degrees)
UNARY(isfinite)
UNARY(isinf)
UNARY(isnan)
UNARY(isneginf)
UNARY(isposinf)
UNARY(ones_like)
UNARY(radians)
UNARY(reciprocal)
UNARY(stop_gradient)
UNARY(zeros_like)

/* A list of ints with its length: never NULL, so that an empty one is not taken for one left out;
 * NULL after a failure. */
static const int *ints_up_to(size_t most, const char *func, const char *arg, const int *v, size_t n)
{
    static const int none[1];
    if (n == 0)
        return none;
    if (!capi_need(func, "a list of numbers", arg, v))
        return NULL;
    if (n <= most)
        return v;
    mx_fail("[%s] expected at most %zu numbers in `%s`, got %zu", func + 4, most, arg, n);
    return NULL;
}

/* At most one number for each dimension. */
static const int *ints(const char *func, const char *arg, const int *v, size_t n)
{
    return ints_up_to(MX_MAX_NDIM, func, arg, v, n);
}
#define INTS(v) ints(__func__, #v, v, v##_num)

/* Does a list have one number for each dimension of x? */
static bool number_per_dimension(const char *func, const char *arg, size_t n, mx x)
{
    if (is_nil(x) || n == (size_t)x->ndim)
        return !is_nil(x);
    mx_fail("[%s] expected one number in `%s` for each of the %d dimensions, got %zu", func + 4, arg, x->ndim, n);
    return false;
}
#define COVERS(v, x) (INTS(v) && number_per_dimension(__func__, #v, v##_num, x))

static bool is_dtype(const char *func, mlx_dtype t)
{
    if ((unsigned)t < DT_COUNT)
        return true;
    mx_fail_as(MX_TYPE, "[%s] expected a dtype, got %d", func + 4, (int)t);
    return false;
}
#define DTYPE(t) is_dtype(__func__, t)

/* Element-wise, with arguments */

int mlx_allclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol, double atol, bool equal_nan,
                 const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_allclose(capi_in(a), capi_in(b), rtol, atol, equal_nan));
}

int mlx_array_equal(mlx_array *res, const mlx_array a, const mlx_array b, bool equal_nan, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_array_equal(capi_in(a), capi_in(b), equal_nan));
}

int mlx_astype(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(dtype) ? mx_astype(capi_in(a), (enum dtype)dtype) : MX_NIL);
}

int mlx_clip(mlx_array *res, const mlx_array a, const mlx_array a_min, const mlx_array a_max, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_clip(capi_in(a), capi_opt(a_min), capi_opt(a_max)));
}

int mlx_contiguous(mlx_array *res, const mlx_array a, bool allow_col_major, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_contiguous(capi_in(a), allow_col_major));
}

int mlx_divmod(mlx_vector_array *res, const mlx_array a, const mlx_array b, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx out[2];
    mx_divmod(capi_in(a), capi_in(b), out);
    return capi_publish_list(res, capi_list_of(2, out));
}

int mlx_isclose(mlx_array *res, const mlx_array a, const mlx_array b, double rtol, double atol, bool equal_nan,
                const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_isclose(capi_in(a), capi_in(b), rtol, atol, equal_nan));
}

int mlx_nan_to_num(mlx_array *res, const mlx_array a, float nan, mlx_optional_float posinf, mlx_optional_float neginf,
                   const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    double high = posinf.value, low = neginf.value;
    return capi_publish(
        res, mx_nan_to_num(capi_in(a), nan, posinf.has_value ? &high : NULL, neginf.has_value ? &low : NULL));
}

int mlx_round(mlx_array *res, const mlx_array a, int decimals, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_round(capi_in(a), decimals));
}

int mlx_view(mlx_array *res, const mlx_array a, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(dtype) ? mx_view(capi_in(a), (enum dtype)dtype) : MX_NIL);
}

int mlx_where(mlx_array *res, const mlx_array condition, const mlx_array x, const mlx_array y, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_where(capi_in(condition), capi_in(x), capi_in(y)));
}

/* Making arrays */

int mlx_arange(mlx_array *res, double start, double stop, double step, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(dtype) ? mx_arange(start, stop, step, (enum dtype)dtype) : MX_NIL);
}

int mlx_eye(mlx_array *res, int n, int m, int k, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(dtype) ? mx_eye(n, m, k, (enum dtype)dtype) : MX_NIL);
}

int mlx_full(mlx_array *res, const int *shape, size_t shape_num, const mlx_array vals, mlx_dtype dtype,
             const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *sizes = INTS(shape);
    bool good = sizes && DTYPE(dtype);
    return capi_publish(res, good ? mx_full((int)shape_num, sizes, capi_in(vals), (enum dtype)dtype) : MX_NIL);
}

int mlx_full_like(mlx_array *res, const mlx_array a, const mlx_array vals, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    bool good = !is_nil(x) && DTYPE(dtype);
    return capi_publish(res, good ? mx_full_like(x, capi_in(vals), (enum dtype)dtype) : MX_NIL);
}

int mlx_identity(mlx_array *res, int n, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(dtype) ? mx_eye(n, n, 0, (enum dtype)dtype) : MX_NIL);
}

int mlx_linspace(mlx_array *res, double start, double stop, int num, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(dtype) ? mx_linspace(start, stop, num, true, (enum dtype)dtype) : MX_NIL);
}

int mlx_ones(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *sizes = INTS(shape);
    bool good = sizes && DTYPE(dtype);
    return capi_publish(res, good ? mx_ones((int)shape_num, sizes, (enum dtype)dtype) : MX_NIL);
}

int mlx_tri(mlx_array *res, int n, int m, int k, mlx_dtype type, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(type) ? mx_tri(n, m, k, (enum dtype)type) : MX_NIL);
}

int mlx_tril(mlx_array *res, const mlx_array x, int k, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_tril(capi_in(x), k));
}

int mlx_triu(mlx_array *res, const mlx_array x, int k, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_triu(capi_in(x), k));
}

int mlx_zeros(mlx_array *res, const int *shape, size_t shape_num, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *sizes = INTS(shape);
    bool good = sizes && DTYPE(dtype);
    return capi_publish(res, good ? mx_zeros((int)shape_num, sizes, (enum dtype)dtype) : MX_NIL);
}

/* Shapes */

/* x with dimensions of size 1 added to have at least n: in front, but a third one behind. */
static mx at_least(mx x, int n)
{
    static const int front[] = { 0, 1 }, behind[] = { -1 };
    if (x->ndim == 0 && n > 0)
        x = mx_expand_dims(x, front, 1);
    if (x->ndim == 1 && n > 1)
        x = mx_expand_dims(x, front, 1);
    if (x->ndim == 2 && n > 2)
        x = mx_expand_dims(x, behind, 1);
    return x;
}

int mlx_atleast_1d(mlx_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, at_least(capi_in(a), 1));
}

int mlx_atleast_2d(mlx_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, at_least(capi_in(a), 2));
}

int mlx_atleast_3d(mlx_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, at_least(capi_in(a), 3));
}

int mlx_as_strided(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num, const int64_t *strides,
                   size_t strides_num, size_t offset, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *sizes = INTS(shape);
    if (!sizes || (strides_num && !capi_given(strides, "a list of numbers")))
        return capi_report();
    if (strides_num != shape_num || offset > INT64_MAX) {
        mx_fail("[as_strided] expected one stride for each of the %zu dimensions and an offset "
                "below 2^63, got %zu strides and offset %zu",
                shape_num, strides_num, offset);
        return capi_report();
    }
    return capi_publish(res, mx_as_strided(capi_in(a), (int)shape_num, sizes, strides, (int64_t)offset));
}

int mlx_depends(mlx_vector_array *res, const mlx_vector_array inputs, const mlx_vector_array dependencies)
{
    MX_SCOPE(NULL);
    int n = 0, n_on = 0;
    mx *x = capi_in_arrays(inputs, &n);
    mx *on = x ? capi_in_arrays(dependencies, &n_on) : NULL;
    mx *y = on ? mx_malloc((size_t)(n + 1) * sizeof *y) : NULL;
    struct list *l = y && mx_depends(n, x, n_on, on, y) ? capi_list_of(n, y) : NULL;
    free(y);
    capi_arrays_free(n, x);
    capi_arrays_free(n_on, on);
    return capi_publish_list(res, l);
}

int mlx_broadcast_arrays(mlx_vector_array *res, const mlx_vector_array inputs, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    int n = 0;
    mx *x = capi_in_arrays(inputs, &n);
    mx *y = x ? mx_malloc((size_t)(n + 1) * sizeof *y) : NULL;
    struct list *l = NULL;
    if (y) {
        memcpy(y, x, (size_t)n * sizeof *y);
        if (n == 0 || mx_broadcast(n, y))
            l = capi_list_of(n, y);
    }
    free(y);
    capi_arrays_free(n, x);
    return capi_publish_list(res, l);
}

int mlx_broadcast_to(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *sizes = INTS(shape);
    return capi_publish(res, sizes ? mx_broadcast_to(capi_in(a), (int)shape_num, sizes) : MX_NIL);
}

int mlx_expand_dims_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *at = INTS(axes);
    return capi_publish(res, at ? mx_expand_dims(capi_in(a), at, (int)axes_num) : MX_NIL);
}

int mlx_expand_dims(mlx_array *res, const mlx_array a, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_expand_dims(capi_in(a), &axis, 1));
}

int mlx_flatten(mlx_array *res, const mlx_array a, int start_axis, int end_axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_flatten(capi_in(a), start_axis, end_axis));
}

int mlx_moveaxis(mlx_array *res, const mlx_array a, int source, int destination, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_moveaxis(capi_in(a), source, destination));
}

int mlx_number_of_elements(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, bool inverted,
                           mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *along = INTS(axes);
    bool good = along && DTYPE(dtype);
    return capi_publish(res, good ? mx_number_of_elements(capi_in(a), along, (int)axes_num, inverted, (enum dtype)dtype)
                                  : MX_NIL);
}

int mlx_reshape(mlx_array *res, const mlx_array a, const int *shape, size_t shape_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *sizes = INTS(shape);
    return capi_publish(res, sizes ? mx_reshape(capi_in(a), (int)shape_num, sizes) : MX_NIL);
}

int mlx_squeeze_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *at = INTS(axes);
    return capi_publish(res, at ? mx_squeeze(capi_in(a), at, (int)axes_num) : MX_NIL);
}

int mlx_squeeze_axis(mlx_array *res, const mlx_array a, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_squeeze(capi_in(a), &axis, 1));
}

int mlx_squeeze(mlx_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_squeeze(capi_in(a), NULL, 0));
}

int mlx_swapaxes(mlx_array *res, const mlx_array a, int axis1, int axis2, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_swapaxes(capi_in(a), axis1, axis2));
}

int mlx_transpose_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *order = INTS(axes);
    return capi_publish(res, order ? mx_transpose(capi_in(a), order, (int)axes_num) : MX_NIL);
}

int mlx_transpose(mlx_array *res, const mlx_array a, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_transpose(capi_in(a), NULL, 0));
}

int mlx_unflatten(mlx_array *res, const mlx_array a, int axis, const int *shape, size_t shape_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *sizes = INTS(shape);
    return capi_publish(res, sizes ? mx_unflatten(capi_in(a), axis, (int)shape_num, sizes) : MX_NIL);
}

/* Joining, splitting, padding */

typedef mx joiner(int n, const mx x[], int axis);

static int join_arrays(const char *func, joiner *f, mlx_array *res, mlx_vector_array arrays, int axis, mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    int n = 0;
    mx *x = capi_arrays(func, "arrays", arrays, &n);
    int failed = capi_publish_array(func, res, x ? f(n, x, axis) : MX_NIL);
    capi_arrays_free(n, x);
    return failed;
}

/* Without an axis the elements of all arrays follow each other. */
static mx concatenate_flat(int n, const mx x[], int axis)
{
    mx *flat = mx_malloc((size_t)(n + 1) * sizeof *flat);
    for (int i = 0; flat && i < n; i++) flat[i] = mx_flatten(x[i], 0, -1);
    mx y = flat ? mx_concatenate(n, flat, axis) : MX_NIL;
    free(flat);
    return y;
}

int mlx_concatenate_axis(mlx_array *res, const mlx_vector_array arrays, int axis, const mlx_stream s)
{
    return join_arrays(__func__, mx_concatenate, res, arrays, axis, s);
}

int mlx_concatenate(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s)
{
    return join_arrays(__func__, concatenate_flat, res, arrays, 0, s);
}

int mlx_stack_axis(mlx_array *res, const mlx_vector_array arrays, int axis, const mlx_stream s)
{
    return join_arrays(__func__, mx_stack, res, arrays, axis, s);
}

int mlx_stack(mlx_array *res, const mlx_vector_array arrays, const mlx_stream s)
{
    return join_arrays(__func__, mx_stack, res, arrays, 0, s);
}

int mlx_split(mlx_vector_array *res, const mlx_array a, int num_splits, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    if (mx_split_size(capi_in(a), num_splits, axis) < 0)
        return capi_report(); /* before room is made for as many parts as were asked for */
    mx *part = mx_malloc((size_t)num_splits * sizeof *part);
    int n = part ? mx_split(capi_in(a), num_splits, axis, part) : -1;
    struct list *l = n < 0 ? NULL : capi_list_of(n, part);
    free(part);
    return capi_publish_list(res, l);
}

int mlx_split_sections(mlx_vector_array *res, const mlx_array a, const int *indices, size_t indices_num, int axis,
                       const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    static const int none[1];
    if (!indices_num)
        indices = none;
    else if (!capi_given(indices, "a list of numbers"))
        return capi_report();
    if (indices_num >= INT_MAX) {
        mx_fail("[split_sections] expected fewer than %d indices, got %zu", INT_MAX, indices_num);
        return capi_report();
    }
    mx *part = mx_malloc((indices_num + 1) * sizeof *part);
    int n = part ? mx_split_at(capi_in(a), indices, (int)indices_num, axis, part) : -1;
    struct list *l = n < 0 ? NULL : capi_list_of(n, part);
    free(part);
    return capi_publish_list(res, l);
}

static int pad_mode_of(const char *func, const char *mode)
{
    static const char *const names[] = { "constant", "edge", "reflect", "symmetric" };
    if (!capi_need(func, "the name of a mode", "mode", mode))
        return -1;
    for (int i = 0; i < 4; i++)
        if (!strcmp(mode, names[i]))
            return i;
    mx_fail("[pad] expected mode \"constant\", \"edge\", \"reflect\" or \"symmetric\", got \"%s\"", mode);
    return -1;
}

static mx padded(const char *func, mx x, const int *axes, int n, const int *low, const int *high, mlx_array value,
                 const char *mode)
{
    int m = pad_mode_of(func, mode);
    if (m < 0 || is_nil(x))
        return MX_NIL;
    mx fill = value.ctx ? capi_opt(value) : mx_scalar_like(0, x);
    return mx_pad(x, axes, n, low, high, fill, (enum pad_mode)m);
}

int mlx_pad(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const int *low_pad_size,
            size_t low_pad_size_num, const int *high_pad_size, size_t high_pad_size_num, const mlx_array pad_value,
            const char *mode, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *at = INTS(axes), *low = INTS(low_pad_size), *high = INTS(high_pad_size);
    if (!at || !low || !high)
        return capi_report();
    if (low_pad_size_num != axes_num || high_pad_size_num != axes_num) {
        mx_fail("[pad] expected two sizes for each of the %zu axes, got %zu before and %zu after", axes_num,
                low_pad_size_num, high_pad_size_num);
        return capi_report();
    }
    return capi_publish(res, padded(__func__, capi_in(a), at, (int)axes_num, low, high, pad_value, mode));
}

int mlx_pad_symmetric(mlx_array *res, const mlx_array a, int pad_width, const mlx_array pad_value, const char *mode,
                      const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    int axes[MX_MAX_NDIM], width[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++) {
        axes[i] = i;
        width[i] = pad_width;
    }
    return capi_publish(res, padded(__func__, x, axes, x->ndim, width, width, pad_value, mode));
}

/* Slices */

int mlx_slice(mlx_array *res, const mlx_array a, const int *start, size_t start_num, const int *stop, size_t stop_num,
              const int *strides, size_t strides_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    bool good = COVERS(start, x) && COVERS(stop, x) && COVERS(strides, x);
    return capi_publish(res, good ? mx_slice(x, start, stop, strides) : MX_NIL);
}

int mlx_slice_dynamic(mlx_array *res, const mlx_array a, const mlx_array start, const int *axes, size_t axes_num,
                      const int *slice_size, size_t slice_size_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    const int *at = INTS(axes);
    bool good = at && COVERS(slice_size, x);
    return capi_publish(res, good ? mx_slice_dynamic(x, capi_in(start), at, (int)axes_num, slice_size) : MX_NIL);
}

int mlx_slice_update_dynamic(mlx_array *res, const mlx_array src, const mlx_array update, const mlx_array start,
                             const int *axes, size_t axes_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *at = INTS(axes);
    return capi_publish(
        res, at ? mx_slice_update_dynamic(capi_in(src), capi_in(update), capi_in(start), at, (int)axes_num) : MX_NIL);
}

#define SLICE_UPDATE(name, fold)                                                                                    \
    int mlx_##name(mlx_array *res, const mlx_array src, const mlx_array update, const int *start, size_t start_num, \
                   const int *stop, size_t stop_num, const int *strides, size_t strides_num, const mlx_stream s)    \
    {                                                                                                               \
        MX_SCOPE(capi_stream(s));                                                                                   \
        mx x = capi_in(src);                                                                                        \
        bool good = COVERS(start, x) && COVERS(stop, x) && COVERS(strides, x);                                      \
        return capi_publish(res,                                                                                    \
                            good ? mx_slice_update_fold(x, capi_in(update), start, stop, strides, fold) : MX_NIL);  \
    }

SLICE_UPDATE(slice_update, SCATTER_SET)
SLICE_UPDATE(slice_update_add, SCATTER_ADD)
SLICE_UPDATE(slice_update_max, SCATTER_MAX)
SLICE_UPDATE(slice_update_min, SCATTER_MIN)
SLICE_UPDATE(slice_update_prod, SCATTER_PROD)

/* Reductions: three forms each.  P are the parameters behind the axes and A their names. */

#define LIST(...) __VA_ARGS__
#define OVER_ALL(name, P, A)                                                      \
    int mlx_##name(mlx_array *res, const mlx_array a, LIST P, const mlx_stream s) \
    {                                                                             \
        MX_SCOPE(capi_stream(s));                                                 \
        return capi_publish(res, mx_##name(capi_in(a), NULL, 0, LIST A));         \
    }
#define OVER_AXIS(name, P, A)                                                                      \
    int mlx_##name##_axis(mlx_array *res, const mlx_array a, int axis, LIST P, const mlx_stream s) \
    {                                                                                              \
        MX_SCOPE(capi_stream(s));                                                                  \
        return capi_publish(res, mx_##name(capi_in(a), &axis, 1, LIST A));                         \
    }
#define OVER_AXES(name, P, A)                                                                          \
    int mlx_##name##_axes(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, LIST P, \
                          const mlx_stream s)                                                          \
    {                                                                                                  \
        MX_SCOPE(capi_stream(s));                                                                      \
        const int *at = INTS(axes);                                                                    \
        return capi_publish(res, at ? mx_##name(capi_in(a), at, (int)axes_num, LIST A) : MX_NIL);      \
    }
#define OVER(name, P, A)  \
    OVER_ALL(name, P, A)  \
    OVER_AXIS(name, P, A) \
    OVER_AXES(name, P, A)

OVER(all, (bool keepdims), (keepdims))
OVER(any, (bool keepdims), (keepdims))
OVER(logsumexp, (bool keepdims), (keepdims))
OVER(max, (bool keepdims), (keepdims))
OVER(mean, (bool keepdims), (keepdims))
OVER(min, (bool keepdims), (keepdims))
OVER(prod, (bool keepdims), (keepdims))
OVER(softmax, (bool precise), (precise))
OVER(std, (bool keepdims, int ddof), (keepdims, ddof))
OVER(sum, (bool keepdims), (keepdims))
OVER(var, (bool keepdims, int ddof), (keepdims, ddof))

int mlx_logsumexp_parts(mlx_vector_array *res, const mlx_array a, const int *axes, size_t axes_num, bool keepdims,
                        const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx parts[2];
    mx_logsumexp_parts(capi_in(a), axes, (int)axes_num, keepdims, parts);
    return capi_publish_list(res, capi_list_of(2, parts));
}

int mlx_log_softmax(mlx_array *res, const mlx_array a, const int *axes, size_t axes_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_log_softmax(capi_in(a), axes, (int)axes_num));
}

int mlx_alike(mlx_array *res, const mlx_array a, const mlx_array like, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a), y = capi_in(like);
    if (!is_nil(x) && !is_nil(y) && !same_shape(x, y))
        x = mx_fail("[alike] expected an array of shape %s, got %s", shape_of(y), shape_of(x));
    return capi_publish(res, mx_shape_checked(x, y));
}

int mlx_of_size(mlx_array *res, const mlx_array a, int axis, int size, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    int i = is_nil(x) ? -1 : axis_of("of_size", axis, x->ndim);
    if (i >= 0 && x->shape[i] != size)
        x = mx_fail("[of_size] expected %d elements along axis %d, got shape %s", size, axis, shape_of(x));
    return capi_publish(res, i < 0 ? MX_NIL : mx_size_checked(x, i));
}

int mlx_unstack(mlx_vector_array *res, const mlx_array a, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    int i = is_nil(x) ? -1 : axis_of("unstack", axis, x->ndim), n = i < 0 ? -1 : dim(x, i);
    if (n == 0) { /* there is no part to say it of */
        sizes_are_read(x);
        shapes_matter("unstack");
    }
    mx *part = n < 0 ? NULL : mx_malloc(((size_t)n + 1) * sizeof *part);
    /* One node for all parts, so that their gradients meet in one concatenation. */
    if (!part || (n > 0 && mx_split(mx_size_checked(x, i), n, i, part) < 0))
        n = -1;
    for (int k = 0; k < n; k++) part[k] = mx_squeeze(part[k], &i, 1);
    struct list *l = n < 0 ? NULL : capi_list_of(n, part);
    free(part);
    return capi_publish_list(res, l);
}

bool mlx_of_any_size(const mlx_array a)
{
    mx x = capi_in(a);
    return is_nil(x) ? capi_report(), false : x->tracer && shapeless();
}

void mlx_sizes_matter(const char *why)
{
    static _Thread_local char said[120]; /* until the trace ends */
    snprintf(said, sizeof said, "%s", why);
    shapes_matter(said);
}

#define ARG_REDUCE(name, fold)                                                                            \
    int mlx_##name(mlx_array *res, const mlx_array a, bool keepdims, const mlx_stream s)                  \
    {                                                                                                     \
        MX_SCOPE(capi_stream(s));                                                                         \
        return capi_publish(res, mx_arg_reduce_all(capi_in(a), fold, keepdims));                          \
    }                                                                                                     \
    int mlx_##name##_axis(mlx_array *res, const mlx_array a, int axis, bool keepdims, const mlx_stream s) \
    {                                                                                                     \
        MX_SCOPE(capi_stream(s));                                                                         \
        return capi_publish(res, mx_arg_reduce(capi_in(a), fold, axis, keepdims));                        \
    }

ARG_REDUCE(argmax, ARG_MAX)
ARG_REDUCE(argmin, ARG_MIN)

/* Matrix products */

int mlx_matmul(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_matmul(capi_in(a), capi_in(b)));
}

int mlx_addmm(mlx_array *res, const mlx_array c, const mlx_array a, const mlx_array b, float alpha, float beta,
              const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_addmm(capi_in(c), capi_in(a), capi_in(b), alpha, beta));
}

/* Elements by index */

int mlx_take(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_take_flat(capi_in(a), capi_in(indices)));
}

int mlx_take_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_take(capi_in(a), capi_in(indices), axis));
}

int mlx_take_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_take_along_axis(capi_in(a), capi_in(indices), axis));
}

int mlx_put_along_axis(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array values, int axis,
                       const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_put_along_axis(capi_in(a), capi_in(indices), capi_in(values), axis));
}

int mlx_masked_scatter(mlx_array *res, const mlx_array a, const mlx_array mask, const mlx_array src, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_masked_scatter(capi_in(a), capi_in(mask), capi_in(src)));
}

int mlx_scatter_add_axis(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array values, int axis,
                         const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_scatter_add_axis(capi_in(a), capi_in(indices), capi_in(values), axis));
}

int mlx_gather_single(mlx_array *res, const mlx_array a, const mlx_array indices, int axis, const int *slice_sizes,
                      size_t slice_sizes_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a), index = capi_in(indices);
    return capi_publish(res, COVERS(slice_sizes, x) ? mx_gather(x, &index, &axis, 1, slice_sizes) : MX_NIL);
}

/* The index arrays of a gather or scatter, one for each axis; NULL after a failure. */
static mx *index_arrays(const char *func, mlx_vector_array indices, size_t axes_num, int *n)
{
    mx *index = capi_arrays(func, "indices", indices, n);
    if (!index || (size_t)*n == axes_num)
        return index;
    mx_fail("[%s] expected an array of indices for each of the %zu axes, got %d", func + 4, axes_num, *n);
    capi_arrays_free(*n, index);
    return NULL;
}

int mlx_gather(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const int *axes, size_t axes_num,
               const int *slice_sizes, size_t slice_sizes_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_in(a);
    const int *at = INTS(axes), *sizes = INTS(slice_sizes);
    int n = 0;
    mx *index = at && COVERS(slice_sizes, x) ? index_arrays(__func__, indices, axes_num, &n) : NULL;
    int failed = capi_publish(res, index ? mx_gather(x, index, at, n, sizes) : MX_NIL);
    if (index)
        capi_arrays_free(n, index);
    return failed;
}

static int publish_scatter(const char *func, mlx_array *res, mlx_array a, mlx_vector_array indices, mlx_array updates,
                           const int *axes, size_t axes_num, enum scatter_fold fold, mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    mx x = capi_array(func, "a", a), update = capi_array(func, "updates", updates);
    const int *at = ints(func, "axes", axes, axes_num);
    int n = 0;
    mx *index = at ? index_arrays(func, indices, axes_num, &n) : NULL;
    int failed = capi_publish_array(func, res, index ? mx_scatter(x, index, at, n, update, fold) : MX_NIL);
    if (index)
        capi_arrays_free(n, index);
    return failed;
}

#define SCATTER(name, fold)                                                                                      \
    int mlx_##name(mlx_array *res, const mlx_array a, const mlx_vector_array indices, const mlx_array updates,   \
                   const int *axes, size_t axes_num, const mlx_stream s)                                         \
    {                                                                                                            \
        return publish_scatter(__func__, res, a, indices, updates, axes, axes_num, fold, s);                     \
    }                                                                                                            \
    int mlx_##name##_single(mlx_array *res, const mlx_array a, const mlx_array indices, const mlx_array updates, \
                            int axis, const mlx_stream s)                                                        \
    {                                                                                                            \
        MX_SCOPE(capi_stream(s));                                                                                \
        mx index = capi_in(indices);                                                                             \
        return capi_publish(res, mx_scatter(capi_in(a), &index, &axis, 1, capi_in(updates), fold));              \
    }

SCATTER(scatter, SCATTER_SET)
SCATTER(scatter_add, SCATTER_ADD)
SCATTER(scatter_max, SCATTER_MAX)
SCATTER(scatter_min, SCATTER_MIN)
SCATTER(scatter_prod, SCATTER_PROD)

/* Made of others */

#define PAIR(name)                                                                           \
    int mlx_##name(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s) \
    {                                                                                        \
        MX_SCOPE(capi_stream(s));                                                            \
        return capi_publish(res, mx_##name(capi_in(a), capi_in(b)));                         \
    }
PAIR(inner)
PAIR(kron)
PAIR(outer)

#define WINDOW(name)                                          \
    int mlx_##name(mlx_array *res, int M, const mlx_stream s) \
    {                                                         \
        MX_SCOPE(capi_stream(s));                             \
        return capi_publish(res, mx_##name(M));               \
    }
WINDOW(bartlett)
WINDOW(blackman)
WINDOW(hamming)
WINDOW(hanning)

int mlx_einsum(mlx_array *res, const char *subscripts, const mlx_vector_array operands, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    int n = 0;
    mx *x = capi_given(subscripts, "subscripts") ? capi_in_arrays(operands, &n) : NULL;
    mx y = x ? mx_einsum(subscripts, n, x) : MX_NIL;
    int failed = capi_publish(res, y);
    capi_arrays_free(n, x);
    return failed;
}
int mlx_tensordot(mlx_array *res, const mlx_array a, const mlx_array b, const int *axes_a, size_t axes_a_num,
                  const int *axes_b, size_t axes_b_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *u = ints(__func__, "axes_a", axes_a, axes_a_num),
              *v = u ? ints(__func__, "axes_b", axes_b, axes_b_num) : NULL;
    return capi_publish(res, v ? mx_tensordot(capi_in(a), capi_in(b), u, (int)axes_a_num, v, (int)axes_b_num) : MX_NIL);
}

int mlx_tensordot_axis(mlx_array *res, const mlx_array a, const mlx_array b, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_tensordot_axis(capi_in(a), capi_in(b), axis));
}

int mlx_repeat_axis(mlx_array *res, const mlx_array arr, int repeats, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_repeat(capi_in(arr), repeats, axis));
}

int mlx_repeat(mlx_array *res, const mlx_array arr, int repeats, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_repeat_flat(capi_in(arr), repeats));
}

int mlx_tile(mlx_array *res, const mlx_array arr, const int *reps, size_t reps_num, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *v = ints(__func__, "reps", reps, reps_num);
    return capi_publish(res, v ? mx_tile(capi_in(arr), v, (int)reps_num) : MX_NIL);
}

static int roll(const char *func, mlx_array *res, mlx_array a, const int *shift, size_t shift_num, const int *axes,
                size_t axes_num, mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    const int *v = ints_up_to(INT_MAX, func, "shift", shift, shift_num);
    const int *w = v && axes ? ints_up_to(INT_MAX, func, "axes", axes, axes_num) : NULL;
    mx x = v ? capi_array(func, "a", a) : MX_NIL;
    return capi_publish_array(func, res, v && !mx_failed() ? mx_roll(x, v, (int)shift_num, w, (int)axes_num) : MX_NIL);
}

int mlx_roll(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num, const mlx_stream s)
{
    return roll(__func__, res, a, shift, shift_num, NULL, 0, s);
}

int mlx_roll_axis(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num, int axis, const mlx_stream s)
{
    return roll(__func__, res, a, shift, shift_num, &axis, 1, s);
}

int mlx_roll_axes(mlx_array *res, const mlx_array a, const int *shift, size_t shift_num, const int *axes,
                  size_t axes_num, const mlx_stream s)
{
    static const int none[1];
    return roll(__func__, res, a, shift, shift_num, axes_num ? axes : none, axes_num, s);
}

int mlx_meshgrid(mlx_vector_array *res, const mlx_vector_array arrays, bool sparse, const char *indexing,
                 const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    int n = 0;
    mx *x = capi_in_arrays(arrays, &n);
    mx *y = x ? mx_malloc((size_t)(n + 1) * sizeof *y) : NULL;
    bool xy = indexing && !strcmp(indexing, "xy");
    struct list *l = NULL;
    if (y && !xy && (!indexing || strcmp(indexing, "ij")))
        mx_fail("[meshgrid] expected indexing 'xy' or 'ij', got '%s'", indexing ? indexing : "");
    else if (y && mx_meshgrid(n, x, sparse, xy, y))
        l = capi_list_of(n, y);
    free(y);
    capi_arrays_free(n, x);
    return capi_publish_list(res, l);
}

int mlx_diagonal(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_diagonal(capi_in(a), offset, axis1, axis2));
}

int mlx_diag(mlx_array *res, const mlx_array a, int k, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_diag(capi_in(a), k));
}

int mlx_trace(mlx_array *res, const mlx_array a, int offset, int axis1, int axis2, mlx_dtype dtype, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, DTYPE(dtype) ? mx_trace(capi_in(a), offset, axis1, axis2, (enum dtype)dtype) : MX_NIL);
}

int mlx_vecdot(mlx_array *res, const mlx_array a, const mlx_array b, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_vecdot(capi_in(a), capi_in(b), axis));
}

int mlx_diff(mlx_array *res, const mlx_array a, int n, int axis, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, mx_diff(capi_in(a), n, axis));
}
