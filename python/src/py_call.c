/* py_call.c: how the arguments of a call become C values.
 *
 * A signature such as
 *
 * a: array, /, axis: None|int|Sequence[int] = None, *, stream: StreamOrDevice = None
 *
 * is compiled at the first call into one `struct param` for each parameter: its name, the kind
 * of value that its annotation asks for, and its default.  Numbers given for operands
 * (scalar|array) wait until the body says with which arrays they meet.
 *
 * A parameter such as `vals|fill_value` has a second name, mostly that of the array API standard, which goes for
 * a keyword too, and is not shown.  By it a parameter before the slash can be named. */
#include "py.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum param_kind {
    K_OBJECT,
    K_ARRAY,
    K_OPERAND,
    K_INT,
    K_FLOAT,
    K_BOOL,
    K_STR,
    K_SEQUENCE,
    K_INTS,
    K_DTYPE,
    K_STREAM,
    K_ARRAYS,
};

static const struct {
    const char *annotation, *what;
    enum param_kind kind;
} kinds[] = {
    { "array", "an array", K_ARRAY },
    { "scalar|array", "a number or an array", K_OPERAND },
    { "int|array", "an int or an array", K_OPERAND },
    { "int", "an int", K_INT },
    { "float", "a number", K_FLOAT },
    { "bool", "a bool", K_BOOL },
    { "str", "a str", K_STR },
    { "Sequence[int]", "a sequence of ints", K_SEQUENCE },
    { "tuple[int, ...]", "a sequence of ints", K_SEQUENCE },
    { "int|Sequence[int]", "an int or a sequence of ints", K_INTS },
    { "int|list[int]", "an int or a list of ints", K_INTS },
    { "Dtype", "a Dtype", K_DTYPE },
    { "StreamOrDevice", "a Stream, a Device, a DeviceType", K_STREAM },
    { "list[array]", "a list of arrays", K_ARRAYS },
};

struct param {
    PyObject *name, *also; /* interned; also: the second name, or NULL */
    const char *what;
    enum param_kind kind;
    bool required, none; /* none: may be None */
    bool long_list;      /* of ints, longer than an array has dimensions */
    struct value otherwise;
};

/* Compiling */

static bool equals(const char *s, size_t n, const char *word) { return strlen(word) == n && !memcmp(s, word, n); }

/* An annotation that ends with a question mark is of a parameter that may be left out although the
 * signature shows no default. */
static void set_kind(struct param *p, const char *s, size_t n)
{
    if (n > 1 && s[n - 1] == '?') {
        p->required = false;
        n--;
    }
    if (n > 5 && !memcmp(s, "None|", 5)) {
        p->none = true;
        s += 5;
        n -= 5;
    } else if (n > 5 && !memcmp(s + n - 5, "|None", 5)) {
        p->none = true;
        n -= 5;
    }
    for (size_t i = 0; i < LENGTH(kinds); i++)
        if (equals(s, n, kinds[i].annotation)) {
            p->kind = kinds[i].kind;
            p->what = kinds[i].what;
        }
    if (p->kind == K_STREAM)
        p->none = true;
}

/* What neither sizes nor axes are listed for, or an axis more than once. */
static bool takes_long_lists(const char *function, const char *name)
{
    static const char *const all[] = { "argnums", "indices_or_sections" };
    for (size_t i = 0; i < LENGTH(all); i++)
        if (!strcmp(name, all[i]))
            return true;
    return !strcmp(function, "roll") && (!strcmp(name, "shift") || !strcmp(name, "axis"));
}

/* "-2, -1]" */
static int set_ints(struct value *v, const char *s)
{
    int *list = malloc(strlen(s) * sizeof *list), n = 0;
    if (!list)
        return PyErr_NoMemory(), -1;
    for (char *end; *s != ']'; s = end + strspn(end, ", ")) list[n++] = (int)strtol(s, &end, 10);
    v->ints.v = list;
    v->ints.n = n;
    return 0;
}

static int set_default(struct param *p, const char *s, size_t n)
{
    struct value *v = &p->otherwise;
    p->required = false;
    if (equals(s, n, "None") || equals(s, n, "...") || (p->kind == K_OBJECT && equals(s, n, "[]")))
        return 0;
    v->given = true;
    if (equals(s, n, "[]")) {
        v->ints.n = 0;
    } else if (*s == '[') {
        return set_ints(v, s + 1);
    } else if (p->kind == K_BOOL) {
        v->b = equals(s, n, "True");
    } else if (p->kind == K_INT) {
        v->i = atoi(s);
    } else if (p->kind == K_FLOAT) {
        v->d = strtod(s, NULL);
    } else if (p->kind == K_STR) {
        char *copy = malloc(n);
        if (!copy)
            return PyErr_NoMemory(), -1;
        memcpy(copy, s + 1, n - 2);
        copy[n - 2] = 0;
        v->s = copy;
    } else if (p->kind == K_DTYPE) {
        const char *dot = s + n;
        while (dot > s && dot[-1] != '.') dot--;
        for (int t = MLX_BOOL; t <= MLX_COMPLEX64; t++)
            if (equals(dot, (size_t)(s + n - dot), mlx_dtype_name((mlx_dtype)t)))
                v->t = (mlx_dtype)t;
    } else {
        double d = strtod(s, NULL);
        v->o = *s == '\''          ? PyUnicode_FromStringAndSize(s + 1, (Py_ssize_t)n - 2)
               : memchr(s, '.', n) ? PyFloat_FromDouble(d)
                                   : PyLong_FromDouble(d);
        return v->o ? 0 : -1;
    }
    return 0;
}

/* The end of a piece of the text: the next of `stops` outside of brackets. */
static const char *piece(const char *s, const char *stops)
{
    int depth = 0;
    for (; *s; s++) {
        if (depth == 0 && strchr(stops, *s))
            return s;
        depth += *s == '[' || *s == '(';
        depth -= *s == ']' || *s == ')';
    }
    return s;
}

static size_t trimmed(const char **s, const char *end)
{
    while (*s < end && isspace((unsigned char)**s)) ++*s;
    while (end > *s && isspace((unsigned char)end[-1])) end--;
    return (size_t)(end - *s);
}

static PyObject *interned(const char *s, size_t n)
{
    PyObject *text = PyUnicode_FromStringAndSize(s, (Py_ssize_t)n);
    if (text)
        PyUnicode_InternInPlace(&text);
    return text;
}

static int compile_signature(struct signature *sig)
{
    struct param *all = calloc(MAX_PARAMS, sizeof *all);
    if (!all)
        return PyErr_NoMemory(), -1;
    int n = 0, npos = -1;
    for (const char *s = sig->text; *s;) {
        const char *end = piece(s, ","), *word = s;
        size_t len = trimmed(&word, end);
        if (equals(word, len, "/")) {
            sig->nposonly = n;
        } else if (word[0] == '*') {
            sig->rest = len > 1;
            npos = n;
        } else if (len) {
            struct param *p = &all[n++];
            const char *stop = piece(word, ":=,"), *name = word;
            size_t length = trimmed(&name, stop < end ? stop : end);
            const char *bar = memchr(name, '|', length);
            p->required = true;
            p->name = interned(name, bar ? (size_t)(bar - name) : length);
            p->also = bar ? interned(bar + 1, (size_t)(name + length - bar - 1)) : NULL;
            if (!p->name || (bar && !p->also))
                return -1;
            p->long_list = takes_long_lists(sig->name, PyUnicode_AsUTF8AndSize(p->name, NULL));
            if (*stop == ':') {
                const char *annotation = stop + 1;
                stop = piece(annotation, "=,");
                set_kind(p, annotation, trimmed(&annotation, stop));
            }
            if (*stop == '=') {
                const char *otherwise = stop + 1;
                size_t m = trimmed(&otherwise, end);
                if (set_default(p, otherwise, m))
                    return -1;
            }
        }
        s = *end ? end + 1 : end;
    }
    sig->n = n;
    sig->npos = npos < 0 ? n : npos;
    sig->params = all;
    return 0;
}

/* Conversions */

const char *name_of(const struct py_call *c, int i) { return PyUnicode_AsUTF8AndSize(c->sig->params[i].name, NULL); }

PyObject *call_refuse(struct py_call *c, int i, const char *what)
{
    PyErr_Format(exc_conversion, "%s(): argument '%s' must be %s%s, not %s", c->sig->name, name_of(c, i), what,
                 c->sig->params[i].none ? " or None" : "", type_name(c->v[i].o));
    return NULL;
}

static int refuse(struct py_call *c, int i) { return call_refuse(c, i, c->sig->params[i].what), -1; }

int call_keep(struct py_call *c, mlx_array a, mlx_array *out)
{
    if (c->ntemporaries == MAX_TEMPORARIES) {
        mlx_array_free(a);
        PyErr_Format(exc_value, "%s(): too many arguments to convert", c->sig->name);
        return -1;
    }
    *out = c->temporaries[c->ntemporaries++] = a;
    return 0;
}

/* An int that C holds as int, from an int or what has __index__; 1 where it is neither. */
static int int_from(struct py_call *c, const char *name, PyObject *o, int *out)
{
    int overflow = 0;
    long v;
    if (PyLong_Check(o)) {
        v = PyLong_AsLongAndOverflow(o, &overflow);
    } else {
        if (!PyIndex_Check(o) || PyFloat_Check(o))
            return 1;
        PyObject *index = PyNumber_Index(o);
        if (!index) {
            if (!PyErr_ExceptionMatches(PyExc_TypeError))
                return -1;
            PyErr_Clear();
            return 1;
        }
        v = PyLong_AsLongAndOverflow(index, &overflow);
        Py_DECREF(index);
    }
    if (overflow || v < INT_MIN || v > INT_MAX) {
        PyErr_Format(exc_overflow, "[%s] expected an int of 32 bits for '%s', got %s", c->sig->name, name, int_text(o));
        return -1;
    }
    *out = (int)v;
    return 0;
}

int call_int(struct py_call *c, int i, PyObject *o, int *v) { return int_from(c, name_of(c, i), o, v); }

/* May o hold ints?  Vectors of ours do, although they are no sequences to Python. */
static bool may_hold_ints(PyObject *o)
{
    if (is_array(o))
        return mlx_array_ndim(handle_of(o)) == 1;
    return PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o);
}

/* Room for so many ints, which is all that there is. */
static int *long_list(struct py_call *c, Py_ssize_t n)
{
    int **list = &c->long_lists[c->long_lists[0] != NULL];
    free(*list);
    *list = n < INT_MAX ? malloc((size_t)n * sizeof(int)) : NULL;
    if (!*list)
        PyErr_NoMemory();
    return *list;
}

/* Out of the items of a tuple, or those. */
static int ints_among(struct py_call *c, const char *name, PyObject *tuple, PyObject *const *items, Py_ssize_t length,
                      bool any_length, const int **v)
{
    int n = 0, status = 0, room = (int)LENGTH(c->ints) - c->nints, *out = c->ints + c->nints;
    bool fits = length <= MAX_NDIM && length <= room;
    if (!fits && any_length) {
        out = long_list(c, length);
        status = out ? 0 : -1;
    } else if (!fits) {
        PyErr_Format(exc_value, "%s(): argument '%s' has %zd items, at most %d are possible", c->sig->name, name,
                     length, MAX_NDIM);
        status = -1;
    }
    *v = out;
    while (status == 0 && n < length) {
        PyObject *item = tuple ? PyTuple_GetItem(tuple, n) : items[n];
        status = int_from(c, name, item, out + n);
        if (status > 0)
            PyErr_Format(exc_conversion, "%s(): argument '%s' must hold ints, not %s", c->sig->name, name,
                         type_name(item));
        n += status == 0;
    }
    c->nints += fits ? n : 0;
    return status ? -1 : n;
}

static int ints_from(struct py_call *c, const char *name, PyObject *o, bool any_length, const int **v)
{
    int *out = c->ints + c->nints;
    *v = out;
    int status = int_from(c, name, o, out);
    if (status <= 0) {
        c->nints += status == 0;
        return status < 0 ? -1 : 1;
    }
    if (!may_hold_ints(o)) {
        PyErr_Format(exc_conversion, "%s(): argument '%s' must be an int or a sequence of ints, not %s", c->sig->name,
                     name, type_name(o));
        return -1;
    }
    PyObject *items = PySequence_Tuple(o);
    if (!items)
        return -1;
    int n = ints_among(c, name, items, NULL, PyTuple_Size(items), any_length, v);
    Py_DECREF(items);
    return n;
}

int call_ints_of_rest(struct py_call *c, const char *name, const int **v)
{
    return c->nrest == 1 ? ints_from(c, name, c->rest[0], false, v)
                         : ints_among(c, name, NULL, c->rest, c->nrest, false, v);
}

int call_ints_named(struct py_call *c, const char *name, PyObject *o, const int **v)
{
    return ints_from(c, name, o, false, v);
}

int call_ints(struct py_call *c, int i, PyObject *o, const int **v) { return call_ints_named(c, name_of(c, i), o, v); }

static int to_ints(struct py_call *c, int i, bool one_is_enough)
{
    struct value *v = &c->v[i];
    if (!may_hold_ints(v->o) && !(one_is_enough && PyIndex_Check(v->o)))
        return refuse(c, i);
    v->ints.n = ints_from(c, name_of(c, i), v->o, c->sig->params[i].long_list, &v->ints.v);
    return v->ints.n < 0 ? -1 : 0;
}

static int to_array(struct py_call *c, int i, bool operand)
{
    struct value *v = &c->v[i];
    v->a.ctx = NULL;
    if (is_array(v->o)) {
        v->a = handle_of(v->o);
        return 0;
    }
    if (operand && scalar_kind(v->o))
        return 0; /* until call_operands */
    mlx_array a = mlx_array_new();
    if (array_from_method(&a, v->o))
        return -1;
    if (operand && !a.ctx)
        return 0;
    if (!a.ctx && (array_from_foreign(&a, v->o) || array_narrow(&a))) {
        mlx_array_free(a);
        return -1;
    }
    return a.ctx ? call_keep(c, a, &v->a) : refuse(c, i);
}

static int to_float(struct py_call *c, int i)
{
    struct value *v = &c->v[i];
    if (!PyFloat_Check(v->o) && !PyLong_Check(v->o) && (!PyNumber_Check(v->o) || PyComplex_Check(v->o)))
        return refuse(c, i);
    return double_from(v->o, &v->d);
}

static int to_bool(struct py_call *c, int i)
{
    struct value *v = &c->v[i];
    if (v->o == Py_True || v->o == Py_False) {
        v->b = v->o == Py_True;
        return 0;
    }
    /* NumPy's bool is a number as well; whatever is true in some other way is rather a mistake, such as an axis. */
    int n = 0;
    if (!PyNumber_Check(v->o) || PyFloat_Check(v->o) || PyComplex_Check(v->o) || is_array(v->o) ||
        PySequence_Check(v->o))
        return refuse(c, i);
    if (int_from(c, name_of(c, i), v->o, &n) < 0)
        return -1;
    if (n != 0 && n != 1)
        return refuse(c, i);
    int truth = PyObject_IsTrue(v->o);
    v->b = truth > 0;
    return truth < 0 ? -1 : 0;
}

const char *text_from(const char *who, PyObject *o)
{
    Py_ssize_t n = 0;
    const char *s = PyUnicode_Check(o) ? PyUnicode_AsUTF8AndSize(o, &n) : NULL;
    if (s && strlen(s) == (size_t)n)
        return s;
    if (s)
        PyErr_Format(exc_value, "[%s] expected names and texts without null characters, got %R", who, o);
    else if (PyErr_Occurred() && error_clear_only(PyExc_UnicodeEncodeError))
        PyErr_Format(exc_value, "[%s] expected names and texts that UTF-8 can hold, got %R", who, o);
    return NULL;
}

static int to_str(struct py_call *c, int i)
{
    struct value *v = &c->v[i];
    if (!PyUnicode_Check(v->o))
        return refuse(c, i);
    Py_ssize_t n = 0;
    v->s = PyUnicode_AsUTF8AndSize(v->o, &n);
    if (v->s && strlen(v->s) != (size_t)n) {
        PyErr_Format(exc_value, "[%s] expected '%s' without null characters, got %R", c->sig->name, name_of(c, i),
                     v->o);
        return -1;
    }
    if (!v->s && error_clear_only(PyExc_UnicodeEncodeError))
        PyErr_Format(exc_value, "[%s] expected '%s' to be a text that UTF-8 can hold, got %R", c->sig->name,
                     name_of(c, i), v->o);
    return v->s ? 0 : -1;
}

/* A list or tuple of arrays into a vector that lives as long as the call. */
static int to_arrays(struct py_call *c, int i)
{
    struct value *v = &c->v[i];
    if (is_array(v->o)) { /* stands for its slices */
        if (mlx_array_ndim(handle_of(v->o)) == 0)
            return refuse(c, i);
        PyObject *slices = PySequence_List(v->o), *given = v->o;
        v->o = slices;
        int failed = slices ? to_arrays(c, i) : -1;
        v->o = given;
        Py_XDECREF(slices);
        return failed;
    }
    if (!is_list(v->o))
        return refuse(c, i);
    v->vec = c->vectors[c->nvectors++] = mlx_vector_array_new();
    if (!v->vec.ctx)
        return raise_last();
    PyObject *items = items_now(v->o);
    int failed = items ? 0 : -1;
    for (Py_ssize_t k = 0; !failed && k < PyTuple_Size(items); k++) {
        PyObject *item = PyTuple_GetItem(items, k);
        mlx_array a = mlx_array_new();
        failed = is_array(item) ? 0 : array_from_method(&a, item);
        if (!failed && !is_array(item) && !a.ctx)
            failed = array_from_foreign(&a, item) || array_narrow(&a);
        if (!failed && !is_array(item) && !a.ctx) {
            PyErr_Format(exc_conversion, "%s(): argument '%s' must hold arrays, not %s at %zd", c->sig->name,
                         name_of(c, i), type_name(item), k);
            failed = -1;
        }
        if (!failed && mlx_vector_array_append_value(v->vec, is_array(item) ? handle_of(item) : a))
            failed = raise_last();
        mlx_array_free(a);
    }
    Py_XDECREF(items);
    return failed;
}

static int convert_param(struct py_call *c, int i)
{
    const struct param *p = &c->sig->params[i];
    struct value *v = &c->v[i];
    v->a.ctx = NULL;
    v->given = v->o != Py_None || (p->kind == K_OBJECT && !p->none);
    if (!v->given)
        return p->none ? 0 : refuse(c, i);
    switch (p->kind) {
    case K_OBJECT: return 0;
    case K_ARRAY: return to_array(c, i, false);
    case K_OPERAND: return to_array(c, i, true);
    case K_FLOAT: return to_float(c, i);
    case K_BOOL: return to_bool(c, i);
    case K_STR: return to_str(c, i);
    case K_SEQUENCE: return to_ints(c, i, false);
    case K_INTS: return to_ints(c, i, true);
    case K_ARRAYS: return to_arrays(c, i);
    case K_DTYPE: return dtype_asked(v->o, &v->t) ? 0 : refuse(c, i);
    case K_INT: {
        int status = int_from(c, name_of(c, i), v->o, &v->i);
        return status > 0 ? refuse(c, i) : status;
    }
    case K_STREAM: {
        int status = stream_from(v->o, &c->stream);
        return status > 0 ? refuse(c, i) : status;
    }
    }
    return 0;
}

/* Which argument is which */

static bool is_second_name(const struct param *p, PyObject *name)
{
    return p->also && PyUnicode_Compare(p->also, name) == 0;
}

static int find_param(const struct signature *sig, PyObject *name)
{
    for (int i = 0; i < sig->n; i++)
        if (sig->params[i].name == name)
            return i;
    for (int i = 0; i < sig->n; i++)
        if (PyUnicode_Compare(sig->params[i].name, name) == 0 || is_second_name(&sig->params[i], name))
            return i;
    return -1;
}

static int take_keywords(struct py_call *c, PyObject *const *args, PyObject *kwnames, bool method)
{
    const struct signature *sig = c->sig;
    Py_ssize_t n = PyTuple_Size(kwnames);
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *name = PyTuple_GetItem(kwnames, k);
        int i = find_param(sig, name);
        if (i < 0 || (method && i == 0)) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", sig->name, name);
            return -1;
        }
        if (i < sig->nposonly && !is_second_name(&sig->params[i], name)) {
            PyErr_Format(PyExc_TypeError, "%s() got some positional-only arguments passed as keyword arguments: '%U'",
                         sig->name, name);
            return -1;
        }
        if (c->v[i].o) {
            PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", sig->name, name);
            return -1;
        }
        c->v[i].o = args[k];
    }
    return 0;
}

static int too_many(const struct signature *sig, Py_ssize_t got, bool method)
{
    int most = sig->npos - method, least = 0;
    for (int i = method; i < sig->npos; i++) least += sig->params[i].required;
    if (least < most)
        PyErr_Format(PyExc_TypeError, "%s() takes from %d to %d positional arguments but %zd were given", sig->name,
                     least, most, got);
    else
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional argument%s but %zd %s given", sig->name, most,
                     most == 1 ? "" : "s", got, got == 1 ? "was" : "were");
    return -1;
}

static int refuse_missing(const struct py_call *c)
{
    const struct signature *sig = c->sig;
    int count[2] = { 0, 0 };
    for (int i = 0; i < sig->n; i++)
        if (!c->v[i].o && sig->params[i].required)
            count[i >= sig->npos]++;
    int keyword = count[0] == 0, n = count[keyword], k = 0;
    char names[512] = "";
    for (int i = keyword ? sig->npos : 0; i < (keyword ? sig->n : sig->npos); i++) {
        if (c->v[i].o || !sig->params[i].required)
            continue;
        size_t used = strlen(names);
        PyOS_snprintf(names + used, sizeof names - used, "%s'%s'",
                      k == 0      ? ""
                      : k < n - 1 ? ", "
                      : n == 2    ? " and "
                                  : ", and ",
                      name_of(c, i));
        k++;
    }
    PyErr_Format(PyExc_TypeError, "%s() missing %d required %s argument%s: %s", sig->name, n,
                 keyword ? "keyword-only" : "positional", n == 1 ? "" : "s", names);
    return -1;
}

static int begin_call(struct py_call *c, struct signature *sig, PyObject *self, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames)
{
    c->sig = sig;
    c->ntemporaries = c->nvectors = c->nkept = c->nints = 0;
    c->nrest = 0;
    c->npositional = nargs;
    memset(c->long_lists, 0, sizeof c->long_lists);
    c->res.ctx = c->stream.ctx = NULL;
    if (!sig->params && compile_signature(sig))
        return -1;

    int first = self != NULL, npos = sig->npos - first;
    Py_ssize_t taken = nargs < npos ? nargs : npos;
    if (self)
        c->v[0].o = self;
    for (Py_ssize_t i = 0; i < taken; i++) c->v[first + i].o = args[i];
    for (int i = first + (int)taken; i < sig->n; i++) c->v[i].o = NULL;
    if (nargs > npos) {
        if (!sig->rest)
            return too_many(sig, nargs, self != NULL);
        c->rest = args + npos;
        c->nrest = nargs - npos;
    }
    if (kwnames && take_keywords(c, args + nargs, kwnames, self != NULL))
        return -1;

    for (int i = 0; i < sig->n; i++) {
        if (c->v[i].o) {
            if (convert_param(c, i))
                return -1;
        } else {
            if (sig->params[i].required)
                return refuse_missing(c);
            c->v[i] = sig->params[i].otherwise;
        }
    }
    return 0;
}

static void end(struct py_call *c)
{
    for (int i = 0; i < c->ntemporaries; i++) mlx_array_free(c->temporaries[i]);
    for (int i = 0; i < c->nvectors; i++) mlx_vector_array_free(c->vectors[i]);
    for (size_t i = 0; i < LENGTH(c->long_lists); i++) free(c->long_lists[i]);
}

PyObject *call_function(struct signature *sig, function_body *body, PyObject *self, PyObject *const *args,
                        Py_ssize_t nargs, PyObject *kwnames)
{
    struct py_call c;
    bool begun = !begin_call(&c, sig, self, args, nargs, kwnames);
    PyObject *result = begun ? body(&c) : NULL;
    end(&c);
    if (!result && !(begun && strstr(sig->text, "Callable"))) /* else it may be about what that called */
        raise_called(sig->name);
    return result;
}

/* Operands */

/* Operand i, a number or something like an array, as an array for company of dtype `like` (NULL:
 * alone). */
static int convert_operand(struct py_call *c, int i, const mlx_dtype *like)
{
    struct value *v = &c->v[i];
    mlx_array a = mlx_array_new();
    char kind = scalar_kind(v->o);
    mlx_dtype t;
    if (!kind) {
        if (array_from_foreign(&a, v->o))
            return -1;
        PyObject *number = a.ctx ? NULL : float_from_number(v->o);
        if (!a.ctx && !number)
            return PyErr_Occurred() ? -1 : refuse(c, i);
        if (number) {
            int failed = scalar_to_array(&a, number, 'f', like ? mlx_dtype_promote_scalar(*like, 'f') : MLX_FLOAT32);
            Py_DECREF(number);
            return failed ? -1 : call_keep(c, a, &v->a);
        }
        if (like ? array_meet(&a, *like) : array_narrow(&a))
            return -1;
        return call_keep(c, a, &v->a);
    }
    if (like)
        t = mlx_dtype_promote_scalar(*like, kind);
    else if (scalar_dtype(v->o, kind, &t))
        return -1;
    return scalar_to_array(&a, v->o, kind, t) ? -1 : call_keep(c, a, &v->a);
}

int call_operands(struct py_call *c, int first, int n)
{
    const mlx_dtype *like = NULL;
    mlx_dtype t = MLX_BOOL;
    for (int i = first; i < first + n; i++)
        if (ARRAY(i).ctx) {
            mlx_dtype other = mlx_array_dtype(ARRAY(i));
            t = like ? mlx_dtype_promote(t, other) : other;
            like = &t;
        }
    for (int i = first; i < first + n; i++)
        if (!ARRAY(i).ctx && c->v[i].o && GIVEN(i) && convert_operand(c, i, like))
            return -1;
    return 0;
}

int call_operand_like(struct py_call *c, int i, mlx_dtype like)
{
    return ARRAY(i).ctx || !c->v[i].o || !GIVEN(i) ? 0 : convert_operand(c, i, &like);
}

int call_as_dtype(struct py_call *c, int i)
{
    mlx_array cast = mlx_array_new();
    if (!GIVEN(i))
        return 0;
    if (mlx_astype(&cast, ARRAY(0), c->v[i].t, STREAM))
        return raise_last();
    return call_keep(c, cast, &ARRAY(0));
}

/* Results */

PyObject *give(struct py_call *c, int failed)
{
    mlx_array res = c->res;
    c->res.ctx = NULL;
    return array_result(failed, res);
}

PyObject *give_made(struct py_call *c, int failed)
{
    mlx_array res = c->res;
    c->res.ctx = NULL;
    if (!failed)
        return array_wrap(res);
    mlx_array_free(res);
    return NULL;
}

PyObject *raise_axis(const char *op, int axis, int ndim)
{
    PyErr_Format(exc_axis, "[%s] axis %d is out of bounds for an array of %d dimensions", op, axis, ndim);
    return NULL;
}

PyObject *give_list(int failed, mlx_vector_array vec)
{
    if (!failed)
        return vector_to_list(vec);
    mlx_vector_array_free(vec);
    return raise_last(), NULL;
}
