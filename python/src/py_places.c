/* py_places.c: arguments whose arrays are replaced where they are.
 *
 * A function that is differentiated gets its caller's own lists and dicts (a module is one): what it puts
 * into them stays there, and what knows them from elsewhere finds the arrays that stand for theirs.  Each
 * replacement is noted.  When the call is over, whatever came of it, the arrays that still are in the
 * containers, and have not been updated, give way to what they stood for.  Tuples and objects of registered
 * types are made anew.
 *
 * A list or a dict that another thread has in such a call is copied: each thread has its own arrays in it.
 * The calls of one thread need not end in the order they began in: greenlets take turns.  Nothing here lies on
 * a thread's stack, which greenlets move and a fork gives away. */
#include "py_function.h"

#include <stdlib.h>

struct place {
    PyObject *container, *key; /* key NULL: item i */
    Py_ssize_t i;
    PyObject *before, *now;
    uintptr_t id; /* of the array that `now` is; 0 for a tuple or an object */
    bool moved;   /* it was not where it had been put */
};

struct py_places {
    struct place *v, **sorted;
    size_t n, cap;
    unsigned long thread;
    struct py_places *others;
};

static struct py_places *active; /* those of all threads, the latest first; the GIL guards it */

static uintptr_t id_of(PyObject *o) { return is_array(o) ? mlx_array_id(handle_of(o)) : 0; }

static int add_place(struct py_places *p, PyObject *container, PyObject *key, Py_ssize_t i, PyObject *before,
                     PyObject *now)
{
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 32;
        struct place *more = realloc(p->v, cap * sizeof *more);
        if (!more)
            return PyErr_NoMemory(), -1;
        p->v = more;
        p->cap = cap;
    }
    p->v[p->n++] = (struct place){ Py_XNewRef(container), Py_XNewRef(key), i,    Py_NewRef(before),
                                   Py_NewRef(now),        id_of(now),      false };
    return 0;
}

static void places_free(struct py_places *p)
{
    for (size_t k = 0; k < p->n; k++) {
        Py_XDECREF(p->v[k].container);
        Py_XDECREF(p->v[k].key);
        Py_DECREF(p->v[k].before);
        Py_DECREF(p->v[k].now);
    }
    free(p->v);
    free(p->sorted);
}

/* ---- filling */

static bool another_has(PyObject *container)
{
    unsigned long thread = active ? PyThread_get_thread_ident() : 0;
    for (const struct py_places *p = active; p; p = p->others)
        for (size_t i = 0; p->thread != thread && i < p->n; i++)
            if (p->v[i].container == container)
                return true;
    return false;
}

static int put_child(PyObject *container, PyObject *key, Py_ssize_t i, PyObject *o)
{
    return PyDict_Check(container) ? PyDict_SetItem(container, key, o) : PyList_SetItem(container, i, Py_NewRef(o));
}

static PyObject *fill_tree(struct py_places *p, PyObject *tree, struct replacing *r);

/* The items of a list or a tuple, filled, in a new list; of a dict in a new dict.  `same`: nothing was replaced. */
static PyObject *filled_items(struct py_places *p, PyObject *tree, struct replacing *r, bool *same)
{
    bool dict = PyDict_Check(tree);
    PyObject *items = dict ? dict_items(tree) : items_list(tree);
    PyObject *content = items && dict ? PyDict_New() : Py_XNewRef(items);
    *same = true;
    for (Py_ssize_t i = 0; content && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i), *item = dict ? PyTuple_GetItem(pair, 1) : pair;
        PyObject *now = fill_tree(p, item, r);
        *same &= now == item;
        if (!now || put_child(content, dict ? PyTuple_GetItem(pair, 0) : NULL, i, now))
            Py_CLEAR(content);
        Py_XDECREF(now);
    }
    Py_XDECREF(items);
    return content;
}

static PyObject *anew(struct py_places *p, PyObject *tree, struct replacing *r)
{
    bool same;
    PyObject *content = filled_items(p, tree, r, &same), *result = NULL;
    if (content)
        result = same && PyTuple_Check(tree) ? Py_NewRef(tree) : container_like(tree, content);
    Py_XDECREF(content);
    return result;
}

static PyObject *node_anew(struct py_places *p, PyObject *node, struct replacing *r)
{
    PyObject *aux = NULL, *children = tree_open(node, &aux), *others = children ? anew(p, children, r) : NULL;
    PyObject *result = others ? tree_close(node, aux, others) : NULL;
    Py_XDECREF(aux);
    Py_XDECREF(children);
    Py_XDECREF(others);
    return result;
}

static PyObject *replace_in_place(struct py_places *p, PyObject *tree, struct replacing *r)
{
    bool dict = PyDict_Check(tree);
    PyObject *items = dict ? dict_items(tree) : items_list(tree);
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i), *item = dict ? PyTuple_GetItem(pair, 1) : pair;
        PyObject *key = dict ? PyTuple_GetItem(pair, 0) : NULL, *now = fill_tree(p, item, r);
        failed = !now || (now != item && (add_place(p, tree, key, i, item, now) || put_child(tree, key, i, now)));
        Py_XDECREF(now);
    }
    Py_XDECREF(items);
    return failed ? NULL : Py_NewRef(tree);
}

static PyObject *fill_tree(struct py_places *p, PyObject *tree, struct replacing *r)
{
    bool node = !is_array(tree) && is_node(tree);
    if (!node && !is_list(tree) && !PyDict_Check(tree))
        return replaced(tree, r);
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return NULL;
    PyObject *result = node                                       ? node_anew(p, tree, r)
                       : PyTuple_Check(tree) || another_has(tree) ? anew(p, tree, r)
                                                                  : replace_in_place(p, tree, r);
    Py_LeaveRecursiveCall();
    return result;
}

struct py_places *places_new(void)
{
    struct py_places *p = malloc(sizeof *p);
    if (!p)
        return PyErr_NoMemory(), NULL;
    *p = (struct py_places){ .thread = PyThread_get_thread_ident(), .others = active };
    return active = p;
}

PyObject *places_fill(struct py_places *p, PyObject *tree, struct replacing *r) { return fill_tree(p, tree, r); }

/* ---- putting back */

static int by_now(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)(*(struct place *const *)a)->now, y = (uintptr_t)(*(struct place *const *)b)->now;
    return (x > y) - (x < y);
}

static int sort(struct py_places *p)
{
    if (p->sorted)
        return 0;
    p->sorted = malloc((p->n + 1) * sizeof(struct place *));
    if (!p->sorted)
        return PyErr_NoMemory(), -1;
    for (size_t k = 0; k < p->n; k++) p->sorted[k] = &p->v[k];
    qsort(p->sorted, p->n, sizeof *p->sorted, by_now);
    return 0;
}

/* What an object stood for before any replacement; itself if for nothing.  After `sort`. */
static PyObject *original(const struct py_places *p, PyObject *o)
{
    for (size_t steps = 0; steps < p->n; steps++) {
        struct place key = { .now = o }, *at = &key;
        struct place **found = bsearch(&at, p->sorted, p->n, sizeof *p->sorted, by_now);
        if (!found || (*found)->id != id_of(o))
            break;
        o = (*found)->before;
    }
    return o;
}

static int put_before_back(struct place *at)
{
    PyObject *there = NULL;
    if (PyDict_Check(at->container))
        there = PyDict_GetItemWithError(at->container, at->key);
    else if (at->i < PyList_Size(at->container))
        there = PyList_GetItem(at->container, at->i);
    PyErr_Clear(); /* a key whose hash or comparison raises is looked for below */
    at->moved = there != at->now;
    return at->moved || id_of(there) != at->id ? 0 : put_child(at->container, at->key, at->i, at->before);
}

/* Looks for what the function has moved, in the whole of the container. */
static int put_back_all(struct py_places *p, PyObject *container)
{
    bool dict = PyDict_Check(container);
    PyObject *items = dict ? dict_items(container) : items_list(container);
    int failed = items && !sort(p) ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i), *item = dict ? PyTuple_GetItem(pair, 1) : pair;
        PyObject *before = original(p, item);
        if (before != item && (dict || i < PyList_Size(container)))
            failed = put_child(container, dict ? PyTuple_GetItem(pair, 0) : NULL, i, before);
    }
    Py_XDECREF(items);
    for (size_t k = 0; k < p->n; k++) p->v[k].moved &= p->v[k].container != container;
    return failed;
}

/* Later calls of this thread that are not over yet put back what p put there: now it is what stood there before p. */
static int hand_down(struct py_places *p)
{
    for (struct py_places *q = active; q != p; q = q->others) {
        if (q->thread != p->thread)
            continue;
        if (sort(p))
            return -1;
        for (size_t k = 0; k < q->n; k++) {
            PyObject *was = q->v[k].before;
            q->v[k].before = Py_NewRef(original(p, was));
            Py_DECREF(was);
        }
    }
    return 0;
}

/* Keeps the first exception. */
static void note_error(PyObject **error)
{
    if (*error)
        PyErr_Clear();
    else
        *error = error_take();
}

int places_put_back(struct py_places *p)
{
    if (!p)
        return 0;
    PyObject *error = error_take();
    bool failed = false;
    for (size_t k = p->n; k-- > 0;)
        if (put_before_back(&p->v[k]))
            failed = true, note_error(&error);
    for (size_t k = 0; k < p->n; k++)
        if (p->v[k].moved && put_back_all(p, p->v[k].container))
            failed = true, note_error(&error);
    if (hand_down(p))
        failed = true, note_error(&error);
    struct py_places **link = &active;
    while (*link != p) link = &(*link)->others;
    *link = p->others;
    places_free(p);
    free(p);
    error_put(error);
    return failed ? -1 : 0;
}

/* In the child of a fork: the calls of the threads that are no more will not end.  Runs Python code, which may
 * begin calls: each time from the start. */
static PyObject *after_fork(PyObject *self, PyObject *unused)
{
    unsigned long thread = PyThread_get_thread_ident();
    (void)self, (void)unused;
    for (struct py_places *p = active; p;) {
        if (p->thread == thread) {
            p = p->others;
            continue;
        }
        if (places_put_back(p))
            PyErr_WriteUnraisable(NULL);
        p = active;
    }
    Py_RETURN_NONE;
}

static int survive_fork(void)
{
    static PyMethodDef def = { "after_fork", after_fork, METH_NOARGS, NULL };
    PyObject *os = PyImport_ImportModule("os"), *enter = os ? PyObject_GetAttrString(os, "register_at_fork") : NULL;
    PyObject *f = enter ? PyCFunction_New(&def, NULL) : NULL, *none = f ? PyTuple_New(0) : NULL;
    PyObject *named = none ? Py_BuildValue("{s:O}", "after_in_child", f) : NULL;
    PyObject *done = named ? PyObject_Call(enter, none, named) : NULL;
    Py_XDECREF(os);
    Py_XDECREF(enter);
    Py_XDECREF(f);
    Py_XDECREF(none);
    Py_XDECREF(named);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* ---- for mlx.nn: what a module's update is about to put into it */

struct placed_object {
    PyObject ob_base;
    struct py_places places; /* without containers */
};

/* Walks over a tree and one that has places of it, and calls visit for every array of the latter: `there` is what
 * the tree has at its place, NULL for nothing. */
static int walk_like(struct py_places *p, PyObject *tree, PyObject *like,
                     int (*visit)(struct py_places *p, PyObject *tree, PyObject *key, Py_ssize_t i, PyObject *there,
                                  PyObject *like))
{
    bool dict = PyDict_Check(tree) && PyDict_Check(like);
    if (!dict && !(PyList_Check(tree) && PyList_Check(like)))
        return 0;
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    PyObject *items = dict ? dict_items(like) : items_list(like);
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i), *key = dict ? PyTuple_GetItem(pair, 0) : NULL;
        PyObject *item = dict ? PyTuple_GetItem(pair, 1) : pair, *there = NULL;
        if (dict || i < PyList_Size(tree))
            there = Py_XNewRef(dict ? PyDict_GetItemWithError(tree, key) : PyList_GetItem(tree, i));
        if (there)
            failed = is_array(item) ? visit(p, tree, key, i, there, item) : walk_like(p, there, item, visit);
        else
            failed = PyErr_Occurred() ? -1 : 0;
        Py_XDECREF(there);
    }
    Py_XDECREF(items);
    Py_LeaveRecursiveCall();
    return failed;
}

static int will_take(struct py_places *p, PyObject *tree, PyObject *key, Py_ssize_t i, PyObject *there, PyObject *now)
{
    (void)tree, (void)key, (void)i;
    return add_place(p, NULL, NULL, 0, there, now);
}

static int gives_back(struct py_places *p, PyObject *tree, PyObject *key, Py_ssize_t i, PyObject *there, PyObject *now)
{
    (void)now;
    PyObject *before = original(p, there);
    return before == there ? 0 : put_child(tree, key, i, before);
}

static PyObject *placed_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *tree, *like;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OO:_Placed", &tree, &like))
        return NULL;
    struct placed_object *self = PyObject_GC_New(struct placed_object, type);
    if (!self)
        return NULL;
    self->places = (struct py_places){ NULL };
    int failed = walk_like(&self->places, tree, like, will_take) || sort(&self->places);
    PyObject_GC_Track((PyObject *)self);
    if (failed)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *placed_put_back(PyObject *o, PyObject *args)
{
    PyObject *tree, *like;
    if (!PyArg_ParseTuple(args, "OO:put_back", &tree, &like) ||
        walk_like(&((struct placed_object *)o)->places, tree, like, gives_back))
        return NULL;
    Py_RETURN_NONE;
}

static int placed_traverse(PyObject *o, visitproc visit, void *arg)
{
    const struct py_places *p = &((struct placed_object *)o)->places;
    Py_VISIT(Py_TYPE(o));
    for (size_t k = 0; k < p->n; k++) {
        Py_VISIT(p->v[k].before);
        Py_VISIT(p->v[k].now);
    }
    return 0;
}

static void placed_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    places_free(&((struct placed_object *)o)->places);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyMethodDef placed_methods[] = {
    { "put_back", placed_put_back, METH_VARARGS,
      "put_back($self, tree, like)\n--\n\n"
      "Put back what was there, at the places of `like`, where the new array still is and was not updated." },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot placed_slots[] = {
    { Py_tp_new, placed_new },
    { Py_tp_dealloc, placed_dealloc },
    { Py_tp_traverse, placed_traverse },
    { Py_tp_methods, placed_methods },
    { Py_tp_doc, DOC("_Placed(tree, like)\n--\n\nWhat a tree has where arrays of `like` will be for a while.") },
    { 0, NULL },
};
static PyType_Spec placed_spec = {
    "mlx.core._Placed", sizeof(struct placed_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, placed_slots,
};

int places_init(PyObject *module) { return add_type(module, &placed_spec) && !survive_fork() ? 0 : -1; }
