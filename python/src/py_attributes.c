/* py_attributes.c: a dict whose items are attributes too, which mlx.nn's Module is made from.
 *
 * That an attribute is not there by the rules for all objects is an exception with a text, which costs a layer of a
 * model more than what it computes is to queue; so items are looked for before, where the rules find nothing in the
 * class.  The interpreter's own way to look there is not of the stable ABI: where it is missing, Module.__getattr__,
 * which Python calls after the exception, does the same. */
#define _GNU_SOURCE
#include "py.h"

#include <dlfcn.h>

/* A borrowed reference, or NULL without an exception. */
static PyObject *(*in_class)(PyTypeObject *type, PyObject *name);

/* An attribute of the object's own, else an item; NULL without an exception: there is neither. */
static PyObject *own_or_item(PyObject *o, PyObject *name)
{
    PyObject *own = PyObject_GenericGetDict(o, NULL);
    if (!own && !error_clear_only(PyExc_AttributeError)) /* a class with __slots__ */
        return NULL;
    PyObject *v = own ? PyDict_GetItemWithError(own, name) : NULL;
    if (!v && !PyErr_Occurred())
        v = PyDict_GetItemWithError(o, name);
    Py_XINCREF(v);
    Py_XDECREF(own);
    return v;
}

/* Module.__getattr__, which finds items too; a class with another one finds them by that. */
static PyObject *usual, *getattr_name;

static PyObject *set_usual(PyObject *none, PyObject *f)
{
    (void)none;
    Py_XDECREF(usual);
    usual = Py_NewRef(f);
    Py_RETURN_NONE;
}

static PyObject *get_attribute(PyObject *o, PyObject *name)
{
    PyTypeObject *type = Py_TYPE(o);
    if (in_class && PyUnicode_Check(name) && !in_class(type, name) && in_class(type, getattr_name) == usual) {
        PyObject *v = own_or_item(o, name);
        if (v || PyErr_Occurred())
            return v;
    }
    return PyObject_GenericGetAttr(o, name);
}

/* As of a dict, but that an object holds its class. */

static void *of_dict(int slot) { return PyType_GetSlot(&PyDict_Type, slot); }

static int traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    return ((traverseproc)of_dict(Py_tp_traverse))(o, visit, arg);
}

static int clear(PyObject *o) { return ((inquiry)of_dict(Py_tp_clear))(o); }

static void deallocate(PyObject *o)
{
    PyTypeObject *type = Py_TYPE(o);
    ((destructor)of_dict(Py_tp_dealloc))(o);
    Py_DECREF(type);
}

/* Classes with a __getattr__ of their own call this one by its name: the descriptor of a method takes two thirds of
 * what that of a slot does, which makes a tuple of the name. */
static PyMethodDef methods[] = {
    { "__getattribute__", get_attribute, METH_O | METH_COEXIST, DOC("The attribute, or else the item, of that name.") },
    { "_found_by", set_usual, METH_O | METH_STATIC, DOC("What a class has as __getattr__ that finds items.") },
    { NULL, NULL, 0, NULL },
};

/* A dict has methods of these names, which Python would look for and call in classes that inherit them; slots are
 * inherited as they are. */
static PyObject *subscript(PyObject *o, PyObject *key) { return ((binaryfunc)of_dict(Py_mp_subscript))(o, key); }
static int contains(PyObject *o, PyObject *key) { return ((objobjproc)of_dict(Py_sq_contains))(o, key); }

static PyType_Slot slots[] = {
    { Py_tp_doc, DOC("A dict whose items are attributes too.") },
    { Py_mp_subscript, subscript },
    { Py_sq_contains, contains },
    { Py_tp_getattro, get_attribute },
    { Py_tp_methods, methods },
    { Py_tp_traverse, traverse },
    { Py_tp_clear, clear },
    { Py_tp_dealloc, deallocate },
    { 0, NULL },
};
static PyType_Spec spec = {
    "mlx.core._Attributes", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots,
};

int attributes_init(PyObject *module)
{
    if (!(getattr_name = PyUnicode_InternFromString("__getattr__")))
        return -1;
    void *found = dlsym(RTLD_DEFAULT, "_PyType_Lookup");
    memcpy(&in_class, &found, sizeof in_class);
    PyObject *bases = PyTuple_Pack(1, &PyDict_Type), *type = bases ? PyType_FromSpecWithBases(&spec, bases) : NULL;
    int failed = type ? PyModule_AddObjectRef(module, "_Attributes", type) : -1;
    Py_XDECREF(bases);
    Py_XDECREF(type);
    return failed;
}
