/* py_control.c: scan, while_loop and cond of Python functions.
 *
 * Numbers in carries and results become arrays.  What a function returns is laid out as what it must
 * match (the carry it got, what the other branch returned), so that arrays meet in one order, and
 * where it does not match the error says which leaf. */
#include "py_function.h"

#include <stdlib.h>
#include <string.h>

/* ---- leaves */

/* Numbers, and what looks like an array, as arrays; everything else as it is. */
static PyObject *leaf_array(void *unused, PyObject *leaf)
{
    (void)unused;
    mlx_array a = mlx_array_new();
    int failed = 0;
    if (is_array(leaf) || leaf == Py_None || PyUnicode_Check(leaf))
        return Py_NewRef(leaf);
    if (scalar_kind(leaf))
        failed = array_from(&a, leaf, NULL) || array_narrow(&a);
    else
        failed = array_from_foreign(&a, leaf);
    if (failed) {
        mlx_array_free(a);
        return NULL;
    }
    return a.ctx ? array_wrap(a) : Py_NewRef(leaf);
}

static PyObject *with_arrays(PyObject *tree) { return tree_map(tree, leaf_array, NULL); }

static int append_array(void *vec, PyObject *leaf)
{
    if (is_array(leaf) && mlx_vector_array_append_value(*(mlx_vector_array *)vec, handle_of(leaf)))
        return raise_last();
    return 0;
}

static int arrays_of(PyObject *tree, mlx_vector_array out) { return tree_visit(tree, append_array, &out); }

/* ---- trees that must match */

struct match {
    const char *who, *rule; /* "[scan] the carry must keep its structure, shapes and dtypes: carry['h'] was ..." */
    const char *root, *was, *is;
};

/* The way to a leaf. */
struct leaf_path {
    const struct leaf_path *up;
    PyObject *key; /* NULL: number i */
    Py_ssize_t i;
    bool attribute; /* called `key` */
};

static PyObject *leaf_path_text(const struct match *m, const struct leaf_path *at)
{
    if (!at)
        return PyUnicode_FromString(m->root);
    PyObject *before = leaf_path_text(m, at->up);
    PyObject *text = !before         ? NULL
                     : at->attribute ? PyUnicode_FromFormat("%U.%S", before, at->key)
                     : at->key       ? PyUnicode_FromFormat("%U[%R]", before, at->key)
                                     : PyUnicode_FromFormat("%U[%zd]", before, at->i);
    Py_XDECREF(before);
    return text;
}

/* "float32 of shape (3,)", "a dict with keys ['a']"; of NULL, "not there" */
static PyObject *described(PyObject *o)
{
    if (!o)
        return PyUnicode_FromString("not there");
    if (is_array(o)) {
        mlx_array a = handle_of(o);
        PyObject *shape = ints_to_tuple(mlx_array_shape(a), mlx_array_ndim(a));
        PyObject *text = NULL;
        if (shape)
            text = PyUnicode_FromFormat("%s of shape %R", mlx_dtype_name(mlx_array_dtype(a)), shape);
        Py_XDECREF(shape);
        return text;
    }
    if (PyDict_Check(o)) {
        PyObject *keys = PyDict_Keys(o), *text = keys ? PyUnicode_FromFormat("a dict with keys %R", keys) : NULL;
        Py_XDECREF(keys);
        return text;
    }
    if (is_list(o))
        return PyUnicode_FromFormat("a %s of %zd", type_name(o), items_size(o));
    return is_node(o) ? PyUnicode_FromFormat("an object of %s", type_name(o)) : PyUnicode_FromFormat("%R", o);
}

static PyObject *differs(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    PyObject *where = leaf_path_text(m, at), *was = where ? described(like) : NULL, *is = was ? described(o) : NULL;
    if (is)
        PyErr_Format(exc_value, "[%s] %s: %U %s %U, and %s %U", m->who, m->rule, where, m->was, was, m->is, is);
    Py_XDECREF(where);
    Py_XDECREF(was);
    Py_XDECREF(is);
    return NULL;
}

static bool same_kind(mlx_array a, mlx_array b)
{
    size_t n = mlx_array_ndim(a);
    return mlx_array_dtype(a) == mlx_array_dtype(b) && n == mlx_array_ndim(b) &&
           (!n || !memcmp(mlx_array_shape(a), mlx_array_shape(b), n * sizeof(int)));
}

static PyObject *matched(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o);

/* May a number of this kind become one of dtype t? */
static bool takes_kind(mlx_dtype t, char kind)
{
    static const char order[] = "biufc";
    const char *at = strchr(order, dtype_kind(t));
    return at && strchr(order, kind) <= at;
}

static PyObject *matched_array(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    char kind = is_array(o) ? 0 : scalar_kind(o);
    PyObject *x = NULL;
    if (kind && mlx_array_ndim(handle_of(like)) == 0 && takes_kind(mlx_array_dtype(handle_of(like)), kind)) {
        mlx_array a = mlx_array_new();
        if (scalar_to_array(&a, o, kind, mlx_array_dtype(handle_of(like))) == 0)
            return array_wrap(a);
        PyErr_Clear();
        mlx_array_free(a);
    }
    if (!(x = leaf_array(NULL, o)))
        return NULL;
    if (is_array(x) && same_kind(handle_of(like), handle_of(x)))
        return x;
    differs(m, at, like, x);
    Py_DECREF(x);
    return NULL;
}

/* One of them, in either; NULL: it is not there. */
static int match_attribute(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    PyObject *a = like ? value_key(like) : NULL, *b = o ? value_key(o) : NULL;
    int same = PyErr_Occurred() ? -1 : a && b ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
    if (same == 0)
        differs(m, at, like, o);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return same == 1 ? 0 : -1;
}

/* What containers have beside their items is constant, and must be the same. */
static int match_attributes(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    PyObject *a = container_attributes(like), *b = container_attributes(o), *names = PyDict_New(), *name, *value;
    int failed = !names || PyErr_Occurred() || (a && PyDict_Update(names, a)) || (b && PyDict_Update(names, b));
    Py_ssize_t next = 0;
    while (!failed && PyDict_Next(names, &next, &name, &value)) {
        PyObject *was = a ? Py_XNewRef(PyDict_GetItemWithError(a, name)) : NULL;
        PyObject *is = b ? Py_XNewRef(PyDict_GetItemWithError(b, name)) : NULL;
        failed = match_attribute(m, &(struct leaf_path){ at, name, 0, true }, was, is);
        Py_XDECREF(was);
        Py_XDECREF(is);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(names);
    return failed ? -1 : 0;
}

static PyObject *matched_dict(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    PyObject *pairs = dict_items(like), *result = pairs ? PyDict_New() : NULL;
    bool same = pairs && PyDict_Size(o) == PyList_Size(pairs);
    for (Py_ssize_t i = 0; result && same && i < PyList_Size(pairs); i++) {
        PyObject *pair = PyList_GetItem(pairs, i), *key = PyTuple_GetItem(pair, 0);
        PyObject *value = Py_XNewRef(PyDict_GetItemWithError(o, key));
        if (!(same = value != NULL))
            break;
        PyObject *item = matched(m, &(struct leaf_path){ at, key, 0, false }, PyTuple_GetItem(pair, 1), value);
        if (!item || PyDict_SetItem(result, key, item))
            Py_CLEAR(result);
        Py_XDECREF(item);
        Py_DECREF(value);
    }
    if (result && !same) {
        Py_CLEAR(result);
        if (!PyErr_Occurred())
            differs(m, at, like, o);
    }
    PyObject *typed = result ? container_like(o, result) : NULL;
    Py_XDECREF(pairs);
    Py_XDECREF(result);
    return typed;
}

static PyObject *matched_items(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    PyObject *a = items_now(like), *b = a ? items_now(o) : NULL, *items = NULL;
    Py_ssize_t n = b ? PyTuple_Size(a) : 0;
    if (b)
        items = n == PyTuple_Size(b) ? PyList_New(n) : differs(m, at, like, o);
    for (Py_ssize_t i = 0; items && i < n; i++) {
        PyObject *item =
            matched(m, &(struct leaf_path){ at, NULL, i, false }, PyTuple_GetItem(a, i), PyTuple_GetItem(b, i));
        if (!item || PyList_SetItem(items, i, item))
            Py_CLEAR(items);
    }
    Py_XDECREF(a);
    Py_XDECREF(b);
    PyObject *result = items ? container_like(o, items) : NULL;
    Py_XDECREF(items);
    return result;
}

static PyObject *matched_object(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    PyObject *aux = NULL, *other = NULL, *result = NULL;
    PyObject *a = tree_open(like, &aux), *b = a ? tree_open(o, &other) : NULL;
    int same = b ? PyObject_RichCompareBool(aux, other, Py_EQ) : -1;
    if (same == 0)
        differs(m, at, like, o);
    PyObject *children = same == 1 ? matched(m, at, a, b) : NULL;
    if (children)
        result = tree_close(o, other, children);
    Py_XDECREF(children);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(aux);
    Py_XDECREF(other);
    return result;
}

/* o in the form of `like`: the same containers, and arrays of the same shapes and dtypes. */
static PyObject *matched(const struct match *m, const struct leaf_path *at, PyObject *like, PyObject *o)
{
    PyObject *(*inside)(const struct match *, const struct leaf_path *, PyObject *, PyObject *) =
        is_array(like)       ? matched_array
        : is_node(like)      ? matched_object
        : PyDict_Check(like) ? matched_dict
        : is_list(like)      ? matched_items
                             : NULL;
    if (inside == matched_array)
        return matched_array(m, at, like, o);
    if (!inside) {
        int same = like == o ? 1 : PyObject_RichCompareBool(like, o, Py_EQ);
        return same < 0 ? NULL : same ? Py_NewRef(o) : differs(m, at, like, o);
    }
    if (Py_TYPE(o) != Py_TYPE(like))
        return differs(m, at, like, o);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return NULL;
    bool plain = Py_TYPE(o) == &PyDict_Type || Py_TYPE(o) == &PyList_Type || Py_TYPE(o) == &PyTuple_Type;
    PyObject *result = inside(m, at, like, o);
    if (result && !plain && inside != matched_object && match_attributes(m, at, like, o))
        Py_CLEAR(result);
    Py_LeaveRecursiveCall();
    return result;
}

/* ---- functions */

static const char carry_rule[] = "the carry must keep its structure, shapes and dtypes";

static PyObject *match_carry(const char *who, PyObject *like, PyObject *carry)
{
    struct match m = { who, carry_rule, "carry", "was", "the function returned" };
    return matched(&m, NULL, like, carry);
}

/* (carry, y), the former as the carry given. */
static PyObject *checked_step(struct python_call *p, PyObject *value)
{
    if (!PyTuple_Check(value) || PyTuple_Size(value) != 2) {
        PyObject *text = described(value);
        if (text)
            PyErr_Format(exc_value, "[%s] expected the function to return a tuple (carry, y), got %U", p->who, text);
        Py_XDECREF(text);
        return NULL;
    }
    PyObject *carry = match_carry(p->who, PyTuple_GetItem(p->args, 0), PyTuple_GetItem(value, 0));
    PyObject *y = carry ? with_arrays(PyTuple_GetItem(value, 1)) : NULL;
    PyObject *result = y ? PyTuple_Pack(2, carry, y) : NULL;
    Py_XDECREF(carry);
    Py_XDECREF(y);
    return result;
}

static PyObject *checked_carry(struct python_call *p, PyObject *value)
{
    return match_carry(p->who, PyTuple_GetItem(p->args, 0), value);
}

static PyObject *checked_test(struct python_call *p, PyObject *value)
{
    PyObject *x = leaf_array(NULL, value);
    if (!x || (is_array(x) && mlx_array_ndim(handle_of(x)) == 0))
        return x;
    PyObject *text = described(x);
    if (text)
        PyErr_Format(exc_value, "[%s] expected the condition to return a scalar, got %U", p->who, text);
    Py_XDECREF(text);
    Py_DECREF(x);
    return NULL;
}

static PyObject *checked_branch(struct python_call *p, PyObject *value)
{
    struct python_call *other = p->with;
    if (!other)
        return with_arrays(value);
    struct match m = { p->who, "the branches must return the same structure, shapes and dtypes", "result",
                       "of true_fun is", "that of false_fun" };
    return matched(&m, NULL, other->value, value);
}

/* A closure around a function of trees; *p is its call.  No ctx with an exception set. */
static mlx_closure closure_for(const char *who, PyObject *fun, PyObject *args,
                               PyObject *(*checked)(struct python_call *, PyObject *), struct python_call **p)
{
    *p = args ? python_call_new(who, fun, args, NULL) : NULL;
    mlx_closure f = *p ? closure_of(*p) : mlx_closure_new();
    if (f.ctx) {
        (*p)->returns = TREE;
        (*p)->checked = checked;
    }
    return f;
}

static void raise_either(struct python_call *a, struct python_call *b) { raise_from(a->error ? a : b); }

PyObject *fn_scan(struct py_call *c)
{
    if (!PyCallable_Check(c->v[0].o))
        return call_refuse(c, 0, "callable");
    PyObject *none = Py_None, *result = NULL;
    PyObject *init = with_arrays(c->v[1].o), *xs = init ? with_arrays(c->v[2].o ? c->v[2].o : none) : NULL;
    PyObject *args = xs ? PyTuple_Pack(2, init, xs) : NULL;
    struct python_call *p = NULL;
    mlx_vector_array v[4] = { mlx_vector_array_new(), mlx_vector_array_new(), mlx_vector_array_new(),
                              mlx_vector_array_new() };
    mlx_closure f = closure_for("scan", c->v[0].o, args, checked_step, &p);
    if (c->v[3].given && c->v[3].i < 0)
        PyErr_Format(exc_value, "[scan] expected a length that is not negative, got %d", c->v[3].i);
    else if (f.ctx && !arrays_of(init, v[0]) && !arrays_of(xs, v[1])) {
        if (mlx_scan(&v[2], &v[3], f, v[0], v[1], c->v[3].given ? c->v[3].i : -1, BOOL(4), STREAM)) {
            raise_from(p);
        } else {
            struct replacing carry = { v[2], 0 }, ys = { v[3], 0 };
            PyObject *a = replaced(PyTuple_GetItem(p->value, 0), &carry);
            PyObject *b = a ? replaced(PyTuple_GetItem(p->value, 1), &ys) : NULL;
            result = b ? PyTuple_Pack(2, a, b) : NULL;
            Py_XDECREF(a);
            Py_XDECREF(b);
        }
    }
    for (size_t i = 0; i < LENGTH(v); i++) mlx_vector_array_free(v[i]);
    mlx_closure_free(f);
    Py_XDECREF(args);
    Py_XDECREF(xs);
    Py_XDECREF(init);
    release_now();
    return result;
}

PyObject *fn_while_loop(struct py_call *c)
{
    for (int i = 0; i < 2; i++)
        if (!PyCallable_Check(c->v[i].o))
            return call_refuse(c, i, "callable");
    PyObject *init = with_arrays(c->v[2].o), *args = init ? PyTuple_Pack(1, init) : NULL, *result = NULL;
    struct python_call *p = NULL, *q = NULL;
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_closure test = closure_for("while_loop", c->v[0].o, args, checked_test, &p);
    mlx_closure body = test.ctx ? closure_for("while_loop", c->v[1].o, args, checked_carry, &q) : mlx_closure_new();
    if (body.ctx && !arrays_of(init, in)) {
        if (mlx_while_loop(&out, test, body, in, STREAM)) {
            raise_either(p, q);
        } else {
            struct replacing r = { out, 0 };
            result = replaced(q->value, &r);
        }
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(test);
    mlx_closure_free(body);
    Py_XDECREF(args);
    Py_XDECREF(init);
    release_now();
    return result;
}

PyObject *fn_cond(struct py_call *c)
{
    for (int i = 1; i < 3; i++)
        if (!PyCallable_Check(c->v[i].o))
            return call_refuse(c, i, "callable");
    if (call_operands(c, 0, 1))
        return NULL;
    PyObject *args = PyTuple_New(c->nrest), *result = NULL;
    for (Py_ssize_t i = 0; args && i < c->nrest; i++) PyTuple_SetItem(args, i, Py_NewRef(c->rest[i]));
    struct python_call *p = NULL, *q = NULL;
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_closure yes = closure_for("cond", c->v[1].o, args, checked_branch, &p);
    mlx_closure no = yes.ctx ? closure_for("cond", c->v[2].o, args, checked_branch, &q) : mlx_closure_new();
    if (no.ctx && !arrays_of(args, in)) {
        q->with = p;
        if (mlx_cond(&out, ARRAY(0), yes, no, in, STREAM)) {
            raise_either(p, q);
        } else {
            struct replacing r = { out, 0 };
            result = replaced(p->value, &r);
        }
    }
    mlx_vector_array_free(in);
    mlx_vector_array_free(out);
    mlx_closure_free(yes);
    mlx_closure_free(no);
    Py_XDECREF(args);
    release_now();
    return result;
}
