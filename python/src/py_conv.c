/* py_conv.c: convolutions. */
#include <string.h>

#include "py.h"

PyObject *fn_convolve(struct py_call *c)
{
    static const char *const names[] = { "full", "same", "valid" };
    for (int i = 0; i < 3; i++)
        if (!strcmp(TEXT(2), names[i]))
            return give(c, mlx_convolve(&c->res, ARRAY(0), ARRAY(1), (mlx_convolve_mode)i, STREAM));
    PyErr_Format(exc_value, "[convolve] expected mode 'full', 'same' or 'valid', got '%s'", TEXT(2));
    return NULL;
}

/* Numbers for each of n spatial axes from an object: one for all of them or a sequence of n; or `none`, where it is
 * not negative, for an empty one. */
static int axes_or(struct py_call *c, int i, PyObject *o, int n, int none, const int **v)
{
    int got = call_ints(c, i, o, v);
    if (got < 0 || got == n)
        return got < 0 ? -1 : 0;
    if (got == 1 || (got == 0 && none >= 0)) {
        int *all = c->ints + c->nints, one = got ? (*v)[0] : none;
        if (c->nints + n > (int)LENGTH(c->ints))
            return -1;
        c->nints += n;
        for (int k = 0; k < n; k++) all[k] = one;
        *v = all;
        return 0;
    }
    PyErr_Format(exc_conversion, "[%s] expected one number or %d as %s, got %d", c->sig->name, n, name_of(c, i), got);
    return -1;
}

static int axes_from(struct py_call *c, int i, PyObject *o, int n, const int **v) { return axes_or(c, i, o, n, -1, v); }

PyObject *fn_conv1d(struct py_call *c)
{
    return give(c, mlx_conv1d(&c->res, ARRAY(0), ARRAY(1), INT(2), INT(3), INT(4), INT(5), STREAM));
}

/* stride, padding, dilation and, for some, output padding. */
static int conv_parameters(struct py_call *c, int n, int count, const int *v[])
{
    for (int i = 0; i < count; i++)
        if (axes_from(c, 2 + i, c->v[2 + i].o, n, &v[i]))
            return -1;
    return 0;
}

PyObject *fn_conv2d(struct py_call *c)
{
    const int *v[3];
    if (conv_parameters(c, 2, 3, v))
        return NULL;
    return give(c, mlx_conv2d(&c->res, ARRAY(0), ARRAY(1), v[0][0], v[0][1], v[1][0], v[1][1], v[2][0], v[2][1], INT(5),
                              STREAM));
}

PyObject *fn_conv3d(struct py_call *c)
{
    const int *v[3];
    if (conv_parameters(c, 3, 3, v))
        return NULL;
    return give(c, mlx_conv3d(&c->res, ARRAY(0), ARRAY(1), v[0][0], v[0][1], v[0][2], v[1][0], v[1][1], v[1][2],
                              v[2][0], v[2][1], v[2][2], INT(5), STREAM));
}

PyObject *fn_conv_transpose1d(struct py_call *c)
{
    return give(c, mlx_conv_transpose1d(&c->res, ARRAY(0), ARRAY(1), INT(2), INT(3), INT(4), INT(5), INT(6), STREAM));
}

PyObject *fn_conv_transpose2d(struct py_call *c)
{
    const int *v[4];
    if (conv_parameters(c, 2, 4, v))
        return NULL;
    return give(c, mlx_conv_transpose2d(&c->res, ARRAY(0), ARRAY(1), v[0][0], v[0][1], v[1][0], v[1][1], v[2][0],
                                        v[2][1], v[3][0], v[3][1], INT(6), STREAM));
}

PyObject *fn_conv_transpose3d(struct py_call *c)
{
    const int *v[4];
    if (conv_parameters(c, 3, 4, v))
        return NULL;
    return give(c, mlx_conv_transpose3d(&c->res, ARRAY(0), ARRAY(1), v[0][0], v[0][1], v[0][2], v[1][0], v[1][1],
                                        v[1][2], v[2][0], v[2][1], v[2][2], v[3][0], v[3][1], v[3][2], INT(6), STREAM));
}

/* One padding for both sides, or a pair of sequences: before and after. */
static int both_sides(struct py_call *c, int n, const int **low, const int **high)
{
    PyObject *o = c->v[3].o, *items = sequence_now(o);
    if (!items)
        return -1;
    int failed;
    if (PyTuple_Check(items) && PyTuple_Size(items) == 2 && PySequence_Check(PyTuple_GetItem(items, 0))) {
        failed =
            axes_or(c, 3, PyTuple_GetItem(items, 0), n, 0, low) || axes_or(c, 3, PyTuple_GetItem(items, 1), n, 0, high);
    } else {
        failed = axes_or(c, 3, items, n, 0, low);
        *high = *low;
    }
    Py_DECREF(items);
    return failed ? -1 : 0;
}

PyObject *fn_conv_general(struct py_call *c)
{
    int n = (int)mlx_array_ndim(ARRAY(0)) - 2;
    const int *stride, *low, *high, *dilation, *input_dilation;
    n = n < 1 ? 1 : n > 3 ? 3 : n; /* what is wrong then is said by the library */
    if (axes_or(c, 2, c->v[2].o, n, 1, &stride) || both_sides(c, n, &low, &high) ||
        axes_or(c, 4, c->v[4].o, n, 1, &dilation) || axes_or(c, 5, c->v[5].o, n, 1, &input_dilation))
        return NULL;
    size_t m = (size_t)n;
    return give(c, mlx_conv_general(&c->res, ARRAY(0), ARRAY(1), stride, m, low, m, high, m, dilation, m,
                                    input_dilation, m, INT(6), BOOL(7), STREAM));
}
