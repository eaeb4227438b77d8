/* py_shape.c: functions that move elements about without changing them. */
#include "py.h"

PyObject *fn_reshape(struct py_call *c) { return give(c, mlx_reshape(&c->res, ARRAY(0), INTS(1), STREAM)); }

PyObject *fn_flatten(struct py_call *c) { return give(c, mlx_flatten(&c->res, ARRAY(0), INT(1), INT(2), STREAM)); }

PyObject *fn_unflatten(struct py_call *c) { return give(c, mlx_unflatten(&c->res, ARRAY(0), INT(1), INTS(2), STREAM)); }

PyObject *fn__alike(struct py_call *c) { return give(c, mlx_alike(&c->res, ARRAY(0), ARRAY(1), STREAM)); }

PyObject *fn__of_any_size(struct py_call *c)
{
    bool any = mlx_of_any_size(ARRAY(0));
    if (any && *TEXT(1))
        mlx_sizes_matter(TEXT(1));
    return PyBool_FromLong(any);
}

PyObject *fn__of_size(struct py_call *c) { return give(c, mlx_of_size(&c->res, ARRAY(0), INT(1), INT(2), STREAM)); }

PyObject *fn_squeeze(struct py_call *c)
{
    return give(c, GIVEN(1) ? mlx_squeeze_axes(&c->res, ARRAY(0), INTS(1), STREAM)
                            : mlx_squeeze(&c->res, ARRAY(0), STREAM));
}

PyObject *fn_expand_dims(struct py_call *c)
{
    return give(c, mlx_expand_dims_axes(&c->res, ARRAY(0), INTS(1), STREAM));
}

PyObject *fn_transpose(struct py_call *c)
{
    return give(c, GIVEN(1) ? mlx_transpose_axes(&c->res, ARRAY(0), INTS(1), STREAM)
                            : mlx_transpose(&c->res, ARRAY(0), STREAM));
}

PyObject *fn_permute_dims(struct py_call *c) { return fn_transpose(c); }

PyObject *fn_reshape_dims(struct py_call *c)
{
    const int *shape;
    int n = call_ints_of_rest(c, "shape", &shape);
    return n < 0 ? NULL : give(c, mlx_reshape(&c->res, ARRAY(0), shape, (size_t)n, STREAM));
}

PyObject *fn_transpose_dims(struct py_call *c)
{
    const int *axes;
    if (c->nrest == 0 || (c->nrest == 1 && c->rest[0] == Py_None))
        return give(c, mlx_transpose(&c->res, ARRAY(0), STREAM));
    int n = call_ints_of_rest(c, "axes", &axes);
    return n < 0 ? NULL : give(c, mlx_transpose_axes(&c->res, ARRAY(0), axes, (size_t)n, STREAM));
}

PyObject *fn_matrix_transpose(struct py_call *c)
{
    if (mlx_array_ndim(ARRAY(0)) < 2) {
        PyErr_Format(exc_value, "[matrix_transpose] expected an array of at least 2 dimensions, got %zu",
                     mlx_array_ndim(ARRAY(0)));
        return NULL;
    }
    return give(c, mlx_swapaxes(&c->res, ARRAY(0), -1, -2, STREAM));
}

PyObject *fn_swapaxes(struct py_call *c) { return give(c, mlx_swapaxes(&c->res, ARRAY(0), INT(1), INT(2), STREAM)); }

/* Several axes: each goes to its place, and the others fill the rest in order. */
static PyObject *move_axes(struct py_call *c, const int *from, const int *to, int n)
{
    int ndim = (int)mlx_array_ndim(ARRAY(0)), order[MAX_NDIM], next = 0;
    bool taken[MAX_NDIM] = { false }, moved[MAX_NDIM] = { false };
    for (int i = 0; i < n; i++) {
        const int axis[] = { from[i], to[i] };
        for (size_t k = 0; k < LENGTH(axis); k++)
            if (axis[k] < -ndim || axis[k] >= ndim)
                return raise_axis("moveaxis", axis[k], ndim);
        int source = axis[0] < 0 ? axis[0] + ndim : axis[0], place = axis[1] < 0 ? axis[1] + ndim : axis[1];
        if (moved[source] || taken[place])
            return PyErr_Format(exc_conversion, "[moveaxis] expected every axis once, got %d twice",
                                moved[source] ? from[i] : to[i]);
        moved[source] = taken[place] = true;
        order[place] = source;
    }
    for (int place = 0; place < ndim; place++) {
        if (taken[place])
            continue;
        while (moved[next]) next++;
        order[place] = next++;
    }
    return give(c, mlx_transpose_axes(&c->res, ARRAY(0), order, (size_t)ndim, STREAM));
}

PyObject *fn_moveaxis(struct py_call *c)
{
    int n = c->v[1].ints.n, m = c->v[2].ints.n;
    if (n != m)
        return PyErr_Format(exc_conversion, "[moveaxis] expected as many axes as places for them, got %d and %d", n, m);
    if (n != 1)
        return move_axes(c, c->v[1].ints.v, c->v[2].ints.v, n);
    return give(c, mlx_moveaxis(&c->res, ARRAY(0), c->v[1].ints.v[0], c->v[2].ints.v[0], STREAM));
}

PyObject *fn_flip(struct py_call *c)
{
    size_t ndim = mlx_array_ndim(ARRAY(0));
    mlx_index items[MAX_NDIM];
    for (size_t i = 0; i < ndim; i++) items[i] = (mlx_index){ .kind = MLX_INDEX_SLICE, .step = GIVEN(1) ? 1 : -1 };
    for (int i = 0; GIVEN(1) && i < c->v[1].ints.n; i++) {
        int axis = c->v[1].ints.v[i];
        if (axis < -(int)ndim || axis >= (int)ndim)
            return raise_axis("flip", axis, (int)ndim);
        items[axis < 0 ? axis + (int)ndim : axis].step = -1;
    }
    return give(c, mlx_getitem(&c->res, ARRAY(0), items, ndim, STREAM));
}

PyObject *fn_broadcast_to(struct py_call *c)
{
    if (call_operands(c, 0, 1))
        return NULL;
    return give(c, mlx_broadcast_to(&c->res, ARRAY(0), INTS(1), STREAM));
}

/* The arrays among *args in a vector that lives as long as the call; an empty one after a
 * failure. */
mlx_vector_array call_rest_arrays(struct py_call *c)
{
    mlx_vector_array none = { NULL }, vec = c->vectors[c->nvectors++] = mlx_vector_array_new();
    if (!vec.ctx)
        return raise_last(), none;
    for (Py_ssize_t i = 0; i < c->nrest; i++) {
        mlx_array a = mlx_array_new();
        int failed = array_from(&a, c->rest[i], NULL);
        if (!failed && mlx_vector_array_append_value(vec, a))
            failed = raise_last();
        mlx_array_free(a);
        if (failed)
            return none;
    }
    return vec;
}

PyObject *fn_broadcast_arrays(struct py_call *c)
{
    mlx_vector_array in = call_rest_arrays(c), out = mlx_vector_array_new();
    if (!in.ctx)
        return mlx_vector_array_free(out), NULL;
    return give_list(mlx_broadcast_arrays(&out, in, STREAM), out);
}

PyObject *fn_broadcast_shapes(struct py_call *c)
{
    int shape[MAX_NDIM] = { 0 }, ndim = 0;
    for (Py_ssize_t k = 0; k < c->nrest; k++) {
        const int *v;
        c->nints = 0;
        int n = call_ints_named(c, "shapes", c->rest[k], &v);
        if (n < 0)
            return NULL;
        for (; ndim < n; ndim++) {
            for (int i = ndim; i > 0; i--) shape[i] = shape[i - 1];
            shape[0] = 1;
        }
        for (int i = 0; i < n; i++) {
            int *have = &shape[ndim - n + i];
            if (*have != v[i] && *have != 1 && v[i] != 1) {
                PyErr_Format(exc_value, "[broadcast_shapes] expected sizes of %d or 1 for axis %d, got %d in shape %zd",
                             *have, i - n, v[i], k);
                return NULL;
            }
            *have = *have == 1 ? v[i] : *have;
        }
    }
    return ints_to_tuple(shape, (size_t)ndim);
}

/* Arrays flattened, for axis=None. */
static int flattened_arguments(struct py_call *c, mlx_vector_array *out)
{
    *out = c->vectors[c->nvectors++] = mlx_vector_array_new();
    int failed = !out->ctx;
    for (size_t i = 0; !failed && i < mlx_vector_array_size(c->v[0].vec); i++) {
        mlx_array a = mlx_array_new();
        failed = mlx_vector_array_get(&a, c->v[0].vec, i) || mlx_flatten(&a, a, 0, -1, STREAM) ||
                 mlx_vector_array_append_value(*out, a);
        mlx_array_free(a);
    }
    return failed ? raise_last() : 0;
}

PyObject *fn_concatenate(struct py_call *c)
{
    mlx_vector_array all = c->v[0].vec;
    if (!GIVEN(1) && flattened_arguments(c, &all))
        return NULL;
    return give(c, mlx_concatenate_axis(&c->res, all, GIVEN(1) ? INT(1) : 0, STREAM));
}

PyObject *fn_concat(struct py_call *c) { return fn_concatenate(c); }

PyObject *fn_stack(struct py_call *c)
{
    return give(c, mlx_stack_axis(&c->res, c->v[0].vec, GIVEN(1) ? INT(1) : 0, STREAM));
}

PyObject *fn_unstack(struct py_call *c)
{
    mlx_vector_array parts = mlx_vector_array_new();
    PyObject *list = give_list(mlx_unstack(&parts, ARRAY(0), INT(1), STREAM), parts);
    PyObject *all = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return all;
}

PyObject *fn_split(struct py_call *c)
{
    mlx_vector_array parts = mlx_vector_array_new();
    int sections;
    int many = call_int(c, 1, c->v[1].o, &sections); /* else it is one int */
    return give_list(!many ? mlx_split(&parts, ARRAY(0), sections, INT(2), STREAM)
                           : mlx_split_sections(&parts, ARRAY(0), INTS(1), INT(2), STREAM),
                     parts);
}

/* pad_width: one number, one pair, or a sequence with a pair (or one number) for each axis. */
static int pad_widths(struct py_call *c, int ndim, int *low, int *high)
{
    PyObject *o = c->v[1].o, *items = sequence_now(o);
    const int *v;
    if (!items)
        return -1;
    bool nested = PyTuple_Check(items) && PyTuple_Size(items) && PySequence_Check(PyTuple_GetItem(items, 0));
    Py_ssize_t n = nested ? PyTuple_Size(items) : 1;
    int failed = 0;
    if (nested && n != 1 && n != ndim) {
        PyErr_Format(exc_conversion, "[pad] expected a pair for each of the %d axes, got %zd", ndim, n);
        failed = -1;
    }
    for (int i = 0; !failed && i < ndim; i++) {
        c->nints = 0;
        int m = call_ints(c, 1, nested ? PyTuple_GetItem(items, n == 1 ? 0 : i) : items, &v);
        failed = m < 0 ? -1 : 0;
        if (m == 1 || m == 2) {
            low[i] = v[0];
            high[i] = v[m - 1];
        } else if (m >= 0) {
            PyErr_Format(exc_conversion, "[pad] expected a pair (before, after), got %d numbers", m);
            failed = -1;
        }
    }
    Py_DECREF(items);
    return failed;
}

PyObject *fn_pad(struct py_call *c)
{
    int axes[MAX_NDIM], low[MAX_NDIM], high[MAX_NDIM], ndim = (int)mlx_array_ndim(ARRAY(0));
    if (call_operand_like(c, 3, mlx_array_dtype(ARRAY(0))) || pad_widths(c, ndim, low, high))
        return NULL;
    size_t n = (size_t)ndim;
    for (int i = 0; i < ndim; i++) axes[i] = i;
    return give(c, mlx_pad(&c->res, ARRAY(0), axes, n, low, n, high, n, ARRAY(3), TEXT(2), STREAM));
}

static PyObject *atleast(struct py_call *c, int (*op)(mlx_array *, const mlx_array, const mlx_stream))
{
    mlx_vector_array in = call_rest_arrays(c), out = mlx_vector_array_new();
    int failed = !in.ctx || !out.ctx;
    for (Py_ssize_t i = 0; !failed && i < c->nrest; i++) {
        mlx_array a = mlx_array_new();
        failed = mlx_vector_array_get(&a, in, (size_t)i) || op(&a, a, STREAM) || mlx_vector_array_append_value(out, a);
        mlx_array_free(a);
    }
    if (failed || c->nrest != 1)
        return give_list(failed, out);
    failed = mlx_vector_array_get(&c->res, out, 0);
    mlx_vector_array_free(out);
    return give(c, failed);
}

PyObject *fn_atleast_1d(struct py_call *c) { return atleast(c, mlx_atleast_1d); }
PyObject *fn_atleast_2d(struct py_call *c) { return atleast(c, mlx_atleast_2d); }
PyObject *fn_atleast_3d(struct py_call *c) { return atleast(c, mlx_atleast_3d); }

PyObject *fn_slice(struct py_call *c)
{
    return give(c, mlx_slice_dynamic(&c->res, ARRAY(0), ARRAY(1), INTS(2), INTS(3), STREAM));
}

PyObject *fn_slice_update(struct py_call *c)
{
    return give(c, mlx_slice_update_dynamic(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), INTS(3), STREAM));
}
