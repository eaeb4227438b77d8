/* py_methods.c: methods of arrays that are no functions of the module: copies, pickles, NumPy. */
#include "py.h"

#include <limits.h>
#include <string.h>

PyObject *fn_item(struct py_call *c)
{
    if (mlx_array_size(ARRAY(0)) == 1)
        return array_item(ARRAY(0));
    PyErr_Format(exc_value, "[item] expected an array with one element, got one with %zu", mlx_array_size(ARRAY(0)));
    return NULL;
}

PyObject *fn_tolist(struct py_call *c) { return array_tolist(ARRAY(0)); }
PyObject *fn_bytes(struct py_call *c) { return array_bytes(ARRAY(0)); }
/* The attributes of an object of a class made from array's, or NULL. */
static PyObject *attributes_of(PyObject *o)
{
    PyObject *attributes = Py_TYPE(o) == array_type ? NULL : PyObject_GetAttrString(o, "__dict__");
    if (!attributes)
        PyErr_Clear();
    return attributes;
}

static int set_attributes(PyObject *o, PyObject *attributes)
{
    PyObject *own = PyObject_GetAttrString(o, "__dict__");
    int failed = own ? PyDict_Update(own, attributes) : -1;
    Py_XDECREF(own);
    return failed;
}

/* Its attributes copied too where there is a memo, as copy.deepcopy hands it. */
static PyObject *deep_copied(struct py_call *c, PyObject *memo)
{
    PyObject *o = c->v[0].o;
    if (Py_TYPE(o) == array_type)
        return give(c, mlx_array_set(&c->res, ARRAY(0)));
    mlx_array it = mlx_array_new();
    PyObject *result = mlx_array_set(&it, ARRAY(0)) ? (raise_last(), NULL) : array_wrap_as(Py_TYPE(o), it);
    PyObject *attributes = result ? attributes_of(o) : NULL;
    if (attributes && memo) {
        PyObject *id = PyLong_FromVoidPtr(o), *module = PyImport_ImportModule("copy"), *deep = NULL;
        if (id && module && !PyObject_SetItem(memo, id, result)) /* the attributes may hold it */
            deep = PyObject_CallMethod(module, "deepcopy", "OO", attributes, memo);
        Py_XDECREF(id);
        Py_XDECREF(module);
        Py_DECREF(attributes);
        if (!(attributes = deep))
            Py_CLEAR(result);
    }
    if (attributes && set_attributes(result, attributes))
        Py_CLEAR(result);
    Py_XDECREF(attributes);
    return result;
}

PyObject *fn_copy(struct py_call *c) { return deep_copied(c, NULL); }
PyObject *fn_deepcopy(struct py_call *c) { return deep_copied(c, c->v[1].o); }

PyObject *fn_array_namespace(struct py_call *c)
{
    static const char *const versions[] = { "2021.12", "2022.12", "2023.12", "2024.12", "2025.12" };
    bool known = !GIVEN(1);
    for (size_t i = 0; i < LENGTH(versions) && !known; i++) known = !strcmp(TEXT(1), versions[i]);
    if (!known)
        return PyErr_Format(exc_value, "[__array_namespace__] expected an api_version from '%s' to '%s', got '%s'",
                            versions[0], versions[LENGTH(versions) - 1], TEXT(1));
    return PyImport_ImportModule("mlx.core");
}

PyObject *fn_to_device(struct py_call *c)
{
    mlx_device d = mlx_device_new();
    mlx_stream there = { NULL };
    int status = device_from(c->v[1].o, &d);
    if (!status && mlx_get_default_stream(&there, d))
        status = raise_last();
    mlx_device_free(d);
    if (status)
        return status < 0 ? NULL : call_refuse(c, 1, "a Device or a DeviceType");
    return Py_NewRef(c->v[0].o);
}

PyObject *fn_dlpack(struct py_call *c)
{
    return array_dlpack(c->v[0].o, c->v[1].o, c->v[2].o, c->v[3].o, GIVEN(4) && BOOL(4));
}

PyObject *fn_dlpack_device(struct py_call *c) { return array_dlpack_device(c->v[0].o); }

/* The array's bits, as NumPy's array of ml_dtypes' bfloat16. */
static PyObject *bfloat16_to_numpy(struct py_call *c, PyObject *numpy)
{
    PyObject *types = PyImport_ImportModule("ml_dtypes");
    if (!types) {
        if (PyErr_ExceptionMatches(PyExc_ImportError))
            PyErr_SetString(exc_value,
                            "[__array__] 'bfloat16' is not a valid PEP 3118 buffer format string, and NumPy has no "
                            "such dtype without the package ml_dtypes; convert the array first, "
                            "x.astype(mx.float32)");
        return NULL;
    }
    mlx_array bits = mlx_array_new();
    PyObject *type = PyObject_GetAttrString(types, "bfloat16");
    int failed = mlx_view(&bits, ARRAY(0), MLX_UINT16, STREAM);
    PyObject *a = array_result(failed, bits);
    PyObject *view = a && type ? PyMemoryView_FromObject(a) : NULL;
    PyObject *numbers = view ? PyObject_CallMethod(numpy, "asarray", "O", view) : NULL;
    PyObject *result = numbers ? PyObject_CallMethod(numbers, "view", "O", type) : NULL;
    Py_XDECREF(numbers);
    Py_XDECREF(view);
    Py_XDECREF(a);
    Py_XDECREF(type);
    Py_DECREF(types);
    return result;
}

PyObject *fn_as_numpy(struct py_call *c)
{
    bool has_buffer = mlx_array_dtype(ARRAY(0)) != MLX_BFLOAT16;
    if (buffer_interrupted(c->v[0].o)) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return NULL;
    }
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *view = numpy && has_buffer ? PyMemoryView_FromObject(c->v[0].o) : NULL;
    PyObject *result = view                   ? PyObject_CallMethod(numpy, "asarray", "O", view)
                       : numpy && !has_buffer ? bfloat16_to_numpy(c, numpy)
                                              : NULL;
    if (result && GIVEN(1)) {
        PyObject *cast = PyObject_CallMethod(numpy, "asarray", "OO", result, c->v[1].o);
        Py_DECREF(result);
        result = cast;
    }
    if (result && c->v[2].o == Py_True) {
        PyObject *copy = PyObject_CallMethod(result, "copy", NULL);
        Py_DECREF(result);
        result = copy;
    }
    Py_XDECREF(view);
    Py_XDECREF(numpy);
    return result;
}

/* Pickle: (bytes, shape, name of the dtype), and for other classes the class and the attributes */

PyObject *fn_getstate(struct py_call *c)
{
    PyObject *bytes = array_bytes(ARRAY(0));
    PyObject *shape = bytes ? ints_to_tuple(mlx_array_shape(ARRAY(0)), mlx_array_ndim(ARRAY(0))) : NULL;
    PyObject *state = NULL;
    if (shape)
        state = Py_BuildValue("(OOs)", bytes, shape, mlx_dtype_name(mlx_array_dtype(ARRAY(0))));
    Py_XDECREF(bytes);
    Py_XDECREF(shape);
    return state;
}

static int from_state(mlx_array *out, PyObject *state)
{
    PyObject *bytes, *sizes;
    const char *name;
    int shape[MAX_NDIM], t = 0;
    size_t expected;
    if (!PyTuple_Check(state) || !PyArg_ParseTuple(state, "SO!s", &bytes, &PyTuple_Type, &sizes, &name)) {
        PyErr_SetString(PyExc_TypeError, "the state of an array is (bytes, shape, name of the dtype)");
        return -1;
    }
    while (t <= MLX_COMPLEX64 && strcmp(name, mlx_dtype_name((mlx_dtype)t))) t++;
    Py_ssize_t ndim = PyTuple_Size(sizes);
    bool good = t <= MLX_COMPLEX64 && ndim <= MAX_NDIM;
    expected = good ? mlx_dtype_size((mlx_dtype)t) : 0;
    for (Py_ssize_t i = 0; good && i < ndim; i++) {
        long n = PyLong_AsLong(PyTuple_GetItem(sizes, i));
        if (n == -1 && PyErr_Occurred())
            return -1;
        good = n >= 0 && n <= INT_MAX && (n == 0 || expected <= SIZE_MAX / (size_t)n);
        shape[i] = (int)n;
        expected *= good ? (size_t)n : 0;
    }
    if (!good || (size_t)PyBytes_Size(bytes) != expected) {
        PyErr_SetString(exc_value, "the bytes, shape and dtype of an array's state do not agree");
        return -1;
    }
    const char *data = PyBytes_AsString(bytes);
    return mlx_array_set_data(out, data, shape, (int)ndim, (mlx_dtype)t) ? raise_last() : 0;
}

PyObject *fn_setstate(struct py_call *c)
{
    if (PyDict_Check(c->v[1].o)) {
        if (set_attributes(c->v[0].o, c->v[1].o))
            return NULL;
    } else if (from_state(&((struct array *)c->v[0].o)->it, c->v[1].o))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *restored_array(PyObject *module, PyObject *args)
{
    PyObject *state, *type = (PyObject *)array_type;
    (void)module;
    if (!PyArg_UnpackTuple(args, "_array_from_state", 1, 2, &state, &type))
        return NULL;
    if (!PyType_Check(type) || !PyType_IsSubtype((PyTypeObject *)type, array_type)) {
        PyErr_SetString(PyExc_TypeError, "the type of an array's state is array or made from it");
        return NULL;
    }
    mlx_array a = mlx_array_new();
    if (!from_state(&a, state))
        return array_wrap_as((PyTypeObject *)type, a);
    mlx_array_free(a);
    return NULL;
}
static PyMethodDef restore_method = { "_array_from_state", restored_array, METH_VARARGS, "For pickle." };

/* What a class says of its objects by a __getstate__ of its own, or else their attributes. */
static PyObject *state_of_class(PyObject *o)
{
    PyObject *base = PyObject_GetAttrString((PyObject *)array_type, "__getstate__");
    PyObject *own = base ? PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__getstate__") : NULL, *state = NULL;
    if (own)
        state = own != base ? PyObject_CallMethod(o, "__getstate__", NULL) : attributes_of(o);
    Py_XDECREF(base);
    Py_XDECREF(own);
    return state || PyErr_Occurred() ? state : Py_NewRef(Py_None);
}

PyObject *fn_reduce_to_state(struct py_call *c)
{
    PyObject *o = c->v[0].o, *state = fn_getstate(c), *of_class = NULL, *result = NULL;
    PyObject *module = state ? PyImport_ImportModule("mlx.core") : NULL;
    PyObject *make = module ? PyObject_GetAttrString(module, "_array_from_state") : NULL;
    if (make && Py_TYPE(o) == array_type)
        result = Py_BuildValue("(O(O))", make, state);
    else if (make && (of_class = state_of_class(o)))
        result = Py_BuildValue("(O(OO)O)", make, state, Py_TYPE(o), of_class);
    Py_XDECREF(of_class);
    Py_XDECREF(make);
    Py_XDECREF(module);
    Py_XDECREF(state);
    return result;
}

/* ArrayLike(o): o as whatever takes arrays sees it. */

struct like {
    PyObject ob_base;
    PyObject *o;
};

static PyObject *like_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *o;
    if (kwargs && PyDict_Size(kwargs)) {
        PyErr_SetString(PyExc_TypeError, "ArrayLike() takes no keyword arguments");
        return NULL;
    }
    if (!PyArg_UnpackTuple(args, "ArrayLike", 1, 1, &o))
        return NULL;
    struct like *self = PyObject_GC_New(struct like, type);
    if (self) {
        self->o = Py_NewRef(o);
        PyObject_GC_Track((PyObject *)self);
    }
    return (PyObject *)self;
}

static int like_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(((struct like *)o)->o);
    return 0;
}

static int like_clear(PyObject *o)
{
    Py_CLEAR(((struct like *)o)->o);
    return 0;
}

static void like_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    like_clear(o);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyObject *like_array(PyObject *o, PyObject *unused)
{
    (void)unused;
    mlx_array a = mlx_array_new();
    PyObject *held = Py_XNewRef(((struct like *)o)->o); /* NULL where the collector has been */
    int failed = array_from(&a, held ? held : Py_None, NULL);
    Py_XDECREF(held);
    if (!failed)
        return array_wrap(a);
    mlx_array_free(a);
    return NULL;
}

static PyMethodDef like_methods[] = {
    { "__mlx_array__", like_array, METH_NOARGS, "__mlx_array__($self)\n--\n\nThe array." },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot like_slots[] = {
    { Py_tp_new, like_new },
    { Py_tp_dealloc, like_dealloc },
    { Py_tp_traverse, like_traverse },
    { Py_tp_clear, like_clear },
    { Py_tp_methods, like_methods },
    { Py_tp_doc, DOC("ArrayLike(arg, /)\n--\n\n"
                     "Something to be taken for an array: an object with __mlx_array__, say.") },
    { 0, NULL },
};
static PyType_Spec like_spec = {
    "mlx.core.ArrayLike", sizeof(struct like), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, like_slots,
};

int methods_init(PyObject *module)
{
    if (!add_type(module, &like_spec))
        return -1;
    PyObject *name = PyModule_GetNameObject(module);
    PyObject *f = name ? PyCFunction_NewEx(&restore_method, NULL, name) : NULL;
    int failed = f ? PyModule_AddObjectRef(module, restore_method.ml_name, f) : -1;
    Py_XDECREF(f);
    Py_XDECREF(name);
    return failed;
}

PyObject *fn_format(struct py_call *c)
{
    PyObject *spec = c->v[1].o;
    if (!PyUnicode_Check(spec))
        return call_refuse(c, 1, "a str");
    if (PyUnicode_GetLength(spec) == 0 && mlx_array_ndim(ARRAY(0)) > 0)
        return PyObject_Str(c->v[0].o);
    if (mlx_array_ndim(ARRAY(0)) > 0) {
        PyErr_SetString(PyExc_TypeError, "unsupported format string passed to mlx.core.array.__format__");
        return NULL;
    }
    PyObject *number = array_item(ARRAY(0));
    PyObject *text = number ? PyObject_Format(number, spec) : NULL;
    Py_XDECREF(number);
    return text;
}
