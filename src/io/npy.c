/* npy.c: NumPy's format for one array (numpy/lib/format: "A Simple File Format for NumPy Arrays").
 *
 * Six bytes of magic, two of version, the length of the header, the header: a Python dictionary as
 * text; then the elements.  bfloat16, which NumPy lacks, is written as raw two-byte items, '<V2'. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "io/io.h"
#include "ops/ops.h"

struct header {
    enum dtype dtype;
    bool swap, fortran;
    int ndim;
    int shape[MX_MAX_NDIM];
};

/* The header's text, which begins at `start` of the file, on its way through the parser. */
struct npy_cursor {
    struct source *r;
    const char *p, *text;
    size_t start;
};

static bool bad_npy(struct npy_cursor *t, const char *what)
{
    mx_fail("[load] %s: bad npy header: offset %zu: %s, got '%.60s'", t->r->label, t->start + (size_t)(t->p - t->text),
            what, t->p);
    return false;
}

/* Takes `token`, and the blanks around it, if it comes next. */
static bool take_token(struct npy_cursor *t, const char *token)
{
    t->p += strspn(t->p, " \t\n\r");
    if (strncmp(t->p, token, strlen(token)))
        return false;
    t->p += strlen(token);
    t->p += strspn(t->p, " \t\n\r");
    return true;
}

static bool take_npy_string(struct npy_cursor *t, char *value, size_t cap)
{
    take_token(t, "");
    char quote = *t->p;
    const char *end = quote == '\'' || quote == '"' ? strchr(t->p + 1, quote) : NULL;
    if (!end || (size_t)(end - t->p) > cap)
        return false;
    memcpy(value, t->p + 1, (size_t)(end - t->p - 1));
    value[end - t->p - 1] = 0;
    t->p = end + 1;
    return true;
}

/* clang-format off */
static const struct { const char *code; enum dtype dtype; } codes[] = {
    { "b1", DT_bool_ },    { "u1", DT_uint8 },   { "u2", DT_uint16 },  { "u4", DT_uint32 },   { "u8", DT_uint64 },
    { "i1", DT_int8 },     { "i2", DT_int16 },   { "i4", DT_int32 },   { "i8", DT_int64 },    { "f2", DT_float16 },
    { "f4", DT_float32 },  { "f8", DT_float64 }, { "V2", DT_bfloat16 }, { "c8", DT_complex64 },
};
/* clang-format on */

static bool parse_descr(struct npy_cursor *t, struct header *h)
{
    char code[8];
    if (!take_npy_string(t, code, sizeof code))
        return bad_npy(t, "expected 'descr' to be a type code (structured types are not supported)");
    const char *name = code + (strchr("<>|=", code[0]) && code[0]);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!strcmp(name, codes[i].code)) {
            h->dtype = codes[i].dtype;
            h->swap = code[0] == '>' && dtype_size(h->dtype) > 1;
            return true;
        }
    t->p -= strlen(code) + 2;
    return bad_npy(t, "expected the type code of bool, an integer, float16 to float64 or complex64");
}

static bool parse_npy_shape(struct npy_cursor *t, struct header *h)
{
    if (!take_token(t, "("))
        return bad_npy(t, "expected 'shape' to be a tuple");
    for (bool more = true; !take_token(t, ")");) {
        char *end;
        unsigned long long v = strtoull(t->p, &end, 10);
        if (!more || *t->p < '0' || *t->p > '9' || v > INT32_MAX || h->ndim == MX_MAX_NDIM)
            return bad_npy(t, "expected sizes below 2^31, at most 64 of them");
        h->shape[h->ndim++] = (int)v;
        t->p = *end == 'L' ? end + 1 : end; /* Python 2 wrote long integers so */
        more = take_token(t, ",");
    }
    return true;
}

static bool parse_order(struct npy_cursor *t, struct header *h)
{
    h->fortran = take_token(t, "True");
    return h->fortran || take_token(t, "False") || bad_npy(t, "expected 'fortran_order' to be True or False");
}

/* A dictionary with the three keys, each once, in any order. */
static bool parse(struct source *r, const char *text, size_t start, size_t length, struct header *h)
{
    static const struct {
        const char *key;
        bool (*parse)(struct npy_cursor *, struct header *);
    } fields[] = { { "descr", parse_descr }, { "fortran_order", parse_order }, { "shape", parse_npy_shape } };
    struct npy_cursor t = { r, text, text, start };
    unsigned seen = 0;
    if (!take_token(&t, "{"))
        return bad_npy(&t, "expected a dictionary");
    for (bool more = true; !take_token(&t, "}"); more = take_token(&t, ",")) {
        char key[16];
        unsigned k = 0;
        struct npy_cursor at = t;
        if (!more || !take_npy_string(&t, key, sizeof key) || !take_token(&t, ":"))
            return bad_npy(&t, "expected 'key': value");
        while (k < 3 && strcmp(key, fields[k].key)) k++;
        if (k == 3 || seen & 1u << k)
            return bad_npy(&at, "expected the keys 'descr', 'fortran_order' and 'shape', each once");
        seen |= 1u << k;
        if (!fields[k].parse(&t, h))
            return false;
    }
    if (seen != 7 || t.p != text + length)
        return bad_npy(&t, seen != 7 ? "expected the keys 'descr', 'fortran_order' and 'shape'"
                                     : "expected nothing after the dictionary");
    return true;
}

static mx read_data(struct source *r, const struct header *h, uint64_t at)
{
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < h->ndim; i++) shape[i] = h->fortran ? h->shape[h->ndim - 1 - i] : h->shape[i];
    mx x = mx_load_late(r, at, h->ndim, shape, h->dtype, h->swap);
    return h->fortran ? mx_transpose(x, NULL, 0) : x;
}

mx npy_load(struct source *r)
{
    unsigned char head[12];
    if (!io_read(r, head, 10, 0, "the npy header"))
        return MX_NIL;
    if (memcmp(head, "\x93NUMPY", 6))
        return mx_fail("[load] %s is not an npy file: it does not begin with \\x93NUMPY", r->label);
    if (head[6] < 1 || head[6] > 3)
        return mx_fail("[load] %s: offset 6: expected npy version 1, 2 or 3, got %d.%d", r->label, head[6], head[7]);
    size_t start = head[6] == 1 ? 10 : 12, length = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        if (!io_read(r, head + 10, 2, 10, "the length of the npy header"))
            return MX_NIL;
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (length > r->size - start)
        return mx_fail("[load] %s: the npy header has %zu bytes at offset %zu, the file has %llu", r->label, length,
                       start, (unsigned long long)r->size);
    char *text = mx_malloc(length + 1);
    if (!text)
        return MX_NIL;
    struct header h = { 0 };
    mx x = MX_NIL;
    if (io_read(r, text, length, start, "the npy header")) {
        text[length] = 0;
        if (parse(r, text, start, length, &h))
            x = read_data(r, &h, start + length);
    }
    free(text);
    return x;
}

static const char *npy_code(enum dtype t)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].dtype == t)
            return codes[i].code;
    return "";
}

int npy_save(struct writer *w, mx x)
{
    mx_own hold = { NULL };
    mx y = io_ready(x, &hold);
    if (is_nil(y)) {
        mx_drop(&hold);
        return 1;
    }
    char dims[MX_MAX_NDIM * 12 + 4], text[sizeof dims + 128];
    size_t n = 0;
    dims[0] = 0;
    for (int i = 0; i < y->ndim; i++) n += (size_t)snprintf(dims + n, sizeof dims - n, i ? ", %d" : "%d", y->shape[i]);
    snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s%s), }",
             itemsize(y) == 1 ? '|' : '<', npy_code(y->dtype), dims, y->ndim == 1 ? "," : "");
    /* Spaces and a newline bring the data to a multiple of 64. */
    size_t length = strlen(text) + 1, pad = (64 - (10 + length) % 64) % 64;
    unsigned char head[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)((length + pad) & 255), (unsigned char)((length + pad) >> 8)
    };
    char spaces[65];
    memset(spaces, ' ', sizeof spaces);
    spaces[pad] = '\n';
    bool ok = io_write(w, head, 10) && io_write(w, text, length - 1) && io_write(w, spaces, pad + 1) &&
              io_write(w, array_host(y), (size_t)nbytes(y));
    mx_drop(&hold);
    return !ok;
}
