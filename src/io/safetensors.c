/* safetensors.c: named arrays in one file (the safetensors format, version 0.4).
 *
 * Eight bytes: the length of the header; the header, JSON: for each name a dtype, a shape and the
 * offsets of its bytes, which follow the header; and under "__metadata__" texts.  There should be no
 * gaps, but bytes that belong to no array harm nobody, and some writers align so: they are passed over. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "io/io.h"
#include "yyjson.h"

enum { MAX_HEADER = 100000000 }; /* what the reference implementation accepts */

/* clang-format off */
static const struct { const char *code; enum dtype dtype; } codes[] = {
    { "BOOL", DT_bool_ },    { "U8", DT_uint8 },     { "U16", DT_uint16 },    { "U32", DT_uint32 },
    { "U64", DT_uint64 },    { "I8", DT_int8 },      { "I16", DT_int16 },     { "I32", DT_int32 },
    { "I64", DT_int64 },     { "F16", DT_float16 },  { "F32", DT_float32 },   { "F64", DT_float64 },
    { "BF16", DT_bfloat16 }, { "C64", DT_complex64 },
    /* Read as the bytes they are; from_fp8 turns E4M3 into numbers. */
    { "F8_E4M3", DT_uint8 }, { "F8_E5M2", DT_uint8 }, { "F8_E8M0", DT_uint8 },
    { "F8_E4M3FNUZ", DT_uint8 }, { "F8_E5M2FNUZ", DT_uint8 },
    { "F4", DT_uint8 }, { "F6_E2M3", DT_uint8 }, { "F6_E3M2", DT_uint8 }, /* rows of bytes */
};
/* clang-format on */

/* Of an element, where several share a byte; else 0. */
static int safetensors_bits(const char *code) { return !strcmp(code, "F4") ? 4 : !strncmp(code, "F6_", 3) ? 6 : 0; }

/* For JSON: whatever could not be allocated is known afterwards, by mx_failed. */
static void *json_malloc(void *unused, size_t size) { return (void)unused, mx_malloc(size); }
static void *json_realloc(void *unused, void *old, size_t had, size_t size)
{
    void *new = json_malloc(unused, size);
    if (new) {
        memcpy(new, old, had < size ? had : size);
        free(old);
    }
    return new;
}
static void json_free(void *unused, void *p) { (void)unused, free(p); }
static const yyjson_alc json_memory = { json_malloc, json_realloc, json_free, NULL };

struct named_tensor {
    const char *name;
    uint64_t at; /* of the name in the file */
    enum dtype dtype;
    int bits; /* bits_of its type */
    int ndim;
    int shape[MX_MAX_NDIM];
    uint64_t begin, end; /* of its bytes, from the end of the header */
};

static bool bad_safetensors(struct source *r, uint64_t at, const char *name, const char *what)
{
    mx_fail("[load] %s: bad safetensors header: offset %llu: '%.80s': %s", r->label, (unsigned long long)at, name,
            what);
    return false;
}

/* Where a string of the header is in the file: it was parsed in place. */
static uint64_t offset_in(yyjson_val *v, const char *header) { return 8 + (uint64_t)(yyjson_get_str(v) - header); }

/* Names go on as strings of C. */
static bool has_null(yyjson_val *text) { return strlen(yyjson_get_str(text)) != yyjson_get_len(text); }

static bool parse_dtype(struct source *r, yyjson_val *v, struct named_tensor *t)
{
    const char *code = yyjson_get_str(v);
    if (!code)
        return bad_safetensors(r, t->at, t->name, "expected 'dtype' to be a string");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!strcmp(code, codes[i].code)) {
            t->dtype = codes[i].dtype;
            t->bits = safetensors_bits(code);
            return true;
        }
    mx_fail("[load] %s: offset %llu: '%.80s' has the unknown dtype '%.40s'", r->label, (unsigned long long)t->at,
            t->name, code);
    return false;
}

static bool parse_shape(struct source *r, yyjson_val *v, struct named_tensor *t)
{
    if (!yyjson_is_arr(v) || yyjson_arr_size(v) > MX_MAX_NDIM)
        return bad_safetensors(r, t->at, t->name, "expected 'shape' to be a list of at most 64 sizes");
    size_t i, n;
    yyjson_val *d;
    yyjson_arr_foreach(v, i, n, d)
    {
        if (!yyjson_is_uint(d) || yyjson_get_uint(d) > INT32_MAX)
            return bad_safetensors(r, t->at, t->name, "expected sizes from 0 to 2^31 - 1");
        t->shape[t->ndim++] = (int)yyjson_get_uint(d);
    }
    if (t->bits == 0)
        return true;
    int64_t row = t->ndim ? (int64_t)t->shape[t->ndim - 1] * t->bits : 1;
    if (row % 8)
        return bad_safetensors(r, t->at, t->name, "expected rows of its type to end with a byte");
    t->shape[t->ndim - 1] = (int)(row / 8);
    return true;
}

static bool parse_offsets(struct source *r, yyjson_val *v, uint64_t room, struct named_tensor *t)
{
    yyjson_val *begin = yyjson_arr_get(v, 0), *end = yyjson_arr_get(v, 1);
    if (!yyjson_is_arr(v) || yyjson_arr_size(v) != 2 || !yyjson_is_uint(begin) || !yyjson_is_uint(end))
        return bad_safetensors(r, t->at, t->name, "expected 'data_offsets' to be two numbers");
    t->begin = yyjson_get_uint(begin);
    t->end = yyjson_get_uint(end);
    int64_t size = load_bytes(r, t->at, t->ndim, t->shape, t->dtype);
    uint64_t bytes = (uint64_t)size;
    if (size < 0)
        return false;
    if (t->begin > t->end || t->end > room || t->end - t->begin != bytes) {
        mx_fail("[load] %s: offset %llu: '%.80s' of shape %s and type %s needs %llu bytes, its offsets are %llu to "
                "%llu of %llu",
                r->label, (unsigned long long)t->at, t->name, shape_text(t->ndim, t->shape), dtype_name(t->dtype),
                (unsigned long long)bytes, (unsigned long long)t->begin, (unsigned long long)t->end,
                (unsigned long long)room);
        return false;
    }
    return true;
}

static bool parse_tensor(struct source *r, yyjson_val *v, uint64_t room, struct named_tensor *t)
{
    return (yyjson_is_obj(v) || bad_safetensors(r, t->at, t->name, "expected an object")) &&
           parse_dtype(r, yyjson_obj_get(v, "dtype"), t) && parse_shape(r, yyjson_obj_get(v, "shape"), t) &&
           parse_offsets(r, yyjson_obj_get(v, "data_offsets"), room, t);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct named_text *)a)->name, ((const struct named_text *)b)->name);
}

/* `at`: of its name. */
static bool parse_metadata(struct source *r, yyjson_val *v, uint64_t at, const char *header, struct archive *a)
{
    size_t i, n;
    yyjson_val *key, *text;
    if (yyjson_is_null(v)) /* some writers say so that there are none */
        return true;
    if (!yyjson_is_obj(v))
        return bad_safetensors(r, at, "__metadata__", "expected an object");
    if (a->n_meta)
        return bad_safetensors(r, at, "__metadata__", "this name occurs twice");
    yyjson_obj_foreach(v, i, n, key, text)
    {
        if (!yyjson_is_str(text))
            return bad_safetensors(r, offset_in(key, header), yyjson_get_str(key), "expected metadata to be strings");
        if (has_null(key) || has_null(text))
            return bad_safetensors(r, offset_in(key, header), yyjson_get_str(key),
                                   "expected metadata without null characters");
        if (archive_add_text(a, yyjson_get_str(key), yyjson_get_str(text)))
            return false;
    }
    struct named_text *sorted = mx_malloc(((size_t)a->n_meta + 1) * sizeof *sorted);
    bool ok = sorted != NULL;
    if (ok && a->n_meta) {
        memcpy(sorted, a->meta, (size_t)a->n_meta * sizeof *sorted);
        qsort(sorted, (size_t)a->n_meta, sizeof *sorted, by_text);
    }
    for (int k = 1; k < a->n_meta && ok; k++)
        if (!strcmp(sorted[k - 1].name, sorted[k].name))
            ok = bad_safetensors(r, at, sorted[k].name, "this key of the metadata occurs twice");
    free(sorted);
    return ok;
}

static int by_tensor_name(const void *a, const void *b)
{
    return strcmp((*(const struct named_tensor *const *)a)->name, (*(const struct named_tensor *const *)b)->name);
}

static int by_tensor_offset(const void *a, const void *b)
{
    const struct named_tensor *s = *(const struct named_tensor *const *)a, *t = *(const struct named_tensor *const *)b;
    return s->begin != t->begin ? (s->begin > t->begin) - (s->begin < t->begin) : (s->end > t->end) - (s->end < t->end);
}

/* No name twice, no byte in two tensors. */
static bool check_entries(struct source *r, struct named_tensor *t, size_t n)
{
    struct named_tensor **p = mx_malloc((n + 1) * sizeof *p);
    bool ok = p != NULL;
    for (size_t i = 0; i < n && ok; i++) p[i] = &t[i];
    if (ok) {
        qsort(p, n, sizeof *p, by_tensor_name);
        for (size_t i = 1; i < n && ok; i++)
            if (!strcmp(p[i - 1]->name, p[i]->name))
                ok = bad_safetensors(r, p[i]->at, p[i]->name, "this name occurs twice");
        qsort(p, n, sizeof *p, by_tensor_offset);
        for (size_t i = 1; i < n && ok; i++)
            if (p[i]->begin < p[i - 1]->end)
                ok = bad_safetensors(r, p[i]->at, p[i]->name, "its bytes overlap those of another array");
    }
    free(p);
    return ok;
}

static bool load_tensor(struct source *r, const struct named_tensor *t, uint64_t base, struct archive *a)
{
    MX_SCOPE(NULL);
    return !archive_add(a, t->name, mx_load(r, base + t->begin, t->ndim, t->shape, t->dtype));
}

static bool load_all(struct source *r, yyjson_val *root, const char *header, uint64_t base, struct archive *a)
{
    size_t i, count, n = 0;
    yyjson_val *key, *v;
    struct named_tensor *t = mx_malloc((yyjson_obj_size(root) + 1) * sizeof *t);
    bool ok = t != NULL;
    yyjson_obj_foreach(root, i, count, key, v)
    {
        const char *name = yyjson_get_str(key);
        if (!ok)
            break;
        if (has_null(key)) {
            ok = bad_safetensors(r, offset_in(key, header), name, "expected a name without null characters");
            break;
        }
        if (!strcmp(name, "__metadata__")) {
            ok = parse_metadata(r, v, offset_in(key, header), header, a);
            continue;
        }
        t[n] = (struct named_tensor){ .name = name, .at = offset_in(key, header) };
        ok = parse_tensor(r, v, r->size - base, &t[n++]);
    }
    ok = ok && check_entries(r, t, n);
    for (size_t k = 0; k < n && ok; k++) ok = load_tensor(r, &t[k], base, a);
    free(t);
    return ok;
}

static const char *kind_of(yyjson_val *v)
{
    switch (yyjson_get_type(v)) {
    case YYJSON_TYPE_NULL: return "null";
    case YYJSON_TYPE_BOOL: return yyjson_get_bool(v) ? "true" : "false";
    case YYJSON_TYPE_NUM: return "a number";
    case YYJSON_TYPE_STR: return "a string";
    default: return "an array";
    }
}

int safetensors_load(struct source *r, struct archive *a)
{
    unsigned char head[8];
    if (!io_read(r, head, 8, 0, "the length of the safetensors header"))
        return 1;
    uint64_t length = 0;
    for (int i = 8; i-- > 0;) length = length << 8 | head[i];
    if (length > MAX_HEADER || length > r->size - 8) {
        mx_fail("[load] %s: not a safetensors file: its header would have %llu bytes at offset 8, the file has %llu",
                r->label, (unsigned long long)length, (unsigned long long)r->size);
        return 1;
    }
    char *text = mx_malloc(length + YYJSON_PADDING_SIZE);
    if (!text)
        return 1;
    memset(text + length, 0, YYJSON_PADDING_SIZE);
    bool ok = io_read(r, text, length, 8, "the safetensors header");
    yyjson_read_err why = { 0 };
    yyjson_doc *doc = ok ? yyjson_read_opts(text, length, YYJSON_READ_INSITU, &json_memory, &why) : NULL;
    if (ok && !yyjson_is_obj(yyjson_doc_get_root(doc))) {
        mx_fail("[load] %s: the safetensors header is not a JSON object: %s at offset %zu", r->label,
                doc ? kind_of(yyjson_doc_get_root(doc)) : why.msg, 8 + (doc ? strspn(text, " \t\r\n") : why.pos));
        ok = false;
    }
    ok = ok && load_all(r, yyjson_doc_get_root(doc), text, 8 + length, a);
    yyjson_doc_free(doc);
    free(text);
    if (!ok)
        archive_free(a);
    return !ok;
}

/* ---- writing */

struct header_item {
    const char *name;
    mx_own x;
};

/* Wide types first, so that every array is aligned to its items; then by name, so that the same
 * arrays give the same file. */
static int by_width(const void *a, const void *b)
{
    const struct header_item *s = a, *t = b;
    size_t m = itemsize(s->x.it), n = itemsize(t->x.it);
    return m != n ? (m < n) - (m > n) : strcmp(s->name, t->name);
}

static const char *safetensors_code(enum dtype t)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].dtype == t)
            return codes[i].code;
    return "";
}

static char *header_text(const struct archive *a, struct header_item *v, size_t *length)
{
    yyjson_mut_doc *doc = yyjson_mut_doc_new(&json_memory);
    yyjson_mut_val *root = yyjson_mut_obj(doc);
    yyjson_mut_doc_set_root(doc, root);
    if (a->n_meta) {
        yyjson_mut_val *meta = yyjson_mut_obj(doc);
        for (int i = 0; i < a->n_meta; i++) yyjson_mut_obj_add_str(doc, meta, a->meta[i].name, a->meta[i].text);
        yyjson_mut_obj_add_val(doc, root, "__metadata__", meta);
    }
    uint64_t at = 0;
    for (int i = 0; i < a->n; i++) {
        mx x = v[i].x.it;
        yyjson_mut_val *o = yyjson_mut_obj(doc), *shape = yyjson_mut_arr(doc), *offsets = yyjson_mut_arr(doc);
        for (int d = 0; d < x->ndim; d++) yyjson_mut_arr_add_uint(doc, shape, (uint64_t)x->shape[d]);
        yyjson_mut_arr_add_uint(doc, offsets, at);
        yyjson_mut_arr_add_uint(doc, offsets, at += (uint64_t)nbytes(x));
        yyjson_mut_obj_add_str(doc, o, "dtype", safetensors_code(x->dtype));
        yyjson_mut_obj_add_val(doc, o, "shape", shape);
        yyjson_mut_obj_add_val(doc, o, "data_offsets", offsets);
        yyjson_mut_obj_add_val(doc, root, v[i].name, o);
    }
    yyjson_write_err why;
    char *text = yyjson_mut_write_opts(doc, 0, &json_memory, length, &why);
    yyjson_mut_doc_free(doc);
    if (!text && !mx_failed())
        mx_fail("[save_safetensors] could not write the header: %s (names and metadata must be UTF-8)", why.msg);
    if (!mx_failed())
        return text;
    free(text); /* which lacks what there was no memory for */
    return NULL;
}

int safetensors_save(struct writer *w, const struct archive *a)
{
    struct header_item *v = mx_malloc(((size_t)a->n + 1) * sizeof *v);
    if (!v)
        return 1;
    bool ok = true;
    int n = 0;
    for (; n < a->n && ok; n++) {
        v[n] = (struct header_item){ a->arrays[n].name, { NULL } };
        ok = !is_nil(io_ready(a->arrays[n].array.it, &v[n].x));
        if (ok && !strcmp(v[n].name, "__metadata__")) {
            mx_fail("[save_safetensors] the name __metadata__ is kept for metadata");
            ok = false;
        }
    }
    char *text = NULL;
    if (ok) {
        qsort(v, (size_t)a->n, sizeof *v, by_width);
        size_t length;
        text = header_text(a, v, &length);
        ok = text != NULL;
        if (ok) {
            size_t padded = (length + 7) / 8 * 8;
            unsigned char head[8];
            for (int i = 0; i < 8; i++) head[i] = (unsigned char)(padded >> 8 * i);
            ok = io_write(w, head, 8) && io_write(w, text, length) && io_write(w, "       ", padded - length);
        }
    }
    for (int i = 0; i < a->n && ok; i++) ok = io_write(w, array_host(v[i].x.it), (size_t)nbytes(v[i].x.it));
    while (n-- > 0) mx_drop(&v[n].x);
    free(v);
    free(text);
    return !ok;
}
