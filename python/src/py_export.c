/* py_export.c: functions in files.
 *
 * An exporter calls the Python function with arrays in place of the examples; whatever it raises comes
 * out unchanged.  What is told about a graph arrives as JSON, which mlx/_export.py makes objects of. */
#include "py_function.h"

#include <string.h>

/* ---- arguments: arrays by position and by name, or one list or tuple and/or one dict of arrays */

struct inputs {
    mlx_vector_array args;
    mlx_map_string_to_array kwargs;
};

static int refuse_export(const char *who)
{
    PyErr_Format(exc_value,
                 "[%s] expected arrays by position and by keyword, or a list or tuple and/or a dict of arrays", who);
    return -1;
}

static int add_items(const char *who, PyObject *sequence, mlx_vector_array out)
{
    PyObject *items = items_now(sequence);
    int failed = items ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_Size(items); i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        failed = !is_array(item)                                       ? refuse_export(who)
                 : mlx_vector_array_append_value(out, handle_of(item)) ? raise_last()
                                                                       : 0;
    }
    Py_XDECREF(items);
    return failed;
}

static int add_named(const char *who, PyObject *dict, mlx_map_string_to_array out)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        if (!PyUnicode_Check(key) || !is_array(value))
            return refuse_export(who);
        const char *name = text_from(who, key);
        if (!name)
            return -1;
        if (mlx_map_string_to_array_insert(out, name, handle_of(value)))
            return raise_last();
    }
    return 0;
}

/* Of args from `first` on.  Frees nothing on failure. */
static int inputs_of(const char *who, PyObject *args, Py_ssize_t first, PyObject *kwargs, struct inputs *in)
{
    Py_ssize_t n = PyTuple_Size(args) - first;
    in->args = mlx_vector_array_new();
    in->kwargs = mlx_map_string_to_array_new();
    if (!in->args.ctx || !in->kwargs.ctx)
        return raise_last();
    PyObject *a = n > 0 ? PyTuple_GetItem(args, first) : NULL, *b = n > 1 ? PyTuple_GetItem(args, first + 1) : NULL;
    bool named = kwargs && PyDict_Size(kwargs) > 0;
    if (a && is_list(a) && !named && (n == 1 || (n == 2 && PyDict_Check(b))))
        return add_items(who, a, in->args) || (b && add_named(who, b, in->kwargs)) ? -1 : 0;
    if (a && n == 1 && PyDict_Check(a) && !named)
        return add_named(who, a, in->kwargs);
    PyObject *rest = PyTuple_GetSlice(args, first, first + n);
    int failed = rest ? add_items(who, rest, in->args) : -1;
    Py_XDECREF(rest);
    return failed || (named && add_named(who, kwargs, in->kwargs)) ? -1 : 0;
}

static void inputs_free(struct inputs *in)
{
    mlx_vector_array_free(in->args);
    mlx_map_string_to_array_free(in->kwargs);
}

/* ---- the function */

static PyObject *dict_of(mlx_map_string_to_array map)
{
    PyObject *dict = PyDict_New();
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(map);
    const char *key;
    mlx_array value = mlx_array_new();
    while (dict && it.ctx && !mlx_map_string_to_array_iterator_next(&key, &value, it)) {
        mlx_array own = mlx_array_new();
        PyObject *o = array_result(mlx_array_set(&own, value), own);
        if (!o || PyDict_SetItemString(dict, key, o))
            Py_CLEAR(dict);
        Py_XDECREF(o);
    }
    mlx_array_free(value);
    mlx_map_string_to_array_iterator_free(it);
    return dict;
}

static int call_function_of(mlx_vector_array *res, const mlx_vector_array in, const mlx_map_string_to_array named,
                            void *payload)
{
    struct python_call *p = payload;
    PyObject *args = vector_items(in), *kwargs = args ? dict_of(named) : NULL;
    PyObject *value = kwargs ? PyObject_Call(p->fun, args, kwargs) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
    int failed = !value || check_arrays(p->who, value) || tree_arrays(value, *res, NULL);
    Py_XDECREF(value);
    if (failed)
        keep_error(p);
    return failed;
}

static void let_go(void *payload) { release_soon(payload); }

static struct python_call *calling(const char *who, PyObject *fun)
{
    PyObject *none = PyTuple_New(0);
    struct python_call *p = none ? python_call_new(who, fun, none, NULL) : NULL;
    Py_XDECREF(none);
    return p;
}

/* ---- listeners */

static PyObject *helper(const char *name)
{
    PyObject *module = PyImport_ImportModule("mlx._export");
    PyObject *f = module ? PyObject_GetAttrString(module, name) : NULL;
    Py_XDECREF(module);
    return f;
}

static int hear_in_python(const char *event, const mlx_vector_array constants, void *payload)
{
    struct python_call *p = payload;
    PyObject *arrays = vector_items(constants), *make = arrays ? helper("event") : NULL;
    PyObject *dict = make ? PyObject_CallFunction(make, "sO", event, arrays) : NULL;
    PyObject *done = dict ? PyObject_CallFunctionObjArgs(p->fun, dict, NULL) : NULL;
    Py_XDECREF(arrays);
    Py_XDECREF(make);
    Py_XDECREF(dict);
    if (!done)
        keep_error(p);
    Py_XDECREF(done);
    return !done;
}

/* ---- exporters */

struct exporter_object {
    PyObject ob_base;
    mlx_function_exporter it;
    mlx_closure_kwargs f;
    struct python_call *p, *listener; /* owned by what they are payload of */
};
static PyTypeObject *exporter_type;

/* The path in the file system's encoding. */
static PyObject *path_of(const char *who, PyObject *file)
{
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(file, &path)) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            PyErr_Format(exc_conversion, "[%s] expected a path, got %s", who, type_name(file));
        }
        return NULL;
    }
    return path;
}

struct export_options {
    bool shapeless, portable;
    PyObject *metadata; /* str, or NULL */
};

/* An exporter to a path, or to a callable. */
static struct exporter_object *exporter_object_made(const char *who, PyObject *file, PyObject *fun,
                                                    const struct export_options *o)
{
    Py_ssize_t length = 0;
    const char *metadata = o->metadata ? PyUnicode_AsUTF8AndSize(o->metadata, &length) : "";
    bool to_listener = PyCallable_Check(file);
    PyObject *path = NULL;
    if (!metadata || (!to_listener && !(path = path_of(who, file))))
        return NULL;
    if (to_listener && length) {
        PyErr_Format(exc_value, "[%s] metadata belongs to files, not to callbacks", who);
        return NULL;
    }
    struct exporter_object *e = PyObject_GC_New(struct exporter_object, exporter_type);
    if (!e) {
        Py_XDECREF(path);
        return NULL;
    }
    e->it.ctx = e->f.ctx = NULL;
    e->p = e->listener = NULL;
    e->p = calling(who, fun);
    if (e->p && !(e->f = mlx_closure_kwargs_new_func_payload(call_function_of, e->p, let_go)).ctx)
        release_soon(&e->p->released);
    if (e->f.ctx && to_listener) {
        e->listener = calling(who, file);
        if (e->listener)
            e->it = mlx_function_exporter_new_callback(hear_in_python, e->listener, let_go, e->f, o->shapeless,
                                                       o->portable);
        if (e->listener && !e->it.ctx)
            release_soon(&e->listener->released);
    } else if (e->f.ctx) {
        e->it = mlx_function_exporter_new_kwargs(PyBytes_AsString(path), e->f, o->shapeless, o->portable, metadata,
                                                 (size_t)length);
    }
    Py_XDECREF(path);
    if (!e->it.ctx) {
        raise_last();
        Py_DECREF(e);
        release_now();
        return NULL;
    }
    PyObject_GC_Track(e);
    return e;
}

static int exporter_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct exporter_object *e = (struct exporter_object *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(e->p->fun);
    if (e->listener)
        Py_VISIT(e->listener->fun);
    return 0;
}

static void forget_call(struct python_call *p)
{
    PyObject *fun = p->fun;
    p->fun = Py_NewRef(Py_None);
    Py_DECREF(fun);
}

static int exporter_clear(PyObject *self)
{
    struct exporter_object *e = (struct exporter_object *)self;
    forget_call(e->p);
    if (e->listener)
        forget_call(e->listener);
    return 0;
}

static void exporter_dealloc(PyObject *self)
{
    struct exporter_object *e = (struct exporter_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (e->it.ctx)
        mlx_function_exporter_free(e->it);
    if (e->f.ctx)
        mlx_closure_kwargs_free(e->f);
    release_now();
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int export_call(struct exporter_object *e, const char *who, PyObject *args, Py_ssize_t first, PyObject *kwargs)
{
    struct inputs in = { { NULL }, { NULL } };
    int failed = inputs_of(who, args, first, kwargs, &in);
    if (!failed && mlx_function_exporter_apply_kwargs(e->it, in.args, in.kwargs)) {
        if (e->listener && e->listener->error)
            raise_from(e->listener);
        else
            raise_from(e->p);
        failed = -1;
    }
    if (!failed && mlx_function_exporter_sizes_read(e->it))
        failed = PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                                  "[%s] the function looks at sizes of its arguments, which "
                                  "stay what they were in calls with other shapes; -1, flatten, unflatten and mean "
                                  "follow them",
                                  who);
    inputs_free(&in);
    release_now();
    return failed;
}

static PyObject *exporter_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    if (export_call((struct exporter_object *)self, "exporter", args, 0, kwargs))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *close_keeping(struct exporter_object *e, bool keep)
{
    if (mlx_function_exporter_close(e->it, keep))
        return raise_last(), NULL;
    Py_RETURN_NONE;
}

static PyObject *exporter_object_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    return close_keeping((struct exporter_object *)self, true);
}

static PyObject *exporter_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}

/* After an exception an older file stays, and one without a trace is not put in place. */
static PyObject *exporter_exit(PyObject *self, PyObject *args)
{
    PyObject *type = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : Py_None;
    return close_keeping((struct exporter_object *)self, type == Py_None);
}

static PyMethodDef exporter_methods[] = {
    { "close", exporter_object_close, METH_NOARGS,
      "close($self)\n--\n\nClose the file; nothing more can be exported to it." },
    { "__enter__", exporter_enter, METH_NOARGS, "__enter__($self)\n--\n\nThe exporter itself." },
    { "__exit__", exporter_exit, METH_VARARGS,
      "__exit__($self, exc_type=None, exc_value=None, traceback=None)\n--\n\nClose the file." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot exporter_slots[] = {
    { Py_tp_dealloc, exporter_dealloc },
    { Py_tp_traverse, exporter_traverse },
    { Py_tp_clear, exporter_clear },
    { Py_tp_call, exporter_call },
    { Py_tp_methods, exporter_methods },
    { Py_tp_doc, DOC("What exporter gives: called with example arguments, it adds a trace of the function\n"
                     "to the file.  In a ``with`` statement it is closed at the end.") },
    { 0, NULL },
};
static PyType_Spec exporter_spec = {
    "mlx.core.FunctionExporter",
    sizeof(struct exporter_object),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    exporter_slots,
};

/* Takes the options out of kwargs, a copy of the caller's. */
static int options_of(const char *who, PyObject *kwargs, struct export_options *o)
{
    static const char *const names[] = { "shapeless", "portable", "metadata" };
    *o = (struct export_options){ .portable = true };
    for (size_t i = 0; i < LENGTH(names); i++) {
        PyObject *v = PyDict_GetItemString(kwargs, names[i]);
        if (!v)
            continue;
        int truth = i < 2 && PyBool_Check(v) ? v == Py_True : -1;
        if (i < 2 ? truth < 0 : v != Py_None && !PyUnicode_Check(v)) {
            PyErr_Format(exc_conversion, "[%s] expected %s to be a %s, got %s", who, names[i], i < 2 ? "bool" : "str",
                         type_name(v));
            return -1;
        }
        if (i == 0)
            o->shapeless = truth;
        else if (i == 1)
            o->portable = truth;
        else
            o->metadata = v == Py_None ? NULL : Py_NewRef(v);
        if (PyDict_DelItemString(kwargs, names[i]))
            return -1;
    }
    return 0;
}

/* Argument i, given by position or by name; taken out of kwargs. */
static PyObject *required(const char *who, PyObject *args, Py_ssize_t i, PyObject *kwargs, const char *name)
{
    if (i < PyTuple_Size(args))
        return Py_NewRef(PyTuple_GetItem(args, i));
    PyObject *v = Py_XNewRef(PyDict_GetItemString(kwargs, name));
    if (!v)
        PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", who, name);
    else if (PyDict_DelItemString(kwargs, name))
        Py_CLEAR(v);
    return v;
}

static PyObject *export_function(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static const char who[] = "export_function";
    (void)m;
    struct export_options o = { .metadata = NULL };
    PyObject *rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New(), *file = NULL, *fun = NULL, *result = NULL;
    struct exporter_object *e = NULL;
    if (!rest || !(file = required(who, args, 0, rest, "file_or_callback")) ||
        !(fun = required(who, args, 1, rest, "fun")) || options_of(who, rest, &o))
        goto done;
    if (!PyCallable_Check(fun)) {
        PyErr_Format(PyExc_TypeError, "[%s] expected fun to be callable, got %s", who, type_name(fun));
        goto done;
    }
    e = exporter_object_made(who, file, fun, &o);
    Py_ssize_t first = PyTuple_Size(args) < 2 ? PyTuple_Size(args) : 2;
    if (!e)
        goto done;
    if (export_call(e, who, args, first, rest)) {
        PyObject *error = error_take();
        mlx_function_exporter_close(e->it, false);
        error_put(error);
        goto done;
    }
    result = close_keeping(e, true);
done:
    Py_XDECREF(rest);
    Py_XDECREF(file);
    Py_XDECREF(fun);
    Py_XDECREF(o.metadata);
    Py_XDECREF((PyObject *)e);
    return result;
}

static PyObject *exporter(PyObject *m, PyObject *args, PyObject *kwargs)
{
    static const char who[] = "exporter";
    (void)m;
    struct export_options o = { .metadata = NULL };
    PyObject *rest = kwargs ? PyDict_Copy(kwargs) : PyDict_New(), *file = NULL, *fun = NULL;
    struct exporter_object *e = NULL;
    if (rest && (file = required(who, args, 0, rest, "file")) && (fun = required(who, args, 1, rest, "fun")) &&
        !options_of(who, rest, &o)) {
        if (PyTuple_Size(args) > 2 || PyDict_Size(rest) > 0)
            PyErr_SetString(PyExc_TypeError, "exporter() takes file, fun, shapeless, metadata and portable");
        else if (!PyCallable_Check(fun))
            PyErr_Format(PyExc_TypeError, "[%s] expected fun to be callable, got %s", who, type_name(fun));
        else
            e = exporter_object_made(who, file, fun, &o);
    }
    Py_XDECREF(rest);
    Py_XDECREF(file);
    Py_XDECREF(fun);
    Py_XDECREF(o.metadata);
    return (PyObject *)e;
}

/* ---- imported functions */

struct imported_object {
    PyObject ob_base;
    mlx_imported_function it;
    PyObject *path, *weak;
};
static PyTypeObject *imported_type;

static int imported_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct imported_object *)self)->path);
    return 0;
}

static int imported_clear(PyObject *self)
{
    Py_CLEAR(((struct imported_object *)self)->path);
    return 0;
}

static void imported_dealloc(PyObject *self)
{
    struct imported_object *f = (struct imported_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (f->weak)
        PyObject_ClearWeakRefs(self);
    mlx_imported_function_free(f->it);
    imported_clear(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *imported_object_call(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct inputs in = { { NULL }, { NULL } };
    mlx_vector_array y = mlx_vector_array_new();
    PyObject *result = NULL;
    if (!inputs_of("import_function::call", args, 0, kwargs, &in)) {
        if (mlx_imported_function_apply_kwargs(&y, ((struct imported_object *)self)->it, in.args, in.kwargs))
            raise_last();
        else
            result = vector_items(y);
    }
    inputs_free(&in);
    mlx_vector_array_free(y);
    return result;
}

static PyObject *imported_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<imported function of %R>", ((struct imported_object *)self)->path);
}

static PyMemberDef imported_members[] = {
    { "__weaklistoffset__", T_PYSSIZET, offsetof(struct imported_object, weak), READONLY, NULL },
    { NULL, 0, 0, 0, NULL },
};
static PyType_Slot imported_slots[] = {
    { Py_tp_dealloc, imported_dealloc },
    { Py_tp_traverse, imported_traverse },
    { Py_tp_clear, imported_clear },
    { Py_tp_call, imported_object_call },
    { Py_tp_repr, imported_repr },
    { Py_tp_members, imported_members },
    { Py_tp_doc, DOC("What import_function gives: called with arrays, it returns a tuple of arrays.") },
    { 0, NULL },
};
static PyType_Spec imported_spec = {
    "mlx.core._ImportedFunction",
    sizeof(struct imported_object),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    imported_slots,
};

PyObject *fn_import_function(struct py_call *c)
{
    PyObject *path = path_of("import_function", c->v[0].o);
    if (!path)
        return NULL;
    mlx_imported_function it = mlx_imported_function_new(PyBytes_AsString(path));
    Py_DECREF(path);
    if (!it.ctx)
        return raise_last(), NULL;
    struct imported_object *f = PyObject_GC_New(struct imported_object, imported_type);
    if (!f) {
        mlx_imported_function_free(it);
        return NULL;
    }
    f->it = it;
    f->path = Py_NewRef(c->v[0].o);
    f->weak = NULL;
    PyObject_GC_Track((PyObject *)f);
    if (!BOOL(1))
        return (PyObject *)f;
    const char *text = "";
    size_t n = 0;
    PyObject *metadata = NULL, *both = NULL;
    if (mlx_imported_function_metadata(&text, &n, it))
        raise_last();
    else
        metadata = PyUnicode_DecodeUTF8(text, (Py_ssize_t)n, NULL);
    if (metadata)
        both = PyTuple_Pack(2, (PyObject *)f, metadata);
    Py_XDECREF(metadata);
    Py_DECREF((PyObject *)f);
    return both;
}

PyObject *fn_inspect_function(struct py_call *c)
{
    PyObject *path = path_of("inspect_function", c->v[0].o), *make = path ? helper("inspected") : NULL, *result = NULL;
    mlx_string json = { NULL };
    if (make && mlx_inspect_function(&json, PyBytes_AsString(path)))
        raise_last();
    else if (make)
        result = PyObject_CallFunction(make, "s", mlx_string_data(json));
    mlx_string_free(json);
    Py_XDECREF(path);
    Py_XDECREF(make);
    return result;
}

static PyMethodDef functions[] = {
    { "export_function", (PyCFunction)(void (*)(void))export_function, METH_VARARGS | METH_KEYWORDS,
      "export_function(file_or_callback, fun, *args, shapeless=False, metadata=None, **kwargs)\n--\n\n"
      "Trace ``fun`` on arrays like ``args`` and ``kwargs`` and write the graph to a file, from which\n"
      "``import_function`` makes a function again, here, in C or in the mlx package. The arrays are given by\n"
      "position and by keyword, or as one list or tuple and/or one dict. ``fun`` returns an array or a list or\n"
      "tuple of them; arrays that it knows from elsewhere are constants of the file (evaluate them first: of\n"
      "one that has no value yet the operations are written that make it). With ``shapeless`` it can be called\n"
      "with other shapes of the same ranks, but sizes that ``fun`` reads stay what they were: a warning says so.\n"
      "An operation that only this library has is an error unless the keyword argument ``portable`` is False\n"
      "(it is True); those of registered libraries are written either way. For any shape, the mlx package runs\n"
      "no Fourier transforms, factorizations, inverses and views of another dtype. An older file stays as it is\n"
      "until the new one is complete.\n\n"
      "Instead of a path there may be a function: it is called with dicts that tell inputs, outputs, constants\n"
      "and operations one by one." },
    { "exporter", (PyCFunction)(void (*)(void))exporter, METH_VARARGS | METH_KEYWORDS,
      "exporter(file, fun, *, shapeless=False, metadata=None)\n--\n\n"
      "An exporter of several traces of one function: call it with the example arguments of each. The file\n"
      "keeps constants that traces share once, and holds every trace as soon as the call has returned. An\n"
      "older file stays until the exporter is closed, and after an exception in its ``with`` statement. The\n"
      "keyword argument ``portable`` is that of ``export_function``." },
    { NULL, NULL, 0, NULL },
};

int export_init(PyObject *module)
{
    exporter_type = method_docs("FunctionExporter", exporter_methods) ? NULL : add_type(module, &exporter_spec);
    imported_type = exporter_type ? add_type(module, &imported_spec) : NULL;
    return imported_type ? add_functions(module, functions) : -1;
}
