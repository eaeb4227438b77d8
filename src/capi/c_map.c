/* c_map.c: maps from names to arrays and to strings.
 *
 * Entries stand in the order of their first insertion.  `index` is a hash table of their numbers
 * plus one (0: free) with linear probing, never more than half full. */
#include <stdlib.h>
#include <string.h>

#include "capi/capi.h"
#include "core/buffer.h"
#include "core/hash.h"

struct pair {
    char *key;
    union slot value;
};

struct map {
    enum list_kind kind;
    bool lent; /* to a callback: as a list (capi.h) */
    size_t n, cap;
    struct pair *entries; /* cap */
    size_t *index;        /* 2 cap, a power of two */
};

static size_t key_hash(const char *key) { return (size_t)hash_bytes(HASH_START, key, strlen(key)); }

/* Where the number of the key's entry is or would be. */
static size_t *map_place(const struct map *m, const char *key)
{
    size_t mask = 2 * m->cap - 1, i = key_hash(key) & mask;
    while (m->index[i] && strcmp(m->entries[m->index[i] - 1].key, key)) i = (i + 1) & mask;
    return &m->index[i];
}

static const union slot *map_find(const struct map *m, const char *key)
{
    size_t number = m->cap ? *map_place(m, key) : 0;
    return number ? &m->entries[number - 1].value : NULL;
}

static int map_grow(struct map *m)
{
    struct map g = { m->kind, m->lent, m->n, m->cap ? 2 * m->cap : 8, NULL, NULL };
    g.entries = mx_malloc(g.cap * sizeof *g.entries);
    g.index = g.entries ? mx_malloc(2 * g.cap * sizeof *g.index) : NULL;
    if (!g.index) {
        free(g.entries);
        return 1;
    }
    memset(g.index, 0, 2 * g.cap * sizeof *g.index);
    for (size_t i = 0; i < m->n; i++) {
        g.entries[i] = m->entries[i];
        *map_place(&g, g.entries[i].key) = i + 1;
    }
    free(m->entries);
    free(m->index);
    *m = g;
    return 0;
}

struct map *capi_map_new(enum list_kind kind)
{
    struct map *m = mx_malloc(sizeof *m);
    if (m)
        *m = (struct map){ .kind = kind };
    return m;
}

void capi_map_free(struct map *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->n; i++) {
        free(m->entries[i].key);
        slot_drop(m->kind, &m->entries[i].value);
    }
    free(m->entries);
    free(m->index);
    free(m);
}

int capi_map_put(struct map *m, const char *key, union slot value)
{
    union slot copy;
    if ((m->n == m->cap && map_grow(m)) || slot_copy(m->kind, &copy, value))
        return 1;
    size_t *number = map_place(m, key);
    if (*number) {
        union slot *at = &m->entries[*number - 1].value, old = *at;
        *at = copy;
        slot_drop(m->kind, &old); /* whose owner may look at the map, and change it */
        return 0;
    }
    char *own_key = capi_text_copy(key);
    if (!own_key) {
        slot_drop(m->kind, &copy);
        return 1;
    }
    m->entries[m->n] = (struct pair){ own_key, copy };
    *number = ++m->n;
    return 0;
}

bool capi_map_entry(const struct map *m, size_t i, const char **key, union slot *value)
{
    if (i >= m->n)
        return false;
    *key = m->entries[i].key;
    *value = m->entries[i].value;
    return true;
}

static struct map *map_copy(const struct map *m)
{
    struct map *c = capi_map_new(m->kind);
    for (size_t i = 0; c && i < m->n; i++)
        if (capi_map_put(c, m->entries[i].key, m->entries[i].value)) {
            capi_map_free(c);
            c = NULL;
        }
    return c;
}

struct map *capi_map_lend(const struct map *m)
{
    struct map *c = map_copy(m);
    if (c)
        c->lent = true;
    return c;
}

static enum handle_kind handle_kind(enum list_kind kind)
{
    return kind == ARRAYS ? HANDLE_map_string_to_array : HANDLE_map_string_to_string;
}

int capi_map_end(const char *func, void **ctx, struct map *m)
{
    if (!capi_need(func, "a place for the result", "map", ctx) || !m || mx_failed()) {
        capi_map_free(m);
        return capi_report();
    }
    struct map *old = *ctx;
    if (old) {
        struct map swap = *old;
        *old = *m;
        *m = swap;
        old->lent = swap.lent;
        capi_map_free(m);
    } else if (capi_made(handle_kind(m->kind), m, func)) {
        capi_map_free(m);
        return capi_report();
    } else {
        *ctx = m;
    }
    return 0;
}

const struct map *capi_map(const char *func, const char *arg, const void *ctx)
{
    if (!ctx)
        capi_refuse(func, "a map", arg, "an empty handle");
    return ctx;
}

static int insert(const char *func, struct map *m, const char *key, const void *value)
{
    union slot s = { 0 };
    if (!capi_map(func, "map", m) || !capi_need(func, "a string", "key", key) ||
        slot_of(func, "value", m->kind, value, &s) || capi_map_put(m, key, s))
        return capi_report();
    return 0;
}

/* The value under the key; NULL without a failure where there is none. */
static const union slot *get(const char *func, const void *res, const struct map *m, const char *key)
{
    if (!capi_need(func, "a place for the result", "value", res) || !capi_map(func, "map", m) ||
        !capi_need(func, "a string", "key", key))
        return NULL;
    return map_find(m, key);
}

enum { ABSENT = 2 };

int mlx_map_string_to_array_get(mlx_array *value, const mlx_map_string_to_array map, const char *key)
{
    const union slot *s = get(__func__, value, map.ctx, key);
    return s ? capi_publish(value, s->array.it) : mx_failed() ? capi_report() : ABSENT;
}

int mlx_map_string_to_string_get(const char **value, const mlx_map_string_to_string map, const char *key)
{
    const union slot *s = get(__func__, value, map.ctx, key);
    if (!s)
        return mx_failed() ? capi_report() : ABSENT;
    *value = s->text;
    return 0;
}

/* An iterator's ctx points at the number of the next entry. */
static size_t *start(const char *func, enum handle_kind kind, const struct map *m)
{
    size_t *next = capi_map(func, "map", m) ? mx_malloc(sizeof *next) : NULL;
    if (!next)
        return capi_report(), NULL;
    *next = 0;
    return capi_made_or(kind, next, func, free);
}

/* The entry that is next: 0, or what the function is to return. */
static int map_next_entry(const char *func, const char **key, const void *value, const size_t *next,
                          const struct map *m, union slot *s)
{
    if (!next || !m) {
        capi_refuse(func, "an iterator", "it", "an empty handle");
        return capi_report();
    }
    if (!capi_need(func, "a place for the result", "key", key) ||
        !capi_need(func, "a place for the result", "value", value))
        return capi_report();
    return capi_map_entry(m, *next, key, s) ? 0 : ABSENT;
}

int mlx_map_string_to_array_iterator_next(const char **key, mlx_array *value, mlx_map_string_to_array_iterator it)
{
    union slot s = { 0 };
    const char *name = NULL;
    int end = map_next_entry(__func__, key ? &name : NULL, value, it.ctx, it.map_ctx, &s);
    if (end || capi_publish(value, s.array.it))
        return end ? end : 1;
    *key = name;
    ++*(size_t *)it.ctx;
    return 0;
}

int mlx_map_string_to_string_iterator_next(const char **key, const char **value, mlx_map_string_to_string_iterator it)
{
    union slot s = { 0 };
    int end = map_next_entry(__func__, key, value, it.ctx, it.map_ctx, &s);
    if (end)
        return end;
    *value = s.text;
    ++*(size_t *)it.ctx;
    return 0;
}

#define HANDLE(name, kind)                                     \
    name name##_new(void)                                      \
    {                                                          \
        name made = { NULL };                                  \
        capi_map_end(__func__, &made.ctx, capi_map_new(kind)); \
        return made;                                           \
    }                                                          \
    int name##_free(name map)                                  \
    {                                                          \
        if (map.ctx && ((struct map *)map.ctx)->lent)          \
            return 0;                                          \
        capi_gone(handle_kind(kind), map.ctx);                 \
        return capi_map_free(map.ctx), 0;                      \
    }

#define CHANGE(name, value_type)                                                       \
    int name##_set(name *map, const name src)                                          \
    {                                                                                  \
        const struct map *m = capi_map(__func__, "src", src.ctx);                      \
        return capi_map_end(__func__, map ? &map->ctx : NULL, m ? map_copy(m) : NULL); \
    }                                                                                  \
    int name##_insert(name map, const char *key, value_type value) { return insert(__func__, map.ctx, key, &value); }

#define ITERATOR(name, kind)                                                 \
    name##_iterator name##_iterator_new(name map)                            \
    {                                                                        \
        return (name##_iterator){ start(__func__, kind, map.ctx), map.ctx }; \
    }                                                                        \
    int name##_iterator_free(name##_iterator it) { return capi_gone(kind, it.ctx), free(it.ctx), 0; }

HANDLE(mlx_map_string_to_array, ARRAYS)
CHANGE(mlx_map_string_to_array, const mlx_array)
ITERATOR(mlx_map_string_to_array, HANDLE_map_string_to_array_iterator)
HANDLE(mlx_map_string_to_string, TEXTS)
CHANGE(mlx_map_string_to_string, const char *)
ITERATOR(mlx_map_string_to_string, HANDLE_map_string_to_string_iterator)
