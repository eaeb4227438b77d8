/* py_index.c: what stands between the brackets of x[...], and x.at[...].
 *
 * The items are translated to the library's mlx_index; what they mean is decided there. */
#include "py.h"

enum { MAX_ITEMS = 2 * MAX_NDIM };

struct items {
    mlx_index v[MAX_ITEMS];
    mlx_array made[MAX_NDIM]; /* index arrays made from lists and the like */
    size_t n, nmade;
};

static void items_free(struct items *s)
{
    for (size_t i = 0; i < s->nmade; i++) mlx_array_free(s->made[i]);
}

/* The error of a slice that is none, with the type of what is no bound. */
static int refuse_slice(PyObject *o)
{
    static const char *const names[] = { "start", "stop", "step" };
    PyObject *error = error_take();
    for (int i = 0; i < 3 && !PyErr_Occurred(); i++) {
        PyObject *part = PyObject_GetAttrString(o, names[i]);
        if (part && part != Py_None && !PyIndex_Check(part))
            PyErr_Format(exc_conversion, "slice indices must be integers or None, not %s", type_name(part));
        Py_XDECREF(part);
    }
    if (PyErr_Occurred())
        Py_XDECREF(error);
    else
        error_put(error);
    return -1;
}

/* Cut off far from where any array ends, so that sums are none too large. */
static int64_t cut_off(Py_ssize_t v)
{
    const int64_t most = INT64_MAX / 4;
    return v > most ? most : v < -most ? -most : v;
}

/* A bound at the end of the type is as good as none. */
static int add_slice(mlx_index *it, PyObject *o)
{
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(o, &start, &stop, &step))
        return refuse_slice(o);
    bool back = step < 0;
    *it = (mlx_index){ .kind = MLX_INDEX_SLICE,
                       .has_start = start != (back ? PY_SSIZE_T_MAX : 0),
                       .has_stop = stop != (back ? PY_SSIZE_T_MIN : PY_SSIZE_T_MAX),
                       .start = cut_off(start),
                       .stop = cut_off(stop),
                       .step = cut_off(step) };
    return 0;
}

static int refuse_index(PyObject *o)
{
    PyErr_Format(exc_index, "[index] expected an int, a slice, None, Ellipsis or an array of integers or bool, got %s",
                 type_name(o));
    return -1;
}

static int add_array(struct items *s, mlx_index *it, PyObject *o)
{
    if (s->nmade == MAX_NDIM) {
        PyErr_SetString(exc_index, "[index] expected fewer indices, got too many");
        return -1;
    }
    mlx_array *a = &s->made[s->nmade++];
    *a = mlx_array_new();
    if (PyList_Check(o)) {
        if (array_from(a, o, NULL))
            return -1;
        if (mlx_array_size(*a) == 0 && mlx_astype(a, *a, MLX_INT32, mlx_stream_new()))
            return raise_last();
    } else if (array_from_method(a, o) || (!a->ctx && array_from_foreign(a, o))) {
        return -1;
    }
    if (!a->ctx)
        return refuse_index(o);
    *it = (mlx_index){ .kind = MLX_INDEX_ARRAY, .array = *a };
    return 0;
}

static int add_item(struct items *s, PyObject *o)
{
    if (s->n == MAX_ITEMS) {
        PyErr_SetString(exc_index, "[index] expected fewer indices, got too many");
        return -1;
    }
    mlx_index *it = &s->v[s->n++];
    if (PyLong_Check(o) && !PyBool_Check(o)) {
        int overflow;
        *it = (mlx_index){ .kind = MLX_INDEX_INT, .start = PyLong_AsLongLongAndOverflow(o, &overflow) };
        if (overflow) {
            PyErr_Format(exc_index, "[index] %s is out of bounds", int_text(o));
            return -1;
        }
        return 0;
    }
    if (PySlice_Check(o))
        return add_slice(it, o);
    if (o == Py_None || o == Py_Ellipsis) {
        *it = (mlx_index){ .kind = o == Py_None ? MLX_INDEX_NEWAXIS : MLX_INDEX_ELLIPSIS };
        return 0;
    }
    if (is_array(o)) {
        *it = (mlx_index){ .kind = MLX_INDEX_ARRAY, .array = handle_of(o) };
        return 0;
    }
    if (PyBool_Check(o)) { /* a mask without dimensions */
        if (s->nmade == MAX_NDIM) {
            PyErr_SetString(exc_index, "[index] expected fewer indices, got too many");
            return -1;
        }
        mlx_array *a = &s->made[s->nmade++];
        *a = mlx_array_new();
        if (mlx_scalar_int(a, o == Py_True, MLX_BOOL))
            return raise_last();
        *it = (mlx_index){ .kind = MLX_INDEX_ARRAY, .array = *a };
        return 0;
    }
    if (PyFloat_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o) || PyByteArray_Check(o) || PyTuple_Check(o))
        return refuse_index(o);
    /* An integer of NumPy has __index__, and so have its arrays, which are told apart by their
     * length. */
    if (PyIndex_Check(o) && !PySequence_Check(o)) {
        PyObject *index = PyNumber_Index(o);
        if (index) {
            s->n--;
            int failed = add_item(s, index);
            Py_DECREF(index);
            return failed;
        }
        if (!PyErr_ExceptionMatches(PyExc_TypeError))
            return -1;
        PyErr_Clear();
    }
    return add_array(s, it, o);
}

static int items_from(struct items *s, PyObject *index)
{
    s->n = s->nmade = 0;
    if (!PyTuple_Check(index))
        return add_item(s, index);
    Py_ssize_t n = PyTuple_Size(index);
    for (Py_ssize_t i = 0; i < n; i++)
        if (add_item(s, PyTuple_GetItem(index, i)))
            return -1;
    return 0;
}

static int masks_known(const struct items *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].kind == MLX_INDEX_ARRAY && mlx_array_dtype(s->v[i].array) == MLX_BOOL && array_known(s->v[i].array))
            return -1;
    return 0;
}

/* Is there one mask alone, or only masks without dimensions?  Those are written through without a look at them, unless
 * there is nothing to be written. */
static bool written_through(const struct items *s, mlx_array value)
{
    bool masks = false, with_axes = false;
    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].kind == MLX_INDEX_ARRAY && mlx_array_dtype(s->v[i].array) == MLX_BOOL) {
            masks = true;
            with_axes |= mlx_array_ndim(s->v[i].array) > 0;
        }
    if (!masks) /* the size is not looked at, which a trace for any shape would note */
        return true;
    return mlx_array_size(value) > 0 && (s->n == 1 || !with_axes);
}

PyObject *array_getitem(PyObject *self, PyObject *index)
{
    struct items s;
    mlx_array res = mlx_array_new();
    PyObject *result = NULL;
    if (!items_from(&s, index) && !masks_known(&s))
        result = array_result(mlx_getitem(&res, handle_of(self), s.v, s.n, mlx_stream_new()), res);
    items_free(&s);
    if (!result)
        raise_called("getitem");
    return result;
}

/* The value to be written to an array, in its dtype where it is a number; an int has to fit. */
static int value_for(mlx_array *out, PyObject *value, mlx_array a)
{
    char kind = scalar_kind(value);
    if (!kind)
        return array_from(out, value, NULL);
    return (kind == 'i' ? scalar_to_array : scalar_cast)(out, value, kind, mlx_array_dtype(a));
}

/* *out (which may be the array's own handle) = a with value folded in. */
static int update_at(mlx_array *out, mlx_array a, PyObject *index, mlx_array value, mlx_fold fold)
{
    struct items s;
    bool known = !items_from(&s, index) && (written_through(&s, value) || !masks_known(&s));
    int failed = known ? 0 : -1;
    if (known && mlx_setitem(out, a, s.v, s.n, value, fold, mlx_stream_new()))
        failed = raise_last();
    items_free(&s);
    return failed;
}

int array_setitem(PyObject *self, PyObject *index, PyObject *value)
{
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of an array cannot be deleted");
        return -1;
    }
    mlx_array *mine = &((struct array *)self)->it, made = mlx_array_new();
    int failed = is_array(value) ? 0 : value_for(&made, value, *mine);
    if (!failed)
        failed = update_at(mine, *mine, index, is_array(value) ? handle_of(value) : made, MLX_FOLD_SET);
    mlx_array_free(made);
    if (failed)
        raise_called("setitem");
    return failed;
}

/* x.at[index].add(value) */

struct at {
    PyObject ob_base;
    PyObject *array, *index; /* index: NULL until the brackets */
};
static PyTypeObject *at_type;

static PyObject *at_new(PyObject *array, PyObject *index)
{
    struct at *self = PyObject_GC_New(struct at, at_type);
    if (!self)
        return NULL;
    self->array = Py_NewRef(array);
    self->index = Py_XNewRef(index);
    PyObject_GC_Track((PyObject *)self);
    return (PyObject *)self;
}

PyObject *array_at(PyObject *self, void *unused) { return (void)unused, at_new(self, NULL); }

static PyObject *at_getitem(PyObject *o, PyObject *index) { return at_new(((struct at *)o)->array, index); }

/* A cycle through this also goes through something that can be cleared: the attributes of a subclass, say. */
static int at_traverse(PyObject *o, visitproc visit, void *arg)
{
    struct at *self = (struct at *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(self->array);
    Py_VISIT(self->index);
    return 0;
}

static void at_dealloc(PyObject *o)
{
    struct at *self = (struct at *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_DECREF(self->array);
    Py_XDECREF(self->index);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

/* How each method changes the value before it is folded in. */
static int as_is(mlx_array *v, const mlx_array a, const mlx_array like)
{
    (void)v, (void)a, (void)like;
    return 0;
}

static int negated(mlx_array *v, const mlx_array a, const mlx_array like)
{
    return mlx_astype(v, a, mlx_array_dtype(like), mlx_stream_new()) || mlx_negative(v, *v, mlx_stream_new());
}

static int inverted(mlx_array *v, const mlx_array a, const mlx_array like)
{
    (void)like;
    return mlx_reciprocal(v, a, mlx_stream_new());
}

static PyObject *at_update(PyObject *o, PyObject *value, mlx_fold fold,
                           int (*change)(mlx_array *, const mlx_array, const mlx_array))
{
    struct at *self = (struct at *)o;
    if (!self->index) {
        PyErr_SetString(exc_value, "x.at needs indices before an update, as in x.at[0].add(4)");
        return NULL;
    }
    mlx_array a = handle_of(self->array), v = mlx_array_new(), res = mlx_array_new();
    int failed = is_array(value) ? (mlx_array_set(&v, handle_of(value)) ? raise_last() : 0) : value_for(&v, value, a);
    if (!failed && change(&v, v, a))
        failed = raise_last();
    if (!failed)
        failed = update_at(&res, a, self->index, v, fold);
    mlx_array_free(v);
    if (!failed)
        return array_wrap(res);
    mlx_array_free(res);
    return NULL;
}

/* Division of integers is not multiplication by a reciprocal: read, divide, write back. */
static PyObject *at_divide(PyObject *o, PyObject *value)
{
    struct at *self = (struct at *)o;
    char kind = dtype_kind(mlx_array_dtype(handle_of(self->array)));
    if (kind == 'f' || kind == 'c' || !self->index)
        return at_update(o, value, MLX_FOLD_PROD, inverted);
    PyObject *part = array_getitem(self->array, self->index);
    PyObject *quotient = part ? PyNumber_TrueDivide(part, value) : NULL;
    PyObject *result = quotient ? at_update(o, quotient, MLX_FOLD_SET, as_is) : NULL;
    Py_XDECREF(part);
    Py_XDECREF(quotient);
    return result;
}

static PyObject *at_add(PyObject *o, PyObject *v) { return at_update(o, v, MLX_FOLD_ADD, as_is); }
static PyObject *at_subtract(PyObject *o, PyObject *v) { return at_update(o, v, MLX_FOLD_ADD, negated); }
static PyObject *at_multiply(PyObject *o, PyObject *v) { return at_update(o, v, MLX_FOLD_PROD, as_is); }
static PyObject *at_maximum(PyObject *o, PyObject *v) { return at_update(o, v, MLX_FOLD_MAX, as_is); }
static PyObject *at_minimum(PyObject *o, PyObject *v) { return at_update(o, v, MLX_FOLD_MIN, as_is); }

/* One argument, by position or as value=. */
#define AT(name)                                                                                            \
    static PyObject *py_at_##name(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *kw)           \
    {                                                                                                       \
        Py_ssize_t total = n + (kw ? PyTuple_Size(kw) : 0);                                                 \
        if (total != 1 || (n == 0 && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(kw, 0), "value"))) {  \
            PyErr_Format(PyExc_TypeError, #name "() takes one argument, value, but %zd were given", total); \
            return NULL;                                                                                    \
        }                                                                                                   \
        PyObject *result = at_##name(o, args[0]);                                                           \
        if (!result)                                                                                        \
            raise_called("at." #name);                                                                      \
        return result;                                                                                      \
    }
/* clang-format off */
AT(add)
AT(subtract) AT(multiply) AT(divide) AT(maximum) AT(minimum)
/* clang-format on */

#define ROW(name, doc)                                                      \
    {                                                                       \
#name, PYFN(py_at_##name), FAST, #name "($self, value)\n--\n\n" doc \
    }
    static PyMethodDef at_methods[] = {
        ROW(add, "A new array with ``value`` added at the indices, once for each time an index "
                 "comes up."),
        ROW(subtract, "A new array with ``value`` subtracted at the indices."),
        ROW(multiply, "A new array multiplied by ``value`` at the indices."),
        ROW(divide, "A new array divided by ``value`` at the indices."),
        ROW(maximum, "A new array with the larger of the element and ``value`` at the indices."),
        ROW(minimum, "A new array with the smaller of the element and ``value`` at the indices."),
        { NULL, NULL, 0, NULL },
    };

static PyType_Slot slots[] = {
    { Py_tp_dealloc, at_dealloc },
    { Py_tp_traverse, at_traverse },
    { Py_mp_subscript, at_getitem },
    { Py_tp_methods, at_methods },
    { Py_tp_doc, DOC("Where an array is to be updated: see array.at.") },
    { 0, NULL },
};
static PyType_Spec spec = {
    "mlx.core.ArrayAt",
    sizeof(struct at),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    slots,
};

int index_init(PyObject *module)
{
    at_type = add_type(module, &spec);
    return at_type ? 0 : -1;
}
