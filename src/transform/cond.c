/* cond.c: branches.
 *
 * The branches of derivatives and batches are made from those of the node by the same transform.  They
 * have no arguments: what the rule was handed is captured, and only what is made inside is computed
 * inside. */
#include "transform/control.h"

#include <stdlib.h>

#include "core/scope.h"
#include "core/shape.h"
#include "ops/ops.h"
#include "ops/rules.h"
#include "transform/body.h"

/* The branch's inputs among the operands. */
static void branch(const struct cond_args *a, bool yes, int nin, const mx x[], mx in[])
{
    int n = a->n, from = yes ? n : n + a->n_yes;
    body_operands(x + 1, n, from, yes ? from + a->n_yes : nin - 1, in);
}

static struct graph *branch_at(const struct call *c, bool yes)
{
    const struct cond_args *a = c->args;
    struct graph *g = graph_in(yes ? a->yes : a->no);
    struct dims *in = mx_zeroed(c->nin, sizeof *in);
    mx *x = in ? mx_zeroed(c->nin, sizeof *x) : NULL;
    if (x) {
        branch(a, yes, c->nin, c->x, x);
        body_dims(g->n_in, x, 0, 0, in);
        g = graph_at(g, in);
    }
    free(x);
    free(in);
    return x ? g : NULL;
}

static int check_branches(const struct graph *yes, const struct graph *no)
{
    if (yes->n_out != no->n_out)
        return failed(
            mx_fail("[cond] expected branches with results alike, got %d and %d arrays", yes->n_out, no->n_out));
    for (int k = 0; k < yes->n_out; k++) {
        mx y = yes->r.values[yes->r.roots[k]].it, z = no->r.values[no->r.roots[k]].it;
        if (!same_shape(y, z) || y->dtype != z->dtype)
            return failed(mx_fail("[cond] expected branches with results alike, got %s of shape %s where the predicate "
                                  "holds and %s of shape %s where not (result %d)",
                                  dtype_name(y->dtype), shape_of(y), dtype_name(z->dtype), shape_of(z), k));
    }
    return 0;
}

static int cond_shapes(const struct call *c, struct spec out[])
{
    struct graph *yes = branch_at(c, true), *no = yes ? branch_at(c, false) : NULL;
    int bad = !no || check_branches(yes, no);
    for (int k = 0; k < c->nout && !bad; k++) spec_like(&out[k], yes->r.values[yes->r.roots[k]].it);
    if (yes)
        object_release(&yes->object);
    if (no)
        object_release(&no->object);
    return bad;
}

int mx_cond(mx pred, struct closure *yes, struct closure *no, int n, const mx x[], struct mx_list *out)
{
    struct mx_list in = { 0 };
    struct body a = { 0 }, b = { 0 };
    if (is_nil(pred) || pred->ndim)
        return failed(mx_fail("[cond] expected a scalar predicate, got an array of shape %s", shape_of(pred)));
    int bad = mx_failed();
    if (!bad) {
        MX_SCOPE(NULL);
        bad = list_push(&in, mx_astype(pred, DT_bool_));
    }
    bad = bad || list_push_all(&in, n, x) || body_trace(&a, yes, n, (mx *)in.v + 1, true) ||
          body_trace(&b, no, n, (mx *)in.v + 1, true) || check_branches(a.g, b.g) || list_push_captured(&in, &a) ||
          list_push_captured(&in, &b);
    if (!bad) {
        struct cond_args args = { &a.g->object, &b.g->object, n, a.captured.n };
        bad = list_push_node(&op_cond, &args, &in, a.g->n_out, a.g->n_out, out);
    }
    list_clear(&in);
    body_free(&a);
    body_free(&b);
    return bad;
}

/* Branches of a rule get what it was handed as captured arrays, and have no arguments. */
struct branch_rule {
    struct closure closure;
    const struct graph *g;
    const mx *x;      /* the branch's inputs */
    const int *at;    /* which operand each is */
    const mx *ct, *t; /* by result; by operand */
    const bool *want, *batched;
    const int *axes; /* by operand */
    int n_ops, size; /* operands; of the batch */
};

/* Pushes the cotangent of every operand that is wanted. */
static int cond_vjp_branch(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct branch_rule *r = (struct branch_rule *)self;
    int n_in = r->g->n_in, n_out = r->g->n_out, n_w = 0, n_d = 0;
    struct mx_list y = { 0 }, dx = { 0 };
    int *w = mx_zeroed(n_in + n_out, sizeof *w), *d = w + n_in;
    mx *by = w ? mx_zeroed(n_in + n_out, sizeof *by) : NULL, *cts = by + n_in;
    (void)n, (void)x;
    if (!by)
        return free(w), 1;
    for (int i = 0; i < n_in; i++)
        if (r->want[r->at[i]])
            by[n_w] = r->x[i], w[n_w++] = i;
    for (int k = 0; k < n_out; k++)
        if (r->ct[k])
            cts[n_d] = r->ct[k], d[n_d++] = k;
    struct graph_part f = graph_part(r->g, r->x, w, n_d, d);
    int bad = n_w && mx_vjp(&f.closure, n_w, by, n_d, cts, &y, &dx);
    MX_SCOPE(NULL);
    for (int i = 0; i < r->n_ops && !bad; i++) {
        int k = 0;
        while (k < n_w && r->at[w[k]] != i) k++;
        if (r->want[i])
            bad = list_push(out, k < n_w ? dx.v[k].it : mx_zeros_like(r->t[i]));
    }
    list_clear(&dx);
    free(by);
    list_clear(&y);
    free(w);
    return bad;
}

static int cond_jvp_branch(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct branch_rule *r = (struct branch_rule *)self;
    int n_in = r->g->n_in, n_w = 0;
    struct mx_list y = { 0 }, dy = { 0 };
    int *w = mx_zeroed(n_in, sizeof *w);
    mx *by = w ? mx_zeroed(n_in + n_in, sizeof *by) : NULL, *t = by + n_in;
    (void)n, (void)x;
    if (!by)
        return free(w), 1;
    for (int i = 0; i < n_in; i++)
        if (r->t[r->at[i]])
            by[n_w] = r->x[i], t[n_w] = r->t[r->at[i]], w[n_w++] = i;
    struct graph_part f = graph_part(r->g, r->x, w, 0, NULL);
    int bad = mx_jvp(&f.closure, n_w, by, n_w, t, &y, &dy) || list_push_all(out, dy.n, (mx *)dy.v);
    list_clear(&dy);
    free(by);
    list_clear(&y);
    free(w);
    return bad;
}

static int cond_map_branch(struct closure *self, int n, const mx x[], struct mx_list *out)
{
    const struct branch_rule *r = (struct branch_rule *)self;
    int n_in = r->g->n_in;
    int *axes = mx_zeroed(n_in, sizeof *axes);
    (void)n, (void)x;
    for (int i = 0; axes && i < n_in; i++) axes[i] = r->axes[r->at[i]];
    int bad = !axes || graph_map(r->g, r->size, r->x, axes, r->batched, out);
    free(axes);
    return bad;
}

/* Both branches of a rule; what is filled in after this is the same for both. */
struct cond_rule {
    struct branch_rule yes, no;
    mx *x;
    int *at;
};

static int cond_rule(struct cond_rule *r, const struct call *c, const struct branch_rule *shared)
{
    const struct cond_args *a = c->args;
    int n = c->nin;
    *r = (struct cond_rule){ *shared, *shared, mx_zeroed(n + n, sizeof(mx)), mx_zeroed(n + n, sizeof(int)) };
    if (!r->x || !r->at)
        return 1;
    r->yes.g = graph_in(a->yes);
    r->no.g = graph_in(a->no);
    branch(a, true, c->nin, c->x, r->x);
    branch(a, false, c->nin, c->x, r->x + n);
    for (int i = 0; i < c->nin; i++) {
        r->at[i] = i + 1;
        r->at[c->nin + i] = i < a->n ? i + 1 : i + 1 + a->n_yes;
    }
    r->yes.x = r->x;
    r->no.x = r->x + n;
    r->yes.at = r->at;
    r->no.at = r->at + n;
    return 0;
}

static void cond_rule_free(struct cond_rule *r)
{
    free(r->x);
    free(r->at);
}

static void cond_vjp(const struct call *c, const mx ct[], const bool want[], mx dx[])
{
    struct mx_list out = { 0 };
    bool *wanted = mx_zeroed(c->nin, sizeof *wanted), any = false, some = false;
    mx *cts = wanted ? mx_zeroed(c->nout, sizeof *cts) : NULL;
    for (int i = 1; i < c->nin && cts; i++) any |= wanted[i] = want[i];
    for (int k = 0; k < c->nout && cts; k++) some |= (cts[k] = ct[k]) != NULL;
    struct branch_rule shared = {
        .closure = { { .refs = 1 }, cond_vjp_branch }, .ct = cts, .want = wanted, .t = c->x, .n_ops = c->nin
    };
    struct cond_rule r = { 0 };
    if (any && some && !cond_rule(&r, c, &shared) && !mx_cond(c->x[0], &r.yes.closure, &r.no.closure, 0, NULL, &out))
        for (int i = 0, k = 0; i < c->nin; i++)
            if (wanted[i])
                dx[i] = list_lent(&out, k++);
    cond_rule_free(&r);
    free(cts);
    list_clear(&out);
    free(wanted);
}

static void cond_jvp(const struct call *c, const mx t[], mx dy[])
{
    struct mx_list out = { 0 };
    struct branch_rule shared = { .closure = { { .refs = 1 }, cond_jvp_branch }, .t = t };
    struct cond_rule r = { 0 };
    bool any = false;
    for (int i = 1; i < c->nin; i++) any |= t[i] != NULL;
    if (any && !cond_rule(&r, c, &shared) && !mx_cond(c->x[0], &r.yes.closure, &r.no.closure, 0, NULL, &out))
        for (int k = 0; k < c->nout; k++) dy[k] = list_lent(&out, k);
    cond_rule_free(&r);
    list_clear(&out);
}

/* Which results depend on the batch in either branch. */
static int cond_batched(const struct cond_rule *r, const int axis[], bool *out)
{
    const struct branch_rule *branches[2] = { &r->yes, &r->no };
    int n = r->yes.g->n_out, bad = 0;
    for (int b = 0; b < 2 && !bad; b++) {
        const struct graph *g = branches[b]->g;
        bool *v = mx_zeroed(g->n_in + n, sizeof *v);
        for (int i = 0; i < g->n_in && v; i++) v[i] = axis[branches[b]->at[i]] >= 0;
        bad = !v || graph_spread(g, v, v + g->n_in, false);
        for (int k = 0; k < n && !bad; k++) out[k] |= v[g->n_in + k];
        free(v);
    }
    return bad;
}

static void cond_vmap(const struct call *c, const int axis[], mx y[], int yaxis[])
{
    int size = batch_size(c, axis).now, nout = c->nout;
    struct mx_list out = { 0 }, other = { 0 };
    bool *batched = mx_zeroed(nout, sizeof *batched), differs = axis[0] >= 0;
    struct branch_rule shared = {
        .closure = { { .refs = 1 }, cond_map_branch }, .axes = axis, .batched = batched, .size = size
    };
    struct cond_rule r = { 0 };
    int bad = !batched || cond_rule(&r, c, &shared) || cond_batched(&r, axis, batched);
    if (!bad && differs)
        bad = cond_map_branch(&r.yes.closure, 0, NULL, &out) || cond_map_branch(&r.no.closure, 0, NULL, &other);
    else if (!bad)
        bad = mx_cond(c->x[0], &r.yes.closure, &r.no.closure, 0, NULL, &out);
    for (int k = 0; k < nout; k++) {
        y[k] = bad ? MX_NIL : list_lent(&out, k);
        yaxis[k] = bad || (!batched[k] && !differs) ? -1 : 0;
        if (!bad && differs) {
            mx a = y[k], b = list_lent(&other, k);
            a = batched[k] ? a : batch_all(a, -1, size_is(size));
            b = batched[k] ? b : batch_all(b, -1, size_is(size));
            y[k] = mx_where(lifted_like(c->x[0], a), a, b);
        }
    }
    cond_rule_free(&r);
    list_clear(&other);
    list_clear(&out);
    free(batched);
}

static const struct field cond_args_fields[] = {
    FIELD(cond_args, yes), FIELD(cond_args, no), FIELD(cond_args, n), FIELD(cond_args, n_yes), { 0 },
};

static bool cond_fits(const struct call *c)
{
    const struct cond_args *a = c->args;
    return a->n >= 0 && a->n_yes >= 0 && 1 + (int64_t)a->n + a->n_yes <= c->nin;
}

static int cond_rebuild(const struct call *c, struct closure *const of[], struct mx_list *out)
{
    const struct cond_args *a = c->args;
    int from = 1 + a->n + a->n_yes;
    struct capturing yes = capturing(of[0], a->n_yes, c->x + 1 + a->n),
                     no = capturing(of[1], c->nin - from, c->x + from);
    return mx_cond(c->x[0], &yes.closure, &no.closure, a->n, c->x + 1, out);
}

const struct op op_cond = {
    OP_ROW(cond),    ARGS(cond_args),   .shapes = cond_shapes, .vjp = cond_vjp,
    .jvp = cond_jvp, .vmap = cond_vmap, .fits = cond_fits,     .rebuild = cond_rebuild,
};
