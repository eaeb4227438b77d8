/* Every row of the element-wise table, in every type, through the graph: values against long
 * double, any layout of the operands against a contiguous one, operands that may be written over,
 * derivatives against differences of the reference and the two modes of it against each other, a
 * batch against its members.
 *
 * With --worst: the largest error of each row and type, in units in the last place. */
#include <complex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/scope.h"
#include "core/shape.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/numbers.h"
#include "support/reference.h"
#include "transform/transform.h"

struct row {
    const char *name;
    int n; /* operands */
    enum dtype_set set;
    uint32_t traits;
    const struct op *op;
    mx (*one)(mx);
    mx (*two)(mx, mx);
    real (*r1)(real);
    real (*r2)(real, real);
    cplx (*c1)(cplx);
    cplx (*c2)(cplx, cplx);
    whole (*i)(whole, whole, int);
    real (*scale1)(real);
    real (*scale2)(real, real);
};
static const struct row rows[] = {
#define UNARY(name_, label, set_, traits_, ...) \
    { .name = #name_,                           \
      .n = 1,                                   \
      .set = set_,                              \
      .traits = traits_,                        \
      .op = &op_##name_,                        \
      .one = mx_##name_,                        \
      .r1 = r_##name_,                          \
      .c1 = c_##name_,                          \
      .scale1 = scale_##name_,                  \
      .i = i_##name_ },
#define BINARY(name_, label, set_, traits_, ...) \
    { .name = #name_,                            \
      .n = 2,                                    \
      .set = set_,                               \
      .traits = traits_,                         \
      .op = &op_##name_,                         \
      .two = mx_##name_,                         \
      .r2 = r_##name_,                           \
      .c2 = c_##name_,                           \
      .scale2 = scale_##name_,                   \
      .i = i_##name_ },
#include "ops/ops.def"
};
enum { ROWS = sizeof rows / sizeof *rows };

static int complaints;
static bool tell_worst;
#define COMPLAIN(...)                   \
    do {                                \
        if (complaints++ < 60)          \
            print_message(__VA_ARGS__); \
    } while (0)

/* ---- arrays */

static void random_array(mx_own *slot, enum dtype t, int ndim, const int *shape)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    void *p = malloc((size_t)n * dtype_size(t) + 1);
    fill_random(t, p, (size_t)n);
    MX_SCOPE(NULL);
    mx_keep(slot, array_of_data(t, ndim, shape, p));
    free(p);
}

static mx build(const struct row *r, mx a, mx b) { return r->n == 1 ? r->one(a) : r->two(a, b); }

static bool evaluate(mx_own *y)
{
    if (mx_failed() || is_nil(y->it) || mx_eval(1, &y->it)) {
        COMPLAIN("%s\n", mx_error_message());
        mx_error_clear();
        return false;
    }
    return true;
}

static bool apply(const struct row *r, mx a, mx b, mx_own *y)
{
    {
        MX_SCOPE(NULL);
        mx_keep(y, build(r, a, b));
    }
    return evaluate(y);
}

static const char *element(mx x, int64_t i) { return (const char *)array_host(x) + i * (int64_t)itemsize(x); }

static const char *show(mx x, int64_t i)
{
    static char ring[4][80];
    static int turn;
    char *s = ring[turn++ % 4];
    cplx z = complex_of(x->dtype, element(x, i));
    if (x->dtype == DT_complex64)
        snprintf(s, 80, "%.9Lg%+.9Lgi", creall(z), cimagl(z));
    else
        snprintf(s, 80, "%.20Lg", creall(z));
    return s;
}

/* ---- what types a row computes in, as docs say */

static bool takes(const struct row *r, enum dtype t)
{
    char kind = dtype_kind(t);
    return r->set == REAL || r->set == FLOAT        ? kind != 'c'
           : r->set == INTEGER || r->set == SHIFTED ? kind != 'f' && kind != 'c'
                                                    : true;
}

static enum dtype computes_in(const struct row *r, enum dtype t)
{
    bool inexact = dtype_kind(t) == 'f' || dtype_kind(t) == 'c';
    if (r->set == BOOL)
        return DT_bool_;
    if (r->set == NUMERIC && t == DT_bool_)
        return DT_int32;
    if (r->set == SHIFTED && t == DT_bool_)
        return DT_uint8;
    return (r->set == INEXACT || r->set == FLOAT) && !inexact ? DT_float32 : t;
}

static enum dtype gives(const struct row *r, enum dtype computed)
{
    return r->traits & GIVES_BOOL                               ? DT_bool_
           : r->traits & GIVES_REAL && computed == DT_complex64 ? DT_float32
                                                                : computed;
}

/* ---- values */

/* Whether reference.h says what the row means where it computes in t. */
static bool has_reference(const struct row *r, enum dtype t)
{
    return t == DT_complex64 ? r->c1 || r->c2 : dtype_is_inexact(t) ? r->r1 || r->r2 : r->i != NULL;
}

/* One rounding, or a few ulp.  Half types compute in float32, which adds next to nothing to their
 * one rounding. */
static real allowed(const struct row *r, enum dtype t)
{
    static const char *const exact[] = { "abs",  "negative", "sign",     "square",    "sqrt",    "floor",
                                         "ceil", "trunc",    "rint",     "conjugate", "real",    "imag",
                                         "add",  "divide",   "subtract", "multiply",  "maximum", "minimum" };
    if (dtype_is_half(t))
        return 0.51L;
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++)
        if (!strcmp(r->name, exact[i]))
            return t == DT_complex64 ? 1.5L : 0.501L;
    return !strcmp(r->name, "silu_slope") ? 6 : 4; /* the square of an exponential: its error counts twice */
}

/* In units in the last place of the complex number's size.  Not asked where a part of it leaves the
 * normal numbers, or does on the way. */
static real complex_error(cplx v, cplx x)
{
    real size = cabsl(x);
    if (!(size < 1e37L && (size == 0 || size > 1e-37L)))
        return 0;
    return isnan(creall(v)) || isnan(cimagl(v)) ? INFINITY : cabsl(v - x) / ulp_of(DT_float32, size);
}

static bool ordinary(cplx z)
{
    real x = fabsl(creall(z)), y = fabsl(cimagl(z));
    return x < 1e18L && y < 1e18L && (x == 0 || x > 1e-18L) && (y == 0 || y > 1e-18L);
}

static real integer_error(const struct row *r, mx y, int64_t i, mx a, mx b, enum dtype t)
{
    int bits = t == DT_bool_ ? 1 : (int)dtype_size(t) * 8;
    whole u = (whole)value_of(a->dtype, element(a, i)), v = b ? (whole)value_of(b->dtype, element(b, i)) : 0;
    if (t == DT_bool_)
        u = u != 0, v = v != 0;
    if (dtype_is_inexact(a->dtype)) /* a row of bool asked about floats */
        u = value_of(a->dtype, element(a, i)) != 0, v = b && value_of(b->dtype, element(b, i)) != 0;
    if (a->dtype == DT_complex64)
        u = complex_of(a->dtype, element(a, i)) != 0, v = b && complex_of(b->dtype, element(b, i)) != 0;
    uint64_t expected = (uint64_t)r->i(u, v, bits), got = 0;
    memcpy(&got, element(y, i), itemsize(y));
    if (y->dtype == DT_bool_)
        return got == (expected & 1) ? 0 : INFINITY;
    return !memcmp(&got, &expected, itemsize(y)) ? 0 : INFINITY;
}

static real one_error(const struct row *r, mx y, int64_t i, mx a, mx b, enum dtype t)
{
    if (t == DT_complex64) {
        cplx u = complex_of(t, element(a, i)), v = b ? complex_of(t, element(b, i)) : 0;
        if (!ordinary(u) || !ordinary(v))
            return 0;
        bool angle = !strcmp(r->name, "power") || !strcmp(r->name, "logaddexp");
        if (angle && (cabsl(u) > 100 || cabsl(v) > 100)) /* the angle of e^v is lost */
            return 0;
        return complex_error(complex_of(y->dtype, element(y, i)), r->c1 ? r->c1(u) : r->c2(u, v));
    }
    if (!dtype_is_inexact(t))
        return integer_error(r, y, i, a, b, t);
    real u = value_of(a->dtype, element(a, i)), v = b ? value_of(b->dtype, element(b, i)) : 0;
    if (!dtype_is_inexact(a->dtype)) /* integers become float32 */
        u = (float)u, v = (float)v;
    real x = r->r1 ? r->r1(u) : r->r2(u, v), got = value_of(y->dtype, element(y, i));
    if (y->dtype == DT_bool_)
        return got == x ? 0 : INFINITY;
    real scale = r->scale1 ? r->scale1(u) : r->scale2 ? r->scale2(u, v) : 0;
    if (scale > fabsl(x))
        return fabsl(got - x) / ulp_of(t, scale);
    return error_in_ulp(t, got, x);
}

static void values_of_row(const struct row *r, enum dtype t)
{
    enum { N = 2000 };
    mx_own a = { 0 }, b = { 0 }, y = { 0 };
    random_array(&a, t, 1, (int[]){ N });
    if (r->n == 2)
        random_array(&b, t, 1, (int[]){ N });
    if (!takes(r, t)) {
        MX_SCOPE(NULL);
        mx_keep(&y, build(r, a.it, b.it));
        if (!mx_failed() || !strstr(mx_error_message(), r->name))
            COMPLAIN("%s takes %s\n", r->name, dtype_name(t));
        mx_error_clear();
    } else if (apply(r, a.it, b.it, &y)) {
        enum dtype computed = computes_in(r, t);
        real worst = 0;
        if (y.it->dtype != gives(r, computed) || y.it->size != N)
            COMPLAIN("%s of %s gives %s of shape %s\n", r->name, dtype_name(t), dtype_name(y.it->dtype),
                     shape_of(y.it));
        else if (!has_reference(r, computed)) {
            if (computed == t)
                print_message("%s of %s has no reference\n", r->name, dtype_name(t));
        } else
            for (int64_t i = 0; i < N; i++) {
                real e = one_error(r, y.it, i, a.it, b.it, computed);
                worst = e > worst ? e : worst;
                if (e > allowed(r, computed))
                    COMPLAIN("%s %s (%s%s%s) = %s, %.3Lg ulp off\n", r->name, dtype_name(t), show(a.it, i),
                             b.it ? ", " : "", b.it ? show(b.it, i) : "", show(y.it, i), e);
            }
        if (tell_worst)
            printf("%-16s %-10s %.3Lf\n", r->name, dtype_name(t), worst);
    }
    mx_drop(&a);
    mx_drop(&b);
    mx_drop(&y);
}

static void values(void **state)
{
    (void)state;
    complaints = 0;
    for (int k = 0; k < ROWS; k++)
        for (int t = 0; t < DT_COUNT; t++) values_of_row(&rows[k], t);
    assert_int_equal(complaints, 0);
}

/* ---- layouts: the same operand in memory in another way */

enum { LAYOUTS = 9 };

/* An array of shape (p, q) or (2, p, q/2...) whose memory is laid out in the way of that number. */
static mx laid_out(int layout, enum dtype t, int p, int q)
{
    int n = p * q * 2 + 2;
    void *data = malloc((size_t)n * dtype_size(t));
    fill_random(t, data, (size_t)n);
    mx x = MX_NIL;
    switch (layout) {
    case 0: x = array_of_data(t, 2, (int[]){ p, q }, data); break;
    case 1: x = mx_transpose(array_of_data(t, 2, (int[]){ q, p }, data), NULL, 0); break;
    case 2: /* backwards, every other column */
        x = mx_slice(array_of_data(t, 2, (int[]){ p, 2 * q }, data), (int[]){ p - 1, 0 }, (int[]){ -p - 1, 2 * q },
                     (int[]){ -1, 2 });
        break;
    case 3: x = mx_broadcast_to(array_of_data(t, 2, (int[]){ 1, q }, data), 2, (int[]){ p, q }); break;
    case 4: x = mx_broadcast_to(array_of_data(t, 2, (int[]){ p, 1 }, data), 2, (int[]){ p, q }); break;
    case 5: x = mx_broadcast_to(array_of_data(t, 0, NULL, data), 2, (int[]){ p, q }); break;
    case 6: /* rows with a gap between them, at an odd offset */
        x = mx_slice(array_of_data(t, 2, (int[]){ p, q + 1 }, data), (int[]){ 0, 1 }, (int[]){ p, q + 1 },
                     (int[]){ 1, 1 });
        break;
    case 7: /* columns backwards */
        x = mx_slice(array_of_data(t, 2, (int[]){ p, q }, data), (int[]){ 0, q - 1 }, (int[]){ p, -q - 1 },
                     (int[]){ 1, -1 });
        break;
    case 8: /* three dimensions permuted */
        x = mx_reshape(mx_transpose(array_of_data(t, 3, (int[]){ q, 2, p }, data), (int[]){ 1, 2, 0 }, 3), 2,
                       (int[]){ 2 * p, q });
        x = mx_slice(x, (int[]){ 0, 0 }, (int[]){ p, q }, (int[]){ 1, 1 });
        break;
    }
    free(data);
    return x;
}

/* The same numbers, row-major and in memory of their own. */
static bool plain(mx x, mx_own *y)
{
    {
        MX_SCOPE(NULL);
        mx_keep(y, mx_contiguous(x, false));
    }
    return evaluate(y);
}

static bool same_bytes(mx a, mx b)
{
    if (!same_shape(a, b) || a->dtype != b->dtype)
        return false;
    for (int64_t i = 0; i < a->size; i++)
        if (memcmp(element(a, i), element(b, i), itemsize(a))) {
            cplx u = complex_of(a->dtype, element(a, i)), v = complex_of(b->dtype, element(b, i));
            if (!((isnan(creall(u)) || isnan(cimagl(u))) && (isnan(creall(v)) || isnan(cimagl(v)))))
                return false;
        }
    return true;
}

static void layouts_of_row(const struct row *r, enum dtype t, int p, int q)
{
    for (int la = 0; la < LAYOUTS; la++)
        for (int k = 0; k < r->n; k++) {
            int lb = k ? (2 * la + 5) % LAYOUTS : 0; /* all of them, among them la itself */
            mx_own a = { 0 }, b = { 0 }, pa = { 0 }, pb = { 0 }, y = { 0 }, z = { 0 };
            {
                MX_SCOPE(NULL);
                mx_keep(&a, laid_out(la, t, p, q));
                mx_keep(&b, laid_out(lb, t, p, q));
            }
            if (evaluate(&a) && evaluate(&b) && plain(a.it, &pa) && plain(b.it, &pb) && apply(r, a.it, b.it, &y) &&
                apply(r, pa.it, pb.it, &z) && !same_bytes(y.it, z.it))
                COMPLAIN("%s %s (%d,%d): layouts %d and %d give something else\n", r->name, dtype_name(t), p, q, la,
                         lb);
            mx_drop(&a), mx_drop(&b), mx_drop(&pa), mx_drop(&pb), mx_drop(&y), mx_drop(&z);
        }
}

static const struct row *row_named(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

static void layouts(void **state)
{
    (void)state;
    complaints = 0;
    for (int k = 0; k < ROWS; k++)
        for (int t = 0; t < DT_COUNT; t++)
            if (takes(&rows[k], t))
                layouts_of_row(&rows[k], t, 3, 7);
    /* Long and short rows, past the sizes that are tiled and that are split over threads. */
    static const int sizes[][2] = { { 300, 301 }, { 5, 20011 }, { 30011, 3 }, { 700, 130 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < DT_COUNT; t++) {
            if (t != DT_bool_ && t != DT_int16 && t != DT_float32 && t != DT_float16 && t != DT_complex64)
                continue;
            layouts_of_row(row_named("subtract"), t, sizes[i][0], sizes[i][1]);
            layouts_of_row(row_named("less"), t, sizes[i][0], sizes[i][1]);
            layouts_of_row(row_named("square"), t, sizes[i][0], sizes[i][1]);
        }
    assert_int_equal(complaints, 0);
}

/* where and astype are no rows of the table but run as such. */
static void layouts_of_select(void **state)
{
    (void)state;
    complaints = 0;
    static const enum dtype types[] = { DT_int8, DT_bfloat16, DT_float32, DT_complex64 };
    static const int sizes[][2] = { { 3, 7 }, { 200, 201 }, { 20011, 3 } };
    for (int i = 0; i < 4 * 3 * LAYOUTS * LAYOUTS; i++) {
        enum dtype t = types[i % 4];
        int p = sizes[i / 4 % 3][0], q = sizes[i / 4 % 3][1], la = i / 12 % LAYOUTS, lb = i / 12 / LAYOUTS;
        mx_own c = { 0 }, a = { 0 }, b = { 0 }, pc = { 0 }, pa = { 0 }, pb = { 0 }, y = { 0 };
        {
            MX_SCOPE(NULL);
            mx_keep(&c, laid_out((la + lb) % LAYOUTS, DT_bool_, p, q));
            mx_keep(&a, laid_out(la, t, p, q));
            mx_keep(&b, laid_out(lb, t, p, q));
            mx_keep(&y, mx_where(c.it, a.it, b.it));
        }
        bool wrong = false;
        assert_true(evaluate(&y) && plain(c.it, &pc) && plain(a.it, &pa) && plain(b.it, &pb));
        for (int64_t k = 0; k < y.it->size; k++)
            wrong |= memcmp(element(y.it, k), element(*element(pc.it, k) ? pa.it : pb.it, k), itemsize(y.it));
        if (wrong)
            COMPLAIN("where of %s (%d,%d), layouts %d and %d\n", dtype_name(t), p, q, la, lb);
        mx_drop(&c), mx_drop(&a), mx_drop(&b), mx_drop(&pc), mx_drop(&pa), mx_drop(&pb), mx_drop(&y);
    }
    assert_int_equal(complaints, 0);
}

static void layouts_of_casts(void **state)
{
    (void)state;
    complaints = 0;
    static const int sizes[][2] = { { 3, 7 }, { 150, 151 }, { 20011, 3 } };
    for (int from = 0; from < DT_COUNT; from++)
        for (int to = 0; to < DT_COUNT; to++)
            for (int i = 0; i < (from % 3 || to % 3 ? 1 : 3) * LAYOUTS; i++) {
                int p = sizes[i / LAYOUTS][0], q = sizes[i / LAYOUTS][1];
                mx_own a = { 0 }, b = { 0 }, y = { 0 }, z = { 0 };
                {
                    MX_SCOPE(NULL);
                    mx_keep(&a, laid_out(i % LAYOUTS, from, p, q));
                    mx_keep(&y, mx_astype(a.it, to));
                }
                assert_true(plain(a.it, &b));
                {
                    MX_SCOPE(NULL);
                    mx_keep(&z, mx_contiguous(mx_astype(b.it, to), false));
                }
                assert_true(evaluate(&y) && evaluate(&z) && plain(y.it, &b));
                if (!same_bytes(b.it, z.it))
                    COMPLAIN("%s to %s (%d,%d), layout %d\n", dtype_name(from), dtype_name(to), p, q, i % LAYOUTS);
                mx_drop(&a), mx_drop(&b), mx_drop(&y), mx_drop(&z);
            }
    assert_int_equal(complaints, 0);
}

/* Copies: contiguous() of every layout, against its elements one by one. */
static void copies(void **state)
{
    (void)state;
    static const int sizes[][2] = { { 3, 7 }, { 1, 1 }, { 64, 64 }, { 131, 257 }, { 3, 5003 }, { 9001, 4 } };
    static const enum dtype types[] = { DT_uint8, DT_float16, DT_int32, DT_complex64 };
    for (int i = 0; i < 6 * 4 * LAYOUTS; i++) {
        enum dtype t = types[i % 4];
        int p = sizes[i / 4 % 6][0], q = sizes[i / 4 % 6][1], wrong = 0;
        mx_own x = { 0 }, y = { 0 };
        {
            MX_SCOPE(NULL);
            mx_keep(&x, laid_out(i / 24, t, p, q));
        }
        assert_true(evaluate(&x) && plain(x.it, &y));
        for (int j = 0; j < p; j++)
            for (int k = 0; k < q; k++)
                wrong += !!memcmp(element(x.it, j * x.it->strides[0] + k * x.it->strides[1]),
                                  element(y.it, (int64_t)j * q + k), itemsize(x.it));
        assert_int_equal(wrong, 0);
        mx_drop(&x), mx_drop(&y);
    }
}

/* ---- no elements, no dimensions */

static void empty_and_scalar(void **state)
{
    (void)state;
    static const int empty[][2] = { { 0, 3 }, { 3, 0 } };
    complaints = 0;
    for (int k = 0; k < ROWS; k++)
        for (int t = 0; t < DT_COUNT; t++) {
            const struct row *r = &rows[k];
            mx_own a = { 0 }, b = { 0 }, y = { 0 };
            if (!takes(r, t))
                continue;
            for (int i = 0; i < 2; i++) {
                random_array(&a, t, 2, empty[i]);
                random_array(&b, t, 2, empty[i]);
                if (apply(r, a.it, b.it, &y) && (y.it->size != 0 || y.it->ndim != 2))
                    COMPLAIN("%s %s: nothing gives something\n", r->name, dtype_name(t));
            }
            random_array(&a, t, 0, NULL);
            random_array(&b, t, 0, NULL);
            if (apply(r, a.it, b.it, &y) && y.it->ndim != 0)
                COMPLAIN("%s %s: a scalar gives shape %s\n", r->name, dtype_name(t), shape_of(y.it));
            else if (has_reference(r, computes_in(r, t)) &&
                     one_error(r, y.it, 0, a.it, r->n == 2 ? b.it : NULL, computes_in(r, t)) > 4)
                COMPLAIN("%s %s of a scalar is wrong\n", r->name, dtype_name(t));
            mx_drop(&a), mx_drop(&b), mx_drop(&y);
        }
    assert_int_equal(complaints, 0);
}

/* ---- memory used again */

/* A copy that nobody else holds, so that its buffer may take the result. */
static mx fresh(mx x) { return mx_where(array_of_int(1, DT_bool_), x, x); }

static void written_over(void **state)
{
    (void)state;
    complaints = 0;
    for (int k = 0; k < ROWS; k++)
        for (int t = 0; t < DT_COUNT; t++) {
            const struct row *r = &rows[k];
            if (!takes(r, t))
                continue;
            for (int which = 0; which < 4; which++) {
                mx_own a = { 0 }, b = { 0 }, y = { 0 }, z = { 0 };
                int n = which & 1 ? 5000 : 50;
                random_array(&a, t, 1, &n);
                random_array(&b, t, 1, &n);
                {
                    MX_SCOPE(NULL);
                    mx u = which & 2 ? a.it : fresh(a.it), v = fresh(b.it);
                    mx_keep(&y, build(r, u, v));
                    mx_keep(&z, build(r, a.it, b.it));
                }
                if (evaluate(&y) && evaluate(&z) && !same_bytes(y.it, z.it))
                    COMPLAIN("%s %s differs over an operand\n", r->name, dtype_name(t));
                mx_drop(&a), mx_drop(&b), mx_drop(&y), mx_drop(&z);
            }
        }
    assert_int_equal(complaints, 0);
}

/* ---- derivatives */

struct of_row {
    struct closure closure;
    const struct row *row;
};
static int call_row(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    MX_SCOPE(NULL);
    return list_push(out, build(((struct of_row *)self)->row, x[0], n > 1 ? x[1] : NULL));
}
static void nothing(struct object *o) { (void)o; }
static struct of_row closure_of(const struct row *r) { return (struct of_row){ { { 1, nothing }, call_row }, r }; }

/* Where a row is smooth, and its slope is of ordinary size. */
static void domain(const struct row *r, int i, double *low, double *high)
{
    static const struct {
        const char *names;
        double low, high;
    } other[] = {
        { " arcsin arccos arctanh erfinv ", -0.9, 0.9 }, { " arccosh ", 1.1, 3 },
        { " sqrt rsqrt log log2 log10 ", 0.1, 3 },       { " log1p ", -0.8, 3 },
        { " floor ceil trunc rint ", 0.55, 0.95 },
    };
    char word[40];
    snprintf(word, sizeof word, " %s ", r->name);
    *low = -1.3, *high = 1.4;
    for (size_t k = 0; k < sizeof other / sizeof *other; k++)
        if (strstr(other[k].names, word))
            *low = other[k].low, *high = other[k].high;
    if (!strcmp(r->name, "power") && i == 0)
        *low = 0.1, *high = 3;
    if (i == 1 && (!strcmp(r->name, "divide") || !strcmp(r->name, "remainder")))
        *low = 0.5, *high = 2;
}

static void smooth_array(mx_own *slot, const struct row *r, int i, enum dtype t, int n)
{
    void *p = malloc((size_t)n * dtype_size(t));
    double low, high;
    domain(r, i, &low, &high);
    for (int k = 0; k < n; k++) {
        store_float(t, (char *)p + (size_t)k * dtype_size(t), uniform(low, high));
        if (t == DT_complex64)
            ((float *)p)[2 * k + 1] = (float)(uniform(0.1, 1) * (k & 1 ? 1 : -1));
    }
    MX_SCOPE(NULL);
    mx_keep(slot, array_of_data(t, 1, &n, p));
    free(p);
}

enum { POINTS = 60 };

/* The row's own value in float64, for differences of a row that has no reference. */
static real own_value(const struct row *r, real u, real v)
{
    mx_own y = { 0 };
    {
        MX_SCOPE(NULL);
        mx_keep(&y, build(r, array_of_data(DT_float64, 0, NULL, &(double){ (double)u }),
                          array_of_data(DT_float64, 0, NULL, &(double){ (double)v })));
    }
    real value = evaluate(&y) ? value_of(y.it->dtype, element(y.it, 0)) : NAN;
    mx_drop(&y);
    return value;
}

static real real_value(const struct row *r, real u, real v)
{
    return r->r1 ? r->r1(u) : r->r2 ? r->r2(u, v) : own_value(r, u, v);
}

/* The derivative in the direction (ta, tb), from the reference. */
static cplx slope(const struct row *r, enum dtype t, real h, cplx a, cplx b, cplx ta, cplx tb)
{
    if (t == DT_complex64)
        return r->c1 ? (r->c1(a + h * ta) - r->c1(a - h * ta)) / (2 * h)
                     : (r->c2(a + h * ta, b + h * tb) - r->c2(a - h * ta, b - h * tb)) / (2 * h);
    real u = creall(a), v = creall(b), du = h * creall(ta), dv = h * creall(tb);
    return (real_value(r, u + du, v + dv) - real_value(r, u - du, v - dv)) / (2 * h);
}

static bool ready(struct mx_list *l)
{
    for (int i = 0; i < l->n; i++)
        if (mx_eval(1, &l->v[i].it))
            return false;
    return true;
}

static cplx at(mx x, int64_t i) { return complex_of(x->dtype, element(x, x->ndim ? i * x->strides[0] : 0)); }

static void derivatives_of_row(const struct row *r, enum dtype t)
{
    mx_own x[2] = { 0 }, tangent[2] = { 0 }, ct = { 0 };
    static const struct row plain_numbers = { .name = "numbers" };
    if (t == DT_complex64 && !has_reference(r, t))
        return;
    struct of_row f = closure_of(r);
    struct mx_list y = { 0 }, dy = { 0 }, dx = { 0 };
    for (int i = 0; i < r->n; i++) {
        smooth_array(&x[i], r, i, t, POINTS);
        smooth_array(&tangent[i], &plain_numbers, 0, t, POINTS);
    }
    enum dtype out = gives(r, t);
    smooth_array(&ct, &plain_numbers, 0, dtype_is_inexact(out) ? out : DT_float32, POINTS);
    mx in[2] = { x[0].it, x[1].it }, tin[2] = { tangent[0].it, tangent[1].it };
    real tolerance = t == DT_float64 ? 1e-8L : dtype_is_half(t) ? 0.06L : 2e-5L;
    if (mx_jvp(&f.closure, r->n, in, r->n, tin, &y, &dy) || !ready(&dy) || dy.n != 1) {
        COMPLAIN("%s %s: jvp: %s\n", r->name, dtype_name(t), mx_error_message());
        mx_error_clear();
    } else if (dtype_is_inexact(out)) {
        int skipped = 0;
        for (int i = 0; i < POINTS; i++) {
            cplx a = at(in[0], i), b = r->n > 1 ? at(in[1], i) : 0;
            cplx ta = at(tin[0], i), tb = r->n > 1 ? at(tin[1], i) : 0;
            cplx s = slope(r, t, 1e-6L, a, b, ta, tb), near = slope(r, t, 3e-7L, a, b, ta, tb);
            if (a == b || cabsl(s - near) > 1e-3L * (1 + cabsl(s))) { /* a corner of max, a jump */
                skipped++;
                continue;
            }
            if (!(cabsl(at(dy.v[0].it, i) - s) <= tolerance * (1 + 4 * cabsl(s))))
                COMPLAIN("%s %s: jvp at %s%s%s is %s, not %Lg%+Lgi\n", r->name, dtype_name(t), show(in[0], i),
                         r->n > 1 ? ", " : "", r->n > 1 ? show(in[1], i) : "", show(dy.v[0].it, i), creall(s),
                         cimagl(s));
        }
        if (skipped > POINTS / 10)
            COMPLAIN("%s %s: %d points skipped\n", r->name, dtype_name(t), skipped);
        list_clear(&y);
        mx ctin[1] = { ct.it };
        if (mx_vjp(&f.closure, r->n, in, 1, ctin, &y, &dx) || !ready(&dx) || dx.n != r->n) {
            COMPLAIN("%s %s: vjp: %s\n", r->name, dtype_name(t), mx_error_message());
            mx_error_clear();
        } else {
            /* <J t, ct> = <t, J' ct> at every point, with Re(conj(a) b) as the product */
            for (int i = 0; i < POINTS; i++) {
                real left = creall(conjl(at(ct.it, i)) * at(dy.v[0].it, i)), right = 0;
                for (int k = 0; k < r->n; k++) right += creall(conjl(at(dx.v[k].it, i)) * at(tin[k], i));
                if (!(fabsl(left - right) <= tolerance * (1 + 8 * fabsl(left))))
                    COMPLAIN("%s %s at %s: <Jt,c> is %Lg, <t,J'c> %Lg\n", r->name, dtype_name(t), show(in[0], i), left,
                             right);
            }
            for (int k = 0; k < r->n; k++)
                if (dx.v[k].it->dtype != t)
                    COMPLAIN("%s %s: gradient of type %s\n", r->name, dtype_name(t), dtype_name(dx.v[k].it->dtype));
        }
    }
    list_clear(&y), list_clear(&dy), list_clear(&dx);
    for (int i = 0; i < 2; i++) mx_drop(&x[i]), mx_drop(&tangent[i]);
    mx_drop(&ct);
}

/* Differentiated as if it were constant, as it is for real numbers. */
static bool is_step(const struct row *r, enum dtype t)
{
    return t == DT_complex64 && (!strcmp(r->name, "sign") || !strcmp(r->name, "floor_divide"));
}

static void derivatives(void **state)
{
    (void)state;
    static const enum dtype types[] = { DT_float64, DT_float32, DT_float16, DT_bfloat16, DT_complex64 };
    complaints = 0;
    for (int k = 0; k < ROWS; k++)
        for (int i = 0; i < 5; i++)
            if (takes(&rows[k], types[i]) && rows[k].set != BOOL && !is_step(&rows[k], types[i]))
                derivatives_of_row(&rows[k], types[i]);
    assert_int_equal(complaints, 0);
}

/* A gradient comes back summed to the shape of what was broadcast. */
static void broadcast_gradient(void **state)
{
    (void)state;
    struct of_row f = closure_of(row_named("multiply"));
    mx_own a = { 0 }, b = { 0 }, ct = { 0 };
    struct mx_list y = { 0 }, dx = { 0 };
    const double av[3] = { 2, 3, 5 }, bv[2] = { 7, 11 }, cv[6] = { 1, 2, 3, 4, 5, 6 };
    {
        MX_SCOPE(NULL);
        mx_keep(&a, array_of_data(DT_float64, 1, (int[]){ 3 }, av));
        mx_keep(&b, array_of_data(DT_float64, 2, (int[]){ 2, 1 }, bv));
        mx_keep(&ct, array_of_data(DT_float64, 2, (int[]){ 2, 3 }, cv));
    }
    assert_int_equal(mx_vjp(&f.closure, 2, (mx[]){ a.it, b.it }, 1, (mx[]){ ct.it }, &y, &dx), 0);
    assert_true(ready(&dx) && dx.v[0].it->size == 3 && dx.v[1].it->size == 2);
    for (int j = 0; j < 3; j++) assert_true(creall(at(dx.v[0].it, j)) == cv[j] * bv[0] + cv[3 + j] * bv[1]);
    for (int i = 0; i < 2; i++)
        assert_true(creall(at(dx.v[1].it, i)) == cv[3 * i] * 2 + cv[3 * i + 1] * 3 + cv[3 * i + 2] * 5);
    list_clear(&y), list_clear(&dx);
    mx_drop(&a), mx_drop(&b), mx_drop(&ct);
}

/* ---- vmap: a row over a batch is the row over each member */

enum { BATCH = 3, MEMBER = 5 };

/* Member i of x along its batch axis; x itself where it has none. */
static mx member(mx x, int axis, int i)
{
    int start[2] = { 0, 0 }, stop[2] = { x->shape[0], x->ndim > 1 ? x->shape[1] : 1 };
    if (axis < 0)
        return x;
    start[axis] = i, stop[axis] = i + 1;
    return mx_squeeze(mx_slice(x, start, stop, (int[]){ 1, 1 }), &axis, 1);
}

static void batch_of_row(const struct row *r, enum dtype t, const int axes[])
{
    struct of_row f = closure_of(r);
    struct mx_list y = { 0 };
    mx_own x[2] = { 0 };
    for (int k = 0; k < r->n; k++) {
        int shape[2] = { axes[k] == 1 ? MEMBER : BATCH, axes[k] == 1 ? BATCH : MEMBER };
        random_array(&x[k], t, axes[k] < 0 ? 1 : 2, axes[k] < 0 ? (int[]){ MEMBER } : shape);
    }
    mx in[2] = { x[0].it, x[1].it };
    if (mx_vmap(&f.closure, r->n, in, axes, &y) || y.n != 1 || !ready(&y)) {
        COMPLAIN("%s %s: vmap: %s\n", r->name, dtype_name(t), mx_error_message());
        mx_error_clear();
    }
    for (int i = 0; y.n == 1 && i < BATCH; i++) {
        mx_own one = { 0 }, all = { 0 };
        {
            MX_SCOPE(NULL);
            mx_keep(&one, build(r, member(in[0], axes[0], i), r->n > 1 ? member(in[1], axes[1], i) : NULL));
            mx_keep(&all, mx_contiguous(member(y.v[0].it, 0, i), false));
        }
        if (evaluate(&one) && evaluate(&all) && !same_bytes(one.it, all.it))
            COMPLAIN("%s %s: vmap over axes %d, %d differs from a loop\n", r->name, dtype_name(t), axes[0], axes[1]);
        mx_drop(&one), mx_drop(&all);
    }
    list_clear(&y);
    mx_drop(&x[0]), mx_drop(&x[1]);
}

static void batches(void **state)
{
    (void)state;
    static const int axes[][2] = { { 0, 0 }, { 1, 0 }, { 0, -1 }, { -1, 1 }, { 1, 1 } };
    complaints = 0;
    for (int k = 0; k < ROWS; k++)
        for (int t = 0; t < DT_COUNT; t++)
            for (int i = 0; i < 5; i++)
                if (takes(&rows[k], t) && (rows[k].n == 2 || axes[i][0] >= 0))
                    batch_of_row(&rows[k], t, axes[i]);
    assert_int_equal(complaints, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--worst")) {
        tell_worst = true;
        values(NULL);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),           cmocka_unit_test(layouts),     cmocka_unit_test(layouts_of_select),
        cmocka_unit_test(layouts_of_casts), cmocka_unit_test(copies),      cmocka_unit_test(empty_and_scalar),
        cmocka_unit_test(written_over),     cmocka_unit_test(derivatives), cmocka_unit_test(broadcast_gradient),
        cmocka_unit_test(batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
