/* py_linalg.c: mlx.core.linalg. */
#include <string.h>

#include "py.h"

/* Results in two arrays, which are taken over; names: what mlx/_array_api.py calls such a pair, or NULL. */
static PyObject *pair(int failed, mlx_array a, mlx_array b, const char *names)
{
    PyObject *first = array_result(failed, a), *second = first ? array_result(0, b) : NULL;
    if (!first)
        mlx_array_free(b);
    PyObject *both = first && second ? PyTuple_Pack(2, first, second) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(second);
    return names ? with_names(names, both) : both;
}

#define ONE(name) \
    PyObject *fn_linalg_##name(struct py_call *c) { return give(c, mlx_linalg_##name(&c->res, ARRAY(0), STREAM)); }
ONE(inv)
ONE(det)
ONE(eigvals)

PyObject *fn_linalg_pinv(struct py_call *c)
{
    if (GIVEN(1))
        return call_operand_like(c, 1, mlx_array_dtype(ARRAY(0))) ? NULL : call_in_python(c);
    return give(c, mlx_linalg_pinv(&c->res, ARRAY(0), STREAM));
}

#define IN_PYTHON(name) \
    PyObject *fn_linalg_##name(struct py_call *c) { return call_in_python(c); }
IN_PYTHON(matrix_norm)
IN_PYTHON(vector_norm)
IN_PYTHON(matrix_power)
IN_PYTHON(matrix_rank)

PyObject *fn_linalg_svdvals(struct py_call *c)
{
    mlx_vector_array vec = mlx_vector_array_new();
    int failed = mlx_linalg_svd(&vec, ARRAY(0), false, STREAM) || mlx_vector_array_get(&c->res, vec, 0);
    mlx_vector_array_free(vec);
    return give(c, failed);
}

/* Of the last two axes. */
PyObject *fn_linalg_diagonal(struct py_call *c)
{
    return give(c, mlx_diagonal(&c->res, ARRAY(0), INT(1), -2, -1, STREAM));
}

PyObject *fn_linalg_trace(struct py_call *c)
{
    return give(c, mlx_trace(&c->res, ARRAY(0), INT(1), -2, -1, DTYPE(2, dtype_of_sum(ARRAY(0))), STREAM));
}

PyObject *fn_linalg_vecdot(struct py_call *c)
{
    return give(c, mlx_vecdot(&c->res, ARRAY(0), ARRAY(1), INT(2), STREAM));
}

#define TRIANGLE(name)                                                         \
    PyObject *fn_linalg_##name(struct py_call *c)                              \
    {                                                                          \
        return give(c, mlx_linalg_##name(&c->res, ARRAY(0), BOOL(1), STREAM)); \
    }
TRIANGLE(tri_inv)
TRIANGLE(cholesky)
TRIANGLE(cholesky_inv)

#define TWO(name, names)                                          \
    PyObject *fn_linalg_##name(struct py_call *c)                 \
    {                                                             \
        mlx_array a = mlx_array_new(), b = mlx_array_new();       \
        int failed = mlx_linalg_##name(&a, &b, ARRAY(0), STREAM); \
        return pair(failed, a, b, names);                         \
    }
TWO(eig, "Eig")
TWO(lu_factor, NULL)
TWO(slogdet, "SLogDet")

PyObject *fn_linalg_qr(struct py_call *c)
{
    const char *mode = TEXT(1);
    if (!strcmp(mode, "complete"))
        return with_names("QR", call_in_python(c));
    if (strcmp(mode, "reduced"))
        return PyErr_Format(exc_value, "[qr] expected mode to be 'reduced' or 'complete', got '%s'", mode);
    mlx_array q = mlx_array_new(), r = mlx_array_new();
    int failed = mlx_linalg_qr(&q, &r, ARRAY(0), STREAM);
    return pair(failed, q, r, "QR");
}

PyObject *fn_linalg_eigh(struct py_call *c)
{
    mlx_array w = mlx_array_new(), v = mlx_array_new();
    int failed = mlx_linalg_eigh(&w, &v, ARRAY(0), TEXT(1), STREAM);
    return pair(failed, w, v, "Eigh");
}

PyObject *fn_linalg_eigvalsh(struct py_call *c)
{
    return give(c, mlx_linalg_eigvalsh(&c->res, ARRAY(0), TEXT(1), STREAM));
}

/* A list of arrays as a tuple, or the array that is alone in it. */
static PyObject *unlisted(int failed, mlx_vector_array vec)
{
    PyObject *list = give_list(failed, vec), *result = NULL;
    if (list && PyList_Size(list) == 1)
        result = Py_NewRef(PyList_GetItem(list, 0));
    else if (list)
        result = PyList_AsTuple(list);
    Py_XDECREF(list);
    return result;
}

PyObject *fn_linalg_svd(struct py_call *c)
{
    mlx_vector_array vec = mlx_vector_array_new();
    int failed = BOOL(1) && !BOOL(2) ? mlx_linalg_svd_thin(&vec, ARRAY(0), STREAM)
                                     : mlx_linalg_svd(&vec, ARRAY(0), BOOL(1), STREAM);
    PyObject *result = unlisted(failed, vec);
    return BOOL(1) ? with_names("SVD", result) : result;
}

PyObject *fn_linalg_lu(struct py_call *c)
{
    mlx_vector_array vec = mlx_vector_array_new();
    int failed = mlx_linalg_lu(&vec, ARRAY(0), STREAM);
    return unlisted(failed, vec);
}

PyObject *fn_linalg_cross(struct py_call *c)
{
    return give(c, mlx_linalg_cross(&c->res, ARRAY(0), ARRAY(1), INT(2), STREAM));
}

PyObject *fn_linalg_solve(struct py_call *c) { return give(c, mlx_linalg_solve(&c->res, ARRAY(0), ARRAY(1), STREAM)); }

PyObject *fn_linalg_solve_triangular(struct py_call *c)
{
    return give(c, mlx_linalg_solve_triangular(&c->res, ARRAY(0), ARRAY(1), BOOL(2), STREAM));
}

/* The order is a number or a name. */
PyObject *fn_linalg_norm(struct py_call *c)
{
    const int *axis = GIVEN(2) ? c->v[2].ints.v : NULL;
    size_t n = GIVEN(2) ? (size_t)c->v[2].ints.n : 0;
    if (!GIVEN(1))
        return give(c, mlx_linalg_norm_l2(&c->res, ARRAY(0), axis, n, BOOL(3), STREAM));
    PyObject *ord = c->v[1].o;
    if (PyUnicode_Check(ord)) {
        const char *name = PyUnicode_AsUTF8AndSize(ord, NULL);
        return name ? give(c, mlx_linalg_norm_matrix(&c->res, ARRAY(0), name, axis, n, BOOL(3), STREAM)) : NULL;
    }
    double number;
    if (!PyNumber_Check(ord))
        return call_refuse(c, 1, "a number or a str");
    if (double_from(ord, &number)) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError) || PyErr_ExceptionMatches(exc_overflow))
            return NULL;
        PyErr_Clear();
        return call_refuse(c, 1, "a number or a str");
    }
    return give(c, mlx_linalg_norm(&c->res, ARRAY(0), number, axis, n, BOOL(3), STREAM));
}

#define LINALG(name, text, doc)                                                                \
    static struct signature sig_##name = SIGNATURE("linalg." #name, text);                     \
    static PyObject *py_##name(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *kw) \
    {                                                                                          \
        (void)m;                                                                               \
        return call_function(&sig_##name, fn_linalg_##name, NULL, args, n, kw);                \
    }
#include "functions.def"

static PyMethodDef functions[] = {
#define LINALG(name, text, doc) { #name, PYFN(py_##name), FAST, #name "(" text ")\n--\n\n" doc },
#include "functions.def"
    { NULL, NULL, 0, NULL },
};

int linalg_init(PyObject *module)
{
    PyObject *sub = submodule(module, "linalg", "Linear algebra, of the last two axes.", functions);
    PyObject *norm = sub ? PyObject_GetAttrString(sub, "norm") : NULL;
    int failed = norm ? PyModule_AddObjectRef(module, "matrix_norm", norm) : -1; /* a second name */
    Py_XDECREF(norm);
    /* What the array API standard has in both places. */
    static const char *const names[] = { "matmul", "matrix_transpose", "outer", "tensordot" };
    for (size_t i = 0; !failed && i < LENGTH(names); i++) {
        PyObject *f = PyObject_GetAttrString(module, names[i]);
        failed = f ? PyModule_AddObjectRef(sub, names[i], f) : -1;
        Py_XDECREF(f);
    }
    return failed;
}
