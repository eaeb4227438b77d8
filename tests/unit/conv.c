/* Convolutions: every rule, failing allocations, and every instruction set against the definition
 * in double precision. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/scope.h"
#include "cpu/kernels.h"
#include "ops/op.h"
#include "ops/ops.h"
#include "run/eval.h"
#include "support/levels.h"
#include "support/rules.h"
#include "support/sample.h"

#define F(...)                         \
    {                                  \
        DT_float64, __VA_ARGS__, -2, 2 \
    }
#define A(...) \
    (const int[]) { __VA_ARGS__ }
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const int ones[3] = { 1, 1, 1 }, zeros[3];

#define BUILD(name, n, ...)                                              \
    static int name(const mx x[], mx y[])                                \
    {                                                                    \
        struct conv g = { n, ones, zeros, zeros, ones, ones, 1, false }; \
        __VA_ARGS__;                                                     \
        y[0] = mx_conv(#name, x[0], x[1], &g);                           \
        return 1;                                                        \
    }
BUILD(plain, 2, (void)0)
BUILD(padded, 1, g.stride = A(2), g.low = A(2), g.high = A(1), g.dilation = A(2))
BUILD(spread, 2, g.input_dilation = A(2, 3), g.stride = A(3, 2), g.low = A(1, -1), g.high = A(2, 2))
BUILD(grouped, 1, g.groups = 2, g.low = A(1), g.flip = true)
BUILD(own, 1, g.groups = 3, g.stride = A(2), g.high = A(2))
BUILD(deep, 3, g.low = A(1, 0, 1), g.high = A(0, 1, 1), g.stride = A(1, 2, 1))
static int transposed(const mx x[], mx y[])
{
    struct conv g = { 1, A(2), A(1), zeros, ones, ones, 1, false };
    y[0] = mx_conv_transpose("transposed", x[0], x[1], &g, A(1));
    return 1;
}
static int waiting(const mx x[], mx y[])
{
    mx_depends(2, x, 1, x + 2, y);
    return 2;
}

static const struct rule_case cases[] = {
    { "plain", plain, 2, { F(4, { 2, 3, 4, 2 }), F(4, { 3, 2, 2, 2 }) } },
    { "padded", padded, 2, { F(3, { 1, 6, 2 }), F(3, { 2, 3, 2 }) } },
    { "spread", spread, 2, { F(4, { 1, 3, 3, 1 }), F(4, { 2, 2, 3, 1 }) } },
    { "grouped", grouped, 2, { F(3, { 2, 4, 4 }), F(3, { 6, 2, 2 }) } },
    { "own", own, 2, { F(3, { 2, 5, 3 }), F(3, { 3, 3, 1 }) } },
    { "deep", deep, 2, { F(5, { 1, 2, 3, 2, 1 }), F(5, { 2, 2, 2, 2, 1 }) } },
    { "transposed", transposed, 2, { F(3, { 1, 3, 2 }), F(3, { 2, 3, 2 }) } },
    { "depends", waiting, 3, { F(2, { 2, 3 }), F(1, { 4 }), F(2, { 3, 1 }) } },
};

#define EACH(name, check)                                           \
    static void name(void **state)                                  \
    {                                                               \
        (void)state;                                                \
        for (size_t i = 0; i < COUNT(cases); i++) check(&cases[i]); \
    }
EACH(derivatives, check_derivatives)
EACH(second_derivatives, check_second_derivatives)
EACH(allocations, check_allocations)
EACH(batches, check_batching)

/* ---- values */

struct problem {
    int images, in[2], channels, out, kernel[2], stride, pad, dilation, groups;
};

static const struct problem problems[] = {
    { 2, { 9, 29 }, 7, 37, { 3, 3 }, 1, 1, 1, 1 },   { 1, { 11, 13 }, 3, 16, { 7, 7 }, 2, 3, 1, 1 },
    { 3, { 5, 5 }, 130, 9, { 3, 3 }, 1, 0, 1, 1 },   { 1, { 17, 14 }, 8, 12, { 3, 2 }, 1, 2, 2, 4 },
    { 2, { 8, 21 }, 19, 19, { 3, 3 }, 1, 1, 1, 19 }, { 2, { 6, 5 }, 10, 40, { 1, 1 }, 2, 0, 1, 1 },
    { 1, { 1, 50 }, 33, 65, { 1, 5 }, 1, 2, 1, 1 },  { 1, { 3, 3 }, 2100, 5, { 1, 1 }, 1, 1, 1, 1 },
};

static int64_t at(const struct model *m, int64_t i, int64_t j, int64_t k, int64_t c)
{
    return number_of(m, (const int64_t[]){ i, j, k, c });
}

static struct model defined(const struct problem *p, const struct model *x, const struct model *w)
{
    int out[2];
    for (int i = 0; i < 2; i++) out[i] = (p->in[i] + 2 * p->pad - p->dilation * (p->kernel[i] - 1) - 1) / p->stride + 1;
    struct model y = model_new(4, A(p->images, out[0], out[1], p->out));
    int in = p->channels / p->groups;
    for (int64_t number = 0; number < y.size; number++) {
        int64_t o[4];
        double sum = 0;
        place_of(&y, number, o);
        for (int i = 0; i < p->kernel[0]; i++)
            for (int j = 0; j < p->kernel[1]; j++) {
                int64_t h = o[1] * p->stride - p->pad + i * p->dilation;
                int64_t v = o[2] * p->stride - p->pad + j * p->dilation;
                bool inside = h >= 0 && h < p->in[0] && v >= 0 && v < p->in[1];
                for (int c = 0; inside && c < in; c++)
                    sum += x->v[at(x, o[0], h, v, o[3] / (p->out / p->groups) * in + c)] * w->v[at(w, o[3], i, j, c)];
            }
        y.v[number] = sum;
    }
    return y;
}

/* Samples are float16 only where that holds them exactly, so those are rounded here. */
static mx drawn(enum dtype t, const int *shape)
{
    mx x = t == DT_float16 ? mx_astype(sample_between(DT_float32, 4, shape, -1, 1), t)
                           : sample_between(t, 4, shape, -1, 1);
    assert_int_equal(mx_eval(1, &x), 0);
    return x;
}

static void values_of(const struct problem *p, enum dtype t, double tolerance)
{
    mx_own x = { NULL }, w = { NULL };
    KEEP(&x, drawn(t, A(p->images, p->in[0], p->in[1], p->channels)));
    KEEP(&w, drawn(t, A(p->out, p->kernel[0], p->kernel[1], p->channels / p->groups)));
    struct model xm = model_of(x.it), wm = model_of(w.it), ym = defined(p, &xm, &wm);
    MX_SCOPE(NULL);
    struct conv g = { 2,
                      A(p->stride, p->stride),
                      A(p->pad, p->pad),
                      A(p->pad, p->pad),
                      A(p->dilation, p->dilation),
                      ones,
                      p->groups,
                      false };
    assert_close(mx_conv("conv", x.it, w.it, &g), &ym, tolerance);
    model_drop(&xm);
    model_drop(&wm);
    model_drop(&ym);
    mx_drop(&x);
    mx_drop(&w);
}

static void every_level(void **state)
{
    const struct cpu_kernels *chosen = cpu;
    (void)state;
    for (int l = 0; l < LEVELS; l++) {
        const struct cpu_kernels *k = cpu_kernels_named(levels[l]);
        if (!k)
            continue;
        cpu = k;
        for (size_t i = 0; i < COUNT(problems); i++) {
            values_of(&problems[i], DT_float32, 2e-4);
            values_of(&problems[i], DT_float64, 1e-11);
            values_of(&problems[i], DT_float16, 0.06);
        }
    }
    cpu = chosen;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives), cmocka_unit_test(second_derivatives), cmocka_unit_test(allocations),
        cmocka_unit_test(batches),     cmocka_unit_test(every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
