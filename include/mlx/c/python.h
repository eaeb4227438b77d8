/* python.h: Python modules whose functions take and return arrays of mlx.core.
 *
 * For the C source of a Python module that is linked to the library.  Objects of mlx.core become handles
 * and handles become objects through a table of functions that mlx.core keeps in the capsule
 * mlx.core._C_API, so nothing depends on how its module is built or for which version of Python.  The
 * functions here only find that table; they use the limited API of Python 3.10 and later.  A function:
 *
 *     static PyObject *twice(PyObject *module, PyObject *args)
 *     {
 *         mlx_array x, y = mlx_array_new();
 *         if (!PyArg_ParseTuple(args, "O&:twice", mlx_python_array, &x))
 *             return NULL;
 *         return mlx_python_result(mlx_add(&y, x, x, mlx_python_no_stream()), y);
 *     }
 *
 * The table has to be that of the library that the module is linked to.  Two copies of the library in
 * one process do not know each other's handles: mlx_python_import finds that out and refuses.
 *
 * All of these need the GIL.  Those that return int give 0 for success and -1 with a Python exception
 * set, those made for "O&" 1 and 0; those that return a PyObject * give a new reference, or NULL with an
 * exception set.  Only that exception tells what went wrong: mlx.core has the library's error handler. */
#ifndef MLX_C_PYTHON_H
#define MLX_C_PYTHON_H

#include <Python.h>
#include <stddef.h>

#include "mlx/c/array.h"
#include "mlx/c/device.h"
#include "mlx/c/stream.h"
#include "mlx/c/vector.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of the layout below.  It changes where a member changes; new members come at the end, and
 * only struct_size tells that they are there. */
#define MLX_PYTHON_ABI 1

/* The name of the capsule. */
#define MLX_PYTHON_CAPSULE "mlx.core._C_API"

/* The table. */
struct mlx_python_api {
    size_t struct_size;         /* sizeof(struct mlx_python_api) */
    int abi;                    /* MLX_PYTHON_ABI */
    const char *version;        /* of mlx.core */
    mlx_array (*library)(void); /* mlx_array_new as mlx.core has it: which copy of the library */

    /* Raises the last failure of the library on this thread; gives -1. */
    int (*raise)(void);

    /* What the function below calls that has the name with mlx_python_ in front. */
    int (*array)(PyObject *o, mlx_array *res);
    int (*array_from)(PyObject *o, mlx_array *res);
    PyObject *(*array_object)(mlx_array a);
    int (*arrays)(PyObject *o, mlx_vector_array *res);
    PyObject *(*arrays_object)(mlx_vector_array vec);
    int (*stream)(PyObject *o, mlx_stream *res);
    PyObject *(*stream_object)(mlx_stream s);
    int (*device)(PyObject *o, mlx_device *res);
    PyObject *(*device_object)(mlx_device d);
    int (*dtype)(PyObject *o, mlx_dtype *res);
    PyObject *(*dtype_object)(mlx_dtype t);
};

/* The table; NULL with ImportError.  Imports mlx.core. */
static inline const struct mlx_python_api *mlx_python_table(void)
{
    static const struct mlx_python_api *table;
    if (table)
        return table;
    PyObject *core = PyImport_ImportModule("mlx.core"); /* so that a failure of its own shows as such */
    if (!core)
        return NULL;
    Py_DECREF(core);
    const struct mlx_python_api *t = (const struct mlx_python_api *)PyCapsule_Import(MLX_PYTHON_CAPSULE, 0);
    if (!t) {
        PyErr_Clear();
        PyErr_SetString(PyExc_ImportError, "[mlx] this mlx.core has no C interface (" MLX_PYTHON_CAPSULE ")");
    } else if (t->abi != MLX_PYTHON_ABI || t->struct_size < sizeof *t) {
        PyErr_Format(PyExc_ImportError,
                     "[mlx] this module is built for number %d of the C interface of mlx.core with %zu bytes, "
                     "mlx.core %s has number %d with %zu bytes; build the module again",
                     MLX_PYTHON_ABI, sizeof *t, t->version, t->abi, t->struct_size);
    } else if (t->library != mlx_array_new) {
        PyErr_Format(PyExc_ImportError,
                     "[mlx] this module is linked to another copy of libmlx than the one that mlx.core %s has "
                     "loaded; build it against the library of that package (python -m mlx --cmake-dir), not "
                     "with a static one",
                     t->version);
    } else {
        table = t;
    }
    return table;
}

/* For the start of a module's init function: imports mlx.core and checks that it fits.  What follows does
 * the same where it was left out. */
static inline int mlx_python_import(void) { return mlx_python_table() ? 0 : -1; }

/* Turns the last failure of the library on this thread into an exception; returns NULL. */
static inline PyObject *mlx_python_raise(void)
{
    const struct mlx_python_api *t = mlx_python_table();
    if (t)
        t->raise();
    return NULL;
}

/* From Python, as converters for "O&": the second argument points at the handle or value to fill.  What is
 * filled is borrowed: nothing is to be freed, and it is good as long as the object. */

/* A mlx_array from a mlx.core.array. */
static inline int mlx_python_array(PyObject *o, void *res)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t && !t->array(o, (mlx_array *)res);
}

/* A mlx_stream from a Stream, from a Device or DeviceType, whose default it is, or from None, which gives
 * an empty one: that of the operation's caller. */
static inline int mlx_python_stream(PyObject *o, void *res)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t && !t->stream(o, (mlx_stream *)res);
}

/* A mlx_dtype from a Dtype. */
static inline int mlx_python_dtype(PyObject *o, void *res)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t && !t->dtype(o, (mlx_dtype *)res);
}

/* What a stream argument is before it is parsed, and stays where it is left out. */
static inline mlx_stream mlx_python_no_stream(void)
{
    mlx_stream s = { NULL };
    return s;
}

/* From Python, to be freed.  The handle must be empty or hold something, as for any result. */

/* The array that mx.array(o) makes: of numbers, lists, NumPy's arrays. */
static inline int mlx_python_array_from(PyObject *o, mlx_array *res)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t ? t->array_from(o, res) : -1;
}

/* The arrays in a list or a tuple, or in a tree of these and dicts. */
static inline int mlx_python_arrays(PyObject *o, mlx_vector_array *res)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t ? t->arrays(o, res) : -1;
}

/* The device that a Device or DeviceType is. */
static inline int mlx_python_device(PyObject *o, mlx_device *res)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t ? t->device(o, res) : -1;
}

/* To Python. */

/* A mlx.core.array that takes the handle over, also where this fails. */
static inline PyObject *mlx_python_array_object(mlx_array a)
{
    const struct mlx_python_api *t = mlx_python_table();
    if (!t)
        return mlx_array_free(a), (PyObject *)NULL;
    return t->array_object(a);
}

/* The same for the result of an operation that returned `failed`: then its exception. */
static inline PyObject *mlx_python_result(int failed, mlx_array a)
{
    if (!failed)
        return mlx_python_array_object(a);
    mlx_array_free(a);
    return mlx_python_raise();
}

/* A list of arrays for the results of such an operation; frees the vector. */
static inline PyObject *mlx_python_results(int failed, mlx_vector_array vec)
{
    const struct mlx_python_api *t = mlx_python_table();
    if (t && !failed)
        return t->arrays_object(vec);
    mlx_vector_array_free(vec);
    return t ? mlx_python_raise() : NULL;
}

/* Objects of what stays the caller's. */
static inline PyObject *mlx_python_stream_object(mlx_stream s)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t ? t->stream_object(s) : NULL;
}
static inline PyObject *mlx_python_device_object(mlx_device d)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t ? t->device_object(d) : NULL;
}
static inline PyObject *mlx_python_dtype_object(mlx_dtype d)
{
    const struct mlx_python_api *t = mlx_python_table();
    return t ? t->dtype_object(d) : NULL;
}

#ifdef __cplusplus
}
#endif

#endif
