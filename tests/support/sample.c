/* sample.c: arrays for tests, and their elements read back. */
#include "support/sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/shape.h"
#include "run/eval.h"

/* ---- numbers: splitmix64 */

static uint64_t state = 1;

void draw_seed(uint64_t seed) { state = seed; }

static uint64_t next(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t draw(int64_t n) { return n > 0 ? (int64_t)(next() % (uint64_t)n) : 0; }
double draw_real(double low, double high) { return low + (high - low) * (double)(next() >> 11) * 0x1p-53; }

int draw_shape(int max_ndim, int most, bool empty_too, int *shape)
{
    int ndim = (int)draw(max_ndim + 1);
    for (int i = 0; i < ndim; i++) shape[i] = 1 + (int)draw(most);
    if (empty_too && ndim && draw(8) == 0)
        shape[draw(ndim)] = 0;
    return ndim;
}

enum dtype draw_dtype(void) { return (enum dtype)draw(DT_COUNT); }

/* ---- elements */

/* float16 of a number that it holds exactly; of smaller ones zero. */
static uint16_t float16_of(double v)
{
    int e;
    v = fabs(v) < 0x1p-14 ? 0 : v;
    double m = frexp(fabs(v), &e); /* m in [0.5, 1) */
    uint16_t sign = v < 0 ? 0x8000 : 0;
    return v == 0 ? sign : (uint16_t)(sign | (e + 14) << 10 | (int)(m * 2048 - 1024));
}

static double double_of_16(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    double a = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h >> 15 ? -a : a;
}

static void store(void *p, enum dtype t, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    switch (t) {
    case DT_bool_: *(uint8_t *)p = v != 0; break;
    case DT_uint8: *(uint8_t *)p = (uint8_t)v; break;
    case DT_uint16: *(uint16_t *)p = (uint16_t)v; break;
    case DT_uint32: *(uint32_t *)p = (uint32_t)v; break;
    case DT_uint64: *(uint64_t *)p = (uint64_t)v; break;
    case DT_int8: *(int8_t *)p = (int8_t)v; break;
    case DT_int16: *(int16_t *)p = (int16_t)v; break;
    case DT_int32: *(int32_t *)p = (int32_t)v; break;
    case DT_int64: *(int64_t *)p = (int64_t)v; break;
    case DT_float16: *(uint16_t *)p = float16_of(v); break;
    case DT_bfloat16: *(uint16_t *)p = (uint16_t)(bits >> 16); break;
    case DT_float32: *(float *)p = f; break;
    case DT_float64: *(double *)p = v; break;
    case DT_complex64: ((float *)p)[0] = f, ((float *)p)[1] = 0; break;
    case DT_COUNT: break;
    }
}

static double load(const void *p, enum dtype t)
{
    uint32_t bits;
    float f;
    switch (t) {
    case DT_bool_:
    case DT_uint8: return *(const uint8_t *)p;
    case DT_uint16: return *(const uint16_t *)p;
    case DT_uint32: return *(const uint32_t *)p;
    case DT_uint64: return (double)*(const uint64_t *)p;
    case DT_int8: return *(const int8_t *)p;
    case DT_int16: return *(const int16_t *)p;
    case DT_int32: return *(const int32_t *)p;
    case DT_int64: return (double)*(const int64_t *)p;
    case DT_float16: return double_of_16(*(const uint16_t *)p);
    case DT_bfloat16:
        bits = (uint32_t) * (const uint16_t *)p << 16;
        memcpy(&f, &bits, 4);
        return f;
    case DT_float32: return *(const float *)p;
    case DT_float64: return *(const double *)p;
    case DT_complex64: return *(const float *)p;
    case DT_COUNT: break;
    }
    return 0;
}

/* ---- arrays */

/* Memory for the shape under strides drawn at random; elements are not set. */
static mx laid_out(enum dtype t, int ndim, const int *shape, bool repeats)
{
    int order[MX_MAX_NDIM], one = 1;
    int64_t strides[MX_MAX_NDIM], step = 1, offset = draw(3);
    for (int i = 0; i < ndim; i++) order[i] = i;
    if (draw(3))
        for (int i = ndim; i-- > 1;) {
            int k = (int)draw(i + 1), o = order[i];
            order[i] = order[k];
            order[k] = o;
        }
    bool plain = draw(3) == 0;
    for (int k = ndim; k-- > 0;) {
        int i = order[k], n = shape[i] ? shape[i] : 1;
        bool repeated = repeats && !plain && draw(6) == 0, back = !plain && draw(4) == 0;
        int64_t gap = plain ? 1 : 1 + (draw(4) == 0) * draw(3);
        step *= repeated ? 1 : gap;
        strides[i] = repeated ? 0 : back ? -step : step;
        offset += back && !repeated ? step * (n - 1) : 0;
        step *= repeated ? 1 : n;
    }
    struct buffer *b = buffer_new((size_t)(offset + step + 3) * dtype_size(t));
    assert_non_null(b);
    memset(b->host, 0x5a, b->bytes);
    mx whole = array_of_buffer(t, 1, &one, b), x = array_new(t, ndim, shape);
    assert_false(is_nil(x) || is_nil(whole));
    memcpy(x->strides, strides, (size_t)ndim * sizeof *strides);
    x->offset = offset;
    x->buf = b;
    buffer_retain(b);
    array_note_layout(x);
    x->status = READY;
    return x;
}

static char *element(mx x, const int64_t *at)
{
    int64_t offset = x->offset;
    for (int i = 0; i < x->ndim; i++) offset += at[i] * x->strides[i];
    return (char *)x->buf->host + offset * (int64_t)dtype_size(x->dtype);
}

static mx filled_with(mx x, double (*value)(double, double), double low, double high)
{
    struct model m = { .ndim = x->ndim, .size = x->size };
    int64_t at[MX_MAX_NDIM];
    memcpy(m.shape, x->shape, (size_t)x->ndim * sizeof *m.shape);
    for (int64_t i = 0; i < x->size; i++) {
        place_of(&m, i, at);
        store(element(x, at), x->dtype, value(low, high));
    }
    return x;
}

static double whole_number(double low, double high) { return floor(draw_real(low, high)); }

mx sample(enum dtype t, int ndim, const int *shape)
{
    bool is_signed = dtype_kind(t) == 'i' || dtype_kind(t) == 'f' || dtype_kind(t) == 'c';
    return filled_with(laid_out(t, ndim, shape, true), whole_number, is_signed ? -100 : 0, t == DT_bool_ ? 2 : 100);
}

mx sample_between(enum dtype t, int ndim, const int *shape, double low, double high)
{
    return filled_with(laid_out(t, ndim, shape, false), dtype_is_inexact(t) ? draw_real : whole_number, low, high);
}

mx array_from(enum dtype t, int ndim, const int *shape, const double *v)
{
    int64_t size = 1;
    for (int i = 0; i < ndim; i++) size *= shape[i];
    struct buffer *b = buffer_new((size_t)size * dtype_size(t));
    assert_non_null(b);
    for (int64_t i = 0; i < size; i++) store((char *)b->host + i * (int64_t)dtype_size(t), t, v[i]);
    return array_of_buffer(t, ndim, shape, b);
}

/* ---- models */

struct model model_new(int ndim, const int *shape)
{
    struct model m = { .ndim = ndim, .size = 1 };
    for (int i = 0; i < ndim; i++) {
        m.shape[i] = shape[i];
        m.size *= shape[i];
    }
    m.v = calloc((size_t)m.size + 1, sizeof *m.v);
    assert_non_null(m.v);
    return m;
}

void model_drop(struct model *m)
{
    free(m->v);
    m->v = NULL;
}

int64_t number_of(const struct model *m, const int64_t *at)
{
    int64_t n = 0;
    for (int i = 0; i < m->ndim; i++) n = n * m->shape[i] + at[i];
    return n;
}

void place_of(const struct model *m, int64_t number, int64_t *at)
{
    for (int i = m->ndim; i-- > 0;) {
        at[i] = number % m->shape[i];
        number /= m->shape[i];
    }
}

struct model model_of(mx x)
{
    struct model m = model_new(x->ndim, x->shape);
    int64_t at[MX_MAX_NDIM];
    assert_int_equal(x->status, READY);
    for (int64_t i = 0; i < m.size; i++) {
        place_of(&m, i, at);
        m.v[i] = load(element(x, at), x->dtype);
    }
    return m;
}

static void assert_within(mx y, const struct model *want, double tolerance)
{
    if (is_nil(y) || mx_eval(1, &y))
        fail_msg("%s", mx_error_message());
    if (y->ndim != want->ndim || memcmp(y->shape, want->shape, (size_t)y->ndim * sizeof *y->shape))
        fail_msg("shape %s, expected %s", shape_of(y), shape_text(want->ndim, want->shape));
    struct model got = model_of(y);
    for (int64_t i = 0; i < got.size; i++) {
        double a = got.v[i], b = want->v[i];
        if (!(a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance * (1 + fabs(b))))
            fail_msg("element %lld of shape %s and type %s is %.17g, expected %.17g", (long long)i, shape_of(y),
                     dtype_name(y->dtype), a, b);
    }
    model_drop(&got);
}

void assert_holds(mx y, const struct model *want) { assert_within(y, want, 0); }
void assert_close(mx y, const struct model *want, double tolerance) { assert_within(y, want, tolerance); }

void assert_fails(mx y, enum mx_error kind, const char *part)
{
    if (!is_nil(y) && !mx_eval(1, &y))
        fail_msg("expected an error with \"%s\", got an array of shape %s", part, shape_of(y));
    if (mx_error_kind() != kind || !strstr(mx_error_message(), part))
        fail_msg("expected error %d with \"%s\", got error %d: %s", (int)kind, part, (int)mx_error_kind(),
                 mx_error_message());
    mx_error_clear();
}
