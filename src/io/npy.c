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

static bool bad(struct reader *r, const char *what, const char *got)
{
    mx_fail("[load] %s: bad npy header: %s, got '%.60s'", r->label, what, got);
    return false;
}

static const struct { const char *code; enum dtype dtype; } codes[] = {
    { "b1", DT_bool_ },    { "u1", DT_uint8 },   { "u2", DT_uint16 },  { "u4", DT_uint32 },   { "u8", DT_uint64 },
    { "i1", DT_int8 },     { "i2", DT_int16 },   { "i4", DT_int32 },   { "i8", DT_int64 },    { "f2", DT_float16 },
    { "f4", DT_float32 },  { "f8", DT_float64 }, { "V2", DT_bfloat16 }, { "c8", DT_complex64 },
};

static bool parse_descr(struct reader *r, const char *text, struct header *h)
{
    const char *p = strstr(text, "'descr'");
    p = p ? strchr(p + 7, ':') : NULL;
    p = p ? p + 1 + strspn(p + 1, " ") : "";
    if (*p != '\'')
        return bad(r, "expected 'descr' to be a type code (structured types are not supported)", p);
    p++;
    bool big = *p == '>';
    p += strspn(p, "<>|=");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (!strncmp(p, codes[i].code, 2) && p[2] == '\'') {
            h->dtype = codes[i].dtype;
            h->swap = big && dtype_size(h->dtype) > 1;
            return true;
        }
    return bad(r, "expected a bool, integer, float16 to float64 or complex64 type", p);
}

static bool parse_shape(struct reader *r, const char *text, struct header *h)
{
    const char *p = strstr(text, "'shape'");
    p = p ? strchr(p, '(') : NULL;
    if (!p)
        return bad(r, "expected 'shape' to be a tuple", text);
    for (p++;;) {
        p += strspn(p, " ,");
        if (*p == ')')
            return true;
        char *end;
        unsigned long long v = strtoull(p, &end, 10);
        if (*p < '0' || *p > '9' || v > INT32_MAX || h->ndim == MX_MAX_NDIM)
            return bad(r, "expected sizes below 2^31, at most 64 of them", p);
        h->shape[h->ndim++] = (int)v;
        p = *end == 'L' ? end + 1 : end; /* Python 2 wrote long integers so */
    }
}

static bool parse(struct reader *r, const char *text, struct header *h)
{
    const char *order = strstr(text, "'fortran_order'");
    order = order ? strchr(order, ':') : NULL;
    if (!order)
        return bad(r, "expected 'fortran_order'", text);
    order += 1 + strspn(order + 1, " ");
    h->fortran = !strncmp(order, "True", 4);
    if (!h->fortran && strncmp(order, "False", 5))
        return bad(r, "expected 'fortran_order' to be True or False", order);
    return parse_descr(r, text, h) && parse_shape(r, text, h);
}

static void swap_bytes(char *p, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++, p += size)
        for (size_t k = 0; k < size / 2; k++) {
            char c = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = c;
        }
}

static mx read_data(struct reader *r, const struct header *h, uint64_t at)
{
    int shape[MX_MAX_NDIM];
    for (int i = 0; i < h->ndim; i++)
        shape[i] = h->fortran ? h->shape[h->ndim - 1 - i] : h->shape[i];
    int64_t size = shape_size("load", h->ndim, shape);
    if (size < 0)
        return MX_NIL;
    size_t bytes = (size_t)size * dtype_size(h->dtype);
    if (at > r->size || bytes > r->size - at)
        return mx_fail("[load] %s: shape %s of %s needs %zu bytes at offset %llu, the file has %llu", r->label,
                       shape_text(h->ndim, h->shape), dtype_name(h->dtype), bytes, (unsigned long long)at,
                       (unsigned long long)r->size);
    struct buffer *b = buffer_new(bytes);
    if (!b)
        return MX_NIL;
    if (!io_read(r, b->host, bytes, at, "the data")) {
        buffer_release(b);
        return MX_NIL;
    }
    if (h->swap) {
        size_t item = h->dtype == DT_complex64 ? 4 : dtype_size(h->dtype);
        swap_bytes(b->host, bytes / item, item);
    }
    mx x = array_of_buffer(h->dtype, h->ndim, shape, b);
    return h->fortran ? mx_transpose(x, NULL, 0) : x;
}

mx npy_load(struct reader *r)
{
    unsigned char head[12];
    if (!io_read(r, head, 10, 0, "the npy header"))
        return MX_NIL;
    if (memcmp(head, "\x93NUMPY", 6))
        return mx_fail("[load] %s is not an npy file: it does not begin with \\x93NUMPY", r->label);
    if (head[6] < 1 || head[6] > 3)
        return mx_fail("[load] %s: expected npy version 1, 2 or 3, got %d.%d", r->label, head[6], head[7]);
    size_t start = head[6] == 1 ? 10 : 12, length = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1) {
        if (!io_read(r, head + 10, 2, 10, "the length of the npy header"))
            return MX_NIL;
        length |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    if (length > r->size - start)
        return mx_fail("[load] %s: the npy header has %zu bytes at offset %zu, the file has %llu", r->label, length, start,
                       (unsigned long long)r->size);
    char *text = mx_malloc(length + 1);
    if (!text)
        return MX_NIL;
    struct header h = { 0 };
    mx x = MX_NIL;
    if (io_read(r, text, length, start, "the npy header")) {
        text[length] = 0;
        if (parse(r, text, &h))
            x = read_data(r, &h, start + length);
    }
    free(text);
    return x;
}

static const char *code_of(enum dtype t)
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
    for (int i = 0; i < y->ndim; i++)
        n += (size_t)snprintf(dims + n, sizeof dims - n, i ? ", %d" : "%d", y->shape[i]);
    snprintf(text, sizeof text, "{'descr': '%c%s', 'fortran_order': False, 'shape': (%s%s), }",
             itemsize(y) == 1 ? '|' : '<', code_of(y->dtype), dims, y->ndim == 1 ? "," : "");
    /* Spaces and a newline bring the data to a multiple of 64. */
    size_t length = strlen(text) + 1, pad = (64 - (10 + length) % 64) % 64;
    unsigned char head[10] = { 0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)((length + pad) & 255),
                               (unsigned char)((length + pad) >> 8) };
    char spaces[65];
    memset(spaces, ' ', sizeof spaces);
    spaces[pad] = '\n';
    bool ok = io_write(w, head, 10) && io_write(w, text, length - 1) && io_write(w, spaces, pad + 1) &&
              io_write(w, array_host(y), (size_t)nbytes(y));
    mx_drop(&hold);
    return !ok;
}
