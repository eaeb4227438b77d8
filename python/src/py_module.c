/* py_module.c: the module mlx.core. */
#include "py.h"

#include <math.h>

#include "notes_of_dtypes.h"

/* Functions: a C function and a signature for each row. */

#define ENTRY(name, text)                                                                      \
    static struct signature sig_##name = SIGNATURE(#name, text);                               \
    static PyObject *py_##name(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *kw) \
    {                                                                                          \
        (void)m;                                                                               \
        return call_function(&sig_##name, fn_##name, NULL, args, n, kw);                       \
    }

/* How the element-wise functions are called, by the letter in their row. */
#define STREAM_ "stream: StreamOrDevice = None"
#define UNARY_P "a: scalar|array, /, *, " STREAM_
#define UNARY_N "a: scalar|array, " STREAM_
#define BINARY_P "a: scalar|array, b: scalar|array, /, *, " STREAM_
#define BINARY_N "a: scalar|array, b: scalar|array, " STREAM_
#define IF_P(...) __VA_ARGS__
#define IF_N(...) __VA_ARGS__
#define IF_X(...)

#define UNARY(name, label, dtypes, traits, form, doc) IF_##form(ENTRY(name, UNARY_##form))
#define BINARY(name, label, dtypes, traits, form, doc) IF_##form(ENTRY(name, BINARY_##form))
#include "ops/ops.def"
#define FUNCTION(name, text, doc) ENTRY(name, text)
#include "functions.def"

#define ROW(name, text, doc) { #name, PYFN(py_##name), FAST, #name "(" text ")\n--\n\n" doc },
static PyMethodDef functions[] = {
#define UNARY(name, label, dtypes, traits, form, doc) IF_##form(ROW(name, UNARY_##form, doc "\n\n" ONE_##dtypes))
#define BINARY(name, label, dtypes, traits, form, doc) IF_##form(ROW(name, BINARY_##form, doc "\n\n" TWO_##dtypes))
#include "ops/ops.def"
#define FUNCTION(name, text, doc) ROW(name, text, doc)
#include "functions.def"
    { NULL, NULL, 0, NULL },
};

static const struct {
    const char *name, *of;
} aliases[] = {
#define ALIAS(name, of) { #name, #of },
#include "functions.def"
};

/* Putting things into modules */

PyObject *add_enum(PyObject *module, const char *name, const char *const names[], size_t n, PyObject *members[])
{
    PyObject *enums = PyImport_ImportModule("enum"), *pairs = PyList_New(0), *type = NULL;
    int failed = !enums || !pairs;
    for (size_t i = 0; i < n && !failed; i++) {
        PyObject *pair = Py_BuildValue("(sn)", names[i], (Py_ssize_t)i);
        failed = !pair || PyList_Append(pairs, pair);
        Py_XDECREF(pair);
    }
    PyObject *make = failed ? NULL : PyObject_GetAttrString(enums, "Enum");
    PyObject *args = make ? Py_BuildValue("(sO)", name, pairs) : NULL;
    PyObject *kwargs = args ? Py_BuildValue("{ss}", "module", "mlx.core") : NULL;
    if (kwargs)
        type = PyObject_Call(make, args, kwargs);
    /* They print as "DeviceType.cpu", not with their number. */
    PyObject *str = type ? PyObject_GetAttrString(make, "__str__") : NULL;
    failed = !str || PyObject_SetAttrString(type, "__repr__", str) || PyModule_AddObjectRef(module, name, type);
    for (size_t i = 0; i < n && !failed; i++) {
        members[i] = PyObject_GetAttrString(type, names[i]);
        failed = !members[i] || PyModule_AddObjectRef(module, names[i], members[i]);
    }
    Py_XDECREF(enums);
    Py_XDECREF(pairs);
    Py_XDECREF(make);
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    Py_XDECREF(str);
    if (failed)
        Py_CLEAR(type);
    return type;
}

PyObject *submodule(PyObject *module, const char *name, const char *doc, PyMethodDef *methods)
{
    char full[64];
    PyOS_snprintf(full, sizeof full, "mlx.core.%s", name);
    PyObject *sub = PyImport_AddModule(full);
    if (!sub || add_functions(sub, methods) || PyModule_SetDocString(sub, doc) ||
        PyModule_AddObjectRef(module, name, sub))
        return NULL;
    return sub;
}

/* Devices of other makes, which are not there.  Older programs look for the memory functions in
 * mlx.core.metal. */

static PyObject *no(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    Py_RETURN_FALSE;
}

static PyObject *no_facts(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    return PyDict_New();
}

static PyObject *no_capture(PyObject *m, PyObject *unused)
{
    (void)m;
    (void)unused;
    Py_RETURN_NONE;
}

static PyMethodDef metal[] = {
    { "is_available", no, METH_NOARGS, "is_available()\n--\n\nWhether Metal can be used; it cannot." },
    { "device_info", no_facts, METH_NOARGS, "device_info()\n--\n\nFacts about the device: none." },
    { "start_capture", no_capture, METH_O,
      "start_capture(path)\n--\n\nRecord the GPU's work into a file; does nothing here." },
    { "stop_capture", no_capture, METH_NOARGS, "stop_capture()\n--\n\nEnd recording; does nothing here." },
    { NULL, NULL, 0, NULL },
};
static const char *const in_metal[] = {
    "get_active_memory", "get_peak_memory", "reset_peak_memory", "get_cache_memory",
    "set_memory_limit",  "set_cache_limit", "set_wired_limit",   "clear_cache",
};
static PyObject *cuda_is_available(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    bool is;
    return mlx_cuda_is_available(&is) ? (raise_last(), NULL) : PyBool_FromLong(is);
}
/* The facts about a library in a dict, or None. */
static PyObject *library_facts(const char *name)
{
    static const char *const keys[] = { "path", "version", "used_for" };
    mlx_string told[] = { mlx_string_new(), mlx_string_new(), mlx_string_new() };
    PyObject *facts = NULL;
    int failed = mlx_cuda_library(&told[0], &told[1], &told[2], name) ? raise_last() : 0;
    if (!failed && !*mlx_string_data(told[0]))
        facts = Py_NewRef(Py_None);
    else if (!failed)
        facts = PyDict_New();
    for (size_t i = 0; i < LENGTH(keys) && facts && facts != Py_None; i++) {
        const char *text = mlx_string_data(told[i]);
        PyObject *value = *text ? PyUnicode_DecodeFSDefault(text) : Py_NewRef(Py_None);
        if (!value || PyDict_SetItemString(facts, keys[i], value))
            Py_CLEAR(facts);
        Py_XDECREF(value);
    }
    for (size_t i = 0; i < LENGTH(told); i++) mlx_string_free(told[i]);
    return facts;
}
static PyObject *cuda_libraries(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    mlx_vector_string names = mlx_vector_string_new();
    PyObject *all = mlx_cuda_libraries(&names) ? (raise_last(), NULL) : PyDict_New();
    for (size_t i = 0; all && i < mlx_vector_string_size(names); i++) {
        char *name;
        PyObject *facts = mlx_vector_string_get(&name, names, i) ? (raise_last(), NULL) : library_facts(name);
        if (!facts || PyDict_SetItemString(all, name, facts))
            Py_CLEAR(all);
        Py_XDECREF(facts);
    }
    mlx_vector_string_free(names);
    return all;
}
static PyMethodDef cuda[] = {
    { "is_available", cuda_is_available, METH_NOARGS,
      "is_available()\n--\n\nWhether there is a GPU that CUDA drives." },
    { "libraries", cuda_libraries, METH_NOARGS,
      "libraries()\n--\n\nNVIDIA's libraries that are looked for, by name: where each was found, its version and "
      "what it is used for; None for one that was not found. None is needed." },
    { NULL, NULL, 0, NULL },
};

static int add_devices(PyObject *module)
{
    PyObject *sub = submodule(module, "metal", "Apple's GPUs.", metal);
    for (size_t i = 0; sub && i < LENGTH(in_metal); i++) {
        PyObject *f = PyObject_GetAttrString(module, in_metal[i]);
        if (!f || PyModule_AddObjectRef(sub, in_metal[i], f))
            sub = NULL;
        Py_XDECREF(f);
    }
    return sub && submodule(module, "cuda", "NVIDIA's GPUs.", cuda) ? 0 : -1;
}

static int add_constants(PyObject *module)
{
    static const struct {
        const char *name;
        double value;
    } constants[] = {
        { "e", 2.71828182845904523536 },
        { "pi", 3.14159265358979323846 },
        { "euler_gamma", 0.57721566490153286061 },
        { "inf", HUGE_VAL },
        { "nan", NAN },
    };
    for (size_t i = 0; i < LENGTH(constants); i++) {
        PyObject *value = PyFloat_FromDouble(constants[i].value);
        int failed = value ? PyModule_AddObjectRef(module, constants[i].name, value) : -1;
        Py_XDECREF(value);
        if (failed)
            return -1;
    }
    for (size_t i = 0; i < LENGTH(aliases); i++) {
        PyObject *f = PyObject_GetAttrString(module, aliases[i].of);
        int failed = f ? PyModule_AddObjectRef(module, aliases[i].name, f) : -1;
        Py_XDECREF(f);
        if (failed)
            return -1;
    }
    return PyModule_AddObjectRef(module, "newaxis", Py_None) ||
                   PyModule_AddStringConstant(module, "__array_api_version__", "2025.12") ||
                   PyModule_AddStringConstant(module, "__version__", MLX_LEVEL) ||
                   PyModule_AddStringConstant(module, "_release", MLX_VERSION)
               ? -1
               : 0;
}

/* The name `bool`, which the array API standard asks for.  `from mlx.core import *` leaves it out, for it would take
 * Python's own away. */
static int add_bool_constant(PyObject *module)
{
    PyObject *names = PyObject_Dir(module), *all = names ? PyList_New(0) : NULL;
    int failed = all ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(names); i++) {
        PyObject *name = PyList_GetItem(names, i);
        if (PyUnicode_ReadChar(name, 0) != '_')
            failed = PyList_Append(all, name);
    }
    failed = failed || PyModule_AddObjectRef(module, "__all__", all) ||
             PyModule_AddObjectRef(module, "bool", dtype_object(MLX_BOOL));
    Py_XDECREF(all);
    Py_XDECREF(names);
    return failed ? -1 : 0;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "mlx.core",
    "Arrays, operations on them, and transformations of functions of them.",
    0, /* else Python would copy the module into other interpreters without asking PyInit_core */
    functions,
    NULL,
    NULL,
    NULL,
    NULL,
};

/* The module, as long as this interpreter lives: its types and what the library holds of Python's are there
 * once in a process. */
static PyObject *made;

static void forget_module(void) { made = NULL; }

PyMODINIT_FUNC PyInit_core(void);
PyMODINIT_FUNC PyInit_core(void)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "mlx.core works in the main interpreter of a process only, and this is a "
                                           "sub-interpreter; use threads or processes in its place");
        return NULL;
    }
    if (made)
        return Py_NewRef(made);
    if (method_docs("", functions))
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (errors_init(module) || trees_init(module) || dtype_init(module) || device_init(module) || array_init(module) ||
        index_init(module) || methods_init(module) || io_init(module) || transforms_init(module) ||
        attributes_init(module) || wrapper_init(module) || places_init(module) || vmap_init(module) ||
        custom_init(module) || linear_init(module) || constants_init(module) || compile_init(module) ||
        graph_init(module) || export_init(module) || printing_init(module) || random_init(module) ||
        kernel_init(module) || fast_init(module) || fft_init(module) || linalg_init(module) ||
        distributed_init(module) || add_constants(module) || add_devices(module) || capsule_init(module) ||
        add_bool_constant(module))
        Py_CLEAR(module);
    else if (Py_AtExit(forget_module) == 0)
        made = Py_NewRef(module);
    return module;
}
