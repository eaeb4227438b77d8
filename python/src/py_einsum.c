/* py_einsum.c: einsum and the order of its products. */
#include "py.h"

PyObject *fn_einsum(struct py_call *c)
{
    mlx_vector_array in = call_rest_arrays(c);
    return in.ctx ? give(c, mlx_einsum(&c->res, TEXT(0), in, STREAM)) : NULL;
}

/* [(0, 1), (0, 1)] from 0, 1, 0, 1; [(0,)] from 0 alone. */
static PyObject *pairs(mlx_vector_int numbers)
{
    size_t n = mlx_vector_int_size(numbers);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i += 2) {
        int a = 0, b = 0;
        mlx_vector_int_get(&a, numbers, i);
        if (n > 1)
            mlx_vector_int_get(&b, numbers, i + 1);
        PyObject *pair = n > 1 ? Py_BuildValue("(ii)", a, b) : Py_BuildValue("(i)", a);
        if (!pair || PyList_Append(list, pair))
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

PyObject *fn_einsum_path(struct py_call *c)
{
    mlx_vector_array in = call_rest_arrays(c);
    if (!in.ctx)
        return NULL;
    mlx_vector_int path = mlx_vector_int_new();
    mlx_string text = mlx_string_new();
    PyObject *both = NULL, *list = NULL;
    if (mlx_einsum_path(&path, &text, TEXT(0), in))
        raise_last();
    else if ((list = pairs(path)))
        both = Py_BuildValue("(Ns)", list, mlx_string_data(text));
    mlx_vector_int_free(path);
    mlx_string_free(text);
    return both;
}
