/* py.h: what the files of the extension module share.
 *
 * The module is written against the public C API alone.  A Python array owns one mlx_array handle,
 * and an update in place changes what the handle holds, so that every reference to the object sees
 * it. Graphs are built holding the GIL; it is let go of while something is computed or waited for.
 *
 * Functions that return int give 0 for success and -1 with a Python exception set; those that
 * return a PyObject * give a new reference, or NULL with an exception set. */
#ifndef PY_H
#define PY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <structmember.h>

#include "mlx/c/mlx.h"

enum { MAX_NDIM = 64 };

#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* Errors (py_error.c) */

/* The classes of what is raised here, in place of Python's, which they are too; TypeError for calls that are
 * wrong by themselves, as Python words it. */
extern PyObject *exc_value, *exc_index, *exc_axis, *exc_conversion, *exc_overflow, *exc_no_file, *exc_memory;

/* Turns the last failure of the library into an exception, unless there is one.  Returns -1. */
int raise_last(void);
/* Warns of what the library has warned about on this thread while it waited.  Non-zero with an exception set, which
 * is what a warning may be turned into. */
int warn_kept(void);
/* The exception that is set may go unheard; if it is a warning, the next look warns of it again. */
void warning_unheard(void);
/* The exception comes out of a call of `name`, which takes the place of the name that it has. */
void raise_called(const char *name);
/* Takes the exception away that is set, an instance with its traceback; NULL where none is.  Taken rather
 * than fetched, for what C code raises is no instance before it is looked at. */
/* Has o this attribute?  -1 with the exception of code that looked, unless it is an AttributeError. */
int has_attribute(PyObject *o, const char *name);
/* Clears the exception if it is of this kind; else it stays: false. */
bool error_clear_only(PyObject *kind);
PyObject *error_take(void);
/* Sets an exception that was taken, in place of any other; NULL: leaves things as they are. */
void error_put(PyObject *error);
int errors_init(PyObject *module);
/* The type's name without its module, for messages. */
const char *type_name(PyObject *o);

/* Things to be let go of with the GIL (py_release.c) */

/* First member of what the library owns through a pointer and ends on any thread. */
struct released {
    struct released *next;
    void (*end)(struct released *self); /* frees it */
};
void release_soon(struct released *r);
void release_now(void);

/* Arrays (py_array.c) */

struct array {
    PyObject ob_base;
    mlx_array it;
    PyObject *weak; /* list of weak references */
};

extern PyTypeObject *array_type;
static inline bool is_array(PyObject *o)
{
    return Py_TYPE(o) == array_type || PyType_IsSubtype(Py_TYPE(o), array_type);
}
static inline mlx_array handle_of(PyObject *o) { return ((struct array *)o)->it; }

/* A Python array around a handle, which it takes over, also on failure. */
PyObject *array_wrap(mlx_array it);
/* The same as an object of a class made from array's. */
PyObject *array_wrap_as(PyTypeObject *type, mlx_array it);
/* The same after an operation that returned `failed`; the handle of a failed one is freed. */
PyObject *array_result(int failed, mlx_array it);
/* The arrays of a vector, in a list after which it is freed, or in a tuple. */
PyObject *vector_to_list(mlx_vector_array vec);
PyObject *vector_items(mlx_vector_array vec);
PyObject *ints_to_tuple(const int *v, size_t n);

/* Makes the elements readable: evaluates without the GIL if need be. */
int array_ready(mlx_array a);
int arrays_ready(mlx_vector_array all);
/* The same for an operation that evaluates its operand, so that it need not wait with the GIL; what
 * goes wrong is left for it to say. */
int array_known(mlx_array a);
/* Runs what evaluates without the GIL; again where Ctrl-C stopped it and its handler did not raise.
 * Non-zero with an exception set. */
int evaluate_with(int (*eval)(void *), void *what);
/* The same of nothing but mlx_eval, mlx_async_eval or mlx_array_eval, which keep the GIL for what is over at once, and
 * have looked into handles before they let go of it. */
int evaluate_arrays(int (*eval)(void *), void *what);
/* Address of the first element; NULL with an exception set. */
const void *array_data(mlx_array a);
/* The strides in elements. */
const int64_t *array_strides(mlx_array a);

/* Conversion (py_convert.c) */

static inline bool is_list(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o); }
/* The items of a list or a tuple as they are now, in a tuple that holds them: whatever the user's code
 * does to the list, or its class says of it, the walk over them is good. */
PyObject *items_now(PyObject *list);
PyObject *items_list(PyObject *list); /* in a new list */
static inline Py_ssize_t items_size(PyObject *list)
{
    return PyList_Check(list) ? PyList_Size(list) : PyTuple_Size(list);
}
/* Item i now, a new reference; NULL with an IndexError. */
PyObject *item_at(PyObject *list, Py_ssize_t i);
/* Is there an exception of a signal's handler, Ctrl-C say?  What runs through many items asks for each of them, with a
 * count of its own; handlers run for one in thousands. */
bool items_stopped(uint64_t *items);
/* As items_now for any sequence but a str, whose class is asked once; anything else as it is. */
PyObject *sequence_now(PyObject *o);

/* Kinds of Python numbers: 'b', 'i', 'f', 'c' (of subclasses too); 0 for anything else. */
char scalar_kind(PyObject *o);
/* The dtype that a number has by itself. */
int scalar_dtype(PyObject *o, char kind, mlx_dtype *out);
/* A 0-d array of a number in dtype t; ValueError for an int that does not fit. */
int scalar_to_array(mlx_array *out, PyObject *o, char kind, mlx_dtype t);
/* The same by a cast as in C, as `astype` has it: 300 is 44 in uint8. */
int scalar_cast(mlx_array *out, PyObject *o, char kind, mlx_dtype t);
/* An int for messages, in words where it is long; clears what exception is set.  The text is good until the next. */
const char *int_text(PyObject *o);
/* A number as a double; an OverflowError of ours for an int beyond. */
int double_from(PyObject *o, double *v);
/* Where an int lies that arrays of dtype `like`, of bool or integers, do not meet: 1 above what they hold, -1
 * below; 0 for any other and for what is no int. */
int int_beyond(PyObject *o, mlx_dtype like);
/* Anything that can be made into an array; dtype NULL: what it has by itself. */
int array_from(mlx_array *out, PyObject *o, const mlx_dtype *dtype);
/* The same in memory of its own where o is an array of ours.  What is there is copied at once: somebody may write to
 * it later. */
int array_copied(mlx_array *out, PyObject *o, const mlx_dtype *dtype);
/* What an object's method __mlx_array__ gives; leaves *out empty where there is none. */
int array_from_method(mlx_array *out, PyObject *o);
/* An array of somebody else's, such as NumPy's, met by one of dtype `like`: it takes the dtype
 * that a number of its kind would.  *a is freed on failure. */
int array_meet(mlx_array *a, mlx_dtype like);
/* An array of what looks like one to Python (by buffer, __dlpack__ or __array__); leaves *out
 * empty for numbers, lists and whatever else. */
int array_from_foreign(mlx_array *out, PyObject *o);

/* A number of another class than Python's own, such as Fraction and Decimal (numbers.Number), as a float.  NULL without
 * an exception: it is none. */
PyObject *float_from_number(PyObject *o);
/* float64 becomes float32: double precision is asked for, not come by. */
int array_narrow(mlx_array *a);
PyObject *element_to_python(const void *p, mlx_dtype t);
PyObject *array_item(mlx_array a);
PyObject *array_tolist(mlx_array a);

/* Buffers and DLPack (py_buffer.c) */

int buffer_get(PyObject *array, Py_buffer *view, int flags);
/* Was the last buffer_get for this array, and ended by Ctrl-C?  Says so once. */
bool buffer_interrupted(const PyObject *array);
void buffer_put(PyObject *array, Py_buffer *view);
enum sharing { COPY, SHARE, SHARE_ON_GPU }; /* the last: the host's memory is copied */
/* An array of what an exporter of buffers, or of DLPack capsules, holds. */
int array_from_buffer(mlx_array *out, PyObject *o, enum sharing sharing);
bool gives_buffer(PyObject *o);
int gives_dlpack(PyObject *o); /* has __dlpack__, or is a capsule */
int array_from_dlpack(mlx_array *out, PyObject *o, enum sharing sharing);
PyObject *array_dlpack(PyObject *self, PyObject *stream, PyObject *max_version, PyObject *device, bool copy);
PyObject *array_dlpack_device(PyObject *self);
/* Of what has __cuda_array_interface__ and none of the others; leaves *out empty where there is no such, or no GPU. */
int array_from_cuda(mlx_array *out, PyObject *o);
PyObject *array_bytes(mlx_array a);

/* Indexing (py_index.c) */

PyObject *array_getitem(PyObject *self, PyObject *index);
int array_setitem(PyObject *self, PyObject *index, PyObject *value);
int index_init(PyObject *module);
PyObject *array_at(PyObject *self, void *unused);

/* Dtypes (py_dtype.c) */

PyObject *dtype_object(mlx_dtype t);         /* borrowed */
int dtype_from(PyObject *o, mlx_dtype *out); /* 1: it is one, 0: it is not */
/* The same where one is asked for, by Python's bool, int, float or complex too: the dtype that their numbers get. */
int dtype_asked(PyObject *o, mlx_dtype *out);
char dtype_kind(mlx_dtype t);
mlx_dtype dtype_of_sum(mlx_array a); /* where none is asked for */
int dtype_init(PyObject *module);

/* Devices and streams (py_device.c) */

/* The stream to pass to an operation, for whatever names one; 1 where o names none. */
int stream_from(PyObject *o, mlx_stream *out);
PyObject *stream_object(mlx_stream s);
/* The handle of a Device or DeviceType, to be freed; 1 where o is neither. */
int device_from(PyObject *o, mlx_device *out);
PyObject *device_object(mlx_device d);
int device_init(PyObject *module);

/* For other modules written in C (py_capsule.c) */

int capsule_init(PyObject *module);

/* Files (py_io.c) */

int io_init(PyObject *module);

int attributes_init(PyObject *module);
int wrapper_init(PyObject *module);
int places_init(PyObject *module);
int vmap_init(PyObject *module);
int custom_init(PyObject *module);
int linear_init(PyObject *module);
int constants_init(PyObject *module);
int compile_init(PyObject *module);
int graph_init(PyObject *module);
int export_init(PyObject *module);
int kernel_init(PyObject *module);

/* Trees of lists, tuples, dicts and registered types (py_trees.c) */

/* Calls visit for every leaf, in order (a dict's values in the order of its keys). */
int tree_visit(PyObject *tree, int (*visit)(void *ctx, PyObject *leaf), void *ctx);
/* The same tree with each leaf replaced by what `leaf` returns; containers keep their types. */
PyObject *tree_map(PyObject *tree, PyObject *(*leaf)(void *ctx, PyObject *leaf), void *ctx);
/* The same with a plain dict in place of one that has attributes, such as a module. */
PyObject *tree_map_plain(PyObject *tree, PyObject *(*leaf)(void *ctx, PyObject *leaf), void *ctx);
/* A container of the type of `like` with what is in a list (for lists and tuples) or a dict. */
PyObject *container_like(PyObject *like, PyObject *content);
/* What a list, a tuple or a dict of a class of its own has beside its items, by name: a dict, perhaps the object's own;
 * NULL where its class leaves no room for any, without an exception. */
PyObject *container_attributes(PyObject *o);
/* The dict; of an OrderedDict, which has an order of its own, a plain dict in that order. */
PyObject *dict_in_order(PyObject *dict);
/* Its items in order: a list of pairs. */
PyObject *dict_items(PyObject *dict);
/* Gives a dict of any type the content of another. */
int dict_assign(PyObject *dict, PyObject *content);
/* The arrays of a tree in a new vector; whatever is not an array is left out, or with `strict` (the
 * name of the function that asks) refused. */
int tree_arrays(PyObject *tree, mlx_vector_array out, const char *strict);
/* The arrays of a tree in the order of another, where that one has arrays; refused, in the name of `who`, where
 * it is not of that form. */
int tree_arrays_like(PyObject *tree, PyObject *like, mlx_vector_array out, const char *who);
/* Is the object's type registered? */
bool is_node(PyObject *o);
/* The children of such an object, in a list, a tuple or a dict; aux: what else there is to it, or NULL. */
PyObject *tree_open(PyObject *node, PyObject **aux);
/* An object of these, of the type of `like`. */
PyObject *tree_close(PyObject *like, PyObject *aux, PyObject *children);

int trees_init(PyObject *module);

/* Element-wise functions (py_elementwise.c) */

typedef int binary_op(mlx_array *res, const mlx_array a, const mlx_array b, const mlx_stream s);
/* After l op r has failed: if it compares an array with an int beyond its dtype, the answer, which is the same
 * for all elements; else NULL with the exception as it is. */
PyObject *compared_beyond(binary_op *op, PyObject *l, PyObject *r, mlx_stream s);

/* Calls (py_call.c) */

/* A str in UTF-8, without null characters; NULL with an exception in the name of `who` or, for what is no str,
 * without one. */
const char *text_from(const char *who, PyObject *o);

/* One argument, as its annotation in the signature says. */
struct value {
    PyObject *o; /* as given, borrowed; NULL when left out */
    bool given;  /* neither left out nor None */
    mlx_array a; /* array: borrowed from the object or from the call */
    union {
        int i;
        double d;
        bool b;
        mlx_dtype t;
        const char *s;
        struct {
            const int *v;
            int n;
        } ints;
        mlx_vector_array vec;
    };
};

enum { MAX_PARAMS = 13, MAX_TEMPORARIES = 12 };

struct param;
/* The text of a signature is all there is to write; the rest is compiled from it at the first
 * call. */
struct signature {
    const char *name, *text;
    struct param *params;
    int n, npos, nposonly;
    bool rest; /* has a *parameter */
};

#define SIGNATURE(n_, t_)      \
    {                          \
        .name = n_, .text = t_ \
    }

struct py_call {
    const struct signature *sig;
    struct value v[MAX_PARAMS];
    PyObject *const *rest; /* what a *parameter took */
    Py_ssize_t nrest, npositional;
    mlx_stream stream;
    mlx_array res; /* for the result of the operation */
    mlx_array temporaries[MAX_TEMPORARIES];
    mlx_vector_array vectors[2];
    PyObject *kept[2]; /* objects that hold strings */
    int ntemporaries, nvectors, nkept, nints;
    int ints[4 * MAX_NDIM];
    int *long_lists[2]; /* those that do not fit there */
};

typedef PyObject *function_body(struct py_call *c);
PyObject *call_function(struct signature *sig, function_body *body, PyObject *self, PyObject *const *args,
                        Py_ssize_t nargs, PyObject *kwnames);

const char *name_of(const struct py_call *c, int i); /* of parameter i */
/* An int of 32 bits out of an int or what stands for one; 1 where o is neither, without an exception. */
int call_int(struct py_call *c, int i, PyObject *o, int *v);
/* Reads sizes or axes out of one int or a sequence: how many, or -1 with an exception that names
 * the parameter, number i or by name. */
int call_ints(struct py_call *c, int i, PyObject *o, const int **v);
int call_ints_named(struct py_call *c, const char *name, PyObject *o, const int **v);
/* The same out of what a *parameter took, each by itself or all in one sequence. */
int call_ints_of_rest(struct py_call *c, const char *name, const int **v);
/* An array that lives as long as the call. */
int call_keep(struct py_call *c, mlx_array a, mlx_array *out);
/* What a *parameter took, as arrays that live as long as the call; no ctx on failure. */
mlx_vector_array call_rest_arrays(struct py_call *c);
/* TypeError for parameter i: it must be `what`. */
PyObject *call_refuse(struct py_call *c, int i, const char *what);
/* Turns operands (parameters of type scalar|array) first to first + n - 1 into arrays: numbers take
 * the dtype that the arrays among them call for.  Those that are None stay empty. */
int call_operands(struct py_call *c, int first, int n);
/* The same with the dtype given by `like`. */
int call_operand_like(struct py_call *c, int i, mlx_dtype like);
/* Argument 0 in the dtype that argument i asks for, if it does. */
int call_as_dtype(struct py_call *c, int i);
/* The function of the call's name in mlx/_array_api.py, given the arguments: arrays as such, others as they are, None
 * for those left out. */
PyObject *call_in_python(struct py_call *c);
/* A tuple, which is taken over, as the tuple with names that mlx/_array_api.py has under this one. */
PyObject *with_names(const char *name, PyObject *tuple);

/* Arguments by number, for the bodies. */
#define ARRAY(k) (c->v[k].a)
#define INT(k) (c->v[k].i)
#define DOUBLE(k) (c->v[k].d)
#define BOOL(k) (c->v[k].b)
#define TEXT(k) (c->v[k].s)
#define GIVEN(k) (c->v[k].given)
#define INTS(k) c->v[k].ints.v, (size_t)c->v[k].ints.n
#define DTYPE(k, otherwise) (c->v[k].given ? c->v[k].t : (otherwise))
#define STREAM (c->stream)

/* The result of an operation that wrote to c->res: `return give(c, mlx_...(&c->res, ...));` */
PyObject *give(struct py_call *c, int failed);
/* The same where a failure has set an exception already. */
PyObject *give_made(struct py_call *c, int failed);
/* Results in a vector made by the caller, which is freed. */
PyObject *give_list(int failed, mlx_vector_array vec);
PyObject *raise_axis(const char *op, int axis, int ndim);

/* The bodies, one for each row of the tables. */
#define UNARY(name, ...) PyObject *fn_##name(struct py_call *c);
#define BINARY(name, ...) PyObject *fn_##name(struct py_call *c);
#include "ops/ops.def"
#define FUNCTION(name, ...) PyObject *fn_##name(struct py_call *c);
#define RANDOM(name, ...) PyObject *fn_random_##name(struct py_call *c);
#define FFT(name, ...) PyObject *fn_fft_##name(struct py_call *c);
#define DISTRIBUTED(name, ...) PyObject *fn_distributed_##name(struct py_call *c);
#define FUSED(name, ...) PyObject *fn_fast_##name(struct py_call *c);
#define LINALG(name, ...) PyObject *fn_linalg_##name(struct py_call *c);
#define METHOD(name, body, ...) PyObject *fn_##body(struct py_call *c);
#include "functions.def"

/* The docstrings of rows of functions.def as Python shows them, the examples at their ends
 * (py_docs.c): of the functions of a module, which are put into it, or of the methods of a type;
 * `owner` is the type or the module inside mlx.core, "" for itself. */
int add_functions(PyObject *module, PyMethodDef *functions);
int method_docs(const char *owner, PyMethodDef *methods);

/* Parts of the module */
int transforms_init(PyObject *module);
int printing_init(PyObject *module);
int random_init(PyObject *module);
int fast_init(PyObject *module);
int fft_init(PyObject *module);
int distributed_init(PyObject *module);
int linalg_init(PyObject *module);
/* Appends the arrays of mlx.core.random.state, if that is what o is. */
int random_state_arrays(PyObject *o, mlx_vector_array out);
bool is_random_state(PyObject *o);
int array_init(PyObject *module);
int methods_init(PyObject *module);
/* The digits after the point that arrays print with, or -1. */
int print_precision(void);
/* A new submodule mlx.core.<name>, known to sys.modules; borrowed. */
PyObject *submodule(PyObject *module, const char *name, const char *doc, PyMethodDef *methods);

/* A type made from a spec and put into the module. */
PyTypeObject *add_type(PyObject *module, PyType_Spec *spec);

/* An enumeration of Python's (enum.Enum) with members numbered from 0, put into the module
 * together with its members, which are also written to `members`; borrowed. */
PyObject *add_enum(PyObject *module, const char *name, const char *const names[], size_t n, PyObject *members[]);

/* For tables of slots and of methods. */
#define DOC(text) ((void *)(text))
#define PYFN(f) ((PyCFunction)(void (*)(void))(f))
#define FAST (METH_FASTCALL | METH_KEYWORDS)

#endif
