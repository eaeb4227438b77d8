/* py_compose.c: functions made of views, copies and products. */
#include "py.h"

#define PAIR(name) \
    PyObject *fn_##name(struct py_call *c) { return give(c, mlx_##name(&c->res, ARRAY(0), ARRAY(1), STREAM)); }
PAIR(inner)
PAIR(outer)
PAIR(kron)

#define WINDOW(name) \
    PyObject *fn_##name(struct py_call *c) { return give(c, mlx_##name(&c->res, INT(0), STREAM)); }
WINDOW(bartlett)
WINDOW(blackman)
WINDOW(hamming)
WINDOW(hanning)

PyObject *fn_vecdot(struct py_call *c) { return give(c, mlx_vecdot(&c->res, ARRAY(0), ARRAY(1), INT(2), STREAM)); }

/* The array between those that are put before and after it. */
static int extended(struct py_call *c)
{
    const int order[] = { 3, 0, 4 };
    mlx_vector_array parts = mlx_vector_array_new();
    mlx_array whole = mlx_array_new();
    int failed = 0;
    for (size_t i = 0; i < LENGTH(order) && !failed; i++)
        failed = ARRAY(order[i]).ctx && mlx_vector_array_append_value(parts, ARRAY(order[i]));
    failed = failed || mlx_concatenate_axis(&whole, parts, INT(2), STREAM);
    mlx_vector_array_free(parts);
    if (failed) {
        mlx_array_free(whole);
        return raise_last();
    }
    return call_keep(c, whole, &ARRAY(0));
}

PyObject *fn_diff(struct py_call *c)
{
    if ((GIVEN(3) || GIVEN(4)) && INT(1) != 0 && extended(c))
        return NULL;
    return give(c, mlx_diff(&c->res, ARRAY(0), INT(1), INT(2), STREAM));
}

/* An int, or a pair of sequences of ints. */
PyObject *fn_tensordot(struct py_call *c)
{
    PyObject *axes = c->v[2].o;
    const int *u, *v;
    int number = 2, many = axes ? call_int(c, 2, axes, &number) : 0;
    if (many <= 0)
        return many < 0 ? NULL : give(c, mlx_tensordot_axis(&c->res, ARRAY(0), ARRAY(1), number, STREAM));
    PyObject *pair = sequence_now(axes);
    if (!pair || !PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
        Py_XDECREF(pair);
        return PyErr_Occurred() ? NULL : call_refuse(c, 2, "an int or two sequences of ints");
    }
    int n = call_ints(c, 2, PyTuple_GetItem(pair, 0), &u),
        m = n < 0 ? -1 : call_ints(c, 2, PyTuple_GetItem(pair, 1), &v);
    Py_DECREF(pair);
    if (m < 0)
        return NULL;
    return give(c, mlx_tensordot(&c->res, ARRAY(0), ARRAY(1), u, (size_t)n, v, (size_t)m, STREAM));
}

PyObject *fn_repeat(struct py_call *c)
{
    int n;
    int many = call_int(c, 1, c->v[1].o, &n);
    if (many)
        return many < 0 ? NULL : ARRAY(1).ctx ? call_in_python(c) : call_refuse(c, 1, "an int or an array");
    return give(c, GIVEN(2) ? mlx_repeat_axis(&c->res, ARRAY(0), n, INT(2), STREAM)
                            : mlx_repeat(&c->res, ARRAY(0), n, STREAM));
}

PyObject *fn_tile(struct py_call *c) { return give(c, mlx_tile(&c->res, ARRAY(0), INTS(1), STREAM)); }

PyObject *fn_roll(struct py_call *c)
{
    return give(c, GIVEN(2) ? mlx_roll_axes(&c->res, ARRAY(0), INTS(1), INTS(2), STREAM)
                            : mlx_roll(&c->res, ARRAY(0), INTS(1), STREAM));
}

PyObject *fn_diagonal(struct py_call *c)
{
    return give(c, mlx_diagonal(&c->res, ARRAY(0), INT(1), INT(2), INT(3), STREAM));
}

PyObject *fn_diag(struct py_call *c) { return give(c, mlx_diag(&c->res, ARRAY(0), INT(1), STREAM)); }

mlx_dtype dtype_of_sum(mlx_array a)
{
    mlx_dtype t = mlx_array_dtype(a);
    char kind = dtype_kind(t);
    bool narrow = kind == 'b' || ((kind == 'i' || kind == 'u') && mlx_dtype_size(t) < 4);
    return narrow ? (kind == 'u' ? MLX_UINT32 : MLX_INT32) : t;
}

PyObject *fn_trace(struct py_call *c)
{
    return give(c, mlx_trace(&c->res, ARRAY(0), INT(1), INT(2), INT(3), DTYPE(4, dtype_of_sum(ARRAY(0))), STREAM));
}

PyObject *fn_meshgrid(struct py_call *c)
{
    mlx_vector_array in = call_rest_arrays(c), out = mlx_vector_array_new();
    if (!in.ctx)
        return mlx_vector_array_free(out), NULL;
    bool sparse = GIVEN(0) && BOOL(0);
    int failed = mlx_meshgrid(&out, in, sparse, GIVEN(1) ? TEXT(1) : "xy", STREAM);
    PyObject *list = give_list(failed, out), *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}
