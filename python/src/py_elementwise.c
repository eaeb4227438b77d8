/* py_elementwise.c: functions that work element by element. */
#include "py.h"

/* The rows of ops.def are all of two forms. */

#define UNARY(name, ...)                                                                       \
    PyObject *fn_##name(struct call *c)                                                        \
    {                                                                                          \
        return call_operands(c, 0, 1) ? NULL : give(c, mlx_##name(&c->res, ARRAY(0), STREAM)); \
    }
#define BINARY(name, ...)                                                                         \
    PyObject *fn_##name(struct call *c)                                                           \
    {                                                                                             \
        return call_operands(c, 0, 2) ? NULL                                                      \
                                      : give(c, mlx_##name(&c->res, ARRAY(0), ARRAY(1), STREAM)); \
    }
#include "ops/ops.def"

/* Those made of others have the same forms. */
#define UNARY(name, op)                                                                \
    PyObject *fn_##name(struct call *c)                                                \
    {                                                                                  \
        return call_operands(c, 0, 1) ? NULL : give(c, op(&c->res, ARRAY(0), STREAM)); \
    }

UNARY(reciprocal, mlx_reciprocal)
UNARY(degrees, mlx_degrees)
UNARY(radians, mlx_radians)
UNARY(stop_gradient, mlx_stop_gradient)
UNARY(conj, mlx_conjugate)
UNARY(isnan, mlx_isnan)
UNARY(isinf, mlx_isinf)
UNARY(isfinite, mlx_isfinite)
UNARY(isposinf, mlx_isposinf)
UNARY(isneginf, mlx_isneginf)

PyObject *fn_positive(struct call *c)
{
    return call_operands(c, 0, 1) ? NULL : give(c, mlx_array_set(&c->res, ARRAY(0)));
}

PyObject *fn_rdivide(struct call *c)
{
    return call_operands(c, 0, 2) ? NULL : give(c, mlx_divide(&c->res, ARRAY(1), ARRAY(0), STREAM));
}

PyObject *fn_divmod(struct call *c)
{
    if (call_operands(c, 0, 2))
        return NULL;
    mlx_vector_array both = mlx_vector_array_new();
    return give_list(mlx_divmod(&both, ARRAY(0), ARRAY(1), STREAM), both);
}

PyObject *fn_round(struct call *c)
{
    return call_operands(c, 0, 1) ? NULL : give(c, mlx_round(&c->res, ARRAY(0), INT(1), STREAM));
}

PyObject *fn_where(struct call *c)
{
    if (!GIVEN(1) && !GIVEN(2))
        return call_operands(c, 0, 1) ? NULL : fn_nonzero(c);
    if (!GIVEN(1) || !GIVEN(2)) {
        PyErr_SetString(PyExc_TypeError, "[where] expected a condition alone, or both x and y, got one of them");
        return NULL;
    }
    if (call_operands(c, 0, 1) || call_operands(c, 1, 2))
        return NULL;
    return give(c, mlx_where(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), STREAM));
}

PyObject *fn_clip(struct call *c)
{
    return call_operands(c, 0, 3)
               ? NULL
               : give(c, mlx_clip(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), STREAM));
}

PyObject *fn_nan_to_num(struct call *c)
{
    if (call_operands(c, 0, 1))
        return NULL;
    return give(c, mlx_nan_to_num_double(&c->res, ARRAY(0), DOUBLE(1), GIVEN(2) ? &DOUBLE(2) : NULL,
                                         GIVEN(3) ? &DOUBLE(3) : NULL, STREAM));
}

PyObject *fn_isclose(struct call *c)
{
    if (call_operands(c, 0, 2))
        return NULL;
    return give(c, mlx_isclose(&c->res, ARRAY(0), ARRAY(1), DOUBLE(2), DOUBLE(3), BOOL(4), STREAM));
}

PyObject *fn_allclose(struct call *c)
{
    if (call_operands(c, 0, 2))
        return NULL;
    return give(c,
                mlx_allclose(&c->res, ARRAY(0), ARRAY(1), DOUBLE(2), DOUBLE(3), BOOL(4), STREAM));
}

PyObject *fn_array_equal(struct call *c)
{
    if (call_operands(c, 0, 2))
        return NULL;
    return give(c, mlx_array_equal(&c->res, ARRAY(0), ARRAY(1), BOOL(2), STREAM));
}

PyObject *fn_astype(struct call *c)
{
    return give(c, mlx_astype(&c->res, ARRAY(0), c->v[1].t, STREAM));
}

PyObject *fn_view(struct call *c)
{
    return call_operands(c, 0, 1) ? NULL : give(c, mlx_view(&c->res, ARRAY(0), c->v[1].t, STREAM));
}

PyObject *fn_contiguous(struct call *c)
{
    return give(c, mlx_contiguous(&c->res, ARRAY(0), BOOL(1), STREAM));
}
