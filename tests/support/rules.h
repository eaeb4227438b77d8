/* rules.h: the rules of an operation against what they must agree with: derivatives with central
 * differences and with each other, vmap with a loop over the examples. */
#ifndef MX_TESTS_RULES_H
#define MX_TESTS_RULES_H

#include "core/array.h"

/* An operand: float64 ones are differentiated by; numbers are drawn from low up to high. */
struct operand {
    enum dtype dtype;
    int ndim, shape[6];
    double low, high;
};

/* Builds results from operands and returns how many (at most RULE_RESULTS). */
enum { RULE_OPERANDS = 4, RULE_RESULTS = 4 };
typedef int build_fn(const mx x[], mx y[]);

struct rule_case {
    const char *name;
    build_fn *build;
    int n;
    struct operand x[RULE_OPERANDS];
};

/* Each fails the cmocka test that runs it. */
void check_derivatives(const struct rule_case *c);
/* The same for the function that takes x and a cotangent of the first result to the gradients. */
void check_second_derivatives(const struct rule_case *c);
/* Building and evaluating, with each allocation failing in turn: one error, and nothing is left. */
void check_allocations(const struct rule_case *c);
/* Every choice of batched operands, along axes drawn at random. */
void check_batching(const struct rule_case *c);

#endif
