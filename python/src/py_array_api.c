/* py_array_api.c: functions of the array API standard that are written in Python, in
 * mlx/_array_api.py. */
#include "py.h"

static PyObject *in_module(const char *name)
{
    PyObject *module = PyImport_ImportModule("mlx._array_api");
    PyObject *f = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return f;
}

PyObject *call_in_python(struct py_call *c)
{
    int n = c->sig->n;
    const char *dot = strchr(c->sig->name, '.');
    PyObject *f = in_module(dot ? dot + 1 : c->sig->name), *args = f ? PyTuple_New(n) : NULL, *result = NULL;
    bool good = args != NULL;
    for (int i = 0; good && i < n; i++) {
        mlx_array a = mlx_array_new();
        PyObject *o = c->v[i].o ? c->v[i].o : Py_None;
        o = ARRAY(i).ctx && !is_array(o) ? array_result(mlx_array_set(&a, ARRAY(i)), a) : Py_NewRef(o);
        good = o && !PyTuple_SetItem(args, i, o);
    }
    if (good)
        result = PyObject_CallObject(f, args);
    if (good && !result) { /* where in there it went wrong is no concern of the caller's */
        PyObject *error = error_take();
        PyException_SetTraceback(error, Py_None);
        error_put(error);
    }
    Py_XDECREF(args);
    Py_XDECREF(f);
    return result;
}

PyObject *with_names(const char *name, PyObject *tuple)
{
    PyObject *type = tuple ? in_module(name) : NULL;
    PyObject *named = type ? PyObject_CallObject(type, tuple) : NULL;
    Py_XDECREF(type);
    Py_XDECREF(tuple);
    return named;
}

#define IN_PYTHON(name) \
    PyObject *fn_##name(struct py_call *c) { return call_in_python(c); }
IN_PYTHON(signbit)
IN_PYTHON(unique_all)
IN_PYTHON(unique_counts)
IN_PYTHON(unique_inverse)
IN_PYTHON(unique_values)

PyObject *fn_nextafter(struct py_call *c) { return call_operands(c, 0, 2) ? NULL : call_in_python(c); }
PyObject *fn_isin(struct py_call *c) { return call_operands(c, 0, 2) ? NULL : call_in_python(c); }

PyObject *fn___array_namespace_info__(struct py_call *c)
{
    (void)c;
    PyObject *type = in_module("ArrayNamespaceInfo"), *info = type ? PyObject_CallNoArgs(type) : NULL;
    Py_XDECREF(type);
    return info;
}
