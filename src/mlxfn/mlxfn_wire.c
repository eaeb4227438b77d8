/* mlxfn_wire.c: the bytes of exported functions. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/shape.h"
#include "mlxfn/mlxfn.h"

/* ---- bytes to write */

void put_shape(struct bytes *b, int ndim, const int *shape)
{
    put_u64(b, (uint64_t)ndim);
    for (int i = 0; i < ndim; i++) put_i32(b, shape[i]);
}

void put_dtype(struct bytes *b, enum dtype t)
{
    put_i32(b, (int32_t)t);
    put_u8(b, (unsigned)dtype_size(t));
}

void put_state(struct bytes *b, const char *format, const struct wire_state *s)
{
    for (int k = 0; format[k]; k++) {
        const struct wire_value *v = &s->v[k];
        uint64_t bits = 0;
        switch (format[k]) {
        case 'b': put_u8(b, v->b); break;
        case 'i':
        case 'e': put_i32(b, v->i); break;
        case 'f': memcpy(&bits, &v->f, 4), put_le(b, bits, 4); break;
        case 'd': memcpy(&bits, &v->d, 8), put_le(b, bits, 8); break;
        case 'u': put_u64(b, v->u); break;
        case 't': put_dtype(b, (enum dtype)v->i); break;
        case 's': put_text(b, v->s, v->n); break;
        case 'I':
        case 'H':
        case 'L':
        case 'U':
            put_u64(b, v->n);
            for (uint64_t i = 0; i < v->n; i++)
                put_le(b, (uint64_t)v->v[i], format[k] == 'I' || format[k] == 'H' ? 4 : 8);
            break;
        }
    }
}

/* ---- bytes that are read */

int bad_file(const struct cursor *c, uint64_t at, const char *fmt, ...)
{
    char what[600];
    va_list list;
    va_start(list, fmt);
    vsnprintf(what, sizeof what, fmt, list);
    va_end(list);
    mx_fail_as(MX_RUNTIME, "[import_function] %s: byte %llu: %s", c->label, (unsigned long long)at, what);
    return 1;
}

static uint64_t left(const struct cursor *c) { return c->size - c->at; }

static int need(const struct cursor *c, uint64_t n, const char *what)
{
    if (n <= left(c))
        return 0;
    return bad_file(c, c->at, "%s needs %llu bytes and the file has %llu more", what, (unsigned long long)n,
                    (unsigned long long)left(c));
}

static int get_le(struct cursor *c, int n, const char *what, uint64_t *v)
{
    *v = 0;
    if (need(c, (uint64_t)n, what))
        return 1;
    for (int i = n; i-- > 0;) *v = *v << 8 | c->data[c->at + (uint64_t)i];
    c->at += (uint64_t)n;
    return 0;
}

static int get_i32(struct cursor *c, const char *what, int32_t *v)
{
    uint64_t bits;
    int failed = get_le(c, 4, what, &bits);
    *v = (int32_t)(uint32_t)bits;
    return failed;
}

static int get_bool(struct cursor *c, const char *what, bool *v)
{
    uint64_t bits;
    if (get_le(c, 1, what, &bits))
        return 1;
    if (bits > 1)
        return bad_file(c, c->at - 1, "%s: expected 0 or 1, got %d", what, (int)bits);
    *v = bits;
    return 0;
}

/* How many elements of at least `least` bytes each follow. */
static int get_count(struct cursor *c, uint64_t least, const char *what, uint64_t *n)
{
    if (get_le(c, 8, what, n))
        return 1;
    if (*n <= left(c) / least)
        return 0;
    return bad_file(c, c->at - 8, "%s: a count of %llu, and the file has %llu more bytes", what, (unsigned long long)*n,
                    (unsigned long long)left(c));
}

static int get_text(struct cursor *c, const char *what, const char **s, uint64_t *n)
{
    if (get_count(c, 1, what, n))
        return 1;
    *s = (const char *)c->data + c->at;
    c->at += *n;
    return 0;
}

static int read_spec(struct cursor *c, struct spec *s)
{
    uint64_t n, at = c->at;
    if (get_count(c, 4, "a shape", &n))
        return 1;
    if (n > MX_MAX_NDIM)
        return bad_file(c, at, "a shape of %llu dimensions; there are at most %d", (unsigned long long)n, MX_MAX_NDIM);
    s->ndim = (int)n;
    int64_t size = 1;
    bool empty = false;
    for (int i = 0; i < s->ndim; i++) {
        if (get_i32(c, "a shape", &s->shape[i]))
            return 1;
        if (s->shape[i] < 0)
            return bad_file(c, c->at - 4, "a size of %d in a shape", s->shape[i]);
        empty |= s->shape[i] == 0;
    }
    for (int i = 0; i < s->ndim && !empty; i++)
        if (__builtin_mul_overflow(size, (int64_t)s->shape[i], &size) || size > INT64_MAX / 16)
            return bad_file(c, at, "the shape %s has too many elements", shape_text(s->ndim, s->shape));
    return 0;
}

/* float64 came in between, in version 0.23.0. */
static int read_dtype(struct cursor *c, int version, enum dtype *t)
{
    uint64_t at = c->at, size;
    int32_t code;
    if (get_i32(c, "a dtype", &code) || get_le(c, 1, "a dtype", &size))
        return 1;
    int known = version < 23000 && code >= DT_float64 ? code + 1 : code;
    if (code < 0 || known >= DT_COUNT)
        return bad_file(c, at, "there is no dtype of code %d", code);
    if (size != dtype_size((enum dtype)known))
        return bad_file(c, at + 4, "items of %d bytes of %s", (int)size, dtype_name((enum dtype)known));
    *t = (enum dtype)known;
    return 0;
}

static int get_spec(struct cursor *c, int version, struct spec *s)
{
    enum dtype t = DT_bool_;
    int failed = read_spec(c, s) || read_dtype(c, version, &t);
    s->dtype = t;
    return failed;
}

static int get_ids(struct cursor *c, const char *what, int *n, uint64_t **ids)
{
    uint64_t count, at = c->at;
    if (get_count(c, 8, what, &count))
        return 1;
    if (count > INT32_MAX / 2)
        return bad_file(c, at, "%s: a count of %llu", what, (unsigned long long)count);
    *n = (int)count;
    if (!(*ids = mx_malloc((count + 1) * sizeof **ids)))
        return 1;
    for (uint64_t i = 0; i < count; i++)
        if (get_le(c, 8, what, &(*ids)[i]))
            return 1;
    return 0;
}

/* ---- header and traces */

static int version_number(const char *s, uint64_t n)
{
    int part[3] = { 0 }, k = 0;
    bool digits = false;
    for (uint64_t i = 0; i < n && k < 3; i++) {
        if (s[i] >= '0' && s[i] <= '9') {
            part[k] = part[k] < 1000 ? 10 * part[k] + (s[i] - '0') : part[k];
            digits = true;
        } else if (s[i] == '.' && digits) {
            k++;
            digits = false;
        } else {
            break;
        }
    }
    if (k < 2 || (part[0] == 0 && part[1] == 0))
        return NEWEST;
    return part[0] > 999 || part[1] > 999 || part[2] > 999 ? NEWEST : (part[0] * 1000 + part[1]) * 1000 + part[2];
}

/* Can that be no version?  Nobody's is long. */
static bool begins_otherwise(const struct cursor *c)
{
    enum { MOST = 256 };
    uint64_t n = 0;
    for (int i = 8; i-- > 0 && c->size > 8;) n = n << 8 | c->data[i];
    return n > MOST || (n > 0 && c->size > 8 && (c->data[8] < '0' || c->data[8] > '9'));
}

int read_header(struct cursor *c, struct mlxfn_header *h)
{
    *h = (struct mlxfn_header){ .metadata = "" };
    if (begins_otherwise(c))
        return bad_file(c, 0, "not a file of an exported function, which begins with a version");
    if (get_text(c, "the version", &h->version, &h->version_length) || get_i32(c, "the number of traces", &h->count) ||
        get_bool(c, "shapeless", &h->shapeless))
        return 1;
    if (h->version_length == 0) /* what a file has whose bytes were never written, say */
        return bad_file(c, 0, "no version");
    h->number = version_number(h->version, h->version_length);
    h->count = h->count < 0 ? 0 : h->count;
    return h->number >= 32001 ? get_text(c, "the metadata", &h->metadata, &h->metadata_length) : 0;
}

void trace_free(struct mlxfn_trace *t)
{
    for (int i = 0; t->keys && i < t->n_keys; i++) free(t->keys[i]);
    free(t->keys);
    free(t->in_ids);
    free(t->out_ids);
    free(t->in);
    *t = (struct mlxfn_trace){ 0 };
}

static int get_keys(struct cursor *c, struct mlxfn_trace *t)
{
    uint64_t n, at = c->at;
    if (get_count(c, 8, "the keywords", &n))
        return 1;
    if (n > INT32_MAX / 2)
        return bad_file(c, at, "a count of %llu keywords", (unsigned long long)n);
    if (!(t->keys = mx_malloc((n + 1) * sizeof *t->keys)))
        return 1;
    for (uint64_t i = 0; i < n; i++) {
        const char *s;
        uint64_t length, where = c->at;
        if (get_text(c, "a keyword", &s, &length))
            return 1;
        if (memchr(s, 0, length))
            return bad_file(c, where, "a keyword with a null character");
        char *key = mx_malloc(length + 1);
        if (!key)
            return 1;
        memcpy(key, s, length);
        key[length] = 0;
        t->keys[t->n_keys++] = key;
    }
    return 0;
}

int read_trace(struct cursor *c, int version, struct mlxfn_trace *t)
{
    *t = (struct mlxfn_trace){ 0 };
    uint64_t n, at;
    if (get_keys(c, t) || (at = c->at, get_ids(c, "the inputs", &t->n_in, &t->in_ids)))
        return 1;
    if (t->n_keys > t->n_in)
        return bad_file(c, at, "%d keywords for %d inputs", t->n_keys, t->n_in);
    at = c->at;
    if (get_count(c, 13, "the shapes of the inputs", &n))
        return 1;
    if (n != (uint64_t)t->n_in)
        return bad_file(c, at, "shapes of %llu inputs, of which there are %d", (unsigned long long)n, t->n_in);
    if (!(t->in = mx_malloc((n + 1) * sizeof *t->in)))
        return 1;
    for (uint64_t i = 0; i < n; i++)
        if (get_spec(c, version, &t->in[i]))
            return 1;
    if (get_ids(c, "the outputs", &t->n_out, &t->out_ids) || get_count(c, 10, "the tape", &t->entries))
        return 1;
    t->tape = c->at;
    return 0;
}

/* ---- the state of primitives */

static const struct primitive table[] = {
#define FOLLOWS true, true
#define HERE true, false
#define BAKED false, false
#define P(name, nin, nout, state, rule) { #name, nin, nout, state, rule, build_##name },
#include "mlxfn/primitives.def"
};
enum { PRIMITIVES = sizeof table / sizeof *table };

const struct primitive *primitive_at(int i) { return i >= 0 && i < PRIMITIVES ? &table[i] : NULL; }

const struct primitive *primitive_named(const char *name, size_t length)
{
    int low = 0, high = PRIMITIVES;
    while (low < high) {
        int middle = (low + high) / 2;
        const char *s = table[middle].name;
        size_t n = strlen(s);
        int order = memcmp(name, s, length < n ? length : n);
        if (order == 0)
            order = (length > n) - (length < n);
        if (order == 0)
            return &table[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* The layouts of older files, newest first: what files before a version have. */
static const struct {
    const char *name;
    int before;
    const char *state;
} layouts[] = {
    { "FFT", 32004, "Ubb-" },
    { "ScaledDotProductAttention", 24000, "nf----" },
    { "ScaledDotProductAttention", 29001, "nfb---" },
    { "ScaledDotProductAttention", 30000, "nfbb--" },
    { "ScaledDotProductAttention", 32002, "nfbbb-" },
    { "CustomKernel", 32000, "ssTTBboSbi-" },
    { "SliceUpdate", 31002, "-HHH" },
    { "Quantize", 29000, "nii-b" },
    { "QuantizedMatmul", 29000, "ii-b" },
    { "GatherQMM", 25000, "ii-b--" },
    { "GatherQMM", 29000, "ii-bbb" },
    { "GatherMM", 25000, "--" },
    { "Convolution", 25002, "I-IIIib" },
    { "SVD", 23002, "-" },
};

static const char *layout_of(const struct primitive *p, int version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (version < layouts[i].before && !strcmp(p->name, layouts[i].name))
            return layouts[i].state;
    return p->state;
}

static void state_free(struct wire_state *s)
{
    for (int k = 0; k < s->n; k++)
        if (s->v[k].v)
            free((void *)(uintptr_t)s->v[k].v);
    s->n = 0;
}

/* A list of n fields of `wide` bytes, `per` numbers of them for each element. */
static int get_list(struct cursor *c, struct wire_value *v, int wide, int per, bool counted)
{
    uint64_t n = 1;
    if (counted && get_count(c, (uint64_t)wide * (uint64_t)per, "a list", &n))
        return 1;
    int64_t *list = mx_malloc((n * (uint64_t)per + 1) * sizeof *list);
    if (!list)
        return 1;
    v->v = list;
    v->n = n * (uint64_t)per;
    for (uint64_t i = 0; i < v->n; i++) {
        uint64_t bits;
        if (get_le(c, wide, "a list", &bits))
            return 1;
        list[i] = wide == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    }
    return 0;
}

/* Tags and values of different lengths, which nothing here looks at. */
static int get_scalars(struct cursor *c, struct wire_value *v)
{
    uint64_t n;
    if (get_count(c, 5, "scalars", &n))
        return 1;
    v->s = (const char *)c->data + c->at;
    v->n = n;
    for (uint64_t i = 0; i < n; i++) {
        int32_t tag;
        uint64_t bits;
        if (get_i32(c, "a scalar", &tag))
            return 1;
        if (tag < 0 || tag > 2)
            return bad_file(c, c->at - 4, "there is no kind of scalar of number %d", tag);
        if (get_le(c, tag == 2 ? 1 : 4, "a scalar", &bits))
            return 1;
    }
    return 0;
}

static int get_value(struct cursor *c, int version, char kind, struct wire_value *v)
{
    uint64_t bits = 0;
    enum dtype t = DT_bool_;
    int failed = 0;
    *v = (struct wire_value){ .kind = kind };
    switch (kind) {
    case 'b': return get_bool(c, "a state", &v->b);
    case 'i':
    case 'e': return get_i32(c, "a state", &v->i);
    case 'f': failed = get_le(c, 4, "a state", &bits), memcpy(&v->f, &bits, 4); return failed;
    case 'd': failed = get_le(c, 8, "a state", &bits), memcpy(&v->d, &bits, 8); return failed;
    case 'u': return get_le(c, 8, "a state", &v->u);
    case 't': failed = read_dtype(c, version, &t), v->i = (int32_t)t; return failed;
    case 's': return get_text(c, "a state", &v->s, &v->n);
    case 'I':
    case 'H': return get_list(c, v, 4, 1, true);
    case 'L':
    case 'U': return get_list(c, v, 8, 1, true);
    case 'T': return get_list(c, v, 4, 3, false);
    case 'B': return get_list(c, v, 1, 3, true);
    case 'S': return get_scalars(c, v);
    case 'o': {
        bool given = false;
        if (get_bool(c, "a state", &given))
            return 1;
        v->n = given;
        failed = given ? get_le(c, 4, "a state", &bits) : 0;
        memcpy(&v->f, &bits, 4);
        return failed;
    }
    }
    return 0; /* nothing, or not in this version */
}

static int get_state(struct cursor *c, int version, const char *format, struct wire_state *s)
{
    for (int k = 0; format[k]; k++) {
        s->n = k + 1;
        if (get_value(c, version, format[k], &s->v[k]))
            return 1;
    }
    return 0;
}

/* ---- entries */

void entry_free(struct mlxfn_entry *e)
{
    state_free(&e->state);
    free(e->in);
    free(e->out);
    free(e->spec);
    *e = (struct mlxfn_entry){ 0 };
}

static int get_constant(struct cursor *c, int version, bool again, struct mlxfn_entry *e)
{
    e->kind = A_CONSTANT;
    if (again)
        return 0;
    if (!(e->spec = mx_malloc(sizeof *e->spec)) || get_spec(c, version, e->spec))
        return 1;
    uint64_t n = dtype_size(e->spec->dtype);
    for (int i = 0; i < e->spec->ndim; i++) /* get_spec has seen to it that sizes multiply */
        n *= (uint64_t)e->spec->shape[i];
    e->nout = 1;
    e->data = c->at;
    e->bytes = n;
    if (need(c, n, "a constant"))
        return 1;
    c->at += n;
    return 0;
}

static int get_outputs(struct cursor *c, int version, struct mlxfn_entry *e)
{
    uint64_t siblings, at = c->at, n, m;
    if (get_le(c, 8, "the number of results", &siblings))
        return 1;
    if (siblings > left(c) / 21 && siblings)
        return bad_file(c, at, "%llu results, and the file has %llu more bytes", (unsigned long long)siblings,
                        (unsigned long long)left(c));
    if (siblings) {
        if (get_ids(c, "the results", &e->nout, &e->out))
            return 1;
    } else {
        e->nout = 1;
        if (!(e->out = mx_malloc(sizeof *e->out)))
            return 1;
        e->out[0] = e->id;
    }
    if (siblings && (uint64_t)e->nout != siblings + 1)
        return bad_file(c, at, "%llu siblings of one among %d results", (unsigned long long)siblings, e->nout);
    if (!(e->spec = mx_malloc(((size_t)e->nout + 1) * sizeof *e->spec)))
        return 1;
    if (!siblings)
        return get_spec(c, version, e->spec);
    if (get_count(c, 8, "the shapes of the results", &n))
        return 1;
    for (uint64_t k = 0; k < n && n == (uint64_t)e->nout; k++)
        if (read_spec(c, &e->spec[k]))
            return 1;
    if (get_count(c, 5, "the dtypes of the results", &m))
        return 1;
    if (n != (uint64_t)e->nout || m != n)
        return bad_file(c, at, "%llu shapes and %llu dtypes of %d results", (unsigned long long)n,
                        (unsigned long long)m, e->nout);
    for (int k = 0; k < e->nout; k++) {
        enum dtype t = DT_bool_;
        if (read_dtype(c, version, &t))
            return 1;
        e->spec[k].dtype = t;
    }
    return 0;
}

/* Sets e->p or e->extension by the name. */
static int find_primitive(const struct cursor *c, uint64_t at, struct mlxfn_entry *e)
{
    static const char prefix[] = EXTENSION, old[] = "AffineQuantize";
    size_t length = sizeof prefix - 1;
    if (e->name_length > length && !memcmp(e->name, prefix, length))
        e->extension = extension_named(e->name + length, e->name_length - length);
    else if (e->name_length == sizeof old - 1 && !memcmp(e->name, old, sizeof old - 1))
        e->p = primitive_named("Quantize", 8);
    else
        e->p = primitive_named(e->name, e->name_length);
    static const char plugin[] = EXTENSION PLUGIN; /* may be looked at without its library */
    bool theirs = e->name_length > sizeof plugin - 1 && !memcmp(e->name, plugin, sizeof plugin - 1);
    if (e->p || e->extension || theirs)
        return 0;
    mx_fail("[import_function] Unable to deserialize primitive %.*s (%s: byte %llu)",
            e->name_length < 80 ? (int)e->name_length : 80, e->name, c->label, (unsigned long long)at);
    return 1;
}

static int get_primitive(struct cursor *c, int version, struct mlxfn_entry *e)
{
    int32_t stream[3];
    e->kind = A_PRIMITIVE;
    if (get_ids(c, "the operands", &e->nin, &e->in))
        return 1;
    for (int i = 0; i < 3; i++)
        if (get_i32(c, "a stream", &stream[i]))
            return 1;
    e->device = stream[1];
    uint64_t at = c->at;
    if (get_text(c, "the name of a primitive", &e->name, &e->name_length) || find_primitive(c, at, e) ||
        get_state(c, version, e->p ? layout_of(e->p, version) : "s", &e->state) || get_outputs(c, version, e))
        return 1;
    if (e->p && e->p->nin >= 0 && e->nin != e->p->nin)
        return bad_file(c, e->at, "%s of %d operands, which takes %d", e->p->name, e->nin, e->p->nin);
    if (e->p && e->p->nout >= 0 && e->nout != e->p->nout)
        return bad_file(c, e->at, "%s with %d results, which has %d", e->p->name, e->nout, e->p->nout);
    return 0;
}

int read_entry(struct cursor *c, int version, bool (*known)(void *ctx, uint64_t id), void *ctx, struct mlxfn_entry *e)
{
    *e = (struct mlxfn_entry){ .kind = AN_INPUT, .at = c->at };
    bool primitive, constant;
    if (get_le(c, 8, "an entry", &e->id) || get_bool(c, "an entry", &primitive))
        return 1;
    if (primitive)
        return get_primitive(c, version, e);
    if (get_bool(c, "an entry", &constant))
        return 1;
    return constant ? get_constant(c, version, known(ctx, e->id), e) : 0;
}

/* ---- numbers by id */

static uint32_t id_position(const struct id_table *t, uint64_t id)
{
    uint64_t h = id * 0x9e3779b97f4a7c15u;
    uint32_t at = (uint32_t)(h >> 32) & (t->size - 1);
    while (t->value[at] >= 0 && t->id[at] != id) at = (at + 1) & (t->size - 1);
    return at;
}

int *id_find(const struct id_table *t, uint64_t id)
{
    uint32_t at = t->size ? id_position(t, id) : 0;
    return t->size && t->value[at] >= 0 ? &t->value[at] : NULL;
}

int id_put(struct id_table *t, uint64_t id, int value)
{
    if (2 * (t->used + 1) > t->size) {
        struct id_table g = { .size = t->size ? 2 * t->size : 64, .used = t->used };
        g.id = mx_malloc(g.size * sizeof *g.id);
        g.value = g.id ? mx_malloc(g.size * sizeof *g.value) : NULL;
        if (!g.value) {
            free(g.id);
            return 1;
        }
        for (uint32_t i = 0; i < g.size; i++) g.value[i] = -1;
        for (uint32_t i = 0; i < t->size; i++)
            if (t->value[i] >= 0) {
                uint32_t at = id_position(&g, t->id[i]);
                g.id[at] = t->id[i];
                g.value[at] = t->value[i];
            }
        id_free(t);
        *t = g;
    }
    uint32_t at = id_position(t, id);
    t->used += t->value[at] < 0;
    t->id[at] = id;
    t->value[at] = value;
    return 0;
}

void id_free(struct id_table *t)
{
    free(t->id);
    free(t->value);
    *t = (struct id_table){ 0 };
}
