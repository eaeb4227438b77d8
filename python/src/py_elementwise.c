/* py_elementwise.c: functions that work element by element. */
#include "py.h"

PyObject *compared_beyond(binary_op *op, PyObject *l, PyObject *r, mlx_stream s)
{
    static const struct {
        binary_op *op;
        bool above, below; /* the answer for a right operand above all elements, and for one below */
    } comparisons[] = {
        { mlx_equal, false, false },     { mlx_not_equal, true, true }, { mlx_less, true, false },
        { mlx_less_equal, true, false }, { mlx_greater, false, true },  { mlx_greater_equal, false, true },
        { mlx_logical_or, true, true },
    };
    PyObject *error = error_take(), *a = is_array(l) ? l : r, *result = NULL;
    mlx_array res = { NULL };
    int side = is_array(a) ? int_beyond(a == l ? r : l, mlx_array_dtype(handle_of(a))) : 0;
    for (size_t i = 0; side && i < LENGTH(comparisons); i++)
        if (comparisons[i].op == op) {
            bool truth = (side > 0) == (a == l) ? comparisons[i].above : comparisons[i].below;
            result = array_result((truth ? mlx_equal : mlx_not_equal)(&res, handle_of(a), handle_of(a), s), res);
        }
    if (side && op == mlx_logical_and) /* with what is not 0 */
        result = array_result(mlx_logical_and(&res, handle_of(a), handle_of(a), s), res);
    if (result)
        Py_XDECREF(error);
    else
        error_put(error);
    return result;
}

/* The rows of ops.def are all of two forms. */

#define UNARY(name, ...)                                                                       \
    PyObject *fn_##name(struct py_call *c)                                                     \
    {                                                                                          \
        return call_operands(c, 0, 1) ? NULL : give(c, mlx_##name(&c->res, ARRAY(0), STREAM)); \
    }
#define BINARY(name, ...)                                                     \
    PyObject *fn_##name(struct py_call *c)                                    \
    {                                                                         \
        if (call_operands(c, 0, 2))                                           \
            return compared_beyond(mlx_##name, c->v[0].o, c->v[1].o, STREAM); \
        return give(c, mlx_##name(&c->res, ARRAY(0), ARRAY(1), STREAM));      \
    }
#include "ops/ops.def"

/* Those made of others have the same forms. */
#define UNARY(name, op)                                                                \
    PyObject *fn_##name(struct py_call *c)                                             \
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

PyObject *fn__silu(struct py_call *c)
{
    if (mlx_array_dtype(ARRAY(0)) != MLX_COMPLEX64)
        return give(c, mlx_silu(&c->res, ARRAY(0), STREAM));
    mlx_array gate = mlx_array_new();
    if (mlx_sigmoid(&gate, ARRAY(0), STREAM))
        return raise_last(), NULL;
    return call_keep(c, gate, &gate) ? NULL : give(c, mlx_multiply(&c->res, ARRAY(0), gate, STREAM));
}

PyObject *fn_positive(struct py_call *c)
{
    return call_operands(c, 0, 1) ? NULL : give(c, mlx_array_set(&c->res, ARRAY(0)));
}

PyObject *fn_rdivide(struct py_call *c)
{
    return call_operands(c, 0, 2) ? NULL : give(c, mlx_divide(&c->res, ARRAY(1), ARRAY(0), STREAM));
}

PyObject *fn_divmod(struct py_call *c)
{
    if (call_operands(c, 0, 2))
        return NULL;
    mlx_vector_array both = mlx_vector_array_new();
    return give_list(mlx_divmod(&both, ARRAY(0), ARRAY(1), STREAM), both);
}

PyObject *fn_round(struct py_call *c)
{
    return call_operands(c, 0, 1) ? NULL : give(c, mlx_round(&c->res, ARRAY(0), INT(1), STREAM));
}

PyObject *fn_where(struct py_call *c)
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

PyObject *fn_clip(struct py_call *c)
{
    if (!GIVEN(1) && !GIVEN(2))
        return fn_positive(c);
    return call_operands(c, 0, 3) ? NULL : give(c, mlx_clip(&c->res, ARRAY(0), ARRAY(1), ARRAY(2), STREAM));
}

PyObject *fn_nan_to_num(struct py_call *c)
{
    if (call_operands(c, 0, 1))
        return NULL;
    return give(c, mlx_nan_to_num_double(&c->res, ARRAY(0), DOUBLE(1), GIVEN(2) ? &DOUBLE(2) : NULL,
                                         GIVEN(3) ? &DOUBLE(3) : NULL, STREAM));
}

PyObject *fn_isclose(struct py_call *c)
{
    if (call_operands(c, 0, 2))
        return NULL;
    return give(c, mlx_isclose(&c->res, ARRAY(0), ARRAY(1), DOUBLE(2), DOUBLE(3), BOOL(4), STREAM));
}

PyObject *fn_allclose(struct py_call *c)
{
    if (call_operands(c, 0, 2))
        return NULL;
    return give(c, mlx_allclose(&c->res, ARRAY(0), ARRAY(1), DOUBLE(2), DOUBLE(3), BOOL(4), STREAM));
}

PyObject *fn_array_equal(struct py_call *c)
{
    if (call_operands(c, 0, 2)) {
        PyObject *none = compared_beyond(mlx_equal, c->v[0].o, c->v[1].o, STREAM);
        Py_XDECREF(none);
        return none ? give(c, mlx_scalar_int(&c->res, false, MLX_BOOL)) : NULL;
    }
    return give(c, mlx_array_equal(&c->res, ARRAY(0), ARRAY(1), BOOL(2), STREAM));
}

PyObject *fn_astype_method(struct py_call *c) { return give(c, mlx_astype(&c->res, ARRAY(0), c->v[1].t, STREAM)); }

PyObject *fn_astype(struct py_call *c)
{
    if (!BOOL(2) && is_array(c->v[0].o) && mlx_array_dtype(ARRAY(0)) == c->v[1].t)
        return Py_NewRef(c->v[0].o);
    return fn_astype_method(c);
}

PyObject *fn_view(struct py_call *c)
{
    return call_operands(c, 0, 1) ? NULL : give(c, mlx_view(&c->res, ARRAY(0), c->v[1].t, STREAM));
}

PyObject *fn_contiguous(struct py_call *c) { return give(c, mlx_contiguous(&c->res, ARRAY(0), BOOL(1), STREAM)); }
