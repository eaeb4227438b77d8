/* py_capsule.c: arrays, streams, devices and dtypes for other modules written in C.
 *
 * The functions of include/mlx/c/python.h behind mlx.core._C_API.  Modules built long ago read this
 * table: members are never moved nor changed, new ones come at its end. */
#include "py.h"

#include <string.h>

#include "mlx/c/python.h"

static int refuse_capsule(PyObject *o, const char *what)
{
    PyErr_Format(PyExc_TypeError, "expected %s, got %s", what, type_name(o));
    return -1;
}

static int get_array(PyObject *o, mlx_array *res)
{
    if (!is_array(o))
        return refuse_capsule(o, "an array");
    *res = handle_of(o);
    return 0;
}

static int make_array(PyObject *o, mlx_array *res)
{
    mlx_array made = mlx_array_new();
    int failed = array_from(&made, o, NULL);
    if (!failed && mlx_array_set(res, made))
        failed = raise_last();
    mlx_array_free(made);
    return failed;
}

static int get_arrays(PyObject *o, mlx_vector_array *res)
{
    mlx_vector_array found = mlx_vector_array_new();
    int failed = tree_arrays(o, found, "mlx_python_arrays");
    if (!failed && mlx_vector_array_set(res, found))
        failed = raise_last();
    mlx_vector_array_free(found);
    return failed;
}

static int get_stream(PyObject *o, mlx_stream *res)
{
    int failed = stream_from(o, res);
    return failed == 1 ? refuse_capsule(o, "a Stream, a Device, a DeviceType or None") : failed;
}

static int dtype_argument(PyObject *o, mlx_dtype *res) { return dtype_from(o, res) ? 0 : refuse_capsule(o, "a Dtype"); }

static int capsule_device(PyObject *o, mlx_device *res)
{
    mlx_device d = mlx_device_new();
    int failed = device_from(o, &d);
    if (failed)
        return failed == 1 ? refuse_capsule(o, "a Device or a DeviceType") : failed;
    if (mlx_device_set(res, d))
        failed = raise_last();
    mlx_device_free(d);
    return failed;
}

static PyObject *stream_of(mlx_stream s)
{
    if (s.ctx)
        return stream_object(s);
    PyErr_SetString(exc_value, "expected a stream, got an empty handle");
    return NULL;
}

static PyObject *dtype_of(mlx_dtype t)
{
    if ((unsigned)t <= MLX_COMPLEX64)
        return Py_NewRef(dtype_object(t));
    PyErr_Format(exc_value, "expected a dtype, got the number %d", (int)t);
    return NULL;
}

static const struct mlx_python_api table = {
    .struct_size = sizeof table,
    .abi = MLX_PYTHON_ABI,
    .version = MLX_VERSION,
    .library = mlx_array_new,
    .raise = raise_last,
    .array = get_array,
    .array_from = make_array,
    .array_object = array_wrap,
    .arrays = get_arrays,
    .arrays_object = vector_to_list,
    .stream = get_stream,
    .stream_object = stream_of,
    .device = capsule_device,
    .device_object = device_object,
    .dtype = dtype_argument,
    .dtype_object = dtype_of,
};

/* This module and the library that it has been given are of one version. */
static int same_version(void)
{
    mlx_string version = mlx_string_new();
    int failed = mlx_version(&version);
    const char *v = failed ? "unknown" : mlx_string_data(version);
    failed = failed || strcmp(v, MLX_VERSION) != 0;
    if (failed)
        PyErr_Format(PyExc_ImportError,
                     "[mlx] mlx.core %s meets libmlx %s, which another module or LD_LIBRARY_PATH brought in "
                     "first; import mlx.core before that module",
                     MLX_VERSION, v);
    mlx_string_free(version);
    return failed ? -1 : 0;
}

int capsule_init(PyObject *module)
{
    if (same_version())
        return -1;
    /* The name is a part of the interface; the table is not changed through the capsule. */
    PyObject *capsule = PyCapsule_New((void *)&table, MLX_PYTHON_CAPSULE, NULL);
    int failed = capsule ? PyModule_AddObjectRef(module, "_C_API", capsule) : -1;
    Py_XDECREF(capsule);
    return failed;
}
