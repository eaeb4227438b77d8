/* py_kernel.c: kernels given as text.
 *
 * mx.fast.cpu_kernel and its like give an object that is called with the rest.  The three languages differ
 * in the names of their functions, which `struct language` has. */
#include <stdlib.h>
#include <string.h>

#include "py.h"

struct language {
    const char *name;
    struct signature call;
    void *(*config)(void);
    void (*free_config)(void *config);
    int (*output)(void *config, const int *shape, size_t n, mlx_dtype t);
    int (*grid)(void *config, int x, int y, int z);
    int (*group)(void *config, int x, int y, int z);
    int (*init)(void *config, float value);
    int (*verbose)(void *config, bool verbose);
    int (*dtype)(void *config, const char *name, mlx_dtype t);
    int (*number)(void *config, const char *name, int value);
    int (*truth)(void *config, const char *name, bool value);
    void (*free_kernel)(void *kernel);
    int (*apply)(mlx_vector_array *out, void *kernel, mlx_vector_array in, void *config, mlx_stream s);
};

struct kernel_object {
    PyObject ob_base;
    struct language *language;
    void *it;
    const char *math; /* NULL: not said */
};
static PyTypeObject *kernel_type;

#define CONFIG(word, c) ((mlx_fast_##word##_kernel_config){ c })
#define STEP(word, name, function, list, ...) \
    static int word##_##name list { return mlx_fast_##word##_kernel_config_##function(__VA_ARGS__); }
#define STEPS(word)                                                                                              \
    STEP(word, output, add_output_arg, (void *c, const int *v, size_t n, mlx_dtype t), CONFIG(word, c), v, n, t) \
    STEP(word, grid, set_grid, (void *c, int x, int y, int z), CONFIG(word, c), x, y, z)                         \
    STEP(word, group, set_thread_group, (void *c, int x, int y, int z), CONFIG(word, c), x, y, z)                \
    STEP(word, init, set_init_value, (void *c, float v), CONFIG(word, c), v)                                     \
    STEP(word, verbose, set_verbose, (void *c, bool v), CONFIG(word, c), v)                                      \
    STEP(word, dtype, add_template_arg_dtype, (void *c, const char *n, mlx_dtype v), CONFIG(word, c), n, v)      \
    STEP(word, number, add_template_arg_int, (void *c, const char *n, int v), CONFIG(word, c), n, v)             \
    STEP(word, truth, add_template_arg_bool, (void *c, const char *n, bool v), CONFIG(word, c), n, v)
#define HANDLES(word)                                                                                     \
    static void *word##_config(void) { return mlx_fast_##word##_kernel_config_new().ctx; }                \
    static void word##_free_config(void *c) { mlx_fast_##word##_kernel_config_free(CONFIG(word, c)); }    \
    static void word##_free(void *k) { mlx_fast_##word##_kernel_free((mlx_fast_##word##_kernel){ k }); }  \
    static int word##_apply(mlx_vector_array *y, void *k, mlx_vector_array x, void *c, mlx_stream s)      \
    {                                                                                                     \
        return mlx_fast_##word##_kernel_apply(y, (mlx_fast_##word##_kernel){ k }, x, CONFIG(word, c), s); \
    }
#define CALL_                                                                                                   \
    "kernel: object, /, *, inputs: object, output_shapes: object, output_dtypes: object, grid: object, "        \
    "threadgroup: object, template: object|None = None, init_value: float|None = None, verbose: bool = False, " \
    "stream: StreamOrDevice = None"
enum { KERNEL, INPUTS, SHAPES, DTYPES, GRID, GROUP, TEMPLATES, INIT, VERBOSE };
#define LANGUAGE(word)                                      \
    STEPS(word)                                             \
    HANDLES(word)                                           \
    static struct language language_##word = {              \
        #word "_kernel", SIGNATURE(#word "_kernel", CALL_), \
        word##_config,   word##_free_config,                \
        word##_output,   word##_grid,                       \
        word##_group,    word##_init,                       \
        word##_verbose,  word##_dtype,                      \
        word##_number,   word##_truth,                      \
        word##_free,     word##_apply,                      \
    };
LANGUAGE(cpu)
LANGUAGE(cuda)
LANGUAGE(metal)

/* ---- sequences */

/* The items of a list or a tuple of such, in a tuple; refused as parameter i where it is none. */
static PyObject *items_of_sequence(struct py_call *c, int i, const char *what)
{
    PyObject *o = c->v[i].o;
    if (!PySequence_Check(o) || PyUnicode_Check(o) || PyBytes_Check(o) || is_array(o))
        return call_refuse(c, i, what);
    return PySequence_Tuple(o);
}

static PyObject *refuse_item(struct py_call *c, int i, const char *what, PyObject *item)
{
    PyErr_Format(exc_conversion, "%s(): argument '%s' must hold %s, not %s", c->sig->name, name_of(c, i), what,
                 type_name(item));
    return NULL;
}

static int texts(struct py_call *c, int i, mlx_vector_string out)
{
    PyObject *items = items_of_sequence(c, i, "a sequence of str");
    int failed = !items;
    for (Py_ssize_t k = 0; !failed && k < PyTuple_Size(items); k++) {
        PyObject *item = PyTuple_GetItem(items, k);
        const char *s = text_from(c->sig->name, item);
        if (s && mlx_vector_string_append_value(out, s))
            raise_last();
        else if (!s && !PyErr_Occurred())
            refuse_item(c, i, "str", item);
        failed = PyErr_Occurred() != NULL;
    }
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

/* Three sizes. */
static int three(struct py_call *c, int i, int v[3])
{
    const int *sizes;
    c->nints = 0;
    if (!PySequence_Check(c->v[i].o) || PyUnicode_Check(c->v[i].o))
        return call_refuse(c, i, "a tuple of three ints"), -1;
    int n = call_ints(c, i, c->v[i].o, &sizes);
    if (n < 0)
        return -1;
    if (n != 3) {
        PyErr_Format(exc_conversion, "[%s] expected three sizes for '%s', got %d", c->sig->name, name_of(c, i), n);
        return -1;
    }
    memcpy(v, sizes, 3 * sizeof *v);
    return 0;
}

/* Appends arrays and numbers. */
static int inputs(struct py_call *c, int i, mlx_vector_array out)
{
    PyObject *items = items_of_sequence(c, i, "a list of arrays and numbers");
    int failed = !items;
    for (Py_ssize_t k = 0; !failed && k < PyTuple_Size(items); k++) {
        PyObject *item = PyTuple_GetItem(items, k);
        mlx_array a = mlx_array_new();
        mlx_dtype t;
        char kind = is_array(item) ? 0 : scalar_kind(item);
        if (kind)
            failed = scalar_dtype(item, kind, &t) || scalar_to_array(&a, item, kind, t);
        else if (!is_array(item))
            failed = array_from_method(&a, item) || (!a.ctx && (array_from_foreign(&a, item) || array_narrow(&a)));
        if (!failed && !is_array(item) && !a.ctx)
            failed = !refuse_item(c, i, "arrays and numbers", item);
        if (!failed && mlx_vector_array_append_value(out, is_array(item) ? handle_of(item) : a))
            failed = raise_last();
        mlx_array_free(a);
    }
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

static int outputs(struct py_call *c, int i, int j, const struct language *l, void *config)
{
    PyObject *shapes = items_of_sequence(c, i, "a list of shapes"),
             *dtypes = shapes ? items_of_sequence(c, j, "a list of Dtypes") : NULL;
    int failed = !dtypes;
    if (dtypes && PyTuple_Size(shapes) != PyTuple_Size(dtypes)) {
        PyErr_Format(exc_value, "[%s] expected a dtype for each of %zd shapes, got %zd", c->sig->name,
                     PyTuple_Size(shapes), PyTuple_Size(dtypes));
        failed = -1;
    }
    for (Py_ssize_t k = 0; !failed && k < PyTuple_Size(shapes); k++) {
        PyObject *shape = PyTuple_GetItem(shapes, k), *dtype = PyTuple_GetItem(dtypes, k);
        const int *v = NULL;
        mlx_dtype t;
        c->nints = 0;
        bool sequence = PySequence_Check(shape) && !PyUnicode_Check(shape);
        int n = sequence ? call_ints(c, i, shape, &v) : -1;
        if (!sequence)
            refuse_item(c, i, "shapes", shape);
        else if (n >= 0 && !dtype_from(dtype, &t))
            refuse_item(c, j, "Dtypes", dtype);
        else if (n >= 0 && l->output(config, v, (size_t)n, t))
            raise_last();
        failed = PyErr_Occurred() != NULL;
    }
    Py_XDECREF(shapes);
    Py_XDECREF(dtypes);
    return failed ? -1 : 0;
}

/* ---- calls */

/* A name and an int, a bool or a Dtype. */
static int template_value(struct py_call *c, const struct language *l, void *config, PyObject *pair)
{
    PyObject *items = PyTuple_Check(pair) || PyList_Check(pair) ? PySequence_Tuple(pair) : NULL;
    PyObject *name = items && PyTuple_Size(items) == 2 ? PyTuple_GetItem(items, 0) : NULL;
    const char *s = name ? text_from(c->sig->name, name) : NULL;
    PyObject *value = s ? PyTuple_GetItem(items, 1) : NULL;
    mlx_dtype t;
    int overflow = 0, failed = 0;
    PyObject *whole = value && PyIndex_Check(value) ? PyNumber_Index(value) : NULL;
    long number = whole ? PyLong_AsLongAndOverflow(whole, &overflow) : 0;
    if (!value && !PyErr_Occurred())
        refuse_item(c, TEMPLATES, "pairs of a name and a value", pair);
    if (PyErr_Occurred())
        ;
    else if (value == Py_True || value == Py_False)
        failed = l->truth(config, s, value == Py_True);
    else if (dtype_from(value, &t))
        failed = l->dtype(config, s, t);
    else if (!whole)
        refuse_item(c, TEMPLATES, "ints, bools and Dtypes", value);
    else if (overflow || number != (int)number)
        PyErr_Format(exc_value, "[%s] expected an int of 32 bits for '%s', got %s", c->sig->name, s, int_text(value));
    else
        failed = l->number(config, s, (int)number);
    Py_XDECREF(whole);
    Py_XDECREF(items);
    if (failed)
        raise_last();
    return PyErr_Occurred() ? -1 : 0;
}

static int templates(struct py_call *c, const struct language *l, void *config)
{
    PyObject *items =
        GIVEN(TEMPLATES) ? items_of_sequence(c, TEMPLATES, "a list of pairs of a name and a value") : NULL;
    int failed = GIVEN(TEMPLATES) && !items;
    for (Py_ssize_t k = 0; items && !failed && k < PyTuple_Size(items); k++)
        failed = template_value(c, l, config, PyTuple_GetItem(items, k));
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

/* Grid and threadgroup, which are given. */
static int kernel_grid(struct py_call *c, int grid, int group, const struct language *l, void *config)
{
    int v[3], u[3];
    if (three(c, grid, v) || three(c, group, u))
        return -1;
    return l->grid(config, v[0], v[1], v[2]) || l->group(config, u[0], u[1], u[2]) ? raise_last() : 0;
}

static int configure(struct py_call *c, const struct kernel_object *k, void *config)
{
    const struct language *l = k->language;
    if (!config)
        return raise_last();
    if (outputs(c, SHAPES, DTYPES, l, config) || kernel_grid(c, GRID, GROUP, l, config) || templates(c, l, config))
        return -1;
    if ((GIVEN(INIT) && l->init(config, (float)DOUBLE(INIT))) || l->verbose(config, BOOL(VERBOSE)))
        return raise_last();
    if (k->math && l == &language_cpu && mlx_fast_cpu_kernel_config_set_math_mode(CONFIG(cpu, config), k->math))
        return raise_last();
    return 0;
}

static PyObject *kernel_body(struct py_call *c)
{
    const struct kernel_object *k = (struct kernel_object *)c->v[KERNEL].o;
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    void *config = k->language->config();
    int failed = configure(c, k, config) || inputs(c, INPUTS, in);
    if (!failed && k->language->apply(&out, k->it, in, config, STREAM))
        failed = raise_last();
    if (config)
        k->language->free_config(config);
    mlx_vector_array_free(in);
    if (!failed)
        return vector_to_list(out);
    mlx_vector_array_free(out);
    return NULL;
}

/* As call_function takes arguments: those without a name, then those with one, and their names. */
static PyObject *kernel_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Py_ssize_t n = PyTuple_Size(args), named = kwargs ? PyDict_Size(kwargs) : 0, i = 0, at = 0;
    PyObject **all = malloc((size_t)(n + named + 1) * sizeof *all), *names = PyTuple_New(named), *key, *value;
    PyObject *result = NULL;
    if (all && names) {
        for (; i < n; i++) all[i] = PyTuple_GetItem(args, i);
        while (kwargs && PyDict_Next(kwargs, &at, &key, &value)) {
            PyTuple_SetItem(names, i - n, Py_NewRef(key));
            all[i++] = value;
        }
        result = call_function(&((struct kernel_object *)self)->language->call, kernel_body, self, all, n, names);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    Py_XDECREF(names);
    free(all);
    return result;
}

/* ---- kernels */

static void kernel_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    struct kernel_object *k = (struct kernel_object *)o;
    k->language->free_kernel(k->it);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* The mode that the options ask for, NULL where they do not, in *mode; non-zero with an exception set. */
static int options(struct py_call *c, int i, const char **mode)
{
    static const char *const modes[] = { "safe", "relaxed", "fast" };
    PyObject *o = c->v[i].o, *key, *value;
    Py_ssize_t at = 0;
    *mode = NULL;
    if (!o || o == Py_None)
        return 0;
    if (!PyDict_Check(o))
        return call_refuse(c, i, "a dict"), -1;
    while (PyDict_Next(o, &at, &key, &value)) {
        if (!PyUnicode_Check(key) || PyUnicode_CompareWithASCIIString(key, "math_mode") != 0) {
            PyErr_Format(exc_value, "[%s] expected \"math_mode\" for an option, got %R", c->sig->name, key);
            return -1;
        }
        for (size_t m = 0; m < LENGTH(modes) && PyUnicode_Check(value); m++)
            if (PyUnicode_CompareWithASCIIString(value, modes[m]) == 0)
                *mode = modes[m];
        if (!*mode) {
            PyErr_Format(exc_value, "[%s] expected math_mode to be 'safe', 'relaxed' or 'fast', got %R", c->sig->name,
                         value);
            return -1;
        }
    }
    return 0;
}

static PyObject *kernel_object(struct language *l, void *it, const char *math)
{
    if (!it)
        return raise_last(), NULL;
    bool runs = true;
    if (l == &language_cuda && !mlx_cuda_is_available(&runs) && !runs) {
        PyErr_Format(exc_value, "[%s] expected a kernel in C, those for CUDA are not run without an NVIDIA GPU",
                     l->name);
        l->free_kernel(it);
        return NULL;
    }
    struct kernel_object *k = PyObject_New(struct kernel_object, kernel_type);
    if (!k) {
        l->free_kernel(it);
        return NULL;
    }
    k->language = l;
    k->it = it;
    k->math = math;
    return (PyObject *)k;
}

#define MAKE(word, last, mode)                                                                                     \
    PyObject *fn_fast_##word##_kernel(struct py_call *c)                                                           \
    {                                                                                                              \
        mlx_vector_string in = mlx_vector_string_new(), out = mlx_vector_string_new();                             \
        const char *math = NULL;                                                                                   \
        PyObject *k = NULL;                                                                                        \
        if (!texts(c, 1, in) && !texts(c, 2, out) && !(mode && options(c, 7, &math)))                              \
            k = kernel_object(&language_##word,                                                                    \
                              mlx_fast_##word##_kernel_new(TEXT(0), in, out, TEXT(3), TEXT(4), BOOL(5), last).ctx, \
                              math);                                                                               \
        mlx_vector_string_free(in);                                                                                \
        mlx_vector_string_free(out);                                                                               \
        return k;                                                                                                  \
    }
MAKE(cpu, BOOL(6), true)
MAKE(metal, BOOL(6), true)
MAKE(cuda, INT(6), false)

/* Appends one argument behind inputs and outputs. */
static int scalar_argument(struct py_call *c, int i, PyObject *item, mlx_fast_cuda_kernel_config config)
{
    char kind = scalar_kind(item);
    int overflow = 0, failed = 0;
    if (kind != 'b' && kind != 'i' && kind != 'f')
        return refuse_item(c, i, "ints, floats and bools", item), -1;
    PyObject *whole = kind == 'i' ? PyNumber_Index(item) : NULL;
    long number = whole ? PyLong_AsLongAndOverflow(whole, &overflow) : 0;
    double real = kind == 'f' ? PyFloat_AsDouble(item) : 0;
    int truth = kind == 'b' ? PyObject_IsTrue(item) : 0;
    Py_XDECREF(whole);
    if (PyErr_Occurred())
        return -1;
    if (overflow || number != (int)number) {
        PyErr_Format(exc_value, "[%s] expected ints of 32 bits for '%s', got %R", c->sig->name, name_of(c, i), item);
        return -1;
    }
    if (kind == 'b')
        failed = mlx_fast_cuda_kernel_config_add_scalar_bool(config, truth);
    else if (kind == 'i')
        failed = mlx_fast_cuda_kernel_config_add_scalar_int(config, (int)number);
    else
        failed = mlx_fast_cuda_kernel_config_add_scalar_float(config, (float)real);
    return failed ? raise_last() : 0;
}

static int scalar_arguments(struct py_call *c, int i, mlx_fast_cuda_kernel_config config)
{
    PyObject *items = items_of_sequence(c, i, "a list of numbers");
    int failed = !items;
    for (Py_ssize_t k = 0; !failed && k < PyTuple_Size(items); k++)
        failed = scalar_argument(c, i, PyTuple_GetItem(items, k), config);
    Py_XDECREF(items);
    return failed ? -1 : 0;
}

PyObject *fn_fast_precompiled_cuda_kernel(struct py_call *c)
{
    enum { NAME, SOURCE, IN, OUT_SHAPES, OUT_DTYPES, SCALARS, POINTS, THREADS, SHARED, FIRST, ROWS };
    char *image;
    Py_ssize_t size;
    if (!PyBytes_Check(c->v[SOURCE].o))
        return call_refuse(c, SOURCE, "bytes");
    if (PyBytes_AsStringAndSize(c->v[SOURCE].o, &image, &size))
        return NULL;
    mlx_vector_array in = mlx_vector_array_new(), out = mlx_vector_array_new();
    mlx_fast_cuda_kernel_config config = mlx_fast_cuda_kernel_config_new();
    mlx_fast_cuda_kernel k = { NULL };
    int failed = config.ctx ? scalar_arguments(c, SCALARS, config) : raise_last();
    failed = failed || inputs(c, IN, in) || outputs(c, OUT_SHAPES, OUT_DTYPES, &language_cuda, config.ctx) ||
             kernel_grid(c, POINTS, THREADS, &language_cuda, config.ctx);
    if (!failed && GIVEN(FIRST) && mlx_fast_cuda_kernel_config_set_init_value(config, (float)DOUBLE(FIRST)))
        failed = raise_last();
    Py_ssize_t n_out = failed ? 0 : PySequence_Size(c->v[OUT_SHAPES].o); /* -1 where it has items and no length */
    failed = failed || n_out < 0;
    if (!failed) {
        k = mlx_fast_cuda_kernel_new_precompiled(TEXT(NAME), mlx_vector_array_size(in), (size_t)n_out, image,
                                                 (size_t)size, BOOL(ROWS), INT(SHARED));
        if (!k.ctx || mlx_fast_cuda_kernel_apply(&out, k, in, config, STREAM))
            failed = raise_last();
    }
    mlx_fast_cuda_kernel_free(k);
    mlx_fast_cuda_kernel_config_free(config);
    mlx_vector_array_free(in);
    if (!failed)
        return vector_to_list(out);
    mlx_vector_array_free(out);
    return NULL;
}

static PyObject *kernel_repr(PyObject *o)
{
    return PyUnicode_FromFormat("<%s at %p>", ((struct kernel_object *)o)->language->name, (void *)o);
}

static PyType_Slot kernel_slots[] = {
    { Py_tp_dealloc, kernel_dealloc },
    { Py_tp_call, kernel_call },
    { Py_tp_repr, kernel_repr },
    { Py_tp_doc, DOC("What fast.cpu_kernel, fast.metal_kernel and fast.cuda_kernel give: called with keywords.") },
    { 0, NULL },
};
static PyType_Spec kernel_spec = {
    "mlx.core._Kernel", sizeof(struct kernel_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    kernel_slots,
};

int kernel_init(PyObject *module) { return (kernel_type = add_type(module, &kernel_spec)) ? 0 : -1; }
