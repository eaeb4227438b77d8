/* depends.c: arrays that wait for others.
 *
 * The node takes the dependencies and then the inputs, which it passes on: whoever needs one of the
 * results has all of the operands computed first.  Derivatives go through as if it were not there. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "ops/rules.h"

static mx passed(const struct call *c, int k) { return c->x[c->nin - c->nout + k]; }

static int depends_shapes(const struct call *c, struct spec out[])
{
    for (int k = 0; k < c->nout; k++) spec_like(&out[k], passed(c, k));
    return 0;
}

static bool depends_view(const struct call *c, mx y)
{
    mx x = passed(c, y->out);
    memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    y->offset = x->offset;
    return true;
}

static void depends_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    (void)want;
    for (int k = 0; k < c->nout; k++) dx[c->nin - c->nout + k] = ct[k];
}

static void depends_jvp(const struct call *c, const mx t[], mx dy[])
{
    for (int k = 0; k < c->nout; k++) dy[k] = t[c->nin - c->nout + k];
}

static void depends_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    mx_infer_n(c->op, c->args, c->nin, c->x, c->nout, y);
    memcpy(yaxis, axis + c->nin - c->nout, (size_t)c->nout * sizeof *yaxis);
}

const struct op op_depends = {
    OP_ROW(depends),    .shapes = depends_shapes, .view = depends_view,
    .vjp = depends_vjp, .jvp = depends_jvp,       .vmap = depends_vmap,
};

bool mx_depends(int n, const mx x[], int n_on, const mx on[], mx y[])
{
    mx *all = n ? mx_malloc((size_t)(n + n_on) * sizeof *all) : NULL;
    if (!all) {
        for (int k = 0; k < n; k++) y[k] = MX_NIL;
        return n == 0;
    }
    memcpy(all, on, (size_t)n_on * sizeof *all);
    memcpy(all + n_on, x, (size_t)n * sizeof *all);
    mx_infer_n(&op_depends, NULL, n_on + n, all, n, y);
    free(all);
    bool good = true;
    for (int k = 0; k < n; k++) good = good && !is_nil(y[k]);
    return good;
}
