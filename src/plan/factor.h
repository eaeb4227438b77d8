/* factor.h: what is said of matrices that cannot be factored. */
#ifndef MX_PLAN_FACTOR_H
#define MX_PLAN_FACTOR_H

#include <stdint.h>

struct node;

enum factor_fault { FACTOR_SINGULAR, FACTOR_SLOW, FACTOR_INDEFINITE };
/* Matrix i of a batch of this shape: mx_fail, with non-zero. */
int factor_report(const char *asker, enum factor_fault fault, int ndim, const int *shape, int64_t i);
/* Who asked for an inverse or a solution: "inv". */
const char *factor_asker(const struct node *n);

#endif
