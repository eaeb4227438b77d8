/* py_random.c: mlx.core.random.  Where no key is given, one is split off the library's state. */
#include <math.h>

#include "py.h"

static PyTypeObject *state_type;

/* A seed is any uint64. */
static int seed_from(struct py_call *c, uint64_t *seed)
{
    PyObject *o = c->v[0].o, *index = NULL;
    if (!PyFloat_Check(o) && PyIndex_Check(o))
        index = PyNumber_Index(o);
    if (!index) {
        if (!PyErr_Occurred())
            call_refuse(c, 0, "an int");
        return -1;
    }
    *seed = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    if (!PyErr_Occurred())
        return 0;
    PyErr_Format(exc_overflow, "[%s] expected a seed from 0 to 2**64 - 1, got %s", c->sig->name, int_text(o));
    return -1;
}

PyObject *fn_random_seed(struct py_call *c)
{
    uint64_t seed;
    if (seed_from(c, &seed))
        return NULL;
    if (mlx_random_seed(seed))
        return raise_last(), NULL;
    Py_RETURN_NONE;
}

PyObject *fn_random_key(struct py_call *c)
{
    uint64_t seed;
    return seed_from(c, &seed) ? NULL : give(c, mlx_random_key(&c->res, seed));
}

PyObject *fn_random_split(struct py_call *c)
{
    return give(c, mlx_random_split_num(&c->res, ARRAY(0), INT(1), STREAM));
}

PyObject *fn_random_uniform(struct py_call *c)
{
    mlx_dtype t = DTYPE(3, MLX_FLOAT32);
    if (call_operand_like(c, 0, t) || call_operand_like(c, 1, t))
        return NULL;
    return give(c, mlx_random_uniform(&c->res, ARRAY(0), ARRAY(1), INTS(2), t, ARRAY(4), STREAM));
}

PyObject *fn_random_normal(struct py_call *c)
{
    mlx_dtype t = DTYPE(1, MLX_FLOAT32);
    if (call_operand_like(c, 2, t) || call_operand_like(c, 3, t))
        return NULL;
    return give(c, mlx_random_normal_broadcast(&c->res, INTS(0), t, ARRAY(2), ARRAY(3), ARRAY(4), STREAM));
}

/* Fails where the number that is argument i lies outside of the dtype. */
static int bound_in(struct py_call *c, int i, mlx_dtype t)
{
    double v = PyFloat_AsDouble(c->v[i].o);
    if (v == -1 && PyErr_Occurred())
        return -1;
    double size = t == MLX_BOOL ? 2 : ldexp(1, 8 * (int)mlx_dtype_size(t));
    double least = t < MLX_INT8 ? 0 : -size / 2, most = least + size - 1 + i;
    if (v >= least && v <= most)
        return 0;
    char text[200];
    snprintf(text, sizeof text, "[randint] expected the %s bound to be from %.20g to %.20g for %s, got %.20g",
             i ? "upper" : "lower", least, most, mlx_dtype_name(t), v);
    PyErr_SetString(exc_value, text);
    return -1;
}

/* Bounds of integers may be larger than what they bound: high is left out of the range.  Numbers are looked at here;
 * arrays never, whose values may not be there yet. */
PyObject *fn_random_randint(struct py_call *c)
{
    mlx_dtype t = DTYPE(3, MLX_INT32);
    bool number[2] = { !ARRAY(0).ctx, !ARRAY(1).ctx };
    if (call_operands(c, 0, 2))
        return NULL;
    for (int i = 0; i < 2; i++) number[i] = number[i] && !mlx_array_ndim(ARRAY(i));
    for (int i = 0; i < 2; i++)
        if (number[i] && mlx_array_dtype(ARRAY(i)) != MLX_COMPLEX64 && t <= MLX_INT64 && bound_in(c, i, t))
            return NULL;
    return give(c, mlx_random_randint(&c->res, ARRAY(0), ARRAY(1), INTS(2), t, ARRAY(4), STREAM));
}

/* The shape given, or that of the operands 0 to n - 1 together. */
static int shape_or_operands(struct py_call *c, int i, int n, int *shape)
{
    if (GIVEN(i)) {
        for (int k = 0; k < c->v[i].ints.n; k++) shape[k] = c->v[i].ints.v[k];
        return c->v[i].ints.n;
    }
    int ndim = 0;
    for (int k = 0; k < n; k++) ndim = (int)mlx_array_ndim(ARRAY(k)) > ndim ? (int)mlx_array_ndim(ARRAY(k)) : ndim;
    for (int d = 0; d < ndim; d++) {
        shape[d] = 1;
        for (int k = 0; k < n; k++) {
            int from = d - (ndim - (int)mlx_array_ndim(ARRAY(k)));
            if (from >= 0 && mlx_array_shape(ARRAY(k))[from] != 1)
                shape[d] = mlx_array_shape(ARRAY(k))[from];
        }
    }
    return ndim;
}

PyObject *fn_random_bernoulli(struct py_call *c)
{
    int shape[MAX_NDIM];
    if (call_operand_like(c, 0, MLX_FLOAT32))
        return NULL;
    size_t n = (size_t)shape_or_operands(c, 1, 1, shape);
    return give(c, mlx_random_bernoulli(&c->res, ARRAY(0), shape, n, ARRAY(2), STREAM));
}

PyObject *fn_random_truncated_normal(struct py_call *c)
{
    int shape[MAX_NDIM];
    mlx_dtype t = DTYPE(3, MLX_FLOAT32);
    if (call_operand_like(c, 0, t) || call_operand_like(c, 1, t))
        return NULL;
    size_t n = (size_t)shape_or_operands(c, 2, 2, shape);
    return give(c, mlx_random_truncated_normal(&c->res, ARRAY(0), ARRAY(1), shape, n, t, ARRAY(4), STREAM));
}

PyObject *fn_random_gumbel(struct py_call *c)
{
    return give(c, mlx_random_gumbel(&c->res, INTS(0), DTYPE(1, MLX_FLOAT32), ARRAY(2), STREAM));
}

PyObject *fn_random_categorical(struct py_call *c)
{
    if (GIVEN(2) && GIVEN(3)) {
        PyErr_SetString(exc_value, "[categorical] expected shape or num_samples, got both");
        return NULL;
    }
    return give(c, GIVEN(2)   ? mlx_random_categorical_shape(&c->res, ARRAY(0), INT(1), INTS(2), ARRAY(4), STREAM)
                   : GIVEN(3) ? mlx_random_categorical_num_samples(&c->res, ARRAY(0), INT(1), INT(3), ARRAY(4), STREAM)
                              : mlx_random_categorical(&c->res, ARRAY(0), INT(1), ARRAY(4), STREAM));
}

PyObject *fn_random_multivariate_normal(struct py_call *c)
{
    return give(c, mlx_random_multivariate_normal(&c->res, ARRAY(0), ARRAY(1), INTS(2), DTYPE(3, MLX_FLOAT32), ARRAY(4),
                                                  STREAM));
}

PyObject *fn_random_laplace(struct py_call *c)
{
    return give(c, mlx_random_laplace(&c->res, INTS(0), DTYPE(1, MLX_FLOAT32), (float)DOUBLE(2), (float)DOUBLE(3),
                                      ARRAY(4), STREAM));
}

PyObject *fn_random_permutation(struct py_call *c)
{
    if (!is_array(c->v[0].o)) {
        const int *n;
        if (!PyIndex_Check(c->v[0].o))
            return call_refuse(c, 0, "an int or an array");
        return call_ints(c, 0, c->v[0].o, &n) < 0
                   ? NULL
                   : give(c, mlx_random_permutation_arange(&c->res, n[0], ARRAY(2), STREAM));
    }
    return give(c, mlx_random_permutation(&c->res, ARRAY(0), INT(1), ARRAY(2), STREAM));
}

/* random.state: a sequence of one array, the key of the library's state. */

static PyObject *state_item(PyObject *o, Py_ssize_t i)
{
    (void)o;
    mlx_array key = mlx_array_new();
    if (i == 0)
        return array_result(mlx_random_state(&key), key);
    PyErr_SetString(exc_index, "random.state holds one array");
    return NULL;
}

static int state_set_item(PyObject *o, Py_ssize_t i, PyObject *value)
{
    (void)o;
    if (i != 0 || !value) {
        PyErr_SetString(exc_index, "random.state holds one array");
        return -1;
    }
    if (!is_array(value)) {
        PyErr_Format(exc_conversion, "random.state holds a key, an array, not %s", type_name(value));
        return -1;
    }
    return mlx_random_set_state(handle_of(value)) ? raise_last() : 0;
}

static Py_ssize_t state_length(PyObject *o) { return (void)o, 1; }

bool is_random_state(PyObject *o) { return Py_TYPE(o) == state_type; }

int random_state_arrays(PyObject *o, mlx_vector_array out)
{
    if (Py_TYPE(o) != state_type)
        return 0;
    mlx_array key = mlx_array_new();
    int failed = mlx_random_state(&key) || mlx_vector_array_append_value(out, key);
    mlx_array_free(key);
    return failed ? raise_last() : 0;
}

static PyType_Slot state_slots[] = {
    { Py_sq_length, state_length },
    { Py_sq_item, state_item },
    { Py_sq_ass_item, state_set_item },
    { Py_tp_doc, DOC("The key that the next numbers come from, in a sequence of one.") },
    { 0, NULL },
};
static PyType_Spec state_spec = {
    "mlx.core.random._RandomState",
    sizeof(PyObject),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    state_slots,
};

/* The functions: a C function and a signature for each row. */

#define RANDOM(name, text, doc)                                                                \
    static struct signature sig_##name = SIGNATURE(#name, text);                               \
    static PyObject *py_##name(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *kw) \
    {                                                                                          \
        (void)m;                                                                               \
        return call_function(&sig_##name, fn_random_##name, NULL, args, n, kw);                \
    }
#include "functions.def"

static PyMethodDef functions[] = {
#define RANDOM(name, text, doc) { #name, PYFN(py_##name), FAST, #name "(" text ")\n--\n\n" doc },
#include "functions.def"
    { NULL, NULL, 0, NULL },
};

int random_init(PyObject *module)
{
    PyObject *random = submodule(module, "random", "Random numbers from explicit keys, or from a state.", functions);
    if (!random)
        return -1;
    sig_split.name = "random.split"; /* messages of the others say enough by the name alone */
    state_type = (PyTypeObject *)PyType_FromSpec(&state_spec);
    PyObject *state = state_type ? (PyObject *)PyObject_New(PyObject, state_type) : NULL;
    int failed = state ? PyModule_AddObjectRef(random, "state", state) : -1;
    Py_XDECREF(state);
    return failed;
}
