/* py_wrapper.c: objects that stand for a function of Python's: its gradient, its compiled form and so on.
 *
 * They say of themselves what the function says: name, documentation, signature, whatever else it has.  In a
 * class they are no methods.  A copy is the object itself, as a copy of a function is, and pickle finds it by
 * its name. */
#include "py_function.h"

static PyObject *function_type;

/* What the function is asked for first: these the type of the wrapper has, too. */
static bool is_of_function(PyObject *name, PyObject *fun)
{
    static const char *const names[] = { "__name__", "__qualname__", "__doc__", "__module__" };
    for (size_t i = 0; i < LENGTH(names); i++)
        if (!PyUnicode_CompareWithASCIIString(name, names[i]))
            return true;
    return (PyObject *)Py_TYPE(fun) == function_type && !PyUnicode_CompareWithASCIIString(name, "__class__");
}

/* Of the function, which may be such an object itself, and so on. */
static PyObject *of_function(PyObject *fun, PyObject *name)
{
    if (Py_EnterRecursiveCall(" in what a function says of itself"))
        return NULL;
    PyObject *attribute = PyObject_GetAttr(fun, name);
    Py_LeaveRecursiveCall();
    return attribute;
}

PyObject *wrapper_getattro(PyObject *o, PyObject *name)
{
    PyObject *fun = ((struct wrapper *)o)->fun, *own = NULL;
    if (PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, "__wrapped__"))
        return Py_NewRef(fun);
    if (PyUnicode_Check(name) && is_of_function(name, fun))
        return of_function(fun, name);
    own = PyObject_GenericGetAttr(o, name);
    if (own || !PyErr_ExceptionMatches(PyExc_AttributeError))
        return own;
    PyErr_Clear();
    return of_function(fun, name);
}

PyObject *wrapper_reduce(PyObject *o, PyObject *unused)
{
    (void)unused;
    PyObject *name = PyObject_GetAttrString(((struct wrapper *)o)->fun, "__qualname__");
    if (name && PyUnicode_Check(name))
        return name;
    Py_XDECREF(name);
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "cannot copy or pickle an object of %s that has no name", type_name(o));
    return NULL;
}

/* ---- a function that is no method where a class has it */

static PyTypeObject *unbound_type;

static PyObject *unbound_call(PyObject *o, PyObject *args, PyObject *kwargs)
{
    return PyObject_Call(((struct wrapper *)o)->fun, args, kwargs);
}

static PyObject *unbound(PyObject *module, PyObject *fun)
{
    (void)module;
    if (!PyCallable_Check(fun)) {
        PyErr_Format(PyExc_TypeError, "[_unbound] expected a function, got %s", type_name(fun));
        return NULL;
    }
    struct wrapper *self = PyObject_GC_New(struct wrapper, unbound_type);
    if (self) {
        self->fun = Py_NewRef(fun);
        PyObject_GC_Track((PyObject *)self);
    }
    return (PyObject *)self;
}

static int unbound_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(((struct wrapper *)o)->fun);
    return 0;
}

static void unbound_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_XDECREF(((struct wrapper *)o)->fun);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyMethodDef unbound_methods[] = { WRAPPER_METHODS, { NULL, NULL, 0, NULL } };
static PyType_Slot unbound_slots[] = {
    { Py_tp_dealloc, unbound_dealloc }, { Py_tp_traverse, unbound_traverse }, { Py_tp_call, unbound_call },
    { Py_tp_methods, unbound_methods }, { Py_tp_getattro, wrapper_getattro }, { 0, NULL },
};
static PyType_Spec unbound_spec = {
    "mlx.core._Unbound",
    sizeof(struct wrapper),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    unbound_slots,
};
static PyMethodDef functions[] = {
    { "_unbound", unbound, METH_O, "_unbound(f)\n--\n\nThe function, as one that classes do not bind." },
    { NULL, NULL, 0, NULL },
};

int wrapper_init(PyObject *module)
{
    PyObject *types = PyImport_ImportModule("types");
    function_type = types ? PyObject_GetAttrString(types, "FunctionType") : NULL;
    Py_XDECREF(types);
    unbound_type = function_type ? add_type(module, &unbound_spec) : NULL;
    return unbound_type ? PyModule_AddFunctions(module, functions) : -1;
}
