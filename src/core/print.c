/* print.c: arrays as text, in C and in Python.
 *
 * Rows of the last axis stand on a line each, indented to their bracket; of an axis with more than
 * six places the first and last three are shown.  Numbers print as printf's %g does, in the C
 * locale whatever the program's. */
#define _GNU_SOURCE
#include "core/print.h"

#include <complex.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EDGE = 3 };

struct printer {
    FILE *out;
    mx x;
    int precision;
};

static void put_float(const struct printer *p, double v)
{
    if (isnan(v))
        fputs("nan", p->out); /* whatever its sign bit, which 0/0 sets on x86 */
    else if (p->precision < 0)
        fprintf(p->out, "%g", v);
    else
        fprintf(p->out, "%.*f", p->precision, v);
}

static void put_complex(const struct printer *p, float _Complex z)
{
    float im = cimagf(z);
    put_float(p, crealf(z));
    if (isnan(im) || !signbit(im))
        fputc('+', p->out);
    put_float(p, im);
    fputc('j', p->out);
}

static void put_element(const struct printer *p, const void *at)
{
    switch ((enum dtype)p->x->dtype) {
    case DT_bool_: fputs(*(const uint8_t *)at ? "True" : "False", p->out); break;
    case DT_uint8: fprintf(p->out, "%" PRIu8, *(const uint8_t *)at); break;
    case DT_uint16: fprintf(p->out, "%" PRIu16, *(const uint16_t *)at); break;
    case DT_uint32: fprintf(p->out, "%" PRIu32, *(const uint32_t *)at); break;
    case DT_uint64: fprintf(p->out, "%" PRIu64, *(const uint64_t *)at); break;
    case DT_int8: fprintf(p->out, "%" PRId8, *(const int8_t *)at); break;
    case DT_int16: fprintf(p->out, "%" PRId16, *(const int16_t *)at); break;
    case DT_int32: fprintf(p->out, "%" PRId32, *(const int32_t *)at); break;
    case DT_int64: fprintf(p->out, "%" PRId64, *(const int64_t *)at); break;
    case DT_float16:
    case DT_bfloat16:
    case DT_float32:
    case DT_float64: put_float(p, float_at(p->x->dtype, at)); break;
    case DT_complex64: put_complex(p, *(const float _Complex *)at); break;
    case DT_COUNT: break;
    }
}

/* The part of the array that lies behind the indices chosen so far, for the axes from `axis` on. */
static void put_axis(const struct printer *p, int axis, const char *at)
{
    mx x = p->x;
    if (axis == x->ndim) {
        put_element(p, at);
        return;
    }
    int64_t n = x->shape[axis], step = x->strides[axis] * (int64_t)itemsize(x);
    fputc('[', p->out);
    for (int64_t i = 0; i < n; i++) {
        if (i && axis == x->ndim - 1)
            fputs(", ", p->out);
        else if (i)
            fprintf(p->out, ",\n%*s", (int)strlen("array([") + axis, "");
        if (i == EDGE && n > 2 * EDGE) {
            fputs("...", p->out);
            i = n - EDGE - 1;
        } else {
            put_axis(p, axis + 1, at + i * step);
        }
    }
    fputc(']', p->out);
}

/* Many short axes make a text that no memory holds, of an array that takes none (broadcast, or empty). */
static bool text_fits(mx x)
{
    int64_t parts = 1;
    for (int i = 0; i < x->ndim && x->shape[i] && parts <= 1 << 24; i++)
        parts *= x->shape[i] > 2 * EDGE ? 2 * EDGE + 1 : x->shape[i];
    return parts <= 1 << 24;
}

void number_text(char *out, size_t size, int decimals, double v)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = plain ? uselocale(plain) : (locale_t)0;
    if (decimals < 0)
        snprintf(out, size, "%g", v);
    else
        snprintf(out, size, "%.*f", decimals, v);
    if (!plain)
        return;
    uselocale(before);
    freelocale(plain);
}

char *array_text(mx x, int precision)
{
    enum { MOST = 1074 }; /* the last digit of the smallest float64 */
    char *text = NULL;
    size_t size = 0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    FILE *out = plain ? open_memstream(&text, &size) : NULL;
    if (!out) {
        if (plain)
            freelocale(plain);
        mx_fail_memory(sizeof(FILE));
        return NULL;
    }
    locale_t before = uselocale(plain);
    struct printer p = { out, x, precision < MOST ? precision : MOST };
    fputs("array(", out);
    if (text_fits(x))
        put_axis(&p, 0, array_host(x));
    else
        fputs(x->size ? "[...]" : "[]", out);
    fprintf(out, ", dtype=%s)", dtype_name(x->dtype));
    uselocale(before);
    freelocale(plain);
    bool torn = ferror(out);
    if (fclose(out) || torn || !text) { /* without memory for any of it glibc leaves NULL and says nothing */
        free(text);
        mx_fail_memory(size);
        return NULL;
    }
    return text;
}
