/* py_error.c: failures of the library as Python exceptions.
 *
 * The library's error handler keeps quiet: who called finds the message and its kind on the
 * thread. */
#include <string.h>

#include "py.h"

static PyObject *axis_error;

static void quiet(const char *msg, void *data)
{
    (void)msg;
    (void)data;
}

PyObject *error_class(mlx_error_kind kind)
{
    switch (kind) {
    case MLX_ERROR_VALUE: return PyExc_ValueError;
    case MLX_ERROR_INDEX: return PyExc_IndexError;
    case MLX_ERROR_AXIS: return axis_error;
    case MLX_ERROR_TYPE: return PyExc_TypeError;
    case MLX_ERROR_MEMORY: return PyExc_MemoryError;
    default: return PyExc_RuntimeError;
    }
}

/* A message may quote what a file holds, which need not be text. */
int raise_last(void)
{
    if (PyErr_Occurred())
        return -1;
    const char *message;
    mlx_error_kind kind = mlx_last_error(&message);
    PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "backslashreplace");
    if (text)
        PyErr_SetObject(error_class(kind), text);
    Py_XDECREF(text);
    return -1;
}

PyObject *error_take(void)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (error && trace)
        PyException_SetTraceback(error, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return error;
}

void error_put(PyObject *error)
{
    if (error)
        PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(error)), error, PyException_GetTraceback(error));
}

/* Whether exceptions of this type come from here: OSError, say, has messages of its own. */
static bool is_ours(PyObject *type)
{
    return type == axis_error || type == PyExc_ValueError || type == PyExc_IndexError || type == PyExc_TypeError ||
           type == PyExc_RuntimeError;
}

void raise_called(const char *name)
{
    PyObject *error = error_take();
    if (!error)
        return;
    const char *last;
    mlx_last_error(&last);
    PyObject *type = (PyObject *)Py_TYPE(error), *trace = PyException_GetTraceback(error);
    bool from_python = trace && trace != Py_None; /* a function of the user's */
    PyObject *text = !from_python && is_ours(type) ? PyObject_Str(error) : NULL, *renamed = NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL, *end = s && *s == '[' ? strchr(s, ']') : NULL;
    if (end && (mlx_last_error_of_call() || strcmp(s, last)))
        renamed = PyUnicode_FromFormat("[%s%s", name, end);
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(trace);
    if (renamed)
        PyErr_SetObject(type, renamed);
    else
        error_put(Py_NewRef(error));
    Py_XDECREF(renamed);
    Py_DECREF(error);
}

const char *type_name(PyObject *o)
{
    static char ring[4][128]; /* the GIL is held; a message may name several types */
    static unsigned turn;
    char *text = ring[turn++ % LENGTH(ring)];
    PyObject *name = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__name__");
    const char *s = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    PyErr_Clear();
    PyOS_snprintf(text, sizeof *ring, "%s", s ? s : "object");
    Py_XDECREF(name);
    return text;
}

int errors_init(PyObject *module)
{
    mlx_set_error_handler(quiet, NULL, NULL);
    PyObject *bases = PyTuple_Pack(2, PyExc_ValueError, PyExc_IndexError);
    if (!bases)
        return -1;
    axis_error = PyErr_NewExceptionWithDoc(
        "mlx.core.AxisError", "An axis outside the array: a wrong value, and a wrong index.", bases,
        NULL);
    Py_DECREF(bases);
    return axis_error ? PyModule_AddObjectRef(module, "AxisError", axis_error) : -1;
}
