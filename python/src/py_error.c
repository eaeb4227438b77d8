/* py_error.c: failures of the library as Python exceptions.
 *
 * The library's error handler keeps quiet: who called finds the message and its kind on the
 * thread.  That of warnings keeps the first one of the thread, which may not have the GIL. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "py.h"

PyObject *exc_value, *exc_index, *exc_axis, *exc_conversion, *exc_overflow, *exc_no_file, *exc_memory;

/* Programs catch what they know from elsewhere: ValueError or RuntimeError from the mlx package, IndexError
 * and OverflowError from NumPy, TypeError from both.  So each class is all that apply.  The first is a base
 * of the others; one whose objects have more in them than a message comes before it. */
static const struct {
    PyObject **class;
    const char *name, *doc;
    PyObject **bases[3];
} classes[] = {
    { &exc_value,
      "mlx.core.Error",
      "What the library refuses or fails to do: a base of its other errors.",
      { &PyExc_ValueError, &PyExc_RuntimeError } },
    { &exc_index,
      "mlx.core.ArrayIndexError",
      "An index outside its axis, or one that no array has.",
      { &exc_value, &PyExc_IndexError } },
    { &exc_axis,
      "mlx.core.AxisError",
      "An axis outside the array: a wrong value, and a wrong index.",
      { &exc_value, &PyExc_IndexError } },
    { &exc_conversion,
      "mlx.core.ConversionError",
      "An argument that cannot be made what the function takes: an array, a shape, a dtype.",
      { &exc_value, &PyExc_TypeError } },
    { &exc_overflow,
      "mlx.core.IntegerOverflowError",
      "A number that does not fit: sizes and axes have 32 bits, elements those of their dtype.",
      { &exc_value, &PyExc_OverflowError, &PyExc_TypeError } },
    { &exc_no_file,
      "mlx.core.MissingFileError",
      "A file, or the folder of a new one, that is not there.",
      { &PyExc_FileNotFoundError, &exc_value } },
    { &exc_memory, "mlx.core.OutOfMemoryError", "No memory for a result.", { &exc_value, &PyExc_MemoryError } },
};

static void quiet(const char *msg, void *data)
{
    (void)msg;
    (void)data;
}

static _Thread_local char *warning;

static void keep_warning(const char *msg, void *data)
{
    (void)data;
    if (!warning)
        warning = strdup(msg);
}

int warn_kept(void)
{
    char *text = warning;
    if (!text)
        return 0;
    warning = NULL;
    int raised = PyErr_WarnEx(PyExc_RuntimeWarning, text, 1);
    free(text);
    if (raised)
        mlx_index_warn_again();
    return raised;
}

void warning_unheard(void)
{
    if (!PyErr_ExceptionMatches(PyExc_RuntimeWarning))
        return;
    PyObject *error = error_take(), *text = PyObject_Str(error);
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    if (s)
        keep_warning(s, NULL);
    Py_XDECREF(text);
    error_put(error);
}

PyObject *fn_set_index_errors(struct py_call *c)
{
    bool was = false;
    return mlx_set_index_errors(&was, BOOL(0)) ? (raise_last(), NULL) : PyBool_FromLong(was);
}

PyObject *fn_set_checks(struct py_call *c)
{
    static const char *const words[] = { [MLX_CHECK_NOTHING] = NULL, [MLX_CHECK_NAN] = "nan", [MLX_CHECK_INF] = "inf" };
    mlx_checks checks = MLX_CHECK_NOTHING, was = MLX_CHECK_NOTHING;
    if (GIVEN(0)) {
        checks = !strcmp(TEXT(0), "nan") ? MLX_CHECK_NAN : MLX_CHECK_INF;
        if (strcmp(TEXT(0), words[checks]) != 0)
            return PyErr_Format(exc_value, "[set_checks] expected 'nan', 'inf' or None, got '%s'", TEXT(0));
    }
    if (mlx_set_checks(&was, checks))
        return raise_last(), NULL;
    return words[was] ? PyUnicode_FromString(words[was]) : Py_NewRef(Py_None);
}

static PyObject *error_class(mlx_error_kind kind)
{
    switch (kind) {
    case MLX_ERROR_INDEX: return exc_index;
    case MLX_ERROR_AXIS: return exc_axis;
    case MLX_ERROR_TYPE: return exc_conversion;
    case MLX_ERROR_NO_FILE: return exc_no_file;
    case MLX_ERROR_MEMORY: return exc_memory;
    default: return exc_value;
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

bool error_clear_only(PyObject *kind)
{
    bool is = PyErr_ExceptionMatches(kind);
    if (is)
        PyErr_Clear();
    return is;
}

int has_attribute(PyObject *o, const char *name)
{
    PyObject *v = PyObject_GetAttrString(o, name);
    if (!v)
        return error_clear_only(PyExc_AttributeError) ? 0 : -1;
    Py_DECREF(v);
    return 1;
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
static bool is_our_error(PyObject *type)
{
    bool is = type == PyExc_TypeError; /* a wrong call */
    for (size_t i = 0; i < LENGTH(classes); i++) is |= type == *classes[i].class;
    return is;
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
    PyObject *text = !from_python && is_our_error(type) ? PyObject_Str(error) : NULL, *renamed = NULL;
    const char *s = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL, *end = s && *s == '[' ? strchr(s, ']') : NULL;
    name += name[0] == '_' && name[1] != '_'; /* log_softmax, for those who call it by nn */
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
    mlx_set_warning_handler(keep_warning, NULL, NULL);
    for (size_t i = 0; i < LENGTH(classes); i++) {
        PyObject **const *b = classes[i].bases, **class = classes[i].class;
        PyObject *bases = b[2] ? PyTuple_Pack(3, *b[0], *b[1], *b[2]) : PyTuple_Pack(2, *b[0], *b[1]);
        *class = bases ? PyErr_NewExceptionWithDoc(classes[i].name, classes[i].doc, bases, NULL) : NULL;
        Py_XDECREF(bases);
        if (!*class || PyModule_AddObjectRef(module, strrchr(classes[i].name, '.') + 1, *class))
            return -1;
    }
    PyObject *why = PyLong_FromLong(ENOENT); /* of all of them, for they are made of a message alone */
    int failed = why ? PyObject_SetAttrString(exc_no_file, "errno", why) : -1;
    Py_XDECREF(why);
    return failed;
}
