/* py_reduce.c: reductions.  With axis=None they go over all axes, with axis=[] over none. */
#include "py.h"

#define REDUCE(name)                                                                  \
    give(c, GIVEN(1) ? mlx_##name##_axes(&c->res, ARRAY(0), INTS(1), BOOL(2), STREAM) \
                     : mlx_##name(&c->res, ARRAY(0), BOOL(2), STREAM))
#define REDUCTION(name) \
    PyObject *fn_##name(struct py_call *c) { return REDUCE(name); }
REDUCTION(all)
REDUCTION(any)
REDUCTION(min)
REDUCTION(max)
REDUCTION(mean)
REDUCTION(logsumexp)

PyObject *fn_sum(struct py_call *c) { return call_as_dtype(c, 3) ? NULL : REDUCE(sum); }
PyObject *fn_prod(struct py_call *c) { return call_as_dtype(c, 3) ? NULL : REDUCE(prod); }

/* Unless the axis is None: the axes, else all. */
#define AXES(k) GIVEN(k) ? c->v[k].ints.v : NULL, GIVEN(k) ? (size_t)c->v[k].ints.n : 0

PyObject *fn__logsumexp_parts(struct py_call *c)
{
    mlx_vector_array parts = mlx_vector_array_new();
    int failed = mlx_logsumexp_parts(&parts, ARRAY(0), AXES(1), BOOL(2), STREAM);
    return give_list(failed, parts);
}

PyObject *fn__log_softmax(struct py_call *c) { return give(c, mlx_log_softmax(&c->res, ARRAY(0), AXES(1), STREAM)); }

PyObject *fn_minmax(struct py_call *c)
{
    PyObject *least = fn_min(c), *most = least ? fn_max(c) : NULL;
    PyObject *both = most ? PyTuple_Pack(2, least, most) : NULL;
    Py_XDECREF(least);
    Py_XDECREF(most);
    return both;
}

#define SPREAD(name)                                                                                       \
    PyObject *fn_##name(struct py_call *c)                                                                 \
    {                                                                                                      \
        double ddof = c->sig->n > 5 && GIVEN(4) ? DOUBLE(4) : DOUBLE(3); /* methods have correction too */ \
        return give(c, mlx_##name##_double(&c->res, ARRAY(0), AXES(1), BOOL(2), ddof, STREAM));            \
    }
SPREAD(var)
SPREAD(std)

PyObject *fn_count_nonzero(struct py_call *c)
{
    mlx_array truth = mlx_array_new();
    if (mlx_astype(&truth, ARRAY(0), MLX_BOOL, STREAM))
        return raise_last(), NULL;
    if (call_keep(c, truth, &ARRAY(0)))
        return NULL;
    return REDUCE(sum);
}

#define ARGUMENT(name)                                                                          \
    PyObject *fn_##name(struct py_call *c)                                                      \
    {                                                                                           \
        return give(c, GIVEN(1) ? mlx_##name##_axis(&c->res, ARRAY(0), INT(1), BOOL(2), STREAM) \
                                : mlx_##name(&c->res, ARRAY(0), BOOL(2), STREAM));              \
    }
ARGUMENT(argmin)
ARGUMENT(argmax)

PyObject *fn_softmax(struct py_call *c)
{
    return give(c, GIVEN(1) ? mlx_softmax_axes(&c->res, ARRAY(0), INTS(1), BOOL(2), STREAM)
                            : mlx_softmax(&c->res, ARRAY(0), BOOL(2), STREAM));
}
