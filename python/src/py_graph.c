/* py_graph.c: what graphs are made of, and shown as. */
#include <stdio.h>
#include <stdlib.h>

#include "py.h"

static mlx_vector_array arrays_of_outputs(struct py_call *c, int i)
{
    mlx_vector_array all = c->vectors[c->nvectors++] = mlx_vector_array_new();
    if (!all.ctx)
        raise_last();
    else if (tree_arrays(c->v[i].o, all, c->sig->name))
        all.ctx = NULL;
    return all;
}

/* One array for one, a list for several. */
PyObject *fn_depends(struct py_call *c)
{
    mlx_vector_array x = arrays_of_outputs(c, 0);
    mlx_vector_array on = x.ctx ? arrays_of_outputs(c, 1) : x;
    if (!on.ctx)
        return NULL;
    mlx_vector_array y = mlx_vector_array_new();
    int failed = mlx_depends(&y, x, on);
    if (failed || !is_array(c->v[0].o))
        return give_list(failed, y);
    failed = mlx_vector_array_get(&c->res, y, 0);
    mlx_vector_array_free(y);
    return give(c, failed);
}

PyObject *fn_as_strided(struct py_call *c)
{
    const int *shape = GIVEN(1) ? c->v[1].ints.v : mlx_array_shape(ARRAY(0));
    int n = GIVEN(1) ? c->v[1].ints.n : (int)mlx_array_ndim(ARRAY(0));
    int64_t strides[MAX_NDIM], next = 1;
    if (GIVEN(2) && c->v[2].ints.n != n) {
        PyErr_Format(exc_value, "[as_strided] expected one stride for each of %d dimensions, got %d", n,
                     c->v[2].ints.n);
        return NULL;
    }
    if (INT(3) < 0) {
        PyErr_Format(exc_overflow, "[as_strided] expected an offset of 0 or more, got %d", INT(3));
        return NULL;
    }
    for (int i = n - 1; i >= 0; i--) {
        strides[i] = GIVEN(2) ? c->v[2].ints.v[i] : next;
        if (__builtin_mul_overflow(next, (int64_t)shape[i], &next))
            next = 0; /* such a shape is refused */
    }
    return give(c, mlx_as_strided(&c->res, ARRAY(0), shape, (size_t)n, strides, (size_t)n, (size_t)INT(3), STREAM));
}

/* export_to_dot */

struct outputs {
    mlx_vector_array all;
    mlx_node_namer namer;
};

static int collect_array(void *ctx, PyObject *leaf)
{
    struct outputs *o = ctx;
    if (!is_array(leaf)) {
        PyErr_Format(exc_value, "[export_to_dot] expected arrays, or trees of arrays, got %s", type_name(leaf));
        return -1;
    }
    return mlx_vector_array_append_value(o->all, handle_of(leaf)) ? raise_last() : 0;
}

static int gather_outputs(struct outputs *o, PyObject *args, PyObject *kwargs)
{
    PyObject *name, *value;
    for (Py_ssize_t i = 1; i < PyTuple_Size(args); i++)
        if (tree_visit(PyTuple_GetItem(args, i), collect_array, o))
            return -1;
    for (Py_ssize_t at = 0; kwargs && PyDict_Next(kwargs, &at, &name, &value);) {
        const char *text = text_from("export_to_dot", name);
        if (!is_array(value)) {
            PyErr_Format(exc_value, "[export_to_dot] expected an array to be called %R, got %s", name,
                         type_name(value));
            return -1;
        }
        if (!text)
            return -1;
        if (mlx_node_namer_set_name(o->namer, handle_of(value), text) ||
            mlx_vector_array_append_value(o->all, handle_of(value)))
            return raise_last();
    }
    return 0;
}

/* The text, in memory to be freed; NULL with an exception set. */
static char *drawn(PyObject *args, PyObject *kwargs, size_t *size)
{
    char *text = NULL;
    struct outputs o = { mlx_vector_array_new(), mlx_node_namer_new() };
    FILE *os = open_memstream(&text, size);
    int failed = !os                          ? (PyErr_NoMemory(), -1)
                 : !o.all.ctx || !o.namer.ctx ? raise_last()
                                              : gather_outputs(&o, args, kwargs);
    if (!failed && mlx_export_to_dot(os, o.namer, o.all))
        failed = raise_last();
    if (os)
        fclose(os);
    mlx_vector_array_free(o.all);
    mlx_node_namer_free(o.namer);
    if (!failed)
        return text;
    free(text);
    return NULL;
}

static PyObject *py_export_to_dot(PyObject *m, PyObject *args, PyObject *kwargs)
{
    (void)m;
    size_t size = 0;
    if (PyTuple_Size(args) < 1) {
        PyErr_SetString(PyExc_TypeError, "export_to_dot() missing required argument 'file'");
        return NULL;
    }
    PyObject *file = PyTuple_GetItem(args, 0), *done = NULL;
    if (PyLong_Check(file)) { /* open() would take it for a descriptor, and close it */
        PyErr_SetString(exc_conversion, "[export_to_dot] expected a path or a text file, got int");
        return NULL;
    }
    char *drawing = drawn(args, kwargs, &size);
    PyObject *text = drawing ? PyUnicode_FromStringAndSize(drawing, (Py_ssize_t)size) : NULL;
    free(drawing);
    if (!text)
        return NULL;
    int open = has_attribute(file, "write");
    if (open > 0) {
        done = PyObject_CallMethod(file, "write", "O", text);
    } else if (open == 0) {
        PyObject *files = PyImport_ImportModule("mlx._new_file");
        done = files ? PyObject_CallMethod(files, "write_text", "sOO", "export_to_dot", file, text) : NULL;
        Py_XDECREF(files);
    }
    Py_DECREF(text);
    if (!done)
        return NULL;
    Py_DECREF(done);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    { "export_to_dot", (PyCFunction)(void (*)(void))py_export_to_dot, METH_VARARGS | METH_KEYWORDS,
      "export_to_dot(file, *args, **kwargs)\n--\n\n"
      "Write the graph that leads to the arrays in ``args`` (arrays, or trees of them), none of which\n"
      "is computed, to a file, given by its name or open for text, in the language of Graphviz. Keyword\n"
      "arguments are drawn too, and give names to arrays; the others are called A, B and so on." },
    { NULL, NULL, 0, NULL },
};

int graph_init(PyObject *module) { return add_functions(module, functions); }
