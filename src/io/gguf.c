/* gguf.c: the file format of the ggml library (its document "GGUF", versions 2 and 3, little endian).
 *
 * Magic, version, how many tensors and values; the values: key, type, content; of each tensor name,
 * sizes (the last axis first), type and offset; then, from a multiple of the alignment on, the bytes
 * of the tensors.  Strings have their length before them.  Every number is checked against what is
 * left of the file before anything is made of it. */
#include "io/gguf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "io/bytes.h"
#include "io/ggml.h"

enum { V_STRING = 8, V_ARRAY = 9, MOST_DIMS = 8 };
enum { ALIGNMENT = 32, MOST_ALIGNMENT = 1 << 20 };

/* By their number in files; strings and arrays have no dtype. */
static const enum dtype value_types[] = {
    DT_uint8, DT_int8,  DT_uint16, DT_int16,  DT_uint32, DT_int32,   DT_float32,
    DT_bool_, DT_COUNT, DT_COUNT,  DT_uint64, DT_int64,  DT_float64,
};
enum { VALUE_TYPES = sizeof value_types / sizeof *value_types };

/* ---- content */

mx gguf_array(struct gguf *g, const char *name)
{
    for (int i = 0; i < g->tensors.n; i++)
        if (!strcmp(g->tensors.arrays[i].name, name))
            return g->tensors.arrays[i].array.it;
    return NULL;
}

struct gguf_value *gguf_value(struct gguf *g, const char *key)
{
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->values[i].key, key))
            return &g->values[i];
    return NULL;
}

int gguf_set_array(struct gguf *g, const char *name, mx x)
{
    for (int i = 0; i < g->tensors.n; i++)
        if (!strcmp(g->tensors.arrays[i].name, name))
            return mx_keep(&g->tensors.arrays[i].array, x), 0;
    return archive_add(&g->tensors, name, x);
}

static void empty_value(struct gguf_value *v)
{
    mx_drop(&v->array);
    for (int i = 0; i < v->n; i++) free(v->texts[i]);
    free(v->texts);
    v->texts = NULL;
    v->n = v->cap = 0;
}

static struct gguf_value *new_value(struct gguf *g, const char *key, enum gguf_kind kind)
{
    struct gguf_value *all = mx_grown(g->values, g->n, &g->cap, sizeof *all);
    if (!all)
        return NULL;
    g->values = all;
    all[g->n] = (struct gguf_value){ .key = mx_strdup(key), .kind = kind };
    if (!all[g->n].key)
        return NULL;
    return &all[g->n++];
}

int gguf_set_value(struct gguf *g, const char *key, struct gguf_value *v)
{
    struct gguf_value *to = mx_failed() ? NULL : gguf_value(g, key);
    if (!to && !mx_failed())
        to = new_value(g, key, v->kind);
    struct gguf_value old = *v;
    if (to) {
        old = *to;
        *to = *v;
        to->key = old.key;
    }
    *v = (struct gguf_value){ 0 };
    empty_value(&old); /* whose array's owner may look at g, and change it */
    return !to;
}

int gguf_add_text(struct gguf_value *v, const char *text, size_t n)
{
    char **all = mx_grown(v->texts, v->n, &v->cap, sizeof *all), *copy;
    if (!all)
        return 1;
    v->texts = all;
    if (!(copy = mx_malloc(n + 1)))
        return 1;
    memcpy(copy, text, n);
    copy[n] = 0;
    all[v->n++] = copy;
    return 0;
}

int gguf_copy(struct gguf *to, const struct gguf *from)
{
    for (int i = 0; i < from->tensors.n && !mx_failed(); i++)
        archive_add(&to->tensors, from->tensors.arrays[i].name, from->tensors.arrays[i].array.it);
    for (int i = 0; i < from->n && !mx_failed(); i++) {
        const struct gguf_value *v = &from->values[i];
        struct gguf_value *copy = new_value(to, v->key, v->kind);
        if (copy && v->array.it)
            mx_keep(&copy->array, v->array.it);
        for (int k = 0; copy && k < v->n && !gguf_add_text(copy, v->texts[k], strlen(v->texts[k])); k++)
            ;
    }
    if (mx_failed())
        gguf_free(to);
    return mx_failed();
}

void gguf_free(struct gguf *g)
{
    for (int i = 0; i < g->n; i++) {
        empty_value(&g->values[i]);
        free(g->values[i].key);
    }
    free(g->values);
    archive_free(&g->tensors);
    *g = (struct gguf){ 0 };
}

/* ---- reading numbers and strings */

struct gguf_cursor {
    struct source *s;
    uint64_t at;
    uint8_t *window; /* of WINDOW bytes: those from `from` on, n of them */
    uint64_t from, n;
    char *text; /* the last string that was read */
    size_t text_cap;
};
enum { WINDOW = 1 << 16 };

static bool bad_gguf(struct gguf_cursor *c, uint64_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static bool bad_gguf(struct gguf_cursor *c, uint64_t at, const char *fmt, ...)
{
    char what[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    mx_fail("[load] %s: bad gguf file: offset %llu: %s", c->s->label, (unsigned long long)at, what);
    return false;
}

static uint64_t left(const struct gguf_cursor *c) { return c->s->size - c->at; }

static bool take_bytes(struct gguf_cursor *c, void *data, uint64_t n, const char *what)
{
    if (n > left(c))
        return bad_gguf(c, c->at, "%s needs %llu bytes, the file has %llu", what, (unsigned long long)n,
                        (unsigned long long)c->s->size);
    for (uint8_t *to = data; n;) {
        if (c->at < c->from || c->at >= c->from + c->n) {
            c->from = c->at;
            c->n = left(c) < WINDOW ? left(c) : WINDOW;
            if (!source_read(c->s, c->window, c->n, c->from)) {
                c->n = 0;
                return false;
            }
        }
        uint64_t have = c->from + c->n - c->at, part = n < have ? n : have;
        memcpy(to, c->window + (c->at - c->from), part);
        to += part;
        c->at += part;
        n -= part;
    }
    return true;
}

static bool take_u32(struct gguf_cursor *c, uint32_t *v, const char *what) { return take_bytes(c, v, 4, what); }
static bool take_u64(struct gguf_cursor *c, uint64_t *v, const char *what) { return take_bytes(c, v, 8, what); }

/* Into c->text, for use as a string of C. */
static bool take_gguf_string(struct gguf_cursor *c, const char *what, size_t *length)
{
    uint64_t n = 0, at = c->at;
    if (!take_u64(c, &n, what))
        return false;
    if (n > left(c))
        return bad_gguf(c, at, "%s would have %llu bytes, the file has %llu", what, (unsigned long long)n,
                        (unsigned long long)c->s->size);
    if (n >= c->text_cap) {
        char *more = mx_malloc(n + 64);
        if (!more)
            return false;
        free(c->text);
        c->text = more;
        c->text_cap = n + 64;
    }
    if (!take_bytes(c, c->text, n, what))
        return false;
    c->text[n] = 0;
    *length = n;
    return !memchr(c->text, 0, n) || bad_gguf(c, at, "%s has a null character", what);
}

/* ---- values */

static bool take_numbers(struct gguf_cursor *c, struct gguf_value *v, uint32_t type, int ndim, uint64_t n)
{
    enum dtype t = value_types[type];
    if (n > INT32_MAX || n > left(c) / dtype_size(t))
        return bad_gguf(c, c->at, "'%.80s' would have %llu items of %s, the file has %llu bytes", v->key,
                        (unsigned long long)n, dtype_name(t), (unsigned long long)c->s->size);
    struct buffer *b = buffer_new(n * dtype_size(t));
    if (!b)
        return false;
    if (!take_bytes(c, b->host, b->bytes, v->key)) {
        buffer_release(b);
        return false;
    }
    load_finish(b->host, b->bytes, t, false);
    MX_SCOPE(NULL);
    mx x = array_of_buffer(t, ndim, (const int[]){ (int)n }, b);
    if (!is_nil(x))
        mx_keep(&v->array, x);
    return !is_nil(x);
}

static bool take_text(struct gguf_cursor *c, struct gguf_value *v)
{
    size_t n = 0;
    return take_gguf_string(c, v->key, &n) && !gguf_add_text(v, c->text, n);
}

static bool take_array(struct gguf_cursor *c, struct gguf_value *v)
{
    uint32_t type;
    uint64_t n, at = c->at;
    if (!take_u32(c, &type, v->key) || !take_u64(c, &n, v->key))
        return false;
    if (type == V_ARRAY)
        return bad_gguf(c, at, "'%.80s' is an array of arrays, which is not supported", v->key);
    if (type >= VALUE_TYPES)
        return bad_gguf(c, at, "'%.80s' is an array of the unknown type %u", v->key, type);
    if (type != V_STRING)
        return take_numbers(c, v, type, 1, n);
    if (n > left(c) / 8)
        return bad_gguf(c, at, "'%.80s' would have %llu strings, the file has %llu bytes", v->key,
                        (unsigned long long)n, (unsigned long long)c->s->size);
    v->kind = GGUF_TEXTS;
    for (uint64_t i = 0; i < n; i++)
        if (!take_text(c, v))
            return false;
    return true;
}

static bool take_value(struct gguf_cursor *c, struct gguf *g)
{
    uint32_t type;
    size_t n;
    if (!take_gguf_string(c, "a key", &n))
        return false;
    struct gguf_value *v = new_value(g, c->text, GGUF_ARRAY);
    uint64_t at = c->at;
    if (!v || !take_u32(c, &type, v->key))
        return false;
    if (type >= VALUE_TYPES)
        return bad_gguf(c, at, "'%.80s' has the unknown type %u", v->key, type);
    if (type == V_ARRAY)
        return take_array(c, v);
    if (type != V_STRING)
        return take_numbers(c, v, type, 0, 1);
    v->kind = GGUF_TEXT;
    return take_text(c, v);
}

/* ---- tensors */

struct gguf_tensor {
    char *name;
    const struct ggml_type *type;
    int ndim, shape[MOST_DIMS];
    uint64_t at, items, bytes, offset; /* at: of its description */
};

static bool take_sizes(struct gguf_cursor *c, struct gguf_tensor *t)
{
    uint32_t ndim;
    if (!take_u32(c, &ndim, t->name))
        return false;
    if (ndim > MOST_DIMS)
        return bad_gguf(c, t->at, "'%.80s' has %u dimensions, expected at most %d", t->name, ndim, MOST_DIMS);
    t->ndim = (int)ndim;
    t->items = 1;
    for (int i = t->ndim; i-- > 0;) {
        uint64_t size;
        if (!take_u64(c, &size, t->name))
            return false;
        if (size > INT32_MAX || __builtin_mul_overflow(t->items, size, &t->items) || t->items > INT64_MAX / 8)
            return bad_gguf(c, t->at, "'%.80s' has dimensions that are too large", t->name);
        t->shape[i] = (int)size;
    }
    return true;
}

static bool take_tensor(struct gguf_cursor *c, struct gguf_tensor *t)
{
    uint32_t type;
    size_t n;
    t->at = c->at;
    if (!take_gguf_string(c, "the name of a tensor", &n))
        return false;
    if (!(t->name = mx_strdup(c->text)))
        return false;
    if (!take_sizes(c, t) || !take_u32(c, &type, t->name) || !take_u64(c, &t->offset, t->name))
        return false;
    t->type = ggml_type(type);
    if (!t->type) {
        const char *name = ggml_name(type);
        return bad_gguf(c, t->at, "'%.80s' has the type %s (%u), which is not supported", t->name,
                        name ? name : "unknown", type);
    }
    uint64_t last = t->ndim ? (uint64_t)t->shape[t->ndim - 1] : 1;
    if (last % (uint64_t)t->type->items)
        return bad_gguf(c, t->at, "'%.80s' of type %s has rows of %llu items, which is no multiple of %d", t->name,
                        t->type->name, (unsigned long long)last, t->type->items);
    if (__builtin_mul_overflow(t->items / (uint64_t)t->type->items, (uint64_t)t->type->bytes, &t->bytes))
        return bad_gguf(c, t->at, "'%.80s' has dimensions that are too large", t->name);
    return true;
}

static int by_entry_name(const void *a, const void *b)
{
    return strcmp((*(const struct gguf_tensor *const *)a)->name, (*(const struct gguf_tensor *const *)b)->name);
}

static int by_data_offset(const void *a, const void *b)
{
    const struct gguf_tensor *s = *(const struct gguf_tensor *const *)a, *t = *(const struct gguf_tensor *const *)b;
    return s->offset != t->offset ? (s->offset > t->offset) - (s->offset < t->offset)
                                  : (s->bytes > t->bytes) - (s->bytes < t->bytes);
}

/* Where the name of a part begins: "a.weight" has "a.scales" beside it, "a" too. */
static size_t stem(const char *name)
{
    static const char suffix[] = ".weight";
    size_t n = strlen(name), most = strlen(suffix);
    return n >= most && !strcmp(name + n - most, suffix) ? n - most : n;
}

/* No tensor has the name that unpacking another gives a part.  `sorted` by name. */
static bool check_parts(struct gguf_cursor *c, const struct gguf_tensor *const sorted[], uint64_t n)
{
    static const char *const parts[] = { ".scales", ".biases" }, *const wholes[] = { "", ".weight" };
    bool ok = true;
    for (uint64_t i = 0; i < n && ok; i++) {
        const char *name = sorted[i]->name;
        size_t m = strlen(name) < 7 ? 0 : strlen(name) - 7;
        if (strcmp(name + m, parts[0]) && strcmp(name + m, parts[1]))
            continue;
        char *whole = mx_malloc(m + 8);
        if (!whole)
            return false;
        memcpy(whole, name, m); /* NOLINT(bugprone-not-null-terminated-result): one of `wholes` follows */
        for (int k = 0; k < 2 && ok; k++) {
            strcpy(whole + m, wholes[k]);
            const struct gguf_tensor key = { .name = whole }, *wanted = &key,
                                     *const *found = bsearch(&wanted, sorted, n, sizeof *sorted, by_entry_name);
            if (found && ((*found)->type->form == GGML_AFFINE || (*found)->type->form == GGML_MXFP4))
                ok = bad_gguf(c, sorted[i]->at,
                              "the name '%.80s' comes twice: '%.80s', which is packed, has such a part", name, whole);
        }
        free(whole);
    }
    return ok;
}

/* Names are all different, and no byte belongs to two tensors. */
static bool check_tensors(struct gguf_cursor *c, const struct gguf_tensor *t, uint64_t n, uint64_t base,
                          uint64_t alignment)
{
    const struct gguf_tensor **v = mx_malloc((n + 1) * sizeof *v);
    bool ok = v != NULL;
    for (uint64_t i = 0; i < n && ok; i++) {
        v[i] = &t[i];
        if (t[i].offset % alignment)
            ok = bad_gguf(c, t[i].at, "'%.80s' begins at %llu, which is no multiple of the alignment %llu", t[i].name,
                          (unsigned long long)t[i].offset, (unsigned long long)alignment);
        else if (base > c->s->size || t[i].offset > c->s->size - base || t[i].bytes > c->s->size - base - t[i].offset)
            ok = bad_gguf(c, t[i].at,
                          "'%.80s' of shape %s, type %s needs %llu bytes from %llu + %llu on, the file has %llu",
                          t[i].name, shape_text(t[i].ndim, t[i].shape), t[i].type->name, (unsigned long long)t[i].bytes,
                          (unsigned long long)base, (unsigned long long)t[i].offset, (unsigned long long)c->s->size);
    }
    if (ok)
        qsort(v, n, sizeof *v, by_entry_name);
    for (uint64_t i = 1; i < n && ok; i++)
        if (!strcmp(v[i - 1]->name, v[i]->name))
            ok = bad_gguf(c, v[i]->at, "the name '%.80s' comes twice", v[i]->name);
    ok = ok && check_parts(c, v, n);
    if (ok)
        qsort(v, n, sizeof *v, by_data_offset);
    for (uint64_t i = 1; i < n && ok; i++)
        if (v[i - 1]->offset + v[i - 1]->bytes > v[i]->offset)
            ok = bad_gguf(c, v[i]->at, "'%.80s' and '%.80s' overlap", v[i - 1]->name, v[i]->name);
    free(v);
    return ok;
}

static bool add_part(struct source *s, const struct gguf_tensor *t, uint64_t at, enum ggml_part part, const char *name,
                     int last, enum dtype dtype, struct gguf *g)
{
    int shape[MOST_DIMS];
    memcpy(shape, t->shape, sizeof shape);
    if (t->ndim)
        shape[t->ndim - 1] = last;
    struct source *u = ggml_unpacked(s, name, at, t->items, t->type, part);
    bool ok = u && !archive_add(&g->tensors, name, mx_load(u, 0, t->ndim, shape, dtype));
    source_release(u);
    return ok;
}

static bool add_packed(struct source *s, const struct gguf_tensor *t, uint64_t at, struct gguf *g)
{
    size_t n = stem(t->name);
    char *name = mx_malloc(n + 16);
    if (!name)
        return false;
    memcpy(name, t->name, n);
    int last = t->shape[t->ndim - 1];
    bool affine = t->type->form == GGML_AFFINE;
    strcpy(name + n, ".scales");
    bool ok = add_part(s, t, at, GGML_WEIGHT, t->name, last / 32 * t->type->bits, DT_uint32, g) &&
              add_part(s, t, at, GGML_SCALES, name, last / 32, affine ? DT_float16 : DT_uint8, g);
    strcpy(name + n, ".biases");
    ok = ok && (!affine || add_part(s, t, at, GGML_BIASES, name, last / 32, DT_float16, g));
    free(name);
    return ok;
}

static bool add_tensor(struct source *s, const struct gguf_tensor *t, uint64_t at, bool packed, struct gguf *g)
{
    MX_SCOPE(NULL);
    int shape[MOST_DIMS];
    memcpy(shape, t->shape, sizeof shape);
    switch (t->type->form) {
    case GGML_PLAIN: return !archive_add(&g->tensors, t->name, mx_load(s, at, t->ndim, t->shape, t->type->dtype));
    case GGML_AFFINE:
    case GGML_MXFP4: return add_packed(s, t, at, g);
    default: break;
    }
    if (!packed)
        return add_part(s, t, at, GGML_NUMBERS, t->name, t->shape[t->ndim - 1], DT_float16, g);
    int64_t bytes = (int64_t)shape[t->ndim - 1] / t->type->items * t->type->bytes;
    shape[t->ndim - 1] = (int)bytes;
    mx x = bytes > INT32_MAX ? mx_fail("[load] %s: rows of '%s' are too long", s->label, t->name)
                             : mx_load(s, at, t->ndim, shape, DT_uint8);
    return !archive_add(&g->tensors, t->name, x);
}

/* ---- a file */

static bool alignment_of(struct gguf_cursor *c, struct gguf *g, uint64_t *alignment)
{
    struct gguf_value *v = gguf_value(g, "general.alignment");
    *alignment = ALIGNMENT;
    if (!v)
        return true;
    mx x = v->array.it;
    if (v->kind != GGUF_ARRAY || x->ndim || x->dtype != DT_uint32)
        return bad_gguf(c, c->at, "expected 'general.alignment' to be a number of type uint32");
    *alignment = *(const uint32_t *)array_host(x);
    if (*alignment < 8 || *alignment > MOST_ALIGNMENT || *alignment & (*alignment - 1))
        return bad_gguf(c, c->at, "expected 'general.alignment' to be a power of two from 8 to %d, got %llu",
                        MOST_ALIGNMENT, (unsigned long long)*alignment);
    return true;
}

static int by_key(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool check_keys(struct gguf_cursor *c, const struct gguf *g)
{
    char **v = mx_malloc(((size_t)g->n + 1) * sizeof *v);
    bool ok = v != NULL;
    for (int i = 0; i < g->n && ok; i++) v[i] = g->values[i].key;
    if (ok)
        qsort(v, (size_t)g->n, sizeof *v, by_key);
    for (int i = 1; i < g->n && ok; i++)
        if (!strcmp(v[i - 1], v[i]))
            ok = bad_gguf(c, c->at, "the key '%.80s' comes twice", v[i]);
    free(v);
    return ok;
}

static bool load_tensors(struct gguf_cursor *c, uint64_t n, bool packed, struct gguf *g)
{
    uint64_t alignment, done = 0;
    struct gguf_tensor *t = mx_malloc((n + 1) * sizeof *t);
    bool ok = t && alignment_of(c, g, &alignment);
    if (t)
        memset(t, 0, (n + 1) * sizeof *t);
    for (; done < n && ok; done++) ok = take_tensor(c, &t[done]);
    uint64_t base = ok ? (c->at + alignment - 1) / alignment * alignment : 0;
    ok = ok && check_tensors(c, t, n, base, alignment);
    for (uint64_t i = 0; i < n && ok; i++) ok = add_tensor(c->s, &t[i], base + t[i].offset, packed, g);
    while (done-- > 0) free(t[done].name);
    free(t);
    return ok;
}

static bool load_parts(struct gguf_cursor *c, bool packed, struct gguf *g)
{
    char magic[4];
    uint32_t version;
    uint64_t n_tensors, n_values;
    if (c->s->size < 4 || !take_bytes(c, magic, 4, "the magic") || memcmp(magic, "GGUF", 4)) {
        if (!mx_failed())
            mx_fail("[load] %s is not a gguf file: it does not begin with GGUF", c->s->label);
        return false;
    }
    if (!take_u32(c, &version, "the version"))
        return false;
    if (version != 2 && version != 3)
        return bad_gguf(c, 4, "expected version 2 or 3, got %u%s", version,
                        version & 0xffff ? "" : " (big-endian files are not supported)");
    if (!take_u64(c, &n_tensors, "the number of tensors") || !take_u64(c, &n_values, "the number of values"))
        return false;
    /* The least of each: an empty name, a type and a byte or an offset. */
    if (n_values > left(c) / 13 || n_tensors > left(c) / 24)
        return bad_gguf(c, 8, "the file would have %llu tensors and %llu values, it has %llu bytes",
                        (unsigned long long)n_tensors, (unsigned long long)n_values, (unsigned long long)c->s->size);
    for (uint64_t i = 0; i < n_values; i++) {
        if (!take_value(c, g))
            return false;
        bool often = g->n >= 1024 && !(g->n & (g->n - 1)); /* not only once a lying file has filled the memory */
        if (often && !check_keys(c, g))
            return false;
    }
    return check_keys(c, g) && load_tensors(c, n_tensors, packed, g);
}

int gguf_load(struct source *s, bool packed, struct gguf *g)
{
    struct gguf_cursor c = { .s = s, .window = mx_malloc(WINDOW) };
    bool ok = c.window && load_parts(&c, packed, g);
    free(c.window);
    free(c.text);
    if (!ok)
        gguf_free(g);
    return !ok;
}

/* ---- writing */

static void put_string(struct bytes *b, const char *s) { put_text(b, s, strlen(s)); }

static bool put_gguf_value(struct bytes *b, const struct gguf_value *v)
{
    put_string(b, v->key);
    if (v->kind != GGUF_ARRAY) {
        put_u32(b, v->kind == GGUF_TEXT ? V_STRING : V_ARRAY);
        if (v->kind == GGUF_TEXTS) {
            put_u32(b, V_STRING);
            put_u64(b, (uint64_t)v->n);
        }
        for (int i = 0; i < v->n; i++) put_string(b, v->texts[i]);
        return !b->failed;
    }
    uint32_t type = 0;
    mx x = v->array.it;
    while (type < VALUE_TYPES && value_types[type] != x->dtype) type++;
    if (x->ndim > 1 || type == VALUE_TYPES) {
        mx_fail("[save_gguf] expected the value of '%s' to be an array of at most one dimension, of bool, integers, "
                "float32 or float64, got shape %s and type %s",
                v->key, shape_of(x), dtype_name(x->dtype));
        return false;
    }
    mx_own hold = { NULL };
    mx y = io_ready(x, &hold);
    if (!is_nil(y)) {
        put_u32(b, y->ndim ? V_ARRAY : type);
        if (y->ndim) {
            put_u32(b, type);
            put_u64(b, (uint64_t)y->size);
        }
        put_bytes(b, array_host(y), (size_t)nbytes(y));
    }
    mx_drop(&hold);
    return !is_nil(y) && !b->failed;
}

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static bool put_tensors(struct bytes *b, const struct gguf *g, uint64_t alignment)
{
    uint64_t at = 0;
    for (int i = 0; i < g->tensors.n; i++) {
        mx x = g->tensors.arrays[i].array.it;
        const char *name = g->tensors.arrays[i].name;
        const struct ggml_type *t = ggml_of_dtype(x->dtype);
        if (!t || x->ndim > MOST_DIMS) {
            mx_fail("[save_gguf] expected '%s' to have at most %d dimensions and a type of float16, bfloat16, "
                    "float32, float64 or int8 to int64, got shape %s and type %s",
                    name, MOST_DIMS, shape_of(x), dtype_name(x->dtype));
            return false;
        }
        put_string(b, name);
        put_u32(b, (uint32_t)x->ndim);
        for (int d = x->ndim; d-- > 0;) put_u64(b, (uint64_t)x->shape[d]);
        put_u32(b, t->number);
        put_u64(b, at);
        at += round_up((uint64_t)nbytes(x), alignment);
    }
    return !b->failed;
}

static bool write_tensor(struct writer *w, mx x, const char *zeros, uint64_t alignment)
{
    mx_own hold = { NULL };
    mx y = io_ready(x, &hold);
    bool ok = !is_nil(y) && io_write(w, array_host(y), (size_t)nbytes(y)) &&
              io_write(w, zeros, round_up((uint64_t)nbytes(y), alignment) - (uint64_t)nbytes(y));
    mx_drop(&hold);
    return ok;
}

/* What the value of that name asks for, or the usual. */
static uint64_t alignment_to_write(const struct gguf *g)
{
    struct gguf_value *v = gguf_value((struct gguf *)(uintptr_t)g, "general.alignment");
    mx_own hold = { NULL };
    uint64_t alignment = ALIGNMENT;
    if (!v)
        return alignment;
    mx y = v->kind == GGUF_ARRAY && v->array.it->ndim == 0 && v->array.it->dtype == DT_uint32
               ? io_ready(v->array.it, &hold)
               : mx_fail("[save_gguf] expected 'general.alignment' to be a number of type uint32");
    alignment = is_nil(y) ? 0 : *(const uint32_t *)array_host(y);
    if (!is_nil(y) && (alignment < 8 || alignment > MOST_ALIGNMENT || alignment & (alignment - 1))) {
        mx_fail("[save_gguf] expected 'general.alignment' to be a power of two from 8 on, got %llu",
                (unsigned long long)alignment);
        alignment = 0;
    }
    mx_drop(&hold);
    return alignment;
}

int gguf_save(struct writer *w, const struct gguf *g)
{
    struct bytes b = { 0 };
    uint64_t alignment = alignment_to_write(g);
    bool ok = alignment != 0;
    put_bytes(&b, "GGUF", 4);
    put_u32(&b, 3);
    put_u64(&b, (uint64_t)g->tensors.n);
    put_u64(&b, (uint64_t)g->n);
    for (int i = 0; i < g->n && ok; i++) ok = put_gguf_value(&b, &g->values[i]);
    ok = ok && put_tensors(&b, g, alignment);
    char *zeros = ok ? mx_malloc(alignment) : NULL;
    if (zeros)
        memset(zeros, 0, alignment);
    ok = zeros && io_write(w, b.v, b.n) && io_write(w, zeros, round_up(b.n, alignment) - b.n);
    for (int i = 0; i < g->tensors.n && ok; i++) ok = write_tensor(w, g->tensors.arrays[i].array.it, zeros, alignment);
    free(zeros);
    free(b.v);
    return !ok;
}
