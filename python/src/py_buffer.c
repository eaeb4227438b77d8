/* py_buffer.c: memory shared with others, by Python's buffer protocol and by DLPack.
 *
 * Whoever looks at an array's memory holds an array handle of his own (a `struct exported`), and
 * with it a reference that keeps the library from reusing the memory; so a view stays good, with
 * the elements it had, whatever the Python array is changed to. */
#include "py.h"

#include <stdlib.h>
#include <string.h>

/* Out, as a buffer */

struct exported {
    mlx_array it;
    bool lent; /* to somebody who may write */
    Py_ssize_t shape[MAX_NDIM], strides[MAX_NDIM];
};

/* The struct module's code of a dtype; NULL for those that have none. */
static const char *buffer_format_of(mlx_dtype t)
{
    static const char *const formats[] = { "?", "B", "H", "I", "Q", "b", "h", "i", "q", "e", "f", "d", NULL, "Zf" };
    return formats[t];
}

static void exported_free(struct exported *e)
{
    if (e && e->lent)
        mlx_array_take_back(e->it);
    if (e)
        mlx_array_free(e->it);
    free(e);
}

static struct exported *export(mlx_array a)
{
    struct exported *e = calloc(1, sizeof *e);
    if (!e)
        return PyErr_NoMemory(), NULL;
    if (mlx_array_set(&e->it, a)) {
        raise_last();
    } else if (array_data(e->it)) {
        size_t ndim = mlx_array_ndim(e->it), itemsize = mlx_array_itemsize(e->it);
        const int64_t *strides = array_strides(e->it);
        for (size_t i = 0; i < ndim; i++) {
            e->shape[i] = mlx_array_shape(e->it)[i];
            e->strides[i] = (Py_ssize_t)(strides[i] * (int64_t)itemsize);
        }
        return e;
    }
    exported_free(e);
    return NULL;
}

/* Can the elements be written to?  Then they are lent to whoever asked; non-zero with an exception set. */
static int lend(mlx_array a, bool *writable, bool *lent)
{
    if (mlx_array_is_writable(writable, a))
        return raise_last();
    *lent = *writable && !mlx_array_lend(a);
    return 0;
}

/* Does the layout suit the flags of a request? */
static bool layout_suits(const struct exported *e, int flags)
{
    bool rows = false, columns = false;
    if (_mlx_array_is_row_contiguous(&rows, e->it) || _mlx_array_is_col_contiguous(&columns, e->it))
        return false;
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
        return rows;
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS)
        return rows;
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS)
        return columns;
    return (flags & PyBUF_ANY_CONTIGUOUS) != PyBUF_ANY_CONTIGUOUS || rows || columns;
}

/* The array whose elements were asked for when Ctrl-C ended that: NumPy forgets the exception and asks __array__. */
static const PyObject *interrupted;

bool buffer_interrupted(const PyObject *o)
{
    bool is = o == interrupted;
    interrupted = NULL;
    return is;
}

int buffer_get(PyObject *o, Py_buffer *view, int flags)
{
    view->obj = NULL;
    interrupted = NULL;
    mlx_array a = handle_of(o);
    const char *format = buffer_format_of(mlx_array_dtype(a));
    if (!format && (flags & PyBUF_FORMAT)) { /* who asks for none wants bytes: a file, a hash */
        PyErr_Format(PyExc_BufferError,
                     "[buffer] %s has no counterpart in Python's buffer protocol; convert the "
                     "array first, x.astype(mx.float32)",
                     mlx_dtype_name(mlx_array_dtype(a)));
        return -1;
    }
    struct exported *e = export(a);
    bool writable = false;
    if (!e) {
        interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) ? o : NULL;
        warning_unheard(); /* NumPy then asks for __array__ */
        return -1;
    }
    if (lend(e->it, &writable, &e->lent)) {
        exported_free(e);
        return -1;
    }
    const char *refusal = NULL;
    if ((flags & PyBUF_WRITABLE) && !writable)
        refusal = "[buffer] the elements of this array cannot be written to: they share memory";
    else if (!layout_suits(e, flags))
        refusal = "[buffer] the elements of this array are not in row-major order without gaps; "
                  "use mx.contiguous";
    if (refusal) {
        PyErr_SetString(PyExc_BufferError, refusal);
        exported_free(e);
        return -1;
    }
    view->buf = (void *)array_data(e->it);
    view->len = (Py_ssize_t)mlx_array_nbytes(e->it);
    view->itemsize = (Py_ssize_t)mlx_array_itemsize(e->it);
    view->readonly = !writable;
    /* Who does not ask for a shape sees a row of bytes, and looks for no second dimension. */
    view->ndim = flags & PyBUF_ND ? (int)mlx_array_ndim(e->it) : 1;
    view->format = flags & PyBUF_FORMAT ? (char *)format : NULL;
    view->shape = flags & PyBUF_ND ? e->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? e->strides : NULL;
    view->suboffsets = NULL;
    view->internal = e;
    view->obj = Py_NewRef(o);
    return 0;
}

void buffer_put(PyObject *o, Py_buffer *view)
{
    (void)o;
    exported_free(view->internal);
}

PyObject *array_bytes(mlx_array a)
{
    mlx_array rows = mlx_array_new();
    PyObject *bytes = NULL;
    if (mlx_contiguous(&rows, a, false, mlx_stream_new())) {
        raise_last();
    } else {
        const char *p = array_data(rows);
        if (p)
            bytes = PyBytes_FromStringAndSize(p, (Py_ssize_t)mlx_array_nbytes(rows));
    }
    mlx_array_free(rows);
    return bytes;
}

/* In, from a buffer */

/* The dtype of a format of the struct module in native byte order: 1 if there is one.  NumPy's
 * complex128 is 'Zd' and C's long double no concern of ours. */
static bool dtype_of_format(const char *f, Py_ssize_t itemsize, mlx_dtype *t, bool *wide_complex)
{
    *wide_complex = false;
    if (!f)
        f = "B";
    if (*f == '@' || *f == '=' || *f == '<')
        f++;
    if (f[0] == 'Z' && f[1] == 'f' && !f[2])
        return *t = MLX_COMPLEX64, true;
    if (f[0] == 'Z' && f[1] == 'd' && !f[2])
        return *t = MLX_COMPLEX64, *wide_complex = true;
    if (!f[0] || f[1])
        return false;
    int log = itemsize == 1 ? 0 : itemsize == 2 ? 1 : itemsize == 4 ? 2 : itemsize == 8 ? 3 : -1;
    if (log < 0)
        return false;
    if (*f == '?')
        return *t = MLX_BOOL, log == 0;
    if (strchr("cBHILQN", *f))
        return *t = (mlx_dtype)(MLX_UINT8 + log), true;
    if (strchr("bhilqn", *f))
        return *t = (mlx_dtype)(MLX_INT8 + log), true;
    if (strchr("efd", *f) && log >= 1)
        return *t = (mlx_dtype)(MLX_FLOAT16 + log - 1), true;
    return false;
}

/* A buffer that an array's memory belongs to. */
struct borrowed {
    struct released released; /* first */
    Py_buffer view;
};

static void end_borrowed(struct released *r)
{
    PyBuffer_Release(&((struct borrowed *)r)->view);
    free(r);
}

static void release_borrowed(void *payload) { release_soon(payload); }

static int cannot_share(void)
{
    PyErr_SetString(exc_value, "[asarray] this memory cannot be shared without a copy: its elements are "
                               "not in row-major order without gaps");
    return -1;
}

/* No copy: the array's memory is the exporter's, lent for good since its owner may write at any time.  1: the layout
 * does not allow it. */
static int share_buffer(mlx_array *out, Py_buffer *view, const int *shape, mlx_dtype t)
{
    if (!PyBuffer_IsContiguous(view, 'C') || (size_t)view->buf % mlx_dtype_size(t))
        return 1;
    struct borrowed *own = malloc(sizeof *own);
    if (!own)
        return PyErr_NoMemory(), -1;
    *own = (struct borrowed){ { NULL, end_borrowed }, *view };
    bool constant = PyBytes_Check(view->obj);
    *out = mlx_array_new_data_managed_payload(view->buf, shape, view->ndim, t, own, release_borrowed);
    if (out->ctx) {
        view->obj = NULL; /* own's now */
        return !constant && mlx_array_lend(*out) ? raise_last() : 0;
    }
    free(own);
    return raise_last();
}

/* n doubles become floats: the parts of complex128. */
static void narrow_in_place(void *memory, size_t n)
{
    for (size_t i = 0; i < n; i++) ((float *)memory)[i] = (float)((double *)memory)[i];
}

static int copy_buffer(mlx_array *out, Py_buffer *view, const int *shape, mlx_dtype t, bool wide_complex)
{
    void *memory = NULL;
    const void *rows = view->buf;
    if (!PyBuffer_IsContiguous(view, 'C') || wide_complex) {
        memory = malloc((size_t)view->len + 1);
        if (!memory)
            return PyErr_NoMemory(), -1;
        if (PyBuffer_ToContiguous(memory, view, view->len, 'C')) {
            free(memory);
            return -1;
        }
        rows = memory;
    }
    if (wide_complex)
        narrow_in_place(memory, (size_t)view->len / sizeof(double));
    int failed = mlx_array_set_data(out, rows, shape, view->ndim, t) ? raise_last() : 0;
    free(memory);
    return failed;
}

/* NumPy's arrays of ml_dtypes' bfloat16 are no buffers, but those of their bits are: 1 if o is one.
 * The exception of the failed attempt at a buffer is set, and kept if it is not. */
static int array_from_bfloat16(mlx_array *out, PyObject *o, enum sharing sharing)
{
    PyObject *error = error_take();
    PyObject *dtype = PyObject_GetAttrString(o, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    bool is_bfloat16 = name && PyUnicode_Check(name) && !PyUnicode_CompareWithASCIIString(name, "bfloat16");
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    if (!is_bfloat16) {
        error_put(error);
        return 0;
    }
    PyErr_Clear();
    Py_XDECREF(error);
    PyObject *bits = PyObject_CallMethod(o, "view", "s", "uint16");
    int failed = bits ? array_from_buffer(out, bits, sharing) : -1;
    Py_XDECREF(bits);
    if (!failed && mlx_view(out, *out, MLX_BFLOAT16, mlx_stream_new()))
        failed = raise_last();
    return failed ? -1 : 1;
}

/* NumPy's scalars that are dates or bytes give their memory as bytes, where its arrays of such are refused.  Returns
 * 0, or -1 with an exception. */
static int check_elements(PyObject *o, const Py_buffer *view)
{
    if (view->itemsize != 1 || (view->format && strcmp(view->format, "B")) || has_attribute(o, "dtype") <= 0)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *dtype = PyObject_GetAttrString(o, "dtype");
    PyObject *size = dtype ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
    bool other = size && PyLong_Check(size) && PyLong_AsLong(size) != 1;
    if (other)
        PyErr_Format(exc_conversion, "[array] expected numbers, got %R of dtype %R", Py_TYPE(o), dtype);
    else
        PyErr_Clear(); /* whatever has another kind of dtype */
    Py_XDECREF(size);
    Py_XDECREF(dtype);
    return other ? -1 : 0;
}

/* CuPy's arrays have the slots of a buffer too, which they do not fill. */
bool gives_buffer(PyObject *o)
{
    return PyObject_CheckBuffer(o) && has_attribute((PyObject *)Py_TYPE(o), "__cuda_array_interface__") <= 0;
}

int array_from_buffer(mlx_array *out, PyObject *o, enum sharing sharing)
{
    Py_buffer view;
    if (PyObject_GetBuffer(o, &view, PyBUF_RECORDS_RO)) {
        int made = array_from_bfloat16(out, o, sharing);
        if (made == 0 && !PyErr_ExceptionMatches(PyExc_MemoryError)) /* NumPy's dates, say */
            PyErr_Format(exc_conversion, "[array] expected elements that can be read in memory, got %R", Py_TYPE(o));
        return made > 0 ? 0 : -1;
    }
    mlx_dtype t;
    bool wide_complex;
    int shape[MAX_NDIM], failed = check_elements(o, &view);
    if (failed) {
        /* said */
    } else if (!dtype_of_format(view.format, view.itemsize, &t, &wide_complex)) {
        PyErr_Format(exc_conversion,
                     "[array] cannot convert elements of format '%s' (as the struct module "
                     "names types)",
                     view.format ? view.format : "B");
        failed = -1;
    } else if (view.ndim > MAX_NDIM) {
        PyErr_Format(exc_value, "[array] expected at most %d dimensions, got %d", MAX_NDIM, view.ndim);
        failed = -1;
    }
    for (int i = 0; !failed && i < view.ndim; i++) {
        Py_ssize_t n = view.shape[i];
        if (n > INT32_MAX) {
            PyErr_Format(exc_value, "[array] a dimension of %zd elements does not fit 32 bits", n);
            failed = -1;
        }
        shape[i] = (int)n;
    }
    if (!failed) {
        failed = sharing == COPY || wide_complex ? 1 : share_buffer(out, &view, shape, t);
        if (failed > 0)
            failed = sharing == SHARE ? cannot_share() : copy_buffer(out, &view, shape, t, wide_complex);
    }
    PyBuffer_Release(&view);
    return failed;
}

/* DLPack: the structs of its C API, version 1.0 (and those of before, without a version) */

typedef struct {
    int32_t type, id;
} dl_device;
typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} dl_dtype;
typedef struct {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

struct dl_managed {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed *self);
};
struct dl_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
};

enum { DL_CPU = 1, DL_CUDA, DL_CUDA_HOST, DL_CUDA_MANAGED = 13, DL_READ_ONLY = 1, DL_COPIED = 2 };
enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_COMPLEX, DL_BOOL };

static dl_dtype dl_dtype_of(mlx_dtype t)
{
    char kind = dtype_kind(t);
    uint8_t code = t == MLX_BFLOAT16 ? DL_BFLOAT
                   : kind == 'b'     ? DL_BOOL
                   : kind == 'i'     ? DL_INT
                   : kind == 'u'     ? DL_UINT
                   : kind == 'c'     ? DL_COMPLEX
                                     : DL_FLOAT;
    return (dl_dtype){ code, (uint8_t)(8 * mlx_dtype_size(t)), 1 };
}

/* complex128 is complex64 to us. */
static bool dtype_of_dl(dl_dtype d, mlx_dtype *t, bool *wide_complex)
{
    *wide_complex = d.code == DL_COMPLEX && d.bits == 128;
    if (*wide_complex)
        d.bits = 64;
    for (int i = MLX_BOOL; i <= MLX_COMPLEX64; i++) {
        dl_dtype other = dl_dtype_of((mlx_dtype)i);
        if (other.code == d.code && other.bits == d.bits && d.lanes == 1)
            return *t = (mlx_dtype)i, true;
    }
    return false;
}

/* Out */

struct dl_export {
    struct dl_managed plain;
    struct dl_versioned versioned;
    mlx_array it;
    bool lent, lent_on;
    int64_t shape[MAX_NDIM], strides[MAX_NDIM];
};

static void dl_free(struct dl_export *e)
{
    if (e->lent)
        mlx_array_take_back(e->it);
    if (e->lent_on)
        mlx_array_take_back_on(e->it);
    mlx_array_free(e->it);
    free(e);
}
static void delete_plain(struct dl_managed *m) { dl_free(m->manager); }
static void delete_versioned(struct dl_versioned *m) { dl_free(m->manager); }

/* A deleter may run Python code, which begins without an exception and takes care of its own. */
static void dl_delete(struct dl_managed *plain, struct dl_versioned *versioned)
{
    PyObject *error = error_take();
    if (plain && plain->deleter)
        plain->deleter(plain);
    if (versioned && versioned->deleter)
        versioned->deleter(versioned);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL);
    error_put(error);
}

/* Capsules that nobody took the content from. */
static void end_plain(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return;
    dl_delete(PyCapsule_GetPointer(capsule, "dltensor"), NULL);
}
static void end_versioned(PyObject *capsule)
{
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return;
    dl_delete(NULL, PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

PyObject *array_dlpack_device(PyObject *self)
{
    bool gpus = false;
    int gpu = -1;
    if (!mlx_cuda_is_available(&gpus) && gpus) {
        if (array_ready(handle_of(self))) /* which lets go of the interpreter's lock; the next does not */
            return NULL;
        if (mlx_array_device(&gpu, handle_of(self)))
            return raise_last(), NULL;
    }
    return gpu >= 0 ? Py_BuildValue("(ii)", DL_CUDA, gpu) : Py_BuildValue("(ii)", DL_CPU, 0);
}

/* The address on the GPU that alone has the elements, for the stream of theirs that the protocol names; *p stays NULL
 * where the host has them. */
static int export_on_gpu(struct dl_export *e, PyObject *stream, const void **p, int *gpu, bool *writable)
{
    bool gpus = false;
    void *address = NULL;
    long long theirs = stream && stream != Py_None ? PyLong_AsLongLong(stream) : 0;
    if (PyErr_Occurred())
        return -1;
    if (mlx_cuda_is_available(&gpus) || !gpus)
        return 0;
    if (array_ready(e->it))
        return -1;
    if (mlx_array_lend_on(&address, gpu, e->strides, writable, e->it, (void *)(intptr_t)theirs))
        return raise_last();
    e->lent_on = address;
    *p = address;
    return 0;
}

static int export_on_host(struct dl_export *e, const void **p, bool *writable)
{
    *p = array_data(e->it);
    if (!*p || lend(e->it, writable, &e->lent))
        return -1;
    const int64_t *strides = array_strides(e->it);
    for (size_t i = 0; i < mlx_array_ndim(e->it); i++) e->strides[i] = strides[i];
    return 0;
}

/* (a, b) as *a and *b, which None leaves as they are. */
static int two_numbers(const char *name, PyObject *pair, long *a, long *b)
{
    if (!pair || pair == Py_None)
        return 0;
    PyObject *items = PyUnicode_Check(pair) || !PySequence_Check(pair) ? NULL : PySequence_Tuple(pair);
    bool good = items && PyTuple_Size(items) == 2;
    for (int i = 0; i < 2 && good; i++) {
        long n = PyLong_AsLong(PyTuple_GetItem(items, i));
        good = n != -1 || !PyErr_Occurred();
        *(i ? b : a) = n;
    }
    Py_XDECREF(items);
    if (good)
        return 0;
    PyErr_Clear();
    PyErr_Format(exc_conversion, "[__dlpack__] expected %s to be a tuple of two ints, got %R", name, pair);
    return -1;
}

PyObject *array_dlpack(PyObject *self, PyObject *stream, PyObject *max_version, PyObject *device, bool copy)
{
    bool anywhere = !device || device == Py_None;
    long major = 0, minor = 0, type = DL_CPU, id = 0;
    if (two_numbers("max_version", max_version, &major, &minor) || two_numbers("dl_device", device, &type, &id))
        return NULL;
    struct dl_export *e = calloc(1, sizeof *e);
    if (!e)
        return PyErr_NoMemory();
    bool writable = false;
    int gpu = -1;
    const void *p = NULL;
    int failed = copy ? mlx_array_duplicate(&e->it, handle_of(self)) : mlx_array_set(&e->it, handle_of(self));
    if (failed)
        failed = raise_last();
    if (!failed && (anywhere ? stream != NULL : type == DL_CUDA)) /* who does not name a stream knows of none */
        failed = export_on_gpu(e, stream, &p, &gpu, &writable);
    if (!failed && !anywhere && type != DL_CPU && (!p || gpu != id)) {
        PyErr_Format(PyExc_BufferError, "[__dlpack__] expected the CPU, device type %d, got %ld", DL_CPU, type);
        failed = -1;
    }
    if (failed || (!p && export_on_host(e, &p, &writable)))
        return dl_free(e), NULL;
    writable |= mlx_array_size(e->it) == 0;
    size_t ndim = mlx_array_ndim(e->it);
    for (size_t i = 0; i < ndim; i++) e->shape[i] = mlx_array_shape(e->it)[i];
    dl_tensor tensor = { (void *)(uintptr_t)p,
                         { e->lent_on ? DL_CUDA : DL_CPU, e->lent_on ? gpu : 0 },
                         (int32_t)ndim,
                         dl_dtype_of(mlx_array_dtype(e->it)),
                         e->shape,
                         e->strides,
                         0 };
    e->plain = (struct dl_managed){ tensor, e, delete_plain };
    e->versioned = (struct dl_versioned){
        { 1, 0 }, e, delete_versioned, (writable ? 0 : DL_READ_ONLY) | (copy ? DL_COPIED : 0), tensor,
    };
    PyObject *capsule = NULL;
    if (major >= 1)
        capsule = PyCapsule_New(&e->versioned, "dltensor_versioned", end_versioned);
    else if (!writable)
        PyErr_SetString(PyExc_BufferError, "[__dlpack__] this array is read-only, which only version 1 of "
                                           "DLPack can say: pass max_version=(1, 0)");
    else
        capsule = PyCapsule_New(&e->plain, "dltensor", end_plain);
    if (!capsule)
        dl_free(e);
    return capsule;
}

/* In.  The owner is whichever struct came, with the capsule renamed so that it is ours to
 * delete. */

struct dl_owner {
    struct released released; /* first */
    struct dl_managed *plain;
    struct dl_versioned *versioned;
};

static void end_owner(struct released *r) /* with the GIL, which deleters of Python libraries need */
{
    struct dl_owner *owner = (struct dl_owner *)r;
    dl_delete(owner->plain, owner->versioned);
    free(owner);
}

static void release_owner(void *payload) { release_soon(payload); }

/* Do all elements, how many is `size`, have addresses?  They are worked out from what an exporter says, in numbers
 * that may not hold them. */
static bool inside_of_memory(const dl_tensor *d, int64_t size, int64_t itemsize)
{
    int64_t low = 0, high = 0;
    uintptr_t first, end;
    if (!d->data || !size)
        return true;
    if (__builtin_add_overflow((uintptr_t)d->data, d->byte_offset, &first))
        return false;
    for (int i = 0; i < d->ndim && d->strides; i++) {
        int64_t far, *edge = d->strides[i] < 0 ? &low : &high;
        if (__builtin_mul_overflow(d->shape[i] - 1, d->strides[i], &far) || __builtin_add_overflow(*edge, far, edge))
            return false;
    }
    if (!d->strides)
        high = size - 1;
    return !__builtin_mul_overflow(low, itemsize, &low) && !__builtin_add_overflow(high, 1, &high) &&
           !__builtin_mul_overflow(high, itemsize, &high) && !__builtin_add_overflow(first, low, &end) &&
           !__builtin_add_overflow(first, high, &end);
}

/* `on` is the stream of a GPU whose memory it is, which is shared then. */
static int from_tensor(mlx_array *out, const dl_tensor *d, struct dl_owner *owner, mlx_stream on)
{
    mlx_dtype t;
    bool wide_complex;
    int shape[MAX_NDIM];
    static uint64_t nothing;
    if (d->device.type != DL_CPU && d->device.type != DL_CUDA_HOST && !on.ctx) {
        PyErr_Format(exc_value, "[from_dlpack] expected memory of the CPU, got a device of type %d",
                     (int)d->device.type);
        return -1;
    }
    if (!dtype_of_dl(d->dtype, &t, &wide_complex)) {
        PyErr_Format(exc_conversion, "[from_dlpack] cannot convert elements of type code %d with %d bits",
                     d->dtype.code, d->dtype.bits);
        return -1;
    }
    if (d->ndim < 0 || d->ndim > MAX_NDIM) {
        PyErr_Format(exc_value, "[from_dlpack] expected at most %d dimensions, got %d", MAX_NDIM, (int)d->ndim);
        return -1;
    }
    if (d->ndim && !d->shape) {
        PyErr_Format(exc_value, "[from_dlpack] expected a shape of %d dimensions, got none", (int)d->ndim);
        return -1;
    }
    int64_t expected = 1, size = 1;
    bool rows = true;
    for (int i = d->ndim; i-- > 0;) {
        if (d->shape[i] < 0 || d->shape[i] > INT32_MAX) {
            PyErr_Format(exc_value, "[from_dlpack] a dimension of %lld elements does not fit 32 bits",
                         (long long)d->shape[i]);
            return -1;
        }
        shape[i] = (int)d->shape[i];
        if (d->strides && d->shape[i] > 1)
            rows = rows && d->strides[i] == expected;
        size = d->shape[i] ? size : 0;
        if (d->shape[i] && __builtin_mul_overflow(expected, d->shape[i], &expected)) {
            PyErr_SetString(exc_value, "[from_dlpack] expected sizes whose product fits 63 bits");
            return -1;
        }
    }
    size *= expected;
    if (!d->data && size) {
        PyErr_Format(exc_value, "[from_dlpack] expected the data of %lld elements, got none", (long long)size);
        return -1;
    }
    size_t itemsize = d->dtype.bits / 8;
    if (!inside_of_memory(d, size, (int64_t)itemsize)) {
        PyErr_SetString(exc_value, "[from_dlpack] expected strides that stay inside of memory, got some that leave it");
        return -1;
    }
    char *data = d->data && size ? (char *)d->data + d->byte_offset : (char *)&nothing;
    if (on.ctx && wide_complex) {
        PyErr_SetString(exc_conversion, "[from_dlpack] expected complex64 on a GPU, got complex128");
        return -1;
    }
    if (on.ctx && size && (uintptr_t)data % itemsize) {
        PyErr_Format(exc_value, "[array] expected elements of %zu bytes at multiples of that, got memory at %p",
                     itemsize, (void *)data);
        return -1;
    }
    if (on.ctx) {
        const int64_t *strides = rows || size == 0 ? NULL : d->strides;
        *out = mlx_array_new_borrowed_on(on, data, shape, strides, d->ndim, t, owner, release_owner);
        return out->ctx ? 0 : raise_last();
    }
    if (owner && !wide_complex && (rows || size == 0) && (size_t)data % itemsize == 0) {
        *out = mlx_array_new_data_managed_payload(data, shape, d->ndim, t, owner, release_owner);
        return out->ctx && !mlx_array_lend(*out) ? 0 : raise_last(); /* as in share_buffer */
    }
    if (owner)
        return 1;
    if ((rows || size == 0) && !wide_complex)
        return mlx_array_set_data(out, data, shape, d->ndim, t) ? raise_last() : 0;
    char *memory = size > PTRDIFF_MAX / (int64_t)itemsize ? NULL : malloc((size_t)size * itemsize + 1);
    if (!memory)
        return PyErr_NoMemory(), -1;
    int64_t at[MAX_NDIM] = { 0 };
    for (int64_t k = 0; k < size; k++) {
        int64_t offset = d->strides ? 0 : k;
        for (int i = 0; i < d->ndim && d->strides; i++) offset += at[i] * d->strides[i];
        memcpy(memory + k * (int64_t)itemsize, data + offset * (int64_t)itemsize, itemsize);
        for (int i = d->ndim; i-- > 0 && ++at[i] == d->shape[i];) at[i] = 0;
    }
    if (wide_complex)
        narrow_in_place(memory, 2 * (size_t)size);
    int failed = mlx_array_set_data(out, memory, shape, d->ndim, t) ? raise_last() : 0;
    free(memory);
    return failed;
}

/* The default stream of a GPU. */
static int gpu_stream(mlx_stream *on, long id)
{
    if (id < 0 || id > INT32_MAX) {
        PyErr_Format(exc_value, "[from_dlpack] expected the number of a GPU, got %ld", id);
        return -1;
    }
    mlx_device device = mlx_device_new_type(MLX_GPU, (int)id);
    *on = mlx_stream_new();
    int failed = mlx_get_default_stream(on, device);
    mlx_device_free(device);
    return failed ? raise_last() : 0;
}

/* The stream of ours that takes memory of the GPU that an exporter names; an empty one for any other. */
static int stream_for(PyObject *o, mlx_stream *on)
{
    bool gpus = false;
    long type = 0, id = 0;
    if (PyCapsule_CheckExact(o) || mlx_cuda_is_available(&gpus) || !gpus ||
        has_attribute((PyObject *)Py_TYPE(o), "__dlpack_device__") <= 0)
        return PyErr_Occurred() ? -1 : 0;
    PyObject *where = PyObject_CallMethod(o, "__dlpack_device__", NULL);
    PyObject *first = where ? PySequence_GetItem(where, 0) : NULL,
             *second = first ? PySequence_GetItem(where, 1) : NULL;
    type = second ? PyLong_AsLong(first) : 0; /* which may be an enum */
    id = second ? PyLong_AsLong(second) : 0;
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(where);
    if (PyErr_Occurred())
        return -1;
    return type == DL_CUDA || type == DL_CUDA_MANAGED ? gpu_stream(on, id) : 0;
}

/* A capsule of version 1, which alone can say that memory is read-only, or of before it where the exporter knows
 * of no versions; or the capsule that it is.  Its elements are there for our stream. */
static PyObject *capsule_of(PyObject *o, mlx_stream on)
{
    void *native = NULL;
    if (PyCapsule_CheckExact(o))
        return Py_NewRef(o);
    PyObject *method = PyObject_GetAttrString(o, "__dlpack__"), *none = method ? PyTuple_New(0) : NULL;
    PyObject *given = none ? PyDict_New() : NULL, *number = NULL;
    if (given && on.ctx && !mlx_stream_native(&native, on)) {
        number = PyLong_FromVoidPtr(native);
        if (!number || PyDict_SetItemString(given, "stream", number))
            Py_CLEAR(given);
    }
    PyObject *version = given ? Py_BuildValue("(ii)", 1, 0) : NULL, *capsule = NULL;
    if (version && !PyDict_SetItemString(given, "max_version", version)) {
        capsule = PyObject_Call(method, none, given);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            if (!PyDict_DelItemString(given, "max_version"))
                capsule = PyObject_Call(method, none, given);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(given);
    Py_XDECREF(number);
    Py_XDECREF(version);
    return capsule;
}

int gives_dlpack(PyObject *o)
{
    return PyCapsule_CheckExact(o) ? 1 : has_attribute((PyObject *)Py_TYPE(o), "__dlpack__");
}

static bool is_of_gpu(const dl_tensor *d) { return d->device.type == DL_CUDA || d->device.type == DL_CUDA_MANAGED; }

/* What a tensor on a GPU holds: shared, or copied there.  Leaves *out empty where the tensor is not on a GPU that is
 * ours; else the owner is the array's, or gone. */
static int from_gpu(mlx_array *out, const dl_tensor *d, struct dl_owner *owner, enum sharing sharing, mlx_stream *on)
{
    bool gpus = false;
    mlx_array shared = { NULL };
    if (!is_of_gpu(d) || mlx_cuda_is_available(&gpus) || !gpus)
        return 0;
    if (!on->ctx && !gpu_stream(on, d->device.id)) /* a capsule, whose maker knows of no stream of ours */
        mlx_stream_follow(*on, NULL);
    if (PyErr_Occurred() || from_tensor(&shared, d, owner, *on)) {
        end_owner(&owner->released);
        return -1;
    }
    if (sharing != COPY)
        return *out = shared, 0;
    int failed = mlx_array_duplicate(out, shared) ? raise_last() : array_ready(*out);
    mlx_array_free(shared);
    return failed;
}

int array_from_dlpack(mlx_array *out, PyObject *o, enum sharing sharing)
{
    mlx_stream on = { NULL };
    PyObject *capsule = stream_for(o, &on) ? NULL : capsule_of(o, on);
    if (!capsule)
        return mlx_stream_free(on), -1;
    struct dl_owner *owner = calloc(1, sizeof *owner);
    int failed = -1;
    if (owner)
        owner->released.end = end_owner;
    if (!owner) {
        PyErr_NoMemory();
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        owner->plain = PyCapsule_GetPointer(capsule, "dltensor");
        PyCapsule_SetName(capsule, "used_dltensor");
        failed = 0;
    } else if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        owner->versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
        failed = 0;
    } else {
        PyErr_SetString(PyExc_TypeError, "[from_dlpack] expected a capsule named dltensor, which is used once");
    }
    Py_DECREF(capsule);
    if (failed)
        return mlx_stream_free(on), free(owner), -1;
    if (owner->versioned && owner->versioned->version.major != 1) {
        PyErr_Format(PyExc_BufferError, "[from_dlpack] expected version 1 of DLPack, got %u.%u",
                     owner->versioned->version.major, owner->versioned->version.minor);
        return mlx_stream_free(on), end_owner(&owner->released), -1;
    }
    const dl_tensor *d = owner->plain ? &owner->plain->tensor : &owner->versioned->tensor;
    bool of_gpu = is_of_gpu(d);
    failed = from_gpu(out, d, owner, sharing, &on);
    mlx_stream_free(on);
    if (failed || out->ctx)
        return failed;
    failed = sharing != SHARE && !of_gpu ? 1 : from_tensor(out, d, owner, (mlx_stream){ NULL });
    if (failed == 0)
        return 0; /* the array owns it now */
    if (failed > 0)
        failed = sharing == SHARE ? cannot_share() : from_tensor(out, d, NULL, (mlx_stream){ NULL });
    end_owner(&owner->released);
    return failed;
}

/* ---- __cuda_array_interface__ */

struct cuda_owner {
    struct dl_owner owner;
    PyObject *it;
    int64_t shape[MAX_NDIM], strides[MAX_NDIM];
};

static void end_cuda_owner(struct released *r)
{
    Py_DECREF(((struct cuda_owner *)r)->it);
    free(r);
}

/* The numbers of a tuple, n of them at most; how many, -1 with an exception set. */
static int numbers_of(PyObject *o, int64_t v[], int n)
{
    Py_ssize_t size = PySequence_Size(o);
    if (size > n)
        PyErr_Format(exc_value, "[array] expected at most %d dimensions, got %zd", n, size);
    for (Py_ssize_t i = 0; i < size && !PyErr_Occurred(); i++) {
        PyObject *item = PySequence_GetItem(o, i);
        v[i] = item ? PyLong_AsLongLong(item) : 0;
        Py_XDECREF(item);
    }
    return PyErr_Occurred() ? -1 : (int)size;
}

static int dl_dtype_of_text(PyObject *typestr, dl_dtype *t)
{
    const char *s = typestr && PyUnicode_Check(typestr) ? text_from("array", typestr) : NULL;
    int size = s && strlen(s) >= 3 ? atoi(s + 2) : 0;
    const char kinds[] = "iufcb", *kind = size ? strchr(kinds, s[1]) : NULL;
    static const uint8_t codes[] = { DL_INT, DL_UINT, DL_FLOAT, DL_COMPLEX, DL_BOOL };
    if (!kind || !*kind || *s == '>' || size < 1 || size > 16) {
        if (!PyErr_Occurred())
            PyErr_Format(exc_conversion, "[array] cannot convert elements of type %R on a GPU", typestr);
        return -1;
    }
    *t = (dl_dtype){ codes[kind - kinds], (uint8_t)(8 * size), 1 };
    return 0;
}

/* As a tensor; its address, and the stream of theirs, if there is one to follow. */
static int read_cuda_interface(PyObject *facts, struct cuda_owner *c, dl_tensor *d, void **theirs)
{
    int64_t data[2] = { 0 };
    PyObject *shape = PyDict_GetItemString(facts, "shape"), *strides = PyDict_GetItemString(facts, "strides"),
             *where = PyDict_GetItemString(facts, "data"), *stream = PyDict_GetItemString(facts, "stream"),
             *mask = PyDict_GetItemString(facts, "mask");
    if (!shape || !where || (mask && mask != Py_None)) {
        PyErr_SetString(exc_value,
                        "[array] expected a __cuda_array_interface__ of shape, typestr and data, without mask");
        return -1;
    }
    d->ndim = numbers_of(shape, c->shape, MAX_NDIM);
    if (d->ndim < 0 || numbers_of(where, data, 2) < 0 ||
        dl_dtype_of_text(PyDict_GetItemString(facts, "typestr"), &d->dtype))
        return -1;
    int steps = strides && strides != Py_None ? numbers_of(strides, c->strides, d->ndim) : d->ndim;
    if (steps >= 0 && steps < d->ndim)
        PyErr_Format(exc_value, "[array] expected a stride for each of %d dimensions, got %d", (int)d->ndim, steps);
    if (PyErr_Occurred())
        return -1;
    d->data = (void *)(uintptr_t)data[0];
    int gpu = 0; /* where there are no elements */
    if (d->data && mlx_gpu_of_address(&gpu, d->data))
        return raise_last();
    if (gpu < 0) {
        PyErr_Format(exc_value,
                     "[array] expected the address of memory on a GPU, got %p, which the driver knows as none",
                     d->data);
        return -1;
    }
    d->device = (dl_device){ DL_CUDA, gpu };
    d->shape = c->shape;
    d->strides = strides && strides != Py_None ? c->strides : NULL;
    for (int i = 0, item = d->dtype.bits / 8; d->strides && i < d->ndim; i++) {
        if (d->strides[i] % item) {
            PyErr_SetString(exc_value, "[array] expected strides that are multiples of the size of an element");
            return -1;
        }
        d->strides[i] /= item;
    }
    bool follows = stream && stream != Py_None;
    *theirs = follows ? PyLong_AsVoidPtr(stream) : NULL;
    if (follows && !*theirs && !PyErr_Occurred())
        PyErr_SetString(exc_value, "[array] expected a stream of None, 1, 2 or a handle, got 0, which could be 1 or 2");
    return PyErr_Occurred() ? -1 : 0;
}

int array_from_cuda(mlx_array *out, PyObject *o)
{
    bool gpus = false;
    int has = mlx_cuda_is_available(&gpus) || !gpus ? 0 : has_attribute(o, "__cuda_array_interface__");
    PyObject *given = has > 0 ? PyObject_GetAttrString(o, "__cuda_array_interface__") : NULL;
    bool is_dict = given && PyDict_Check(given);
    PyObject *facts = is_dict ? PyDict_Copy(given) : NULL; /* an __index__ may change the dict that we read of */
    struct cuda_owner *c = facts ? calloc(1, sizeof *c) : NULL;
    mlx_stream on = { NULL };
    mlx_array shared = { NULL };
    dl_tensor d = { 0 };
    void *theirs = NULL;
    int failed = has < 0 || (has && !c) ? -1 : 0;
    if (c) {
        c->owner.released.end = end_cuda_owner;
        c->it = Py_NewRef(o);
        failed = read_cuda_interface(facts, c, &d, &theirs) || gpu_stream(&on, d.device.id);
        if (!failed && mlx_stream_follow(on, theirs))
            failed = raise_last();
        if (failed || from_tensor(&shared, &d, &c->owner, on)) {
            end_cuda_owner(&c->owner.released);
            failed = -1;
        }
    }
    if (shared.ctx)
        failed = mlx_array_duplicate(out, shared) ? raise_last() : array_ready(*out);
    mlx_array_free(shared);
    mlx_stream_free(on);
    Py_XDECREF(facts);
    Py_XDECREF(given);
    if (failed && !PyErr_Occurred() && is_dict)
        PyErr_NoMemory();
    else if (failed && !PyErr_Occurred())
        PyErr_SetString(exc_value, "[array] expected __cuda_array_interface__ to be a dict");
    return failed;
}
