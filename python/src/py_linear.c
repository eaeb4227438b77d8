/* py_linear.c: derivatives at a point, as functions of tangents or of cotangents; Jacobians, which are
 * written in Python, in mlx/_jacobians.py. */
#include "py_function.h"

#include <stdlib.h>

struct linear {
    PyObject ob_base;
    PyObject *from, *to; /* the trees it maps, as forms: tuples of arguments, the value */
    bool back;
    mlx_closure f;
};
static PyTypeObject *linear_type;

static const char *who(const struct linear *l) { return l->back ? "pullback" : "linearize"; }

/* The arguments as an array of each in the form: what is no array there, in a value, is not looked at. */
static int flatten_arguments(const struct linear *l, PyObject *args, mlx_vector_array in)
{
    PyObject *form = l->from, *tree = args;
    if (l->back) { /* one cotangent, of the value's form */
        if (PyTuple_Size(args) != 1) {
            PyErr_Format(PyExc_TypeError, "[pullback] expected one cotangent, in the form of the value, got %zd",
                         PyTuple_Size(args));
            return -1;
        }
        tree = PyTuple_GetItem(args, 0);
    }
    return tree_arrays_like(tree, form, in, who(l));
}

static PyObject *linear_call(PyObject *o, PyObject *args, PyObject *kwargs)
{
    struct linear *l = (struct linear *)o;
    PyObject *result = NULL;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_Format(PyExc_TypeError, "[%s] expected no keyword arguments", who(l));
        return NULL;
    }
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    if (!flatten_arguments(l, args, in)) {
        int failed = mlx_closure_apply(&out, l->f, in);
        struct replacing r = { out, 0 };
        if (failed)
            raise_last();
        else
            result = replaced(l->to, &r);
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    release_now();
    if (l->back && result && PyTuple_Size(result) == 1) {
        PyObject *only = Py_NewRef(PyTuple_GetItem(result, 0));
        Py_DECREF(result);
        return only;
    }
    return result;
}

/* A number in a value does not depend on the arguments. */
static PyObject *constant_tangent(void *unused, PyObject *leaf)
{
    (void)unused;
    return PyFloat_CheckExact(leaf)     ? PyFloat_FromDouble(0)
           : PyLong_CheckExact(leaf)    ? PyLong_FromLong(0)
           : PyComplex_CheckExact(leaf) ? PyComplex_FromDoubles(0, 0)
                                        : Py_NewRef(leaf);
}

/* Takes over the closure. */
static PyObject *linear_new(PyObject *args_form, PyObject *value, mlx_closure f, bool back)
{
    PyObject *value_form = hollowed(value);
    if (value_form && !back) {
        PyObject *tangents = tree_map(value_form, constant_tangent, NULL);
        Py_DECREF(value_form);
        value_form = tangents;
    }
    struct linear *l = value_form ? PyObject_GC_New(struct linear, linear_type) : NULL;
    if (!l) {
        Py_XDECREF(value_form);
        mlx_closure_free(f);
        return NULL;
    }
    l->from = back ? value_form : Py_NewRef(args_form);
    l->to = back ? Py_NewRef(args_form) : value_form;
    l->back = back;
    l->f = f;
    PyObject_GC_Track((PyObject *)l);
    return (PyObject *)l;
}

static PyObject *linear_function_at(struct py_call *c, bool back,
                                    int (*transform)(mlx_vector_array *, mlx_closure *, const mlx_closure,
                                                     const mlx_vector_array))
{
    if (!PyCallable_Check(c->v[0].o))
        return call_refuse(c, 0, "callable");
    PyObject *args = PyTuple_New(c->nrest), *result = NULL, *value = NULL, *linear = NULL, *form = NULL;
    for (Py_ssize_t i = 0; args && i < c->nrest; i++)
        if (PyTuple_SetItem(args, i, Py_NewRef(c->rest[i])))
            Py_CLEAR(args);
    struct python_call *p = args ? python_call_new(c->sig->name, c->v[0].o, args, NULL) : NULL;
    mlx_closure f = p ? closure_of(p) : mlx_closure_new(), at = mlx_closure_new();
    mlx_vector_array in = mlx_vector_array_new(), y = mlx_vector_array_new();
    if (f.ctx && !tree_arrays(args, in, c->sig->name) && (form = hollowed_plain(args))) {
        p->returns = TREE;
        p->in_place = true;
        int failed = transform(&y, &at, f, in);
        struct replacing r = { y, 0 };
        if (failed)
            raise_from(p);
        else if ((value = replaced(p->value, &r)))
            linear = linear_new(form, p->value, at, back);
        if (linear)
            result = PyTuple_Pack(2, value, linear);
        if (!linear && !value)
            mlx_closure_free(at);
    }
    Py_XDECREF(value);
    Py_XDECREF(linear);
    Py_XDECREF(form);
    Py_XDECREF(args);
    mlx_vector_array_free(in);
    mlx_vector_array_free(y);
    mlx_closure_free(f);
    release_now();
    return result;
}

PyObject *fn_linearize(struct py_call *c) { return linear_function_at(c, false, mlx_linearize); }
PyObject *fn_pullback(struct py_call *c) { return linear_function_at(c, true, mlx_pullback); }

/* Without tp_clear, as a gradient. */
static int linear_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(((struct linear *)o)->from);
    Py_VISIT(((struct linear *)o)->to);
    return 0;
}

static void linear_dealloc(PyObject *o)
{
    struct linear *l = (struct linear *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_DECREF(l->from);
    Py_DECREF(l->to);
    mlx_closure_free(l->f);
    PyObject_GC_Del(o);
    Py_DECREF(type);
    release_now();
}

static PyType_Slot linear_slots[] = {
    { Py_tp_dealloc, linear_dealloc },
    { Py_tp_traverse, linear_traverse },
    { Py_tp_call, linear_call },
    { Py_tp_doc, DOC("What linearize and pullback give: a linear function.") },
    { 0, NULL },
};
static PyType_Spec linear_spec = {
    "mlx.core._Linear",
    sizeof(struct linear),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    linear_slots,
};

int linear_init(PyObject *module) { return (linear_type = add_type(module, &linear_spec)) ? 0 : -1; }

/* The function of this call's name in Python, given the arguments that are there. */
static PyObject *in_python(struct py_call *c)
{
    if (!PyCallable_Check(c->v[0].o))
        return call_refuse(c, 0, "callable");
    PyObject *module = PyImport_ImportModule("mlx._jacobians");
    PyObject *f = module ? PyObject_GetAttrString(module, c->sig->name) : NULL, *result = NULL;
    if (f)
        result = PyObject_CallFunctionObjArgs(f, c->v[0].o, c->v[1].o ? c->v[1].o : Py_None,
                                              BOOL(2) ? Py_True : Py_False, NULL);
    Py_XDECREF(f);
    Py_XDECREF(module);
    return result;
}

PyObject *fn_jacfwd(struct py_call *c) { return in_python(c); }
PyObject *fn_jacrev(struct py_call *c) { return in_python(c); }
PyObject *fn_hessian(struct py_call *c) { return in_python(c); }
