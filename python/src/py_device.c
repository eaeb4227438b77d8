/* py_device.c: devices, streams, and which of them operations run on.
 *
 * A stream handle stays good as long as the process lives, so Stream objects just carry it. */
#include "py.h"

static PyTypeObject *device_type, *stream_type, *local_type, *context_type;
static PyObject *kinds[2]; /* DeviceType.cpu, DeviceType.gpu */
static const char *const kind_names[] = { "cpu", "gpu" };

struct device_object {
    PyObject ob_base;
    mlx_device_type type;
    int index;
};

struct stream_object {
    PyObject ob_base;
    mlx_stream it;
};

struct local_stream {
    PyObject ob_base;
    struct device_object device;
    long number;
};

static void plain_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* Devices */

static PyObject *device_new(mlx_device_type type, int index)
{
    struct device_object *self = PyObject_New(struct device_object, device_type);
    if (self) {
        self->type = type;
        self->index = index;
    }
    return (PyObject *)self;
}

/* A Device or DeviceType; false for anything else. */
static bool device_parts(PyObject *o, mlx_device_type *type, int *index)
{
    *index = 0;
    if (Py_TYPE(o) == device_type) {
        *type = ((struct device_object *)o)->type;
        *index = ((struct device_object *)o)->index;
        return true;
    }
    *type = o == kinds[MLX_GPU] ? MLX_GPU : MLX_CPU;
    return o == kinds[0] || o == kinds[1];
}

int device_from(PyObject *o, mlx_device *out)
{
    mlx_device_type type;
    int index;
    if (!device_parts(o, &type, &index))
        return 1;
    *out = mlx_device_new_type(type, index);
    return out->ctx ? 0 : raise_last();
}

/* The handle of device argument i, to be freed; an empty one with an exception set. */
static mlx_device device_argument(struct py_call *c, int i)
{
    mlx_device d = { NULL };
    if (device_from(c->v[i].o, &d) == 1)
        call_refuse(c, i, "a Device or a DeviceType");
    return d;
}

PyObject *device_object(mlx_device d)
{
    mlx_device_type type;
    int index;
    PyObject *result = NULL;
    if (mlx_device_get_type(&type, d) || mlx_device_get_index(&index, d))
        raise_last();
    else
        result = device_new(type, index);
    return result;
}

/* The same, and the handle is freed. */
static PyObject *device_give(mlx_device d)
{
    PyObject *result = device_object(d);
    mlx_device_free(d);
    return result;
}

static PyObject *make_device(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "type", "index", NULL };
    PyObject *kind, *number = NULL;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Device", (char **)names, &kind, &number))
        return NULL;
    if (kind != kinds[0] && kind != kinds[1]) {
        PyErr_Format(exc_conversion, "Device(): argument 'type' must be a DeviceType, not %s", type_name(kind));
        return NULL;
    }
    int overflow = 0;
    PyObject *n = number ? PyIndex_Check(number) ? PyNumber_Index(number) : NULL : PyLong_FromLong(0);
    long index = n ? PyLong_AsLongAndOverflow(n, &overflow) : 0;
    Py_XDECREF(n);
    if (!n && !PyErr_Occurred())
        PyErr_Format(exc_conversion, "Device(): argument 'index' must be an int, not %s", type_name(number));
    else if (n && (overflow || index < INT_MIN || index > INT_MAX))
        PyErr_Format(exc_overflow, "[Device] expected an int of 32 bits for 'index', got %S", number);
    return PyErr_Occurred() ? NULL : device_new(kind == kinds[1] ? MLX_GPU : MLX_CPU, (int)index);
}

static PyObject *device_repr(PyObject *o)
{
    struct device_object *d = (struct device_object *)o;
    return PyUnicode_FromFormat("Device(%s, %d)", kind_names[d->type], d->index);
}

static PyObject *device_compare(PyObject *a, PyObject *b, int op)
{
    struct device_object *d = (struct device_object *)a;
    mlx_device_type type;
    int index;
    if ((op != Py_EQ && op != Py_NE) || !device_parts(b, &type, &index))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((d->type == type && d->index == index) == (op == Py_EQ));
}

static Py_hash_t device_hash(PyObject *o)
{
    struct device_object *d = (struct device_object *)o;
    return d->index == 0 ? PyObject_Hash(kinds[d->type]) : 1000003 * (d->type + 1) + d->index;
}

static PyObject *device_get_type(PyObject *o, void *unused)
{
    (void)unused;
    return Py_NewRef(kinds[((struct device_object *)o)->type]);
}

static PyObject *device_get_index(PyObject *o, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct device_object *)o)->index);
}

static PyGetSetDef device_properties[] = {
    { "type", device_get_type, NULL, "DeviceType.cpu or DeviceType.gpu.", NULL },
    { "index", device_get_index, NULL, "The number of the device among those of its type.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot device_slots[] = {
    { Py_tp_new, make_device },
    { Py_tp_dealloc, plain_dealloc },
    { Py_tp_repr, device_repr },
    { Py_tp_richcompare, device_compare },
    { Py_tp_hash, device_hash },
    { Py_tp_getset, device_properties },
    { Py_tp_doc, DOC("Device(type, index=0)\n--\n\nA processor that can compute.") },
    { 0, NULL },
};
static PyType_Spec device_spec = { "mlx.core.Device", sizeof(struct device_object), 0, Py_TPFLAGS_DEFAULT,
                                   device_slots };

PyObject *fn_default_device(struct py_call *c)
{
    (void)c;
    mlx_device d = mlx_device_new();
    if (mlx_get_default_device(&d))
        return raise_last(), NULL;
    return device_give(d);
}

PyObject *fn_set_default_device(struct py_call *c)
{
    mlx_device d = device_argument(c, 0);
    if (!d.ctx)
        return NULL;
    int failed = mlx_set_default_device(d);
    mlx_device_free(d);
    if (failed)
        return raise_last(), NULL;
    Py_RETURN_NONE;
}

PyObject *fn_is_available(struct py_call *c)
{
    bool is = false;
    mlx_device d = device_argument(c, 0);
    if (!d.ctx)
        return NULL;
    int failed = mlx_device_is_available(&is, d);
    mlx_device_free(d);
    return failed ? (raise_last(), NULL) : PyBool_FromLong(is);
}

PyObject *fn_device_count(struct py_call *c)
{
    mlx_device_type type;
    int index, n = 0;
    if (!device_parts(c->v[0].o, &type, &index))
        return call_refuse(c, 0, "a DeviceType");
    if (mlx_device_count(&n, type))
        return raise_last(), NULL;
    return PyLong_FromLong(n);
}

/* One fact into the dict. */
static int add_device_fact(PyObject *facts, mlx_device_info info, const char *key)
{
    bool is_text;
    const char *text;
    size_t number;
    PyObject *value = NULL;
    if (mlx_device_info_is_string(&is_text, info, key))
        return raise_last();
    if (is_text) {
        if (mlx_device_info_get_string(&text, info, key))
            return raise_last();
        value = PyUnicode_FromString(text);
    } else {
        if (mlx_device_info_get_size(&number, info, key))
            return raise_last();
        value = PyLong_FromSize_t(number);
    }
    int failed = value ? PyDict_SetItemString(facts, key, value) : -1;
    Py_XDECREF(value);
    return failed;
}

PyObject *fn_device_info(struct py_call *c)
{
    mlx_device d = mlx_device_new();
    if (GIVEN(0))
        d = device_argument(c, 0);
    else if (mlx_get_default_device(&d))
        raise_last();
    if (!d.ctx)
        return NULL;
    mlx_device_info info = mlx_device_info_new();
    mlx_vector_string keys = mlx_vector_string_new();
    PyObject *facts = PyDict_New();
    int failed = !facts;
    if (!failed && (mlx_device_info_get(&info, d) || mlx_device_info_get_keys(&keys, info)))
        failed = raise_last();
    for (size_t i = 0; !failed && i < mlx_vector_string_size(keys); i++) {
        char *key;
        failed = mlx_vector_string_get(&key, keys, i) ? raise_last() : add_device_fact(facts, info, key);
    }
    mlx_vector_string_free(keys);
    mlx_device_info_free(info);
    mlx_device_free(d);
    if (failed)
        Py_CLEAR(facts);
    return facts;
}

/* Streams */

PyObject *stream_object(mlx_stream s)
{
    if (!s.ctx)
        return raise_last(), NULL;
    struct stream_object *self = PyObject_New(struct stream_object, stream_type);
    if (self)
        self->it = s;
    return (PyObject *)self;
}

static int default_stream_of(mlx_device_type type, int index, mlx_stream *out)
{
    mlx_device d = mlx_device_new_type(type, index);
    int failed = !d.ctx || mlx_get_default_stream(out, d);
    mlx_device_free(d);
    return failed ? raise_last() : 0;
}

static int local_stream_here(PyObject *o, mlx_stream *out);

int stream_from(PyObject *o, mlx_stream *out)
{
    mlx_device_type type;
    int index;
    out->ctx = NULL;
    if (o == Py_None)
        return 0;
    if (Py_TYPE(o) == stream_type) {
        *out = ((struct stream_object *)o)->it;
        return 0;
    }
    if (Py_TYPE(o) == local_type)
        return local_stream_here(o, out);
    return device_parts(o, &type, &index) ? default_stream_of(type, index, out) : 1;
}

static PyObject *stream_repr(PyObject *o)
{
    mlx_string text = mlx_string_new();
    PyObject *result = NULL;
    if (mlx_stream_tostring(&text, ((struct stream_object *)o)->it))
        raise_last();
    else
        result = PyUnicode_FromString(mlx_string_data(text));
    mlx_string_free(text);
    return result;
}

static PyObject *stream_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(b) != stream_type || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    bool equal = mlx_stream_equal(((struct stream_object *)a)->it, ((struct stream_object *)b)->it);
    return PyBool_FromLong(equal == (op == Py_EQ));
}

static Py_hash_t stream_hash(PyObject *o) { return (Py_hash_t)((size_t)((struct stream_object *)o)->it.ctx >> 4); }

static PyObject *stream_get_device(PyObject *o, void *unused)
{
    (void)unused;
    mlx_device d = mlx_device_new();
    if (mlx_stream_get_device(&d, ((struct stream_object *)o)->it))
        return raise_last(), NULL;
    return device_give(d);
}

static PyGetSetDef stream_properties[] = {
    { "device", stream_get_device, NULL, "The device that the stream's work runs on.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot stream_slots[] = {
    { Py_tp_dealloc, plain_dealloc },
    { Py_tp_repr, stream_repr },
    { Py_tp_richcompare, stream_compare },
    { Py_tp_hash, stream_hash },
    { Py_tp_getset, stream_properties },
    { Py_tp_doc, DOC("A queue of work: see new_stream and stream.") },
    { 0, NULL },
};
static PyType_Spec stream_spec = {
    "mlx.core.Stream", sizeof(struct stream_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    stream_slots,
};

/* A stream for each thread, kept in the dict that Python has for thread-local things.  Streams stay, so one whose
 * thread has ended goes to the next that needs one: programs may start a thread for every request. */

static const char lease_name[] = "mlx.core.stream of a thread";
struct lease {
    mlx_stream it;
    struct lease *next; /* of those that no thread has */
    mlx_device_type type;
    int index;
};
static struct lease *returned;

static void end_lease(struct lease *l)
{
    l->next = returned;
    returned = l;
}
static void end_capsule(PyObject *capsule) { end_lease(PyCapsule_GetPointer(capsule, lease_name)); }

/* One that a thread has returned, else a new one; NULL with an exception set. */
static struct lease *begin_lease(const struct device_object *on)
{
    struct lease **at = &returned;
    while (*at && ((*at)->type != on->type || (*at)->index != on->index)) at = &(*at)->next;
    struct lease *l = *at;
    if (l)
        return *at = l->next, l;
    l = malloc(sizeof *l);
    if (!l)
        return PyErr_NoMemory(), NULL;
    *l = (struct lease){ .type = on->type, .index = on->index };
    mlx_device d = mlx_device_new_type(on->type, on->index);
    int failed = !d.ctx || mlx_stream_make(&l->it, d);
    mlx_device_free(d);
    if (failed)
        return free(l), raise_last(), NULL;
    return l;
}

static int local_stream_here(PyObject *o, mlx_stream *out)
{
    struct local_stream *self = (struct local_stream *)o;
    PyObject *here = PyThreadState_GetDict();
    if (!here)
        return PyErr_NoMemory(), -1;
    PyObject *mine = PyDict_GetItemWithError(here, o);
    if (mine) {
        *out = ((struct lease *)PyCapsule_GetPointer(mine, lease_name))->it;
        return 0;
    }
    struct lease *l = PyErr_Occurred() ? NULL : begin_lease(&self->device);
    if (!l)
        return -1;
    *out = l->it;
    PyObject *made = PyCapsule_New(l, lease_name, end_capsule);
    if (!made)
        return end_lease(l), -1;
    int failed = PyDict_SetItem(here, o, made);
    Py_DECREF(made);
    return failed;
}

static PyObject *local_repr(PyObject *o)
{
    struct local_stream *s = (struct local_stream *)o;
    return PyUnicode_FromFormat("ThreadLocalStream(Device(%s, %d), %ld)", kind_names[s->device.type], s->device.index,
                                s->number);
}

static PyObject *local_compare(PyObject *a, PyObject *b, int op)
{
    if (Py_TYPE(b) != local_type || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((a == b) == (op == Py_EQ));
}

static Py_hash_t local_hash(PyObject *o) { return (Py_hash_t)((size_t)o >> 4); }

static PyObject *local_get_device(PyObject *o, void *unused)
{
    (void)unused;
    struct local_stream *s = (struct local_stream *)o;
    return device_new(s->device.type, s->device.index);
}

static PyGetSetDef local_properties[] = {
    { "device", local_get_device, NULL, "The device that the streams' work runs on.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};
static PyType_Slot local_slots[] = {
    { Py_tp_dealloc, plain_dealloc },
    { Py_tp_repr, local_repr },
    { Py_tp_richcompare, local_compare },
    { Py_tp_hash, local_hash },
    { Py_tp_getset, local_properties },
    { Py_tp_doc, DOC("A stream for each thread: see new_thread_local_stream.") },
    { 0, NULL },
};
static PyType_Spec local_spec = {
    "mlx.core.ThreadLocalStream",
    sizeof(struct local_stream),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    local_slots,
};

PyObject *fn_new_thread_local_stream(struct py_call *c)
{
    static long count;
    mlx_device d = device_argument(c, 0);
    if (!d.ctx)
        return NULL;
    PyObject *device = device_give(d);
    struct local_stream *self = device ? PyObject_New(struct local_stream, local_type) : NULL;
    if (self) {
        self->device = *(struct device_object *)device;
        self->number = count++;
    }
    Py_XDECREF(device);
    return (PyObject *)self;
}

PyObject *fn_new_stream(struct py_call *c)
{
    mlx_device d = device_argument(c, 0);
    if (!d.ctx)
        return NULL;
    mlx_stream s = { NULL };
    mlx_stream_make(&s, d);
    mlx_device_free(d);
    return stream_object(s);
}

PyObject *fn_new_thread_unsafe_stream(struct py_call *c) { return fn_new_stream(c); }

PyObject *fn_default_stream(struct py_call *c)
{
    mlx_device_type type;
    int index;
    mlx_stream s = { NULL };
    if (!device_parts(c->v[0].o, &type, &index))
        return call_refuse(c, 0, "a Device or a DeviceType");
    return default_stream_of(type, index, &s) ? NULL : stream_object(s);
}

PyObject *fn_set_default_stream(struct py_call *c)
{
    mlx_stream s;
    if (Py_TYPE(c->v[0].o) != stream_type && Py_TYPE(c->v[0].o) != local_type)
        return call_refuse(c, 0, "a Stream");
    if (stream_from(c->v[0].o, &s))
        return NULL;
    if (mlx_set_default_stream(s))
        return raise_last(), NULL;
    Py_RETURN_NONE;
}

static int synchronize(void *stream) { return mlx_synchronize(*(mlx_stream *)stream); }

PyObject *fn_synchronize(struct py_call *c)
{
    if (evaluate_with(synchronize, &c->stream))
        return NULL;
    Py_RETURN_NONE;
}

static int clear_streams(void *unused) { return (void)unused, mlx_clear_streams(); }

PyObject *fn_clear_streams(struct py_call *c)
{
    if (evaluate_with(clear_streams, c))
        return NULL;
    Py_RETURN_NONE;
}

/* with stream(s): ... */

struct context {
    PyObject ob_base;
    PyObject *target;
    PyObject *device, *stream; /* what was in force before, while inside */
};

static PyObject *context_of(PyObject *target)
{
    mlx_device_type type;
    int index;
    mlx_stream s;
    /* Whether a device is there is asked when its stream is entered. */
    if (target == Py_None || (!device_parts(target, &type, &index) && stream_from(target, &s))) {
        if (!PyErr_Occurred())
            PyErr_Format(exc_conversion,
                         "stream(): argument 's' must be a Stream, a ThreadLocalStream, a Device "
                         "or a DeviceType, not %s",
                         type_name(target));
        return NULL;
    }
    struct context *self = PyObject_New(struct context, context_type);
    if (!self)
        return NULL;
    self->target = Py_NewRef(target);
    self->device = self->stream = NULL;
    return (PyObject *)self;
}

PyObject *fn_stream(struct py_call *c) { return context_of(c->v[0].o); }

static PyObject *make_context(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static const char *const names[] = { "s", NULL };
    PyObject *target;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:StreamContext", (char **)names, &target))
        return NULL;
    return context_of(target);
}

static void context_dealloc(PyObject *o)
{
    struct context *self = (struct context *)o;
    Py_DECREF(self->target);
    Py_XDECREF(self->device);
    Py_XDECREF(self->stream);
    plain_dealloc(o);
}

/* Makes a stream and its device the defaults of this thread; *device and *stream get those before, as new
 * references, None for a device that was that of all threads. */
static int enter_stream(mlx_stream s, PyObject **device, PyObject **stream)
{
    mlx_device d = mlx_device_new(), old = { NULL };
    mlx_stream former = { NULL };
    int failed = mlx_stream_get_device(&d, s) || mlx_get_thread_device(&old) || mlx_get_default_stream(&former, d) ||
                 mlx_set_thread_device(d) || mlx_set_default_stream(s);
    mlx_device_free(d);
    if (failed) {
        mlx_device_free(old);
        return raise_last();
    }
    *device = old.ctx ? device_give(old) : Py_NewRef(Py_None);
    *stream = stream_object(former);
    return *device && *stream ? 0 : -1;
}

static PyObject *stream_context_enter(PyObject *o, PyObject *unused)
{
    (void)unused;
    struct context *self = (struct context *)o;
    mlx_stream s;
    if (self->device) {
        PyErr_SetString(exc_value, "this StreamContext is in use already");
        return NULL;
    }
    if (stream_from(self->target, &s) || enter_stream(s, &self->device, &self->stream))
        return raise_called("stream"), NULL;
    Py_RETURN_NONE;
}

static PyObject *stream_context_exit(PyObject *o, PyObject *args)
{
    (void)args;
    struct context *self = (struct context *)o;
    if (!self->device)
        Py_RETURN_NONE;
    struct device_object *before = self->device == Py_None ? NULL : (struct device_object *)self->device;
    mlx_device d = { NULL };
    if (before)
        d = mlx_device_new_type(before->type, before->index);
    int failed = (before && !d.ctx) || mlx_set_default_stream(((struct stream_object *)self->stream)->it) ||
                 mlx_set_thread_device(d);
    mlx_device_free(d);
    Py_CLEAR(self->device);
    Py_CLEAR(self->stream);
    if (failed)
        return raise_last(), NULL;
    Py_RETURN_NONE;
}

static PyMethodDef context_methods[] = {
    { "__enter__", stream_context_enter, METH_NOARGS, "__enter__($self)\n--\n\nFrom here on operations run there." },
    { "__exit__", stream_context_exit, METH_VARARGS,
      "__exit__($self, exc_type=None, exc_value=None, traceback=None)\n--\n\nAs it was before." },
    { NULL, NULL, 0, NULL },
};
static PyType_Slot context_slots[] = {
    { Py_tp_new, make_context },
    { Py_tp_dealloc, context_dealloc },
    { Py_tp_methods, context_methods },
    { Py_tp_doc, DOC("StreamContext(s)\n--\n\nWhat stream(s) gives.") },
    { 0, NULL },
};
static PyType_Spec context_spec = {
    "mlx.core.StreamContext", sizeof(struct context), 0, Py_TPFLAGS_DEFAULT, context_slots,
};

int device_init(PyObject *module)
{
    if (!add_enum(module, "DeviceType", kind_names, 2, kinds))
        return -1;
    device_type = add_type(module, &device_spec);
    stream_type = add_type(module, &stream_spec);
    local_type = add_type(module, &local_spec);
    context_type = add_type(module, &context_spec);
    return device_type && stream_type && local_type && context_type ? 0 : -1;
}
