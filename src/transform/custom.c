/* custom.c: functions whose derivative is given by their author.
 *
 * The node takes the arguments and then the results that the function computed from them, and
 * passes the results on.  Going back, the rule stands in for the function; going forward, what
 * arrives at the results goes through. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "transform/transform.h"

struct custom_args { struct object *vjp; };
static const struct field custom_fields[] = { FIELD(custom_args, vjp), { 0 } };

static bool custom_view(const struct call *c, mx y)
{
    mx x = c->x[c->nin - c->nout + y->out];
    memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    y->offset = x->offset;
    return true;
}

static int custom_shapes(const struct call *c, struct spec out[])
{
    for (int k = 0; k < c->nout; k++) {
        mx x = c->x[c->nin - c->nout + k];
        out[k] = (struct spec){ .dtype = x->dtype, .ndim = x->ndim };
        memcpy(out[k].shape, x->shape, (size_t)x->ndim * sizeof(int));
    }
    return 0;
}

static void custom_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    struct vjp_rule *rule = (struct vjp_rule *)((const struct custom_args *)c->args)->vjp;
    int n = c->nin - c->nout;
    struct mx_list in = { 0 }, out = { 0 };
    bool failed = false;
    for (int i = 0; i < n; i++)
        failed |= list_push(&in, c->x[i]);
    for (int k = 0; k < c->nout; k++)
        failed |= list_push(&in, c->y[k]);
    for (int k = 0; k < c->nout; k++)
        failed |= list_push(&in, ct[k] ? ct[k] : mx_zeros_like(c->y[k]));
    const mx *x = (mx *)in.v;
    if (!failed && !rule->call(rule, n, x, c->nout, x + n, x + n + c->nout, &out)) {
        if (out.n != n)
            mx_fail("[custom_vjp] expected one cotangent for each of the %d arguments, got %d", n, out.n);
        for (int i = 0; i < n && out.n == n; i++) {
            mx d = out.v[i].it;
            if (!want[i])
                continue;
            if (!same_shape(d, c->x[i]))
                mx_fail("[custom_vjp] cotangent %d: expected shape %s of the argument, got %s", i,
                        shape_of(c->x[i]), shape_of(d));
            mx_retain(d);
            dx[i] = scope_lend(d);
        }
    }
    list_clear(&in);
    list_clear(&out);
}

static void custom_jvp(const struct call *c, const mx t[], mx dy[])
{
    for (int k = 0; k < c->nout; k++)
        dy[k] = t[c->nin - c->nout + k];
}

/* Under vmap the rule is mapped as well: over the batched ones of its operands, results and cotangents.
 * An operand that is not batched gets the sum over the batch. */
struct mapped_rule {
    struct vjp_rule rule;
    struct vjp_rule *of;
    int nx, ny;
    int *axes; /* of operands, then of results */
};

struct rule_closure { struct closure closure; struct mapped_rule *m; };

static int call_inner(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct mapped_rule *m = ((struct rule_closure *)self)->m;
    (void)n;
    return m->of->call(m->of, m->nx, x, m->ny, x + m->nx, x + m->nx + m->ny, out);
}

static int call_mapped(struct vjp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx ct[],
                       struct mx_list *dx)
{
    struct mapped_rule *m = (struct mapped_rule *)self;
    struct rule_closure f = { { { .refs = 1 }, call_inner }, m };
    struct mx_list in = { 0 }, out = { 0 };
    int axes[3 * 64], failed = nx + 2 * ny > 3 * 64;
    for (int i = 0; i < nx + ny && !failed; i++) {
        axes[i] = m->axes[i];
        failed = list_push(&in, i < nx ? x[i] : y[i - nx]);
    }
    for (int k = 0; k < ny && !failed; k++) {
        axes[nx + ny + k] = m->axes[nx + k];
        failed = list_push(&in, ct[k]);
    }
    failed = failed || mx_vmap(&f.closure, in.n, (mx *)in.v, axes, &out);
    for (int i = 0; i < out.n && !failed; i++) {
        MX_SCOPE(NULL);
        mx d = out.v[i].it;
        failed = list_push(dx, i >= nx || axes[i] >= 0 ? mx_moveaxis(d, 0, i < nx ? axes[i] : 0)
                                                       : mx_sum(d, (int[]){ 0 }, 1, false));
    }
    list_clear(&in);
    list_clear(&out);
    return failed;
}

static void destroy_mapped(struct object *o)
{
    struct mapped_rule *m = (struct mapped_rule *)o;
    object_release(&m->of->object);
    free(m->axes);
    free(m);
}

static void custom_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    struct vjp_rule *of = (struct vjp_rule *)((const struct custom_args *)c->args)->vjp;
    int nx = c->nin - c->nout;
    struct spec *specs = mx_malloc((size_t)c->nout * sizeof *specs);
    struct mapped_rule *m = specs ? mx_malloc(sizeof *m) : NULL;
    int *axes = m ? mx_malloc((size_t)c->nin * sizeof *axes) : NULL;
    if (!axes) {
        free(m);
        free(specs);
        return;
    }
    object_retain(&of->object);
    memcpy(axes, axis, (size_t)c->nin * sizeof *axes);
    *m = (struct mapped_rule){ { { .refs = 1, .destroy = destroy_mapped }, call_mapped }, of, nx, c->nout, axes };
    struct custom_args args = { &m->rule.object };
    struct call call = *c;
    call.args = &args;
    custom_shapes(&call, specs);
    mx_nodes(&op_custom, &args, c->nin, c->x, c->nout, specs, y);
    memcpy(yaxis, axis + nx, (size_t)c->nout * sizeof *yaxis);
    object_release(&m->rule.object);
    free(specs);
}

const struct op op_custom = {
    .id = OP_custom,
    .name = "custom",
    .label = "CustomTransforms",
    .traits = VIEW | FORWARDS,
    .args_size = sizeof(struct custom_args),
    .fields = custom_fields,
    .shapes = custom_shapes,
    .view = custom_view,
    .vjp = custom_vjp,
    .jvp = custom_jvp,
    .vmap = custom_vmap,
};

struct custom_closure {
    struct closure closure;
    struct closure *f;
    struct vjp_rule *rule;
};

static int custom_call(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct custom_closure *c = (struct custom_closure *)self;
    struct mx_list y = { 0 };
    int failed = c->f->call(c->f, n, x, &y);
    mx *in = failed ? NULL : mx_malloc((size_t)(n + 2 * y.n) * sizeof(mx));
    struct spec *specs = in ? mx_malloc((size_t)(y.n ? y.n : 1) * sizeof *specs) : NULL;
    failed = failed || !specs;
    if (!failed) {
        MX_SCOPE(NULL);
        mx *results = in + n + y.n;
        memcpy(in, x, (size_t)n * sizeof(mx));
        memcpy(in + n, y.v, (size_t)y.n * sizeof(mx));
        struct custom_args args = { &c->rule->object };
        struct call call = { .op = &op_custom, .args = &args, .nin = n + y.n, .nout = y.n, .x = in };
        custom_shapes(&call, specs);
        mx_nodes(&op_custom, &args, n + y.n, in, y.n, specs, results);
        for (int k = 0; k < y.n; k++)
            failed |= list_push(out, results[k]);
    }
    free(specs);
    free(in);
    list_clear(&y);
    return failed;
}

static void custom_destroy(struct object *o)
{
    struct custom_closure *c = (struct custom_closure *)o;
    object_release(&c->f->object);
    object_release(&c->rule->object);
    free(c);
}

struct closure *mx_custom_vjp(struct closure *f, struct vjp_rule *rule)
{
    struct custom_closure *c = mx_malloc(sizeof *c);
    if (!c)
        return NULL;
    object_retain(&f->object);
    object_retain(&rule->object);
    *c = (struct custom_closure){ { { .refs = 1, .destroy = custom_destroy }, custom_call }, f, rule };
    return &c->closure;
}
