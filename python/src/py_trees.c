/* py_trees.c: trees of lists, tuples, dicts and registered types.
 *
 * An object of a registered type is opened into a list, a tuple or a dict of its children and
 * something that the children leave out, and made again from both.
 *
 * A walk holds on to the containers it is in and looks at their sizes anew at every step, for
 * what it calls may change them. */
#include "py.h"

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

/* Dicts */

static PyObject *ordered_type; /* collections.OrderedDict, whose order is not that of the dict that it is */

PyObject *dict_in_order(PyObject *dict)
{
    if (Py_TYPE(dict) == &PyDict_Type || !PyType_IsSubtype(Py_TYPE(dict), (PyTypeObject *)ordered_type))
        return Py_NewRef(dict);
    PyObject *items = PyObject_CallMethod(ordered_type, "items", "O", dict), *plain = items ? PyDict_New() : NULL;
    if (plain && PyDict_MergeFromSeq2(plain, items, 1))
        Py_CLEAR(plain);
    Py_XDECREF(items);
    return plain;
}

PyObject *dict_items(PyObject *dict)
{
    PyObject *plain = dict_in_order(dict), *items = plain ? PyDict_Items(plain) : NULL;
    Py_XDECREF(plain);
    return items;
}

/* Visits */

static uint64_t visited; /* the GIL is held */

static int visit_children(PyObject *tree, int (*visit)(void *ctx, PyObject *leaf), void *ctx)
{
    int failed = 0;
    if (PyDict_Check(tree)) {
        PyObject *plain = dict_in_order(tree), *values = plain ? PyDict_Values(plain) : NULL;
        Py_XDECREF(plain);
        failed = values ? 0 : -1;
        for (Py_ssize_t i = 0; !failed && i < PyList_Size(values); i++)
            failed = items_stopped(&visited) ? -1 : tree_visit(PyList_GetItem(values, i), visit, ctx);
        Py_XDECREF(values);
        return failed;
    }
    for (Py_ssize_t i = 0; !failed && i < items_size(tree); i++) {
        PyObject *item = items_stopped(&visited) ? NULL : item_at(tree, i);
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

/* Containers of a type of their own */

/* A copy of a list or a dict as copy.copy makes it; NULL, perhaps without an exception, where there is none. */
static PyObject *copied_container(PyObject *like)
{
    static PyObject *copy;
    PyObject *module = copy ? NULL : PyImport_ImportModule("copy");
    if (module)
        copy = PyObject_GetAttrString(module, "copy");
    Py_XDECREF(module);
    PyObject *other = copy ? PyObject_CallFunctionObjArgs(copy, like, NULL) : NULL;
    if (other && (other == like || Py_TYPE(other) != Py_TYPE(like)))
        Py_CLEAR(other);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError) &&
        !PyErr_ExceptionMatches(PyExc_RecursionError))
        PyErr_Clear();
    return other;
}

/* The dict with what the object's members hold, in a copy where there is something: slots, a defaultdict's factory. */
static PyObject *with_members(PyObject *o, PyObject *dict)
{
    PyObject *all = Py_XNewRef(dict);
    PyTypeObject *type = Py_TYPE(o);
    for (; type; type = PyType_GetSlot(type, Py_tp_base)) {
        PyMemberDef *m = PyType_GetSlot(type, Py_tp_members);
        for (; m && m->name; m++) {
            PyObject *value =
                m->type == T_OBJECT_EX || m->type == T_OBJECT ? PyMember_GetOne((const char *)o, m) : NULL;
            if (!value) {
                PyErr_Clear(); /* an empty slot */
                continue;
            }
            if (all == dict) {
                Py_XDECREF(all);
                all = dict ? PyDict_Copy(dict) : PyDict_New();
            }
            int failed = !all || PyDict_SetItemString(all, m->name, value);
            Py_DECREF(value);
            if (failed) {
                Py_XDECREF(all);
                return NULL;
            }
        }
    }
    return all;
}

PyObject *container_attributes(PyObject *o)
{
    PyObject *own = PyObject_GenericGetDict(o, NULL);
    if (!own)
        PyErr_Clear(); /* a class without */
    PyObject *all = with_members(o, own);
    Py_XDECREF(own);
    return all;
}

/* A type that is made from several arguments gets its items without a call of its __new__. */
static PyObject *tuple_like(PyObject *like, PyObject *items)
{
    PyObject *tuple = PyList_AsTuple(items);
    if (!tuple || Py_TYPE(like) == &PyTuple_Type)
        return tuple;
    PyObject *result = PyObject_CallMethod((PyObject *)&PyTuple_Type, "__new__", "OO", Py_TYPE(like), tuple);
    PyObject *from = result ? PyObject_GenericGetDict(like, NULL) : NULL;
    PyObject *to = from ? PyObject_GenericGetDict(result, NULL) : NULL;
    if (to)
        PyDict_Update(to, from);
    PyErr_Clear(); /* no attributes, or a type of C's that cannot be made so */
    Py_XDECREF(from);
    Py_XDECREF(to);
    if (!result)
        return tuple;
    Py_DECREF(tuple);
    return result;
}

/* A key that is there keeps its place; a dict of another type, an OrderedDict say, may know of the others. */
static int dict_put(PyObject *dict, PyObject *key, PyObject *value)
{
    int there = PyDict_Contains(dict, key);
    return there < 0 ? -1 : there ? PyDict_SetItem(dict, key, value) : PyObject_SetItem(dict, key, value);
}

int dict_assign(PyObject *dict, PyObject *content)
{
    if (Py_TYPE(dict) == &PyDict_Type) {
        PyDict_Clear(dict);
        return PyDict_Update(dict, content);
    }
    PyObject *keys = PyDict_Keys(dict), *items = keys ? PyDict_Items(content) : NULL;
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(keys); i++) {
        int stays = PyDict_Contains(content, PyList_GetItem(keys, i));
        failed = stays < 0 || (!stays && PyObject_DelItem(dict, PyList_GetItem(keys, i)));
    }
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);
        failed = dict_put(dict, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1));
    }
    Py_XDECREF(keys);
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

PyObject *container_like(PyObject *like, PyObject *content)
{
    if (PyTuple_Check(like))
        return tuple_like(like, content);
    if (Py_TYPE(like) == Py_TYPE(content))
        return Py_NewRef(content);
    PyObject *other = copied_container(like);
    if (!other)
        return PyErr_Occurred() ? NULL : Py_NewRef(content);
    if (PyDict_Check(like) ? dict_assign(other, content) : PyList_SetSlice(other, 0, PyList_Size(other), content))
        Py_CLEAR(other);
    return other;
}

/* Maps */

struct tree_map {
    PyObject *(*leaf)(void *ctx, PyObject *leaf);
    void *ctx;
    bool plain;
};

static PyObject *map_tree(const struct tree_map *m, PyObject *tree);

/* Is it a dict that has attributes of its own, as a module? */
static bool has_attributes(PyObject *tree)
{
    PyObject *own = PyDict_Check(tree) && Py_TYPE(tree) != &PyDict_Type ? PyObject_GenericGetDict(tree, NULL) : NULL;
    bool has = own && PyDict_Size(own);
    PyErr_Clear();
    Py_XDECREF(own);
    return has;
}

static PyObject *map_children(const struct tree_map *m, PyObject *tree)
{
    bool dict = PyDict_Check(tree);
    PyObject *items = dict ? dict_items(tree) : items_list(tree);
    PyObject *content = items && dict ? PyDict_New() : Py_XNewRef(items), *result = NULL;
    for (Py_ssize_t i = 0; content && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);
        PyObject *value = items_stopped(&visited) ? NULL : map_tree(m, dict ? PyTuple_GetItem(pair, 1) : pair);
        if (!value || (dict ? PyDict_SetItem(content, PyTuple_GetItem(pair, 0), value)
                            : PyList_SetItem(content, i, Py_NewRef(value))))
            Py_CLEAR(content);
        Py_XDECREF(value);
    }
    if (content)
        result = m->plain && has_attributes(tree) ? Py_NewRef(content) : container_like(tree, content);
    Py_XDECREF(items);
    Py_XDECREF(content);
    return result;
}

static PyObject *map_node(const struct tree_map *m, PyObject *node)
{
    PyObject *aux = NULL, *children = tree_open(node, &aux);
    PyObject *others = children ? map_children(m, children) : NULL;
    PyObject *result = others ? tree_close(node, aux, others) : NULL;
    Py_XDECREF(children);
    Py_XDECREF(others);
    Py_XDECREF(aux);
    return result;
}

static PyObject *map_tree(const struct tree_map *m, PyObject *tree)
{
    if (is_array(tree))
        return m->leaf(m->ctx, tree);
    bool node = is_node(tree);
    if (!node && !is_container(tree))
        return m->leaf(m->ctx, tree);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return NULL;
    PyObject *result = node ? map_node(m, tree) : map_children(m, tree);
    Py_LeaveRecursiveCall();
    return result;
}

PyObject *tree_map(PyObject *tree, PyObject *(*leaf)(void *ctx, PyObject *leaf), void *ctx)
{
    return map_tree(&(struct tree_map){ leaf, ctx, false }, tree);
}

PyObject *tree_map_plain(PyObject *tree, PyObject *(*leaf)(void *ctx, PyObject *leaf), void *ctx)
{
    return map_tree(&(struct tree_map){ leaf, ctx, true }, tree);
}

int trees_init(PyObject *module)
{
    PyObject *collections = PyImport_ImportModule("collections");
    ordered_type = collections ? PyObject_GetAttrString(collections, "OrderedDict") : NULL;
    Py_XDECREF(collections);
    if (!ordered_type)
        return -1;
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
    PyErr_Format(exc_value, "[%s] expected only arrays in lists, tuples and dicts, got %s", g->strict, type_name(leaf));
    return -1;
}

int tree_arrays(PyObject *tree, mlx_vector_array out, const char *strict)
{
    struct gather g = { out, strict };
    return tree_visit(tree, gather_leaf, &g);
}

/* Trees in parallel */

static int tree_misfit(PyObject *tree, PyObject *like, const char *who)
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
        return tree_misfit(tree, like, who);
    PyObject *items = dict ? dict_items(like) : items_list(like);
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i), *key = dict ? PyTuple_GetItem(pair, 0) : NULL;
        PyObject *item = child_of(tree, key, i);
        failed = !item || tree_arrays_like(item, dict ? PyTuple_GetItem(pair, 1) : pair, out, who);
        Py_XDECREF(item);
    }
    Py_XDECREF(items);
    return failed;
}

int tree_arrays_like(PyObject *tree, PyObject *like, mlx_vector_array out, const char *who)
{
    if (is_array(like)) {
        if (!is_array(tree))
            return tree_misfit(tree, like, who);
        return mlx_vector_array_append_value(out, handle_of(tree)) ? raise_last() : 0;
    }
    bool node = is_node(like);
    if (!node && !is_container(like))
        return 0;
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    int failed = node && Py_TYPE(tree) != Py_TYPE(like) ? tree_misfit(tree, like, who) : 0;
    PyObject *a = failed ? NULL : node ? tree_open(tree, NULL) : Py_NewRef(tree);
    PyObject *b = !a ? NULL : node ? tree_open(like, NULL) : Py_NewRef(like);
    failed = !b || children_like(a, b, out, who);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_LeaveRecursiveCall();
    return failed;
}
