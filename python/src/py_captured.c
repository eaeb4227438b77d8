/* py_captured.c: trees that a compiled function reads and changes where they are.
 *
 * While a function is traced its captured trees hold placeholders: what was there is remembered, put
 * back whatever happens, and then replaced by what the trace says.  A tree is its containers: lists,
 * dicts, the random state, and objects of registered types with attributes; all else is made anew. */
#include "py_function.h"

/* The attributes of an object of a registered type that can be changed in place, as a dict; NULL, without an
 * exception, for any other object. */
static PyObject *attributes(PyObject *o)
{
    PyObject *frozen = NULL, *params = NULL, *dict = NULL;
    if (is_node(o) && (dict = PyObject_GetAttrString(o, "__dict__")) && !PyDict_Check(dict))
        Py_CLEAR(dict);
    if (dict && (params = PyObject_GetAttrString(o, "__dataclass_params__")) &&
        (frozen = PyObject_GetAttrString(params, "frozen")) && PyObject_IsTrue(frozen) == 1)
        Py_CLEAR(dict);
    Py_XDECREF(params);
    Py_XDECREF(frozen);
    PyErr_Clear();
    return dict;
}

static int remember_inside(PyObject *tree, PyObject *saved);

/* The content of every container of a tree, so that it can be put back: a list of pairs. */
static int remember_captured(PyObject *tree, PyObject *saved)
{
    if (is_array(tree))
        return 0;
    PyObject *content = attributes(tree);
    if (content) {
        int failed = remember_inside(content, saved);
        Py_DECREF(content);
        return failed;
    }
    if (is_random_state(tree)) {
        content = PySequence_List(tree);
    } else if (PyList_Check(tree)) {
        content = items_list(tree);
    } else if (PyDict_Check(tree)) {
        content = PyDict_New();
        if (content && PyDict_Update(content, tree))
            Py_CLEAR(content);
    } else if (PyTuple_Check(tree)) {
        for (Py_ssize_t i = 0; i < PyTuple_Size(tree); i++)
            if (remember_inside(PyTuple_GetItem(tree, i), saved))
                return -1;
        return 0;
    } else {
        return 0;
    }
    PyObject *pair = content ? PyTuple_Pack(2, tree, content) : NULL;
    int failed = !pair || PyList_Append(saved, pair);
    Py_XDECREF(pair);
    if (!failed && PyDict_Check(tree)) {
        PyObject *values = PyDict_Values(content);
        failed = !values;
        for (Py_ssize_t i = 0; !failed && i < PyList_Size(values); i++)
            failed = remember_inside(PyList_GetItem(values, i), saved);
        Py_XDECREF(values);
    } else if (!failed && PyList_Check(tree)) {
        for (Py_ssize_t i = 0; !failed && i < PyList_Size(content); i++)
            failed = remember_inside(PyList_GetItem(content, i), saved);
    }
    Py_XDECREF(content);
    return failed ? -1 : 0;
}

static int remember_inside(PyObject *tree, PyObject *saved)
{
    if (Py_EnterRecursiveCall(" in a captured tree"))
        return -1;
    int failed = remember_captured(tree, saved);
    Py_LeaveRecursiveCall();
    return failed;
}

int captured_remember(PyObject *tree, PyObject *saved) { return remember_inside(tree, saved); }

int captured_put_back(PyObject *saved)
{
    PyObject *error = error_take();
    int failed = 0;
    for (Py_ssize_t i = 0; saved && i < PyList_Size(saved); i++) {
        PyObject *pair = PyList_GetItem(saved, i), *tree = PyTuple_GetItem(pair, 0);
        PyObject *content = PyTuple_GetItem(pair, 1);
        if (PyDict_Check(tree)) {
            failed |= dict_assign(tree, content);
        } else if (PyList_Check(tree)) {
            failed |= PyList_SetSlice(tree, 0, PyList_Size(tree), content);
        } else {
            failed |= PySequence_SetItem(tree, 0, PyList_GetItem(content, 0));
        }
    }
    error_put(error);
    return failed ? -1 : 0;
}

/* What stands for `form` in place of `now`, which is changed if it can be: a new reference. */
static PyObject *renewed(PyObject *now, PyObject *form, struct replacing *r)
{
    PyObject *mine = now && Py_TYPE(now) == Py_TYPE(form) ? attributes(now) : NULL;
    if (mine) {
        PyObject *other = replaced(form, r), *theirs = other ? attributes(other) : NULL;
        int failed = !theirs || PyDict_Update(mine, theirs);
        Py_XDECREF(other);
        Py_XDECREF(theirs);
        Py_DECREF(mine);
        return failed ? NULL : Py_NewRef(now);
    }
    bool same = now && (PyDict_Check(form) ? PyDict_Check(now) : PyList_Check(form) && PyList_Check(now));
    if ((now && is_random_state(form)) || same)
        return captured_assign(now, form, r) ? NULL : Py_NewRef(now);
    if (!PyTuple_Check(form))
        return replaced(form, r);
    PyObject *items = items_list(form);
    bool tuple = items && now && PyTuple_Check(now) && PyTuple_Size(now) == PyTuple_Size(form);
    for (Py_ssize_t i = 0; items && i < PyList_Size(items); i++) {
        PyObject *item = renewed(tuple ? PyTuple_GetItem(now, i) : NULL, PyList_GetItem(items, i), r);
        if (!item || PyList_SetItem(items, i, item))
            Py_CLEAR(items);
    }
    PyObject *result = items ? container_like(form, items) : NULL;
    Py_XDECREF(items);
    return result;
}

/* Gives a captured tree the content of `form` with arrays out of r. */
int captured_assign(PyObject *tree, PyObject *form, struct replacing *r)
{
    if (is_random_state(form)) {
        mlx_array key = mlx_array_new();
        PyObject *a = array_result(mlx_vector_array_get(&key, r->from, r->i++), key);
        int failed = !a || PySequence_SetItem(tree, 0, a);
        Py_XDECREF(a);
        return failed ? -1 : 0;
    }
    if (PyTuple_Check(form)) {
        PyObject *rest = renewed(tree, form, r);
        Py_XDECREF(rest);
        return rest ? 0 : -1;
    }
    if (PyList_Check(form)) {
        PyObject *items = items_list(form);
        for (Py_ssize_t i = 0; items && i < PyList_Size(items); i++) {
            PyObject *now = i < PyList_Size(tree) ? item_at(tree, i) : NULL;
            PyObject *item = renewed(now, PyList_GetItem(items, i), r);
            Py_XDECREF(now);
            if (!item || PyList_SetItem(items, i, item))
                Py_CLEAR(items);
        }
        int failed = !items || PyList_SetSlice(tree, 0, PyList_Size(tree), items);
        Py_XDECREF(items);
        return failed ? -1 : 0;
    }
    if (!PyDict_Check(form))
        return 0;
    PyObject *items = dict_items(form), *content = items ? PyDict_New() : NULL;
    for (Py_ssize_t i = 0; content && i < PyList_Size(items); i++) {
        PyObject *name = PyTuple_GetItem(PyList_GetItem(items, i), 0);
        PyObject *now = Py_XNewRef(PyDict_GetItemWithError(tree, name));
        PyObject *item = renewed(now, PyTuple_GetItem(PyList_GetItem(items, i), 1), r);
        Py_XDECREF(now);
        if (!item || PyDict_SetItem(content, name, item))
            Py_CLEAR(content);
        Py_XDECREF(item);
    }
    int failed = !content;
    if (!failed)
        failed = dict_assign(tree, content);
    Py_XDECREF(items);
    Py_XDECREF(content);
    return failed ? -1 : 0;
}
