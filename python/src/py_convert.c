/* py_convert.c: Python values to arrays and back.
 *
 * Nested lists are looked through once, for their shape and the kind of number that holds all elements; the numbers
 * are kept on the way, and written as that kind from there.  Of the few that are not kept, complex ones say, a second
 * pass fills the memory.  Lists with arrays in them become stacks of arrays instead, so that derivatives pass
 * through. */
#include "py.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers */

char scalar_kind(PyObject *o)
{
    /* Nearly all objects are of one of these types: to ask what a type derives from is a call each time. */
    PyTypeObject *type = Py_TYPE(o);
    if (type == &PyFloat_Type)
        return 'f';
    if (type == &PyLong_Type)
        return 'i';
    if (type == &PyBool_Type)
        return 'b';
    if (type == &PyList_Type || type == &PyTuple_Type)
        return 0;
    if (PyFloat_Check(o))
        return 'f';
    if (PyLong_Check(o)) /* bool has no classes made from it */
        return 'i';
    return PyComplex_Check(o) ? 'c' : 0;
}

/* An int as bits of int64 or, where it is larger, of uint64 (*big).  Beyond that 1 without
 * exception. */
static int int_bits(PyObject *o, int64_t *v, bool *big)
{
    int overflow;
    *big = false;
    *v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow)
        return *v == -1 && PyErr_Occurred() ? -1 : 0;
    if (overflow < 0)
        return 1;
    unsigned long long u = PyLong_AsUnsignedLongLong(o);
    if (u == (unsigned long long)-1 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        PyErr_Clear();
        return 1;
    }
    *big = true;
    *v = (int64_t)u;
    return 0;
}

static bool int_fits(int64_t v, bool big, mlx_dtype t)
{
    switch (t) {
    case MLX_UINT8: return !big && v >= 0 && v <= UINT8_MAX;
    case MLX_UINT16: return !big && v >= 0 && v <= UINT16_MAX;
    case MLX_UINT32: return !big && v >= 0 && v <= UINT32_MAX;
    case MLX_UINT64: return big || v >= 0;
    case MLX_INT8: return !big && v >= INT8_MIN && v <= INT8_MAX;
    case MLX_INT16: return !big && v >= INT16_MIN && v <= INT16_MAX;
    case MLX_INT32: return !big && v >= INT32_MIN && v <= INT32_MAX;
    case MLX_INT64: return !big;
    default: return true;
    }
}

const char *int_text(PyObject *o)
{
    enum { SHOWN = 256 };
    static char text[128]; /* the GIL is held */
    PyErr_Clear();
    PyObject *index = PyNumber_Index(o), *length = index ? PyObject_CallMethod(index, "bit_length", NULL) : NULL;
    long long bits = length ? PyLong_AsLongLong(length) : SHOWN + 1;
    PyObject *digits = bits > SHOWN ? PyUnicode_FromFormat("an int of %lld bits", bits) : PyObject_Str(index);
    const char *shown = digits ? PyUnicode_AsUTF8AndSize(digits, NULL) : NULL;
    PyOS_snprintf(text, sizeof text, "%s", shown ? shown : "an int");
    PyErr_Clear();
    Py_XDECREF(digits);
    Py_XDECREF(length);
    Py_XDECREF(index);
    return text;
}

static int does_not_fit(PyObject *o, mlx_dtype t)
{
    PyErr_Format(exc_overflow, "[array] expected a number that fits %s, got %s", mlx_dtype_name(t), int_text(o));
    return -1;
}

/* A number as a double, for what is of type t. */
static int double_for(PyObject *o, double *v, mlx_dtype t)
{
    *v = PyFloat_AsDouble(o);
    if (*v != -1.0 || !PyErr_Occurred())
        return 0;
    if (!PyLong_Check(o) || !PyErr_ExceptionMatches(PyExc_OverflowError))
        return -1;
    PyErr_Clear();
    return does_not_fit(o, t);
}

int double_from(PyObject *o, double *v) { return double_for(o, v, MLX_FLOAT64); }

int scalar_dtype(PyObject *o, char kind, mlx_dtype *out)
{
    int64_t v;
    bool big;
    int status;
    switch (kind) {
    case 'b': *out = MLX_BOOL; return 0;
    case 'f': *out = MLX_FLOAT32; return 0;
    case 'c': *out = MLX_COMPLEX64; return 0;
    }
    if ((status = int_bits(o, &v, &big)) < 0)
        return -1;
    *out = big ? MLX_UINT64 : int_fits(v, false, MLX_INT32) ? MLX_INT32 : MLX_INT64;
    return status ? does_not_fit(o, MLX_UINT64) : 0;
}

int int_beyond(PyObject *o, mlx_dtype like)
{
    char kind = dtype_kind(like);
    if (is_array(o) || !PyIndex_Check(o) || kind == 'f' || kind == 'c')
        return 0;
    PyObject *index = PyNumber_Index(o);
    int64_t v = 0;
    bool big;
    int status = index ? int_bits(index, &v, &big) : -1, side = 0;
    if (status > 0 || (status == 0 && !int_fits(v, big, mlx_dtype_promote_scalar(like, 'i')))) {
        v = PyLong_AsLongLongAndOverflow(index, &side);
        side = side ? side : v < 0 ? -1 : 1;
    }
    PyErr_Clear();
    Py_XDECREF(index);
    return side;
}

static bool is_integer(mlx_dtype t) { return strchr("iu", dtype_kind(t)) != NULL; }
static bool is_half(mlx_dtype t) { return t == MLX_FLOAT16 || t == MLX_BFLOAT16; }

/* What numbers are held in before they become type t: itself, but double where the library is to round them, or
 * to cut off what integers have no place for. */
static mlx_dtype held_as(mlx_dtype t, bool all_integers)
{
    return is_half(t) || (is_integer(t) && !all_integers) ? MLX_FLOAT64 : t;
}

struct number {
    char kind; /* 'i', also for bool; 'f' or 'c' */
    bool big;
    int64_t i;
    double re, im;
};

/* A number to be held in type t, of which an integer takes the low bytes, and to become type `asked`. */
static int number_from_object(struct number *n, PyObject *o, char kind, mlx_dtype t, mlx_dtype asked)
{
    *n = (struct number){ .kind = kind };
    switch (kind) {
    case 'b':
        n->kind = 'i';
        n->i = o == Py_True;
        return 0;
    case 'i': {
        int status = int_bits(o, &n->i, &n->big);
        if (status < 0)
            return -1;
        if (is_integer(t))
            return status ? does_not_fit(o, asked) : 0;
        if (!status && !n->big)
            return 0;
        n->kind = 'f';
        return double_for(o, &n->re, asked);
    }
    case 'f': n->re = PyFloat_AsDouble(o); return 0;
    default:
        n->re = PyComplex_RealAsDouble(o);
        n->im = PyComplex_ImagAsDouble(o);
        return 0;
    }
}

int scalar_cast(mlx_array *out, PyObject *o, char kind, mlx_dtype t)
{
    struct number n;
    mlx_dtype held = is_half(t) ? t : held_as(t, kind == 'i' || kind == 'b');
    if (number_from_object(&n, o, kind, held, t))
        return -1;
    int failed = n.kind == 'i'        ? mlx_scalar_int(out, n.i, t)
                 : t == MLX_BOOL      ? mlx_scalar_int(out, n.re != 0 || n.im != 0, t)
                 : t == MLX_COMPLEX64 ? mlx_scalar_complex(out, n.re, n.im, t)
                                      : mlx_scalar_double(out, n.re, held);
    if (!failed && n.kind != 'i' && held != t)
        failed = mlx_astype(out, *out, t, mlx_stream_new());
    return failed ? raise_last() : 0;
}

int scalar_to_array(mlx_array *out, PyObject *o, char kind, mlx_dtype t)
{
    int64_t v;
    bool big;
    if (kind != 'i' || !is_integer(t))
        return scalar_cast(out, o, kind, t);
    int status = int_bits(o, &v, &big);
    if (status < 0)
        return -1;
    if (status || !int_fits(v, big, t))
        return does_not_fit(o, t);
    return mlx_scalar_int(out, v, t) ? raise_last() : 0;
}

enum { ITEMS_BETWEEN_SIGNALS = 1 << 14 };

bool items_stopped(uint64_t *items) { return ++*items % ITEMS_BETWEEN_SIGNALS == 0 && PyErr_CheckSignals(); }

/* Nested lists
 *
 * What the class of a list overrides is not asked, so that of the user's code only handlers of signals run between
 * the two passes over numbers: lists are held and looked at anew where one may have run.  Looking at anything else
 * may run other code: the items are held then. */

PyObject *items_now(PyObject *list) { return PyList_Check(list) ? PyList_AsTuple(list) : Py_NewRef(list); }

PyObject *items_list(PyObject *list)
{
    if (PyList_Check(list))
        return PyList_GetSlice(list, 0, PyList_Size(list));
    PyObject *tuple = PyTuple_GetSlice(list, 0, PyTuple_Size(list)); /* a subclass may iterate over anything */
    PyObject *items = tuple ? PySequence_List(tuple) : NULL;
    Py_XDECREF(tuple);
    return items;
}

PyObject *item_at(PyObject *list, Py_ssize_t i)
{
    return Py_XNewRef(PyList_Check(list) ? PyList_GetItem(list, i) : PyTuple_GetItem(list, i));
}

PyObject *sequence_now(PyObject *o)
{
    if (PyIndex_Check(o)) {
        PyObject *index = PyNumber_Index(o); /* arrays without axes are sequences by their type alone */
        if (index || !PyErr_ExceptionMatches(PyExc_TypeError))
            return index;
        PyErr_Clear();
    }
    bool sequence = is_array(o) || (PySequence_Check(o) && !PyUnicode_Check(o));
    return sequence ? PySequence_Tuple(o) : Py_NewRef(o);
}

static PyObject *list_item(PyObject *o, Py_ssize_t i)
{
    return PyList_Check(o) ? PyList_GetItem(o, i) : PyTuple_GetItem(o, i);
}

union word {
    int64_t i;
    double f;
};

struct nest {
    int outer; /* how many sequences this one is inside of */
    int ndim;
    int shape[MAX_NDIM];
    mlx_dtype asked; /* what the numbers become */
    bool has_arrays, has_numbers;
    bool has_int, has_float, has_complex, negative, wide, big; /* wide: past int32; big: int64 */
    int at[MAX_NDIM];                                          /* where we are, for messages */
    uint64_t items;                                            /* how many were gone through */
    /* The numbers so far, floats where has_float.  NULL before the first, and again once there is one that is no
     * word: a complex number, or an int past int64. */
    union word *words;
    size_t used, room;
};

/* "[1, 0]" of the first n places. */
static const char *place_in_nest(const struct nest *s, int n)
{
    static char text[16 * MAX_NDIM]; /* the GIL is held */
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)PyOS_snprintf(text + used, sizeof text - used, "%s%d", i ? ", " : "", s->at[i]);
    text[used] = 0;
    return text;
}

/* How many numbers there are, if all lists are as long as the first of their depth; 0 if memory has no such place. */
static size_t numbers_in(const struct nest *s)
{
    size_t n = 1;
    for (int i = 0; i < s->ndim; i++)
        if (__builtin_mul_overflow(n, (size_t)s->shape[i], &n))
            return 0;
    return n > PTRDIFF_MAX / sizeof(union word) ? 0 : n;
}

static void forget_words(struct nest *s)
{
    free(s->words);
    s->words = NULL;
    s->used = s->room = 0;
}

static void keep_word(struct nest *s, union word w)
{
    if (s->used < s->room)
        s->words[s->used++] = w;
    else /* beside arrays numbers may be anywhere, and as many as they like */
        forget_words(s);
}

static void keep_floats(struct nest *s)
{
    for (size_t i = 0; i < s->used && !s->has_float; i++) s->words[i].f = (double)s->words[i].i;
    s->has_float = true;
}

static int look_at_number(struct nest *s, PyObject *o, char kind)
{
    union word w = { 0 };
    bool big = false;
    int status = 0;
    if (!s->has_numbers && !s->has_arrays) {
        size_t n = numbers_in(s);
        s->words = n ? malloc(n * sizeof *s->words) : NULL;
        s->room = s->words ? n : 0;
    }
    s->has_numbers = true;
    switch (kind) {
    case 'c': s->has_complex = true; return forget_words(s), 0;
    case 'f':
        keep_floats(s);
        w.f = PyFloat_AsDouble(o);
        return keep_word(s, w), 0;
    case 'b': w.i = o == Py_True; break;
    default:
        s->has_int = true;
        if ((status = int_bits(o, &w.i, &big)) < 0)
            return -1;
    }
    bool beyond = status || big;
    s->wide |= beyond || w.i != (int32_t)w.i;
    s->big |= beyond;
    s->negative |= !beyond && w.i < 0;
    if (beyond)
        return forget_words(s), 0;
    if (s->has_float)
        w.f = (double)w.i;
    return keep_word(s, w), 0;
}

static int uneven(const struct nest *s, int depth, const char *expected, const char *found)
{
    PyErr_Format(exc_value, "[array] expected lists of equal length, got %s at [%s] where %s stood before", found,
                 place_in_nest(s, depth), expected);
    return -1;
}

static int too_deep(void)
{
    PyErr_Format(exc_value, "[array] expected at most %d lists in each other, with at most 2147483647 items each",
                 MAX_NDIM);
    return -1;
}

/* By a handler of a signal, between the passes. */
static int changed_meanwhile(void)
{
    PyErr_SetString(exc_value,
                    "[array] expected lists that stay as they are while they are read, got one that changed");
    return -1;
}

static int look_into_list(struct nest *s, PyObject *list, int depth, bool first);

/* Looks at o, `depth` lists deep. */
static inline int look_into_nest(struct nest *s, PyObject *o, int depth, bool first)
{
    char kind = scalar_kind(o);
    if (kind) {
        if (!first && !s->has_arrays && s->ndim != depth)
            return uneven(s, depth, "a list", "a number");
        s->ndim = depth;
        return look_at_number(s, o, kind);
    }
    if (is_list(o))
        return look_into_list(s, o, depth, first);
    s->has_arrays = true;
    return 0;
}

static int uneven_list(const struct nest *s, int depth, Py_ssize_t n)
{
    char found[32], expected[32];
    PyOS_snprintf(found, sizeof found, "%zd items", n);
    PyOS_snprintf(expected, sizeof expected, "%d items", depth < s->ndim ? s->shape[depth] : 0);
    return uneven(s, depth, depth < s->ndim ? expected : "a number", found);
}

static int look_into_list(struct nest *s, PyObject *list, int depth, bool first)
{
    PyObject *(*item_of)(PyObject *, Py_ssize_t) = PyList_Check(list) ? PyList_GetItem : PyTuple_GetItem;
    Py_ssize_t n = items_size(list);
    if (s->outer + depth >= MAX_NDIM || n > INT32_MAX)
        return too_deep();
    if (first) {
        s->shape[depth] = (int)n;
        s->ndim = depth + 1;
    } else if (!s->has_arrays && (depth >= s->ndim || n != s->shape[depth])) {
        return uneven_list(s, depth, n);
    }
    int failed = 0;
    Py_INCREF(list);
    for (Py_ssize_t i = 0; i < n && !failed; i++) {
        PyObject *item = items_stopped(&s->items) ? NULL : item_of(list, i);
        s->at[depth] = (int)i;
        failed = item ? look_into_nest(s, item, depth + 1, first && i == 0) : -1;
    }
    Py_DECREF(list);
    return failed;
}

static int own_dtype(const struct nest *s, mlx_dtype *t)
{
    if (s->big && s->negative && !s->has_float && !s->has_complex) {
        PyErr_SetString(exc_overflow,
                        "[array] expected integers that all fit int64 or all fit uint64, got negative ones "
                        "beside some past 9223372036854775807");
        return -1;
    }
    *t = s->has_complex           ? MLX_COMPLEX64
         : s->has_float           ? MLX_FLOAT32
         : !s->has_numbers        ? MLX_FLOAT32
         : !s->has_int            ? MLX_BOOL
         : s->big && !s->negative ? MLX_UINT64
         : s->wide                ? MLX_INT64
                                  : MLX_INT32;
    return 0;
}

static void store_number(char **to, const struct number *n, mlx_dtype t)
{
    double re = n->kind == 'i' ? (n->big ? (double)(uint64_t)n->i : (double)n->i) : n->re;
    float pair[2] = { (float)re, (float)n->im }, f = (float)re;
    uint8_t truth = n->kind == 'i' ? n->i != 0 : n->re != 0 || n->im != 0;
    const void *from = t == MLX_BOOL        ? (const void *)&truth
                       : t == MLX_FLOAT32   ? &f
                       : t == MLX_FLOAT64   ? &re
                       : t == MLX_COMPLEX64 ? (const void *)pair
                                            : &n->i; /* little-endian: the low bytes of an integer come first */
    memcpy(*to, from, mlx_dtype_size(t));
    *to += mlx_dtype_size(t);
}

/* Writes the numbers that were kept as type t. */
static void store_words(void *to, const struct nest *s, mlx_dtype t)
{
    const union word *w = s->words;
#define STORE(type, each) \
    for (size_t i = 0; i < s->used; i++) ((type *)to)[i] = (type)(each)
#define AS(type)             \
    if (s->has_float)        \
        STORE(type, w[i].f); \
    else                     \
        STORE(type, (double)w[i].i)
    switch (t) {
    case MLX_BOOL: AS(bool); break;
    case MLX_FLOAT32: AS(float); break;
    case MLX_COMPLEX64: AS(float complex); break;
    case MLX_FLOAT64: AS(double); break;
    default: /* only integers become integers here, of which these are the low bytes */
        switch (mlx_dtype_size(t)) {
        case 1: STORE(int8_t, w[i].i); break;
        case 2: STORE(int16_t, w[i].i); break;
        case 4: STORE(int32_t, w[i].i); break;
        case 8: STORE(int64_t, w[i].i); break;
        }
    }
#undef AS
#undef STORE
}

/* Writes the numbers of o, `depth` lists deep in what s was found to be. */
static int fill_nest(char **to, struct nest *s, PyObject *o, int depth, mlx_dtype t)
{
    if (depth == s->ndim) {
        struct number n;
        char kind = scalar_kind(o);
        if (!kind)
            return changed_meanwhile();
        if (number_from_object(&n, o, kind, t, s->asked))
            return -1;
        store_number(to, &n, t);
        return 0;
    }
    if (!is_list(o) || items_size(o) != s->shape[depth])
        return changed_meanwhile();
    int failed = 0;
    Py_INCREF(o);
    for (int i = 0; i < s->shape[depth] && !failed; i++) {
        PyObject *item = items_stopped(&s->items) ? NULL : list_item(o, i);
        failed = item ? fill_nest(to, s, item, depth + 1, t) : -1;
    }
    Py_DECREF(o);
    return failed;
}

static int from_numbers(mlx_array *out, PyObject *o, struct nest *s, mlx_dtype t)
{
    mlx_dtype held = held_as(t, !s->has_float && !s->has_complex);
    char *memory = malloc(numbers_in(s) * mlx_dtype_size(held) + 1), *to = memory;
    if (!memory)
        return PyErr_NoMemory(), -1;
    s->asked = t;
    if (s->words)
        store_words(memory, s, held);
    int failed = s->words ? 0 : fill_nest(&to, s, o, 0, held);
    if (!failed && (mlx_array_set_data(out, memory, s->shape, s->ndim, held) ||
                    (held != t && mlx_astype(out, *out, t, mlx_stream_new()))))
        failed = raise_last();
    free(memory);
    return failed;
}

/* Complains of an item whose shape is not that of the items before. */
static int unequal(const struct nest *s, int depth, mlx_vector_array items, mlx_array a)
{
    mlx_array first = mlx_array_new();
    if (mlx_vector_array_get(&first, items, 0))
        return raise_last();
    size_t n = mlx_array_ndim(first);
    int differ = n != mlx_array_ndim(a) || memcmp(mlx_array_shape(first), mlx_array_shape(a), n * sizeof(int));
    if (differ) {
        PyObject *want = ints_to_tuple(mlx_array_shape(first), n);
        PyObject *got = ints_to_tuple(mlx_array_shape(a), mlx_array_ndim(a));
        if (want && got)
            PyErr_Format(exc_value, "[array] expected items of equal shape, got %R at [%s] where %R stood before", got,
                         place_in_nest(s, depth + 1), want);
        Py_XDECREF(want);
        Py_XDECREF(got);
    }
    mlx_array_free(first);
    return differ ? -1 : 0;
}

static int array_inside(mlx_array *out, PyObject *o, const mlx_dtype *dtype, int outer);

/* A list with arrays in it: the stack of what its items are. */
static int from_arrays(mlx_array *out, PyObject *o, const mlx_dtype *dtype, struct nest *s, int depth)
{
    if (!is_list(o))
        return array_inside(out, o, dtype, s->outer + depth);
    if (s->outer + depth >= MAX_NDIM) /* it was not when it was looked at */
        return too_deep();
    PyObject *held = items_now(o);
    if (!held)
        return -1;
    if (!PyTuple_Size(held)) {
        Py_DECREF(held);
        struct nest empty = { .ndim = 1 };
        return from_numbers(out, o, &empty, dtype ? *dtype : MLX_FLOAT32);
    }
    mlx_vector_array items = mlx_vector_array_new();
    int failed = items.ctx ? 0 : raise_last();
    for (Py_ssize_t i = 0; i < PyTuple_Size(held) && !failed; i++) {
        mlx_array a = mlx_array_new();
        s->at[depth] = (int)i;
        failed = items_stopped(&s->items) ? -1 : from_arrays(&a, PyTuple_GetItem(held, i), dtype, s, depth + 1);
        if (!failed && i)
            failed = unequal(s, depth, items, a);
        if (!failed && mlx_vector_array_append_value(items, a))
            failed = raise_last();
        mlx_array_free(a);
    }
    Py_DECREF(held);
    /* Numbers beside arrays take the arrays' dtype no more than arrays do: all are promoted. */
    mlx_dtype t = MLX_BOOL;
    for (int pass = 0; pass < 2 && !failed; pass++) {
        mlx_vector_array cast = mlx_vector_array_new();
        for (size_t i = 0; i < mlx_vector_array_size(items) && !failed; i++) {
            mlx_array a = mlx_array_new();
            failed = mlx_vector_array_get(&a, items, i);
            if (!failed && pass == 0)
                t = i ? mlx_dtype_promote(t, mlx_array_dtype(a)) : mlx_array_dtype(a);
            else if (!failed)
                failed = mlx_astype(&a, a, t, mlx_stream_new()) || mlx_vector_array_append_value(cast, a);
            mlx_array_free(a);
            if (failed)
                raise_last();
        }
        if (pass == 1 && !failed && mlx_stack(out, cast, mlx_stream_new()))
            failed = raise_last();
        mlx_vector_array_free(cast);
    }
    mlx_vector_array_free(items);
    return failed ? -1 : 0;
}

/* Of a list or tuple inside of `outer` sequences. */
static int from_list(mlx_array *out, PyObject *o, const mlx_dtype *dtype, int outer)
{
    struct nest s = { .outer = outer };
    mlx_dtype t = dtype ? *dtype : MLX_FLOAT32;
    int failed = look_into_list(&s, o, 0, true);
    if (!failed && s.has_arrays)
        failed = from_arrays(out, o, dtype, &s, 0);
    else if (!failed)
        failed = (!dtype && own_dtype(&s, &t)) || from_numbers(out, o, &s, t) ? -1 : 0;
    forget_words(&s);
    return failed;
}

/* Anything */

int array_from_method(mlx_array *out, PyObject *o)
{
    int has = has_attribute((PyObject *)Py_TYPE(o), "__mlx_array__");
    if (has <= 0)
        return has;
    PyObject *a = PyObject_CallMethod(o, "__mlx_array__", NULL);
    if (!a)
        return -1;
    int failed = 0;
    if (!is_array(a)) {
        PyErr_Format(PyExc_TypeError, "__mlx_array__() should return an array, not %s", type_name(a));
        failed = -1;
    } else if (mlx_array_set(out, handle_of(a))) {
        failed = raise_last();
    }
    Py_DECREF(a);
    return failed;
}

int array_from_foreign(mlx_array *out, PyObject *o)
{
    if (scalar_kind(o) || is_list(o) || PyUnicode_Check(o) || o == Py_None)
        return 0;
    if (gives_buffer(o))
        return array_from_buffer(out, o, COPY);
    int has = gives_dlpack(o);
    if (has)
        return has < 0 ? -1 : array_from_dlpack(out, o, COPY);
    if (array_from_cuda(out, o) || out->ctx)
        return PyErr_Occurred() ? -1 : 0;
    if ((has = has_attribute((PyObject *)Py_TYPE(o), "__array__")) <= 0)
        return has;
    PyObject *a = PyObject_CallMethod(o, "__array__", NULL);
    if (!a)
        return -1;
    int failed = PyObject_CheckBuffer(a) ? array_from_buffer(out, a, COPY) : 0;
    Py_DECREF(a);
    return failed;
}

int array_narrow(mlx_array *a)
{
    if (!a->ctx || mlx_array_dtype(*a) != MLX_FLOAT64)
        return 0;
    return mlx_astype(a, *a, MLX_FLOAT32, mlx_stream_new()) ? raise_last() : 0;
}

int array_meet(mlx_array *a, mlx_dtype like)
{
    char kind = dtype_kind(mlx_array_dtype(*a));
    mlx_dtype t = mlx_dtype_promote_scalar(like, kind == 'u' ? 'i' : kind);
    if (t == mlx_array_dtype(*a))
        return 0;
    int failed;
    if (mlx_array_ndim(*a) == 0) { /* a number: with the checks that numbers get */
        PyObject *v = array_item(*a);
        failed = v ? scalar_to_array(a, v, scalar_kind(v), t) : -1;
        Py_XDECREF(v);
    } else {
        failed = mlx_astype(a, *a, t, mlx_stream_new()) ? raise_last() : 0;
    }
    if (failed)
        mlx_array_free(*a);
    return failed;
}

PyObject *float_from_number(PyObject *o)
{
    if (!PyType_GetSlot(Py_TYPE(o), Py_nb_float))
        return NULL;
    PyObject *numbers = PyImport_ImportModule("numbers");
    PyObject *number = numbers ? PyObject_GetAttrString(numbers, "Number") : NULL;
    int is = number ? PyObject_IsInstance(o, number) : -1;
    Py_XDECREF(number);
    Py_XDECREF(numbers);
    return is > 0 ? PyNumber_Float(o) : NULL;
}

/* array_from of what `outer` sequences are around: the items of a sequence may be sequences without end. */
static int array_inside(mlx_array *out, PyObject *o, const mlx_dtype *dtype, int outer)
{
    char kind = scalar_kind(o);
    mlx_dtype t;
    if (kind) {
        if (dtype)
            t = *dtype;
        else if (scalar_dtype(o, kind, &t))
            return -1;
        return scalar_cast(out, o, kind, t);
    }
    if (is_list(o))
        return from_list(out, o, dtype, outer);
    if (is_array(o)) {
        if (mlx_array_set(out, handle_of(o)))
            return raise_last();
    } else if (array_from_method(out, o)) {
        return -1;
    } else if (!out->ctx) {
        if (array_from_foreign(out, o) || (!dtype && array_narrow(out)))
            return -1;
        if (!out->ctx && PySequence_Check(o) && !PyUnicode_Check(o)) { /* a range, say */
            PyObject *list = PySequence_List(o);
            int failed = list ? from_list(out, list, dtype, outer) : -1;
            Py_XDECREF(list);
            return failed;
        }
        PyObject *number = out->ctx ? NULL : float_from_number(o);
        if (number) {
            int failed = array_inside(out, number, dtype, outer);
            Py_DECREF(number);
            return failed;
        }
        if (!out->ctx && PyErr_Occurred())
            return -1;
        if (!out->ctx) {
            PyErr_Format(exc_conversion,
                         "[array] expected numbers, nested lists or tuples of them, or an "
                         "array, got %s",
                         type_name(o));
            return -1;
        }
    }
    if (dtype && *dtype != mlx_array_dtype(*out) && mlx_astype(out, *out, *dtype, mlx_stream_new()))
        return raise_last();
    return 0;
}

int array_from(mlx_array *out, PyObject *o, const mlx_dtype *dtype) { return array_inside(out, o, dtype, 0); }

int array_copied(mlx_array *out, PyObject *o, const mlx_dtype *dtype)
{
    if (!is_array(o) || (dtype && *dtype != mlx_array_dtype(handle_of(o))))
        return array_from(out, o, dtype);
    bool there = false;
    if (_mlx_array_is_available(&there, handle_of(o)) || mlx_array_duplicate(out, handle_of(o)))
        return raise_last();
    return there ? array_ready(*out) : 0;
}

/* Back */

static double half_value(uint16_t h, mlx_dtype t)
{
    if (t == MLX_BFLOAT16) {
        uint32_t bits = (uint32_t)h << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return f;
    }
    int e = h >> 10 & 31, fraction = h & 1023; /* 5 bits of exponent, biased by 15 */
    double v = e == 31 ? (fraction ? NAN : INFINITY) : e ? ldexp(1024 + fraction, e - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

PyObject *element_to_python(const void *p, mlx_dtype t)
{
    switch (t) {
    case MLX_BOOL: return PyBool_FromLong(*(const uint8_t *)p);
    case MLX_UINT8: return PyLong_FromLong(*(const uint8_t *)p);
    case MLX_UINT16: return PyLong_FromLong(*(const uint16_t *)p);
    case MLX_UINT32: return PyLong_FromUnsignedLong(*(const uint32_t *)p);
    case MLX_UINT64: return PyLong_FromUnsignedLongLong(*(const uint64_t *)p);
    case MLX_INT8: return PyLong_FromLong(*(const int8_t *)p);
    case MLX_INT16: return PyLong_FromLong(*(const int16_t *)p);
    case MLX_INT32: return PyLong_FromLong(*(const int32_t *)p);
    case MLX_INT64: return PyLong_FromLongLong(*(const int64_t *)p);
    case MLX_FLOAT32: return PyFloat_FromDouble(*(const float *)p);
    case MLX_FLOAT64: return PyFloat_FromDouble(*(const double *)p);
    case MLX_FLOAT16:
    case MLX_BFLOAT16: return PyFloat_FromDouble(half_value(*(const uint16_t *)p, t));
    case MLX_COMPLEX64: return PyComplex_FromDoubles(((const float *)p)[0], ((const float *)p)[1]);
    }
    return NULL;
}

PyObject *array_item(mlx_array a)
{
    const void *p = array_data(a);
    return p ? element_to_python(p, mlx_array_dtype(a)) : NULL;
}

static PyObject *nested(const char *p, const int *shape, const int64_t *strides, size_t ndim, mlx_dtype t,
                        size_t itemsize, uint64_t *items)
{
    if (ndim == 0)
        return element_to_python(p, t);
    PyObject *list = PyList_New(shape[0]);
    for (int i = 0; list && i < shape[0]; i++, p += strides[0] * (int64_t)itemsize) {
        PyObject *item = items_stopped(items) ? NULL : nested(p, shape + 1, strides + 1, ndim - 1, t, itemsize, items);
        if (!item || PyList_SetItem(list, i, item))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *array_tolist(mlx_array a)
{
    /* Conversion makes Python objects, hence may run other code: the elements need a holder. */
    mlx_array own = mlx_array_new();
    if (mlx_array_set(&own, a))
        return raise_last(), NULL;
    const char *p = array_data(own);
    uint64_t items = 0;
    PyObject *list = p ? nested(p, mlx_array_shape(own), array_strides(own), mlx_array_ndim(own), mlx_array_dtype(own),
                                mlx_array_itemsize(own), &items)
                       : NULL;
    mlx_array_free(own);
    return list;
}
