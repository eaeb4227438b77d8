/* custom.c: functions whose rules are given by their author.
 *
 * A node at the exit of the function takes the arguments and then the results, and passes the results
 * on.  A rule stands there in place of what the operations in between would do: vjp sends nothing into
 * the results, jvp and vmap ask nothing of them.  Without a rule, what comes from there goes through. */
#include "transform/custom.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "ops/rules.h"

struct custom_args {
    struct object *vjp, *jvp, *vmap;
};
static const struct field custom_args_fields[] = {
    FIELD(custom_args, vjp), FIELD(custom_args, jvp), FIELD(custom_args, vmap), { 0 }
};

static const struct custom_args *args_of(const struct call *c) { return c->args; }
/* How many arguments there are before the results. */
static int arguments(const struct call *c) { return c->nin - c->nout; }

static bool custom_view(const struct call *c, mx y)
{
    mx x = c->x[arguments(c) + y->out];
    memcpy(y->strides, x->strides, (size_t)x->ndim * sizeof *x->strides);
    y->offset = x->offset;
    return true;
}

static int custom_shapes(const struct call *c, struct spec out[])
{
    for (int k = 0; k < c->nout; k++) {
        mx x = c->x[arguments(c) + k];
        out[k] = (struct spec){ .dtype = x->dtype, .ndim = x->ndim };
        memcpy(out[k].shape, x->shape, (size_t)x->ndim * sizeof(int));
    }
    return 0;
}

/* ---- calls of rules, whose results are shaped like n other arrays */

static int check_shapes(const char *rule, const struct mx_list *got, int n, const mx like[])
{
    for (int i = 0; i < n; i++)
        if (!same_shape(got->v[i].it, like[i])) {
            mx_fail("[custom_function] array %d from the %s rule: expected shape %s, got %s", i, rule,
                    shape_of(like[i]), shape_of(got->v[i].it));
            return 1;
        }
    return 0;
}

static int wrong_count(const char *rule, const char *which, int n, int got)
{
    mx_fail("[custom_function] expected %d arrays from the %s rule, one for each %s, got %d", n, rule, which, got);
    return 1;
}

/* May give fewer than nx: what is behind is not asked for. */
static int custom_rule_vjp(struct object *rule, int nx, const mx x[], int ny, const mx y[], const mx ct[],
                           struct mx_list *dx)
{
    struct vjp_rule *r = (struct vjp_rule *)rule;
    return r->call(r, nx, x, ny, y, ct, dx) || (dx->n > nx && wrong_count("vjp", "argument", nx, dx->n)) ||
           check_shapes("vjp", dx, dx->n, x);
}

static int custom_rule_jvp(struct object *rule, int nx, const mx x[], const mx t[], int ny, const mx y[],
                           struct mx_list *dy)
{
    struct jvp_rule *r = (struct jvp_rule *)rule;
    return r->call(r, nx, x, ny, y, t, dy) || (dy->n != ny && wrong_count("jvp", "result", ny, dy->n)) ||
           check_shapes("jvp", dy, ny, y);
}

/* Owned by the list, lent to the scope, of the type of `like`, which has to be able to hold it. */
static mx lent_like(const char *rule, bool (*loses)(enum dtype, enum dtype), const struct mx_list *l, int i, mx like)
{
    mx x = l->v[i].it;
    if (loses(x->dtype, like->dtype))
        return mx_fail("[custom_function] array %d from the %s rule: expected dtype %s, got %s", i, rule,
                       dtype_name(like->dtype), dtype_name(x->dtype));
    mx_retain(x);
    return mx_astype(scope_lend(x), (enum dtype)like->dtype);
}

/* Rules run user code, which may let go of what a scope has lent. */
static int own(struct mx_list *l, int n, const mx x[])
{
    int failed = 0;
    for (int i = 0; i < n && !failed; i++) failed = list_push(l, x[i]);
    return failed;
}

/* ---- derivatives */

static void custom_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    int nx = arguments(c), ny = c->nout;
    struct object *rule = args_of(c)->vjp;
    if (!rule) {
        for (int k = 0; k < ny; k++) dx[nx + k] = ct[k];
        return;
    }
    struct mx_list in = { 0 }, out = { 0 };
    int failed = own(&in, nx, c->x) || own(&in, ny, c->y);
    for (int k = 0; k < ny && !failed; k++) failed = list_push(&in, ct[k] ? ct[k] : mx_zeros_like(c->y[k]));
    const mx *x = (mx *)in.v;
    failed = failed || custom_rule_vjp(rule, nx, x, ny, x + nx, x + nx + ny, &out);
    for (int i = 0; i < nx && !failed; i++) {
        if (!want[i])
            continue;
        if (i < out.n)
            dx[i] = lent_like("vjp", dtype_loses_back, &out, i, c->x[i]);
        else
            failed = wrong_count("vjp", "argument", nx, out.n);
    }
    list_clear(&in);
    list_clear(&out);
}

static void custom_jvp(const struct call *c, const mx t[], mx dy[])
{
    int nx = arguments(c), ny = c->nout;
    struct object *rule = args_of(c)->jvp;
    if (!rule) {
        for (int k = 0; k < ny; k++) dy[k] = t[nx + k];
        return;
    }
    bool any = false;
    for (int i = 0; i < nx; i++) any |= t[i] != NULL;
    if (!any) /* what varies has come some other way than through the arguments */
        return;
    struct mx_list in = { 0 }, out = { 0 };
    int failed = own(&in, nx, c->x) || own(&in, ny, c->y);
    for (int i = 0; i < nx && !failed; i++) /* own the tangents as well */
        failed = t[i] && list_push(&in, t[i]);
    const mx *x = (mx *)in.v;
    if (!failed && !custom_rule_jvp(rule, nx, x, t, ny, x + nx, &out))
        for (int k = 0; k < ny; k++) dy[k] = lent_like("jvp", dtype_loses, &out, k, c->y[k]);
    list_clear(&in);
    list_clear(&out);
}

/* ---- vmap
 *
 * A derivative rule of a mapped function is the rule mapped, over what is batched of its operands,
 * results and directions.  An operand that is not gets the sum over the batch. */

struct mapped_rule {
    union {
        struct object object;
        struct vjp_rule vjp;
        struct jvp_rule jvp;
    } as;
    struct object *of;
    int nx, ny, size; /* of the batch */
    int axes[];       /* of the arguments (-1: not batched), then of the results */
};

struct inner {
    struct closure closure;
    const struct mapped_rule *m;
    const mx *t; /* NULL where an argument does not vary */
};

/* On x, y and the cotangents. */
static int inner_vjp(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct mapped_rule *m = ((struct inner *)self)->m;
    (void)n;
    return custom_rule_vjp(m->of, m->nx, x, m->ny, x + m->nx, x + m->nx + m->ny, out);
}

/* On x, y and a tangent for each x that varies. */
static int inner_jvp(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct inner *f = (struct inner *)self;
    const struct mapped_rule *m = f->m;
    mx *t = mx_malloc((size_t)m->nx * sizeof *t);
    int given = m->nx + m->ny;
    (void)n;
    for (int i = 0; t && i < m->nx; i++) t[i] = f->t[i] ? x[given++] : NULL;
    int failed = !t || custom_rule_jvp(m->of, m->nx, x, t, m->ny, x + m->nx, out);
    free(t);
    return failed;
}

/* f, a rule, mapped over x, y and those of the n directions that are there. */
static int map_rule(const struct mapped_rule *m, struct closure *f, const mx x[], const mx y[], int n,
                    const mx direction[], const int direction_axes[], struct mx_list *out)
{
    int total = m->nx + m->ny;
    size_t most = (size_t)total + (size_t)n;
    mx *in = mx_malloc(most * (sizeof *in + sizeof(int)));
    if (!in)
        return 1;
    int *axes = (int *)(in + most);
    memcpy(in, x, (size_t)m->nx * sizeof *in);
    memcpy(in + m->nx, y, (size_t)m->ny * sizeof *in);
    memcpy(axes, m->axes, (size_t)total * sizeof *axes);
    for (int i = 0; i < n; i++)
        if (direction[i]) {
            in[total] = direction[i];
            axes[total++] = direction_axes[i];
        }
    int failed = mx_vmap(f, total, in, axes, out);
    free(in);
    return failed;
}

/* The cotangent of a result that is the same for the whole batch, shared out among its n members. */
static mx share_of_batch(mx ct, int n)
{
    shapes_matter("a custom rule, mapped");
    return mx_multiply(ct, array_of_double(1.0 / n, (enum dtype)ct->dtype));
}

static int call_mapped_vjp(struct vjp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx ct[],
                           struct mx_list *dx)
{
    const struct mapped_rule *m = (struct mapped_rule *)self;
    struct inner f = { { { .refs = 1 }, inner_vjp }, m, NULL };
    struct mx_list parts = { 0 }, out = { 0 };
    int failed = 0;
    for (int k = 0; k < ny && !failed; k++) {
        MX_SCOPE(NULL);
        failed = list_push(&parts, m->axes[nx + k] >= 0 ? ct[k] : share_of_batch(ct[k], m->size));
    }
    failed = failed || map_rule(m, &f.closure, x, y, ny, (mx *)parts.v, m->axes + nx, &out);
    for (int i = 0; i < out.n && !failed; i++) {
        MX_SCOPE(NULL);
        mx d = out.v[i].it;
        failed = list_push(dx, m->axes[i] >= 0 ? mx_moveaxis(d, 0, m->axes[i]) : mx_sum(d, (int[]){ 0 }, 1, false));
    }
    list_clear(&parts);
    list_clear(&out);
    return failed;
}

static int call_mapped_jvp(struct jvp_rule *self, int nx, const mx x[], int ny, const mx y[], const mx t[],
                           struct mx_list *dy)
{
    const struct mapped_rule *m = (struct mapped_rule *)self;
    struct inner f = { { { .refs = 1 }, inner_jvp }, m, t };
    struct mx_list out = { 0 };
    int failed = map_rule(m, &f.closure, x, y, nx, t, m->axes, &out);
    for (int k = 0; k < ny && !failed; k++) {
        MX_SCOPE(NULL);
        mx d = out.v[k].it;
        int axis = m->axes[nx + k];
        failed = list_push(dy, axis >= 0 ? mx_moveaxis(d, 0, axis) : mx_take(d, array_of_int(0, DT_int32), 0));
    }
    list_clear(&out);
    return failed;
}

static void destroy_mapped(struct object *o)
{
    object_release(((struct mapped_rule *)o)->of);
    free(o);
}

static struct mapped_rule *mapped_new(struct object *of, int size, int nx, const int axis[], int ny, const int yaxis[])
{
    if (!of)
        return NULL;
    struct mapped_rule *m = mx_malloc(sizeof *m + (size_t)(nx + ny) * sizeof(int));
    if (!m)
        return NULL;
    m->as.object = (struct object){ .refs = 1, .destroy = destroy_mapped };
    m->of = of;
    m->nx = nx;
    m->ny = ny;
    m->size = size;
    memcpy(m->axes, axis, (size_t)nx * sizeof(int));
    memcpy(m->axes + nx, yaxis, (size_t)ny * sizeof(int));
    object_retain(of);
    return m;
}

/* A node at the exit; `out` may be `y`. */
static void exit_node(const struct custom_args *args, int nx, const mx x[], int ny, const mx y[], mx out[])
{
    mx *all = mx_malloc((size_t)(nx + ny) * sizeof *all);
    for (int k = 0; k < ny && !all; k++) out[k] = MX_NIL;
    if (!all)
        return;
    for (int i = 0; i < nx + ny; i++) all[i] = i < nx ? x[i] : y[i - nx];
    mx_infer_n(&op_custom, args, nx + ny, all, ny, out);
    free(all);
}

void custom_exit(struct vjp_rule *vjp, int nx, const mx x[], int ny, const mx y[], mx out[])
{
    exit_node(&(struct custom_args){ .vjp = &vjp->object }, nx, x, ny, y, out);
}

/* Is y, with a batch along `axis`, of the shape of `like` with one along its own? */
static bool batch_fits(mx y, int axis, mx like, int like_axis, int size)
{
    if (axis < -1 || axis >= y->ndim || y->ndim - (axis >= 0) != like->ndim - (like_axis >= 0) ||
        (axis >= 0 && y->shape[axis] != size))
        return false;
    bool same = true;
    for (int i = 0, k = 0; i < y->ndim; i++) {
        if (i == axis)
            continue;
        k += k == like_axis;
        same = same && y->shape[i] == like->shape[k++];
    }
    return same;
}

/* The results that the vmap rule gives for the batch. */
static int by_rule(const struct call *c, int size, const int axis[], mx y[], int yaxis[])
{
    struct vmap_rule *rule = (struct vmap_rule *)args_of(c)->vmap;
    int nx = arguments(c), ny = c->nout;
    struct mx_list in = { 0 }, out = { 0 };
    int failed = own(&in, nx, c->x) || rule->call(rule, nx, (mx *)in.v, axis, ny, &out, yaxis);
    if (!failed && out.n != ny)
        failed = wrong_count("vmap", "result", ny, out.n);
    for (int k = 0; k < ny && !failed; k++) {
        mx like = c->x[nx + k];
        y[k] = lent_like("vmap", dtype_loses, &out, k, like);
        failed = is_nil(y[k]);
        if (!failed && (failed = !batch_fits(y[k], yaxis[k], like, axis[nx + k], size)))
            mx_fail("[custom_function] result %d of the vmap rule: expected shape %s with a batch of %d, got %s with "
                    "it along axis %d",
                    k, shape_of(like), size, shape_of(y[k]), yaxis[k]);
    }
    list_clear(&in);
    list_clear(&out);
    return failed;
}

static void custom_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    const struct custom_args *args = args_of(c);
    int nx = arguments(c), ny = c->nout, size = 0;
    bool any = false;
    for (int i = 0; i < c->nin; i++)
        if (axis[i] >= 0) {
            size = c->x[i]->shape[axis[i]];
            any |= i < nx;
        }
    if (any && args->vmap) {
        if (by_rule(c, size, axis, y, yaxis))
            return;
    } else { /* by the operations, or the batch has come some other way than through the arguments */
        memcpy(y, c->x + nx, (size_t)ny * sizeof *y);
        memcpy(yaxis, axis + nx, (size_t)ny * sizeof *yaxis);
    }
    if (!tracing() && !any_traced(c->nin, c->x)) /* nobody asks for rules any more */
        return;
    struct mapped_rule *vjp = mapped_new(args->vjp, size, nx, axis, ny, yaxis);
    struct mapped_rule *jvp = mapped_new(args->jvp, size, nx, axis, ny, yaxis);
    if (vjp)
        vjp->as.vjp.call = call_mapped_vjp;
    if (jvp)
        jvp->as.jvp.call = call_mapped_jvp;
    if ((vjp || jvp) && !mx_failed())
        exit_node(&(struct custom_args){ (struct object *)vjp, (struct object *)jvp, NULL }, nx, c->x, ny, y, y);
    object_release((struct object *)vjp);
    object_release((struct object *)jvp);
}

int jvp_reads(const struct node *n)
{
    bool rule = n->op == &op_custom && ((const struct custom_args *)n->args)->jvp;
    return rule ? n->nin - n->nout : n->nin;
}

int vmap_reads(const struct node *n)
{
    bool rule = n->op == &op_custom && ((const struct custom_args *)n->args)->vmap;
    return rule ? n->nin - n->nout : n->nin;
}

const struct op op_custom = {
    OP_ROW(custom),    ARGS(custom_args), .shapes = custom_shapes, .view = custom_view,
    .vjp = custom_vjp, .jvp = custom_jvp, .vmap = custom_vmap,
};

/* ---- the function */

struct custom_closure {
    struct closure closure;
    struct closure *f;
    struct custom_args rules;
};

/* Pushes what the exit passes on. */
static int push_exit(const struct custom_args *rules, int n, const mx x[], const struct mx_list *y, struct mx_list *out)
{
    mx *passed = mx_malloc((size_t)(y->n ? y->n : 1) * sizeof *passed);
    int failed = !passed;
    if (!failed && y->n) {
        MX_SCOPE(NULL);
        exit_node(rules, n, x, y->n, (mx *)y->v, passed);
        for (int k = 0; k < y->n && !failed; k++) failed = list_push(out, passed[k]);
    }
    free(passed);
    return failed;
}

static int custom_call(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    struct custom_closure *c = (struct custom_closure *)self;
    if (!n)
        return c->f->call(c->f, n, x, out);
    struct mx_list y = { 0 };
    int failed = c->f->call(c->f, n, x, &y);
    if (!failed && (tracing() || any_traced(n, x) || any_traced(y.n, (mx *)y.v)))
        failed = push_exit(&c->rules, n, x, &y, out);
    else
        failed = failed || list_push_all(out, y.n, (mx *)y.v);
    list_clear(&y);
    return failed;
}

static void custom_destroy(struct object *o)
{
    struct custom_closure *c = (struct custom_closure *)o;
    object_release(&c->f->object);
    object_release(c->rules.vjp);
    object_release(c->rules.jvp);
    object_release(c->rules.vmap);
    free(c);
}

static void retain(struct object *o)
{
    if (o)
        object_retain(o);
}

struct closure *mx_custom_function(struct closure *f, struct vjp_rule *vjp, struct jvp_rule *jvp,
                                   struct vmap_rule *vmap)
{
    struct custom_closure *c = mx_malloc(sizeof *c);
    if (!c)
        return NULL;
    *c = (struct custom_closure){ { { .refs = 1, .destroy = custom_destroy }, custom_call },
                                  f,
                                  { (struct object *)vjp, (struct object *)jvp, (struct object *)vmap } };
    retain(&f->object);
    retain(c->rules.vjp);
    retain(c->rules.jvp);
    retain(c->rules.vmap);
    return &c->closure;
}
