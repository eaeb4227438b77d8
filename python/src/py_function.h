/* py_function.h: Python functions as closures of the library. */
#ifndef PY_FUNCTION_H
#define PY_FUNCTION_H

#include "py.h"

/* Objects that stand for a function (py_wrapper.c) begin with these members, ask for attributes here and
 * have these methods. */
struct wrapper {
    PyObject ob_base;
    PyObject *fun;
};
PyObject *wrapper_getattro(PyObject *o, PyObject *name);
PyObject *wrapper_reduce(PyObject *o, PyObject *unused);
#define WRAPPER_METHODS                                 \
    {                                                   \
        "__reduce__", wrapper_reduce, METH_NOARGS, NULL \
    }

/* A call of a Python function whose trees of arguments have arrays to be replaced. */
struct python_call {
    struct released released; /* first */
    PyObject *fun, *args, *kwargs;
    PyObject *positions; /* list of ints: the arguments that hold inputs; NULL: all of them */
    PyObject *names;     /* list of str: the same for keyword arguments */
    bool kwargs_too;     /* all keyword arguments hold inputs, after the others */
    bool in_place;       /* the function gets the caller's own containers, not copies */
    const char *who;     /* the function asked for, for messages */
    enum { SOME_ARRAYS, SCALAR, SCALAR_AND_MORE, TREE } returns;
    PyObject *(*checked)(struct python_call *p, PyObject *value); /* NULL, or makes what counts as returned */
    void *with;                                                   /* for it */
    PyObject *value;                                              /* what the function returned */
    PyObject *error;                                              /* what it raised */
};

/* A call to be filled in by its maker, and the closure that owns it. */
struct python_call *python_call_new(const char *who, PyObject *fun, PyObject *args, PyObject *kwargs);
mlx_closure closure_of(struct python_call *p);
/* Keeps the exception that is set, until somebody raises it again. */
void keep_error(struct python_call *p);
/* Is the value an array, or a list or tuple of arrays?  -1 with an exception that says what it is or holds instead. */
int check_arrays(const char *who, PyObject *value);
/* A transform has failed: what the function raised, or else what the library says. */
void raise_from(struct python_call *p);

/* The tree with its arrays replaced by those of a vector, in order. */
struct replacing {
    mlx_vector_array from;
    size_t i;
};
PyObject *replaced(PyObject *tree, struct replacing *r);
/* The tree with every array replaced by an empty one: its form, which keeps nothing alive. */
PyObject *hollowed(PyObject *tree);
/* The same with a plain dict in place of one that has attributes, such as a module: what a gradient has, and
 * what is put into a module that is there. */
PyObject *hollowed_plain(PyObject *tree);

/* The same in the lists and dicts that the tree has (py_places.c): what was replaced is put back by
 * places_put_back, which must be called, also after a failure and while an exception is set, and frees p. */
struct py_places;
struct py_places *places_new(void); /* NULL with an exception set */
PyObject *places_fill(struct py_places *p, PyObject *tree, struct replacing *r);
int places_put_back(struct py_places *p); /* p may be NULL */

/* The arguments of the call with arrays replaced: in place if `where` is given, else in copies. */
PyObject *new_args(const struct python_call *p, struct replacing *r, struct py_places *where);
/* NULL where there are none, too. */
PyObject *new_kwargs(const struct python_call *p, struct replacing *r, struct py_places *where);

/* The arrays of a tree and the axis of each, out of a tree of axes that may end early: an int or None
 * stands for every array below it (py_vmap.c). */
struct axes {
    const char *which; /* "in_axes", for messages: "[vmap] in_axes has ... where arguments have ..." */
    const char *what;
    mlx_vector_array arrays;
    int *v; /* to be freed */
    size_t n, cap;
    int none;    /* stands for None */
    bool normal; /* negative axes are counted from the front */
    bool misfit; /* the trees were not of one form */
};
int axes_walk(struct axes *a, PyObject *tree, PyObject *axes);

/* Constants (py_constants.c), which are the same where they put the same into a key, a list of hashable objects. */

bool is_constant(PyObject *o);
int key_put_constant(PyObject *key, PyObject *o);
int key_put_int(PyObject *key, Py_ssize_t n);
/* The attributes of a container of a class of its own: constants and containers of these by what they are, dataclasses
 * by their fields, all else, arrays too, by what object it is. */
int key_put_attributes(PyObject *key, PyObject *container);
/* The key of one such value: a tuple. */
PyObject *value_key(PyObject *o);
/* Something out of a key as it is told, cut short. */
PyObject *constant_shown(PyObject *o);

/* Captured trees (py_captured.c).  Appends what the containers of a tree hold to the list `saved`, and
 * puts it back, also while an exception is set. */
int captured_remember(PyObject *tree, PyObject *saved);
int captured_put_back(PyObject *saved);
/* Gives a captured tree the content of `form` with arrays out of r. */
int captured_assign(PyObject *tree, PyObject *form, struct replacing *r);

#endif
