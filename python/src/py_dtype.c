/* py_dtype.c: Dtype objects, one for each dtype, their categories, and the limits of their
 * numbers. */
#include "py.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { NDTYPE = MLX_COMPLEX64 + 1 };

struct dtype {
    PyObject ob_base;
    mlx_dtype t;
};
static PyTypeObject *dtype_type;
static PyObject *dtypes[NDTYPE];

PyObject *dtype_object(mlx_dtype t) { return dtypes[t]; }

int dtype_from(PyObject *o, mlx_dtype *out)
{
    if (Py_TYPE(o) != dtype_type)
        return 0;
    *out = ((struct dtype *)o)->t;
    return 1;
}

int dtype_asked(PyObject *o, mlx_dtype *out)
{
    const struct {
        const PyTypeObject *type;
        mlx_dtype t;
    } plain[] = {
        { &PyBool_Type, MLX_BOOL },
        { &PyLong_Type, MLX_INT32 },
        { &PyFloat_Type, MLX_FLOAT32 },
        { &PyComplex_Type, MLX_COMPLEX64 },
    };
    for (size_t i = 0; i < LENGTH(plain); i++)
        if (o == (const PyObject *)plain[i].type) {
            *out = plain[i].t;
            return 1;
        }
    return dtype_from(o, out);
}

char dtype_kind(mlx_dtype t)
{
    /* clang-format off */
    return t == MLX_BOOL        ? 'b'
           : t <= MLX_UINT64    ? 'u'
           : t <= MLX_INT64     ? 'i'
           : t == MLX_COMPLEX64 ? 'c'
                                : 'f';
    /* clang-format on */
}

static PyObject *dtype_repr(PyObject *o)
{
    return PyUnicode_FromFormat("mlx.core.%s", mlx_dtype_name(((struct dtype *)o)->t));
}

static Py_hash_t dtype_hash(PyObject *o) { return (Py_hash_t)((struct dtype *)o)->t; }

static PyObject *dtype_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(b) != dtype_type || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((a == b) == (op == Py_EQ));
}

static PyObject *dtype_get_size(PyObject *o, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(mlx_dtype_size(((struct dtype *)o)->t));
}

/* The module's name for it, under which pickle finds it again. */
static PyObject *dtype_reduce(PyObject *o, PyObject *unused)
{
    (void)unused;
    mlx_dtype t = ((struct dtype *)o)->t;
    return PyUnicode_FromString(t == MLX_BOOL ? "bool_" : mlx_dtype_name(t));
}

static PyGetSetDef dtype_properties[] = {
    { "size", dtype_get_size, NULL, "Bytes of one element.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyMethodDef dtype_methods[] = {
    { "__reduce__", dtype_reduce, METH_NOARGS, "For pickle." },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot dtype_slots[] = {
    { Py_tp_repr, dtype_repr },
    { Py_tp_hash, dtype_hash },
    { Py_tp_richcompare, dtype_compare },
    { Py_tp_getset, dtype_properties },
    { Py_tp_methods, dtype_methods },
    { Py_tp_doc, DOC("The type of the elements of an array.") },
    { 0, NULL },
};
static PyType_Spec dtype_spec = {
    "mlx.core.Dtype", sizeof(struct dtype), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots,
};

/* Categories: an enumeration, each with what it is within. */

static const struct {
    const char *name;
    int within;
} categories[] = {
    { "complexfloating", 2 }, { "floating", 2 }, { "inexact", 6 }, { "signedinteger", 5 },
    { "unsignedinteger", 5 }, { "integer", 6 },  { "number", 7 },  { "generic", -1 },
};
static PyObject *category_type, *category_objects[LENGTH(categories)];

/* The category or, for a dtype, the one it is in directly; -1 if o is neither. */
static int category_of(PyObject *o)
{
    mlx_dtype t;
    if (dtype_from(o, &t)) {
        switch (dtype_kind(t)) {
        case 'b': return 7;
        case 'u': return 4;
        case 'i': return 3;
        case 'f': return 1;
        default: return 0;
        }
    }
    for (int i = 0; i < (int)LENGTH(categories); i++)
        if (o == category_objects[i])
            return i;
    return -1;
}

PyObject *fn_issubdtype(struct py_call *c)
{
    PyObject *a = c->v[0].o, *b = c->v[1].o;
    int i = category_of(a), j = category_of(b);
    if (i < 0)
        return call_refuse(c, 0, "a Dtype or a DtypeCategory");
    if (j < 0)
        return call_refuse(c, 1, "a Dtype or a DtypeCategory");
    if (Py_TYPE(b) == dtype_type)
        return PyBool_FromLong(a == b);
    while (i >= 0 && i != j) i = categories[i].within;
    return PyBool_FromLong(i == j);
}

static bool dtype_or_array(PyObject *o, mlx_dtype *t)
{
    if (!is_array(o))
        return dtype_from(o, t);
    *t = mlx_array_dtype(handle_of(o));
    return true;
}

PyObject *fn_result_type(struct py_call *c)
{
    mlx_dtype t = MLX_BOOL, other;
    if (!c->nrest) {
        PyErr_SetString(exc_value, "[result_type] expected at least one array or Dtype, got none");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < c->nrest; i++) {
        char kind = scalar_kind(c->rest[i]);
        if (!dtype_or_array(c->rest[i], &other)) {
            if (kind)
                continue;
            PyErr_Format(exc_conversion, "result_type(): expected arrays and Dtypes, got %s", type_name(c->rest[i]));
            return NULL;
        }
        t = mlx_dtype_promote(t, other);
    }
    for (Py_ssize_t i = 0; i < c->nrest; i++) {
        char kind = scalar_kind(c->rest[i]);
        if (kind)
            t = mlx_dtype_promote_scalar(t, kind);
    }
    return Py_NewRef(dtype_object(t));
}

PyObject *fn_can_cast(struct py_call *c)
{
    mlx_dtype from, to;
    if (!dtype_or_array(c->v[0].o, &from))
        return call_refuse(c, 0, "an array or a Dtype");
    if (!dtype_from(c->v[1].o, &to))
        return call_refuse(c, 1, "a Dtype");
    return PyBool_FromLong(mlx_dtype_promote(from, to) == to);
}

/* -1: no such kind */
static int is_kind(mlx_dtype t, const char *name)
{
    static const struct {
        const char *name, *kinds;
    } kinds[] = {
        { "bool", "b" },          { "signed integer", "i" },   { "unsigned integer", "u" }, { "integral", "iu" },
        { "real floating", "f" }, { "complex floating", "c" }, { "numeric", "iufc" },
    };
    for (size_t i = 0; i < LENGTH(kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return strchr(kinds[i].kinds, dtype_kind(t)) != NULL;
    return -1;
}

static int is_subdtype(struct py_call *c, mlx_dtype t, PyObject *kind)
{
    mlx_dtype other;
    if (dtype_from(kind, &other))
        return t == other;
    if (PyUnicode_Check(kind)) {
        const char *name = PyUnicode_AsUTF8AndSize(kind, NULL);
        int is = name ? is_kind(t, name) : -1;
        if (is < 0 && name)
            PyErr_Format(exc_value, "[isdtype] there is no kind of dtype named '%s'", name);
        return is;
    }
    if (!PyTuple_Check(kind)) {
        call_refuse(c, 1, "a Dtype, a str or a tuple of these");
        return -1;
    }
    int is = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(kind) && is == 0; i++) is = is_subdtype(c, t, PyTuple_GetItem(kind, i));
    return is;
}

PyObject *fn_isdtype(struct py_call *c)
{
    mlx_dtype t;
    if (!dtype_from(c->v[0].o, &t))
        return call_refuse(c, 0, "a Dtype");
    int is = is_subdtype(c, t, c->v[1].o);
    return is < 0 ? NULL : PyBool_FromLong(is);
}

/* Limits */

struct limits {
    PyObject ob_base;
    mlx_dtype t;
};

static const struct {
    int bits;
    double max, eps, normal;
} floats[NDTYPE] = {
    [MLX_FLOAT16] = { 16, 65504, 0x1p-10, 0x1p-14 },
    [MLX_BFLOAT16] = { 16, 0x1.fep127, 0x1p-7, 0x1p-126 },
    [MLX_FLOAT32] = { 32, FLT_MAX, FLT_EPSILON, FLT_MIN },
    [MLX_FLOAT64] = { 64, DBL_MAX, DBL_EPSILON, DBL_MIN },
};

static PyObject *limits_new(PyTypeObject *type, PyObject *args, PyObject *kwargs, const char *name, bool integer)
{
    PyObject *o;
    mlx_dtype t;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_Format(PyExc_TypeError, "%s() takes no keyword arguments", name);
        return NULL;
    }
    if (!PyArg_UnpackTuple(args, name, 1, 1, &o))
        return NULL;
    if (!dtype_or_array(o, &t)) {
        PyErr_Format(exc_conversion, "%s(): expected a Dtype or an array, not %s", name, type_name(o));
        return NULL;
    }
    char kind = dtype_kind(t);
    if (integer ? kind != 'i' && kind != 'u' : kind != 'f' && kind != 'c') {
        PyErr_Format(exc_conversion, "[%s] expected %s dtype, got %s", name, integer ? "an integer" : "an inexact",
                     mlx_dtype_name(t));
        return NULL;
    }
    struct limits *self = PyObject_New(struct limits, type);
    if (self)
        self->t = t == MLX_COMPLEX64 ? MLX_FLOAT32 : t;
    return (PyObject *)self;
}

static void limits_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_Free(o);
    Py_DECREF(type);
}

static mlx_dtype limits_of(PyObject *o) { return ((struct limits *)o)->t; }
static PyObject *limits_dtype(PyObject *o, void *u) { return (void)u, Py_NewRef(dtype_object(limits_of(o))); }

static PyObject *new_finfo(PyTypeObject *t, PyObject *a, PyObject *k) { return limits_new(t, a, k, "finfo", false); }
static PyObject *new_iinfo(PyTypeObject *t, PyObject *a, PyObject *k) { return limits_new(t, a, k, "iinfo", true); }

#define FINFO(name, value) \
    static PyObject *finfo_##name(PyObject *o, void *u) { return (void)u, PyFloat_FromDouble(value); }
FINFO(min, -floats[limits_of(o)].max)
FINFO(max, floats[limits_of(o)].max)
FINFO(eps, floats[limits_of(o)].eps)
FINFO(smallest_normal, floats[limits_of(o)].normal)
static PyObject *finfo_bits(PyObject *o, void *u) { return (void)u, PyLong_FromLong(floats[limits_of(o)].bits); }

static PyObject *iinfo_min(PyObject *o, void *u)
{
    (void)u;
    int bits = (int)(8 * mlx_dtype_size(limits_of(o)));
    return PyLong_FromLongLong(dtype_kind(limits_of(o)) == 'u' ? 0 : -1 - (INT64_MAX >> (64 - bits)));
}

static PyObject *iinfo_max(PyObject *o, void *u)
{
    (void)u;
    int bits = (int)(8 * mlx_dtype_size(limits_of(o)));
    if (dtype_kind(limits_of(o)) == 'u')
        return PyLong_FromUnsignedLongLong(UINT64_MAX >> (64 - bits));
    return PyLong_FromLongLong(INT64_MAX >> (64 - bits));
}

static PyObject *iinfo_bits(PyObject *o, void *u)
{
    return (void)u, PyLong_FromLong(8 * (long)mlx_dtype_size(limits_of(o)));
}

static PyObject *finfo_repr(PyObject *o)
{
    char *max = PyOS_double_to_string(floats[limits_of(o)].max, 'g', 6, 0, NULL); /* the same in every locale */
    PyObject *text =
        max ? PyUnicode_FromFormat("finfo(min=-%s, max=%s, dtype=%s)", max, max, mlx_dtype_name(limits_of(o)))
            : PyErr_NoMemory();
    PyMem_Free(max);
    return text;
}

static PyObject *iinfo_repr(PyObject *o)
{
    PyObject *min = iinfo_min(o, NULL), *max = iinfo_max(o, NULL);
    PyObject *text = PyUnicode_FromFormat("iinfo(min=%S, max=%S, dtype=%s)", min, max, mlx_dtype_name(limits_of(o)));
    Py_XDECREF(min);
    Py_XDECREF(max);
    return text;
}

static PyGetSetDef finfo_properties[] = {
    { "bits", finfo_bits, NULL, "Bits of an element.", NULL },
    { "min", finfo_min, NULL, "The smallest finite number.", NULL },
    { "max", finfo_max, NULL, "The largest finite number.", NULL },
    { "eps", finfo_eps, NULL, "From 1 to the next larger number.", NULL },
    { "smallest_normal", finfo_smallest_normal, NULL, "The smallest positive normal number.", NULL },
    { "dtype", limits_dtype, NULL, "The dtype; of complex64 that of its parts.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyGetSetDef iinfo_properties[] = {
    { "min", iinfo_min, NULL, "The smallest number.", NULL },
    { "max", iinfo_max, NULL, "The largest number.", NULL },
    { "bits", iinfo_bits, NULL, "The number of bits.", NULL },
    { "dtype", limits_dtype, NULL, "The dtype.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot finfo_slots[] = {
    { Py_tp_new, new_finfo },
    { Py_tp_dealloc, limits_dealloc },
    { Py_tp_repr, finfo_repr },
    { Py_tp_getset, finfo_properties },
    { Py_tp_doc, DOC("finfo(arg, /)\n--\n\nLimits of a floating-point dtype, or of that of an array.") },
    { 0, NULL },
};
static PyType_Slot iinfo_slots[] = {
    { Py_tp_new, new_iinfo },
    { Py_tp_dealloc, limits_dealloc },
    { Py_tp_repr, iinfo_repr },
    { Py_tp_getset, iinfo_properties },
    { Py_tp_doc, DOC("iinfo(arg, /)\n--\n\nLimits of an integer dtype, or of that of an array.") },
    { 0, NULL },
};
static PyType_Spec finfo_spec = { "mlx.core.finfo", sizeof(struct limits), 0, Py_TPFLAGS_DEFAULT, finfo_slots };
static PyType_Spec iinfo_spec = { "mlx.core.iinfo", sizeof(struct limits), 0, Py_TPFLAGS_DEFAULT, iinfo_slots };

static int add_categories(PyObject *module)
{
    const char *names[LENGTH(categories)];
    for (size_t i = 0; i < LENGTH(categories); i++) names[i] = categories[i].name;
    category_type = add_enum(module, "DtypeCategory", names, LENGTH(categories), category_objects);
    return category_type ? 0 : -1;
}

int dtype_init(PyObject *module)
{
    dtype_type = add_type(module, &dtype_spec);
    if (!dtype_type || !add_type(module, &finfo_spec) || !add_type(module, &iinfo_spec))
        return -1;
    for (int i = 0; i < NDTYPE; i++) {
        struct dtype *d = PyObject_New(struct dtype, dtype_type);
        if (!d)
            return -1;
        d->t = (mlx_dtype)i;
        dtypes[i] = (PyObject *)d;
        const char *name = i == MLX_BOOL ? "bool_" : mlx_dtype_name(d->t);
        if (PyModule_AddObjectRef(module, name, dtypes[i]))
            return -1;
    }
    return add_categories(module);
}
