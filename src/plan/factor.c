/* factor.c: see factor.h. */
#include "plan/factor.h"

#include <stdio.h>

#include "core/node.h"
#include "core/shape.h"
#include "ops/linalg.h"

int factor_report(const char *asker, enum factor_fault fault, int ndim, const int *shape, int64_t i)
{
    static const struct {
        const char *expected, *got;
    } demand[] = { [FACTOR_SINGULAR] = { "an invertible matrix", "is singular" },
                   [FACTOR_SLOW] = { "a matrix whose factors can be found by iteration", "does not converge" },
                   [FACTOR_INDEFINITE] = { "a positive definite matrix", "is not positive definite" } };
    char place[160] = "";
    int index[MX_MAX_NDIM];
    for (int d = ndim; d-- > 0; i /= shape[d]) index[d] = (int)(i % shape[d]);
    if (ndim == 1)
        snprintf(place, sizeof place, " %d of the batch", index[0]);
    else if (ndim > 1)
        snprintf(place, sizeof place, " %s of the batch", shape_text(ndim, index));
    mx_fail_as(MX_VALUE, "[linalg.%s] expected %s, got: matrix%s %s", asker, demand[fault].expected, place,
               demand[fault].got);
    return 1;
}

const char *factor_asker(const struct node *n)
{
    const struct part_args *g = n->op->id == OP_inverse || n->op->id == OP_solve ? n->args : NULL;
    if (n->op->id == OP_inverse)
        return g->factor ? "cholesky_inv" : g->part == PART_ALL ? "inv" : "tri_inv";
    if (n->op->id == OP_solve)
        return g->part == PART_ALL ? "solve" : "solve_triangular";
    return "cholesky";
}
