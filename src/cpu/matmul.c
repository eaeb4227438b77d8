/* matmul.c: matmul and addmm on the CPU: from nodes to products. */
#include "ops/matmul.h"
#include "cpu/product.h"
#include "cpu/run.h"
#include "plan/product.h"

static struct matrix matrix_of(mx x, struct product_steps s) { return (struct matrix){ host(x), s.row, s.column }; }

static int matmul_scaled(const struct run *r, double alpha, double beta)
{
    struct product_plan p;
    if (out_new(r, 0))
        return 1;
    product_plan_of(&p, r->nin, r->x);
    struct product q = { .t = (enum dtype)r->x[0]->dtype,
                         .m = p.m,
                         .n = p.n,
                         .k = p.k,
                         .a = matrix_of(r->x[0], p.steps[0]),
                         .b = matrix_of(r->x[1], p.steps[1]),
                         .y = host(r->y[0]),
                         .alpha = alpha,
                         .beta = beta,
                         .ndim = p.ndim,
                         .shape = p.shape,
                         .sa = p.batch[0],
                         .sb = p.batch[1],
                         .sc = p.batch[2] };
    if (r->nin > 2)
        q.c = matrix_of(r->x[2], p.steps[2]);
    return product_run(&q);
}

int run_matmul(const struct run *r) { return matmul_scaled(r, 1, 0); }

int run_addmm(const struct run *r)
{
    const struct addmm_args *args = r->args;
    return matmul_scaled(r, args->alpha, args->beta);
}
