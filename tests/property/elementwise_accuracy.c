/* How far the real floating rows of the element-wise table are from the truth, for every
 * instruction set: the worst error in ulp against real, over random bit patterns, a range of
 * interest and the edges.  Rows say how much is allowed; rows without an error of their own
 * allow none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cpu/kernels.h"
#include "support/levels.h"
#include "support/reference.h"

#define COUNT 60000

/* What is known of a type: bits of its significand, least and greatest exponent. */
struct format {
    enum dtype dtype;
    int bits, least, most;
};
static const struct format formats[] = {
    { DT_float32, 24, -126, 127 },
    { DT_float64, 53, -1022, 1023 },
};

/* The error of y in units of the last place that max(|truth|, scale) has in the format.  Beyond the
 * largest number both count as the next power of two. */
static double ulps(const struct format *t, double y, real truth, real scale)
{
    if (isnan(truth) || isnan(y))
        return isnan(truth) && isnan(y) ? 0 : INFINITY;
    real top = scalbnl(1, t->most + 1), got = fmaxl(-top, fminl(top, y));
    truth = fmaxl(-top, fminl(top, truth));
    if (truth == 0 && y == 0)
        return !signbit(truth) == !signbit(y) ? 0 : INFINITY;
    real size = fmaxl(fabsl(truth), scale);
    int e = size == 0 ? t->least : ilogbl(size);
    e = e < t->least ? t->least : e > t->most ? t->most : e;
    return (double)(fabsl(got - truth) / scalbnl(1, e - t->bits + 1));
}

static double load(const struct format *t, const void *x, size_t i)
{
    return t->dtype == DT_float32 ? (double)((const float *)x)[i] : ((const double *)x)[i];
}
static void store(const struct format *t, void *x, size_t i, double v)
{
    if (t->dtype == DT_float32)
        ((float *)x)[i] = (float)v;
    else
        ((double *)x)[i] = v;
}

static const double edges[] = { 0,
                                0.25,
                                0.4142135623730950488,
                                0.5,
                                0.625,
                                0.7071067811865476,
                                0.9,
                                1,
                                1.4142135623730951,
                                1.5,
                                2,
                                3,
                                0.34657359027997264,
                                0.69314718055994531,
                                0.78539816339744831,
                                1.5707963267948966,
                                3.1415926535897932,
                                6.2831853071795865,
                                4,
                                5,
                                6,
                                9,
                                10,
                                17,
                                18,
                                20,
                                22,
                                40,
                                87.33,
                                88.72,
                                88.73,
                                89,
                                89.4,
                                90,
                                103.9,
                                104,
                                105,
                                128,
                                708.4,
                                709.78,
                                710,
                                710.5,
                                745.1,
                                746,
                                1e5,
                                99999.99,
                                1e6,
                                1e9,
                                0x1p23,
                                0x1p24,
                                0x1p31,
                                0x1p52,
                                0x1p63,
                                0x1p100,
                                0x1p127,
                                1e-3,
                                1e-5,
                                0x1p-11,
                                0x1p-12,
                                0x1p-24,
                                0x1p-25,
                                0x1p-53,
                                0x1p-126,
                                0x1p-130,
                                0x1p-149,
                                FLT_MAX,
                                INFINITY,
                                NAN,
                                DBL_MAX,
                                0x1p-1022,
                                0x1p-1060,
                                0x1p-1074,
                                0x1p1000 };
#define EDGES (2 * 3 * sizeof edges / sizeof *edges)

/* The i-th edge: each number, its neighbours, and their negatives. */
static double edge(const struct format *t, size_t i)
{
    double v = edges[i / 6];
    int step = (int)(i % 6 / 2) - 1;
    if (t->dtype == DT_float32)
        v = step ? nextafterf((float)v, step < 0 ? -INFINITY : INFINITY) : (float)v;
    else
        v = step ? nextafter(v, step < 0 ? -INFINITY : INFINITY) : v;
    return i & 1 ? -v : v;
}

/* Any number: its bits are random.  NaN are quiet ones. */
static double any_number(const struct format *t)
{
    uint64_t u = bits64();
    double d;
    float f;
    memcpy(&d, &u, sizeof d);
    memcpy(&f, &u, sizeof f);
    d = t->dtype == DT_float32 ? (double)f : d;
    return isnan(d) ? NAN : d;
}

/* Edges first, then one number in three of each kind. */
static void operands(const struct format *t, void *x, double lo, double hi)
{
    for (size_t i = 0; i < COUNT; i++) {
        double near = uniform(lo, hi);
        store(t, x, i,
              i < EDGES    ? edge(t, i)
              : i % 3 == 0 ? any_number(t)
              : i % 3 == 1 ? near
                           : scalbn(near, -(int)(bits64() % 30)));
    }
}

struct unary_row {
    enum unary_id id;
    const char *name;
    real (*truth)(real), (*scale)(real);
    double lo, hi;             /* where most operands are taken from */
    double most_f32, most_f64; /* allowed error in ulp */
};

#define ROW(name) UNARY_##name, #name, r_##name, scale_##name
static const struct unary_row unary_rows[] = {
    { ROW(abs), -10, 10, 0, 0 },
    { ROW(negative), -10, 10, 0, 0 },
    { ROW(sign), -10, 10, 0, 0 },
    { ROW(square), -10, 10, 0.5, 0.501 },
    { ROW(sqrt), 0, 100, 0.5, 0.501 },
    { ROW(rsqrt), 0, 100, 1.5, 1.5 },
    { ROW(exp), -110, 95, 1, 1 },
    { ROW(expm1), -20, 20, 1.5, 1.75 },
    { ROW(log), 0, 4, 1, 1 },
    { ROW(log2), 0, 4, 1.5, 1 },
    { ROW(log10), 0, 4, 1.75, 1 },
    { ROW(log1p), -1, 4, 1, 1 },
    { ROW(sin), -400, 400, 1.75, 1.5 },
    { ROW(cos), -400, 400, 1.75, 1.5 },
    { ROW(tan), -400, 400, 2, 2 },
    { ROW(arcsin), -1, 1, 1, 1 },
    { ROW(arccos), -1, 1, 1.5, 1.5 },
    { ROW(arctan), -8, 8, 1.5, 1.5 },
    { ROW(sinh), -90, 90, 1.75, 1.75 },
    { ROW(cosh), -90, 90, 1.5, 1.5 },
    { ROW(tanh), -12, 12, 1.5, 1.75 },
    { ROW(arcsinh), -50, 50, 1, 2 },
    { ROW(arccosh), 0, 50, 1, 2 },
    { ROW(arctanh), -1, 1, 1, 2 },
    { ROW(erf), -6, 6, 1.5, 1.5 },
    { ROW(erfinv), -1, 1, 2, 3 },
    { ROW(sigmoid), -105, 105, 2.5, 2.5 },
    { ROW(sigmoid_slope), -85, 85, 4.5, 4.5 },
    { ROW(silu), -85, 85, 4, 4 },
    { ROW(silu_slope), -85, 85, 6, 6 },
    { ROW(floor), -1000, 1000, 0, 0 },
    { ROW(ceil), -1000, 1000, 0, 0 },
    { ROW(trunc), -1000, 1000, 0, 0 },
    { ROW(rint), -1000, 1000, 0, 0 },
    { ROW(conjugate), -10, 10, 0, 0 },
    { ROW(real), -10, 10, 0, 0 },
    { ROW(imag), -10, 10, 0, 0 },
};
#undef ROW

static void *vector(void) { return malloc(COUNT * sizeof(real)); }

/* The largest of an array of errors must not pass what is allowed. */
static double worst(const struct format *t, const void *y, const real *truth, const real *scale, size_t *at)
{
    double most = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double e = ulps(t, load(t, y, i), truth[i], scale[i]);
        if (!(e <= most))
            most = e, *at = i;
    }
    return most;
}

static void unary(void **state)
{
    (void)state;
    void *x = vector(), *y = vector();
    real *truth = vector(), *scale = vector();
    int failed = 0;
    for (size_t k = 0; k < sizeof unary_rows / sizeof *unary_rows; k++) {
        const struct unary_row *row = &unary_rows[k];
        for (int f = 0; f < 2; f++) {
            const struct format *t = &formats[f];
            double allowed = f ? row->most_f64 : row->most_f32;
            operands(t, x, row->lo, row->hi);
            for (size_t i = 0; i < COUNT; i++) {
                truth[i] = row->truth(load(t, x, i));
                scale[i] = row->scale ? row->scale(load(t, x, i)) : 0;
            }
            print_message("%-10s %s", row->name, dtype_name(t->dtype));
            for (int l = 0; l < LEVELS; l++) {
                const struct cpu_kernels *kernels = cpu_kernels_named(levels[l]);
                if (!kernels)
                    continue;
                size_t at = 0;
                kernels->unary[row->id][t->dtype](y, x, COUNT);
                double most = worst(t, y, truth, scale, &at);
                print_message("  %s %.3f", levels[l], most);
                if (!(most <= allowed)) {
                    failed++;
                    print_message(" (more than %g: %s(%a) = %a, not %La)", allowed, row->name, load(t, x, at),
                                  load(t, y, at), truth[at]);
                }
            }
            print_message("\n");
        }
    }
    free(x), free(y), free(truth), free(scale);
    assert_int_equal(failed, 0);
}

struct binary_row {
    enum binary_id id;
    const char *name;
    real (*truth)(real, real), (*scale)(real, real);
    double lo, hi;
    double most_f32, most_f64;
};

#define ROW(name) BINARY_##name, #name, r_##name, scale_##name
static const struct binary_row binary_rows[] = {
    { ROW(add), -10, 10, 0.5, 0.501 },
    { ROW(subtract), -10, 10, 0.5, 0.501 },
    { ROW(multiply), -10, 10, 0.5, 0.501 },
    { ROW(divide), -10, 10, 0.5, 0.501 },
    { ROW(remainder), -1000, 1000, 0.5, 0.501 },
    { ROW(floor_divide), -1000, 1000, 1, 1 },
    { ROW(power), 0, 30, 1.2, 1 },
    { ROW(maximum), -10, 10, 0, 0 },
    { ROW(minimum), -10, 10, 0, 0 },
    { ROW(logaddexp), -20, 20, 2, 2 },
    { ROW(arctan2), -10, 10, 2, 2 },
    { ROW(hypot), -10, 10, 2, 2 },
    { ROW(copysign), -10, 10, 0, 0 },
};
#undef ROW

/* Every pair of edges, then pairs of random numbers, some of them whole. */
static void operand_pairs(const struct format *t, void *a, void *b, double lo, double hi)
{
    operands(t, a, lo, hi);
    operands(t, b, lo, hi);
    for (size_t i = 0; i < COUNT; i++) {
        if (i < COUNT / 2) {
            store(t, a, i, edge(t, bits64() % EDGES));
            store(t, b, i, edge(t, bits64() % EDGES));
        } else if (i % 4 == 0) {
            store(t, b, i, rint(load(t, b, i)));
        } else if (i % 4 == 1) {
            store(t, a, i, -load(t, a, i));
            store(t, b, i, rint(uniform(-9, 9)));
        }
    }
}

static void binary(void **state)
{
    (void)state;
    void *a = vector(), *b = vector(), *y = vector();
    real *truth = vector(), *scale = vector();
    int failed = 0;
    for (size_t k = 0; k < sizeof binary_rows / sizeof *binary_rows; k++) {
        const struct binary_row *row = &binary_rows[k];
        for (int f = 0; f < 2; f++) {
            const struct format *t = &formats[f];
            double allowed = f ? row->most_f64 : row->most_f32;
            operand_pairs(t, a, b, row->lo, row->hi);
            for (size_t i = 0; i < COUNT; i++) {
                real p = load(t, a, i), q = load(t, b, i);
                truth[i] = row->truth(p, q);
                scale[i] = row->scale ? row->scale(p, q) : 0;
            }
            print_message("%-12s %s", row->name, dtype_name(t->dtype));
            for (int l = 0; l < LEVELS; l++) {
                const struct cpu_kernels *kernels = cpu_kernels_named(levels[l]);
                if (!kernels)
                    continue;
                size_t at = 0;
                kernels->binary[row->id][t->dtype](y, a, 1, b, 1, COUNT);
                double most = worst(t, y, truth, scale, &at);
                print_message("  %s %.3f", levels[l], most);
                if (!(most <= allowed)) {
                    failed++;
                    print_message(" (more than %g: %s(%a, %a) = %a, not %La)", allowed, row->name, load(t, a, at),
                                  load(t, b, at), load(t, y, at), truth[at]);
                }
            }
            print_message("\n");
        }
    }
    free(a), free(b), free(y), free(truth), free(scale);
    assert_int_equal(failed, 0);
}

/* Comparisons are C's. */
static void comparisons(void **state)
{
    (void)state;
    void *a = vector(), *b = vector();
    uint8_t *y = vector();
    for (int f = 0; f < 2; f++) {
        const struct format *t = &formats[f];
        operand_pairs(t, a, b, -2, 2);
        for (int l = 0; l < LEVELS; l++) {
            const struct cpu_kernels *kernels = cpu_kernels_named(levels[l]);
            if (!kernels)
                continue;
#define CHECK(row, op)                                             \
    kernels->binary[BINARY_##row][t->dtype](y, a, 1, b, 1, COUNT); \
    for (size_t i = 0; i < COUNT; i++) assert_int_equal(y[i], load(t, a, i) op load(t, b, i));
            CHECK(equal, ==)
            CHECK(not_equal, !=)
            CHECK(less, <)
            CHECK(less_equal, <=)
            CHECK(greater, >)
            CHECK(greater_equal, >=)
#undef CHECK
        }
    }
    free(a), free(b), free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary),
        cmocka_unit_test(binary),
        cmocka_unit_test(comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
