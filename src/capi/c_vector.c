/* c_vector.c: lists of arrays, of lists, of ints and of strings.
 *
 * The four kinds share one growing list of slots; what differs is how a slot is filled, copied and
 * dropped.  A list is changed only when all of what goes into it has been copied, so that a failed
 * call leaves it as it was. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"

int slot_of(const char *func, const char *arg, enum list_kind kind, const void *value, union slot *out)
{
    switch (kind) {
    case ARRAYS: out->array.it = capi_array(func, arg, *(const mlx_array *)value); return is_nil(out->array.it);
    case LISTS:
        out->list = ((const mlx_vector_array *)value)->ctx;
        if (!out->list)
            capi_refuse(func, "a vector", arg, "an empty handle");
        return !out->list;
    case NUMBERS: out->number = *(const int *)value; return 0;
    case TEXTS:
        out->text = *(char *const *)value;
        if (!out->text)
            capi_refuse(func, "a string", arg, "NULL");
        return !out->text;
    }
    return 1;
}

static struct list *list_copy(const struct list *l)
{
    struct list *c = capi_list_new(l->kind);
    for (size_t i = 0; c && i < l->n; i++)
        if (capi_list_add(c, l->v[i])) {
            capi_list_free(c);
            c = NULL;
        }
    return c;
}

int slot_copy(enum list_kind kind, union slot *to, union slot from)
{
    switch (kind) {
    case ARRAYS:
        to->array.it = NULL;
        mx_keep(&to->array, from.array.it);
        return 0;
    case LISTS: return !(to->list = list_copy(from.list));
    case NUMBERS: to->number = from.number; return 0;
    case TEXTS: return !(to->text = capi_text_copy(from.text));
    }
    return 1;
}

void slot_drop(enum list_kind kind, union slot *s)
{
    switch (kind) {
    case ARRAYS: mx_drop(&s->array); break;
    case LISTS: capi_list_free(s->list); break;
    case NUMBERS: break;
    case TEXTS: free(s->text); break;
    }
}

struct list *capi_list_new(enum list_kind kind)
{
    struct list *l = mx_malloc(sizeof *l);
    if (l)
        *l = (struct list){ .kind = kind };
    return l;
}

static void list_drop_all(struct list *l)
{
    while (l->n) slot_drop(l->kind, &l->v[--l->n]);
}

void capi_list_free(struct list *l)
{
    if (!l)
        return;
    list_drop_all(l);
    free(l->v);
    free(l);
}

static int reserve(struct list *l, size_t n)
{
    if (n <= l->cap)
        return 0;
    size_t cap = n > 2 * l->cap ? n : 2 * l->cap;
    union slot *v = mx_malloc(cap * sizeof *v);
    if (!v)
        return 1;
    if (l->n)
        memcpy(v, l->v, l->n * sizeof *v);
    free(l->v);
    l->v = v;
    l->cap = cap;
    return 0;
}

int capi_list_add(struct list *l, union slot value)
{
    if (reserve(l, l->n + 1) || slot_copy(l->kind, &l->v[l->n], value))
        return 1;
    l->n++;
    return 0;
}

/* Moves the elements of `from` behind those of `l` and frees what is left of it. */
static int take_over(struct list *l, struct list *from)
{
    int failed = reserve(l, l->n + from->n);
    if (!failed && from->n) {
        memcpy(l->v + l->n, from->v, from->n * sizeof *l->v);
        l->n += from->n;
        from->n = 0;
    }
    capi_list_free(from);
    return failed;
}

/* The content of the handle becomes l, which may be NULL after a failure. */
int capi_list_end(const char *func, void **ctx, struct list *l)
{
    if (!capi_need(func, "a place for the result", "res", ctx) || !l || mx_failed()) {
        capi_list_free(l);
        return capi_report_call(func);
    }
    struct list *old = *ctx;
    if (old) {
        struct list swap = *old;
        *old = *l;
        *l = swap;
        old->lent = swap.lent;
        capi_list_free(l);
    } else if (capi_made(HANDLE_vector_array + l->kind, l, func)) {
        capi_list_free(l);
        return capi_report();
    } else {
        *ctx = l;
    }
    return 0;
}

mx *capi_arrays(const char *func, const char *arg, mlx_vector_array vec, int *n)
{
    const struct list *l = vec.ctx;
    if (!l || l->n > INT_MAX) {
        capi_refuse(func, "a vector", arg, l ? "one that is too long" : "an empty handle");
        return NULL;
    }
    mx *x = mx_malloc((l->n + 1) * sizeof *x);
    for (size_t i = 0; x && i < l->n; i++) {
        mx_retain(x[i] = l->v[i].array.it);
        if (shapeless())
            capi_note(func, x[i]);
    }
    *n = (int)l->n;
    return x;
}

void capi_arrays_free(int n, mx *x)
{
    for (int i = 0; x && i < n; i++) mx_release(x[i]);
    free(x);
}

struct list *capi_list_of(int n, const mx x[])
{
    struct list *l = capi_list_new(ARRAYS);
    for (int i = 0; l && i < n; i++)
        if (capi_list_add(l, (union slot){ .array = { x[i] } })) {
            capi_list_free(l);
            l = NULL;
        }
    return l;
}

static struct list *lent(struct list *l)
{
    if (l)
        l->lent = true;
    return l;
}

struct list *capi_lend(int n, const mx x[]) { return lent(capi_list_of(n, x)); }
struct list *capi_lend_empty(enum list_kind kind) { return lent(capi_list_new(kind)); }

struct list *capi_list_of_results(struct mx_list *y)
{
    struct list *l = mx_failed() ? NULL : capi_list_new(ARRAYS);
    for (int i = 0; l && i < y->n; i++)
        if (capi_list_add(l, (union slot){ .array = y->v[i] })) {
            capi_list_free(l);
            l = NULL;
        }
    list_clear(y);
    return l;
}

int capi_results_end(const char *func, mlx_vector_array *res_0, struct mx_list *y, mlx_vector_array *res_1,
                     struct mx_list *dy)
{
    struct list *l = capi_list_of_results(y), *dl = dy ? capi_list_of_results(dy) : NULL;
    if (!l || (dy && !dl)) {
        capi_list_free(l);
        capi_list_free(dl);
        return capi_report();
    }
    return dy ? capi_both_end(func, CAPI_HALF(vector_array, res_0, l), CAPI_HALF(vector_array, res_1, dl))
              : capi_list_end(func, res_0 ? &res_0->ctx : NULL, l);
}

/* A list of the n values at `data`, the argument `arg`. */
static struct list *from_data(const char *func, const char *arg, enum list_kind kind, const void *data, size_t n)
{
    static const size_t size[] = { sizeof(mlx_array), sizeof(mlx_vector_array), sizeof(int), sizeof(char *) };
    if (n && !capi_need(func, "elements", arg, data))
        return NULL;
    struct list *l = capi_list_new(kind);
    union slot s;
    for (size_t i = 0; l && i < n; i++)
        if (slot_of(func, arg, kind, (const char *)data + i * size[kind], &s) || capi_list_add(l, s)) {
            capi_list_free(l);
            l = NULL;
        }
    return l;
}

static int list_append(const char *func, struct list *l, const char *arg, enum list_kind kind, const void *data,
                       size_t n)
{
    if (!l) {
        capi_refuse(func, "a vector", "vec", "an empty handle");
        return capi_report();
    }
    struct list *more = from_data(func, arg, kind, data, n);
    return !more || take_over(l, more) ? capi_report() : 0;
}

struct list *capi_list_copy(const char *func, const char *arg, const struct list *l)
{
    if (l)
        return list_copy(l);
    capi_refuse(func, "a vector", arg, "an empty handle");
    return NULL;
}

static size_t list_length(const char *func, const struct list *l)
{
    if (l)
        return l->n;
    capi_refuse(func, "a vector", "vec", "an empty handle");
    return capi_report(), 0;
}

/* The element number idx; NULL after a failure. */
static const union slot *element(const char *func, const void *res, const struct list *l, size_t idx)
{
    if (!capi_need(func, "a place for the result", "res", res))
        return NULL;
    if (!l) {
        capi_refuse(func, "a vector", "vec", "an empty handle");
        return NULL;
    }
    if (idx >= l->n) {
        mx_fail_as(MX_INDEX, "[%s] expected an index below the vector's size %zu, got %zu", func + 4, l->n, idx);
        return NULL;
    }
    return &l->v[idx];
}

/* The functions of one kind.  `data` is the type of the arrays of values that are passed in,
 * `value` that of one. */

#define HANDLE(name, kind)                                                          \
    name name##_new(void) { return publish_##name(__func__, capi_list_new(kind)); } \
    int name##_set(name *vec, const name src)                                       \
    {                                                                               \
        return capi_publish_list(vec, capi_list_copy(__func__, "src", src.ctx));    \
    }                                                                               \
    int name##_free(name vec)                                                       \
    {                                                                               \
        if (vec.ctx && ((struct list *)vec.ctx)->lent)                              \
            return 0;                                                               \
        capi_gone(HANDLE_vector_array + kind, vec.ctx);                             \
        return capi_list_free(vec.ctx), 0;                                          \
    }                                                                               \
    size_t name##_size(name vec) { return list_length(__func__, vec.ctx); }

#define MAKE(name, kind, data_type, value_type)                                         \
    name name##_new_data(data_type data, size_t size)                                   \
    {                                                                                   \
        return publish_##name(__func__, from_data(__func__, "data", kind, data, size)); \
    }                                                                                   \
    name name##_new_value(value_type val)                                               \
    {                                                                                   \
        return publish_##name(__func__, from_data(__func__, "val", kind, &val, 1));     \
    }

#define CHANGE(name, kind, data_type, value_type)                                     \
    int name##_set_data(name *vec, data_type data, size_t size)                       \
    {                                                                                 \
        return capi_publish_list(vec, from_data(__func__, "data", kind, data, size)); \
    }                                                                                 \
    int name##_set_value(name *vec, value_type val)                                   \
    {                                                                                 \
        return capi_publish_list(vec, from_data(__func__, "val", kind, &val, 1));     \
    }

#define APPEND(name, kind, data_type, value_type)                        \
    int name##_append_data(name vec, data_type data, size_t size)        \
    {                                                                    \
        return list_append(__func__, vec.ctx, "data", kind, data, size); \
    }                                                                    \
    int name##_append_value(name vec, value_type val) { return list_append(__func__, vec.ctx, "val", kind, &val, 1); }

#define VECTOR(name, kind, data_type, value_type)                \
    static name publish_##name(const char *func, struct list *l) \
    {                                                            \
        name made = { NULL };                                    \
        capi_list_end(func, &made.ctx, l);                       \
        return made;                                             \
    }                                                            \
    HANDLE(name, kind)                                           \
    MAKE(name, kind, data_type, value_type)                      \
    CHANGE(name, kind, data_type, value_type)                    \
    APPEND(name, kind, data_type, value_type)

VECTOR(mlx_vector_array, ARRAYS, const mlx_array *, const mlx_array)
VECTOR(mlx_vector_vector_array, LISTS, const mlx_vector_array *, const mlx_vector_array)
VECTOR(mlx_vector_int, NUMBERS, int *, int)
VECTOR(mlx_vector_string, TEXTS, const char **, const char *)

int mlx_vector_array_get(mlx_array *res, const mlx_vector_array vec, size_t idx)
{
    const union slot *s = element(__func__, res, vec.ctx, idx);
    return s ? capi_publish(res, s->array.it) : capi_report();
}

int mlx_vector_vector_array_get(mlx_vector_array *res, const mlx_vector_vector_array vec, size_t idx)
{
    const union slot *s = element(__func__, res, vec.ctx, idx);
    return s ? capi_publish_list(res, list_copy(s->list)) : capi_report();
}

int mlx_vector_int_get(int *res, const mlx_vector_int vec, size_t idx)
{
    const union slot *s = element(__func__, res, vec.ctx, idx);
    if (!s)
        return capi_report();
    *res = s->number;
    return 0;
}

int mlx_vector_string_get(char **res, const mlx_vector_string vec, size_t idx)
{
    const union slot *s = element(__func__, res, vec.ctx, idx);
    if (!s)
        return capi_report();
    *res = s->text;
    return 0;
}
