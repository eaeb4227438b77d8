/* The element-wise kernels of GPUs, run on the host: each row and type, in every layout, gives the bits that the
 * CPU's kernels give, or where half types have formulas of their own (halves.h) their neighbours, and writes nothing
 * beside its result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "cuda/kernels/fused.h"
#include "emulated/rows.h"
#include "ops/ops.h"
#include "plan/layout.h"
#include "run/eval.h"

#define X(name, suffix, type, size, kind) extern const struct emulated_row emulated_##suffix[];
MX_DTYPES(X)
#undef X

static const struct emulated_row *const rows[] = {
#define X(name, suffix, type, size, kind) [DT_##name] = emulated_##suffix,
    MX_DTYPES(X)
#undef X
};

enum { N = 1003, GUARD = 64, THREADS = 32, ROUNDS = 3 };

static uint64_t state = 88172645463325252u;
static uint64_t bits64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Any bits for integers, any number of any size for floats; bool is 0 and 1. */
static mx numbers(enum dtype t)
{
    static uint64_t data[N];
    size_t size = dtype_size(t);
    uint8_t *p = (uint8_t *)data;
    for (size_t i = 0; i < sizeof data / 8; i++) data[i] = bits64();
    for (int i = 0; i < N && t == DT_bool_; i++) p[i] &= 1;
    for (int i = 0; i < N && t == DT_float32; i++)
        if (i % 3) { /* of a size that most formulas can do something with */
            float f = (float)((double)(int64_t)data[i] * 0x1p-60);
            memcpy(p + 4 * (size_t)i, &f, size);
        }
    return array_of_data(t, 1, (int[]){ N }, data);
}

static mx build(const struct emulated_row *r, mx a, mx b)
{
    static const struct {
        const char *name;
        mx (*one)(mx);
        mx (*two)(mx, mx);
    } builders[] = {
#define UNARY(name, ...) { #name, mx_##name, NULL },
#define BINARY(name, ...) { #name, NULL, mx_##name },
#include "ops/ops.def"
    };
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
        if (!strcmp(builders[i].name, r->name))
            return builders[i].one ? builders[i].one(a) : builders[i].two(a, b);
    return MX_NIL;
}

static bool is_nan(enum dtype t, const uint8_t *p)
{
    uint16_t h;
    float f;
    double d;
    memcpy(&h, p, 2);
    switch (t) {
    case DT_float16: return (h & 0x7fff) > 0x7c00;
    case DT_bfloat16: return (h & 0x7fff) > 0x7f80;
    case DT_float32: memcpy(&f, p, 4); return f != f;
    case DT_float64: memcpy(&d, p, 8); return d != d;
    default: return false;
    }
}

/* What half types have formulas of their own for may be a neighbour: tests/python/test_gpu_halves.py says how often. */
static bool is_neighbour(const struct emulated_row *r, enum dtype t, const uint8_t *p, const uint8_t *q)
{
    static const char *const own[] = {
#define X(name) #name,
        FUSED_OF_HALF(X) FUSED_OF_HALVES(X)
#undef X
    };
    int16_t h[2];
    memcpy(&h[0], p, 2);
    memcpy(&h[1], q, 2);
    bool has = false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) has |= !strcmp(own[i], r->name);
    return has && dtype_is_half(t) && abs(h[0] - h[1]) == 1;
}

/* a and b are READY and of one shape. */
static void check(const struct emulated_row *r, const char *layout, mx a, mx b)
{
    mx want = build(r, a, b), x[2] = { a, b };
    assert_int_equal(mx_eval(1, &want), 0);
    struct walk w;
    assert_true(layout_walk(&w, want, r->operands, x));
    size_t bytes = (size_t)nbytes(want);
    uint8_t *y = aligned_alloc(64, (bytes + 2 * GUARD + 63) / 64 * 64);
    memset(y, 0xa5, bytes + GUARD);
    uintptr_t low = 0;
    for (int i = 0; i < r->operands; i++) low |= w.step[i] ? (uintptr_t)array_host(x[i]) : 0;
    w.aligned = low % 16 == 0;
    int64_t each = (int64_t)ROUNDS * THREADS * (itemsize(a) <= 2 ? 8 : 4);
    r->run(y, array_host(a), array_host(b), w, ROUNDS, (w.n + each - 1) / each, THREADS);
    enum dtype t = want->dtype == DT_complex64 ? DT_float32 : (enum dtype)want->dtype;
    size_t item = dtype_size(t);
    const uint8_t *p = array_host(want);
    for (size_t i = 0; i < bytes; i += item)
        if (memcmp(y + i, p + i, item) && !(is_nan(t, y + i) && is_nan(t, p + i)) && !is_neighbour(r, t, y + i, p + i))
            fail_msg("%s of %s, %s, element %zu of %zu", r->name, dtype_name((enum dtype)a->dtype), layout, i / item,
                     bytes / item);
    for (size_t i = 0; i < GUARD; i++) assert_int_equal(y[bytes + i], 0xa5);
    free(y);
}

static mx ready(mx x)
{
    assert_int_equal(mx_eval(1, &x), 0);
    return x;
}

static void every_row(void **unused)
{
    (void)unused;
    int tried = 0;
    for (int t = 0; t < DT_COUNT; t++)
        for (const struct emulated_row *r = rows[t]; r->name; r++, tried++) {
            MX_SCOPE(NULL);
            mx a = numbers(t), b = numbers(t);
            mx rest = ready(mx_slice_axis(a, 0, 1, N, 1));
            mx rest_b = ready(mx_slice_axis(b, 0, 0, N - 1, 1));
            mx grid = mx_reshape(mx_slice_axis(a, 0, 0, 1000, 1), 3, (int[]){ 10, 4, 25 });
            mx turned = ready(mx_transpose(grid, (int[]){ 2, 0, 1 }, 3));
            mx plain = ready(mx_reshape(mx_slice_axis(b, 0, 0, 1000, 1), 3, (int[]){ 25, 10, 4 }));
            mx one = ready(mx_broadcast_to(mx_slice_axis(b, 0, 7, 8, 1), 1, (int[]){ N }));
            check(r, "side by side", a, b);
            check(r, "not aligned", rest, rest_b);
            check(r, "turned", turned, plain);
            check(r, "by one value", a, one);
            check(r, "from one value", one, a);
        }
    assert_true(tried > 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_row) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
