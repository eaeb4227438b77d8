/* py_constants.c: what tells constants apart.
 *
 * A key is a list in the making, of what is hashed and compared: two things are the same to every function where they
 * put the same into it.  The attributes that a container has beside its items, a module's numbers and modes, say, are
 * constants too. */
#include "py_function.h"

#include <math.h>

static PyObject *nan_mark, *negative_zero_mark;
static PyTypeObject *same_type;

static int put_constant(PyObject *key, PyObject *o) { return PyList_Append(key, o); }

int key_put_int(PyObject *key, Py_ssize_t n)
{
    PyObject *o = PyLong_FromSsize_t(n);
    int failed = o ? put_constant(key, o) : -1;
    Py_XDECREF(o);
    return failed;
}

/* ---- constants */

static PyObject *mark_of(double v, PyObject *otherwise)
{
    return v != v ? nan_mark : v == 0 && signbit(v) ? negative_zero_mark : otherwise;
}

static int put_parts(PyObject *key, PyObject *o)
{
    double v[2] = { PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o) };
    int failed = PyErr_Occurred() ? -1 : 0;
    for (int i = 0; i < 2 && !failed; i++) {
        PyObject *part = PyFloat_FromDouble(v[i]);
        failed = part ? put_constant(key, mark_of(v[i], part)) : -1;
        Py_XDECREF(part);
    }
    return failed;
}

static int put_members(PyObject *key, PyObject *tuple)
{
    int failed = Py_EnterRecursiveCall(" in a constant of a compiled function");
    if (failed)
        return -1;
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple) && !failed; i++)
        failed = key_put_constant(key, PyTuple_GetItem(tuple, i));
    Py_LeaveRecursiveCall();
    return failed ? -1 : 0;
}

/* The members of a set or a frozenset, in no order. */
static int put_set(PyObject *key, PyObject *set)
{
    if (!PySet_Size(set))
        return put_constant(key, Py_None);
    PyObject *members = PySequence_List(set), *keys = members ? PyList_New(0) : NULL;
    int failed = keys ? 0 : -1;
    for (Py_ssize_t i = 0; !failed && i < PyList_Size(members); i++) {
        PyObject *parts = PyList_New(0), *member = PyTuple_Pack(1, PyList_GetItem(members, i));
        PyObject *one = parts && member && !put_members(parts, member) ? PyList_AsTuple(parts) : NULL;
        failed = one ? PyList_Append(keys, one) : -1;
        Py_XDECREF(one);
        Py_XDECREF(member);
        Py_XDECREF(parts);
    }
    PyObject *all = failed ? NULL : PyFrozenSet_New(keys);
    failed = all ? put_constant(key, all) : -1;
    Py_XDECREF(all);
    Py_XDECREF(keys);
    Py_XDECREF(members);
    return failed;
}

/* The fields of a dataclass, whether it compares its instances by them or not; NULL where they do not tell what o is,
 * with an exception or without. */
static PyObject *constant_fields(PyObject *o)
{
    PyObject *own = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__dict__");
    PyObject *fields = own ? PyMapping_GetItemString(own, "__dataclass_fields__") : NULL;
    PyObject *names = fields ? PySequence_List(fields) : NULL, *values = names ? PyList_New(0) : NULL;
    for (Py_ssize_t i = 0; values && i < PyList_Size(names); i++) {
        PyObject *v = PyObject_GetAttr(o, PyList_GetItem(names, i));
        if (!v || PyObject_Hash(v) == -1 || PyList_Append(values, v))
            Py_CLEAR(values);
        Py_XDECREF(v);
    }
    PyErr_Clear(); /* what cannot be read or hashed */
    PyObject *all = values ? PyList_AsTuple(values) : NULL;
    Py_XDECREF(values);
    Py_XDECREF(names);
    Py_XDECREF(fields);
    Py_XDECREF(own);
    return all;
}

static bool compares_as(PyObject *o, PyTypeObject *type)
{
    return PyType_GetSlot(Py_TYPE(o), Py_tp_richcompare) == PyType_GetSlot(type, Py_tp_richcompare);
}

static bool is_our_object(PyObject *o)
{
    static const char *const types[] = { "Dtype", "Device", "Stream", "ThreadLocalStream", "DeviceType" };
    for (size_t i = 0; i < LENGTH(types); i++)
        if (!strcmp(type_name(o), types[i]))
            return true;
    return false;
}

/* The kinds that are met most often, of which those that equal each other are the same. */
static bool is_simple(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyBool_Type || o == Py_None;
}

/* Are objects of its type that equal each other the same to every function? */
static bool is_plain_constant(PyObject *o)
{
    bool attributes = PyType_GetFlags(Py_TYPE(o)) & Py_TPFLAGS_HEAPTYPE; /* a class may add some */
    bool number = PyUnicode_Check(o) || PyLong_Check(o) || PyFloat_Check(o) || PyBytes_Check(o);
    return compares_as(o, &PyBaseObject_Type) || (!attributes && (number || PyCallable_Check(o))) || is_our_object(o);
}

/* Constants that equal each other but are not the same: 1, 1.0 and True; 0.0 and -0.0; NaN equals none; and whatever
 * the __eq__ of a class says.  They may be parts of a complex number, members of a tuple or a frozenset and fields of
 * a dataclass.  Anything else with an __eq__ of its own is the same as itself alone. */
int key_put_constant(PyObject *key, PyObject *o)
{
    if (is_simple(o))
        return put_constant(key, (PyObject *)Py_TYPE(o)) || put_constant(key, o) ? -1 : 0;
    if (PyFloat_Check(o))
        o = mark_of(PyFloat_AsDouble(o), o);
    if (put_constant(key, (PyObject *)Py_TYPE(o)))
        return -1;
    if (PyComplex_Check(o))
        return put_parts(key, o);
    if (Py_TYPE(o) == &PyFrozenSet_Type)
        return put_set(key, o);
    if (put_constant(key, o))
        return -1;
    if (is_plain_constant(o))
        return 0;
    if (PyTuple_Check(o) && compares_as(o, &PyTuple_Type))
        return put_members(key, o);
    PyObject *fields = constant_fields(o), *id = fields ? NULL : PyLong_FromVoidPtr(o);
    int failed = fields ? put_members(key, fields) : id ? put_constant(key, id) : -1;
    Py_XDECREF(fields);
    Py_XDECREF(id);
    return failed;
}

bool is_constant(PyObject *o)
{
    if (o == Py_None || o == Py_Ellipsis || PyUnicode_Check(o) || PyLong_Check(o) || PyFloat_Check(o) ||
        PyBytes_Check(o) || PyComplex_Check(o) || PyCallable_Check(o) || PyObject_HasAttrString(o, "__enum_member__"))
        return PyObject_HasAttrString(o, "__hash__");
    if (is_our_object(o))
        return true;
    PyObject *enumeration = PyObject_GetAttrString((PyObject *)Py_TYPE(o), "__members__");
    if (!enumeration)
        PyErr_Clear();
    Py_XDECREF(enumeration);
    return enumeration != NULL;
}

/* A constant as it is told, cut short. */
PyObject *constant_shown(PyObject *o)
{
    if (o == nan_mark || o == negative_zero_mark)
        return PyUnicode_FromString(o == nan_mark ? "nan" : "-0.0");
    PyObject *text = PyObject_Repr(o);
    if (!text || PyUnicode_GetLength(text) <= 60)
        return text;
    PyObject *start = PyUnicode_Substring(text, 0, 60), *cut = start ? PyUnicode_FromFormat("%U...", start) : NULL;
    Py_DECREF(text);
    Py_XDECREF(start);
    return cut;
}

/* ---- attributes */

/* What is the same as itself alone, and stays while a key has it.  Of an array it is the value that the object has
 * now. */
struct same {
    PyObject ob_base;
    PyObject *o;
    uintptr_t id;
};

static int put_same(PyObject *key, PyObject *o)
{
    mlx_array now = mlx_array_new();
    PyObject *held = Py_NewRef(o);
    if (is_array(o)) {
        Py_DECREF(held);
        held = array_result(mlx_array_set(&now, handle_of(o)), now);
    }
    struct same *s = held ? PyObject_GC_New(struct same, same_type) : NULL;
    if (!s) {
        Py_XDECREF(held);
        return -1;
    }
    s->o = held;
    s->id = is_array(held) ? mlx_array_id(handle_of(held)) : (uintptr_t)held;
    PyObject_GC_Track((PyObject *)s);
    int failed = put_constant(key, (PyObject *)s);
    Py_DECREF((PyObject *)s);
    return failed;
}

static PyObject *same_compare(PyObject *a, PyObject *b, int op)
{
    if ((op != Py_EQ && op != Py_NE) || Py_TYPE(b) != same_type)
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((struct same *)a)->id == ((struct same *)b)->id) == (op == Py_EQ));
}

static Py_hash_t same_hash(PyObject *o) { return (Py_hash_t)(((struct same *)o)->id >> 4); }
static PyObject *same_repr(PyObject *o) { return PyObject_Repr(((struct same *)o)->o); }

/* Without tp_clear: a cycle goes through what has the key. */
static int same_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(((struct same *)o)->o);
    return 0;
}

static void same_dealloc(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    Py_XDECREF(((struct same *)o)->o);
    PyObject_GC_Del(o);
    Py_DECREF(type);
}

static PyType_Slot same_slots[] = {
    { Py_tp_dealloc, same_dealloc }, { Py_tp_traverse, same_traverse }, { Py_tp_richcompare, same_compare },
    { Py_tp_hash, same_hash },       { Py_tp_repr, same_repr },         { 0, NULL },
};
static PyType_Spec same_spec = {
    "mlx.core._Same",
    sizeof(struct same),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    same_slots,
};

static int put_constant_value(PyObject *key, PyObject *o);

static int put_items(PyObject *key, PyObject *list)
{
    PyObject *items = items_now(list);
    int failed = items ? key_put_int(key, PyTuple_Size(items)) : -1;
    for (Py_ssize_t i = 0; !failed && i < PyTuple_Size(items); i++)
        failed = put_constant_value(key, PyTuple_GetItem(items, i));
    Py_XDECREF(items);
    return failed;
}

static int put_dict(PyObject *key, PyObject *dict)
{
    PyObject *items = PyDict_Items(dict);
    int failed = items ? put_items(key, items) : -1;
    Py_XDECREF(items);
    return failed;
}

/* What cannot be hashed: a dataclass by its fields, all else by what object it is. */
static int put_unhashable(PyObject *key, PyObject *o)
{
    PyObject *fields = constant_fields(o);
    int failed = fields ? put_members(key, fields) : put_same(key, o);
    Py_XDECREF(fields);
    return failed;
}

/* The value of an attribute: a constant, Python's own containers of these, and objects of whatever kind.  A container
 * of a class of its own is an object: it may lead back to the one that has the attribute. */
static int put_constant_value(PyObject *key, PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    if (is_simple(o) || type == &PyFloat_Type)
        return key_put_constant(key, o);
    if (is_array(o))
        return put_same(key, o);
    bool list = type == &PyList_Type || type == &PyTuple_Type, set = type == &PySet_Type;
    if (list || set || type == &PyDict_Type) {
        if (put_constant(key, (PyObject *)type) || Py_EnterRecursiveCall(" in an attribute of a container"))
            return -1;
        int failed = list ? put_items(key, o) : set ? put_set(key, o) : put_dict(key, o);
        Py_LeaveRecursiveCall();
        return failed;
    }
    if (PyObject_Hash(o) != -1)
        return key_put_constant(key, o);
    if (!PyErr_ExceptionMatches(PyExc_TypeError))
        return -1;
    PyErr_Clear();
    return put_constant(key, (PyObject *)type) ? -1 : put_unhashable(key, o);
}

PyObject *value_key(PyObject *o)
{
    PyObject *key = PyList_New(0), *all = key && !put_constant_value(key, o) ? PyList_AsTuple(key) : NULL;
    Py_XDECREF(key);
    return all;
}

int key_put_attributes(PyObject *key, PyObject *container)
{
    PyObject *name, *value, *attributes = container_attributes(container);
    if (!attributes)
        return PyErr_Occurred() ? -1 : put_constant(key, Py_None);
    Py_ssize_t at = 0, size = PyDict_Size(attributes);
    int failed = key_put_int(key, size);
    while (!failed && PyDict_Size(attributes) == size && PyDict_Next(attributes, &at, &name, &value)) {
        Py_INCREF(value);
        failed = put_constant(key, name) || put_constant_value(key, value);
        Py_DECREF(value);
    }
    Py_DECREF(attributes);
    return failed ? -1 : 0;
}

int constants_init(PyObject *module)
{
    nan_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    negative_zero_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    same_type = add_type(module, &same_spec);
    return nan_mark && negative_zero_mark && same_type ? 0 : -1;
}
