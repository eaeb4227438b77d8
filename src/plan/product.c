/* product.c: see product.h. */
#include "plan/product.h"

#include <string.h>

#include "core/shape.h"

void product_plan_of(struct product_plan *p, int n, const mx x[])
{
    int64_t *each[3];
    p->m = dim(x[0], -2);
    p->k = dim(x[0], -1);
    p->n = dim(x[1], -1);
    p->ndim = x[0]->ndim - 2;
    memcpy(p->shape, x[0]->shape, (size_t)p->ndim * sizeof *p->shape);
    for (int i = 0; i < n; i++) {
        const int64_t *strides = x[i]->strides;
        memcpy(p->batch[i], strides, (size_t)p->ndim * sizeof *strides);
        p->steps[i] = (struct product_steps){ strides[p->ndim], strides[p->ndim + 1] };
        each[i] = p->batch[i];
    }
    if (p->ndim > 0)
        p->ndim = collapse(p->ndim, p->shape, n, each);
}
