/* py_print.c: how arrays print. */
#include "py.h"

static int precision = -1;
static PyTypeObject *options_type, *context_type;

int print_precision(void) { return precision; }

struct print_options {
    PyObject ob_base;
    int precision, before;
};

static int check_precision(int n)
{
    if (n >= -1 && n <= 100)
        return 0;
    PyErr_Format(exc_value, "[printoptions] expected a precision of -1 to 100, got %d", n);
    return -1;
}

static PyObject *options_new(PyTypeObject *type, int n)
{
    struct print_options *self = check_precision(n) ? NULL : PyObject_New(struct print_options, type);
    if (self)
        self->precision = n;
    return (PyObject *)self;
}

static PyObject *make_options(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "precision", NULL };
    int n = -1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i:PrintOptions", (char **)names, &n))
        return NULL;
    return options_new(type, n);
}

static void options_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_Free(o);
    Py_DECREF(type);
}

static PyObject *options_repr(PyObject *o)
{
    return PyUnicode_FromFormat("PrintOptions(precision=%d)", ((struct print_options *)o)->precision);
}

static PyObject *get_precision(PyObject *o, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct print_options *)o)->precision);
}

static int set_precision(PyObject *o, PyObject *value, void *unused)
{
    (void)unused;
    long n = value ? PyLong_AsLong(value) : -2;
    if ((n == -1 && PyErr_Occurred()) || check_precision(n < -1 || n > 100 ? -2 : (int)n))
        return -1;
    ((struct print_options *)o)->precision = (int)n;
    return 0;
}

static PyGetSetDef options_properties[] = {
    { "precision", get_precision, set_precision, "Digits after the point; -1: six significant ones.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot options_slots[] = {
    { Py_tp_new, make_options },
    { Py_tp_dealloc, options_dealloc },
    { Py_tp_repr, options_repr },
    { Py_tp_getset, options_properties },
    { Py_tp_doc, DOC("PrintOptions(precision=-1)\n--\n\nHow arrays print.") },
    { 0, NULL },
};
static PyType_Spec options_spec = {
    "mlx.core.PrintOptions", sizeof(struct print_options), 0, Py_TPFLAGS_DEFAULT, options_slots,
};

static PyObject *print_context_enter(PyObject *o, PyObject *unused)
{
    (void)unused;
    struct print_options *self = (struct print_options *)o;
    self->before = precision;
    precision = self->precision;
    return options_new(options_type, precision);
}

static PyObject *print_context_exit(PyObject *o, PyObject *args)
{
    (void)args;
    precision = ((struct print_options *)o)->before;
    Py_RETURN_NONE;
}

static PyMethodDef context_methods[] = {
    { "__enter__", print_context_enter, METH_NOARGS, NULL },
    { "__exit__", print_context_exit, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot context_slots[] = {
    { Py_tp_dealloc, options_dealloc },
    { Py_tp_methods, context_methods },
    { Py_tp_doc, DOC("What printoptions() gives.") },
    { 0, NULL },
};
static PyType_Spec context_spec = {
    "mlx.core._PrintOptionsContext",
    sizeof(struct print_options),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    context_slots,
};

PyObject *fn_set_printoptions(struct py_call *c)
{
    if (check_precision(INT(0)))
        return NULL;
    precision = INT(0);
    Py_RETURN_NONE;
}

PyObject *fn_get_printoptions(struct py_call *c) { return (void)c, options_new(options_type, precision); }
PyObject *fn_printoptions(struct py_call *c) { return options_new(context_type, INT(0)); }

int printing_init(PyObject *module)
{
    options_type = add_type(module, &options_spec);
    context_type = options_type ? add_type(module, &context_spec) : NULL;
    return context_type ? 0 : -1;
}
