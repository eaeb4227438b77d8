/* py_io.c: arrays in files, by path or in open binary files.
 *
 * Paths go to the library with the GIL let go of; open files are read and written through their
 * methods by a reader or writer that holds it.  Archives of several npy files (.npz) are written by
 * Python's zipfile, in mlx/_npz.py. */
#include "py.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- what was given for a file */

enum access { READING, WRITING };

/* 1: a path, put into *path as a str; 0: an open binary file; -1: neither, TypeError. */
static int path_or_file(struct py_call *c, PyObject *o, enum access access, PyObject **path)
{
    *path = NULL;
    int method = PyUnicode_Check(o) ? 0 : has_attribute(o, access == READING ? "read" : "write");
    if (method)
        return method < 0 ? -1 : 0;
    int named = PyUnicode_Check(o) || PyBytes_Check(o) ? 1 : has_attribute((PyObject *)Py_TYPE(o), "__fspath__");
    if (named <= 0)
        return named < 0 ? -1 : (call_refuse(c, 0, "a path or an open binary file"), -1);
    PyObject *text = PyOS_FSPath(o);
    if (text && PyBytes_Check(text)) {
        PyObject *decoded = PyUnicode_DecodeFSDefault(PyBytes_AsString(text));
        Py_DECREF(text);
        text = decoded;
    }
    if (!text)
        return -1;
    if (PyUnicode_FindChar(text, 0, 0, PyUnicode_GetLength(text), 1) >= 0) {
        PyErr_Format(exc_value, "[%s] expected a path without a null character, got %R", c->sig->name, text);
        Py_DECREF(text);
        return -1;
    }
    *path = text;
    return 1;
}

/* 1, 0; -1 with an exception. */
static int name_ends_with(PyObject *text, const char *end)
{
    PyObject *tail = PyUnicode_FromString(end);
    Py_ssize_t is = tail ? PyUnicode_Tailmatch(text, tail, 0, PyUnicode_GetLength(text), 1) : -1;
    Py_XDECREF(tail);
    return (int)is;
}

/* ---- open files as readers and writers; an exception of theirs is left as it is */

struct opened {
    PyObject *file;
    const char *who; /* the function that was called with it */
};

static bool file_is_open(void *desc)
{
    PyObject *closed = PyObject_GetAttrString(((struct opened *)desc)->file, "closed");
    int is = closed ? PyObject_IsTrue(closed) : 0;
    Py_XDECREF(closed);
    if (PyErr_Occurred())
        PyErr_Clear();
    return is == 0;
}

static bool file_good(void *desc) { return (void)desc, !PyErr_Occurred(); }

static size_t file_tell(void *desc)
{
    const struct opened *f = desc;
    PyObject *at = PyErr_Occurred() ? NULL : PyObject_CallMethod(f->file, "tell", NULL);
    int beyond = 0;
    long long n = at && PyLong_Check(at) ? PyLong_AsLongLongAndOverflow(at, &beyond) : -1;
    if (at && n < 0)
        PyErr_Format(PyExc_OSError, "[%s] expected tell() of the file to give a position, got %s", f->who,
                     PyLong_Check(at) ? int_text(at) : type_name(at));
    Py_XDECREF(at);
    return n < 0 ? 0 : (size_t)n;
}

static void file_seek(void *desc, int64_t off, int whence)
{
    if (!PyErr_Occurred())
        Py_XDECREF(PyObject_CallMethod(((struct opened *)desc)->file, "seek", "Li", (long long)off, whence));
}

static void read_from_object(void *desc, char *data, size_t n)
{
    const struct opened *f = desc;
    while (n && !PyErr_Occurred()) {
        PyObject *got = PyObject_CallMethod(f->file, "read", "n", (Py_ssize_t)n);
        char *bytes = NULL;
        Py_ssize_t m = 0;
        if (got && PyBytes_AsStringAndSize(got, &bytes, &m) == 0) {
            if (m == 0 || (size_t)m > n)
                PyErr_Format(exc_value, "[%s] the file ended before its contents did", f->who);
            else
                memcpy(data, bytes, (size_t)m);
            data += m;
            n -= (size_t)m;
        }
        Py_XDECREF(got);
    }
}

static void file_read_at(void *desc, char *data, size_t n, size_t off)
{
    file_seek(desc, (int64_t)off, SEEK_SET);
    read_from_object(desc, data, n);
}

/* A raw stream that would have to wait says so with None; others return it who have no number to give. */
static bool is_raw(PyObject *o)
{
    PyObject *io = PyImport_ImportModule("io"), *raw = io ? PyObject_GetAttrString(io, "RawIOBase") : NULL;
    int is = raw ? PyObject_IsInstance(o, raw) : 0;
    Py_XDECREF(raw);
    Py_XDECREF(io);
    return is == 1;
}

/* Writes what is from `at` on of the m bytes of a view; how many were, or 0 with an exception. */
static size_t write_some(const struct opened *f, PyObject *view, size_t at, size_t m)
{
    PyObject *rest = PySequence_GetSlice(view, (Py_ssize_t)at, (Py_ssize_t)m);
    PyObject *put = rest ? PyObject_CallMethod(f->file, "write", "O", rest) : NULL;
    size_t left = m - at, done = 0;
    if (put == Py_None && is_raw(f->file))
        PyErr_Format(PyExc_OSError,
                     "[%s] the file object's write gave None: it is not blocking and took none of %zu bytes", f->who,
                     left);
    else if (put == Py_None)
        done = left;
    else if (put) {
        done = PyLong_Check(put) ? PyLong_AsSize_t(put) : 0;
        if (done == 0 || done > left) {
            PyErr_Clear();
            PyErr_Format(PyExc_OSError, "[%s] write() of the file got %zu bytes and returned %R, not how many it wrote",
                         f->who, left, put);
        }
    }
    Py_XDECREF(put);
    Py_XDECREF(rest);
    return PyErr_Occurred() ? 0 : done;
}

/* Who writes may keep what it is given: that is a copy, a piece at a time, not the memory of an array. */
enum { PIECE = 1 << 20 };

static void write_to_object(void *desc, const char *data, size_t n)
{
    while (n && !PyErr_Occurred()) {
        size_t m = n < PIECE ? n : PIECE;
        PyObject *piece = PyBytes_FromStringAndSize(data, (Py_ssize_t)m);
        PyObject *view = piece ? PyMemoryView_FromObject(piece) : NULL;
        for (size_t at = 0; at < m && view && !PyErr_Occurred();) at += write_some(desc, view, at, m);
        Py_XDECREF(view);
        Py_XDECREF(piece);
        data += m;
        n -= m;
    }
}

/* Its name, where it has one. */
static const char *file_label(void *desc)
{
    static char text[256]; /* the GIL is held */
    PyObject *error = error_take();
    PyObject *name = PyObject_GetAttrString(((struct opened *)desc)->file, "name");
    const char *s = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    PyOS_snprintf(text, sizeof text, "%s", s ? s : "the open file");
    Py_XDECREF(name);
    PyErr_Clear();
    error_put(error);
    return text;
}

static void file_forget(void *desc) { (void)desc; }

static const mlx_io_vtable file_table = {
    file_is_open, file_good,       file_tell,  file_seek,   read_from_object,
    file_read_at, write_to_object, file_label, file_forget,
};

static struct opened opened(const struct py_call *c) { return (struct opened){ c->v[0].o, c->sig->name }; }

/* ---- loading */

static PyObject *array_dict(int failed, mlx_map_string_to_array map)
{
    PyObject *dict = failed ? (raise_last(), NULL) : PyDict_New();
    mlx_map_string_to_array_iterator it = mlx_map_string_to_array_iterator_new(map);
    const char *key;
    mlx_array value = mlx_array_new();
    while (dict && mlx_map_string_to_array_iterator_next(&key, &value, it) == 0) {
        PyObject *array = array_wrap(value);
        value = mlx_array_new();
        if (!array || PyDict_SetItemString(dict, key, array))
            Py_CLEAR(dict);
        Py_XDECREF(array);
    }
    mlx_array_free(value);
    mlx_map_string_to_array_iterator_free(it);
    mlx_map_string_to_array_free(map);
    return dict;
}

static PyObject *text_dict(mlx_map_string_to_string map)
{
    PyObject *dict = PyDict_New();
    mlx_map_string_to_string_iterator it = mlx_map_string_to_string_iterator_new(map);
    const char *key, *value;
    while (dict && mlx_map_string_to_string_iterator_next(&key, &value, it) == 0) {
        PyObject *text = PyUnicode_FromString(value);
        if (!text || PyDict_SetItemString(dict, key, text))
            Py_CLEAR(dict);
        Py_XDECREF(text);
    }
    mlx_map_string_to_string_iterator_free(it);
    mlx_map_string_to_string_free(map);
    return dict;
}

static PyObject *load_npy(struct py_call *c, const char *path)
{
    int failed;
    if (path) {
        Py_BEGIN_ALLOW_THREADS failed = mlx_load(&c->res, path, c->stream);
        Py_END_ALLOW_THREADS
    } else {
        struct opened f = opened(c);
        mlx_io_reader r = mlx_io_reader_new(&f, file_table);
        failed = mlx_load_reader(&c->res, r, c->stream);
        mlx_io_reader_free(r);
    }
    return give(c, failed);
}

static PyObject *load_npz(struct py_call *c, const char *path)
{
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    int failed;
    if (path) {
        Py_BEGIN_ALLOW_THREADS failed = mlx_load_npz(&arrays, path, c->stream);
        Py_END_ALLOW_THREADS
    } else {
        struct opened f = opened(c);
        mlx_io_reader r = mlx_io_reader_new(&f, file_table);
        failed = mlx_load_npz_reader(&arrays, r, c->stream);
        mlx_io_reader_free(r);
    }
    return array_dict(failed, arrays);
}

static PyObject *load_safetensors(struct py_call *c, const char *path)
{
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string meta = mlx_map_string_to_string_new();
    int failed;
    if (path) {
        Py_BEGIN_ALLOW_THREADS failed = mlx_load_safetensors(&arrays, &meta, path, c->stream);
        Py_END_ALLOW_THREADS
    } else {
        struct opened f = opened(c);
        mlx_io_reader r = mlx_io_reader_new(&f, file_table);
        failed = mlx_load_safetensors_reader(&arrays, &meta, r, c->stream);
        mlx_io_reader_free(r);
    }
    PyObject *dict = array_dict(failed, arrays), *texts = dict ? text_dict(meta) : NULL;
    if (!dict)
        mlx_map_string_to_string_free(meta);
    if (!BOOL(2) || !texts) {
        if (dict && !texts)
            Py_CLEAR(dict);
        Py_XDECREF(texts);
        return dict;
    }
    return Py_BuildValue("(NN)", dict, texts);
}

/* get(&a, gguf, name) as a Python object. */
static PyObject *gguf_array_object(mlx_io_gguf g, const char *name, int (*get)(mlx_array *, mlx_io_gguf, const char *))
{
    mlx_array a = mlx_array_new();
    if (get(&a, g, name)) {
        mlx_array_free(a);
        return raise_last(), NULL;
    }
    return array_wrap(a);
}

/* Texts of files are UTF-8, where they are not their bytes come back as they are. */
static PyObject *gguf_text(const char *s) { return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "surrogateescape"); }

static PyObject *gguf_texts(mlx_io_gguf g, const char *name)
{
    mlx_vector_string v = mlx_vector_string_new();
    PyObject *list = mlx_io_gguf_get_metadata_vector_string(&v, g, name) ? (raise_last(), NULL) : PyList_New(0);
    for (size_t i = 0, n = list ? mlx_vector_string_size(v) : 0; i < n && list; i++) {
        char *s = NULL;
        PyObject *text = mlx_vector_string_get(&s, v, i) ? (raise_last(), NULL) : gguf_text(s);
        if (!text || PyList_Append(list, text))
            Py_CLEAR(list);
        Py_XDECREF(text);
    }
    mlx_vector_string_free(v);
    return list;
}

static PyObject *gguf_value_object(mlx_io_gguf g, const char *name)
{
    bool is_array = false, is_text = false;
    if (mlx_io_gguf_has_metadata_array(&is_array, g, name) || mlx_io_gguf_has_metadata_string(&is_text, g, name))
        return raise_last(), NULL;
    if (is_array)
        return gguf_array_object(g, name, mlx_io_gguf_get_metadata_array);
    if (!is_text)
        return gguf_texts(g, name);
    mlx_string s = mlx_string_new();
    PyObject *text =
        mlx_io_gguf_get_metadata_string(&s, g, name) ? (raise_last(), NULL) : gguf_text(mlx_string_data(s));
    mlx_string_free(s);
    return text;
}

static PyObject *gguf_tensor(mlx_io_gguf g, const char *name)
{
    return gguf_array_object(g, name, mlx_io_gguf_get_array);
}

static PyObject *gguf_dict(mlx_io_gguf g, int (*keys)(mlx_vector_string *, mlx_io_gguf),
                           PyObject *(*item)(mlx_io_gguf, const char *))
{
    mlx_vector_string v = mlx_vector_string_new();
    PyObject *dict = keys(&v, g) ? (raise_last(), NULL) : PyDict_New();
    for (size_t i = 0, n = dict ? mlx_vector_string_size(v) : 0; i < n && dict; i++) {
        char *s = NULL;
        PyObject *value = mlx_vector_string_get(&s, v, i) ? (raise_last(), NULL) : item(g, s);
        PyObject *key = value ? gguf_text(s) : NULL;
        if (!key || PyDict_SetItem(dict, key, value))
            Py_CLEAR(dict);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    mlx_vector_string_free(v);
    return dict;
}

static PyObject *load_gguf(struct py_call *c, const char *path, bool packed)
{
    mlx_io_gguf g = { NULL };
    int failed;
    if (path) {
        Py_BEGIN_ALLOW_THREADS failed = mlx_load_gguf_as(&g, path, packed, c->stream);
        Py_END_ALLOW_THREADS
    } else {
        struct opened f = opened(c);
        mlx_io_reader r = mlx_io_reader_new(&f, file_table);
        failed = mlx_load_gguf_reader(&g, r, packed, c->stream);
        mlx_io_reader_free(r);
    }
    PyObject *arrays = failed ? (raise_last(), NULL) : gguf_dict(g, mlx_io_gguf_get_keys, gguf_tensor);
    PyObject *result = arrays;
    if (arrays && BOOL(2)) {
        PyObject *values = gguf_dict(g, mlx_io_gguf_get_metadata_keys, gguf_value_object);
        result = values ? PyTuple_Pack(2, arrays, values) : NULL;
        Py_XDECREF(values);
        Py_DECREF(arrays);
    }
    mlx_io_gguf_free(g);
    return result;
}

static PyObject *call_npz(const char *function, PyObject *args)
{
    PyObject *module = args ? PyImport_ImportModule("mlx._npz") : NULL;
    PyObject *f = module ? PyObject_GetAttrString(module, function) : NULL;
    PyObject *result = f ? PyObject_CallObject(f, args) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(f);
    Py_XDECREF(args);
    return result;
}

/* The format by name, or by the extension of a path or of the file's own name. */
static const char *format_named(struct py_call *c, PyObject *path)
{
    static const char *const known[] = { "npy", "npz", "safetensors", "gguf", "gguf-packed" };
    if (GIVEN(1)) {
        for (size_t i = 0; i < LENGTH(known); i++)
            if (!strcmp(TEXT(1), known[i]))
                return known[i];
        PyErr_Format(exc_value, "[load] expected format npy, npz, safetensors, gguf or gguf-packed, got '%s'", TEXT(1));
        return NULL;
    }
    PyObject *name = path ? Py_NewRef(path) : PyObject_GetAttrString(c->v[0].o, "name");
    const char *found = NULL;
    if (!name && !error_clear_only(PyExc_AttributeError)) /* a file need not have one */
        return NULL;
    int is = 0;
    for (size_t i = 0; i < LENGTH(known) && name && PyUnicode_Check(name) && is >= 0; i++) {
        char end[16];
        PyOS_snprintf(end, sizeof end, ".%s", known[i]);
        if ((is = name_ends_with(name, end)) > 0)
            found = known[i];
    }
    if (is < 0)
        found = NULL;
    else if (!found)
        PyErr_Format(exc_value,
                     "[load] expected a name that ends in .npy, .npz, .safetensors or .gguf, or format=, got %R",
                     name && PyUnicode_Check(name) ? name : c->v[0].o);
    Py_XDECREF(name);
    return found;
}

PyObject *fn_load(struct py_call *c)
{
    PyObject *path, *result = NULL;
    int is_path = path_or_file(c, c->v[0].o, READING, &path);
    const char *format = is_path < 0 ? NULL : format_named(c, path);
    PyObject *bytes = format && path ? PyUnicode_EncodeFSDefault(path) : NULL;
    if (format && (bytes || !path)) {
        const char *name = bytes ? PyBytes_AsString(bytes) : NULL;
        if (BOOL(2) && (!strcmp(format, "npy") || !strcmp(format, "npz")))
            PyErr_Format(exc_value, "[load] %s files have no metadata to return", format);
        else if (!strcmp(format, "npy"))
            result = load_npy(c, name);
        else if (!strcmp(format, "npz"))
            result = load_npz(c, name);
        else if (!strcmp(format, "safetensors"))
            result = load_safetensors(c, name);
        else
            result = load_gguf(c, name, !strcmp(format, "gguf-packed"));
    }
    Py_XDECREF(bytes);
    Py_XDECREF(path);
    return result;
}

/* ---- saving */

static PyObject *finish_io(int failed)
{
    if (PyErr_Occurred())
        return NULL;
    if (failed)
        return raise_last(), NULL;
    if (warn_kept())
        return NULL;
    Py_RETURN_NONE;
}

PyObject *fn_save(struct py_call *c)
{
    /* A handle of our own: another thread, or the file's write, may put something else into that of the array. */
    mlx_array own = mlx_array_new();
    if (mlx_array_set(&own, ARRAY(1)))
        return raise_last(), NULL;
    if (call_keep(c, own, &own))
        return NULL;
    PyObject *path;
    int is_path = path_or_file(c, c->v[0].o, WRITING, &path), failed = 0;
    if (is_path < 0)
        return NULL;
    if (is_path) {
        PyObject *bytes = PyUnicode_EncodeFSDefault(path);
        Py_DECREF(path);
        if (!bytes)
            return NULL;
        const char *name = PyBytes_AsString(bytes);
        failed = array_ready(own);
        Py_BEGIN_ALLOW_THREADS failed = failed || mlx_save(name, own);
        Py_END_ALLOW_THREADS Py_DECREF(bytes);
    } else {
        struct opened f = opened(c);
        mlx_io_writer w = mlx_io_writer_new(&f, file_table);
        failed = array_ready(own) || mlx_save_writer(w, own);
        mlx_io_writer_free(w);
    }
    return finish_io(failed);
}

static const char *text_of(struct py_call *c, PyObject *o) { return text_from(c->sig->name, o); }

/* put(to, name, array) for each array of the dict, the second argument; -1 with an exception set. */
static int each_array(struct py_call *c, int (*put)(void *to, const char *name, mlx_array x), void *to)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!PyDict_Check(c->v[1].o))
        return call_refuse(c, 1, "a dict of names to arrays"), -1;
    while (PyDict_Next(c->v[1].o, &at, &key, &value)) {
        const char *name = text_of(c, key);
        if (!name || !is_array(value)) {
            if (!PyErr_Occurred())
                PyErr_Format(exc_conversion, "%s(): expected names and arrays, got %s and %s", c->sig->name,
                             type_name(key), type_name(value));
            return -1;
        }
        if (put(to, name, handle_of(value)))
            return raise_last();
    }
    return 0;
}

static int put_in_map(void *map, const char *name, mlx_array x)
{
    return mlx_map_string_to_array_insert(*(mlx_map_string_to_array *)map, name, x);
}

/* Makes the elements of a dict's arrays readable; -1 with an exception set. */
static int values_ready(PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    int failed = 0;
    mlx_vector_array all = mlx_vector_array_new();
    while (!failed && PyDict_Next(dict, &at, &key, &value))
        if (is_array(value) && mlx_vector_array_append_value(all, handle_of(value)))
            failed = raise_last();
    failed = failed || arrays_ready(all) ? -1 : 0;
    mlx_vector_array_free(all);
    return failed;
}

static int text_map(struct py_call *c, PyObject *dict, mlx_map_string_to_string map)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (!GIVEN(2))
        return 0;
    if (!PyDict_Check(dict))
        return call_refuse(c, 2, "a dict of texts"), -1;
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = text_of(c, key), *text = name ? text_of(c, value) : NULL;
        if (!text) {
            if (!PyErr_Occurred())
                PyErr_Format(exc_conversion, "%s(): metadata must be texts, got %s and %s", c->sig->name,
                             type_name(key), type_name(value));
            return -1;
        }
        if (mlx_map_string_to_string_insert(map, name, text))
            return raise_last();
    }
    return 0;
}

PyObject *fn_save_safetensors(struct py_call *c)
{
    PyObject *path = NULL, *bytes = NULL, *result = NULL;
    mlx_map_string_to_array arrays = mlx_map_string_to_array_new();
    mlx_map_string_to_string meta = mlx_map_string_to_string_new();
    int is_path = path_or_file(c, c->v[0].o, WRITING, &path), failed;
    if (is_path < 0 || each_array(c, put_in_map, &arrays) || text_map(c, c->v[2].o, meta) || values_ready(c->v[1].o))
        goto done;
    if (is_path) {
        if (!(bytes = PyUnicode_EncodeFSDefault(path)))
            goto done;
        const char *name = PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS failed = mlx_save_safetensors(name, arrays, meta);
        Py_END_ALLOW_THREADS
    } else {
        struct opened f = opened(c);
        mlx_io_writer w = mlx_io_writer_new(&f, file_table);
        failed = mlx_save_safetensors_writer(w, arrays, meta);
        mlx_io_writer_free(w);
    }
    result = finish_io(failed);
done:
    Py_XDECREF(path);
    Py_XDECREF(bytes);
    mlx_map_string_to_array_free(arrays);
    mlx_map_string_to_string_free(meta);
    return result;
}

static int gguf_set(struct py_call *c, mlx_io_gguf g, const char *key, PyObject *value)
{
    if (is_array(value))
        return mlx_io_gguf_set_metadata_array(g, key, handle_of(value)) ? raise_last() : 0;
    if (PyUnicode_Check(value)) {
        const char *text = text_of(c, value);
        return !text ? -1 : mlx_io_gguf_set_metadata_string(g, key, text) ? raise_last() : 0;
    }
    if (!PyList_Check(value)) {
        PyErr_Format(exc_conversion, "%s(): expected values that are arrays, str or lists of str, got %s for '%s'",
                     c->sig->name, type_name(value), key);
        return -1;
    }
    mlx_vector_string v = mlx_vector_string_new();
    int failed = 0;
    for (Py_ssize_t i = 0; i < PyList_Size(value) && !failed; i++) {
        PyObject *o = PyList_GetItem(value, i);
        const char *text = text_of(c, o);
        if (!text && !PyErr_Occurred())
            PyErr_Format(exc_conversion, "%s(): expected a list of str, got %s in that for '%s'", c->sig->name,
                         type_name(o), key);
        failed = !text ? -1 : mlx_vector_string_append_value(v, text) ? raise_last() : 0;
    }
    if (!failed)
        failed = mlx_io_gguf_set_metadata_vector_string(g, key, v) ? raise_last() : 0;
    mlx_vector_string_free(v);
    return failed;
}

static int put_in_gguf(void *g, const char *name, mlx_array x)
{
    return mlx_io_gguf_set_array(*(mlx_io_gguf *)g, name, x);
}

/* What is to be written; -1 with an exception set. */
static int gguf_fill(struct py_call *c, mlx_io_gguf g)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    if (each_array(c, put_in_gguf, &g))
        return -1;
    if (!GIVEN(2))
        return 0;
    if (!PyDict_Check(c->v[2].o))
        return call_refuse(c, 2, "a dict of names to arrays, str or lists of str"), -1;
    while (PyDict_Next(c->v[2].o, &at, &key, &value)) {
        const char *name = text_of(c, key);
        if (!name && !PyErr_Occurred())
            PyErr_Format(exc_conversion, "%s(): expected keys of type str, got %s", c->sig->name, type_name(key));
        if (!name || gguf_set(c, g, name, value))
            return -1;
    }
    return 0;
}

PyObject *fn_save_gguf(struct py_call *c)
{
    PyObject *path = NULL, *bytes = NULL, *result = NULL;
    mlx_io_gguf g = mlx_io_gguf_new();
    int is_path = path_or_file(c, c->v[0].o, WRITING, &path), failed;
    if (is_path < 0 || gguf_fill(c, g) || values_ready(c->v[1].o) ||
        (is_path && !(bytes = PyUnicode_EncodeFSDefault(path))))
        goto done;
    if (is_path) {
        const char *name = PyBytes_AsString(bytes);
        Py_BEGIN_ALLOW_THREADS failed = mlx_save_gguf(name, g);
        Py_END_ALLOW_THREADS
    } else {
        struct opened f = opened(c);
        mlx_io_writer w = mlx_io_writer_new(&f, file_table);
        failed = mlx_save_gguf_writer(w, g);
        mlx_io_writer_free(w);
    }
    result = finish_io(failed);
done:
    Py_XDECREF(path);
    Py_XDECREF(bytes);
    mlx_io_gguf_free(g);
    return result;
}

/* ---- archives, whose arrays come as arguments of any name */

static PyObject *save_archive(PyObject *args, PyObject *kwargs, const char *name, PyObject *compressed)
{
    if (PyTuple_Size(args) < 1) {
        PyErr_Format(PyExc_TypeError, "%s() missing required argument 'file'", name);
        return NULL;
    }
    PyObject *file = PyTuple_GetItem(args, 0);
    PyObject *rest = PyTuple_GetSlice(args, 1, PyTuple_Size(args));
    PyObject *named = kwargs ? Py_NewRef(kwargs) : PyDict_New();
    PyObject *all = rest && named ? PyTuple_Pack(4, file, rest, named, compressed) : NULL;
    Py_XDECREF(rest);
    Py_XDECREF(named);
    return call_npz("save", all);
}

static PyObject *py_savez(PyObject *m, PyObject *args, PyObject *kwargs)
{
    return (void)m, save_archive(args, kwargs, "savez", Py_False);
}

static PyObject *py_savez_compressed(PyObject *m, PyObject *args, PyObject *kwargs)
{
    return (void)m, save_archive(args, kwargs, "savez_compressed", Py_True);
}

static PyMethodDef archives[] = {
    { "savez", (PyCFunction)(void (*)(void))py_savez, METH_VARARGS | METH_KEYWORDS,
      "savez(file, *args, **kwargs)\n--\n\nArrays as an archive of npy files (.npz), as NumPy's function of this name\n"
      "does: positional ones are called arr_0, arr_1 and so on." },
    { "savez_compressed", (PyCFunction)(void (*)(void))py_savez_compressed, METH_VARARGS | METH_KEYWORDS,
      "savez_compressed(file, *args, **kwargs)\n--\n\nThe same, deflated." },
    { NULL, NULL, 0, NULL },
};

int io_init(PyObject *module) { return add_functions(module, archives); }
