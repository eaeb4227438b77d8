/* bindings.c: axpby for Python. */
#define PY_SSIZE_T_CLEAN
#include <mlx/c/python.h>

#include "axpby/axpby.h"

static PyObject *py_axpby(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "", "", "alpha", "beta", "stream", NULL };
    mlx_array x, y, z = mlx_array_new();
    mlx_stream s = mlx_python_no_stream();
    float alpha, beta;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&ff|$O&:axpby", names, mlx_python_array, &x, mlx_python_array,
                                     &y, &alpha, &beta, mlx_python_stream, &s))
        return NULL;
    return mlx_python_result(axpby(&z, x, y, alpha, beta, s), z);
}

static PyMethodDef functions[] = {
    { "axpby", (PyCFunction)(void (*)(void))py_axpby, METH_VARARGS | METH_KEYWORDS,
      "axpby(x, y, /, alpha, beta, *, stream=None)\n--\n\n"
      "Scale two arrays and add them, element by element: ``alpha * x + beta * y``.\n\n"
      "They are broadcast, and become floating point if they are not.\n\n"
      "Args:\n"
      "    x (array): Input array.\n"
      "    y (array): Input array.\n"
      "    alpha (float): Factor of ``x``.\n"
      "    beta (float): Factor of ``y``.\n"
      "    stream (Stream or Device): Where it is computed.\n\n"
      "Returns:\n"
      "    array: ``alpha * x + beta * y``" },
    { NULL, NULL, 0, NULL },
};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_ext", "Sample extensions in C.", -1, functions, NULL, NULL, NULL, NULL
};

PyMODINIT_FUNC PyInit__ext(void)
{
    if (mlx_python_import())
        return NULL;
    return axpby_register() ? mlx_python_raise() : PyModule_Create(&module);
}
