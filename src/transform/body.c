/* body.c: the bodies of loops and branches, and bodies made of them. */
#include "transform/body.h"

#include <stdlib.h>

#include "core/buffer.h"
#include "core/scope.h"
#include "core/shape.h"
#include "ops/rules.h"

void *mx_zeroed(int64_t n, size_t size) { return mx_calloc((size_t)n + 1, size); }

mx list_lent(const struct mx_list *l, int i)
{
    mx_retain(l->v[i].it);
    return scope_lend(l->v[i].it);
}

/* ---- traced by itself */

static bool stays(mx x) { return !x->tracer && atomic_load(&x->status) == READY && x->ndim == 0; }

static int find_captured(const struct graph *g, struct mx_list *captured)
{
    bool *made = mx_zeroed(g->r.n_values, sizeof *made);
    int failed = !made;
    for (int i = 0; i < g->r.n && !failed; i++)
        for (int k = 0; k < g->r.entries[i].node->nout; k++) made[graph_makes(g, i)[k]] = true;
    for (int i = g->n_in; i < g->r.n_values && !failed; i++)
        if (!made[i] && g->r.values[i].it && !stays(g->r.values[i].it))
            failed = list_push(captured, g->r.values[i].it);
    free(made);
    return failed;
}

/* What was recorded with arrays of others as its last inputs, with placeholders instead. */
static struct graph *by_itself(const struct graph *g, int n, const mx like[])
{
    struct mx_list x = { 0 }, y = { 0 };
    struct graph *made = NULL;
    uint32_t clock = node_clock();
    if (!graph_placeholders(n, like, &x) && !graph_call(g, n, (mx *)x.v, &y))
        made = graph_since(clock, n, (mx *)x.v, y.n, (mx *)y.v);
    list_clear(&x);
    list_clear(&y);
    return made;
}

static struct graph *graph_between(bool whole, uint32_t clock, const struct mx_list *in, const struct mx_list *out)
{
    return whole ? graph_since(clock, in->n, (mx *)in->v, out->n, (mx *)out->v)
                 : graph_of(in->n, (mx *)in->v, out->n, (mx *)out->v);
}

int body_of(struct body *b, bool whole, uint32_t clock, struct mx_list *in, const struct mx_list *out)
{
    struct graph *g = graph_between(whole, clock, in, out);
    *b = (struct body){ 0 };
    int n = in->n, failed = !g || find_captured(g, &b->captured);
    for (int i = 0; i < b->captured.n && !failed; i++) failed = list_push(in, b->captured.v[i].it);
    struct graph *between = g;
    if (!failed && in->n > n)
        between = graph_between(whole, clock, in, out);
    b->g = failed || !between ? NULL : by_itself(between, in->n, (mx *)in->v);
    if (between != g)
        object_release((struct object *)between);
    object_release((struct object *)g);
    if (b->g && b->g->loops >= LOOPS_MOST) {
        mx_fail("[control] expected at most %d loops and branches in each other", LOOPS_MOST);
        object_release(&b->g->object);
        b->g = NULL;
    }
    if (b->g)
        graph_simplify(b->g);
    return !b->g;
}

int body_trace(struct body *b, struct closure *f, int n, const mx like[], bool whole)
{
    struct mx_list in = { 0 }, out = { 0 };
    *b = (struct body){ 0 };
    if (shapeless())
        shapes_matter("a loop or a branch");
    struct shapeless_trace *said = shapeless_begin(false);
    if (!said)
        return 1;
    trace_begin();
    uint32_t clock = node_clock();
    int failed =
        graph_placeholders(n, like, &in) || f->call(f, n, (mx *)in.v, &out) || body_of(b, whole, clock, &in, &out);
    trace_end();
    shapeless_free(said);
    for (int i = 0; i < n && i < in.n; i++) graph_forget(in.v[i].it); /* behind them is what it captured */
    list_clear(&in);
    list_clear(&out);
    return failed;
}

void body_free(struct body *b)
{
    if (b->g)
        object_release(&b->g->object);
    list_clear(&b->captured);
}

/* ---- parts */

static int call_part(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct graph_part *p = (struct graph_part *)self;
    struct mx_list y = { 0 };
    mx *all = mx_zeroed(p->g->n_in, sizeof *all);
    int failed = !all;
    for (int i = 0; i < p->g->n_in && !failed; i++) all[i] = p->x ? p->x[i] : x[i];
    for (int i = 0; i < n && !failed; i++) all[p->in ? p->in[i] : i] = x[i];
    failed = failed || graph_call(p->g, p->g->n_in, all, &y);
    for (int k = 0; k < p->n_out && !failed; k++) failed = list_push(out, y.v[p->out ? p->out[k] : k].it);
    list_clear(&y);
    free(all);
    return failed;
}

struct graph_part graph_part(const struct graph *g, const mx x[], const int *in, int n_out, const int *out)
{
    return (struct graph_part){ { { .refs = 1 }, call_part }, g, x, in, out, out ? n_out : g->n_out };
}

static int call_capturing(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct capturing *c = (struct capturing *)self;
    mx *all = mx_zeroed((int64_t)n + c->n, sizeof *all);
    for (int i = 0; i < n + c->n && all; i++) all[i] = i < n ? x[i] : c->x[i - n];
    int failed = !all || c->of->call(c->of, n + c->n, all, out);
    free(all);
    return failed;
}

struct capturing capturing(struct closure *of, int n, const mx x[])
{
    return (struct capturing){ { { .refs = 1 }, call_capturing }, of, n, x };
}

/* ---- dependence */

static bool counts(mx x, bool derivatives) { return !derivatives || has_derivative(x); }

int graph_spread(const struct graph *g, const bool in[], bool out[], bool derivatives)
{
    bool *v = mx_zeroed(g->r.n_values, sizeof *v);
    if (!v)
        return 1;
    for (int i = 0; i < g->n_in; i++) v[i] = in[i] && counts(g->r.values[i].it, derivatives);
    for (int i = 0; i < g->r.n; i++) {
        const struct node *n = g->r.entries[i].node;
        bool any = false, stops = derivatives && n->op->jvp == no_jvp;
        for (int k = 0; k < n->nin && !stops; k++) any |= v[graph_reads(g, i)[k]];
        for (int k = 0; k < n->nout; k++)
            v[graph_makes(g, i)[k]] = any && counts(g->r.values[graph_makes(g, i)[k]].it, derivatives);
    }
    for (int k = 0; k < g->n_out; k++) out[k] = v[g->r.roots[k]];
    free(v);
    return 0;
}

/* ---- batches */

/* Nothing is batched; some results are to be. */
static int repeat_graph(const struct graph *g, int n, const mx x[], const bool batched[], struct mx_list *y)
{
    struct mx_list one = { 0 };
    int failed = graph_call(g, g->n_in, x, &one);
    for (int k = 0; k < one.n && !failed; k++) {
        MX_SCOPE(NULL);
        failed = list_push(y, batched[k] ? batch_all(one.v[k].it, -1, size_is(n)) : one.v[k].it);
    }
    list_clear(&one);
    return failed;
}

int graph_map(const struct graph *g, int n, const mx x[], const int axes[], const bool batched[], struct mx_list *y)
{
    struct graph_part f = graph_part(g, NULL, NULL, 0, NULL);
    struct mx_list in = { 0 }, out = { 0 };
    bool any = false;
    for (int i = 0; i < g->n_in; i++) any |= axes[i] >= 0;
    if (!any)
        return repeat_graph(g, n, x, batched, y);
    int *to = mx_zeroed(g->n_out, sizeof *to);
    for (int k = 0; k < g->n_out && to; k++) to[k] = batched[k] ? 0 : VMAP_NONE;
    int failed = !to || mx_vmap_trace(&f.closure, g->n_in, x, axes, &in, &out) ||
                 mx_vmap_replace(g->n_in, x, (mx *)in.v, axes, out.n, (mx *)out.v, to, y);
    free(to);
    list_clear(&in);
    list_clear(&out);
    return failed;
}

mx lifted_like(mx p, mx x)
{
    int axes[MX_MAX_NDIM];
    for (int i = 1; i < x->ndim; i++) axes[i - 1] = i;
    return x->ndim > 1 ? mx_expand_dims(p, axes, x->ndim - 1) : p;
}

/* ---- nodes of bodies */

int body_check(const char *op, int n, const mx before[], const struct graph *g)
{
    for (int i = 0; i < n; i++) {
        mx y = g->r.values[g->r.roots[i]].it, x = before[i];
        if (same_shape(x, y) && x->dtype == y->dtype)
            continue;
        mx_fail("[%s] expected carry %d to stay %s of shape %s, got %s of shape %s", op, i, dtype_name(x->dtype),
                shape_of(x), dtype_name(y->dtype), shape_of(y));
        return 1;
    }
    return 0;
}

int list_push_node(const struct op *op, const void *args, const struct mx_list *in, int nout, int n,
                   struct mx_list *out)
{
    mx *y = mx_zeroed(nout, sizeof *y);
    int bad = !y;
    if (!bad && nout) {
        MX_SCOPE(NULL);
        mx_infer_n(op, args, in->n, (mx *)in->v, nout, y);
        for (int k = 0; k < n && !bad; k++) bad = list_push(out, y[k]);
    }
    free(y);
    return bad;
}

int list_push_captured(struct mx_list *l, const struct body *b)
{
    return list_push_all(l, b->captured.n, (mx *)b->captured.v);
}
