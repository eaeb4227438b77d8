/* py_transforms.c: evaluation, and derivatives of Python functions.
 *
 * A transform hands the library a closure that calls back into Python.  The arrays in the trees of
 * arguments become the closure's flat list of inputs; inside, the function gets the trees with the
 * arrays that stand for them: for a derivative the caller's own (py_places.c), otherwise copies.  An
 * exception raised by the function waits in the closure's payload and comes out unchanged. */
#include "py_function.h"

#include <stdlib.h>
#include <string.h>

/* Evaluation */

struct evaluation {
    int (*eval)(const mlx_vector_array);
    mlx_vector_array arrays;
};

static int evaluate_all(void *evaluation)
{
    struct evaluation *e = evaluation;
    return e->eval(e->arrays);
}

static PyObject *evaluate_trees(struct py_call *c, int (*eval)(const mlx_vector_array))
{
    if (c->nrest == 1 && is_array(c->rest[0]) && eval == mlx_eval) { /* the common case */
        if (array_ready(handle_of(c->rest[0])))
            return NULL;
        Py_RETURN_NONE;
    }
    mlx_vector_array all = c->vectors[c->nvectors++] = mlx_vector_array_new();
    if (!all.ctx)
        return raise_last(), NULL;
    for (Py_ssize_t i = 0; i < c->nrest; i++)
        if (tree_arrays(c->rest[i], all, NULL))
            return NULL;
    struct evaluation e = { eval, all };
    if (evaluate_arrays(evaluate_all, &e))
        return NULL;
    Py_RETURN_NONE;
}

int arrays_ready(mlx_vector_array all)
{
    struct evaluation e = { mlx_eval, all };
    return evaluate_arrays(evaluate_all, &e);
}

PyObject *fn_eval(struct py_call *c) { return evaluate_trees(c, mlx_eval); }
PyObject *fn_async_eval(struct py_call *c) { return evaluate_trees(c, mlx_async_eval); }

/* Closures */

static void python_call_end(struct released *r)
{
    struct python_call *p = (struct python_call *)r;
    Py_XDECREF(p->fun);
    Py_XDECREF(p->args);
    Py_XDECREF(p->kwargs);
    Py_XDECREF(p->positions);
    Py_XDECREF(p->names);
    Py_XDECREF(p->value);
    Py_XDECREF(p->error);
    free(p);
}

static void python_call_release(void *payload) { release_soon(payload); }

static PyObject *next_array(void *ctx, PyObject *leaf)
{
    struct replacing *r = ctx;
    if (!is_array(leaf))
        return Py_NewRef(leaf);
    mlx_array a = mlx_array_new();
    return array_result(mlx_vector_array_get(&a, r->from, r->i++), a);
}

PyObject *replaced(PyObject *tree, struct replacing *r) { return tree_map(tree, next_array, r); }

static PyObject *hole(void *unused, PyObject *leaf)
{
    (void)unused;
    return is_array(leaf) ? array_wrap(mlx_array_new()) : Py_NewRef(leaf);
}

PyObject *hollowed(PyObject *tree) { return tree_map(tree, hole, NULL); }

PyObject *hollowed_plain(PyObject *tree) { return tree_map_plain(tree, hole, NULL); }

static PyObject *refilled_tree(PyObject *tree, struct replacing *r, struct py_places *where)
{
    return where ? places_fill(where, tree, r) : replaced(tree, r);
}

PyObject *new_args(const struct python_call *p, struct replacing *r, struct py_places *where)
{
    Py_ssize_t n = PyTuple_Size(p->args);
    PyObject *args = PyTuple_New(n);
    bool all = !p->positions;
    for (Py_ssize_t i = 0; args && i < n; i++) {
        PyObject *item = PyTuple_GetItem(p->args, i);
        item = all ? refilled_tree(item, r, where) : Py_NewRef(item);
        if (!item || PyTuple_SetItem(args, i, item))
            Py_CLEAR(args);
    }
    for (Py_ssize_t k = 0; args && !all && k < PyList_Size(p->positions); k++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyList_GetItem(p->positions, k));
        PyObject *item = refilled_tree(PyTuple_GetItem(p->args, i), r, where);
        if (!item || PyTuple_SetItem(args, i, item))
            Py_CLEAR(args);
    }
    return args;
}

/* Borrowed; NULL with an exception set. */
static PyObject *named_argument(PyObject *kwargs, PyObject *name)
{
    PyObject *arg = PyDict_GetItemWithError(kwargs, name);
    if (!arg && !PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, name);
    return arg;
}

PyObject *new_kwargs(const struct python_call *p, struct replacing *r, struct py_places *where)
{
    if (!p->kwargs)
        return NULL;
    PyObject *kwargs = PyDict_Copy(p->kwargs);
    if (kwargs && p->kwargs_too) {
        PyObject *all = replaced(kwargs, r);
        Py_DECREF(kwargs);
        kwargs = all;
    }
    for (Py_ssize_t k = 0; kwargs && p->names && k < PyList_Size(p->names); k++) {
        PyObject *name = PyList_GetItem(p->names, k), *old = named_argument(kwargs, name);
        PyObject *item = old ? refilled_tree(old, r, where) : NULL;
        if (!item || PyDict_SetItem(kwargs, name, item))
            Py_CLEAR(kwargs);
        Py_XDECREF(item);
    }
    return kwargs;
}

/* What is neither an array nor a list or tuple of arrays: the value, or the first of its items that is none, borrowed;
 * NULL where there is nothing of the kind. */
static PyObject *other_than_arrays(PyObject *value)
{
    if (!is_list(value))
        return is_array(value) ? NULL : value;
    for (Py_ssize_t i = 0; i < items_size(value); i++) {
        PyObject *item = PyList_Check(value) ? PyList_GetItem(value, i) : PyTuple_GetItem(value, i);
        if (!is_array(item))
            return item;
    }
    return NULL;
}

int check_arrays(const char *who, PyObject *value)
{
    PyObject *other = Py_XNewRef(other_than_arrays(value)); /* names of types may be asked for by code of a user's */
    if (!other)
        return 0;
    PyErr_Format(exc_value, "[%s] expected the function to return an array or a list or tuple of arrays, got %s%s%s",
                 who, type_name(value), other == value ? "" : " that holds ", other == value ? "" : type_name(other));
    Py_DECREF(other);
    return -1;
}

/* Is the value what was asked for? */
static int check_value(const struct python_call *p, PyObject *value)
{
    PyObject *first = value;
    if (p->returns == TREE)
        return 0;
    if (p->returns == SOME_ARRAYS)
        return check_arrays(p->who, value);
    if (p->returns == SCALAR_AND_MORE && PyTuple_Check(value) && PyTuple_Size(value) > 0)
        first = PyTuple_GetItem(value, 0);
    if (!is_array(first)) {
        PyErr_Format(exc_value, "[%s] expected the function to return a scalar array%s, got %s%s", p->who,
                     p->returns == SCALAR ? "" : ", or a tuple that starts with one",
                     first == value ? "" : "a tuple that starts with ", type_name(first));
        return -1;
    }
    if (mlx_array_ndim(handle_of(first)) != 0) {
        PyObject *shape = ints_to_tuple(mlx_array_shape(handle_of(first)), mlx_array_ndim(handle_of(first)));
        if (shape)
            PyErr_Format(exc_value,
                         "[%s] expected the function to return a scalar array, got one of "
                         "shape %R",
                         p->who, shape);
        Py_XDECREF(shape);
        return -1;
    }
    return 0;
}

/* Called by the library, on the thread that called the library, which has the GIL. */
static int call_python(mlx_vector_array *res, const mlx_vector_array in, void *payload)
{
    struct python_call *p = payload;
    struct replacing r = { in, 0 };
    struct py_places *where = p->in_place ? places_new() : NULL;
    PyObject *args = where || !p->in_place ? new_args(p, &r, where) : NULL;
    PyObject *kwargs = args ? new_kwargs(p, &r, where) : NULL;
    PyObject *value = NULL;
    if (args && (kwargs || !p->kwargs))
        value = PyObject_Call(p->fun, args, kwargs);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    if (value && p->checked) {
        PyObject *returned = value;
        value = p->checked(p, returned);
        Py_DECREF(returned);
    }
    int failed = !value || check_value(p, value) || tree_arrays(value, *res, NULL);
    failed |= places_put_back(where);
    if (failed) {
        Py_XDECREF(value);
        keep_error(p);
        return 1;
    }
    PyObject *before = p->value;
    p->value = value;
    Py_XDECREF(before);
    return 0;
}

void keep_error(struct python_call *p)
{
    PyObject *before = p->error;
    p->error = error_take();
    Py_XDECREF(before);
}

struct python_call *python_call_new(const char *who, PyObject *fun, PyObject *args, PyObject *kwargs)
{
    struct python_call *p = calloc(1, sizeof *p);
    if (!p)
        return PyErr_NoMemory(), NULL;
    p->released.end = python_call_end;
    p->who = who;
    p->fun = Py_NewRef(fun);
    p->args = Py_NewRef(args);
    p->kwargs = Py_XNewRef(kwargs);
    return p;
}

mlx_closure closure_of(struct python_call *p)
{
    mlx_closure f = mlx_closure_new_func_payload(call_python, p, python_call_release);
    if (!f.ctx) {
        python_call_end(&p->released);
        raise_last();
    }
    return f;
}

void raise_from(struct python_call *p)
{
    if (!p->error) {
        raise_last();
        return;
    }
    error_put(p->error);
    p->error = NULL;
}

/* vjp and jvp */

static PyObject *derivative(struct py_call *c,
                            int (*transform)(mlx_vector_array *, mlx_vector_array *, const mlx_closure,
                                             const mlx_vector_array, const mlx_vector_array))
{
    if (!PyCallable_Check(c->v[0].o))
        return call_refuse(c, 0, "callable");
    PyObject *args = vector_items(c->v[1].vec), *result = NULL;
    struct python_call *p = args ? python_call_new(c->sig->name, c->v[0].o, args, NULL) : NULL;
    Py_XDECREF(args);
    mlx_closure f = p ? closure_of(p) : mlx_closure_new();
    if (!f.ctx)
        return NULL;
    p->returns = SOME_ARRAYS;
    mlx_vector_array y = mlx_vector_array_new(), dy = mlx_vector_array_new();
    if (transform(&y, &dy, f, c->v[1].vec, c->v[2].vec)) {
        raise_from(p);
        mlx_vector_array_free(y);
        mlx_vector_array_free(dy);
    } else {
        PyObject *values = vector_to_list(y), *derivatives = vector_to_list(dy);
        if (values && derivatives)
            result = PyTuple_Pack(2, values, derivatives);
        Py_XDECREF(values);
        Py_XDECREF(derivatives);
    }
    mlx_closure_free(f);
    release_now();
    return result;
}

PyObject *fn_vjp(struct py_call *c) { return derivative(c, mlx_vjp); }
PyObject *fn_jvp(struct py_call *c) { return derivative(c, mlx_jvp); }

/* grad and value_and_grad make objects that are called later. */

struct gradient {
    PyObject ob_base;
    PyObject *fun, *positions, *names; /* lists; positions empty: no positional argument */
    bool with_value;
};
static PyTypeObject *gradient_type;

static const char *who(const struct gradient *g) { return g->with_value ? "value_and_grad" : "grad"; }

static int fail_transform(const struct gradient *g, const char *what)
{
    PyErr_Format(exc_value, "[%s] %s", who(g), what);
    return -1;
}

static int check_arguments(const struct gradient *g, PyObject *args, PyObject *kwargs)
{
    for (Py_ssize_t k = 0; k < PyList_Size(g->positions); k++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyList_GetItem(g->positions, k));
        if (i < PyTuple_Size(args))
            continue;
        PyErr_Format(exc_value,
                     "[%s] cannot differentiate by argument %zd of a call with %zd "
                     "positional arguments",
                     who(g), i, PyTuple_Size(args));
        return -1;
    }
    for (Py_ssize_t k = 0; k < PyList_Size(g->names); k++) {
        PyObject *name = PyList_GetItem(g->names, k);
        if (kwargs && PyDict_GetItemWithError(kwargs, name))
            continue;
        PyErr_Format(exc_value, "[%s] cannot differentiate by argument %R of a call without it", who(g), name);
        return -1;
    }
    return 0;
}

static int collect_differentiated(const struct gradient *g, PyObject *args, PyObject *kwargs, mlx_vector_array in)
{
    for (Py_ssize_t k = 0; k < PyList_Size(g->positions); k++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyList_GetItem(g->positions, k));
        if (tree_arrays(PyTuple_GetItem(args, i), in, who(g)))
            return -1;
    }
    for (Py_ssize_t k = 0; k < PyList_Size(g->names); k++) {
        PyObject *arg = named_argument(kwargs, PyList_GetItem(g->names, k));
        if (!arg || tree_arrays(arg, in, who(g)))
            return -1;
    }
    return 0;
}

/* The form of the gradients, that of the arguments: one tree for one argument, a tuple for several; with
 * names a pair of that (or None) and a dict. */
static PyObject *gradients_form(const struct gradient *g, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyList_Size(g->positions), m = PyList_Size(g->names);
    PyObject *trees = PyTuple_New(n);
    for (Py_ssize_t k = 0; trees && k < n; k++) {
        Py_ssize_t i = PyLong_AsSsize_t(PyList_GetItem(g->positions, k));
        PyObject *tree = hollowed_plain(PyTuple_GetItem(args, i));
        if (!tree || PyTuple_SetItem(trees, k, tree))
            Py_CLEAR(trees);
    }
    if (trees && n < 2) {
        PyObject *only = Py_NewRef(n ? PyTuple_GetItem(trees, 0) : Py_None);
        Py_DECREF(trees);
        trees = only;
    }
    if (!trees || !m)
        return trees;
    PyObject *named = PyDict_New();
    for (Py_ssize_t k = 0; named && k < m; k++) {
        PyObject *name = PyList_GetItem(g->names, k);
        PyObject *arg = named_argument(kwargs, name), *tree = arg ? hollowed_plain(arg) : NULL;
        if (!tree || PyDict_SetItem(named, name, tree))
            Py_CLEAR(named);
        Py_XDECREF(tree);
    }
    PyObject *both = named ? PyTuple_Pack(2, trees, named) : NULL;
    Py_DECREF(trees);
    Py_XDECREF(named);
    return both;
}

/* Values and gradients of n > 0 inputs. */
static int apply(mlx_closure f, mlx_vector_array in, mlx_vector_array *values, mlx_vector_array *grads)
{
    size_t n = mlx_vector_array_size(in);
    int *numbers = malloc((n + 1) * sizeof *numbers);
    mlx_closure_value_and_grad vg = mlx_closure_value_and_grad_new();
    if (!numbers)
        return PyErr_NoMemory(), 1;
    for (size_t i = 0; i < n; i++) numbers[i] = (int)i;
    int failed = mlx_value_and_grad(&vg, f, numbers, n) || mlx_closure_value_and_grad_apply(values, grads, vg, in);
    mlx_closure_value_and_grad_free(vg);
    free(numbers);
    return failed;
}

static PyObject *gradient_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct gradient *g = (struct gradient *)self;
    if (check_arguments(g, args, kwargs))
        return NULL;
    PyObject *result = NULL, *value = NULL, *trees = NULL, *form = NULL;
    mlx_vector_array in = mlx_vector_array_new(), values = mlx_vector_array_new(), grads = mlx_vector_array_new();
    mlx_closure f = mlx_closure_new();
    struct python_call *p = NULL;
    if (!in.ctx || !values.ctx || !grads.ctx) {
        raise_last();
    } else if (!collect_differentiated(g, args, kwargs, in) && (form = gradients_form(g, args, kwargs)) &&
               (p = python_call_new(who(g), g->fun, args, kwargs))) {
        p->in_place = true;
        p->positions = Py_NewRef(g->positions);
        p->names = Py_NewRef(g->names);
        p->returns = g->with_value ? SCALAR_AND_MORE : SCALAR;
        f = closure_of(p);
    }
    if (f.ctx) {
        bool nothing = mlx_vector_array_size(in) == 0;
        if (nothing ? mlx_closure_apply(&values, f, in) : apply(f, in, &values, &grads)) {
            raise_from(p);
        } else {
            struct replacing r = { values, 0 }, d = { grads, 0 };
            value = g->with_value ? replaced(p->value, &r) : Py_NewRef(Py_None);
            trees = value ? replaced(form, &d) : NULL;
        }
    }
    if (trees)
        result = g->with_value ? PyTuple_Pack(2, value, trees) : Py_NewRef(trees);
    Py_XDECREF(value);
    Py_XDECREF(trees);
    Py_XDECREF(form);
    mlx_closure_free(f);
    mlx_vector_array_free(in);
    mlx_vector_array_free(values);
    mlx_vector_array_free(grads);
    release_now();
    return result;
}

/* A list of non-negative ints, each once, out of an int, a sequence or None. */
static PyObject *positions_from(struct py_call *c, bool has_names)
{
    struct value *v = &c->v[1];
    PyObject *list = PyList_New(0);
    int n = v->given ? v->ints.n : has_names ? 0 : 1;
    for (int k = 0; list && k < n; k++) {
        int i = v->given ? v->ints.v[k] : 0;
        PyObject *number = PyLong_FromLong(i);
        int twice = number ? PySequence_Contains(list, number) : -1;
        if (i < 0 || twice > 0)
            PyErr_Format(exc_value, "[%s] expected argument numbers from 0, each once, got %d%s", c->sig->name, i,
                         twice > 0 ? " twice" : "");
        if (i < 0 || twice || PyList_Append(list, number))
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

/* A list of str, of that very type: looking one up runs no code of a user's. */
static PyObject *names_from(struct py_call *c)
{
    PyObject *o = c->v[2].o, *list = NULL;
    if (!o || o == Py_None)
        return PyList_New(0);
    if (PyUnicode_Check(o)) {
        if ((list = PyList_New(0)) && PyList_Append(list, o))
            Py_CLEAR(list);
    } else if (PySequence_Check(o)) {
        list = PySequence_List(o);
    }
    for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++) {
        PyObject *name = PyList_GetItem(list, i);
        name = PyUnicode_Check(name) ? PyUnicode_FromObject(name) : NULL;
        if (!name || PyList_SetItem(list, i, name))
            Py_CLEAR(list);
    }
    if (!list && !PyErr_Occurred())
        call_refuse(c, 2, "a str or a sequence of str");
    return list;
}

static PyObject *make_gradient(struct py_call *c, bool with_value)
{
    if (!PyCallable_Check(c->v[0].o))
        return call_refuse(c, 0, "callable");
    PyObject *names = names_from(c);
    PyObject *positions = names ? positions_from(c, PyList_Size(names) > 0) : NULL;
    struct gradient *g = positions ? PyObject_GC_New(struct gradient, gradient_type) : NULL;
    if (!g) {
        Py_XDECREF(names);
        Py_XDECREF(positions);
        return NULL;
    }
    g->fun = Py_NewRef(c->v[0].o);
    g->names = names;
    g->positions = positions;
    g->with_value = with_value;
    PyObject_GC_Track((PyObject *)g);
    if (PyList_Size(names) + PyList_Size(positions) == 0) {
        fail_transform(g, "expected at least one argument to differentiate by");
        Py_CLEAR(g);
    }
    return (PyObject *)g;
}

PyObject *fn_grad(struct py_call *c) { return make_gradient(c, false); }
PyObject *fn_value_and_grad(struct py_call *c) { return make_gradient(c, true); }

/* Without tp_clear: a cycle through a gradient, whose members never change, also goes through
 * something that can be cleared. */
static int gradient_traverse(PyObject *o, visitproc visit, void *arg)
{
    struct gradient *g = (struct gradient *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(g->fun);
    Py_VISIT(g->positions);
    Py_VISIT(g->names);
    return 0;
}

static void gradient_dealloc(PyObject *o)
{
    struct gradient *g = (struct gradient *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_XDECREF(g->fun);
    Py_XDECREF(g->positions);
    Py_XDECREF(g->names);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyMethodDef gradient_methods[] = { WRAPPER_METHODS, { NULL, NULL, 0, NULL } };
static PyType_Slot gradient_slots[] = {
    { Py_tp_dealloc, gradient_dealloc },
    { Py_tp_traverse, gradient_traverse },
    { Py_tp_call, gradient_call },
    { Py_tp_methods, gradient_methods },
    { Py_tp_getattro, wrapper_getattro },
    { Py_tp_doc, DOC("What grad and value_and_grad give: a function that computes gradients.") },
    { 0, NULL },
};
static PyType_Spec gradient_spec = {
    "mlx.core._Gradient",
    sizeof(struct gradient),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    gradient_slots,
};

int transforms_init(PyObject *module)
{
    gradient_type = add_type(module, &gradient_spec);
    return gradient_type ? 0 : -1;
}
