/* The vjp, jvp and vmap rules of norms of rows and of groups of channels, each allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "support/rules.h"

#define F(...)                         \
    {                                  \
        DT_float64, __VA_ARGS__, -2, 2 \
    }
#define H(...)                         \
    {                                  \
        DT_float16, __VA_ARGS__, -2, 2 \
    }
#define ONE(name, expression)             \
    static int name(const mx x[], mx y[]) \
    {                                     \
        y[0] = expression;                \
        return 1;                         \
    }
#define GROUPS(name, ...)                    \
    static int name(const mx x[], mx y[])    \
    {                                        \
        mx_group_norm(x[0], __VA_ARGS__, y); \
        return 3;                            \
    }

/* The first result alone, whose cotangent goes back in passes of its own. */
#define GROUPS_ALONE(name, ...)                \
    static int name(const mx x[], mx y[])      \
    {                                          \
        mx all[3];                             \
        mx_group_norm(x[0], __VA_ARGS__, all); \
        y[0] = all[0];                         \
        return 1;                              \
    }

ONE(rms, mx_rms_norm(x[0], x[1], 0.5))
ONE(layer, mx_layer_norm(x[0], x[1], x[2], 0.5))
ONE(layer_biased, mx_layer_norm(x[0], NULL, x[1], 0.5))
GROUPS(apart, x[1], x[2], 2, false, false, 0.5)
GROUPS(neighbours, x[1], NULL, 2, true, true, 0.5)
GROUPS(channels, NULL, NULL, 0, false, false, 0.5)
GROUPS_ALONE(apart_alone, x[1], x[2], 2, false, false, 0.5)
GROUPS_ALONE(neighbours_alone, x[1], NULL, 2, true, true, 0.5)
GROUPS_ALONE(biased_alone, NULL, x[1], 0, false, false, 0.5)

static const struct rule_case cases[] = {
    { "rms_norm", rms, 2, { F(3, { 2, 3, 4 }), F(1, { 4 }) } },
    { "layer_norm", layer, 3, { F(3, { 2, 3, 4 }), F(1, { 4 }), F(1, { 4 }) } },
    { "layer_norm without weight", layer_biased, 2, { F(2, { 3, 4 }), F(1, { 4 }) } },
    { "group_norm", apart, 3, { F(3, { 2, 3, 4 }), F(1, { 4 }), F(1, { 4 }) } },
    { "group_norm of all items", neighbours, 2, { F(3, { 2, 3, 4 }), F(1, { 4 }) } },
    { "group_norm of channels", channels, 1, { F(3, { 2, 3, 4 }) } },
    { "group_norm alone", apart_alone, 3, { F(3, { 2, 3, 4 }), F(1, { 4 }), F(1, { 4 }) } },
    { "group_norm of all items alone", neighbours_alone, 2, { F(3, { 2, 3, 4 }), F(1, { 4 }) } },
    { "group_norm of channels alone", biased_alone, 2, { F(3, { 2, 3, 4 }), F(1, { 4 }) } },
};
/* What is converted needs room more often. */
static const struct rule_case of_half[] = {
    { "layer_norm of float16", layer, 3, { H(2, { 5, 4 }), H(1, { 4 }), H(1, { 4 }) } },
    { "group_norm of float16", apart, 3, { H(3, { 2, 3, 4 }), H(1, { 4 }), H(1, { 4 }) } },
    { "group_norm of float16 alone", apart_alone, 3, { H(3, { 2, 3, 4 }), H(1, { 4 }), H(1, { 4 }) } },
};

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define EACH(check) \
    (void)state;    \
    for (size_t i = 0; i < COUNT(cases); i++) check(&cases[i])

static void derivatives(void **state) { EACH(check_derivatives); }
static void second_derivatives(void **state) { EACH(check_second_derivatives); }
static void batches(void **state) { EACH(check_batching); }
static void allocations(void **state)
{
    EACH(check_allocations);
    for (size_t i = 0; i < COUNT(of_half); i++) check_allocations(&of_half[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives),
        cmocka_unit_test(second_derivatives),
        cmocka_unit_test(batches),
        cmocka_unit_test(allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
