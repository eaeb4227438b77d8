/* c_gguf.c: what is in gguf files, as a handle: arrays by name, and values about them by key. */
#include <stdlib.h>
#include <string.h>

#include "capi/c_io.h"
#include "capi/capi.h"
#include "core/buffer.h"
#include "io/gguf.h"

mlx_io_gguf mlx_io_gguf_new(void)
{
    struct gguf *g = mx_malloc(sizeof *g);
    if (g)
        *g = (struct gguf){ 0 };
    else
        capi_report();
    return (mlx_io_gguf){ capi_made_or(HANDLE_io_gguf, g, __func__, free) };
}

int mlx_io_gguf_free(mlx_io_gguf io)
{
    capi_gone(HANDLE_io_gguf, io.ctx);
    if (io.ctx)
        gguf_free(io.ctx);
    free(io.ctx);
    return 0;
}

#define HANDLE(io) (struct gguf *)capi_held(__func__, "the content of a gguf file", #io, (io).ctx)
#define KEY(key) capi_need(__func__, "a name", "key", key)

/* Of an error that names what was asked for and not found. */
static void report_missing(const char *func, const char *what, const char *key)
{
    mx_fail("[%s] expected the name of %s, got '%s'", func + 4, what, key);
}

/* ---- looking */

int mlx_io_gguf_get_keys(mlx_vector_string *keys, mlx_io_gguf io)
{
    struct gguf *g = HANDLE(io);
    struct list *l = g ? capi_list_new(TEXTS) : NULL;
    for (int i = 0; l && i < g->tensors.n; i++)
        if (capi_list_add(l, (union slot){ .text = g->tensors.arrays[i].name }))
            break;
    return capi_publish_list(keys, l);
}

int mlx_io_gguf_get_metadata_keys(mlx_vector_string *keys, mlx_io_gguf io)
{
    struct gguf *g = HANDLE(io);
    struct list *l = g ? capi_list_new(TEXTS) : NULL;
    for (int i = 0; l && i < g->n; i++)
        if (capi_list_add(l, (union slot){ .text = g->values[i].key }))
            break;
    return capi_publish_list(keys, l);
}

int mlx_io_gguf_get_array(mlx_array *arr, mlx_io_gguf io, const char *key)
{
    MX_SCOPE(NULL);
    struct gguf *g = HANDLE(io);
    mx x = g && KEY(key) ? gguf_array(g, key) : MX_NIL;
    if (!x)
        report_missing(__func__, "an array", key);
    return capi_publish(arr, x ? x : MX_NIL);
}

/* The value, if it is of that kind; else NULL, after mx_fail. */
static struct gguf_value *value(const char *func, mlx_io_gguf io, const char *key, enum gguf_kind kind)
{
    static const char *const names[] = { "an array", "a string", "a list of strings" };
    struct gguf *g = capi_held(func, "the content of a gguf file", "io", io.ctx);
    if (!g || !capi_need(func, "a name", "key", key))
        return NULL;
    struct gguf_value *v = gguf_value(g, key);
    if (v && v->kind == kind)
        return v;
    report_missing(func, names[kind], key);
    return NULL;
}

int mlx_io_gguf_get_metadata_array(mlx_array *arr, mlx_io_gguf io, const char *key)
{
    MX_SCOPE(NULL);
    struct gguf_value *v = value(__func__, io, key, GGUF_ARRAY);
    return capi_publish(arr, v ? v->array.it : MX_NIL);
}

int mlx_io_gguf_get_metadata_string(mlx_string *str, mlx_io_gguf io, const char *key)
{
    struct gguf_value *v = value(__func__, io, key, GGUF_TEXT);
    return capi_publish_text(str, v ? capi_text_copy(v->texts[0]) : NULL);
}

int mlx_io_gguf_get_metadata_vector_string(mlx_vector_string *vstr, mlx_io_gguf io, const char *key)
{
    struct gguf_value *v = value(__func__, io, key, GGUF_TEXTS);
    struct list *l = v ? capi_list_new(TEXTS) : NULL;
    for (int i = 0; l && i < v->n; i++)
        if (capi_list_add(l, (union slot){ .text = v->texts[i] }))
            break;
    return capi_publish_list(vstr, l);
}

static int gguf_has_kind(const char *func, bool *flag, mlx_io_gguf io, const char *key, enum gguf_kind kind)
{
    struct gguf *g = capi_held(func, "the content of a gguf file", "io", io.ctx);
    if (!g || !capi_need(func, "a name", "key", key) || !capi_need(func, "a place for the result", "flag", flag))
        return capi_report();
    const struct gguf_value *v = gguf_value(g, key);
    *flag = v && v->kind == kind;
    return 0;
}

int mlx_io_gguf_has_metadata_array(bool *flag, mlx_io_gguf io, const char *key)
{
    return gguf_has_kind(__func__, flag, io, key, GGUF_ARRAY);
}
int mlx_io_gguf_has_metadata_string(bool *flag, mlx_io_gguf io, const char *key)
{
    return gguf_has_kind(__func__, flag, io, key, GGUF_TEXT);
}
int mlx_io_gguf_has_metadata_vector_string(bool *flag, mlx_io_gguf io, const char *key)
{
    return gguf_has_kind(__func__, flag, io, key, GGUF_TEXTS);
}

/* ---- filling */

int mlx_io_gguf_set_array(mlx_io_gguf io, const char *key, const mlx_array arr)
{
    struct gguf *g = HANDLE(io);
    mx x = capi_in(arr);
    if (g && KEY(key) && !is_nil(x))
        gguf_set_array(g, key, x);
    return capi_end();
}

int mlx_io_gguf_set_metadata_array(mlx_io_gguf io, const char *key, const mlx_array marr)
{
    struct gguf *g = HANDLE(io);
    mx x = capi_in(marr);
    struct gguf_value v = { .kind = GGUF_ARRAY };
    if (g && KEY(key) && !is_nil(x)) {
        mx_keep(&v.array, x);
        gguf_set_value(g, key, &v);
    }
    return capi_end();
}

int mlx_io_gguf_set_metadata_string(mlx_io_gguf io, const char *key, const char *mstr)
{
    struct gguf *g = HANDLE(io);
    struct gguf_value v = { .kind = GGUF_TEXT };
    if (g && KEY(key) && capi_given(mstr, "a string")) {
        gguf_add_text(&v, mstr, strlen(mstr));
        gguf_set_value(g, key, &v);
    }
    return capi_end();
}

int mlx_io_gguf_set_metadata_vector_string(mlx_io_gguf io, const char *key, const mlx_vector_string mvstr)
{
    struct gguf *g = HANDLE(io);
    const struct list *l = mvstr.ctx;
    if (!l)
        capi_refuse(__func__, "a vector of strings", "mvstr", "an empty handle");
    struct gguf_value v = { .kind = GGUF_TEXTS };
    if (g && KEY(key) && l) {
        for (size_t i = 0; i < l->n && !gguf_add_text(&v, l->v[i].text, strlen(l->v[i].text)); i++)
            ;
        gguf_set_value(g, key, &v);
    }
    return capi_end();
}

/* ---- files */

/* The content of the handle becomes g, or what failed is reported. */
static int publish_gguf(const char *func, mlx_io_gguf *gguf, struct gguf *g)
{
    struct gguf *to = NULL;
    if (!mx_failed() && capi_need(func, "a place for the result", "gguf", gguf))
        to = gguf->ctx ? gguf->ctx : mx_malloc(sizeof *to);
    if (to && !gguf->ctx && capi_made(HANDLE_io_gguf, to, func)) {
        free(to);
        to = NULL;
    }
    if (!to) {
        gguf_free(g);
        return capi_report_call(func);
    }
    struct gguf old = { 0 };
    if (gguf->ctx)
        old = *to;
    *to = *g;
    gguf->ctx = to;
    gguf_free(&old);
    return 0;
}

int mlx_load_gguf_as(mlx_io_gguf *gguf, const char *file, bool packed, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct gguf g = { 0 };
    if (capi_given(file, "the name of a file"))
        gguf_load_file(file, packed, &g);
    return publish_gguf(__func__, gguf, &g);
}

int mlx_load_gguf(mlx_io_gguf *gguf, const char *file, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct gguf g = { 0 };
    if (capi_given(file, "the name of a file"))
        gguf_load_file(file, false, &g);
    return publish_gguf(__func__, gguf, &g);
}

int mlx_load_gguf_reader(mlx_io_gguf *gguf, mlx_io_reader in_stream, bool packed, const mlx_stream s)
{
    MX_SCOPE(capi_stream(s));
    struct gguf g = { 0 };
    struct port_reader r;
    if (capi_open_reader(__func__, "in_stream", in_stream.ctx, &r))
        gguf_load(&r.base, packed, &g);
    return publish_gguf(__func__, gguf, &g);
}

/* Of copies: the caller's functions that are called meanwhile may change the content of the handle. */

int mlx_save_gguf(const char *file, mlx_io_gguf gguf)
{
    struct gguf *g = HANDLE(gguf), copy = { 0 };
    char *name = g ? capi_with_suffix(__func__, file, ".gguf") : NULL;
    if (name && !gguf_copy(&copy, g))
        gguf_save_file(name, &copy);
    gguf_free(&copy);
    free(name);
    return capi_end_call(__func__);
}

int mlx_save_gguf_writer(mlx_io_writer out_stream, mlx_io_gguf gguf)
{
    struct gguf *g = HANDLE(gguf), copy = { 0 };
    struct port_writer w;
    if (g && !gguf_copy(&copy, g) && capi_open_writer(__func__, "out_stream", out_stream.ctx, &w))
        gguf_save(&w.base, &copy);
    gguf_free(&copy);
    return capi_end_call(__func__);
}
