/* py_array.c: the type mlx.core.array: its life, its operators, its properties.
 *
 * Objects are small and come and go with every operation, so a few dead ones are kept for reuse. */
#include "py.h"

#include <stddef.h>

PyTypeObject *array_type;

/* Life */

enum { KEPT = 256 };
static struct array *kept[KEPT];
static int nkept;

PyObject *array_wrap(mlx_array it)
{
    struct array *self;
    release_now();
    if (nkept) {
        self = (struct array *)PyObject_Init((PyObject *)kept[--nkept], array_type);
    } else if (!(self = PyObject_New(struct array, array_type))) {
        mlx_array_free(it);
        return NULL;
    }
    self->it = it;
    self->weak = NULL;
    return (PyObject *)self;
}

PyObject *array_result(int failed, mlx_array it)
{
    if (!failed)
        return array_wrap(it);
    mlx_array_free(it);
    raise_last();
    return NULL;
}

static void dealloc(PyObject *o)
{
    struct array *self = (struct array *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (self->weak)
        PyObject_ClearWeakRefs(o);
    mlx_array_free(self->it);
    self->it = mlx_array_new();
    if (type == array_type && nkept < KEPT)
        kept[nkept++] = self;
    else
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

PyObject *array_wrap_as(PyTypeObject *type, mlx_array it)
{
    if (type == array_type)
        return array_wrap(it);
    PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        ((struct array *)self)->it = it;
    else
        mlx_array_free(it);
    return self;
}

/* array(val, dtype=None), in it, which is left as it is where that fails. */
static int made_of(mlx_array *it, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "val", "dtype", NULL };
    PyObject *val, *dtype = Py_None;
    mlx_dtype t;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:array", (char **)names, &val, &dtype))
        return -1;
    if (dtype != Py_None && !dtype_asked(dtype, &t)) {
        PyErr_Format(exc_conversion, "array(): argument 'dtype' must be a Dtype or None, not %s", type_name(dtype));
        return -1;
    }
    return array_copied(it, val, dtype == Py_None ? NULL : &t);
}

/* A class may have an __init__ of its own, of any arguments. */
static bool has_own_init(PyTypeObject *type)
{
    return type != array_type && PyType_GetSlot(type, Py_tp_init) != PyType_GetSlot(array_type, Py_tp_init);
}

static PyObject *new (PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    mlx_array it = mlx_array_new();
    int failed = made_of(&it, args, kwargs);
    if (failed && has_own_init(type) && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear(); /* what it hands to array's is told later */
        failed = mlx_array_set_data(&it, NULL, (const int[]){ 0 }, 1, MLX_FLOAT32) ? raise_last() : 0;
    }
    if (!failed)
        return array_wrap_as(type, it);
    mlx_array_free(it);
    return NULL;
}

/* Of a class whose __init__ calls this one. */
static int init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (!has_own_init(Py_TYPE(self)))
        return 0;
    mlx_array it = mlx_array_new();
    int failed = made_of(&it, args, kwargs);
    if (!failed && mlx_array_set(&((struct array *)self)->it, it))
        failed = raise_last();
    mlx_array_free(it);
    return failed;
}

/* Lists of results */

static PyObject *vector_item(mlx_vector_array vec, size_t i)
{
    mlx_array a = mlx_array_new();
    return array_result(mlx_vector_array_get(&a, vec, i), a);
}

PyObject *vector_items(mlx_vector_array vec)
{
    size_t n = mlx_vector_array_size(vec);
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *item = vector_item(vec, i);
        if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item))
            Py_CLEAR(tuple);
    }
    return tuple;
}

PyObject *vector_to_list(mlx_vector_array vec)
{
    PyObject *tuple = vector_items(vec), *list = tuple ? PySequence_List(tuple) : NULL;
    Py_XDECREF(tuple);
    mlx_vector_array_free(vec);
    return list;
}

PyObject *ints_to_tuple(const int *v, size_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; tuple && i < n; i++) {
        PyObject *item = PyLong_FromLong(v[i]);
        if (!item || PyTuple_SetItem(tuple, (Py_ssize_t)i, item))
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* Elements */

static int evaluate_array(void *a) { return mlx_array_eval(*(mlx_array *)a); }

int array_ready(mlx_array a)
{
    bool available = false;
    if (!_mlx_array_is_available(&available, a) && available)
        return 0;
    return evaluate_arrays(evaluate_array, &a);
}

int array_known(mlx_array a)
{
    if (!array_ready(a))
        return 0;
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_Warning)) /* Ctrl-C, -W error */
        return -1;
    PyErr_Clear();
    return 0;
}

const void *array_data(mlx_array a)
{
    if (array_ready(a))
        return NULL;
    const void *p = NULL;
    switch (mlx_array_itemsize(a)) {
    case 1: p = mlx_array_data_uint8(a); break;
    case 2: p = mlx_array_data_uint16(a); break;
    case 4: p = mlx_array_data_uint32(a); break;
    case 8: p = mlx_array_data_uint64(a); break;
    }
    if (!p && mlx_array_size(a) == 0)
        p = "";
    if (!p)
        raise_last();
    return p && !warn_kept() ? p : NULL;
}

const int64_t *array_strides(mlx_array a) { return (const int64_t *)mlx_array_strides(a); }

/* Operators */

typedef int unary_op(mlx_array *res, const mlx_array a, const mlx_stream s);

static const mlx_stream anywhere = { NULL };

/* The other operand of an array of dtype `like`.  1: it is nothing that we know. */
static int other_operand(mlx_array *out, PyObject *o, mlx_dtype like)
{
    char kind = scalar_kind(o);
    if (kind)
        return scalar_to_array(out, o, kind, mlx_dtype_promote_scalar(like, kind));
    if (array_from_method(out, o))
        return -1;
    if (out->ctx)
        return 0;
    if (array_from_foreign(out, o))
        return -1;
    if (out->ctx)
        return array_meet(out, like);
    PyObject *number = float_from_number(o);
    if (!number)
        return PyErr_Occurred() ? -1 : 1;
    int failed = scalar_to_array(out, number, 'f', mlx_dtype_promote_scalar(like, 'f'));
    Py_DECREF(number);
    return failed;
}

/* What an operand is told that we do not know.  Python asks its type next; but a sequence would repeat itself, by
 * the number that the array is, or join the array. */
static PyObject *not_known(PyObject *o, binary_op *op)
{
    bool adds = op == mlx_add, sequence = false;
    if (adds || op == mlx_multiply)
        sequence = PyType_GetSlot(Py_TYPE(o), adds ? Py_sq_concat : Py_sq_repeat) &&
                   !PyType_GetSlot(Py_TYPE(o), adds ? Py_nb_add : Py_nb_multiply);
    if (!sequence)
        Py_RETURN_NOTIMPLEMENTED;
    PyErr_Format(exc_conversion, "[%s] expected a number or an array beside an array, got %s",
                 adds ? "add" : "multiply", type_name(o));
    return NULL;
}

static bool is_inexact(mlx_array a) { return strchr("fc", dtype_kind(mlx_array_dtype(a))); }

/* Operators that are for nobody: a number in a product of matrices, and bits of a float where the array is on the
 * right.  Python's TypeError says so, as that of the mlx package. */
static bool declined(binary_op *op, mlx_array other, mlx_array mine, bool reflected)
{
    if (op == mlx_matmul)
        return mlx_array_ndim(other) == 0;
    bool bits = op == mlx_bitwise_and || op == mlx_bitwise_or || op == mlx_bitwise_xor || op == mlx_left_shift ||
                op == mlx_right_shift;
    return reflected && bits && (is_inexact(other) || is_inexact(mine));
}

static PyObject *array_binary(PyObject *l, PyObject *r, binary_op *op)
{
    mlx_array res = { NULL };
    if (is_array(l) && is_array(r))
        return array_result(op(&res, handle_of(l), handle_of(r), anywhere), res);
    mlx_array other = { NULL };
    PyObject *mine = is_array(l) ? l : r;
    int status = other_operand(&other, mine == l ? r : l, mlx_array_dtype(handle_of(mine)));
    if (status > 0)
        return not_known(mine == l ? r : l, op);
    if (status < 0)
        return NULL;
    if (declined(op, other, handle_of(mine), mine == r)) {
        mlx_array_free(other);
        Py_RETURN_NOTIMPLEMENTED;
    }
    mlx_array a = mine == l ? handle_of(l) : other, b = mine == l ? other : handle_of(r);
    PyObject *result = array_result(op(&res, a, b, anywhere), res);
    mlx_array_free(other);
    return result;
}

/* self becomes op(self, o), for everybody who refers to it. */
static PyObject *binary_in_place(PyObject *self, PyObject *o, binary_op *op)
{
    mlx_array other = { NULL }, *mine = &((struct array *)self)->it;
    int status = is_array(o) ? 0 : other_operand(&other, o, mlx_array_dtype(*mine));
    if (status > 0)
        Py_RETURN_NOTIMPLEMENTED;
    if (status < 0)
        return NULL;
    if (other.ctx && declined(op, other, *mine, false)) {
        mlx_array_free(other);
        Py_RETURN_NOTIMPLEMENTED;
    }
    int failed = op(mine, *mine, is_array(o) ? handle_of(o) : other, anywhere);
    mlx_array_free(other);
    if (failed)
        return raise_last(), NULL;
    Py_INCREF(self);
    return self;
}

static PyObject *array_unary(PyObject *o, unary_op *op)
{
    mlx_array res = { NULL };
    return array_result(op(&res, handle_of(o), anywhere), res);
}

#define BINARY_SLOT(name, op)                                                               \
    static PyObject *nb_##name(PyObject *l, PyObject *r) { return array_binary(l, r, op); } \
    static PyObject *nb_i##name(PyObject *l, PyObject *r) { return binary_in_place(l, r, op); }

BINARY_SLOT(add, mlx_add)
BINARY_SLOT(subtract, mlx_subtract)
BINARY_SLOT(multiply, mlx_multiply)
BINARY_SLOT(floor_divide, mlx_floor_divide)
BINARY_SLOT(remainder, mlx_remainder)
BINARY_SLOT(and, mlx_bitwise_and)
BINARY_SLOT(or, mlx_bitwise_or)
BINARY_SLOT(xor, mlx_bitwise_xor)
BINARY_SLOT(lshift, mlx_left_shift)
BINARY_SLOT(rshift, mlx_right_shift)
BINARY_SLOT(matmul, mlx_matmul)

static PyObject *nb_divide(PyObject *l, PyObject *r) { return array_binary(l, r, mlx_divide); }

static PyObject *nb_idivide(PyObject *l, PyObject *r)
{
    char kind = dtype_kind(mlx_array_dtype(handle_of(l)));
    if (kind != 'f' && kind != 'c') {
        PyErr_Format(exc_value, "[divide] expected floating-point elements to be divided in place, got an array of %s",
                     mlx_dtype_name(mlx_array_dtype(handle_of(l))));
        return NULL;
    }
    return binary_in_place(l, r, mlx_divide);
}

static PyObject *nb_power(PyObject *l, PyObject *r, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return array_binary(l, r, mlx_power);
}

static PyObject *nb_ipower(PyObject *l, PyObject *r, PyObject *modulus)
{
    if (modulus != Py_None)
        Py_RETURN_NOTIMPLEMENTED;
    return binary_in_place(l, r, mlx_power);
}

static PyObject *nb_divmod(PyObject *l, PyObject *r)
{
    PyObject *q = array_binary(l, r, mlx_floor_divide);
    if (!q)
        raise_called("divmod");
    if (!q || q == Py_NotImplemented)
        return q;
    PyObject *rest = array_binary(l, r, mlx_remainder);
    PyObject *both = rest ? PyTuple_Pack(2, q, rest) : NULL;
    Py_XDECREF(rest);
    Py_DECREF(q);
    return both;
}

static PyObject *nb_negative(PyObject *o) { return array_unary(o, mlx_negative); }
static PyObject *nb_absolute(PyObject *o) { return array_unary(o, mlx_abs); }
static PyObject *nb_invert(PyObject *o) { return array_unary(o, mlx_bitwise_invert); }

static PyObject *copied_array(PyObject *o)
{
    mlx_array res = { NULL };
    return array_result(mlx_array_set(&res, handle_of(o)), res);
}

static PyObject *compare(PyObject *l, PyObject *r, int op)
{
    static binary_op *const ops[] = {
        [Py_LT] = mlx_less,      [Py_LE] = mlx_less_equal, [Py_EQ] = mlx_equal,
        [Py_NE] = mlx_not_equal, [Py_GT] = mlx_greater,    [Py_GE] = mlx_greater_equal,
    };
    PyObject *result = array_binary(l, r, ops[op]);
    return result ? result : compared_beyond(ops[op], l, r, anywhere);
}

/* As Python numbers */

static PyObject *array_number(PyObject *o, const char *what)
{
    mlx_array a = handle_of(o);
    if (mlx_array_size(a) == 1)
        return array_item(a);
    PyObject *shape = ints_to_tuple(mlx_array_shape(a), mlx_array_ndim(a));
    if (shape)
        PyErr_Format(exc_conversion, "[%s] expected an array with one element, got one of shape %R", what, shape);
    Py_XDECREF(shape);
    return NULL;
}

static int nb_bool(PyObject *o)
{
    PyObject *v = array_number(o, "bool");
    int truth = v ? PyObject_IsTrue(v) : -1;
    Py_XDECREF(v);
    return truth;
}

static PyObject *through(PyObject *v, PyObject *(*convert)(PyObject *))
{
    PyObject *result = v ? convert(v) : NULL;
    Py_XDECREF(v);
    return result;
}

static PyObject *nb_int(PyObject *o) { return through(array_number(o, "int"), PyNumber_Long); }
static PyObject *nb_float(PyObject *o) { return through(array_number(o, "float"), PyNumber_Float); }

static PyObject *to_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *v = array_number(self, "complex");
    PyObject *result = v ? PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, v, NULL) : NULL;
    Py_XDECREF(v);
    return result;
}

static PyObject *nb_index(PyObject *o)
{
    mlx_array a = handle_of(o);
    char kind = dtype_kind(mlx_array_dtype(a));
    if (mlx_array_ndim(a) == 0 && (kind == 'i' || kind == 'u'))
        return array_item(a);
    PyErr_SetString(exc_conversion, "only an integer array without dimensions can be used as an index");
    return NULL;
}

static PyObject *round_(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    long decimals = nargs && args[0] != Py_None ? PyLong_AsLong(args[0]) : 0;
    if (decimals == -1 && PyErr_Occurred())
        return NULL;
    mlx_array res = { NULL };
    return array_result(mlx_round(&res, handle_of(self), (int)decimals, anywhere), res);
}

/* Properties */

static PyObject *array_get_shape(PyObject *o, void *unused)
{
    (void)unused;
    return ints_to_tuple(mlx_array_shape(handle_of(o)), mlx_array_ndim(handle_of(o)));
}

static PyObject *array_get_dtype(PyObject *o, void *unused)
{
    (void)unused;
    return Py_NewRef(dtype_object(mlx_array_dtype(handle_of(o))));
}

static PyObject *array_get_device(PyObject *o, void *unused)
{
    (void)o;
    (void)unused;
    return fn_default_device(NULL);
}

#define GETTER(name)                                              \
    static PyObject *get_##name(PyObject *o, void *unused)        \
    {                                                             \
        (void)unused;                                             \
        return PyLong_FromSize_t(mlx_array_##name(handle_of(o))); \
    }

GETTER(size)
GETTER(ndim)
GETTER(itemsize)
GETTER(nbytes)

static PyObject *get_real(PyObject *o, void *unused) { return (void)unused, array_unary(o, mlx_real); }
static PyObject *get_imag(PyObject *o, void *unused) { return (void)unused, array_unary(o, mlx_imag); }
static PyObject *get_transposed(PyObject *o, void *unused) { return (void)unused, array_unary(o, mlx_transpose); }

static PyObject *get_matrix_transposed(PyObject *o, void *unused)
{
    (void)unused;
    mlx_array res = { NULL };
    if (mlx_array_ndim(handle_of(o)) < 2) {
        PyErr_Format(exc_value, "[mT] expected an array of at least 2 dimensions, got %zu",
                     mlx_array_ndim(handle_of(o)));
        return NULL;
    }
    return array_result(mlx_swapaxes(&res, handle_of(o), -1, -2, anywhere), res);
}

static PyGetSetDef properties[] = {
    { "size", get_size, NULL, "Number of elements.", NULL },
    { "ndim", get_ndim, NULL, "Number of axes.", NULL },
    { "itemsize", get_itemsize, NULL, "Bytes of one element.", NULL },
    { "nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL },
    { "shape", array_get_shape, NULL, "The sizes of the axes, a tuple.", NULL },
    { "dtype", array_get_dtype, NULL, "The type of the elements.", NULL },
    { "device", array_get_device, NULL,
      "Where operations on the array run, if nothing else is said: the default device.", NULL },
    { "real", get_real, NULL, "Real part.", NULL },
    { "imag", get_imag, NULL, "Imaginary part.", NULL },
    { "T", get_transposed, NULL, "The array with its axes in reverse order.", NULL },
    { "mT", get_matrix_transposed, NULL, "The array with its last two axes swapped.", NULL },
    { "at", array_at, NULL, "For updates that add up where an index comes twice: ``x.at[i].add(v)`` gives a new array.",
      NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

/* Sequences */

static Py_ssize_t length(PyObject *o)
{
    mlx_array a = handle_of(o);
    if (mlx_array_ndim(a))
        return mlx_array_shape(a)[0];
    PyErr_SetString(PyExc_TypeError, "len() of an array without dimensions");
    return -1;
}

struct iterator {
    PyObject ob_base;
    PyObject *array;
    Py_ssize_t i;
};
static PyTypeObject *iterator_type;

static PyObject *iterate(PyObject *o)
{
    if (!mlx_array_ndim(handle_of(o))) {
        PyErr_SetString(PyExc_TypeError, "iteration over an array without dimensions");
        return NULL;
    }
    struct iterator *it = PyObject_GC_New(struct iterator, iterator_type);
    if (!it)
        return NULL;
    it->array = Py_NewRef(o);
    it->i = 0;
    PyObject_GC_Track((PyObject *)it);
    return (PyObject *)it;
}

static PyObject *rows_next(PyObject *o)
{
    struct iterator *it = (struct iterator *)o;
    mlx_array a = handle_of(it->array), res = { NULL };
    if (!mlx_array_ndim(a) || it->i >= mlx_array_shape(a)[0])
        return NULL;
    static uint64_t given; /* the GIL is held */
    if (items_stopped(&given))
        return NULL;
    mlx_index item = { .kind = MLX_INDEX_INT, .start = it->i++ };
    return array_result(mlx_getitem(&res, a, &item, 1, anywhere), res);
}

/* A cycle through this also goes through the attributes of a subclass. */
static int iterator_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(((struct iterator *)o)->array);
    return 0;
}

static void iterator_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_DECREF(((struct iterator *)o)->array);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyType_Slot iterator_slots[] = {
    { Py_tp_dealloc, iterator_dealloc },
    { Py_tp_traverse, iterator_traverse },
    { Py_tp_iter, PyObject_SelfIter },
    { Py_tp_iternext, rows_next },
    { Py_tp_doc, DOC("The slices of an array along its first axis, one after the other.") },
    { 0, NULL },
};
static PyType_Spec iterator_spec = {
    "mlx.core.ArrayIterator",
    sizeof(struct iterator),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    iterator_slots,
};

/* Text */

static PyObject *repr(PyObject *o)
{
    mlx_array a = handle_of(o);
    mlx_string text = mlx_string_new();
    if (array_ready(a))
        return NULL;
    PyObject *result = NULL;
    if (mlx_array_text(&text, a, print_precision()))
        raise_last();
    else
        result = PyUnicode_FromString(mlx_string_data(text));
    mlx_string_free(text);
    return result;
}

static Py_hash_t array_hash(PyObject *o) /* by identity, although == compares elements */
{
    size_t p = (size_t)o;
    p = p >> 4 | p << (8 * sizeof p - 4);
    return (Py_hash_t)p == -1 ? -2 : (Py_hash_t)p;
}

/* Methods: a C function and a signature for each row. */

#define METHOD(name, body, text, doc)                                                             \
    static struct signature sig_##name = SIGNATURE(#name, "self: array, /, " text);               \
    static PyObject *py_##name(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kw) \
    {                                                                                             \
        return call_function(&sig_##name, fn_##body, self, args, n, kw);                          \
    }
#include "functions.def"

static PyMethodDef methods[] = {
#define METHOD(name, body, text, doc) { #name, PYFN(py_##name), FAST, #name "($self, " text ")\n--\n\n" doc },
#include "functions.def"
    { "__complex__", to_complex, METH_NOARGS, "__complex__($self)\n--\n\nThe one element as a complex number." },
    { "__round__", PYFN(round_), METH_FASTCALL, "__round__($self, ndigits=None, /)\n--\n\nSee :func:`round`." },
    { NULL, NULL, 0, NULL },
};

static PyMemberDef members[] = {
    { "__weaklistoffset__", T_PYSSIZET, offsetof(struct array, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};

static PyType_Slot slots[] = {
    { Py_tp_new, new },
    { Py_tp_init, init },
    { Py_tp_dealloc, dealloc },
    { Py_tp_doc, DOC("array(val, dtype=None)\n--\n\n"
                     "An array of numbers.\n\nOperations on it are noted and computed when the elements are "
                     "first needed, or by\n:func:`eval`. ``val`` is a number, nested lists or tuples of "
                     "numbers "
                     "or arrays, or\nanother library's array.") },
    { Py_tp_methods, methods },
    { Py_tp_members, members },
    { Py_tp_getset, properties },
    { Py_tp_richcompare, compare },
    { Py_tp_hash, array_hash },
    { Py_tp_repr, repr },
    { Py_tp_iter, iterate },
    { Py_nb_add, nb_add },
    { Py_nb_inplace_add, nb_iadd },
    { Py_nb_subtract, nb_subtract },
    { Py_nb_inplace_subtract, nb_isubtract },
    { Py_nb_multiply, nb_multiply },
    { Py_nb_inplace_multiply, nb_imultiply },
    { Py_nb_true_divide, nb_divide },
    { Py_nb_inplace_true_divide, nb_idivide },
    { Py_nb_floor_divide, nb_floor_divide },
    { Py_nb_inplace_floor_divide, nb_ifloor_divide },
    { Py_nb_remainder, nb_remainder },
    { Py_nb_inplace_remainder, nb_iremainder },
    { Py_nb_divmod, nb_divmod },
    { Py_nb_power, nb_power },
    { Py_nb_inplace_power, nb_ipower },
    { Py_nb_matrix_multiply, nb_matmul },
    { Py_nb_inplace_matrix_multiply, nb_imatmul },
    { Py_nb_and, nb_and },
    { Py_nb_inplace_and, nb_iand },
    { Py_nb_or, nb_or },
    { Py_nb_inplace_or, nb_ior },
    { Py_nb_xor, nb_xor },
    { Py_nb_inplace_xor, nb_ixor },
    { Py_nb_lshift, nb_lshift },
    { Py_nb_inplace_lshift, nb_ilshift },
    { Py_nb_rshift, nb_rshift },
    { Py_nb_inplace_rshift, nb_irshift },
    { Py_nb_negative, nb_negative },
    { Py_nb_positive, copied_array },
    { Py_nb_absolute, nb_absolute },
    { Py_nb_invert, nb_invert },
    { Py_nb_bool, nb_bool },
    { Py_nb_int, nb_int },
    { Py_nb_float, nb_float },
    { Py_nb_index, nb_index },
    { Py_mp_length, length },
    { Py_mp_subscript, array_getitem },
    { Py_mp_ass_subscript, array_setitem },
    { Py_bf_getbuffer, buffer_get },
    { Py_bf_releasebuffer, buffer_put },
    { 0, NULL },
};
static PyType_Spec spec = {
    "mlx.core.array", sizeof(struct array), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots,
};

int array_init(PyObject *module)
{
    array_type = add_type(module, &spec);
    iterator_type = array_type ? add_type(module, &iterator_spec) : NULL;
    return iterator_type ? 0 : -1;
}
