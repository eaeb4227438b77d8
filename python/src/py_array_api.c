/* py_array_api.c: functions of the array API standard that are written in Python, in
 * mlx/_array_api.py. */
#include "py.h"

/* The function of this call's name, given the first `arrays` arguments as arrays, the rest of the
 * first n as they are, and the stream, which is argument n. */
static PyObject *in_python(struct call *c, int arrays, int n)
{
    PyObject *module = PyImport_ImportModule("mlx._array_api");
    PyObject *f = module ? PyObject_GetAttrString(module, c->sig->name) : NULL;
    PyObject *args = f ? PyTuple_New(n + 1) : NULL, *result = NULL;
    bool good = args != NULL;
    for (int i = 0; good && i <= n; i++) {
        PyObject *o;
        if (i < arrays) {
            mlx_array a = mlx_array_new();
            o = array_result(mlx_array_set(&a, ARRAY(i)), a);
        } else if (i < n) {
            o = Py_NewRef(BOOL(i) ? Py_True : Py_False);
        } else {
            o = Py_NewRef(c->v[i].o ? c->v[i].o : Py_None);
        }
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
    Py_XDECREF(module);
    return result;
}

PyObject *fn_signbit(struct call *c) { return in_python(c, 1, 1); }
PyObject *fn_nextafter(struct call *c) { return in_python(c, 2, 2); }
PyObject *fn_isin(struct call *c) { return in_python(c, 2, 3); }
PyObject *fn_unique_all(struct call *c) { return in_python(c, 1, 1); }
PyObject *fn_unique_counts(struct call *c) { return in_python(c, 1, 1); }
PyObject *fn_unique_inverse(struct call *c) { return in_python(c, 1, 1); }
PyObject *fn_unique_values(struct call *c) { return in_python(c, 1, 1); }
PyObject *fn___array_namespace_info__(struct call *c)
{
    (void)c;
    PyObject *module = PyImport_ImportModule("mlx._array_api");
    PyObject *info = module ? PyObject_CallMethod(module, "ArrayNamespaceInfo", NULL) : NULL;
    Py_XDECREF(module);
    return info;
}
