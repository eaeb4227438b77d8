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

static bool is_container(PyObject *o) { return is_list(o) || PyDict_Check(o); }

/* Registered types: {type: (flatten, unflatten)}, which mlx.utils fills. */
static PyObject *types;

/* One of the two functions of a type; a new reference, for a call may register the type anew. */
static PyObject *rule_of(PyObject *o, Py_ssize_t i)
{
    if (!types || !PyDict_Size(types))
        return NULL;
    PyObject *rules = PyDict_GetItemWithError(types, (PyObject *)Py_TYPE(o));
    PyObject *rule = rules && PyTuple_Check(rules) ? PyTuple_GetItem(rules, i) : NULL;
    if (!rule)
        PyErr_Clear(); /* a type whose hash raises is not registered */
    return Py_XNewRef(rule);
}

bool is_node(PyObject *o)
{
    PyObject *rule = rule_of(o, 0);
    Py_XDECREF(rule);
    return rule != NULL;
}

/* Calls one of the functions, which is no longer there where a call before took it away. */
static PyObject *call_rule(PyObject *like, Py_ssize_t i, PyObject *a, PyObject *b)
{
    PyObject *rule = rule_of(like, i), *result = NULL;
    if (rule)
        result = PyObject_CallFunctionObjArgs(rule, a, b, NULL);
    else
        PyErr_Format(PyExc_TypeError, "%s is no longer a registered type", type_name(like));
    Py_XDECREF(rule);
    return result;
}

PyObject *tree_open(PyObject *node, PyObject **aux)
{
    PyObject *pair = call_rule(node, 0, node, NULL);
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

PyObject *tree_close(PyObject *like, PyObject *aux, PyObject *children) { return call_rule(like, 1, aux, children); }

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
    for (Py_ssize_t i = 0; !failed && i < items_size(tree); i++) {
        PyObject *item = item_at(tree, i);
        failed = item ? tree_visit(item, visit, ctx) : -1;
        Py_XDECREF(item);
    }
    return failed;
}

int tree_visit(PyObject *tree, int (*visit)(void *ctx, PyObject *leaf), void *ctx)
{
    if (is_array(tree))
        return visit(ctx, tree);
    bool node = is_node(tree);
    if (!node && !is_container(tree))
        return visit(ctx, tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    PyObject *children = node ? tree_open(tree, NULL) : Py_NewRef(tree);
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
    PyObject *items = items_list(tree);
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
        PyObject *tuple = is_named_tuple(tree) ? PyObject_CallMethod((PyObject *)Py_TYPE(tree), "_make", "O", result)
                                               : PyList_AsTuple(result);
        Py_DECREF(result);
        result = tuple;
    }
    return result;
}

static PyObject *map_node(PyObject *node, PyObject *(*leaf)(void *, PyObject *), void *ctx)
{
    PyObject *aux = NULL, *children = tree_open(node, &aux);
    PyObject *others = children ? map_children(children, leaf, ctx) : NULL;
    PyObject *result = others ? tree_close(node, aux, others) : NULL;
    Py_XDECREF(children);
    Py_XDECREF(others);
    Py_XDECREF(aux);
    return result;
}

PyObject *tree_map(PyObject *tree, PyObject *(*leaf)(void *ctx, PyObject *leaf), void *ctx)
{
    if (is_array(tree))
        return leaf(ctx, tree);
    bool node = is_node(tree);
    if (!node && !is_container(tree))
        return leaf(ctx, tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return NULL;
    PyObject *result = node ? map_node(tree, leaf, ctx) : map_children(tree, leaf, ctx);
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
    PyErr_Format(exc_value, "[%s] expected only arrays in lists, tuples and dicts, got %s", g->strict,
                 type_name(leaf));
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
    PyErr_Format(exc_value, "[%s] expected a tree of the form of the other side, with %s%s, got %s", who,
                 is_array(like) ? "an array" : type_name(like), is_array(like) ? "" : " of the same size",
                 type_name(tree));
    return -1;
}

/* What a container has at a key, or an item with this number; a new reference. */
static PyObject *child_of(PyObject *o, PyObject *key, Py_ssize_t i)
{
    if (!PyDict_Check(o))
        return item_at(o, i);
    PyObject *child = PyDict_GetItemWithError(o, key);
    if (!child && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, key);
    return Py_XNewRef(child);
}

static int children_like(PyObject *tree, PyObject *like, mlx_vector_array out, const char *who)
{
    bool dict = PyDict_Check(like);
    if (dict ? !PyDict_Check(tree) || PyDict_Size(tree) != PyDict_Size(like)
             : !is_list(tree) || items_size(tree) != items_size(like))
        return misfit(tree, like, who);
    PyObject *keys = dict ? PyDict_Keys(like) : NULL;
    int failed = dict && !keys;
    for (Py_ssize_t i = 0; !failed && i < (dict ? PyList_Size(keys) : items_size(like)); i++) {
        PyObject *key = dict ? PyList_GetItem(keys, i) : NULL;
        PyObject *form = child_of(like, key, i), *item = form ? child_of(tree, key, i) : NULL;
        failed = !item || tree_arrays_like(item, form, out, who);
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
    bool node = is_node(like);
    if (!node && !is_container(like))
        return 0;
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    int failed = node && Py_TYPE(tree) != Py_TYPE(like) ? misfit(tree, like, who) : 0;
    PyObject *a = failed ? NULL : node ? tree_open(tree, NULL) : Py_NewRef(tree);
    PyObject *b = !a ? NULL : node ? tree_open(like, NULL) : Py_NewRef(like);
    failed = !b || children_like(a, b, out, who);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_LeaveRecursiveCall();
    return failed;
}
