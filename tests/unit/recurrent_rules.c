/* The vjp, jvp and vmap rules of recurrent layers, and of their way back, each allocation failing in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ops/ops.h"
#include "support/rules.h"

#define F(...)                         \
    {                                  \
        DT_float64, __VA_ARGS__, -1, 1 \
    }
#define H(...)                         \
    {                                  \
        DT_float16, __VA_ARGS__, -1, 1 \
    }
#define LAYER(name, results, kind, ...)                 \
    static int name(const mx x[], mx y[])               \
    {                                                   \
        mx_recurrent(kind, x[0], x[1], __VA_ARGS__, y); \
        return results;                                 \
    }

LAYER(rnn, 1, "rnn", NULL, x[2], NULL)
LAYER(rnn_from_zero, 1, "rnn", NULL, NULL, NULL)
LAYER(gru, 1, "gru", x[2], x[3], NULL)
LAYER(gru_from_zero, 1, "gru", NULL, NULL, NULL)
LAYER(gru_of_state, 1, "gru", NULL, x[2], NULL)
LAYER(gru_of_bias, 1, "gru", x[2], NULL, NULL)
LAYER(lstm, 2, "lstm", NULL, x[2], x[3])
LAYER(lstm_from_zero, 2, "lstm", NULL, NULL, NULL)
LAYER(lstm_from_state, 2, "lstm", NULL, x[2], NULL)
LAYER(lstm_from_cell, 2, "lstm", NULL, NULL, x[2])

static const struct rule_case cases[] = {
    { "rnn", rnn, 3, { F(3, { 2, 3, 2 }), F(2, { 2, 2 }), F(2, { 2, 2 }) } },
    { "rnn from zero", rnn_from_zero, 2, { F(2, { 3, 2 }), F(2, { 2, 2 }) } },
    { "gru", gru, 4, { F(3, { 2, 3, 6 }), F(2, { 6, 2 }), F(1, { 2 }), F(2, { 2, 2 }) } },
    { "gru from zero", gru_from_zero, 2, { F(4, { 2, 1, 2, 6 }), F(2, { 6, 2 }) } },
    { "gru without bias", gru_of_state, 3, { F(3, { 2, 3, 6 }), F(2, { 6, 2 }), F(2, { 2, 2 }) } },
    { "gru with a bias", gru_of_bias, 3, { F(3, { 2, 3, 6 }), F(2, { 6, 2 }), F(1, { 2 }) } },
    { "lstm from a state", lstm_from_state, 3, { F(3, { 2, 3, 8 }), F(2, { 8, 2 }), F(2, { 2, 2 }) } },
    { "lstm", lstm, 4, { F(3, { 2, 3, 8 }), F(2, { 8, 2 }), F(2, { 2, 2 }), F(2, { 2, 2 }) } },
    { "lstm from zero", lstm_from_zero, 2, { F(2, { 3, 8 }), F(2, { 8, 2 }) } },
    { "lstm from a cell", lstm_from_cell, 3, { F(3, { 2, 2, 8 }), F(2, { 8, 2 }), F(1, { 2 }) } },
};
/* What is converted needs room more often, and many sequences are packed. */
static const struct rule_case others[] = {
    { "gru of float16", gru, 4, { H(3, { 2, 3, 6 }), H(2, { 6, 2 }), H(1, { 2 }), H(2, { 2, 2 }) } },
    { "lstm of many", lstm, 4, { F(3, { 6, 2, 8 }), F(2, { 8, 2 }), F(2, { 6, 2 }), F(2, { 6, 2 }) } },
    { "rnn of many of float16", rnn, 3, { H(3, { 6, 2, 2 }), H(2, { 2, 2 }), H(2, { 6, 2 }) } },
};

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define EACH(check) \
    (void)state;    \
    for (size_t i = 0; i < COUNT(cases); i++) check(&cases[i])

static void derivatives(void **state) { EACH(check_derivatives); }
/* Of those that leave room for a cotangent. */
static void second_derivatives(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        if (cases[i].n < RULE_OPERANDS)
            check_second_derivatives(&cases[i]);
}
static void batches(void **state) { EACH(check_batching); }
static void allocations(void **state)
{
    EACH(check_allocations);
    for (size_t i = 0; i < COUNT(others); i++) check_allocations(&others[i]);
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
