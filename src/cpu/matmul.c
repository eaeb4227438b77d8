/* matmul.c: matmul and addmm on the CPU: from nodes to products. */
#include <string.h>

#include "core/shape.h"
#include "cpu/product.h"
#include "cpu/run.h"
#include "ops/matmul.h"

static struct matrix matrix_of(mx x)
{
    return (struct matrix){ host(x), x->strides[x->ndim - 2], x->strides[x->ndim - 1] };
}

static int run_product(const struct run *r, double alpha, double beta)
{
    mx a = r->x[0], b = r->x[1], c = r->nin > 2 ? r->x[2] : NULL;
    if (out_new(r, 0))
        return 1;
    struct product q = { .t = (enum dtype)a->dtype,
                         .m = dim(a, -2),
                         .n = dim(b, -1),
                         .k = dim(a, -1),
                         .a = matrix_of(a),
                         .b = matrix_of(b),
                         .y = host(r->y[0]),
                         .alpha = alpha,
                         .beta = beta,
                         .ndim = a->ndim - 2 };
    if (c)
        q.c = matrix_of(c);
    int shape[MX_MAX_NDIM];
    int64_t strides[3][MX_MAX_NDIM], *each[3] = { strides[0], strides[1], strides[2] };
    for (int i = 0; i < r->nin; i++) memcpy(strides[i], r->x[i]->strides, (size_t)q.ndim * sizeof **strides);
    memcpy(shape, a->shape, (size_t)q.ndim * sizeof *shape);
    if (q.ndim > 0)
        q.ndim = collapse(q.ndim, shape, r->nin, each);
    q.shape = shape, q.sa = strides[0], q.sb = strides[1], q.sc = strides[2];
    return product_run(&q);
}

int run_matmul(const struct run *r) { return run_product(r, 1, 0); }

int run_addmm(const struct run *r)
{
    const struct addmm_args *args = r->args;
    return run_product(r, args->alpha, args->beta);
}
