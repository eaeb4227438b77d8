/* c_io.c: arrays in files, and in what the caller's functions read and write.
 *
 * Files are read when arrays are evaluated, on the stream of the load; the caller's functions are
 * called while loading. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capi/c_io.h"
#include "capi/capi.h"
#include "core/buffer.h"
#include "io/io.h"

/* What the ctx of a reader or writer points at. */
struct port {
    void *desc;
    mlx_io_vtable vtable;
};

static void *port_new(const char *func, enum handle_kind kind, void *desc, mlx_io_vtable vtable)
{
    struct port *p = mx_malloc(sizeof *p);
    if (!p) {
        capi_report();
        return NULL;
    }
    *p = (struct port){ desc, vtable };
    return capi_made_or(kind, p, func, free); /* which leaves `desc` to the caller */
}

static int port_free(enum handle_kind kind, struct port *p)
{
    capi_gone(kind, p);
    if (p)
        mx_let_go(p->vtable.free, p->desc);
    free(p);
    return 0;
}

static const char *label_of(const struct port *p)
{
    const char *label = p->vtable.label ? p->vtable.label(p->desc) : NULL;
    return label ? label : "a stream without a label";
}

static int descriptor(const char *func, void **desc, const struct port *p)
{
    if (!capi_need(func, "a place for the result", "desc", desc) ||
        !capi_held(func, "a reader or writer", "io", (void *)(uintptr_t)p))
        return capi_report();
    *desc = p->desc;
    return 0;
}

static int tostring(const char *func, mlx_string *str, const struct port *p)
{
    if (!capi_held(func, "a reader or writer", "io", (void *)(uintptr_t)p))
        return capi_report();
    return capi_text_end(func, str, capi_text_copy(label_of(p)));
}

#define PORT(name, kind)                                                                                           \
    name name##_new(void *desc, mlx_io_vtable vtable) { return (name){ port_new(__func__, kind, desc, vtable) }; } \
    int name##_descriptor(void **desc_, name io) { return descriptor(__func__, desc_, io.ctx); }                   \
    int name##_tostring(mlx_string *str_, name io) { return tostring(__func__, str_, io.ctx); }                    \
    int name##_free(name io) { return port_free(kind, io.ctx); }

PORT(mlx_io_reader, HANDLE_io_reader)
PORT(mlx_io_writer, HANDLE_io_writer)

/* Readers and writers as src/io has them */

static bool is_good(const struct port *p) { return !p->vtable.good || p->vtable.good(p->desc); }

static bool port_read(struct source *self, void *data, uint64_t n, uint64_t offset)
{
    enum { HEADER = 1 << 12 };
    const struct port *p = ((struct port_reader *)self)->port;
    bool whole = true;
    if (n <= HEADER) /* where nothing is read nothing is taken for a size */
        memset(data, 0, n);
    if (p->vtable.read_at_offset) {
        p->vtable.read_at_offset(p->desc, data, n, (size_t)offset);
    } else {
        p->vtable.seek(p->desc, (int64_t)offset, SEEK_SET);
        p->vtable.read(p->desc, data, n);
        whole = p->vtable.tell(p->desc) == offset + n;
    }
    if (whole && is_good(p))
        return true;
    mx_fail_as(MX_RUNTIME, "[load] %s: could not read %llu bytes at offset %llu", self->label, (unsigned long long)n,
               (unsigned long long)offset);
    return false;
}

static bool port_write(struct writer *self, const void *data, size_t n)
{
    const struct port *p = ((struct port_writer *)self)->port;
    p->vtable.write(p->desc, data, n);
    if (!is_good(p))
        mx_fail_as(MX_RUNTIME, "[save] %s: could not write %zu bytes: the writer is not good any more", self->label, n);
    return !mx_failed();
}

static bool is_usable(const char *func, const struct port *p)
{
    if ((!p->vtable.is_open || p->vtable.is_open(p->desc)) && is_good(p))
        return true;
    mx_fail_as(MX_RUNTIME, "[%s] expected a stream that is open and good, got %s", func + 4, label_of(p));
    return false;
}

bool capi_open_reader(const char *func, const char *arg, const struct port *p, struct port_reader *r)
{
    if (!capi_held(func, "a reader or writer", arg, (void *)(uintptr_t)p))
        return false;
    const mlx_io_vtable *v = &p->vtable;
    if (!v->seek || !v->tell || (!v->read && !v->read_at_offset)) {
        mx_fail_as(MX_TYPE, "[%s] expected functions to seek, tell and read, got NULL", func + 4);
        return false;
    }
    if (!is_usable(func, p))
        return false;
    v->seek(p->desc, 0, SEEK_END);
    uint64_t size = v->tell(p->desc);
    v->seek(p->desc, 0, SEEK_SET);
    /* On the caller's stack: nobody keeps it, for it is eager. */
    *r = (struct port_reader){
        { .object = { 1, NULL }, .label = label_of(p), .size = size, .eager = true, .read = port_read }, p
    };
    return true;
}

bool capi_open_writer(const char *func, const char *arg, const struct port *p, struct port_writer *w)
{
    if (!capi_held(func, "a reader or writer", arg, (void *)(uintptr_t)p))
        return false;
    if (!p->vtable.write) {
        mx_fail_as(MX_TYPE, "[%s] expected a function to write, got NULL", func + 4);
        return false;
    }
    *w = (struct port_writer){ { port_write, label_of(p) }, p };
    return is_usable(func, p);
}

/* npy */

int mlx_load_reader(mlx_array *res, mlx_io_reader in_stream, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct port_reader r;
    bool open = capi_open_reader(__func__, "in_stream", in_stream.ctx, &r);
    return capi_publish(res, open ? npy_load(&r.base) : MX_NIL);
}

int mlx_load(mlx_array *res, const char *file, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    return capi_publish(res, capi_given(file, "the name of a file") ? npy_load_file(file) : MX_NIL);
}

int mlx_save_writer(mlx_io_writer out_stream, const mlx_array a)
{
    struct port_writer w;
    mx x = capi_in(a);
    if (!is_nil(x)) {
        mx_retain(x); /* the writer's functions may give the handle another array */
        if (capi_open_writer(__func__, "out_stream", out_stream.ctx, &w))
            npy_save(&w.base, x);
        mx_release(x);
    }
    return capi_end_call(__func__);
}

char *capi_with_suffix(const char *func, const char *file, const char *suffix)
{
    if (!capi_need(func, "the name of a file", "file", file))
        return NULL;
    size_t n = strlen(file), m = strlen(suffix);
    if (!n || file[n - 1] == '/') {
        mx_fail("[%s] expected the name of a file, got '%s'", func + strlen("mlx_"), file);
        return NULL;
    }
    char *name = mx_malloc(n + m + 1);
    if (name) {
        memcpy(name, file, n + 1);
        if (n < m || strcmp(file + n - m, suffix))
            memcpy(name + n, suffix, m + 1);
    }
    return name;
}

int mlx_save(const char *file, const mlx_array a)
{
    mx x = capi_in(a);
    char *name = is_nil(x) ? NULL : capi_with_suffix(__func__, file, ".npy");
    if (name)
        npy_save_file(name, x);
    free(name);
    return capi_end_call(__func__);
}

/* safetensors */

/* The arrays and texts of a, which is freed, become the content of both maps. */
static int publish_archive(const char *func, mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1,
                           struct archive *a)
{
    bool failed = mx_failed() || !capi_need(func, "a place for the result", "res_0", res_0) ||
                  !capi_need(func, "a place for the result", "res_1", res_1);
    struct map *arrays = failed ? NULL : capi_map_new(ARRAYS);
    struct map *texts = arrays ? capi_map_new(TEXTS) : NULL;
    for (int i = 0; texts && !failed && i < a->n; i++)
        failed = capi_map_put(arrays, a->arrays[i].name, (union slot){ .array = a->arrays[i].array });
    for (int i = 0; texts && !failed && i < a->n_meta; i++)
        failed = capi_map_put(texts, a->meta[i].name, (union slot){ .text = a->meta[i].text });
    archive_free(a);
    if (failed || !texts) {
        capi_map_free(arrays);
        capi_map_free(texts);
        return capi_report_call(func);
    }
    return capi_both_end(func, CAPI_HALF(map_string_to_array, res_0, arrays),
                         CAPI_HALF(map_string_to_string, res_1, texts));
}

/* The arrays of a, which is freed, become the content of the map. */
static int publish_arrays(const char *func, mlx_map_string_to_array *res, struct archive *a)
{
    bool failed = mx_failed() || !capi_need(func, "a place for the result", "res", res);
    struct map *arrays = failed ? NULL : capi_map_new(ARRAYS);
    for (int i = 0; arrays && !failed && i < a->n; i++)
        failed = capi_map_put(arrays, a->arrays[i].name, (union slot){ .array = a->arrays[i].array });
    archive_free(a);
    if (failed || !arrays) {
        capi_map_free(arrays);
        return capi_report_call(func);
    }
    return capi_map_end(func, &res->ctx, arrays);
}

int mlx_load_npz_reader(mlx_map_string_to_array *res, mlx_io_reader in_stream, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct archive a = { 0 };
    struct port_reader r;
    if (capi_open_reader(__func__, "in_stream", in_stream.ctx, &r))
        npz_load(&r.base, &a);
    return publish_arrays(__func__, res, &a);
}

int mlx_load_npz(mlx_map_string_to_array *res, const char *file, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct archive a = { 0 };
    if (capi_given(file, "the name of a file"))
        npz_load_file(file, &a);
    return publish_arrays(__func__, res, &a);
}

int mlx_load_safetensors_reader(mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1,
                                mlx_io_reader in_stream, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct archive a = { 0 };
    struct port_reader r;
    if (capi_open_reader(__func__, "in_stream", in_stream.ctx, &r))
        safetensors_load(&r.base, &a);
    return publish_archive(__func__, res_0, res_1, &a);
}

int mlx_load_safetensors(mlx_map_string_to_array *res_0, mlx_map_string_to_string *res_1, const char *file,
                         const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct archive a = { 0 };
    if (capi_given(file, "the name of a file"))
        safetensors_load_file(file, &a);
    return publish_archive(__func__, res_0, res_1, &a);
}

/* The content of the maps as an archive; an empty handle of metadata stands for none. */
static int archive_of(const char *func, mlx_map_string_to_array param, mlx_map_string_to_string metadata,
                      struct archive *a)
{
    const struct map *arrays = capi_map(func, "param", param.ctx), *texts = metadata.ctx;
    const char *name;
    union slot v;
    for (size_t i = 0; arrays && capi_map_entry(arrays, i, &name, &v); i++)
        if (archive_add(a, name, v.array.it))
            return 1;
    for (size_t i = 0; texts && capi_map_entry(texts, i, &name, &v); i++)
        if (archive_add_text(a, name, v.text))
            return 1;
    return !arrays;
}

int mlx_save_safetensors_writer(mlx_io_writer in_stream, const mlx_map_string_to_array param,
                                const mlx_map_string_to_string metadata)
{
    struct archive a = { 0 };
    struct port_writer w;
    /* First the copy: the writer's functions may change the maps. */
    if (!archive_of(__func__, param, metadata, &a) && capi_open_writer(__func__, "in_stream", in_stream.ctx, &w))
        safetensors_save(&w.base, &a);
    archive_free(&a);
    return capi_end_call(__func__);
}

int mlx_save_safetensors(const char *file, const mlx_map_string_to_array param, const mlx_map_string_to_string metadata)
{
    struct archive a = { 0 };
    char *name = capi_with_suffix(__func__, file, ".safetensors");
    if (name && !archive_of(__func__, param, metadata, &a))
        safetensors_save_file(name, &a);
    free(name);
    archive_free(&a);
    return capi_end_call(__func__);
}
