/* py_products.c: matrix products, and elements by index arrays. */
#include "py.h"

PyObject *fn_matmul(struct py_call *c) { return give(c, mlx_matmul(&c->res, ARRAY(0), ARRAY(1), STREAM)); }

PyObject *fn_addmm(struct py_call *c)
{
    return give(c, mlx_addmm_double(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), DOUBLE(3), DOUBLE(4), STREAM));
}

/* An int as the index of take, which is known now; a wrong axis is left for take to refuse. */
static int int_inside(struct py_call *c)
{
    PyObject *o = c->v[1].o;
    int axis = GIVEN(2) ? INT(2) : 0, ndim = (int)mlx_array_ndim(ARRAY(0)), overflow;
    if (ARRAY(1).ctx || !PyLong_Check(o) || (GIVEN(2) && (axis < -ndim || axis >= ndim)))
        return 0;
    int64_t size = GIVEN(2) ? mlx_array_dim(ARRAY(0), axis) : (int64_t)mlx_array_size(ARRAY(0));
    long long i = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow && i >= -size && i < size)
        return 0;
    PyErr_Format(exc_index, "[take] index %s is out of bounds for axis %d with size %lld", int_text(o),
                 axis < 0 ? axis + ndim : axis, (long long)size);
    return -1;
}

PyObject *fn_take(struct py_call *c)
{
    if (int_inside(c) || call_operands(c, 1, 1))
        return NULL;
    return give(c, GIVEN(2) ? mlx_take_axis(&c->res, ARRAY(0), ARRAY(1), INT(2), STREAM)
                            : mlx_take(&c->res, ARRAY(0), ARRAY(1), STREAM));
}

/* For axis=None: both flattened, and axis 0. */
static int flatten_operands(struct py_call *c, int n)
{
    for (int i = 0; i < n; i++) {
        mlx_array flat = mlx_array_new();
        if (mlx_flatten(&flat, ARRAY(i), 0, -1, STREAM))
            return raise_last();
        if (call_keep(c, flat, &ARRAY(i)))
            return -1;
    }
    return 0;
}

PyObject *fn_take_along_axis(struct py_call *c)
{
    if (!GIVEN(2) && flatten_operands(c, 2))
        return NULL;
    return give(c, mlx_take_along_axis(&c->res, ARRAY(0), ARRAY(1), GIVEN(2) ? INT(2) : 0, STREAM));
}

PyObject *fn_put_along_axis(struct py_call *c)
{
    if (GIVEN(3))
        return give(c, mlx_put_along_axis(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), INT(3), STREAM));
    mlx_array whole = ARRAY(0), flat = mlx_array_new();
    if (flatten_operands(c, 2) || mlx_put_along_axis(&flat, ARRAY(0), ARRAY(1), ARRAY(2), 0, STREAM))
        return give(c, 1);
    int failed = mlx_reshape(&c->res, flat, mlx_array_shape(whole), mlx_array_ndim(whole), STREAM);
    mlx_array_free(flat);
    return give(c, failed);
}
