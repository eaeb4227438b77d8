/* mlxfn_json.c: what is in exported functions, as JSON. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "io/io.h"
#include "mlxfn/mlxfn.h"

void put_format(struct bytes *b, const char *fmt, ...)
{
    char text[256];
    va_list list;
    va_start(list, fmt);
    int n = vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    put_bytes(b, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

void put_json_text(struct bytes *b, const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    put_bytes(b, "\"", 1);
    for (size_t i = 0, length; i < n; i += length ? length : 1) {
        length = io_utf8(text + i, n - i);
        if (length == 0)
            put_bytes(b, "\xef\xbf\xbd", 3);
        else if (s[i] == '"' || s[i] == '\\')
            put_format(b, "\\%c", s[i]);
        else if (s[i] < 32)
            put_format(b, "\\u%04x", s[i]);
        else
            put_bytes(b, s + i, length);
    }
    put_bytes(b, "\"", 1);
}

void put_json_shape(struct bytes *b, int ndim, const int *shape)
{
    put_format(b, "[");
    for (int i = 0; i < ndim; i++) put_format(b, i ? ",%d" : "%d", shape[i]);
    put_format(b, "]");
}

/* As Python's json module reads them. */
static void put_number(struct bytes *b, double v)
{
    if (isfinite(v))
        put_format(b, v == floor(v) && fabs(v) < 1e15 ? "%.1f" : "%.17g", v);
    else
        put_format(b, "%s", isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
}

static void put_list(struct bytes *b, const struct wire_value *v, bool tuple)
{
    put_format(b, tuple ? "{\"tuple\":[" : "[");
    for (uint64_t i = 0; i < v->n; i++) put_format(b, i ? ",%lld" : "%lld", (long long)v->v[i]);
    put_format(b, tuple ? "]}" : "]");
}

void put_json_state(struct bytes *b, const char *format, const struct wire_state *s)
{
    bool first = true;
    put_format(b, "[");
    for (int k = 0; format[k]; k++) {
        const struct wire_value *v = &s->v[k];
        if (strchr("n-oS", format[k]))
            continue;
        if (!first)
            put_format(b, ",");
        first = false;
        switch (format[k]) {
        case 'b': put_format(b, "%s", v->b ? "true" : "false"); break;
        case 'i':
        case 'e': put_format(b, "%d", v->i); break;
        case 'f': put_number(b, (double)v->f); break;
        case 'd': put_number(b, v->d); break;
        case 'u': put_format(b, "%llu", (unsigned long long)v->u); break;
        case 't': put_format(b, "{\"dtype\":\"%s\"}", dtype_name((enum dtype)v->i)); break;
        case 's': put_json_text(b, v->s, v->n); break;
        default: put_list(b, v, format[k] == 'H' || format[k] == 'L'); break;
        }
    }
    put_format(b, "]");
}
