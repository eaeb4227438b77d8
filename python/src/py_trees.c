/* py_trees.c: trees of lists, tuples, dicts and registered types.
 *
 * An object of a registered type is opened into a list, a tuple or a dict of its children and
 * something that the children leave out, and made again from both.
 *
 * A walk holds on to the containers it is in and looks at their sizes anew at every step, for
 * what it calls may change them. */
#include "py.h"

static bool is_named_tuple(PyObject *o)
{
    return Py_TYPE(o) != &PyTuple_Type && PyObject_HasAttrString((PyObject *)Py_TYPE(o), "_fields");
}

static bool is_container(PyObject *o)
{
    return PyList_Check(o) || PyTuple_Check(o) || PyDict_Check(o);
}

/* Registered types: {type: (flatten, unflatten)}, which mlx.utils fills. */
static PyObject *types;

PyObject *tree_rules(PyObject *o)
{
    return types && PyDict_Size(types) ? PyDict_GetItemWithError(types, (PyObject *)Py_TYPE(o)) : NULL;
}

PyObject *tree_open(PyObject *node, PyObject *rules, PyObject **aux)
{
    PyObject *pair = PyObject_CallFunctionObjArgs(PyTuple_GetItem(rules, 0), node, NULL);
    PyObject *children = NULL;
    if (pair && (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2))
        PyErr_Format(PyExc_TypeError, "the flatten function of %s must return a tuple (children, aux), not %s",
                     type_name(node), type_name(pair));
    else if (pair)
        children = is_container(PyTuple_GetItem(pair, 0)) ? Py_NewRef(PyTuple_GetItem(pair, 0))
                                                          : PySequence_Tuple(PyTuple_GetItem(pair, 0));
    if (children && aux)
        *aux = Py_NewRef(PyTuple_GetItem(pair, 1));
    Py_XDECREF(pair);
    return children;
}

PyObject *tree_close(PyObject *rules, PyObject *aux, PyObject *children)
{
    return PyObject_CallFunctionObjArgs(PyTuple_GetItem(rules, 1), aux, children, NULL);
}

/* Visits */

static int visit_children(PyObject *tree, int (*visit)(void *ctx, PyObject *leaf), void *ctx)
{
    int failed = 0;
    if (PyDict_Check(tree)) {
        PyObject *values = PyDict_Values(tree);
        failed = values ? 0 : -1;
        for (Py_ssize_t i = 0; !failed && i < PyList_Size(values); i++)
            failed = tree_visit(PyList_GetItem(values, i), visit, ctx);
        Py_XDECREF(values);
        return failed;
    }
    bool list = PyList_Check(tree);
    for (Py_ssize_t i = 0; !failed && i < (list ? PyList_Size(tree) : PyTuple_Size(tree)); i++) {
        PyObject *item = Py_NewRef(list ? PyList_GetItem(tree, i) : PyTuple_GetItem(tree, i));
        failed = tree_visit(item, visit, ctx);
        Py_DECREF(item);
    }
    return failed;
}

int tree_visit(PyObject *tree, int (*visit)(void *ctx, PyObject *leaf), void *ctx)
{
    if (is_array(tree))
        return visit(ctx, tree);
    PyObject *rules = tree_rules(tree);
    if (!rules && !is_container(tree))
        return visit(ctx, tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    PyObject *children = rules ? tree_open(tree, rules, NULL) : Py_NewRef(tree);
    int failed = children ? visit_children(children, visit, ctx) : -1;
    Py_XDECREF(children);
    Py_LeaveRecursiveCall();
    return failed;
}

/* Maps */

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

static PyObject *map_children(PyObject *tree, PyObject *(*leaf)(void *, PyObject *), void *ctx)
{
    PyObject *result = PyDict_Check(tree) ? map_dict(tree, leaf, ctx) : map_list(tree, leaf, ctx);
    if (result && PyTuple_Check(tree)) {
        PyObject *tuple = is_named_tuple(tree)
                              ? PyObject_CallMethod((PyObject *)Py_TYPE(tree), "_make", "O", result)
                              : PyList_AsTuple(result);
        Py_DECREF(result);
        result = tuple;
    }
    return result;
}

static PyObject *map_node(PyObject *node, PyObject *rules, PyObject *(*leaf)(void *, PyObject *), void *ctx)
{
    PyObject *aux = NULL, *children = tree_open(node, rules, &aux);
    PyObject *others = children ? map_children(children, leaf, ctx) : NULL;
    PyObject *result = others ? tree_close(rules, aux, others) : NULL;
    Py_XDECREF(children);
    Py_XDECREF(others);
    Py_XDECREF(aux);
    return result;
}

PyObject *tree_map(PyObject *tree, PyObject *(*leaf)(void *ctx, PyObject *leaf), void *ctx)
{
    if (is_array(tree))
        return leaf(ctx, tree);
    PyObject *rules = tree_rules(tree);
    if (!rules && !is_container(tree))
        return leaf(ctx, tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return NULL;
    PyObject *result = rules ? map_node(tree, rules, leaf, ctx) : map_children(tree, leaf, ctx);
    Py_LeaveRecursiveCall();
    return result;
}

int trees_init(PyObject *module)
{
    return (types = PyDict_New()) ? PyModule_AddObjectRef(module, "_tree_types", types) : -1;
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

/* Trees in parallel */

static int misfit(PyObject *tree, PyObject *like, const char *who)
{
    PyErr_Format(PyExc_ValueError, "[%s] expected a tree of the form of the other side, with %s%s, got %s", who,
                 is_array(like) ? "an array" : type_name(like), is_array(like) ? "" : " of the same size",
                 type_name(tree));
    return -1;
}

static int children_like(PyObject *tree, PyObject *like, mlx_vector_array out, const char *who)
{
    bool dict = PyDict_Check(like), sequence = !dict && (PyList_Check(tree) || PyTuple_Check(tree));
    if (dict ? !PyDict_Check(tree) : !sequence)
        return misfit(tree, like, who);
    if (PyObject_Size(tree) != PyObject_Size(like))
        return misfit(tree, like, who);
    PyObject *keys = dict ? PyDict_Keys(like) : NULL;
    int failed = dict && !keys;
    for (Py_ssize_t i = 0; !failed && i < PyObject_Size(like); i++) {
        PyObject *key = dict ? Py_NewRef(PyList_GetItem(keys, i)) : PyLong_FromSsize_t(i);
        PyObject *form = key ? PyObject_GetItem(like, key) : NULL, *item = form ? PyObject_GetItem(tree, key) : NULL;
        failed = !item || tree_arrays_like(item, form, out, who);
        Py_XDECREF(key);
        Py_XDECREF(form);
        Py_XDECREF(item);
    }
    Py_XDECREF(keys);
    return failed;
}

int tree_arrays_like(PyObject *tree, PyObject *like, mlx_vector_array out, const char *who)
{
    if (is_array(like)) {
        if (!is_array(tree))
            return misfit(tree, like, who);
        return mlx_vector_array_append_value(out, handle_of(tree)) ? raise_last() : 0;
    }
    PyObject *rules = tree_rules(like);
    if (!rules && !is_container(like))
        return 0;
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    int failed = rules && Py_TYPE(tree) != Py_TYPE(like) ? misfit(tree, like, who) : 0;
    PyObject *a = failed ? NULL : rules ? tree_open(tree, rules, NULL) : Py_NewRef(tree);
    PyObject *b = !a ? NULL : rules ? tree_open(like, rules, NULL) : Py_NewRef(like);
    failed = !b || children_like(a, b, out, who);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_LeaveRecursiveCall();
    return failed;
}
