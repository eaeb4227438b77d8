/* c_export.c: functions in files. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "mlxfn/export.h"

/* ---- the caller's functions as named ones */

struct plain_function {
    struct named_function named;
    struct closure *f;
};

static int call_named(struct named_function *self, int n_pos, int n_keys, const char *const keys[], const mx x[],
                      struct mx_list *out)
{
    struct closure *f = ((struct plain_function *)self)->f;
    (void)keys;
    if (n_keys) {
        mx_fail("[export_function] expected no named arguments for a function that takes none, got %d", n_keys);
        return 1;
    }
    return f->call(f, n_pos, x, out);
}

static void plain_destroy(struct object *o)
{
    object_release(&((struct plain_function *)o)->f->object);
    free(o);
}

struct kwargs_function {
    struct named_function named;
    mlx_closure_kwargs f;
};

static struct map *map_of(int n, const char *const keys[], const mx x[])
{
    struct map *m = capi_map_new(ARRAYS);
    for (int i = 0; m && i < n; i++)
        if (capi_map_put(m, keys[i], (union slot){ .array = { x[i] } })) {
            capi_map_free(m);
            m = NULL;
        }
    return m;
}

static int call_kwargs(struct named_function *self, int n_pos, int n_keys, const char *const keys[], const mx x[],
                       struct mx_list *out)
{
    mlx_vector_array in = { capi_lend(n_pos, x) }, y = { capi_list_new(ARRAYS) };
    mlx_map_string_to_array named = { map_of(n_keys, keys, x + n_pos) };
    if (in.ctx && y.ctx && named.ctx) {
        unsigned long before = capi_reports();
        int status = mlx_closure_kwargs_apply(&y, ((struct kwargs_function *)self)->f, in, named);
        const struct list *l = y.ctx;
        if (status)
            capi_callback_failed(status, before);
        for (size_t i = 0; !status && i < l->n; i++) list_push(out, l->v[i].array.it);
    }
    capi_list_free(in.ctx);
    capi_list_free(y.ctx);
    capi_map_free(named.ctx);
    return mx_failed();
}

static void kwargs_destroy(struct object *o)
{
    mlx_closure_kwargs_free(((struct kwargs_function *)o)->f);
    free(o);
}

static struct named_function *named_of(struct closure *f)
{
    struct plain_function *p = f ? mx_malloc(sizeof *p) : NULL;
    if (!p)
        return NULL;
    *p = (struct plain_function){ { { .refs = 1, .destroy = plain_destroy }, call_named }, f };
    object_retain(&f->object);
    return &p->named;
}

static struct named_function *named_of_kwargs(const char *func, mlx_closure_kwargs f)
{
    if (!capi_need(func, "a closure", "fun", f.ctx))
        return NULL;
    struct kwargs_function *k = mx_malloc(sizeof *k);
    if (!k)
        return NULL;
    *k = (struct kwargs_function){ { { .refs = 1, .destroy = kwargs_destroy }, call_kwargs }, { NULL } };
    if (capi_closure_kwargs_keep(func, "fun", &k->f, f)) {
        free(k);
        return NULL;
    }
    capi_scope_leave(k->f.ctx);
    return &k->named;
}

/* ---- arguments */

struct export_arguments {
    mx *x;       /* positional ones, then those of keys */
    char **keys; /* copies */
    int n_pos, n_keys;
};

static void export_arguments_free(struct export_arguments *a)
{
    capi_arrays_free(a->n_pos + a->n_keys, a->x);
    for (int i = 0; i < a->n_keys && a->keys; i++) free(a->keys[i]);
    free(a->keys);
}

/* kwargs NULL: none. */
static bool arguments_of(const char *func, mlx_vector_array args, const struct map *kwargs, struct export_arguments *a)
{
    union slot value;
    const char *key;
    *a = (struct export_arguments){ 0 };
    mx *x = capi_arrays(func, "args", args, &a->n_pos);
    while (kwargs && capi_map_entry(kwargs, (size_t)a->n_keys, &key, &value)) a->n_keys++;
    if (x && a->n_keys) {
        mx *all = mx_malloc(((size_t)a->n_pos + (size_t)a->n_keys) * sizeof *all);
        a->keys = all ? mx_malloc((size_t)a->n_keys * sizeof *a->keys) : NULL;
        if (!a->keys) {
            capi_arrays_free(a->n_pos, x);
            free(all);
            a->n_pos = a->n_keys = 0;
            return false;
        }
        if (a->n_pos)
            memcpy(all, x, (size_t)a->n_pos * sizeof *all);
        for (int i = 0; i < a->n_keys; i++) {
            capi_map_entry(kwargs, (size_t)i, &key, &value);
            a->keys[i] = mx_strdup(key); /* a function that is called may change the map */
            all[a->n_pos + i] = value.array.it;
            mx_retain(value.array.it);
        }
        free(x);
        x = all;
        if (mx_failed()) {
            a->x = x;
            export_arguments_free(a);
            *a = (struct export_arguments){ 0 };
            return false;
        }
    } else if (!x) {
        a->n_pos = a->n_keys = 0;
    }
    a->x = x;
    return x;
}

/* ---- exporters */

static struct exporter *exporter_of(const char *func, const char *file, struct named_function *f, bool shapeless,
                                    bool portable, const char *metadata, size_t length)
{
    struct exporter *e = NULL;
    if (f && capi_need(func, "the name of a file", "file", file))
        e = exporter_new(file, f, shapeless, portable, metadata ? metadata : "", metadata ? length : 0);
    if (f)
        object_release(&f->object);
    if (!e)
        capi_report();
    return e;
}

static void drop_exporter(void *e) { exporter_free(e); }

static mlx_function_exporter handle_of_imported(const char *func, struct exporter *e)
{
    return (mlx_function_exporter){ capi_made_or(HANDLE_function_exporter, e, func, drop_exporter) };
}

mlx_function_exporter mlx_function_exporter_new(const char *file, const mlx_closure fun, bool shapeless)
{
    struct named_function *f = named_of(capi_in_closure(fun));
    return handle_of_imported(__func__, exporter_of(__func__, file, f, shapeless, true, "", 0));
}

mlx_function_exporter mlx_function_exporter_new_kwargs(const char *file, const mlx_closure_kwargs fun, bool shapeless,
                                                       bool portable, const char *metadata, size_t metadata_length)
{
    struct named_function *f = named_of_kwargs(__func__, fun);
    return handle_of_imported(__func__, exporter_of(__func__, file, f, shapeless, portable, metadata, metadata_length));
}

struct listener {
    struct export_listener of;
    int (*callback)(const char *, const mlx_vector_array, void *);
    void *payload;
    void (*dtor)(void *);
};

static int hear_in_c(struct export_listener *self, const char *json, int n, const mx constants[])
{
    struct listener *l = (struct listener *)self;
    mlx_vector_array all = { capi_lend(n, constants) };
    if (all.ctx) {
        unsigned long before = capi_reports();
        int status = l->callback(json, all, l->payload);
        if (status)
            capi_callback_failed(status, before);
    }
    capi_list_free(all.ctx);
    return mx_failed();
}

static void listener_destroy(struct object *o)
{
    struct listener *l = (struct listener *)o;
    mx_let_go(l->dtor, l->payload);
    free(l);
}

mlx_function_exporter mlx_function_exporter_new_callback(
    int (*callback)(const char *event, const mlx_vector_array constants, void *payload), void *payload,
    void (*dtor)(void *), const mlx_closure_kwargs fun, bool shapeless, bool portable)
{
    struct exporter *e = NULL;
    struct named_function *f =
        capi_need(__func__, "a function", "callback", (void *)callback) ? named_of_kwargs(__func__, fun) : NULL;
    struct listener *l = f ? mx_malloc(sizeof *l) : NULL;
    if (l) {
        *l = (struct listener){ { { .refs = 1, .destroy = listener_destroy }, hear_in_c }, callback, payload, dtor };
        e = exporter_new_listener(&l->of, f, shapeless, portable);
        if (!e)
            l->dtor = NULL; /* the payload stays the caller's */
        object_release(&l->of.object);
    }
    if (f)
        object_release(&f->object);
    if (!e)
        capi_report();
    return handle_of_imported(__func__, e);
}

int mlx_function_exporter_close(const mlx_function_exporter xfunc, bool keep)
{
    if (capi_need(__func__, "an exporter", "xfunc", xfunc.ctx))
        exporter_close(xfunc.ctx, keep);
    return capi_end();
}

int mlx_function_exporter_free(mlx_function_exporter xfunc)
{
    capi_gone(HANDLE_function_exporter, xfunc.ctx);
    if (xfunc.ctx)
        exporter_close(xfunc.ctx, exporter_whole(xfunc.ctx));
    exporter_free(xfunc.ctx);
    return capi_end();
}

static int export_apply(const char *func, void *exporter, mlx_vector_array args, const struct map *kwargs)
{
    struct export_arguments a;
    if (capi_need(func, "an exporter", "xfunc", exporter) && arguments_of(func, args, kwargs, &a)) {
        exporter_trace(exporter, a.n_pos, a.n_keys, (const char *const *)a.keys, a.x);
        export_arguments_free(&a);
    }
    return capi_end();
}

int mlx_function_exporter_apply(const mlx_function_exporter xfunc, const mlx_vector_array args)
{
    return export_apply(__func__, xfunc.ctx, args, NULL);
}

int mlx_function_exporter_apply_kwargs(const mlx_function_exporter xfunc, const mlx_vector_array args,
                                       const mlx_map_string_to_array kwargs)
{
    const struct map *m = capi_in_map(kwargs);
    return m ? export_apply(__func__, xfunc.ctx, args, m) : capi_report();
}

/* One trace; a file that has none is not put in place. */
static int export_one(const char *func, struct exporter *e, mlx_vector_array args, const struct map *kwargs)
{
    int failed = !e || export_apply(func, e, args, kwargs);
    if (e && exporter_close(e, !failed) && !failed)
        failed = capi_report();
    exporter_free(e);
    return failed;
}

int mlx_export_function(const char *file, const mlx_closure fun, const mlx_vector_array args, bool shapeless)
{
    struct named_function *f = named_of(capi_in_closure(fun));
    return export_one(__func__, exporter_of(__func__, file, f, shapeless, true, "", 0), args, NULL);
}

int mlx_export_function_kwargs(const char *file, const mlx_closure_kwargs fun, const mlx_vector_array args,
                               const mlx_map_string_to_array kwargs, bool shapeless)
{
    const struct map *m = capi_in_map(kwargs);
    if (!m)
        return capi_report();
    struct named_function *f = named_of_kwargs(__func__, fun);
    return export_one(__func__, exporter_of(__func__, file, f, shapeless, true, "", 0), args, m);
}

/* ---- imported functions */

static void drop_imported(void *f) { imported_release(f); }

mlx_imported_function mlx_imported_function_new(const char *file)
{
    struct imported *f = NULL;
    if (capi_given(file, "the name of a file"))
        f = imported_open(file);
    if (!f)
        capi_report();
    return (mlx_imported_function){ capi_made_or(HANDLE_imported_function, f, __func__, drop_imported) };
}

int mlx_imported_function_free(mlx_imported_function xfunc)
{
    capi_gone(HANDLE_imported_function, xfunc.ctx);
    imported_release(xfunc.ctx);
    return 0;
}

static int apply_imported(const char *func, mlx_vector_array *res, struct imported *f, mlx_vector_array args,
                          const struct map *kwargs)
{
    struct export_arguments a;
    struct mx_list y = { 0 };
    if (capi_need(func, "an imported function", "xfunc", f) && arguments_of(func, args, kwargs, &a)) {
        imported_call(f, a.n_pos, a.n_keys, (const char *const *)a.keys, a.x, &y);
        export_arguments_free(&a);
    }
    return capi_results_end(func, res, &y, NULL, NULL);
}

int mlx_imported_function_apply(mlx_vector_array *res, const mlx_imported_function xfunc, const mlx_vector_array args)
{
    return apply_imported(__func__, res, xfunc.ctx, args, NULL);
}

int mlx_imported_function_apply_kwargs(mlx_vector_array *res, const mlx_imported_function xfunc,
                                       const mlx_vector_array args, const mlx_map_string_to_array kwargs)
{
    const struct map *m = capi_in_map(kwargs);
    return m ? apply_imported(__func__, res, xfunc.ctx, args, m) : capi_report();
}

int mlx_imported_function_metadata(const char **text, size_t *length, const mlx_imported_function xfunc)
{
    if (capi_need(__func__, "an imported function", "xfunc", xfunc.ctx) && capi_out(text) && capi_out(length))
        *text = imported_metadata(xfunc.ctx, length);
    return capi_end();
}

int mlx_inspect_function(mlx_string *res, const char *file)
{
    char *json = capi_given(file, "the name of a file") ? inspect_file(file) : NULL;
    return capi_publish_text(res, json);
}

bool mlx_function_exporter_sizes_read(const mlx_function_exporter xfunc)
{
    return xfunc.ctx && exporter_sizes_read(xfunc.ctx);
}
