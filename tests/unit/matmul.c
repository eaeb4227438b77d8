/* matmul and addmm as operations: shapes, types, layouts, errors, derivatives and vmap. */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/matmul.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "transform/transform.h"

/* ---- arrays with numbers in them */

static uint64_t seed = 1;
static double number(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)((seed >> 33) % 2001) / 500 - 2;
}

#define SHAPE(...) \
    (int)(sizeof((int[]){ __VA_ARGS__ }) / sizeof(int)), (int[]) { __VA_ARGS__ }

static int64_t product_of(int n, const int *v)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= v[i];
    return p;
}

static mx random_array(enum dtype t, int ndim, const int *shape)
{
    int64_t n = product_of(ndim, shape) * (t == DT_complex64 ? 2 : 1);
    double *d = malloc((size_t)(n + 1) * sizeof *d);
    float *f = malloc((size_t)(n + 1) * sizeof *f);
    for (int64_t i = 0; i < n; i++) {
        d[i] = number();
        if (!dtype_is_inexact(t))
            d[i] = rint((dtype_kind(t) == 'u' ? d[i] + 2 : d[i]) * 20);
        f[i] = (float)d[i];
    }
    mx x =
        t == DT_complex64 ? array_of_data(t, ndim, shape, f) : mx_astype(array_of_data(DT_float64, ndim, shape, d), t);
    free(d), free(f);
    return x;
}

/* Element i of x in row-major order, whatever x's strides are. */
static double _Complex value(mx x, int64_t i)
{
    int64_t at = 0;
    for (int d = x->ndim - 1; d >= 0; i /= x->shape[d--]) at += i % x->shape[d] * x->strides[d];
    if (x->dtype == DT_complex64)
        return ((float _Complex *)array_host(x))[at];
    assert_int_equal(x->dtype, DT_float64);
    return ((double *)array_host(x))[at];
}

/* What a test holds on to: arrays are made inside a scope, kept, and evaluated after it. */
static struct {
    int n;
    mx_own v[64];
} kept;

static mx keep(mx x)
{
    if (is_nil(x))
        fail_msg("%s", mx_error_message());
    assert_true(kept.n < 64);
    kept.v[kept.n].it = NULL;
    mx_keep(&kept.v[kept.n++], x);
    return x;
}

/* Kept in a type that value() reads. */
static mx keep_wide(mx x) { return keep(x->dtype == DT_complex64 ? x : mx_astype(x, DT_float64)); }

static void evaluate(void)
{
    for (int i = 0; i < kept.n; i++)
        if (mx_eval(1, &kept.v[i].it))
            fail_msg("%s", mx_error_message());
}

static long live_before;
static int begin(void **state)
{
    (void)state;
    live_before = array_live_count();
    return 0;
}
static int forget(void **state)
{
    (void)state;
    while (kept.n) mx_drop(&kept.v[--kept.n]);
    mx_error_clear();
    return array_live_count() != live_before || scope_depth() != 0;
}

/* ---- values */

/* Element i of the result of operands of at least two dimensions. */
static double _Complex reference(mx a, mx b, mx y, int64_t i)
{
    int n = y->ndim - 2;
    int64_t column = i % dim(y, -1), row = i / dim(y, -1) % dim(y, -2), batch = i / dim(y, -1) / dim(y, -2);
    int64_t ea = 0, eb = 0, step_a = 1, step_b = 1;
    for (int d = n - 1; d >= 0; batch /= y->shape[d--]) {
        int64_t at = batch % y->shape[d];
        int da = d - (y->ndim - a->ndim), db = d - (y->ndim - b->ndim);
        if (da >= 0) {
            ea += a->shape[da] == 1 ? 0 : at * step_a;
            step_a *= a->shape[da];
        }
        if (db >= 0) {
            eb += b->shape[db] == 1 ? 0 : at * step_b;
            step_b *= b->shape[db];
        }
    }
    int64_t k = dim(a, -1);
    double _Complex sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += value(a, (ea * dim(a, -2) + row) * k + p) * value(b, (eb * k + p) * dim(b, -1) + column);
    return sum;
}

static double modulus(double _Complex z) { return hypot(__real__ z, __imag__ z); }

static bool near(double _Complex want, double _Complex got, double tolerance)
{
    return modulus(want - got) <= tolerance * (1 + modulus(want));
}

static double tolerance(enum dtype t)
{
    return t == DT_bfloat16      ? 0x1p-7
           : t == DT_float16     ? 0x1p-10
           : t == DT_float64     ? 1e-13
           : dtype_is_inexact(t) ? 5e-5
                                 : 0;
}

/* Layouts of operands: as made, transposed in memory, every other element backwards. */
static mx laid_out(enum dtype t, int layout, int ndim, const int *shape)
{
    int s[MX_MAX_NDIM], start[MX_MAX_NDIM], stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    memcpy(s, shape, (size_t)ndim * sizeof *s);
    if (layout == 1) {
        s[ndim - 1] = shape[ndim - 2], s[ndim - 2] = shape[ndim - 1];
        return mx_swapaxes(random_array(t, ndim, s), -1, -2);
    }
    if (layout == 2) {
        for (int i = 0; i < ndim; i++) {
            s[i] = 2 * shape[i];
            start[i] = s[i] - 1, stop[i] = -s[i] - 1, step[i] = -2;
        }
        return mx_slice(random_array(t, ndim, s), start, stop, step);
    }
    return random_array(t, ndim, s);
}

static const struct pair {
    int na, a[5], nb, b[5], ny, y[5];
} pairs[] = {
    { 2, { 2, 3 }, 2, { 3, 4 }, 2, { 2, 4 } },
    { 2, { 33, 65 }, 2, { 65, 40 }, 2, { 33, 40 } },
    { 2, { 1, 7 }, 2, { 7, 1 }, 2, { 1, 1 } },
    { 3, { 5, 2, 3 }, 2, { 3, 4 }, 3, { 5, 2, 4 } },
    { 4, { 2, 3, 4, 5 }, 2, { 5, 6 }, 4, { 2, 3, 4, 6 } },
    { 2, { 2, 3 }, 3, { 5, 3, 4 }, 3, { 5, 2, 4 } },
    { 3, { 5, 2, 3 }, 3, { 5, 3, 4 }, 3, { 5, 2, 4 } },
    { 3, { 1, 2, 3 }, 3, { 5, 3, 4 }, 3, { 5, 2, 4 } },
    { 4, { 2, 1, 4, 3 }, 3, { 6, 3, 2 }, 4, { 2, 6, 4, 2 } },
    { 5, { 2, 1, 3, 2, 2 }, 5, { 1, 4, 3, 2, 2 }, 5, { 2, 4, 3, 2, 2 } },
    { 3, { 3, 0, 4 }, 2, { 4, 5 }, 3, { 3, 0, 5 } },
    { 2, { 3, 0 }, 2, { 0, 5 }, 2, { 3, 5 } },
    { 3, { 0, 3, 2 }, 3, { 0, 2, 5 }, 3, { 0, 3, 5 } },
    { 3, { 2, 3, 0 }, 2, { 0, 4 }, 3, { 2, 3, 4 } },
};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static void check_pair(enum dtype t, const struct pair *p, int layout_a, int layout_b)
{
    mx a, b, y;
    {
        MX_SCOPE(NULL);
        a = laid_out(t, layout_a, p->na, p->a), b = laid_out(t, layout_b, p->nb, p->b);
        y = keep(mx_matmul(a, b));
        assert_int_equal(y->dtype, t);
        y = keep_wide(y), a = keep_wide(a), b = keep_wide(b);
    }
    assert_int_equal(y->ndim, p->ny);
    assert_memory_equal(y->shape, p->y, (size_t)p->ny * sizeof(int));
    evaluate();
    for (int64_t i = 0; i < y->size; i++)
        if (!near(reference(a, b, y, i), value(y, i), tolerance(t)))
            fail_msg("%s %s times %s: element %ld is %g, not %g", dtype_name(t), shape_of(a), shape_of(b), (long)i,
                     __real__ value(y, i), __real__ reference(a, b, y, i));
    while (kept.n) mx_drop(&kept.v[--kept.n]);
}

static void values(void **state)
{
    (void)state;
    static const enum dtype types[] = { DT_float32, DT_float64, DT_complex64, DT_int32,
                                        DT_int64,   DT_uint32,  DT_float16,   DT_bfloat16 };
    for (size_t s = 0; s < sizeof types / sizeof *types; s++)
        for (int i = 0; i < PAIRS; i++)
            for (int l = 0; l < 9; l++) {
                if (l && (types[s] == DT_float16 || types[s] == DT_bfloat16) && i == 1)
                    continue;
                check_pair(types[s], &pairs[i], l % 3, l / 3);
            }
}

static void integers_wrap(void **state)
{
    (void)state;
    int8_t v[] = { 100, 100, -128, 3 };
    mx y, z;
    {
        MX_SCOPE(NULL);
        mx x = array_of_data(DT_int8, SHAPE(2, 2), v);
        y = keep(mx_matmul(x, x));
        mx t = array_of_data(DT_bool_, SHAPE(2, 2), (uint8_t[]){ 1, 0, 1, 1 });
        z = keep(mx_matmul(t, t));
    }
    evaluate();
    const int want[] = { 100 * 100 - 128 * 100, 100 * 100 + 300, -12800 - 3 * 128, -12800 + 9 };
    assert_int_equal(y->dtype, DT_int8);
    for (int i = 0; i < 4; i++) assert_int_equal(((int8_t *)array_host(y))[i], (int8_t)want[i]);
    assert_int_equal(z->dtype, DT_bool_);
    assert_memory_equal(array_host(z), ((uint8_t[]){ 1, 0, 1, 1 }), 4);
}

static void one_dimension(void **state)
{
    (void)state;
    mx v, w, m, b, vw, vm, mv, bv, vb;
    {
        MX_SCOPE(NULL);
        v = keep(random_array(DT_float64, SHAPE(3))), w = keep(random_array(DT_float64, SHAPE(3)));
        m = keep(random_array(DT_float64, SHAPE(3, 3))), b = keep(random_array(DT_float64, SHAPE(2, 3, 3)));
        vw = keep(mx_matmul(v, w)), vm = keep(mx_matmul(v, m)), mv = keep(mx_matmul(m, v));
        vb = keep(mx_matmul(v, b)), bv = keep(mx_matmul(b, v));
    }
    evaluate();
    assert_int_equal(vw->ndim, 0);
    assert_int_equal(vm->ndim, 1);
    assert_int_equal(mv->ndim, 1);
    assert_int_equal(vb->ndim, 2);
    assert_int_equal(dim(bv, 0), 2);
    double dot = 0;
    for (int i = 0; i < 3; i++) dot += __real__(value(v, i) * value(w, i));
    assert_true(near(dot, value(vw, 0), 1e-14));
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < 3; i++) {
            double row = 0, column = 0, batch_row = 0, batch_column = 0;
            for (int k = 0; k < 3; k++) {
                row += __real__(value(v, k) * value(m, k * 3 + i));
                column += __real__(value(m, i * 3 + k) * value(v, k));
                batch_row += __real__(value(v, k) * value(b, e * 9 + k * 3 + i));
                batch_column += __real__(value(b, e * 9 + i * 3 + k) * value(v, k));
            }
            assert_true(near(row, value(vm, i), 1e-14));
            assert_true(near(column, value(mv, i), 1e-14));
            assert_true(near(batch_row, value(vb, e * 3 + i), 1e-14));
            assert_true(near(batch_column, value(bv, e * 3 + i), 1e-14));
        }
}

static void types_meet(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx i = random_array(DT_int32, SHAPE(2, 2)), h = random_array(DT_float16, SHAPE(2, 2));
    mx bf = random_array(DT_bfloat16, SHAPE(2, 2)), d = random_array(DT_float64, SHAPE(2, 2));
    assert_int_equal(mx_matmul(i, h)->dtype, DT_float16);
    assert_int_equal(mx_matmul(bf, h)->dtype, DT_float32);
    assert_int_equal(mx_matmul(d, h)->dtype, DT_float64);
    assert_int_equal(mx_matmul(i, i)->dtype, DT_int32);
    assert_int_equal(mx_addmm(i, i, i, 1, 1)->dtype, DT_float32);
    assert_int_equal(mx_addmm(d, h, h, 1, 1)->dtype, DT_float64);
    assert_int_equal(mx_addmm(h, i, h, 1, 1)->dtype, DT_float16);
}

/* Matrices far larger than caches and blocks, through the graph, against a few rows and columns. */
static void large(void **state)
{
    (void)state;
    mx a, b, y;
    {
        MX_SCOPE(NULL);
        a = keep_wide(random_array(DT_float32, SHAPE(2, 130, 700))),
        b = keep_wide(random_array(DT_float32, SHAPE(700, 520)));
        y = keep_wide(mx_matmul(mx_astype(a, DT_float32), mx_astype(b, DT_float32)));
    }
    evaluate();
    for (int64_t i = 0; i < y->size; i += 977) assert_true(near(reference(a, b, y, i), value(y, i), 1e-4));
}

/* ---- addmm */

static void adds(void **state)
{
    (void)state;
    static const struct {
        struct pair p;
        int nc, c[5];
    } cases[] = {
        { { 2, { 2, 3 }, 2, { 3, 4 }, 2, { 2, 4 } }, 2, { 2, 4 } },
        { { 2, { 2, 3 }, 2, { 3, 4 }, 2, { 2, 4 } }, 1, { 4 } },
        { { 2, { 2, 3 }, 2, { 3, 4 }, 2, { 2, 4 } }, 2, { 2, 1 } },
        { { 2, { 2, 3 }, 2, { 3, 4 }, 2, { 2, 4 } }, 0, { 0 } },
        { { 3, { 5, 2, 3 }, 2, { 3, 4 }, 3, { 5, 2, 4 } }, 1, { 4 } },
        { { 3, { 5, 2, 3 }, 2, { 3, 4 }, 3, { 5, 2, 4 } }, 3, { 5, 2, 4 } },
        { { 3, { 5, 2, 3 }, 2, { 3, 4 }, 3, { 5, 2, 4 } }, 3, { 5, 2, 1 } },
        { { 3, { 5, 2, 3 }, 2, { 3, 4 }, 3, { 5, 2, 4 } }, 3, { 1, 1, 4 } },
        { { 3, { 5, 2, 3 }, 2, { 3, 4 }, 3, { 5, 2, 4 } }, 2, { 2, 4 } },
        { { 3, { 5, 2, 3 }, 2, { 3, 4 }, 3, { 5, 2, 4 } }, 3, { 5, 1, 4 } },
        { { 4, { 2, 5, 2, 3 }, 2, { 3, 4 }, 4, { 2, 5, 2, 4 } }, 3, { 1, 1, 1 } },
        { { 3, { 5, 2, 3 }, 3, { 1, 3, 4 }, 3, { 5, 2, 4 } }, 2, { 2, 4 } },
        { { 2, { 2, 0 }, 2, { 0, 4 }, 2, { 2, 4 } }, 1, { 4 } },
        { { 3, { 1, 70, 300 }, 2, { 300, 90 }, 3, { 1, 70, 90 } }, 1, { 90 } },
    };
    static const enum dtype types[] = { DT_float32, DT_float64, DT_complex64, DT_float16, DT_bfloat16 };
    for (size_t s = 0; s < sizeof types / sizeof *types; s++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            enum dtype t = types[s];
            const struct pair *p = &cases[i].p;
            mx a, b, c, y;
            {
                MX_SCOPE(NULL);
                a = laid_out(t, (int)(i % 3), p->na, p->a), b = laid_out(t, (int)(i / 3 % 3), p->nb, p->b);
                c = random_array(t, cases[i].nc, cases[i].c);
                y = keep_wide(mx_addmm(c, a, b, 0.75, -1.5));
                c = keep_wide(mx_broadcast_to(c, p->ny, p->y));
                a = keep_wide(a), b = keep_wide(b);
            }
            assert_int_equal(y->ndim, p->ny);
            assert_memory_equal(y->shape, p->y, (size_t)p->ny * sizeof(int));
            evaluate();
            for (int64_t j = 0; j < y->size; j++)
                if (!near(0.75 * reference(a, b, y, j) - 1.5 * value(c, j), value(y, j), tolerance(t)))
                    fail_msg("%s case %zu: element %ld", dtype_name(t), i, (long)j);
            while (kept.n) mx_drop(&kept.v[--kept.n]);
        }
}

static void adds_to_vectors(void **state)
{
    (void)state;
    mx v, m, c, y, z, s;
    {
        MX_SCOPE(NULL);
        v = keep(random_array(DT_float64, SHAPE(3))), m = keep(random_array(DT_float64, SHAPE(3, 3)));
        c = keep(random_array(DT_float64, SHAPE(3)));
        y = keep(mx_addmm(c, v, m, 1. / 3, 1. / 7)), z = keep(mx_addmm(c, m, v, 1. / 3, 1. / 7));
        s = keep(mx_addmm(array_of_double(2, DT_float64), v, v, 1, 1));
    }
    evaluate();
    assert_int_equal(y->ndim, 1);
    assert_int_equal(z->ndim, 1);
    assert_int_equal(s->ndim, 0);
    double dot = 2;
    for (int i = 0; i < 3; i++) {
        double row = 0, column = 0;
        for (int k = 0; k < 3; k++) {
            row += __real__(value(v, k) * value(m, k * 3 + i));
            column += __real__(value(m, i * 3 + k) * value(v, k));
        }
        dot += __real__(value(v, i) * value(v, i));
        assert_true(near(row / 3 + value(c, i) / 7, value(y, i), 1e-14)); /* alpha and beta in double */
        assert_true(near(column / 3 + value(c, i) / 7, value(z, i), 1e-14));
    }
    assert_true(near(dot, value(s, 0), 1e-14));
}

/* ---- errors */

static void fails(mx x, const char *message)
{
    assert_true(is_nil(x));
    assert_int_equal(mx_error_kind(), MX_VALUE);
    if (strcmp(mx_error_message(), message))
        fail_msg("\"%s\", not \"%s\"", mx_error_message(), message);
    mx_error_clear();
}

static void errors(void **state)
{
    (void)state;
    MX_SCOPE(NULL);
    mx s = array_of_double(1, DT_float32), v = random_array(DT_float32, SHAPE(3)),
       m = random_array(DT_float32, SHAPE(2, 3));
    mx b = random_array(DT_float32, SHAPE(2, 2, 3)), c = random_array(DT_float32, SHAPE(4, 3, 2));
    fails(mx_matmul(s, m), "[matmul] expected operands of at least one dimension, got shapes () and (2,3)");
    fails(mx_matmul(m, s), "[matmul] expected operands of at least one dimension, got shapes (2,3) and ()");
    fails(mx_matmul(m, m), "[matmul] expected the last dimension of the first operand to equal the "
                           "second to last of the "
                           "second, got shapes (2,3) and (2,3)");
    fails(mx_matmul(b, random_array(DT_float32, SHAPE(2))),
          "[matmul] expected the last dimension of the first operand to equal the one of the "
          "second, got shapes (2,2,3) "
          "and (2,)");
    fails(mx_matmul(b, c), "[matmul] expected batch dimensions that broadcast, got shapes (2,2,3) and (4,3,2)");
    fails(mx_addmm(s, m, m, 1, 1),
          "[addmm] expected the last dimension of the first operand to equal the second to last "
          "of the second, got shapes (2,3) and (2,3)");
    fails(mx_addmm(v, m, mx_swapaxes(m, 0, 1), 1, 1),
          "[addmm] expected a first operand that broadcasts to the product's shape (2,2), got (3,)");
    fails(mx_addmm(v, v, v, 1, 1),
          "[addmm] expected a first operand that broadcasts to the product's shape (), got (3,)");
    assert_true(is_nil(mx_matmul(MX_NIL, m)));
    assert_true(is_nil(mx_matmul(m, MX_NIL)));
    assert_true(is_nil(mx_addmm(MX_NIL, m, m, 1, 1)));
    assert_false(mx_failed());
}

/* ---- derivatives.  A product is linear in each operand, so differences are derivatives. */

struct fn {
    struct closure closure;
    bool add;
};
static int call_fn(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    bool add = ((struct fn *)self)->add;
    assert_int_equal(n, add ? 3 : 2);
    return list_push(out, add ? mx_addmm(x[2], x[0], x[1], 0.75, -1.5) : mx_matmul(x[0], x[1]));
}
static mx apply(bool add, const mx x[]) { return add ? mx_addmm(x[2], x[0], x[1], 0.75, -1.5) : mx_matmul(x[0], x[1]); }

/* Re <conj(a), b> of kept arrays */
static double inner(mx a, mx b)
{
    double sum = 0;
    assert_int_equal(a->size, b->size);
    for (int64_t i = 0; i < a->size; i++) {
        double _Complex u = value(a, i), v = value(b, i);
        sum += __real__ u * __real__ v + __imag__ u * __imag__ v;
    }
    return sum;
}

static void differentiate(enum dtype t, bool add, int na, const int *a, int nb, const int *b, int nc, const int *c)
{
    struct fn f = { { { .refs = 1 }, call_fn }, add };
    int n = add ? 3 : 2, nd[3] = { na, nb, nc };
    const int *shape[3] = { a, b, c };
    mx x[3] = { NULL }, step[3] = { NULL }, ct, change[3], both;
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < n; i++) {
            x[i] = keep(random_array(t, nd[i], shape[i]));
            step[i] = keep(random_array(t, nd[i], shape[i]));
        }
        mx y = apply(add, x);
        ct = keep(random_array(t, y->ndim, y->shape));
        for (int i = 0; i < n; i++) {
            mx moved[3] = { x[0], x[1], x[2] };
            moved[i] = mx_add(x[i], step[i]);
            change[i] = keep(mx_subtract(apply(add, moved), y));
        }
        both = mx_add(change[0], change[1]);
        both = keep(add ? mx_add(both, change[2]) : both);
    }
    struct mx_list y = { 0 }, dx = { 0 }, y2 = { 0 }, dy = { 0 };
    assert_int_equal(mx_vjp(&f.closure, n, x, 1, &ct, &y, &dx), 0);
    assert_int_equal(mx_jvp(&f.closure, n, x, n, step, &y2, &dy), 0);
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < n; i++) keep(dx.v[i].it);
        keep(dy.v[0].it);
    }
    evaluate();
    double close = t == DT_float64 ? 1e-12 : 1e-4;
    for (int i = 0; i < n; i++) {
        assert_true(same_shape(dx.v[i].it, x[i]));
        assert_int_equal(dx.v[i].it->dtype, t);
        if (!near(inner(ct, change[i]), inner(dx.v[i].it, step[i]), close))
            fail_msg("%s vjp by operand %d: %g, not %g", dtype_name(t), i, inner(dx.v[i].it, step[i]),
                     inner(ct, change[i]));
    }
    assert_true(same_shape(dy.v[0].it, both));
    for (int64_t i = 0; i < both->size; i++) assert_true(near(value(both, i), value(dy.v[0].it, i), close));
    list_clear(&y), list_clear(&dx), list_clear(&y2), list_clear(&dy);
    while (kept.n) mx_drop(&kept.v[--kept.n]);
}

static void derivatives(void **state)
{
    (void)state;
    for (int i = 0; i < PAIRS; i++)
        for (int c = 0; c < 2; c++)
            differentiate(c ? DT_complex64 : DT_float64, false, pairs[i].na, pairs[i].a, pairs[i].nb, pairs[i].b, 0,
                          NULL);
    for (int c = 0; c < 2; c++) {
        enum dtype t = c ? DT_complex64 : DT_float64;
        differentiate(t, false, SHAPE(3), SHAPE(3), 0, NULL);
        differentiate(t, false, SHAPE(3), SHAPE(2, 3, 4), 0, NULL);
        differentiate(t, false, SHAPE(2, 4, 3), SHAPE(3), 0, NULL);
        differentiate(t, true, SHAPE(2, 3), SHAPE(3, 4), SHAPE(4));
        differentiate(t, true, SHAPE(2, 3), SHAPE(3, 4), SHAPE(2, 1));
        differentiate(t, true, SHAPE(5, 2, 3), SHAPE(3, 4), SHAPE(4));
        differentiate(t, true, SHAPE(5, 2, 3), SHAPE(3, 4), SHAPE(5, 1, 4));
        differentiate(t, true, SHAPE(5, 2, 3), SHAPE(5, 3, 4), SHAPE(5, 2, 4));
        differentiate(t, true, SHAPE(3), SHAPE(3, 4), SHAPE(4));
        differentiate(t, true, SHAPE(2, 3), SHAPE(3), SHAPE(1));
    }
}

/* ---- vmap: the rule against one product after another */

static mx nth(mx x, int axis, int i)
{
    if (axis < 0)
        return x;
    int start[MX_MAX_NDIM] = { 0 }, stop[MX_MAX_NDIM], step[MX_MAX_NDIM];
    for (int d = 0; d < x->ndim; d++) stop[d] = x->shape[d], step[d] = 1;
    start[axis] = i, stop[axis] = i + 1;
    return mx_squeeze(mx_slice(x, start, stop, step), &axis, 1);
}

static void batched(void **state)
{
    (void)state;
    static const struct addmm_args scale = { 0.75, -1.5 };
    enum { B = 3 };
    for (int add = 0; add < 2; add++)
        for (int batch = 0; batch < 2; batch++)
            for (int where = 1; where < (add ? 64 : 16); where++) {
                /* two bits an operand: batched along none, the first, the middle or the last
                 * axis */
                int axis[3] = { -1, -1, -1 };
                mx whole, parts[B];
                {
                    MX_SCOPE(NULL);
                    mx x[3], y;
                    int sizes[3][3] = { { 4, 2, 3 }, { 4, 3, 5 }, { 4, 2, 5 } }, yaxis;
                    for (int i = 0; i < 2 + add; i++) {
                        int n = 2 + batch, shape[4], w = where >> 2 * i & 3;
                        memcpy(shape, sizes[i] + 1 - batch, (size_t)n * sizeof *shape);
                        if (w) {
                            axis[i] = w == 1 ? 0 : w == 2 ? 1 : n;
                            memmove(shape + axis[i] + 1, shape + axis[i], (size_t)(n - axis[i]) * sizeof *shape);
                            shape[axis[i]] = B;
                            n++;
                        }
                        x[i] = random_array(DT_float64, n, shape);
                    }
                    struct call c = { .op = add ? &op_addmm : &op_matmul,
                                      .args = add ? &scale : NULL,
                                      .nin = 2 + add,
                                      .nout = 1,
                                      .x = x };
                    c.op->vmap(&c, axis, &y, &yaxis);
                    whole = keep(mx_moveaxis(y, yaxis, 0));
                    for (int i = 0; i < B; i++) {
                        mx one[3] = { nth(x[0], axis[0], i), nth(x[1], axis[1], i),
                                      add ? nth(x[2], axis[2], i) : NULL };
                        parts[i] = keep(apply(add, one));
                    }
                }
                evaluate();
                assert_int_equal(whole->size, B * parts[0]->size);
                assert_int_equal(whole->ndim, parts[0]->ndim + 1);
                for (int i = 0; i < B; i++)
                    for (int64_t j = 0; j < parts[i]->size; j++)
                        assert_true(near(value(parts[i], j), value(whole, i * parts[i]->size + j), 1e-13));
                while (kept.n) mx_drop(&kept.v[--kept.n]);
            }
}

/* Each allocation of a product may fail: one error, nothing lost. */
static void failing_allocations(void **state)
{
    (void)state;
    mx a, b;
    {
        MX_SCOPE(NULL);
        a = keep(random_array(DT_float16, SHAPE(2, 40, 50))), b = keep(random_array(DT_float16, SHAPE(50, 60)));
    }
    evaluate();
    bool done = false;
    long live = array_live_count();
    for (int n = 1; n < 200 && !done; n++) {
        mx_own y = { 0 };
        memory_clear_cache();
        mx_test_fail_at(n);
        {
            MX_SCOPE(NULL);
            mx r = mx_addmm(array_of_double(1, DT_float16), a, b, 2, 1);
            if (!is_nil(r))
                mx_keep(&y, r);
        }
        int failed = !y.it || mx_eval(1, &y.it);
        mx_test_fail_at(0);
        assert_int_equal(failed, mx_failed());
        if (failed)
            assert_int_equal(mx_error_kind(), MX_MEMORY);
        done = !failed;
        mx_error_clear();
        mx_drop(&y);
        assert_int_equal(array_live_count(), live);
    }
    assert_true(done);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, forget)
    const struct CMUnitTest tests[] = {
        TEST(values),      TEST(integers_wrap), TEST(one_dimension),       TEST(types_meet),
        TEST(large),       TEST(adds),          TEST(adds_to_vectors),     TEST(errors),
        TEST(derivatives), TEST(batched),       TEST(failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
