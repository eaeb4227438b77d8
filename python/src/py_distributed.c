/* py_distributed.c: mlx.core.distributed. */
#include "py.h"

/* Groups */

struct group_object {
    PyObject ob_base;
    mlx_distributed_group it;
};
static PyTypeObject *group_type;

static PyObject *group_wrap(mlx_distributed_group it)
{
    struct group_object *self = PyObject_New(struct group_object, group_type);
    if (self)
        self->it = it;
    return (PyObject *)self;
}

static void group_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    mlx_distributed_group_free(((struct group_object *)o)->it);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* Parameter i as a group, empty where it is None; -1 with an exception set. */
static int group_argument(struct py_call *c, int i, mlx_distributed_group *out)
{
    *out = mlx_distributed_group_new();
    if (!GIVEN(i))
        return 0;
    if (Py_TYPE(c->v[i].o) != group_type)
        return call_refuse(c, i, "a Group"), -1;
    *out = ((struct group_object *)c->v[i].o)->it;
    return 0;
}

static PyObject *group_rank(PyObject *o, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(mlx_distributed_group_rank(((struct group_object *)o)->it));
}

static PyObject *group_size(PyObject *o, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(mlx_distributed_group_size(((struct group_object *)o)->it));
}

static PyObject *do_split(struct py_call *c)
{
    mlx_distributed_group made = mlx_distributed_group_new(), whole = ((struct group_object *)c->v[0].o)->it;
    if (mlx_distributed_group_split(&made, whole, INT(1), INT(2)))
        return raise_last(), NULL;
    return group_wrap(made);
}

static PyObject *group_split(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *kw)
{
    static struct signature sig = SIGNATURE("split", "self, color: int, key: int = -1");
    return call_function(&sig, do_split, o, args, n, kw);
}

static PyObject *group_repr(PyObject *o)
{
    mlx_distributed_group it = ((struct group_object *)o)->it;
    return PyUnicode_FromFormat("Group(rank=%d, size=%d)", mlx_distributed_group_rank(it),
                                mlx_distributed_group_size(it));
}

static PyMethodDef group_methods[] = {
    { "rank", group_rank, METH_NOARGS, "rank($self)\n--\n\nThe number of this process in the group." },
    { "size", group_size, METH_NOARGS, "size($self)\n--\n\nThe number of processes in the group." },
    { "split", PYFN(group_split), FAST,
      "split($self, color: int, key: int = -1)\n--\n\n"
      "The processes that gave the same ``color``, ordered by ``key``, by default as they were.\n\n"
      "RuntimeError in a group of one." },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot group_slots[] = {
    { Py_tp_dealloc, group_dealloc },
    { Py_tp_repr, group_repr },
    { Py_tp_methods, group_methods },
    { Py_tp_doc, DOC("Processes that work together: see init.") },
    { 0, NULL },
};
static PyType_Spec group_spec = {
    "mlx.core.distributed.Group",
    sizeof(struct group_object),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    group_slots,
};

PyObject *fn_distributed_is_available(struct py_call *c)
{
    return PyBool_FromLong(mlx_distributed_is_available(TEXT(0)));
}

PyObject *fn_distributed_init(struct py_call *c)
{
    if (GIVEN(2)) {
        if (!PyCallable_Check(c->v[2].o))
            return call_refuse(c, 2, "a function");
        PyErr_Format(exc_value, "[init] expected all_gather_factory with the backend 'jaccl' only, got it with '%s'",
                     TEXT(1));
        return NULL;
    }
    mlx_distributed_group made = mlx_distributed_group_new();
    if (mlx_distributed_init(&made, BOOL(0), TEXT(1)))
        return raise_last(), raise_called(c->sig->name), NULL;
    return group_wrap(made);
}

/* Messages */

#define COLLECTIVE(name)                                                      \
    PyObject *fn_distributed_##name(struct py_call *c)                        \
    {                                                                         \
        mlx_distributed_group g;                                              \
        if (group_argument(c, 1, &g) || call_operands(c, 0, 1))               \
            return NULL;                                                      \
        return give(c, mlx_distributed_##name(&c->res, ARRAY(0), g, STREAM)); \
    }
COLLECTIVE(all_sum)
COLLECTIVE(all_max)
COLLECTIVE(all_min)
COLLECTIVE(all_gather)
COLLECTIVE(sum_scatter)

#define TO_ONE(name)                                                                  \
    PyObject *fn_distributed_##name(struct py_call *c)                                \
    {                                                                                 \
        mlx_distributed_group g;                                                      \
        if (group_argument(c, 2, &g) || call_operands(c, 0, 1))                       \
            return NULL;                                                              \
        return give(c, mlx_distributed_##name(&c->res, ARRAY(0), INT(1), g, STREAM)); \
    }
TO_ONE(send)
TO_ONE(recv_like)

PyObject *fn_distributed_recv(struct py_call *c)
{
    mlx_distributed_group g;
    if (group_argument(c, 3, &g))
        return NULL;
    return give(c, mlx_distributed_recv(&c->res, INTS(0), c->v[1].t, INT(2), g, STREAM));
}

#define DISTRIBUTED(name, text, doc)                                                           \
    static struct signature sig_##name = SIGNATURE(#name, text);                               \
    static PyObject *py_##name(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *kw) \
    {                                                                                          \
        (void)m;                                                                               \
        return call_function(&sig_##name, fn_distributed_##name, NULL, args, n, kw);           \
    }
#include "functions.def"

static PyMethodDef functions[] = {
#define DISTRIBUTED(name, text, doc) { #name, PYFN(py_##name), FAST, #name "(" text ")\n--\n\n" doc },
#include "functions.def"
    { NULL, NULL, 0, NULL },
};

int distributed_init(PyObject *module)
{
    PyObject *sub = submodule(module, "distributed", "Arrays sent between processes.", functions);
    group_type = sub ? add_type(sub, &group_spec) : NULL;
    return group_type ? 0 : -1;
}
