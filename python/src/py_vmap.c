/* py_vmap.c: functions over a batch.
 *
 * Axes are given as trees that end early: an int or None stands for every array below it. */
#include "py_function.h"

#include <limits.h>
#include <stdlib.h>

struct mapped {
    PyObject ob_base;
    PyObject *fun, *in_axes, *out_axes;
};
static PyTypeObject *mapped_type;

static int axes_misfit(struct axes *a, PyObject *tree, PyObject *axes)
{
    a->misfit = true;
    PyErr_Format(exc_value, "[vmap] %s has %R where %s %s", a->which, axes, a->what, type_name(tree));
    return -1;
}

static int add_axis(struct axes *a, PyObject *leaf, PyObject *axis)
{
    mlx_array x = handle_of(leaf);
    int ndim = (int)mlx_array_ndim(x), i = a->none;
    if (axis != Py_None) {
        int beyond = 0;
        long v = PyLong_AsLongAndOverflow(axis, &beyond);
        if (v == -1 && !beyond && PyErr_Occurred())
            return -1;
        if (beyond || v > INT_MAX || v <= MLX_VMAP_NONE || (a->normal && (v < -ndim || v >= ndim))) {
            PyErr_Format(exc_axis, "[vmap] axis %R is out of bounds for an array of %d dimensions", axis, ndim);
            return -1;
        }
        i = (int)(a->normal && v < 0 ? v + ndim : v);
    }
    if (a->n == a->cap) {
        size_t cap = a->cap ? 2 * a->cap : 16;
        int *more = realloc(a->v, cap * sizeof *more);
        if (!more)
            return PyErr_NoMemory(), -1;
        a->v = more;
        a->cap = cap;
    }
    a->v[a->n++] = i;
    return mlx_vector_array_append_value(a->arrays, x) ? raise_last() : 0;
}

/* An object of a registered type: axes end above it, or are an object of that type too. */
static int walk_node(struct axes *a, PyObject *tree, PyObject *axes, bool ends)
{
    PyObject *children = tree_open(tree, NULL);
    bool same = Py_TYPE(axes) == Py_TYPE(tree);
    PyObject *inner = !children ? NULL : same ? tree_open(axes, NULL) : Py_NewRef(axes);
    int failed = !inner ? -1 : ends || inner != axes ? axes_walk(a, children, inner) : axes_misfit(a, tree, axes);
    Py_XDECREF(children);
    Py_XDECREF(inner);
    return failed;
}

static int walk_dict(struct axes *a, PyObject *tree, PyObject *axes, bool ends)
{
    if (!ends && (!PyDict_Check(axes) || PyDict_Size(axes) != PyDict_Size(tree)))
        return axes_misfit(a, tree, axes);
    PyObject *items = dict_items(tree);
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(items); i++) {
        PyObject *pair = PyList_GetItem(items, i);
        PyObject *axis = Py_XNewRef(ends ? axes : PyDict_GetItemWithError(axes, PyTuple_GetItem(pair, 0)));
        failed = axis               ? axes_walk(a, PyTuple_GetItem(pair, 1), axis)
                 : PyErr_Occurred() ? -1
                                    : axes_misfit(a, tree, axes);
        Py_XDECREF(axis);
    }
    Py_XDECREF(items);
    return failed;
}

static int walk_items(struct axes *a, PyObject *tree, PyObject *axes, bool ends)
{
    if (!ends && (!is_list(axes) || items_size(axes) != items_size(tree)))
        return axes_misfit(a, tree, axes);
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < items_size(tree); i++) {
        PyObject *item = item_at(tree, i), *axis = item ? ends ? Py_NewRef(axes) : item_at(axes, i) : NULL;
        failed = axis ? axes_walk(a, item, axis) : -1;
        Py_XDECREF(item);
        Py_XDECREF(axis);
    }
    return failed;
}

int axes_walk(struct axes *a, PyObject *tree, PyObject *axes)
{
    bool ends = axes == Py_None || PyLong_Check(axes);
    if (is_array(tree))
        return ends ? add_axis(a, tree, axes) : axes_misfit(a, tree, axes);
    bool dict = PyDict_Check(tree), node = is_node(tree);
    if (!node && !dict && !is_list(tree))
        return 0;
    if (Py_EnterRecursiveCall(" in a tree of arrays"))
        return -1;
    int failed = node   ? walk_node(a, tree, axes, ends)
                 : dict ? walk_dict(a, tree, axes, ends)
                        : walk_items(a, tree, axes, ends);
    Py_LeaveRecursiveCall();
    return failed;
}

/* The axes of the arguments, one for each, or of the one argument alone. */
static int walk_arguments(struct axes *a, PyObject *args, PyObject *axes)
{
    if (!axes_walk(a, args, axes))
        return 0;
    if (!a->misfit || PyTuple_Size(args) != 1)
        return -1;
    PyObject *error = error_take();
    mlx_vector_array_free(a->arrays);
    a->arrays = mlx_vector_array_new();
    a->n = 0;
    a->misfit = false;
    int failed = axes_walk(a, PyTuple_GetItem(args, 0), axes);
    if (!a->misfit) {
        Py_DECREF(error);
        return failed;
    }
    PyErr_Clear();
    error_put(error);
    return -1;
}

/* Those of a result; one array takes what a tuple of one says, too. */
static int walk_result(struct axes *a, PyObject *value, PyObject *axes)
{
    bool one = is_array(value) && is_list(axes) && items_size(axes) == 1;
    PyObject *axis = one ? item_at(axes, 0) : Py_NewRef(axes);
    int failed = axis ? axes_walk(a, value, axis) : -1;
    Py_XDECREF(axis);
    return failed;
}

static PyObject *mapped_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct mapped *m = (struct mapped *)self;
    PyObject *result = NULL;
    struct axes in = {
        .which = "in_axes", .what = "arguments have", .arrays = mlx_vector_array_new(), .none = -1, .normal = true
    };
    struct axes out = {
        .which = "out_axes", .what = "result has", .arrays = mlx_vector_array_new(), .none = MLX_VMAP_NONE
    };
    mlx_vector_array s_in = mlx_vector_array_new(), s_out = mlx_vector_array_new(), y = mlx_vector_array_new();
    mlx_closure f = mlx_closure_new();
    struct python_call *p = NULL;
    if (walk_arguments(&in, args, m->in_axes) || !(p = python_call_new("vmap", m->fun, args, kwargs)))
        goto done;
    p->returns = TREE;
    f = closure_of(p);
    if (!f.ctx)
        goto done;
    if (mlx_detail_vmap_trace(&s_in, &s_out, f, in.arrays, in.v, in.n)) {
        raise_from(p);
        goto done;
    }
    if (walk_result(&out, p->value, m->out_axes))
        goto done;
    if (mlx_detail_vmap_replace(&y, in.arrays, s_in, s_out, in.v, in.n, out.v, out.n)) {
        raise_last();
        goto done;
    }
    struct replacing r = { y, 0 };
    result = replaced(p->value, &r);
done:
    mlx_closure_free(f);
    mlx_vector_array_free(in.arrays);
    mlx_vector_array_free(out.arrays);
    mlx_vector_array_free(s_in);
    mlx_vector_array_free(s_out);
    mlx_vector_array_free(y);
    free(in.v);
    free(out.v);
    release_now();
    return result;
}

PyObject *fn_vmap(struct py_call *c)
{
    if (!PyCallable_Check(c->v[0].o))
        return call_refuse(c, 0, "callable");
    struct mapped *m = PyObject_GC_New(struct mapped, mapped_type);
    if (!m)
        return NULL;
    PyObject *zero = PyLong_FromLong(0);
    m->fun = Py_NewRef(c->v[0].o);
    m->in_axes = Py_NewRef(c->v[1].o ? c->v[1].o : zero);
    m->out_axes = Py_NewRef(c->v[2].o ? c->v[2].o : zero);
    Py_XDECREF(zero);
    PyObject_GC_Track((PyObject *)m);
    return (PyObject *)m;
}

/* Without tp_clear, as a gradient. */
static int mapped_traverse(PyObject *o, visitproc visit, void *arg)
{
    struct mapped *m = (struct mapped *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(m->fun);
    Py_VISIT(m->in_axes);
    Py_VISIT(m->out_axes);
    return 0;
}

static void mapped_dealloc(PyObject *o)
{
    struct mapped *m = (struct mapped *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_DECREF(m->fun);
    Py_DECREF(m->in_axes);
    Py_DECREF(m->out_axes);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyMethodDef mapped_methods[] = { WRAPPER_METHODS, { NULL, NULL, 0, NULL } };
static PyType_Slot mapped_slots[] = {
    { Py_tp_dealloc, mapped_dealloc }, { Py_tp_call, mapped_call },          { Py_tp_traverse, mapped_traverse },
    { Py_tp_methods, mapped_methods }, { Py_tp_getattro, wrapper_getattro }, { 0, NULL },
};
static PyType_Spec mapped_spec = {
    "mlx.core._Vmapped",
    sizeof(struct mapped),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    mapped_slots,
};

int vmap_init(PyObject *module) { return (mapped_type = add_type(module, &mapped_spec)) ? 0 : -1; }
