/* vjp.c: derivatives of functions of arrays.
 *
 * A function is called on tracers, copies of its arguments that everything made from them is
 * flagged by.  The graph it built between tracers and results is recorded, and each entry's rule is
 * applied, users first for vjp, operands first for jvp.  Rules are written in builders, so what
 * comes out is again a graph and can be differentiated. */
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "transform/custom.h"
#include "transform/walk.h"

/* ---- tracing */

/* What one argument becomes inside: the same value, told apart from every other use of it. */
static mx tracer_of(mx x)
{
    mx y = x->status == READY && !is_traced(x) ? array_alias(x)
                                               : mx_node(&op_copy, NULL, 1, &x, x->ndim, x->shape, x->dtype);
    if (!is_nil(y))
        y->tracer = trace_of_both(y->tracer, trace_number());
    return y;
}

struct vjp_trace {
    struct mx_list in; /* the tracers */
    struct recording graph;
    bool recorded;
    int n_out;
};

/* A placeholder whose trace is over is of a function that was traced inside and stored it: what it depends on is not
 * known any more.  Outside of all traces none is still waiting for a value. */
static int check_stored(const struct vjp_trace *t, int n, const mx y[])
{
    for (int k = 0; k < n; k++)
        if (t->graph.foreign[t->graph.roots[k]] & (trace_any_open() ? FORGOTTEN : FOREIGN | FORGOTTEN)) {
            mx_fail_as(MX_RUNTIME,
                       "[vjp] result %d, of shape %s, is made of a placeholder of a function inside that was compiled "
                       "or transformed; what such a function stores elsewhere is not there: return it, or name it in "
                       "outputs= of compile",
                       k, shape_of(y[k]));
            return 1;
        }
    return 0;
}

static int trace_pullback(struct vjp_trace *t, struct closure *f, int n, const mx x[], struct mx_list *y)
{
    *t = (struct vjp_trace){ 0 };
    trace_begin();
    int failed = 0;
    {
        MX_SCOPE(NULL);
        for (int i = 0; i < n && !failed; i++) failed = list_push(&t->in, tracer_of(x[i]));
    }
    int first = y->n;
    mx *in = (mx *)t->in.v; /* mx_own holds nothing else */
    failed = failed || f->call(f, n, in, y);
    failed = failed || record(&t->graph, y->n - first, (mx *)y->v + first, n, in, true);
    trace_end();
    t->recorded = !failed;
    t->n_out = y->n - first;
    return failed || check_stored(t, t->n_out, (mx *)y->v + first);
}

static void vjp_trace_free(struct vjp_trace *t)
{
    if (t->recorded)
        recording_free(&t->graph);
    list_clear(&t->in);
}

_Static_assert(sizeof(mx_own) == sizeof(mx), "a list of owned arrays reads as an array of mx");

struct slots {
    mx *x, *y, *in, *out;
    bool *want;
};

static int slots_new(struct slots *s, const struct recording *g)
{
    size_t m = (size_t)recording_widest(g);
    s->x = mx_malloc(m * (4 * sizeof(mx) + sizeof(bool)));
    if (!s->x)
        return 1;
    s->y = s->x + m;
    s->in = s->y + m;
    s->out = s->in + m;
    s->want = (bool *)(s->out + m);
    return 0;
}

static int fail_no_rule(const struct op *op, const char *which)
{
    mx_fail("[%s] %s has no %s rule", which, op->label, which);
    return 1;
}

static mx_own *owned_slots(int n)
{
    mx_own *v = mx_malloc((size_t)(n ? n : 1) * sizeof *v);
    if (v)
        memset(v, 0, (size_t)(n ? n : 1) * sizeof *v);
    return v;
}

static void owned_free(mx_own *v, int n)
{
    for (int i = 0; v && i < n; i++) mx_drop(&v[i]);
    free(v);
}

static void accumulate(mx_own *slot, mx d) { mx_keep(slot, slot->it ? mx_add_cotangents(slot->it, d) : d); }

/* ---- reverse */

/* One entry: from the cotangents of its results to those of its operands. */
static int pull(const struct recording *g, const struct recorded *e, mx_own ct[], const struct slots *s)
{
    struct node *n = e->node;
    const int *in = g->numbers + e->at, *out = in + n->nin;
    bool any = false;
    for (int k = 0; k < n->nout; k++) {
        s->y[k] = g->values[out[k]].it;
        s->out[k] = ct[out[k]].it;
        any |= s->out[k] != NULL;
    }
    if (!any)
        return 0;
    if (!n->op->vjp)
        return fail_no_rule(n->op, "vjp");
    for (int i = 0; i < n->nin; i++) {
        s->x[i] = g->values[in[i]].it;
        s->want[i] = g->dependent[in[i]];
        s->in[i] = NULL;
    }
    struct call c = { n->op, n->args, n->nin, n->nout, s->x, s->y };
    MX_SCOPE(n->stream);
    n->op->vjp(&c, s->out, s->want, s->in);
    for (int i = 0; i < n->nin; i++)
        if (s->want[i] && s->in[i])
            accumulate(&ct[in[i]], mx_astype(s->in[i], (enum dtype)s->x[i]->dtype));
    for (int k = 0; k < n->nout; k++) mx_drop(&ct[out[k]]);
    return mx_failed();
}

/* ct[]: one slot for each value, seeded; on return those of the leaves are the gradients. */
static int pull_back(const struct recording *g, mx_own ct[])
{
    struct slots s;
    if (slots_new(&s, g))
        return 1;
    int failed = 0;
    for (int i = g->n; i-- > 0 && !failed;) failed = pull(g, &g->entries[i], ct, &s);
    free(s.x);
    return failed;
}

static int seed(const struct recording *g, mx_own ct[], int k, mx value)
{
    mx y = g->values[g->roots[k]].it;
    if (!same_shape(value, y)) {
        mx_fail("[vjp] cotangent %d: expected shape %s of the result, got %s", k, shape_of(y), shape_of(value));
        return 1;
    }
    mx_shape_checked(value, y); /* a graph for any shape fails as this does */
    if (!g->dependent[g->roots[k]])
        return mx_failed();
    if (dtype_loses_back(value->dtype, y->dtype))
        mx_fail("[vjp] cotangent %d: expected dtype %s of the result, got %s", k, dtype_name(y->dtype),
                dtype_name(value->dtype));
    else
        accumulate(&ct[g->roots[k]], mx_astype(value, (enum dtype)y->dtype));
    return mx_failed();
}

static int gradients(const struct vjp_trace *t, mx_own ct[], int n, const int *argnums, struct mx_list *dx)
{
    if (pull_back(&t->graph, ct))
        return 1;
    for (int i = 0; i < n; i++) {
        MX_SCOPE(NULL);
        int a = argnums ? argnums[i] : i;
        mx x = t->in.v[a].it;
        if (list_push(dx, ct[a].it ? ct[a].it : mx_zeros_like(x)))
            return 1;
    }
    return 0;
}

/* From cotangents of the results to those of the n arguments. */
static int pull_all(const struct vjp_trace *t, int n, int n_ct, const mx ct[], struct mx_list *dx)
{
    if (t->n_out != n_ct) {
        mx_fail("[vjp] expected one cotangent for each of the %d results, got %d", t->n_out, n_ct);
        return 1;
    }
    mx_own *slots = owned_slots(t->graph.n_values);
    int failed = !slots;
    for (int k = 0; k < n_ct && !failed; k++) {
        MX_SCOPE(NULL);
        failed = seed(&t->graph, slots, k, ct[k]);
    }
    failed = failed || gradients(t, slots, n, NULL, dx);
    owned_free(slots, t->graph.n_values);
    return failed;
}

int mx_vjp(struct closure *f, int n, const mx x[], int n_ct, const mx ct[], struct mx_list *y, struct mx_list *dx)
{
    struct vjp_trace t;
    int failed = trace_pullback(&t, f, n, x, y) || pull_all(&t, n, n_ct, ct, dx);
    vjp_trace_free(&t);
    return failed;
}

int mx_value_and_grad(struct closure *f, int n, const mx x[], const int *argnums, int n_arg, struct mx_list *y,
                      struct mx_list *dx)
{
    for (int i = 0; i < n_arg; i++)
        if (argnums[i] < 0 || argnums[i] >= n) {
            mx_fail("[grad] argument number %d is out of range for a function of %d arrays", argnums[i], n);
            return 1;
        }
    struct vjp_trace t;
    int first = y->n, failed = trace_pullback(&t, f, n, x, y);
    mx_own *slots = NULL;
    if (!failed && y->n == first) {
        mx_fail("[grad] the function returned nothing to differentiate");
        failed = 1;
    }
    mx loss = failed ? MX_NIL : y->v[first].it;
    if (!failed && loss->ndim) {
        mx_fail("[grad] expected a function whose first result is a scalar, got shape %s", shape_of(loss));
        failed = 1;
    }
    failed = failed || !(slots = owned_slots(t.graph.n_values));
    if (!failed) {
        MX_SCOPE(NULL);
        failed = seed(&t.graph, slots, 0, array_of_double(1, (enum dtype)loss->dtype));
    }
    failed = failed || gradients(&t, slots, n_arg, argnums, dx);
    owned_free(slots, t.graph.n_values);
    vjp_trace_free(&t);
    return failed;
}

/* ---- forward */

static int push_forward(const struct recording *g, const struct recorded *e, const bool needed[], mx_own tangent[],
                        const struct slots *s)
{
    struct node *n = e->node;
    const int *in = g->numbers + e->at, *out = in + n->nin;
    bool any = false, use = false;
    for (int i = 0; i < n->nin; i++) {
        s->x[i] = g->values[in[i]].it;
        s->in[i] = tangent[in[i]].it;
        any |= s->in[i] != NULL;
    }
    for (int k = 0; k < n->nout; k++) use |= needed[out[k]];
    if (!any || !use)
        return 0;
    if (!n->op->jvp)
        return fail_no_rule(n->op, "jvp");
    for (int k = 0; k < n->nout; k++) {
        s->y[k] = g->values[out[k]].it;
        s->out[k] = NULL;
    }
    struct call c = { n->op, n->args, n->nin, n->nout, s->x, s->y };
    MX_SCOPE(n->stream);
    n->op->jvp(&c, s->in, s->out);
    for (int k = 0; k < n->nout; k++)
        if (s->out[k])
            mx_keep(&tangent[out[k]], mx_astype(s->out[k], (enum dtype)s->y[k]->dtype));
    return mx_failed();
}

static int check_tangent(int i, mx x, mx t)
{
    if (!same_shape(x, t))
        mx_fail("[jvp] tangent %d: expected shape %s of the argument, got %s", i, shape_of(x), shape_of(t));
    else if (dtype_loses(t->dtype, x->dtype))
        mx_fail("[jvp] tangent %d: expected dtype %s of the argument, got %s", i, dtype_name(x->dtype),
                dtype_name(t->dtype));
    return mx_failed();
}

static int check_tangents(int n, const mx x[], int n_t, const mx tangents[])
{
    if (n != n_t) {
        mx_fail("[jvp] expected one tangent for each of the %d arguments, got %d", n, n_t);
        return 1;
    }
    for (int i = 0; i < n; i++)
        if (check_tangent(i, x[i], tangents[i]))
            return 1;
    MX_SCOPE(NULL);
    for (int i = 0; i < n; i++) mx_shape_checked(tangents[i], x[i]);
    return mx_failed();
}

/* From tangents of the arguments to those of the results. */
static int push_all(const struct vjp_trace *t, const mx tangents[], struct mx_list *dy)
{
    const struct recording *g = &t->graph;
    struct slots s = { 0 };
    mx_own *slots = owned_slots(g->n_values);
    bool *needed = recording_needs(g, t->n_out, jvp_reads);
    int failed = !slots || !needed || slots_new(&s, g);
    for (int i = 0; i < t->in.n && !failed; i++) {
        MX_SCOPE(NULL);
        mx_keep(&slots[i], mx_astype(tangents[i], (enum dtype)t->in.v[i].it->dtype));
        failed = mx_failed();
    }
    for (int i = 0; i < g->n && !failed; i++) failed = push_forward(g, &g->entries[i], needed, slots, &s);
    for (int k = 0; k < t->n_out && !failed; k++) {
        MX_SCOPE(NULL);
        mx d = slots[g->roots[k]].it;
        failed = list_push(dy, d ? d : mx_zeros_like(g->values[g->roots[k]].it));
    }
    free(s.x);
    free(needed);
    owned_free(slots, g->n_values);
    return failed;
}

int mx_jvp(struct closure *f, int n, const mx x[], int n_t, const mx tangents[], struct mx_list *y, struct mx_list *dy)
{
    if (check_tangents(n, x, n_t, tangents))
        return 1;
    struct vjp_trace t;
    int failed = trace_pullback(&t, f, n, x, y) || push_all(&t, tangents, dy);
    vjp_trace_free(&t);
    return failed;
}

/* ---- derivatives to be called again: the trace, kept */

struct derivative {
    struct closure closure;
    struct vjp_trace trace;
};

static int call_forward(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct vjp_trace *t = &((struct derivative *)self)->trace;
    return check_tangents(t->in.n, (mx *)t->in.v, n, x) || push_all(t, x, out);
}

static int call_back(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct vjp_trace *t = &((struct derivative *)self)->trace;
    return pull_all(t, t->in.n, n, x, out);
}

static void derivative_destroy(struct object *o)
{
    vjp_trace_free(&((struct derivative *)o)->trace);
    free(o);
}

static struct closure *derivative_at(int (*call)(struct closure *, int, const mx[], struct mx_list *),
                                     struct closure *f, int n, const mx x[], struct mx_list *y)
{
    struct derivative *d = mx_malloc(sizeof *d);
    if (!d)
        return NULL;
    d->closure = (struct closure){ { .refs = 1, .destroy = derivative_destroy }, call };
    if (!trace_pullback(&d->trace, f, n, x, y))
        return &d->closure;
    object_release(&d->closure.object);
    return NULL;
}

struct closure *mx_linearize(struct closure *f, int n, const mx x[], struct mx_list *y)
{
    return derivative_at(call_forward, f, n, x, y);
}

struct closure *mx_pullback(struct closure *f, int n, const mx x[], struct mx_list *y)
{
    return derivative_at(call_back, f, n, x, y);
}
