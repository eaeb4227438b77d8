/* py_creation.c: functions that make arrays out of sizes and numbers, or of other libraries'
 * arrays. */
#include "py.h"

static bool is_whole_number(PyObject *o)
{
    if (!is_array(o))
        return PyIndex_Check(o);
    char kind = dtype_kind(mlx_array_dtype(handle_of(o)));
    return kind == 'i' || kind == 'u';
}

/* arange(start, stop, step) and arange(stop): which argument is which. */
PyObject *fn_arange(struct py_call *c)
{
    PyObject *given[3] = { c->v[0].o, GIVEN(1) ? c->v[1].o : NULL, GIVEN(2) ? c->v[2].o : NULL };
    static const char *const names[] = { "start", "stop", "step" };
    double v[3] = { 0, 0, 1 };
    bool whole = true;
    /* arange(stop), arange(stop, step, dtype) */
    mlx_dtype t;
    bool third_is_dtype = given[2] && !GIVEN(3) && dtype_from(given[2], &t);
    if (third_is_dtype) {
        c->v[3].t = t;
        c->v[3].given = true;
        given[2] = given[1];
        given[1] = NULL;
    }
    if (!given[1] && (!given[0] || (c->npositional == 0 && !c->v[1].o))) {
        PyErr_SetString(PyExc_TypeError, "arange() missing 1 required positional argument: 'stop'");
        return NULL;
    }
    if (!given[1]) {
        given[1] = given[0];
        given[0] = NULL;
    }
    if (PyBool_Check(given[1]) && (!given[0] || PyBool_Check(given[0])) && (!given[2] || PyBool_Check(given[2]))) {
        PyErr_SetString(exc_value, "[arange] expected an int or a float, got bool");
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (!given[i])
            continue;
        if (!PyNumber_Check(given[i]) || PyComplex_Check(given[i])) {
            PyErr_Format(exc_conversion, "arange(): argument '%s' must be a number, not %s", names[i],
                         type_name(given[i]));
            return NULL;
        }
        whole = whole && is_whole_number(given[i]);
        if (double_from(given[i], &v[i]))
            return NULL;
    }
    /* Whole numbers past int32 are int64, as far as the doubles they travel in are exact. */
    bool wide = false;
    for (int i = 0; i < 3 && whole; i++) {
        wide |= v[i] < INT32_MIN || v[i] > INT32_MAX;
        if (v[i] > 0x1p53 || v[i] < -0x1p53) {
            PyErr_Format(exc_value, "[arange] expected integers of at most 2**53, got %s", int_text(given[i]));
            return NULL;
        }
    }
    t = DTYPE(3, wide ? MLX_INT64 : whole ? MLX_INT32 : MLX_FLOAT32);
    return give(c, mlx_arange(&c->res, v[0], v[1], v[2], t, STREAM));
}

PyObject *fn_linspace(struct py_call *c)
{
    double ends[2];
    for (int i = 0; i < 2; i++) {
        PyObject *o = c->v[i].o;
        if (scalar_kind(o) == 'c')
            return call_in_python(c);
        if (!PyNumber_Check(o))
            return call_refuse(c, i, "a number");
        if (double_from(o, &ends[i]))
            return NULL;
    }
    return give(c, mlx_linspace_endpoint(&c->res, ends[0], ends[1], GIVEN(2) ? INT(2) : 50, BOOL(3),
                                         DTYPE(4, MLX_FLOAT32), STREAM));
}

PyObject *fn_full(struct py_call *c)
{
    if (GIVEN(2) ? call_operand_like(c, 1, c->v[2].t) : call_operands(c, 1, 1))
        return NULL;
    mlx_dtype t = DTYPE(2, mlx_array_dtype(ARRAY(1)));
    return give(c, mlx_full(&c->res, INTS(0), ARRAY(1), t, STREAM));
}

PyObject *fn_full_like(struct py_call *c)
{
    mlx_dtype t = DTYPE(2, mlx_array_dtype(ARRAY(0)));
    if (call_operand_like(c, 1, t))
        return NULL;
    return give(c, mlx_full_like(&c->res, ARRAY(0), ARRAY(1), t, STREAM));
}

PyObject *fn_zeros(struct py_call *c) { return give(c, mlx_zeros(&c->res, INTS(0), DTYPE(1, MLX_FLOAT32), STREAM)); }

PyObject *fn_ones(struct py_call *c) { return give(c, mlx_ones(&c->res, INTS(0), DTYPE(1, MLX_FLOAT32), STREAM)); }

PyObject *fn_empty(struct py_call *c) { return fn_zeros(c); }

static PyObject *filled_like(struct py_call *c, int value)
{
    mlx_dtype t = DTYPE(1, mlx_array_dtype(ARRAY(0)));
    mlx_array v = mlx_array_new();
    if (mlx_scalar_int(&v, value, t))
        return mlx_array_free(v), raise_last(), NULL;
    return call_keep(c, v, &v) ? NULL : give(c, mlx_full_like(&c->res, ARRAY(0), v, t, STREAM));
}

PyObject *fn_zeros_like(struct py_call *c) { return filled_like(c, 0); }
PyObject *fn_ones_like(struct py_call *c) { return filled_like(c, 1); }

PyObject *fn_empty_like(struct py_call *c) { return fn_zeros_like(c); }

PyObject *fn_eye(struct py_call *c)
{
    return give(c, mlx_eye(&c->res, INT(0), GIVEN(1) ? INT(1) : INT(0), INT(2), DTYPE(3, MLX_FLOAT32), STREAM));
}

PyObject *fn_identity(struct py_call *c)
{
    return give(c, mlx_identity(&c->res, INT(0), DTYPE(1, MLX_FLOAT32), STREAM));
}

PyObject *fn_tri(struct py_call *c)
{
    return give(c, mlx_tri(&c->res, INT(0), GIVEN(1) ? INT(1) : INT(0), INT(2), DTYPE(3, MLX_FLOAT32), STREAM));
}

PyObject *fn_tril(struct py_call *c) { return give(c, mlx_tril(&c->res, ARRAY(0), INT(1), STREAM)); }
PyObject *fn_triu(struct py_call *c) { return give(c, mlx_triu(&c->res, ARRAY(0), INT(1), STREAM)); }

PyObject *fn_asarray(struct py_call *c)
{
    PyObject *o = c->v[0].o;
    const mlx_dtype *t = GIVEN(1) ? &c->v[1].t : NULL;
    if (!GIVEN(2))
        return give_made(c, array_from(&c->res, o, t));
    if (BOOL(2))
        return give_made(c, array_copied(&c->res, o, t));
    if (is_array(o) && (!t || *t == mlx_array_dtype(handle_of(o))))
        return Py_NewRef(o);
    int failed = gives_buffer(o) && !is_array(o) ? array_from_buffer(&c->res, o, SHARE) : 0;
    if (!failed && !c->res.ctx && !is_array(o)) {
        int has = gives_dlpack(o);
        failed = has > 0 ? array_from_dlpack(&c->res, o, SHARE) : has;
    }
    if (!failed && (!c->res.ctx || (t && *t != mlx_array_dtype(c->res)))) {
        PyErr_Format(exc_value, "[asarray] expected what can be shared without a copy, got %s", type_name(o));
        failed = -1;
    }
    return give_made(c, failed);
}

PyObject *fn_from_dlpack(struct py_call *c)
{
    PyObject *o = c->v[0].o;
    enum sharing sharing = !GIVEN(1) ? SHARE_ON_GPU : BOOL(1) ? COPY : SHARE;
    int has = gives_dlpack(o);
    if (has <= 0)
        return has < 0 ? NULL : call_refuse(c, 0, "an object with __dlpack__");
    int failed = array_from_dlpack(&c->res, o, sharing);
    if (!failed && sharing != SHARE && !is_array(o))
        failed = array_narrow(&c->res);
    return give_made(c, failed);
}
