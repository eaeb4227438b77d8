/* composed.h: derivatives of an operation with a kernel, from a formula in other operations.
 *
 * Where a kernel only saves time or memory, its derivatives need not be written twice: the formula
 * is built from the operands at hand and differentiated as the graph that it is. */
#ifndef MX_OPS_COMPOSED_H
#define MX_OPS_COMPOSED_H

#include "ops/op.h"

/* Sets y[k] for every result of c from c->x, which are the operands to use. */
typedef void compose_fn(const struct call *c, mx y[]);

/* The rules vjp and jvp of an operation that does what `f` does. */
void composed_vjp(compose_fn *f, const struct call *c, const mx ct[], const bool want[], mx dx[]);
void composed_jvp(compose_fn *f, const struct call *c, const mx t[], mx dy[]);

#endif
