/* py_trees.c: trees of lists, tuples and dicts.
 *
 * A walk holds on to the containers it is in and looks at their sizes anew at every step, for
 * what it calls may change them. */
#include "py.h"

static bool is_named_tuple(PyObject *o)
{
    return Py_TYPE(o) != &PyTuple_Type && PyObject_HasAttrString((PyObject *)Py_TYPE(o), "_fields");
}

int tree_visit(PyObject *tree, int (*visit)(void *ctx, PyObject *leaf), void *ctx)
{
    bool list = PyList_Check(tree);
    if (!list && !PyTuple_Check(tree) && !PyDict_Check(tree))
        return visit(ctx, tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    int failed = 0;
    if (PyDict_Check(tree)) {
        PyObject *values = PyDict_Values(tree);
        failed = values ? 0 : -1;
        for (Py_ssize_t i = 0; !failed && i < PyList_Size(values); i++)
            failed = tree_visit(PyList_GetItem(values, i), visit, ctx);
        Py_XDECREF(values);
    } else {
        for (Py_ssize_t i = 0; !failed && i < (list ? PyList_Size(tree) : PyTuple_Size(tree));
             i++) {
            PyObject *item = Py_NewRef(list ? PyList_GetItem(tree, i) : PyTuple_GetItem(tree, i));
            failed = tree_visit(item, visit, ctx);
            Py_DECREF(item);
        }
    }
    Py_LeaveRecursiveCall();
    return failed;
}

static PyObject *map_dict(PyObject *tree, PyObject *(*leaf)(void *, PyObject *), void *ctx)
{
    PyObject *items = PyDict_Items(tree), *result = items ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; result && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);
        PyObject *value = tree_map(PyTuple_GetItem(pair, 1), leaf, ctx);
        if (!value || PyDict_SetItem(result, PyTuple_GetItem(pair, 0), value))
            Py_CLEAR(result);
        Py_XDECREF(value);
    }
    Py_XDECREF(items);
    return result;
}

static PyObject *map_list(PyObject *tree, PyObject *(*leaf)(void *, PyObject *), void *ctx)
{
    PyObject *items = PySequence_List(tree);
    for (Py_ssize_t i = 0; items && i < PyList_Size(items); i++) {
        PyObject *item = tree_map(PyList_GetItem(items, i), leaf, ctx);
        if (!item || PyList_SetItem(items, i, item))
            Py_CLEAR(items);
    }
    return items;
}

PyObject *tree_map(PyObject *tree, PyObject *(*leaf)(void *ctx, PyObject *leaf), void *ctx)
{
    if (!PyList_Check(tree) && !PyTuple_Check(tree) && !PyDict_Check(tree))
        return leaf(ctx, tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return NULL;
    PyObject *result = PyDict_Check(tree) ? map_dict(tree, leaf, ctx) : map_list(tree, leaf, ctx);
    if (result && PyTuple_Check(tree)) {
        PyObject *tuple = is_named_tuple(tree)
                              ? PyObject_CallMethod((PyObject *)Py_TYPE(tree), "_make", "O", result)
                              : PyList_AsTuple(result);
        Py_DECREF(result);
        result = tuple;
    }
    Py_LeaveRecursiveCall();
    return result;
}

struct gather {
    mlx_vector_array out;
    const char *strict;
};

static int gather_leaf(void *ctx, PyObject *leaf)
{
    struct gather *g = ctx;
    if (is_array(leaf))
        return mlx_vector_array_append_value(g->out, handle_of(leaf)) ? raise_last() : 0;
    if (!g->strict)
        return random_state_arrays(leaf, g->out);
    PyErr_Format(PyExc_ValueError, "[%s] expected only arrays in lists, tuples and dicts, got %s",
                 g->strict, type_name(leaf));
    return -1;
}

int tree_arrays(PyObject *tree, mlx_vector_array out, const char *strict)
{
    struct gather g = { out, strict };
    return tree_visit(tree, gather_leaf, &g);
}
