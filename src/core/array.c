/* array.c: making and freeing arrays.
 *
 * Freeing an array frees its node, which frees its inputs: a chain as long as the graph is deep.  It
 * is walked by a list, not by recursion, so a million nodes are freed on a small stack. */
#include "core/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/node.h"
#include "core/refs.h"
#include "core/scope.h"
#include "core/shape.h"
#include "core/slab.h"
#include "core/stream.h"
#include "core/tally.h"

/* Whoever reads a size of the nil array, at any axis from either end, before looking whether there is one, reads 1. */
#define ONES 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
static int nil_shape[] = { ONES, ONES, ONES, ONES, ONES, ONES, ONES, ONES };
static int64_t nil_strides[2 * MX_MAX_NDIM];
_Static_assert(sizeof nil_shape == 2 * MX_MAX_NDIM * sizeof *nil_shape, "one size for each axis from either end");
struct mx_array mx_nil_array = { .refs = 1,
                                 .status = READY,
                                 .dtype = DT_float32,
                                 .row = true,
                                 .shape = nil_shape + MX_MAX_NDIM,
                                 .strides = nil_strides + MX_MAX_NDIM };

long array_live_count(void) { return tally_sum(TALLY_ARRAYS); }

static size_t struct_bytes(int ndim)
{
    return sizeof(struct mx_array) + (size_t)ndim * (sizeof(int64_t) + sizeof(int));
}

/* One reference, owned by the caller; everything but shape contents set.  NULL after a failure. */
static inline __attribute__((always_inline)) mx array_raw(enum dtype t, int ndim)
{
    mx x = mx_slab(struct_bytes(ndim));
    if (!x)
        return NULL;
    *x = (struct mx_array){ .refs = 1, .status = LAZY, .dtype = (uint8_t)t, .ndim = (unsigned)ndim };
    x->strides = (int64_t *)(x + 1);
    x->shape = (int *)(x->strides + ndim);
    tally_add(TALLY_ARRAYS, 1);
    return x;
}

static void free_one(mx x)
{
    struct node *n = x->node;
    if (n) {
        if (n->nout > 1)
            node_forget_output(n, x);
        node_release(n);
    }
    buffer_release(x->buf);
    if (x->event)
        event_release(x->event);
    tally_add(TALLY_ARRAYS, -1);
    slab_free(x, struct_bytes(x->ndim));
}

static bool last_reference_goes(mx x)
{
    return x->several ? atomic_fetch_sub_explicit(&x->refs, 1, memory_order_acq_rel) == 1 : last_goes(&x->refs);
}

/* Dead arrays wait in a list linked through `strides` while one of them is being freed. */
void mx_release(mx x)
{
    if (is_nil(x) || !last_reference_goes(x))
        return;
    struct thread *mine = this_thread();
    if (mine->frees) {
        x->strides = (int64_t *)mine->dead;
        mine->dead = x;
        return;
    }
    mine->frees = true;
    for (;;) {
        free_one(x);
        if (!(x = mine->dead))
            break;
        mine->dead = (mx)x->strides;
    }
    mine->frees = false;
}

bool mx_try_retain(mx x)
{
    int n = atomic_load_explicit(&x->refs, memory_order_relaxed);
    while (n > 0)
        if (atomic_compare_exchange_weak_explicit(&x->refs, &n, n + 1, memory_order_acquire, memory_order_relaxed))
            return true;
    return false;
}

void mx_keep(mx_own *slot, mx x)
{
    mx old = slot->it;
    if (x && !is_nil(x))
        mx_retain(x);
    slot->it = x;
    if (old)
        mx_release(old);
}

void mx_drop(mx_own *slot)
{
    mx x = slot->it;
    slot->it = NULL;
    if (x)
        mx_release(x);
}

static mx array_shaped(enum dtype t, int ndim, const int *shape, int64_t size)
{
    mx x = size < 0 ? NULL : array_raw(t, ndim);
    if (!x)
        return MX_NIL;
    for (int i = 0; i < ndim; i++) x->shape[i] = shape[i];
    x->size = size;
    return scope_lend(x);
}

mx array_new(enum dtype t, int ndim, const int *shape)
{
    return array_shaped(t, ndim, shape, shape_size("array", ndim, shape));
}

mx array_like(enum dtype t, mx x) { return array_shaped(t, x->ndim, x->shape, x->size); }

mx array_of_buffer(enum dtype t, int ndim, const int *shape, struct buffer *buf)
{
    mx x = array_new(t, ndim, shape);
    if (is_nil(x)) {
        buffer_release(buf);
        return x;
    }
    row_strides(ndim, shape, x->strides);
    x->row = true;
    x->buf = buf;
    x->status = READY;
    return x;
}

mx array_of_data(enum dtype t, int ndim, const int *shape, const void *data)
{
    int64_t size = shape_size("array", ndim, shape);
    if (size < 0)
        return MX_NIL;
    size_t bytes = (size_t)size * dtype_size(t);
    struct buffer *b = buffer_new(bytes);
    if (!b)
        return MX_NIL;
    if (bytes)
        memcpy(b->host, data, bytes);
    return array_of_buffer(t, ndim, shape, b);
}

mx array_alias(mx x)
{
    mx y = array_new(x->dtype, x->ndim, x->shape);
    if (is_nil(y) || is_nil(x))
        return MX_NIL;
    memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    y->row = x->row;
    y->offset = x->offset;
    y->buf = x->buf;
    buffer_retain(y->buf);
    y->status = READY;
    return y;
}

int dim(mx x, int i)
{
    if (i < 0)
        i += x->ndim;
    return i >= 0 && i < x->ndim ? x->shape[i] : 1;
}

void *array_host(mx x) { return (char *)x->buf->host + x->offset * (int64_t)itemsize(x); }

void array_note_layout(mx x)
{
    int64_t s = 1;
    x->row = true;
    for (int i = x->ndim; i-- > 0;) {
        if (x->shape[i] != 1 && x->strides[i] != s) {
            x->row = x->size == 0;
            return;
        }
        s *= x->shape[i];
    }
}

/* ---- scalars */

static float float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Sign, 5 bits of exponent biased by 15, 10 bits of fraction. */
static double float16_value(uint16_t h)
{
    int e = h >> 10 & 31, fraction = h & 1023;
    double v = e == 31 ? (fraction ? NAN : INFINITY) : e ? ldexp(1024 + fraction, e - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

bool array_readable(mx x)
{
    return !is_nil(x) && atomic_load(&x->status) == READY && x->buf &&
           (atomic_load_explicit(&x->buf->state, memory_order_acquire) & ON_HOST);
}

double float_at(enum dtype t, const void *at)
{
    switch (t) {
    case DT_float16: return float16_value(*(const uint16_t *)at);
    case DT_bfloat16: return float_of_bits((uint32_t) * (const uint16_t *)at << 16);
    case DT_float32: return *(const float *)at;
    case DT_float64: return *(const double *)at;
    default: return NAN;
    }
}

/* float32 to bfloat16 and float16, to nearest even; kept here so that core needs no kernels. */
static uint16_t to_bfloat16(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    if (f != f)
        return (uint16_t)(u >> 16 | 64);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static uint16_t to_float16(double d)
{
    uint16_t sign = __builtin_signbit(d) ? 0x8000 : 0;
    double a = __builtin_fabs(d);
    if (d != d)
        return sign | 0x7e00;
    if (a >= 65520.0)
        return sign | 0x7c00;
    /* The spacing of float16 around a: 2^-24 below 2^-14, else 2^(exponent - 10). */
    int e = -14;
    while (a >= __builtin_ldexp(1.0, e + 1)) e++;
    double units = __builtin_rint(a * __builtin_ldexp(1.0, 10 - e));
    return (uint16_t)(sign + (uint16_t)units + (uint16_t)((e + 14) * 1024));
}

static mx scalar_of(enum dtype t, double re, double im, int64_t i, bool integral)
{
    struct buffer *b = buffer_new(dtype_size(t));
    if (!b)
        return MX_NIL;
    switch (t) {
    case DT_float32: *(float *)b->host = integral ? (float)i : (float)re; break;
    case DT_float64: *(double *)b->host = integral ? (double)i : re; break;
    case DT_float16: *(uint16_t *)b->host = to_float16(integral ? (double)i : re); break;
    case DT_bfloat16: *(uint16_t *)b->host = to_bfloat16(integral ? (float)i : (float)re); break;
    case DT_complex64:
        ((float *)b->host)[0] = integral ? (float)i : (float)re;
        ((float *)b->host)[1] = (float)im;
        break;
    case DT_bool_: *(uint8_t *)b->host = integral ? i != 0 : re != 0 || im != 0; break;
    default: {
        /* Out-of-range floats saturate here; integers keep their low bits. */
        int64_t v = integral ? i
                    : t == DT_uint64 && re >= 9223372036854775808.0
                        ? (int64_t)(re < 18446744073709551616.0 ? (uint64_t)re : UINT64_MAX)
                    : re != re                     ? 0
                    : re >= 9223372036854775808.0  ? INT64_MAX
                    : re <= -9223372036854775808.0 ? INT64_MIN
                                                   : (int64_t)re;
        memcpy(b->host, &v, dtype_size(t)); /* little-endian: the low bytes */
    }
    }
    return array_of_buffer(t, 0, NULL, b);
}

mx array_of_int(int64_t v, enum dtype t) { return scalar_of(t, 0, 0, v, true); }
mx array_of_double(double v, enum dtype t) { return scalar_of(t, v, 0, 0, false); }
mx array_of_complex(double re, double im, enum dtype t) { return scalar_of(t, re, im, 0, false); }

int list_push(struct mx_list *l, mx x)
{
    if (is_nil(x))
        return 1;
    mx_own *v = mx_grown(l->v, l->n, &l->cap, sizeof *v);
    if (!v)
        return 1;
    l->v = v;
    l->v[l->n].it = NULL;
    mx_keep(&l->v[l->n++], x);
    return 0;
}

int list_push_all(struct mx_list *l, int n, const mx x[])
{
    int bad = 0;
    for (int i = 0; i < n && !bad; i++) bad = list_push(l, x[i]);
    return bad;
}

void list_clear(struct mx_list *l)
{
    for (int i = 0; i < l->n; i++) mx_drop(&l->v[i]);
    free(l->v);
    *l = (struct mx_list){ 0 };
}
