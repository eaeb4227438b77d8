/* py_memory.c: what the arrays' memory amounts to, and its limits. */
#include "py.h"

#include <stdlib.h>

static PyObject *bytes(int failed, size_t n) { return failed ? (raise_last(), NULL) : PyLong_FromSize_t(n); }

static PyObject *none(int failed)
{
    if (failed)
        return raise_last(), NULL;
    Py_RETURN_NONE;
}

#define GETTER(name)                       \
    PyObject *fn_##name(struct py_call *c) \
    {                                      \
        (void)c;                           \
        size_t n = 0;                      \
        int failed = mlx_##name(&n);       \
        return bytes(failed, n);           \
    }
GETTER(get_active_memory)
GETTER(get_peak_memory)
GETTER(get_cache_memory)
GETTER(get_memory_limit)

PyObject *fn_reset_peak_memory(struct py_call *c) { return (void)c, none(mlx_reset_peak_memory()); }
PyObject *fn_clear_cache(struct py_call *c) { return (void)c, none(mlx_clear_cache()); }

static PyObject *set_limit(struct py_call *c, int (*set)(size_t *, size_t))
{
    size_t before = 0;
    if (!PyIndex_Check(c->v[0].o) || PyBool_Check(c->v[0].o))
        return call_refuse(c, 0, "an int");
    PyObject *index = PyNumber_Index(c->v[0].o);
    size_t limit = index ? PyLong_AsSize_t(index) : 0;
    Py_XDECREF(index);
    if (PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError))
            PyErr_Format(exc_overflow, "[%s] expected a number of bytes, got %s", c->sig->name, int_text(c->v[0].o));
        return NULL;
    }
    int failed = set(&before, limit);
    return bytes(failed, before);
}

PyObject *fn_set_memory_limit(struct py_call *c) { return set_limit(c, mlx_set_memory_limit); }
PyObject *fn_set_cache_limit(struct py_call *c) { return set_limit(c, mlx_set_cache_limit); }
PyObject *fn_set_wired_limit(struct py_call *c) { return set_limit(c, mlx_set_wired_limit); }

/* Memory is told apart by where it starts. */
static int by_address(const void *a, const void *b)
{
    const char *p = *(const char *const *)a, *q = *(const char *const *)b;
    return (p > q) - (p < q);
}

PyObject *fn_get_array_buffer_size(struct py_call *c)
{
    mlx_vector_array all = mlx_vector_array_new();
    if (!all.ctx)
        return raise_last(), NULL;
    int failed = 0;
    for (Py_ssize_t i = 0; i < c->nrest && !failed; i++) failed = tree_arrays(c->rest[i], all, NULL);
    size_t n = failed ? 0 : mlx_vector_array_size(all), total = 0;
    struct {
        const char *at;
        size_t bytes;
    } *seen = calloc(n + 1, sizeof *seen);
    if (!seen)
        failed = (PyErr_NoMemory(), -1);
    for (size_t i = 0; i < n && !failed; i++) {
        mlx_array a = mlx_array_new();
        failed = mlx_vector_array_get(&a, all, i) ? raise_last() : 0;
        if (!failed) {
            seen[i].at = array_data(a);
            seen[i].bytes = mlx_array_nbytes(a);
            failed = seen[i].at ? 0 : -1;
        }
        mlx_array_free(a);
    }
    if (!failed) {
        qsort(seen, n, sizeof *seen, by_address);
        for (size_t i = 0; i < n; i++)
            if (i == 0 || seen[i].at != seen[i - 1].at)
                total += seen[i].bytes;
    }
    free(seen);
    mlx_vector_array_free(all);
    return failed ? NULL : PyLong_FromSize_t(total);
}
